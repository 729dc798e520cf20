"""A ledger's total is what `PrivacyGuarantee.compose` makes of its releases, or an upper bound that says why.

Three things differ, each to the safe side. Sums are exact in decimals, where `compose` rounds floats up. `compose` is
told all plans beforehand, so their events compose to less than the sum; a ledger lets each plan depend on earlier
results, for which sums and ρ are filters and the composition is none. And a filter in ρ states its own share of δ.
"""

from __future__ import annotations

import math
import warnings
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.privacy import (
    BudgetExceededError,
    GaussianEvent,
    LaplaceEvent,
    PrivacyLedger,
    ZeroConcentratedEvent,
    compose_epsilon,
    open_release,
)
from skprivate.privacy._events import count_events
from skprivate.privacy.ledger import Cost

SHARES = st.floats(0.01, 0.6)
KINDS = ("pure", "two pure", "gaussian", "concentrated", "mixed", "on the way")
UNITS = st.sampled_from([("user", "replace-one"), ("user", "add-remove"), ("row", "add-remove")])


def release(ledger, kind, share, unit, adjacency):
    """One release of a kind; its guarantee."""
    plans = {
        "pure": [(LaplaceEvent(share), 1)],
        "two pure": [(LaplaceEvent(share / 2), 1), (LaplaceEvent(share / 3), 1)],
        "gaussian": [(GaussianEvent(6 / share), 2)],
        "concentrated": [(ZeroConcentratedEvent(share**2 / 40, "discrete Gaussian"), 3)],
        "mixed": [(GaussianEvent(9 / share), 1), (LaplaceEvent(share / 3), 1)],
        "on the way": [],
    }
    delta = 0.0 if "pure" in kind else 1e-6
    terms = {"unit": unit, "adjacency": adjacency, "ledger": ledger, "random_state": None}
    with open_release(epsilon=2 * share, delta=delta, plan=plans[kind], **terms) as one:
        if kind == "on the way":
            for _ in range(3):
                one.laplace(0.0, sensitivity=1.0, epsilon=share / 4)
    return one.close()


def fill(composition, mix, **account):
    ledger = PrivacyLedger(epsilon=6.0, delta=1e-3, composition=composition, rows_per_user=2, **account)
    said = []
    for kind, share, unit in mix:
        try:
            said.append(release(ledger, kind, share, *unit))
        except BudgetExceededError:
            continue
    return ledger, said


MIXES = st.lists(st.tuples(st.sampled_from(KINDS), SHARES, UNITS), min_size=1, max_size=7)
#: Releases for the account's own unit.
OWN = st.lists(st.tuples(st.sampled_from(KINDS), SHARES, st.just(("user", "add-remove"))), min_size=1, max_size=7)


@settings(max_examples=60, deadline=None)
@given(MIXES)
def test_sums_are_those_of_the_entries_exactly(mix):
    ledger, said = fill("basic", mix, unit="user", adjacency="replace-one")
    entries = ledger.entries()
    closed = [entry for entry in entries if entry.closed]  # the others were refused a second draw
    assert len(closed) == len(said)
    with localcontext(prec=400):
        epsilon = sum((Decimal(repr(entry.epsilon)) for entry in entries), Decimal())
        delta = sum((Decimal(repr(entry.delta)) for entry in entries), Decimal())
        for total, spent in ((epsilon, ledger.spent[0]), (delta, ledger.spent[1])):
            assert Decimal(repr(spent)) >= total
            assert spent == 0 or Decimal(repr(math.nextafter(spent, -1.0))) < total
    for entry, guarantee in zip(closed, said, strict=True):
        assert (entry.own_epsilon, entry.own_delta) == (guarantee.epsilon, guarantee.delta)
        assert entry.converted or (entry.epsilon, entry.delta) == (guarantee.epsilon, guarantee.delta)
        assert entry.epsilon >= guarantee.epsilon * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(OWN)
def test_composition_of_all_releases_is_never_above_the_sum(mix):
    ledger, said = fill("basic", mix, unit="user", adjacency="add-remove")
    if not said:
        return
    together = said[0].compose(*said[1:])
    epsilon, delta = ledger.spent
    assert together.epsilon <= epsilon * (1 + 1e-12)
    assert together.delta == pytest.approx(delta, rel=1e-12, abs=0)
    # Where nothing is known of the events, or draws were chosen on the way, the two are the same sum.
    if any(one.adaptive for one in said) or all(one.delta == 0 for one in said):
        assert together.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert together.epsilon <= compose_epsilon(count_events(pair for one in said for pair in one.events), 0.0) * (
        1 + 1e-12
    )


