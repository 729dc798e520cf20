"""
One privacy budget for a whole pipeline
=======================================

A guarantee covers a pipeline only if every step that reads rows has a part of the budget. Here ε = 1 has to cover
curves for each column and a classifier behind them. The rows are public: clients of a bank, who may default.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import skprivate as sp
from skprivate.datasets import load_credit_default
from skprivate.preprocessing import PrivateSplineTransformer, make_additive_pipeline

clients = load_credit_default(as_frame=True)
X, y = clients.data, clients.target
test = np.arange(len(y)) % 5 == 0

# %%
# ``check_pipeline`` needs no rows. It names the steps that would read them without noise.
classifier = sp.UserLevelSGDClassifier(classes=[0, 1], delta=1e-6)
print(sp.check_pipeline(make_pipeline(SimpleImputer(), classifier)))

# %%
# With ``make_private_pipeline`` all steps share one budget. A ledger shows what each of them was charged: lines need no
# step before the classifier.
lists = {"sex": {"values": [1, 2]}, "education": [1, 2, 3, 4], "marriage": [1, 2, 3]}
schema = dict.fromkeys(X.columns, "number") | lists
charged = {}
for name, model in {"lines": classifier, "curves": make_additive_pipeline(classifier)}.items():
    ledger = sp.PrivacyLedger(epsilon=1.0, delta=1e-6, unit="row")
    whole = sp.make_private_pipeline(model, schema, epsilon=1.0, ledger=ledger).fit(X[~test], y[~test])
    charged[name] = {entry.label: round(entry.epsilon, 3) for entry in ledger.entries()}
    print(name, charged[name], sp.guarantee_of(whole), sep="\n")

# %%
# The parts add up to 1, and all that was drawn composes to less. One may also divide by hand. Too little for the
# knots of the curves, or for the model, costs accuracy. Integers as ``random_state`` make a simulation.
warnings.simplefilter("ignore")  # of simulated noise, and of the smallest parts


def auc(knots, model, seed):
    splines = PrivateSplineTransformer(knots, delta=5e-7, random_state=seed)
    last = sp.UserLevelSGDClassifier(model, delta=5e-7, classes=[0, 1], random_state=100 + seed)
    by_hand = make_pipeline(splines, last).fit(X[~test], y[~test])
    return roc_auc_score(y[test], by_hand.decision_function(X[test]))


SHARES = [0.05, 0.1, 0.3, 0.9]
scores = [[auc(share, 1 - share, seed) for seed in range(2)] for share in SHARES]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
knots, last = np.array(
    [[sum(parts[:-1]), parts[-1]] for parts in (list(each.values()) for each in charged.values())]
).T
left.barh(list(charged), knots, color="C1", label="knots")
left.barh(list(charged), last, left=knots, color="C0", label="classifier")
left.set(xlabel="ε charged to the ledger", xlim=(0, 1), ylim=(-0.5, 2.3), title="Steps share the budget")
left.legend(loc="upper left")
right.plot(SHARES, scores, "C0o", label=["two fits", None])
right.plot(SHARES, np.mean(scores, axis=1), "C0", label="their mean")
right.set(xlabel="part of ε = 1 for knots, divided by hand", ylabel="AUC on 6 000 other clients")
right.set_title("Other shares, by hand")
right.legend(loc="lower left")
plt.show()

# %%
# The guide: :doc:`/guide/whole_models`.
