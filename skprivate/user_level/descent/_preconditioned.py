"""A linear model whose second moments are quiet: few clipped steps in their metric, from where they start it.

One sum releases the second moments of rows and target (`Moments`). They give the start, the inverse curvature of each
step, and the scale of residuals. Each step releases one more sum of clipped gradients: θ ← θ − P·(gradient + penalty).
A last number, the mean slope, sets the intercept, because clipping moves it.

Noise is drawn in the metric of the moments where that is cheaper: a contribution is an integer multiple k·z of a row
with |k|·‖Wᵀz‖ bounded, for a matrix W of integers, and WᵀΣkz is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import CONTRIBUTION_STEP, GaussianEvent, Mechanism, PrivacyEvent, Release
from skprivate.user_level import _problems
from skprivate.user_level._losses import HuberLoss, LogisticLoss, SquaredLoss
from skprivate.user_level._plan import SMALL_SHARE, WIDER, BudgetSplit, Terms, split_budget
from skprivate.user_level._ranges import NOISE_PART
from skprivate.user_level.descent import _descent, _rules, _scaled_rows
from skprivate.user_level.descent._second_moments import MOST_GROWTH, WANTED_NOISE, Gram, Moments
from skprivate.user_level.scaling import _sample, _standardise
from skprivate.user_level.scaling._frame import TARGET_RANGE, Frame

FloatArray = npt.NDArray[np.float64]

#: Noise of second moments up to which steps are preconditioned. A clip by the rule below beyond which there is hardly
#: any noise: then more steps of the plain descent go on to the minimum.
MOST_MOMENTS_NOISE, MOST_WIDE = 0.35, 128.0
#: Range of the clip: in deviations of residuals, and in norms of a row for two classes, whose effects clipped residuals
#: exaggerate. It ends farther out where noise is much less.
CLIPS, CLIPS_CLASSES = (0.8, 8.0), (0.7, 1.5)
#: Least and most steps, and steps for each unit of the moments' noise beyond what is wanted.
FEW_STEPS, MANY_STEPS, STEPS_OF_NOISE = 2, 12, 80.0
#: Share of the steps' budget for those that are not averaged, over their part.
FIRST_PART = 0.4
#: Noise of the mean slope up to which it is released.
SLOPE_NOISE = 0.02
#: Noise of predictions from sums in simpler coordinates, over that in the metric of the moments, that is as good; bits
#: of a diagonal and a full matrix.
AS_GOOD, DIAGONAL_BITS, METRIC_BITS = 1.2, 7, 12
#: Least rows that are looked at for centres and scales, and ρm² for each feature.
LEAST_SAMPLE, SIGNAL = 20_000, 5e4


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Search of a map of features and target in a secret sample of ``n_sample`` rows."""

    search: _standardise.Standardisation
    n_rows: int
    n_sample: int
    seed: int

    def run(self, rows: Partitions, release: Release) -> Frame:
        """Release the map."""
        sample = _sample.sample_rows(rows, self.n_rows, self.n_sample, self.seed)
        return self.search.run(sample, float(min(self.n_sample, self.n_rows)), release)[1]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Number of steps and their noise, for what ``share`` of the Gaussian budget is left.

    The first half finds the neighbourhood, and the others are averaged.
    """

    split: BudgetSplit
    count: int
    share: float

    @property
    def averaged(self) -> int:
        """Number of the last steps, whose iterates are averaged."""
        return (self.count + 1) // 2

    @property
    def multipliers(self) -> list[float]:
        """Noise multiplier of each step."""
        first, last = self.count - self.averaged, self.averaged
        part = FIRST_PART * first / self.count
        shares = [part / max(first, 1)] * first + [(1.0 - part) / last] * last
        return [self.split.multiplier / math.sqrt(self.share * each) * WIDER for each in shares]


class Metric:
    """Coordinates Wᵀz in which noise is drawn, W of integers: the simplest that are as good as the best.

    ``own`` is W, or its diagonal if that is all; ``typical`` is the typical norm of a row there.
    """

    def __init__(self, gram: Gram) -> None:
        d = len(gram.metric)
        diagonal = 1.0 / np.sqrt(np.diag(gram.metric))
        root = gram.vectors / np.sqrt(gram.values)
        for own in (np.ones(d), _integers(diagonal, DIAGONAL_BITS), _integers(root, METRIC_BITS)):
            self.own: FloatArray = own
            self.matrix = np.diag(own) if own.ndim == 1 else own
            inner = self.matrix.T @ gram.metric @ self.matrix
            if np.trace(inner) * np.trace(np.linalg.pinv(inner)) <= AS_GOOD * d**2:
                break
        self.typical = math.sqrt(float(np.trace(inner)))
        self.back = np.linalg.pinv(self.matrix.T)

    def sized(self, rows: Partitions) -> Partitions:
        """Find the norms of rows in these coordinates; those in their own are known."""
        if self.own.ndim == 1 and (self.own == 1.0).all():
            return rows
        return rows.map(partial(_scaled_rows.with_norms, matrix=self.own)).persisted()

    def mapped(self, total: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map an exact sum, exactly."""
        return np.asarray(self.matrix.T.astype(np.int64).astype(object) @ total.astype(object))


