"""Whatever is the same in other words, types, places or orders has the same result, on every road to every estimator.

Each cell fits an estimator on a road, and again after one change that a result must not depend on, or must follow in a
known way. The second result is the first one, or a refusal that costs nothing: never another result in silence.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import pickle
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.pairwise import pairwise
from helpers.roads import ESTIMATORS, ROADS, Case, charged, new_case, new_ledger
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from skprivate.model_selection import UserKFold
from skprivate.preprocessing._private_pipeline import PrivatePipeline
from skprivate.privacy._events import run_tape

#: What refuses: errors with words for whoever called. Any other is a failure of its own.
REFUSALS = (ValueError, TypeError, NotFittedError)


@dataclass(frozen=True)
class Relation:
    """A change, for cases that it suits, and how the second result is compared with the first.

    ``exact``: to rounding. Else the model is as good, and says much the same: noise goes to other columns, say.
    ``warned``: a warning that the first fit did not have is an answer, too.
    """

    change: Callable[[Case], Case]
    suits: Callable[[Case], bool] = lambda case: True
    exact: bool = True
    warned: bool = False


def _shuffled(values: Any, seed: int = 1) -> Any:
    return None if values is None else values.sample(frac=1, random_state=seed)


# Rows -----------------------------------------------------------------------------------------------------------------


def rows_in_another_order(case: Case) -> Case:
    """The rows of all arguments, each with its index, in another order."""
    order = _shuffled(case.X).index
    y = None if case.y is None else case.y.loc[order]
    return replace(case, X=case.X.loc[order], y=y, rows={name: each.loc[order] for name, each in case.rows.items()})


def features_in_another_order(case: Case) -> Case:
    """The rows of X alone in another order; its index says so."""
    return replace(case, X=_shuffled(case.X))


def targets_in_another_order(case: Case) -> Case:
    return replace(case, y=_shuffled(case.y))


def further_arguments_in_another_order(case: Case) -> Case:
    """Identifiers, keys or a mask in another order; the target has no index that could tell."""
    y = None if case.y is None else case.y.to_numpy()
    return replace(case, y=y, rows={name: _shuffled(each) for name, each in case.rows.items()})


def truth_in_another_order(case: Case) -> Case:
    """The targets of a score in another order; its index says so."""
    return replace(case, truth=_shuffled(case.truth))


# Columns --------------------------------------------------------------------------------------------------------------


def columns_renamed(case: Case) -> Case:
    names = {"a": "width in mm", "b": "x__y"}
    schema = {names[name]: each for name, each in case.schema.items()}
    return replace(case, X=case.X.rename(columns=names), asked=case.asked.rename(columns=names), schema=schema)


def columns_in_another_order(case: Case) -> Case:
    return replace(case, X=case.X[["b", "a"]], asked=case.asked[["b", "a"]])


def columns_asked_in_another_order(case: Case) -> Case:
    return replace(case, asked=case.asked[["b", "a"]])


def schema_in_another_order(case: Case) -> Case:
    return replace(case, schema=dict(reversed(case.schema.items())))


# Types and libraries --------------------------------------------------------------------------------------------------


def _typed(dtype: Any) -> Callable[[Case], Case]:
    return lambda case: replace(case, X=case.X.astype(dtype), asked=case.asked.astype(dtype))


def decimals(case: Case) -> Case:
    def changed(X: Any) -> Any:
        return X.map(lambda each: Decimal(int(each)))

    return replace(case, X=changed(case.X), asked=changed(case.asked))


def _target_typed(dtype: Any) -> Callable[[Case], Case]:
    return lambda case: replace(case, y=case.y.astype(dtype), truth=case.truth.astype(dtype))


def identifiers_as_text(case: Case) -> Case:
    """Names of users in place of their numbers: equal where they were equal."""
    return replace(case, rows={name: each.map("user {:06d}".format) for name, each in case.rows.items()})


def _in_library(table: Callable[[Any], Any], column: Callable[[Any], Any]) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        y = None if case.y is None else column(case.y)
        rows = {name: column(each) for name, each in case.rows.items()}
        return replace(case, X=table(case.X), asked=table(case.asked), y=y, rows=rows)

    return change


in_polars = _in_library(lambda X: pl.DataFrame(dict(X.items())), lambda y: pl.Series(y.to_numpy()))
in_arrow = _in_library(lambda X: pa.Table.from_pandas(X, preserve_index=False), lambda y: pa.array(y.to_numpy()))
in_numpy = _in_library(lambda X: X.to_numpy(), lambda y: y.to_numpy())
in_lists = _in_library(lambda X: X.to_numpy().tolist(), lambda y: y.tolist())


def sideways_in_memory(case: Case) -> Case:
    """An array whose columns are apart in memory."""
    return replace(case, X=np.asfortranarray(case.X), asked=np.asfortranarray(case.asked))


# Words for the same ---------------------------------------------------------------------------------------------------


def classes_in_another_order(case: Case) -> Case:
    return case.given(classes=[1, 0])


def classes_as_text(case: Case) -> Case:
    """Names of labels in place of numbers, in the same order."""
    names, options = np.array(["no", "yes"]), {"classes": ["no", "yes"]}
    if getattr(case.estimator, "private_label", None) is not None:
        options["private_label"] = "yes"

    def read(said: dict[str, Any]) -> dict[str, Any]:
        back = {name: np.searchsorted(names, said[name]) for name in ("prediction", "classes")}
        return said | back

    y, truth = (pd.Series(names[each], index=each.index) for each in (case.y, case.truth))
    return replace(case.given(**options), y=y, truth=truth, read=read)


def parameters_through_json(case: Case) -> Case:
    """All parameters, and the schema, as JSON gives them back: tuples have become lists."""
    sent = {}
    for name, value in case.estimator.get_params(deep=False).items():
        try:
            sent[name] = json.loads(json.dumps(value))
        except TypeError:
            continue
    return replace(case.given(**sent), schema=json.loads(json.dumps(case.schema)))


def numbers_of_numpy(case: Case) -> Case:
    """Parameters in NumPy's types."""
    options = {"epsilon": np.float32(case.estimator.epsilon), "random_state": np.int64(0)}
    return case.given(**options)


