"""The privacy curve of a private search: the law of the number of evaluations, and the best of them.

With u the chance that one evaluation beats a given result, the winner's density is that of one evaluation times
f′(1 − u) = E[K]·w(u), where f(x) = E[x^K]:

* truncated negative binomial of η > −1 (geometric for η = 1, logarithmic for η = 0): w(u) = (1 + κu)^{−(η+1)};
* Poisson, truncated to K ≥ 1 (its limit η → ∞): w(u) = e^{−κu}.

K is at least 1, so that a search always has a result. The rate κ is the float that makes E[K] the stated mean up to
rounding; K is drawn from the law of exactly that κ, and what rounding does to E[K] is part of the cost.

docs/theory/private_search_cost.md derives the bound: δ(ε) ≤ E[K]·Σ Δₖ δ₁(ε + ln ℓₖ). Here δ₁ is the privacy curve of
one evaluation of a random candidate, h the upper edge of its testing region, and Δₖ are the changes of the slope of
Φ(ℓ) = max over u of (w(u)ℓ − w(h(u)))⁺ at its corners ℓₖ. Any coarser h, and any function above Φ, only raise it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from skprivate._messages import must_be, number, one_of
from skprivate.privacy._contributions import FloatArray
from skprivate.privacy._events import Events, PrivacyEvent, count_events
from skprivate.privacy.accounting._composition import add_up, compose_epsilon, rough_delta
from skprivate.privacy.noise._bits import BitSource

Family = Literal["poisson", "negative-binomial"]

_FAMILIES = ("poisson", "negative-binomial")
#: A search that evaluates more often than this on average is not meant.
_MOST = 1e6
Plan = tuple[tuple[PrivacyEvent, int], ...]
#: Values of δ₁ for the testing region, points on its edge, corners of Φ.
_LINES, _POINTS, _CORNERS = 32, 1500, 20
#: Share of the chances that matter at which the testing region may be coarse.
_COARSE = 1e-4
_ULP = 2.0**-48
_LARGEST = 700.0


@dataclass(frozen=True)
class Repetitions:
    """Law of the number of evaluations of a private search; the number itself is a secret.

    The laws of Papernot and Steinke (2022), "Hyperparameter tuning with Rényi differential privacy". The larger η, the
    more the number is concentrated, and the more the search costs.

    Both ``family`` are truncated to numbers of at least 1, and have the stated ``mean``. ``eta`` is the shape η of the
    negative binomial: 1 is the geometric law, 0 the logarithmic one.

    >>> from skprivate.privacy import Repetitions
    >>> Repetitions("negative-binomial", mean=10.0, eta=1.0).rate
    9.0
    """

    family: Family
    mean: float
    eta: float | None = None

    def __post_init__(self) -> None:
        if self.family not in _FAMILIES:
            raise ValueError(must_be("family", one_of(_FAMILIES), self.family))
        number("mean", self.mean, "a number in [1, 1e6]", lambda value: 1 <= value <= _MOST)
        if self.family == "poisson":
            if self.eta is not None:
                raise ValueError(must_be("eta", "None with family='poisson'", self.eta))
        else:
            allowed = "0, or a number in [-0.9, 100] of size 1e-6 at least"
            number("eta", self.eta, allowed, lambda eta: -0.9 <= eta <= 100 and (eta == 0 or abs(eta) >= 1e-6))

    @cached_property
    def rate(self) -> float:
        """κ of the law, the parameter that is drawn with; 0 where there is one evaluation."""
        if self.mean == 1:
            return 0.0
        if self.eta == 1:
            return self.mean - 1
        top = 2.0
        while self._mean_of(top) < self.mean:
            top *= 2
        return float(brentq(lambda rate: self._mean_of(rate) - self.mean, 1e-300, top, rtol=1e-14, xtol=1e-300))

    @property
    def largest_mean(self) -> float:
        """The mean of the law that is drawn from, rounded up."""
        return self._mean_of(self.rate) * (1 + 2.0**-40)

    @cached_property
    def expected_rank(self) -> float:
        """Mean rank of the best of K evaluations among all possible ones, from 0 (worst) to 1 (best): E[K/(K+1)].

        With u as above it is the mean of 1 − u over the winner.
        """
        if self.rate == 0:
            return 0.5
        ends = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 4) / max(self.rate, 1.0), [1.0]])
        parts = (
            quad(lambda u: (1 - u) * math.exp(float(self.log_weight(np.asarray(u)))), left, right)[0]
            for left, right in pairwise(ends.tolist())
        )
        return self.mean * math.fsum(parts)

    def _mean_of(self, rate: float) -> float:
        if rate == 0:
            return 1.0
        if self.eta is None:
            return rate / -math.expm1(-rate)
        log = math.log1p(rate)
        return rate / log if self.eta == 0 else self.eta * rate / -math.expm1(-self.eta * log)

    def log_weight(self, beaten: FloatArray) -> FloatArray:
        """Compute ln w(u) for chances u of being beaten, in [0, 1]; 0 at 0, and decreasing."""
        if self.eta is None:
            return np.asarray(-self.rate * beaten)
        return np.asarray(-(self.eta + 1) * np.log1p(self.rate * beaten))

    def beaten(self, log_weight: FloatArray) -> FloatArray:
        """Invert `log_weight`."""
        if self.eta is None:
            return np.asarray(-log_weight / self.rate)
        return np.asarray(np.expm1(-log_weight / (self.eta + 1)) / self.rate)

    def log_slope(self, beaten: FloatArray) -> FloatArray:
        """Compute the logarithm of the size of w′(u), up to a constant."""
        if self.eta is None:
            return self.log_weight(beaten)
        return np.asarray(-(self.eta + 2) * np.log1p(self.rate * beaten))

    def sample(self, source: BitSource) -> int:
        """Draw K, exactly.

        Inverts the distribution function at a uniform number of which ever more digits are drawn, until all numbers
        with these digits lead to the same K. The function is enclosed by decimal arithmetic of growing precision.
        """
        if self.rate == 0:
            return 1
        prefix, bits = source.bits(64), 64
        while (drawn := self._quantile(prefix, bits)) is None:
            prefix, bits = (prefix << 64) | source.bits(64), bits + 64
        return drawn

    def _quantile(self, prefix: int, bits: int) -> int | None:
        """Find the K of all numbers that begin with these digits, or None where there are two."""
        context = Context(prec=math.ceil(0.302 * bits) + 60, Emin=-(10**15), Emax=10**15)
        multiply, divide, add = context.multiply, context.divide, context.add
        rate, one = Decimal(self.rate), Decimal(1)
        shape = None if self.eta is None else Decimal(self.eta)
        # Weights of P(K = 1) = 1, and their sum.
        if shape is None:
            total = divide(context.subtract(context.exp(rate), one), rate)
            ratio = rate
        else:
            full = add(one, rate)
            log = context.ln(full)
            grown = log if shape == 0 else divide(context.subtract(context.exp(multiply(shape, log)), one), shape)
            total = multiply(grown, divide(full, rate))
            ratio = divide(rate, full)
        ends = [divide(multiply(total, Decimal(end)), Decimal(1 << bits)) for end in (prefix, prefix + 1)]
        # Each weight errs by four units in the last place more than the one before. In the total, where κ ≥ 10⁻¹⁶ and
        # |η| ≥ 10⁻⁶, 23 digits cancel at most.
        unit = Decimal(10) ** (2 - context.prec)
        weight = reached = one
        k = 1
        while True:
            error = multiply(unit, Decimal(10**26 + k))
            if multiply(reached, add(one, error)) > ends[0]:
                return k if multiply(reached, context.subtract(one, error)) >= ends[1] else None
            k += 1
            growth = ratio if shape is None else multiply(ratio, add(Decimal(k - 1), shape))
            weight = divide(multiply(weight, growth), Decimal(k))
            reached = add(reached, weight)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a uniformly random candidate: plans, and how many candidates draw each.

    The candidate is drawn independently of the data and may be thought published, so that the divergence of two inputs
    is the mean of the candidates' divergences.
    """

    plans: tuple[tuple[Plan, int], ...]

    @cached_property
    def pure_epsilon(self) -> float:
        """ε of the worst candidate."""
        return max(compose_epsilon(plan, 0.0) for plan, _ in self.plans)

    def epsilon(self, delta: float) -> float:
        """Find an ε at which no candidate's curve is above ``delta``."""
        return max(compose_epsilon(plan, delta) for plan, _ in self.plans)

    def delta(self, epsilon: float) -> float:
        """Compute δ₁, rounded up; for ε < 0 by symmetry of the neighbouring relation."""
        terms = [count * rough_delta(plan, abs(epsilon)) for plan, count in self.plans]
        value = min(add_up(terms) / sum(count for _, count in self.plans) * (1 + _ULP), 1.0)
        if epsilon >= 0 or value == 1:
            return value
        return min((-math.expm1(epsilon) + math.exp(epsilon) * value) * (1 + _ULP), 1.0)


