"""No private fit is worse than a constant by more than the noise explains."""

import warnings
from itertools import product

import numpy as np
import pytest
from helpers.cells import index_cells
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, RandomBagRegressor
from skprivate.aggregate._losses import BUILT_IN
from skprivate.aggregate.additive._constant import LabelSums, guarded_fit, no_worse_than_constant
from skprivate.aggregate.additive._design import CellDesign, constant_start, fit_tables
from skprivate.aggregate.additive._evidence import _optimism, filtered_mode
from skprivate.aggregate.tables._labels import (
    LabelNoise,
    LabelSensitivity,
    _find_interval,
    _guess_largest,
    private_label_bounds,
    range_counts,
)
from skprivate.privacy import PrivacyLedger


def deviance(y, mean):
    return mean - y * np.log(np.maximum(mean, 1e-300))


def draw_model(rng, n, d, m):
    """Public features in m codes each, some of them skewed, and a score that depends on them."""
    codes = rng.integers(0, m, size=(n, d))
    X = np.exp(5.0 * codes / m) if rng.random() < 0.3 else codes.astype(float)
    effect = rng.normal(size=(d, m)) * rng.choice([0.0, 0.5, 1.5]) / np.sqrt(d)
    return X, sum(effect[j][codes[:, j]] for j in range(d)) + 0.5 * rng.normal()


def draw_parameters(rng, bags):
    if bags == "curated":
        return {
            "feature_sets": ["auto", "pairs", "singles"][rng.integers(3)],
            "penalty": ["evidence", "evidence", 1.0, 0.1, (1.0, 30.0)][rng.integers(5)],
            "min_size": [None, None, 1, 3][rng.integers(4)],
        }
    return {
        "bag_size": [None, 1, 4, 30][rng.integers(4)],
        "disjoint": bool(rng.random() < 0.8),
        "alpha": ["evidence", "evidence", 0.01, 1.0, 100.0][rng.integers(5)],
    }


