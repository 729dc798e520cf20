"""What a fit inside a search draws, and a ledger that admits that and nothing else.

How many numbers a Gaussian draw noises, its ``size``, may differ from the trial's: what one step released may decide
how many columns the next one sees. The pair that dominates the draw has no size in it; what size adds is δ for the
rounding of the noise to a lattice (`GaussianEvent.total_variation`), in proportion to it. So a draw is priced at a size
with room, and a smaller one costs no more. Everything else about an event must be as in the trial.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skprivate.privacy import (
    Adjacency,
    GaussianEvent,
    PrivacyEvent,
    PrivacyLedger,
    PrivacyUnit,
)
from skprivate.privacy._events import count_events

#: Numbers of a draw that are paid for where columns are released. Such a draw takes 2⁻⁵⁴·(1 + e^ε) of δ.
_LEAST_SIZE = 2**12
#: Held while a fit counts a release: a composite may fit its members in threads.
_COUNTING = threading.Lock()


@dataclass(frozen=True)
class FitPrice:
    """What one fit draws.

    Parameters
    ----------
    releases : tuple
        Label, unit, adjacency and events (as pairs of text and count) of each release, sorted, with room.
    events : dict of PrivacyEvent to int
        Of all releases together, with room.
    size : int
        The room: numbers that one draw may noise.
    epsilon, delta : float
        Sums of the releases' prices.
    unit : PrivacyUnit
    adjacency : Adjacency
    counts : tuple of int
        How many releases each private step makes.
    """

    releases: tuple[Any, ...]
    events: dict[PrivacyEvent, int]
    size: int
    epsilon: float
    delta: float
    unit: PrivacyUnit
    adjacency: Adjacency
    counts: tuple[int, ...]


class ContainedLedger(PrivacyLedger):
    """A ledger that admits the releases of a trial, each once, and nothing else.

    Handles in other processes, and those with notes, do not see each other count: `fit_contained` compares all entries.
    """

    _left: Counter[Any]
    _size: int

    def admit(self, price: FitPrice) -> None:
        """Admit what was priced."""
        self._left, self._size = Counter(price.releases), price.size

    def charge(self, label: str, **terms: Any) -> int:
        release = release_of(label, terms["unit"], terms["adjacency"], terms["events"], self._size)
        with _COUNTING:
            if terms.get("adaptive") or self._left[release] < 1:
                raise _not_as_in_the_trial(label)
            self._left[release] -= 1
        return super().charge(label, **terms)

    def increase(self, entry: int, **terms: Any) -> None:
        raise _not_as_in_the_trial("A release")

    def __reduce__(self) -> tuple[Any, ...]:
        _, place = super().__reduce__()
        return _again, (place, self._left, self._size)


def _again(place: tuple[Any, ...], left: Counter[Any], size: int) -> ContainedLedger:
    ledger = ContainedLedger.__new__(ContainedLedger)
    ledger._bind(*place)
    ledger._left, ledger._size = left, size
    return ledger


def _not_as_in_the_trial(label: str) -> RuntimeError:
    return RuntimeError(
        f"{label} would draw something else than in its trial, which a search cannot price: what it draws depends on "
        "the data, on chance, or on what a step before it released. A step may release how many columns the next one "
        "sees, as long as the next one's draws and their noise stay the same. Nothing was drawn for it."
    )


def release_of(label: str, unit: Any, adjacency: Any, events: Any, size: int) -> tuple[Any, ...]:
    """A release as trial and fit are compared by: Gaussian draws of at most ``size`` numbers are alike."""
    counts = Counter[str]()
    for event in events:
        counts[repr(sorted(_with_room(event, size).items()))] += event["count"]
    return label, str(unit), str(adjacency), tuple(sorted(counts.items()))


def _with_room(event: Mapping[str, Any], size: int) -> dict[str, Any]:
    """An event without its count; a Gaussian one that noises at most ``size`` numbers is priced as one of so many."""
    plain = {name: value for name, value in event.items() if name != "count"}
    if plain["event"] == GaussianEvent.__name__ and plain["size"] < size:
        plain["size"] = size
    return plain


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
    size = max((event.get("size", 1) for *_, events in paid for event in events), default=1)
    if len(counts) > 1:
        # The trial's own size hangs on the data: what is paid for must not, but in doublings of very many columns.
        size = max(_LEAST_SIZE, 1 << (2 * size - 1).bit_length())
    events = count_events(
        (PrivacyEvent.from_dict(_with_room(event, size)), event["count"])
        for *_, plain in paid
        for event in plain
    )
    return FitPrice(
        releases=tuple(sorted(release_of(*terms, size) for terms in paid)),
        events=events,
        size=size,
        epsilon=math.fsum(epsilon for epsilon, _ in prices),
        delta=math.fsum(delta for _, delta in prices),
        unit=PrivacyUnit(unit),
        adjacency=Adjacency(adjacency),
        counts=counts,
    )
