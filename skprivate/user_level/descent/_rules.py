"""Rules of a descent: its draws and their noise, from public numbers alone.

Shrinkage of splines after a descent is post-processing of released numbers: it draws nothing and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, softmax

from skprivate import privacy
from skprivate._validation import plain
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import GaussianEvent, Mechanism, PrivacyEvent, Release
from skprivate.user_level import _losses, _plan, _problems, _ranges
from skprivate.user_level._plan import BudgetSplit, DescentPlan, Terms
from skprivate.user_level.scaling import _frame, _standardise

FloatArray = npt.NDArray[np.float64]

#: Noise that leaves nothing of a rate.
MOST_RATE_NOISE = 0.06
#: Largest share of a class that is rare.
RARE = 0.2
#: Largest ratio of class weights.
_MOST = 100.0
#: Prior variance of the coefficients of a feature's functions, in that of a line's. Effects have a deviation of 1,
#: their curvature one of 1/4, or nothing would be left of a line. Sampling penalties follow it, and it counts as
#: evidence of a part of one coefficient.
PRIOR, PRIOR_COUNT = 1.0 / 16.0, 0.1
#: Iterations towards the likeliest variance.
ROUNDS = 50
#: Fewest and most steps, and the noise of a single one against a unanimous vote. Many steps that only follow the noise
#: end farther from the solution than few.
FEWEST_STEPS, MOST_STEPS, STEP_NOISE = 10, 50, 0.1**0.5
#: Projection radius in scales of the target, and the first step in units of the radius. For two classes it is one over
#: the curvature of the loss of rows that are clipped at half their norm: few steps cannot correct a longer one.
RADIUS_FACTOR, FIRST_STEP, FIRST_STEP_CLASSES = 2.0, 0.15, 0.1
#: Relative noise of second moments above which nothing is whitened.
MOST_NOISE = 0.2
#: Largest size of second moments: beyond it those of a private number of users are noise.
MOST_WHITENED = 200


class WeightedLoss:
    """Loss whose rows are weighted by their own labels, with weights in (0, 1]."""

    def __init__(self, loss: _losses.LinearLoss, weights: FloatArray) -> None:
        self.loss = loss
        self.weights = weights

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        first, *others = self.weights.tolist()
        factor = np.full(y.shape[1], first)
        for weight, of_class in zip(others, y if len(y) == 1 else y[1:], strict=True):
            factor[of_class > 0.0] = weight
        return np.asarray(self.loss.derivative(f, y) * factor)


@dataclass(frozen=True)
class ClassCounts:
    """Counts of users of each class; a user with rows of several classes counts in parts.

    They are for weights that are ``balanced``, or else for intercepts: that of the start, and those at the end, which
    give the classes their rates. Targets are −1 and 1 if ``signed``, and 0 and 1 otherwise.
    """

    terms: Terms
    n_classes: int
    signed: bool
    balanced: bool

    @property
    def rates(self) -> bool:
        """True if noise leaves rates, which the mean chances are moved to."""
        return not self.balanced and self.noise <= MOST_RATE_NOISE * (self.terms.n_users or math.inf)

    @property
    def multiplier(self) -> float:
        """Noise multiplier of the counts."""
        return self.terms.multiplier / math.sqrt(_plan.SMALL_SHARE)

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        return ((GaussianEvent(self.multiplier, self.n_classes), 1),)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a count; two users' shares differ by √2 at most."""
        return self.terms.acute_sensitivity * self.multiplier

    def run(self, data: Partitions | _problems.UserData, release: Release) -> FloatArray:
        """Release the counts."""
        total = as_partitions(data).sum(partial(_shares, signed=self.signed))
        noisy = release.gaussian(
            total,
            sensitivity=self.terms.acute_sensitivity / privacy.CONTRIBUTION_STEP,
            noise_multiplier=self.multiplier,
            step=privacy.CONTRIBUTION_STEP,
        )
        return np.asarray(noisy, dtype=np.float64)

    def hidden(self, counts: FloatArray) -> tuple[int, ...]:
        """List classes whose released counts noise alone explains, where half an equal share would be seen."""
        least = _plan.CLEAR_DEVIATIONS * self.noise
        return tuple(np.flatnonzero(counts <= least).tolist()) if counts.mean() > 2.0 * least else ()

    def weights(self, counts: FloatArray) -> FloatArray:
        """Compute class weights from released counts."""
        return balanced_weights(counts, _plan.CLEAR_DEVIATIONS * self.noise)

    def intercept(self, counts: FloatArray, n_users: float) -> float:
        """Compute the intercept of a model of two classes without features from released counts; 0 if neither is rare.

        Where users are clipped, those of the larger class have more to say than they should have, from 0 on as well.
        """
        share = 0.5 + 0.5 * float(counts[1] - counts[0]) / n_users
        least = min(self.noise / n_users, 0.5)
        share = min(max(share, least), 1.0 - least)
        return math.log(share / (1.0 - share)) if min(share, 1.0 - share) < RARE else 0.0

    def shifts(self, counts: FloatArray, chances: FloatArray, noise: float) -> FloatArray:
        """Compute what moves mean chances to the rates of the classes, from released sums: a number an output.

        ``noise`` is the deviation of a sum of chances. A shift that noise explains is shrunk (James and Stein).
        """
        several, total = len(chances) > 1, max(float(counts.sum()), self.noise)
        errors = np.array([[self.noise], [noise]]) / total
        least = np.minimum(errors, 0.5)
        parts = np.clip(np.array([counts if several else counts[-1:], chances]) / total, least, 1.0 - least)
        scores, slopes = (np.log(parts), 1.0 / parts) if several else (logit(parts), 1.0 / (parts - parts**2))
        shift, variance = scores[0] - scores[1], np.square(errors * slopes).sum(axis=0)
        return np.asarray(shift * (1.0 - np.minimum(1.0, variance / np.maximum(np.square(shift), variance))))


