"""Draw again the pictures that the guides' examples save; those of benchmarks are drawn by ``benchmarks/``.

    python tools/make_pictures.py [GUIDE ...]      e.g. quickstart mixture; all of them by default

The examples of a page run in order in an empty folder. A picture that they save under the name of one that the page
shows replaces it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def main(names: list[str]) -> None:
    """Run the pages that save a picture."""
    import matplotlib

    matplotlib.use("Agg")
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text("utf-8")
        if "savefig(" not in text or (names and page.stem not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            namespace: dict[str, object] = {"__name__": "__main__"}
            for block in PYTHON.findall(text):
                if not block.startswith("# not run"):
                    exec(compile(block, page.name, "exec"), namespace)
            for picture in sorted(Path(folder).glob("*.png")):
                if f"images/{picture.name}" in text:
                    shutil.copy(picture, DOCS / "images" / picture.name)
                    print(f"docs/images/{picture.name}")
            os.chdir(DOCS)


if __name__ == "__main__":
    main(sys.argv[1:])
