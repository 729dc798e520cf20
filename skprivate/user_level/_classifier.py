"""Linear classification with user-level privacy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skprivate import _validation
from skprivate._sklearn import HasMethods, Interval, StrOptions, _fit_context
from skprivate.base import AdjacencyName
from skprivate.partitions import linear_rows
from skprivate.privacy import PrivacyLedger, warn_caller
from skprivate.user_level import _losses, _plan, _problems, _sgd
from skprivate.user_level._rows import GAPS, CheckedRows, by_user, labels, read_rows
from skprivate.user_level.descent import _linear, _preconditioned, _rules
from skprivate.user_level.descent._rules import Bounds, ClassCounts, Clipping, Penalty

#: Largest margin: projection radius times the typical norm of a row.
LARGEST_MARGIN = 20.0


class UserLevelSGDClassifier(ClassifierMixin, _sgd.BaseUserLevelSGD):
    r"""Linear classification that protects everything a user contributed.

    <objective>

    with the logistic loss (multinomial for several classes) or a smoothed hinge (one class against the rest), by
    full-batch descent ("SGD" notwithstanding) on one vector per user and step. Features are centred and scaled within
    the budget where users are enough. At large :math:`n\varepsilon` the result is that of scikit-learn's
    ``LogisticRegression``.

    You set ``epsilon``, ``delta``, ``classes`` and the ``user_ids`` of `fit`; sometimes ``class_weight``, ``alpha``,
    ``inference``, ``adjacency`` and ``ledger``. The other parameters are for experts.

    Parameters
    ----------
    <epsilon, delta>
    loss : {"log_loss", "smoothed_hinge"} or object, default="log_loss"
        An object must implement ``gradient(X, y, coef)`` (`skprivate.user_level.CustomLoss`) with y = ±1, for two
        classes.
    classes : array-like of shape (n_classes,), optional
        Public set of labels. By default the labels of ``y``, which is then stated as an assumption of the guarantee.
    solver : {"auto", "sgd"}, default="auto"
        As in `UserLevelSGDRegressor`, with the logistic loss; for several classes only where each row is a user.
    class_weight : dict, "balanced" or None, default=None
        Public weights {class: weight} of the rows, 1 for classes that are not named. "balanced" weighs each class by
        the inverse of a private count, for 5 % of the budget: for rare classes whose members should be found. By
        default a part of the budget is for the rates of the classes, which the mean probabilities have in the end.
    feature_norm : float > 0, optional
        Public typical Euclidean norm of a row, which sets the clipping radius and the largest margin; features then
        keep their units. By default the root of n_features.
    aggregation : {"auto", "robust", "mean"}, default="auto"
        "robust" clips users at a fifth of the largest gradient of a typical row: least noise, but weak effects come
        out too strong. "mean" clips hardly anybody, so that the result minimises the mean objective; take it if
        probabilities of rare classes matter. "auto" begins as "robust" and clips farther out as noise falls.
    standardize : bool, default=True
        Centre and scale features within the budget, see `UserLevelSGDRegressor`. Not done with ``feature_norm``.
    <adjacency, n_users, fit_intercept>
    alpha : float >= 0, optional
        Strength of the ℓ2 penalty on the coefficients of the original features. By default one over the number of
        users, and what balances the noise (docs/theory/user_level.md), on those of standardised features: in the
        limit the default of ``LogisticRegression``.
    radius : float > 0, optional
        Public bound on the norm of the coefficients, intercept included; by default 20/feature_norm, less where noise
        is large and more where it is small.
    <max_iter, weight_cap, inference>
    <random_state, ledger>

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_weight_ : ndarray of shape (n_classes,)
        Weights of the classes as used: public, or from released counts.
    <n_iter_ to feature_fill_>
    row_bound_ : float
        Euclidean norm to which centred and scaled rows are clipped, in fitting and in predicting: twice the typical
        norm :math:`\sqrt{d+1}` of d features, more where there is hardly any noise, and :math:`2\sqrt d` where users
        are too few to scale features. Infinite where features keep their units.
    feature_range_ : tuple of (ndarray of shape (n_features,), ndarray of shape (n_features,))
        Ends to which features are clipped, in fitting and in predicting: six scales from their centres, more where
        there is hardly any noise, and less for features that are one value for most rows. Infinite where features
        keep their units or seem to be prepared already, if users are enough to tell.
    <coef_error_, noise_share_, coef_interval_>
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    UserLevelSGDRegressor : Predicts numbers instead of classes.
    make_private_pipeline : Prepares a raw table within the budget.
    PrivateSearchCV : Searches hyperparameters within one budget.
    sklearn.linear_model.LogisticRegression : Fits without privacy.

    Notes
    -----
    <guarantee>
    ``classes_`` is no released value where ``classes`` is not given. Labels outside ``classes`` are refused.

    Parameters by who needs them:

    * *you set*: ``epsilon`` and ``classes``; ``delta`` and ``ledger`` for a release; ``loss``;
    * *sometimes*: ``class_weight``, ``inference``, ``alpha``, ``weight_cap``, ``adjacency``, ``n_users``;
      ``random_state`` in simulations;
    * *experts*: ``solver``, ``aggregation``, ``standardize``, ``feature_norm``, ``radius``, ``max_iter``,
      ``fit_intercept``.

    Features with about mean 0 and deviation 1 by public numbers are best (see `UserLevelSGDRegressor`);
    `~skprivate.user_level.UnscaledFeaturesWarning` reports most failures.

    *Missing entries* are as in `UserLevelSGDRegressor`.

    *Intervals* are for the coefficients of a logistic model, with smaller weights of long rows, none of which is
    clipped. Users with several rows count as one each. ``inference`` is for two classes without weights. Strong effects
    need more users: where log odds have deviation 3, five features need some 30 000/ε, and all are NaN with fewer.
    Categories and collinear features as for `UserLevelSGDRegressor`.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSGDClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 4))
    >>> y = (X @ [1.0, -1.0, 0.5, 0.0] + rng.logistic(size=20_000) > 0).astype(int)
    >>> model = UserLevelSGDClassifier(epsilon=1.0, classes=[0, 1]).fit(X, y, user_ids=np.arange(20_000) // 10)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_sgd.BaseUserLevelSGD._parameter_constraints,
        "loss": [StrOptions({"log_loss", "smoothed_hinge"}), HasMethods("gradient")],
        "classes": ["array-like", None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "feature_norm": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        loss: Literal["log_loss", "smoothed_hinge"] | _losses.CustomLoss = "log_loss",
        classes: ArrayLike | None = None,
        solver: Literal["auto", "sgd"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        feature_norm: float | None = None,
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
        self.classes = classes
        self.solver = solver
        self.class_weight = class_weight
        self.feature_norm = feature_norm
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
            Labels, all of them in ``classes``; where X is in blocks the name of their column, or its number in an
            array. Without ``classes`` the labels are collected from the blocks: they are taken as public.
        <user_ids>

        Returns
        -------
        self : UserLevelSGDClassifier
        """
        self._check_inference("log_loss")
        given = None if self.classes is None else _validation.together([_validation.check_classes(self.classes)])
        check = partial(labels, public=_validation.public_labels(self))
        checked = read_rows(self, X, user_ids, check, blank=UserLevelSGDClassifier(), y=y)
        classes = _validation.two_or_more(
            checked.gather(_labels, _validation.together) if given is None else given, self
        )
        if self.inference and len(classes) > 2:
            raise ValueError(f"inference=True is for two classes, got {len(classes)}.")
        if not isinstance(self.loss, str):
            _losses.check_custom_loss(self.loss, self.n_features_in_ + self.fit_intercept, (-1.0, 1.0))
            if len(classes) > 2:
                raise ValueError(f"a custom loss is for two classes, got {len(classes)} classes.")
        rows, n_users = by_user(
            checked.map(partial(_with_codes, classes=classes)), named=user_ids is not None, weight_cap=self.weight_cap
        )
        n_features, n_outputs = self.n_features_in_, 1 if len(classes) == 2 else len(classes)
        with closing(rows):
            multinomial = n_outputs > 1 and self.loss == "log_loss"
            targets = rows.map(partial(_with_targets, n_outputs=n_outputs, signed=not multinomial))
            terms, inference = self._plan_inference(self._terms(n_users), user_ids)
            mechanism = self._mechanism(classes, n_outputs, terms, user_ids is None)
            result, estimate = self._run(mechanism, targets, n_users, user_ids, inference)
        if 0 < len(result.hidden) < len(classes) and result.noise_level <= _plan.MAX_NOISE_LEVEL:
            hidden = ", ".join(repr(_validation.plain(classes[j])) for j in result.hidden[:5])
            warn_caller(
                f"too few users have class {hidden} to tell their number from noise at epsilon = {self.epsilon:g}: "
                "chances of it are uncertain, and a constant may have a smaller log loss.",
                _sgd.TooFewUsersWarning,
            )
        coef = (result.coef if estimate is None else estimate.coef).reshape(n_outputs, -1)
        if multinomial:
            # A common change of all classes changes no probability, so it is noise alone.
            coef = coef - coef.mean(axis=0)
        self.class_weight_ = np.ones(len(classes)) if result.class_weights is None else result.class_weights
        self.classes_ = _validation.label_array(classes)
        self.coef_ = coef[:, :n_features]
        self.intercept_ = coef[:, -1].copy() if self.fit_intercept else np.zeros(n_outputs)
        self._store_intervals(estimate)
        return self

    def _mechanism(
        self, classes: list[Any], n_outputs: int, terms: _plan.Terms, own_rows: bool = False
    ) -> _linear.Descent | _preconditioned.PreconditionedDescent:
        n_features = self.n_features_in_
        loss: Any = self.loss
        if isinstance(loss, str):
            smooth = _losses.MultinomialLoss() if n_outputs > 1 else _losses.LogisticLoss()
            loss = smooth if loss == "log_loss" else _losses.SmoothedHingeLoss()
        objective = _problems.Objective(loss, n_features, n_outputs, self.fit_intercept)
        ridge, auto = _losses.noise_ridge(loss, n_outputs), self.aggregation == "auto"
        # In typical norms of a row: the residual at the origin, or for the mean the largest one of a margin.
        radii = {"auto": _losses.first_residual(loss, n_outputs), "robust": _losses.LEAST_CLIP, "mean": 1.0}
        penalty = Penalty(given=self.alpha, user_ridge=1.0, clip_ridge=ridge)
        if self.class_weight is None:
            quiet = self._plan_preconditioned(objective, terms, penalty, several=not own_rows)
            if quiet is not None:
                return quiet
        terms, class_weights = self._class_weights(classes, terms)
        return self._plan_descent(
            objective,
            terms,
            penalty=penalty,
            given_steps=self.max_iter,
            clipping=Clipping(
                # The median gradient is that of well classified users, which is too small for others (rare classes).
                select=False,
                radius=radii[self.aggregation],
                noise=_losses.clip_noise(loss, n_outputs) if auto else 0.0,
                grows=auto,
            ),
            bounds=Bounds(
                radius=LARGEST_MARGIN,
                select_scale=False,
                row_norm=self.feature_norm or self._typical_norm(n_features + self.fit_intercept),
            ),
            class_weights=class_weights,
            classes=True,
        )

    def _class_weights(self, classes: list[Any], terms: _plan.Terms) -> tuple[_plan.Terms, Any]:
        """Return the class weights, or the mechanism that counts classes, and the terms of all later draws."""
        n_classes = len(classes)
        signed = n_classes == 2 or self.loss == "smoothed_hinge"
        if self.class_weight is None:
            # A given radius bounds the intercept, too. Without rates a rare class tells where to start.
            if not self.fit_intercept or self.loss != "log_loss" or self.radius is not None:
                return terms, None
            rates = ClassCounts(terms, n_classes, signed, balanced=False).rates
            if not rates and (n_classes > 2 or self._as_given()):
                return terms, None
        elif not isinstance(self.loss, str):
            raise ValueError("class_weight needs a loss that is named.")
        elif not isinstance(self.class_weight, str):
            return terms, _rules.given_weights(self.class_weight, classes)
        counts = ClassCounts(terms, n_classes, signed, balanced=self.class_weight is not None)
        return replace(terms, earlier=(*terms.earlier, *counts.events)), counts

    def _assumptions(self) -> tuple[str, ...]:
        return (*super()._assumptions(), _validation.PUBLIC_LABELS)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Linear predictor of each class; for two classes that of the second.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = _validation.validate_data(self, X, **GAPS, reset=False)
        scores = linear_rows(self._frame.bounded(X), self.coef_, self.intercept_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities under the logistic model (a heuristic for other losses).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            second = expit(scores)
            return np.column_stack([1.0 - second, second])
        return softmax(scores, axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The suite's data sets have fewer users than any private fit can learn from.
        tags.classifier_tags.poor_score = True
        return tags


def _labels(rows: CheckedRows) -> list[Any]:
    return _validation.distinct_labels(rows.y)


def _with_codes(rows: CheckedRows, classes: list[Any]) -> CheckedRows:
    """Replace labels by class numbers; by −1 and 1 in a byte each for two classes."""
    codes = _validation.encode_classes(rows.y, classes, strict=True)
    if len(classes) == 2:
        return rows._replace(y=(2 * codes - 1).astype(np.int8))
    return rows._replace(y=codes.astype(np.float64))


def _with_targets(data: _problems.UserData, n_outputs: int, signed: bool) -> _problems.UserData:
    """Turn several classes into one column each, of ±1, or of 0 and 1 if not ``signed``."""
    if n_outputs == 1:
        return data
    one_hot = np.zeros((len(data), n_outputs), dtype=np.int8, order="F")
    one_hot[np.arange(len(data)), data.y.astype(np.int64)] = 1
    return replace(data, y=2 * one_hot - 1 if signed else one_hot)
