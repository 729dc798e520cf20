"""Quantile cuts and the streamed enumeration of their intersections."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from helpers.every import every
from helpers.families import all_errors

from skprivate.mixture import _cuts
from skprivate.mixture import _problem as _selection
from skprivate.mixture import _search as _turns
from skprivate.mixture._cuts import (
    CutCandidates,
    CutIntersections,
    count_cut_intersections,
    point_cuts,
    quantile_cuts,
    without_repetition,
)
from skprivate.mixture._geometry import products
from skprivate.mixture._search import TurnedCuts, fans


def family_and_naive(rng, n_rows, n_cuts, max_size, offset=0, resolution=1):
    bins = np.array([rng.integers(0, count + 1, n_rows) for count in n_cuts]).reshape(len(n_cuts), n_rows)
    weights = rng.integers(-4, 5, n_rows)
    naive = {}
    for size in range(min(max_size, len(n_cuts)) + 1):
        for group in combinations(range(len(n_cuts)), size):
            for cuts in product(*(range(n_cuts[k]) for k in group)):
                inside = np.ones(n_rows, dtype=bool)
                for k, cut in zip(group, cuts, strict=True):
                    inside &= bins[k] <= cut
                key = tuple(value for pair in zip(group, cuts, strict=True) for value in pair)
                naive[key] = int(weights[inside].sum() + offset) // resolution
    family = CutIntersections(bins, n_cuts, weights, max_size, offset=offset, resolution=resolution)
    return family, naive


@pytest.mark.parametrize("batch", [1, 30, 10**6])
@every("max_size", [0, 1, 2, 3])
@pytest.mark.parametrize("n_cuts", [(), (3,), (2, 0, 4), (1, 2, 3, 2)])
def test_every_set_appears_once_with_its_errors(monkeypatch, n_cuts, max_size, batch):
    monkeypatch.setattr(_cuts, "BATCH", batch)  # last directions are joined one by one, by two, or all at once
    family, naive = family_and_naive(np.random.default_rng(0), 15, n_cuts, max_size)
    streamed = list(all_errors(family))
    assert dict(streamed) == naive
    assert len(streamed) == len(naive) == len(family) == count_cut_intersections(n_cuts, max_size)


@pytest.mark.parametrize("rows", [2, 13])
def test_rows_of_the_same_cuts_count_as_one_with_the_sum_of_their_weights(monkeypatch, rows):
    monkeypatch.setattr(_cuts, "ROWS", rows)
    rng = np.random.default_rng(3)
    few = np.minimum(rng.integers(0, 3, (4, 12)), [[2], [1], [2], [2]])
    bins, weights = few[:, rng.integers(0, 12, 400)], rng.integers(-4, 5, 400)
    merged, sums = _cuts.without_equal_rows(bins, weights)
    patterns = np.unique(bins, axis=1)
    assert merged.shape == patterns.shape and sums.sum() == weights.sum()
    for pattern in patterns.T:
        of_row, of_merged = ((array == pattern[:, None]).all(axis=0) for array in (bins, merged))
        assert weights[of_row].sum() == sums[of_merged].sum() and of_merged.sum() == 1
    family = CutIntersections(bins, (2, 1, 2, 2), weights, 3)
    for key, errors in all_errors(family):
        inside = np.all([bins[k] <= cut for k, cut in zip(key[::2], key[1::2], strict=True)], axis=0)
        assert errors == weights[np.broadcast_to(inside, 400)].sum()
    different = np.arange(400)[None] % 300  # fewer than half are equal
    assert _cuts.without_equal_rows(different, weights)[1] is weights


@pytest.mark.parametrize("stretch", [1, 30, 10**6])
@pytest.mark.parametrize(("offset", "resolution"), [(0, 1), (9, 2), (-1, 4)])
def test_histogram_and_location(monkeypatch, stretch, offset, resolution):
    monkeypatch.setattr(_selection, "MOST_SUMS", stretch)
    monkeypatch.setattr(_selection, "GATHER", 10)
    family, naive = family_and_naive(np.random.default_rng(1), 20, (2, 3, 2, 4), 3, offset, resolution)
    errors, counts = family.histogram()
    assert counts.sum() == len(naive)
    for number, count in zip(errors.tolist(), counts.tolist(), strict=True):
        members = {family.locate(number, m) for m in range(count)}
        assert members == {key for key, value in naive.items() if value == number}
        with pytest.raises(IndexError):
            family.locate(number, count)


def test_large_weights_are_counted_sparsely():
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 4, (3, 30))
    family = CutIntersections(bins, (3, 3, 3), rng.integers(-(10**12), 10**12, 30), 2)
    errors, counts = family.histogram()
    assert counts.sum() == len(family)
    assert dict(all_errors(family))[family.locate(int(errors[0]), 0)] == errors[0]
    with pytest.raises(ValueError, match="too much"):
        CutIntersections(bins, (3, 3, 3), np.full(30, 2**52), 1)


def test_bins_agree_with_halfspaces():
    rng = np.random.default_rng(0)
    public, rows = rng.normal(size=(40, 3)), rng.normal(size=(200, 3)) * 2
    cuts = quantile_cuts(public, rng.normal(size=(6, 3)), (0.3, 0.8, 1.0), 1e-9)
    bins = cuts.bins(rows)
    for direction, count in enumerate(cuts.n_cuts):
        for cut in range(count):
            normal, intercept = cuts.halfspace(direction, cut)
            np.testing.assert_array_equal(bins[direction] <= cut, rows @ normal + intercept >= 0)


def test_counts_are_those_of_the_bins(monkeypatch):
    monkeypatch.setattr(_turns, "ROWS", 30)
    rng = np.random.default_rng(2)
    rows = rng.integers(-3, 4, size=(101, 4)).astype(float)  # ties with the cuts
    lone = rng.normal(size=(5, 4))
    turned = lone[0] + np.array([[0, 0, 0, 0], [0.5, 0, 0, 0], [0, 0, -0.25, 0], [0, 0, 0.25, 0]])
    for directions in (turned, np.concatenate([np.eye(4), -2 * np.eye(4), lone]), np.eye(4)[:0]):
        cuts = quantile_cuts(rows[:50], directions, (0.3, 0.8, 1.0), 1e-9)
        for which in (np.arange(101), rng.permutation(101)[:61], np.arange(0)):
            counts = TurnedCuts.of(directions, cuts).counts(np.ascontiguousarray(rows.T), which)
            expected = [
                np.cumsum(np.bincount(line, minlength=count + 1))[:count]
                for line, count in zip(cuts.bins(rows[which]), cuts.n_cuts, strict=True)
            ]
            np.testing.assert_array_equal(counts, np.concatenate([np.zeros(0), *expected]))


@pytest.mark.parametrize("n_rows", [1, 8 * _turns.WORDS, _turns.ROWS, _turns.ROWS + 8 * _turns.WORDS + 3])
def test_counts_of_many_rows_do_not_carry(n_rows):
    rows = np.arange(n_rows, dtype=float)
    limits = np.array([-1.0, 0.0, n_rows // 2, n_rows - 2, n_rows])
    turned = TurnedCuts(tuple(fans(np.array([[1.0], [-1.0]]))), (limits, np.array([1.0])))
    counts = turned.counts(rows[None], np.arange(n_rows))
    np.testing.assert_array_equal(counts, [*(np.count_nonzero(rows <= limit) for limit in limits), n_rows])


def test_columns_of_two_values_are_found():
    public = np.array([[0.0, -0.0, 1.0, 2.0], [1.0, 0.0, 1.0, 3.0], [0.0, 3.0, 1.0, 4.0]])
    cuts = quantile_cuts(public, np.concatenate([np.eye(4), -np.eye(4)]), (0.5, 0.7, 1.0), 1e-9)
    kept = without_repetition(cuts, public).n_cuts
    assert [kept[axis] + kept[axis + 4] for axis in range(2)] == [1, 1]
    assert [kept[2:4], kept[6:8]] == [cuts.n_cuts[2:4], cuts.n_cuts[6:8]]
    assert without_repetition(quantile_cuts(public[:0], np.eye(4), (0.5,), 1e-9), public[:0]).n_cuts == (0,) * 4


def test_fans_hold_every_direction_once():
    rng = np.random.default_rng(0)
    base = rng.normal(size=5)
    turned = np.tile(base, (10, 1))
    turned[np.arange(10), np.tile(np.arange(5), 2)] += np.repeat([0.5, -0.5], 5)
    directions = np.concatenate([base[None], turned, np.eye(5), rng.normal(size=(2, 5))])
    found = fans(directions)
    assert len(found) == 4  # along axes, turns of the first, and two of their own
    seen = {}
    for fan_base, turns in found:
        for axis, steps in turns:
            for number, step in steps:
                assert number not in seen
                seen[number] = fan_base + step * np.eye(5)[axis]
    np.testing.assert_allclose([seen[number] for number in range(len(directions))], directions, rtol=1e-14)


def test_a_row_counts_the_same_whatever_the_others_are(monkeypatch):
    """Also in the last bit, with cuts exactly at some rows' projections."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(211, 7))
    directions = rng.normal(size=7) + np.concatenate([np.zeros((1, 7)), np.eye(7) / 3, -np.eye(7) / 7])
    limits = tuple(np.sort(line[::9]) for line in products(directions, rows))
    cuts = TurnedCuts(tuple(fans(directions)), limits)
    assert len(cuts.fans) == 1
    alone = [cuts.counts(np.ascontiguousarray(rows[[k]].T), np.arange(1)) for k in range(211)]
    for size in (1, 8, 50, 2**14):
        monkeypatch.setattr(_turns, "ROWS", size)
        for which in (np.arange(211), rng.permutation(211), np.arange(3, 211, 5), np.array([210])):
            together = cuts.counts(np.ascontiguousarray(rows.T), which)
            np.testing.assert_array_equal(together, np.sum([alone[k] for k in which], axis=0))


