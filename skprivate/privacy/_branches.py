"""Parallel composition: disjoint users, one price.

Where the data of different units enter different computations only, neighbouring data sets differ in one of them,
so drawing the same events in each costs what drawing them in one costs (McSherry 2009, theorem 4). Later branches may
depend on what earlier ones released.
"""

from __future__ import annotations

from skprivate.privacy._events import Events, PrivacyEvent, count_events
from skprivate.privacy._release import Release


class Branch(Release):
    """A release for one part of the units, inside the plan that its parent paid for.

    Made by `open_branches`. Draws that the plan does not hold are refused with ``RuntimeError``.
    """

    def __init__(self, parent: Release, planned: dict[PrivacyEvent, int]) -> None:
        self.epsilon = parent.epsilon
        self.delta = parent.delta
        self.unit = parent.unit
        self.adjacency = parent.adjacency
        self.public_rng = parent.public_rng
        self._label = parent._label
        self._source = parent._source
        self._planned = dict(planned)
        self._closed = False

    def _charge(self, events: dict[PrivacyEvent, int]) -> None:
        if any(self._planned.get(event, 0) < count for event, count in events.items()):
            raise RuntimeError("this draw is not in the plan of the branch: nothing was drawn.")
        for event, count in events.items():
            self._planned[event] -= count


def open_branches(release: Release, n_branches: int, plan: Events) -> list[Branch]:
    """Open ``n_branches`` branches that may each draw ``plan``, for the price of drawing it once.

    The guarantee rests on the caller: the data of one unit enter one branch only, and which one depends on nothing
    but that unit and public randomness.

    Parameters
    ----------
    release : Release
        Pays for the plan before this returns.
    n_branches : int
    plan : mapping or iterable of (PrivacyEvent, int)

    Returns
    -------
    list of Branch
    """
    planned = count_events(plan)
    release._charge(planned)
    return [Branch(release, planned) for _ in range(n_branches)]
