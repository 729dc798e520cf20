"""Simulated noise never by accident: a warning at the caller's line, and a switch that forbids it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from skprivate.privacy._warnings import warn_caller as warn_caller

#: Set to anything but "" or "0", this environment variable forbids simulated noise in the whole process.
FORBID_VARIABLE = "SKPRIVATE_FORBID_SIMULATED_NOISE"

_FORBIDDING: list[
    object
] = []  # the blocks that are running, in any thread: ensembles fit their members in others


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
            f"or {FORBID_VARIABLE}), got one for dry runs. skprivate.inspection.quote tells prices "
            "here, too. Nothing was drawn or spent."
        )
    if dry_run:
        return
    who = f"{label}: " if label else ""
    warn_caller(
        f"{who}random_state is not None (set by you, or by a meta-estimator such as bagging): simulated noise that "
        "anyone can reproduce. Use random_state=None before anything is released.",
        SimulatedNoiseWarning,
    )