def test_two_valued_columns_have_one_cut_between_their_values():
    rng = np.random.default_rng(0)
    category = rng.integers(0, 5, 200)
    one_hot = (category[:, None] == np.arange(5)).astype(float)
    public = np.column_stack([rng.normal(size=200), one_hot, 1 - one_hot[:, 0]])
    directions = np.concatenate([np.eye(7), -np.eye(7)])
    every = quantile_cuts(public, directions, (0.3, 0.5, 0.7, 0.9, 0.98), 1e-9)
    cuts = without_repetition(every, public)
    assert cuts.n_cuts[0] == cuts.n_cuts[7] == 5  # numbers keep all of theirs
    sets = [
        np.packbits(line <= cut).tobytes()
        for line, n in zip(cuts.bins(public), cuts.n_cuts, strict=True)
        for cut in range(n)
    ]
    assert len(sets) == len(set(sets)) == 10 + 5  # x = 0 of each category; the last column repeats the second
    kept = {
        np.packbits(line <= c).tobytes()
        for line, n in zip(every.bins(public), every.n_cuts, strict=True)
        for c in range(n)
    }
    assert kept - set(sets) == {np.packbits(np.ones(200, dtype=bool)).tobytes()}


def test_cuts_keep_the_stated_fractions():
    public = np.random.default_rng(0).normal(size=(1000, 2))
    kept = (0.3, 0.5, 0.95, 1.0)
    cuts = quantile_cuts(public, np.array([[1.0, 0], [0, -2]]), kept, 1e-9)
    for direction in range(2):
        inside = cuts.bins(public)[direction][:, None] <= np.arange(4)
        np.testing.assert_allclose(inside.mean(axis=0), kept)


