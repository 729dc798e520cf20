"""Each privacy check passes an honest estimator and fails the one with its fault."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import fakes
from sklearn.utils.estimator_checks import parametrize_with_checks

from skprivate.utils import estimator_checks as checks
from skprivate.utils._data import close_leaves, default_data, fit_clone, leaves, public_generator


@pytest.mark.take_turns(9)
@parametrize_with_checks([fakes.NoisyMean()])
def test_the_honest_fake_is_an_estimator(estimator, check):
    check(estimator)


@pytest.mark.take_turns(9)
@checks.parametrize_with_privacy_checks([fakes.NoisyMean()])
def test_the_honest_fake_passes(estimator, check):
    check(estimator)


FAULTS = [
    (fakes.KeepsRows, checks.check_no_training_value_kept, "support_ holds 9 number"),
    (fakes.KeepsOneValueDeep, checks.check_no_training_value_kept, "_cache"),
    (fakes.KeepsInClosure, checks.check_no_training_value_kept, "closure0 holds 180"),
    (fakes.KeepsInPickleOnly, checks.check_no_training_value_kept, "the pickle of"),
    (fakes.WarnsOfData, checks.check_no_unnoised_statistic, "<warnings and prints>"),
    (fakes.PrintsData, checks.check_no_training_value_kept, "the output"),
    (fakes.ShowsData, checks.check_no_training_value_kept, "the HTML"),
    (fakes.KeepsStatistic, checks.check_no_unnoised_statistic, "scale_"),
    (fakes.KeepsCount, checks.check_no_unnoised_statistic, "n_positive_"),
    (fakes.KeepsDataAsPublic, checks.check_no_unnoised_statistic, "mean_"),
    (fakes.KeepsSize, checks.check_size_independent_of_rows, "grew by"),
    (fakes.ChangesParameter, checks.check_parameters_untouched, "replaced its parameter"),
    (fakes.FillsParameter, checks.check_parameters_untouched, "replaced its parameter"),
    (fakes.PlansFromData, checks.check_events_independent_of_values, "depends on the data"),
    (fakes.RefusesLargeValues, checks.check_events_independent_of_values, "refuses huge values"),
    (fakes.AssertsGuarantee, checks.check_events_within_budget, "compose to"),
    (fakes.SpendsMore, checks.check_events_within_budget, "promises only"),
    (fakes.SameNoise, checks.check_fresh_noise, "the same noise every time"),
    (fakes.SameNoise, checks.check_simulated_noise_is_marked, "SimulatedNoiseWarning"),
    (fakes.HidesSimulation, checks.check_simulated_noise_is_marked, "is marked"),
    (fakes.ValidatesLate, checks.check_bad_input_spends_nothing, "before it refused user_ids"),
    (fakes.ValidatesLate, checks.check_errors_spend_nothing, "user_ids number 1 .* after it had paid"),
    (fakes.ShowsDataInError, checks.check_errors_spend_nothing, "shows private data"),
    (fakes.AcceptsNaN, checks.check_bad_input_spends_nothing, "must refuse NaN in X"),
    (fakes.ShowsDataInError, checks.check_bad_input_spends_nothing, "shows private data"),
    (fakes.DrawsThenAsks, checks.check_ledger_is_asked_first, "drew noise before"),
    (fakes.ForgetsLedger, checks.check_ledger_is_asked_first, "drew noise before"),
    (fakes.CopiesLedger, checks.check_copies_share_the_ledger, "in the ledger that they share"),
    (fakes.DropsRoutedUsers, checks.check_metadata_is_carried, "user_ids"),
    (fakes.HalvesSensitivity, checks.check_replay, "times its sensitivity"),
    (fakes.KeepsStatistic, checks.check_replay, "besides what was drawn"),
    (fakes.PlansFromData, checks.check_replay, "is not the same"),
    (fakes.SumsFloats, checks.check_unit_isolation, "depends on the data of other units"),
    (fakes.HalvesNoise, checks.check_noise_scale, "below what its events"),
]


@pytest.mark.parametrize(("fake", "check", "match"), FAULTS)
def test_each_fault_is_found(fake, check, match):
    with pytest.raises((AssertionError, TypeError), match=match):
        check(fake.__name__, fake())


def test_every_check_is_seen_to_fail():
    assert {check for _, check, _ in FAULTS} == set(checks.privacy_checks())


def test_a_default_argument_is_no_route_around():
    def keeps(rows=np.arange(3.0)):  # noqa: B008
        return rows

    assert any(isinstance(leaf, np.ndarray) for leaf in leaves(keeps).values())


@pytest.mark.parametrize("X", [np.arange(5) + 0.12345678, [["0.12345678a"]] * 5, [[0.5], [0.12345678, 1.0]]])
def test_validation_errors_do_not_quote_the_data(X):
    with pytest.raises(ValueError) as error:
        fakes.NoisyMean().fit(X, np.zeros(5))
    assert "12345678" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_an_infinite_entry_hides_no_other():
    fitted = np.array([np.inf, 1.0, np.nan])
    assert close_leaves(fitted, fitted * (1 + 1e-9))
    assert not close_leaves(fitted, np.array([np.inf, 2.0, np.nan]))


def test_cycles_end():
    a: dict = {"b": []}
    a["b"].append(a)
    assert leaves(a)


def test_check_privacy_runs_all(monkeypatch):
    ran = []
    monkeypatch.setattr(checks, "_CHECKS", (lambda name, estimator, make_data: ran.append(name),) * 3)
    checks.check_privacy(fakes.NoisyMean())
    assert ran == ["NoisyMean"] * 3
    with pytest.raises(TypeError, match="instances"):
        checks.parametrize_with_privacy_checks([fakes.NoisyMean])


# The statistical bound ------------------------------------------------------------------------------------


def laplace(epsilon):
    from skprivate.privacy import open_release

    def draw(value):
        release = open_release(epsilon=epsilon, unit="row", adjacency="replace-one")
        return release.laplace(value, sensitivity=1.0, epsilon=epsilon)

    return draw


@pytest.mark.slow
def test_laplace_is_within_its_claim_and_half_of_it_is_not():
    bound, halved = checks.check_epsilon_lower_bound(laplace(1.0), (0.0, 1.0), epsilon=1.0, n_runs=3000)
    # With as many runs it is below 0.3 with probability below 1e-6, and below 0.4 in one run of 1e5.
    assert 0.3 < bound <= 1.0 < halved <= 2.0


@pytest.mark.slow
def test_a_false_claim_is_found():
    with pytest.raises(AssertionError, match="loses at least"):
        checks.check_epsilon_lower_bound(laplace(2.0), (0.0, 1.0), epsilon=0.9, n_runs=3000)


def test_a_blunt_test_is_found():
    with pytest.raises(AssertionError, match="half the noise is not noticed"):
        checks.check_epsilon_lower_bound(laplace(1.0), (0.0, 0.0), epsilon=1.0, n_runs=200)


@pytest.mark.slow
def test_selection_is_sharpened_too():
    from skprivate.privacy import open_release

    release = open_release(epsilon=1e6, unit="row", adjacency="replace-one")

    def draw(scores):
        return release.select(scores, sensitivity=1, epsilon=1.0) == 0

    # Half the noise goes unnoticed with probability 3e-8; among ten others and with 6000 runs it was 1 %.
    checks.check_epsilon_lower_bound(draw, ([1] + [0] * 5, [0] + [1] * 5), epsilon=1.0, n_runs=9000)


def test_the_bound_keeps_its_level():
    """At a true ε of 1 and alpha = 5 %, at most 5 % of the bounds are above 1 (failure probability 1e-6)."""
    from scipy.stats import binom

    from skprivate.privacy import public_generator

    rng = public_generator(0)
    p, q, runs = np.e / (1 + np.e), 1 / (1 + np.e), 400
    above = sum(
        checks.epsilon_lower_bound(rng.binomial(1, p, 200), rng.binomial(1, q, 200), alpha=0.05) > 1
        for _ in range(runs)
    )
    assert above <= binom.isf(1e-6, runs, 0.05)


def test_delta_is_taken_off():
    first, second = np.arange(1000) % 10 == 0, np.zeros(1000)
    assert checks.epsilon_lower_bound(first, second) > 0.4
    assert checks.epsilon_lower_bound(first, second, delta=0.1) == 0
    with pytest.raises(ValueError, match="at least 4 runs"):
        checks.epsilon_lower_bound([1.0], second)


class Collects(fakes.NoisyMean):
    """A fit during which somebody's open socket is collected, and an idle worker ends."""

    def fit(self, X, y):
        warnings.warn("unclosed <socket>", ResourceWarning, stacklevel=2)
        executor = "joblib.externals.loky.process_executor"
        warnings.warn_explicit("A worker stopped", UserWarning, "process_executor.py", 1, module=executor)
        return super().fit(X, y)


def test_what_collectors_and_workers_say_is_not_of_the_fit():
    data = default_data(Collects(), public_generator(0), 12)
    assert fit_clone(Collects(random_state=0), data).wording == ""
