"""Estimators, and the roads on which rows come to them: what the metamorphic suite goes through.

A new estimator, or a new way to put one into something else, belongs in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline

import skprivate as sp
from skprivate.aggregate import bags_from_sql
from skprivate.model_selection import PrivateSearchCV
from skprivate.partitions import Blocks
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateOneHotEncoder,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicScaler,
    make_additive_pipeline,
    make_private_pipeline,
)
from skprivate.privacy import PrivacyLedger, public_generator

#: What the columns hold, in the words of `make_private_pipeline`. All entries are whole, so that every type has them.
SCHEMA = {"a": (-32, 32), "b": (-32, 32)}
#: Little noise: two results that differ by more than rounding differ in what they were computed from.
EPSILON = 1e4


@dataclass(frozen=True)
class Case:
    """One fit, and what the fitted model is asked."""

    estimator: Any
    road: Road
    X: Any
    y: Any
    rows: dict[str, Any]  # further arguments of fit, one entry a row
    asked: Any
    truth: Any
    schema: dict[str, Any]
    #: What comes between the parts: after the whole model was built, in its fit, and before its answers are compared.
    made: Callable[[Any], Any] = lambda model: model
    fit: Callable[[Any, Case], Any] = lambda model, case: case.road.fit(model, case)
    read: Callable[[dict[str, Any]], dict[str, Any]] = lambda answers: answers

    def given(self, **options: Any) -> Case:
        """Give the estimator other parameters."""
        return replace(self, estimator=clone(self.estimator).set_params(**options))

    def built(self) -> Any:
        """Put the estimator where it is on its road."""
        return self.road.build(clone(self.estimator), self.schema)

    def fitted(self, ledger: PrivacyLedger) -> Any:
        """Fit the whole model, all parts of which charge the ledger."""
        with config_context(enable_metadata_routing=True):
            return self.fit(charged(self.made(self.built()), ledger), self)

    def answers(self, model: Any) -> dict[str, Any]:
        """Ask a fitted model everything that it can tell."""
        return self.read(answers(model, self.asked, self.truth))


def new_ledger() -> PrivacyLedger:
    """A budget for everything, per row or per user, as the first release has it."""
    return PrivacyLedger(epsilon=1e12, delta=0.5, composition="basic")


def charged(model: Any, ledger: PrivacyLedger | None) -> Any:
    """Set the ledger of a model and of all its parts."""
    names = [name for name in model.get_params() if name.rpartition("__")[2] == "ledger"]
    return model.set_params(**dict.fromkeys(names, ledger))


def answers(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """What a fitted model says of rows, by the names of what is said: numbers, or labels."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, sp.MetricPrivateSynthesizer | sp.PrivateTableSynthesizer):
        return {"sample": numbers(last.sample(50, random_state=0))}
    if isinstance(last, sp.UserLevelMean):
        return {"mean": numbers(last.mean_)}
    if not hasattr(model, "predict"):
        return {"transformed": numbers(model.transform(X))}
    said = {"score": model.score(X, y), "prediction": np.asarray(model.predict(X))}
    if is_classifier(model):
        said["classes"] = np.asarray(model.classes_)
    if hasattr(model, "predict_proba"):
        said["probability"] = numbers(model.predict_proba(X))
        said["auc"] = get_scorer("roc_auc")(model, X, y)
    return said


def numbers(table: Any) -> Any:
    """Convert a table or an array of any library to float64."""
    table = table.toarray() if hasattr(table, "toarray") else table
    return np.asarray(table.to_pandas() if hasattr(table, "to_pandas") else table, dtype=np.float64)


# Estimators -----------------------------------------------------------------------------------------------------------

FAST: dict[str, Any] = {"epsilon": EPSILON, "random_state": 0}
RIDGE = {"buckets": False, "prior": "ridge", **FAST}
_LINES = [
    (name, FrozenEstimator(LinearRegression().fit(pd.DataFrame(np.eye(2), columns=["a", "b"]), target)))
    for name, target in (("good", [2.0, -1.0]), ("bad", [-1.0, 3.0]))
]


def _keyed(model: Any) -> Any:
    with config_context(enable_metadata_routing=True):
        return model.set_fit_request(row_keys=True)


def _mixture(**options: Any) -> Any:
    return sp.PPMHalfspaceClassifier(classes=[0, 1], strategy="thinned", max_halfspaces=1, **options, **FAST)


