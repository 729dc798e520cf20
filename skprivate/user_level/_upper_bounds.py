"""What the published algorithms achieve: Theorems 4 and 5 with explicit constants, before any data are seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from skprivate._messages import number, one_of, positive
from skprivate.user_level._paper import PaperPlan
from skprivate.user_level._planning import _whole
from skprivate.user_level._winsorized_mean import coordinate_epsilon, rotated_radius

Risk = Literal["empirical", "population"]

#: Numbers of steps, paces of a fixed step, and failure probabilities, of which the best are taken.
_STEPS = tuple(2**k for k in range(1, 41))
_PACES = (2.0, 4.0, 8.0, 16.0, 32.0)
_FAILURES = tuple(10.0**-k for k in range(2, 25, 2))


def user_level_risk_bound(
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
    user_level_lower_bound : What no private method can do better.
    user_level_mean_errors : Predictions for `UserLevelMean`, not bounds.

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
    >>> from skprivate.user_level import user_level_risk_bound
    >>> loss = dict(radius=1.0, deviation=1.0, lipschitz=3.0, smoothness=1.0)
    >>> bound = user_level_risk_bound(10**7, 1000, 5, epsilon=1.0, delta=1e-9, **loss)
    >>> round(bound, 3)
    0.357
    """
    _whole("n_users", n_users)
    _whole("rows_per_user", rows_per_user)
    _whole("n_features", n_features)
    positive("epsilon", epsilon)
    number("delta", delta, "a number in (0, 1)", lambda value: 0 < value < 1)
    for name, value in (("radius", radius), ("deviation", deviation)):
        positive(name, value)
    positive("lipschitz", lipschitz)
    positive("smoothness", smoothness)
    if risk not in ("empirical", "population"):
        raise ValueError(f"risk must be {one_of(('empirical', 'population'))}, got {risk!r}.")
    problem = Smooth(
        n_users, rows_per_user, n_features, epsilon, delta, radius, deviation, lipschitz, smoothness
    )
    best = problem.empirical() if risk == "empirical" else problem.population()
    return min(2.0 * lipschitz * radius, best)


@dataclass(frozen=True)
class Smooth:
    """A convex, smooth problem, in the symbols of `user_level_risk_bound`."""

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
        """τ of Proposition 1, uniformly over the ball."""
        d, spread = self.d, self.sigma / math.sqrt(self.m)
        net = spread * math.sqrt(d) / (2.0 * self.H)
        union = math.log(n / gamma) + d * math.log1p(2.0 * self.R / net)
        return spread * (math.sqrt(d) + math.sqrt(2.0 * union)) + 2.0 * self.H * net

    def noise(self, n: int, n_steps: int, gamma: float) -> tuple[float, float]:
        """Root mean square noise of one of T directions over √T, and the probability that any of them is another."""
        # The strong composition that prices a run holds for smaller ε, and a smaller ε is private at a larger one.
        epsilon = min(self.epsilon, math.log(2.0 / self.delta))
        padded = 1 << max(0, (self.d - 1).bit_length())
        plan = PaperPlan(epsilon, self.delta, n_steps, 1.0, self.G, gamma, 0.0, self.R, "convex")
        each = coordinate_epsilon(plan.step_epsilon, plan.step_delta, padded)
        radius = rotated_radius(self.concentration(n, gamma), padded, n, gamma / n_steps)
        noise = math.sqrt(2.0 * padded) * 8.0 * radius / (n * each)
        missed = n_steps * padded * max(1.0, self.G / radius) * math.exp(-n * each / 8.0)
        return noise / math.sqrt(n_steps), min(1.0, 2.0 * gamma + missed)

    def empirical(self) -> float:
        """Theorem 4."""

        def bound(n_steps: int, gamma: float) -> float:
            noise, failure = self.noise(self.n, n_steps, gamma)
            risk = self.H * self.R**2 / (2.0 * n_steps) + self.R * noise
            return risk + failure * 2.0 * self.G * self.R

        return min(bound(n_steps, gamma) for n_steps in _STEPS for gamma in _FAILURES)

    def population(self) -> float:
        """Theorem 5, for the best λ of a grid."""
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
        """Mean square distance from the minimiser of a phase, and the probability of a failure."""
        found = []
        for n_steps in _STEPS[4::2]:
            noise, failure = self.noise(n, n_steps, gamma)
            squares = [
                4.0
                * self.R**2
                * math.exp(-2.0 * penalty * n_steps / (self.H + penalty * (2.0 + n_steps / q)))
                + q * noise**2 / (2.0 * penalty**2)
                for q in _PACES
            ]
            found.append((min(4.0 * self.R**2, *squares), failure))
        return min(found, key=lambda pair: pair[0] + pair[1] * 4.0 * self.R**2)
