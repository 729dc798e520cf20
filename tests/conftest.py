"""Processes side by side share the cores: each computes in one thread. What replays saw is counted together."""

import os
from collections import defaultdict

import pytest
from helpers.replay_totals import ReplayTotals
from helpers.turns import fast_and_slow
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

_SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ
#: Which cells of the largest tests are run. The same each time, as with examples below; TESTS_TURN=1 takes others.
_TURN = int(os.environ.get("TESTS_TURN", "0"))

if _SIDE_BY_SIDE:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # for the processes that tests start

# How long an example takes is a matter of what else the machine does. The same examples each time: a change is not
# refused for what it has not touched. HYPOTHESIS_PROFILE=explore looks for others.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any machine", settings.get_profile("explore"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "any machine"))


def pytest_configure(config):
    if _SIDE_BY_SIDE:
        config.stash_threads = threadpool_limits(1)  # NumPy is loaded by now
    else:
        config.pluginmanager.register(ReplayTotals())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of the cells of a test that take turns some are fast, some slow, and the others wait."""
    taking_turns = defaultdict(list)
    for item in items:
        if item.get_closest_marker("take_turns") is not None and hasattr(item, "callspec"):
            taking_turns[item.nodeid.partition("[")[0]].append(item)
    waiting = set()
    for cells in taking_turns.values():
        (n,) = cells[0].get_closest_marker("take_turns").args
        parameters = {item.nodeid: item.callspec.params for item in cells}
        fast, slow = fast_and_slow(parameters, n, _TURN)
        for item in cells:
            if item.nodeid in slow:
                item.add_marker(pytest.mark.slow)
            elif item.nodeid not in fast:
                waiting.add(item)
    if waiting:
        config.hook.pytest_deselected(items=list(waiting))
        items[:] = [item for item in items if item not in waiting]
