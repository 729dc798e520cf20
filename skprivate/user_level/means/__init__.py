"""Means: private means of one vector per user."""
