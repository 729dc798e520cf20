"""What a guarantee says, and what it does not say, in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skprivate._html import rounded_down, small
from skprivate._messages import rounded_up
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy._risk import _percent as percent

__all__ = [
    "QUESTIONS",
    "change_in_words",
    "draw_in_words",
    "event_in_words",
    "example_of",
    "not_protected",
    "percent",
    "strength_in_words",
]

_UNITS = {
    PrivacyUnit.ROW: "one row of the data",
    PrivacyUnit.PRIVATE_ROW: "one private row of the data",
    PrivacyUnit.USER: "everything that one user contributed, all rows together",
    PrivacyUnit.LABEL: "the label of one row",
    PrivacyUnit.DATASET: "the data set as a whole",
}
_CHANGES = {
    (PrivacyUnit.ROW, Adjacency.REPLACE_ONE): "one row is exchanged for any other row",
    (PrivacyUnit.ROW, Adjacency.ADD_REMOVE): "one row is added or taken away",
    (
        PrivacyUnit.PRIVATE_ROW,
        Adjacency.REPLACE_ONE,
    ): "one private row is exchanged for any other private row",
    (PrivacyUnit.PRIVATE_ROW, Adjacency.ADD_REMOVE): "one private row is added or taken away",
    (
        PrivacyUnit.USER,
        Adjacency.REPLACE_ONE,
    ): "all rows of one user are exchanged for those of any other user",
    (PrivacyUnit.USER, Adjacency.ADD_REMOVE): "all rows of one user are added or taken away",
    (PrivacyUnit.LABEL, Adjacency.REPLACE_ONE): "the label of one row is exchanged for any other label",
    (PrivacyUnit.LABEL, Adjacency.ADD_REMOVE): "one label is added or taken away",
}
_DATA = {
    PrivacyUnit.ROW: "row",
    PrivacyUnit.PRIVATE_ROW: "private row",
    PrivacyUnit.USER: "rows, all of them,",
    PrivacyUnit.LABEL: "label",
    PrivacyUnit.DATASET: "data",
}

#: What only whoever publishes can answer, in the order in which a reviewer asks.
QUESTIONS: Mapping[str, str] = {
    "purpose": "What is the release for, and who will use it?",
    "tuning": "How were ε, δ and the settings chosen, and did anybody look at private data for that?",
    "utility": "How good is the result, and on which data was that measured?",
    "bias": "For whom is it worse? Noise hides small groups first.",
    "trust": "Who sees the data before the noise is added, and why may they be trusted?",
    "security": "How are the data, the running program and the ledger kept from everybody else?",
    "collection": "How were the data collected, for which purpose, and when will they be deleted?",
    "contact": "Who answers for this release?",
}


def change_in_words(guarantee: PrivacyGuarantee) -> tuple[str, str]:
    """What is protected, and how neighbouring inputs differ."""
    what = _UNITS[guarantee.unit]
    if guarantee.adjacency is Adjacency.METRIC:
        noun = "the data set" if guarantee.unit is PrivacyUnit.DATASET else "one row"
        return what, (
            f"{noun} is exchanged for another one; ε counts for each unit of the distance between the two "
            f"({guarantee.metric})"
        )
    default = f"one {guarantee.unit} differs ({guarantee.adjacency})"
    return what, _CHANGES.get((guarantee.unit, guarantee.adjacency), default)


def strength_in_words(guarantee: PrivacyGuarantee) -> str:
    """ε and δ as a sentence."""
    if math.isinf(guarantee.epsilon):
        return "Nothing is promised: no noise was drawn, or nobody said how much."
    per = " for each unit of distance" if guarantee.adjacency is Adjacency.METRIC else ""
    factor = (
        f"e^{rounded_up(guarantee.epsilon, 4)} = {rounded_up(math.exp(guarantee.epsilon) * (1 + 2**-50), 3)}"
        if guarantee.epsilon < 700
        else f"e^{rounded_up(guarantee.epsilon, 4)}"
    )
    plus = f", plus {small(guarantee.delta)} at most" if guarantee.delta else ""
    return (
        "Whatever somebody may compute from what is published, each outcome has after such a change at most "
        f"{factor} times the probability that it had before{per}{plus}."
    )


def example_of(guarantee: PrivacyGuarantee, rate: float, largest: float, distance: float | None) -> str:
    """What follows for one person, from the largest probability of an event that else has probability ``rate``."""
    data = _DATA[guarantee.unit]
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
    """Name and price of an event of a guarantee, from its plain values."""
    kind = event.get("event", "")
    if kind == "LaplaceEvent":
        return "Laplace noise on one number", f"ε = {rounded_up(event['epsilon'])}"
    if kind == "PureEvent":
        name = event.get("mechanism", "pure")
        return (
            "a mechanism with pure ε" if name == "pure" else str(name)
        ), f"ε = {rounded_up(event['epsilon'])}"
    if kind == "BoundedRangeEvent":
        return "selection by the exponential mechanism", f"range of losses ε = {rounded_up(event['epsilon'])}"
    if kind == "GaussianEvent":
        size = event.get("size", 1)
        numbers = "one number" if size == 1 else f"{size} numbers"
        return f"Gaussian noise on {numbers}", f"σ = {rounded_down(event['noise_multiplier'])} × sensitivity"
    if kind == "ApproximateEvent":
        name = event.get("mechanism", "approximate")
        price = f"ε = {rounded_up(event['epsilon'])}, δ = {small(event['delta'])}"
        return ("a mechanism with (ε, δ)" if name == "approximate" else str(name)), price
    if kind == "ZeroConcentratedEvent":
        name = event.get("mechanism", "zCDP")
        return (
            "a zero-concentrated mechanism" if name == "zCDP" else str(name)
        ), f"ρ = {rounded_up(event['rho_'])}"
    return str(kind), ""


def draw_in_words(event: Mapping[str, Any]) -> str:
    """An event on one line, with how often it was drawn."""
    name, price = event_in_words(event)
    return f"{event['count']} × {name}" + (f" ({price})" if price else "")


def not_protected(guarantee: PrivacyGuarantee) -> list[str]:
    """What the guarantee does not cover, by its unit and adjacency."""
    unit, adjacency = guarantee.unit, guarantee.adjacency
    said = []
    if unit in (PrivacyUnit.ROW, PrivacyUnit.PRIVATE_ROW):
        said.append(
            "People with several rows: for k rows of one person the bound is kε, with a larger δ, and not ε. Where "
            "people have several rows, a guarantee for users is needed."
        )
    if unit is PrivacyUnit.PRIVATE_ROW:
        said.append("All rows that are not private: they may stand in the release as they are.")
    if unit is PrivacyUnit.LABEL:
        said.append(
            "Everything in a row but its label: the features, and that the row is there at all, are taken for public "
            "and may be read off the release."
        )
        said.append(
            "People with several labels: for k labels of one person the bound is kε, with a larger δ, and not ε."
        )
    if unit is PrivacyUnit.USER:
        said.append(
            "Groups: for what k users have in common, a household perhaps, the bound is kε, with a larger δ. One "
            "person under several identifiers counts as several users."
        )
    if unit is PrivacyUnit.DATASET:
        said.append("Differences between data sets that are far from each other: ε grows with the distance.")
    elif adjacency is Adjacency.METRIC:
        said.append(
            "Values that are far from each other: ε grows with the distance, so that the rough place of a value is "
            "published on purpose."
        )
    if adjacency is not Adjacency.ADD_REMOVE and unit not in (PrivacyUnit.LABEL, PrivacyUnit.DATASET):
        several = {PrivacyUnit.USER: "users", PrivacyUnit.PRIVATE_ROW: "private rows"}.get(unit, "rows")
        said.append(
            f"The number of {several}: it may be published as it is, and tells whoever knows all the others that there "
            "is one more of them, though not whose or what it says."
        )
    if guarantee.delta > 0:
        said.append(
            f"The bound itself, with probability δ = {small(guarantee.delta)}: keep δ far below one over the "
            "number of those who are protected."
        )
    return [
        *said,
        "What is true of people in general: if the release shows that a habit goes with an illness, it shows so for "
        "people who never took part.",
        "Whatever was computed from the same data without noise, or outside the total above: scores, counts, plots, "
        "names of columns and choices that somebody made after looking at the data.",
        "The data themselves, the memory and the running time of the program that read them, its logs and backups.",
    ]
