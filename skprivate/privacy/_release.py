"""The one door: every random draw on private data and its price come from the same call.

A `Release` is a budget being spent: the draws of `_draws` on the account of `_account`. There is no way to draw
without paying, and no way to pay less than was drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skprivate.privacy._account import ReleaseAccount
from skprivate.privacy._dialect import delta_number, member, positive
from skprivate.privacy._draws import Draws
from skprivate.privacy._events import Events
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit, check_metric
from skprivate.privacy._ledger import PrivacyLedger


class Release(ReleaseAccount, Draws):
    """A privacy budget being spent; made by `open_release`, ended by `close`.

    It is a context manager that closes itself. It cannot be copied, pickled or used after a fork, which would draw
    twice for one price; threads may share it.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    unit : PrivacyUnit
    adjacency : Adjacency
    public_rng : numpy.random.Generator
        Randomness that may be published (rotations, subsampling of public rows), independent of all noise.
    """


def open_release(
    *,
    epsilon: float,
    delta: float = 0.0,
    unit: PrivacyUnit | str,
    adjacency: Adjacency | str,
    metric: str | None = None,
    random_state: Any = None,
    ledger: PrivacyLedger | None = None,
    label: str = "",
    theorem: str = "",
    assumptions: tuple[str, ...] = (),
    plan: Events = (),
    reach: float | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Release:
    """Open a release: the only way to draw noise on private data.

    Parameters
    ----------
    epsilon, delta : float
        The budget: ε > 0, δ in [0, 1).
    unit : PrivacyUnit or str
        What is protected: "row", "private row", "user", "label" or "data set".
    adjacency : Adjacency or str
        "replace-one", "add-remove" or "metric"; the sensitivities passed to the draws are those of this relation.
    metric : str, optional
        Name of the distance when ``adjacency="metric"``; ``epsilon`` is then per unit of distance and
        sensitivities are Lipschitz constants.
    random_state : None, int or RandomState
        None draws from the operating system's entropy. Anything else is a reproducible simulation that is not valid
        for release; one `SimulatedNoiseWarning` is given.
    ledger : PrivacyLedger, optional
        Budget of the data set; each price is committed to it before anything is drawn.
    label : str
        Who draws, for the ledger and for errors.
    theorem, assumptions : str, tuple of str
        For the guarantee.
    plan : mapping or iterable of (PrivacyEvent, int)
        Events to pay for at once; draws that match need no further check. A plan is fixed before any result is
        seen, so it is priced by its privacy loss distribution. Draws outside a plan may depend on results, in number
        and in kind. Without a plan they cost all of δ and, of ε, their pure sum where that is within the budget, else
        the whole, which holds as a filter (`filter_epsilon`). Beside a plan they must be pure and leave its δ.
    reach : float, optional
        For a metric: the largest distance between inputs that differ in one row, by which a ledger of rows counts ε.
    parameters : mapping of str to str, optional
        What the ledger shows of who draws.

    Returns
    -------
    Release

    Raises
    ------
    BudgetExceededError
        If the plan does not fit the budget or the ledger. Nothing is drawn.
    SimulatedNoiseError
        If there is a seed where simulated noise is forbidden, or a ledger with a path is for releases.
    TypeError, ValueError
        If a parameter is out of range or of another type.

    Examples
    --------
    >>> from skprivate.privacy import open_release
    >>> release = open_release(epsilon=1.0, unit="row", adjacency="replace-one")
    >>> noisy_mean = release.laplace(0.4, sensitivity=1 / 100, epsilon=1.0)
    >>> release.close().epsilon
    1.0
    """
    relation = member(Adjacency, "adjacency", adjacency)
    check_metric(relation, metric)
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        kind = type(ledger).__name__
        raise TypeError(
            f"ledger must be a PrivacyLedger or None, got {kind}. PrivacyLedger(epsilon=…) makes one."
        )
    return Release(
        epsilon=positive("epsilon", epsilon),
        delta=delta_number(delta),
        unit=member(PrivacyUnit, "unit", unit),
        adjacency=relation,
        metric=metric,
        random_state=random_state,
        ledger=ledger,
        label=label,
        theorem=theorem,
        assumptions=tuple(assumptions),
        plan=plan,
        reach=None if reach is None else positive("reach", reach),
        parameters=parameters,
    )
