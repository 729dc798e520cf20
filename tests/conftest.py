"""Processes side by side share the cores: each computes in one thread. What replays saw is counted together."""

import os
from collections import Counter

import pytest
from replay_totals import ReplayTotals
from threadpoolctl import threadpool_limits

_SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ

if _SIDE_BY_SIDE:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # for the processes that tests start


def pytest_configure(config):
    if _SIDE_BY_SIDE:
        config.stash_threads = threadpool_limits(1)  # NumPy is loaded by now
    else:
        config.pluginmanager.register(ReplayTotals())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cells of a test that are to take turns every n-th belongs to the fast run, the others to the slow one."""
    seen = Counter()
    for item in items:
        turns = item.get_closest_marker("take_turns")
        if turns is not None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % turns.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
