"""Ledgers under fire, small: kills, full disks, files that may only be read, damage, checkpoints of old versions."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import helpers.ledger_fire as fire
import pytest
from helpers.ledger_workers import reserve

from skprivate.privacy import DamagedLedgerError, PrivacyLedger
from skprivate.privacy.ledger._store import Record, record

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parents[1])])}


def in_a_namespace(script, *arguments):
    """Run a script that mounts something nobody else sees; skip where that is not allowed."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*command, "mount -t tmpfs none /mnt"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not allowed here")
    return subprocess.run(
        [*command, script, "sh", *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, timeout=120
    )


# Kills and disks ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fits", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_killed_processes_lose_nothing_and_overspend_nothing(tmp_path, fits):
    counted = fire.kill_at_random(tmp_path, fits=fits, processes=8, seed=fits, pause=0.05)
    assert {what: counted[what] for what in fire.NEVER} == dict.fromkeys(fire.NEVER, 0)
    assert counted["kills"] > 0 and counted["models held"] > 0
    assert counted["entries"] >= fits


def _check_filled(done):
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["held but lost"] == 0 and found["refused before a draw"] >= 1 and found["models held"] >= 1
    assert all("cannot be" in message and "given back" in message for message in found["messages"])
    return found


@pytest.mark.slow
def test_a_full_disk_refuses_before_a_bit_is_drawn(tmp_path):
    script = f'mount -t tmpfs -o size=150k none "$1" && exec {sys.executable} {fire.__file__} "$1/a.ledger"'
    found = _check_filled(in_a_namespace(script, tmp_path))
    assert any("full" in message for message in found["messages"])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs limits of a process")
def test_a_file_that_may_not_grow_refuses_before_a_bit_is_drawn(tmp_path):
    command = [sys.executable, fire.__file__, str(tmp_path / "a.ledger"), "100000"]
    _check_filled(subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT))
    assert len(PrivacyLedger.open(tmp_path / "a.ledger").entries()) > 10
    reserve(PrivacyLedger.open(tmp_path / "a.ledger"), 0.01, unit="user", adjacency="replace-one")  # with room again


