"""Random bits, from one place only: entropy of the operating system, seeded simulation, and public streams.

Noise that protects somebody comes from the operating system's generator: directly for small reads, and through
OpenSSL's generator (AES-256 in counter mode, NIST SP 800-90A) for large ones, with fresh entropy of the operating
system mixed in before every such read. Nothing is buffered here, so nothing is shared after a fork. A seeded source
feeds the same samplers for reproducible simulations, and is not private. Public randomness (rotations, subsampling of
public rows) has its own stream, so that drawing from it never shifts the noise.
"""

from __future__ import annotations

import os
from numbers import Integral
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

try:
    import ssl
except ImportError:  # a Python built without OpenSSL: every bit comes from the operating system
    ssl = None  # type: ignore[assignment]

#: What scikit-learn calls ``random_state``.
RandomStateLike: TypeAlias = "int | np.integer | np.random.RandomState | None"

#: What may stand in an attribute of a model, and has to stay at home when the model is published.
GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)

#: Up to this number of bytes the operating system is asked directly, which is as fast as OpenSSL.
_DIRECT_BYTES = 1024
#: Fresh entropy mixed into OpenSSL's generator before each larger read.
_FRESH_BYTES = 32

_NOISE_KEY, _PUBLIC_KEY = 0x6E6F697365, 0x7075626C6963


class BitSource:
    """Uniform independent bits; ``secure`` if from a cryptographic generator seeded by the operating system."""

    secure: bool = False

    def bytes(self, n: int) -> NDArray[np.uint8]:
        """Return ``n`` uniform bytes (possibly read-only)."""
        raise NotImplementedError

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return ``n`` uniform 64-bit words (possibly read-only)."""
        return self.bytes(8 * n).view(np.uint64)

    def bits(self, n: int) -> int:
        """Return a uniform integer of ``n`` bits, ``0 <= value < 2**n``."""
        if n < 0:
            raise ValueError(f"n must be a number of bits >= 0, got {n!r}.")
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.bytes(n_bytes).tobytes(), "little") >> (8 * n_bytes - n)

    def integer_below(self, n: int) -> int:
        """Return an exactly uniform integer in ``0, …, n - 1``, for ``n`` of any size (by rejection)."""
        if n < 1:
            raise ValueError(f"n must be an integer >= 1, got {n!r}.")
        n_bits = (n - 1).bit_length()
        while True:
            value = self.bits(n_bits)
            if value < n:
                return value


class SystemBitSource(BitSource):
    """Cryptographic bits seeded by the operating system, unbuffered.

    Small reads are ``os.urandom``, larger ones ``ssl.RAND_bytes``. OpenSSL's generator notices forks by itself, and 256
    bits of ``os.urandom`` are mixed in before every read, so that neither a copied process nor a restored snapshot of a
    machine repeats noise.
    """

    secure = True

    def bytes(self, n: int) -> NDArray[np.uint8]:
        if ssl is None or n <= _DIRECT_BYTES:
            return np.frombuffer(os.urandom(n), dtype=np.uint8)
        ssl.RAND_add(os.urandom(_FRESH_BYTES), float(_FRESH_BYTES))
        return np.frombuffer(ssl.RAND_bytes(n), dtype=np.uint8)


class SeededBitSource(BitSource):
    """Reproducible bits for simulations: SFC64, seeded apart from the public stream of the same seed."""

    secure = False

    def __init__(self, seed: int) -> None:
        sequence = np.random.SeedSequence(seed, spawn_key=(_NOISE_KEY,))
        self._generator = np.random.SFC64(sequence)

    def bytes(self, n: int) -> NDArray[np.uint8]:
        # Whole words are consumed, so that the stream does not depend on the machine's byte order.
        words: NDArray[np.uint64] = self._generator.random_raw(-(-n // 8)).astype("<u8", copy=False)
        return words.view(np.uint8)[:n]


def _seed(random_state: RandomStateLike) -> int | None:
    """Turn ``random_state`` into a seed; a RandomState instance gives one draw of its own."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**63 - 1, dtype=np.int64))
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ValueError(f"random_state must be >= 0, got {random_state!r}.")
        return int(random_state)
    raise TypeError(
        "random_state must be None (noise of the operating system), an int or a numpy.random.RandomState "
        f"(simulation), got {type(random_state).__name__}."
    )


def bit_source(random_state: RandomStateLike = None) -> BitSource:
    """Return the source of noise bits: entropy of the operating system for None, else a seeded simulation."""
    seed = _seed(random_state)
    return SystemBitSource() if seed is None else SeededBitSource(seed)


def public_generator(random_state: RandomStateLike = None) -> np.random.Generator:
    """Return a generator for public randomness, independent of the noise of the same ``random_state``.

    Without a ``random_state`` it is freshly seeded by the operating system. A RandomState is advanced by one draw.
    """
    seed = _seed(random_state)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_PUBLIC_KEY,))))
