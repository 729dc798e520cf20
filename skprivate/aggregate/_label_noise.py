"""Noise on label sums: what one label can move, and the noise that covers it.

One label sits in one bag of every one of k feature sets (or in at most k random bags). Replacing it moves each of those
bags' sums by at most u₁ in ℓ1 and u₂ in ℓ2: (1, 1) for a binary label, (2, √2) for a one-hot label, (R, R) for a
number from an interval of length R. All sums are released as one vector of sensitivity k·u₁ and √k·u₂.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import (
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    Release,
    ZeroConcentratedEvent,
    gaussian_noise_multiplier,
    rho_of_epsilon,
)

#: Events that a release reserves before anything is drawn.
Plan = tuple[tuple[PrivacyEvent, int], ...]
Mechanism = Literal["auto", "laplace", "gaussian", "discrete_gaussian"]
MECHANISMS = ("auto", "laplace", "gaussian", "discrete_gaussian")


@dataclass(frozen=True)
class LabelSensitivity:
    """How far one label moves the sums of one bag, and whether sums are integers."""

    l1: float
    l2: float
    integers: bool

    @classmethod
    def of_classes(cls, n_classes: int) -> LabelSensitivity:
        """Counts of the positive class of two, or of each of several classes."""
        return cls(1.0, 1.0, True) if n_classes <= 2 else cls(2.0, math.sqrt(2.0), True)

    @classmethod
    def of_interval(cls, low: float, high: float) -> LabelSensitivity:
        """Sums of numbers from an interval."""
        return cls(high - low, high - low, False)


@dataclass(frozen=True)
class LabelNoise:
    """Planned noise of one vector of label sums.

    Parameters
    ----------
    mechanism : {"laplace", "gaussian", "discrete_gaussian"}
    sensitivity : float
        ℓ1 for "laplace", else ℓ2, of the whole vector under replacement of one label.
    price : float
        ε for "laplace", the noise multiplier for "gaussian", ρ for "discrete_gaussian".
    integers : bool
    """

    mechanism: str
    sensitivity: float
    price: float
    integers: bool

    @property
    def variance(self) -> float:
        """Variance of the noise in each sum; public."""
        if self.mechanism == "gaussian":
            return (self.sensitivity * self.price) ** 2
        if self.mechanism == "discrete_gaussian":
            return self.sensitivity**2 / (2 * self.price)
        scale = self.sensitivity / self.price
        if not self.integers:
            return 2 * scale**2
        q = math.exp(-1 / scale)
        return 2 * q / (1 - q) ** 2

    def event(self, size: int) -> PrivacyEvent:
        """What drawing noise for ``size`` sums will cost."""
        if self.mechanism == "gaussian":
            return GaussianEvent(self.price, size)
        if self.mechanism == "discrete_gaussian":
            return ZeroConcentratedEvent(self.price, "discrete Gaussian")
        if self.integers:
            return PureEvent(self.price, "discrete Laplace")
        return LaplaceEvent(self.price) if size == 1 else PureEvent(self.price, "Laplace")

    def draw(self, sums: FloatArray, release: Release) -> FloatArray:
        """Noisy sums, of the same shape, as float64."""
        if self.mechanism == "gaussian":
            return np.asarray(
                release.gaussian(sums, sensitivity=self.sensitivity, noise_multiplier=self.price)
            )
        if self.mechanism == "discrete_gaussian":
            counts = sums.astype(np.int64)
            return release.discrete_gaussian(counts, sensitivity=self.sensitivity, rho=self.price).astype(
                np.float64
            )
        if self.integers:
            counts = sums.astype(np.int64)
            noisy = release.discrete_laplace(counts, sensitivity=round(self.sensitivity), epsilon=self.price)
            return noisy.astype(np.float64)
        return np.asarray(release.laplace(sums, sensitivity=self.sensitivity, epsilon=self.price))


def plan_label_noise(
    sensitivity: LabelSensitivity,
    appearances: int,
    size: int,
    *,
    epsilon: float,
    delta: float,
    mechanism: Mechanism = "auto",
    share: float = 1.0,
) -> LabelNoise:
    """Choose noise for label sums from public numbers.

    Parameters
    ----------
    sensitivity : LabelSensitivity
        Of one bag.
    appearances : int
        Largest number of bags that one label is in.
    size : int
        Number of sums.
    epsilon, delta : float
        Budget of the whole release.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}
        "auto" takes the smaller variance of "laplace" and, if ``delta > 0``, "gaussian". The two Gaussian mechanisms
        differ in the accounting only: "gaussian" is rounded to a fine lattice and priced by the exact curve of the
        Gaussian, "discrete_gaussian" is integer and priced by zero-concentrated privacy.
    share : float
        Part of the budget, in (0, 1]; draws of the same mechanism whose shares add up to 1 are within it.

    Returns
    -------
    LabelNoise
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {MECHANISMS}, got {mechanism!r}.")
    if "gaussian" in mechanism and not delta > 0:
        raise ValueError(f"mechanism={mechanism!r} needs delta > 0, got {delta!r}.")
    if mechanism == "discrete_gaussian" and not sensitivity.integers:
        raise ValueError("mechanism='discrete_gaussian' is for class counts; use 'gaussian' for numbers.")
    # Sums of prices, in floating point, must not pass the budget.
    margin = 1.0 if share == 1.0 else 1.0 - 2.0**-30
    candidates = []
    if mechanism in ("auto", "laplace"):
        price = epsilon * share * margin
        candidates.append(LabelNoise("laplace", appearances * sensitivity.l1, price, sensitivity.integers))
    l2 = math.sqrt(appearances) * sensitivity.l2
    if mechanism == "gaussian" or (mechanism == "auto" and delta > 0):
        multiplier = gaussian_noise_multiplier(epsilon, delta, size=size) / (math.sqrt(share) * margin)
        candidates.append(LabelNoise("gaussian", l2, multiplier, sensitivity.integers))
    if mechanism == "discrete_gaussian":
        candidates.append(LabelNoise(mechanism, l2, share * rho_of_epsilon(epsilon, delta), True))
    return min(candidates, key=lambda noise: noise.variance)