def _integers(matrix: FloatArray, bits: int) -> FloatArray:
    """Round to integers below 2ᵇⁱᵗˢ, none of a diagonal to 0."""
    whole = np.rint(matrix * 2.0 ** (bits - math.frexp(float(np.abs(matrix).max()))[1]))
    return np.maximum(whole, 1.0) if matrix.ndim == 1 else whole


@dataclass(frozen=True, kw_only=True)
class PreconditionedDescent(Mechanism):
    """A linear model of rows that are their own users, where second moments are quiet."""

    terms: Terms
    objective: _problems.Objective
    scaling: Scaling
    penalty: _rules.Penalty
    given_steps: int | None
    theorem = "clipped steps in the metric of second moments, docs/theory/user_level.md"
    bounds = _rules.Bounds(radius=math.inf, select_scale=False)

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def standardisation(self) -> _standardise.Standardisation:
        """Search of the map."""
        return self.scaling.search

    @property
    def classes(self) -> bool:
        """True if targets are two classes."""
        return isinstance(self.objective.loss, LogisticLoss)

    @property
    def _n(self) -> float:
        assert self.terms.n_users is not None
        return float(self.terms.n_users)

    @cached_property
    def split(self) -> BudgetSplit:
        return split_budget(self.terms, n_numbers=(self.size + 1) ** 2 + MANY_STEPS * self.size)

    @cached_property
    def moments(self) -> Moments:
        """Plan of the second moments."""
        return Moments(split=self.split, n_users=self._n, n_coef=self.size, constant=self.objective.fit_intercept)

    @property
    def quiet(self) -> bool:
        """True if second moments are good for a metric, and noise is worth few steps, from public numbers."""
        return self.moments.noise <= MOST_MOMENTS_NOISE and self._wide <= MOST_WIDE

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        if self.given_steps is not None:
            return self.given_steps
        more = round(STEPS_OF_NOISE * max(0.0, self.moments.noise - WANTED_NOISE))
        return min(MANY_STEPS, FEW_STEPS + more) + self.classes

    @property
    def _wide(self) -> float:
        """Clip, in deviations of residuals, at which noise is `NOISE_PART` of the sampling error."""
        multiplier = self.split.multiplier / math.sqrt(1.0 - self.moments.share)
        return NOISE_PART * math.sqrt(self._n / self.size) / (self.terms.sum_sensitivity * multiplier)

    @property
    def steps(self) -> Steps:
        """Plan of the steps."""
        return Steps(split=self.split, count=self.n_steps, share=1.0 - self.moments.share - self._slope_share)

    @property
    def _slope_share(self) -> float:
        """Share for the mean slope: that of Huber's loss is not moved by clipping."""
        if not self.objective.fit_intercept or isinstance(self.objective.loss, HuberLoss):
            return 0.0
        noise = self.terms.sum_sensitivity * self._slope_multiplier / self._n
        return SMALL_SHARE if noise * (1.0 if self.classes else TARGET_RANGE) <= SLOPE_NOISE else 0.0

    @property
    def _slope_multiplier(self) -> float:
        return self.split.multiplier / math.sqrt(SMALL_SHARE) * WIDER

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        steps = [(GaussianEvent(each, self.size), 1) for each in self.steps.multipliers]
        slope = [(GaussianEvent(self._slope_multiplier, 1), 1)] if self._slope_share else []
        return [*self.split.other, (self.moments.event, 1), *steps, *slope]

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | _problems.UserData, release: Release) -> _descent.LinearResult:
        """Release the map of features and target, second moments, steps, and the mean slope."""
        rows = as_partitions(data)
        frame = self.scaling.run(rows, release)
        rows = rows.map(
            partial(
                _scaled_rows.scale_rows,
                frame=frame,
                radius=self.moments.radius,
                constant=self.objective.fit_intercept,
                target=not self.classes,
            )
        ).persisted()
        gram = self.moments.run(rows, frame, release)
        metric = Metric(gram)
        start, deviation = gram.logistic() if self.classes else gram.least_squares()
        clip = self._clip(deviation)
        level = self.split.level(self._n, self.size)
        alpha = self.penalty.strength(self._n, level, clip, self.size)
        path = _Path(
            gram=gram,
            metric=metric,
            loss=self._loss(frame),
            steepness=self._steepness(clip, deviation, frame),
            clip=clip,
            ridge=alpha * self._weights(frame),
            unit=_scaled_rows.row_unit(frame),
        )
        iterates = path.walk(metric.sized(rows), start, self.steps, release)
        coef = np.mean(iterates[-self.steps.averaged :], axis=0)
        if self._slope_share:
            coef[-1] -= self._mean_slope(rows, coef, path, deviation, release) / path.hessian(coef)[1]
        return _descent.LinearResult(
            coef=frame.coefficients(coef[None], self.objective.fit_intercept).ravel(),
            n_users=self._n,
            radius=math.inf,
            clip_radius=clip,
            noise_level=level,
            alpha=alpha,
            frame=frame,
        )

    def _clip(self, deviation: float) -> float:
        """Return the clip of residuals: as wide as noise is a part of the sampling error."""
        low, high = CLIPS_CLASSES if self.classes else CLIPS
        unit = 1.0 if self.classes else deviation
        return min(max(self._wide * deviation / unit, low), max(high, self._wide / CLIPS[1])) * unit

    def _loss(self, frame: Frame) -> Any:
        loss = self.objective.loss
        return HuberLoss(loss.threshold / frame.target_scale) if isinstance(loss, HuberLoss) else loss

    def _steepness(self, clip: float, deviation: float, frame: Frame) -> float:
        """Return the mean curvature of clipped slopes, for normal residuals; 0 for classes, whose scores decide."""
        if self.classes:
            return 0.0
        loss = self._loss(frame)
        bound = min(clip, loss.threshold) if isinstance(loss, HuberLoss) else clip
        return 2.0 * float(ndtr(bound / deviation)) - 1.0

    def _weights(self, frame: Frame) -> FloatArray:
        """Return the penalty of each coefficient over its strength; a given one is on the original features."""
        weights = np.ones(self.size)
        if self.penalty.given:
            weights[: len(frame.scales)] = 1.0 / frame.scales**2
        if self.objective.fit_intercept:
            weights[-1] = 0.0
        return weights

    def _mean_slope(self, rows: Partitions, coef: FloatArray, path: _Path, deviation: float, release: Release) -> float:
        """Release the mean of the clipped derivatives."""
        most = 1.0 if self.classes else max(TARGET_RANGE * deviation, path.clip)
        noisy = release.gaussian(
            rows.sum(partial(_scaled_rows.slope_sum, coef=coef, loss=path.loss, most=most)),
            sensitivity=self.terms.sum_sensitivity / CONTRIBUTION_STEP,
            noise_multiplier=self._slope_multiplier,
            step=CONTRIBUTION_STEP,
        )
        return float(noisy[0]) * most / self._n


