"""Data that differ in one unit stay data that an estimator takes."""

from __future__ import annotations

import numpy as np
import pytest

from skprivate.privacy import Adjacency, PrivacyUnit
from skprivate.user_level import UserLevelMean
from skprivate.utils._data import CheckData
from skprivate.utils._neighbours import EXTREMES, changes

_UNITS = [(PrivacyUnit.ROW, {}), (PrivacyUnit.USER, {"user_ids": np.arange(len(EXTREMES))})]


@pytest.mark.parametrize(("unit", "metadata"), _UNITS)
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
def test_finite_data_have_finite_neighbours(unit, metadata, adjacency):
    data = CheckData(np.array(EXTREMES)[:, None], None, metadata)
    guarantee = UserLevelMean(delta=1e-6).fit(data.X, user_ids=np.arange(len(data.X))).privacy_guarantee_
    guarantee = guarantee.__class__(**{**vars(guarantee), "unit": unit, "adjacency": adjacency})
    rng = np.random.default_rng(0)
    every = [change.apply(data).X for change in changes(None, data, guarantee, rng, n_units=200)]
    assert len(every) > 200
    assert all(np.isfinite(X).all() for X in every)
