"""
A report to sign before a model is published
============================================

A hospital wants to publish a model of readmissions, and somebody who did not write the code has to answer for it. The
report says on one page what is protected, how strongly, what else was released from the same patients, and what is
open. The table is that of American hospitals, which is public and stands for one that is not.
"""

import matplotlib.pyplot as plt

from skprivate import (
    PrivacyLedger,
    UserLevelMean,
    UserLevelSGDClassifier,
    guarantee_of,
    make_private_pipeline,
    privacy_report,
)
from skprivate.datasets import load_hospital
from skprivate.report import GuaranteeDisplay, LedgerDisplay

hospital = load_hospital(as_frame=True)
X, patients, back = hospital.data, hospital.user_ids, hospital.target == "<30"  # back within 30 days

# %%
# One budget for the patients, whatever is fitted. This ledger is in memory. Give it a path to share and keep it.
ledger = PrivacyLedger(epsilon=3.0, delta=1e-5, unit="user", adjacency="replace-one")
stay = UserLevelMean(0.5, ledger=ledger.annotated("mean stay, annual report"))
stay.fit(X[["days"]], user_ids=patients)

# %%
# The trial is in the ledger as well as the published model. There is no ``random_state``: these are real releases, with
# noise that nobody can repeat.
schema = {**hospital.feature_bounds, **hospital.categories}
classifier = UserLevelSGDClassifier(classes=[False, True])
for epsilon, purpose in ((0.5, "trial"), (1.0, "published model")):
    model = make_private_pipeline(classifier, schema, epsilon=epsilon, ledger=ledger.annotated(purpose))
    model.fit(X, back, user_ids=patients)

# %%
# Code cannot know for what a model is used or who may see the table. Questions without an answer stay open on the
# page, and the verdict is then to look at it first.
answers = {
    "purpose": "A public planning tool for hospitals.",
    "promise": "That no patient can be recognised. A patient is the unit, with all encounters.",
    "tuning": "ε was set by the board before the first fit. The trial is in the ledger.",
    "utility": "By AUC, on patients of another year, who are not in this table.",
    "bias": "Errors on that year were compared by gender and race.",
    "trust": "The table stays with the hospital; two data stewards may read it.",
    "security": "Fitted on a machine without a network. The ledger is in the backup.",
    "collection": "Encounters with diabetes, by the hospitals' own records.",
    "contact": "data office, office@example.org",
}
report = privacy_report(model, answers=answers, title="Readmission of diabetic patients")
print(report)

# %%
# Left: how many patients of the table an attacker can recognise at best, by the share of others who are taken for
# patients. Right: what the ledger has paid for.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
GuaranteeDisplay.from_guarantee({"published model": guarantee_of(model)}, ax=axes[0])
LedgerDisplay.from_ledger(ledger, ax=axes[1])
plt.show()

# %%
# The page itself. ``privacy_report(model, "report.html")`` writes it to a file.
report

# %%
# All its sections, and the same facts as JSON: :doc:`/guide/report`.
