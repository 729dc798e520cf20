"""Worker processes of a real cluster, one of which is killed in the middle of the work and replaced.

A nanny starts another worker where its own is killed while it runs. Where it is killed within some milliseconds of
its start, the nanny (of distributed, up to 2026.7 at least) still takes itself to be starting, and starts no other:
a cluster of one worker then has none left, and whatever waits for it waits for ever. So a worker is only killed
where its nanny says that it runs, and the test ends only once there are as many as before.
"""

import faulthandler
import logging
import os
import signal
import time
from contextlib import contextmanager
from threading import Thread

#: Seconds after which a test of a cluster ends its process, with the stacks of all its threads.
PATIENCE = 300


@contextmanager
def real_cluster(n_workers):
    """A client of worker processes with one thread each; a cluster that hangs is ended, not waited for."""
    from distributed import Client, LocalCluster

    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0"}
    try:
        with (
            LocalCluster(n_workers=n_workers, silence_logs=logging.CRITICAL, **options) as cluster,
            Client(cluster) as client,
        ):
            yield client
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def losing_one(client):
    """A worker is killed without warning while what stands in this block runs; after it there is another."""
    n_workers = len(client.cluster.workers)
    _until(lambda: _running(client) == n_workers, "all nannies run a worker")
    killed = []

    def kill():
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    killer = Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        killer.join()
    assert killed, "no worker was killed"
    _until(
        lambda: _running(client) == n_workers and killed[0] not in client.run(os.getpid).values(),
        "another worker was started",
    )


def slowly(block, seconds=0.02):
    """A block of rows that takes its time, so that the worker is killed in the middle of the work."""
    time.sleep(seconds)
    return block


def _running(client):
    """How many nannies of the cluster run a worker that the scheduler knows."""
    nannies = client.cluster.workers.values()
    known = len(client.scheduler_info(n_workers=-1)["workers"])
    return min(known, sum(nanny.process is not None and nanny.process.status.name == "running" for nanny in nannies))


def _until(true, words):
    ends = time.monotonic() + PATIENCE / 2
    while not true():
        assert time.monotonic() < ends, f"it never came that {words}"
        time.sleep(0.05)
