"""Make skprivate/datasets/data/credit_default.csv.xz from the Parquet file of UCI data set 350.

python tools/make_credit_default.py taiwan_credit_default.parquet
"""

from __future__ import annotations

import sys

import pandas as pd
from _embedded import write_table


def main(source: str) -> None:
    frame = pd.read_parquet(source).drop(columns="ID").astype("int64")
    frame.columns = [name.lower() for name in frame.columns]
    write_table("credit_default", frame.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(sys.argv[1])
