"""The console command, as a process: tables, files, exit codes, and what other programs read."""

import csv
import io
import json
import os
import shutil
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


@pytest.mark.slow
def test_both_names_of_the_command(path, capsys):
    from skprivate import __main__ as demonstration
    from skprivate import __version__

    assert demonstration.main(["ledger", "verify", path]) == cli.main(["ledger", "verify", path]) == 0
    said = capsys.readouterr().out
    assert said[: len(said) // 2] == said[len(said) // 2 :] and "2 entries" in said
    for main in (cli.main, demonstration.main):
        with pytest.raises(SystemExit) as left:
            main(["--version"])
        assert left.value.code == 0 and capsys.readouterr().out == f"skprivate {__version__}\n"
    whole = subprocess.run(
        [sys.executable, "-m", "skprivate", "ledger", "show", path], capture_output=True, encoding="utf-8"
    )
    assert whole.returncode == 0 and "spent       epsilon 1, delta 0" in whole.stdout


@pytest.mark.slow
def test_as_a_process(path, tmp_path):
    shown = run("ledger", "show", path)
    assert shown.returncode == 0 and not shown.stderr
    assert "one row (replace-one)" in shown.stdout and "spent       epsilon 1, delta 0" in shown.stdout
    assert shown.stdout.count("Mean") == 2 and "«quoted»" in shown.stdout
    assert "second·[2J·line" in shown.stdout
    absent = run("ledger", "show", str(tmp_path / "absent"))
    assert absent.returncode == 2 and "there is no privacy ledger" in absent.stderr and not absent.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["burn", "a.ledger"], 2, "invalid choice: 'burn'"),
        (["export", "--help"], 0, "--format {csv,json,jsonl}"),
        (["report", "--help"], 0, "--details"),
        (["report", "--help"], 0, "page for reviewers"),
    ],
)
def test_what_the_parser_says(arguments, code, said, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["ledger", *arguments])
    output = capsys.readouterr()
    assert left.value.code == code and said in (output.err if code else output.out)


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
    for none in ("", seal[:7], "seal of the year", seal + "0"):  # one digit is among any records
        assert cli.main(["ledger", "verify", path, "--seal", none]) == 2
        assert "--seal must be 8 to 64 hexadecimal digits" in capsys.readouterr().err
    connection = sqlite3.connect(path)
    connection.execute("UPDATE journal SET text = replace(text, '0.5', '0.1')")
    connection.commit()
    connection.close()
    assert cli.main(["ledger", "verify", path]) == 1
    assert "damaged" in capsys.readouterr().err


def test_an_empty_ledger(tmp_path, capsys):
    ledger = PrivacyLedger(tmp_path / "new.ledger", epsilon=1.0)
    assert cli.main(["ledger", "export", ledger.path, "--format", "jsonl"]) == 0
    assert not capsys.readouterr().out
    assert cli.main(["ledger", "export", ledger.path]) == 0
    assert capsys.readouterr().out.startswith("id,label,") and not capsys.readouterr().out
    assert cli.main(["ledger", "show", ledger.path]) == 0
    text = capsys.readouterr().out
    assert "not yet decided" in text and "no entries" in text
    stated = PrivacyLedger(tmp_path / "stated.ledger", epsilon=1.0, unit="user")
    assert cli.main(["ledger", "show", stated.path]) == 0
    assert "protects    one user\n" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", ["", "-journal"])
@pytest.mark.parametrize("command", ["show", "export", "verify", "report"])
def test_the_output_never_takes_the_place_of_the_ledger(path, command, suffix, tmp_path, capsys):
    before = PrivacyLedger.open(path).seals()
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "hard").hardlink_to(path)
    for output in (f"{path}{suffix}", tmp_path / "link", tmp_path / "hard"):
        assert cli.main(["ledger", command, str(path), "--output", str(output)]) == 2
        assert "another file than the ledger" in capsys.readouterr().err
    assert PrivacyLedger.open(path).seals() == before


@pytest.mark.slow
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


