"""What the linear models with user-level privacy share."""

from __future__ import annotations

import math
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skprivate._sklearn import Interval, StrOptions
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.privacy import Adjacency, Release
from skprivate.user_level._descent import adaptive_descent
from skprivate.user_level._fit import Descend, DescentSettings, PreparedDescent
from skprivate.user_level._paper import PaperPlan, winsorized_descent
from skprivate.user_level._phased import assign_phases, n_phases, phased_descent
from skprivate.user_level._plan import DescentPlan, Neighbours
from skprivate.user_level._problems import UserProblem
from skprivate.user_level._users import UserGroups, encode_users

FloatArray = npt.NDArray[np.float64]

#: Clipping radius in units of the private median of the users' gradient norms.
CLIP_FACTORS = {"robust": 1.0, "mean": 3.0}
#: Noise level (norm of all noise against a unanimous vote) above which a fit warns.
HOPELESS_LEVEL = 0.5


class TooFewUsersWarning(UserWarning):
    """n·ε is too small for anything to be learnt; depends on public numbers only."""


class BaseUserLevelSGD(PrivateEstimatorMixin, BaseEstimator, metaclass=ABCMeta):
    """Winsorised, user-normalised gradient descent on a linear model."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_CONSTRAINT,
        "solver": [StrOptions({"auto", "sgd", "phased", "moments"})],
        "accounting": [StrOptions({"tight", "paper"})],
        "aggregation": [StrOptions({"robust", "mean"})],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "n_users": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "weight_cap": [Interval(Integral, 1, None, closed="left")],
        "concentration": [Interval(Real, 0, None, closed="neither")],
        "gradient_bound": [Interval(Real, 0, None, closed="neither")],
        "step_size": [Interval(Real, 0, None, closed="neither"), None],
        "convexity": [StrOptions({"convex", "strongly-convex", "non-convex"})],
    }

    @abstractmethod
    def __init__(
        self,
        epsilon,
        *,
        delta,
        loss,
        solver,
        accounting,
        aggregation,
        adjacency,
        n_users,
        fit_intercept,
        alpha,
        radius,
        max_iter,
        weight_cap,
        concentration,
        gradient_bound,
        step_size,
        convexity,
        random_state,
        ledger,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.solver = solver
        self.accounting = accounting
        self.aggregation = aggregation
        self.adjacency = adjacency
        self.n_users = n_users
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.radius = radius
        self.max_iter = max_iter
        self.weight_cap = weight_cap
        self.concentration = concentration
        self.gradient_bound = gradient_bound
        self.step_size = step_size
        self.convexity = convexity
        self.random_state = random_state
        self.ledger = ledger

    # --- the straight line ---------------------------------------------------------------------------------------

    def _groups(self, user_ids: Any, n_rows: int) -> tuple[UserGroups, npt.NDArray[Any]]:
        """Users of the rows, and their identifiers."""
        if self.accounting == "paper" and (self.adjacency != "replace-one" or self.weight_cap != 1):
            raise ValueError(
                "accounting='paper' is the published algorithm: it needs adjacency='replace-one' and weight_cap=1, "
                f"got adjacency={self.adjacency!r} and weight_cap={self.weight_cap!r}."
            )
        if self.accounting == "paper" and self.solver not in ("auto", "sgd"):
            raise ValueError(f"accounting='paper' needs solver='sgd' or 'auto', got solver={self.solver!r}.")
        codes, names = encode_users(user_ids, n_rows)
        return UserGroups(codes, self.weight_cap), names

    def _minimise(
        self,
        make_problem: Callable[[Any, UserGroups, float], UserProblem],
        groups: UserGroups,
        names: npt.NDArray[Any],
        *,
        n_coef: int,
        magnitudes: FloatArray | None,
        smoothness: float,
        most_steps: int,
        select_clip: bool,
        clip_radius: float,
        radius: float,
        record_ridge: float = 0.0,
    ) -> FloatArray:
        """Open the release, minimise, close it; sets the released attributes and returns the coefficients.

        Parameters
        ----------
        make_problem : callable
            From an index of rows, their users and the strength of the ℓ2 penalty to the objective.
        groups : UserGroups
        names : ndarray of shape (n_users,)
            Identifiers of the users.
        n_coef : int
        magnitudes : ndarray of shape (n_users,) or None
            Size of each user's target, where a projection radius is to be found from it.
        smoothness : float
            Curvature bound of the loss, for the published step size.
        most_steps : int
            Default number of steps with ample budget.
        select_clip : bool
            Whether a clipping radius is to be selected; otherwise ``clip_radius`` is used.
        clip_radius : float
        radius : float
            Projection radius if the parameter is None and none is found.
        record_ridge : float
            Default penalty in units of d ν², with the noise level ν of the fit.
        """
        if self.accounting == "paper":
            return self._minimise_as_published(
                make_problem(slice(None), groups, self.alpha or 0.0), smoothness
            )
        neighbours = Neighbours(Adjacency(self.adjacency))
        settings = DescentSettings(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=neighbours,
            n_users=groups.n_users if self.adjacency == "replace-one" else self.n_users,
            n_steps=self.max_iter,
            most_steps=most_steps,
            select_clip=select_clip and self.solver != "phased",
            clip_factor=CLIP_FACTORS[self.aggregation],
            clip_radius=clip_radius,
            select_scale=magnitudes is not None and self.radius is None,
            radius=radius if self.radius is None else self.radius,
            shrink_radius=self.radius is None,
        )
        prepared = PreparedDescent(settings, n_coef)
        alpha = self.alpha
        if alpha is None:
            known = settings.n_users is not None
            alpha = record_ridge * n_coef * prepared.level(settings.n_users) ** 2 if known else 0.0
        if self.solver == "phased":
            theorem = "Algorithm 5 (arXiv 2102.11845) with user-normalised descent, docs/user_level.md"
            descend = _phased(make_problem, groups, names, alpha, prepared)
        else:
            theorem = "user-normalised descent, docs/user_level.md"
            problem = make_problem(slice(None), groups, alpha)

            def descend(plan, level, release):
                return adaptive_descent(problem, plan, release)

        release = self._open(prepared.events, theorem)
        result = prepared.run(descend, groups.n_users, magnitudes, release)
        self.privacy_guarantee_ = release.close()
        warn_if_hopeless(result.n_users, self.epsilon, n_coef, result.noise_level)
        if settings.select_scale and not result.scale_found and result.noise_level <= HOPELESS_LEVEL:
            warnings.warn(
                f"n = {result.n_users:.0f} users at epsilon = {self.epsilon:g} are too few to find the scale of the "
                f"target privately; coefficients are bounded by {radius:g}. Scale the target by public numbers or "
                "set radius.",
                TooFewUsersWarning,
                stacklevel=3,
            )
        self.n_iter_ = result.n_steps
        self.n_users_ = result.n_users
        self.alpha_ = alpha
        self.radius_ = result.radius
        self.clip_radius_ = result.clip_radius
        return result.coef

    def _minimise_as_published(self, problem: UserProblem, smoothness: float) -> FloatArray:
        plan = PaperPlan(
            epsilon=self.epsilon,
            delta=self.delta,
            n_steps=self.max_iter or 20,
            tau=self.concentration,
            bound=max(self.gradient_bound, self.concentration),
            gamma=0.05,
            step=self.step_size or 1.0 / smoothness,
            radius=math.inf if self.radius is None else self.radius,
            convexity=self.convexity,
        )
        release = self._open(plan.events(problem.n_coef), "Algorithm 4 and Theorem 4 (arXiv 2102.11845)")
        coef = winsorized_descent(problem, plan, release)
        self.privacy_guarantee_ = release.close()
        self.n_iter_ = plan.n_steps
        self.n_users_ = float(problem.groups.n_users)
        self.alpha_ = self.alpha or 0.0
        self.radius_ = plan.radius
        self.clip_radius_ = plan.tau
        return coef

    def _open(self, events: list[Any], theorem: str) -> Release:
        assumptions = ["features were transformed by public rules only"]
        if self.adjacency == "replace-one" or self.n_users is not None:
            assumptions.append("the number of users is public")
        if self.solver == "phased" and self.adjacency == "replace-one":
            assumptions.append("an exchanged user keeps its identifier")
        return self._open_release(
            unit="user",
            adjacency=self.adjacency,
            theorem=theorem,
            assumptions=(*assumptions, *self._assumptions()),
            plan=events,
        )

    def _assumptions(self) -> tuple[str, ...]:
        return ()


def warn_if_hopeless(n_users: float, epsilon: float, n_coef: int, level: float) -> None:
    """Say how many users would be needed where so few cannot teach anything; from released numbers alone."""
    if level > HOPELESS_LEVEL:
        warnings.warn(
            f"n = {n_users:.0f} users at epsilon = {epsilon:g} (n·ε = {n_users * epsilon:.3g}) are too few to learn "
            f"{n_coef} coefficients: the noise is {level:.2g} times a unanimous vote of the users. About "
            f"{math.ceil(n_users * level / HOPELESS_LEVEL)} users are needed; more rows per user do not help.",
            TooFewUsersWarning,
            stacklevel=4,
        )


def _phased(
    make_problem: Callable[[Any, UserGroups, float], UserProblem],
    groups: UserGroups,
    names: npt.NDArray[Any],
    alpha: float,
    prepared: PreparedDescent,
) -> Descend:
    """The descent of a phased fit: every user takes part in one phase, by a hash of its own identifier."""

    def phase_problem(users: npt.NDArray[np.int64]) -> UserProblem:
        rows, codes = groups.rows_of(users)
        return make_problem(rows, UserGroups(codes, groups.weight_cap), alpha)

    def descend(plan: DescentPlan, level: float, release: Any) -> tuple[FloatArray, float]:
        phases = assign_phases(names, n_phases(level), release.public_rng)
        coef = phased_descent(phase_problem, phases, plan, prepared.descent_events, level, release)
        return coef, plan.clip_radius

    return descend
