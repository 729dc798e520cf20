"""The contract of a mechanism: its price is what it draws, and what it draws is worth its price."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from skprivate.privacy import (
    Adjacency,
    BudgetExceededError,
    Mechanism,
    PrivacyUnit,
    open_release,
    public_generator,
)
from skprivate.privacy._events import count_events
from skprivate.privacy.draws._tape import run_tape
from skprivate.utils._checks_replay import NoiseTape, different_changes
from skprivate.utils._leaves import equal_leaves, leaves
from skprivate.utils._neighbours import EXTREMES, random_floats
from skprivate.utils._replay import Recording, Replay, replay

#: So that what a mechanism draws outside its plan is seen, rather than refused.
_AMPLE = {"epsilon": 1e12, "delta": 0.5}


def check_mechanism(
    mechanism: Mechanism,
    datasets: Iterable[Any],
    *,
    neighbours: Callable[[Any], Iterable[Any]] | None = None,
    unit: PrivacyUnit | str = "row",
    adjacency: Adjacency | str = "replace-one",
    metric: str | None = None,
) -> None:
    """Check that a mechanism keeps the contract of `skprivate.privacy.Mechanism`.

    On each data set: ``run`` draws exactly ``events``, in any order, and nothing outside that plan; the noise is as
    wide as the events say; the mechanism is not changed. On each neighbour, with the released values frozen: the same
    draws, each statistic within its sensitivity (in exact arithmetic), and the same result. With the default
    neighbours also: what one row adds to a noised sum does not depend on the other rows.

    Parameters
    ----------
    mechanism : Mechanism
    datasets : iterable
        What ``run`` takes: a few, among them the smallest and the worst that it may meet.
    neighbours : callable, optional
        From a data set to its neighbours, data or `Neighbour`. By default, for arrays and tuples of arrays with one
        row per unit: rows are removed and added, or replaced by extreme numbers, as ``adjacency`` says.
    unit, adjacency, metric
        As in `skprivate.privacy.open_release`.

    Raises
    ------
    AssertionError
        With what was found first.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from skprivate.privacy import Mechanism, PureEvent
    >>> from skprivate.utils.estimator_checks import check_mechanism
    >>> @dataclass(frozen=True)
    ... class Positive(Mechanism):
    ...     epsilon: float
    ...     theorem = "discrete Laplace noise on a count"
    ...
    ...     @property
    ...     def events(self):
    ...         return [(PureEvent(self.epsilon, "discrete Laplace"), 1)]
    ...
    ...     def run(self, data, release):
    ...         return release.discrete_laplace([np.sum(data > 0)], sensitivity=1, epsilon=self.epsilon)
    >>> check_mechanism(Positive(1.0), [np.arange(-3.0, 4.0)])
    """
    name = type(mechanism).__name__
    assert isinstance(mechanism, Mechanism), f"{name} must inherit from skprivate.privacy.Mechanism."
    assert isinstance(mechanism.theorem, str) and mechanism.theorem, f"{name} names no theorem."
    planned = count_events(mechanism.events)
    before = leaves(mechanism)
    terms = {"unit": unit, "adjacency": adjacency, "metric": metric, "random_state": 0}
    terms |= {"epsilon": _AMPLE["epsilon"], "delta": 0.0 if metric is not None else _AMPLE["delta"]}

    def run(data: Any) -> Any:
        release = open_release(**terms, plan=mechanism.events)
        try:
            result = mechanism.run(data, release)
        except BudgetExceededError as error:
            raise AssertionError(
                f"{type(mechanism).__name__} draws more than its events hold: {error}"
            ) from None
        left = {event: count for event, count in release._planned.items() if count}
        outside = Counter(release._paid) - Counter(planned)
        assert not left, f"{name}.run does not draw all of its events; left are {left}."
        assert not outside, f"{name}.run draws what is not among its events: {dict(outside)}."
        return {"result": result, "events": tuple(planned.items())}

    for data in datasets:
        run(data)
        around = default_neighbours(data, adjacency) if neighbours is None else neighbours(data)
        replay(run, data, around).raise_failures(name)
        if neighbours is None:
            _check_isolation(name, run, data, adjacency)
        tape = NoiseTape()
        with run_tape(tape):
            run(data)
        assert not tape.failures, f"{name}: {tape.failures[0]}"
        assert count_events(mechanism.events) == planned, f"the events of {name} change when it runs."
        after = leaves(mechanism)
        same = before.keys() == after.keys() and all(
            np.all(equal_leaves(v, after[k])) for k, v in before.items()
        )
        assert same, f"{name}.run changes the mechanism, which must be frozen."
    if dataclasses.is_dataclass(mechanism):
        frozen = type(mechanism).__dataclass_params__.frozen
        assert frozen, f"{name} must be a frozen dataclass: @dataclass(frozen=True)."


def _check_isolation(name: str, run: Callable[[Any], Any], data: Any, adjacency: Adjacency | str) -> None:
    """A change of one row changes noised sums by the same amount whatever the other rows are."""
    recording = Recording(run, data)
    steps = list(_changes(data, adjacency))
    for place, apply in steps[:: max(1, len(steps) // 12)]:
        here = Replay(recording, run, apply(data))
        for other in _other_environments(data, place):
            pair = Replay(recording, run, other), Replay(recording, run, apply(other))
            found = different_changes(f"a change of row {place}", (recording, here), pair)
            assert not found, f"{name}: {found[0]}"


def default_neighbours(data: Any, adjacency: Adjacency | str) -> Iterator[Any]:
    """Neighbours of an array, or of a tuple of arrays, with one row for each unit."""
    for _, apply in _changes(data, adjacency):
        yield apply(data)


def _parts(data: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(part) for part in (data if isinstance(data, tuple) else (data,)))


def _each(edit: Callable[..., np.ndarray], data: Any, *rows: Any) -> Any:
    """Data with each part edited."""
    edited = tuple(edit(part, *more) for part, *more in zip(_parts(data), *rows, strict=True))
    return edited if isinstance(data, tuple) else edited[0]


def _changes(data: Any, adjacency: Adjacency | str) -> Iterator[tuple[int, Callable[[Any], Any]]]:
    adjacency = Adjacency(adjacency)
    if adjacency is Adjacency.METRIC:
        raise ValueError("neighbours must be given where adjacency is 'metric', with their distances.")
    rng = public_generator(19)
    n = len(_parts(data)[0])
    rows = [_worst_rows(part, rng) for part in _parts(data)]
    for place in sorted({0, n // 2, n - 1} - {-1}):
        if adjacency is Adjacency.ADD_REMOVE and n:
            yield place, lambda other, at=place: _each(lambda part: np.delete(part, at, axis=0), other)
        for k in range(max(map(len, rows))):
            new = [values[k % len(values)] for values in rows]
            if adjacency is Adjacency.ADD_REMOVE:
                edit = _insert
            elif n:
                edit = _with
            else:
                continue
            yield (
                place,
                lambda other, at=place, new=new, edit=edit: _each(
                    lambda part, row: edit(part, at, row), other, new
                ),
            )


def _other_environments(data: Any, place: int) -> Iterator[Any]:
    """All other rows in another order, alike, or extreme."""
    n = len(_parts(data)[0])
    others = np.setdiff1d(np.arange(n), [place])
    if others.size == 0:
        return
    for source in (others[::-1], np.repeat(others[:1], others.size)):
        order = np.arange(n)
        order[others] = source
        yield _each(lambda part, order=order: part[order], data)
    rng = public_generator(20)
    for _ in range(2):

        def extreme(part: np.ndarray) -> np.ndarray:
            rows = _worst_rows(part, rng)
            return np.array([part[k] if k == place else rows[rng.integers(len(rows))] for k in range(n)])

        yield _each(extreme, data)


def _insert(part: np.ndarray, place: int, row: Any) -> np.ndarray:
    return np.insert(part, place, row, axis=0)


def _with(part: np.ndarray, place: int, row: Any) -> np.ndarray:
    changed = part.copy()
    changed[place] = row
    return changed


def _worst_rows(part: np.ndarray, rng: Any) -> list[Any]:
    shape = part.shape[1:]
    if part.dtype.kind != "f":
        return list(np.unique(part, axis=0)) if len(part) else [np.zeros(shape, part.dtype)]
    with np.errstate(over="ignore"):
        rows = [np.full(shape, value).astype(part.dtype) for value in EXTREMES]
        rows += [rng.choice(EXTREMES, size=shape).astype(part.dtype) for _ in range(6)]
        rows += [random_floats(rng, shape or 1).reshape(shape).astype(part.dtype) for _ in range(6)]
    return [row for row in rows if np.all(np.isfinite(row))]
