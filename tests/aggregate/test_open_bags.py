"""Bags that rows are added to: those of all rows at once, to the last bit, released once and never shown before."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    RandomBagClassifier,
    RandomBagRegressor,
    make_curated_bags,
)
from skprivate.aggregate import OpenCuratedBags, _open_bags
from skprivate.partitions import Blocks
from skprivate.privacy import BudgetExceededError, PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
RNG = public_generator(0)
N = 500
X = pd.DataFrame(
    {
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(40, 10, size=N)),
        "place": RNG.choice(["a", "b", "c"], size=N, p=[0.9, 0.09, 0.01]),
        "few": RNG.integers(0, 4, size=N),
    }
)
LABELS = {
    "two": RNG.choice(["no", "yes"], size=N),
    "three": RNG.choice(["no", "yes", "perhaps"], size=N),
    "numbers": RNG.normal(size=N) * 10.0 ** RNG.integers(-3, 4, size=N),
    "whole": RNG.integers(-5, 2**60, size=N),
}
ASKED = {
    "two": {"classes": ("no", "yes")},
    "three": {"classes": ("no", "yes", "perhaps")},
    "numbers": {"label_bounds": (-10.0, 500.0)},
    "whole": {"label_bounds": (0, 2**60)},
}


def pieces(n_pieces):
    return list(pairwise(np.linspace(0, N, n_pieces + 1).astype(int)))


@pytest.mark.parametrize("n_pieces", [1, 7])
@pytest.mark.parametrize("min_size", [1, 20])
@pytest.mark.parametrize("labels", LABELS)
def test_the_bags_of_all_rows_at_once(labels, min_size, n_pieces):
    check_pieces(labels, min_size, n_pieces)


def test_many_pieces_some_of_them_empty():
    check_pieces("two", 20, 600)


def check_pieces(labels, min_size, n_pieces):
    y, terms = LABELS[labels], {"epsilon": 0.7, "min_size": min_size, "random_state": 3}
    bags = OpenCuratedBags(X, 2, **ASKED[labels])
    for start, stop in reversed(pieces(n_pieces)):
        assert bags.add(X[start:stop], y[start:stop]) is bags
    assert bags.n_samples == N
    own = {"classes": None, **ASKED[labels]}
    assert bags.release(**terms).to_dict() == make_curated_bags(X, y, 2, **own, **terms).to_dict()


def test_rows_in_blocks_are_added():
    rows = X.assign(y=LABELS["two"])
    bags = OpenCuratedBags(X, classes=("no", "yes")).add(
        Blocks([rows[:100], rows[100:100], rows[100:300]]), "y"
    )
    bags.add(X[300:], LABELS["two"][300:])
    terms = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    there = make_curated_bags(X, LABELS["two"], classes=("no", "yes"), **terms)
    assert bags.release(**terms).to_dict() == there.to_dict()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 40), max_size=5), st.randoms(use_true_random=False))
def test_any_pieces_in_any_order(cuts, random):
    rows = np.array([[random.randrange(3), random.randrange(4)] for _ in range(40)])
    y = np.array([random.randrange(-2, 9) for _ in range(40)])
    order = random.sample(range(40), 40)
    bags = OpenCuratedBags(rows, classes=(0, 1), categorical_features="all")
    for part in np.split(np.array(order), sorted(cuts)):
        bags.add(rows[part], y[part])
    terms = {"epsilon": 1.0, "random_state": 1}
    there = make_curated_bags(rows, y, classes=(0, 1), categorical_features="all", **terms)
    assert bags.release(**terms).to_dict() == there.to_dict()


def test_bins_stay_those_of_the_opening():
    bags = OpenCuratedBags(X[["age"]], "singles", classes=(0, 1), n_bins=4)
    bags.add(pd.DataFrame({"age": [1e9, -1e9, np.nan]}), [1, 1, 0])
    found = bags.release(1.0, random_state=0)
    there = make_curated_bags(X[["age"]], LABELS["two"], "singles", n_bins=4)
    assert found.columns == there.columns
    assert found.tables[0].counts.tolist() == [1, 1, 1] and found.n_samples == 3


def opened():
    return OpenCuratedBags(X, classes=("no", "yes")).add(X, LABELS["two"])


def test_released_once():
    bags = opened()
    ledger = PrivacyLedger(epsilon=1.5, unit="label", simulation=True)
    bags.release(1.0, random_state=0, ledger=ledger)
    for again in (
        lambda: bags.release(0.1, random_state=0),
        lambda: bags.add(X, LABELS["two"]),
        lambda: bags.n_samples,
    ):
        with pytest.raises(RuntimeError, match="are released"):
            again()
    assert len(ledger.entries()) == 1 and repr(bags) == "OpenCuratedBags(6 feature sets, released)"
    assert not any(isinstance(value, np.ndarray) for value in vars(bags).values())


def test_rows_that_are_read_during_a_release_do_not_bring_the_sums_back(monkeypatch):
    """Another thread releases while `add` reads its rows: what is released stays so, and the rows are refused."""
    bags = opened()
    read = _open_bags.encode_known

    def slowly(*args):
        other = threading.Thread(target=bags.release, args=(1.0,), kwargs={"random_state": 0})
        other.start()
        other.join()
        return read(*args)

    monkeypatch.setattr(_open_bags, "encode_known", slowly)
    with pytest.raises(RuntimeError, match="are released"):
        bags.add(X, LABELS["two"])
    with pytest.raises(RuntimeError, match="are released"):
        bags.release(1.0, random_state=0)


def test_threads_release_once_and_lose_no_rows():
    bags = OpenCuratedBags(X, "singles", classes=("no", "yes"))
    ledger = PrivacyLedger(epsilon=50.0, unit="label", simulation=True)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: bags.add(X, LABELS["two"]), range(24)))
        assert bags.n_samples == 24 * N
        found = [pool.submit(bags.release, 1.0, random_state=0, ledger=ledger) for _ in range(8)]
    assert sum(one.exception() is None for one in found) == 1
    assert len(ledger.entries()) == 1


def test_what_spends_nothing_leaves_them_open():
    bags = opened()
    ledger = PrivacyLedger(epsilon=0.5, unit="label", simulation=True)
    with pytest.raises(BudgetExceededError):
        bags.release(1.0, random_state=0, ledger=ledger)
    for terms, message in [
        ({"epsilon": None}, "epsilon must be a positive number, got None"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": 0.4, "min_size": 0}, "min_size must be"),
        ({"epsilon": 0.4, "min_size": N + 1}, "min_size"),
        ({"epsilon": 0.4, "mechanism": "gaussian"}, "delta > 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            bags.release(**terms, random_state=0, ledger=ledger)
    assert not ledger.entries()
    bags.release(0.4, random_state=0, ledger=ledger)
    assert len(ledger.entries()) == 1


def test_a_draw_that_fails_is_not_repeated(monkeypatch):
    """Paid is paid: what was drawn for, and lost, cannot be drawn for once more."""
    from skprivate.aggregate._label_noise import LabelNoise

    bags = opened()
    monkeypatch.setattr(LabelNoise, "draw", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bags.release(1.0, random_state=0)
    with pytest.raises(RuntimeError, match="are released"):
        bags.release(1.0, random_state=0)


@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_sums_without_noise_do_not_leave(leave):
    with pytest.raises(TypeError, match="without noise"):
        leave(opened())


def test_nothing_is_shown():
    first, second = opened(), OpenCuratedBags(X, classes=("no", "yes")).add(X, ["no"] * N)
    assert (
        repr(first)
        == repr(second)
        == str(second)
        == "OpenCuratedBags(6 feature sets, 500 rows, not released)"
    )
    assert {name for name in dir(first) if not name.startswith("_")} == {"add", "n_samples", "release"}


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X.assign(place="new"), LABELS["two"], "column 'place' of X has values"),
        (X[["age", "few", "place"]], LABELS["two"], "in this order"),
        (X, LABELS["two"][:-1], "one label per row"),
        (Blocks([X.assign(y="no"), X.assign(y="no", place="new")]), "y", "column 'place' of X has values"),
        (Blocks([X.assign(y="no")]), "z", "no column 'z'"),
    ],
    ids=["category", "order", "length", "block", "column"],
)
def test_rows_that_are_refused_add_nothing(rows, labels, message):
    bags = opened()
    with pytest.raises(ValueError, match=message):
        bags.add(rows, labels)
    there = make_curated_bags(X, LABELS["two"], classes=("no", "yes"), epsilon=1.0, random_state=0)
    assert bags.release(1.0, random_state=0).to_dict() == there.to_dict()


@pytest.mark.parametrize("terms", [{}, {"classes": (0, 1), "label_bounds": (0, 1)}])
def test_what_labels_can_be_is_said_at_the_opening(terms):
    with pytest.raises(ValueError, match="give classes for class labels, or label_bounds"):
        OpenCuratedBags(X, **terms)


@pytest.mark.parametrize("empty", [X[:0], X[[]]])
def test_an_opening_without_features(empty):
    with pytest.raises(ValueError, match="at least one row and one column"):
        OpenCuratedBags(empty, classes=(0, 1))


@pytest.mark.parametrize(
    "model", [CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, RandomBagRegressor]
)
def test_no_model_spends_piece_by_piece(model):
    assert not hasattr(model, "partial_fit")
