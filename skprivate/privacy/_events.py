"""Events and draws: what one draw costs, and how draws are watched.

Every event states what is known of its mechanism: a pure-DP cost, a zCDP cost and the total-variation distance
between the mechanism as drawn and the mechanism as accounted for. The accountant chooses which of them is used
(`skprivate.privacy.accounting._composition`).

While a tape runs, releases are marked as not valid for release: the tape sees private statistics.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Total variation between one discrete Gaussian with σ ≥ 2³² and the continuous one rounded to integers.
#: The ratio of the two probabilities at k lies in [1 − 1/(8σ²), exp(k²/(24σ⁴))] (sinh(x)/x ≥ 1 and ≤ exp(x²/6)),
#: hence the distance is below 1/(8σ²) ≤ 2⁻⁶⁷; doubled for the normaliser.
GAUSSIAN_LATTICE_TV = 2.0**-66
#: Float64 has fewer digits below about 2⁻¹⁰²².
_LEAST_EXACT = 2.0**-1000
#: Its method ``draw(draw, sample)`` returns the result of a draw: that of ``sample()``, or another one.
Tape = Any
_RUNNING: ContextVar[Tape | None] = ContextVar("skprivate_tape", default=None)
#: A multiset of events as callers may write it.
Events: TypeAlias = "Mapping[PrivacyEvent, int] | Iterable[tuple[PrivacyEvent, int]]"


@dataclass(frozen=True)
class PrivacyEvent:
    """One draw as the accountant sees it."""

    @property
    def pure_epsilon(self) -> float:
        """The ε of the draw under pure differential privacy (``inf`` if it has none)."""
        return math.inf

    @property
    def rho(self) -> float:
        """The ρ of the draw under zero-concentrated differential privacy."""
        return _above_underflow(0.5 * self.pure_epsilon * self.pure_epsilon)

    @property
    def total_variation(self) -> float:
        """Distance between the draw and the mechanism whose hockey-stick profile costs it."""
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        return {"event": type(self).__name__, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> PrivacyEvent:
        """Inverse of `to_dict`, for the events of this module; a count beside them is passed over."""
        kinds = (ApproximateEvent, BoundedRangeEvent, GaussianEvent, LaplaceEvent, PureEvent, ZeroConcentratedEvent)
        named: dict[str, type[PrivacyEvent]] = {kind.__name__: kind for kind in kinds}
        kind = named.get(plain.get("event", ""))
        if kind is None:
            raise ValueError(f"event must be one of {', '.join(named)}, got {plain.get('event')!r}.")
        return kind(**{name: value for name, value in plain.items() if name not in ("event", "count")})


def _positive(event: PrivacyEvent, name: str) -> None:
    """Check a field, and keep a number of NumPy as one of Python, which JSON knows."""
    value = getattr(event, name)
    if isinstance(value, np.generic):
        value = value.item()
        object.__setattr__(event, name, value)
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name.rstrip('_')} must be a positive finite number, got {value!r}.")


def _above_underflow(rho: float) -> float:
    """Round up a cost whose digits, or all of it, are lost to underflow."""
    return math.nextafter(rho, math.inf) if rho < _LEAST_EXACT else rho


@dataclass(frozen=True)
class _OfEpsilon(PrivacyEvent):
    epsilon: float

    def __post_init__(self) -> None:
        _positive(self, "epsilon")

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class LaplaceEvent(_OfEpsilon):
    """Laplace noise of scale (sensitivity / epsilon) on one number.

    See Also
    --------
    PureEvent : Any mechanism of the same ε.
    compose_epsilon : Composes events.
    """


@dataclass(frozen=True)
class PureEvent(_OfEpsilon):
    """Any ε-DP mechanism; composed as if it were randomised response, which dominates them all.

    Laplace noise on a vector is accounted so. Whether the scalar Laplace pair dominates it in composition is not used.
    """

    mechanism: str = "pure"


@dataclass(frozen=True)
class BoundedRangeEvent(_OfEpsilon):
    """Selection by the exponential mechanism: all privacy losses are in an interval of length ``epsilon``.

    Its hockey-stick divergence is at most ``(1 − exp((t−ε)/2))² / (1 − exp(−ε))`` for ``|t| ≤ ε``, which is attained by
    the logistic distribution shifted by ε (derived in docs/design.md); in zCDP it costs ε²/8.
    """

    @property
    def rho(self) -> float:
        return _above_underflow(self.epsilon * self.epsilon / 8)


@dataclass(frozen=True)
class GaussianEvent(PrivacyEvent):
    """Gaussian noise of standard deviation ``noise_multiplier`` × (ℓ2 sensitivity) on ``size`` numbers.

    See Also
    --------
    gaussian_noise_multiplier : Finds the noise for a budget.
    compose_epsilon : Composes events.
    """

    noise_multiplier: float
    size: int = 1

    def __post_init__(self) -> None:
        _positive(self, "noise_multiplier")
        _positive(self, "size")
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size!r}.")

    @property
    def rho(self) -> float:
        return _above_underflow(0.5 / self.noise_multiplier / self.noise_multiplier)

    @property
    def total_variation(self) -> float:
        return self.size * GAUSSIAN_LATTICE_TV


@dataclass(frozen=True)
class ZeroConcentratedEvent(PrivacyEvent):
    """Any ρ-zCDP mechanism, among them the discrete Gaussian on integers."""

    rho_: float
    mechanism: str = "zCDP"

    def __post_init__(self) -> None:
        _positive(self, "rho_")

    @property
    def rho(self) -> float:
        return self.rho_


@dataclass(frozen=True)
class ApproximateEvent(PrivacyEvent):
    """Any (ε, δ)-DP mechanism; composed as the pair that dominates them all.

    With probability δ it reveals everything, else the answer is randomised response of ε. With δ > 0 it has no cost as
    a pure event, none in zCDP, and none in `filter_epsilon`: plan it. A δ of 0 makes it a pure event.
    """

    epsilon: float
    delta: float
    mechanism: str = "approximate"

    def __post_init__(self) -> None:
        if not (isinstance(self.delta, (int, float)) and 0 <= self.delta < 1):
            raise ValueError(f"delta must be a number in [0, 1), got {self.delta!r}.")
        if self.delta == 0 or self.epsilon != 0:
            _positive(self, "epsilon")

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon if self.delta == 0 else math.inf


def count_events(events: Events) -> dict[PrivacyEvent, int]:
    """Merge pairs (event, count) into one mapping; refuse what is not an event or a positive count."""
    pairs = events.items() if isinstance(events, Mapping) else events
    counts: dict[PrivacyEvent, int] = {}
    for event, count in pairs:
        if not isinstance(event, PrivacyEvent):
            raise TypeError(f"every event must be a PrivacyEvent, got {type(event).__name__}.")
        if not (isinstance(count, int) and count >= 1):
            raise ValueError(f"the count of an event must be a positive int, got {count!r}.")
        counts[event] = counts.get(event, 0) + count
    return counts


def plain_events(events: Iterable[tuple[PrivacyEvent, int]]) -> list[dict[str, Any]]:
    """Convert events and their counts to plain data, for JSON."""
    return [{**event.to_dict(), "count": count} for event, count in events]


def events_of_plain(plain: Iterable[Mapping[str, Any]]) -> list[tuple[PrivacyEvent, int]]:
    """Inverse of `plain_events`."""
    return [(PrivacyEvent.from_dict(event), event["count"]) for event in plain]


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw, before its noise: ``kind`` is the method of `Release` that draws, or "repetitions" of a private search.

    ``statistic`` is private: integers in lattice steps where ``step`` is not None, otherwise float64. Between
    neighbours it changes by ``sensitivity`` at most, in its own units, in ``norm``: "l1", "l2", "linf" (of all
    coordinates together, or of each score), "flow" (the ℓ1 norm of the least flow along the edges of the grid), "parts"
    (the sum over ``options["parts"]``, numbers of candidates, of the largest change of a score), or "unit" where row i
    belongs to unit i alone. ``options`` are all else that is public and decides the law of the draw. ``categories``
    draws the category of a located candidate alone, one for each part, so that its law can be tested. ``keys`` name the
    rows of the statistic where these are private, too.
    """

    kind: str
    statistic: NDArray[Any]
    sensitivity: Any
    norm: str
    events: dict[PrivacyEvent, int]
    step: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    categories: Callable[[], list[int]] | None = None
    keys: tuple[Any, ...] | None = None


def running_tape() -> Tape | None:
    """Return the tape that watches releases opened now, if any."""
    return _RUNNING.get()


@contextmanager
def run_tape(tape: Tape) -> Iterator[None]:
    """Let ``tape`` see all draws of releases that are opened inside, in this thread."""
    token = _RUNNING.set(tape)
    try:
        yield
    finally:
        _RUNNING.reset(token)
