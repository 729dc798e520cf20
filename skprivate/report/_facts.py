"""Facts of a report as plain data, from a guarantee. No private value is looked at."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from skprivate import __version__
from skprivate._messages import must_be, number, rounded_down, rounded_up, small
from skprivate.privacy import SEARCHED, STEP_ALONE, TO_THE_LAST_BIT, Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy import _percent as percent

#: Questions that only the publisher can answer, in the order of a review.
QUESTIONS: Mapping[str, str] = {
    "purpose": "What is the release for, and who will use it?",
    "promise": "What were people promised, and is that what the unit protects?",
    "tuning": "How were ε, δ and the settings chosen, and did anybody look at private data for that?",
    "utility": "How good is the result, and on which data was that measured?",
    "bias": "For whom is it worse? Noise hides small groups first.",
    "trust": "Who sees the data before the noise is added, and why may they be trusted?",
    "security": "How are the data, the running program and the ledger kept from everybody else?",
    "collection": "How were the data collected, for which purpose, and when will they be deleted?",
    "contact": "Who answers for this release?",
}
#: Names of events, and of those that may name a mechanism the default for it.
_EVENTS = {
    "LaplaceEvent": ("Laplace noise on one number", None),
    "BoundedRangeEvent": ("selection by the exponential mechanism", None),
    "PureEvent": ("a mechanism with pure ε", "pure"),
    "ApproximateEvent": ("a mechanism with (ε, δ)", "approximate"),
    "ZeroConcentratedEvent": ("a zero-concentrated mechanism", "zCDP"),
}
#: False positive rates of the table, prior beliefs of its last columns, and the points of the curve.
RATES, PRIORS = (0.001, 0.01, 0.1), (0.1, 0.5)
CURVE = tuple(
    round(float(rate), 12)
    for rate in np.unique(np.concatenate([[0.0], np.geomspace(1e-4, 0.1, 22), np.linspace(0.1, 1.0, 37)]))
)
#: Bounds that a reviewer has to look at: a pure ε of 4.5, or one of a thousand units given away.
WEAK_TPR, WEAK_DELTA = 0.9, 1e-3
#: The three verdicts. A finding has the one that it forces, or is a note; the worst comes first.
STOP, LOOK, HOLDS = "not for release", "look at this before you sign", "holds"
NOTE = "note"
LEVELS = (STOP, LOOK, NOTE)
#: A level and a text that a reviewer has to see first.
Finding = tuple[str, str]


class _Words(NamedTuple):
    """Words for a unit: what is protected and what is not, whose data, how neighbours differ by either adjacency."""

    protected: str
    data: str
    replaced: str = ""
    added: str = ""
    open: tuple[str, ...] = ()


def _rows(noun: str, *more: str) -> _Words:
    return _Words(
        f"one {noun} of the data",
        noun,
        f"one {noun} is exchanged for any other {noun}",
        f"one {noun} is added or taken away",
        (
            "People with several rows: for k rows of one person the bound is kε, with a larger δ, and not ε. Where "
            "people have several rows, a guarantee for users is needed.",
            *more,
        ),
    )


_UNITS = {
    PrivacyUnit.ROW: _rows("row"),
    PrivacyUnit.PRIVATE_ROW: _rows(
        "private row", "All rows that are not private: they may be in the release as they are."
    ),
    PrivacyUnit.USER: _Words(
        "everything that one user contributed, all rows together",
        "rows, all of them,",
        "all rows of one user are exchanged for those of any other user",
        "all rows of one user are added or taken away",
        (
            "Groups: for what k users have in common, a household perhaps, the bound is kε, with a larger δ. One "
            "person under several identifiers counts as several users.",
        ),
    ),
    PrivacyUnit.LABEL: _Words(
        "the label of one row",
        "label",
        "the label of one row is exchanged for any other label",
        "one label is added or taken away",
        (
            "Everything in a row but its label: the features, and that the row is there at all, are taken for public "
            "and may be read off the release.",
            "People with several labels: for k labels of one person the bound is kε, with a larger δ, and not ε.",
        ),
    ),
    PrivacyUnit.DATASET: _Words(
        "the data set as a whole",
        "data",
        open=("Differences between data sets that are far from each other: ε grows with the distance.",),
    ),
}


def change_in_words(guarantee: PrivacyGuarantee) -> tuple[str, str]:
    """Describe what is protected, and how neighbouring inputs differ."""
    words = _UNITS[guarantee.unit]
    if guarantee.adjacency is Adjacency.METRIC:
        noun = "the data set" if guarantee.unit is PrivacyUnit.DATASET else "one row"
        distance = f"ε counts for each unit of the distance between the two ({guarantee.metric})"
        return words.protected, f"{noun} is exchanged for another one; {distance}"
    change = words.replaced if guarantee.adjacency is Adjacency.REPLACE_ONE else words.added
    return words.protected, change or f"one {guarantee.unit} differs ({guarantee.adjacency})"


def strength_in_words(guarantee: PrivacyGuarantee) -> str:
    """Describe ε and δ in a sentence."""
    if math.isinf(guarantee.epsilon):
        return "Nothing is promised: no noise was drawn, or nobody said how much."
    per = " for each unit of distance" if guarantee.adjacency is Adjacency.METRIC else ""
    factor = f"e^{rounded_up(guarantee.epsilon, 4)}"  # beyond the largest float64
    if guarantee.epsilon < 700:
        factor = rounded_up(math.exp(guarantee.epsilon) * (1 + 2**-50), 3)
    plus = f", plus {small(guarantee.delta)} at most" if guarantee.delta else ""
    return (
        "Whatever somebody may compute from what is published, each outcome has after such a change at most "
        f"{factor} times the probability that it had before{per}{plus}."
    )


def example_of(guarantee: PrivacyGuarantee, rate: float, largest: float, distance: float | None) -> str:
    """Describe what follows for one person: an event of probability ``rate`` has at most ``largest`` instead."""
    data = _UNITS[guarantee.unit].data
    if distance is not None:
        whose = "the data set" if guarantee.unit is PrivacyUnit.DATASET else "Ada's row"
        otherwise = f"had {whose} been another one at a distance of {rounded_down(distance, 3)} or less"
    elif guarantee.adjacency is Adjacency.ADD_REMOVE:
        otherwise = f"had Ada's {data} not been there"
    else:
        otherwise = f"had Ada's {data} said anything else"
    return (
        "Take anything that somebody may do on seeing the release, such as to refuse Ada an insurance. If it would "
        f"happen with probability {percent(rate)} {otherwise}, it happens with probability {percent(largest)} at most."
    )


def event_in_words(event: Mapping[str, Any]) -> tuple[str, str]:
    """Describe the name and the cost of an event, from its plain values."""
    kind = event.get("event", "")
    if kind == "GaussianEvent":
        size = event.get("size", 1)
        name = f"Gaussian noise on {'one number' if size == 1 else f'{size} numbers'}"
        return name, f"σ = {rounded_down(event['noise_multiplier'])} × sensitivity"
    if kind not in _EVENTS:
        return str(kind), ""
    name, default = _EVENTS[kind]
    if default is not None and (mechanism := event.get("mechanism", default)) != default:
        name = str(mechanism)
    if kind == "ZeroConcentratedEvent":
        return name, f"ρ = {rounded_up(event['rho_'])}"
    epsilon = f"ε = {rounded_up(event['epsilon'])}"
    if kind == "ApproximateEvent":
        return name, f"{epsilon}, δ = {small(event['delta'])}"
    return name, f"range of losses {epsilon}" if kind == "BoundedRangeEvent" else epsilon


def not_protected(guarantee: PrivacyGuarantee) -> list[str]:
    """List what the guarantee does not cover, by its unit and adjacency."""
    unit, adjacency = guarantee.unit, guarantee.adjacency
    sentences = list(_UNITS[unit].open)
    if adjacency is Adjacency.METRIC and unit is not PrivacyUnit.DATASET:
        sentences.append(
            "Values that are far from each other: ε grows with the distance, so that the rough place of a value is "
            "published on purpose."
        )
    if adjacency is not Adjacency.ADD_REMOVE and unit not in (PrivacyUnit.LABEL, PrivacyUnit.DATASET):
        several = {PrivacyUnit.USER: "users", PrivacyUnit.PRIVATE_ROW: "private rows"}.get(unit, "rows")
        sentences.append(
            f"The number of {several}: it is public. From it, somebody who knows all the others learns that there is "
            "one more, and nothing about that one."
        )
    if guarantee.delta > 0:
        sentences.append(
            f"The bound itself, with probability δ = {small(guarantee.delta)}: keep δ far below one over the "
            "number of those who are protected."
        )
    return [
        *sentences,
        "What is true of people in general: if the release shows that a habit goes with an illness, it shows so for "
        "people who never took part.",
        "Whatever was computed from the same data without noise, or outside the total above: scores, counts, plots, "
        "names of columns and choices that somebody made after looking at the data.",
        "The data themselves, the memory and the running time of the program that read them, its logs and backups.",
    ]


def guarantee_findings(guarantee: PrivacyGuarantee) -> list[Finding]:
    """List what is wrong with a guarantee at first sight, and a bound that bounds little."""
    stop, look = [], []
    if not guarantee.valid_for_release:
        stop.append(
            "Simulated noise: it came from a seed or was played back, so that anybody can reproduce and subtract it. "
            "The numbers below are what secure noise would give, and hold for nothing here."
        )
    if math.isinf(guarantee.epsilon):
        stop.append("No privacy is promised.")
    elif guarantee.adjacency is not Adjacency.METRIC and (tpr := guarantee.risk(fpr=0.01).tpr) >= WEAK_TPR:
        text = f"an attack that accuses 1 % falsely may recognise {percent(tpr)}"
        look.append(f"The bound is weak: {text}.")
    if guarantee.delta >= WEAK_DELTA and math.isfinite(guarantee.epsilon):
        look.append(
            f"δ = {small(guarantee.delta)} is large: with that probability everything may be given away. It should be "
            "far below one over the number of those who are protected."
        )
    if any(TO_THE_LAST_BIT in text for text in guarantee.assumptions):
        look.append(
            "Rows pass code that is only assumed to treat each of them by itself, to the last bit. What iterates over "
            "all rows or multiplies matrices does not; RowByRow makes sure of it."
        )
    if STEP_ALONE in guarantee.assumptions:
        look.append(
            "This is one part of a pipeline or an ensemble. What the others learned from private rows is not counted "
            "here: report the whole."
        )
    if SEARCHED in guarantee.assumptions:
        look.append(
            "A search among models (of scikit-learn, the program) made this fit: it scored fits without noise. What "
            "those scores tell of private rows, and a choice by them, is in no total here."
        )
    if guarantee.stated:
        look.append(
            "The guarantee was stated by whoever supplied the data. It was not computed from what was drawn, and "
            "nothing here has checked it."
        )
    return [*((STOP, text) for text in stop), *((LOOK, text) for text in look)]


def guarantee_facts(
    guarantee: PrivacyGuarantee, distances: Sequence[float] | None = None, n_units: int | None = None
) -> dict[str, Any]:
    """Make the sections of a report that follow from a guarantee; ``n_units`` where their number is public."""
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
            "n_units": n_units,
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
        "assumptions": [text for text in guarantee.assumptions if text != SEARCHED],  # a finding, by fact
        "mechanisms": {
            "events": [{**event.to_dict(), "count": count} for event, count in guarantee.events],
            "adaptive": guarantee.adaptive,
            "theorem": guarantee.theorem,
            "noise": "stated" if guarantee.stated else "secure" if guarantee.valid_for_release else "simulated",
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
        "best_guess": even.best_guess,
        "advantage": even.advantage,
        "posterior": [
            {"prior": prior, "at_most": guarantee.risk(prior, rate, distance=distance).posterior} for prior in PRIORS
        ],
    }


def versions() -> Mapping[str, str]:
    """Read the versions of what computed the report."""
    found = {"python": platform.python_version(), "skprivate": __version__}
    return found | {name: version(name) for name in ("scikit-learn", "numpy", "scipy")}
