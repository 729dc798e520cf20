"""Events: the cost of one draw, without its composition.

Every event states what is known of its mechanism: a pure-DP price, a zCDP price and the total-variation distance
between the mechanism as drawn and the mechanism as priced. The accountant chooses which of them is used
(`skprivate.privacy.accounting._composition`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Total variation between one discrete Gaussian with σ ≥ 2³² and the continuous one rounded to integers.
#: The ratio of the two probabilities at k lies in [1 − 1/(8σ²), exp(k²/(24σ⁴))] (sinh(x)/x ≥ 1 and ≤ exp(x²/6)),
#: hence the distance is below 1/(8σ²) ≤ 2⁻⁶⁷; doubled for the normaliser.
GAUSSIAN_LATTICE_TV = 2.0**-66


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
        return 0.5 * self.pure_epsilon * self.pure_epsilon

    @property
    def total_variation(self) -> float:
        """Distance between the draw and the mechanism whose hockey-stick profile prices it."""
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        return {"event": type(self).__name__, **dataclasses.asdict(self)}

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> PrivacyEvent:
        """Inverse of `to_dict`, for the events of this module."""
        kind = _KINDS.get(plain.get("event", ""))
        if kind is None:
            raise ValueError(f"event must be one of {', '.join(_KINDS)}, got {plain.get('event')!r}.")
        return kind(**{name: value for name, value in plain.items() if name != "event"})


def _positive(name: str, value: float) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")


@dataclass(frozen=True)
class LaplaceEvent(PrivacyEvent):
    """Laplace noise of scale (sensitivity / epsilon) on one number."""

    epsilon: float

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class PureEvent(PrivacyEvent):
    """Any ε-DP mechanism; composed as if it were randomised response, which dominates them all.

    Laplace noise on a vector is priced so. Whether the scalar Laplace pair dominates it in composition is not used.
    """

    epsilon: float
    mechanism: str = "pure"

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class BoundedRangeEvent(PrivacyEvent):
    """Selection by the exponential mechanism: all privacy losses are in an interval of length ``epsilon``.

    Its hockey-stick divergence is at most ``(1 − exp((t−ε)/2))² / (1 − exp(−ε))`` for ``|t| ≤ ε``, which is attained by
    the logistic distribution shifted by ε (derived in docs/design.md); in zCDP it costs ε²/8.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon

    @property
    def rho(self) -> float:
        return self.epsilon * self.epsilon / 8


@dataclass(frozen=True)
class GaussianEvent(PrivacyEvent):
    """Gaussian noise of standard deviation ``noise_multiplier`` × (ℓ2 sensitivity) on ``size`` numbers."""

    noise_multiplier: float
    size: int = 1

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        _positive("size", self.size)
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size!r}.")

    @property
    def rho(self) -> float:
        return 0.5 / self.noise_multiplier / self.noise_multiplier

    @property
    def total_variation(self) -> float:
        return self.size * GAUSSIAN_LATTICE_TV


@dataclass(frozen=True)
class ZeroConcentratedEvent(PrivacyEvent):
    """Any ρ-zCDP mechanism, among them the discrete Gaussian on integers."""

    rho_: float
    mechanism: str = "zCDP"

    def __post_init__(self) -> None:
        _positive("rho", self.rho_)

    @property
    def rho(self) -> float:
        return self.rho_


@dataclass(frozen=True)
class ApproximateEvent(PrivacyEvent):
    """Any (ε, δ)-DP mechanism; composed as the pair that dominates them all.

    With probability δ it reveals everything, else the answer is randomised response of ε. With δ > 0 it has no price as
    a pure event, none in zCDP, and none in `filter_epsilon`: plan it. A δ of 0 makes it a pure event.
    """

    epsilon: float
    delta: float
    mechanism: str = "approximate"

    def __post_init__(self) -> None:
        if not (isinstance(self.delta, (int, float)) and 0 <= self.delta < 1):
            raise ValueError(f"delta must be a number in [0, 1), got {self.delta!r}.")
        if self.delta == 0 or self.epsilon != 0:
            _positive("epsilon", self.epsilon)

    @property
    def pure_epsilon(self) -> float:
        return self.epsilon if self.delta == 0 else math.inf


_KINDS: dict[str, type[PrivacyEvent]] = {
    kind.__name__: kind
    for kind in (
        ApproximateEvent,
        BoundedRangeEvent,
        GaussianEvent,
        LaplaceEvent,
        PureEvent,
        ZeroConcentratedEvent,
    )
}

#: A multiset of events as callers may write it.
Events = Mapping[PrivacyEvent, int] | Iterable[tuple[PrivacyEvent, int]]


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
