"""Features that are standardised beside others that a step before has scaled by what it released."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from helpers.pairwise import pairwise
from helpers.preprocessing_replay import Recording, share

from skprivate import PrivacyLedger, UserLevelSGDClassifier, UserLevelSGDRegressor, make_private_pipeline
from skprivate.inspection import quote
from skprivate.preprocessing import make_additive_pipeline
from skprivate.privacy import Adjacency, BoundedRangeEvent
from skprivate.privacy._events import run_tape
from skprivate.user_level import UnscaledFeaturesWarning
from skprivate.user_level._plan import Terms
from skprivate.user_level.scaling._standardise import plan_standardisation


@pytest.mark.parametrize(
    ("kind", "adjacency", "prepared", "epsilon"),
    pairwise(
        product(
            [UserLevelSGDRegressor, UserLevelSGDClassifier],
            ["replace-one", "add-remove"],
            [
                (None, (0, 0.0), None, (0, 0.5)),
                (None, None, (0, 0.5), (1, 0.5)),
                ("unit", None, "unit", (1, 0.5)),
                ("unit", "unit", "unit", "unit"),
            ],
            [30.0, 1e4],  # with a tight and with a wide clip of squares
        )
    ),
)
def test_a_user_moves_no_draw_beside_prepared_features_by_more_than_its_sensitivity(kind, adjacency, prepared, epsilon):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    y = (y > 0).astype(float) if kind is UserLevelSGDClassifier else y
    extremes = [
        [1e308, -1e308, 5e-324, 1e300],
        [0.0, 0.0, 0.0, 0.0],
        [-1e308, 3.0, 1e200, -1e-310],
        [1.0] * 4,
        [1e100] * 4,  # its square is finite
    ]
    for k, row in enumerate(extremes):
        other, target = X.copy(), y.copy()
        other[7], target[7] = row, 1.0 - y[7] if k else y[7]
        cases = ((X, y) if adjacency == "replace-one" else (np.delete(X, 7, 0), np.delete(y, 7)), (other, target))
        draws, results = [], None
        for rows, targets in cases:
            tape = Recording(results)
            model = kind(epsilon, adjacency=adjacency, max_iter=3, random_state=0)
            model._prepared_features = prepared
            with run_tape(tape), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(rows, targets)
            draws.append(tape.draws)
            results = tape.results if results is None else results
        assert len(draws[0]) == len(draws[1]) > 3
        assert all(share(a, b) <= 1 for a, b in zip(*draws, strict=True))


def test_prepared_features_are_left_as_they_are():
    rng = np.random.default_rng(0)
    raw, ready = 1e4 + 50.0 * rng.normal(size=(20_000, 2)), 0.1 * rng.normal(size=(20_000, 2))
    model = UserLevelSGDRegressor(1.0, random_state=0)
    model._prepared_features = ((0, 0.1), None, (1, 0.1), None)
    X = np.column_stack([ready[:, 0], raw[:, 0], ready[:, 1], raw[:, 1]])
    model.fit(X, X @ [1.0, 0.02, 0.0, 0.0] + 0.1 * rng.normal(size=20_000))
    assert model.feature_center_[[0, 2]].tolist() == [0.0, 0.0]
    assert model.feature_scale_[[0, 2]].tolist() == [1.0, 1.0]
    assert (np.abs(model.feature_center_[[1, 3]] - 1e4) < 50).all()
    assert ((model.feature_scale_[[1, 3]] > 25) & (model.feature_scale_[[1, 3]] < 100)).all()
    assert np.isinf(model.feature_range_[1][[0, 2]]).all() and np.isfinite(model.feature_range_[1][[1, 3]]).all()
    # Only the two that are not prepared are paid for.
    n_selections = sum(
        count
        for event, count in model._mechanism(4, model._terms(20_000), True).standardisation.events
        if isinstance(event, BoundedRangeEvent)
    )
    assert n_selections <= 2 * 2 + 4


@pytest.mark.parametrize("kind", [UserLevelSGDRegressor, UserLevelSGDClassifier])
@pytest.mark.parametrize("numbers", [0, 2])
def test_indicators_of_a_pipeline_have_their_root_mean_squares_for_scales(kind, numbers):
    """They were searched as numbers: a scale of 2e-4 where most rows have a value, 1e-8 where few have it."""
    rng = np.random.default_rng(0)
    shares = np.array([0.6, 0.2, 0.1, 0.06, 0.04])
    ward = rng.choice(list("abcde"), size=20_000, p=shares)
    frame = pd.DataFrame({"ward": ward} | {f"x{j}": rng.normal(50, 9, size=20_000) for j in range(numbers)})
    schema = {"ward": list("abcde")} | {f"x{j}": "number" for j in range(numbers)}
    y = 1.0 * (ward == "a") - (ward == "c") + rng.normal(size=20_000)
    y = y > 0.5 if kind is UserLevelSGDClassifier else y
    model = make_private_pipeline(kind(1.0, random_state=0), schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnscaledFeaturesWarning)
        fitted = model.fit(frame, y)["model"]
    np.testing.assert_allclose(fitted.feature_scale_[numbers:][:5], np.sqrt(shares), atol=0.12)
    assert fitted.feature_center_[numbers:].tolist() == [0.0] * 6
    effects = fitted.coef_.ravel()[numbers:][:5]  # nobody is in the sixth
    assert np.abs(effects).max() < 4 and effects[0] - effects[1] > 0.5 < effects[1] - effects[2]


def test_columns_of_public_unit_alone_are_not_searched():
    terms = Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 5000)
    plan = plan_standardisation(terms, n_features=3, centred=True, target=False, unit=(True,) * 3)
    assert plan is not None and plan.features is None and len(plan.events) == 1
    assert plan_standardisation(terms, n_features=3, centred=True, target=False, prepared=(True,) * 3) is None


def test_noise_is_that_of_all_columns():
    terms = Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 5000)
    options = {"n_features": 8, "centred": True, "target": True}
    beside = plan_standardisation(terms, **options, prepared=(True,) * 6 + (False,) * 2)
    assert beside.features.n_columns == 2
    assert beside._level(5000.0) == plan_standardisation(terms, **options)._level(5000.0)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_a_reservation_of_the_quote_admits_a_fit_behind_indicators(epsilon):
    """The rehearsal knows of the indicators: what it asks the ledger for is what the fit costs."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=3000), "b": rng.choice(list("xyz"), size=3000)})
    X["b"] = pd.Categorical(X["b"], ["x", "y", "z"])
    X.loc[::7, "a"] = np.nan
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5, unit="row")
    last = UserLevelSGDClassifier(epsilon, classes=[False, True], random_state=0)
    model = make_private_pipeline(last, ledger=ledger)
    price = quote(model, X, X["b"] == "x", ledger=ledger)
    with ledger.reserve(price) as part:
        model.set_params(ledger=part).fit(X, X["b"] == "x")
    assert ledger.spent[0] > 0


@pytest.mark.parametrize("n_knots", [3, 9])
def test_the_norm_of_rows_is_that_of_columns_with_the_deviations_that_steps_state(n_knots):
    """Clipping radius, penalty and steps follow it: that of as many columns of deviation 1 is up to twice as long."""
    X = np.random.default_rng(0).normal(size=(20_000, 4))
    y = (X[:, 0] > 0.0).astype(int)
    steps = make_additive_pipeline(UserLevelSGDClassifier(8.0, random_state=0), n_knots=n_knots)
    steps[0].set_params(random_state=0)
    model = steps.fit(X, y)[-1]
    Z = (steps[:-1].transform(X) - model.feature_center_) / model.feature_scale_
    norm = np.sqrt(1.0 + np.square(Z).sum(axis=1).mean())
    model._prepared_features = steps[0]._prepared_outputs
    assert norm < model._typical_norm(Z.shape[1] + 1) < 1.25 * norm  # of lines nothing is stated
