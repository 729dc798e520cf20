"""The private scaler: what it releases, how well, and how it says no."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers.preprocessing_replay import Recording
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skprivate import PrivacyLedger, UserLevelSGDRegressor
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler, TooFewUnitsWarning
from skprivate.preprocessing._mechanisms import ColumnMoments
from skprivate.privacy import Adjacency, BudgetExceededError, GaussianEvent, PureEvent
from skprivate.privacy._events import run_tape

SEEDS = range(5)


def skewed(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.normal(1e6, 3.0, n),
            rng.normal(0, 1e-9, n),
            rng.lognormal(3, 1, n),
            np.where(rng.random(n) < 0.6, 0.0, rng.exponential(100, n)),
            rng.integers(0, 2, n),
            1.6e9 + rng.uniform(0, 1e7, n),
        ]
    )


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_close_to_the_scaler_without_privacy(adjacency):
    """A reach lies beyond all numbers with probability e⁻⁶; that of 30 columns 5 do so with less than 2e-8."""
    missed = 0
    for seed in SEEDS:
        X = skewed(20_000, seed)
        private = PrivateStandardScaler(1.0, adjacency=adjacency, random_state=seed).fit(X)
        plain = StandardScaler().fit(X)
        ratio = private.scale_ / plain.scale_
        near = np.abs(private.mean_ - plain.mean_) < 0.2 * plain.scale_
        near &= (ratio > 0.35) & (ratio < 1.5)  # lognormal: single rows decide
        missed += np.count_nonzero(~near)
        assert np.all(np.abs(private.n_units_ - 20_000) < 1500)
        np.testing.assert_allclose(private.inverse_transform(private.transform(X)), X, rtol=1e-9, atol=1e-12)
    assert missed < 5


@pytest.mark.parametrize("seed", SEEDS)
def test_with_bounds(seed):
    X = np.random.default_rng(seed).uniform(0, 1, (2000, 3)) * [1, 10, 100]
    bounds = {0: (0, 1), 1: (0, 10), 2: (0, 100)}
    private = PrivateStandardScaler(1.0, bounds=bounds, random_state=seed).fit(X)
    # Noise of the mean: the multiplier 2·7 of 2000 half-ranges; 6 standard deviations.
    assert np.all(np.abs(private.mean_ - X.mean(0)) < 0.05 * np.array([1, 10, 100]))
    assert np.all(np.abs(private.scale_ / X.std(0) - 1) < 0.25)


def test_a_large_budget_gives_the_exact_moments():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    for delta in (0.0, 1e-6):
        private = PrivateStandardScaler(500.0, delta=delta, bounds=(-1, 1), random_state=0).fit(X)
        np.testing.assert_allclose(private.mean_, X.mean(0), atol=1e-3)
        np.testing.assert_allclose(private.var_, X.var(0), atol=1e-3)


def test_a_user_counts_once():
    rng = np.random.default_rng(0)
    users = np.concatenate([np.zeros(20_000, int), np.arange(1, 3001)])
    X = np.concatenate([np.full(20_000, 50.0), rng.normal(0, 1, 3000)])[:, None]
    private = PrivateStandardScaler(2.0, random_state=0).fit(X, user_ids=users)
    assert abs(private.mean_[0]) < 0.3 and 0.7 < private.scale_[0] < 1.3
    assert str(private.privacy_guarantee_.unit) == "user"
    assert str(PrivateStandardScaler(random_state=0).fit(X).privacy_guarantee_.unit) == "row"


def test_missing_values_count_nothing():
    X = np.random.default_rng(0).normal(5, 2, (6000, 2))
    X[:3000, 0] = np.nan
    private = PrivateStandardScaler(2.0, random_state=0).fit(X)
    assert np.all(np.abs(private.mean_ - 5) < 0.4) and np.all(np.abs(private.scale_ - 2) < 0.5)
    assert abs(private.n_units_[0] - 3000) < 300
    np.testing.assert_array_equal(np.isnan(private.transform(X)), np.isnan(X))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e12, 1e300])
def test_constant_columns(value):
    private = PrivateStandardScaler(1.0, random_state=0).fit(np.full((5000, 1), value))
    assert private.scale_[0] > 0 and np.all(np.isfinite(private.transform([[value], [0.0]])))
    if abs(value) <= 1e12:
        assert abs(private.transform([[value]])[0, 0]) <= 1


def test_noise_is_laplace_for_few_columns_and_gaussian_for_many():
    few = ColumnMoments(1, 1.0, 1e-6, Adjacency.REPLACE_ONE)
    many = ColumnMoments(30, 1.0, 1e-6, Adjacency.REPLACE_ONE)
    assert any(isinstance(event, PureEvent) for event, _ in few.events)
    assert any(isinstance(event, GaussianEvent) for event, _ in many.events)
    pure = ColumnMoments(30, 1.0, 0.0, Adjacency.REPLACE_ONE)
    assert (
        many.noise_scale < pure.noise_scale
        and few.noise_scale == ColumnMoments(1, 1.0, 0.0, Adjacency.REPLACE_ONE).noise_scale
    )


@pytest.mark.parametrize("n_columns", [1, 12])
def test_noise_has_the_stated_scale(n_columns):
    """Mean square of 1800 noises against the stated variance; ±40 % are more than 7 standard errors."""
    X = np.zeros((40, n_columns))
    made, scale = [], None
    for _ in range(600 // n_columns):
        tape = Recording()
        model = PrivateStandardScaler(5.0, bounds=(-1, 1))
        with run_tape(tape):
            model.fit(X)
        scale = ColumnMoments(n_columns, 5.0, 1e-6, Adjacency.REPLACE_ONE, 40, ((-1, 1),) * n_columns).noise_scale
        made += [result - draw.statistic * draw.step for draw, result in zip(tape.draws, tape.results, strict=True)]
    assert abs(np.mean(np.square(made)) / scale**2 - 1) < 0.4


def test_too_few_rows_are_told_from_public_numbers_alone():
    for X in (np.zeros((50, 3)), np.full((50, 3), 1e9)):
        with pytest.warns(TooFewUnitsWarning, match="50 rows are too few: PrivateStandardScaler needs about"):
            PrivateStandardScaler(random_state=0).fit(X)
    PrivateStandardScaler(adjacency="add-remove", random_state=0).fit(np.zeros((50, 3)))  # their number is private


def test_messages_name_the_column():
    frame = pd.DataFrame({"age": [1.0, 2.0], "job": ["a", "b"]})
    model = PrivateStandardScaler(random_state=0)
    with pytest.raises(ValueError, match="column 'job' of X must hold numbers, got str") as caught:
        model.fit(frame)
    assert "'a'" not in str(caught.value)
    with pytest.raises(ValueError, match="infinity in column 'age'"):
        model.fit(pd.DataFrame({"age": [1.0, np.inf]}))
    with pytest.raises(TypeError, match="column 'day' of X must hold numbers, got datetime64"):
        model.fit(pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"])}))
    with pytest.raises(ValueError, match="bounds of column .age. must be finite with low < high"):
        model.set_params(bounds={"age": (3, 3)}).fit(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(ValueError, match="none for 'b'"):
        model.set_params(bounds={"age": (0, 3)}).fit(pd.DataFrame({"age": [1.0], "b": [1.0]}))
    with pytest.raises(ValueError, match="column 'x'"):
        model.set_params(bounds={"x": (0, 3)}).fit(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(ValueError, match="bounds must be a dict"):
        model.set_params(bounds=[(0, 1), (0, 1), (0, 1)]).fit(pd.DataFrame({"age": [1.0]}))
    assert not hasattr(model, "mean_")


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(library):
    columns = {"a": [1.0, None, 3.0] * 10, "b": [1, 2, 3] * 10}
    frame = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
    model = PrivateStandardScaler(random_state=0).set_output(transform=library).fit(frame)
    scaled = model.transform(frame)
    assert type(scaled) is type(frame) and list(scaled.columns) == ["a", "b"]
    assert list(model.get_feature_names_out()) == ["a", "b"]
    same = PrivateStandardScaler(random_state=0).fit(np.array([columns["a"], columns["b"]], dtype=float).T)
    np.testing.assert_array_equal(same.mean_, model.mean_)


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_pandas_missing_values():
    plain = PrivateStandardScaler(random_state=0).fit(np.array([[1.0], [np.nan], [3.0]]))
    for kind in ("Int64", "Float64", object):
        frame = pd.DataFrame({"a": pd.array([1, pd.NA, 3], dtype=kind)})
        np.testing.assert_array_equal(PrivateStandardScaler(random_state=0).fit(frame).mean_, plain.mean_)


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_one_ledger_for_the_pipeline():
    rng = np.random.default_rng(0)
    X, users = rng.normal(1000, 5, (3000, 2)), np.arange(3000) // 3
    y = (X - 1000) @ [1.0, 2.0]
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, unit="user", composition="basic")
    model = make_pipeline(
        PrivateStandardScaler(0.5, ledger=ledger, random_state=0),
        UserLevelSGDRegressor(1.0, ledger=ledger, random_state=0),
    )
    ids = {f"{step}__user_ids": users for step in ("privatestandardscaler", "userlevelsgdregressor")}
    model.fit(X, y, **ids)
    assert len(ledger.entries()) == 2 and 1.3 < ledger.spent[0] <= 1.5
    with pytest.raises(BudgetExceededError):
        model.fit(X, y, **ids)


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning")
def test_grid_search_and_column_transformer():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
    columns = ColumnTransformer([("scale", PrivateStandardScaler(random_state=0), ["a", "b"])], remainder="passthrough")
    columns.set_output(transform="pandas")
    assert list(columns.fit_transform(frame).columns) == ["scale__a", "scale__b", "remainder__c"]
    search = GridSearchCV(
        make_pipeline(PrivateStandardScaler(random_state=0), LinearRegression()),
        {"privatestandardscaler__epsilon": [1.0, 5.0]},
        cv=2,
    ).fit(frame, frame["a"])
    assert search.best_estimator_[0].privacy_guarantee_.epsilon <= 5


def test_options_without_mean_or_scale():
    X = np.random.default_rng(0).normal(5, 2, (5000, 1))
    both = PrivateStandardScaler(random_state=0).fit(X)
    centred = PrivateStandardScaler(random_state=0, with_std=False).fit(X)
    scaled = PrivateStandardScaler(random_state=0, with_mean=False).fit(X)
    np.testing.assert_array_equal(centred.transform(X), X - both.mean_)
    np.testing.assert_array_equal(scaled.transform(X), X / both.scale_)
    for model in (centred, scaled):
        np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X)


@pytest.mark.parametrize(
    "scaler",
    [
        PrivateStandardScaler(bounds=(-1e-3, 1e-3), random_state=0),
        PublicScaler(scale=1e-3),
        PublicScaler(center=-1e308),
    ],
)
@pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
def test_finite_rows_stay_finite(scaler):
    """The next step would refuse a row that overflowed, and so tell of it."""
    X = np.array([[1.7e308], [-1e300], [5e-324], [0.0]] * 5)
    scaled = scaler.fit(X).transform(X)
    assert np.isfinite(scaled).all() and scaled.max() == np.finfo(float).max


@pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
def test_what_a_step_made_infinite_is_missing_where_nothing_is_refused():
    X = np.array([[np.inf], [1.0], [2.0], [-np.inf]] * 50)
    gaps = np.where(np.isinf(X), np.nan, X)
    scaler = PrivateStandardScaler(bounds=(0, 3), random_state=0)
    with config_context(assume_finite=True):
        assert scaler.fit(X).mean_ == clone(scaler).fit(gaps).mean_
    with pytest.raises(ValueError, match="infinity in column 0"):
        scaler.fit(X)
