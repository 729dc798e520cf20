"""Errors and warnings of the privacy core, and the switch that forbids simulated noise."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import skprivate
from skprivate._messages import warn_caller


class BudgetExceededError(ValueError):
    """A draw or a release does not fit in what is left of its budget.

    Raised before anything is drawn or written: the budget is as it was.

    Parameters
    ----------
    message : str
        What was asked, what is left, and what to do.
    required, remaining : tuple of (epsilon, delta), optional
        The price that was refused and what was left, for programs that catch the error.

    Attributes
    ----------
    required, remaining : tuple of (float, float) or None
        As given.
    """

    def __init__(
        self,
        message: str,
        *,
        required: tuple[float, float] | None = None,
        remaining: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.required = required
        self.remaining = remaining


#: Set to anything but "" or "0", this environment variable forbids simulated noise in the whole process.
FORBID_VARIABLE = "SKPRIVATE_FORBID_SIMULATED_NOISE"

#: The blocks that are running, in any thread: ensembles fit their members in others.
_FORBIDDING: list[object] = []


class SimulatedNoiseWarning(UserWarning):
    """A seed was given: the release carries simulated noise and protects nobody."""


# Every release says it, not the first of a loop only; a filter that the user sets comes before this one.
warnings.filterwarnings("always", category=SimulatedNoiseWarning, append=True)


class SimulatedNoiseError(ValueError):
    """A seed was given where simulated noise is forbidden."""


@contextmanager
def forbid_simulated_noise() -> Iterator[None]:
    """Refuse every release with seeded noise while the block runs, in all threads of the process.

    Not in worker processes, which joblib starts for ``n_jobs`` other than 1: there, only the environment variable
    ``SKPRIVATE_FORBID_SIMULATED_NOISE=1`` does the same. It holds for a whole process and for the processes that it
    starts afterwards. Meta-estimators of scikit-learn (bagging, boosting) overwrite every parameter
    named ``random_state`` with an integer, which makes the noise of their members reproducible: with this switch such
    a fit fails before it draws.

    Raises
    ------
    SimulatedNoiseError
        From any fit inside the block that would draw seeded noise; nothing is drawn or charged.

    Examples
    --------
    >>> from skprivate.privacy import SimulatedNoiseError, forbid_simulated_noise, open_release
    >>> with forbid_simulated_noise():
    ...     try:
    ...         open_release(epsilon=1.0, unit="row", adjacency="add-remove", random_state=0)
    ...     except SimulatedNoiseError:
    ...         print("refused")
    refused
    """
    block = object()
    _FORBIDDING.append(block)
    try:
        yield
    finally:
        _FORBIDDING.remove(block)


def announce_simulation(label: str, *, dry_run: bool = False) -> None:
    """Warn that a release draws seeded noise, or refuse it where that is forbidden; dry runs were asked for by name."""
    if _FORBIDDING or os.environ.get(FORBID_VARIABLE, "0") not in ("", "0"):
        raise SimulatedNoiseError(
            "random_state is not None, but simulated noise is forbidden here (forbid_simulated_noise, or the "
            f"environment variable {FORBID_VARIABLE}). Use random_state=None; scikit-learn's ensembles set the "
            "random_state of their members to integers."
            if not dry_run
            else f"{label}: ledger must be one for releases where simulated noise is forbidden (forbid_simulated_noise "
            f"or {FORBID_VARIABLE}), got one for dry runs. skprivate.inspection.quote computes "
            "prices here, too. Nothing was drawn or spent."
        )
    if dry_run:
        return
    who = f"{label}: " if label else ""
    warn_caller(
        f"{who}random_state is not None (set by you, or by a meta-estimator such as bagging): simulated noise that "
        "anyone can reproduce. Use random_state=None before anything is released.",
        SimulatedNoiseWarning,
    )


_KEY = "_skprivate_version"


class OtherVersionWarning(UserWarning):
    """An object was unpickled that another version of skprivate had pickled: its guarantee may mean something else."""


class Versioned:
    """Mixin: pickles carry the version of this package, and warn where another version reads them."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**(state or {}), _KEY: skprivate.__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {name: value for name, value in state.items() if name != _KEY}
        getattr(super(), "__setstate__", self.__dict__.update)(own)
        if (written := state.get(_KEY, "before 0.2")) != skprivate.__version__:
            warn_caller(
                f"{type(self).__name__} was pickled by skprivate {written} and is read by {skprivate.__version__}: "
                "what it does and what its guarantee means may have changed. Fit it again, or read it with the version "
                "that wrote it.",
                OtherVersionWarning,
            )
