"""Processes that run side by side share the cores: each computes in one thread."""

import os

from threadpoolctl import threadpool_limits

if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # for the processes that tests start

    def pytest_configure(config):
        config.stash_threads = threadpool_limits(1)  # NumPy is loaded by now
