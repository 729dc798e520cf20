"""The ledger: never a cent over, nothing lost, nothing forgotten, one budget however it is copied."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import joblib
import pytest
from helpers.ledger_workers import create_process, hammer, hammer_process, reserve
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from skprivate import UserLevelMean
from skprivate.privacy import BudgetExceededError, PrivacyLedger, epsilon_of_rho, open_release, rho_of_epsilon
from skprivate.privacy.ledger._costs import exact, round_down, round_up
from skprivate.privacy.ledger._entries import today


@pytest.fixture(params=["memory", "file"])
def make_ledger(request, tmp_path):
    def make(**budget):
        path = tmp_path / "study.ledger" if request.param == "file" else None
        return PrivacyLedger(path, **{"composition": "basic", **budget})

    return make


# Prices and totals ----------------------------------------------------------------------------------------


def test_a_release_from_reservation_to_close(make_ledger):
    ledger = make_ledger(epsilon=2.0, delta=1e-5)
    events = [{"kind": "gaussian", "noise_multiplier": 1.5, "count": 3}]
    entry = reserve(ledger, 0.5, 1e-6, events=events, label="First")
    (opened,) = ledger.entries()
    assert (opened.id, opened.label, opened.epsilon, opened.delta) == (entry, "First", 0.5, 1e-6)
    assert opened.closed is None and opened.events == tuple(events) and opened.process_id == os.getpid()
    ledger.increase(entry, epsilon=1.5, delta=1e-6, rho=None, events=events * 2)
    assert ledger.spent == (1.5, 1e-6) and ledger.remaining == (0.5, 9e-6)
    ledger.close_entry(entry, epsilon=1.25, delta=0.0, rho=None, events=events)
    (closed,) = ledger.entries()
    assert closed.closed == closed.opened and closed.events == tuple(events) and closed.epsilon == 1.25
    assert ledger.spent == (1.25, 0.0)
    with pytest.raises(AttributeError):
        closed.epsilon = 0.0


def test_over_budget_writes_nothing(make_ledger):
    ledger = make_ledger(epsilon=1.0, delta=1e-6)
    entry = reserve(ledger, 0.75)
    before = ledger.entries()
    with pytest.raises(BudgetExceededError, match=r"Test needs epsilon=0.5.*has epsilon=0.25") as error:
        reserve(ledger, 0.5)
    assert error.value.required == (0.5, 0.0) and error.value.remaining == (0.25, 1e-6)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, 0.1, 1.1e-6)
    with pytest.raises(BudgetExceededError, match="charged already"):
        ledger.increase(entry, epsilon=math.nextafter(1.0, 2), delta=0.0, rho=None, events=[])
    assert ledger.entries() == before
    ledger.increase(entry, epsilon=1.0, delta=1e-6, rho=None, events=[])
    assert ledger.remaining == (0.0, 0.0)
    copied = pickle.loads(pickle.dumps(error.value))
    assert (copied.required, copied.remaining, str(copied)) == ((0.5, 0.0), (0.25, 1e-6), str(error.value))


def test_ten_tenths_fill_one_exactly(make_ledger):
    ledger = make_ledger(epsilon=1.0, delta=3e-7)
    for _ in range(3):
        reserve(ledger, 0.1, 1e-7)
    for _ in range(7):
        reserve(ledger, 0.1)
    assert ledger.spent == (1.0, 3e-7) and ledger.remaining == (0.0, 0.0)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, 5e-324)


def test_closing_never_costs_more_than_reserved(make_ledger):
    ledger = make_ledger(epsilon=1.0, delta=1e-6)
    entry = reserve(ledger, 0.5, 1e-7, rho=0.1)
    for price in [(0.6, 1e-7, 0.1), (0.5, 2e-7, 0.1), (0.5, 1e-7, 0.2), (0.5, 1e-7, None)]:
        with pytest.raises(ValueError, match=r"only epsilon=0.5"):
            ledger.close_entry(entry, **dict(zip(("epsilon", "delta", "rho"), price, strict=True)), events=[])
    ledger.close_entry(entry, epsilon=0.5, delta=0.0, rho=0.05, events=[])
    for change in (ledger.increase, ledger.close_entry):
        with pytest.raises(ValueError, match="is closed"):
            change(entry, epsilon=0.1, delta=0.0, rho=0.01, events=[])
        with pytest.raises(ValueError, match="entry must be the number of an entry of this ledger, got 99"):
            change(99, epsilon=0.1, delta=0.0, rho=None, events=[])


@pytest.mark.parametrize(
    ("price", "error"),
    [
        ({"epsilon": -0.1}, ValueError),
        ({"epsilon": math.inf}, ValueError),
        ({"epsilon": 1e200}, ValueError),  # its square is no float
        ({"epsilon": math.nan}, ValueError),
        ({"epsilon": "1"}, TypeError),
        ({"epsilon": 0.1, "delta": 1.0}, ValueError),
        ({"epsilon": 0.1, "delta": -1e-9}, ValueError),
        ({"epsilon": 0.1, "rho": -1.0}, ValueError),
    ],
)
def test_prices_that_are_none(make_ledger, price, error):
    ledger = make_ledger(epsilon=1.0, delta=0.1)
    with pytest.raises(error, match=f"{list(price)[-1]} must be"):
        reserve(ledger, **price)
    assert ledger.entries() == []


def test_no_price_is_so_large_that_the_sums_break(make_ledger):
    ledger = make_ledger(epsilon=1e300, delta=0.1, unit="user", adjacency="add-remove", rows_per_user=10)
    for epsilon, unit in ((1e200, "user"), (9e149, "row")):
        with pytest.raises(ValueError, match=r"epsilon must be a number in \[0, 1e150\]"):
            reserve(ledger, epsilon, unit=unit)
    with pytest.raises(ValueError, match="epsilon must be"), ledger.reserve(1e200):
        raise AssertionError
    with ledger.reserve(1e150) as part:
        entry = reserve(part, 1e150, unit="user")
        part.close_entry(entry, epsilon=5e-324, delta=0.0, rho=None, events=[])
    assert ledger.spent == (5e-324, 0.0) and len(ledger.entries()) == 2


@pytest.mark.parametrize(
    ("budget", "match"),
    [
        ({"epsilon": 0.0}, "epsilon must be a positive finite number, got 0.0"),
        ({"epsilon": -1}, "got -1"),
        ({"epsilon": math.inf}, "got inf"),
        ({"epsilon": math.nan}, "got nan"),
        ({"epsilon": True}, "got True"),
        ({"epsilon": 1, "delta": 1.0}, r"delta must be a number in \[0, 1\), got 1.0"),
        ({"epsilon": 1, "delta": -0.1}, "got -0.1"),
        (
            {"epsilon": 1, "composition": "advanced"},
            "composition must be one of 'filter', 'basic', 'zcdp', got 'advanced'",
        ),
        ({"epsilon": 1, "unit": "users"}, "unit must be one of 'row', .*'user', .*, got 'users'"),
        ({"epsilon": 1, "adjacency": "replace"}, "adjacency must be 'replace-one', 'add-remove', .* got 'replace'"),
        ({"epsilon": 1, "adjacency": "metric"}, "'metric: ' and the name of the distance, or None, got 'metric'"),
        ({"epsilon": 1, "simulation": 1}, "simulation must be True or False, got 1"),
        ({"epsilon": 1, "composition": "zcdp"}, "delta must be positive .* got 0.0"),
    ],
)
def test_budgets_that_are_none(tmp_path, budget, match):
    path = tmp_path / "never.ledger"
    with pytest.raises((ValueError, TypeError), match=match):
        PrivacyLedger(path, **budget)
    assert not path.exists()


@pytest.mark.parametrize("text", ["0.3", "1e-3", "2", "0.30000000000000000001", "0.29999999999999999999", "1e300"])
def test_decimals_and_fractions_are_budgets(tmp_path, text):
    for k, (kind, delta) in enumerate(((Decimal, Decimal("1e-6")), (Fraction, Fraction(1, 3)))):
        ledger = PrivacyLedger(tmp_path / f"{k}.ledger", epsilon=kind(text), delta=delta)
        for found, stated in ((ledger.epsilon, kind(text)), (ledger.delta, delta)):
            assert type(found) is float and Fraction(repr(found)) <= Fraction(stated)  # never more than was stated
            assert found in (float(stated), math.nextafter(float(stated), 0.0))
        assert PrivacyLedger(tmp_path / f"{k}.ledger", epsilon=kind(text), delta=delta) == ledger
    ledger = PrivacyLedger(epsilon=Decimal("0.3"))
    for _ in range(3):
        with open_release(
            epsilon=Decimal("0.1"), unit="row", adjacency="replace-one", ledger=ledger, random_state=0
        ) as release:
            release.laplace(0.0, sensitivity=1.0, epsilon=0.1)
    assert ledger.remaining[0] == 0.0


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-1", "0", "sNaN", "1e400", "1e-400"])
def test_decimals_that_are_no_budget(text):
    with pytest.raises(ValueError):
        PrivacyLedger(epsilon=Decimal(text))


def test_releases_under_two_metrics_do_not_add_up(make_ledger):
    ledger = make_ledger(epsilon=1.0)
    for metric in ("Euclidean, km", "Euclidean, km", "hours"):
        options = {"epsilon": 0.25, "unit": "row", "adjacency": "metric", "metric": metric, "ledger": ledger}
        if metric == "hours":
            with pytest.raises(ValueError, match="metric: hours"):
                open_release(**options).laplace(0.5, sensitivity=1.0, epsilon=0.25)
        else:
            open_release(**options).laplace(0.5, sensitivity=1.0, epsilon=0.25)
    assert len(ledger.entries()) == 2


# The two rules --------------------------------------------------------------------------------------------

prices = st.floats(0, 2, allow_subnormal=False) | st.sampled_from([0.1, 0.2, 0.3, 1e-300, 1.0])
deltas = st.floats(0, 1e-5) | st.sampled_from([0.0, 1e-7, 1e-6])
steps = st.lists(
    st.tuples(st.sampled_from(["reserve", "increase", "close"]), st.integers(0, 9), prices, deltas), max_size=30
)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(steps=steps, epsilon=prices.filter(lambda v: v > 0), delta=deltas)
def test_any_sequence_against_an_exact_model(steps, epsilon, delta):
    ledger = PrivacyLedger(epsilon=epsilon, delta=delta, composition="basic")
    model: list[list] = []  # [epsilon, delta, closed]

    def total(changed=None, price=(0.0, 0.0)):
        kept = [entry[:2] for position, entry in enumerate(model) if position != changed] + [price]
        return [sum((Fraction(repr(entry[k])) for entry in kept), Fraction()) for k in (0, 1)]

    def fits(changed, price):
        return all(t <= Fraction(repr(b)) for t, b in zip(total(changed, price), (epsilon, delta), strict=True))

    for action, position, *price in steps:
        known = position < len(model)
        numbers = {"epsilon": price[0], "delta": price[1], "rho": None}
        if action == "reserve":
            if fits(None, price):
                assert reserve(ledger, **numbers) == len(model) + 1
                model.append([*price, False])
            else:
                with pytest.raises(BudgetExceededError):
                    reserve(ledger, **numbers)
            continue
        change = ledger.increase if action == "increase" else ledger.close_entry
        allowed = known and not model[position][2]
        if action == "increase":
            higher = allowed and all(new >= old for new, old in zip(price, model[position], strict=False))
            allowed = higher and fits(position, price)
        else:
            allowed = allowed and all(new <= old for new, old in zip(price, model[position], strict=False))
        if allowed:
            change(position + 1, **numbers, events=[])
            model[position] = [*price, action == "close"]
        else:
            with pytest.raises(ValueError):
                change(position + 1, **numbers, events=[])
    assert [[e.epsilon, e.delta, e.closed is not None] for e in ledger.entries()] == model
    spent, left = ledger.spent, ledger.remaining
    for value, rest, exact_total, budget in zip(spent, left, total(), (epsilon, delta), strict=True):
        assert Fraction(repr(value)) >= exact_total
        assert Fraction(repr(rest)) <= Fraction(repr(budget)) - exact_total
    reserve(ledger, *left)  # what is said to be left can be had


@settings(deadline=None)
@given(st.decimals(0, 10, allow_nan=False))
def test_rounding_is_tight(value):
    down, up = round_down(value), round_up(value)
    assert exact(down) <= value <= exact(up)
    assert exact(math.nextafter(down, math.inf)) > value
    assert up == 0 or exact(math.nextafter(up, -math.inf)) < value


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.05, 1e-9), (8.0, 1e-5), (0.5, 0.1)])
def test_rho_of_epsilon_against_the_closed_form(epsilon, delta):
    rho = rho_of_epsilon(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon < epsilon_of_rho(rho * (1 + 1e-9), delta)
    # ρ-zCDP ⇒ (ρ + 2√(ρ ln(1/δ)), δ)-DP (Bun & Steinke 2016, proposition 1.3) is valid and looser.
    loose = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
    assert rho >= 0.97 * loose
    # The exact δ of a Gaussian mechanism that is exactly ρ-zCDP must stay below the promised one.
    from scipy.stats import norm

    mu = math.sqrt(2 * rho)
    exact_delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert exact_delta <= delta


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3, 1.0, 3.0])
def test_a_zcdp_ledger_fits_the_one_fit_it_was_made_for(epsilon):
    from skprivate import CuratedBagGAMClassifier

    ledger = PrivacyLedger(epsilon=epsilon, delta=1e-6, unit="label", composition="zcdp")
    X = [[i % 3] for i in range(30)]
    CuratedBagGAMClassifier(epsilon=epsilon, mechanism="discrete_gaussian", delta=1e-6, ledger=ledger).fit(
        X, [i % 2 for i in range(30)]
    )
    assert 0.999 * epsilon < ledger.spent[0] <= epsilon and ledger.spent[1] == 1e-6


def test_zcdp_rule_adds_up_rho(make_ledger):
    ledger = make_ledger(epsilon=1.0, delta=1e-6, composition="zcdp")
    rho = ledger.remaining_rho
    assert ledger.spent == (0.0, 0.0) and ledger.remaining == pytest.approx((1.0, 1e-6))
    share = rho / 100 * (1 - 1e-12)
    for _ in range(100):  # one hundred releases that basic composition would sum to far more than ε = 1
        entry = reserve(ledger, epsilon_of_rho(share, 1e-6), 1e-6, rho=share)
    assert sum(e.epsilon for e in ledger.entries()) > 5
    assert 0.999 < ledger.spent[0] <= 1.0 and ledger.spent[1] == 1e-6
    with pytest.raises(BudgetExceededError, match="rho"):
        reserve(ledger, 0.01, 0.0, rho=share)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, 0.5)
    ledger.close_entry(entry, epsilon=0.0, delta=0.0, rho=0.0, events=[])
    reserve(ledger, 1.0, 0.0, rho=share)
    assert PrivacyLedger(epsilon=1.0).remaining_rho is None  # without δ only sums are left


# Many handles, one budget ---------------------------------------------------------------------------------


def _in_eight_processes(target, path):
    """Run ``target(path, worker, start, results)`` in eight processes at once; what they put, as a dict."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["skprivate.privacy"])  # imported once, not eight times
    start, results = context.Barrier(8), context.Queue()  # or the first is done before the last has begun
    workers = [context.Process(target=target, args=(path, k, start, results)) for k in range(8)]
    for worker in workers:
        worker.start()
    done = dict(results.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    return done


def _check_hammered(ledger, done):
    entries = ledger.entries()
    assert len(entries) == sum(done.values())
    for worker, count in done.items():
        assert sum(e.label == f"worker {worker}" for e in entries) == count
    assert [e.id for e in entries] == list(range(1, len(entries) + 1))
    for name, budget, total in zip(("epsilon", "delta"), ("1.5", "1e-3"), ledger.spent, strict=True):
        exact_total = sum(Fraction(repr(getattr(e, name))) for e in entries)
        assert exact_total <= Fraction(budget) and float(exact_total) == total
    assert ledger.remaining[0] < 0.01  # refused only when full


@pytest.mark.slow
def test_eight_processes_on_one_ledger(tmp_path):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=1.5, delta=1e-3, composition="basic")
    _check_hammered(ledger, _in_eight_processes(hammer_process, tmp_path / "study.ledger"))
    assert len({e.process_id for e in ledger.entries()}) > 1


