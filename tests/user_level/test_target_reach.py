"""How far predictions of a regression go: as far as its targets, which a released scale and a released tail tell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from skprivate import UserLevelSGDRegressor
from skprivate.privacy import Adjacency
from skprivate.privacy._quantiles import EIGHTHS
from skprivate.user_level._column_reach import least_reach, reach_of_column
from skprivate.user_level._frame import TARGET_REACH
from skprivate.user_level._plan import Terms
from skprivate.user_level._standard_plan import plan_standardisation
from skprivate.user_level._standardise import NOISE_REACH


@pytest.mark.parametrize("n_users", [6_300_000, 50_000_000])
@pytest.mark.parametrize("excess", [1.0, 3.0, 2.0**40, 2.0**92])
def test_a_tail_of_any_weight_has_an_end(n_users, excess):
    """The power of the rank was no float, and the fit ended in an error that told of the data."""
    terms = Terms(1e-4, 1e-6, Adjacency.REPLACE_ONE, n_users)
    plan = plan_standardisation(terms, n_features=1, centred=True, target=True)
    reach = plan._target_reach(excess, n_users)
    assert TARGET_REACH <= reach <= max(TARGET_REACH, NOISE_REACH / plan._level(n_users))
    assert (reach > TARGET_REACH) == (excess > 1.0)


@pytest.mark.parametrize("excess", [1.2, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("n_users", [3_000, 100_000])
def test_the_end_is_where_the_last_of_so_heavy_a_law_lies(excess, n_users):
    """Of the law whose quantiles exceed a normal one's by a power of how rare they are."""
    plan = plan_standardisation(
        Terms(3.0, 1e-6, Adjacency.REPLACE_ONE, n_users), n_features=4, centred=True, target=True
    )
    share = 2.0 * (np.log(24.0) + 9.0) / (plan.tail_epsilon * n_users)
    power = np.log(excess / 1.1) / np.log(0.35 / share)
    last = -ndtri(0.5 / n_users) * excess * (share * n_users) ** power
    assert plan._target_reach(excess, n_users) == pytest.approx(max(TARGET_REACH, last), rel=1e-9)


@pytest.mark.parametrize("law", [stats.gamma(2.0), stats.lognorm(0.8)], ids=["gamma", "lognormal"])
def test_predictions_of_a_skewed_target_end_a_little_beyond_it(law):
    """Two reaches on a grid of half octaves said for half of the seeds 6 scales and for the others 23 of a gamma law,
    2.5 times as far as its last user, and a single long row could cost more than all that was explained."""
    last = law.ppf(1.0 - 1.0 / 6_000) - law.median()
    ends = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model = UserLevelSGDRegressor(1.0, random_state=seed)
        low, high = model.fit(rng.normal(size=(6_000, 3)), law.rvs(6_000, random_state=rng)).target_range_
        ends.append(0.5 * (high - low) / last)
    assert min(ends) > 0.5 and max(ends) < 3.2, ends
    assert 0.9 < np.median(ends) < 1.75, ends


@pytest.mark.parametrize(("n_users", "part"), [(6_000, 0.5), (800, 0.7)])
def test_features_end_at_half_of_where_predictions_do(n_users, part):
    """Six scales of a feature with a normal target: rows so far out had the say of many, and their noise."""
    rng = np.random.default_rng(0)
    X = 50.0 + 10.0 * rng.normal(size=(n_users, 4))
    y = 0.1 * (X - 50.0) @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n_users)
    model = UserLevelSGDRegressor(1.0, random_state=0).fit(X, y)
    low, high = model.feature_range_
    reach = part * TARGET_REACH
    np.testing.assert_allclose((high - low) / model.feature_scale_, 2.0 * reach)
    assert reach * 2.0**-0.5 < model.row_bound_ / 5.0**0.5 < reach * 2.0**0.5, "in typical norms, of a grid"


def test_a_reach_is_found_to_an_eighth():
    """Exact where noise decides nothing, from 2⁻²⁰ to 2²⁰."""

    class Best:
        def select(self, utilities, **_):
            return int(np.argmax(utilities))

    for octave in np.linspace(-20.0, 20.0, 81):
        distances = 2.0**octave * np.linspace(0.0, 1.0, 2_001)
        cells = np.bincount(EIGHTHS.cells(distances), minlength=EIGHTHS.last + 1)
        reach = reach_of_column(cells, least_reach(0.0, EIGHTHS), 700.0, 1.0, Best(), grid=EIGHTHS)
        assert reach == pytest.approx(0.65 * 2.0**octave, rel=0.075)
