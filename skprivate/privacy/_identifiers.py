"""Identifiers of users: who is the same user, and a canonical name for each.

Two entries are the same user if and only if they are equal *and* of the same kind. NumPy's conversions decide for all
entries together (one negative number among large ones makes all of them floats, one string makes all of them strings),
so that one user's identifier would merge or rename others. Nothing here converts an entry because of another one. Text
is compared in the Unicode normal form NFC: a name typed on two systems is one user.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import operator
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

import narwhals as nw
import numpy as np
import numpy.typing as npt

try:
    import cloudpickle
except ModuleNotFoundError:  # older releases of joblib bring their own
    from joblib.externals import cloudpickle

P = ParamSpec("P")
T = TypeVar("T")
#: Assumptions of guarantees in which a unit stays in its part of the data.
KEEPS_IDENTIFIER = "an exchanged user keeps its identifier, which decides the part of the data that it is in"
KEEPS_PLACE = "an exchanged row keeps its place, which decides the part of the data that it is in"
_NOBODY = "Leave out rows without a user, or give each of them an identifier of its own"
ALLOWED = "integers, strings, bytes, UUIDs or datetime64 (weeks to attoseconds), all of one kind"
#: Attoseconds of the units of datetime64 that have a fixed length.
ATTOSECONDS = {
    unit: seconds * 10**18 for unit, seconds in (("W", 604800), ("D", 86400), ("h", 3600), ("m", 60), ("s", 1))
} | {unit: 10 ** (15 - 3 * i) for i, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"))}
#: Kinds of single entries; every other type is refused.
KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("integer", (int, np.integer)),
    ("string", (str,)),
    ("bytes", (bytes,)),
    ("uuid", (UUID,)),
)
#: Number of kinds of identifiers.
N_KINDS = len(KINDS) + 1
#: 16^10 names: among a thousand distances two different ones share one with probability 5e-7.
_DIGITS = 10
#: Of an estimator: what does not decide how it maps rows.
_OF_SKLEARN = ("_skl", "_metadata", "_skprivate")
_BESIDE = ("feature_names_in_", "ledger", "n_features_in_", "n_jobs", "privacy_guarantee_", "random_state", "verbose")


def encode_identifiers(ids: object, n_rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Number the users of the rows by first appearance: a code for each row, an identifier for each code."""
    values: Any = _unpack(ids)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"user_ids must be one-dimensional, got an array of {values.ndim} dimensions.")
        if values.dtype.kind in "OUST":
            values = values.tolist()  # Python's equality: "a" and "a\0" differ, 1 and "1" too
    if len(values) != n_rows:
        raise ValueError(f"user_ids must have one entry per row: got {len(values)} entries for {n_rows} rows.")
    if isinstance(values, np.ndarray):
        return _encode_array(values)
    values = _of_one_kind(values)
    if values and isinstance(values[0], str):
        values = [unicodedata.normalize("NFC", value) for value in values]
    numbers = {value: i for i, value in enumerate(dict.fromkeys(values))}
    names = np.empty(len(numbers), dtype=object)
    names[:] = list(numbers)
    return np.fromiter(map(numbers.__getitem__, values), dtype=np.int64, count=n_rows), names


