"""Everything that an object holds, as flat values with their paths."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from numbers import Number
from typing import Any

import numpy as np

_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType)
#: Fitted attributes that state the shape of the input, which every estimator publishes.
_SHAPE = ("n_features_in_", "feature_names_in_")


def fitted_state(estimator: Any) -> dict[str, Any]:
    """Attributes of a fitted estimator that are not its parameters, nor the public shape of its input."""
    parameters = estimator.get_params(deep=False)
    return {
        name: value
        for name, value in vars(estimator).items()
        if name not in parameters and name not in _SHAPE
    }


def fitted_leaves(estimator: Any) -> dict[str, Any]:
    """Values that a fitted estimator holds at any depth, besides its parameters and the shape of its "
    "input."""
    found = {}
    for name, value in fitted_state(estimator).items():
        found.update({name + path: leaf for path, leaf in leaves(value).items()})
    return found


def leaves(root: Any) -> dict[str, Any]:
    """Values that ``root`` holds at any depth.

    Goes through mappings, sequences, sets, arrays, data frames, objects with attributes or slots, objects
    that only pickle knows how to take apart, and what functions have closed over.

    Parameters
    ----------
    root : object
        Where to start.

    Returns
    -------
    leaves : dict of str to (ndarray, number, str, bytes or None)
        One value for each path, in a fixed order.
    """
    return dict(_walk(root, "", set()))


def _walk(value: Any, path: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    if value is None or isinstance(value, str | bytes | Number | np.generic):
        yield path, value
        return
    if isinstance(value, _SKIPPED) or id(value) in above:
        return
    above = above | {id(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            yield f"{path}.shape", str(value.shape)
            for k, item in enumerate(value.flat):
                yield from _walk(item, f"{path}[{k}]", above)
        else:
            yield path, value
    elif isinstance(value, Mapping):
        yield f"{path}.len", len(value)
        for k, (key, item) in enumerate(value.items()):
            # Keys may hold private values themselves, so their place is the path.
            yield from _walk(key, f"{path}.key{k}", above)
            yield from _walk(item, f"{path}[{key!r}]" if isinstance(key, str) else f"{path}[{k}]", above)
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield f"{path}.len", len(items)
        for k, item in enumerate(items):
            yield from _walk(item, f"{path}[{k}]", above)
    elif callable(getattr(value, "to_numpy", None)):  # data frames and series
        yield from _walk(value.to_numpy(), path, above)
    elif callable(getattr(value, "detach", None)) and callable(getattr(value, "numpy", None)):  # tensors
        yield path, value.detach().numpy()
    else:
        yield from _walk_object(value, path, above)


def _walk_object(value: Any, path: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    parts = {name: getattr(value, name) for name in names if hasattr(value, name)}
    parts |= getattr(value, "__dict__", {})
    if isinstance(value, types.FunctionType | types.MethodType):
        cells = getattr(value, "__closure__", None) or ()
        parts |= {f"closure{k}": cell.cell_contents for k, cell in enumerate(cells)}
        parts |= {"defaults": getattr(value, "__defaults__", None), "self": getattr(value, "__self__", None)}
    elif not parts:
        try:
            parts = {f"state{k}": part for k, part in enumerate(value.__reduce_ex__(4)[1:3])}
        except Exception:  # nothing that could be written down either
            parts = {"repr": repr(value)}
    for name, part in parts.items():
        yield from _walk(part, f"{path}.{name}" if path else name, above)


def numbers(found: Mapping[str, Any]) -> np.ndarray:
    """All floating-point numbers among ``found`` leaves.

    Parameters
    ----------
    found : mapping of str to object
        From `leaves`.

    Returns
    -------
    values : ndarray of float64
        Flat, unordered.
    """
    parts = [np.zeros(0)]
    for value in found.values():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
            parts.append(np.real(value).ravel().astype(np.float64))
            if value.dtype.kind == "c":
                parts.append(np.imag(value).ravel().astype(np.float64))
        elif isinstance(value, float | np.floating):
            parts.append(np.array([float(value)]))
    return np.concatenate(parts)


def equal_leaves(first: Any, second: Any) -> np.ndarray:
    """Whether two leaves agree: element by element for arrays of the same shape, else as a whole.

    Returns
    -------
    equal : ndarray of bool
        Of the leaves' shape, or of shape ().
    """
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.shape != second.shape or first.dtype != second.dtype:
            return np.array(False)
        both_nan = (first != first) & (second != second)
        equal: np.ndarray = (first == second) | both_nan
        return equal
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray) or type(first) is not type(second):
        return np.array(False)
    return np.array(first == second or (first != first and second != second))


def close_leaves(first: Any, second: Any) -> bool:
    """Whether two leaves agree up to the rounding of linear algebra, which depends on the number of threads."""
    if np.all(equal_leaves(first, second)):
        return True
    try:
        here, there = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    if here.shape != there.shape or here.size == 0:
        return False
    scale = float(np.nanmax(np.abs(here), initial=0.0))
    return bool(np.allclose(here, there, rtol=1e-6, atol=1e-6 * scale, equal_nan=True))
