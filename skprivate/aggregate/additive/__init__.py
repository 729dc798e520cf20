"""Additive models of the cells: design, penalties, solvers."""
