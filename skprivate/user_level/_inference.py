"""Confidence intervals of linear models: one Newton step from released coefficients, and the error of that step.

It runs after a descent, on a public share of the budget, and uses nothing of it but its result. One pass over the users
gives three exact sums: scores (gradients) at the released coefficients, their derivatives and their squares. Derived in
docs/theory/user_level.md.

Rows z have public weights min(1, b/‖z‖, bR/‖z‖²). So most scores have the norm of their slope times b, and one clip
cuts all slopes alike: what it takes of skewed errors moves the intercept, and no coefficient.

Indicators of all categories add up to 1, as the intercept does: where that is public, one of them is the reference of
the others and has coefficient 0. Other combinations of features that noise hides keep the coefficient of the descent,
and those who take part in them have no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from skprivate import privacy
from skprivate.partitions import Partitions
from skprivate.privacy import BoundedRangeEvent, GaussianEvent, PrivacyEvent, PrivacyGuarantee, Release
from skprivate.user_level._losses import HuberLoss, LogisticLoss
from skprivate.user_level._plan import SMALL_SHARE, WIDER, Terms
from skprivate.user_level._problems import UserData, vector_norms
from skprivate.user_level._ranges import FINE_SCALES, NOISE_PART, scale_counts, select_median_scale, selection_epsilon
from skprivate.user_level.descent._descent import LinearResult
from skprivate.user_level.descent._rules import Function
from skprivate.user_level.scaling import _standardise
from skprivate.user_level.scaling._frame import ROW_BOUND, WHOLE_BITS, Frame, relative_noise, whiten, whitening

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Share of the budget (in zCDP) of scores. Their scale, derivatives and squares, and second moments of rows have
#: `SMALL_SHARE` each.
SCORE_SHARE = 0.4
#: Where weights begin to fall (b), in typical norms of a row; they fall faster beyond `ROW_BOUND` (R).
NEAR = 0.8
#: Largest noise of derivatives, of their size by public numbers.
MOST_PUBLIC = 0.125
#: Largest change of slopes by the step, over their clip: beyond it one step does not arrive.
MOST_MOVED = 0.25
#: Least clip in median norms of scores. It grows as the root of what noise of `NOISE_PART` of the sampling error
#: admits, so that noise and bias vanish together.
LEAST_SCORE_CLIP = 1.8


class Point(NamedTuple):
    """Public or released numbers at which scores are computed."""

    coef: FloatArray
    loss: HuberLoss | LogisticLoss
    near: float
    far: float
    clip: float = math.inf


class Line(NamedTuple):
    """Column that is slope·x + offset, with a feature x among the columns, but far from the middle of x."""

    column: int
    feature: int
    slope: float
    offset: float


class Estimate(NamedTuple):
    """Coefficients, intercept last, the standard errors of all, and the part of noise in the squares of these.

    Errors are NaN where noise hides a combination of features that holds the coefficient. ``covariance`` is that of all
    coefficients, ``hidden`` what hidden combinations may add to it.
    """

    coef: FloatArray
    errors: FloatArray
    noise_share: FloatArray
    covariance: FloatArray
    hidden: FloatArray


def _scores(data: UserData, at: Point) -> Iterator[tuple[slice, FloatArray, FloatArray, FloatArray]]:
    """Yield users, the root-weighted rows and slopes of theirs, and their mean scores; each row by itself."""
    groups = data.groups
    for users, rows in groups.blocks():
        z = np.ascontiguousarray(data.X.T[:, rows])
        scores, squares, product = np.zeros((3, z.shape[1]))
        for column, coef in zip(z, at.coef.tolist(), strict=True):
            scores += np.multiply(column, coef, out=product)
            squares += np.multiply(column, column, out=product)
        target = np.asarray(data.y[rows], dtype=np.float64)
        slopes = at.loss.derivative(scores[None], target[None])[0]
        weights = at.near / np.maximum(np.maximum(np.sqrt(squares), squares / at.far), at.near)
        yield users, z * np.sqrt(weights), slopes, groups.block_means(z * (weights * slopes), users)


def norm_counts(data: UserData, at: Point) -> IntArray:
    """Count users by the norm of their score."""
    norms = np.empty(data.groups.n_users)
    for users, _, _, vectors in _scores(data, at):
        norms[users] = vector_norms(vectors)
    return scale_counts(norms, FINE_SCALES)


def score_sums(data: UserData, at: Point) -> npt.NDArray[Any]:
    """Sum over users the score in steps of 2⁻³⁰, and its derivative and square, matrices in steps of 2⁻³⁶.

    A user with weight w ≤ 1 contributes three arrays of norm 1 at most: with v = s·min(1, C/‖s‖)/C for the mean score s
    they are w·v, w²·vvᵀ and w·a·(mean of κ·ωzzᵀ)/(bR·max κ). The part a ≤ 1 of a clipped user is what the derivative of
    v keeps on average over its directions. Vectors are rounded before products are formed, so matrices of two users are
    at no obtuse angle.
    """
    groups, d = data.groups, len(at.coef)
    total: npt.NDArray[Any] = np.zeros(d + 2 * d * d, dtype=np.int64)
    for users, z, slopes, vectors in _scores(data, at):
        sizes, weights = groups.sizes[users], groups.weights[users]
        lengths = vector_norms(vectors)
        outside = lengths > at.clip
        kept = np.where(outside, (1.0 - 1.0 / d) * at.clip / np.where(outside, lengths, 1.0), 1.0)
        parts = np.repeat(kept * weights / sizes, sizes) * _curvature(slopes, at.loss)
        z = privacy.ball_contributions(z, math.sqrt(at.near * at.far), weights=np.sqrt(parts), bits=WHOLE_BITS, out=z)
        v = privacy.ball_contributions(vectors, at.clip, weights=weights, bits=WHOLE_BITS)
        score = privacy.exact_sum(
            privacy.ball_contributions(vectors, at.clip, weights=weights), bound=2**privacy.CONTRIBUTION_BITS
        )
        # Products of 18-bit integers, and their sums over a block, are exact in float64.
        block = np.concatenate([score, *((each @ each.T).astype(np.int64).ravel() for each in (z, v))])
        total = privacy.exact_sum(iter((total[:, None], block[:, None])))
    return total


def _curvature(slopes: FloatArray, loss: HuberLoss | LogisticLoss) -> FloatArray:
    """Return the curvature of a row's loss, in units of the largest one, from its slope."""
    sizes = np.abs(slopes)
    if isinstance(loss, LogisticLoss):
        return np.asarray(np.clip(4.0 * sizes * (1.0 - sizes), 0.0, 1.0))
    return np.asarray(sizes < loss.threshold, dtype=np.float64)


