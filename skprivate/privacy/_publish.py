"""Copies for publication, names of public things, and the check of a guarantee against its draws."""

from __future__ import annotations

import dis
import hashlib
import inspect
import io
import math
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from numbers import Integral, Real
from pathlib import PurePath
from types import FunctionType
from typing import Any

import numpy as np
from joblib import Memory
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator

from skprivate._messages import rounded_up
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee
from skprivate.privacy.accounting._composition import compose_epsilon
from skprivate.privacy.ledger._entries import LedgerEntry
from skprivate.privacy.ledger._ledger import PrivacyLedger
from skprivate.privacy.noise._bits import GENERATORS

__all__ = ["as_stated", "understated"]

NOT_PUBLISHED = (PrivacyLedger, PurePath, Memory, *GENERATORS)
#: Attributes that functions outside the classes assign: scikit-learn's helpers for columns, labels and options.
_ASSIGNED_BY_HELPERS = frozenset(
    {
        "_metadata_request",
        "_sklearn_output_config",
        "_sklearn_version",
        "_skprivate_version",
        "feature_names_in_",
        "n_features_in_",
    }
)
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


def published_copy(model: Any, *, allow_invalid: bool = False, kept: Mapping[int, Any] | None = None) -> Any:
    """A copy in which ledgers, paths, caches and generators are None, however deep they lie.

    ``kept`` are fitted estimators that stay, by their id: all others become unfitted clones. By default all stay.

    Raises
    ------
    ValueError
        If any guarantee in it is not valid for release, unless that is allowed.
    TypeError
        If the model cannot be pickled.
    """
    name, buffer = type(model).__name__, io.BytesIO()
    pickler = _Publisher(buffer, kept)
    try:
        pickler.dump(model)
    except (pickle.PicklingError, AttributeError, RuntimeError, TypeError) as error:
        raise TypeError(
            f"model must be one that can be pickled to be published, got {name}: {error}"
        ) from error
    if not (allow_invalid or all(guarantee.valid_for_release for guarantee in pickler.guarantees)):
        raise ValueError(
            f"model must have a guarantee that is valid for release, got {name}: its noise was simulated (a seed, or a "
            "dry run), so that anybody can take it away. Fit it again with random_state=None. allow_invalid=True makes "
            "a copy all the same, for trials."
        )
    copy = pickle.loads(buffer.getvalue())
    parameters = copy.get_params() if hasattr(copy, "get_params") else {}
    caches = [
        key for key, value in parameters.items() if key.split("__")[-1] == "memory" and value is not None
    ]
    return copy.set_params(**dict.fromkeys(caches)) if caches else copy


def is_estimator(value: Any) -> bool:
    """Whether `clone` makes an unfitted copy of an object."""
    return not isinstance(value, type) and hasattr(value, "get_params") and hasattr(value, "fit")


def is_known(kind: type[Any]) -> bool:
    """Whether a class is one of scikit-learn or of this package, whose methods are known."""
    return kind.__module__.partition(".")[0] in ("sklearn", "skprivate")


def kept_attributes(model: Any) -> dict[str, Any]:
    """Attributes of a fitted estimator that are published.

    Of a class of scikit-learn or of this package: parameters, and what methods of the class assign. Else all.
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
    """Names of the attributes that methods of a class assign, read off their code: right for every version."""
    return frozenset(
        step.argval
        for base in kind.__mro__
        for name, value in vars(base).items()
        if name != "__sklearn_tags__"
        for function in _functions_of(value)
        for step in dis.get_instructions(function)
        if step.opname == "STORE_ATTR"
    )


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """The functions behind an entry of a class: scikit-learn wraps some, and hides others behind conditions."""
    for held in (value, *(getattr(value, name, None) for name in ("fn", "__func__", "fget", "fset"))):
        if callable(held) and isinstance(found := inspect.unwrap(held), FunctionType):
            yield found


class _Publisher(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, kept: Mapping[int, Any] | None) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._kept = kept
        self.guarantees: list[PrivacyGuarantee] = []

    def reducer_override(self, obj: Any) -> Any:
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


def _unfitted(model: Any) -> Any:
    """A clone that has learnt nothing; scikit-learn's own of a frozen estimator is the same, fitted."""
    if type(model) is FrozenEstimator:
        return FrozenEstimator(clone(model.estimator))
    if (fresh := clone(model)) is model:
        raise TypeError(f"{type(model).__name__} stays fitted when it is cloned, and no step accounts for it")
    return fresh


try:
    import cloudpickle
except ModuleNotFoundError:  # older releases of joblib bring their own
    from joblib.externals import cloudpickle

#: 16^10 names: among a thousand distances two different ones share one with probability 5e-7.
_DIGITS = 10
#: Of an estimator: what does not decide how it maps rows.
_OF_SKLEARN = ("_skl", "_metadata")
_BESIDE = (
    "feature_names_in_",
    "ledger",
    "n_features_in_",
    "n_jobs",
    "privacy_guarantee_",
    "random_state",
    "verbose",
)


def fingerprint(*values: Any) -> str:
    """A short hash of numbers, strings, sequences, mappings, estimators, functions.

    How they are stored does not matter: 1 and 1.0, lists and arrays of any layout and type, the order of a mapping.
    """
    return hashlib.sha256(_bytes(values)).hexdigest()[:_DIGITS]


