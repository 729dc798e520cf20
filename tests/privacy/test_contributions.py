"""Contributions of single units: bounded in integers, the same whatever stands beside them, and summed exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.every import every
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skprivate.privacy import (
    CONTRIBUTION_BITS,
    CONTRIBUTION_STEP,
    ball_contributions,
    exact_sum,
    interval_contributions,
    public_generator,
    upper_root,
)

MAX = float(np.finfo(np.float64).max)
SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.5e-162, 1e-154, 1e154, 1e300, MAX, -MAX, 1.0, math.pi]
FLOATS = st.one_of(st.sampled_from(SPECIAL), st.floats(allow_nan=False, allow_infinity=False))


def square_norms(contributions):
    """ℓ2 norms squared, of columns, in Python integers."""
    return [sum(int(value) ** 2 for value in column) for column in contributions.T.tolist()]


# exact_sum --------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.integers(1, 7))
def test_sums_are_exact_in_any_order_and_in_any_blocks(values, width):
    array = np.array(values, dtype=np.int64)
    assert int(exact_sum(array)) == sum(values)
    assert int(exact_sum(array[::-1])) == sum(values)
    if values:
        assert int(exact_sum([array[k : k + width] for k in range(0, len(values), width)])) == sum(values)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**1000), 2**1000), min_size=1, max_size=10))
def test_sums_of_integers_of_any_size(values):
    assert int(exact_sum(np.array(values, dtype=object))) == sum(values)


def test_sums_beyond_int64_do_not_wrap_around():
    block = np.full((2, 5), 2**62)
    block[1] = -(2**63)
    assert exact_sum(block).tolist() == [5 * 2**62, -5 * 2**63]
    assert exact_sum([block, block]).tolist() == [10 * 2**62, -10 * 2**63]
    # where float64 has no integers left
    assert int(exact_sum(np.array([2.0**53, 1.0, 1.0]))) == 2**53 + 2
    assert int(exact_sum(np.array([2.0**70, 1.0]))) == 2**70 + 1


def test_sums_keep_dtypes_shapes_and_refuse_what_is_not_integer():
    ones = np.ones((3, 4))
    assert exact_sum(ones).dtype == np.int64 and exact_sum(ones).tolist() == [4, 4, 4]
    assert exact_sum(ones, axis=0).tolist() == [3, 3, 3, 3]
    assert exact_sum(np.array([True, True])).item() == 2
    assert exact_sum(np.array([2**64 - 1, 1], dtype=np.uint64)).item() == 2**64
    assert exact_sum(np.zeros((3, 0))).tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match="integers"):
        exact_sum(np.array(["a"]))
    for bad in (np.array([0.5, 0.5]), np.array([math.nan]), np.array([math.inf])):
        with pytest.raises((TypeError, ValueError), match="integer"):
            exact_sum(bad)
    with pytest.raises(ValueError, match="at least one block"):
        exact_sum(iter([]))


def test_sums_of_blocks_with_a_stated_bound_do_not_wrap_around():
    block = np.full((1, 3), 2.0**60)
    for n_blocks in (1, 2, 9):
        assert exact_sum([block] * n_blocks, bound=2**60).tolist() == [3 * n_blocks * 2**60]
    # what is no float64 is not bounded by it
    small, large = np.ones((1, 2)), np.full((1, 1), 2**61)
    assert exact_sum([small, large] * 4, bound=1).tolist() == [2**63 + 8]


# ball_contributions -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=FLOATS),
    st.sampled_from([0.0, 5e-324, 1e-200, 1.0, 1e200, MAX]),
    st.sampled_from([1, 4, 30, 40]),
)
def test_norms_are_bounded_in_integers(values, radius, bits):
    contributions = ball_contributions(values, radius, bits=bits)
    assert np.array_equal(contributions, np.rint(contributions))
    assert max(square_norms(contributions)) <= 4**bits


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 2000])
@every("scale", [5e-324, 1.5e-162, 1e-154, 1.0, 1e154, 1e300])
def test_long_vectors_have_norm_one_at_every_scale(d, scale):
    rng = public_generator(d)
    values = np.stack([np.ones(d), rng.normal(size=d), np.arange(1.0, d + 1)], axis=1)
    values = np.clip(values * scale, -MAX / 4, MAX / 4)
    norms = square_norms(ball_contributions(values, 0.0))
    assert max(norms) <= 4**CONTRIBUTION_BITS
    if scale > 5e-324:  # nothing but the rounding is lost
        assert min(norms) >= (2**CONTRIBUTION_BITS - 2 * math.sqrt(d) - 2000) ** 2


@pytest.mark.parametrize("radius", [0.0, 0.3, 30.0])
def test_contributions_are_those_of_a_loop_to_the_last_bit(radius):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 300)) * 10.0 ** rng.uniform(-3.0, 3.0, size=300)
    found = ball_contributions(values, radius)
    whole = (1.0 - (5 + 8) * 2.0**-51) * 2.0**CONTRIBUTION_BITS
    for column, contribution in zip(values.T.tolist(), found.T.tolist(), strict=True):
        square = 0.0
        for value in column:
            square += value * value
        scale = whole / max(math.sqrt(square), radius)
        assert contribution == [math.trunc(value * scale) for value in column]
    np.testing.assert_array_equal(ball_contributions(values, radius, weights=np.ones(300)), found)
    np.testing.assert_array_equal(ball_contributions(values, radius, out=values), found)


def test_inside_the_radius_vectors_keep_their_lengths():
    values = np.array([[3.0, 0.3, 30.0], [4.0, 0.4, 40.0]])
    lengths = np.sqrt([float(n) for n in square_norms(ball_contributions(values, 10.0))]) * CONTRIBUTION_STEP
    np.testing.assert_allclose(lengths, [0.5, 0.05, 1.0], rtol=1e-7)


def test_what_is_not_finite_counts_for_nothing():
    values = np.array([[math.nan, math.inf, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    contributions = ball_contributions(values, 1.0)
    assert not contributions[:, [0, 1, 3]].any() and contributions[:, 2].all()


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, (3, 9), elements=FLOATS), st.integers(0, 8), st.sampled_from([0.0, 1.0, 1e-160]))
def test_a_contribution_does_not_depend_on_its_neighbours(values, unit, radius):
    here = ball_contributions(values, radius)[:, unit]
    weights = np.linspace(0, 1, 9)
    weighted = ball_contributions(values, radius, weights=weights)[:, unit]
    for order in ([unit], [unit, 0], [*range(unit, 9), *range(unit)]):
        assert np.array_equal(ball_contributions(values[:, order], radius)[:, 0], here)
        wide = np.ascontiguousarray(np.tile(values[:, order], 50))
        assert np.array_equal(ball_contributions(wide, radius)[:, 0], here)
        again = ball_contributions(values[:, order], radius, weights=weights[order])
        assert np.array_equal(again[:, 0], weighted)


# interval_contributions -------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=8), FLOATS, FLOATS, st.sampled_from([1, 8, 30, 52]))
def test_numbers_of_an_interval_stay_in_it(values, one, other, bits):
    low, high = min(one, other), max(one, other)
    # an interval that float64 cannot halve has no step
    if not low < 0.5 * low + 0.5 * high < high or 0.5 * high - 0.5 * low < 1e-300:
        return
    contributions = interval_contributions(np.array([*values, low, high, math.nan]), low, high, bits=bits)
    assert np.array_equal(contributions, np.rint(contributions))
    assert np.max(np.abs(contributions)) <= 2 ** (bits - 1)
    assert contributions[-1] == 0


def test_an_interval_far_from_zero_loses_nothing():
    low, high = 1.7e18, 1.7e18 + 2.0**20
    values = low + np.array([0.0, 256.0, 2.0**19, 2.0**20, -1e18, 9e18])
    contributions = interval_contributions(values, low, high, bits=20)
    assert contributions.tolist() == [-(2**19), -(2**19) + 256, 0, 2**19, -(2**19), 2**19]


# upper_root -------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**200))
def test_an_upper_root_is_the_smallest_float_above(square):
    root = upper_root(square)
    assert Fraction(root) ** 2 >= square
    assert root == 0 or Fraction(math.nextafter(root, 0.0)) ** 2 < square


def test_sums_of_every_kind_of_integer_are_exact():
    """numpy's integers wrapped around in object arrays, where its booleans were or-ed, and float16 overflowed."""
    assert exact_sum(np.array([np.int64(2**62)] * 4, dtype=object)).item() == 2**64
    assert exact_sum(np.full(4000, 2000, dtype=np.float16)) == 8_000_000
    assert exact_sum(np.full(5, 2.0**53 - 1), bound=np.int64(2**62)).item() == 5 * (2**53 - 1)
    for other in (0.5, np.bool_(True)):
        with pytest.raises(ValueError, match="integers"):
            exact_sum(np.array([other] * 2, dtype=object))


