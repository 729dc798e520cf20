"""Test the claim of any release: a function, an object of another package, or outputs that were recorded elsewhere."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate._messages import at_least, delta_number, must_be, number, positive
from skprivate.audit._epsilon import (
    _bound_at,
    _choose_guesses,
    _choose_threshold,
    _guesses_from_shares,
    _largest_refuted,
    _one_run_p_value,
)
from skprivate.audit.claims._outputs import Array, Mask, table, views
from skprivate.audit.claims._released import released_values
from skprivate.privacy import public_generator

#: Share of the runs on which the view is learned: more than enough for one number.
_LEARN = 0.25
#: Share of the failure probability that δ times the number of runs may take; beyond it two rates are bounded.
_MUCH_DELTA = 0.5


@dataclass(frozen=True)
class ReleaseAudit:
    """A claim next to what runs on two neighbouring inputs show.

    Attributes
    ----------
    name : str
    claimed_epsilon, claimed_delta : float
    epsilon_lower_bound : float
        True ε, at the claimed δ, is at least this.
    violated : bool
        Whether that exceeds the claim; with probability at most ``1 − confidence`` if the claim holds.
    view : str
        The number that told the two inputs apart best.
    n_runs : int
        On both inputs together; a quarter of them chose the view.
    confidence : float
    scores, membership : ndarray
        The view in the runs that decided, and their side.
    """

    name: str
    claimed_epsilon: float
    claimed_delta: float
    epsilon_lower_bound: float
    violated: bool
    view: str
    n_runs: int
    confidence: float
    scores: npt.NDArray[np.float64] = field(repr=False, compare=False)
    membership: npt.NDArray[np.bool_] = field(repr=False, compare=False)

    def __str__(self) -> str:
        delta = f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        return (
            f"{self.name}: claimed epsilon {self.claimed_epsilon:.4g}{delta}; audited epsilon >= "
            f"{self.epsilon_lower_bound:.3g} at confidence {self.confidence:g}, {self.n_runs} runs, by {self.view}: "
            + ("VIOLATED" if self.violated else "not refuted")
        )


def audit_outputs(
    outputs: Sequence[Any],
    membership: npt.ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    design: str,
    confidence: float = 0.95,
    name: str = "outputs",
    random_state: Any = None,
) -> ReleaseAudit:
    """Audit the claim of a release by outputs of independent runs on two neighbouring inputs.

    On a quarter of the runs the view that tells the sides apart best is chosen: single numbers, their distance from a
    centre, their last binary digits (floating-point noise leaves holes), likelihood ratios of many. The others decide.

    Parameters
    ----------
    outputs : sequence
        Of each run: a number, an array, a mapping or a sequence of these; anything else counts by what it prints as.
    membership : array-like of bool, shape (n_runs,)
        True for runs on the neighbour.
    epsilon, delta : float
        The claim, for this pair of inputs.
    design : {"coins", "groups"}
        How the sides came about. "coins": by a fair coin for each run, so that each guess is right with probability
        e^ε/(1 + e^ε) at most (larger bounds). "groups": in numbers that were fixed, with any order.
    confidence : float, default=0.95
    name : str, default="outputs"
        For the report.
    random_state : int, RandomState or None, default=None
        Public randomness of the split.

    Returns
    -------
    ReleaseAudit

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import audit_outputs
    >>> rng = np.random.default_rng(0)
    >>> side = rng.integers(0, 2, size=2000) == 1
    >>> outputs = rng.laplace(size=2000) + side  # epsilon = 1
    >>> audit_outputs(outputs, side, epsilon=1.0, design="groups", random_state=0).violated
    True
    """
    positive("epsilon", epsilon)
    delta_number(delta)
    number("confidence", confidence, "a number in (0, 1)", lambda c: 0 < c < 1)
    if design not in ("coins", "groups"):
        raise ValueError(must_be("design", "'coins' or 'groups', as the sides came about", design))
    member = np.asarray(membership)
    if member.shape != (len(outputs),) or not np.isin(member, (0, 1)).all():
        raise ValueError(
            must_be("membership", f"{len(outputs)} booleans, one for each output", f"shape {member.shape}")
        )
    member = member.astype(bool)
    if min(member.sum(), (~member).sum()) < 20:
        raise ValueError(must_be("membership", "20 runs a side at least", f"{member.sum()} of {member.size}"))
    rng = public_generator(random_state)
    order = rng.permutation(member.size)
    learns = np.zeros(member.size, dtype=bool)
    for group in (order[member[order]], order[~member[order]]) if design == "groups" else (order,):
        learns[group[: max(10, int(_LEARN * group.size))]] = True
    values, names = table(outputs, learns)
    shuffled = order[~learns[order]]
    found = views(values[learns], member[learns], values[shuffled], names)
    coins = design == "coins" and delta * shuffled.size <= _MUCH_DELTA * (1.0 - confidence)
    decide = _by_coins if coins else _by_groups
    bound, view, scores = decide(found, member[learns], member[shuffled], delta, 1.0 - confidence)
    return ReleaseAudit(
        name=name,
        claimed_epsilon=float(epsilon),
        claimed_delta=float(delta),
        epsilon_lower_bound=bound,
        violated=bound > epsilon,
        view=view,
        n_runs=member.size,
        confidence=confidence,
        scores=scores,
        membership=member[shuffled],
    )


def _by_coins(
    found: list[tuple[str, Array, Array]], known: Mask, tested: Mask, delta: float, alpha: float
) -> tuple[float, str, Array]:
    """A view and two thresholds on known runs, beyond which sides are named; the bound on the others.

    Runs are independent. Given the outputs, a side is named rightly with probability at most e^ε/(1 + e^ε), up to an
    excess with mean at most δ a run: all of them together count with probability at most δ times their number.
    """
    best: tuple[float, str, Array, float, float] | None = None
    for view, scores, later in found:
        *shares, expected = _choose_guesses(scores, known, 1e-4)
        if best is None or expected > best[0]:
            ordered = np.sort(scores)
            n_in, n_out = _guesses_from_shares((shares[0], shares[1]), scores.size)
            high = float(ordered[-n_in]) if n_in else math.inf
            low = float(ordered[n_out - 1]) if n_out else -math.inf
            best = expected, view, later, high, low
    assert best is not None
    _, view, scores, high, low = best
    member = scores >= high
    other = (scores <= low) & ~member
    right, total = int((member & tested).sum() + (other & ~tested).sum()), int((member | other).sum())
    level = alpha - delta * tested.size
    bound = _largest_refuted(lambda e: _one_run_p_value(e, 0.0, tested.size, total, right) < level)
    return bound, view, scores


def _by_groups(
    found: list[tuple[str, Array, Array]], known: Mask, tested: Mask, delta: float, alpha: float
) -> tuple[float, str, Array]:
    """A view and a threshold on known runs; the bound on the others."""
    best: tuple[float, str, Array, Any] | None = None
    for view, scores, later in found:
        threshold = _choose_threshold(scores, known, delta, 1e-2)
        expected = _bound_at(scores, known, threshold, delta, 1e-2)
        if best is None or expected > best[0]:
            best = expected, view, later, threshold
    assert best is not None
    return _bound_at(best[2], tested, best[3], delta, alpha), best[1], best[2]


def audit_function(
    function: Any,
    data: Any,
    neighbour: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_runs: int = 1000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> ReleaseAudit:
    """Audit the claim of a function that releases something, or of an object with ``fit`` and an ``epsilon``.

    Every run has one of the two inputs, by a fair coin, and fresh noise; see `audit_outputs` for what is looked at.

    Parameters
    ----------
    function : callable, or object with ``fit``
        ``function(data)`` returns what is released: numbers, arrays, mappings. Of an object copies are fitted,
        ``fit(*data)`` if ``data`` is a tuple, and its public numeric attributes that end in an underscore are what is
        released; nothing else is asked of it.
    data, neighbour : object
        The two inputs. They should be the worst pair: a unit whose influence is as large as it may be, where all others
        have none.
    epsilon, delta : float or None, default=None
        The claim for this pair. ``None``: the object's attributes or parameters of that name; δ = 0 if there is none.
    n_runs : int, default=1000
        On both inputs together. The largest bound that can be shown is about ln(n_runs/8).
    confidence : float, default=0.95
    random_state : int, RandomState or None, default=None
        Public randomness of the coins and the split; the noise is the function's own.

    Returns
    -------
    ReleaseAudit

    Raises
    ------
    ValueError
        If there is no claim, or a number is out of range.

    Examples
    --------
    Laplace noise in floating point has holes:

    >>> import numpy as np
    >>> from skprivate.audit import audit_function
    >>> noise = np.random.default_rng(0)
    >>> audit = audit_function(lambda x: x + noise.laplace(), 0.0, 1.0, epsilon=1.0, random_state=0)
    >>> audit.violated, audit.view
    (True, 'last digit of [0]')
    """
    at_least("n_runs", n_runs, 100)
    run, name = _as_function(function)
    if epsilon is None:
        epsilon = _stated(function, "epsilon")
    if epsilon is None:
        raise ValueError(must_be("epsilon", "a positive finite number", None, f"{name} states no claim."))
    if delta is None:
        delta = _stated(function, "delta") or 0.0
    rng = public_generator(random_state)
    member = rng.random(int(n_runs)) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same warning a thousand times tells nothing
        outputs = [run(neighbour if side else data) for side in member]
    return audit_outputs(
        outputs,
        member,
        epsilon=epsilon,
        delta=delta,
        design="coins",
        confidence=confidence,
        name=name,
        random_state=int(rng.integers(2**31 - 1)),
    )


def _stated(function: Any, name: str) -> float | None:
    value = getattr(function, name, None)
    if value is None and hasattr(function, "get_params"):
        value = function.get_params(deep=False).get(name)
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


def _as_function(function: Any) -> tuple[Callable[[Any], Any], str]:
    if hasattr(function, "fit"):

        def fitted(data: Any) -> Any:
            model = copy.deepcopy(function)
            if getattr(model, "random_state", None) is not None:
                model.random_state = None  # a fixed seed would make all runs alike
            result = model.fit(*data) if isinstance(data, tuple) else model.fit(data)
            return released_values(model if result is None else result, None)

        return fitted, type(function).__name__
    if not callable(function):
        raise TypeError(must_be("function", "a callable or an object with fit", type(function).__name__))
    return function, getattr(function, "__name__", type(function).__name__)
