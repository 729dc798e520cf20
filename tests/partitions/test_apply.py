"""Predictions over rows in blocks: those of the rows in memory, to the last bit, where the rows are, and lazily."""

import pickle
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from test_common import ESTIMATORS

from skprivate import UserLevelSGDRegressor
from skprivate.base import PrivateEstimatorMixin
from skprivate.metric import MetricPrivatizer
from skprivate.partitions import Blocks, apply, as_partitions, linear_rows
from skprivate.partitions._apply import ROW_METHODS
from skprivate.preprocessing import PrivateStandardScaler, PublicOneHotEncoder, PublicScaler
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.utils.estimator_checks import default_data

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too few:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*[Ss]imulat"),
    pytest.mark.filterwarnings("ignore:private_label is None:UserWarning"),
]
NAMES = ["a", "b", "c"]
N_ROWS = 203


def fitted(estimator):
    estimator = clone(estimator)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    data = default_data(estimator, public_generator(0), N_ROWS)
    X = pd.DataFrame(data.X, columns=NAMES)
    return (estimator.fit(X, **data.metadata) if data.y is None else estimator.fit(X, data.y, **data.metadata)), X


CALLS = [
    pytest.param(estimator, name, id=f"{type(estimator).__name__}.{name}")
    for estimator in ESTIMATORS
    for name in ROW_METHODS
    if hasattr(type(estimator), name) and type(estimator).__name__ not in ("FiniteAdversaryAuditor", "MetricPrivatizer")
]


def cut(X, ends):
    return [X[a:b] for a, b in pairwise([0, *ends, len(X)])]


def rows_for(name, model, X):
    """Rows to call a method on: what `transform` gives, for its inverse."""
    if name != "inverse_transform":
        return X
    rows = model.transform(X)
    return pd.DataFrame(rows, columns=NAMES) if rows.shape[1] == len(NAMES) else rows


def in_blocks(X):
    """Rows in one-row, in empty and in other blocks, by place."""
    yield Blocks(cut(X, [1, 2, 2, 5, 100]))
    yield as_partitions(Blocks(lambda: iter(cut(X, [50]))))
    if isinstance(X, pd.DataFrame):
        yield ds.InMemoryDataset(pa.Table.from_pandas(X))
        yield dd.from_pandas(X, npartitions=6)
    else:
        yield da.from_array(X, chunks=((1, 2, N_ROWS - 3), X.shape[1]))


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("estimator", "name"), CALLS)
def test_the_same_results_to_the_last_bit(estimator, name):
    model, X = fitted(estimator)
    if not hasattr(model, name):
        pytest.skip("this method is there with other parameters only")
    X = rows_for(name, model, X)
    expected = getattr(model, name)(X)
    kind = np.asarray(expected).dtype
    for rows in in_blocks(X):
        result = getattr(model, name)(rows)
        if isinstance(rows, Blocks | ds.Dataset):
            for _ in range(2):  # as often as needed
                found = np.concatenate([np.asarray(block) for block in result])
        else:
            assert isinstance(result, da.Array)
            with dask.config.set(scheduler="synchronous"):
                found = result.compute()
            assert result.dtype == found.dtype and result.ndim == found.ndim
            assert result.shape[1:] == found.shape[1:]
        assert found.dtype == kind and found.shape == np.shape(expected)
        if kind.kind == "O":
            assert found.tolist() == np.asarray(expected).tolist()
        else:
            assert np.asarray(expected).tobytes() == found.tobytes()


@pytest.mark.parametrize(
    "estimator",
    [e for e in ESTIMATORS if isinstance(e, PrivateEstimatorMixin) and isinstance(e, RegressorMixin | ClassifierMixin)],
    ids=lambda e: type(e).__name__,
)
def test_scores_of_rows_in_blocks(estimator):
    model, X = fitted(estimator)
    y = model.predict(X)
    y = np.r_[y[1:], y[:1]]
    expected = model.score(X, y)
    frame = dd.from_pandas(X.assign(k=np.arange(N_ROWS)), npartitions=4)
    filtered = frame[frame.k >= 0][NAMES]  # nobody knows of how many rows
    with dask.config.set(scheduler="synchronous"):
        for rows in (*in_blocks(X), filtered):
            assert model.score(rows, y) == expected
        assert model.score(filtered, dd.from_pandas(pd.Series(y), npartitions=3)) == expected


def test_nothing_is_read_before_results_are_asked_for():
    model, X = fitted(PublicScaler(center=0.5, scale=0.5))
    read = []

    def block(k):
        read.append(k)
        return X.iloc[k : k + 1]

    frame = dd.from_map(block, range(4), meta=X.iloc[:0])
    lazy = model.transform(frame)
    parts = model.transform(Blocks(lambda: map(block, range(4))))
    assert read == [0]  # names and types of blocks are those of the first one
    next(iter(parts))
    assert read == [0, 0]
    with dask.config.set(scheduler="synchronous"):
        assert lazy.compute().shape == (4, 3)


