"""Labels as what is added up, a private range of them, and the noise that covers one.

A label is in one bag of every one of k feature sets, or in at most k random bags, and contributes an integer to each
output of each. Replacing it moves at most ``moved`` sums by at most ``steps`` each: (k, 1) for the counts of one
class of two, (2k, 1) for one-hot counts, (kK, 1) for K indicators, (kK, 2³⁰) for K numbers, each from an interval of
its own of 2³⁰ steps. All sums are released as one vector of sensitivity moved·steps in ℓ1 and √moved·steps in ℓ2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skprivate import privacy
from skprivate._messages import epsilon_number, unheard
from skprivate._validation import ENCODED, encode_classes, read_numbers
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import GaussianEvent, LaplaceEvent, PrivacyEvent, PureEvent, Release

Bounds = tuple[float, float]
#: The interval of a number has this many steps: 2³⁰.
LABEL_STEPS = 1 << privacy.CONTRIBUTION_BITS
#: Bounds no further from 0 and no closer together: squares of sums neither overflow nor underflow.
_LARGEST_BOUND, _SMALLEST_WIDTH = 1e50, 1e-50
#: Standard errors of noise that are no more taken for noise.
_SIGNIFICANT_ERRORS = 4.0
#: Integers are subtracted as integers in intervals up to this width.
_WIDEST_EXACT = 1 << 62
NoiseName = Literal["auto", "laplace", "gaussian", "discrete_gaussian"]
MECHANISMS = ("auto", "laplace", "gaussian", "discrete_gaussian")
#: Integer noise beyond this scale is not sampled.
_LARGEST_SCALE = 2.0**51
#: Powers of two between which absolute labels are counted: cell 0 is up to the first, the last one beyond the last.
_EXPONENTS = np.arange(-30, 41)
_CELLS = _EXPONENTS.size
#: Number of counts that find an interval, and of those that narrow it where its ends differ by at most this factor.
RANGE_COUNTS = 2 * _CELLS + 1
_NARROW, _FAR = 64, 8.0
#: Standard deviations of a normal law that a narrowed interval spans on each side.
_NORMAL_SPAN = 3.0
#: Labels of which less than this share is outside one cell may all lie in a part of it.
_WITHIN = 0.25
#: Probability that noise alone makes any count significant.
_FALSE_POSITIVE_RATE = 1e-3
#: Where more than this share of the rows can hide below the noise, the interval is one power of two wider.
_HIDDEN_SHARE = 0.05
#: By how much less probable a priori each power of two away from (-2, 2) is, in the logarithm.
_PRIOR_DECAY = 0.75
#: A guessed interval is too wide with about this probability, at most.
_GUESS_QUANTILE = 0.1
#: Share of the budget: the first number divided by n·ε, within limits. Few rows need a larger share.
_SHARE, _LEAST_SHARE, _LARGEST_SHARE = 50.0, 0.1, 0.5


def check_label_privacy(epsilon: float | None, delta: float) -> None:
    if epsilon is not None:
        epsilon_number(epsilon)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")


def check_bounds(bounds: Any) -> Bounds | None:
    """Check (low, high) with low < high, and keep integers; None is none."""
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


def bounds_of_outputs(bounds: Any, n_outputs: int) -> tuple[Bounds, ...] | None:
    """Check (low, high), of all outputs or of each one."""
    if bounds is None or np.ndim(bounds) < 2:
        checked = check_bounds(bounds)
        return None if checked is None else (checked,) * n_outputs
    pairs = tuple(map(check_bounds, bounds))
    if len(pairs) != n_outputs:
        raise ValueError(
            f"label_bounds must be (low, high), or such a pair for each of {n_outputs} outputs, got {len(pairs)} pairs."
        )
    return pairs  # type: ignore[return-value]


def as_floats(numbers: Any) -> Any:
    """Convert a number, or numbers in a sequence, to a float or a tuple."""
    if numbers is None:
        return None
    return tuple(map(as_floats, numbers)) if np.ndim(numbers) else float(numbers)


def are_labels(classes: Sequence[Any] | None) -> bool:
    """Decide whether classes are those of several labels, one sequence each."""
    return bool(classes) and isinstance(classes[0], list | tuple | np.ndarray)  # type: ignore[index]


def one_hot(codes: NDArray[Any], n_classes: int) -> FloatArray:
    """Indicate the second class of two, shape (1, n), or every class, shape (n_classes, n)."""
    shown = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.asarray(codes == shown[:, np.newaxis], dtype=np.float64)


def class_targets(labels: NDArray[Any], *, classes: Sequence[Any], strict: bool) -> FloatArray:
    """Encode class labels (n,) as summable indicators; see `encode_classes` and `one_hot`."""
    return one_hot(encode_classes(labels, classes, strict=strict), len(classes))


def warn_of_absent(classes: Sequence[Any] | None, sums: NDArray[Any], sizes: NDArray[Any], variance: float) -> None:
    """Warn of classes whose released counts in all bags are noise, where other classes exceed it."""
    total, error = float(sizes.sum()), 1.0 + _SIGNIFICANT_ERRORS * math.sqrt(sizes.size * variance)
    if not classes or _SIGNIFICANT_ERRORS * len(classes) * error > total:
        return
    counts = sums.sum(axis=0, dtype=np.float64).tolist()
    if len(classes) == 2:
        counts = [total - counts[0], counts[0]]
    absent = [label for label, count in zip(classes, counts, strict=True) if count <= error]
    if absent:
        privacy.warn_caller(
            f"by the released counts no more rows than noise hides have labels among {absent!r} of classes="
            f"{list(classes)!r}: give the labels that y holds. {ENCODED}.",
            UserWarning,
        )


def number_targets(labels: NDArray[Any]) -> NDArray[Any]:
    """Read finite numbers (n,) or (n, n_outputs) as outputs, shape (n_outputs, n)."""
    return np.ascontiguousarray(np.atleast_2d(read_numbers(labels).T))


def indicator_targets(labels: NDArray[Any], *, strict: bool) -> FloatArray:
    """Read an indicator matrix (n, n_outputs) as outputs; what is not 1 counts as 0, or is an error if ``strict``."""
    numbers = number_targets(labels)
    targets = np.asarray(numbers == 1, dtype=np.float64)
    if strict and not np.array_equal(targets, numbers):
        raise ValueError("y must hold 0 and 1 only if it has several columns.")
    return targets


def number_contributions(labels: NDArray[Any], low: float, high: float) -> FloatArray:
    """Convert numbers from [low, high] to integers about its middle, of at most `LABEL_STEPS` / 2 in absolute value.

    Exchanging one label moves its integer by at most `LABEL_STEPS`, however far the interval is from zero: a number
    near its lower bound is subtracted first, without rounding where labels are integers. Labels outside are clipped.
    """
    width = Fraction(high) - Fraction(low)
    base = math.floor(low) if width >= 1 else low
    if labels.dtype.kind in "iu" and 1 <= width <= _WIDEST_EXACT:
        offsets = _integer_offsets(labels, int(base), math.ceil(high))
    else:
        base = float(base)
        offsets = labels.astype(np.float64, copy=False) - base
    bounds = (float(Fraction(bound) - Fraction(base)) for bound in (low, high))
    return privacy.interval_contributions(offsets, *bounds, bits=privacy.CONTRIBUTION_BITS)


def _integer_offsets(labels: NDArray[Any], base: int, most: int) -> FloatArray:
    """Clip integers to [base, most] and subtract base; each result is the float64 nearest to the exact difference."""
    wide = np.uint64 if labels.dtype.kind == "u" else np.int64
    limits = np.iinfo(wide)
    low, high = max(base, limits.min), min(most, limits.max)
    if low > high:  # the interval has no integer of this type
        return np.full(labels.shape, 0.0 if base > limits.max else float(most - base))
    whole = np.clip(labels.astype(wide), low, high)
    # Differences below 2⁶⁴ are exact in arithmetic modulo 2⁶⁴.
    return (whole.view(np.uint64) - np.uint64(base % 2**64)).astype(np.float64)


def square_contributions(contributions: FloatArray) -> NDArray[np.int64]:
    """Square `number_contributions`, in steps of (half the interval)²/`LABEL_STEPS`: from 0 to `LABEL_STEPS`."""
    whole = contributions.astype(np.int64)
    return (whole * whole) >> (privacy.CONTRIBUTION_BITS - 2)


@dataclass(frozen=True)
class LabelSensitivity:
    """One label moves at most ``moved`` sums by at most ``steps`` each; public."""

    moved: int
    steps: int = 1

    @property
    def l1(self) -> int:
        return self.moved * self.steps

    @property
    def l2(self) -> float:
        return privacy.upper_root(self.moved * self.steps**2)


@dataclass(frozen=True)
class LabelNoise:
    """Noise planned for one vector of integer label sums; ``sensitivity`` is under replacement of one label.

    ``parameter`` is ε for the two Laplace mechanisms, the noise multiplier for "gaussian", ρ for "discrete_gaussian".
    """

    mechanism: str
    sensitivity: LabelSensitivity
    parameter: float

    @property
    def variance(self) -> float:
        """Variance of the noise in each sum, in steps²; public."""
        if self.mechanism == "gaussian":
            return (self.sensitivity.l2 * self.parameter) ** 2
        if self.mechanism == "discrete_gaussian":
            return self.sensitivity.l2**2 / (2 * self.parameter)
        scale = self.sensitivity.l1 / self.parameter
        if self.mechanism == "laplace":
            return 2 * scale**2
        return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2

    def exceeded(self, probability: float) -> float:
        """Compute the number of steps that the noise in one sum exceeds with about this probability."""
        if "gaussian" in self.mechanism:
            return float(math.sqrt(self.variance) * -ndtri(probability))
        return float(self.sensitivity.l1 / self.parameter * -math.log(2 * probability))

    def of_mean(self) -> LabelNoise:
        """Describe the noise in the mean of two draws by one of the same mechanism and variance."""
        factors = {"gaussian": math.sqrt(0.5), "discrete_gaussian": 2.0}
        return replace(self, parameter=self.parameter * factors.get(self.mechanism, math.sqrt(2.0)))

    def event(self, size: int) -> PrivacyEvent:
        if self.mechanism == "gaussian":
            return GaussianEvent(self.parameter, size)
        if self.mechanism == "discrete_gaussian":
            return privacy.ZeroConcentratedEvent(self.parameter, "discrete Gaussian")
        if self.mechanism == "discrete_laplace":
            return PureEvent(self.parameter, "discrete Laplace")
        return LaplaceEvent(self.parameter) if size == 1 else PureEvent(self.parameter, "Laplace")

    def draw(self, sums: NDArray[Any], release: Release) -> FloatArray:
        """Add noise to integer ``sums``; float64, in steps."""
        l1, l2 = self.sensitivity.l1, self.sensitivity.l2
        if self.mechanism == "gaussian":
            noisy = release.gaussian(sums, sensitivity=l2, noise_multiplier=self.parameter)
        elif self.mechanism == "discrete_gaussian":
            noisy = release.discrete_gaussian(sums, sensitivity=l2, rho=self.parameter)
        elif self.mechanism == "discrete_laplace":
            noisy = release.discrete_laplace(sums, sensitivity=l1, epsilon=self.parameter)
        else:
            noisy = release.laplace(sums, sensitivity=l1, epsilon=self.parameter)
        return np.asarray(noisy).astype(np.float64, copy=False)


def plan_label_noise(
    sensitivity: LabelSensitivity,
    size: int,
    *,
    epsilon: float,
    delta: float,
    mechanism: str = "auto",
    share: float = 1.0,
) -> LabelNoise:
    """Choose noise for label sums from public numbers.

    "auto" takes the smaller variance of "laplace" and, if ``delta > 0``, "gaussian". Laplace noise on counts is
    discrete. The two Gaussian mechanisms differ in the accounting only: "gaussian" is drawn on a fine lattice and
    accounted by the exact curve of the Gaussian, "discrete_gaussian" is integer and accounted by zero-concentrated
    privacy. ``share`` is a part of the budget, in (0, 1]; draws of one mechanism whose shares add up to 1 are within
    it. ``size`` counts the numbers of all these draws.
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {MECHANISMS}, got {mechanism!r}.")
    if "gaussian" in mechanism and not delta > 0:
        raise ValueError(f"mechanism={mechanism!r} needs delta > 0, got {delta!r}.")
    # Sums of costs, in floating point, must not pass the budget.
    margin = 1.0 if share == 1.0 else 1.0 - 2.0**-30
    candidates = []
    if mechanism in ("auto", "laplace"):
        # Steps of numbers are so fine that the lattice of the noise may be coarser; counts stay integers.
        name = "discrete_laplace" if sensitivity.steps < 1 << 20 else "laplace"
        candidates.append(LabelNoise(name, sensitivity, epsilon * share * margin))
    if mechanism == "gaussian" or (mechanism == "auto" and delta > 0):
        multiplier = privacy.gaussian_noise_multiplier(epsilon, delta, size=size) / (math.sqrt(share) * margin)
        candidates.append(LabelNoise("gaussian", sensitivity, multiplier))
    if mechanism == "discrete_gaussian":
        rho = share * margin * privacy.rho_of_epsilon(epsilon, delta)
        candidates.append(LabelNoise("discrete_gaussian", sensitivity, rho))
    chosen = min(candidates, key=lambda noise: noise.variance)
    if "discrete" in chosen.mechanism and chosen.variance > _LARGEST_SCALE**2:
        raise ValueError(f"epsilon={epsilon!r} is too small for mechanism={mechanism!r}: use a larger one.")
    return chosen


