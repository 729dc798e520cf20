"""What an audit of an estimator found."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["EstimatorAudit"]


@dataclass(frozen=True)
class EstimatorAudit:
    """A claimed guarantee next to what fits show.

    Attributes
    ----------
    name : str
        Class of the estimator.
    claimed_epsilon, claimed_delta : float
        The claim for one pair of neighbours (under a metric, ε times their distance).
    epsilon_lower_bound : float
        True ε, at the claimed δ, is at least this, with probability ``confidence``; see ``family``.
    violated : bool
        Whether the claim is refuted. A sound claim is refuted with probability at most ``1 − confidence``, however many
        fits were made and whenever the audit stopped.
    confidence : float
    p_value : float
        One over the largest wealth of the bets against the claim: a p-value that holds at any time.
    family : {"pure", "approximate", "gaussian"}
        For which mechanisms ``epsilon_lower_bound`` holds: all of (ε, 0); all of (ε, δ); those whose privacy
        curve is that
        of Gaussian noise, which is asked if the guarantee lists Gaussian events. ``violated`` never rests on
        it: it tests
        the claim itself, (ε, δ) and the curve of its events.
    unit, adjacency : str
    design : {"pair", "labels", "presence", "columns", "rows", "draws", "custom"}
        What the coins of a fit decided; "draws": one coin a round, of draws made again.
    observable : {"all", "released", "mechanism", "custom"}
        What was looked at.
    n_coins : int
        Independent coins, each of which decides one unit, in a fit.
    n_units : int
        Units that one coin decides together; above 1 the claim for so many is tested, which follows from that for one.
    n_fits : int
        All fits, those included from which designs and scores were learned.
    seconds : float
        Processor time (with ``n_jobs``: time) of the audit.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean, audit_estimator
    >>> X = np.random.default_rng(0).normal(size=(40, 20))
    >>> audit = audit_estimator(UserLevelMean(epsilon=1.0, delta=1e-6, tau=1.0), X, n_runs=40, random_state=0)
    >>> audit.violated, audit.unit
    (False, 'row')
    >>> audit.to_frame().index.tolist()
    ['UserLevelMean']
    """

    name: str
    claimed_epsilon: float
    claimed_delta: float
    epsilon_lower_bound: float
    violated: bool
    confidence: float
    p_value: float
    family: str
    unit: str
    adjacency: str
    design: str
    observable: str
    n_coins: int
    n_units: int
    n_fits: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """All of it by name.

        Returns
        -------
        dict
        """
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def to_frame(self) -> Any:
        """A table of one row; `pandas.concat` makes one of many.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas as pd

        plain = self.to_dict()
        return pd.DataFrame([plain], index=[plain.pop("name")])

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        delta = f", delta {self.claimed_delta:g}" if self.claimed_delta else ""
        among = {"gaussian": " (as Gaussian noise)"}.get(self.family, "")
        coins = "one coin" if self.n_coins == 1 else f"{self.n_coins} coins"
        coins += "" if self.n_units == 1 else f" for {self.n_units} units"
        return (
            f"{self.name}: claimed epsilon {self.claimed_epsilon:.4g}{delta} for one {self.unit} ({self.adjacency}); "
            f"audited epsilon >= {self.epsilon_lower_bound:.3g}{among}, p <= {self.p_value:.2g} at confidence "
            f"{self.confidence:g}; design {self.design}, {coins} a fit, "
            f"{self.n_fits} fits in {self.seconds:.2g} s: {verdict}"
        )
