"""Values that nobody listed: found by one draw for all columns, whatever a single unit has."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from skprivate.privacy import compose_epsilon, encode_identifiers, identifier_tags, open_release
from skprivate.privacy.draws import CategoryDiscovery, count_values, merge_values
from skprivate.utils.estimator_checks import check_mechanism


def column(values):
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def by_user(columns, users):
    codes, names = encode_identifiers(users, len(users))
    return count_values(list(map(column, columns)), codes, identifier_tags(names))


def drawn(data, mechanism, **options):
    with open_release(
        epsilon=5.0, delta=1e-3, unit="row", adjacency=mechanism.adjacency, plan=mechanism.events, **options
    ) as release:
        return mechanism.run(data, release)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("n_columns", [1, 3, 40])
def test_costs_no_more_than_its_budget_and_nearly_all_of_it(n_columns, adjacency):
    mechanism = CategoryDiscovery.within(n_columns, 0.7, 1e-6, adjacency)
    assert 0.999 * 0.7 < compose_epsilon(mechanism.events, 1e-6) <= 0.7


@pytest.mark.parametrize("n_columns", [1, 4])
def test_a_unit_alone_is_seen_as_often_as_the_law_of_the_noise_says(n_columns):
    """Independently: 1 − Φ(…)^k at the threshold is within its δ, and one lower it is not."""
    mechanism = CategoryDiscovery.within(n_columns, 1.0, 1e-5, "add-remove")
    scale = mechanism.noise_multiplier * math.sqrt(n_columns)
    seen = [
        -math.expm1(n_columns * norm.logcdf((t - 1) / scale)) for t in (mechanism.threshold, mechanism.threshold - 1)
    ]
    assert seen[0] <= mechanism.threshold_delta < seen[1]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_the_sensitivity_is_reached_and_never_passed(n_columns, adjacency):
    """All pairs of one unit's rows: the change of all counts in ℓ2."""
    mechanism = CategoryDiscovery.within(n_columns, 1.0, 1e-5, adjacency)
    rows = list(itertools.product("ab", repeat=n_columns))

    def counted(row):
        return Counter({(j, v): 1 for j, v in enumerate(row or ())})

    others = [None] if adjacency == "add-remove" else rows
    largest = 0
    for row, other in itertools.product(rows, others):
        one, two = counted(row), counted(other)
        largest = max(largest, sum((one[key] - two[key]) ** 2 for key in one | two))
    assert largest <= mechanism.sensitivity**2 <= largest * (1 + 1e-12)


words = st.sampled_from(["a", "b", 1, 2.0, True, None, "1", (), float("nan"), b"a"])


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 4), words, words), min_size=1, max_size=30))
def test_a_user_counts_once_a_column_whatever_the_others_do(rows):
    users, *columns = zip(*rows, strict=True)
    whole = by_user(columns, users)
    kept = [row for row in rows if row[0] != 0]
    rest = by_user(list(zip(*kept, strict=True))[1:], [row[0] for row in kept]) if kept else [{}, {}]
    for counts, fewer in zip(whole, rest, strict=True):
        left = Counter(counts) - Counter(fewer)
        assert not Counter(fewer) - Counter(counts) and sum(left.values()) <= 1
        assert sum(counts.values()) <= len(set(users))


def test_the_order_of_rows_does_not_matter():
    users, values = [3, 1, 1, 3, 2, 1], list("abcbca")
    for order in itertools.islice(itertools.permutations(range(6)), 0, None, 30):
        found = by_user([[values[k] for k in order]], [users[k] for k in order])
        assert found == by_user([values], users)


def test_blocks_add_up():
    values = [column(["a", "b", None, "a", 1, True]), column(list("xxxyyy"))]
    parts = [count_values([each[:2] for each in values]), count_values([each[2:] for each in values])]
    assert merge_values(parts) == count_values(values)


def test_finds_what_many_have_sorted_and_nothing_of_one_unit():
    mechanism = CategoryDiscovery.within(2, 1.0, 1e-6, "replace-one")
    often = mechanism.least_units * 2
    data = count_values([column(["b"] * often + ["a"] * often + ["rare"]), column([2] * often + [1] * often + [None])])
    found = drawn(data, mechanism, random_state=0)
    assert [list(one) for one in found] == [["a", "b"], [1, 2]]
    assert abs(found[0]["a"] - often) < 6 * mechanism.sensitivity * mechanism.noise_multiplier


def test_the_stated_number_of_units_is_found_so_often():
    """At `least_units` .977 of 3 000 draws; both tails at 1e-7 are six deviations of .0028."""
    mechanism = CategoryDiscovery.within(1, 2.0, 1e-4, "add-remove")
    data = [{("int", k): mechanism.least_units for k in range(3000)}]
    assert 0.955 < len(drawn(data, mechanism)[0]) / 3000 < 0.999


NEW = ("str", "nobody else's")


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_keeps_the_contract_of_a_mechanism(adjacency):
    mechanism = CategoryDiscovery.within(2, 1.0, 1e-6, adjacency)
    rows = [{("str", "a"): 50, ("str", "b"): 3}, {("number", 1): 50}]
    more = [{**column, key: column.get(key, 0) + 1} for column, key in zip(rows, (NEW, ("number", 1)), strict=True)]
    moved = [{**more[0], ("str", "a"): 49}, {("number", 1): 49, ("number", 7): 1}]
    others = [moved] if adjacency == "replace-one" else [more]
    check_mechanism(mechanism, [rows], neighbours=lambda data: others, unit="row", adjacency=adjacency)
