import json
import math
import pickle

import pytest

from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PureEvent,
    ZeroConcentratedEvent,
    compose_epsilon,
    open_release,
)


def guarantee(**changes):
    values = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "unit": "user",
        "adjacency": "replace-one",
        "events": ((GaussianEvent(5.0), 1),),
    }
    return PrivacyGuarantee(**{**values, **changes})


def test_reads_as_a_sentence():
    assert str(guarantee()) == "(1, 1e-06)-differential privacy for one user (replace-one)"
    assert str(guarantee(delta=0.0, valid_for_release=False)).endswith("[simulated noise: not valid for release]")
    metric = guarantee(adjacency="metric", metric="W1", unit="data set", delta=0.0)
    assert str(metric) == "1-metric privacy for one data set (W1; ε per unit of distance)"
    assert str(guarantee(epsilon=math.inf, delta=0.0)) == "no privacy for a user"
    assert "<table>" in guarantee(theorem="a < b")._repr_html_()
    assert "a &lt; b" in guarantee(theorem="a < b")._repr_html_()


def test_composes_by_events_and_never_above_the_sum():
    plan = [(GaussianEvent(10.0, 2), 1)]
    one = open_release(epsilon=1.0, delta=1e-6, unit="user", adjacency="replace-one", random_state=0, plan=plan)
    one.gaussian([1.0, 2.0], sensitivity=1.0, noise_multiplier=10.0)
    first = one.close()
    both = first.compose(first, first)
    assert both.delta == pytest.approx(3e-6)
    assert both.epsilon == pytest.approx(compose_epsilon([(GaussianEvent(10.0, 2), 3)], 3e-6))
    assert both.epsilon < 3 * first.epsilon
    assert not both.valid_for_release
    assert both.events == ((GaussianEvent(10.0, 2), 3),)


def test_a_release_of_nothing_leaves_the_events_of_others():
    every = [guarantee(delta=1e-6), guarantee(delta=1e-6), guarantee(epsilon=0.0, delta=0.0, events=())]
    assert every[0].compose(*every[1:]).epsilon == every[0].compose(every[1]).epsilon
    assert every[2].compose(*every[:2]).events == every[0].compose(every[1]).events != ()


def test_composition_without_events_is_the_sum():
    assert guarantee(events=()).compose(guarantee(epsilon=0.5)).epsilon == 1.5


@pytest.mark.parametrize(
    "other", [{"unit": "row"}, {"adjacency": "add-remove"}, {"adjacency": "metric", "metric": "W1"}]
)
def test_refuses_to_compose_what_differs(other):
    with pytest.raises(ValueError, match="compose only for the same"):
        guarantee().compose(guarantee(**other))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"unit": "house"},
        {"metric": "W1"},
        {"adjacency": "metric"},
    ],
)
def test_refuses_nonsense(changes):
    with pytest.raises(ValueError, match="must be|is not a valid|if and only if"):
        guarantee(**changes)


def test_is_frozen_and_picklable():
    one = guarantee(events=((LaplaceEvent(0.5), 2),))
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError):
        one.epsilon = 0.1


def test_deltas_that_add_up_to_one_promise_nothing():
    with pytest.raises(ValueError, match=r"delta of all guarantees must add up to less than 1, got 1\.2"):
        guarantee(delta=0.6).compose(guarantee(delta=0.6))
    assert guarantee(delta=0.4).compose(guarantee(delta=0.4)).delta == 0.8


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"epsilon": math.inf, "delta": 0.0, "events": ()},
        {"adjacency": "metric", "metric": "W1", "delta": 0.0, "valid_for_release": False},
        {
            "assumptions": ("bounds are public", "one row per user"),
            "theorem": "theorem 1",
            "events": (
                (LaplaceEvent(0.1), 3),
                (PureEvent(0.2, "vector"), 1),
                (BoundedRangeEvent(1e-9), 2),
                (ZeroConcentratedEvent(0.3, "discrete Gaussian"), 4),
                (GaussianEvent(2.5, 10), 1),
            ),
        },
    ],
)
def test_survives_json(changes):
    one = guarantee(**changes)
    again = PrivacyGuarantee.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    assert again == one and repr(again) == repr(one)


def test_from_dict_needs_only_the_promise_and_knows_its_events():
    plain = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "adjacency": "add-remove"}
    assert PrivacyGuarantee.from_dict(plain) == guarantee(**plain, events=(), stated=True)
    with pytest.raises(ValueError, match="event must be one of .*LaplaceEvent.*, got 'Free'"):
        PrivacyGuarantee.from_dict({**plain, "events": [{"event": "Free", "count": 1}]})


def test_adaptive_draws_compose_by_the_sum_alone():
    """Ten draws of which none was planned: what results may have chosen is not priced as if fixed beforehand."""

    def released(plan):
        release = open_release(epsilon=9.0, delta=1e-6, unit="row", adjacency="add-remove", plan=plan, random_state=0)
        for _ in range(40):
            release.laplace(0.0, sensitivity=1.0, epsilon=0.1)
        return release.close()

    planned, adaptive = released([(LaplaceEvent(0.1), 40)]), released([])
    assert not planned.adaptive and adaptive.adaptive
    assert adaptive == PrivacyGuarantee.from_dict(adaptive.to_dict())
    both = adaptive.compose(planned)
    assert both.adaptive and both.epsilon >= adaptive.epsilon + planned.epsilon
    assert planned.compose(planned).epsilon < 2 * planned.epsilon


def test_draws_of_a_part_are_never_taken_for_those_of_the_whole():
    drawn = PrivacyGuarantee(0.1, 0.0, "row", "add-remove", events=((LaplaceEvent(0.1), 1),))
    stated = PrivacyGuarantee(5.0, 0.0, "row", "add-remove", stated=True)
    both = drawn.compose(stated)
    assert both.events == ()
    assert min(both.compose(drawn).epsilon, drawn.compose(stated, drawn).epsilon) >= 5.2
    # A release of which nothing but ε = 5.1 is known: randomised response may be behind it.
    assert both.risk(fpr=0.01).advantage >= math.tanh(5.1 / 2)


def test_epsilon_per_distance_composes_by_the_sum():
    """What needs δ at distance 1 would be scaled by the distance, which only pure sums admit."""
    one = PrivacyGuarantee(1.0, 1e-6, "row", "metric", "km", events=((LaplaceEvent(0.01), 100),))
    assert one.compose(one).epsilon >= 2.0


def test_a_list_of_guarantees_is_unpacked_first():
    for wrong in ([guarantee()], None, 1.0):
        text = rf"others must be guarantees, got {type(wrong).__name__}.*compose\(\*rest\)"
        with pytest.raises(TypeError, match=text):
            guarantee().compose(wrong)
