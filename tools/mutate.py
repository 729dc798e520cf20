"""Change the privacy core in small ways, and see whether its tests notice.

``python tools/mutate.py --sample 60 --seed 0`` makes 60 random mutants of the files that decide a guarantee.
``--files skprivate/privacy/noise`` chooses others, ``--only skprivate/privacy/_release.py:12`` makes one mutant again,
``--all-tests`` runs all tests of the core on each. Mutants are made in a copy of the repository.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORE = "skprivate/privacy"
DECIDING = ("_contributions.py", "_events.py", "_release.py", "accounting", "draws", "noise")
#: Tests of files whose path begins like this; the longest beginning counts. Others have all tests of the core.
TESTS = {
    "_contributions": "contributions release_floor release samplers selection k_norm",
    "_events": "accounting approximate_event guarantee release",
    "_guarantee": "guarantee risk accounting",
    "_release": "release release_floor guarantee large_delta simulation ledger_account",
    "accounting": "accounting exact_bounds approximate_event risk",
    "accounting/_gaussian": "exact_bounds accounting",
    "accounting/_zcdp": "exact_bounds accounting ledger_totals",
    "draws/_draws": "release release_floor selection quantiles threshold_counts",
    "draws/_counts": "threshold_counts categories",
    "draws/_metric": "k_norm release_floor release",
    "draws/_quantiles": "quantiles",
    "noise/_bits": "randomness samplers",
    "noise/_k_norm": "k_norm",
    "noise/_samplers": "samplers k_norm selection",
    "noise/_selection": "selection",
    "_risk": "risk guarantee",
    "ledger": "ledger_account ledger_totals ledger_shown ledger",
    "ledger/_costs": "ledger_totals ledger_account parallel",
    "search": "random_stopping repeated",
}
#: Tests that lie elsewhere.
ELSEWHERE = {
    "draws/_metric": "tests/metric/test_draws.py tests/metric/test_flow_draws.py",
    "noise/_k_norm": "tests/metric/test_draws.py",
}

COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
OPERATIONS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
    ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.FloorDiv,),
}  # fmt: skip
NAMES = {"max": "min", "min": "max", "floor": "ceil", "ceil": "floor", "maximum": "minimum", "minimum": "maximum"}


def variants(node: ast.AST) -> Iterator[Callable[[Any], Any]]:
    """Make the changes of one node: each is a function that changes it, or returns another one."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                yield lambda found, place=place, other=other: found.ops.__setitem__(place, other())
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        for other in OPERATIONS.get(type(node.op), ()):
            yield lambda found, other=other: setattr(found, "op", other())
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield lambda found: setattr(found, "op", other())
    elif isinstance(node, ast.UnaryOp):
        yield lambda found: found.operand
    elif isinstance(node, ast.Raise):
        yield lambda found: ast.Pass()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda found: setattr(found, "value", not found.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield lambda found: setattr(found, "value", found.value + 1)
        yield lambda found: setattr(found, "value", found.value - 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield lambda found: setattr(found, "value", 2 * found.value if found.value else 1.0)
    elif isinstance(node, ast.Attribute) and node.attr == "inf":
        yield lambda found: ast.UnaryOp(ast.USub(), found)
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in NAMES:
            field = "id" if isinstance(node.func, ast.Name) else "attr"
            yield lambda found: setattr(found.func, field, NAMES[name])


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Walk over what runs: parent, field and index of each node, without annotations, decorators and messages."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "exc", "cause"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield tree, field, index
                yield from places(child)


def positions(source: str) -> list[tuple[int, int]]:
    """List the mutants of a source: the place of a node, and which of its changes."""
    found = []
    for place, (parent, field, index) in enumerate(places(ast.parse(source))):
        held = getattr(parent, field)
        found += [(place, k) for k, _ in enumerate(variants(held if index is None else held[index]))]
    return found


def mutant(source: str, place: int, variant: int) -> tuple[str, str]:
    """Make one mutant of a source: what was changed, and the new source."""
    tree = ast.parse(source)
    parent, field, index = list(places(tree))[place]
    held = getattr(parent, field)
    node = held if index is None else held[index]
    before, line = ast.unparse(node), node.lineno
    new = list(variants(node))[variant](node)
    if isinstance(new, ast.AST):
        if index is None:
            setattr(parent, field, new)
        else:
            held[index] = new
        node = new
    statement = source.splitlines()[line - 1].strip()
    shown = f"{line}: {before[:70]!r} -> {ast.unparse(node)[:70]!r} in {statement[:100]!r}"
    return shown, ast.unparse(ast.fix_missing_locations(tree))


def tests_of(path: str) -> list[str]:
    """Choose the tests for a file of the core."""
    inner = path.removeprefix(f"{CORE}/")
    found = max((start for start in TESTS if inner.startswith(start)), key=len, default=None)
    if found is None:
        return ["tests/privacy"]
    own = [f"tests/privacy/test_{name}.py" for name in ["small_changes", *TESTS[found].split()]]
    return own + [name for name in ELSEWHERE.get(found, "").split() if (ROOT / name).exists()]


def run(copied: Path, tests: list[str], limit: float) -> str:
    """Run tests in the copy: "killed", "survived", or "killed (time)"."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copied), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=copied, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        return "survived" if process.wait(limit) == 0 else "killed"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return "killed (time)"


def chosen_files(names: list[str]) -> list[str]:
    """List the files below the given files and folders."""
    paths = [ROOT / name for name in names]
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    return [file.relative_to(ROOT).as_posix() for file in files if file.name != "__init__.py"]


def main() -> None:
    """Parse the command line, run the mutants, print who survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", default=[f"{CORE}/{name}" for name in DECIDING])
    parser.add_argument("--sample", type=int, help="number of mutants, the same from each file as far as there are")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="FILE:NUMBER of mutants, as printed")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for the tests of one mutant")
    parser.add_argument("--all-tests", action="store_true", help="run all tests of the core on each mutant")
    parser.add_argument("--list", action="store_true", help="count the mutants of each file and stop")
    options = parser.parse_args()
    files = chosen_files(options.files)
    mutants = [
        (file, number, *position)
        for file in sorted({name.rpartition(":")[0] for name in options.only} if options.only else files)
        for number, position in enumerate(positions((ROOT / file).read_text("utf-8")))
        if not options.only or f"{file}:{number}" in options.only
    ]
    if options.list:
        print(*(f"{count:6} {file}" for file, count in Counter(file for file, *_ in mutants).items()), sep="\n")
        return
    if options.sample is not None:
        random.Random(options.seed).shuffle(mutants)
        turns: Counter[str] = Counter()
        order = []
        for one in mutants:
            order.append((turns[one[0]], one))
            turns[one[0]] += 1
        mutants = [one for _, one in sorted(order)[: options.sample]]
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder)
        for name in ("skprivate", "tests"):
            shutil.copytree(ROOT / name, copied / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copied)
        for file, number, place, variant in mutants:
            begun = time.monotonic()
            shown, source = mutant((ROOT / file).read_text("utf-8"), place, variant)
            (copied / file).write_text(source, "utf-8")
            result = run(copied, ["tests/privacy"] if options.all_tests else tests_of(file), options.limit)
            shutil.copy(ROOT / file, copied / file)
            found.setdefault(file, Counter())[result.split()[0]] += 1
            print(f"{result:13} {time.monotonic() - begun:4.0f} s  {file}:{number}  line {shown}", flush=True)
    print("\nkilled survived  file")
    for file, counts in sorted(found.items()):
        print(f"{counts['killed']:6} {counts['survived']:8}  {file}")


if __name__ == "__main__":
    main()
