"""Make ``skprivate/datasets/data/adult.csv.gz`` from the Adult table (UCI 2).

    python tools/make_adult.py path/to/adult.parquet

Needs pandas and pyarrow. All rows in their order; two columns are left out: ``fnlwgt`` (a survey weight) and
``educational-num`` (a number for each value of ``education``).
"""

import gzip
import sys
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).resolve().parent.parent / "skprivate" / "datasets" / "data" / "adult.csv.gz"


def main(source: str) -> None:
    adult = pd.read_parquet(source).drop(columns=["fnlwgt", "educational-num"])
    adult.columns = [name.replace("-", "_") for name in adult.columns]
    text = adult.to_csv(index=False, lineterminator="\n")
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{TARGET.name}: {adult.shape[0]} rows, {adult.shape[1]} columns, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
