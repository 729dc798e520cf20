"""Model auditing with finite adversaries, as published: Diaz, Kairouz, Liao, Sankar 2019.

Theorems 1 to 3 with their gaps, the quantities of Section 5, and the networks that Theorem 1 is about.

Training finds *some* network; its loss is an upper bound on the minimal empirical loss over all networks,
which is NP-hard to compute. A certificate that subtracts a gap from it is therefore not a proof; see
`FiniteAdversaryAuditor`.

Training runs on a summary of the sample (quantile bins of a scalar, random rows otherwise), which a network
of moderate slopes cannot tell from the sample; the loss that is reported is always that on the whole sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import ndtr

from skprivate import audit
from skprivate._messages import must_be, number, one_of
from skprivate._sklearn import check_class_labels, steps
from skprivate.privacy import public_generator

__all__ = [
    "TheoremBound",
    "barron_constant",
    "gaussian_mixture_barron_constant",
    "gaussian_mixture_loss",
    "theorem1_gap",
    "theorem2_gap",
    "theorem3_gap",
    "theorem_bound",
]

Array = npt.NDArray[np.float64]
_CHUNK_CELLS = 2**22


def theorem1_gap(n: int, n_neurons: int, variation: float, confidence: float) -> float:
    """Gap of Theorem 1, equations (22) and (24): squared loss, k hidden neurons.

    Parameters
    ----------
    n : int
        Number of audited pairs.
    n_neurons : int
        k.
    variation : float
        D, the diameter of the support times Barron's constant.
    confidence : float
        1 − α, in (0, 1).

    Returns
    -------
    float
        ``(2 + D)² √(ln(1/α)/(2n)) + D²/k + 4D/√k``. The factor 2 inside the root of the proof's equation (31) is a
        slip: Hoeffding's inequality for a loss in [0, (2 + D)²] has none, as have (22) and (49).

    See Also
    --------
    theorem_bound : Fits the adversary and subtracts the gap.
    """
    sampling = (2.0 + variation) ** 2 * math.sqrt(-math.log1p(-confidence) / (2.0 * n))
    return sampling + variation**2 / n_neurons + 4.0 * variation / math.sqrt(n_neurons)


def theorem2_gap(n: int, confidence: float) -> float:
    """Gap of Theorem 2, equation (34): squared loss, T in a finite alphabet.

    Parameters
    ----------
    n : int
        Number of audited pairs.
    confidence : float
        1 − α, in (0, 1).

    Returns
    -------
    float
        ``2 √(2 ln(1/α)/n)``.

    See Also
    --------
    theorem_bound : Fits the adversary and subtracts the gap.
    """
    return 2.0 * math.sqrt(-2.0 * math.log1p(-confidence) / n)


def theorem3_gap(n: int, n_values: int, confidence: float) -> float:
    """Gap of Theorem 3, equation (37): log loss, T in an alphabet of d values.

    Parameters
    ----------
    n : int
        Number of audited pairs, at least 4(2d + ln(1/α)).
    n_values : int
        d.
    confidence : float
        1 − α, in (0, 1).

    Returns
    -------
    float
        ``h_b(√((2d + ln(1/α))/n))``, in nats.

    Raises
    ------
    ValueError
        If the pairs are fewer.

    See Also
    --------
    theorem_bound : Fits the adversary and subtracts the gap.
    """
    numerator = 2.0 * n_values - math.log1p(-confidence)
    if n < 4.0 * numerator:
        raise ValueError(
            f"Theorem 3 needs n >= 4(2d + ln(1/(1 - confidence))) = {4.0 * numerator:.1f} observations for "
            f"d = {n_values} values, got n = {n}. FiniteAdversaryAuditor needs no minimum."
        )
    return audit.binary_entropy(math.sqrt(numerator / n))


def gaussian_mixture_barron_constant(mean: npt.ArrayLike, scale: float = 1.0) -> float:
    """Barron's constant of η when ``T | S ~ N(S·mean, scale² I)``, for any prior of S.

    Parameters
    ----------
    mean : array-like of shape (q,)
    scale : float

    Returns
    -------
    float
        ``‖mean‖ / scale²``.

    See Also
    --------
    barron_constant : Computes it for any function of one variable.

    Notes
    -----
    ``η(t) = tanh(mean·t/scale² + ½ ln(λ/(1−λ)))``; the Fourier transform of ``sech²`` is positive, so the
    integral of its modulus is ``sech²`` at 0 (equations (44)–(48), extended to a prior λ and a scale: a shift
    changes no modulus).
    """
    return float(np.linalg.norm(np.atleast_1d(np.asarray(mean, dtype=float)))) / scale**2


def gaussian_mixture_loss(mean: float, radius: float = 3.0) -> float:
    """Minimum mean squared error of S from T, equation (50).

    Parameters
    ----------
    mean : float
        μ: S is ±1 with equal probability, and ``T | S ~ N(S·μ, 1)``.
    radius : float
        T is truncated to ``[−radius, radius]``.

    Returns
    -------
    float

    See Also
    --------
    gaussian_mixture_barron_constant : Gives Barron's constant of the same model.
    """
    mass = float(ndtr(radius + mean) - ndtr(-radius + mean))
    integral = quad(
        lambda t: math.exp(-((t + mean) ** 2) / 2.0) / (1.0 + math.exp(-2.0 * mean * t)), -radius, radius, epsabs=1e-13
    )[0]
    return math.sqrt(2.0 / math.pi) / mass * integral


def barron_constant(function: Callable[[Array], npt.ArrayLike], low: float, high: float) -> float:
    """Barron's constant ``(2π)^{−1/2} ∫ |ω| |η̂(ω)| dω`` of a function of one variable, by FFT.

    On a grid the constant is the mean modulus of the discrete Fourier transform of the increments times the
    number of points: ``Σ_k |DFT(Δη)_k| / N``.

    Parameters
    ----------
    function : callable
        η, from an array to an array. It must become constant towards both ends of the interval.
    low, high : float
        Ends of the interval.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the function still changes at the ends.

    See Also
    --------
    gaussian_mixture_barron_constant : Gives it in closed form for a Gaussian mixture.
    """
    n_points = 2**14
    grid = np.linspace(low, high, n_points + 1)
    increments = np.diff(np.asarray(function(grid), dtype=float))
    step = (high - low) / n_points
    derivative = increments / step
    largest = float(np.abs(derivative).max(initial=0.0))
    if largest > 0.0 and max(abs(derivative[0]), abs(derivative[-1])) > 1e-3 * largest:
        raise ValueError(
            f"The function still changes at the ends of [{low}, {high}]: widen the interval, or extend the function so "
            "that it becomes constant."
        )
    return float(np.abs(np.fft.fft(derivative)).sum() / n_points)


class Network(NamedTuple):
    """A trained network with input weights (k, q), biases (k,), output weights (k,) and intercept."""

    weights: Array
    biases: Array
    outputs: Array
    intercept: float

    def predict(self, points: Array) -> Array:
        """Outputs at the rows of ``points``, computed in chunks of bounded memory."""
        chunk = max(1, _CHUNK_CELLS // self.biases.size)
        out = np.empty(points.shape[0])
        for start in range(0, points.shape[0], chunk):
            rows = slice(start, start + chunk)
            hidden = np.tanh(0.5 * (points[rows] @ self.weights.T + self.biases))
            out[rows] = hidden @ self.outputs + self.intercept
        return out


def _summary(points: Array, s: Array, limit: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Choose points, targets and weights that represent the sample during training."""
    n, q = points.shape
    if n <= limit:
        return points, s, np.full(n, 1.0 / n)
    if q == 1:
        order = np.argsort(points[:, 0], kind="stable")
        edges = np.linspace(0, n, limit + 1).astype(int)
        counts = np.diff(edges).astype(float)
        x = np.add.reduceat(points[order, 0], edges[:-1]) / counts
        y = np.add.reduceat(s[order], edges[:-1]) / counts
        return x[:, None], y, counts / n
    rows = rng.choice(n, size=limit, replace=False)
    return points[rows], s[rows], np.full(limit, 1.0 / limit)


