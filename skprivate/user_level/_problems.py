"""One vector per user at a query point: the only thing that descents and means see of the data.

A problem yields the users' vectors block by block, coordinates first. Everything else follows from them:
``contribution_sum``, the exact sum over users of integer vectors weight·g/max(‖g‖, C) of norm at most 1 whatever the
data; ``gradient_norms``, for the selection of C; ``user_gradients``, for the published algorithms.

The unit of privacy is a user, so a user's vector must be a function of the user's own rows, to the last bit. Linear
models round rows to integers, so that matrix products are exact. All else is computed elementwise along users or rows
and in a fixed order over coordinates, never by BLAS. Rows are brought together user by user, and sums over a user's
rows run over these alone, in their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from skprivate.partitions import Partitions
from skprivate.privacy import CONTRIBUTION_BITS, ball_contributions, encode_identifiers, exact_sum
from skprivate.user_level import _losses, _ranges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32] | npt.NDArray[np.int64]

#: Number of rows whose columns fit into the cache. No result depends on it.
BLOCK_ROWS = 2**14
#: Bits of the entries of an integer row.
ROW_BITS = 15
#: Bits of integers that float64 holds exactly.
EXACT_BITS = 53
#: Users whose largest entry is beyond these count for nothing: its unit would have no inverse.
LEAST_PEAK, LARGEST_PEAK = 2.0**-1000, 2.0**1000
#: Squares below this may have lost digits by underflow, which would make a norm too small.
LEAST_SQUARE = 2.0**-900


class UserGroups:
    """Assignment of rows to users, numbered 0 … n_users − 1 without gaps.

    A user with m rows has weight min(m, weight_cap)/weight_cap. ``starts`` tells where each user's rows begin when rows
    are sorted by user, and ends with the number of rows.
    """

    def __init__(self, codes: IntArray, weight_cap: int = 1) -> None:
        self._set_sizes(np.bincount(codes).astype(np.int64), weight_cap)
        self.in_order = bool((codes[1:] >= codes[:-1]).all())
        self._codes: IntArray | None = None if self.in_order else codes

    @classmethod
    def of_sizes(cls, sizes: IntArray, weight_cap: int = 1) -> Self:
        """Make users with these numbers of rows, one user's rows after the other's."""
        groups = cls.__new__(cls)
        groups._set_sizes(sizes, weight_cap)
        groups.in_order, groups._codes = True, None
        return groups

    @classmethod
    def of_rows(cls, n_rows: int, weight_cap: int = 1) -> Self:
        """Make a user of each row; their sizes and weights are one number each in memory."""
        return cls.of_sizes(np.broadcast_to(np.ones(1, dtype=np.int64), n_rows), weight_cap)

    def _set_sizes(self, sizes: IntArray, weight_cap: int) -> None:
        self.weight_cap = weight_cap
        self.sizes: IntArray = sizes
        self.n_users = len(sizes)
        self.starts: IntArray = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=self.starts[1:])
        self.n_rows = int(self.starts[-1])
        self.alone = bool((sizes == 1).all())  # each user has one row
        shares = np.ones(1) / weight_cap if self.alone else np.minimum(sizes, weight_cap) / weight_cap
        self.weights: FloatArray = np.broadcast_to(shares, len(sizes))

    @property
    def codes(self) -> IntArray:
        """User of each row."""
        if self._codes is not None:
            return self._codes
        codes = np.repeat(np.arange(self.n_users), self.sizes)
        if not self.in_order:
            codes[self.order] = codes.copy()
        return codes

    @cached_property
    def order(self) -> Rows:
        """Rows sorted by user; those of one user in their own order."""
        if self.in_order:
            return np.arange(self.n_rows)
        # A matrix with one entry a row, read column by column: a stable sort by counting, in linear time.
        kind = np.int32 if self.n_rows < 2**31 else np.int64
        codes, ends = self.codes.astype(kind), np.arange(self.n_rows + 1, dtype=kind)
        entries = (np.ones(self.n_rows, dtype=bool), codes, ends)
        by_user: Rows = csr_array(entries, shape=(self.n_rows, self.n_users)).tocsc().indices
        self._codes = None  # they follow from the order
        return by_user

    def subset(self, users: IntArray) -> tuple[Rows, UserGroups]:
        """Return the rows of some users, sorted by user, and these users alone."""
        sizes = self.sizes[users]
        ends = np.cumsum(sizes)
        places = np.arange(int(sizes.sum())) + np.repeat(self.starts[users] - ends + sizes, sizes)
        return places if self.in_order else self.order[places], UserGroups.of_sizes(sizes, self.weight_cap)

    def sorted(self) -> UserGroups:
        """Return the same users with rows sorted by user."""
        return self if self.in_order else UserGroups.of_sizes(self.sizes, self.weight_cap)

    def columns(self, X: FloatArray, spare: int = 0) -> FloatArray:
        """Sort rows by user, coordinates first: shape (n_columns, n_rows). No copy where X is that already."""
        if not spare and self.in_order and X.T.flags.c_contiguous:
            return X.T
        columns = np.empty((X.shape[1] + spare, self.n_rows))
        for rows in row_blocks(self.n_rows):
            columns[: X.shape[1], rows] = self.sorted_rows(X, rows).T
        return columns

    def sorted_rows(self, values: FloatArray, rows: slice) -> FloatArray:
        """Take a slice of the rows sorted by user."""
        if self.in_order:
            return values[rows]
        # Faster than an index, where it need not copy all values first.
        return values.take(self.order[rows], axis=0) if values.flags.c_contiguous else values[self.order[rows]]

    def blocks(self, most: int | None = None) -> Iterator[tuple[slice, slice]]:
        """Yield users and their sorted rows: at most ``most`` rows (`BLOCK_ROWS`), unless one user alone has more."""
        most = BLOCK_ROWS if most is None else min(most, BLOCK_ROWS)
        first = 0
        while first < self.n_users:
            limit = self.starts[first] + most
            last = max(first + 1, int(np.searchsorted(self.starts, limit, side="right")) - 1)
            yield slice(first, last), slice(int(self.starts[first]), int(self.starts[last]))
            first = last

    def block_means(self, values: FloatArray, users: slice) -> FloatArray:
        """Average over each user's rows, for the users of a block and their sorted rows: along the last axis.

        The mean of one row is that row, so a block of users with one row each comes out the same without summing.
        """
        if values.shape[-1] == users.stop - users.start:
            return values
        begins = self.starts[users] - self.starts[users.start]
        return np.asarray(np.add.reduceat(values, begins, axis=-1) / self.sizes[users])

    def mean(self, values: FloatArray) -> FloatArray:
        """Average each user's rows."""
        means = np.empty((1 if values.ndim == 1 else values.shape[1], self.n_users))
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            for users, rows in self.blocks():
                block = self.sorted_rows(values, rows).reshape(-1, len(means))
                means[:, users] = self.block_means(np.ascontiguousarray(block.T, dtype=np.float64), users)
        return means[0] if values.ndim == 1 else means


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Yield slices of rows that fit into the cache, where each row is treated by itself."""
    for first in range(0, n_rows, BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, n_rows))


def user_magnitudes(y: FloatArray, groups: UserGroups, centre: float = 0.0) -> FloatArray:
    """Compute the root mean square distance of each user's numbers to a centre, scaled against overflow."""
    magnitudes = np.empty(groups.n_users)
    for users, rows in groups.blocks():
        begins, sizes = groups.starts[users] - rows.start, groups.sizes[users]
        distances = groups.sorted_rows(y, rows) - centre
        np.abs(distances, out=distances)
        if len(sizes) == len(distances):
            magnitudes[users] = distances + 0.0 * distances  # as below: infinite ones are not numbers
            continue
        peak = np.maximum.reduceat(distances, begins)
        distances /= np.repeat(np.where(peak > 0.0, peak, 1.0), sizes)
        distances *= distances
        magnitudes[users] = peak * np.sqrt(np.add.reduceat(distances, begins) / sizes)
    return magnitudes


