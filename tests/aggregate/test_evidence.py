"""Penalties from aggregates: variance components with known noise."""

from itertools import combinations

import numpy as np
import pytest
from helpers.cells import index_cells
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor
from skprivate.aggregate._losses import BUILT_IN
from skprivate.aggregate.additive import _evidence as evidence_module
from skprivate.aggregate.additive._constant import LabelSums
from skprivate.aggregate.additive._design import CellDesign, constant_start
from skprivate.aggregate.additive._evidence import _posterior, filtered_mode, fit_evidence, merge_rare
from skprivate.privacy import public_generator


def crossed(n, seed, sizes=(12, 10)):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, n).astype(np.int32) for size in sizes]
    sets = [(0,), (1,), (0, 1)]
    found = [index_cells(codes, sizes, s) for s in sets]
    design = CellDesign([f[0] for f in found], codes)
    return design, [f[1] for f in found], rng


def sums_over(design, cells, y):
    return np.concatenate(
        [np.bincount(c, weights=y, minlength=size) for c, size in zip(cells, np.diff(design.offsets), strict=True)]
    )[None]


def test_posterior_step_is_generalised_least_squares():
    """Against the textbook formula: z = Gθ + e, e ~ N(0, G + N), θ ~ N(0, T), free intercept."""
    design, cells, rng = crossed(400, 0, (4, 3))
    y = rng.normal(size=400)
    sums = sums_over(design, cells, y)
    noise = rng.uniform(1.0, 30.0, design.n_cells)
    ridge = rng.uniform(0.5, 2.0, design.n_cells)
    noisy = sums + rng.normal(size=sums.shape) * np.sqrt(noise)
    start = np.zeros((1, design.n_cells + 1))
    coef, spread = _posterior(LabelSums(design, BUILT_IN["squared"], noisy, noise), start, ridge, 1.0)
    gram = design.gram(np.ones(design.n_rows))
    first = slice(0, int(design.offsets[1]))
    full = np.column_stack([gram, gram[:, first].sum(axis=1)])
    precision = np.linalg.inv(gram + np.diag(noise))
    information = full.T @ precision @ full + np.diag(np.append(ridge, 0.0))
    np.testing.assert_allclose(
        coef[0], np.linalg.solve(information, full.T @ precision @ noisy[0]), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(spread[0], np.diag(np.linalg.inv(information))[:-1], rtol=1e-5)
    # Without noise it is ridge regression on individual labels.
    exact, _ = _posterior(LabelSums(design, BUILT_IN["squared"], sums, np.zeros(design.n_cells)), start, ridge, 1.0)
    linear = np.column_stack([sums, [y.sum()]])
    _, gradient = design.value_and_gradient(exact, BUILT_IN["squared"], linear, np.append(ridge, 0.0))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 25.0])
def test_variances_are_recovered(noise):
    """Simulated from the prior; the estimate of each component is within a factor of 2.5, averaged over seeds.

    With noise the prior of the scales draws them down a little."""
    truth = np.array([0.5, 0.05, 0.2])
    found = []
    for seed in range(6):
        design, cells, rng = crossed(20_000, seed, (25, 20))
        effects = [rng.normal(scale=np.sqrt(t), size=s) for t, s in zip(truth, np.diff(design.offsets), strict=True)]
        score = -0.5 + sum(e[c] for e, c in zip(effects, cells, strict=True))
        y = (rng.random(score.size) < expit(score)).astype(float)
        sums = sums_over(design, cells, y)
        sums += rng.normal(scale=np.sqrt(noise), size=sums.shape)
        fit = fit_evidence(
            LabelSums(design, BUILT_IN["log"], sums, np.full(design.n_cells, noise)), np.array([1, 1, 2])
        )
        found.append(fit.variances)
    ratio = np.exp(np.mean(np.log(found), axis=0)) / truth
    assert np.all(ratio < 2.5) and np.all(ratio > (0.36 if noise else 0.4))


def test_totals_weigh_sets_by_their_noise():
    design, cells, rng = crossed(500, 0)
    y = rng.random(500)
    sums = sums_over(design, cells, y)
    assert LabelSums(design, BUILT_IN["log"], sums, np.zeros(design.n_cells)).total[0] == pytest.approx(y.sum())
    noise = np.full(design.n_cells, 4.0)
    ends = design.offsets
    parts = [sums[0, ends[j] : ends[j + 1]].sum() for j in range(3)]
    sums[0, ends[2]] += 100.0
    weight = 1 / (4.0 * np.diff(ends))
    expected = np.average([parts[0], parts[1], parts[2] + 100], weights=weight)
    assert LabelSums(design, BUILT_IN["log"], sums, noise).total[0] == pytest.approx(expected)


