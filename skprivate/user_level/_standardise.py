"""Centres and scales of features and target, found privately before a descent, where users are enough.

A median and a reach of every column, each by one selection, and one more for the typical norm of a row. Centres and
scales need not be exact: they only have to make all directions alike, so nothing is summed and nothing has a range.
What a user contributes to a selection is one number: the mean of the user's values, or their root mean square about
the released centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Adjacency, BoundedRangeEvent, PrivacyEvent, gaussian_noise_multiplier
from skprivate.privacy._cells import Grid, WeightedCells
from skprivate.privacy._quantiles import OCTAVES, UNIT_WEIGHT, private_median, reach_costs
from skprivate.user_level._plan import Terms
from skprivate.user_level._private_range import SCALES, scale_counts, select_median_scale, selection_epsilon
from skprivate.user_level._problems import UserData
from skprivate.user_level._row_bound import REACH, bounded_columns, bounded_rows, public_bound, reach_of_rows
from skprivate.user_level._users import UserGroups, user_magnitudes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Largest share of the budget (in zCDP) for all columns where the number of users is public, and where it is not.
SHARE = 0.25
SHARE_PRIVATE_COUNT = 0.12
#: The same for the typical norm of a row alone, which is lost on features that are prepared.
NORM_SHARE = 0.1
#: And for the target alone: without its centre no prediction is of any use.
TARGET_SHARE = 0.5
#: What reaches may cost beyond the least, as a share of the budget.
REACH_SHARE = 0.04
#: Centres are found up to a relative 2⁻¹³: an offset of a thousand deviations is still removed.
CENTRES = Grid(12)
#: A reach is what so many of the users lie beyond: the fewer, the dearer.
MOST_BEYOND, LEAST_BEYOND = 0.35, 0.01
#: A reach up to these, in units of the centre and in the column's own, is none. About the centre of a column that is
#: mostly one value all distances are the error of the grid; and where about as many users as are sought have another
#: value than 0, every number between the two is as good a reach.
LEAST_RELATIVE, LEAST_REACH = 2.0**-13, 2.0**-30
#: Features with centres and scales of at most these sizes, and a scale that is not small, are left as they are.
MOST_CENTRE, MOST_SCALE = 1.5, 3.0
#: Predictions are kept within so many scales of the target about its centre, and within more below this noise level.
TARGET_REACH, RANGE_LEVEL = 6.0, 1e-5
#: ln of the numbers of candidates, and of how rarely a selection misses.
_MEDIAN_CANDIDATES = math.log(4 * 2 * 128 * 256)
_MISSES = 9.0
#: A priori the next larger reach is e^−_DECAY times as likely.
_DECAY = 1.0 / 24.0
_REACH_CANDIDATES = math.log(1.0 / _DECAY) + _MISSES


class Frame(NamedTuple):
    """Released affine map of features and target to about centre 0 and scale 1.

    Attributes
    ----------
    centres, scales : ndarray of shape (n_features,)
    target_centre, target_scale : float
    row_norm : float
        Typical Euclidean norm of a row after the map, with the constant 1 of an intercept.
    target_found : bool
        Whether the centre and the scale of the target were found.
    row_bound : float
        Rows that are longer after the map are drawn to this Euclidean norm.
    reaches : ndarray of shape (n_features,) or inf
        Features are clipped to so much about their centres.
    """

    centres: FloatArray
    scales: FloatArray
    target_centre: float
    target_scale: float
    row_norm: float
    target_found: bool = False
    row_bound: float = math.inf
    reaches: FloatArray | float = math.inf

    def coefficients(self, coef: FloatArray, fit_intercept: bool) -> FloatArray:
        """Coefficients of the features as they came, from those after the map: shape (n_outputs, n_coef)."""
        n_features = len(self.centres)
        result = coef * self.target_scale
        result[:, :n_features] /= self.scales
        if fit_intercept:
            result[:, -1] += self.target_centre - result[:, :n_features] @ self.centres
        return result

    @property
    def feature_range(self) -> tuple[FloatArray, FloatArray]:
        """Where features are meant to lie: lower and upper ends."""
        return self.centres - self.reaches, self.centres + self.reaches

    def bounded(self, X: FloatArray) -> FloatArray:
        """Rows as a fit looks at them: clipped and drawn in, in the units in which they came."""
        if np.isfinite(self.reaches).any():
            X = np.clip(X, *self.feature_range)
        with np.errstate(all="ignore"):
            return bounded_rows(X, self.centres, self.scales, self.row_bound)

    def target_range(self, level: float) -> tuple[float, float]:
        """Where predictions are meant to lie, for a fit of this noise level; everywhere if no scale was found."""
        if not self.target_found:
            return -math.inf, math.inf
        reach = TARGET_REACH * max(1.0, RANGE_LEVEL / level) * self.target_scale
        return self.target_centre - reach, self.target_centre + reach


def identity(n_features: int) -> Frame:
    """The map that changes nothing."""
    return Frame(np.zeros(n_features), np.ones(n_features), 0.0, 1.0, math.sqrt(n_features))


@dataclass(frozen=True)
class Standardisation:
    """What finding a `Frame` costs.

    Attributes
    ----------
    terms : Terms
    n_features : int
    centred : bool
        Whether an intercept can take up what centring removes.
    target : bool
        Whether the target is a number to be centred and scaled as well.
    median_epsilon, reach_epsilon, norm_epsilon : float
        Prices of each selection; of a norm None where it is not selected.
    by_column : bool
        Whether every feature has a centre and a scale of its own. Otherwise all are divided by one number, such that
        rows have a norm of about √n_features, and longer rows are drawn in.
    """

    terms: Terms
    n_features: int
    centred: bool
    target: bool
    median_epsilon: float
    reach_epsilon: float
    norm_epsilon: float | None
    by_column: bool = True

    @property
    def n_columns(self) -> int:
        return self.by_column * self.n_features + self.target

    @property
    def _columns(self) -> tuple[bool, bool]:
        """Whether features and target have centres and scales of their own."""
        return self.by_column, self.target

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """All that `run` draws."""
        prices = [(self.median_epsilon, self.n_columns * self.centred), (self.reach_epsilon, self.n_columns)]
        if self.norm_epsilon is not None:
            prices.append((self.norm_epsilon, 1))
        return tuple((BoundedRangeEvent(price), count) for price, count in prices if count)

    def _level(self, n_users: float) -> float:
        """Noise level ν of a fit with all the budget."""
        multiplier = gaussian_noise_multiplier(self.terms.epsilon, self.terms.delta)
        return self.terms.sum_sensitivity * multiplier * math.sqrt(self.n_features) / n_users

    def decides(self, n_users: float) -> bool:
        """Whether so many users decide all selections."""
        columns = not self.n_columns or (
            self.median_epsilon * (1.0 + 1e-12) >= _median_price(self.terms, n_users)
            and self.reach_epsilon * (1.0 + 1e-12) >= _reach_price(MOST_BEYOND, n_users)
        )
        return columns and (self.norm_epsilon is None or self.terms.decides(self.norm_epsilon, n_users))

    def run(self, data: Partitions | UserData, n_users: float, release: Any) -> tuple[Partitions, Frame]:
        """Draw the map and apply it; nothing is changed where ``n_users`` are too few.

        Parameters
        ----------
        data : Partitions or UserData
        n_users : float
            So many users there are at least: public, or a lower bound that was released.
        release : Release

        Returns
        -------
        rows : Partitions
            Of `UserData`, sorted by user, as contiguous columns.
        frame : Frame
        """
        given = as_partitions(data)
        rows = given.map(UserData.in_order)
        # The smallest tail that this price can tell from nobody; a lower bound on the users may be 0 or less.
        n_users = max(n_users, 1.0)
        beyond = min(_REACH_CANDIDATES * 2.0 / (self.reach_epsilon * n_users), MOST_BEYOND)
        centres = self._centres(rows, release)
        scales = self._scales(rows, centres, beyond, n_users, release)
        d = self.n_features
        useful = self.decides(n_users)
        frame = identity(d)
        if useful and self.target and scales[-1] > 0.0:
            frame = frame._replace(
                target_centre=float(centres[-1]), target_scale=float(scales[-1]), target_found=True
            )
        if useful and self.by_column and not _prepared(centres[:d], scales[:d]):
            # A feature without a scale differs from its centre for a share β of the users at most: clipped to
            # β^(−1/2) about it, its mean square is at most 1. Without noise nothing is clipped.
            reach = beyond**-0.5 * max(1.0, RANGE_LEVEL / self._level(n_users))
            frame = frame._replace(
                centres=centres[:d],
                scales=np.where(scales[:d] > 0.0, scales[:d], 1.0),
                reaches=np.where(scales[:d] > 0.0, math.inf, reach),
            )
        mapped = rows.map(partial(_mapped, frame=frame, target=self.target)) if self.by_column else rows
        row_norm = math.sqrt(d)
        if self.norm_epsilon is not None:
            row_norm = select_median_scale(
                mapped.sum(partial(_norm_counts, constant=self.centred and self.by_column)),
                epsilon=self.norm_epsilon,
                release=release,
                monotone=self.terms.monotone,
            )
        if not useful:
            frame = frame._replace(row_bound=public_bound(d))
            return given.map(partial(bounded_data, frame=frame)), frame
        if not self.by_column:
            frame = frame._replace(scales=np.full(d, row_norm / math.sqrt(d)))
            mapped = rows.map(partial(_mapped, frame=frame, target=self.target))
            row_norm = math.sqrt(d + self.centred)
        reach = TARGET_REACH if self.by_column and self.target else REACH
        bound = row_norm * reach_of_rows(reach, self._level(n_users))
        return mapped.map(partial(_drawn_in, bound=bound)), frame._replace(row_bound=bound, row_norm=row_norm)

    def _centres(self, rows: Partitions, release: Any) -> FloatArray:
        """Private median of each column."""
        if not self.centred or not self.n_columns:
            return np.zeros(self.n_columns)
        cells = [
            private_median(
                WeightedCells(occupied, counts * UNIT_WEIGHT),
                grid=CENTRES,
                total=UNIT_WEIGHT,
                epsilon=self.median_epsilon,
                adjacency=self.terms.adjacency,
                release=release,
                low=-CENTRES.last,
                high=CENTRES.last,
            )
            for occupied, counts in rows.count(partial(_mean_cells, columns=self._columns))
        ]
        return np.array([CENTRES.value(cell) for cell in cells])

    def _scales(
        self, rows: Partitions, centres: FloatArray, beyond: float, n_users: float, release: Any
    ) -> FloatArray:
        """Scale of each column; 0 if hardly a user differs from the centre."""
        scales = np.zeros(self.n_columns)
        if not self.n_columns:
            return scales
        counts = rows.sum(partial(_distance_counts, columns=self._columns, centres=centres))
        for j, (cells, centre) in enumerate(zip(counts, centres.tolist(), strict=True)):
            occupied = np.flatnonzero(cells)
            chosen = release.select(
                -reach_costs(
                    WeightedCells(occupied, cells[occupied] * UNIT_WEIGHT),
                    target=math.ceil(beyond * n_users * UNIT_WEIGHT),
                    penalty=math.ceil(2.0 * _DECAY / self.reach_epsilon * UNIT_WEIGHT),
                ),
                sensitivity=UNIT_WEIGHT,
                epsilon=self.reach_epsilon,
            )
            reach = OCTAVES.value(int(chosen))
            if reach > max(LEAST_REACH, LEAST_RELATIVE * abs(centre)):
                scales[j] = reach / float(norm.isf(0.5 * beyond))
        return scales


def _columns(data: UserData, columns: tuple[bool, bool]) -> Iterator[FloatArray]:
    """Features and the target, each if asked for, of rows in order."""
    features, target = columns
    if features:
        yield from data.X.T
    if target:
        yield data.y


def _mean_cells(data: UserData, columns: tuple[bool, bool]) -> list[IntArray]:
    """Cell of each user's mean in each column."""
    return [CENTRES.cells(data.groups.block_means_of(column)) for column in _columns(data, columns)]


