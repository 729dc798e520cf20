"""Search the package for violations: as it is, or as it was at an older commit, with today's searcher.

Usage: python benchmarks/find_violation.py [--old CHECKOUT] [--only NAME ...] [--seconds S] [--seeds K ...]

``CHECKOUT`` is a worktree of that commit; known faults of it are searched for. Today's modules of the search are loaded
beside the old package: the search needs nothing of it but binomial intervals and public randomness. Without it, every
private estimator of the package is searched, where nothing should be found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def current_subjects():
    """Every private estimator, with the arguments of the search."""
    from audit_estimators import recipe_selector

    import skprivate as sp

    choice = recipe_selector()
    return {
        "PPMHalfspaceClassifier": (sp.PPMHalfspaceClassifier(), {}),
        "CuratedBagGAMClassifier": (sp.CuratedBagGAMClassifier(classes=[0, 1]), {}),
        "CuratedBagGAMRegressor": (sp.CuratedBagGAMRegressor(label_bounds=(0.0, 1.0)), {}),
        "RandomBagClassifier": (sp.RandomBagClassifier(classes=[0, 1]), {}),
        "RandomBagRegressor": (sp.RandomBagRegressor(label_bounds=(0.0, 1.0)), {}),
        "UserLevelSGDRegressor": (sp.UserLevelSGDRegressor(), {}),
        "UserLevelSGDRegressor, ridge off": (
            sp.UserLevelSGDRegressor(alpha=0.0, fit_intercept=False),
            {"settings": [{}]},
        ),
        "UserLevelSGDRegressor, add-remove": (
            sp.UserLevelSGDRegressor(adjacency="add-remove", n_users=30, fit_intercept=False),
            {},
        ),
        "UserLevelSGDClassifier": (sp.UserLevelSGDClassifier(classes=[0, 1]), {}),
        "UserLevelMean": (sp.UserLevelMean(), {}),
        "UserLevelMean, add-remove": (
            sp.UserLevelMean(adjacency="add-remove", n_users=30),
            {},
        ),
        "UserLevelSelector": (
            sp.UserLevelSelector(**choice["parameters"]),
            {"X": choice["fit"][0], "y": choice["fit"][1]},
        ),
        "MetricPrivatizer": (sp.MetricPrivatizer(epsilon=1.0), {}),
        "MetricPrivatizer, exponential": (
            sp.MetricPrivatizer(epsilon=10.0, mechanism="exponential", bounds=(0.0, 1.0)),
            {},
        ),
        "MetricPrivateSynthesizer, rows": (
            sp.MetricPrivateSynthesizer(bounds=(0.0, 1.0), metric="rows", resolution=16),
            {"X": np.linspace(0.0, 1.0, 16)[:, None]},
        ),
        "MetricPrivateSynthesizer, transport": (
            sp.MetricPrivateSynthesizer(bounds=(0.0, 1.0), metric="wasserstein", resolution=4),
            {"X": np.linspace(0.0, 1.0, 16)[:, None]},
        ),
    }


def old_subjects():
    """What is searched in the older commit, by fault, with the arguments of the search."""
    import skprivate as sp
    from skprivate.privacy import open_release

    def bags(X, y, random_state=None, **options):
        return sp.make_random_bags(X, y, random_state=random_state, **options)

    def curated(X, y, random_state=None, **options):
        return sp.make_curated_bags(X, y, [(0,)], random_state=random_state, **options)

    def laplace(X, random_state=None):
        with open_release(
            epsilon=1.0, unit="row", adjacency="replace-one", random_state=random_state
        ) as release:
            return release.laplace(np.asarray(X)[:, 0], sensitivity=1, epsilon=1.0)

    numbers = np.linspace(0.0, 1.0, 20)
    plane = np.stack([numbers, numbers[::-1]], axis=1)
    numeric_bags = {"bag_size": 1, "epsilon": 1.0, "numbers": True, "label_bounds": (0.0, 1.0)}
    numeric_tables = {"epsilon": 1.0, "classes": None, "label_bounds": (0.0, 1.0)}
    integers = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l1"}
    return {
        "several outputs": (bags, {"X": plane, "y": numbers, "settings": numeric_bags}),
        "a user's number of rows, regressor": (sp.UserLevelSGDRegressor(), {"settings": [{}]}),
        "a user's number of rows, classifier": (
            sp.UserLevelSGDClassifier(classes=[0, 1]),
            {"settings": [{}]},
        ),
        "squares underflow, ridge off": (
            sp.UserLevelSGDRegressor(alpha=0.0, fit_intercept=False),
            {"unit": "row", "settings": [{}]},
        ),
        "labels far from zero, tables": (curated, {"X": plane, "y": numbers, "settings": numeric_tables}),
        "labels far from zero, regressor": (sp.CuratedBagGAMRegressor(label_bounds=(0.0, 1.0)), {}),
        "scores rounded to a unit": (
            sp.MetricPrivatizer(epsilon=10.0, mechanism="exponential", bounds=(0.0, 1.0)),
            {},
        ),
        "radii on a lattice": (sp.MetricPrivatizer(epsilon=1.0), {}),
        "integers through floats": (laplace, {"X": np.array([[0]]), **integers}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.old:
        sys.path.insert(0, options.old)
        import skprivate.audit

        skprivate.audit.__path__.append(str(HERE.parent / "skprivate" / "audit"))
    from skprivate.audit._violations import find_violation

    name = "find_violation_old.json" if options.old else "find_violation.json"
    out = Path(options.out or HERE / "results" / name)
    results = json.loads(out.read_text()) if out.exists() else {}
    for name, (subject, arguments) in (old_subjects() if options.old else current_subjects()).items():
        if options.only and not any(part in name for part in options.only):
            continue
        for seed in options.seeds:
            begun = time.time()
            try:
                report = find_violation(subject, max_seconds=options.seconds, random_state=seed, **arguments)
            except ValueError as error:  # neighbours of this claim cannot be built
                print(f"[{name}] {error}", flush=True)
                continue
            print(f"[{name}, seed {seed}] {report}"[:700], f"wall {time.time() - begun:.0f} s", flush=True)
            results[f"{name}, seed {seed}"] = {
                "violated": report.violated,
                "cpu_seconds": round(report.seconds, 1),
                "claimed_epsilon": report.claimed_epsilon,
                "epsilon_lower_bound": round(report.epsilon_lower_bound, 3),
                "p_value": report.p_value,
                "counts": report.counts,
                "pairs": report.n_pairs,
                "tested": report.n_tested,
                "how": report.how[:500],
                "door_share": report.door_share,
                "one_sided_refusals": len(report.one_sided_refusals),
                "unit": report.unit,
                "event": report.event,
            }
            out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
