"""Centres and scales of features and target, found privately before a descent where users are enough.

Each column has a median and a quantile of the distances from it, each by one selection; where that is too expensive,
joint histograms find all (`ColumnSearch`). One more selection finds the typical norm of a row. Centres and scales need
not be exact: they only have to make all directions alike, so nothing is summed and nothing has a range. A user
contributes one number to a selection: the mean of the user's values, or their root mean square about the released
centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, GaussianEvent, PrivacyEvent
from skprivate.privacy.draws import EIGHTHS, FINE, OCTAVES, UNIT_WEIGHT, Grid, WeightedCells, private_median
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData, UserGroups, row_blocks, user_magnitudes
from skprivate.user_level._ranges import SCALES, scale_counts, select_median_scale, selection_epsilon
from skprivate.user_level.scaling._column_search import (
    LEAST_BEYOND,
    LEAST_PRICE,
    MOST_BEYOND,
    RARE_SHARE,
    ColumnSearch,
    distance_price,
    last_zero_cell,
    median_price,
    plan_search,
    rare_scales,
    select_distance,
    share_beyond,
)
from skprivate.user_level.scaling._frame import (
    PREDICTION_RANGE,
    RANGE_LEVEL,
    ROW_BOUND,
    Frame,
    bounded_columns,
    identity,
    public_bound,
    row_bound_factor,
    sees_common_mean,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Centres are found up to a relative 2⁻¹⁷: an offset of ten thousand deviations is still removed.
CENTRES = FINE


def _columns(data: UserData, columns: tuple[bool, bool]) -> Iterator[FloatArray]:
    """Yield features and the target, each if asked for, of rows in order."""
    features, target = columns
    if features:
        yield from data.X.T
    if target:
        yield data.y


def drop_columns(data: UserData, left_out: tuple[bool, ...]) -> UserData:
    """Drop columns of rows."""
    return replace(data, X=data.X.T[~np.array(left_out)].T, store=None)


def target_as_column(data: UserData) -> UserData:
    """Keep the target as the only column of rows."""
    return replace(data, X=data.y[:, None], store=None)


def mean_cells(data: UserData, columns: tuple[bool, bool]) -> Iterator[IntArray]:
    """Find the cell of each user's mean in each column."""
    groups, everybody = data.groups, slice(0, data.groups.n_users)
    return (CENTRES.cells(groups.block_means(column, everybody)) for column in _columns(data, columns))


def distance_grids(n_columns: int, target: bool) -> list[Grid]:
    """Return the grids of the columns; a target's tail enters as a power of its scale, and needs a finer one."""
    return [OCTAVES] * (n_columns - target) + [EIGHTHS] * target


def distance_counts(data: UserData, columns: tuple[bool, bool], centres: FloatArray) -> IntArray:
    """Count users by the root mean square distance to the centre, one column after the other."""
    counts = [
        np.bincount(grid.cells(user_magnitudes(column, data.groups, centre)), minlength=grid.last + 1)
        for column, centre, grid in zip(
            _columns(data, columns), centres.tolist(), distance_grids(len(centres), columns[1]), strict=True
        )
    ]
    return np.concatenate(counts).astype(np.int64)


def mapped_rows(data: UserData, frame: Frame, target: bool) -> UserData:
    """Clip rows and map them to the coordinates of a frame."""
    store = data.writable(data.X.shape[1], spare=1)
    mapped = store[: data.X.shape[1]]
    low, high = (np.broadcast_to(ends, len(mapped)).tolist() for ends in frame.feature_range)
    clipped = np.isfinite(frame.half_ranges).any()
    for j, (column, centre, scale) in enumerate(zip(data.X.T, frame.centres, frame.scales, strict=True)):
        for rows in row_blocks(len(data)):
            out = mapped[j, rows]
            np.subtract(np.clip(column[rows], low[j], high[j]) if clipped else column[rows], centre, out=out)
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
    return replace(data, X=bounded_columns(data.X.T, bound, out=store[: data.X.shape[1]]).T, store=store)


def clip_data(data: UserData, frame: Frame) -> UserData:
    """Clip rows in their original units."""
    store = data.writable(data.X.shape[1])
    return replace(data, X=frame.bounded(data.X, out=store[: data.X.shape[1]]), store=store)


def norm_counts(data: UserData, constant: bool) -> IntArray:
    """Count users by the norm of their rows."""
    return scale_counts(_row_norms(data.X.T, data.groups, constant))


