"""What is refused is refused before anything is paid for, in composites and in every way of setting up a model."""

import inspect
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skprivate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    MetricPrivateSynthesizer,
    MetricPrivatizer,
    PPMHalfspaceClassifier,
    PrivacyLedger,
    RandomBagClassifier,
    RandomBagRegressor,
    UserLevelMean,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    make_curated_bags,
    make_private_pipeline,
    make_random_bags,
)
from skprivate.aggregate import release_frames
from skprivate.model_selection import PrivateSearchCV, fit_folds
from skprivate.model_selection._scoring import Parts, PrivateScore, Rows
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    make_additive_pipeline,
)
from skprivate.privacy import Adjacency, public_generator
from skprivate.user_level import UserLevelQueries
from skprivate.user_level._selection import user_losses
from skprivate.utils._checks_fit import _ODD
from skprivate.utils.estimator_checks import CheckData, check_errors_spend_nothing, default_data

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too few:UserWarning"),
    pytest.mark.filterwarnings("ignore:private_label is None:UserWarning"),
]
REGRESSOR = UserLevelSGDRegressor(max_iter=2)
CLASSIFIER = UserLevelSGDClassifier(max_iter=2)
LINES = [("line", FrozenEstimator(LinearRegression().fit(np.eye(3), np.arange(3.0))))]
SEARCH = {"n_iter": 2, "score_bounds": (-3.0, 0.0)}

COMPOSITES = [
    make_additive_pipeline(REGRESSOR, n_knots=5),
    make_additive_pipeline(REGRESSOR, n_knots=5, columns=[0, 1]),
    make_additive_pipeline(UserLevelSGDRegressor(max_iter=2, standardize=False), n_knots=4),
    make_additive_pipeline(CLASSIFIER, n_knots=5),
    make_private_pipeline(CLASSIFIER),
    make_private_pipeline(REGRESSOR),
    make_additive_pipeline(UserLevelSGDClassifier(max_iter=2, classes=[0, 1]), n_knots=5),
    pytest.param(PrivateSearchCV(REGRESSOR, {"alpha": [0.0]}, refit=0.3, **SEARCH), marks=pytest.mark.slow),
    pytest.param(
        PrivateSearchCV(
            make_pipeline(PrivateStandardScaler(0.5), CLASSIFIER), {"userlevelsgdclassifier__alpha": [0.0]}, n_iter=2
        ),
        marks=pytest.mark.slow,
    ),
]  # fmt: skip
VARIANTS = [
    CuratedBagGAMClassifier(classes=[0, 1], feature_sets="singles", penalty=1.0, mechanism="gaussian"),
    CuratedBagGAMRegressor(label_bounds=(0, 1), loss="poisson", min_size=2),
    MetricPrivateSynthesizer(metric="wasserstein", bounds=(0, 1), epsilon=50.0),
    MetricPrivateSynthesizer(bounds=(0, 1), resolution=4),
    MetricPrivatizer(bounds=(0, 1), mechanism="exponential", resolution=3),
    PPMHalfspaceClassifier(classes=[0, 1], private_label=1, strategy="greedy", calibration_fraction=0.3),
    PPMHalfspaceClassifier(classes=[0, 1], private_label=1, strategy="gradient", delta=1e-6),
    PrivateImputer(strategy="mean", delta=0.0),
    PrivateImputer(strategy="most_frequent", categories=[0.0, 1.0]),
    PrivateSplineTransformer(n_knots=4, basis="b-spline", adjacency="add-remove"),
    RandomBagClassifier(loss="easyllp", bag_size=2),
    RandomBagRegressor(loss="debiased", bag_size=2, buckets=True),
    UserLevelMean(delta=0.0, tau=1.0),
    UserLevelSelector(LINES, rule="means"),
    UserLevelSelector(LINES, predict_by="batch", rule="votes", loss=lambda y, predicted: np.abs(y - predicted)),
    UserLevelSGDRegressor(solver="sgd", adjacency="add-remove", n_users=9),
    UserLevelSGDClassifier(max_iter=2, class_weight="balanced"),
]  # fmt: skip


def composite_data(estimator, rng, n_rows):
    """Data for the last step; identifiers for the steps that take them."""
    search = isinstance(estimator, PrivateSearchCV)
    model = estimator.estimator if search else estimator
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    data = default_data(last, rng, n_rows)
    names = ["user_ids"] if search else [f"{step}__user_ids" for step, _ in model.steps]
    if hasattr(model, "steps") and hasattr(model.steps[0][1], "transformers"):
        names = []  # composites of columns pass none on
    return CheckData(data.X, data.y, dict.fromkeys(names, data.metadata["user_ids"]))


@pytest.mark.slow
@pytest.mark.parametrize("model", COMPOSITES, ids=lambda model: type(model).__name__)
def test_composites_check_all_steps_before_the_first_one_pays(model):
    check_errors_spend_nothing(type(model).__name__, model, make_data=composite_data)


@pytest.mark.slow
@pytest.mark.parametrize("model", VARIANTS, ids=lambda model: type(model).__name__)
def test_variants_check_before_they_pay(model):
    check_errors_spend_nothing(type(model).__name__, model)


