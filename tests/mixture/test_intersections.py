"""The streamed enumeration against the naive one."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from helpers.every import every
from helpers.families import all_errors
from helpers.pairwise import pairwise
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate.mixture import _intersections, _problem
from skprivate.mixture._intersections import Intersections, count_intersections


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few pairs, so that small families meet every border."""
    monkeypatch.setattr(_intersections, "ROW_BLOCK", 3)
    monkeypatch.setattr(_intersections, "COLUMN_BLOCK", 5)


def random_family(rng, n_rows, n_pairs, max_size, scale=3, **keywords):
    positive = (rng.random((n_rows, n_pairs)) < 0.6).astype(np.uint8)
    negative = np.where(rng.random((n_rows, n_pairs)) < 0.2, 1, 1 - positive).astype(np.uint8)
    weights = rng.integers(-scale, scale + 1, n_rows)
    sides = np.empty((n_rows, 2 * n_pairs), dtype=np.int64)
    sides[:, 0::2], sides[:, 1::2] = positive, negative
    naive = {
        group: int(weights @ sides[:, list(group)].prod(axis=1))
        for size in range(min(max_size, 2 * n_pairs) + 1)
        for group in combinations(range(2 * n_pairs), size)
    }
    return Intersections(positive, negative, weights, max_size, **keywords), naive


@pytest.mark.parametrize("n_pairs", [0, 1, 2, 5, 8])
@every("max_size", [0, 1, 2, 3, 4])
@every("n_rows", [0, 1, 11])
@pytest.mark.parametrize("most_dense", [0, 2**15])
def test_every_set_appears_once_with_its_sum(small_blocks, monkeypatch, most_dense, n_pairs, max_size, n_rows):
    monkeypatch.setattr(_intersections, "MOST_DENSE", most_dense)
    family, naive = random_family(np.random.default_rng(n_pairs + 10 * max_size), n_rows, n_pairs, max_size)
    streamed = [(tuple(sorted(group)), value) for group, value in all_errors(family)]
    assert len(streamed) == len(naive) == len(family) == count_intersections(2 * n_pairs, max_size)
    assert dict(streamed) == naive


@pytest.mark.parametrize(
    ("gathered", "stretch", "n_jobs", "offset", "resolution"),
    [
        (*case, *shift)
        for *case, shift in pairwise(product([1, 2**20], [1, 10**6], [None, 2], [(0, 1), (17, 1), (17, 4), (-2, 3)]))
    ],
)
def test_histogram_and_location_agree_with_the_enumeration(
    small_blocks, monkeypatch, gathered, stretch, n_jobs, offset, resolution
):
    monkeypatch.setattr(_problem, "MOST_SUMS", stretch)
    monkeypatch.setattr(_problem, "GATHER", gathered)
    family, naive = random_family(np.random.default_rng(0), 12, 4, 3, offset=offset, resolution=resolution)
    errors, counts = family.histogram(n_jobs=n_jobs)
    assert counts.sum() == len(naive) and (counts > 0).all() and (np.diff(errors) > 0).all()
    for number, count in zip(errors.tolist(), counts.tolist(), strict=True):
        members = [family.locate(number, m) for m in range(count)]
        expected = {group for group, total in naive.items() if (total + offset) // resolution == number}
        assert {tuple(sorted(group)) for group in members} == expected
        assert len(members) == len(expected)
        with pytest.raises(IndexError):
            family.locate(number, len(members))
    with pytest.raises(IndexError):
        family.locate(int(errors[-1]) + 1, 0)


def test_location_without_a_histogram_first(small_blocks):
    family, naive = random_family(np.random.default_rng(3), 12, 4, 2)
    assert naive[tuple(sorted(family.locate(0, 0)))] == 0


@pytest.mark.parametrize("most_dense", [0, 2**15])
@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(0, 20),
    n_pairs=st.integers(0, 6),
    max_size=st.integers(0, 3),
    scale=st.sampled_from([1, 7, 10**9]),
)
def test_sums_are_exact_for_weights_of_any_size(most_dense, seed, n_rows, n_pairs, max_size, scale):
    """Weights up to 10⁹ need float64; ones need float32; both must be exact."""
    family, naive = random_family(np.random.default_rng(seed), n_rows, n_pairs, max_size, scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_intersections, "MOST_DENSE", most_dense)
        assert {tuple(sorted(group)): value for group, value in all_errors(family)} == naive


def test_weights_too_large_for_exact_sums_are_refused():
    ones = np.ones((1, 1), dtype=np.uint8)
    with pytest.raises(ValueError, match="too large for exact sums"):
        Intersections(ones, ones, np.array([2**52]), 1)


def test_many_pairs_across_real_block_borders():
    """Blocks of the real size, checked through the moments of the sums."""
    rng = np.random.default_rng(1)
    n_pairs = 1100
    positive = (rng.random((30, n_pairs)) < 0.5).astype(np.uint8)
    negative = np.where(rng.random((30, n_pairs)) < 0.05, 1, 1 - positive).astype(np.uint8)
    weights = np.where(rng.random(30) < 0.3, -1, 1)
    family = Intersections(positive, negative, weights, 2)
    errors, counts = family.histogram()
    sides = np.empty((30, 2 * n_pairs), dtype=np.int64)
    sides[:, 0::2], sides[:, 1::2] = positive, negative
    product = (sides * weights[:, None]).T @ sides
    pairs = product[np.triu_indices(2 * n_pairs, k=1)]
    values = np.concatenate([[weights.sum()], sides.T @ weights, pairs])
    assert counts.sum() == values.size == 1 + 2 * n_pairs + comb(2 * n_pairs, 2)
    expected = np.unique(values, return_counts=True)
    np.testing.assert_array_equal(errors, expected[0])
    np.testing.assert_array_equal(counts, expected[1])
    for member in rng.integers(counts[errors == 3][0], size=5):
        first, second = family.locate(3, int(member))
        assert product[first, second] == 3