@pytest.mark.parametrize("loss", ["squared", "log", "poisson", "multinomial"])
def test_the_iterative_filter_finds_the_mode_of_the_dense_one(loss):
    design, cells, rng = crossed(3000, 1)
    score = 0.7 * rng.normal(size=12)[cells[0]] - 0.5
    if loss == "squared":
        y = 3 * score + rng.normal(size=3000)
    else:
        y = rng.poisson(np.exp(score)) if loss == "poisson" else (rng.random(3000) < expit(score))
    noise = rng.uniform(1.0, 40.0, design.n_cells)
    labels = [y, 1 - y] if loss == "multinomial" else [y]
    sums = np.concatenate([sums_over(design, cells, label.astype(float)) for label in labels])
    sums += rng.normal(size=sums.shape) * np.sqrt(noise)
    prior = np.repeat([0.5, 0.2, 0.05], np.diff(design.offsets))
    problem = LabelSums(design, BUILT_IN[loss], sums, noise)
    start = constant_start(design, BUILT_IN[loss], problem.linear)
    dense = start
    intercept = (0.3, 4.0)
    for _ in range(40):
        dense, _ = _posterior(problem, dense, 1 / prior, 1.0, intercept)
    found, _ = filtered_mode(problem, start, prior, 1.0, intercept)

    def apart(a, b):
        """In prior standard deviations, all cells together; a shift common to all classes changes nothing."""
        difference = a - b
        if loss == "multinomial":
            difference = difference - difference.mean(axis=0)
        return np.linalg.norm(difference[:, :-1] / np.sqrt(prior))

    # Two classes are two systems of linear equations, each solved to .1 (.2 after rounding) of these units.
    assert apart(found, dense) < 0.3 < 1.5 < apart(start, dense)


@pytest.mark.slow
def test_the_filter_is_done_soon_where_columns_say_much():
    """Wide priors and many rows make S nearly singular beside its largest part: the filter gave up on real tables."""
    rng = np.random.default_rng(0)
    sizes = (12,) * 5
    codes = [rng.integers(0, size, 30_000).astype(np.int32) for size in sizes]
    sets = [(j,) for j in range(5)] + list(combinations(range(5), 2))
    found = [index_cells(codes, sizes, s) for s in sets]
    design = CellDesign([f[0] for f in found], codes)
    score = sum(rng.normal(size=12)[c] for c in codes)
    sums = sums_over(design, [f[1] for f in found], (rng.random(30_000) < expit(score)).astype(float))
    noise = np.full(design.n_cells, 1.0)
    sums += rng.normal(size=sums.shape)
    prior = np.repeat([2.0] * 5 + [0.01] * 10, np.diff(design.offsets))
    start = np.zeros((1, design.n_cells + 1))
    problem = LabelSums(design, BUILT_IN["log"], sums, noise)
    mode, _ = filtered_mode(problem, start, prior, 1.0, (0.0, 9.0))
    assert mode is not start
    next_mode, _ = _posterior(problem, mode, 1 / prior, 1.0, (0.0, 9.0))
    assert np.linalg.norm((next_mode - mode)[0, :-1] / np.sqrt(prior)) < 0.3


def test_the_filter_gives_up_for_the_start_within_its_work(monkeypatch):
    design, cells, rng = crossed(3000, 1)
    sums = sums_over(design, cells, rng.random(3000))
    noise, prior = np.full(design.n_cells, 9.0), np.full(design.n_cells, 0.5)
    start = np.zeros((1, design.n_cells + 1))
    monkeypatch.setattr(evidence_module, "_MOST_PRODUCTS", 3)
    with pytest.warns(ConvergenceWarning, match="filter of 142 cells did not converge.* fewer feature sets"):
        found = filtered_mode(LabelSums(design, BUILT_IN["log"], sums, noise), start, prior, 1.0, (0.0, 9.0))
    assert found[0] is start and found[1] is None


def test_rare_cells_are_merged_by_public_numbers():
    design, _, rng = crossed(500, 0)
    noise = np.full(design.n_cells, 4.0)
    cell_of_cell, offsets = merge_rare(design, noise, np.array([1, 1, 2]), 40)
    merged = design.merged(cell_of_cell, offsets)
    assert 40 <= merged.n_cells <= 43 and merged.n_cells == offsets[-1]
    kept = np.bincount(cell_of_cell) == 1
    assert kept[: offsets[2]].all()
    cross, rare = design.counts[22:], ~kept[cell_of_cell][22:]
    assert cross[~rare].min() >= cross[rare].max()
    np.testing.assert_array_equal(merged.counts, np.bincount(cell_of_cell, design.counts))
    # Scores and sums are those of the rows: a merged design is the design with equal coefficients.
    coef = rng.normal(size=(2, merged.n_cells + 1))
    spread = np.column_stack([coef[:, cell_of_cell], coef[:, -1]])
    np.testing.assert_allclose(merged.scores(coef), design.scores(spread))
    values = rng.normal(size=(1, design.n_rows))
    fine = design.scatter(values)[0]
    np.testing.assert_allclose(merged.scatter(values)[0, :-1], np.bincount(cell_of_cell, fine[:-1]))
    np.testing.assert_allclose(merged.gram(np.ones(design.n_rows)).sum(), design.gram(np.ones(design.n_rows)).sum())


