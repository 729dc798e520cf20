"""Halfspaces around given ones, and exact counts of the rows that they contain.

Rows and normals are rounded to integers whose products float64 holds exactly. So BLAS may add them in any order, and no
row's membership depends on another row.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate.mixture._geometry import Floats
from skprivate.mixture._problem import Hypothesis, Integers, Problem, SpanRows

#: Bits of a row's coordinate, two of them beyond public rows, and of the sum of a normal's: below 53 together.
ROW_BITS, NORMAL_BITS = 27, 25
#: Spread of rows along a normal of length one, in scaled units.
SPREAD = 0.4
#: Largest number of products of rows and normals that are held at a time: they stay in the cache.
MOST_PRODUCTS = 2**18
#: Fewest and most halfspaces in one turn, and the number of rows times columns times halfspaces between them.
FEWEST_TURNED, MOST_TURNED, TURN_WORK = 64, 2048, 4 * 10**9
#: Largest number of turns, the step that they have to reach, and the one behind which they end; the first step is 1.
MOST_TURNS, STEP_REACHED, LEAST_STEP = 32, 0.4, 2.0**-8


class Halfspaces(NamedTuple):
    """{z : ⟨normal, z⟩ + intercept ≥ 0}: normals of shape (n, d)."""

    normals: Floats
    intercepts: Floats


class TurnPlan(NamedTuple):
    """Costs of the turns, the factor between their steps, and the number of halfspaces in each."""

    epsilons: tuple[float, ...]
    shrink: float
    n_turned: int


def plan_turns(problem: Problem, epsilon: float, factor: float) -> TurnPlan:
    """Plan as many turns as ε is enough for, or none where they would not come near.

    The best of N random turns in d dimensions shortens the angle to the best normal by a factor of about √(1 − 2 ln(N)
    / d); steps shrink a little less. A draw from N loses ``factor`` · ln(N) / ε errors: the first turn's cost lets it
    lose what it gains, and costs grow as errors fall.
    """
    work = max(problem.planning_rows * (problem.n_features + 16), 1)
    n_turned = min(max(TURN_WORK // work, FEWEST_TURNED), MOST_TURNED)
    shrink = sqrt(1.0 - min(0.5, log(n_turned) / problem.n_features))
    costs: list[float] = []
    cost = factor * log(3 * n_turned) / ((1.0 - shrink) * max(problem.effective_rows, 1.0))
    while len(costs) < MOST_TURNS and shrink ** len(costs) >= LEAST_STEP and sum(costs) + cost <= epsilon:
        costs.append(cost)
        cost /= shrink
    if shrink ** len(costs) > STEP_REACHED:
        costs = []
    return TurnPlan(tuple(cost * epsilon / sum(costs) for cost in costs), shrink, n_turned)


def row_units(public: Floats) -> Floats:
    """Choose the unit of each coordinate, a power of two, by scaled public rows.

    Their largest is at least 0.5 but in constant columns, where nothing finer is needed.
    """
    largest = np.abs(public).max(axis=0, initial=0.5)
    return np.asarray(np.ldexp(1.0, np.frexp(largest)[1] + 2 - ROW_BITS))  # exact, as exp2 need not be


def centers(present: Hypothesis) -> Halfspaces:
    """Return each halfspace alone, and the one that follows from all; without any, the origin."""
    normals = np.vstack([present.normals, present.normals.sum(axis=0)])
    intercepts = np.append(present.intercepts, present.intercepts.sum())
    length = np.linalg.norm(normals, axis=1)
    length[length <= LEAST_STEP] = 1.0  # opposite halfspaces have no sum
    return Halfspaces(normals / length[:, None], intercepts / length)


def turned(around: Halfspaces, step: float, number: int, units: Floats, rng: np.random.Generator) -> Halfspaces:
    """Turn some halfspaces in random directions by about ``step``, every eighth four times as far.

    So a turn that noise led astray can be taken back.
    """
    which = rng.integers(len(around.intercepts), size=number)
    d = around.normals.shape[1]
    far = np.arange(number) % 8 == 0
    size = np.where(far, min(4.0 * step, 1.0), step) / sqrt(d + 1)
    normals = around.normals[which] + size[:, None] * rng.normal(size=(number, d))
    intercepts = around.intercepts[which] + size * SPREAD * rng.normal(size=number)
    length = np.linalg.norm(normals, axis=1)
    return rounded(Halfspaces(normals / length[:, None], intercepts / length), units)


def rounded(halfspaces: Halfspaces, units: Floats) -> Halfspaces:
    """Round normals to integers of a power of two in these units, and move them outward by the rounding of rows."""
    normals, intercepts = halfspaces
    weights = normals * units
    total = np.abs(weights).sum(axis=1, keepdims=True)
    step = np.ldexp(1.0, np.frexp(total)[1] - NORMAL_BITS)
    return Halfspaces(np.rint(weights / step) * step / units, intercepts + total[:, 0])


def turn_sums(rows: SpanRows, present: tuple[Hypothesis, ...], options: Halfspaces, units: Floats) -> Integers:
    """Sum what the rows of a block add to the errors of present hypotheses, and of each halfspace alone."""
    stay = [0 if one.all_private else int(rows.signed[one.contain(rows.scaled).all(axis=0)].sum()) for one in present]
    labels = np.array([rows.signed > 0, rows.signed < 0])  # all rows of a label weigh the same
    weights = np.array([rows.signed.max(initial=0), rows.signed.min(initial=0)])
    return np.concatenate([stay, weights @ counts(rows.scaled, options, units, labels)])


def counts(scaled: Floats, halfspaces: Halfspaces, units: Floats, groups: NDArray[np.bool_]) -> Integers:
    """Count the rows of each group, of shape (n_groups, n_rows), in each of some `rounded` halfspaces.

    A row that is far beyond public ones is rounded in larger units, by a power of two of its own.
    """
    weights = halfspaces.normals * units  # integers, but for one power of two
    limits = -halfspaces.intercepts[:, None]
    totals = np.zeros((len(groups), len(limits)), dtype=np.int64)
    size = max(1, MOST_PRODUCTS // max(1, len(limits)))
    for low in range(0, scaled.shape[0], size):
        part = slice(low, low + size)
        rows = scaled[part].T / units[:, None]
        largest = np.maximum(rows.max(axis=0), -rows.min(axis=0))
        far = np.ldexp(1.0, np.maximum(np.frexp(largest)[1] - ROW_BITS, 0))
        np.rint(np.divide(rows, far, out=rows), out=rows)
        margins = weights @ rows
        inside = (np.multiply(margins, far, out=margins) >= limits).astype(np.float32)
        totals += (groups[:, part].astype(np.float32) @ inside.T).astype(np.int64)  # below 2²⁴, hence exact
    return totals
