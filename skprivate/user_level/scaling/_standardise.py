"""Centres and scales of features and target, found privately before a descent where users are enough.

Joint histograms find the centres and scales of all features, and others those of the target (`ColumnSearch`). They need
not be exact: they only have to make all directions alike, so nothing has a range. One more sum shows how rare the rare
values are, and one selection how long the tail of the target is. Where users have several rows, a selection for each
column finds its scale: rows far away, such as long delays, are few in a histogram of all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, GaussianEvent, PrivacyEvent, Release
from skprivate.user_level import _plan, _ranges
from skprivate.user_level._problems import UserData, row_blocks, user_magnitudes
from skprivate.user_level.scaling import _column_search, _frame
from skprivate.user_level.scaling._column_search import MOST_BEYOND, STANDARD_FACTOR, Columns, ColumnSearch
from skprivate.user_level.scaling._frame import Frame

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
#: Noise of a prediction, in scales of the target, up to which a heavy tail widens the range of predictions.
TARGET_NOISE = 0.3
#: Ratio of two distances of a target that their errors explain: cells are no finer and users are few.
QUANTILE_ERROR = 1.1
#: Rows of a regression are clipped to this many typical norms less than predictions have scales, if the target has a
#: light tail: longer rows add more noise than signal.
ROW_SHORT = 3.0
#: Candidates of a distance beyond a released scale, eight an octave, weighed by how likely they are a priori.
FREE = 14.0
#: Distances up to this part of the centre count as 0.
LEAST_RELATIVE = 2.0**-17


def kept_columns(data: UserData, kept: npt.NDArray[np.bool_]) -> UserData:
    """Select columns of rows."""
    return replace(data, X=data.X.T[kept].T, store=None)


def target_as_column(data: UserData) -> UserData:
    """Keep the target as the only column of rows."""
    return replace(data, X=data.y[:, None], store=None)


def mapped_rows(data: UserData, frame: Frame, target: bool) -> UserData:
    """Fill gaps, clip features and map rows to the coordinates of a frame."""
    store = data.writable(data.X.shape[1], spare=1)
    mapped = store[: data.X.shape[1]]
    low, high = (np.broadcast_to(ends, len(mapped)).tolist() for ends in frame.feature_range)
    clipped = np.isfinite(frame.half_ranges).any()
    fills = np.broadcast_to(frame.fills, len(mapped)).tolist()
    for j, (column, centre, scale) in enumerate(zip(data.X.T, frame.centres, frame.scales, strict=True)):
        for rows in row_blocks(len(data)):
            out = mapped[j, rows]
            own = np.where(np.isnan(column[rows]), fills[j], column[rows])
            np.subtract(np.clip(own, low[j], high[j], out=own) if clipped else own, centre, out=out)
            out /= scale
    y = (data.y - frame.target_centre) / frame.target_scale if target else data.y
    return replace(data, X=mapped.T, y=y, store=store)


def rescaled(data: UserData, scales: FloatArray) -> UserData:
    """Divide columns by scales."""
    store = data.writable(data.X.shape[1], spare=1)
    mapped = store[: data.X.shape[1]]
    for column, scale, out in zip(data.X.T, scales.tolist(), mapped, strict=True):
        np.divide(column, scale, out=out)
    return replace(data, X=mapped.T, store=store)


def clip_rows(data: UserData, bound: float) -> UserData:
    """Clip rows in the coordinates of a frame to this norm."""
    store = data.writable(data.X.shape[1])
    return replace(data, X=_frame.bounded_columns(data.X.T, bound, out=store[: data.X.shape[1]]).T, store=store)


def clip_data(data: UserData, frame: Frame) -> UserData:
    """Fill gaps and clip rows in their original units."""
    if math.isinf(frame.row_bound):
        return replace(data, X=filled, store=None) if (filled := frame.filled(data.X)) is not data.X else data
    store = data.writable(data.X.shape[1])
    return replace(data, X=frame.bounded(data.X, out=store[: data.X.shape[1]]), store=store)


@dataclass(frozen=True)
class Standardisation:
    """Prices and options of finding a `Frame`.

    Without ``features`` they are left as they are, without ``target`` there is none. ``scale_epsilon`` and
    ``tail_epsilon`` are None where scales and the tail are not selected. With ``many_outputs`` a coarse centre is
    better than none. ``prepared`` marks columns that earlier releases have scaled; they are left alone. ``unit`` marks
    columns of public unit 1, such as indicators: they are centred at 0, and their mean squares are released. Bounds are
    those of a fit of ``all_users``, if the map is found in a sample of them.
    """

    terms: _plan.Terms
    centred: bool
    features: ColumnSearch | None
    target: ColumnSearch | None
    tail_epsilon: float | None
    scale_epsilon: float | None
    many_outputs: bool
    prepared: tuple[bool, ...]
    unit: tuple[bool, ...]
    all_users: float | None = None

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.prepared)

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """All draws of `run`."""
        events = [event for search in (self.features, self.target) if search for event in search.events]
        if self._measures:
            events.append((GaussianEvent(self.rare_multiplier, self.width), 1))
        if self.tail_epsilon is not None:
            events.append((BoundedRangeEvent(self.tail_epsilon), 1))
        if self.scale_epsilon is not None:
            events.append((BoundedRangeEvent(self.scale_epsilon), self.n_scales))
        return tuple(events)

    @property
    def n_scales(self) -> int:
        """Number of columns whose scales are selected."""
        return (self.features.n_columns if self.features else 0) + (self.target is not None)

    @property
    def _measures(self) -> bool:
        """True if mean squares of columns without a scale are released."""
        return self.features is not None or any(self.unit)

    @property
    def _searched(self) -> npt.NDArray[np.bool_]:
        """Flags of the columns whose centres and scales are looked for."""
        return np.logical_not(np.logical_or(self.prepared, self.unit))

    @property
    def rare_multiplier(self) -> float:
        """Noise multiplier of the mean squares of columns without a scale."""
        return self.terms.multiplier / math.sqrt(_plan.SMALL_SHARE)

    def decides(self, n_users: float) -> bool:
        """Return True if ``n_users`` are enough."""
        return all(search.decides(n_users) for search in (self.features, self.target) if search)

    def run(self, data: Partitions | UserData, n_users: float, release: Release) -> tuple[Partitions, Frame]:
        """Release the map and apply it to rows, sorted by user; nothing is changed where ``n_users`` are too few.

        ``n_users`` is public, or a released lower bound. What is drawn does not depend on it.
        """
        rows = as_partitions(data).map(UserData.in_order)
        # A released lower bound on the users may be 0 or less.
        n_users = max(n_users, 1.0)
        useful, frame = self.decides(n_users), _frame.identity(self.width)
        if self.target is not None:
            column = rows.map(target_as_column)
            measured = self.tail_epsilon is not None
            found = self._scaled(column, self.target.run(column, n_users, release), measured, n_users, release)
            tail = self._tail(column, found, n_users, release)
            if useful:
                frame = self._with_target(frame, found, tail, n_users)
        rare = np.array(self.unit) & useful
        if self.features is not None:
            searched = self._searched
            sought = rows if searched.all() else rows.map(partial(kept_columns, kept=searched))
            found = self._scaled(sought, self.features.run(sought, n_users, release), True, n_users, release)
            if useful:
                frame, rare[searched] = self._with_features(frame, found, n_users)
        mapped = rows.map(partial(mapped_rows, frame=frame, target=self.target is not None))
        if self._measures:
            own, unseen = _column_search.rare_scales(
                mapped,
                rare,
                MOST_BEYOND,
                self._largest_distance(n_users) ** 2,
                multiplier=self.rare_multiplier,
                n_users=n_users,
                terms=self.terms,
                release=release,
            )
            if rare.any():
                noise = tuple(np.flatnonzero(unseen & self.unit).tolist())
                frame = frame._replace(scales=frame.scales * own, doubts=frame.doubts._replace(unseen=noise))
                mapped = mapped.map(partial(rescaled, scales=own))
        bound = math.sqrt(self.width + self.centred) * self._row_bound(frame.target_range, n_users)
        return mapped.map(partial(clip_rows, bound=bound)), frame._replace(row_bound=bound)

    def _with_target(self, frame: Frame, found: Columns, tail: float, n_users: float) -> Frame:
        """Set centre, scale and range of the target; where most targets are one value, the tail alone shows a scale."""
        scale = float(found.scales[0]) or tail
        frame = frame._replace(
            target_centre=float(found.centres[0]), target_scale=scale or 1.0, target_found=scale > 0.0
        )
        return frame._replace(target_range=self._target_range(tail / scale, n_users)) if scale else frame

    def _with_features(self, frame: Frame, found: Columns, n_users: float) -> tuple[Frame, npt.NDArray[np.bool_]]:
        """Set centres, scales and ranges of features; returns flags of those without a scale, too."""
        centres, scales, units, known_units, *_ = found
        level = self._level(n_users)
        # As predictions are, so that a heavy-tailed or badly scaled feature cannot dominate.
        factor: FloatArray | float = _frame.row_bound_factor(frame.target_range, level)
        rare = scales == 0.0
        sizes = found.sizes
        if np.abs(centres).max() <= 0.5 * STANDARD_FACTOR and 1.0 / STANDARD_FACTOR <= sizes.max() <= STANDARD_FACTOR:
            # Prepared already, as it seems. What features share with the intercept is noise in both, but where users
            # are few, centres are off by about half a deviation, and a column may be another than it seems.
            known = self.features.decides_all(n_users)  # type: ignore[union-attr]
            # A column is small where few rows make its deviation. They are long in its own scale, and clipped as rows
            # of a regression; scores of classes do not go on far beyond it.
            small = known & (sizes * STANDARD_FACTOR < 1.0)
            if known or self.scale_epsilon is not None:
                factor = np.where(small & (self.target is None), factor, math.inf)
            if not small.any():
                centres, scales, rare = centres * (known or self.many_outputs), np.ones_like(scales), scales < 0.0
        largest = np.where(known_units, self._largest_distance(n_users), self._unknown_distance(n_users))
        ends = np.where(found.empty, 0.0, np.where(rare, largest * units, factor * scales))
        doubts = _frame.Doubts(self._places(found.one_value), self._places(found.empty))
        frame = frame._replace(
            centres=self._among_all(centres, 0.0),
            scales=self._among_all(np.where(rare, units, scales), 1.0),
            half_ranges=self._among_all(ends, np.inf),
            fills=self._among_all(centres if self.centred else found.middles, 0.0),
            doubts=doubts,
        )
        return frame, rare

    def _places(self, flags: npt.NDArray[np.bool_]) -> tuple[int, ...]:
        """List places of searched columns among all."""
        return tuple(np.flatnonzero(self._searched)[flags].tolist())

    def _among_all(self, values: FloatArray, fill: float) -> FloatArray:
        """Insert values of the columns that were searched among all, with ``fill`` for the others."""
        result = np.full(self.width, fill)
        result[self._searched] = values
        return result

    def _level(self, n_users: float) -> float:
        """Return the noise level ν of a fit with all the budget."""
        return self.terms.level(self.all_users or n_users, self.width)

    def _largest_distance(self, n_users: float) -> float:
        """Return the bound of features without a scale about their centre, in units: up to the next cell.

        Without noise nothing is clipped.
        """
        return 2.0**_column_search.FOLD * _ranges.slow_growth(self._level(n_users))

    def _unknown_distance(self, n_users: float) -> float:
        """Return the same where users are too few to tell the unit.

        A share β of the users differ from the centre at most. Clipped to β^(−1/2), its mean square is at most 1.
        """
        many = self.features is not None and self.features.decides_all(n_users)
        return self._largest_distance(n_users) * (1.0 if many else 2.0**-_column_search.FOLD / math.sqrt(MOST_BEYOND))

    def _row_bound(self, target_range: float, n_users: float) -> float:
        """Return the norm bound of rows, in typical norms."""
        level = self._level(n_users)
        if self.target is None or self.features is None:
            return _frame.row_bound_factor(_frame.ROW_BOUND, level)
        # A tail of users says little of rows.
        if self.tail_epsilon is None or self.scale_epsilon is not None:
            return _frame.row_bound_factor(target_range, level)
        light = max(0.0, 1.0 - (target_range - _frame.TARGET_RANGE) / ROW_SHORT)
        return _frame.row_bound_factor(target_range - ROW_SHORT * light, level)

    def _scaled(self, rows: Partitions, found: Columns, measured: bool, n_users: float, release: Release) -> Columns:
        """Select scales among the users' root mean square distances to the centres: tails within users count.

        Columns of mostly one value have none yet where their exceptions are ``measured`` by another draw.
        """
        if self.scale_epsilon is None:
            return found
        share = share_beyond(self.scale_epsilon, n_users)
        counts = rows.sum(partial(distance_counts, centres=found.centres))
        distances = [
            select_distance(cells, centre, share * n_users, self.scale_epsilon, release, near)
            for cells, centre, near in zip(counts, found.centres.tolist(), found.sizes.tolist(), strict=True)
        ]
        scales = np.array(distances) / -float(ndtri(0.5 * share))
        # All distances up to the exceptions cost the same, and the least of them wins.
        return found._replace(scales=np.where(measured & (found.scales == 0.0), 0.0, scales))

    def _tail(self, rows: Partitions, target: Columns, n_users: float, release: Release) -> float:
        """Select the scale of the target's tail: that of normal numbers as far away; 0 if it is not looked for."""
        if self.tail_epsilon is None:
            return 0.0
        share, centre = share_beyond(self.tail_epsilon, n_users), float(target.centres[0])
        (counts,) = rows.sum(partial(distance_counts, centres=target.centres))
        distance = select_distance(counts, centre, share * n_users, self.tail_epsilon, release, float(target.sizes[0]))
        return distance / -float(ndtri(0.5 * share))

    def _target_range(self, excess: float, n_users: float) -> float:
        """Return the bound of predictions in scales: farther where the tail is heavier than that of normal targets.

        The scale of the tail over that of most targets, beyond its error, is a power of how rare it is. That power is
        extrapolated to the last user.
        """
        if self.tail_epsilon is None or excess <= QUANTILE_ERROR:
            return _frame.TARGET_RANGE
        share = share_beyond(self.tail_epsilon, n_users)
        power = math.log(excess / QUANTILE_ERROR) / math.log(MOST_BEYOND / share)
        most = TARGET_NOISE / self._level(n_users)
        # In logarithms, because the power may overflow.
        heavy = math.log(_frame.TARGET_RANGE * excess) + power * math.log(max(share * (self.all_users or n_users), 1.0))
        return max(_frame.TARGET_RANGE, math.exp(heavy) if heavy < math.log(most) else most)


