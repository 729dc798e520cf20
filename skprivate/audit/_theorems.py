"""Theorems 1–3 of Diaz, Kairouz, Liao and Sankar (2019) and the quantities they need."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.special import ndtr

from skprivate.audit._concentration import binary_entropy

__all__ = [
    "barron_constant",
    "gaussian_mixture_barron_constant",
    "gaussian_mixture_loss",
    "theorem1_gap",
    "theorem2_gap",
    "theorem3_gap",
]

Array = npt.NDArray[np.float64]


def theorem1_gap(n: int, n_neurons: int, variation: float, confidence: float) -> float:
    """Gap of Theorem 1, equations (22) and (24): squared loss, k hidden neurons.

    ``(2 + D)² √(ln(1/α)/(2n)) + D²/k + 4D/√k`` with ``D = Dia(K) C_η``. The factor 2 inside the root of the
    proof's equation (31) is a slip: Hoeffding's inequality for a loss in [0, (2 + D)²] has none, as have (22)
    and (49).

    Parameters
    ----------
    n : int
        Number of audited observations.
    n_neurons : int
        Width k of the hidden layer.
    variation : float
        D, diameter of the support times Barron's constant.
    confidence : float
        1 − α, in (0, 1).

    Returns
    -------
    float
        The gap: true minimum ≥ minimal empirical loss over the networks − gap.
    """
    sampling = (2.0 + variation) ** 2 * math.sqrt(-math.log1p(-confidence) / (2.0 * n))
    return sampling + variation**2 / n_neurons + 4.0 * variation / math.sqrt(n_neurons)


def theorem2_gap(n: int, confidence: float) -> float:
    """Gap of Theorem 2, equation (34): squared loss, T in a finite alphabet; ``2 √(2 ln(1/α)/n)``.

    Parameters
    ----------
    n : int
        Number of independent observations.
    confidence : float
        Probability with which the gap holds, in (0, 1).

    Returns
    -------
    gap : float
        In the units of the loss.
    """
    return 2.0 * math.sqrt(-2.0 * math.log1p(-confidence) / n)


def theorem3_gap(n: int, n_values: int, confidence: float) -> float:
    """Gap of Theorem 3, equation (37): log loss (nats), T in an alphabet of ``n_values``.

    ``h_b(√((2d + ln(1/α))/n))``, stated for ``n ≥ 4(2d + ln(1/α))`` only.

    Parameters
    ----------
    n : int
        Number of independent observations.
    n_values : int
        Size d of the alphabet.
    confidence : float
        Probability with which the gap holds, in (0, 1).

    Returns
    -------
    gap : float
        In the units of the loss.

    Raises
    ------
    ValueError
        If ``n`` is too small for the theorem.
    """
    numerator = 2.0 * n_values - math.log1p(-confidence)
    if n < 4.0 * numerator:
        raise ValueError(
            f"Theorem 3 needs n >= 4(2d + ln(1/(1 - confidence))) = {4.0 * numerator:.1f} observations for "
            f"d = {n_values} "
            f"values; got n = {n}. Use certificate='convex', which needs no minimum."
        )
    return binary_entropy(math.sqrt(numerator / n))


def gaussian_mixture_barron_constant(mean: npt.ArrayLike, scale: float = 1.0) -> float:
    """Barron's constant of η when ``T | S ~ N(S·mean, scale² I)``, for any prior of S: ``‖mean‖ / scale²``.

    ``η(t) = tanh(mean·t/scale² + ½ ln(λ/(1−λ)))``; the Fourier transform of ``sech²`` is positive, so the
    integral of its modulus is ``sech²`` at 0 (equations (44)–(48), extended to a prior λ and a scale: a shift
    changes no modulus).

    Parameters
    ----------
    mean : float or array-like of shape (n_features,)
        Mean of T given S = 1.
    scale : float, default=1.0
        Standard deviation of each coordinate.

    Returns
    -------
    constant : float
        In units of one over T.

    Examples
    --------
    >>> from skprivate.audit import gaussian_mixture_barron_constant
    >>> gaussian_mixture_barron_constant(0.1)
    0.1
    """
    return float(np.linalg.norm(np.atleast_1d(np.asarray(mean, dtype=float)))) / scale**2


def gaussian_mixture_loss(mean: float, radius: float = 3.0) -> float:
    """Minimum mean squared error of S from T, equation (50).

    S is ±1 with equal probability and ``T | S ~ N(S·mean, 1)`` truncated to ``[−radius, radius]``.

    Parameters
    ----------
    mean : float
        Mean of T given S = 1, before it is truncated.
    radius : float, default=3.0
        Where T is truncated.

    Returns
    -------
    loss : float
        Between 0 and 1.

    Examples
    --------
    >>> from skprivate.audit import gaussian_mixture_loss
    >>> round(gaussian_mixture_loss(0.1), 4)
    0.9904
    """
    mass = float(ndtr(radius + mean) - ndtr(-radius + mean))
    integral = quad(
        lambda t: math.exp(-((t + mean) ** 2) / 2.0) / (1.0 + math.exp(-2.0 * mean * t)),
        -radius,
        radius,
        epsabs=1e-13,
    )[0]
    return math.sqrt(2.0 / math.pi) / mass * integral


def barron_constant(
    function: Callable[[Array], npt.ArrayLike], low: float, high: float, *, n_points: int = 2**14
) -> float:
    """Barron's constant ``(2π)^{−1/2} ∫ |ω| |η̂(ω)| dω`` of a function of one variable, by FFT.

    On a grid the constant is the mean modulus of the discrete Fourier transform of the increments times the
    number of points: ``Σ_k |DFT(Δη)_k| / N``.

    Parameters
    ----------
    function : callable
        η, vectorised, on the whole line (an extension of the posterior mean beyond the support).
    low, high : float
        Interval outside which η is constant for practical purposes (its increments vanish at both ends).
    n_points : int, default=2**14
        Grid points.

    Returns
    -------
    float
        The constant. It is a number for a *given* η; no finite sample bounds it from above.

    Raises
    ------
    ValueError
        If η still changes at the ends of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import barron_constant
    >>> round(barron_constant(lambda t: np.tanh(0.5 * t), -60, 60), 4)
    0.5
    """
    grid = np.linspace(low, high, n_points + 1)
    increments = np.diff(np.asarray(function(grid), dtype=float))
    step = (high - low) / n_points
    derivative = increments / step
    largest = float(np.abs(derivative).max(initial=0.0))
    if largest > 0.0 and max(abs(derivative[0]), abs(derivative[-1])) > 1e-3 * largest:
        raise ValueError(
            f"The function still changes at the ends of [{low}, {high}]: widen the interval, or extend the "
            "function so "
            "that it becomes constant."
        )
    return float(np.abs(np.fft.fft(derivative)).sum() / n_points)
