"""Labels and targets of all packages: read entry by entry, and public labels compared with them by their kinds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skprivate._sklearn import check_class_labels
from skprivate._validation import _arrays, _tables

Labels = npt.NDArray[Any]
#: For guarantees: what is read off y without being paid for.
PUBLIC_LABELS = "the set of labels is public"
_TEXT, _NUMBERS = "text", "numbers"
_OF_DTYPE = {"U": _TEXT, **dict.fromkeys("biuf", _NUMBERS)}
#: Longer numbers than those of a float are left as they are.
_MOST_DIGITS = 308
_MISSING = ("NoneType", "NAType", "NaTType")
#: Who changes labels on their way to an estimator.
ENCODED = (
    "scikit-learn's meta-estimators (VotingClassifier, cross_val_predict(method='predict_proba'), …) encode labels as "
    "0, 1, …"
)
_EXAMPLES = {
    "classes": "classes=[0, 1]",
    "private_label": "private_label=1",
    "class_weight": "class_weight={0: 1.0, 1: 2.0}",
}


def read_labels(y: Any, **public: Any) -> Any:
    """Read labels into a type that no entry decides: none missing, of one kind, that of the ``public`` ones."""
    if y is None or hasattr(y, "toarray"):
        return y
    frame = nw.from_native(y, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        labels = np.column_stack([_column(frame[:, j]) for j in range(frame.shape[1])])
    elif isinstance(frame, nw.Series):
        labels = _column(frame)
    else:
        # A list has no type: NumPy would find one for all entries together.
        labels = np.array(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
        _refuse_missing(np.ma.is_masked(y))
    if labels.ndim == 0:
        raise TypeError(
            f"y must hold one label or number for each row, got {type(y).__name__}. Pass the column itself, as in "
            "fit(table[features], table['y'])."
        )
    if labels.dtype == object:
        values = np.empty(labels.size, dtype=object)
        values[:] = list(map(by_value, labels.ravel().tolist()))
        labels = values.reshape(labels.shape)
    own = kind_of(labels)
    for name, given in public.items():
        if given is not None and own and own != (found := kind_of(given, name)):
            example = _EXAMPLES.get(name)
            advice = f" {ENCODED}: leave {name} out there, or encode y and give {example}." if example else ""
            raise TypeError(f"y must hold {found}, as {name} does, got {own}.{advice}")
    return labels


def public_labels(estimator: BaseEstimator) -> dict[str, Any]:
    """Collect the labels among an estimator's parameters, by their names."""
    given = {name: getattr(estimator, name, None) for name in ("classes", "class_weight")}
    given = {name: labels for name, labels in given.items() if not isinstance(labels, str)}
    label = getattr(estimator, "private_label", None)
    return given if label is None else {**given, "private_label": [label]}


def kind_of(labels: Iterable[Any], name: str = "y") -> str | None:
    """Determine the one kind of labels, "text" or "numbers"; None if there are none. Refuses missing ones."""
    if not isinstance(labels, np.ndarray):
        labels = np.array([*labels, None], dtype=object)[:-1]
    if labels.size == 0:
        return None
    if labels.dtype != object:
        kinds = {labels.dtype.type: _OF_DTYPE.get(labels.dtype.kind)}
    else:
        kinds = {each: _kind(each) for each in set(map(type, labels.flat))}
        _refuse_missing(any(each.__name__ in _MISSING for each in kinds), name)
    odd = sorted(each.__name__ for each, kind in kinds.items() if kind is None)
    if odd:
        numbers = any("complex" in each for each in odd)
        advice = (
            "Complex data not supported" if numbers else _arrays.DATES if _arrays.TIMES & set(odd) else "Convert them"
        )
        raise (ValueError if numbers else TypeError)(
            f"{name} must hold numbers or class labels (strings, integers, booleans), got {', '.join(odd)}. {advice}."
        )
    _refuse_missing(labels.dtype.kind in "fO" and bool(np.any(labels != labels)), name)
    if len(set(kinds.values())) > 1:
        raise TypeError(f"{name} must be all strings or all numbers, got several kinds.")
    return kinds.popitem()[1]


def read_numbers(y: Any) -> Any:
    """Read labels as the integers of their column, or as finite floats, each by itself."""
    labels = read_labels(y)
    if not isinstance(labels, np.ndarray) or labels.dtype.kind in "iu" or labels.size == 0:
        return labels
    if kind_of(labels) != _NUMBERS:
        raise ValueError("y must hold numbers: could not convert a string to float. Pass classes for class labels.")
    try:
        numbers = labels.astype(np.float64)
    except OverflowError:
        raise ValueError("y must hold numbers within the range of float64: use other units.") from None
    if not np.all(np.isfinite(numbers)):
        raise ValueError("Input y contains infinity.")
    return numbers