def fit_network(
    points: Array,
    s: Array,
    n_neurons: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 5,
    max_iter: int = 20,
    summary_size: int = 512,
) -> tuple[Network, float]:
    """Train from random starts by L-BFGS; keep the one with the smallest loss."""
    centre, spread = points.mean(axis=0), points.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    scaled = (points - centre) / spread
    x, y, w = _summary(scaled, s, summary_size, rng)
    q, k = x.shape[1], n_neurons
    best: Network | None = None
    best_loss = np.inf

    def objective(theta: Array) -> tuple[float, Array]:
        a, b = theta[: k * q].reshape(k, q), theta[k * q : k * (q + 1)]
        c, c0 = theta[k * (q + 1) : -1], theta[-1]
        hidden = np.tanh(0.5 * (x @ a.T + b))
        residual = hidden @ c + c0 - y
        pull = 2.0 * w * residual
        slope = (0.5 * (1.0 - hidden * hidden)) * np.outer(pull, c)
        gradient = np.concatenate([(slope.T @ x).ravel(), slope.sum(axis=0), pull @ hidden, [pull.sum()]])
        return float(w @ (residual * residual)), gradient

    with steps("networks", n_restarts) as step:
        for restart in range(n_restarts):
            scale = (1.0, 3.0, 0.5, 6.0, 2.0)[restart % 5]
            a = rng.normal(scale=scale, size=(k, q))
            anchors = x[rng.integers(x.shape[0], size=k)]
            b = -(a * anchors).sum(axis=1)
            hidden = np.tanh(0.5 * (x @ a.T + b))
            mean_hidden, mean_y = w @ hidden, float(w @ y)
            centred = hidden - mean_hidden
            # The output layer by ridge regression, in the smaller of the two dimensions.
            weighted = centred * np.sqrt(w)[:, None]
            ridge = 1e-4
            if k <= x.shape[0]:
                system = weighted.T @ weighted + ridge * np.eye(k)
                c = cho_solve(cho_factor(system), weighted.T @ (np.sqrt(w) * (y - mean_y)))
            else:
                system = weighted @ weighted.T + ridge * np.eye(x.shape[0])
                c = weighted.T @ cho_solve(cho_factor(system), np.sqrt(w) * (y - mean_y))
            theta = np.concatenate([a.ravel(), b, c, [mean_y - mean_hidden @ c]])
            if max_iter > 0:
                theta = minimize(objective, theta, jac=True, method="L-BFGS-B", options={"maxiter": max_iter}).x
            a, b = theta[: k * q].reshape(k, q), theta[k * q : k * (q + 1)]
            network = Network(a / spread, b - a @ (centre / spread), theta[k * (q + 1) : -1].copy(), float(theta[-1]))
            values = network.predict(points)
            # The intercept's optimum on the whole sample is free.
            network = network._replace(intercept=network.intercept + float((s - values).mean()))
            loss = float(np.var(s - values))
            if loss < best_loss:
                best, best_loss = network, loss
            step()
    assert best is not None
    return best, best_loss


