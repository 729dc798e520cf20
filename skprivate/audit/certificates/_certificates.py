"""From audited pairs (T, S) to a lower bound on the loss of every adversary, one function per setting."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from skprivate.audit.certificates import _concentration, _halfspaces, _variation
from skprivate.audit.certificates._barron import fit_barron

Array = npt.NDArray[np.float64]
#: Most boxes of normals that are bounded, also per point, and most points times boxes beyond those. In the plane boxes
#: serve only where there are too many points for an exact bound.
_BOXES, _BOXES_PER_POINT, _WORK, _BOXES_IN_THE_PLANE = 9000, 150, 6e8, 3000
#: Fewest boxes of frequencies, and most points times boxes beyond those.
_FREQUENCIES, _FREQUENCY_WORK = 1000, 2e8
#: A duality gap from which on a caveat is reported.
_LOOSE = 0.02


class StepFunction(NamedTuple):
    """A function of one variable that is constant between ``edges``; ``values`` has one entry more."""

    edges: Array
    values: Array

    def predict(self, points: Array) -> Array:
        return self.values[np.searchsorted(self.edges, points[:, 0], side="right")]


class LookupTable(NamedTuple):
    """One value for each code 0 … d − 1; the last entry is for codes never seen."""

    values: Array

    def predict(self, points: Array) -> Array:
        return self.values[points[:, 0].astype(np.intp)]


class AuditOutcome(NamedTuple):
    """The attack, which predicts real values in the direction of S = 1, roughly in [−1, 1], and its empirical loss.

    ``minimum`` is a lower bound on the smallest empirical loss over the class.
    """

    adversary: Any
    empirical_loss: float
    minimum: float
    n: int
    converted: bool = False  # a squared-loss minimum that stands for a log loss
    caveats: tuple[str, ...] = ()


def _step_function(positions: Array, values: Array) -> StepFunction:
    jumps = np.flatnonzero(np.diff(values) != 0.0)
    edges = 0.5 * (positions[jumps] + positions[jumps + 1])
    return StepFunction(edges, np.append(values[jumps], values[-1]))


def _certify_scalar(t: Array, s: Array, *, assumption: str, variation: float, loss: str) -> AuditOutcome:
    """One-dimensional T: isotonic or total-variation-constrained regression, solved to a certified gap."""
    positions, y, w = _variation.group_ties(t, s)
    within = float(1.0 - w @ (y * y))  # part of the squared loss that no function of t can remove
    if assumption == "monotone":
        fits = [isotonic_regression(y, weights=w, increasing=rising).x for rising in (True, False)]

        # The isotonic mean minimises the log loss over monotone functions as well (every Bregman loss shares it).
        def empirical(f: Array) -> float:
            squared = float(w @ (y - f) ** 2) + within
            return squared if loss == "squared" else max(_variation.log_loss(f, y, w), 0.0)

        best = min(fits, key=empirical)
        value = empirical(best)
        return AuditOutcome(_step_function(positions, best), value, value * (1.0 - 1e-12), t.size)
    if loss == "log":
        fit = _variation.fit_bounded_variation_log(y, w, variation)
        return AuditOutcome(_step_function(positions, fit.values), fit.loss, fit.lower_bound, t.size)
    fit = _variation.fit_bounded_variation(y, w, variation)
    return AuditOutcome(_step_function(positions, fit.values), fit.loss + within, fit.lower_bound + within, t.size)


def certify_representation(
    points: Array,
    s: Array,
    *,
    assumption: str,
    variation: float,
    barron_constant: float | None,
    loss: str,
    rng: np.random.Generator,
) -> AuditOutcome:
    """T in R^q: the certified minimum over the convex class."""
    n, q = points.shape
    if q == 1:
        return _certify_scalar(points[:, 0], s, assumption=assumption, variation=variation, loss=loss)
    fit: Any
    if assumption == "barron":
        boxes = max(min(_BOXES_PER_POINT * n, int(_FREQUENCY_WORK / n)), _FREQUENCIES)
        fit = fit_barron(points, s, float(barron_constant or 0.0), rng, max_boxes=boxes)
    if assumption != "barron" or (q == 2 and fit.loss - fit.lower_bound > _LOOSE):
        boxes = _BOXES_IN_THE_PLANE if q == 2 else max(min(_BOXES_PER_POINT * n, int(_WORK / n)), _BOXES)
        other = _halfspaces.fit_halfspaces(points, s, variation, rng, max_nodes=boxes)  # holds all waves
        if assumption != "barron" or other.lower_bound > fit.lower_bound:
            fit = other
    empirical, gap = fit.loss, fit.loss - fit.lower_bound
    caveats: tuple[str, ...] = ()
    if loss == "log":
        empirical = float(-np.log(0.5 * (1.0 + s * np.clip(fit.values, -0.999, 0.999))).mean())
    if gap > _LOOSE:
        caveats = (
            f"The bound is proven but {gap:.2g} below the attack's loss: the best half-space or wave in {q} dimensions "
            "is hard to find in general, and boxes bound it only so far. Fewer columns give a tighter bound.",
        )
    return AuditOutcome(fit, empirical, fit.lower_bound, n, loss == "log", caveats)


def certify_labels(codes: npt.NDArray[np.intp], s: Array, n_values: int, *, loss: str) -> AuditOutcome:
    """T in a finite alphabet: the mean per value is the exact minimiser of either loss."""
    n = s.size
    counts = np.bincount(codes, minlength=n_values).astype(float)
    means = np.bincount(codes, weights=s, minlength=n_values) / np.maximum(counts, 1.0)
    table = LookupTable(np.append(means, s.mean()))
    if loss == "squared":
        value = float(np.sum(counts * (1.0 - means**2)) / n)
    else:
        p = np.clip((1.0 + means) / 2.0, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.where(p > 0, p * np.log(p), 0.0) - np.where(p < 1, (1 - p) * np.log1p(-p), 0.0)
        value = float(np.sum(counts * entropy) / n)
    return AuditOutcome(table, value, value, n)


def confidence_bound(outcome: AuditOutcome, *, loss: str, confidence: float, concentration: str) -> float:
    """Lower bound on the loss of every adversary with the given confidence."""
    if loss == "squared" or outcome.converted:
        bound = _concentration.squared_loss_lower_bound(outcome.minimum, outcome.n, confidence, concentration)
        return bound * _concentration.LN2 if loss == "log" else bound
    return _concentration.chernoff_entropy_lower_bound(outcome.minimum, outcome.n, confidence)


def _cube(support: Any) -> tuple[float, float]:
    try:
        low, high = (float(edge) for edge in support)
    except (TypeError, ValueError):
        raise ValueError(f"support must be a radius or (low, high); got {support!r}.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"support must be a radius or finite (low, high) with low < high; got {support!r}.")
    return low, high


def support_diameter(support: object, n_features: int) -> float:
    """Diameter of the ball of radius ``support`` or of the cube ``[low, high]^q``."""
    if isinstance(support, Real):
        return 2.0 * float(support)
    low, high = _cube(support)
    return (high - low) * math.sqrt(n_features)


def inside_support(points: Array, support: object) -> npt.NDArray[np.bool_]:
    """Find the rows of ``points`` in the support."""
    if isinstance(support, Real):
        return np.asarray(np.linalg.norm(points, axis=1) <= float(support))
    low, high = _cube(support)
    return np.asarray(((points >= low) & (points <= high)).all(axis=1))
