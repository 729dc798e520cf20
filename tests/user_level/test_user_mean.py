"""The private mean: radii that follow the tail, and an error that more users never raise."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi

from skprivate import UserLevelMean
from skprivate.partitions import as_partitions
from skprivate.privacy import Adjacency, gaussian_noise_multiplier, public_generator
from skprivate.user_level import user_level_mean_errors
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import MeanProblem, UserGroups
from skprivate.user_level._ranges import (
    FINE_SCALES,
    balanced_radius,
    heaviness,
    quiet_growth,
    scale_counts,
    select_upper_scale,
    tail_factor,
    tail_radius,
    tail_rank,
)
from skprivate.user_level.means._user_mean import (
    BEYOND,
    DRAWS,
    TRAVEL,
    TrackedCentre,
    TrackedQuantile,
    UserMean,
    _with_side,
    draw_multipliers,
    least_clip,
)
from skprivate.utils._replay import Recording


@given(median=st.floats(1e-6, 1e6), ratio=st.floats(0.1, 1e4), growth=st.floats(1e-3, 1e6))
def test_the_ball_reaches_as_far_as_the_tail_and_no_farther_than_the_noise_allows(median, ratio, growth):
    upper = ratio * median
    radius = tail_radius(median, upper, growth)
    assert radius >= max(median, upper)
    assert radius <= max(median, upper, upper * ratio) * (1 + 1e-12)
    assert radius <= max(upper, median, growth * median) * (1 + 1e-12)


@given(
    ratio=st.floats(0.1, 1e4),
    level=st.floats(1e-9, 1.0),
    d=st.integers(1, 200),
    beyond=st.floats(1e-9, 0.99),
    growth=st.floats(1e-3, 1e6),
)
def test_the_ball_balances_bias_and_noise(ratio, level, d, beyond, growth):
    upper = ratio * 3.0
    radius = balanced_radius(3.0, upper, growth, level, d, beyond)
    free = balanced_radius(3.0, upper, math.inf, level, d, beyond)
    if ratio <= 1.0:  # no user is farther than half of them
        assert radius == free == upper
        return
    most = growth * max(heaviness(3.0, upper, d, beyond) * 3.0, 0.6745 * math.sqrt(min(beyond, 0.5)) * upper)
    assert radius == pytest.approx(min(free, max(upper, most)), rel=1e-4)
    # Without a second moment of the tail, bias is p·C·(upper/C)².
    assert free <= max(1.0, math.sqrt(beyond / level)) * upper * (1 + 1e-9)


@given(index=st.floats(2.0, 50.0), beyond=st.floats(1e-9, 0.4), noise=st.floats(1e-3, 10.0))
def test_bias_and_noise_of_a_power_law_are_equal(index, beyond, noise):
    """Users of whom a share x^−a is beyond x."""
    level = beyond * noise
    median, upper = 0.5 ** (-1 / index), beyond ** (-1 / index)
    radius = balanced_radius(median, upper, math.inf, level, 1, beyond)
    bias = radius ** (1 - index) / (index - 1)  # ∫ x^−a over x > radius
    assert bias == pytest.approx(level * radius, rel=1e-6)


@pytest.mark.parametrize("law", ["normal", "cube"])
def test_noise_falls_as_one_over_the_users(law):
    """Radius times noise, of expected quantiles: 16 times the users had a seventh of the noise."""
    products = []
    for n in (4000, 64_000):
        mechanism = UserMean(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, n), 5, True, bound=1e9)
        beyond = tail_rank(mechanism.split.tail_epsilon, len(FINE_SCALES)) / n
        squares = np.sort(np.sum(np.random.default_rng(0).uniform(-1, 1, size=(200_000, 5)) ** 2, axis=1))
        quantile = {
            "normal": lambda share: chi.isf(share, 5),
            "cube": lambda share: math.sqrt(squares[int((1 - share) * len(squares))]),  # noqa: B023
        }[law]
        radius = mechanism.radius(quantile(BEYOND), n, quantile(beyond), beyond)
        products.append(radius * mechanism.split.level(n, 5))
    assert 14 < products[0] / products[1] < 18


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    x=st.lists(st.floats(0, 1e12) | st.sampled_from([1.0, 2.0, math.inf, math.nan]), min_size=1, max_size=12),
    other=st.floats(0, 1e12) | st.sampled_from([1.0, 2.0, math.nan]),
    rank=st.integers(1, 12),
)
def test_one_user_moves_the_cost_of_an_upper_quantile_by_one(x, other, rank):
    def costs(values, near=2.0**50):
        seen = []

        class Tape:
            def select(self, scores, **options):
                assert options == {"sensitivity": 1, "epsilon": 0.5}
                seen.append(-np.asarray(scores))
                return 0

        select_upper_scale(
            scale_counts(np.array(values), FINE_SCALES),
            rank,
            epsilon=0.5,
            release=Tape(),
            scales=FINE_SCALES,
            near=near,
        )
        return seen[0]

    base = costs(x)
    assert base.min() == max(0, rank - len(x))  # some scale has the rank, unless users are fewer
    # By the definition, one scale at a time.
    nearest = np.abs(
        np.log2(np.maximum(np.nan_to_num(np.array(x), nan=np.inf), 1e-300))[:, None] - np.log2(FINE_SCALES)
    ).argmin(axis=1)
    nearest[~np.isfinite(x)] = len(FINE_SCALES) - 1
    above = (nearest[:, None] > np.arange(len(FINE_SCALES))).sum(axis=0)
    reached = (nearest[:, None] >= np.arange(len(FINE_SCALES))).sum(axis=0)
    np.testing.assert_array_equal(base, np.maximum(np.maximum(above - rank, rank - reached), 0))
    assert np.abs(costs([*x[1:], other]) - base).max() <= 1
    assert np.abs(costs([*x, other]) - base).max() <= 1
    # Scales from 7 octaves above a released one on are dearer, by e for each octave up to 14; public numbers alone.
    octaves = np.clip(np.log2(FINE_SCALES) - 7, 0, 7)
    np.testing.assert_array_equal(costs(x, near=1.0) - base, np.ceil(octaves * 2 / 0.5))


def test_an_upper_quantile_is_found_where_its_rank_is_decided(recording_release):
    distances = np.exp(np.random.default_rng(0).normal(size=5000))
    epsilon = 0.2
    rank = tail_rank(epsilon, len(FINE_SCALES))
    assert math.exp(-epsilon * rank / 2) * len(FINE_SCALES) <= math.exp(-9) * (1 + 1e-9)
    for seed in range(10):
        found = select_upper_scale(
            scale_counts(distances, FINE_SCALES),
            rank,
            epsilon=epsilon,
            release=recording_release(seed),
            scales=FINE_SCALES,
            near=1.0,
        )
        assert 0.3 * rank < (distances > found).sum() < 2.0 * rank
    # Users who all lie at the same distance: nothing beyond it is any better.
    for seed in range(10):
        found = select_upper_scale(
            scale_counts(np.full(5000, 3.0), FINE_SCALES),
            rank,
            epsilon=epsilon,
            release=recording_release(seed),
            scales=FINE_SCALES,
            near=1.0,
        )
        assert 2.0 < found < 4.0


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("d", "epsilon"),
    [
        (1, 1.0),
        (5, 1.0),
        (5, 0.2),
        pytest.param(20, 1.0, marks=pytest.mark.slow),
        pytest.param(40, 1.0, marks=pytest.mark.slow),
        (5, 5.0),
    ],
)
def test_predicted_errors_fall_with_every_user(d, epsilon, adjacency):
    """Also where the sum about the centre sets in, and where the tail is looked at."""
    errors = []
    for n in np.geomspace(60, 200_000, 120).astype(int).tolist():
        predicted = user_level_mean_errors(n, d, epsilon=epsilon, adjacency=adjacency)
        errors.append(predicted.total)
    errors = np.array(errors)
    assert (errors <= np.minimum.accumulate(errors) * 1.3).all()


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 5, 20])
@pytest.mark.parametrize(("adjacency", "public"), [("replace-one", True), ("add-remove", True), ("add-remove", False)])
def test_four_times_the_users_err_less(d, adjacency, public):
    """Medians of 40 errors; four times the users halve them at least."""
    errors = []
    for n in (200, 800, 3200):
        options = {"adjacency": adjacency, "n_users": n if public and adjacency == "add-remove" else None}
        squares = []
        for seed in range(40):
            X = np.random.default_rng([seed, n, d]).normal(size=(n, d))
            squares.append(np.sum(UserLevelMean(random_state=seed, **options).fit(X).mean_ ** 2))
        errors.append(math.sqrt(np.median(squares)))
    assert errors[1] < errors[0] and errors[2] < errors[1]


def tracked(X, epsilon, delta_sum, seed, recording_release):
    terms = Terms(epsilon, 1e-6, Adjacency.REPLACE_ONE if delta_sum == 2 else Adjacency.ADD_REMOVE, len(X))
    multiplier = gaussian_noise_multiplier(epsilon, 1e-6)
    near = TrackedQuantile(1.0)
    centre = TrackedCentre(terms, len(X), multiplier, np.zeros(X.shape[1]), near)
    users = as_partitions(MeanProblem(np.ascontiguousarray(X.T), UserGroups(np.arange(len(X)))))
    release = recording_release(seed)
    for _ in range(DRAWS):
        centre.step(users, least_clip(X.shape[1]) * near.distance, release)
    return centre


@pytest.mark.parametrize("unit", [0.1, 1.0, 30.0])
def test_the_distance_that_is_followed_is_found(unit, recording_release):
    """Whatever the unit of the users, and far from the origin."""
    X = unit * (np.random.default_rng(0).normal(size=(3000, 4)) + 1.0)
    for seed in range(4):
        centre = tracked(X, 1.0, 2, seed, recording_release)
        distances = np.linalg.norm(X - centre.w, axis=1)
        assert abs(np.mean(distances > centre.near.distance) - BEYOND) < 0.2
        assert np.linalg.norm(centre.w - X.mean(axis=0)) < 0.2 * unit * 2.0


@settings(max_examples=60, deadline=None)
@given(
    x=st.lists(
        st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, math.nan, math.inf, 5e-324]), min_size=4, max_size=40
    ),
    clip=st.sampled_from([1e-280, 0.5, 2.0, 1e200]),
    reach=st.sampled_from([1e-280, 1.0, 1e200]),
    side=st.sampled_from([None, 0.0, 0.02, 0.4]),
)
def test_a_vote_with_a_side_is_of_norm_one_and_its_users_own(x, clip, reach, side):
    X = np.array(x[: len(x) // 2 * 2]).reshape(2, -1)
    w = np.array([0.25, -3.0])
    terms = w, clip, reach, side
    with np.errstate(all="ignore"):
        votes = [
            _with_side(MeanProblem(X[:, i : i + 1].copy(), UserGroups(np.array([0]))), *terms)
            for i in range(X.shape[1])
        ]
        whole = _with_side(MeanProblem(X.copy(), UserGroups(np.arange(X.shape[1]))), *terms)
    assert whole.dtype == np.int64 and len(whole) == 2 + (side is not None)
    np.testing.assert_array_equal(np.sum(votes, axis=0), whole)
    for vote, column in zip(votes, X.T, strict=True):
        assert sum(int(v) ** 2 for v in vote) <= 2**60
        if np.isfinite(column).all() and np.abs(column).max() < 1e150:
            offset = column - w
            norm = math.hypot(*offset)
            expected = math.sqrt(1.0 - (side or 0.0) ** 2) * offset / max(norm, clip)
            np.testing.assert_allclose(vote[:2] / 2.0**30, expected, atol=1e-8)
            if side is not None:
                which = side if norm > reach else -side * BEYOND / (1.0 - BEYOND)
                assert vote[2] / 2.0**30 == pytest.approx(which, abs=1e-8)


def test_draws_of_two_kinds_cost_what_one_draw_does():
    first, later = draw_multipliers(3.0)
    assert TRAVEL / first**2 + (DRAWS - TRAVEL) / later**2 == pytest.approx(1.0 / 9.0)


def test_noise_moves_the_distance_neither_up_nor_down():
    """Limits of the part beyond from −.4 to .6 would cut noise on one side only."""
    moved = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        tracked = TrackedQuantile(1.0, 0.3)
        for _ in range(15):
            tracked.observe(0.6 * rng.normal(), 0.6, 0.0)
        moved.append(math.log(tracked.distance))
    # The mean of 40 with a deviation of about .35: .28 is five standard errors.
    assert abs(np.mean(moved)) < 0.28


def test_few_users_of_a_private_number_lose_nothing_to_draws_in_vain():
    """Twelve times an oracle's risk before: a sum about the centre was paid for and its radius not found."""
    squares = []
    for seed in range(20):
        X = np.random.default_rng([seed, 7]).normal(size=(200, 5))
        squares.append(
            np.sum((UserLevelMean(0.5, adjacency="add-remove", random_state=seed).fit(X - 1.0).mean_ + 1.0) ** 2)
        )
    assert np.median(squares) < 1.0


