"""Two parts of the rows that share no unit, and the noisy score of a candidate on one of them.

Each held-out unit has a score of its own, computed from its rows, the model and public numbers alone. It is clipped to
public bounds and made an integer; integers are added exactly, and integer noise hides one unit in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, is_classifier
from sklearn.pipeline import Pipeline

from skprivate import privacy
from skprivate._sklearn import _safe_indexing
from skprivate.inspection import maps_by_row
from skprivate.partitions import key_bytes
from skprivate.preprocessing import PrivatePipeline
from skprivate.privacy import Adjacency, Branch, LaplaceEvent, PrivacyEvent, PureEvent, Release, Repetitions, SearchPlan

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
#: Steps of a score's range, and what one unit counts for in the noisy number of units beside the sum, as powers of two.
_BITS, _COUNT_BITS = 30, 27
#: Names of scores, and their bounds where they have some by themselves.
SCORES: dict[str, tuple[float, float] | None] = {
    "accuracy": (0.0, 1.0),
    "neg_brier_score": (-2.0, 0.0),
    "neg_log_loss": None,
    "neg_mean_absolute_error": None,
    "neg_mean_squared_error": None,
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with their targets and the further arguments of ``fit``, one entry a row."""

    X: Any
    y: NDArray[Any]
    metadata: dict[str, Any]

    def take(self, rows: IntArray) -> Rows:
        """Select some of the rows."""
        metadata = {name: _safe_indexing(values, rows) for name, values in self.metadata.items()}
        return Rows(_safe_indexing(self.X, rows), self.y[rows], metadata)

    def copied(self) -> Rows:
        """Copy the rows, for fits and predictions that may write into them."""
        return self.take(np.arange(len(self.y)))


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows to fit on, and held-out rows sorted by unit, with the number of rows of each unit.

    ``by_identifier``: a hash of the unit's own identifier deals it, rather than its position.
    """

    train: Rows
    held_out: Rows
    sizes: IntArray
    by_identifier: bool
    n_units: int

    @property
    def n_held_out(self) -> int:
        """Number of held-out units."""
        return len(self.sizes)

    def slices(self) -> Iterator[slice]:
        """Yield the held-out rows of each unit."""
        ends = np.cumsum(self.sizes)
        yield from map(slice, (ends - self.sizes).tolist(), ends.tolist())

    def units(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield X and y of each held-out unit, in arrays of their own."""
        X, y = self.held_out.X, self.held_out.y
        for rows in self.slices():
            some = X.iloc[rows].copy() if hasattr(X, "iloc") else _safe_indexing(X, np.arange(rows.start, rows.stop))
            yield some, y[rows].copy()


def deal(rows: Rows, ids: object, fraction: float, seed: int, *, by_user: bool) -> Parts:
    """Deal rows to the two parts, by public numbers alone.

    With identifiers a keyed hash of its own one holds out each user with probability ``fraction``. Without, positions
    are dealt. ``by_user`` makes a user a held-out unit, rather than a row.
    """
    n = len(rows.y)
    if n < 2:
        raise ValueError(f"X must hold at least two rows, one to fit on and one to score on, got n_samples={n}.")
    if ids is None:
        codes = np.arange(n, dtype=np.int64)
        count = min(max(1, round(fraction * n)), n - 1)
        out = np.zeros(n, dtype=bool)
        out[privacy.public_generator(seed).permutation(n)[:count]] = True
    else:
        codes, names = privacy.encode_identifiers(ids, n)
        limit = np.uint64(math.floor(fraction * 2.0**64))
        out = (privacy.hash_identifiers(names, key_bytes(f"PrivateSearchCV {seed}")) < limit)[codes]
    train, held_out = np.flatnonzero(~out), np.flatnonzero(out)
    if by_user:
        held_out = held_out[np.argsort(codes[held_out], kind="stable")]
        sizes = np.unique(codes[held_out], return_counts=True)[1].astype(np.int64)
    else:
        sizes = np.ones(len(held_out), dtype=np.int64)
    return Parts(rows.take(train), rows.take(held_out), sizes, ids is not None, int(codes.max()) + 1 if by_user else n)


