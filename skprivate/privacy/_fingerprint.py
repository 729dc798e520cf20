"""Short names of public things: equal ones share one, different ones do not."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from numbers import Integral, Real
from types import FunctionType
from typing import Any

import numpy as np

#: 16^10 names: among a thousand distances two different ones share one with probability 5e-7.
_DIGITS = 10
#: Of an estimator: what does not decide how it maps rows.
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
    """A short hash of numbers, strings, sequences, mappings, estimators.

    How they are stored does not matter: 1 and 1.0, lists and arrays of any layout and type, the order of a mapping.
    Functions and objects that nothing is known of equal themselves alone.
    """
    return hashlib.sha256(_bytes(values)).hexdigest()[:_DIGITS]


def _bytes(value: Any) -> bytes:
    """Bytes of a value, after its kind and their number, so that no other value has the same."""
    kind, content = _content(value)
    return b"%s %d " % (kind.encode(), len(content)) + content


def _content(value: Any) -> tuple[str, bytes]:
    if isinstance(value, Real | np.bool):
        return "number", _number(value)
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass")
    if isinstance(value, Mapping):
        return "mapping", b"".join(sorted(map(_bytes, value.items())))
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        return _sequence(value)
    if hasattr(value, "get_params") and not isinstance(value, type):
        fitted = {k: v for k, v in vars(value).items() if k.endswith("_") and not k.startswith("_")}
        state = {k: v for k, v in {**value.get_params(deep=False), **fitted}.items() if k not in _BESIDE}
        return f"{type(value).__module__}.{type(value).__qualname__}", _bytes(state)
    try:
        # The name of a function would say nothing of what it does.
        return "object", repr(value).encode() if isinstance(value, FunctionType) else pickle.dumps(value)
    except Exception:
        return "object", repr(value).encode()


def _number(value: Any) -> bytes:
    whole = int(value) if isinstance(value, Integral | np.bool) else None
    if whole is not None and abs(whole) > 2**53:
        return str(whole).encode()
    return np.array(float(value) + 0.0, dtype="<f8").tobytes()


def _sequence(value: Any) -> tuple[str, bytes]:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "biuf" and not (
        array.dtype.kind in "iu" and np.any(np.abs(array.astype(float)) > 2**53)
    ):
        return f"numbers {array.shape}", (array.astype("<f8", order="C") + 0.0).tobytes()
    entries = value if isinstance(value, list | tuple) else array.tolist()
    return "sequence", b"".join(map(_bytes, entries))
