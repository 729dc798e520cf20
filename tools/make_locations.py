"""Make skprivate/datasets/data/locations.csv.xz from the Parquet file of New York taxi trips.

python tools/make_locations.py nyc_taxi_10k.parquet
"""

from __future__ import annotations

import sys

import pandas as pd
from _embedded import write_table

COLUMNS = ["pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "trip_duration"]


def main(source: str) -> None:
    frame = pd.read_parquet(source)[COLUMNS].round(4)
    write_table("locations", frame.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(sys.argv[1])
