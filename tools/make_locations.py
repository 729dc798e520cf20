"""Make skprivate/datasets/data/locations.csv.gz from the Parquet file of New York taxi trips.

python tools/make_locations.py nyc_taxi_10k.parquet
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).resolve().parent.parent / "skprivate" / "datasets" / "data" / "locations.csv.gz"
COLUMNS = ["pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "trip_duration"]


def main(source: str) -> None:
    frame = pd.read_parquet(source)[COLUMNS].round(4)
    text = frame.to_csv(index=False, lineterminator="\n").encode()
    TARGET.write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
