"""Fits of rows that lie in Parquet files: time, memory, growth with the number of rows, one worker and two.

    python benchmarks/partitions_scale.py --data DIR --rows 1e6 1e7

The files are written once below DIR: 149 bytes a row, so 0.15, 1.5 and 15 GB for 1e6, 1e7 and 1e8 rows. Every
line is a process of its own with one thread; seconds are those of the fit, without imports. "Reading" reads the
same columns of the same files once and throws them away. Lines of other sizes and cases stay in the table, so
that a size can be added later; ``--cases`` and ``--dask`` choose.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

from _common import RESULTS, parse_args, write_table

COLUMNS = [
    "case",
    "rows",
    "workers",
    "passes",
    "seconds",
    "CPU seconds",
    "peak MiB a process",
    "over reading",
    "over reading, a pass",
    "seconds a row over those at the size before",
    "speed-up of two workers",
]


def blocks(data, n_rows, columns):
    """Rows in blocks, read by one thread."""
    import pyarrow as pa
    from _scale_data import dataset

    from skprivate.partitions import Blocks
    from skprivate.partitions._blocks import BATCH_ROWS

    source = dataset(data, n_rows)

    def read():
        batches = source.to_batches(
            columns=columns, batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1, use_threads=False
        )
        return (pa.Table.from_batches([batch]) for batch in batches)

    return Blocks(read)


def collection(data, n_rows, columns):
    import dask.dataframe as dd
    from _scale_data import folder

    return dd.read_parquet(folder(data, n_rows), columns=columns, split_row_groups=1)


def reading(data, n_rows, rows):
    from _scale_data import FEATURES

    for _ in rows(data, n_rows, FEATURES):
        pass
    return 1


def from_sql(data, n_rows, rows):
    import duckdb
    from _scale_data import CLASS, FEATURES, folder

    from skprivate.aggregate import bags_from_sql

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("SET memory_limit = '3GB'")
        bags_from_sql(
            connection,
            f"read_parquet('{folder(data, n_rows)}/*.parquet')",
            [name for name in FEATURES if name.startswith("k")],
            CLASS,
            classes=(0, 1),
            categorical_features=[name for name in FEATURES if name.startswith("k")],
            epsilon=1.0,
            random_state=0,
        )
    return 1


def synthesizer(data, n_rows, rows, **parameters):
    from _scale_data import FEATURES

    from skprivate import MetricPrivateSynthesizer

    source = rows(data, n_rows, FEATURES)
    MetricPrivateSynthesizer(1.0, random_state=0, **parameters).fit(source)
    return getattr(source, "passes", None)


def user_level(data, n_rows, rows, **parameters):
    from _scale_data import FEATURES, TARGET, USER

    from skprivate import UserLevelSGDRegressor

    source = rows(data, n_rows, [*FEATURES, TARGET, USER])
    model = UserLevelSGDRegressor(2.0, random_state=0, **parameters)
    model.fit(source, TARGET, user_ids=USER)
    return getattr(source, "passes", None)


def bags(data, n_rows, rows):
    from _scale_data import SMALL, TARGET

    from skprivate import CuratedBagGAMRegressor

    source = rows(data, n_rows, ["x0", "x1", *SMALL, TARGET])
    CuratedBagGAMRegressor(1.0, label_bounds=(-10, 10), random_state=0).fit(source, TARGET)
    return getattr(source, "passes", None)


CASES = {
    "reading": reading,
    "curated bags from SQL, pairs of 4 columns": from_sql,
    "curated bags in blocks, pairs of 6 columns": bags,
    "synthesizer, private bounds": synthesizer,
    "synthesizer, public bounds and grid": partial(synthesizer, bounds=(-100, 100), resolution=2),
    "user-level regression": user_level,
}
ON_DASK = [name for name in CASES if name.startswith(("synthesizer, private", "user", "curated bags in"))]


def high_water():
    """Most memory that this process has held, in MiB."""
    with open("/proc/self/status") as handle:
        return int(next(line for line in handle if line.startswith("VmHWM")).split()[1]) / 1024


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(case, data, n_rows, workers):
    """One case in this process, or on a cluster of its own: seconds, CPU seconds, MiB, passes."""
    import pyarrow.dataset  # noqa: F401

    import skprivate.metric  # noqa: F401  imports are no part of a fit

    if not workers:
        cpu, start = cpu_seconds(), time.perf_counter()
        passes = CASES[case](data, n_rows, blocks)
        return time.perf_counter() - start, cpu_seconds() - cpu, high_water(), passes
    import logging

    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": "4GB"}
    with (
        LocalCluster(n_workers=workers, silence_logs=logging.CRITICAL, **options) as cluster,
        Client(cluster) as client,
    ):
        client.run(__import__, "skprivate.metric")
        cpu, start = sum(client.run(cpu_seconds).values()), time.perf_counter()
        passes = CASES[case](data, n_rows, collection)
        seconds = time.perf_counter() - start
        cpu = sum(client.run(cpu_seconds).values()) - cpu
        return seconds, cpu, max(client.run(high_water).values()), passes


def measured(case, data, n_rows, workers):
    """`run` in a fresh process; None where the estimator takes no rows in blocks."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--data", str(data), "--one", json.dumps([case, n_rows, workers])]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads})
    if done.returncode:
        print(f"{case}, {n_rows:.0e} rows: {done.stderr.strip().splitlines()[-1]}", flush=True)
        return None
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"{case}, {n_rows:.0e} rows, {workers} workers: {result}", flush=True)
    return result


