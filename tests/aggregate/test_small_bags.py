"""Small bags that are left out: their rows get 0 from the feature set, and no label of them is released there."""

import json

import numpy as np
import pytest
from helpers.cells import index_cells
from scipy.special import expit
from sklearn.metrics import log_loss

from skprivate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, PrivacyLedger, make_curated_bags
from skprivate.aggregate import bag_score
from skprivate.aggregate._losses import BUILT_IN
from skprivate.aggregate.additive._constant import LabelSums
from skprivate.aggregate.additive._design import CellDesign
from skprivate.aggregate.additive._evidence import _posterior
from skprivate.aggregate.tables._cells import CellIndex

SETS = [(0, 1), (0,), (1, 2), (2,)]
KNOWN = {"categorical_features": "all", "feature_sets": SETS, "small_bags": "drop"}


def skewed(n, n_values=12, seed=0):
    """Rows whose first column has only large bags."""
    rng = np.random.default_rng(seed)
    rare = np.minimum(rng.geometric(0.25, size=(n, 2)) - 1, n_values - 1)
    X = np.column_stack([rng.integers(0, 3, n), rare])
    y = (rng.random(n) < expit(X[:, 0] - 1 + 0.6 * (X[:, 1] % 2) - 0.5 * (X[:, 2] > 2))).astype(int)
    return X, y


def test_rows_without_a_cell_in_the_design():
    rng = np.random.default_rng(0)
    X, _ = skewed(900)
    codes = [column.astype(np.int32) for column in X.T]
    for sets in ([(0, 1), (0,), (1, 2)], [(0, 1, 2), (0,)]):
        indexes = []
        for one in sets:
            index, _, _ = index_cells(codes, [12, 12, 12], one, min_size=1)
            cells = index.locate(codes)
            kept = index.keys[np.bincount(cells) >= 15]
            indexes.append(CellIndex(index.columns, index.radices, kept))
        design = CellDesign(indexes, codes)
        located = [index.locate(codes) for index in indexes]
        assert any(np.any(cells < 0) for cells in located)
        one_hot = np.concatenate(
            [(cells[:, np.newaxis] == np.arange(index.n_cells)) for index, cells in zip(indexes, located, strict=True)],
            axis=1,
        ).astype(float)
        np.testing.assert_array_equal(design.counts, one_hot.sum(axis=0))
        coef = rng.normal(size=(2, design.n_cells + 1))
        multiplicity = np.ones(design.n_rows) if design.multiplicity is None else design.multiplicity
        scores = one_hot @ coef[:, :-1].T + coef[:, -1]
        found = np.sort(np.repeat(design.scores(coef)[0], multiplicity.astype(int)))
        np.testing.assert_allclose(found, np.sort(scores[:, 0]), atol=1e-12)
        value = design.scatter(np.exp(design.scores(coef)) * multiplicity)
        np.testing.assert_allclose(value[:, :-1], np.exp(scores).T @ one_hot, rtol=1e-10)
        weight = design.scores(coef)[0] ** 2
        np.testing.assert_allclose(design.gram(weight), one_hot.T * scores[:, 0] ** 2 @ one_hot, atol=1e-8)
        assert design.complete_sets().tolist() == [not np.any(cells < 0) for cells in located]
        # Merged cells: all of the first set are one.
        first = int(design.offsets[1])
        new = np.maximum(np.arange(design.n_cells) - first + 1, 0)
        merged = design.merged(new, np.maximum(design.offsets - first + 1, 0) * (design.offsets > 0))
        together = np.column_stack([one_hot[:, :first].sum(axis=1), one_hot[:, first:]])
        np.testing.assert_allclose(merged.gram(weight), together.T * scores[:, 0] ** 2 @ together, atol=1e-8)


def test_intercept_of_the_posterior_sees_rows_without_a_cell():
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 4, 300).astype(np.int32), rng.integers(0, 2, 300).astype(np.int32)]
    indexes = [index_cells(codes, [4, 2], one, min_size=1)[0] for one in ((0,), (1,))]
    indexes[0] = CellIndex((0,), (4,), indexes[0].keys[:2])  # the others are left out
    design = CellDesign(indexes, codes)
    one_hot = np.concatenate([codes[0][:, np.newaxis] == [0, 1], codes[1][:, np.newaxis] == [0, 1]], axis=1)
    full, y = np.column_stack([one_hot, np.ones(300)]).astype(float), rng.normal(size=300)
    ridge = np.array([1.0, 1.0, 5.0, 5.0])
    problem = LabelSums(design, BUILT_IN["squared"], (y @ full)[np.newaxis, :-1], np.zeros(4))
    found, _ = _posterior(problem, np.zeros((1, 5)), ridge, 1.0)
    expected = np.linalg.solve(full.T @ full + np.diag([*ridge, 0.0]), full.T @ y)
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


