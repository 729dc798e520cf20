"""What is said about a fit from public numbers alone."""

from __future__ import annotations

import math
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from skprivate.metric._domains import degree_columns
from skprivate.metric.grid._flows import GroundNorm, LaplaceFlow, choose_cells, edge_costs
from skprivate.privacy import warn_caller


class NoiseFillsBoxWarning(UserWarning):
    """The noise may move all mass as far as from the middle of the box to its ends: the fit says nothing."""


#: Share of the loss that an "optimal" channel may be away from its bound.
_LOOSE = 0.01


class DegreesWarning(UserWarning):
    """Columns look like longitude and latitude, and ε is counted per degree, which is no distance."""


def diameter(ground: GroundNorm, n_features: int) -> float:
    """Of the unit cube."""
    return {"l1": float(n_features), "l2": math.sqrt(n_features), "linf": min(float(n_features), 1.0)}[ground]


def warn_if_noise_fills_box(mechanism: LaplaceFlow) -> None:
    """Warn where a guess without data, all mass in the middle of the box, errs as little as the noise alone.

    Only where the box is too small for two cells a side as well (`choose_cells`), so that no finer grid says more.
    """
    d, ground, epsilon = mechanism.n_features, mechanism.ground, mechanism.epsilon
    sizes = mechanism.sizes
    guess = diameter(ground, d) / 2 + mechanism.weight * sum(1 - 1 / size for size in sizes)
    if mechanism.coarse_error < guess or choose_cells(epsilon, d, ground, sizes) > 1:
        return
    needed = epsilon * mechanism.coarse_error / guess
    if d:
        needed = min(needed, 6 * edge_costs(d, ground, sizes) / d * 1.5 ** (d + 1))
    warn_caller(
        f"epsilon = {epsilon:g} per unit of Wasserstein distance is too small to say anything about the rows: the "
        f"noise alone moves the measure by up to {mechanism.coarse_error:.2g} sides of the box, where a guess without "
        f"data errs by at most {guess:.2g}. It begins to say something from epsilon = {needed:.2g} on; epsilon = "
        f"{mechanism.n_rows}, the number of rows, is comparable with epsilon = 1 under metric='rows'.",
        NoiseFillsBoxWarning,
    )


def warn_if_loose(loss: float, bound: float, farthest: float) -> None:
    """Warn where a channel that was asked to be optimal may be far from it; all of this is public geometry."""
    if loss - bound > _LOOSE * loss + 1e-6 * farthest:
        warn_caller(
            f"mechanism='optimal' ended before the optimum: the expected loss is {loss:.4g}, and all that is "
            f"known is that no channel has less than {bound:.4g} (least_loss_). The channel is as private as asked. "
            "Fewer states, or a larger epsilon, take fewer steps.",
            ConvergenceWarning,
        )


def warn_of_degrees(names: Any, metric: str, epsilon: float) -> None:
    """Warn where ε would be counted in degrees, of which one is a kilometre here and a hundred there."""
    latitudes, longitudes = ([], []) if names is None else degree_columns(names)
    if latitudes and longitudes:
        found = ", ".join(repr(str(names[j])) for j in sorted({*latitudes, *longitudes}))
        warn_caller(
            f"columns {found} look like degrees, and metric={metric!r} counts epsilon = {epsilon:g} per unit of the "
            "columns, which is no distance between places. For two columns in degrees use metric='haversine' (epsilon "
            "per kilometre of great circle); if these are kilometres already, call the columns something else, say x "
            "and y.",
            DegreesWarning,
        )
