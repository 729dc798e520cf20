"""
Metric privacy: accuracy of synthetic data against ε
====================================================

`Boedihardjo, Strohmer and Vershynin (2024) <https://arxiv.org/abs/2405.00329>`_ release a measure under the
Wasserstein distance. Theorem 6.2: in dimension d the error falls as ε to the power −1/(d + 1), and no mechanism has a
better exponent.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import MetricPrivateSynthesizer

EPSILONS = np.array([1e2, 1e3, 1e4, 1e5])


def rough_points(d, rng, n=5000, levels=9):
    """Points with detail at every scale: each cell shares its points unevenly among its halves or quarters."""
    X, cells = np.zeros((n, d)), np.zeros(n, dtype=int)
    for level in range(1, levels + 1):
        shares = rng.dirichlet(np.full(2**d, 0.6), size=30_000)[cells % 30_000]
        part = (shares.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        X += (part[:, None] >> np.arange(d) & 1) * 2.0**-level
        cells = 2**d * cells + part + 1
    return X + 2.0**-levels * rng.random((n, d))


def error(d, epsilon, seed):
    """W1 between the points and the released measure: minus the score of the training points."""
    X = rough_points(d, np.random.default_rng(seed))
    model = MetricPrivateSynthesizer(epsilon, metric="wasserstein", bounds=(0, 1), random_state=seed)
    return -model.fit(X).score(X)


# %%
# Constants are fitted to the first point of a line; the slopes are the theorem's. It speaks of the hardest data, and of
# all mechanisms together: where data are smooth, errors fall faster. These have detail at every scale.
for d in (1, 2):
    errors = [np.median([error(d, epsilon, seed) for seed in range(3)]) for epsilon in EPSILONS]
    plt.loglog(EPSILONS, errors, "o-", color=f"C{d}", label=f"d = {d}, measured")
    slope = -1 / (d + 1)
    plt.loglog(
        EPSILONS,
        errors[0] * (EPSILONS / EPSILONS[0]) ** slope,
        ":",
        color=f"C{d}",
        label=f"slope {slope:.2f}",
    )
plt.xlabel("ε per unit of Wasserstein distance")
plt.ylabel("Wasserstein distance to the data")
plt.title("The error falls as the theorem says")
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/metric`.
