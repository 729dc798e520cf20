"""What a fit inside a search draws, and a ledger that admits that and nothing else."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from skprivate.privacy import Adjacency, PrivacyEvent, PrivacyLedger, PrivacyUnit
from skprivate.privacy._events import count_events


@dataclass(frozen=True)
class FitPrice:
    """What one fit draws.

    Parameters
    ----------
    releases : tuple
        Label, unit, adjacency and events (as pairs of text and count) of each release, sorted.
    events : dict of PrivacyEvent to int
        Of all releases together.
    epsilon, delta : float
        Sums of the releases' prices.
    unit : PrivacyUnit
    adjacency : Adjacency
    counts : tuple of int
        How many releases each private step makes.
    """

    releases: tuple[Any, ...]
    events: dict[PrivacyEvent, int]
    epsilon: float
    delta: float
    unit: PrivacyUnit
    adjacency: Adjacency
    counts: tuple[int, ...]


class ContainedLedger(PrivacyLedger):
    """A ledger that admits the releases of a trial, each once, and nothing else.

    Its other handles do not see each other count: `fit_contained` compares all entries.
    """

    _left: Counter[Any]

    def admit(self, price: FitPrice) -> None:
        """Admit what was priced."""
        self._left = Counter(price.releases)

    def charge(self, label: str, **terms: Any) -> int:
        release = release_of(label, terms["unit"], terms["adjacency"], terms["events"])
        if terms.get("adaptive") or self._left[release] < 1:
            raise _not_as_in_the_trial(label)
        self._left[release] -= 1
        return super().charge(label, **terms)

    def increase(self, entry: int, **terms: Any) -> None:
        raise _not_as_in_the_trial("A release")


def _not_as_in_the_trial(label: str) -> RuntimeError:
    return RuntimeError(
        f"{label} would draw something else than in its trial, which a search cannot price: what it draws depends on "
        "the data, on chance, or on what a step before it released. Nothing was drawn for it."
    )


def release_of(label: str, unit: Any, adjacency: Any, events: Any) -> tuple[Any, ...]:
    """A release as trial and fit are compared by."""
    counts = Counter[str]()
    for event in events:
        plain = {name: value for name, value in event.items() if name != "count"}
        counts[repr(sorted(plain.items()))] += event["count"]
    return label, str(unit), str(adjacency), tuple(sorted(counts.items()))


def fit_price(
    paid: list[tuple[str, Any, Any, Any]], prices: list[tuple[float, float]], counts: tuple[int, ...]
) -> FitPrice:
    """The price of a fit: from its releases (label, unit, adjacency, events), the (ε, δ) of each, and how many a step
    makes.
    """
    relations = sorted({(str(unit), str(adjacency)) for _, unit, adjacency, _ in paid})
    if len(relations) != 1:
        found = " and ".join(f"one {unit} ({adjacency})" for unit, adjacency in relations)
        raise ValueError(f"estimator must protect one unit under one adjacency, got {found or 'none'}.")
    unit, adjacency = relations[0]
    if adjacency not in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE):
        raise ValueError(
            f"estimator must have adjacency 'replace-one' or 'add-remove', got {adjacency!r}: a score has no price per "
            "unit of distance."
        )
    events = count_events(
        (PrivacyEvent.from_dict({name: event[name] for name in event if name != "count"}), event["count"])
        for *_, plain in paid
        for event in plain
    )
    return FitPrice(
        releases=tuple(sorted(release_of(*terms) for terms in paid)),
        events=events,
        epsilon=math.fsum(epsilon for epsilon, _ in prices),
        delta=math.fsum(delta for _, delta in prices),
        unit=PrivacyUnit(unit),
        adjacency=Adjacency(adjacency),
        counts=counts,
    )
