"""Draw again the pictures that the guides' examples save; those of benchmarks are drawn by ``benchmarks/``.

    python tools/make_pictures.py [GUIDE ...]      e.g. quickstart mixture; all of them by default

The examples of a page run in order in an empty folder. A picture that they save under the name of one that the page
shows replaces it. Where they write a page of their own, report.html, Chromium takes its picture on a desktop and on a
phone: report_desktop.png and report_phone.png.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


#: Name, width of the window, visible height, and pixels for each.
SCREENS = (("desktop", 1280, 1750, 1.0), ("phone", 390, 1750, 1.5))


def photograph(page: Path) -> None:
    """Take pictures of an HTML page beside it; in a frame, as a headless window is never as narrow as a phone."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print(f"no Chromium: no picture of {page.name}")
        return
    for name, width, height, scale in SCREENS:
        frame = page.with_name(f"{name}.html")
        frame.write_text(
            f"<!DOCTYPE html><body style='margin:0'><iframe src='{page.name}' scrolling='no' "
            f"style='border:0;width:{width}px;height:{height}px'></iframe>"
        )
        picture = page.with_name(f"{page.stem}_{name}.png")
        size = [f"--window-size={width},{height}", f"--force-device-scale-factor={scale}"]
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={picture}"]
        subprocess.run([browser, *options, *size, frame.as_uri()], check=True, capture_output=True)


def main(names: list[str]) -> None:
    """Run the pages that save a picture."""
    os.environ["MATPLOTLIBRC"] = str(DOCS / "pictures.mplstyle")
    import matplotlib

    matplotlib.use("Agg")
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if "savefig(" not in text or (names and page.stem not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            namespace: dict[str, object] = {"__name__": "__main__"}
            for block in PYTHON.findall(text):
                if not block.startswith("# not run"):
                    exec(compile(block, page.name, "exec"), namespace)
            if (Path(folder) / "report.html").exists():
                photograph(Path(folder) / "report.html")
            for picture in sorted(Path(folder).glob("*.png")):
                if f"images/{picture.name}" in text:
                    shutil.copy(picture, DOCS / "images" / picture.name)
                    print(f"docs/images/{picture.name}")
            os.chdir(DOCS)


if __name__ == "__main__":
    main(sys.argv[1:])
