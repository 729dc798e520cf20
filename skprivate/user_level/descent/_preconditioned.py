"""A linear model whose second moments are quiet: few clipped steps in their metric, from where they start it.

One sum releases the second moments of rows and target (`Moments`). They give the start, the inverse curvature of each
step, and the scale of residuals. Each step releases one more sum of clipped gradients: θ ← θ − P·(gradient + penalty).
A last number, the mean slope, sets the intercept, because clipping moves it.

Noise is drawn in the metric of the moments where that is cheaper: a contribution is an integer multiple k·z of a row
with |k|·‖Wᵀz‖ bounded, for a matrix W of integers, and WᵀΣkz is released. Several classes have an integer each. Users
with several rows contribute their mean gradients, clipped there: for numbers to a multiple of their median norm, which
is selected at the start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import CONTRIBUTION_STEP, GaussianEvent, Mechanism, PrivacyEvent, Release
from skprivate.user_level import _problems, _ranges
from skprivate.user_level._losses import HuberLoss, LogisticLoss, MultinomialLoss, SquaredLoss
from skprivate.user_level._plan import CLEAR_DEVIATIONS, SMALL_SHARE, WIDER, BudgetSplit, Terms, split_budget
from skprivate.user_level._ranges import NOISE_PART
from skprivate.user_level.descent import _descent, _rules, _scaled_rows
from skprivate.user_level.descent._second_moments import Gram, Moments
from skprivate.user_level.scaling import _sample, _standardise
from skprivate.user_level.scaling._frame import TARGET_RANGE, Frame

FloatArray = npt.NDArray[np.float64]

#: Noise of second moments up to which steps are preconditioned, for numbers and for classes: those of a rare one are
#: steep. A clip by the rule below beyond which there is hardly any noise: then more steps of the plain descent go on to
#: the minimum.
MOST_MOMENTS_NOISE, MOST_NOISE_CLASSES, MOST_WIDE = 0.1, 0.05, 128.0
#: Range of the clip: in deviations of slopes, and in norms of a row for two classes, whose effects clipped residuals
#: exaggerate. It ends farther out where noise is much less.
CLIPS, CLIPS_CLASSES = (0.8, 8.0), (1.0, 1.5)
#: Share of the steps' budget for those that are not averaged, over their part.
FIRST_PART = 0.4
#: Noise of the mean slope up to which it is released.
SLOPE_NOISE = 0.02
#: Noise of predictions from sums in simpler coordinates, over that in the metric of the moments, that is as good; bits
#: of a diagonal and a full matrix.
AS_GOOD, DIAGONAL_BITS, METRIC_BITS = 1.2, 7, 12
#: Largest slope of a user's row, in deviations of residuals.
MOST_SLOPE = 2.0**10
#: Least bound of slopes, in scales of the target: a threshold may be smaller, and divides.
LEAST_SLOPE = 2.0**-40
#: Least users who are looked at for centres and scales, and ρm² for each feature.
LEAST_SAMPLE, SIGNAL = 20_000, 5e4


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Search of a map of features and target in a secret sample of ``n_sample`` of ``n_users``, or all."""

    search: _standardise.Standardisation
    n_users: int
    n_sample: int
    seed: int = field(repr=False)
    several: bool

    def run(self, rows: Partitions, release: Release) -> Frame:
        """Release the map."""
        if self.n_sample < self.n_users:
            if self.several:
                places = _sample.user_places(rows, self.n_sample, self.seed)
            else:
                places = _sample.row_places(self.n_users, self.n_sample, self.seed)
            rows = _sample.sampled(rows, places)
        return self.search.run(rows, float(self.n_sample), release)[1]


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
        self.back: FloatArray = np.asarray(np.linalg.pinv(self.matrix.T), dtype=np.float64)

    def mapped(self, total: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map an exact sum, exactly."""
        return np.asarray(self.matrix.T.astype(np.int64).astype(object) @ total.astype(object))


def _integers(matrix: FloatArray, bits: int) -> FloatArray:
    """Round to integers below 2ᵇⁱᵗˢ, none of a diagonal to 0."""
    whole = np.rint(matrix * 2.0 ** (bits - math.frexp(float(np.abs(matrix).max()))[1]))
    return np.maximum(whole, 1.0) if matrix.ndim == 1 else whole


@dataclass(frozen=True, kw_only=True)
class PreconditionedDescent(Mechanism):
    """A linear model whose second moments are quiet; ``several`` if users may have several rows."""

    terms: Terms
    objective: _problems.Objective
    scaling: Scaling
    penalty: _rules.Penalty
    given_steps: int | None
    several: bool = False
    theorem = "clipped steps in the metric of second moments, docs/theory/user_level.md"
    bounds = _rules.Bounds(radius=math.inf, select_scale=False)

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def _width(self) -> int:
        """Numbers of a row."""
        return self.size // self.objective.n_outputs

    @property
    def standardisation(self) -> _standardise.Standardisation:
        """Search of the map."""
        return self.scaling.search

    @property
    def classes(self) -> bool:
        """True if targets are classes."""
        return isinstance(self.objective.loss, (LogisticLoss, MultinomialLoss))

    @property
    def _n(self) -> float:
        assert self.terms.n_users is not None
        return float(self.terms.n_users)

    @property
    def _selects(self) -> bool:
        """True if the clip is a selected median norm: where a class is rare, that would be the other's."""
        return self.several and not self.classes

    @cached_property
    def split(self) -> BudgetSplit:
        numbers = (self._width + self.objective.n_outputs) ** 2 + self.n_steps * self.size
        return split_budget(self.terms, n_numbers=numbers, clip=self._selects)

    @cached_property
    def moments(self) -> Moments:
        """Plan of the second moments."""
        return Moments(
            split=self.split,
            n_users=self._n,
            n_coef=self._width,
            constant=self.objective.fit_intercept,
            n_targets=self.objective.n_outputs,
        )

    @property
    def quiet(self) -> bool:
        """True if second moments are good for a metric, and noise is worth few steps, from public numbers."""
        clipped = not self._selects or self.split.clip_epsilon is not None
        most = MOST_NOISE_CLASSES if self.classes else MOST_MOMENTS_NOISE
        return clipped and self.moments.noise <= most and self._wide <= MOST_WIDE

    @property
    def n_steps(self) -> int:
        """Number of steps: enough for collinear features, and for rows much longer than those of the moments.

        The Hessian of several classes is less known.
        """
        usual = _rules.FEWEST_STEPS * (1 if self.objective.n_outputs == 1 else 2)
        return usual if self.given_steps is None else self.given_steps

    @property
    def _wide(self) -> float:
        """Clip, in deviations of residuals or median norms, at which noise is `NOISE_PART` of the sampling error."""
        multiplier = self.split.multiplier / math.sqrt(1.0 - self.moments.share)
        return NOISE_PART * math.sqrt(self._n / self.size) / (self.terms.sum_sensitivity * multiplier)

    @property
    def steps(self) -> Steps:
        """Plan of the steps."""
        return Steps(split=self.split, count=self.n_steps, share=1.0 - self.moments.share - self._slope_share)

    @property
    def _slope_share(self) -> float:
        """Share for the mean slope: that of Huber's loss is not moved by clipping, that of users' means hardly."""
        if not self.objective.fit_intercept or isinstance(self.objective.loss, HuberLoss):
            return 0.0
        if self.several and not self.classes:
            return 0.0
        noise = self.terms.sum_sensitivity * self._slope_multiplier / self._n
        return SMALL_SHARE if noise * (1.0 if self.classes else TARGET_RANGE) <= SLOPE_NOISE else 0.0

    @property
    def _slope_multiplier(self) -> float:
        return self.split.multiplier / math.sqrt(SMALL_SHARE) * WIDER

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        steps = [(GaussianEvent(each, self.size), 1) for each in self.steps.multipliers]
        mean = GaussianEvent(self._slope_multiplier, self.objective.n_outputs)
        slope = [(mean, 1)] if self._slope_share else []
        return [*self.split.other, (self.moments.event, 1), *steps, *slope]

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | _problems.UserData, release: Release) -> _descent.LinearResult:
        """Release the map of features and target, second moments, steps, and the mean slope."""
        rows = as_partitions(data)
        frame = self.scaling.run(rows, release)
        rows = self._scaled(rows, frame)
        gram = self.moments.run(rows, frame, release)
        if self.objective.n_outputs > 1:
            return self._several_classes(rows, gram, frame, release)
        start, deviation = gram.logistic() if self.classes else gram.least_squares()
        metric, loss = Metric(gram), self._loss(frame)
        # Slopes of Huber's loss are no larger than its threshold, and noise is that of what they are clipped to.
        usual = min(deviation, max(loss.threshold, LEAST_SLOPE)) if isinstance(loss, HuberLoss) else deviation
        gradients: RowGradients | UserGradients
        if self.several:
            most = 1.0 if self.classes else MOST_SLOPE * usual
            gradients = self._clipped(UserGradients(rows=rows, metric=metric, loss=loss, most=most), start, release)
        else:
            gradients = self._row_gradients(rows, metric, self._clip(usual), frame)
        clip = gradients.radius / metric.typical
        alpha = self._strength(clip)
        path = _Path(
            gram=gram,
            gradients=gradients,
            steepness=self._steepness(clip, deviation, frame),
            ridge=alpha * self._weights(frame),
        )
        iterates = path.walk(start, self.steps, release)
        coef = np.mean(iterates[-self.steps.averaged :], axis=0)
        if self._slope_share:
            most = 1.0 if self.classes else max(TARGET_RANGE * deviation, clip)
            coef[-1] -= self._mean_slope(gradients, coef, most, release)[0] / path.hessian(coef)[1]
        return self._result(coef[None], gram, frame, clip, alpha)

    def _strength(self, clip: float) -> float:
        """Return the strength of the penalty."""
        level = self.split.level(self._n, self.size)
        return self.penalty.strength(self._n, level, clip, self.size, self.objective.n_outputs)

    def _result(self, coef: FloatArray, gram: Gram, frame: Frame, clip: float, alpha: float) -> _descent.LinearResult:
        """Return coefficients, with a row for each output, in the units of the features."""
        return _descent.LinearResult(
            coef=frame.coefficients(coef, self.objective.fit_intercept).ravel(),
            n_users=self._n,
            radius=math.inf,
            clip_radius=clip,
            noise_level=self.split.level(self._n, self.size),
            alpha=alpha,
            frame=frame,
            hidden=gram.hidden() if self.classes else (),
        )

    def _several_classes(self, rows: Partitions, gram: Gram, frame: Frame, release: Release) -> _descent.LinearResult:
        """Release the steps of several classes, whose Hessian is mean curvature ⊗ metric, and the mean slopes."""
        coef, curvature = gram.softmax()
        # Slopes of two classes in their two scores are √2 times as long as that in one.
        clip = math.sqrt(2.0) * self._clip(1.0)
        gradients = self._row_gradients(rows, Metric(gram), clip, frame)
        alpha = self._strength(clip)
        ridge = alpha * self._weights(frame)
        values, vectors = np.linalg.eigh(curvature)
        hessians = values[:, None, None] * gram.metric + np.diag(ridge)
        iterates = []
        for multiplier in self.steps.multipliers:
            mean = gradients.release(coef, self.terms, multiplier, release) * (gradients.radius / self._n)
            slope = (gradients.back @ mean).T + ridge * coef
            move = vectors @ np.linalg.solve(hessians, (vectors.T @ slope)[..., None])[..., 0]
            coef = coef - move / max(math.sqrt(float(np.sum(move @ gram.metric * move))), 1.0)
            iterates.append(coef)
        coef = np.mean(iterates[-self.steps.averaged :], axis=0)
        if self._slope_share:
            slope = self._mean_slope(gradients, coef, math.sqrt(2.0), release)
            coef[:, -1] -= np.linalg.solve(curvature, slope)
        return self._result(coef, gram, frame, clip, alpha)

    def _scaled(self, rows: Partitions, frame: Frame) -> Partitions:
        """Form integer rows."""
        return rows.map(
            partial(
                _scaled_rows.scale_rows,
                frame=frame,
                radius=self.moments.radius,
                constant=self.objective.fit_intercept,
                target=not self.classes,
            )
        ).persisted()

    def _row_gradients(self, rows: Partitions, metric: Metric, clip: float, frame: Frame) -> RowGradients:
        """Find the limits of rows in the metric."""
        unit = _scaled_rows.row_unit(frame)
        steps = 2.0 ** (_scaled_rows.FACTOR_BITS + math.frexp(metric.typical / unit)[1])
        limited = partial(_scaled_rows.with_limits, matrix=metric.own, steps=steps)
        return RowGradients(
            rows=rows.map(limited).persisted(),
            metric=metric,
            loss=self._loss(frame),
            radius=clip * metric.typical,
            unit=unit,
            steps=steps,
        )

    def _clipped(self, gradients: UserGradients, start: FloatArray, release: Release) -> UserGradients:
        """Set the norm to which users' gradients are clipped: that of rows, or a multiple of a selected median."""
        if not self._selects:
            return replace(gradients, radius=self._clip(1.0) * gradients.metric.typical)
        assert self.split.clip_epsilon is not None
        median = _ranges.select_median_scale(
            gradients.rows.sum(gradients.means(start).norm_counts),
            epsilon=self.split.clip_epsilon,
            release=release,
            monotone=self.terms.monotone,
        )
        return replace(gradients, radius=self._widest(CLIPS) * median)

    def _clip(self, deviation: float) -> float:
        """Return the clip of residuals."""
        unit = 1.0 if self.classes else deviation
        return self._widest(CLIPS_CLASSES if self.classes else CLIPS, deviation / unit) * unit

    def _widest(self, ends: tuple[float, float], unit: float = 1.0) -> float:
        """Return the clip that is as wide as noise is a part of the sampling error."""
        low, high = ends
        return min(max(self._wide * unit, low), max(high, self._wide / CLIPS[1]))

    def _loss(self, frame: Frame) -> Any:
        loss = self.objective.loss
        return HuberLoss(loss.threshold / frame.target_scale) if isinstance(loss, HuberLoss) else loss

    def _steepness(self, clip: float, deviation: float, frame: Frame) -> float:
        """Return the mean curvature of clipped slopes, for normal residuals; 0 for classes, whose scores decide."""
        if self.classes:
            return 0.0
        loss = self._loss(frame)
        bound = loss.threshold if isinstance(loss, HuberLoss) else math.inf
        if self.several:
            kept = min(1.0, self._widest(CLIPS))
        else:
            kept, bound = 1.0, min(clip, bound)
        return kept * math.erf(max(bound, LEAST_SLOPE) / deviation * math.sqrt(0.5))

    def _weights(self, frame: Frame) -> FloatArray:
        """Return the penalty of each coefficient over its strength; a given one is on the original features."""
        weights = np.ones(self._width)
        if self.penalty.given:
            weights[: len(frame.scales)] = 1.0 / frame.scales**2
        if self.objective.fit_intercept:
            weights[-1] = 0.0
        return weights

    def _mean_slope(
        self, gradients: RowGradients | UserGradients, coef: FloatArray, most: float, release: Release
    ) -> FloatArray:
        """Release the mean of the clipped derivatives, in each score."""
        noisy = release.gaussian(
            gradients.slope_sum(coef, most),
            sensitivity=self.terms.sum_sensitivity / CONTRIBUTION_STEP,
            noise_multiplier=self._slope_multiplier,
            step=CONTRIBUTION_STEP,
        )
        return np.asarray(noisy, dtype=np.float64) * (most / self._n)


