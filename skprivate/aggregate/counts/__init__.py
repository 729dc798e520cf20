"""Counts, sums and means by group, where the groups may be unknown."""