@dataclass(frozen=True)
class Inference:
    """Newton step from released coefficients with a covariance; ``several`` if users may have several rows.

    ``categories`` are sets of columns of which exactly one is 1 in every row, and the others 0. ``functions`` are
    columns that are a function of a feature, with their deviations, and ``lines`` those of them that are lines.
    """

    terms: Terms
    n_features: int
    fit_intercept: bool
    logistic: bool
    several: bool
    categories: tuple[tuple[int, ...], ...] = ()
    functions: tuple[Function | None, ...] = ()
    lines: tuple[Line, ...] = ()

    @property
    def _referred(self) -> tuple[tuple[int, ...], ...]:
        """Sets whose coefficients are differences from one of them: all but the first where there is no intercept."""
        return self.categories if self.fit_intercept else self.categories[1:]

    @property
    def _deviations(self) -> FloatArray:
        """Public deviations of functions, and 1 for all other features."""
        deviations = np.ones(self.n_features)
        for j, function in enumerate(self.functions):
            deviations[j] = (function.deviation if function is not None else 0.0) or 1.0
        return deviations

    @property
    def size(self) -> int:
        """Number of coefficients that are estimated."""
        return self.n_features + self.fit_intercept - len(self._referred) - len(self.lines)

    @property
    def scale_epsilon(self) -> float | None:
        """Cost of the median norm of scores; None where slopes are bounded already."""
        if self.logistic and not self.several:
            return None
        affordable = math.sqrt(8.0 * SMALL_SHARE * self.terms.rho)
        if self.terms.n_users is None:
            return affordable
        needed = selection_epsilon(self.terms.n_users, len(FINE_SCALES), monotone=self.terms.monotone)
        return min(affordable, 2.0 * needed)

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """All draws of `run`: none where a public number of users is too small."""
        d, cost = self.size, self.scale_epsilon
        if not self.draws:
            return ()
        scale = () if cost is None else ((BoundedRangeEvent(cost), 1),)
        matrices = (GaussianEvent(self._matrix_multiplier, d * d), 3)
        return (*scale, (GaussianEvent(self._score_multiplier, d), 1), matrices)

    @property
    def draws(self) -> bool:
        """True unless a public number of users is too small."""
        return self.terms.n_users is None or self.shortage(self.terms.n_users) <= 1.0

    def shortage(self, n_users: float) -> float:
        """Return how many times as many users are needed, from public or released numbers."""
        return relative_noise(self.terms, self._matrix_multiplier, self.size, n_users) / MOST_PUBLIC

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, rows: Partitions, release: Release, result: LinearResult) -> Estimate | None:
        """Release the step from the result of a descent; None where noise leaves no derivative to invert.

        ``rows`` are those of the caller: clipped features would not be linear in what they predict.
        """
        if not self.draws:
            return None
        frame = result.frame._replace(half_ranges=math.inf, scales=result.frame.scales * self._deviations)
        coef, kept = self._with_references(result.coef, frame.scales)
        rows = rows.map(UserData.in_order).map(partial(_standardise.mapped_rows, frame=frame, target=not self.logistic))
        if not kept.all():
            rows = rows.map(partial(_standardise.kept_columns, kept=kept[: self.n_features]))
        matrix, length = whitening(
            rows,
            self.size,
            constant=self.fit_intercept,
            multiplier=self._matrix_multiplier,
            n_users=result.n_users,
            terms=self.terms,
            release=release,
        )
        rows = rows.map(partial(whiten, matrix=matrix, constant=self.fit_intercept)).persisted()
        start = np.linalg.solve(matrix, _in_frame(coef, frame, self.fit_intercept)[kept])
        loss = LogisticLoss() if self.logistic else HuberLoss(math.inf)
        at = Point(np.asarray(start, dtype=np.float64), loss, NEAR * length, ROW_BOUND * length, NEAR * length)
        if self.scale_epsilon is not None:
            median = select_median_scale(
                rows.sum(partial(norm_counts, at=at)),
                epsilon=self.scale_epsilon,
                release=release,
                monotone=self.terms.monotone,
                scales=FINE_SCALES,
            )
            at = at._replace(clip=self._clip(median, result.n_users))
            if not self.logistic and not self.several:
                at = at._replace(loss=HuberLoss(at.clip / at.near))
        found = self._released(rows.sum(partial(score_sums, at=at)), at, release).solve()
        if found is None or self.shortage(result.n_users) > 1.0:
            return None
        moved = float(np.linalg.norm(found.move)) * (0.25 if self.logistic else 1.0)
        if not moved * at.near <= MOST_MOVED * at.clip:
            return None
        return self._in_units_of_the_caller(found, coef, kept, matrix, frame)

    def _with_references(self, coef: FloatArray, scales: FloatArray) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Give lines, and the commonest of each set of categories by released scales, coefficient 0; predictions stay.

        Returns flags of the other coefficients, too.
        """
        coef, kept = coef.copy(), np.ones(len(coef), dtype=bool)
        for column, feature, slope, offset in self.lines:
            coef[[feature, -1]] += coef[column] * np.array([slope, offset])
            coef[column], kept[column] = 0.0, False
        constant = [-1] if self.fit_intercept else list(self.categories[0]) if self.categories else []
        for columns in map(list, self._referred):
            reference = columns[int(scales[columns].argmax())]
            kept[reference] = False
            coef[constant] += coef[reference]
            coef[columns] -= coef[reference]
        return coef, kept

    def _in_units_of_the_caller(
        self, found: Step, coef: FloatArray, kept: npt.NDArray[np.bool_], matrix: FloatArray, frame: Frame
    ) -> Estimate:
        """Return the estimate of a step in whitened coordinates from coefficients of the original features."""
        jacobian = _jacobian(frame, self.fit_intercept)[:, kept]
        to_caller = jacobian @ matrix
        noise, squares = (np.square(to_caller @ root).sum(axis=1) for root in (found.noise, found.error))
        # What a hidden combination may well add: a scale of the target for a scale of a feature, or for a category.
        usual = np.append(self._deviations, np.ones(int(self.fit_intercept)))
        for columns in map(list, self.categories):
            usual[columns] = frame.scales[columns]
        hidden_in_frame = np.linalg.qr(matrix @ found.hidden).Q
        hidden = jacobian @ hidden_in_frame @ (hidden_in_frame.T * usual[kept])
        covariances = [root @ root.T for root in (to_caller @ found.error, hidden)]
        after = coef + to_caller @ found.move
        if self.fit_intercept and not self.logistic:
            # What clipping takes of skewed errors moves the step's intercept: the descent's is kept about the centres.
            after[-1] = coef[-1] + (coef - after)[: self.n_features] @ frame.centres
        errors = combined_errors(np.eye(len(coef)), *covariances)
        return Estimate(after, errors, noise / np.where(squares > 0.0, squares, 1.0), *covariances)

    @property
    def _score_multiplier(self) -> float:
        return self.terms.multiplier / math.sqrt(SCORE_SHARE) * WIDER

    @property
    def _matrix_multiplier(self) -> float:
        return self.terms.multiplier / math.sqrt(SMALL_SHARE) * WIDER

    def _clip(self, median: float, n_users: float) -> float:
        """Return the norm to which scores are clipped, from their median norm."""
        noise = self.terms.sum_sensitivity * self._score_multiplier * math.sqrt(self.size / n_users)
        return LEAST_SCORE_CLIP * median * math.sqrt(max(1.0, NOISE_PART / noise / LEAST_SCORE_CLIP))

    def _released(self, total: npt.NDArray[Any], at: Point, release: Release) -> ScoreSums:
        """Release the three sums, in units of a score."""
        d = self.size
        score, *matrices = np.split(total, [d, d + d * d])
        step = 2.0 ** (-2 * WHOLE_BITS)
        noisy = [at.clip * np.asarray(self.terms.release_sum(score, self._score_multiplier, release), dtype=np.float64)]
        deviations = [at.clip * self.terms.sum_sensitivity * self._score_multiplier]
        largest = at.near * at.far * (0.25 if self.logistic else 1.0)
        for sums, unit in zip(matrices, (largest, at.clip**2), strict=True):
            drawn = release.gaussian(
                sums,
                sensitivity=self.terms.acute_sensitivity / step,
                noise_multiplier=self._matrix_multiplier,
                step=step,
            )
            square = unit * np.asarray(drawn, dtype=np.float64).reshape(d, d)
            noisy.append(0.5 * (square + square.T))
            deviations.append(unit * self.terms.acute_sensitivity * self._matrix_multiplier)
        return ScoreSums((noisy[0], noisy[1], noisy[2]), (deviations[0], deviations[1], deviations[2]))


class Step(NamedTuple):
    """A Newton step, roots of the covariances of its error and of the noise in that, and directions without a step."""

    move: FloatArray
    error: FloatArray
    noise: FloatArray
    hidden: FloatArray


@dataclass(frozen=True)
class ScoreSums:
    """Released sums of scores, derivatives and squares, and deviations of their noise (on the diagonal)."""

    sums: tuple[FloatArray, FloatArray, FloatArray]
    deviations: tuple[float, float, float]

    def solve(self) -> Step | None:
        """Return the Newton step −H⁻¹g with its covariance H⁻¹(J + noise)H⁻¹; None where noise hides all of H.

        H⁻¹ is that on the eigenvectors whose eigenvalues are clear of the noise. Noise of H acts on the step t: for
        symmetric noise N of variance ν² (half of it off the diagonal) the mean of Nt(Nt)ᵀ is ν²/2·(‖t‖²·1 + ttᵀ).
        """
        (score, derivative, squares), (of_score, of_derivative, of_squares) = self.sums, self.deviations
        unit = np.eye(len(score))
        curvature, left = shrunk(derivative, of_derivative)
        values, vectors = np.linalg.eigh(curvature)
        clear = values * NOISE_PART > left * math.sqrt(2.0 * len(unit))
        if not clear.any():
            return None
        inverse = (vectors[:, clear] / values[clear]) @ vectors[:, clear].T
        step = -inverse @ score
        squares, floor = shrunk(squares, of_squares)
        sampling = _root(squares, floor)
        noise = _root(of_score**2 * unit + 0.5 * left**2 * (step @ step * unit + np.outer(step, step)), 0.0)
        return Step(step, inverse @ np.hstack([sampling, noise]), inverse @ noise, vectors[:, ~clear])


def _root(matrix: FloatArray, least: float) -> FloatArray:
    """Return R with RRᵀ a symmetric matrix whose eigenvalues are ``least`` or more."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, least)))


