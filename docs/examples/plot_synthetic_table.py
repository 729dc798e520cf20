"""
Synthetic table with categories and numbers
===========================================

A statistical office wants to give people a table that looks like the census and holds nobody. The rows are drawn from
a measure that was released under ε-differential privacy for one row. The source here is Adult, which is public, so
that the two tables can be compared.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import MetricPrivateSynthesizer
from skprivate.datasets import load_adult

adult = load_adult(as_frame=True).frame
columns = ["age", "hours_per_week", "gender", "marital_status", "income"]
real = adult[columns].astype({"gender": str, "marital_status": str, "income": str})

# %%
# Bounds and categories are public: they come from the questionnaire, not from the rows. Rare values should be one
# category, because each combination of categories is a table of its own: here there are 2 · 4 · 2. Bounds are halved
# again and again. Those of 128 whole numbers, from −0.5 to 127.5, never cut through one.
MARITAL = {"Married-civ-spouse": "married", "Never-married": "single", "Divorced": "divorced"}
real["marital_status"] = real["marital_status"].map(MARITAL).fillna("other")
model = MetricPrivateSynthesizer(
    epsilon=1.0,
    bounds={"age": (-0.5, 127.5), "hours_per_week": (-0.5, 127.5)},
    categories={
        "gender": ["Female", "Male"],
        "marital_status": ["married", "single", "divorced", "other"],
        "income": ["<=50K", ">50K"],
    },
    random_state=0,  # a simulation, so that this page is always the same; leave it out to publish
)
synthetic = model.fit(real).sample(len(real), random_state=0).round()
print(model.privacy_guarantee_)
print(synthetic.head())

# %%
# One column at a time, and one within the values of another.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
tables = {"real": real, "synthetic, ε = 1": synthetic}
for ax, name, unit in ((axes[0], "age", "years"), (axes[1], "hours_per_week", "hours")):
    for (label, table), color in zip(tables.items(), ("0.75", "C0"), strict=True):
        kind = {"histtype": "stepfilled" if label == "real" else "step", "color": color, "lw": 1.5}
        ax.hist(table[name], np.arange(-0.5, 100, 4), label=label, **kind)
    ax.set(xlabel=f"{name} ({unit})", ylabel="rows in 4 " + unit, title=name.replace("_", " "))
places = np.arange(4)
for shift, (label, table), color in zip((-0.2, 0.2), tables.items(), ("0.75", "C0"), strict=True):
    rich = 100 * (table["income"] == ">50K").groupby(table["marital_status"]).mean()
    axes[2].bar(places + shift, rich, 0.4, color=color, label=label)
axes[2].set_xticks(places, rich.index)
axes[2].legend()
axes[2].set(title="income by marital status", ylim=(0, 55), ylabel="% with an income above \\$50 000")
plt.show()

# %%
# The table may be published with its guarantee. The comparison may not, if the source is private. :doc:`/guide/metric`
# has the parameters that matter.
