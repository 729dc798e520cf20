"""What of a classifier follows from its noise: clipping radius and penalty. Public numbers in, decisions out."""

from __future__ import annotations

import math
from typing import Any

from skprivate.user_level._losses import LogisticLoss, MultinomialLoss, SmoothedHingeLoss

#: Part of its curvature at the origin that a loss has on average: rows that are well classified or clipped have none.
CURVED = 0.5
#: Least clipping radius, in norms of a row, of "auto", and that of "robust": users that are classified well enough are
#: below it, so that noise falls with it.
LEAST_CLIP = 0.2
#: Largest noise levels that a penalty follows.
MOST_LEVEL, MOST_FLAT_LEVEL = 0.15, 0.5
#: An intercept that is penalised counts for so much of a slope: log odds vary more than slopes do.
INTERCEPT_PART = 0.5
#: Largest clipping radius over that of the residuals at the origin, where the noise costs a quarter of `EXAGGERATION`:
#: with it the rows of rare classes are not clipped either, whose residuals are larger than at the origin.
MOST_CLIP = 2.0
#: Excess log loss of weak effects that are fitted with `LEAST_CLIP`, as measured: so much noise is worth avoiding it.
EXAGGERATION = 0.08


def first_residual(loss: Any, n_outputs: int) -> float:
    """Norm of a row's residual at the origin, `LEAST_CLIP` where that is not known.

    The least clipping radius, in norms of a row, at which the slope at the origin is that of the mean: a smaller one
    has no less noise there, since all votes are of norm 1 already, and exaggerates weak effects.
    """
    if isinstance(loss, LogisticLoss):
        return 0.5
    if isinstance(loss, MultinomialLoss):
        return math.sqrt(1.0 - 1.0 / n_outputs)
    return 1.0 if isinstance(loss, SmoothedHingeLoss) else LEAST_CLIP


def clip_noise(loss: Any, n_outputs: int) -> float:
    """c·√d·ν such that the noise of a clipping radius of c norms of a row costs `EXAGGERATION`; 0 if not known.

    The coefficients of `noise_ridge` without a penalty make the loss larger by ½·H times their variance.
    """
    curvature = CURVED * curvature_at_origin(loss, n_outputs)
    return math.sqrt(2.0 * EXAGGERATION * n_outputs * curvature)


def noise_ridge(loss: Any, n_outputs: int) -> float:
    """Strength of the penalty that balances noise and signal, in units of c²·d·ν², d coefficients in all.

    Coordinates of a gradient have noise of variance c²·δ·ν²/d for a clipping radius of c norms √δ of a row,
    δ = d/n_outputs. With curvature H the coefficients have H⁻² times that, and the best shrinkage of a coefficient of
    variance 1/δ, a logit of deviation 1, is by H/(H + α) with α = c²·δ²·ν²/(d·H).
    """
    curvature = CURVED * curvature_at_origin(loss, n_outputs)
    return 1.0 / (n_outputs**2 * curvature) if curvature else 0.0


def noise_penalty(ridge: float, level: float, clip: float, width: float, size: int, flat: bool) -> float:
    """Strength of the penalty.

    Where all users are clipped at the origin the loss has no curvature there, and noise of norm c·√δ·ν carries the
    coefficients as far as the penalty lets it: c·√δ·ν/√k leaves the k outputs a norm of 1 each. Both stop growing where
    the projection radius shrinks instead: a pull much stronger than the votes would leave nothing of these after
    clipping.

    Parameters
    ----------
    ridge : float
        `noise_ridge`.
    level : float
        Noise level ν.
    clip : float
        Clipping radius c in norms of a row.
    width : float
        Coefficients δ of one output.
    size : int
        Coefficients of all.
    flat : bool
        Whether all users are clipped at the origin.
    """
    balanced = ridge * size * (clip * min(level, MOST_LEVEL)) ** 2
    return max(balanced, clip * width / math.sqrt(size) * min(level, MOST_FLAT_LEVEL)) if flat else balanced


def curvature_at_origin(loss: Any, n_outputs: int) -> float:
    """Curvature of a row's loss in one of its scores at the origin; 0 where that is not known."""
    if isinstance(loss, MultinomialLoss):
        return (1.0 - 1.0 / n_outputs) / n_outputs
    return 0.25 if isinstance(loss, (LogisticLoss, SmoothedHingeLoss)) else 0.0
