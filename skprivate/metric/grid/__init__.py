"""Measures on a grid: bounds, hierarchies of counts, flows."""
