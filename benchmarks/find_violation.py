"""Search the package for violations: as it is, or as it was at an older commit, with today's searcher.

Usage: python benchmarks/find_violation.py [--old CHECKOUT] [--only NAME ...] [--seconds S] [--seeds K ...] [--small]

``CHECKOUT`` is a worktree of that commit; known faults of it are searched for. The old package is imported first and
kept by its subjects; today's is then imported in its place. Without it, every private estimator of the package is
searched, where nothing should be found.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import pkgutil
import sys
import time
import warnings
from pathlib import Path

from _common import RESULTS

HERE = Path(__file__).resolve().parent


def search(name, subject, arguments, seconds, seed, out):
    """One search, whose outcome is added to a file."""
    from skprivate.audit import find_violation

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
        "cpu_seconds": round(report.counts.seconds, 1),
        "claimed_epsilon": report.claimed_epsilon,
        "epsilon_lower_bound": round(report.epsilon_lower_bound, 3),
        "p_value": report.p_value,
        "pairs": report.counts.n_pairs,
        "refused": report.counts.n_refused,
        "tested": report.counts.n_tested,
        "replayed": report.counts.n_replayed,
        "pair": str(report.pair)[:500],
        "largest_share": report.largest_share,
        "share_pair": str(report.share_pair)[:300],
        "one_sided_refusals": report.one_sided_refusals[:3],
        "unit": report.claim.unit,
    }
    out.write_text(json.dumps(results, indent=1) + "\n")


def only_small_data():
    """At most 20 columns and 400 users, so that subjects whose fits are slow are given many neighbours."""
    from skprivate.audit.claims import _recipes

    _recipes._COLUMNS = tuple(d for d in _recipes._COLUMNS if d <= 20)
    _recipes._CROWDS, _recipes._WIDE = (400,), (20,)


def subjects_of(checkout):
    """Import the old package and build its subjects, then forget its name."""
    sys.path.insert(0, checkout)
    old = importlib.import_module("skprivate")
    for module in pkgutil.walk_packages(old.__path__, "skprivate."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
    from _violation_subjects import old_subjects

    subjects = old_subjects()
    for name in [name for name in sys.modules if name.partition(".")[0] == "skprivate"]:
        del sys.modules[name]
    sys.path.remove(checkout)
    sys.path.insert(0, str(HERE.parent))
    return subjects


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
        subjects = subjects_of(options.old)
    else:
        from _violation_subjects import current_subjects

        subjects = current_subjects()
    if options.small:
        only_small_data()
    name = "find_violation_old.json" if options.old else "find_violation.json"
    out = Path(options.out or RESULTS / name)
    for name, (subject, arguments) in subjects.items():
        if options.only and not any(part in name for part in options.only):
            continue
        for seed in options.seeds:
            search(name, subject, arguments, options.seconds, seed, out)


if __name__ == "__main__":
    main()
