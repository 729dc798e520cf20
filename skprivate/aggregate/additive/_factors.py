"""Factors: a cross's coefficient is a sum of products of numbers of its values, Σ_f Π_c e_c[value, f].

The crosses of a column share its numbers e_c, so that cells of few rows borrow from all rows with one of their values.
A column by itself keeps a table of coefficients. Gradients are in closed form.

Noise. The objective for sums s with noise of variance N is Σ (s − Aᵀμ)² / 2(g + N), g being the variance that labels
give a sum. Its gradient, G diag(g + N)⁻¹(s − Aᵀμ), is that of the likelihood but for the labels that feature sets have
in common. Exact sums have the likelihood itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from skprivate._sklearn import steps
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.additive._constant import LabelSums
from skprivate.aggregate.tables._cells import CellIndex
from skprivate.privacy import public_generator

#: Standard deviation of the first numbers: at 0 their products have no gradient.
_START = 0.3
_MOST_STEPS = 150


class Factors:
    """Coefficients of all cells, the intercept last, as a function of numbers of values and of columns' tables."""

    def __init__(self, indexes: Sequence[CellIndex], n_outputs: int, width: int) -> None:
        radix = {c: r for index in indexes for c, r in zip(index.columns, index.radices, strict=True)}
        first, n_codes = {}, 0
        for column in sorted(radix):
            first[column] = n_codes + 1  # the code of merged rare bags is -1
            n_codes += radix[column] + 1
        self.n_outputs, self._width = n_outputs, width
        self._shape = (n_codes, n_outputs * width)
        self._crosses = []
        ends = np.cumsum([0, *(index.n_cells for index in indexes)])
        self._is_table = np.ones(ends[-1] + 1, dtype=bool)
        for index, start, stop in zip(indexes, ends[:-1], ends[1:], strict=True):
            if len(index.columns) > 1:
                rows, ones = np.arange(index.n_cells), np.ones(index.n_cells)
                picks = [
                    sparse.csr_array((ones, (rows, key + first[c])), (rows.size, n_codes))
                    for c, key in zip(index.columns, index.keys.T, strict=True)
                ]
                self._crosses.append((slice(start, stop), picks))
                self._is_table[start:stop] = False
        self._n_numbers = n_codes * n_outputs * width

    def start(self, intercept: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the first parameters: small numbers, tables of 0."""
        tables = np.zeros((self.n_outputs, int(self._is_table.sum())))
        tables[:, -1] = intercept
        return np.concatenate([_START * rng.standard_normal(self._n_numbers), tables.ravel()])

    def ridge(self, decay: float) -> FloatArray:
        """Penalise all parameters but the intercept."""
        free = np.full((self.n_outputs, int(self._is_table.sum())), decay)
        free[:, -1] = 0.0
        return np.concatenate([np.full(self._n_numbers, decay), free.ravel()])

    def coef(self, parameters: FloatArray) -> FloatArray:
        numbers = parameters[: self._n_numbers].reshape(self._shape)
        coef = np.empty((self.n_outputs, self._is_table.size))
        coef[:, self._is_table] = parameters[self._n_numbers :].reshape(self.n_outputs, -1)
        for cells, picks in self._crosses:
            product = np.prod([pick @ numbers for pick in picks], axis=0)
            coef[:, cells] = product.reshape(-1, self.n_outputs, self._width).sum(axis=2).T
        return coef

    def pull_back(self, parameters: FloatArray, gradient: FloatArray) -> FloatArray:
        """Map the gradient in the coefficients to that in the parameters."""
        numbers = parameters[: self._n_numbers].reshape(self._shape)
        out = np.zeros(self._shape)
        for cells, picks in self._crosses:
            factors = [pick @ numbers for pick in picks]
            slope = np.repeat(gradient[:, cells].T, self._width, axis=1)
            for i, pick in enumerate(picks):
                out += pick.T @ np.prod([slope, *factors[:i], *factors[i + 1 :]], axis=0)
        return np.concatenate([out.ravel(), gradient[:, self._is_table].ravel()])

    def fit(self, problem: LabelSums, spread: float, *, decay: float, random_state: int) -> tuple[FloatArray, int]:
        """Minimise by L-BFGS; returns coefficients and the number of evaluations.

        The sums have ``spread`` times the variance that the problem states, so that all of them count less.
        """
        ridge = self.ridge(spread * decay)
        n = max(problem.design.n_samples, 1)
        aim = _Weighted(problem) if problem.is_noisy else _Exact(problem, spread)

        def objective(parameters: FloatArray) -> tuple[float, FloatArray]:
            step()
            value, gradient = aim.value_and_gradient(self.coef(parameters))
            penalty = ridge * parameters
            value += 0.5 * float(penalty @ parameters)
            return value / n, (self.pull_back(parameters, gradient) + penalty) / n

        first = self.start(problem.constant[:, -1], public_generator(random_state))
        options: Any = {"maxiter": _MOST_STEPS, "gtol": 1e-6, "maxcor": 20}
        with steps("factors", 2 * _MOST_STEPS) as step:
            result = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
        return self.coef(result.x), int(result.nfev)


class _Exact:
    """The likelihood of individual labels."""

    def __init__(self, problem: LabelSums, spread: float = 1.0) -> None:
        self.problem, self.linear = problem, problem.linear
        # Sums of simulated labels may be none of any labels: without a minimum over a free intercept or large products.
        mean = problem.loss.partition(problem.constant[:, -1:])[1]
        self.linear[:, -1] = problem.design.n_samples * mean[:, 0]
        self.ridge = np.append(np.full(problem.design.n_cells, spread - 1.0), 0.0)

    def value_and_gradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        problem = self.problem
        return problem.design.value_and_gradient(coef, problem.loss, self.linear, self.ridge)


class _Weighted:
    """Squares of what noisy sums differ by from those that a model predicts, by their variance."""

    def __init__(self, problem: LabelSums) -> None:
        design = problem.design
        _, variance = problem.loss.moments(design.scores(problem.constant))
        sampling = design.scatter(variance * problem.multiplicity)[:, :-1]
        self.problem, self.weight = problem, 1.0 / (sampling + problem.noise)

    def value_and_gradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        problem, design = self.problem, self.problem.design
        scores = design.scores(coef)
        _, mean = problem.loss.partition(scores)
        excess = design.scatter(mean * problem.multiplicity)[:, :-1] - problem.sums
        pull = self.weight * excess
        slope = design.scores(np.column_stack([pull, np.zeros(len(coef))]))
        slope = problem.loss.bend(scores, slope) * problem.multiplicity
        return 0.5 * float(np.sum(pull * excess)), design.scatter(slope)
