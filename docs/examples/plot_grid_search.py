"""
Grid search over epsilon, and what it costs
===========================================

A grid search shows how a score grows with ε. Each of its fits is a release from the same rows, so the costs add up.
A ledger shows the total, before the search and after it. The rows are half of Adult, which is public.
"""

import warnings

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV, KFold

from skprivate import PrivacyLedger, SimulatedNoiseWarning, UserLevelSGDClassifier, make_private_pipeline
from skprivate.datasets import load_adult
from skprivate.inspection import quote

people = load_adult(as_frame=True).frame[::2]
X = people[["age", "education", "marital_status", "occupation", "hours_per_week"]]
y = people["income"] == ">50K"

# %%
# Types say what a column holds: numbers, or categories with a declared list. Folds must not depend on labels, so
# ``KFold`` is stated: ``cv=3`` would be stratified for a classifier. ``random_state=0`` makes a simulation.
ledger = PrivacyLedger(epsilon=5.0, delta=2e-5, unit="row")
model = make_private_pipeline(UserLevelSGDClassifier(classes=[False, True], random_state=0), ledger=ledger)
grid = {"epsilon": [0.1, 0.3, 1.0]}
search = GridSearchCV(model, grid, cv=KFold(3), scoring="roc_auc", refit=False, error_score="raise")
warnings.simplefilter("ignore", SimulatedNoiseWarning)

# %%
# The cost can be asked for beforehand. Nothing is drawn or charged for the answer.
price = quote(search, X, y, ledger=ledger)
print(price)

# %%
# All of it is reserved, or the search does not begin.
with ledger.reserve(price) as part:
    search.set_params(estimator__ledger=part).fit(X, y)
print(ledger)

# %%
# The largest ε has the best score, as nearly always. The scores have no noise, so neither they nor a choice by them
# may be published: the ledger's total is about the models. On the right is what all fits cost together.
results = pd.DataFrame(search.cv_results_)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
ticks = [f"ε = {epsilon:g}" for epsilon in grid["epsilon"]]
left.plot(ticks, results.filter(regex="split"), "C0o", alpha=0.6, label=["three folds", None, None])
left.plot(ticks, results["mean_test_score"], "C0", label="their mean")
left.set(xlabel="budget of one fit", ylabel="AUC on the fold left out", title="What ε buys")
left.legend(loc="lower right")
costs = {"one fit at ε = 1": 1.0, "9 fits, by the ledger": ledger.spent[0], "9 fits, as a sum": price.epsilon}
bars = right.barh(list(costs), list(costs.values()), color=["C0", "C1", "C1"])
right.bar_label(bars, fmt="%.2f", padding=3)
right.set(xlabel="ε for one person", xlim=(0, 5), title="What the search costs")
plt.show()

# %%
# The guide: :doc:`/guide/ledger`. A search with a guarantee of its own: :doc:`/guide/private_search`.
