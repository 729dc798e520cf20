"""Users on a real cluster: worker processes, some of them killed, and the same fit to the last bit."""

from functools import partial
from threading import Thread

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from test_cluster import client, kill_one, slowly  # noqa: F401

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.partitions import as_partitions
from skprivate.privacy import public_generator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.user_level.TooFewUsersWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.user_level.UnscaledFeaturesWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
RNG = public_generator(2)
ROWS = pd.DataFrame(RNG.normal(size=(2000, 2)), columns=["height", "weight"])
ROWS["wage"] = 5.0 * ROWS.height + RNG.normal(size=2000)
ROWS["who"] = RNG.integers(200, size=2000)
MODELS = {
    "regression": partial(UserLevelSGDRegressor, 60.0, random_state=3, max_iter=12),
    "classes": partial(UserLevelSGDClassifier, 60.0, random_state=3, max_iter=12),
    "mean": partial(UserLevelMean, 10.0, random_state=3),
}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_fit(client, name, killed):  # noqa: F811
    rows = ROWS.assign(wage=ROWS.wage > 0) if name == "classes" else ROWS
    target = [] if name == "mean" else ["wage"]
    rows = rows[["height", "weight", *target, "who"]]
    source = as_partitions(dd.from_pandas(rows, npartitions=16)).map(slowly)
    killer = Thread(target=partial(kill_one, client)) if killed else None
    if killer:
        killer.start()
    model = MODELS[name]().fit(source, *target, user_ids="who")
    if killer:
        killer.join()
    whole = MODELS[name]().fit(rows[["height", "weight"]], *(rows[y] for y in target), user_ids=rows["who"])
    for fitted in ("coef_", "intercept_", "mean_"):
        np.testing.assert_array_equal(getattr(model, fitted, 0), getattr(whole, fitted, 0))
    assert model.privacy_guarantee_ == whole.privacy_guarantee_


def test_rows_stay_with_the_workers(client):  # noqa: F811
    """Names of tasks and logs hold no value of the rows, and no identifier."""
    rows = ROWS.assign(height=123456.789, who="ann-" + ROWS["who"].astype(str))
    seen = []

    def watch(dask_scheduler):
        return [str(key) for key in dask_scheduler.tasks]

    model = UserLevelSGDRegressor(60.0, random_state=3, max_iter=5)
    model.fit(dd.from_pandas(rows, npartitions=8), "wage", user_ids="who")
    seen += client.run_on_scheduler(watch)
    rows.iloc[17, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in column 'weight'"):
        model.fit(dd.from_pandas(rows, npartitions=8), "wage", user_ids="who")
    told = str(client.get_worker_logs()) + str(client.get_scheduler_logs()) + str(seen)
    assert "123456" not in told and "ann-" not in told
