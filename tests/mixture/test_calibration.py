"""Probabilities: bins from public rows, counts that cost what they say, shares that are right."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.families import build_problem
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from skprivate.datasets import load_credit_default
from skprivate.mixture import PPMHalfspaceClassifier
from skprivate.mixture._calibration import CalibratedDraw, Calibration, _monotone, margin_edges
from skprivate.mixture._exact import ExactDraw
from skprivate.mixture._problem import ErrorWeights
from skprivate.privacy import PrivacyLedger, PureEvent
from skprivate.utils.estimator_checks import check_mechanism

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


def problem(X, y, private, adjacency="replace-one"):
    """A problem of rows (x, label, private?), with equal weights."""
    return build_problem(
        X,
        private=private,
        has_private_label=y == 1,
        weights=ErrorWeights(1, 1, 1),
        size_is_public=adjacency == "replace-one",
    )


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("labels_are_private", [False, True])
@pytest.mark.parametrize(("adjacency", "sensitivity"), [("replace-one", 2), ("add-remove", 1)])
def test_the_counts_move_by_what_was_paid_for(labels_are_private, adjacency, sensitivity):
    X, y = line(50, 40)
    private = (y == 1) & (np.arange(len(y)) != 60) if labels_are_private else y == 1
    first, last = np.flatnonzero(private)[[0, -1]]

    def others(data):
        for row in (first, last):
            if adjacency == "add-remove":
                kept = np.arange(len(y)) != row
                yield problem(X[kept], y[kept], private[kept], adjacency)
                continue
            for value in (-1e300, 5e-324, 18.5, 25.0, 60.0, 1e300):
                for label in (0, 1) if labels_are_private else (1,):
                    changed = [np.copy(array) for array in (X, y)]
                    changed[0][row], changed[1][row] = value, label
                    yield problem(*changed, private, adjacency)

    def mechanism(claimed):
        search = ExactDraw(1.0, 1, monotone=adjacency == "add-remove")
        return CalibratedDraw(search, 50.0, claimed, labels_are_private)

    def check(claimed):
        check_mechanism(
            mechanism(claimed),
            [problem(X, y, private, adjacency)],
            neighbours=others,
            unit="private row",
            adjacency=adjacency,
        )

    check(sensitivity)
    if sensitivity == 2:  # half of it would be wrong, and is found
        with pytest.raises(AssertionError):
            check(1)


def test_only_what_is_private_is_counted_with_noise():
    """Where no private row can carry the public label, its counts are those of public rows: exact."""
    X, y = line(400, 300)
    fits = [model(1.0, 0.001, random_state=seed).fit(X, y) for seed in range(5)]
    # With noise of scale 2000 on the counts of the private label only, shares are wrong but for the sums they imply.
    for fitted in fits:
        assert fitted.calibration_.edges.tolist() == [0.0]
        inside = fitted.decision_function(X[y == 0]) <= 0
        for step, n_public in zip(fitted.calibration_.probabilities, [(~inside).sum(), inside.sum()], strict=True):
            n_private = (step * (n_public + 1) - 0.5) / (1 - step)
            assert fitted.calibration_.probabilities[0] == fitted.calibration_.probabilities[1] or n_private == (
                pytest.approx(round(n_private), abs=1e-6)
            )


@pytest.mark.parametrize("epsilon", [2.0**-20, 1e-9, 1e9])
def test_far_too_much_and_far_too_little_noise(epsilon):
    X, y = line(40, 30)
    probabilities = model(epsilon, 0.5).fit(X, y).predict_proba(X)
    assert ((probabilities >= 0) & (probabilities <= 1)).all() and np.isfinite(probabilities).all()


def test_noise_beyond_the_sampler_is_refused_before_it_is_paid_for(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=1.0, unit="private row", adjacency="replace-one")
    with pytest.raises(ValueError, match=r"'epsilon' parameter .* in the range \[1e-12, inf\)"):
        model(1e-300, 0.5, ledger=ledger).fit(*line(40, 30))
    with pytest.raises(ValueError, match=r"leave 2\*\*-32 to every draw, got 1e-12. Nothing was spent"):
        model(1e-12, 0.001, ledger=ledger).fit(*line(40, 30))
    assert ledger.spent == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["exact", "greedy"])
def test_probabilities_hold_on_new_rows(strategy):
    """Each bin's share on fresh rows is within 6 standard deviations of both samples (< 1e-8 for each of 50 bins)."""
    for seed in range(5):
        X, y = line(100 if strategy == "exact" else 4000, 4000, seed)
        new_X, new_y = line(100_000 if strategy == "exact" else 4_000_000 // 100, 4_000_000 // 100, seed + 100)
        weight = np.where(new_y == 0, (y == 0).mean() / (new_y == 0).mean(), (y == 1).mean() / (new_y == 1).mean())
        fitted = model(100.0, 0.5, random_state=seed, strategy=strategy).fit(X, y)
        old, new = fitted.predict_proba(X)[:, 1], fitted.predict_proba(new_X)[:, 1]
        for step in np.unique(old):
            n_here = (old == step).sum()
            here = new == step
            share = np.average(new_y[here], weights=weight[here])
            assert abs(share - step) < 6 * np.sqrt(0.25 / n_here + 0.25 / here.sum()) + 2 / n_here


@pytest.mark.slow
def test_probabilities_of_clients_are_better_than_the_share_of_defaulters():
    X, y = load_credit_default(return_X_y=True)
    half = np.arange(len(y)) % 2 == 0
    fitted = model(1.0, 0.2, class_weight="balanced").fit(X[half], y[half])
    probabilities = fitted.predict_proba(X[~half])[:, 1]
    brier, of_share = np.mean((probabilities - y[~half]) ** 2), np.var(y[~half])
    assert brier < 0.155 < 0.17 < of_share
    assert 0 < len(np.unique(probabilities)) <= 10


def test_a_calibration_is_a_step_function():
    calibration = Calibration(np.array([-1.0, 0.0]), np.array([0.9, 0.6, 0.1]))
    np.testing.assert_array_equal(calibration(np.array([-np.inf, -1.0, -0.5, 0.0, 7.0])), [0.9, 0.6, 0.6, 0.1, 0.1])
