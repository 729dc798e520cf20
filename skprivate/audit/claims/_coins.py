"""Designs: inputs decided by independent fair coins, each of which changes one unit.

A design is valid if flipping one coin, whatever the others show, leads to a neighbouring input. Then the output is
as indistinguishable between the two values of one coin, given the others, as the guarantee says.

=============  ==========================  =============================================================
design         valid for                   coin i decides
=============  ==========================  =============================================================
pair           every unit and adjacency    (one coin) which of two neighbouring inputs is fitted, or of two that
                                           are several units apart, against the claim for so many
labels         label                       the label of row i
presence       row, user; add-remove       whether the unit is there at all
columns        row, user                   replace-one: the sign of a row along axis i, or of its target;
                                           add-remove: whether this row is there
rows           local model                 which of two values row i has
=============  ==========================  =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate._sklearn import _num_samples, _safe_indexing
from skprivate.audit.claims._canaries import FitInput, canary_pairs, opposite_targets
from skprivate.privacy import encode_identifiers

__all__ = ["Design", "designs", "pair_of"]

Array = npt.NDArray[np.float64]
#: With fewer coins in a fit, pairs do as well.
_FEWEST = 8
_AGREE = 0.35
_MOST_PLACES = 4


@dataclass
class Design:
    """Coins to input.

    Attributes
    ----------
    name : str
    n_coins : int
    make : callable
        From n_coins booleans to a FitInput.
    probes : array-like or None
        Rows at which predictions are looked at.
    n_units : int
        Units that one coin decides together.
    """

    name: str
    n_coins: int
    make: Callable[[npt.NDArray[np.bool_]], FitInput]
    probes: Any = None
    n_units: int = 1
    _seen: dict[Any, tuple[Array, ...]] = field(default_factory=dict, repr=False)

    def codes(self) -> npt.NDArray[np.bool_]:
        """Tosses in which each coin shows a pattern of its own, after one where all show heads."""
        bits = int(self.n_coins).bit_length()  # a coin that always shows heads could not be traced
        patterns = (np.arange(self.n_coins) >> np.arange(bits)[:, None]) & 1 == 1
        return np.vstack([np.ones((1, self.n_coins), dtype=bool), patterns])

    def trace(self, runs: list[dict[str, Array]]) -> int:
        """Learn from fits on `codes` with the same noise which number tells of which coin.

        A number that one coin alone moves is as in the first fit wherever the coin's pattern shows heads, and
        differs by
        the same amount elsewhere. Returns how many coins were found.
        """
        found: set[int] = set()
        for name in sorted(set.intersection(*(set(run) for run in runs))):
            if len({run[name].size for run in runs}) > 1:
                continue
            values = np.array([run[name] for run in runs])
            steps = values[0] - values[1:]
            far = steps[np.abs(steps).argmax(axis=0), np.arange(steps.shape[1])]
            tails = np.abs(steps) > 0.5 * np.abs(far)
            alone = (far != 0) & (
                np.abs(steps - np.where(tails, far, 0.0)).max(axis=0) <= _AGREE * np.abs(far)
            )
            owner = (~tails * (1 << np.arange(len(steps)))[:, None]).sum(axis=0)
            at = np.flatnonzero(alone & (owner < self.n_coins))
            if np.unique(owner[at]).size < 0.5 * self.n_coins:
                continue
            owner = owner[at]
            order = np.argsort(owner, kind="stable")
            place = np.empty(at.size, dtype=int)
            place[order] = np.arange(at.size) - np.searchsorted(owner[order], owner[order])
            self._seen[self._kind(name, values.shape[1])] = owner, at, far[at], place
            found |= set(owner.tolist())
        return len(found)

    @staticmethod
    def _kind(name: str, size: int) -> tuple[str, int]:
        parts = name.split()
        return (" ".join([parts[0], *parts[2:]]) if parts[0] == "draw" else name), size

    def features(self, run: dict[str, Array]) -> dict[str, Array]:
        """For each name, one number a coin: what its own coordinates show, in units of the coin's effect."""
        out = {}
        for name, values in run.items():
            known = self._seen.get(self._kind(name, values.size))
            if known is None:
                continue
            owner, at, slope, place = known
            shown = values[at] / slope
            for side in (
                slope > 0,
                slope < 0,
            ):  # where the middle between heads and tails lies, up to the sign
                if side.any():
                    shown[side] -= np.clip(shown[side], *np.quantile(shown[side], [0.05, 0.95])).mean()
            for k in range(_MOST_PLACES):  # a coin may move several numbers, as the levels of a hierarchy
                own = place == k
                if own.any():
                    out[f"{name} {k}"] = np.bincount(owner[own], shown[own], self.n_coins)
        return out


