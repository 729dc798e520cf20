"""The wrapper that shows an estimator one row at a time."""

import contextlib
import pickle
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder
from sklearn.utils import all_estimators, check_random_state

from skprivate import MetricPrivatizer, UserLevelMean, guarantee_of
from skprivate.inspection import to_release
from skprivate.partitions import Blocks
from skprivate.preprocessing import RowByRow
from skprivate.preprocessing._row_by_row import _with_own_seeds
from skprivate.privacy import PrivacyLedger, public_generator

PUBLIC = np.abs(public_generator(0).normal(size=(200, 6)))
LABELS = np.where(PUBLIC[:, 0] > PUBLIC[:, 1], "yes", "no")


def frozen(model, *y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RowByRow(FrozenEstimator(model.fit(PUBLIC, *y)))


MODELS = [
    *(frozen(PCA(2)), frozen(NMF(2)), frozen(LogisticRegression(), LABELS)),
    *(RowByRow(Normalizer()), RowByRow(FunctionTransformer(np.sin))),
]


def outcome(model, X):
    inner = model.estimator if isinstance(model, RowByRow) else model
    names = [name for name in ("transform", "predict_proba", "predict") if hasattr(inner, name)]
    return [getattr(model, name)(X) for name in names]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.estimator)[:40])
@given(
    n=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    order=st.sampled_from("CF"),
    size=st.sampled_from([0, 1, 1e12]),
)
@settings(max_examples=8, deadline=None)
def test_a_row_is_mapped_by_itself(model, n, seed, order, size):
    rng = public_generator(seed)
    X = np.abs(rng.normal(size=(n, 6)))
    fitted = clone(model).fit(X)
    one_more = np.vstack([X, size * X[:1]])
    places = rng.permutation(n + 1)
    for few, many in zip(outcome(fitted, X), outcome(fitted, np.array(one_more[places], order=order)), strict=True):
        assert few.tobytes() == many[np.argsort(places)[:n]].tobytes()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.estimator)[:40])
def test_it_gives_what_the_estimator_gives(model):
    few, fitted = PUBLIC[:5], clone(model).fit(PUBLIC)
    expected = outcome(fitted, few)
    for one, plain in zip(expected, outcome(fitted.estimator_, few), strict=True):
        assert one.shape == plain.shape and one.dtype == plain.dtype
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, plain, atol=0.01)  # NMF stops elsewhere
    for other in (pd.DataFrame(few), pl.DataFrame(few, schema=list("abcdef")), few.tolist()):
        for one, again in zip(expected, outcome(fitted, other), strict=True):
            np.testing.assert_array_equal(one, again)
    for one, again in zip(expected, outcome(pickle.loads(pickle.dumps(fitted)), few), strict=True):
        np.testing.assert_array_equal(one, again)
    for one, blocks in zip(expected, outcome(fitted, Blocks([few[:3], few[3:]])), strict=True):
        np.testing.assert_array_equal(one, np.concatenate(list(blocks)))


def test_frames_in_and_out():
    named = pd.DataFrame(PUBLIC, columns=list("abcdef"))
    model = RowByRow(FrozenEstimator(PCA(2).fit(named))).set_output(transform="pandas")
    out = model.fit_transform(named[:4])
    assert list(out.columns) == list(model.get_feature_names_out()) == ["pca0", "pca1"]
    assert list(model.feature_names_in_) == list("abcdef") and model.n_features_in_ == 6
    with pytest.raises(ValueError, match="feature names"):
        model.transform(named[:4].rename(columns={"a": "z"}))
    assert frozen(LogisticRegression(), LABELS).classes_.tolist() == ["no", "yes"]
    assert not hasattr(model, "classes_") and not hasattr(model, "predict") and not hasattr(model, "nothing")


def test_sparse_results_texts_and_no_rows():
    texts = ["one two", "three"]
    out = RowByRow(HashingVectorizer(n_features=8)).fit_transform(texts)
    assert sparse.issparse(out) and (out != HashingVectorizer(n_features=8).transform(texts)).nnz == 0
    rows = sparse.csr_array(np.eye(3))
    assert np.array_equal(RowByRow(Normalizer()).fit_transform(rows).toarray(), np.eye(3))
    with pytest.raises(ValueError, match="0 sample"):
        frozen(PCA(2)).transform(PUBLIC[:0])


def _pandas(values):
    return pd.DataFrame({"x": pd.array(values, dtype="Int64")})


def _polars(values):
    return pl.DataFrame({"x": pl.Series(values, dtype=pl.Int64)})


