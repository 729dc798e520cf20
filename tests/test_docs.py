"""The documentation runs, links to what exists and names every public object."""

import ast
import builtins
import importlib.util
import inspect
import io
import itertools
import pydoc
import re
import sys
import tokenize
import tomllib
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from test_common import ESTIMATORS

import skprivate
from skprivate.privacy import public_generator
from skprivate.report._facts import versions
from skprivate.utils.estimator_checks import default_data

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: Folders that a build makes.
MADE = {"_build", "_templates", "gallery", "generated"}
SOURCES = sorted(
    page
    for page in [*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]
    if not MADE.intersection(page.relative_to(DOCS).parts) and page.name != "GALLERY_HEADER.rst"
)
PAGES = [ROOT / "README.md", *(page for page in SOURCES if page.suffix == ".md")]
#: A block of Python, and the block of text directly below it: all that it prints.
PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n?^```(?:text)?\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
LISTS = re.DOTALL | re.MULTILINE


def name(page):
    return str(page.relative_to(ROOT))


#: Pages that a newcomer runs first; the others' examples take minutes.
FIRST = {"README.md", "docs/quickstart.md"}


def shown(block):
    """What a block shows of its prints, by their lines: a comment behind one, or directly below it."""
    comments, own = {}, set()
    for token in tokenize.generate_tokens(io.StringIO(block).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.removeprefix("#")
            if not token.line[: token.start[1]].strip():
                own.add(token.start[0])
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            below = itertools.takewhile(own.__contains__, itertools.count(node.end_lineno + 1))
            text = comments.get(node.end_lineno) or " ".join(comments[line] for line in below)
            if text:
                yield node.lineno, text


def matches(text, printed):
    """Whether a page shows what was printed: spaces and ends of lines are alike, "…" stands for anything."""
    parts = " ".join(text.split()).split("…")
    return re.fullmatch(".*".join(map(re.escape, parts)), " ".join(printed.split()))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if name(page) in FIRST else pytest.mark.slow)
        for page in PAGES
        if PYTHON.search(page.read_text())
    ],
    ids=name,
)
def test_python_blocks_run_in_order_and_print_what_is_shown(page, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # pictures that examples save stay out of the tree
    printed = defaultdict(str)

    def catch(*values, sep=" ", end="\n"):
        printed[sys._getframe(1).f_lineno] += sep.join(map(str, values)) + end

    namespace = {"__name__": "__main__", "print": catch}
    wrong = []
    with config_context():  # what a page sets ends with it
        for block, text in PYTHON.findall(page.read_text()):
            # "# not run" marks fragments that show a shape, not a program
            if not block.startswith("# not run"):
                printed.clear()
                exec(compile(block, name(page), "exec"), namespace)
                pairs = [(text, printed[line]) for line, text in shown(block)]
                pairs += [(text, "".join(printed.values()))] if text else []
                wrong += [
                    f"shown: {text.strip()}\nprinted: {found}" for text, found in pairs if not matches(text, found)
                ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("block", "printed", "same"),
    [
        ("print(x)  # 0.85…", "0.8512", True),
        ("print(x)  # 0.85…", "0.8412", False),
        ("print(x)  # 0.85", "0.8512", False),
        ("print(\n    x,\n    y\n)\n# ('…/a': 1,\n#   2)\n\n# not shown", "('/tmp/a':\n1, 2)", True),
        ("for x in y:\n    print(x)\n    # 1\n    # 2\n    z()", "1\n2\n", True),
    ],
)
def test_what_a_comment_shows(block, printed, same):
    [(line, text)] = shown(block)
    assert block.splitlines()[line - 1].strip().startswith("print") and bool(matches(text, printed)) is same


def test_the_quickstart_runs_without_the_block_that_may_be_skipped():
    """What the other blocks use is defined by them."""
    text = (ROOT / "docs" / "quickstart.md").read_text()
    assert "pip install" in text and "pandas" in text.partition("```python")[0]
    kept = re.sub(r"skip this block:\n\n```python\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    assert kept != text
    nodes = list(ast.walk(ast.parse("".join(block for block, _ in PYTHON.findall(kept)))))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    assert not used - made - set(dir(builtins))


#: Pages outside the site.
OTHERS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / ".github").glob("*.md"))]


