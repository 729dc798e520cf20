"""Others' releases: functions, objects, recorded outputs, and the command that reads a CSV."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from skprivate import cli
from skprivate.audit import audit_function, audit_outputs
from skprivate.audit.claims._outputs import last_bit, table


class Laplace:
    """A function of one number with Laplace noise on a fine grid, or as it comes."""

    def __init__(self, scale=1.0, grid=2.0**-20, seed=0):
        self.scale, self.grid, self.rng = scale, grid, np.random.default_rng(seed)

    def __call__(self, x):
        noisy = x + self.rng.laplace(scale=self.scale)
        return np.rint(noisy / self.grid) * self.grid if self.grid else noisy


class Peer:
    """Has fit and an epsilon, and nothing else of scikit-learn."""

    def __init__(self, epsilon, noise=1.0):
        self.epsilon, self.noise = epsilon, noise

    def fit(self, X, y):
        rng = np.random.default_rng()
        self.total_ = float(np.rint((np.sum(y) + rng.laplace(scale=self.noise / self.epsilon)) * 1024) / 1024)
        self.private = np.sum(y)


def test_sound_and_broken_functions():
    assert not audit_function(Laplace(), 0.0, 1.0, epsilon=1.0, random_state=0).violated
    found = audit_function(Laplace(0.4), 0.0, 1.0, epsilon=1.0, n_runs=2000, random_state=0)
    assert found.violated and 1.0 < found.epsilon_lower_bound < 2.5
    assert "VIOLATED" in str(found) and "2000 runs" in str(found)


def test_floating_point_noise_is_found_by_its_holes():
    found = audit_function(Laplace(grid=0.0), 0.0, 1.0, epsilon=1.0, n_runs=2000, random_state=0)
    assert found.violated and found.view == "last digit of [0]" and found.epsilon_lower_bound > 2
    assert last_bit(np.array([1.0, 3.0, 0.75, 2.0**-1074, 0.0])).tolist() == [0, 0, -2, -1074, 2000]


def test_objects_with_fit_and_an_epsilon():
    X = np.zeros((5, 1))
    y, other = np.zeros(5), np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    # Its noise is not seeded: refuted by chance once in a million runs.
    sound = audit_function(Peer(1.0), (X, y), (X, other), random_state=0, confidence=1 - 1e-6)
    assert not sound.violated and sound.claimed_epsilon == 1.0 and sound.name == "Peer"
    assert audit_function(Peer(1.0, noise=0.2), (X, y), (X, other), random_state=0).violated
    with pytest.raises(ValueError, match="claim"):
        audit_function(lambda x: x, 0.0, 1.0)
    with pytest.raises(TypeError, match="callable"):
        audit_function(3, 0.0, 1.0, epsilon=1.0)


def test_outputs_of_any_shape():
    rng = np.random.default_rng(0)
    side = rng.random(400) < 0.5
    kinds = {
        "mapping": [{"a": [1.0, 2.0], "b": rng.normal() + 9.0 * s} for s in side],
        "length": [np.zeros(3 + s) for s in side],
        "words": ["yes" if s else "no" for s in side],
        "not finite": [np.nan if s else 0.0 for s in side],
    }
    for name, outputs in kinds.items():
        for design in ("coins", "groups"):
            found = audit_outputs(outputs, side, epsilon=1.0, design=design, random_state=0)
            assert found.violated, (name, design)
    values, names = table([{"a": 1.0}, {"b": 2.0}], np.array([True, False]))
    assert names == [".a[0]", "length of .a"] and values[1, 1] == 0
    with pytest.raises(ValueError, match="design must be 'coins' or 'groups'"):
        audit_outputs([0.0] * 50, np.arange(50) % 2, epsilon=1.0, design="any")
    with pytest.raises(ValueError, match="membership"):
        audit_outputs([0.0] * 50, np.zeros(50), epsilon=1.0, design="coins")


def alarms(runs, design, delta, confidence, seed):
    """False alarms about the tight mechanism for pure ε = 1, randomized response, among other numbers."""
    rng = np.random.default_rng(seed)
    found = 0
    for run in range(runs):
        side = rng.random(200) < 0.5 if design == "coins" else np.arange(200) < 60
        flip = rng.random(200) < 1 / (1 + np.e)
        outputs = np.column_stack([side ^ flip, rng.integers(0, 3, 200), rng.normal(size=200)])
        claim = {"epsilon": 1.0, "delta": delta, "design": design, "confidence": confidence}
        found += audit_outputs(list(outputs), side, random_state=run, **claim).violated
    return found


@pytest.mark.parametrize("design", ["coins", "groups"])
def test_false_alarms(design):
    assert alarms(60, design, 0.0, 0.9, 1) <= binom.isf(1e-7, 60, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("design", ["coins", "groups"])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_false_alarms_in_many_null_outputs(design, delta):
    assert alarms(400, design, delta, 0.95, 2) <= binom.isf(1e-7, 400, 0.05)


# -- the command --------------------


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", ", ", " ; "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
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
        ("score,member\n1,1\n2,0\n", ["--coin", "0.2", "--design", "independent"], "--coin belongs"),
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