@dataclass(frozen=True)
class SearchCurve:
    """The privacy curve of the best of K evaluations."""

    evaluation: Evaluation
    repetitions: Repetitions

    @cached_property
    def pure_epsilon(self) -> float:
        """ε at δ = 0: that of one evaluation, and the largest ratio of the law's factors."""
        pure = self.evaluation.pure_epsilon
        if self.repetitions.rate == 0 or math.isinf(pure):
            return pure
        chances, attained = self._corners
        # Along a straight piece of h the ratio of the factors is monotone, so that it is largest at a corner.
        low, high = self.repetitions.log_weight(attained), self.repetitions.log_weight(chances)
        gap = high - low + _ULP * (np.abs(high) + np.abs(low))
        return add_up([pure, max(float(gap.max()), 0.0)])

    def delta(self, epsilon: float) -> float:
        """Compute δ at ``epsilon``, rounded up."""
        if self.repetitions.rate == 0:
            return self.evaluation.delta(epsilon)
        if epsilon >= self.pure_epsilon:
            return 0.0
        logs, shares, constant = self._envelope
        # ε + ln ℓ, rounded down: δ₁ does not rise with it.
        places = epsilon + logs - _ULP * (1 + abs(epsilon) + np.abs(logs))
        values = [self.evaluation.delta(float(place)) for place in places]
        total = constant + math.fsum(share * value for share, value in zip(shares.tolist(), values, strict=True))
        return min(total * self.repetitions.largest_mean * (1 + _ULP), 1.0)

    def epsilon(self, delta: float) -> float:
        """Find the smallest proven ε at ``delta``; ``inf`` if there is none."""
        best = self.pure_epsilon
        if delta == 0:
            return best
        if self.repetitions.rate == 0:
            return min(best, self.evaluation.epsilon(delta))
        if self.delta(0.0) <= delta:
            return 0.0
        goal = math.log(delta)

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon), 1e-320)) - goal

        low, high = 0.0, 0.25
        while excess(high) > 0:
            low, high = high, 2 * high
            if high > _LARGEST:
                return best
        epsilon = float(brentq(excess, low, high, xtol=1e-9 * high)) if excess(low) > 0 else high
        step = 1e-9
        while self.delta(epsilon) > delta:
            epsilon += step * high
            step *= 2
        return min(best, epsilon)

    @cached_property
    def _corners(self) -> tuple[FloatArray, FloatArray]:
        """Corners (u, h(u)) of the testing region, h rounded up; the first has u = 0, the last u = 1."""
        slopes, offsets = self._lines
        chances, current = [0.0], 0.0
        # The lower envelope of straight lines, from the left: always on to the next crossing with a flatter line.
        line = int(np.lexsort((slopes, offsets))[0])
        while current < 1.0:
            flatter = np.flatnonzero(slopes < slopes[line])
            if not flatter.size:
                break
            crossings = (offsets[flatter] - offsets[line]) / (slopes[line] - slopes[flatter])
            first = float(crossings.min())
            if not first < 1.0:
                break
            line = int(flatter[np.lexsort((slopes[flatter], crossings))[0]])
            if first > current:
                current = first
                chances.append(current)
        chances.append(1.0)
        places = np.array(chances)
        return places, self._attained(places)

    def _attained(self, chances: FloatArray) -> FloatArray:
        slopes, offsets = self._lines
        attained = np.full(chances.shape, 1.0)
        for slope, offset in zip(slopes, offsets, strict=True):
            attained = np.minimum(attained, slope * chances + offset)
        # The corners are exact up to rounding; between two of them h must not pass above a straight line.
        return np.minimum(attained * (1 + 2.0**-44), 1.0)

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray]:
        """Slopes and offsets of the straight lines whose minimum is h, offsets rounded up."""
        pure = self.evaluation.pure_epsilon
        steep = min(self.evaluation.epsilon(_COARSE / (1 + self.repetitions.rate)), pure)
        if math.isinf(steep):
            # What reveals everything more often than that has no such ε: its curve flattens out somewhere.
            steep = 1.0
            while steep < 64 and self.evaluation.delta(2 * steep) < 0.99 * self.evaluation.delta(steep):
                steep *= 2
        orders = np.linspace(0.0, min(steep, _LARGEST), _LINES)
        if pure <= _LARGEST:
            orders = np.append(orders, pure)
        orders = np.unique(orders)
        deltas = np.array([self.evaluation.delta(float(order)) for order in orders])
        up, down = np.exp(orders), np.exp(-orders)
        slopes = np.concatenate([up, down, [0.0]])
        offsets = np.concatenate([deltas, -np.expm1(-orders) + down * deltas, [1.0]])
        # A slope off by a unit in the last place is one of the offset where u ≤ 1.
        return slopes, offsets + _ULP * slopes + _ULP * offsets

    @cached_property
    def _envelope(self) -> tuple[FloatArray, FloatArray, float]:
        """Corners ln ℓₖ of a function above Φ, ascending; the changes Δₖ of its slope there; a slope from ℓ = 0 on."""
        high, low = self._factors
        # Where w(h) underflows its point counts as a line through 0 of its own.
        under = low < 1e-300
        constant = float(high[under].max(initial=0.0))
        high, low = high[~under], low[~under]
        if not high.size:
            return np.zeros(1), np.zeros(1), 1.0
        ratios = np.log(low) - np.log(high)
        first = float(ratios.min()) - 1e-12 * (1 + abs(float(ratios.min())))
        last = max(math.log(float(self._lines[0].max())), first) + 1e-6
        grid = np.exp(np.linspace(first, last, 400))
        values = np.zeros(grid.size)
        for part in range(0, high.size, 512):
            lines = np.outer(grid, high[part : part + 512]) - low[part : part + 512]
            values = np.maximum(values, lines.max(axis=1) + _ULP * grid)
        values[0] = 0.0  # left of every line's root
        slopes = np.diff(values) / np.diff(grid)
        # A chord of a convex function lies above it: keep points between which the slope changes by little.
        keep = [0]
        for place in range(1, grid.size - 1):
            if slopes[place] > min(2 * slopes[keep[-1]], slopes[keep[-1]] + 1 / _CORNERS):
                keep.append(place)
        keep.append(grid.size - 1)
        chords = np.append(np.diff(values[keep]) / np.diff(grid[keep]), 1.0)
        chords = np.maximum.accumulate(np.minimum(chords * (1 + _ULP), 1.0))
        return np.log(grid[keep]), np.diff(chords, prepend=0.0) * (1 + _ULP), constant

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray]:
        """Points (w(u), w(h(u))), rounded up and down, such that lines between neighbours pass below the curve."""
        law = self.repetitions
        corners, _ = self._corners
        parts, n_pieces = [corners[:1]], max(_POINTS // corners.size, 8)
        for left, right in pairwise(corners):
            ends = law.log_weight(np.array([left, right]))
            inner = law.beaten(np.linspace(ends[0], ends[1], n_pieces + 1)[1:-1])
            parts += [inner[(inner > left) & (inner < right)], np.array([right])]
        places = np.unique(np.concatenate(parts))
        attained = self._attained(places)
        upper, lower = law.log_weight(places), law.log_weight(attained)
        high, low = np.exp(upper), np.exp(lower)
        # Where w(h) is convex in w it sags below its chord, by a quarter of width × change of slope at most.
        bend = np.exp(law.log_slope(attained) - law.log_slope(places))
        sag = -np.diff(high) * np.diff(attained) / np.diff(places) * np.abs(np.diff(bend)) / 4
        around = np.maximum(np.append(sag, 0.0), np.insert(sag, 0, 0.0)) * (1 + 2.0**-20)
        high = np.minimum(high * (1 + _ULP * (8 + np.abs(upper))), 1.0)
        return high, np.maximum(low * (1 - _ULP * (8 + np.abs(lower))) - around, 0.0)


@lru_cache(maxsize=64)
def search_curve(evaluation: Evaluation, repetitions: Repetitions) -> SearchCurve:
    """Make the curve, which keeps what it computed."""
    return SearchCurve(evaluation, repetitions)


# A plan looks at dozens of curves, and fits of the same plan look at the same ones: their numbers take less room.


@lru_cache(maxsize=4096)
def pure_epsilon_of(evaluation: Evaluation, repetitions: Repetitions) -> float:
    """Compute `SearchCurve.pure_epsilon` once."""
    return search_curve(evaluation, repetitions).pure_epsilon


@lru_cache(maxsize=4096)
def delta_of(evaluation: Evaluation, repetitions: Repetitions, epsilon: float) -> float:
    """Compute `SearchCurve.delta` once."""
    return search_curve(evaluation, repetitions).delta(epsilon)


@lru_cache(maxsize=512)
def epsilon_of(evaluation: Evaluation, repetitions: Repetitions, delta: float) -> float:
    """Compute `SearchCurve.epsilon` once."""
    return search_curve(evaluation, repetitions).epsilon(delta)


def evaluation_of(plans: Sequence[Events]) -> Evaluation:
    """Describe one evaluation of a random one of the candidates that draw these plans."""
    kinds = Counter(tuple(sorted(count_events(plan).items(), key=lambda pair: repr(pair[0]))) for plan in plans)
    if not kinds or not all(kinds):
        raise ValueError("plans must hold the events of at least one candidate, and at least one event each.")
    return Evaluation(tuple(sorted(kinds.items(), key=repr)))
