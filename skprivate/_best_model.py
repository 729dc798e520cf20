"""What meta-estimators that end with one best model share: they predict with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skprivate.partitions import OverBlocks

__all__ = ["BestModelMixin"]


def _best_has(name: str) -> Callable[[Any], bool]:
    """Whether the best model, or before fitting every candidate, has the method."""

    def check(search: Any) -> bool:
        if hasattr(search, "best_estimator_"):
            return hasattr(search.best_estimator_, name)
        return all(hasattr(model, name) for model in search._models())

    return check


class BestModelMixin(OverBlocks):
    """Mixin: methods and tags of ``best_estimator_``; ``_models()`` are the candidates before fitting."""

    best_estimator_: Any

    def _models(self) -> list[Any]:
        raise NotImplementedError

    def _read(self, X: Any) -> Any:
        """Rows as the best model takes them."""
        return X

    @available_if(_best_has("predict"))
    def predict(self, X: Any) -> Any:
        """Predict with the best model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(self._read(X))

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of the best model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(self._read(X))

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Decision function of the best model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(self._read(X))

    @available_if(_best_has("score"))
    def score(self, X: Any, y: Any) -> Any:
        """Score of the best model on other rows, without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        return self.best_estimator_.score(self._read(X), y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        models = self._models()
        if models and hasattr(models[0], "fit"):
            inner = get_tags(models[0])
            tags.estimator_type = inner.estimator_type
            tags.classifier_tags = copy.copy(inner.classifier_tags)
            tags.regressor_tags = copy.copy(inner.regressor_tags)
        tags.target_tags.required = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True
        return tags
