"""One halfspace by noisy gradient descent: public rows enter exactly, private ones by bounded integer contributions.

The descent minimises the weighted logistic loss of all rows on the public points' span, and needs δ > 0. Public numbers
decide everything else: the coordinates (principal directions of the public points, as many as the noise allows), the
number of steps, and the radius at which private rows are clipped. Derivations in docs/theory/mixtures.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skprivate import privacy
from skprivate.mixture._geometry import Floats, PublicFrame, products
from skprivate.mixture._problem import DrawRecord, ErrorWeights, Hypothesis, Integers, MixtureRows, Problem
from skprivate.privacy import Events, GaussianEvent, Mechanism, Release

#: Share of the Gaussian budget (in zCDP) for the number of private rows, where that is not public.
COUNT_SHARE = 0.03
#: Fewest and most steps; between them the noise of the result times the steps is `STEP_NOISE`.
FEWEST_STEPS, MOST_STEPS, STEP_NOISE = 4, 64, 0.5
#: Clipping radius in root-mean-square norms of public rows, least and largest, and the noise below which it grows.
LEAST_CLIP, MOST_CLIP, CLIP_NOISE = 0.5, 4.0, 0.05
#: Part of the largest variance below which principal directions are rounding errors.
LEAST_VARIANCE = 1e-12
#: Number of rows whose coordinates are formed at a time.
ROWS = 2**14


class Coordinates(NamedTuple):
    """Uncorrelated coordinates of variance one from public points: z ↦ ``matrix`` @ z + ``offset`` of scaled rows."""

    matrix: Floats
    offset: Floats

    def clipped(self, scaled: Floats, radius: float) -> Floats:
        """Compute clipped coordinates of rows and a last one of 1: shape (k + 1, n_rows), each row by itself."""
        values = products(self.matrix, scaled)
        values += self.offset[:, None]
        squares = np.zeros(len(scaled))
        for value in values:
            squares += value * value
        values *= radius / np.maximum(np.sqrt(squares), radius)
        return np.concatenate([values, np.ones((1, len(scaled)))])

    def of_public(self, scaled: Floats, radius: float) -> tuple[Floats, float, float]:
        """Compute the same of public rows, by BLAS, and the sums of their squares before and after."""
        values = self.matrix @ scaled.T + self.offset[:, None]
        squares = np.einsum("ij,ij->j", values, values)
        factors = radius / np.maximum(np.sqrt(squares), radius)
        values = np.concatenate([values * factors, np.ones((1, len(scaled)))])
        return values, float(squares.sum()), float((squares * factors**2).sum())


def principal_coordinates(problem: Problem) -> tuple[Coordinates, Floats]:
    """Find principal directions of the public points, and the share of the variance along each, descending.

    Columns with two public values count by their range and others by two standard deviations, so that a rare category
    has little variance.
    """
    d, n = problem.n_features, problem.n_public
    total, low, high = np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    for block in scaled_public(problem):
        total += block.sum(axis=0)
        np.minimum(low, block.min(axis=0), out=low)
        np.maximum(high, block.max(axis=0), out=high)
    mean = total / max(n, 1)
    gram, two_valued = np.zeros((d, d)), np.ones(d, dtype=np.bool_)
    for block in scaled_public(problem):
        two_valued &= ((block == low) | (block == high)).all(axis=0)
        centred = block - mean
        gram += centred.T @ centred
    gram /= max(n, 1)
    deviation = np.sqrt(np.diag(gram))
    used = deviation > problem.frame.slack
    unit = np.where(used, np.where(two_valued, high - low, 2.0 * deviation), np.inf)
    variances, directions = np.linalg.eigh(gram / unit / unit[:, None])
    variances, directions = variances[::-1], directions[:, ::-1]
    rank = min(problem.frame.dimension, int((variances > LEAST_VARIANCE * variances[:1]).sum()))
    variances = variances[:rank]
    matrix = directions.T[:rank] / unit / np.sqrt(variances)[:, None]
    return Coordinates(matrix, -matrix @ mean), variances / variances.sum()


def scaled_public(problem: Problem) -> Iterator[Floats]:
    """Yield public points, some at a time, in scaled units."""
    for low in range(0, problem.n_public, ROWS):
        yield problem.frame.scaled(problem.points[low : low + ROWS])


@dataclass(frozen=True)
class DescentPlan:
    """Public numbers of a descent.

    ``n_coordinates`` excludes the intercept. ``clip`` is in root-mean-square norms of public rows. ``loss`` is the
    expected mean square error of logits of variance one, by noise and omitted coordinates. ``count_multiplier`` is None
    where the number of private rows is public.
    """

    n_coordinates: int
    n_steps: int
    noise_multiplier: float
    count_multiplier: float | None
    clip: float
    loss: float


def plan_descent(
    shares: Floats, n_rows: float, *, epsilon: float, delta: float, other: Events = (), size_is_public: bool
) -> DescentPlan:
    r"""Choose coordinates, steps and clipping radius by public numbers.

    ``shares`` of the principal coordinates in the variance are descending and add up to 1. With k coordinates the
    averaged iterates have noise of norm about ν = s·z·(k + 1)/n_rows for a multiplier z and a replaced row's change s =
    2 (added: 1): gradients are clipped at a quarter of √(k + 1), and the curvature is about an eighth. Omitted
    coordinates cost their share of logits of variance one. The number of coordinates minimises ν² plus that share.
    """
    change = 2.0 if size_is_public else 1.0
    widest, rows = len(shares) + 1, max(n_rows, 1.0)
    alone = privacy.gaussian_noise_multiplier(epsilon, delta, size=widest, other=tuple(other))
    sizes = np.arange(min(1, len(shares)), widest)
    levels = change * alone * (sizes + 1) / rows
    losses = levels**2 + 1.0 - np.cumsum(shares) if shares.size else levels**2
    best = int(np.argmin(losses))
    k, level = int(sizes[best]), float(levels[best])
    n_steps = round(min(max(STEP_NOISE / level, FEWEST_STEPS), MOST_STEPS))
    count = None if size_is_public else alone / math.sqrt(COUNT_SHARE)
    events = [*other] if count is None else [*other, (GaussianEvent(count), 1)]
    return DescentPlan(
        n_coordinates=k,
        n_steps=n_steps,
        noise_multiplier=privacy.gaussian_noise_multiplier(epsilon, delta, n_steps, size=k + 1, other=tuple(events)),
        count_multiplier=count,
        clip=min(LEAST_CLIP * max(1.0, math.sqrt(CLIP_NOISE / level)), MOST_CLIP),
        loss=float(losses[best]),
    )


def make_descent(problem: Problem, epsilon: float, delta: float, other: Events = ()) -> LogisticDescent:
    """Plan a descent on what the other events leave of (ε, δ)."""
    coordinates, shares = principal_coordinates(problem)
    plan = plan_descent(
        shares,
        problem.effective_rows,
        epsilon=epsilon,
        delta=delta,
        other=other,
        size_is_public=problem.n_private is not None,
    )
    used = Coordinates(*(part[: plan.n_coordinates] for part in coordinates))
    return LogisticDescent(plan, used, shares, problem.weights, problem.n_private, epsilon)


class PrivateRows(NamedTuple):
    """Private rows of a block on the span, clipped, in coordinates of shape (k + 1, n); sign 1 is the private label."""

    values: Floats
    sign: Floats
    weights: Floats


@np.errstate(all="ignore")  # a warning about somebody's underflow would say something about them
def private_rows(
    rows: MixtureRows, frame: PublicFrame, coordinates: Coordinates, radius: float, weights: ErrorWeights
) -> PrivateRows:
    """Prepare the private rows of a block, each by itself."""
    scaled = frame.scaled(rows.X[rows.private])
    on_span = frame.distance(scaled) <= frame.slack
    values = coordinates.clipped(scaled[on_span], radius)
    has_private_label = rows.has_private_label[rows.private][on_span]
    weight = np.where(has_private_label, weights.private_label, weights.public_label) / weights.sensitivity
    return PrivateRows(values, np.where(has_private_label, 1.0, -1.0), weight)


@np.errstate(all="ignore")
def contribution_sum(rows: PrivateRows, w: Floats, radius: float) -> NDArray[Any]:
    """Sum weight·g/max(‖g‖, radius) over the gradients g of the rows' losses, in steps: integers of shape (k + 1,).

    One row added or removed moves it by a vector of ℓ2 norm at most 2³⁰.
    """

    def blocks() -> Iterator[Floats]:
        yield np.zeros((len(w), 0))
        for low in range(0, len(rows.sign), ROWS):
            part = slice(low, low + ROWS)
            values, sign = rows.values[:, part], rows.sign[part]
            gradients = values * _slopes(_predictor(values, w), sign)
            yield privacy.ball_contributions(gradients, radius, weights=rows.weights[part], out=gradients)

    return privacy.exact_sum(blocks(), bound=2**privacy.CONTRIBUTION_BITS)


def _predictor(values: Floats, w: Floats) -> Floats:
    """Compute ⟨w, z⟩ column by column."""
    predictor, product = np.zeros(values.shape[1]), np.empty(values.shape[1])
    for column, weight in zip(values, w.tolist(), strict=True):
        predictor += np.multiply(column, weight, out=product)
    return predictor


def _slopes(predictor: Floats, sign: Any) -> Floats:
    """Differentiate ln(1 + exp(−sign·f)) by f."""
    return np.asarray(-sign * expit(-sign * predictor))


def number_of_private_rows(rows: MixtureRows) -> Integers:
    """Count private rows of a block."""
    return np.array([np.count_nonzero(rows.private)], dtype=np.int64)


def public_rows_of_private_label(rows: MixtureRows) -> Floats:
    """Return public rows of a block that have the private label, as a mask may leave them; they may be collected."""
    return rows.X[~rows.private & rows.has_private_label]


@dataclass(frozen=True, eq=False)
class LogisticDescent(Mechanism):
    """Noisy gradient descent on the weighted logistic loss; its result is a halfspace.

    ``shares`` are of all principal coordinates; ``epsilon`` is reported as the cost.
    """

    plan: DescentPlan
    coordinates: Coordinates
    shares: Floats
    weights: ErrorWeights
    n_private: int | None
    epsilon: float
    theorem = "Gaussian mechanism, composition by privacy loss distributions"

    @property
    def events(self) -> Events:
        plan = self.plan
        counts = [] if plan.count_multiplier is None else [(GaussianEvent(plan.count_multiplier), 1)]
        return [*counts, (GaussianEvent(plan.noise_multiplier, plan.n_coordinates + 1), plan.n_steps)]

    def run(self, data: Problem, release: Release) -> tuple[Hypothesis, tuple[DrawRecord, ...]]:
        """Release the halfspace of the averaged iterates, and a record of the descent."""
        normal, intercept = self.minimise(data, release)
        record = DrawRecord("descent", 0, self.epsilon)
        length = float(np.linalg.norm(normal))
        if data.frame.empty or (length == 0.0 and intercept > 0.0):
            return Hypothesis.calling_all_private(data.n_features), (record,)
        if length == 0.0:
            return Hypothesis(np.zeros((0, data.n_features)), np.zeros(0)), (record,)
        return Hypothesis(-normal[None] / length, np.array([-intercept / length])), (record,)

    def minimise(self, problem: Problem, release: Release) -> tuple[Floats, float]:
        """Release normal and intercept, in scaled units, of the logit of the private label."""
        plan, coordinates = self.plan, self.coordinates
        change = 2.0 if self.n_private is not None else 1.0
        n_private: float = max(float(self.n_private or 0), 1.0)
        if plan.count_multiplier is not None:
            count = problem.rows.sum(number_of_private_rows)
            noisy = release.gaussian(count, sensitivity=1, noise_multiplier=plan.count_multiplier)
            n_private = max(float(noisy[0]), 1.0)
        size = plan.n_coordinates + 1
        row_radius = plan.clip * math.sqrt(max(plan.n_coordinates, 1))
        radius = 0.5 * math.sqrt(1.0 + row_radius**2)  # slopes are one half at the origin
        rows = problem.rows.map(
            partial(private_rows, frame=problem.frame, coordinates=coordinates, radius=row_radius, weights=self.weights)
        )
        others = problem.rows.gather(public_rows_of_private_label, np.concatenate)
        others = problem.frame.scaled(others)
        others = others[problem.frame.distance(others) <= problem.frame.slack]
        public_weight = problem.n_public * self.weights.public_label + len(others) * self.weights.private_label
        private_weight = n_private * self.weights.sensitivity
        total = public_weight + private_weight
        blocks = zip(scaled_public(problem), repeat(-1.0), repeat(self.weights.public_label), strict=False)
        public, plain, short = [], 0.0, 0.0
        for block, sign, weight in chain(blocks, [(others, 1.0, self.weights.private_label)]):
            values, before, after = coordinates.of_public(block, row_radius)
            public.append((values, sign, weight))
            plain, short = plain + before, short + after
        # The curvature of the loss is at most a quarter of the mean square of rows.
        step = 4.0 * total / (public_weight + private_weight * max(1.0, plan.clip) ** 2)
        w, iterates = np.zeros(size), []
        for _ in range(plan.n_steps):
            sums = release.gaussian(
                rows.sum(partial(contribution_sum, w=w, radius=radius)),
                sensitivity=change / privacy.CONTRIBUTION_STEP,
                noise_multiplier=plan.noise_multiplier,
                step=privacy.CONTRIBUTION_STEP,
            )
            gradient = radius * self.weights.sensitivity * sums + public_gradient(public, w)
            w = w - step * gradient / total
            iterates.append(w)
        w = np.mean(iterates[plan.n_steps // 2 :], axis=0)
        slope = w[:-1] * (math.sqrt(short / plain) if plain else 1.0)
        return slope @ coordinates.matrix, float(w[-1] + slope @ coordinates.offset)


def public_gradient(public: list[tuple[Floats, float, int]], w: Floats) -> Floats:
    """Sum the gradient over public rows, given as coordinates, sign and weight of each block."""
    total = np.zeros(len(w))
    for values, sign, weight in public:
        total += values @ (weight * _slopes(w @ values, sign))
    return total
