"""Which steps map every row by itself, to the last bit: those shown to, and what is said of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import (
    GenericUnivariateSelect,
    SelectFdr,
    SelectFpr,
    SelectFromModel,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from skprivate.inspection._steps import Role, Step
from skprivate.metric import MetricPrivatizer
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicOneHotEncoder,
    PublicOrdinalEncoder,
    PublicScaler,
    RowByRow,
)
from skprivate.privacy._guarantee import TO_THE_LAST_BIT
from skprivate.user_level import UserLevelSGDClassifier, UserLevelSGDRegressor

__all__ = ["BY_ITSELF", "seen_by_private", "speaks_of_rows"]


def _always(model: Any) -> bool:
    return True


def speaks_of_rows(encoder: Any) -> str:
    """Why an encoder of scikit-learn would say that a row has a category that is not listed, or nothing."""
    silent = "ignore" if isinstance(encoder, OneHotEncoder) else "use_encoded_value"
    if encoder.handle_unknown != silent:
        return (
            f"handle_unknown={encoder.handle_unknown!r} warns, or raises an error, where a row has a category that is "
            f"not listed: set handle_unknown={silent!r}, or use a public encoder of skprivate.preprocessing"
        )
    if getattr(encoder, "drop", None) is not None:
        return "warns, with drop, where a row has a category that is not listed: set drop=None"
    listed = (
        getattr(encoder, "categories_", ()) if isinstance(encoder.categories, str) else encoder.categories
    )
    if any(isinstance(value, Real) and abs(float(value)) >= 2**53 for values in listed for value in values):
        return (
            "has numbers of 2**53 and more among its categories: with one missing entry in a frame, all integers of "
            "its column become floats, which merge some of them. Use a public encoder of skprivate.preprocessing"
        )
    return ""


def _is_silent(encoder: Any) -> bool:
    return not speaks_of_rows(encoder)


#: Exact classes, and with which parameters. Each has its property test in tests/inspection/test_by_row.py: results do
#: not change with the other rows, their number and order, or the layout of memory. `Normalizer` fails it with sums.
BY_ITSELF: dict[type, Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            *(
                PublicOneHotEncoder,
                PublicOrdinalEncoder,
                PublicScaler,
                PrivateImputer,
                PrivateKBinsDiscretizer,
            ),
            *(PrivateQuantileTransformer, PrivateSplineTransformer, PrivateStandardScaler, MetricPrivatizer),
            *(UserLevelSGDClassifier, UserLevelSGDRegressor),
            *(
                Binarizer,
                KBinsDiscretizer,
                MaxAbsScaler,
                MinMaxScaler,
                PolynomialFeatures,
                QuantileTransformer,
            ),
            *(RobustScaler, RowByRow, StandardScaler),
            *(GenericUnivariateSelect, SelectFdr, SelectFpr, SelectFromModel, SelectFwe, SelectKBest),
            *(SelectPercentile, VarianceThreshold),
        ),
        _always,
    ),
    FunctionTransformer: lambda model: model.func is None and not model.validate,
    Normalizer: lambda model: model.norm == "max",
    OneHotEncoder: _is_silent,
    OrdinalEncoder: _is_silent,
    # With an integer, whether a column has a missing entry would decide its type. A float does not go into integers.
    SimpleImputer: lambda model: model.strategy == "constant" and isinstance(model.fill_value, float),
}

#: Of scikit-learn: ``transform`` iterates over all rows together.
_COUPLING = ("LatentDirichletAllocation", "MiniBatchNMF", "NMF")


def seen_by_private(found: Iterable[Step]) -> Iterator[Step]:
    """Steps whose rows a private step sees, with what has to be true of each for its guarantee to carry over."""
    for step in found:
        model, place, name = step.model, step.place, step.place.name(step.model)
        maps = step.role in (Role.NO_DATA, Role.BEFORE, Role.PRIVATE) and not place.chooses
        # Rows that were released may be mapped in any way; a column transformer's parts have steps of their own.
        if not maps or place.released or (type(model) is ColumnTransformer and step.role is Role.NO_DATA):
            yield step
        elif place.alone:
            ours = type(model).__module__.startswith(("sklearn.", "skprivate."))
            keeps = (
                ()
                if ours and type(model) is not FunctionTransformer
                else (f"{name} keeps nothing from one call to the next",)
            )
            yield replace(step, of_rows=keeps)
        elif all(type(part) in BY_ITSELF and BY_ITSELF[type(part)](part) for part in _parts(model)):
            yield step
        elif any(map(_couples, _parts(model))):
            why = (
                "transforms all rows together, until they converge: one row moves what becomes of the others. Wrap it "
                "in skprivate.preprocessing.RowByRow"
            )
            yield replace(step, role=Role.UNPROTECTED if place.target else Role.FEATURES, why=why)
        else:
            text = f"{name} treats every row by itself, {TO_THE_LAST_BIT}, and warns of no row"
            yield replace(step, of_rows=(f"{text}: wrapped in RowByRow it does",))


def _parts(model: Any) -> Iterator[Any]:
    """What a public model maps rows by: of composites that put columns beside each other, their parts."""
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


def _couples(model: Any) -> bool:
    inside = () if type(model) is RowByRow else model.get_params(deep=True).values()
    return any(
        kind.__module__.startswith("sklearn.") and kind.__name__ in _COUPLING
        for part in (model, *inside)
        for kind in type(part).__mro__
    )
