"""Short names of public things: equal ones share one, different ones do not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