def test_an_interval_of_one_subnormal_step_is_no_division_by_zero():
    found = interval_contributions(np.array([-1.0, 0.0, 5e-324, 1.0]), 0.0, 5e-324, bits=4)
    assert (np.abs(found) <= 8).all()


@pytest.mark.parametrize("kind", ["f2", "f4", "i4", "i8", "u8", "g", "O", "?"])
def test_vectors_of_any_type_stay_in_the_ball(kind):
    """Squares of narrow floats round, those of integers wrap around."""
    values = public_generator(3).normal(size=(30, 200)) * 3e3
    values[:, 0] = 2.0**15 if kind == "f2" else 2.0**16 + 1
    values = (np.abs(values) if kind == "u8" else values).astype(kind)
    contributions = ball_contributions(values, 1e-9)
    assert max(square_norms(contributions)) <= 4**CONTRIBUTION_BITS
    assert np.array_equal(contributions, ball_contributions(values.astype(np.float64), 1e-9))
    numbers = interval_contributions(values, -1.0, 0.1, bits=20)
    assert np.array_equal(numbers, interval_contributions(values.astype(np.float64), -1.0, 0.1, bits=20))


def test_the_least_integer_stays_in_the_ball():
    assert square_norms(ball_contributions(np.array([[-(2**63)], [1]]), 1.0))[0] <= 4**CONTRIBUTION_BITS


def test_results_of_few_digits_have_no_place():
    """Rounding integers to float32 may lengthen a vector."""
    values = np.ones((3, 2))
    with pytest.raises(TypeError, match="float64"):
        ball_contributions(values, 1.0, out=np.empty((3, 2), dtype=np.float32))


@pytest.mark.parametrize("n_coordinates", [1, 2, 50])
def test_the_margin_of_a_ball_is_twice_the_error_and_no_more(n_coordinates):
    """(n + 8)·2⁻⁵² is what float64 may add to a norm; what a unit loses by the margin is utility."""
    unit = np.zeros((n_coordinates, 1))
    unit[0] = 1.0
    assert ball_contributions(unit, 1.0, bits=51)[0, 0] == 2**51 - (n_coordinates + 8)
