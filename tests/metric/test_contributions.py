"""Rows enter what is released one by one: exact sums of contributions that no other row can change."""

import math

import numpy as np
import pytest
from helpers.every import every
from helpers.hat_measures import HatMoments
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skprivate.metric._domains import Box
from skprivate.metric.grid import _flows as _grid_flows
from skprivate.metric.grid import _hierarchy as _binary_hierarchy
from skprivate.metric.grid._bounds import PrivateBounds
from skprivate.metric.grid._flows import LaplaceFlow, hat_sums
from skprivate.metric.grid._hierarchy import BinaryHierarchy, BoxedHierarchy, HierarchyPlan, leaf_counts
from skprivate.privacy import open_release, public_generator
from skprivate.privacy._events import count_events, run_tape

EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 1e-308, 1.0, 1 - 2**-53, 1 + 2**-52, 1 / 3, 1e308, -1.7e308, 2.0**-60]
VALUES = st.one_of(
    st.sampled_from(EXTREMES),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-64, 64).map(lambda i: i / 48),
)
BOXES = [(0.0, 1.0), (-1e308, 0.7e308), (0.0, 5e-324), (1.0, 1 + 2**-52), (-1 / 3, 0.1), (1e15, 1e15 + 1)]

STATISTICS = {
    "hats": lambda unit: hat_sums(unit, 5, 20),
    "fine hats": lambda unit: hat_sums(unit, 1, 36),
    "cells": lambda unit: HierarchyPlan(unit.shape[1], 7).count(unit),
    "groups": lambda unit: HierarchyPlan(unit.shape[1], 7, 2).count(
        unit, (unit[:, 0] > 0.5) + 2 * (unit[:, -1] < 0.2).astype(np.int64)
    ),
}


@pytest.mark.parametrize("name", STATISTICS)
@settings(deadline=None, max_examples=40)
@given(d=st.integers(1, 3), n=st.integers(1, 11), box=st.sampled_from(BOXES), block=st.integers(1, 5), data=st.data())
def test_a_row_adds_its_own_contribution_and_nothing_else(name, d, n, box, block, data):
    X = data.draw(arrays(np.float64, (n, d), elements=VALUES))
    order = data.draw(st.permutations(range(n)))
    lower, upper = (np.full(d, end) for end in box)

    def total(rows):
        return STATISTICS[name](Box(lower, upper).to_unit(rows))

    with pytest.MonkeyPatch.context() as patch:
        for module in (_grid_flows, _binary_hierarchy):
            patch.setattr(module, "_BLOCK", block)
        whole = total(X)
        assert whole.dtype == np.int64 and whole.min() >= 0
        own = [total(X[i : i + 1]) for i in range(n)]
        np.testing.assert_array_equal(whole, sum(own))
        np.testing.assert_array_equal(whole, total(np.asfortranarray(X[list(order)])))
        mass = {"hats": 1 << 20, "fine hats": 1 << 36}.get(name, 1)
        assert {int(part.sum()) for part in own} == {mass}
        for i in range(n):
            np.testing.assert_array_equal(whole - total(np.delete(X, i, axis=0)), own[i])
    np.testing.assert_array_equal(whole, total(X))


def test_long_data_do_not_round():
    # 3·10^5 odd numbers near 2^36 at one node: float64 sums of them are not exact.
    rows = np.full((300_000, 1), 207 / (3 * 2.0**36))
    assert hat_sums(rows, 3, 36).tolist() == [300_000 * (2**36 - 207), 300_000 * 207, 0, 0]


@pytest.mark.parametrize("box", BOXES)
@settings(deadline=None, max_examples=60)
@given(x=VALUES, y=VALUES)
def test_the_unit_cube_is_monotone_and_holds_its_corners(box, x, y):
    lower, upper = box
    frame = Box(np.array([lower]), np.array([upper]))
    ends = frame.to_unit(np.array([[lower], [upper], [-1.7e308], [1.7e308]]))[:, 0]
    assert ends.tolist() == [0.0, 1.0, 0.0, 1.0]
    a, b = frame.to_unit(np.array([[min(x, y)], [max(x, y)]]))[:, 0]
    assert 0.0 <= a <= b <= 1.0
    assert lower <= frame.from_unit(np.array([[a]]))[0, 0] <= upper


@pytest.mark.parametrize("size", [2, 8, 2**14])
def test_cell_borders_belong_to_the_cell_above(size):
    borders = np.arange(1, min(size, 64)) / size
    for border, cell in zip(borders, range(1, 64), strict=False):
        for value, expected in ((border, cell), (np.nextafter(border, 0), cell - 1), (np.nextafter(border, 1), cell)):
            assert np.flatnonzero(leaf_counts(np.array([[value]]), (size,))) == [expected]
    assert np.flatnonzero(leaf_counts(np.array([[1.0]]), (size,))) == [size - 1]


def test_snapping_moves_a_row_by_less_than_a_step():
    # From the hats of one row its place on the lattice is read off exactly.
    rows = np.concatenate([public_generator(1).uniform(size=200), [0.0, 1.0, 5e-324, 1 - 2**-53]])
    cells, bits = 7, 36
    for value in rows:
        hats = hat_sums(np.array([[value]]), cells, bits)
        place = sum(node * int(mass) for node, mass in enumerate(hats.tolist()))
        numerator, denominator = value.as_integer_ratio()
        gap = abs(place * denominator - numerator * (cells << bits))
        assert gap < denominator
    assert math.prod(hats.shape) == cells + 1


class Counting:
    """Adds up the prices of the draws."""

    def __init__(self):
        self.events = []

    def draw(self, draw, sample):
        self.events += draw.events.items()
        return sample()


def hierarchy(depth=None, n_groups=None, bounds=None):
    box = Box(np.zeros(2), np.ones(2)) if bounds is None else bounds
    return BoxedHierarchy(box, BinaryHierarchy(0.9, 2, depth, n_groups))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: LaplaceFlow(1.0, n, 2, "linf", 3),
        lambda n: HatMoments(1.0, n, 2, "l2", 2),
        lambda n: hierarchy(),
        lambda n: hierarchy(depth=5),
        lambda n: hierarchy(n_groups=5),
        lambda n: hierarchy(bounds=PrivateBounds(0.1, 2)),
    ],
)
@every(
    "rows", [np.full((1, 2), 0.3), np.zeros((3000, 2)), public_generator(0).uniform(size=(500, 2)), np.zeros((0, 2))]
)
def test_a_run_draws_its_events_whatever_the_rows(make, rows):
    mechanism, tape = make(max(len(rows), 1)), Counting()
    metric = isinstance(mechanism, (LaplaceFlow, HatMoments))
    groups = None if metric or mechanism.hierarchy.n_groups is None else np.arange(len(rows)) % 5
    with run_tape(tape):
        release = open_release(
            epsilon=1.0,
            unit="data set" if metric else "row",
            adjacency="metric" if metric else "add-remove",
            metric="W1" if metric else None,
            random_state=0,
            plan=mechanism.events,
        )
        mechanism.run(rows if isinstance(mechanism, HatMoments) else (rows, groups), release)
    assert count_events(tape.events) == count_events(mechanism.events)
    assert dict(release.close().events) == count_events(mechanism.events)
