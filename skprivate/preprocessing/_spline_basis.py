"""Splines of one column from released quantiles; no private row is used here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import eigh
from sklearn.preprocessing import SplineTransformer

from skprivate.privacy.noise import FloatArray

#: An outermost quantile that is this many times farther out than all others span is noise, not a quantile.
MAX_OUTER_GAP = 100.0
#: Knots closer than these are one number that many units share: over the span of all, over the largest, and, without a
#: public range, in the column's own unit, since every number between two that occur is as good a quantile.
TIE, RELATIVE_TIE, LEAST_SPAN = 1e-3, 1e-9, 2.0**-30
#: Gaps between the outermost quantiles and the outermost knots.
OUTER_GAPS = 3.0
#: Points of each interval between released quantiles that represent its units.
NODES = 8
#: The first function continues up to this many of its deviations, if that is beyond the outermost knots.
LINE_END = 5.0
#: Parts of an interval on which the norm of a row is bounded, and what rounding may add to it.
GRID, ROUNDING = 32, 1e-12
#: Directions of smaller variance are none.
_LEAST_VARIANCE = 1e-9


def edges_of(inner: FloatArray, bounds: tuple[float, float] | None) -> FloatArray:
    """Turn quantiles into ends of intervals with equally many units; equal ends are a number that many units share."""
    first, last = 0, len(inner) - 1
    while last - first > 1:
        if inner[last] - inner[last - 1] > MAX_OUTER_GAP * (inner[last - 1] - inner[first]) > 0.0:
            last -= 1
        elif inner[first + 1] - inner[first] > MAX_OUTER_GAP * (inner[last] - inner[first + 1]) > 0.0:
            first += 1
        else:
            break
    inner = np.clip(inner, inner[first], inner[last])
    tie = max(TIE * (inner[-1] - inner[0]), RELATIVE_TIE * float(np.abs(inner).max()))
    if bounds is not None:
        low, high = bounds
        # A range that is narrow beside its distance from zero is no tie: no float between would be left of it.
        tie = min(max(tie, RELATIVE_TIE * (high - low)), TIE * (high - low))
        edges = _merge_ties(np.concatenate([[low], inner, [high]]), tie)
        return np.where(edges >= high - tie, high, edges)
    inner = _merge_ties(inner, max(tie, LEAST_SPAN))
    gaps = np.diff(inner)
    if not gaps.any():
        size = max(abs(float(inner[0])), 1.0)
        return np.concatenate([[inner[0] - size], inner, [inner[-1] + size]])
    # Where the outermost two coincide, the column ends there.
    return np.concatenate([[inner[0] - OUTER_GAPS * gaps[0]], inner, [inner[-1] + OUTER_GAPS * gaps[-1]]])


def _merge_ties(numbers: FloatArray, tie: float) -> FloatArray:
    """Set numbers hardly above the one before to it."""
    merged = numbers.copy()
    for i in range(1, len(merged)):
        if merged[i] - merged[i - 1] <= tie:
            merged[i] = merged[i - 1]
    return merged


class ColumnSplines(NamedTuple):
    """Functions of one column, constant beyond the outermost knots, but for a first one that continues as a line.

    They are combinations ``coef`` of B-splines on ``sequence``, in units of ``unit``, a power of two about the largest
    knot, so that nothing overflows. ``slope`` and ``ends`` are those of the line, in units, too.
    """

    knots: FloatArray
    unit: float
    sequence: FloatArray
    coef: FloatArray
    slope: float = 0.0
    ends: tuple[float, float] = (0.0, 0.0)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Evaluate the functions at every number by itself; 0 for missing ones."""
        missing = np.isnan(values)
        known = np.where(missing, self.knots[0], values)
        inside = np.clip(known, self.knots[0], self.knots[-1]) / self.unit
        result: FloatArray = self._inside(inside)
        if self.slope:
            with np.errstate(over="ignore"):  # beyond the ends in any case
                result[:, 0] += self.slope * (np.clip(known / self.unit, *self.ends) - inside)
        result[missing] = 0.0
        return result

    @property
    def _degree(self) -> int:
        return len(self.sequence) - len(self.coef) - 1

    @property
    def _inside(self) -> BSpline:
        """Functions between the outermost knots, in units."""
        return BSpline(self.sequence, self.coef, self._degree)

    def resize(self, width: int) -> ColumnSplines:
        """Keep the first ``width`` functions, or append zeros."""
        coef = np.zeros((len(self.coef), width))
        kept = self.coef[:, :width]
        coef[:, : kept.shape[1]] = kept
        return self._replace(coef=coef)

    def scale_first(self, factor: float) -> ColumnSplines:
        """Multiply the first function."""
        factors = np.ones(self.coef.shape[1])
        factors[0] = factor
        return self._replace(coef=self.coef * factors, slope=self.slope * factor)

    @property
    def bound(self) -> float:
        """Largest norm of the functions at any number.

        Between neighbours of a grid functions are off their chords by at most an eighth of the squared distance times
        their second derivatives, which are means of their coefficients, as splines are.
        """
        degree, inner = self._degree, self.sequence[self._degree : -self._degree]
        widths = np.diff(inner)
        places = np.arange(GRID + 1) / GRID
        points = inner[:-1, None] + widths[:, None] * places
        points[:, -1] = inner[1:]
        largest = np.linalg.norm(self._inside(points.ravel()), axis=1).reshape(points.shape).max(axis=1)
        if degree > 1:
            bends = np.linalg.norm(self._inside.derivative(2).c[: len(widths) + degree - 2], axis=1)
            bends = np.lib.stride_tricks.sliding_window_view(bends, degree - 1).max(axis=1)
            largest = largest + (widths / GRID) ** 2 / 8.0 * bends
        coefficients = np.linalg.norm(self.coef, axis=1).max()
        found = min(float(largest.max()), float(coefficients))
        if self.slope:
            found = max(found, *np.linalg.norm(self(np.array(self.ends) * self.unit), axis=1))
        return found * (1.0 + ROUNDING)


