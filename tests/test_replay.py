"""The long replay: every estimator, set up in every way, on thousands of neighbours.

`check_replay` and `check_unit_isolation` do the same on a few neighbours of the defaults. A failure names the draw,
the neighbour, and by how much the statistic of the draw moved.
"""

from __future__ import annotations

import dataclasses
import inspect
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.replay_totals import ReplayTotals
from helpers.turns import SHARES
from helpers.variants import VARIANTS
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import skprivate as sp
from skprivate import RandomBagRegressor, make_curated_bags, make_random_bags
from skprivate._sklearn import StrOptions
from skprivate.preprocessing import PrivateSplineTransformer
from skprivate.privacy import public_generator
from skprivate.utils._neighbours import EXTREMES
from skprivate.utils.discovery import all_estimators
from skprivate.utils.estimator_checks import Neighbour, default_data, isolation_failures, replay, replay_estimator

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

CASES = [
    pytest.param(estimator, make, id=f"{kind.__name__}-{k}-{make.__name__}")
    for kind, instances in VARIANTS.items()
    for k, (estimator, make) in enumerate(instances)
]
#: How many of them one turn takes, at least.
N_REPLAYS = SHARES * (len(CASES) // 9)
#: Changes of values of one case; changes that move rows come on top.
_AT_MOST = 8


@pytest.fixture
def looked_at(record_property):
    """Tells the process that counts, of all that run side by side, what a replay looked at."""

    def tell(name, report):
        draws = report.n_draws * (1 + report.n_neighbours)
        record_property("replay", [N_REPLAYS, name, draws, report.n_neighbours, dict(report.worst)])

    return tell


def test_every_private_estimator_is_among_the_variants():
    private = {kind for _, kind in all_estimators() if "epsilon" in kind._get_param_names()}
    assert private == set(VARIANTS)


def test_every_option_is_among_the_variants():
    """Each word that a parameter may be stands in some variant; what is drawn depends on nothing else by name."""
    public = {"out_of_bounds", "submodel", "penalty", "categorical_features", "output_distribution", "label_release"}
    for kind, instances in VARIANTS.items():
        for name in sorted(kind._parameter_constraints.keys() - public):
            allowed = kind._parameter_constraints[name]
            words = {word for item in allowed if isinstance(item, StrOptions) for word in item.options}
            missing = words - {str(getattr(estimator, name)) for estimator, _ in instances}
            # Of networks, which learn from what was released; and "auto" is one of the numbers, or no draw.
            missing -= {"easyllp"} if (kind, name) == (RandomBagRegressor, "loss") else set()
            missing -= {"auto"} if (kind, name) == (PrivateSplineTransformer, "n_knots") else set()
            assert not missing, f"{kind.__name__}: no variant has {name} in {missing}"


@pytest.fixture
def seed(request):
    """Another for every case, so that together they make changes of all kinds."""
    return zlib.crc32(request.node.name.encode()) % 10**6


@pytest.mark.slow
@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("estimator", "make_data"), CASES)
def test_draws_keep_their_sensitivities(estimator, make_data, looked_at, seed):
    n_rows = 12 if getattr(estimator, "strategy", None) in ("exact", "auto") else 24
    # Single rows have fewer changes than users, who may have more rows or fewer.
    n_units = 2 if "user_ids" in inspect.signature(estimator.fit).parameters else 6
    report = replay_estimator(
        estimator, make_data=make_data, n_rows=n_rows, n_units=n_units, at_most=_AT_MOST, seed=seed
    )
    looked_at(type(estimator).__name__, report)
    report.raise_failures(repr(estimator))
    assert report.n_draws and report.n_neighbours
    assert max(report.worst.values()) <= 1.0


@pytest.mark.slow
@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("estimator", "make_data"), CASES)
def test_units_count_for_themselves(estimator, make_data, seed):
    failures = isolation_failures(estimator, make_data=make_data, n_rows=12, n_units=1, at_most=2, seed=seed)
    assert not failures, f"{failures[0]} ({len(failures)} failures)"


# Any parameters, any data ------------------------------------------------------------------------------------------