@pytest.mark.parametrize("frame", [_pandas, _polars])
def test_one_missing_entry_changes_the_type_of_no_other(frame):
    """Integers would become floats with it, and large codes others."""
    column = [2**53 + 1, 2**53 + 3, 5]
    model = RowByRow(SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True))
    full, holed = (model.fit_transform(frame(values)) for values in (column, [*column[:2], None]))
    assert full.dtype == holed.dtype == np.float64 and full[:2].tobytes() == holed[:2].tobytes()


def test_dictionaries_are_decoded_first():
    """The last row brings a value, which all missing entries would be read as."""
    column = pa.array(["a", "a", None, "b"]).dictionary_encode()
    step = RowByRow(OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore", sparse_output=False))
    decoded = pa.table({"c": column.cast(column.type.value_type)})
    assert step.fit(decoded).transform(decoded).tolist() == [[1, 0], [1, 0], [0, 0], [0, 1]]
    for call in (step.fit, step.transform):
        with pytest.raises(TypeError, match="no dictionary of pyarrow"):
            call(pa.table({"c": column}))


def test_kinds_of_results_are_kept_apart():
    class Mixed(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return np.array([["a"]]) if X[0, 0] else X

    assert RowByRow(Mixed()).fit(PUBLIC).transform(np.array([[1.5], [0.0]])).tolist() == [["a"], [0.0]]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("odd", [None, 0.5, "text", 3])
def test_integers_are_the_same_floats_beside_any_other_row(odd, make):
    """One result of another type would leave, or make, other numbers of everybody's large integers."""

    def one(X):
        return make(X.astype(np.int64)) if X[0, 0] == 2**60 + 1 else np.array(X.tolist(), ndmin=2)

    rows = np.array([[2**60 + 1], [2**60 + 1], [odd]], dtype=object)
    found = RowByRow(FunctionTransformer(one)).fit(rows).transform(rows)
    assert {(type(value), value) for value in found[:2, 0].tolist()} == {(float, 2.0**60)}


def test_nothing_is_shown():
    X = np.array([[1.0], [0.0]])
    encoder = OneHotEncoder(categories=[[1.0, 2.0]], handle_unknown="ignore", drop="first", sparse_output=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RowByRow(FunctionTransformer(np.log, check_inverse=True, inverse_func=np.sqrt)).fit_transform(X)
        RowByRow(encoder).fit_transform(X)


def test_errors_quote_no_entry():
    encoder = RowByRow(OneHotEncoder(categories=[["a"]])).fit(np.array([["a"]]))
    for call, X in (
        (encoder.transform, np.array([["a"], ["7.34119x"]])),
        (frozen(PCA(2)).transform, [["7.34119x"] * 6]),
        (RowByRow(OneHotEncoder(categories=[["a"]])).fit, np.array([["7.34119x"]])),
        (RowByRow(FunctionTransformer()).fit, pa.table({"a": [10**16 + 34119, 1]})),
    ):
        with pytest.raises(ValueError) as error:
            call(X)
        assert "34119" not in str(error.value) and error.value.__cause__ is None


class Draws(TransformerMixin, BaseEstimator):
    """Draws as often as a row says, and refuses some."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        np.random.rand(int(X[0, 0]))  # noqa: NPY002
        if X[0, 0] > 4:
            raise ValueError("refused")
        return X


def test_a_refusal_leaves_the_global_generator_alone():
    """What others draw afterwards would tell how often the row made it draw."""
    places = []
    for row in (5.0, 9.0):
        np.random.seed(0)  # noqa: NPY002
        with pytest.raises(ValueError, match="refused") as kept:
            RowByRow(Draws()).fit(PUBLIC).transform(np.array([[row]]))
        places.append((np.random.rand(), kept))  # noqa: NPY002
    assert places[0][0] == places[1][0]


class Meanwhile(TransformerMixin, BaseEstimator):
    """Adds noise, drawn after another thread has drawn as often as the row says."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        other = threading.Thread(target=np.random.rand, args=[int(X[0, 0])])
        other.start()
        other.join()
        return X[:, 1:] + check_random_state(self.random_state).normal(size=1)


@pytest.mark.parametrize("function", [np.sin, lambda X: np.sin(X)], ids=["pickled", "copied"])
def test_what_another_thread_draws_moves_no_noise(function):
    model = RowByRow(make_pipeline(FunctionTransformer(), Meanwhile(), FunctionTransformer(function)))
    rows = np.array([[0.0, 1.0], [5.0, 1.0], [9.0, 1.0]])
    out = model.fit(rows).transform(rows)
    assert len({row.tobytes() for row in out}) == 1
    assert model.estimator_[1].random_state is None
    parts = RowByRow(make_pipeline(Meanwhile(), FunctionTransformer(np.exp), Meanwhile())).fit(rows)
    seeds = [_with_own_seeds(parts, 0).estimator_[k].random_state for k in (0, 2)]
    assert parts.estimator_[0].random_state is parts.estimator_[2].random_state is None
    assert None not in seeds and len(set(seeds)) == 2


def test_passes_in_threads_seed_the_global_generator_one_after_the_other():
    interval = sys.getswitchinterval()
    found = []

    def run():
        model = RowByRow(FunctionTransformer(lambda X: X + np.random.rand()))  # noqa: NPY002
        found.append(np.unique(model.fit_transform(np.zeros((300, 1)))))

    threads = [threading.Thread(target=run) for _ in range(3)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert [len(values) for values in found] == [1, 1, 1]


class InAThread(TransformerMixin, BaseEstimator):
    """Waits for another thread that transforms."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner_ = clone(self.inner).fit(X)
        return self

    def transform(self, X):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.inner_.transform, X).result(timeout=20)


def test_a_pass_within_a_pass_waits_for_nobody():
    model = RowByRow(InAThread(RowByRow(InAThread(RowByRow(FunctionTransformer(np.sin))))))
    assert np.array_equal(model.fit_transform(PUBLIC[:3]), np.sin(PUBLIC[:3]))


def test_what_pays_for_each_row_is_refused():
    for model in (MetricPrivatizer(), make_pipeline(MetricPrivatizer(), Normalizer())):
        with pytest.raises(TypeError, match="MetricPrivatizer"):
            RowByRow(model).fit(PUBLIC)


def test_in_pipelines_and_published():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    columns = ColumnTransformer([("a", frozen(NMF(2)), list(range(6)))])
    model = make_pipeline(columns, UserLevelMean(1.0, ledger=ledger)).fit(PUBLIC[:50])
    assert guarantee_of(model).epsilon <= 1.0
    copied = to_release(model)
    assert np.array_equal(copied[0].transform(PUBLIC[:3]), model[0].transform(PUBLIC[:3]))


#: Options by which a fitted estimator of scikit-learn draws, or could draw, when it transforms or predicts.
RANDOM = {
    "imputation_order": "random",
    "sample_posterior": True,
    "selection": "random",
    "shuffle": True,
    "strategy": "uniform",  # of the dummy; others refuse it
    "init": "random",
    "max_iter": 2,
    "n_estimators": 3,
}


def drawing(kind, random_state):
    """An estimator of scikit-learn, with those random options that it takes; None if it needs another."""
    known = set(kind._get_param_names())
    options = {"random_state": random_state} if "random_state" in known else {}
    for name, value in RANDOM.items():
        tried = {**options, name: value}
        with contextlib.suppress(TypeError, ValueError):
            if name in known:
                kind(**tried)._validate_params()
                options = tried
    try:
        return kind(**options)
    except TypeError:
        return None


def takes(model, method, rows):
    """Whether a model maps rows of numbers that it has not seen, some of them with gaps."""
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        getattr(deepcopy(model), method)(rows)
        return True
    return False


@pytest.mark.take_turns(6)
@pytest.mark.parametrize("kind", dict(all_estimators()).values(), ids=lambda kind: kind.__name__)
def test_no_estimator_leaves_anything_from_one_row_to_the_next(kind):
    """Whether the first row has a gap, and where it lies, decides nothing about the others, nor about the model."""
    X = PUBLIC[:30, :3]
    gaps = np.where(np.arange(90).reshape(30, 3) % 7 == 0, np.nan, X)
    others = np.vstack([np.full(3, 2.5), gaps[:2], np.full(3, np.nan)])
    labels = np.arange(30) % 2
    state = np.random.RandomState(0)
    for random_state, rows in ((state, gaps), (state, X), (None, X)):
        with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError, AttributeError):
            warnings.simplefilter("ignore")
            model = drawing(kind, random_state).fit(rows, labels)
            break
    else:
        return  # needs other data, or another estimator
    for method in ("transform", "predict", "predict_proba", "decision_function"):
        found, firsts = set(), others if np.isnan(rows).any() else [X[0], X[1], 2 * X[0]]
        if not takes(model, method, np.vstack([*firsts, rows[10:13]])):
            continue
        for first in firsts:
            np.random.seed(0)  # noqa: NPY002
            before = pickle.dumps(model)
            part = getattr(RowByRow(FrozenEstimator(model)), method)(np.vstack([first, rows[10:13]]))
            part = part.toarray() if sparse.issparse(part) else part
            found.add(repr(part[1:].tolist()))  # to the last bit; one row may come as another type
            assert len(part) == 4 and pickle.dumps(model) == before
        assert len(found) == 1, (method, model)