def _row_norms(columns: FloatArray, groups: UserGroups, constant: bool) -> FloatArray:
    """Compute the root mean square of the norms of each user's rows; infinite if not finite."""
    means = np.empty(groups.n_users)
    for users, rows in groups.blocks():
        squares = np.full(rows.stop - rows.start, float(constant))
        for column in columns[:, rows]:
            squares += column * column
        means[users] = groups.block_means(squares, users)
    return np.sqrt(means, out=means)


#: Features with centres and scales of at most these sizes, and a scale that is not small, are left unchanged.
MOST_CENTRE, MOST_SCALE = 1.5, 3.0
#: Noise of a prediction, in scales of the target, up to which a heavy tail widens the range of predictions.
PREDICTION_NOISE = 0.3
#: Ratio of two distances of a target that their errors explain: cells are no finer and users are few.
QUANTILE_ERROR = 1.1
#: Features of a classifier are clipped to this many scales about their centres, so that a heavy-tailed or badly scaled
#: one cannot dominate. Those of a regression are clipped as predictions are.
FEATURE_RANGE = 4.0
#: Rows of a regression are clipped to this many typical norms less than predictions have scales, if the target has a
#: light tail: longer rows add more noise than signal. Less below this noise level.
ROW_SHORT, FAR_LEVEL = 3.0, 1e-3


