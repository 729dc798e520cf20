"""One unit moves what is drawn by no more than is paid for, whatever it and the others are."""

import itertools

import numpy as np
import pytest
from helpers.preprocessing_replay import fit_twice, share
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skprivate.preprocessing._columns import Column
from skprivate.preprocessing._mechanisms import ONE, contributions, sum_sensitivities
from skprivate.privacy import Adjacency

pytestmark = pytest.mark.filterwarnings("ignore:.*too few:UserWarning")

NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 5e-324, -5e-324, 1e300, -1e300, 1.7e308, 3.0, np.nan]), st.floats(-5, 5)
)
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 3)), min_size=2, max_size=12)
OWN = st.lists(NUMBERS, min_size=1, max_size=6)

MAKERS = {
    "gaussian": lambda **k: PrivateStandardScaler(0.3, delta=0.01, **k),
    "laplace": lambda **k: PrivateStandardScaler(1.0, delta=0.0, **k),
    "bounds": lambda **k: PrivateStandardScaler(1.0, bounds=(-2, 3), **k),
    "quantiles": lambda **k: PrivateQuantileTransformer(1.0, n_quantiles=6, **k),
    "bins": lambda **k: PrivateKBinsDiscretizer(1.0, n_bins=3, bounds=(-2, 3), **k),
    "splines": lambda **k: PrivateSplineTransformer(1.0, n_knots=9, **k),
    "median": lambda **k: PrivateImputer(1.0, **k),
    "mean": lambda **k: PrivateImputer(1.0, strategy="mean", **k),
    "mode": lambda **k: PrivateImputer(1.0, strategy="most_frequent", categories=[0.0, 1.0, 3.0], **k),
}


def table(rows, own):
    values = np.array([value for value, _ in rows] + own)[:, None]
    users = np.array([f"u{user}" for _, user in rows] + ["changed"] * len(own))
    return values, users


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None, max_examples=25)
@given(rows=ROWS, old=OWN, new=OWN)
@example(rows=[(0.0, 0), (0.0, 1)], old=[1e300], new=[-1e300])
@example(rows=[(5e-324, 0), (-1.0, 1)], old=[np.nan], new=[1.0, np.nan, 1.0])
def test_a_users_rows(name, adjacency, rows, old, new):
    first = table(rows, old if adjacency == "replace-one" else [])

    def make():
        return MAKERS[name](adjacency=adjacency, random_state=0)

    draws = fit_twice(make, first, table(rows, new))
    assert len(draws[0]) == len(draws[1])
    assert all(share(a, b) <= 1 for a, b in zip(*draws, strict=True))


@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None, max_examples=15)
@given(rows=ROWS, new=NUMBERS)
def test_a_row(name, rows, new):
    X = np.array([value for value, _ in rows])[:, None]
    other = X.copy()
    other[0] = new
    draws = fit_twice(lambda: MAKERS[name](random_state=0), (X, None), (other, None))
    assert all(share(a, b) <= 1 for a, b in zip(*draws, strict=True))


@pytest.mark.parametrize("name", MAKERS)
@settings(deadline=None, max_examples=15)
@given(rows=ROWS, random=st.randoms())
def test_the_order_of_rows_changes_nothing(name, rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    draws = fit_twice(lambda: MAKERS[name](random_state=0), table(rows, [1.0]), table(shuffled, [1.0]))
    assert all(share(a, b) == 0 for a, b in zip(*draws, strict=True))


# --- the sums of the scaler ------------------------------------------------------------------------------------------


def contribution(values, centre=0.0, reach=1.0):
    column = Column(np.array(values, dtype=float), np.zeros(len(values), dtype=np.int64))
    return [int(number) for number in contributions(column, centre, reach, 1)[:, 0]]


@given(st.lists(NUMBERS.filter(lambda x: x == x), max_size=6), st.floats(-3, 3), st.sampled_from([1.0, 1e-300, 1e300]))
def test_contributions_stay_in_the_hull_of_their_curve(values, centre, reach):
    z, t, half = contribution(values, centre, reach)
    if not values:
        assert (z, t, half) == (0, 0, 0)
    else:
        assert half == ONE // 2 and z * z <= (t + half) * ONE and t + half <= ONE


@given(st.lists(st.tuples(st.floats(-2, 2), st.integers(0, 2)), min_size=1, max_size=9))
def test_contributions_are_those_of_each_unit_alone(rows):
    values, units = np.array([v for v, _ in rows]), np.array([u for _, u in rows])
    together = contributions(Column(values, units), 0.3, 0.7, 3)
    for unit in range(3):
        alone = contribution(values[units == unit], 0.3, 0.7)
        assert together[:, unit].tolist() == alone
    for value in values:
        row = contributions(Column(np.array([value]), None), 0.3, 0.7, 1)[:, 0].tolist()
        assert row == contribution([value], 0.3, 0.7)


def test_sum_sensitivities_are_the_largest_distances():
    grid = [contribution([x]) for x in np.linspace(-1, 1, 41)]
    users = [contribution(pair) for pair in itertools.combinations(np.linspace(-1, 1, 9), 2)]
    points = [*grid, *users]

    def distances(others):
        pairs = [(p, q) for p in points for q in others]
        l1 = max(sum(abs(a - b) for a, b in zip(p, q, strict=True)) for p, q in pairs)
        l2 = max(sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in pairs)
        return l1, l2

    for adjacency, others in ((Adjacency.REPLACE_ONE, [*points, [0, 0, 0]]), (Adjacency.ADD_REMOVE, [[0, 0, 0]])):
        l1, l2 = sum_sensitivities(adjacency)
        found = distances(others)
        assert found[0] <= l1 and found[1] <= l2 * l2
        # Attained: at ±1 (ℓ2) and at 1, −½ (ℓ1).
        assert found[0] >= l1 * (1 - 1e-8) and found[1] >= l2 * l2 * (1 - 1e-8)
