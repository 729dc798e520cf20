"""Whole synthetic tables: errors of one and two columns, W1, models trained on them, and CPU seconds.

Adult (13 and 15 columns), hospital visits, credit clients and flights, δ = 1e-6, a third of the rows held out. Columns
of numbers have no limits; values of text columns are taken as public. Then 100 generated columns, numbers of few rows,
and parities of three to six columns.

    python benchmarks/tables.py --data DIR [--seeds 5] [--only adult13,wide]
"""

from __future__ import annotations

import os
import resource
import statistics
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import pandas as pd
from _common import parse_args, require_data, write_table

from skprivate import PrivateTableSynthesizer

DELTA = 1e-6
MOST_VALUES = 120
EPSILONS = {"adult13": (0.3, 1.0, 3.0, 10.0), "adult15": (1.0,)}


def read(args, name):
    """A table and its target; identifiers and columns of too many values are left out."""
    if name.startswith("adult"):
        frame = pd.read_parquet(require_data(args, "adult.parquet"))
        drop = ["fnlwgt", "educational-num"] if name == "adult13" else []
        return frame.drop(columns=drop), "income"
    if name == "hospital":
        frame = pd.read_parquet(require_data(args, "diabetes130_hospital.parquet"))
        frame = frame.drop(columns=["encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"])
        ids = [name for name in frame if name.endswith("_id")]
        return frame.assign(**{name: frame[name].astype(str) for name in ids}), "readmitted"
    if name == "credit":
        frame = pd.read_parquet(require_data(args, "taiwan_credit_default.parquet")).drop(columns="ID")
        texts = [name for name in frame if frame[name].nunique() < 12]
        return frame.assign(**{name: frame[name].astype(str) for name in texts}), "Default"
    frame = pd.read_parquet(require_data(args, "nycflights13.parquet"))
    frame = frame.assign(time_hour=pd.to_datetime(frame["time_hour"]).dt.tz_localize(None))
    frame["late"] = np.where(
        frame["arr_delay"].isna(), "cancelled", np.where(frame["arr_delay"] > 15, "late", "in time")
    )
    frame = frame.drop(columns=["tailnum", "flight", "year", "arr_delay"])
    return frame.sample(60_000, random_state=0), "late"


def fit(frame, target, epsilon, seed, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PrivateTableSynthesizer(epsilon, delta=DELTA, target=target, schema=columns, random_state=seed).fit(
            frame
        )


def real(args, name, seeds):
    """Medians over seeds, which also choose the rows that are held out; two beside Adult at ε = 1."""
    frame, target = read(args, name)
    columns = {
        column: sorted(frame[column].dropna().unique())
        for column in frame
        if frame[column].dtype.kind not in "iufM" and frame[column].nunique() <= MOST_VALUES
    }
    for epsilon in EPSILONS.get(name, (1.0,)):
        found = []
        for seed in range(seeds if epsilon == 1.0 and name.startswith("adult") else min(seeds, 2)):
            mixed = frame.sample(len(frame), random_state=seed)
            train, test = mixed[: 2 * len(frame) // 3], mixed[2 * len(frame) // 3 :]
            start = time.process_time()
            model = fit(train, target, epsilon, seed, columns)
            model.sample(len(train), random_state=seed)
            seconds = time.process_time() - start
            quality = model.quality(train, test, random_state=seed)
            pairs = quality.two_way[np.triu_indices(len(quality.names), 1)]
            found.append(
                (quality.score, quality.score_of_real, np.diag(quality.two_way).mean(), pairs.mean(),
                 float(np.nanmean(quality.distance)), seconds)
            )  # fmt: skip
        medians = [float(statistics.median(column)) for column in zip(*found, strict=True)]
        yield [name, len(train), len(frame.columns), epsilon, *medians]


def wide(args, seeds):
    """100 columns of 20 000 rows, half of them categories, in groups of ten that depend on each other."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(20_000, 10))
    frame = pd.DataFrame({f"x{j}": common[:, j % 10] + rng.normal(size=20_000) for j in range(50)})
    for j in range(50):
        frame[f"c{j}"] = pd.Categorical((common[:, j % 10] + rng.normal(size=20_000) > rng.normal()).astype(str))
    start = time.process_time()
    model = fit(frame, "c0", 1.0, 0, None)
    model.sample(20_000, random_state=0)
    seconds = time.process_time() - start
    quality = model.quality(frame, random_state=0)
    pairs = quality.two_way[np.triu_indices(100, 1)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [["20000 × 100", seconds, peak, float(np.diag(quality.two_way).mean()), float(pairs.mean())]]


def few(args, seeds):
    """Rows of N(40, 5): the largest magnitude, and how often a column was given up with a warning."""
    for n_columns in (1, 3, 20):
        for n in (30, 100, 300, 1000, 3000):
            largest, warned, errors = 0.0, 0, []
            for seed in range(100 // 5):
                rows = np.random.default_rng(seed).normal(40, 5, (n, n_columns))
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    model = PrivateTableSynthesizer(delta=DELTA, random_state=seed).fit(rows)
                warned += any("too few" in str(item.message) for item in caught)
                sample = model.sample(n, random_state=seed)
                largest = max(largest, float(np.nanmax(np.abs(sample))))
                errors.append(abs(float(sample.mean()) - 40))
            yield [n_columns, n, largest, warned / 20, statistics.median(errors)]


def parity(args, seeds):
    """Parities of k fair bits, one column each, beside two other bits: how often synthetic rows have them."""
    for k in (2, 3, 4, 5):
        rng = np.random.default_rng(k)
        bits = rng.integers(0, 2, (20_000, k + 1))
        frame = pd.DataFrame(np.column_stack([bits, bits[:, :k].sum(1) % 2]).astype(bool))
        frame.columns = [f"b{j}" for j in range(k + 1)] + ["parity"]
        shares = []
        for target in ("parity", None):
            sample = fit(frame, target, 1.0, 0, None).sample(20_000, random_state=0).to_numpy()
            shares.append(float((sample[:, :k].sum(1) % 2 == sample[:, -1]).mean()))
        yield [k + 1, *shares]


PARTS = {
    "wide": (wide, ["rows × columns", "CPU seconds", "peak MB", "one-way error", "two-way error"]),
    "few": (few, ["columns", "rows", "largest magnitude", "share warned", "error of the mean"]),
    "parity": (parity, ["columns", "right, target the parity", "right, no target"]),
}
REAL = ["adult13", "adult15", "credit", "hospital", "flights"]


def main():
    args = parse_args(__doc__, seeds=5, only={"default": ",".join([*REAL, *PARTS])})
    wanted = args.only.split(",")
    rows = [row for name in REAL if name in wanted for row in real(args, name, args.seeds)]
    if rows:
        head = ["table", "rows", "columns", "epsilon", "score", "score of real rows", "one-way error", "two-way error"]
        write_table("tables", [*head, "W1 / sd", "CPU seconds"], rows)
    for name, (part, columns) in PARTS.items():
        if name in wanted:
            write_table(f"tables_{name}", columns, list(part(args, args.seeds)))


if __name__ == "__main__":
    main()
