"""What a linear model of random bags is linear in: columns, buckets of columns, and a prior that follows their spread.

Features are public, so that any of these costs nothing. Which of them serves is told by the marginal likelihood of the
released aggregates, which is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate._spread import Spread

#: Buckets of a column, about.
_N_BUCKETS = 16
#: Buckets are tried where all columns together, and all their numbers, are no more than this.
_MOST_COLUMNS = 600
_MOST_NUMBERS = 5e7
#: Directions of less than this share of the largest variance are left out of the prior that follows variance.
_FLAT = 1e-9


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public centring and scaling of features: unit variance, except for columns of two values 0 and 1."""

    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: FloatArray) -> Scaling:
        """Scaling of the columns of X.

        Indicators keep their scale: a ridge on standardised indicators would let rare categories vary most.
        """
        scale = X.std(axis=0)
        indicator = np.all((X == 0) | (X == 1), axis=0)
        return cls(X.mean(axis=0), np.where(indicator | ~(scale > 0), 1.0, scale))

    def apply(self, X: FloatArray) -> FloatArray:
        return (X - self.centre) / self.scale


@dataclass(frozen=True, eq=False)
class BagFeatures:
    """Features as a fit sees them.

    Parameters
    ----------
    edges : tuple of ndarray
        Where each column is cut; empty for one that is not.
    scaling : Scaling
        Of columns and indicators of buckets.
    turn : ndarray of shape (n_scaled, n_fitted) or None
        From fitted coefficients to those of scaled features.
    """

    edges: tuple[FloatArray, ...]
    scaling: Scaling
    turn: FloatArray | None = None

    def coef(self, fitted: FloatArray) -> FloatArray:
        """Coefficients (n_outputs, n_expanded) of columns and indicators, from fitted ones."""
        scaled = fitted if self.turn is None else fitted @ self.turn.T
        found: FloatArray = scaled / self.scaling.scale
        return found


def with_buckets(X: FloatArray, edges: tuple[FloatArray, ...]) -> FloatArray:
    """Columns of X, and an indicator of every bucket of those that are cut."""
    parts = [X]
    for column, cuts in zip(X.T, edges, strict=True):
        if cuts.size:
            place = np.searchsorted(cuts, column, side="right")
            parts.append((place[:, np.newaxis] == np.arange(cuts.size + 1)).astype(np.float64))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def bucket_edges(X: FloatArray) -> tuple[FloatArray, ...]:
    """Cuts of each column into buckets of like frequency; a column of one or two numbers is not cut."""
    cuts = []
    for column in X.T:
        found = np.asarray(Spread.of(np.ascontiguousarray(column)).edges(_N_BUCKETS), dtype=np.float64)
        cuts.append(found if found.size > 1 else np.empty(0))
    return tuple(cuts)


def candidates(
    X: FloatArray, *, buckets: bool | None, prior: str | None, centred: bool
) -> Iterator[tuple[BagFeatures, FloatArray]]:
    """Features that are to be compared, and X in each.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    buckets : bool or None
        None tries both, where columns and rows are not too many.
    prior : {"ridge", "spread"} or None
        None tries both.
    centred : bool
        False leaves features where they are, for models without an intercept.
    """
    plain = tuple(np.empty(0) for _ in range(X.shape[1]))
    choices = [plain]
    if buckets is not False:
        cut = bucket_edges(X)
        width = X.shape[1] + sum(one.size + 1 for one in cut if one.size)
        if buckets:
            choices = [cut]
        elif X.shape[1] < width <= _MOST_COLUMNS and width * X.shape[0] <= _MOST_NUMBERS:
            choices.append(cut)
    for edges in choices:
        wide = with_buckets(X, edges)
        scaling = Scaling.of(wide)
        if not centred:
            scaling = Scaling(np.zeros(wide.shape[1]), scaling.scale)
        scaled = scaling.apply(wide)
        if prior != "spread":
            yield BagFeatures(edges, scaling), scaled
        if prior != "ridge":
            turn = _spread_root(scaled)
            yield BagFeatures(edges, scaling, turn), scaled @ turn


def _spread_root(scaled: FloatArray) -> FloatArray:
    """Σ^(1/4), but for a rotation: independent coefficients in these directions have the covariance Σ^(1/2)."""
    values, vectors = np.linalg.eigh(scaled.T @ scaled / max(len(scaled), 1))
    kept = values > _FLAT * max(float(values[-1]), 1e-300)
    kept[-1] = True  # constant columns alone have no direction
    values = np.maximum(values, 0.0)
    root: FloatArray = vectors[:, kept] * values[kept] ** 0.25
    return root