def _bytes(value: Any) -> bytes:
    """Bytes of a value, after its kind and their number, so that no other value has the same."""
    kind, content = _content(value)
    return b"%s %d " % (kind.encode(), len(content)) + content


def _content(value: Any) -> tuple[str, bytes]:
    if (numbers := _as_numbers(value)) is not None:
        return f"numbers {numbers.shape}", (numbers.astype("<f8", order="C") + 0.0).tobytes()
    if isinstance(value, Integral):
        return "integer", str(int(value)).encode()
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass")
    if isinstance(value, Mapping):
        return "mapping", b"".join(sorted(map(_bytes, value.items())))
    if isinstance(value, list | tuple):
        return "sequence", b"".join(map(_bytes, value))
    if hasattr(value, "__array__") and not isinstance(value, type):
        return "sequence", b"".join(map(_bytes, np.asarray(value).tolist()))
    if hasattr(value, "get_params") and not isinstance(value, type):
        known = {**value.get_params(deep=False), **vars(value)}  # neighbours keep their rows in _fit_X
        state = {k: v for k, v in known.items() if not (k in _BESIDE or k.startswith(_OF_SKLEARN))}
        return f"{type(value).__module__}.{type(value).__qualname__}", _bytes(state)
    return "object", cloudpickle.dumps(value)  # functions by what they do, where they have no name


def _as_numbers(value: Any) -> NDArray[np.float64] | None:
    """Numbers in any type and layout as floats; None for what is none, or would be rounded."""
    if isinstance(value, Integral | np.bool):
        exact = abs(int(value)) < 2**1000 and int(float(value)) == value
        return np.array(float(value)) if exact else None
    if isinstance(value, Real):
        return np.array(float(value))
    if isinstance(value, list | tuple):
        parts = [_as_numbers(entry) for entry in value]
        shapes = {None if part is None else part.shape for part in parts}
        return None if None in shapes or len(shapes) > 1 else np.array(parts, dtype=np.float64)
    if not hasattr(value, "__array__") or isinstance(value, type):
        return None
    array = np.asarray(value)
    if array.dtype == object or (
        array.dtype.kind in "iu" and np.any(np.abs(array.astype(np.float64)) >= 2**53)
    ):
        return _as_numbers(array.tolist())
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None


#: Sums of budgets may lie so little below what the accountant finds for all draws together.
_ROUNDING = 1 - 1e-3


def as_stated(guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """A guarantee with neither draws nor payment to speak for it counts as one that somebody stated."""
    return guarantee if guarantee.events or guarantee.ledger_entry else replace(guarantee, stated=True)


def understated(guarantee: PrivacyGuarantee, ledgers: Iterable[PrivacyLedger | None] = ()) -> str:
    """Why a guarantee is smaller than its draws or its entry in one of the ledgers cost; empty where it is not."""
    delta = 0.0 if guarantee.adjacency is Adjacency.METRIC else guarantee.delta
    stated = f"its guarantee states epsilon {guarantee.epsilon!r} and delta {guarantee.delta!r}"
    # Draws that depended on results cost at least as much as those that did not.
    if guarantee.epsilon < (needed := _needed(guarantee, delta)) * _ROUNDING:
        return f"{stated}, and its draws compose to epsilon {rounded_up(needed)} at this delta"
    for ledger in ledgers:
        entry = None if ledger is None else _entry(guarantee, ledger)
        if entry is None:
            continue
        if (
            guarantee.epsilon < entry.own_epsilon * _ROUNDING
            or guarantee.delta < entry.own_delta * _ROUNDING
            or (str(guarantee.unit), str(guarantee.adjacency))
            != (entry.unit, entry.adjacency.partition(":")[0])
            or (entry.simulated and guarantee.valid_for_release)
        ):
            noise = ", simulated" if entry.simulated else ""
            return (
                f"{stated} for one {guarantee.unit} ({guarantee.adjacency}), and entry {entry.id} of its ledger states "
                f"epsilon {entry.own_epsilon!r} and delta {entry.own_delta!r} for one {entry.unit} "
                f"({entry.adjacency}{noise})"
            )
    return ""


def _needed(guarantee: PrivacyGuarantee, delta: float) -> float:
    """The least ε proven for its draws: all together, or the sum of the pure ones beside the others."""
    # At large ε the bound for all together is the looser one, by up to 2 %.
    rest = [(event, count) for event, count in guarantee.events if math.isinf(event.pure_epsilon)]
    pure = [(event, count) for event, count in guarantee.events if math.isfinite(event.pure_epsilon)]
    together = compose_epsilon(guarantee.events, delta)
    return min(together, compose_epsilon(pure) + compose_epsilon(rest, delta)) if rest and pure else together


def _entry(guarantee: PrivacyGuarantee, ledger: PrivacyLedger) -> LedgerEntry | None:
    """The entry that paid for a guarantee, if the ledger is at hand."""
    identity, _, number = guarantee.ledger_entry.rpartition("#")
    if ledger.identity != identity:
        return None
    try:
        return next((entry for entry in ledger.entries() if str(entry.id) == number), None)
    except Exception:  # a file that was moved, or that is damaged: whoever reads the ledger is told
        return None
