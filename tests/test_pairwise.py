"""Of all combinations few are enough for any two values of two options to meet."""

from itertools import combinations, product

import pytest
from helpers.pairwise import pairwise


@pytest.mark.parametrize(
    ("sizes", "most"), [((2, 2, 2, 2, 2, 2), 8), ((2, 2, 2, 3, 2, 5), 16), ((5, 4), 20), ((3,), 3)]
)
def test_any_two_values_meet(sizes, most):
    cases = list(product(*map(range, sizes)))
    chosen = pairwise(cases)
    assert chosen == pairwise(cases) and len(chosen) == len(set(chosen)) <= most and set(chosen) <= set(cases)
    for i, j in combinations(range(len(sizes)), 2):
        assert {(case[i], case[j]) for case in chosen} == set(product(range(sizes[i]), range(sizes[j])))
    for i, size in enumerate(sizes):
        assert {case[i] for case in chosen} == set(range(size))


def test_pairs_that_no_allowed_case_holds_are_not_asked_for():
    allowed = [case for case in product(range(2), range(3), range(2)) if case[:2] != (1, 2)]
    met = {case[:2] for case in pairwise(allowed)}
    assert met == set(product(range(2), range(3))) - {(1, 2)}