def case(seed):
    """By how much a random model on random data is worse than a constant on held-out rows, and what may explain it.

    With z = 5: the error of comparing on held-out rows; z² times what the noise in the total of all labels costs a
    constant; and what a fit that seems as good as the constant may lose. Such a fit lies where the quadratic ½S of its
    loss is no more than z standard errors √(Sρ/n) of its linear part, so that the loss is at most 2z²ρ/n, ρ being the
    variance of what is released about a row over that of its label. Where no interval of the labels is given and ε rows
    are few, the fit may be 0 everywhere.
    """
    rng = np.random.default_rng(seed)
    n, held = int(np.exp(rng.uniform(np.log(60), np.log(4000)))), 4000
    d, m = int(rng.integers(1, 7)), int(rng.integers(2, 30))
    epsilon = float(np.exp(rng.uniform(np.log(0.05), np.log(1e4))))
    loss = ["log", "multinomial", "squared", "poisson"][rng.integers(4)]
    bags = ["curated", "random"][rng.integers(2)]
    X, score = draw_model(rng, n + held, d, m)
    arguments = {"epsilon": epsilon, "random_state": seed, **draw_parameters(rng, bags)}
    known = True
    if loss in ("log", "multinomial"):
        k = 2 if loss == "log" else int(rng.integers(3, 12))
        scores = score[:, None] * np.linspace(-1, 1, k) - rng.choice([0.0, 3.0]) * np.arange(k) / k
        y = np.argmax(scores + rng.gumbel(size=(n + held, k)), axis=1)
        if bags == "random":
            arguments["loss"] = ["likelihood", "log", "easyllp"][rng.integers(3)]
        kind = CuratedBagGAMClassifier if bags == "curated" else RandomBagClassifier
        model = kind(classes=list(range(k)), **arguments).fit(X[:n], y[:n])
        share = (np.bincount(y[:n], minlength=k) + 0.5) / (n + 0.5 * k)
        kept = model.predict_proba(X[n:])[np.arange(held), y[n:]]
        gap = np.log(share[y[n:]]) - np.log(np.maximum(kept, 1e-15))
        variance = np.maximum(share * (1 - share), 1e-3)
    else:
        y = rng.poisson(np.exp(score) * rng.choice([1.0, 20.0])).astype(float)
        if loss == "squared":
            y = score + rng.normal(size=n + held)
            y = np.exp(1.5 * y) if rng.random() < 0.3 else y
            y = y * rng.choice([1.0, 1e-3, 1e4]) + rng.choice([0.0, 1e5, -30.0])
        known = rng.random() < 0.5
        if known:
            arguments["label_bounds"] = (0.0 if loss == "poisson" else float(y.min()), float(y.max()))
        if bags == "curated":
            model = CuratedBagGAMRegressor(loss=loss, **arguments).fit(X[:n], y[:n])
        else:
            loss, model = "squared", RandomBagRegressor(**arguments).fit(X[:n], y[:n])
        found, mean, y = model.predict(X[n:]), y[:n].mean(), y[n:]
        if loss == "squared":
            gap, variance = ((found - y) ** 2 - (mean - y) ** 2) / np.var(y), np.var(y)
        else:
            gap, variance = (deviance(y, found) - deviance(y, mean)) / y.mean(), y.mean()
    released = model.bags_
    if bags == "curated":
        noise, sizes = released.tables[0].noise_variance, np.array([t.n_bags for t in released.tables])
        total = noise / np.sum(1 / sizes) / n**2
        rho = 1 + np.mean(noise / variance) * sizes.max() / n
    else:
        noise = released.noise_variance
        total = noise * released.sizes.size / released.sizes.sum() ** 2
        rho = released.sizes.mean() + np.mean(noise / variance)
    if loss in ("log", "multinomial"):
        explained = np.sum(np.minimum(total / (2 * share), 5 * np.sqrt(total)))
    else:
        explained = total / variance * (0.5 / variance if loss == "poisson" else 1.0)
    explained = 5 * gap.std() / np.sqrt(held) + 25 * explained + 50 * rho / n
    if not known and n * epsilon < 200:
        explained += np.mean(y) ** 2 / np.var(y)
    return gap.mean(), explained


@pytest.mark.filterwarnings("ignore:by the released counts no more rows than noise hides")
@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
@pytest.mark.filterwarnings("ignore:no interval of the labels exceeds the noise")
@pytest.mark.filterwarnings("ignore:labels between .* may spread much less")
@pytest.mark.filterwarnings("ignore:the system of the bag means")
@pytest.mark.parametrize("seeds", [range(12), range(12, 24), pytest.param(range(24, 240), marks=pytest.mark.slow)])
def test_held_out_loss_is_no_worse_than_a_constant_but_for_noise(seeds):
    for seed in seeds:
        worse, explained = case(seed)
        assert worse < explained, seed


def noisy_table(seed, noise, sizes=(8, 8), sets=((0,), (1,), (0, 1))):
    rng = np.random.default_rng(seed)
    n = 2000
    codes = [rng.integers(0, size, n).astype(np.int32) for size in sizes]
    found = [index_cells(codes, sizes, s) for s in sets]
    design = CellDesign([f[0] for f in found], codes)
    score = 0.5 * rng.normal(size=8)[codes[0]]
    y = (rng.random(n) < expit(score)).astype(float)
    exact = np.concatenate([np.bincount(f[1], y, f[0].n_cells) for f in found])[None]
    sums = exact + np.sqrt(noise) * rng.normal(size=exact.shape)
    true = np.column_stack([exact, [y.sum()]])
    return design, np.column_stack([sums, [y.sum()]]), np.full(design.n_cells, noise), true


