"""Base of the classifiers of bags."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from skprivate._validation import label_array
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.tables import _group_tables, _labels
from skprivate.partitions import OverBlocks


class BagClassifierMixin(OverBlocks, ClassifierMixin):
    """Decisions by scores; ``classes_`` is a list for multilabel targets."""

    classes_: Any

    def decision_function(self: Any, X: Any) -> FloatArray:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else one column per class or label
        """
        scores = self._scores(X)
        return np.asarray(scores[:, 0] if self._is_binary() else scores)

    def predict(self, X: Any) -> Any:
        """Predict the most probable class of every row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or the indicator matrix of the labels
        """
        scores = self.decision_function(X)
        if self._is_multilabel():
            return (scores > 0).astype(int)
        best = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return self.classes_[best]

    def _is_multilabel(self) -> bool:
        return isinstance(self.classes_, list)

    def _is_binary(self) -> bool:
        return not self._is_multilabel() and self.classes_.size == 2

    def _read_classes(self, classes: tuple[Any, ...], n_outputs: int) -> None:
        """Take the classes of bags, whose label sums have this number of columns."""
        if _labels.are_labels(classes):
            self.classes_ = [np.array([0, 1])] * n_outputs
            return
        if n_outputs != (1 if len(classes) == 2 else len(classes)):
            raise ValueError(f"bags name {len(classes)} classes but their label sums have {n_outputs} columns.")
        self.classes_ = label_array(_group_tables.check_sum_classes(classes))
