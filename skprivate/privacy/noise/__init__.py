"""Noise: random bits, exact samplers and selection, the lattice that statistics are rounded to."""
