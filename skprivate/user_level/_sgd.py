"""Base of the linear models with user-level privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skprivate import privacy
from skprivate._messages import number
from skprivate._sklearn import Interval, StrOptions
from skprivate._validation import TakesSparse, column_label
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, shown
from skprivate.partitions import Partitions
from skprivate.privacy import Adjacency, PrivacyUnit, SharedBudget
from skprivate.user_level import _losses, _problems
from skprivate.user_level._inference import CoefSummary, Estimate, Inference, Line, combined_errors, normal_interval
from skprivate.user_level._plan import MAX_NOISE_LEVEL, Terms
from skprivate.user_level.descent import _descent, _linear, _preconditioned
from skprivate.user_level.descent._rules import Bounds, ClassCounts, Clipping, FloatArray, Function, Penalty
from skprivate.user_level.scaling import _frame, _standardise

#: Clipping radius in units of the private median of the users' gradient norms.
CLIP_FACTORS = {"auto": 1.0, "robust": 1.0, "mean": 3.0}
#: What warnings say of features.
ONE_VALUE = (
    "to a private search nearly all values look alike, and far from 0. If they vary, subtract a public number near "
    "them."
)
EMPTY = "to a private search nearly all values are missing, so that predictions do without them. Leave them out."


class TooFewUsersWarning(UserWarning):
    """n·ε is too small for anything to be learnt, or for a rare class or an interval; by public and released numbers.

    See Also
    --------
    user_level_sample_size : Computes how many users are enough.
    """


class BaseUserLevelSGD(PrivateEstimatorMixin, TakesSparse, BaseEstimator):
    """Winsorised, user-normalised gradient descent on a linear model."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}
    _shared_docs: ClassVar[dict[str, str]] = {
        **PrivateEstimatorMixin._shared_docs,
        "<epsilon, delta>": """epsilon : float > 0, default=1.0
        Privacy budget ε of one fit.
    delta : float in (0, 1), default=1e-6
        Privacy budget δ of one fit; well below one over the number of users.""",
        "<adjacency, n_users, fit_intercept>": """adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one user's rows exchanged for any others, or one user more or less.
    n_users : int, optional
        Public number of users under ``adjacency="add-remove"``; by default it is released with noise. Under
        "replace-one" the number of users is public.
    fit_intercept : bool, default=True
        Fit an intercept.""",
        "<objective>": r"""
    Minimises over :math:`w` the users' mean objective

    .. math:: \frac1n \sum_u \Big( \frac1{m_u} \sum_j \ell(\langle w, x_{uj} \rangle, y_{uj}) + \frac\alpha2 \|w\|^2
        \Big)""",
        "<guarantee>": """
    Guarantee: (ε, δ)-differential privacy for a user, or for a row without ``user_ids``, computed from the draws:
    Gaussian noise on exact sums of integer vectors, each of norm at most 1 in steps of 2⁻³⁰ (second moments: 2⁻³⁶) and
    computed from the user's own rows alone, and selections by the exponential mechanism. A custom loss has to treat
    every row by itself (`skprivate.user_level.CustomLoss`); the guarantee states that. All fitted attributes are
    released values.""",
        "<max_iter, weight_cap, inference>": """max_iter : int >= 1, optional
        Number of steps; by default chosen from public numbers.
    weight_cap : int >= 1, default=1
        A user with m rows has weight min(m, weight_cap)/weight_cap.
    inference : bool, default=False
        Spend 60 % of the budget on a last Newton step with standard errors, for `confidence_interval` and `summary`.
        ``coef_`` is then the result of that step, without a penalty. Needs about 4 400/ε users for five features.""",
        "<n_iter_ to feature_fill_>": """n_iter_ : int
        Number of steps.
    n_users_ : float
        Number of users as used: public, or released with noise.
    alpha_ : float
        Strength of the ℓ2 penalty as used (from public numbers).
    radius_, clip_radius_ : float
        Projection and clipping radius as used, in the coordinates of the descent: public, or selected privately. The
        first is infinite, and the second one of residuals, where steps are preconditioned.
    feature_center_, feature_scale_ : ndarray of shape (n_features,)
        Released centres and scales of the features; 0 and 1 where none were found.
    feature_fill_ : ndarray of shape (n_features,)
        Released numbers that stand for missing entries, in fitting and in predicting.""",
        "<coef_error_, noise_share_, coef_interval_>": """coef_error_, noise_share_ : ndarray, with ``inference=True``
        Standard errors, in the shape of ``coef_``, and the part of privacy noise in their squares. NaN where users are
        too few, and for features that noise hides (Notes).
    coef_interval_ : ndarray, with ``inference=True``
        Confidence intervals of level 0.95, as of `confidence_interval`.""",
    }

    coef_: FloatArray
    #: Almost all of the budget is for Gaussian noise.
    _nearly_gaussian: ClassVar[bool] = True
    #: What is public about each column behind other steps: nothing, its "unit", which is 1, or that it is a function of
    #: a feature (with a deviation). Set by the pipeline for one fit.
    _prepared_features: tuple[tuple[int, float] | str | None, ...] = ()
    #: Sets of its columns of which exactly one is 1 in every row, and the others 0; set in the same way.
    _categories: tuple[tuple[int, ...], ...] = ()
    #: Columns that are a slope and an offset on a feature (column, feature, slope, offset); set in the same way.
    _lines: tuple[tuple[int, int, float, float], ...] = ()
    #: Names of its columns; set in the same way.
    _column_names: tuple[str, ...] | None = None
    #: Public limits of its columns, or None; set in the same way.
    _limits: tuple[tuple[float, float] | None, ...] = ()
    #: Budget of the whole pipeline and its other draws; set in the same way.
    _whole: SharedBudget | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_CONSTRAINT,
        "solver": [StrOptions({"auto", "sgd"})],
        "aggregation": [StrOptions({"auto", "robust", "mean"})],
        "standardize": ["boolean"],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "n_users": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "weight_cap": [Interval(Integral, 1, None, closed="left")],
        "inference": ["boolean"],
    }

    def _terms(self, n_users: int) -> Terms:
        """Return the budget and the public numbers of a fit."""
        adjacency = Adjacency(self.adjacency)
        public = n_users if adjacency is Adjacency.REPLACE_ONE else self.n_users
        return Terms(self.epsilon, self.delta, adjacency, public, whole=self._whole)

    def _check_inference(self, loss: str) -> None:
        """Refuse parameters whose result has no intervals here."""
        needed = {"loss": loss, "alpha": None, "class_weight": None}
        for name, value in needed.items() if self.inference else ():
            if (got := getattr(self, name, None)) != value and not (name == "alpha" and got == 0):
                raise ValueError(f"inference=True needs {name}={value!r}, got {shown(got)}.")

    def _plan_inference(self, terms: Terms, user_ids: Any) -> tuple[Terms, Inference | None]:
        """Return the terms of all other draws, and what makes intervals."""
        if not self.inference:
            return terms, None
        found = Inference(
            terms,
            self.n_features_in_,
            self.fit_intercept,
            logistic=self.loss == "log_loss",
            several=user_ids is not None,
            categories=self._categories,
            functions=self._functions,
            lines=tuple(Line(*each) for each in self._lines) if self.fit_intercept else (),
        )
        return replace(terms, earlier=(*terms.earlier, *found.events)), found

    def _plan_descent(
        self,
        objective: _problems.Objective,
        terms: Terms,
        *,
        penalty: Penalty,
        given_steps: int | None,
        clipping: Clipping,
        bounds: Bounds,
        several: bool = False,
        class_weights: FloatArray | ClassCounts | None = None,
        classes: bool = False,
    ) -> _linear.Descent:
        """Make the mechanism of a descent; a radius that is given and standardisation override ``bounds``."""
        if self.radius is not None:
            bounds = replace(bounds, radius=self.radius, select_scale=False, given=True)
        terms, standardisation = self._standardisation(objective, terms, several)
        if standardisation is not None:
            bounds = replace(bounds, select_scale=False, indicators=tuple(j for each in self._categories for j in each))
        elif not self._as_given():
            bounds = replace(bounds, row_bound=_frame.public_bound(objective.n_features))
        return _linear.Descent(
            terms=terms,
            objective=objective,
            penalty=penalty,
            given_steps=given_steps,
            clipping=replace(clipping, factor=CLIP_FACTORS[self.aggregation]),
            bounds=bounds,
            standardisation=standardisation,
            class_weights=class_weights,
            classes=classes,
            functions=self._functions if standardisation is not None else (),
        )

    def _plan_preconditioned(
        self, objective: _problems.Objective, terms: Terms, penalty: Penalty, *, several: bool
    ) -> _preconditioned.PreconditionedDescent | None:
        """Plan preconditioned steps; None where second moments are loud, or what they are of is not covered."""
        usual = self.solver == "auto" and self.aggregation == "auto" and self.weight_cap == 1
        if (
            not usual
            or not _preconditioned.covers(objective, terms, several)
            or self._as_given()
            or any(self._prepared_features)
        ):
            return None
        n_users = terms.n_users or 1
        n_sample = _preconditioned.sample_size(terms, objective.n_features)
        own, search = self._standardisation(objective, replace(terms, n_users=n_sample), several)
        if search is None or search.features is None:
            return None
        found = _preconditioned.PreconditionedDescent(
            terms=replace(terms, earlier=own.earlier),
            objective=objective,
            scaling=_preconditioned.Scaling(
                search=replace(search, all_users=float(n_users)),
                n_users=n_users,
                n_sample=n_sample,
                seed=int.from_bytes(privacy.public_generator(self.random_state).bytes(16)) if n_sample < n_users else 0,
                several=several,
            ),
            penalty=penalty,
            given_steps=self.max_iter,
            several=several,
        )
        return found if found.quiet else None

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
        return tuple(Function(*each) if isinstance(each, tuple) else None for each in self._prepared_features)

    def _typical_norm(self, n_coef: int) -> float:
        """Return the norm of a row and its 1 whose columns have the deviations that earlier steps state, or else 1."""
        stated = [each.deviation for each in self._functions if each is not None and each.deviation]
        return math.hypot(*stated, math.sqrt(n_coef - len(stated)))

    def _standardisation(
        self, objective: _problems.Objective, terms: Terms, several: bool
    ) -> tuple[Terms, _standardise.Standardisation | None]:
        """Plan the centring and scaling of features; returns the terms of all later draws, too."""
        if self._as_given():
            return terms, None
        found = _standardise.plan_standardisation(
            terms,
            n_features=objective.n_features,
            centred=objective.fit_intercept,
            target=isinstance(objective.loss, (_losses.SquaredLoss, _losses.HuberLoss, _losses.PinballLoss)),
            several=several,
            many_outputs=objective.n_outputs > 1,
            prepared=tuple(isinstance(each, tuple) for each in self._prepared_features),
            unit=tuple(each == "unit" for each in self._prepared_features),
            boxes=self._limits,
        )
        if found is None:
            return terms, None
        return replace(terms, earlier=(*terms.earlier, *found.events)), found

    def _run(
        self,
        mechanism: _linear.Descent | _preconditioned.PreconditionedDescent,
        rows: Partitions,
        n_users: int,
        user_ids: Any,
        inference: Inference | None,
    ) -> tuple[_descent.LinearResult, Estimate | None]:
        """Release the model, set the fitted attributes, and warn by released numbers."""
        estimate = None
        if inference is not None and not inference.draws:  # public numbers tell, before anything is paid for
            warn_no_intervals(float(inference.terms.n_users or 0), self.epsilon, inference)
        with self._releasing(
            mechanism,
            unit=PrivacyUnit.ROW if user_ids is None else PrivacyUnit.USER,
            adjacency=self.adjacency,
            assumptions=self._assumptions(),
            n_units=n_users if self.adjacency == "replace-one" else self.n_users,
        ) as release:
            result: _descent.LinearResult = mechanism.run(rows, release)
            if inference is not None:
                estimate = inference.run(rows, release, result)
        warn_too_few_users(result.n_users, self.epsilon, mechanism.size, result.noise_level)
        if result.scale_missed and result.noise_level <= MAX_NOISE_LEVEL:
            privacy.warn_caller(
                f"n = {result.n_users:.0f} users at epsilon = {self.epsilon:g} are too few to find the scale of the "
                f"target privately; coefficients are bounded by {mechanism.bounds.radius:g}. Scale the target by "
                "public numbers or set radius.",
                TooFewUsersWarning,
            )
        if result.failure and result.noise_level <= MAX_NOISE_LEVEL:
            privacy.warn_caller(result.failure, _descent.UnscaledFeaturesWarning)
        doubts = result.frame.doubts
        for columns, text in ((doubts.one_value, ONE_VALUE), (doubts.empty, EMPTY)):
            if columns and result.noise_level <= MAX_NOISE_LEVEL:
                privacy.warn_caller(f"Features {self._named(columns)}: {text}", _descent.UnscaledFeaturesWarning)
        self.n_iter_ = mechanism.n_steps
        self.n_users_ = result.n_users
        self.alpha_ = result.alpha
        self._frame = frame = result.frame
        self.feature_center_, self.feature_scale_ = frame.centres, frame.scales
        self.feature_range_, self.row_bound_ = frame.feature_range, frame.row_bound
        self.feature_fill_ = np.array(np.broadcast_to(frame.fills, self.n_features_in_))
        self.radius_ = result.radius
        self.clip_radius_ = result.clip_radius
        if inference is not None and inference.draws and estimate is None:
            warn_no_intervals(result.n_users, self.epsilon, inference)
        if estimate is not None and (lost := self._without_interval(estimate)):
            privacy.warn_caller(
                f"Features {self._named(lost)}: noise hides a combination that holds the coefficient, whose interval "
                "is NaN. They are collinear, rare, or indicators of all categories, of which one has to be left out.",
                TooFewUsersWarning,
            )
        return result, estimate

    def _named(self, columns: Sequence[int]) -> str:
        """List the first few columns by their names."""
        names = getattr(self, "feature_names_in_", self._column_names)
        return ", ".join(column_label(j, names) for j in columns[:5])

    def _without_interval(self, estimate: Estimate) -> list[int]:
        """List features whose error is NaN, but for functions of a feature and that feature: their sum is a curve."""
        curves = {j for j, each in enumerate(self._functions) if each is not None}
        curves |= {each.feature for each in self._functions if each is not None}
        lost = np.flatnonzero(np.isnan(estimate.errors[: self.n_features_in_]))
        return [j for j in lost.tolist() if j not in curves]

    def _store_intervals(self, estimate: Estimate | None) -> None:
        """Set the coefficients of the Newton step and their errors, NaN where there is none."""
        if self.inference:
            n_features, shape = self.n_features_in_, self.coef_.shape
            found = estimate or Estimate(
                *np.full((3, n_features), np.nan), *np.full((2, n_features, n_features), np.nan)
            )
            self._covariances = [each[:n_features, :n_features] for each in (found.covariance, found.hidden)]
            self.coef_error_ = found.errors[:n_features].reshape(shape)
            self.noise_share_ = found.noise_share[:n_features].reshape(shape)
            self.coef_interval_ = self.confidence_interval()

    def confidence_interval(self, level: float = 0.95) -> FloatArray:
        """Compute confidence intervals of the coefficients: of sampling and of privacy noise.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Chance to hold the coefficient, for each by itself.

        Returns
        -------
        interval : ndarray of shape (n_features, 2), or (1, n_features, 2) for classes
            Lower and upper ends. NaN where a warning of the fit said so.

        Raises
        ------
        ValueError
            If the fit was without ``inference=True``, or for another level.
        """
        return normal_interval(self.coef_, self._errors_at(level), level)

    def _errors_at(self, level: float, combinations: FloatArray | None = None) -> FloatArray:
        """Return standard errors of the coefficients, or of combinations of them; refuses a level that is none."""
        check_is_fitted(self)
        number("level", level, "a number in (0, 1)", lambda value: 0 < value < 1)
        if not hasattr(self, "coef_error_"):
            raise ValueError("confidence intervals need a fit with inference=True.")
        return self.coef_error_ if combinations is None else combined_errors(combinations, *self._covariances)

    def summary(self, level: float = 0.95) -> CoefSummary:
        """Show coefficients with their confidence intervals.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            As in `confidence_interval`.

        Returns
        -------
        summary : CoefSummary
            Arrays and the guarantee; printed as a table.
        """
        interval = self.confidence_interval(level).reshape(-1, 2)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(interval))])
        return CoefSummary(
            names=tuple(names),
            coef=self.coef_.ravel(),
            interval=interval,
            noise_share=self.noise_share_.ravel(),
            level=level,
            n_users=self.n_users_,
            guarantee=self.privacy_guarantee_,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _assumptions(self) -> tuple[str, ...]:
        assumptions = []
        if self.adjacency == "replace-one" or self.n_users is not None:
            assumptions.append("the number of users is public")
        if any(self._limits):
            assumptions.append("bounds are public")
        if not isinstance(self.loss, str):
            assumptions.append("loss.gradient computes every row from that row alone, to the last bit")
        return tuple(assumptions)


def warn_too_few_users(n_users: float, epsilon: float, n_coef: int, level: float) -> None:
    """Warn if the noise drowns the users' votes, and tell how many users are needed; from released numbers alone."""
    if level > MAX_NOISE_LEVEL:
        privacy.warn_caller(
            f"n = {n_users:.0f} users at epsilon = {epsilon:g} (n·ε = {n_users * epsilon:.3g}) are too few to learn "
            f"{n_coef} coefficients: the noise is {level:.2g} times a unanimous vote of the users. About "
            f"{math.ceil(n_users * level / MAX_NOISE_LEVEL)} users are needed; more rows per user do not help.",
            TooFewUsersWarning,
        )


def warn_no_intervals(n_users: float, epsilon: float, inference: Inference) -> None:
    """Warn that there are no intervals; from public and released numbers alone."""
    needed = math.ceil(n_users * max(2.0, inference.shortage(n_users)))
    privacy.warn_caller(
        f"n = {n_users:.0f} users at epsilon = {epsilon:g} are too few for confidence intervals of {inference.size} "
        f"coefficients, which are NaN. About {needed} users are needed, features that are not nearly collinear, and "
        "errors that are not tiny against the target.",
        TooFewUsersWarning,
    )
