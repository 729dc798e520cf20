"""Of long tests the fast run shows every value: an estimator's class, a check, an error, a law."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from helpers.turns import fast_cells
from sklearn.linear_model import Lasso, LinearRegression, Ridge


@pytest.mark.parametrize("n", [2, 3, 5])
def test_every_value_is_in_some_fast_cell(n):
    """Every n-th in the order of the grid was the same five of fifteen checks for all estimators."""

    def checks():
        return [partial(print), partial(len), partial(repr)] * 5

    models = [LinearRegression, Ridge, Lasso]
    cells = {
        f"{model.__name__}-{k}": {"estimator": model(), "check": check, "seed": k}
        for model, (k, check) in product(models, enumerate(checks()))
    }
    kept = fast_cells(cells, n)
    assert {cells[name]["seed"] for name in kept} == set(range(15))
    assert {type(cells[name]["estimator"]) for name in kept} == set(models)
    assert max(15, len(cells) // n) <= len(kept) <= max(18, len(cells) // n)


def test_one_cell_alone_is_fast_and_few_values_need_few_cells():
    assert fast_cells({"a[1]": {"x": 1}}, 4) == {"a[1]"}
    cells = {f"a[{j}-{k}]": {"x": j, "y": k} for j, k in product(range(10), range(2))}
    kept = fast_cells(cells, 2)
    assert len(kept) == 10
    assert {cells[name]["x"] for name in kept} == set(range(10)) and {cells[name]["y"] for name in kept} == {
        0,
        1,
    }
