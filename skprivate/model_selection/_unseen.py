"""Fits and scores of which nothing is seen: how many a search makes is its secret."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import numpy as np
from joblib import parallel_config

from skprivate._progress import listening

#: Output, filters of warnings and records are of the whole process: two threads would give them back in disorder.
_ALONE = threading.RLock()


class _Nowhere(io.TextIOBase):
    """A file that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def unseen() -> Iterator[None]:
    """Let nothing out: no output, warnings, log records or progress, and no other process that could make some."""
    nowhere = _Nowhere()
    with (
        _ALONE,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(record=True),  # also of whoever sets other filters inside
        np.errstate(all="ignore"),
        listening(None),
        parallel_config(backend="sequential"),
    ):
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            logging.disable(before)