def encode_users(user_ids: Any, n_rows: int) -> tuple[IntArray, npt.NDArray[Any]]:
    """Return numbers of the users of the rows, and their identifiers; without ``user_ids`` each row is its own user."""
    if user_ids is None:
        codes = np.arange(n_rows, dtype=np.int64)
        return codes, codes
    return encode_identifiers(user_ids, n_rows)


class UserProblem:
    """One vector per user, a function of ``n_coef`` unknowns."""

    n_coef: int
    groups: UserGroups

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.groups.n_rows

    def gradient_blocks(self, w: FloatArray) -> Iterator[tuple[slice | IntArray, FloatArray]]:
        """Yield every user once: users of a block, and their vectors at ``w``, of shape (n_coef, n_users_of_block).

        The caller may overwrite the vectors until the next block, which may come in their place.
        """
        raise NotImplementedError

    def contribution_sum(self, w: FloatArray, radius: float) -> npt.NDArray[Any]:
        """Sum weight_u·g_u/max(‖g_u‖, radius) over users in steps of 2⁻³⁰: integers of shape (n_coef,).

        One user added or removed moves it by a vector of ℓ2 norm at most 2³⁰.
        """
        groups = self.groups
        weights = None if groups.weight_cap == 1 else groups.weights  # of 1
        nobody = np.zeros((self.n_coef, 0))  # a block may be empty
        blocks = (
            ball_contributions(vectors, radius, weights=None if weights is None else weights[users], out=vectors)
            for users, vectors in self.gradient_blocks(w)
        )
        return exact_sum(chain([nobody], blocks), bound=2**CONTRIBUTION_BITS)

    def gradient_norms(self, w: FloatArray) -> FloatArray:
        """Compute the ℓ2 norm of each user's vector."""
        norms = np.empty(self.groups.n_users)
        for users, vectors in self.gradient_blocks(w):
            norms[users] = vector_norms(vectors)
        return norms

    def user_gradients(self, w: FloatArray) -> FloatArray:
        """Collect every user's vector: shape (n_users, n_coef)."""
        gradients = np.empty((self.groups.n_users, self.n_coef))
        for users, vectors in self.gradient_blocks(w):
            gradients[users] = vectors.T
        return gradients


