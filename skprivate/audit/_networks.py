"""Two-layer networks ``c₀ + Σ c_i tanh((a_i·t + b_i)/2)`` trained from many starts.

Training finds *some* network; its loss is an upper bound on the minimal empirical loss over all networks,
which is NP-hard to compute. A certificate that subtracts a gap from it is therefore not a proof; see
`FiniteAdversaryAuditor`.

Training runs on a summary of the sample (quantile bins of a scalar, random rows otherwise), which a network
of moderate slopes cannot tell from the sample; the loss that is reported is always that on the whole sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from skprivate._progress import steps

__all__ = ["Network", "fit_network"]

Array = npt.NDArray[np.float64]
_CHUNK_CELLS = 2**22


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
    """Points, targets and weights that stand for the sample during training."""
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
    """Train from ``n_restarts`` random starts by L-BFGS; keep the one with the smallest loss.

    Parameters
    ----------
    points : array of shape (n, q)
    s : array of shape (n,)
        Values ±1.
    n_neurons : int
        Width k.
    rng : numpy.random.Generator
        Public randomness for the starts.
    n_restarts : int, default=5
    max_iter : int, default=20
        L-BFGS iterations a start.
    summary_size : int, default=512
        Rows or bins that training looks at.

    Returns
    -------
    network : Network
    loss : float
        Its mean squared error on the whole sample: an upper bound on the minimum over all networks of this
        width.
    """
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
                theta = minimize(
                    objective, theta, jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
                ).x
            a, b = theta[: k * q].reshape(k, q), theta[k * q : k * (q + 1)]
            network = Network(
                a / spread, b - a @ (centre / spread), theta[k * (q + 1) : -1].copy(), float(theta[-1])
            )
            values = network.predict(points)
            # The intercept's optimum on the whole sample is free.
            network = network._replace(intercept=network.intercept + float((s - values).mean()))
            loss = float(np.var(s - values))
            if loss < best_loss:
                best, best_loss = network, loss
            step()
    assert best is not None
    return best, best_loss
