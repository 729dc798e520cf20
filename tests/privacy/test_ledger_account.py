"""What releases count for in a ledger: other units, two filters, parts that are reserved, damage that is noticed."""

from __future__ import annotations

import json
import math
import pickle
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from helpers.ledger_workers import reserve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from skprivate.privacy import (
    BoundedRangeEvent,
    BudgetExceededError,
    DamagedLedgerError,
    GaussianEvent,
    LaplaceEvent,
    PrivacyLedger,
    PureEvent,
    ZeroConcentratedEvent,
    compose_epsilon,
    epsilon_of_rho,
    open_release,
    rho_of_epsilon,
)
from skprivate.privacy.ledger._costs import Cost, converted, exact, grouped

# Units --------------------------------------------------------------------------------------------------------------

USERS = {"unit": "user", "adjacency": "replace-one"}


@pytest.mark.parametrize(
    ("account", "unit", "adjacency", "steps"),
    [
        (USERS, "user", "replace-one", 1),
        (USERS, "user", "add-remove", 2),
        ({"unit": "row", "adjacency": "replace-one"}, "row", "add-remove", 2),
        ({"unit": "row", "adjacency": "replace-one"}, "user", "replace-one", 1),
        ({"unit": "row", "adjacency": "replace-one"}, "user", "add-remove", 2),
        ({"unit": "row", "adjacency": "add-remove"}, "user", "add-remove", 2),
        ({"unit": "label", "adjacency": "replace-one"}, "row", "replace-one", 1),
        ({"unit": "label", "adjacency": "replace-one"}, "row", "add-remove", 2),
        ({"unit": "label", "adjacency": "replace-one"}, "user", "add-remove", 2),
        ({**USERS, "rows_per_user": 5}, "row", "add-remove", 10),
        ({"unit": "user", "adjacency": "add-remove", "rows_per_user": 5}, "row", "add-remove", 5),
        ({"unit": "row", "adjacency": "replace-one", "public_features": True}, "label", "replace-one", 1),
        ({**USERS, "rows_per_user": 3, "public_features": True}, "label", "replace-one", 3),
    ],
)
def test_other_units_are_converted(account, unit, adjacency, steps):
    ledger = PrivacyLedger(epsilon=20.0, **account)
    reserve(ledger, 0.25, unit=unit, adjacency=adjacency)
    (entry,) = ledger.entries()
    assert entry.epsilon == pytest.approx(0.25 * steps, rel=1e-12) and entry.epsilon >= 0.25 * steps
    assert (entry.own_epsilon, entry.unit, entry.adjacency) == (0.25, unit, adjacency)
    assert bool(entry.converted) == ((unit, adjacency) != (account["unit"], account["adjacency"]))
    assert (ledger.unit, ledger.adjacency) == (account["unit"], account["adjacency"])
    ledger.increase(1, epsilon=0.5, delta=0.0, rho=None, events=[])
    ledger.close_entry(1, epsilon=0.125, delta=0.0, rho=None, events=[])
    assert ledger.spent[0] == pytest.approx(0.125 * steps, rel=1e-12)


@pytest.mark.parametrize(
    ("account", "unit", "adjacency", "reason"),
    [
        ({"unit": "row", "adjacency": "add-remove"}, "row", "replace-one", "number of units is public"),
        ({"unit": "row", "adjacency": "replace-one"}, "label", "replace-one", "public_features=True"),
        ({**USERS, "public_features": True}, "label", "replace-one", "rows_per_user"),
        (USERS, "row", "add-remove", "any number of rows"),
        ({**USERS, "rows_per_user": 9}, "row", "replace-one", "number of rows is public"),
        ({"unit": "row", "adjacency": "replace-one"}, "private row", "replace-one", "publishes"),
        (USERS, "data set", "metric: W1", "largest distance"),
        ({"unit": "row", "adjacency": "metric: km"}, "row", "replace-one", "per unit of a distance"),
        ({"unit": "row", "adjacency": "metric: km"}, "row", "metric: hours", "largest distance"),
        ({"unit": "data set", "adjacency": "replace-one"}, "row", "replace-one", "nothing is known"),
    ],
)
def test_what_does_not_follow_is_refused(account, unit, adjacency, reason):
    ledger = PrivacyLedger(epsilon=20.0, **account)
    with pytest.raises(ValueError, match=f"{reason}.*Nothing was drawn or spent"):
        reserve(ledger, 0.25, unit=unit, adjacency=adjacency)
    assert ledger.entries() == []


