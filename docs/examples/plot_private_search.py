"""
Private hyperparameter search: one guarantee for search and model
=================================================================

Whoever fits four models on private rows and publishes the best has used the rows four times. ``PrivateSearchCV`` has
one budget for all fits, all scores and the choice. Here it chooses a model of taxi trips, whose rows are public.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_absolute_error

from skprivate import PrivacyLedger, PrivateSearchCV, SimulatedNoiseWarning, UserLevelSGDRegressor
from skprivate.datasets import load_locations
from skprivate.preprocessing import make_additive_pipeline

trips = load_locations(as_frame=True).frame
X = trips[["pickup_longitude", "pickup_latitude"]].copy()
X["east"] = trips["dropoff_longitude"] - trips["pickup_longitude"]
X["north"] = trips["dropoff_latitude"] - trips["pickup_latitude"]
y = trips["trip_duration"] / 60
test = np.arange(len(y)) % 5 == 0

# %%
# A trip takes long whether it goes east or west, so straight lines must fail. Some meters ran for a day, so the
# Huber loss may help. Whoever does not know that lets the search find out. Bounds of the score are public numbers.
losses = ["squared_error", "huber"]
lines, curves = UserLevelSGDRegressor(), make_additive_pipeline(UserLevelSGDRegressor())
search = PrivateSearchCV(
    [("lines", lines), ("curves", curves)],
    {"lines": {"loss": losses}, "curves": {"model__loss": losses}},
    epsilon=1.0,
    n_iter=4,  # mean number of fits; the number itself is random and remains secret
    scoring="neg_mean_absolute_error",
    score_bounds=(-30.0, 0.0),  # minutes
    predict_by="batch",  # faster; the guarantee lists what this assumes
    random_state=0,
)
ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, unit="row")
warnings.simplefilter("ignore", SimulatedNoiseWarning)  # random_state=0: a simulation, for a stable picture
search.set_params(ledger=ledger).fit(X[~test], y[~test])
print(search.privacy_guarantee_, f"{len(ledger.entries())} entry in the ledger", sep="\n")
print("also covered:", search.best_params_, f"score {search.best_score_:.2f}")

# %%
# The cost of not knowing. A search is nearly as good as the right candidate without a search, and far better than the
# wrong one. These errors have no noise: for private rows they stay with the holder of the rows.


def error(model):
    return mean_absolute_error(y[test], model.fit(X[~test], y[~test]).predict(X[test]))


errors = []
for seed in range(3):
    line = UserLevelSGDRegressor(epsilon=1.0, random_state=seed)
    search.set_params(random_state=seed, ledger=None)
    errors.append([error(line), error(search), error(make_additive_pipeline(line))])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(["lines,\nno search", "search", "curves,\nno search"], np.transpose(errors), "C0o", alpha=0.6)
left.set(ylabel="mean absolute error, minutes\n(three fits, other trips)", ylim=(0, 8), xlim=(-0.5, 2.5))
left.set_title("Error of the model")
costs = {"search": search.epsilon, "its candidates,\neach fitted once": 4 * search.search_plan_.each_epsilon}
right.bar_label(right.barh(list(costs), list(costs.values()), color=["C0", "C1"]), fmt="%.2f", padding=3)
right.set(xlabel="ε for one trip, as a sum", xlim=(0, 4), title="Its privacy cost")
plt.show()

# %%
# The guide: :doc:`/guide/private_search`.
