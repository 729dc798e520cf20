"""
Randomise diagnosis codes along their tree
==========================================

A patient answers a survey with a random diagnosis near the true one. Similar diagnoses become hard to tell apart, such
as type 1 and type 2 diabetes; diabetes and asthma do not. The tree of ICD-10 defines what is similar. Two codes of one
block are ¼ apart, of one chapter ½, of different chapters 1, and ε is per unit of this distance.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skprivate import MetricPrivatizer
from skprivate.datasets import load_icd10

icd10 = load_icd10()
CHAPTERS = {"CH4": "hormones, metabolism", "CH9": "circulation", "CH10": "breathing", "CH11": "digestion"}


def path(code):
    """A code, its block and its chapter."""
    return code, icd10.parents[code], icd10.parents[icd10.parents[code]]


codes = [code for code in icd10.codes if path(code)[-1] in CHAPTERS]
print(len(codes), "codes of four chapters")

# %%
# At ε = 8 the probabilities of an answer differ by a factor of e² at most for codes of one block, e⁴ for those of one
# chapter and e⁸ for others. An integer ``random_state`` makes a simulation: patients leave it out.
patients = pd.DataFrame({"true": ["E10", "E11", "I10", "I21", "J45", "K50"]})
privatizer = MetricPrivatizer(8.0, metric="tree", parents=icd10.parents, states=codes, random_state=0)
patients["sent"] = privatizer.fit_transform(patients[["true"]]).ravel()
for column in ("true", "sent"):
    patients[column] += " " + patients[column].map(icd10.descriptions).str.slice(0, 32)
print(patients.to_string(index=False))
print(privatizer.privacy_guarantee_)

# %%
# The probabilities of all answers are public. Where ε is too small for codes, the mechanism chooses to be right about
# the block, or about the chapter.
EPSILONS = (2, 4, 6, 8, 10, 12, 16)
paths = np.array([path(code) for code in codes])
same = paths[:, None, :] == paths[None, :, :]  # of code and answer: the code, the block, the chapter
shares = []
for epsilon in EPSILONS:
    privatizer.set_params(epsilon=epsilon).fit([["E11"]])
    right = [(privatizer.channel_ * same[:, :, level]).sum(axis=1).mean() for level in range(3)]
    shares.append(np.diff([0.0, *right, 1.0]))

figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
labels = ("the code itself", "another code of the block", "another block of the chapter", "another chapter")
below = np.zeros(len(EPSILONS))
for label, share, color in zip(labels, 100 * np.transpose(shares), ("C0", "C9", "C1", "0.8"), strict=True):
    ax.bar(range(len(EPSILONS)), share, 0.75, below, color=color, label=label)
    below += share
ax.set_xticks(range(len(EPSILONS)), EPSILONS)
ax.set(
    xlabel="ε per unit of distance in the tree",
    ylabel="% of answers, mean over all codes",
    ylim=(0, 100),
    title="Randomised diagnosis codes",
)
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), title="the answer is", reverse=True)
plt.show()

# %%
# Other distances, the best channel for a small list of codes, and what ε costs if one answers twice:
# :doc:`/guide/metric`.
