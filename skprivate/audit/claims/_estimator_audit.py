"""Test a claimed guarantee by fits on inputs that fair coins decide."""

from __future__ import annotations

import math

import numpy as np

from skprivate._messages import must_be, positive
from skprivate.audit.claims._canaries import FitInput
from skprivate.audit.claims._coins import Design, designs
from skprivate.audit.claims._estimator_report import EstimatorAudit
from skprivate.audit.claims._game import Fits, Game, Stated, choose_players
from skprivate.audit.claims._released import Observer
from skprivate.privacy import public_generator

__all__ = ["audit_estimator"]


def audit_estimator(
    estimator,
    X,
    y=None,
    *,
    neighbour=None,
    canaries=None,
    observable="all",
    guarantee=None,
    epsilon=None,
    delta=None,
    unit=None,
    adjacency=None,
    distance=None,
    fit_params=None,
    n_runs=1000,
    max_seconds=None,
    confidence=0.95,
    simulate=False,
    random_state=None,
    n_jobs=None,
):
    """Audit the claimed ε of an estimator by fits whose input fair coins decide.

    In each fit, coins decide what the units of the input are: one coin, which of two neighbouring inputs is
    fitted; or, where the guarantee allows it and the data leave room, hundreds of coins, one unit each. From what a fit
    gives away the auditor forecasts its coins, bets on them against the claim, and learns. If the claim is true, the
    wealth of these bets exceeds ``1 / (1 − confidence)`` with probability at most ``1 − confidence``, whenever
    one looks:
    so the audit stops as soon as the claim is refuted, and everything it chooses may depend on all it has seen before.

    Parameters
    ----------
    estimator : estimator
        Any object with ``fit`` and ``get_params``: of this package, or diffprivlib-like with a parameter
        ``epsilon``.
    X : array-like of shape (n, n_features)
    y : array-like of shape (n,) or None
        Data of the kind that is fitted; they need not be real. The more distinct rows (labels, add-remove) or columns
        (users), the more coins fit into one fit.
    neighbour : (X, y) or (X, y, fit_params) or None, default=None
        A neighbouring input, in place of those that the audit builds: then one coin a fit decides between the
        two. For an
        estimator that releases in ``transform``, of the same shape: each row has a coin of its own. Needed under a
        metric, where inputs are neighbours at any distance.
    canaries : (callable, int) or None, default=None
        A design of your own: ``make(coins)`` gets so many booleans and returns ``(X, y)`` or ``(X, y, fit_params)``.
        Flipping one coin must change one unit, whatever the others show.
    observable : {"all", "released", "mechanism"} or callable, default="all"
        What the auditor looks at. "released": public fitted attributes, whatever numbers they hold, and predictions;
        "mechanism": the results of the noisy draws, which the guarantee covers as well (estimators of this package);
        "all": both; ``observable(fitted) -> float or array``: anything else.
    guarantee : PrivacyGuarantee or None, default=None
        The claim. If it lists its events, their whole privacy curve δ(ε) is tested, which finds Gaussian noise
        that is too
        small long before ε at a tiny δ does.
    epsilon, delta : float or None, default=None
        The claim in numbers. ``None``: ``privacy_guarantee_`` of a fit, else the parameters ``epsilon`` and
        ``delta`` (0 if absent).
    unit : {"row", "private row", "user", "label"} or None, default=None
    adjacency : {"replace-one", "add-remove"} or None, default=None
        ``None``: from ``privacy_guarantee_``, else one row, replace-one.
    distance : float or None, default=None
        Distance of the two inputs under a metric guarantee, where it has to be said; the claim is then
        ``epsilon · distance``.
    fit_params : dict or None, default=None
        Further arguments of ``fit``; arrays of length n are per row (``private``, ``user_ids``).
    n_runs : int, default=1000
        Largest number of fits.
    max_seconds : float or None, default=None
        Largest processor time (with ``n_jobs``: time), checked after each fit. None: no limit.
    confidence : float, default=0.95
    simulate : bool, default=False
        Fit with integer seeds (fast simulated noise) in place of the secure noise of ``random_state=None``.
    random_state : int, RandomState or None, default=None
        Public randomness of the audit: coins, seeds of simulated fits.
        The design is chosen by power for the time it takes, so that two audits with one seed may choose differently.
    n_jobs : int or None, default=None

    Returns
    -------
    EstimatorAudit

    Raises
    ------
    ValueError
        If there is no claim to audit, no neighbour can be built, no fit succeeds, or ``distance`` is given where the
        claim knows no distances, or missing where it does.

    Notes
    -----
    A claim that is not refuted is not proven: the audit sees a few inputs, and what its scores can tell of them.

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
    _check_options(n_runs, max_seconds, confidence, distance, observable)
    rng = public_generator(random_state)
    data = FitInput(X, None if y is None else np.asarray(y), dict(fit_params or {}))
    fits = Fits(Observer(estimator, observable), simulate, rng, n_jobs, n_runs, max_seconds)
    claim = _read_claim(fits.observer, data, guarantee, epsilon, delta, unit, adjacency, distance)
    if claim.adjacency == "metric" and neighbour is None and canaries is None:
        raise ValueError(must_be("neighbour", "given under adjacency 'metric', with its distance", None))
    game = Game(claim, confidence, rng)
    if canaries is not None:
        make, n_coins = canaries
        options = [Design("custom", int(n_coins), lambda coins: _as_input(make(coins), data))]
    else:
        other = None if neighbour is None else _as_input(neighbour, data)
        options = designs(data, other, claim.unit, claim.adjacency, fits.observer.local, game.units_apart)
    players = choose_players(options, fits, game, observable)
    while not (fits.over() or game.refuted):
        min(players, key=lambda player: player.spent).play()
        game.record(players)
    first = max(players, key=lambda player: float(player.log_wealth()[0]))
    return EstimatorAudit(
        name=type(estimator).__name__,
        claimed_epsilon=claim.epsilon,
        claimed_delta=claim.delta,
        epsilon_lower_bound=game.epsilon_lower_bound,
        violated=game.refuted,
        confidence=confidence,
        p_value=game.p_value,
        family=game.family,
        unit=claim.unit,
        adjacency=claim.adjacency,
        design=first.name,
        observable=observable if isinstance(observable, str) else "custom",
        n_coins=first.n_coins,
        n_units=first.n_units,
        n_fits=fits.made,
        seconds=fits.seconds(),
    )


def _check_options(n_runs, max_seconds, confidence, distance, observable):
    if n_runs < 20:
        raise ValueError(f"n_runs must be at least 20; got {n_runs!r}.")
    if max_seconds is not None and not max_seconds > 0.0:
        raise ValueError(f"max_seconds must be positive or None; got {max_seconds!r}.")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence!r}.")
    if distance is not None:
        positive("distance", distance)
    if not callable(observable) and observable not in ("all", "released", "mechanism"):
        raise ValueError(
            f"observable must be 'all', 'released', 'mechanism' or a callable; got {observable!r}."
        )


def _as_input(given, data):
    X, y, *params = given
    return FitInput(X, None if y is None else np.asarray(y), *(params or [data.params]))


def _read_claim(observer, data, guarantee, epsilon, delta, unit, adjacency, distance):
    if guarantee is None and None in (epsilon, delta, unit, adjacency):
        model = observer.fit(data, None)
        if observer.local:
            model.transform(data.X)
        guarantee = getattr(model, "privacy_guarantee_", None)
    parameters = observer.estimator.get_params(deep=False)

    def first(*values):
        return next((value for value in values if value is not None), None)

    claimed = first(epsilon, getattr(guarantee, "epsilon", None), parameters.get("epsilon"))
    if claimed is None or not 0.0 < float(claimed) < math.inf:
        raise ValueError(
            f"{type(observer.estimator).__name__} claims nothing: it has neither privacy_guarantee_ after fit nor a "
            "parameter epsilon. Pass epsilon= to audit a claim."
        )
    adjacency = str(first(adjacency, getattr(guarantee, "adjacency", None), "replace-one"))
    if (adjacency == "metric") != (distance is not None):
        allowed = "given under adjacency 'metric', and nowhere else"
        raise ValueError(must_be("distance", allowed, distance, f"This adjacency is {adjacency}."))
    in_numbers = epsilon is not None or delta is not None or adjacency == "metric"
    adaptive = getattr(guarantee, "adaptive", False)
    return Stated(
        epsilon=float(claimed) * (1.0 if distance is None else float(distance)),
        delta=float(first(delta, getattr(guarantee, "delta", None), parameters.get("delta"), 0.0)),
        events=() if in_numbers or adaptive else getattr(guarantee, "events", ()),
        unit=str(first(unit, getattr(guarantee, "unit", None), "row")),
        adjacency=adjacency,
    )
