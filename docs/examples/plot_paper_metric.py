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
from skprivate.papers.metric import measures_accuracy

EPSILONS, BITS = np.geomspace(1e2, 1e5, 7), 12


def rough(d, rng):
    """Points of a random cascade: halves of every box have unrelated shares of its mass, down to 2^-12 of the cube."""
    mass = np.ones(1)
    for _ in range(BITS):
        share = rng.beta(0.35, 0.35, mass.size)
        mass = np.stack([mass * share, mass * (1 - share)], axis=1).ravel()
    bits = rng.choice(mass.size, 5000, p=mass)[:, None] >> np.arange(BITS)[::-1] & 1
    return np.stack([bits[:, k::d] @ 0.5 ** np.arange(1, BITS // d + 1) for k in range(d)], axis=1)


def error(d, epsilon, seed):
    """W1 between the points and the released measure: minus the score of the training points."""
    X = rough(d, np.random.default_rng(seed))
    model = MetricPrivateSynthesizer(epsilon, metric="wasserstein", bounds=(0, 1), random_state=seed)
    return -model.fit(X).score(X)


# %%
# The theorem speaks of the hardest data, so these are rough at every scale. Smooth data are easier, and errors fall
# faster (:doc:`/evidence/metric`). Slopes of the dotted lines are the theorem's, their heights are fitted.
for d in (1, 2):
    errors = [np.median([error(d, epsilon, seed) for seed in range(5)]) for epsilon in EPSILONS]
    rate = np.array([measures_accuracy(d, epsilon) for epsilon in EPSILONS])
    height = np.exp(np.mean(np.log(errors / rate)))
    plt.loglog(EPSILONS, errors, "o-", color=f"C{d}", label=f"d = {d}, measured")
    plt.loglog(
        EPSILONS, height * rate, ":", color=f"C{d}", label=rf"{height:.2f} $\varepsilon^{{-1/{d + 1}}}$"
    )
plt.title("Rough data: the error falls with the exponent of Theorem 6.2")
plt.xlabel("ε per unit of Wasserstein distance")
plt.ylabel("Wasserstein distance to the data")
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/metric`.