def in_one_order(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function of rows: refuse pandas objects that name the rows in another order (`refuse_other_index`)."""
    names = list(inspect.signature(method).parameters)

    @functools.wraps(method)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        refuse_other_index(**dict(zip(names, args, strict=False)), **options)
        return method(*args, **options)

    return checked


def refuse_other_index(X: Any = None, y: Any = None, **per_row: object) -> None:
    """Refuse pandas objects that name the rows of X in another order: rows are matched by position.

    Indices are public. Metadata must have the index of X. A target may have other labels, as behind a step that makes
    new frames, or numbers of rows, as a transformer of targets gives them, but not some of the same labels elsewhere.
    """
    of_x, of_y = _index(X), _index(y)
    if _reordered(of_x, of_y) and not _numbers_rows(of_y):
        raise _other_index("y", "X")
    first, rows = next(((name, index) for name, index in (("X", of_x), ("y", of_y)) if index is not None), ("", None))
    for name, index in ((name, _index(values)) for name, values in per_row.items()):
        if index is None:
            continue
        if rows is None:
            first, rows = name, index
        elif len(index) == len(rows) and not index.equals(rows) if of_x is not None else _reordered(index, rows):
            raise _other_index(name, first)


def _index(values: Any) -> Any:
    pandas = nw.dependencies.is_pandas_like_dataframe(values) or nw.dependencies.is_pandas_like_series(values)
    return values.index if pandas else None


def _reordered(index: Any, other: Any) -> bool:
    """Check that two indices have the same labels in another order, or some where neither just numbers rows."""
    if index is None or other is None or len(index) != len(other) or index.equals(other):
        return False
    shared = index.isin(other)
    return bool(shared.all() or (shared.any() and not _numbers_rows(index) and not _numbers_rows(other)))


def _numbers_rows(index: object) -> bool:
    return (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1)


def _other_index(name: str, of: str) -> ValueError:
    return ValueError(
        f"{name} and {of} must have the same index where both are pandas objects, since rows are matched by position. "
        f"Pass {name}.loc[{of}.index], or {name}.to_numpy() if the rows have the same order already."
    )


def identifier_bytes(names: npt.NDArray[Any]) -> list[bytes]:
    """Return a canonical name in bytes for each identifier: equal for equal ones of a kind, different otherwise.

    Independent of how the identifier was stored: 5 as int8, as uint64 and as Python integer have the same name, and
    so has one instant in different units of datetime64.
    """
    if names.dtype.kind == "M":
        unit, count = np.datetime_data(names.dtype)
        step = count * ATTOSECONDS[unit]
        return [b"datetime:" + _integer_bytes(v * step) for v in names.astype(np.int64).tolist()]
    return [_name(value) for value in names.tolist()]


def kind_of_identifiers(names: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return 1 for the kind of the identifiers among `KINDS` and, last, instants; 0 for the others, and without any."""
    if not len(names):
        return np.zeros(N_KINDS, dtype=np.int64)
    instants = names.dtype.kind == "M"
    kinds = [not instants and isinstance(names[0], types) for _, types in KINDS]
    return np.array([*kinds, instants], dtype=np.int64)


def hash_identifiers(names: npt.NDArray[Any], key: bytes) -> npt.NDArray[np.uint64]:
    """Compute a keyed BLAKE2b hash of each identifier alone, uniform on 0 … 2⁶⁴ − 1."""
    # The key is absorbed once; each copy goes on from there.
    start = hashlib.blake2b(digest_size=8, key=key)

    def number(name: bytes) -> int:
        state = start.copy()
        state.update(name)
        return int.from_bytes(state.digest(), "big")

    return np.fromiter(map(number, identifier_bytes(names)), dtype=np.uint64, count=len(names))


def identifier_tags(names: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Compute 256 bits for each identifier, equal for the same one and different otherwise, in any array.

    An integer of 64 bits is its own tag. Of others it is a BLAKE2b hash, for which nobody has found two that are equal.
    """
    tags = np.zeros((len(names), 4), dtype=np.uint64)
    if names.dtype.kind == "i":
        tags[:, 0] = names.astype(np.int64).view(np.uint64)
        return tags
    values = names.tolist()
    hashed = list(range(len(names)))
    if names.dtype.kind != "M":
        small = [i for i, value in enumerate(values) if isinstance(value, int) and -(2**63) <= value < 2**63]
        tags[small, 0] = np.array([values[i] for i in small], dtype=np.int64).view(np.uint64)
        hashed = sorted(set(hashed) - set(small))
    digests = b"".join(hashlib.blake2b(name, digest_size=32).digest() for name in identifier_bytes(names[hashed]))
    tags[hashed] = np.frombuffer(digests, dtype="<u8").reshape(-1, 4)
    if names.dtype.kind == "M":
        kinds = [N_KINDS - 1] * len(hashed)
    else:
        kinds = [next(k for k, (_, types) in enumerate(KINDS) if isinstance(values[i], types)) for i in hashed]
    tags[hashed, 3] = (tags[hashed, 3] & ~np.uint64(255)) | np.array(kinds, dtype=np.uint64)
    return tags


def chosen_keys(
    tags: npt.NDArray[np.uint64],
    unit: npt.NDArray[np.int64],
    keys: Sequence[Any],
    key: npt.NDArray[np.int64],
    *,
    most: int,
    salt: int,
) -> npt.NDArray[np.bool_]:
    """Choose up to ``most`` pairs of each unit by a keyed hash of its tag and its key, whatever other units do.

    Pair i is of ``unit[i]``, whose tag is that row of ``tags``, and of ``keys[key[i]]``, a tuple of kinds and values.
    """
    names = np.empty(len(keys), dtype=object)
    # Integers in hexadecimal: Python refuses thousands of decimal digits.
    names[:] = [repr([(kind, hex(value) if type(value) is int else value) for kind, value in each]) for each in keys]
    mixed = mix_tags(tags, salt)[unit] ^ mix_tags(identifier_tags(names), salt + 1)[key]
    order = np.lexsort((mix_tags(mixed[:, None], salt + 2), unit))
    sorted_units = unit[order]
    kept = np.zeros(len(order), dtype=bool)
    kept[order] = np.arange(len(order)) - np.searchsorted(sorted_units, sorted_units, side="left") < most
    return kept


def mix_tags(tags: npt.NDArray[np.uint64], salt: int) -> npt.NDArray[np.uint64]:
    """Hash words of 64 bits together (the finaliser of SplitMix64 after each)."""
    state = np.full(len(tags), salt % 2**64, dtype=np.uint64)
    for word in tags.T:
        state ^= word
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state ^= state >> np.uint64(shift)
            state *= np.uint64(factor)
        state ^= state >> np.uint64(31)
        state += np.uint64(0x9E3779B97F4A7C15)
    return state


def kinds_in_words(numbers: Iterable[int]) -> str:
    """Name kinds of identifiers by their numbers in `identifier_tags`."""
    names = [kind for kind, _ in KINDS] + ["datetime64"]
    return " and ".join(names[number] for number in numbers)


def several_kinds(kinds: str) -> TypeError:
    """Make the error for blocks of rows with identifiers of several kinds."""
    return TypeError(_refusal(kinds, is_float=False))


def _unpack(ids: Any) -> npt.NDArray[Any] | list[Any]:
    """Return an array whose type was not guessed from its entries, or a list of entries."""
    if getattr(ids, "nlevels", 1) > 1:
        raise TypeError(
            f"user_ids must have one entry per row, got an index of {ids.nlevels} levels. Pass one of them."
        )
    if isinstance(ids, np.ma.MaskedArray):
        missing = bool(np.ma.getmaskarray(ids).any())
    elif hasattr(ids, "isna"):  # pandas
        missing = bool(np.asarray(ids.isna()).any())
    else:  # a method in polars, a number in pyarrow
        count = getattr(ids, "null_count", 0)
        count = count() if callable(count) else count
        missing = isinstance(count, int) and count > 0
    if missing:
        raise _missing()
    times = getattr(ids, "dt", ids)
    if getattr(times, "tz", None) is not None:  # of pandas; NumPy makes instants of those of others by itself
        ids = times.tz_convert(None)
    if hasattr(ids, "to_list") and "Int128" in str(getattr(ids, "dtype", "")):
        return list(ids.to_list())  # NumPy has no such integers
    if hasattr(ids, "__array__"):
        array = np.asarray(ids)
        # NumPy's strings of fixed width lose trailing zeros, which polars keeps.
        return list(ids.to_list()) if array.dtype.kind in "US" and hasattr(ids, "to_list") else array
    if isinstance(ids, Sequence) and not isinstance(ids, str | bytes | bytearray | memoryview):
        return list(ids)
    named = " Pass the column itself: X['name']." if isinstance(ids, str) else ""
    raise TypeError(
        f"user_ids must be a one-dimensional sequence of {ALLOWED}, got an object of type {type(ids).__name__}.{named}"
    )


def _encode_array(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Number an array of integers or of instants, which NumPy compares exactly."""
    kind = values.dtype.kind
    if kind == "M" and np.datetime_data(values.dtype)[0] in ATTOSECONDS:
        if np.isnat(values).any():
            raise _missing()
    elif kind not in "iu":
        raise TypeError(_refusal(str(values.dtype), is_float=kind == "f"))
    unique, inverse = np.unique(values, return_inverse=True)
    first = np.empty(len(unique), dtype=np.int64)
    first[inverse[::-1]] = np.arange(len(values))[::-1]  # the last assignment stays: the first row
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse].astype(np.int64), unique[order]


def _of_one_kind(values: list[Any]) -> list[Any]:
    """Convert the entries to plain Python objects of one kind, or raise an error."""
    types = set(map(type, values))
    if any(t.__name__ in ("NoneType", "NAType", "NaTType", "MaskedConstant") for t in types):
        raise _missing()
    # Of numbers and instants, only "not a number" and "not a time" differ from themselves.
    may_be_missing = tuple(t for t in types if issubclass(t, float | np.floating | np.datetime64))
    if may_be_missing and any(value != value for value in values if isinstance(value, may_be_missing)):
        raise _missing()
    if any(issubclass(t, list | tuple | np.ndarray) for t in types):
        raise ValueError("user_ids must be one-dimensional, got a sequence of sequences.")
    kinds = {_kind(t) for t in types}
    if None in kinds or len(kinds) > 1:
        shown = " and ".join(sorted(t.__name__ for t in types))
        raise TypeError(_refusal(shown, is_float=any(issubclass(t, float | np.floating) for t in types)))
    # Subclasses may compare as they like; what counts is the value.
    if not types <= {int, str, bytes, UUID}:
        plain: dict[Any, Any] = {"integer": operator.index, "string": str.__str__, "bytes": bytes}
        values = list(map(plain.get(kinds.pop(), lambda value: UUID(int=value.int)), values))
    return values


def _kind(entry_type: type) -> str | None:
    if issubclass(entry_type, bool):
        return None
    return next((kind for kind, types in KINDS if issubclass(entry_type, types)), None)


def _name(value: Any) -> bytes:
    """Return the canonical name of one entry: its kind, a colon and its bytes."""
    if isinstance(value, int):
        return b"integer:" + _integer_bytes(value)
    if isinstance(value, str):
        return b"string:" + value.encode("utf-8", "surrogatepass")
    return b"bytes:" + value if isinstance(value, bytes) else b"uuid:" + value.bytes


def _integer_bytes(value: int) -> bytes:
    """Return the shortest two's complement with a bit for the sign, one for each integer."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _missing() -> ValueError:
    return ValueError(f"user_ids must name a user for every row, got missing entries. {_NOBODY}.")


def _refusal(got: str, *, is_float: bool) -> str:
    gaps = f" pandas makes floats of integers with gaps. {_NOBODY}, and convert identifiers to integers or strings."
    return f"user_ids must hold {ALLOWED}, got entries of type {got}.{gaps if is_float else ''}"


def fingerprint(*values: object) -> str:
    """Compute a short hash of numbers, strings, sequences, mappings, estimators, functions.

    How they are stored does not matter: 1 and 1.0, lists and arrays of any layout and type, the order of a mapping.
    """
    return hashlib.sha256(_bytes(values)).hexdigest()[:_DIGITS]


def _bytes(value: object) -> bytes:
    """Convert a value to bytes, after its kind and their number, so that no other value has the same."""
    kind, content = _content(value)
    return b"%s %d " % (kind.encode(), len(content)) + content


def _content(value: object) -> tuple[str, bytes]:
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
        return _public_name(type(value)), _bytes(state)
    return "object", cloudpickle.dumps(value)  # functions by what they do, where they have no name


def _public_name(kind: type[Any]) -> str:
    """Name a class by the public module that has it, because private modules move; else by its own module."""
    module, name = kind.__module__, kind.__qualname__
    public = module.partition("._")[0]
    return f"{public if getattr(sys.modules.get(public), name, None) is kind else module}.{name}"


def _as_numbers(value: object) -> npt.NDArray[np.float64] | None:
    """Convert numbers in any type and layout to floats; None for what is none, or would be rounded."""
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
    if array.dtype == object or (array.dtype.kind in "iu" and np.any(np.abs(array.astype(np.float64)) >= 2**53)):
        return _as_numbers(array.tolist())
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None
