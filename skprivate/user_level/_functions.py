"""Functions that a step before made of features: how much of each feature's is likely to be more than error.

Released numbers in, released numbers out: applied after a descent it draws nothing and costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, softmax

FloatArray = npt.NDArray[np.float64]

#: Variance of the coefficients of a feature's functions, in that of a line's, before anything is known: effects have a
#: deviation of 1, what bends them has one of 1/4, or nothing would be left of a line. They are penalised for sampling
#: accordingly, and as evidence that counts for a part of one coefficient.
PRIOR, PRIOR_COUNT = 1.0 / 16.0, 0.1
#: A coefficient of which steps and penalty left less says nothing.
LEAST_PART = 1e-6
#: Rounds of the search for the likeliest variance.
ROUNDS = 50
#: Points of a mean over normal scores, and their weights.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


class Function(NamedTuple):
    """A column that was made of a feature by public rules and released numbers.

    Attributes
    ----------
    feature : int
        Number of the feature.
    deviation : float
        Standard deviation that the column was made to have; 0 where that is not known, or where it is a line.
    """

    feature: int
    deviation: float


class Estimate(NamedTuple):
    """What is known of how coefficients were found.

    Attributes
    ----------
    curvature : ndarray of shape (n_outputs,)
        Mean curvature of the loss in the score of each output.
    noise : float
        Standard deviation of an entry of the mean gradient by the noise of all steps together.
    n_users : float
    penalties : ndarray of shape (n_coef,)
        Strength of the penalty of each coefficient.
    times : ndarray of shape (n_iterates,)
        How long the iterates whose mean the coefficients are have followed gradients: sums of steps.
    spreads : ndarray of shape (n_coef,), optional
        Diagonal of the inverse second moments, where the descent was in whitened coordinates.
    """

    curvature: FloatArray
    noise: float
    n_users: float
    penalties: FloatArray
    times: FloatArray
    spreads: FloatArray | None = None


def curvatures(coef: FloatArray, deviations: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Mean curvature, in the score of each output, of a loss of classes whose scores are normal.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_columns) or (n_outputs, n_columns + 1)
        Those beyond the columns are intercepts.
    deviations : ndarray of shape (n_columns,)
        Of the columns.
    weights : ndarray of shape (n_classes,), optional
        Of the classes, in the objective that was minimised.
    """
    tiny = np.finfo(np.float64).tiny
    slopes, base = coef[:, : len(deviations)], coef[:, len(deviations) :].sum(axis=1)
    if len(coef) > 1:
        base = logit(np.clip(softmax(base), tiny, 1.0 - 1e-12))
    spread = np.sqrt(np.square(slopes) @ np.square(deviations))
    chances = expit(base[:, None] + spread[:, None] * _POINTS)
    curvature = (chances * (1.0 - chances)) @ _WEIGHTS / _WEIGHTS.sum()
    if weights is not None:
        # Chances are those of weighted rows: a class has its part of them over its weight.
        parts = chances @ _WEIGHTS / _WEIGHTS.sum()
        parts = parts / parts.sum() if len(coef) > 1 else np.array([1.0 - parts[0], parts[0]])
        curvature = curvature / (parts @ (1.0 / weights))
    return np.asarray(np.maximum(curvature, tiny))


def evident_functions(
    coef: FloatArray, functions: tuple[Function | None, ...], estimate: Estimate
) -> FloatArray:
    """Coefficients in which each feature's functions are left as far as there is evidence for them.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_coef)
        Of standardised features and functions, and intercepts.
    functions : tuple of length n_columns
        None for a column that is no function.
    estimate : Estimate

    Returns
    -------
    ndarray of shape (n_outputs, n_coef)
        Of the same signs, and none larger.

    Notes
    -----
    Coefficients b of one feature's functions are taken as normal with a common variance τ, their estimates as normal
    about a part f of them, which penalty and steps left, with variance f²v. MacKay's rule τ ← Σ (γ b̂/f)² / Σ γ,
    γ = τ/(τ + v), leads to the likeliest τ, or towards 0 where nothing is evident; the mean of b is then γ b̂/f.
    Functions are made to be uncorrelated, so each is looked at by itself.
    """
    known = [(j, each) for j, each in enumerate(functions) if each is not None and each.deviation]
    if not known:
        return coef
    columns = np.array([j for j, _ in known])
    groups = np.unique([each.feature for _, each in known], return_inverse=True)[1]
    squares = np.array([each.deviation for _, each in known]) ** 2
    part, errors = _errors(squares, columns, estimate)

    def sums(values: FloatArray) -> FloatArray:
        """Of all outputs and functions of each feature."""
        return np.bincount(groups, values.sum(axis=0)).astype(np.float64)

    found = coef[:, columns] / part
    variance = np.full(groups.max() + 1, PRIOR)
    for _ in range(ROUNDS):
        kept = variance[groups] / (variance[groups] + errors)
        evidence = sums(np.square(kept * found)) + PRIOR_COUNT * PRIOR
        variance = evidence / (sums(kept) + PRIOR_COUNT)
    left = np.minimum(1.0, variance[groups] / (variance[groups] + errors) / part)
    result = coef.copy()
    result[:, columns] *= np.where(np.isfinite(left), left, 1.0)  # of numbers whose squares overflow
    return result


def _errors(
    squares: FloatArray, columns: npt.NDArray[np.intp], estimate: Estimate
) -> tuple[FloatArray, FloatArray]:
    """The part of coefficients that estimates are about, and the variance of estimates divided by it.

    Gradients have the noise that was drawn, and what varies between users: for a likelihood its curvature over their
    number, and about as much for the squared loss of a target of scale 1.
    """
    h, penalties = estimate.curvature[:, None], estimate.penalties[columns]
    if estimate.spreads is None:
        spread, loud = 1.0 / squares, 1.0 / squares**2
        steep = h * squares + penalties
    else:  # noise is alike in whitened coordinates, and so are curvatures
        spread = loud = estimate.spreads[columns]
        steep = h + penalties * spread
    reached = -np.expm1(-steep[..., None] * estimate.times).mean(axis=-1)
    part = np.maximum(h * squares / (h * squares + penalties) * reached, LEAST_PART)
    return part, (estimate.noise / h) ** 2 * loud + spread / (h * estimate.n_users)
