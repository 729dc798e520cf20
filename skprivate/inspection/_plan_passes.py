"""What a fit on rows in blocks will read, send and hold, by formula, before a row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric._binary_hierarchy import MAX_DEPTH
from skprivate.metric._grid_flows import MAX_NODES
from skprivate.metric._private_bounds import CENTRES, REACHES
from skprivate.partitions._blocks import BATCH_ROWS

_WORD = 8
#: Copies of a block that are alive at once: as it was read, as float64 columns, and what one step makes of those.
_COPIES = 5


@dataclass(frozen=True)
class PassPlan:
    """What a fit on rows in blocks reads, sends and holds at most.

    Attributes
    ----------
    passes : int
        How often all rows are read; a look at the first block is not counted.
    bytes_read : int
        From files, in all passes.
    bytes_sent : int
        Sums of integers that the workers hand on, in all passes; no row is sent.
    bytes_held : int
        What a process holds beside the interpreter and its libraries: a block, what is made of it, and the sums.
    """

    passes: int
    bytes_read: int
    bytes_sent: int
    bytes_held: int

    def seconds(self, bytes_a_second: float, workers: int = 1) -> float:
        """Time of the passes.

        Parameters
        ----------
        bytes_a_second : float
            That one worker reads and adds up: measure it by a fit of one block.
        workers : int, default=1

        Returns
        -------
        float
        """
        return self.bytes_read / bytes_a_second / workers


def plan_passes(
    estimator: Any,
    n_rows: int,
    n_columns: int,
    *,
    block_rows: int = BATCH_ROWS,
    bytes_a_row: float | None = None,
) -> PassPlan:
    """Passes over rows in blocks that a fit makes, and the bytes that it reads, sends and holds, by formula.

    Parameters
    ----------
    estimator : MetricPrivateSynthesizer
        Not fitted. For others: count on a small part of the rows (`skprivate.partitions.Blocks.passes`), as the number
        of passes hardly depends on that of the rows; docs/partitions_planning.md has a table.
    n_rows, n_columns : int
        The columns are all that the blocks have.
    block_rows : int, default=262144
        Rows of a block.
    bytes_a_row : float, optional
        In the files; 8 for each column by default.

    Returns
    -------
    PassPlan

    Raises
    ------
    TypeError
        If there is no formula for the estimator.
    ValueError
        If a number is not positive.

    Examples
    --------
    >>> from skprivate import MetricPrivateSynthesizer
    >>> from skprivate.inspection import plan_passes
    >>> plan = plan_passes(MetricPrivateSynthesizer(1.0), n_rows=10**8, n_columns=20)
    >>> plan.passes, plan.bytes_read // 10**9
    (5, 80)
    """
    if not isinstance(estimator, MetricPrivateSynthesizer):
        raise TypeError(
            f"estimator must be a MetricPrivateSynthesizer, got {type(estimator).__name__}: fit a small part of "
            "the rows in skprivate.partitions.Blocks, and look at their passes."
        )
    for name, value in (("n_rows", n_rows), ("n_columns", n_columns), ("block_rows", block_rows)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value!r}.")
    sums = [_WORD, *_sums_of_synthesizer(estimator, n_columns)]  # the first pass counts the rows
    n_blocks = -(-n_rows // block_rows)
    row = n_columns * _WORD if bytes_a_row is None else bytes_a_row
    return PassPlan(
        passes=len(sums),
        bytes_read=math.ceil(len(sums) * n_rows * row),
        bytes_sent=sum(sums) * n_blocks,
        bytes_held=_COPIES * min(n_rows, block_rows) * n_columns * _WORD + 4 * max(sums) + 10 * sums[-1],
    )


def _sums_of_synthesizer(model: Any, n_columns: int) -> list[int]:
    """Bytes of the sum of each pass after the first one, at most."""
    n_listed = 0 if model.categories is None else len(model.categories)
    d = n_columns - n_listed
    groups = 1 << (math.prod(map(len, (model.categories or {}).values())) - 1).bit_length()
    if model.metric == "wasserstein":
        nodes = (
            groups * MAX_NODES if model.resolution == "auto" else groups * (int(model.resolution) + 1) ** d
        )
        return [_WORD * nodes]
    if d == 0 or model.resolution != "auto":
        counts = [groups * (1 if d == 0 else int(model.resolution) ** d)]
    else:
        counts = [2**MAX_DEPTH] * 2  # a pilot, and the counts
    private = isinstance(model.bounds, str) and d > 0
    bounds = [d * CENTRES.size, 2 * d * (REACHES.size + 1)] if private else []
    return [_WORD * size for size in (*bounds, *counts)]
