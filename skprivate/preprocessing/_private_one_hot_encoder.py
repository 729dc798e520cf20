"""Indicators of categories that are found privately."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import must_be
from skprivate._sklearn import Interval
from skprivate._validation import any_table, code_numbers, column_label
from skprivate.base import AdjacencyName
from skprivate.partitions import as_partitions
from skprivate.preprocessing import _columns, _private_columns
from skprivate.privacy import PrivacyLedger, draws, identifier_tags


class PrivateOneHotEncoder(_private_columns.PrivateColumns):
    """One column for each frequent value, which is found under differential privacy, one for gaps, one for the rest.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    max_categories : int, default=20
        Most values of a feature that get a column; of more, those with the greatest noisy counts. This makes the number
        of columns public: where fewer are found, columns of zeros follow them.
    delta : float in (0, 1), default=1e-6
        A tenth of it pays for values of a single unit that are found by chance.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one unit's rows exchanged for any others, or one unit more or less.
    <random_state, ledger>

    Attributes
    ----------
    categories_ : list of ndarray
        Values that were found in each feature, sorted.
    threshold_ : int
        Noisy count from which a value is found.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    PublicOneHotEncoder : Takes a public list, at no cost.
    make_private_pipeline : Finds categories within one budget.
    sklearn.preprocessing.OneHotEncoder : Finds the categories, without privacy.

    Notes
    -----
    *Guarantee.* (ε, δ)-differential privacy for one row, or for one user and all rows of that user where ``user_ids``
    are given to `fit`. All columns share one draw of counts with a threshold (docs/theory/noise.md). A unit counts for
    one value of each of the k features, so counts change by √k in ℓ2, √(2k) in an exchange; a user of several values
    counts for one of them, chosen by a hash of user and value. δ pays for k values that nobody else has.

    With few features about 21·√(2k)/ε units find a value; `~skprivate.check_pipeline` says how many. NaN, None,
    pandas.NA and what is no text, bytes, number, boolean, date or time is a gap. Values of one feature are of one kind:
    kinds are part of the public types.

    Examples
    --------
    >>> import pandas as pd
    >>> from skprivate.preprocessing import PrivateOneHotEncoder
    >>> X = pd.DataFrame({"ward": ["east"] * 4000 + ["west"] * 900 + ["roof", None]})
    >>> encoder = PrivateOneHotEncoder(epsilon=1.0, max_categories=2).fit(X)
    >>> encoder.categories_
    [array(['east', 'west'], dtype=object)]
    >>> encoder.get_feature_names_out().tolist()
    ['ward_east', 'ward_west', 'ward_missing', 'ward_rest']
    >>> encoder.transform(X.tail(3))
    array([[0., 1., 0., 0.],
           [0., 0., 0., 1.],
           [0., 0., 1., 0.]])
    """

    _public_width: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: each
            for name, each in _private_columns.PrivateColumns._parameter_constraints.items()
            if name != "bounds"
        },
        "max_categories": [Interval(Integral, 1, None, closed="left")],
    }
    _read = staticmethod(any_table)
    bounds = None  # read by the shared `fit`

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        max_categories: int = 20,
        delta: float = 1e-6,
        adjacency: AdjacencyName = "replace-one",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.max_categories = max_categories
        self.delta = delta
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Encode each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_encoded : ndarray of shape (n_samples, n_features·(max_categories + 2))
            Zeros and ones.
        """
        check_is_fitted(self)
        table = any_table(self, X, reset=False)
        encoded = np.zeros((len(table), self.n_features_in_, self._columns_per_feature))
        rows, behind = np.arange(len(table)), self._columns_per_feature - 2
        for j, found in enumerate(self.categories_):
            codes = code_numbers(table[:, j], [*found, None])
            codes[codes >= len(found)] += behind - len(found)
            encoded[rows, j, codes] = 1.0
        return encoded.reshape(len(table), -1)

    @property
    def _columns_per_feature(self) -> int:
        """Categories, gaps, the rest."""
        return self.max_categories + 2

    @property
    def _columns_of_categories(self) -> list[int]:
        """Sizes of groups of neighbouring columns in which exactly one is 1."""
        return [self._columns_per_feature] * self.n_features_in_

    def _mechanism(self, n_units):
        if self.delta == 0:
            advice = "List the values instead, or allow a δ."
            raise ValueError(must_be("delta", "positive where categories are found", self.delta, advice))
        found = draws.CategoryDiscovery.within(self.n_features_in_, **self._budget())
        found.least_units  # noqa: B018  a δ too small for a threshold is refused before payment
        return found

    def _summarise(self, rows):
        counts = as_partitions(rows).gather(_block_values, draws.merge_values)
        for j, column in enumerate(counts):
            kinds = sorted({kind for kind, _ in column})
            if len(kinds) > 1:
                name, got = column_label(j, self._names), " and ".join(kinds)
                raise TypeError(must_be(f"column {name} of X", "of one kind of values", got, "Convert it."))
        return counts

    def _store(self, released, mechanism):
        self.threshold_ = mechanism.threshold
        self.categories_ = []
        for column in released:
            most = sorted(column, key=column.__getitem__, reverse=True)[: self.max_categories]
            kept = set(most)
            values = np.empty(len(most), dtype=object)
            values[:] = [value for value in column if value in kept]
            self.categories_.append(values)

    def _names_out(self, names):
        found: dict[str, None] = {}
        for name, values in zip(names, self.categories_, strict=True):
            unused = [f"unused{i}" for i in range(self.max_categories - len(values))]
            for value in [*values, *unused, "missing", "rest"]:
                own = f"{name}_{value}"
                while own in found:  # a value that is called like another column
                    own += "_"
                found[own] = None
        return np.array(list(found), dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _block_values(block: _columns.Columns) -> list[dict[Any, int]]:
    """Count the units of the values of a block."""
    columns = [block.table[:, j] for j in range(block.table.shape[1])]
    return draws.count_values(columns, block.units, None if block.units is None else identifier_tags(block.users))