def shrunk(noisy: FloatArray, deviation: float) -> tuple[FloatArray, float]:
    """Shrink a noisy symmetric matrix towards a multiple of 1, and return the deviation that is left (James–Stein).

    Noise has this deviation on the diagonal, a root of two less off it. Rows are white, so matrices are near that.
    """
    d = len(noisy)
    mean = float(np.trace(noisy)) / d * np.eye(d)
    apart = noisy - mean
    expected = deviation**2 * (d - 1) * (1.0 + 0.5 * d)
    kept = max(0.0, 1.0 - expected / max(float(np.square(apart).sum()), 1e-300))
    return mean + kept * apart, deviation * math.sqrt(kept + (1.0 - kept) / d)


def _in_frame(coef: FloatArray, frame: Frame, fit_intercept: bool) -> FloatArray:
    """Convert coefficients of the original features to those after the map: the inverse of `Frame.coefficients`."""
    n_features = len(frame.centres)
    result = coef.copy()
    if fit_intercept:
        result[-1] += coef[:n_features] @ frame.centres - frame.target_centre
    result[:n_features] *= frame.scales
    return result / frame.target_scale


def _jacobian(frame: Frame, fit_intercept: bool) -> FloatArray:
    """Return the matrix that takes a change of coefficients after the map to one of the original coefficients."""
    centred = frame._replace(target_centre=0.0)
    return centred.coefficients(np.eye(len(frame.centres) + fit_intercept), fit_intercept).T