def test_exact_fit_is_that_of_individual_labels_with_0_for_dropped_bags():
    X, y = skewed(1500)
    model = CuratedBagGAMClassifier(None, min_size=20, penalty=2.0, tol=1e-9, **KNOWN).fit(X, y)
    residual = y - model.predict_proba(X)[:, 1]
    assert abs(residual.sum()) < 1e-4
    sizes = []
    for table, bags in zip(model.tables_, model.bags_.tables, strict=True):
        assert np.all(bags.keys >= 0) and np.all(bags.counts >= 20)
        sizes.append(int(bags.counts.sum()))
        columns = [int(name[1:]) for name in bags.feature_set]
        for key, (coef,) in zip(bags.keys, table, strict=True):
            pull = residual[np.all(X[:, columns] == key, axis=1)].sum()
            assert pull == pytest.approx(2.0 * coef, abs=1e-4)
    assert sizes[1] == 1500 > max(sizes[0], sizes[2], sizes[3]) and model.bags_.n_samples == 1500
    parts = model.contributions(X)
    assert np.any(parts[:, 0] == 0.0) and not np.any(parts[:, 1] == 0.0)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("submodel", ["crosses", "factors", "mlp"])
@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, CuratedBagGAMRegressor])
def test_noisy_fits_without_small_bags(kind, submodel):
    if submodel == "mlp":
        pytest.importorskip("torch")
    X, y = skewed(4000)
    fit = {"min_size": 20, "submodel": submodel, "random_state": 0, **KNOWN}
    fit |= {"label_bounds": (0, 1)} if kind is CuratedBagGAMRegressor else {}
    predict = "predict" if kind is CuratedBagGAMRegressor else "predict_proba"
    exact, noisy = (getattr(kind(epsilon, **fit).fit(X, y), predict)(X) for epsilon in (None, 30.0))
    assert np.std(exact - noisy) < 0.3 * np.std(exact)
    merged = kind(30.0, **{**fit, "small_bags": "merge"}).fit(X, y)
    assert np.std(getattr(merged, predict)(X) - noisy) < 0.3 * np.std(exact)


@pytest.mark.slow
def test_many_noisy_cells_without_small_bags():
    X, y = skewed(30000, n_values=40)
    X = np.column_stack([X[:, 0], X[:, 1] * 5 + np.arange(30000) % 5, X[:, 2]])
    model = CuratedBagGAMClassifier(8.0, min_size=4, random_state=0, **KNOWN).fit(X, y)
    assert sum(table.n_bags for table in model.bags_.tables) > 1000
    assert model.bags_.tables[2].counts.sum() < 30000
    truth = expit(X[:, 0] - 1 + 0.6 * (X[:, 1] // 5 % 2) - 0.5 * (X[:, 2] > 2))
    assert log_loss(y, model.predict_proba(X)[:, 1]) < log_loss(y, truth) + 0.02


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("epsilon", [None, 5.0])
def test_reports_without_small_bags(numbers, epsilon):
    X, y = skewed(1500)
    y = y + 0.25 * X[:, 0] if numbers else y
    kind = CuratedBagGAMRegressor if numbers else CuratedBagGAMClassifier
    fit = {"epsilon": epsilon, "delta": 1e-6, "min_size": 20, "random_state": 0}
    model = kind(**fit, **KNOWN).fit(X, y)
    bags = make_curated_bags(
        X, y, SETS, small_bags="drop", categorical_features="all", classes=None if numbers else "auto", **fit
    )
    again = kind().fit_bags(X, json.loads(json.dumps(bags.to_dict())))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="rows of X have no bag|counts disagree|has values that no bag has"):
        kind().fit_bags(np.vstack([X, [[0, 11, 11]]]), bags)
    with pytest.raises(ValueError, match=r"no subset of a reported set with all its rare bags"):
        kind(feature_sets=[("x1",)]).fit_bags(X, bags)
    if numbers and epsilon is None:
        assert bags.square_sum == pytest.approx(np.sum(y**2))
    if not numbers and epsilon is None:
        loss = -bag_score(model, X, bags, level="rows")
        assert loss == pytest.approx(log_loss(y, model.predict_proba(X)[:, 1]))
        assert -bag_score(model, X, bags) > 0


def test_some_set_must_have_all_rows_before_anything_is_spent():
    X, y = skewed(400)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-3, unit="label")
    known = {**KNOWN, "feature_sets": [(0, 1), (2,)]}
    model = CuratedBagGAMClassifier(min_size=20, ledger=ledger, **known)
    with pytest.raises(ValueError, match=r"leaves no feature set with all rows"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="'small_bags' parameter"):
        model.set_params(small_bags="hide").fit(X, y)
    with pytest.raises(ValueError, match="small_bags must be 'merge' or 'drop'"):
        make_curated_bags(X, y, small_bags="hide", epsilon=1.0, ledger=ledger)
    assert not ledger.entries()
