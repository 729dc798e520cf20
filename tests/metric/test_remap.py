"""Rows within bounds: shrunk to a public centre under a prior, and a warning where noise fills the bounds."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from helpers.every import every

from skprivate.metric import Ball, MetricPrivatizer, NoiseFillsBoxWarning
from skprivate.metric._remap import directions
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")

ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
CITY = {"lat": (40.49, 40.92), "lon": (-74.26, -73.70)}


def ball_rows(n, d, radius, rng):
    return radius * directions("l2", (n, d), rng) * rng.random((n, 1)) ** (1 / d)


def error(model, rows, metric):
    return np.linalg.norm(model.transform(rows) - rows, ORDER[metric], axis=1).mean()


@every("epsilon", [0.1, 0.5, 1.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("domain", ["square", "ball", "rectangle", "many columns"])
def test_never_worse_than_the_centre(domain, epsilon):
    rng, n = public_generator(1), 20_000
    if domain == "ball":
        metric, d, bounds = "l2", 3, Ball(0.0, 1.0)
        rows, far = ball_rows(n, d, 1.0, rng), np.tile([1.0, 0.0, 0.0], (n, 1))
    else:
        sides = {"square": [1.0, 1.0], "rectangle": [10.0, 0.1], "many columns": [1.0] * 8}[domain]
        metric, d, bounds = "linf" if domain != "rectangle" else "l1", len(sides), (np.negative(sides), sides)
        rows, far = rng.uniform(-1, 1, size=(n, d)) * sides, np.tile(sides, (n, 1))
    model = MetricPrivatizer(epsilon, metric=metric, bounds=bounds, prior="uniform", random_state=0).fit(rows)
    centre = np.linalg.norm(rows, ORDER[metric], axis=1).mean()
    found = error(model, rows, metric)
    assert found <= centre * 1.01  # each by 20 000 rows, whose means err by less than half a percent
    assert error(model, far, metric) <= np.linalg.norm(far[0], ORDER[metric]) * 1.02
    assert model.expected_loss_ == pytest.approx(found, rel=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricPrivatizer, "_warn_if_noise_fills_bounds", lambda self, box: None)
        plain = MetricPrivatizer(epsilon, metric=metric, bounds=bounds, random_state=0).fit(rows)
    assert found <= error(plain, rows, metric) * 1.02
    if epsilon <= 0.5 and domain in ("square", "ball"):
        assert error(plain, rows, metric) > 1.4 * centre


@pytest.mark.parametrize("mechanism", ["k-norm", "exponential"])
def test_results_depend_on_the_released_points_alone(mechanism):
    """The same noise without bounds, then a public map."""
    rows = public_generator(2).uniform(-1, 1, size=(500, 2))
    options = {"metric": "l2", "random_state": 3}
    released = MetricPrivatizer(2.0, **options).fit(rows).transform(rows)
    options |= {"bounds": (-1, 1), "prior": "uniform", "mechanism": mechanism, "resolution": 4}
    model = MetricPrivatizer(2.0, **options).fit(rows)
    shrunk = np.clip(model._remap.center + model._remap.factors * (released - model._remap.center), -1, 1)
    if mechanism == "exponential":
        shrunk = np.clip(np.floor((shrunk + 1) * 2), 0, 3) / 2 - 0.75
    np.testing.assert_array_equal(model.transform(rows), shrunk)
    for row in (0, 77):  # a row's result does not depend on the others
        one = model._rows(model._remap(released[row : row + 1]))
        np.testing.assert_array_equal(one[0], shrunk[row])
    assert pickle.dumps(model) == pickle.dumps(MetricPrivatizer(2.0, **options).fit(np.zeros((3, 2))))


def test_rows_of_a_prior():
    """Columns are shrunk to their mean, each by its own variance; what does not vary is sent as it is."""
    rng = public_generator(3)
    prior = np.column_stack([rng.normal(5.0, 1.0, 3000), rng.normal(2.0, 0.05, 3000), np.full(3000, 7.0)])
    model = MetricPrivatizer(2.0, bounds=(0, 10), prior=prior, random_state=0).fit(prior)
    assert model.transform(prior)[:, 2] == pytest.approx(7.0)
    first, second, third = model._remap.factors
    assert 0.05 < first < 0.9 and second < 0.02 and third == 0
    plain = MetricPrivatizer(2.0, bounds=(0, 10), random_state=0).fit(prior)
    assert error(model, prior, "l2") < 0.7 * error(plain, prior, "l2")
    assert error(model, prior, "l2") == pytest.approx(model.expected_loss_, rel=0.05)
    few = MetricPrivatizer(2.0, bounds=(0, 10), prior=[[1.0, 2.0, 3.0]], random_state=0).fit(prior)
    assert few.transform(prior[:1] * 0 + [1.0, 2.0, 3.0]).tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 5.0])
def test_places_in_a_city(epsilon):
    rng = public_generator(4)
    low, high = np.array(list(CITY.values())).T
    places = pd.DataFrame(rng.uniform(low, high, size=(5000, 2)), columns=list(CITY))
    options = {"metric": "haversine", "bounds": CITY, "random_state": 0, "prior": "uniform"}
    model = MetricPrivatizer(epsilon, **options).fit(places)
    sent = model.transform(places)
    assert (sent >= low).all() and (sent <= high).all()
    kilometres = model._map.distances(places.to_numpy(), sent).mean()
    centre = model._map.distances(places.to_numpy(), np.tile((low + high) / 2, (5000, 1))).mean()
    assert kilometres <= 1.01 * centre
    assert kilometres == pytest.approx(model.expected_loss_, rel=0.05)
    known = MetricPrivatizer(epsilon, **options | {"prior": places.iloc[:50] * 0 + [40.75, -73.98]}).fit(places)
    near = known.transform(places * 0 + [40.75, -73.98])
    assert known._map.distances(near, places.to_numpy() * 0 + [40.75, -73.98]).max() < 0.01


@pytest.mark.parametrize("epsilon", [1e-200, 1e-3, 1.0, 1e200])
@pytest.mark.parametrize("size", [1e-140, 1.0, 1e140])
def test_numbers_of_any_size(epsilon, size):
    rows = np.array([[0.0, 1.0], [0.5, -1.0]]) * size
    for metric in ORDER:
        model = MetricPrivatizer(epsilon, metric=metric, bounds=(-size, size), prior="uniform", random_state=0)
        sent = model.fit(rows).transform(rows)
        assert np.isfinite(sent).all() and np.abs(sent).max() <= size
        assert np.isfinite(model._remap.factors).all() and np.isfinite(model.expected_loss_)


def test_finite_metrics_take_the_name_too():
    options = {"metric": "precomputed", "distances": 1.0 - np.eye(3), "mechanism": "optimal"}
    models = [MetricPrivatizer(1.0, prior=prior, **options).fit([[0]]) for prior in (None, "uniform")]
    np.testing.assert_array_equal(models[0].channel_, models[1].channel_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "uniform"}, "prior needs bounds"),
        ({"prior": "uniform", "metric": "haversine", "coordinates": "latitude-longitude"}, "prior needs bounds"),
        ({"prior": [1.0, 2.0], "bounds": (0, 1)}, "finite public rows with 2 columns, got shape"),
        ({"prior": np.zeros((4, 3)), "bounds": (0, 1)}, re.escape("got shape (4, 3)")),
        ({"prior": [[np.nan, 1.0]], "bounds": (0, 1)}, "finite public rows"),
        ({"prior": "normal", "bounds": (0, 1)}, "prior"),
    ],
)
def test_refused_priors(options, message):
    ledger = PrivacyLedger(epsilon=5.0, unit="row", adjacency="metric: l2")
    with pytest.raises(ValueError, match=message):
        MetricPrivatizer(1.0, ledger=ledger, **options).fit(np.zeros((3, 2)))
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"metric": "linf", "bounds": (-1, 1)}, 2.0),
        ({"metric": "l1", "bounds": ([0, 0], [3, 1])}, 1.0),
        ({"metric": "l2", "bounds": ([0, 0], [3, 4]), "mechanism": "exponential", "resolution": 4}, 0.8),
        ({"metric": "l2", "bounds": Ball(0.0, 4.0)}, 0.5),
        ({"metric": "linf", "bounds": Ball(0.0, 4.0, "l1")}, 0.5),
        ({"metric": "haversine", "bounds": ([0, 0], [2, 0.02]), "coordinates": "latitude-longitude"}, 0.01799),
    ],
)
def test_warning_where_noise_fills_the_bounds(recwarn, options, least):
    """Where d/ε, the mean length of the noise, is above the distance of the centre from every row; all is public."""
    for epsilon, rows in ((1.01 * least, [[0.5, 0.5]]), (0.99 * least, [[0.5, 0.5]]), (0.99 * least, [[0.1, 0.3]])):
        MetricPrivatizer(epsilon, **options).fit(rows)
    MetricPrivatizer(0.1 * least, prior="uniform", **options).fit([[0.5, 0.5]])
    seen = [str(one.message) for one in recwarn if one.category is NoiseFillsBoxWarning]
    assert len(seen) == 2 and seen[0] == seen[1]
    assert f"At least epsilon = {least:.2g} is needed" in seen[0]
