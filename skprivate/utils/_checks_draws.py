"""Privacy checks of the draws: sensitivities by replay, and the contract of a mechanism."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from skprivate import privacy
from skprivate._sklearn import StrOptions
from skprivate.privacy import Adjacency, BudgetExceededError, Mechanism, PrivacyUnit, SimulatedNoiseWarning, draws
from skprivate.utils import _data, _laws
from skprivate.utils._data import CheckData, MakeData, default_data
from skprivate.utils._neighbours import EXTREMES, changes, environments, evenly, random_floats
from skprivate.utils._replay import NOISE, Neighbour, Recording, Replay, ReplayReport, change, replay

#: Small data, and as many neighbours as take about a second; `replay_estimator` looks at more.
_ROWS, _NEIGHBOURS = 20, 40
#: A p-value of the noise below which a check fails.
_IMPOSSIBLE = 1e-10
#: So that what a mechanism draws outside its plan is seen, rather than refused.
_AMPLE = {"epsilon": 1e12, "delta": 0.5}


def check_replay(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that a fit on neighbours, with the released values frozen, makes the same draws within their sensitivities.

    Kind, shape, sensitivity, cost and options of every draw must be equal, its statistic must change by at most its
    sensitivity, in exact arithmetic, and the fitted estimator must be the same. Neighbours are the worst one unit can
    do: subnormal and huge numbers, ties, one row or many. With both adjacencies where the estimator has them.

    See Also
    --------
    audit_estimator : Replays a fit on your own data.
    """
    for variant in private_variants(estimator, make_data):
        replay_estimator(variant, make_data=make_data, at_most=_NEIGHBOURS).raise_failures(name)


