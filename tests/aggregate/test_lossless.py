"""Theorem 1: learning from label sums per bag is learning from individual labels."""

import itertools

import numpy as np
import pytest
from helpers.cells import index_cells
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, make_curated_bags
from skprivate.aggregate._losses import BUILT_IN
from skprivate.aggregate.additive import _design as design_module
from skprivate.aggregate.additive._design import CellDesign, fit_tables

SETS = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


def design_of(X, sets=SETS, min_size=1):
    codes = [column.astype(np.int32) for column in X.T]
    found = [index_cells(codes, [5] * len(codes), s, min_size=min_size) for s in sets]
    design = CellDesign([index for index, _, _ in found], codes)
    one_hot = np.concatenate([np.eye(index.n_cells)[cells] for index, cells, _ in found], axis=1)
    return design, one_hot


def row_scores(design, one_hot, coef):
    return one_hot @ coef[:, :-1].T + coef[:, -1]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 3))
def test_design_is_the_one_hot_matrix(n, seed, merged, n_outputs):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2 if merged else 5, size=(n, 3))
    sets = [s for s in SETS if rng.random() < 0.7] or [(0, 1)]
    design, one_hot = design_of(X, sets)
    coef = rng.normal(size=(n_outputs, design.n_cells + 1))
    # Distinct rows carry multiplicities; as multisets, scores are those of the one-hot matrix.
    multiplicity = np.ones(n) if design.multiplicity is None else design.multiplicity
    assert multiplicity.sum() == n
    scores = design.scores(coef)
    expected = row_scores(design, one_hot, coef).T
    np.testing.assert_allclose(
        np.sort(np.repeat(scores, multiplicity.astype(int), axis=1)), np.sort(expected), atol=1e-12
    )
    np.testing.assert_allclose(design.counts, one_hot.sum(axis=0))
    # Scatter is the transpose of gather.
    values = rng.normal(size=scores.shape)
    assert np.sum(values * scores) == pytest.approx(np.sum(design.scatter(values) * coef), abs=1e-8)
    weight = rng.random(design.n_rows)
    units = np.eye(design.n_cells, design.n_cells + 1)
    gram = [design.scatter(weight * multiplicity * design.scores(unit[None]))[0, :-1] for unit in units]
    np.testing.assert_allclose(design.gram(weight), gram, atol=1e-10)
    kept = np.flatnonzero(rng.random(len(sets)) < 0.5)
    cells = design.cells_of(kept)
    part = design.restricted(kept)
    np.testing.assert_allclose(part.gram(weight), np.array(gram)[np.ix_(cells, cells)], atol=1e-10)
    np.testing.assert_array_equal(part.counts, design.counts[cells])


@pytest.mark.parametrize("most", [0, 90, 1000])
def test_few_passes_where_a_factor_of_all_cells_costs_too_much(most, monkeypatch):
    """Columns are nearly sums of their pairs' cells: the part of the sets shrunk least takes care of it."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(3000, 14))
    sets = [*itertools.combinations(range(14), 1), *itertools.combinations(range(14), 2)]
    design, _ = design_of(X, sets)
    y = (rng.random(design.n_rows) < 1 / (1 + np.exp(2 - X[:, 0] / 2))).astype(float)
    linear = design.scatter(y[None])
    ridge = np.append(np.where(design.set_of_cell() < 14, 0.1, 300.0), 0.0)
    exact = fit_tables(design, BUILT_IN["log"], linear, ridge, tol=1e-9)
    monkeypatch.setattr(design_module, "_SECONDS_PER_FLOP", 1.0)
    monkeypatch.setattr(design_module, "_PART_CELLS", most)
    found = fit_tables(design, BUILT_IN["log"], linear, ridge, tol=1e-6)
    assert found.n_passes < (40 if most else 100)
    np.testing.assert_allclose(design.scores(found.coef), design.scores(exact.coef), atol=2e-3)


@pytest.mark.parametrize("span", [1, 30, 1 << 16])
def test_grouping_and_merging_are_exact(table, span, monkeypatch):
    X, _, rng = table
    monkeypatch.setattr(design_module, "_GROUP_SPAN", span)
    design, one_hot = design_of(X)
    coef = rng.normal(size=(1, design.n_cells + 1))
    linear = rng.normal(size=coef.shape)
    value, gradient = design.value_and_gradient(coef, BUILT_IN["log"], linear, np.ones(coef.size))
    scores = row_scores(design, one_hot, coef)[:, 0]
    expected = np.logaddexp(0, scores).sum() - np.sum(linear * coef) + 0.5 * np.sum(coef**2)
    assert value == pytest.approx(expected, rel=1e-12)
    mean = 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(gradient[0], np.append(mean @ one_hot, mean.sum()) - linear[0] + coef[0], atol=1e-9)


def targets_for(loss, score, rng):
    """Transformed labels T(y), one row per output, and the loss of individual labels."""
    if loss == "squared":
        return (score + rng.normal(size=score.size))[None]
    if loss == "log":
        return (rng.random(score.size) < 1 / (1 + np.exp(-score))).astype(float)[None]
    if loss == "poisson":
        return rng.poisson(np.exp(score / 2)).astype(float)[None]
    labels = rng.integers(0, 3, score.size)
    labels[score > 1] = 2
    return np.eye(3)[labels].T


def individual_loss(loss, scores, targets):
    """Σ ℓ(yᵢ, ŷᵢ) of individual labels up to c(y), written without any of the package's code."""
    if loss == "squared":
        return 0.5 * np.sum((scores.T - targets) ** 2)
    if loss == "log":
        return np.sum(np.logaddexp(0, -np.where(targets[0] > 0, 1, -1) * scores[:, 0]))
    if loss == "poisson":
        return np.sum(np.exp(scores[:, 0]) - targets[0] * scores[:, 0])
    return np.sum(logsumexp(scores, axis=1) - np.sum(scores * targets.T, axis=1))


