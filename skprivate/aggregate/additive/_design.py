"""The one-hot design of several feature sets, applied without ever being formed.

A model with one table of coefficients per feature set has the score ŷ(row) = intercept + Σ_sets table[cell(row)]. The
training objective Σ b(ŷ) − Σ_cells (label sum)·(coefficient) + ridge and its gradient need two operations: *gather*
the tables into row scores, and *scatter* row residuals back into cells. Two exact reductions make both cheap:

* Feature sets over few joint value combinations form a group: their tables are first added up over those
  combinations, then gathered once per row, and residuals are scattered once per row and then into each table.
* Rows with the same combination in every group are merged and carry a multiplicity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize

from skprivate._sklearn import steps
from skprivate.aggregate._losses import FloatArray, SquaredLoss
from skprivate.aggregate.tables import _cells, _columns

#: Largest number of joint values of a group: codes fit uint16, and a table stays in the second-level cache.
_GROUP_SPAN = 1 << 16
#: A group's table must stay small against the rows that it serves.
_ROWS_PER_JOINT_VALUE = 16
#: Rows per block: block-sized temporaries stay in the first- and second-level caches.
_BLOCK = 1 << 14
#: Rows looked at to decide whether merging equal rows can pay.
_MERGE_SAMPLE = 1 << 16
#: Rough costs that decide whether a dense factor pays: one floating-point operation of a Cholesky factorisation, one
#: gather and scatter of a row, and the passes over the rows that the factor saves.
_SECONDS_PER_FLOP = 1e-10
_SECONDS_PER_GATHER = 1e-8
_PASSES_SAVED = 100
#: Most cells of a factor that leaves others out.
_PART_CELLS = 1000


@dataclass(frozen=True, eq=False)
class _Group:
    codes: NDArray[Any]  # joint value of every row
    span: int
    members: tuple[tuple[int, NDArray[np.intp] | None], ...]  # (set, cell of each joint value); None = identity


class CellDesign:
    """Gather and scatter between rows and the cells of feature sets.

    A row without a cell in a set has the local number ``n_cells`` there, and gets 0 from it.

    Cells of set j are coefficients ``offsets[j]:offsets[j + 1]``; the intercept follows the last. ``multiplicity`` is
    the number of samples per distinct row, or None if all are 1; ``counts`` is the number of samples per cell.
    """

    def __init__(self, indexes: Sequence[_cells.CellIndex], codes: Sequence[_columns.CodeArray]) -> None:
        n = codes[0].size
        self.n_samples = n
        self.offsets = np.concatenate([[0], np.cumsum([index.n_cells for index in indexes], dtype=np.int64)])
        member_sets = _group_sets(indexes, min(_GROUP_SPAN, max(n // _ROWS_PER_JOINT_VALUE, 256)))
        groups = [_make_group(members, indexes, codes) for members in member_sets]
        self._groups, self.multiplicity = _merge_rows(groups, n)
        self.n_rows = self._groups[0].codes.size if groups else n
        samples = np.ones(self.n_rows) if self.multiplicity is None else self.multiplicity
        self.counts = self.scatter(samples[np.newaxis])[0, :-1]

    @property
    def n_cells(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_groups(self) -> int:
        return len(self._groups)

    def set_of_cell(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    def merged(self, cell_of_cell: NDArray[np.int64], offsets: NDArray[np.int64]) -> CellDesign:
        """Merge cells of the same set: ``cell_of_cell`` is the new cell of each, numbered through all sets."""
        sets = np.arange(self.offsets.size - 1)
        new_cells = [
            np.append(cell_of_cell[self.offsets[j] : self.offsets[j + 1]], offsets[j + 1]).astype(np.intp) - offsets[j]
            for j in sets
        ]
        merged = self._regrouped(sets, offsets, lambda j, cells: new_cells[j][cells])
        merged.counts = np.bincount(cell_of_cell, self.counts, int(offsets[-1])).astype(np.float64, copy=False)
        return merged

    def restricted(self, sets: NDArray[np.intp]) -> CellDesign:
        """Keep some sets only, which are in order."""
        ends = np.cumsum(np.diff(self.offsets)[sets])
        part = self._regrouped(sets, np.append(0, ends), lambda _, cells: cells)
        part.counts = self.counts[self.cells_of(sets)]
        return part

    def complete_sets(self) -> NDArray[np.bool_]:
        """Decide for every set whether each row has a cell in it."""
        return np.asarray(np.bincount(self.set_of_cell(), self.counts, self.offsets.size - 1) == self.n_samples)

    def cells_of(self, sets: NDArray[np.intp]) -> NDArray[np.int64]:
        """Number the cells of some sets, which are in order."""
        return np.flatnonzero(np.isin(self.set_of_cell(), sets))

    def _regrouped(
        self,
        sets: NDArray[np.intp],
        offsets: NDArray[np.int64],
        renumber: Callable[[int, NDArray[np.intp]], NDArray[np.intp]],
    ) -> CellDesign:
        """Keep ``sets`` with other cells, whose ``offsets`` are given, and joint values that still differ."""
        place = {int(j): new for new, j in enumerate(sets)}
        regrouped = copy(self)
        regrouped.offsets = offsets
        regrouped._groups = []
        for group in self._groups:
            kept = [(j, np.arange(group.span) if sub is None else sub) for j, sub in group.members if j in place]
            if not kept:
                continue
            cells = np.stack([renumber(j, sub) for j, sub in kept])
            joint, code = np.unique(cells, axis=1, return_inverse=True)
            members = tuple((place[j], cells) for (j, _), cells in zip(kept, joint, strict=True))
            codes = _narrow(code.reshape(-1)[group.codes], joint.shape[1])
            regrouped._groups.append(_Group(codes, joint.shape[1], members))
        return regrouped

    def scores(self, coef: FloatArray) -> FloatArray:
        """Score the distinct rows (n_outputs, n_rows) by coefficients (n_outputs, n_cells + 1), the intercept last."""
        tables = self._group_tables(coef)
        out = np.empty((coef.shape[0], self.n_rows))
        for rows in _blocks(self.n_rows):
            self._gather(tables, coef[:, -1], rows, out[:, rows])
        return out

    def scatter(self, values: FloatArray) -> FloatArray:
        """Sum row values (n_outputs, n_rows), multiplicities applied, over cells; the last column is the total."""
        out = np.empty((values.shape[0], self.n_cells + 1))
        out[:, -1] = values.sum(axis=1)
        for group in self._groups:
            for k, row_values in enumerate(values):
                joint = _sum_by_code(group.codes, row_values, group.span)
                for j, sub in group.members:
                    cells = slice(self.offsets[j], self.offsets[j + 1])
                    size = int(self.offsets[j + 1] - self.offsets[j])
                    sums = joint if sub is None else np.bincount(sub, weights=joint, minlength=size)
                    out[k, cells] = sums[:size]
        return out

    def value_and_gradient(
        self, coef: FloatArray, loss: SquaredLoss, linear: FloatArray, ridge: FloatArray
    ) -> tuple[float, FloatArray]:
        """Evaluate F(coef) = Σ_rows b(score) − Σ linear·coef + ½ Σ ridge·coef² and its gradient.

        ``linear`` holds the label sums per cell, the total last.
        """
        tables = self._group_tables(coef)
        mean = np.empty((coef.shape[0], self.n_rows))
        value = 0.0
        for rows in _blocks(self.n_rows):
            scores = np.empty((coef.shape[0], rows.stop - rows.start))
            self._gather(tables, coef[:, -1], rows, scores)
            row_value, row_mean = loss.partition(scores)
            if self.multiplicity is None:
                value += float(row_value.sum())
                mean[:, rows] = row_mean
            else:
                value += float(self.multiplicity[rows] @ row_value)
                np.multiply(row_mean, self.multiplicity[rows], out=mean[:, rows])
        penalty = ridge * coef
        value += float(np.sum((0.5 * penalty - linear) * coef))
        gradient = self.scatter(mean)
        gradient -= linear
        gradient += penalty
        return value, gradient

    def gram(self, weight: FloatArray) -> FloatArray:
        """Compute Aᵀ diag(weight) A of the cells (no intercept), dense; ``weight`` of shape (n_rows,) per sample."""
        if self.multiplicity is not None:
            weight = weight * self.multiplicity
        out = np.zeros((self.n_cells, self.n_cells))
        spread = [self._spread(group) for group in self._groups]
        for a, first in enumerate(self._groups):
            for b in range(a, len(self._groups)):
                second = self._groups[b]
                if a == b:
                    joint: Any = sparse.diags_array(_sum_by_code(first.codes, weight, first.span))
                elif first.span * second.span <= _ROWS_PER_JOINT_VALUE * self.n_rows:
                    pair_codes = first.codes.astype(np.intp) * second.span + second.codes
                    joint = np.bincount(pair_codes, weight, first.span * second.span)
                    joint = joint.reshape(first.span, second.span)
                else:
                    pair = (first.codes.astype(np.int32), second.codes.astype(np.int32))
                    joint = sparse.coo_array((weight, pair), shape=(first.span, second.span)).tocsr()
                (left, left_cells), (right, right_cells) = spread[a], spread[b]
                block: Any = left.T @ (joint @ right)
                block = block if isinstance(block, np.ndarray) else block.toarray()
                out[np.ix_(left_cells, right_cells)] = block
                out[np.ix_(right_cells, left_cells)] = block.T
        return out

    def _spread(self, group: _Group) -> tuple[Any, NDArray[np.intp]]:
        rows, columns, cells = [], [], []
        start = 0
        for j, sub in group.members:
            size = int(self.offsets[j + 1] - self.offsets[j])
            local = np.arange(group.span) if sub is None else sub
            rows.append(np.flatnonzero(local < size))
            columns.append(local[local < size] + start)
            cells.append(np.arange(self.offsets[j], self.offsets[j + 1]))
            start += size
        row, column = np.concatenate(rows), np.concatenate(columns)
        matrix = sparse.coo_array((np.ones(row.size), (row, column)), shape=(group.span, start)).tocsr()
        return matrix, np.concatenate(cells)

    def _group_tables(self, coef: FloatArray) -> list[FloatArray]:
        tables = []
        for group in self._groups:
            table = np.zeros((coef.shape[0], group.span))
            for j, sub in group.members:
                part = coef[:, self.offsets[j] : self.offsets[j + 1]]
                if sub is None:
                    table[:, : part.shape[1]] += part
                else:
                    table += np.column_stack([part, np.zeros(len(part))])[:, sub]
            tables.append(table)
        return tables

    def _gather(self, tables: list[FloatArray], intercept: FloatArray, rows: slice, out: FloatArray) -> None:
        out[...] = intercept[:, np.newaxis]
        for group, table in zip(self._groups, tables, strict=True):
            index = group.codes[rows].astype(np.intp)
            for k in range(table.shape[0]):
                # mode="clip" skips the bounds check, which the codes' construction makes superfluous.
                out[k] += np.take(table[k], index, mode="clip")


def _group_sets(indexes: Sequence[_cells.CellIndex], largest: int) -> list[list[int]]:
    """Cover greedily: each set joins the group whose joint span grows least and stays within ``largest``."""
    radix = {c: r for index in indexes for c, r in zip(index.columns, index.radices, strict=True)}
    order = sorted(range(len(indexes)), key=lambda j: (-math.prod(indexes[j].radices), j))
    groups: list[tuple[set[int], list[int]]] = []
    for j in order:
        added = set(indexes[j].columns)
        spans = [math.prod(radix[c] for c in columns | added) for columns, _ in groups]
        number = min(range(len(groups)), key=spans.__getitem__, default=-1)
        if number >= 0 and spans[number] <= largest:
            groups[number][0].update(added)
            groups[number][1].append(j)
        else:
            groups.append((added, [j]))
    return [members for _, members in groups]


def _make_group(members: list[int], indexes: Sequence[_cells.CellIndex], codes: Sequence[_columns.CodeArray]) -> _Group:
    if len(members) == 1:
        (j,) = members
        cells, size = _local_cells(indexes[j], codes), indexes[j].n_cells
        span = max(size, int(cells.max(initial=0)) + 1)
        return _Group(_narrow(cells, span), span, ((j, None),))
    radix = {c: r for j in members for c, r in zip(indexes[j].columns, indexes[j].radices, strict=True)}
    columns = sorted(radix)
    packed = _cells.pack_codes([codes[c] for c in columns], [radix[c] for c in columns])
    span = math.prod(radix.values())
    # Any row represents its joint value: all of them are in the same cell of every member.
    representative = np.full(span, -1, dtype=np.int64)
    representative[packed] = np.arange(packed.size)
    present = np.flatnonzero(representative >= 0)
    renumber = np.zeros(span, dtype=np.int32)
    renumber[present] = np.arange(present.size, dtype=np.int32)
    some = {c: codes[c][representative[present]] for c in columns}
    parts = tuple((j, _local_cells(indexes[j], some).astype(np.intp)) for j in members)
    return _Group(_narrow(renumber[packed], present.size), int(present.size), parts)


def _local_cells(index: _cells.CellIndex, codes: Any) -> _columns.CodeArray:
    cells = index.locate(codes)
    return np.where(cells < 0, index.n_cells, cells)


def _merge_rows(groups: list[_Group], n: int) -> tuple[list[_Group], FloatArray | None]:
    if not groups:
        return groups, None
    if n > 2 * _MERGE_SAMPLE:
        stride = n // _MERGE_SAMPLE
        sample = _joint_codes([group.codes[::stride] for group in groups], [group.span for group in groups])
        if np.unique(sample).size > 0.7 * sample.size:
            return groups, None
    joint = _joint_codes([group.codes for group in groups], [group.span for group in groups])
    _, first, counts = np.unique(joint, return_index=True, return_counts=True)
    if counts.size > 0.8 * n:
        return groups, None
    merged = [_Group(group.codes[first], group.span, group.members) for group in groups]
    return merged, counts.astype(np.float64)


def _joint_codes(codes: Sequence[NDArray[Any]], spans: Sequence[int]) -> NDArray[np.int64]:
    joint = codes[0].astype(np.int64)
    n_codes = spans[0]
    for group_codes, span in zip(codes[1:], spans[1:], strict=True):
        if n_codes * span >= 1 << 62:
            values, joint = np.unique(joint, return_inverse=True)
            n_codes = values.size
        joint = joint * span + group_codes
        n_codes *= span
    return joint


def _narrow(codes: NDArray[Any], span: int) -> NDArray[Any]:
    return np.ascontiguousarray(codes, dtype=np.uint16 if span <= 1 << 16 else np.uint32)


def _blocks(n: int, size: int = _BLOCK) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _sum_by_code(codes: NDArray[Any], values: FloatArray, span: int) -> FloatArray:
    # Blocks keep bincount's integer copy of the codes small; they stay long against the table they add up to.
    block = max(_BLOCK, 8 * span)
    if codes.size <= block:
        return np.bincount(codes, weights=values, minlength=span).astype(np.float64, copy=False)
    out = np.zeros(span)
    for rows in _blocks(codes.size, block):
        out += np.bincount(codes[rows], weights=values[rows], minlength=span)
    return out


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients of shape (n_outputs, n_cells + 1), the objective there, and passes over the rows."""

    coef: FloatArray
    objective: float
    n_passes: int


