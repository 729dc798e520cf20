"""Test results of draws against the declared law of their mechanism.

Every result is put through the distribution function of its declared law, randomised where the law is discrete. The
numbers are then uniform on [0, 1], and all tests are exact for every kind of draw: sums of exponential and of squared
normal scores, signs, the Kolmogorov-Smirnov distance, and products of signs, which are fair bits if coordinates and
repetitions are independent. The law follows from the event of the draw and its sensitivity, apart from the code that
draws.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammainc, gammaincc, ndtr, ndtri
from scipy.stats import binom, kstest

from skprivate.privacy import BoundedRangeEvent, GaussianEvent, LaplaceEvent, PureEvent, ZeroConcentratedEvent
from skprivate.privacy.draws import Draw
from skprivate.utils._replay import NOISE, exact

Array = npt.NDArray[np.float64]
#: Beyond this share of a statistic its float64 sum with the noise has too few digits of the noise left.
_DIGITS = 2.0**-40
#: Discrete laws up to this scale are tabulated; wider ones are their continuous limits, up to 1/(24 · scale²).
_TABLED = 2000.0
#: Most categories of a selection by permute-and-flip whose law is worked out.
_MOST_CATEGORIES = 4096
#: Noisy numbers of a draw that are drawn again, and how many times that choices are, which tell less each.
_NUMBERS, _CHOICES = 300, 10
#: Draws of one kind and cost that are looked at.
_EACH = 3
#: p-values below which a first look is repeated, how much longer the last look is, and the end of all looks.
_ODD, _MORE, _CERTAIN = 0.02, 4, 1e-15


@dataclass(frozen=True)
class LawTest:
    """A test of the results of one kind of draw, or of the whole transcript, on n numbers."""

    draw: str
    test: str
    n: int
    p_value: float

    @property
    def z(self) -> float:
        """Express the p-value in standard deviations of a normal variable."""
        return float(-ndtri(min(max(self.p_value, 1e-300), 1.0)))

    def __str__(self) -> str:
        return f"{self.draw}: {self.test} (z = {self.z:.1f}, {self.n} numbers)"


def uniforms(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    """Map results (categories for selections) to numbers that are uniform and independent under the declared law.

    One array of shape (n_repetitions, n_coordinates) a part; none where the law is not known here.
    """
    if draw.kind in NOISE:
        return _of_noise(draw, results, rng)
    laws = {
        "select": _of_selection,
        "select_parts": _of_selection,
        "k_norm": _of_k_norm,
        "nearest": _of_nearest,
        "channel": _of_channel,
        "flow_laplace": _of_flow,
        "repetitions": _of_repetitions,
    }
    return laws[draw.kind](draw, results, rng) if draw.kind in laws else []


def rare_values(draw: Draw, results: Sequence[Any]) -> list[tuple[int, int, float]]:
    """Count results of coarse laws that are not the likeliest: (count, of how many, probability).

    Noise far below one step, and choices between candidates far apart, are nearly always the same. The numbers of
    `uniforms` then hardly depend on the law, but this count does.
    """
    if draw.kind.startswith("discrete") and (scale := scale_of(draw)) < 8.0:
        values, _ = exact(draw.statistic)
        moved = sum(step != 0 for one in results for step in _difference(one, values))
        if draw.kind == "discrete_laplace":
            chance = 2.0 * math.exp(-1.0 / scale) / (1.0 + math.exp(-1.0 / scale))
        else:
            law = _gaussian_table(scale)
            chance = 2.0 * float(law[law.size // 2 + 1 :].sum())
        return [(moved, len(results) * values.size, chance)]
    if draw.kind in ("select", "select_parts"):
        laws = selection_laws(draw) or []
        chosen = np.asarray(results)
        return [
            (int((column != int(law.argmax())).sum()), len(results), float(np.delete(law, law.argmax()).sum()))
            for law, column in zip(laws, chosen.T, strict=False)
        ]
    return []


def categories_of(draw: Draw, result: object) -> Any:
    """Find the category (of each part) of a result; None where only a candidate is known."""
    if draw.kind == "select" and draw.options["multiplicity"] is None:
        return [int(result)]
    if draw.kind == "select" and not draw.options["located"]:
        return [int(result[0])]
    return None


def law_tests_of(
    name: str, parts: list[Array], *, repeated: bool, rare: Sequence[tuple[int, int, float]] = ()
) -> list[LawTest]:
    """Test that numbers are uniform and independent; ``repeated`` if rows are repetitions of one draw."""
    found = []
    for count, n, chance in rare:
        found += [
            LawTest(name, "less often unlike the likeliest", n, float(binom.cdf(count, n, chance))),
            LawTest(name, "more often unlike the likeliest", n, float(binom.sf(count - 1, n, chance))),
        ]
    for part in parts:
        part = np.clip(part, 1e-15, 1.0 - 1e-15)
        flat = part.ravel()
        n = flat.size
        if n < 8:
            continue
        # |2U − 1| is uniform as well; −log(1 − it) is exponential, large where the noise was large.
        sizes = float(-np.log1p(-np.abs(2.0 * flat - 1.0)).sum())
        squares = float((ndtri(flat) ** 2).sum())
        above = int((flat > 0.5).sum())
        values = {
            "less noise": float(gammainc(n, sizes)),
            "more noise": float(gammaincc(n, sizes)),
            "variance": 2.0 * float(min(gammainc(n / 2, squares / 2), gammaincc(n / 2, squares / 2))),
            "centre": _fair_bits(above, n),
            "law": float(kstest(flat, "uniform").pvalue),
        }
        signs = part > 0.5
        if part.shape[1] > 1:
            values["coordinates"] = _fair_bits(int((signs[:, 1:] == signs[:, :-1]).sum()), signs[:, 1:].size)
        if repeated and part.shape[0] > 1:
            values["repetitions"] = _fair_bits(int((signs[1:] == signs[:-1]).sum()), signs[1:].size)
        found += [LawTest(name, test, n, min(1.0, p)) for test, p in values.items()]
    return found


def _fair_bits(count: int, n: int) -> float:
    """Compute the two-sided p-value of a count among fair bits."""
    return 2.0 * float(min(binom.cdf(count, n, 0.5), binom.sf(count - 1, n, 0.5)))


class LawTape:
    """A tape that repeats every draw, and tests its law."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.tests: list[LawTest] = []
        self.untested: set[str] = set()
        self._rng = rng
        self._conclusive = False
        self._seen: Counter[Any] = Counter()

    def draw(self, draw: Draw, sample: object) -> Any:
        key = (draw.kind, repr(draw.sensitivity), repr(draw.events), draw.statistic.size)
        self._seen[key] += 1
        if self._seen[key] <= _EACH and not self._conclusive:
            self._look(draw, sample)
        return sample()

    def _look(self, draw: Draw, sample: object) -> None:
        selects = draw.kind.startswith("select")
        width = 1 if selects or draw.kind == "repetitions" else max(1, draw.statistic.size)
        if draw.kind == "select_parts":  # a choice for each part
            width = len(draw.options["parts"])
        times = max(2, math.ceil(_NUMBERS * (_CHOICES if selects else 1) / width))
        tests = self._again(draw, sample, times)
        if not tests:
            self.untested.add(draw.kind)
            return
        # An odd first look does not count: fresh draws decide, at twice their p-values, for there are two more looks.
        for more in (1, _MORE):
            if min(test.p_value for test in tests) >= _ODD:
                break
            again = self._again(draw, sample, more * times)
            tests = [replace(test, p_value=min(1.0, 2.0 * test.p_value)) for test in again]
            if min(test.p_value for test in tests) < _CERTAIN:
                self._conclusive = True
                break
        self.tests += tests

    def _again(self, draw: Draw, sample: object, times: int) -> list[LawTest]:
        one = sample
        if draw.kind.startswith("select"):
            one = draw.categories if draw.categories is not None else lambda: categories_of(draw, sample())
        results = [one() for _ in range(times)]
        numbers = uniforms(draw, results, self._rng)
        return law_tests_of(draw.kind, numbers, repeated=True, rare=rare_values(draw, results))