def test_many_cells_are_fitted_as_well_as_few(monkeypatch):
    """Noisy sums beyond the size that is filtered by a matrix: the diagonal of G in its place was a collapse."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(8000, 6))
    effect = 0.6 * rng.normal(size=(6, 6))
    score = sum(effect[j][X[:, j]] for j in range(6)) - 0.5
    y = (rng.random(8000) < expit(score)).astype(int)

    def loss():
        model = CuratedBagGAMClassifier(
            epsilon=0.3, feature_sets="pairs", min_size=1, categorical_features="all", random_state=0
        ).fit(X[:4000], y[:4000])
        return log_loss(y[4000:], model.predict_proba(X[4000:]))

    dense = loss()
    monkeypatch.setattr(evidence_module, "DENSE_CELLS", 100)
    assert loss() < dense + 0.02
    constant = log_loss(y[4000:], np.full(4000, y[:4000].mean()))
    assert dense < constant - 0.03


def make_labels(rng, n):
    X = np.column_stack([rng.integers(0, 8, n), rng.integers(0, 8, n), rng.integers(0, 8, n)])
    effect = rng.normal(size=(3, 8))
    score = sum(effect[j][X[:, j]] for j in range(3)) - 0.5
    return X, (rng.random(n) < expit(score)).astype(int)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_evidence_is_no_worse_than_fixed_penalties(epsilon):
    rng = np.random.default_rng(0)
    X, y = make_labels(rng, 8000)
    X, X_test, y, y_test = X[:4000], X[4000:], y[:4000], y[4000:]

    def loss(**arguments):
        return np.mean(
            [
                log_loss(
                    y_test,
                    CuratedBagGAMClassifier(epsilon=epsilon, categorical_features="all", random_state=seed, **arguments)
                    .fit(X, y)
                    .predict_proba(X_test),
                )
                for seed in range(3)
            ]
        )

    fixed = {penalty: loss(penalty=penalty) for penalty in (1.0, 10.0, (1.0, 100.0))}
    assert loss() < 1.01 * min(fixed.values())


def test_multiclass_and_poisson_with_noise():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(6000, 3))
    score = X[:, 0] - 0.5 * X[:, 1]
    labels = np.digitize(score + rng.logistic(size=6000), [0.0, 1.5])
    model = CuratedBagGAMClassifier(epsilon=2.0, categorical_features="all", random_state=0).fit(X, labels)
    exact = CuratedBagGAMClassifier(epsilon=None, categorical_features="all").fit(X, labels)
    assert model.score(X, labels) > exact.score(X, labels) - 0.02
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    counts = rng.poisson(np.exp(0.4 * score))
    model = CuratedBagGAMRegressor(
        epsilon=2.0, loss="poisson", label_bounds=(0, 12), categorical_features="all", random_state=0
    ).fit(X, counts)
    assert np.corrcoef(model.predict(X), np.exp(0.4 * score))[0, 1] > 0.95


def test_squared_loss_with_noise_and_many_mechanisms():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(5000, 2))
    y = 10 * X[:, 0] + 3 * (X[:, 1] == 2) + rng.normal(scale=2.0, size=5000)
    for mechanism in ("laplace", "gaussian"):
        for bounds in (None, (-10, 60)):
            model = CuratedBagGAMRegressor(
                epsilon=1.0, mechanism=mechanism, label_bounds=bounds, categorical_features="all", random_state=0
            ).fit(X, y)
            assert model.score(X, y) > 0.93
    exact = CuratedBagGAMRegressor(epsilon=None, categorical_features="all").fit(X, y)
    assert exact.score(X, y) > 0.97


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", range(3))
def test_labels_far_from_zero_are_fitted_after_they_are_paid_for(mechanism, seed):
    # Relative to the labels, the noise is below the rounding of their information matrix.
    rng = public_generator(seed)
    X, bounds = rng.uniform(size=(24, 3)), (1e15 + 2047.5, 1e15 + 2048.5)
    model = CuratedBagGAMRegressor(mechanism=mechanism, label_bounds=bounds, n_bins=4, random_state=seed)
    predicted = model.fit(X, rng.uniform(*bounds, size=24)).predict(X)
    assert np.all(np.abs(predicted - 1e15) < 1e6)
