"""What no user-level private method can do better: minimax lower bounds with explicit constants."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from scipy.stats import binom

from skprivate._messages import member, number, positive
from skprivate.privacy import Adjacency
from skprivate.user_level._planning import _whole

#: Blocks of exchanges that are told apart.
_MOST_BLOCKS = 1 << 12


def user_level_lower_bound(
    n_users: int,
    rows_per_user: float,
    n_features: int = 1,
    *,
    epsilon: float,
    radius: float,
    delta: float = 0.0,
    deviation: float = 1.0,
    adjacency: str = "replace-one",
) -> float:
    r"""Error that every user-level private mean has somewhere, however it is computed.

    For each (ε, δ)-private algorithm there is a point θ with entries of size at most ``radius`` such that its root mean
    squared Euclidean error on users with independent rows from N(θ, σ²I) is at least this.

    Parameters
    ----------
    n_users : int >= 1
        Number of users n, public.
    rows_per_user : float >= 1
        Rows m of each user; ``inf`` for users who are known exactly.
    n_features : int >= 1, default=1
        Dimension d.
    epsilon : float > 0
        Privacy budget ε for a user with all rows.
    radius : float > 0
        How far from a known point every coordinate of the mean may lie. Nothing holds without such a range: the error
        of the best private mean grows with it, if only as e^(−nε/2).
    delta : float in [0, 1), default=0.0
        Privacy budget δ.
    deviation : float > 0, default=1.0
        Standard deviation σ of one row in one feature.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        An exchange is one step, or two.

    Returns
    -------
    float
        Of order σ√d(1/√(mn) + 1/(nε√m)) (Theorem 6 of the reference, with constants), and radius·√d·e^(−nε/2) for ever
        so many rows (its Appendix A).

    Raises
    ------
    TypeError, ValueError
        If a parameter is of another type or outside its range.

    Notes
    -----
    Assouad's argument. Let θ = s·v with signs v. In every coordinate an algorithm errs in the sign for one of two
    values of :math:`v_j` with probability at least :math:`1 - TV` in all, so its mean squared error is at least
    :math:`d s^2 (1 - TV)/2` on average over v, where TV is the distance of its outputs for the two. That is at most
    :math:`2\Phi(s\sqrt{mn}/\sigma) - 1` whatever the algorithm; and at most :math:`E\,g(K)` for a private one: all
    users can be drawn together so that K, binomial with the probability :math:`2\Phi(s\sqrt m/\sigma) - 1` of one,
    differ between the two, and after k exchanges an (ε, δ)-private output has moved by at most :math:`g(k) =
    \tanh(k\epsilon/2) + 2\delta_k/(e^{k\epsilon} + 1)` with :math:`\delta_k = \delta(e^{k\epsilon} -
    1)/(e^\epsilon - 1)`. The bound is the largest over s up to ``radius``.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021, Theorem 6.
    Acharya, Sun, Zhang: Differentially private Assouad, Fano, and Le Cam. ALT 2021.

    Examples
    --------
    >>> from skprivate.user_level import user_level_lower_bound
    >>> round(user_level_lower_bound(1000, 10, epsilon=0.01, radius=1.0), 3)
    0.028
    >>> round(user_level_lower_bound(3, float("inf"), epsilon=1.0, radius=1.0), 3)
    0.218
    """
    _whole("n_users", n_users)
    _whole("n_features", n_features)
    if rows_per_user != math.inf:
        number("rows_per_user", rows_per_user, "a number >= 1, or inf", lambda value: value >= 1)
    positive("epsilon", epsilon)
    number("delta", delta, "a number in [0, 1)", lambda value: 0 <= value < 1)
    positive("deviation", deviation)
    positive("radius", radius)
    if member(Adjacency, "adjacency", adjacency) is Adjacency.ADD_REMOVE:
        delta = min(1.0, delta * (1.0 + math.exp(min(epsilon, 700.0))))
        epsilon = 2.0 * epsilon
    if math.isinf(rows_per_user):
        return radius * math.sqrt(0.5 * n_features * (1.0 - float(_moved(n_users, 1.0, epsilon, delta))))
    spread = deviation / math.sqrt(rows_per_user)

    def bound(log_size: float) -> float:
        """For signs of this size, in deviations of a user's mean, of one coordinate."""
        size = math.exp(log_size)
        plain = 2.0 * float(ndtr(size * math.sqrt(n_users))) - 1.0
        private = _moved(n_users, 2.0 * float(ndtr(size)) - 1.0, epsilon, delta)
        return size * math.sqrt(0.5 * max(0.0, 1.0 - min(plain, private)))

    most = math.log(radius / spread)
    grid = np.linspace(min(math.log(1e-3 / n_users), most - 1.0), most, 200)
    best = int(np.argmax([bound(x) for x in grid.tolist()]))
    near = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    refined = minimize_scalar(lambda x: -bound(x), bounds=near, method="bounded")
    each = max(bound(float(grid[best])), -float(refined.fun))
    return each * spread * math.sqrt(n_features)


def _moved(n: int, probability: float, epsilon: float, delta: float) -> float:
    """Total variation by which outputs move if each of n users is exchanged with this probability, at most.

    What k exchanges move rises with k. Where there are too many k to look at each, a block of them counts as its last:
    memory does not depend on the parameters, and a bound on the error stays one.
    """
    law = binom(n, min(1.0, probability))
    enough = 40.0 / epsilon  # exchanges that move an output by all but e⁻⁴⁰
    middle, spread = float(law.mean()), float(law.std())
    first = math.floor(max(0.0, min(middle - 13.0 * spread - 40.0, enough)))
    last = math.ceil(min(float(n), enough, middle + 13.0 * spread + 40.0))
    k = np.unique(np.linspace(first, last, min(last - first + 1, _MOST_BLOCKS)).astype(np.int64))
    exponent = np.minimum(k * epsilon, 700.0)
    group = delta * np.expm1(exponent) / math.expm1(min(epsilon, 700.0))
    moved = np.minimum(1.0, np.tanh(exponent / 2.0) + 2.0 * group / (np.exp(exponent) + 1.0))
    # Blocks of one are taken from the law itself: a difference of two sums near one has no small numbers.
    mass = np.where(np.diff(k, prepend=k[0] - 1) == 1, law.pmf(k), np.diff(law.cdf(k), prepend=0.0))
    mass[0] = law.cdf(k[0])
    return float(min(1.0, mass @ moved + law.sf(k[-1])))