_POSITIVE = st.floats(-12.0, 12.0).map(lambda exponent: 10.0**exponent)
_VALUES = st.one_of(st.sampled_from(EXTREMES), st.floats(-1e300, 1e300), st.floats(-2.0, 2.0))
_COMMON = {
    "epsilon": st.floats(-2.0, 2.0).map(lambda exponent: 10.0**exponent),
    "delta": st.floats(-15.0, -1.0).map(lambda exponent: 10.0**exponent),
    "adjacency": st.sampled_from(["replace-one", "add-remove"]),
    "weight_cap": st.integers(1, 9),
    "n_users": st.none() | st.integers(1, 10**6),
    "tau": st.none() | _POSITIVE,
    "bound": _POSITIVE,
    "alpha": st.none() | st.just(0.0) | _POSITIVE,
    "radius": st.none() | _POSITIVE,
    "step_size": st.none() | _POSITIVE,
    "max_iter": st.integers(1, 4),
    "aggregation": st.sampled_from(["robust", "mean"]),
    "feature_norm": st.none() | _POSITIVE,
    "huber_threshold": _POSITIVE,
    "quantile": st.floats(0.01, 0.99),
    "n_bins": st.integers(2, 40),
    "n_quantiles": st.integers(3, 60),
    "bag_size": st.integers(1, 5),
    "min_size": st.none() | st.integers(1, 3),
    "disjoint": st.booleans(),
    "selection": st.sampled_from(["exponential", "permute-and-flip"]),
    "strategy": st.sampled_from(["thinned", "greedy"]),
    "max_halfspaces": st.none() | st.integers(1, 3),
    "class_weight": st.none() | st.fixed_dictionaries({0: _POSITIVE, 1: _POSITIVE}),
    "rule": st.sampled_from(["votes", "means"]),
    "ground": st.sampled_from(["l1", "l2", "linf"]),
}
_INTERVALS = st.tuples(_VALUES, _VALUES).filter(lambda ends: ends[0] < ends[1])
#: Parameters that mean something else in some estimators, or that they need.
_OF_CLASS = {
    sp.UserLevelSelector: {"tau": _POSITIVE, "estimators": st.just(VARIANTS[sp.UserLevelSelector][0][0].estimators)},
    sp.UserLevelSGDClassifier: {"alpha": st.just(0.0) | _POSITIVE, "classes": st.just([0, 1])},
    sp.RandomBagClassifier: {"alpha": st.just("evidence"), "classes": st.just([0, 1])},
    sp.RandomBagRegressor: {"alpha": st.just("evidence"), "label_bounds": st.none() | _INTERVALS},
    sp.CuratedBagGAMClassifier: {"max_iter": st.just(500), "classes": st.just([0, 1])},
    sp.CuratedBagGAMRegressor: {"max_iter": st.just(500), "label_bounds": st.none() | _INTERVALS},
    sp.PPMHalfspaceClassifier: {
        "classes": st.just([0, 1]),
        "strategy": st.sampled_from(["thinned", "greedy", "gradient"]),
    },
    sp.model_selection.PrivateSearchCV: {
        "estimator": st.just(sp.UserLevelSGDClassifier(classes=[0, 1], max_iter=2)),
        "param_distributions": st.just({"alpha": [0.0, 1.0]}),
        "n_iter": st.floats(1.0, 3.0),
        "refit": st.none() | st.floats(0.1, 0.9),
        "scoring": st.sampled_from(["accuracy", "neg_brier_score"]),
        "validation_fraction": st.floats(0.2, 0.6),
    },
    sp.preprocessing.PrivateImputer: {
        "bounds": st.none() | _INTERVALS,
        "strategy": st.sampled_from(["median", "mean"]),
    },
    sp.preprocessing.PrivateStandardScaler: {"bounds": st.none() | _INTERVALS},
    sp.preprocessing.PrivateKBinsDiscretizer: {"bounds": st.none() | _INTERVALS},
    sp.preprocessing.PrivateQuantileTransformer: {"bounds": st.none() | _INTERVALS},
    # "auto" draws nothing where rows are as few as here.
    sp.preprocessing.PrivateSplineTransformer: {"bounds": st.none() | _INTERVALS, "n_knots": st.integers(2, 9)},
    sp.MetricPrivateSynthesizer: {"metric": st.sampled_from(["wasserstein", "rows"]), "bounds": _INTERVALS},
    sp.MetricPrivatizer: {
        "metric": st.sampled_from(["l1", "l2", "linf"]),
        "mechanism": st.sampled_from(["k-norm", "exponential"]),
        "bounds": _INTERVALS,
        "resolution": st.integers(2, 5),
    },
}