def _of_probabilities(name: str, classes: Any, p: FloatArray, y: NDArray[Any]) -> FloatArray:
    own = np.zeros(len(y))
    squares = np.zeros(len(y))
    for k, label in enumerate(classes.tolist()):
        is_own = np.asarray(y == label)
        own = np.where(is_own, p[:, k], own)
        difference = p[:, k] - is_own
        squares = squares + difference * difference
    return np.asarray(np.log(own) if name == "neg_log_loss" else -squares)


def _of_predictions(score: str | Callable[[Any, Any], Any], predicted: NDArray[Any], y: NDArray[Any]) -> FloatArray:
    if callable(score):
        values = np.asarray(score(y, predicted), dtype=np.float64)
        if values.shape != y.shape:
            raise ValueError(f"scoring must return one number a row, got {values.ndim} dimensions.")
        return values
    if score == "accuracy":
        if predicted.dtype.kind in "biuf" and y.dtype.kind in "biuf":
            predicted, y = predicted.astype(np.float64), y.astype(np.float64)
        return np.asarray(predicted == y, dtype=np.float64)
    difference = predicted.astype(np.float64) - y
    lost: FloatArray = np.abs(difference) if score == "neg_mean_absolute_error" else difference * difference
    return np.asarray(-lost)


def _by_row(model: BaseEstimator) -> tuple[Any, Any]:
    """Take a pipeline apart, into steps that treat every row by itself and the last one; (None, model) for others.

    All rows in one call are to them as one after the other, to the last bit.
    """
    steps = model.steps if type(model) in (Pipeline, PrivatePipeline) else ()
    if len(steps) < 2 or not maps_by_row(Pipeline(steps[:-1])):
        return None, model
    return model[:-1], model[-1]


def _mapped(steps: Any, X: Any) -> Any:
    """Transform rows; None where that fails."""
    try:
        return None if steps is None else steps.transform(X)
    except Exception:
        return None


