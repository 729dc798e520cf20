"""Bounds for learning with user-level privacy: Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh, NeurIPS 2021.

What the published algorithms lose at most (Theorems 4 and 5), and what every algorithm loses (Theorem 6, Section 6.2
and Appendix A), with constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from scipy.stats import binom, norm

from skprivate._messages import member, must_be, number, one_of, positive, whole_number
from skprivate.papers.user_level import Plan, coordinate_epsilon, padded_size, rotated_radius
from skprivate.privacy import Adjacency

__all__ = ["lower_bound", "risk_bound"]

Risk = Literal["empirical", "population"]

#: Candidates for numbers of steps, paces of a fixed step, and failure probabilities; the best are taken.
_STEPS = tuple(2**k for k in range(1, 41))
_PACES = (2.0, 4.0, 8.0, 16.0, 32.0)
_FAILURES = tuple(10.0**-k for k in range(2, 25, 2))
#: Largest number of blocks of exchanges.
_MOST_BLOCKS = 1 << 12


def risk_bound(
    n_users: int,
    rows_per_user: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float,
    radius: float,
    deviation: float,
    lipschitz: float,
    smoothness: float,
    risk: Risk = "population",
) -> float:
    r"""Excess risk that winsorised descent does not exceed on average: Theorems 4 and 5 with constants.

    For convex losses of d parameters θ with ‖θ‖ ≤ R, and independent users with independent rows. A bound for
    planning and for comparing rates: constants are those of the published algorithms, the estimators here do
    far better on data, and where it exceeds :math:`2GR` it says nothing and is that.

    Parameters
    ----------
    n_users : int >= 2
        Number of users n, public.
    rows_per_user : int >= 1
        Rows m of each user.
    n_features : int >= 1
        Number of parameters d.
    epsilon : float > 0
        Privacy budget ε for a user with all rows.
    delta : float in (0, 1)
        Privacy budget δ.
    radius : float > 0
        Radius R of the ball of parameters; the descent starts at its centre.
    deviation : float > 0
        σ: a row's gradient is its mean and a σ-sub-Gaussian vector.
    lipschitz : float > 0
        G: no row's gradient has a larger norm.
    smoothness : float > 0
        H: how fast a row's gradient changes with the parameters.
    risk : {"empirical", "population"}, default="population"
        "empirical": over the rows at hand, by Algorithm 4 (Theorem 4). "population": over the law of rows, by
        Algorithm 5 (Theorem 5).

    Returns
    -------
    float
        Of order Rσd/(nε√m), and GR/√(mn) beside it for the population, up to logarithms; in the units of the loss.

    Raises
    ------
    TypeError, ValueError
        If a parameter is of another type or outside its range.

    See Also
    --------
    lower_bound : Bounds the error of every private method.
    skprivate.user_level.user_level_mean_errors : Predicts the errors of `UserLevelMean`.

    Notes
    -----
    *Concentration* (Proposition 1). With a net of step r in the ball, all users' mean gradients are within
    :math:`\tau = \sigma m^{-1/2} (\sqrt d + \sqrt{2(\ln(n/\gamma) + d\ln(1 + 2R/r))}) + 2Hr` of their expectation
    wherever they are asked, but for a probability γ; here :math:`r = \sigma\sqrt{d/m}/2H`.

    *Noise* (Algorithms 2 and 3). Each of T directions is the mean gradient with noise of mean square
    :math:`\nu^2 = 2d(8\tau'/n\epsilon')^2`, but for γ and :math:`d(G/\tau')e^{-n\epsilon'/8}`; :math:`c = \nu/\sqrt T`
    hardly depends on T. Where that fails, the excess is at most 2GR.

    *Theorem 4.* The averaged iterate exceeds the least risk by :math:`HR^2/2T + Rc` (stochastic descent on a smooth
    loss with the best step), for the best T.

    *Theorem 5.* Phase s minimises with :math:`\lambda_s = 4^s\lambda` on :math:`n2^{-s}` users. Its exact minimiser
    has a risk at most :math:`\lambda_s D^2/2 + 2G^2/(\lambda_s m n 2^{-s})` above any point at a mean square distance
    of D² from the start (stability), and the descent ends within a mean square of
    :math:`4R^2e^{-2\lambda_s T/(H + 2\lambda_s + \lambda_s T/q)} + qc_s^2/2\lambda_s^2` of it, with a fixed step given
    by q (strong convexity). Sum, and choose λ and the number of phases.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021.
    Feldman, Koren, Talwar: Private stochastic convex optimization. STOC 2020.
    Bubeck: Convex optimization: algorithms and complexity. 2015, theorem 6.3.

    Examples
    --------
    >>> from skprivate.papers.user_level_bounds import risk_bound
    >>> loss = dict(radius=1.0, deviation=1.0, lipschitz=3.0, smoothness=1.0)
    >>> bound = risk_bound(10**7, 1000, 5, epsilon=1.0, delta=1e-9, **loss)
    >>> round(bound, 3)
    0.357
    """
    whole_number("n_users", n_users)
    whole_number("rows_per_user", rows_per_user)
    whole_number("n_features", n_features)
    positive("epsilon", epsilon)
    number("delta", delta, "a number in (0, 1)", lambda value: 0 < value < 1)
    slopes = {"lipschitz": lipschitz, "smoothness": smoothness}
    for name, value in {"radius": radius, "deviation": deviation, **slopes}.items():
        positive(name, value)
    if risk not in ("empirical", "population"):
        raise ValueError(f"risk must be {one_of(('empirical', 'population'))}, got {risk!r}.")
    problem = Smooth(
        n=n_users,
        m=rows_per_user,
        d=n_features,
        epsilon=epsilon,
        delta=delta,
        R=radius,
        sigma=deviation,
        G=lipschitz,
        H=smoothness,
    )
    best = problem.empirical() if risk == "empirical" else problem.population()
    return min(2.0 * lipschitz * radius, best)


@dataclass(frozen=True)
class Smooth:
    """Convex, smooth problem in the symbols of `risk_bound`."""

    n: int
    m: int
    d: int
    epsilon: float
    delta: float
    R: float
    sigma: float
    G: float
    H: float

    def concentration(self, n: int, gamma: float) -> float:
        """Compute τ of Proposition 1, uniformly over the ball."""
        d, spread = self.d, self.sigma / math.sqrt(self.m)
        net = spread * math.sqrt(d) / (2.0 * self.H)
        union = math.log(n / gamma) + d * math.log1p(2.0 * self.R / net)
        return spread * (math.sqrt(d) + math.sqrt(2.0 * union)) + 2.0 * self.H * net

    def noise(self, n: int, n_steps: int, gamma: float) -> tuple[float, float]:
        """Compute the root mean square noise of one of T directions over √T, and the chance that one of them exceeds
        it.
        """
        # The strong composition that prices a run holds for smaller ε, and a smaller ε is private at a larger one.
        epsilon = min(self.epsilon, math.log(2.0 / self.delta))
        padded = padded_size(self.d)
        plan = Plan(epsilon, self.delta, n_steps=n_steps, tau=1.0, bound=self.G, gamma=gamma, step=0.0, radius=self.R)
        each = coordinate_epsilon(plan.step_epsilon, plan.step_delta, padded)
        radius = rotated_radius(self.concentration(n, gamma), padded, n, gamma / n_steps)
        noise = math.sqrt(2.0 * padded) * 8.0 * radius / (n * each)
        missed = n_steps * padded * max(1.0, self.G / radius) * math.exp(-n * each / 8.0)
        return noise / math.sqrt(n_steps), min(1.0, 2.0 * gamma + missed)

    def empirical(self) -> float:
        """Evaluate Theorem 4."""

        def bound(n_steps: int, gamma: float) -> float:
            noise, failure = self.noise(self.n, n_steps, gamma)
            risk = self.H * self.R**2 / (2.0 * n_steps) + self.R * noise
            return risk + failure * 2.0 * self.G * self.R

        return min(bound(n_steps, gamma) for n_steps in _STEPS for gamma in _FAILURES)

    def population(self) -> float:
        """Evaluate Theorem 5, for the best λ of a grid."""
        start = self.G / (self.R * math.sqrt(self.m * self.n))
        return min(self._phased(start * 4.0**k, gamma) for k in range(-4, 24) for gamma in _FAILURES[::3])

    def _phased(self, base: float, gamma: float) -> float:
        risk, best = 0.0, math.inf
        distance = self.R**2  # mean square distance of a phase's start from what it is compared with
        for s in range(1, max(1, math.floor(math.log2(self.n))) + 1):
            n, penalty = max(1, self.n >> s), base * 4.0**s
            risk += penalty * distance / 2.0 + 2.0 * self.G**2 / (penalty * self.m * n)
            distance, failure = self._descended(n, penalty, gamma)
            risk += failure * 2.0 * self.G * self.R
            # If it is the last phase, what is left of its distance counts at full slope.
            best = min(best, risk + self.G * math.sqrt(distance))
        return best

    def _descended(self, n: int, penalty: float, gamma: float) -> tuple[float, float]:
        """Bound the mean square distance from the minimiser of a phase, and the chance of a failure."""
        found = []
        for n_steps in _STEPS[4::2]:
            noise, failure = self.noise(n, n_steps, gamma)
            squares = [
                4.0 * self.R**2 * math.exp(-2.0 * penalty * n_steps / (self.H + penalty * (2.0 + n_steps / q)))
                + q * noise**2 / (2.0 * penalty**2)
                for q in _PACES
            ]
            found.append((min(4.0 * self.R**2, *squares), failure))
        return min(found, key=lambda pair: pair[0] + pair[1] * 4.0 * self.R**2)


def lower_bound(
    n_users: int,
    rows_per_user: float,
    n_features: int = 1,
    *,
    epsilon: float,
    radius: float,
    delta: float = 0.0,
    deviation: float = 1.0,
    adjacency: str = "replace-one",
    n_candidates: int | None = None,
) -> float:
    r"""Error that every user-level private mean, or choice among candidates, has somewhere, however it is computed.

    For each (ε, δ)-private algorithm there is a point θ with entries of size at most ``radius`` such that its root mean
    squared Euclidean error on users with independent rows from N(θ, σ²I) is at least this. With ``n_candidates`` = K a
    row holds the losses of K candidates, and this is the expected risk of the chosen one above that of the best.

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
    n_candidates : int >= 2, optional
        Number of candidates K of a choice, in place of ``n_features``; σ is then the deviation of one row's loss.

    Returns
    -------
    float
        Of order σ√d(1/√(mn) + 1/(nε√m)) (Theorem 6 of the reference, with constants), and radius·√d·e^(−nε/2) however
        many the rows are (its Appendix A). Of a choice: of order σ(√(ln K/(mn)) + ln K/(nε√m)) (its Section 6.2).

    Raises
    ------
    TypeError, ValueError
        If a parameter is of another type or outside its range.

    See Also
    --------
    skprivate.user_level.user_level_mean_errors : Predicts the errors of `UserLevelMean`.
    risk_bound : Bounds the risk from above.

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

    Fano's argument for a choice. Let one of the candidates have a risk s below all others. An algorithm chooses it with
    probability c on average over which one it is. Draw the users for v and for w together, so that at most k differ
    with probability :math:`P_k`: the choice is v at most :math:`e^{k\epsilon}` times as often in the one case as in the
    other, but for :math:`\delta_k + 1 - P_k`. Summed over all pairs, :math:`1 - c \ge (K - 1)(P_k -
    \delta_k)/(e^{k\epsilon} + K - 1)` for every k. Without privacy the least sum of losses is the best choice. The
    bound is the largest :math:`s(1 - c)` over s up to twice the ``radius``.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021, Theorem 6.
    Acharya, Sun, Zhang: Differentially private Assouad, Fano, and Le Cam. ALT 2021.

    Examples
    --------
    >>> from skprivate.papers.user_level_bounds import lower_bound
    >>> round(lower_bound(1000, 10, epsilon=0.01, radius=1.0), 3)
    0.028
    >>> round(lower_bound(3, float("inf"), epsilon=1.0, radius=1.0), 3)
    0.218
    >>> round(lower_bound(1000, 10, epsilon=0.01, radius=1.0, n_candidates=64), 3)
    0.119
    """
    whole_number("n_users", n_users)
    whole_number("n_features", n_features)
    if rows_per_user != math.inf:
        number("rows_per_user", rows_per_user, "a number >= 1, or inf", lambda value: value >= 1)
    positive("epsilon", epsilon)
    number("delta", delta, "a number in [0, 1)", lambda value: 0 <= value < 1)
    positive("deviation", deviation)
    positive("radius", radius)
    if member(Adjacency, "adjacency", adjacency) is Adjacency.ADD_REMOVE:
        delta = min(1.0, delta * (1.0 + math.exp(min(epsilon, 700.0))))
        epsilon = 2.0 * epsilon
    if n_candidates is not None:
        whole_number("n_candidates", n_candidates)
        if n_candidates < 2 or n_features != 1:
            raise ValueError(
                must_be("n_candidates", "at least 2, without n_features", f"{n_candidates!r} and {n_features!r}")
            )
        wrong = partial(_wrong, n_candidates, n=n_users, epsilon=epsilon, delta=delta)
        return _largest(wrong, deviation / math.sqrt(rows_per_user), n_users, 2.0 * radius)
    misjudged = partial(_misjudged, n=n_users, epsilon=epsilon, delta=delta)
    return _largest(misjudged, deviation / math.sqrt(rows_per_user), n_users, radius) * math.sqrt(n_features)


def _largest(error: Callable[[float], float], spread: float, n_users: int, most: float) -> float:
    """Maximise size·error over sizes up to ``most``; ``error`` takes them in units of ``spread``, of a mean."""
    if spread == 0.0:
        return most * error(math.inf)

    def bound(log_size: float) -> float:
        size = math.exp(log_size)
        return size * error(size)

    end = math.log(most / spread)
    grid = np.linspace(min(math.log(1e-3 / n_users), end - 1.0), end, 200)
    best = int(np.argmax([bound(x) for x in grid.tolist()]))
    near = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    refined = minimize_scalar(lambda x: -bound(x), bounds=near, method="bounded")
    return max(bound(float(grid[best])), -float(refined.fun)) * spread


def _misjudged(size: float, n: int, epsilon: float, delta: float) -> float:
    """Bound the root mean squared error of one coordinate whose mean is ± ``size``, over ``size``."""
    plain = 2.0 * float(ndtr(size * math.sqrt(n))) - 1.0
    private = _moved(n, 2.0 * float(ndtr(size)) - 1.0, epsilon, delta)
    return math.sqrt(0.5 * max(0.0, 1.0 - min(plain, private)))


def _wrong(n_candidates: int, size: float, n: int, epsilon: float, delta: float) -> float:
    """Bound the probability of a wrong choice where one candidate is better than all others by ``size``.

    Two such laws of a user are √2·size apart.
    """
    law = binom(n, 2.0 * float(ndtr(size / math.sqrt(2.0))) - 1.0)
    k = _exchanges(law, n, n)
    group = np.expm1(np.minimum(k * epsilon, 700.0)) / math.expm1(min(epsilon, 700.0))
    others = (n_candidates - 1.0) * np.exp(-epsilon * k)
    private = float(np.max((law.cdf(k) - delta * group) * others / (1.0 + others)))
    if math.isinf(size):
        return max(private, 0.0)
    z = np.linspace(-9.0, 9.0, 361)
    right = norm.pdf(z) * ndtr(z + size * math.sqrt(n)) ** (n_candidates - 1)
    return max(private, 1.0 - float(np.trapezoid(right, z)), 0.0)


def _moved(n: int, probability: float, epsilon: float, delta: float) -> float:
    """Bound the total variation by which outputs move if each of n users is exchanged with this probability.

    What k exchanges move rises with k. If k has too many values, a block of them counts as its last: memory does not
    depend on the parameters, and a bound on the error stays one.
    """
    law = binom(n, min(1.0, probability))
    k = _exchanges(law, n, 40.0 / epsilon)  # more move an output by all but e⁻⁴⁰
    exponent = np.minimum(k * epsilon, 700.0)
    group = delta * np.expm1(exponent) / math.expm1(min(epsilon, 700.0))
    moved = np.minimum(1.0, np.tanh(exponent / 2.0) + 2.0 * group / (np.exp(exponent) + 1.0))
    # Blocks of one are taken from the law itself: a difference of two sums near one has no small numbers.
    mass = np.where(np.diff(k, prepend=k[0] - 1) == 1, law.pmf(k), np.diff(law.cdf(k), prepend=0.0))
    mass[0] = law.cdf(k[0])
    return float(min(1.0, mass @ moved + law.sf(k[-1])))


def _exchanges(law: Any, n: int, most: float) -> npt.NDArray[np.int64]:
    """List likely numbers of exchanges among n users, up to ``most``, or the ends of blocks of them."""
    middle, spread = float(law.mean()), float(law.std())
    first = math.floor(max(0.0, min(middle - 13.0 * spread - 40.0, most)))
    last = math.ceil(min(float(n), most, middle + 13.0 * spread + 40.0))
    return np.unique(np.linspace(first, last, min(last - first + 1, _MOST_BLOCKS)).astype(np.int64))
