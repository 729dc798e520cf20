"""Laplace flows as a draw: law, exactness, price, refusals."""

import math

import numpy as np
import pytest
from scipy import stats

from skprivate.privacy import open_release


def release(epsilon, seed=None, **keywords):
    keywords = {"adjacency": "metric", "metric": "test", **keywords}
    return open_release(epsilon=epsilon, unit="data set", random_state=seed, **keywords)


@pytest.mark.slow
@pytest.mark.parametrize("total", [3, 10**12])
def test_noise_on_two_nodes_is_one_laplace_variable(total):
    # Scale 4 units of mass at every lattice; the Kolmogorov-Smirnov test at level 1e-7 for each. On the
    # coarse lattice the law is discrete: P(k) ∝ exp(−|k|/12), compared cell by cell.
    mass = np.array([total, 2 * total], dtype=object)
    noise = [
        int(release(2.0, seed).flow_laplace(mass, sensitivity=8 * total, epsilon=2.0)[0]) - total
        for seed in range(3000)
    ]
    if total > 3:
        assert stats.kstest(np.array(noise, dtype=float) / total, stats.laplace(scale=4.0).cdf).pvalue > 1e-7
        return
    k = np.arange(-30, 31)
    law = np.exp(-np.abs(k) / 12) * math.tanh(1 / 24)
    counts = np.array([np.sum(np.array(noise) == value) for value in k])
    rest = 3000 - counts.sum()
    expected = np.append(law, 1 - law.sum()) * 3000
    assert stats.chisquare(np.append(counts, rest), expected).pvalue > 1e-7


@pytest.mark.slow
def test_noise_keeps_the_mass_exactly_and_has_the_covariance_of_a_laplacian():
    mass = np.arange(9).reshape(3, 3) * 2**40
    noise = np.array(
        [release(10.0, seed).flow_laplace(mass, sensitivity=2**43, epsilon=10.0) - mass for seed in range(3000)]
    ).reshape(-1, 9)
    assert noise.dtype == np.int64 and not noise.sum(axis=1).any()
    unit = noise / (2.0**43 / 10.0)
    covariance = unit.T @ unit / len(unit) / 2
    degree = np.array([2, 3, 2, 3, 4, 3, 2, 3, 2])
    np.testing.assert_allclose(np.diag(covariance), degree, rtol=0.25)
    assert covariance[0, 1] == pytest.approx(-1, abs=0.3)
    assert covariance[0, 4] == pytest.approx(0, abs=0.3)


def test_masses_beyond_int64_are_exact():
    mass = np.array([2**70, 5, -(2**70)], dtype=object)
    noisy = release(1.0, 0).flow_laplace(mass, sensitivity=1, epsilon=1.0)
    assert sum(noisy.tolist()) == 5 and max(abs(a - b) for a, b in zip(noisy, mass, strict=True)) < 200


def test_a_draw_is_priced_and_refused():
    opened = release(1.0, 0)
    with pytest.raises(TypeError, match="must be integers"):
        opened.flow_laplace([0.5, 0.5], sensitivity=1, epsilon=1.0)
    with pytest.raises(ValueError, match="one axis per dimension"):
        opened.flow_laplace(3, sensitivity=1, epsilon=1.0)
    with pytest.raises(ValueError, match="scale"):
        opened.flow_laplace([1, 2], sensitivity=2**60, epsilon=1.0)
    assert opened.close().events == ()
    opened = release(1.0, 0)
    opened.flow_laplace([1, 2], sensitivity=1, epsilon=1.0)
    assert opened.close().epsilon == 1.0


def test_a_release_without_a_metric_refuses():
    opened = release(1.0, 0, adjacency="replace-one", metric=None)
    with pytest.raises(ValueError, match="needs adjacency='metric'"):
        opened.flow_laplace([1, 2], sensitivity=1, epsilon=1.0)
    assert opened.close().epsilon == 0.0
