"""Mechanisms: objects that know their cost and how to draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from skprivate.privacy._events import Events, count_events

if TYPE_CHECKING:
    from skprivate.privacy._release import Release


class Mechanism(ABC):
    """A mechanism draws on private data: a frozen object that knows its cost and how to run.

    Everything a mechanism is made from is public (parameters, sizes that are public, released numbers), so its cost
    is known before any private row is seen. Write it as a frozen dataclass:

    * ``events``: all that `run` draws, on any data, no more and no less;
    * ``theorem``: where its guarantee is proven;
    * ``run(data, release)``: forms exact integer sums of bounded contributions of single units
      (`skprivate.privacy.exact_sum`) and draws through ``release`` alone.

    `skprivate.utils.estimator_checks.check_mechanism` tests that a mechanism keeps this contract.

    Attributes
    ----------
    theorem : str
        Goes into the guarantee.

    See Also
    --------
    PrivateEstimatorMixin : Runs a mechanism in ``fit``.
    open_release : Opens a release of your own.

    Examples
    --------
    A count of rows:

    >>> from dataclasses import dataclass
    >>> from skprivate.privacy import Mechanism, PureEvent, open_release
    >>> @dataclass(frozen=True)
    ... class Count(Mechanism):
    ...     epsilon: float
    ...     theorem = "discrete Laplace noise on a count"
    ...
    ...     @property
    ...     def events(self):
    ...         return [(PureEvent(self.epsilon, "discrete Laplace"), 1)]
    ...
    ...     def run(self, data, release):
    ...         return int(release.discrete_laplace([len(data)], sensitivity=1, epsilon=self.epsilon)[0])
    >>> count = Count(1.0)
    >>> with open_release(epsilon=1.0, unit="row", adjacency="add-remove", plan=count.events) as release:
    ...     noisy = count.run(range(1000), release)
    >>> 900 < noisy < 1100
    True
    """

    theorem: str = ""

    @property
    @abstractmethod
    def events(self) -> Events:
        """Events that `run` draws, whatever the data: pairs (event, count)."""

    @property
    def n_draws(self) -> int:
        """Number of events that `run` draws, for progress; public. Another one only where branches share a plan."""
        return sum(count_events(self.events).values())

    @abstractmethod
    def run(self, data: Any, release: Release) -> Any:
        """Draw on private data; returns released values only.

        Parameters
        ----------
        data : Any
            The private data, in the form that the mechanism states.
        release : Release
            Draws and checks the cost; its plan holds ``events``.
        """
