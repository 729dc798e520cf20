"""Intervals and bands behind the steps of a pipeline: names, and curves with the covariance of their coefficients."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor, make_private_pipeline
from skprivate.preprocessing import PrivatePipeline, PublicOneHotEncoder, TooFewUnitsWarning, make_additive_pipeline
from skprivate.privacy import public_generator
from skprivate.user_level import TooFewUsersWarning

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
CITIES = ["Bonn", "Oslo", "Rome"]
CURVES = (lambda x: np.sin(1.5 * x), lambda x: 0.3 * x)


def table(n=20_000, seed=0):
    rng = public_generator(seed)
    X = pd.DataFrame({"age": rng.normal(50.0, 10.0, size=n), "city": rng.choice(CITIES, size=n, p=[0.3, 0.5, 0.2])})
    return X, 0.05 * X["age"] + (X["city"] == "Rome") + rng.normal(size=n)


def additive(n=100_000, seed=0, *, classes=False, **options):
    """Two uniform columns with a curve and a line, behind 9 knots."""
    rng = public_generator(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    scores = sum(f(X[:, j]) for j, f in enumerate(CURVES))
    kind = UserLevelSGDClassifier if classes else UserLevelSGDRegressor
    y = (scores + rng.logistic(size=n) > 0).astype(int) if classes else scores + rng.normal(size=n)
    model = kind(1.0, inference=True, random_state=seed, **({"classes": [0, 1]} if classes else {}))
    return make_additive_pipeline(model, n_knots=9, **options).fit(X, y), X


@pytest.fixture(scope="module")
def fitted():
    return additive()


def encoded(model, **names):
    encode = ColumnTransformer([("of", PublicOneHotEncoder([CITIES]), ["city"])], remainder="passthrough", **names)
    return PrivatePipeline([("encode", encode), ("model", model)])


def test_a_summary_has_the_names_of_the_columns_as_the_user_knows_them():
    X, y = table()
    with pytest.warns(TooFewUsersWarning, match="Features 'city_rest': noise hides"):
        model = make_private_pipeline(
            UserLevelSGDRegressor(1.0, inference=True, random_state=0), {"age": "number", "city": CITIES}
        ).fit(X, y)
    summary = model.summary(0.9)
    assert summary.names == ("age", "city_Bonn", "city_Oslo", "city_Rome", "city_rest")
    np.testing.assert_array_equal(model.confidence_interval(0.9), summary.interval)
    lines = str(summary).splitlines()
    assert lines[1].startswith("age ") and lines[3].startswith("city_Oslo") and "reference" in lines[3]
    assert "_column_names" not in vars(model[-1])
    rome = dict(zip(summary.names, summary.interval, strict=True))["city_Rome"]
    assert rome[0] < 1.0 < rome[1] and rome[1] - rome[0] < 0.3


def test_steps_that_name_no_columns_leave_the_names_of_the_model():
    X, y = table()
    model = UserLevelSGDRegressor(1.0, inference=True, random_state=0)
    pipeline = PrivatePipeline([("root", FunctionTransformer(np.sqrt)), ("model", model)]).fit(X[["age"]].to_numpy(), y)
    assert pipeline.summary().names == ("x0",)
    alone = PrivatePipeline([("model", model)]).fit(X[["age"]], y)
    assert alone.summary().names == ("age",)


def test_names_with_a_prefix_are_those_of_the_steps():
    X, y = table()
    with pytest.warns(TooFewUsersWarning, match="Features 'of__city_rest'"):
        model = encoded(UserLevelSGDRegressor(1.0, inference=True, random_state=0)).fit(X, y)
    assert model.summary().names[-2:] == ("of__city_rest", "remainder__age")


def test_only_models_with_intervals_have_them():
    pipeline = PrivatePipeline([("model", UserLevelMean())])
    assert not any(hasattr(pipeline, name) for name in ("summary", "confidence_interval", "confidence_band"))


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
def test_curves_are_what_a_feature_adds_to_predictions(classes):
    model, _ = additive(classes=classes)
    bands = model.confidence_band()
    assert bands.names == ("x0", "x1") and bands.values.shape == (101, 2)
    scores = model.decision_function if classes else model.predict
    for j in range(2):
        rows = np.zeros((101, 2))
        rows[:, j] = bands.values[:, j]
        added = scores(rows) - scores(rows)[50]
        np.testing.assert_allclose(added, bands.curve[:, j] - bands.curve[50, j], atol=1e-3)


def test_a_band_is_the_covariance_of_its_coefficients(fitted):
    model, _ = fitted
    step, last = model.named_steps["splines"], model.named_steps["model"]
    bands = model.confidence_band([[-1.0, 0.5], [1.0, 0.5]], level=0.9)
    knots = step.knots_[0][1:-1]
    nodes = (knots[:-1, None] + np.diff(knots)[:, None] * (np.arange(8) + 0.5) / 8).ravel()
    basis = step.transform(np.column_stack([bands.values[:, 0], np.zeros(2)])) - step.transform(
        np.column_stack([nodes, np.zeros(len(nodes))])
    ).mean(axis=0)
    both = sum(last._covariances)
    half = norm.isf(0.05) * np.sqrt(np.einsum("ij,jk,ik->i", basis, both, basis))
    np.testing.assert_allclose(bands.upper[:, 0] - bands.curve[:, 0], half, rtol=1e-6)
    np.testing.assert_allclose(bands.curve[:, 0] - bands.lower[:, 0], half, rtol=1e-6)
    assert bands.level == 0.9 and bands.curve[0, 1] == bands.curve[1, 1]
    # The errors of single coefficients are those of the model.
    single = np.sqrt(np.diag(both))
    known = ~np.isnan(last.coef_error_)
    np.testing.assert_allclose(single[known], last.coef_error_[known])


def test_the_line_beside_a_feature_is_no_coefficient_of_its_own(fitted):
    """Both are one line as far as five deviations: two coefficients would be hidden behind each other."""
    model, X = fitted
    step, last = model.named_steps["splines"], model.named_steps["model"]
    columns = step.transform(X[:500])
    for column, feature, slope, offset in step._lines:
        np.testing.assert_allclose(columns[:, column], slope * columns[:, feature] + offset, atol=1e-12)
        assert last.coef_[column] == last.coef_error_[column] == 0.0
    assert [line[:2] for line in step._lines] == [(2, 0), (10, 1)]
    assert "_lines" not in vars(last) and "_prepared_features" not in vars(last)


def test_a_frame_gives_names_and_columns_of_curves():
    X, y = table(100_000)
    curves = make_additive_pipeline(UserLevelSGDRegressor(1.0, inference=True, random_state=0), n_knots=9)
    with pytest.warns(TooFewUsersWarning, match="Features 'city_rest': noise hides"):
        model = make_private_pipeline(curves, {"age": "number", "city": CITIES}).fit(X, y)
    bands = model.confidence_band()
    assert bands.names == ("age",) and not np.isnan(bands.lower).any()
    assert bands.values.min() > 20.0 and bands.values.max() < 80.0
    rows = model.confidence_band(pd.DataFrame({"city": ["Rome"] * 2, "age": [45.0, 55.0]}))
    assert abs(rows.curve[1, 0] - rows.curve[0, 0] - 0.5) < 0.2


def no_names(step, names):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "step",
    ["passthrough", None, FunctionTransformer(feature_names_out=no_names)],
    ids=["passthrough", "none", "raises"],
)
def test_a_step_without_names_fails_no_fit(step):
    X, y = public_generator(0).normal(size=(300, 2)), np.arange(300.0)
    model = PrivatePipeline([("step", step), ("model", UserLevelSGDRegressor(10.0, random_state=0))])
    assert np.isfinite(model.fit(X, y).predict(X)).all()


def test_gaps_are_on_lines_too():
    """Else the step that leaves lines out moves predictions of gaps: by 0.23 on average here, where 0.03 is left."""
    rng = public_generator(0)
    X = 3.0 * rng.exponential(size=(40_000, 2)) + 5.0
    y = 3.0 * np.log(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X))
    gaps = rng.random(len(X)) < 0.3
    X[gaps, 0] = np.nan
    model = UserLevelSGDRegressor(50.0, inference=True, random_state=0)
    fitted = make_additive_pipeline(model, n_knots=9).fit(X, y)
    step, columns = fitted[0], fitted[0].transform(X[:500])
    for column, feature, slope, offset in step._lines:
        inside = columns[:, feature] < step.knots_[feature][-1]
        line = slope * columns[:, feature] + offset
        np.testing.assert_allclose(columns[inside, column], line[inside], atol=1e-12)
    assert abs(np.mean((y - fitted.predict(X))[gaps])) < 0.1


def test_too_few_users_have_curves_without_a_band():
    with pytest.warns(TooFewUsersWarning, match="confidence intervals of 17 coefficients.*NaN"):
        model, _ = additive(5000)
    with pytest.warns(TooFewUnitsWarning, match="Curves of 'x0', 'x1': noise hides"):
        bands = model.confidence_band()
    assert np.isnan(bands.lower).all() and np.isnan(bands.upper).all() and not np.isnan(bands.curve).any()


def test_columns_without_knots_are_lines():
    X = public_generator(0).normal(size=(30, 1))
    with pytest.warns(UserWarning, match="too few"):
        model = make_additive_pipeline(UserLevelSGDRegressor(1.0, inference=True, random_state=0)).fit(X, X[:, 0])
    with pytest.warns(TooFewUnitsWarning, match="Curves of 'x0'"):
        bands = model.confidence_band()
    assert np.ptp(np.diff(bands.curve[:, 0])) < 1e-9 and bands.values.shape == (101, 1)


def test_refusals():
    X, y = table(2000)
    model = make_additive_pipeline(UserLevelSGDRegressor(1.0, random_state=0), n_knots=5).fit(X[["age"]], y)
    with pytest.raises(ValueError, match="inference=True"):
        model.confidence_band()
    plain = PrivatePipeline([("model", UserLevelSGDRegressor(1.0, inference=True, random_state=0))])
    with pytest.raises(ValueError, match="one step of splines right before the model, got 0"):
        plain.fit(X[["age"]], y).confidence_band()
    with pytest.warns(TooFewUsersWarning):
        model, _ = additive(5000)
    for values in ([1.0, 2.0], np.zeros((3, 3))):
        with pytest.raises(ValueError, match=r"values must be an array of shape \(n_points, 2\)"):
            model.confidence_band(values)
    with pytest.raises(ValueError, match="level"):
        model.confidence_band(level=95)


@pytest.mark.slow
def test_bands_cover():
    """Of 30 fits at 2 places of 2 curves more than 24 of 120 bands of level 0.95 miss with chance 1e-6 at most."""
    missed = 0
    for seed in range(30):
        model, _ = additive(seed=seed)
        nodes = model.named_steps["splines"].knots_
        for j, f in enumerate(CURVES):
            inner = nodes[j][1:-1]
            mean = f((inner[:-1, None] + np.diff(inner)[:, None] * (np.arange(8) + 0.5) / 8).ravel()).mean()
            places = np.array([-0.9, 0.6])
            bands = model.confidence_band(np.column_stack([places, places]))
            truth = f(places) - mean
            missed += int(((truth < bands.lower[:, j]) | (truth > bands.upper[:, j])).sum())
    assert missed <= 24
