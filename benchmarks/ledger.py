"""What a ledger costs a fit: time of a reservation with its closing, by store, entries before and processes.

python benchmarks/ledger.py
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from pathlib import Path

from _common import parse_args, save_figure, write_table

from skprivate.privacy import PrivacyLedger
from skprivate.privacy._ledger_book import _append
from skprivate.privacy._ledger_state import LedgerState

KIND = {"unit": "row", "adjacency": "replace-one", "simulated": False}
PRICE = {"epsilon": 1e-6, "delta": 1e-12, "rho": None, "events": [{"event": "GaussianEvent", "count": 20}]}


def spend(ledger, seconds):
    """Releases for some seconds; how many."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        ledger.close_entry(ledger.charge("Benchmark", **PRICE, **KIND), **PRICE)
        count += 1
    return count


def worker(path, barrier, seconds, counts):
    ledger = PrivacyLedger.open(path)
    barrier.wait()
    counts.put(spend(ledger, seconds))


def with_entries(ledger, n):
    """Write n earlier releases at a thousand different prices, in one transaction."""
    ledger.close_entry(ledger.charge("Benchmark", **PRICE, **KIND), **PRICE)
    with ledger._book.transaction(write=True) as (journal, _):
        state = LedgerState()
        for earlier in journal.since(0):
            state.apply(earlier)
        content = json.loads(journal.at(1).text)
        for k in range(n):
            written = len(journal.written)
            _append(journal, state, {**content, "id": 2 + k, "epsilon": 1e-6 * (1 + k % 1000 / 7)})
            for new in journal.written[written:]:
                state.apply(new)


def main():
    args = parse_args(__doc__, seeds=3)
    rows, seconds = [], 2.0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # a disk, not a memory file system
        for entries in (0, 1_000, 100_000):
            for store in ("memory", "file"):
                path = Path(folder) / f"{entries}.ledger" if store == "file" else None
                ledger = PrivacyLedger(path, epsilon=1e6, delta=0.5)
                with_entries(ledger, entries)
                rate = max(spend(ledger, seconds) / seconds for _ in range(args.seeds))
                rows.append((store, entries, 1, rate, 1000 / rate))
                if path is not None:
                    start = time.perf_counter()
                    PrivacyLedger.open(path)
                    print(f"opened {path.name}: {time.perf_counter() - start:.3g} s")
        for processes in (2, 8):
            path = Path(folder) / f"p{processes}.ledger"
            PrivacyLedger(path, epsilon=1e6, delta=0.5)
            barrier, counts = multiprocessing.Barrier(processes), multiprocessing.Queue()
            runs = [
                multiprocessing.Process(target=worker, args=(path, barrier, 2 * seconds, counts))
                for _ in range(processes)
            ]
            for run in runs:
                run.start()
            total = sum(counts.get() for _ in runs)
            for run in runs:
                run.join()
            assert len(PrivacyLedger.open(path).entries()) == total
            rows.append(("file", 0, processes, total / (2 * seconds), 1000 * 2 * seconds / total))
    write_table("ledger", ("store", "entries before", "processes", "releases/s", "ms per release"), rows)
    draw(rows)


def draw(rows):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    labels = [f"{store}, {before:,} before, {n} process{'es' * (n > 1)}" for store, before, n, *_ in rows]
    axes.barh(labels[::-1], [row[-1] for row in rows][::-1], color="tab:blue")
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds for each release (charge, then close)")
    save_figure(figure, "ledger")


if __name__ == "__main__":
    main()
