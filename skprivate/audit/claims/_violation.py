"""Search for neighbouring inputs on which a claimed guarantee fails."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from skprivate._messages import must_be
from skprivate.audit.claims import _bets, _neighbours, _recipes, _runs
from skprivate.audit.claims._neighbours import Pair, Surroundings
from skprivate.audit.claims._runs import Claim, Runs, Subject
from skprivate.privacy import RandomStateLike, public_generator
from skprivate.utils import CheckData, Recording, Replay, excess

Array = npt.NDArray[np.float64]
#: Seeds of the first look at a pair, and of the second.
_FIRST, _SECOND = 4, 12
#: Rows of the first look at a row-wise randomiser; the second has four times as many.
_ROWS = 2_000
#: Of a test: runs of practice, between two looks, and at most; for row-wise randomisers, rows.
_TEST, _TEST_OF_ROWS = (100, 16, 3_000), (8_000, 8_000, 100_000)
#: Runs after which a test ends if its wealth does not grow fast enough, as a multiple of the practice.
_PATIENCE = 3
#: Factor of these numbers for pairs of the caller, who has reasons.
_OWN = 10
#: Pairs that are kept, and tested in the end if nothing else was found.
_KEPT = 3
#: Share of the time that a run on both inputs may take, and up to which such a pair is still replayed.
_SLOW, _TOO_SLOW = 0.004, 0.1
#: Shares of a sensitivity up to here may be the rounding of the shares themselves.
_ROUNDING = 1.0 + 1e-9
_LIMIT = 1e12


@dataclass(frozen=True)
class SearchCounts:
    """Extent of a search.

    Attributes
    ----------
    n_pairs, n_refused, n_tested, n_replayed : int
        Pairs looked at, refused by the subject, tested on fresh runs, and replayed at the release.
    seconds : float
        CPU seconds.
    """

    n_pairs: int
    n_refused: int
    n_tested: int
    n_replayed: int
    seconds: float


@dataclass(frozen=True)
class ViolationReport:
    """Findings of a search for violations.

    Attributes
    ----------
    name : str
        Class of the estimator, or name of the function.
    claim : Claim
        ``epsilon`` (per unit of distance under a metric), ``delta``, ``unit``, ``adjacency``, ``metric``.
    pair : Pair or None
        The neighbouring inputs that refute the claim; the strongest that were tested if none do. It has ``first`` and
        ``second`` (`CheckData`), the ``settings`` of the runs, the ``distance`` under a metric, and prints how it was
        made.
    p_value : float
        Of the claim for this pair, corrected for all tests of the search. 1.0 if nothing was tested.
    epsilon_lower_bound : float
        ε of this pair, at the claimed δ, is at least this; holds with all others of the search.
    confidence : float
    largest_share : float or None
        Largest change of a statistic as a share of its declared sensitivity, over all pairs that were replayed with the
        same results of draws. Above 1 a proof has a gap, whether or not outputs show it; ``inf`` if other draws or
        another result followed. None if nothing passes the package's release.
    share_pair : Pair or None
        The pair that attains it.
    one_sided_refusals : tuple of str
        Pairs of which one input only was refused: a refusal reveals something, too, unless what is refused is public.
    counts : SearchCounts
    """

    name: str
    claim: Claim
    pair: Pair | None = field(repr=False, compare=False)
    p_value: float
    epsilon_lower_bound: float
    confidence: float
    largest_share: float | None
    share_pair: Pair | None = field(repr=False, compare=False)
    one_sided_refusals: tuple[str, ...] = field(repr=False)
    counts: SearchCounts

    @property
    def violated(self) -> bool:
        """True if a pair refutes the claim; for a sound subject with probability at most ``1 − confidence``."""
        return self.p_value <= 1.0 - self.confidence

    @property
    def claimed_epsilon(self) -> float:
        """ε that is claimed for the pair: under a metric, times its distance."""
        return self.claim.at(None if self.pair is None else self.pair.distance).epsilon

    @property
    def claimed_delta(self) -> float:
        """δ that is claimed."""
        return self.claim.delta

    def __str__(self) -> str:
        claim = f"claimed epsilon {self.claimed_epsilon:.4g}"
        claim += f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        claim += f", one {self.claim.unit}, {self.claim.adjacency}"
        n = self.counts
        tried = f"{n.n_pairs} pairs looked at, {n.n_tested} tested, {n.n_refused} refused, {n.n_replayed} replayed, "
        tried += f"{n.seconds:.1f} CPU seconds"
        if self.largest_share is not None:
            tried += f"; at most {self.largest_share:.4g} of a sensitivity"
            tried += f", on: {self.share_pair}" if self.largest_share > _ROUNDING else ""
        if not self.violated:
            return f"{self.name}: no violation found ({claim}; {tried})"
        return (
            f"{self.name}: VIOLATED ({claim}), epsilon >= {self.epsilon_lower_bound:.3g}, p = {self.p_value:.2g}, "
            f"corrected. Pair: {self.pair}. {tried}"
        )


def find_violation(
    estimator: BaseEstimator,
    X: Any = None,
    y: Any = None,
    *,
    fit_params: dict[str, Any] | None = None,
    make_data: object = None,
    pairs: Any = None,
    settings: object = None,
    statistic: object = None,
    distance: object = None,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str | None = None,
    adjacency: str | None = None,
    metric: str | None = None,
    max_seconds: float = 60.0,
    max_pairs: int | None = None,
    confidence: float = 0.999,
    simulate: bool = False,
    random_state: RandomStateLike = None,
) -> ViolationReport:
    """Search for neighbouring inputs on which a claimed guarantee fails.

    Neighbours are built from worst cases for arithmetic and counts, freely combined: values that are subnormal, huge,
    tied, duplicated, collinear or far from zero, one row more, one user with two rows, flipped labels, several outputs.
    Each pair is run a few times with the same simulated noise on both sides, where only the data can make a difference.
    The pairs whose outputs move furthest relative to the noise are kept. Where draws pass this package's release, each
    pair is also replayed with the results of the first input, which shows how far every statistic moves. The strongest
    pairs are tested by bets on fresh runs, as in `audit_estimator` with ``method="black-box"``. Under a metric, the way
    between two rows is halved again and again towards the half where the law moves more, which leads to its jumps.

    Parameters
    ----------
    estimator : estimator or callable
        Anything with ``fit`` and ``epsilon``; or a function ``f(X, y, …)`` of the data (``y`` and the further arguments
        where it has them) that returns what is released. An integer ``random_state`` of it must fix the noise.
    X : array-like of shape (n, n_features) or None, default=None
        Example data that parts of the pairs are taken from; ``None``: artificial data only.
    y : array-like of shape (n,) or None, default=None
        Shows, with X, the kind of a target: floats are numbers, everything else classes.
    fit_params : dict or None, default=None
        Per-row arguments that the subject takes (``user_ids``, ``private``), for functions; of estimators they are read
        off the signature of ``fit``.
    make_data : callable or None, default=None
        ``make_data(rng, n) -> (X, y)``: further data that pairs are made of.
    pairs : iterable or None, default=None
        Neighbouring inputs of your own, which are tested first: ``((X, y, params), (X, y, params))``, with the distance
        as a third entry under a metric. ``X`` may be any object that a function takes. Without a norm's name in the
        metric, and ``distance``, nothing else is looked at.
    settings : dict or list of dict or None, default=None
        Public parameters: arguments of a function; for an estimator, set before each fit. A list is searched through.
        ``None``: the parameters given, and bounds that are narrow, wide or far from zero, switches and options turned.
    statistic : callable or None, default=None
        ``statistic(fitted or value) -> float or array``. ``None``: everything numeric that is released.
    distance : callable or None, default=None
        ``distance(first, second) -> float`` of two inputs, for metric privacy. ``None``: of the row that moves, in the
        norm that the guarantee's metric names.
    epsilon, delta : float or None, default=None
        The claim. ``None``: the guarantee of a run (``privacy_guarantee_`` or ``guarantee``), else the parameters.
        Under a metric: P(A) ≤ exp(``epsilon`` · distance) P(B) + ``delta``.
    unit : {"row", "private row", "user", "label", "data set"} or None, default=None
    adjacency : {"replace-one", "add-remove", "metric"} or None, default=None
        ``None``: from the guarantee, else one row, replace-one. Where rows are protected and user identifiers are
        accepted, one user's rows are searched, too, unless ``unit="row"`` is given.
    metric : str or None, default=None
        With ``adjacency="metric"``: contains "l1", "l2" or "linf".
    max_seconds : float, default=60.0
        CPU time of the search; a run that has begun is finished.
    max_pairs : int or None, default=None
        Stop after this number of pairs: with a ``random_state`` and no noise of its own, the search is reproducible.
    confidence : float, default=0.999
        A sound subject is reported as violated with probability at most ``1 − confidence``.
    simulate : bool, default=False
        Draw seeded noise in the runs that decide, too. The looks before always do, where there is a ``random_state``.
    random_state : int, RandomState or None, default=None
        Public randomness of the search.

    Returns
    -------
    ViolationReport

    Raises
    ------
    ValueError
        If nothing is claimed, neighbours cannot be built for the unit or the metric, or ``pairs`` hold something else,
        a distance that is no finite number, or one where the claim has none.

    See Also
    --------
    audit_estimator : Audits a guarantee on given data.

    Notes
    -----
    Validity rests on the runs that decide being independent, and on nothing else: a fair bit decides the input of each,
    and the k-th test of the search may use 1/k(k+1) of ``1 − confidence``. Randomisers that release in ``transform``
    are assumed to draw rows independently.

    Outputs that were recorded elsewhere are audited by a function that hands out the next one of a side, see the
    example; the audit ends where one side is used up.

    Examples
    --------
    A sum of numbers that are scaled by the largest of them, which one row can change for all others:

    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from skprivate.audit import find_violation
    >>> class ScaledSum(BaseEstimator):
    ...     def __init__(self, epsilon=1.0, random_state=None):
    ...         self.epsilon, self.random_state = epsilon, random_state
    ...     def fit(self, X, y=None):
    ...         rng = np.random.default_rng(self.random_state)
    ...         column = X[:, 0] / max(np.abs(X[:, 0]).max(), 1e-300)
    ...         self.sum_ = column.sum() + rng.laplace(scale=2 / self.epsilon)
    ...         return self
    >>> report = find_violation(ScaledSum(), max_seconds=5, random_state=0)
    >>> report.violated
    True

    A function, on the two inputs that matter. Laplace noise in floating point has holes:

    >>> noise, pair = np.random.default_rng(0), ((0.0,), (1.0,))
    >>> find_violation(lambda x: x + noise.laplace(), pairs=[pair], epsilon=1.0, max_pairs=1, random_state=0).violated
    True

    Recorded outputs of a release with ε = 2, against a claim of 1:

    >>> p = -np.expm1(-2.0)
    >>> outputs = [side + noise.geometric(p, 2000) - noise.geometric(p, 2000) for side in (0, 1)]
    >>> left = [iter(part.tolist()) for part in outputs]
    >>> claim = {"epsilon": 1.0, "pairs": [((0,), (1,))], "max_pairs": 1}
    >>> find_violation(lambda side: next(left[side]), **claim, random_state=0).violated
    True
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(must_be("confidence", "a number in (0, 1)", confidence))
    if not max_seconds > 0.0:
        raise ValueError(must_be("max_seconds", "positive", max_seconds))
    given = {"epsilon": epsilon, "delta": delta, "unit": unit, "adjacency": adjacency, "metric": metric}
    example = CheckData(
        None if X is None else np.asarray(X), None if y is None else np.asarray(y), dict(fit_params or {})
    )
    target = Subject(estimator, statistic, simulate)
    search = Search(
        subject=target,
        given=given,
        distance=distance,
        confidence=confidence,
        max_seconds=max_seconds,
        max_pairs=max_pairs,
        random_state=random_state,
    )
    own = _neighbours.read_pairs(pairs or ())
    search.prepare(example, make_data, settings, own)
    return search.go(own)