def test_more_users_are_no_worse_where_the_sum_sets_in():
    """The median of 20 errors at 700 users was twice that at 500; 1.5 has a chance below 1e-6 now."""
    medians = []
    for n in (500, 700):
        errors = []
        for seed in range(20):
            X = np.random.default_rng([seed, n]).normal(size=(n, 5))
            errors.append(np.linalg.norm(UserLevelMean(random_state=seed).fit(X).mean_ - X.mean(axis=0)))
        medians.append(np.median(errors))
    assert medians[1] < 1.5 * medians[0]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_skewed_users_are_not_biased_in_the_limit(adjacency):
    """Log-normal users; the constant factor of the median distance left −.15 of their deviation at any n and ε."""
    deviation = math.sqrt((math.e - 1) * math.e)
    bias = []
    for seed in range(5):
        X = np.exp(np.random.default_rng(seed).normal(size=(40_000, 1)))
        model = UserLevelMean(adjacency=adjacency, random_state=seed).fit(X)
        bias.append((model.mean_[0] - X.mean()) / deviation)
    assert abs(np.mean(bias)) < 0.03
    X = np.exp(np.random.default_rng(9).normal(size=(4000, 3)))
    precise = UserLevelMean(1e4, adjacency=adjacency, random_state=0).fit(X)
    np.testing.assert_allclose(precise.mean_, X.mean(axis=0), rtol=0.01)


