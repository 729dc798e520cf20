"""Noise: random bits, exact samplers and selection, the lattice that statistics are rounded to."""

from skprivate.privacy._contributions import FloatArray, IntArray, as_integers, largest
from skprivate.privacy.noise._bits import SeededBitSource, SystemBitSource
from skprivate.privacy.noise._samplers import integer_noise
from skprivate.privacy.noise._selection import (
    MAX_FLIPS,
    exponential_select,
    exponential_select_rows,
    permute_and_flip_select,
)
