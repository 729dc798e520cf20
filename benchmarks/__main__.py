"""Run benchmarks by name: ``python -m benchmarks NAME|all|--list|--quick [-- options of the script]``.

``--quick`` runs those that have small settings with them, each for at most two minutes, into a temporary folder: it
shows that they still run and replaces no result. The environments of peers are made on the first call.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from _common import INTERPRET, ROOT, peer_python  # noqa: E402

#: Options with which a benchmark takes a minute at most and needs no data folder. Others have no small setting.
QUICK = {
    "aggregate_speed": "--rows 20000 --pass-rows 100000",
    "audit_door": "--sound 1 --only Bag",
    "find_violation": "--small --seconds 2 --only Mean",
    "interactions": "--case adult --rows 2000 --seeds 1 --eps 1",
    "metric_degrees": "--seeds 1",
    "metric_domains": "--seeds 1",
    "metric_local": "--seeds 1",
    "metric_mixed": "--seeds 1",
    "metric_speed": "--seeds 1",
    "private_search_audit": "--seconds 5",
    "private_search_cost": "",
    "spline": "--case adult --rows 2000 --seeds 1 --eps 1",
    "user_level_mean": "--seeds 1",
    "user_level_record": "--seeds 1",
    "user_level_speed": "--scale 0.01 --fits 1",
    "user_level_steps": "--seeds 1",
}
QUICK_SECONDS = 120
#: Benchmarks that run in the environment of a peer, and its packages.
IN_PEER = {"aggregate_peer": (".venv-interpret", INTERPRET, "pandas", "pyarrow")}


def scripts() -> dict[str, str]:
    """First line of the docstring of every benchmark, by name."""
    paths = sorted(path for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    docs = {path.stem: ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for path in paths}
    return {name: text.partition("\n")[0] for name, text in docs.items()}


def run(name: str, options: list[str], out: str | None = None) -> int:
    """Run one benchmark, with the code beside it; return its exit status."""
    python: str | Path = sys.executable
    if name in IN_PEER:
        folder, *packages = IN_PEER[name]
        python = peer_python(ROOT / folder, *packages)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    if out:
        environment["SKPRIVATE_BENCHMARKS_OUT"] = out
    print(f"\n== {name} {' '.join(options)}", flush=True)
    command = [python, HERE / f"{name}.py", *options]
    try:
        return subprocess.run(command, env=environment, timeout=QUICK_SECONDS if out else None).returncode
    except subprocess.TimeoutExpired:
        print(f"stopped after {QUICK_SECONDS} seconds")
        return 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    known = scripts()
    parser.add_argument("name", nargs="?", choices=[*known, "all"], metavar="NAME", help="a benchmark, or all")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--quick", action="store_true", help="run with small settings, into a temporary folder")
    own, options = sys.argv[1:], []
    if "--" in own:
        cut = own.index("--")
        own, options = own[:cut], own[cut + 1 :]
    args = parser.parse_args(own)
    if args.list or not (args.name or args.quick):
        width = max(map(len, known))
        print("\n".join(f"{name:<{width}}  {first}" for name, first in known.items()))
        return 0
    chosen = list(known) if args.name in ("all", None) else [args.name]
    if not args.quick:
        failed = [name for name in chosen if run(name, options)]
    else:
        with tempfile.TemporaryDirectory() as out:
            failed = [name for name in chosen if name in QUICK and run(name, [*QUICK[name].split(), *options], out)]
        print("\nno small setting:", ", ".join(name for name in chosen if name not in QUICK) or "none")
    if failed:
        print("failed:", ", ".join(failed))
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