def range_share(n_rows: int, epsilon: float) -> float:
    """Choose the budget share that finds an interval, by public numbers."""
    return min(max(_SHARE / max(n_rows * epsilon, 1.0), _LEAST_SHARE), _LARGEST_SHARE)


def draws_twice(n_rows: int, epsilon: float) -> bool:
    """Decide by public numbers whether that share pays for two draws: half of it must do to find an interval."""
    return n_rows * epsilon * range_share(n_rows, epsilon) >= 2 * _SHARE


def range_counts(
    labels: NDArray[Any], *, nonnegative: bool = False, far: Sequence[Bounds | None] | None = None
) -> NDArray[np.int64]:
    """Count labels (n_outputs, n_samples) between powers of two, of both signs, output by output; private.

    Those of an output with an interval in ``far`` are counted in equal cells of it.
    """
    counts = []
    for numbers, bounds in zip(labels.astype(np.float64), far or [None] * len(labels), strict=True):
        if bounds is None:
            place = np.searchsorted(np.exp2(_EXPONENTS), np.abs(numbers), side="left")
            place = np.where(numbers < 0, 0 if nonnegative else -place, place) + _CELLS
        else:
            with np.errstate(over="ignore"):  # a warning would say something about whoever has such a label
                place = (numbers - bounds[0]) * (_NARROW / (bounds[1] - bounds[0]))
            place = place[(place >= 0) & (place < _NARROW)].astype(np.int64)
        counts.append(np.bincount(place, minlength=RANGE_COUNTS))
    return np.concatenate(counts).astype(np.int64, copy=False)


