"""Linear regression with user-level privacy."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skprivate._sklearn import HasMethods, Interval, StrOptions, _fit_context
from skprivate.privacy import Adjacency, gaussian_noise_multiplier
from skprivate.user_level._descent import project
from skprivate.user_level._losses import HuberLoss, SquaredLoss, check_custom_loss
from skprivate.user_level._moments import moments_regression, n_moments, noise_is_negligible
from skprivate.user_level._plan import Neighbours
from skprivate.user_level._problems import CustomProblem, GramProblem, LinearProblem, UserProblem
from skprivate.user_level._sgd import BaseUserLevelSGD, warn_if_hopeless
from skprivate.user_level._user_mean import MeanSettings, PreparedMean, clip_factor
from skprivate.user_level._users import UserGroups, user_magnitudes

#: Steps of a fit with ample budget.
MOST_STEPS = 50
#: Projection radius where the scale of the target is not known: that of a target of unit scale.
UNIT_RADIUS = 2.0


class UserLevelSGDRegressor(RegressorMixin, BaseUserLevelSGD):
    r"""Linear regression that protects everything a user contributed.

    Minimises over :math:`w` the users' mean objective

    .. math:: \frac1n \sum_u \Big( \frac1{m_u} \sum_j \ell(\langle w, x_{uj} \rangle, y_{uj}) + \frac\alpha2 \|w\|^2
        \Big)

    by descent on one vector per user and step. No range, clipping radius or step has to be guessed: they are
    found privately within the stated budget.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Privacy budget ε of one fit.
    delta : float in (0, 1), default=1e-6
        Privacy budget δ of one fit; well below one over the number of users.
    loss : {"squared_error", "huber"} or object, default="squared_error"
        Loss of a row. An object must implement ``gradient(X, y, coef)`` and declare ``lipschitz`` and
        ``smoothness`` (`skprivate.user_level.CustomLoss`).
    huber_threshold : float > 0, default=1.35
        Residual, in units of y, beyond which the Huber loss is linear.
    solver : {"auto", "sgd", "phased", "moments"}, default="auto"
        "sgd" descends on all users in every step; "phased" solves a sequence of ever more strongly regularised
        problems on disjoint users (Algorithm 5); "moments" releases the users' mean second moments once and
        solves for the coefficients (squared loss only).
    accounting : {"tight", "paper"}, default="tight"
        "paper" runs Algorithm 4 as published, with its composition, constants and Laplace noise.
    aggregation : {"robust", "mean"}, default="robust"
        How users are averaged. "robust" clips at the median gradient norm: least noise, and the result is a robust
        centre of the users, which differs from the mean if users or errors are skewed. "mean" clips far above the
        median, so that the result is the minimiser of the mean objective up to a few clipped users.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one user's rows exchanged for any others, or one user more or less.
    n_users : int, optional
        Public number of users under ``adjacency="add-remove"``; by default it is released with noise. (Under
        "replace-one" the number of users is the same in all neighbours.)
    fit_intercept : bool, default=True
    alpha : float >= 0, optional
        Strength of the ℓ2 penalty. By default 0, and where each row is its own user 3 d ν² with the noise level
        ν = Δ z √d/n of the fit (public numbers): about the ratio of noise to signal for standardised features.
    radius : float > 0, optional
        Public bound on the norm of the coefficients, intercept included. By default found from the private scale of
        the target; where users are too few for that, a warning says so and the target is taken to be of unit scale.
    max_iter : int >= 1, optional
        Number of steps; by default chosen from public numbers.
    weight_cap : int >= 1, default=1
        A user with m rows has weight min(m, weight_cap)/weight_cap.
    concentration : float > 0, default=1.0
        For ``accounting="paper"``: radius τ about their centre in which the users' mean gradients lie.
    gradient_bound : float > 0, default=1e9
        For ``accounting="paper"``: range B in which this centre is searched; costs grow with log B only.
    step_size : float > 0, optional
        For ``accounting="paper"``: step size, by default the inverse curvature of the loss for rows of unit scale.
    convexity : {"convex", "strongly-convex", "non-convex"}, default="convex"
        For ``accounting="paper"``: variant of Proposition 3.
    random_state : int, RandomState instance or None, default=None
        None: secure noise. Otherwise a reproducible simulation whose result must not be released.
    ledger : PrivacyLedger, optional
        Budget of the data set, shared by many fits.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_iter_ : int
        Number of steps.
    n_users_ : float
        Number of users as used: public, or released with noise.
    alpha_ : float
        Strength of the ℓ2 penalty as used (from public numbers).
    radius_, clip_radius_ : float
        Projection and clipping radius as used: public, or selected privately.
    privacy_guarantee_ : PrivacyGuarantee
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy at user level, computed from the draws: Gaussian sums of vectors of norm at
    most 1 per user, and selections by the exponential mechanism. All fitted attributes are released values.

    Scale features by public numbers before: the descent treats all directions alike.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSGDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40_000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 3.0 + rng.normal(size=40_000)
    >>> user_ids = np.arange(40_000) // 20
    >>> model = UserLevelSGDRegressor(epsilon=1.0).fit(X, y, user_ids=user_ids)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> bool(0.99 < model.privacy_guarantee_.epsilon <= 1.0)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseUserLevelSGD._parameter_constraints,
        "loss": [StrOptions({"squared_error", "huber"}), HasMethods("gradient")],
        "huber_threshold": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        epsilon=1.0,
        *,
        delta=1e-6,
        loss="squared_error",
        huber_threshold=1.35,
        solver="auto",
        accounting="tight",
        aggregation="robust",
        adjacency="replace-one",
        n_users=None,
        fit_intercept=True,
        alpha=None,
        radius=None,
        max_iter=None,
        weight_cap=1,
        concentration=1.0,
        gradient_bound=1e9,
        step_size=None,
        convexity="convex",
        random_state=None,
        ledger=None,
    ):
        super().__init__(
            epsilon,
            delta=delta,
            loss=loss,
            solver=solver,
            accounting=accounting,
            aggregation=aggregation,
            adjacency=adjacency,
            n_users=n_users,
            fit_intercept=fit_intercept,
            alpha=alpha,
            radius=radius,
            max_iter=max_iter,
            weight_cap=weight_cap,
            concentration=concentration,
            gradient_bound=gradient_bound,
            step_size=step_size,
            convexity=convexity,
            random_state=random_state,
            ledger=ledger,
        )
        self.huber_threshold = huber_threshold

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, user_ids=None):
        """Fit the model privately.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        user_ids : array-like of shape (n_samples,), optional
            User of each row; by default each row is its own user.

        Returns
        -------
        self : UserLevelSGDRegressor
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = y.astype(np.float64, copy=False)
        groups, names = self._groups(user_ids, len(X))
        if not isinstance(self.loss, str):
            check_custom_loss(self.loss)
        if self._uses_moments(groups, X.shape[1] + self.fit_intercept):
            coef = self._fit_moments(X, y, groups)
        else:
            coef = self._fit_descent(X, y, groups, names, user_ids is None)
        self.coef_ = coef[: X.shape[1]]
        self.intercept_ = float(coef[-1]) if self.fit_intercept else 0.0
        return self

    def _fit_descent(
        self, X: np.ndarray, y: np.ndarray, groups: UserGroups, names: np.ndarray, record_level: bool
    ) -> np.ndarray:
        return self._minimise(
            lambda rows, users, alpha: self._problem(X[rows], y[rows], users, alpha),
            groups,
            names,
            n_coef=X.shape[1] + self.fit_intercept,
            magnitudes=user_magnitudes(y, groups),
            smoothness=1.0 if isinstance(self.loss, str) else float(self.loss.smoothness),
            record_ridge=3.0 if record_level else 0.0,
            most_steps=MOST_STEPS,
            select_clip=True,
            clip_radius=0.0,
            radius=UNIT_RADIUS,
        )

    def _uses_moments(self, groups: UserGroups, n_coef: int) -> bool:
        if self.solver == "moments":
            if self.loss != "squared_error":
                raise ValueError("solver='moments' needs loss='squared_error'.")
            return True
        if not (self.solver == "auto" and self.accounting == "tight" and self.aggregation == "mean"):
            return False
        n_users = groups.n_users if self.adjacency == "replace-one" else self.n_users
        if n_users is None or not isinstance(self.loss, str) or self.loss != "squared_error":
            return False
        multiplier = gaussian_noise_multiplier(self.epsilon, self.delta)
        return noise_is_negligible(multiplier, Neighbours(Adjacency(self.adjacency)), n_users, n_coef)

    def _fit_moments(self, X: np.ndarray, y: np.ndarray, groups: UserGroups) -> np.ndarray:
        n_coef = X.shape[1] + self.fit_intercept
        size = n_moments(n_coef)
        settings = MeanSettings(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=Neighbours(Adjacency(self.adjacency)),
            n_users=groups.n_users if self.adjacency == "replace-one" else self.n_users,
            tau=None,
            clip_factor=clip_factor(self.aggregation, size),
            bound=None,
            n_scales=2,
        )
        prepared = PreparedMean(settings, size)
        release = self._open(prepared.events, "winsorised mean of second moments, docs/user_level.md")
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            coef, result = moments_regression(
                X,
                y,
                groups,
                prepared,
                fit_intercept=self.fit_intercept,
                alpha=self.alpha or 0.0,
                release=release,
            )
        self.privacy_guarantee_ = release.close()
        warn_if_hopeless(result.n_users, self.epsilon, size, result.noise_level)
        self.n_iter_ = 1
        self.n_users_ = result.n_users
        self.alpha_ = self.alpha or 0.0
        self.radius_ = np.inf
        self.clip_radius_ = result.clip_radius
        return coef if self.radius is None else project(coef, self.radius)

    def _problem(self, X: np.ndarray, y: np.ndarray, groups: UserGroups, alpha: float) -> UserProblem:
        options: Any = {"fit_intercept": self.fit_intercept, "alpha": alpha}
        if not isinstance(self.loss, str):
            return CustomProblem(X, y, groups, self.loss, **options)
        if self.loss == "huber":
            return LinearProblem(X, y, groups, HuberLoss(self.huber_threshold), **options)
        if groups.n_rows >= 2 * groups.n_users * X.shape[1]:
            return GramProblem(X, y, groups, **options)
        return LinearProblem(X, y, groups, SquaredLoss(), **options)

    def predict(self, X):
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The suite's data sets have fewer users than any private fit can learn from.
        tags.regressor_tags.poor_score = True
        return tags
