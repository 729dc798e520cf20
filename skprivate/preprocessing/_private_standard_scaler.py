"""Scaling to about mean 0 and variance 1 with privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skprivate.base import AdjacencyName
from skprivate.preprocessing import _columns, _mechanisms, _private_columns
from skprivate.privacy import PrivacyLedger


class PrivateStandardScaler(OneToOneFeatureMixin, _private_columns.PrivateColumns):
    """Scale features to about mean 0 and variance 1, with constants released under differential privacy.

    No range has to be known: a median and a typical distance from it are found privately for every column. For the fit
    (not in `transform`) numbers are clipped at twice that distance; mean and variance come from noisy sums.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    <delta, adjacency>
    bounds : mapping {column: (low, high)} or pair (lower, upper), optional
        Public range of every column, not taken from the data: the whole budget goes to the sums then. Numbers outside
        count as the bounds.
    with_mean, with_std : bool, default=True
        Whether to centre and to scale.
    <random_state, ledger>

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Clipped means with noise. With ``user_ids``, means of the users' means.
    var_ : ndarray of shape (n_features,)
        Clipped variances with noise, the square of ``scale_``.
    scale_ : ndarray of shape (n_features,)
        Divisors of the features; greater than 0. 1.0 for a column in which hardly any number differs from 0.
    n_units_ : ndarray of shape (n_features,)
        Number of units that have a value, with noise.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    PublicScaler : Scales by public constants, at no cost.
    PrivateQuantileTransformer : Suits heavy tails.
    sklearn.preprocessing.StandardScaler : Fits without privacy.

    Notes
    -----
    *Guarantee.* (ε, δ)-differential privacy for one row, or for one user and all rows of that user where ``user_ids``
    are given to `fit`; a user counts once, however many rows. Derivation in docs/guide/preprocessing.md. What is
    transformed remains private data; it must go into a private estimator.

    Missing values (NaN, None, pandas.NA) contribute nothing to their column and stay NaN in `transform`.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.preprocessing import PrivateStandardScaler
    >>> X = np.random.default_rng(0).normal([1e6, -3.0], [2e4, 0.1], size=(10_000, 2))
    >>> scaler = PrivateStandardScaler(epsilon=1.0).fit(X)
    >>> Z = scaler.transform(X)
    >>> bool(np.abs(Z.mean(axis=0)).max() < 0.2), bool(np.abs(Z.std(axis=0) - 1).max() < 0.2)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_private_columns.PrivateColumns._parameter_constraints,
        "with_mean": ["boolean"],
        "with_std": ["boolean"],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        adjacency: AdjacencyName = "replace-one",
        bounds: Mapping[Any, Any] | ArrayLike | None = None,
        with_mean: bool = True,
        with_std: bool = True,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.with_mean = with_mean
        self.with_std = with_std
        self.random_state = random_state
        self.ledger = ledger

    def _mechanism(self, n_units):
        return _mechanisms.ColumnMoments(
            n_columns=self.n_features_in_, n_units=n_units, bounds=self._checked_bounds(), **self._budget()
        )

    def _store(self, released, mechanism):
        self.mean_ = released.means
        self.scale_ = released.scales
        self.var_ = released.scales**2
        self.n_units_ = released.counts

    def transform(self, X: Any) -> NDArray[Any]:
        """Subtract the means and divide by the scales.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_scaled : ndarray of shape (n_samples, n_features)
            NaN where missing. A number that overflows is the largest one, of its sign.
        """
        check_is_fitted(self)
        table = _columns.numeric_table(self, X, reset=False).copy()
        with np.errstate(over="ignore"):  # a warning would reveal somebody's overflow
            if self.with_mean:
                table -= self.mean_
            if self.with_std:
                table /= self.scale_
        return _columns.clip_overflow(table)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Undo `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Scaled rows.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        table = _columns.by_position(self, X).copy()
        if self.with_std:
            table *= self.scale_
        if self.with_mean:
            table += self.mean_
        return table
