"""The only importer of scikit-learn privates, so that one file breaks when they move."""

import functools
import re

from sklearn.base import _fit_context as _sklearn_fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import (
    HasMethods,
    Hidden,
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.validation import _check_feature_names_in, _check_y, _num_samples

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "_check_feature_names_in",
    "_check_y",
    "_fit_context",
    "_num_samples",
    "_safe_indexing",
    "validate_params",
]

#: Where messages of input validation quote the input, and what they say instead.
_QUOTES = (
    (re.compile(r" instead:\narray=.*?\.\n", re.DOTALL), " instead.\n"),
    (re.compile(r"could not convert string to float: .*", re.DOTALL), "could not convert a string to float."),
)


def _fit_context(*, prefer_skip_nested_validation):
    """`sklearn.base._fit_context`, with error messages that do not quote the training data."""

    def decorator(fit_method):
        checked = _sklearn_fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)(
            fit_method
        )

        @functools.wraps(fit_method)
        def fit(estimator, *args, **kwargs):
            try:
                return checked(estimator, *args, **kwargs)
            except ValueError as error:
                message = text = str(error)
                for pattern, replacement in _QUOTES:
                    message = pattern.sub(replacement, message)
                if message == text:
                    raise
                raise ValueError(message) from None

        return fit

    return decorator
