"""
Which groups should labels be summed over?
==========================================

Labels leave a bank only as sums over groups of clients, with noise. *Curated* groups share a value of one column, such
as a repayment status. *Random* groups are drawn at random. Both protect the same labels at the same ε. Which sums give
the better model? The clients are those of a Taiwanese bank, and their data are public.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skprivate import CuratedBagGAMClassifier, RandomBagClassifier
from skprivate.datasets import load_credit_default

X, y = load_credit_default(return_X_y=True, as_frame=True)  # the label says whether a client defaulted
X, X_new, y, y_new = train_test_split(X, y, train_size=6000, random_state=0)

# %%
# Features are public. The numbers of each of 23 columns are cut into bins, and each bin is a group. On random groups
# the model is linear, with bins too if the released sums show that they help.
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def models(epsilon):
    """Three models. An integer ``random_state`` makes a simulation: leave it out to publish."""
    yield "curated groups", CuratedBagGAMClassifier(epsilon, classes=[0, 1], random_state=0)
    for size in (4, 64):
        model = RandomBagClassifier(epsilon, bag_size=size, classes=[0, 1], random_state=0)
        yield f"random groups of {size}", model


def auc(model):
    return roc_auc_score(y_new, model.fit(X, y).predict_proba(X_new)[:, 1])


lines, guarantees = {}, {}
for epsilon in EPSILONS:
    for name, model in models(epsilon):
        lines.setdefault(name, []).append(auc(model))
        guarantees[name] = model.privacy_guarantee_
for name, guarantee in guarantees.items():
    print(f"{name}: {guarantee}")

# %%
# A client is in 23 curated groups, one for each column, and in one random group only, so curated sums have more noise.
# They still win, because the clients of a curated group are alike: their sum says something about the column.
single = auc(make_pipeline(SplineTransformer(knots="quantile"), LogisticRegression(max_iter=100)))
plt.axhline(single, color="k", ls="--", label="single labels, not private")
for (name, line), style in zip(lines.items(), ("C0o-", "C1s-", "C3^-"), strict=True):
    plt.semilogx(EPSILONS, line, style, label=name)
plt.xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
plt.minorticks_off()
plt.title("Sums of labels of similar clients tell more")
plt.xlabel("ε for the label of one client")
plt.ylabel("AUC on new clients")
plt.legend()
plt.show()

# %%
# Random groups are for models that are not additive, such as networks. Both kinds: :doc:`/guide/aggregate`.