_READS = """
import sys
from skprivate import cli
from skprivate.privacy import PrivacyLedger
for command in ("show", "export", "verify"):
    assert cli.main(["ledger", command, sys.argv[1]]) == 0
from helpers.ledger_workers import reserve
try:
    reserve(PrivacyLedger.open(sys.argv[1]), 0.5)
except OSError as error:
    print("refused:", error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["file", "folder", "killed"])
def test_what_may_only_be_read_is_read_and_not_written(tmp_path, what):
    path = tmp_path / "study.ledger"
    fire.filled(path, 3)
    before = path.read_bytes()
    if what == "killed":  # in the middle of a transaction, whose pages are in the file
        code = (
            "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
            "c.execute('PRAGMA journal_mode=PERSIST'); c.execute('PRAGMA cache_size=1'); c.execute('BEGIN IMMEDIATE');"
            "[c.execute('INSERT INTO journal VALUES (?, ?, ?)', (100 + k, 'x' * 3000, 'x')) for k in range(99)];"
            "os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", code, str(path)])
        assert path.read_bytes() != before
    script = f"""
        mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec {sys.executable} -c "$2" "$1/{path.name}"
    """
    if what == "file":
        script = f"""
        mount --bind "$1/{path.name}" "$1/{path.name}" && mount -o remount,ro,bind "$1/{path.name}" &&
        exec {sys.executable} -c "$2" "$1/{path.name}"
        """
    done = in_a_namespace(script, tmp_path, _READS)
    assert done.returncode == 0, done.stderr
    assert "fit 2" in done.stdout and "3 entries" in done.stdout
    refused = done.stdout.partition("refused:")[2]
    assert "cannot be" in refused and ("only be read" in refused or "writable" in refused)
    assert len(PrivacyLedger.open(path).entries()) == 3


# Damage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flips", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_changes_what_a_ledger_says(tmp_path, flips):
    path = tmp_path / "study.ledger"
    fire.filled(path, 50)
    counted = fire.flip_bits(path, tmp_path / "copy.ledger", flips, seed=flips)
    assert counted["noticed"] > flips / 3


def test_cut_zeroed_and_exchanged_pages_are_noticed(tmp_path):
    path = tmp_path / "study.ledger"
    fire.filled(path, 50)
    counted = fire.cut_and_zero(path, tmp_path / "copy.ledger", seed=0, cuts=10)
    assert all(set(found) == {"noticed"} for found in counted.values()) and len(counted) == 3


def change(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)
    connection.commit()
    connection.close()


def rows(path):
    connection = sqlite3.connect(path)
    found = [Record(*row) for row in connection.execute("SELECT * FROM journal ORDER BY number")]
    connection.close()
    return found


def reseal(path, changes):
    """What somebody would write who can compute seals: other contents, and every seal after them made anew."""
    old, new = rows(path), []
    for found in old:
        said = json.loads(found.text)
        if found.number in changes:
            said = changes[found.number](said)
        new.append(record(new[-1] if new else None, said))
    change(path, "DELETE FROM journal", *[("INSERT INTO journal VALUES (?, ?, ?)", one) for one in new])


def test_exchanged_records_are_noticed(tmp_path):
    path = tmp_path / "study.ledger"
    fire.filled(path, 6)
    change(
        path,
        "UPDATE journal SET number = -1 WHERE number = 3",
        "UPDATE journal SET number = 3 WHERE number = 4",
        "UPDATE journal SET number = 4 WHERE number = -1",
    )
    with pytest.raises(DamagedLedgerError, match="record 3 does not follow"):
        PrivacyLedger.open(path)


def test_text_that_is_no_text_is_damage(tmp_path):
    path = tmp_path / "study.ledger"
    fire.filled(path, 3)
    change(path, "UPDATE journal SET text = CAST(x'ff' AS TEXT) WHERE number = 2")
    with pytest.raises(DamagedLedgerError):
        PrivacyLedger.open(path)


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "close", "id": 99, "events": []},
        {"kind": "charge", "id": 1, "events": [], "before": [0.0, 0.0, None, 0.0], "reservation": None, "epsilon": 1.0},
        {"kind": "open"},
        {"kind": "checkpoint"},
        {"kind": "terms"},
        {"id": 1},
        [],
    ],
)
def test_sealed_nonsense_is_damage(tmp_path, said):
    path = tmp_path / "study.ledger"
    fire.filled(path, 3)
    reseal(path, {2: lambda _: said})
    with pytest.raises(DamagedLedgerError):
        PrivacyLedger.open(path)


def test_what_a_killed_process_left_beside_the_file_does_no_harm(tmp_path):
    path = tmp_path / "study.ledger"
    seal = fire.filled(path, 3).seal
    for beside in ("-journal", "-wal", "-shm"):
        for garbage in (b"", b"\0" * 512, b"left over" * 100):
            Path(f"{path}{beside}").write_bytes(garbage)
            assert PrivacyLedger.open(path).seal == seal
        Path(f"{path}{beside}").unlink(missing_ok=True)
    reserve(PrivacyLedger.open(path), 0.5)
    Path(f"{path}-journal").unlink()  # what is committed is in the file
    assert len(PrivacyLedger.open(path).entries()) == 4


@pytest.mark.slow
def test_a_restored_copy_shows_in_the_seals_of_another_process(tmp_path):
    path, old = tmp_path / "study.ledger", tmp_path / "old"
    fire.filled(path, 3)
    shutil.copy(path, old)
    reserve(PrivacyLedger.open(path), 0.5)
    command = [sys.executable, "-m", "skprivate.cli", "ledger", "verify", str(path)]
    noted = subprocess.run(command, capture_output=True, text=True).stdout.split()[-1]
    assert subprocess.run([*command, "--seal", noted], capture_output=True).returncode == 0
    shutil.copy(old, path)
    done = subprocess.run([*command, "--seal", noted], capture_output=True, text=True)
    assert done.returncode == 1 and "older copy" in done.stdout


# Checkpoints of earlier versions ------------------------------------------------------------------------------------


def written_before(path, monkeypatch, forged=False):
    """A file as earlier versions wrote it: every thousandth record says what the records before it add up to."""
    monkeypatch.setattr("skprivate.privacy.ledger._book._CHECKPOINT_EVERY", 10)
    truth = fire.filled(path, 18)
    new = []
    for found in rows(path):
        if new and len(new) % 10 == 0:
            totals = ["0" if forged else "1.5", "1E-7", "0", "0"]
            new.append(record(new[-1], {"kind": "checkpoint", "count": 6, "totals": totals, "reservations": []}))
        new.append(record(new[-1] if new else None, json.loads(found.text)))
    change(path, "DELETE FROM journal", *[("INSERT INTO journal VALUES (?, ?, ?)", one) for one in new])
    return truth


@pytest.mark.parametrize("forged", [False, True])
def test_a_checkpoint_is_passed_over(tmp_path, monkeypatch, forged):
    """What it says changes nothing: the records are added up."""
    path, twin = tmp_path / "study.ledger", tmp_path / "twin.ledger"
    truth = written_before(path, monkeypatch, forged)
    ledger = PrivacyLedger.open(path)
    kinds = [json.loads(found.text)["kind"] for found in rows(path)]
    assert [k for k, kind in enumerate(kinds) if kind == "checkpoint"] == [10, 20]
    assert len(ledger.entries()) == 18 and len(ledger.seals()) == len(kinds)
    expected = fire.filled(twin, 18)
    assert (ledger.spent, ledger.remaining) == (expected.spent, expected.remaining)
    entry = reserve(ledger, 0.5)
    ledger.close_entry(entry, epsilon=0.25, delta=0.0, rho=None, events=[])
    assert PrivacyLedger.open(path).spent[0] == expected.spent[0] + 0.25
    with pytest.raises(DamagedLedgerError):
        reserve(truth, 0.1)


@pytest.mark.parametrize("number", [0, 5, 19, 20, 21])
def test_every_record_is_checked_at_opening(tmp_path, monkeypatch, number):
    path = tmp_path / "study.ledger"
    written_before(path, monkeypatch)
    honest = path.read_bytes()
    (found,) = (one for one in rows(path) if one.number == number)
    for statement in (
        ("UPDATE journal SET text = replace(text, '1', '2') WHERE number = ?", (number,)),
        ("DELETE FROM journal WHERE number = ?", (number,)),
        ("UPDATE journal SET seal = replace(seal, ?, 'x') WHERE number = ?", (found.seal[0], number)),
    ):
        path.write_bytes(honest)
        change(path, statement)
        with pytest.raises(DamagedLedgerError):
            PrivacyLedger.open(path)


def test_an_open_entry_can_be_closed_by_anybody(tmp_path):
    path = tmp_path / "study.ledger"
    fire.filled(path, 20)
    with pytest.raises(ValueError, match="is closed"):
        PrivacyLedger.open(path).close_entry(2, epsilon=0.0, delta=0.0, rho=None, events=[])
    with pytest.raises(ValueError, match="entry must be"):
        PrivacyLedger.open(path).close_entry(99, epsilon=0.0, delta=0.0, rho=None, events=[])
    PrivacyLedger.open(path).close_entry(1, epsilon=0.0, delta=0.0, rho=None, events=[])
    assert PrivacyLedger.open(path).spent[0] == pytest.approx(9 * 0.125 + 10 * 0.0625)
    other = PrivacyLedger.open(path)
    with other.reserve(1.0) as part:
        for _ in range(12):
            reserve(PrivacyLedger.open(path), 0.01)
        reserve(pickle.loads(pickle.dumps(part)), 0.75)
    assert other.entries()[20].epsilon == 0.75


@pytest.mark.parametrize("composition", ["filter", "basic", "zcdp"])
def test_a_reopened_ledger_keeps_how_prices_add_up(tmp_path, composition):
    terms = {"epsilon": 4.0, "delta": 1e-4, "composition": composition}
    path = tmp_path / "study.ledger"
    PrivacyLedger(path, **terms)
    inside = PrivacyLedger(**terms)
    first = {"epsilon": 2.0, "delta": 8e-5} if composition == "filter" else {"epsilon": 0.1, "delta": 1e-6}
    for k in range(12):  # a first release at more than half of δ makes a "filter" a "basic" one
        price = {**(first if k == 0 else {"epsilon": 0.02, "delta": 1e-8}), "rho": 0.002}
        reserve(PrivacyLedger.open(path), **price)
        reserve(inside, **price)
        other = PrivacyLedger.open(path)
        assert (other.spent, other.remaining, other.remaining_rho) == (
            inside.spent,
            inside.remaining,
            inside.remaining_rho,
        )


def test_a_record_that_a_handle_saw_is_compared(tmp_path):
    path = tmp_path / "study.ledger"
    stored = pickle.dumps(fire.filled(path, 4))
    for _ in range(20):
        reserve(PrivacyLedger.open(path), 0.25)
    reserve(pickle.loads(stored), 0.25)
    reseal(path, {5: lambda said: {**said, "note": "another"}})
    with pytest.raises(DamagedLedgerError, match="goes on from an older copy"):
        reserve(pickle.loads(stored), 0.25)


# What a handle has seen ---------------------------------------------------------------------------------------------


def test_an_interrupted_reading_forgets_no_newer_record(tmp_path, monkeypatch):
    """Who breaks off a table of all entries still notices an older copy."""
    path, old = tmp_path / "study.ledger", tmp_path / "old"
    fire.filled(path, 8)
    shutil.copy(path, old)
    for _ in range(14):
        reserve(PrivacyLedger.open(path), 0.25)
    handle = PrivacyLedger.open(path)
    reserve(PrivacyLedger.open(path), 0.25)

    def interrupted(self, entry_before, new):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(handle._book.state), "_enter", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                handle.entries()
    shutil.copy(old, path)
    for one in (handle, pickle.loads(pickle.dumps(handle))):
        with pytest.raises(DamagedLedgerError, match="older copy"):
            reserve(one, 0.25)


def test_a_handle_that_was_handed_on_hands_on_what_it_saw(tmp_path):
    path, old = tmp_path / "study.ledger", tmp_path / "old"
    stored = pickle.dumps(fire.filled(path, 3))
    shutil.copy(path, old)
    handle = pickle.loads(stored)
    reserve(handle, 0.25)
    stored = pickle.dumps(handle)
    shutil.copy(old, path)
    with pytest.raises(DamagedLedgerError, match="older copy"):
        reserve(pickle.loads(stored), 0.25)