#: Exponents of the powers of two between which absolute labels are counted to find their range.
_EXPONENTS = np.arange(-30, 41)


def plan_range_noise(*, epsilon: float, delta: float, mechanism: str, share: float) -> LabelNoise:
    """Noise of the counts between powers of two that `private_label_bound` looks at."""
    return plan_label_noise(
        LabelSensitivity(2.0, math.sqrt(2.0), True),
        1,
        _EXPONENTS.size,
        epsilon=epsilon,
        delta=delta,
        mechanism="laplace" if mechanism == "laplace" else "gaussian",
        share=share,
    )


def range_event(noise: LabelNoise) -> PrivacyEvent:
    """What finding the range with that noise will cost."""
    return noise.event(_EXPONENTS.size)


def private_label_bound(labels: FloatArray, noise: LabelNoise, release: Release) -> float:
    """A bound on most absolute labels from noisy counts between powers of two.

    Counts within 3.5 standard deviations of zero are taken as empty; the bound is twice the power of two at the upper
    quartile of the others. Twice the upper quartile is 2.3 standard deviations of a normal variable, and the power
    of two adds up to as much again. One label moves two counts by 1.

    Returns
    -------
    float
        Between 2⁻²⁹ and 2⁴¹; 2 if no count stands out.
    """
    place = np.searchsorted(np.exp2(_EXPONENTS[:-1]), np.abs(labels), side="left")
    counts = np.bincount(place, minlength=_EXPONENTS.size).astype(np.float64)
    noisy = noise.draw(counts, release)
    noisy[noisy < 3.5 * math.sqrt(noise.variance)] = 0.0
    if not noisy.any():
        return 2.0
    quartile = int(np.searchsorted(np.cumsum(noisy), 0.75 * noisy.sum()))
    return float(2 * np.exp2(_EXPONENTS[quartile]))
