"""User-normalised descent that finds clipping radius and step by itself.

Every user contributes g_u/max(‖g_u‖, C), a vector of norm at most 1 whatever the data, so the noise of every step is
public. Three things usually tuned by hand are found on the way:

* the step, from correlations of successive *released* directions, which cost nothing (post-processing);
* the clipping radius C, by one private selection of the median gradient norm after a search with C = 0, if the users
  are numerous enough to decide it;
* the solution, as the average of the last iterates.

Where noise is small, released directions show the curvature along the way, and steps are quasi-Newton (L-BFGS). Values
of the objective are not released, but the slopes at both ends of a step show if it went too far.

At the solution the users' contributions add up to 0, so the mean of the directions is noise. It is even less, because
the descent undoes its own noise: Σ η v_t is the distance between the first iterate and the last. Where features have
very different scales or are far from 0, flat directions are never walked down and the mean stays large. Derivations in
docs/theory/user_level.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Release
from skprivate.user_level import _plan, _problems, _ranges
from skprivate.user_level.scaling._frame import Frame

FloatArray = npt.NDArray[np.float64]

#: Part of the slope at the start of a move above which an uphill slope at its end shows that it went too far.
OVERSHOT = 0.5
#: Least part of such a move that is kept.
LEAST_PART = 0.1
#: Largest number of stored pairs of moves and changes of direction: more than the steps of a fit by default.
MOST_PAIRS = 100
#: Chance that an entry of the mean of directions of pure noise exceeds the threshold.
FALSE_ALARM = 3e-4
#: Mean vote that is close enough to 0, however little noise there is.
SMALL_VOTE = 0.005
#: Least number of directions that show if a descent converged.
LEAST_STEPS = 10
#: Part of the projection radius from which a solution counts as at the bound.
AT_BOUND = 0.9
NOT_CONVERGED = (
    "Gradient descent did not converge: the mean of its released directions is {drift:.2g} times what noise explains. "
    "Most often features have very different scales or are far from 0; they should have about mean 0 and deviation 1."
)
AT_RADIUS = (
    "Gradient descent did not converge: the coefficients are at their bound {radius:.2g}, found from the scale of the "
    "target. Features are small against the target, or most targets are 0. Features should have about mean 0 and "
    "deviation 1; a public bound on the norm of the coefficients can be given as radius."
)
ADVICE = (
    " Scale features by known limits (skprivate.preprocessing.PublicScaler.from_bounds), or within the budget "
    "(PrivateStandardScaler, PrivateQuantileTransformer). Computed from released values: no additional "
    "privacy cost."
)
#: Largest growth and decay of the log step in one step, while searching and while averaging.
_SEARCH_GROWTH = 0.3
_SEARCH_DECAY = 0.8
_REFINE_GAIN = 0.15
#: Target correlation of successive directions, in units of the noise power: −a/(2 − a) for a step of a/curvature, so
#: that −0.06 means about a ninth of 1/curvature.
_TARGET_CORRELATION = -0.06


@dataclass
class QuasiNewton:
    """L-BFGS on a field of noisy directions; the first move has this ``length``, and doubles up to ``most`` until
    curvature shows.
    """

    length: float
    most: float = math.inf
    _moves: deque[FloatArray] = field(default_factory=partial(deque, maxlen=MOST_PAIRS))
    _changes: deque[FloatArray] = field(default_factory=partial(deque, maxlen=MOST_PAIRS))
    _base: tuple[FloatArray, FloatArray] | None = None

    def step(self, w: FloatArray, direction: FloatArray, noise: float) -> FloatArray:
        """Return the next iterate from the last one, a released uphill direction, and the noise of its entries."""
        if self._base is not None:
            start, before = self._base
            move, change = w - start, direction - before
            sure = _plan.CLEAR_DEVIATIONS * noise * float(np.linalg.norm(move))
            if float(move @ change) > sure:
                self._moves.append(move)
                self._changes.append(change)
            uphill, downhill = float(move @ direction), -float(move @ before)
            if downhill > 0.0 and uphill > max(OVERSHOT * downhill, sure):
                # As far as the slope would be 0 if it were linear between.
                return start + max(downhill / (downhill + uphill), LEAST_PART) * move
        self._base = w, direction
        return w - self._newton(direction)

    def _newton(self, direction: FloatArray) -> FloatArray:
        """Multiply a direction by the inverse curvature, by the two-loop recursion."""
        if not self._moves:
            size = float(np.linalg.norm(direction))
            move = direction * (self.length / size) if size else direction
            self.length = min(2.0 * self.length, self.most)
            return move
        pairs = [(s, y, float(s @ y)) for s, y in zip(self._moves, self._changes, strict=True)]
        result, parts = direction, []
        for s, y, curvature in reversed(pairs):
            parts.append(float(s @ result) / curvature)
            result = result - parts[-1] * y
        s, y, curvature = pairs[-1]
        result = result * (curvature / float(y @ y))
        for (s, y, curvature), part in zip(pairs, reversed(parts), strict=True):
            result = result + (part - float(y @ result) / curvature) * s
        return result


class UnscaledFeaturesWarning(ConvergenceWarning):  # type: ignore[misc]
    """A private descent did not converge, most often because features have very different scales or are far from 0.

    Computed from released numbers alone: it costs nothing and reveals nothing that the coefficients do not.

    See Also
    --------
    PublicScaler, PrivateStandardScaler : Scale features.
    """


@dataclass(frozen=True)
class Course:
    """Released path of a descent.

    ``directions`` are those after the search, in units of a unanimous vote, with ``noise`` on each entry. ``times``
    tells how long the averaged iterates have followed directions: sums of steps, infinite for quasi-Newton ones.
    """

    coef: FloatArray
    clip_radius: float
    directions: FloatArray
    noise: float
    times: FloatArray = field(default_factory=partial(np.empty, 0))

    def drift(self, bound: float = math.inf) -> float:
        """Compute the largest entry of the mean direction, in units of what noise alone exceeds with chance
        `FALSE_ALARM`.

        Above 1 if the descent did not converge; 0 if that is unknown or does not matter. At the surface of the ball of
        radius ``bound`` the component towards the outside is no failure.
        """
        n_steps = len(self.directions)
        if n_steps < LEAST_STEPS:
            return 0.0
        mean = self._inward(self.directions.mean(axis=0), bound)
        late = self._inward(self.directions[n_steps // 2 :].mean(axis=0), bound)
        if np.linalg.norm(late) <= SMALL_VOTE:
            return 0.0
        # By the union bound over the entries.
        expected = self.noise * float(norm.isf(0.5 * FALSE_ALARM / len(mean))) / math.sqrt(n_steps)
        # The influence of the start is no drift: a steady one is as large in the second half, beside √2 times the
        # noise.
        return float(min(np.abs(mean).max(), math.sqrt(2.0) * np.abs(late).max())) / expected

    def at_bound(self, bound: float) -> bool:
        """Return True if the coefficients are at the surface of the ball of this radius."""
        return float(np.linalg.norm(self.coef)) >= AT_BOUND * bound

    def _inward(self, direction: FloatArray, bound: float) -> FloatArray:
        """Remove the component of a direction along which the bound stops the descent."""
        if not self.at_bound(bound):
            return direction
        outward = self.coef / float(np.linalg.norm(self.coef))
        # The iterate moves against the direction.
        return direction - min(float(direction @ outward), 0.0) * outward


def adaptive_descent(
    data: Partitions | _problems.UserProblem,
    plan: _plan.DescentPlan,
    release: Release,
    *,
    start: FloatArray | None = None,
    penalty: Callable[[FloatArray], FloatArray] | None = None,
) -> Course:
    """Minimise the users' mean loss and a public penalty by noisy normalised descent from ``start``.

    ``penalty`` computes the gradient of the penalty in units of a user's gradient.
    """
    rows, d = as_partitions(data), plan.n_coef
    terms = plan.split.terms
    w = np.zeros(d) if start is None else start
    iterates: list[FloatArray] = []
    directions: list[FloatArray] = []
    times: list[float] = []
    time, step, radius, noise = 0.0, plan.first_step, plan.clip_radius, 0.0
    previous: FloatArray | None = None
    velocity = np.zeros(d)
    newton = QuasiNewton(step, 2.0 * plan.radius) if plan.quiet and radius and plan.split.clip_epsilon is None else None
    for t in range(plan.n_steps):
        searching = t < plan.search_steps
        if t == plan.search_steps and plan.split.clip_epsilon is not None:
            radius = _selected_radius(rows, w, plan, release)
            if plan.quiet and radius:
                newton = QuasiNewton(step, 2.0 * plan.radius)
        multiplier = plan.search_multiplier if searching else plan.refine_multiplier
        contributions = rows.sum(methodcaller("contribution_sum", w, radius))
        direction = terms.release_sum(contributions, multiplier, release) / plan.n_users
        if penalty is not None:
            # Without a clipping radius votes have norm 1, like the gradient of a residual of 1 on a typical row. At the
            # solution the penalty is as long as the mean vote: clipped to norm 1 it has the same one, and no step is
            # too long.
            direction = direction + project(penalty(w) / (radius or math.sqrt(d)), 1.0)
        power, noise = d * noise**2, terms.sum_sensitivity * multiplier / plan.n_users
        if newton is not None:
            w = project(newton.step(w, direction, noise), plan.radius)
        else:
            if previous is not None:
                correlation = float(direction @ previous) / power - _TARGET_CORRELATION
                vote = math.tanh(0.5 * math.sqrt(d) * correlation)
                gain = _REFINE_GAIN if not searching else _SEARCH_GROWTH if vote > 0.0 else _SEARCH_DECAY
                step *= math.exp(gain * vote)
            momentum = 0.0 if searching else _plan.MOMENTUM
            velocity = momentum * velocity + direction
            w = project(w - step * velocity, plan.radius)
            time += step / (1.0 - momentum)
        previous = direction
        if t >= plan.search_steps:
            iterates.append(w)
            directions.append(direction)
            times.append(time if newton is None else math.inf)
    # The first quarter of these has still to forget the noise of the search.
    first = plan.refine_steps // 4
    return Course(np.mean(iterates[first:], axis=0), radius, np.array(directions), noise, np.array(times[first:]))


def norm_counts(problem: _problems.UserProblem, w: FloatArray) -> npt.NDArray[np.int64]:
    """Count users by the norm of their vector."""
    return _ranges.quantile_counts(problem.gradient_norms(w))


def _selected_radius(rows: Partitions, w: FloatArray, plan: _plan.DescentPlan, release: Release) -> float:
    """Select the clipping radius of the refinement.

    The selection is drawn in any case, whether users are enough or not.
    """
    split, growth = plan.split, plan.growth
    assert split.clip_epsilon is not None
    median, upper, rank = _ranges.select_quantiles(
        rows.sum(partial(norm_counts, w=w)),
        epsilon=split.clip_epsilon,
        upper_epsilon=split.tail_epsilon,
        release=release,
        monotone=split.terms.monotone,
    )
    if rank and split.at_least(plan.n_users) > 2 * rank:
        growth = _ranges.tail_factor(median, upper, growth, rank / plan.n_users)
    return max(plan.clip_factor, growth) * median if plan.clip_decides else plan.clip_radius


def failure(drift: float, radius: float, met: bool) -> str:
    """Write why a descent with this drift did not converge: the bound of its coefficients was ``met``, or else."""
    return (AT_RADIUS if met else NOT_CONVERGED).format(drift=drift, radius=radius) + ADVICE


def project(w: FloatArray, radius: float) -> FloatArray:
    """Return the nearest point of the ball of this radius."""
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)


@dataclass(frozen=True, kw_only=True)
class LinearResult:
    """Released result of a linear model.

    ``scale_missed`` is True if users were too few for the scale of the target. ``failure`` says how the descent did not
    converge, if it did not. ``class_weights`` are public, or from released counts, and ``hidden`` classes too rare for
    these.
    """

    coef: FloatArray
    n_users: float
    radius: float
    clip_radius: float
    noise_level: float
    alpha: float
    frame: Frame
    scale_missed: bool = False
    failure: str = ""
    class_weights: FloatArray | None = None
    hidden: tuple[int, ...] = ()
