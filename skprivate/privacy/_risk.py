"""Meaning of ε: what the best attacker can know of one unit, from the curve δ(ε) of what was drawn.

An attacker looks at a release and says whether a unit's data were in it. By definition of δ(ε), for every ε ≥ 0 and
every test with true and false positive rates t and f,

    t ≤ e^ε f + δ(ε)    and    t ≤ 1 − e^{−ε}(1 − δ(ε) − f),

the second with the roles of the two inputs exchanged. Each single ε gives a valid bound, so a search that is not quite
at the best one costs tightness only. With e^ε as the variable the first is convex and the second quasi-convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from skprivate.privacy import _events
from skprivate.privacy._contributions import FloatArray
from skprivate.privacy.accounting import _composition

Curve = Callable[[float], float]

_ULP = 2.0**-50
#: Beyond this ε a bound is that of δ alone.
_LARGEST = 700.0


@dataclass(frozen=True)
class PrivacyRisk:
    """Upper bounds on what the best attacker can know of one unit, whatever the attacker knows beside.

    Where a unit that took no part is accused with probability ``fpr``, one that did is recognised with probability
    ``tpr``, and an accusation is true with probability ``posterior``. ``advantage`` is the largest difference between
    the two rates, at any threshold. A guess that is right with probability ``prior`` or 1 − ``prior`` before the
    release is right with probability ``best_guess`` after it.
    """

    fpr: float
    tpr: float
    advantage: float
    prior: float
    best_guess: float
    posterior: float

    def __str__(self) -> str:
        certain = max(self.prior, 1 - self.prior)
        return (
            f"Of those who took part at most {_percent(self.tpr)} are recognised where {_percent(self.fpr)} of the "
            f"others are accused falsely; such an\naccusation is true with probability {_percent(self.posterior)} at "
            f"most. A guess that is right with probability {_percent(certain)} becomes right with\nprobability "
            f"{_percent(self.best_guess)} at most. No test is right more often about the ones than wrong about the "
            f"others by more than\n{_percent(self.advantage)[:-2]} percentage points."
        )


def risk_of(curves: Curves, prior: float, fpr: float) -> PrivacyRisk:
    """Compute the result of `PrivacyGuarantee.risk`."""
    for name, value in (("prior", prior), ("fpr", fpr)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must be a number between 0 and 1, both excluded, got {value!r}.")
    curve = curves.exact
    tpr = _largest_tpr(curves, fpr)
    less, more = sorted((prior, 1 - prior))
    # p·t + (1 − p)(1 − f) = (1 − p) + p·(t − e^ε f) with e^ε = (1 − p)/p.
    guess = min(more + less * curve(_down(math.log(more / less))), 1.0) * (1 + _ULP)
    hit, wrong = prior * tpr, (1 - prior) * fpr
    return PrivacyRisk(
        fpr=fpr,
        tpr=tpr,
        advantage=min(curve(0.0), 1.0),
        prior=prior,
        best_guess=min(max(guess, more), 1.0),
        posterior=min(hit / (hit + wrong) * (1 + _ULP), 1.0),
    )


def trade_off_of(curves: Curves, fpr: ArrayLike) -> FloatArray:
    """Compute the result of `PrivacyGuarantee.trade_off`."""
    rates = np.asarray(fpr, dtype=np.float64)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError("fpr must be numbers in [0, 1].")
    return np.array([_largest_tpr(curves, float(rate)) for rate in rates.ravel()]).reshape(rates.shape)


def epsilon_of_risk(*, tpr: float, fpr: float, delta: float = 0.0) -> float:
    """Find the ε of a budget under which no attack recognises more than ``tpr`` at a false positive rate of ``fpr``.

    Parameters
    ----------
    tpr : float in (0, 1)
        How many of those who took part may be recognised, at most.
    fpr : float in (0, tpr)
        Where this share of the others is accused falsely.
    delta : float in [0, 1), default=0.0
        δ of the budget.

    Returns
    -------
    float
        The largest ε for which *every* (ε, δ)-differentially private mechanism keeps to these rates. Actual draws often
        keep to much better ones: see `PrivacyGuarantee.risk`.

    Raises
    ------
    ValueError
        If a rate is out of range, or no ε > 0 keeps to them at this δ.

    See Also
    --------
    GuaranteeDisplay : Plots the risk of a guarantee.
    compose_epsilon : Computes ε from events.

    Examples
    --------
    >>> from skprivate.privacy import epsilon_of_risk
    >>> round(epsilon_of_risk(tpr=0.05, fpr=0.01), 4)
    1.6094
    """
    if not (0 < fpr < tpr < 1):
        raise ValueError(f"tpr and fpr must keep 0 < fpr < tpr < 1, got tpr={tpr!r} and fpr={fpr!r}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")
    # Either of the two bounds is enough.
    ratios = ((tpr - delta) / fpr, (1 - delta - fpr) / (1 - tpr))
    epsilon = _down(math.log(max(ratios))) if max(ratios) > 0 else 0.0
    if not epsilon > 0:
        raise ValueError(
            f"delta={delta!r} alone lets an attack recognise {tpr!r} at fpr={fpr!r}; choose a smaller delta."
        )
    return epsilon


class Curves(NamedTuple):
    """δ(ε) for ε ≥ 0, rounded up; a quick bound just above it; the ε beyond which it is constant."""

    exact: Curve
    rough: Curve
    constant_from: float


def at_distance(epsilon: float, distance: float) -> float:
    """Scale an ε per unit of distance to two candidates, rounded up."""
    if not 0 <= distance < math.inf:
        raise ValueError(f"distance must be a finite number >= 0, got {distance!r}.")
    return epsilon * distance * (1 + _ULP)


def privacy_curves(
    epsilon: float, delta: float, events: tuple[tuple[_events.PrivacyEvent, int], ...], *, adaptive: bool
) -> Curves:
    """Make the curve δ(ε) of the events, which is never above that of (ε, δ) alone."""

    def stated(at: float) -> float:
        # The worst (ε, δ)-DP mechanism reveals all with probability δ, else it is randomised response.
        if at >= epsilon:
            return delta
        if math.isinf(epsilon):
            return 1.0
        rest = -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))
        return min((delta + (1 - delta) * rest) * (1 + _ULP), 1.0)

    if adaptive or not events:
        return Curves(stated, stated, epsilon)
    # Beyond Σε of pure events nothing is left but failures; of others, δ is beneath every float somewhere.
    _, unfailing = _composition.split_failures(events)
    pure = _composition.compose_epsilon(unfailing, 0.0)
    end = pure if math.isfinite(pure) else _composition.compose_epsilon(unfailing, 1e-15)

    @cache
    def curve(at: float) -> float:
        return min(stated(at), _composition.compose_delta(events, at))

    def rough(at: float) -> float:
        return min(stated(at), _composition.rough_delta(events, at))

    # Atoms of several ε and no Gaussian: the best ε may lie in a corner of the curve, which must be hit.
    corners = len(events) > 1 and math.isfinite(pure)
    return Curves(curve, curve if corners else rough, end)


def _largest_tpr(curves: Curves, fpr: float) -> float:
    if fpr == 1.0:
        return 1.0
    curve, rough, end = curves.exact, curves.rough, min(curves.constant_from, _LARGEST)

    def bound(epsilon: float, delta: float) -> float:
        return min(
            (math.exp(epsilon) * fpr + delta) * (1 + _ULP),
            1 - math.exp(-epsilon) * (1 - delta - fpr) * (1 - _ULP) + 2.0**-53,
            1.0,
        )

    # Any ε gives a bound: where the best one is, the quick curve tells well enough.
    places = {0.0, end}
    if end > 0:
        # Each of the two is unimodal, not their minimum; a coarse scan finds the better valley.
        grid = np.linspace(0.0, end, 33)
        values = [bound(float(epsilon), rough(float(epsilon))) for epsilon in grid]
        place = int(np.argmin(values))
        ends = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, grid.size - 1)])
        minimum = minimize_scalar(
            lambda epsilon: bound(epsilon, rough(epsilon)), bounds=ends, method="bounded", options={"xatol": 1e-9 * end}
        )
        places |= {float(grid[place]), float(minimum.x)}
    return min(bound(epsilon, curve(epsilon)) for epsilon in sorted(places))


def _down(value: float) -> float:
    return max(value - abs(value) * 2.0**-50 - 2.0**-52, 0.0)


def _percent(rate: float) -> str:
    """Show a rate in three digits, never rounded down."""
    if rate <= 0:
        return "0 %"
    if rate < 1e-12:
        return f"{102 * rate:.2g} %"  # rounding takes half a percent at most
    digits = 2 - math.floor(math.log10(100 * rate))
    scaled = math.ceil(100 * rate * 10.0**digits * (1 - 1e-12)) / 10.0**digits
    return f"{scaled:.{max(digits, 0)}f}".rstrip("0").rstrip(".") + " %" if digits > 0 else f"{scaled:g} %"