def private_label_bounds(
    count: Callable[[Sequence[Bounds | None] | None], NDArray[np.int64]],
    noise: LabelNoise,
    release: Release,
    *,
    nonnegative: bool = False,
    twice: bool = False,
) -> list[Bounds]:
    """Find, for each output, the interval between powers of two that spans the counts above the noise; within ±2⁴¹.

    If no count of either sign is, counts of absolute labels are tried, for a symmetric interval. If none of those is
    either, a symmetric interval is guessed a posteriori, sizes near 1 being more probable a priori, with a warning. If
    ``twice``, a second draw narrows intervals far from 0, and is averaged with the first one for the others. ``count``
    makes private counts as `range_counts`.
    """
    counts = count(None)
    n_rows = RANGE_COUNTS * int(counts.sum()) // counts.size
    noisy = list(noise.draw(counts, release).reshape(-1, RANGE_COUNTS))
    far: list[Bounds | None] = [None] * len(noisy)
    mean_noise = noise
    # From here on everything but counts is released.
    if twice:
        with unheard():
            intervals = [_find_interval(output, noise, n_rows) for output in noisy]
        far = [interval if is_far(interval) else None for interval in intervals]
        again = noise.draw(count(far), release).reshape(-1, RANGE_COUNTS)
        mean_noise = noise.of_mean()
        draws = zip(far, noisy, again, strict=True)
        noisy = [second if interval else (first + second) / 2 for interval, first, second in draws]
    bounds = [
        _narrowed(output[:_NARROW], wide, noise, n_rows) if wide else _find_interval(output, mean_noise, n_rows)
        for output, wide in zip(noisy, far, strict=True)
    ]
    for wide, interval in zip(far, bounds, strict=True):
        if is_far(interval) and (wide is None or wide == interval):
            warn_of_far(interval)
    return [(0.0 if nonnegative else low, high) for low, high in bounds]


