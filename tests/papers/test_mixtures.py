"""Counts, the utility bound and the planning function."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from skprivate import PPMHalfspaceClassifier
from skprivate.papers.mixtures import (
    candidate_halfspaces,
    learn_mixture,
    log_hypothesis_count,
    sample_size,
    selection_loss,
)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 1), (10, 2), (3, 5), (8, 3)])
def test_log_count_of_hypotheses(n, d):
    candidates = 2 * sum(comb(n, k) for k in range(1, d + 1))
    exact = sum(comb(candidates, k) for k in range(min(candidates, d) + 1)) + 1
    assert log_hypothesis_count(n, d) == pytest.approx(log(exact), rel=1e-12)
    normals, offsets = candidate_halfspaces(np.random.default_rng(0).normal(size=(n, d)))
    if n >= d:
        assert len(normals) == len(offsets) == candidates


def test_log_count_of_huge_families_stays_finite():
    assert log_hypothesis_count(10**6, 20) == pytest.approx(log_hypothesis_count(10**6 + 1, 20), rel=1e-6)
    assert log_hypothesis_count(0, 3) == 0.0
    # 100 public points in the plane: 10 100 candidates.
    assert log_hypothesis_count(100, 2) == pytest.approx(log(1 + 1 + 10100 + comb(10100, 2)))


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("beta", [0.5, 0.1, 0.01])
def test_lemma_4_6_against_exact_probabilities(monotone, beta):
    """The mass beyond the bound, computed from the probabilities themselves, is at most beta."""
    rng = np.random.default_rng(0)
    for epsilon in (0.1, 1.0, 5.0):
        for errors in (rng.integers(0, 60, 400), np.append(0, np.full(399, 7)), np.append(0, np.full(399, 60))):
            rate = epsilon if monotone else epsilon / 2
            weights = np.exp(-rate * (errors - errors.min()))
            bound = errors.min() + selection_loss(log(400), epsilon, beta, monotone=monotone)
            assert weights[errors > bound].sum() / weights.sum() <= beta


@pytest.mark.parametrize("setting", ["realizable", "agnostic"])
def test_sample_size_is_monotone_in_every_argument(setting):
    def size(d=2, epsilon=1.0, **keywords):
        return sample_size(d, epsilon, **{"setting": setting, "error": 0.1, "confidence": 0.9, **keywords})

    assert size() < size(d=3) < size(d=6)
    assert size() < size(epsilon=0.1)
    assert size() < size(error=0.05)
    assert size() < size(confidence=0.999)
    assert size(adjacency="add-remove") < size()


def test_sample_size_grows_as_the_theorems_say():
    """Up to logarithms: 1/(εα) realizable; 1/α² for large ε and 1/(εα) for small ε agnostic."""
    for epsilon, alpha in [(1.0, 0.1), (0.1, 0.1), (1.0, 0.01)]:
        ratio = sample_size(2, epsilon, error=alpha / 4, setting="realizable") / sample_size(
            2, epsilon, error=alpha, setting="realizable"
        )
        assert 4 < ratio < 8
    ratio = sample_size(2, 100.0, error=0.01) / sample_size(2, 100.0, error=0.04)
    assert 16 < ratio < 24
    ratio = sample_size(2, 0.001, error=0.1) / sample_size(2, 0.001, error=0.4)
    assert 4 < ratio < 8


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"epsilon": 0.0}, "epsilon must be a positive"),
        ({"error": 1.0}, "error must be in"),
        ({"confidence": 0.0}, "confidence must be in"),
        ({"setting": "other"}, "setting must be"),
        ({"adjacency": "other"}, "adjacency must be"),
    ],
)
def test_bad_arguments(keywords, message):
    with pytest.raises(ValueError, match=message):
        sample_size(**{"n_features": 2, "epsilon": 1.0, **keywords})


def test_candidates_hold_their_points_on_the_boundary():
    points = np.random.default_rng(1).normal(size=(6, 3))
    normals, offsets = candidate_halfspaces(points)
    on = np.abs(normals @ points.T - offsets[:, None]) < 1e-9
    assert sorted(np.bincount(on.sum(axis=1))[1:]) == sorted([2 * comb(6, k) for k in (1, 2, 3)])
    np.testing.assert_array_equal(normals[0::2], -normals[1::2])


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_algorithm_2_has_the_law_of_the_classifier(d):
    """Numbers of training errors of 300 draws each; chi-square, p > 1e-4."""
    rng = np.random.default_rng(d)
    X = np.r_[rng.normal(size=(6, d)) - 0.5, rng.normal(size=(7, d)) + 0.5]
    y = np.r_[np.zeros(6, int), np.ones(7, int)]
    errors = np.zeros((2, len(y) + 1))
    for seed in range(300):
        ours = PPMHalfspaceClassifier(0.7, strategy="exact", random_state=seed, classes=[0, 1], private_label=1)
        for k, model in enumerate((learn_mixture(X, y, y == 1, epsilon=0.7, random_state=1000 + seed), ours.fit(X, y))):
            errors[k, (model.predict(X) != y).sum()] += 1
    common = errors.sum(axis=0) >= 20
    assert chi2_contingency(errors[:, common]).pvalue > 1e-4


def test_without_public_rows_all_is_private():
    h = learn_mixture(np.ones((5, 2)), np.ones(5, int), np.ones(5, bool), epsilon=1.0, random_state=0)
    assert h.normals is None and h.predict([[0.0, 0.0]]).tolist() == [1]


def test_lemma_4_5_in_the_plane():
    """Without noise to speak of, no halfspace through random directions is better."""
    rng = np.random.default_rng(4)
    X = np.r_[rng.normal(size=(7, 2)) - 0.4, rng.normal(size=(9, 2)) + 0.4]
    y = np.r_[np.zeros(7, int), np.ones(9, int)]
    h = learn_mixture(X, y, y == 1, epsilon=1e4, random_state=0)
    assert h.guarantee.epsilon == 1e4 and str(h.guarantee.unit) == "private row"
    scores = X @ rng.normal(size=(2, 3000))
    least = min((y != (scores > b).T).sum(axis=1).min() for b in np.quantile(scores, np.linspace(0, 1, 40)))
    assert (h.predict(X) != y).sum() <= least
