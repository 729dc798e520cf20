"""Winsorised means of one vector per user: Algorithms 2 and 3 as published."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import InMemory, Partitions
from skprivate.privacy import CONTRIBUTION_BITS, CONTRIBUTION_STEP, exact_sum, interval_contributions
from skprivate.user_level._ranges import select_middle, snap

FloatArray = npt.NDArray[np.float64]


def hadamard_transform(x: FloatArray) -> FloatArray:
    """Orthonormal Walsh–Hadamard transform of the rows, in O(d log d) a row.

    Parameters
    ----------
    x : ndarray of shape (..., d) with d a power of two; overwritten if it is a C-contiguous float64 array.

    Returns
    -------
    y : ndarray of shape (..., d)
        d^{−1/2} H x. The transform is its own inverse.
    """
    y = np.ascontiguousarray(x, dtype=np.float64)
    d = y.shape[-1]
    if d & (d - 1):
        raise ValueError(f"the length must be a power of two, got {d}.")
    half = 1
    while half < d:
        pairs = y.reshape(*y.shape[:-1], d // (2 * half), 2, half)
        upper = pairs[..., 0, :] + pairs[..., 1, :]
        pairs[..., 1, :] = pairs[..., 0, :] - pairs[..., 1, :]
        pairs[..., 0, :] = upper
        half *= 2
    y /= math.sqrt(d)
    return y


class RandomRotation:
    """U = d^{−1/2} H D with random signs D: spreads every vector evenly over the coordinates.

    The signs are public. Vectors are padded with zeros to the next power of two.
    """

    def __init__(self, n_features: int, rng: np.random.Generator) -> None:
        self.n_features = n_features
        self.padded = 1 << max(0, (n_features - 1).bit_length())
        self.signs = rng.integers(0, 2, size=self.padded) * 2.0 - 1.0

    def forward(self, x: FloatArray) -> FloatArray:
        """Rotate vectors of shape (..., n_features) into shape (..., padded)."""
        padded = np.zeros((*x.shape[:-1], self.padded))
        padded[..., : self.n_features] = x
        padded *= self.signs
        return hadamard_transform(padded)

    def columns(self, x: FloatArray) -> FloatArray:
        """Rotated vectors, coordinates first: shape (padded, n)."""
        return np.ascontiguousarray(self.forward(x).T)

    def backward(self, y: FloatArray) -> FloatArray:
        """Rotate back and drop the padding."""
        return (hadamard_transform(np.array(y)) * self.signs)[..., : self.n_features]


def winsorized_mean_1d(x: FloatArray, *, epsilon: float, tau: float, bound: float, release: Any) -> float:
    """Mean of one number per user, clipped to a private interval (Algorithm 2).

    [a, b] = PrivateRange(x, ε/2, τ, B) has length 4τ; returns mean(clip(x, a, b)) + Lap(8τ/(nε)). ε-DP under
    replacement of one user; n is public.

    What is summed are the users' offsets from the middle of [a, b], which is released, as integers: wherever the
    interval lies, replacing one user moves the sum by at most the 2ᵇⁱᵗˢ steps that its length holds.

    Parameters
    ----------
    x : ndarray of shape (n_users,)
    epsilon : float
        Pure price of the whole mean.
    tau, bound : float
        Public concentration radius and bound, in the units of ``x``.
    release : Release
        Where the draws are paid for (`skprivate.privacy.open_release`).

    Returns
    -------
    float
        The mean of the clipped numbers, with noise.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.privacy import open_release
    >>> from skprivate.user_level import winsorized_mean_1d
    >>> x = 5000.0 + np.random.default_rng(0).normal(size=400)
    >>> with open_release(epsilon=1.0, unit="user", adjacency="replace-one") as release:
    ...     mean = winsorized_mean_1d(x, epsilon=1.0, tau=4.0, bound=1e6, release=release)
    >>> abs(mean - 5000) < 3
    True
    """
    rows = InMemory(np.asarray(x, dtype=np.float64)[None])
    return winsorized_means(rows, len(x), epsilon=epsilon, tau=tau, bound=bound, release=release)[0]


def winsorized_means(
    rows: Partitions, n_users: int, *, epsilon: float, tau: float, bound: float, release: Any
) -> list[float]:
    """The same for several numbers of every user, each at this price.

    Parameters
    ----------
    rows : Partitions
        Blocks of shape (n_numbers, n_users_of_block).
    n_users : int
        Public.
    epsilon, tau, bound, release
        As in `winsorized_mean_1d`.
    """
    middles = private_middles(rows, epsilon=epsilon / 2.0, tau=tau, bound=bound, release=release)
    return clipped_means(rows, n_users, middles, 2.0 * tau, epsilon=epsilon / 2.0, release=release)


def private_middles(
    rows: Partitions, *, epsilon: float, tau: float, bound: float, release: Any, monotone: bool = False
) -> list[float]:
    """Middle of the interval of `private_range` for each of several numbers of every user."""
    return [
        select_middle(counts, epsilon=epsilon, tau=tau, bound=bound, release=release, monotone=monotone)
        for counts in rows.count(partial(_bins, tau=tau, bound=bound))
    ]


def _bins(vectors: FloatArray, tau: float, bound: float) -> list[npt.NDArray[np.int64]]:
    return [snap(numbers, tau, bound) for numbers in vectors]


def clipped_means(
    rows: Partitions, n_users: int, middles: list[float], half: float, *, epsilon: float, release: Any
) -> list[float]:
    """Means of numbers clipped to released middles ± half, with Laplace noise of scale 2·half/(nε)."""
    totals = rows.sum(partial(_clipped_sums, middles=middles, half=half))
    means = []
    for middle, total in zip(middles, totals, strict=True):
        noisy: float = release.laplace(total, sensitivity=2**CONTRIBUTION_BITS, epsilon=epsilon)
        means.append(middle + noisy * clipped_step(half) / n_users)
    return means


def _clipped_sums(vectors: FloatArray, middles: list[float], half: float) -> npt.NDArray[Any]:
    sums = [
        clipped_sum(numbers, middle, half).item() for numbers, middle in zip(vectors, middles, strict=True)
    ]
    return np.array(sums, dtype=object)


def clipped_sum(x: FloatArray, middle: float, half: float) -> Any:
    """Exact sum of the numbers' offsets from a released middle, clipped to ± half, in steps of `clipped_step`.

    Replacing a number moves the sum by at most 2ᵇⁱᵗˢ steps.
    """
    with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
        offsets = np.ascontiguousarray(x, dtype=np.float64) - middle
        contributions = interval_contributions(offsets, -half, half, bits=CONTRIBUTION_BITS)
    return exact_sum(contributions)


def clipped_step(half: float) -> float:
    """What one step of a `clipped_sum` is worth."""
    return half * 2.0 * CONTRIBUTION_STEP


def rotated_radius(tau: float, n_features: int, n_users: int, gamma: float) -> float:
    """τ' = 10 τ √(ln(dn/γ)/d) of Algorithm 3: radius of every rotated coordinate."""
    return 10.0 * tau * math.sqrt(math.log(n_features * n_users / gamma) / n_features)