@dataclass(frozen=True)
class Standardisation:
    """Prices and options of finding a `Frame`.

    Without ``by_column`` all features are divided by one number, such that rows have a norm of about √n_features, and
    their means are left to `row_means`. ``target_epsilons`` decide the worst case. ``search`` and ``target_search``
    find centres and scales where selections are too expensive. With ``many_outputs`` a coarse centre is better than
    none. ``prepared`` marks columns that earlier releases have scaled; they are left alone.
    """

    terms: Terms
    n_features: int
    centred: bool
    target: bool
    median_epsilon: float
    distance_epsilon: float
    norm_epsilon: float | None
    by_column: bool = True
    target_epsilons: tuple[float, float] = (0.0, 0.0)
    tail_epsilon: float | None = None
    search: ColumnSearch | None = None
    target_search: ColumnSearch | None = None
    many_outputs: bool = False
    prepared: tuple[bool, ...] = ()

    @property
    def draws_nothing(self) -> bool:
        """True if nothing is drawn: rows should have a norm of about √n_features."""
        return not (self.by_column or self.target or self.norm_epsilon)

    @property
    def width(self) -> int:
        """Number of all columns."""
        return self.n_features + sum(self.prepared)

    def _among_all(self, values: FloatArray, fill: float) -> FloatArray:
        """Insert values of the columns that are not prepared among all, with ``fill`` for the others."""
        result = np.full(self.width, fill)
        result[~np.array(self.prepared, dtype=bool) if self.prepared else slice(None)] = values
        return result

    def _sought(self, rows: Partitions) -> Partitions:
        """Drop the columns that are prepared."""
        return rows.map(partial(drop_columns, left_out=self.prepared)) if self.prepared else rows

    @property
    def _columns(self) -> tuple[bool, bool]:
        """Flags of features and target: True where centres and scales are selected one by one."""
        return self.by_column and self.search is None, self.target and self.target_search is None

    @property
    def n_columns(self) -> int:
        """Number of columns that are selected one by one."""
        features, target = self._columns
        return features * self.n_features + target

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """All draws of `run`."""
        features, target = self._columns
        n_features = features * self.n_features
        prices = [
            (self.median_epsilon, n_features * self.centred),
            (self.distance_epsilon, n_features),
            (self.target_epsilons[0], target * self.centred),
            (self.target_epsilons[1], int(target)),
            (self.norm_epsilon, 1),
            (self.tail_epsilon, 1),
        ]
        events: list[tuple[PrivacyEvent, int]] = [
            (BoundedRangeEvent(price), count) for price, count in prices if price and count
        ]
        for search in (self.search, self.target_search):
            if search is not None:
                events.extend(search.events)
        if self.by_column:
            events.append((GaussianEvent(self.rare_multiplier, self.n_features), 1))
        return tuple(events)

    @property
    def rare_multiplier(self) -> float:
        """Noise multiplier of the mean squares of columns without a scale."""
        return self.terms.multiplier / math.sqrt(RARE_SHARE)

    def _prices(self, feature: float, target: float) -> list[float]:
        """List the prices of the columns' selections."""
        return [feature] * (self.n_columns - self._columns[1]) + [target] * self._columns[1]

    def _rarest(self, n_users: float) -> float:
        """Return the share of the users who may differ from the centre of a feature without a scale."""
        return MOST_BEYOND if self.search is not None else share_beyond(self.distance_epsilon, n_users)

    def _level(self, n_users: float) -> float:
        """Return the noise level ν of a fit with all the budget."""
        return self.terms.level(n_users, self.width)

    def decides(self, n_users: float) -> bool:
        """Return True if ``n_users`` decide all selections."""
        least = median_price(self.terms, n_users), distance_price(MOST_BEYOND, n_users)
        part = LEAST_PRICE if self.terms.n_users is None else 1.0
        columns = all(
            price * (1.0 + 1e-12) >= whole * needed
            for prices, whole, wanted in (
                ((self.median_epsilon, self.distance_epsilon), part, self._columns[0]),
                (self.target_epsilons, 1.0, self._columns[1]),
            )
            for price, needed in zip(prices, least, strict=True)
            if wanted
        )
        return columns and (self.norm_epsilon is None or self.terms.decides(self.norm_epsilon, n_users))

    def run(self, data: Partitions | UserData, n_users: float, release: Any) -> tuple[Partitions, Frame]:
        """Release the map and apply it to rows, sorted by user; nothing is changed where ``n_users`` are too few.

        ``n_users`` is public, or a released lower bound.
        """
        given = as_partitions(data)
        rows = given.map(UserData.in_order)
        # A released lower bound on the users may be 0 or less.
        n_users = max(n_users, 1.0)
        sought = self._sought(rows)
        centres = self._centres(sought, release)
        scales, tail = self._scales(sought, centres, n_users, release)
        if self.search is not None:
            found = self.search.run(sought, release)
            centres, scales = (np.append(a, b) for a, b in zip(found, (centres, scales), strict=True))
        if self.target_search is not None:
            found = self.target_search.run(rows.map(target_as_column), release)
            centres, scales = (np.append(a, b) for a, b in zip((centres, scales), found, strict=True))
        d = self.n_features
        useful = self.decides(n_users)
        frame, farthest = identity(self.width), 1.0
        if useful and self.target:
            # Where most targets are one value, the tail alone shows their scale.
            scale = float(scales[-1]) or tail
            frame = frame._replace(
                target_centre=float(centres[-1]), target_scale=scale or 1.0, target_found=scale > 0.0
            )
            if scale:
                frame = frame._replace(prediction_range=self._prediction_range(tail / scale, n_users))
        if useful and self.by_column and _prepared(centres[:d], scales[:d]):
            # Centres of a search are off by about half a deviation, as much as those of prepared features.
            if self.search is None or self.many_outputs:
                frame = frame._replace(centres=self._among_all(centres[:d], 0.0))
        elif useful and self.by_column:
            # A feature without a scale differs from its centre for a share β of the users at most. Clipped to β^(−1/2)
            # about it, its mean square is at most 1. Without noise nothing is clipped.
            farthest = self._rarest(n_users) ** -0.5 * max(1.0, RANGE_LEVEL / self._level(n_users))
            factor = frame.prediction_range if self.target else FEATURE_RANGE
            factor = row_bound_factor(factor, self._level(n_users))
            own, ends = scales[:d], np.where(scales[:d] > 0.0, factor * scales[:d], farthest)
            frame = frame._replace(
                centres=self._among_all(centres[:d], 0.0),
                scales=self._among_all(np.where(own > 0.0, own, 1.0), 1.0),
                half_ranges=self._among_all(ends, np.inf),
            )
        # Mapping may overwrite rows, so they are not mapped where they are to stay unchanged.
        mapped = rows
        if useful and self.by_column:
            mapped = rows.map(partial(mapped_rows, frame=frame, target=self.target))
        if self.by_column:
            # Drawn also where features are left unchanged: draws must not depend on released numbers.
            clipped = np.isfinite(frame.half_ranges).any() and useful
            rare = (scales[:d] == 0.0) & clipped
            own = rare_scales(
                self._sought(mapped),
                rare,
                self._rarest(n_users),
                farthest**2,
                multiplier=self.rare_multiplier,
                n_users=n_users,
                terms=self.terms,
                release=release,
            )
            if rare.any():
                own = self._among_all(own, 1.0)
                frame = frame._replace(scales=frame.scales * own)
                mapped = mapped.map(partial(rescaled, scales=own))
        row_norm = math.sqrt(self.width)
        if self.norm_epsilon is not None:
            row_norm = select_median_scale(
                mapped.sum(partial(norm_counts, constant=self.centred and self.by_column)),
                epsilon=self.norm_epsilon,
                release=release,
                monotone=self.terms.monotone,
            )
        if not useful:
            frame = frame._replace(row_bound=public_bound(self.width))
            return given.map(partial(clip_data, frame=frame)), frame
        if not self.by_column:
            frame = frame._replace(scales=np.full(self.width, row_norm / math.sqrt(self.width)))
            mapped = rows.map(partial(mapped_rows, frame=frame, target=self.target))
            row_norm = math.sqrt(self.width + self.centred)
        factor = (
            self._row_bound(frame.prediction_range, n_users) if self.by_column and self.target else ROW_BOUND
        )
        bound = row_norm * row_bound_factor(factor, self._level(n_users))
        return mapped.map(partial(clip_rows, bound=bound)), frame._replace(row_bound=bound, row_norm=row_norm)

    def _centres(self, rows: Partitions, release: Any) -> FloatArray:
        """Select the median of each column."""
        if not self.centred or not self.n_columns:
            return np.zeros(self.n_columns)
        cells = [
            private_median(
                WeightedCells(occupied, counts * UNIT_WEIGHT),
                grid=CENTRES,
                total=UNIT_WEIGHT,
                epsilon=price,
                adjacency=self.terms.adjacency,
                release=release,
                low=-CENTRES.last,
                high=CENTRES.last,
            )
            for price, (occupied, counts) in zip(
                self._prices(self.median_epsilon, self.target_epsilons[0]),
                rows.count(partial(mean_cells, columns=self._columns)),
                strict=True,
            )
        ]
        return np.array([CENTRES.value(cell) for cell in cells])

    def _scales(
        self, rows: Partitions, centres: FloatArray, n_users: float, release: Any
    ) -> tuple[FloatArray, float]:
        """Select the scale of each column, 0 if hardly a user differs from the centre; and that of the target's tail,
        or 0.
        """
        scales = np.zeros(self.n_columns)
        if not self.n_columns:
            return scales, 0.0
        grids = distance_grids(self.n_columns, self._columns[1])
        counts = np.split(
            rows.sum(partial(distance_counts, columns=self._columns, centres=centres)),
            np.cumsum([grid.last + 1 for grid in grids])[:-1],
        )
        prices = self._prices(self.distance_epsilon, self.target_epsilons[1])
        known = {grid: [int(grid.cells(np.array([1.0]))[0])] for grid in grids}
        for j, (cells, centre, price, grid) in enumerate(
            zip(counts, centres.tolist(), prices, grids, strict=True)
        ):
            beyond = share_beyond(price, n_users)
            distance = select_distance(
                cells, last_zero_cell(centre, grid), beyond * n_users, price, release, known[grid], grid
            )
            scales[j] = distance / -float(ndtri(0.5 * beyond))
            if distance:
                known[grid].append(int(grid.cells(np.array([distance]))[0]))
        if self.tail_epsilon is None:
            return scales, 0.0
        share, grid = share_beyond(self.tail_epsilon, n_users), grids[-1]
        tail = select_distance(
            counts[-1],
            last_zero_cell(float(centres[-1]), grid),
            share * n_users,
            self.tail_epsilon,
            release,
            grid=grid,
        )
        return scales, tail / -float(ndtri(0.5 * share))

    def _row_bound(self, prediction_range: float, n_users: float) -> float:
        """Return the norm bound of rows of a regression, in typical norms."""
        if self.tail_epsilon is None:
            return prediction_range
        light = max(0.0, 1.0 - (prediction_range - PREDICTION_RANGE) / ROW_SHORT)
        return prediction_range - ROW_SHORT * light * min(1.0, self._level(n_users) / FAR_LEVEL)

    def _prediction_range(self, excess: float, n_users: float) -> float:
        """Return the bound of predictions in scales: farther where the tail is heavier than that of normal targets.

        The scale of the tail over that of most targets, beyond its error, is a power of how rare it is. That power is
        extrapolated to the last user.
        """
        if self.tail_epsilon is None or excess <= QUANTILE_ERROR:
            return PREDICTION_RANGE
        share = share_beyond(self.tail_epsilon, n_users)
        power = math.log(excess / QUANTILE_ERROR) / math.log(MOST_BEYOND / share)
        most = PREDICTION_NOISE / self._level(n_users)
        # In logarithms, because the power may overflow.
        heavy = math.log(PREDICTION_RANGE * excess) + power * math.log(max(share * n_users, 1.0))
        return max(PREDICTION_RANGE, math.exp(heavy) if heavy < math.log(most) else most)


