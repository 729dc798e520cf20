"""Accounting: composition of events, zero-concentrated privacy, Gaussian curves, loss distributions."""
