"""What a ledger costs a fit: time of a charge with its closing, by store, entries before and processes, and of opening.

python benchmarks/ledger.py
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path

from _common import median_seconds, parse_args, read_table, save_figure, write_table

from skprivate.privacy import PrivacyLedger
from skprivate.privacy.ledger._book import LedgerState
from skprivate.privacy.ledger._store import record

KIND = {"unit": "row", "adjacency": "replace-one", "simulated": False}
PRICE = {"epsilon": 1e-6, "delta": 1e-12, "rho": None, "events": [{"event": "GaussianEvent", "count": 20}]}
COLUMNS = ("store", "entries before", "processes", "ms per release", "in fsyncs", "ms to open", "s to read all")


def release(ledger):
    """One release."""
    ledger.close_entry(ledger.charge("Benchmark", **PRICE, **KIND), **PRICE)


def spend(ledger, n):
    """Milliseconds of each of n releases."""
    found = []
    for _ in range(n):
        start = time.perf_counter()
        release(ledger)
        found.append(1000 * (time.perf_counter() - start))
    return found


def worker(path, barrier, n, found):
    ledger = PrivacyLedger.open(path)
    barrier.wait()
    found.put(spend(ledger, n))


def with_entries(ledger, n):
    """Write n earlier releases at a thousand different prices, in one transaction."""
    release(ledger)
    with ledger._book.transaction(write=True) as (journal, _):
        state = LedgerState()
        records = journal.since(0)
        for earlier in records:
            state.apply(earlier)
        opened, closed = (json.loads(earlier.text) for earlier in records[1:3])
        for k in range(n):
            price = {"id": 2 + k, "epsilon": 1e-6 * (1 + k % 1000 / 7)}
            before = [price["epsilon"], *closed["before"][1:]]
            for content in ({**opened, **price}, {**closed, **price, "before": before}):
                new = record(state.last, content)
                journal.append(new)
                state.apply(new)


def fsync(folder):
    """Milliseconds that the disk alone takes to keep a page."""
    file = os.open(Path(folder) / "page", os.O_RDWR | os.O_CREAT)

    def keep():
        os.pwrite(file, os.urandom(4096), 0)
        os.fsync(file)

    seconds = median_seconds(keep, repeats=200)
    os.close(file)
    return 1000 * seconds


def main():
    args = parse_args(__doc__, seeds=100)
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # a disk, not a memory file system
        for entries in (0, 1_000, 100_000):
            for store in ("memory", "file") if entries <= 1_000 else ("file",):
                path = Path(folder) / f"{entries}.ledger" if store == "file" else None
                ledger = PrivacyLedger(path, epsilon=1e6, delta=0.5)
                with_entries(ledger, entries)
                alone = fsync(folder)
                milliseconds = statistics.median(spend(ledger, args.seeds))
                if path is None:
                    rows.append((store, entries, 1, milliseconds, "", "", ""))
                    continue
                opening = 1000 * median_seconds(lambda path=path: PrivacyLedger.open(path))
                other = PrivacyLedger.open(path)
                start = time.perf_counter()
                other.entries()
                reading = time.perf_counter() - start
                rows.append((store, entries, 1, milliseconds, milliseconds / alone, opening, reading))
                print(f"fsync alone: {alone:.3g} ms; {rows[-1]}", flush=True)
        for processes in (2, 8):
            path = Path(folder) / f"p{processes}.ledger"
            PrivacyLedger(path, epsilon=1e6, delta=0.5)
            barrier, found = multiprocessing.Barrier(processes), multiprocessing.Queue()
            runs = [
                multiprocessing.Process(target=worker, args=(path, barrier, args.seeds, found))
                for _ in range(processes)
            ]
            alone = fsync(folder)
            for run in runs:
                run.start()
            times = [milliseconds for _ in runs for milliseconds in found.get()]
            for run in runs:
                run.join()
            assert len(PrivacyLedger.open(path).entries()) == len(times)
            milliseconds = statistics.median(times)
            rows.append(("file", 0, processes, milliseconds, milliseconds / alone, "", ""))
    write_table("ledger", COLUMNS, rows)
    draw(rows)


def draw():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    rows = [(store, int(before), int(n), float(ms)) for store, before, n, ms, *_ in read_table("ledger")]
    labels = [f"{store}, {before:,} before, {n} process{'es' * (n > 1)}" for store, before, n, _ in rows]
    axes.barh(labels[::-1], [row[3] for row in rows][::-1])
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_title("The cost of a durable charge")
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds for each release (charge, then close), median")
    save_figure(figure, "ledger")


if __name__ == "__main__":
    main()
