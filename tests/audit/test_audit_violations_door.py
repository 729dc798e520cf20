"""What the search for violations measures at the door: every kind of draw, exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from skprivate.audit.claims._violations_door import door_share

from skprivate import MetricPrivatizer, PPMHalfspaceClassifier
from skprivate.audit import find_violation
from skprivate.privacy import open_release

ROWS = np.array([[0.1], [0.4], [0.4], [0.9], [0.6], [0.1]])


class _Draws(BaseEstimator):
    """Draws one statistic of the rows, with ``share`` of the sensitivity that it has."""

    unit, adjacency = "row", "replace-one"

    def __init__(self, epsilon=1.0, share=1.0, random_state=None):
        self.epsilon = epsilon
        self.share = share
        self.random_state = random_state

    def fit(self, X, y=None):
        place = np.nan_to_num(np.asarray(X, dtype=float)[:, 0], nan=0.0, posinf=1.0, neginf=0.0)
        options = {} if self.adjacency != "metric" else {"metric": "wasserstein-1, l1"}
        with open_release(
            epsilon=self.epsilon,
            unit=self.unit,
            adjacency=self.adjacency,
            random_state=self.random_state,
            **options,
        ) as release:
            self.drawn_ = self.draw(release, np.clip(place, 0.0, 1.0))
        return self


class Choice(_Draws):
    """The more frequent of three thirds of the unit interval: one row changes each count by one."""

    def draw(self, release, place):
        counts = np.bincount(np.minimum((place * 3).astype(int), 2), minlength=3)
        return release.select(counts, sensitivity=self.share, epsilon=self.epsilon)


class PooledChoice(_Draws):
    """The same, by the number of candidates that share a count."""

    def draw(self, release, place):
        scores, sizes = np.unique(
            np.bincount(np.minimum((place * 3).astype(int), 2), minlength=3), return_counts=True
        )
        category, _ = release.select(
            scores, sensitivity=self.share, epsilon=self.epsilon, multiplicity=sizes.tolist()
        )
        return float(category >= 0)  # which pool it is in would tell of others


class Histogram(_Draws):
    """One row leaves a cell and enters another one."""

    def draw(self, release, place):
        counts = np.bincount(np.minimum((place * 4).astype(int), 3), minlength=4)
        return release.discrete_laplace(counts, sensitivity=max(1, int(2 * self.share)), epsilon=self.epsilon)


class Flow(_Draws):
    """Mass of 2¹⁶ steps a row, split between the two nearest of nine points; a mean distance of 1 moves 8 edges."""

    unit, adjacency = "data set", "metric"

    def draw(self, release, place):
        steps = np.floor(place * 8 * 2**16).astype(np.int64)
        cell, part = np.divmod(steps, 2**16)
        mass = np.zeros(10, dtype=np.int64)
        np.add.at(mass, cell, 2**16 - part)
        np.add.at(mass, cell + 1, part)
        sensitivity = self.share * 8 * 2**16 * len(place)
        return release.flow_laplace(mass, sensitivity=sensitivity, epsilon=self.epsilon).astype(float)


def search(subject, **options):
    metric = "l1" if subject.adjacency == "metric" else None
    claim = {
        "epsilon": 1.0,
        "delta": 0.0,
        "unit": subject.unit,
        "adjacency": subject.adjacency,
        "metric": metric,
    }
    settings = [{"bounds": (0.0, 1.0)}] if metric else [{}]
    return find_violation(subject, ROWS, settings=settings, random_state=0, **claim, **options)


@pytest.mark.parametrize("subject", [Choice, PooledChoice, Histogram, Flow])
def test_half_the_sensitivity_is_found_at_the_door(subject):
    exact, halved = (search(subject(share=share), max_pairs=25) for share in (1.0, 0.5))
    assert exact.n_watched >= 5
    assert 0.0 < exact.door_share <= 1.0
    assert halved.door_share == pytest.approx(2 * exact.door_share, rel=0.02)
    assert halved.door_share > 1.0
    assert "at the door at most" in str(halved)


def test_pooled_candidates_do_not_pass_for_other_candidates():
    """Errors that tie are one pool: how many pools there are tells nothing of how many candidates there are."""
    X, y = np.zeros((8, 2)), np.arange(8) % 2
    far = X.copy()
    far[-1, 0] = 1.0
    classifier = PPMHalfspaceClassifier(random_state=0)
    share = door_share(lambda rows: classifier.fit(rows, y, private=y == 1), X, far, None)
    assert 0.0 <= share <= 1.0


class LeavesItsRows(Histogram):
    """A draw, and beside it a number of the rows."""

    def draw(self, release, place):
        return [super().draw(release, place), place.sum()]


class DrawsByTheRows(Histogram):
    """One draw more if the rows say so."""

    def draw(self, release, place):
        half = place.sum() > 3.0
        parts = [release.discrete_laplace(len(place), sensitivity=1, epsilon=0.5)] if half else []
        return [*parts, release.discrete_laplace(len(place), sensitivity=1, epsilon=0.5)]


@pytest.mark.parametrize("fault", [LeavesItsRows, DrawsByTheRows])
def test_what_is_no_draw_is_seen_at_the_door(fault):
    report = search(fault(), max_pairs=25)
    assert report.door_share == math.inf


def test_rows_that_are_randomised_in_transform_are_watched():
    report = find_violation(MetricPrivatizer(), max_pairs=12, max_seconds=60, random_state=0)
    assert report.n_watched > 0
    assert 0.0 < report.door_share <= 1.0


def test_what_draws_nowhere_is_not_measured():
    class Plain(BaseEstimator):
        def __init__(self, epsilon=1.0, random_state=None):
            self.epsilon = epsilon
            self.random_state = random_state

        def fit(self, X, y=None):
            self.sum_ = np.random.default_rng(self.random_state).laplace()
            return self

    report = find_violation(Plain(), max_pairs=3, random_state=0)
    assert report.door_share is None
    assert report.n_watched == 0


def test_fits_too_slow_to_be_repeated_are_still_watched():
    report = search(Choice(share=0.5), max_pairs=6, max_seconds=0.2)
    assert report.n_watched > 0
