"""Encoders by public categories and rules: indicators, codes, numbers of dates and booleans."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import OneHotEncoder

from skprivate import _validation
from skprivate._sklearn import StrOptions, _check_feature_names_in, _fit_context
from skprivate.partitions import OverBlocks
from skprivate.preprocessing._columns import finite_or_missing
from skprivate.privacy import Versioned

_DAY, _DAYS_OF_YEAR = datetime.timedelta(1), 365.2425
#: Points of the week, year and day on the circle. Looked up: vectorised sines may round a row by its place.
_WEEK, _YEAR, _DAY_BY_MINUTES = (
    np.array([[math.sin(2 * math.pi * k / n), math.cos(2 * math.pi * k / n)] for k in range(math.ceil(n))])
    for n in (7, _DAYS_OF_YEAR, 1440)
)
_DAY_BY_MINUTES -= _DAY_BY_MINUTES[0]


def check_categories(categories: Any, n_columns: int, names: Any) -> list[list[Any]]:
    """List the categories of every column; they are given for all columns, in order, or by name or position."""
    if categories is None:
        raise ValueError(
            "categories must be given: the values that occur in private columns are private themselves. Pass a "
            "list of values for all columns, one list for each column, or a mapping from columns to lists."
        )
    known = [str(j) for j in range(n_columns)] if names is None else [str(name) for name in names]
    if isinstance(categories, Mapping):
        strange = [key for key in categories if str(key) not in known and key not in range(n_columns)]
        if strange:
            raise ValueError(f"categories has the column {strange[0]!r}, which X does not have.")
        lists = []
        for j, name in enumerate(known):
            key = next((key for key in categories if str(key) == name or (names is None and key == j)), None)
            if key is None:
                raise ValueError(f"categories must have an entry for every column, got none for {name!r}.")
            lists.append(categories[key])
    else:
        entries = list(categories)
        nested = bool(entries) and all(_validation.public_values(entry) is not None for entry in entries)
        lists = entries if nested else [categories] * n_columns
        if len(lists) != n_columns:
            raise ValueError(f"categories must have one list for each of the {n_columns} columns, got {len(lists)}.")
    result = [_validation.public_values(entry) or [] for entry in lists]
    for name, given, entry in zip(known, lists, result, strict=True):
        if not entry:
            raise ValueError(
                f"categories of column {name} must be a list of at least one value, got {type(given).__name__}. "
                "Write list(...) for what has no order."
            )
        if not _validation.all_differ(entry):
            raise ValueError(f"categories of column {name} must differ from each other, got {entry!r}.")
    return result


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
        n_columns = _validation.any_table(self, X, reset=True).shape[1]
        if isinstance(self.categories, str):
            self.declared_ = _validation.declared_values(X)
            if without := [j for j, values in enumerate(self.declared_) if values is None]:
                named = _validation.columns_in_words(X, without)
                raise TypeError(f"categories must be listed for {named} of X, whose type declares none.")
        lists = self._categories(n_columns)
        _validation.refuse_other_kinds(X, dict(enumerate(lists)), entry_types=True)
        return self

    def _codes(self, X: Any) -> Any:
        """Number the category of each entry; all others get the number of categories."""
        self._validate_params()
        table = _validation.any_table(self, X, reset=False)
        lists = _validation.in_own_type(X, dict(enumerate(self._categories(table.shape[1]))))
        columns = [_validation.code_numbers(table[:, j], categories) for j, categories in lists.items()]
        return np.stack(columns, axis=1)

    def _categories(self, n_columns: int) -> list[list[Any]]:
        lists = self.declared_ if isinstance(self.categories, str) else self.categories
        return check_categories(lists, n_columns, getattr(self, "feature_names_in_", None))

    @property
    def _assumptions(self) -> tuple[str, ...]:
        text = "the categories that types of columns declare are public, not found in private rows"
        return (text,) if isinstance(self.categories, str) else ()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = isinstance(self.categories, str)
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


class PublicOneHotEncoder(PublicEncoder):
    """One column for each of the given categories, and one for all other values.

    Looks at no data: which categories occur in private rows is private, and a column for a rare one reveals that
    somebody has it. Rare categories that are not listed share the column of the rest.

    Parameters
    ----------
    categories : sequence of values, sequence of sequences, mapping {column: sequence} or "declared"
        Public categories: for all columns, for each in order, or by name or position. "declared": those that the types
        of the columns declare (booleans, categories of pandas, enumerations of polars), which must be public.
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

    See Also
    --------
    PublicOrdinalEncoder : Makes one column of numbers.
    sklearn.preprocessing.OneHotEncoder : Finds the categories, without privacy.

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
        "categories": [StrOptions({"declared"}), Mapping, "array-like", None],
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

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
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
        lists = [list(map(str, values)) for values in self._categories(len(names))]
        if self.handle_unknown == "rest":
            lists = [[*values, "unlisted" if "rest" in values else "rest"] for values in lists]
        found = [f"{name}_{value}" for name, values in zip(names, lists, strict=True) for value in values]
        return np.array(found, dtype=object)

    @property
    def _columns_of_categories(self) -> list[int]:
        """Sizes of groups of neighbouring columns in which exactly one is 1."""
        lists = self._categories(self.n_features_in_) if self.handle_unknown == "rest" else []
        return [len(values) + 1 for values in lists]

    def _encoder(self, n_columns):
        extra = self.handle_unknown == "rest"
        encoder = OneHotEncoder(
            categories=[np.arange(len(values) + extra) for values in self._categories(n_columns)],
            handle_unknown="ignore",
            sparse_output=self.sparse_output,
        )
        return encoder.fit(np.zeros((1, n_columns), dtype=np.int64))


