"""Places in degrees: ε per kilometre of great circle, everywhere on the sphere."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import haversine_distances

from skprivate.metric import DegreesWarning, MetricPrivatizer
from skprivate.metric._domains import EARTH_RADIUS, latitude_column, sphere_map
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.privacy.noise._k_norm import norm_lattice

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning"),
]

BOXES = {
    "everywhere": None,
    "New York": ([40.49, -74.26], [40.92, -73.70]),
    "Fiji": ([-20.0, 176.0], [-15.0, 183.0]),
    "North Pole": ([80.0, -180.0], [90.0, 180.0]),
    "a hemisphere": ([-60.0, -90.0], [60.0, 90.0]),
}
BOXES = {name: box and (np.array(box[0]), np.array(box[1])) for name, box in BOXES.items()}
MAPS = {name: sphere_map(0, box, None) for name, box in BOXES.items()}
#: What float64 adds to a distance, in km (docs/theory/metric.md, theorem 8).
ROUNDING = 2e-10
LATITUDES = st.sampled_from([-90.0, -89.999999, 0.0, 40.7, 89.9, 90.0]) | st.floats(-90, 90)
LONGITUDES = st.sampled_from([-180.0, 179.9999999, 180.0, 0.0, 360.0, -74.0]) | st.floats(-360, 360)
PLACES = st.tuples(LATITUDES, LONGITUDES)


def great_circle(here, there):
    """Kilometres by the haversine formula in 50 digits."""
    with mpmath.workdps(50):
        (a, b), (c, d) = ([mpmath.radians(mpmath.mpf(x)) for x in place] for place in (here, there))
        h = mpmath.sin((a - c) / 2) ** 2 + mpmath.cos(a) * mpmath.cos(c) * mpmath.sin((b - d) / 2) ** 2
        return float(2 * mpmath.mpf(EARTH_RADIUS) * mpmath.asin(mpmath.sqrt(min(h, 1))))


@st.composite
def pairs(draw):
    here = draw(PLACES)
    if draw(st.booleans()):
        return here, draw(PLACES)
    near = st.floats(-12, 0).map(lambda power: 10.0**power)
    return here, (min(max(here[0] + draw(near), -90.0), 90.0), here[1] + draw(near))


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(pair=pairs())
def test_no_two_places_come_apart(name, pair):
    here, there = MAPS[name].to_kilometres(np.array(pair))
    apart = math.dist(here.tolist(), there.tolist())
    assert apart <= great_circle(*pair) * (1 + 2.0**-40) + ROUNDING


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("epsilon", [0.01, 50.0])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(pair=pairs())
def test_the_loss_is_at_most_epsilon_per_kilometre(name, epsilon, pair):
    """Theorem 5 on the integers that the noise is added to, against ε times the distance in 50 digits."""
    points = MAPS[name].to_kilometres(np.array(pair))
    lattice = norm_lattice("l2", points.shape[1], epsilon)
    steps = np.rint(points / lattice.step)
    square = sum(int(x) ** 2 for x in (steps[1] - steps[0]).tolist())
    loss = math.sqrt(Fraction(square) / lattice.scale**2) * (1 + 2.0**-26)
    distance = great_circle(*pair)
    assert loss <= epsilon * (distance + ROUNDING) + 2.0**-32
    if distance >= max(2.0**-10 / epsilon, 5e-4):
        assert loss <= epsilon * distance


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(
    ("here", "there", "name"),
    [
        ((89.995, 0.0), (89.995, 180.0), "North Pole"),
        ((-17.0, 179.995), (-17.0, -179.995), "Fiji"),
        ((-17.0, 179.995), (-17.0, -179.995), "everywhere"),
        ((70.0, 10.0), (70.0, 10.03), "everywhere"),
        ((40.7, -74.0), (40.708, -74.0), "New York"),
    ],
)
def test_audit_of_what_is_drawn(here, there, name, epsilon):
    """Half-planes between two places about a kilometre apart, 40 000 draws at each: fails below 1e-8 by chance."""
    n = 40_000
    keywords = {"coordinates": "latitude-longitude", "bounds": BOXES[name]}
    model = MetricPrivatizer(epsilon, metric="haversine", random_state=None, **keywords).fit([here])
    to_space = sphere_map(0, None, None).to_kilometres
    direction = np.subtract(*to_space(np.array([there, here])))
    at = [to_space(model.transform(np.tile([place], (n, 1)))) @ direction for place in (here, there)]
    distance = EARTH_RADIUS * haversine_distances(np.radians([here, there]))[0, 1]
    worst = -math.inf
    for cut in np.quantile(np.concatenate(at), [0.1, 0.25, 0.5, 0.75, 0.9]):
        for side in (1, -1):
            p, q = ((side * (values - cut) > 0).mean() for values in at)
            error = 6 * math.sqrt(p * (1 - p) / n)
            worst = max(worst, math.log((p - error) / (q + 6 * math.sqrt(q * (1 - q) / n))))
    assert worst <= epsilon * distance
    if epsilon == 2.0:
        assert worst > 0.2 * epsilon * distance  # and the audit sees something


@pytest.mark.parametrize("name", MAPS)
def test_rounding_is_as_small_as_said(name):
    places = public_generator(0).uniform([-90, -360], [90, 360], size=(300, 2))
    found, axes = MAPS[name].to_kilometres(places), MAPS[name].axes.tolist()
    with mpmath.workdps(40):
        for place, point in zip(places.tolist(), found.tolist(), strict=True):
            phi, lam = (mpmath.radians(mpmath.mpf(x)) for x in place)
            unit = (mpmath.cos(phi) * mpmath.cos(lam), mpmath.cos(phi) * mpmath.sin(lam), mpmath.sin(phi))
            exact = [mpmath.mpf(EARTH_RADIUS) * sum(a * u for a, u in zip(axis, unit, strict=True)) for axis in axes]
            gap = mpmath.sqrt(sum((a - mpmath.mpf(b)) ** 2 for a, b in zip(exact, point, strict=True)))
            assert gap <= ROUNDING / 2


@pytest.mark.parametrize("name", MAPS)
def test_there_and_back(name):
    lower, upper = BOXES[name] or ([-90, -180], [90, 180])
    places = public_generator(1).uniform(lower, upper, size=(500, 2))
    back = MAPS[name].to_degrees(MAPS[name].to_kilometres(places))
    assert max(great_circle(a, b) for a, b in zip(places, back, strict=True)) < 1e-5
    assert np.abs(back - places)[:, 0].max() < 1e-7


def test_each_place_enters_by_itself():
    places = public_generator(2).uniform([-90, -180], [90, 180], size=(257, 2))
    for each in MAPS.values():
        together = each.to_kilometres(places)
        assert all(
            np.array_equal(each.to_kilometres(place[None])[0], row) for place, row in zip(places, together, strict=True)
        )


@pytest.mark.parametrize(("name", "expected"), [("New York", 2.0), ("everywhere", 0.75 * math.pi)])
def test_how_far_results_lie(name, expected):
    """Mean displacement of 40 000 draws at ε = 10, of deviation below 0.15: fails below 1e-8 by chance."""
    place = (40.7, -74.0)
    model = MetricPrivatizer(10.0, metric="haversine", coordinates="latitude-longitude", bounds=BOXES[name])
    moved = model.fit_transform(np.tile([place], (40_000, 1)))
    radius = EARTH_RADIUS * haversine_distances(np.radians(moved), np.radians([place]))
    assert radius.mean() == pytest.approx(expected / 10, abs=6 * 0.15 / 200)


def test_results_stay_in_the_box_and_longitudes_on_its_side():
    for name in ("Fiji", "New York", "North Pole"):
        lower, upper = BOXES[name]
        model = MetricPrivatizer(1e-4, metric="haversine", coordinates="latitude-longitude", bounds=(lower, upper))
        moved = model.fit_transform(np.tile([(lower + upper) / 2], (500, 1)))
        assert (moved >= lower).all() and (moved <= upper).all()
    model.set_params(epsilon=100.0, bounds=BOXES["Fiji"]).fit([[0.0, 0.0]])
    assert (np.abs(model.transform([[-17.0, -179.0], [-17.0, 181.0]])[:, 1] - 181.0) < 1).all()


def test_columns_are_known_by_name_or_told():
    X = pd.DataFrame({"lng": [-74.0, -73.9], "lat": [40.7, 40.8]})
    city = {"lat": (40.49, 40.92), "lng": (-74.26, -73.70)}
    model = MetricPrivatizer(50.0, metric="haversine", bounds=city).fit(X)
    assert np.abs(model.transform(X) - X.to_numpy()).max() < 0.05
    assert "2-metric privacy for one row (great-circle distance in km" in str(
        model.set_params(epsilon=2.0).fit(X).privacy_guarantee_
    )
    assert latitude_column("auto", 2, ["pickup_longitude", "pickup_latitude"]) == 1
    assert latitude_column("longitude-latitude", 2, None) == 1


@pytest.mark.parametrize(
    ("keywords", "columns", "message"),
    [
        ({}, ["x", "y"], "must know which column is the latitude"),
        ({}, ["lat", "lat2_lat"], "must know which"),
        ({}, ["lat", "lon", "time"], "two columns"),
        ({"coordinates": "latitude-longitude"}, ["lon", "lat"], "contradicts the columns' names, 'lon', 'lat'"),
        ({"bounds": (0, 100)}, ["lat", "lon"], r"'lat' must be latitudes from -90 to 90, got \(0, 100\)"),
        ({"bounds": {"lat": (0, 1), "lon": (-200, 200)}}, ["lat", "lon"], "'lon' must be longitudes"),
        ({"bounds": {"lat": (0, 1)}}, ["lat", "lon"], "got none for 'lon'"),
        ({"mechanism": "exponential"}, ["lat", "lon"], "allowed are k-norm"),
    ],
)
def test_refusals(keywords, columns, message):
    X = pd.DataFrame([[1.0] * len(columns)], columns=columns)
    with pytest.raises(ValueError, match=message):
        MetricPrivatizer(metric="haversine", **keywords).fit(X)


def test_places_outside():
    ledger = PrivacyLedger(epsilon=1.0, unit="row")
    keywords = {"metric": "haversine", "coordinates": "latitude-longitude", "out_of_bounds": "raise", "ledger": ledger}
    model = MetricPrivatizer(bounds=BOXES["Fiji"], **keywords).fit([[0.0, 0.0]])
    with pytest.raises(ValueError, match="outside bounds"):
        model.transform([[0.0, 0.0]])
    with pytest.raises(ValueError, match="outside bounds"):
        MetricPrivatizer(**keywords).fit([[0.0, 0.0]]).transform([[91.0, 0.0]])
    assert not ledger.entries()
    model.transform([[-17.0, -179.0]])  # 181 degrees, written otherwise


@pytest.mark.parametrize("metric", ["l1", "l2", "linf"])
def test_degrees_are_not_taken_for_a_plane(metric):
    X = pd.DataFrame({"pickup_longitude": [-74.0], "pickup_latitude": [40.7], "fare": [3.0]})
    with pytest.warns(DegreesWarning, match="'pickup_longitude', 'pickup_latitude' look like degrees") as seen:
        MetricPrivatizer(metric=metric).fit(X)
    assert seen[0].filename == __file__
    MetricPrivatizer(metric=metric).fit(X.drop(columns="pickup_latitude"))
    MetricPrivatizer(metric=metric).fit(X.to_numpy())