def test_links_lead_somewhere():
    for page in (*PAGES, *OTHERS):
        for target in LINK.findall(page.read_text()):
            if not target.startswith(("http://", "https://", "mailto:")):
                # The gallery's pages are made of its scripts when the site is built.
                source = re.sub(r"gallery/(?:index|(\w+))\.rst", lambda made: f"examples/{made[1]}.py", target)
                source = source.replace("None.py", "GALLERY_HEADER.rst")
                assert (page.parent / source).exists(), f"{name(page)} links to {target}"


def extension(module):
    """A module of docs/_extensions that needs no Sphinx."""
    path = ROOT / "docs" / "_extensions" / f"{module}.py"
    spec = importlib.util.spec_from_file_location(module, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_reference_names_everything_public():
    """Every ``__all__``, each object under the shortest name that it is imported by."""
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.rst"))
    named = re.findall(r"^(?:   ~|\.\. (?:py:data|autodata):: )(skprivate\.[\w.]+)$", pages, re.MULTILINE)
    assert sorted(named) == sorted(extension("public_names").canonical_names())


def test_names_are_the_shortest():
    names = extension("public_names").canonical_names()
    assert {f"skprivate.{name}" for name in skprivate.__all__} <= set(names)
    assert "skprivate.privacy.Release" in names and "skprivate.base.PrivateEstimatorMixin" in names
    assert not {"skprivate.user_level.UserLevelMean", "skprivate.privacy.PrivacyLedger"} & set(names)
    # The same word for two things: both are named.
    assert {"skprivate.audit.epsilon_lower_bound", "skprivate.utils.estimator_checks.epsilon_lower_bound"} <= set(names)


def test_what_docstrings_refer_to_has_a_page():
    """Ours or another project's; tools/cut_inventories.py brings what an inventory lacks."""
    docscrape = pytest.importorskip("numpydoc.docscrape")
    inventories = [path.read_bytes().split(b"\n", 4)[4] for path in (DOCS / "_inventories").glob("*.inv")]
    theirs = {line.split()[0] for one in inventories for line in zlib.decompress(one).decode().splitlines()}
    full_names = extension("public_names").canonical_names()
    ours = {short: full for full in full_names for short in (full, full.rpartition(".")[2])}
    missing = []
    for full in full_names:
        docstring = inspect.getdoc(pydoc.locate(full))
        also = docscrape.NumpyDocString(docstring)["See Also"]
        for found in [one for names, _ in also for one, _ in names]:
            owner, _, attribute = found.rpartition(".")
            is_ours = found in ours or (owner in ours and hasattr(pydoc.locate(ours[owner]), attribute))
            if not is_ours and found not in theirs:
                missing.append((full, found))
        others = re.findall(r"(?<!`)`~?((?:numpy|pandas|sklearn)\.[\w.]+)`(?!`)", docstring)
        missing += [(full, found) for found in others if found not in theirs]
    assert not missing


def test_every_page_is_in_the_contents():
    """A page that no table of contents lists cannot be found."""
    listed = {DOCS / "index"}
    for page in SOURCES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```|^\.\. toctree::\n(.*)", page.read_text(), LISTS):
            listed |= {page.parent / entry.strip() for entry in "".join(block).splitlines()}
    missing = [name(page) for page in SOURCES if page.with_suffix("") not in listed]
    assert not missing


def test_pictures_that_examples_save_are_those_that_pages_show():
    for page in PAGES:
        text = page.read_text()
        for picture in re.findall(r'savefig\("([^"]+)"', text):
            assert f"images/{picture}" in text and (ROOT / "docs" / "images" / picture).exists(), (page, picture)


def test_what_a_page_loads_from_elsewhere_is_found():
    """What a browser fetches by itself, not what a reader may click; the build warns of it."""
    loads = extension("offline").external_loads
    assert loads('<script src="https://cdn.example/mathjax.js"></script>')
    assert loads('<link rel="stylesheet" href="//fonts.example/a.css"><img src="http://example/a.png">')
    assert not loads('<a href="https://example">x</a><img src="_images/a.png"><math xmlns="http://www.w3.org/1998"/>')


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_parameters_and_fitted_attributes_are_described(estimator):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    sections = docscrape.NumpyDocString(inspect.getdoc(type(estimator)))
    described = {}
    for section in ("Parameters", "Attributes"):
        described[section] = {
            name.strip() for entry in sections[section] if any(entry.desc) for name in entry.name.split(",")
        }

    data = default_data(estimator, public_generator(0), 60)
    X = pytest.importorskip("pandas").DataFrame(data.X, columns=["a", "b", "c"])
    fitted = clone(estimator).fit(*([X] if data.y is None else [X, data.y]), **data.metadata)
    attributes = {name for name in vars(fitted) if name.endswith("_")}
    for cls in type(estimator).__mro__:
        if cls.__module__.startswith("skprivate."):
            attributes |= {name for name, value in vars(cls).items() if isinstance(value, property)}
    attributes = {name for name in attributes if not name.startswith("_")}

    assert set(estimator.get_params(deep=False)) - described["Parameters"] == set()
    assert attributes - described["Attributes"] == set()


def test_tests_that_pages_name_exist():
    """What a page offers as evidence can be run; "…" ends a name that is cut."""
    files = list((ROOT / "tests").rglob("*.py"))
    known = set(re.findall(r"def (test_\w+)", "\n".join(path.read_text() for path in files)))
    known |= {path.name for path in files}
    missing = [
        (name(page), found)
        for page in PAGES
        for code in re.findall(r"`([^`\n]*\btest_[^`\n]*)`", page.read_text())
        for found in re.findall(r"\btest_\w+(?:\.py|…)?", code)
        if not any(test.startswith(found[:-1]) if found.endswith("…") else test == found for test in known)
    ]
    assert not missing


#: The version that is being made, and one that never was: what broke once is not what is installed.
UNSAID = {skprivate.__version__, skprivate.__version__.partition(".dev")[0], "0.1.0"}
SAID = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "changelog.d").glob("*.md"), *(ROOT / "skprivate").rglob("*.py")]


def test_no_page_speaks_of_the_current_version_in_the_past_tense():
    """History is that of commits and of released versions; pages, docstrings and fragments name no other."""
    version = re.compile("|".join(rf"(?<!^## )\b{re.escape(one)}\b(?!\.\d)" for one in sorted(UNSAID)), re.M)
    allowed = {ROOT / "skprivate" / "__init__.py"}
    found = [str(page.relative_to(ROOT)) for page in SAID if page not in allowed and version.search(page.read_text())]
    assert not found, found


def test_the_version_has_one_source():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "skprivate/__init__.py"
    assert versions()["skprivate"] == skprivate.__version__
    assert f"## {skprivate.__version__.partition('.dev')[0]}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_picture_of_the_choice_is_drawn_of_public_names():
    """Its links are not checked when the site is built, because it is part of a page as it is."""
    import draw_choice

    assert (DOCS / "images" / "which_estimator.svg").read_text("utf-8") == draw_choice.drawing()
    linked = {draw_choice.link(one) for _, answers in draw_choice.TREE for _, names in answers for one in names}
    assert linked <= {f"generated/{one}.html" for one in extension("public_names").canonical_names()}


def test_evidence_is_tables_and_at_most_300_words():
    """Words of prose and headings: neither code, nor tables, nor directives."""
    for page in (DOCS / "evidence").glob("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        prose = [line for line in text.splitlines() if not line.startswith(("|", ":::"))]
        assert len(" ".join(prose).split()) <= 300, page.stem


#: Subscripts, powers, roots, sums and norms outside of formulas, code and links.
AS_TEXT = re.compile(r"\b[A-Za-zα-ωΑ-Ω]_[\w{(]|\^[\w{(−]|[√ΣΠ∏‖∝∫⟨∩]|[₀-₉ᵢⱼₖ]")
NO_TEXT = re.compile(
    r"^```.*?^ *```|^ +```.*?^ +```|\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "evidence"], ids=name)
def test_formulas_are_set_as_formulas(page):
    lines = NO_TEXT.sub(lambda found: "\n" * found[0].count("\n"), page.read_text("utf-8")).splitlines()
    assert not [f"{number}: {line}" for number, line in enumerate(lines, 1) if AS_TEXT.search(line)]


def test_a_long_formula_breaks_where_lines_may():
    """Browsers break no line within a formula, so on a phone the page would be wider than the screen."""
    pytest.importorskip("latex2mathml")
    pytest.importorskip("sphinx")
    write = extension("mathml").mathml
    long = write(r"a=\mathbb E[x,y]\le\max(b_1,b_2)+c_1c_2c_3c_4", "inline")
    assert [re.sub("<.*?>", "", part) for part in long.split("<wbr>")] == ["a=", "𝔼[x,y]≤", "max(b1,b2)+", "c1c2c3c4"]
    assert write(r"L\ln2/\max(a)", "inline").count("mspace") == 2 and "<mi>max</mi><mo stretchy" in write(
        r"\max(a)", "block"
    )
    assert "<wbr>" not in write(r"a\le b", "inline") + write(r"a=b+c+d+e+f+g+h+i+j+k", "block")


def test_every_script_of_the_gallery_has_a_place():
    order = extension("gallery_order").ORDER
    assert sorted(order) == sorted(path.stem.removeprefix("plot_") for path in (DOCS / "examples").glob("plot_*.py"))


def test_a_picture_of_the_gallery_is_finished_in_the_block_that_begins_it():
    for script in (DOCS / "examples").glob("plot_*.py"):
        for block in script.read_text().split("\n# %%"):  # the gallery takes its picture at the end of each
            assert "plt.subplots(" not in block or block.rstrip().endswith("plt.show()"), block
            assert "plt.show()" not in block or "title" in block or "Display" in block or "quality.plot()" in block, (
                block
            )


def test_guides_of_public_names_exist():
    names = extension("public_names")
    guides = {one for one in map(names.guide_of, names.canonical_names()) if one}
    assert guides and all((DOCS / f"{one}.md").exists() for one in guides)


def test_every_option_is_given_by_somebody():
    """What no page, example, benchmark or test sets by its name is not needed, or not tested."""
    programs = [path for folder in ("docs", "benchmarks", "tests") for path in (ROOT / folder).rglob("*.py")]
    texts = [path.read_text("utf-8") for path in (*PAGES, *programs)]
    for module in (ROOT / "skprivate").rglob("*.py"):
        texts += re.findall(r"^ *(?:>>>|\.\.\.) .*$", module.read_text("utf-8"), re.MULTILINE)
    given = {word for text in texts for found in GIVEN.findall(text) for word in found}
    missing = []
    for public in extension("public_names").canonical_names():
        module, _, kind = public.rpartition(".")
        value = getattr(importlib.import_module(module), kind)
        if inspect.isroutine(value) or (inspect.isclass(value) and issubclass(value, BaseEstimator)):
            missing += [f"{public}({name}=)" for name in _keywords(value) if name not in given]
    assert not missing


#: A keyword of a call, an option in a dictionary, or one of a part.
GIVEN = re.compile(r"\b(\w+)=|[\"'](\w+)[\"']\s*:|__([a-z]\w*)\b")


def _keywords(value):
    parameters = inspect.signature(value).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
