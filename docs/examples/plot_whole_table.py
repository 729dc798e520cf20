"""
A whole table, original beside synthetic
========================================

All columns of Adult at ε = 1, δ = 1e-6 for one row. The source is public, so that both tables can be shown.
"""

import matplotlib.pyplot as plt
import numpy as np

from skprivate import PrivateTableSynthesizer
from skprivate.datasets import load_adult

adult = load_adult(as_frame=True).frame
print(adult.head())

# %%
# Values of the categories come from the questionnaire; here from the public rows. Numbers need no limits.
texts = adult.select_dtypes(exclude="number")
listed = {name: sorted(texts[name].dropna().unique()) for name in texts}
model = PrivateTableSynthesizer(
    epsilon=1.0,
    target="income",
    schema=listed,
    random_state=0,  # a simulation, so that this page is always the same; leave it out to publish
)
real = adult.sample(len(adult), random_state=0)
train, test = real[: 2 * len(real) // 3], real[2 * len(real) // 3 :]
synthetic = model.fit(train).sample(len(train), random_state=0)
print(model.privacy_guarantee_)
print(synthetic.head())

# %%
# Numbers of both tables, and income within the values of other columns.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
tables = {"real": train, "synthetic, ε = 1": synthetic}
for (label, table), color in zip(tables.items(), ("0.75", "C0"), strict=True):
    kind = {
        "histtype": "stepfilled" if label == "real" else "step",
        "color": color,
        "lw": 1.5,
        "label": label,
    }
    axes[0].hist(table["age"], np.arange(16.5, 92, 5), **kind)
    axes[1].hist(np.log10(1 + table["capital_gain"]), np.linspace(0, 5, 21), log=True, **kind)
    rich = 100 * (table["income"] == ">50K").groupby(table["education"].astype(str)).mean()
    axes[2].plot(rich.sort_index(), rich.sort_index().index, "o", color=color, label=label)
axes[0].set(xlabel="age (years)", ylabel="rows in 5 years", title="a number")
axes[1].set(xlabel="log10(1 + capital gain in \\$)", ylabel="rows", title="a skewed number")
axes[2].set(xlabel="% with an income above \\$50 000", title="a pair of columns")
axes[2].legend()
plt.show()

# %%
# Errors of all pairs, and what boosted trees learn from synthetic rows. This looks at real rows without noise: with a
# private source it is for the owner's eyes.
quality = model.quality(train, test, random_state=0)
print(quality)
quality.plot()
plt.show()

# %%
# Who is above 60 and works little? Conditions cost nothing.
print(model.sample(5, condition={"age": (60, 90), "hours_per_week": (1, 20)}, random_state=0))

# %%
# The synthetic table may be published with its guarantee. :doc:`/guide/tables` says what it does not have.
