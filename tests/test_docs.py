"""The documentation runs, links to what exists and names every public object."""

import re
from pathlib import Path

import pytest
from sklearn import config_context

import skprivate

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "benchmarks").glob("*.md")]
)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text())], ids=name)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # pictures that examples save stay out of the tree
    namespace = {"__name__": "__main__"}
    with config_context():  # what a page sets ends with it
        for block in PYTHON.findall(page.read_text()):
            # "# not run" marks fragments that show a shape, not a program
            if not block.startswith("# not run"):
                exec(compile(block, name(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{name(page)} links to {target}"


def test_the_reference_names_everything_public():
    text = (ROOT / "docs" / "api.rst").read_text()
    missing = [public for public in skprivate.__all__ if f"skprivate.{public}\n" not in text]
    assert not missing
