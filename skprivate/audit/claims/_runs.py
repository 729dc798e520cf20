"""Runs of an estimator or a function on inputs, and the numbers that they release."""

from __future__ import annotations

import copy
import inspect
import math
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from skprivate.privacy import GaussianEvent, PrivacyEvent, ZeroConcentratedEvent
from skprivate.utils import CheckData, fitted_leaves

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
#: Public by construction, or bookkeeping.
_PUBLIC = {"privacy_guarantee_", "guarantee", "n_features_in_", "feature_names_in_", "classes_", "n_iter_"}
_MOST_NUMBERS = 20_000
#: Values beyond are clipped, so that sums and differences stay finite.
_LARGEST = 1e250
#: Parts of a release up to this size also show their last binary digits.
_FEW = 8


@dataclass(frozen=True)
class Claim:
    """A claim for neighbouring inputs: P(A) ≤ exp(epsilon·distance)·P(B) + delta, both ways.

    Where its events are known, their whole privacy curve is claimed.
    """

    epsilon: float
    delta: float = 0.0
    unit: str = "row"
    adjacency: str = "replace-one"
    metric: str = ""
    events: tuple[tuple[PrivacyEvent, int], ...] = field(default=(), repr=False)

    def at(self, distance: float | None) -> Claim:
        """Scale ε to the distance of a pair; δ does not grow."""
        return self if distance is None else replace(self, epsilon=self.epsilon * distance, events=())

    @property
    def family(self) -> str:
        """Name the mechanisms for which a lower bound on ε is searched."""
        gaussian = any(isinstance(event, GaussianEvent | ZeroConcentratedEvent) for event, _ in self.events)
        return "pure" if self.delta == 0.0 else "gaussian" if gaussian else "approximate"


