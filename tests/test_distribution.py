"""What is given away: wheel, source distribution, citation, recipe, workflows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import skprivate

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAX_WHEEL = 3_000_000  # bytes


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and a source distribution, made without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.mark.slow
def test_the_wheel_is_small_and_holds_the_package_alone(built):
    assert built[0].stat().st_size <= MAX_WHEEL
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names} == {"skprivate", f"skprivate-{skprivate.__version__}.dist-info"}
    needed = {path for path in (ROOT / "skprivate").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.relative_to(ROOT).as_posix() for path in needed} == {
        name for name in names if name.startswith("skprivate/")
    }


@pytest.mark.slow
def test_the_program_runs_from_the_wheel(built, tmp_path):
    """The wheel is on the path as it is; dependencies are those of this environment."""
    for command in (["-m", "skprivate.cli", "--version"], ["-c", "import skprivate; print(skprivate.__file__)"]):
        done = subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": str(built[0])},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert skprivate.__version__ in done.stdout


@pytest.mark.slow
def test_the_source_distribution_holds_what_tests_and_site_need(built):
    with tarfile.open(built[1]) as source:
        names = {member.name.partition("/")[2] for member in source.getmembers()}
    kept = {"benchmarks", "docs", "skprivate", "tests", "tools"}
    files = {
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "LICENSE-DATA.txt",
        "README.md",
        "pyproject.toml",
    }
    assert {name.partition("/")[0] for name in names} == kept | files | {".ci", ".gitignore", "PKG-INFO"}
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.csv")]:
        relative = path.relative_to(ROOT).as_posix()
        assert relative in names or relative.startswith(("docs/_build", "docs/generated", "docs/gallery"))
    assert not {name for name in names if name.endswith((".pyc", ".log", ".whl"))}


def test_the_citation_and_the_recipe_follow_the_project():
    citation = (ROOT / "CITATION.cff").read_text()
    recipe = (ROOT / ".ci" / "recipe.yaml").read_text()
    version = skprivate.__version__.partition(".dev")[0]
    assert f"\nversion: {version}\n" in citation and f'version: "{version}"' in recipe
    theory = "".join(path.read_text() for path in (ROOT / "docs" / "theory").glob("*.md"))
    papers = [paper for paper in citation.split("  - type: article")[1:] if "arXiv:" in paper]
    assert len(papers) == 5
    for paper in papers:  # each has a page with an entry to cite
        title = re.search(r'title: "?([^"\n]+)', paper)[1]
        names = " and ".join(
            f"{last}, {first}" for first, last in re.findall(r"given-names: (.*?), family-names: (.*?) }", paper)
        )
        number, year = re.search(r"arXiv:([\d.]+)", paper)[1], re.search(r"year: (\d+)", paper)[1]
        entry = f"  title = {{{title}}},\n  author = {{{names}}},\n  year = {{{year}}},\n  eprint = {{{number}}},\n"
        assert entry in theory and f"arxiv.org/abs/{number}" in theory, title
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0].replace(" ", "").replace("\n-", "\n").split()
    python = f"python{PROJECT['requires-python']}"
    assert {line.removeprefix("-") for line in run} == {python, *PROJECT["dependencies"]}
    assert PROJECT["description"] in recipe


def test_licences_of_the_data_are_those_of_their_descriptions():
    assert PROJECT["license"] == "BSD-3-Clause AND CC-BY-4.0"
    stated = dict(re.findall(r"^(\w+) {3,}.*\. (.*)$", (ROOT / "LICENSE-DATA.txt").read_text(), re.MULTILINE))
    texts = {path.stem: path.read_text() for path in (ROOT / "skprivate" / "datasets" / "descr").iterdir()}
    assert stated.keys() == texts.keys()
    for name, text in texts.items():
        assert ("CC BY 4.0" in text) == (stated[name] == "CC BY 4.0"), name


def test_workflows_call_the_steps_of_ci_with_least_rights():
    yaml = pytest.importorskip("yaml")
    if not (ROOT / ".github").exists():
        pytest.skip("a source distribution has no workflows")
    steps = set(re.findall(r"^(\w+)\(\) \{", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    sessions = set(re.findall(r"^def (\w+)\(session\)", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
    assert sessions <= steps
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {"contents": "read"}, path.name
        assert "secrets." not in text and "write-all" not in text
        for name, job in workflow["jobs"].items():
            allowed = {"id-token": "write"} if name == "publish" else None
            assert job.get("permissions") == allowed, f"{path.name}: {name}"
        for called in re.findall(r"\.ci/run (\w+)", text) + re.findall(r"\bstep: (\w+)", text):
            assert called in steps, f"{path.name} calls {called}."
        for used in re.findall(r"uses: (\S+)", text):
            assert used.startswith("./") or re.search(r"@(v\d+|release/v\d+)$", used), used
    versions = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: 3." in name}
    matrix = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == versions


@pytest.mark.parametrize("name", ["bug", "feature", "privacy"])
def test_issue_forms_ask_for_what_is_needed(name):
    yaml = pytest.importorskip("yaml")
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    if not path.exists():
        pytest.skip("a source distribution has no forms")
    form = yaml.safe_load(path.read_text())
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert form["name"] and form["description"] and len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    if name == "privacy":
        needed = {part["id"] for part in fields if part.get("validations", {}).get("required")}
        assert {"pair", "call", "epsilon", "versions"} <= needed