def distance_counts(data: UserData, centres: FloatArray) -> IntArray:
    """Count users by the root mean square distance of their rows to the centre, in each column."""
    counts = []
    for column, centre in zip(data.X.T, centres.tolist(), strict=True):
        # A gap is the centre. What overflows may have a sign, too, and is far away.
        distances = np.abs(user_magnitudes(np.where(np.isnan(column), centre, column), data.groups, centre))
        counts.append(_ranges.scale_counts(distances, _ranges.FINEST_SCALES))
    return np.array(counts)


def select_distance(
    counts: IntArray, centre: float, n_beyond: float, epsilon: float, release: Release, near: float
) -> float:
    """Select the distance that ``n_beyond`` users exceed, from their `distance_counts`; 0 if hardly a user differs.

    From ``near`` on, a released scale, farther ones are less likely a priori. It may be 0 or NaN, of extreme limits.
    """
    least = float(_ranges.FINEST_SCALES[0])
    distance = _ranges.select_upper_scale(
        counts,
        math.ceil(min(n_beyond, _ranges.MANY)),
        epsilon=epsilon,
        release=release,
        scales=_ranges.FINEST_SCALES,
        near=near / 2.0**_ranges.FAR if near > least else least,
    )
    return distance if distance > max(LEAST_RELATIVE * abs(centre), least) else 0.0


