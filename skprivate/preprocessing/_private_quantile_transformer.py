"""Mapping to a uniform or normal distribution by private quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import Interval, StrOptions
from skprivate.base import AdjacencyName
from skprivate.preprocessing import _columns, _mechanisms, _private_columns
from skprivate.privacy import PrivacyLedger, draws


class PrivateQuantileTransformer(OneToOneFeatureMixin, _private_columns.PrivateColumns):
    """Map every feature to a uniform or normal distribution, by quantiles released under differential privacy.

    The map is monotone, suits skewed or heavy tails, and has a known range: [0, 1], or ±2.4 at the default number of
    quantiles. No range of the data has to be known.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    n_quantiles : int, default=33
        Landmarks of the map, 3 to 1025: ``n_quantiles - 2`` quantiles are released, the outermost two are
        extrapolated. The cost grows with the logarithm of their number only.
    output_distribution : {"uniform", "normal"}, default="uniform"
        What a column is mapped to: numbers from 0 to 1, or standard normal ones.
    <delta, adjacency>
    bounds : mapping {column: (low, high)} or pair (lower, upper), optional
        Public range of every column, not taken from the data: makes the search shorter, and is the outermost
        landmarks. Numbers outside count as the bounds. A mapping
        may have None for a column of unknown range.
    <random_state, ledger>

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        Landmarks, not decreasing down the columns.
    references_ : ndarray of shape (n_quantiles,)
        Their levels, from 0 to 1.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    PrivateStandardScaler : Scales linearly; better where units are few.
    sklearn.preprocessing.QuantileTransformer : Fits without privacy.

    Notes
    -----
    <guarantee>

    Missing values (NaN, None, pandas.NA) contribute nothing to their column and stay NaN in `transform`.

    References
    ----------
    H. Kaplan, S. Schnapp, U. Stemmer: Differentially private approximate quantiles. ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.preprocessing import PrivateQuantileTransformer
    >>> X = np.random.default_rng(0).lognormal(5.0, 2.0, size=(10_000, 1))
    >>> U = PrivateQuantileTransformer(epsilon=1.0).fit_transform(X)
    >>> bool(np.abs(np.quantile(U, [0.25, 0.5, 0.75]) - [0.25, 0.5, 0.75]).max() < 0.02)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_private_columns.PrivateColumns._parameter_constraints,
        "n_quantiles": [Interval(Integral, 3, draws.MOST_BINS + 1, closed="both")],
        "output_distribution": [StrOptions({"uniform", "normal"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_quantiles: int = 33,
        output_distribution: Literal["uniform", "normal"] = "uniform",
        delta: float = 1e-6,
        adjacency: AdjacencyName = "replace-one",
        bounds: Mapping[Any, Any] | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_quantiles = n_quantiles
        self.output_distribution = output_distribution
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def _mechanism(self, n_units):
        n_bins = (int(self.n_quantiles) - 1,) * self.n_features_in_
        return _mechanisms.ColumnQuantiles(n_bins=n_bins, bounds=self._checked_bounds(partly=True), **self._budget())

    def _store(self, released, mechanism):
        self.quantiles_ = np.column_stack(mechanism.with_ends(released))
        self.references_ = np.linspace(0.0, 1.0, self.n_quantiles)

    def transform(self, X: Any) -> NDArray[Any]:
        """Map every number to its level.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_mapped : ndarray of shape (n_samples, n_features)
            In [0, 1], or normal quantiles of it; NaN where missing.
        """
        check_is_fitted(self)
        table = _columns.numeric_table(self, X, reset=False)
        mapped = np.empty_like(table)
        levels = self.references_
        for j in range(table.shape[1]):
            landmarks, values = self.quantiles_[:, j], table[:, j]
            mapped[:, j] = np.interp(values, landmarks, levels)
            for shared in np.unique(landmarks[1:][np.diff(landmarks) == 0]):
                mapped[values == shared, j] = levels[landmarks == shared].mean()  # the middle of their levels
        if self.output_distribution == "uniform":
            return mapped
        # A quarter of a bin: beyond the outermost released quantiles numbers are not distinguished.
        end = 0.25 / (len(levels) - 1)
        return ndtri(np.clip(mapped, end, 1.0 - end))

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Undo `transform` between the outermost landmarks.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Mapped rows.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        table = _columns.by_position(self, X)
        levels = ndtr(table) if self.output_distribution == "normal" else table
        return np.column_stack(
            [np.interp(levels[:, j], self.references_, self.quantiles_[:, j]) for j in range(table.shape[1])]
        )
