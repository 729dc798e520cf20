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
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skprivate import UserLevelSGDRegressor, guarantee_of
from skprivate.preprocessing import PublicScaler
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


@pytest.mark.slow
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


# Where it is heard -----------------------------------------------------------------------------------------------


def fits_inside_of_others():
    member = UserLevelSGDRegressor(random_state=0, max_iter=1)
    yield "pipeline", make_pipeline(PublicScaler(), member), 1
    yield "search", GridSearchCV(member, {"epsilon": [1.0, 2.0]}, cv=2), 5
    yield "bagging", BaggingRegressor(UserLevelSGDRegressor(max_iter=1), n_estimators=3), 3


@pytest.mark.parametrize("model, fits", [pytest.param(*case[1:], id=case[0]) for case in fits_inside_of_others()])
def test_every_fit_inside_of_others_is_heard_at_the_callers_line(model, fits):
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.filterwarnings("ignore", message=".*too few.*")
        warnings.filterwarnings("always", category=SimulatedNoiseWarning, append=True)
        line = inspect.currentframe().f_lineno + 1
        model.fit(X, Y)
    said = [(w.filename, w.lineno) for w in seen if w.category is SimulatedNoiseWarning]
    assert said == [(__file__, line)] * fits


@pytest.mark.slow
def test_worker_processes_are_heard():
    """Their stack does not hold the caller's line, so that only the number of warnings can be right."""
    code = (
        "import numpy as np\n"
        "from sklearn.ensemble import BaggingRegressor\n"
        "from skprivate import UserLevelSGDRegressor\n"
        "if __name__ == '__main__':\n"
        "    X = np.linspace(-1, 1, 60)[:, None]\n"
        "    BaggingRegressor(UserLevelSGDRegressor(max_iter=1), n_estimators=4, n_jobs=2).fit(X, X[:, 0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("SimulatedNoiseWarning: ") == 4


def test_an_ensemble_says_that_it_is_not_valid_for_release():
    model = BaggingRegressor(UserLevelSGDRegressor(max_iter=1), n_estimators=2, bootstrap=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        guarantee = guarantee_of(model.fit(X, Y))
    assert not guarantee.valid_for_release and "not valid for release" in str(guarantee)
    assert "simulated" in repr(guarantee) and "no: simulated noise" in guarantee._repr_html_()


# Ledgers ---------------------------------------------------------------------------------------------------------

TERMS = {"epsilon": 1.0, "unit": "row", "adjacency": "add-remove"}


def draw(ledger, random_state):
    with open_release(**TERMS, ledger=ledger, random_state=random_state, label="Draw") as release:
        return release.laplace(0.0, sensitivity=1.0, epsilon=1.0)


def test_a_file_refuses_seeded_noise(tmp_path, monkeypatch):
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=10.0)
    draw(ledger, None)
    monkeypatch.setattr("skprivate.privacy.noise._samplers.integer_noise", None)  # nothing is drawn, or this fails
    for opened in (ledger, PrivacyLedger.open(path)):
        with pytest.raises(SimulatedNoiseError, match=r"Draw: random_state must be None .*simulation=True"):
            draw(opened, 0)
    assert [entry.simulated for entry in ledger.entries()] == [False] and ledger.spent == (1.0, 0.0)


def test_a_file_refuses_members_of_an_ensemble(tmp_path):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=10.0, delta=1e-3)
    with pytest.raises(SimulatedNoiseError, match="BaggingRegressor"):
        BaggingRegressor(UserLevelSGDRegressor(ledger=ledger), n_estimators=2).fit(X, Y)
    assert ledger.entries() == []


def test_a_ledger_for_simulation_takes_nothing_else(tmp_path):
    """What is released must not be charged to a budget that is nobody's."""
    path = tmp_path / "trials.ledger"
    ledgers = [PrivacyLedger(path, epsilon=10.0, simulation=True), PrivacyLedger(epsilon=10.0, simulation=True)]
    for ledger in (*ledgers, PrivacyLedger.open(path)):
        draw(ledger, 0)
        with pytest.raises(SimulatedNoiseError, match="charged to the data's own"):
            draw(ledger, None)
        assert ledger.simulation and all(entry.simulated for entry in ledger.entries())
        assert "simulation only" in repr(ledger) and "simulation only" in ledger._repr_html_()
    with pytest.raises(ValueError, match="simulation=True, not False"):
        PrivacyLedger(path, epsilon=10.0)


def test_memory_takes_both():
    ledger = PrivacyLedger(epsilon=10.0)
    for random_state in (None, 0):
        draw(ledger, random_state)
    assert [entry.simulated for entry in ledger.entries()] == [False, True] and not ledger.simulation
