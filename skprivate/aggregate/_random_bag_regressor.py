"""Regressor from random bags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from skprivate._sklearn import StrOptions, _fit_context
from skprivate._validation import read_numbers
from skprivate.aggregate import _bag_losses, _random_bag_base
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.random import _fit, _quadratic
from skprivate.aggregate.random._bags import RandomBags, gather_rows, labelled_blocks, no_labels
from skprivate.aggregate.tables import _labels, _sums
from skprivate.privacy import PrivacyLedger


class RandomBagRegressor(RegressorMixin, _random_bag_base.BaseRandomBagModel):
    """Regression from the mean labels of random bags: linear (Theorem 2), in closed form, or by a network.

    The linear model minimises, over linear h and with r_i the mean of h over bag i less the bag's label,

        (1/n) Σ_i r_i² − c ((1/n) Σ_i r_i)² + alpha ‖w‖²/n,   c = (m − 1)N / (m(N − 1)),

    whose expectation has the minimiser of the squared error of individual labels.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss bound, ε > 0, of the label of one row. None: no label privacy.
    bag_size, n_bags, disjoint
        As in `RandomBagClassifier`.
    label_release : {"auto", "mean", "bernoulli", "laplace"}, default="auto"
        "mean" and "bernoulli" (for labels in [0, 1]) promise no privacy and need ``epsilon=None``.
    loss : {"debiased", "squared", "easyllp"}, default="debiased"
        "squared" leaves the correction out. Both agree for linear models with an intercept; for networks
        "debiased" has the mean of the squared error of rows. "easyllp", for networks, has it too: ½f² less the
        debiased mean of y·f.
    alpha : "evidence" or float, default="evidence"
        Ridge penalty on scaled features. "evidence" maximises the marginal likelihood of the released labels.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    buckets, prior, submodel, submodel_options
        As in `RandomBagClassifier`; a module of your own has standardised labels (n, n_outputs) for outputs.
    label_bounds : (float, float), optional
        Public interval within ±1e50; labels outside are clipped. By default a tenth of the budget finds one privately,
        and up to a half of it where n·ε is below 500.
    <random_state, ledger>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the features; 0 for networks.
    intercept_ : float
        Intercept.
    alpha_ : ndarray of shape (1,) or None
        Penalty as used; None for networks.
    bucket_edges_, bucket_coef_, prior_, condition_number_, networks_, network_weight_
        As in `RandomBagClassifier`.
    bags_, privacy_guarantee_, n_iter_, n_features_in_, feature_names_in_
        As in `RandomBagClassifier`.

    See Also
    --------
    RandomBagClassifier : Learns classes instead of numbers.
    CuratedBagGAMRegressor : Learns from bags of equal features.
    make_random_bags : Makes the bags, once for many fits.
    sklearn.linear_model.Ridge : Learns from individual labels, without privacy.

    Notes
    -----
    ε-label differential privacy under replacement of one label; features and membership are public. All attributes
    are released.

    References
    ----------
    Chen, Fu, Karbasi and Mirrokni (2023), "Learning from Aggregated Data: Curated Bags versus Random Bags",
    Theorem 2.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from skprivate import RandomBagRegressor
    >>> X, y = make_regression(n_samples=20_000, n_features=5, noise=10.0, random_state=0)
    >>> model = RandomBagRegressor(epsilon=2.0, bag_size=8, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_random_bag_base.RANDOM_BAG_CONSTRAINTS,
        "loss": [StrOptions({"debiased", "squared", "easyllp"})],
        "label_bounds": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        bag_size: int | None = None,
        n_bags: int | None = None,
        disjoint: bool = True,
        label_release: Literal["auto", "mean", "bernoulli", "laplace"] = "auto",
        loss: Literal["debiased", "squared", "easyllp"] = "debiased",
        alpha: float | Literal["evidence"] = "evidence",
        fit_intercept: bool = True,
        buckets: bool | Literal["evidence"] = "evidence",
        prior: Literal["evidence", "ridge", "spread"] = "evidence",
        submodel: Literal["linear", "mlp"] | Callable[..., Any] = "linear",
        submodel_options: dict[str, Any] | None = None,
        label_bounds: ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bag_size = bag_size
        self.n_bags = n_bags
        self.disjoint = disjoint
        self.label_release = label_release
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.buckets = buckets
        self.prior = prior
        self.submodel = submodel
        self.submodel_options = submodel_options
        self.label_bounds = label_bounds
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, row_keys: object = None) -> Self:
        """Draw bags, aggregate their labels, forget the labels, and learn from the aggregates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows in blocks
            Public features. Of blocks (`skprivate.partitions`) all features are held in memory, labels are not.
        y : array-like of shape (n_samples,), or column of X where it lies in blocks
            Numbers; private.
        row_keys : array-like of shape (n_samples,), or column of X where it lies in blocks, optional
            Public identifiers, one for each row, that say nothing about labels: however rows are ordered, the same
            ones share a bag. By default bags are drawn from numbers of rows.

        Returns
        -------
        self
        """
        bounds = _labels.check_bounds(self.label_bounds)
        self._check_submodel()
        rows = self._read(X, y, row_keys, read_numbers)
        self._fit_bags(
            gather_rows(rows, no_labels),
            labelled_blocks(rows, _labels.number_targets),
            lambda bags: _sums.NumberSums.plan(bags, 1, bounds, epsilon=self.epsilon),
        )
        return self

    def predict(self, X: Any) -> FloatArray:
        """Expected label of every row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            With label privacy, within the interval of the labels that was given or found.
        """
        scores = self._scores(X)
        return scores if self.bags_.label_bounds is None else np.clip(scores, *self.bags_.label_bounds)

    def _solve(self, X: FloatArray, bags: RandomBags, alpha: float | None) -> _fit.LinearFit:
        return _quadratic.fit_quadratic(
            bags,
            X,
            loss="squared" if self.loss == "squared" else "debiased",
            alpha=alpha,
            fit_intercept=self.fit_intercept,
            label_bounds=self._bounds(bags),
        )

    def _objective(self, bags: RandomBags) -> tuple[_bag_losses.BagObjective, FloatArray, FloatArray]:
        return _bag_losses.number_objective(bags, self.loss, self._bounds(bags))

    def _bounds(self, bags: RandomBags) -> _labels.Bounds | None:
        return _labels.check_bounds(self.label_bounds) if bags.label_bounds is None else bags.label_bounds

    def _keep(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_ = coef[0]
        self.intercept_ = float(intercept[0])

    def _check_submodel(self) -> None:
        super()._check_submodel()
        if self.submodel == "linear" and self.loss == "easyllp":
            raise ValueError("loss='easyllp' is for networks; use loss='debiased' for submodel='linear'.")

    def _check_bags(self, bags: RandomBags) -> None:
        if bags.classes is not None or bags.label_sums.shape[1] != 1:
            raise ValueError("bags hold class counts; use RandomBagClassifier, or aggregate numbers.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At the default budget and without public bounds, the small sets of the common checks are mostly noise.
        tags.regressor_tags.poor_score = True
        return tags
