"""What a ledger keeps of an estimator's parameters: enough to say what was done, and nothing that could be data."""

from __future__ import annotations

import enum
import functools
import json
import sqlite3

import numpy as np
import pytest
from helpers.every import every
from scipy import sparse
from sklearn.base import BaseEstimator

from skprivate import UserLevelMean
from skprivate.base import shown
from skprivate.privacy import PrivacyLedger

SECRET = 8675309.25


class Holder(BaseEstimator):
    def __init__(self, inner=None, size=3, ledger=None):
        self.inner, self.size, self.ledger = inner, size, ledger


class Kind(enum.StrEnum):
    FIRST = "first"


class Talkative:
    def __repr__(self):
        return f"Talkative({SECRET})"


class LoudFloat(float):
    def __repr__(self):
        return f"LoudFloat({SECRET})"


class LoudText(str):
    def __repr__(self):
        return f"LoudText({SECRET})"


@every(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (0.1, "0.1"),
        (np.float64(0.1), "0.1"),
        (np.int32(4), "4"),
        (np.bool_(True), "True"),
        ("gini", "'gini'"),
        (Kind.FIRST, "'first'"),
        ((0, 100), "(0, 100)"),
        ((5,), "(5,)"),
        ([0.5, None], "[0.5, None]"),
        (np.arange(3.0), "ndarray of shape (3,)"),
        (np.array(2.0), "ndarray of shape ()"),
        (sparse.eye_array(3, format="csr"), "csr_array of shape (3, 3)"),
        (Holder(size=7), "Holder(inner=None, size=7)"),
        (np.mean, "mean"),
        (dict, "dict"),
        (Talkative(), "Talkative"),
        (LoudFloat(2), "2.0"),
        (LoudText("x"), "'x'"),
        ("x" * 41, "str of length 41"),
        ([1, 2, 3, 4, 5], "list of length 5"),
        ([], "list of length 0"),
        (["Ada", "Grace"], "list of length 2"),
        ({"Ada": 1}, "dict of length 1"),
        ({1, 2}, "set of length 2"),
        ([(0, 1), (0, 2)], "list of length 2"),
        (10**40, "int"),
    ],
)
def test_a_parameter_as_it_is_kept(value, text):
    assert shown(value) == text


def _hiding_places():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = np.full((4, 3), SECRET)
    yield from (rows, rows[0], rows.tolist(), tuple(map(tuple, rows)), rows[0, :1].tolist() * 5, np.array(SECRET))
    yield from (pandas.DataFrame(rows), pandas.Series(rows[0]), polars.DataFrame(rows), sparse.csr_array(rows))
    yield from (
        {SECRET: 1},
        {"a": rows},
        {SECRET},
        frozenset([SECRET]),
        [rows],
        (rows, rows),
        str(rows),
        rows.tobytes(),
    )
    yield from (functools.partial(np.add, rows), Talkative(), np.ma.masked_array(rows), memoryview(rows), iter(rows))
    yield np.array([(SECRET, 1)], dtype=[("a", float), ("b", int)])[0]
    yield [{"inner": [SECRET]}]


def test_no_hiding_place_of_rows_is_written_down():
    for value in _hiding_places():
        for text in (shown(value), shown(Holder(value)), shown([value]), shown(Holder(Holder(value)))):
            assert "8675309" not in text and len(text) <= 200, (type(value), text)


@pytest.mark.filterwarnings("ignore::skprivate.user_level.TooFewUsersWarning")
def test_what_a_fit_writes_down(tmp_path):
    """The whole file of a fit whose parameters and rows hold a number that stands nowhere else."""

    class Mean(UserLevelMean):
        def __init__(self, epsilon=1.0, *, delta=1e-6, first=None, radius=1.0, random_state=None, ledger=None):
            super().__init__(epsilon, delta=delta, random_state=random_state, ledger=ledger)
            self.first, self.radius = first, radius

    X = np.full((50, 2), SECRET)
    ledger = PrivacyLedger(tmp_path / "study.ledger", epsilon=9.0, delta=1e-4)
    for value in _hiding_places():
        Mean(0.1, first=value, ledger=ledger).fit(X, user_ids=np.arange(50))
    kept = ledger.entries()[0].parameters
    assert kept["first"] == "ndarray of shape (4, 3)" and kept["epsilon"] == "0.1"
    connection = sqlite3.connect(ledger.path)
    texts = [text for (text,) in connection.execute("SELECT text FROM journal")]
    connection.close()
    assert len(texts) > 40 and not any("8675309" in text for text in texts)
    assert all(json.loads(text) for text in texts)
