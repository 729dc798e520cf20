"""Linear models take gaps: each is one released number, the same in a fit and in a prediction."""

from __future__ import annotations

import warnings

import dask.array
import numpy as np
import pandas as pd
import polars as pl
import pytest

from skprivate import PrivacyLedger, UserLevelSGDClassifier, UserLevelSGDRegressor, guarantee_of, make_private_pipeline
from skprivate.partitions import Blocks
from skprivate.preprocessing import PrivateImputer
from skprivate.privacy import public_generator
from skprivate.user_level import TooFewUsersWarning, UnscaledFeaturesWarning
from skprivate.utils.estimator_checks import replay

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 3000


class Squares:
    """A custom loss, row by row."""

    def gradient(self, X, y, coef):
        residual = -y
        for column, weight in zip(np.ascontiguousarray(X.T), coef, strict=True):
            residual = residual + column * weight
        return residual[:, None] * X


WAYS = {
    "rows": {},
    "rows, plain": {"solver": "sgd"},
    "add-remove": {"adjacency": "add-remove"},
    "no intercept": {"fit_intercept": False},
    "as given": {"standardize": False},
    "radius": {"radius": 50.0},
    "custom": {"loss": Squares()},
    "quantile": {"loss": "quantile", "quantile": 0.5},
    "intervals": {"inference": True},
    "too few users": {"epsilon": 1e-4},
}


def table(n=N, gaps=0.3, seed=0):
    """Columns far from 0, a target, and gaps at random."""
    rng = public_generator(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [0.0, 500.0, -3.0]
    y = (X - [0.0, 500.0, -3.0]) @ [1.0, 0.05, 10.0] + rng.normal(size=n)
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y


def fitted(X, y, users=None, **options):
    return UserLevelSGDRegressor(**{"random_state": 0, **options}).fit(X, y, user_ids=users)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("several", [False, True])
def test_a_gap_is_the_released_centre(way, several):
    X, y = table()
    users = np.arange(N) // 3 if several else None
    model = fitted(X, y, users, **WAYS[way])
    assert np.isfinite(model.coef_).all() and np.isfinite(model.feature_fill_).all()
    filled = np.where(np.isnan(X), model.feature_fill_, X)
    np.testing.assert_array_equal(model.predict(X), model.predict(filled))
    alone = model.predict(np.full((1, 3), np.nan))
    np.testing.assert_allclose(alone, model.predict(model.feature_fill_[None]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"solver": "sgd"}, {"feature_norm": 2.0}, {"class_weight": "balanced"}])
def test_classes_with_gaps(classes, options):
    X, y = table()
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    model = UserLevelSGDClassifier(classes=range(classes), random_state=0, **options).fit(X, labels)
    np.testing.assert_array_equal(
        model.predict_proba(X), model.predict_proba(np.where(np.isnan(X), model.feature_fill_, X))
    )
    assert np.isfinite(model.predict_proba(X)).all()


def test_centres_are_those_of_the_numbers():
    """A gap counted as a number below all others moved them."""
    X, y = table(20_000, 0.6)
    model = fitted(X, y)
    assert (np.abs(model.feature_fill_ - [0.0, 500.0, -3.0]) < [0.3, 6.0, 0.03]).all()
    assert (np.abs(np.log2(model.feature_scale_ / [1.0, 20.0, 0.1])) < 1.0).all()


def test_without_an_intercept_gaps_are_where_numbers_are():
    X, y = table(20_000, 0.5)
    model = fitted(X, y, fit_intercept=False)
    assert (np.abs(model.feature_fill_ - [0.0, 500.0, -3.0]) < [0.5, 10.0, 0.05]).all()
    assert not model.feature_center_.any()


@pytest.mark.parametrize("options", [{}, {"solver": "sgd"}, {"standardize": False}])
def test_rows_with_gaps_are_the_same_everywhere(options):
    X, y = table()
    memory = fitted(X, y, **options)
    others = [
        (Blocks([np.column_stack([X, y])[k : k + 700] for k in range(0, N, 700)]), 3),
        (dask.array.from_array(np.column_stack([X, y]), chunks=(800, 4)), 3),
        (pl.DataFrame(X).fill_nan(None), y),
        (pd.DataFrame(X).convert_dtypes(), y),
    ]
    for rows, target in others:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(fitted(rows, target, **options).coef_, memory.coef_)


@pytest.mark.parametrize("gap", [None, pd.NA, pd.NaT, np.datetime64("NaT"), float("nan")], ids=repr)
def test_every_gap_among_objects_is_one(gap):
    """NumPy makes no float of pandas.NA, and -9e18 of NaT: one such entry failed a fit, or was far away."""
    X, y = table(1000)
    objects = np.where(np.isnan(X), None, X)
    objects[np.isnan(X)] = gap
    bits = fitted(X, y)
    for rows in (objects, pd.DataFrame(objects, columns=list("abc"))):
        before = rows.copy()
        model = fitted(rows, y)
        np.testing.assert_array_equal(model.coef_, bits.coef_)
        np.testing.assert_array_equal(model.predict(rows), bits.predict(X))
        assert pd.DataFrame(rows).equals(pd.DataFrame(before))
    whole = np.column_stack([objects, y])
    np.testing.assert_array_equal(fitted(Blocks([whole[:400], whole[400:]]), 3).coef_, bits.coef_)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("options", [{}, {"solver": "sgd"}, {"inference": True}, {"standardize": False}])