@dataclass(frozen=True)
class TheoremBound:
    """Bound by one of the paper's three theorems.

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
    T: object,
    S: npt.ArrayLike,
    *,
    loss: str = "squared",
    barron_constant: float | None = None,
    support: object = None,
    n_neurons: int = 100,
    n_restarts: int = 3,
    confidence: float = 0.99,
    random_state: int | None = None,
) -> TheoremBound:
    """Compute the paper's own lower bound on the loss of every adversary.

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

    See Also
    --------
    skprivate.FiniteAdversaryAuditor : Computes sharper bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.auditing import theorem_bound
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=10_000)
    >>> bound = theorem_bound(np.where(rng.random(10_000) < 0.2, s, 1), s)
    >>> bound.theorem, bound.proven, bool(bound.loss_lower_bound < bound.empirical_loss)
    (2, True, True)
    """
    if loss not in ("squared", "log"):
        raise ValueError(must_be("loss", one_of(("squared", "log")), loss))
    number("confidence", confidence, "a number in (0, 1)", lambda value: 0 < value < 1)
    bits = audit.as_labels(S, "S")
    check_class_labels(bits)
    classes, coded = np.unique(bits, return_inverse=True)
    if classes.size != 2:
        raise ValueError(must_be("S", "a bit that takes two values", f"{classes.size} of them"))
    s = np.where(coded == 1, 1.0, -1.0)
    if audit.is_labels(T):
        values, codes = np.unique(audit.as_labels(T, "T"), return_inverse=True)
        empirical = audit.certify_labels(codes, s, values.size, loss=loss).empirical_loss
        squared = loss == "squared"
        gap = theorem2_gap(s.size, confidence) if squared else theorem3_gap(s.size, values.size, confidence)
        return TheoremBound(2 if squared else 3, empirical, gap, max(0.0, empirical - gap), True)
    points = np.asarray(T, dtype=np.float64)
    if points.ndim != 2:
        raise ValueError(must_be("T", "of shape (n, q), or labels", f"shape {points.shape}"))
    if loss == "log":
        raise ValueError("loss must be 'squared' for real outputs: the paper has no theorem for their log loss.")
    if barron_constant is None or support is None:
        raise ValueError("Theorem 1 needs barron_constant and support: no finite sample bounds them from above.")
    if not audit.inside_support(points, support).all():
        raise ValueError(f"T must be inside support={support!r}.")
    variation = float(barron_constant) * audit.support_diameter(support, points.shape[1])
    _, empirical = fit_network(points, s, n_neurons, public_generator(random_state), n_restarts=n_restarts)
    gap = theorem1_gap(s.size, n_neurons, variation, confidence)
    return TheoremBound(1, empirical, gap, max(0.0, empirical - gap), False)
