"""Integer rows at the edges: gaps, rows of zeros, norms that round, and nobody hears of them."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from skprivate.user_level._losses import HuberLoss, SquaredLoss
from skprivate.user_level._problems import UserData, UserGroups
from skprivate.user_level.descent import _scaled_rows
from skprivate.user_level.descent._preconditioned import DIAGONAL_BITS, METRIC_BITS, Scaling
from skprivate.user_level.descent._scaled_rows import (
    MOST_FACTOR_BITS,
    PRODUCT_ROWS,
    UserMeans,
    class_gradient_sum,
    class_slope_sum,
    gradient_sum,
    moment_sum,
    scale_rows,
    slope_sum,
    with_limits,
)
from skprivate.user_level.scaling._frame import WHOLE_BITS, Frame

D = 2
#: Without an intercept a row at the centre is all zeros. Gaps are filled far from it.
FRAME = Frame(np.zeros(D), np.ones(D), 0.0, 1.0, True, 9.0, np.full(D, 5.0), 6.0, np.array([50.0, -3.0]))


def scaled(X, y, constant=False, frame=FRAME):
    own = np.arange(len(X))
    data = UserData(np.asarray(X, dtype=float), np.asarray(y, dtype=float), UserGroups.of_sizes(own * 0 + 1), own)
    return scale_rows(data, frame, 3.0, constant, True)


@pytest.mark.parametrize("constant", [False, True])
def test_a_gap_is_a_row_with_the_fill_in_its_place(constant):
    gaps = scaled([[np.nan, 1.0], [np.nan, np.nan], [0.5, np.nan]], np.zeros(3), constant)
    filled = scaled([[50.0, 1.0], [50.0, -3.0], [0.5, -3.0]], np.zeros(3), constant)
    for name in ("whole", "norms", "shares"):
        assert (getattr(gaps, name) == getattr(filled, name)).all()
    squares = np.square(gaps.whole.astype(float)).sum(axis=1)
    assert (gaps.norms**2 >= squares).all()


@pytest.mark.parametrize("matrix", [np.ones(D), np.arange(1.0, D + 1), np.eye(D)[::-1] * 3.0])
@pytest.mark.parametrize("steps", [2.0**20, 2.0**40])
def test_rows_of_zeros_and_short_ones_have_multiples_whose_sums_are_exact(matrix, steps):
    rows = scaled([[0.0, 0.0], [2.0**-14, 0.0], [1.0, -1.0]], [1.7e308, -1.7e308, 1.7e308])
    with np.errstate(all="ignore"):
        limited = with_limits(rows, matrix, steps)
        assert limited.limits.max() <= 2.0**21
        total = gradient_sum(limited, np.ones(D), SquaredLoss(), steps)
    assert total.dtype == np.int64


def test_a_slope_that_is_no_number_is_within_the_limits():
    rows = scaled([[1.0, -1.0]], [np.nan])
    total = gradient_sum(with_limits(rows, np.ones(D), 2.0**20), np.ones(D), SquaredLoss(), 1.0)
    assert sum(int(v) ** 2 for v in total) <= 2**40


def test_no_multiple_passes_its_limit_where_norms_are_rounded_down():
    """Norm √(2⁵⁶ + 1) is 2²⁸ in float64: four of it are more than 2³⁰."""
    rows = scaled([[1.0, 0.0]], [0.0])
    rows = replace(rows, whole=np.array([[2.0**16, 1.0]], dtype=np.float32))
    limits = with_limits(rows, np.array([[2.0**12, 0.0], [0.0, 1.0]]), 2.0**30).limits
    assert int(limits[0]) ** 2 * (2**56 + 1) <= 2**60


@pytest.mark.parametrize("matrix", ["full", "diagonal"])
def test_limits_of_a_row_are_the_same_to_the_last_bit_whatever_other_rows_are(matrix, monkeypatch):
    monkeypatch.setattr(_scaled_rows, "MOST_FACTOR_BITS", 200)  # shows all bits of a limit
    d = 60
    rng = np.random.default_rng(3)
    frame = Frame(np.zeros(d), np.ones(d), 0.0, 1.0, True, 15.0, np.full(d, np.inf), 6.0)
    X, own = rng.standard_t(2, size=(50, d)), np.rint(2.0**METRIC_BITS * rng.uniform(-1.0, 1.0, (d, d)))
    own = own if matrix == "full" else np.rint(2.0**DIAGONAL_BITS * rng.uniform(0.1, 1.0, d))

    def limits(rows):
        alone = np.ones(len(rows), dtype=int)
        data = UserData(rows, np.zeros(len(rows)), UserGroups.of_sizes(alone), np.arange(len(rows)))
        return with_limits(scale_rows(data, frame, 3.0, False, True), own, 2.0**150).limits

    together = limits(X)
    assert (limits(X[::-1])[::-1] == together).all()
    assert all(limits(row[None]) == limit for row, limit in zip(X, together, strict=True))


def test_means_of_a_user_do_not_depend_on_the_order_of_its_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, D)), rng.normal(size=5000)
    found = []
    for order in (np.arange(5000), rng.permutation(5000)):
        data = UserData(X[order], y[order], UserGroups.of_sizes(np.array([5000])), np.arange(1))
        rows = scale_rows(data, FRAME, 3.0, True, True)
        # A power of two that leaves many digits of a mean.
        means = UserMeans(coef=np.ones(D + 1), loss=SquaredLoss(), most=2.0**3, matrix=np.ones(D + 1))
        found += [means.contribution_sum(rows, 0.0)]
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("matrix", ["full", "diagonal"])
def test_means_are_integers_whose_products_with_coordinates_are_exact(matrix):
    d = 200
    rng = np.random.default_rng(1)
    frame = Frame(np.zeros(d), np.ones(d), 0.0, 1.0, True, 2.0**4 - 2.0**-8, np.full(d, np.inf), 6.0)
    # Rows of a user are alike and have entries of one size, and coordinates have their signs: sums are the largest.
    X, y = np.repeat(1e3 * np.sign(rng.normal(size=(20, d))), 2, axis=0), 1e3 * np.sign(rng.normal(size=40))
    X *= rng.uniform(0.9, 1.1, size=X.shape)
    y[20:] = rng.uniform(0.6, 0.9, size=20)  # slopes within their bound
    rows = scale_rows(UserData(X, y, UserGroups(np.arange(40) // 2), np.arange(20)), frame, 3.0, False, True)
    coordinates = (2.0**METRIC_BITS - 1.0) * np.sign(X[2 * (np.arange(d) % 20)].T)
    means = UserMeans(
        coef=np.full(d, 1e-3), loss=SquaredLoss(), most=1.0, matrix=coordinates if matrix == "full" else coordinates[0]
    )
    whole = np.concatenate([block for _, block in means.means(rows)], axis=1)
    assert (whole == np.rint(whole)).all()
    exact = means.matrix.astype(int).astype(object)
    exact = exact.T @ whole.astype(int) if matrix == "full" else exact[:, None] * whole.astype(int)
    found = np.concatenate([block for _, block in means.vectors(rows)], axis=1)
    assert (np.vectorize(int)(found) == exact).all()


@pytest.mark.parametrize("d", [1, 3, 200])
def test_scores_are_exact_sums_of_integers(d):
    rng = np.random.default_rng(2)
    frame = Frame(np.zeros(d), np.ones(d), 0.0, 1.0, True, 2.0**4 - 2.0**-8, np.full(d, np.inf), 6.0)
    X, coef = 1e3 * rng.normal(size=(40, d)), np.sign(rng.normal(size=(3, d))) * (1.0 - rng.random((3, d)) / 7.0)
    alone = np.ones(40, dtype=int)
    rows = scale_rows(UserData(X, np.zeros(40), UserGroups.of_sizes(alone), np.arange(40)), frame, 3.0, False, True)
    whole, unit = rows.whole_coef(coef)
    for _, z, scores in rows.scores(coef):
        exact = whole.astype(int).astype(object) @ z.astype(int).astype(object).T
        assert (np.vectorize(int, otypes=[object])(scores / unit) == exact).all()
    np.testing.assert_allclose(whole * unit / rows.unit, coef, rtol=2.0**-20)


def test_products_of_blocks_stay_below_what_floats_hold():
    """The table of bits in docs/design.md: one more of any of these, and a sum may depend on its order."""
    of_rows = PRODUCT_ROWS.bit_length() - 1
    assert of_rows + WHOLE_BITS + MOST_FACTOR_BITS <= 52  # gradients
    assert of_rows + 2 * WHOLE_BITS + 2 <= 52  # moments, whose targets have one bit more
    assert 2 * (WHOLE_BITS + DIAGONAL_BITS) + 2 <= 52  # squared lengths
    assert WHOLE_BITS + MOST_FACTOR_BITS + METRIC_BITS <= 52  # users' means, whose bits fall with the columns


def test_nobody_hears_of_a_row_of_zeros_or_of_an_overflow_outside_of_a_fit():
    """Threads do not inherit what their caller ignores."""
    frame = FRAME._replace(scales=np.full(D, 0.1), target_scale=0.1)
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        X = [[0.0, 0.0], [1.7e308, -1.7e308], [5e-324, np.nan]]
        rows = scaled(X, [1.7e308, -1.7e308, 5e-324], frame=frame)
        limited = with_limits(rows, np.ones(D), 2.0**20)
        gradient_sum(limited, np.full(D, 1e308), SquaredLoss(), 2.0**20)
        slope_sum(rows, np.full(D, 1e308), HuberLoss(np.inf), 1e-300)
        moment_sum(rows, 2.0)
        means = UserMeans(coef=np.ones(D), loss=SquaredLoss(), most=1e-301, matrix=np.ones(D))
        means.contribution_sum(rows, 1.0)
        means.norm_counts(rows)
        means.slope_sum(rows)
        limited = replace(limited, y=np.eye(3))
        for coef in (np.zeros((3, D)), np.full((3, D), 1e308)):
            class_gradient_sum(limited, coef, 2.0**1000)
            class_slope_sum(limited, coef)


def test_a_row_without_slopes_and_without_a_multiple_spoils_no_sum_of_classes():
    """A limit of 0 over a norm of 0 is no number."""
    rows = replace(scaled([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), y=np.eye(2), limits=np.array([0.0, 2.0**16]))
    coef = 1e3 * np.array([[1.0, -1.0], [-1.0, 1.0]])  # both rows are predicted for certain
    assert not class_gradient_sum(rows, coef, 2.0**16).any()
    wrong = class_gradient_sum(replace(rows, y=np.eye(2)[::-1]), coef, 2.0**16)
    assert wrong[:, 1].all() and not wrong[:, 0].any()


def test_no_representation_tells_the_seed_of_a_sample():
    scaling = Scaling(search=None, n_users=10, n_sample=5, seed=123_456_789, several=True)
    assert "123456789" not in repr(scaling)
