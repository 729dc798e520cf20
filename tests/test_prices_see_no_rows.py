"""A price never sees a private row: quotes and plans are equal on all data of one shape."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.variants import VARIANTS
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - scikit-learn's switch
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skprivate import NoGuaranteeError, UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.inspection import quote
from skprivate.model_selection import PrivateSearchCV, UserKFold, fit_folds
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicScaler,
    make_additive_pipeline,
)
from skprivate.privacy import PrivacyLedger, PrivacyUnit, public_generator
from skprivate.privacy._events import run_tape
from skprivate.privacy.noise import _selection
from skprivate.utils._data import equal_leaves, fitted_leaves
from skprivate.utils._neighbours import environments, private_rows

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]
_CIRCUMSTANCES = ("id", "opened", "closed", "process_id", "simulated", "parameters")


def prices(entries):
    return [{key: value for key, value in entry.to_dict().items() if key not in _CIRCUMSTANCES} for entry in entries]


# --- single estimators -------------------------------------------------------------------------------------------


class Watching:
    """A tape that keeps what is drawn from."""

    def __init__(self):
        self.seen = []

    def draw(self, draw, sample):
        self.seen.append((draw.kind, draw.statistic))
        return sample()


def dry_fit(estimator, data):
    """Prices, what was drawn from, and all that a fit on a dry run leaves."""
    ledger = PrivacyLedger(epsilon=1e9, delta=0.9, composition="basic", dry_run=True)
    model = clone(estimator).set_params(ledger=ledger, random_state=0)
    tape = Watching()
    with run_tape(tape):
        model.fit(data.X, data.y, **data.metadata)
        left = {name: leaf for name, leaf in fitted_leaves(model).items() if "ledger_entry" not in name}
        if getattr(model, "releases_in", "fit") == "transform":
            left["released"] = np.asarray(model.transform(data.X), dtype=object)
    assert tape.seen
    for k, (kind, statistic) in enumerate(tape.seen):
        # Candidates of a selection stand in categories, whose number is private; their own number is not.
        left[f"draw {k}, {kind}"] = np.any(statistic) if kind.startswith("select") else statistic
    return prices(ledger.entries()), left, PrivacyUnit(model.privacy_guarantee_.unit)


def others(data, unit):
    """Data in which everything private is another: shuffled, alike, zeros, huge, subnormal."""
    nobody = np.zeros(0, dtype=int)
    yield from environments(data, unit, nobody, public_generator(1))
    if unit is PrivacyUnit.PRIVATE_ROW:
        return
    rows = np.flatnonzero(private_rows(data, unit))
    for value in (0.0, 1e200, -5e-324):
        if data.X.dtype.kind == "f" and unit is not PrivacyUnit.LABEL:
            yield data.with_rows(rows, np.full((rows.size, data.X.shape[1]), value))
        if data.y is not None and data.y.dtype.kind == "f":
            yield data.with_rows(rows, y=value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(VARIANTS, key=lambda kind: kind.__name__), ids=lambda k: k.__name__)
def test_a_dry_run_draws_from_zeros_and_is_the_same_on_all_data(kind):
    """Prices and attributes, to the last bit."""
    cases = VARIANTS[kind]
    step = max(1, len(cases) // (2 if kind.__module__.startswith("skprivate.aggregate") else 5))
    for k, (estimator, make_data) in list(enumerate(cases))[::step]:
        data = make_data(estimator, public_generator(k), 20)
        with (
            mock.patch.object(_selection, "exponential_select", side_effect=AssertionError),
            mock.patch.object(_selection, "permute_and_flip_select", side_effect=AssertionError),
        ):
            paid, left, unit = dry_fit(estimator, data)
        if unit is not PrivacyUnit.ROW or "metric" not in paid[0]["adjacency"]:  # their fit draws from a public row
            drawn = [leaf for name, leaf in left.items() if name.startswith("draw ")]
            assert not any(map(np.any, drawn)), estimator
        for other in others(data, unit):
            also_paid, also_left, _ = dry_fit(estimator, other)
            assert also_paid == paid, estimator
            assert also_left.keys() == left.keys(), estimator
            changed = [name for name in left if not np.all(equal_leaves(left[name], also_left[name]))]
            assert not changed, (estimator, changed[:3])


# --- composites --------------------------------------------------------------------------------------------------

N = 120
USERS = np.arange(N)


def tables():
    """Names, features and numbers of data of one shape."""
    rng = public_generator(3)
    ordinary = rng.normal(size=(N, 3))
    yield "ordinary", ordinary, ordinary.sum(axis=1)
    yield "zeros", np.zeros((N, 3)), np.zeros(N)
    yield "constant", np.full((N, 3), 7.0), np.full(N, -3.0)
    yield "ties", rng.integers(0, 2, size=(N, 3)).astype(float), rng.integers(0, 2, size=N).astype(float)
    yield "huge", 1e200 * ordinary, 1e200 * rng.normal(size=N)
    yield "tiny", 1e-200 * ordinary, 1e-200 * rng.normal(size=N)
    yield "heavy tails", rng.standard_cauchy(size=(N, 3)), rng.standard_cauchy(size=N)
    yield "one outlier", np.vstack([np.zeros((N - 1, 3)), np.full((1, 3), 1e9)]), np.eye(1, N, 5)[0] * 1e9
    yield "reversed", ordinary[::-1].copy(), -ordinary.sum(axis=1)


TABLES = list(tables())


def number(**options):
    return UserLevelSGDRegressor(**{"epsilon": 0.5, "max_iter": 2, **options})


def label(**options):
    return UserLevelSGDClassifier(**{"epsilon": 0.5, "classes": [0, 1], "max_iter": 2, **options})


GRID = {"epsilon": [0.5, 1.0]}
#: Name to composite, and whether its targets are labels.
COMPOSITES = {
    "scaler": (make_pipeline(PrivateStandardScaler(0.5), number()), False),
    "scaler, labels": (make_pipeline(PrivateStandardScaler(0.5), label()), True),
    "imputer, quantiles": (make_pipeline(PrivateImputer(0.5), PrivateQuantileTransformer(0.5), number()), False),
    "splines": (make_pipeline(PrivateSplineTransformer(0.5), number()), False),
    "ordinal bins": (make_pipeline(PrivateKBinsDiscretizer(0.5, encode="ordinal"), number()), False),
    "bins at the end": (make_pipeline(PrivateStandardScaler(0.5), PrivateKBinsDiscretizer(0.5)), False),
    "columns": (
        make_pipeline(
            ColumnTransformer([("a", PrivateStandardScaler(0.5), [0, 1]), ("b", PrivateSplineTransformer(0.5), [2])]),
            number(),
        ),
        False,
    ),
    "union": (
        make_pipeline(
            FeatureUnion([("a", PrivateStandardScaler(0.5)), ("b", PrivateQuantileTransformer(0.5))]), number()
        ),
        False,
    ),
    "voting": (VotingRegressor([("a", number()), ("b", make_pipeline(PrivateStandardScaler(), number()))]), False),
    "bagging": (BaggingRegressor(number(), n_estimators=2, bootstrap=False, random_state=0), False),
    "one for each label": (OneVsRestClassifier(label(classes=None)), True),
    "target": (
        TransformedTargetRegressor(number(), transformer=PrivateStandardScaler(0.5), check_inverse=False),
        False,
    ),
    "grid": (GridSearchCV(number(), GRID, cv=UserKFold(2)), False),
    "random search": (RandomizedSearchCV(number(), GRID, n_iter=1, cv=UserKFold(2), random_state=0), False),
    "halving": (
        HalvingGridSearchCV(
            number(), {"epsilon": [0.5, 1.0]}, cv=UserKFold(2), resource="max_iter", max_resources=4, factor=2
        ),
        False,
    ),
    "grid of pipelines": (
        GridSearchCV(
            make_pipeline(PrivateStandardScaler(0.5), number()),
            {"privatestandardscaler": [PrivateStandardScaler(0.2), PublicScaler()]},
            cv=UserKFold(2),
        ),
        False,
    ),
    "private search": (
        PrivateSearchCV(
            make_pipeline(PrivateStandardScaler(0.5), number()),
            {"userlevelsgdregressor__alpha": [0.0, 0.1]},
            n_iter=1,
            score_bounds=(-9.0, 0.0),
        ),
        False,
    ),
    "private search, labels": (PrivateSearchCV(label(), {"alpha": [0.0, 0.1]}, n_iter=1), True),
    "chain": (RegressorChain(number()), None),
    "additive": (make_additive_pipeline(number()), False),
}


def targets(y, labels):
    if labels is None:
        return np.column_stack([y, y])
    # Classes are public, who has them is not.
    return np.r_[0, 1, (y[2:] > 0).astype(int)] if labels else y


def quoted(model, X, y, **metadata):
    ledger = PrivacyLedger(epsilon=1e3, delta=0.1)
    with config_context(enable_metadata_routing=True):
        quoted = quote(model, X, y, **metadata, ledger=ledger)
    assert ledger.spent == (0.0, 0.0) and not ledger.entries()
    return prices(quoted.entries), quoted.cost, quoted.exact


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("name", COMPOSITES)
def test_quotes_are_equal_on_all_data_of_one_shape(name):
    model, labels = COMPOSITES[name]
    ids = {} if name == "target" else {"user_ids": USERS}  # scikit-learn hands a transformer of the target none
    found = {what: quoted(clone(model), X, targets(y, labels), **ids) for what, X, y in TABLES}
    first = found.pop("ordinary")
    assert first[0]
    assert {what for what, other in found.items() if other != first} == set()


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda X: pl.DataFrame(X), lambda X: pa.table(pd.DataFrame(X))])
def test_quotes_of_frames_are_equal(kind):
    model = make_pipeline(PrivateStandardScaler(0.5), number())
    found = []
    for _, X, y in TABLES[:3]:
        columns = {name: X[:, k] for k, name in enumerate("abc")}
        frame = pa.table(columns) if kind is pa.table else kind(pd.DataFrame(columns).to_dict("list"))
        found.append(quoted(model, frame, y, user_ids=USERS))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize("labels", [False, True])
def test_plans_of_searches_and_prices_of_folds_are_equal_on_all_data_of_one_shape(labels):
    scaled = make_pipeline(PrivateStandardScaler(0.5), label() if labels else number())
    last = scaled.steps[-1][0]
    plans, reserved = [], []
    for _, X, y in TABLES:
        search = PrivateSearchCV(
            scaled, {f"{last}__alpha": [0.0, 0.1]}, n_iter=1, score_bounds=(-1.0, 1.0), error_score=np.nan
        )
        plans.append(search.fit(X, targets(y, labels), user_ids=USERS).search_plan_)
        ledger = PrivacyLedger(epsilon=1e3, delta=0.1, unit="user", adjacency="replace-one")
        with config_context(enable_metadata_routing=True):
            fit_folds(scaled, X, targets(y, labels), user_ids=USERS, ledger=ledger, cv=UserKFold(3))
        reserved.append(prices(ledger.entries()))
    assert all(plan == plans[0] for plan in plans)
    assert all(price == reserved[0] for price in reserved)


# --- what has no price -------------------------------------------------------------------------------------------

#: Composites whose price would look at private rows, and what is said of them.
LOOKING = {
    "variance": (make_pipeline(VarianceThreshold(), number()), r"VarianceThreshold\)"),
    "choice": (make_pipeline(SelectKBest(k=1), number()), r"SelectKBest\)"),
    "scaler": (make_pipeline(StandardScaler(), number()), r"StandardScaler\)"),
    "components": (make_pipeline(PCA(n_components=0.9), number()), r"PCA\)"),
    "categories": (make_pipeline(OneHotEncoder(sparse_output=False), number()), r"OneHotEncoder\)"),
    "inner folds": (make_pipeline(SelectFromModel(LassoCV()), number()), r"LassoCV\)"),
    "a member": (VotingRegressor([("a", number()), ("b", LinearRegression())]), r"LinearRegression\)"),
    "a candidate": (
        GridSearchCV(
            Pipeline([("first", PublicScaler()), ("last", number())]),
            [{"first": [PublicScaler()]}, {"first": [PublicScaler(), VarianceThreshold()], "last__alpha": [0.1, 1]}],
            cv=UserKFold(2),
        ),
        r"VarianceThreshold\)",
    ),
    "a parameter of a candidate": (
        RandomizedSearchCV(
            make_pipeline(OneHotEncoder(categories=[[0.0]] * 3, sparse_output=False), number()),
            {"onehotencoder__categories": [[[0.0]] * 3, "auto"]},
            cv=UserKFold(2),
        ),
        r"OneHotEncoder\)",
    ),
    "a search in a search": (
        GridSearchCV(
            GridSearchCV(make_pipeline(PublicScaler(), number()), {}, cv=2),
            {"param_grid": [{"publicscaler": [StandardScaler()]}]},
            cv=UserKFold(2),
        ),
        r"StandardScaler\)",
    ),
}
SOME = SelectFromModel(number())
#: Chains behind whose first step draws depend on how many columns it releases.
RELEASED = {
    "bins": make_pipeline(PrivateKBinsDiscretizer(0.5), number()),
    "bins among columns": make_pipeline(
        ColumnTransformer([("bins", PrivateKBinsDiscretizer(0.5), [0]), ("rest", PublicScaler(), [1, 2])]),
        PublicScaler(),
        number(),
    ),
    "chosen columns": make_pipeline(SOME, number()),
    "bins before a private scaler": make_pipeline(PrivateKBinsDiscretizer(), PrivateStandardScaler()),
}


def refusals(model, match):
    """What quotes, searches and folds say on two data sets; nothing is spent."""
    said = set()
    for _, X, y in TABLES[:2]:
        ledger = PrivacyLedger(epsilon=1e3, delta=0.1, unit="user", adjacency="replace-one")
        for ask in (
            lambda: quote(model, X, y, user_ids=USERS, ledger=ledger),  # noqa: B023
            lambda: fit_folds(model, X, y, user_ids=USERS, ledger=ledger, cv=UserKFold(2)),  # noqa: B023
        ):
            with config_context(enable_metadata_routing=True), pytest.raises(ValueError, match=match) as caught:
                ask()
            said.add(str(caught.value))
        assert ledger.spent == (0.0, 0.0) and not ledger.entries()
    assert len(said) == 1
    return caught.value


@pytest.mark.parametrize("name", LOOKING)
def test_no_price_is_asked_of_what_looks_at_private_rows(name):
    model, who = LOOKING[name]
    assert isinstance(refusals(model, rf"(?s)must not look at private rows unprotected.*{who}"), NoGuaranteeError)


@pytest.mark.parametrize("name", RELEASED)
def test_no_price_is_asked_of_draws_behind_a_released_number_of_columns(name):
    model = RELEASED[name]
    message = r"behind .*which may decide by what it releases how many columns.*encode='ordinal'.*Nothing was drawn"
    refusals(model, message)
    if hasattr(model, "predict"):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        search = PrivateSearchCV(model, {}, n_iter=1, score_bounds=(-9.0, 0.0), ledger=ledger)
        for _, X, y in TABLES:
            with pytest.raises(ValueError, match=message):
                search.fit(X, y)
        assert not ledger.entries()


# --- folds -------------------------------------------------------------------------------------------------------

FOLDS = {
    "labels": (GridSearchCV(label(), GRID, cv=3), True, "StratifiedKFold.*UserKFold"),
    "positions": (GridSearchCV(number(), GRID, cv=3), False, "splits by position.*UserKFold"),
    "a splitter": (HalvingGridSearchCV(number(), GRID, cv=KFold(3)), False, "splits by position.*UserKFold"),
    "in a pipeline": (make_pipeline(PublicScaler(), GridSearchCV(label(), GRID)), True, "StratifiedKFold"),
    "splits": (GridSearchCV(number(), GRID, cv=[(USERS[:50], USERS[50:])]), False, "UserKFold"),
}


@pytest.mark.parametrize("name", FOLDS)
def test_folds_that_move_others_have_no_total(name):
    model, labels, match = FOLDS[name]
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="user", adjacency="replace-one")
    _, X, y = TABLES[0]
    with config_context(enable_metadata_routing=True), pytest.raises(ValueError, match=match):
        quote(model, X, targets(y, labels), user_ids=USERS, ledger=ledger)
    assert not ledger.entries()


def test_folds_by_labels_are_refused_before_they_are_made():
    """Sizes of the folds, and errors of who makes them, tell of labels."""
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="row", adjacency="replace-one")
    labels = np.r_[1, np.zeros(N - 1, int)]  # one of a kind: three folds cannot all have it
    with pytest.raises(ValueError, match="cv=StratifiedKFold is not private for unit='row'"):
        quote(GridSearchCV(label(), GRID, cv=3, error_score="raise"), TABLES[0][1], labels, ledger=ledger)


@pytest.mark.slow
def test_folds_by_position_are_good_for_rows_whose_number_is_public():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="row", adjacency="replace-one")
    quoted = quote(GridSearchCV(number(), GRID, cv=3), TABLES[0][1], TABLES[0][2], ledger=ledger)
    assert len(quoted.entries) == 7
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="row", adjacency="add-remove")
    model = UserLevelMean(adjacency="add-remove")
    with pytest.raises(ValueError, match=r"cv=KFold is not private for unit='row'.*UserKFold"):
        quote(GridSearchCV(model, GRID, cv=3, scoring=lambda *_: 0.0), TABLES[0][1], ledger=ledger)
