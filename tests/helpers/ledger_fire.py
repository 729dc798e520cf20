"""Ledgers under fire: processes that are killed, disks that are full, bits that flip.

`tests/privacy/test_ledger_fire.py` runs it small, ``benchmarks/ledger_torture.py`` at full length.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
from helpers.ledger_workers import reserve

from skprivate import UserLevelMean
from skprivate.privacy import BudgetExceededError, PrivacyLedger, open_release
from skprivate.privacy.noise._bits import SystemBitSource

EPSILON, DELTA = 0.01, 1e-8
_X = np.linspace(0, 1, 100).reshape(50, 2)
_USERS = np.arange(50)
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # begins a rollback journal that is still needed
_CONTEXT = multiprocessing.get_context("fork")


def a_ledger(path, fits):
    """A ledger with room for so many fits."""
    terms = {"unit": "user", "adjacency": "replace-one", "composition": "basic"}
    return PrivacyLedger(path, epsilon=fits * EPSILON, delta=fits * DELTA, **terms)


# Kills --------------------------------------------------------------------------------------------------------------


def fit(ledger):
    """One estimator's release; the name of its entry."""
    model = UserLevelMean(epsilon=EPSILON, delta=DELTA, ledger=ledger).fit(_X, user_ids=_USERS)
    return [model.privacy_guarantee_.ledger_entry]


def fit_two(ledger):
    """Two fits of a part that was reserved."""
    with ledger.reserve(2 * EPSILON, 2 * DELTA) as part:
        return fit(part) + fit(part)


def draw_and_draw_again(ledger):
    """A release that pays for its second draw when the first is known."""
    terms = {"unit": "user", "adjacency": "replace-one", "label": "two draws"}
    with open_release(epsilon=EPSILON, ledger=ledger, **terms) as release:
        for _ in range(2):
            release.laplace(0.0, sensitivity=1.0, epsilon=EPSILON / 2)
    return [release.close().ledger_entry]


def work(path, side, seed):
    """Fit until the budget is spent; note every released model in a file of this worker's own."""
    warnings.simplefilter("ignore")
    choose = random.Random(seed)
    ledger = PrivacyLedger.open(path)
    note = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while True:
        os.write(note, b"begin\n")
        try:
            held = choose.choices([fit, fit_two, draw_and_draw_again], [0.7, 0.15, 0.15])[0](ledger)
        except BudgetExceededError:
            os.write(note, b"full\n")
            return
        for name in held:
            os.write(note, f"hold {name}\n".encode())


def watch(path, stop, complaints):
    """Read all the time; what is spent must never be above the budget nor shrink to less than what was closed."""
    reads = 0
    while not stop.is_set():
        try:
            ledger = PrivacyLedger.open(path)
            if ledger.spent[0] > ledger.epsilon or ledger.spent[1] > ledger.delta:
                complaints.put(f"over the budget: {ledger.spent}")
            reads += 1
        except Exception as error:
            complaints.put(repr(error))
        time.sleep(0.02)
    complaints.put(reads)


def kill_at_random(folder, *, fits, processes, seed, pause):
    """Processes that fit until the budget is spent, killed and replaced at random moments; what was counted."""
    choose, path = random.Random(seed), Path(folder) / "fire.ledger"
    a_ledger(path, fits)
    stop, complaints = _CONTEXT.Event(), _CONTEXT.Queue()
    watcher = _CONTEXT.Process(target=watch, args=(path, stop, complaints))
    watcher.start()
    counted: Counter[str] = Counter()
    sides: list[Path] = []

    def start():
        sides.append(Path(folder) / f"side{len(sides)}")
        process = _CONTEXT.Process(target=work, args=(path, sides[-1], choose.random()))
        process.start()
        return process

    running = [start() for _ in range(processes)]
    began = time.perf_counter()
    while running:
        time.sleep(choose.expovariate(1 / pause))
        for done in [process for process in running if not process.is_alive()]:
            done.join()
            counted["errors"] += done.exitcode != 0
            running.remove(done)
        if running:
            victim = choose.choice(running)
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            if victim.exitcode == -signal.SIGKILL:
                counted["kills"] += 1
                running[running.index(victim)] = start()
                beside = Path(f"{path}-journal")
                counted["writing when killed"] += beside.exists() and beside.read_bytes()[:8] == _MAGIC
    counted["seconds"] = round(time.perf_counter() - began)
    stop.set()
    found = []
    while not isinstance(found[-1:] and found[-1], int):
        found.append(complaints.get())
    watcher.join()
    counted["reads beside"], found = found[-1], found[:-1]
    counted["complaints of the reader"] = len(found)
    _count(path, sides, counted)
    assert not found, found[:3]
    return counted


def _count(path, sides, counted):
    """Compare the workers' notes with the ledger, reopened."""
    notes = [side.read_text().split("\n") for side in sides if side.exists()]
    held = [line.removeprefix("hold ") for lines in notes for line in lines if line.startswith("hold ")]
    ledger = PrivacyLedger.open(path)
    entries = {f"{ledger.identity}#{entry.id}": entry for entry in ledger.entries()}
    counted["entries"], counted["models held"] = len(entries), len(held)
    counted["held twice"] = len(held) - len(set(held))
    counted["held but lost"] = sum(name not in entries or entries[name].closed is None for name in held)
    counted["charged, then killed"] = sum(entry.closed is None for entry in entries.values())
    paid = [entry for entry in entries.values() if entry.reservation is None]
    for name, budget in (("epsilon", ledger.epsilon), ("delta", ledger.delta)):
        total = sum(Fraction(repr(getattr(entry, name))) for entry in paid)
        counted[f"over the budget ({name})"] = int(total > Fraction(repr(budget)))
    whole = {e.id: e for e in entries.values() if e.label == "reservation"}
    for number, reserved in whole.items():
        parts = sum(Fraction(repr(e.epsilon)) for e in entries.values() if e.reservation == number)
        counted["over a reservation"] += parts > Fraction(repr(reserved.epsilon))
    counted["ids with gaps"] = int([e.id for e in entries.values()] != list(range(1, len(entries) + 1)))
    command = [sys.executable, "-m", "skprivate.cli", "ledger", "verify", str(path)]
    counted["not verified"] = subprocess.run(command, stdout=subprocess.DEVNULL).returncode