class Subject:
    """An estimator, a row-wise randomiser or a function, run with a seed or with its own noise."""

    def __init__(self, subject: Any, statistic: Any = None, simulate: bool = False) -> None:
        self.subject, self.statistic, self.simulate = subject, statistic, simulate
        self.is_estimator = hasattr(subject, "fit")
        self.name = type(subject).__name__ if self.is_estimator else getattr(subject, "__name__", "function")
        place = subject.fit if self.is_estimator else subject
        try:
            signature = dict(inspect.signature(place).parameters)
        except (TypeError, ValueError):
            signature = {}
        self.accepts = set(signature) or {"X", "y"}
        self.parameters: dict[str, Any] = {}
        if not self.is_estimator:
            self.parameters = {k: p.default for k, p in signature.items() if p.default is not p.empty}
        elif hasattr(subject, "get_params"):
            self.parameters = dict(subject.get_params(deep=False))
        else:
            self.parameters = dict(vars(subject))
        self.seeded = "random_state" in self.parameters or "random_state" in self.accepts
        transforms = getattr(subject, "releases_in", "fit") == "transform"
        self.row_wise = transforms or bool(getattr(subject, "_releases_in_transform", False))

    def run(self, inputs: CheckData, settings: dict[str, Any], seed: int | None) -> Any:
        """Fit a copy with the seed and without a ledger, or call the function."""
        with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")  # the same warning a thousand times
            if not self.is_estimator:
                seeds = {"random_state": seed} if self.seeded else {}
                return self.subject(*inputs.arguments, **inputs.metadata, **settings, **seeds)
            model = self._configured(settings, seed)
            fitted = model.fit(*inputs.arguments, **inputs.metadata)
            return model if fitted is None else fitted

    def _configured(self, settings: dict[str, Any], seed: int | None) -> Any:
        model = copy.deepcopy(self.subject)
        if not hasattr(model, "set_params"):
            for name, value in {**settings, **({"random_state": seed} if self.seeded else {})}.items():
                setattr(model, name, value)
            return model
        known = {name: value for name, value in settings.items() if name in self.parameters}
        if known:
            model.set_params(**known)
        names = model.get_params(deep=True)
        seeds = {name: seed for name in names if name.rpartition("__")[2] == "random_state"}
        ledgers = {name: None for name in names if name.rpartition("__")[2] == "ledger"}
        return model.set_params(**seeds, **ledgers)

    def everything(self, inputs: CheckData, settings: dict[str, Any], seed: int | None) -> Any:
        """Collect all that one run leaves behind, rows that it randomises included."""
        result = self.run(inputs, settings, seed)
        state = fitted_leaves(result) if hasattr(result, "get_params") else result
        return [state, result.transform(inputs.X)] if self.row_wise else state

    def released(
        self, inputs: CheckData, settings: dict[str, Any], seed: int | None, probes: Any = None
    ) -> dict[str, Array]:
        """Collect all numbers that one run releases, by name; predictions at ``probes`` among them."""
        model = self.run(inputs, settings, seed)
        found: dict[str, Array] = {}
        if self.statistic is not None:
            _collect(self.statistic(model), "statistic", found, 3)
            if not found:
                raise TypeError("observable must return a number or an array of numbers.")
        elif self.row_wise:
            _collect(model.transform(inputs.X), "transform", found, 1)
        elif self.is_estimator:
            for name, value in vars(model).items():
                if name.endswith("_") and not name.startswith("_"):
                    _collect(value, name, found, 4)
            if probes is not None:
                found |= _predictions(model, probes)
        else:
            _collect(model, "value", found, 4)
        return found

    def many_rows(self, row: Any, n: int, settings: dict[str, Any], seed: int | None) -> Array:
        """Randomise one row n times, independently: shape (n, n_features)."""
        # Fitting such an estimator reads no rows; one that was fitted may refuse another seed.
        model = self.run(CheckData(np.repeat(row, 2, axis=0)), settings, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = np.asarray(model.transform(np.repeat(row, n, axis=0)))
        return _finite((out if out.dtype.kind in "fiub" else _codes(out)).reshape(n, -1))

    def guarantee(self, inputs: CheckData, settings: dict[str, Any], given: dict[str, Any], seed: int = 0) -> Any:
        """Run once for the stated guarantee, unless the claim is given; None if there is none."""
        needed = ("epsilon", "delta", "unit", "adjacency") if self.is_estimator else ("epsilon",)
        if None not in [given[name] for name in needed]:
            return None
        result = self.run(inputs, settings, seed)
        if self.row_wise and not hasattr(result, "privacy_guarantee_"):
            result.transform(inputs.X)
        return getattr(result, "privacy_guarantee_", getattr(result, "guarantee", None))

    def claim(self, guarantee: object, settings: dict[str, Any], given: dict[str, Any]) -> Claim | None:
        """Read the claim: as given, else from the guarantee, else from the parameters; None if there is no ε."""

        def first(name: str, default: object) -> Any:
            places = (given.get(name), getattr(guarantee, name, None), settings.get(name))
            stated = (*places, self.parameters.get(name))
            return next((value for value in stated if value is not None), default)

        epsilon, adjacency = float(first("epsilon", math.nan)), str(first("adjacency", "replace-one"))
        if math.isnan(epsilon):
            return None
        metric = str(first("metric", "")) if adjacency == "metric" else ""
        numbers = given["epsilon"] is not None or given["delta"] is not None  # have no events
        events = () if numbers else getattr(guarantee, "events", ())
        return Claim(epsilon, float(first("delta", 0.0)), str(first("unit", "row")), adjacency, metric, events)

    def claim_of_a_run(self, candidates: Iterable[CheckData], settings: dict[str, Any], given: dict[str, Any]) -> Claim:
        """Read the claim, from the first run that is accepted where it is not given in full."""
        error: Exception | None = None
        guarantee: Any = None
        for inputs in candidates:
            try:
                guarantee = self.guarantee(inputs, settings, given)
                break
            except Exception as refusal:
                error = refusal
        claim = self.claim(guarantee, settings, given)
        if claim is not None:
            return claim
        raise ValueError(
            f"{self.name} claims nothing that can be searched: pass epsilon=, unit= and adjacency=, or X and y that it "
            "accepts."
        ) from error

    def kind_of_target(self, example: CheckData) -> tuple[Any, bool]:
        """Find the classes (None for numbers), and whether there is a target."""
        classes = self.parameters.get("classes")
        if example.y is not None:
            return (None if example.y.dtype.kind == "f" else np.unique(example.y)), True
        if not self.is_estimator:
            return None, False
        try:
            tags = get_tags(self.subject)
            kind, needed = tags.estimator_type, tags.target_tags.required
        except Exception:  # not an estimator of scikit-learn's
            kind, needed = getattr(self.subject, "_estimator_type", None), False
        if kind == "regressor":
            return None, True
        return np.array([0, 1] if classes is None else list(classes)), kind == "classifier" or needed


class Runs:
    """Runs within a budget of runs and of time, in one process or several."""

    def __init__(
        self, subject: Subject, rng: np.random.Generator, n_jobs: object, n_runs: float, max_seconds: float | None
    ):
        self.subject, self.rng, self.n_jobs = subject, rng, n_jobs
        self.n_runs, self.max_seconds, self.made = n_runs, max_seconds, 0
        self.alone = n_jobs in (None, 1)
        # Other processes' time is not in ours.
        self._clock = time.process_time if self.alone else time.monotonic
        self._start = self._clock()

    def seconds(self) -> float:
        return self._clock() - self._start

    def left(self, share: float = 1.0) -> float:
        """Seconds until a share of the time is used."""
        return math.inf if self.max_seconds is None else share * self.max_seconds - self.seconds()

    def over(self) -> bool:
        return self.made >= self.n_runs or self.left() <= 0.0

    def seed(self) -> int | None:
        return int(self.rng.integers(2**31 - 1)) if self.subject.simulate else None

    def sampler(self, first: CheckData, second: CheckData, settings: dict[str, Any], probes: object = None) -> Any:
        """Make a function from private bits to the numbers that runs on the first or second input release."""
        pair = (first, second)
        if self.subject.row_wise and self.subject.statistic is None and len(first.X) == len(second.X) == 1:
            return lambda sides: self._rows(pair, settings, sides)
        layout: list[tuple[str, int]] = []

        def sample(sides: Mask) -> Array:
            self.made += len(sides)
            tasks = [(pair[int(side)], settings, self.seed(), probes) for side in sides]
            if self.alone:
                runs = [self.subject.released(*task) for task in tasks]
            else:
                runs = Parallel(n_jobs=self.n_jobs)(delayed(self.subject.released)(*task) for task in tasks)
            if not layout:
                layout.extend(layout_of(runs))
            return numbers_of(runs, layout, digits=True)

        return sample

    def _rows(self, pair: tuple[CheckData, CheckData], settings: dict[str, Any], sides: Mask) -> Array:
        self.made += len(sides)
        out: Array | None = None
        for side, inputs in enumerate(pair):
            chosen = np.flatnonzero(sides == bool(side))
            if chosen.size:
                rows = self.subject.many_rows(inputs.X, chosen.size, settings, self.seed())
                out = np.zeros((len(sides), rows.shape[1])) if out is None else out
                out[chosen] = rows
        assert out is not None
        return row_features(out, pair[0].X, pair[1].X)


def plain_inputs(example: CheckData, labels: Any, has_target: bool) -> Iterator[CheckData]:
    """Yield the example, or artificial data of a few shapes that most subjects take."""
    if example.X is not None:
        yield example
        return
    for n, d in ((40, 2), (8, 1), (200, 3), (1, 1)):
        y = np.arange(n) % 5 / 5.0 if has_target else None
        if has_target and labels is not None:
            y = np.asarray(labels)[np.arange(n) % len(labels)]
        yield CheckData((np.arange(n * d) % 17).reshape(n, d) / 17.0, y, dict(example.metadata))


# --- numbers -------------------------------------------------------------------------------------------------------


def _collect(value: object, name: str, found: dict[str, Array], depth: int) -> None:
    """Collect the numbers in nested public parts, by path."""
    if value is None or depth < 0 or name.rpartition(".")[2] in _PUBLIC or callable(value):
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
    elif not inspect.ismodule(value):
        slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
        parts = {slot: getattr(value, slot, None) for slot in slots} | getattr(value, "__dict__", {})
        for key, item in parts.items():
            if not key.startswith("_"):
                _collect(item, f"{name}.{key}", found, depth - 1)


def _numbers(value: object) -> Array | None:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    if array.dtype.kind not in "fiubUS" and not (array.dtype == object and array.size == 0):
        return None
    if array.size == 0 or array.size > _MOST_NUMBERS:
        return np.array([float(array.size)])
    if array.dtype.kind in "US":
        array = _codes(array.ravel()[:1000])
    return _finite(array.ravel())


def _codes(values: Any) -> Array:
    """Number each value that is none, the same in every sample."""
    names, which = np.unique(values.astype(str), return_inverse=True)
    return np.array([float(zlib.crc32(name.encode())) for name in names])[which].reshape(values.shape)


def _finite(array: Any) -> Array:
    """Clip infinite numbers, and give missing ones a value of their own."""
    clean = np.nan_to_num(array.astype(np.float64), nan=-1.2345 * _LARGEST / 10, posinf=_LARGEST, neginf=-_LARGEST)
    return np.asarray(np.clip(clean, -_LARGEST, _LARGEST))


def _predictions(model: BaseEstimator, probes: object) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for method in ("decision_function", "predict_proba", "predict", "transform"):
        try:
            _collect(getattr(model, method)(probes), method, found, 1)
        except Exception:  # not every estimator answers: no evidence
            continue
    return found


def layout_of(runs: list[dict[str, Array]]) -> list[tuple[str, int]]:
    """List the parts of the runs with their sizes; −1 where the size varies."""
    layout = []
    for name in sorted(set().union(*runs)):
        sizes = {run[name].size if name in run else 0 for run in runs}
        layout.append((name, sizes.pop() if len(sizes) == 1 else -1))
    return layout


def numbers_of(runs: list[dict[str, Array]], layout: list[tuple[str, int]], digits: bool = False) -> Array:
    """Write runs as rows of numbers: coordinates, summaries of each part, and last digits of small parts."""
    blocks = [np.zeros((len(runs), 1))] if not layout else []
    for name, size in layout:
        values = [run.get(name, np.zeros(0)) for run in runs]
        if size >= 0:
            block = np.zeros((len(runs), size))
            for row, value in zip(block, values, strict=True):
                row[: min(size, value.size)] = value[:size]
            blocks.append(block)
            if digits and size <= _FEW:
                blocks.append(last_digit(block))
            if size == 1:
                continue
        else:
            blocks.append(np.array([[float(v.size)] for v in values]))
        summary = [
            [v.sum(), np.abs(v).sum(), v.max(), v.min(), np.abs(v).max()] if v.size else [0.0] * 5 for v in values
        ]
        blocks.append(np.clip(np.array(summary), -_LARGEST, _LARGEST))
    return np.hstack(blocks)


def last_digit(values: Array) -> Array:
    """Take the binary logarithm of the last digit that is not zero; 2000 for 0.

    A float64 sum has no finer digits than its larger term, so the last digit tells where noise was added
    (Mironov 2012; Haney et al. 2022).
    """
    mantissa, exponent = np.frexp(np.abs(values))
    digits = (mantissa * 2.0**53).astype(np.int64)
    last = np.log2(np.maximum((digits & -digits).astype(np.float64), 1.0))
    return np.asarray(np.where(digits > 0, exponent - 53 + last, 2000.0))


def row_features(values: Array, first: object, second: object) -> Array:
    """Describe randomised rows by coordinates, distances to both rows, and their place on the output's lattice."""
    columns = [values[:, :50]]
    step = _lattice_step(values[:200])
    for row in (first, second):
        if np.asarray(row).dtype.kind not in "fiu":
            continue
        with np.errstate(all="ignore"):
            lattice = np.rint((values - np.asarray(row, dtype=np.float64)) / step)
        lattice = np.clip(np.nan_to_num(lattice), -_LARGEST, _LARGEST)
        for size in (np.abs(lattice).sum(axis=1), np.abs(lattice).max(axis=1)):
            columns.append(np.stack([size, np.mod(size, 2.0)], axis=1))
        if 1 < values.shape[1] <= 40:
            columns.append(_radius(lattice))
    return np.hstack(columns)


def _radius(lattice: Array) -> Array:
    """Take Euclidean norms of vectors of large integers, and the cosine of their fraction, exactly."""
    whole, fraction = np.empty(len(lattice)), np.empty(len(lattice))
    for k, row in enumerate(lattice.tolist()):
        root = math.isqrt(sum(int(x) ** 2 for x in row) << 40)
        whole[k], fraction[k] = float(root >> 20), (root & (2**20 - 1)) / 2**20
    return np.stack([whole, np.cos(2 * np.pi * fraction)], axis=1)


def _lattice_step(values: Array) -> float:
    """Find the largest power of two that divides all of these numbers."""
    last = last_digit(values[values != 0.0])
    return float(2.0 ** np.clip(last.min(), -1000, 1000)) if last.size else 1.0