def individual_gradient(loss, scores, targets, one_hot):
    if loss == "squared":
        residual = scores.T - targets
    elif loss == "log":
        residual = 1 / (1 + np.exp(-scores.T)) - targets
    elif loss == "poisson":
        residual = np.exp(scores.T) - targets
    else:
        residual = np.exp(scores - logsumexp(scores, axis=1, keepdims=True)).T - targets
    return np.column_stack([residual @ one_hot, residual.sum(axis=1)])


LOSSES = ["squared", "log", "multinomial", "poisson"]


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_equals_that_of_individual_labels(table, loss):
    X, score, rng = table
    targets = targets_for(loss, score, rng)
    design, one_hot = design_of(X, min_size=5)
    linear = np.column_stack([targets @ one_hot, targets.sum(axis=1)])
    coef = rng.normal(scale=0.3, size=linear.shape)
    value, gradient = design.value_and_gradient(coef, BUILT_IN[loss], linear, np.zeros(coef.shape[1]))
    scores = row_scores(design, one_hot, coef)
    expected = individual_gradient(loss, scores, targets, one_hot)
    np.testing.assert_allclose(gradient, expected, atol=1e-10 * np.abs(expected).max())
    constant = 0.5 * np.sum(targets**2) if loss == "squared" else 0.0
    assert value + constant == pytest.approx(individual_loss(loss, scores, targets), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_curvature_is_the_derivative_of_the_gradient(loss):
    scores = np.random.default_rng(0).normal(size=(3 if loss == "multinomial" else 1, 50))
    step = np.zeros_like(scores)
    step[0] = 1e-6
    loss = BUILT_IN[loss]
    slope = (loss.partition(scores + step)[1] - loss.partition(scores - step)[1])[0] / 2e-6
    np.testing.assert_allclose(loss.moments(scores)[1][0], slope, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_fit_equals_scikit_learn_on_individual_labels(table, loss):
    X, score, rng = table
    targets = targets_for(loss, score, rng)
    design, one_hot = design_of(X, [(0,), (1,), (0, 2)])
    n = len(X)
    linear = np.column_stack([targets @ one_hot, targets.sum(axis=1)])
    ridge = 2.5
    fit = fit_tables(design, BUILT_IN[loss], linear, np.append(np.full(design.n_cells, ridge), 0.0), tol=1e-10)
    if loss == "squared":
        model = Ridge(alpha=ridge).fit(one_hot, targets[0])
    elif loss == "poisson":
        model = PoissonRegressor(alpha=ridge / n, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(
            one_hot, targets[0]
        )
    else:
        labels = targets[0] if loss == "log" else np.argmax(targets, axis=0)
        model = LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(one_hot, labels)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    shift = 0.0
    if loss == "multinomial":
        # The penalty centres coefficients; the unpenalised intercepts are determined up to a constant.
        shift = fit.coef[:, -1].mean() - intercept.mean()
    scale = np.abs(coef).max()
    np.testing.assert_allclose(fit.coef[:, :-1], coef, atol=1e-6 * scale)
    np.testing.assert_allclose(fit.coef[:, -1] - shift, intercept, atol=1e-6 * max(scale, np.abs(intercept).max()))


def test_estimators_fit_the_individual_labels(table):
    X, score, rng = table
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-score))).astype(int)
    _, one_hot = design_of(X, [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
    model = CuratedBagGAMClassifier(epsilon=None, penalty=3.0, min_size=1, categorical_features="all", tol=1e-10).fit(
        X, y
    )
    reference = LogisticRegression(C=1 / 3.0, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(one_hot, y)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(one_hot), atol=1e-7)
    np.testing.assert_allclose(np.concatenate(model.tables_)[:, 0], reference.coef_[0], atol=1e-6)
    assert model.contributions(X).shape == (600, 6)
    np.testing.assert_allclose(
        model.contributions(X).sum(axis=1) + model.intercept_[0], model.decision_function(X), atol=1e-12
    )
    counts = rng.poisson(np.exp(score / 2))
    poisson = CuratedBagGAMRegressor(
        epsilon=None, loss="poisson", penalty=1.0, min_size=1, categorical_features="all", tol=1e-10
    ).fit(X, counts)
    reference = PoissonRegressor(alpha=1.0 / len(X), solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(
        one_hot, counts
    )
    np.testing.assert_allclose(poisson.predict(X), reference.predict(one_hot), rtol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_supersets_of_the_models_sets_are_enough(table, loss):
    """E' ⊂ C: a model of single columns and pairs learns from the bags of the triple alone."""
    X, score, rng = table
    y = targets_for(loss, score, rng)[0]
    sets = [(0,), (1,), (0, 2)]
    arguments = {"categorical_features": "all", "classes": [0, 1] if loss == "log" else None}
    Model = CuratedBagGAMClassifier if loss == "log" else CuratedBagGAMRegressor
    fine = make_curated_bags(X, y, [(0, 1, 2)], **arguments)
    exact = make_curated_bags(X, y, sets, **arguments)
    model = Model(epsilon=None, feature_sets=sets, penalty=1.0, tol=1e-10)
    from_fine = model.fit_bags(X, fine)._scores(X)
    from_exact = model.fit_bags(X, exact)._scores(X)
    np.testing.assert_allclose(from_fine, from_exact, atol=1e-8)
    coarse = make_curated_bags(X, y, [(0, 1)], **arguments)
    with pytest.raises(ValueError, match="no subset of a reported set"):
        Model(epsilon=None, feature_sets=[(0, 2)], penalty=1.0).fit_bags(X, coarse)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shared", [False, True])
def test_networks_have_the_gradients_of_individual_labels(table, loss, shared):
    torch = pytest.importorskip("torch")
    from skprivate.aggregate._networks import CURATED_DEFAULTS, linearised_loss, make_submodels

    X, score, rng = table
    targets = targets_for(loss, score, rng)
    sets = [(0,), (0, 1), (1, 2)]
    design, one_hot = design_of(X, sets)
    codes = [column.astype(np.int32) for column in X.T]
    indexes = [index_cells(codes, [5, 5, 5], s)[0] for s in sets]
    torch.manual_seed(0)
    modules = make_submodels(indexes, targets.shape[0], "mlp", {**CURATED_DEFAULTS, "shared_embeddings": shared})
    parameters = list(modules.parameters())
    intercept = torch.full((targets.shape[0],), 0.1, dtype=torch.double, requires_grad=True)
    # Aggregates only: outputs once per bag.
    outputs = [module(torch.as_tensor(i.keys.astype(np.int64) + 1)) for module, i in zip(modules, indexes, strict=True)]
    linear = np.column_stack([targets @ one_hot, targets.sum(axis=1)])
    loss_of_bags = linearised_loss(design, BUILT_IN[loss], torch.cat([*outputs, intercept[None]]), linear)
    from_bags = torch.autograd.grad(loss_of_bags, [*parameters, intercept])
    # Individual labels: outputs once per row, autograd through everything.
    rows = [torch.as_tensor(X[:, s].astype(np.int64) + 1) for s in map(list, sets)]
    scores = intercept + sum(module(row) for module, row in zip(modules, rows, strict=True))
    labels = torch.as_tensor(targets.T.copy())
    if loss == "squared":
        of_rows = 0.5 * ((scores - labels) ** 2).sum()
    elif loss == "log":
        of_rows = torch.nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="sum")
    elif loss == "multinomial":
        of_rows = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
    else:
        of_rows = (torch.exp(scores) - labels * scores).sum()
    from_rows = torch.autograd.grad(of_rows, [*parameters, intercept])
    if shared:
        assert len({id(p) for p in parameters}) == len(parameters) and len(parameters) == 3 + 3 * 4
    largest = max(float(g.abs().max()) for g in from_rows)
    for a, b in zip(from_bags, from_rows, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-10 * largest)


def test_pairs_of_columns_are_all_there(table):
    X, score, _ = table
    model = CuratedBagGAMRegressor(epsilon=None, categorical_features="all").fit(X, score)
    names = ["x0", "x1", "x2"]
    assert set(model.feature_sets_) == {(n,) for n in names} | set(itertools.combinations(names, 2))
    assert model.score(X, score) > 0.99
