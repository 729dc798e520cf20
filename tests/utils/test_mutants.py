"""Every planted fault is found: faulty mechanisms, faulty estimators, and a faulty door below sound ones."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from helpers import fake_mechanism, fakes

from skprivate import (
    CuratedBagGAMClassifier,
    MetricPrivateSynthesizer,
    PPMHalfspaceClassifier,
    RandomBagClassifier,
    UserLevelMean,
)
from skprivate.privacy import _contributions, public_generator
from skprivate.privacy.draws._draws import Draws
from skprivate.utils import estimator_checks as checks

_RNG = public_generator(0)
DATA = [
    _RNG.normal(size=(7, 2)),
    np.full((6, 2), -1.0),
    np.array([[1e-162, 1e-162], [1e300, -1e300], [0.0, 0.0], [0.5, 0.5], [0.5, 0.5]]),
]


@pytest.mark.slow
def test_the_honest_mechanism_passes():
    checks.check_mechanism(fake_mechanism.Summary(), DATA)
    checks.check_mechanism(fake_mechanism.Summary(1), DATA, adjacency="add-remove")
    checks.check_mechanism(fake_mechanism.Summary(1), [np.zeros((0, 2))], adjacency="add-remove")


@pytest.mark.parametrize("fault", fake_mechanism.FAULTS)
def test_a_faulty_mechanism_is_found(fault):
    with pytest.raises(AssertionError):
        checks.check_mechanism(fake_mechanism.FAULTS[fault](), DATA)


@pytest.mark.parametrize("fault", fake_mechanism.ADD_REMOVE_FAULTS)
def test_a_faulty_mechanism_is_found_with_one_row_more(fault):
    with pytest.raises(AssertionError):
        checks.check_mechanism(fake_mechanism.ADD_REMOVE_FAULTS[fault](1), DATA, adjacency="add-remove")


# Faults of the door and of the arithmetic, below a mechanism that is sound ----------------------------------------


@contextmanager
def margin_forgotten():
    with mock.patch.object(_contributions, "ball_margin", lambda n: 1.0 + 2.0**-20):
        yield


@contextmanager
def float_sums():
    def summed(contributions, axis=-1):
        return (np.sum(np.asarray(contributions) * 2.0**23, axis=axis) + 2.0**76) - 2.0**76

    with mock.patch("skprivate.privacy.exact_sum", lambda c, **kw: summed(c).astype(np.int64) >> 23):
        yield


@contextmanager
def one_unit_twice():
    block_sum = _contributions._block_sum
    with mock.patch.object(
        _contributions,
        "_block_sum",
        lambda block, axis, bound: block_sum(block, axis, bound) + block.max(axis=axis).astype(int),
    ):
        yield


@contextmanager
def interval_without_clip():
    clip = np.clip
    with mock.patch.object(_contributions.np, "clip", lambda x, low, high, **kw: clip(x, 3 * low, 3 * high, **kw)):
        yield


@contextmanager
def draws_altered(**alter):
    """Every draw passes on with other numbers: what a wrapper round the door would do."""
    perform = Draws._perform

    def altered(self, draw, sample):
        changes = {name: change(draw) for name, change in alter.items() if draw.kind != "repetitions"}
        return perform(self, replace(draw, **changes), sample)

    with mock.patch.object(Draws, "_perform", altered):
        yield


def sensitivity_halved():
    return draws_altered(sensitivity=lambda draw: draw.sensitivity / 2)


def statistic_doubled():
    return draws_altered(statistic=lambda draw: 2 * draw.statistic)


def scale_leaks():
    return draws_altered(
        sensitivity=lambda draw: (
            draw.sensitivity
            * (1 + 1e-9 * float(np.abs(draw.statistic.astype(float).ravel() @ np.arange(1, 1 + draw.statistic.size))))
        )
    )


def order_leaks():
    """A statistic that depends on which unit comes first."""
    return draws_altered(statistic=lambda draw: np.roll(draw.statistic, int(np.sum(draw.statistic.astype(float)))))


@pytest.mark.parametrize("fault", [margin_forgotten, float_sums, one_unit_twice, sensitivity_halved, checks.half_noise])
def test_a_faulty_floor_is_found_below_a_mechanism(fault):
    with fault(), pytest.raises(AssertionError):
        checks.check_mechanism(fake_mechanism.Summary(), DATA)


@pytest.mark.parametrize("fault", [one_unit_twice, interval_without_clip, sensitivity_halved, scale_leaks])
def test_a_faulty_floor_is_found_below_an_estimator(fault):
    with fault(), pytest.raises(AssertionError):
        for check in (checks.check_replay, checks.check_unit_isolation):
            check("NoisyMean", fakes.NoisyMean())


ESTIMATORS = [
    UserLevelMean(),
    CuratedBagGAMClassifier(),
    RandomBagClassifier(),
    PPMHalfspaceClassifier(strategy="thinned"),
    MetricPrivateSynthesizer(metric="rows", bounds=(0, 1)),
]


@pytest.mark.parametrize("fault", [sensitivity_halved, statistic_doubled, scale_leaks, order_leaks])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_faulty_door_is_found_below_each_package(estimator, fault):
    with ExitStack() as stack:
        stack.enter_context(fault())
        report = checks.replay_estimator(estimator, at_most=24)
    # More than the rounding of float64 could be blamed for.
    assert max(report.worst.values(), default=0.0) > 1.2 or any("is not the same" in text for text in report.failures)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if "PPM" not in type(e).__name__], ids=lambda e: type(e).__name__
)
def test_half_the_noise_is_found_below_each_package(estimator):
    with checks.half_noise(), pytest.raises(AssertionError, match="below what its events"):
        checks.check_noise_scale(type(estimator).__name__, estimator)
