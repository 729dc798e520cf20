"""One column for each public category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import OneHotEncoder

from skprivate._sklearn import StrOptions, _check_feature_names_in
from skprivate.preprocessing._public_encoder import PublicEncoder


class PublicOneHotEncoder(PublicEncoder):
    """One column for each of the given categories, and one for all other values.

    Does what `~sklearn.preprocessing.OneHotEncoder` does, but looks at no data: which categories occur in private
    rows is private, and a column for a rare one says that somebody has it. Leave rare categories out of the list, and
    they share the column of the rest.

    Parameters
    ----------
    categories : sequence of values, sequence of sequences, or mapping {column: sequence}
        Public categories: for all columns, for each in order, or by name or position.
    handle_unknown : {"rest", "ignore"}, default="rest"
        Values that are no category, missing ones included, have a column of their own, or zeros everywhere.
    sparse_output : bool, default=False
        Whether the result is a sparse matrix.

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
    >>> from skprivate.preprocessing import PublicOneHotEncoder
    >>> encoder = PublicOneHotEncoder(categories=["day", "night"])
    >>> encoder.fit_transform([["night"], ["noon"]])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    >>> encoder.get_feature_names_out()
    array(['x0_day', 'x0_night', 'x0_rest'], dtype=object)
    """

    #: For `skprivate.inspection`.
    looks_at_no_data: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "categories": [Mapping, "array-like", None],
        "handle_unknown": [StrOptions({"rest", "ignore"})],
        "sparse_output": ["boolean"],
    }

    def __init__(
        self,
        categories: Mapping[Any, Any] | Sequence[Any] | ArrayLike,
        *,
        handle_unknown: Literal["rest", "ignore"] = "rest",
        sparse_output: bool = False,
    ) -> None:
        self.categories = categories
        self.handle_unknown = handle_unknown
        self.sparse_output = sparse_output

    def transform(self, X: Any) -> NDArray[Any]:
        """Encode each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        X_encoded : ndarray or sparse matrix of shape (n_samples, n_encoded)
            Zeros and ones.
        """
        codes = self._codes(X)
        return self._encoder(codes.shape[1]).transform(codes)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Turn columns back into categories.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_encoded)
            Encoded rows.

        Returns
        -------
        X_original : ndarray of object of shape (n_samples, n_features)
            None where the value was no category.
        """
        codes = self._encoder(self.n_features_in_).inverse_transform(X)
        rest = [len(categories) for categories in self._categories(self.n_features_in_)]
        return self._decoded(np.where(np.equal(codes, None), rest, codes))  # type: ignore[call-overload]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns: of the feature and the category, or "rest".

        Parameters
        ----------
        input_features : array-like of str, optional
            Must be the names seen in `fit`, if given.

        Returns
        -------
        names : ndarray of str
        """
        names = _check_feature_names_in(self, input_features)
        rest = ["rest"] if self.handle_unknown == "rest" else []
        lists = self._categories(len(names))
        return np.array(
            [
                f"{name}_{value}"
                for name, values in zip(names, lists, strict=True)
                for value in [*values, *rest]
            ],
            dtype=object,
        )

    def _encoder(self, n_columns):
        extra = self.handle_unknown == "rest"
        encoder = OneHotEncoder(
            categories=[np.arange(len(values) + extra) for values in self._categories(n_columns)],
            handle_unknown="ignore",
            sparse_output=self.sparse_output,
        )
        return encoder.fit(np.zeros((1, n_columns), dtype=np.int64))
