"""
Hide a place before anybody sees it: ε per kilometre
====================================================

An app on a phone may move its own place at random before it sends it, so that nobody has to be trusted. ε is per
kilometre: an output is at most exp(ε·r) times as likely from one place as from another r kilometres away. This hides
the house and not the city. The pickups of taxis in New York, used here, are open data.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skprivate import MetricPrivatizer
from skprivate.datasets import load_locations

city = {"pickup_longitude": (-74.26, -73.70), "pickup_latitude": (40.49, 40.92)}
pickups = load_locations(as_frame=True).data[list(city)]
EPSILONS = (4.0, 1.0)


def privatizer(epsilon):
    """A transformer of places. An integer ``random_state`` makes a simulation: a phone leaves it out."""
    return MetricPrivatizer(epsilon, metric="haversine", bounds=city, random_state=0)


# %%
# What a phone sends for one place, Penn Station, if it is asked 300 times. Each answer costs ε again, so it should be
# asked once.
station = pd.DataFrame([[-73.9935, 40.7506]] * 300, columns=list(city))
km = np.array([111.2 * np.cos(np.deg2rad(40.75)), 111.2])  # of a degree of longitude and of latitude
figure, ax = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
for epsilon, color in zip(EPSILONS[::-1], ("C1", "C0"), strict=True):
    model = privatizer(epsilon)
    moved = (model.fit_transform(station) - station.to_numpy()) * km
    distance = np.median(np.linalg.norm(moved, axis=1))
    label = f"ε = {epsilon:g} per km: half within {distance:.1f} km"
    ax.scatter(*moved.T, s=9, color=color, label=label)
ax.plot(0, 0, "k*", ms=13, label="the true place")
ax.set(xlabel="km to the east", ylabel="km to the north", xlim=(-8, 8), ylim=(-7, 9), aspect="equal")
ax.set_title("What is sent of one place")
ax.legend()
print(model.privacy_guarantee_)
plt.show()

# %%
# What a service can still learn from all phones: how many pickups there are in each part of the city.
AREAS = {
    "Midtown\n4 km²": (-73.995, -73.971, 40.745, 40.763),
    "Harlem\n9 km²": (-73.960, -73.930, 40.800, 40.832),
    "LaGuardia\n7 km²": (-73.890, -73.855, 40.765, 40.786),
    "Kennedy\n26 km²": (-73.830, -73.750, 40.630, 40.665),
}


def counts(places):
    east, north = np.asarray(places).T
    return [np.sum((w < east) & (east < e) & (s < north) & (north < n)) for w, e, s, n in AREAS.values()]


figure, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
for shift, epsilon, color in zip((-0.2, 0.2), EPSILONS, ("C0", "C1"), strict=True):
    percent = 100 * np.divide(counts(privatizer(epsilon).fit_transform(pickups)), counts(pickups))
    ax.bar(np.arange(4) + shift, percent, 0.4, color=color, label=f"ε = {epsilon:g} per km")
ax.axhline(100, color="k", ls="--")
ax.set_xticks(range(4), AREAS)
ax.set(ylabel="pickups sent from an area, % of the true number", title="Counts of areas")
ax.legend()
plt.show()

# %%
# The guide, with norms, codes and the best channel for a few places: :doc:`/guide/metric`.
