"""The embedded census table."""

import lzma
from importlib import resources

import numpy as np

from skprivate.datasets import load_adult


def test_the_table_is_what_its_description_says():
    adult = load_adult()
    assert adult.data.shape == (48842, 12) and adult.data.dtype == object
    values, counts = np.unique(adult.target, return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {"<=50K": 37155, ">50K": 11687}
    sizes = {name: len(set(adult.data[:, j])) for j, name in enumerate(adult.feature_names)}
    assert [sizes[name] for name in adult.categorical_features] == [9, 16, 7, 15, 6, 5, 2, 42]
    for word in ("CC BY 4.0", "48 842 adults", "make_adult.py", "10.24432/C5XW20"):
        assert word in adult.DESCR


def test_frames_have_numbers_and_categories():
    X, y = load_adult(return_X_y=True, as_frame=True)
    assert (X.dtypes == "category").sum() == 8 and (X.dtypes == np.float64).sum() == 4
    assert y.name == "income" and not X.isna().any().any()
    plain, target = load_adult(return_X_y=True)
    np.testing.assert_array_equal(plain[:, 0].astype(float), X["age"])
    np.testing.assert_array_equal(target, y)


def test_the_file_is_small_and_reproducible():
    raw = (resources.files("skprivate.datasets") / "data" / "adult.csv.xz").read_bytes()
    assert len(raw) < 300_000
    lines = lzma.decompress(raw).splitlines()
    assert len(lines) == 13 and {line.count(b",") for line in lines} == {48842}
