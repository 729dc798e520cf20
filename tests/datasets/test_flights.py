"""The embedded flights, and the reading of embedded tables."""

from importlib import resources

import _embedded
import numpy as np
import pytest

from skprivate.datasets import _loaders, load_flights


def test_the_table_is_what_its_description_says():
    flights = load_flights()
    assert flights.data.shape == (111622, 4) and flights.data.dtype == np.float64
    assert flights.feature_names == ["month", "hour", "distance", "dep_delay"]
    counts = np.bincount(flights.user_ids)
    assert (len(counts), counts.min(), np.median(counts), counts.max()) == (1365, 1, 53, 475)
    assert list(flights.feature_bounds) == flights.feature_names
    low, high = np.array(list(flights.feature_bounds.values())).T
    assert np.all(low <= flights.data.min(axis=0)) and np.all(flights.data.max(axis=0) <= high)
    for word in ("public domain", "111 622 flights", "1 365 aircraft", "make_flights.py"):
        assert word in flights.DESCR


@pytest.mark.slow
@pytest.mark.parametrize("target", ["arr_delay", "air_time"])
def test_targets(target):
    flights = load_flights(target=target, as_frame=True)
    assert flights.target.name == flights.target_name == target
    low, high = flights.target_bounds
    assert low <= flights.target.min() and flights.target.max() <= high
    assert list(flights.frame.columns) == [*flights.feature_names, target]
    X, y, users = load_flights(target=target, return_X_y=True, return_users=True)
    np.testing.assert_array_equal(X, flights.data)
    np.testing.assert_array_equal(y, flights.target)
    np.testing.assert_array_equal(users, flights.user_ids)
    assert len(load_flights(target=target, return_X_y=True)) == 2


def test_bad_options():
    with pytest.raises(ValueError, match=r"target.*air_time"):
        load_flights(target="delay")
    with pytest.raises(ValueError, match="return_users=True needs return_X_y=True"):
        load_flights(return_users=True)


def test_tables_with_text(monkeypatch, tmp_path):
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(_embedded, "DATA", tmp_path / "data")
    _embedded.write_table("mixed", 'name,value\n"Ä, b",1.5\nc,2\n')
    monkeypatch.setattr(_loaders, "_FOLDER", tmp_path)
    columns = _loaders.read_csv("mixed")
    assert columns["name"].tolist() == ["Ä, b", "c"] and columns["value"].tolist() == [1.5, 2.0]


def test_embedded_files_are_small():
    folder = resources.files("skprivate.datasets") / "data"
    for file in folder.iterdir():
        assert len(file.read_bytes()) < 1_000_000, file.name