def test_the_first_release_sets_the_unit():
    ledger = PrivacyLedger(epsilon=1.0)
    assert (ledger.unit, ledger.adjacency) == (None, None)
    reserve(ledger, 0.25, **USERS)
    assert (ledger.unit, ledger.adjacency) == ("user", "replace-one")
    reserve(ledger, 0.25, unit="user", adjacency="add-remove")
    assert ledger.spent[0] == pytest.approx(0.75)


def test_distances_count_by_the_largest():
    ledger = PrivacyLedger(epsilon=10.0, unit="row", adjacency="replace-one")
    terms = {"epsilon": 0.01, "unit": "row", "adjacency": "metric", "metric": "km", "ledger": ledger}
    with pytest.raises(ValueError, match="largest distance"):
        open_release(**terms).laplace(0.5, sensitivity=1.0, epsilon=0.01)
    with open_release(**terms, diameter=300.0) as release:
        release.laplace(0.5, sensitivity=1.0, epsilon=0.01)
    assert ledger.spent[0] == pytest.approx(3.0) and "300 apart" in ledger.entries()[0].converted


@pytest.mark.parametrize("diameter", [-300.0, 0.0, math.nan, math.inf])
def test_no_distance_pays_back(diameter):
    ledger = PrivacyLedger(epsilon=1.0, unit="row", adjacency="replace-one")
    terms = {"unit": "row", "adjacency": "metric", "metric": "km", "diameter": diameter, "ledger": ledger}
    with pytest.raises(ValueError, match="diameter must be a positive finite number"):
        open_release(epsilon=0.5, plan=[(LaplaceEvent(0.5), 1)], **terms)
    with pytest.raises(ValueError, match="diameter must be a positive finite number"):
        reserve(ledger, 0.5, unit="row", adjacency="metric: km", diameter=diameter)
    assert ledger.entries() == []


EVENTS = {
    "laplace": (LaplaceEvent(0.5), LaplaceEvent(1.5)),
    "pure": (PureEvent(0.5), PureEvent(1.5)),
    "bounded": (BoundedRangeEvent(0.5), BoundedRangeEvent(1.5)),
    "gaussian": (GaussianEvent(3.0, 2), GaussianEvent(1.0, 2)),
    "zcdp": (ZeroConcentratedEvent(0.1), ZeroConcentratedEvent(0.9)),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_of_three_neighbours(name):
    one, three = EVENTS[name]
    found = grouped(one, 3)
    assert type(found) is type(three)
    assert compose_epsilon([(found, 1)], 1e-6) == pytest.approx(compose_epsilon([(three, 1)], 1e-6), rel=1e-9)
    assert compose_epsilon([(found, 1)], 1e-6) >= compose_epsilon([(three, 1)], 1e-6)


def test_gaussian_noise_is_converted_exactly():
    events = [{**GaussianEvent(8.0).to_dict(), "count": 4}]
    epsilon = compose_epsilon([(GaussianEvent(8.0), 4)], 1e-6)
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-4, unit="user", adjacency="add-remove", rows_per_user=3)
    reserve(ledger, epsilon, 1e-6, rho=4 / 128, events=events)
    (entry,) = ledger.entries()
    # μ = 3 · 2/8 against 2/8: the exact curve of the Gaussian mechanism, computed anew.
    mu = 0.75

    def delta(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)

    assert delta(entry.epsilon) <= 1e-6 and delta(entry.epsilon * (1 - 1e-6)) > 1e-6
    assert (entry.delta, entry.rho) == (1e-6, pytest.approx(9 * 4 / 128))
    # Of draws chosen on the way only (ε, δ) is known.
    reserve(ledger, 0.1, 1e-6, events=events, adaptive=True)
    assert ledger.entries()[1].epsilon == pytest.approx(0.3)
    assert ledger.entries()[1].delta == pytest.approx(1e-6 * (1 + math.exp(0.1) + math.exp(0.2)))


