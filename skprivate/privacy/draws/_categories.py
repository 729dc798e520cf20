"""Values of columns that nobody has listed, found by one draw for all columns."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy import _contributions, _events, _guarantee, _identifiers
from skprivate.privacy._mechanism import Mechanism
from skprivate.privacy.accounting._composition import gaussian_noise_multiplier
from skprivate.privacy.draws._counts import count_events_of, count_lattice, count_threshold
from skprivate.privacy.draws._draws import Draws

#: Part of δ that pays for a threshold beside Gaussian noise.
THRESHOLD_PART = 0.1
#: Standard deviations above the threshold at which a value is found with probability .98.
_SURE = 2.0
#: A value and its kind before it, so that 1 and True differ and a column of objects can be sorted.
Entry = tuple[str, Any]
#: After all kinds.
MISSING: Entry = ("~", None)
_KINDS = {bool, int, float, str, bytes, Decimal, datetime.date, datetime.datetime}
_EXACTLY = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)


def entry_of(value: Any) -> Entry:
    """Pair a value with its kind; equal ones are the same to the last bit, whichever row comes first."""
    kind: Any = type(value)
    if kind not in _KINDS or value != value:
        return MISSING
    if kind is Decimal:
        value = _EXACTLY.normalize(value) or Decimal(0)  # 1.0 and 1.00, 0 and -0
    if kind is float and value.is_integer():  # in pandas, one gap makes all integers of a column floats
        value = int(value)
    name = "number" if kind in (int, float) else kind.__name__
    return (name + " in UTC" if getattr(value, "tzinfo", None) else name), value


def count_values(
    columns: Sequence[NDArray[Any]], units: NDArray[np.int64] | None = None, tags: NDArray[np.uint64] | None = None
) -> list[dict[Entry, int]]:
    """Count the units of each value of each column, an array of plain entries; gaps count for nothing.

    A row is a unit, or ``units`` numbers the user of each row, and ``tags`` identify the users (`encode_identifiers`,
    `identifier_tags`): then a user counts in one of the user's values of a column, which a hash of user and value
    chooses, whatever the other users do.
    """
    counted = []
    for j, column in enumerate(columns):
        entries = list(map(entry_of, column.tolist()))
        if units is not None and tags is not None:
            pairs = sorted(dict.fromkeys(zip(units.tolist(), entries, strict=True)), key=lambda pair: pair[0])
            pairs = [pair for pair in pairs if pair[1] != MISSING]
            numbers = {entry: k for k, entry in enumerate(dict.fromkeys(entry for _, entry in pairs))}
            kept = _identifiers.chosen_keys(
                tags,
                np.array([unit for unit, _ in pairs], dtype=np.int64),
                [(entry,) for entry in numbers],
                np.array([numbers[entry] for _, entry in pairs], dtype=np.int64),
                most=1,
                salt=3 * j,
            )
            entries = [entry for (_, entry), one in zip(pairs, kept, strict=True) if one]
        counts = Counter(entries)
        counts.pop(MISSING, None)
        counted.append(dict(counts))
    return counted


def merge_values(parts: Sequence[list[dict[Entry, int]]]) -> list[dict[Entry, int]]:
    """Add up the counts of several blocks, of other units each."""
    return [dict(sum(map(Counter, columns), Counter())) for columns in zip(*parts, strict=True)]


@dataclass(frozen=True, kw_only=True)
class CategoryDiscovery(Mechanism):
    """Values that many units have, of ``n_columns`` columns in one draw; a unit has one value in each.

    ``noise_multiplier`` is that of Gaussian noise on all counts together. With ``threshold_delta`` one of the values of
    a single unit may be found.
    """

    n_columns: int
    noise_multiplier: float
    threshold_delta: float
    adjacency: _guarantee.Adjacency
    theorem = "counts with a threshold, docs/theory/noise.md"

    @classmethod
    def within(cls, n_columns: int, epsilon: float, delta: float, adjacency: _guarantee.Adjacency | str) -> Self:
        """Make the one that costs (ε, δ)."""
        hidden = THRESHOLD_PART * delta
        beside = ((_events.ApproximateEvent(0.0, hidden, "threshold"), 1),)
        return cls(
            n_columns=n_columns,
            noise_multiplier=gaussian_noise_multiplier(epsilon, delta, size=2 * n_columns, other=beside),
            threshold_delta=hidden,
            adjacency=_guarantee.Adjacency(adjacency),
        )

    @property
    def sensitivity(self) -> float:
        """ℓ2 sensitivity of all counts: a unit adds 1 in each column, and an exchange takes 1 from another key."""
        changes = self.n_columns * (2 if self.adjacency is _guarantee.Adjacency.REPLACE_ONE else 1)
        return _contributions.upper_root(changes)

    @cached_property
    def events(self) -> tuple[tuple[_events.PrivacyEvent, int], ...]:
        hidden, size = self.threshold_delta, 2 * self.n_columns
        spent = count_events_of("gaussian", self.noise_multiplier, size=size, threshold_delta=hidden)
        return tuple(spent.items())

    @cached_property
    def threshold(self) -> int:
        """Noisy count from which a value is found."""
        lattice = count_lattice("gaussian", self.sensitivity, self.noise_multiplier, 2 * self.n_columns)
        return count_threshold("gaussian", lattice, own=1, most_keys=self.n_columns, delta=self.threshold_delta)

    @property
    def least_units(self) -> int:
        """Number of units that find a value with probability .98."""
        return math.ceil(self.threshold + _SURE * self.sensitivity * self.noise_multiplier)

    def run(self, data: Sequence[Mapping[Entry, int]], release: Draws) -> list[dict[Any, float]]:
        """Find values and their noisy counts, sorted by value, from what `count_values` returns."""
        counts = {
            (j, *entry): count for j, column in enumerate(data) for entry, count in column.items() if entry != MISSING
        }
        keys, numbers = release.threshold_counts(
            counts,
            sensitivity=self.sensitivity,
            noise="gaussian",
            level=self.noise_multiplier,
            size=2 * self.n_columns,
            own=1,
            most_keys=self.n_columns,
            threshold_delta=self.threshold_delta,
        )
        found: list[dict[Any, float]] = [{} for _ in range(self.n_columns)]
        for (j, _, value), number in zip(keys, numbers[:, 0].tolist(), strict=True):
            found[j][value] = number
        return found
