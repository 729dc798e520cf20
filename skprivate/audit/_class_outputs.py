"""Outputs of an audited model as an adversary reads them: class probabilities, and predicted labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate._messages import must_be

Array = npt.NDArray[np.float64]
#: Rounded probabilities need not add up to one.
_SUM_TOLERANCE = 0.05
_GAPS = "{name} must hold a label in every row, got missing values. Drop those rows, or name the gap as a label."


def output_summary(
    outputs: npt.ArrayLike, labels: npt.ArrayLike, *, classes: npt.ArrayLike | None = None, n_top: int = 4
) -> Array:
    """Summarise class probabilities for a membership attack: that of the true label, and the largest in order.

    Which class is the largest hardly matters to an adversary who wants to know whether a record was trained on; how
    sure the model is, and whether it is right, does. A defence that adds noise to the probabilities but keeps the
    predicted label shows in the relations of the largest ones.

    Parameters
    ----------
    outputs : array-like of shape (n, n_classes)
        Rows of ``predict_proba``.
    labels : array-like of shape (n,)
        True label of each record.
    classes : array-like of shape (n_classes,) or None, default=None
        Label of each column, ``model.classes_``. None: the distinct labels in order, if all classes occur.
    n_top : int, default=4
        How many of the largest probabilities are kept, at most n_classes.

    Returns
    -------
    ndarray of shape (n, 1 + min(n_top, n_classes))
        Probability of the own label (0 where the model does not know it), then the largest in falling order.

    Raises
    ------
    ValueError
        If ``outputs`` holds no probabilities, or labels and columns cannot be matched.

    See Also
    --------
    attack_probabilities : Attacks with these summaries.

    Examples
    --------
    >>> from skprivate.audit import output_summary
    >>> output_summary([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25]], ["b", "c"], classes=["a", "b", "c"], n_top=2)
    array([[0.7 , 0.7 , 0.2 ],
           [0.25, 0.5 , 0.25]])
    """
    p = _probabilities(outputs)
    if isinstance(n_top, bool) or not isinstance(n_top, int | np.integer) or n_top < 0:
        raise ValueError(must_be("n_top", "an integer >= 0", n_top))
    column, known = class_columns(labels, p.shape[1], classes)
    if column.size != len(p):
        raise ValueError(must_be("labels", f"one label for each of the {len(p)} rows of outputs", column.size))
    own = np.where(known, p[np.arange(len(p)), column], 0.0)
    return np.column_stack([own, -np.sort(-p, axis=1)[:, :n_top]])


def class_columns(
    labels: npt.ArrayLike, n_classes: int, classes: npt.ArrayLike | None = None
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Find the column of each label, and whether it has one."""
    values = as_labels(labels, "labels")
    names = np.unique(values) if classes is None else as_labels(classes, "classes")
    if names.size != n_classes:
        wrong = "labels" if classes is None else "classes"
        advice = "Name the classes of the columns: classes=model.classes_." if classes is None else ""
        raise ValueError(
            must_be(wrong, f"{n_classes} distinct ones, as many as outputs has columns", names.size, advice)
        )
    order = np.argsort(names, kind="stable")
    if names.dtype.kind != values.dtype.kind and "U" in (names.dtype.kind, values.dtype.kind):
        raise TypeError("labels and classes must be of one type, got text and numbers.")
    place = np.minimum(np.searchsorted(names, values, sorter=order), names.size - 1)
    column = order[place]
    return column, np.asarray(names[column] == values)


def _probabilities(outputs: npt.ArrayLike) -> Array:
    allowed = "class probabilities of shape (n, n_classes), each row adding up to one"
    try:
        p = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(must_be("outputs", allowed, type(outputs).__name__)) from None
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(must_be("outputs", allowed, f"shape {p.shape}"))
    if not np.isfinite(p).all():
        raise ValueError(f"outputs must be {allowed}; there are missing or infinite entries.")
    if p.min(initial=0.0) < -1e-6 or (np.abs(p.sum(axis=1) - 1.0) > _SUM_TOLERANCE).any():
        raise ValueError(f"outputs must be {allowed}; these are none. Scores go through the softmax first.")
    return p


# -- labels ---------------------------------------------------------------------------------------------------


def _is_missing(value: object) -> bool:
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | np.floating) and math.isnan(value))
    )


def _kind(value: object) -> str:
    if isinstance(value, str | bytes):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "booleans"
    return "numbers" if isinstance(value, int | float | np.number) else type(value).__name__


def _flat(values: object) -> npt.NDArray[Any]:
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def as_labels(values: object, name: str = "X") -> npt.NDArray[Any]:
    """Read labels as an array of text, booleans or numbers; mixtures and gaps are refused."""
    array = _flat(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must hold labels of shape (n,) or (n, 1), got shape {array.shape}.")
    if isinstance(values, list | tuple) and array.dtype.kind == "U":
        array = np.array([*(value[0] if np.ndim(value) else value for value in values)], dtype=object)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(_GAPS.format(name=name))
    if array.dtype.kind not in "OT":
        return array
    plain = array.tolist()
    if any(_is_missing(value) for value in plain):
        raise ValueError(_GAPS.format(name=name))
    kinds = sorted({_kind(value) for value in plain})
    if len(kinds) > 1:
        raise TypeError(f"{name} must hold labels of one type, got {' and '.join(kinds)}. Convert them first.")
    if kinds == ["text"]:
        return np.array([v.decode() if isinstance(v, bytes) else v for v in plain], dtype=str)
    return np.array(plain) if kinds and kinds[0] in ("booleans", "numbers") else array.astype(str)


def is_labels(outputs: object) -> bool:
    """Check that outputs are predicted labels: one column without floats, or without numbers."""
    if hasattr(outputs, "nnz"):
        return False
    array = np.asarray(outputs)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
        return array.dtype.kind in "USTO" and all(isinstance(value, str) for value in array.tolist())
    if array.ndim != 1 or array.size == 0:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in "iubUST" or _is_gappy_series(outputs)
    present = [value for value in array.tolist() if not _is_missing(value)]
    return not all(isinstance(value, float) for value in present)


def _is_gappy_series(outputs: object) -> bool:
    """Check the type of a Series: whole numbers with gaps come out of it as floats."""
    return hasattr(outputs, "dtype") and str(outputs.dtype).startswith(("Int", "UInt", "Boolean"))


def is_float_series(outputs: Any) -> bool:
    """Check that outputs are a Series of real numbers: a scalar T with a name."""
    return hasattr(outputs, "to_frame") and len(np.shape(outputs)) == 1 and not is_labels(outputs)
