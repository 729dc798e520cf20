"""
Find the mistake in somebody's private mean
===========================================

Both functions below claim ε = 1 for one flight. One takes the range of the delays from the delays themselves, so its
claim is false. ``find_violation`` builds pairs of inputs that differ in one row, runs the function on both, and tests
whether its outputs tell them apart better than the claim permits.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np

from skprivate.audit import find_violation
from skprivate.datasets import load_flights
from skprivate.privacy import open_release


def range_of_the_data(X, random_state=None):
    delays = X[:, 0]
    scale = (delays.max() - delays.min()) / len(delays)
    return delays.mean() + np.random.default_rng(random_state).laplace(scale=scale)


def public_range(X, random_state=None):
    """Whole minutes from −60 to 1440, added exactly, with noise from the package."""
    delays = np.clip(X[:, 0], -60, 1440).astype(int)
    release = open_release(epsilon=1.0, unit="row", adjacency="replace-one", random_state=random_state)
    return release.discrete_laplace(int(delays.sum()), sensitivity=1500, epsilon=1.0) / len(delays)


# %%
# The search is given the kind of data and the claim. It finds a pair for the first function, and none for the second.
# That proves the first one wrong, with 99.9 % confidence, and does not prove the second one right.
X = load_flights(as_frame=True).data[["dep_delay"]].to_numpy()[:200]
for mechanism in (range_of_the_data, public_range):
    report = find_violation(mechanism, X, epsilon=1.0, max_pairs=200, simulate=True, random_state=0)
    print(textwrap.fill(str(report), 100), end="\n\n")

# %%
# What an attacker sees. The two inputs are 200 flights, and the same with the last one a day late. The lower row shows
# how much likelier an output is on the second input: the log of the ratio must be within ±1, up to the chance of 4000
# runs. Their noise is simulated (``random_state``), so they are not for publication.
late = X.copy()
late[-1] = 1440
bins = np.linspace(-15, 40, 45)
figure, axes = plt.subplots(2, 2, figsize=(9, 5.2), layout="constrained", sharex=True, sharey="row")
for (top, bottom), mechanism in zip(axes.T, (range_of_the_data, public_range), strict=True):
    counts = []
    for rows, color, label in ((X, "C0", "200 flights"), (late, "C1", "one of them a day late")):
        outputs = [mechanism(rows, random_state=seed) for seed in range(4000)]
        counts.append(top.hist(outputs, bins, color=color, alpha=0.6, label=label)[0])
    enough = np.maximum(*counts) >= 30
    ratio = np.log((counts[1] + 0.5) / (counts[0] + 0.5))[enough]
    bottom.plot(((bins[1:] + bins[:-1]) / 2)[enough], ratio, "ko", ms=4)
    bottom.axhspan(-1, 1, color="C2", alpha=0.3, label="what ε = 1 permits")
    bottom.set_xlabel("released mean delay (minutes)")
    top.set_title(mechanism.__name__)
axes[0, 0].legend()
axes[1, 0].legend()
axes[0, 0].set_ylabel("runs, of 4000")
axes[1, 0].set_ylabel("log of orange / blue")
plt.show()

# %%
# How the search works, and audits of estimators by their own draws: :doc:`/guide/audit`.
