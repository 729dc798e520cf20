"""Whole tables: a tree of noisy tables of two and three columns, and candidate rows raked to them."""
