"""The only door to random bits: what is secure, what is reproducible, and that the streams stay apart."""

import os
import ssl

import numpy as np
import pytest
from helpers.every import every
from scipy import stats

from skprivate.privacy.noise import _bits as _randomness
from skprivate.privacy.noise._bits import BitSource, bit_source, public_generator

N_BULK = 4 * _randomness._DIRECT_BYTES


class Script(BitSource):
    """Yields the given integers as numbers of the asked length."""

    def __init__(self, *values):
        self.values = list(values)

    def bytes(self, n):
        return np.frombuffer(self.values.pop(0).to_bytes(n, "little"), dtype=np.uint8)


def test_no_seed_means_secure():
    assert bit_source(None).secure
    assert not bit_source(0).secure
    assert not bit_source(np.int64(7)).secure
    assert not bit_source(np.random.RandomState(0)).secure


@every("n", [0, 1, 7, 8, 1000, N_BULK, N_BULK + 3])
@pytest.mark.parametrize("random_state", [None, 5])
def test_lengths(n, random_state):
    block = bit_source(random_state).bytes(n)
    assert block.dtype == np.uint8 and block.shape == (n,)
    assert bit_source(random_state).words(n).shape == (n,)


def test_same_seed_same_bits_other_seed_other_bits():
    np.testing.assert_array_equal(bit_source(3).bytes(99), bit_source(3).bytes(99))
    assert not np.array_equal(bit_source(3).bytes(99), bit_source(4).bytes(99))
    assert not np.array_equal(bit_source(None).bytes(99), bit_source(None).bytes(99))
    assert not np.array_equal(bit_source(None).bytes(N_BULK), bit_source(None).bytes(N_BULK))


def test_public_stream_is_apart_from_the_noise():
    first = public_generator(3).integers(2**63, size=50)
    np.testing.assert_array_equal(first, public_generator(3).integers(2**63, size=50))
    raw = np.random.SFC64(public_generator(3).bit_generator.seed_seq).random_raw(50)
    assert not set(raw.tolist()) & set(bit_source(3).words(50).tolist())
    assert not np.array_equal(
        public_generator(None).integers(2**63, size=9), public_generator(None).integers(2**63, size=9)
    )


def test_random_state_instance_advances_by_one_draw():
    state, twin = np.random.RandomState(1), np.random.RandomState(1)
    source = bit_source(state)
    seed = int(twin.randint(0, 2**63 - 1, dtype=np.int64))
    np.testing.assert_array_equal(source.bytes(64), bit_source(seed).bytes(64))
    assert state.randint(10**9) == twin.randint(10**9)


@pytest.mark.parametrize("random_state", ["7", 1.5, np.random.default_rng(0), [1]])
def test_unknown_seed_is_refused(random_state):
    with pytest.raises(TypeError, match="random_state must be None"):
        bit_source(random_state)
    with pytest.raises(TypeError, match="random_state must be None"):
        public_generator(random_state)


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match="random_state must be >= 0"):
        bit_source(-1)


def test_small_reads_come_from_the_operating_system(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda n: b"\x07" * n)
    np.testing.assert_array_equal(bit_source(None).bytes(100), np.full(100, 7))


def test_every_bulk_read_mixes_in_fresh_entropy(monkeypatch):
    fresh, mixed = [], []
    real_urandom, real_add = os.urandom, ssl.RAND_add
    monkeypatch.setattr(os, "urandom", lambda n: fresh.append(real_urandom(n)) or fresh[-1])
    monkeypatch.setattr(ssl, "RAND_add", lambda data, bits: mixed.append(data) or real_add(data, bits))
    source = bit_source(None)
    source.bytes(N_BULK)
    source.bytes(N_BULK)
    assert mixed == fresh and len(set(mixed)) == 2 and all(len(data) == 32 for data in mixed)


def test_without_openssl_every_bit_comes_from_the_operating_system(monkeypatch):
    monkeypatch.setattr(_randomness, "ssl", None)
    monkeypatch.setattr(os, "urandom", lambda n: b"\x09" * n)
    np.testing.assert_array_equal(bit_source(None).bytes(N_BULK), np.full(N_BULK, 9))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("n", [64, N_BULK])
def test_a_forked_process_draws_other_bits(n):
    source = bit_source(None)
    source.bytes(n)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(write, source.bytes(n).tobytes()[:64])
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 64)
    os.close(read)
    os.close(write)
    assert len(theirs) == 64 and theirs != source.bytes(n).tobytes()[:64]


@pytest.mark.parametrize("random_state", [None, 11, 12])
def test_bytes_are_uniform(random_state):
    # Each fails with probability 1e-7.
    block = bit_source(random_state).bytes(1 << 18)
    assert stats.chisquare(np.bincount(block, minlength=256)).pvalue > 1e-7
    pairs = np.bincount(block.view(np.uint16) >> 4, minlength=4096)
    assert stats.chisquare(pairs).pvalue > 1e-7


def test_bits():
    assert bit_source(0).bits(0) == 0
    assert Script(0b1011_0110).bits(5) == 0b10110
    assert Script(2**72 - 1).bits(70) == 2**70 - 1
    assert 0 <= bit_source(0).bits(200) < 2**200
    with pytest.raises(ValueError, match="n must be a number of bits"):
        bit_source(0).bits(-1)


@pytest.mark.parametrize("n", [2, 3, 5, 100, 128, 129, 256])
def test_integer_below_is_exactly_uniform(n):
    """Over all values of the first byte each number below n comes up equally often, and the rest is rejected."""
    counts = np.zeros(n, dtype=int)
    for first in range(256):
        script = Script(first, 0)
        value = script.integer_below(n)
        if script.values:  # the first number was taken
            counts[value] += 1
    assert counts.min() == counts.max() == 2 ** (8 - (n - 1).bit_length())


def test_integer_below_large():
    assert bit_source(0).integer_below(1) == 0
    n = 3 * 10**40
    values = [bit_source(seed).integer_below(n) for seed in range(300)]
    assert all(0 <= value < n for value in values) and len(set(values)) == 300
    assert stats.kstest(np.array([value / n for value in values]), "uniform").pvalue > 1e-7
    with pytest.raises(ValueError, match="n must be an integer >= 1"):
        bit_source(0).integer_below(0)
