"""Scales found for a budget: never beyond it, never below the plain division."""

import pytest

from skprivate.preprocessing._mechanisms import moment_costs, moment_events, selection_cost
from skprivate.privacy import BoundedRangeEvent, compose_epsilon


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1, 0.5])
@pytest.mark.parametrize("count", [1, 2, 20])
def test_scales_use_the_budget_and_no_more(epsilon, delta, count):
    each = selection_cost(count, epsilon, delta)
    assert each >= epsilon / count
    assert compose_epsilon(((BoundedRangeEvent(each), count),), delta) <= epsilon * (1 + 1e-9)
    costs = moment_costs(count, 2, (2.0, 1.0), epsilon, delta)
    assert compose_epsilon(moment_events(costs, count, 2), delta) <= epsilon * (1 + 1e-9)


def test_a_delta_that_pays_for_small_scales_alone():
    # Where the price of a small scale is zero, the search must go on to larger ones.
    assert compose_epsilon(((BoundedRangeEvent(0.05), 3),), 0.1) == 0.0
    assert selection_cost(3, 0.1, 0.1) > 0.1
