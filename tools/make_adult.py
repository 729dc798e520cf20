"""Make ``skprivate/datasets/data/adult.csv.xz`` from the Adult table (UCI 2).

    python tools/make_adult.py path/to/adult.parquet

Needs pandas and pyarrow. All rows in their order; two columns are left out: ``fnlwgt`` (a survey weight) and
``educational-num`` (a number for each value of ``education``).
"""

import sys

import pandas as pd
from _embedded import write_table


def main(source: str) -> None:
    adult = pd.read_parquet(source).drop(columns=["fnlwgt", "educational-num"])
    adult.columns = [name.replace("-", "_") for name in adult.columns]
    write_table("adult", adult.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(sys.argv[1])
