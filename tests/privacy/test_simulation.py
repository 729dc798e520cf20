"""Simulated noise is announced at the caller's line, every time, and can be forbidden."""

import inspect
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn.ensemble import BaggingRegressor

from skprivate import UserLevelSGDRegressor
from skprivate.privacy import (
    PrivacyLedger,
    SimulatedNoiseError,
    SimulatedNoiseWarning,
    forbid_simulated_noise,
    open_release,
)

X = np.linspace(-1, 1, 60)[:, None]
Y = X[:, 0]


def test_the_warning_names_the_line_of_the_caller_each_time():
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.filterwarnings("always", category=SimulatedNoiseWarning, append=True)
        warnings.filterwarnings("ignore", message=".*too few.*")
        for _ in range(3):
            line = inspect.currentframe().f_lineno + 1
            UserLevelSGDRegressor(random_state=0).fit(X, Y)
    said = [w for w in seen if w.category is SimulatedNoiseWarning]
    assert [(w.filename, w.lineno) for w in said] == [(__file__, line)] * 3
    assert "UserLevelSGDRegressor" in str(said[0].message)


def test_importing_lets_every_release_be_heard():
    """The filter that comes with the package: one warning a release, also from one line of a loop."""
    code = (
        "from skprivate.privacy import open_release\n"
        "for _ in range(3):\n"
        "    open_release(epsilon=1.0, unit='row', adjacency='add-remove', random_state=0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("SimulatedNoiseWarning") == 3


def test_members_of_an_ensemble_cannot_be_seeded_where_it_is_forbidden():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="user")
    model = BaggingRegressor(UserLevelSGDRegressor(ledger=ledger), n_estimators=2)
    with forbid_simulated_noise(), pytest.raises(SimulatedNoiseError, match="ensembles"):
        model.fit(X, Y)
    assert ledger.spent == (0.0, 0.0)
    release = open_release(epsilon=1.0, unit="row", adjacency="add-remove", random_state=0)  # allowed again
    assert not release.close().valid_for_release


def test_members_that_are_fitted_in_other_threads_cannot_be_seeded_either():
    model = BaggingRegressor(UserLevelSGDRegressor(), n_estimators=2, n_jobs=2)
    with forbid_simulated_noise(), parallel_backend("threading"), pytest.raises(SimulatedNoiseError):
        model.fit(X, Y)


@pytest.mark.parametrize(("value", "forbidden"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_the_environment_forbids_it_for_a_process(monkeypatch, value, forbidden):
    monkeypatch.setitem(os.environ, "SKPRIVATE_FORBID_SIMULATED_NOISE", value)
    options = {"epsilon": 1.0, "unit": "row", "adjacency": "add-remove"}
    if forbidden:
        with pytest.raises(SimulatedNoiseError):
            open_release(**options, random_state=3)
    else:
        open_release(**options, random_state=3)
    assert open_release(**options).close().valid_for_release