@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(0, 3), delta=st.floats(0, 0.01), steps=st.integers(2, 6))
def test_group_privacy_of_numbers_alone(epsilon, delta, steps):
    """The worst (ε, δ)-DP chain of neighbours, step by step."""
    try:
        price = converted(Cost(epsilon, delta), [], steps, adaptive=False)
    except ValueError:
        assert delta * steps * math.exp(epsilon * steps) >= 1
        return
    probability = Fraction(1, 1000)  # of an event, at the start of the chain
    start = probability
    for _ in range(steps):
        probability = probability * Fraction(math.exp(epsilon)) + Fraction(delta)
    bound = Fraction(math.exp(price.epsilon)) * start + Fraction(price.delta)
    assert probability <= bound * (1 + Fraction(1, 10**9))
    assert float(bound) <= float(probability) * (1 + 1e-6)


# Filters ------------------------------------------------------------------------------------------------------------


def fits_of(ledger, price):
    count = 0
    while True:
        try:
            reserve(ledger, **price)
        except BudgetExceededError:
            return count
        count += 1


def test_the_default_buys_what_the_better_filter_does():
    rho = rho_of_epsilon(0.5, 1e-6)
    price = {"epsilon": 0.5, "delta": 1e-6, "rho": rho}
    bought = {
        name: fits_of(PrivacyLedger(epsilon=3.0, delta=1e-5, composition=name), price)
        for name in ("filter", "basic", "zcdp")
    }
    assert bought["basic"] == 6 and bought["zcdp"] >= 29 and bought["filter"] >= 0.93 * bought["zcdp"]
    # Pure releases that ρ would not admit, by their sum.
    pure = {"epsilon": 1.0, "delta": 0.0, "rho": 0.5}
    assert fits_of(PrivacyLedger(epsilon=3.0, delta=1e-5), pure) == 3


def test_one_fit_at_the_whole_budget_is_admitted():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    reserve(ledger, 0.75, 1e-6, rho=rho_of_epsilon(1.0, 1e-6))
    assert ledger.spent == (0.75, 1e-6)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, 0.1, 1e-9)
    reserve(ledger, 0.25)
    assert ledger.remaining == (0.0, 0.0)


def test_the_two_filters_share_delta():
    """Paths that end within sums fail with δ/2, others with the other half; a ledger never gives both the whole."""
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
    reserve(ledger, 1.0, 1e-6, rho=rho_of_epsilon(1.0, 1e-6))
    with pytest.raises(BudgetExceededError, match="Plain sums would admit it"):
        reserve(ledger, 9.0, 8e-6, rho=5.0)
    reserve(ledger, 9.0, 4e-6, rho=5.0)
    limit = rho_of_epsilon(10.0, 5e-6)
    other = PrivacyLedger(epsilon=10.0, delta=1e-5)
    reserve(other, 11.0, 0.0, rho=limit)
    with pytest.raises(BudgetExceededError):
        reserve(other, 11.0, 0.0, rho=1e-9)