def table(results):
    """Lines of the table from {(case, rows, workers): [seconds, CPU seconds, MiB, passes]}."""
    lines = []
    for (case, n_rows, workers), (seconds, cpu, peak, passes) in sorted(
        results.items(), key=lambda item: (list(CASES).index(item[0][0]), item[0][2], item[0][1])
    ):
        reading_once = results.get(("reading", n_rows, 0), [None])[0]
        smaller = [key for key in results if key[0] == case and key[2] == workers and key[1] < n_rows]
        before = max(smaller, default=None, key=lambda key: key[1])
        alone = results.get((case, n_rows, 1)) if workers == 2 else None
        over = None if reading_once is None else seconds / reading_once
        growth = None if before is None else seconds / n_rows / (results[before][0] / before[1])
        lines.append(
            [case, n_rows, workers or "", passes or "", seconds, cpu, peak]
            + ["" if value is None else value for value in (over, over and passes and over / passes)]
            + ["" if value is None else value for value in (growth, alone and alone[0] / seconds)]
        )
    return lines


def earlier():
    """What is in the table already."""
    path = RESULTS / "partitions_scale.csv"
    if not path.exists():
        return {}
    with open(path, newline="") as handle:
        return {
            (line["case"], int(line["rows"]), int(line["workers"] or 0)): [
                float(line["seconds"]),
                float(line["CPU seconds"]),
                float(line["peak MiB a process"]),
                int(line["passes"]) if line["passes"] else None,
            ]
            for line in csv.DictReader(handle)
        }


def main():
    args = parse_args(
        __doc__,
        rows={"type": float, "nargs": "+", "default": [1e6]},
        cases={"nargs": "+", "default": [], "help": "parts of the names of cases"},
        dask={"choices": ["with", "without", "only"], "default": "with"},
        one={"default": None, "help": "one case, its rows and workers, as JSON"},
    )
    data = args.data or Path("benchmark_data")
    if args.one:
        warnings.simplefilter("ignore")
        print(json.dumps(run(*json.loads(args.one)[:1], data, *json.loads(args.one)[1:])))
        return
    from _scale_data import folder

    results = earlier()
    for n_rows in map(int, args.rows):
        folder(data, n_rows)
        wanted = [name for name in CASES if not args.cases or any(part in name for part in args.cases)]
        places = [(name, 0) for name in wanted] if args.dask != "only" else []
        if args.dask != "without":
            places += [(name, workers) for name in wanted if name in ON_DASK for workers in (1, 2)]
        for case, workers in places:
            found = measured(case, data, n_rows, workers)
            if found is not None:
                results[case, n_rows, workers] = found
                write_table("partitions_scale", COLUMNS, table(results))


if __name__ == "__main__":
    main()
