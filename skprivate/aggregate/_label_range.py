"""An interval that holds most labels, from noisy counts between powers of two of both signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._label_noise import LabelNoise, LabelSensitivity, plan_label_noise
from skprivate.aggregate._labels import Bounds
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import PrivacyEvent, Release, warn_caller

#: Powers of two between which absolute labels are counted: cell 0 is up to the first, the last one beyond the last.
_EXPONENTS = np.arange(-30, 41)
_CELLS = _EXPONENTS.size
#: A count stands out if noise alone would let one of all cells do so in one fit of a thousand.
_FALSE_CELLS = 1e-3
#: Where more than this share of the rows can hide below the noise, the interval is one power of two wider.
_HIDDEN = 0.05
#: Standard errors of noise that are no more taken for noise.
_CLEAR = 4.0
#: By how much less probable a priori each power of two away from (-2, 2) is, in the logarithm.
_NATS = 0.75
#: A guessed interval is too wide with about this probability, at most.
_CAUTION = 0.1
#: Share of the budget: so much divided by n·ε, within limits. Few rows need more to be seen.
_SHARE, _LEAST_SHARE, _LARGEST_SHARE = 50.0, 0.1, 0.5


def range_share(n_rows: int, epsilon: float) -> float:
    """Share of the budget that finds an interval, by public numbers."""
    return min(max(_SHARE / max(n_rows * epsilon, 1.0), _LEAST_SHARE), _LARGEST_SHARE)


def plan_range_noise(
    n_outputs: int, *, epsilon: float, delta: float, mechanism: str, share: float
) -> LabelNoise:
    """Noise of the counts that `private_label_bounds` looks at, by the mechanism of the sums themselves.

    All numbers of a row may leave one count together and enter another one: two counts move by ``n_outputs``.
    """
    name: Any = mechanism
    return plan_label_noise(
        LabelSensitivity(2, n_outputs),
        2 * _CELLS + 1,
        epsilon=epsilon,
        delta=delta,
        mechanism=name,
        share=share,
    )


def range_event(noise: LabelNoise) -> PrivacyEvent:
    """What finding the range with that noise will cost."""
    return noise.event(2 * _CELLS + 1)


def range_counts(labels: NDArray[Any], *, nonnegative: bool = False) -> NDArray[np.int64]:
    """Private: how many labels (n_outputs, n_samples) there are between powers of two, of both signs."""
    numbers = labels.astype(np.float64).ravel()
    place = np.searchsorted(np.exp2(_EXPONENTS), np.abs(numbers), side="left")
    signed = np.where(numbers < 0, 0 if nonnegative else -place, place)
    return np.bincount(signed + _CELLS, minlength=2 * _CELLS + 1).astype(np.int64, copy=False)


def private_label_bounds(
    counts: NDArray[np.int64],
    n_rows: int,
    noise: LabelNoise,
    release: Release,
    *,
    nonnegative: bool = False,
) -> Bounds:
    """The interval between powers of two that spans the counts which stand out of the noise.

    Where none of either sign does, counts of absolute labels are tried, and give a symmetric interval. What lies beyond
    has fewer rows than the noise can hide. Where none of those stands out either, a symmetric interval is guessed from
    how probable it makes the counts, sizes near 1 being more probable a priori; a warning says so.

    Parameters
    ----------
    counts : ndarray of int64
        From `range_counts`.
    n_rows : int
    noise : LabelNoise
        From `plan_range_noise`.
    release : Release
    nonnegative : bool
        Whether the interval is to begin at 0.

    Returns
    -------
    (low, high)
        Between ±2⁴¹.
    """
    noisy = noise.draw(counts, release)
    # From here on everything is released.
    low, high = _spanned(noisy, noise, n_rows)
    return (0.0 if nonnegative else low), high


def _spanned(noisy: FloatArray, noise: LabelNoise, n_rows: int) -> Bounds:
    least = noise.exceeded(_FALSE_CELLS / noisy.size)
    cells = np.flatnonzero(noisy > least) - _CELLS
    if not cells.size:
        least *= math.sqrt(2.0)
        either = noisy[_CELLS + 1 :] + noisy[_CELLS - 1 :: -1]
        cells = np.flatnonzero(either > least) + 1
        cells = np.concatenate([-cells, cells])
    if not cells.size:
        n_numbers = n_rows * noise.sensitivity.steps
        guess = _guessed(np.append(noisy[_CELLS], either), noise, n_numbers)
        warn_caller(
            f"no interval of the labels stands out of the noise; {guess:.3g} was guessed as their largest size: give "
            "label_bounds, or use more rows or a larger epsilon.",
            UserWarning,
        )
        return -guess, guess
    first, last = int(cells.min()), int(cells.max())
    first, last = _with_hidden(noisy, first, last, noise, n_rows)
    if least > _HIDDEN * n_rows:
        first, last = max(first - (first != 0), -_CELLS), min(last + (last != 0), _CELLS)
    return -_largest(-first), _largest(last)


def _with_hidden(noisy: FloatArray, first: int, last: int, noise: LabelNoise, n_rows: int) -> tuple[int, int]:
    """The cells first to last, and more where what they leave of all labels is too much to be noise.

    Many labels of one number, zero for example, stand out where as many others are spread over several cells.
    """
    n_numbers = n_rows * noise.sensitivity.steps
    inside = slice(first + _CELLS, last + _CELLS + 1)
    rest = n_numbers - float(noisy[inside].sum())
    error = math.sqrt(noise.variance * (last - first + 1))
    if rest <= max(_HIDDEN * n_numbers, _CLEAR * error):
        return first, last
    others = noisy.copy()
    others[inside] = 0.0
    sizes = np.append(others[_CELLS], others[_CELLS + 1 :] + others[_CELLS - 1 :: -1])
    most = int(np.searchsorted(np.exp2(_EXPONENTS), _guessed(sizes, noise, rest, 0.5), side="left"))
    near = np.arange(max(most - 3, 1), most + 2)
    near = near[near <= _CELLS]
    above, below = float(others[_CELLS + near].sum()), float(others[_CELLS - near].sum())
    # Neither side tells: labels of both signs.
    clear = _CLEAR * math.sqrt(2.0 * noise.variance * near.size)
    return (
        min(first, 0 if above - below > clear else -most),
        max(last, 0 if below - above > clear else most),
    )


def _guessed(sizes: FloatArray, noise: LabelNoise, n_numbers: float, caution: float = _CAUTION) -> float:
    """A low quantile of the largest size of labels a posteriori, were labels spread over three powers of two evenly.

    Predictions within too narrow an interval are no worse than 0, those within too wide a one are noise.
    """
    variance = np.full(sizes.size, 2.0 * noise.variance)
    variance[0] /= 2.0
    sizes = np.clip(sizes, -n_numbers, n_numbers)
    known = -_NATS * np.abs(np.arange(sizes.size) + _EXPONENTS[0] - 1.0)
    for cell in range(sizes.size):
        own = slice(max(cell - 2, 0), cell + 1)
        mean = n_numbers / (own.stop - own.start)
        known[cell] += np.sum(mean * (sizes[own] - mean / 2) / variance[own])
    share = np.cumsum(np.exp(known - known.max()))
    return _largest(int(np.searchsorted(share, caution * share[-1])))


def _largest(cell: int) -> float:
    """Largest label of a cell: 2^(k − 30) for the k-th above zero, minus the lower end of the mirrored one below."""
    exponent = int(_EXPONENTS[0]) + cell
    return math.ldexp(1.0, exponent) if cell >= 0 else -math.ldexp(1.0, int(_EXPONENTS[0]) - cell - 1)