@pytest.mark.parametrize("composition", ["filter", "zcdp"])
def test_delta_is_not_traded_against_rho_on_the_way(composition):
    """The exact δ of an analyst who, after one Gaussian draw, takes what fails more often: ρ, or δ without a ρ."""
    budget, share = (1.0, 1e-5), 1e-5 if composition == "zcdp" else 5e-6
    whole = rho_of_epsilon(1.0, share)
    first, second = 0.6 * whole, 0.4 * whole * (1 - 1e-9)
    other = 0.99 * share  # what the first draw needs at ε = 1 is far less than the rest
    assert epsilon_of_rho(first, share - other) < 1.0
    z = np.linspace(-12, 30, 200_001)
    loss, weight = first + math.sqrt(2 * first) * z, norm.pdf(z) * (z[1] - z[0])
    mu, left = math.sqrt(2 * second), 1.0 - loss
    goes_on = norm.cdf(mu / 2 - left / mu) - np.exp(left) * norm.cdf(-mu / 2 - left / mu)
    spends = other + (1 - other) * np.maximum(-np.expm1(left), 0.0)
    assert np.sum(weight * np.maximum(goes_on, spends)) > 1.1 * share
    ledger = PrivacyLedger(epsilon=budget[0], delta=budget[1], composition=composition)
    reserve(ledger, 5.0, 0.0, rho=first)
    with pytest.raises(BudgetExceededError, match="Plain sums|must have a ρ" if composition == "zcdp" else "left"):
        reserve(ledger, 1e-9, other)
    reserve(ledger, 5.0, 0.0, rho=second)


@settings(max_examples=100, deadline=None)
@given(
    prices=st.lists(st.tuples(st.floats(0.01, 1.5), st.sampled_from([0.0, 1e-7, 1e-6]), st.booleans()), max_size=25),
    composition=st.sampled_from(["filter", "basic", "zcdp"]),
)
def test_what_was_admitted_is_within_one_filter(prices, composition):
    """Recomputed from the entries, with closed formulas of Bun and Steinke that are no tighter than ours."""
    budget = (2.0, 4e-6)
    ledger = PrivacyLedger(epsilon=budget[0], delta=budget[1], composition=composition)
    for epsilon, delta, known in prices:
        try:
            reserve(ledger, epsilon, delta, rho=epsilon**2 / 20 if known else None)
        except BudgetExceededError:
            continue
    entries = ledger.entries()
    epsilon = math.fsum(e.epsilon for e in entries)
    delta = math.fsum(e.delta for e in entries)
    rho = math.fsum(e.rho if e.rho is not None else e.epsilon**2 / 2 for e in entries)
    rest = math.fsum(0.0 if e.rho is not None else e.delta for e in entries)

    def sums(share):
        return epsilon <= budget[0] * (1 + 1e-12) and delta <= share * (1 + 1e-12)

    def zcdp(share):
        return rest == 0 and epsilon_of_rho(rho * (1 - 1e-12), share) <= budget[0] * (1 + 1e-9)

    ways = {
        "basic": [sums(budget[1])],
        "zcdp": [zcdp(budget[1])],
        "filter": [sums(budget[1] / 2), zcdp(budget[1] / 2)],
    }[composition]
    first_alone = composition == "filter" and entries and sums(budget[1])
    assert any(ways) or not entries or first_alone
    if first_alone and not any(ways):  # then the first one was beyond what ρ admits at half of δ
        first = entries[0]
        first_rho = first.rho if first.rho is not None else first.epsilon**2 / 2
        first_rest = 0.0 if first.rho is not None else first.delta
        left = budget[1] / 2
        assert first.delta > left or first_rest > 0 or epsilon_of_rho(first_rho, left) > budget[0]
    assert all(part <= whole for part, whole in zip(ledger.spent, budget, strict=True))


# Parts --------------------------------------------------------------------------------------------------------------


def test_a_reservation_holds_its_part_and_gives_back_the_rest(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=2.0, unit="row", adjacency="add-remove")
    with ledger.annotated("search").reserve(1.0) as part:
        assert ledger.remaining == (1.0, 0.0)
        reserve(part, 0.25)
        reserve(pickle.loads(pickle.dumps(part)), 0.5)
        with pytest.raises(BudgetExceededError, match="reservation 1 has"):
            reserve(part, 0.5)
        with pytest.raises(BudgetExceededError):
            reserve(ledger, 1.25)
        reserve(ledger, 0.5)
        with pytest.raises(ValueError, match="cannot be divided"), part.reserve(0.1):
            pass
    assert ledger.spent == (1.25, 0.0)
    whole, first, second, beside = ledger.entries()
    assert (whole.label, whole.epsilon, whole.note) == ("reservation", 0.75, "search") and whole.closed
    assert first.reservation == second.reservation == 1 and beside.reservation is None
    with pytest.raises(ValueError, match="is closed"):
        reserve(part, 0.1)


