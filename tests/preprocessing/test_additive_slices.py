"""Parts of an additive pipeline: what has both steps still divides one budget."""

import numpy as np
import pytest
from sklearn.base import clone

from skprivate import UserLevelSGDRegressor, guarantee_of
from skprivate.preprocessing import make_additive_pipeline


@pytest.mark.parametrize("part", [slice(None), slice(0, 2), slice(-2, None)])
def test_a_slice_with_both_steps_keeps_to_the_budget(part):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, size=(20_000, 1))
    y = np.sin(X[:, 0])
    model = make_additive_pipeline(UserLevelSGDRegressor(epsilon=1.0, delta=1e-6, random_state=0))
    spent = guarantee_of(clone(model[part]).fit(X, y))
    assert spent.epsilon <= 1.0
    assert spent.delta <= 1e-6
