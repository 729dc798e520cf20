"""Columns as codes, feature sets as cells: public rules that see no label."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers.cells import index_cells
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.aggregate import CuratedBagGAMClassifier, make_curated_bags
from skprivate.aggregate.tables._blocks import learn_column, read_columns
from skprivate.aggregate.tables._cells import resolve_feature_sets
from skprivate.aggregate.tables._columns import BinnedColumn, CategoricalColumn, encode_columns


def learn(values, categorical=True, **arguments):
    column = learn_column(values, "v", categorical=categorical, n_bins=4, **arguments)
    return column, encode_columns([values], [column])[0]


def test_categories_of_any_type_have_codes_that_do_not_depend_on_row_order():
    values = np.array(["b", None, 3, "a", float("nan"), True, pd.NA, ("t", 1)], dtype=object)
    column, codes = learn(values)
    assert column.categories.count(None) == 1
    assert codes[1] == codes[4] == codes[6] == column.n_codes - 1
    again, reverse = learn(values[::-1])
    assert again == column
    np.testing.assert_array_equal(reverse[::-1], codes)
    np.testing.assert_array_equal(column.encode(values), codes)
    assert column.encode(np.array(["never seen"], dtype=object))[0] == -1


def test_numbers_as_categories():
    column, codes = learn(np.array([5, 2, 5, 9]))
    assert column.categories == (2, 5, 9)
    np.testing.assert_array_equal(column.encode(np.array([9.0, np.nan, 2.0, 3.0])), [2, -1, 0, -1])
    np.testing.assert_array_equal(codes, [1, 0, 1, 2])
    with_missing = CategoricalColumn("v", (1.0, None))
    np.testing.assert_array_equal(with_missing.encode(np.array([np.nan, 1.0, 7.0])), [1, 0, -1])


def test_bins_are_quantiles_of_the_features_or_given():
    values = np.append(np.arange(100.0), np.nan)
    _, codes = learn(values, categorical=False)
    counts = np.bincount(codes)
    assert counts[-1] == 1 and counts[:-1].min() >= 24
    given_column, _ = learn(values, categorical=False, edges=[10, 20])
    assert given_column == BinnedColumn("v", (10.0, 20.0))
    np.testing.assert_array_equal(given_column.encode(np.array([9.9, 10.0, 20.0, -np.inf, np.nan])), [0, 1, 2, 0, 3])
    assert given_column.label_of(1) == "[10, 20)" and given_column.label_of(3) == "missing"
    few, few_codes = learn(np.array([1.0, 2.0, 1.0, 7.0]), categorical=False)
    np.testing.assert_array_equal(few_codes, [0, 1, 0, 2])
    assert few.edges == (1.5, 4.5)


@pytest.mark.parametrize("edges", [[2, 1], [1, 1], [np.inf], [[1, 2]]])
def test_bad_edges_are_refused(edges):
    with pytest.raises(ValueError, match=r"bin_edges\['v'\] must be finite and increasing"):
        learn(np.arange(5.0), categorical=False, edges=edges)


@pytest.mark.parametrize("n_bins", [0, 1, -3, 2.0, True])
def test_fewer_than_two_bins_are_refused(n_bins):
    with pytest.raises(ValueError, match="n_bins must be an int of at least 2"):
        make_curated_bags(np.arange(8.0).reshape(-1, 1), [0, 1] * 4, n_bins=n_bins)


def test_texts_are_not_cut_into_bins():
    with pytest.raises(ValueError, match="declare it in categorical_features"):
        learn(np.array(["a", "b"], dtype=object), categorical=False)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.integers(1, 60), st.integers(1, 12), st.randoms(use_true_random=False))
def test_cells_partition_the_rows(n_columns, n, min_size, random):
    codes = [np.array([random.randrange(4) for _ in range(n)], dtype=np.int32) for _ in range(n_columns)]
    index, cells, counts = index_cells(codes, [4] * n_columns, tuple(range(n_columns)), min_size=min_size)
    if index.n_cells == 0:
        # No bag is large enough, or what the largest leaves to the rare bag is not.
        largest = np.unique(np.stack(codes), axis=1, return_counts=True)[1].max()
        assert largest < min_size or 0 < n - largest < min_size
        return
    np.testing.assert_array_equal(np.bincount(cells, minlength=index.n_cells), counts)
    assert counts.sum() == n and counts.min() >= min(min_size, n)
    np.testing.assert_array_equal(index.locate(codes), cells)
    # Rows of one kept cell share all values, and the key says which.
    for cell in range(index.n_cells - index.has_rest):
        for column, code in zip(codes, index.keys[cell], strict=True):
            assert np.all(column[cells == cell] == code)
    unknown = [column.copy() for column in codes]
    unknown[0][:] = -1
    assert np.all(index.locate(unknown) == -1)


def test_large_key_ranges_use_bisection_with_the_same_result():
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 40, 500).astype(np.int32) for _ in range(2)]
    small = index_cells(codes, [40, 40], (0, 1), min_size=2)
    large = index_cells(codes, [40, 10**6], (0, 1), min_size=2)
    np.testing.assert_array_equal(small[1], large[1])
    np.testing.assert_array_equal(small[2], large[2])
    np.testing.assert_array_equal(large[0].locate(codes), large[1])
    with pytest.raises(ValueError, match="too many combinations"):
        index_cells(codes, [2**31, 2**31], (0, 1))


def test_feature_sets():
    names, counts = ["a", "b", "c"], [np.array([4]), np.ones(4, dtype=int), np.array([2, 2])]

    def count(asked):
        return [counts[j] for (j,) in asked]

    assert resolve_feature_sets("singles", names, count) == ([(0,), (1,), (2,)], False)
    assert len(resolve_feature_sets("pairs", names, count)[0]) == 6
    assert len(resolve_feature_sets(1, names, count)[0]) == 4
    assert resolve_feature_sets(["a", ("c", "b"), (0, 1, 2)], names, count) == ([(0,), (1, 2), (0, 1, 2)], True)
    for bad, message in [
        ("triples", "must be 'singles'"),
        ([], "is empty"),
        (["a", (0,)], "twice"),
        (["z"], "column 'z'"),
        ([7], "column 7"),
        ([("a", "a")], "distinct"),
        (9, "there are 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            resolve_feature_sets(bad, names, count)


def test_pandas_polars_and_arrays_agree():
    rng = np.random.default_rng(0)
    data = {"color": rng.choice(["red", "green"], 200), "size": rng.normal(size=200)}
    frames = [pd.DataFrame(data), pl.DataFrame(data), pd.DataFrame(data).astype({"color": "category"})]
    y = rng.integers(0, 2, 200)
    reference = None
    for frame in frames:
        names, columns = read_columns(frame)
        assert names == ["color", "size"] and columns[1].dtype == np.float64
        bags = make_curated_bags(frame, y, "pairs")
        model = CuratedBagGAMClassifier(epsilon=None).fit(frame, y)
        probabilities = model.predict_proba(frame)
        if reference is None:
            reference = bags.to_dict(), probabilities
        assert bags.to_dict() == reference[0]
        np.testing.assert_array_equal(probabilities, reference[1])
    rows = list(zip(data["color"], data["size"], strict=True))
    bags = make_curated_bags(rows, y, "pairs")
    assert [t["label_sums"] for t in bags.to_dict()["tables"]] == [t["label_sums"] for t in reference[0]["tables"]]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20), st.lists(st.floats(0.02, 0.9), max_size=3), st.integers(30, 400))
def test_frequent_values_are_buckets_of_their_own(seed, n_bins, shares, n):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n)
    for value, share in zip((0.0, -5.0, 7.0), shares, strict=False):
        values[rng.random(n) < share] = value
    column = learn_column(values, "v", categorical=False, n_bins=n_bins)
    codes = column.encode(values)
    assert column.n_codes - 1 <= 2 * n_bins + n_bins // 2 and np.all(np.diff(column.edges) > 0)
    assert np.unique(codes).size == column.n_codes - 1  # all buckets but that of missing values are in use
    distinct, counts = np.unique(values, return_counts=True)
    for value in distinct[counts * n_bins >= n]:
        assert np.unique(values[codes == codes[values == value][0]]).size == 1 or distinct.size <= n_bins


def test_a_column_that_is_mostly_zero_keeps_its_other_values():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(10_000) < 0.95, 0.0, rng.exponential(1000.0, 10_000))
    codes = learn_column(values, "v", categorical=False, n_bins=16).encode(values)
    assert np.bincount(codes)[0] == np.sum(values == 0)
    assert np.bincount(codes)[1:].max() < 0.15 * np.sum(values > 0)


@pytest.mark.parametrize("values", [np.arange(6) * 5e-324, 1.0 + np.arange(6) * 2.0**-52, [-1e300, 0.0, 1e300]])
def test_neighbouring_numbers_have_buckets_of_their_own(values):
    """The middle of two neighbours may be rounded to the lower one, and both were in one bucket."""
    values = np.asarray(values, dtype=float)
    column = learn_column(values, "x", categorical=False, n_bins=8)
    codes = column.encode(values)
    assert np.unique(codes).size == values.size
    assert np.all(np.diff(column.edges) > 0)
