"""The public scaler: exact values, clear errors, nothing learned."""

import numpy as np
import pytest
from helpers.common_checks import parametrize_variants
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.preprocessing import PublicScaler
from skprivate.utils.estimator_checks import parametrize_with_privacy_checks

SCALERS = [PublicScaler(center=3.0, scale=0.5, clip=True)]


@pytest.mark.take_turns(9)
@parametrize_variants(SCALERS)
def test_common(estimator, check):
    check(estimator)


@parametrize_with_privacy_checks(SCALERS)
def test_privacy(estimator, check):
    check(estimator)


finite = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(lower=finite, width=st.floats(1e-3, 1e6), values=st.lists(st.floats(0, 1), min_size=1))
def test_bounds_become_one(lower, width, values):
    upper = lower + width
    X = lower + np.array(values)[:, None] * width
    scaler = PublicScaler.from_bounds([lower], [upper], clip=False)
    np.testing.assert_allclose(scaler.fit_transform(X).ravel(), 2 * np.array(values) - 1, atol=1e-6)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, atol=1e-6)


def test_clipping():
    scaler = PublicScaler.from_bounds([0, -60], [24, 60])
    assert scaler.clip
    X = scaler.transform([[6.0, 0.0], [30.0, -90.0]])  # no fit needed
    np.testing.assert_array_equal(X, [[-0.5, 0.0], [1.0, -1.0]])
    assert PublicScaler.from_bounds(0, 1e308).scale == 0.5e308


def test_constants_by_column():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"age": [30.0, np.nan], "pulse": [70.0, 300.0]})
    scaler = PublicScaler.from_bounds({"pulse": (20, 220), "age": (0, 120)})
    expected = [[-0.5, -0.5], [np.nan, 1.0]]  # what is missing stays missing
    np.testing.assert_array_equal(scaler.fit_transform(X), expected)
    by_position = PublicScaler.from_bounds({1: (20, 220), 0: (0, 120)})
    np.testing.assert_array_equal(by_position.fit_transform(X.to_numpy()), expected)
    with pytest.raises(ValueError, match="^center has the column 'weight'; the columns are 'age', 'pulse'"):
        PublicScaler(center={"weight": 1.0}).fit(X)
    with pytest.raises(ValueError, match="^scale must have an entry for every column, got none for 'pulse'"):
        PublicScaler(scale={"age": 1.0}).fit(X)
    with pytest.raises(ValueError, match=r"X came without names.*set_output\(transform='pandas'\)"):
        PublicScaler(center={"age": 1.0}).fit(X.to_numpy())


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"center": [1.0, 2.0]}, "center must .* 3 features"),
        ({"scale": [1.0, 0.0, 1.0]}, "scale must be greater than 0"),
        ({"scale": [1.0, np.nan, 1.0]}, "scale must be finite"),
        ({"scale": -1.0}, "'scale' parameter"),
        ({"clip": "yes"}, "'clip' parameter"),
    ],
)
def test_bad_constants(parameters, match):
    with pytest.raises(ValueError, match=match):
        PublicScaler(**parameters).fit(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=match):
        PublicScaler(**parameters).transform(np.zeros((2, 3)))


def test_bad_bounds():
    for lower, upper in [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)]:
        with pytest.raises(ValueError, match="lower < upper"):
            PublicScaler.from_bounds(lower, upper)
        with pytest.raises(ValueError, match="limits of column 'a' must be finite with low < high"):
            PublicScaler.from_bounds({"a": (lower, upper)})
    for pair in ((0, None), 5, (1, 2, 3), "ab"):
        with pytest.raises(ValueError, match="limits of column 'a' must be a pair"):
            PublicScaler.from_bounds({"a": pair})
    for alone in ((0, 1), [(0, 1), (2, 3)], 0, np.array([0, 1])):
        with pytest.raises(ValueError, match=r"two arguments, such as from_bounds\(0, 1\).*got .* alone"):
            PublicScaler.from_bounds(alone)
