"""Make skprivate/datasets/data/credit_default.csv.gz from the Parquet file of UCI data set 350.

python tools/make_credit_default.py taiwan_credit_default.parquet
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).resolve().parent.parent / "skprivate" / "datasets" / "data" / "credit_default.csv.gz"


def main(source: str) -> None:
    frame = pd.read_parquet(source).drop(columns="ID").astype("int64")
    frame.columns = [name.lower() for name in frame.columns]
    text = frame.to_csv(index=False, lineterminator="\n").encode()
    TARGET.write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
