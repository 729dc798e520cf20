"""Parallel composition: disjoint units, one price.

Where the data of different units enter different computations only, neighbouring data sets that add or remove a unit
differ in one of them, so drawing the same events in each costs what drawing them in one costs (McSherry 2009,
theorem 4). A unit that is exchanged for another may leave one computation and enter another: then two differ, and
both are charged, unless which computation a unit enters is the same in all neighbouring data sets. Later branches may
depend on what earlier ones released.
"""

from __future__ import annotations

from typing import Self

from skprivate.privacy._draws import Draws
from skprivate.privacy._events import Events, PrivacyEvent, count_events
from skprivate.privacy._guarantee import Adjacency
from skprivate.privacy._release import Release


class Branch(Draws):
    """Draws for one part of the units, inside the plan that a release paid for.

    Made by `open_branches`. Draws that the plan does not hold, and draws after `close` or after the release is closed,
    are refused with ``RuntimeError``.
    """

    def __init__(self, parent: Release, planned: dict[PrivacyEvent, int]) -> None:
        self._parent = parent
        self.epsilon = parent.epsilon
        self.delta = parent.delta
        self.unit = parent.unit
        self.adjacency = parent.adjacency
        self.public_rng = parent.public_rng
        self.dry_run = parent.dry_run
        self._metric = parent._metric
        self._source = parent._source
        self._tape = parent._tape
        self._planned = dict(planned)
        self._closed = False

    def close(self) -> None:
        """End the branch; the guarantee is the release's."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _charge(self, events: dict[PrivacyEvent, int]) -> None:
        with self._parent._lock:
            self._parent._check_open()
            if self._closed:
                raise RuntimeError("the branch is closed: nothing was drawn.")
            if any(self._planned.get(event, 0) < count for event, count in events.items()):
                raise RuntimeError("this draw is not in the plan of the branch: nothing was drawn.")
            for event, count in events.items():
                self._planned[event] -= count

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("a branch of a release cannot be copied or pickled.")


def open_branches(
    release: Release, n_branches: int, plan: Events, *, fixed_assignment: bool = False
) -> list[Branch]:
    """Open ``n_branches`` branches that may each draw ``plan``, for the price of drawing it once or twice.

    The guarantee rests on the caller: the data of one unit enter one branch only, and which one depends on nothing
    but that unit and public randomness.

    Parameters
    ----------
    release : Release
        Pays for the plan before this returns: twice under "replace-one" adjacency unless ``fixed_assignment``.
    n_branches : int
    plan : mapping or iterable of (PrivacyEvent, int)
    fixed_assignment : bool, default=False
        Whether an exchanged unit stays in its branch in all neighbouring data sets: for instance because branches
        are dealt by a public identifier that the exchanged unit keeps. State that among the release's assumptions.
        Otherwise a unit may leave one branch and enter another: the sensitivities of the draws must then bound a unit
        removed or added as well as one exchanged.

    Returns
    -------
    list of Branch
    """
    planned = count_events(plan)
    twice = release.adjacency is not Adjacency.ADD_REMOVE and not fixed_assignment
    release._charge({event: (2 if twice else 1) * count for event, count in planned.items()})
    branches = [Branch(release, planned) for _ in range(n_branches)]
    for branch in branches:
        branch.after_draw = release.after_draw
    return branches
