"""Released label sums of an additive model, its constant model, and the check that a fit is not worse.

The loss of scores ŷ over the rows, less that of the constant, is Σ b(ŷ) − Σ b(ŷ₀) − zᵀ(θ − θ₀) with the true label sums
z. Noisy sums that θ was fitted to make it too small. For θ linear in sums of covariance G + N this optimism is the
trace of ∂θ/∂z (G + N) (Stein). With it added, the estimate is unbiased for the loss of new labels, and the noise gives
its error. For any other fit noise is halved: with our own b ~ N(0, G + N), s + b and s − b have independent noise.
The fit to the first, which is a little worse, is rated by the second; so are several fits, of which the best is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skprivate.aggregate._losses import FloatArray, Interval, SquaredLoss
from skprivate.aggregate.additive._design import CellDesign, constant_start
from skprivate.privacy import public_generator, warn_caller

#: Standard errors by which a fit must seem better than the constant. One whose penalties were estimated from the same
#: noise is conservative already.
ESTIMATED_PENALTY_MARGIN, GIVEN_PENALTY_MARGIN = 0.0, 1.0
#: A fit that is worse than the constant by this number of standard errors warns.
_WARNING_MARGIN = 3.0
_SHARES = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True, eq=False)
class LabelSums:
    """Released label sums (n_outputs, n_cells) of a design, and the noise variance of each cell (n_cells,)."""

    design: CellDesign
    loss: SquaredLoss
    sums: FloatArray
    noise: FloatArray
    square_sum: float | None = None
    label_bounds: Interval | None = None

    @property
    def is_noisy(self) -> bool:
        return bool(np.any(self.noise))

    @property
    def multiplicity(self) -> FloatArray:
        """Samples per distinct row."""
        multiplicity = self.design.multiplicity
        return np.ones(self.design.n_rows) if multiplicity is None else multiplicity

    @cached_property
    def total(self) -> FloatArray:
        """Sum of all labels (n_outputs,): each set of all rows adds up to it, the least noisy ones count most."""
        set_of_cell = self.design.set_of_cell()
        n_sets = self.design.offsets.size - 1
        if n_sets == 0:
            raise ValueError("at least one feature set is needed to know the sum of the labels.")
        complete = self.design.complete_sets()
        totals = np.stack([np.bincount(set_of_cell, row, n_sets)[complete] for row in self.sums])
        spread = np.bincount(set_of_cell, self.noise, n_sets)[complete]
        weight = 1.0 / spread if np.all(spread > 0) else (spread == 0).astype(np.float64)
        return np.asarray(totals @ (weight / weight.sum()))

    @property
    def linear(self) -> FloatArray:
        """Sums with the total last, shape (n_outputs, n_cells + 1)."""
        return np.column_stack([self.sums, self.total])

    @cached_property
    def constant(self) -> FloatArray:
        """Coefficients of the constant model, whose mean is one that labels can have.

        A noisy total may be negative, or above the number of rows.
        """
        linear = self.linear
        if self.is_noisy:
            n = max(self.design.n_samples, 1)
            n_sets = self.design.offsets.size - 1
            spread = np.bincount(self.design.set_of_cell(), self.noise, n_sets)[self.design.complete_sets()]
            error = float(np.sqrt(1.0 / np.sum(1.0 / np.maximum(spread, 1e-300)))) / n
            linear[:, -1] = n * self.loss.clip_mean(linear[:, -1] / n, error, self.label_bounds)
        return constant_start(self.design, self.loss, linear)

    def possible(self) -> FloatArray:
        """Project noisy sums, the total last, to those of some labels: others leave objectives without a minimum."""
        linear = self.linear
        if self.loss.quadratic or not self.is_noisy:
            return linear
        linear[:, -1] = self.design.n_samples * self.loss.partition(self.constant[:, -1:])[1][:, 0]
        linear[:, :-1] = self.loss.clip_sums(self.sums, self.design.counts, self.label_bounds)
        return linear

    @cached_property
    def dispersion(self) -> float:
        """Variance of the labels about their mean for the squared loss, else 1."""
        if not self.loss.quadratic:
            return 1.0
        design, n = self.design, self.design.n_samples
        if self.square_sum is not None:
            around = self.square_sum - float(np.sum(self.total**2)) / n
            return max(around / n, 1e-12 * (1 + abs(self.square_sum) / n))
        # Without it: the spread of bag means around the total mean, which exceeds the dispersion by the signal.
        mean = self.total / n
        set_of_cell = design.set_of_cell()
        excess = (self.sums - design.counts * mean[:, np.newaxis]) ** 2 - self.noise
        per_set = np.bincount(set_of_cell, (excess / design.counts).mean(axis=0))
        freedom = np.maximum(np.bincount(set_of_cell) - 1, 1)
        spread = float(np.min(per_set / freedom))
        return max(spread, 1e-9 * (1.0 + float(np.max(np.abs(mean)) ** 2)))

    def units(self) -> tuple[FloatArray, float]:
        """Estimate mean (n_outputs,) and standard deviation of the labels, in which networks learn.

        They are 0 and 1 except for the squared loss: other scores have a scale of their own.
        """
        if not self.loss.quadratic:
            return np.zeros(self.sums.shape[0]), 1.0
        return self.total / max(self.design.n_samples, 1), float(np.sqrt(self.dispersion))

    def simulate_noise(self, coef: FloatArray, dispersion: float) -> FloatArray:
        """Sample N(0, G + N) publicly: labels that vary as at the coefficients, and noise in the sums."""
        rng = public_generator(0)
        _, variance = self.loss.moments(self.design.scores(coef))
        scale = np.sqrt(dispersion * variance * self.multiplicity)
        rows = scale * rng.standard_normal(scale.shape)
        sampled: FloatArray = self.design.scatter(rows)[:, :-1]
        return sampled + np.sqrt(self.noise) * rng.standard_normal(sampled.shape)


def share_to_keep(
    estimate: Callable[[float], float], error: float, gain: float, *, margin: float, advice: str
) -> float:
    """Choose the step from the constant model, 0, to the fit, 1, by the ``estimate`` of the loss of new labels.

    ``error`` is the standard error of estimate(1) − estimate(0), and in proportion to the step. ``gain`` bounds by how
    much any model beats the constant: sums cannot tell a larger error. ``margin`` is one of the two above.
    """
    worse = estimate(1.0) - estimate(0.0)
    largest_share = min(1.0, gain / error) if error > 0 else 1.0
    if worse < -margin * error and largest_share == 1.0:
        return 1.0
    if worse > _WARNING_MARGIN * error or largest_share < 1.0:
        warn_caller(
            "the fit was worse than a constant by its own noisy label sums, or too noisy to tell, and was shrunk "
            "towards the constant: " + advice,
            ConvergenceWarning,
        )
    shares = largest_share * _SHARES
    return float(min(shares, key=lambda share: estimate(share) + margin * share * error))


def no_worse_than_constant(problem: LabelSums, coef: FloatArray, optimism: float, dispersion: float) -> FloatArray:
    """Shrink coefficients towards the constant model where the sums are against them.

    ``optimism`` is the trace of ∂θ/∂z (G + N).
    """
    change = coef - problem.constant
    share = _share(
        problem,
        problem.linear,
        problem.noise,
        change,
        dispersion,
        optimism=optimism,
        sampling=2.0 * dispersion * optimism,
        margin=ESTIMATED_PENALTY_MARGIN,
    )
    return coef if share == 1.0 else problem.constant + share * change


def guarded_fit(fits: Sequence[Callable[[FloatArray, float], FloatArray]], problem: LabelSums) -> FloatArray:
    """Fit by the best of some deterministic methods, and shrink towards the constant where it follows the noise.

    Each maps sums, and by what their variance is multiplied, to coefficients (n_outputs, n_cells + 1).
    """
    if len(fits) == 1 and not problem.is_noisy:
        return fits[0](problem.sums, 1.0)
    noise = problem.simulate_noise(problem.constant, problem.dispersion)
    linear = problem.linear
    linear[:, :-1] -= noise
    changes = [fit(problem.sums + noise, 2.0) - problem.constant for fit in fits]
    best = int(np.argmin([_new_loss(problem, linear, change)(1.0) for change in changes]))
    coef = fits[best](problem.sums, 1.0)
    if not problem.is_noisy:
        return coef
    share = _share(
        problem, linear, 2.0 * problem.noise, changes[best], 2.0 * problem.dispersion, margin=GIVEN_PENALTY_MARGIN
    )
    return coef if share == 1.0 else problem.constant + share * (coef - problem.constant)


def _new_loss(
    problem: LabelSums, linear: FloatArray, change: FloatArray, optimism: float = 0.0
) -> Callable[[float], float]:
    """Estimate the loss of new labels above the constant's, of a share of the way from it by ``change``."""
    design, loss, multiplicity = problem.design, problem.loss, problem.multiplicity
    first, direction = design.scores(problem.constant), design.scores(change)
    start, mean = loss.partition(first)
    # About the constant: of labels far from 0 the parts would cancel.
    pull = float(np.sum((linear - design.scatter(mean * multiplicity)) * change))

    def estimate(share: float) -> float:
        if loss.quadratic:
            rise = 0.5 * share**2 * np.sum(direction**2, axis=0)
        else:
            rise = loss.partition(first + share * direction)[0] - start - share * np.sum(mean * direction, axis=0)
        return float(rise @ multiplicity) + share * (optimism - pull)

    return estimate


def _share(
    problem: LabelSums,
    linear: FloatArray,
    noise: FloatArray,
    change: FloatArray,
    dispersion: float,
    *,
    optimism: float = 0.0,
    sampling: float = 0.0,
    margin: float,
) -> float:
    """Choose the step from the constant by ``change``, as sums of this noise and dispersion rate it."""
    design, loss = problem.design, problem.loss
    mean, variance = loss.moments(design.scores(problem.constant))
    direction = design.scores(change)
    spread = dispersion * float(np.sum(variance * direction**2 * problem.multiplicity))
    error = float(np.sqrt(np.sum(noise * change[:, :-1] ** 2) + spread + sampling))
    gain = design.n_samples * loss.largest_gain(mean[:, 0], dispersion)
    advice = "use a larger epsilon, fewer feature sets or a stronger penalty."
    return share_to_keep(_new_loss(problem, linear, change, optimism), error, gain, margin=margin, advice=advice)