def test_a_row_of_gaps_moves_no_release_by_more_than_its_sensitivity(several, options):
    """And what all others contribute stays as it was."""
    X, y = table(1500)
    users = np.arange(1500) // 3 if several else None
    own = slice(0, 3) if several else slice(0, 1)
    others = [X.copy() for _ in range(3)]
    for other, values in zip(others, (np.nan, 1e308, 0.0), strict=True):
        other[own] = values
    found = replay(lambda rows: fitted(rows, y, users, **options), X, others)
    assert found.n_draws > 5 and not found.failures
    assert max(found.worst.values()) > 0.5  # so that half the sensitivity fails


def test_infinity_is_refused_before_payment():
    X, y = table(100)
    X[3, 1] = np.inf
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="infinity"):
        UserLevelSGDRegressor(ledger=ledger).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        UserLevelSGDRegressor(ledger=ledger).fit(np.nan_to_num(X, posinf=0.0), np.where(y > 0, y, np.nan))
    assert not ledger.entries()


@pytest.mark.parametrize("options", [{}, {"solver": "sgd"}])
def test_a_column_of_gaps_alone_is_named_and_left_out_of_predictions(options):
    X, y = table(20_000)
    X[:, 1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.warns(UnscaledFeaturesWarning, match="Features 'b': .* missing"):
        model = fitted(frame, y, **options)
    full = frame.assign(b=500.0)
    np.testing.assert_array_equal(model.predict(frame), model.predict(full))
    assert model.score(full, y) > 0.3


def test_some_gaps_are_no_reason_to_warn():
    X, y = table(20_000, 0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnscaledFeaturesWarning)
        warnings.simplefilter("error", TooFewUsersWarning)
        fitted(X, y)


def test_gaps_that_come_with_predictions_alone():
    X, y = table(gaps=0.0)
    model = fitted(X, y)
    X[::2, 1] = np.nan
    assert np.isfinite(model.predict(X)).all()


def test_linear_pipelines_spend_nothing_on_gaps():
    X, y = table()
    model = make_private_pipeline(UserLevelSGDRegressor(random_state=0), epsilon=1.0).fit(X, y)
    total = guarantee_of(model)
    alone = UserLevelSGDRegressor(epsilon=1.0, random_state=0).fit(X, y)
    assert total.epsilon == alone.privacy_guarantee_.epsilon
    np.testing.assert_array_equal(model["model"].coef_, alone.coef_)
    steps = [type(step) for _, step in model["columns"].named_transformers_["numbers"].steps]
    assert PrivateImputer not in steps


@pytest.mark.parametrize("classes", [False, True])
def test_a_category_that_nobody_has_is_worth_one_scale_of_the_target_at_most(classes):
    """Its coefficient was pure noise: up to 200 where targets have deviation 19."""
    frame = pd.DataFrame({"ward": public_generator(0).choice(["a", "b"], N)})
    y = 20.0 * (frame["ward"] == "a") + 10.0 * public_generator(1).normal(size=N)
    for seed in range(5):
        options = {"random_state": seed}
        inner = UserLevelSGDClassifier(classes=[0, 1], **options) if classes else UserLevelSGDRegressor(**options)
        model = make_private_pipeline(inner, {"ward": ["a", "b"]}, epsilon=1.0)
        model.fit(frame, (y > 10.0).astype(int) if classes else y)
        scale = model["model"]._frame.target_scale
        rest = model["model"].coef_.ravel()[-1]
        assert abs(rest) <= scale * (1.0 + 1e-12) and (classes or scale < 30.0)
        assert abs(model["model"].coef_.ravel()[0] - model["model"].coef_.ravel()[1]) > (1.0 if classes else 10.0)


def test_limits_of_a_schema_help_to_find_columns_far_from_zero():
    """They are where the search begins, and no more: scales are those of the numbers."""
    found = {}
    for entry in ("number", (800.0, 1200.0)):
        off = []
        for seed in range(6):
            X = 1000.0 + 30.0 * public_generator(seed).normal(size=(1000, 8))
            y = X @ np.ones(8) / 30.0 + public_generator(9).normal(size=1000)
            model = make_private_pipeline(UserLevelSGDRegressor(random_state=seed), dict.fromkeys(range(8), entry))
            last = model.fit(X, y)["model"]
            off.append(np.abs(last.feature_center_ - 1000.0).mean())
            assert ("bounds are public" in guarantee_of(model).assumptions) == (entry != "number")
            assert "_limits" not in vars(last)
        found[entry] = np.mean(off)
    assert found[800.0, 1200.0] < 0.7 * found["number"]


@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_a_column_of_gaps_beside_prepared_ones_costs_no_accuracy(solver):
    """Its range was inf times 0, which made all rows zeros for preconditioned steps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=10_000)
    X[:, 3] = np.nan
    with pytest.warns(UnscaledFeaturesWarning, match="missing"):
        model = UserLevelSGDRegressor(3.0, solver=solver, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9 and not np.isnan(model.feature_range_).any()
    assert model.predict(np.nan_to_num(X[:1], nan=5.0)) == model.predict(X[:1])


def test_warnings_name_the_line_of_the_user(recwarn):
    """Those of a pipeline named one of NumPy's, which Python shows once for all fits."""
    frame = pd.DataFrame(public_generator(0).normal(size=(3_000, 2)), columns=["full", "empty"])
    frame["empty"] = np.nan
    make_private_pipeline(UserLevelSGDRegressor(1.0), schema={"full": (-9.0, 9.0), "empty": (0.0, 1.0)}).fit(
        frame, frame["full"]
    )
    assert {warning.filename for warning in recwarn} == {__file__}
