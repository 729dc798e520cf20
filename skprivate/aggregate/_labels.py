"""Labels as they come: checked, coded as classes, or turned into bounded integers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import CONTRIBUTION_BITS, interval_contributions

Bounds = tuple[float, float]
#: The interval of a number has this many steps: 2³⁰.
LABEL_STEPS = 1 << CONTRIBUTION_BITS
#: Bounds no further from 0 and no closer together: squares of sums neither overflow nor underflow.
_LARGEST_BOUND, _SMALLEST_WIDTH = 1e50, 1e-50
#: Integers are subtracted as integers in intervals up to this width.
_WIDEST_EXACT = 1 << 62
_ODD_TYPES = (
    complex,
    np.complexfloating,
    np.datetime64,
    np.timedelta64,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)


def check_label_privacy(epsilon: float | None, delta: float) -> None:
    """Refuse an ε or δ outside its range."""
    if epsilon is not None and not (np.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number, or None for no label privacy, got {epsilon!r}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")


def check_label_types(y: Any) -> None:
    """Refuse complex labels and times: neither classes nor numbers here, though NumPy would make numbers of both."""
    labels = np.asarray(y)
    types = (
        {type(label) for label in labels.ravel().tolist()} if labels.dtype == object else {labels.dtype.type}
    )
    odd = sorted(kind.__name__ for kind in types if issubclass(kind, _ODD_TYPES))
    if odd:
        raise ValueError(
            f"y must hold class labels (strings, integers, booleans) or real numbers, got {', '.join(odd)}. Complex "
            "data not supported, nor are times: take what is meant first, such as the days since a public date."
        )


def check_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as finite floats, or as the integers that they are."""
    check_label_types(labels)
    if labels.dtype.kind in "iu":
        return labels
    types = (
        {type(label) for label in labels.ravel().tolist()} if labels.dtype == object else {labels.dtype.type}
    )
    try:
        if any(issubclass(kind, (str, bytes)) for kind in types):
            raise TypeError
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers; pass classes for class labels.") from None
    except OverflowError:
        raise ValueError("y must hold numbers within the range of float64: use other units.") from None
    if not np.all(np.isfinite(numbers)):
        raise ValueError("y contains NaN or infinity.")
    return numbers


def check_bounds(bounds: Any) -> Bounds | None:
    """(low, high) with low < high, integers where integers were given, or None."""
    if bounds is None:
        return None
    try:
        low, high = (int(b) if isinstance(b, Integral) else float(b) for b in bounds)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"label_bounds must be (low, high), got {bounds!r}.") from None
    if not (-math.inf < low < high < math.inf):
        raise ValueError(f"label_bounds must be finite with low < high, got {bounds!r}.")
    if max(abs(low), abs(high)) > _LARGEST_BOUND or high - low < _SMALLEST_WIDTH:
        raise ValueError(
            f"label_bounds must be within ±{_LARGEST_BOUND:g} and at least {_SMALLEST_WIDTH:g} apart, got "
            f"{bounds!r}: use other units."
        )
    return low, high


def check_classes(classes: Sequence[Any]) -> list[Any]:
    """At least two distinct public class labels."""
    check_label_types(keep_types(classes))
    found = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if len(found) < 2 or len(set(found)) < len(found):
        raise ValueError(f"classes must hold at least two distinct labels, got {found!r}.")
    return found


def keep_types(labels: Any) -> Any:
    """A list of labels as objects: NumPy would make all of them strings or floats where one of them is one."""
    if not isinstance(labels, (list, tuple)) or any(np.ndim(label) for label in labels):
        return labels
    kept = np.empty(len(labels), dtype=object)
    kept[:] = labels
    return kept


def encode_classes(labels: NDArray[Any], classes: Sequence[Any], *, strict: bool) -> NDArray[np.int64]:
    """Position of every label in ``classes``; a label outside is -1, or an error if ``strict``.

    An error would say that somebody's label is outside: a private release does without.
    """
    index = {value: code for code, value in enumerate(classes)}
    if labels.dtype == object:
        codes = np.array([index.get(value, -1) for value in labels.tolist()], dtype=np.int64)
    else:
        values, place = np.unique(labels, return_inverse=True)
        codes = np.array([index.get(value, -1) for value in values.tolist()], dtype=np.int64)[place]
    if strict and np.any(codes < 0):
        raise ValueError(f"y contains labels that are not among the classes {list(index)}, or NaN.")
    return codes


def one_hot(codes: NDArray[Any], n_classes: int) -> FloatArray:
    """Indicator of the second class of two, shape (1, n), or of every class, shape (n_classes, n)."""
    shown = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    indicator: FloatArray = (codes == shown[:, np.newaxis]).astype(np.float64)
    return indicator


def class_targets(labels: NDArray[Any], *, classes: Sequence[Any], strict: bool) -> FloatArray:
    """What is added up of class labels (n,); see `encode_classes` and `one_hot`."""
    return one_hot(encode_classes(labels, classes, strict=strict), len(classes))


def number_targets(labels: NDArray[Any]) -> NDArray[Any]:
    """What is added up of numbers (n,): finite ones, shape (1, n)."""
    return check_numbers(labels)[np.newaxis]


def number_contributions(labels: NDArray[Any], low: float, high: float) -> FloatArray:
    """Numbers from [low, high] about its middle, as integers of at most `LABEL_STEPS` / 2 in absolute value.

    Exchanging one label moves its integer by at most `LABEL_STEPS`, however far the interval is from zero: a number
    near its lower bound is subtracted first, without rounding where labels are integers. Labels outside are clipped.
    A number up to 2⁵³ has the same integer whether it came as an integer or as a float: a single fraction among
    whole numbers makes floats of all of them.

    Returns
    -------
    ndarray of float64, same shape
        Integers.
    """
    width = Fraction(high) - Fraction(low)
    base = math.floor(low) if width >= 1 else low
    if labels.dtype.kind in "iu" and 1 <= width <= _WIDEST_EXACT:
        offsets = _integer_offsets(labels, int(base), math.ceil(high))
    else:
        base = float(base)
        offsets = labels.astype(np.float64, copy=False) - base
    bounds = (float(Fraction(bound) - Fraction(base)) for bound in (low, high))
    return interval_contributions(offsets, *bounds, bits=CONTRIBUTION_BITS)


def _integer_offsets(labels: NDArray[Any], base: int, most: int) -> FloatArray:
    """Integers clipped to [base, most], minus base: each the float64 nearest to the exact difference."""
    wide = np.uint64 if labels.dtype.kind == "u" else np.int64
    limits = np.iinfo(wide)
    low, high = max(base, limits.min), min(most, limits.max)
    if low > high:  # the interval has no integer of this type
        return np.full(labels.shape, 0.0 if base > limits.max else float(most - base))
    whole = np.clip(labels.astype(wide), low, high)
    # Differences below 2⁶⁴ are exact in arithmetic modulo 2⁶⁴.
    return (whole.view(np.uint64) - np.uint64(base % 2**64)).astype(np.float64)


def square_contributions(contributions: FloatArray) -> NDArray[np.int64]:
    """Squares of `number_contributions`, in steps of (half the interval)²/`LABEL_STEPS`: from 0 to `LABEL_STEPS`."""
    whole = contributions.astype(np.int64)
    return (whole * whole) >> (CONTRIBUTION_BITS - 2)