def _prepared(centres: FloatArray, scales: FloatArray) -> bool:
    """Return True if features seem to have about mean 0 and deviation 1 already.

    Centres that are known well are removed all the same: what features share with the intercept is noise in both.
    """
    return bool(np.abs(centres).max() <= MOST_CENTRE and 1.0 / MOST_SCALE <= scales.max() <= MOST_SCALE)


#: Largest share of the budget (in zCDP) for all columns: by selections that decide the worst case, or by a joint
#: search. Largest share with the target; and share where the number of users is private.
SHARE, MOST_SHARE = 0.25, 0.5
SHARE_PRIVATE_COUNT = 0.12
#: Share for the typical norm of a row alone, which prepared features do not need.
NORM_SHARE = 0.1
#: Share for the target alone, without whose centre predictions are useless; above the lower one it is found by a
#: search.
TARGET_SHARE, TARGET_SELECTED = 0.5, 0.2
#: Share for the tail of the target, and the largest and smallest part of the users in it.
TAIL_SHARE, MOST_TAIL, LEAST_TAIL = 0.08, 0.12, 0.002
#: Share of the budget for distances beyond their least price.
DISTANCE_SHARE = 0.04


def plan_standardisation(
    terms: Terms,
    *,
    n_features: int,
    centred: bool,
    target: bool,
    many_outputs: bool = False,
    prepared: tuple[bool, ...] = (),
) -> Standardisation | None:
    """Split the budget for standardisation by public numbers; None if ``n_users`` is too small."""
    n_features -= sum(prepared)
    rho = terms.rho
    median, least = median_price(terms, 1.0), distance_price(MOST_BEYOND, 1.0)
    typical = selection_epsilon(1.0, len(SCALES), monotone=terms.monotone)
    # ρ times the square of the number of users, of a column, and of the selections that are always made.
    column = (centred * median**2 + least**2) / 8.0
    fixed = target * column + typical**2 / 8.0

    by_column, norm, part, search, target_search = True, True, 1.0, None, None
    if terms.n_users is None:
        part = LEAST_PRICE
        n = math.sqrt((part**2 * n_features * column + fixed) / (SHARE_PRIVATE_COUNT * rho))
    else:
        n = float(terms.n_users)
        if target and column > TARGET_SELECTED * rho * n**2:
            target_search = plan_search(terms, n_columns=1, centred=centred, most=SHARE, assume_standard=True)
        if target_search is not None:
            fixed += target_search.share * rho * n**2 - column
        if n_features * column + fixed > SHARE * rho * n**2:
            most = min(SHARE, MOST_SHARE - fixed / (rho * n**2))
            search = plan_search(terms, n_columns=n_features, centred=centred, most=most)
            by_column, part = search is not None, float(search is None)
        if not by_column:
            most = MOST_SHARE if target_search is not None else SHARE if target else NORM_SHARE
            norm = fixed <= most * rho * n**2
            found = column <= TARGET_SHARE * rho * n**2 if target else centred and sees_common_mean(terms)
            if not (norm or target_search or found):
                return None
    distance, tail = part * least / n, None
    if terms.n_users is not None and by_column:
        surplus = math.sqrt(8.0 * DISTANCE_SHARE * rho / n_features)
        distance = max(distance, min(surplus, distance_price(LEAST_BEYOND, n))) if search is None else 0.0
        tail = min(math.sqrt(8.0 * TAIL_SHARE * rho), distance_price(LEAST_TAIL, n))
        tail = tail if target and tail >= distance_price(MOST_TAIL, n) else None
    return Standardisation(
        terms,
        n_features,
        centred,
        target,
        part * median / n,
        distance,
        typical / n if norm else None,
        by_column,
        (median / n, least / n),
        tail,
        search,
        target_search,
        many_outputs,
        prepared,
    )
