"""The console command, as a process: tables, files, exit codes, and what other programs read."""

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys

import pytest

from skprivate import cli
from skprivate.privacy import PrivacyLedger, open_release


@pytest.fixture
def path(tmp_path):
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=3.0, delta=1e-5)
    for note in ("first, «quoted»", "second\x1b[2J\nline"):
        with open_release(
            epsilon=0.5,
            unit="row",
            adjacency="replace-one",
            ledger=ledger.annotated(note),
            label="Mean",
            parameters={"epsilon": "0.5"},
        ) as release:
            release.laplace(0.25, sensitivity=0.01, epsilon=0.5)
    return ledger.path


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "skprivate.cli", *arguments], capture_output=True, text=True, encoding="utf-8"
    )


def test_as_a_process(path, tmp_path):
    shown = run("ledger", "show", path)
    assert shown.returncode == 0 and not shown.stderr
    assert "one row (replace-one)" in shown.stdout and "spent       epsilon 1, delta 0" in shown.stdout
    assert shown.stdout.count("Mean") == 2 and "«quoted»" in shown.stdout
    assert "second·[2J·line" in shown.stdout
    absent = run("ledger", "show", str(tmp_path / "absent"))
    assert absent.returncode == 2 and "there is no privacy ledger" in absent.stderr and not absent.stdout
    wrong = run("ledger", "burn", path)
    assert wrong.returncode == 2 and "invalid choice: 'burn'" in wrong.stderr
    helped = run("ledger", "export", "--help")
    assert helped.returncode == 0 and "--format {csv,json,jsonl}" in helped.stdout


def test_exports_are_read_by_others(path, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    for kind in ("csv", "json", "jsonl"):
        assert cli.main(["ledger", "export", path, "--format", kind, "-o", str(tmp_path / kind)]) == 0
    entries = PrivacyLedger.open(path).entries()
    whole = json.loads((tmp_path / "json").read_text("utf-8"))
    assert [entry["note"] for entry in whole["entries"]] == [entry.note for entry in entries]
    assert whole["spent"] == {"epsilon": 1.0, "delta": 0.0} and whole["unit"] == "row"
    lines = pandas.read_json(tmp_path / "jsonl", lines=True)
    assert lines["epsilon"].tolist() == [0.5, 0.5]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv").read_text("utf-8"))))
    assert json.loads(rows[0]["events"]) == list(entries[0].events) and rows[0]["note"] == "first, «quoted»"
    assert pandas.read_csv(tmp_path / "csv")["id"].tolist() == [1, 2]
    assert not capsys.readouterr().out


def test_terms_are_exported_and_dry_runs_are_called_so(tmp_path, capsys):
    terms = {"dry_run": True, "rows_per_user": 4, "public_features": True}
    ledger = PrivacyLedger(tmp_path / "dry.ledger", epsilon=1.0, unit="user", **terms)
    assert cli.main(["ledger", "show", ledger.path]) == 0
    assert "dry runs, nothing to be released" in capsys.readouterr().out
    assert cli.main(["ledger", "export", ledger.path, "--format", "json"]) == 0
    assert terms.items() <= json.loads(capsys.readouterr().out).items()


def test_verify(path, capsys):
    seal = PrivacyLedger.open(path).seal
    assert cli.main(["ledger", "verify", path]) == 0 and seal in capsys.readouterr().out
    assert cli.main(["ledger", "verify", path, "--seal", seal[:12].upper()]) == 0
    assert cli.main(["ledger", "verify", path, "--seal", "0" * 64]) == 1
    assert "older copy" in capsys.readouterr().out
    connection = sqlite3.connect(path)
    connection.execute("UPDATE journal SET text = replace(text, '0.5', '0.1')")
    connection.commit()
    connection.close()
    assert cli.main(["ledger", "verify", path]) == 1
    assert "damaged" in capsys.readouterr().err


def test_an_empty_ledger(tmp_path, capsys):
    ledger = PrivacyLedger(tmp_path / "new.ledger", epsilon=1.0)
    assert cli.main(["ledger", "show", ledger.path]) == 0
    text = capsys.readouterr().out
    assert "not yet decided" in text and "no entries" in text


@pytest.mark.parametrize("suffix", ["", "-journal"])
@pytest.mark.parametrize("command", ["show", "export", "verify"])
def test_the_output_never_takes_the_place_of_the_ledger(path, command, suffix, tmp_path, capsys):
    before = PrivacyLedger.open(path).seals()
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "hard").hardlink_to(path)
    for output in (f"{path}{suffix}", tmp_path / "link", tmp_path / "hard"):
        assert cli.main(["ledger", command, str(path), "--output", str(output)]) == 2
        assert "another file than the ledger" in capsys.readouterr().err
    assert PrivacyLedger.open(path).seals() == before


def test_notes_in_no_encoding_are_shown_as_they_are(tmp_path, capsys):
    path = tmp_path / "odd.ledger"
    ledger = PrivacyLedger(path, epsilon=1.0).annotated("caf\udce9")
    with open_release(epsilon=0.5, unit="row", adjacency="add-remove", ledger=ledger) as release:
        release.laplace(0.0, sensitivity=1.0, epsilon=0.5)
    for command in (["show"], ["export", "--format", "json"], ["export"]):
        output = tmp_path / "out.txt"
        assert cli.main(["ledger", *command, str(path), "--output", str(output)]) == 0
        assert r"caf\udce9" in output.read_text(encoding="utf-8")
    for encoding in ("ascii", "utf-8"):
        shown = subprocess.run(
            [sys.executable, "-m", "skprivate.cli", "ledger", "show", str(path)],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert shown.returncode == 0 and rb"caf\udce9" in shown.stdout