# Units of public numbers ----------------------------------------------------------------------------------------------


def _target(scale: float, shift: float) -> Callable[[Case], Case]:
    def read(said: dict[str, Any]) -> dict[str, Any]:
        return said | {"prediction": (said["prediction"] - shift) / scale}

    return lambda case: replace(case, y=case.y * scale + shift, truth=case.truth * scale + shift, read=read)


def _features(scale: float, shift: float) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        schema = {name: (low * scale + shift, high * scale + shift) for name, (low, high) in case.schema.items()}
        return replace(case, X=case.X * scale + shift, asked=case.asked * scale + shift, schema=schema)

    return change


# Objects --------------------------------------------------------------------------------------------------------------


def _made(through: Callable[[Any], Any]) -> Callable[[Case], Case]:
    return lambda case: replace(case, made=through)


def _kept(through: Callable[[Any], Any]) -> Callable[[Case], Case]:
    """Send the fitted model through something, without a ledger, as one in memory goes nowhere."""
    return lambda case: replace(case, fit=lambda model, case: through(case.road.fit(charged(model, None), case)))


def _through(module: Any) -> Callable[[Any], Any]:
    return lambda model: module.loads(module.dumps(model))


def fitted_twice(case: Case) -> Case:
    """The same object, first fitted with hardly any budget."""

    def fit(model: Any, case: Case) -> Any:
        names = [name for name in model.get_params() if name.rpartition("__")[2] == "epsilon"]
        before = {name: value for name, value in model.get_params().items() if name in names}
        low = {name: 1e-3 for name in names if before[name] is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = case.road.fit(model.set_params(**low), case)
        again = case.road.fit(model.set_params(**{name: before[name] for name in low}), case)
        fresh = case.road.fit(clone(model), case)
        assert attributes(again) == attributes(fresh), attributes(again) ^ attributes(fresh)
        return again

    return replace(case, fit=fit)


def attributes(model: Any) -> set[str]:
    """List the names of all attributes of a model and of its parts."""
    parts = {"": model, **{f"{name}.": each for name, each in model.get_params().items() if hasattr(each, "fit")}}
    return {f"{name}{each}" for name, part in parts.items() for each in vars(part)}


class Meanwhile:
    """A tape that does something else in the midst of the first draw of a fit."""

    def __init__(self, what: Callable[[], Any]) -> None:
        self.what: Callable[[], Any] | None = what

    def draw(self, draw: Any, sample: Callable[[], Any]) -> Any:
        if (what := self.what) is not None:
            self.what = None
            what()
        return sample()


def _nested(within: Callable[[Any, Case], Any]) -> Callable[[Case], Case]:
    """Do something with a model in the midst of its own fit."""

    def fit(model: Any, case: Case) -> Any:
        with run_tape(Meanwhile(lambda: within(model, case))):
            return case.road.fit(model, case)

    return lambda case: replace(case, fit=fit)


def fitted_again(model: Any, case: Case) -> None:
    case.road.fit(model, case)


def in_a_thread(model: Any, case: Case) -> None:
    """Fit in another thread to the end; what that raises is raised here."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with config_context(enable_metadata_routing=True):
                case.road.fit(model, case)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def steps_elsewhere(model: Any, case: Case) -> None:
    """Fit another pipeline, of the same steps and another budget."""
    epsilon = model.steps[-1][1].epsilon
    case.road.fit(PrivatePipeline(model.steps, epsilon=2 * epsilon, ledger=model.ledger), case)


# ----------------------------------------------------------------------------------------------------------------------


def _has(name: str) -> Callable[[Case], bool]:
    return lambda case: name in case.estimator.get_params(deep=False)


def _classifies(case: Case) -> bool:
    return is_classifier(case.estimator)


def _learns_numbers(case: Case) -> bool:
    return is_regressor(case.estimator) and not hasattr(case.estimator, "estimators")


def _has_target(case: Case) -> bool:
    return case.y is not None


def _learns(case: Case) -> bool:
    return _has_target(case) and not hasattr(case.estimator, "estimators")


def _in_tables(case: Case) -> bool:
    return case.road in (ROADS["blocks"], ROADS["tables"], ROADS["sql"])


def _nests(case: Case) -> bool:
    """scikit-learn's own pipelines hand callbacks on by attributes of their steps: one fit at a time, else an error."""
    return type(case.built()) is not Pipeline


def _compared(*pairs: str) -> Callable[[Case], bool]:
    """On roads where we see one of these pairs of arguments, both with an index. In tables all columns have one."""

    def given(pair: str, case: Case) -> bool:
        there = {"y": _has_target(case), "rows": bool(case.rows), "score": _has_target(case), "X": True}
        return pair in case.road.compares and all(there[name] for name in pair.split())

    return lambda case: not _in_tables(case) and any(given(pair, case) for pair in pairs)


RELATIONS: dict[str, dict[str, Relation]] = {
    "rows": {
        # Without identifiers a search deals rows by their positions.
        "all in another order": Relation(rows_in_another_order, lambda case: case.road is not ROADS["private search"]),
        "features in another order": Relation(features_in_another_order, _compared("X y", "X rows")),
        "further arguments in another order": Relation(further_arguments_in_another_order, _compared("X rows")),
    },
    "targets": {
        "targets in another order": Relation(targets_in_another_order, _compared("X y", "y rows")),
        "truth in another order": Relation(truth_in_another_order, _compared("score")),
        "targets as int32": Relation(_target_typed(np.int32), _has_target),
        "targets as floats": Relation(_target_typed(float), _has_target),
        "targets as objects": Relation(_target_typed(object), _has_target),
    },
    "columns": {
        "columns renamed": Relation(columns_renamed),
        "columns in another order": Relation(columns_in_another_order, _has_target, exact=False),
        "columns asked in another order": Relation(columns_asked_in_another_order),
        "schema in another order": Relation(schema_in_another_order, _learns, exact=False),
    },
    "types": {
        "float32": Relation(_typed(np.float32)),
        "int64": Relation(_typed(np.int64), lambda case: not hasattr(case.estimator, "sample")),
        "int8": Relation(_typed(np.int8), lambda case: not hasattr(case.estimator, "sample")),
        "nullable integers": Relation(_typed("Int64"), lambda case: not hasattr(case.estimator, "sample")),
        # A hash of user and value, each of its kind, chooses the category for which a user counts.
        "decimals": Relation(decimals, lambda case: not hasattr(case.estimator, "max_categories")),
    },
    "libraries": {
        "polars": Relation(in_polars),
        "pyarrow": Relation(in_arrow),
        "numpy": Relation(in_numpy, lambda case: not _in_tables(case)),
        "lists": Relation(in_lists, lambda case: not _in_tables(case)),
        "sideways in memory": Relation(sideways_in_memory, lambda case: not _in_tables(case)),
    },
    "words": {
        "classes in another order": Relation(classes_in_another_order, _has("classes")),
        "classes as text": Relation(classes_as_text, _has("classes")),
        # A search deals users by their names, and a hash of them chooses categories.
        "identifiers as text": Relation(
            identifiers_as_text,
            lambda case: (
                "user_ids" in case.rows
                and case.road is not ROADS["private search"]
                and not hasattr(case.estimator, "max_categories")
            ),
        ),
        "parameters through JSON": Relation(parameters_through_json),
        "numbers of NumPy": Relation(numbers_of_numpy),
    },
    "units": {
        "targets times 1024": Relation(_target(1024, 0), _learns_numbers, exact=False, warned=True),
        "targets divided by 1024": Relation(_target(1 / 1024, 0), _learns_numbers, exact=False, warned=True),
        "targets far from zero": Relation(_target(1, 9216), _learns_numbers, exact=False, warned=True),
        "features times 1024": Relation(_features(1024, 0), _learns, exact=False, warned=True),
        # A search says nothing of its fits: what they warn of would tell of those that lost.
        "features far from zero": Relation(
            _features(1, 2**23),
            lambda case: _learns(case) and case.road is not ROADS["private search"],
            exact=False,
            warned=True,
        ),
    },
    "copies": {
        "a clone": Relation(_made(clone)),
        "pickled": Relation(_made(_through(pickle))),
        "cloudpickled": Relation(_made(_through(cloudpickle))),
        "pickled when fitted": Relation(_kept(_through(pickle))),
        "cloudpickled when fitted": Relation(_kept(_through(cloudpickle))),
        "copied when fitted": Relation(_kept(copy.deepcopy)),
    },
    "fits": {
        "fitted twice": Relation(fitted_twice),
        "fitted within its fit": Relation(_nested(fitted_again), _nests),
        "fitted by two threads": Relation(_nested(in_a_thread), _nests),
        "steps in another pipeline": Relation(
            _nested(steps_elsewhere), lambda case: isinstance(case.built(), PrivatePipeline)
        ),
    },
}


@functools.cache
def first(estimator: str, road: str) -> tuple[dict[str, Any], float, frozenset[str]]:
    """Fit without a change: what the model says, what the fit cost, and which kinds of warnings there were."""
    case, ledger = new_case(estimator, road), new_ledger()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = case.fitted(ledger)
        cost = ledger.spent[0]
        return case.answers(model), cost, frozenset(type(each.message).__name__ for each in seen)


def _cells() -> tuple[list[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """List cells in which any estimator, road and relation meet in twos, and those of the fast run.

    These hold any two of an estimator, a road and a kind of relation, of which they take one in turn.
    """
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for estimator, road in itertools.product(ESTIMATORS, ROADS):
        case = new_case(estimator, road)
        if case.road.takes(case.estimator):
            for kind, relations in RELATIONS.items():
                suiting = [name for name, relation in relations.items() if relation.suits(case)]
                found.update({(estimator, road, kind): suiting} if suiting else {})
    turns: dict[str, int] = defaultdict(int)
    fast = set()
    for estimator, road, kind in pairwise(found):
        names = found[estimator, road, kind]
        fast.add((estimator, road, names[turns[kind] % len(names)]))
        turns[kind] += 1
    every = [(*key[:2], name) for key, names in found.items() for name in names]
    return sorted(fast.union(pairwise(every))), fast


CELLS, FAST = _cells()


@pytest.mark.parametrize(
    ("estimator", "road", "relation"),
    [
        pytest.param(*cell, marks=() if cell in FAST else [pytest.mark.slow, pytest.mark.take_turns(9)])
        for cell in CELLS
    ],
)
def test_the_same_result_or_a_refusal_before_payment(estimator, road, relation):
    before, cost, warned = first(estimator, road)
    how, ledger = next(kind[relation] for kind in RELATIONS.values() if relation in kind), new_ledger()
    case = how.change(new_case(estimator, road))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            model = case.fitted(ledger)
        except REFUSALS as refusal:
            assert ledger.spent == (0.0, 0.0), f"refused after payment of {ledger.spent}: {refusal}"
            return
        paid = ledger.spent[0]
        if relation in RELATIONS["fits"]:
            assert paid >= (2 - 1e-9) * cost, f"two fits cost {paid}, one costs {cost}"
        try:
            said = case.answers(model)
        except REFUSALS:
            assert ledger.spent[0] == paid
            return
    if how.warned and {type(each.message).__name__ for each in seen} - warned:
        return
    compare(before, said, exact=how.exact)


def compare(before: dict[str, Any], said: dict[str, Any], *, exact: bool) -> None:
    """Compare what two models say: the same, or much the same."""
    assert before.keys() == said.keys()
    for name, old in before.items():
        new = said[name]
        assert np.shape(new) == np.shape(old), name
        if np.asarray(old).dtype.kind not in "biuf" or name == "classes":
            assert np.array_equal(old, new), (name, old, new)
        elif exact:
            np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-6, err_msg=name)
        elif np.ndim(old) == 0:
            assert new >= old - 0.1, (name, old, new)
        else:
            assert np.mean(np.abs(new - old)) <= 0.25 * np.std(old) + 0.05, (name, old, new)


@pytest.mark.parametrize("outer", [2, 4, 5])
@pytest.mark.parametrize("inner", [2, 4, 5])
def test_folds_within_folds(outer, inner):
    """Each inner fold has its share of the users, or is refused by the name of what makes it empty."""
    users = np.arange(3000) // 3
    Z = np.zeros((len(users), 1))
    for rows, _ in UserKFold(outer).split(Z, groups=users):
        try:
            sizes = [len(test) for _, test in UserKFold(inner).split(Z[rows], groups=users[rows])]
        except ValueError as error:
            assert "key" in str(error), error
            continue
        assert min(sizes) > 0.5 * len(rows) / inner, sizes