def b_splines(edges: FloatArray, degree: int) -> ColumnSplines:
    """Make the B-splines of `sklearn.preprocessing.SplineTransformer` with these edges as knots."""
    knots = np.unique(edges)
    unit = float(np.ldexp(1.0, int(np.frexp(np.abs(knots).max())[1])))
    spline = SplineTransformer(knots=(knots / unit)[:, None], degree=degree).fit(np.zeros((2, 1))).bsplines_[0]
    return ColumnSplines(knots, unit, spline.t, spline.c)


def smooth_splines(edges: FloatArray, degree: int, *, unbounded: bool = True) -> ColumnSplines:
    """Make uncorrelated splines, the smoothest first, the k-th of deviation 1/k, one for each interval.

    Intervals between neighbouring edges have equal weights. The first function is linear. The others are orthogonal to
    it, by the mean square of their slopes over ranks (the basis of Demmler and Reinsch), because noise hides functions
    of high frequency first.
    """
    plain = b_splines(edges, degree)
    places = (np.arange(NODES) + 0.5) / NODES
    nodes = (edges[:-1, None] + np.diff(edges)[:, None] * places).ravel()
    basis = plain(nodes)
    means = basis.mean(axis=0)
    basis = basis - means
    # A spline whose coefficients are the means of `degree` neighbouring knots is the number itself.
    linear = np.lib.stride_tricks.sliding_window_view(plain.sequence[1:-1], degree).mean(axis=1)
    linear = linear - means @ linear
    linear /= np.sqrt(np.mean((basis @ linear) ** 2))
    slopes = basis.T @ (basis @ linear) / len(nodes)
    rest = basis - np.outer(basis @ linear, slopes)
    variances, directions = eigh(rest.T @ rest / len(nodes))
    kept = variances > _LEAST_VARIANCE
    directions = directions[:, kept] / np.sqrt(variances[kept])
    steps = np.diff(rest, axis=0) @ directions
    if kept.any():  # SciPy before 1.14 refuses an empty matrix
        directions = directions @ eigh(steps.T @ steps)[1]
    # As functions of the B-splines themselves, with mean 0.
    rest = directions - np.outer(linear, slopes @ directions)
    rest = rest - means @ rest
    coef = np.column_stack([linear, rest])[:, : len(plain.knots) - 1]
    largest = np.take_along_axis(coef, np.abs(coef).argmax(axis=0)[None], axis=0)
    signs = np.append(1.0, np.sign(largest[0, 1:]))
    coef = np.ascontiguousarray(coef * signs / np.arange(1, coef.shape[1] + 1))
    splines = plain._replace(coef=coef)
    if not unbounded:
        return splines
    first, last = (plain.knots[[0, -1]] / plain.unit).tolist()
    low, high = splines(plain.knots[[0, -1]])[:, 0].tolist()
    slope = (high - low) / (last - first)
    ends = min(first - (LINE_END + low) / slope, first), max(last + (LINE_END - high) / slope, last)
    return splines._replace(slope=slope, ends=ends)
