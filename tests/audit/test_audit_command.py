"""The command that audits scores in a CSV file."""

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from helpers.pairwise import pairwise

from skprivate import cli


def scores_file(path, gap, n=2000, seed=0, header=("score", "member")):
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(zip(rng.laplace(size=n) + gap * member, member.astype(int), strict=True))
    return str(path)


def test_command(tmp_path, capsys):
    leaky, sound = scores_file(tmp_path / "a.csv", 5.0), scores_file(tmp_path / "b.csv", 0.0)
    for design in ("one-run", "independent"):
        assert cli.main(["audit", leaky, "--design", design, "--epsilon", "1", "--format", "json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert found["refuted"] and found["epsilon_lower_bound"] > 1 and found["design"] == design
        assert cli.main(["audit", sound, "--design", design, "--epsilon", "1", "--delta", "1e-5"]) == 0
        assert "not refuted" in capsys.readouterr().out
    target = tmp_path / "out.json"
    assert cli.main(["audit", sound, "--design", "one-run", "--epsilon", "1", "-o", str(target)]) == 0
    assert "not refuted" in target.read_text()


@pytest.mark.parametrize(
    ("encoding", "delimiter", "end"),
    pairwise(product(["utf-8", "utf-8-sig", "utf-16"], [",", ";", "\t", "|", ", ", " ; "], ["\n", "\r\n"])),
)
def test_tables_as_programs_write_them(tmp_path, capsys, encoding, delimiter, end):
    plain = scores_file(tmp_path / "plain.csv", 5.0, n=200)
    rows = [row.split(",") for row in Path(plain).read_text().split()]
    other = tmp_path / "other.csv"
    other.write_bytes(end.join(map(delimiter.join, [*rows, []])).encode(encoding))
    said = []
    for path in (plain, other):
        assert cli.main(["audit", str(path), "--design", "one-run", "--epsilon", "1"]) in (0, 1)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (None, [], "No such file"),
        ("a,b\n1,2\n", [], "'score' is missing"),
        ("score,member\n1,0\nsecret,1\n", [], "row 3 must hold a number"),
        ("score,member\n1,0\ninf,1\n", [], "row 3 must hold a finite number"),
        ("score,member\n1,0\n2,perhaps\n", [], "row 3"),
        ("score;member\n1,5;0\n", [], "row 2 must hold a number with a decimal point in 'score'"),
        ("score;member\n1,5;0\n", [], "as read with the delimiter ';'"),
        ("points;member\n1;0\n", [], "'score' is missing, as read with the delimiter ';'"),
        ("points\tmember\n1\t0\n", [], "'score' is missing, as read with the delimiter '\\t'"),
        (b"\x80\x81score,member\n1,0\n", [], "must be encoded in UTF-8, or in UTF-16 with a byte order mark"),
        (b"\xff\xfes\x00c\x00", [], "'score' is missing"),
        ("score,member\n1,1\n2,1\n", [], "both members and non-members"),
        ("score,member\n1,1\n2,0\n", ["--epsilon", "-1"], "--epsilon must be"),
        ("score,member\n1,1\n2,0\n", ["--p-member", "0.2", "--design", "independent"], "--p-member belongs"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, capsys, rows, more, message):
    path = tmp_path / "scores.csv"
    if rows is not None:
        path.write_bytes(rows if isinstance(rows, bytes) else rows.encode())
    assert cli.main(["audit", str(path), "--design", "one-run", "--epsilon", "1", *more]) == 2
    said = capsys.readouterr().err
    assert message in said and "secret" not in said and "perhaps" not in said


def test_design_must_be_stated(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["audit", scores_file(tmp_path / "a.csv", 0.0), "--epsilon", "1"])
    assert stop.value.code == 2 and "--design" in capsys.readouterr().err
