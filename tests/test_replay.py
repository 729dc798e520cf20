"""The long replay: every estimator, set up in every way, on thousands of neighbours.

`check_replay` and `check_unit_isolation` do the same on a few neighbours of the defaults. A failure names the draw,
the neighbour, and by how much the statistic of the draw moved.
"""

from __future__ import annotations

import numpy as np
import pytest
from variants import VARIANTS

from skprivate import make_curated_bags, make_random_bags
from skprivate.privacy import public_generator
from skprivate.utils._neighbours import EXTREMES
from skprivate.utils.discovery import all_estimators
from skprivate.utils.estimator_checks import Neighbour, isolation_failures, replay, replay_estimator

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

CASES = [
    pytest.param(estimator, make, id=f"{kind.__name__}-{k}-{make.__name__}")
    for kind, instances in VARIANTS.items()
    for k, (estimator, makers) in enumerate(instances)
    for make in makers
]
#: Neighbours of one case; a fit of these takes longest.
_AT_MOST = {"UserLevelSGDRegressor": 50, "UserLevelSGDClassifier": 50, "PPMHalfspaceClassifier": 60}


def test_every_private_estimator_is_among_the_variants():
    private = {kind for _, kind in all_estimators() if "epsilon" in kind._get_param_names()}
    assert private == set(VARIANTS)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "make_data"), CASES)
def test_draws_keep_their_sensitivities(estimator, make_data, record_property):
    at_most = _AT_MOST.get(type(estimator).__name__, 120)
    n_rows = 12 if getattr(estimator, "strategy", None) == "exact" else 24
    report = replay_estimator(estimator, make_data=make_data, n_rows=n_rows, n_units=2, at_most=at_most)
    record_property("neighbours", report.n_neighbours)
    print(f"\n{report.n_draws} draws, {report.n_neighbours} neighbours, worst {report.worst}")
    assert report.n_draws and report.n_neighbours
    report.raise_failures(repr(estimator))


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "make_data"), CASES)
def test_units_count_for_themselves(estimator, make_data):
    failures = isolation_failures(estimator, make_data=make_data, n_rows=12, n_units=1, at_most=8)
    assert not failures, f"{failures[0]} ({len(failures)} failures)"


# Functions --------------------------------------------------------------------------------------------------------


def label_neighbours(y, values, rng):
    """One label is exchanged for each of ``values``, in a few places."""
    for row in (0, len(y) // 2, len(y) - 1):
        for value in values:
            other = np.array(y)
            other[row] = value if other.ndim == 1 else rng.choice(np.atleast_1d(values), other.shape[1])
            yield Neighbour(f"y[{row}] = {other[row]!r}", other)
            if other.ndim == 2:
                other = other.copy()
                other[row] = value
                yield Neighbour(f"y[{row}] = {value!r}", other)


RNG = public_generator(3)
X = RNG.integers(0, 3, size=(40, 2))
NUMBERS = (*EXTREMES, 2.0, -2.0, 1e15, 1.7e18)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "discrete_gaussian"])
@pytest.mark.parametrize("kind", ["classes", "numbers", "range", "far"])
def test_curated_bags(mechanism, kind):
    if kind == "classes":
        y, values, terms = RNG.permutation(np.arange(40) % 3), (0, 1, 2), {}
    else:
        bounds = {"numbers": (-2.0, 3.0), "far": (1e15 + 2047.5, 1e15 + 2048.5)}.get(kind)
        low, high = bounds or (-2.0, 2.0)
        y, values, terms = RNG.uniform(low, high, size=40), (*NUMBERS, low, high), {"label_bounds": bounds}
        if mechanism == "discrete_gaussian":
            pytest.skip("numbers are not counts")

    def release(labels):
        return make_curated_bags(
            X,
            labels,
            epsilon=1.0,
            delta=1e-5,
            mechanism=mechanism,
            categorical_features="all",
            random_state=0,
            **terms,
        )

    report = replay(release, y, label_neighbours(y, values, RNG))
    report.raise_failures("make_curated_bags")
    assert report.n_draws


@pytest.mark.parametrize("disjoint", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 1, 5])
@pytest.mark.parametrize("kind", ["0/1", "numbers", "range", "far"])
def test_random_bags(disjoint, n_outputs, kind):
    shape = 40 if n_outputs is None else (40, n_outputs)
    bounds = {"numbers": (-2.0, 3.0), "far": (1.7e18, 1.7e18 + 1e6)}.get(kind)
    if kind == "0/1":
        y, values, terms = RNG.integers(0, 2, size=shape), (0, 1), {}
    else:
        low, high = bounds or (-1.0, 1.0)
        y, values, terms = (
            RNG.uniform(low, high, size=shape),
            (*NUMBERS, low, high),
            {"numbers": True, "label_bounds": bounds},
        )

    def release(labels):
        return make_random_bags(X, labels, 4, disjoint=disjoint, epsilon=1.0, random_state=0, **terms)

    report = replay(release, y, label_neighbours(y, values, RNG))
    report.raise_failures("make_random_bags")
    assert report.n_draws
