"""Noise on integer label sums: what one label can move, and the noise that covers it.

A label is in one bag of every one of k feature sets, or in at most k random bags, and contributes an integer to each
output of each. Replacing it moves at most ``moved`` sums by at most ``steps`` each: (k, 1) for the counts of one
class of two, (2k, 1) for one-hot counts, (kK, 1) for K indicators, (kK, 2³⁰) for K numbers from an interval of 2³⁰
steps. All sums are released as one vector of sensitivity moved·steps in ℓ1 and √moved·steps in ℓ2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

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
    upper_root,
)

NoiseName = Literal["auto", "laplace", "gaussian", "discrete_gaussian"]
MECHANISMS = ("auto", "laplace", "gaussian", "discrete_gaussian")
#: Integer noise beyond this scale is not sampled.
_LARGEST_SCALE = 2.0**51


@dataclass(frozen=True)
class LabelSensitivity:
    """One label moves at most ``moved`` sums by at most ``steps`` each; public."""

    moved: int
    steps: int = 1

    @property
    def l1(self) -> int:
        return self.moved * self.steps

    @property
    def l2(self) -> float:
        return upper_root(self.moved * self.steps**2)


@dataclass(frozen=True)
class LabelNoise:
    """Planned noise of one vector of integer label sums.

    Parameters
    ----------
    mechanism : {"laplace", "discrete_laplace", "gaussian", "discrete_gaussian"}
    sensitivity : LabelSensitivity
        Of the whole vector under replacement of one label.
    price : float
        ε of the two Laplace mechanisms, the noise multiplier of "gaussian", ρ of "discrete_gaussian".
    """

    mechanism: str
    sensitivity: LabelSensitivity
    price: float

    @property
    def variance(self) -> float:
        """Variance of the noise in each sum, in steps²; public."""
        if self.mechanism == "gaussian":
            return (self.sensitivity.l2 * self.price) ** 2
        if self.mechanism == "discrete_gaussian":
            return self.sensitivity.l2**2 / (2 * self.price)
        scale = self.sensitivity.l1 / self.price
        if self.mechanism == "laplace":
            return 2 * scale**2
        return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2

    def exceeded(self, probability: float) -> float:
        """A number, in steps, that the noise in one sum exceeds with about this probability."""
        if "gaussian" in self.mechanism:
            return float(math.sqrt(self.variance) * -ndtri(probability))
        return float(self.sensitivity.l1 / self.price * -math.log(2 * probability))

    def event(self, size: int) -> PrivacyEvent:
        """What drawing noise for ``size`` sums will cost."""
        if self.mechanism == "gaussian":
            return GaussianEvent(self.price, size)
        if self.mechanism == "discrete_gaussian":
            return ZeroConcentratedEvent(self.price, "discrete Gaussian")
        if self.mechanism == "discrete_laplace":
            return PureEvent(self.price, "discrete Laplace")
        return LaplaceEvent(self.price) if size == 1 else PureEvent(self.price, "Laplace")

    def draw(self, sums: NDArray[Any], release: Release) -> FloatArray:
        """Noisy sums of integer ``sums``, of the same shape, as float64, in steps."""
        l1, l2 = self.sensitivity.l1, self.sensitivity.l2
        if self.mechanism == "gaussian":
            noisy = release.gaussian(sums, sensitivity=l2, noise_multiplier=self.price)
        elif self.mechanism == "discrete_gaussian":
            noisy = release.discrete_gaussian(sums, sensitivity=l2, rho=self.price)
        elif self.mechanism == "discrete_laplace":
            noisy = release.discrete_laplace(sums, sensitivity=l1, epsilon=self.price)
        else:
            noisy = release.laplace(sums, sensitivity=l1, epsilon=self.price)
        return np.asarray(noisy).astype(np.float64, copy=False)


def plan_label_noise(
    sensitivity: LabelSensitivity,
    size: int,
    *,
    epsilon: float,
    delta: float,
    mechanism: NoiseName = "auto",
    share: float = 1.0,
) -> LabelNoise:
    """Choose noise for label sums from public numbers.

    Parameters
    ----------
    sensitivity : LabelSensitivity
    size : int
        Number of sums.
    epsilon, delta : float
        Budget of the whole release.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}
        "auto" takes the smaller variance of "laplace" and, if ``delta > 0``, "gaussian". Laplace noise on counts is
        discrete. The two Gaussian mechanisms differ in the accounting only: "gaussian" is drawn on a fine lattice and
        priced by the exact curve of the Gaussian, "discrete_gaussian" is integer and priced by zero-concentrated
        privacy.
    share : float
        Part of the budget, in (0, 1]; draws of the same mechanism whose shares add up to 1 are within it.

    Raises
    ------
    ValueError
        If the mechanism is unknown, needs ``delta > 0``, or would need noise of a scale that cannot be drawn.
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {MECHANISMS}, got {mechanism!r}.")
    if "gaussian" in mechanism and not delta > 0:
        raise ValueError(f"mechanism={mechanism!r} needs delta > 0, got {delta!r}.")
    # Sums of prices, in floating point, must not pass the budget.
    margin = 1.0 if share == 1.0 else 1.0 - 2.0**-30
    candidates = []
    if mechanism in ("auto", "laplace"):
        # Steps of numbers are so fine that the lattice of the noise may be coarser; counts stay integers.
        name = "discrete_laplace" if sensitivity.steps < 1 << 20 else "laplace"
        candidates.append(LabelNoise(name, sensitivity, epsilon * share * margin))
    if mechanism == "gaussian" or (mechanism == "auto" and delta > 0):
        multiplier = gaussian_noise_multiplier(epsilon, delta, size=size) / (math.sqrt(share) * margin)
        candidates.append(LabelNoise("gaussian", sensitivity, multiplier))
    if mechanism == "discrete_gaussian":
        rho = share * margin * rho_of_epsilon(epsilon, delta)
        candidates.append(LabelNoise("discrete_gaussian", sensitivity, rho))
    chosen = min(candidates, key=lambda noise: noise.variance)
    if "discrete" in chosen.mechanism and chosen.variance > _LARGEST_SCALE**2:
        raise ValueError(f"epsilon={epsilon!r} is too small for mechanism={mechanism!r}: use a larger one.")
    return chosen
