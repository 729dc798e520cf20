"""The synthesizer as its users see it."""

import io
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skprivate.metric import MetricPrivateSynthesizer, NoiseFillsBoxWarning
from skprivate.privacy import PrivacyLedger, SimulatedNoiseWarning, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


def rows(n=2000, d=2, seed=0):
    return public_generator(seed).beta(2, 5, size=(n, d))


@pytest.mark.parametrize("metric", ["rows", "wasserstein"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_all_dimensions(metric, d):
    X = 10 * rows(d=d) - 3
    epsilon = 2.0 if metric == "rows" else 2000.0
    model = MetricPrivateSynthesizer(epsilon, metric=metric, bounds=(-3, 7), random_state=0).fit(X)
    drawn = model.sample(300, random_state=0)
    assert drawn.shape == (300, d)
    assert drawn.min() >= -3 and drawn.max() <= 7
    with pytest.warns(NoiseFillsBoxWarning):
        uniform = MetricPrivateSynthesizer(1e-3, metric="wasserstein", bounds=(-3, 7), random_state=0).fit(X)
    assert model.score(X) > uniform.score(X)
    assert model.score(X) <= 0


@pytest.mark.parametrize(
    "keywords", [{}, {"metric": "wasserstein"}, {"metric": "wasserstein", "mechanism": "hats"}]
)
def test_more_budget_is_more_accurate(keywords):
    X = rows(5000)
    scale = 5000 if keywords else 1
    scores = [
        np.mean(
            [
                MetricPrivateSynthesizer(epsilon * scale, bounds=(0, 1), random_state=s, **keywords)
                .fit(X)
                .score(X)
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
    assert guarantee.assumptions == ("bounds are public", "the number of rows is public")
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
        ({"metric": "wasserstein", "resolution": 3, "mechanism": "hats"}, "power of two"),
    ],
)
def test_refusals_spend_nothing(keywords, message):
    ledger = PrivacyLedger(
        epsilon=10.0, unit="data set" if keywords.get("metric") == "wasserstein" else "row"
    )
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
        ({"metric": "wasserstein", "mechanism": "hats", "resolution": 4}, (5, 5)),
    ):
        model = MetricPrivateSynthesizer(100.0, bounds=(0, 1), random_state=3, **keywords)
        first, second = model.fit(X).measure_.weights, clone(model).fit(X).measure_.weights
        assert first.shape == shape
        assert np.array_equal(first, second)
    with pytest.warns(SimulatedNoiseWarning):
        model.fit(X)


def test_frames_and_pickles():
    pd = pytest.importorskip("pandas")
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


def test_plot():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    for d in (1, 2):
        model = MetricPrivateSynthesizer(metric="rows", bounds=(0, 1)).fit(rows(d=d))
        figure, ax = plt.subplots()
        assert model.measure_.plot(ax) is ax
        figure.savefig(io.BytesIO())
        plt.close(figure)
    with pytest.raises(ValueError, match="one or two features"):
        MetricPrivateSynthesizer(metric="rows", bounds=(0, 1)).fit(rows(d=3)).measure_.plot()


def test_score_of_a_very_fine_measure():
    X = rows(200_000, d=1)
    model = MetricPrivateSynthesizer(20.0, metric="rows", bounds=(0, 1), random_state=0).fit(X)
    assert model.measure_.shape[0] >= 2**14
    assert model.score(X) > -0.001
