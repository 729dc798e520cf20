"""Take pictures of the built site at desktop and phone width, light and dark, and name pages that are too wide.

    python tools/screens.py SITE FOLDER [PAGE ...]

SITE is what ``python -m sphinx docs SITE`` wrote; pages are names in it, such as ``guide/ledger``. Chromium is found by
the variable CHROMIUM or on the path.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

#: Landing page, a choice, a guide with tables, theory with formulas, evidence, gallery, reference.
PAGES = (
    "index",
    "which_estimator",
    "guide/user_level",
    "theory/mixtures",
    "evidence/default_bar",
    "gallery/index",
    "gallery/plot_first_model",
    "generated/skprivate.UserLevelSGDRegressor",
)
#: Name, width, visible height, dark or not.
SCREENS = (
    ("desktop", 1280, 1700, False),
    ("phone", 390, 1700, False),
    ("desktop_dark", 1280, 1700, True),
    ("phone_dark", 390, 1700, True),
)
#: A headless window is never as narrow as a phone, so a page is shown in a frame. The frame says how wide it became.
FRAME = """<!DOCTYPE html><body style='margin:0'><iframe src='{page}' scrolling='no' onload="
setTimeout(() => document.title = 'wide ' + this.contentDocument.documentElement.scrollWidth, 300)"
style='border:0;width:{width}px;height:{height}px'></iframe>"""


def browser() -> str | None:
    """Find Chromium."""
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def take(program: str, page: Path, picture: Path, width: int, height: int, dark: bool) -> int:
    """Write one picture; the width that the page needs comes back."""
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(FRAME.format(page=page.resolve().as_uri(), width=width, height=height))
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
            "--disable-web-security",
            f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=3000",
            f"--screenshot={picture}",
            "--dump-dom",
        ]
        command = [program, *options, frame.as_uri()]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"<title>wide (\d+)</title>", shown)
    return int(found[1]) if found else 0


def main(arguments: list[str]) -> int:
    """Take all pictures; 1 if a page is wider than the screen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="*", default=PAGES)
    given = parser.parse_args(arguments)
    program = browser()
    if program is None:
        print("there is no Chromium here: set CHROMIUM to one, or put it on the path")
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    wide = 0
    for page in given.pages:
        for name, width, height, dark in SCREENS:
            picture = given.folder.resolve() / f"{page.replace('/', '_')}_{name}.png"
            needed = take(program, given.site / f"{page}.html", picture, width, height, dark)
            wide += needed > width
            print(f"{picture.name}: {'TOO WIDE, ' if needed > width else ''}{needed} of {width} pixels")
    return int(wide > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