def test_a_reservation_that_does_not_fit_writes_nothing():
    ledger = PrivacyLedger(epsilon=2.0, unit="row", adjacency="add-remove")
    with pytest.raises(BudgetExceededError), ledger.reserve(2.5):
        raise AssertionError
    assert ledger.entries() == []
    with pytest.raises(ValueError, match="for whom"), PrivacyLedger(epsilon=1.0).reserve(0.5):
        raise AssertionError


def test_a_reservation_survives_what_goes_wrong_inside():
    ledger = PrivacyLedger(epsilon=2.0, unit="row", adjacency="add-remove")
    with pytest.raises(ZeroDivisionError), ledger.reserve(1.5) as part:
        reserve(part, 0.5)
        1 / 0  # noqa: B018
    assert ledger.spent == (0.5, 0.0)


def test_a_reservation_in_rho_holds_many_releases():
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5, unit="row", adjacency="add-remove")
    rho = rho_of_epsilon(0.5, 1e-6)
    with ledger.reserve(12 * 0.5, 12e-6, rho=12 * rho * (1 + 1e-12)) as part:
        for _ in range(12):
            reserve(part, 0.5, 1e-6, rho=rho)
    assert ledger.spent[0] < 3.0 and len(ledger.entries()) == 13


# Remarks ------------------------------------------------------------------------------------------------------------


def test_entries_say_who_and_what_for():
    from sklearn.datasets import make_regression

    from skprivate import UserLevelSGDRegressor

    X, y = make_regression(60, 3, random_state=0)
    ledger = PrivacyLedger(epsilon=4.0, delta=1e-4)
    model = UserLevelSGDRegressor(epsilon=2.0, radius=50.0, ledger=ledger.annotated("dose model", data="v2"))
    model.fit(X / 10, y, user_ids=np.arange(60))
    (entry,) = ledger.entries()
    assert (entry.note, entry.data) == ("dose model", "v2") and entry.user and entry.host
    assert entry.parameters["epsilon"] == "2.0" and "ledger" not in entry.parameters
    assert model.privacy_guarantee_.ledger_entry == f"{ledger.identity}#1"
    with pytest.raises(TypeError, match="note must be a string"):
        ledger.annotated(3)


# Damage -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=5.0, delta=1e-5, unit="row", adjacency="add-remove")
    for k in range(20):
        entry = reserve(ledger, 0.125, 1e-7, label=f"fit {k}")
        ledger.close_entry(entry, epsilon=0.0625, delta=1e-7, rho=None, events=[])
    return path


def content(path):
    ledger = PrivacyLedger.open(path)
    return ledger.seal, ledger.entries(), (ledger.epsilon, ledger.delta, ledger.unit, ledger.composition)


@pytest.mark.slow
def test_no_flipped_bit_changes_what_is_read_unnoticed(filled, tmp_path):
    rng = np.random.Generator(np.random.PCG64(0))
    original, before = filled.read_bytes(), content(filled)
    noticed = 0
    for position in rng.integers(0, 8 * len(original), 400):
        copy = tmp_path / "copy.ledger"
        data = bytearray(original)
        data[position // 8] ^= 1 << (position % 8)
        copy.write_bytes(bytes(data))
        try:
            assert content(copy) == before
        except (ValueError, OSError):
            noticed += 1
    assert noticed > 200


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal SET text = replace(text, '0.125', '0.025') WHERE number = 5",
        "DELETE FROM journal WHERE number = 5",
        "UPDATE journal SET number = number + 100 WHERE number = 40",
        "UPDATE journal SET seal = 'x' || substr(seal, 2) WHERE number = 7",
        "DELETE FROM journal",
    ],
)
def test_a_changed_record_is_noticed(filled, statement):
    before = PrivacyLedger.open(filled)
    connection = sqlite3.connect(filled)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(DamagedLedgerError, match="damaged"):
        PrivacyLedger.open(filled)
    if "40" in statement or statement == "DELETE FROM journal":  # what a handle has read it does not read again
        with pytest.raises(DamagedLedgerError):
            reserve(before, 0.1)


