"""Data for the privacy checks, and its variants that differ in everything private."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from skprivate.privacy import PrivacyUnit, SimulatedNoiseWarning, public_generator
from skprivate.utils._leaves import fitted_leaves

#: Per-row arguments of ``fit`` that the common data know how to make.
ROW_METADATA = ("user_ids", "private")


@dataclass(frozen=True)
class CheckData:
    """What a check passes to ``fit``.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Features. Private values should be irregular floats, so that they are recognised where they turn up.
    y : ndarray of shape (n_rows,) or None
        Target, for estimators that take one.
    metadata : dict of str to ndarray of shape (n_rows,)
        Further per-row arguments of ``fit``.
    """

    X: np.ndarray
    y: np.ndarray | None = None
    metadata: dict[str, np.ndarray] = field(default_factory=dict)


MakeData = Callable[[Any, Any, int], CheckData]


def default_data(estimator: Any, rng: Any, n_rows: int) -> CheckData:
    """Data that suit most estimators: features in the unit cube, a target by the estimator's type.

    Parameters
    ----------
    estimator : estimator
        Whom the data are for.
    rng : numpy Generator
        Public randomness.
    n_rows : int
        How many rows.

    Returns
    -------
    data : CheckData
        With ``user_ids`` (rows / 3 users) and ``private`` (about half of the rows) where ``fit`` takes them.
    """
    X = rng.uniform(0.05, 0.95, size=(n_rows, 3))
    tags = get_tags(estimator)
    y = None
    if tags.estimator_type == "regressor":
        y = X @ np.array([1.0, -0.5, 0.25]) + rng.normal(scale=0.1, size=n_rows)
    elif tags.estimator_type == "classifier" or tags.target_tags.required:
        y = rng.permutation(np.arange(n_rows) % 2)
    accepted = inspect.signature(estimator.fit).parameters
    metadata = {}
    if "user_ids" in accepted:
        metadata["user_ids"] = rng.permutation(np.arange(n_rows) % max(1, n_rows // 3))
    if "private" in accepted:
        metadata["private"] = rng.permutation(np.arange(n_rows) % 2).astype(bool)
    return CheckData(X, y, metadata)


def other_data(
    estimator: Any, data: CheckData, unit: PrivacyUnit, make_data: MakeData, seed: int
) -> CheckData:
    """Data of the same shape as ``data`` that differ in everything that ``unit`` makes private.

    Parameters
    ----------
    estimator : estimator
        Whom the data are for.
    data : CheckData
        The data to differ from.
    unit : PrivacyUnit
        LABEL: only ``y`` differs. PRIVATE_ROW: only ``X`` where ``private``. Else all of it.
    make_data : callable
        As in `default_data`.
    seed : int
        Of the public randomness.

    Returns
    -------
    other : CheckData
        The other data.
    """
    fresh = make_data(estimator, public_generator(seed), len(data.X))
    if unit is PrivacyUnit.LABEL:
        return dataclasses.replace(data, y=fresh.y)
    if unit is PrivacyUnit.PRIVATE_ROW:
        private = private_rows(data, unit)
        return dataclasses.replace(data, X=np.where(private[:, None], fresh.X, data.X))
    return fresh


def private_rows(data: CheckData, unit: PrivacyUnit) -> np.ndarray:
    """Mask of the rows that ``unit`` protects."""
    everywhere = np.ones(len(data.X), dtype=bool)
    return (
        np.asarray(data.metadata.get("private", everywhere))
        if unit is PrivacyUnit.PRIVATE_ROW
        else everywhere
    )


def private_numbers(data: CheckData, unit: PrivacyUnit) -> np.ndarray:
    """The irregular private floats of ``data``: what must not turn up anywhere, as a flat array."""
    parts = [np.zeros(0)]
    rows = private_rows(data, unit)
    if unit is not PrivacyUnit.LABEL:
        parts.append(data.X[rows].ravel())
    if data.y is not None and data.y.dtype.kind == "f" and unit is not PrivacyUnit.PRIVATE_ROW:
        parts.append(data.y[rows])
    values = np.concatenate(parts)
    return values[values != np.rint(values)]


@dataclass(frozen=True)
class Fitted:
    """A fitted clone and all that it said.

    Attributes
    ----------
    estimator : estimator
        The fitted clone.
    warnings : tuple of Warning
        What was warned of.
    printed : str
        What was printed.
    """

    estimator: Any
    warnings: tuple[Warning, ...]
    printed: str

    @property
    def guarantee(self) -> Any:
        return self.estimator.privacy_guarantee_

    @property
    def said(self) -> str:
        """Warnings, except the one of simulated noise, and prints."""
        texts = [str(item) for item in self.warnings if not isinstance(item, SimulatedNoiseWarning)]
        return "\n".join([*texts, self.printed])

    def leaves(self) -> dict[str, Any]:
        """All that the fitted estimator holds and said."""
        return {**fitted_leaves(self.estimator), "<warnings and prints>": self.said}


def fit_clone(estimator: Any, data: CheckData, **parameters: Any) -> Fitted:
    """Fit a clone with ``parameters`` on ``data``, listening to it."""
    estimator = clone(estimator).set_params(**parameters)
    arguments = (data.X,) if data.y is None else (data.X, data.y)
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(StringIO()) as printed:
        warnings.simplefilter("always")
        result = estimator.fit(*arguments, **data.metadata)
    assert result is estimator, f"{type(estimator).__name__}.fit must return self."
    messages = tuple(item.message for item in caught if isinstance(item.message, Warning))
    return Fitted(estimator, messages, printed.getvalue())


def releases_in_transform(estimator: Any) -> bool:
    """Whether the estimator is a row-wise randomiser (the local model), which spends in ``transform``."""
    return getattr(estimator, "releases_in", "fit") == "transform"


def releases_something(estimator: Any) -> bool:
    """Whether fitting the estimator spends a privacy budget of its own."""
    return "epsilon" in estimator.get_params(deep=False) and not releases_in_transform(estimator)
