"""PrivateRange, the Hadamard rotation and the winsorised means."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.frozen_draws import FrozenDraws
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from scipy.stats import chisquare

from skprivate.papers.user_level import (
    RandomRotation,
    coordinate_epsilon,
    hadamard_transform,
    private_range,
    rotated_radius,
    winsorized_mean,
    winsorized_mean_1d,
)
from skprivate.privacy import open_release
from skprivate.privacy._events import run_tape
from skprivate.user_level._ranges import (
    SCALES,
    _runs,
    n_bins,
    scale_counts,
    select_median_scale,
    selection_epsilon,
    snap,
)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(-20, 20), min_size=1, max_size=15), st.floats(0.3, 3.0))
def test_runs_of_bins_have_the_cost_of_algorithm_1(x, tau):
    bound = 10.0
    x = np.array(x)
    total = n_bins(bound, tau)
    midpoints = -bound + (2 * np.arange(total) + 1) * tau
    snapped = midpoints[snap(x, tau, bound)]
    direct = np.array([max((snapped < c).sum(), (snapped > c).sum()) for c in midpoints])
    occupied, counts = np.unique(snap(x, tau, bound), return_counts=True)
    grouped = np.full(total, -1)
    for start, length, cost in zip(*_runs(occupied, counts, total), strict=True):
        assert (grouped[start : start + length] == -1).all()
        grouped[start : start + length] = cost
    np.testing.assert_array_equal(grouped, direct)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=12), st.floats(-20, 20), st.integers(0, 11))
def test_replacing_one_value_moves_every_cost_by_at_most_one(x, value, position):
    def costs(values):
        snapped = snap(np.array(values), 0.5, 10.0)
        bins = np.arange(n_bins(10.0, 0.5))
        return np.maximum((snapped[:, None] < bins).sum(0), (snapped[:, None] > bins).sum(0))

    neighbour = list(x)
    neighbour[position % len(x)] = value
    assert np.abs(costs(x) - costs(neighbour)).max() <= 1
    larger = costs([*x, value]) - costs(x)
    assert larger.min() >= 0 and larger.max() <= 1


@pytest.mark.slow
def test_private_range_draws_the_exponential_mechanism():
    # 4 bins, values in two of them: the exact distribution is known.
    x = np.array([-3.5, -3.5, -3.5, 0.5, 0.5])
    tau, bound, epsilon, n_draws = 1.0, 4.0, 1.0, 4000
    midpoints = np.array([-3.0, -1.0, 1.0, 3.0])
    costs = np.array([max(0, 2), max(3, 2), max(3, 0), max(5, 0)])
    probabilities = np.exp(-epsilon * costs / 2)
    probabilities /= probabilities.sum()
    for seed in (0, 1):
        release = open_release(
            epsilon=n_draws * epsilon * 1.01, unit="user", adjacency="replace-one", random_state=seed
        )
        found = np.zeros(4)
        for _ in range(n_draws):
            low, high = private_range(x, epsilon=epsilon, tau=tau, bound=bound, release=release)
            assert high - low == pytest.approx(4 * tau)
            found[np.argmin(np.abs(midpoints - (low + high) / 2))] += 1
        assert chisquare(found, probabilities * n_draws).pvalue > 1e-7


def test_private_range_finds_a_narrow_spot_in_a_range_of_1e9_in_no_time():
    rng = np.random.default_rng(0)
    x = 123_456_789.0 + rng.normal(scale=1e-3, size=1000)
    release = open_release(epsilon=1.0, unit="user", adjacency="replace-one", random_state=0)
    low, high = private_range(x, epsilon=1.0, tau=1e-2, bound=1e9, release=release)
    # A loop over 1e11 bins would never end.
    assert low <= 123_456_789.0 <= high


def test_median_scale_is_found_and_ties_cost_nothing(recording_release):
    release = recording_release(0)
    everybody_alike = np.full(1000, 3.0)
    scale = select_median_scale(scale_counts(everybody_alike), epsilon=0.2, release=release, monotone=False)
    assert abs(math.log2(scale / 3.0)) <= 0.25
    assert release.draws[0]["value"].max() == 0
    spread = np.exp(np.random.default_rng(1).normal(size=4000))
    for seed in range(5):
        scale = select_median_scale(
            scale_counts(spread),
            epsilon=selection_epsilon(4000, len(SCALES), monotone=False),
            release=recording_release(seed),
            monotone=False,
        )
        assert 0.3 < scale < 3.0


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_fast_transform_is_the_hadamard_matrix(d):
    x = np.random.default_rng(d).normal(size=(3, d))
    np.testing.assert_allclose(hadamard_transform(x.copy()), x @ hadamard(d) / math.sqrt(d), atol=1e-12)


def test_fast_transform_refuses_other_lengths():
    with pytest.raises(ValueError, match="power of two"):
        hadamard_transform(np.ones(3))


@pytest.mark.parametrize("d", [1, 3, 8, 100])
def test_rotation_preserves_norms_and_inverts(d):
    rotation = RandomRotation(d, np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(5, d))
    y = rotation.forward(x)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x, axis=1))
    np.testing.assert_allclose(rotation.backward(y), x, atol=1e-12)


def test_rotation_spreads_a_single_coordinate():
    x = np.zeros((1, 256))
    x[0, 17] = 1.0
    np.testing.assert_allclose(np.abs(RandomRotation(256, np.random.default_rng(0)).forward(x)), 1 / 16)


def test_algorithm_2_clips_and_draws_what_the_paper_says(recording_release):
    x = np.random.default_rng(0).normal(scale=0.1, size=500)
    x[0] = 1e8
    release = recording_release(0, noise=0.0)
    mean = winsorized_mean_1d(x, epsilon=2.0, tau=0.5, bound=1e9, release=release)
    selection, laplace = release.draws
    assert selection["epsilon"] == 1.0
    # Lap(8τ/(nε)): sensitivity 4τ/n at ε/2, in steps of 2τ·2⁻²⁹ of the sum.
    step = 2 * 0.5 * 2.0**-29 / 500
    assert laplace["sensitivity"] * step / laplace["epsilon"] == pytest.approx(8 * 0.5 / (500 * 2.0))
    assert abs(mean - x[1:].mean()) < 2 * 0.5 * 3 / 500


def test_algorithm_3_matches_the_plain_mean_on_concentrated_data(recording_release):
    x = 5.0 + np.random.default_rng(0).normal(scale=0.1, size=(800, 6))
    mean = winsorized_mean(
        x, epsilon=200.0, delta=1e-6, tau=1.0, bound=1e6, gamma=0.05, release=recording_release(0, noise=0.0)
    )
    np.testing.assert_allclose(mean, x.mean(axis=0), atol=1e-7)  # steps of 2⁻²⁹ half intervals


def test_paper_constants():
    assert coordinate_epsilon(1.0, 1e-6, 16) == pytest.approx(1.0 / math.sqrt(8 * 16 * math.log(1e6)))
    assert rotated_radius(2.0, 16, 100, 0.1) == pytest.approx(10 * 2.0 * math.sqrt(math.log(16_000) / 16))


def as_written(x, middle, tau):
    """One number's contribution in exact arithmetic: its offset from the middle, clipped, in steps, towards zero."""
    offset = Fraction(float(x)) - Fraction(middle)  # the float64 offset errs by half a unit in its last place
    half = 2 * Fraction(tau)
    return math.trunc(max(-half, min(half, offset)) / half * 2**29)


