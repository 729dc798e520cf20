"""Make ``skprivate/datasets/data/flights.csv.gz`` from the nycflights13 table.

    python tools/make_flights.py path/to/nycflights13.parquet

Needs pandas and pyarrow. The subset is chosen by aircraft, by a fixed rule that looks at nothing but the tail
number: whole aircraft whose CRC-32 of the tail number is divisible by three.
"""

import gzip
import sys
import zlib
from pathlib import Path

import pandas as pd

COLUMNS = ["aircraft", "month", "hour", "distance", "dep_delay", "air_time", "arr_delay"]
TARGET = Path(__file__).resolve().parent.parent / "skprivate" / "datasets" / "data" / "flights.csv.gz"


def main(source: str) -> None:
    flights = pd.read_parquet(source).dropna(subset=["tailnum", "dep_delay", "air_time", "arr_delay"])
    flights = flights[[zlib.crc32(tail.encode()) % 3 == 0 for tail in flights["tailnum"]]]
    flights = flights.sort_values(["tailnum", "month", "day", "hour", "minute"], kind="stable")
    flights["aircraft"] = pd.factorize(flights["tailnum"])[0]
    text = flights[COLUMNS].astype(int).to_csv(index=False, lineterminator="\n")
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    size = TARGET.stat().st_size
    print(f"{TARGET.name}: {len(flights)} flights, {flights['aircraft'].nunique()} aircraft, {size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
