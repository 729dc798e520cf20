"""Methods of fitted models over rows in blocks: predictions where the rows are."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import unheard
from skprivate._sklearn import quoting_no_entries
from skprivate._validation import validate_data
from skprivate.partitions import _copies, _kinds
from skprivate.privacy import in_one_order

#: Methods from rows to one result a row.
ROW_METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score_samples",
    "transform",
    "inverse_transform",
)


def apply(method: Callable[..., Any], X: Any, /, *args: Any, **options: Any) -> Any:
    """Apply a method of a fitted model to rows in blocks, lazily; to rows in memory, at once.

    The methods of this library's estimators call it by themselves: ``model.predict(frame)`` is
    ``apply(model.predict, frame)``. For composites such as pipelines call it by name.

    Parameters
    ----------
    method : bound method
        Of a fitted model, such as ``model.predict``: each row's result must depend on that row alone.
    X : Dask array or DataFrame, pyarrow dataset, Partitions, or one block in memory
        Rows with the columns that the model was fitted on.
    *args, **options
        Further arguments of the method.

    Returns
    -------
    Dask array or DataFrame, Partitions, or what the method returns
        For a Dask collection a lazy one: an array, or a DataFrame on the same index where the method returns frames.
        For other rows in blocks the blocks of results; those of `Blocks` and datasets can be iterated over, as often
        as needed.

    Raises
    ------
    TypeError
        If the model, or one in it, draws noise that is paid for on the rows (``releases_in = "transform"``), or the
        model cannot be pickled.
    ValueError
        If the columns are not those that the model was fitted on.

    See Also
    --------
    as_partitions : Converts rows of any kind.

    Notes
    -----
    What travels is a copy without ledgers, paths and generators, as `to_release` makes it. Nothing is computed before
    the result is asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.partitions import Blocks, apply
    >>> from skprivate.preprocessing import PublicScaler
    >>> scaler = PublicScaler(center=5, scale=5).fit(np.zeros((1, 1)))
    >>> rows = Blocks([np.array([[0.0], [5.0]]), np.array([[10.0]])])
    >>> [block.ravel().tolist() for block in apply(scaler.transform, rows)]
    [[-1.0, 0.0], [1.0]]
    """
    if not _kinds.is_partitioned(X):
        return method(X, *args, **options)
    model, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
    if model is None or not hasattr(model, "get_params"):
        raise TypeError(f"method must be one of a fitted model, such as model.predict, got {method!r}.")
    for part in (model, *model.get_params(deep=True).values()):
        # A composite's predict calls transform of its steps.
        if (draws := getattr(part, "releases_in", "fit")) != "fit":
            raise TypeError(
                f"{draws} of {type(part).__name__} draws noise and pays for it, so it is not called behind the scenes, "
                "block by block: loop over the blocks, and each call is a release of its own."
            )
    check_is_fitted(model)
    rows = _kinds.as_partitions(X)
    if name != "inverse_transform":
        validate_data(model, rows.empty, reset=False, skip_check_array=True)
    function = RowMethod(_copies.published_copy(model, allow_invalid=True), name, args, options, rows.empty)
    if rows is X or not hasattr(X, "dask"):
        return rows.map(function)
    from skprivate.partitions._dask import lazily

    return lazily(X, function)


class RowMethod:
    """A method of a published model, to be called on blocks; ``nothing`` is its result for no rows."""

    def __init__(
        self, model: BaseEstimator, name: str, args: tuple[Any, ...], options: dict[str, Any], empty: object
    ) -> None:
        self.model, self.name, self.args, self.options = model, name, args, options
        self.__name__ = name  # as Dask calls its tasks
        self.nothing = self._nothing(empty)

    def __call__(self, block: object) -> Any:
        """Apply the method to a block."""
        if block.shape[0] == 0:  # which estimators refuse
            return self.nothing
        return getattr(self.model, self.name)(block, *self.args, **self.options)

    def _nothing(self, empty: object) -> Any:
        """Make the result for no rows, from a made-up row; where that is refused, from a transformer's column names."""
        try:
            with unheard():
                return self(_made_up(empty))[:0]
        except Exception:
            if not hasattr(self.model, "get_feature_names_out"):
                return np.empty(0)
            return np.empty((0, len(self.model.get_feature_names_out())))


def _made_up(empty: object) -> Any:
    """Make one row of ones in the types of a block."""
    if isinstance(empty, np.ndarray):
        return np.ones((1, empty.shape[1]), dtype=empty.dtype)
    if type(empty).__module__.startswith("pandas"):
        ones = type(empty)(np.ones((1, empty.shape[1])), columns=empty.columns)
        return ones.astype(empty.dtypes.to_dict())
    frame = nw.from_native(empty, eager_only=True)
    series = [
        nw.new_series(name, [1.0], backend=frame.implementation).cast(dtype) for name, dtype in frame.schema.items()
    ]
    return nw.from_dict({column.name: column for column in series}).to_native()


class OverBlocks:
    """Mixin for methods from rows to results: they take rows in blocks, too, and answer lazily (`apply`).

    It wraps the methods of the classes that inherit, and scikit-learn's ``score``, which gathers the results. It goes
    left of scikit-learn's `TransformerMixin`, whose ``set_output`` wraps ``transform`` as well, so that each block has
    the type that ``set_output`` asks for.
    """

    _over_blocks: ClassVar[tuple[str, ...]] = ROW_METHODS

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if getattr(cls, "score", None) in (ClassifierMixin.score, RegressorMixin.score):
            cls.score = _scored(cls.score)
        for name in cls._over_blocks:
            method = vars(cls).get(name)
            if callable(method):
                setattr(cls, name, _mapped(method))
            elif hasattr(method, "check") and hasattr(method, "fn"):  # scikit-learn's available_if
                method.fn = _mapped(method.fn)


def _scored(score: Callable[..., Any]) -> Callable[..., Any]:
    """Gather predictions before scikit-learn's score, as those of blocks have no length."""

    @functools.wraps(score)
    def over_blocks(self: Any, X: Any, y: Any, *args: Any, **options: Any) -> Any:
        with quoting_no_entries():
            if not _kinds.is_partitioned(X):
                return score(self, X, y, *args, **options)
            y_pred = self.predict(X)
            gathered = np.asarray(y_pred if hasattr(y_pred, "dask") else y_pred.gather(np.asarray, np.concatenate))
            return score(SimpleNamespace(predict=lambda _: gathered), X, np.asarray(y), *args, **options)

    # References into scikit-learn's guide lead nowhere from here.
    over_blocks.__doc__ = re.sub(r":ref:`(.*?) <.*?>`", r"\1", score.__doc__ or "")
    return in_one_order(over_blocks)


def _mapped(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def over_blocks(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if _kinds.is_partitioned(X):
            return apply(getattr(self, method.__name__), X, *args, **options)
        return method(self, X, *args, **options)

    return over_blocks
