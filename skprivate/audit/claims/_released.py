"""Everything numeric that a fit gives away, by name: fitted attributes and what they hold, predictions, draws."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from skprivate.privacy.draws import run_tape

__all__ = ["Observer", "as_numbers", "released_values", "stack_released"]

Array = npt.NDArray[np.float64]
#: Public by construction: parameters, counts of columns, bookkeeping.
_IGNORED = {"privacy_guarantee_", "n_features_in_", "feature_names_in_", "classes_", "n_iter_"}
_DEPTH = 4


def as_numbers(value: Any) -> Array | None:
    """A flat, finite array of what is numeric; None for anything else."""
    if isinstance(value, bool) or value is None or isinstance(value, str | bytes | dict):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind not in "fiub" or array.size == 0:
        return None
    # bounded, so that sums of squares stay finite
    return np.asarray(np.clip(np.nan_to_num(array.astype(float).ravel()), -1e100, 1e100))


def _inside(name: str, value: Any, depth: int) -> Iterator[tuple[str, Array]]:
    """The numbers in a value and in whatever public parts it has."""
    numbers = as_numbers(value)
    if numbers is not None:
        yield name, numbers
        return
    if depth == 0 or value is None or isinstance(value, str | bytes | type) or callable(value):
        return
    parts: Any
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value) if len(value) <= 1000 else ()
    else:
        slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
        parts = {slot: getattr(value, slot, None) for slot in slots} | getattr(value, "__dict__", {})
        parts = parts.items()
    for key, part in parts:
        if not str(key).startswith("_") and key not in _IGNORED:
            yield from _inside(f"{name}.{key}", part, depth - 1)


def released_values(model: Any, probes: Any) -> dict[str, Array]:
    """Numbers in the public fitted attributes, however deep, and predictions at the probes, by name."""
    out: dict[str, Array] = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_") and name not in _IGNORED:
            out |= dict(_inside(name, value, _DEPTH))
    for method in ("decision_function", "predict_proba", "predict", "transform"):
        call = getattr(model, method, None)
        if call is None or probes is None:
            continue
        try:
            answer = call(probes)
        except Exception:  # an optional view of the model: what it cannot answer is not evidence
            continue
        numbers = as_numbers(answer)
        if numbers is None and method == "predict" and hasattr(model, "classes_"):
            numbers = as_numbers(np.asarray(answer)[:, None] == np.asarray(model.classes_)[None, :])
        if numbers is not None:
            out[method] = numbers
    return _in_order(out)


def _in_order(out: dict[str, Array]) -> dict[str, Array]:
    """What belongs to rows drawn at random, in the order of the rows: the draw of the rows is public."""
    for name, order in list(out.items()):
        if name.endswith(".members"):
            for other, values in out.items():
                if (
                    other.startswith(name.removesuffix("members"))
                    and values.size == order.size
                    and other != name
                ):
                    out[other] = values[np.argsort(order, kind="stable")]
    return out


def stack_released(
    runs: list[dict[str, Array]], layout: dict[str, int] | None = None
) -> tuple[Array, dict[str, int]]:
    """One row a run, and the layout: sizes by name. Runs are cut or padded to a given layout.

    Attributes whose size varies between the runs that make the layout are represented by their size and sum
    (size -1 in the layout).
    """
    if layout is None:
        names = set.intersection(*(set(run) for run in runs))
        sizes = {name: {run[name].size for run in runs} for name in sorted(names)}
        layout = {name: size.pop() if len(size) == 1 else -1 for name, size in sizes.items()}
    nothing = np.empty(0)
    columns = [np.zeros((len(runs), 1))]
    for name, size in layout.items():
        values = [run.get(name, nothing) for run in runs]
        if size < 0:
            columns.append(np.array([[value.size, value.sum()] for value in values], dtype=float))
            continue
        block = np.zeros((len(runs), size))
        for row, value in zip(block, values, strict=True):
            row[: min(size, value.size)] = value[:size]
        columns.append(block)
    return np.hstack(columns), layout


class _Listener:
    """A tape that notes the results of draws, not what they were drawn on: all of them are paid for.

    Up to a private search: the price of a search is that of its winner, and the others stay secret.
    """

    def __init__(self) -> None:
        self.heard: dict[str, Array] = {}
        self._searches = False

    def draw(self, draw: Any, sample: Any) -> Any:
        result = sample()
        self._searches |= draw.kind == "repetitions"
        if self._searches:
            return result
        for k, part in enumerate(result if isinstance(result, tuple) else (result,)):
            numbers = as_numbers(part)
            if numbers is not None:
                self.heard[f"draw {len(self.heard)} {draw.kind} {k}"] = numbers
        return result


class Observer:
    """Fits clones of one estimator with fresh noise and notes what an observer sees.

    Parameters
    ----------
    estimator : estimator
    observable : {"all", "released", "mechanism"} or callable
        Fitted attributes and predictions, results of draws, both, or a statistic of the fitted estimator.
    """

    def __init__(self, estimator: Any, observable: Any):
        self.estimator, self.observable = estimator, observable
        # A privatizer in the local model leaves nothing in fit: its release is what transform returns.
        self.local = getattr(type(estimator), "releases_in", "fit") == "transform"

    def fit(self, data: Any, seed: int | None) -> Any:
        """A fresh clone, fitted."""
        model = clone(self.estimator)
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=seed)  # a fixed seed would make all runs alike
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same warning a thousand times tells nothing
            if data.y is None:
                return model.fit(data.X, **data.params)
            return model.fit(data.X, data.y, **data.params)

    def look(self, data: Any, seed: int | None, probes: Any = None) -> dict[str, Array]:
        """What one fit gives away."""
        listener = _Listener()
        with run_tape(listener) if self.observable in ("all", "mechanism") else nullcontext():
            model = self.fit(data, seed)
            if self.local:
                numbers = as_numbers(model.transform(data.X))
                listener.heard |= {} if numbers is None else {"transform": numbers}
        if callable(self.observable):
            numbers = as_numbers(self.observable(model))
            if numbers is None:
                raise TypeError("observable must return a number or an array of numbers.")
            return {"statistic": numbers}
        released = {} if self.observable == "mechanism" or self.local else released_values(model, probes)
        return listener.heard | released
