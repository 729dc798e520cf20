"""No private fit is worse than a constant by more than the noise explains."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from skprivate.aggregate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    RandomBagClassifier,
    RandomBagRegressor,
)
from skprivate.aggregate._cells import index_cells
from skprivate.aggregate._constant_check import flattery_of_ridge, no_worse_than_constant
from skprivate.aggregate._design import CellDesign
from skprivate.aggregate._label_noise import LabelNoise, LabelSensitivity
from skprivate.aggregate._label_range import _guessed, _spanned, private_label_bounds, range_counts
from skprivate.aggregate._solvers import constant_start, fit_tables


def deviance(y, mean):
    return np.mean(mean - y * np.log(np.maximum(mean, 1e-300)))


def case(seed):
    """Held-out losses of a random model on random data, of a constant, and what label noise explains."""
    rng = np.random.default_rng(seed)
    n, held = int(np.exp(rng.uniform(np.log(60), np.log(3000)))), 3000
    d, m = int(rng.integers(1, 6)), int(rng.integers(2, 10))
    epsilon = float(np.exp(rng.uniform(np.log(0.05), np.log(1e4))))
    loss = ["log", "multinomial", "squared", "poisson"][seed % 4]
    bags = ["curated", "curated", "random"][seed % 3]
    X = rng.integers(0, m, size=(n + held, d)).astype(float)
    effect = rng.normal(size=(d, m)) * rng.choice([0.0, 0.5]) / np.sqrt(d)
    score = sum(effect[j][X[:, j].astype(int)] for j in range(d)) + 0.5 * rng.normal()
    arguments = {"epsilon": epsilon, "random_state": seed}
    if bags == "curated":
        arguments["feature_sets"] = ["auto", "pairs", "singles"][rng.integers(3)]
    if loss in ("log", "multinomial"):
        k = 2 if loss == "log" else int(rng.integers(3, 6))
        y = np.argmax(score[:, None] * np.linspace(-1, 1, k) + rng.gumbel(size=(n + held, k)), axis=1)
        kind = CuratedBagGAMClassifier if bags == "curated" else RandomBagClassifier
        model = kind(classes=list(range(k)), **arguments).fit(X[:n], y[:n])
        share = np.bincount(y[:n], minlength=k) + 0.5
        found = log_loss(y[n:], model.predict_proba(X[n:]), labels=range(k))
        constant = log_loss(y[n:], np.tile(share / share.sum(), (held, 1)), labels=range(k))
        factor = k * k / 2
    else:
        y = (
            rng.poisson(np.exp(score)).astype(float)
            if loss == "poisson"
            else score + rng.normal(size=n + held)
        )
        arguments["label_bounds"] = (0.0 if loss == "poisson" else float(y.min()), float(y.max()))
        if bags == "curated":
            model = CuratedBagGAMRegressor(loss=loss, **arguments).fit(X[:n], y[:n])
        else:
            loss, model = "squared", RandomBagRegressor(**arguments).fit(X[:n], y[:n])
        predicted = model.predict(X[n:])
        if loss == "squared":
            found, constant = (np.mean((y[n:] - p) ** 2) / np.var(y) for p in (predicted, y[:n].mean()))
            factor = 1 / np.var(y)
        else:
            found, constant = deviance(y[n:], predicted), deviance(y[n:], np.full(held, y[:n].mean()))
            factor = 0.5 / y.mean()
    released = model.bags_
    if bags == "curated":
        variance, sums = released.tables[0].noise_variance, [t.n_bags for t in released.tables]
        error = variance / np.sum(1 / np.array(sums)) / n**2
    else:
        error = released.noise_variance * released.sizes.size / n**2
    return found, constant, factor * error


@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed > 8 else ()) for seed in range(24)]
)
def test_held_out_loss_is_no_worse_than_a_constant_but_for_noise(seed):
    # The noise of the labels' total alone makes a constant worse by `noise`; that of a cell is larger.
    found, constant, noise = case(seed)
    assert np.isfinite(found)
    assert found < constant + 0.06 + 16 * min(noise, 1.0)


def noisy_table(seed, noise, sizes=(8, 8), sets=((0,), (1,), (0, 1))):
    rng = np.random.default_rng(seed)
    n = 2000
    codes = [rng.integers(0, size, n).astype(np.int32) for size in sizes]
    found = [index_cells(codes, sizes, s) for s in sets]
    design = CellDesign([f[0] for f in found], codes, [f[1] for f in found])
    score = 0.5 * rng.normal(size=8)[codes[0]]
    y = (rng.random(n) < expit(score)).astype(float)
    exact = np.concatenate([np.bincount(f[1], y, f[0].n_cells) for f in found])[None]
    sums = exact + np.sqrt(noise) * rng.normal(size=exact.shape)
    true = np.column_stack([exact, [y.sum()]])
    return design, np.column_stack([sums, [y.sum()]]), np.full(design.n_cells, noise), true


def test_the_estimate_of_the_loss_makes_up_for_the_noise_it_was_fitted_to():
    """For squares the fit is linear in the sums: the mean over noise of what fitting flatters is the trace, exactly."""
    ridge, differences = 30.0, []
    for seed in range(200):
        design, linear, noise, true = noisy_table(0, 50.0)
        rng = np.random.default_rng(seed)
        linear = true + np.append(rng.normal(size=design.n_cells) * np.sqrt(noise), 0.0)
        penalty = np.append(np.full(design.n_cells, ridge), 1e6)
        fit = fit_tables(design, "squared", linear, penalty).coef
        differences.append(float(np.sum((linear - true) * fit)))
    said = flattery_of_ridge(design, "squared", noise, fit, penalty[:-1])
    sampling = flattery_of_ridge(design, "squared", 0 * noise, fit, penalty[:-1])
    mean, error = np.mean(differences), np.std(differences) / np.sqrt(len(differences))
    assert abs(said - sampling - mean) < 5 * error
    assert mean > 20 * error


def test_a_fit_to_noise_is_drawn_to_the_constant_and_says_so():
    design, linear, noise, true = noisy_table(1, 100.0, (8, 50), [(0, 1)])
    ridge = np.append(np.full(design.n_cells, 0.01), 0.0)
    fit = fit_tables(design, "squared", linear, ridge).coef
    constant = constant_start(design, "squared", linear)
    flattery = flattery_of_ridge(design, "squared", noise, fit, ridge[:-1], 0.25)
    with pytest.warns(UserWarning, match="worse than a constant"):
        kept = no_worse_than_constant(design, "squared", linear, noise, fit, constant, flattery, 0.25)

    def risk(coef):
        return design.value_and_gradient(coef, "squared", true, np.zeros_like(ridge))[0]

    assert risk(fit) > risk(constant) + 100
    assert risk(kept) < risk(constant) + 5


def test_a_good_fit_is_left_alone():
    design, linear, noise, _ = noisy_table(1, 4.0)
    ridge = np.append(np.full(design.n_cells, 30.0), 0.0)
    fit = fit_tables(design, "squared", linear, ridge).coef
    flattery = flattery_of_ridge(design, "squared", noise, fit, ridge[:-1], 0.25)
    constant = constant_start(design, "squared", linear)
    assert no_worse_than_constant(design, "squared", linear, noise, fit, constant, flattery, 0.25) is fit


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
        noisy[71 + cell] = count
    assert _spanned(noisy, LabelNoise("laplace", LabelSensitivity(2), 0.5), 100_000) == interval


@pytest.mark.slow
def test_noise_alone_is_told_from_a_range():
    """At most one in a thousand: 2000 draws with more than 20 would have a probability below 1e-12."""
    noise = LabelNoise("laplace", LabelSensitivity(2), 0.1)
    rng = np.random.default_rng(0)
    draws = rng.laplace(scale=20.0, size=(2000, 143))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for row in draws:
            _spanned(row, noise, 10**6)
    assert len(said) >= 1980
    assert all("no interval of the labels stands out" in str(warning.message) for warning in said)


def guesses(counts, n, seed, epsilon=0.1, runs=200):
    """Largest labels that are guessed for counts that the noise hides."""
    noise = LabelNoise("laplace", LabelSensitivity(2), epsilon)
    rng = np.random.default_rng(seed)
    noisy = rng.laplace(scale=2 / epsilon, size=(runs, 72)) + rng.laplace(scale=2 / epsilon, size=(runs, 72))
    for cell, count in counts.items():
        noisy[:, cell] += count
    return np.array([_guessed(row, noise, n) for row in noisy])


@pytest.mark.parametrize("cell", [20, 31, 37])
def test_hidden_counts_still_say_the_size_of_labels(cell):
    """300 rows under noise of scale 20 in each count, none above the 223 that stands out."""
    found = np.log2(guesses({cell: 150, cell - 1: 100, cell - 2: 50}, 300, cell)) + 30 - cell
    assert np.mean(np.abs(found) <= 1) > 0.9


def test_counts_that_say_nothing_leave_the_guess_narrow():
    found = guesses({}, 10, 0)
    assert np.mean(found <= 2.0) > 0.9
    assert found.max() < 100


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
    assert _spanned(noisy, noise, 1000) == (16.0, 128.0)


EXTREMES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.0**-30,
    -(2.0**-30),
    1.0,
    np.nextafter(1.0, 2),
    -2.0,
    2.0**41,
    1e300,
    -1e300,
]


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_row_moves_two_counts_of_the_range_at_most(n_outputs, nonnegative):
    class Kept:
        sensitivity = LabelSensitivity(2, n_outputs)
        variance = 1.0

        def draw(self, sums, release):
            self.sums = sums
            return sums.astype(float)

        def exceeded(self, probability):
            return 0.5

    counts = []
    for labels in product(EXTREMES, repeat=n_outputs) if n_outputs == 1 else [[e] * 3 for e in EXTREMES]:
        kept = Kept()
        found = range_counts(np.column_stack([np.array(labels), np.ones(n_outputs)]), nonnegative=nonnegative)
        low, high = private_label_bounds(found, 2, kept, None, nonnegative=nonnegative)
        counts.append(kept.sums)
        assert kept.sums.dtype == np.int64 and kept.sums.sum() == 2 * n_outputs
        inside = np.clip(labels, -(2.0**41), 2.0**41)
        assert low < high and (nonnegative or np.all((low <= inside) & (inside <= high)))
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
        model = RandomBagRegressor(epsilon=epsilon, label_bounds=(-4.0, 4.0), random_state=seed).fit(
            X[:n], y[:n]
        )
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
