"""Optimal channels on any finite metric space, with a certified bound of the loss of every channel.

The linear programme has a column p_y of probabilities over the states for every output y, with
p_y(x′) ≥ e^{−ερ(x, x′)}·p_y(x) for all pairs; only Σ_y p_y = 1 joins the columns. So a step of a primal-dual interior
point method (Mehrotra 1992) takes one system in n unknowns per output and one more for all of them, where a general
solver meets n² unknowns and n³ constraints. Inner points satisfy every constraint with room to spare, and whatever dual
point the method has reached gives a bound (docs/theory/metric.md, Theorem 12).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from skprivate.metric.net._spaces import make_affordable, representatives
from skprivate.privacy.noise import FloatArray

#: Most different states of the programme, which takes 24·n³ bytes.
MAX_STATES = 320
#: Relative gap between loss and bound at which the steps end.
GAP = 1e-5
#: Most steps, and most n⁴ times their number: a minute or two of one core.
MAX_STEPS, MAX_WORK = 80, 3e11
# States this close, in ε, are merged in the programme, because a slack of 1 − e^{−ερ} would vanish.
_MERGE_DISTANCE = 2.0**-24
# Share of the way to the boundary that a step takes.
_STEP = 0.995
# A gap of this share of the loss of the best constant answer is ignored.
_MIN_GAP = 1e-11


def optimal_channel(
    distances: FloatArray, losses: FloatArray, epsilon: float, start: FloatArray
) -> tuple[FloatArray, float]:
    """Find a channel of small expected loss within `MAX_WORK`, and a lower bound of the loss of every channel.

    ``losses`` of answering y (column) in state x (row) are nonnegative and contain the prior of x. The result costs at
    most ``epsilon``, as integers, and is no worse than ``start``.
    """
    n = distances.shape[0]
    with np.errstate(over="ignore"):
        steps = epsilon * distances
    states, labels = np.unique(representatives(np.where(steps <= _MERGE_DISTANCE, 0.0, steps)), return_inverse=True)
    # A merged state has at least e^{−ερ} of the other's probability, and of its losses.
    merged = np.zeros((states.size, n))
    np.add.at(merged, labels, losses * np.exp(-steps[np.arange(n), states[labels]])[:, None])
    constant = np.zeros((n, n))
    constant[:, losses.sum(axis=0).argmin()] = 1.0
    scale = float((losses * constant).sum())
    candidates = [constant, start]
    least = min(float((losses * channel).sum()) for channel in candidates)
    bound = 0.0
    if scale > 0:
        factors = np.exp(-steps[np.ix_(states, states)])
        np.fill_diagonal(factors, 0.0)
        # Answers of merged states: the least loss bounds all.
        merged = np.stack([merged[:, labels == label].min(axis=1) for label in range(states.size)], axis=1) / scale
        bound = max(levelled_bound(factors, merged) * scale, constant_bound(factors, merged) * scale)
        if least - bound > GAP * least + _MIN_GAP * scale and states.size <= MAX_STATES:
            columns, below = _InteriorPoint(factors, merged).solve()
            bound = max(below * scale, bound)
            inner = np.zeros((n, n))
            inner[:, states] = (columns / columns.sum(axis=0)).T[labels]
            candidates.append(make_affordable(inner, distances, epsilon))
    channel = min(candidates, key=lambda channel: float((losses * channel).sum()))
    return channel, min(bound, float((losses * channel).sum()))


def certified_bound(multipliers: FloatArray, rest: FloatArray, size: FloatArray) -> float:
    """Bound the loss of every channel from below by Σ_x (μ(x) + min_y r_y(x)), less the largest rounding error.

    ``multipliers`` are any numbers μ, ``rest`` holds r_y = c_y − μ − Gᵀz_y for some z_y ≥ 0, one output a row, and
    ``size`` the same with plus signs.
    """
    n = multipliers.size
    # Sums of n terms, and factors e^{−ερ} whose exponents err by 745·2⁻⁵³ where they matter.
    least = (rest - (n + 800) * 2.0**-52 * size).min(axis=0)
    return float((multipliers + least).sum() - n * 2.0**-51 * (np.abs(multipliers) + np.abs(least)).sum())


def constant_bound(factors: FloatArray, losses: FloatArray) -> float:
    """Bound the loss by p(x) ≥ e^{−ερ(x, x′)}·p(x′) for one x: tight for very small ε. ``factors`` are 0 for x = x′."""
    n = losses.shape[0]
    least = ((factors + np.eye(n)) @ losses).min(axis=1).max()
    return float(least * (1 - (n + 800) * 2.0**-52))


def levelled_bound(factors: FloatArray, losses: FloatArray) -> float:
    """Bound the loss by multipliers at which every column e^{−ερ(·, y)} is worth 0: exact if all of them are used."""
    n = losses.shape[0]
    kernel = factors + np.eye(n)
    try:
        multipliers = np.linalg.solve(kernel, (losses * kernel).sum(axis=0))
    except np.linalg.LinAlgError:
        return 0.0
    if not np.isfinite(multipliers).all():
        return 0.0
    # Against such a column only its own constraints are tight, those from y to the other states.
    rest = losses.T - multipliers
    size = losses.T + np.abs(multipliers)
    dual = np.maximum(rest, 0.0)
    np.fill_diagonal(dual, 0.0)
    given = np.diag((factors * dual).sum(axis=1))
    return certified_bound(multipliers, rest - dual + given, size + dual + given)


class _InteriorPoint:
    """Mehrotra's predictor and corrector steps, one output at a time.

    ``columns`` are p_y(x) and ``dual`` z_y(x, x′) > 0, with the output first; ``multipliers`` are μ. Slacks G p_y are
    p_y(x′) − e^{−ερ(x, x′)}·p_y(x); ``factors`` e^{−ερ} are 0 on the diagonal, whose constraint is p(x) ≥ 0.
    """

    def __init__(self, factors: FloatArray, losses: FloatArray):
        n = losses.shape[0]
        self.factors, self.costs = factors, np.ascontiguousarray(losses.T)
        self.columns, self.multipliers = np.full((n, n), 1 / n), np.zeros(n)
        self.dual = np.empty((n, n, n))
        self.dual[:] = n**-2.0 / self._slacks(self.columns[0])
        self._moves, self._inverses = np.empty((n, n, n)), np.empty((n, n, n))
        self._total, self._middle, self._rest = np.empty((n, n)), 0.0, np.empty((n, n))

    def solve(self) -> tuple[FloatArray, float]:
        """Find columns that add up to 1 but for rounding, and the best bound."""
        bound, best = 0.0, self.columns.copy()
        for _ in range(min(MAX_STEPS, int(MAX_WORK / self.multipliers.size**4))):
            sound, below = self._factorise()
            value = float((self.costs * self.columns).sum())
            if np.isfinite(value) and np.isfinite(below):
                bound, best = max(bound, below), self.columns.copy()
            if not sound or value - bound <= GAP * value or not self._step():
                break
        return np.maximum(best, 0.0), bound

    def _slacks(self, column: FloatArray) -> FloatArray:
        slacks = self.factors * column[:, None]
        np.subtract(column, slacks, out=slacks)
        return slacks

    def _adjoint(self, dual: FloatArray) -> FloatArray:
        result: FloatArray = dual.sum(axis=0) - np.einsum("ij,ij->i", self.factors, dual)
        return result

    def _factorise(self) -> tuple[bool, float]:
        """Invert Gᵀ(z/s)G for every output, with their sum and residuals; return success and the bound."""
        n = self.multipliers.size
        self._total[:] = 0.0
        gap = 0.0
        size = np.empty((n, n))
        own = np.empty((n, n))
        sound = True
        for y in range(n):
            dual, slacks = self.dual[y], self._slacks(self.columns[y])
            gap += float(np.vdot(slacks, dual))
            self._rest[y] = self.costs[y] - self.multipliers - self._adjoint(dual)
            own[y] = dual.diagonal()
            size[y] = dual.sum(axis=0) + np.einsum("ij,ij->i", self.factors, dual)
            np.divide(dual, slacks, out=slacks)
            crossed = self.factors * slacks
            matrix = np.negative(crossed + crossed.T)
            matrix.flat[:: n + 1] = slacks.sum(axis=0) + np.einsum("ij,ij->i", self.factors, crossed)
            lower, info = dpotrf(matrix.T, lower=1, overwrite_a=1)
            sound = sound and info == 0
            if sound:
                half = dpotri(lower, lower=1, overwrite_c=1)[0]
                self._inverses[y] = half
                self._inverses[y] += half.T
                self._inverses[y].flat[:: n + 1] *= 0.5
                self._total += self._inverses[y]
        self._middle = gap / n**3
        # The diagonal belongs to p(x) ≥ 0; its multiplier need not be the dual's.
        size += self.costs + np.abs(self.multipliers)
        return sound and bool(np.isfinite(self._total).all()), certified_bound(self.multipliers, self._rest + own, size)

    def _direction(self, sides: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for moves of columns and multipliers, given right-hand sides Gᵀ(…)/s − rest of every output."""
        parts = np.matmul(self._inverses, sides[:, :, None])[:, :, 0]
        missing = 1 - self.columns.sum(axis=0) - parts.sum(axis=0)
        try:
            multipliers = np.linalg.solve(self._total, missing)
        except np.linalg.LinAlgError:
            multipliers = np.full(missing.size, np.nan)
        return parts + np.matmul(self._inverses, multipliers), multipliers

    def _step(self) -> bool:
        """Take one predictor and corrector step; False if rounding errors dominate."""
        n = self.multipliers.size
        own = np.array([self._adjoint(dual) for dual in self.dual])
        columns, multipliers = self._direction(-own - self._rest)
        down = up = 0.0
        linear = square = 0.0
        for y in range(n):
            slacks, change, dual = self._slacks(self.columns[y]), self._slacks(columns[y]), self.dual[y]
            change /= slacks
            down, up = min(down, float(change.min())), max(up, float(change.max()))
            slacks *= dual
            slacks *= change
            linear += float(slacks.sum())
            square += float(np.vdot(slacks, change))
            change += 1.0
            np.multiply(change, dual, out=self._moves[y])
        np.negative(self._moves, out=self._moves)
        if not np.isfinite([down, up, linear, square]).all():
            return False
        # Σ (s + a·Δs)(z + b·Δz), where Δz = −z(1 + Δs/s).
        a, b = min(1.0, 1 / max(-down, 1e-9)), 1 / (1 + up)
        ahead = (1 - b) * self._middle + ((a - b - a * b) * linear - a * b * square) / n**3
        centre = min(max(ahead / self._middle, 0.0), 1.0) ** 3 * self._middle
        sides = np.empty((n, n))
        for y in range(n):
            change = self._slacks(columns[y])
            change *= self._moves[y]
            np.subtract(centre, change, out=change)
            change /= self._slacks(self.columns[y])
            change -= self.dual[y]
            sides[y] = self._adjoint(change) - self._rest[y]
            self._moves[y] = change
        columns, multipliers = self._direction(sides)
        down = below = 0.0
        for y in range(n):
            change = self._slacks(columns[y])
            change /= self._slacks(self.columns[y])
            down = min(down, float(change.min()))
            change *= self.dual[y]
            self._moves[y] -= change
            np.divide(self._moves[y], self.dual[y], out=change)
            below = min(below, float(change.min()))
        if not np.isfinite([down, below]).all():
            return False
        self.columns += min(1.0, _STEP / max(-down, 1e-9)) * columns
        ratio = min(1.0, _STEP / max(-below, 1e-9))
        self.multipliers += ratio * multipliers
        self._moves *= ratio
        self.dual += self._moves
        return True
