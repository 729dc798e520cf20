"""What the encoders by public categories share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from skprivate._sklearn import _fit_context
from skprivate._tables import any_table, code_numbers, refuse_other_kinds
from skprivate.partitions import OverBlocks
from skprivate.preprocessing._categories import check_categories
from skprivate.privacy._errors import Versioned


class PublicEncoder(Versioned, OverBlocks, TransformerMixin, BaseEstimator):
    """Numbers of public categories; `fit` learns nothing."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the input and the categories; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape, and names and types of its columns matter.
        y : None
            Ignored.

        Returns
        -------
        self : estimator
            Itself.
        """
        lists = self._categories(any_table(self, X, reset=True).shape[1])
        refuse_other_kinds(X, dict(enumerate(lists)), entry_types=True)
        return self

    def _codes(self, X: Any) -> Any:
        """Number of the category of each entry; the number of categories for all others."""
        self._validate_params()
        X = any_table(self, X, reset=False)
        lists = self._categories(X.shape[1])
        columns = [code_numbers(X[:, j], categories) for j, categories in enumerate(lists)]
        return np.stack(columns, axis=1)

    def _categories(self, n_columns: int) -> list[list[Any]]:
        return check_categories(self.categories, n_columns, getattr(self, "feature_names_in_", None))

    def _decoded(self, codes: Any) -> Any:
        """Categories by their numbers; None for the rest class."""
        lists = self._categories(codes.shape[1])
        decoded = np.empty(codes.shape, dtype=object)
        for j, categories in enumerate(lists):
            values = [*categories, None]
            decoded[:, j] = [values[min(max(int(code), 0), len(categories))] for code in codes[:, j]]
        return decoded

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags
