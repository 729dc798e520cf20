"""Data for the privacy checks, and everything that an object holds."""

from __future__ import annotations

import dataclasses
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from numbers import Number
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from skprivate._sklearn import _num_samples, _safe_indexing
from skprivate.privacy import PrivacyUnit, SimulatedNoiseWarning, public_generator

_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType)
#: Fitted attributes that state the shape of the input, which every estimator publishes.
_SHAPE = ("n_features_in_", "feature_names_in_")
#: Per-row arguments of ``fit`` that the common data know how to make.
ROW_METADATA = ("user_ids", "private")


def fitted_state(estimator: BaseEstimator) -> dict[str, Any]:
    """Return attributes of a fitted estimator that are not its parameters, nor the public shape of its input."""
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in vars(estimator).items() if name not in parameters and name not in _SHAPE}


def fitted_leaves(estimator: BaseEstimator) -> dict[str, Any]:
    """Find the values that a fitted estimator holds at any depth, besides its parameters and the shape of its input."""
    found = {}
    for name, value in fitted_state(estimator).items():
        found.update({name + path: leaf for path, leaf in leaves(value).items()})
    return found


def leaves(root: object) -> dict[str, Any]:
    """Find the values that ``root`` holds at any depth: one for each path, in a fixed order.

    Goes through mappings, sequences, sets, arrays, data frames, objects with attributes or slots, objects that only
    pickle knows how to take apart, and closures of functions.
    """
    return dict(_walk(root, "", set()))


