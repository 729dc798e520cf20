"""Submodels of curated bags other than tables: factors, and networks (which need torch)."""

import itertools
import json
import pickle

import numpy as np
import pytest
from helpers.cells import index_cells
from scipy.optimize import check_grad
from sklearn.base import clone
from sklearn.metrics import log_loss

from skprivate import PrivacyLedger
from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor
from skprivate.aggregate._losses import BUILT_IN
from skprivate.aggregate.additive._constant import LabelSums
from skprivate.aggregate.additive._design import CellDesign
from skprivate.aggregate.additive._factors import Factors, _Exact, _Weighted

SETS = [(0,), (1,), (0, 1), (0, 1, 2)]


@pytest.mark.parametrize("aim", [_Exact, _Weighted])
@pytest.mark.parametrize("loss", ["log", "multinomial", "squared", "poisson"])
def test_factors_have_the_gradient_of_their_objective(loss, aim):
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 4, size=300, dtype=np.int32) for _ in range(3)]
    indexes = [index_cells(codes, [4, 4, 4], one, min_size=4)[0] for one in SETS]
    assert indexes[-1].has_rest
    design = CellDesign(indexes, codes)
    k = 3 if loss == "multinomial" else 1
    sums = design.scatter(rng.random((k, design.n_rows)) * design.counts.size / design.n_cells)[:, :-1]
    noise = np.full(design.n_cells, 5.0 if aim is _Weighted else 0.0)
    problem = LabelSums(design, BUILT_IN[loss], sums, noise)
    factors, objective = Factors(indexes, k, 2), aim(problem)
    start = factors.start(problem.constant[:, -1], rng)
    start += 0.3 * rng.standard_normal(start.size)
    ends = np.cumsum([index.n_cells for index in indexes])

    def gradient(parameters):
        return factors.pull_back(parameters, objective.value_and_gradient(factors.coef(parameters))[1])

    error = check_grad(lambda p: objective.value_and_gradient(factors.coef(p))[0], gradient, start)
    assert error < 1e-4 * np.linalg.norm(gradient(start))
    # The cells of a cross are products of its values' numbers.
    numbers = start[: 15 * k * 2].reshape(3, 5, k, 2)
    keys = indexes[2].keys + 1
    expected = np.einsum("nkf,nkf->kn", numbers[0][keys[:, 0]], numbers[1][keys[:, 1]])
    np.testing.assert_allclose(factors.coef(start)[:, ends[1] : ends[2]], expected)


@pytest.fixture(scope="module")
def crossed():
    """Labels that pairs of many values tell, by products of hidden numbers."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 25, size=(20_000, 4))
    hidden = rng.normal(size=(4, 25, 2))
    score = sum(
        0.5 * np.sum(hidden[c, X[:, c]] * hidden[d, X[:, d]], axis=1) for c, d in itertools.combinations(range(4), 2)
    )
    y = (rng.random(20_000) < 1 / (1 + np.exp(-score))).astype(int)
    return X[:12_000], y[:12_000], X[12_000:], y[12_000:]


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "gain"), [(None, 0.03), (8.0, 0.03), (2.0, 0.01)])
def test_factors_beat_tables_where_crosses_are_products(crossed, epsilon, gain):
    X, y, X_test, y_test = crossed
    losses = {}
    for submodel in ("crosses", "factors"):
        model = CuratedBagGAMClassifier(
            epsilon, submodel=submodel, feature_sets="pairs", categorical_features="all", classes=[0, 1], random_state=0
        ).fit(X, y)
        losses[submodel] = log_loss(y_test, model.predict_proba(X_test)[:, 1])
    assert losses["factors"] < losses["crosses"] - gain


@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
def test_factors_keep_no_cross_that_is_noise():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 8, size=(3000, 4)), rng.integers(0, 2, size=3000)
    for epsilon in (None, 1.0):
        model = CuratedBagGAMClassifier(
            epsilon,
            submodel="factors",
            feature_sets="pairs",
            categorical_features="all",
            classes=[0, 1],
            random_state=0,
        ).fit(X, y)
        p = model.predict_proba(rng.integers(0, 8, size=(3000, 4)))[:, 1]
        assert np.mean((p - 0.5) ** 2) < 0.002


def shared_embeddings(width=3):
    """A factory of networks that share one embedding a column, which a set's columns tell."""
    torch = pytest.importorskip("torch")

    class Product(torch.nn.Module):
        def __init__(self, embeddings, n_outputs):
            super().__init__()
            self.embeddings = torch.nn.ModuleList(embeddings)
            self.head = torch.nn.Linear(width, n_outputs)

        def forward(self, keys):
            parts = [embedding(keys[:, i]) for i, embedding in enumerate(self.embeddings)]
            return self.head(torch.stack(parts).prod(dim=0))

    known, asked = {}, []

    def make(feature_set, n_outputs):
        asked.append(feature_set)
        for column, radix in zip(feature_set.columns, feature_set.radices, strict=True):
            known.setdefault(column, torch.nn.Embedding(radix, width))
        return Product([known[column] for column in feature_set.columns], n_outputs)

    make.asked = asked
    return make


