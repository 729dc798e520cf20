"""Each run of a large test takes its share of the cells, the most various ones first, and in some turn every cell."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from helpers.turns import fast_and_slow
from sklearn.linear_model import Lasso, LinearRegression, Ridge

MODELS = [LinearRegression, Ridge, Lasso]


def checks_of_models():
    """Five copies of three checks, each bound to its estimator: 45 cells."""
    checks = [partial(print), partial(len), partial(repr)] * 5
    return {
        f"{model.__name__}-{k}": {"estimator": model(), "check": check, "seed": k}
        for model, (k, check) in product(MODELS, enumerate(checks))
    }


@pytest.mark.parametrize("n", [2, 3, 5, 9, 44, 45, 60])
def test_a_run_takes_its_share_and_all_turns_take_all_cells(n):
    cells, seen = checks_of_models(), []
    for turn in range(-(-n // 3)):
        fast, slow = fast_and_slow(cells, n, turn)
        assert len(fast) in (max(1, 45 // n), -(-45 // n)) and len(slow) <= 2 * -(-45 // n)
        assert not fast & slow
        seen += [*fast, *slow]
    assert set(seen) == set(cells)
    assert len(seen) == len(cells) or n > len(cells)
    assert fast_and_slow(cells, n, -(-n // 3)) == fast_and_slow(cells, n)


def test_fast_cells_show_as_many_values_as_they_can():
    """Every n-th in the order of the grid was the same five of fifteen checks for all estimators."""
    cells = checks_of_models()
    fast, _ = fast_and_slow(cells, 3)
    assert {cells[name]["seed"] for name in fast} == set(range(15))
    assert {type(cells[name]["estimator"]) for name in fast} == set(MODELS)


def test_one_cell_alone_is_fast():
    assert fast_and_slow({"a[1]": {"x": 1}}, 4) == ({"a[1]"}, set())
    assert fast_and_slow({}, 4) == (set(), set())
