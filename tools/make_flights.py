"""Make ``skprivate/datasets/data/flights.csv.xz`` from the nycflights13 table.

    python tools/make_flights.py path/to/nycflights13.parquet

Needs pandas and pyarrow. The subset is chosen by aircraft, by a fixed rule that looks at nothing but the tail
number: whole aircraft whose CRC-32 of the tail number is divisible by three.
"""

import sys
import zlib

import pandas as pd
from _embedded import write_table

COLUMNS = ["aircraft", "month", "hour", "distance", "dep_delay", "air_time", "arr_delay"]


def main(source: str) -> None:
    flights = pd.read_parquet(source).dropna(subset=["tailnum", "dep_delay", "air_time", "arr_delay"])
    flights = flights[[zlib.crc32(tail.encode()) % 3 == 0 for tail in flights["tailnum"]]]
    flights = flights.sort_values(["tailnum", "month", "day", "hour", "minute"], kind="stable")
    flights["aircraft"] = pd.factorize(flights["tailnum"])[0]
    write_table("flights", flights[COLUMNS].astype(int).to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(sys.argv[1])
