"""Certificates: bounds on every adversary."""