@dataclass(frozen=True)
class PrivateScore:
    """A bounded score of each unit, summed with noise.

    Under replace-one the number of held-out units is public, else it is released beside the sum. ``batch``: one call
    predicts all held-out rows.
    """

    score: str | Callable[[Any, Any], Any]
    low: float
    high: float
    adjacency: Adjacency
    batch: bool

    @property
    def _counted(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    @property
    def _probabilities(self) -> bool:
        return isinstance(self.score, str) and self.score in ("neg_brier_score", "neg_log_loss")

    def events(self, epsilon: float) -> list[tuple[PrivacyEvent, int]]:
        """List the events of one score at a budget."""
        return [(PureEvent(epsilon, "Laplace") if self._counted else LaplaceEvent(epsilon), 1)]

    def plan(self, epsilon: float, law: Repetitions) -> SearchPlan:
        """Cost the scores of a search by themselves, with the least noise that is within ε, and no δ.

        For one or two numbers Laplace noise is narrower than Gaussian noise of any useful δ.
        """
        return privacy.plan_search(
            lambda each, _: [self.events(each)], epsilon=epsilon, mean_repetitions=law.mean, laws=[law]
        )

    def of_units(self, model: BaseEstimator, parts: Parts) -> FloatArray:
        """Compute the mean score of each held-out unit, between the bounds; NaN counts as the lower one."""
        # A refusal of numbers in the midst of a model would say something about whoever has them.
        with config_context(assume_finite=True):
            values = [self._rows(model, predicted, y) for predicted, y in self._predicted(model, parts)]
            if len(values) != parts.n_held_out:
                values = np.split(values[0], np.cumsum(parts.sizes)[:-1])
            return np.array([np.mean(of_unit) for of_unit in values], dtype=np.float64)

    def _predicted(self, model: BaseEstimator, parts: Parts) -> Iterator[tuple[NDArray[Any] | None, NDArray[Any]]]:
        """Yield predictions and targets of each unit; all in one where scores go by rows as they are."""
        if self.batch and parts.n_held_out:
            rows = parts.held_out.copied()
            predicted = self._predict(model, rows.X, rows.y)
            if predicted is not None:
                if not callable(self.score):
                    yield predicted, rows.y
                    return
                # A callable might use the targets of others.
                yield from ((predicted[own].copy(), rows.y[own].copy()) for own in parts.slices())
                return
        before, last = _by_row(model)
        mapped = _mapped(before, parts.held_out.copied().X)
        if before is None or not (mapped is None or isinstance(mapped, np.ndarray)):
            yield from ((self._predict(model, X, y), y) for X, y in parts.units())
            return
        for place, (X, y) in zip(parts.slices(), parts.units(), strict=True):
            # A row for which a step fails changes nothing of what becomes of others.
            own = _mapped(before, X) if mapped is None else mapped[place]
            yield (None if own is None else self._predict(last, np.array(own, order="C"), y)), y

    def _predict(self, model: BaseEstimator, X: Any, y: NDArray[Any]) -> NDArray[Any] | None:
        """Predict; None where the model fails, because an error would say something about whoever has these rows."""
        try:
            predicted = np.asarray(model.predict_proba(X) if self._probabilities else model.predict(X))
        except Exception:
            return None
        if not self._probabilities and predicted.shape != y.shape:
            raise ValueError(f"predict must return one value a row, got {predicted.ndim} dimensions.")
        return predicted

    def _rows(self, model: BaseEstimator, predicted: NDArray[Any] | None, y: NDArray[Any]) -> FloatArray:
        lowest = np.full(y.shape, self.low)
        if predicted is None:
            return lowest
        if self._probabilities:
            rows = _of_probabilities(str(self.score), np.asarray(model.classes_), predicted.astype(np.float64), y)
        else:
            try:
                rows = _of_predictions(self.score, predicted, y)
            except Exception:  # of a callable, of which made-up rows have shown what depends on nobody
                return lowest
        return np.clip(np.where(np.isnan(rows), self.low, rows), self.low, self.high)

    def draw(self, model: Any, parts: Parts, epsilon: float, release: Release | Branch) -> float:
        """Draw `events`, and return the noisy mean score."""
        steps = privacy.interval_contributions(self.of_units(model, parts), self.low, self.high, bits=_BITS)
        total, half = int(privacy.exact_sum(steps, bound=1 << _BITS)), 1 << (_BITS - 1)
        if self._counted:
            # One unit adds at most half the range to the sum, and its weight to the count.
            weight = 1 << _COUNT_BITS
            statistic: Any = np.array([total, weight * parts.n_held_out])
            sensitivity = half + weight
        else:
            statistic, sensitivity = np.array(total), 2 * half
        noisy = release.laplace(statistic, sensitivity=sensitivity, epsilon=epsilon)
        noisy, count = (noisy[0], max(noisy[1] / weight, 1.0)) if self._counted else (noisy, parts.n_held_out)
        middle, width = self.low + (0.5 * self.high - 0.5 * self.low), self.high - self.low
        return float(middle + noisy / (2.0 * half) / count * width)


def private_score(
    scoring: str | Callable[[Any, Any], Any],
    bounds: Any,
    candidates: list[Any],
    adjacency: Adjacency,
    *,
    batch: bool,
    made_up: NDArray[Any],
) -> PrivateScore:
    """Make the score that ``scoring`` and ``bounds`` ask for. A callable is tried out on ``made_up`` targets."""
    name = scoring
    if scoring == "auto":
        name = "accuracy" if all(map(is_classifier, candidates)) else "neg_mean_squared_error"
    if bounds is None:
        bounds = SCORES.get(name) if isinstance(name, str) else None
        if bounds is None:
            raise ValueError(
                f"score_bounds must be two public numbers (low, high) for scoring={scoring!r}, got None: scores are "
                "clipped to them. For squared errors, (-s * s, 0.0) with an error s that is bad enough."
            )
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite([low, high]).all() and low < high and np.isfinite(high - low)):
        raise ValueError(f"score_bounds must be two finite numbers (low, high) with low < high, got {bounds!r}.")
    if name in ("accuracy", "neg_brier_score", "neg_log_loss") and not all(map(is_classifier, candidates)):
        raise ValueError(f"scoring must be a score of numbers, or a callable, for a regressor, got {scoring!r}.")
    if callable(scoring):
        _of_predictions(scoring, made_up, made_up.copy())
    return PrivateScore(name, low, high, adjacency, batch)
