"""Rules for estimators of scikit-learn that learn from the rows that they see, by class and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.utils import get_tags

_SCALE = (
    "its fit takes statistics of private rows without noise: scale by public numbers (PublicScaler), or within the "
    "budget"
)
_PLAIN = "its fit takes statistics of private rows without noise"
#: scikit-learn's estimators that learn from X and ignore y.
FEATURES_ONLY: dict[str, str] = {
    **dict.fromkeys((
        "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "QuantileTransformer", "PowerTransformer",
    ), _SCALE),
    **dict.fromkeys((
        "CountVectorizer", "DictVectorizer", "FactorAnalysis", "FastICA", "GaussianMixture", "IncrementalPCA",
        "IsolationForest", "IterativeImputer", "KBinsDiscretizer", "KMeans", "KNNImputer", "KernelCenterer",
        "KernelPCA", "MiniBatchKMeans", "MissingIndicator", "NMF", "Nystroem", "OneHotEncoder", "OrdinalEncoder",
        "PCA", "RBFSampler", "SimpleImputer", "SplineTransformer", "TfidfTransformer", "TfidfVectorizer",
        "TruncatedSVD", "VarianceThreshold",
    ), _PLAIN),
}  # fmt: skip


def speaks_of_rows(encoder: BaseEstimator) -> str:
    """Explain why an encoder of scikit-learn would report a row whose category is not listed; empty if it would not."""
    silent = "ignore" if isinstance(encoder, OneHotEncoder) else "use_encoded_value"
    if encoder.handle_unknown != silent:
        return (
            f"handle_unknown={encoder.handle_unknown!r} warns, or raises an error, where a row has a category that is "
            f"not listed: set handle_unknown={silent!r}, or use a public encoder of skprivate.preprocessing"
        )
    if getattr(encoder, "drop", None) is not None:
        return "warns, with drop, where a row has a category that is not listed: set drop=None"
    listed = getattr(encoder, "categories_", ()) if isinstance(encoder.categories, str) else encoder.categories
    if any(isinstance(value, Real) and abs(float(value)) >= 2**53 for values in listed for value in values):
        return (
            "has numbers of 2**53 and more among its categories: with one missing entry in a frame, all integers of "
            "its column become floats, which merge some of them. Use a public encoder of skprivate.preprocessing"
        )
    return ""


def _encoder(model: BaseEstimator) -> str:
    if isinstance(model.categories, str):
        return "learns the categories that occur: give them by categories=[...], from what is publicly known"
    if model.min_frequency is not None or model.max_categories is not None:
        return "counts how often categories occur (min_frequency, max_categories): leave both at None"
    return speaks_of_rows(model)


def _imputer(model: BaseEstimator) -> str:
    if model.strategy != "constant":
        return (
            "learns its fill values from private rows: use strategy='constant', or impute within the budget "
            "(skprivate.preprocessing.PrivateImputer)"
        )
    if model.add_indicator or not model.keep_empty_features:
        return (
            "the columns it drops or adds say where values are missing: set keep_empty_features=True and "
            "add_indicator=False"
        )
    return ""


#: scikit-learn's transformers that look at no data with the right parameters; the functions say what is wrong else.
#: Exact classes: what a subclass does is not known. The tag ``requires_fit=False`` is no proof (a Gaussian process
#: has it, and learns).
NO_DATA: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((
        Binarizer, FeatureHasher, FunctionTransformer, HashingVectorizer, Normalizer, PolynomialFeatures,
    ), lambda model: ""),
    AdditiveChi2Sampler: lambda model: "raises an error where a row holds a negative number",
    OneHotEncoder: _encoder,
    OrdinalEncoder: _encoder,
    SimpleImputer: _imputer,
}  # fmt: skip


def inner_models(model: BaseEstimator) -> list[tuple[str, Any]]:
    """List estimators among the parameters of a model, with their names for messages."""
    found: list[tuple[str, Any]] = []
    for name, value in model.get_params(deep=False).items():
        if hasattr(value, "fit") and not isinstance(value, type):
            found.append((name, value))
        elif isinstance(value, (list, tuple)):
            pairs = [pair for pair in value if isinstance(pair, tuple) and len(pair) >= 2]
            found += [(f"{name} {pair[0]!r}", pair[1]) for pair in pairs if hasattr(pair[1], "fit")]
    return found


def needs_fit(model: BaseEstimator) -> bool:
    """Tell if an estimator has to be fitted before it transforms."""
    return bool(get_tags(model).requires_fit)


def why_it_learns(model: BaseEstimator) -> str:
    """Explain why a single estimator without a guarantee learns from rows that it sees; empty if it does not."""
    if type(model) in NO_DATA:
        return NO_DATA[type(model)](model)
    of_scikit_learn = type(model).__module__.startswith("sklearn.")
    if of_scikit_learn and (why := FEATURES_ONLY.get(type(model).__name__)):
        return why
    if getattr(model, "looks_at_no_data", False) is True:
        return ""
    if not of_scikit_learn and hasattr(model, "transform") and not needs_fit(model):
        return ""
    return "learns from private rows without a guarantee"


def learning_parts(step: Any) -> Iterator[tuple[Any, str]]:
    """Find the parts of a step that learn from rows when it is fitted, and why."""
    if isinstance(step, FrozenEstimator) or not hasattr(step, "get_params"):
        return
    if {"epsilon", "ledger"} <= step.get_params(deep=False).keys():
        return  # it has a guarantee of its own
    if parts := inner_models(step):
        for _, part in parts:
            yield from learning_parts(part)
    elif why := why_it_learns(step):
        yield step, why
