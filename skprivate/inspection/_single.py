"""Rules for single estimators: which map every row by itself, which look at private rows, and which cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from sklearn import feature_selection, preprocessing
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.utils.validation import has_fit_parameter

from skprivate.base import PrivateEstimatorMixin
from skprivate.inspection._steps import Place, Role, Step
from skprivate.metric import MetricPrivatizer
from skprivate.partitions import is_estimator, is_known
from skprivate.preprocessing import (
    FEATURES_ONLY,
    NO_DATA,
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateOneHotEncoder,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicCalendar,
    PublicNumbers,
    PublicOneHotEncoder,
    PublicOrdinalEncoder,
    PublicScaler,
    RowByRow,
    inner_models,
    speaks_of_rows,
    why_it_learns,
)
from skprivate.privacy import TO_THE_LAST_BIT, PrivacyGuarantee
from skprivate.user_level import UserLevelSGDClassifier, UserLevelSGDRegressor

#: Exact classes, and with which parameters. Each has its property test in tests/inspection/test_by_row.py: results do
#: not change with the other rows, their number and order, or the layout of memory. `Normalizer` fails it with sums.
BY_ITSELF: dict[type, Callable[[Any], bool]] = {
    **dict.fromkeys((
        Binarizer, MetricPrivatizer, PolynomialFeatures, PrivateImputer, PrivateKBinsDiscretizer,
        PrivateOneHotEncoder, PrivateQuantileTransformer, PrivateSplineTransformer, PrivateStandardScaler,
        PublicCalendar, PublicNumbers, PublicOneHotEncoder, PublicOrdinalEncoder, PublicScaler, RowByRow,
        UserLevelSGDClassifier, UserLevelSGDRegressor,
        feature_selection.GenericUnivariateSelect, feature_selection.SelectFdr, feature_selection.SelectFpr,
        feature_selection.SelectFromModel, feature_selection.SelectFwe, feature_selection.SelectKBest,
        feature_selection.SelectPercentile, feature_selection.VarianceThreshold, preprocessing.KBinsDiscretizer,
        preprocessing.MaxAbsScaler, preprocessing.MinMaxScaler, preprocessing.QuantileTransformer,
        preprocessing.RobustScaler, preprocessing.StandardScaler,
    ), lambda model: True),
    FunctionTransformer: lambda model: model.func is None and not model.validate,
    Normalizer: lambda model: model.norm == "max",
    **dict.fromkeys((OneHotEncoder, OrdinalEncoder), lambda model: not speaks_of_rows(model)),
    # With an integer, whether a column has a missing entry would decide its type. A float does not go into integers.
    SimpleImputer: lambda model: model.strategy == "constant" and isinstance(model.fill_value, float),
}  # fmt: skip
#: Of scikit-learn: ``transform`` iterates over all rows together.
_COUPLING = ("LatentDirichletAllocation", "MiniBatchNMF", "NMF")
#: What a class may define, besides ``predict…`` and names that Python itself adds, that no fit calls.
_HARMLESS = frozenset(("__init__", "score", "_abc_impl", "__annotate__", "__annotate_func__"))
_DESCRIPTORS = (property, classmethod, staticmethod)
#: Methods that see rows.
_LOOKING = frozenset(("fit", "fit_transform", "partial_fit", "transform"))
_NOTHING_ELSE = "knows nothing else that is private"


def seen_by_private(found: Iterable[Step]) -> Iterator[Step]:
    """Add to steps whose rows a private step sees what has to be true of each for its guarantee to carry over."""
    for step in found:
        model, place, name = step.model, step.place, step.place.name(step.model)
        maps = step.role in (Role.NO_DATA, Role.BEFORE, Role.PRIVATE) and not place.chooses
        # Rows that were released may be mapped in any way; a column transformer's parts have steps of their own.
        if not maps or place.rows.released or (type(model) is ColumnTransformer and step.role is Role.NO_DATA):
            yield step
        elif place.rows.alone:
            kept = f"{name} keeps nothing from one call to the next"
            yield replace(step, of_rows=(kept,) if _calls_other_code(model) else ())
        elif maps_by_row(model):
            yield step
        elif any(map(_couples, _parts(model))):
            why = (
                "transforms all rows together, until they converge: one row moves what becomes of the others. Wrap it "
                "in skprivate.preprocessing.RowByRow"
            )
            yield replace(step, role=Role.UNPROTECTED if place.rows.target else Role.FEATURES, why=why)
        else:
            text = f"{name} treats every row by itself, {TO_THE_LAST_BIT}, and warns of no row"
            yield replace(step, of_rows=(f"{text}: wrapped in RowByRow it does",))


def _calls_other_code(model: BaseEstimator) -> bool:
    """Tell if a function or class from elsewhere is in a model: what it keeps may not be in the copy for a row."""
    if not is_estimator(model):
        return callable(model) and not isinstance(model, type) and not is_known(model)
    inside = (*model.get_params(deep=False).values(), *(part for _, part in inner_models(model)))
    return not is_known(model) or any(map(_calls_other_code, inside))


def maps_by_row(model: BaseEstimator) -> bool:
    """Tell if a public model is known to treat every row by itself, to the last bit."""
    return all(type(part) in BY_ITSELF and BY_ITSELF[type(part)](part) for part in _parts(model))


def _parts(model: BaseEstimator) -> Iterator[Any]:
    """List what a public model maps rows by: of composites that put columns beside each other, their parts."""
    if type(model) is FrozenEstimator:
        found = [model.estimator]
    elif type(model) is Pipeline:
        found = [part for _, part in model.steps]
    elif type(model) is FeatureUnion:
        found = [part for _, part in model.transformer_list]
    elif type(model) is ColumnTransformer:
        found = [part for _, part, _ in getattr(model, "transformers_", model.transformers)]
    else:
        yield model
        return
    for part in found:
        if not (part is None or isinstance(part, str)):
            yield from _parts(part)


def _couples(model: BaseEstimator) -> bool:
    inside = () if type(model) is RowByRow else model.get_params(deep=True).values()
    return any(
        kind.__module__.startswith("sklearn.") and kind.__name__ in _COUPLING
        for part in (model, *inside)
        for kind in type(part).__mro__
    )


def is_private(model: BaseEstimator) -> bool:
    """Tell if a model has a guarantee of its own, by its class, its parameters or its attributes after `fit`."""
    if isinstance(model, PrivateEstimatorMixin):
        return True
    if isinstance(getattr(model, "privacy_guarantee_", None), PrivacyGuarantee):
        return True
    single = hasattr(model, "get_params") and not isinstance(model, Pipeline)
    return single and {"epsilon", "ledger"} <= set(model.get_params(deep=False))


def releases_when_transforming(model: BaseEstimator) -> bool:
    """Tell if a single estimator randomises the rows that it transforms."""
    return bool(getattr(model, "releases_in", None) == "transform")


def leaf(model: BaseEstimator, place: Place) -> Step:
    """Classify a single estimator by what it does with the rows that arrive."""
    if is_private(model):
        return _private(model, place)
    if getattr(model, "looks_at_no_data", False) is True:
        if declares_itself(model, "looks_at_no_data"):
            makes = getattr(model, "_makes", "")
            return place.step(model, Role.NO_DATA, makes, *getattr(model, "_assumptions", ()))
        why = (
            "inherits looks_at_no_data from a class whose methods it replaces: if it holds for the new ones too, let "
            "the class declare looks_at_no_data = True itself"
        )
        return place.step(model, Role.UNPROTECTED, why)
    if type(model) in NO_DATA and not why_it_learns(model):
        if isinstance(model, FunctionTransformer) and not (model.func is None and model.inverse_func is None):
            checked = model.check_inverse and model.func is not None and model.inverse_func is not None
            texts = [inverse_is_checked(place.name(model))] if checked and not place.rows.alone else []
            text = f"the function of {place.name(model)} {_NOTHING_ELSE}"
            return place.step(model, Role.NO_DATA, "", text, *texts)
        if isinstance(model, SimpleImputer) and isinstance(model.fill_value, float):
            text = f"the columns of {place.name(model)} can hold its fill_value, whether an entry is missing or not"
            return place.step(model, Role.NO_DATA, "", text)
        return place.step(model, Role.NO_DATA)
    of_scikit_learn = type(model).__module__.startswith("sklearn.")
    features_only = of_scikit_learn and type(model).__name__ in FEATURES_ONLY
    if place.rows.released and features_only:
        return place.step(model, Role.RELEASED, "", *_no_weights(place, model))
    if place.rows.released:
        why = "the rows that it sees are randomised, but it may learn from the targets, which are not"
        return place.step(model, Role.UNPROTECTED, why)
    if features_only:
        role = Role.UNPROTECTED if place.rows.target else Role.FEATURES
        return place.step(model, role, why_it_learns(model), *_no_weights(place, model))
    if not (why := why_it_learns(model)):
        text = f"{place.name(model)} needs no fit: it {_NOTHING_ELSE}"
        return place.step(model, Role.NO_DATA, "", text)
    if inner_models(model):
        why = "is a composite that is not known here: what it does with private rows is not known"
        return place.step(model, Role.UNPROTECTED, why)
    return place.step(model, Role.UNPROTECTED, why)


def inverse_is_checked(name: str) -> str:
    """State an assumption: scikit-learn compares some private rows with themselves there and back, and may warn."""
    return f"it is not reported whether {name} warned that its inverse does not fit (check_inverse=True)"


def declares_itself(model: BaseEstimator, name: str) -> bool:
    """Tell if a class attribute was declared beside the methods that it is about, or after them."""
    for kind in type(model).__mro__:
        if name in vars(kind):
            return True
        if not _LOOKING.isdisjoint(vars(kind)):
            return False
    return True


def _no_weights(place: Place, model: BaseEstimator) -> tuple[str, ...]:
    """State an assumption: weights come past the randomiser, and no fitted model shows them."""
    if not has_fit_parameter(model, "sample_weight"):
        return ()
    return (f"{place.name(model)} was given no sample_weight that says something about rows",)


def _private(model: BaseEstimator, place: Place) -> Step:
    guarantee = getattr(model, "privacy_guarantee_", None)
    if not place.fitted:
        return place.step(model, Role.PRIVATE)
    if guarantee is None:
        raise NotFittedError(f"{place.name(model)} is not fitted yet.")
    if guarantee.epsilon == float("inf"):
        why = "its own guarantee has an infinite epsilon: it promises nothing"
        return place.step(model, Role.UNPROTECTED, why)
    if own := _defined_elsewhere(model):
        names = ", ".join(own[:3]) + (", …" if own[3:] else "")
        text = f"{place.name(model)} learns from private rows what its guarantee counts and nothing else: {names} of it"
        return place.step(model, Role.PRIVATE, "", f"{text} are not this package's")
    return place.step(model, Role.PRIVATE)


def _defined_elsewhere(model: BaseEstimator) -> list[str]:
    """List what classes from elsewhere define that a fit may call, except construction, prediction and texts."""
    found = {name for name in vars(model) if callable(getattr(type(model), name, None))}
    for base in type(model).__mro__:
        if not is_known(base) and base.__module__ not in ("builtins", "abc", "typing"):
            found |= {
                name
                for name, value in vars(base).items()
                if callable(value) or isinstance(value, _DESCRIPTORS) or not name.startswith("__")
            }
    return sorted(name for name in found - _HARMLESS if not re.fullmatch("predict.*|set_.*_request", name))
