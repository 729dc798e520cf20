"""The embedded hospital encounters."""

import lzma
from importlib import resources

import numpy as np
import pytest

from skprivate.datasets import load_hospital


def test_the_table_is_what_its_description_says():
    hospital = load_hospital()
    assert hospital.data.shape == (25589, 17) and hospital.data.dtype == object
    values, counts = np.unique(hospital.target, return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {"<30": 2824, ">30": 9138, "NO": 13627}
    counts = np.bincount(hospital.user_ids)
    assert (len(counts), counts.min(), (counts == 1).sum(), counts.max()) == (17840, 1, 13582, 23)
    for word in ("CC BY 4.0", "25 589 stays", "17 840 patients", "make_hospital.py", "10.24432/C5230J"):
        assert word in hospital.DESCR


def test_frames_have_numbers_texts_and_gaps():
    hospital = load_hospital(as_frame=True)
    X, numbers = hospital.data, list(hospital.feature_bounds)
    assert (X[numbers].dtypes == np.float64).all() and len(X.columns) == len(numbers) + 7
    missing = X.isna().mean().round(2)
    assert missing[missing > 0].to_dict() == {
        "weight": 0.97,
        "race": 0.02,
        "admission": 0.1,
        "specialty": 0.49,
        "a1c": 0.83,
    }
    low, high = np.array(list(hospital.feature_bounds.values())).T
    assert np.all(low <= X[numbers].min()) and np.all(X[numbers].max() <= high)
    for name, values in hospital.categories.items():
        found = set(X[name].dropna())
        assert name == "specialty" or found <= set(values), name
        assert set(values) - found <= {"newborn"}, name
    plain = load_hospital().data
    assert plain[0].tolist()[2:] == X.iloc[0].tolist()[2:] and np.isnan(plain[0, 1])


def test_days_as_target():
    X, y, users = load_hospital(target="days", return_X_y=True, return_users=True, as_frame=True)
    assert "days" not in X and X.shape == (25589, 16) and y.between(1, 14).all() and len(users) == 25589
    assert len(load_hospital(return_X_y=True)) == 2
    with pytest.raises(ValueError, match="return_users=True needs return_X_y=True"):
        load_hospital(return_users=True)


def test_the_file_is_small_and_reproducible():
    raw = (resources.files("skprivate.datasets") / "data" / "hospital.csv.xz").read_bytes()
    assert len(raw) < 200_000
    lines = lzma.decompress(raw).splitlines()
    assert len(lines) == 19 and {line.count(b",") for line in lines} == {25589}
