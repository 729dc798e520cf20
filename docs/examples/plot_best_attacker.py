"""
How well can an attacker do? A certificate
==========================================

A model of income publishes a score for each person, in grades. How well could somebody guess the gender from the
grade? An attack that we try is a lower bound: a better one may exist. ``FiniteAdversaryAuditor`` also computes an
upper bound that holds for *every* attack, with 99 % confidence. The people are those of Adult, which is public.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from skprivate import FiniteAdversaryAuditor
from skprivate.datasets import load_adult

X, income = load_adult(return_X_y=True, as_frame=True)
X_train, X_audit, y_train, _ = train_test_split(X, income == ">50K", test_size=2 / 3, random_state=0)

# %%
# The audited pairs: as many women as men, in random order, so that guessing has an accuracy of 50 %.
rng = np.random.default_rng(0)
women, men = (rng.permutation(np.flatnonzero(X_audit["gender"] == g)) for g in ("Female", "Male"))
pairs = rng.permutation(np.concatenate([women, men[: len(women)]]))
X_audit = X_audit.iloc[pairs]
gender = X_audit["gender"].astype(str).to_numpy()
half = len(gender) // 2

# %%
# The first half of the pairs gives the certificate and fits the attack, which is then tried on the second half.
GRADES = (2, 5, 10, 30, 100)
DROPPED = {"model of all columns": [], "without gender, relationship": ["gender", "relationship"]}
found = {}
for name, columns in DROPPED.items():
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    model.fit(X_train.drop(columns=columns), y_train)
    scores = model.predict_proba(X_audit.drop(columns=columns))[:, 1]
    for grades in GRADES:
        published = np.minimum((grades * scores).astype(int), grades - 1)
        auditor = FiniteAdversaryAuditor(prior=0.5).fit(published[:half], gender[:half])
        attack = auditor.score(published[half:], gender[half:])
        found.setdefault(name, []).append((100 * attack, 100 * auditor.accuracy_upper_bound_))
print(auditor.report())

# %%
# The best attack on a grade lies on the line between the two marks. Dropping two columns did not help: others still
# tell the gender. Fewer grades did. The audit adds no noise, so these numbers may be shown because Adult is public.
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
for shift, color, (name, rows) in zip((-0.1, 0.1), ("C1", "C0"), found.items(), strict=True):
    at = np.arange(len(GRADES)) + shift
    attacks, bounds = np.transpose(rows)
    ax.vlines(at, attacks, bounds, color=color, lw=2)
    ax.plot(at, bounds, "_", color=color, ms=14, mew=2, label=f"{name}: no attack exceeds this")
    ax.plot(at, attacks, "o", color=color, label=f"{name}: this attack")
ax.axhline(50, color="k", ls="--", label="guessing")
ax.set_xticks(range(len(GRADES)), GRADES)
ax.set(xlabel="number of grades of the published score", ylabel="% of genders guessed right", ylim=(48, 84))
ax.set_title("The gender of a client, guessed from a published score")
ax.legend(loc="upper left", fontsize="small")
plt.show()

# %%
# Grades need no assumption. For real numbers, and for what can be proven about them: :doc:`/guide/audit`.
