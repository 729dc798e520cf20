"""Joint laws of (T, S) whose minimum losses are known, for validity tests."""

import numpy as np
from scipy.integrate import quad
from scipy.special import entr


class ScalarLaw:
    """T uniform on [−1, 1], P(S = 1 | T = t) = (1 + eta(t))/2."""

    def __init__(self, eta, variation, monotone=False):
        self.eta, self.variation, self.monotone = eta, variation, monotone
        self.mse = 1.0 - 0.5 * quad(lambda t: eta(np.array(t)) ** 2, -1, 1, limit=400, points=[0.0, 0.3])[0]
        p = lambda t: 0.5 * (1.0 + eta(np.array(t)))  # noqa: E731
        self.entropy = 0.5 * quad(lambda t: entr(p(t)) + entr(1 - p(t)), -1, 1, limit=400, points=[0.0, 0.3])[0]

    def sample(self, n, rng):
        t = rng.uniform(-1, 1, size=n)
        return t, np.where(rng.random(n) < 0.5 * (1 + self.eta(t)), 1.0, -1.0)


SCALAR_LAWS = {
    "independent": ScalarLaw(lambda t: 0.0 * t, 0.0, monotone=True),
    "unequal prior": ScalarLaw(lambda t: 0.0 * t + 0.8, 0.0, monotone=True),
    "slope": ScalarLaw(lambda t: 0.5 * t, 1.0, monotone=True),
    "step": ScalarLaw(lambda t: np.where(t > 0.3, 0.9, -0.2), 1.1, monotone=True),
    "deterministic": ScalarLaw(lambda t: np.where(t > 0.0, 1.0, -1.0), 2.0, monotone=True),
    "bump": ScalarLaw(lambda t: 0.7 * np.cos(np.pi * t), 2.8),
    "wave": ScalarLaw(lambda t: 0.6 * np.sin(2 * np.pi * t), 4.8),
}
