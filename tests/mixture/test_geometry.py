"""The affine span and the supporting halfspaces."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from helpers.coordinates import coordinates_on

from skprivate.mixture._geometry import count_supporting_pairs, public_frame, supporting_pairs


def test_general_position_supports_every_subset():
    points = np.random.default_rng(0).normal(size=(6, 3))
    pairs = supporting_pairs(points, 1e-9)
    assert len(pairs) == count_supporting_pairs(6, 3) == comb(6, 1) + comb(6, 2) + comb(6, 3)
    np.testing.assert_allclose(np.linalg.norm(pairs.normals, axis=1), 1.0)
    on_boundary = np.abs(points @ pairs.normals.T - pairs.offsets) < 1e-9
    supports = {tuple(np.flatnonzero(column)) for column in on_boundary.T}
    assert supports == {s for size in (1, 2, 3) for s in combinations(range(6), size)}


def test_both_sides_of_a_pair_contain_its_points_and_cover_everything():
    points = np.random.default_rng(1).normal(size=(7, 2))
    pairs = supporting_pairs(points, 1e-9)
    rows = np.concatenate([points, np.random.default_rng(2).normal(size=(50, 2))])
    positive, negative = pairs.memberships(rows)
    assert ((positive | negative) == 1).all()
    np.testing.assert_array_equal((positive & negative).any(axis=1), np.arange(57) < 7)
    for t in range(len(pairs)):
        normals, intercepts = pairs.sides((2 * t, 2 * t + 1))
        inside = rows @ normals.T + intercepts >= 0
        np.testing.assert_array_equal(inside, np.stack([positive[:, t], negative[:, t]], axis=1) == 1)


def test_small_sets_face_outward():
    """A single point's halfspace is tangent: the line to the points' mean is its normal."""
    square = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    pairs = supporting_pairs(square, 1e-9)
    alone = (np.abs(square @ pairs.normals.T - pairs.offsets) < 1e-9).sum(axis=0) == 1
    assert alone.sum() == 4
    np.testing.assert_allclose(np.abs(pairs.normals[alone]), 2**-0.5)


def test_duplicates_and_collinear_points_are_kept_once():
    points = np.array([[0.0, 0], [1, 0], [2, 0], [2, 0], [0, 1]])
    pairs = supporting_pairs(points, 1e-9)
    through_many = (np.abs(points @ pairs.normals.T - pairs.offsets) < 1e-9).sum(axis=0)
    # Four distinct points: three through the axis give one line, three more reach (0, 1), and four tangents, of
    # which some may coincide with a line.
    assert len(pairs) <= 4 + 1 + 3
    assert (through_many == 4).sum() == 1


def test_a_set_at_the_mean_still_has_a_halfspace():
    pairs = supporting_pairs(np.array([[-1.0, 0], [0, 0], [1, 0], [0, 1], [0, -1]]), 1e-9)
    assert np.isfinite(pairs.normals).all() and np.isfinite(pairs.offsets).all()


@pytest.mark.parametrize("dimension", [0, 1, 2, 3])
def test_the_span_has_the_right_dimension(dimension):
    rng = np.random.default_rng(dimension)
    public = rng.normal(size=(9, dimension)) @ rng.normal(size=(dimension, 4)) * [1, 10, 100, 1e-3] + 5
    frame = public_frame(public)
    assert frame.dimension == dimension
    coordinates, distance = coordinates_on(frame, public)
    assert coordinates.shape == (9, dimension)
    assert (distance <= frame.slack).all()
    _, off = coordinates_on(frame, public + np.array([0, 0, 0, 1.0]))
    assert (off > frame.slack).all()


def test_a_constant_column_is_constant_in_spite_of_rounding():
    public = np.column_stack([np.full(1001, 0.1), np.linspace(0, 1, 1001)])
    frame = public_frame(public)
    assert frame.dimension == 1
    assert (coordinates_on(frame, public)[1] <= frame.slack).all()
    assert coordinates_on(frame, np.array([[0.1001, 0.5]]))[1][0] > frame.slack


def test_no_points_span_nothing():
    frame = public_frame(np.zeros((0, 3)))
    assert frame.empty and frame.dimension == 0
    coordinates, distance = coordinates_on(frame, np.ones((2, 3)))
    assert coordinates.shape == (2, 0) and np.isinf(distance).all()


def test_extreme_rows_neither_overflow_nor_warn():
    frame = public_frame(np.random.default_rng(0).normal(size=(5, 2)))
    coordinates, distance = coordinates_on(frame, np.array([[1e308, -1e308], [0.0, 1e-308]]))
    assert np.isfinite(coordinates).all() and np.isfinite(distance).all()


def test_feature_space_form_is_the_same_halfspace():
    rng = np.random.default_rng(0)
    public = rng.normal(size=(9, 3)) * [1, 50, 0.01] + [3, -2, 10]
    frame = public_frame(public)
    normals, intercepts = rng.normal(size=(4, 3)), rng.normal(size=4)
    coefficients, shifted = frame.in_feature_space(normals, intercepts)
    rows = rng.normal(size=(20, 3)) * [1, 50, 0.01] + [3, -2, 10]
    expected = frame.scaled(rows) @ normals.T + intercepts
    np.testing.assert_allclose(rows @ coefficients.T + shifted, expected, rtol=1e-9, atol=1e-9)
