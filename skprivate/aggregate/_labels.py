"""Labels as what is added up: indicators of classes, or bounded integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate._labels import ENCODED, encode_classes, read_numbers
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import CONTRIBUTION_BITS, interval_contributions, warn_caller

Bounds = tuple[float, float]
#: The interval of a number has this many steps: 2³⁰.
LABEL_STEPS = 1 << CONTRIBUTION_BITS
#: Bounds no further from 0 and no closer together: squares of sums neither overflow nor underflow.
_LARGEST_BOUND, _SMALLEST_WIDTH = 1e50, 1e-50
#: Standard errors of noise that are no more taken for noise.
_CLEAR = 4.0
#: Integers are subtracted as integers in intervals up to this width.
_WIDEST_EXACT = 1 << 62


def check_label_privacy(epsilon: float | None, delta: float) -> None:
    """Refuse an ε or δ outside its range."""
    if epsilon is not None and not (np.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number, or None for no label privacy, got {epsilon!r}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")


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


def one_hot(codes: NDArray[Any], n_classes: int) -> FloatArray:
    """Indicator of the second class of two, shape (1, n), or of every class, shape (n_classes, n)."""
    shown = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    indicator: FloatArray = (codes == shown[:, np.newaxis]).astype(np.float64)
    return indicator


def class_targets(labels: NDArray[Any], *, classes: Sequence[Any], strict: bool) -> FloatArray:
    """What is added up of class labels (n,); see `encode_classes` and `one_hot`."""
    return one_hot(encode_classes(labels, classes, strict=strict), len(classes))


def warn_of_absent(
    classes: Sequence[Any] | None, sums: NDArray[Any], sizes: NDArray[Any], variance: float
) -> None:
    """Warn of classes whose released counts in all bags are noise, where those of others would stand out."""
    total, error = float(sizes.sum()), 1.0 + _CLEAR * math.sqrt(sizes.size * variance)
    if not classes or _CLEAR * len(classes) * error > total:
        return
    found = sums.sum(axis=0, dtype=np.float64)
    counts = [total - found[0], found[0]] if len(classes) == 2 else found.tolist()
    absent = [label for label, count in zip(classes, counts, strict=True) if count <= error]
    if absent:
        warn_caller(
            f"by the released counts no more rows than noise hides have labels among {absent!r} of classes="
            f"{list(classes)!r}: give the labels that y holds. {ENCODED}.",
            UserWarning,
        )


def number_targets(labels: NDArray[Any]) -> NDArray[Any]:
    """What is added up of numbers (n,): finite ones, shape (1, n)."""
    found: NDArray[Any] = read_numbers(labels)[np.newaxis]
    return found


def number_contributions(labels: NDArray[Any], low: float, high: float) -> FloatArray:
    """Numbers from [low, high] about its middle, as integers of at most `LABEL_STEPS` / 2 in absolute value.

    Exchanging one label moves its integer by at most `LABEL_STEPS`, however far the interval is from zero: a number
    near its lower bound is subtracted first, without rounding where labels are integers. Labels outside are clipped.

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