class _Tested(NamedTuple):
    """The outcome of a test on fresh runs."""

    pair: Pair
    claim: Claim
    p_value: float
    bound: float


@dataclass
class Search:
    """One search: looks at pairs, keeps the strongest, tests them."""

    subject: Subject
    given: dict[str, Any]
    distance: Any
    confidence: float
    max_seconds: float
    max_pairs: int | None
    random_state: Any

    def __post_init__(self) -> None:
        self.level, self.rng = 1.0 - self.confidence, public_generator(self.random_state)
        self.started = time.process_time()
        self.settings: list[dict[str, Any]] = [{}]
        self.claims: dict[str, Claim | None] = {}
        self.n_pairs = self.n_refused = self.n_tested = self.n_replayed = 0
        self.one_sided: list[str] = []
        self.kept: list[tuple[float, Pair]] = []
        self.strongest: _Tested | None = None
        self.slow = 0.0
        self.share: tuple[float, Pair] | None = None

    # --- what is searched ----------------------------------------------------------------------------------------

    def prepare(self, example: CheckData, make_data: object, settings: Any, own: list[Pair]) -> None:
        """Read the claim and the settings, and choose how pairs are built."""
        if settings is not None:
            self.settings = [dict(settings)] if isinstance(settings, dict) else [dict(s) for s in settings]
        labels, has_target = self.subject.kind_of_target(example)
        users, private = (name in self.subject.accepts or name in example.metadata for name in ("user_ids", "private"))
        # Inputs of the caller come first: some subjects take no others.
        candidates = [pair.first for pair in own[:1]] + [*_runs.plain_inputs(example, labels, has_target)]
        claim = self.subject.claim_of_a_run(candidates, self.settings[0], self.given)
        if claim.unit == "row" and users and self.given["unit"] is None:
            claim = replace(claim, unit="user")  # without identifiers a row is a user: pairs of both kinds
        several = has_target and labels is None and self._takes_several_outputs(candidates)
        self.place = Surroundings(
            claim=claim,
            example=example,
            labels=labels,
            has_target=has_target,
            has_users=users,
            has_private=private,
            several_outputs=several,
            make_data=make_data,
        )
        self.metric = claim.adjacency == "metric"
        if not isinstance(settings, list):
            parameters = {**self.subject.parameters, **self.settings[0]}
            variants = _neighbours.setting_variants(self.subject.subject, parameters, self.metric)
            self.settings = [{**self.settings[0], **variant} for variant in variants]
        bounds = self.subject.parameters.get("bounds")
        if self.metric and bounds is not None:  # distances may be relative to them
            self.settings = [{"bounds": bounds, **each} for each in self.settings]
        self.recipes = None if self.metric else _recipes.Recipes(self.place, self.settings, self.rng)

    def _takes_several_outputs(self, candidates: Iterable[CheckData]) -> bool:
        """Try targets of two columns on plain data: tags say it of some subjects only."""
        for inputs in candidates:
            try:
                two = inputs.y if np.ndim(inputs.y) > 1 else np.column_stack([inputs.y, inputs.y])
                self.subject.run(replace(inputs, y=two), self.settings[0], 0)
            except Exception:  # of one output only, or too few rows
                continue
            return True
        return False

    def _same_kind(self, claim: Claim) -> bool:
        """Check that a claim protects what pairs differ in: some options protect something else."""
        unit = claim.unit
        if unit == "row" and self.place.has_users and self.given["unit"] is None:
            unit = "user"
        return (unit, claim.adjacency) == (self.place.claim.unit, self.place.claim.adjacency)

    def _claim(self, pair: Pair) -> Claim:
        """Read the claim under a pair's settings."""
        key = repr(sorted(pair.settings.items(), key=lambda item: item[0]))
        if key not in self.claims:
            guarantee = self.subject.guarantee(pair.first, pair.settings, self.given)
            self.claims[key] = self.subject.claim(guarantee, pair.settings, self.given)
        return self.claims[key] or self.place.claim

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        return time.process_time() - self.started

    def _over(self, share: float = 1.0) -> bool:
        pairs = self.max_pairs is not None and self.n_pairs >= self.max_pairs
        return pairs or self.spent > share * self.max_seconds

    def _seed(self) -> int:
        return int(self.rng.integers(2**31 - 1))

    def look(self, pair: Pair, n_seeds: int) -> float | None:
        """Compare how far the laws of a pair are apart with the claim, on a few runs; None if refused.

        Above 1 the pair is suspicious; 0 where runs take too long.
        """
        self.slow = 0.0
        try:
            claim = self._claim(pair)
            if not self._same_kind(claim):
                return None
            allowed = allowed_separation(claim.at(pair.distance))
            if self.subject.row_wise:
                n = _ROWS if n_seeds == _FIRST else 4 * _ROWS
                first, second = (
                    self.subject.many_rows(side.X[:1], n, pair.settings, self._seed())
                    for side in (pair.first, pair.second)
                )
                features = _runs.row_features(np.vstack([first, second]), pair.first.X[:1], pair.second.X[:1])
                return separation(features[:n], features[n:], False) / (1.25 * allowed + 0.12)
            runs = self._runs(pair, n_seeds)
        except Exception as error:  # what a subject does not take is no neighbour; the side is noted
            self._refusal(pair, error)
            return None
        if runs is None:
            return 0.0
        values = _runs.numbers_of(runs, _runs.layout_of(runs))
        found = separation(values[0::2], values[1::2], self.subject.seeded)
        return found / (1.25 * allowed + (0.8 if n_seeds > _FIRST else 1.0))

    def _runs(self, pair: Pair, n_seeds: int) -> list[dict[str, Array]] | None:
        """Run both inputs in turn; None where that takes too long, or the change is not seen at all."""
        runs: list[dict[str, Array]] = []
        begun = self.spent
        for seed in [self._seed() for _ in range(n_seeds)]:
            runs += [self.subject.released(side, pair.settings, seed) for side in (pair.first, pair.second)]
            if len(runs) > 2:
                continue
            self.slow = self.spent - begun
            if self.slow > _SLOW * self.max_seconds:
                return None
            self.slow = 0.0
            same = runs[0].keys() == runs[1].keys()
            if self.subject.seeded and same and all(np.array_equal(runs[0][k], runs[1][k]) for k in runs[0]):
                return None
        return runs

    def watch(self, pair: Pair) -> float:
        """Replay a pair at the release: the largest share of a sensitivity, 0 where nothing is drawn there."""
        if not self.subject.seeded or self.slow > _TOO_SLOW * self.max_seconds:
            return 0.0
        seed = self._seed()
        try:
            share = largest_share(
                lambda inputs: self.subject.everything(inputs, pair.settings, seed),
                pair.first,
                pair.second,
                pair.distance,
            )
        except Exception:  # what cannot be replayed is looked at from outside only
            return 0.0
        self.n_replayed += share is not None
        if share is not None and (self.share is None or share > self.share[0]):
            self.share = share, pair
        return share or 0.0

    def _refusal(self, pair: Pair, error: Exception) -> None:
        self.n_refused += 1
        outcomes = []
        for inputs in (pair.first, pair.second):
            try:
                self.subject.run(inputs, pair.settings, 0)
                outcomes.append(True)
            except Exception:
                outcomes.append(False)
        if outcomes[0] != outcomes[1]:
            self.one_sided.append(f"{type(error).__name__} on one input: {pair}")

    # --- testing -------------------------------------------------------------------------------------------------

    def test(self, pair: Pair, patience: int = 1, share: float = 1.0) -> _Tested | None:
        """Bet on fresh runs of a pair until the claim is refuted or the wealth does not grow.

        ``patience`` multiplies the numbers of runs; ``share`` is that of the time that is left.
        """
        claim = self._claim(pair)
        stated = replace(claim, events=()).at(pair.distance)
        if not (0.0 < stated.epsilon < math.inf and math.isfinite(stated.delta)):
            return None
        practice, block, most = _TEST_OF_ROWS if self.subject.row_wise else _TEST
        most, seconds = patience * most, share * max(1.3 * self.max_seconds - self.spent, 0.1)
        runs = Runs(self.subject, self.rng, None, most, seconds)
        sides = pair.first, pair.second
        if self.subject.row_wise:
            sides = CheckData(pair.first.X[:1]), CheckData(pair.second.X[:1])
        game = _bets.Game(runs, runs.sampler(*sides, pair.settings), stated, 1, self.rng)
        self.n_tested += 1
        correction = self.n_tested * (self.n_tested + 1)
        goal = math.log(correction / self.level)
        try:
            game.practise(practice, practice, math.inf)
            while not runs.over() and game.p_value > self.level / correction:
                game.play(block)
                played = runs.made - practice
                expected = game.log_wealth * (most - practice) / played
                if played >= patience * _PATIENCE * practice and expected < goal:
                    break
        except StopIteration:  # recorded outputs are used up
            pass
        except Exception as error:
            self._refusal(pair, error)
        p_value = min(1.0, correction * game.p_value)
        tested = _Tested(pair, claim, p_value, game.epsilon_lower_bound(self.level / correction))
        if self.strongest is None or tested.p_value < self.strongest.p_value:
            self.strongest = tested
        return tested if p_value <= self.level else None

    # --- the search ----------------------------------------------------------------------------------------------

    def go(self, pairs: Iterable[Pair]) -> ViolationReport:
        """Search until a violation is found or the time is over."""
        claim = self.place.claim
        own = [_neighbours.measured(replace(pair, settings=self.settings[0]), claim, self.distance) for pair in pairs]
        builds = not self.metric or self.distance is not None or _neighbours.names_norm(claim.metric)
        if not builds and not own:
            raise ValueError(
                f"The metric {claim.metric!r} names no norm of rows: pass distance= (and pairs= where rows are not "
                "numbers)."
            )
        found: _Tested | None = None
        for k, pair in enumerate(own):
            self.n_pairs += 1
            if found is None:
                self.watch(pair)
                found = self.test(pair, _OWN, 1.0 / (len(own) - k))
        while builds and found is None and not self._over(0.75):
            found = self._try(self._propose())
        for _, pair in self.kept:
            if found is None and self.spent <= self.max_seconds:
                found = self.test(pair)
        return self._report()

    def _propose(self) -> Pair:
        if self.recipes is None:
            k = 0 if self.rng.random() < 0.5 else int(self.rng.integers(len(self.settings)))
            pair = _neighbours.metric_pair(self.place, self.settings[k], self.subject.row_wise, self.rng)
            try:
                claim = self._claim(pair)
            except Exception:  # refused: the look notes it
                claim = self.place.claim
            return _neighbours.with_distance(pair, claim, self.distance)
        return self.recipes.pair()

    def _try(self, pair: Pair) -> _Tested | None:
        self.n_pairs += 1
        score = self.look(pair, _FIRST)
        if score is None:
            return None
        beyond = self.watch(pair) > _ROUNDING
        if self.metric:
            before, (score, pair) = pair, self._descend(score, pair)
            beyond = beyond or (pair is not before and self.watch(pair) > _ROUNDING)
        if beyond:
            score = max(score, 1.0 + 1e-6)  # whatever a few runs show
        if score < max([0.05, *(kept for kept, _ in self.kept[_KEPT - 1 :])]):
            return None
        score = self.look(pair, _SECOND) or 0.0  # on fresh runs: what looked strong by chance does not stay
        if score > 1.0:
            return self.test(pair)
        self.kept = sorted([*self.kept, (score, pair)], key=lambda item: -item[0])[:_KEPT]
        return None

    def _descend(self, score: float, pair: Pair) -> tuple[float, Pair]:
        """Halve the way between two inputs towards a jump of the law, to the half that moves more."""
        best = (score, pair)
        for _ in range(70):
            steps = [
                (self.look(step, _FIRST) or 0.0, step)
                for step in _neighbours.halves(pair, self._claim(pair), self.distance)
            ]
            self.n_pairs += len(steps)
            if not steps or self._over(0.75):
                break
            score, pair = max(steps, key=lambda item: item[0])
            if score > 1.0 and (score >= best[0] or best[0] > 1.0):
                best = (score, pair)
            elif score < (0.1 if self.subject.row_wise else 0.3) or (
                score < 0.6 and (best[0] > 1.0 or allowed_separation(self._claim(pair).at(pair.distance)) < 0.02)
            ):
                break  # nothing moves, or no more is to be gained from a smaller claim
        return best

    def _report(self) -> ViolationReport:
        shown = self.strongest
        claim = self.place.claim if shown is None else shown.claim
        if shown is not None and self.place.claim.unit == "user" and claim.unit == "row":
            named = "user_ids" in shown.pair.first.metadata
            claim = replace(claim, unit="user" if named else "row")
        return ViolationReport(
            name=self.subject.name,
            claim=claim,
            pair=None if shown is None else shown.pair,
            p_value=1.0 if shown is None else shown.p_value,
            epsilon_lower_bound=0.0 if shown is None else shown.bound,
            confidence=self.confidence,
            largest_share=None if self.share is None else self.share[0],
            share_pair=None if self.share is None else self.share[1],
            one_sided_refusals=tuple(self.one_sided[:20]),
            counts=SearchCounts(self.n_pairs, self.n_refused, self.n_tested, self.n_replayed, self.spent),
        )