def test_skewed_users_lose_little_before_the_limit():
    """A ball that waited for the noise left −.13 of the deviation at 2500 users; one that sees the tail −.07."""
    deviation = math.sqrt((math.e - 1) * math.e)
    bias = []
    for seed in range(20):
        X = np.exp(np.random.default_rng(seed).normal(size=(2500, 1)))
        bias.append((UserLevelMean(random_state=seed).fit(X).mean_[0] - X.mean()) / deviation)
    assert -0.105 < np.mean(bias) < 0.0


def test_zeros_of_most_users_do_not_hide_the_others():
    """The median distance is 0 where most users agree; the tail is not."""
    X = np.where(np.random.default_rng(0).random((20_000, 1)) < 0.6, 0.0, 10.0)
    model = UserLevelMean(random_state=0).fit(X)
    assert abs(model.mean_[0] - X.mean()) < 0.2


@pytest.mark.parametrize(("others", "place", "epsilon", "error"), [(0.3, 20.0, 1.0, 0.3), (0.05, 1.0, 8.0, 0.015)])
def test_users_far_from_most_are_found(others, place, epsilon, error):
    """A distance that began near that of most users did not get there: errors of .4, and of all of the mean."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.where(rng.random((3000, 1)) < others, place, 0.0) + (place > 1.0) * rng.normal(size=(3000, 1))
        errors.append(abs(UserLevelMean(epsilon, random_state=seed).fit(X).mean_[0] - X.mean()))
    assert np.median(errors) < error


@given(
    level=st.floats(1e-9, 10.0),
    n_users=st.integers(1, 10**9),
    part=st.floats(0.1, 1.0),
    median=st.floats(1e-6, 1e6),
    ratio=st.floats(0.5, 1e4),
    beyond=st.floats(1e-9, 0.499),
)
def test_noise_of_a_quiet_ball_is_part_of_the_sampling_noise(level, n_users, part, median, ratio, beyond):
    growth = quiet_growth(level, n_users, part)
    assert growth * level == pytest.approx(part / math.sqrt(n_users))
    # A tail that was found lets it grow four times as far, one that is none not at all. A share ``beyond`` of the users
    # has that norm at least: with a median of next to nothing the noise is part of what these alone leave.
    heavy = heaviness(median, ratio * median, 1, beyond)
    assert 1.0 <= heavy <= 4.0
    factor = tail_factor(median, ratio * median, growth, beyond)
    others = 0.6745 * math.sqrt(beyond) * ratio
    assert factor <= max(heavy, others) * growth * (1 + 1e-4)
    assert factor <= max(1.0, ratio * math.sqrt(heavy)) * (1 + 1e-12)


def test_few_skewed_users_are_averaged():
    """Means of five log-normal numbers: clipped at the median distance they had twice the squared error."""
    truth, ratios = math.exp(0.5), []
    for seed in range(60):
        X = np.exp(np.random.default_rng(seed).normal(size=(200, 5, 5))).mean(axis=1)
        model = UserLevelMean(3.0, adjacency="add-remove", n_users=200, random_state=seed).fit(X - truth)
        ratios.append(np.sum(model.mean_**2) / 0.0233)  # 5·4.67/(5·200): what sampling alone leaves
    # About 1.2 (2.3 before) with a deviation of 0.85: 1.9 is six standard errors of the mean farther.
    assert np.mean(ratios) < 1.9


@pytest.mark.parametrize("p", [0.05, 0.3, 0.9])
def test_a_share_of_zeros_and_ones_needs_a_public_radius(p):
    for seed in range(5):
        X = (public_generator(seed).random((1000, 1)) < p) * 1.0
        model = UserLevelMean(1.0, tau=0.5, random_state=seed).fit(X)
        assert abs(model.mean_[0] - X.mean()) < min(0.06, model.confidence_radius_)


@pytest.mark.parametrize("tau", [None, 1.0])
@pytest.mark.parametrize("n_users", [30, 3000])
def test_a_fit_draws_all_that_it_pays_for(n_users, tau):
    X = np.random.default_rng(0).normal(size=(n_users, 2))
    recording = Recording(UserLevelMean(epsilon=1.0, tau=tau, random_state=0).fit, X)
    drawn = Counter(event for draw in recording.draws for event in draw.events)
    guarantee = UserLevelMean(epsilon=1.0, tau=tau, random_state=0).fit(X).privacy_guarantee_
    assert drawn == Counter(dict(guarantee.events))