def _find_interval(noisy: FloatArray, noise: LabelNoise, n_rows: int) -> Bounds:
    least = noise.exceeded(_FALSE_POSITIVE_RATE / noisy.size)
    cells = np.flatnonzero(noisy > least) - _CELLS
    if not cells.size:
        least *= math.sqrt(2.0)
        either = noisy[_CELLS + 1 :] + noisy[_CELLS - 1 :: -1]
        cells = np.flatnonzero(either > least) + 1
        cells = np.concatenate([-cells, cells])
    if not cells.size:
        guess = _guess_largest(np.append(noisy[_CELLS], either), noise, n_rows)
        privacy.warn_caller(
            f"no interval of the labels exceeds the noise; {guess:.3g} was guessed as their largest size: give "
            "label_bounds, or use more rows or a larger epsilon.",
            UserWarning,
        )
        return -guess, guess
    first, last = int(cells.min()), int(cells.max())
    first, last = _extend_to_hidden(noisy, first, last, noise, n_rows)
    if least > _HIDDEN_SHARE * n_rows:
        first, last = max(first - (first != 0), -_CELLS), min(last + (last != 0), _CELLS)
    return -_largest_label(-first), _largest_label(last)


def is_far(bounds: Bounds) -> bool:
    """Tell if an interval of powers of two is so far from 0 that it says little about how labels spread."""
    low, high = bounds
    return low * high > 0 and max(abs(low), abs(high)) <= _FAR * min(abs(low), abs(high))


