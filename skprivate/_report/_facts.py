"""The facts of a report as plain data, from a guarantee and an audit. No private value is looked at."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from numbers import Real
from typing import Any

import numpy as np

from skprivate import __version__
from skprivate._html import small
from skprivate._messages import must_be, number
from skprivate._report._words import (
    change_in_words,
    example_of,
    not_protected,
    percent,
    strength_in_words,
)
from skprivate.privacy import Adjacency, PrivacyGuarantee
from skprivate.privacy._guarantee import TO_THE_LAST_BIT

__all__ = ["LEVELS", "finding", "guarantee_facts", "guarantee_findings", "versions"]

#: False positive rates of the table, prior beliefs of its last columns, and the points of the curve.
RATES, PRIORS = (0.001, 0.01, 0.1), (0.1, 0.5)
CURVE = tuple(
    round(float(rate), 12)
    for rate in np.unique(np.concatenate([[0.0], np.geomspace(1e-4, 0.1, 22), np.linspace(0.1, 1.0, 37)]))
)


#: From where on a reviewer is asked to look at a bound: a pure ε of 4.5, or one of a thousand units given away.
WEAK_TPR, WEAK_DELTA = 0.9, 1e-3
#: Of findings, the worst first.
LEVELS = ("stop", "caution", "note")


def finding(level: str, text: str) -> dict[str, str]:
    """Something that a reviewer has to see first; the level is "stop", "caution" or "note"."""
    return {"level": level, "text": text}


def guarantee_findings(guarantee: PrivacyGuarantee) -> list[dict[str, str]]:
    """What is wrong with a guarantee at first sight."""
    found = []
    if not guarantee.valid_for_release:
        found.append(
            finding(
                "stop",
                "Simulated noise: it came from a seed or was played back, so that anybody can reproduce and subtract "
                "it. The numbers below say what the same release would promise with secure noise.",
            )
        )
    if math.isinf(guarantee.epsilon):
        found.append(finding("stop", "No privacy is promised."))
    else:
        found += _weak(guarantee)
    if any(TO_THE_LAST_BIT in text for text in guarantee.assumptions):
        found.append(
            finding(
                "caution",
                "Rows pass code that is only assumed to treat each of them by itself, to the last bit. What iterates "
                "over all rows or multiplies matrices does not; RowByRow makes sure of it.",
            )
        )
    if guarantee.stated:
        found.append(
            finding(
                "caution",
                "The guarantee was stated by whoever supplied the data. It was not computed from what was drawn, and "
                "nothing here has checked it.",
            )
        )
    return found


def _weak(guarantee: PrivacyGuarantee) -> list[dict[str, str]]:
    """A bound that bounds little is true, and no reason to sign."""
    found = []
    if guarantee.adjacency is not Adjacency.METRIC:
        recognised = guarantee.risk(fpr=0.01).tpr
        if recognised >= WEAK_TPR:
            text = f"an attack that accuses 1 % falsely may recognise {percent(recognised)}"
            found.append(finding("caution", f"The bound is weak: {text}."))
    if guarantee.delta >= WEAK_DELTA:
        found.append(
            finding(
                "caution",
                f"δ = {small(guarantee.delta)} is large: with that probability everything may be given away. It should "
                "be far below one over the number of those who are protected.",
            )
        )
    return found


def guarantee_facts(guarantee: PrivacyGuarantee, distances: Sequence[float] | None = None) -> dict[str, Any]:
    """Sections of a report that follow from a guarantee."""
    metric = guarantee.adjacency is Adjacency.METRIC
    if distances is not None and not metric:
        allowed = "None where ε is not per unit of distance"
        raise ValueError(must_be("distances", allowed, distances))
    places: Sequence[float | None] = _distances(guarantee, distances) if metric else (None,)
    what, change = change_in_words(guarantee)
    at = places[len(places) // 2]
    largest = float(guarantee.trade_off([0.01], distance=at)[0])
    return {
        "protection": {
            "unit": str(guarantee.unit),
            "adjacency": str(guarantee.adjacency),
            "metric": guarantee.metric,
            "what": what,
            "change": change,
            "example": example_of(guarantee, 0.01, largest, at),
        },
        "strength": {
            "definition": "metric" if metric else "approximate" if guarantee.delta else "pure",
            "epsilon": None if math.isinf(guarantee.epsilon) else float(guarantee.epsilon),
            "delta": float(guarantee.delta),
            "in_words": strength_in_words(guarantee),
            "risk_from": "events"
            if guarantee.events and not guarantee.adaptive and not metric
            else "epsilon and delta",
            "risk": [_risk(guarantee, rate, distance) for distance in places for rate in RATES],
            "trade_off": [
                {
                    "distance": distance,
                    "fpr": list(CURVE),
                    "tpr": [float(rate) for rate in guarantee.trade_off(CURVE, distance=distance)],
                }
                for distance in places
            ],
        },
        "assumptions": list(guarantee.assumptions),
        "mechanisms": {
            "events": [{**event.to_dict(), "count": count} for event, count in guarantee.events],
            "adaptive": guarantee.adaptive,
            "theorem": guarantee.theorem,
            "noise": "stated"
            if guarantee.stated
            else "secure"
            if guarantee.valid_for_release
            else "simulated",
            "ledger_entry": guarantee.ledger_entry,
        },
        "not_protected": not_protected(guarantee),
    }


def _distances(guarantee: PrivacyGuarantee, given: Sequence[float] | None) -> Sequence[float]:
    if given is not None:
        if isinstance(given, str | Real) or not list(given):
            raise TypeError(must_be("distances", "a sequence of numbers, at least one", given))
        return sorted(number("distances", each, "a finite number >= 0", lambda at: at >= 0) for each in given)
    if not 0 < guarantee.epsilon < math.inf:
        return (1.0,)
    # Where ε times the distance is about ½, 1 and 2: two inputs so close are hard, or not so hard, to tell apart.
    return [float(f"{strength / guarantee.epsilon:.2g}") for strength in (0.5, 1.0, 2.0)]


def _risk(guarantee: PrivacyGuarantee, rate: float, distance: float | None) -> dict[str, Any]:
    even = guarantee.risk(prior=0.5, fpr=rate, distance=distance)
    return {
        "distance": distance,
        "fpr": rate,
        "tpr": even.tpr,
        "advantage": even.advantage,
        "posterior": [
            {"prior": prior, "at_most": guarantee.risk(prior, rate, distance=distance).posterior}
            for prior in PRIORS
        ],
    }


def versions() -> Mapping[str, str]:
    """What computed the report."""
    found = {"python": platform.python_version(), "skprivate": __version__}
    return found | {name: version(name) for name in ("scikit-learn", "numpy", "scipy")}