class PublicOrdinalEncoder(OneToOneFeatureMixin, PublicEncoder):
    """Replace each value by its position in a given list of categories, and all others by the next number.

    Looks at no data: which categories occur in private rows is private.

    Parameters
    ----------
    categories : sequence of values, sequence of sequences, mapping {column: sequence} or "declared"
        Public categories in their order: for all columns, for each in order, or by name or position. "declared": those
        that the types of the columns declare, which must be public.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if ``X`` has string names.

    See Also
    --------
    PublicOneHotEncoder : Makes a column for each category.
    sklearn.preprocessing.OrdinalEncoder : Finds the categories, without privacy.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "categories": [StrOptions({"declared"}), Mapping, "array-like", None]
    }

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


class PublicNumbers(Versioned, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Floats, NaN where missing: dates become days since the year 2000, booleans 0 and 1.

    ``limits``, of columns by position, are what is public about them for the model of a pipeline; nothing is clipped.
    """

    looks_at_no_data: ClassVar[bool] = True
    limits: Mapping[int, tuple[float, float] | None] | None = None  # of earlier pickles

    def __init__(self, limits: Mapping[int, tuple[float, float] | None] | None = None) -> None:
        self.limits = limits

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check types; nothing is learned."""
        self._days(X, reset=True)
        self._skprivate_declared = {"limits": self.limits}
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        return finite_or_missing(self, self._days(X, reset=False))

    def _days(self, X: Any, *, reset: bool) -> NDArray[Any]:
        if _validation.is_frame(X):
            _validation.validate_data(self, X, skip_check_array=True, reset=reset)
            columns = _validation.frame_columns(X)
        else:
            table = _validation.any_table(self, X, reset=reset)
            columns = [table[:, j] for j in range(table.shape[1])]
        numbers = [_numbers(column) for column in columns]
        other = [j for j, column in enumerate(numbers) if column is None]
        if other:
            raise TypeError(
                f"{_validation.columns_in_words(X, other)} of X must hold numbers or dates, got text or a mixture. "
                'Convert them, list their values, or leave them out ("drop").'
            )
        return np.column_stack(numbers)  # type: ignore[arg-type]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags


class PublicCalendar(PublicNumbers):
    """Places of dates in the week, in the year and in the day, each a point of a circle; (0, 0) where missing.

    The circle of the day goes through (0, 0) at midnight: dates without times have nothing there.
    """

    looks_at_no_data: ClassVar[bool] = True
    #: For `check_pipeline`.
    _makes: ClassVar[str] = (
        "dates are days since 2000-01-01, and places in the week, the year and the day; in UTC where they have a zone"
    )

    def transform(self, X: Any) -> NDArray[Any]:
        days = self._days(X, reset=False)
        missing = ~np.isfinite(days)
        days = np.where(missing, 0.0, days)
        times, days = days - np.floor(days), np.floor(days)
        minute = _DAY_BY_MINUTES[np.mod(np.rint(1440 * times), 1440).astype(np.int64)]
        week = _WEEK[np.mod(days, 7).astype(np.int64)]
        year = _YEAR[np.mod(days, _DAYS_OF_YEAR).astype(np.int64)]
        points = np.concatenate([week, year, minute], axis=2)
        points[missing] = 0.0
        return points.reshape(len(days), -1)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        names = _check_feature_names_in(self, input_features)
        places = [f"{cycle}_{axis}" for cycle in ("week", "year", "day") for axis in ("sin", "cos")]
        return np.array([f"{name}_{place}" for name in names for place in places], dtype=object)


def _numbers(column: NDArray[Any]) -> NDArray[np.float64] | None:
    """Convert a column as `entries` makes it; None if something in it is neither a number nor a date."""
    if column.dtype.kind in "biuf" and column.dtype.itemsize <= 8:
        return column.astype(np.float64)
    if column.dtype.kind not in "fO":
        return None
    try:
        return np.array(
            [_validation.as_number(value, datetime.timedelta(1)) for value in column.tolist()], dtype=np.float64
        )
    except TypeError:
        return None