def test_frames_keep_their_index():
    model, X = fitted(PrivateStandardScaler())
    model.set_output(transform="pandas")
    X = X.set_axis(np.arange(N_ROWS) * 7, axis=0)
    result = model.transform(dd.from_pandas(X, npartitions=3))
    assert isinstance(result, dd.DataFrame) and list(result.columns) == NAMES
    with dask.config.set(scheduler="synchronous"):
        pd.testing.assert_frame_equal(result.compute(), model.transform(X))
        unnamed = clone(model).fit(X.to_numpy())
        lazy = unnamed.transform(da.from_array(X.to_numpy(), chunks=(50, 3)))
        assert isinstance(lazy, dd.DataFrame)
        assert np.array_equal(lazy.compute(), unnamed.transform(X.to_numpy()))
    for block in model.transform(Blocks(cut(X, [20]))):
        assert isinstance(block, pd.DataFrame)


def test_categories_that_no_made_up_row_has():
    X = pd.DataFrame({"colour": ["red", "blue"] * 5})
    encoder = PublicOneHotEncoder(categories=["red", "blue"]).fit(X)
    with dask.config.set(scheduler="synchronous"):
        result = encoder.transform(dd.from_pandas(X, npartitions=2))
        assert result.shape[1] == 3 and np.array_equal(result.compute(), encoder.transform(X))


def test_pipelines_by_the_same_door():
    X = pd.DataFrame(public_generator(0).normal(size=(N_ROWS, 3)), columns=NAMES)
    model = make_pipeline(PublicScaler(scale=3.0), UserLevelSGDRegressor(random_state=0, max_iter=2))
    model.fit(X, X["a"], userlevelsgdregressor__user_ids=np.arange(N_ROWS) // 3)
    with dask.config.set(scheduler="synchronous"):
        lazy = apply(model.predict, dd.from_pandas(X, npartitions=4))
        assert np.array_equal(lazy.compute(), model.predict(X))
    assert np.array_equal(apply(model.predict, X), model.predict(X))


def test_what_travels_has_no_ledger():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, simulation=True)
    model, X = fitted(PrivateStandardScaler(ledger=ledger))
    parts = model.transform(as_partitions(dd.from_pandas(X, npartitions=2)))
    (function,) = parts._functions
    assert function.model.ledger is None
    assert b"PrivacyLedger" not in pickle.dumps(function)


def test_what_pays_is_not_called_behind_the_scenes():
    X = public_generator(0).uniform(size=(10, 2))
    ledger = PrivacyLedger(epsilon=10.0, simulation=True, adjacency=None)
    model = MetricPrivatizer(1.0, ledger=ledger, random_state=0).fit(X)
    for method in (model.transform, make_pipeline(model).transform):
        with pytest.raises(TypeError, match="transform of MetricPrivatizer draws noise"):
            apply(method, Blocks([X]))
    with pytest.raises(TypeError, match="draws noise"):
        model.transform(Blocks([X]))
    assert len(ledger.entries()) == 0
    pipeline = make_pipeline(model, LinearRegression()).fit(X, X[:, 0])  # predicts by a transform that pays
    with pytest.raises(TypeError, match="transform of MetricPrivatizer draws noise"):
        apply(pipeline.predict, Blocks([X]))
    assert len(ledger.entries()) == 1


def test_mistakes_show_at_once():
    model, X = fitted(PrivateStandardScaler())
    with pytest.raises(ValueError, match="feature names"):
        model.transform(Blocks([X.rename(columns={"a": "z"})]))
    with pytest.raises(ValueError, match="3 features"):
        clone(model).fit(X.to_numpy()).transform(da.zeros((10, 7), chunks=(5, 7)))
    with pytest.raises(NotFittedError):
        PrivateStandardScaler().transform(Blocks([X]))
    with pytest.raises(TypeError, match="method must be one of a fitted model"):
        apply(np.abs, Blocks([X]))


@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_linear_functions_do_not_see_other_rows(n_outputs):
    rng = public_generator(0)
    X, shape = rng.normal(size=(501, 23)), (23,) if n_outputs is None else (n_outputs, 23)
    coef = rng.normal(size=shape)
    intercept = 1.5 if n_outputs is None else rng.normal(size=n_outputs)
    whole = linear_rows(X, coef, intercept)
    np.testing.assert_allclose(whole, X @ coef.T + intercept, rtol=1e-12, atol=1e-12)
    parts = [linear_rows(np.asfortranarray(part), coef, intercept) for part in cut(X, [1, 2, 4, 7, 300])]
    assert np.array_equal(np.concatenate(parts), whole)