def warn_of_far(bounds: Bounds) -> None:
    """Warn of labels that may spread much less than an interval far from 0."""
    low, high = bounds
    privacy.warn_caller(
        f"labels between {low:g} and {high:g} may spread much less than that, and the noise does not: give "
        "label_bounds, subtract a public number, or use more rows or a larger epsilon.",
        UserWarning,
    )


def _narrowed(noisy: FloatArray, bounds: Bounds, noise: LabelNoise, n_rows: int) -> Bounds:
    """Span the cells above the noise, and as much beside them as a normal law has where labels are below it."""
    cells = np.flatnonzero(noisy > noise.exceeded(_FALSE_POSITIVE_RATE / noisy.size))
    if not cells.size:
        return bounds
    first, last = int(cells[0]), int(cells[-1]) + 1
    error = _SIGNIFICANT_ERRORS / 2 * math.sqrt(noise.variance * (last - first))
    hidden = (n_rows - float(noisy[first:last].sum()) + error) / n_rows
    factor = _NORMAL_SPAN / -ndtri(min(max(hidden, math.erfc(_NORMAL_SPAN / math.sqrt(2.0))), 0.9) / 2)
    middle, half = (first + last) / 2, (last - first) / 2 * factor
    low, high = bounds
    cell = (high - low) / _NARROW
    narrow = max(low, low + cell * (middle - half)), min(high, low + cell * (middle + half))
    if last - first == 1 and hidden < _WITHIN:
        warn_of_far(narrow)
    return narrow


def _extend_to_hidden(noisy: FloatArray, first: int, last: int, noise: LabelNoise, n_rows: int) -> tuple[int, int]:
    """Extend the cells first to last where the rest of all labels is too large to be noise.

    Many labels of one number, zero for example, may exceed the noise while as many others are spread over several
    cells.
    """
    inside = slice(first + _CELLS, last + _CELLS + 1)
    rest = n_rows - float(noisy[inside].sum())
    error = math.sqrt(noise.variance * (last - first + 1))
    if rest <= max(_HIDDEN_SHARE * n_rows, _SIGNIFICANT_ERRORS * error):
        return first, last
    others = noisy.copy()
    others[inside] = 0.0
    sizes = np.append(others[_CELLS], others[_CELLS + 1 :] + others[_CELLS - 1 :: -1])
    most = int(np.searchsorted(np.exp2(_EXPONENTS), _guess_largest(sizes, noise, rest, 0.5), side="left"))
    near = np.arange(max(most - 3, 1), most + 2)
    near = near[near <= _CELLS]
    above, below = float(others[_CELLS + near].sum()), float(others[_CELLS - near].sum())
    # Neither side tells: labels of both signs.
    clear = _SIGNIFICANT_ERRORS * math.sqrt(2.0 * noise.variance * near.size)
    return (min(first, 0 if above - below > clear else -most), max(last, 0 if below - above > clear else most))


def _guess_largest(sizes: FloatArray, noise: LabelNoise, n_rows: float, caution: float = _GUESS_QUANTILE) -> float:
    """Guess a low posterior quantile of the largest label, for labels spread evenly over three powers of two.

    Predictions within too narrow an interval are no worse than 0, those within too wide a one are noise.
    """
    variance = np.full(sizes.size, 2.0 * noise.variance)
    variance[0] /= 2.0
    sizes = np.clip(sizes, -n_rows, n_rows)
    posterior = -_PRIOR_DECAY * np.abs(np.arange(sizes.size) + _EXPONENTS[0] - 1.0)  # logarithms
    for cell in range(sizes.size):
        spread = slice(max(cell - 2, 0), cell + 1)
        mean = n_rows / (spread.stop - spread.start)
        posterior[cell] += np.sum(mean * (sizes[spread] - mean / 2) / variance[spread])
    share = np.cumsum(np.exp(posterior - posterior.max()))
    return _largest_label(int(np.searchsorted(share, caution * share[-1])))


def _largest_label(cell: int) -> float:
    """Compute the largest label of a cell: 2^(k − 30) for the k-th above zero, −2^(k − 31) for the k-th below."""
    first = int(_EXPONENTS[0])
    return math.ldexp(1.0, first + cell) if cell >= 0 else -math.ldexp(1.0, first - cell - 1)
