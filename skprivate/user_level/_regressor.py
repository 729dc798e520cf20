"""Linear regression with user-level privacy."""

from __future__ import annotations

from contextlib import closing
from numbers import Real
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import HasMethods, Interval, StrOptions, _fit_context
from skprivate._validation import validate_data
from skprivate.base import AdjacencyName
from skprivate.partitions import linear_rows
from skprivate.privacy import PrivacyLedger
from skprivate.user_level import _losses, _plan, _problems, _rows, _sgd
from skprivate.user_level.descent import _linear, _preconditioned, _rules

LossName = Literal["squared_error", "huber", "absolute_error", "quantile"]
LOSSES = get_args(LossName)


class UserLevelSGDRegressor(RegressorMixin, _sgd.BaseUserLevelSGD):
    r"""Linear regression that protects everything a user contributed.

    <objective>

    by full-batch descent ("SGD" notwithstanding) on one vector per user and step, or few steps in the metric of second
    moments. Ranges, clipping radius and steps are
    found privately within the budget, and so are centres and scales of features and target where users are enough. At
    large :math:`n\varepsilon` the result is least squares.

    You set ``epsilon``, ``delta`` and the ``user_ids`` of `fit`; sometimes ``loss``, ``alpha``, ``inference``,
    ``adjacency`` and ``ledger``. The other parameters are for experts.

    Parameters
    ----------
    <epsilon, delta>
    loss : {"squared_error", "huber", "absolute_error", "quantile"} or object, default="squared_error"
        Loss of a row; "absolute_error" is for the median, "quantile" for the ``quantile``. An object must implement
        ``gradient(X, y, coef)`` (`skprivate.user_level.CustomLoss`).
    huber_threshold : float > 0, default=1.35
        Residual, in units of y, beyond which the Huber loss is linear.
    quantile : float in (0, 1), optional
        Share of the targets that lies below the prediction, for ``loss="quantile"``.
    solver : {"auto", "sgd"}, default="auto"
        "auto" takes ten steps in the metric of released second moments where these are quiet, by public numbers:
        the number of users is public, ``aggregation`` is "auto", features are standardised and were not prepared by
        other private steps. Otherwise, and with "sgd", it descends on all users in 10 to 50 steps.
    aggregation : {"auto", "robust", "mean"}, default="auto"
        Average of the users. "robust" clips at the median gradient norm: least noise, and a robust centre, which
        differs from the mean if users or errors are skewed. "auto" begins as "robust" and clips farther out as noise
        falls: as far as the noise is half the sampling noise, and four times as far where a private quantile of the
        gradient norms shows a tail. So it tends to the minimiser of the mean objective. "mean" is "auto" from three
        times the median on: less bias for skewed users or errors at small :math:`n\varepsilon`.
    standardize : bool, default=True
        Centre and scale features and target by private histograms where users are enough (public numbers decide),
        unless features seem to be prepared already, and whiten them by private second moments where the noise allows.
        A column that noise hides is taken to be like most others. Not done with ``radius`` and with a custom loss.
    <adjacency, n_users, fit_intercept>
    alpha : float >= 0, optional
        Strength of the ℓ2 penalty on the coefficients of the original features. By default 0, and, where each row is
        its own user, :math:`d\nu^2` on those of standardised features, with the noise level
        :math:`\nu=\Delta z\sqrt d/n`.
    radius : float > 0, optional
        Public bound on the norm of the coefficients, intercept included. By default found from the private scale of
        the target; where users are too few for that, a warning says so and the target is taken to be of unit scale.
    <max_iter, weight_cap, inference>
    <random_state, ledger>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients.
    intercept_ : float
        Intercept, 0 without one.
    <n_iter_ to feature_fill_>
    row_bound_ : float
        Euclidean norm to which centred and scaled rows are clipped, in fitting and in predicting, in typical norms
        :math:`\sqrt{d+1}` of d features: as many as ``feature_range_`` has scales, but three where the tail of the
        target is light and there is noise, and two where users are too few to scale features. Infinite where features
        keep their units.
    feature_range_ : tuple of (ndarray of shape (n_features,), ndarray of shape (n_features,))
        Ends to which features are clipped, in fitting and in predicting: six scales from their centres, more where
        the tail of the target is heavy or there is hardly any noise. Infinite where features keep their units or seem
        to be prepared already, if users are enough to tell.
    <coef_error_, noise_share_, coef_interval_>
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    UserLevelSGDClassifier : Predicts classes instead of numbers.
    make_private_pipeline : Prepares a raw table within the budget.
    PrivateSearchCV : Searches hyperparameters within one budget.
    sklearn.linear_model.Ridge : Fits without privacy.

    Notes
    -----
    <guarantee>

    Parameters by who needs them:

    * *you set*: ``epsilon``; ``delta`` and ``ledger`` for a release; ``loss`` with ``quantile`` or ``huber_threshold``;
    * *sometimes*: ``inference``, ``alpha``, ``weight_cap``, ``adjacency``, ``n_users``;
      ``random_state`` in simulations;
    * *experts*: ``solver``, ``aggregation``, ``standardize``, ``radius``, ``max_iter``, ``fit_intercept``.

    Features with about mean 0 and deviation 1 by public numbers (`~skprivate.preprocessing.PublicScaler`) are best.
    Where users are too few to standardise every feature, only the target is standardised, and rows are clipped to
    twice the typical norm. `~skprivate.user_level.UnscaledFeaturesWarning` reports most failures.

    *Missing entries* (NaN) are taken to be ``feature_fill_``: the released centre of their column, or 0 where features
    keep their units. A column of hardly anything else is named by a warning and moves no prediction.

    *Quantiles*: rows longer than typical get smaller weights, so that clipping moves no quantile. Those other than the
    median need about 5 000/ε rows for five features, more where residuals are small against the target; with fewer,
    and for few users with many rows, they lie too far outside.

    *Intervals* are for the coefficients of a linear model of the mean; long rows have smaller weights, and none is
    clipped. They hold where errors vary with the features, or are skewed, but not where both: slopes are then those of
    a mean without the largest errors. Users with several rows count as one each. Of intercepts there are none. Behind a
    pipeline that encodes categories, the commonest of each column (by released scales) is the reference: its
    coefficient is 0, and those of the others are differences from it. NaN, with a warning, where noise hides a
    combination of features that holds the coefficient: of collinear or very rare features, and of indicators of all
    categories in an array.

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

    Confidence intervals, here one row a user:

    >>> model = UserLevelSGDRegressor(epsilon=1.0, inference=True).fit(X, y)
    >>> low, high = model.coef_interval_.T
    >>> bool((high - low).max() < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_sgd.BaseUserLevelSGD._parameter_constraints,
        "loss": [StrOptions(set(LOSSES)), HasMethods("gradient")],
        "huber_threshold": [Interval(Real, 0, None, closed="neither")],
        "quantile": [Interval(Real, 0, 1, closed="neither"), None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        loss: LossName | _losses.CustomLoss = "squared_error",
        huber_threshold: float = 1.35,
        quantile: float | None = None,
        solver: Literal["auto", "sgd"] = "auto",
        aggregation: Literal["auto", "robust", "mean"] = "auto",
        standardize: bool = True,
        adjacency: AdjacencyName = "replace-one",
        n_users: int | None = None,
        fit_intercept: bool = True,
        alpha: float | None = None,
        radius: float | None = None,
        max_iter: int | None = None,
        weight_cap: int = 1,
        inference: bool = False,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.huber_threshold = huber_threshold
        self.quantile = quantile
        self.solver = solver
        self.aggregation = aggregation
        self.standardize = standardize
        self.adjacency = adjacency
        self.n_users = n_users
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.radius = radius
        self.max_iter = max_iter
        self.weight_cap = weight_cap
        self.inference = inference
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, user_ids: Any = None) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        <X, or rows in blocks>
            Entries may be missing (Notes).
        y : array-like of shape (n_samples,), or column of X
            Target; where X is in blocks the name of its column, or the number in an array.
        <user_ids>

        Returns
        -------
        self : UserLevelSGDRegressor
        """
        self._check_inference("squared_error")
        if self.loss == "quantile" and self.quantile is None:
            raise ValueError("quantile must be a number in (0, 1) where loss='quantile', got None.")
        checked = _rows.read_rows(self, X, user_ids, _rows.numeric_target, blank=UserLevelSGDRegressor(), y=y)
        if not isinstance(self.loss, str):
            _losses.check_custom_loss(self.loss, self.n_features_in_ + self.fit_intercept, (1.0, 2.0))
        rows, n_users = _rows.by_user(checked, named=user_ids is not None, weight_cap=self.weight_cap)
        n_features = self.n_features_in_
        with closing(rows):
            terms, inference = self._plan_inference(self._terms(n_users), user_ids)
            mechanism = self._mechanism(n_features, terms, user_ids is None)
            result, estimate = self._run(mechanism, rows, n_users, user_ids, inference)
        coef = result.coef if estimate is None else estimate.coef
        self.coef_ = coef[:n_features]
        self.intercept_ = float(coef[-1]) if self.fit_intercept else 0.0
        self._store_intervals(estimate)
        return self

    def _loss(self) -> Any:
        if self.loss == "huber":
            return _losses.HuberLoss(self.huber_threshold)
        if self.loss == "absolute_error":
            return _losses.PinballLoss(1.0, 1.0)
        if self.loss == "quantile":
            assert self.quantile is not None
            return _losses.PinballLoss(self.quantile, 1.0 - self.quantile)
        return _losses.SquaredLoss() if self.loss == "squared_error" else self.loss

    def _mechanism(
        self, n_features: int, terms: _plan.Terms, record_level: bool
    ) -> _linear.Descent | _preconditioned.PreconditionedDescent:
        loss = self._loss()
        objective = _problems.Objective(loss, n_features, 1, self.fit_intercept)
        penalty = _rules.Penalty(given=self.alpha, record_ridge=1.0 if record_level else 0.0)
        quiet = self._plan_preconditioned(objective, terms, penalty, several=not record_level)
        if quiet is not None:
            return quiet
        return self._plan_descent(
            objective,
            terms,
            penalty=penalty,
            given_steps=self.max_iter,
            clipping=self._clipping(loss),
            bounds=_rules.Bounds(radius=_rules.RADIUS_FACTOR, select_scale=True),  # of a target of unit scale
            several=not record_level,
        )

    def _clipping(self, loss: Any) -> _rules.Clipping:
        """Choose the clipping radius: a median of norms would move a quantile, whose slopes are bounded anyway."""
        if not isinstance(loss, _losses.PinballLoss):
            return _rules.Clipping(select=True, grows=self.aggregation != "robust")
        norms = _sgd.CLIP_FACTORS[self.aggregation] * self._typical_norm(self.n_features_in_ + self.fit_intercept)
        return _rules.Clipping(select=False, radius=loss.steepest * norms)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the target; features and rows are clipped as in the fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, **_rows.GAPS, reset=False)
        return linear_rows(self._frame.bounded(X), self.coef_, self.intercept_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The suite's data sets have fewer users than any private fit can learn from.
        tags.regressor_tags.poor_score = True
        return tags
