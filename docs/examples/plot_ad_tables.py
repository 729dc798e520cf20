"""
Learn from the sums of a database: ad tables
============================================

An advertiser knows who saw an ad and may not know who bought. The platform answers with tables: how many people of a
group saw the ad, and how many of them bought, with noise. A model of single people is learned from these tables.
Adult, which is public, stands for the log: its people are viewers, and an income above 50 000 dollars is a purchase.
"""

import sqlite3

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skprivate import CuratedBagGAMClassifier
from skprivate.aggregate import CuratedBags, release_frames
from skprivate.datasets import load_adult

X, income = load_adult(return_X_y=True, as_frame=True)
X, bought = X[["occupation", "education", "relationship"]].astype(str), (income == ">50K").astype(int)
X, X_new, bought, bought_new = train_test_split(X, bought, random_state=0)

# %%
# **The platform** groups and adds in its database; any would do. Each query reads every purchase once, so the budget
# is shared by the queries.
connection = sqlite3.connect(":memory:")
X.assign(bought=bought).to_sql("views", connection)
groups = ["occupation", "education", "relationship", "occupation, relationship", "education, relationship"]
query = "SELECT {0}, COUNT(*) AS n, SUM(bought) AS bought FROM views GROUP BY {0}"
tables = [pd.read_sql(query.format(group), connection) for group in groups]
print(tables[0].head(3))

# %%
# What leaves the platform are sums with noise. ε protects the purchase of one view; who saw the ad is public. An
# integer ``random_state`` makes a simulation, so that this page is always the same: leave it out to publish.
names = {"count": "n", "sums": "bought", "classes": [0, 1]}
reports = {"exact sums, not private": CuratedBags.from_frames(tables, **names)}
for epsilon in (1.0, 0.1):
    reports[f"ε = {epsilon:g}"] = release_frames(tables, **names, epsilon=epsilon, random_state=0)
print(reports["ε = 1"].guarantee)

# %%
# **The advertiser** fits an additive model to the viewers and the tables. The first table of the model holds what each
# occupation adds to the log odds. The AUC looks at single purchases, which it may only because Adult is public;
# ``bag_score`` does without them.
effects = {}
for name, report in reports.items():
    model = CuratedBagGAMClassifier().fit_bags(X, report)
    auc = roc_auc_score(bought_new, model.predict_proba(X_new)[:, 1])
    print(f"{name}: AUC {auc:.3f} on new viewers")
    bags = model.bags_
    keys = [key for (key,) in bags.readable_keys(bags.tables[0])]
    effects[name] = pd.Series(model.tables_[0].ravel(), keys)

effects = pd.DataFrame(effects).sort_values("exact sums, not private")
figure, ax = plt.subplots(figsize=(7, 4.8), layout="constrained")
rows = np.arange(len(effects))
for (name, effect), marker, color in zip(effects.items(), "|os", ("k", "C0", "C1"), strict=True):
    ax.plot(effect, rows, marker, color=color, ms=14 if marker == "|" else 6, label=name)
ax.set_yticks(rows, effects.index)
ax.set(xlabel="what the occupation adds to the log odds", title="Who buys: effects of occupations, from sums")
ax.grid(axis="x", alpha=0.4)
ax.legend()
plt.show()

# %%
# More about sums of labels, and how to choose a model by them: :doc:`/guide/aggregate`.