def read_targets(y: Any, *, numbers: bool = False, **public: object) -> Any:
    """Read labels for models of any origin: numbers as float64, and text where ``numbers`` does not refuse it."""
    labels = read_labels(y, **public)
    if isinstance(labels, np.ndarray) and (numbers or kind_of(labels) == _NUMBERS):
        return read_numbers(labels).astype(np.float64)
    return labels


def check_classes(classes: Any) -> list[Any]:
    """Check at least two distinct public class labels of one kind; returns plain Python values in order.

    Scorers, votes and encoders of scikit-learn take ``classes_`` as sorted.
    """
    labels = [plain(label) for label in classes]
    kind_of(labels, "classes")
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"classes must hold at least two distinct labels, got {labels!r}.")
    return sorted(labels)


def distinct_labels(labels: Labels) -> list[Any]:
    """List the different labels in order."""
    return together([np.unique(labels).tolist() if labels.dtype != object else labels.ravel().tolist()])


def together(parts: Iterable[Iterable[Any]]) -> list[Any]:
    """List the different labels of several blocks in order; all of one kind."""
    labels = [plain(label) for part in parts for label in part]
    if len(set(map(type, labels))) > 1:  # of blocks of several types none is the first
        labels = list(map(by_value, labels))
    different = list(set(labels)) if kind_of(labels) else []
    if different:
        # Of the labels alone: a warning about their number beside the number of rows would reveal it.
        check_class_labels(np.repeat(label_array(different), 3))
    return sorted(different)


def two_or_more(found: Sequence[Any], estimator: Any) -> list[Any]:
    """Refuse fewer classes than a classifier needs."""
    if len(found) < 2:
        raise ValueError(
            f"y has one class only: {type(estimator).__name__} can't train when only one class is present. Pass the "
            "public classes if others may be absent."
        )
    return list(found)


def label_array(labels: Sequence[Any]) -> Labels:
    """Make an array of labels in which no two of them become one."""
    array = np.asarray(labels)
    return array if array.tolist() == list(labels) else np.array(labels, dtype=object)


def plain(label: object) -> Any:
    """Convert a label to a Python object."""
    return label.item() if isinstance(label, np.generic) else label


def encode_classes(labels: Labels, classes: Sequence[Any], *, strict: bool) -> npt.NDArray[np.int64]:
    """Find the position of every label in ``classes``; a label outside is -1, or an error if ``strict``.

    An error would say that somebody's label is outside: a private release of labels does without.
    """
    codes = _tables.code_numbers(labels, _tables.in_own_type(labels, {0: classes}, name="classes")[0])
    codes[codes == len(classes)] = -1
    if strict and np.any(codes < 0):
        listed = list(map(plain, classes))
        spelling = " 'Yes' and 'yes' are two labels: spell them alike first." * (kind_of(listed) == _TEXT)
        raise ValueError(f"y has labels that are not in classes={listed}. {ENCODED}.{spelling}")
    return codes


def _column(series: nw.Series[Any]) -> Labels:
    """Read a column of a frame, whose type is public: only missing entries would change what NumPy makes of it."""
    _refuse_missing(bool(series.null_count()))
    return np.asarray(series.to_numpy())


def by_value(label: Any) -> Any:
    """Make plain text of text and an integer of a whole number, so that no entry chooses the type of all."""
    if isinstance(label, str):
        return str.__str__(label)
    if _kind(type(label)) != _NUMBERS:
        return label
    if isinstance(label, Decimal) and label.is_nan():  # which may raise where it is compared
        return math.nan
    if isinstance(label, Decimal) and label.adjusted() > _MOST_DIGITS:
        return label
    try:
        integer = int(label)
    except (OverflowError, ValueError):  # infinity, NaN
        return label
    if integer == label:
        return integer
    return float(label) if isinstance(label, np.floating) and label.itemsize <= 8 else label


def _kind(entry: type) -> str | None:
    if issubclass(entry, str):
        return _TEXT
    if issubclass(entry, np.timedelta64):  # an integer to NumPy
        return None
    return _NUMBERS if issubclass(entry, Real | Decimal | np.bool) else None


def _refuse_missing(missing: bool, name: str = "y") -> None:
    if missing:
        raise ValueError(
            f"{name} has missing labels or numbers (None, NaN or NA): leave these rows out by a public rule."
        )
