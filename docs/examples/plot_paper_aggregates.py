"""
Aggregates: sums of curated bags lose nothing, random bags do
=============================================================

The third paper learns from sums of labels. Where bags are *curated*, all rows with one value of a column or of two,
the sums determine the same model that individual labels do (Theorem 1). Bags of random rows lose more with their size
(Theorem 2). This is its comparison on Adult, which the package holds: eight categorical columns. Noise is
simulated by a seed, so that the page can be repeated; a release takes none.
"""

import matplotlib.pyplot as plt
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skprivate import CuratedBagGAMClassifier, RandomBagClassifier
from skprivate.aggregate import make_random_bags
from skprivate.datasets import load_adult

adult = load_adult(as_frame=True)
X, y = adult.data[adult.categorical_features], (adult.target == ">50K").to_numpy().astype(int)
X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)


def loss(model):
    return log_loss(y_test, model.fit(X, y).predict_proba(X_test)[:, 1])


# %%
# The curated model from exact sums, and from sums with noise for each label.
EPSILONS = (0.5, 2.0)
exact = loss(CuratedBagGAMClassifier(epsilon=None))
noisy = [loss(CuratedBagGAMClassifier(epsilon=epsilon, random_state=0)) for epsilon in EPSILONS]
for epsilon, each in zip(EPSILONS, noisy, strict=True):
    print(f"label ε = {epsilon}: {each:.4f}, from exact sums {exact:.4f}")

# %%
# Random bags of growing size, with exact sums: the same rows and columns, these as indicators. The model from bags of
# one row is logistic regression on individual labels.
SIZES = (1, 4, 16, 64, 256)
encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(X)
Z, Z_test = encoder.transform(X), encoder.transform(X_test)
random = []
for size in SIZES:
    bags = make_random_bags(Z, y, size, disjoint=True, random_state=0)
    random.append(log_loss(y_test, RandomBagClassifier().fit_bags(Z, bags).predict_proba(Z_test)[:, 1]))
plt.semilogx(SIZES, random, "o-", label="random bags, by rows per bag")
plt.axhline(exact, color="C1", label="curated bags, exact sums")
for epsilon, each, style in zip(EPSILONS, noisy, (":", "--"), strict=True):
    plt.axhline(each, color="C1", ls=style, label=f"curated bags, label ε = {epsilon:g}")
plt.xticks(SIZES, SIZES)
plt.minorticks_off()
plt.title("Adult: what models of bags lose on new rows")
plt.xlabel("rows per random bag")
plt.ylabel("log loss of new rows")
plt.legend()
plt.show()

# %%
# What is proven, and where it stands in the code: :doc:`/theory/aggregates`.