@dataclass(kw_only=True)
class _Path:
    """Steps θ ← θ − (H + ridge)⁻¹·(clipped mean gradient + ridge·θ).

    ``steepness`` is the curvature of slopes over squared loss's; 0 for two classes. ``unit`` is that of rows.
    """

    gram: Gram
    metric: Metric
    loss: Any
    steepness: float
    clip: float
    ridge: FloatArray
    unit: float

    def hessian(self, coef: FloatArray) -> tuple[FloatArray, float]:
        """Compute the Hessian, and the mean curvature of a score."""
        if not self.steepness:
            return self.gram.logistic_hessian(coef)
        return self.gram.metric * self.steepness, 1.0

    def walk(self, rows: Partitions, coef: FloatArray, steps: Steps, release: Release) -> list[FloatArray]:
        """Release the steps; returns the iterates."""
        terms, n = steps.split.terms, float(steps.split.terms.n_users or 1)
        radius = self.clip * self.metric.typical
        whole = 2.0 ** (_scaled_rows.FACTOR_BITS + math.frexp(self.metric.typical / self.unit)[1])
        iterates: list[FloatArray] = []
        steep = 1.0
        before: tuple[FloatArray, FloatArray] | None = None
        for multiplier in steps.multipliers:
            total = rows.sum(partial(_scaled_rows.gradient_sum, coef=coef, loss=self.loss, radius=radius, steps=whole))
            noisy = release.gaussian(
                self.metric.mapped(total),
                sensitivity=terms.sum_sensitivity * whole,
                noise_multiplier=multiplier,
                step=1.0 / whole,
            )
            slope = self.metric.back @ np.asarray(noisy, dtype=np.float64) * (radius / n) + self.ridge * coef
            hessian = self.hessian(coef)[0] + np.diag(self.ridge)
            if len(iterates) == 1 and before is not None:
                noise = terms.sum_sensitivity * multiplier * radius / n
                steep = self._secant(hessian, coef - before[0], slope - before[1], noise)
            before = coef, slope
            move = np.linalg.solve(steep * hessian, slope)
            length = math.sqrt(max(float(move @ self.gram.metric @ move), 0.0))
            coef = coef - move / max(length, 1.0)  # scores move by a deviation at most
            iterates.append(coef)
        return iterates

    def _secant(self, hessian: FloatArray, move: FloatArray, change: FloatArray, noise: float) -> float:
        """Compare the change of released gradients with the Hessian's: longer rows than those of the moments are
        steeper.
        """
        expected = float(move @ hessian @ move)
        doubt = 2.0 * noise * float(np.linalg.norm(self.metric.back.T @ move))
        return min(max(1.0, (float(move @ change) + doubt) / (expected + doubt)), MOST_GROWTH)


def sample_size(terms: Terms, n_features: int) -> int:
    """Return the number of rows in which centres and scales are found; all where one row more moves the others."""
    assert terms.n_users is not None
    if terms.monotone:
        return terms.n_users
    needed = max(LEAST_SAMPLE, math.ceil(math.sqrt(SIGNAL * n_features / terms.rho)))
    return min(needed, terms.n_users)


def covers(objective: _problems.Objective, terms: Terms) -> bool:
    """Return True if steps of this objective can be preconditioned."""
    known = isinstance(objective.loss, (SquaredLoss, HuberLoss, LogisticLoss)) and objective.n_outputs == 1
    fits = objective.fit_intercept or not isinstance(objective.loss, LogisticLoss)
    return known and fits and terms.n_users is not None
