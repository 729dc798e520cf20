"""Learning from aggregated labels, as published: Chen, Fu, Karbasi, Mirrokni 2023.

Curated bags and the gradient of Theorem 1, the risk of random bags that Theorem 2 minimises, and its bound (6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.aggregate import debiasing
from skprivate.privacy import public_generator, warn_caller

__all__ = ["bag_gradient", "curated_bags", "debiased_risk", "empirical_rademacher", "excess_risk_bound"]

FloatArray = NDArray[np.float64]

#: Below this share of rows outside a bag the factors of the bound are beyond any use.
_SMALL_REST = 0.01


def curated_bags(X: ArrayLike, features: Sequence[int]) -> NDArray[np.int64]:
    """Group rows by their values of some features: CuratedBags(C).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Public features.
    features : sequence of int
        C. MultiCuratedBags calls this once a set.

    Returns
    -------
    ndarray of shape (n_samples,)
        The bag of each row, numbered from 0.

    See Also
    --------
    skprivate.make_curated_bags : Releases label sums of several sets.
    """
    return np.unique(np.asarray(X)[:, list(features)], axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def bag_gradient(means: ArrayLike, bags: NDArray[np.int64], label_sums: ArrayLike) -> FloatArray:
    """Gradient of the training loss in a submodel's outputs on bags, from label sums alone: Theorem 1.

    Parameters
    ----------
    means : array-like of shape (n_samples, n_outputs)
        ∇b(ŷ) of each row's scores: for the squared loss the scores, for the log loss the probabilities.
    bags : ndarray of shape (n_samples,)
        From `curated_bags`.
    label_sums : array-like of shape (n_bags, n_outputs)
        Σ T(y) over each bag.

    Returns
    -------
    ndarray of shape (n_bags, n_outputs)
        Σ over the rows of a bag of ∂ℓ/∂ŷ. The same, times ∂f/∂β, is the gradient in the parameters of f.

    See Also
    --------
    skprivate.CuratedBagGAMClassifier : Learns from it.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.aggregates import bag_gradient, curated_bags
    >>> X, y = np.array([[0], [0], [1]]), np.array([[1.0], [0.0], [1.0]])
    >>> bags = curated_bags(X, [0])
    >>> bag_gradient(np.full((3, 1), 0.5), bags, [[1.0], [1.0]])
    array([[ 0. ],
           [-0.5]])
    """
    sums = np.asarray(label_sums, dtype=np.float64)
    gradient = np.zeros_like(sums)
    np.add.at(gradient, bags, np.asarray(means, dtype=np.float64))
    return gradient - sums


def debiased_risk(predictions: ArrayLike, bags: NDArray[np.int64], bag_labels: ArrayLike, *, n_samples: int) -> float:
    """Empirical risk of random bags that Theorem 2 minimises.

    Parameters
    ----------
    predictions : array-like of shape (n_samples, n_outputs)
        h(x) of each row.
    bags : ndarray of int of shape (n_bags, m)
        Rows of each bag, drawn without replacement.
    bag_labels : array-like of shape (n_bags, n_outputs)
        Mean labels, or one bit with that mean.
    n_samples : int
        N, number of rows that bags were drawn from.

    Returns
    -------
    float
        (1/n) Σ ‖r_i‖² − (m − 1)N/(m(N − 1)) ‖(1/n) Σ r_i‖², with r_i the mean prediction of bag i less its label.

    See Also
    --------
    excess_risk_bound : Bounds the risk of its minimiser.
    skprivate.RandomBagRegressor : Minimises it with ``loss="debiased"``.
    """
    values = np.asarray(predictions, dtype=np.float64)
    residuals = values[bags].mean(axis=1) - np.asarray(bag_labels, dtype=np.float64)
    factor = float(debiasing(bags.shape[1], n_samples))
    return float((residuals**2).sum(axis=1).mean() - factor * (residuals.mean(axis=0) ** 2).sum())


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
    skprivate.RandomBagRegressor : Fits the model of the theorem.

    Notes
    -----
    The third term of (6) prints the plain complexity 𝔑 where Lemma 5 derives the flattened one for n rows; for
    outputs that vary separately, that is the sum over outputs, which is used. The statement is for bags that are drawn
    independently and one-bit labels; it is a guide to how the risk grows with m and shrinks with n, not a certificate.

    Examples
    --------
    >>> from skprivate.papers.aggregates import excess_risk_bound
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
            f"bags of {m} out of {N} rows are nearly all rows: bound (6) blows up as N - m goes to 0.", UserWarning
        )
    delta = beta / 4
    own = float(np.sum(np.broadcast_to(rademacher_bags, (K,))))
    first = 8 * (m - 1) * N / (N - m) * (own + K * math.sqrt(math.log(2 * m * K / delta) / (2 * n)))
    second = 2 * (4 * math.sqrt(2 * K) * rademacher_samples + math.sqrt(math.log(2 / delta) / (2 * N)))
    third = 2 * m * (N - 1) / (N - m) * (4 * math.sqrt(2 * K) * own + math.sqrt(math.log(2 / delta) / (2 * n)))
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
