"""Shrinkage of noisy rows to a public centre: post-processing, chosen by public numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate.metric._domains import BallBox, Box, Norm, lengths
from skprivate.privacy import public_generator
from skprivate.privacy.noise import FloatArray

#: Simulated rows.
_ROWS = 4096
#: Multiples of the variance of the noise that are tried.
_MULTIPLES = (np.inf, 16.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.0)


@dataclass(frozen=True, eq=False)
class Remap:
    """The map y ↦ center + factors·(y − center)."""

    center: FloatArray
    factors: FloatArray

    def __call__(self, points: FloatArray) -> FloatArray:
        return self.center + self.factors * (points - self.center)


def directions(norm: Norm, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Draw directions of K-norm noise, of length 1: those of uniform points of the ball."""
    draw: Any = {"l1": rng.laplace, "l2": rng.normal, "linf": lambda size: rng.uniform(-1.0, 1.0, size)}[norm]
    points: FloatArray = draw(size=shape)
    return points / lengths(points, norm)[:, None]


def uniform_rows(domain: Box) -> FloatArray:
    """Draw rows of a box or ball, in pairs around its centre."""
    rng, shape = public_generator(0), (_ROWS // 2, domain.lower.size)
    if isinstance(domain, BallBox):
        length = domain.radius * rng.random((shape[0], 1)) ** (1 / shape[1])
        moved = length * directions(domain.norm, shape, rng)
    else:
        moved = domain.widths * rng.uniform(-0.5, 0.5, shape)
    center = 0.5 * (domain.lower + domain.upper)
    return domain.nearest(np.concatenate([center + moved, center - moved]))


def check_prior_rows(prior: object, domain: Box | None, n_features: int) -> FloatArray | None:
    """Turn a parameter ``prior`` of rows within bounds into public rows; None stays None."""
    if prior is None:
        return None
    if domain is None:
        raise ValueError("prior needs bounds, unless metric='precomputed' or 'tree'.")
    if isinstance(prior, str):
        return uniform_rows(domain)
    rows = np.asarray(prior, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features or not rows.size or not np.isfinite(rows).all():
        raise ValueError(
            f"prior must be 'uniform' or finite public rows with {n_features} columns, got shape {rows.shape}."
        )
    return domain.nearest(rows)


def best_remap(
    rows: FloatArray,
    domain: Box,
    norm: Norm,
    epsilon: float,
    *,
    place: Callable[[FloatArray], FloatArray],
    answer: Callable[[FloatArray], FloatArray],
    distance: Callable[[FloatArray, FloatArray], FloatArray],
) -> tuple[Remap, float]:
    """Find the remap with the least mean distance between public rows and answers, and that distance.

    Noise is simulated where `place` takes the rows; `answer` turns remapped points into rows. A column of variance a
    has the factor 1/(1 + t·v/a), v being the variance of the noise: at t = 1 the best linear answer under squared loss,
    at t = 0 the noisy row, at t = ∞ the mean row. No remap is taken that is worse than the mean row at the far ends of
    the domain.
    """
    rng, points = public_generator(0), place(rows)
    center, spread = points.mean(axis=0), points.std(axis=0)
    shape = points.shape
    samples = [np.tile(end, (_ROWS, 1)) for end in _far_ends(domain, rows.mean(axis=0))]
    samples.append(rows[rng.integers(len(rows), size=_ROWS)])
    with np.errstate(over="ignore"):
        half = directions(norm, (_ROWS // 2, shape[1]), rng)
        half *= rng.gamma(shape[1], size=(_ROWS // 2, 1)) / epsilon
        noise = np.concatenate([half, -half])
        ratio = np.maximum((noise.std() / np.maximum(spread, 1e-300)) ** 2, 1e-300)
    remaps = [Remap(center, 1 / (1 + t * ratio) if t else np.ones(shape[1])) for t in _MULTIPLES]
    errors = np.array(
        [[distance(sample, answer(remap(place(sample) + noise))).mean() for sample in samples] for remap in remaps]
    )
    worst, mean = errors[:, :-1].max(axis=1), errors[:, -1]
    best = int(np.where(worst <= worst[0] * (1 + 1e-9), mean, np.inf).argmin())
    return remaps[best], float(mean[best])


def _far_ends(domain: Box, center: FloatArray) -> FloatArray:
    """Find the corner that is farthest from a row, and the end of the widest column, inside the domain."""
    corner = np.where(2 * center > domain.lower + domain.upper, domain.lower, domain.upper)
    end, widest = center.copy(), int(np.abs(corner - center).argmax())
    end[widest] = corner[widest]
    return domain.nearest(np.stack([corner, end]))
