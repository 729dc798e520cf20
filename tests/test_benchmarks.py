"""Benchmarks can be found and run, and pages show what they wrote."""

from __future__ import annotations

import csv
import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("_"))
RESULTS = ROOT / "benchmarks" / "results"
PAGES = sorted((ROOT / "docs" / "evidence").glob("*.md"))
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
NUMBER = re.compile(r"[-−+]?\d*\.?\d+(?:e[-+]?\d+)?")


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("benchmarks_main", ROOT / "benchmarks" / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_benchmark_is_listed_with_its_purpose(runner):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert set(listed) == {path.stem for path in SCRIPTS}
    assert all(first.endswith(".") for first in listed.values())
    assert set(runner.QUICK) | set(runner.IN_PEER) <= set(listed)


def test_a_listed_file_is_a_program():
    assert not [path for path in SCRIPTS if '\nif __name__ == "__main__":\n' not in path.read_text("utf-8")]


def test_a_name_that_is_not_there_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "default_bar" in done.stderr


@pytest.mark.slow
def test_a_quick_run_replaces_no_result(runner):
    before = {path: path.read_bytes() for path in RESULTS.iterdir()}
    command = [sys.executable, "-m", "benchmarks", "user_level_mean", "--quick"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert before == {path: path.read_bytes() for path in RESULTS.iterdir()}


def rows_of(table):
    """Cells of a Markdown table, without the rule below its head."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]
    return [rows[0], *rows[2:]]


def agrees(shown, measured):
    """Whether two rows have the same numbers, as far as the page writes them."""
    for left, right in zip(shown, measured, strict=True):
        left, right = left.replace("−", "-"), right.replace("−", "-")
        if NUMBER.fullmatch(left) and NUMBER.fullmatch(right):
            digits = len(left.partition("e")[0].partition(".")[2])
            if abs(float(left) - float(right)) > 0.5000001 * 10.0**-digits:
                return False
        elif NUMBER.fullmatch(right):
            return False
    return True


def tables_with_the_columns_of_a_csv():
    """Name of the page, a table of it, and the rows of all results with the same columns."""
    known = defaultdict(list)
    for path in RESULTS.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as handle:
            head, *rows = csv.reader(handle)
        known[tuple(head)] += rows
    for page in PAGES:
        for table in TABLE.findall(page.read_text("utf-8")):
            head, *rows = rows_of(table)
            if tuple(head) in known:
                yield pytest.param(rows, known[tuple(head)], id=f"{page.stem}: {head[0]}, {head[-1]}")


@pytest.mark.parametrize(("shown", "measured"), list(tables_with_the_columns_of_a_csv()))
def test_a_printed_table_has_the_numbers_of_its_csv(shown, measured):
    for row in shown:
        assert any(agrees(row, other) for other in measured), row


def test_the_bar_shows_its_csv():
    """A table shows score and difference of the default with splines in one cell."""
    with (RESULTS / "default_bar.csv").open(newline="", encoding="utf-8") as handle:
        cells = {(row["data"].replace("R2", "R²"), row["ε"]): row for row in csv.DictReader(handle)}
    tables = [rows_of(table) for table in TABLE.findall((ROOT / "docs/evidence/default_bar.md").read_text("utf-8"))]
    [splines] = (table for table in tables if table[0][:2] == ["data", "ε = 0.1"])
    budgets = [name.removeprefix("ε = ").replace("10 000", "10000") for name in splines[0][1:]]
    for data, *shown in splines[1:]:
        found = [cells[data, epsilon] for epsilon in budgets]
        assert shown == [f"{row['ours, splines']} {row['with splines']}" for row in found], data
    assert {row[0] for row in splines[1:]} == {data for data, _ in cells}
