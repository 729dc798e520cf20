"""Make skprivate/datasets/data/icd10.csv.xz from the Parquet file of the ICD-10-CM tree.

python tools/make_icd10.py icd10cm_tree.parquet
"""

from __future__ import annotations

import sys

import pandas as pd
from _embedded import write_table


def main(source: str) -> None:
    frame = pd.read_parquet(source)
    frame = frame[frame["depth"] <= 3][["code", "parent", "desc"]]
    frame.columns = ["code", "parent", "description"]
    write_table("icd10", frame.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(sys.argv[1])
