"""Public transformers and models that see one row at a time."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from threading import RLock
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
from narwhals.selectors import numeric
from numpy.typing import NDArray
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import TransformerTags, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import unheard
from skprivate._sklearn import HasMethods, _fit_context, _num_samples, quoting_no_entries
from skprivate.partitions import OverBlocks

#: One pass over rows at a time seeds NumPy's global generator, in each process: a fork may copy a lock that is held.
_PASSES: dict[int, Any] = {}

_DOC = """Call ``{0}`` of the estimator with one row at a time.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Entry i is a function of row i alone.
        """


def _one_by_one(name: str) -> Any:
    def method(self: RowByRow, X: Any) -> Any:
        return self._results(name, X)

    method.__name__, method.__doc__ = name, _DOC.format(name)
    return available_if(lambda self: hasattr(self._inner, name))(method)


class RowByRow(OverBlocks, MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    """Transform, or predict, one row at a time, so that no row can affect the result of another.

    Before a private step every row must be mapped by itself, to the last bit. Most transformers do not do so: some
    iterate over all rows until they converge (`~sklearn.decomposition.NMF`), and matrix products round a row by the
    number of others (`~sklearn.decomposition.PCA`). This wrapper calls the estimator once for each row, as it was after
    its fit: what one call changes, such as a generator, is not there for the next.

    Parameters
    ----------
    estimator : estimator
        A transformer or a model. One that learns must be fitted on public rows and wrapped in
        `~sklearn.frozen.FrozenEstimator`; one that learns nothing is fitted to types and names.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    n_features_in_ : int
        Number of features that the estimator saw in its fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they have names.
    classes_ : ndarray
        Of a classifier.

    See Also
    --------
    check_pipeline : Names the steps that need it.

    Notes
    -----
    *Guarantee.* Each row of a result is a function of that row and of the estimator, provided that linear algebra gives
    the same numbers for the same call. Each row gets a copy of the estimator, with the same seeds, and NumPy's global
    generator in the same state. Parts whose ``random_state`` is None get a seed of their own. Functions that draw from
    the global generator itself see what other threads draw from it meanwhile; other ``RowByRow`` wait for one another.
    So a function that waits for a fitted ``RowByRow`` in another thread waits for ever: call it in the same thread.
    What functions and classes of your own keep elsewhere is not in a copy: `guarantee_of` states as an assumption that
    they keep nothing. So a private step behind it has the same guarantee for the original rows. Warnings of the
    estimator are not shown.

    A call takes some 0.1 to 1 ms, so a million rows take minutes. Copies share arrays; trees and vocabularies are
    copied, which takes longer. Numbers of `transform` come back as floats: as
    integers, one missing entry would change the type of all others.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.pipeline import make_pipeline
    >>> from skprivate import UserLevelMean, guarantee_of
    >>> from skprivate.preprocessing import RowByRow
    >>> rng = np.random.default_rng(0)
    >>> public, private = rng.normal(size=(100, 5)), rng.normal(size=(200, 5))
    >>> step = RowByRow(FrozenEstimator(PCA(2).fit(public)))
    >>> model = make_pipeline(step, UserLevelMean(epsilon=1.0)).fit(private)
    >>> any("to the last bit" in text for text in guarantee_of(model).assumptions)
    False
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "transform"]), HasMethods(["fit", "predict"])]
    }

    #: False in the copies that a row of another pass calls.
    _alone: bool = True

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the estimator, unless it is a `~sklearn.frozen.FrozenEstimator`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional

        Returns
        -------
        self : RowByRow
            Itself.
        """
        for part in (self.estimator, *self.estimator.get_params(deep=True).values()):
            if (draws := getattr(part, "releases_in", "fit")) != "fit":
                raise TypeError(
                    f"estimator must not draw noise in {draws}, got {type(part).__name__}: it treats every row by "
                    "itself, and would pay for each of them."
                )
        with _unseen():
            self.estimator_ = clone(self.estimator).fit(_in_floats(X), y)
        return self

    def transform(self, X: Any) -> Any:
        """Transform one row at a time.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray or sparse matrix of shape (n_samples, n_features_out)
            Row i is a function of row i alone.
        """
        return self._results("transform", X)

    inverse_transform = _one_by_one("inverse_transform")
    predict = _one_by_one("predict")
    predict_proba = _one_by_one("predict_proba")
    decision_function = _one_by_one("decision_function")

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.str_]:
        """Names of the columns that the estimator makes.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            As the estimator takes them.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return self._inner.get_feature_names_out(input_features)

    @property
    def _inner(self) -> Any:
        return vars(self).get("estimator_", self.estimator)

    def _results(self, name: str, X: Any) -> Any:
        check_is_fitted(self)
        with _unseen(), config_context(transform_output="default"):
            if _num_samples(X) == 0:
                return getattr(self._inner, name)(X)
            with closing(_as_it_was(self._inner, alone=self._alone)) as models:
                # Copied out of the memory that the next row is written to.
                results = [
                    result if sparse.issparse(result) else np.array(result)
                    for result in (getattr(next(models), name)(row) for row in _rows(X))
                ]
            return _together(results, floats="transform" in name)

    def __getattr__(self, name: str) -> Any:
        if name in ("n_features_in_", "feature_names_in_", "classes_"):
            return getattr(self._inner, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self) or type(self.estimator) is FrozenEstimator

    def __sklearn_tags__(self) -> Any:
        tags = deepcopy(get_tags(self.estimator))
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags


