"""An event of which (ε, δ) alone is known, wherever events are priced."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.privacy import (
    ApproximateEvent,
    BudgetExceededError,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PrivacyGuarantee,
    PrivacyLedger,
    PureEvent,
    compose_delta,
    compose_epsilon,
    filter_epsilon,
    gaussian_noise_multiplier,
    open_release,
)
from skprivate.privacy.accounting._composition import rho_total, within_budget
from skprivate.privacy.ledger._costs import grouped

EVENT = ApproximateEvent(0.5, 1e-5)


def pair(epsilon, delta):
    """Everything with probability δ, else randomised response."""
    likely, rare = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return np.array([delta, likely, rare, 0.0]), np.array([0.0, rare, likely, delta])


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 2.0), st.floats(1e-6, 0.3)).filter(lambda both: both[0] == 0 or both[0] > 1e-3),
        min_size=1,
        max_size=4,
    ),
    st.floats(0.0, 4.0),
)
def test_composition_is_that_of_the_dominating_pairs(parameters, epsilon):
    p, q = np.ones(1), np.ones(1)
    for each in parameters:
        first, second = pair(*each)
        p, q = np.outer(p, first).ravel(), np.outer(q, second).ravel()
    events = [(ApproximateEvent(*each), 1) for each in parameters]
    exact = hockey_stick(p, q, epsilon)
    found = compose_delta(events, epsilon)
    assert exact - 1e-15 <= found <= exact * (1 + 1e-3) + 1e-9
    if found < 1 and math.isfinite(price := compose_epsilon(events, found)):
        assert hockey_stick(p, q, price) <= found * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize(("count", "epsilon", "delta"), [(1, 0.5, 1e-5), (10, 0.1, 1e-6), (40, 0.05, 1e-7)])
def test_composition_agrees_with_an_independent_accountant(count, epsilon, delta):
    parts = pld.common.DifferentialPrivacyParameters(epsilon, delta)
    other = pld.from_privacy_parameters(parts, value_discretization_interval=1e-4).self_compose(count)
    events = [(ApproximateEvent(epsilon, delta), count)]
    for at in (0.0, 0.3 * count * epsilon, count * epsilon):
        assert compose_delta(events, at) == pytest.approx(other.get_delta_for_epsilon(at), rel=2e-3, abs=1e-9)
    goal = 2 * count * delta
    assert compose_epsilon(events, goal) == pytest.approx(other.get_epsilon_for_delta(goal), rel=2e-3)


def test_beside_other_events_its_delta_comes_first():
    other = [(GaussianEvent(4.0), 2), (LaplaceEvent(0.1), 1)]
    both = [(EVENT, 1), *other]
    randomised = [(PureEvent(0.5), 1), *other]
    for epsilon in (0.0, 0.7, 2.0):
        expected = 1e-5 + (1 - 1e-5) * compose_delta(randomised, epsilon)
        assert compose_delta(both, epsilon) == pytest.approx(expected, rel=1e-12)
    assert compose_epsilon(both, 2e-5) == pytest.approx(compose_epsilon(randomised, 1e-5 / (1 - 1e-5)))
    assert compose_epsilon(both, 9.9e-6) == math.inf == compose_epsilon(both, 0.0)
    assert compose_delta(both, math.inf) == compose_delta([(EVENT, 1)], 700.0) == 1e-5


def test_one_claim_costs_itself_and_several_no_more_than_their_sum():
    assert compose_epsilon([(EVENT, 1)], 1e-5) == 0.5
    for delta in (1e-300, 1e-18, 1e-5, 0.01):
        for n in (2, 3, 10):
            events = [(ApproximateEvent(0.25, delta), n)]
            total = math.nextafter(n * delta, 1.0)
            assert compose_epsilon(events, total) <= 0.25 * n * (1 + 1e-15)
            assert compose_delta(events, 0.25 * n) <= total
    assert compose_epsilon([(ApproximateEvent(0.0, 1e-5), 1)], 1e-5) == 0.0


def test_without_delta_it_is_a_pure_event_and_with_it_has_no_other_price():
    pure = ApproximateEvent(0.5, 0.0)
    assert pure.pure_epsilon == 0.5 and pure.rho == 0.125
    assert compose_delta([(pure, 3)], 0.7) == compose_delta([(PureEvent(0.5), 3)], 0.7)
    assert EVENT.pure_epsilon == EVENT.rho == rho_total([(EVENT, 1)]) == math.inf
    # As a filter it would use δ twice: for itself, and for what is chosen in its place.
    assert filter_epsilon([(EVENT, 1)], 0.1) == math.inf
    assert within_budget([(EVENT, 1)], 0.5, 1e-5) and not within_budget([(EVENT, 1)], 0.5, 9e-6)


@pytest.mark.parametrize("bad", [(0.5, 1.0), (0.5, -1e-9), (0.5, math.nan), (0.0, 0.0), (-1.0, 0.1), (math.inf, 0.1)])
def test_claims_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="epsilon must|delta must"):
        ApproximateEvent(*bad)


def test_noise_is_calibrated_beside_it():
    multiplier = gaussian_noise_multiplier(1.0, 1e-4, 3, other=((EVENT, 1),))
    assert compose_epsilon([(EVENT, 1), (GaussianEvent(multiplier), 3)], 1e-4) == pytest.approx(1.0, rel=1e-4)
    with pytest.raises(ValueError, match="leave something"):
        gaussian_noise_multiplier(1.0, 1e-6, other=((EVENT, 1),))


@pytest.mark.parametrize("steps", [2, 3])
def test_a_group_is_the_chain_of_its_members(steps):
    # The worst chain that the definition allows: δ₁ + e^ε δ₁ + …, with equality where each step is tight.
    group = grouped(ApproximateEvent(0.5, 1e-3), steps)
    expected = 1e-3 * math.expm1(steps * 0.5) / math.expm1(0.5)
    assert group.epsilon == pytest.approx(steps * 0.5) and group.delta == pytest.approx(expected)
    assert group.epsilon >= steps * 0.5 and group.delta >= expected
    with pytest.raises(ValueError, match="leave nothing"):
        grouped(ApproximateEvent(3.0, 0.1), steps)


def test_a_ledger_converts_counts_and_reads_it():
    ledger = PrivacyLedger(epsilon=3.0, delta=0.1, unit="user", adjacency="add-remove", rows_per_user=3)
    with open_release(
        epsilon=0.5, delta=1e-5, unit="row", adjacency="add-remove", ledger=ledger, plan=[(EVENT, 1)]
    ) as release:
        release._charge({EVENT: 1})
    guarantee = release.close()
    assert (guarantee.epsilon, guarantee.delta) == (0.5, 1e-5) and not guarantee.adaptive
    (entry,) = ledger.entries()
    assert entry.epsilon == pytest.approx(1.5) and entry.epsilon >= 1.5
    assert entry.delta == pytest.approx(1e-5 * math.expm1(1.5) / math.expm1(0.5))
    assert entry.rho is None and (entry.own_epsilon, entry.own_delta) == (0.5, 1e-5)
    plain = {k: v for k, v in entry.events[0].items() if k != "count"}
    assert PrivacyEvent.from_dict(json.loads(json.dumps(plain))) == EVENT
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_a_ledger_that_counts_in_zcdp_alone_refuses_it():
    ledger = PrivacyLedger(epsilon=3.0, delta=0.1, unit="row", adjacency="add-remove", composition="zcdp")
    with pytest.raises(BudgetExceededError):
        open_release(epsilon=0.5, delta=1e-5, unit="row", adjacency="add-remove", ledger=ledger, plan=[(EVENT, 1)])
    assert ledger.entries() == []


def test_delta_is_charged_on_every_path():
    parameters = {"epsilon": 2.0, "delta": 1e-4, "unit": "row", "adjacency": "add-remove"}
    # Without a plan: all of δ, and nothing that is not pure may follow or precede it.
    with open_release(**parameters) as release:
        release._charge({EVENT: 1})
        with pytest.raises(BudgetExceededError):
            release._charge({EVENT: 1})
        with pytest.raises(BudgetExceededError):
            release._charge({LaplaceEvent(0.1): 1})
    assert release.close().delta == 1e-4 and release.close().epsilon == 2.0
    with open_release(**parameters) as release:
        release._charge({LaplaceEvent(0.1): 1})
        with pytest.raises(BudgetExceededError):
            release._charge({EVENT: 1})
    # Beside a plan: pure events only.
    with open_release(**parameters, plan=[(EVENT, 1)]) as release:
        release._charge({EVENT: 1})
        release._charge({LaplaceEvent(0.1): 1})
        with pytest.raises(BudgetExceededError):
            release._charge({EVENT: 1})
    guarantee = release.close()
    assert guarantee.delta == 1e-4 and guarantee.epsilon >= compose_epsilon([(EVENT, 1)], 1e-4) + 0.1
    with pytest.raises(ValueError, match="pure events only"):
        open_release(epsilon=1.0, unit="row", adjacency="metric", metric="km", plan=[(EVENT, 1)])


def test_risk_is_that_of_the_dominating_pair():
    with open_release(
        epsilon=0.5, delta=0.01, unit="row", adjacency="add-remove", plan=[(ApproximateEvent(0.5, 0.01), 1)]
    ) as release:
        pass
    guarantee = release.close()
    p, q = pair(0.5, 0.01)
    # Tests of Neyman and Pearson: outcomes are accused in the order of their likelihood ratios.
    for fpr in (0.001, 0.1, 0.5, 0.9):
        left, tpr = fpr, 0.0
        for k in range(4):
            share = 1.0 if q[k] == 0 else min(left / q[k], 1.0)
            left, tpr = left - share * q[k], tpr + share * p[k]
        found = guarantee.risk(fpr=fpr).tpr
        assert tpr - 1e-12 <= found <= tpr + 1e-6
    assert guarantee.risk().advantage == pytest.approx(hockey_stick(p, q, 0.0))


def test_guarantees_compose_no_worse_than_their_sum():
    def guarantee(event):
        return PrivacyGuarantee(event.epsilon, event.delta, unit="row", adjacency="add-remove", events=((event, 1),))

    whole = guarantee(EVENT).compose(*(guarantee(ApproximateEvent(0.1, 1e-6)) for _ in range(20)))
    assert whole.delta == pytest.approx(3e-5) and 0.5 <= whole.epsilon <= 2.5
    best = min(at for at in np.linspace(0.5, 2.5, 81) if compose_delta(whole.events, float(at)) <= whole.delta)
    assert whole.epsilon <= best + 1e-9
