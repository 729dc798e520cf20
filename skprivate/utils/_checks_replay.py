"""Privacy checks: the statistics of all draws keep what was paid for, and each unit counts for itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import clone

from skprivate._sklearn import StrOptions
from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyUnit,
    PureEvent,
    ZeroConcentratedEvent,
    public_generator,
)
from skprivate.privacy.draws._tape import Draw, run_tape
from skprivate.utils._check_data import (
    CheckData,
    MakeData,
    default_data,
    fit_clone,
    releases_in_transform,
    releases_something,
)
from skprivate.utils._draw_distance import NOISE, change, exact
from skprivate.utils._leaves import leaves
from skprivate.utils._neighbours import changes, environments, evenly
from skprivate.utils._replay import Neighbour, Recording, Replay, ReplayReport, replay

#: Small data, and as many neighbours as take about a second; `replay_estimator` looks at more.
_ROWS, _NEIGHBOURS = 20, 40
#: Samples of the noise of one draw, and how many draws of one price are looked at.
_SAMPLES, _EACH = 400, 2
#: Standard deviations that a mean may be off: a correct draw fails with probability below 1e-10.
_SIGMAS = 6.5


def check_replay(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """On neighbouring data, with the released values frozen, a fit makes the same draws within their sensitivities.

    Kind, shape, sensitivity, price and options of every draw must be equal, its statistic must change by at most its
    sensitivity, in exact arithmetic, and the fitted estimator must be the same. Neighbours are the worst one unit can
    do: subnormal and huge numbers, ties, one row or many. With both adjacencies where the estimator has them.
    """
    for variant in private_variants(estimator, make_data):
        replay_estimator(variant, make_data=make_data, at_most=_NEIGHBOURS).raise_failures(name)


def check_unit_isolation(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """What one unit adds to a noised sum does not depend, to the last bit, on who else is in it.

    With the released values frozen, the change of one unit must change every statistic by the same amount on the data
    and on other data, in which all other units are shuffled, alike, or extreme.
    """
    for variant in private_variants(estimator, make_data):
        failures = isolation_failures(variant, make_data=make_data, at_most=_NEIGHBOURS // 5)
        assert not failures, f"{name}: {failures[0]} (1 of {len(failures)} failures.)"


def check_noise_has_its_price(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """The noise of the draws is as wide as their events and sensitivities say.

    Draws are sampled 400 times; the mean size of the noise must not be below what its price says by 6.5 standard
    errors (1e-10), nor the mean cost of a selection by the exponential mechanism.
    """
    for variant in private_variants(estimator, make_data):
        variant, data, _ = _prepare(variant, make_data, _ROWS, 18)
        tape = NoiseTape()
        with run_tape(tape):
            fit_and_release(variant, data)
        assert not tape.failures, f"{name}: {tape.failures[0]}"


def private_variants(estimator: Any, make_data: MakeData = default_data) -> Iterator[Any]:
    """The estimator under each adjacency that it has; nothing if it releases nothing."""
    if not (releases_something(estimator) or releases_in_transform(estimator)):
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


def fit_and_release(estimator: Any, data: CheckData) -> Any:
    """All that a seeded fit leaves, and what it returns where it releases in ``transform``."""
    fitted = fit_clone(estimator, data, random_state=0)
    if not releases_in_transform(estimator):
        return fitted.leaves()
    return {
        **fitted.leaves(),
        **{f"transform{k}": v for k, v in leaves(fitted.estimator.transform(data.X)).items()},
    }


def replay_estimator(
    estimator: Any,
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
        changes(estimator, data, guarantee, public_generator(seed + 1), n_units), at_most, _begin(seed)
    )
    around = (Neighbour(step.name, step.apply(data), step.distance) for step in steps)
    return replay(lambda other: fit_and_release(estimator, other), data, around)


def isolation_failures(
    estimator: Any,
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

    rng = public_generator(seed + 1)
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
    """Where the changes begin that are chosen: other seeds, other changes."""
    return seed * 0.6180339887498949 % 1.0


def _prepare(estimator: Any, make_data: MakeData, n_rows: int, seed: int) -> Any:
    """The estimator, knowing the classes where the adjacency hides them; data; what it promises."""
    data = make_data(estimator, public_generator(seed), n_rows)
    parameters = estimator.get_params(deep=False)
    if parameters.get("adjacency") == "add-remove" and "classes" in parameters and data.y is not None:
        estimator = clone(estimator).set_params(classes=np.unique(data.y).tolist())
    return estimator, data, fit_clone(estimator, data, random_state=0).guarantee


def different_changes(name: str, here: Any, there: Any) -> list[str]:
    """Complaints where a change has another effect on the sums of one pair of runs than on those of another."""
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


class NoiseTape:
    """A tape that samples draws many times and compares the size of their noise with its price."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._seen: dict[Any, int] = {}

    def draw(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        key = (draw.kind, repr(draw.sensitivity), repr(draw.events), draw.statistic.size)
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] <= _EACH:
            if draw.kind in NOISE:
                self._compare_noise(draw, [sample() for _ in range(_SAMPLES)])
            elif draw.kind == "select" and draw.options["rule"] == "exponential":
                self._compare_choices(draw, sample)
        return sample()

    def _compare_noise(self, draw: Draw, samples: list[Any]) -> None:
        real = np.asarray([np.asarray(one, dtype=np.float64) for one in samples]).reshape(len(samples), -1)
        centre = np.array([float(value) for value in exact(draw.statistic)[0].tolist()])
        step = 1.0 if draw.step is None or not exact(draw.statistic)[1] else draw.step
        noise = np.abs(real - centre * step)
        noise = noise[
            :, np.abs(centre) * 2.0**-48 * step < _size(draw) * step
        ]  # beyond, float64 has no digits left
        expected, deviation = _mean_and_deviation(draw)
        if noise.size and float(noise.mean()) < step * (
            expected - _SIGMAS * deviation / math.sqrt(noise.size)
        ):
            self.failures.append(
                f"the noise of {draw.kind} is {noise.mean():.4g} on average; {list(draw.events)} at sensitivity "
                f"{draw.sensitivity:g} promise {step * expected:.4g}."
            )

    def _compare_choices(self, draw: Draw, sample: Callable[[], Any]) -> None:
        if draw.options["multiplicity"] is not None:
            return
        scores = np.array([float(score) for score in exact(draw.statistic)[0].tolist()])
        (event,) = draw.events
        gap = scores.max() - scores
        rate = event.pure_epsilon / (float(draw.sensitivity) * (1 if draw.options["monotone"] else 2))
        weights = np.exp(-rate * gap)
        weights /= weights.sum()
        capped = np.minimum(rate * gap, 40.0)
        mean = float(weights @ capped)
        deviation = math.sqrt(max(float(weights @ capped**2) - mean**2, 0.0))
        found = float(np.mean([capped[int(sample())] for _ in range(_SAMPLES)]))
        # Skewed laws with rare large costs: a rule of six deviations needs them not to be too rare.
        if found < mean - _SIGMAS * deviation / math.sqrt(_SAMPLES) and mean > 0.05:
            self.failures.append(
                f"a selection priced {event} chooses costs of {found:.4g} on average, but should {mean:.4g}."
            )


