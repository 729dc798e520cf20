"""What every benchmark shares: arguments, timing, peers, and where tables and pictures go.

A benchmark is one script, ``python -m benchmarks <name> [-- --data DIR --seeds N]``. It writes
``benchmarks/results/<name>.csv``, draws ``docs/images/<name>.png`` and prints its table in Markdown, ready for
``docs/evidence/<name>.md``. Machine and versions go to ``benchmarks/results/environments.json``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: The runner's ``--quick`` writes elsewhere, so that small runs replace no result.
OUT = os.environ.get("SKPRIVATE_BENCHMARKS_OUT")
RESULTS = Path(OUT) if OUT else ROOT / "benchmarks" / "results"
IMAGES = Path(OUT) if OUT else ROOT / "docs" / "images"
os.environ.setdefault("MATPLOTLIBRC", str(ROOT / "docs" / "pictures.mplstyle"))  # one style for all pictures
#: Peers in their own environment; diffprivlib needs scikit-learn 1.7.
DIFFPRIVLIB = ("diffprivlib==0.6.6", "scikit-learn==1.7.2")
INTERPRET = "interpret-core[required]==0.7.8"
#: Packages whose versions are kept, with their modules, where a benchmark has loaded these.
VERSIONED = {"scikit-learn": "sklearn", "dp-accounting": "dp_accounting"}
VERSIONED |= {name: name for name in ("numpy", "scipy", "pandas", "polars", "pyarrow", "dask", "torch", "opendp")}


def parse_args(description: str, *, seeds: int = 10, **extra: dict[str, Any]) -> argparse.Namespace:
    """Parse ``--data``, ``--seeds`` and any ``extra`` options ``name=dict(add_argument keywords)``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=None, help="folder with the Parquet files")
    parser.add_argument("--seeds", type=int, default=seeds, help="number of repetitions")
    for name, keywords in extra.items():
        parser.add_argument("--" + name.replace("_", "-"), **keywords)
    return parser.parse_args()


def require_data(args: argparse.Namespace, name: str) -> Path:
    """Path of a data file below ``--data``, or a clear exit."""
    path = (args.data or Path("missing")) / name
    if not path.exists():
        raise SystemExit(f"{name} not found: pass --data DIR with the folder that holds it (got {args.data}).")
    return path


def median_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall-clock seconds of ``call()`` after one warm-up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def write_table(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Write ``benchmarks/results/<name>.csv``; return (and print) the table in Markdown."""

    def cell(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[cell(value) for value in row] for row in rows])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    table = "\n".join(lines)
    if not any((RESULTS / f"{name}_{runs}.csv").exists() for runs in ("runs", "seeds")):
        record_environment(name)  # else a table of runs, whose environments are recorded as they are added
    print(f"\n{name} ({machine()})\n\n{table}\n", flush=True)
    return table


def read_table(name: str) -> list[list[str]]:
    """The rows of ``benchmarks/results/<name>.csv``: pictures are drawn of what was recorded."""
    with open(RESULTS / f"{name}.csv", newline="") as handle:
        return list(csv.reader(handle))[1:]


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def record_environment(name: str, *, runs: bool = False) -> None:
    """Keep machine and versions of ``<name>.csv`` in ``environments.json``; of runs beside those of earlier ones."""
    found = {"machine": machine(), "python": platform.python_version()}
    if "skprivate" in sys.modules:
        found["skprivate"] = sys.modules["skprivate"].__version__
    found |= {name: metadata.version(name) for name, module in VERSIONED.items() if module in sys.modules}
    path = RESULTS / "environments.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    earlier = [each for each in known.get(name, []) if each != found] if runs else []
    known[name] = [*earlier, found]
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def save_figure(figure: Any, name: str) -> Path:
    """Save a matplotlib figure as ``docs/images/<name>.png``."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.png"
    figure.savefig(path, dpi=110, bbox_inches="tight")
    return path


def peer_python(folder: Path, *packages: str) -> Path:
    """Python of a virtual environment with these packages, by default diffprivlib; made where there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *(packages or DIFFPRIVLIB)], check=True)
    return python
