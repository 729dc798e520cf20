"""The multilevel hat-function mechanism: exact metric privacy for Wasserstein-1 at the optimal exponent.

Level j has a grid of spacing 2^−j with piecewise linear hat functions, a partition of unity. Their moments change by
at most 2·2^j·(ℓ1 distance) in ℓ1 when a unit mass moves, so Laplace noise on every level with a split of ε is
metrically private by composition. `skprivate.metric.grid._flows` is the same idea without the levels, has a smaller
error, and is what estimators use; this is the mechanism that the theory describes, kept for comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skprivate.metric._domains import Norm
from skprivate.metric.grid._flows import choose_cells, hat_bits, hat_sums, l1_factor, steps_per_distance
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Mechanism, PureEvent, Release
from skprivate.privacy._events import Events

FloatArray = NDArray[np.float64]


def hat_sensitivity(level: int, n_features: int, ground: Norm) -> float:
    """Lipschitz constant of the level's hat moments: ℓ1 change per unit of W1 with the given ground distance.

    Moving a point along one axis by t moves the mass t·2^j along edges: 2·2^j·‖t‖₁ in all, and ‖t‖₁ is at most
    d^(1 − 1/p)‖t‖_p. The constant is attained by moving every second coordinate up and the others down.
    """
    return 2.0 * 2.0**level * l1_factor(ground, n_features)


def restrict(sums: NDArray[Any]) -> NDArray[Any]:
    """Sums of the next coarser level (half as many cells), in steps half as large: integers of integers.

    A node of the fine grid is the middle of the two coarse ones that rounding its coordinates down and up leads to
    (its own place, twice, where all are even), and a coarse hat is linear between them.
    """
    down = up = sums
    for axis in range(sums.ndim):
        down, up = (np.moveaxis(part, axis, 0) for part in (down, up))
        lower, upper = down[::2].copy(), up[::2].copy()
        lower[:-1] += down[1::2]
        upper[1:] += up[1::2]
        down, up = (np.moveaxis(part, 0, axis) for part in (lower, upper))
    return np.asarray(down + up)


def prolong(values: FloatArray) -> FloatArray:
    """Transpose of `restrict`: twice the linear interpolation to the next finer grid."""
    fine = [np.arange(2 * size - 1) for size in values.shape]
    result: FloatArray = values[np.ix_(*(i // 2 for i in fine))] + values[np.ix_(*((i + 1) // 2 for i in fine))]
    return result


def level_budgets(n_levels: int, epsilon: float, n_features: int) -> list[float]:
    """ε_j ∝ 2^(jd/2), which minimises Σ_j 2^−j · 2^(jd) · 2^j/ε_j; the last one is what is left of ε."""
    shares = 2.0 ** (0.5 * n_features * np.arange(n_levels))
    budgets = [float(share) for share in epsilon * shares / shares.sum()]
    budgets[-1] = epsilon - float(np.sum(budgets[:-1]))
    return budgets


def choose_levels(epsilon: float, n_features: int, ground: Norm) -> int:
    """The finest level J, from public numbers only."""
    return max(round(math.log2(choose_cells(epsilon, n_features, ground))), 0)


@dataclass(frozen=True)
class HatMoments(Mechanism):
    """ε-metrically private measure on the finest grid of the hat hierarchy.

    Parameters
    ----------
    epsilon : float
        Price per unit of W1 distance between the empirical measures (unit cube, ``ground`` distance).
    n_rows : int
        Public, the same in all neighbours.
    n_features : int
    ground : {"l1", "l2", "linf"}
        Ground distance of W1.
    levels : int
        The finest level J (`choose_levels`); 2^J cells per coordinate.
    """

    epsilon: float
    n_rows: int
    n_features: int
    ground: Norm
    levels: int
    theorem = "Laplace noise on hat moments (docs/theory/metric.md, proposition 2)"

    def __post_init__(self) -> None:
        # What the sampler cannot draw is refused before anything is paid for.
        if self.sensitivity > 2.0**51 * min(self.budgets):
            raise ValueError(
                f"epsilon={self.epsilon:g} is too small for {self.n_rows} rows: noise would pass 2**51 lattice steps."
            )

    @property
    def budgets(self) -> list[float]:
        """Price of each level."""
        return level_budgets(self.levels + 1, self.epsilon, self.n_features)

    @property
    def events(self) -> Events:
        return [(PureEvent(budget, "Laplace"), 1) for budget in self.budgets]

    @property
    def bits(self) -> int:
        """Of a row's mass on the finest level."""
        return hat_bits(self.n_rows, 1 << self.levels, self.n_features, self.ground, self.budgets[0])

    @property
    def coarse_error(self) -> float:
        """W1 distance that noise on the corners of the box alone moves the measure by, in expectation, at most."""
        return hat_sensitivity(0, self.n_features, self.ground) * 2.0**self.n_features / self.epsilon

    @property
    def sensitivity(self) -> int:
        """Of the steps on every level: one step of the lattice moves one step of mass from a node to another."""
        side = 1 << (self.levels + self.bits)
        return 2 * steps_per_distance(self.n_rows, side, self.n_features, self.ground)

    def run(self, data: FloatArray | Partitions, release: Release) -> FloatArray:
        """Measure fitted to noisy moments of ``n_rows`` rows in the unit cube, in memory or in blocks.

        Returns
        -------
        ndarray of shape (2^levels + 1,) * n_features
            Nonnegative, adds up to 1.
        """
        sums = [as_partitions(data).sum(partial(hat_sums, cells=1 << self.levels, bits=self.bits))]
        for _ in range(self.levels):
            sums.append(restrict(sums[-1]))
        side = 1 << (self.levels + self.bits)
        noisy = [
            release.laplace(exact, sensitivity=self.sensitivity, epsilon=budget, step=2.0**level / side) / self.n_rows
            for level, (exact, budget) in enumerate(zip(reversed(sums), self.budgets, strict=True))
        ]
        scales = [
            hat_sensitivity(level, self.n_features, self.ground) / budget for level, budget in enumerate(self.budgets)
        ]
        return fit_moments(noisy, scales)


def fit_moments(noisy: list[FloatArray], scales: list[float], *, max_iter: int = 1000) -> FloatArray:
    """Probability measure on the finest grid whose moments at all levels fit best (nonnegative least squares)."""
    shape = noisy[-1].shape
    finest = scales[-1]
    weights = [(finest / scale) ** 2 for scale in scales]

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        moments = [flat.reshape(shape)]
        for _ in noisy[1:]:
            moments.append(0.5 * restrict(moments[-1]))
        residuals = [moment - target for moment, target in zip(reversed(moments), noisy, strict=True)]
        value = 0.5 * sum(w * float((r * r).sum()) for w, r in zip(weights, residuals, strict=True))
        gradient = weights[0] * residuals[0]
        for weight, residual in zip(weights[1:], residuals[1:], strict=True):
            gradient = 0.5 * prolong(gradient) + weight * residual
        # The total mass is known: it counts as ten nodes, and is set exactly in the end.
        excess = float(flat.sum()) - 1.0
        return value + 5.0 * excess**2, gradient.ravel() + 10.0 * excess

    size = int(np.prod(shape))
    found = minimize(
        objective,
        np.full(size, 1 / size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * size,
        options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-7},
    )
    measure: FloatArray = found.x.reshape(shape)
    total = float(measure.sum())
    return measure / total if total > 0 else np.full(shape, 1 / size)
