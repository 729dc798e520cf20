"""A real cluster: worker processes, some of them killed, and the same fit to the last bit."""

from contextlib import nullcontext
from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from helpers.real_cluster import losing_one, real_cluster, slowly

from skprivate import (
    CuratedBagGAMClassifier,
    MetricPrivateSynthesizer,
    RandomBagClassifier,
    RandomBagRegressor,
    UserLevelMean,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    make_curated_bags,
)
from skprivate.partitions import as_partitions
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import public_generator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.take_turns(6),  # each starts processes of its own
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.user_level.TooFewUsersWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.user_level.UnscaledFeaturesWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
RNG = public_generator(1)
ROWS = pd.DataFrame(RNG.normal(size=(4000, 2)), columns=["height", "weight"])


@pytest.fixture(params=[1, 2])
def client(request):
    with real_cluster(request.param) as client:
        yield client


def a_loss(client, killed):
    return losing_one(client) if killed else nullcontext()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    "parameters", [{}, {"metric": "wasserstein", "bounds": (-4, 4), "epsilon": 100.0}], ids=["rows", "flow"]
)
def test_the_same_measure(client, parameters, killed):
    X = as_partitions(dd.from_pandas(ROWS, npartitions=40)).map(partial(slowly, seconds=0.05))
    model = MetricPrivateSynthesizer(**{"epsilon": 5.0, "random_state": 3, **parameters})
    with a_loss(client, killed):
        weights = model.fit(X).measure_.weights
    assert np.array_equal(weights, model.fit(ROWS).measure_.weights)


@pytest.mark.parametrize("killed", [False, True])
def test_the_same_labels_in_aggregate(client, killed):
    rows = ROWS.assign(site=RNG.integers(0, 5, size=len(ROWS)), id=np.arange(len(ROWS))[::-1])
    rows["sick"] = (rows.weight + rows.site > 2).astype(int)
    X = as_partitions(dd.from_pandas(rows, npartitions=40)).map(partial(slowly, seconds=0.05))
    features = list(rows)[:-1]
    asked = {"epsilon": 1.0, "feature_sets": "pairs", "random_state": 3}
    with a_loss(client, killed):
        bags = make_curated_bags(X, "sick", **asked)
    assert bags.to_dict() == make_curated_bags(rows[features], rows.sick, **asked).to_dict()
    for model in (RandomBagClassifier(2.0, random_state=1), RandomBagRegressor(2.0, random_state=1)):
        coef = model.fit(X, "sick", row_keys="id").coef_
        numbers = rows.drop(columns=["sick", "id"])
        assert np.array_equal(coef, model.fit(numbers, rows.sick, row_keys=rows.id).coef_)
    additive = CuratedBagGAMClassifier(2.0, random_state=1)
    tables = additive.fit(X, "sick").tables_
    for table, other in zip(tables, additive.fit(rows[features], rows.sick).tables_, strict=True):
        assert np.array_equal(table, other)


def test_rows_stay_with_the_workers(client):
    """What a worker sends, the names of tasks and the logs hold no value of the rows."""
    secret = 123456.789
    frame = ROWS.assign(height=secret)
    seen = []

    def watch(dask_scheduler):
        return [str(key) for key in dask_scheduler.tasks]

    X = as_partitions(dd.from_pandas(frame, npartitions=8))
    MetricPrivateSynthesizer(5.0, random_state=0).fit(X)
    seen += client.run_on_scheduler(watch)
    frame.iloc[17, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in column 'weight'"):
        MetricPrivateSynthesizer(5.0, random_state=0).fit(as_partitions(dd.from_pandas(frame, npartitions=8)))
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    # With the point: six digits alone stand in some random name of a task or client in one run of thousands.
    assert "123456." not in logs and "123456." not in str(seen)


def test_predictions_by_the_workers(client):
    """The same to the last bit, and no name of a task tells of a row."""
    model = PrivateStandardScaler(5.0, random_state=0).fit(ROWS)
    lazy = model.transform(dd.from_pandas(ROWS, npartitions=8))
    assert np.array_equal(lazy.compute(), model.transform(ROWS))
    frames = model.set_output(transform="pandas").transform(dd.from_pandas(ROWS, npartitions=8))
    pd.testing.assert_frame_equal(frames.compute(), model.transform(ROWS))


# Users, whose rows are brought together -------------------------------------------------------------------------

PEOPLE = pd.DataFrame(RNG.normal(size=(2000, 2)), columns=["height", "weight"])
PEOPLE["wage"] = 5.0 * PEOPLE.height + RNG.normal(size=2000)
PEOPLE["who"] = RNG.integers(200, size=2000)
MODELS = {
    "regression": partial(UserLevelSGDRegressor, 60.0, random_state=3, max_iter=12),
    "classes": partial(UserLevelSGDClassifier, 60.0, random_state=3, max_iter=12),
    "mean": partial(UserLevelMean, 10.0, random_state=3),
}


@pytest.mark.parametrize(
    ("name", "killed"), [("regression", False), ("regression", True), ("classes", False), ("mean", True)]
)
def test_the_same_fit_of_users(client, name, killed):
    rows = PEOPLE.assign(wage=PEOPLE.wage > 0) if name == "classes" else PEOPLE
    target = [] if name == "mean" else ["wage"]
    rows = rows[["height", "weight", *target, "who"]]
    source = as_partitions(dd.from_pandas(rows, npartitions=16)).map(partial(slowly, seconds=0.05))
    with a_loss(client, killed):
        model = MODELS[name]().fit(source, *target, user_ids="who")
    whole = MODELS[name]().fit(rows[["height", "weight"]], *(rows[y] for y in target), user_ids=rows["who"])
    for fitted in ("coef_", "intercept_", "mean_"):
        np.testing.assert_array_equal(getattr(model, fitted, 0), getattr(whole, fitted, 0))
    assert model.privacy_guarantee_ == whole.privacy_guarantee_


def test_users_stay_with_the_workers(client):
    """Names of tasks and logs hold no value of the rows, and no identifier."""
    rows = PEOPLE.assign(height=123456.789, who="ann-" + PEOPLE["who"].astype(str))
    seen = []

    def watch(dask_scheduler):
        return [str(key) for key in dask_scheduler.tasks]

    model = UserLevelSGDRegressor(60.0, random_state=3, max_iter=5)
    model.fit(dd.from_pandas(rows, npartitions=8), "wage", user_ids="who")
    seen += client.run_on_scheduler(watch)
    rows.iloc[17, 1] = np.inf
    with pytest.raises(ValueError, match="infinity in column 'weight'"):
        model.fit(dd.from_pandas(rows, npartitions=8), "wage", user_ids="who")
    told = str(client.get_worker_logs()) + str(client.get_scheduler_logs()) + str(seen)
    assert "123456." not in told and "ann-" not in told
