"""Synthetic tables with categories: marginals and a model trained on them, by how deep the hierarchy goes.

Adult (age and hours; income, gender, education in three groups, married) and credit clients (limit and age; default,
sex, education, latest repayment). Total variation of all one- to three-way marginals with 20 bins per numeric column,
and the AUC of boosted trees that were trained on synthetic rows and see real held-out ones.

    python benchmarks/metric_mixed.py [--seeds 2]
"""

from __future__ import annotations

import itertools
import statistics

import numpy as np
from _common import parse_args, write_table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from skprivate.datasets import load_adult, load_credit_default
from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric.grid import _hierarchy as hierarchy

#: The constant of two numeric columns, and depth per split of categories.
RULES = {"+0": (1.0, 0.0), "+0.3 a split": (1.0, 0.3), "+0.6": (1.0, 0.6), "+0.9": (1.0, 0.9)}


def tables() -> dict[str, tuple[np.ndarray, list[tuple[float, float]]]]:
    """Two numeric columns, then categories as codes, the label first; and public bounds."""
    adult = load_adult(as_frame=True)
    frame = adult.data
    married = frame["marital_status"].astype(str).str.startswith("Married").to_numpy()
    school = frame["education"].astype(str)
    education = school.isin(["Bachelors", "Masters", "Doctorate", "Prof-school"]) * 2
    education += school.isin(["Some-college", "Assoc-voc", "Assoc-acdm"]) * 1
    first = np.column_stack(
        [
            *(frame[["age", "hours_per_week"]].to_numpy(dtype=float).T),
            np.unique(adult.target, return_inverse=True)[1],
            np.unique(frame["gender"].astype(str), return_inverse=True)[1],
            education,
            married,
        ]
    ).astype(float)
    clients = load_credit_default(as_frame=True)
    rows = clients.data
    second = np.column_stack(
        [
            rows["limit_bal"],
            rows["age"],
            clients.target,
            rows["sex"] > 1,
            np.clip(rows["education"], 1, 4) - 1,
            np.clip(rows["pay_0"], -1, 3) + 1,
        ]
    ).astype(float)
    return {"Adult": (first, [(17, 90), (1, 99)]), "credit": (second, [(0, 800_000), (20, 80)])}


def variation(first: np.ndarray, second: np.ndarray, bounds) -> list[float]:
    """Mean total variation of the marginals of one, two and three columns."""
    codes = []
    for rows in (first, second):
        binned = [
            np.clip((rows[:, j] - low) / (high - low) * 20, 0, 19).astype(int) for j, (low, high) in enumerate(bounds)
        ]
        codes.append(np.column_stack([*binned, rows[:, 2:].astype(int)]))
    sizes = [20, 20, *(int(first[:, j].max()) + 1 for j in range(2, first.shape[1]))]
    found = []
    for ways in (1, 2, 3):
        gaps = []
        for chosen in itertools.combinations(range(len(sizes)), ways):
            shape = [sizes[j] for j in chosen]
            laws = [
                np.bincount(np.ravel_multi_index(tuple(part[:, chosen].T), shape), minlength=int(np.prod(shape)))
                / len(part)
                for part in codes
            ]
            gaps.append(0.5 * np.abs(laws[0] - laws[1]).sum())
        found.append(statistics.mean(gaps))
    return found


def main() -> None:
    args = parse_args(__doc__, seeds=2)
    rows = []
    for name, (table, bounds) in tables().items():
        categories = {j: np.unique(table[:, j]).tolist() for j in range(2, table.shape[1])}
        for n, epsilon in ((2000, 1.0), (20_000, 1.0)):
            for rule, (constant, share) in RULES.items():
                hierarchy.FURTHER_SPLITS[2], hierarchy.GROUP_SHARE = constant, share
                found = []
                for seed in range(args.seeds):
                    order = np.random.default_rng(seed).permutation(len(table))
                    train, held = table[order[:n]], table[order[n : n + 10_000]]
                    box = {j: bounds[j] for j in range(2)}
                    model = MetricPrivateSynthesizer(epsilon, bounds=box, categories=categories).fit(train)
                    sample = np.asarray(model.sample(n, random_state=seed), dtype=float)
                    trees = HistGradientBoostingClassifier(max_iter=25, random_state=0)
                    inputs = [j for j in range(table.shape[1]) if j != 2]
                    auc = 0.5
                    if len(np.unique(sample[:, 2])) == 2:
                        trees.fit(sample[:, inputs], sample[:, 2])
                        auc = roc_auc_score(held[:, 2], trees.predict_proba(held[:, inputs])[:, 1])
                    found.append([*variation(table, sample, bounds), auc])
                means = np.mean(found, axis=0).round(4).tolist()
                rows.append([name, n, epsilon, rule, "×".join(map(str, model.measure_.shape)), *means])
                print(rows[-1], flush=True)
    write_table("metric_mixed", ["data", "n", "epsilon", "rule", "cells", "TV 1", "TV 2", "TV 3", "AUC"], rows)


if __name__ == "__main__":
    main()
