"""Counts, the utility bound and the planning function."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest

from skprivate.mixture import ppm_sample_size
from skprivate.mixture._planning import (
    log_count_exact_hypotheses,
    log_count_hypotheses,
    selection_loss,
)


@pytest.mark.parametrize(("n", "r"), [(0, 2), (1, 1), (10, 0), (10, 3), (3, 5), (10100, 2)])
def test_log_count_of_hypotheses(n, r):
    exact = sum(comb(n, k) for k in range(min(n, r) + 1)) + 1
    assert log_count_hypotheses(n, r) == pytest.approx(log(exact), rel=1e-12)


def test_log_count_of_huge_families_stays_finite():
    assert log_count_exact_hypotheses(10**6, 20) == pytest.approx(
        log_count_exact_hypotheses(10**6 + 1, 20), rel=1e-6
    )
    assert log_count_exact_hypotheses(0, 3) == 0.0
    # 100 public points in the plane: 10 100 candidates.
    assert log_count_exact_hypotheses(100, 2) == pytest.approx(log(1 + 1 + 10100 + comb(10100, 2)))


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("beta", [0.5, 0.1, 0.01])
def test_lemma_4_6_against_exact_probabilities(monotone, beta):
    """The mass beyond the bound, computed from the probabilities themselves, is at most beta."""
    rng = np.random.default_rng(0)
    for epsilon in (0.1, 1.0, 5.0):
        for errors in (
            rng.integers(0, 60, 400),
            np.append(0, np.full(399, 7)),
            np.append(0, np.full(399, 60)),
        ):
            rate = epsilon if monotone else epsilon / 2
            weights = np.exp(-rate * (errors - errors.min()))
            bound = errors.min() + selection_loss(log(400), epsilon, beta, monotone=monotone)
            assert weights[errors > bound].sum() / weights.sum() <= beta


@pytest.mark.parametrize("setting", ["realizable", "agnostic"])
def test_sample_size_is_monotone_in_every_argument(setting):
    def size(d=2, epsilon=1.0, **keywords):
        return ppm_sample_size(
            d, epsilon, **{"setting": setting, "error": 0.1, "confidence": 0.9, **keywords}
        )

    assert size() < size(d=3) < size(d=6)
    assert size() < size(epsilon=0.1)
    assert size() < size(error=0.05)
    assert size() < size(confidence=0.999)
    assert size(adjacency="add-remove") < size()


def test_sample_size_grows_as_the_theorems_say():
    """Up to logarithms: 1/(εα) realizable; 1/α² for large ε and 1/(εα) for small ε agnostic."""
    for epsilon, alpha in [(1.0, 0.1), (0.1, 0.1), (1.0, 0.01)]:
        ratio = ppm_sample_size(2, epsilon, error=alpha / 4, setting="realizable") / ppm_sample_size(
            2, epsilon, error=alpha, setting="realizable"
        )
        assert 4 < ratio < 8
    ratio = ppm_sample_size(2, 100.0, error=0.01) / ppm_sample_size(2, 100.0, error=0.04)
    assert 16 < ratio < 24
    ratio = ppm_sample_size(2, 0.001, error=0.1) / ppm_sample_size(2, 0.001, error=0.4)
    assert 4 < ratio < 8


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"error": 1.0}, "error must be in"),
        ({"confidence": 0.0}, "confidence must be in"),
        ({"setting": "other"}, "setting must be"),
        ({"adjacency": "other"}, "adjacency must be"),
    ],
)
def test_bad_arguments(keywords, message):
    with pytest.raises(ValueError, match=message):
        ppm_sample_size(**{"n_features": 2, "epsilon": 1.0, **keywords})
