"""Theory: bound (6) of Theorem 2 on the excess risk of learning from random bags."""

from __future__ import annotations

import math

import numpy as np

from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import public_generator, warn_caller

__all__ = ["empirical_rademacher", "excess_risk_bound"]

#: Below this share of rows outside a bag the factors of the bound are beyond any use.
_SMALL_REST = 0.01


def excess_risk_bound(
    *,
    n_samples: int,
    n_bags: int,
    bag_size: int,
    n_outputs: int = 1,
    rademacher_bags: float | FloatArray,
    rademacher_samples: float,
    beta: float = 0.05,
) -> float:
    """Upper bound on R(ĥ) − inf R, with probability 1 − beta (Theorem 2, bound (6)).

    Parameters
    ----------
    n_samples : int
        N, number of rows that bags are drawn from.
    n_bags : int
        n, number of bags, drawn independently.
    bag_size : int
        m < N.
    n_outputs : int
        K.
    rademacher_bags : float or array of shape (n_outputs,)
        Rademacher complexity for n rows, of each output of the class.
    rademacher_samples : float
        Flattened Rademacher complexity (all outputs together) for N rows.
    beta : float
        Failure probability, in (0, 1); the paper's δ is a quarter of it.

    Returns
    -------
    float
        ``inf`` for m = N.

    See Also
    --------
    empirical_rademacher : Estimates the complexity in the bound.
    RandomBagRegressor : Fits the model of the theorem.

    Notes
    -----
    The third term of (6) prints the plain complexity 𝔑 where Lemma 5 derives the flattened one for n rows; for
    outputs that vary separately, that is the sum over outputs, which is used. The statement is for bags that are drawn
    independently and one-bit labels; it is a guide to how the risk grows with m and shrinks with n, not a certificate.

    Examples
    --------
    >>> from skprivate.aggregate.theory import excess_risk_bound
    >>> bounds = [
    ...     excess_risk_bound(
    ...         n_samples=10**6, n_bags=10**5, bag_size=m, rademacher_bags=1e-3, rademacher_samples=1e-4
    ...     )
    ...     for m in (1, 16)
    ... ]
    >>> bounds[0] < 0.1 < bounds[1]
    True
    """
    if not 1 <= bag_size <= n_samples:
        raise ValueError(f"bag_size must be between 1 and n_samples={n_samples}, got {bag_size}.")
    if n_bags < 1 or n_outputs < 1:
        raise ValueError(f"n_bags and n_outputs must be at least 1, got {n_bags} and {n_outputs}.")
    if not 0 < beta < 1:
        raise ValueError(f"beta must be in (0, 1), got {beta!r}.")
    if bag_size == n_samples:
        return math.inf
    N, n, m, K = n_samples, n_bags, bag_size, n_outputs
    if N - m < _SMALL_REST * N:
        warn_caller(
            f"bags of {m} out of {N} rows are nearly all rows: bound (6) blows up as N - m goes to 0.",
            UserWarning,
        )
    delta = beta / 4
    own = float(np.sum(np.broadcast_to(rademacher_bags, (K,))))
    first = 8 * (m - 1) * N / (N - m) * (own + K * math.sqrt(math.log(2 * m * K / delta) / (2 * n)))
    second = 2 * (4 * math.sqrt(2 * K) * rademacher_samples + math.sqrt(math.log(2 / delta) / (2 * N)))
    third = (
        2 * m * (N - 1) / (N - m) * (4 * math.sqrt(2 * K) * own + math.sqrt(math.log(2 / delta) / (2 * n)))
    )
    return first + second + third


def empirical_rademacher(
    X: FloatArray, n_rows: int, radius: float, *, n_draws: int = 32, random_state: int | None = 0
) -> float:
    """Empirical Rademacher complexity of {x ↦ w·x : ‖w‖ ≤ radius} for ``n_rows`` rows drawn from X.

    The supremum is radius·‖Σσᵢxᵢ‖/n in closed form; its mean over signs and rows is estimated by simulation.

    Parameters
    ----------
    X : ndarray, shape (n_samples, n_features)
        Public features.
    n_rows : int
    radius : float
    n_draws : int
    random_state : int or None
        Of the public randomness.

    Returns
    -------
    float

    See Also
    --------
    excess_risk_bound : Bounds the risk by it.
    """
    rng = public_generator(random_state)
    norms = []
    for _ in range(n_draws):
        # Σσᵢxᵢ over n rows drawn with replacement: each row's signs add up to a binomial step count.
        drawn = rng.multinomial(n_rows, np.full(X.shape[0], 1 / X.shape[0]))
        signs = 2 * rng.binomial(drawn, 0.5) - drawn
        norms.append(float(np.linalg.norm(signs @ X)))
    return radius * float(np.mean(norms)) / n_rows
