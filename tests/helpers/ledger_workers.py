"""Functions that the ledger tests run in other processes; light to import."""

from __future__ import annotations

import os

from skprivate.privacy import BudgetExceededError, PrivacyLedger


def reserve(ledger, epsilon, delta=0.0, rho=None, label="Test", **changes):
    """Reserve with the arguments that do not matter filled in."""
    kind = {"unit": "row", "adjacency": "add-remove", "events": [], "simulated": False}
    return ledger.charge(label, epsilon=epsilon, delta=delta, rho=rho, **{**kind, **changes})


def hammer(ledger, worker):
    """Reserve until refused; every third release grows, every second of the others closes lower."""
    done = 0
    while True:
        try:
            entry = reserve(ledger, 0.01, 1e-9, label=f"worker {worker}")
            done += 1
            if done % 3 == 0:
                ledger.increase(entry, epsilon=0.015, delta=2e-9, rho=None, events=[{"worker": worker}])
            elif done % 2 == 0:
                ledger.close_entry(entry, epsilon=0.0075, delta=0.0, rho=None, events=[])
        except BudgetExceededError:
            return done


def hammer_process(path, worker, start, results):
    """`hammer` in a process of its own."""
    start.wait()
    results.put((worker, hammer(PrivacyLedger.open(path), worker)))


def create_process(path, worker, start, results):
    """Create the ledger, or find it created, and spend an eighth of it."""
    start.wait()
    reserve(PrivacyLedger(path, epsilon=1.0), 0.125)
    results.put((worker, os.getpid()))