def distance_cost(beyond: float, n_users: float) -> float:
    """Return the cost of telling a part of the users from nobody, with a chance of e⁻⁹ to fail."""
    return _ranges.selection_epsilon(n_users, FREE, monotone=True) / beyond


def share_beyond(cost: float, n_users: float) -> float:
    """Return the smallest tail that this cost distinguishes from nobody, or the largest that is used."""
    return min(distance_cost(cost, n_users), MOST_BEYOND)


def plan_standardisation(
    terms: _plan.Terms,
    *,
    n_features: int,
    centred: bool,
    target: bool,
    several: bool = False,
    many_outputs: bool = False,
    prepared: tuple[bool, ...] = (),
    unit: tuple[bool, ...] = (),
    boxes: tuple[_column_search.Box, ...] = (),
) -> Standardisation | None:
    """Divide the budget for standardisation by public numbers; None if ``n_users`` is too small.

    Users may have ``several`` rows. ``boxes`` are public limits of features.
    """
    none = (False,) * n_features
    prepared, unit = prepared or none, unit or none
    left = n_features - sum(prepared) - sum(unit)
    own = tuple(box for box, *known in zip(boxes, prepared, unit, strict=bool(boxes)) if not any(known))
    features = _column_search.plan_search(terms, n_columns=left, centred=centred, boxes=own) if left else None
    sought = _column_search.plan_search(terms, n_columns=1, centred=centred, assume_standard=True) if target else None
    if target and sought is None:
        return None
    if not target and features is None and (left or not any(unit)):
        return None
    plan = Standardisation(
        terms=terms,
        centred=centred,
        features=features,
        target=sought,
        tail_epsilon=None,
        scale_epsilon=None,
        many_outputs=many_outputs,
        prepared=prepared,
        unit=unit,
    )
    if terms.n_users is None:
        return plan
    n, tail, scale = float(terms.n_users), None, distance_cost(MOST_BEYOND, float(terms.n_users))
    if target and features is not None:
        cost = min(math.sqrt(4.0 * _plan.LARGE_SHARE * terms.rho), distance_cost(_ranges.QUIET_LEVEL, n))
        tail = cost if cost >= distance_cost(_ranges.MOST_TAIL, n) else None
    affordable = several and plan.n_scales * scale**2 <= 8.0 * _plan.LARGE_SHARE * terms.rho
    return replace(plan, tail_epsilon=tail, scale_epsilon=scale if affordable else None)
