"""
Synthetic map of places
=======================

Where do people take a taxi? Exact places reveal homes and clinics. A synthetic map shows the crowds and hides each
pickup: leaving one out hardly changes the probabilities of a map. These pickups, in New York in 2016, are open data,
so they can be shown beside the synthetic ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import MetricPrivateSynthesizer
from skprivate.datasets import load_locations

city = {"pickup_longitude": (-74.26, -73.70), "pickup_latitude": (40.49, 40.92)}
pickups = load_locations(as_frame=True).data[list(city)]

# %%
# The bounds are those of the city, which everybody knows; rows outside are clipped to them. A fit spends ε once. Then
# any number of rows may be drawn. An integer ``random_state`` makes a simulation: leave it out to publish.
maps = {"real": pickups}
for epsilon in (0.1, 1.0):
    model = MetricPrivateSynthesizer(epsilon, bounds=city, random_state=0).fit(pickups)
    maps[f"synthetic, ε = {epsilon:g}"] = model.sample(len(pickups), random_state=0)
print(model.privacy_guarantee_)
print(maps["synthetic, ε = 1"].head(3).round(4))

# %%
# A count on synthetic rows is close to the true one where many people are.
AREAS = {
    "Midtown": (-74.000, -73.970, 40.745, 40.765),
    "LaGuardia": (-73.890, -73.855, 40.765, 40.785),
    "Kennedy": (-73.830, -73.750, 40.630, 40.665),
}


def inside(rows, west, east, south, north):
    longitude, latitude = rows.to_numpy().T
    return np.sum((west < longitude) & (longitude < east) & (south < latitude) & (latitude < north))


for name, rows in maps.items():
    print(f"{name:20}", {area: int(inside(rows, *limits)) for area, limits in AREAS.items()})

figure, axes = plt.subplots(1, 3, figsize=(10.5, 4.3), layout="constrained", sharex=True, sharey=True)
for ax, color, (name, rows) in zip(axes, ("k", "C1", "C0"), maps.items(), strict=True):
    ax.scatter(*rows.to_numpy().T, s=2, color=color, alpha=0.4, linewidths=0)
    for area, (west, east, south, north) in AREAS.items():
        ax.add_patch(plt.Rectangle((west, south), east - west, north - south, fill=False, ec="C3"))
        side = "right" if area == "Midtown" else "left"  # where there are few points
        ax.annotate(area, (west, north), (0, 4), textcoords="offset points", color="C3", ha=side)
    ax.set(title=name, xlim=(-74.09, -73.72), ylim=(40.61, 40.88), xlabel="longitude (degrees)")
    ax.set_xticks([-74.0, -73.9, -73.8])
    ax.set_aspect(1 / np.cos(np.deg2rad(40.75)))  # a kilometre is as long in both directions
axes[0].set_ylabel("latitude (degrees)")
plt.show()

# %%
# ε protects one pickup. A person with k pickups in the data has the protection of k·ε. The guide: :doc:`/guide/metric`.
