"""Labels of every estimator: what is missing or of another kind is refused before the charge, in the same words.

One label changes nothing of what others contribute.
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import partial
from inspect import signature
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from helpers.combinations import LINES
from helpers.every import every
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils import all_estimators as composites

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    PPMHalfspaceClassifier,
    RandomBagClassifier,
    RandomBagRegressor,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    make_curated_bags,
    make_random_bags,
)
from skprivate._validation._labels import (
    PUBLIC_LABELS,
    distinct_labels,
    encode_classes,
    label_array,
    read_labels,
    read_numbers,
)
from skprivate.aggregate import release_frames
from skprivate.model_selection import PrivateSearchCV
from skprivate.partitions import Blocks
from skprivate.preprocessing import make_additive_pipeline
from skprivate.privacy import PrivacyLedger
from skprivate.privacy._events import run_tape
from skprivate.utils.discovery import all_estimators

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(too few|simulated noise|protected by default|ledger has no unit yet|guessed as their):UserWarning"
)

N = 60
X = np.random.default_rng(0).uniform(-1, 1, (N, 2))
BITS = np.arange(N) % 2


def search(ledger, classes, **options):
    model = UserLevelSGDClassifier(classes=classes, max_iter=1)
    return PrivateSearchCV(model, {"alpha": [0.0]}, ledger=ledger, delta=1e-6, **options)


def selector(ledger, classes):
    fitted = [FrozenEstimator(DummyClassifier().fit(X, np.array(classes)[BITS]))] * 2
    return UserLevelSelector([("a", fitted[0]), ("b", fitted[1])], ledger=ledger)


def regressors(ledger):
    return UserLevelSelector([("a", FrozenEstimator(DummyRegressor().fit(X, BITS)))], ledger=ledger)


#: From a ledger and public classes to something with ``fit``.
CLASSIFIERS = {
    "users": lambda ledger, classes: UserLevelSGDClassifier(classes=classes, max_iter=1, ledger=ledger),
    "mixture": lambda ledger, classes: PPMHalfspaceClassifier(
        classes=classes, private_label=classes[1], strategy="greedy", ledger=ledger
    ),
    "curated": lambda ledger, classes: CuratedBagGAMClassifier(
        classes=classes, delta=0.0, feature_sets="singles", ledger=ledger
    ),
    "random": lambda ledger, classes: RandomBagClassifier(classes=classes, buckets=False, prior="ridge", ledger=ledger),
    "additive": lambda ledger, classes: make_additive_pipeline(
        UserLevelSGDClassifier(classes=classes, max_iter=1, ledger=ledger)
    ),
    "selector": selector,
    "search": search,
}
REGRESSORS = {
    "users": lambda ledger: UserLevelSGDRegressor(ledger=ledger),
    "curated": lambda ledger: CuratedBagGAMRegressor(ledger=ledger),
    "random": lambda ledger: RandomBagRegressor(ledger=ledger),
    "additive": lambda ledger: make_additive_pipeline(UserLevelSGDRegressor(ledger=ledger)),
    "selector": regressors,
    "search": lambda ledger: PrivateSearchCV(
        UserLevelSGDRegressor(), {"alpha": [0.0]}, score_bounds=(-1.0, 0.0), ledger=ledger, delta=1e-6
    ),
}


def _fit(make, *arguments):
    return lambda ledger, X, y: make(ledger, *arguments).fit(X, y)


def fits(text):
    """Everything that takes labels, text or numbers."""
    classes = ["no", "yes"] if text else [0, 1]
    found = {name: _fit(make, classes) for name, make in CLASSIFIERS.items()}
    if not text:
        found |= {f"{name} of numbers": _fit(make) for name, make in REGRESSORS.items()}
        found["bags of numbers"] = lambda ledger, X, y: make_curated_bags(
            X, y, classes=None, epsilon=1.0, ledger=ledger
        )
        found["random bags"] = lambda ledger, X, y: make_random_bags(X, y, 5, epsilon=1.0, ledger=ledger)
    found["bags"] = lambda ledger, X, y: make_curated_bags(X, y, classes=classes, epsilon=1.0, ledger=ledger)
    found["bags, auto"] = lambda ledger, X, y: make_curated_bags(X, y, epsilon=1.0, ledger=ledger)
    return found


TEXTS = np.array(["no", "yes"], dtype=object)[BITS].tolist()
WITHOUT = [None, *TEXTS[1:]]
BITS_WITHOUT = [None, *BITS[1:].tolist()]
GAPS = {
    "numbers": {
        "list": BITS_WITHOUT,
        "list, NaN": [np.nan, *BITS_WITHOUT[1:]],
        "list, NaT": [pd.NaT, *BITS_WITHOUT[1:]],
        "array": np.array([np.nan, *BITS_WITHOUT[1:]]),
        "objects": np.array(BITS_WITHOUT, dtype=object),
        "masked": np.ma.masked_array(BITS, np.arange(N) == 3),
        "pandas": pd.Series(BITS_WITHOUT),
        "pandas objects": pd.Series(BITS_WITHOUT, dtype=object),
        "Int64": pd.Series(BITS_WITHOUT, dtype="Int64"),
        "array of pandas": pd.array(BITS_WITHOUT, dtype="Int64"),
        "boolean": pd.Series(BITS_WITHOUT, dtype="boolean"),
        "int64 of Arrow": pd.Series(BITS_WITHOUT, dtype="int64[pyarrow]"),
        "category": pd.Series(BITS_WITHOUT).astype("category"),
        "polars": pl.Series(BITS_WITHOUT),
        "polars, NaN": pl.Series([np.nan, *map(float, BITS_WITHOUT[1:])]),
        "pyarrow": pa.chunked_array([BITS_WITHOUT]),
        "pyarrow array": pa.array(BITS_WITHOUT),
    },
    "text": {
        "list": WITHOUT,
        "list, NA": [pd.NA, *TEXTS[1:]],
        "list, NaN": [np.nan, *TEXTS[1:]],
        "objects": np.array(WITHOUT, dtype=object),
        "pandas": pd.Series(WITHOUT),
        "pandas objects": pd.Series([np.nan, *TEXTS[1:]], dtype=object),
        "string": pd.Series(WITHOUT, dtype="string"),
        "string of Arrow": pd.Series(WITHOUT, dtype="string[pyarrow]"),
        "category": pd.Series(WITHOUT, dtype="category"),
        "polars": pl.Series(WITHOUT),
        "categories of polars": pl.Series(WITHOUT, dtype=pl.Categorical),
        "pyarrow": pa.chunked_array([WITHOUT]),
    },
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in GAPS for name in fits(kind == "text")], ids=str)
def test_missing_labels_are_refused_before_the_charge_in_the_same_words(kind, name):
    fit, ledger = fits(kind == "text")[name], PrivacyLedger(epsilon=100.0, delta=0.01)
    for container, y in GAPS[kind].items():
        with pytest.raises(ValueError, match="y has missing labels") as caught:
            fit(ledger, X, y)
        assert "yes" not in str(caught.value), container
    assert ledger.spent == (0.0, 0.0) and not ledger.entries()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("gap", [True, False])
def test_missing_labels_in_a_block_are_refused_before_the_charge(library, gap):
    for text in (True, False):
        y = [None if gap else (WITHOUT if text else BITS_WITHOUT)[2], *(WITHOUT if text else BITS_WITHOUT)[1:]]
        blocks = Blocks(
            [library({"a": X[rows, 0], "b": X[rows, 1], "y": y[rows]}) for rows in (slice(40, N), slice(40))]
        )
        for name, fit in fits(text).items():
            if "additive" in name or "search" in name or "selector" in name:
                continue
            ledger = PrivacyLedger(epsilon=100.0, delta=0.01)
            if gap:
                with pytest.raises(ValueError, match="y has missing labels"):
                    fit(ledger, blocks, "y")
                assert not ledger.entries()
            elif name != "users of numbers":
                fit(ledger, blocks, "y")


#: Labels by their kind, and public ones that go with them.
KINDS = {
    "text": [("no", "yes"), ["no", "yes"]],
    "integers": [(0, 1), [0, 1]],
    "floats": [(0.0, 1.0), [0.0, 1.0]],
    "bool": [(False, True), [False, True]],
    "bytes": [(b"no", b"yes"), None],
    "date": [(datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)), None],
}
NUMBERS = ("integers", "floats", "bool")
MAKERS = {
    "list": list,
    "array": np.array,
    "objects": lambda y: np.array(y, dtype=object),
    "pandas": pd.Series,
    "polars": pl.Series,
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@every("kind", KINDS)
def test_public_labels_of_another_kind_are_refused_before_the_charge(kind, name):
    labels = KINDS[kind][0]
    for maker in MAKERS.values():
        y = maker([labels[bit] for bit in BITS])
        for other, (_, classes) in KINDS.items():
            fits_them = other == kind or (other in NUMBERS and kind in NUMBERS)
            if classes is None or fits_them:
                continue
            ledger = PrivacyLedger(epsilon=100.0, delta=0.01)
            with pytest.raises(TypeError, match="y must hold") as caught:
                CLASSIFIERS[name](ledger, classes).fit(X, y)
            assert ledger.spent == (0.0, 0.0) and not ledger.entries()
            if name != "selector" and kind not in ("bytes", "date"):
                assert "encode labels as 0, 1, …" in str(caught.value)


@pytest.mark.parametrize("kind", ["text", *NUMBERS])
@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in ("search", "additive")])
def test_labels_of_one_kind_fit(kind, name):
    for other in NUMBERS if kind in NUMBERS else (kind,):
        for maker in MAKERS.values():
            y = maker([KINDS[kind][0][bit] for bit in BITS])
            model = CLASSIFIERS[name](PrivacyLedger(epsilon=100.0, delta=0.01), KINDS[other][1]).fit(X, y)
            assert set(model.predict(X)) <= set(KINDS[other][1])


@every("odd", ["x", b"x", 2, datetime.date(2020, 1, 1), (1, 2)])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_label_of_another_kind_is_refused_before_the_charge(name, odd):
    ledger = PrivacyLedger(epsilon=100.0, delta=0.01)
    y = [odd, *(TEXTS if odd == 2 else BITS.tolist())[1:]]
    with pytest.raises(TypeError, match="y must"):
        CLASSIFIERS[name](ledger, ["no", "yes"] if odd == 2 else [0, 1]).fit(X, y)
    assert not ledger.entries()


@pytest.mark.parametrize("kinds", [("text", "integers"), ("integers", "text"), ("floats", "text")])
def test_blocks_of_several_kinds_are_refused_before_the_charge(kinds):
    blocks = Blocks(
        [pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": [KINDS[kind][0][bit] for bit in BITS]}) for kind in kinds]
    )
    for make in (
        lambda ledger: UserLevelSGDClassifier(ledger=ledger),
        lambda ledger: PPMHalfspaceClassifier(ledger=ledger),
        lambda ledger: CuratedBagGAMClassifier(ledger=ledger),
        lambda ledger: RandomBagClassifier(ledger=ledger),
    ):
        ledger = PrivacyLedger(epsilon=100.0, delta=0.01)
        with pytest.raises(TypeError, match="all strings or all numbers"):
            make(ledger).fit(blocks, "y")
        for classes in ("auto", None, [0, 1], ["no", "yes"]):
            with pytest.raises((TypeError, ValueError), match="y must"):
                make_curated_bags(blocks, "y", classes=classes, epsilon=1.0, ledger=ledger)
        assert not ledger.entries()


@pytest.mark.parametrize("name", ["users", "mixture", "curated", "random"])
def test_who_encodes_labels_is_said(name):
    y, model = np.array(TEXTS), CLASSIFIERS[name](None, ["no", "yes"])
    method = "decision_function" if name == "mixture" else "predict_proba"
    for call in (
        lambda: VotingClassifier([("model", model)]).fit(X, y),
        lambda: cross_val_predict(model, X, y, cv=KFold(2), method=method),
    ):
        with pytest.raises(TypeError, match=r"VotingClassifier.* encode labels.*leave \w+ out there, or encode y"):
            call()


class Spy(LogisticRegression):
    """Keeps the kinds of all labels that any copy of it was fitted to."""

    kinds: ClassVar[set[str]] = set()

    def fit(self, X, y, sample_weight=None):
        self.kinds.add(np.asarray(y).dtype.kind)
        return super().fit(X, y)


def encoders():
    """The meta-estimators of scikit-learn that give their members other labels than text."""
    for name, composite in composites(type_filter="classifier"):
        takes = signature(composite).parameters
        member = {"estimator": Spy()} if "estimator" in takes else {"estimators": [("spy", Spy())]}
        grids = {key: {"C": [1.0]} for key in ("param_grid", "param_distributions") if key in takes}
        if not takes.keys() & member:
            continue
        Spy.kinds.clear()
        with contextlib.suppress(ValueError, IndexError):  # chains take numbers only
            composite(**member, **grids, **({"ensemble": False} if "ensemble" in takes else {})).fit(X, TEXTS)
        if Spy.kinds - {"U", "O"}:
            yield name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_names_whoever_encodes_labels():
    found = set(encoders())
    assert {"VotingClassifier", "BaggingClassifier", "StackingClassifier"} <= found
    rows = [one.tried for one in LINES if one.name.startswith("encoded_by_")]
    assert all(any(f"`{name}" in row for row in rows) for name in found), found


def learners():
    """Every classifier with ``classes``, by name."""
    return {
        name: cls
        for name, cls in all_estimators()
        if "classes" in signature(cls).parameters and issubclass(cls, ClassifierMixin)
    }


def test_every_learner_of_classes_is_found():
    assert {"CuratedBagGAMClassifier", "RandomBagClassifier", "PPMHalfspaceClassifier"} <= set(learners())


@pytest.mark.parametrize("labels", [("no", "yes"), (0, 1), ("a", "b", "c")], ids=str)
@pytest.mark.parametrize("name", learners())
def test_the_order_of_classes_changes_nothing(name, labels):
    """Scorers, votes and encoders of scikit-learn take ``classes_`` as sorted."""
    cls = learners()[name]
    if name == "PPMHalfspaceClassifier" and len(labels) > 2:
        pytest.skip("has two classes")
    y = np.array(labels)[(X[:, 0] * 1.4 + 1.5).astype(int) % len(labels)]
    own = {"private_label": labels[1], "strategy": "greedy"} if "private_label" in signature(cls).parameters else {}
    models = [cls(5.0, classes=order, random_state=0, **own).fit(X, y) for order in (labels, labels[::-1])]
    assert [model.classes_.tolist() for model in models] == [list(labels)] * 2
    for way in ("predict", "predict_proba", "decision_function"):
        if hasattr(models[0], way):
            first, second = (getattr(model, way)(X) for model in models)
            assert np.array_equal(first, second), way
    assert models[0].privacy_guarantee_ == models[1].privacy_guarantee_


@pytest.mark.parametrize("name", ["curated", "random"])
def test_scorers_and_votes_agree_on_classes_in_any_order(name):
    rows = np.random.default_rng(2).normal(size=(3000, 2))
    y = np.where(rows[:, 0] > 0, "yes", "no")
    kind = {"curated": CuratedBagGAMClassifier, "random": RandomBagClassifier}[name]
    model = kind(5.0, classes=["yes", "no"], random_state=0).fit(rows, y)
    assert get_scorer("roc_auc")(model, rows, y) > 0.95 and get_scorer("neg_log_loss")(model, rows, y) > -0.5
    vote = VotingClassifier([("a", FrozenEstimator(model))], voting="soft").fit(rows, y)
    assert np.array_equal(vote.predict(rows), model.predict(rows))


def test_every_public_label_is_compared():
    ledger = PrivacyLedger(epsilon=100.0, delta=0.01)
    for model, named in (
        (PPMHalfspaceClassifier(private_label="yes", ledger=ledger), "private_label"),
        (PPMHalfspaceClassifier(class_weight={"yes": 2.0}, ledger=ledger), "class_weight"),
        (UserLevelSGDClassifier(class_weight={"yes": 2.0}, ledger=ledger), "class_weight"),
        (PrivateSearchCV(UserLevelSGDClassifier(), {"class_weight": [{"yes": 2.0}]}, ledger=ledger), "class_weight"),
        (PrivateSearchCV(UserLevelSGDClassifier(), {"classes": [["a", "b"]]}, ledger=ledger), "classes"),
    ):
        with pytest.raises(TypeError, match=f"y must hold text, as {named} does, got numbers"):
            model.fit(X, BITS)
    assert not ledger.entries()


# What is found by the labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.arange(400) % 20, [77]),  # classes, and numbers
        ((np.arange(400) % 2).tolist(), [0.5]),
        ((np.arange(400) % 2).tolist(), [7]),
        (np.array(["a", "b"] * 200), ["c"]),
        ([True, False] * 200, [3]),
        (np.arange(400) / 7, [1e9]),
    ],
)
def test_what_is_read_off_labels_is_stated(before, after):
    for y in (before, [*after, *list(before)[1:]]):
        bags = make_curated_bags(np.zeros((400, 1)), y, "singles", epsilon=1.0, random_state=0)
        stated = "that the labels are numbers and no classes is public" if bags.classes is None else PUBLIC_LABELS
        assert stated in bags.guarantee.assumptions
    given = make_curated_bags(
        np.zeros((400, 1)), np.arange(400) % 20, "singles", classes=None, epsilon=1.0, random_state=0
    )
    assert not any("labels are numbers" in one for one in given.guarantee.assumptions)


@pytest.mark.parametrize(
    "model",
    [
        UserLevelSGDClassifier(max_iter=1),
        PPMHalfspaceClassifier(private_label=1),
        CuratedBagGAMClassifier(delta=0.0),
        RandomBagClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_classes_that_are_found_are_stated(model):
    assert PUBLIC_LABELS in model.fit(X, BITS).privacy_guarantee_.assumptions


# Numbers that match no class ------------------------------------------------------------------------------------------

MANY = np.random.default_rng(1).normal(size=(4000, 2)).round(1)


def released(classes, y, epsilon):
    frame = pd.DataFrame({"a": MANY[:, 0].round(), "y": y})
    table = frame.groupby("a").y.agg(n="size", s=lambda y: int((y == classes[1]).sum())).reset_index()
    options = {"epsilon": epsilon, "random_state": 0}
    return {
        "curated": lambda: CuratedBagGAMClassifier(classes=classes, **options).fit(MANY, y),
        "random": lambda: RandomBagClassifier(classes=classes, **options).fit(MANY, y),
        "bags": lambda: make_curated_bags(MANY, y, "singles", classes=classes, **options),
        "frames": lambda: release_frames([table], count="n", sums="s", classes=classes, **options),
    }


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("name", ["curated", "random", "bags", "frames"])
def test_a_class_that_no_label_has_is_warned_of(name):
    y = (MANY[:, 0] > 0).astype(int)
    with pytest.warns(UserWarning, match=r"labels among \[2\] of classes=\[1, 2\].*encode labels as 0, 1"):
        released([1, 2], y, 10.0)[name]()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for classes, epsilon in (([0, 1], 10.0), ([0, 1], 0.01), ([1, 2], 0.01)):  # noise hides a class of any size
            released(classes, y, epsilon)[name]()
    assert not [one for one in seen if "of classes=" in str(one.message)]


def test_a_class_of_several_that_no_label_has_is_warned_of():
    y = np.arange(4000) % 3
    with pytest.warns(UserWarning, match=r"labels among \[7\] of classes=\[0, 1, 2, 7\]"):
        make_curated_bags(MANY, y, "singles", classes=[0, 1, 2, 7], epsilon=20.0, random_state=0)


# Entry by entry -------------------------------------------------------------------------------------------------------

LARGE = (2**53, 2**53 + 1, 2**60 + 1, 2**60 + 3, 7)


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(LARGE), min_size=2, max_size=8),
    st.sampled_from([0, -1, 0.5, 2.0**53, 2**63, 2**64, 1e300, True, np.float32(0.1), np.int8(7)]),
    st.integers(0, 7),
)
def test_one_number_leaves_the_codes_of_others(labels, other, place):
    changed = list(labels)
    changed[place % len(labels)] = other
    kept = [k for k in range(len(labels)) if k != place % len(labels)]
    codes = np.array([LARGE.index(label) for label in labels])
    for maker in (list, partial(np.array, dtype=object), partial(pd.Series, dtype=object)):
        found = encode_classes(read_labels(maker(changed)), LARGE, strict=False)
        assert found[kept].tolist() == codes[kept].tolist()
        numbers = read_numbers(maker(changed))
        assert numbers[kept].tolist() == [float(labels[k]) for k in kept]
    for maker in (np.array, pd.Series, pl.Series, lambda y: pa.chunked_array([y])):
        assert encode_classes(read_labels(maker(labels)), LARGE, strict=True).tolist() == codes.tolist()
        assert read_numbers(maker(labels)).tolist() == labels


@pytest.mark.parametrize("labels", [np.float32([0.1, 0.2]), np.array([Decimal("0.1"), Decimal("0.20")]), [0.1, 0.2]])
def test_classes_are_read_in_the_type_of_the_labels(labels):
    """A narrow float or a decimal never equals 0.1, and would count for no class in silence."""
    for classes in ([0.1, 0.2], [Decimal("0.1"), Decimal("0.2")]):
        assert encode_classes(read_labels(labels), classes, strict=False).tolist() == [0, 1]
    assert encode_classes(np.array([1, 7, 0]), [0, 1], strict=False).tolist() == [1, -1, 0]


class FirstDraw:
    def __init__(self):
        self.statistics = []

    def draw(self, draw, sample):
        self.statistics.append(np.array(draw.statistic))
        return sample()


def first_statistic(fit, y):
    recorder = FirstDraw()
    with run_tape(recorder):
        fit(y)
    return recorder.statistics[0]


LOW, HIGH = 2**60, 2**60 + 4096


@pytest.mark.parametrize(
    "fit",
    [
        lambda y: CuratedBagGAMClassifier(classes=[LOW, LOW + 1], feature_sets="singles", random_state=0).fit(X, y),
        lambda y: RandomBagClassifier(classes=[LOW, LOW + 1], bag_size=1, disjoint=True, random_state=0).fit(X, y),
        lambda y: make_curated_bags(X, y, classes=[LOW, LOW + 1], epsilon=1.0, random_state=0),
        lambda y: make_curated_bags(
            X, y, "singles", classes=None, label_bounds=(LOW, HIGH), epsilon=1.0, random_state=0
        ),
        lambda y: CuratedBagGAMRegressor(label_bounds=(LOW, HIGH), feature_sets="singles", random_state=0).fit(X, y),
        lambda y: RandomBagRegressor(label_bounds=(LOW, HIGH), bag_size=1, disjoint=True, random_state=0).fit(X, y),
        lambda y: make_random_bags(
            X, y, 1, disjoint=True, numbers=True, label_bounds=(LOW, HIGH), epsilon=1.0, random_state=0
        ),
    ],
)
@every("other", [0.5, 2**64, -1])
def test_one_label_moves_its_own_bags_only(fit, other):
    """A fraction, or an integer beyond 64 bits, has made floats of all: 2⁶⁰ + 1 was 2⁶⁰ then."""
    y = [LOW + k % 2 for k in range(N)]
    moved = first_statistic(fit, y) != first_statistic(fit, [*y[:-1], other])
    bags = make_curated_bags(X, y, epsilon=None)
    assert moved.sum() <= len(bags.tables) + 1


@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)])
@every("odd", [1.0, True, np.int8(1), np.float32(1), Decimal(1), Fraction(1)])
def test_the_type_of_one_label_is_not_that_of_all(kind, odd):
    X, y = np.arange(40.0)[:, None] / 40.0, [0, 1] * 20
    for model in (
        UserLevelSGDClassifier(max_iter=1, random_state=0),
        PPMHalfspaceClassifier(private_label=1, random_state=0),
        CuratedBagGAMClassifier(delta=0.0, random_state=0),
        RandomBagClassifier(random_state=0),
    ):
        first, second = (clone(model).fit(X, kind(labels)) for labels in (y, [0, odd, *y[2:]]))
        assert first.classes_.dtype == second.classes_.dtype == np.int64
        assert first.predict(X).dtype == second.predict(X).dtype
    for labels in (y, [0, odd, *y[2:]]):
        assert make_curated_bags(X, kind(labels), epsilon=1.0, random_state=0).classes == (0, 1)


@pytest.mark.parametrize("first", [[0, 1], [0, 0], [1, 1]])
@pytest.mark.parametrize("types", [("int64", "float64"), ("float64", "int64"), ("bool", "int64"), ("object", "bool")])
def test_blocks_of_several_types_have_the_classes_of_none(first, types):
    frames = [
        pd.DataFrame({"x": np.arange(len(y)) / 40.0, "y": pd.Series(y).astype(kind), "user": np.arange(len(y))})
        for y, kind in zip((first, [0, 1] * 20), types, strict=True)
    ]
    blocks, bags = Blocks(frames), Blocks([frame[["x", "y"]] for frame in frames])
    users = UserLevelSGDClassifier(max_iter=1, random_state=0).fit(blocks, "y", user_ids="user")
    mixture = PPMHalfspaceClassifier(private_label=1, random_state=0).fit(bags, "y")
    sums = CuratedBagGAMClassifier(delta=0.0, random_state=0).fit(bags, "y")
    for model in (users, mixture, sums, RandomBagClassifier(random_state=0).fit(bags, "y")):
        assert model.classes_.dtype == np.int64
    assert "rows with label 1 are" in str(mixture.privacy_guarantee_.assumptions)
    if "float64" not in types:
        assert list(map(type, make_curated_bags(bags, "y", epsilon=1.0, random_state=0).classes)) == [int, int]


def test_text_is_plain_text():
    class Loud(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    Kind = StrEnum("Kind", "a")
    for odd in (Kind.a, Loud("a"), np.str_("a")):
        bags = make_curated_bags(np.zeros((40, 1)), [odd, *["a", "b"] * 19, "b"], epsilon=1.0, random_state=0)
        assert list(map(type, bags.classes)) == [str, str] and bags.classes == ("a", "b")


@pytest.mark.parametrize("odd", [np.timedelta64(1, "D"), np.timedelta64(5, "ns"), np.timedelta64("NaT")], ids=repr)
def test_durations_are_no_numbers(odd):
    with pytest.raises(TypeError, match="must hold numbers or class labels .*got timedelta64"):
        read_labels(np.array([odd, 1], dtype=object))


def test_classes_are_kept_as_they_are():
    assert label_array([2**60 + 1, 2.5]).tolist() == [2**60 + 1, 2.5]
    assert distinct_labels(np.array([True, False, True])) == [False, True]
    assert distinct_labels(np.array([True, 0, 1.0], dtype=object)) == [0, 1]
    for labels in (
        [2**53 + 1, 2.0**53],
        [1, Decimal("1.000000000000000000000000000001")],
        [1, Fraction(10**30 + 1, 10**30)],
    ):
        assert len(set(read_labels(labels).tolist())) == 2
    assert distinct_labels(np.array(["b", "a", "b"])) == ["a", "b"]
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        distinct_labels(np.array([0.5, 1.0]))
