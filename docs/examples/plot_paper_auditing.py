"""
Auditing: a certificate close to the truth
==========================================

Figure 1 of the paper by Diaz et al.: an adversary guesses S = ±1 from T, which is S·μ plus normal noise, truncated to
[−3, 3]. What no adversary can fall below is known here. The certificate has to stay below it without knowing the law.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import FiniteAdversaryAuditor
from skprivate.papers.auditing import gaussian_mixture_loss, theorem_bound

MUS, N = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1), 100_000


def sample(mu, rng):
    s = rng.choice([-1, 1], size=2 * N)
    t = mu * s + rng.normal(size=2 * N)
    inside = np.abs(t) <= 3.0
    return t[inside][:N, None], s[inside][:N]


# %%
# The paper's bound is for a network of k = 1000 neurons, trained on the sample. The certificate is of the convex
# minimum, so that its term in k is not needed.
rng = np.random.default_rng(0)
lines = {"the least loss of all adversaries": [], "certificate of the auditor": [], "bound of the paper": []}
for mu in MUS:
    t, s = sample(mu, rng)
    auditor = FiniteAdversaryAuditor(assumption="barron", barron_constant=mu, support=3.0).fit(t, s)
    paper = theorem_bound(t, s, barron_constant=mu, support=3.0, n_neurons=1000, n_restarts=1, random_state=0)
    found = gaussian_mixture_loss(mu), auditor.loss_lower_bound_, paper.loss_lower_bound
    for line, value in zip(lines.values(), found, strict=True):
        line.append(value)
for (label, line), style in zip(lines.items(), ("k--", "C0o-", "C1s-"), strict=True):
    plt.plot(MUS, line, style, label=label)
plt.title("What is certified with 100 000 pairs, at 99 % confidence")
plt.xlabel("μ, half the distance of the two means")
plt.ylabel("mean squared loss; 1 is guessing")
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/auditing`.
