"""The simplest membership attack: members have a smaller loss."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import _fit_context
from skprivate.audit._membership import MembershipAttack
from skprivate.audit._signals import has_classes, residuals, true_label_probability


class LossThresholdAttack(MembershipAttack):
    """Membership by the target's own loss (Yeom et al. 2018): no reference models.

    The score is the probability of the true label (a monotone function of the log loss) for a classifier and
    minus the squared residual for a regressor.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where they came with names that are strings.
    is_fitted_ : bool
        True; there is nothing to learn.

    References
    ----------
    Yeom, Giacomelli, Fredrikson, Jha, "Privacy risk in machine learning: analyzing the connection to
    overfitting", 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skprivate.audit import LossThresholdAttack
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> member = [i % 2 == 0 for i in range(len(y))]
    >>> model = DecisionTreeClassifier(random_state=0).fit(X[member], y[member])
    >>> LossThresholdAttack().fit(X, y).evaluate(model, X, y, member).auc > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Check the pool; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        self : LossThresholdAttack
        """
        self._validate_pool(X, y, reset=True)
        self.is_fitted_ = True
        return self

    def membership_scores(self, model: Any, X: Any, y: Any) -> NDArray[np.float64]:
        """Score each record against a fitted target model; larger means more likely a member.

        Parameters
        ----------
        model : fitted classifier or regressor, or array-like of shape (n, n_classes)
            The target, or its class probabilities at these records, columns in the order of the classes.
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        X, y = self._validate_pool(X, y, reset=False)
        if has_classes(model):
            return true_label_probability(model, X, y)
        return -np.square(residuals(model, X, y))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The attack hands X to the target unseen: what the target takes, the attack takes.
        tags.input_tags.sparse = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags
