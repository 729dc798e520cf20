"""Draws: a statistic, its noise and its event in one call."""