def combined_errors(combinations: FloatArray, covariance: FloatArray, hidden: FloatArray) -> FloatArray:
    """Return standard errors of combinations of coefficients, a row each; NaN where most of one is hidden."""
    squares, unknown = (((combinations @ each) * combinations).sum(axis=1) for each in (covariance, hidden))
    return np.asarray(np.sqrt(np.where(unknown <= squares, squares + unknown, np.nan)))


def normal_interval(coef: FloatArray, errors: FloatArray, level: float) -> FloatArray:
    """Return lower and upper ends along a last axis."""
    half = float(norm.isf(0.5 * (1.0 - level))) * errors
    return np.stack([coef - half, coef + half], axis=-1)


class CoefSummary(NamedTuple):
    """Coefficients of a linear model with their confidence intervals; `print` shows a table.

    Attributes
    ----------
    names : tuple of str
        Names of the features, or x0, x1, …
    coef : ndarray of shape (n_features,)
        Coefficients.
    interval : ndarray of shape (n_features, 2)
        Lower and upper ends; NaN where users were too few.
    noise_share : ndarray of shape (n_features,)
        Part of the squared standard error that is privacy noise; the rest is sampling.
    level : float
        Confidence level.
    n_users : float
        Number of users as used.
    guarantee : PrivacyGuarantee
        Guarantee of the fit.

    See Also
    --------
    skprivate.UserLevelSGDRegressor : Makes it with ``summary()``.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSGDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [1.0, 0.0] + rng.normal(size=5000)
    >>> summary = UserLevelSGDRegressor(epsilon=1.0, inference=True).fit(X, y).summary(0.9)
    >>> summary.interval.shape
    (2, 2)
    """

    names: tuple[str, ...]
    coef: FloatArray
    interval: FloatArray
    noise_share: FloatArray
    level: float
    n_users: float
    guarantee: PrivacyGuarantee

    def __str__(self) -> str:
        width = max(7, *map(len, self.names))
        lines = [f"{'feature':{width}} {'coef':>11} {f'{100 * self.level:g} % interval':>25} {'noise':>6}"]
        for name, coef, (low, high), share in zip(self.names, self.coef, self.interval, self.noise_share, strict=True):
            if low == high:  # the category of which others are differences, or a line beside its feature
                lines.append(f"{name:{width}} {coef:>11.4g} {'reference':>25}")
                continue
            lines.append(f"{name:{width}} {coef:>11.4g} {f'[{low:.4g}, {high:.4g}]':>25} {share:>6.0%}")
        lines.append(f"n = {self.n_users:.0f}, {repr(self.guarantee).strip('<>')}")
        return "\n".join(lines)