#: By name: an estimator, and what is in its rows beside features and target.
ESTIMATORS: dict[str, tuple[Any, str]] = {
    "users-numbers": (sp.UserLevelSGDRegressor(max_iter=5, **FAST), "user_ids"),
    "users-classes": (sp.UserLevelSGDClassifier(max_iter=5, classes=[0, 1], **FAST), "user_ids"),
    "users-mean": (sp.UserLevelMean(**FAST), "user_ids"),
    "users-selector": (sp.UserLevelSelector(_LINES, **FAST), "user_ids"),
    "curated-classes": (sp.CuratedBagGAMClassifier(classes=[0, 1], max_iter=30, n_bins=4, **FAST), ""),
    "curated-numbers": (sp.CuratedBagGAMRegressor(max_iter=30, n_bins=4, **FAST), ""),
    "random-classes": (
        _keyed(sp.RandomBagClassifier(classes=[0, 1], buckets=False, prior="ridge", **FAST)),
        "row_keys",
    ),
    "random-numbers": (_keyed(sp.RandomBagRegressor(**RIDGE)), "row_keys"),
    "mixture": (_mixture(private_label=1), ""),
    "mixture-mask": (_mixture(), "private"),
    "synthesizer": (sp.MetricPrivateSynthesizer(bounds=(-32, 32), resolution=4, **FAST), ""),
    "synthetic tables": (sp.PrivateTableSynthesizer(**FAST), "user_ids"),
    "privatizer": (sp.MetricPrivatizer(bounds=(-32, 32), **FAST), ""),
    "imputer": (PrivateImputer(**FAST), "user_ids"),
    "scaler": (PrivateStandardScaler(**FAST), "user_ids"),
    "bins": (PrivateKBinsDiscretizer(**FAST), "user_ids"),
    "categories": (PrivateOneHotEncoder(max_categories=64, **FAST), "user_ids"),
    "quantiles": (PrivateQuantileTransformer(n_quantiles=5, **FAST), "user_ids"),
    "splines": (PrivateSplineTransformer(**FAST), "user_ids"),
}


def new_case(estimator: str, road: str) -> Case:
    """240 rows of 80 users, in whole numbers; an index that is not their position."""
    model, beside = ESTIMATORS[estimator]
    rng, n = public_generator(0), 240
    index = rng.permutation(n) + 1000
    X = pd.DataFrame(rng.integers(-32, 32, size=(n, 2)), columns=["a", "b"], index=index, dtype=float)
    y = (2 * X.a - X.b).astype(int) + rng.integers(-8, 8, size=n)
    if is_classifier(model):
        y = (y > 0).astype(int)
    columns = {
        "user_ids": np.arange(n) // 3 * 7,
        "row_keys": np.arange(n),
        "private": np.asarray(y == 1) & (np.arange(n) % 2 == 0),
    }
    if road == "blocks" and (transforms(model) or isinstance(model, sp.PrivateTableSynthesizer)):
        beside = ""  # in blocks they protect rows
    rows = {beside: pd.Series(columns[beside], index=index)} if beside else {}
    y = y if is_classifier(model) or is_regressor(model) else None
    truth = None if y is None else y[:80]
    return Case(clone(model), ROADS[road], X, y, rows, X[:80], truth, dict(SCHEMA))


# Roads ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Road:
    """A way to put an estimator into something else, and to fit that."""

    build: Callable[[Any, dict[str, Any]], Any]
    takes: Callable[[Any], bool]
    #: Which arguments we see together, with their indices: scikit-learn makes an array of X or of y on some roads.
    compares: tuple[str, ...] = ("X y", "X rows", "y rows", "score")
    fit: Callable[[Any, Case], Any] = lambda model, case: model.fit(case.X, case.y, **case.rows)


def predicts(model: Any) -> bool:
    return is_classifier(model) or is_regressor(model)


def transforms(model: Any) -> bool:
    return hasattr(model, "transform")


def _each_time(model: Any) -> bool:
    return getattr(model, "releases_in", "fit") == "transform"


def _linear(model: Any) -> bool:
    return isinstance(model, sp.UserLevelSGDRegressor | sp.UserLevelSGDClassifier)


def _from_bags(model: Any) -> bool:
    return isinstance(model, sp.CuratedBagGAMClassifier | sp.CuratedBagGAMRegressor)


def _columns(model: Any, schema: dict[str, Any]) -> Any:
    a, b = schema
    parts = [(a, PublicScaler.from_bounds(*schema[a]), [a]), (b, PublicScaler.from_bounds(*schema[b]), [b])]
    return Pipeline([("columns", ColumnTransformer(parts)), ("model", model)])


def _voting(model: Any, schema: dict[str, Any]) -> Any:
    members = [("one", model), ("two", clone(model))]
    if is_regressor(model):
        return VotingRegressor(members)
    return VotingClassifier(members, voting="soft" if hasattr(model, "predict_proba") else "hard")


