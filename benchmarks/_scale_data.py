"""The Parquet files of the scaling benchmark: 20 features, two targets and users, the same on every machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

FLOATS = [f"x{j}" for j in range(16)]
SMALL = [f"k{j}" for j in range(4)]
FEATURES = [*FLOATS, *SMALL]
TARGET, CLASS, USER = "y", "ill", "user"
#: Rows of a file. 149 bytes a row: 16 floats, the target and the user of 8 bytes, five small integers of 1.
FILE_ROWS = 1_000_000
#: Rows that are read at a time: what a file's reader holds.
GROUP_ROWS = 250_000
ROWS_PER_USER = 100


def folder(data: Path, n_rows: int) -> Path:
    """Where the files of a size lie; they are written where they are missing."""
    path = data / f"scale-{n_rows}"
    path.mkdir(parents=True, exist_ok=True)
    for k, start in enumerate(range(0, n_rows, FILE_ROWS)):
        name = path / f"part-{k:05d}.parquet"
        if not name.exists():
            # Under another name until it is whole, so that a run that was stopped leaves no half a file.
            unfinished = name.with_suffix(".unfinished")
            table = _table(k, min(FILE_ROWS, n_rows - start), n_rows)
            pq.write_table(table, unfinished, compression="none", row_group_size=GROUP_ROWS)
            unfinished.rename(name)
    return path


def dataset(data: Path, n_rows: int) -> ds.Dataset:
    """The files of a size."""
    return ds.dataset(sorted(folder(data, n_rows).glob("*.parquet")))


def _table(k: int, size: int, n_rows: int) -> pa.Table:
    rng = np.random.default_rng([0, k])
    columns: dict[str, np.ndarray] = {}
    for j, name in enumerate(FLOATS):
        column = rng.normal(j, 1 + j, size) if j % 2 else rng.gamma(2.0, 1 + j, size)
        columns[name] = column
    for name in SMALL:
        columns[name] = rng.integers(0, 8, size, dtype=np.int8)
    signal = columns["x0"] - 0.5 * columns["x1"] + 0.25 * columns["k0"]
    columns[TARGET] = np.clip(signal + rng.normal(0, 1, size), -10, 10)
    columns[CLASS] = (columns[TARGET] > 2).astype(np.int8)
    # A user's rows lie anywhere.
    columns[USER] = rng.integers(0, max(n_rows // ROWS_PER_USER, 1), size)
    return pa.table(columns)
