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


def error(d, epsilon, seed):
    """W1 between the points and the released measure: minus the score of the training points."""
    rng = np.random.default_rng(seed)
    first = rng.random(5000) < 0.5
    X = np.where(first[:, None], rng.beta(2, 8, (5000, d)), rng.beta(9, 3, (5000, d)))
    model = MetricPrivateSynthesizer(epsilon, metric="wasserstein", bounds=(0, 1), random_state=seed)
    return -model.fit(X).score(X)


# %%
# Constants are fitted to the first point of a line; the slopes are the theorem's. It speaks of the hardest data: these,
# two smooth humps, are easier in the plane.
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
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/metric`.