def _distance_counts(data: UserData, columns: tuple[bool, bool], centres: FloatArray) -> IntArray:
    """Number of users in each cell of the root mean square distance to the centre, column by column."""
    counts = [
        np.bincount(OCTAVES.cells(user_magnitudes(column - centre, data.groups)), minlength=OCTAVES.last + 1)
        for column, centre in zip(_columns(data, columns), centres.tolist(), strict=True)
    ]
    return np.array(counts, dtype=np.int64)


def _mapped(data: UserData, frame: Frame, target: bool) -> UserData:
    """Rows, clipped, in the coordinates of a frame."""
    columns = data.X.T
    if np.isfinite(frame.reaches).any():
        low, high = frame.feature_range
        columns = np.clip(columns, low[:, None], high[:, None])
    mapped = np.empty(columns.shape)
    for column, centre, scale, out in zip(columns, frame.centres, frame.scales, mapped, strict=True):
        np.subtract(column, centre, out=out)
        out /= scale
    y = (data.y - frame.target_centre) / frame.target_scale if target else data.y
    return replace(data, X=mapped.T, y=y)


def _drawn_in(data: UserData, bound: float) -> UserData:
    return replace(data, X=bounded_columns(data.X.T, bound).T)


def bounded_data(data: UserData, frame: Frame) -> UserData:
    """Rows drawn in, in the units in which they came."""
    return replace(data, X=frame.bounded(data.X))


