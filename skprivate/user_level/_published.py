"""The published algorithm as a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate.privacy import Mechanism, PrivacyEvent
from skprivate.user_level._descent import LinearResult
from skprivate.user_level._paper import PaperPlan, winsorized_descent
from skprivate.user_level._problems import Objective, UserData


@dataclass(frozen=True)
class PublishedDescent(Mechanism):
    """A linear model by Algorithm 4, on a public number of users."""

    objective: Objective
    plan: PaperPlan
    theorem = "Algorithm 4 and Theorem 4 (arXiv 2102.11845)"

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self.plan.n_steps

    @property
    def size(self) -> int:
        """Numbers of one sum."""
        return self.objective.n_coef

    @property
    def alpha(self) -> float:
        """Strength of the penalty."""
        return self.objective.alpha

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return self.plan.events(self.objective.n_coef)

    @np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
    def run(self, data: UserData, release: Any) -> LinearResult:
        """Draw the steps."""
        coef = winsorized_descent(self.objective.problem(data), self.plan, release)
        return LinearResult(coef, float(data.groups.n_users), self.plan.radius, self.plan.tau)