@settings(max_examples=60, deadline=None)
@given(OWN, st.sampled_from(["filter", "zcdp"]))
def test_a_filter_in_rho_is_never_below_the_composition_at_its_delta(mix, composition):
    """ρ of every entry adds up; what it is worth is one of the bounds that compositions are the least of."""
    ledger, said = fill(composition, mix, unit="user", adjacency="add-remove")
    if not said:
        return
    epsilon, delta = ledger.spent
    entries = ledger.entries()
    sums = math.fsum(entry.epsilon for entry in entries), math.fsum(entry.delta for entry in entries)
    if (epsilon, delta) != pytest.approx(sums, rel=1e-12):
        events = count_events(pair for one in said for pair in one.events)
        rho = math.fsum(entry.rho for entry in entries)
        assert rho == pytest.approx(math.fsum(event.rho * count for event, count in events.items()), rel=1e-9)
        assert compose_epsilon(events, delta) <= epsilon * (1 + 1e-12)
        assert delta == (5e-4 if composition == "filter" else 1e-3)
    else:
        assert said[0].compose(*said[1:]).epsilon <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("steps", [2, 4])
def test_converted_prices_add_up_like_any_others(steps):
    ledger = PrivacyLedger(
        epsilon=50.0, delta=1e-3, rows_per_user=steps, unit="user", adjacency="add-remove", composition="basic"
    )
    for _ in range(3):
        release(ledger, "pure", 0.5, "row", "add-remove")
    assert ledger.spent[0] == pytest.approx(1.5 * steps, rel=1e-12) and ledger.spent[0] >= 1.5 * steps


@pytest.mark.parametrize("lower", [{"epsilon": 0.4}, {"delta": 0.0}, {"rho": 0.01}])
def test_an_open_release_cannot_be_made_cheaper(lower):
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3, unit="row", adjacency="add-remove")
    price = {"epsilon": 0.5, "delta": 1e-6, "rho": 0.1}
    entry = ledger.charge("one", **price, unit="row", adjacency="add-remove", events=[], simulated=False)
    before = ledger.spent
    with pytest.raises(ValueError, match="must cost at least what was charged"):
        ledger.increase(entry, **{**price, **lower}, events=[])
    assert ledger.spent == before and ledger.entries()[0].cost == (0.5, 1e-6, 0.1, 0.0)
    ledger.increase(entry, **{**price, "epsilon": 0.6}, events=[])
    assert ledger.entries()[0].epsilon == 0.6


def test_a_converted_release_cannot_be_made_cheaper():
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-2, unit="row", adjacency="replace-one", composition="basic")
    events = [{**GaussianEvent(5.0).to_dict(), "count": 1}]
    price = {"epsilon": compose_epsilon([(GaussianEvent(5.0), 1)], 1e-6), "delta": 1e-6, "rho": 0.02}
    entry = ledger.charge("one", **price, unit="row", adjacency="add-remove", events=events, simulated=False)
    with pytest.raises(ValueError, match="must cost at least"):
        ledger.increase(entry, **{**price, "epsilon": 0.01}, events=events)
    charged = ledger.entries()[0].cost
    # On the way nothing is known but the numbers, whose conversion has a smaller ε here, at a larger δ.
    ledger.increase(entry, **price, events=events, adaptive=True)
    after = ledger.entries()[0].cost
    assert not charged.exceeds(after) and after.delta > charged.delta


def test_a_ledger_says_when_labels_decide_its_unit():
    from skprivate.privacy import LedgerUnitWarning

    terms = {"epsilon": 0.5, "unit": "label", "adjacency": "replace-one"}
    ledger = PrivacyLedger(epsilon=2.0)
    with pytest.warns(LedgerUnitWarning, match="from now on it is a budget per label.*unit='user'"):
        open_release(**terms, plan=[(LaplaceEvent(0.5), 1)], ledger=ledger).close()
    open_release(**terms, plan=[(LaplaceEvent(0.5), 1)], ledger=ledger).close()  # said once
    given = PrivacyLedger(epsilon=2.0, unit="label", adjacency="replace-one")
    open_release(**terms, plan=[(LaplaceEvent(0.5), 1)], ledger=given).close()


def test_the_unit_is_that_of_the_file_and_an_error_comes_before_the_charge(tmp_path, recwarn):
    from skprivate.privacy import LedgerUnitWarning

    terms = {"epsilon": 0.5, "unit": "label", "adjacency": "replace-one", "plan": [(LaplaceEvent(0.5), 1)]}
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=2.0)
    stale = PrivacyLedger.open(ledger.path)
    warnings.simplefilter("error", LedgerUnitWarning)
    with pytest.raises(LedgerUnitWarning):
        open_release(**terms, ledger=ledger)
    assert ledger.entries() == [] and ledger.unit is None
    warnings.simplefilter("ignore", LedgerUnitWarning)
    open_release(**terms, ledger=PrivacyLedger.open(ledger.path)).close()
    warnings.simplefilter("error", LedgerUnitWarning)
    # The handle has not read the file since; the unit is set, and nothing is left to say.
    open_release(**terms, ledger=stale).close()
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize("part", range(4))
def test_a_price_exceeds_another_by_any_of_its_numbers(part):
    before = Cost(0.5, 1e-6, 0.25, 1e-7)
    above = before._replace(**{Cost._fields[part]: 2 * before[part]})
    assert above.exceeds(before) and not before.exceeds(above) and not before.exceeds(before)
