"""
Who was in the training data? An attack on a random forest
==========================================================

A bank publishes a random forest. Does the forest reveal whose rows it was trained on? ``RMIAAttack`` fits forests of
its own, with and without each client, and compares. If it succeeds, there is a leak. The clients are those of a
Taiwanese bank, and their data are public.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_curve
from sklearn.model_selection import train_test_split

from skprivate import PrivacyGuarantee
from skprivate.audit import RMIAAttack, epsilon_lower_bound
from skprivate.datasets import load_credit_default

X, y = load_credit_default(return_X_y=True, as_frame=True)
X, X_new, y, y_new = train_test_split(X, y, train_size=4000, random_state=0)
member = np.random.default_rng(0).random(len(X)) < 0.5  # a coin for each client: is the row used?

# %%
# Three forests, by the least number of clients in a leaf; scikit-learn's default is 1. The attacker knows the kind of
# model and the clients, but not the coins. ε is what the attack proves with 95 % confidence: at δ = 10⁻⁵ this way of
# training has no differential privacy for a smaller one.
curves = {}
for leaf in (1, 20, 200):
    forest = RandomForestClassifier(50, min_samples_leaf=leaf, random_state=1)
    attack = RMIAAttack(forest, n_references=8, random_state=0).fit(X, y)
    forest.fit(X[member], y[member])
    scores = attack.membership_scores(forest, X, y)
    epsilon = epsilon_lower_bound(
        scores,
        member,
        delta=1e-5,
        method="one-run-fdp",  # one forest, into which each client came by a coin
        calibration=attack.score_reference(0),
        random_state=0,
    )
    proven = f"ε ≥ {epsilon:.1f}" if epsilon > 0 else "nothing proven"
    name = f"leaves of {leaf} or more: accuracy {100 * forest.score(X_new, y_new):.1f} %, {proven}"
    print(name, attack.evaluate(forest, X, y, member), sep="\n")
    curves[name] = roc_curve(member, scores)

# %%
# The dashed line is the best that any attack could do, had the forest been trained with ε = 1.
figure, ax = plt.subplots(figsize=(6.8, 5), layout="constrained")
for (name, (fpr, tpr, _)), color in zip(curves.items(), ("C3", "C1", "C0"), strict=True):
    ax.loglog(100 * fpr[1:], 100 * tpr[1:], color=color, label=name)
f = np.geomspace(1e-3, 1, 200)
guarantee = PrivacyGuarantee(1.0, 1e-5, unit="row", adjacency="add-remove")
ax.loglog(100 * f, 100 * guarantee.trade_off(f), "k--", label="most that ε = 1 permits")
ax.loglog(100 * f, 100 * f, "k:", label="guessing")
ax.set(xlabel="% of outsiders who are called members", ylabel="% of members who are found", xlim=(0.1, 100))
ax.set_title("Members of random forests, found by an attack")
ax.set_ylim(0.1, 110)
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter("{x:g}")
ax.legend(loc="lower right", fontsize="small")
plt.show()

# %%
# An attack that fails proves nothing, because a better one may succeed: leaves of 200 are no guarantee. The guide:
# :doc:`/guide/audit`.
