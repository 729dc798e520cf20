"""The common checks of private estimators, for this package and for those who extend it.

They go beside scikit-learn's own `~sklearn.utils.estimator_checks.parametrize_with_checks`, which every
estimator here passes as well.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.base import BaseEstimator

from skprivate.utils._checks_draws import (
    check_mechanism,
    check_noise_scale,
    check_replay,
    check_unit_isolation,
    isolation_failures,
    replay_estimator,
)
from skprivate.utils._checks_fit import (
    check_bad_input_spends_nothing,
    check_copies_share_the_ledger,
    check_errors_spend_nothing,
    check_events_independent_of_values,
    check_events_within_budget,
    check_fresh_noise,
    check_ledger_is_asked_first,
    check_metadata_is_carried,
    check_no_training_value_kept,
    check_no_unnoised_statistic,
    check_parameters_untouched,
    check_simulated_noise_is_marked,
    check_size_independent_of_rows,
)
from skprivate.utils._data import CheckData, MakeData, default_data
from skprivate.utils._lower_bound import check_epsilon_lower_bound, epsilon_lower_bound, half_noise
from skprivate.utils._replay import Neighbour, ReplayReport, replay

__all__ = [
    "CheckData",
    "Neighbour",
    "ReplayReport",
    "check_bad_input_spends_nothing",
    "check_copies_share_the_ledger",
    "check_epsilon_lower_bound",
    "check_errors_spend_nothing",
    "check_events_independent_of_values",
    "check_events_within_budget",
    "check_fresh_noise",
    "check_ledger_is_asked_first",
    "check_mechanism",
    "check_metadata_is_carried",
    "check_no_training_value_kept",
    "check_no_unnoised_statistic",
    "check_noise_scale",
    "check_parameters_untouched",
    "check_privacy",
    "check_replay",
    "check_simulated_noise_is_marked",
    "check_size_independent_of_rows",
    "check_unit_isolation",
    "default_data",
    "epsilon_lower_bound",
    "half_noise",
    "isolation_failures",
    "parametrize_with_privacy_checks",
    "privacy_checks",
    "replay",
    "replay_estimator",
]

_CHECKS = (
    check_parameters_untouched,
    check_no_training_value_kept,
    check_no_unnoised_statistic,
    check_size_independent_of_rows,
    check_events_independent_of_values,
    check_events_within_budget,
    check_fresh_noise,
    check_simulated_noise_is_marked,
    check_bad_input_spends_nothing,
    check_errors_spend_nothing,
    check_ledger_is_asked_first,
    check_copies_share_the_ledger,
    check_metadata_is_carried,
    check_replay,
    check_unit_isolation,
    check_noise_scale,
)


def privacy_checks() -> list[Callable[..., None]]:
    """List all common privacy checks.

    Returns
    -------
    checks : list of callable
        Each is called as ``check(name, estimator, make_data=…)`` and raises AssertionError. A check that does not
        concern an estimator (one that releases nothing, one without per-row metadata) returns at once.

    See Also
    --------
    check_privacy : Runs them all.
    """
    return list(_CHECKS)


def check_privacy(estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Run all common privacy checks on an estimator.

    Parameters
    ----------
    estimator : estimator
        An instance; it is cloned, never fitted. One that has the parameter ``epsilon`` is taken for
        private and must have ``random_state``, ``ledger`` and, after ``fit``, ``privacy_guarantee_``.
    make_data : callable, default=default_data
        ``make_data(estimator, rng, n_rows)`` returns `CheckData` that suit the estimator.

    Raises
    ------
    AssertionError
        The first check that failed, with what it found.

    See Also
    --------
    parametrize_with_privacy_checks : Makes a test of each check.
    check_mechanism : Checks a mechanism by itself.
    sklearn.utils.estimator_checks.check_estimator : Runs scikit-learn's checks.

    Examples
    --------
    >>> from skprivate.preprocessing import PublicScaler
    >>> from skprivate.utils.estimator_checks import check_privacy
    >>> check_privacy(PublicScaler())
    """
    for check in _CHECKS:
        check(type(estimator).__name__, estimator, make_data=make_data)


def parametrize_with_privacy_checks(
    estimators: Iterable[Any], *, make_data: MakeData = default_data
) -> Callable[[Any], Any]:
    """Pytest decorator: one test for each estimator and each common privacy check.

    Parameters
    ----------
    estimators : iterable of estimator
        Instances.
    make_data : callable, default=default_data
        ``make_data(estimator, rng, n_rows)`` returns `CheckData` that suit the estimator.

    Returns
    -------
    decorator : `pytest.mark.parametrize`
        For a test with the arguments ``estimator`` and ``check``.

    See Also
    --------
    check_privacy : Runs the checks without pytest.
    sklearn.utils.estimator_checks.parametrize_with_checks : Tests scikit-learn's interface.

    Examples
    --------
    >>> from skprivate.preprocessing import PublicScaler
    >>> from skprivate.utils.estimator_checks import parametrize_with_privacy_checks
    >>> @parametrize_with_privacy_checks([PublicScaler()])
    ... def test_privacy(estimator, check):
    ...     check(estimator)
    """
    import pytest

    cases, ids = [], []
    for estimator in estimators:
        if isinstance(estimator, type):
            raise TypeError(f"estimators must be instances, got the class {estimator.__name__}.")
        name = type(estimator).__name__
        for check in _CHECKS:
            cases.append((estimator, functools.partial(check, name, make_data=make_data)))
            # The same in every run and worker process: no line breaks, no addresses.
            shown = re.sub(r"\s+| at 0x[0-9a-f]+", " ", repr(estimator))
            ids.append(f"{shown}-{check.__name__}")
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=ids)
