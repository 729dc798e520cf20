"""Filling in missing values with private medians, means or modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skprivate import _validation
from skprivate._sklearn import StrOptions, _get_output_config
from skprivate.base import AdjacencyName
from skprivate.preprocessing import _columns, _mechanisms, _private_columns, _public_encoders
from skprivate.privacy import PrivacyLedger


class PrivateImputer(_private_columns.PrivateColumns):
    """Replace missing values by a median, mean or mode of their column, released under differential privacy.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    strategy : {"median", "mean", "most_frequent"}, default="median"
        "median" and "mean" are for numbers; "mean" is that of `PrivateStandardScaler`. "most_frequent" is for numbers
        and texts, and chooses among ``categories``.
    categories : sequence of values, sequence of sequences, or mapping {column: sequence}, optional
        Needed by "most_frequent": the public values that a column may be filled with.
    add_indicator : bool, default=False
        Whether to append a column for each feature that is 1 where it was missing.
    <delta, adjacency>
    bounds : mapping {column: (low, high)} or pair (lower, upper), optional
        Public range of every column, for "median" and "mean".
    <random_state, ledger>

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        Fill value of each feature.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    make_private_pipeline : Fills gaps within one budget.
    sklearn.impute.SimpleImputer : Fills in a public constant, at no cost.

    Notes
    -----
    <guarantee> Which values are missing is private, too: no column is left out, however many are.

    NaN, None and pandas.NA are missing. "median" and "mean" refuse infinite numbers; "most_frequent" refuses
    ``categories`` of another kind than the column, text for numbers say: the types of the columns are public.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.preprocessing import PrivateImputer
    >>> X = np.random.default_rng(0).normal(70.0, 5.0, size=(5000, 1))
    >>> X[::10] = np.nan
    >>> imputer = PrivateImputer(epsilon=1.0).fit(X)
    >>> bool(abs(imputer.statistics_[0] - 70) < 1)
    True
    """

    #: The number of columns follows from public numbers.
    _public_width: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_private_columns.PrivateColumns._parameter_constraints,
        "strategy": [StrOptions({"median", "mean", "most_frequent"})],
        "categories": [Mapping, "array-like", None],
        "add_indicator": ["boolean"],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        strategy: Literal["median", "mean", "most_frequent"] = "median",
        categories: Mapping[Any, Any] | Sequence[Any] | ArrayLike | None = None,
        add_indicator: bool = False,
        delta: float = 1e-6,
        adjacency: AdjacencyName = "replace-one",
        bounds: Mapping[Any, Any] | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.strategy = strategy
        self.categories = categories
        self.add_indicator = add_indicator
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def transform(self, X: Any) -> NDArray[Any]:
        """Fill in missing values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_filled : ndarray of shape (n_samples, n_features), or (n_samples, 2·n_features) with ``add_indicator``
            Where `set_output` asks for a data frame, columns that modes fill keep their types, without the indicators.
        """
        check_is_fitted(self)
        table = self._read(self, X, reset=False)
        missing = _validation.missing_mask(table)
        filled = table.astype(object if self.strategy == "most_frequent" else np.float64)  # a copy
        for j in range(table.shape[1]):
            filled[missing[:, j], j] = self.statistics_[j]
        library = _get_output_config("transform", self)["dense"]
        if filled.dtype == object and library == type(X).__module__.partition(".")[0] and not self.add_indicator:
            with suppress(Exception):  # the type may lack the value, such as a list of categories
                return _validation.filled_frame(X, self.statistics_.tolist())
        return np.hstack([filled, missing.astype(filled.dtype)]) if self.add_indicator else filled

    def _names_out(self, names):
        if not self.add_indicator:
            return names
        return np.concatenate([names, [f"missingindicator_{name}" for name in names]]).astype(object)

    @property
    def _read(self):
        return _validation.any_table if self.strategy == "most_frequent" else _columns.numeric_table

    def _categories(self):
        lists = _public_encoders.check_categories(self.categories, self.n_features_in_, self._names)
        if any(_validation.plain_entry(value) is None for values in lists for value in values):
            raise ValueError("categories must not be missing themselves: they are what gaps are filled with.")
        return lists

    def _check_types(self, X, *, entry_types):
        if self.strategy == "most_frequent":
            listed = dict(enumerate(self._categories()))
            _validation.refuse_other_kinds(X, listed, entry_types=entry_types)
            self._listed = _validation.in_own_type(X, listed)

    def _mechanism(self, n_units):
        common = {"n_columns": self.n_features_in_, **self._budget()}
        if self.strategy == "most_frequent":
            return _mechanisms.ColumnModes(**common, categories=tuple(map(tuple, self._listed.values())))
        if self.strategy == "mean":
            return _mechanisms.ColumnMoments(**common, n_units=n_units, bounds=self._checked_bounds())
        return _mechanisms.ColumnMedians(**common, bounds=self._checked_bounds(partly=True))

    def _store(self, released, mechanism):
        if self.strategy == "most_frequent":
            self.statistics_ = np.empty(self.n_features_in_, dtype=object)
            self.statistics_[:] = released
        else:
            self.statistics_ = released.means if self.strategy == "mean" else np.array(released)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = self.strategy == "most_frequent"
        return tags