def test_an_older_copy_is_noticed_by_who_saw_more(filled, tmp_path):
    old = tmp_path / "old"
    shutil.copy(filled, old)
    ledger = PrivacyLedger.open(filled)
    reserve(ledger, 0.5)
    stored = pickle.dumps(ledger)
    shutil.copy(old, filled)
    for handle in (ledger, pickle.loads(stored)):
        with pytest.raises(DamagedLedgerError, match="older copy"):
            reserve(handle, 0.1)
    # It may even go on from there: the records differ.
    reserve(PrivacyLedger.open(filled), 0.25)
    for handle in (ledger, pickle.loads(stored)):
        with pytest.raises(DamagedLedgerError):
            reserve(handle, 0.1)


def test_cutting_the_end_shows_in_the_seal(filled):
    seal = PrivacyLedger.open(filled).seal
    connection = sqlite3.connect(filled)
    connection.execute("DELETE FROM journal WHERE number >= 39")
    connection.commit()
    connection.close()
    assert PrivacyLedger.open(filled).seal != seal


def test_records_are_plain_text(filled):
    connection = sqlite3.connect(filled)
    texts = [json.loads(text) for (text,) in connection.execute("SELECT text FROM journal ORDER BY number")]
    connection.close()
    assert texts[0]["kind"] == "terms" and [t["kind"] for t in texts[1:3]] == ["open", "close"]


def test_an_interrupted_reading_begins_anew(monkeypatch):
    ledger = PrivacyLedger(epsilon=2.0, unit="row", adjacency="add-remove", composition="basic")
    entry = reserve(ledger, 0.5)

    def interrupted(self, old, new):
        self.entries[new.id] = new
        raise KeyboardInterrupt

    monkeypatch.setattr(type(ledger._book.state), "_enter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.increase(entry, epsilon=1.5, delta=0.0, rho=None, events=[])
    monkeypatch.undo()
    assert ledger.spent == (1.5, 0.0) and [e.epsilon for e in ledger.entries()] == [1.5]


@pytest.mark.parametrize("composition", ["filter", "zcdp"])
@pytest.mark.parametrize("named", [{}, {"unit": "row", "adjacency": "metric: km"}])
def test_epsilon_per_distance_adds_up_in_sums_only(tmp_path, composition, named):
    """ρ grows with the square of a distance: what it implies at distance 1 does not hold at 100 times ε."""
    path = tmp_path / "study.ledger"
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-6, composition=composition, **named)
    terms = {"epsilon": 0.125, "unit": "row", "adjacency": "metric", "metric": "km"}
    for _ in range(8):
        with open_release(**terms, ledger=ledger) as release:
            release.laplace(3, sensitivity=1.0, epsilon=0.125)
    assert ledger.spent == (1.0, 0.0) and ledger.remaining == (0.0, 1e-6) and ledger.remaining_rho is None
    for handle in (ledger, PrivacyLedger.open(path)):
        with pytest.raises(BudgetExceededError):
            open_release(**terms, ledger=handle).laplace(3, sensitivity=1.0, epsilon=0.125)
    # What zCDP would have admitted is far from 100·ε at a distance of 100.
    assert compose_epsilon([(LaplaceEvent(1.0), 458)], 1e-6) > 200


def test_a_negative_zero_is_not_remembered_for_zero():
    exact.cache_clear()
    assert [str(exact(value)) for value in (-0.0, 0.0)] == ["0.0", "0.0"]
    exact.cache_clear()
