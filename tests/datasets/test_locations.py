"""The embedded locations and the embedded tree."""

import numpy as np

from skprivate.datasets import load_icd10, load_locations
from skprivate.metric import MetricPrivatizer, tree_distances
from skprivate.papers.metric import is_ultrametric


def test_locations():
    trips = load_locations()
    assert trips.data.shape == (10000, 4) and trips.target.shape == (10000,)
    assert np.isfinite(trips.data).all() and (trips.target > 0).all()
    lower, upper = trips.feature_bounds
    assert ((trips.data >= lower) & (trips.data <= upper)).mean() > 0.999
    assert "NYC Open Data" in trips.DESCR and "make_locations.py" in trips.DESCR
    frame = load_locations(as_frame=True).frame
    assert list(frame.columns) == [*trips.feature_names, "trip_duration"]
    X, y = load_locations(return_X_y=True)
    assert np.array_equal(X, trips.data) and np.array_equal(y, trips.target)


def test_icd10():
    icd10 = load_icd10()
    assert len(icd10.parents) == 2237 and len(icd10.codes) == 1930
    assert sum(parent is None for parent in icd10.parents.values()) == 22
    assert {"public domain", "1 918"} <= {text for text in ("public domain", "1 918") if text in icd10.DESCR}
    codes = ["E10", "E11", "E66", "I10", "C50"]
    matrix = tree_distances(icd10.parents, codes)
    assert is_ultrametric(matrix)
    assert matrix[0, 1] < matrix[0, 2] < matrix[0, 3] == matrix[0, 4] == 1.0
    model = MetricPrivatizer(8.0, metric="tree", parents=icd10.parents, states=codes).fit([["E10"]])
    assert set(model.transform([["E10"], ["C50"]]).ravel()) <= set(codes)
