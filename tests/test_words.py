"""The words of the package: one word a thing, the field's own; summary lines say what a function does.

``python tests/test_words.py skprivate/metric docs/guide/metric.md`` lists what is to be changed.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)

#: A word that is not used, and the one that is.
WORDS = {
    r"doors?": "release, API",
    r"house|rooms?|dwellers?": "package, folder, room for → space",
    r"floors?(?! of)": "core, level",
    r"told|untold": "reported, known",
    r"dear(?:er|est)?": "expensive, of the largest cost",
    r"reach(?:es|ed)?": "diameter, range, bound, quantile; attain",
    r"so many|so much": "n",
    r"drawn (?:in|to|towards)": "clipped",
    r"as (?:it|they) came": "unchanged",
    r"of which": "whose, where",
    r"lies?|lying|stands?|standing": "is, are",
    r"knows? no|say nothing|says nothing": "does not depend on, reveals nothing about",
    r"gambler|wagers?|wager(?:ed|ing)|coins?|toss(?:es)?": "e-value, membership bit",
    r"in earnest": "really, with a release",
    r"bare": "empty, without a transform",
    r"pots?": "account",
    r"wiggl\w+": "of high frequency",
    r"pulled in": "clipped",
    r"idle": "chance level",
}  # fmt: skip
#: Beginnings of a summary line that say neither what is done nor what something is.
BEGINNINGS = (
    "Of", "What", "With", "Whether", "The same", "How", "Where", "Which", "Who", "Why", "As", "So", "To", "Most",
)  # fmt: skip
#: Beginnings of a summary line of a function, which names what it does.
NOUNS = ("A", "An", "The", "Its", "Their", "All", "Every", "Each", "Two", "One", "No", "Nothing")
#: Parts of names that are not used: cost, diameter or bound, text, largest say what a thing is.
OLD_NAME = re.compile(r"(?:^|_)(?:prices?|priced|reach|reaches|said|told|dear|farthest)(?:_|$)", re.IGNORECASE)
#: Packages whose names are still to be changed.
OLD_NAMES_LEFT = ("user_level", "preprocessing", "utils", "papers", "counts")
WORD = re.compile(r"\b(?:" + "|".join(WORDS) + r")\b", re.IGNORECASE)
CODE = re.compile(r"```.*?```|`[^`]*`|\{[^}]*\}|\]\([^)]*\)|https?:\S+", re.DOTALL)


def unusual(text):
    """Words of a text, without code and links, that are not the package's."""
    return [found[0] for found in WORD.finditer(CODE.sub(" ", text))]


def is_property(node):
    names = {getattr(name, "id", getattr(name, "attr", "")) for name in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def summaries(tree):
    """Places and first paragraphs of all docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield node, " ".join(text.split("\n\n")[0].split())


def messages(tree):
    """Texts of errors and warnings."""
    for node in ast.walk(tree):
        called = node.exc if isinstance(node, ast.Raise) else node
        name = getattr(called, "func", None)
        if isinstance(called, ast.Call) and (
            isinstance(node, ast.Raise) or getattr(name, "id", "") in ("warn_caller", "must_be")
        ):
            for part in ast.walk(called):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part, part.value


def names(tree):
    """Nodes that define a name, and the name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node, node.name
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id


def problems(path):
    """What a file says in other words."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        lines = enumerate(CODE.sub(lambda found: "\n" * found[0].count("\n"), text).splitlines(), 1)
        return [f"{path}:{number}: {word!r}" for number, line in lines for word in unusual(line)]
    tree, found = ast.parse(text), []
    for node, summary in summaries(tree):
        line = getattr(node, "lineno", 1)
        first = summary.split()[0].strip("`*")
        if summary.startswith(tuple(f"{start} " for start in BEGINNINGS)):
            found.append(f"{path}:{line}: summary begins with {first!r}: {summary}")
        elif isinstance(node, ast.FunctionDef) and not is_property(node) and first in NOUNS:
            found.append(f"{path}:{line}: summary has no verb: {summary}")
        found += [f"{path}:{line}: {word!r} in {summary}" for word in unusual(summary)]
    found += [f"{path}:{part.lineno}: {word!r} in {said!r}" for part, said in messages(tree) for word in unusual(said)]
    if not set(OLD_NAMES_LEFT) & set(path.parts):
        found += [f"{path}:{node.lineno}: name {name!r}" for node, name in names(tree) if OLD_NAME.search(name)]
    return found


def test_the_package_uses_its_words():
    found = [problem for path in sorted((ROOT / "skprivate").rglob("*.py")) for problem in problems(path)]
    assert not found, "\n".join(found)


def test_the_pages_use_its_words():
    found = [problem for page in PAGES for problem in problems(page)]
    assert not found, "\n".join(found)


def test_unusual_words_are_seen(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('def f():\n    """Of rows, so many."""\n    raise ValueError("rows lie in a house")\n')
    assert len(problems(path)) == 4
    path.write_text('def f():\n    """The rows."""\n')
    assert len(problems(path)) == 1
    path.write_text("def price(said):\n    reach = 1\n    return reach + said\n")
    assert len(problems(path)) == 3
    path.write_text('def f():\n    """Clip rows."""\n')
    assert not problems(path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        given = Path(name)
        for one in [given] if given.is_file() else sorted([*given.rglob("*.py"), *given.rglob("*.md")]):
            print(*problems(one), sep="\n", end="\n" if problems(one) else "")
