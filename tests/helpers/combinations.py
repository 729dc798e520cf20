"""What happens when users combine things: each entry is tried by `test_combinations.py`, and all of them are printed
on `docs/guide/combinations.md`.

    python tests/helpers/combinations.py        writes the page again
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - scikit-learn's switch
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from skprivate import (
    BudgetExceededError,
    CuratedBagGAMClassifier,
    FiniteAdversaryAuditor,
    MetricPrivateSynthesizer,
    MetricPrivatizer,
    NoGuaranteeError,
    PPMHalfspaceClassifier,
    PrivacyLedger,
    RandomBagClassifier,
    RandomBagRegressor,
    UserLevelMean,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    audit_estimator,
    check_pipeline,
    guarantee_of,
    make_curated_bags,
)
from skprivate.inspection import quote
from skprivate.model_selection import UserKFold, check_cv
from skprivate.preprocessing import PrivateImputer, PrivateStandardScaler, PublicOneHotEncoder, PublicScaler
from skprivate.privacy import SimulatedNoiseError, forbid_simulated_noise, public_generator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "combinations.md"


def data() -> SimpleNamespace:
    """300 rows of 100 users; three features in [0, 1]."""
    rng = public_generator(0)
    d = SimpleNamespace(X=rng.uniform(size=(300, 3)), users=np.arange(300) // 3)
    d.y = d.X @ [1.0, 2.0, -1.0]
    d.labels = (d.y > 1).astype(int)
    d.three = np.arange(300) % 3
    d.names = np.where(d.labels, "good", "bad")
    d.frame = pd.DataFrame(d.X, columns=["age", "height", "dose"])
    d.gaps = d.X.copy()
    d.gaps[5, 1] = np.nan
    return d


# What may happen ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Works:
    """The whole model has a guarantee, which `guarantee_of` states."""

    unit: str
    epsilon: float | None = None
    note: str = ""
    released: bool = True

    def check(self, run: Callable[[], Any]) -> None:
        guarantee = guarantee_of(run())
        assert guarantee.unit == self.unit, guarantee
        assert self.epsilon is None or abs(guarantee.epsilon - self.epsilon) <= 0.01 * self.epsilon, guarantee
        assert guarantee.valid_for_release == self.released, guarantee

    def cells(self) -> tuple[str, str]:
        epsilon = "" if self.epsilon is None else f"ε = {self.epsilon:g} "
        what = f"{epsilon}for one {self.unit}" + ("" if self.released else ", **not valid for release**")
        return "works", f"{what}{self.note and ': '}{self.note}"


@dataclass(frozen=True)
class Unguarded:
    """It runs, and `guarantee_of` refuses to promise anything, in these words."""

    words: str
    note: str = ""

    def check(self, run: Callable[[], Any]) -> None:
        said = _said_by(NoGuaranteeError, lambda: guarantee_of(run()))
        assert self.words in said, said

    def cells(self) -> tuple[str, str]:
        return "runs, **no guarantee**", f"“… {self.words} …”{self.note and ' '}{self.note}"


@dataclass(frozen=True)
class Refused:
    """An error, with these words."""

    error: type[Exception]
    words: str
    note: str = ""

    def check(self, run: Callable[[], Any]) -> None:
        said = _said_by(self.error, run)
        assert self.words in said, said

    def cells(self) -> tuple[str, str]:
        shown = self.words.partition(": ")[0].removesuffix(" …")
        return f"refused, `{self.error.__name__}`", f"“… {shown} …”{self.note and ' '}{self.note}"


@dataclass(frozen=True)
class Plain:
    """It runs and is no fit to private rows, so that no guarantee is asked for."""

    note: str

    def check(self, run: Callable[[], Any]) -> None:
        run()

    def cells(self) -> tuple[str, str]:
        return "works", self.note


def _said_by(error: type[Exception], run: Callable[[], Any]) -> str:
    try:
        run()
    except error as caught:
        return " ".join(str(caught).split())
    raise AssertionError(f"no {error.__name__} was raised.")


@dataclass(frozen=True)
class Line:
    """One combination."""

    topic: str
    tried: str
    run: Callable[[SimpleNamespace], Any]
    outcome: Works | Unguarded | Refused | Plain
    warns: str = ""
    needs: str = ""
    since: tuple[int, int] = (1, 6)

    @property
    def name(self) -> str:
        return self.run.__name__

    def check(self) -> None:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.outcome.check(lambda: self.run(data()))
        said = "\n".join(str(one.message) for one in seen)
        assert self.warns in said, said


LINES: list[Line] = []
_TOPICS: list[str] = []


def topic(text: str) -> None:
    _TOPICS.append(text)


def line(
    tried: str, outcome: Any, *, warns: str = "", needs: str = "", since: tuple[int, int] = (1, 6)
) -> Callable[[Any], Any]:
    def add(run: Callable[[SimpleNamespace], Any]) -> Callable[[SimpleNamespace], Any]:
        LINES.append(Line(_TOPICS[-1], tried, run, outcome, warns, needs, since))
        return run

    return add


def regressor(epsilon: float = 1.0, **options: Any) -> UserLevelSGDRegressor:
    return UserLevelSGDRegressor(epsilon, radius=3.0, max_iter=5, **options)


def classifier(epsilon: float = 1.0, **options: Any) -> UserLevelSGDClassifier:
    return UserLevelSGDClassifier(epsilon, max_iter=5, **options)


def named(kind: Any) -> Any:
    return kind(classes=["bad", "good"])


def routing() -> Any:
    return config_context(enable_metadata_routing=True)


# ----------------------------------------------------------------------------------------------------------------------
topic("Whom the guarantee protects")


@line("`UserLevelSGDRegressor().fit(X, y, user_ids=ids)`", Works("user"))
def with_ids(d):
    return regressor().fit(d.X, d.y, user_ids=d.users)


@line("the same without `user_ids`", Works("row", note="one of a person's many rows, not the person"))
def without_ids(d):
    return regressor().fit(d.X, d.y)


@line("`UserLevelSGDClassifier`, `UserLevelMean` without `user_ids`", Works("row"))
def others_without_ids(d):
    assert guarantee_of(UserLevelMean().fit(d.X)).unit == "row"
    return classifier().fit(d.X, d.labels)


@line("`UserLevelSelector` among models fitted on public rows, without `user_ids`", Works("row"))
def selector_without_ids(d):
    models = [(name, FrozenEstimator(LinearRegression().fit(d.X, d.y * k))) for name, k in (("a", 1), ("b", 2))]
    return UserLevelSelector(models).fit(d.X, d.y)


@line("`user_ids` as a column of strings, of pandas, polars or pyarrow", Works("user"))
def ids_of_frames(d):
    names = [f"patient {k}" for k in d.users]
    for ids in (pl.Series(names), pa.array(names), names):
        regressor().fit(d.X, d.y, user_ids=ids)
    return regressor().fit(d.X, d.y, user_ids=pd.Series(names, dtype="category"))


@line('`user_ids` with 1 and "1"', Refused(TypeError, "all of one kind"))
def ids_of_two_kinds(d):
    return regressor().fit(d.X, d.y, user_ids=[1, "1"] + [2] * 298)


@line(
    "`user_ids` as floats (a pandas column with a gap becomes one)", Refused(TypeError, "got entries of type float64")
)
def ids_of_floats(d):
    return regressor().fit(d.X, d.y, user_ids=d.users.astype(float))


@line("`user_ids` of pandas in another order than `X`", Refused(ValueError, "must have the same index"))
def other_order(d):
    X, users = pd.DataFrame(d.X), pd.Series(d.users)
    return regressor().fit(X, d.y, user_ids=users.sort_values(ascending=False))


@line("`user_ids` of another length", Refused(ValueError, "one entry per row: got 299 entries for 300 rows"))
def ids_too_short(d):
    return regressor().fit(d.X, d.y, user_ids=d.users[1:])


@line('`PPMHalfspaceClassifier(private_label="bad")` on labels good and bad', Works("private row"))
def ppm_label_named(d):
    return PPMHalfspaceClassifier(private_label="bad").fit(d.X, d.names)


@line("the same without `private_label`", Refused(ValueError, "private_label must say whose rows are private"))
def ppm_label_missing(d):
    return PPMHalfspaceClassifier().fit(d.X, d.names)


@line(
    "without `private_label` on labels 0 and 1",
    Works("private row"),
    warns="rows with label 1 are protected by default, and rows with label 0 are published",
)
def ppm_label_by_custom(d):
    return PPMHalfspaceClassifier().fit(d.X, d.labels)


@line("three classes in `PPMHalfspaceClassifier`", Refused(ValueError, "merge the others first, y = (y == 2)"))
def ppm_three_classes(d):
    return PPMHalfspaceClassifier(private_label=2).fit(d.X, d.three)


@line("`PPMHalfspaceClassifier().fit(X, y, private=mask)`", Works("private row"))
def ppm_mask(d):
    return PPMHalfspaceClassifier().fit(d.X, d.names, private=d.labels == 1)


@line("δ = 0.1 with 300 rows", Works("row"), warns="delta must be far below 1/n")
def large_delta(d):
    return regressor(delta=0.1).fit(d.X, d.y)


@line(
    "an integer `random_state`",
    Works("row", released=False, note="the noise can be reproduced"),
    warns="simulated noise",
)
def seeded(d):
    return regressor(random_state=0).fit(d.X, d.y)


@line("the same inside `forbid_simulated_noise()`", Refused(SimulatedNoiseError, "simulated noise is forbidden"))
def seeded_forbidden(d):
    with forbid_simulated_noise():
        return regressor(random_state=0).fit(d.X, d.y)


# ----------------------------------------------------------------------------------------------------------------------
topic("Preparing private rows")


@line(
    "`StandardScaler` before a private model", Unguarded("(StandardScaler): its fit takes statistics of private rows")
)
def leaking_scaler(d):
    return make_pipeline(StandardScaler(), regressor()).fit(d.X, d.y)


@line("`SimpleImputer` before a private model", Unguarded("(SimpleImputer): learns its fill values from private rows"))
def leaking_imputer(d):
    return make_pipeline(SimpleImputer(), regressor()).fit(d.gaps, d.y)


@line("`check_pipeline` of both, before anything is fitted", Plain("names both steps; nothing is spent"))
def leak_seen_before(d):
    report = check_pipeline(make_pipeline(SimpleImputer(), StandardScaler(), regressor()))
    assert not report.could_hold
    assert "SimpleImputer" in str(report) and "StandardScaler" in str(report)


@line("`StandardScaler` where only labels are private", Works("label", note="features are then public"))
def public_features(d):
    return make_pipeline(StandardScaler(), RandomBagRegressor()).fit(d.X, d.y)


@line("`PublicScaler` before a private model", Works("row", epsilon=1.0))
def public_scaler(d):
    return make_pipeline(PublicScaler.from_bounds(0, 1), regressor()).fit(d.X, d.y)


@line("`PrivateImputer`, `PrivateStandardScaler`, private model", Works("row", note="the three budgets compose"))
def private_steps(d):
    model = make_pipeline(PrivateImputer(0.5), PrivateStandardScaler(0.5), regressor(1.0))
    return model.fit(d.gaps, d.y)


@line("the same with `user_ids` for all steps (metadata routing)", Works("user", note="the three budgets compose"))
def private_steps_of_users(d):
    with routing():
        model = make_pipeline(PrivateImputer(0.5), PrivateStandardScaler(0.5), regressor(1.0))
        return model.fit(d.gaps, d.y, user_ids=d.users)


@line(
    "the same with `user_ids` for the last step only", Unguarded("protects one row", "units differ and do not add up")
)
def private_steps_of_some_users(d):
    model = make_pipeline(PrivateStandardScaler(0.5), regressor(1.0))
    return model.fit(d.X, d.y, userlevelsgdregressor__user_ids=d.users)


@line("`OneHotEncoder()` of scikit-learn on private categories", Unguarded("learns the categories that occur"))
def leaking_encoder(d):
    return make_pipeline(OneHotEncoder(sparse_output=False), regressor()).fit(d.names[:, None], d.y)


@line('`PublicOneHotEncoder(["good", "bad"])`', Works("row"))
def public_encoder(d):
    return make_pipeline(PublicOneHotEncoder(["good", "bad"]), regressor()).fit(d.names[:, None], d.y)


@line("`ColumnTransformer` with a public and a private step", Works("row"))
def columns(d):
    steps = [("a", PublicScaler.from_bounds(0, 1), [0, 1]), ("b", PrivateStandardScaler(0.5), [2])]
    return make_pipeline(ColumnTransformer(steps), regressor()).fit(d.X, d.y)


@line("`FeatureUnion` of two private steps", Works("row"))
def union(d):
    parts = [("a", PrivateStandardScaler(0.5)), ("b", PrivateStandardScaler(0.5))]
    return make_pipeline(FeatureUnion(parts), regressor()).fit(d.X, d.y)


@line("`MetricPrivatizer`, then `StandardScaler`", Works("row", epsilon=1.0, note="per unit of distance"))
def privatizer_first(d):
    return make_pipeline(MetricPrivatizer(1.0), StandardScaler()).fit(d.X)


@line("`MetricPrivatizer`, then `LinearRegression` on private targets", Unguarded("(LinearRegression)"))
def privatizer_before_targets(d):
    return make_pipeline(MetricPrivatizer(1.0), LinearRegression()).fit(d.X, d.y)


@line('`set_output(transform="pandas")` and `"polars"` on scalers and privatizers', Plain("frames come back"))
def set_output(d):
    for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        for step in (PublicScaler(), PrivateStandardScaler(), MetricPrivatizer()):
            rows = step.set_output(transform=library).fit_transform(d.frame)
            assert isinstance(rows, kind) and list(rows.columns) == ["age", "height", "dose"]


# ----------------------------------------------------------------------------------------------------------------------
topic("Ensembles and other composites")


@line("`VotingRegressor` of two private models (ε = 1, 0.5)", Works("row", epsilon=1.1, note="less than the sum"))
def voting(d):
    return VotingRegressor([("a", regressor(1.0)), ("b", regressor(0.5))]).fit(d.X, d.y)


@line(
    "`VotingRegressor.fit(X, y, user_ids=ids)` without metadata routing", Refused(ValueError, "enable_metadata_routing")
)
def voting_unrouted(d):
    return VotingRegressor([("a", regressor()), ("b", regressor())]).fit(d.X, d.y, user_ids=d.users)


@line("the same with metadata routing", Works("user"))
def voting_routed(d):
    with routing():
        return VotingRegressor([("a", regressor()), ("b", regressor())]).fit(d.X, d.y, user_ids=d.users)


@line("`VotingClassifier` with a member that is not private", Unguarded("(LogisticRegression)"))
def voting_mixed(d):
    members = [("a", classifier()), ("b", LogisticRegression())]
    return VotingClassifier(members).fit(d.X, d.labels)


@line("`StackingRegressor` of private models", Unguarded("members fitted on folds, which are not kept"))
def stacking(d):
    return StackingRegressor([("a", regressor())], final_estimator=regressor()).fit(d.X, d.y)


@line("the same with `user_ids`, without metadata routing", Refused(ValueError, "enable_metadata_routing"))
def stacking_unrouted(d):
    return StackingRegressor([("a", regressor())]).fit(d.X, d.y, user_ids=d.users)


@line("the same with metadata routing", Refused(TypeError, "RidgeCV.fit got unexpected argument(s) {'user_ids'}"))
def stacking_routed(d):
    with routing():
        return StackingRegressor([("a", regressor())], cv=2).fit(d.X, d.y, user_ids=d.users)


@line("the same with a private `final_estimator`", Unguarded("members fitted on folds, which are not kept"))
def stacking_routed_private(d):
    with routing():
        model = StackingRegressor([("a", regressor())], final_estimator=regressor(), cv=2)
        return model.fit(d.X, d.y, user_ids=d.users)


@line("`StackingRegressor` of models in `FrozenEstimator`, private final estimator", Works("row"))
def stacking_frozen(d):
    member = FrozenEstimator(regressor().fit(d.X, d.y))
    return StackingRegressor([("a", member)], final_estimator=regressor()).fit(d.X, d.y)


@line(
    "`BaggingRegressor` of a private model",
    Unguarded("draws rows with repetition"),
    warns="set by you, or by a meta-estimator",
)
def bagging(d):
    return BaggingRegressor(regressor(), n_estimators=2).fit(d.X, d.y)


@line(
    "the same with `bootstrap=False`",
    Works("row", released=False, note="scikit-learn seeds the members"),
    warns="set by you, or by a meta-estimator",
)
def bagging_once(d):
    return BaggingRegressor(regressor(), n_estimators=2, bootstrap=False).fit(d.X, d.y)


@line("`AdaBoostRegressor` of a private model", Unguarded("weighs or repeats rows by the errors"))
def boosting(d):
    return AdaBoostRegressor(regressor(), n_estimators=2).fit(d.X, d.y)


@line("`AdaBoostClassifier` of a private model", Refused(ValueError, "sample_weight"))
def boosting_classifier(d):
    return AdaBoostClassifier(classifier(), n_estimators=2).fit(d.X, d.labels)


@line("`CalibratedClassifierCV` of a private model", Unguarded("fits its calibrators to private targets without noise"))
def calibrated(d):
    return CalibratedClassifierCV(classifier(), cv=2).fit(d.X, d.labels)


@line("`OneVsRestClassifier` on three classes (ε = 1 each)", Works("label", epsilon=3.0))
def one_against_rest(d):
    return OneVsRestClassifier(RandomBagClassifier(1.0)).fit(d.X, d.three)


@line("`OneVsOneClassifier` under replace-one", Unguarded("takes it from another"))
def one_against_one(d):
    return OneVsOneClassifier(classifier()).fit(d.X, d.three)


@line("`OneVsOneClassifier` under add-remove", Works("row"))
def one_against_one_add_remove(d):
    return OneVsOneClassifier(classifier(adjacency="add-remove")).fit(d.X, d.three)


ENCODED = "encode labels as 0, 1, …: leave classes out there, or encode y and give classes=[0, 1]"
TEXT = '`classes=["bad", "good"]`'


@line(
    f"{TEXT} and labels of text in `VotingClassifier`",
    Refused(TypeError, ENCODED, note="Leave `classes` out there, or encode y."),
)
def encoded_by_voting(d):
    return VotingClassifier([("a", named(CuratedBagGAMClassifier))]).fit(d.X, d.names)


@line("the same in `StackingClassifier`", Refused(TypeError, ENCODED))
def encoded_by_stacking(d):
    return StackingClassifier([("a", named(RandomBagClassifier))]).fit(d.X, d.names)


@line("the same in `BaggingClassifier`", Refused(TypeError, ENCODED))
def encoded_by_bagging(d):
    return BaggingClassifier(named(UserLevelSGDClassifier), bootstrap=False).fit(d.X, d.names)


@line("the same in `CalibratedClassifierCV(ensemble=False)`", Refused(TypeError, ENCODED))
def encoded_by_calibration(d):
    return CalibratedClassifierCV(named(CuratedBagGAMClassifier), ensemble=False).fit(d.X, d.names)


@line("the same in `OneVsRestClassifier`, `OneVsOneClassifier`, `OutputCodeClassifier`", Refused(TypeError, ENCODED))
def encoded_by_several(d):
    model = named(UserLevelSGDClassifier)
    # Some codes of two classes have nothing but constant columns, for which nothing is fitted.
    for composite in (OneVsOneClassifier(model), OutputCodeClassifier(model, random_state=0)):
        with contextlib.suppress(TypeError):
            raise AssertionError(composite.fit(d.X, d.names))
    return OneVsRestClassifier(named(UserLevelSGDClassifier)).fit(d.X, d.names)


@line("the same in `cross_val_predict` for probabilities or decision values", Refused(TypeError, ENCODED))
def encoded_by_cross_validation(d):
    return cross_val_predict(named(CuratedBagGAMClassifier), d.X, d.names, method="predict_proba")


@line(
    '`PPMHalfspaceClassifier(private_label="bad")` in any of them', Refused(TypeError, "leave private_label out there")
)
def encoded_private_label(d):
    return VotingClassifier([("a", PPMHalfspaceClassifier(private_label="bad"))]).fit(d.X, d.names)


@line(
    "classes that are other numbers, `classes=[1, 2]` on labels 0 and 1",
    Works("label"),
    warns="no more rows than noise hides have labels among [2] of classes=[1, 2]",
)
def other_numbers(d):
    X = public_generator(0).integers(0, 3, size=(3000, 2))
    return CuratedBagGAMClassifier(20.0, classes=[1, 2]).fit(X, X[:, 0] > 0)


@line("`MultiOutputRegressor` on two targets (ε = 1 each)", Works("label", epsilon=2.0))
def outputs(d):
    return MultiOutputRegressor(RandomBagRegressor(1.0)).fit(d.X, np.column_stack([d.y, -d.y]))


@line("`RegressorChain` of models that protect rows", Works("row"))
def chain(d):
    return RegressorChain(regressor()).fit(d.X, np.column_stack([d.y, -d.y]))


@line(
    "`ClassifierChain` of models that protect labels", Unguarded("take the true targets of earlier ones for features")
)
def label_chain(d):
    return ClassifierChain(RandomBagClassifier()).fit(d.X, np.column_stack([d.labels, 1 - d.labels]))


@line("`TransformedTargetRegressor(regressor, func=…, inverse_func=…)`", Works("row"))
def transformed_target(d):
    model = TransformedTargetRegressor(regressor(), func=np.log1p, inverse_func=np.expm1)
    return model.fit(d.X, d.y + 2)


@line("`RFE` with a private model", Unguarded("keeps the last only"))
def rfe(d):
    return RFE(regressor(), n_features_to_select=2).fit(d.X, d.y)


@line("`SequentialFeatureSelector` with a private model", Unguarded("scores on private rows choose the features"))
def sequential(d):
    return SequentialFeatureSelector(regressor(), n_features_to_select=1, cv=2).fit(d.X, d.y)


@line("`SelectFromModel`, then a private model (ε = 0.5, 1)", Works("row", epsilon=1.5))
def select_from_model(d):
    return make_pipeline(SelectFromModel(regressor(0.5)), regressor(1.0)).fit(d.X, d.y)


@line("`SelfTrainingClassifier`", Unguarded("keeps the training targets"))
def self_training(d):
    return SelfTrainingClassifier(RandomBagClassifier(classes=[0, 1])).fit(d.X, d.labels)


@line("`FixedThresholdClassifier`", Works("row"))
def fixed_threshold(d):
    return FixedThresholdClassifier(classifier(), threshold=0.3).fit(d.X, d.labels)


@line("`TunedThresholdClassifierCV`", Unguarded("scores on private rows choose the threshold"))
def tuned_threshold(d):
    # With ε = 1 the noise of some fits leaves one prediction for all rows, which scikit-learn refuses.
    return TunedThresholdClassifierCV(classifier(1e3), cv=2).fit(d.X, d.labels)


# ----------------------------------------------------------------------------------------------------------------------
topic("Searching, validating, looking in")


@line("`GridSearchCV` over ε", Unguarded("scores on private rows choose the parameters", "Every fit is in the ledger."))
def grid_search(d):
    return GridSearchCV(regressor(), {"epsilon": [0.5, 1.0]}, cv=2).fit(d.X, d.y)


@line("`guarantee_of(search.best_estimator_)`", Works("row", note="the last fit alone; the others were paid for, too"))
def best_estimator(d):
    return grid_search(d).best_estimator_


@line("`HalvingGridSearchCV`", Unguarded("scores on private rows choose the parameters"))
def halving(d):
    search = HalvingGridSearchCV(regressor(), {"epsilon": [0.5, 1.0]}, cv=2, min_resources=100, random_state=0)
    return search.fit(d.X, d.y)


@line("a search that costs more than its ledger has", Refused(BudgetExceededError, "Nothing was drawn or spent"))
def search_over_budget(d):
    ledger = PrivacyLedger(epsilon=1.2, delta=1e-4, unit="row")
    search = GridSearchCV(regressor(ledger=ledger), {"epsilon": [0.5, 1.0]}, cv=2, error_score="raise")
    return search.fit(d.X, d.y)


@line("`cross_val_predict`, `cross_val_score`", Plain("each fold is a fit; scores on private rows carry no noise"))
def cross_validation(d):
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="row")
    cross_val_predict(regressor(ledger=ledger), d.X, d.y, cv=2)
    cross_val_score(regressor(ledger=ledger), d.X, d.y, cv=2)
    assert len(ledger.entries()) == 4


@line('`cross_validate(…, cv=UserKFold(2), params={"user_ids": ids})` with routing', Plain("users stay whole"))
def users_in_folds(d):
    with routing():
        folds = cross_validate(
            regressor(), d.X, d.y, cv=UserKFold(2), params={"user_ids": d.users}, return_estimator=True
        )
    assert all(guarantee_of(model).unit == "user" for model in folds["estimator"])


@line('`check_cv(GroupKFold(), unit="user")`', Refused(ValueError, "is not private for unit='user'"))
def group_folds(d):
    return check_cv(GroupKFold(), unit="user")


@line("`learning_curve`", Plain("each point is a fit and costs its ε; the scores carry no noise"))
def curve(d):
    learning_curve(regressor(), d.X, d.y, cv=2, train_sizes=[0.5, 1.0])


@line("`permutation_importance`, `partial_dependence` on public rows", Plain("post-processing: costs nothing more"))
def inspection(d):
    model = regressor().fit(d.X, d.y)
    permutation_importance(model, d.X, d.y, n_repeats=2, random_state=0)
    partial_dependence(model, d.X, [0])


@line("`audit_estimator(LogisticRegression())`", Refused(ValueError, "claims nothing"))
def audit_of_plain(d):
    return audit_estimator(LogisticRegression(), d.X, d.labels)


@line("`FiniteAdversaryAuditor` on output frames with names", Plain("a report about outputs; nothing is drawn"))
def auditor(d):
    FiniteAdversaryAuditor().fit(d.frame[["age"]], d.labels)


# ----------------------------------------------------------------------------------------------------------------------
topic("Kinds of input")


@line("pandas and polars frames", Works("row", note="`feature_names_in_` is set"))
def frames(d):
    regressor().fit(pl.DataFrame(d.X, schema=["age", "height", "dose"]), pl.Series(d.y))
    model = regressor().fit(d.frame, pd.Series(d.y))
    assert list(model.feature_names_in_) == ["age", "height", "dose"]
    return model


@line("other column names, or another order, in `predict`", Refused(ValueError, "feature names should match"))
def other_names(d):
    model = regressor().fit(d.frame, d.y)
    return model.predict(d.frame[["dose", "age", "height"]])


@line("a frame with a column of strings", Refused(ValueError, "column 'city' of X must hold numbers, got str"))
def strings(d):
    return regressor().fit(d.frame.assign(city="Bergen"), d.y)


@line("NaN in a linear model", Works("row", note="it is the released centre"))
def gaps(d):
    return regressor().fit(d.gaps, d.y)


@line("NaN in `UserLevelMean`", Refused(ValueError, "PrivateImputer", "scikit-learn's advice would leak."))
def missing(d):
    return UserLevelMean().fit(d.gaps)


@line("a column of dates", Refused(TypeError, "column 'when' of X must hold numbers, got datetime64"))
def dates(d):
    return regressor().fit(d.frame.assign(when=pd.date_range("2020", periods=300)), d.y)


@line(
    "dates as the target",
    Refused(TypeError, "y must hold numbers or class labels (strings, integers, booleans), got datetime64"),
)
def dates_as_target(d):
    return regressor().fit(d.X, pd.date_range("2020", periods=300))


@line("infinity", Refused(ValueError, "contains infinity"))
def infinite(d):
    d.X[0, 0] = np.inf
    return regressor().fit(d.X, d.y)


@line("nullable integers of pandas with a gap", Works("row", note="as NaN"))
def nullable(d):
    column = pd.array([None, *range(299)], dtype="Int64")
    return regressor().fit(d.frame.assign(visits=column), d.y)


@line("sparse matrices", Works("row", note="made dense, up to 10 000 columns"))
def sparse(d):
    return regressor().fit(sp.csr_matrix(d.X), d.y)


@line("sparse matrices in a synthesizer", Refused(TypeError, "Sparse data was passed"))
def sparse_synthesizer(d):
    return MetricPrivateSynthesizer().fit(sp.csr_matrix(d.X))


@line("float32, integers, booleans", Works("row", note="computed in float64"))
def small_types(d):
    for rows in (d.X.astype(np.int16), d.X > 0.5):
        regressor().fit(rows, d.y)
    return regressor().fit(d.X.astype(np.float32), d.y)


@line("one feature as a one-dimensional array", Refused(ValueError, "X must have two dimensions"))
def one_dimension(d):
    return regressor().fit(d.X[:, 0], d.y)


@line("no rows at all", Refused(ValueError, "0 sample(s)"))
def no_rows(d):
    return regressor().fit(d.X[:0], d.y[:0])


@line("two targets in a regressor", Refused(ValueError, "y should be a 1d array"))
def two_targets(d):
    return regressor().fit(d.X, np.column_stack([d.y, d.y]))


@line("three classes in `UserLevelSGDClassifier`, `RandomBagClassifier`", Works("row"))
def multiclass(d):
    RandomBagClassifier().fit(d.X, d.three)
    return classifier().fit(d.X, d.three)


@line("labels as strings in a classifier", Works("row", note="`predict` gives strings"))
def string_labels(d):
    model = classifier().fit(d.X, d.names)
    assert set(model.predict(d.X)) <= {"good", "bad"}
    return model


@line("real numbers as labels of a classifier", Refused(ValueError, "Unknown label type"))
def continuous_labels(d):
    return classifier().fit(d.X, d.y)


@line("`sample_weight`", Refused(TypeError, "sample_weight"))
def weights(d):
    return regressor().fit(d.X, d.y, sample_weight=np.ones(300))


@line("`partial_fit`", Refused(AttributeError, "partial_fit"))
def in_parts(d):
    return regressor().partial_fit(d.X, d.y)


@line("ε = 0, infinite, NaN or a string", Refused(ValueError, "'epsilon' parameter"))
def odd_epsilon(d):
    for epsilon in (np.inf, np.nan, "1"):
        _said_by(ValueError, lambda epsilon=epsilon: regressor(epsilon).fit(d.X, d.y))
    return regressor(0.0).fit(d.X, d.y)


@line("a table of pyarrow, lists of lists", Works("row"))
def tables_and_lists(d):
    regressor().fit(d.X.tolist(), d.y.tolist())
    return regressor().fit(pa.Table.from_pandas(d.frame), d.y)


@line("complex numbers", Refused(ValueError, "Complex data not supported", "No value is quoted."))
def complex_numbers(d):
    return regressor().fit(d.X + 1j, d.y)


@line("a target of shape (n, 1)", Works("row"), warns="A column-vector y was passed when a 1d array was expected")
def column_vector(d):
    return regressor().fit(d.X, d.y[:, None])


class OtherArray:
    """What scikit-learn takes for an array of another library."""

    def __array_namespace__(self, api_version=None):
        return np


@line(
    "arrays of another library (torch, …) with `array_api_dispatch=True`",
    Refused(TypeError, "are not supported with array_api_dispatch=True"),
    since=(1, 7),
)
def array_api(d):
    with patch.dict(os.environ, SCIPY_ARRAY_API="1"), config_context(array_api_dispatch=True):
        return regressor().fit(OtherArray(), d.y)


@line("`MetricPrivateSynthesizer()` as it is", Works("row", note="bounds are found within the budget"))
def synthesizer(d):
    return MetricPrivateSynthesizer().fit(d.X)


@line(
    '`MetricPrivateSynthesizer(metric="wasserstein", bounds=(0, 1))` at ε = 1',
    Works("data set", note="per unit of distance"),
    warns="too small to say anything about the rows",
)
def synthesizer_of_distances(d):
    return MetricPrivateSynthesizer(metric="wasserstein", bounds=(0, 1)).fit(d.X)


@line("`bounds=[(0, 1), (0, 5)]` for two columns", Refused(ValueError, "looks like a list of pairs (low, high)"))
def pairs(d):
    return MetricPrivateSynthesizer(bounds=[(0, 1), (0, 5)]).fit(d.X[:, :2])


@line("bounds by column, polars in", Works("row", note="`sample` gives polars with the same names"))
def bounds_by_column(d):
    model = MetricPrivateSynthesizer(bounds={"age": (0, 1), "height": (0, 1), "dose": (0, 1)})
    rows = model.fit(pl.DataFrame(dict(d.frame))).sample(10)
    assert isinstance(rows, pl.DataFrame) and rows.columns == ["age", "height", "dose"]
    return model


@line("bounds of a column that X does not have", Refused(ValueError, "bounds has the column 'size'"))
def bounds_of_another_column(d):
    return MetricPrivateSynthesizer(bounds={"age": (0, 1), "size": (0, 1), "dose": (0, 1)}).fit(d.frame)


@line("`MetricPrivatizer()` on longitude and latitude", Works("row"), warns="look like degrees")
def degrees(d):
    places = d.frame[["age", "height"]].set_axis(["longitude", "latitude"], axis=1)
    return MetricPrivatizer().fit(places)


@line('`MetricPrivatizer(metric="haversine")` on them', Works("row", note="per kilometre"))
def kilometres(d):
    places = d.frame[["age", "height"]].set_axis(["longitude", "latitude"], axis=1)
    return MetricPrivatizer(metric="haversine").fit(places)


@line("`MetricPrivateSynthesizer` on a frame with `categories`", Works("row", note="`sample` gives a frame"))
def mixed_frame(d):
    kinds = pd.DataFrame({"kind": d.names, "age": d.X[:, 0]})
    model = MetricPrivateSynthesizer(bounds=(0, 1), categories={"kind": ["good", "bad"]})
    rows = model.fit(kinds).sample(10)
    assert list(rows.columns) == ["kind", "age"]
    return model


@line("`CuratedBagGAMClassifier` on tables instead of rows (`fit_bags`)", Works("label"))
def tables(d):
    X = np.floor(3 * d.X)
    return CuratedBagGAMClassifier().fit_bags(X, make_curated_bags(X, d.labels, epsilon=1.0))


# ----------------------------------------------------------------------------------------------------------------------
topic("Copies, processes, ledgers")


@line("`clone`, `copy.deepcopy` of a fitted model", Works("row", note="the clone is not fitted, the copy is"))
def copies(d):
    model = regressor().fit(d.X, d.y)
    assert not hasattr(clone(model), "coef_")
    return copy.deepcopy(model)


@line("`pickle`, `joblib.dump`", Works("row"))
def pickled(d):
    model = pickle.loads(pickle.dumps(regressor().fit(d.X, d.y)))
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@line("`skops.io`", Works("row"), needs="skops")
def skops_file(d):
    import skops.io

    file = skops.io.dumps(regressor().fit(d.X, d.y))
    return skops.io.loads(file, trusted=skops.io.get_untrusted_types(data=file))


@line("`pickle` of a model with a ledger in memory", Refused(TypeError, "lives in the memory of one process"))
def pickled_ledger(d):
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3, unit="row")
    return pickle.dumps(regressor(ledger=ledger).fit(d.X, d.y))


@line(
    "a search with `n_jobs=2` and a ledger in memory",
    Refused(pickle.PicklingError, "Could not pickle the task", "The cause above it says: give it a path."),
)
def workers_of_memory(d):
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-3, unit="row")
    search = GridSearchCV(regressor(ledger=ledger), {"epsilon": [0.5, 1.0]}, cv=2, n_jobs=2)
    return search.fit(d.X, d.y)


@line("the same with a ledger in a file", Plain("every fit of every worker is charged"))
def workers_of_file(d):
    with tempfile.TemporaryDirectory() as folder:
        ledger = PrivacyLedger(Path(folder) / "study.ledger", epsilon=20.0, delta=1e-3, unit="row")
        search = GridSearchCV(regressor(ledger=ledger), {"epsilon": [0.5, 1.0]}, cv=2, n_jobs=2)
        search.fit(d.X, d.y)
        assert len(ledger.entries()) == 5


@line("a seed and a ledger in a file", Refused(SimulatedNoiseError, "this ledger is for releases"))
def seeded_ledger(d):
    with tempfile.TemporaryDirectory() as folder:
        ledger = PrivacyLedger(Path(folder) / "study.ledger", epsilon=20.0, delta=1e-3, unit="row")
        return regressor(ledger=ledger, random_state=0).fit(d.X, d.y)


@line("bagging and a ledger in a file", Refused(SimulatedNoiseError, "which gives its members integers"))
def bagging_with_ledger(d):
    with tempfile.TemporaryDirectory() as folder:
        ledger = PrivacyLedger(Path(folder) / "study.ledger", epsilon=20.0, delta=1e-3, unit="row")
        return BaggingRegressor(regressor(ledger=ledger), n_estimators=2, bootstrap=False).fit(d.X, d.y)


@line("a ledger of labels and a model that protects rows", Works("row", note="a label is a part of a row"))
def larger_unit(d):
    return regressor(ledger=PrivacyLedger(epsilon=2.0, delta=1e-3, unit="label")).fit(d.X, d.y)


@line("a ledger of users and a model that protects rows", Refused(ValueError, "is a budget per user"))
def smaller_unit(d):
    return regressor(ledger=PrivacyLedger(epsilon=2.0, delta=1e-3, unit="user")).fit(d.X, d.y)


@line("`quote` of a search that costs more than is left", Plain("says so; nothing is spent"))
def quoted_search(d):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5, unit="row")
    quoted = quote(GridSearchCV(regressor(), {"epsilon": [1.0, 2.0]}, cv=2), d.X, d.y, ledger=ledger)
    assert not quoted.admitted and "more than the ledger has left" in str(quoted) and not ledger.entries()


@line("a ledger with δ = 0 and a model with the default δ", Refused(BudgetExceededError, "delta"))
def ledger_without_delta(d):
    return regressor(ledger=PrivacyLedger(epsilon=2.0, unit="row")).fit(d.X, d.y)


@line("releasing the same model twice through one ledger", Plain("charged twice"))
def fitted_twice(d):
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="row")
    model = regressor(ledger=ledger)
    model.fit(d.X, d.y).fit(d.X, d.y)
    assert len(ledger.entries()) == 2


@line("HTML in a notebook, of a model and of a pipeline", Plain("shows each step's guarantee"), since=(1, 9))
def html(d):
    for model, part in ((regressor(), ""), (make_pipeline(PublicScaler(), regressor()), ", of this step alone")):
        assert f"ε=1, δ=1e-06, row{part}" in model.fit(d.X, d.y)._repr_html_()


# The page -------------------------------------------------------------------------------------------------------------

HEAD = """# What happens if …