def coordinate_epsilon(epsilon: float, delta: float, n_features: int) -> float:
    """ε' = ε/√(8 d ln(1/δ)) of Algorithm 3: pure price of every coordinate under strong composition."""
    return epsilon / math.sqrt(8.0 * n_features * math.log(1.0 / delta))


def winsorized_mean(
    x: FloatArray, *, epsilon: float, delta: float, tau: float, bound: float, gamma: float, release: Any
) -> FloatArray:
    """Mean of one vector per user (Algorithm 3, WinsorizedMeanHighD), with the paper's constants.

    Parameters
    ----------
    x : ndarray of shape (n_users, d)
    epsilon, delta : float
        Price under the paper's strong composition over the coordinates.
    tau : float
        Public ℓ2 concentration radius.
    bound : float
        Public bound B on the norms.
    gamma : float
        Probability with which concentration may fail (utility only).
    release : Release
        Where the draws are paid for (`skprivate.privacy.open_release`): as many selections and Laplace draws as
        coordinates, rounded up to a power of two, each at half of ε/√(8 d ln(1/δ)).

    Returns
    -------
    mean : ndarray of shape (d,)
        The mean of the vectors, with noise.

    Notes
    -----
    The rotation adds and subtracts entries of one vector only, so a user's rotated vector does not depend on the
    others; an entry that overflows is clipped or, if it is NaN, counts as the middle of the interval.
    """
    return winsorized_mean_of(
        InMemory(x),
        *x.shape,
        epsilon=epsilon,
        delta=delta,
        tau=tau,
        bound=bound,
        gamma=gamma,
        release=release,
    )


def winsorized_mean_of(
    rows: Partitions,
    n_users: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float,
    tau: float,
    bound: float,
    gamma: float,
    release: Any,
) -> FloatArray:
    """The same for blocks of shape (n_users_of_block, d)."""
    rotation = RandomRotation(n_features, release.public_rng)
    d = rotation.padded
    with np.errstate(all="ignore"):  # nor would a warning keep to itself what a user holds
        rotated = rows.map(rotation.columns)
    # A rotated coordinate of a vector of norm at most B is at most B; the paper's √d·B is looser.
    means = winsorized_means(
        rotated,
        n_users,
        epsilon=coordinate_epsilon(epsilon, delta, d),
        tau=rotated_radius(tau, d, n_users, gamma),
        bound=bound,
        release=release,
    )
    return rotation.backward(np.array(means))