def constant_start(design: CellDesign, loss: SquaredLoss, linear: FloatArray) -> FloatArray:
    """Initialise the coefficients with the constant model of the right mean."""
    start = np.zeros_like(linear)
    start[:, -1] = loss.link(linear[:, -1] / max(design.n_samples, 1))
    return start


def fit_tables(
    design: CellDesign,
    loss: SquaredLoss,
    linear: FloatArray,
    ridge: FloatArray,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    start: FloatArray | None = None,
) -> Solution:
    """Minimise F(coef) = Σ b(score) − Σ linear·coef + ½ Σ ridge·coef² by preconditioned L-BFGS.

    The variables are transformed by the Hessian at the constant model. Where its Cholesky factor costs less than the
    passes it saves, the whole matrix is used, because overlapping feature sets are strongly collinear. Otherwise it
    is the part of the sets that the penalty shrinks least, and the diagonal of the others. ``tol`` bounds the scaled
    gradient of the mean objective.
    """
    n = max(design.n_samples, 1)
    first = constant_start(design, loss, linear) if start is None else start
    change = _change_of_variables(design, loss, first, ridge)
    passes = 0

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal passes
        passes += 1
        step()
        coef = first + change.to_coef(flat.reshape(first.shape))
        value, gradient = design.value_and_gradient(coef, loss, linear, ridge)
        return value / n, change.to_gradient(gradient / n).ravel()

    with steps("coefficients", 2 * max_iter) as step:
        result = minimize(
            objective,
            np.zeros(first.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20},
        )
    coef = first + change.to_coef(result.x.reshape(first.shape))
    return Solution(coef, float(result.fun), passes)


