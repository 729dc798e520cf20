"""What a standardisation sees of rows, and makes of them: passes over blocks, of which no result shows the blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from skprivate.privacy.draws._quantiles import EIGHTHS, FINE, OCTAVES, Grid
from skprivate.user_level._frame import Frame
from skprivate.user_level._private_range import scale_counts
from skprivate.user_level._problems import UserData
from skprivate.user_level._row_bound import bounded_columns
from skprivate.user_level._users import UserGroups, row_blocks, user_magnitudes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Centres are found up to a relative 2⁻¹⁷: an offset of ten thousand deviations is still removed.
CENTRES = FINE


def _columns(data: UserData, columns: tuple[bool, bool]) -> Iterator[FloatArray]:
    """Features and the target, each if asked for, of rows in order."""
    features, target = columns
    if features:
        yield from data.X.T
    if target:
        yield data.y


def without(data: UserData, left_out: tuple[bool, ...]) -> UserData:
    """Rows with the other columns alone."""
    return replace(data, X=data.X.T[~np.array(left_out)].T, store=None)


def target_alone(data: UserData) -> UserData:
    """Rows with the target as their only column."""
    return replace(data, X=data.y[:, None], store=None)


def mean_cells(data: UserData, columns: tuple[bool, bool]) -> Iterator[IntArray]:
    """Cell of each user's mean in each column."""
    return (CENTRES.cells(data.groups.block_means_of(column)) for column in _columns(data, columns))


def distance_grids(n_columns: int, target: bool) -> list[Grid]:
    """Of the columns: a target's tail is that in its scale, to a power, and needs a finer one."""
    return [OCTAVES] * (n_columns - target) + [EIGHTHS] * target


def distance_counts(data: UserData, columns: tuple[bool, bool], centres: FloatArray) -> IntArray:
    """Number of users in each cell of the root mean square distance to the centre, one column after the other."""
    counts = [
        np.bincount(grid.cells(user_magnitudes(column, data.groups, centre)), minlength=grid.last + 1)
        for column, centre, grid in zip(
            _columns(data, columns), centres.tolist(), distance_grids(len(centres), columns[1]), strict=True
        )
    ]
    return np.concatenate(counts).astype(np.int64)


def mapped_rows(data: UserData, frame: Frame, target: bool) -> UserData:
    """Rows, clipped, in the coordinates of a frame."""
    store = data.writable(data.X.shape[1], room=1)
    mapped = store[: data.X.shape[1]]
    low, high = (np.broadcast_to(ends, len(mapped)).tolist() for ends in frame.feature_range)
    clipped = np.isfinite(frame.reaches).any()
    for j, (column, centre, scale) in enumerate(zip(data.X.T, frame.centres, frame.scales, strict=True)):
        for rows in row_blocks(len(data)):
            out = mapped[j, rows]
            np.subtract(np.clip(column[rows], low[j], high[j]) if clipped else column[rows], centre, out=out)
            out /= scale
    y = (data.y - frame.target_centre) / frame.target_scale if target else data.y
    return replace(data, X=mapped.T, y=y, store=store)


def rescaled(data: UserData, scales: FloatArray) -> UserData:
    """Rows with columns divided once more."""
    store = data.writable(data.X.shape[1], room=1)
    mapped = store[: data.X.shape[1]]
    for column, scale, out in zip(data.X.T, scales.tolist(), mapped, strict=True):
        np.divide(column, scale, out=out)
    return replace(data, X=mapped.T, store=store)


def drawn_in(data: UserData, bound: float) -> UserData:
    """Rows in the coordinates of a frame drawn to that length."""
    store = data.writable(data.X.shape[1])
    return replace(data, X=bounded_columns(data.X.T, bound, out=store[: data.X.shape[1]]).T, store=store)


def bounded_data(data: UserData, frame: Frame) -> UserData:
    """Rows drawn in, in the units in which they came."""
    store = data.writable(data.X.shape[1])
    return replace(data, X=frame.bounded(data.X, out=store[: data.X.shape[1]]), store=store)


def norm_counts(data: UserData, constant: bool) -> IntArray:
    """Number of users whose rows have about each length."""
    return scale_counts(_row_norms(data.X.T, data.groups, constant))


def _row_norms(columns: FloatArray, groups: UserGroups, constant: bool) -> FloatArray:
    """Root mean square of the norms of each user's rows, about; not finite ones are infinite."""
    means = np.empty(groups.n_users)
    for users, rows in groups.blocks():
        squares = np.full(rows.stop - rows.start, float(constant))
        for column in columns[:, rows]:
            squares += column * column
        means[users] = groups.block_means(squares, users)
    return np.sqrt(means, out=means)