def _shares(data: _problems.UserData, signed: bool) -> npt.NDArray[Any]:
    """Sum the users' shares of rows of each class."""
    shares = np.atleast_2d(data.groups.mean(data.y))
    if len(shares) == 1:
        shares = np.concatenate([-shares, shares])
    if signed:
        shares = 0.5 * shares + 0.5
    # A vector of shares has norm 1 at most; longer ones, by rounding, are cut.
    return privacy.exact_sum(privacy.ball_contributions(shares, 1.0, weights=data.groups.weights))


def balanced_weights(counts: FloatArray, fewest: float) -> FloatArray:
    """Compute n / (n_classes · count) for released counts, at least ``fewest`` and a hundredth of the largest."""
    counts = np.maximum(counts, max(fewest, float(counts.max()) / _MOST))
    return np.asarray(counts.sum() / (len(counts) * counts))


def given_weights(class_weight: object, classes: list[Any]) -> FloatArray:
    """Read class weights from a mapping; 1 where it names none, and ValueError where it does not fit."""
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}.")
    known = {label: j for j, label in enumerate(classes)}
    weights = np.ones(len(classes))
    for label, weight in class_weight.items():
        if plain(label) not in known:
            raise ValueError(f"class_weight names {label!r}, which is none of the classes.")
        if not isinstance(weight, Real) or not 1e-100 < float(weight) < 1e100:
            raise ValueError(f"class_weight[{label!r}] must be a positive finite number, got {weight!r}.")
        weights[known[plain(label)]] = float(weight)
    return weights


class Function(NamedTuple):
    """Column that an earlier step made of a feature; its ``deviation`` is 0 where unknown or where it is a line."""

    feature: int
    deviation: float


class Estimate(NamedTuple):
    """Public conditions of an estimate: curvature of the loss for each output, and noise of the mean gradient.

    ``times`` are those of `Course`. ``spreads`` is the diagonal of the inverse second moments, where the descent was in
    whitened coordinates.
    """

    curvature: FloatArray
    noise: float
    n_users: float
    penalties: FloatArray
    times: FloatArray
    spreads: FloatArray | None = None


