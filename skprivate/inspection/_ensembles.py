"""Rules for composites that fit several members."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.calibration import CalibratedClassifierCV
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
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.semi_supervised import SelfTrainingClassifier

from skprivate._sklearn import BaseSearchCV, inner_estimator
from skprivate.inspection import _pipelines, _single
from skprivate.inspection._steps import Demand, Place, Role, Step, Walk
from skprivate.partitions import fold_problem
from skprivate.preprocessing import RowByRow, inner_models
from skprivate.privacy import Adjacency, PrivacyUnit

_ROWS = (PrivacyUnit.ROW, PrivacyUnit.USER)
_LABELS = "the set of labels is public"

#: One against one gives a member the rows of two labels: another label moves a row from some members to others.
SELECTS_BY_LABEL = Demand(
    "each member sees the rows of two labels, so another label adds a row to one member and takes it from another: "
    "only a member's add-remove guarantee for rows or users carries over",
    lambda g: g.adjacency is Adjacency.ADD_REMOVE and g.unit in _ROWS,
)
#: A chain trains its later members on the true targets of the earlier ones.
SEES_OTHER_TARGETS = Demand(
    "later members of a chain take the true targets of earlier ones for features: a guarantee for labels, or per unit "
    "of distance, does not cover those",
    lambda g: g.unit is not PrivacyUnit.LABEL and g.adjacency is not Adjacency.METRIC,
)
#: Which rows a member draws depends on how many there are.
DRAWS_SOME_ROWS = Demand(
    "each member draws some of the rows, and which ones depends on how many there are: that number must not change "
    "between neighbours, so that only replace-one guarantees for rows or labels carry over; set max_samples=None",
    lambda g: (
        (g.adjacency is Adjacency.REPLACE_ONE and g.unit is not PrivacyUnit.USER)
        or (g.adjacency is Adjacency.METRIC and g.unit is PrivacyUnit.ROW)
    ),
)
#: Ensembles number the labels in alphabetical order; which of them is private is then seen of a number.
NUMBERS_LABELS = Demand(
    "labels reach it as the numbers 0, 1, … in sorted order, so that the private label it names, or takes by default, "
    "is not what it is called outside: call the labels 0, 1, … before the fit of the composite",
    lambda g: g.unit is not PrivacyUnit.PRIVATE_ROW,
)
#: A code book renames labels at random, whatever they are called.
CODES_LABELS = Demand(
    "labels reach it as the digits of a random code, so that the private label it names, or takes by default, may be "
    "any other one outside: use it without OutputCodeClassifier",
    lambda g: g.unit is not PrivacyUnit.PRIVATE_ROW,
)
#: Never: what they learn from private rows besides their members, and what to do instead.
_REFUSED: dict[type | UnionType, str] = {
    # The base of all searches, experimental ones included.
    BaseSearchCV: "scores on private rows choose the parameters and are kept (cv_results_), without noise; the fits on "
    "folds are not kept. Choose on public rows, or within one budget with PrivateSearchCV (UserLevelSelector for "
    "models that are fitted already); guarantee_of(search.best_estimator_) is about the last fit alone",
    CalibratedClassifierCV: "fits its calibrators to private targets without noise: calibrate on public rows",
    TunedThresholdClassifierCV: "scores on private rows choose the threshold, without noise: use "
    "FixedThresholdClassifier with a public one",
    AdaBoostClassifier | AdaBoostRegressor: "weighs or repeats rows by the errors of members on them, and keeps those "
    "errors, without noise",
    SelfTrainingClassifier: "keeps the training targets (transduction_), and fits whose guarantees are lost",
    RFE: "fits an estimator once for each set of features and keeps the last only: the others' guarantees are lost "
    "(and RFECV chooses by scores without noise). Use SelectFromModel, or read the total in a ledger",
    SequentialFeatureSelector: "scores on private rows choose the features, without noise",
}


def _renamed(model: BaseEstimator, place: Place) -> tuple[Demand, ...]:
    if not (place.fitted and is_classifier(model)):
        return ()
    classes = np.asarray(model.classes_)
    same = classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes)))
    return () if same else (NUMBERS_LABELS,)


def _outer(model: BaseEstimator, place: Place, *assumptions: str) -> Step:
    """Make the step of a composite that looks at no data but the set of labels."""
    return place.step(model, Role.NO_DATA, "", *assumptions, *([_LABELS] if is_classifier(model) else []))


def _members(place: Place, model: BaseEstimator, walk: Walk, copies: int | None, *demands: Demand) -> Iterator[Step]:
    """Walk clones of one estimator; what holds for all of them is reported once."""
    if not place.fitted:
        yield from walk(inner_estimator(model), place.inside("members", copies=copies, demands=demands))
        return
    seen = set()
    for i, member in enumerate(model.estimators_):
        here = place.inside(f"member {i}", demands=demands)
        if (chosen := getattr(model, "estimators_features_", None)) is not None:
            here = _pipelines.with_columns(here, chosen[i])
        for step in walk(member, here):
            signature = (step.path.removeprefix(here.path), step.role, step.why)
            if step.role is Role.PRIVATE or signature not in seen:
                seen.add(signature)
                yield step


def _voting(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    named = [(name, part) for name, part in model.estimators if not _pipelines.is_left_out(part)]
    if place.fitted:
        named = [(name, part) for (name, _), part in zip(named, model.estimators_, strict=True)]
    yield _outer(model, place)
    for name, part in named:
        yield from walk(part, place.inside(f"member {name!r}", demands=_renamed(model, place)))


def _stacking(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    named = [(name, part) for name, part in model.estimators if not _pipelines.is_left_out(part)]
    inner = [part.estimator if type(part) is RowByRow else part for _, part in named]
    prefit, members = isinstance(model.cv, str) and model.cv == "prefit", list[Step]()
    if prefit or all(type(part) is FrozenEstimator for part in inner):
        yield _outer(model, place)
        if place.fitted:
            named = [(name, part) for (name, _), part in zip(named, model.estimators_, strict=True)]
        for name, part in named:
            members += _pipelines.fitted_before(part, place.inside(f"member {name!r}"), walk)
    else:
        why = (
            "its final estimator learns from predictions of members fitted on folds, which are not kept, and their "
            "guarantees with them: pass members that are fitted before (FrozenEstimator, or cv='prefit'), or read the "
            "total in a ledger"
        )
        yield place.step(model, Role.UNPROTECTED, why)
        for name, part in named:
            yield from walk(part, place.inside(f"member {name!r}", fitted=False))
    final = model.final_estimator_ if place.fitted else model.final_estimator
    if final is None:
        final = LogisticRegression() if is_classifier(model) else RidgeCV()
    before = (*place.rows.before, ("predictions of the members", [part for _, part in named]))
    results = (*place.rows.results, *(step for step in members if step.role is Role.PRIVATE))
    here = place.inside("final estimator", demands=_renamed(model, place))
    last = list(walk(final, here.with_rows(before=before, results=results)))
    yield from (_single.seen_by_private(members) if any(step.role is Role.PRIVATE for step in last) else members)
    yield from last


def _bagging(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    if model.bootstrap:
        why = (
            "draws rows with repetition: a row that a member sees k times counts k-fold, and which rows it sees "
            "depends on how many there are. Set bootstrap=False"
        )
        yield from refuse(model, place, walk, why)
        return
    if getattr(model, "_sample_weight", None) is not None:
        yield from refuse(model, place, walk, "draws rows by their sample_weight, which says something about them")
        return
    everything = model.max_samples is None or (isinstance(model.max_samples, float) and model.max_samples == 1.0)
    yield _outer(model, place, f"members of {place.name(model)} do not depend on the order of the rows")
    demands = _renamed(model, place) + (() if everything else (DRAWS_SOME_ROWS,))
    if not place.fitted and model.estimator is None:
        yield place.step(model, Role.UNPROTECTED, "its default members are trees without a guarantee")
    else:
        yield from _members(place, model, walk, model.n_estimators, *demands)


def _per_label(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    if place.fitted and any(map(_is_constant, model.estimators_)):
        why = "noticed without noise that some label is carried by all rows or by none"
        yield place.step(model, Role.UNPROTECTED, why)
        return
    text = _LABELS
    if getattr(model, "multilabel_", False):
        text = "it is public that every label is carried by some rows and not by others"
    yield place.step(model, Role.NO_DATA, "", text)
    demands = _renamed(model, place)
    if type(model) is OneVsOneClassifier:
        # Which rows a member sees tells of the targets, even if the rows themselves were randomised.
        place, demands = place.with_rows(released=False, target=True), (*demands, SELECTS_BY_LABEL)
    yield from _members(place, model, walk, None, *demands)


def _output_code(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    yield place.step(model, Role.NO_DATA, "", _LABELS)
    # A constant column of the code book says nothing about rows, and needs no member.
    members = _members(place, model, walk, None, CODES_LABELS)
    yield from (s for s in members if not _is_constant(s.model))


def _is_constant(member: object) -> bool:
    return type(member).__name__ == "_ConstantPredictor"


def _per_target(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    yield _outer(model, place)
    yield from _members(place, model, walk, None)


def _chain(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    if model.cv is not None:
        why = (
            "later members learn from predictions of members fitted on folds, which are not kept, and their guarantees "
            "with them: set cv=None"
        )
        yield from refuse(model, place, walk, why)
        return
    yield _outer(model, place)
    with_targets = place.with_rows(released=False, target=True)
    yield from _members(with_targets, model, walk, None, SEES_OTHER_TARGETS)


def why_refused(model: BaseEstimator) -> str:
    """Explain why no guarantee can hold for a composite of this class; empty if one can."""
    return next((why for kind, why in _REFUSED.items() if isinstance(model, kind)), "")


def refuse(model: BaseEstimator, place: Place, walk: Walk, why: str) -> Iterator[Step]:
    """Report that a composite has no guarantee, and walk its members, so that those without one are named too."""
    search = isinstance(model, BaseSearchCV)
    times = "once for each candidate and fold" if search else "as often as the composite fits it"
    folded = not isinstance(getattr(model, "cv", ""), str)
    if folded and (problem := fold_problem(model)):
        why = f"{why}. {problem.removesuffix('.')}"
    yield place.step(model, Role.UNPROTECTED, why)
    for name, part in inner_models(model):
        yield from walk(part, place.inside(name, fitted=False, copies=None, times=times))


ENSEMBLE_RULES: dict[type, Callable[[Any, Place, Walk], Iterator[Step]]] = {
    BaggingClassifier: _bagging,
    BaggingRegressor: _bagging,
    ClassifierChain: _chain,
    FixedThresholdClassifier: lambda model, place, walk: walk(
        model.estimator_ if place.fitted else model.estimator, place.inside("estimator")
    ),
    MultiOutputClassifier: _per_target,
    MultiOutputRegressor: _per_target,
    OneVsOneClassifier: _per_label,
    OneVsRestClassifier: _per_label,
    OutputCodeClassifier: _output_code,
    RegressorChain: _chain,
    StackingClassifier: _stacking,
    StackingRegressor: _stacking,
    VotingClassifier: _voting,
    VotingRegressor: _voting,
}