@dataclass(frozen=True, eq=False)
class _Change:
    """Change of variables coef = R⁻¹ u with RᵀR ≈ Hessian: an upper triangle for some cells, a diagonal for others."""

    factor: FloatArray
    cells: Any
    diagonal: FloatArray

    def to_coef(self, u: FloatArray) -> FloatArray:
        return self._solve(u, 0)

    def to_gradient(self, gradient: FloatArray) -> FloatArray:
        return self._solve(gradient, 1)

    def _solve(self, right: FloatArray, trans: Literal[0, 1]) -> FloatArray:
        out: FloatArray = right / self.diagonal
        if self.factor.size:
            part = right[:, self.cells].T
            out[:, self.cells] = solve_triangular(self.factor, part, trans=trans, check_finite=False).T
        return out


def _change_of_variables(design: CellDesign, loss: SquaredLoss, start: FloatArray, ridge: FloatArray) -> _Change:
    n = max(design.n_samples, 1)
    size = design.n_cells + 1
    weight = float(np.mean(loss.moments(start[:, -1:])[1]))
    information = weight * np.append(design.counts, n)
    full = information + ridge + 1e-10 * n
    diagonal = np.sqrt(full / n)
    saved = _PASSES_SAVED * design.n_rows * design.n_groups * _SECONDS_PER_GATHER + 0.1
    part, cells = design, np.arange(size)
    if size**3 / 3 * _SECONDS_PER_FLOP >= saved:
        sets = _strongest_sets(design, (information / full)[:-1])
        part, cells = design.restricted(sets), np.append(design.cells_of(sets), size - 1)
    hessian = np.empty((cells.size, cells.size))
    hessian[:-1, :-1] = part.gram(np.full(design.n_rows, weight))
    hessian[-1, :] = hessian[:, -1] = information[cells]
    hessian[np.diag_indices(cells.size)] = full[cells]
    try:
        factor = cholesky(hessian / n, overwrite_a=True, check_finite=False)
    except LinAlgError:
        factor = np.empty((0, 0))
    return _Change(factor, cells, diagonal)


def _strongest_sets(design: CellDesign, share: FloatArray) -> NDArray[np.intp]:
    """Choose sets of up to a thousand cells, by the share of a cell's curvature that is not the penalty's."""
    set_of_cell, sizes = design.set_of_cell(), np.diff(design.offsets)
    order = np.argsort(-np.bincount(set_of_cell, share) / sizes, kind="stable")
    return np.sort(order[np.cumsum(sizes[order]) <= _PART_CELLS])