# --- noise on numbers -----------------------------------------------------------------------------------------------


def _of_noise(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    values, whole = exact(draw.statistic)
    scale = scale_of(draw)
    if draw.kind.startswith("discrete"):
        steps = [_difference(one, values) for one in results]
        noise = np.array(steps, dtype=np.float64).reshape(len(results), values.size)
        kind = draw.kind.removeprefix("discrete_")
        return [integer_uniforms(kind, noise, scale, rng)]
    step = draw.step if whole and draw.step is not None else 1.0
    centre = np.array([float(value) for value in values.tolist()]) * step
    kept = np.abs(centre) * _DIGITS < scale * step
    real = np.asarray([np.asarray(one, dtype=np.float64).ravel() for one in results])
    noise = ((real - centre) / step)[:, kept]
    return [real_uniforms(draw.kind, noise, scale)] if noise.size else []


def scale_of(draw: Draw) -> float:
    """Compute the scale of the noise of a draw, in its steps."""
    (event,) = {type(event): event for event in draw.events}.values()
    if isinstance(event, GaussianEvent):
        return float(draw.sensitivity) * event.noise_multiplier
    if isinstance(event, ZeroConcentratedEvent):
        return float(draw.sensitivity) / math.sqrt(2 * event.rho)
    assert isinstance(event, LaplaceEvent | PureEvent | BoundedRangeEvent)
    return float(Fraction(draw.sensitivity) / Fraction(event.pure_epsilon))


def _difference(result: object, values: npt.NDArray[Any]) -> list[int]:
    return [int(a) - int(b) for a, b in zip(np.asarray(result).ravel().tolist(), values.tolist(), strict=True)]


def real_uniforms(kind: str, noise: Array, scale: float) -> Array:
    """Put continuous noise through its distribution function."""
    if kind == "gaussian":
        return np.asarray(ndtr(noise / scale))
    tail = 0.5 * np.exp(-np.abs(noise) / scale)
    return np.where(noise > 0, 1.0 - tail, tail)


def integer_uniforms(kind: str, noise: Array, scale: float, rng: np.random.Generator) -> Array:
    """Put integer noise through its distribution function, with a uniform part of each step."""
    part = rng.random(noise.shape)
    if kind == "laplace":
        # P(K ≥ k) = q^k/(1 + q) for k ≥ 0, and each next tail is q times the one before.
        q = math.exp(-1.0 / scale)
        tail = np.exp(-np.abs(noise) / scale) / (1.0 + q) * (q - math.expm1(-1.0 / scale) * part)
        return np.where(noise >= 0, 1.0 - tail, tail)
    if scale > _TABLED:
        return np.asarray(ndtr((noise - 0.5 + part) / scale))
    return _from_table(_gaussian_table(scale), noise, part)


@lru_cache(maxsize=16)
def _gaussian_table(scale: float) -> Array:
    width = max(8, math.ceil(40 * scale))
    points = np.arange(-width, width + 1)
    pmf = np.exp(-0.5 * (points / scale) ** 2)
    return np.asarray(pmf / pmf.sum())


def _from_table(pmf: Array, noise: Array, part: Array) -> Array:
    width = pmf.size // 2
    place = np.clip(noise, -width, width).astype(np.int64) + width
    below = np.concatenate([[0.0], np.cumsum(pmf)])
    return np.asarray(below[place] + part * pmf[place])


# --- choices --------------------------------------------------------------------------------------------------------


def _categorical(probabilities: Array, chosen: npt.NDArray[Any], rng: np.random.Generator) -> Array:
    """Put choices (…, n_rows) through the distribution functions of the rows, in their order of columns."""
    ends = np.cumsum(probabilities, axis=1)
    rows = np.arange(probabilities.shape[0])
    mass = probabilities[rows, chosen]
    return np.asarray(ends[rows, chosen] - mass * rng.random(chosen.shape))


def _of_channel(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    weights = np.asarray(draw.options["weights"], dtype=np.float64)[np.asarray(draw.statistic)]
    return [_categorical(weights / weights.sum(axis=1, keepdims=True), np.asarray(results), rng)]


def _of_selection(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    """Use categories of shape (n_repetitions, n_parts)."""
    laws, chosen = selection_laws(draw), np.asarray(results)
    if laws is None:
        return []
    columns = []
    for law, column in zip(laws, chosen.T, strict=True):
        if law.max() > 1.0 - 1e-9:
            continue  # nothing is left to chance: whatever drew it would look the same
        order = np.argsort(-law, kind="stable")  # likely ones first: a sharper choice moves the numbers down
        place = np.empty(law.size, dtype=np.int64)
        place[order] = np.arange(law.size)
        columns.append(_categorical(law[order][None, :], place[column][:, None], rng)[:, 0])
    return [np.stack(columns, axis=1)] if columns else []


def selection_laws(draw: Draw) -> list[Array] | None:
    """Compute the probability of each category, one array for each part; None where it is not known."""
    values, _ = exact(draw.statistic)
    scores = values - values.max() if values.dtype == object else values
    real = np.array([float(score) for score in scores.tolist()])
    counts = draw.options.get("multiplicity")
    members = np.ones(real.size) if counts is None else np.array([float(count) for count in counts])
    (event,) = draw.events
    rate = event.pure_epsilon / (float(draw.sensitivity) * (1 if draw.options["monotone"] else 2))
    if draw.kind == "select_parts":
        if not members.all():  # the part of an empty category is not recorded
            return None
        laws, ends = [], np.cumsum(members)
        for size, end in zip(draw.options["parts"], np.cumsum(draw.options["parts"]), strict=True):
            inside = (ends <= end) & (ends > end - size)
            laws.append(_exponential(rate * real[inside], members[inside]))
        return laws
    if draw.options["rule"] == "exponential":
        return [_exponential(rate * real, members)]
    if real.size > _MOST_CATEGORIES:
        return None
    best = real[members > 0].max()
    return [permute_and_flip_law(np.exp(np.minimum(rate * (real - best), 0.0)), members)]


def _exponential(exponents: Array, members: Array) -> Array:
    with np.errstate(divide="ignore"):
        logs = exponents + np.log(members)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=1)
def _panels() -> tuple[Array, Array]:
    """Make Gauss-Legendre nodes on halves of halves of (0, 1), for integrands that fall at any rate."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    ends = np.concatenate([[0.0], 2.0 ** np.arange(-40, 1)])
    width = np.diff(ends)[:, None]
    return (ends[:-1, None] + width * (nodes + 1) / 2).ravel(), (width * weights / 2).ravel()


def permute_and_flip_law(heads: Array, members: Array) -> Array:
    """Compute the probability of each category, given the probability of heads of each of its members.

    The winner is uniform among those with heads: p_i·E[1/(1 + others)] = p_i·∫ Π_{j≠i}(1 − p_j·s) ds over s in (0, 1).
    """
    s, weights = _panels()
    with np.errstate(divide="ignore"):
        logs = np.log1p(-np.outer(s, heads))
    total = logs @ members
    inner = np.exp(total[:, None] - np.maximum(logs, -1e300))
    law = heads * members * (weights @ inner)
    return np.asarray(law / law.sum())


def _of_nearest(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    chosen = np.asarray(results)
    lower, upper = draw.options["bounds"]
    rows = np.clip(np.asarray(draw.statistic, dtype=np.float64), lower, upper)
    points = np.asarray(draw.options["points"], dtype=np.float64)
    gap = rows[:, None, :] - points[None, :, :]
    order = {"l1": 1, "l2": 2, "linf": np.inf}[draw.options["norm"]]
    cost = np.linalg.norm(gap, ord=order, axis=2)
    (event,) = draw.events
    log = -0.5 * event.pure_epsilon * (cost - cost.min(axis=1, keepdims=True))
    law = np.exp(log)
    law /= law.sum(axis=1, keepdims=True)
    ranks = np.argsort(cost, axis=1, kind="stable")
    place = np.argsort(ranks, axis=1)
    rows_at = np.arange(len(rows))
    return [_categorical(np.take_along_axis(law, ranks, axis=1), place[rows_at, chosen], rng)]


def _of_repetitions(draw: Draw, results: Sequence[Sequence[int]], rng: np.random.Generator) -> list[Array]:
    """Use the number of evaluations, and their candidates, which are uniform whatever that number."""
    law, n_candidates = draw.options["repetitions"], len(draw.options["plans"])
    found = []
    if n_candidates > 1:
        chosen = np.array([[candidate] for one in results for candidate in one])
        found.append((chosen + rng.random(chosen.shape)) / n_candidates)
    if law.rate > 0:
        counts = np.array([len(one) for one in results])
        later = np.arange(2.0, counts.max() + 1.0)
        # P(K = 1) = f′(0) = E[K]·w(1), and each next probability by its ratio to the one before.
        first = math.log(law.mean) + float(law.log_weight(np.asarray(1.0)))
        ratio = law.rate if law.eta is None else law.rate / (1.0 + law.rate) * (later - 1.0 + law.eta)
        probability = np.exp(first + np.concatenate([[0.0], np.cumsum(np.log(ratio / later))]))
        ends = np.minimum(np.cumsum(probability), 1.0)
        place = counts[:, None] - 1
        found.append(np.maximum(ends[place] - probability[place] * rng.random(place.shape), 0.0))
    return found


# --- noise shaped by a norm, and flows -------------------------------------------------------------------------------


def _of_k_norm(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    rows = np.asarray(draw.statistic, dtype=np.float64)
    (event,) = draw.events
    scale = 1.0 / event.pure_epsilon
    kept = np.abs(rows).max(axis=1) * _DIGITS < scale
    noise = (np.asarray(results, dtype=np.float64) - rows)[:, kept]
    d = rows.shape[1]
    if not noise.size:
        return []
    if draw.options["norm"] == "l1" or d == 1:
        return [real_uniforms("laplace", noise.reshape(len(noise), -1), scale)]
    order = 2 if draw.options["norm"] == "l2" else np.inf
    norms = np.linalg.norm(noise, ord=order, axis=2)
    found = [np.asarray(gammainc(d, norms / scale))]
    if order == 2:
        # One coordinate of a uniform direction: its square has a beta law, independent of the length.
        share = np.divide(noise[:, :, 0], norms, out=np.zeros_like(norms), where=norms > 0)
        found.append(0.5 + 0.5 * np.sign(share) * betainc(0.5, (d - 1) / 2, np.minimum(share**2, 1.0)))
    return found


def _of_flow(draw: Draw, results: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    mass = np.asarray(draw.statistic)
    scale = scale_of(draw)
    noise = np.array([_difference(one, mass.ravel()) for one in results], dtype=np.float64)
    noise = noise.reshape(len(results), *mass.shape)
    if mass.ndim == 1:
        flows = -np.cumsum(noise, axis=1)[:, :-1]
        return [integer_uniforms("laplace", flows, scale, rng)] if flows.size else []
    axes = sum(size > 1 for size in mass.shape)
    if not 1 <= axes <= 3:
        return []
    flat = noise.reshape(len(results), -1)
    corners = [flat[:, 0]]
    if min(size for size in mass.shape if size > 1) > 2:  # else both corners would share an edge
        corners.append(flat[:, -1])
    values = np.stack(corners, axis=1)
    part = rng.random(values.shape)
    if scale <= _TABLED:
        return [_from_table(_sum_table(scale, axes), values, part)]
    x = np.abs(values - 0.5 + part) / scale
    tail = np.exp(-x) * {1: 0.5, 2: (2 + x) / 4, 3: (8 + 5 * x + x * x) / 16}[axes]
    return [np.where(values - 0.5 + part > 0, 1.0 - tail, tail)]


@lru_cache(maxsize=16)
def _sum_table(scale: float, count: int) -> Array:
    """Tabulate the law of the sum of discrete Laplace variables."""
    width = max(8, math.ceil(45 * scale))
    one = np.exp(-np.abs(np.arange(-width, width + 1)) / scale)
    one /= one.sum()
    law = one
    for _ in range(count - 1):
        size = law.size + one.size - 1
        law = np.fft.irfft(np.fft.rfft(law, size) * np.fft.rfft(one, size), size)
    return np.asarray(np.maximum(law, 0.0) / np.maximum(law, 0.0).sum())