def sum_of(x, tau, bound, seed=0):
    """The integers that are released for the mean of ``x``, their sensitivity, and the interval's middle."""
    tape = FrozenDraws(seed)
    with run_tape(tape):
        release = open_release(epsilon=1.0, unit="user", adjacency="replace-one")
    mean = winsorized_mean_1d(np.array(x), epsilon=1.0, tau=tau, bound=bound, release=release)
    (selection,), (laplace,) = tape.kinds("select"), tape.kinds("laplace")
    assert int(np.sum(selection.options["multiplicity"])) == n_bins(bound, tau)
    assert laplace.statistic.dtype == np.int64 and isinstance(laplace.sensitivity, int)
    middle = mean - 2 * tau * (float(laplace.statistic) * 2.0**-29 / len(x))
    return int(laplace.statistic), laplace.sensitivity, middle


extreme = st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(1e-12, 1e12),
    st.floats(0.0, 60.0),
    st.lists(st.floats(-3.0, 3.0) | extreme, min_size=1, max_size=8),
    extreme,
    extreme,
    st.integers(0, 5),
)
def test_one_user_moves_the_sum_by_its_own_contribution_and_no_more(tau, log_ratio, offsets, value, other, seed):
    bound = tau * 2.0**log_ratio
    _, sensitivity, middle = sum_of([0.0], tau, bound, seed)
    assert sensitivity == 2**30
    rest = [middle + tau * offset for offset in offsets]
    one, another = sum_of([value, *rest], tau, bound, seed)[0], sum_of([other, *rest], tau, bound, seed)[0]
    assert abs(one - another) <= sensitivity
    # Contributions are those that the users have alone, in any company and order.
    alone = [sum_of([x], tau, bound, seed)[0] for x in (value, other)]
    assert all(abs(contribution) <= 2**29 for contribution in alone)
    assert one - another == alone[0] - alone[1]
    assert sum_of([*rest[::-1], value], tau, bound, seed)[0] == one
    # The two ends of the interval are as far apart as the noise is for.
    high, low = (sum_of([math.inf, *rest], tau, bound, seed)[0], sum_of([-math.inf, *rest], tau, bound, seed)[0])
    assert high - low == sensitivity


