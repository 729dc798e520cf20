"""Cut the inventories of other projects' documentation to the names that our text has.

python tools/cut_inventories.py sklearn=FILE numpy=FILE ...

FILE is the project's ``objects.inv``: https://scikit-learn.org/stable/objects.inv, or that of a distribution's package
of documentation. The result goes to docs/_inventories/. With it Sphinx links types, See Also and code to the project's
pages, without the network.
"""

from __future__ import annotations

import re
import sys
import zlib
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

ROOT = Path(__file__).resolve().parent.parent
SHORT = {"np": "numpy", "pd": "pandas"}
DOTTED = re.compile(r"\b([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)+)")
IMPORT = re.compile(r"\bfrom ([\w.]+) import (\([^)]*\)|.*)")


def named(text: str) -> set[str]:
    """List the dotted names of a text, imported ones with their module."""
    found = {SHORT.get(first, first) + rest for first, rest in DOTTED.findall(text)}
    for module, names in IMPORT.findall(text):
        found |= {f"{module}.{name}" for name in re.findall(r"\w+", names)}
    return found


def cut(inventory: bytes, names: set[str]) -> bytes:
    """Keep the lines of an inventory, "name domain:role priority page title", of some names."""
    *head, body = inventory.split(b"\n", 4)
    lines = zlib.decompress(body).decode().splitlines()
    kept = [line for line in lines if re.split(r" (?!std:doc)\w+:\w+ ", line)[0] in names]
    return b"\n".join([*head, zlib.compress("\n".join([*kept, ""]).encode(), 9)])


if __name__ == "__main__":
    texts = [page.read_text("utf-8") for suffix in ("md", "py") for page in ROOT.glob(f"docs/**/*.{suffix}")]
    for module in ROOT.glob("skprivate/**/*.py"):
        texts += re.findall(r'"""(.*?)"""', module.read_text("utf-8"), re.DOTALL)
    names = named("\n".join(texts))
    # numpydoc has links of its own, of "array-like" and the like.
    names |= {re.search(r"([\w.-]+)[`>]*$", link)[1] for link in DEFAULT_LINKS.values()}
    for project, _, file in (argument.partition("=") for argument in sys.argv[1:]):
        (ROOT / "docs" / "_inventories" / f"{project}.inv").write_bytes(cut(Path(file).read_bytes(), names))