def check_unit_isolation(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that the share of one unit in a noised sum does not depend on the other units, to the last bit.

    With the released values frozen, the change of one unit must change every statistic by the same amount on the data
    and on other data, in which all other units are shuffled, alike, or extreme.

    See Also
    --------
    isolation_failures : Lists the sums concerned.
    """
    for variant in private_variants(estimator, make_data):
        failures = isolation_failures(variant, make_data=make_data, at_most=_NEIGHBOURS // 5)
        assert not failures, f"{name}: {failures[0]} (1 of {len(failures)} failures.)"


def check_noise_scale(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that the noise of the draws is as wide as their events and sensitivities say.

    Draws are repeated, and their results compared with the law that follows from event and sensitivity: they fail if
    there is less noise with a p-value below 1e-10.
    """
    for variant in private_variants(estimator, make_data):
        variant, data, _ = _prepare(variant, make_data, _ROWS, 18)
        failures = too_little_noise(functools.partial(fit_and_release, variant), data)
        assert not failures, f"{name}: {failures[0]}"


def private_variants(estimator: BaseEstimator, make_data: MakeData = default_data) -> Iterator[Any]:
    """Yield the estimator under each adjacency that it has; nothing if it releases nothing."""
    if not (_data.releases_something(estimator) or _data.releases_in_transform(estimator)):
        return
    allowed = getattr(estimator, "_parameter_constraints", {}).get("adjacency", ())
    options = sorted({o for item in allowed if isinstance(item, StrOptions) for o in item.options})
    yield estimator
    for option in options:
        if option != estimator.adjacency:
            variant = clone(estimator).set_params(adjacency=option)
            try:
                _prepare(variant, make_data, _ROWS, 14)
            except ValueError as error:
                if "adjacency" in str(error):  # together with its other parameters it is refused
                    continue
                raise
            yield variant


def fit_and_release(estimator: BaseEstimator, data: CheckData) -> Any:
    """Collect all that a seeded fit leaves, and what it returns where it releases in ``transform``."""
    fitted = _data.fit_clone(estimator, data, random_state=0)
    if not _data.releases_in_transform(estimator):
        return fitted.leaves()
    return {
        **fitted.leaves(),
        **{f"transform{k}": v for k, v in _data.leaves(fitted.estimator.transform(data.X)).items()},
    }


def replay_estimator(
    estimator: BaseEstimator,
    *,
    make_data: MakeData = default_data,
    n_rows: int = _ROWS,
    n_units: int = 1,
    at_most: int | None = None,
    seed: int = 14,
) -> ReplayReport:
    """Replay a fit on neighbours of common data: the long version of `check_replay`.

    Parameters
    ----------
    estimator : estimator
        Not fitted. It must draw through `skprivate.privacy.Release`.
    make_data : callable, default=default_data
        ``make_data(estimator, rng, n_rows)`` returns `CheckData` that suit the estimator.
    n_rows : int, default=20
        Size of the data.
    n_units : int, default=1
        How many units change, one at a time, each in up to a hundred ways.
    at_most : int, optional
        Most changes of values, evenly chosen among all; changes that move rows are all made.
    seed : int, default=14
        Of the public randomness, and of which changes ``at_most`` leaves.

    Returns
    -------
    ReplayReport
    """
    estimator, data, guarantee = _prepare(estimator, make_data, n_rows, seed)
    steps = evenly(
        changes(estimator, data, guarantee, privacy.public_generator(seed + 1), n_units), at_most, _begin(seed)
    )
    around = (Neighbour(step.name, step.apply(data), step.distance) for step in steps)
    return replay(lambda other: fit_and_release(estimator, other), data, around)


def isolation_failures(
    estimator: BaseEstimator,
    *,
    make_data: MakeData = default_data,
    n_rows: int = _ROWS,
    n_units: int = 1,
    at_most: int | None = None,
    seed: int = 16,
) -> list[str]:
    """Noised sums to which a unit adds something else when other units are others: `check_unit_isolation`, long.

    Parameters
    ----------
    estimator, make_data, n_rows, n_units, at_most, seed
        As in `replay_estimator`; each change is made in up to five environments.

    Returns
    -------
    list of str
    """
    estimator, data, guarantee = _prepare(estimator, make_data, n_rows, seed)
    if guarantee.unit is PrivacyUnit.DATASET:
        return []

    def run(other: CheckData) -> Any:
        return fit_and_release(estimator, other)

    rng = privacy.public_generator(seed + 1)
    recording = Recording(run, data)
    found = []
    #: Of the units that a change leaves alone: one for all changes of the same rows.
    known: dict[bytes, list[tuple[CheckData, Replay]]] = {}
    for step in evenly(changes(estimator, data, guarantee, rng, n_units), at_most, _begin(seed)):
        here = Replay(recording, run, step.apply(data))
        key = np.asarray(step.rows).tobytes()
        if key not in known:
            others = environments(data, guarantee.unit, step.rows, rng)
            known[key] = [(other, Replay(recording, run, other)) for other in others]
        for other, replayed in known[key]:
            pair = replayed, Replay(recording, run, step.apply(other))
            found += different_changes(step.name, (recording, here), pair)
    return found


def _begin(seed: int) -> float:
    """Choose where the changes begin: other seeds, other changes."""
    return seed * 0.6180339887498949 % 1.0


def _prepare(estimator: BaseEstimator, make_data: MakeData, n_rows: int, seed: int) -> Any:
    """Prepare the estimator (with the classes where the adjacency hides them), data, and its guarantee."""
    data = make_data(estimator, privacy.public_generator(seed), n_rows)
    parameters = estimator.get_params(deep=False)
    if parameters.get("adjacency") == "add-remove" and "classes" in parameters and data.y is not None:
        estimator = clone(estimator).set_params(classes=np.unique(data.y).tolist())
    return estimator, data, _data.fit_clone(estimator, data, random_state=0).guarantee


def different_changes(name: str, here: object, there: object) -> list[str]:
    """List complaints where a change has another effect on the sums of one pair of runs than on those of another."""
    for each in (here[1], *there):
        if each.failure:
            return [f"on {name} or other environments, {each.failure}"]
    for k, (a, b, c, d) in enumerate(zip(*(run.draws for run in (*here, *there)), strict=True)):
        if a.kind in NOISE or a.norm == "unit":
            # A user's rows may move to other places, and with them all rows of the local model.
            if a.statistic.shape != c.statistic.shape and a.norm == "unit":
                continue
            if change(a.statistic, b.statistic) != change(c.statistic, d.statistic):
                return [f"draw {k} ({a.kind}): what {name} changes depends on the data of other units"]
    return []


def too_little_noise(run: Callable[[Any], Any], data: object) -> list[str]:
    """Repeat the draws of a run, and list those whose noise is below what their events say."""
    tape = _laws.LawTape(privacy.public_generator(21))
    with draws.run_tape(tape):
        run(data)
    found = [test for test in tape.tests if test.test.startswith("less") and test.p_value < _IMPOSSIBLE]
    return [f"the noise of a draw is below what its events say: {test}" for test in found]


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
    planned = privacy.count_events(mechanism.events)
    before = _data.leaves(mechanism)
    terms = {"unit": unit, "adjacency": adjacency, "metric": metric, "random_state": 0}
    terms |= {"epsilon": _AMPLE["epsilon"], "delta": 0.0 if metric is not None else _AMPLE["delta"]}

    def run(data: object) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)  # of our own seed
            release = privacy.open_release(**terms, plan=mechanism.events)
        try:
            result = mechanism.run(data, release)
        except BudgetExceededError as error:
            raise AssertionError(f"{type(mechanism).__name__} draws more than its events hold: {error}") from None
        left = {event: count for event, count in release._planned.items() if count}
        outside = Counter(release._paid) - Counter(planned)
        assert not left, f"{name}.run does not draw all of its events; left are {left}."
        assert not outside, f"{name}.run draws what is not among its events: {dict(outside)}."
        return {"result": result, "events": tuple(planned.items())}

    for data in datasets:
        run(data)
        if neighbours is None:
            around: Iterable[Any] = (apply(data) for _, apply in _changes(data, adjacency))
        else:
            around = neighbours(data)
        replay(run, data, around).raise_failures(name)
        if neighbours is None:
            _check_isolation(name, run, data, adjacency)
        failures = too_little_noise(run, data)
        assert not failures, f"{name}: {failures[0]}"
        assert privacy.count_events(mechanism.events) == planned, f"the events of {name} change when it runs."
        after = _data.leaves(mechanism)
        same = before.keys() == after.keys() and all(np.all(_data.equal_leaves(v, after[k])) for k, v in before.items())
        assert same, f"{name}.run changes the mechanism, which must be frozen."
    if dataclasses.is_dataclass(mechanism):
        frozen = type(mechanism).__dataclass_params__.frozen
        assert frozen, f"{name} must be a frozen dataclass: @dataclass(frozen=True)."


