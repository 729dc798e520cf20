"""Probabilities: bins from public rows, counts that cost what they say, shares that are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skprivate.datasets import load_credit_default
from skprivate.mixture import PPMHalfspaceClassifier
from skprivate.mixture._calibration import CalibratedDraw, Calibration, _monotone, margin_edges
from skprivate.privacy import PureEvent
from skprivate.privacy._tape import run_tape
from skprivate.utils.estimator_checks import check_mechanism, half_noise, replay

#: So large that counts carry no noise, except with probability e^-1000.
EXACT = 1e4


def line(n_public=400, n_private=300, seed=0):
    """Public rows at ages 18 to 90, private ones from 0 to 30: they overlap."""
    rng = np.random.default_rng(seed)
    ages = np.concatenate([rng.uniform(18, 90, n_public), rng.uniform(0, 30, n_private)])
    return ages[:, None], np.repeat([0, 1], [n_public, n_private])


def model(epsilon=EXACT, fraction=0.5, **keywords):
    parameters = {"private_label": 1, "calibration_fraction": fraction, "random_state": 0, **keywords}
    return PPMHalfspaceClassifier(epsilon, **parameters)


def test_without_a_fraction_there_are_no_probabilities_and_the_error_says_how_to_get_them():
    X, y = line()
    plain = model(1.0, None).fit(X, y)
    assert not hasattr(plain, "predict_proba") and plain.calibration_ is None
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as caught:
        plain.predict_proba(X)
    assert "set calibration_fraction" in str(caught.value.__cause__)
    with pytest.raises(NotFittedError, match="fit it again"):
        plain.set_params(calibration_fraction=0.2).predict_proba(X)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("strategy", ["exact", "greedy"])
def test_counts_and_halfspaces_share_the_budget(adjacency, strategy):
    X, y = line(60, 60)
    fitted = model(2.0, 0.25, adjacency=adjacency, classes=[0, 1], strategy=strategy).fit(X, y)
    guarantee = fitted.privacy_guarantee_
    assert guarantee.epsilon == pytest.approx(2.0)
    assert dict(guarantee.events)[PureEvent(0.5, "discrete Laplace")] == 1
    assert sum(draw.epsilon for draw in fitted.draws_) == pytest.approx(1.5)
    assert "discrete Laplace" in guarantee.theorem
    plain = model(1.5, None, adjacency=adjacency, classes=[0, 1], strategy=strategy).fit(X, y)
    np.testing.assert_array_equal(plain.halfspaces_.coefficients, fitted.halfspaces_.coefficients)
    assert plain.utility_bound(n_samples=9) == pytest.approx(fitted.utility_bound(n_samples=9))


@pytest.mark.parametrize("labels", [(0, 1), (1, 0)])
def test_probabilities_are_the_shares_among_training_rows(labels):
    """Without noise: the shares in each bin, half a row of each label added, and pooled."""
    X, y = line()
    y = np.array(labels)[y]
    fitted = model(private_label=labels[1]).fit(X, y)
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    of_private = probabilities[:, labels[1]]
    decision = fitted.decision_function(X)
    margin = -decision if labels[1] == 1 else decision
    edges, steps = fitted.calibration_
    assert 0.0 in edges and len(edges) >= 5 and (np.diff(steps) <= 0).all()
    # Wherever the share is the same, it is the share of the rows there (each bin adds half a row of each label).
    for step in np.unique(steps):
        n_bins = (steps == step).sum()
        here = np.isclose(of_private, step)
        assert step == pytest.approx(((y[here] == labels[1]).sum() + n_bins / 2) / (here.sum() + n_bins))
        lowest = np.append(-np.inf, edges)[np.flatnonzero(steps == step)[0]]
        assert (margin[here] >= lowest).all()
    assert of_private.mean() == pytest.approx(300 / 700, abs=0.02)


def test_a_mask_counts_private_rows_of_both_labels_and_public_rows_for_free():
    X, y = line()
    private = np.arange(len(y)) % 2 == 0
    fitted = model().fit(X, y, private=private)
    assert fitted.predict_proba(X)[:, 1].mean() == pytest.approx(300 / 700, abs=0.02)


@pytest.mark.parametrize("case", ["all private", "no boundary", "off the span"])
def test_probabilities_where_there_is_no_boundary(case):
    X, y = line()
    if case == "all private":
        fitted = model(classes=[0, 1]).fit(X, np.ones_like(y))
        assert fitted.all_private_ and (fitted.predict_proba(X)[:, 1] > 0.99).all()
    elif case == "no boundary":
        fitted = model(class_weight={0: 1000.0, 1: 1.0}).fit(X[::-1] * 0 + [[1.0]], y)
        np.testing.assert_allclose(fitted.predict_proba(X * 0 + 1)[:, 1], 300 / 700, atol=0.01)
    else:
        X = np.column_stack([X, np.where(y == 1, np.arange(len(y)), 0.0)])
        fitted = model().fit(X, y)
        np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], y, atol=0.02)


@given(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0]), max_size=60), st.integers(1, 20))
def test_bins_are_split_at_the_boundary_and_hold_enough_public_rows(margins, least):
    margins = np.array(margins)
    edges = margin_edges(margins, least)
    assert 0.0 in edges and (np.diff(edges) > 0).all() and edges.size <= 9
    counts = np.bincount(np.searchsorted(edges, margins, side="right"), minlength=edges.size + 1)
    # Ties may leave a bin with fewer; without, none but the two at the boundary may be smaller than asked.
    if len(set(margins)) == len(margins):
        assert (np.sort(counts)[2:] >= least - 1).all()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_pooled_shares_fall_and_keep_the_total(counts):
    private, public = np.array(counts, dtype=float).T
    shares = _monotone(private, public)
    assert (np.diff(shares) <= 0).all() and (shares > 0).all() and (shares < 1).all()
    assert np.sum(shares * (private + public + 1)) == pytest.approx(np.sum(private + 0.5))


def test_a_calibration_is_a_step_function():
    calibration = Calibration(np.array([-1.0, 0.0]), np.array([0.9, 0.6, 0.1]))
    np.testing.assert_array_equal(
        calibration(np.array([-np.inf, -1.0, -0.5, 0.0, 7.0])), [0.9, 0.6, 0.6, 0.1, 0.1]
    )