#: What must be 0 after `kill_at_random`.
NEVER = (
    "errors",
    "complaints of the reader",
    "held twice",
    "held but lost",
    "over the budget (epsilon)",
    "over the budget (delta)",
    "over a reservation",
    "ids with gaps",
    "not verified",
)


# A full disk --------------------------------------------------------------------------------------------------------


def fill_up(path):
    """Fit on a disk that will be full; what happened. For a process of its own, whose disk is small.

    Returns
    -------
    dict
        How many fits were refused, before a bit was drawn or, paid and drawn, at their end; what was held and lost.
    """
    warnings.simplefilter("ignore")
    drawn, read = [0], SystemBitSource.bytes

    def counting(self, n):
        drawn[0] += 1
        return read(self, n)

    SystemBitSource.bytes = counting
    ledger = a_ledger(path, 100_000)
    held, messages, wasted = [], [], 0
    while len(messages) < 3:
        before = drawn[0], len(PrivacyLedger.open(path).entries())
        try:
            held += fit(ledger)
        except OSError as error:
            messages.append(str(error))
            charged = len(PrivacyLedger.open(path).entries()) > before[1]  # reading needs no room
            wasted += charged
            assert charged or drawn[0] == before[0], "drawn without a charge"
    SystemBitSource.bytes = read
    reopened = PrivacyLedger.open(path)
    names = {f"{reopened.identity}#{entry.id}" for entry in reopened.entries()}
    return {
        "refused before a draw": len(messages) - wasted,
        "refused at the end": wasted,
        "models held": len(held),
        "held but lost": len(set(held) - names),
        "entries": len(names),
        "messages": sorted(set(messages)),
    }


# Damage -------------------------------------------------------------------------------------------------------------


def filled(path, entries):
    """A ledger with so many entries, half of them closed lower."""
    ledger = PrivacyLedger(path, epsilon=1e4, delta=0.5, unit="row", adjacency="add-remove")
    for k in range(entries):
        entry = reserve(ledger, 0.125, 1e-7, label=f"fit {k}")
        if k % 2:
            ledger.close_entry(entry, epsilon=0.0625, delta=1e-7, rho=None, events=[])
    return ledger


def content(path):
    """All that a ledger says."""
    ledger = PrivacyLedger.open(path)
    said = [ledger.spent, ledger.remaining, ledger.unit, ledger.adjacency]
    return ledger.seals(), ledger.entries(), ledger._terms, said


def judge(data, path, truth):
    """Put a damaged file in place; "noticed" or "harmless", an error where it says something else.

    Harmless is what reads as before, takes one more entry and reads as before with that entry.
    """
    path.write_bytes(data)
    Path(f"{path}-journal").unlink(missing_ok=True)
    try:
        quick = PrivacyLedger.open(path)
        assert (quick.spent, quick.seal) == (truth[3][0], truth[0][-1]), "opening says something else"
        assert content(path) == truth, "the ledger says something else"
        reserve(quick, 0.5)
        seals, entries, *_ = content(path)
        assert seals[: len(truth[0])] == truth[0] and entries[:-1] == truth[1], "it goes on from something else"
    except (ValueError, OSError):
        return "noticed"
    return "harmless"


def flip_bits(path, copy, flips, seed):
    """Single bits flipped all over a file; how many were noticed."""
    truth, original = content(path), path.read_bytes()
    rng, counted = random.Random(seed), Counter()
    for _ in range(flips):
        data = bytearray(original)
        position = rng.randrange(8 * len(data))
        data[position // 8] ^= 1 << (position % 8)
        counted[judge(bytes(data), copy, truth)] += 1
    return counted


def cut_and_zero(path, copy, seed, cuts):
    """The tail cut off anywhere, every page zeroed, pages exchanged; by kind, how many were noticed."""
    truth, original = content(path), path.read_bytes()
    rng, size = random.Random(seed), 4096
    pages = range(0, len(original), size)
    damage = [("cut", original[: rng.randrange(1, len(original))]) for _ in range(cuts)]
    damage += [("cut", original[:page]) for page in pages if page]
    damage += [("zeroed", original[:page] + bytes(size) + original[page + size :]) for page in pages]
    for _ in range(cuts):
        one, other = sorted(rng.sample(pages, 2))
        parts = [original[:one], original[other : other + size], original[one + size : other]]
        damage.append(("exchanged", b"".join([*parts, original[one : one + size], original[other + size :]])))
    counted: dict[str, Counter[str]] = {}
    for kind, data in damage:
        counted.setdefault(kind, Counter())[judge(data, copy, truth)] += 1
    return counted


if __name__ == "__main__":  # `fill_up` on a disk that the caller has made small
    import json

    if len(sys.argv) > 2:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    print(json.dumps(fill_up(sys.argv[1])))