@pytest.mark.parametrize("ridge", [30.0, 0.01])
def test_halved_noise_rates_a_fit_without_optimism(ridge):
    """For squares: over draws of noise, what sums − own say of the fit to sums + own is what true sums say of it."""
    design, _, noise, true = noisy_table(0, 50.0)
    penalty, rng = np.append(np.full(design.n_cells, ridge), 1e6), np.random.default_rng(0)
    differences = []
    for _ in range(200):
        off = rng.normal(size=design.n_cells) * np.sqrt(noise)
        own = rng.normal(size=design.n_cells) * np.sqrt(noise)
        fit = fit_tables(design, BUILT_IN["squared"], true + np.append(off + own, 0.0), penalty).coef
        differences.append(float((off - own) @ fit[0, :-1]))
        assert float((off + own) @ fit[0, :-1]) > 0
    assert abs(np.mean(differences)) < 5 * np.std(differences) / np.sqrt(200)


def test_own_noise_has_the_covariance_of_sums():
    """Variance of labels and noise together: 4000 cells' ratios, five standard deviations of their mean of squares."""
    design, _, noise, _ = noisy_table(0, 50.0, (8, 500), [(0, 1)])
    problem = LabelSums(design, BUILT_IN["log"], np.zeros((1, design.n_cells)), noise)
    own = problem.simulate_noise(np.zeros((1, design.n_cells + 1)), 1.0)
    ratio = own[0] ** 2 / (noise + design.counts / 4)
    assert abs(ratio.mean() - 1) < 5 * np.sqrt(2 / ratio.size)


def test_a_fit_to_noise_is_drawn_to_the_constant_and_says_so():
    design, linear, noise, true = noisy_table(1, 100.0, (8, 50), [(0, 1)])
    ridge = np.append(np.full(design.n_cells, 0.01), 0.0)

    def fit(sums, _=1.0):
        return fit_tables(design, BUILT_IN["squared"], np.column_stack([sums, linear[:, -1]]), ridge).coef

    def risk(coef):
        return design.value_and_gradient(coef, BUILT_IN["squared"], true, np.zeros_like(ridge))[0]

    constant = constant_start(design, BUILT_IN["squared"], linear)
    with pytest.warns(ConvergenceWarning, match="worse than a constant"):
        kept = guarded_fit([fit], LabelSums(design, BUILT_IN["squared"], linear[:, :-1], noise))
    assert risk(fit(linear[:, :-1])) > risk(constant) + 100
    assert risk(kept) < risk(constant) + 5


def test_a_good_fit_is_left_alone():
    design, linear, noise, _ = noisy_table(1, 4.0)
    ridge = np.append(np.full(design.n_cells, 30.0), 0.0)
    fit = fit_tables(design, BUILT_IN["squared"], linear, ridge).coef
    problem = LabelSums(design, BUILT_IN["squared"], linear[:, :-1], noise)
    assert no_worse_than_constant(problem, fit, 5.0, 0.25) is fit
    kept = guarded_fit([lambda *_: fit], problem)
    assert kept is fit


def test_sums_that_no_labels_have_go_to_the_nearest_that_some_have():
    """Class sums of a cell: the nearest point of the simplex, by brute force over a grid."""
    design, _, noise, _ = noisy_table(0, 50.0, (2, 2), [(0,)])
    rng = np.random.default_rng(0)
    sums = design.counts / 3 + design.counts * rng.normal(size=(3, design.n_cells))
    found = LabelSums(design, BUILT_IN["multinomial"], sums, noise).possible()
    np.testing.assert_allclose(found[:, :-1].sum(axis=0), design.counts)
    assert found.min() >= 0 and found[:, -1].sum() == pytest.approx(design.n_samples)
    steps = np.linspace(0, 1, 101)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12])
    for cell, count in enumerate(design.counts):
        near = grid[np.argmin(np.sum((count * grid - sums[:, cell]) ** 2, axis=1))]
        assert np.abs(found[:, cell] / count - near).max() < 0.02


