"""Test a claimed guarantee by fitting on neighbouring inputs many times."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skprivate._sklearn import _num_samples
from skprivate.audit._canaries import FitInput, canary_pairs
from skprivate.audit._epsilon import (
    _choose_guesses,
    _choose_profile_point,
    _delta_at,
    _guesses_from_shares,
    _one_run_bound,
)
from skprivate.audit._released import as_numbers, distinguishing_scores, released_values, stack_released
from skprivate.privacy import compose_delta, public_generator

__all__ = ["EstimatorAudit", "audit_estimator"]


@dataclass(frozen=True)
class EstimatorAudit:
    """A claimed guarantee next to what repeated fits show.

    Attributes
    ----------
    name : str
        Class of the estimator.
    claimed_epsilon, claimed_delta : float
        The claim for one pair of neighbours (under a metric, ε times their distance).
    epsilon_lower_bound : float
        True ε, at the claimed δ, is at least this.
    violated : bool
        Whether this exceeds the claim, or ``delta_lower_bound`` exceeds ``profile_delta``. Either happens for
        a sound estimator with probability at most ``1 − confidence`` in all.
    profile_epsilon, profile_delta, delta_lower_bound : float or None
        A further point of the claim, if the guarantee lists its events: at this ε the events allow this δ,
        and the audit shows that δ is at least so much. None without events.
    unit, adjacency : str
    n_runs : int
        Fits on each of the two inputs.
    confidence : float
    scores, membership : ndarray
        The scalar statistic of the runs that decided, and their side.
    """

    name: str
    claimed_epsilon: float
    claimed_delta: float
    epsilon_lower_bound: float
    violated: bool
    profile_epsilon: float | None
    profile_delta: float | None
    delta_lower_bound: float | None
    unit: str
    adjacency: str
    n_runs: int
    confidence: float
    scores: npt.NDArray[np.float64] = field(repr=False, compare=False)
    membership: npt.NDArray[np.bool_] = field(repr=False, compare=False)

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        delta = f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        return (
            f"{self.name}: claimed epsilon {self.claimed_epsilon:.4g}{delta} for one {self.unit} "
            f"({self.adjacency}); audited epsilon >= {self.epsilon_lower_bound:.3g} at confidence "
            f"{self.confidence:g}, {self.n_runs} fits a side: {verdict}{self._profile_in_words()}"
        )

    def _profile_in_words(self) -> str:
        if self.delta_lower_bound is None or not self.delta_lower_bound > self.profile_delta:
            return ""
        found, claimed = self.delta_lower_bound, self.profile_delta
        return f" (at epsilon {self.profile_epsilon:.3g}: delta >= {found:.3g}, claimed {claimed:.3g})"


def audit_estimator(
    estimator,
    X,
    y=None,
    *,
    neighbour=None,
    guarantee=None,
    epsilon=None,
    delta=None,
    unit=None,
    adjacency=None,
    distance=1.0,
    statistic=None,
    fit_params=None,
    n_runs=500,
    confidence=0.95,
    simulate=False,
    random_state=None,
    n_jobs=None,
):
    """Audit the claimed ε of an estimator by repeated fits on two neighbouring inputs.

    The estimator is fitted ``n_runs`` times on each of two inputs that differ in one unit of its guarantee.
    On half of the runs a scalar statistic of everything it reveals and a threshold are chosen; on the other
    half, exact binomial bounds for the two error rates give a lower bound on ε. A sound estimator is reported
    as violated with probability at most ``1 − confidence``; an estimator that is not is found as far as the
    canary and the number of runs allow.

    Parameters
    ----------
    estimator : estimator
        Any object with ``fit`` and ``get_params``: of this package, or diffprivlib-like with a parameter
        ``epsilon``.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or None
    neighbour : (X, y) or (X, y, fit_params) or None, default=None
        The second input. ``None``: built from the unit, with one canary unit at the extremes of the data, the
        most visible of a few candidates on pilot runs.
    guarantee : PrivacyGuarantee or None, default=None
        The claim. If it lists its events, its whole privacy profile δ(ε) is tested at one point chosen on the
        calibrating runs, which finds Gaussian noise that is too small long before ε at a tiny δ does; half of
        the failure probability goes there.
    epsilon, delta : float or None, default=None
        The claim in numbers. ``None``: ``privacy_guarantee_`` of a fit, else the parameters ``epsilon`` and
        ``delta`` (0 if absent).
    unit : {"row", "private row", "user", "label"} or None, default=None
    adjacency : {"replace-one", "add-remove"} or None, default=None
        ``None``: from ``privacy_guarantee_``, else one row, replace-one.
    distance : float, default=1.0
        Distance of the two inputs under a metric guarantee; the claim is ``epsilon · distance``.
    statistic : callable or None, default=None
        ``statistic(fitted) -> float or array``; what the auditor looks at. ``None``: all public numeric
        fitted attributes and the predictions at the rows that differ and a few others.
    fit_params : dict or None, default=None
        Further arguments of ``fit``; arrays of length n are per row (``private``, ``user_ids``).
    n_runs : int, default=500
        Fits on each side. With 500 the largest bound that can be shown is about 4.4.
    confidence : float, default=0.95
    simulate : bool, default=False
        Fit with integer seeds (fast simulated noise) in place of the secure noise of ``random_state=None``.
    random_state : int, RandomState or None, default=None
        Public randomness of the audit: seeds of simulated fits and the split of the runs.
    n_jobs : int or None, default=None

    Returns
    -------
    EstimatorAudit

    Raises
    ------
    ValueError
        If there is no claim to audit or no neighbour can be built.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from skprivate.audit import audit_estimator
    >>> class LaplaceSum(BaseEstimator):
    ...     def __init__(self, epsilon=1.0, scale=1.0, random_state=None):
    ...         self.epsilon, self.scale, self.random_state = epsilon, scale, random_state
    ...     def fit(self, X, y=None):
    ...         rng = np.random.default_rng(self.random_state)
    ...         self.total_ = X.sum() + rng.laplace(scale=self.scale / self.epsilon)
    ...         return self
    >>> X = np.linspace(0.0, 1.0, 10)[:, None]
    >>> audit_estimator(LaplaceSum(), X, random_state=0).violated
    False
    >>> audit_estimator(LaplaceSum(scale=0.5), X, random_state=0).violated  # half the noise
    True
    """
    if n_runs < 20:
        raise ValueError(f"n_runs must be at least 20; got {n_runs!r}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence!r}.")
    if not distance > 0.0:
        raise ValueError(f"distance must be positive; got {distance!r}.")
    rng = public_generator(random_state)
    data = FitInput(X, None if y is None else np.asarray(y), dict(fit_params or {}))
    runner = _Runner(estimator, statistic, simulate, rng, n_jobs)
    claim = _read_claim(runner, data, guarantee, epsilon, delta, unit, adjacency)
    pair = _choose_pair(runner, data, neighbour, claim, n_runs, rng)
    # A fair coin for each run: then every right guess is a draw of probability at most e^ε/(1 + e^ε).
    member = rng.random(2 * n_runs) < 0.5
    values = runner.fit_many(pair, member, _probe_rows(*pair))
    calibrates = np.arange(2 * n_runs) < n_runs
    values = stack_released(values, calibrates)
    claimed = float(claim["epsilon"]) * float(distance)
    alpha = 1.0 - confidence
    views = distinguishing_scores(values[calibrates], member[calibrates], values[~calibrates], rng)
    sides = member[calibrates], member[~calibrates]
    profile = _claimed_profile(claim)
    if profile:
        alpha /= 2.0
    point, delta_bound = _held_out_profile(views, *sides, profile, alpha) if profile else (None, None)
    bound, scores = _held_out_bound(views, *sides, claim["delta"], alpha)
    return EstimatorAudit(
        name=type(estimator).__name__,
        claimed_epsilon=claimed,
        claimed_delta=claim["delta"],
        epsilon_lower_bound=bound,
        violated=bound > claimed or (point is not None and delta_bound > point.delta),
        profile_epsilon=None if point is None else point.epsilon,
        profile_delta=None if point is None else point.delta,
        delta_lower_bound=delta_bound,
        unit=claim["unit"],
        adjacency=claim["adjacency"],
        n_runs=n_runs,
        confidence=confidence,
        scores=scores,
        membership=sides[1],
    )


def _claimed_profile(claim):
    """Points (ε, δ(ε)) that the events of the guarantee promise."""
    if not claim["events"]:
        return []
    grid = sorted({0.0, *(float(claim["epsilon"]) * share for share in (0.1, 0.25, 0.5, 0.75))})
    return [(epsilon, compose_delta(claim["events"], epsilon)) for epsilon in grid]


def _held_out_profile(views, known, tested, profile, alpha):
    """The most telling point of the profile on the calibrating runs; the bound on δ there on the others."""
    best = None
    for on_known, on_test in views:
        excess, point = _choose_profile_point(on_known, known, profile, 1e-3)
        if best is None or excess > best[0]:
            best = excess, point, on_test
    _, point, scores = best
    return point, _delta_at(scores, tested, point, alpha)


def _held_out_bound(views, known, tested, delta, alpha):
    """Statistic and numbers of guesses on the calibrating runs; the bound on ε on the others."""
    best = None
    for on_known, on_test in views:
        # A strict level while choosing: it prefers statistics and numbers of guesses that rest on many runs.
        *shares, expected = _choose_guesses(on_known, known, 1e-6)
        if best is None or expected > best[0]:
            best = expected, on_test, shares
    _, scores, shares = best
    guesses = _guesses_from_shares(shares, scores.size)
    return _one_run_bound(scores, tested, guesses, delta, alpha, "one-run", "approximate"), scores


class _Runner:
    """Fits clones of one estimator with fresh noise."""

    def __init__(self, estimator, statistic, simulate, rng, n_jobs):
        self.estimator, self.statistic, self.simulate = estimator, statistic, simulate
        self.rng, self.n_jobs = rng, n_jobs

    def fit_one(self, data):
        return _fit(self.estimator, data, self._seed())

    def fit_many(self, pair, member, probes):
        """What fits on one or the other input reveal, one dictionary a run."""
        seeds = [self._seed() for _ in member]
        return Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_look)(self.estimator, pair[int(side)], seed, self.statistic, probes)
            for side, seed in zip(member, seeds, strict=True)
        )

    def _seed(self):
        return int(self.rng.integers(2**31 - 1)) if self.simulate else None


def _fit(estimator, data, seed):
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)  # a fixed seed would make all runs alike
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same warning a thousand times tells nothing
        return (
            model.fit(data.X, **data.params) if data.y is None else model.fit(data.X, data.y, **data.params)
        )


def _fit_and_look(estimator, data, seed, statistic, probes):
    model = _fit(estimator, data, seed)
    if statistic is None:
        return released_values(model, probes)
    numbers = as_numbers(statistic(model))
    if numbers is None:
        raise TypeError("statistic must return a number or an array of numbers.")
    return {"statistic": numbers}


def _read_claim(runner, data, guarantee, epsilon, delta, unit, adjacency):
    if guarantee is None and None in (epsilon, delta, unit, adjacency):
        guarantee = getattr(runner.fit_one(data), "privacy_guarantee_", None)
    parameters = runner.estimator.get_params(deep=False)

    def first(*values):
        return next((value for value in values if value is not None), None)

    claim = {
        "epsilon": first(epsilon, getattr(guarantee, "epsilon", None), parameters.get("epsilon")),
        "delta": float(first(delta, getattr(guarantee, "delta", None), parameters.get("delta"), 0.0)),
        "unit": str(first(unit, getattr(guarantee, "unit", None), "row")),
        "adjacency": str(first(adjacency, getattr(guarantee, "adjacency", None), "replace-one")),
    }
    in_numbers = epsilon is not None or delta is not None or claim["adjacency"] == "metric"
    claim["events"] = () if in_numbers else getattr(guarantee, "events", ())
    if claim["epsilon"] is None or math.isnan(float(claim["epsilon"])):
        raise ValueError(
            f"{type(runner.estimator).__name__} claims nothing: it has neither privacy_guarantee_ after "
            "fit nor a "
            "parameter epsilon. Pass epsilon= to audit a claim."
        )
    return claim


def _choose_pair(runner, data, neighbour, claim, n_runs, rng):
    """The given neighbour, or the candidate canary that shows most on pilot runs of its own."""
    if neighbour is not None:
        other = FitInput(*neighbour) if len(neighbour) == 3 else FitInput(*neighbour, data.params)
        return data, other._replace(y=None if other.y is None else np.asarray(other.y))
    pairs = canary_pairs(data, claim["unit"], claim["adjacency"])
    if len(pairs) == 1:
        return pairs[0]
    pilot = max(10, n_runs // 10)
    member = np.arange(2 * pilot) % 2 == 0
    visible = []
    for pair in pairs:
        try:
            runs = runner.fit_many(pair, member, _probe_rows(*pair))
        except ValueError:  # this canary makes no valid input, for example a class without rows
            visible.append(-math.inf)
            continue
        values = stack_released(runs, np.ones(member.size, dtype=bool))
        gaps = [
            abs(scores[member].mean() - scores[~member].mean()) / (scores.std() + 1e-12)
            for scores, _ in distinguishing_scores(values, member, values, rng)
        ]
        visible.append(max(gaps))
    if max(visible) == -math.inf:
        raise ValueError("No canary makes a valid input for this estimator; pass neighbour= explicitly.")
    return pairs[int(np.argmax(visible))]


def _probe_rows(one, other):
    """Rows at which predictions are looked at: the last ones (where canaries go) and the first ones."""
    n = _num_samples(other.X)
    rows = np.unique(np.clip([0, 1, 2, n // 2, n - 3, n - 2, n - 1], 0, n - 1))
    return other.take(rows).X
