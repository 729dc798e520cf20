"""The synthesizer as its users see it."""

import functools
import io
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skprivate.metric import GridMeasure, MetricPrivateSynthesizer, MetricPrivatizer, NoiseFillsBoxWarning
from skprivate.metric.grid._measure import distance_to_rows
from skprivate.privacy import PrivacyLedger, SimulatedNoiseWarning, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


def rows(n=2000, d=2, seed=0):
    return public_generator(seed).beta(2, 5, size=(n, d))


@functools.cache
def score_of_nothing(d):
    """Of a fit with hardly any budget, which is nearly uniform."""
    X = 10 * rows(d=d) - 3
    with pytest.warns(NoiseFillsBoxWarning):
        model = MetricPrivateSynthesizer(1e-3, metric="wasserstein", bounds=(-3, 7), random_state=0).fit(X)
    return model.score(X)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("metric", ["rows", "wasserstein"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_all_dimensions(metric, d):
    X = 10 * rows(d=d) - 3
    epsilon = 2.0 if metric == "rows" else 2000.0
    model = MetricPrivateSynthesizer(epsilon, metric=metric, bounds=(-3, 7), random_state=0).fit(X)
    drawn = model.sample(300, random_state=0)
    assert drawn.shape == (300, d)
    assert drawn.min() >= -3 and drawn.max() <= 7
    assert score_of_nothing(d) < model.score(X) <= 0


@pytest.mark.slow
@pytest.mark.parametrize("keywords", [{}, {"metric": "wasserstein"}])
def test_more_budget_is_more_accurate(keywords):
    X = rows(5000)
    scale = 5000 if keywords else 1
    scores = [
        np.mean(
            [
                MetricPrivateSynthesizer(epsilon * scale, bounds=(0, 1), random_state=s, **keywords).fit(X).score(X)
                for s in range(3)
            ]
        )
        for epsilon in (0.01, 0.3, 10.0)
    ]
    assert scores[0] < scores[1] < scores[2]
    assert scores[2] > -0.02


def test_guarantees():
    X = rows()
    model = MetricPrivateSynthesizer(50.0, metric="wasserstein", bounds=(0, 1), ground="l1").fit(X)
    guarantee = model.privacy_guarantee_
    assert str(guarantee.unit) == "data set" and "l1" in guarantee.metric
    assert guarantee.epsilon == 50.0 and guarantee.valid_for_release
    assert guarantee.assumptions == (
        "names and types of the columns are public",
        "bounds are public",
        "the number of rows is public",
        "before the fit, rows were changed by public rules only",
    )
    row = model.row_guarantee(2000)
    # ℓ1 diameter of the square is 2: one of 2000 rows moves the measure by at most 2/2000.
    assert row.epsilon == pytest.approx(50 * 2 / 2000)
    assert str(row.unit) == "row" and str(row.adjacency) == "replace-one"
    assert "2000" not in pickle.dumps(vars(model)["privacy_guarantee_"]).decode("latin1")
    with pytest.raises(ValueError, match="n_samples"):
        model.row_guarantee(0)
    plain = MetricPrivateSynthesizer(1.5, metric="rows", bounds=(0, 1)).fit(X)
    assert plain.row_guarantee(2000) is plain.privacy_guarantee_
    assert plain.privacy_guarantee_.epsilon == 1.5 and plain.privacy_guarantee_.delta == 0


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"metric": "wasserstein", "bounds": "private"}, "needs metric='rows'"),
        ({"bounds": None}, "'bounds' parameter"),
        ({"bounds": (0, 0)}, "column 0 .* low < high"),
        ({"bounds": ([0, 0], [1, -1])}, "of column 1"),
        ({"bounds": [(0, 1), (0.5, 2)]}, "two ways"),
        ({"bounds": {0: (0, 1)}}, "got none for 1"),
        ({"bounds": (0, np.inf)}, "finite"),
        ({"bounds": ([0, 0, 0], [1, 1, 1])}, "one number per column .0, 1."),
        ({"bounds": (0, 1, 2)}, "pair"),
        ({"bounds": (0, 0.1), "out_of_bounds": "raise"}, "outside bounds"),
        ({"metric": "wasserstein", "resolution": 5000}, "more than 262144"),
        ({"resolution": 6, "metric": "rows"}, "power of two"),
        ({"resolution": 2**12, "metric": "rows"}, "more than"),
    ],
)
def test_refusals_spend_nothing(keywords, message):
    ledger = PrivacyLedger(epsilon=10.0, unit="data set" if keywords.get("metric") == "wasserstein" else "row")
    model = MetricPrivateSynthesizer(**{"bounds": (0, 1), "ledger": ledger, **keywords})
    with pytest.raises(ValueError, match=message):
        model.fit(rows())
    assert not ledger.entries()
    assert not hasattr(model, "measure_")


