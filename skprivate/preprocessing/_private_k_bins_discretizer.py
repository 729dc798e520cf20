"""Binning with private edges."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import Interval, StrOptions
from skprivate._validation import column_label
from skprivate.base import AdjacencyName
from skprivate.preprocessing import _columns, _mechanisms, _private_columns
from skprivate.privacy import PrivacyLedger, draws


class PrivateKBinsDiscretizer(_private_columns.PrivateColumns):
    """Cut features into bins that hold about equally many units, with edges released under differential privacy.

    No range of the data has to be known.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    n_bins : int or array-like of shape (n_features,), default=5
        2 to 1024. The cost grows with the logarithm only.
    encode : {"onehot", "onehot-dense", "ordinal"}, default="onehot-dense"
        A sparse or dense column for each bin, or the number of the bin.
    <delta, adjacency>
    bounds : mapping {column: (low, high)} or pair (lower, upper), optional
        Public range of every column, not taken from the data: makes the search shorter, and is the outermost edges.
    <random_state, ledger>

    Attributes
    ----------
    bin_edges_ : list of ndarray of shape (n_bins_[j] + 1,)
        Increasing. Numbers beyond the outer edges belong to the outer bins.
    n_bins_ : ndarray of shape (n_features,)
        Bins of each feature: fewer than asked for where released quantiles coincide (zero-inflated columns).
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    PrivateSplineTransformer : Makes curves instead of steps.
    sklearn.preprocessing.KBinsDiscretizer : Cuts between public bounds, at no cost.

    Notes
    -----
    <guarantee>

    Missing values contribute nothing to `fit`. In `transform` they belong to no bin: zeros in all columns of the
    feature, or NaN with ``encode="ordinal"``.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.preprocessing import PrivateKBinsDiscretizer
    >>> X = np.random.default_rng(0).lognormal(5.0, 2.0, size=(10_000, 1))
    >>> bins = PrivateKBinsDiscretizer(n_bins=4, encode="ordinal").fit_transform(X)
    >>> shares = np.bincount(bins[:, 0].astype(int)) / 10_000
    >>> bool(np.abs(shares - 0.25).max() < 0.03)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_private_columns.PrivateColumns._parameter_constraints,
        "n_bins": [Interval(Integral, 2, draws.MOST_BINS, closed="both"), "array-like"],
        "encode": [StrOptions({"onehot", "onehot-dense", "ordinal"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_bins: ArrayLike = 5,
        encode: Literal["onehot", "onehot-dense", "ordinal"] = "onehot-dense",
        delta: float = 1e-6,
        adjacency: AdjacencyName = "replace-one",
        bounds: Mapping[Any, Any] | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_bins = n_bins
        self.encode = encode
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def _mechanism(self, n_units):
        n_bins = self._bins_per_column(self.n_features_in_)
        return _mechanisms.ColumnQuantiles(n_bins=n_bins, bounds=self._checked_bounds(partly=True), **self._budget())

    def _store(self, released, mechanism):
        self.bin_edges_ = [np.unique(edges) for edges in mechanism.with_ends(released)]
        self.n_bins_ = np.array([len(edges) - 1 for edges in self.bin_edges_])

    def transform(self, X: Any) -> NDArray[Any]:
        """Put every number into its bin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_binned : ndarray or sparse matrix
            Of shape (n_samples, n_features) with ``encode="ordinal"``, else (n_samples, sum of ``n_bins_``).
        """
        check_is_fitted(self)
        table = _columns.numeric_table(self, X, reset=False)
        bins = np.full(table.shape, np.nan)
        for j, edges in enumerate(self.bin_edges_):
            present = ~np.isnan(table[:, j])
            bins[present, j] = np.searchsorted(edges[1:-1], table[present, j], side="right")
        return bins if self.encode == "ordinal" else self._encoder().transform(bins)

    def _names_out(self, names):
        return names if self.encode == "ordinal" else self._encoder().get_feature_names_out(names)

    @property
    def _public_width(self):
        """Bins that coincide are merged, so that released edges decide how many columns a one-hot code has."""
        return self.encode == "ordinal"

    def _encoder(self):
        encoder = OneHotEncoder(
            categories=[np.arange(n, dtype=np.float64) for n in self.n_bins_],
            handle_unknown="ignore",  # NaN
            sparse_output=self.encode == "onehot",
        )
        return encoder.fit(np.zeros((1, len(self.n_bins_))))

    def _bins_per_column(self, n_columns):
        numbers = np.asarray(self.n_bins)
        if numbers.shape not in ((), (n_columns,)):
            raise ValueError(
                f"n_bins must be a number or one for each of the {n_columns} features, got shape {numbers.shape}."
            )
        numbers = np.broadcast_to(numbers, n_columns)
        for j, number in enumerate(numbers.tolist()):
            if not (isinstance(number, int) and 2 <= number <= draws.MOST_BINS):
                raise ValueError(
                    f"n_bins must hold integers from 2 to {draws.MOST_BINS}, got {number!r} for column "
                    f"{column_label(j, self._names)}."
                )
        return tuple(numbers.tolist())
