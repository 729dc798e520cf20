"""The bounds of Diaz, Kairouz, Liao and Sankar (2019) as they stand in the paper, to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate._messages import must_be, number, one_of
from skprivate._sklearn import check_class_labels
from skprivate.audit._certificates import certify_labels
from skprivate.audit._class_outputs import as_labels, is_labels
from skprivate.audit._networks import fit_network
from skprivate.audit._support import inside_support, support_diameter
from skprivate.audit._theorems import theorem1_gap, theorem2_gap, theorem3_gap
from skprivate.privacy import public_generator

__all__ = ["TheoremBound", "theorem_bound"]


@dataclass(frozen=True)
class TheoremBound:
    """What one of the paper's three theorems says.

    Attributes
    ----------
    theorem : int
        1 for real outputs, 2 for labels under the squared loss, 3 for labels under the log loss.
    empirical_loss : float
        Of the adversary that was fitted.
    gap : float
        What the theorem subtracts.
    loss_lower_bound : float
        The difference, at least 0.
    proven : bool
        False for Theorem 1: it speaks of the smallest empirical loss of all networks, which is NP-hard to compute. A
        trained network bounds it from above only, so the figure is as good as the training was.
    """

    theorem: int
    empirical_loss: float
    gap: float
    loss_lower_bound: float
    proven: bool


def theorem_bound(
    T: Any,
    S: npt.ArrayLike,
    *,
    loss: str = "squared",
    barron_constant: float | None = None,
    support: Any = None,
    n_neurons: int = 100,
    n_restarts: int = 3,
    confidence: float = 0.99,
    random_state: int | None = None,
) -> TheoremBound:
    """The paper's own lower bound on the loss of every adversary; `FiniteAdversaryAuditor` has a sharper one.

    Parameters
    ----------
    T : array-like of shape (n,) or (n, q)
        Labels (Theorems 2 and 3), or real outputs (Theorem 1).
    S : array-like of shape (n,)
        The sensitive bit, in any two values.
    loss : {"squared", "log"}, default="squared"
        The paper has no theorem for the log loss of real outputs.
    barron_constant : float or None, default=None
        Theorem 1: bound on Barron's constant of E[S | T].
    support : float, (float, float) or None, default=None
        Theorem 1: radius of the ball, or sides of the cube, that holds T.
    n_neurons : int, default=100
        Theorem 1: width of the networks.
    n_restarts : int, default=3
        Theorem 1: random starts of the training.
    confidence : float, default=0.99
        In (0, 1).
    random_state : int, RandomState or None, default=None
        Public randomness of the starts.

    Returns
    -------
    TheoremBound

    Raises
    ------
    ValueError
        If the constants of Theorem 1 are missing, or n is too small for Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import theorem_bound
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=10_000)
    >>> bound = theorem_bound(np.where(rng.random(10_000) < 0.2, s, 1), s)
    >>> bound.theorem, bound.proven, bool(bound.loss_lower_bound < bound.empirical_loss)
    (2, True, True)
    """
    if loss not in ("squared", "log"):
        raise ValueError(must_be("loss", one_of(("squared", "log")), loss))
    number("confidence", confidence, "a number in (0, 1)", lambda value: 0 < value < 1)
    bits = as_labels(S, "S")
    check_class_labels(bits)
    classes, coded = np.unique(bits, return_inverse=True)
    if classes.size != 2:
        raise ValueError(must_be("S", "a bit that takes two values", f"{classes.size} of them"))
    s = np.where(coded == 1, 1.0, -1.0)
    if is_labels(T):
        values, codes = np.unique(as_labels(T, "T"), return_inverse=True)
        empirical = certify_labels(codes, s, values.size, loss=loss).empirical_loss
        squared = loss == "squared"
        gap = theorem2_gap(s.size, confidence) if squared else theorem3_gap(s.size, values.size, confidence)
        return TheoremBound(2 if squared else 3, empirical, gap, max(0.0, empirical - gap), True)
    points = np.asarray(T, dtype=np.float64)
    if points.ndim != 2:
        raise ValueError(must_be("T", "of shape (n, q), or labels", f"shape {points.shape}"))
    if loss == "log":
        raise ValueError(
            "loss must be 'squared' for real outputs: the paper has no theorem for their log loss."
        )
    if barron_constant is None or support is None:
        raise ValueError(
            "Theorem 1 needs barron_constant and support: no finite sample bounds them from above."
        )
    if not inside_support(points, support).all():
        raise ValueError(f"T must lie inside support={support!r}.")
    variation = float(barron_constant) * support_diameter(support, points.shape[1])
    _, empirical = fit_network(points, s, n_neurons, public_generator(random_state), n_restarts=n_restarts)
    gap = theorem1_gap(s.size, n_neurons, variation, confidence)
    return TheoremBound(1, empirical, gap, max(0.0, empirical - gap), False)
