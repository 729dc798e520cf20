"""Make skprivate/datasets/data/icd10.csv.gz from the Parquet file of the ICD-10-CM tree.

python tools/make_icd10.py icd10cm_tree.parquet
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).resolve().parent.parent / "skprivate" / "datasets" / "data" / "icd10.csv.gz"


def main(source: str) -> None:
    frame = pd.read_parquet(source)
    frame = frame[frame["depth"] <= 3][["code", "parent", "desc"]]
    frame.columns = ["code", "parent", "description"]
    text = frame.to_csv(index=False, lineterminator="\n").encode()
    TARGET.write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
