"""Learning from mixtures of private and public populations, as published: Bassily, Moran, Nandi 2020.

Algorithms 1 and 2 by enumeration, for few rows; the size of the class, Lemma 4.6, and Theorems 4.9 and 4.10 with
constants. `skprivate.PPMHalfspaceClassifier` draws from the same law without storing the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations
from math import exp, inf, log, log1p, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from skprivate._messages import positive
from skprivate.mixture import count_supporting_pairs, products, selection_loss
from skprivate.privacy import PrivacyGuarantee, RandomStateLike, open_release

__all__ = [
    "Intersection",
    "candidate_halfspaces",
    "learn_mixture",
    "log_hypothesis_count",
    "sample_size",
    "selection_loss",
]

FloatArray = NDArray[np.float64]

#: Relative slack of closed halfspaces, of the span and of ranks.
_SLACK = 1e-9


def candidate_halfspaces(U: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """List the halfspaces {x : ⟨a, x⟩ ≥ b} that public points support: Algorithm 1.

    Parameters
    ----------
    U : array-like of shape (n, d)
        Public points.

    Returns
    -------
    normals : ndarray of shape (n_candidates, d)
        a, of unit length.
    offsets : ndarray of shape (n_candidates,)
        b. For every T ⊆ U of 1 to d points: a halfspace whose boundary holds T, and its opposite. Where T has fewer
        than d the paper leaves the choice open; here the first faces outward, away from the mean of U.

    See Also
    --------
    learn_mixture : Chooses among their intersections.
    """
    points = np.atleast_2d(np.asarray(U, dtype=np.float64))
    n, d = points.shape
    middle = points.mean(axis=0) if n else np.zeros(d)
    normals, offsets = [], []
    for T in chain.from_iterable(combinations(range(n), size) for size in range(1, d + 1)):
        corners = points[list(T)]
        centre = corners.mean(axis=0)
        _, singular, right = np.linalg.svd(np.vstack([corners[1:] - corners[0], np.zeros((1, d))]))
        if len(T) > 1 and not singular[len(T) - 2] > _SLACK * max(singular[0], 1e-300):
            continue  # an independent subset supports the same flat
        free = right[len(T) - 1 :]
        normal = free.T @ (free @ (centre - middle)) if len(T) < d else free[0]
        if not np.linalg.norm(normal) > _SLACK:
            normal = free[0]
        normal = normal / np.linalg.norm(normal)
        normals += [normal, -normal]
        offsets += [normal @ centre, -(normal @ centre)]
    return np.array(normals).reshape(-1, d), np.array(offsets)


@dataclass(frozen=True, eq=False)
class Intersection:
    """Released hypothesis h_G: 0 on the halfspaces of G within the span V of the public points, and 1 elsewhere.

    Attributes
    ----------
    normals : ndarray of shape (n_halfspaces, d), or None
        None: h_∅, which is 1 everywhere.
    offsets : ndarray of shape (n_halfspaces,)
    centre : ndarray of shape (d,)
        A point of V.
    complement : ndarray of shape (d − dim V, d)
        Directions orthogonal to V.
    guarantee : PrivacyGuarantee
        For one private row, replace-one.
    """

    normals: FloatArray | None
    offsets: FloatArray
    centre: FloatArray
    complement: FloatArray
    guarantee: PrivacyGuarantee

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Label rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            0 or 1.
        """
        X = check_array(X, dtype=np.float64)
        if self.normals is None:
            return np.ones(len(X), dtype=np.int64)
        inside = _inside(X, self.normals, self.offsets).all(axis=0) & _in_span(X, self.centre, self.complement)
        return 1 - inside.astype(np.int64)


