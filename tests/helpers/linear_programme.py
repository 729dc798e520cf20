"""What optimal channels are compared with: the linear programme with all its unknowns, solved by HiGHS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, kron

from skprivate.metric.net._spaces import make_affordable


def programme(distances, epsilon, *, prior=None, loss=None):
    """The ε-metrically private channel with the smallest expected loss (Bordenabe et al. 2014).

    Constraints that follow from two others along a shortest path are left out; what the solver's tolerance leaves of a
    violation is removed by mixing with the uniform channel.
    """
    n = distances.shape[0]
    weights = np.full(n, 1 / n) if prior is None else prior
    cost = (weights[:, None] * (distances if loss is None else loss)).ravel()
    pairs = essential_pairs(distances)
    factor = np.exp(np.minimum(epsilon * distances[pairs[:, 0], pairs[:, 1]], 600.0))
    row = np.arange(len(pairs))
    # e^{−ερ} P(y|x) − P(y|x′) ≤ 0 for every y: written on rows of P, then repeated for the outputs.
    relation = coo_array(
        (
            np.concatenate([1 / factor, -np.ones(len(pairs))]),
            (np.concatenate([row, row]), np.concatenate([pairs[:, 0], pairs[:, 1]])),
        ),
        shape=(len(pairs), n),
    )
    found = linprog(
        cost,
        A_ub=csr_array(kron(relation, eye_array(n))),
        b_ub=np.zeros(len(pairs) * n),
        A_eq=csr_array(kron(eye_array(n), np.ones((1, n)))),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    solution = np.maximum(found.x.reshape(n, n), 0.0)
    solution /= solution.sum(axis=1, keepdims=True)
    return make_affordable(solution, distances, epsilon)


def essential_pairs(distances):
    """Ordered pairs with no state between them: d(x, z) + d(z, x′) > d(x, x′) for every other z."""
    n = distances.shape[0]
    slack = 1e-12 * float(distances.max(initial=0.0))
    pairs = []
    for x in range(n):
        for other in range(n):
            if x == other:
                continue
            through = distances[x] + distances[:, other]
            through[[x, other]] = np.inf
            if through.min(initial=np.inf) > distances[x, other] + slack or distances[x, other] == 0:
                pairs.append((x, other))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
