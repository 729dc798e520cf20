"""Confidence intervals: what a user adds to three sums, what follows from them, and that they cover."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from sklearn.compose import ColumnTransformer

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.partitions import Blocks
from skprivate.preprocessing import PrivatePipeline, PublicOneHotEncoder
from skprivate.privacy import Adjacency, PrivacyLedger, public_generator
from skprivate.user_level import TooFewUsersWarning
from skprivate.user_level._inference import Inference, Point, ScoreSums, _in_frame, _jacobian, score_sums, shrunk
from skprivate.user_level._losses import HuberLoss, LogisticLoss
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData, UserGroups
from skprivate.user_level.scaling._frame import Frame
from skprivate.utils.estimator_checks import replay_estimator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")

EXTREMES = [0.0, -0.0, 1.0, 1 / 3, 5e-324, 1e154, -1e160, 1.7e308, np.inf, np.nan]
LOSSES = [HuberLoss(0.7), HuberLoss(np.inf), LogisticLoss()]
D = 3


def data(X, codes, y, cap=1):
    return UserData(np.asfortranarray(X), y, UserGroups(codes, cap), np.arange(codes.max() + 1))


def parts(total):
    """Score, derivative and square, in units of a contribution of norm 1."""
    score, derivative, square = np.split(np.array(total, dtype=object), [D, D + D * D])
    return [np.array(each / 2**bits, dtype=float) for each, bits in ((score, 30), (derivative, 36), (square, 36))]


@pytest.mark.parametrize("loss", LOSSES, ids=["huber", "squared", "logistic"])
@pytest.mark.parametrize("seed", range(4))
def test_every_user_adds_alone_and_at_most_one(loss, seed, monkeypatch):
    """Of each pair of users the two matrices are at no obtuse angle, so that an exchange moves them by √2 at most."""
    monkeypatch.setattr("skprivate.user_level._problems.BLOCK_ROWS", [8192, 4][seed % 2])
    rng = public_generator(seed)
    codes = np.repeat(np.arange(7), [1, 300, 2, 1, 5, 1, 40])
    X = rng.choice(EXTREMES, size=(len(codes), D)) if seed < 2 else rng.normal(size=(len(codes), D))
    y = rng.choice([-1.0, 1.0], size=len(codes))
    at = Point(rng.normal(size=D), loss, 1.5, 3.0, 0.4 if seed % 3 else 1.5)
    sums = partial(score_sums, at=at)
    with np.errstate(all="ignore"):
        whole = sums(data(X, codes, y, cap=3))
        alone = [
            sums(data(X[codes == u], np.zeros((codes == u).sum(), dtype=int), y[codes == u], cap=3)) for u in range(7)
        ]
    assert np.array_equal(whole, np.sum(alone, axis=0))
    found = [parts(each) for each in alone]
    for own in found:
        assert all(np.linalg.norm(each) <= 1.0 for each in own)
    for k in (1, 2):
        for one in found:
            for other in found:
                assert one[k] @ other[k] >= 0.0


class Exact:
    """A release without noise that keeps the sensitivities it was told."""

    def __init__(self):
        self.sensitivities = []

    def gaussian(self, total, *, sensitivity, step, **_):
        self.sensitivities.append(sensitivity * step)
        return np.asarray(total, dtype=float) * step

    def select(self, scores, **_):
        return int(np.argmax(scores))


@pytest.mark.parametrize("adjacency", list(Adjacency)[:2], ids=str)
@pytest.mark.parametrize("loss", LOSSES[1:], ids=["squared", "logistic"])
def test_sensitivities_are_attained(loss, adjacency):
    """Two users at opposite ends move every sum by all of its sensitivity: half of it would be too little."""
    terms = Terms(1.0, 1e-6, adjacency, 1000)
    mechanism = Inference(terms, D, False, isinstance(loss, LogisticLoss), True)
    at = Point(np.zeros(D), loss, 1.0, 1.0, 0.4)

    def sums(x, y):
        total = score_sums(data(np.array([x]), np.array([0]), np.array([y])), at)
        release = Exact()
        mechanism._released(total, at, release)
        return parts(total), release.sensitivities

    # Opposite scores; rows at right angles.
    (one, told), (other, _), (third, _) = (
        sums([1.0, 0.0, 0.0], 1.0),
        sums([1.0, 0.0, 0.0], -1.0),
        sums([0.0, 1.0, 0.0], 1.0),
    )
    # The derivative of a user who is not clipped; of classes it is largest where chances are even.
    at = at._replace(clip=10.0)
    (first, _), (second, _) = (sums(x, 1.0) for x in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    if adjacency == "replace-one":
        pairs = (one[0] - other[0], first[1] - second[1], one[2] - third[2])
    else:
        pairs = (one[0], first[1], one[2])
    assert [np.linalg.norm(each) for each in pairs] == pytest.approx(told, rel=1e-4)


@pytest.mark.parametrize("adjacency", list(Adjacency)[:2], ids=str)
@pytest.mark.parametrize("kind", [UserLevelSGDRegressor, UserLevelSGDClassifier])
def test_replayed_draws_keep_their_sensitivities(kind, adjacency):
    labels = {"classes": [0, 1]} if kind is UserLevelSGDClassifier else {}
    model = kind(1e3, inference=True, adjacency=adjacency, max_iter=2, random_state=0, **labels)
    report = replay_estimator(model, at_most=2)
    report.raise_failures(kind.__name__)
    assert report.n_draws > 6 and max(report.worst.values()) <= 1.0


def by_hand(X, y, coef, loss, at, weights=1.0):
    """The three sums of users with one row each, in float64."""
    lengths = np.linalg.norm(X, axis=1)
    omega = np.minimum(1.0, np.minimum(at.near / lengths, at.near * at.far / lengths**2))
    f = X @ coef
    if isinstance(loss, LogisticLoss):
        slope, curvature = expit(f) - (y > 0), expit(f) * expit(-f)
    else:
        slope = np.clip(f - y, -loss.threshold, loss.threshold)
        curvature = np.abs(f - y) < loss.threshold
    scores = X * (omega * slope)[:, None]
    return scores.sum(axis=0), (X * (omega * curvature)[:, None]).T @ X, scores.T @ scores


@pytest.mark.parametrize("loss", LOSSES[::2], ids=["huber", "logistic"])
def test_sums_are_those_of_the_model(loss):
    rng = public_generator(3)
    X, coef = rng.normal(size=(500, D)), np.array([0.5, -0.2, 0.1])
    y = np.sign(X @ coef + rng.logistic(size=500))
    near, far = 1.2, 2.5
    clip = near * (loss.threshold if isinstance(loss, HuberLoss) else 1.0)
    at = Point(coef, loss, near, far, clip)
    score, derivative, square = parts(score_sums(data(X, np.arange(500), y), at))
    wanted = by_hand(X, y, coef, loss, at)
    largest = near * far * (0.25 if isinstance(loss, LogisticLoss) else 1.0)
    np.testing.assert_allclose(score * clip, wanted[0], rtol=1e-6)
    np.testing.assert_allclose(derivative.reshape(D, D) * largest, wanted[1], atol=2e-3)
    np.testing.assert_allclose(square.reshape(D, D) * clip**2, wanted[2], atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=["squared", "logistic"])
def test_clipped_users_curve_in_part_and_light_ones_count_by_their_weight(loss):
    rng = public_generator(4)
    X, coef = rng.normal(size=(500, D)), np.array([0.5, -0.2, 0.1])
    y, at = np.sign(X @ coef + rng.logistic(size=500)), Point(coef, loss, 1.2, 2.5, 0.5)
    score, derivative, square = parts(score_sums(data(X, np.arange(500), y, cap=3), at))
    alone = [by_hand(X[[u]], y[[u]], coef, loss, at) for u in range(500)]
    lengths = np.array([np.linalg.norm(each[0]) for each in alone])
    assert 100 < (lengths > at.clip).sum() < 400
    v = [each[0] / max(length, at.clip) for each, length in zip(alone, lengths, strict=True)]
    kept = np.where(lengths > at.clip, (1.0 - 1.0 / D) * at.clip / lengths, 1.0)
    largest = at.near * at.far * (0.25 if isinstance(loss, LogisticLoss) else 1.0)
    curved = sum(part * each[1] for part, each in zip(kept, alone, strict=True)) / largest
    np.testing.assert_allclose(score, np.sum(v, axis=0) / 3, rtol=1e-6)
    np.testing.assert_allclose(derivative.reshape(D, D), curved / 3, atol=2e-3)
    np.testing.assert_allclose(square.reshape(D, D), np.transpose(v) @ v / 9, atol=2e-3)


def test_a_step_without_noise_is_newtons_with_the_sandwich():
    rng = public_generator(5)
    H = np.cov(rng.normal(size=(4, 30)))
    J = np.cov(rng.normal(size=(4, 30)))
    g = rng.normal(size=4)
    found = ScoreSums((g, H, J), (0.0, 0.0, 0.0)).solve()
    np.testing.assert_allclose(found.move, -np.linalg.solve(H, g))
    np.testing.assert_allclose(found.error @ found.error.T, np.linalg.inv(H) @ J @ np.linalg.inv(H))
    assert not found.noise.any() and found.hidden.shape == (4, 0)
    # Noise of the score alone, and a derivative that is lost in its own.
    louder = ScoreSums((g, H, J), (0.5, 0.0, 0.0)).solve()
    np.testing.assert_allclose(louder.noise @ louder.noise.T, 0.25 * np.linalg.inv(H) @ np.linalg.inv(H))
    np.testing.assert_allclose(
        louder.error @ louder.error.T, (found.error @ found.error.T) + (louder.noise @ louder.noise.T)
    )
    assert ScoreSums((g, H, J), (0.5, 100.0, 0.0)).solve() is None


def test_directions_that_noise_hides_take_no_step():
    """What is left is the step of the others alone, as if the hidden ones were not there."""
    rng = public_generator(6)
    H, J = (np.cov(rng.normal(size=(3, 30))) for _ in range(2))
    g = rng.normal(size=3)
    turn = np.linalg.qr(rng.normal(size=(4, 4))).Q
    wide = [turn[:, :3] @ each for each in (g, H @ turn[:, :3].T, J @ turn[:, :3].T)]
    found = ScoreSums(tuple(wide), (0.0, 1e-6, 0.0)).solve()
    np.testing.assert_allclose(np.abs(found.hidden.ravel()), np.abs(turn[:, 3]), atol=1e-4)
    np.testing.assert_allclose(found.move, -turn[:, :3] @ np.linalg.solve(H, g), rtol=1e-4, atol=1e-6)
    assert np.allclose(found.error.T @ turn[:, 3], 0.0, atol=1e-4)


def test_matrices_shrink_towards_the_identity_as_far_as_noise_explains():
    rng = public_generator(6)
    noise = rng.normal(size=(5, 5))
    alike, left = shrunk(10.0 * np.eye(5) + 0.05 * (noise + noise.T), 0.1 * np.sqrt(2.0) * 3.0)
    assert np.ptp(np.linalg.eigvalsh(alike)) == 0.0 and left < 0.2
    apart, left = shrunk(np.diag([1.0, 2.0, 3.0]), 1e-3)
    np.testing.assert_allclose(apart, np.diag([1.0, 2.0, 3.0]), atol=1e-5)
    assert left == pytest.approx(1e-3, rel=1e-2)


def test_units_of_the_caller_come_back():
    rng = public_generator(7)
    frame = Frame(rng.normal(size=4), rng.uniform(0.5, 3.0, size=4), 7.0, 2.5)
    coef = rng.normal(size=5)
    mapped = frame.coefficients(coef[None], True)[0]
    np.testing.assert_allclose(_in_frame(mapped, frame, True), coef)
    moved = frame.coefficients((coef + 0.1)[None], True)[0] - mapped
    np.testing.assert_allclose(_jacobian(frame, True) @ np.full(5, 0.1), moved)
    without = frame.coefficients(coef[None, :4], False)[0]
    np.testing.assert_allclose(_in_frame(without, frame, False), coef[:4])


def linear(n=4000, seed=0, classes=False):
    rng = public_generator(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + [0.0, 5.0]
    scores = X @ [0.5, 0.03]
    return X, (scores + rng.logistic(size=n) > 0.15).astype(int) if classes else scores + rng.normal(size=n)


def test_it_is_off_by_default_and_asked_for_otherwise():
    X, y = linear(400)
    model = UserLevelSGDRegressor(1.0, random_state=0).fit(X, y)
    assert not hasattr(model, "coef_interval_")
    for call in (model.confidence_interval, model.summary):
        with pytest.raises(ValueError, match="inference=True"):
            call()


@pytest.mark.parametrize("kind", [UserLevelSGDRegressor, UserLevelSGDClassifier])
def test_few_users_pay_nothing_for_intervals_that_cannot_be(kind):
    """Public numbers tell: the fit is that without intervals, to the last bit, and a warning says how many it takes."""
    classes = kind is UserLevelSGDClassifier
    X, y = linear(400, classes=classes)
    options = {"random_state": 0, **({"classes": [0, 1]} if classes else {})}
    with pytest.warns(TooFewUsersWarning, match="confidence intervals.*NaN. About [0-9]+ users"):
        model = kind(1.0, inference=True, **options).fit(X, y)
    plain = kind(1.0, **options).fit(X, y)
    assert np.array_equal(model.coef_, plain.coef_) and np.array_equal(model.intercept_, plain.intercept_)
    assert np.isnan(model.coef_interval_).all() and model.coef_interval_.shape == (*model.coef_.shape, 2)
    assert model.privacy_guarantee_.events == plain.privacy_guarantee_.events
    assert "nan" in str(model.summary())


def test_few_users_are_warned_of_before_anything_is_paid():
    X, y = linear(400)
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5, simulation=True)
    with warnings.catch_warnings(), pytest.raises(TooFewUsersWarning, match="n = 400 users at epsilon = 1 are too few"):
        warnings.simplefilter("error", TooFewUsersWarning)
        UserLevelSGDRegressor(1.0, inference=True, ledger=ledger, random_state=0).fit(X, y)
    assert ledger.spent[0] == 0.0


@pytest.mark.parametrize("kind", [UserLevelSGDRegressor, UserLevelSGDClassifier])
@pytest.mark.parametrize("adjacency", list(Adjacency)[:2], ids=str)
def test_a_fit_within_its_budget(kind, adjacency):
    classes = kind is UserLevelSGDClassifier
    X, y = linear(classes=classes)
    model = kind(1.0, inference=True, adjacency=adjacency, **({"classes": [0, 1]} if classes else {}))
    model.fit(X, y)
    assert 0.99 < model.privacy_guarantee_.epsilon <= 1.0
    low, high = np.moveaxis(model.coef_interval_, -1, 0)
    truth = np.array([0.5, 0.03])
    # Six standard errors, of which one is a quarter of the interval's width or a little more.
    assert np.all(np.abs(model.coef_ - truth) < 6 * model.coef_error_) and np.all(high - low < 1.2 * truth)
    wide = model.confidence_interval(0.999)
    assert np.all(wide[..., 0] < low) and np.all(wide[..., 1] > high)
    assert np.all((model.noise_share_ > 0.0) & (model.noise_share_ < 1.0))
    summary = model.summary(0.9)
    assert summary.names == ("x0", "x1") and "90 % interval" in str(summary)
    with pytest.raises(ValueError, match="level"):
        model.confidence_interval(95)


def with_categories(n=20_000, seed=0):
    """A column of three categories, the second the commonest, and two numbers; effects against that category."""
    rng = public_generator(seed)
    codes, X = rng.choice(3, size=n, p=[0.3, 0.5, 0.2]), rng.normal(size=(n, 2))
    effects = np.array([0.8, 0.0, -0.6])
    return codes, X, X @ [0.5, -0.3] + effects[codes] + 2.0, effects


@pytest.mark.parametrize("kind", [UserLevelSGDRegressor, UserLevelSGDClassifier])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_categories_of_a_pipeline_are_differences_from_the_commonest(kind, fit_intercept):
    codes, X, scores, effects = with_categories()
    rng, classes = public_generator(1), kind is UserLevelSGDClassifier
    y = (scores - 2.0 + rng.logistic(size=len(X)) > 0).astype(int) if classes else scores + rng.normal(size=len(X))
    # Without an intercept the first set of categories keeps coefficients of its own.
    sets = ((0, 1, 2),) if fit_intercept else ((3, 4), (0, 1, 2))
    model = kind(
        1.0, inference=True, fit_intercept=fit_intercept, random_state=0, **({"classes": [0, 1]} if classes else {})
    )
    model._categories = sets
    model._prepared_features = ("unit", "unit", "unit", *(() if fit_intercept else ("unit", "unit")), None, None)
    halves = np.eye(2)[rng.integers(2, size=len(X))]
    columns = [np.eye(3)[codes], *([] if fit_intercept else [halves]), X]
    model.fit(np.column_stack(columns), y)
    coef, errors = model.coef_.ravel(), model.coef_error_.ravel()
    assert coef[1] == errors[1] == model.noise_share_.ravel()[1] == 0.0
    assert np.all(np.abs(coef[:3] - effects) <= 4.5 * errors[:3]) and np.all(errors[[0, 2]] < 0.15)
    assert np.all(np.abs(coef[-2:] - [0.5, -0.3]) <= 4.5 * errors[-2:]) and np.all(errors < 0.3)
    if not classes:
        assert np.square(model.predict(np.column_stack(columns)) - scores).mean() < 0.02


def test_a_pipeline_tells_which_columns_are_categories():
    codes, X, scores, effects = with_categories()
    table = np.column_stack([codes, X])
    encode = ColumnTransformer([("of", PublicOneHotEncoder([0, 1, 2]), [0])], remainder="passthrough")
    model = UserLevelSGDRegressor(1.0, inference=True, random_state=0)
    with pytest.warns(TooFewUsersWarning, match="noise hides a combination"):  # nobody is in the rest
        model = PrivatePipeline([("encode", encode), ("model", model)]).fit(table, scores + X[::-1, 0])[-1]
    assert np.isnan(model.coef_error_).tolist() == [False, False, False, True, False, False]
    assert np.all(np.abs(model.coef_[:3] - effects) <= 4.5 * model.coef_error_[:3])
    assert not model._categories


def test_indicators_in_an_array_leave_other_coefficients_their_intervals():
    codes, X, scores, _ = with_categories(50_000)
    rng = public_generator(2)
    with pytest.warns(TooFewUsersWarning, match="0, 1, 2: noise hides"):
        model = UserLevelSGDRegressor(1.0, inference=True, random_state=0).fit(
            np.column_stack([np.eye(3)[codes], X]), scores + rng.normal(size=len(X))
        )
    assert np.isnan(model.coef_interval_[:3]).all()
    assert np.all(np.abs(model.coef_[3:] - [0.5, -0.3]) <= 4.5 * model.coef_error_[3:])


def test_a_step_that_does_not_arrive_has_no_interval():
    """Of a target without errors the descent is many clips away, which the step itself shows."""
    X, _ = linear()
    with pytest.warns(TooFewUsersWarning, match="errors that are not tiny"):
        model = UserLevelSGDRegressor(1.0, inference=True, random_state=0).fit(X, X @ [0.5, 0.3])
    assert np.isnan(model.coef_error_).all()


def test_blocks_give_the_same_bits():
    X, y = linear()
    whole = UserLevelSGDRegressor(1.0, inference=True, random_state=0).fit(X, y)
    table = np.column_stack([X, y])
    blocks = Blocks([table[:1500], table[1500:1600], table[1600:]])
    parted = UserLevelSGDRegressor(1.0, inference=True, random_state=0).fit(blocks, 2)
    assert np.array_equal(whole.coef_interval_, parted.coef_interval_)
    assert whole.intercept_ == parted.intercept_


def test_rows_of_the_caller_are_left_alone():
    X, y = linear()
    users = np.arange(len(X))[::-1].copy()
    before = X.copy(), y.copy()
    UserLevelSGDRegressor(1.0, inference=True, random_state=0).fit(X, y, user_ids=users)
    assert np.array_equal(X, before[0]) and np.array_equal(y, before[1])


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (UserLevelSGDRegressor, {"loss": "huber"}, "loss='squared_error', got 'huber'"),
        (UserLevelSGDRegressor, {"alpha": 0.5}, "alpha=None, got 0.5"),
        (UserLevelSGDClassifier, {"loss": "smoothed_hinge"}, "loss='log_loss'"),
        (UserLevelSGDClassifier, {"class_weight": "balanced"}, "class_weight=None"),
        (UserLevelSGDClassifier, {"classes": [0, 1, 2]}, "two classes, got 3"),
    ],
    ids=str,
)
def test_refusals_spend_nothing(kind, options, message):
    X, y = linear(50, classes=True)
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5, simulation=True)
    with pytest.raises(ValueError, match=message):
        kind(1.0, inference=True, ledger=ledger, random_state=0, **options).fit(X, y)
    assert ledger.spent[0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "skewed", "classes", "users"])
def test_intervals_cover(law):
    """Of 2 × 60 intervals of level 0.95 more than 20 miss with chance 1e-6; those without noise would miss 30."""
    missed = 0
    for seed in range(60):
        rng = public_generator(1000 + seed)
        n, m = 5000, 4 if law == "users" else 1
        X = rng.exponential(size=(n * m, 2)) - 1.0 if law == "skewed" else rng.normal(size=(n * m, 2))
        scores, truth = X @ [0.5, -0.3], np.array([0.5, -0.3])
        options = {"inference": True, "random_state": seed}
        if law == "classes":
            y = (scores + rng.logistic(size=n) > 0.5).astype(int)
            model = UserLevelSGDClassifier(1.0, classes=[0, 1], **options).fit(X, y)
        else:
            errors = rng.exponential(size=n * m) - 1.0 if law == "skewed" else rng.normal(size=n * m)
            y = scores + errors + np.repeat(rng.normal(size=n), m)
            ids = np.arange(n * m) // m if m > 1 else None
            model = UserLevelSGDRegressor(1.0, **options).fit(X, y, user_ids=ids)
        missed += int((np.abs(model.coef_.ravel() - truth) > 1.96 * model.coef_error_.ravel()).sum())
    assert missed <= 20
