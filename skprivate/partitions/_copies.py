"""A copy of a model for publication: what its steps account for, without ledgers, paths and generators."""

from __future__ import annotations

import dis
import inspect
import io
import pickle
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import PurePath
from types import FunctionType
from typing import Any

from joblib import Memory
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator

from skprivate.privacy import GENERATORS, PrivacyGuarantee, PrivacyLedger

NOT_PUBLISHED = (PrivacyLedger, PurePath, Memory, *GENERATORS)
#: Attributes that functions outside the classes assign: scikit-learn's helpers for columns, labels and options.
_ASSIGNED_BY_HELPERS = frozenset({
    "_metadata_request", "_sklearn_output_config", "_sklearn_version", "_skprivate_learnt", "_skprivate_version",
    "_skprivate_warnings", "feature_names_in_", "n_features_in_",
})  # fmt: skip
_CALLBACKS = frozenset({"_skl_callbacks"})
#: Attributes that an earlier fit with other options leaves behind, and what is set where they are of this fit.
_NEEDS = {
    "_default_to_infrequent_mappings": "_infrequent_enabled",
    "_infrequent_indices": "_infrequent_enabled",
    "_max_samples": "bootstrap",
    "_n_samples": "bootstrap",
    "max_features_": "max_features",
    "oob_decision_function_": "bootstrap",
    "oob_prediction_": "bootstrap",
    "oob_score_": "bootstrap",
}


def published_copy(model: BaseEstimator, *, allow_invalid: bool = False, kept: Mapping[int, Any] | None = None) -> Any:
    """Copy a model for publication: ledgers, paths, caches and generators become None, at any depth.

    ``kept`` are fitted estimators that stay, by their id: all others become unfitted clones. By default all stay. A
    guarantee that is not valid for release is refused, unless ``allow_invalid``.
    """
    name, buffer = type(model).__name__, io.BytesIO()
    pickler = _Publisher(buffer, kept)
    try:
        pickler.dump(model)
    except (pickle.PicklingError, AttributeError, RuntimeError, TypeError) as error:
        raise TypeError(f"model must be one that can be pickled to be published, got {name}: {error}") from error
    if not (allow_invalid or all(guarantee.valid_for_release for guarantee in pickler.guarantees)):
        raise ValueError(
            f"model must have a guarantee that is valid for release, got {name}: its noise was simulated (a seed, or a "
            "dry run), so that anybody can take it away. Fit it again with random_state=None. allow_invalid=True makes "
            "a copy all the same, for trials."
        )
    copy = pickle.loads(buffer.getvalue())
    parameters = copy.get_params() if hasattr(copy, "get_params") else {}
    caches = [key for key, value in parameters.items() if key.split("__")[-1] == "memory" and value is not None]
    return copy.set_params(**dict.fromkeys(caches)) if caches else copy


def is_estimator(value: object) -> bool:
    """Tell if `clone` makes an unfitted copy of an object."""
    return not isinstance(value, type) and hasattr(value, "get_params") and hasattr(value, "fit")


def is_known(code: object) -> bool:
    """Tell if a class, an object of one or a function is of scikit-learn or of this package, whose code is known."""
    return (getattr(code, "__module__", None) or "").partition(".")[0] in ("sklearn", "skprivate")


def kept_attributes(model: BaseEstimator) -> dict[str, Any]:
    """Select attributes of a fitted estimator that are published.

    For a class of scikit-learn or of this package: parameters, and what methods of the class assign. Else all.
    """
    state: dict[str, Any] = vars(model)
    kind: Any = type(model)
    if not is_known(kind):
        return state
    names = _assigned(kind).union(_ASSIGNED_BY_HELPERS, model.get_params(deep=False)) - _CALLBACKS
    names |= {"classes_"} if is_classifier(model) else set()
    return {
        name: value
        for name, value in state.items()
        if name in names and (name not in _NEEDS or state.get(_NEEDS[name]))
    }


@lru_cache(maxsize=256)
def _assigned(kind: type[Any]) -> frozenset[str]:
    """List attributes that methods of a class assign, read off their code: right for every version."""
    return frozenset(
        step.argval
        for base in kind.__mro__
        for name, value in vars(base).items()
        if name != "__sklearn_tags__"
        for function in _functions_of(value)
        for step in dis.get_instructions(function)
        if step.opname == "STORE_ATTR"
    )


def _functions_of(value: object) -> Iterator[FunctionType]:
    """Find the functions behind an entry of a class: scikit-learn wraps some, and hides others behind conditions."""
    for held in (value, *(getattr(value, name, None) for name in ("fn", "__func__", "fget", "fset"))):
        if callable(held) and isinstance(found := inspect.unwrap(held), FunctionType):
            yield found


class _Publisher(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, kept: Mapping[int, Any] | None) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._kept = kept
        self.guarantees: list[PrivacyGuarantee] = []

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, PrivacyGuarantee):
            self.guarantees.append(obj)
        if isinstance(obj, NOT_PUBLISHED):
            return type(None), ()  # NoneType() is None
        if self._kept is None or not is_estimator(obj):
            return NotImplemented
        if id(obj) not in self._kept:
            return _unfitted(obj).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if not is_known(type(obj)) or len(reduced) < 3 or not isinstance(reduced[2], dict):
            return reduced
        names = kept_attributes(obj).keys() | _ASSIGNED_BY_HELPERS
        state = {name: value for name, value in reduced[2].items() if name in names}
        return (*reduced[:2], state, *reduced[3:])


def _unfitted(model: BaseEstimator) -> Any:
    """Clone without anything learnt; scikit-learn's own clone of a frozen estimator is the same, fitted."""
    if type(model) is FrozenEstimator:
        return FrozenEstimator(clone(model.estimator))
    if (fresh := clone(model)) is model:
        raise TypeError(f"{type(model).__name__} stays fitted when it is cloned, and no step accounts for it")
    return fresh
