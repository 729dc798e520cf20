"""Private quantile maps and bins."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import KBinsDiscretizer, QuantileTransformer

from skprivate.preprocessing import PrivateKBinsDiscretizer, PrivateQuantileTransformer
from skprivate.preprocessing._mechanisms import outer_edges

SEEDS = range(5)


def columns(n, seed):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(1e4, 1, n), rng.lognormal(0, 3, n), rng.standard_cauchy(n), rng.integers(18, 90, n)]
    )


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("seed", SEEDS)
def test_close_to_uniform(adjacency, seed):
    X = columns(10_000, seed)
    U = PrivateQuantileTransformer(1.0, adjacency=adjacency, random_state=seed).fit_transform(X)
    assert U.min() >= 0 and U.max() <= 1
    levels = np.linspace(0.05, 0.95, 19)
    assert np.abs(np.quantile(U, levels, axis=0) - levels[:, None]).max() < 0.06
    plain = QuantileTransformer(subsample=None).fit_transform(X)
    assert np.abs(U - plain).mean() < 0.02


@pytest.mark.parametrize("output", ["uniform", "normal"])
def test_monotone_and_invertible(output):
    X = columns(5000, 0)
    model = PrivateQuantileTransformer(1.0, output_distribution=output, random_state=0).fit(X)
    assert np.all(np.diff(model.quantiles_, axis=0) >= 0)
    grid = np.sort(X, axis=0)
    mapped = model.transform(grid)
    assert np.all(np.diff(mapped, axis=0) >= 0) and np.all(np.isfinite(mapped))
    middle = model.quantiles_[8:-8]
    np.testing.assert_allclose(
        model.transform(model.inverse_transform(model.transform(middle))), model.transform(middle), atol=1e-9
    )
    if output == "normal":
        assert np.abs(mapped).max() < 2.5 and np.all(np.abs(mapped.std(axis=0) - 1) < 0.2)


def test_shared_landmarks_map_to_the_middle_of_their_levels():
    X = np.concatenate([np.zeros(8000), np.arange(1.0, 2001.0)])[:, None]
    model = PrivateQuantileTransformer(5.0, random_state=0).fit(X)
    assert abs(model.transform([[0.0]])[0, 0] - 0.4) < 0.05


def test_bounds_are_the_outermost_landmarks():
    X = np.random.default_rng(0).uniform(0, 1, (5000, 2)) * [1, 100]
    model = PrivateQuantileTransformer(1.0, bounds=([0, 0], [1, 100]), random_state=0).fit(X)
    np.testing.assert_array_equal(model.quantiles_[[0, -1]], [[0, 0], [1, 100]])
    assert model.transform([[2.0, -1.0]]).tolist() == [[1.0, 0.0]]
    assert "bounds are public" in model.privacy_guarantee_.assumptions


def test_outer_edges():
    assert outer_edges(np.array([1.0, 2.0, 4.0]), None).tolist() == [0.0, 1.0, 2.0, 4.0, 6.0]
    assert outer_edges(np.array([0.0, 0.0, 4.0]), None).tolist() == [-2.0, 0.0, 0.0, 4.0, 8.0]
    assert outer_edges(np.array([0.5]), None).tolist() == [-0.5, 0.5, 1.5]
    assert outer_edges(np.array([3.0, 3.0]), (0.0, 5.0)).tolist() == [0.0, 3.0, 3.0, 5.0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_bins", [2, 5, 16])
def test_bins_hold_equally_many(n_bins, seed):
    X = columns(10_000, seed)[:, :3]
    bins = PrivateKBinsDiscretizer(1.0, n_bins=n_bins, encode="ordinal", random_state=seed).fit_transform(X)
    for column in bins.T:
        shares = np.bincount(column.astype(int), minlength=n_bins) / len(X)
        assert np.abs(shares - 1 / n_bins).max() < 0.05


@pytest.mark.skipif("quantile_method" not in KBinsDiscretizer().get_params(), reason="scikit-learn 1.7 or newer")
def test_encodings_agree_with_scikit_learn():
    X = np.random.default_rng(0).normal(size=(4000, 2))
    model = PrivateKBinsDiscretizer(1.0, n_bins=[4, 3], random_state=0).fit(X)
    other = KBinsDiscretizer([4, 3], encode="onehot-dense", quantile_method="averaged_inverted_cdf").fit(X)
    other.bin_edges_ = np.array(model.bin_edges_, dtype=object)
    np.testing.assert_array_equal(model.transform(X), other.transform(X))
    np.testing.assert_array_equal(model.get_feature_names_out(["a", "b"]), other.get_feature_names_out(["a", "b"]))
    sparse = PrivateKBinsDiscretizer(1.0, n_bins=[4, 3], encode="onehot", random_state=0).fit(X)
    np.testing.assert_array_equal(sparse.transform(X).toarray(), model.transform(X))
    ordinal = PrivateKBinsDiscretizer(1.0, n_bins=[4, 3], encode="ordinal", random_state=0).fit(X)
    np.testing.assert_array_equal(ordinal.transform(X), other.set_params(encode="ordinal").transform(X))


def test_missing_values_have_no_bin():
    X = np.random.default_rng(0).normal(size=(4000, 1))
    X[::2] = np.nan
    model = PrivateKBinsDiscretizer(1.0, n_bins=3, random_state=0).fit(X)
    onehot = model.transform(X)
    assert onehot[::2].sum() == 0 and np.all(onehot[1::2].sum(axis=1) == 1)
    ordinal = PrivateKBinsDiscretizer(1.0, n_bins=3, encode="ordinal", random_state=0).fit_transform(X)
    np.testing.assert_array_equal(np.isnan(ordinal), np.isnan(X))


def test_coinciding_quantiles_give_fewer_bins():
    X = np.concatenate([np.zeros(9000), np.arange(1.0, 1001.0)])[:, None]
    model = PrivateKBinsDiscretizer(5.0, n_bins=5, random_state=0).fit(X)
    assert model.n_bins_[0] < 5 and np.all(np.diff(model.bin_edges_[0]) > 0)
    assert model.transform(X).shape == (10_000, model.n_bins_[0])


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame):
    X = frame({"a": [1.0, None, 3.0], "b": [1, 2, 3]})
    library = "pandas" if frame is pd.DataFrame else "polars"
    binned = PrivateKBinsDiscretizer(n_bins=2, random_state=0).set_output(transform=library).fit_transform(X)
    assert isinstance(binned, frame) and next(iter(binned.columns)) == "a_0.0"
    mapped = PrivateQuantileTransformer(random_state=0).set_output(transform=library).fit_transform(X)
    assert isinstance(mapped, frame) and list(mapped.columns) == ["a", "b"]


@pytest.mark.parametrize("n_bins", [1, 2000, [2, 3, 4], [2, 2.5], "4"])
def test_bad_numbers_of_bins(n_bins):
    with pytest.raises((ValueError, TypeError), match="n_bins"):
        PrivateKBinsDiscretizer(n_bins=n_bins, random_state=0).fit(np.zeros((10, 2)))


def test_the_price_does_not_grow_with_the_rows_of_a_user():
    X = np.random.default_rng(0).normal(size=(5000, 1))
    users = np.repeat(np.arange(2500), 2)
    rows = PrivateQuantileTransformer(random_state=0).fit(X).privacy_guarantee_
    grouped = PrivateQuantileTransformer(random_state=0).fit(X, user_ids=users).privacy_guarantee_
    assert rows.events == grouped.events and (str(rows.unit), str(grouped.unit)) == ("row", "user")