def _check_isolation(name: str, run: Callable[[Any], Any], data: object, adjacency: Adjacency | str) -> None:
    """Check that a change of one row changes noised sums by the same amount in all environments."""
    recording = Recording(run, data)
    steps = list(_changes(data, adjacency))
    for place, apply in steps[:: max(1, len(steps) // 12)]:
        here = Replay(recording, run, apply(data))
        for other in _other_environments(data, place):
            pair = Replay(recording, run, other), Replay(recording, run, apply(other))
            found = different_changes(f"a change of row {place}", (recording, here), pair)
            assert not found, f"{name}: {found[0]}"


def _parts(data: object) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(part) for part in (data if isinstance(data, tuple) else (data,)))


def _each(edit: Callable[..., np.ndarray], data: object, *rows: object) -> Any:
    """Edit each part of the data."""
    edited = tuple(edit(part, *more) for part, *more in zip(_parts(data), *rows, strict=True))
    return edited if isinstance(data, tuple) else edited[0]


def _changes(data: object, adjacency: Adjacency | str) -> Iterator[tuple[int, Callable[[Any], Any]]]:
    adjacency = Adjacency(adjacency)
    if adjacency is Adjacency.METRIC:
        raise ValueError("neighbours must be given where adjacency is 'metric', with their distances.")
    rng = privacy.public_generator(19)
    n = len(_parts(data)[0])
    rows = [_worst_rows(part, rng) for part in _parts(data)]
    for place in sorted({0, n // 2, n - 1} - {-1}):
        if adjacency is Adjacency.ADD_REMOVE and n:
            yield place, lambda other, at=place: _each(lambda part: np.delete(part, at, axis=0), other)
        for k in range(max(map(len, rows))):
            new = [values[k % len(values)] for values in rows]
            if adjacency is Adjacency.ADD_REMOVE:
                edit = functools.partial(np.insert, axis=0)
            elif n:
                edit = _with
            else:
                continue
            yield (
                place,
                lambda other, at=place, new=new, edit=edit: _each(lambda part, row: edit(part, at, row), other, new),
            )


def _other_environments(data: object, place: int) -> Iterator[Any]:
    """Yield data with all other rows in another order, alike, or extreme."""
    n = len(_parts(data)[0])
    others = np.setdiff1d(np.arange(n), [place])
    if others.size == 0:
        return
    for source in (others[::-1], np.repeat(others[:1], others.size)):
        order = np.arange(n)
        order[others] = source
        yield _each(lambda part, order=order: part[order], data)
    rng = privacy.public_generator(20)
    for _ in range(2):

        def extreme(part: np.ndarray) -> np.ndarray:
            rows = _worst_rows(part, rng)
            return np.array([part[k] if k == place else rows[rng.integers(len(rows))] for k in range(n)])

        yield _each(extreme, data)


def _with(part: np.ndarray, place: int, row: object) -> np.ndarray:
    changed = part.copy()
    changed[place] = row
    return changed


def _worst_rows(part: np.ndarray, rng: np.random.Generator) -> list[Any]:
    shape = part.shape[1:]
    if part.dtype.kind != "f":
        return list(np.unique(part, axis=0)) if len(part) else [np.zeros(shape, part.dtype)]
    with np.errstate(over="ignore"):
        rows = [np.full(shape, value).astype(part.dtype) for value in EXTREMES]
        rows += [rng.choice(EXTREMES, size=shape).astype(part.dtype) for _ in range(6)]
        rows += [random_floats(rng, shape or 1).reshape(shape).astype(part.dtype) for _ in range(6)]
    return [row for row in rows if np.all(np.isfinite(row))]
