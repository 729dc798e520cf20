"""Writer of the tables that the package embeds."""

import csv
import io
import lzma
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "skprivate" / "datasets" / "data"


def write_table(name: str, text: str) -> None:
    """Write a CSV text as ``<name>.csv.xz`` with one line a column, which is smaller than one a row."""
    columns = io.StringIO()
    csv.writer(columns, lineterminator="\n").writerows(zip(*csv.reader(io.StringIO(text)), strict=True))
    path = DATA / f"{name}.csv.xz"
    path.write_bytes(lzma.compress(columns.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{path.name}: {text.count(chr(10)) - 1} rows, {path.stat().st_size} bytes")
