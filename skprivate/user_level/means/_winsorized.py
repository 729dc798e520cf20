"""Winsorised means of one number per user: Algorithm 2, with exact sums."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions
from skprivate.privacy import CONTRIBUTION_BITS, CONTRIBUTION_STEP, Branch, Release, exact_sum, interval_contributions
from skprivate.user_level._ranges import select_middle, snap

FloatArray = npt.NDArray[np.float64]


def winsorized_means(
    rows: Partitions, n_users: int, *, epsilon: float, tau: float, bound: float, release: Release | Branch
) -> list[float]:
    """Release the mean of each of several numbers of every user, clipped to a private interval, at this cost each.

    Blocks have shape (n_numbers, n_users_of_block).
    """
    middles = private_middles(rows, epsilon=epsilon / 2.0, tau=tau, bound=bound, release=release)
    return clipped_means(rows, n_users, middles, 2.0 * tau, epsilon=epsilon / 2.0, release=release)


def private_middles(
    rows: Partitions, *, epsilon: float, tau: float, bound: float, release: Release | Branch, monotone: bool = False
) -> list[float]:
    """Select the middle of the interval of `private_range` for each of several numbers of every user."""
    return [
        select_middle(counts, epsilon=epsilon, tau=tau, bound=bound, release=release, monotone=monotone)
        for counts in rows.count(partial(_bins, tau=tau, bound=bound))
    ]


def _bins(vectors: FloatArray, tau: float, bound: float) -> list[npt.NDArray[np.int64]]:
    return [snap(numbers, tau, bound) for numbers in vectors]


def clipped_means(
    rows: Partitions, n_users: int, middles: list[float], half: float, *, epsilon: float, release: Release | Branch
) -> list[float]:
    """Release means of numbers clipped to released middles ± half, with Laplace noise of scale 2·half/(nε)."""
    totals = rows.sum(partial(_clipped_sums, middles=middles, half=half))
    means = []
    for middle, total in zip(middles, totals, strict=True):
        noisy: float = release.laplace(total, sensitivity=2**CONTRIBUTION_BITS, epsilon=epsilon)
        means.append(middle + noisy * clipped_step(half) / n_users)
    return means


def _clipped_sums(vectors: FloatArray, middles: list[float], half: float) -> npt.NDArray[Any]:
    sums = [clipped_sum(numbers, middle, half).item() for numbers, middle in zip(vectors, middles, strict=True)]
    return np.array(sums, dtype=object)


def clipped_sum(x: FloatArray, middle: float, half: float) -> Any:
    """Sum the numbers' offsets from a released middle, clipped to ± half, exactly in steps of `clipped_step`.

    Replacing a number moves the sum by at most 2ᵇⁱᵗˢ steps.
    """
    with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
        offsets = np.ascontiguousarray(x, dtype=np.float64) - middle
        contributions = interval_contributions(offsets, -half, half, bits=CONTRIBUTION_BITS)
    return exact_sum(contributions)


def clipped_step(half: float) -> float:
    """Return the value of one step of a `clipped_sum`."""
    return half * 2.0 * CONTRIBUTION_STEP