def test_clipping():
    X = rows()
    X[:1000] = 5.0
    model = MetricPrivateSynthesizer(1e6, metric="wasserstein", bounds=(0, 1), random_state=0).fit(X)
    assert (model.sample(1000, random_state=0) > 0.9).all(axis=1).mean() > 0.4


@pytest.mark.parametrize("metric", ["rows", "wasserstein"])
def test_grid_search_prefers_budget(metric):
    scale = 1.0 if metric == "rows" else 600.0
    search = GridSearchCV(
        MetricPrivateSynthesizer(metric=metric, bounds=(0, 1), random_state=0),
        {"epsilon": [0.05 * scale, 10 * scale]},
        cv=2,
    ).fit(rows(600))
    assert search.best_params_["epsilon"] == 10 * scale


def test_fixed_resolution_and_reproducibility():
    X = rows()
    for keywords, shape in (
        ({"metric": "rows", "resolution": 8}, (8, 8)),
        ({"metric": "wasserstein", "resolution": 7}, (8, 8)),
    ):
        model = MetricPrivateSynthesizer(100.0, bounds=(0, 1), random_state=3, **keywords)
        first, second = model.fit(X).measure_.weights, clone(model).fit(X).measure_.weights
        assert first.shape == shape
        assert np.array_equal(first, second)
    with pytest.warns(SimulatedNoiseWarning):
        model.fit(X)


def test_frames_and_pickles():
    frame = pd.DataFrame(rows(), columns=["x", "y"])
    model = MetricPrivateSynthesizer(metric="rows", bounds=([0, 0], [1, 2])).fit(frame)
    assert model.feature_names_in_.tolist() == ["x", "y"]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.sample(5, random_state=0), model.sample(5, random_state=0))
    assert model._repr_html_()


def test_sample_arguments():
    model = MetricPrivateSynthesizer(metric="rows", bounds=(0, 1)).fit(rows())
    for bad in (0, -1, 2.5):
        with pytest.raises(ValueError, match="n_samples"):
            model.sample(bad)


def test_as_constructed():
    X = public_generator(0).normal(size=(4000, 2)) * [3.0, 0.1] + [100.0, -5.0]
    model = MetricPrivateSynthesizer().fit(X)
    assert str(model.privacy_guarantee_) == "1-differential privacy for one row (add-remove)"
    # Seeded: in one of thousands of fits the bounds that are found lie far outside the rows.
    model.set_params(random_state=0).fit(X)
    drawn = model.sample(4000, random_state=0)
    assert np.abs(drawn.mean(axis=0) - X.mean(axis=0)).max() < 1
    assert model.score(X) > -0.1
    assert len(MetricPrivatizer().fit_transform(X)) == 4000


