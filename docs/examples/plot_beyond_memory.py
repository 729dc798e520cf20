"""
Fit a private model on files that do not fit into memory
========================================================

Twelve Parquet files have the flights of a year, one file a month. A private fit reads them block by block. It gives
the same coefficients as in memory, to the last bit, because what is added over rows are integers.
"""

import tempfile
import tracemalloc
import warnings
from pathlib import Path

import duckdb
import matplotlib.pyplot as plt
import pandas as pd

from skprivate import SimulatedNoiseWarning, UserLevelSGDRegressor
from skprivate.datasets import load_flights
from skprivate.partitions import Blocks

folder = Path(tempfile.mkdtemp())
for month, flights in load_flights(as_frame=True).frame.groupby("month"):
    flights.to_parquet(folder / f"{month:02.0f}.parquet", index=False)

# %%
# ``Blocks`` takes a function that gives the blocks as often as a fit needs them: from files, or from a database.
COLUMNS = "hour, distance, dep_delay, arr_delay"


def from_files(months):
    return (pd.read_parquet(folder / f"{month:02}.parquet", columns=COLUMNS.split(", ")) for month in months)


def from_duckdb(months):
    with duckdb.connect() as database:
        for month in months:
            yield database.sql(f"SELECT {COLUMNS} FROM '{folder}/*.parquet' WHERE month = {month}").df()


def fit(source, months, blocks):
    # The same random_state, hence the same noise: a simulation, to compare to the last bit.
    model = UserLevelSGDRegressor(epsilon=1.0, random_state=0)
    if blocks:
        return model.fit(Blocks(lambda: source(months)), "arr_delay")
    table = pd.concat(source(months))
    return model.fit(table.drop(columns="arr_delay"), table["arr_delay"])


# %%
# A quarter, half a year and the whole year, with the largest memory of Python during each fit.
warnings.simplefilter("ignore", SimulatedNoiseWarning)
SPANS = (3, 6, 12)
WAYS = ("in memory", from_files, "C1s-"), ("Parquet", from_files, "C0o-"), ("DuckDB", from_duckdb, "C2^:")
for name, source, style in WAYS:
    peaks = []
    for span in SPANS:
        tracemalloc.start()
        model = fit(source, range(1, span + 1), blocks=name != "in memory")
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    print(f"{name:14}", *(coefficient.hex() for coefficient in model.coef_))
    plt.plot(SPANS, peaks, style, label=name)
plt.title("Memory of a fit")
plt.gca().set(xticks=SPANS, xlabel="months of flights, about 9 300 each", ylabel="memory, MB", ylim=(0, 20))
plt.legend()
plt.show()

# %%
# The guide: :doc:`/guide/partitions`.
