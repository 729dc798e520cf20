"""The search itself: pairs are proposed, looked at, kept, and the strongest tested on fresh runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.audit.claims._violations_door import door_share
from skprivate.audit.claims._violations_laws import (
    Event,
    Views,
    allowed_separation,
    best_event,
    epsilon_bound,
    event_p_value,
    row_views,
    separation,
)
from skprivate.audit.claims._violations_metric import (
    check_source,
    halves,
    metric_pair,
    pairs_of_the_caller,
    setting_variants,
    with_distance,
)
from skprivate.audit.claims._violations_pairs import Pair, Recipes, Surroundings
from skprivate.audit.claims._violations_target import Claim, Inputs, Target, same_release, table

Array = npt.NDArray[np.float64]
#: Seeds of the first look at a pair, and of the second.
_FIRST, _SECOND = 4, 12
#: Rows of the first look at a row-wise randomiser, and of the looks that decide.
_ROWS, _MANY_ROWS = 2_000, 20_000
#: Looks of one test, each a fresh sample four times as large as the one before.
_LOOKS = 3
_ELITE = 12
#: Share of the time that a run on both inputs may take: what takes longer is searched in other ways.
_SLOW = 0.004
#: And up to which such a pair is still measured at the door, which takes two runs.
_TOO_SLOW = 0.1
#: Shares of a sensitivity up to here may be the rounding of the shares themselves.
ROUNDING = 1.0 + 1e-9


class _TooSlowError(Exception):
    """A pair that costs more than it is likely to show."""


@dataclass(frozen=True)
class _Tested:
    """The outcome of a test on fresh runs."""

    pair: Pair
    event: Event
    counts: tuple[int, int, int, int]
    p_value: float
    bound: float
    claim: tuple[float, float]


class Search:
    """One search: looks at pairs, keeps the strongest, tests them."""

    def __init__(
        self,
        target: Target,
        given: dict[str, Any],
        distance: Any,
        confidence: float,
        max_seconds: float,
        max_pairs: int | None,
        rng: Any,
    ) -> None:
        self.settings: list[dict[str, Any]] = [{}]
        self.target, self.given, self.distance = target, given, distance
        self.confidence, self.max_pairs, self.rng = confidence, max_pairs, rng
        self.started = time.process_time()
        self.max_seconds = max_seconds
        self.n_pairs = self.n_refused = self.n_tested = self.n_watched = 0
        self.one_sided: list[str] = []
        self.claims: dict[str, Claim | None] = {}
        self.elite: list[tuple[float, Pair]] = []
        self.settled: set[int] = set()
        self.strongest: _Tested | None = None
        self.slow = 0.0
        self.door: tuple[float, str] | None = None

    # --- what is searched ----------------------------------------------------------------------------------------

    def prepare(self, example: Inputs, make_data: Any, settings: Any) -> None:
        parameters = self.target.parameters
        if settings is None:
            self.settings = [{}]
        else:
            self.settings = [dict(settings)] if isinstance(settings, dict) else [dict(s) for s in settings]
        labels, has_target = self.target.kind_of_target(example)
        accepts = self.target.accepts
        place = Surroundings(
            Claim(math.nan),
            example,
            labels,
            has_target,
            "user_ids" in accepts or "user_ids" in example.params,
            "private" in accepts or "private" in example.params,
            make_data=make_data,
        )
        place.claim = self.target.claim_of_a_run(example, labels, has_target, self.settings[0], self.given)
        if place.claim.unit == "row" and place.has_users and self.given["unit"] is None:
            place.claim = replace(
                place.claim, unit="user"
            )  # without identifiers a row is a user: pairs of both kinds
        self.place = place
        if has_target and labels is None and place.claim.adjacency != "metric":
            place.several_outputs = self.target.takes_several_outputs(example, self.settings[0])
        if not isinstance(settings, list):
            own = {**parameters, **self.settings[0]}
            variants = setting_variants(self.target.subject, own, place.claim.adjacency == "metric")
            self.settings = [{**self.settings[0], **variant} for variant in variants]
        self.metric = place.claim.adjacency == "metric"
        if self.metric and parameters.get("bounds") is not None:  # distances may be relative to them
            self.settings = [{"bounds": parameters["bounds"], **each} for each in self.settings]
        self.recipes = None if self.metric else Recipes(place, self.settings, self.rng)

    def _same_kind(self, claim: Claim) -> bool:
        """Whether a claim protects what pairs differ in: some options protect something else."""
        unit = claim.unit
        if unit == "row" and self.place.has_users and self.given["unit"] is None:
            unit = "user"
        return (unit, claim.adjacency) == (self.place.claim.unit, self.place.claim.adjacency)

    def _measured(self, pair: Pair) -> Pair:
        """With its distance, in the metric of its settings."""
        try:
            claim = self._claim(pair)
        except Exception:  # refused: the look will say so
            claim = self.place.claim
        return with_distance(pair, claim, self.distance)

    def _claim(self, pair: Pair) -> Claim:
        """The claim under a pair's settings."""
        key = repr(sorted(pair.settings.items(), key=lambda item: item[0]))
        if key not in self.claims:
            self.claims[key] = self.target.claim(pair.first, pair.settings, self.given)
        return self.claims[key] or self.place.claim

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        return time.process_time() - self.started

    def _over(self, share: float = 1.0) -> bool:
        return self.spent > share * self.max_seconds or (
            self.max_pairs is not None and self.n_pairs >= self.max_pairs
        )

    def _seed(self) -> int:
        return int(self.rng.integers(2**31 - 1))

    def _sample(self, pair: Pair, n: int, seeds: list[int | None]) -> list[Any]:
        """Runs of both inputs in turn: dictionaries of what is released; arrays of rows for a row-wise randomiser."""
        if self.target.row_wise:
            rows = (pair.first.X[:1], pair.second.X[:1])
            return [self.target.many_rows(row, n, pair.settings, self._decider(seeds)) for row in rows]
        runs: list[Any] = []
        begun = self.spent
        for seed in seeds:
            for inputs in (pair.first, pair.second):
                runs.append(self.target.released(inputs, pair.settings, seed))
            if len(runs) > 2:
                continue
            self.slow = self.spent - begun
            if self.slow > _SLOW * self.max_seconds:
                raise _TooSlowError
            self.slow = 0.0
            if self.target.seeded and same_release(*runs):  # the change is not seen at all
                return runs * len(seeds)
        return runs

    def _decider(self, seeds: list[int | None]) -> int | None:
        return None if seeds[0] is None else self._seed()

    def look(self, pair: Pair, n_seeds: int) -> float | None:
        """By how much the pair's laws lie further apart than the claim allows, on a few runs; None if refused.

        Above 1 the pair is suspicious; 0 where runs take too long.
        """
        self.slow = 0.0
        try:
            claim = self._claim(pair)
            if not self._same_kind(claim):
                return None
            epsilon, delta = claim.at(pair.distance)
            if self.target.row_wise:
                return self._look_at_rows(pair, epsilon, delta, _ROWS if n_seeds == _FIRST else 4 * _ROWS)
            seeds: list[int | None] = [self._seed() for _ in range(n_seeds)]
            runs = self._sample(pair, n_seeds, seeds)
        except _TooSlowError:
            return 0.0
        except Exception as error:  # what a subject does not take is no neighbour; which side it was is noted
            self._refusal(pair, error)
            return None
        if runs[0] is runs[-2]:
            return 0.0
        values, _ = table(runs)
        found = separation(values[0::2], values[1::2], self.target.seeded)
        return found / (1.25 * allowed_separation(epsilon, delta) + (0.8 if n_seeds > _FIRST else 1.0))

    def watch(self, pair: Pair) -> float:
        """The pair's share of a sensitivity at the door; 0 where nothing is seen."""
        if not self.target.seeded or self.slow > _TOO_SLOW * self.max_seconds:
            return 0.0
        seed = self._seed()
        try:
            share = door_share(
                lambda inputs: self.target.everything(inputs, pair.settings, seed),
                pair.first,
                pair.second,
                pair.distance,
            )
        except Exception:  # a subject that cannot be watched is looked at from outside only
            return 0.0
        self.n_watched += share is not None
        if share is not None and (self.door is None or share > self.door[0]):
            self.door = share, f"{pair}" + (f"; {pair.settings}" if pair.settings else "")
        return share or 0.0

    def _refusal(self, pair: Pair, error: Exception) -> None:
        self.n_refused += 1
        outcomes = []
        for inputs in (pair.first, pair.second):
            try:
                self.target.run(inputs, pair.settings, 0)
                outcomes.append(True)
            except Exception:
                outcomes.append(False)
        if outcomes[0] != outcomes[1]:
            self.one_sided.append(f"{type(error).__name__} on one input: {pair}")

    def _look_at_rows(self, pair: Pair, epsilon: float, delta: float, n: int) -> float:
        first, second = self._sample(pair, n, [0])
        views, a, b = row_views(pair.first.X[:1], pair.second.X[:1], first, second, n // 2)
        event = best_event(views, a[: n // 2], b[: n // 2], epsilon, delta)[1]
        if event is None:
            return 0.0
        return best_event([(event.name, event.view)], a[n // 2 :], b[n // 2 :], epsilon, delta)[0] / 4.5

    # --- testing -------------------------------------------------------------------------------------------------

    def test(self, pair: Pair) -> _Tested | None:
        """Choose an event on some runs and test it on fresh ones, in growing samples; None if none is promising."""
        claim = self._claim(pair).at(pair.distance)
        if not all(math.isfinite(number) for number in claim):
            return None
        try:
            size = int(min(max(25.0 * math.exp(min(claim[0], 3.0)), 60.0), 300.0))
            prepared = self._choose(pair, size, *claim)
            if prepared is None:
                return None
            event, draw = prepared
            self.n_tested += 1
            best: _Tested | None = None
            for k in range(_LOOKS):
                if k and self.spent > 1.3 * self.max_seconds:
                    break
                tested = self._decide(
                    pair, event, draw, (_MANY_ROWS if self.target.row_wise else size) * 4**k, claim
                )
                if best is None or tested.p_value < best.p_value:
                    best = tested
                if best.p_value <= 1.0 - self.confidence or tested.p_value >= 1.0:
                    break
        except Exception as error:
            self._refusal(pair, error)
            return None
        if best is not None and (self.strongest is None or best.p_value < self.strongest.p_value):
            self.strongest = best
        return best

    def _choose(
        self, pair: Pair, size: int, epsilon: float, delta: float
    ) -> tuple[Event, Callable[[int], tuple[Array, Array]]] | None:
        """The event, and a function that draws fresh runs of both sides."""
        if self.target.row_wise:
            n = _MANY_ROWS // 2
            first, second = self._sample(pair, n, [self._fresh()])
            views, a, b = row_views(pair.first.X[:1], pair.second.X[:1], first, second, n)

            def draw(count: int) -> tuple[Array, Array]:
                sides = self._sample(pair, count, [self._fresh()])
                _, one, other = row_views(pair.first.X[:1], pair.second.X[:1], sides[0], sides[1], 2)
                return one, other

        else:
            runs = []
            for _ in range(size):
                seed = self._seed()
                runs += [
                    self.target.released(inputs, pair.settings, seed) for inputs in (pair.first, pair.second)
                ]
            values, names = table(runs)
            a, b = values[0::2], values[1::2]
            views = Views(a, b, self.target.seeded, names).all()

            def draw(count: int) -> tuple[Array, Array]:
                fresh = []
                for inputs in (pair.first, pair.second):
                    fresh += [
                        self.target.released(inputs, pair.settings, self._fresh()) for _ in range(count)
                    ]
                stacked = table([*runs, *fresh], known=len(runs))[0][len(runs) :]
                return stacked[:count], stacked[count:]

        excess, event = best_event(views, a, b, epsilon, delta)
        return None if event is None or excess < 2.0 else (event, draw)

    def _fresh(self) -> int | None:
        return self._seed() if self.target.simulate else None

    def _decide(self, pair: Pair, event: Event, draw: Any, count: int, claim: tuple[float, float]) -> _Tested:
        first, second = (event.holds(values) for values in draw(count))
        one, other = (int(first.sum()), first.size), (int(second.sum()), second.size)
        counts = (*other, *one) if event.swapped else (*one, *other)
        price = _LOOKS * self.n_tested * (self.n_tested + 1)
        p_value = min(1.0, price * event_p_value(*counts, *claim))
        bound = epsilon_bound(*counts, claim[1], (1.0 - self.confidence) / price)
        return _Tested(pair, event, counts, p_value, bound, claim)

    # --- the search ----------------------------------------------------------------------------------------------

    def go(self, pairs: Iterable[Any] | None) -> _Tested | None:
        """Search until a violation is found or the time is over."""
        own = pairs_of_the_caller(pairs or (), self.settings[0], self.place.claim, self.distance)
        builds = check_source(self.place.claim, self.distance, own)
        found: _Tested | None = None
        for pair in own:
            found = found or self._try(pair)
        while builds and found is None and not self._over(0.75):
            found = self._try(self._propose())
        # What was strongest and not yet tested.
        for _ in range(3):
            rest = [item for item in self.elite if id(item[1]) not in self.settled]
            if found is not None or not rest or self.spent > self.max_seconds:
                break
            found = self._test(max(rest, key=lambda item: item[0])[1])
        return found

    def _propose(self) -> Pair:
        if self.recipes is None:
            k = 0 if self.rng.random() < 0.5 else int(self.rng.integers(len(self.settings)))
            return self._measured(metric_pair(self.place, self.settings[k], self.target.row_wise, self.rng))
        promising = [pair for _, pair in self.elite if "n" in pair.genes]
        if promising and self.n_pairs > 40 and self.rng.random() < 0.5:
            parent = promising[int(self.rng.integers(len(promising)))]
            genes = {**parent.genes, "settings": self._number_of(parent)}
            return self.recipes.build(self.recipes.change(genes))
        return self.recipes.build(self.recipes.draw())

    def _number_of(self, pair: Pair) -> int:
        return next(k for k, known in enumerate(self.settings) if known is pair.settings)

    def _try(self, pair: Pair) -> _Tested | None:
        self.n_pairs += 1
        score = self.look(pair, _FIRST)
        if self.recipes is not None and "n" in pair.genes:
            self.recipes.learn(
                {**pair.genes, "settings": self._number_of(pair)}, not (score is None or self.slow > 0.0)
            )
        if score is None:
            return None
        if self.watch(pair) > ROUNDING:
            score = max(score, 1.0 + 1e-6)  # whatever a few runs show
        if self.metric and (score > 1.0 or "given" not in pair.genes):
            before, (score, pair) = pair, self._descend(score, pair)
            if pair is not before and self.watch(pair) > ROUNDING:
                score = max(score, 1.0 + 1e-6)
        worst = min((item[0] for item in self.elite), default=0.0)
        if score < 0.05 or (len(self.elite) >= _ELITE and score <= worst):
            return None
        score = self.look(pair, _SECOND) or 0.0  # on fresh runs: what looked strong by chance does not stay
        self.elite = sorted([*self.elite, (score, pair)], key=lambda item: -item[0])[:_ELITE]
        return self._test(pair) if score > 1.0 else None

    def _descend(self, score: float, pair: Pair) -> tuple[float, Pair]:
        """Towards the jump of the law between two inputs, if there is one: to the half that moves more."""
        best = (score, pair)
        for _ in range(70):
            steps = [
                (self.look(step, _FIRST) or 0.0, step)
                for step in halves(pair, self._claim(pair), self.distance)
            ]
            self.n_pairs += len(steps)
            if not steps or self._over(0.75):
                break
            score, pair = max(steps, key=lambda item: item[0])
            if score > 1.0 and (score >= best[0] or best[0] > 1.0):
                best = (score, pair)
            elif (score < 0.6 and best[0] > 1.0) or score < 0.3:
                break
        return best

    def _test(self, pair: Pair) -> _Tested | None:
        self.settled.add(id(pair))
        tested = self.test(pair)
        return tested if tested is not None and tested.p_value <= 1.0 - self.confidence else None

    def summary(self, found: _Tested | None) -> dict[str, Any]:
        """The fields of a report."""
        shown = found or self.strongest
        pair = None if shown is None else shown.pair
        claim = self.place.claim
        alone = found is not None and claim.unit == "user" and "user_ids" not in found.pair.first.params
        return dict(
            name=self.target.name,
            violated=found is not None,
            first=None if pair is None else pair.first,
            second=None if pair is None else pair.second,
            settings={} if pair is None else dict(pair.settings),
            how="" if pair is None else f"{pair}" + (f"; {pair.settings}" if pair.settings else ""),
            event="" if shown is None else str(shown.event),
            counts=() if shown is None else shown.counts,
            p_value=1.0 if shown is None else shown.p_value,
            epsilon_lower_bound=0.0 if shown is None else shown.bound,
            claimed_epsilon=claim.epsilon if shown is None else shown.claim[0],
            claimed_delta=claim.delta if shown is None else shown.claim[1],
            distance=None if pair is None else pair.distance,
            unit="row" if alone else claim.unit,
            adjacency=claim.adjacency,
            n_pairs=self.n_pairs,
            n_refused=self.n_refused,
            n_tested=self.n_tested,
            one_sided_refusals=tuple(self.one_sided[:20]),
            door_share=None if self.door is None else self.door[0],
            door_pair="" if self.door is None else self.door[1],
            n_watched=self.n_watched,
            confidence=self.confidence,
            seconds=self.spent,
        )
