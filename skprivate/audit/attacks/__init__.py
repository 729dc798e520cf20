"""Attacks: what an adversary achieves."""
