"""Numbers of hypotheses, loss of a draw, and sufficient numbers of rows."""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import Literal

from skprivate.mixture._geometry import count_supporting_pairs


def log_count_hypotheses(n_candidates: int, max_halfspaces: int) -> float:
    """Return ln of the number of intersections of at most ``max_halfspaces`` candidates, plus the empty one."""
    terms = [_log_comb(n_candidates, size) for size in range(min(max_halfspaces, n_candidates) + 1)]
    top = max(terms)
    return top + log(sum(exp(term - top) for term in terms) + exp(-top))


def _log_comb(n: int, k: int) -> float:
    # lgamma of a huge n would cancel to nothing; k is small, and log takes integers of any size.
    return sum(log(n - i) - log(i + 1) for i in range(k))


def log_count_exact_hypotheses(n_public: int, n_features: int) -> float:
    """Return ln |H| of Algorithm 2 for ``n_public`` points in general position."""
    if n_public == 0:
        return 0.0
    return log_count_hypotheses(2 * count_supporting_pairs(n_public, n_features), n_features)


def selection_loss(log_n_hypotheses: float, epsilon: float, beta: float, *, monotone: bool = False) -> float:
    """Bound the errors above the best hypothesis of one selection, except with probability ``beta``.

    It is 2/ε · ln(|H| / β) in weights of a private row (Lemma 4.6), or half of that where the errors of all hypotheses
    move the same way between neighbours (``monotone``). Permute-and-flip satisfies the same bound, being never worse
    than the exponential mechanism.
    """
    factor = 1.0 if monotone else 2.0
    return factor / epsilon * (log_n_hypotheses - log(beta))


def ppm_sample_size(
    n_features: int,
    epsilon: float,
    *,
    error: float = 0.1,
    confidence: float = 0.95,
    setting: Literal["realizable", "agnostic"] = "agnostic",
    adjacency: Literal["replace-one", "add-remove"] = "replace-one",
) -> int:
    r"""Number of rows, public and private together, that are enough to learn a halfspace.

    With this many independent rows in the label-determined model, the exact strategy of `PPMHalfspaceClassifier` has a
    bounded error rate on new rows, with probability at least ``confidence`` over rows and draw. It is at most
    ``error`` (realizable: some halfspace makes no error) or at most ``error`` above the best halfspace's (agnostic).

    In two dimensions and more that many rows are beyond the exact strategy, and ``strategy="auto"`` searches, for which
    nothing of the kind is proven: plan by `PPMHalfspaceClassifier.utility_bound` there, or by a simulation.

    Parameters
    ----------
    n_features : int
        Dimension d, at least 1.
    epsilon : float
        Privacy parameter, > 0.
    error : float, default=0.1
        (Excess) error rate α, in (0, 1).
    confidence : float, default=0.95
        Probability 1 − β, in (0, 1).
    setting : {"realizable", "agnostic"}, default="agnostic"
        Whether some halfspace is known to make no error.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring relation; the selection under add-remove is twice as sharp.

    Returns
    -------
    int
        A sufficient number of rows, usually far more than needed.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    See Also
    --------
    user_level_sample_size : Plans a private mean.

    Notes
    -----
    These are Theorems 4.9 and 4.10 (Õ(d²/(εα)) and Õ(d² max(1/α², 1/(εα)))) with the constants of the following
    argument. Let N be the number of hypotheses for n public points and
    :math:`\gamma = 2 \ln(2N/\beta)/(\epsilon n)` (agnostic: 3N). With probability 1 − β/2 (β/3) the drawn hypothesis
    has an empirical error within γ of the smallest (Lemma 4.6), which is at most that of every halfspace (Lemma 4.5).
    A hypothesis is given by k = d² rows. Given those the other n − k are independent of it, and a union bound covers
    all N. *Realizable*: by the Chernoff bound a hypothesis with error above α makes at most nγ errors on n − k rows
    with probability at most :math:`e^{-(n-k) \mathrm{KL}(n\gamma/(n-k) \| \alpha)}`, and N times that must be at
    most β/2. *Agnostic*: by Hoeffding's bound the excess is at most
    :math:`\gamma + k/(n-k) + \sqrt{\ln(3N/\beta)/(2(n-k))} + \sqrt{\ln(3/\beta)/(2n)}`.

    References
    ----------
    .. [1] Bassily, Moran, Nandi, "Learning from Mixtures of Private and Public Populations", 2020.

    Examples
    --------
    >>> from skprivate.mixture import ppm_sample_size
    >>> ppm_sample_size(2, 1.0, error=0.1, setting="realizable")
    1478
    """
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features!r}.")
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}.")
    if not 0 < error < 1:
        raise ValueError(f"error must be in (0, 1), got {error!r}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}.")
    if setting not in ("realizable", "agnostic"):
        raise ValueError(f"setting must be 'realizable' or 'agnostic', got {setting!r}.")
    if adjacency not in ("replace-one", "add-remove"):
        raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {adjacency!r}.")

    def enough(n: int) -> bool:
        return _error_bound(n, n_features, epsilon, error, 1 - confidence, setting, adjacency) <= error

    high = 2 * n_features**2
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def _error_bound(
    n: int, d: int, epsilon: float, error: float, beta: float, setting: str, adjacency: str
) -> float:
    """Bound the (excess) error with n rows; infinite where the argument gives nothing at ``error``."""
    k = d * d
    if n <= k:
        return inf
    log_n = log_count_exact_hypotheses(n, d)
    parts = 2 if setting == "realizable" else 3
    lost = selection_loss(log_n, epsilon, beta / parts, monotone=adjacency == "add-remove")
    if setting == "agnostic":
        fresh = sqrt((log_n + log(3 / beta)) / (2 * (n - k)))
        return lost / n + k / (n - k) + fresh + sqrt(log(3 / beta) / (2 * n))
    observed = lost / (n - k)
    if observed >= error:
        return inf
    return error if (n - k) * _binary_divergence(observed, error) >= log_n + log(2 / beta) else inf


def _binary_divergence(q: float, p: float) -> float:
    """Compute the Kullback–Leibler divergence of Bernoulli(q) from Bernoulli(p), for 0 < q < 1."""
    return q * log(q / p) + (1 - q) * (log1p(-q) - log1p(-p))
