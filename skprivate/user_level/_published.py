"""The published algorithm as a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import Mechanism, PrivacyEvent
from skprivate.user_level._linear_descent import problems
from skprivate.user_level._linear_result import LinearResult
from skprivate.user_level._paper import PaperDescent, PaperPlan
from skprivate.user_level._problems import Objective, UserData, count_users


@dataclass(frozen=True)
class PublishedDescent(Mechanism):
    """A linear model by Algorithm 4, on a public number of users."""

    objective: Objective
    plan: PaperPlan
    theorem = PaperDescent.theorem

    def __post_init__(self) -> None:
        assert self._paper.events  # refuses plans whose bins cannot be counted, before anything is drawn

    @property
    def _paper(self) -> PaperDescent:
        return PaperDescent(self.plan, self.objective.n_coef)

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self.plan.n_steps

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return self._paper.events

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: Partitions | UserData, release: Any) -> LinearResult:
        """Draw the steps."""
        rows = as_partitions(data)
        coef = self._paper.run(problems(self.objective, rows), release)
        n_users = float(count_users(rows, None))
        return LinearResult(coef, n_users, self.plan.radius, self.plan.tau, alpha=self.objective.alpha)