def vector_norms(vectors: FloatArray) -> FloatArray:
    """Compute ℓ2 norms of vectors of shape (n_coordinates, n), scaled against overflow; infinite if not finite."""
    peak, squares, ratio = np.zeros((3, vectors.shape[1]))
    for row in vectors:
        np.maximum(peak, np.abs(row, out=ratio), out=peak)
    divisor = np.where(peak > 0.0, peak, 1.0)
    for row in vectors:
        np.divide(row, divisor, out=ratio)
        squares += np.multiply(ratio, ratio, out=ratio)
    return np.where(np.isfinite(peak), peak * np.sqrt(squares), np.inf)


class MeanProblem(UserProblem):
    """½‖w − x_u‖² for one vector x_u per user: its minimiser is the mean of ``vectors`` of shape (n_coef, n_users)."""

    def __init__(self, vectors: FloatArray, groups: UserGroups) -> None:
        self.vectors = vectors
        self.groups = groups
        self.n_coef = len(vectors)

    def gradient_blocks(self, w: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        for first in range(0, self.groups.n_users, BLOCK_ROWS):
            users = slice(first, first + BLOCK_ROWS)
            yield users, w[:, None] - self.vectors[:, users]


@dataclass(frozen=True, eq=False)
class UserData:
    """Private rows of a fit.

    ``names`` are the users' identifiers or their `identifier_tags`. ``store`` is memory whose first columns are ``X``,
    if whoever maps these rows may overwrite it; that spares a copy of all data.
    """

    X: FloatArray
    y: npt.NDArray[Any]
    groups: UserGroups
    names: npt.NDArray[Any]
    store: FloatArray | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.groups.n_rows

    def in_order(self) -> UserData:
        """Return rows sorted by user, as contiguous columns."""
        if self.groups.in_order and self.X.T.flags.c_contiguous:
            return self
        return self.copied_in_order()

    def copied_in_order(self) -> UserData:
        """Copy rows, sorted by user, to a store with space for one more column."""
        y = np.asfortranarray(self.groups.sorted_rows(self.y, slice(None)))  # first: it frees the codes
        store = self.groups.columns(self.X, spare=1)
        return UserData(store[:-1].T, y, self.groups.sorted(), self.names, store)

    def writable(self, n_columns: int, spare: int = 0) -> FloatArray:
        """Return memory for ``n_columns`` columns in place of ``X``: its store, or a new one for ``spare`` more."""
        if self.store is None or len(self.store) < n_columns:
            return np.empty((n_columns + spare, len(self)))
        return self.store

    def subset(self, users: IntArray) -> UserData:
        """Take some of the users, with their rows sorted."""
        rows, groups = self.groups.subset(users)
        # Columns stay columns.
        X = np.take(self.X.T, rows, axis=1).T if self.X.T.flags.c_contiguous else self.X[rows]
        return UserData(X, self.y[rows], groups, self.names[users])


def count_users(rows: Partitions, public: int | None) -> int:
    """Return the public number of users, or count them."""
    return int(rows.sum(number_of_users)[0]) if public is None else public


def number_of_users(block: UserData | UserProblem | npt.NDArray[Any]) -> IntArray:
    """Count the users of a block, which are the rows of an array."""
    n_users = len(block) if isinstance(block, np.ndarray) else block.groups.n_users
    return np.array([n_users], dtype=np.int64)


def target_counts(data: UserData, scales: FloatArray) -> IntArray:
    """Count the users whose targets are nearest to each scale."""
    return _ranges.scale_counts(user_magnitudes(data.y, data.groups), scales)


@dataclass(frozen=True)
class Objective:
    """Public side of a linear model: loss, shape, penalty.

    The penalty of the coefficients w of an output is alpha/2·wᵀ·metric·w; without a metric their squares, but the
    intercept's. Rows whose norm, with the intercept's 1, exceeds ``max_norm`` get a smaller weight in proportion.
    """

    loss: _losses.LinearLoss | _losses.CustomLoss
    n_features: int
    n_outputs: int
    fit_intercept: bool
    alpha: float = 0.0
    metric: FloatArray | None = field(default=None, compare=False)
    max_norm: float = math.inf

    @property
    def n_coef(self) -> int:
        return self.n_outputs * (self.n_features + self.fit_intercept)

    def penalty(self, w: FloatArray) -> FloatArray:
        """Compute the gradient of the penalty, a public vector."""
        coef = w.reshape(self.n_outputs, -1)
        if self.metric is not None:
            return np.asarray(self.alpha * (coef @ self.metric)).ravel()
        gradient = self.alpha * coef
        if self.fit_intercept:
            gradient[:, -1] = 0.0
        return gradient.ravel()

    def problem(self, data: UserData) -> UserProblem:
        """Make the users' mean gradients; the way a user's is computed depends on the user's own rows alone."""
        if hasattr(self.loss, "gradient"):
            return _CustomProblem(self, data)
        if data.groups.alone:
            return _RowProblem(self, data)
        several = data.groups.sizes > 1
        if several.all():
            return _SeveralRowsProblem(self, data)
        parts: list[tuple[IntArray, UserProblem]] = []
        for users, kind in ((np.flatnonzero(several), _SeveralRowsProblem), (np.flatnonzero(~several), _RowProblem)):
            parts.append((users, kind(self, data.subset(users))))
        return _Parts(data.groups, parts)


class _Parts(UserProblem):
    """Users of several problems together."""

    def __init__(self, groups: UserGroups, parts: list[tuple[IntArray, UserProblem]]) -> None:
        self.groups = groups
        self.parts = parts
        self.n_coef = parts[0][1].n_coef

    def contribution_sum(self, w: FloatArray, radius: float) -> npt.NDArray[Any]:
        first, second = (part.contribution_sum(w, radius) for _, part in self.parts)
        return exact_sum(iter((first[:, None], second[:, None])))

    def chance_sum(self, w: FloatArray) -> npt.NDArray[Any]:
        """Sum the users' mean chances."""
        first, second = (part.chance_sum(w) for _, part in self.parts)  # type: ignore[attr-defined]
        return exact_sum(iter((first[:, None], second[:, None])))

    def gradient_norms(self, w: FloatArray) -> FloatArray:
        norms = np.empty(self.groups.n_users)
        for numbers, part in self.parts:
            norms[numbers] = part.gradient_norms(w)
        return norms

    def gradient_blocks(self, w: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        for numbers, part in self.parts:
            for users, vectors in part.gradient_blocks(w):
                yield numbers[users], vectors


class _LinearProblem(UserProblem):
    """Gradients of a linear loss, from rows that are rounded once to integers.

    A row is ``unit`` times integers of at most 15 bits; ``unit``, a power of two, fits the largest entry of the user's
    own rows. Scores are products of these with integer coefficients, whose sums float64 holds exactly. So a matrix
    product gives the same digits wherever a row stands and however it is summed.
    """

    def __init__(self, objective: Objective, data: UserData) -> None:
        self.objective = objective
        self.n_coef = objective.n_coef
        self.groups = data.groups
        self.rows, self.units, self.norms = integer_rows(data, objective.fit_intercept)
        self.target = data.groups.columns(data.y if data.y.ndim == 2 else data.y[:, None])  # of nobody, too
        most = objective.max_norm
        self.weights = None if math.isinf(most) else most / np.maximum(self.norms * self.units, most)

    def _scores(self, w: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Compute the scores of each row, one output after the other, and the rows in float64."""
        block = self.rows[rows].astype(np.float64)
        coef = w.reshape(self.objective.n_outputs, -1)
        bits = EXACT_BITS - 1 - ROW_BITS - coef.shape[1].bit_length()
        step = math.ldexp(1.0, math.frexp(float(np.abs(coef).max(initial=0.0)))[1] - bits)
        scores = np.ascontiguousarray((block @ np.rint(coef.T / step)).T)
        scores *= self.units[rows]
        scores *= step
        return scores, block

    def _slopes(self, w: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Compute the derivative of each row's loss, one output after the other, and the rows in float64."""
        scores, block = self._scores(w, rows)
        target = np.ascontiguousarray(self.target[:, rows], dtype=np.float64)
        slopes = self.objective.loss.derivative(scores, target)  # type: ignore[union-attr]
        if self.weights is not None:
            slopes *= self.weights[rows]
        return slopes, block

    def chance_sum(self, w: FloatArray) -> npt.NDArray[Any]:
        """Sum the users' mean chances of the classes, or of the second of two, in steps of 2⁻³⁰.

        One user added or removed moves it by numbers that are not negative and have ℓ2 norm at most 2³⁰.
        """
        groups, total = self.groups, np.zeros(self.objective.n_outputs, dtype=np.int64)
        for users, rows in groups.blocks():
            scores, _ = self._scores(w, rows)
            # A chance is the derivative for a row that is of another class.
            other = np.full(scores.shape, -1.0 if len(scores) == 1 else 0.0)
            chances = self.objective.loss.derivative(scores, other)  # type: ignore[union-attr]
            means = groups.block_means(chances, users)
            total += exact_sum(ball_contributions(means, 1.0, weights=groups.weights[users]))
        return total


class _RowProblem(_LinearProblem):
    """Users with one row each: a contribution is an integer multiple of the row."""

    def contribution_sum(self, w: FloatArray, radius: float) -> npt.NDArray[Any]:
        total = np.zeros(self.n_coef, dtype=np.int64)
        for rows in row_blocks(self.groups.n_rows):
            slopes, block = self._slopes(w, rows)
            # A factor is rounded, which moves the contribution by half the row for each output at most.
            norms = self.norms[rows]
            length = np.maximum(slope_norms(slopes) * norms, radius / self.units[rows])
            whole = math.ldexp(1.0 - 2.0**-40 - len(slopes) * 2.0**-52, CONTRIBUTION_BITS)
            most = np.maximum(whole - 0.5 * math.sqrt(len(slopes)) * norms, 0.0) / self.groups.weight_cap
            factors = np.rint(slopes * np.divide(most, length, out=np.zeros_like(length), where=length > 0.0))
            factors[:, ~np.isfinite(factors).all(axis=0)] = 0.0
            total += (factors @ block).ravel().astype(np.int64)
        return total

    def gradient_blocks(self, w: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        for rows in row_blocks(self.groups.n_rows):
            slopes, block = self._slopes(w, rows)
            values = block.T * self.units[rows]
            yield rows, np.concatenate([values * slope for slope in slopes])

    def gradient_norms(self, w: FloatArray) -> FloatArray:
        norms = np.empty(self.groups.n_users)
        for rows in row_blocks(self.groups.n_rows):
            slopes, _ = self._slopes(w, rows)
            norms[rows] = slope_norms(slopes) * self.norms[rows] * self.units[rows]
        return norms


def slope_norms(slopes: FloatArray) -> FloatArray:
    """Compute the norm over outputs, in their order."""
    if len(slopes) == 1:
        return np.asarray(np.abs(slopes[0]))
    square = np.zeros(slopes.shape[1])
    for slope in slopes:
        square += slope * slope
    length = np.sqrt(square)
    small = square < LEAST_SQUARE
    if small.any():
        length[small] = vector_norms(slopes[:, small])
    return length


class _SeveralRowsProblem(_LinearProblem):
    """Users with several rows each: slopes are rounded to integers, too, so that sums over a user's rows are exact."""

    def gradient_blocks(self, w: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        for users, rows in self.groups.blocks():
            slopes, block = self._slopes(w, rows)
            sizes = self.groups.sizes[users]
            starts = self.groups.starts[users.start : users.stop + 1] - rows.start
            bits = EXACT_BITS - 1 - ROW_BITS - np.frexp(sizes.astype(np.float64))[1]
            vectors = np.empty((self.n_coef, len(sizes)))
            for k, slope in enumerate(slopes):
                largest = np.maximum.reduceat(np.abs(slope), starts[:-1])
                usable = np.isfinite(largest)
                step = np.ldexp(1.0, np.frexp(np.where(usable, largest, 0.0))[1] - bits)
                whole = np.rint(slope / np.repeat(step, sizes))
                whole[~np.isfinite(whole)] = 0.0
                sums = csr_array((whole, np.arange(len(whole)), starts), shape=(len(sizes), len(whole))) @ block
                scale = np.where(usable, step * self.units[rows.start + starts[:-1]] / sizes, np.nan)
                np.multiply(sums.T, scale, out=vectors[k * block.shape[1] : (k + 1) * block.shape[1]])
            yield users, vectors


def integer_rows(data: UserData, constant: bool) -> tuple[npt.NDArray[np.int16], FloatArray, FloatArray]:
    """Round rows, sorted by user, to integers of 15 bits, with a last 1 if ``constant``.

    Returns them, their units, and upper bounds of their norms in these units. Users with an entry that is not finite or
    above `LARGEST_PEAK`, or with none of at least `LEAST_PEAK`, have rows of zeros.
    """
    columns, groups = data.groups.columns(data.X), data.groups
    n_rows, width = groups.n_rows, len(columns) + constant
    result = np.empty((n_rows, width), dtype=np.int16)
    units, norms = np.empty((2, n_rows))
    for users, rows in groups.blocks():
        n = rows.stop - rows.start
        peak, scratch, squares = np.full(n, float(constant)), np.empty(n), np.zeros(n)
        for column in columns[:, rows]:
            np.maximum(peak, np.abs(column, out=scratch), out=peak)  # NaN stays
        starts, sizes = groups.starts[users] - rows.start, groups.sizes[users]
        if n > len(sizes):
            peak = np.repeat(np.maximum.reduceat(peak, starts), sizes)
        usable = (peak >= LEAST_PEAK) & (peak <= LARGEST_PEAK)
        units[rows] = np.ldexp(1.0, np.frexp(np.where(usable, peak, 1.0))[1] - ROW_BITS)
        scale = np.where(usable, 1.0 / units[rows], 0.0)
        block = np.empty((width, n))
        for out, column in zip(block, columns[:, rows], strict=False):
            np.multiply(column, scale, out=out)
            np.rint(out, out=out)
            np.minimum(out, 2.0**ROW_BITS - 1.0, out=out)
        if constant:
            np.minimum(np.rint(scale), 2.0**ROW_BITS - 1.0, out=block[-1])
        if not usable.all():
            block[:, ~usable] = 0.0
        for out in block:
            squares += np.multiply(out, out, out=scratch)
        norms[rows] = np.sqrt(squares)  # of integers below 2⁵³: exact but for the root
        result[rows] = block.T
    norms *= 1.0 + 2.0**-50
    return result, units, norms


class _CustomProblem(UserProblem):
    """A custom loss through its per-row gradients, block by block."""

    def __init__(self, objective: Objective, data: UserData) -> None:
        self.objective = objective
        self.n_coef = objective.n_coef
        self.groups = data.groups
        self.data = data

    def gradient_blocks(self, w: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        for users, rows in self.groups.blocks():
            block = np.ones((rows.stop - rows.start, self.n_coef))
            block[:, : self.objective.n_features] = self.groups.sorted_rows(self.data.X, rows)
            target = self.groups.sorted_rows(self.data.y, rows).astype(np.float64)
            rowwise = _losses.row_gradients(self.objective.loss, block, target, w)
            yield users, self.groups.block_means(rowwise.T.copy(), users)
