"""Cuts along many directions that differ from one in a single coordinate, and how many rows each contains.

The options of a move are such directions. What they share is added up once for a row; each of them then costs one
multiplication, one addition and a comparison with its cuts. Rows pass in blocks, column by column, so that a block
stays in the cache, and by the same floating-point operations wherever a row stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate.mixture._cuts import CutCandidates
from skprivate.mixture._geometry import Floats
from skprivate.mixture._selection import Integers

#: Words of eight rows, 0 or 1 in each byte, that are added up: at most 255, so that no byte carries into the next.
WORDS = 254
#: Rows that are compared with all cuts of a direction at a time.
ROWS = 16 * 8 * WORDS


class Fan(NamedTuple):
    """Directions ``base + step · e_axis``.

    Parameters
    ----------
    base : ndarray of shape (n_features,)
    turns : tuple of (axis, ((direction, step), …))
        The numbers of the directions that a step along each axis leads to.
    """

    base: Floats
    turns: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]


@dataclass(frozen=True, eq=False)
class TurnedCuts:
    """Cuts {z : ⟨direction, z⟩ ≤ limit} of directions in fans.

    Attributes
    ----------
    fans : tuple of Fan
    limits : tuple of ndarray
        Of each direction, ascending, in the length that the fans give it.
    """

    fans: tuple[Fan, ...]
    limits: tuple[Floats, ...]

    @classmethod
    def of(cls, directions: Floats, cuts: CutCandidates) -> TurnedCuts:
        """The cuts along directions of any length, of which ``cuts`` has those of length one."""
        lengths = np.linalg.norm(directions, axis=1)
        limits = [
            (thresholds + cuts.slack) * length
            for thresholds, length in zip(cuts.thresholds, lengths, strict=True)
        ]
        return cls(tuple(fans(directions)), tuple(limits))

    def counts(self, columns: Floats, which: NDArray[np.intp]) -> Integers:
        """How many of some rows each cut contains, direction by direction.

        ``columns`` is of shape (n_features, n_rows); ``which`` numbers the rows.
        """
        totals = [np.zeros(len(limits), dtype=np.int64) for limits in self.limits]
        size = min(ROWS, which.size)
        n_sums = -(-size // (8 * WORDS))
        words = np.zeros((max(map(len, self.limits), default=0), n_sums, WORDS), dtype=np.uint64)
        inside = words.view(np.bool_).reshape(len(words), n_sums * 8 * WORDS)
        buffers = np.empty((3, size))
        for low in range(0, which.size, ROWS):
            rows = which[low : low + ROWS]
            inside[:, rows.size :] = False  # behind the last row
            contained = inside[:, : rows.size]
            column, term, projection = buffers[:, : rows.size]
            for base, turns in self.fans:
                projection[:] = 0.0
                for axis in np.flatnonzero(base).tolist():
                    np.take(columns[axis], rows, out=column, mode="clip")
                    projection += np.multiply(column, base[axis], out=term)
                for axis, steps in turns:
                    np.take(columns[axis], rows, out=column, mode="clip")
                    for direction, step in steps:
                        np.multiply(column, step, out=term)
                        np.add(term, projection, out=term)
                        limits = self.limits[direction]
                        np.less_equal(term, limits[:, None], out=contained[: len(limits)])
                        sums = np.add.reduce(words[: len(limits)], axis=2).view(np.uint8)
                        totals[direction] += np.add.reduce(sums, axis=1, dtype=np.int64)
        return np.concatenate(totals) if totals else np.zeros(0, dtype=np.int64)


def fans(directions: Floats) -> list[Fan]:
    """Every direction in one fan: along an axis, or a turn of the first direction, or on its own."""
    found: list[Fan] = []
    left = np.ones(len(directions), dtype=np.bool_)
    for base in (np.zeros(directions.shape[1]), *directions):
        changed = directions != base
        members = np.flatnonzero(left & (changed.sum(axis=1) <= 1))
        left[members] = False
        turns: dict[int, list[tuple[int, float]]] = {}
        for member in members.tolist():
            axis = int(changed[member].argmax())
            turns.setdefault(axis, []).append((member, float(directions[member, axis] - base[axis])))
        if turns:
            found.append(Fan(base, tuple((axis, tuple(steps)) for axis, steps in turns.items())))
        if not left.any():
            break
    return found
