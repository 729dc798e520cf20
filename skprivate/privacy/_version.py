"""Pickles that carry the version of this package."""

from __future__ import annotations

from typing import Any

import skprivate
from skprivate.privacy._warnings import warn_caller

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
