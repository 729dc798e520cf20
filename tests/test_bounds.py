"""Public ranges of columns: every shape is read in one way, or refused by name."""

import numpy as np
import pandas as pd
import pytest
from helpers.every import every
from hypothesis import given
from hypothesis import strategies as st

from skprivate._validation._arrays import check_bounds

NAMES = ["lat", "long"]
RANGES = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(RANGES, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_all_shapes_say_the_same(pairs, random):
    names = [f"column {j}" for j in range(len(pairs))]
    expected = tuple(pairs)
    order = random.sample(range(len(pairs)), len(pairs))
    lower, upper = np.array(pairs).T
    assert check_bounds((lower, upper), len(pairs)) == expected
    assert check_bounds({names[j]: pairs[j] for j in order}, len(pairs), names) == expected
    assert check_bounds({j: list(pairs[j]) for j in order}, len(pairs), names) == expected
    assert check_bounds(pairs[0], len(pairs)) == (pairs[0],) * len(pairs)
    if len(pairs) != 2:
        assert check_bounds([lower.tolist(), upper.tolist()], len(pairs)) == expected


@given(RANGES, RANGES)
def test_a_pair_of_pairs_is_never_read_as_something_else(first, second):
    """[(low, high), (low, high)] is refused, or was (lower, upper) because as pairs it says nothing."""
    with pytest.raises(ValueError, match="bounds"):
        check_bounds([first, second], 2)
    transposed = list(zip(first, second, strict=True))  # (lower, upper)
    if not all(low < high for low, high in transposed):
        assert check_bounds(transposed, 2) == (first, second)


def test_both_readings_are_said():
    with pytest.raises(ValueError) as caught:
        check_bounds([(0, 1), (2, 3)], 2)
    assert "for each column, [0, 1] and [2, 3]" in str(caught.value)
    assert "as (lower, upper), [0, 2] and [1, 3]" in str(caught.value)
    assert check_bounds((np.array([0, 1]), np.array([2, 3])), 2) == ((0, 2), (1, 3))
    with pytest.raises(ValueError, match="two ways"):
        check_bounds(np.array([[0, 1], [2, 3]]), 2)


def test_labelled_sides_go_by_label():
    pd = pytest.importorskip("pandas")
    lower, upper = pd.Series({"long": -74.0, "lat": 40.0}), pd.Series({"long": -73.0, "lat": 41.0})
    assert check_bounds((lower, upper), 2, NAMES) == ((40, 41), (-74, -73))
    with pytest.raises(ValueError, match="'lat' must be finite"):
        check_bounds((lower, upper.drop("lat")), 2, NAMES)


def test_columns_without_bounds():
    assert check_bounds({"c": (0, 1)}, [2], ["a", "b", "c"]) == ((0, 1),)
    assert check_bounds((0, 1), [], ["a"]) == ()
    with pytest.raises(ValueError, match="has the column 'a'; the columns are 'c'"):
        check_bounds({"a": (0, 1)}, [2], ["a", "b", "c"])


@every(
    ("bounds", "names", "message"),
    [
        ({"lat": (0, 1)}, NAMES, "for every column, got none for 'long'"),
        ({"lat": (0, 1), "lon": (0, 1)}, NAMES, "has the column 'lon'; the columns are 'lat', 'long'"),
        ({"lat": (0, 1), 0: (0, 1), 1: (0, 1)}, NAMES, "has column 'lat' twice"),
        ({0: (0, 1), 2: (0, 1)}, None, "has the column 2; the columns .X came without names. are 0, 1"),
        ({"lat": (0, 1)}, None, "came without names"),
        ({True: (0, 1), 0: (0, 1)}, None, "has the column True"),
        ({0: (0, 1), 1: 3}, None, "of column 1 must be a pair"),
        ({0: (0, 1), 1: ("a", "b")}, None, "of column 1 must be a pair"),
        ({"lat": (0, 1), "long": (2, 1)}, NAMES, r"of column 'long' .* got \(2, 1\)"),
        ((np.array([0, 3]), np.array([1, 3])), NAMES, r"of column 'long' .* got \(3, 3\)"),
        ((0, np.inf), None, "of column 0 must be finite"),
        ((0, np.nan), None, "of column 0 must be finite"),
        ((-1e308, 1e308), None, "1e\\+150 apart"),
        ((0, 1, 2), None, "must be a dict"),
        (3, None, "must be a dict"),
        ("ab", None, "must be a dict"),
        ((np.zeros(3), np.ones(3)), None, "must be a dict"),
        ([(0, 10), (0, 5)], None, "looks like a list of pairs"),
    ],
)
def test_refusals(bounds, names, message):
    with pytest.raises(ValueError, match=message):
        check_bounds(bounds, 2, names)
    with pytest.raises(ValueError, match="^feature_bounds"):
        check_bounds(bounds, 2, names, parameter="feature_bounds")


@pytest.mark.parametrize("k", [1, 3])
def test_lists_of_pairs_of_other_lengths(k):
    with pytest.raises(ValueError, match="looks like a list of pairs"):
        check_bounds([(0, 1)] * k, k)


def test_one_side_by_name_goes_with_a_number_and_not_by_position():
    lower = pd.Series({"b": 0.0, "a": 10.0})
    assert check_bounds((lower, 20), 2, ["a", "b"]) == ((10.0, 20.0), (0.0, 20.0))
    assert check_bounds((-5, dict(lower)), 2, ["a", "b"]) == ((-5.0, 10.0), (-5.0, 0.0))
    with pytest.raises(ValueError, match="bounds must be a dict"):
        check_bounds((lower, [20, 30]), 2, ["a", "b"])


@pytest.mark.parametrize("bounds", [{0: (0, 10**400)}, (0, 10**400)])
def test_whole_numbers_beyond_floats_are_refused_like_other_ranges(bounds):
    with pytest.raises(ValueError, match="^bounds"):
        check_bounds(bounds, 1)
