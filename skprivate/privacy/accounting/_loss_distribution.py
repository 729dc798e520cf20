"""Composition of pure events beside a Gaussian: privacy losses on a grid, tilted towards the answer.

The pair that dominates an ε-bounded event has a loss whose law under the first distribution is e^{x/2} dv(x), with a
*symmetric* measure v on [−ε, ε]: two atoms A at ±ε and a constant density κ between them (`_shape`):

* any ε-DP mechanism, as randomised response: A = 1/(2 cosh(ε/2)), κ = 0;
* Laplace noise on one number: A = e^{−ε/2}/2, κ = e^{−ε/2}/4;
* bounded range: A = 0, κ = 1/(4 sinh(ε/2)), the loss of the profile in `BoundedRangeEvent`.

Three steps, each of which can only raise δ:

1. A loss between two points of the grid is split between them so that both probabilities of the pair are kept. This
   is a spread of e^{−loss}, in which δ is convex (Doroshenko et al. 2022). With constant κ the shares are closed
   formulas without cancellation.
2. The laws are multiplied by e^{λx}, normalised, convolved by a Fourier transform and multiplied back. For the λ that
   is best in Chernoff's bound the tilted law is centred at the answer, so the absolute rounding error of the
   transform becomes a *relative* error of δ, at δ = 1e-300 too. Bounds of all errors are added (`_rounding`).
3. The Gaussian is never put on the grid: δ(ε) of the whole is the mean of its exact δ(ε − loss) over the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.optimize import brentq

from skprivate.privacy._contributions import FloatArray
from skprivate.privacy._events import BoundedRangeEvent, LaplaceEvent, PrivacyEvent
from skprivate.privacy.accounting._gaussian import log_gaussian_delta

Kinds = Sequence[tuple[PrivacyEvent, int]]

#: No event above this ε enters the grid.
LARGE = 500.0
_MAX_POINTS = 2**17
#: The result of a longer convolution is put on a coarser grid.
_FEW_POINTS = 2**12
#: Standard deviation of the answer's law over grid step × √events.
_FINENESS = 100.0
#: Relative error of ε that the grid may add.
_PRECISION = 5e-6
#: Absolute error of δ that a sharp grid may add: splits of losses of density at most 0.4/μ beside a Gaussian of μ.
_SHARP = 2e-7
#: −ln of the tilted probability left outside the window, on each side.
_TAIL = 45.0
_ULP = 2.0**-52


@dataclass(frozen=True)
class TiltedLoss:
    """Losses of a composition: probability ``weights`` × e^{``log_total`` − ``tilt``·loss}, beside a Gaussian of μ.

    The absolute error of ``weights`` is at most ``rounding`` in ℓ1, the relative error of the rest e^{``relative``}.
    Losses of a tilted probability up to e^{``log_outside``} are not among ``losses``.
    """

    mu: float
    tilt: float
    losses: FloatArray
    weights: FloatArray
    log_total: float
    rounding: float
    relative: float
    log_outside: float

    def log_delta(self, epsilon: float) -> float:
        """Compute ln δ(ε), rounded up."""
        gaps = epsilon - self.losses
        if self.mu > 0:
            logs = log_gaussian_delta(self.mu, gaps)
        else:
            with np.errstate(divide="ignore"):
                logs = np.log(-np.expm1(np.minimum(gaps, 0.0)))
        terms = self.log_total - self.tilt * self.losses + logs
        # Every loss adds at most e^{−λε + λ(λ+1)μ²/2} times its tilted probability: Chernoff, as in `chernoff`.
        tilted = self.log_total + self.tilt * ((self.tilt + 1) * self.mu * self.mu / 2 - epsilon)
        outside = tilted + self.log_outside + self.relative
        top = float(terms.max())
        if top == -math.inf:
            return outside
        total = float(np.exp(terms - top) @ self.weights) + self.rounding  # the largest of the terms is 1
        return float(np.logaddexp(top + math.log(total) + self.relative, outside))

    def epsilon(self, delta: float, upper: float) -> float:
        """Find the smallest ε at most ``upper`` with δ(ε) ≤ ``delta``; ``inf`` if there is none."""
        goal = math.log(delta)

        def excess(epsilon: float) -> float:
            return max(self.log_delta(epsilon), -1e9) - goal

        if excess(upper) > 0:
            return math.inf
        if excess(0.0) <= 0:
            return 0.0
        epsilon = float(brentq(excess, 0.0, upper, xtol=1e-300, rtol=1e-10))
        step = 1e-10
        while excess(epsilon) > 0:
            epsilon *= 1 + step
            step *= 2
        return min(epsilon * (1 + 2.0**-40), upper)


def top_loss(kinds: Kinds) -> float:
    """Compute ln of the probability of the largest loss of the composition (−inf where losses have a density only)."""
    parts = ((_shape(event)[0] * math.exp(event.pure_epsilon / 2), count) for event, count in kinds)
    return math.fsum(count * (math.log(atom) if atom > 0 else -math.inf) for atom, count in parts)


def chernoff(kinds: Kinds, mu: float) -> tuple[FloatArray, FloatArray]:
    """Compute tilts λ and ln E[e^{λ·loss}] + ln c(λ), where ln δ(ε) ≤ that − λε; c(λ) = λ^λ/(1 + λ)^{1+λ}."""
    scale = math.sqrt(math.fsum(min(event.pure_epsilon, LARGE) ** 2 * count for event, count in kinds) + mu * mu)
    tilts = np.logspace(-4, 5, 181) / scale
    constant = -tilts * np.log1p(1 / tilts) - np.log1p(tilts)
    return tilts, _log_moments(kinds, mu, tilts) + constant


def tilted_loss(kinds: Kinds, mu: float, tilt: float, answer: float, *, sharp: bool = False) -> TiltedLoss | None:
    """Compose pure events of ε ≤ `LARGE` and one Gaussian of μ (0: none), sharp where ε is near ``answer``.

    ``sharp`` asks for a grid fine enough for δ as a number by itself. Any tilt ≥ 0 gives a valid bound; that of
    `chernoff` gives a sharp one. None if the grid would be too long.
    """
    counts = [count for _, count in kinds]
    step = _grid_step(kinds, mu, tilt, answer, sharp)
    while True:
        laws = [_law(event, step) for event, _ in kinds]
        tilted = [_tilt(law, step, tilt) for law in laws]
        extent = sum(law.size // 2 * count for law, count in zip(laws, counts, strict=True))
        low, high = _window(laws, tilted, counts, step, tilt, extent)
        if high - low <= 2 * _MAX_POINTS:
            break
        step *= 2
        if step > 1:
            return None
    size = fft.next_fast_len(high - low + 1, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    log_total = 0.0
    for (weights, log_norm), count in zip(tilted, counts, strict=True):
        half = weights.size // 2
        wrapped = np.bincount(np.arange(-half, half + 1) % size, weights=weights, minlength=size)
        product *= fft.rfft(wrapped) ** float(count)
        log_total += count * log_norm
    composed = np.roll(np.maximum(fft.irfft(product, size), 0.0), -(low % size))
    n = sum(counts)
    rounding = _rounding(size, n)
    few = size if sharp and mu == 0 else _FEW_POINTS
    merge = min(size // few, math.floor(1 / (tilt * step)) if tilt * step > 1e-9 else size)
    if sharp and mu > 0:
        merge = min(merge, math.floor(_sharp_step(mu) / step))
    if merge > 1:
        composed = _coarser(composed, merge, step, tilt)
        rounding *= math.exp(tilt * step * merge)
    else:
        merge = 1
    return TiltedLoss(
        mu=mu,
        tilt=tilt,
        # Up by more than the grid's rounding of any sum of ε.
        losses=step * (low + merge * np.arange(composed.size, dtype=np.float64) + 2.0**-49 * extent),
        weights=composed,
        log_total=log_total,
        rounding=rounding,
        # Tilting back and forth: the exponents of each law, their sum and the number of factors.
        relative=_ULP * (16 * n + 8 * (tilt + 1) * step * (extent + size) + 4 * abs(log_total) + 64),
        log_outside=math.log(2) - _TAIL if (low, high) != (-extent, extent) else -math.inf,
    )


def _coarser(weights: FloatArray, merge: int, step: float, tilt: float) -> FloatArray:
    """Split the losses of a tilted law between every ``merge``-th point of its grid, as `_law` does."""
    blocks = -(-weights.size // merge)
    rows = np.zeros((blocks, merge))
    rows.ravel()[: weights.size] = weights
    rest = step * np.arange(merge)
    width = step * merge
    above = np.exp(tilt * (width - rest)) * np.expm1(-rest) / math.expm1(-width)
    below = np.exp(-tilt * rest - rest) * np.expm1(rest - width) / math.expm1(-width)
    result = np.zeros(blocks + 1)
    result[:-1] += rows @ below
    result[1:] += rows @ above
    return result


def _shape(event: PrivacyEvent) -> tuple[float, float]:
    """Return A and κ of the symmetric measure v."""
    epsilon = event.pure_epsilon
    half = math.exp(-epsilon / 2)
    if isinstance(event, LaplaceEvent):
        return half / 2, half / 4
    if isinstance(event, BoundedRangeEvent):
        return 0.0, half / (-2 * math.expm1(-epsilon))
    return half / (1 + math.exp(-epsilon)), 0.0


def _law(event: PrivacyEvent, step: float) -> FloatArray:
    """Put v on the grid −m, …, m, in steps."""
    epsilon = event.pure_epsilon
    atom, density = _shape(event)
    inner = math.floor(epsilon / step * (1 + 2.0**-50))
    rest = min(max(epsilon - inner * step, 0.0), step)
    unit = math.sinh(step / 2)
    half = np.zeros(inner + 2)
    half[:inner] += 2 * density * math.tanh(step / 4)
    half[1 : inner + 1] += 2 * density * math.tanh(step / 4)
    half[inner] += atom * math.sinh((step - rest) / 2) / unit
    half[inner] += 4 * density * math.sinh((2 * step - rest) / 4) * math.sinh(rest / 4) / unit
    half[inner + 1] += (atom * math.sinh(rest / 2) + 4 * density * math.sinh(rest / 4) ** 2) / unit
    if half[inner + 1] == 0.0:
        half = half[: inner + 1]
    return np.concatenate([half[:0:-1], [2 * half[0]], half[1:]])


def _tilt(law: FloatArray, step: float, tilt: float) -> tuple[FloatArray, float]:
    """Compute e^{(λ + ½)x} v, normalised, and the logarithm of its sum."""
    weights, top, total = _tilted_sum(law, step, tilt)
    weights /= total
    return weights, top + math.log(total)


def _tilted_sum(law: FloatArray, step: float, tilt: float) -> tuple[FloatArray, float, float]:
    """Compute e^{(λ + ½)x − t} v, t and the sum, in place."""
    half = law.size // 2
    top = abs(tilt + 0.5) * step * half
    weights = np.arange(-half, half + 1, dtype=np.float64)
    weights *= (tilt + 0.5) * step
    weights -= top
    np.exp(weights, out=weights)
    weights *= law
    return weights, top, float(weights.sum())


def _sharp_step(spread: float) -> float:
    """Find the step for which splitting one loss raises a mean of functions of curvature 0.4/spread by `_SHARP`."""
    return math.sqrt(8 * _SHARP * spread / 0.4)


def _grid_step(kinds: Kinds, mu: float, tilt: float, answer: float, sharp: bool) -> float:
    """Choose a step that is fine against the tilted law and divides the ε that matters most."""
    largest = max(event.pure_epsilon for event, _ in kinds)
    if len(kinds) == 1 and _shape(kinds[0][0])[1] == 0:
        return largest  # atoms only: the grid is exact
    n = sum(count for _, count in kinds)
    width = 0.1 / math.sqrt(sum(event.pure_epsilon**2 * count for event, count in kinds))
    moments = _log_moments(kinds, 0.0, tilt + width * np.array([0.0, 1.0, 2.0]))
    variance = max(float(moments[0] - 2 * moments[1] + moments[2]) / width**2, 0.0)
    coarse = max(largest * 2.0**-15, 20 * math.sqrt(variance) / _MAX_POINTS)
    # n splits of one step add less than λn·step²/8 to ε.
    fine = math.sqrt(8 * _PRECISION * answer / (n * tilt)) if tilt > 0 else math.inf
    fine = max(math.sqrt((variance + mu * mu) / n) / _FINENESS, min(fine, largest / 64))
    if sharp:
        fine = min(fine, _sharp_step(mu if mu > 0 else 0.1 * math.sqrt(variance)) / math.sqrt(n))
    step = min(max(fine, coarse), 1.0)
    main = max(kinds, key=lambda pair: pair[1] * pair[0].pure_epsilon ** 2)[0].pure_epsilon
    parts = math.ceil(main / step)
    if sharp and mu == 0 and len(kinds) > 1 and parts < 2**16:
        # Atoms between the points would round the corners of the curve: a grid that nearly has those of every ε.
        choices = np.arange(parts, 2 * parts)
        others = np.outer([event.pure_epsilon / main for event, _ in kinds], choices)
        parts = int(choices[np.argmin(np.abs(others - np.round(others)).max(axis=0))])
    divisor = main / parts
    return divisor if divisor >= coarse / 2 else step


def _window(
    laws: list[FloatArray],
    tilted: list[tuple[FloatArray, float]],
    counts: list[int],
    step: float,
    tilt: float,
    extent: int,
) -> tuple[int, int]:
    """Find grid points that hold all but e^{−_TAIL} of the tilted law on each side, by Chernoff's bound."""
    if 2 * extent < 2**12:
        return -extent, extent
    # No bound cuts off a point that is likelier than the tail by itself: with few events the ends are.
    whole_low, whole_high = (_log_corner(tilted, counts, end) > -_TAIL for end in (0, -1))
    if whole_low and whole_high:
        return -extent, extent

    def log_moment(order: float) -> float:
        sums = [_tilted_sum(law, step, order)[1:] for law in laws]
        return math.fsum(count * (top + math.log(total)) for (top, total), count in zip(sums, counts, strict=True))

    centre = math.fsum(count * log_norm for (_, log_norm), count in zip(tilted, counts, strict=True))
    deviation = step * math.sqrt(
        sum(count * _variance(weights) for (weights, _), count in zip(tilted, counts, strict=True))
    )
    # Around the best shift of a normal law, that of single rare losses, and half of the tilt.
    ends = math.sqrt(2 * _TAIL) / max(deviation, 1e-6 * step), 1 / (step * max(law.size // 2 for law in laws))
    shifts = [*np.geomspace(min(ends) / 2, 4 * max(ends), 10), math.sqrt(2 * _TAIL) / max(deviation, step), tilt / 2]
    shifts = [shift for shift in shifts if shift > 0]
    margin = 1.0 + _ULP * 64 * (abs(centre) + sum(counts))
    low, high = -extent, extent
    if not whole_low:
        bound = max(-(log_moment(tilt - s) - centre + _TAIL + margin) / s for s in shifts)
        low = max(math.floor(bound / step) - 1, low)
    if not whole_high:
        bound = min((log_moment(tilt + s) - centre + _TAIL + margin) / s for s in shifts)
        high = min(math.ceil(bound / step) + 1, high)
    return low, high


def _log_corner(tilted: list[tuple[FloatArray, float]], counts: list[int], end: int) -> float:
    """Compute ln of the tilted probability that every loss is the smallest (``end`` 0) or the largest (−1)."""
    ends = [(float(weights[end]), count) for (weights, _), count in zip(tilted, counts, strict=True)]
    return math.fsum(count * (math.log(end) if end > 0 else -math.inf) for end, count in ends)


def _variance(weights: FloatArray) -> float:
    places = np.arange(weights.size, dtype=np.float64)
    mean = float(weights @ places)
    return float(weights @ np.square(places - mean))


def _rounding(size: int, n: int) -> float:
    """Bound the ℓ1 error of the convolution of n normalised laws by a transform of that size.

    A transform errs by at most γ = 8u log₂(size) relative to the ℓ2 norm (Higham 2002, section 24.1, with precise
    roots of unity), a power z^n with |z| ≤ 1 by n times the error of z plus 8nu; √size turns ℓ2 into ℓ1.
    """
    return math.sqrt(size) * (n + 1) * _ULP * (8 * math.log2(size + 1) + 8)


def _log_moments(kinds: Kinds, mu: float, tilts: FloatArray) -> FloatArray:
    """Compute ln E[e^{λ·loss}] of the composition, from closed forms, rounded up."""
    total = tilts * (tilts + 1) * (mu * mu / 2)
    theta = tilts + 0.5
    size = np.abs(total)
    for event, count in kinds:
        epsilon = event.pure_epsilon
        decay = np.exp(-2 * theta * epsilon)
        growth = (theta - 0.5) * epsilon
        if isinstance(event, LaplaceEvent):
            inside = 0.5 * (1 + decay) - 0.25 * np.expm1(-2 * theta * epsilon) / theta
        elif isinstance(event, BoundedRangeEvent):
            inside = 0.5 * np.expm1(-2 * theta * epsilon) / theta / math.expm1(-epsilon)
        else:
            inside = (1 + decay) / (1 + math.exp(-epsilon))
        part = count * (growth + np.log(inside))
        total = total + part
        size = size + np.abs(part) + count * np.abs(growth)
    return np.asarray(total + 8 * _ULP * (size + sum(count for _, count in kinds)))