def test_report(path, tmp_path, capsys):
    page, twin = tmp_path / "page.html", tmp_path / "twin.json"
    assert cli.main(["ledger", "report", path, "-o", str(page), "--title", "A <study>"]) == 0
    assert cli.main(["ledger", "report", path, "--format", "json", "-o", str(twin)]) == 0
    assert not capsys.readouterr().out
    text, facts = page.read_text("utf-8"), json.loads(twin.read_text("utf-8"))
    assert text.startswith("<!DOCTYPE html>") and "A &lt;study&gt;" in text and "«quoted»" in text
    assert facts["ledgers"][0]["spent"] == {"epsilon": 1.0, "delta": 0.0} and len(facts["ledgers"][0]["entries"]) == 2
    assert path not in text + json.dumps(facts)
    assert cli.main(["ledger", "report", path, "--details", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["ledgers"][0]["path"] == path
    assert cli.main(["ledger", "report", str(tmp_path / "absent")]) == 2
    assert "there is no privacy ledger" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_needs_no_right_to_write(path, tmp_path):
    before = os.path.getmtime(path)
    os.chmod(path, 0o444)
    done = run("ledger", "report", path)
    assert done.returncode == 0 and "</html>" in done.stdout and not done.stderr
    assert os.path.getmtime(path) == before


def test_the_last_entries(path, capsys):
    assert cli.main(["ledger", "show", path, "--last", "1"]) == 0
    shown = capsys.readouterr().out
    assert "the last 1 of 2 entries:" in shown and "second" in shown and "first," not in shown
    assert "spent       epsilon 1, delta 0" in shown  # the sums are of all
    assert cli.main(["ledger", "show", path, "--last", "5"]) == 0
    assert "the last" not in capsys.readouterr().out
    for kind in ("csv", "json", "jsonl"):
        assert cli.main(["ledger", "export", path, "--format", kind, "--last", "1"]) == 0
        assert "first" not in (text := capsys.readouterr().out) and "second" in text
    for wrong in ("0", "-3", "many", "1.5"):
        with pytest.raises(SystemExit) as left:
            cli.main(["ledger", "show", path, "--last", wrong])
        assert left.value.code == 2 and "must be an integer >= 1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs pipes of a shell")
def test_a_reader_that_has_seen_enough(tmp_path):
    """`… | head -1`, with more entries than a pipe holds: no word, and the code of success."""
    ledger = PrivacyLedger(tmp_path / "long.ledger", epsilon=1e3)
    for _ in range(300):
        ledger.charge(
            "x" * 500, epsilon=0.5, delta=0.0, rho=None, unit="row", adjacency="add-remove", events=[], simulated=False
        )
    for command in (["show"], ["export", "--format", "jsonl"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "skprivate.cli", "ledger", *command, ledger.path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0
        process.stderr.close()


@pytest.mark.slow
def test_every_terminal_and_locale(path):
    """The same bytes whatever the locale says of programs' data; a table without codes that move a cursor."""
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "skprivate.cli", "ledger"]
    exported = subprocess.run([*command, "export", path, "--format", "jsonl"], capture_output=True, env=plain)
    assert exported.returncode == 0 and not exported.stderr
    assert [json.loads(line)["note"] for line in exported.stdout.decode("utf-8").splitlines()] == [
        "first, «quoted»",
        "second\x1b[2J\nline",
    ]
    shown = subprocess.run([*command, "show", path], capture_output=True, env={**plain, "PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0 and b"\\xabquoted\\xbb" in shown.stdout and b"\x1b" not in shown.stdout
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    on_a_terminal = {**plain, "PYTHONIOENCODING": "utf-8"}
    assert subprocess.run([*command, "verify", path], stdout=theirs, env=on_a_terminal).returncode == 0
    os.close(theirs)
    assert b"\x1b" not in os.read(ours, 10_000)
    os.close(ours)


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_jq_reads_what_is_exported(path, tmp_path):
    def jq(query, kind):
        assert cli.main(["ledger", "export", path, "--format", kind, "-o", str(tmp_path / kind)]) == 0
        done = subprocess.run(["jq", "-c", query, str(tmp_path / kind)], capture_output=True, check=True)
        return done.stdout.decode().splitlines()

    assert jq("[.id, .note, .events[0].event, .parameters.epsilon]", "jsonl") == [
        '[1,"first, «quoted»","LaplaceEvent","0.5"]',
        '[2,"second\\u001b[2J\\nline","LaplaceEvent","0.5"]',
    ]
    assert jq("[.spent.epsilon == 1, (.entries | length)]", "json") == ["[true,2]"]


def test_all_that_an_entry_holds_is_exported(tmp_path):
    pandas, np = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    from skprivate import UserLevelMean

    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=3.0, delta=1e-5).annotated("dose, final", data="sha256:12ab")
    X = np.random.RandomState(0).uniform(size=(500, 2))
    model = UserLevelMean(epsilon=0.5, delta=1e-6, ledger=ledger).fit(X, user_ids=np.arange(500))
    for kind in ("csv", "json", "jsonl"):
        assert cli.main(["ledger", "export", str(path), "--format", kind, "-o", str(tmp_path / kind)]) == 0
    whole = json.loads((tmp_path / "json").read_text("utf-8"))
    (line,) = (tmp_path / "jsonl").read_text("utf-8").splitlines()
    assert whole["entries"] == [json.loads(line)]
    (entry,) = whole["entries"]
    row = pandas.read_csv(tmp_path / "csv", keep_default_na=False).iloc[0]
    assert set(row.index) == set(entry) == set(PrivacyLedger.open(path).to_frame().reset_index().columns)
    for name in ("user", "host", "note", "data", "label", "opened", "closed", "unit", "adjacency"):
        assert row[name] == entry[name] and entry[name]
    assert (entry["note"], entry["data"], entry["label"]) == ("dose, final", "sha256:12ab", "UserLevelMean")
    assert json.loads(row["events"]) == entry["events"] and entry["events"][0]["event"]
    assert json.loads(row["parameters"]) == entry["parameters"] and entry["parameters"]["epsilon"] == "0.5"
    assert model.privacy_guarantee_.ledger_entry == f"{whole['identity']}#{entry['id']}"
    assert entry["epsilon"] == model.privacy_guarantee_.epsilon


def test_a_ledger_that_a_fit_is_writing_can_be_read(path, capsys):
    ledger = PrivacyLedger.open(path)
    with ledger._book.transaction(write=True):
        assert cli.main(["ledger", "show", path]) == 0
    assert "Mean" in capsys.readouterr().out
    with open_release(epsilon=0.5, unit="row", adjacency="replace-one", ledger=ledger, label="Running") as release:
        release.laplace(0.25, sensitivity=0.01, epsilon=0.25)
        assert cli.main(["ledger", "show", path]) == 0
        assert "open" in capsys.readouterr().out.splitlines()[-1]


def test_a_table_neither_moves_the_cursor_nor_promises_more_than_is_left(tmp_path, capsys):
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=1.0, unit="row", adjacency="add-remove")
    label = "Mean\x1b[2J\u202e"
    with open_release(epsilon=0.1234561, unit="row", adjacency="add-remove", ledger=ledger, label=label) as release:
        release.laplace(0.0, sensitivity=1.0, epsilon=0.1234561)
    assert cli.main(["ledger", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\u202e" not in shown and "Mean·[2J" in shown
    assert "left        epsilon 0.876543," in shown and "spent       epsilon 0.123457," in shown
