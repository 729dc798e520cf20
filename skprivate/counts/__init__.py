"""Counts, sums and means by group, where the groups may be unknown."""

from skprivate.counts._private_counts import PrivateCounts, private_counts

__all__ = ["PrivateCounts", "private_counts"]