Each line is a test; `tests/helpers/combinations.py` writes this page. *No guarantee* means that the fit runs and that
[`guarantee_of`](whole_models.md) names the reason. `check_pipeline` names it before the fit. ε = 1 and δ = 10⁻⁶ unless
stated.
"""


#: Estimators that tell scikit-learn's checks not to ask for a score.
POOR_SCORES = (
    "CuratedBagGAMRegressor",
    "RandomBagRegressor",
    "PPMHalfspaceClassifier",
    "UserLevelSGDClassifier",
    "UserLevelSGDRegressor",
    "UserLevelSelector",
    "PrivateSearchCV",
)

VERSIONS = """## scikit-learn's own checks, and versions

Every public estimator passes `check_estimator` as constructed, with 0 failed and 0 expected to fail
(`tests/test_common.py`; parameters without a default are given). The tag `poor_score` excuses some from *scores*:
{poor}. Noise is most of what 50 to 300 rows give. Of `PPMHalfspaceClassifier` one check
asks that an overwhelming weight of one class spreads to 87 % of new rows; a polytope that encloses the public rows need
not do that.

`MetricPrivatizer` draws in `transform` (tag `non_deterministic`), so four checks that call it twice are skipped.

Run on Python 3.11 with scikit-learn 1.6.1 (NumPy 2.0, SciPy 1.13, pandas 2.2, polars 1.2, joblib 1.4: the oldest
supported), 1.7.2, 1.8.0 and 1.9.1 (NumPy 2.4, SciPy 1.17, pandas 3.1, polars 2.1, joblib 1.6). `.ci/run` tests the
oldest and the newest. Column names of polars 2 are seen by scikit-learn 1.9 and not by those before it.
"""


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for title in _TOPICS:
        parts.append(f"## {title}\n\n| what is tried | what happens | guarantee, or message |\n|---|---|---|\n")
        for one in LINES:
            if one.topic == title:
                happens, what = one.outcome.cells()
                if one.warns:
                    happens += f", warns “… {one.warns} …”"
                if one.since > (1, 6):
                    happens += f" (scikit-learn {one.since[0]}.{one.since[1]} or newer)"
                parts.append(f"| {_cell(one.tried)} | {_cell(happens)} | {_cell(what)} |\n")
        parts.append("\n")
    poor = ", ".join(f"`{name}`" for name in POOR_SCORES)
    return "\n".join([parts[0], "".join(parts[1:]) + VERSIONS.format(poor=poor)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
