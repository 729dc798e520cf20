"""Distances of rows from a public net as integers, for the exponential mechanism under a norm.

Rows and points are rounded to a public lattice; the derivation of the price stands in docs/metric.md (Theorem 6).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from skprivate.privacy._k_norm import WIDER, Norm, cell_diameter, lattice_step
from skprivate.privacy._lattice import FloatArray, IntArray, Lattice, rational

_FINE_BITS = 32
#: Coordinates have so many bits, so that squares are good in float64 and costs stay in int64.
_COORDINATE_BITS = 48
_MAX_COLUMNS = 2**12
#: Scores under ℓ2 are counted in this fraction of a step.
_SIXTEENTH = 16


def net_lattice(norm: Norm, lower: FloatArray, upper: FloatArray, epsilon: float) -> Lattice:
    """Step g of the coordinates, and the number of score units over which P falls by a factor e.

    g is a power of two up to 2⁻³²/(ε·A), with A·g the distance that rounding may add, or, if the box has more than
    2⁴⁸ of these, up to 2⁻⁴⁷ of its width.
    """
    if lower.size > _MAX_COLUMNS:
        raise ValueError(f"rows must have at most {_MAX_COLUMNS} columns for a net, got {lower.size}.")
    extra = _rounding_steps(norm, lower.size)
    step = lattice_step(epsilon, _FINE_BITS + (extra - 1).bit_length())
    width = float((upper - lower).max(initial=0.0))
    if not math.isfinite(width):
        raise ValueError(f"bounds must have finite widths, got {width!r} for the widest.")
    step = max(step, math.ldexp(1.0, math.frexp(width)[1] - _COORDINATE_BITS))
    units = _SIXTEENTH if norm == "l2" else 1
    return Lattice(step, 2 * units * WIDER / (rational(epsilon) * Fraction(step)))


def net_costs(
    rows: FloatArray, points: FloatArray, lower: FloatArray, norm: Norm, lattice: Lattice
) -> IntArray:
    """Distance of every row from every point: in steps, or in sixteenths of a step for "l2"; shape (n, m).

    The distance of one row is the same whatever stands in the others: elementwise arithmetic, column by column.
    """
    shape = (rows.shape[0], points.shape[0])
    total: IntArray = np.zeros(shape, dtype=np.int64)
    squares: FloatArray = np.zeros(shape if norm == "l2" else 0)
    for column in range(rows.shape[1]):
        x, p = (
            np.rint((values[:, column] - lower[column]) / lattice.step).astype(np.int64)
            for values in (rows, points)
        )
        gap = np.abs(x[:, None] - p[None, :])
        if norm == "linf":
            np.maximum(total, gap, out=total)
        elif norm == "l1":
            total += gap
        else:
            real = gap.astype(np.float64)
            real *= real
            squares += real
    if norm == "l2":
        np.sqrt(squares, out=squares)
        squares *= float(_SIXTEENTH)
        total = np.rint(squares).astype(np.int64)
    return total


def _rounding_steps(norm: Norm, d: int) -> int:
    """A: what rounding may add to the distance of two rows, in steps.

    x − lower is rounded to float64, by an eighth of a step at most, and to the lattice, by a half: two rows move by
    5/4 of a step along each axis. Under ℓ2 both costs err in float64, by less than (d + 3)·2⁻⁵⁴ of ⌈√d⌉·2⁴⁸ steps, and
    by 1/32 from rounding to sixteenths.
    """
    cell = cell_diameter(norm, d)
    return 2 * cell + (cell * (d + 3) // 16 + 2 if norm == "l2" else 0)


__all__ = ["net_costs", "net_lattice"]