def test_what_networks_see_does_not_depend_on_the_scale_of_labels():
    design, linear, noise, _ = noisy_table(0, 4.0)
    sums = linear[:, :-1]
    centre, scale = LabelSums(design, BUILT_IN["squared"], sums, noise, 700.0).units()
    far, wide = LabelSums(
        design,
        BUILT_IN["squared"],
        1e4 * sums + 1e6 * design.counts,
        1e8 * noise,
        1e8 * 700.0 + 2e10 * centre[0] * 2000 + 1e12 * 2000,
    ).units()
    assert wide == pytest.approx(1e4 * scale, rel=1e-3)
    assert far == pytest.approx(1e6 + 1e4 * centre, rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_the_filter_of_many_cells_estimates_its_optimism(loss):
    """One draw has a standard deviation of about √(2·trace); the mean of forty, five of its own."""
    design, linear, noise, _ = noisy_table(2, 20.0)
    prior, order = np.full(design.n_cells, 0.5), (0.0, 9.0)
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sums = linear[:, :-1] + rng.normal(size=design.n_cells)
        with pytest.MonkeyPatch.context() as patch:
            draws = np.random.default_rng(seed)
            patch.setattr("skprivate.aggregate.additive._constant.public_generator", lambda _, draws=draws: draws)
            problem = LabelSums(design, BUILT_IN[loss], sums, noise)
            coef, optimism = filtered_mode(problem, np.zeros_like(linear), prior, 1.0, order)
        found.append(optimism - _optimism(problem, coef, 1 / prior, 1.0))
    trace = _optimism(problem, coef, 1 / prior, 1.0)
    assert trace > 5
    assert abs(np.mean(found)) < 5 * np.std(found) / np.sqrt(40) + 0.05 * trace


def test_labels_of_many_zeros_get_the_range_of_the_others():
    """Zeros alone stood out of the noise: all labels counted as 0."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, size=(600, 2))
        y = np.where(rng.random(600) < 0.6, 0.0, rng.poisson(12.0, size=600))
        model = CuratedBagGAMRegressor(epsilon=1.5, loss="poisson", categorical_features="all", random_state=seed)
        low, high = model.fit(X, y).bags_.label_bounds
        assert low == 0.0 and 8.0 <= high <= 128.0


@pytest.mark.parametrize(
    ("cells", "interval"),
    [
        ({36: 900}, (32.0, 64.0)),
        ({30: 500, 36: 900}, (0.5, 64.0)),
        ({-33: 400, 0: 300, 33: 800}, (-8.0, 8.0)),
        ({0: 500}, (-(2.0**-30), 2.0**-30)),
        ({-36: 500}, (-64.0, -32.0)),
    ],
)
def test_the_range_spans_the_counts_that_stand_out(cells, interval):
    noisy = np.zeros(143)
    for cell, count in cells.items():
        noisy[71 + cell] = 100 * count
    n_rows = int(noisy.sum())
    assert _find_interval(noisy, LabelNoise("laplace", LabelSensitivity(2), 0.5), n_rows) == interval


@pytest.mark.parametrize(("side", "interval"), [(1, (-(2.0**-30), 32.0)), (-1, (-32.0, 2.0**-30))])
def test_the_range_has_room_for_labels_that_are_hidden_one_by_one(side, interval):
    """Six hundred zeros stand out; four hundred others, none of whose counts does, are missing."""
    noisy = np.zeros(143)
    noisy[71] = 600
    noisy[71 + side * np.array([32, 33, 34])] = [100, 160, 140]
    noise = LabelNoise("laplace", LabelSensitivity(2), 0.138)
    assert noise.exceeded(1e-3 / 143) > 160
    assert _find_interval(noisy, noise, 1000) == interval


@pytest.mark.slow
def test_noise_alone_is_told_from_a_range():
    """At most one in a thousand: 2000 draws with more than 20 would have a probability below 1e-12."""
    noise = LabelNoise("laplace", LabelSensitivity(2), 0.1)
    rng = np.random.default_rng(0)
    draws = rng.laplace(scale=20.0, size=(2000, 143))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for row in draws:
            _find_interval(row, noise, 10**6)
    assert len(said) >= 1980
    assert all("no interval of the labels exceeds the noise" in str(warning.message) for warning in said)


def guesses(counts, n, seed, epsilon=0.1, runs=200):
    """Largest labels that are guessed for counts that the noise hides."""
    noise = LabelNoise("laplace", LabelSensitivity(2), epsilon)
    rng = np.random.default_rng(seed)
    noisy = rng.laplace(scale=2 / epsilon, size=(runs, 72)) + rng.laplace(scale=2 / epsilon, size=(runs, 72))
    for cell, count in counts.items():
        noisy[:, cell] += count
    return np.array([_guess_largest(row, noise, n) for row in noisy])


@pytest.mark.parametrize("cell", [20, 31, 37])
def test_hidden_counts_still_say_the_size_of_labels(cell):
    """300 rows under noise of scale 20 in each count, none above the 223 that stands out."""
    found = np.log2(guesses({cell: 150, cell - 1: 100, cell - 2: 50}, 300, cell)) + 30 - cell
    assert np.mean(np.abs(found) <= 1) > 0.9


def test_counts_that_say_nothing_leave_the_guess_narrow():
    found = guesses({}, 10, 0)
    assert np.mean(found <= 2.0) > 0.9
    assert found.max() < 100


@pytest.mark.filterwarnings("ignore:labels between .* may spread much less")
@pytest.mark.parametrize(("middle", "spread"), [(100.0, 10.0), (5e-4, 3e-4), (-1e6, 1e5)])
def test_two_hundred_rows_without_bounds_are_no_worse_than_a_constant(middle, spread):
    """At ε = 1 labels near 100 were all taken for 2: 91 times the error of their mean."""
    ratio = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, size=(700, 2))
        y = middle + spread * rng.normal(size=700)
        model = CuratedBagGAMRegressor(epsilon=1.0, categorical_features="all", random_state=seed)
        predicted = model.fit(X[:200], y[:200]).predict(X[200:])
        ratio.append(np.mean((predicted - y[200:]) ** 2) / np.mean((y[:200].mean() - y[200:]) ** 2))
    assert np.median(ratio) < 5


def test_few_rows_get_a_wider_range():
    noisy = np.zeros(143)
    noisy[71 + 36] = 900
    noise = LabelNoise("laplace", LabelSensitivity(2), 0.1)
    assert _find_interval(noisy, noise, 1000) == (16.0, 128.0)


EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 2.0**-30, -(2.0**-30), 1.0, np.nextafter(1.0, 2), -2.0, 2.0**41, 1e300, -1e300]


@pytest.mark.filterwarnings("ignore:labels between .* may spread much less")
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_one_row_moves_two_counts_of_the_range_of_each_output(n_outputs, nonnegative):
    class Kept:
        sensitivity = LabelSensitivity(2 * n_outputs)
        variance = 1.0

        def draw(self, sums, release):
            self.sums = sums
            return sums.astype(float)

        def exceeded(self, probability):
            return 0.5

    counts = []
    for labels in product(EXTREMES, repeat=n_outputs):
        kept = Kept()
        found = range_counts(np.column_stack([np.array(labels), np.ones(n_outputs)]), nonnegative=nonnegative)
        bounds = private_label_bounds(lambda _, f=found: f, kept, None, nonnegative=nonnegative)
        counts.append(kept.sums)
        assert kept.sums.dtype == np.int64 and kept.sums.sum() == 2 * n_outputs
        for (low, high), inside in zip(bounds, np.clip(labels, -(2.0**41), 2.0**41), strict=True):
            assert low < high and (nonnegative or low <= inside <= high)
    moved = [np.abs(a - b) for a, b in product(counts, repeat=2)]
    assert max(m.sum() for m in moved) == kept.sensitivity.l1
    assert max(float(np.linalg.norm(m)) for m in moved) <= kept.sensitivity.l2


@pytest.mark.parametrize(("n", "d"), [(100, 30), (1000, 5)])
@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_random_bags_of_noise_stay_where_labels_can_be(n, d, epsilon):
    """Slopes and intercepts fitted to noise gave 25 to 2800 times the variance of the labels; the interval is known."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 1000, d))
        y = np.clip(0.3 * X[:, 0] + rng.normal(size=n + 1000), -4.0, 4.0)
        model = RandomBagRegressor(epsilon=epsilon, label_bounds=(-4.0, 4.0), random_state=seed).fit(X[:n], y[:n])
        # The middle of the interval, with 16 for the square of a quarter of it and as much again for all slopes.
        assert np.mean((model.predict(X[n:]) - y[n:]) ** 2) < np.mean(y[n:] ** 2) + 8.0


def test_cross_entropy_of_noisy_bags_is_no_surer_than_they_are():
    """Fifty features at ε = .05: the log loss was 1.7 above that of a constant, as if counts had no noise."""
    worse = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 50))
        y = (rng.random(3000) < expit(0.3 * X[:, 0])).astype(int)
        model = RandomBagClassifier(epsilon=0.05, classes=[0, 1], loss="log", random_state=seed)
        worse.append(log_loss(y[1000:], model.fit(X[:1000], y[:1000]).predict_proba(X[1000:])) - np.log(2))
    assert max(worse) < 0.05