def _walk(value: object, path: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    if value is None or isinstance(value, str | bytes | Number | np.generic):
        yield path, value
        return
    if isinstance(value, _SKIPPED) or id(value) in above:
        return
    above = above | {id(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            yield f"{path}.shape", str(value.shape)
            for k, item in enumerate(value.flat):
                yield from _walk(item, f"{path}[{k}]", above)
        else:
            yield path, value
    elif isinstance(value, Mapping):
        yield f"{path}.len", len(value)
        for k, (key, item) in enumerate(value.items()):
            # Keys may hold private values themselves, so their place is the path.
            yield from _walk(key, f"{path}.key{k}", above)
            yield from _walk(item, f"{path}[{key!r}]" if isinstance(key, str) else f"{path}[{k}]", above)
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield f"{path}.len", len(items)
        for k, item in enumerate(items):
            yield from _walk(item, f"{path}[{k}]", above)
    elif callable(getattr(value, "to_numpy", None)):  # data frames and series
        yield from _walk(value.to_numpy(), path, above)
    elif callable(getattr(value, "detach", None)) and callable(getattr(value, "numpy", None)):  # tensors
        yield path, value.detach().numpy()
    else:
        yield from _walk_object(value, path, above)


def _walk_object(value: object, path: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    parts = {name: getattr(value, name) for name in names if hasattr(value, name)}
    parts |= getattr(value, "__dict__", {})
    if isinstance(value, types.FunctionType | types.MethodType):
        cells = getattr(value, "__closure__", None) or ()
        parts |= {f"closure{k}": cell.cell_contents for k, cell in enumerate(cells)}
        parts |= {"defaults": getattr(value, "__defaults__", None), "self": getattr(value, "__self__", None)}
    elif not parts:
        try:
            parts = {f"state{k}": part for k, part in enumerate(value.__reduce_ex__(4)[1:3])}
        except Exception:  # nothing that could be written down either
            parts = {"repr": repr(value)}
    for name, part in parts.items():
        yield from _walk(part, f"{path}.{name}" if path else name, above)


def numbers(found: Mapping[str, Any]) -> np.ndarray:
    """Collect all floating-point numbers among ``found`` leaves, flat and unordered."""
    parts = [np.zeros(0)]
    for value in found.values():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
            parts.append(np.real(value).ravel().astype(np.float64))
            if value.dtype.kind == "c":
                parts.append(np.imag(value).ravel().astype(np.float64))
        elif isinstance(value, float | np.floating):
            parts.append(np.array([float(value)]))
    return np.concatenate(parts)


def equal_leaves(first: object, second: object) -> np.ndarray:
    """Compare two leaves: element by element for arrays of the same shape, else as a whole."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.shape != second.shape or first.dtype != second.dtype:
            return np.array(False)
        both_nan = (first != first) & (second != second)
        equal: np.ndarray = (first == second) | both_nan
        return equal
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray) or type(first) is not type(second):
        return np.array(False)
    return np.array(first == second or (first != first and second != second))


def close_leaves(first: object, second: object) -> bool:
    """Compare two leaves up to the rounding of linear algebra, which depends on the number of threads."""
    if np.all(equal_leaves(first, second)):
        return True
    try:
        here, there = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    if here.shape != there.shape or here.size == 0:
        return False
    scale = float(np.abs(here[np.isfinite(here)]).max(initial=0.0))  # beside an infinite entry all others are seen
    return bool(np.allclose(here, there, rtol=1e-6, atol=1e-6 * scale, equal_nan=True))


@dataclass(frozen=True)
class CheckData:
    """Arguments of ``fit``, or of a function, in a check or an audit.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Features. Private values should be irregular floats, so that they are recognised where they turn up.
    y : ndarray of shape (n_rows,) or None
        Target, for estimators that take one.
    metadata : dict of str to ndarray of shape (n_rows,)
        Further arguments; those with one entry a row belong to the rows.
    """

    X: Any
    y: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Features and target of ``fit``, by position."""
        return (self.X,) if self.y is None else (self.X, self.y)

    def take(self, rows: np.ndarray) -> CheckData:
        """Take rows in another number or order, with all that belongs to them."""
        n = _num_samples(self.X)
        metadata = {k: _safe_indexing(v, rows) if _is_per_row(v, n) else v for k, v in self.metadata.items()}
        return CheckData(
            _safe_indexing(self.X, rows), None if self.y is None else _safe_indexing(self.y, rows), metadata
        )

    def with_rows(self, rows: Any, x: Any = None, y: Any = None) -> CheckData:
        """Copy the data, and set the features or the targets of some rows."""
        X, target = self.X, self.y
        if x is not None:
            X = X.copy() if hasattr(X, "copy") else np.array(X)
            (X.iloc if hasattr(X, "iloc") else X)[rows] = x
        if y is not None and target is not None:
            target = np.array(target)
            target[rows] = y
        return CheckData(X, target, self.metadata)


def _is_per_row(value: Any, n: int) -> bool:
    return value is not None and not isinstance(value, str | dict) and np.ndim(value) >= 1 and len(value) == n


MakeData = Callable[[Any, Any, int], CheckData]


def default_data(estimator: BaseEstimator, rng: np.random.Generator, n_rows: int) -> CheckData:
    """Make data that suit most estimators: features in the unit cube, a target by the estimator's type.

    Parameters
    ----------
    estimator : estimator
        Whom the data are for.
    rng : numpy Generator
        Public randomness.
    n_rows : int
        Number of rows.

    Returns
    -------
    data : CheckData
        With ``user_ids`` (rows / 3 users) and ``private`` (about half of the rows) where ``fit`` takes them.

    See Also
    --------
    CheckData : Holds data of your own.
    """
    X = rng.uniform(0.05, 0.95, size=(n_rows, 3))
    tags = get_tags(estimator)
    y = None
    if tags.estimator_type == "regressor":
        y = X @ np.array([1.0, -0.5, 0.25]) + rng.normal(scale=0.1, size=n_rows)
    elif tags.estimator_type == "classifier" or tags.target_tags.required:
        y = rng.permutation(np.arange(n_rows) % 2)
    accepted = inspect.signature(estimator.fit).parameters
    metadata = {}
    if "user_ids" in accepted:
        metadata["user_ids"] = rng.permutation(np.arange(n_rows) % max(1, n_rows // 3))
    if "private" in accepted:
        metadata["private"] = rng.permutation(np.arange(n_rows) % 2).astype(bool)
    return CheckData(X, y, metadata)


def other_data(
    estimator: BaseEstimator, data: CheckData, unit: PrivacyUnit, make_data: MakeData, seed: int
) -> CheckData:
    """Make data of the same shape as ``data`` that differ in everything that ``unit`` makes private."""
    fresh = make_data(estimator, public_generator(seed), len(data.X))
    if unit is PrivacyUnit.LABEL:
        return dataclasses.replace(data, y=fresh.y)
    if unit is PrivacyUnit.PRIVATE_ROW:
        private = private_rows(data, unit)
        return dataclasses.replace(data, X=np.where(private[:, None], fresh.X, data.X))
    return fresh


def private_rows(data: CheckData, unit: PrivacyUnit) -> np.ndarray:
    """Mark the rows that ``unit`` protects."""
    everywhere = np.ones(len(data.X), dtype=bool)
    return np.asarray(data.metadata.get("private", everywhere)) if unit is PrivacyUnit.PRIVATE_ROW else everywhere


def private_numbers(data: CheckData, unit: PrivacyUnit) -> np.ndarray:
    """Collect the irregular private floats of ``data``, which must not turn up anywhere."""
    parts = [np.zeros(0)]
    rows = private_rows(data, unit)
    if unit is not PrivacyUnit.LABEL:
        parts.append(data.X[rows].ravel())
    if data.y is not None and data.y.dtype.kind == "f" and unit is not PrivacyUnit.PRIVATE_ROW:
        parts.append(data.y[rows])
    values = np.concatenate(parts)
    return values[values != np.rint(values)]


@dataclass(frozen=True)
class Fitted:
    """A fitted clone, the warnings that were given, and the text that was printed."""

    estimator: Any
    warnings: tuple[Warning, ...]
    printed: str

    @property
    def guarantee(self) -> Any:
        return self.estimator.privacy_guarantee_

    @property
    def wording(self) -> str:
        """Warnings, except the one of simulated noise, and prints."""
        texts = [str(item) for item in self.warnings if not isinstance(item, SimulatedNoiseWarning)]
        return "\n".join([*texts, self.printed])

    def leaves(self) -> dict[str, Any]:
        """Find all that the fitted estimator holds, warned of and printed."""
        return {**fitted_leaves(self.estimator), "<warnings and prints>": self.wording}


@contextmanager
def listening() -> Iterator[tuple[list[warnings.WarningMessage], StringIO]]:
    """Record warnings and prints, except warnings of objects that are collected and of workers that end."""
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(StringIO()) as printed:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.filterwarnings("ignore", module=r"joblib\.externals\.loky")
        yield caught, printed


def fit_clone(estimator: BaseEstimator, data: CheckData, **parameters: object) -> Fitted:
    """Fit a clone with ``parameters`` on ``data``, and record what it warns of and prints."""
    estimator = clone(estimator).set_params(**parameters)
    with listening() as (caught, printed):
        result = estimator.fit(*data.arguments, **data.metadata)
    assert result is estimator, f"{type(estimator).__name__}.fit must return self."
    messages = tuple(item.message for item in caught if isinstance(item.message, Warning))
    return Fitted(estimator, messages, printed.getvalue())


def releases_in_transform(estimator: BaseEstimator) -> bool:
    """Check if the estimator is a row-wise randomiser (the local model), which spends in ``transform``."""
    return getattr(estimator, "releases_in", "fit") == "transform"


def releases_something(estimator: BaseEstimator) -> bool:
    """Check if fitting the estimator spends a privacy budget of its own."""
    return "epsilon" in estimator.get_params(deep=False) and not releases_in_transform(estimator)
