"""Regressor from curated bags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from skprivate._sklearn import HasMethods, StrOptions, _check_y, _fit_context
from skprivate._validation import read_numbers
from skprivate.aggregate import _gam_base, _losses
from skprivate.aggregate.random._bags import no_labels
from skprivate.aggregate.tables import _aggregation, _curated_bags, _labels, _sums
from skprivate.privacy import PrivacyLedger


class CuratedBagGAMRegressor(RegressorMixin, _gam_base.BaseCuratedBagGAM):
    """Additive regressor that learns from label sums per bag only.

    The score is the intercept plus one table lookup (or a small network) per feature set; the prediction is the score
    (``loss="squared"``) or its exponential (``loss="poisson"``). With ``epsilon=None`` the fit is exactly that to
    individual labels.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss bound, ε > 0, of the label of one row. None: exact label sums, no label privacy.
    delta : float, default=1e-6
        Probability, in [0, 1), that the bound may fail.
    loss : {"squared", "poisson"} or object, default="squared"
        "squared": the mean of y. "poisson": the mean of counts, with the logarithm as link. An object makes a loss
        b(score) − T(y)·score of its own. It must have ``statistics(y)``, T of each label by itself, of shape (n_rows,)
        or (n_rows, n_outputs); ``potential(scores)``, a convex b of scores of that shape, finite for all of them; and
        ``gradient(scores)``, its derivative, which is the mean of T that the model predicts.
    label_bounds : (float, float) or array-like of shape (n_outputs, 2), optional
        Public interval of the labels (of T for an object), or of each of several, within ±1e50; what is outside is
        clipped. By default a tenth of the budget finds them privately, up to a half where n·ε is below 500; where too
        few rows hide in the noise, one is guessed, with a warning. Statistics of an object share the widest.
    feature_sets, min_size, small_bags, penalty, submodel, submodel_options, categorical_features, n_bins
        As in `CuratedBagGAMClassifier`.
    bin_edges, mechanism, tol, max_iter
        As in `CuratedBagGAMClassifier`.
    <random_state, ledger>

    Attributes
    ----------
    tables_ : list of ndarray of shape (n_bags, n_outputs)
        Coefficients of the bags of each set, in the order of ``bags_.tables``.
    intercept_ : ndarray of shape (n_outputs,)
        Prediction, before the link, where all tables are 0.
    penalties_ : ndarray of shape (n_sets,), or (n_sets, n_outputs) for several columns of labels
        ℓ2 penalty of each set, None for networks.
    feature_sets_, bags_, privacy_guarantee_, n_iter_, n_features_in_, feature_names_in_
        As in `CuratedBagGAMClassifier`.

    See Also
    --------
    CuratedBagGAMClassifier : Learns classes instead of numbers.
    RandomBagRegressor : Learns from random bags.
    make_curated_bags : Makes the bags, once for many fits.
    sklearn.linear_model.Ridge : Learns from individual labels, without privacy.

    Notes
    -----
    (ε, δ)-label differential privacy under replacement of one row's label, or of all its labels: features and counts
    are public and not protected. All attributes are released. The sum of squared labels is released like one more
    feature set; from it the residual variance is estimated (``loss="squared"``). Columns of labels are in one release,
    whose noise covers all of them; each has a model of its own, but several statistics of a loss share one.

    A loss of one's own is tried on made-up labels and scores first. A label for which its statistics fail or are not
    finite counts as one of statistics 0, and nothing is said of it.

    References
    ----------
    Chen, Fu, Karbasi and Mirrokni (2023), "Learning from Aggregated Data: Curated Bags versus Random Bags",
    Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import CuratedBagGAMRegressor
    >>> X = np.column_stack([np.arange(4000) % 4, np.arange(4000) % 5])
    >>> y = X[:, 0] + (X[:, 1] > 2)
    >>> model = CuratedBagGAMRegressor(epsilon=2.0, label_bounds=(0, 4), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_gam_base.GAM_CONSTRAINTS,
        "loss": [StrOptions({"squared", "poisson"}), HasMethods(["statistics", "potential", "gradient"])],
        "label_bounds": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        delta: float = 1e-6,
        loss: Literal["squared", "poisson"] | _losses.GivenLoss = "squared",
        label_bounds: ArrayLike | None = None,
        feature_sets: Literal["auto", "pairs", "singles"] | int | list[Any] | tuple[Any, ...] = "auto",
        min_size: int | None = None,
        small_bags: Literal["merge", "drop"] = "merge",
        penalty: float | tuple[float, float] | Literal["evidence"] = "evidence",
        submodel: Literal["crosses", "factors", "mlp"] | Callable[..., Any] = "crosses",
        submodel_options: dict[str, Any] | None = None,
        categorical_features: ArrayLike = "from_dtype",
        n_bins: int | None = None,
        bin_edges: dict[Any, Any] | None = None,
        mechanism: Literal["auto", "laplace", "gaussian", "discrete_gaussian"] = "auto",
        tol: float = 1e-6,
        max_iter: int = 500,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.label_bounds = label_bounds
        self.feature_sets = feature_sets
        self.min_size = min_size
        self.small_bags = small_bags
        self.penalty = penalty
        self.submodel = submodel
        self.submodel_options = submodel_options
        self.categorical_features = categorical_features
        self.n_bins = n_bins
        self.bin_edges = bin_edges
        self.mechanism = mechanism
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Aggregate the labels, forget them, and learn from the aggregates.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or rows in blocks
            Public features of any type; missing values are a value of their own. Of blocks
            (`skprivate.partitions`) the codes of all features are held in memory, labels are not.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or column of X where it lies in blocks
            Numbers; private. For ``loss="poisson"`` at least 0: with ``epsilon``, negative ones are clipped to 0.

        Returns
        -------
        self
        """
        self._check_penalty()
        poisson = isinstance(self.loss, str) and self.loss == "poisson"

        def choose_targets(_: object, n_columns: int) -> tuple[Any, Callable[[Any], Any]]:
            n_outputs, targets = n_columns, _labels.number_targets
            if not isinstance(self.loss, str):
                n_outputs = _losses.check_own_loss(self.loss, n_columns)
                targets = partial(
                    _losses.own_statistics, given=self.loss, n_outputs=n_outputs, strict=self.epsilon is None
                )
            bounds = _labels.bounds_of_outputs(self.label_bounds, n_outputs)
            if poisson and bounds is not None and min(bounds)[0] < 0:
                raise ValueError(f"label_bounds must not go below 0 for loss='poisson', got {self.label_bounds!r}.")
            return (n_outputs, bounds), targets

        read = partial(_read_labels, estimator=type(self).__name__, nonnegative=poisson and self.epsilon is None)
        coded, (n_outputs, bounds) = self._code(X, y, read, no_labels, choose_targets)

        def plan(membership: _aggregation.Membership) -> _sums.NumberSums:
            return _sums.NumberSums.plan(
                membership,
                n_outputs,
                bounds,
                nonnegative=poisson,
                with_squares=self._loss(n_outputs).quadratic,
                shared=not self._loss(n_outputs).separable,
                further=() if isinstance(self.loss, str) else (_losses.OWN_STATISTICS,),
                epsilon=self.epsilon,
                delta=self.delta,
                mechanism=self.mechanism,
            )

        # Labels of an interval spread less about their mean than the two labels of a class.
        self._aggregate(*coded, plan, 3.0)
        return self

    def predict(self, X: Any) -> _losses.FloatArray:
        """Expected label of every row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Within the interval of the labels where one was given or found.
        """
        scores = self._scores(X)
        predicted = self._loss(scores.shape[1]).partition(scores.T)[1].T
        if self.bags_.label_bounds is not None:
            predicted = np.clip(predicted, *np.array(self.bags_.label_bounds).T)
        return predicted[:, 0] if scores.shape[1] == 1 else predicted

    def _loss(self, n_outputs: int) -> _losses.SquaredLoss:
        return _losses.BUILT_IN[self.loss] if isinstance(self.loss, str) else _losses.OwnLoss(self.loss, n_outputs)

    def _check_bags(self, bags: _curated_bags.CuratedBags) -> None:
        if bags.classes is not None:
            raise ValueError("bags hold class counts; use CuratedBagGAMClassifier, or aggregate numbers.")
        if not isinstance(self.loss, str):
            _losses.check_potential(self.loss, bags.n_outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At the default budget and without public bounds, the small sets of the common checks are mostly noise.
        tags.regressor_tags.poor_score = True
        tags.target_tags.positive_only = isinstance(self.loss, str) and self.loss == "poisson"
        tags.target_tags.multi_output = True
        return tags


def _read_labels(y: Any, *, estimator: BaseEstimator, nonnegative: bool) -> Any:
    labels = read_numbers(y)
    if not (isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] > 1):
        labels = _check_y(labels, estimator=estimator)
    if nonnegative and np.any(labels < 0):
        raise ValueError("y must not be negative for loss='poisson'.")
    return labels