def learn_mixture(
    X: Any, y: Any, private: object, *, epsilon: float, random_state: RandomStateLike = None
) -> Intersection:
    """Choose an intersection of at most d candidate halfspaces: Algorithm 2.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
        0 or 1.
    private : array-like of bool of shape (n,)
        The privacy bit of each row; public. Under label-determined privacy it is y.
    epsilon : float > 0
    random_state : int or None, default=None
        None: secure noise. An integer simulates noise that is not valid for release.

    Returns
    -------
    Intersection

    See Also
    --------
    skprivate.PPMHalfspaceClassifier : Draws from the same law in less time, or searches.

    Notes
    -----
    *Guarantee.* ε-differential privacy for one private row, replace-one (Lemma 4.1): candidates depend on public rows
    only, and one private row changes each number of errors by at most 1. The error of some hypothesis is at most that
    of the best halfspace (Lemma 4.5).

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.papers.mixtures import learn_mixture
    >>> X = np.r_[np.linspace(0, 1, 20), np.linspace(1.5, 3, 200)][:, None]
    >>> y = np.r_[np.zeros(20, int), np.ones(200, int)]
    >>> h = learn_mixture(X, y, y == 1, epsilon=1.0)
    >>> bool((h.predict(X) != y).mean() < 0.2)
    True
    """
    X = check_array(X, dtype=np.float64)
    y, secret = column_or_1d(y), column_or_1d(private).astype(bool)
    check_consistent_length(X, y, secret)
    positive("epsilon", epsilon)
    U = X[~secret]
    normals, offsets = candidate_halfspaces(U)
    centre = U.mean(axis=0) if len(U) else np.zeros(X.shape[1])
    _, singular, right = np.linalg.svd(np.vstack([U - centre, np.zeros((1, X.shape[1]))]))
    complement = right[int((singular > _SLACK * max(float(singular[0]), 1e-300)).sum()) :]
    inside, span = _inside(X, normals, offsets), _in_span(X, centre, complement)
    sizes = range(X.shape[1] + 1 if len(U) else 0)
    H = list(chain.from_iterable(combinations(range(len(normals)), size) for size in sizes))
    errors = [int((y == 0).sum())]  # of h_∅
    errors += [int(((inside[list(G)].all(axis=0) & span) != (y == 0)).sum()) for G in H]
    with open_release(
        epsilon=epsilon,
        unit="private row",
        adjacency="replace-one",
        theorem="Bassily, Moran, Nandi 2020, Lemma 4.1",
        random_state=random_state,
    ) as release:
        chosen = int(release.select(-np.array(errors), sensitivity=1, epsilon=epsilon))
    G = None if chosen == 0 else list(H[chosen - 1])
    return Intersection(None if G is None else normals[G], offsets[G or []], centre, complement, release.close())


def _inside(X: FloatArray, normals: FloatArray, offsets: FloatArray) -> NDArray[np.bool_]:
    """Test which rows are in which closed halfspace, each row by itself: shape (|C|, n)."""
    slack = _SLACK * (1.0 + np.abs(offsets))
    return products(normals, X) >= (offsets - slack)[:, None]


def _in_span(X: FloatArray, centre: FloatArray, complement: FloatArray) -> NDArray[np.bool_]:
    distances = np.abs(products(complement, X - centre))
    return np.asarray((distances <= _SLACK * (1.0 + np.abs(centre).max())).all(axis=0))


def log_hypothesis_count(n_public: int, n_features: int) -> float:
    """Logarithm of the size of the class H of Algorithm 2, for public points in general position.

    Parameters
    ----------
    n_public : int
    n_features : int
        d.

    Returns
    -------
    float
        Its logarithm, of order d² ln n: intersections of at most d of the candidates, and the empty hypothesis.

    See Also
    --------
    selection_loss : Turns it into errors.
    """
    if n_public == 0:
        return 0.0
    n_candidates = 2 * count_supporting_pairs(n_public, n_features)
    # lgamma of a huge number would cancel to nothing; sizes are small, and log takes integers of any size.
    terms = [
        sum(log(n_candidates - i) - log(i + 1) for i in range(size))
        for size in range(min(n_features, n_candidates) + 1)
    ]
    top = max(terms)
    return top + log(sum(exp(term - top) for term in terms) + exp(-top))


def sample_size(
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
    log_hypothesis_count : Counts the class.

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
    >>> from skprivate.papers.mixtures import sample_size
    >>> sample_size(2, 1.0, error=0.1, setting="realizable")
    1478
    """
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features!r}.")
    positive("epsilon", epsilon)
    if not 0 < error < 1:
        raise ValueError(f"error must be in (0, 1), got {error!r}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}.")
    if setting not in ("realizable", "agnostic"):
        raise ValueError(f"setting must be 'realizable' or 'agnostic', got {setting!r}.")
    if adjacency not in ("replace-one", "add-remove"):
        raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {adjacency!r}.")

    def enough(n: int) -> bool:
        beta, monotone = 1 - confidence, adjacency == "add-remove"
        return _error_bound(n, n_features, epsilon, error, beta=beta, setting=setting, monotone=monotone) <= error

    high = 2 * n_features**2
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _error_bound(n: int, d: int, epsilon: float, error: float, *, beta: float, setting: str, monotone: bool) -> float:
    """Bound the (excess) error with n rows; infinite where the argument gives nothing at ``error``."""
    k = d * d
    if n <= k:
        return inf
    log_n = log_hypothesis_count(n, d)
    parts = 2 if setting == "realizable" else 3
    lost = selection_loss(log_n, epsilon, beta / parts, monotone=monotone)
    if setting == "agnostic":
        fresh = sqrt((log_n + log(3 / beta)) / (2 * (n - k)))
        return lost / n + k / (n - k) + fresh + sqrt(log(3 / beta) / (2 * n))
    observed = lost / (n - k)
    if observed >= error:
        return inf
    # The Kullback–Leibler divergence of Bernoulli(observed) from Bernoulli(error).
    divergence = observed * log(observed / error) + (1 - observed) * (log1p(-observed) - log1p(-error))
    return error if (n - k) * divergence >= log_n + log(2 / beta) else inf