def _norm_counts(data: UserData, constant: bool) -> IntArray:
    return scale_counts(_row_norms(data.X.T, data.groups, constant))


def plan_standardisation(
    terms: Terms, *, n_features: int, centred: bool, target: bool
) -> Standardisation | None:
    """Prices by public numbers; None where users are known to be too few.

    Parameters
    ----------
    terms : Terms
    n_features : int
    centred, target : bool
        As in `Standardisation`.
    """
    rho = 0.5 / gaussian_noise_multiplier(terms.epsilon, terms.delta) ** 2
    median, least = _median_price(terms, 1.0), _reach_price(MOST_BEYOND, 1.0)
    typical = selection_epsilon(1.0, len(SCALES), monotone=terms.monotone)

    def least_users(count: int, share: float, norm: bool = True) -> float:
        # ρ times the square of the users
        needed = (count * (centred * median**2 + least**2) + norm * typical**2) / 8.0
        return math.sqrt(needed / (share * rho))

    by_column, norm, count = True, True, n_features + target
    if terms.n_users is None:
        n = least_users(count, SHARE_PRIVATE_COUNT)
    else:
        n = float(terms.n_users)
        if n < least_users(count, SHARE):
            by_column, count = False, int(target)
            norm = n >= least_users(count, SHARE if target else NORM_SHARE)
            if not norm and (not target or n < least_users(count, TARGET_SHARE, norm=False)):
                return None
    reach = least / n
    if terms.n_users is not None and count:
        reach = max(reach, min(math.sqrt(8.0 * REACH_SHARE * rho / count), _reach_price(LEAST_BEYOND, n)))
    return Standardisation(
        terms, n_features, centred, target, median / n, reach, typical / n if norm else None, by_column
    )


def _prepared(centres: FloatArray, scales: FloatArray) -> bool:
    """Whether features seem to have about mean 0 and deviation 1 as they are: then somebody chose their scales."""
    return bool(np.abs(centres).max() <= MOST_CENTRE and 1.0 / MOST_SCALE <= scales.max() <= MOST_SCALE)


def _median_price(terms: Terms, n_users: float) -> float:
    factor = 2.0 if terms.adjacency is Adjacency.ADD_REMOVE else 4.0
    return factor * (_MEDIAN_CANDIDATES + _MISSES) / max(n_users, 1.0)


def _reach_price(beyond: float, n_users: float) -> float:
    return 2.0 * _REACH_CANDIDATES / (beyond * max(n_users, 1.0))


def _row_norms(columns: FloatArray, groups: UserGroups, constant: bool) -> FloatArray:
    """Root mean square of the norms of each user's rows, about; not finite ones are infinite."""
    squares = np.full(groups.n_rows, float(constant))
    for column in columns:
        squares += column * column
    return np.sqrt(groups.block_means_of(squares))