def _size(draw: Draw) -> float:
    (event,) = {type(event): event for event in draw.events}.values()
    if isinstance(event, GaussianEvent):
        return float(draw.sensitivity) * event.noise_multiplier
    if isinstance(event, ZeroConcentratedEvent):
        return float(draw.sensitivity) / math.sqrt(2 * event.rho)
    assert isinstance(event, LaplaceEvent | PureEvent | BoundedRangeEvent)
    return float(Fraction(draw.sensitivity) / Fraction(event.pure_epsilon))


def _mean_and_deviation(draw: Draw) -> tuple[float, float]:
    """Of the absolute value of one coordinate of the noise, in steps."""
    size = _size(draw)
    if draw.kind.endswith("gaussian"):
        if draw.kind == "discrete_gaussian" and size < 4.0:
            points = np.arange(1, 60)
            weights = np.exp(-0.5 * (points / size) ** 2)
            weights /= 1 + 2 * weights.sum()
            mean, square = 2 * float(weights @ points), 2 * float(weights @ points.astype(float) ** 2)
            return mean, math.sqrt(max(square - mean**2, 0.0))
        return size * math.sqrt(2 / math.pi), size * math.sqrt(1 - 2 / math.pi)
    if draw.kind == "discrete_laplace":
        q = math.exp(-1 / size)
        mean = 2 * q / (1 - q * q)
        return mean, math.sqrt(max(2 * q / (1 - q) ** 2 - mean**2, 0.0))
    return size, size
