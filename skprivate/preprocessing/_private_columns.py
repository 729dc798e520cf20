"""One `fit` for all transformers with private constants."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import warn_if_too_few
from skprivate._sklearn import Interval, StrOptions, _check_feature_names_in, _fit_context
from skprivate._validation import TakesSparse, check_bounds
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.preprocessing._columns import numeric_table, public_count, read_columns
from skprivate.privacy import Adjacency


class PrivateColumns(PrivateEstimatorMixin, TakesSparse, TransformerMixin, BaseEstimator):
    """Release constants of every column; a subclass makes the mechanism and stores what it returns."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        # 0 is pure privacy.
        "delta": [Interval(Real, 0, 1, closed="left")],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "bounds": [Mapping, "array-like", None],
    }
    _shared_docs: ClassVar[dict[str, str]] = {
        **PrivateEstimatorMixin._shared_docs,
        "<delta, adjacency>": """delta : float in [0, 1), default=1e-6
        0 for pure privacy. With few columns pure noise is the better one, and δ = 0 is what is spent.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one unit's rows exchanged for any others, or one unit more or less.""",
        "<guarantee>": """*Guarantee.* (ε, δ)-differential privacy for one row, or for one user and all rows of that
    user where ``user_ids`` are given to `fit`; then every user has the same weight, spread over the user's own rows.
    Derivation in docs/guide/preprocessing.md.""",
    }
    #: Validates a table.
    _read: Any = staticmethod(numeric_table)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> Self:
        """Release what `transform` needs of every column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows in blocks
            NaN, None and pandas.NA are missing. In blocks: a Dask array or DataFrame, a pyarrow dataset, or
            `skprivate.partitions.Blocks`.
        y : None
            Ignored.
        user_ids : array-like of shape (n_samples,), optional
            User of each row; the unit of privacy is then the user, otherwise the row. Only for tables in memory.

        Returns
        -------
        self : object
        """
        rows = read_columns(self, X, user_ids, self._read, self._check_types)
        n_units, unit = public_count(rows, self.adjacency), "row" if user_ids is None else "user"
        mechanism, data = self._mechanism(n_units), self._summarise(rows)
        public = {
            f"the number of {unit}s is public": n_units,
            "bounds are public": self.bounds,
            "categories are public": getattr(self, "categories", None),
        }
        with self._releasing(
            mechanism,
            unit=unit,
            adjacency=self.adjacency,
            assumptions=tuple(text for text, given in public.items() if given is not None),
            n_units=n_units,
        ) as release:
            released = mechanism.run(data, release)
        self._warn(mechanism, n_units, unit)
        self._store(released, mechanism)
        return self

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Must be the names seen in `fit`, if given.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "n_features_in_")
        return self._names_out(_check_feature_names_in(self, input_features))

    def _mechanism(self, n_units):
        """Make the mechanism from public numbers; ``n_units`` is None if it is private."""
        raise NotImplementedError

    def _summarise(self, rows):
        """Read what the mechanism takes, before it is paid for."""
        return rows

    def _store(self, released, mechanism):
        """Set the fitted attributes from released numbers."""
        raise NotImplementedError

    def _names_out(self, names):
        return names

    def _check_types(self, X, *, entry_types):
        """Refuse parameters that do not fit the public types of the columns."""

    def _warn(self, mechanism, n_units, unit):
        # Selections of medians and quantiles need as many units with bounds.
        helps = getattr(mechanism, "bounds_help", False)
        warn_if_too_few(
            n_units, mechanism.least_units, unit, type(self).__name__, self.n_features_in_, bounds_help=helps
        )

    def _budget(self):
        return {"epsilon": float(self.epsilon), "delta": float(self.delta), "adjacency": Adjacency(self.adjacency)}

    def _checked_bounds(self, *, partly=False):
        return check_bounds(self.bounds, self.n_features_in_, self._names, partly=partly)

    @property
    def _names(self):
        return getattr(self, "feature_names_in_", None)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