@settings(deadline=None, max_examples=100)
@given(st.floats(-10.0, 10.0), st.floats(1e-3, 1e3), st.integers(0, 3))
def test_contributions_are_offsets_from_the_middle(x, tau, seed):
    steps, _, middle = sum_of([x], tau, 1e3 * tau, seed)
    assert abs(steps - as_written(x, middle, tau)) <= 2 + abs(middle / tau) * 2.0**-20


@pytest.mark.parametrize(("tau", "place"), [(1e-6, 1e9), (1e-7, 123456789.0)])
def test_means_far_from_zero_keep_their_sensitivity(tau, place, recording_release):
    # As float64 means they moved by 2.9 and 3.8 times the sensitivity.
    x = place + tau * np.random.default_rng(0).normal(size=100)
    draws = []
    for value in (-1e10, 1e10):
        x[50] = value
        release = recording_release(5, noise=0.0)
        winsorized_mean_1d(x, epsilon=5e4, tau=tau, bound=1e10, release=release)
        draws.append(release.draws[-1])
    distance = abs(Fraction(float(draws[0]["value"])) - Fraction(float(draws[1]["value"])))
    assert 0 < distance <= Fraction(draws[0]["sensitivity"]) == Fraction(draws[1]["sensitivity"])


@settings(deadline=None, max_examples=200)
@given(st.lists(extreme, min_size=1, max_size=9), st.floats(1e-300, 1e300), st.floats(0.0, 62.0))
def test_bins_are_functions_of_one_value_that_rise_with_it(x, bound, log_ratio):
    tau = bound * 2.0**-log_ratio
    x = np.array(x)
    index = snap(x, tau, bound)
    assert index.min() >= 0 and index.max() < n_bins(bound, tau)
    assert index.tolist() == [int(snap(x[i : i + 1], tau, bound)[0]) for i in range(len(x))]
    assert (np.diff(index[np.argsort(np.nan_to_num(x, nan=0.0), kind="stable")]) >= 0).all()
    starts, lengths, _ = _runs(*np.unique(index, return_counts=True), n_bins(bound, tau))
    assert starts[0] == 0 and (starts[1:] == starts[:-1] + lengths[:-1]).all()
    assert int(starts[-1]) + int(lengths[-1]) == n_bins(bound, tau)


@pytest.mark.parametrize(
    ("bound", "tau"), [(1e20, 1.0), (1.0, 5e-324), (math.inf, 1.0), (1e308, 1e308), (1.0, math.nan)]
)
def test_intervals_that_cannot_be_numbered_are_refused_by_name(bound, tau, recording_release):
    release = recording_release()
    with pytest.raises(ValueError, match=r"radius.* got"):
        private_range(np.zeros(3), epsilon=1.0, tau=tau, bound=bound, release=release)
    assert release.draws == []


@settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(extreme, min_size=5, max_size=5), min_size=1, max_size=6), st.randoms(), st.booleans())
def test_rotated_vectors_do_not_depend_on_their_company(rows, random, fortran):
    rotation = RandomRotation(5, np.random.default_rng(0))
    x = np.array(rows)
    order = random.sample(range(len(x)), len(x))
    with np.errstate(all="ignore"):
        together = rotation.forward(np.asfortranarray(x) if fortran else x)
        permuted = rotation.forward(x[order])
        alone = np.concatenate([rotation.forward(x[i : i + 1]) for i in range(len(x))])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(permuted, together[order])


def test_extreme_users_cause_no_warning(recording_release):
    x = np.random.default_rng(0).normal(size=(50, 3))
    x[:4] = [[1.7e308] * 3, [math.inf, -math.inf, 0.0], [math.nan] * 3, [5e-324, -1.7e308, 1.7e308]]
    mean = winsorized_mean(
        x, epsilon=1e4, delta=1e-6, tau=1.0, bound=1e6, gamma=0.05, release=recording_release(0, noise=0.0)
    )
    assert np.isfinite(mean).all()
