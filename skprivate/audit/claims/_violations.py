"""Search for neighbouring inputs on which a claimed guarantee fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skprivate.audit.claims._violations_search import ROUNDING, Search
from skprivate.audit.claims._violations_target import Inputs, Target
from skprivate.privacy import public_generator

__all__ = ["ViolationReport", "find_violation"]


@dataclass(frozen=True)
class ViolationReport:
    """What a search for violations found.

    Attributes
    ----------
    name : str
        What was searched.
    violated : bool
        Whether a pair was found whose laws lie further apart than the claim allows. A sound subject is reported
        as violated with probability at most ``1 − confidence``, over the whole search.
    first, second : Inputs or None
        The pair of neighbouring inputs (``X``, ``y``, ``params``); the strongest that was tested if none violates.
    settings : dict
        Public parameters that the pair was run under.
    how : str
        How the pair was made.
    event : str
        The event whose probabilities were compared.
    counts : tuple of int
        The event's count and the number of runs on the input where it is common, then where it is rare: in the runs
        that decided, which nothing was chosen on.
    p_value : float
        Of the claim for this event, corrected for all tests of the search. 1.0 if nothing was tested.
    epsilon_lower_bound : float
        ε of this pair, at the claimed δ, is at least this; holds with all others of the search.
    claimed_epsilon, claimed_delta : float
        For this pair: under a metric, ε times the distance.
    distance : float or None
        Of the pair, under a metric.
    unit, adjacency : str
    n_pairs, n_refused, n_tested : int
        Pairs looked at, pairs the subject refused, pairs tested on fresh runs.
    one_sided_refusals : tuple of str
        Pairs of which one input only was refused: a refusal tells something, too, unless what is refused is public.
    door_share : float or None
        The furthest that a statistic was seen to move, in all pairs, as a share of its declared sensitivity, whatever
        kind of draw it is: above 1 a proof has a gap, whether or not the releases show it. ``inf`` if the same releases
        led to other draws or another result. None if no pair was measured: the draws do not pass this package's door.
    door_pair : str
        On which pair.
    n_watched : int
        Pairs that were measured at the door.
    confidence : float
    seconds : float
        CPU seconds of the search.
    """

    name: str
    violated: bool
    first: Inputs | None = field(repr=False, compare=False)
    second: Inputs | None = field(repr=False, compare=False)
    settings: dict[str, Any] = field(repr=False)
    how: str
    event: str
    counts: tuple[int, ...]
    p_value: float
    epsilon_lower_bound: float
    claimed_epsilon: float
    claimed_delta: float
    distance: float | None
    unit: str
    adjacency: str
    n_pairs: int
    n_refused: int
    n_tested: int
    one_sided_refusals: tuple[str, ...] = field(repr=False)
    door_share: float | None
    door_pair: str = field(repr=False)
    n_watched: int
    confidence: float
    seconds: float

    def __str__(self) -> str:
        claim = f"claimed epsilon {self.claimed_epsilon:.4g}"
        claim += f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        tried = (
            f"{self.n_pairs} pairs looked at, {self.n_tested} tested, {self.n_refused} refused, "
            f"{self.seconds:.1f} CPU seconds"
        )
        if self.door_share is not None:
            tried += f"; at the door at most {self.door_share:.4g} of a sensitivity, {self.n_watched} pairs"
            tried += f", on: {self.door_pair}" if self.door_share > ROUNDING else ""
        if not self.violated:
            return f"{self.name}: no violation found ({claim}, one {self.unit}, {self.adjacency}; {tried})"
        often, n_often, rare, n_rare = self.counts
        return (
            f"{self.name}: VIOLATED for one {self.unit} ({self.adjacency}), {claim}, found epsilon >= "
            f"{self.epsilon_lower_bound:.3g} (p = {self.p_value:.2g}, corrected): {self.event} in {often} of {n_often} "
            f"runs against {rare} of {n_rare}. Pair: {self.how}. {tried}"
        )


def find_violation(
    estimator,
    X=None,
    y=None,
    *,
    fit_params=None,
    make_data=None,
    pairs=None,
    settings=None,
    statistic=None,
    distance=None,
    epsilon=None,
    delta=None,
    unit=None,
    adjacency=None,
    metric=None,
    max_seconds=60.0,
    max_pairs=None,
    confidence=0.999,
    simulate=False,
    random_state=None,
):
    """Search for neighbouring inputs on which a claimed guarantee fails.

    Neighbours are built from worst cases for arithmetic and counts, freely combined: values that are subnormal, huge,
    tied, duplicated, collinear or far from zero, one row more, one user with two rows in place of one, row counts
    around multiples of the number of columns, flipped labels, several outputs, identifiers of mixed types. Each pair
    is run a few times with the same simulated noise on both sides, where only the data can make a difference; the
    pairs whose releases move furthest relative to the noise are changed a little and tried again. Where the subject
    draws through this package's releases, each pair is also replayed with the releases of the first input frozen, which
    shows how far every statistic moves. The strongest are
    tested: the event is chosen on some runs, and compared on fresh, independent ones. Under a metric, the way between
    two rows is halved again and again towards the half where the law moves more, which leads to its jumps.

    Parameters
    ----------
    estimator : estimator or callable
        Anything with ``fit`` and ``epsilon``; or a function ``f(X, y, …)`` of the data (``y`` and the further arguments
        where it has them) that returns what is released. An integer ``random_state`` of it must fix the noise.
    X : array-like of shape (n, n_features) or None, default=None
        Example data that parts of the pairs are taken from; ``None``: artificial data only.
    y : array-like of shape (n,) or None, default=None
        Says, with X, what a target looks like: floats are numbers, everything else classes.
    fit_params : dict or None, default=None
        Per-row arguments that the subject takes (``user_ids``, ``private``), for functions; estimators tell by the
        signature of ``fit``.
    make_data : callable or None, default=None
        ``make_data(rng, n) -> (X, y)``: further data that pairs are made of.
    pairs : iterable or None, default=None
        Neighbouring inputs of your own, looked at first: ``((X, y, params), (X, y, params))``, with the distance as a
        third entry under a metric. Without a norm's name in the metric, and ``distance``, nothing else is looked at.
    settings : dict or list of dict or None, default=None
        Public parameters: arguments of a function; for an estimator, set before each fit. A list is searched
        through. ``None``: the parameters given, and bounds that are narrow, wide or far from zero, switches and
        options turned.
    statistic : callable or None, default=None
        ``statistic(fitted or value) -> float or array``. ``None``: everything numeric that is released.
    distance : callable or None, default=None
        ``distance(first, second) -> float`` of two `Inputs`, for metric privacy. ``None``: of the row that moves, in
        the norm that the guarantee's metric names.
    epsilon, delta : float or None, default=None
        The claim. ``None``: the guarantee of a run (``privacy_guarantee_`` or ``guarantee``), else the parameters.
        Under a metric: P(A) ≤ exp(``epsilon`` · distance) P(B) + ``delta``.
    unit : {"row", "private row", "user", "label", "data set"} or None, default=None
    adjacency : {"replace-one", "add-remove", "metric"} or None, default=None
        ``None``: from the guarantee, else one row, replace-one. Where rows are protected and user identifiers are
        accepted, one user's rows are searched, too, unless ``unit="row"`` is said.
    metric : str or None, default=None
        With ``adjacency="metric"``: contains "l1", "l2" or "linf".
    max_seconds : float, default=60.0
        CPU time of the search; a run that has begun is finished.
    max_pairs : int or None, default=None
        Stop after so many pairs: with a ``random_state`` and no noise of its own, the search is then reproducible.
    confidence : float, default=0.999
        A sound subject is reported as violated with probability at most ``1 − confidence``.
    simulate : bool, default=False
        Draw seeded noise in the runs that decide, too. The looks before always do, where there is a
        ``random_state``.
    random_state : int, RandomState or None, default=None
        Public randomness of the search.

    Returns
    -------
    ViolationReport

    Raises
    ------
    ValueError
        If nothing is claimed, neighbours cannot be built for the unit or the metric, or ``pairs`` hold something else,
        a distance that is no finite number, or one that the claim knows nothing of.

    Notes
    -----
    Validity rests on the runs that decide being independent, and on nothing else: for each pair that is tested the
    event is fixed before they are drawn, and the k-th test of the search may use 1/k(k+1) of ``1 − confidence``.
    Randomisers that release in ``transform``, row by row, are taken at their word that rows are drawn independently.

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
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence!r}.")
    if not max_seconds > 0.0:
        raise ValueError(f"max_seconds must be positive; got {max_seconds!r}.")
    target = Target(estimator, statistic, simulate)
    given = {"epsilon": epsilon, "delta": delta, "unit": unit, "adjacency": adjacency, "metric": metric}
    example = Inputs(
        None if X is None else np.asarray(X), None if y is None else np.asarray(y), dict(fit_params or {})
    )
    search = Search(
        target, given, distance, confidence, max_seconds, max_pairs, public_generator(random_state)
    )
    search.prepare(example, make_data, settings)
    return ViolationReport(**search.summary(search.go(pairs)))
