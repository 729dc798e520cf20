"""What a search for violations runs: an estimator, a row-wise randomiser or a function, and what it reveals."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags

Array = npt.NDArray[np.float64]
#: Public by construction, or bookkeeping.
_IGNORED = {"privacy_guarantee_", "guarantee", "n_features_in_", "feature_names_in_", "classes_", "n_iter_"}
_MOST_NUMBERS = 20_000


@dataclass(frozen=True)
class Inputs:
    """What is handed to ``fit``, or to a function.

    Attributes
    ----------
    X, y : array or None
    params : dict
        Further arguments that belong to the rows (``user_ids``, ``private``).
    """

    X: Any
    y: Any = None
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What is promised for a pair of inputs: P(A) ≤ exp(epsilon·distance)·P(B) + delta, both ways.

    Under a metric ε grows with the distance, δ does not.
    """

    epsilon: float
    delta: float = 0.0
    unit: str = "row"
    adjacency: str = "replace-one"
    metric: str = ""

    def at(self, distance: float | None) -> tuple[float, float]:
        """ε and δ for one pair."""
        return self.epsilon * (1.0 if distance is None else distance), self.delta


class Target:
    """Runs one thing on inputs, with a seed or with noise of its own, and flattens what it reveals.

    Parameters
    ----------
    subject : estimator or callable
        With ``fit``; or called with ``X``, ``y`` and the further arguments.
    statistic : callable or None
        Of the fitted estimator or of the function's value, in place of all that is numeric in it.
    simulate : bool
        Whether the runs that decide are seeded, too.
    """

    def __init__(self, subject: Any, statistic: Any = None, simulate: bool = False) -> None:
        self.subject = subject
        self.statistic = statistic
        self.simulate = simulate
        self.is_estimator = hasattr(subject, "fit")
        self.name = type(subject).__name__ if self.is_estimator else getattr(subject, "__name__", "function")
        place = subject.fit if self.is_estimator else subject
        try:
            self.accepts = set(inspect.signature(place).parameters)
        except (TypeError, ValueError):
            self.accepts = {"X", "y"}
        if self.is_estimator and hasattr(subject, "get_params"):
            self.parameters = dict(subject.get_params(deep=False))
        else:
            self.parameters = {} if self.is_estimator else _defaults(place)
        self.seeded = "random_state" in self.parameters or "random_state" in self.accepts
        transforms = getattr(subject, "releases_in", "fit") == "transform"
        self.row_wise = transforms or bool(getattr(subject, "_releases_in_transform", False))

    def run(self, inputs: Inputs, settings: dict[str, Any], seed: int | None) -> Any:
        """The fitted estimator, or the value of the function."""
        if self.seeded:
            settings = {**settings, "random_state": seed}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if not self.is_estimator:
                arguments = {**inputs.params, **settings}
                return self.subject(inputs.X, *([] if inputs.y is None else [inputs.y]), **arguments)
            model = self._with(settings)
            data = (inputs.X,) if inputs.y is None else (inputs.X, inputs.y)
            model.fit(*data, **inputs.params)
            return model

    def everything(self, inputs: Inputs, settings: dict[str, Any], seed: int | None) -> Any:
        """All that one run leaves behind, rows that it randomises included."""
        result = self.run(inputs, settings, seed)
        return [result, result.transform(inputs.X)] if self.row_wise else result

    def released(self, inputs: Inputs, settings: dict[str, Any], seed: int | None) -> dict[str, Array]:
        """Everything numeric that one run reveals, by name."""
        model = self.run(inputs, settings, seed)
        found: dict[str, Array] = {}
        if self.statistic is not None:
            _collect(self.statistic(model), "statistic", found, 3)
        elif self.is_estimator:
            for name, value in vars(model).items():
                if name.endswith("_") and not name.startswith("_"):
                    _collect(value, name, found, 4)
        else:
            _collect(model, "value", found, 4)
        return found

    def many_rows(self, row: Any, n: int, settings: dict[str, Any], seed: int | None) -> Array:
        """Independent draws of a row-wise randomiser for one row: shape (n, n_features)."""
        # Fitting such an estimator reads no rows; one that was fitted may refuse to go on with another seed.
        model = self.run(Inputs(np.repeat(row, 2, axis=0)), settings, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = np.asarray(model.transform(np.repeat(row, n, axis=0)))
        if out.dtype.kind not in "fiub":
            out = _codes(out)
        return _finite(out.reshape(n, -1))

    def claim(self, inputs: Inputs, settings: dict[str, Any], given: dict[str, Any]) -> Claim | None:
        """What is promised: as given, else the guarantee of a run, else parameters; None if nothing is."""
        guarantee = None
        if not {"epsilon", "delta", "unit", "adjacency"} <= {k for k, v in given.items() if v is not None}:
            result = self.run(inputs, settings, 0)
            guarantee = getattr(result, "privacy_guarantee_", getattr(result, "guarantee", None))

        def first(name: str, default: Any) -> Any:
            said = (
                given.get(name),
                getattr(guarantee, name, None),
                settings.get(name),
                self.parameters.get(name),
            )
            return next((value for value in said if value is not None), default)

        epsilon = float(first("epsilon", math.nan))
        if math.isnan(epsilon):
            return None
        return Claim(
            epsilon,
            float(first("delta", 0.0)),
            str(first("unit", "row")),
            str(first("adjacency", "replace-one")),
            str(first("metric", "")) if str(first("adjacency", "")) == "metric" else "",
        )

    def kind_of_target(self, example: Inputs) -> tuple[Any, bool]:
        """Classes (None for numbers), and whether there is a target."""
        classes = self.parameters.get("classes")
        if example.y is not None:
            numbers = example.y.dtype.kind == "f"
            return (None if numbers else np.unique(example.y)), True
        if not self.is_estimator:
            return None, False
        try:
            tags = get_tags(self.subject)
            kind, needed = tags.estimator_type, tags.target_tags.required
        except Exception:  # no estimator of scikit-learn's: it says what it is by an attribute, or not at all
            kind, needed = getattr(self.subject, "_estimator_type", None), False
        if kind == "regressor":
            return None, True
        return np.array([0, 1] if classes is None else list(classes)), kind == "classifier" or needed

    def claim_of_a_run(
        self, example: Inputs, labels: Any, has_target: bool, settings: dict[str, Any], given: dict[str, Any]
    ) -> Claim:
        """The claim, from runs on plain data where it is not given in full."""
        error: Exception | None = None
        for inputs in _plain_inputs(example, labels, has_target):
            try:
                claim = self.claim(inputs, settings, given)
            except Exception as refusal:
                error = refusal
                continue
            if claim is not None:
                return claim
        raise ValueError(
            f"{self.name} claims nothing that can be searched: pass epsilon=, unit= and adjacency=, or X and y that it "
            "accepts."
        ) from error

    def takes_several_outputs(self, example: Inputs, settings: dict[str, Any]) -> bool:
        """Whether a target of two columns is accepted, from runs on plain data: tags say it of some subjects only."""
        for inputs in _plain_inputs(example, None, True):
            if np.ndim(inputs.y) != 1:
                return True
            try:
                self.run(replace(inputs, y=np.column_stack([inputs.y, inputs.y])), settings, 0)
            except Exception:  # of one output only, or too few rows
                continue
            return True
        return False

    def _with(self, settings: dict[str, Any]) -> Any:
        model = copy.deepcopy(self.subject)
        known = {name: value for name, value in settings.items() if name in self.parameters}
        return model.set_params(**known) if known else model


def _plain_inputs(example: Inputs, labels: Any, has_target: bool) -> Iterator[Inputs]:
    """The example, or artificial data of a few shapes that most subjects take."""
    if example.X is not None:
        yield example
        return
    for n, d in ((40, 2), (8, 1), (200, 3), (1, 1)):
        y = np.arange(n) % 5 / 5.0 if has_target else None
        if has_target and labels is not None:
            y = np.asarray(labels)[np.arange(n) % len(labels)]
        yield Inputs((np.arange(n * d) % 17).reshape(n, d) / 17.0, y, dict(example.params))


def _defaults(function: Any) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _collect(value: Any, name: str, found: dict[str, Array], depth: int) -> None:
    """Numbers in nested results, by path."""
    if value is None or depth < 0 or name.rpartition(".")[2] in _IGNORED or callable(value):
        return
    if isinstance(value, str | bytes):
        found[name] = np.array([float(zlib.crc32(value.encode() if isinstance(value, str) else value))])
    elif isinstance(value, dict):
        for key, item in list(value.items())[:200]:
            _collect(item, f"{name}.{key}", found, depth - 1)
    elif (numbers := _numbers(value)) is not None:
        found[name] = numbers
    elif isinstance(value, list | tuple):
        for k, item in enumerate(value[:200]):
            _collect(item, f"{name}.{k}", found, depth - 1)
    elif hasattr(value, "__dict__") and not inspect.ismodule(value):
        for key, item in vars(value).items():
            if not key.startswith("_"):
                _collect(item, f"{name}.{key}", found, depth - 1)


def _numbers(value: Any) -> Array | None:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if array.size == 0 or array.size > _MOST_NUMBERS:
        return np.array([float(array.size)])
    if array.dtype.kind in "US":
        array = _codes(array.ravel()[:1000])
    if array.dtype.kind not in "fiub":
        return None
    return _finite(array.ravel())


def _codes(values: Any) -> Array:
    """A number for each value that is none; the same one in every sample, whatever else a sample holds."""
    names, which = np.unique(values.astype(str), return_inverse=True)
    return np.array([float(zlib.crc32(name.encode())) for name in names])[which].reshape(values.shape)


def _finite(array: Any) -> Array:
    """Missing and infinite numbers are told apart from others, and sums of them stay finite."""
    clean = np.nan_to_num(array.astype(np.float64), nan=-1.2345e250, posinf=1e250, neginf=-1e250)
    return np.asarray(np.clip(clean, -1e250, 1e250))


def same_release(first: dict[str, Array], second: dict[str, Array]) -> bool:
    """Whether two runs reveal the very same numbers."""
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def table(runs: list[dict[str, Array]], known: int | None = None) -> tuple[Array, list[str]]:
    """Runs as rows of numbers: what they have in common, and the size, sum and extremes of each part.

    Parameters
    ----------
    runs : list of dict
    known : int or None
        The layout is read off so many first runs; None: off all of them.
    """
    first = runs if known is None else runs[:known]
    blocks, names = [], []
    for name in sorted(set().union(*first)):
        sizes = {run[name].size if name in run else 0 for run in first}
        values = [run.get(name, np.zeros(0)) for run in runs]
        if len(sizes) == 1:
            size = sizes.pop()
            block = np.zeros((len(runs), size))
            for row, value in zip(block, values, strict=True):
                row[: value.size] = value[:size]
            blocks.append(block)
            names += [f"{name}[{k}]" for k in range(size)] if size > 1 else [name]
            if size == 1:
                continue
        else:
            blocks.append(np.array([[float(v.size)] for v in values]))
            names.append(f"size of {name}")
        summary = [
            [v.sum(), np.abs(v).sum(), v.max(), v.min(), np.abs(v).max()] if v.size else [0.0] * 5
            for v in values
        ]
        blocks.append(np.clip(np.array(summary), -1e250, 1e250))
        names += [f"{which} of {name}" for which in ("sum", "l1 norm", "maximum", "minimum", "linf norm")]
    if not blocks:
        return np.zeros((len(runs), 1)), ["nothing"]
    return np.hstack(blocks), names
