"""How many labels differ, and how large they are, is nobody's to be warned of."""

import warnings

import numpy as np
import pytest

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    PPMHalfspaceClassifier,
    RandomBagClassifier,
    RandomBagRegressor,
    UserLevelSGDRegressor,
    make_curated_bags,
    make_random_bags,
)


@pytest.mark.parametrize("distinct", [2, 12, 16])
@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, RandomBagClassifier, PPMHalfspaceClassifier])
def test_no_warning_tells_how_many_labels_differ(kind, distinct):
    X = np.linspace(-1, 1, 60).reshape(30, 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            kind(epsilon=1.0).fit(X, np.arange(30) % distinct)
        except ValueError as error:  # two classes only
            assert kind is PPMHalfspaceClassifier and distinct > 2, error
            assert str(distinct) not in str(error)
    assert not [one for one in seen if "unique classes" in str(one.message)]


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (None, None)])
@pytest.mark.parametrize(
    "released",
    [
        lambda X, y, bounds: CuratedBagGAMRegressor(label_bounds=bounds, random_state=0).fit(X, y),
        lambda X, y, bounds: CuratedBagGAMRegressor(
            label_bounds=bounds, mechanism="gaussian", delta=1e-6, random_state=0
        ).fit(X, y),
        lambda X, y, bounds: RandomBagRegressor(label_bounds=bounds, random_state=0).fit(X, y),
        lambda X, y, bounds: UserLevelSGDRegressor(random_state=0).fit(X, y),
        lambda X, y, bounds: make_curated_bags(X, y, epsilon=1.0, label_bounds=bounds, random_state=0),
        lambda X, y, bounds: make_random_bags(X, y, 4, numbers=True, epsilon=1.0, label_bounds=bounds, random_state=0),
    ],
    ids=["laplace", "gaussian", "random bags", "users", "curated", "random"],
)
def test_no_warning_of_numpy_tells_of_large_labels(released, low, high):
    """Of two labels whose sum overflows, or is no number, the second one may be somebody's."""
    X, largest = np.linspace(-1, 1, 60).reshape(30, 2), np.finfo(float).max
    for labels in ([largest, largest], [largest, -largest], [largest, largest, -largest, -largest]):
        y = np.linspace(0.0, 1.0, 30)
        y[: len(labels)] = labels
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            released(X, y, None if low is None else (low, high))
        assert not [one for one in seen if issubclass(one.category, RuntimeWarning)], labels


@pytest.mark.parametrize("kind", [CuratedBagGAMRegressor, RandomBagRegressor])
@pytest.mark.parametrize("largest", [np.finfo(float).max, -np.finfo(float).max])
def test_none_tells_of_a_large_label_where_the_others_are_far_from_zero(kind, largest):
    """It is far outside the cells of the second draw."""
    X, y = np.zeros((20_000, 1)), np.linspace(1.5, 1.6, 20_000)
    y[3] = largest
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kind(random_state=0).fit(X, y)
    assert not [one for one in seen if issubclass(one.category, RuntimeWarning)]