def curvatures(coef: FloatArray, deviations: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Compute the mean curvature of a loss of classes, in the score of each output, for normal scores.

    ``coef`` beyond the columns are intercepts. ``weights`` are those of the classes in the minimised objective.
    """
    tiny = np.finfo(np.float64).tiny
    slopes, base = coef[:, : len(deviations)], coef[:, len(deviations) :].sum(axis=1)
    if len(coef) > 1:
        base = logit(np.clip(softmax(base), tiny, 1.0 - 1e-12))
    spread = np.sqrt(np.square(slopes) @ np.square(deviations))
    points, shares = _losses.normal_quadrature()
    chances = expit(base[:, None] + spread[:, None] * points)
    curvature = (chances * (1.0 - chances)) @ shares
    if weights is not None:
        # Chances are those of weighted rows: a class has its part of them over its weight.
        parts = chances @ shares
        parts = parts / parts.sum() if len(coef) > 1 else np.array([1.0 - parts[0], parts[0]])
        curvature = curvature / (parts @ (1.0 / weights))
    return np.asarray(np.maximum(curvature, tiny))


def shrink_functions(coef: FloatArray, functions: tuple[Function | None, ...], estimate: Estimate) -> FloatArray:
    """Shrink the coefficients of each feature's functions by empirical Bayes (MacKay).

    Coefficients b of one feature's functions are taken as normal with a common variance τ. Their estimates are normal
    about a part f of them, which penalty and steps left, with variance f²v. MacKay's rule τ ← Σ (γ b̂/f)² / Σ γ, γ =
    τ/(τ + v), leads to the likeliest τ, or towards 0 without evidence; the mean of b is then γ b̂/f. Functions are made
    to be uncorrelated, so each is looked at by itself. Coefficients keep their signs, and none grows.
    """
    known = [(j, each) for j, each in enumerate(functions) if each is not None and each.deviation]
    if not known:
        return coef
    columns = np.array([j for j, _ in known])
    groups = np.unique([each.feature for _, each in known], return_inverse=True)[1]
    squares = np.array([each.deviation for _, each in known]) ** 2
    part, errors = _errors(squares, columns, estimate)

    def sums(values: FloatArray) -> FloatArray:
        """Sum over all outputs and functions of each feature."""
        return np.bincount(groups, values.sum(axis=0)).astype(np.float64)

    found = coef[:, columns] / part
    variance = np.full(groups.max() + 1, PRIOR)
    for _ in range(ROUNDS):
        kept = variance[groups] / (variance[groups] + errors)
        evidence = sums(np.square(kept * found)) + PRIOR_COUNT * PRIOR
        variance = evidence / (sums(kept) + PRIOR_COUNT)
    left = np.minimum(1.0, variance[groups] / (variance[groups] + errors) / part)
    result = coef.copy()
    result[:, columns] *= np.where(np.isfinite(left), left, 1.0)  # of numbers whose squares overflow
    return result


def _errors(squares: FloatArray, columns: npt.NDArray[np.intp], estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Return the part of coefficients that estimates are about, and the variance of estimates divided by it.

    Gradients have the drawn noise and sampling noise. The variance of the latter is, for a likelihood, its curvature
    over the number of users, and about as much for the squared loss of a target of scale 1.
    """
    h, penalties = estimate.curvature[:, None], estimate.penalties[columns]
    if estimate.spreads is None:
        spread, loud = 1.0 / squares, 1.0 / squares**2
        steep = h * squares + penalties
    else:  # noise is alike in whitened coordinates, and so are curvatures
        spread = loud = estimate.spreads[columns]
        steep = h + penalties * spread
    reached = -np.expm1(-steep[..., None] * estimate.times).mean(axis=-1)
    part = np.maximum(h * squares / (h * squares + penalties) * reached, np.finfo(np.float64).tiny)
    return part, (estimate.noise / h) ** 2 * loud + spread / (h * estimate.n_users)


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """Strength of the ℓ2 penalty: ``given``, or (``record_ridge`` + ``clip_ridge``·c²)·d·ν² + ``user_ridge``/n with the
    noise level ν and the clipping radius c in norms of a row.
    """

    given: float | None
    record_ridge: float = 0.0
    user_ridge: float = 0.0
    clip_ridge: float = 0.0

    def strength(
        self, n_users: float, level: float, clip: float, size: int, n_outputs: int = 1, flat: bool = False
    ) -> float:
        """Return it for ``size`` coefficients; ``flat`` as in `noise_penalty`."""
        if self.given is not None:
            return self.given
        noise = self.record_ridge * size * level**2
        if self.clip_ridge:
            noise += _losses.noise_penalty(self.clip_ridge, level, clip, size / n_outputs, size, flat)
        return noise + self.user_ridge / n_users


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Clipping radius: ``factor`` times a selected median, or without ``select`` the public ``radius``.

    That is in norms of a row; it shrinks where the noise level ν exceeds ``noise``/(√d·``radius``). One that ``grows``
    does so as noise falls, and a selected one as the tail of the gradient norms demands, too.
    """

    select: bool
    factor: float = 1.0
    radius: float = 0.0
    noise: float = 0.0
    grows: bool = False


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Public sizes: the projection ``radius``, which a selected scale of the target may replace, and norms of rows.

    A radius that is ``given`` is a bound, which may be met. With a typical ``row_norm`` the clipping radius is
    multiplied by it and the projection radius divided. Coefficients of ``indicators`` are bounded where nobody seems to
    have them; those of other columns of public unit may serve as an intercept.
    """

    radius: float
    select_scale: bool
    given: bool = False
    row_norm: float | None = None
    row_bound: float = math.inf
    indicators: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DescentRules(Mechanism):
    """Plan of a fit: count of users, centres and scales, moments or means, scale of the target, steps.

    Class counts are ``earlier`` events. Without ``given_steps`` noise decides their number.
    """

    terms: Terms
    objective: _problems.Objective
    penalty: Penalty
    given_steps: int | None
    clipping: Clipping
    bounds: Bounds
    standardisation: _standardise.Standardisation | None = None
    class_weights: FloatArray | ClassCounts | None = field(default=None, compare=False)
    classes: bool = False
    functions: tuple[Function | None, ...] = ()

    @cached_property
    def split(self) -> BudgetSplit:
        return _plan.split_budget(
            self.terms,
            n_numbers=self.objective.n_coef * (self.given_steps or MOST_STEPS) + self._n_whitened**2,
            scales=int(self.bounds.select_scale),
            clip=self.clipping.select,
            tail=self.clipping.select and self.clipping.grows and self._tail_matters,
        )

    @property
    def _tail_matters(self) -> bool:
        """True if any tail could change the clipping radius."""
        if self.terms.n_users is None:
            return True
        level = self.terms.level(self.terms.n_users, self.size)
        growth = _ranges.quiet_growth(level, self.terms.n_users, _ranges.NOISE_PART)
        return _ranges.MOST_HEAVY * growth > self.clipping.factor

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def n_steps(self) -> int:
        """Number of steps. Events have to be known before a private number of users is released."""
        if self.given_steps is not None:
            return self.given_steps
        if self.terms.n_users is None:
            return MOST_STEPS
        level = self.split.level(self.terms.n_users, self.objective.n_coef)
        return int(min(MOST_STEPS, max(FEWEST_STEPS, round((STEP_NOISE / level) ** 2))))

    def clip(self, n_users: float) -> float:
        """Return the clipping radius in units of ``row_norm``."""
        level = self.split.level(n_users, self.size)
        start = self.clipping.radius
        if self.clipping.noise:
            free = self.clipping.noise / (math.sqrt(self.size) * level)
            start = max(min(start, max(_losses.LEAST_CLIP, free)), min(_losses.MOST_CLIP * start, 0.5 * free))
        return max(start, 0.5 * _ranges.slow_growth(level)) if self.clipping.grows else start

    def flat(self, n_users: float) -> bool:
        """Return True if all users are clipped at the origin, so that a default penalty alone holds the intercept."""
        return (
            self.penalty.given is None and self.penalty.clip_ridge > 0.0 and self.clip(n_users) < self.clipping.radius
        )

    def strength(self, n_users: float) -> float:
        """Return the strength of the penalty for a public or released number of users."""
        level, clip = self.split.level(n_users, self.size), self.clip(n_users)
        outputs = self.objective.n_outputs
        return self.penalty.strength(n_users, level, clip, self.size, outputs, self.flat(n_users))

    def quiet(self, n_users: float) -> bool:
        """Return True if noise is so small that steps are quasi-Newton once the clipping radius is fixed."""
        # A given radius may be met, and curvatures beyond it are irrelevant.
        clips = not self.bounds.given if self.clipping.select else self.clipping.radius > 0.0
        known = clips and not hasattr(self.objective.loss, "gradient")
        return known and self.split.level(n_users, self.size) * math.sqrt(self.n_steps) <= _ranges.QUIET_LEVEL

    @property
    def _n_whitened(self) -> int:
        return self.objective.n_features + self.objective.fit_intercept

    @cached_property
    def whitening_share(self) -> float:
        """Share of the Gaussian budget for second moments; 0 if none are released."""
        d = self._n_whitened
        if self.standardisation is None or d > MOST_WHITENED:
            return 0.0
        if self.terms.n_users is None:
            return _plan.SMALL_SHARE
        if self.classes and self.quiet(self.terms.n_users):  # not needed, and lengthens rows of rare values
            return 0.0
        for share in (_plan.SMALL_SHARE, _plan.LARGE_SHARE):
            if self.whitens(share, self.terms.n_users):
                return share
        return 0.0

    def whitens(self, share: float, n_users: float) -> bool:
        """Return True if second moments for a share of the budget are more than noise."""
        multiplier = self.split.multiplier / math.sqrt(share)
        return _frame.relative_noise(self.terms, multiplier, self._n_whitened, n_users) <= MOST_NOISE

    @property
    def whitening_multiplier(self) -> float:
        """Noise multiplier of the second moments."""
        return self.split.multiplier / math.sqrt(self.whitening_share) * _plan.WIDER

    @cached_property
    def means_share(self) -> float:
        """Share of the Gaussian budget for means, from public numbers; 0 if none are released."""
        n_users = self.terms.n_users
        if self.standardisation is None or not self.objective.fit_intercept:
            return 0.0
        if n_users is None or self.whitening_share:
            return 0.0
        quiet = self.classes and self.split.level(n_users, self.size) <= _plan.LOUD_LEVEL
        return _plan.SMALL_SHARE if quiet else 0.0

    @property
    def means_multiplier(self) -> float:
        """Noise multiplier of the means."""
        return self.split.multiplier / math.sqrt(self.means_share) * _plan.WIDER

    @property
    def rates(self) -> ClassCounts | None:
        """Counts whose rates the mean chances are moved to."""
        counts = self.class_weights
        return counts if isinstance(counts, ClassCounts) and counts.rates else None

    @property
    def chances_share(self) -> float:
        """Share of the Gaussian budget for mean chances; 0 if none are released."""
        return 0.0 if self.rates is None else 0.5 * _plan.SMALL_SHARE

    @property
    def chances_multiplier(self) -> float:
        """Noise multiplier of the mean chances."""
        return self.split.multiplier / math.sqrt(self.chances_share) * _plan.WIDER

    @property
    def _first_step(self) -> float:
        """Return the first step in units of the radius, which all outputs share."""
        return FIRST_STEP_CLASSES / math.sqrt(self.objective.n_outputs) if self.classes else FIRST_STEP

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        moments: list[tuple[PrivacyEvent, int]] = []
        if self.whitening_share:
            moments = [(GaussianEvent(self.whitening_multiplier, self._n_whitened**2), 1)]
        elif self.means_share:
            moments = [(GaussianEvent(self.means_multiplier, self.objective.n_features), 1)]
        sums = self.plan(float(self.terms.n_users or 1), self.bounds.radius, 1.0).sums
        if self.chances_share:
            sums = [*sums, (GaussianEvent(self.chances_multiplier, self.objective.n_outputs), 1)]
        return [*self.split.other, *moments, *sums]

    def plan(self, n_users: float, radius: float, row_norm: float) -> DescentPlan:
        """Plan the steps for ``n_users`` within ``radius``."""
        share = self.whitening_share + self.means_share + self.chances_share
        left = replace(self.split, multiplier=self.split.multiplier / math.sqrt(1.0 - share) * _plan.WIDER)
        growth = _ranges.quiet_growth(self.split.level(n_users, self.size), n_users, _ranges.NOISE_PART)
        return DescentPlan(
            split=left if share else self.split,
            n_users=n_users,
            n_steps=self.n_steps,
            n_coef=self.objective.n_coef,
            radius=radius,
            first_step=self._first_step * (radius if math.isfinite(radius) else RADIUS_FACTOR),
            clip_factor=self.clipping.factor,
            clip_radius=0.0 if self.clipping.radius == 0.0 else self.clip(n_users) * row_norm,
            growth=growth if self.clipping.grows else 0.0,
            quiet=self.quiet(n_users),
        )