def _private_search(model: Any, schema: dict[str, Any]) -> Any:
    bounds = None if is_classifier(model) else (-400.0, 0.0)
    scoring = "accuracy" if is_classifier(model) else "neg_mean_absolute_error"
    return PrivateSearchCV(model, {}, n_iter=1, score_bounds=bounds, scoring=scoring, **FAST)


def _grid_search(model: Any, schema: dict[str, Any]) -> Any:
    return GridSearchCV(model, {"epsilon": [EPSILON]}, cv=KFold(2))


def _fit_blocks(model: Any, case: Case) -> Any:
    """Fit rows in four blocks, in which target, identifiers and the like are columns."""
    named = {name: f"{name} of the row" for name in case.rows}
    beside = {named[name]: values for name, values in case.rows.items()}
    whole = _beside(case.X, {"target": case.y, **beside})
    size = -(-len(case.X) // 4)
    parts = [whole[k : k + size] if hasattr(whole, "iloc") else whole.slice(k, size) for k in range(0, 4 * size, size)]
    return model.fit(Blocks(parts), *["target"] * (case.y is not None), **named)


def _beside(X: Any, columns: dict[str, Any]) -> Any:
    """Put columns beside a table of the same library; pandas does so by their index."""
    columns = {name: values for name, values in columns.items() if values is not None}
    if hasattr(X, "assign"):
        return X.assign(**columns)
    if hasattr(X, "with_columns"):
        return X.with_columns(**columns)
    for name, values in columns.items():
        X = X.append_column(name, values)
    return X


def _fit_tables(model: Any, case: Case) -> Any:
    """Fit from GROUP BY tables, in which a database has added up the labels."""
    fetch = {"pandas": "df", "polars": "pl", "pyarrow": "to_arrow_table"}[type(case.X).__module__.partition(".")[0]]
    sums, added = "total", "SUM(target) AS total"
    if is_classifier(model):
        sums = {label: f"rows of {label}" for label in model.classes}
        added = ", ".join(f'COUNT(*) FILTER (target = {label!r}) AS "{name}"' for label, name in sums.items())
    with _visits(case) as connection:
        queries = [
            f'SELECT "{a}", COUNT(*) AS n, {added} FROM visits GROUP BY "{a}" ORDER BY "{a}"' for a in case.schema
        ]
        tables = [getattr(connection.sql(query), fetch)() for query in queries]
    return model.fit_bags(case.X, sp.CuratedBags.from_frames(tables, count="n", sums=sums))


def _fit_sql(model: Any, case: Case) -> Any:
    """Fit from what a database groups and adds up."""
    more = {"classes": model.classes} if is_classifier(model) else {"label_bounds": (-128, 128)}
    with _visits(case) as connection:
        bags = bags_from_sql(
            connection, "visits", list(case.schema), "target", epsilon=EPSILON, random_state=0, ledger=model.ledger,
            n_bins=4, **more,
        )  # fmt: skip
    return model.fit_bags(case.X, bags)


@contextmanager
def _visits(case: Case) -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.register("visits", _beside(case.X, {"target": case.y}))
        yield connection


#: By name.
ROADS: dict[str, Road] = {
    "bare": Road(lambda model, schema: model, lambda model: True),
    "pipeline": Road(
        lambda model, schema: Pipeline([("scale", PublicScaler(scale=4.0)), ("model", model)]),
        lambda model: True,
        compares=("X y", "y rows"),
    ),
    "before": Road(
        lambda model, schema: Pipeline([("first", model), ("model", sp.UserLevelMean(**FAST))]),
        lambda model: transforms(model) and not _each_time(model),
    ),
    "schema": Road(lambda model, schema: make_private_pipeline(model, schema), predicts),
    "types": Road(lambda model, schema: make_private_pipeline(model), predicts),
    "additive": Road(lambda model, schema: make_additive_pipeline(model), _linear),
    "columns": Road(_columns, lambda model: True, compares=("X y", "y rows")),
    "union": Road(lambda model, schema: FeatureUnion([("one", model), ("two", PublicScaler(scale=2.0))]), transforms),
    "voting": Road(_voting, predicts, compares=("X rows",)),
    "private search": Road(_private_search, lambda model: predicts(model) and not hasattr(model, "bag_size")),
    "grid search": Road(_grid_search, predicts),
    "blocks": Road(lambda model, schema: model, lambda model: not _each_time(model), _fit_blocks),
    "tables": Road(lambda model, schema: model, _from_bags, _fit_tables),
    "sql": Road(lambda model, schema: model, _from_bags, _fit_sql),
}