@contextmanager
def _unseen() -> Iterator[None]:
    """Hide warnings, and entries in errors."""
    with quoting_no_entries(), unheard():
        yield


def _as_it_was(model: BaseEstimator, *, alone: bool) -> Generator[Any, None, None]:
    """Copy a model again and again, and seed NumPy's global generator anew: no row can leave anything to the next.

    Copies share arrays, and cannot write to them. ``alone`` is False for what a row of another pass calls, perhaps in
    a thread that this pass waits for.
    """
    with _PASSES.setdefault(os.getpid(), RLock()) if alone else nullcontext():
        generator = check_random_state(None)
        seed, before = generator.randint(2**31), generator.get_state(legacy=False)
        copy = _copier(_with_own_seeds(model, seed))
        try:
            while True:
                generator.seed(seed)  # 20 times as fast as the state
                yield copy()
        finally:
            generator.set_state(before)


def _with_own_seeds(model: BaseEstimator, seed: int) -> Any:
    """Copy a model whose parts draw from no global generator; parts that draw private noise stay as they are."""
    parts: dict[int, Any] = {}
    copy, seeds = deepcopy(model, parts), check_random_state(seed)
    for part in parts.values():
        if isinstance(part, RowByRow):
            part._alone = False
        if getattr(part, "__dict__", {}).get("random_state", 0) is None and not hasattr(part, "releases_in"):
            part.random_state = seeds.randint(2**31)
    return copy


def _copier(model: BaseEstimator) -> Callable[[], Any]:
    buffers: list[pickle.PickleBuffer] = []
    try:
        state = pickle.dumps(model, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        shared = [buffer.raw().toreadonly() for buffer in buffers]
        return partial(pickle.loads, state, buffers=shared)
    except (AttributeError, TypeError, pickle.PicklingError):  # functions without a name
        return partial(deepcopy, model)


def _in_floats(X: Any) -> Any:
    """Cast numbers of a frame to floats: in an integer column a row with a missing entry has another type."""
    if any(str(kind).startswith("dictionary") for kind in getattr(getattr(X, "schema", None), "types", ())):
        raise TypeError(
            "X must hold no dictionary of pyarrow, whose missing entries are read as its last value. Decode it: "
            "column.cast(column.type.value_type)."
        )
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    try:
        floats = numeric().cast(nw.Float64)
        return frame.with_columns(floats).to_native() if isinstance(frame, nw.DataFrame) else X
    except Exception:  # Arrow quotes the entry
        raise ValueError("X must hold integers that float64 holds, or floats.") from None


def _rows(X: Any) -> Iterator[Any]:
    """Iterate over single rows; arrays are copied to one place, as a product may round by the address of its input."""
    if isinstance(X, list | tuple):
        yield from ([row] for row in X)
    elif sparse.issparse(X):
        rows: Any = X
        yield from (rows.tocsr()[[i]] for i in range(rows.shape[0]))
    elif isinstance(frame := nw.from_native(_in_floats(X), eager_only=True, pass_through=True), nw.DataFrame):
        yield from (frame[i : i + 1].to_native() for i in range(len(frame)))
    else:
        X = np.asarray(X)
        row = np.empty((1, *X.shape[1:]), X.dtype)
        for one in X:
            row[0] = one
            yield row


def _together(results: list[Any], *, floats: bool) -> Any:
    """Stack results of single rows, in a type that no row decides for the others."""
    if floats:  # a row of features; some transformers drop the dimension of a single row
        results = [one.reshape(1, -1) if one.ndim == 1 else one for one in results]
        results = [one.astype(np.float64) if one.dtype.kind in "biu" else one for one in results]
    if all(map(sparse.issparse, results)):
        return sparse.vstack(results, format="csr")
    dense: list[Any] = [result.toarray() if hasattr(result, "toarray") else result for result in results]
    if len({result.dtype.kind for result in dense}) > 1:
        dense = [result.astype(object) for result in dense]
    return np.concatenate(dense)
