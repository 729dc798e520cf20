"""delta=0: Algorithm 2 for every coordinate."""

import numpy as np
import pytest
from scipy import stats

from skprivate import PrivacyLedger, UserLevelMean
from skprivate.user_level.means._user_mean import PureUserMean


def rows(n_users, d, seed=0):
    rng = np.random.default_rng(seed)
    centre = 100.0 * np.arange(1, d + 1)
    return centre + rng.normal(size=(3 * n_users, d)), np.repeat(np.arange(n_users), 3), centre


@pytest.mark.parametrize(("tau", "aggregation"), [(3.0, "mean"), (None, "mean"), (None, "robust")])
def test_what_is_promised_is_pure_and_within_the_budget(tau, aggregation):
    X, users, centre = rows(8000, 3)
    ledger = PrivacyLedger(epsilon=1.0, unit="user")
    model = UserLevelMean(delta=0, tau=tau, bound=1e4, aggregation=aggregation, random_state=0, ledger=ledger).fit(
        X, user_ids=users
    )
    guarantee = model.privacy_guarantee_
    assert guarantee.delta == 0.0
    assert 0.999 < guarantee.epsilon <= 1.0
    assert np.linalg.norm(model.mean_ - centre) < min(0.5, model.confidence_radius_)
    assert 0 < model.noise_scale_ < 0.05


@pytest.mark.slow
def test_a_given_radius_is_algorithm_2():
    """n·(output − clipped mean) is Laplace of scale 8τd/ε, by Kolmogorov–Smirnov over 300 draws (p > 1e-7)."""
    X = np.random.default_rng(0).uniform(-0.4, 0.4, size=(400, 2))
    draws = np.array([UserLevelMean(4.0, delta=0, tau=1.0, bound=8.0, random_state=s).fit(X).mean_ for s in range(300)])
    for column, mean in zip(draws.T, X.mean(axis=0), strict=True):
        assert stats.kstest(column - mean, stats.laplace(scale=8 * 1.0 * 2 / (4.0 * 400)).cdf).pvalue > 1e-7
    model = UserLevelMean(4.0, delta=0, tau=1.0, bound=8.0, random_state=0).fit(X)
    assert model.noise_scale_ == pytest.approx(np.sqrt(2) * 8 * 2 / (4.0 * 400))
    assert model.clip_radius_ == 2.0


def test_a_mechanism_draws_what_it_prices_with_the_stated_sensitivity(recording_release):
    X, users, _ = rows(3000, 2)
    from skprivate.user_level._problems import UserGroups

    for reach in (True, False):
        mechanism = PureUserMean(2.0, 3000, 2, reach, None, 1e4)
        release = recording_release(0)
        mechanism.run((X, UserGroups(users)), release)
        selections = [draw["epsilon"] for draw in release.draws if draw["kind"] == "select"]
        laplaces = [draw for draw in release.draws if draw["kind"] == "laplace"]
        assert sum(selections) + sum(draw["epsilon"] for draw in laplaces) == pytest.approx(2.0, rel=1e-8)
        assert sorted([*selections, *(draw["epsilon"] for draw in laplaces)]) == pytest.approx(
            sorted(event.epsilon for event, count in mechanism.events for _ in range(count))
        )
        # Offsets are integers of at most half the sensitivity.
        assert all(draw["sensitivity"] == 2**30 for draw in laplaces)


def test_coverage_of_the_confidence_radius():
    misses = 0
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(2000, 2))
        model = UserLevelMean(2.0, delta=0, tau=3.0, bound=100.0, beta=0.2, random_state=seed).fit(X)
        misses += np.linalg.norm(model.mean_) > model.confidence_radius_
    assert stats.binom.sf(misses - 1, 40, 0.2) > 1e-6


def test_what_cannot_be_kept_is_refused_before_anything_is_spent():
    ledger = PrivacyLedger(epsilon=1.0, unit="row")
    X = np.zeros((300, 2))
    with pytest.raises(ValueError, match="needs adjacency='replace-one' and weight_cap=1, got adjacency='add-"):
        UserLevelMean(delta=0, adjacency="add-remove", ledger=ledger).fit(X)
    with pytest.raises(ValueError, match="weight_cap=3"):
        UserLevelMean(delta=0, weight_cap=3, ledger=ledger).fit(X)
    with pytest.raises(ValueError, match=r"n = 300 users at epsilon = 1 are too few .* are needed\. Give tau"):
        UserLevelMean(delta=0, ledger=ledger).fit(X)
    assert ledger.spent == (0.0, 0.0)
