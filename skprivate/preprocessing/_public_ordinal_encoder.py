"""Numbers of public categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin

from skprivate.preprocessing._columns import by_position
from skprivate.preprocessing._public_encoder import PublicEncoder


class PublicOrdinalEncoder(OneToOneFeatureMixin, PublicEncoder):
    """Replace each value by its position in a given list of categories, and all others by the next number.

    Does what `~sklearn.preprocessing.OrdinalEncoder` does, but looks at no data: which categories occur in private
    rows is private.

    Parameters
    ----------
    categories : sequence of values, sequence of sequences, or mapping {column: sequence}
        Public categories in their order: for all columns, for each in order, or by name or position.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if ``X`` has string names.

    Notes
    -----
    *Guarantee.* Each row is encoded by itself with categories that depend on no row, so a private estimator behind
    this step has the same guarantee for the original rows. This holds if ``categories`` were chosen without looking
    at the data.

    Examples
    --------
    >>> from skprivate.preprocessing import PublicOrdinalEncoder
    >>> PublicOrdinalEncoder(categories=["low", "high"]).fit_transform([["high"], ["low"], ["odd"]])
    array([[1.],
           [0.],
           [2.]])
    """

    #: For `skprivate.inspection`.
    looks_at_no_data: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"categories": [Mapping, "array-like", None]}

    def __init__(self, categories: Mapping[Any, Any] | Sequence[Any] | ArrayLike) -> None:
        self.categories = categories

    def transform(self, X: Any) -> NDArray[Any]:
        """Encode each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        X_encoded : ndarray of shape (n_samples, n_features)
            Positions as floats; the number of categories for values that are none, missing ones included.
        """
        return self._codes(X).astype(np.float64)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Turn positions back into categories.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Encoded rows.

        Returns
        -------
        X_original : ndarray of object of shape (n_samples, n_features)
            None where the value was no category.
        """
        return self._decoded(by_position(self, X, finite=True))
