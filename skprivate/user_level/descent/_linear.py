"""Linear models by descent as mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import CONTRIBUTION_STEP, Release
from skprivate.user_level import _losses, _plan
from skprivate.user_level._problems import Objective, UserData, count_users, target_counts
from skprivate.user_level.descent import _descent, _rules
from skprivate.user_level.scaling import _frame, _standardise

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Descent(_rules.DescentRules):
    """A linear model by descent on all users."""

    theorem = "user-normalised descent, docs/theory/user_level.md"

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserData, release: Release) -> _descent.LinearResult:
        """Release the number of users, a map of features and target, and the descent."""
        rows = as_partitions(data)
        n_users = self.split.count(count_users(rows, self.terms.n_users), release)
        level = self.split.level(n_users, self.objective.n_coef)
        frame, matrix, row_norm = _frame.identity(self.objective.n_features), None, self.bounds.row_norm
        means = np.zeros(self.objective.n_features)
        if self.standardisation is None:
            frame = frame._replace(row_bound=self.bounds.row_bound)
            rows = rows.map(partial(_standardise.clip_data, frame=frame))
        scale_missed = self.bounds.select_scale
        intercept = 0.0
        class_weights: FloatArray | None = None
        counts: FloatArray | None = None
        hidden: tuple[int, ...] = ()
        if not isinstance(self.class_weights, _rules.ClassCounts):
            class_weights = self.class_weights
        else:
            counts = self.class_weights.run(rows, release)
            hidden = self.class_weights.hidden(counts)
            if self.class_weights.balanced:
                class_weights = self.class_weights.weights(counts)
            elif self.objective.n_outputs == 1:
                intercept = self.class_weights.intercept(counts, n_users)
        if self.standardisation is not None:
            # Drawn in any case: which events are drawn must not depend on a released number of users.
            least = self.split.at_least(n_users)
            rows, frame = self.standardisation.run(rows, least, release)
            found = self.standardisation.decides(least)
            scale_missed = self.standardisation.target is not None and not found
            if self.whitening_share:
                matrix, norm = _frame.whitening(
                    rows,
                    self._n_whitened,
                    constant=self.objective.fit_intercept,
                    multiplier=self.whitening_multiplier,
                    n_users=n_users,
                    terms=self.terms,
                    release=release,
                )
                if found and self.whitens(self.whitening_share, least):
                    rows = rows.map(partial(_frame.whiten, matrix=matrix, constant=self.objective.fit_intercept))
                    row_norm = None if row_norm is None else norm
                else:
                    matrix = None
            elif self.means_share:
                # The number of users is public, so they are known to be enough.
                means = _frame.row_means(
                    rows,
                    self.objective.n_features,
                    row_norm=row_norm or math.sqrt(self._n_whitened),
                    multiplier=self.means_multiplier,
                    n_users=n_users,
                    terms=self.terms,
                    release=release,
                )
                rows = rows.map(partial(_frame.shifted, centres=means))
                row_norm = None if row_norm is None else _frame.norm_without(row_norm, means)
        alpha = self.strength(n_users)
        objective = self._objective(alpha, n_users, frame, matrix, class_weights)
        radius = self.bounds.radius / (row_norm or 1.0)
        scale = self.split.select_scale(rows, target_counts, n_users, release)
        if scale is not None:
            radius, scale_missed = _rules.RADIUS_FACTOR * scale, False
        if not self.bounds.given:
            radius *= min(1.0, _plan.LOUD_LEVEL / level)
        plan = self.plan(n_users, radius, row_norm or 1.0)
        if self.classes and self.standardisation is not None:
            objective = replace(objective, max_norm=max(row_norm or 1.0, plan.clip_radius))
        elif isinstance(objective.loss, _losses.PinballLoss):  # both slopes of a long row shrink alike
            objective = replace(objective, max_norm=plan.clip_radius / objective.loss.steepest)
        origin: FloatArray = np.zeros((self.objective.n_outputs, self._n_whitened))
        if self.objective.fit_intercept:
            origin[:, -1] = intercept
        if matrix is not None:
            origin = np.asarray(np.linalg.solve(matrix, origin.T).T)
        start = origin.ravel()
        gradients = problems(objective, rows)
        course = _descent.adaptive_descent(gradients, plan, release, start=start, penalty=_penalty(objective, start))
        coef = course.coef.reshape(self.objective.n_outputs, -1)
        if matrix is not None:
            coef = coef @ matrix.T
        if any(self.functions) and self.penalty.given is None and len(course.times) and course.clip_radius:
            penalties = objective.alpha * self._weights(alpha, n_users, frame)
            coef = self._shrink_functions(coef, course, n_users, penalties, matrix, class_weights)
        coef = frame.bounded_coefficients(coef, self.bounds.indicators)
        if counts is not None and self.rates is not None:
            own = coef if matrix is None else np.asarray(np.linalg.solve(matrix, coef.T).T)
            coef[:, -1] += self._shifts(gradients, np.asarray(own.ravel()), counts, release)
        if self.means_share:
            coef[:, -1] -= coef[:, :-1] @ means
        return _descent.LinearResult(
            coef=frame.coefficients(coef, self.objective.fit_intercept).ravel(),
            n_users=n_users,
            radius=radius,
            clip_radius=course.clip_radius,
            noise_level=level,
            alpha=alpha,
            frame=frame,
            scale_missed=scale_missed,
            failure=self._failure(course, radius, scale_missed),
            class_weights=class_weights,
            hidden=hidden,
        )

    def _failure(self, course: _descent.Course, radius: float, scale_missed: bool) -> str:
        """Say how the descent did not converge; nothing if it did."""
        # Functions of features vary less than others by design: they converge late, whatever the scales.
        if any(self.functions):
            return ""
        # A radius from the scale of the target should not be met: then features are small against it.
        drift = course.drift(math.inf if self.bounds.select_scale and not scale_missed else radius)
        met = course.at_bound(radius) and self.bounds.select_scale
        return _descent.failure(drift, radius, met) if drift > 1.0 else ""

    def _shifts(self, rows: Partitions, coef: FloatArray, counts: FloatArray, release: Release) -> FloatArray:
        """Release the mean chances of the classes; returns what gives them their rates.

        A user contributes the mean chances of its rows, which are not negative and add up to 1 at most. So an exchange
        moves one of them by 1, and all of several by √2.
        """
        assert self.rates is not None
        several = self.objective.n_outputs > 1
        sensitivity = self.terms.acute_sensitivity if several else 1.0
        noisy = release.gaussian(
            rows.sum(methodcaller("chance_sum", coef)),
            sensitivity=sensitivity / CONTRIBUTION_STEP,
            noise_multiplier=self.chances_multiplier,
            step=CONTRIBUTION_STEP,
        )
        noise = sensitivity * self.chances_multiplier
        return self.rates.shifts(counts, np.asarray(noisy, dtype=np.float64), noise)

    def _objective(
        self,
        alpha: float,
        n_users: float,
        frame: _frame.Frame,
        matrix: FloatArray | None,
        class_weights: FloatArray | None,
    ) -> Objective:
        """Write the objective in the coordinates of the descent."""
        objective = replace(self.objective, alpha=alpha)
        if class_weights is not None:
            # The largest weight is 1, so that clipping radii keep their meaning; the penalty is scaled, too.
            most = float(class_weights.max())
            weighted = _rules.WeightedLoss(objective.loss, class_weights / most)  # type: ignore[arg-type]
            objective = replace(objective, loss=weighted, alpha=alpha / most)
        if isinstance(objective.loss, _losses.HuberLoss):
            objective = replace(objective, loss=_losses.HuberLoss(objective.loss.threshold / frame.target_scale))
        weights = self._weights(alpha, n_users, frame)
        if matrix is not None:
            metric = (matrix.T * weights) @ matrix
            return replace(objective, n_features=self._n_whitened, fit_intercept=False, metric=metric)
        if self.standardisation or self.flat(n_users):
            return replace(objective, metric=np.diag(weights))
        return objective

    def _weights(self, alpha: float, n_users: float, frame: _frame.Frame) -> FloatArray:
        """Return the penalty of each coefficient of an output over its strength."""
        weights = np.ones(self._n_whitened)
        if self.penalty.given:
            # A given penalty is on the coefficients of the original features.
            weights[: len(frame.scales)] = 1.0 / frame.scales**2
            if isinstance(self.objective.loss, _losses.PinballLoss):  # its units are those of the target
                weights *= frame.target_scale
        elif alpha and self.standardisation is not None and self.standardisation.prepared:
            prepared = np.flatnonzero(self.standardisation.prepared)
            weights[prepared] += (1.0 / _rules.PRIOR - 1.0) * self.penalty.user_ridge / (n_users * alpha)
        if self.objective.fit_intercept:
            weights[-1] = _losses.INTERCEPT_PART if self.flat(n_users) else 0.0
        return weights

    def _shrink_functions(
        self,
        coef: FloatArray,
        course: _descent.Course,
        n_users: float,
        penalties: FloatArray,
        matrix: FloatArray | None,
        class_weights: FloatArray | None,
    ) -> FloatArray:
        """Shrink the coefficients of functions by empirical Bayes."""
        curvature = np.ones(len(coef))
        if self.classes:
            deviations = np.array([1.0 if each is None else each.deviation for each in self.functions])
            weights = None if class_weights is None else class_weights / class_weights.max()
            curvature = _rules.curvatures(coef, deviations, weights)
        estimate = _rules.Estimate(
            curvature,
            course.noise * course.clip_radius / math.sqrt(len(course.directions)),
            n_users,
            penalties,
            course.times / course.clip_radius,
            None if matrix is None else np.square(matrix).sum(axis=1),
        )
        return _rules.shrink_functions(coef, self.functions, estimate)


def _penalty(objective: Objective, origin: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """Return the gradient of the penalty on the distance from the origin, if there is one."""
    return (lambda w: objective.penalty(w - origin)) if objective.alpha else None


def problems(objective: Objective, rows: Partitions) -> Partitions:
    """Form the users' gradients in each block, once where the loss can be stored."""
    formed = rows.map(objective.problem)
    # A custom loss need not be one that can be stored.
    return formed if hasattr(objective.loss, "gradient") else formed.persisted()