def test_cuts_of_few_values_lie_between_them():
    public = np.repeat([[0.0], [1.0], [5.0]], [60, 30, 10], axis=0)
    cuts = quantile_cuts(public, np.array([[1.0]]), (0.3, 0.5, 0.6, 0.8, 0.95, 1.0), 1e-9)
    np.testing.assert_allclose(cuts.thresholds[0], [0.5, 3.0, 5.0])


def test_no_public_points_give_no_cuts():
    cuts = quantile_cuts(np.zeros((0, 2)), np.eye(2), (0.5,), 1e-9)
    assert cuts.n_cuts == (0, 0)


def test_cuts_on_a_line_are_all_halfspaces_of_algorithm_1():
    points = np.array([[2.0], [0.0], [2.0], [5.0]])
    cuts = point_cuts(points, 1e-9)
    halfspaces = {
        (float(normal[0]), round(intercept))
        for direction, count in enumerate(cuts.n_cuts)
        for normal, intercept in (cuts.halfspace(direction, cut) for cut in range(count))
    }
    # x ≤ p and x ≥ p for the three points.
    assert halfspaces == {(-1.0, 0), (-1.0, 2), (-1.0, 5), (1.0, 0), (1.0, -2), (1.0, -5)}


def test_a_row_has_the_same_bins_wherever_it_stands(monkeypatch):
    """Also in the last bit: otherwise adding a row could move another one across a cut."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(301, 17))
    directions = rng.normal(size=(9, 17))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # Cuts exactly at some rows' projections.
    exact = products(directions, rows)
    cuts = CutCandidates(directions, tuple(np.sort(line[::50]) for line in exact), 0.0)
    together = cuts.bins(rows)
    for order in (rng.permutation(301), np.arange(1, 301), np.arange(0, 301, 7), [17], [300, 0]):
        np.testing.assert_array_equal(cuts.bins(rows[order]), together[:, order])
        np.testing.assert_array_equal(products(directions, rows[order]), exact[:, order])


def test_occurrences_sparse_and_dense_agree():
    rng = np.random.default_rng(0)
    numbers = rng.integers(-5, 6, 100)
    values, counts = np.unique(numbers, return_counts=True)
    for array in (numbers, np.append(numbers, 10**12)):
        got = _selection.occurrences(array)
        expected = (values, counts) if array is numbers else (np.append(values, 10**12), np.append(counts, 1))
        np.testing.assert_array_equal(got[0], expected[0])
        np.testing.assert_array_equal(got[1], expected[1])