@pytest.mark.parametrize("ground", ["l1", "l2", "linf"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_warning_says_where_noise_fills_the_box(ground, d):
    """It names an epsilon from which it is silent, speaks just below, and depends on the shape of the data alone."""
    keywords = {"metric": "wasserstein", "bounds": (0, 1), "ground": ground}
    fit = MetricPrivateSynthesizer(0.01, random_state=0, **keywords).fit
    with pytest.warns(NoiseFillsBoxWarning, match="epsilon = 300, the number of rows") as seen:
        fit(rows(300, d))
    assert [one.filename for one in seen if one.category is NoiseFillsBoxWarning] == [__file__]
    (text,) = (str(one.message) for one in seen if one.category is NoiseFillsBoxWarning)
    needed = float(re.search(r"At least epsilon = (\S+) is", text)[1])
    MetricPrivateSynthesizer(1.1 * needed, **keywords).fit(rows(300, d))
    with pytest.warns(NoiseFillsBoxWarning):
        MetricPrivateSynthesizer(0.8 * needed, **keywords).fit(np.zeros((300, d)))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_where_the_warning_speaks_a_guess_is_as_good(d):
    """Rows in a corner: W1 in ten fits at the warned and at the needed epsilon, against a uniform guess."""
    X = 0.05 * rows(500, d)
    guess = distance_to_rows(GridMeasure(np.zeros(d), np.ones(d), np.full((2,) * d, 0.5**d), "nodes"), X, "linf")
    for share, least, most in ((0.05, 0.85, 1.2), (8.0, 0.0, 0.5)):
        epsilon = share * (2.0 if d == 1 else 16.0)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            errors = [
                -MetricPrivateSynthesizer(epsilon, metric="wasserstein", bounds=(0, 1), random_state=s).fit(X).score(X)
                for s in range(10)
            ]
        assert least < np.mean(errors) / guess < most
        assert any(one.category is NoiseFillsBoxWarning for one in seen) == (share < 1)


def test_bounds_by_column():
    frame = pd.DataFrame(rows(3000), columns=["lat", "long"]) * [1, 100]
    model = MetricPrivateSynthesizer(5.0, bounds={"long": (0, 100), "lat": (0, 1)}, random_state=0).fit(frame)
    assert model.bounds_[1].tolist() == [1, 100]
    assert np.abs(model.sample(1000).mean() / frame.mean() - 1).max() < 0.1
    with pytest.raises(ValueError, match="has the column 'lon'; the columns are 'lat', 'long'"):
        model.set_params(bounds={"lon": (0, 100), "lat": (0, 1)}).fit(frame)
    with pytest.raises(ValueError, match="'long' must be finite with low < high"):
        model.set_params(bounds={"long": (100, 0), "lat": (0, 1)}).fit(frame)


@pytest.fixture
def ax():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    figure, ax = plt.subplots()
    yield ax
    figure.savefig(io.BytesIO())
    plt.close(figure)


def fitted(names, bounds=None, **keywords):
    frame = pd.DataFrame(rows(d=len(names)), columns=names)
    return MetricPrivateSynthesizer(bounds=bounds or (0, 1), **keywords).fit(frame).measure_


@pytest.mark.parametrize(
    ("names", "bounds", "columns", "labels", "aspect"),
    [
        (["x"], None, None, ("x", "density"), "auto"),
        (["x", "y"], None, None, ("x", "y"), 1.0),
        (["x", "y"], {"x": (0, 1), "y": (0, 5)}, None, ("x", "y"), "auto"),
        (["x", "y", "z"], None, ["z", "x"], ("z", "x"), 1.0),
        (["x", "y", "z"], None, "y", ("y", "density"), "auto"),
        (["lat", "lon"], {"lat": (59, 61), "lon": (0, 9)}, ["lon", "lat"], ("lon", "lat"), 2.0),
        (["lat", "lon"], {"lat": (59, 61), "lon": (0, 9)}, None, ("lat", "lon"), 0.5),
    ],
)
def test_plot(ax, names, bounds, columns, labels, aspect):
    assert fitted(names, bounds).plot(ax, columns=columns) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels
    assert ax.get_aspect() == (pytest.approx(aspect) if isinstance(aspect, float) else aspect)


def test_plot_shows_the_marginal(ax):
    measure = fitted(["x", "y", "z"])
    measure.plot(ax, columns="y")
    assert ax.patches[0].get_data().values.sum() / 128 == pytest.approx(1)
    kept = measure.marginal([2, 0])
    assert np.allclose(kept.weights, measure.weights.sum(axis=1).T) and kept.names == ("z", "x")


@pytest.mark.parametrize("columns", [None, "w", ["x", "x"], ["x", "y", "z"], 3, []])
def test_plot_refuses(ax, columns):
    with pytest.raises(ValueError, match="one or two"):
        fitted(["x", "y", "z"]).plot(ax, columns=columns)


def test_score_of_a_very_fine_measure():
    X = rows(200_000, d=1)
    model = MetricPrivateSynthesizer(20.0, metric="rows", bounds=(0, 1), random_state=0).fit(X)
    assert model.measure_.shape[0] >= 2**14
    assert model.score(X) > -0.001


@pytest.mark.slow
def test_weights_of_the_score():
    X = np.repeat([[0.1], [0.9]], 500, axis=0)
    model = MetricPrivateSynthesizer(100.0, bounds=(0, 1), random_state=0).fit(X[:500])
    near, far = np.repeat([1.0, 0.0], 500), np.repeat([0.0, 1e300], 500)
    assert model.score(X, sample_weight=near) > -0.01
    assert model.score(X, sample_weight=far) == pytest.approx(-0.8, abs=0.01)
    assert model.score(X, sample_weight=np.ones(1000)) == pytest.approx(model.score(X), abs=1e-12)
    frame = pd.DataFrame({"letter": np.repeat(["a", "b"], 500), "x": X[:, 0]})
    options = {"bounds": (0, 1), "categories": {"letter": ["a", "b"]}, "random_state": 0}
    mixed = MetricPrivateSynthesizer(100.0, **options).fit(frame[:500])
    assert mixed.score(frame, sample_weight=near) > -0.1
    assert mixed.score(frame, sample_weight=far) == pytest.approx(-1.8, abs=0.1)
    for weights, message in ((-near, "nonneg"), (0 * near, "0 for all|non-zero"), (near[1:], "shape")):
        with pytest.raises(ValueError, match=message):
            model.score(X, sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight"):
        mixed.score(frame, sample_weight=pd.Series(near, index=frame.index[::-1]))
