"""The house rules, read off the source: who may import whom, where random bits come from, how long a "
"file is."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import skprivate
from skprivate.utils.discovery import all_estimators

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skprivate"
SOURCES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
MAX_LINES = 700

MAX_FUNCTION, MAX_ENTRIES = 60, 20

BASIS = {"_messages", "_progress", "_sklearn", "_validation", "base", "partitions", "privacy"}
ESTIMATORS = {"aggregate", "metric", "mixture", "user_level"}
#: What the modules of each part may import of the package, besides the part itself. Anything else is a mistake.
MAY_IMPORT: dict[str, set[str]] = {
    "_messages": set(),
    "privacy": {"_messages"},
    "_progress": set(),
    "_sklearn": {"_progress", "privacy"},
    "_validation": {"_sklearn", "_messages"},
    "partitions": {"_messages", "_progress", "_sklearn", "_validation", "privacy"},
    "base": {"_messages", "_progress", "_sklearn", "partitions", "privacy"},
    "datasets": {"_messages", "_sklearn", "privacy"},
    "utils": BASIS,
    **dict.fromkeys(ESTIMATORS, BASIS),
    "preprocessing": BASIS,
    "audit": BASIS | {"utils"},  # the recordings and replays of the checks
    "papers": BASIS | ESTIMATORS | {"audit"},
    "inspection": BASIS | ESTIMATORS | {"audit", "preprocessing"},
    "model_selection": BASIS | ESTIMATORS | {"audit", "inspection", "preprocessing"},
    "report": BASIS | ESTIMATORS | {"audit", "inspection", "model_selection"},
    "cli": BASIS | {"audit", "report"},
}
EVERYTHING = {"__init__", "__main__"}


def nodes(tree, kind, *, skip_annotations=False):
    """All nodes of a kind; annotations name types and run nothing."""
    if isinstance(tree, kind):
        yield tree
    for name, value in ast.iter_fields(tree):
        if skip_annotations and name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from nodes(child, kind, skip_annotations=skip_annotations)


def imported(tree):
    """Full dotted names that a module imports."""
    for node in nodes(tree, (ast.Import, ast.ImportFrom)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path):
    """Top-level part of the package that a file belongs to."""
    return path.removeprefix("skprivate/").removesuffix(".py").partition("/")[0]


def for_every(paths):
    """Make one test of a rule for one file: it lists every file that breaks the rule."""

    def decorate(rule):
        def test():
            broken = []
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(str(error))
            assert not broken, "\n".join(broken)

        return test

    return decorate


@for_every(SOURCES)
def test_imports_go_one_way(path):
    part = part_of(path)
    if part in EVERYTHING:
        return
    assert part in MAY_IMPORT, f"{part} is new: say above what it may import."
    for name in imported(SOURCES[path]):
        if name.startswith("skprivate."):
            target = name.split(".")[1]
            assert target in MAY_IMPORT[part] | {part, "__version__"}, f"{path} must not import {name}."


MODULES = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in SOURCES}
PACKAGES = {module for module, path in MODULES.items() if path.endswith("__init__.py")}


def home(module, name):
    """The module that defines a name which packages hand on."""
    while module in PACKAGES:
        for node in SOURCES[MODULES[module]].body:
            if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
                module = node.module
                break
        else:
            return module
    return module


def arrows():
    """Which files each file imports, wherever in the file: in functions and for types, too."""
    found = {module: set() for module in MODULES if module not in PACKAGES}
    for module, targets in found.items():
        for node in nodes(SOURCES[MODULES[module]], ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                targets.add(full if full in MODULES else home(node.module, alias.name))
    return {module: {target for target in targets if target in found} for module, targets in found.items()}


def circles(graph):
    """Sets of nodes of which each is reached from each other one."""
    reached = {}
    for start in graph:
        reached[start], waiting = set(), [start]
        while waiting:
            new = graph[waiting.pop()] - reached[start]
            reached[start] |= new
            waiting += new
    return {frozenset(one for one in reached[node] if node in reached[one]) for node in graph} - {frozenset()}


def test_files_import_each_other_in_no_circle():
    assert not circles(arrows())
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset("bc")}


@for_every(SOURCES)
def test_what_is_private_to_a_package_is_not_imported_elsewhere(path):
    """What a package imports and does not list in ``__all__`` is for the others; its modules are its own."""
    for node in nodes(SOURCES[path], ast.ImportFrom):
        part, *inner = (node.module or "").removeprefix("skprivate.").split(".")
        if (node.module or "").startswith("skprivate.") and part not in (part_of(path), "__future__"):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                private = any(name.startswith("_") for name in inner) or (
                    module in MODULES and alias.name.startswith("_") and f"skprivate.{part}" in PACKAGES
                )
                assert not private, f"{path} imports {module}, which is private to skprivate.{part}."
    packages = {
        alias.asname or alias.name: alias.name
        for node in nodes(SOURCES[path], ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in PACKAGES and node.module == "skprivate"
    }
    for node in nodes(SOURCES[path], ast.Attribute):
        if isinstance(node.value, ast.Name) and packages.get(node.value.id, part_of(path)) != part_of(path):
            assert f"skprivate.{packages[node.value.id]}.{node.attr}" not in MODULES, (
                f"{path}:{node.lineno} uses {node.value.id}.{node.attr}, which is private to {node.value.id}."
            )


@for_every([path for path in SOURCES if path != "skprivate/privacy/noise/_bits.py"])
def test_random_bits_have_one_door(path):
    tree = SOURCES[path]
    for name in imported(tree):
        assert not re.match(r"(random|secrets|numpy\.random|os\.urandom)(\.|$)", name), f"{path} imports {name}."
    for node in nodes(tree, ast.Attribute, skip_annotations=True):
        if isinstance(node.value, ast.Name):
            dotted = f"{node.value.id}.{node.attr}"
            assert dotted not in ("np.random", "numpy.random", "os.urandom"), f"{path}:{node.lineno} uses {dotted}."
        assert node.attr != "rvs", f"{path}:{node.lineno} draws from scipy's global generator."


@for_every([path for path in SOURCES if path != "skprivate/_sklearn.py"])
def test_scikit_learn_privates_have_one_importer(path):
    for name in imported(SOURCES[path]):
        if name.split(".")[0] == "sklearn":
            private = [piece for piece in name.split(".") if piece.startswith("_")]
            assert not private, f"{path} imports {name}."


@for_every(SOURCES)
def test_only_declared_dependencies(path):
    """Optional packages are imported where they are used, so that `import skprivate` needs none of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.match(r"[\w-]+", item)[0] for item in project["dependencies"]}
    allowed = {name.replace("scikit-learn", "sklearn").replace("-", "_") for name in declared} | {"skprivate"}
    import sys

    for node in SOURCES[path].body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in imported(node):
                top = name.split(".")[0]
                assert top in allowed or top in sys.stdlib_module_names, f"{path} imports {top} at its top."


