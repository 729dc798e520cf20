"""Search the package for violations: as it is, or as it was at an older commit, with today's searcher.

Usage: python benchmarks/find_violation.py [--old CHECKOUT] [--only NAME ...] [--seconds S] [--seeds K ...] [--small]

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

HERE = Path(__file__).resolve().parent


def search(name, subject, arguments, seconds, seed, out):
    """One search, whose outcome is added to a file."""
    from skprivate.audit.claims._violations import find_violation

    begun = time.time()
    try:
        report = find_violation(subject, max_seconds=seconds, random_state=seed, **arguments)
    except ValueError as error:  # neighbours of this claim cannot be built
        print(f"[{name}] {error}", flush=True)
        return
    print(f"[{name}, seed {seed}] {report}"[:700], f"wall {time.time() - begun:.0f} s", flush=True)
    results = json.loads(out.read_text()) if out.exists() else {}  # several may run side by side
    results[f"{name}, seed {seed}"] = {
        "violated": report.violated,
        "cpu_seconds": round(report.seconds, 1),
        "claimed_epsilon": report.claimed_epsilon,
        "epsilon_lower_bound": round(report.epsilon_lower_bound, 3),
        "p_value": report.p_value,
        "counts": report.counts,
        "pairs": report.n_pairs,
        "refused": report.n_refused,
        "tested": report.n_tested,
        "how": report.how[:500],
        "door_share": report.door_share,
        "door_pair": report.door_pair[:300],
        "watched": report.n_watched,
        "one_sided_refusals": report.one_sided_refusals[:3],
        "unit": report.unit,
        "event": report.event,
    }
    out.write_text(json.dumps(results, indent=1) + "\n")


def only_small_data():
    """At most 20 columns and 400 users, so that subjects whose fits are slow are given many neighbours."""
    from skprivate.audit.claims import _violations_pairs as pairs

    every = pairs.gene_values

    def few_columns(place):
        genes = every(place)
        return {**genes, "d": tuple(d for d in genes["d"] if d == "given" or d <= 20)}

    pairs.gene_values, pairs._CROWDS = few_columns, (400,)
    pairs.Recipes._wide = lambda self, recipe: None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--small", action="store_true", help="no wide data, no crowds of thousands")
    parser.add_argument("--out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.old:
        sys.path.insert(0, options.old)
        import skprivate.audit

        skprivate.audit.__path__.append(str(HERE.parent / "skprivate" / "audit"))
    from _violation_subjects import current_subjects, old_subjects

    if options.small:
        only_small_data()
    name = "find_violation_old.json" if options.old else "find_violation.json"
    out = Path(options.out or HERE / "results" / name)
    for name, (subject, arguments) in (old_subjects() if options.old else current_subjects()).items():
        if options.only and not any(part in name for part in options.only):
            continue
        for seed in options.seeds:
            search(name, subject, arguments, options.seconds, seed, out)


if __name__ == "__main__":
    main()