# --- distances -----------------------------------------------------------------------------------------------------


def largest_share(run: Any, first: Any, second: Any, distance: float | None) -> float | None:
    """Replay a fit on a second input: the largest move of a statistic as a share of its sensitivity, exactly.

    ``inf`` if the second input leads to other draws, or to another result of the same draws. None if nothing is drawn
    through a release.
    """
    recording = Recording(run, first)
    if not recording.draws:
        return None
    again = Replay(recording, run, second)
    if again.faults():
        return math.inf
    return max(excess(one, other, distance)[0] for one, other in zip(recording.draws, again.draws, strict=True))


def allowed_separation(claim: Claim) -> float:
    """Find the distance of two unit normal laws with the largest total variation that (ε, δ) allows."""
    total = min(math.tanh(claim.epsilon / 2.0) + claim.delta, 1.0 - 1e-15)
    return float(2.0 * ndtri((1.0 + total) / 2.0))


# Outputs may be as large as floats: an infinite spread shows nothing.
@np.errstate(over="ignore", invalid="ignore")
def separation(first: Array, second: Array, paired: bool) -> float:
    """Estimate how many standard deviations two laws are apart, cross-fitted on a handful of runs.

    Directions are learned on half of the runs and read on the other half, both ways. Rows belong together if
    ``paired``: then noise cancels. ``inf``-like where something moves and nothing is noisy.
    """
    n = min(len(first), len(second))
    first, second = first[:n], second[:n]
    both = np.vstack([first, second])
    within = np.hypot(first.std(axis=0), second.std(axis=0)) / math.sqrt(2.0)
    gap = np.abs(np.median(second, axis=0) - np.median(first, axis=0))
    # Where nothing is noisy, whatever moves moves infinitely far; it is bounded so that sums remain finite.
    scale = np.where(within > 0.0, within, np.where(gap > 0.0, gap / _LIMIT, 1.0))
    a, b = (np.clip((side - np.median(both, axis=0)) / scale, -_LIMIT, _LIMIT) for side in (first, second))
    even = np.arange(n) % 2 == 0
    scores: dict[str, list[float]] = {}
    for half in (even, ~even):
        for name, weights in _directions(a[half], b[half], scale, paired):
            s, t = a[~half] @ weights, b[~half] @ weights
            # A few runs say little of a spread: it is hardly below what independent coordinates would have.
            alone = 0.7 * float(np.sqrt(np.sum((weights * (within > 0.0)) ** 2)))
            spread = math.sqrt((s.var(ddof=1) + t.var(ddof=1)) / 2.0) if len(s) > 1 else 0.0
            scores.setdefault(name, []).append(float(t.mean() - s.mean()) / max(spread, alone, 1e-12))
    # Seen in both halves, and by the smaller of both: what a single run shows is chance.
    return max([min(values) for values in scores.values() if len(values) == 2] + [0.0])


def _directions(a: Array, b: Array, scale: Array, paired: bool) -> list[tuple[str, Array]]:
    """Learn directions in which two laws differ: of the median and mean move, and the strongest coordinates."""
    mean = (b - a).mean(axis=0)
    move = np.median(b - a, axis=0) if paired else np.median(b, axis=0) - np.median(a, axis=0)
    # By likelihood, and along the move itself.
    moves = {"median": move, "median along": move * scale, "mean": mean, "mean along": mean * scale}
    sizes = {label: float(np.abs(weights).max(initial=0.0)) for label, weights in moves.items()}
    found = [(label, weights / sizes[label]) for label, weights in moves.items() if 0.0 < sizes[label] < math.inf]
    for rank, k in enumerate(np.argsort(-np.abs(mean), kind="stable")[:4]):
        if mean[k] != 0.0:
            found.append((f"strongest {rank}", np.sign(mean[k]) * np.eye(1, mean.size, int(k))[0]))
    return found
