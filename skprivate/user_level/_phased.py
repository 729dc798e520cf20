"""Phased optimisation on disjoint users: Algorithm 5 with user-normalised descent in every phase.

Phase s uses about n/2ˢ users of its own and pulls towards the previous solution with λ_s = 4ˢλ. Every user takes
part in one phase, so the phases together cost what one costs. Contributions have norm at most 1, so the paper's G is 1
here and its λ = (G/R)·max(1/√n, noise) is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate.partitions import Partitions
from skprivate.privacy import open_branches
from skprivate.privacy._identifiers import hash_identifiers, identifier_tags
from skprivate.user_level._descent import adaptive_descent
from skprivate.user_level._linear_descent import Descent, problems
from skprivate.user_level._plan import DescentPlan
from skprivate.user_level._problems import Objective, UserData
from skprivate.user_level._settled import Course

FloatArray = npt.NDArray[np.float64]


def assign_phases(names: npt.NDArray[Any], n_phases: int, key: bytes) -> npt.NDArray[np.int64]:
    """Phase 0 … n_phases − 1 of every user, with probabilities 1/2, 1/4, …; the last phase takes what is left.

    A keyed hash of the user's own identifier or tag, so that no user's phase depends on who else is there.
    """
    tags = names if names.ndim == 2 else identifier_tags(names)
    identity = np.empty(len(tags), dtype=object)
    identity[:] = [tag.tobytes() for tag in tags.astype("<u8")]
    numbers = hash_identifiers(identity, key)
    uniform = (numbers.astype(np.float64) + 0.5) * 2.0**-64
    return np.minimum(np.floor(-np.log2(uniform)), n_phases - 1).astype(np.int64)


def _in_phase(data: UserData, key: bytes, n_phases: int, phase: int) -> UserData:
    return data.subset(np.flatnonzero(assign_phases(data.names, n_phases, key) == phase))


def n_phases(level: float) -> int:
    """Phases until the users of one are too few: noise level ν·2ˢ at most ½; at least one."""
    return max(1, math.floor(math.log2(0.5 / level))) if level < 0.5 else 1


@dataclass(frozen=True)
class PhasedDescent(Descent):
    """A linear model by descents on disjoint users, one after the other."""

    theorem = "Algorithm 5 (arXiv 2102.11845) with user-normalised descent, docs/user_level.md"

    @property
    def n_draws(self) -> int:
        """Every phase draws what is paid for once; one phase where their number depends on a noisy number of users."""
        if self.terms.n_users is None:
            return super().n_draws
        count = n_phases(self.split.level(self.terms.n_users, self.objective.n_coef))
        return super().n_draws + (count - 1) * self.n_steps

    def _descend(
        self, objective: Objective, rows: Partitions, plan: DescentPlan, level: float, release: Any
    ) -> Course:
        count = n_phases(level)
        key = release.public_rng.bytes(32)
        branches = open_branches(release, count, plan.sums, fixed_assignment=True)
        reach = plan.radius if math.isfinite(plan.radius) else 1.0
        base = max(1.0 / math.sqrt(plan.n_users), level) / reach
        w: FloatArray | None = None
        for s, branch in enumerate(branches):
            part = 0.5 ** min(s + 1, count - 1)  # 1/2, 1/4, …, and the last phase as the one before
            phase = replace(
                plan,
                n_users=plan.n_users * part,
                first_step=plan.first_step * 0.25**s,
                most_momentum=0.0,
            )
            users = rows.map(partial(_in_phase, key=key, n_phases=count, phase=s))
            pull = 4.0 ** (s + 1) * base if s else 0.0
            w = adaptive_descent(problems(objective, users), phase, branch, start=w, pull=pull).coef
        assert w is not None
        # Directions of a phase with a pull of its own do not tell whether the whole has settled.
        return Course(w, plan.clip_radius, np.empty((0, len(w))), 0.0)
