"""Rows in blocks: in memory, streamed from files, or on a cluster. Estimators do not know which.

A fit needs exact sums of integers over units and nothing else of the private rows. Such sums do not depend on how the
rows are cut into blocks, nor on where or in which order these are visited. With the same ``random_state`` the result of
`fit` is the same to the last bit.
"""

from skprivate.partitions._apply import OverBlocks, apply
from skprivate.partitions._blocks import BATCH_ROWS, Blocks
from skprivate.partitions._copies import NOT_PUBLISHED, is_estimator, is_known, kept_attributes, published_copy
from skprivate.partitions._folds import UserKFold, check_cv, check_folds, fold_problem, key_bytes
from skprivate.partitions._kinds import Roles, as_partitions, is_partitioned, split_columns
from skprivate.partitions._partitions import OTHER_ROWS, InMemory, Partitions, add_parts, linear_rows

__all__ = [
    "Blocks",
    "InMemory",
    "OverBlocks",
    "Partitions",
    "apply",
    "as_partitions",
    "is_partitioned",
    "split_columns",
]
