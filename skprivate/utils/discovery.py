"""List the estimators of the package."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from sklearn.base import BaseEstimator

import skprivate

__all__ = ["all_estimators"]


def all_estimators() -> list[tuple[str, type[Any]]]:
    """List all public estimators of the package.

    An estimator is public if its class is concrete and its name and all of its modules' names that a user would import
    it from are without a leading underscore.

    Returns
    -------
    estimators : list of (str, type)
        Names and classes, in alphabetical order.

    See Also
    --------
    parametrize_with_privacy_checks : Tests each of them.
    sklearn.utils.discovery.all_estimators : Lists scikit-learn's own.

    Examples
    --------
    >>> from skprivate.utils.discovery import all_estimators
    >>> "PublicScaler" in dict(all_estimators())
    True
    """
    found: dict[str, type[Any]] = {}
    for module in _public_modules():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            concrete = inspect.isclass(value) and issubclass(value, BaseEstimator) and not inspect.isabstract(value)
            if concrete and value.__module__.startswith("skprivate.") and not name.startswith("_"):
                found[name] = value
    return sorted(found.items())


def _public_modules() -> list[Any]:
    names = ["skprivate"]
    for module in pkgutil.walk_packages(skprivate.__path__, prefix="skprivate."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            names.append(module.name)
    return [importlib.import_module(name) for name in names]
