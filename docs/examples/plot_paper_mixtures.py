"""
Mixtures: the error of a halfspace falls with the rows
======================================================

`Bassily, Moran and Nandi (2020) <https://arxiv.org/abs/2008.00331>`_ learn a halfspace from public rows of one
population and private rows of the other. The error of an ε-differentially private learner goes to 0 with the number of
rows, in any dimension. Here rows are normal, private rows are those beyond a random halfspace, and ε = 4.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import PPMHalfspaceClassifier

ROWS = (500, 2000, 8000)


def error(d, n, seed):
    rng = np.random.default_rng([d, n, seed])
    normal = rng.normal(size=d)
    normal /= np.linalg.norm(normal)
    X, new = rng.normal(size=(n, d)), rng.normal(size=(400_000 // d, d))
    model = PPMHalfspaceClassifier(4.0, private_label=True, random_state=seed).fit(X, X @ normal > 0.2)
    return np.mean(model.predict(new) != (new @ normal > 0.2))


# %%
# On a line the exact strategy is one draw. Its bound (Lemma 4.6) is about the training rows; the others have none, and
# end with turns of one halfspace where rows are enough.
for d, color in ((1, "C0"), (5, "C1"), (20, "C2")):
    errors = [np.mean([error(d, n, seed) for seed in range(10 if d == 1 else 2)]) for n in ROWS]
    plt.loglog(ROWS, errors, "o-", color=color, label=f"d = {d}, measured")
X = np.random.default_rng(0).normal(size=(max(ROWS), 1))
bounds = []
for n in ROWS:
    model = PPMHalfspaceClassifier(4.0, private_label=True, random_state=0).fit(X[:n], X[:n, 0] > 0.2)
    bounds.append(model.utility_bound())
plt.loglog(ROWS, bounds, "--", color="C0", label="d = 1, bound on training rows (Lemma 4.6, 95 %)")
plt.xticks(ROWS, ["500", "2 000", "8 000"])
plt.minorticks_off()
plt.title("One halfspace, ε = 4")
plt.xlabel("rows, private and public")
plt.ylabel("error rate on new rows")
plt.ylim(top=3.0)
plt.legend(loc="upper right")
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/mixtures`.
