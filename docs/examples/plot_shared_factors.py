"""
Which ad for which audience, from sums
======================================

A table of 40 audiences by 40 ads has 1600 cells. There are few views in each, so noise hides the sum of a cell. Tastes
may be simpler: an audience likes an ad if a few traits of both agree. ``submodel="factors"`` learns such traits from
the same sums. Views are generated here, so the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.metrics import log_loss

from skprivate import CuratedBagGAMClassifier, make_curated_bags

rng = np.random.default_rng(0)
SIZES = {"audience": 40, "ad": 40, "site": 20}
traits = {name: rng.normal(size=(size, 2)) for name, size in SIZES.items()}
for hidden in traits.values():  # for the picture alone: similar traits side by side
    hidden[:] = hidden[np.argsort(np.arctan2(*hidden.T))]


def share(views):
    """Share of views after which somebody buys."""
    audience, ad, site = (traits[name][views[name]] for name in SIZES)
    return expit(0.7 * (audience * ad).sum(axis=1) + 0.7 * (audience * site).sum(axis=1) - 1)


views = pd.DataFrame({name: rng.integers(0, size, 40_000) for name, size in SIZES.items()})
bought = (rng.random(len(views)) < share(views)).astype(int)
X, X_new, y, y_new = views[:20_000], views[20_000:], bought[:20_000], bought[20_000:]

# %%
# One release: sums for each column and each pair of columns, with noise. ε protects the purchase of one view. An
# integer ``random_state`` makes a simulation; leave it out to publish.
bags = make_curated_bags(
    X, y, "pairs", epsilon=4.0, delta=1e-6, classes=[0, 1], categorical_features="all", random_state=0
)
print(bags.guarantee)

# %%
# Any number of models may learn from it at no further cost. All are asked for each audience and ad, on site 0.
cells = pd.MultiIndex.from_product([range(40), range(40), [0]], names=list(SIZES)).to_frame(index=False)
shown = {"truth": (share(cells), share(X_new))}
for name, submodel in (("a table for each pair", "crosses"), ("shared factors", "factors")):
    model = CuratedBagGAMClassifier(submodel=submodel, random_state=0).fit_bags(X, bags)
    shown[name] = model.predict_proba(cells)[:, 1], model.predict_proba(X_new)[:, 1]

figure, axes = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained", sharey=True)
for ax, (name, (grid, new)) in zip(axes, shown.items(), strict=True):
    image = ax.imshow(100 * grid.reshape(40, 40), vmin=0, vmax=100)
    ax.grid(visible=False)
    ax.set(title=f"{name}\nlog loss of new views: {log_loss(y_new, new):.3f}", xlabel="ad")
axes[0].set_ylabel("audience")
figure.colorbar(image, ax=axes, label="% of views with a purchase")
plt.show()

# %%
# The noise of 1600 cells is larger than what they differ by, so the model of tables keeps little but the effect of each
# audience. On other data, such as Adult, tables are the better model. ``bag_score`` chooses by sums of other views. The
# guide: :doc:`/guide/aggregate`.
