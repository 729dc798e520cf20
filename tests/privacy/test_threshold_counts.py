"""Counts with private keys: the threshold's δ, what leaves the draw, and what a replay sees."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from skprivate.privacy import GaussianEvent, PureEvent, compose_delta, open_release
from skprivate.privacy._contributions import IntegerLattice
from skprivate.privacy.draws import count_events_of, count_lattice, count_threshold
from skprivate.privacy.draws._counts import tail
from skprivate.privacy.noise import _samplers
from skprivate.utils.estimator_checks import replay

LAPLACE = {"noise": "laplace", "level": 1.0, "size": 2}
GAUSSIAN = {"noise": "gaussian", "level": 4.0, "size": 4}


def opened(options, threshold_delta, **parameters):
    events = count_events_of(options["noise"], options["level"], size=options["size"], threshold_delta=threshold_delta)
    return open_release(epsilon=3.0, delta=0.2, unit="user", adjacency="add-remove", plan=events, **parameters)


def drawn(counts, options=LAPLACE, *, sensitivity=1.0, own=1, most_keys=1, threshold_delta=1e-3, **parameters):
    with opened(options, threshold_delta, **parameters) as release:
        return release.threshold_counts(
            counts, sensitivity=sensitivity, own=own, most_keys=most_keys, threshold_delta=threshold_delta, **options
        )


@pytest.mark.parametrize("distance", [1, 3, 17, 40])
@pytest.mark.parametrize("scale", [0.5, 2.0, 9.7])
def test_tails_are_those_of_the_laws_and_never_less(distance, scale):
    with mpmath.workdps(40):
        for noise, options in (("laplace", {"level": 1.0 / scale}), ("gaussian", {"level": scale})):
            lattice = count_lattice(noise, 1.0, options["level"], 1)
            bound = tail(noise, lattice, Fraction(distance))
            width = mpmath.mpf(lattice.scale.numerator) / lattice.scale.denominator
            points = mpmath.mpf(distance) * mpmath.mpf(2) ** lattice.shift
            if noise == "laplace":
                q = mpmath.exp(-1 / width)
                exact = q**points / (1 + q)
            else:
                exact = mpmath.erfc(points / width / mpmath.sqrt(2)) / 2
            assert exact <= bound <= exact * (1 + mpmath.mpf("1e-6")) + mpmath.mpf(2) ** -65


@pytest.mark.parametrize(("noise", "level"), [("laplace", 0.3), ("gaussian", 5.0)])
@pytest.mark.parametrize("most_keys", [1, 7, 1000])
def test_the_threshold_is_the_least_that_delta_pays_for(noise, level, most_keys):
    lattice = count_lattice(noise, 1.0, level, 8)
    limit = count_threshold(noise, lattice, own=2, most_keys=most_keys, delta=1e-6)
    each = [tail(noise, lattice, Fraction(at - 2)) for at in (limit, limit - 1)]
    passing = [-math.expm1(most_keys * math.log1p(-p)) for p in each]
    assert passing[0] <= 1e-6 < passing[1]


def test_delta_of_all_outputs_by_enumeration():
    """Two data sets, one user more; every output, from the law of the noise alone: δ(ε) is within the price."""
    lattice, level, delta = IntegerLattice(2, Fraction(8)), 0.5, 0.01  # steps of ¼, scale 2
    limit = count_threshold("laplace", lattice, own=1, most_keys=1, delta=delta) * 4
    support = np.arange(-400, 401)
    law = np.exp(-np.abs(support) / 8.0)
    law /= law.sum()

    def outputs(counts):
        """Probability of each pair of outputs, hidden ones together."""
        laws = []
        for count in counts:
            noisy = support + 4 * count
            seen = {int(v): p for v, p in zip(noisy, law, strict=True) if count and v >= limit}
            laws.append({**seen, None: 1.0 - sum(seen.values())})
        return {(a, b): p * q for (a, p), (b, q) in itertools.product(laws[0].items(), laws[1].items())}

    events = count_events_of("laplace", level, size=2, threshold_delta=delta)
    for here, there in (((9, 1), (9, 0)), ((9, 1), (8, 1)), ((2, 1), (2, 0)), ((1, 0), (0, 0))):
        p, q = outputs(here), outputs(there)
        for epsilon in (0.1, 0.5, 0.9):
            for one, other in ((p, q), (q, p)):
                found = sum(max(0.0, m - math.exp(epsilon) * other.get(o, 0.0)) for o, m in one.items())
                assert found <= compose_delta(events, epsilon) + 1e-12


@pytest.mark.parametrize("options", [LAPLACE, GAUSSIAN])
def test_keys_of_one_unit_pass_as_seldom_as_stated(options):
    """2 000 draws of three keys with one user each; both tails of the binomial at 1e-7."""
    n, delta = 2000, 0.1
    shown = sum(
        bool(drawn(dict.fromkeys("abc", 1), options, most_keys=3, threshold_delta=delta, random_state=s)[0])
        for s in range(n)
    )
    assert binom.isf(1 - 1e-7, n, 0.2 * delta) < shown < binom.isf(1e-7, n, delta)


def test_what_passes_is_sorted_and_nothing_else_leaves():
    counts = {"b": 10**6, "a": 10**6, "rare": 1}
    keys, values = drawn(counts, random_state=0)
    assert keys == ["a", "b"] and values.shape == (2, 1)
    assert abs(values - 10**6).max() < 60
    assert drawn({}, random_state=0)[0] == []
    keys, values = drawn({}, GAUSSIAN, random_state=0)
    assert keys == [] and values.shape == (0, 1)


def test_the_cost_does_not_depend_on_keys():
    for counts in ({}, {"a": 5}, dict.fromkeys(range(300), 7)):
        with opened(GAUSSIAN, 1e-3, random_state=0) as release:
            release.threshold_counts(counts, sensitivity=1.0, own=1, most_keys=2, threshold_delta=1e-3, **GAUSSIAN)
        assert dict(release.close().events) == count_events_of("gaussian", 4.0, size=4, threshold_delta=1e-3)


USERS = {1: "ab", 2: "a", 3: "ac", 4: "c"}


def counted(users, *, sensitivity, own=1, most_keys=2):
    sums: dict[str, int] = {}
    for groups in users.values():
        for group in groups:
            sums[group] = sums.get(group, 0) + 1
    return drawn(sums, GAUSSIAN, sensitivity=sensitivity, own=own, most_keys=most_keys, random_state=0)


def neighbours():
    return [{k: v for k, v in USERS.items() if k != gone} for gone in USERS] + [{**USERS, 5: "xy"}]


def test_a_replay_accepts_the_right_bounds():
    report = replay(lambda users: counted(users, sensitivity=2**0.5 * (1 + 1e-9)), USERS, neighbours())
    assert not report.failures and report.worst["threshold_counts"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sensitivity": 0.7}, "times its sensitivity"),
        ({"sensitivity": 2.0, "most_keys": 1}, "2 keys are in one only, more than 1"),
        ({"sensitivity": 2.0, "own": 0}, "a count of 1 steps, more than 0"),
    ],
)
def test_a_replay_refuses_wrong_bounds(wrong, message):
    assert message in replay(lambda users: counted(users, **wrong), USERS, neighbours()).failures[-1]


def test_a_table_of_private_size_is_planned_by_its_bound():
    event = GaussianEvent(3.0, 100)
    with open_release(
        epsilon=3.0, delta=1e-6, unit="row", adjacency="add-remove", plan=[(event, 1)], random_state=0
    ) as release:
        assert release.gaussian([1, 2], sensitivity=1, noise_multiplier=3.0, size=100).shape == (2,)
        with pytest.raises(ValueError, match="at most size = 100 numbers, got 101"):
            release.gaussian(range(101), sensitivity=1, noise_multiplier=3.0, size=100)
    assert release.close().events == ((event, 1),)
    assert PureEvent(1.0, "Laplace") in count_events_of("laplace", 1.0, size=1, threshold_delta=None)


def test_the_threshold_is_compared_in_integers(monkeypatch):
    """One point of the lattice below it is below, where float64 has no such number."""
    own, epsilon = 2**20, 1e12
    lattice = count_lattice("laplace", 2.0 * own, epsilon, 2)
    limit = count_threshold("laplace", lattice, own=own, most_keys=1, delta=1e-6)
    missing = (limit - own) << lattice.shift
    for noise, shown in ((missing - 1, []), (missing, ["a"])):
        monkeypatch.setattr(
            _samplers, "integer_noise", lambda kind, scale, shape, source, noise=noise: np.full(shape, noise, object)
        )
        with open_release(epsilon=epsilon, delta=1e-6, unit="row", adjacency="replace-one") as release:
            found, _ = release.threshold_counts(
                {"a": own},
                sensitivity=2.0 * own,
                noise="laplace",
                level=epsilon,
                size=2,
                own=own,
                most_keys=1,
                threshold_delta=1e-6,
            )
        assert found == shown
