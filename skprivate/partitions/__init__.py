"""Rows in blocks: in memory, streamed from files, or on a cluster. Estimators do not know which.

A fit needs exact sums of integers over units and nothing else of the private rows. Such sums come out the same
however the rows are cut into blocks, in whatever order these are visited, and wherever: what `fit` gives, with the
same ``random_state``, is the same to the last bit.
"""

from skprivate.partitions._apply import OverBlocks, apply
from skprivate.partitions._blocks import Blocks
from skprivate.partitions._columns import Roles, split_columns
from skprivate.partitions._kinds import as_partitions, is_partitioned
from skprivate.partitions._linear import linear_rows
from skprivate.partitions._partitions import InMemory, Partitions

__all__ = [
    "Blocks",
    "InMemory",
    "OverBlocks",
    "Partitions",
    "Roles",
    "apply",
    "as_partitions",
    "is_partitioned",
    "linear_rows",
    "split_columns",
]