def _filled(data, values):
    """Data with some of their numbers exchanged for others."""
    X, y = data.X.copy(), data.y
    X.flat[: len(values)] = values
    if y is not None and y.dtype.kind == "f":
        y = y.copy()
        y[: len(values)] = values[::-1][: len(y)]
    return dataclasses.replace(data, X=X, y=y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", VARIANTS, ids=lambda kind: kind.__name__)
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_draws_keep_their_sensitivities_with_any_parameters(kind, looked_at, data):
    strategies = {name: _COMMON[name] for name in kind._get_param_names() if name in _COMMON}
    estimator = kind(**data.draw(st.fixed_dictionaries({**strategies, **_OF_CLASS.get(kind, {})})))
    values = data.draw(st.lists(_VALUES, min_size=1, max_size=12))
    report = replay_or_refusal(
        estimator, lambda *terms: _filled(default_data(*terms), values), data.draw(st.integers(0, 10**6))
    )
    if report is None:  # parameters that do not go together are refused, whatever the data
        reject()
    looked_at(kind.__name__, report)
    report.raise_failures(repr(estimator))
    assert max(report.worst.values()) <= 1.0


def replay_or_refusal(estimator, make_data, seed):
    try:
        return replay_estimator(estimator, make_data=make_data, n_rows=12, at_most=6, seed=seed)
    except ValueError:
        return None


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


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "discrete_gaussian"])
@pytest.mark.parametrize("kind", ["classes", "numbers", "range", "far"])
def test_curated_bags(mechanism, kind, looked_at):
    if kind == "classes":
        y, values, terms = RNG.permutation(np.arange(40) % 3), (0, 1, 2), {}
    else:
        bounds = {"numbers": (-2.0, 3.0), "far": (1e15 + 2047.5, 1e15 + 2048.5)}.get(kind)
        low, high = bounds or (-2.0, 2.0)
        y, values, terms = RNG.uniform(low, high, size=40), (*NUMBERS, low, high), {"label_bounds": bounds}

    def release(labels):
        return make_curated_bags(
            X, labels, epsilon=1.0, delta=1e-5, mechanism=mechanism, categorical_features="all", random_state=0, **terms
        )

    report = replay(release, y, label_neighbours(y, values, RNG))
    looked_at("make_curated_bags", report)
    report.raise_failures("make_curated_bags")
    assert report.n_draws and max(report.worst.values()) <= 1.0


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("disjoint", [True, False])
@pytest.mark.parametrize("n_outputs", [None, 1, 5])
@pytest.mark.parametrize("kind", ["0/1", "numbers", "range", "far"])
def test_random_bags(disjoint, n_outputs, kind, looked_at):
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
    looked_at("make_random_bags", report)
    report.raise_failures("make_random_bags")
    assert report.n_draws and max(report.worst.values()) <= 1.0


@pytest.mark.parametrize(
    ("n_cases", "draws", "neighbours", "too_little"),
    [(2, 10**6, 10**5, False), (1, 10**6, 10**5, False), (1, 10**6, 2_999, True), (1, 29_999, 10**5, True)],
)
def test_a_run_that_looked_at_too_little(n_cases, draws, neighbours, too_little):
    totals = ReplayTotals()
    seen = ("replay", [n_cases, "Model", draws, neighbours, {"laplace": 0.5}])
    totals.pytest_runtest_logreport(SimpleNamespace(when="call", passed=True, user_properties=[seen]))
    session = SimpleNamespace(exitstatus=0)
    totals.pytest_sessionfinish(session, 0)
    assert (session.exitstatus != 0) == too_little
