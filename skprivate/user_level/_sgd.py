"""Base of the linear models with user-level privacy."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skprivate._sklearn import Interval, StrOptions
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.partitions import Partitions, is_partitioned
from skprivate.privacy import Adjacency, PrivacyUnit, Whole, warn_caller
from skprivate.user_level._losses import HuberLoss, SquaredLoss
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import Objective
from skprivate.user_level.descent._descent import (
    ADVICE,
    AT_RADIUS,
    NOT_CONVERGED,
    LinearResult,
    UnscaledFeaturesWarning,
)
from skprivate.user_level.descent._linear import Descent, PhasedDescent
from skprivate.user_level.descent._rules import Function
from skprivate.user_level.scaling._frame import identity, public_bound
from skprivate.user_level.scaling._standardise import Standardisation, plan_standardisation

#: Clipping radius in units of the private median of the users' gradient norms.
CLIP_FACTORS = {"auto": 1.0, "robust": 1.0, "mean": 3.0}
#: Noise level (norm of all noise against a unanimous vote) above which a fit warns.
MAX_NOISE_LEVEL = 0.5


class TooFewUsersWarning(UserWarning):
    """n·ε is too small for anything to be learnt; depends on public numbers only."""


class BaseUserLevelSGD(PrivateEstimatorMixin, BaseEstimator):
    """Winsorised, user-normalised gradient descent on a linear model."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    #: Almost all of the budget is for Gaussian noise.
    _nearly_gaussian: ClassVar[bool] = True
    #: Columns that an earlier step of a pipeline has made of features; set by the pipeline for one fit.
    _prepared_features: tuple[tuple[int, float] | None, ...] = ()
    #: Budget of the whole pipeline and its other draws; set in the same way.
    _whole: Whole | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_CONSTRAINT,
        "solver": [StrOptions({"auto", "sgd", "phased", "moments"})],
        "aggregation": [StrOptions({"auto", "robust", "mean"})],
        "standardize": ["boolean"],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "n_users": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "weight_cap": [Interval(Integral, 1, None, closed="left")],
    }

    def _check_options(self, X: Any, user_ids: Any) -> None:
        """Refuse options that do not go together."""
        if self.solver == "phased" and self.adjacency == "add-remove" and user_ids is None:
            raise ValueError(
                "solver='phased' with adjacency='add-remove' needs user_ids: rows without identifiers are dealt to "
                "phases by their positions, which one row more or less changes for all later ones."
            )
        if self.solver == "phased" and is_partitioned(X) and user_ids is None:
            raise ValueError(
                "solver='phased' needs user_ids where X is in blocks: rows without identifiers are dealt to phases "
                "by their positions."
            )

    def _terms(self, n_users: int) -> Terms:
        """Return the budget and the public numbers of a fit."""
        adjacency = Adjacency(self.adjacency)
        public = n_users if adjacency is Adjacency.REPLACE_ONE else self.n_users
        return Terms(self.epsilon, self.delta, adjacency, public, whole=self._whole)

    def _descent(self, objective: Objective, terms: Terms, *, radius: float, **defaults: Any) -> Descent:
        """Make the mechanism of a descent; parameters override ``radius`` and ``defaults`` (fields of `Descent`)."""
        if self.solver == "phased" or self.radius is not None:
            defaults["select_clip"] &= self.solver != "phased"
            defaults["select_scale"] &= self.radius is None
        terms, standardisation = self._standardisation(objective, terms)
        if standardisation is not None:
            defaults["select_scale"] = False
        elif not self._as_given():
            defaults["row_bound"] = public_bound(objective.n_features)
        kind = PhasedDescent if self.solver == "phased" else Descent
        return kind(
            terms=terms,
            standardisation=standardisation,
            objective=objective,
            given_alpha=self.alpha,
            given_steps=self.max_iter,
            clip_factor=CLIP_FACTORS[self.aggregation],
            radius=radius if self.radius is None else self.radius,
            shrink_radius=self.radius is None,
            functions=self._functions if standardisation is not None else (),
            **defaults,
        )

    def _as_given(self) -> bool:
        """Return True if features keep their units: with a custom loss, or a public number about them."""
        public = self.radius is not None or getattr(self, "feature_norm", None) is not None
        return not self.standardize or public or not isinstance(self.loss, str)

    @property
    def _takes_prepared(self) -> bool:
        """True if prepared features may come beside others, which are standardised."""
        return not self._as_given()

    @property
    def _functions(self) -> tuple[Function | None, ...]:
        """Columns that an earlier step has made of features."""
        return tuple(each and Function(*each) for each in self._prepared_features)

    def _standardisation(self, objective: Objective, terms: Terms) -> tuple[Terms, Standardisation | None]:
        """Plan the centring and scaling of features; returns the terms of all later draws, too."""
        if self._as_given():
            return terms, None
        found = plan_standardisation(
            terms,
            n_features=objective.n_features,
            centred=objective.fit_intercept,
            target=isinstance(objective.loss, (SquaredLoss, HuberLoss)),
            many_outputs=objective.n_outputs > 1,
            prepared=tuple(each is not None for each in self._prepared_features),
        )
        if found is None:
            return terms, None
        return replace(terms, earlier=(*terms.earlier, *found.events)), found

    def _run(self, mechanism: Any, rows: Partitions, n_users: int, user_ids: Any) -> LinearResult:
        """Release the model, set the fitted attributes, and warn by released numbers."""
        with self._releasing(
            mechanism,
            unit=PrivacyUnit.ROW if user_ids is None else PrivacyUnit.USER,
            adjacency=self.adjacency,
            assumptions=self._assumptions(),
            n_units=n_users if self.adjacency == "replace-one" else self.n_users,
        ) as release:
            result: LinearResult = mechanism.run(rows, release)
        warn_too_few_users(result.n_users, self.epsilon, mechanism.size, result.noise_level)
        if result.scale_missed and result.noise_level <= MAX_NOISE_LEVEL:
            warn_caller(
                f"n = {result.n_users:.0f} users at epsilon = {self.epsilon:g} are too few to find the scale of the "
                f"target privately; coefficients are bounded by {mechanism.radius:g}. Scale the target by public "
                "numbers or set radius.",
                TooFewUsersWarning,
            )
        if result.drift > 1.0 and result.noise_level <= MAX_NOISE_LEVEL:
            reason = AT_RADIUS if result.at_bound and mechanism.select_scale else NOT_CONVERGED
            warn_caller(
                reason.format(drift=result.drift, radius=result.radius) + ADVICE, UnscaledFeaturesWarning
            )
        self.n_iter_ = mechanism.n_steps
        self.n_users_ = result.n_users
        self.alpha_ = result.alpha
        frame = identity(self.n_features_in_) if result.frame is None else result.frame
        self._frame = frame
        self.feature_center_, self.feature_scale_ = frame.centres, frame.scales
        self.feature_range_, self.row_bound_ = frame.feature_range, frame.row_bound
        self.radius_ = result.radius
        self.clip_radius_ = result.clip_radius
        return result

    def _assumptions(self) -> tuple[str, ...]:
        assumptions = ["features were transformed by public rules only"]
        if self.adjacency == "replace-one" or self.n_users is not None:
            assumptions.append("the number of users is public")
        if self.solver == "phased" and self.adjacency == "replace-one":
            assumptions.append("an exchanged user keeps its identifier")
        if not isinstance(self.loss, str):
            assumptions.append("loss.gradient computes every row from that row alone, to the last bit")
        return tuple(assumptions)


def warn_too_few_users(n_users: float, epsilon: float, n_coef: int, level: float) -> None:
    """Warn if the noise drowns the users' votes, and tell how many users are needed; from released numbers alone."""
    if level > MAX_NOISE_LEVEL:
        warn_caller(
            f"n = {n_users:.0f} users at epsilon = {epsilon:g} (n·ε = {n_users * epsilon:.3g}) are too few to learn "
            f"{n_coef} coefficients: the noise is {level:.2g} times a unanimous vote of the users. About "
            f"{math.ceil(n_users * level / MAX_NOISE_LEVEL)} users are needed; more rows per user do not help.",
            TooFewUsersWarning,
        )