def pair_of(one: FitInput, other: FitInput, n_units: int = 1) -> Design:
    """The design of one coin."""
    n = _num_samples(other.X)
    rows = np.unique(np.clip([0, 1, 2, n // 2, n - 3, n - 2, n - 1], 0, n - 1))
    return Design("pair", 1, lambda coins: other if coins[0] else one, other.take(rows).X, n_units)


def _together(data: FitInput, unit: str, wanted: int) -> int:
    """As many units as are wanted, at most half of those there are."""
    n = _num_samples(data.X)
    if unit == "private row":
        n = int(np.sum(np.asarray(data.params.get("private", ()), dtype=bool)))
    elif data.params.get("user_ids") is not None:
        n = int(np.max(encode_identifiers(data.params["user_ids"], n)[0])) + 1
    return max(1, min(wanted, n // 2))


def designs(
    data: FitInput, neighbour, unit: str, adjacency: str, local: bool, wanted: int = 1
) -> list[Design]:
    """All designs that are valid for a guarantee and can be built from the data: of many coins, pairs of groups, pairs.

    ``wanted`` is the number of units that would make a claim's differences large.
    """
    if local and neighbour is not None:
        return [_rows(data, neighbour)]
    if neighbour is not None:
        return [pair_of(data, neighbour)]
    many: list[Design] = []
    n = _num_samples(data.X)
    if unit == "label" and n >= _FEWEST:
        many.append(_labels(data))
    if unit in ("row", "user") and adjacency == "add-remove":
        many.append(_presence(data))
    if unit in ("row", "user"):
        many += _columns(data, adjacency)
    try:
        groups = dict.fromkeys((_together(data, unit, wanted), 1))
        pairs = [
            pair_of(*pair, units) for units in groups for pair in canary_pairs(data, unit, adjacency, units)
        ]
    except ValueError:
        if not many:
            raise
        pairs = []
    return [design for design in many if design.n_coins >= _FEWEST] + pairs


def _rows(data: FitInput, other: FitInput) -> Design:
    n = _num_samples(data.X)

    def make(coins):
        X = np.array(data.X, copy=True)
        X[coins] = np.asarray(other.X)[coins]
        return FitInput(X, data.y, data.params)

    return Design("rows", n, make)


def _labels(data: FitInput) -> Design:
    low, high = opposite_targets(data.y)

    def make(coins):
        y = np.array(data.y, copy=True)
        y[coins], y[~coins] = high, low
        return FitInput(data.X, y, data.params)

    return Design("labels", len(data.y), make)


def _presence(data: FitInput) -> Design:
    n = _num_samples(data.X)
    users = data.params.get("user_ids")
    codes = np.arange(n) if users is None else np.asarray(encode_identifiers(users, n)[0])

    def make(coins):  # the first unit stays: an empty input is none
        return data.take(np.flatnonzero(np.concatenate([[True], coins])[codes]))

    return Design("presence", int(codes.max()), make)


def _columns(data: FitInput, adjacency: str) -> list[Design]:
    """Rows along one axis each, all others at zero: nothing but its own row moves a coordinate of a sum."""
    X = data.X
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fiu" or data.params:
        return []
    # Scales and centres that are found privately follow the majority, which is at zero.
    m = min(X.shape[1], (len(X) - 1) // 2)
    largest = float(np.abs(X).max()) or 1.0
    made = []
    # The second is far beyond all noise that earlier draws put on centres and coefficients.
    for length in (100.0 * largest, 1e6 * largest):

        def make(coins, length=length):
            rows = np.zeros(X.shape)
            sign = np.where(coins, 1.0, -1.0)
            if adjacency == "add-remove":
                sign = np.ones(m)
            y, moves_x = data.y, True
            if y is not None:
                low, high = opposite_targets(y)
                y = np.array(y, copy=True)
                if y.dtype.kind == "f":
                    reach = 1e6 * length * (max(abs(low), abs(high)) or 1.0)
                    y[:], low, high = 0.0, -reach, reach
                moves_x = adjacency == "add-remove"
                y[:m] = np.where(sign > 0, high, low)
            rows[np.arange(m), np.arange(m)] = length * (sign if moves_x else 1.0)
            if adjacency == "add-remove":
                kept = np.concatenate([np.flatnonzero(coins), np.arange(m, len(rows))])
                return FitInput(rows[kept], None if y is None else _safe_indexing(y, kept), {})
            return FitInput(rows, y, {})

        made.append(Design("columns", m, make))
    return made
