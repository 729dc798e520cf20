"""Numbers from columns of any type, by public rules."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from skprivate import _validation
from skprivate._sklearn import _check_feature_names_in
from skprivate.preprocessing._columns import finite_or_missing
from skprivate.privacy import Versioned

_DAY, _DAYS_OF_YEAR = datetime.timedelta(1), 365.2425
#: Points of the week, year and day on the circle. Looked up: vectorised sines may round a row by its place.
_WEEK, _YEAR, _DAY_BY_MINUTES = (
    np.array([[math.sin(2 * math.pi * k / n), math.cos(2 * math.pi * k / n)] for k in range(math.ceil(n))])
    for n in (7, _DAYS_OF_YEAR, 1440)
)
_DAY_BY_MINUTES -= _DAY_BY_MINUTES[0]


class PublicNumbers(Versioned, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Floats, NaN where missing: dates become days since the year 2000, booleans 0 and 1.

    ``limits``, of columns by position, are what is public about them for the model of a pipeline; nothing is clipped.
    """

    looks_at_no_data: ClassVar[bool] = True

    def __init__(self, limits: Mapping[int, tuple[float, float] | None] | None = None) -> None:
        self.limits = limits

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check types; nothing is learned."""
        self._days(X, reset=True)
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
