"""
Protect a person with all rows, not one row
===========================================

A table has many rows of each person, patient or, here, aircraft. A guarantee for one row says little about somebody
with 50 rows. With ``user_ids`` the same estimator protects all rows of a user together. The rows are public: flights
from New York in 2013, whose delay on arrival is predicted.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skprivate import PrivacyLedger, SimulatedNoiseWarning, UserLevelSGDRegressor
from skprivate.datasets import load_flights
from skprivate.inspection import quote

flights = load_flights(as_frame=True)
X, y, aircraft = flights.data, flights.target, flights.user_ids
test = aircraft % 5 == 0  # whole aircraft
print(X.assign(aircraft=aircraft, delay=y).head())

# %%
# Two fits at the same ε, for two units.
of_rows = UserLevelSGDRegressor(epsilon=1.0, adjacency="add-remove").fit(X[~test], y[~test])
of_users = UserLevelSGDRegressor(epsilon=1.0, adjacency="add-remove")
of_users.fit(X[~test], y[~test], user_ids=aircraft[~test])
print(of_rows.privacy_guarantee_, of_users.privacy_guarantee_, sep="\n")

# %%
# What does the first fit promise to an aircraft? A ledger that counts for aircraft converts guarantees of rows, if it
# knows how many rows one has at most. A quote draws nothing.
flown = np.bincount(aircraft)
COUNTS = [1, 3, 10, 30, 100, flown.max()]
for_aircraft = []
for count in COUNTS:
    ledger = PrivacyLedger(epsilon=1e5, delta=1e-3, unit="user", adjacency="add-remove", rows_per_user=count)
    for_aircraft.append(quote(of_rows, X[~test], y[~test], ledger=ledger).epsilon)

# %%
# From ε = 1 on, the guarantee for aircraft costs hardly any accuracy, because 1 092 aircraft are enough. Fits with an
# integer as ``random_state`` are simulations. Scores of private rows would stay with the holder of the rows.
warnings.simplefilter("ignore", SimulatedNoiseWarning)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.loglog(COUNTS, for_aircraft, "C1s--", label="fit for one row")
left.loglog(COUNTS, np.ones(len(COUNTS)), "C0o-", label="fit for one aircraft")
left.axvline(np.median(flown), color="black", ls=":", label="median aircraft")
left.set(xlabel="flights of an aircraft", ylabel="ε for all of its flights", title="What is protected")
left.legend()
EPSILONS = [0.1, 0.3, 1.0, 3.0]
for kind, style, ids in (("row", "C1s--", None), ("aircraft", "C0o-", aircraft[~test])):
    scores = []
    for epsilon in EPSILONS:
        fits = [UserLevelSGDRegressor(epsilon, random_state=seed) for seed in range(3)]
        scores.append([fit.fit(X[~test], y[~test], user_ids=ids).score(X[test], y[test]) for fit in fits])
    ticks = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    right.plot(ticks, np.median(scores, axis=1), style, label=f"for one {kind}: median of three fits")
right.set(ylabel="R² on other aircraft", ylim=(0, 1), title="How good the model is")
right.legend(loc="lower right")
plt.show()

# %%
# The guide: :doc:`/guide/user_level`.