@dataclass(frozen=True, kw_only=True)
class RowGradients:
    """Gradients of rows, clipped to norm ``radius`` in a metric; in ``steps`` of it, and rows in units of ``unit``."""

    rows: Partitions
    metric: Metric
    loss: Any
    radius: float
    unit: float
    steps: float

    @property
    def back(self) -> FloatArray:
        """Map from the coordinates of contributions to those of coefficients."""
        return self.metric.back

    def release(self, coef: FloatArray, terms: Terms, multiplier: float, release: Release) -> FloatArray:
        """Release their sum over ``radius``, in coordinates of contributions, a column for each of several classes."""
        steps = self.steps * self.unit / self.radius
        if coef.ndim == 1:
            form = partial(_scaled_rows.gradient_sum, coef=coef, loss=self.loss, steps=steps)
        else:
            form = partial(_scaled_rows.class_gradient_sum, coef=coef, steps=steps)
        mapped = self.metric.mapped(self.rows.sum(form).T)
        noisy = release.gaussian(
            mapped.ravel(),
            sensitivity=terms.sum_sensitivity * self.steps,
            noise_multiplier=multiplier,
            step=1.0 / self.steps,
        )
        return np.asarray(noisy, dtype=np.float64).reshape(mapped.shape)

    def slope_sum(self, coef: FloatArray, most: float) -> npt.NDArray[Any]:
        """Sum derivatives over ``most``, clipped to ±1; over √2 for several classes."""
        if coef.ndim == 2:
            return self.rows.sum(partial(_scaled_rows.class_slope_sum, coef=coef))
        return self.rows.sum(partial(_scaled_rows.slope_sum, coef=coef, loss=self.loss, most=most))