@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, CuratedBagGAMRegressor])
def test_without_torch_networks_cost_nothing(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    X, y, ledger = np.arange(40.0).reshape(20, 2), np.arange(20) % 2, PrivacyLedger(epsilon=9.0, delta=0.1)
    for submodel in ("mlp", lambda radices, n_outputs: 3):
        with pytest.raises(ImportError, match=r"pip install 'skprivate\[torch\]'"):
            kind(submodel=submodel, ledger=ledger).fit(X, y)
    with pytest.raises(ValueError, match=r"submodel_options has unknown entries \['epoch'\]"):
        kind(submodel="mlp", submodel_options={"epoch": 3}, ledger=ledger).fit(X, y)
    assert not ledger.entries()


def releases():
    """Functions that release something, with arguments that are right; what is called later in a second place."""
    rng = public_generator(0)
    X, y = rng.integers(0, 3, size=(40, 2)).astype(float), np.arange(40) % 2
    table = pd.DataFrame({"age": ["a", "b", "c"], "n": [20, 10, 10], "s": [8, 5, 5]})
    model = UserLevelMean(delta=0.0, tau=1.0, bound=2.0)
    return {
        "classes": (make_curated_bags, {"X": X, "y": y, "epsilon": 1.0}),
        "numbers": (make_curated_bags, {"X": X, "y": y + 0.5, "epsilon": 1.0, "label_bounds": (0, 2)}),
        "random": (make_random_bags, {"X": X, "y": y, "bag_size": 2, "epsilon": 1.0}),
        "frames": (release_frames, {"tables": table, "count": "n", "sums": "s", "classes": (0, 1), "epsilon": 1.0}),
        "queries": (UserLevelQueries, {"X": X, "user_ids": y, "n_queries": 2, "bound": 4.0}),
        "folds": (fit_folds, {"estimator": model, "X": X, "user_ids": np.arange(40) // 2}),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(releases()))
def test_functions_check_before_they_pay(name):
    function, right = releases()[name]

    def charged(arguments):
        whom = {"unit": "user", "adjacency": "replace-one"} if name == "folds" else {}
        ledger = PrivacyLedger(epsilon=1e300, delta=0.999, composition="basic", **whom)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(**arguments, ledger=ledger)
            except Exception as error:
                return ledger, error
        return ledger, None

    ledger, error = charged(right)
    assert error is None and ledger.spent[0] > 0, error
    known = [p for p in inspect.signature(function).parameters if p not in ("ledger", "random_state")]
    for key in [*known, "no_such"]:
        for odd in (*_ODD, np.full(40, "Rosalind"), np.arange(39), np.full((40, 2), np.nan), np.arange(40) % 3):
            ledger, error = charged({**right, key: odd})
            if error is not None:
                assert ledger.spent == (0.0, 0.0), f"{key}={odd!r}: {error!r}"
                assert key not in ("y", "user_ids") or "Rosalind" not in str(error), error


def test_queries_that_fail_for_everybody_cost_no_answer():
    with UserLevelQueries(np.zeros((8, 2)), n_queries=90, bound=4.0) as queries:
        for odd in _ODD:
            left = queries.n_left
            try:
                queries.mean(odd)
            except Exception:
                assert queries.n_left == left


class Picky(BaseEstimator, ClassifierMixin):
    """Fails for rows of large numbers."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        if (np.asarray(X) > 900).any():
            raise ValueError(f"seen {X}")
        return np.zeros(len(X), dtype=int)


def picky_loss(y, predicted):
    if (y > 900).any():
        raise ValueError(f"seen {y}")
    return np.abs(y - predicted)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("loss", ["squared_error", picky_loss])
def test_candidates_that_fail_for_somebodys_rows_lose_there_and_nothing_is_said(loss, batch):
    X, y, codes = np.full((9, 2), 0.5), np.arange(9) % 2.0, np.arange(9) // 3
    before = user_losses(Picky().fit(X, y), X, y, codes, loss, by_user=not batch)
    (X if loss == "squared_error" else y[:, None])[4] = 1000.0
    after = user_losses(Picky().fit(X, y), X, y, codes, loss, by_user=not batch)
    np.testing.assert_array_equal(after, [before[0], np.inf, before[2]])


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("score", ["accuracy", lambda y, predicted: -picky_loss(y, predicted)])
def test_scores_that_fail_for_somebodys_rows_are_the_lowest_and_nothing_is_said(score, batch):
    X, y, sizes = np.full((9, 2), 0.5), np.arange(9) % 2.0, np.array([3, 3, 3])

    def scored():
        rows = Rows(X, y, {})
        parts = Parts(rows, rows, sizes, True, 3)
        return PrivateScore(score, -2.0, 1.0, Adjacency.REPLACE_ONE, batch).of_units(Picky().fit(X, y), parts)

    before = scored()
    (X if score == "accuracy" else y[:, None])[4] = 1000.0
    np.testing.assert_array_equal(scored(), [before[0], -2.0, before[2]])
