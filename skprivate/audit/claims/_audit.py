"""Audit the claim of an estimator: by replay at its release, or as a black box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skprivate._messages import at_least, must_be, number, positive
from skprivate.audit.claims import _bets, _neighbours, _replay
from skprivate.audit.claims._runs import Claim, Runs, Subject
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit, RandomStateLike, public_generator
from skprivate.utils import CheckData, Neighbour, Recording, Replay, changes, evenly

#: Runs of a pair from which is learned before the first bet, at least and at most, and runs between two looks.
_PRACTICE, _BLOCK = (20, 64), 8
#: Share of the time and of the runs after which practice ends.
_PRACTICE_SHARE = 0.4
#: Factor by which bets on a later pair must seem to grow faster: practice is short, and groups come first.
_CLEARLY = 1.3
#: Confidence of a replay and of a black box where none is asked for.
_CONFIDENCE = {"replay": 1.0 - 1e-6, "black-box": 0.95}


@dataclass(frozen=True)
class BlackBoxEvidence:
    """Findings of an audit by runs.

    Attributes
    ----------
    family : {"pure", "approximate", "gaussian"}
        Mechanisms for which the lower bound on ε holds: all of (ε, 0); all of (ε, δ); those whose privacy curve is
        Gaussian, if the guarantee lists Gaussian events. The p-value does not rest on it: it tests the claim itself,
        (ε, δ) and the curve of its events.
    n_units : int
        Units that the two inputs differ in; above 1 the claim for a group is tested, which follows from that for one.
    n_runs : int
        All fits, those of practice included.
    seconds : float
        Processor time (with ``n_jobs``: time).
    own_guarantee : bool
        False if the claim is a guarantee that was passed: the data that it was made on may be others.
    """

    family: str
    n_units: int
    n_runs: int
    seconds: float
    own_guarantee: bool = True
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        units = "one unit" if self.n_units == 1 else f"{self.n_units} units"
        among = " as Gaussian noise" if self.family == "gaussian" else ""
        return f"  {self.n_runs} fits on two inputs that differ in {units}, {self.seconds:.2g} s{among}"


@dataclass(frozen=True)
class EstimatorAudit:
    """A claimed guarantee beside the findings of an audit.

    Attributes
    ----------
    name : str
        Class of the estimator.
    claimed_epsilon, claimed_delta : float
        The claim. Under a metric, ε per unit of distance for a replay, and times the distance of the pair for a black
        box.
    unit, adjacency : str
    method : {"replay", "black-box"}
    epsilon_lower_bound : float
        "replay": ε, at the claimed δ, that the worst neighbour attains over all results if draws have their declared
        laws; no statistics enter. "black-box": true ε, at the claimed δ, is at least this with probability
        ``confidence``.
    p_value : float
        "replay": of the declared laws of the draws, all tests together. "black-box": of the claim, at any time.
    confidence : float
        A sound estimator is refuted with probability at most ``1 − confidence``.
    evidence : ReplayEvidence or BlackBoxEvidence
        ``evidence.failures`` lists all that a replay found wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean, audit_estimator
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> audit = audit_estimator(UserLevelMean(epsilon=1.0, delta=1e-6, tau=1.0), X, random_state=0)
    >>> audit.violated, audit.method, audit.unit
    (False, 'replay', 'row')
    """

    name: str
    claimed_epsilon: float
    claimed_delta: float
    unit: str
    adjacency: str
    method: str
    epsilon_lower_bound: float
    p_value: float
    confidence: float
    evidence: _replay.ReplayEvidence | BlackBoxEvidence = field(repr=False)

    @property
    def violated(self) -> bool:
        """True if the claim is refuted."""
        if self.method == "replay":
            return bool(self.evidence.failures)
        return self.p_value <= 1.0 - self.confidence

    def __str__(self) -> str:
        delta = f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        found = "attains epsilon" if self.method == "replay" else "epsilon >="
        verdict = "VIOLATED" if self.violated else "not refuted"
        caution = "\n  caution: the guarantee was passed; the data that it was made on may be others"
        return (
            f"{self.name}: claimed epsilon {self.claimed_epsilon:.4g}{delta} for one {self.unit} ({self.adjacency}): "
            f"{verdict}\n  {self.method}: {found} {self.epsilon_lower_bound:.4g}, p = {self.p_value:.2g}, confidence "
            f"{self.confidence:.7g}\n{self.evidence}{'' if self.evidence.own_guarantee else caution}"
        )


def audit_estimator(
    estimator: BaseEstimator,
    X: Any,
    y: Any = None,
    *,
    method: str = "auto",
    neighbours: object = None,
    distance: float | None = None,
    fit_params: dict[str, Any] | None = None,
    guarantee: PrivacyGuarantee | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str | None = None,
    adjacency: str | None = None,
    observable: object = None,
    n_neighbours: int = 20,
    n_runs: int = 1000,
    max_seconds: float | None = None,
    confidence: float | None = None,
    simulate: bool = False,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> EstimatorAudit:
    """Audit the claimed guarantee of an estimator.

    ``"replay"`` is exact, and costs a few fits. The fit is recorded, and repeated on neighbouring data with the
    recorded results in the place of draws. It must then make the same draws at the same cost, all of them charged, and
    end in the same state. Only the statistics may differ, each by no more than its sensitivity, and their losses
    together must not exceed the claim. The draws are then repeated, and compared with the laws that follow from their
    events: size, variance, centre, whole law, independence.

    ``"black-box"`` looks at what is released, and needs some hundred fits. A fair bit decides which of two neighbouring
    inputs is fitted. From what a fit releases the auditor forecasts the bit, bets on it against the claim, and learns.
    If the claim is true, the wealth of the bets exceeds ``1 / (1 − confidence)`` at any time with probability at most
    ``1 − confidence`` (an e-value), so the audit stops as soon as the claim is refuted.

    The fits are simulations that nobody may see. They charge no ledger.

    Parameters
    ----------
    estimator : estimator
        Any object with ``fit`` and ``get_params``: of this package, or diffprivlib-like with a parameter ``epsilon``.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or None
        Data of the kind that is fitted; they need not be real.
    method : {"auto", "replay", "black-box"}, default="auto"
        "auto": the replay if draws pass the package's release and fits on the same data are equal, else the black box.
    neighbours : (X, y), (X, y, fit_params) or a list of them, default=None
        Data that differ in one unit. ``None``: built from X and y as the guarantee allows, worst cases first. Under a
        metric the black box needs them.
    distance : float or None, default=None
        Distance of X and ``neighbours``: needed with them under metric adjacency, refused elsewhere.
    fit_params : dict or None, default=None
        Further arguments of ``fit``; arrays of length n are per row (``private``, ``user_ids``).
    guarantee : PrivacyGuarantee or None, default=None
        The claim. ``None``: ``privacy_guarantee_`` of a fit. One of a fit on other data is compared with what the draws
        of this fit attain, not with what it states. If it lists its events, the black box tests their whole
        privacy curve δ(ε), which finds Gaussian noise that is too small long before ε at a tiny δ does.
    epsilon, delta : float or None, default=None
        The claim in numbers, in place of those of the guarantee or of the parameters ``epsilon`` and ``delta``.
    unit : {"row", "private row", "user", "label"} or None, default=None
    adjacency : {"replace-one", "add-remove", "metric"} or None, default=None
        ``None``: from the guarantee, else one row, replace-one.
    observable : callable or None, default=None
        "black-box": ``observable(fitted) -> float or array``. ``None``: public fitted attributes, all numbers that they
        hold, and predictions.
    n_neighbours : int, default=20
        "replay": changes of values that are tried where ``neighbours`` is None.
    n_runs : int, default=1000
        "black-box": largest number of fits.
    max_seconds : float or None, default=None
        "black-box": largest processor time (with ``n_jobs``: time).
    confidence : float or None, default=None
        A sound estimator is refuted with probability at most ``1 − confidence``. ``None``: 1 − 10⁻⁶ for the replay,
        whose draws are cheap; 0.95 for the black box.
    simulate : bool, default=False
        "black-box": fit with integer seeds (fast simulated noise), not with secure noise.
    random_state : int, RandomState or None, default=None
        Public randomness of the audit. ``None``: the replay repeats draws from the operating system's entropy, as
        releases do.
    n_jobs : int or None, default=None
        "black-box": processes.

    Returns
    -------
    EstimatorAudit

    Raises
    ------
    ValueError
        If there is no claim to audit, nothing is drawn through a release or fits on the same data differ
        (``"replay"``), no neighbour can be built, ``guarantee`` protects something else than the fit, or a parameter is
        out of range or at odds with the claim.

    See Also
    --------
    find_violation : Searches inputs that break a guarantee.
    check_privacy : Runs all common privacy checks.
    audit_page : Writes the findings as a page.

    Notes
    -----
    A claim that is not refuted is not proven: an audit sees a few inputs. The replay does not see noise that is drawn
    elsewhere, nor what leaves by no draw; the black box does not see faults that its inputs do not bring out.

    References
    ----------
    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024, for e-values by bets.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from skprivate.audit import audit_estimator
    >>> class GeometricCount(BaseEstimator):
    ...     def __init__(self, epsilon=1.0, share=1.0, random_state=None):
    ...         self.epsilon, self.share, self.random_state = epsilon, share, random_state
    ...     def fit(self, X, y=None):
    ...         rng, p = np.random.default_rng(self.random_state), -np.expm1(-self.epsilon / self.share)
    ...         self.count_ = int((X > 0.5).sum() + rng.geometric(p) - rng.geometric(p))
    ...         return self
    >>> X = np.linspace(0.0, 1.0, 10)[:, None]
    >>> audit_estimator(GeometricCount(), X, simulate=True, random_state=0).violated
    False
    >>> audit_estimator(GeometricCount(share=0.5), X, simulate=True, random_state=0).violated  # half the noise
    True
    """
    _check_options(method, observable, distance)
    _check_numbers(n_neighbours, n_runs, max_seconds, confidence)
    rng = public_generator(random_state)
    data = CheckData(_array(X), None if y is None else np.asarray(y), dict(fit_params or {}))
    subject, seed = Subject(estimator, observable, simulate), int(rng.integers(2**31 - 1))
    run = partial(subject.everything, settings={}, seed=seed)
    recording = _recorded(subject, run, data, method)
    method = "black-box" if recording is None else "replay"
    overrides = {"epsilon": epsilon, "delta": delta, "unit": unit, "adjacency": adjacency}
    stated = subject.guarantee(data, {}, overrides if recording is None else dict.fromkeys(overrides), seed)
    source, claim = _stated_claim(subject, guarantee, stated, overrides)
    given = _given(neighbours, data, claim, distance)
    sure = _CONFIDENCE[method] if confidence is None else float(confidence)
    own = guarantee is None or epsilon is not None
    evidence: _replay.ReplayEvidence | BlackBoxEvidence
    if recording is None:
        claim = replace(claim, events=() if getattr(source, "adaptive", False) else claim.events).at(distance)
        runs = Runs(subject, rng, n_jobs, n_runs, max_seconds)
        bound, p_value, evidence = _audit_by_bets(runs, data, given, claim, 1.0 - sure, rng)
    else:
        given = given or _built(estimator, data, _relation(claim, source), n_neighbours, rng)
        secure = random_state is None
        bound, p_value, evidence = _replay.audit_by_replay(
            run, data, recording, given, claim, stated, own=own, level=1.0 - sure, secure=secure, rng=rng
        )
    return EstimatorAudit(
        name=subject.name,
        claimed_epsilon=claim.epsilon,
        claimed_delta=claim.delta,
        unit=claim.unit,
        adjacency=claim.adjacency,
        method=method,
        epsilon_lower_bound=bound,
        p_value=p_value,
        confidence=sure,
        evidence=replace(evidence, own_guarantee=own),
    )


def _check_options(method: object, observable: object, distance: object) -> None:
    if method not in ("auto", "replay", "black-box"):
        raise ValueError(must_be("method", "'auto', 'replay' or 'black-box'", method))
    if observable is not None and not callable(observable):
        raise ValueError(must_be("observable", "a callable or None", observable))
    if observable is not None and method == "replay":
        raise ValueError(must_be("observable", "None for the replay, which looks at all draws", observable))
    if distance is not None:
        positive("distance", distance)


def _check_numbers(n_neighbours: object, n_runs: object, seconds: Any, confidence: object) -> None:
    at_least("n_neighbours", n_neighbours, 1)
    at_least("n_runs", n_runs, _PRACTICE[0])
    if seconds is not None and not seconds > 0.0:
        raise ValueError(must_be("max_seconds", "positive or None", seconds))
    if confidence is not None:
        number("confidence", confidence, "a number in (0, 1)", lambda value: 0 < value < 1)


def _recorded(subject: Subject, run: Any, data: CheckData, method: str) -> Recording | None:
    """Record a fit for the replay; None for the black box."""
    if method == "black-box" or (method == "auto" and subject.statistic is not None):
        return None
    recording, wrong = Recording(run, data), ""
    if not recording.draws:
        wrong = "draws nothing through a release"
    elif Replay(recording, run, data).faults():  # times, randomness of its own
        wrong = "differs from fit to fit on the same data"
    if wrong and method == "replay":
        raise ValueError(f"{subject.name} {wrong}: use method='black-box'.")
    return None if wrong else recording


def _stated_claim(
    subject: Subject, guarantee: PrivacyGuarantee | None, stated: Any, overrides: dict[str, Any]
) -> tuple[Any, Claim]:
    """Choose the guarantee that makes the claim, and read a claim with a positive finite ε.

    A replay compares draws with what its own fit has ``stated``, whoever makes the claim.
    """
    source = _source(guarantee, stated, overrides)
    claim = subject.claim(source, {}, overrides)
    if claim is None or not 0.0 < claim.epsilon < math.inf:
        raise ValueError(
            f"{subject.name} claims nothing: it has neither privacy_guarantee_ after fit nor a parameter epsilon. Pass "
            "epsilon= to audit a claim."
        )
    return source, claim


def _source(guarantee: PrivacyGuarantee | None, stated: Any, overrides: dict[str, Any]) -> Any:
    """Choose the guarantee that makes the claim; refuse one of a fit that protects something else than this one."""
    if guarantee is None or stated is None or overrides["unit"] is not None or overrides["adjacency"] is not None:
        return stated if guarantee is None else guarantee
    if (guarantee.unit, guarantee.adjacency) != (stated.unit, stated.adjacency):
        got = f"one {guarantee.unit} ({guarantee.adjacency})"
        advice = "Pass the arguments of that fit (fit_params), or unit= and adjacency= for a claim of your own."
        raise ValueError(must_be("guarantee", f"for one {stated.unit} ({stated.adjacency}) as this fit", got, advice))
    return guarantee


def _array(X: Any) -> Any:
    return X if hasattr(X, "iloc") else np.asarray(X)


def _relation(claim: Claim, stated: PrivacyGuarantee | None) -> PrivacyGuarantee:
    """Find the guarantee whose neighbours the claim is about."""
    if stated is not None and (str(stated.unit), str(stated.adjacency)) == (claim.unit, claim.adjacency):
        return stated
    metric = claim.metric or "as given" if claim.adjacency == "metric" else None
    unit, adjacency = PrivacyUnit(claim.unit), Adjacency(claim.adjacency)
    return PrivacyGuarantee(claim.epsilon, claim.delta, unit, adjacency, metric=metric)


def _given(neighbours: Any, data: CheckData, claim: Claim, distance: float | None) -> list[Neighbour]:
    """Read the neighbours that were given."""
    if (claim.adjacency == "metric" and neighbours is not None) != (distance is not None):
        allowed = "given with neighbours under adjacency 'metric', and nowhere else"
        raise ValueError(must_be("distance", allowed, distance, f"This adjacency is {claim.adjacency}."))
    if neighbours is None:
        return []
    single = isinstance(neighbours, tuple) and len(neighbours) in (2, 3)
    every: Sequence[Any] = [neighbours] if single else list(neighbours)
    if not every:
        raise ValueError(must_be("neighbours", "at least one pair (X, y)", neighbours))
    found = []
    for k, item in enumerate(every):
        X, y, params = item if len(item) == 3 else (*item, data.metadata)
        inputs = CheckData(_array(X), None if y is None else np.asarray(y), params)
        found.append(Neighbour(f"neighbour {k}", inputs, distance))
    return found


def _built(
    estimator: BaseEstimator, data: CheckData, relation: PrivacyGuarantee, n_neighbours: int, rng: np.random.Generator
) -> list[Neighbour]:
    """Change single units of numeric data as the guarantee allows, worst cases first."""
    if not isinstance(data.X, np.ndarray):
        raise ValueError(must_be("neighbours", "given where X is no array of numbers", None))
    steps = evenly(changes(estimator, data, relation, rng, 1), n_neighbours)
    return [Neighbour(step.name, step.apply(data), step.distance) for step in steps]


def _audit_by_bets(
    runs: Runs, data: CheckData, given: list[Neighbour], claim: Claim, level: float, rng: np.random.Generator
) -> tuple[float, float, BlackBoxEvidence]:
    """Bet on the pair that seems to show most: the lower bound on ε, the p-value, the evidence."""
    groups = {1: [(data, other.data) for other in given]}
    if not given:
        if claim.adjacency == "metric":
            raise ValueError(must_be("neighbours", "given under adjacency 'metric', with their distance", None))
        size = _neighbours.group_size(data, claim.unit, _bets.units_apart(claim))
        groups = {n: _neighbours.opposite_pairs(data, claim.unit, claim.adjacency, n) for n in (size, 1)}
    best, failures = None, []
    growth = -math.inf
    for n_units, pairs_of_size in groups.items():
        if growth > 0.0:
            break
        for k, pair in enumerate(pairs_of_size):
            waiting = len(pairs_of_size) - k
            seconds = runs.left(_PRACTICE_SHARE) / waiting
            allowed = (_PRACTICE_SHARE * runs.n_runs - runs.made) / waiting
            if best is not None and min(seconds, allowed) <= 0.0:
                break  # the later ones are not known to be better
            sample = runs.sampler(*pair, {}, _neighbours.probes_of(pair[1]))
            game = _bets.Game(runs, sample, claim, n_units, rng)
            fewest, most = _PRACTICE
            n = int(max(_BLOCK, min(most, max(fewest, runs.n_runs // 10), allowed)))
            try:
                found = game.practise(n, _BLOCK if runs.alone else n, seconds)
            except ValueError as failure:  # not a valid input, as a class without rows
                failures.append(failure)
                continue
            if best is None or found > _CLEARLY * max(growth, 0.0):
                best, growth = game, found
    if best is None:
        message = "No pair of inputs is valid for this estimator; pass neighbours= explicitly."
        raise ValueError(message) from (failures[-1] if failures else None)
    while not runs.over() and best.p_value > level:
        best.play(min(_BLOCK * (1 if runs.alone else 8), int(runs.n_runs - runs.made)))
    evidence = BlackBoxEvidence(claim.family, best.n_units, runs.made, runs.seconds())
    return best.epsilon_lower_bound(level), best.p_value, evidence
