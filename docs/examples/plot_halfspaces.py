"""
A classifier for a public and a private class
=============================================

A bank may show what its reliable clients look like, and must protect those who defaulted. The public rows propose
halfspaces, which costs nothing. ε is for the choice among them, and protects one row of the private class. Here all
rows are public: clients of a bank in Taiwan.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from skprivate import PPMHalfspaceClassifier, SimulatedNoiseWarning
from skprivate.datasets import load_credit_default
from skprivate.mixture import export_text

clients = load_credit_default(as_frame=True)
months = clients.data.filter(like="pay_amt")
X = pd.DataFrame(
    {
        "delay": clients.data[[f"pay_{k}" for k in (0, 2, 3, 4, 5, 6)]].clip(lower=0).mean(axis=1),
        "payment": np.log10(1 + months.mean(axis=1)),
    }
)
y = clients.target.map({0: "paid", 1: "defaulted"})
test = X.index % 2 == 0

# %%
# Both columns are functions of one client's own row. State whose rows are private: rows of the other class are
# published with the model. A mask, ``fit(..., private=mask)``, makes rows of either class private.
model = PPMHalfspaceClassifier(epsilon=1.0, private_label="defaulted", class_weight="balanced")
model.fit(X[~test], y[~test])
print(model.privacy_guarantee_)
print(export_text(model, feature_names=list(X.columns), digits=2))

# %%
# Three budgets. ``random_state=0`` makes a simulation, so that the picture is the same each time.
warnings.simplefilter("ignore", SimulatedNoiseWarning)
usual = LogisticRegression(class_weight="balanced").fit(X[~test], y[~test])
print(f"logistic regression without privacy: {balanced_accuracy_score(y[test], usual.predict(X[test])):.2f}")
figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
grid = np.stack(np.meshgrid(np.linspace(-0.2, 2.8, 300), np.linspace(1.5, 5, 300)), axis=-1)
points = pd.DataFrame(grid.reshape(-1, 2), columns=X.columns)
jitter = np.random.default_rng(0).uniform(-0.1, 0.1, len(X))  # for the eye: delays are sixths of a month
for axes, epsilon in zip(panels, (0.002, 0.02, 1.0), strict=True):
    model.set_params(epsilon=epsilon, random_state=0).fit(X[~test], y[~test])
    inside = (model.predict(points) == "paid").reshape(300, 300)
    axes.contourf(*grid.transpose(2, 0, 1), inside, levels=[0.5, 1.5], colors=["#dbe5ee"])
    for label, color in (("defaulted", "C1"), ("paid", "C0")):
        some = X[test & (y == label)][:300]
        near = some["delay"] + jitter[some.index]
        axes.scatter(near, some["payment"], s=6, alpha=0.6, color=color, label=label)
    axes.contour(*grid.transpose(2, 0, 1), inside, levels=[0.5], colors="black", linewidths=1)
    score = balanced_accuracy_score(y[test], model.predict(X[test]))
    axes.set(title=f"ε = {epsilon:g}: balanced accuracy {score:.2f}", xlabel="mean delay, months")
panels[0].set(ylabel="log10 of mean payment, dollars", xlim=(-0.2, 2.8), ylim=(1.5, 5))
panels[2].legend(loc="lower right")
plt.show()

# %%
# The guide: :doc:`/guide/mixture`.