def test_public_knowledge_of_labels_costs_a_clear_fit_nothing():
    """Where bags say much the prior of the intercept and the widest one of slopes are out of the way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = np.clip(2.0 + X @ [1.0, 0.0, -0.5] + 0.2 * rng.normal(size=4000), -10.0, 10.0)
    model = RandomBagRegressor(epsilon=200.0, label_bounds=(-10.0, 10.0), random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, [1.0, 0.0, -0.5], atol=0.1)
    assert model.intercept_ == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("kind", [RandomBagRegressor, CuratedBagGAMRegressor])
@pytest.mark.parametrize(("middle", "unit"), [(9500.0, 100.0), (1975.0, 10.0), (-3e5, 1e3)])
def test_labels_far_from_zero_are_learned_as_those_about_zero(kind, middle, unit):
    """Powers of two were the interval: R² −48 to .5 for years of birth."""
    scores = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4000, 2))
        y = middle + unit * (X[:, 0] + 0.5 * rng.normal(size=4000))
        model = kind(3.0, random_state=seed).fit(X, y)
        scores.append(model.score(X, y))
        low, high = model.bags_.label_bounds
        assert low < middle - 2 * unit and high > middle + 2 * unit and high - low < 20 * unit
    assert np.median(scores) > 0.65


@pytest.mark.parametrize(("n", "middle", "spread"), [(200, 1975.0, 10.0), (4000, 1e6, 10.0)])
def test_labels_that_may_spread_less_than_their_interval_warn(n, middle, spread):
    """Too few rows to narrow it, or all labels in one cell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    with pytest.warns(UserWarning, match="may spread much less .*label_bounds"):
        RandomBagRegressor(3.0, random_state=0).fit(X, middle + spread * X[:, 0])


def test_one_row_moves_two_of_the_cells_that_narrow_an_interval():
    bounds = [(1024.0, 2048.0), (-64.0, -32.0)]
    values = [1024.0, 1500.0, np.nextafter(2048.0, 0), 2048.0, -64.0, -40.0, -32.0, 1e300, -1e300, 0.0]
    counts = [range_counts(np.array(pair)[:, np.newaxis], far=bounds) for pair in product(values, repeat=2)]
    assert max(np.abs(a - b).sum() for a, b in product(counts, repeat=2)) == 2 * len(bounds)
    assert all(one.dtype == np.int64 and one.sum() <= len(bounds) for one in counts)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("n", "twice"), [(300, False), (5000, True)])
def test_finding_and_narrowing_an_interval_stay_within_the_budget(n, twice, delta):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(n, 2))
    for middle in (0.0, 2000.0):  # with the second draw and without
        ledger = PrivacyLedger(epsilon=1.0, delta=delta, unit="label")
        model = CuratedBagGAMRegressor(1.0, delta=delta, ledger=ledger)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, middle + rng.normal(size=n))
        assert 0.99 < model.privacy_guarantee_.epsilon <= 1.0
        assert sum(count for _, count in model.privacy_guarantee_.events) == 2 + twice