def submodel_named(name):
    if name == "own":
        return shared_embeddings(), {"epochs": 20, "learning_rate": 0.05}
    if name == "mlp":
        pytest.importorskip("torch")
        return name, {"epochs": 20, "learning_rate": 0.05}
    return name, {"weight_decays": (1.0, 30.0)}


@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
@pytest.mark.parametrize("epsilon", [None, 4.0])
@pytest.mark.parametrize("kind", ["classes", "squared", "poisson"])
@pytest.mark.parametrize("name", ["factors", "mlp", "own"])
def test_submodels_of_released_sums(name, kind, epsilon):
    submodel, options = submodel_named(name)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(1500, 3))
    common = {
        "submodel": submodel,
        "submodel_options": options,
        "feature_sets": [(0,), (1,), (0, 2)],
        "categorical_features": "all",
        "random_state": 0,
    }
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3, unit="label") if epsilon else None
    if kind == "classes":
        y = (X[:, 0] + rng.integers(0, 2, size=1500)) % 3
        model = CuratedBagGAMClassifier(epsilon, classes=[0, 1, 2], ledger=ledger, **common)
    else:
        y = rng.poisson(1.0 + X[:, 0]).astype(float)
        model = CuratedBagGAMRegressor(epsilon, loss=kind, label_bounds=(0.0, 12.0), ledger=ledger, **common)
    fitted = model.fit(X, y)
    assert fitted.score(X, y) > (0.4 if kind == "classes" else 0.05)
    assert fitted.penalties_ is None
    if ledger is not None:
        assert ledger.spent[0] == pytest.approx(epsilon)
        fitted.set_params(ledger=None)  # it lives in this process only
    if name == "own":
        assert [one.columns for one in submodel.asked] == [(0,), (1,), (0, 2)]
        assert submodel.asked[-1].radices == (5, 5)
        return
    scores = fitted._scores(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted))._scores(X), scores)
    fresh = clone(model).set_params(ledger=None)
    np.testing.assert_array_equal(fresh.fit(X, y)._scores(X), scores)
    # Nothing but what was released is learned from.
    released = json.loads(json.dumps(fitted.bags_.to_dict()))
    np.testing.assert_array_equal(clone(fresh).fit_bags(X, released)._scores(X), scores)


def test_options_of_factors_are_checked_before_the_charge():
    ledger = PrivacyLedger(epsilon=1.0, unit="label")
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    for options in ({"weight_decays": ()}, {"weight_decays": (-1.0,)}, {"hidden": (3,)}, {"embedding": 0}):
        model = CuratedBagGAMClassifier(delta=0.0, submodel="factors", submodel_options=options, ledger=ledger)
        with pytest.raises(ValueError, match="submodel_options"):
            model.fit(X, y)
    assert ledger.spent == (0.0, 0.0)
