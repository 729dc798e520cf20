"""Scaling by constants that were known before the data."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from skprivate._sklearn import Interval, _fit_context
from skprivate._validation import check_bounds, in_order, validate_data
from skprivate.partitions import OverBlocks
from skprivate.preprocessing._columns import by_position, clip_overflow
from skprivate.privacy import Versioned


class PublicScaler(Versioned, OverBlocks, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Shift and scale features by public constants: ``(X - center) / scale``.

    Looks at no data: a mean or a maximum taken from private rows would be a release without noise. Where
    limits are known rather than a typical scale, `from_bounds` makes the scaler that maps them to -1 and 1.

    Parameters
    ----------
    center : float, array-like of shape (n_features,) or mapping {column: float}, default=0.0
        What becomes 0: one number for all features, one for each in order, or one for each by name or position.
    scale : float, array-like of shape (n_features,) or mapping {column: float}, default=1.0
        What becomes 1; greater than 0.
    clip : bool, default=False
        Whether to clip the result to [-1, 1].

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if ``X`` has string names.

    See Also
    --------
    PrivateStandardScaler : Finds the constants privately.
    load_flights : Has public limits in ``feature_bounds``.
    sklearn.preprocessing.StandardScaler : Fits the constants, without privacy.

    Notes
    -----
    *Guarantee.* Each row is transformed by itself with constants that depend on no row, so a
    private estimator behind this step has the same guarantee for the original rows. This holds if
    ``center`` and ``scale`` were chosen without looking at the data.

    Examples
    --------
    >>> from skprivate.preprocessing import PublicScaler
    >>> PublicScaler.from_bounds([0, -60], [24, 60]).fit_transform([[6.0, 0.0], [24.0, 90.0]])
    array([[-0.5,  0. ],
           [ 1. ,  1. ]])

    By column, which is by name where the table has names:

    >>> PublicScaler.from_bounds({1: (-60, 60), 0: (0, 24)}).fit_transform([[6.0, 0.0]])
    array([[-0.5,  0. ]])
    """

    #: For `skprivate.inspection`.
    looks_at_no_data: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "center": [Real, Mapping, "array-like"],
        "scale": [Interval(Real, 0, None, closed="neither"), Mapping, "array-like"],
        "clip": ["boolean"],
    }

    def __init__(
        self,
        *,
        center: Mapping[Any, Any] | ArrayLike = 0.0,
        scale: Mapping[Any, Any] | ArrayLike = 1.0,
        clip: bool = False,
    ) -> None:
        self.center = center
        self.scale = scale
        self.clip = clip

    @classmethod
    def from_bounds(cls, lower: object, upper: object = None, *, clip: bool = True) -> Self:
        """Make the scaler that maps public limits to -1 and 1.

        Parameters
        ----------
        lower, upper : float or array-like of shape (n_features,)
            Limits of each feature, ``lower < upper``; or one mapping {column: (low, high)} alone.
        clip : bool, default=True
            Whether values outside the limits are clipped to them.

        Returns
        -------
        scaler : PublicScaler
            With ``center`` and ``scale`` halfway and half the width.
        """
        if upper is None:
            if not isinstance(lower, Mapping):
                raise ValueError(
                    f"from_bounds needs lower and upper as two arguments, such as from_bounds(0, 1), or one mapping "
                    f"{{column: (low, high)}}, got {lower!r} alone."
                )
            one_by_one = {
                name: cls.from_bounds(*check_bounds({0: pair}, 1, [name], parameter="limits")[0])
                for name, pair in lower.items()
            }
            center, scale = (
                {name: float(getattr(scaler, constant)) for name, scaler in one_by_one.items()}
                for constant in ("center", "scale")
            )
            return cls(center=center, scale=scale, clip=clip)
        lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)) and np.all(lower < upper)):
            raise ValueError(f"lower and upper must be finite with lower < upper, got {lower} and {upper}.")
        # Halved before they are added: limits near the largest float must not overflow.
        return cls(center=lower / 2 + upper / 2, scale=upper / 2 - lower / 2, clip=clip)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the input and the constants; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape and feature names matter.
        y : None
            Ignored.

        Returns
        -------
        self : PublicScaler
            Itself.
        """
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        self._constants(X.shape[1])
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Shift and scale each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        X_scaled : ndarray of shape (n_samples, n_features)
            ``(X - center) / scale``, clipped to [-1, 1] if ``clip``. A number that overflows is the largest one, of
            its sign.
        """
        self._validate_params()
        with np.errstate(all="ignore"):  # a warning here would reveal something about a row
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
            center, scale = self._constants(X.shape[1])
            X_scaled = (X - center) / scale
        return np.clip(X_scaled, -1.0, 1.0, out=X_scaled) if self.clip else clip_overflow(X_scaled)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Undo `transform`, except for what was clipped.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Scaled rows.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            ``X * scale + center``.
        """
        self._validate_params()
        X = by_position(self, X)
        center, scale = self._constants(X.shape[1])
        return X * scale + center

    def _constants(self, n_features):
        constants = {}
        for name in ("center", "scale"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                value = in_order(value, n_features, getattr(self, "feature_names_in_", None), parameter=name)
            value = np.asarray(value, dtype=np.float64)
            if value.shape not in ((), (n_features,)):
                raise ValueError(
                    f"{name} must be a number or hold one for each of the {n_features} features, got shape "
                    f"{value.shape}."
                )
            if not np.all(np.isfinite(value)):
                raise ValueError(f"{name} must be finite, got {value}.")
            constants[name] = value
        if not np.all(constants["scale"] > 0):
            raise ValueError(f"scale must be greater than 0, got {constants['scale']}.")
        return constants["center"], constants["scale"]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        return tags