def test_eight_threads_on_one_ledger(make_ledger):
    ledger = make_ledger(epsilon=1.5, delta=1e-3)
    done, start = {}, threading.Event()

    def work(worker):
        start.wait()
        done[worker] = hammer(ledger, worker)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join()
    _check_hammered(ledger, done)


def test_eight_processes_create_one_ledger(tmp_path):
    processes = _in_eight_processes(create_process, tmp_path / "new.ledger")
    ledger = PrivacyLedger.open(tmp_path / "new.ledger")
    assert ledger.spent == (1.0, 0.0)
    assert {e.process_id for e in ledger.entries()} == set(processes.values())


_KILLED = """
import os, signal, sys
from skprivate.privacy.ledger._ledger import PrivacyLedger
ledger = PrivacyLedger.open(sys.argv[1])
entry = ledger.charge("Killed", epsilon=0.5, delta=1e-7, rho=None, unit="row", adjacency="add-remove",
                       events=[{"kind": "laplace"}], simulated=False)
if sys.argv[2] == "after the price":
    os.kill(os.getpid(), signal.SIGKILL)
from skprivate.privacy.ledger._store import record
with ledger._book.transaction(write=True) as (journal, state):
    journal.append(record(state.last, {"kind": "close", "id": entry, "epsilon": 0.0, "events": [], "closed": "now"}))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["after the price", "inside a transaction"])
def test_a_killed_process_wastes_its_budget_and_forgets_nothing(tmp_path, when):
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-6)
    process = subprocess.run([sys.executable, "-c", _KILLED, str(path), when], cwd=Path.cwd())
    assert process.returncode == -signal.SIGKILL
    (entry,) = ledger.entries()
    assert (entry.label, entry.epsilon, entry.delta, entry.closed) == ("Killed", 0.5, 1e-7, None)
    assert ledger.spent == (0.5, 1e-7)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, 0.6)
    reserve(ledger, 0.5, 1e-7)  # and the lock died with its holder


class Fake(BaseEstimator):
    def __init__(self, ledger=None):
        self.ledger = ledger

    def fit(self, X, y=None):
        reserve(self.ledger, 0.125)
        return self


def test_copies_and_clones_are_the_same_ledger(make_ledger):
    ledger = make_ledger(epsilon=1.0)
    estimator = Fake(ledger)
    handles = [copy.copy(ledger), copy.deepcopy(ledger), clone(estimator).ledger, copy.deepcopy(estimator).ledger]
    for handle in handles:
        assert handle is ledger
        reserve(handle, 0.125)
    assert ledger.spent == (0.5, 0.0)


def test_pickles_of_a_file_are_handles_to_it(tmp_path):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=1.0, delta=1e-6, composition="zcdp")
    handle = pickle.loads(pickle.dumps(ledger))
    assert handle == ledger and hash(handle) == hash(ledger) and repr(handle) == repr(ledger)
    reserve(handle, 0.1, 0.0, rho=0.001)
    assert ledger.spent == handle.spent and ledger.entries() == handle.entries()
    assert ledger != PrivacyLedger(epsilon=1.0) and ledger != "ledger"


def _fit(estimator):
    estimator.fit([[0]])
    return os.getpid()


@pytest.mark.slow
def test_joblib_workers_share_a_file(tmp_path):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=1.0)
    pids = joblib.Parallel(n_jobs=2)(joblib.delayed(_fit)(clone(Fake(ledger))) for _ in range(8))
    assert os.getpid() not in pids
    assert ledger.spent == (1.0, 0.0) and {e.process_id for e in ledger.entries()} == set(pids)


def test_memory_is_not_carried_to_another_process():
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(TypeError, match="Give it a path"):
        pickle.dumps(Fake(ledger))
    with pytest.raises(pickle.PicklingError) as error:
        joblib.Parallel(n_jobs=2)(joblib.delayed(_fit)(Fake(ledger)) for _ in range(2))
    assert "Give it a path" in str(error.value.__cause__) + "".join(map(str, error.value.args))
    assert ledger.entries() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_memory_is_refused_in_a_forked_process():
    ledger = PrivacyLedger(epsilon=1.0)
    code = (
        "import os, sys\n"
        "from skprivate.privacy.ledger._ledger import PrivacyLedger\n"
        "ledger = PrivacyLedger(epsilon=1.0)\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        ledger.spent\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'forked copy' in str(error) else 1)\n"
        "    os._exit(1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_inherit_a_held_lock(tmp_path):
    code = (
        "import os, sys, threading\n"
        "from skprivate.privacy.ledger._ledger import PrivacyLedger\n"
        "ledger = PrivacyLedger(sys.argv[1], epsilon=1.0)\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with ledger._book._locks[os.getpid()]:\n"
        "        held.set(); done.wait()\n"
        "thread = threading.Thread(target=hold); thread.start(); held.wait()\n"
        "if os.fork() == 0:\n"
        "    os._exit(7 if ledger.spent == (0.0, 0.0) else 1)\n"
        "status = os.waitstatus_to_exitcode(os.wait()[1]); done.set(); thread.join(); sys.exit(status)\n"
    )
    handed_on = code.replace("held, done =", "import pickle; ledger = pickle.loads(pickle.dumps(ledger))\nheld, done =")
    handed_on = handed_on.replace("_locks[os.getpid()]", "_making.setdefault(os.getpid(), threading.Lock())")
    for one in (code, handed_on):
        command = [sys.executable, "-W", "ignore", "-c", one, str(tmp_path / "a.ledger")]
        assert subprocess.run(command, timeout=60).returncode == 7


def test_terms_are_there_while_another_thread_begins_to_read_anew(tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=1.0, dry_run=True)
    monkeypatch.setattr(ledger._book, "state", type(ledger._book.state)())
    assert ledger.dry_run and ledger.epsilon == 1.0 and not ledger.simulation


# Files ----------------------------------------------------------------------------------------------------


def test_reopening(tmp_path):
    path = tmp_path / "study.ledger"
    budget = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "composition": "basic", "adjacency": "replace-one"}
    first = PrivacyLedger(path, **budget)
    reserve(first, 0.5, unit="user", adjacency="replace-one")
    for again in (PrivacyLedger(path, **budget), PrivacyLedger.open(str(path))):
        assert again == first and again.spent == (0.5, 0.0) and again.path == str(path)
        assert [getattr(again, name) for name in budget] == list(budget.values())
    for change in ({"epsilon": 2.0}, {"delta": 0.0}, {"unit": "row"}, {"composition": "zcdp"}):
        name = next(iter(change))
        with pytest.raises(ValueError, match=rf"exists with .*{name}=.*PrivacyLedger.open"):
            PrivacyLedger(path, **{**budget, **change})
    with pytest.raises(ValueError, match="adjacency='replace-one', not 'add-remove'"):
        PrivacyLedger(path, **{**budget, "adjacency": "add-remove"})
    assert first.epsilon == 1.0 and first.spent == (0.5, 0.0)


def test_files_that_are_no_ledgers(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no privacy ledger"):
        PrivacyLedger.open(tmp_path / "absent.ledger")
    assert not (tmp_path / "absent.ledger").exists()
    with pytest.raises(FileNotFoundError, match=r"folder .* does not exist"):
        PrivacyLedger(tmp_path / "no" / "folder.ledger", epsilon=1.0)
    text = tmp_path / "text.csv"
    text.write_text("not a ledger, but some other text that someone still needs\n" * 20)
    before = text.read_bytes()
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    for path in (text, other):
        for make in (PrivacyLedger.open, lambda path: PrivacyLedger(path, epsilon=1.0)):
            with pytest.raises(ValueError, match="not a privacy ledger"):
                make(path)
    assert text.read_bytes() == before


def test_a_deleted_or_exchanged_file_is_refused(tmp_path):
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=1.0)
    reserve(ledger, 0.5)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone"):
        reserve(ledger, 0.1)
    assert not path.exists() and "out of reach" in repr(ledger)
    PrivacyLedger(path, epsilon=1.0)
    with pytest.raises(ValueError, match="another privacy ledger"):
        reserve(ledger, 0.1)


def test_a_file_of_another_format_or_none_is_refused(tmp_path):
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=1.0)
    for version in (1, 2, 9):
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        with pytest.raises(ValueError, match=f"format {version}.*format 4.*What is left"):
            reserve(ledger, 0.1)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 4")
    connection.close()
    data = bytearray(path.read_bytes())
    data[:16] = b"x" * 16
    path.write_bytes(bytes(data))
    with pytest.raises((ValueError, OSError), match="not a privacy ledger"):
        reserve(ledger, 0.1)


def test_a_busy_ledger_says_so(tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=1.0)
    monkeypatch.setattr("skprivate.privacy.ledger._store.BUSY_TIMEOUT", 0.05)
    with ledger._book.transaction(write=True), pytest.raises(TimeoutError, match="busy"):
        reserve(ledger, 0.1)
    reserve(ledger, 0.1)


def test_the_file_is_synchronised(tmp_path):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=1.0)
    with ledger._book.transaction(write=False) as (journal, _):
        connection = journal._connection
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("persist",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


# Shown ----------------------------------------------------------------------------------------------------


def test_what_is_shown(make_ledger):
    ledger = make_ledger(epsilon=3.0, delta=1e-6, unit="user", simulation=True)
    for k in range(12):
        entry = reserve(ledger, 0.125, unit="user", label=f"<b>{k}</b>", simulated=True)
    ledger.close_entry(entry, epsilon=0.0, delta=0.0, rho=None, events=[])
    assert "epsilon 1.375 of 3," in repr(ledger) and "per user in 12 entries, simulation only" in repr(ledger)
    page = ledger._repr_html_()
    assert "&lt;b&gt;11&lt;/b&gt;" in page and "<b>" not in page
    assert "closed, simulated" in page and "the last 10 of 12" in page
    frame = ledger.to_frame()
    assert list(frame.index) == list(range(1, 13)) and frame["simulated"].all()
    assert PrivacyLedger(epsilon=1.0).to_frame().empty


def test_events_are_plain_values(make_ledger):
    import numpy as np

    ledger = make_ledger(epsilon=3.0)
    reserve(ledger, 0.5, events=[{"kind": "laplace", "epsilon": np.float64(0.5), "count": np.int64(3)}])
    (event,) = ledger.entries()[0].events
    assert event == {"kind": "laplace", "epsilon": 0.5, "count": 3}
    assert json.loads(json.dumps(event)) == event


def test_a_reservation_is_closed_by_its_block_alone(make_ledger):
    ledger = make_ledger(epsilon=1.0, unit="row", adjacency="add-remove")
    with ledger.reserve(0.5) as part:
        reserve(part, 0.4)
        for change in (ledger.close_entry, ledger.increase, part.close_entry):
            with pytest.raises(ValueError, match="reservation"):
                change(1, epsilon=0.0, delta=0.0, rho=None, events=[])
        assert ledger.spent == (0.5, 0.0)
        with pytest.raises(BudgetExceededError):
            reserve(ledger, 0.75)
    assert ledger.spent == (0.4, 0.0)


def test_what_interrupts_a_charge_cannot_charge(monkeypatch):
    """A signal handler runs between any two steps, in the thread that holds the lock."""
    ledger = PrivacyLedger(epsilon=1.0)

    def interrupted():
        monkeypatch.undo()
        with pytest.raises(RuntimeError, match="interrupts"):
            reserve(ledger, 0.75)
        assert ledger.spent == (0.0, 0.0)
        return today()

    monkeypatch.setattr("skprivate.privacy.ledger._entries.today", interrupted)
    reserve(ledger, 0.75)
    assert ledger.spent == (0.75, 0.0) and len(ledger.entries()) == 1
    reserve(ledger, 0.25)


def test_a_ledger_without_delta_is_the_cause_that_its_refusal_names():
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(BudgetExceededError, match="This ledger was made without delta"):
        UserLevelMean(epsilon=0.5, tau=1.0, ledger=ledger).fit([[0.0]] * 50)
    with pytest.raises(BudgetExceededError) as error:
        UserLevelMean(epsilon=1.5, delta=1e-6, tau=1.0, ledger=PrivacyLedger(epsilon=1.0, delta=1e-5)).fit([[0.0]] * 50)
    assert "without delta" not in str(error.value)