@dataclass(frozen=True, kw_only=True)
class UserGradients:
    """Mean gradients of users, clipped to norm ``radius`` in a metric; slopes of rows are at most ``most``."""

    rows: Partitions
    metric: Metric
    loss: Any
    most: float
    radius: float = 0.0

    @property
    def back(self) -> FloatArray:
        """Map from the coordinates of contributions to those of coefficients."""
        return self.metric.back

    def means(self, coef: FloatArray) -> _scaled_rows.UserMeans:
        """Form the sums over users at these coefficients."""
        return _scaled_rows.UserMeans(coef=coef, loss=self.loss, most=self.most, matrix=self.metric.own)

    def release(self, coef: FloatArray, terms: Terms, multiplier: float, release: Release) -> FloatArray:
        """Release their sum over ``radius``, in coordinates of contributions."""
        total = self.rows.sum(partial(self.means(coef).contribution_sum, radius=self.radius))
        return np.asarray(terms.release_sum(total, multiplier, release), dtype=np.float64)

    def slope_sum(self, coef: FloatArray, most: float) -> npt.NDArray[Any]:
        """Sum users' mean derivatives over ``most``, which no slope passes."""
        assert most == self.most
        return self.rows.sum(self.means(coef).slope_sum)


@dataclass(kw_only=True)
class _Path:
    """Steps θ ← θ − (H + ridge)⁻¹·(clipped mean gradient + ridge·θ).

    ``steepness`` is the curvature of slopes over squared loss's; 0 for two classes.
    """

    gram: Gram
    gradients: RowGradients | UserGradients
    steepness: float
    ridge: FloatArray

    def hessian(self, coef: FloatArray) -> tuple[FloatArray, float]:
        """Compute the Hessian, and the mean curvature of a score."""
        if not self.steepness:
            return self.gram.logistic_hessian(coef)
        return self.gram.metric * self.steepness, 1.0

    def walk(self, coef: FloatArray, steps: Steps, release: Release) -> list[FloatArray]:
        """Release the steps; returns the iterates."""
        terms, back = steps.split.terms, self.gradients.back
        unit = self.gradients.radius / float(terms.n_users or 1)
        iterates: list[FloatArray] = []
        steeper: FloatArray = np.zeros((len(coef), len(coef)))
        before: tuple[FloatArray, FloatArray, float] | None = None
        for multiplier in steps.multipliers:
            noise = terms.sum_sensitivity * multiplier * unit
            slope = back @ self.gradients.release(coef, terms, multiplier, release) * unit + self.ridge * coef
            hessian = self.hessian(coef)[0] + np.diag(self.ridge) + steeper
            if before is not None:
                more = self._secant(hessian, coef - before[0], slope - before[1], math.hypot(noise, before[2]))
                hessian, steeper = hessian + more, steeper + more
            before = coef, slope, noise
            move = np.linalg.solve(hessian, slope)
            length = math.sqrt(max(float(move @ self.gram.metric @ move), 0.0))
            coef = coef - move / max(length, 1.0)  # scores move by a deviation at most
            iterates.append(coef)
        return iterates

    def _secant(self, hessian: FloatArray, move: FloatArray, change: FloatArray, noise: float) -> FloatArray:
        """Add the curvature that released gradients show along a move: longer rows than those of the moments are
        steeper.
        """
        left = change - hessian @ move
        doubt = CLEAR_DEVIATIONS * noise * float(np.linalg.norm(self.gradients.back.T @ move))
        clear = float(move @ left)
        return np.outer(left, left) / clear if clear > doubt else np.zeros_like(hessian)


def sample_size(terms: Terms, n_features: int) -> int:
    """Return the number of users in whom centres and scales are found; all where one more moves the others."""
    assert terms.n_users is not None
    if terms.monotone:
        return terms.n_users
    needed = max(LEAST_SAMPLE, math.ceil(math.sqrt(SIGNAL * n_features / terms.rho)))
    return min(needed, terms.n_users)


def covers(objective: _problems.Objective, terms: Terms, several: bool) -> bool:
    """Return True if steps of this objective can be preconditioned; those of several classes only for rows."""
    classes = isinstance(objective.loss, LogisticLoss if objective.n_outputs == 1 else MultinomialLoss)
    numbers = isinstance(objective.loss, (SquaredLoss, HuberLoss))
    fits = objective.fit_intercept and (objective.n_outputs == 1 or not several)
    return (numbers or (classes and fits)) and terms.n_users is not None