@for_every(SOURCES)
def test_files_are_short(path):
    lines = (ROOT / path).read_text("utf-8").count("\n")
    assert lines <= MAX_LINES, f"{path} has {lines} lines, more than {MAX_LINES}: split it."


#: One loop of arithmetic each, which is easier to follow in one piece.
LONG_LOOPS = {
    "adaptive_descent", "run",
}  # fmt: skip


@for_every(SOURCES)
def test_functions_are_short(path):
    for node in nodes(SOURCES[path], ast.FunctionDef):
        lines = node.end_lineno - node.lineno + 1
        if ast.get_docstring(node) is not None:
            lines -= node.body[0].end_lineno - node.body[0].lineno + 1
        assert lines <= MAX_FUNCTION or node.name in LONG_LOOPS, (
            f"{path}: {node.name} has {lines} lines, more than {MAX_FUNCTION}."
        )


def test_folders_have_few_entries():
    for folder in [PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py"))]:
        entries = [
            path
            for path in folder.iterdir()
            if (path.suffix == ".py" and path.name != "__init__.py") or (path / "__init__.py").exists()
        ]
        assert len(entries) <= MAX_ENTRIES or folder.name == "claims", f"{folder.name} has {len(entries)} entries."


@for_every([path for path in SOURCES if part_of(path) not in ("__main__", "_demo", "cli")])
def test_nothing_is_printed(path):
    for node in nodes(SOURCES[path], ast.Call):
        assert not (isinstance(node.func, ast.Name) and node.func.id == "print"), f"{path}:{node.lineno} prints."


@for_every([path for path in SOURCES if path != "skprivate/_messages.py"])
def test_warnings_have_one_door(path):
    """`warn_caller` points at the user's line, however deep in scikit-learn the fit runs."""
    for node in nodes(SOURCES[path], ast.Attribute):
        dotted = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
        assert dotted not in ("warnings.warn", "warnings.warn_explicit"), f"{path}:{node.lineno} uses {dotted}."
    assert not {"warnings.warn", "warnings.warn_explicit"} & set(imported(SOURCES[path]))


@for_every(SOURCES)
def test_no_machine_is_named(path):
    assert not re.search(r"['\"\s](/work|/tmp|/opt|/home|/root)/", (ROOT / path).read_text("utf-8"))


def test_the_rules_are_seen_to_fail():
    """The helpers above find what they are for."""
    tree = ast.parse("import numpy as np\nfrom numpy import random\ndef f(r: np.random.Generator): return np.random.x")
    assert "numpy.random" in set(imported(tree))
    found = [node for node in nodes(tree, ast.Attribute, skip_annotations=True) if node.attr == "random"]
    assert len(found) == 1

    @for_every(["a", "b", "c"])
    def rule(path):
        assert path == "b", f"{path} is broken"

    with pytest.raises(AssertionError, match=r"(?s)a is broken.*c is broken"):
        rule()
    assert part_of("skprivate/privacy/_x.py") == "privacy" and part_of("skprivate/base.py") == "base"


# What is public is documented -------------------------------------------------------------------------------


def public_objects():
    """Every name in `__all__` of every public module, once, with what it is called."""
    found = {}
    modules = ["skprivate"] + [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in SOURCES
        if not any(piece.startswith("_") for piece in path.removesuffix("/__init__.py").split("/"))
    ]
    for module in map(importlib.import_module, sorted(set(modules))):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                found.setdefault(value, f"{module.__name__}.{name}")
    return {name: value for value, name in found.items()}


PUBLIC = public_objects()
#: Checks of numpydoc.validate that are not made.
UNCHECKED = {
    # An extended summary, an example, See Also and Yields are where they help.
    *("ES01", "EX01", "SA01", "YD01"),
    # A name may need no description, and several may share a type and a description.
    *("PR04", "PR07", "RT02", "RT03"),
    # Texts may begin with a symbol.
    *("PR08", "RT04", "SS02"),
    # It takes plurals for verbs.
    "SS05",
}
#: Methods whose argument every user of scikit-learn knows.
PREDICTORS = {"predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score"}
#: Parameters missing, unknown or in another order; no Returns.
PARAMETERS = {"PR01", "PR02", "PR03", "RT01"}


def problems(name, unchecked=frozenset()):
    validate = pytest.importorskip("numpydoc.validate")
    errors = validate.validate(name)["errors"]
    return [f"{code}: {text}" for code, text in errors if code not in UNCHECKED | unchecked]


def test_the_public_surface_is_listed():
    assert sorted(skprivate.__all__) == list(skprivate.__all__)
    assert all(hasattr(skprivate, name) for name in skprivate.__all__)


def test_public_names_are_documented():
    found = {}
    for name, value in PUBLIC.items():
        # Records and enumerations list attributes; the checks of one suite share what `privacy_checks` says.
        is_check = (
            name.startswith("skprivate.utils.estimator_checks.check_") and "name" in inspect.signature(value).parameters
        )
        found[name] = problems(name, PARAMETERS if inspect.isclass(value) or is_check else set())
    assert not {name: errors for name, errors in found.items() if errors}


@pytest.mark.parametrize("estimator", [name for name, _ in all_estimators()])
def test_estimators_and_their_methods_are_documented(estimator):
    estimator_class = dict(all_estimators())[estimator]
    docstring = inspect.getdoc(estimator_class)
    sections = ["Parameters"] if inspect.signature(estimator_class).parameters else []
    for section in (*sections, "Attributes", "See Also", "Examples"):
        assert re.search(rf"^{section}\n-+$", docstring, re.MULTILINE), f"{estimator} has no section {section}."
    name = f"{estimator_class.__module__}.{estimator_class.__qualname__}"
    assert not problems(name), f"{estimator}: {problems(name)}"
    for method, value in vars(estimator_class).items():
        if not method.startswith("_") and inspect.isfunction(value):
            found = problems(f"{name}.{method}", PARAMETERS if method in PREDICTORS else set())
            assert not found, f"{estimator}.{method}: {found}"


SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("tools/*.py")])


def test_scripts_import_what_exists():
    """Scripts are not run by tests, so a name that moved is not missed elsewhere."""
    for script in SCRIPTS:
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("skprivate", "helpers"):
                module = importlib.import_module(node.module)
                for each in node.names:
                    if not hasattr(module, each.name):
                        importlib.import_module(f"{node.module}.{each.name}")
