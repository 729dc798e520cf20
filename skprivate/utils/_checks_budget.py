"""Privacy checks: what a fit spends, and when it spends nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags

from skprivate._sklearn import StrOptions
from skprivate.privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLedger,
    SimulatedNoiseWarning,
    compose_epsilon,
    public_generator,
)
from skprivate.privacy.noise._bits import SeededBitSource, SystemBitSource
from skprivate.utils._check_data import (
    CheckData,
    MakeData,
    default_data,
    fit_clone,
    private_numbers,
    releases_something,
)
from skprivate.utils._checks_kept import mentions
from skprivate.utils._leaves import equal_leaves

#: Floating-point slack of an ε that was put together from parts.
_SLACK = 1 + 2.0**-39


def check_events_within_budget(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """The guarantee is at most the requested budget, and its events compose to no more than it says."""
    if not releases_something(estimator):
        return
    data = make_data(estimator, public_generator(6), 60)
    for epsilon in (0.1, 1.0, 5.0):
        fitted = fit_clone(estimator, data, epsilon=epsilon, random_state=0)
        guarantee = fitted.guarantee
        assert isinstance(guarantee, PrivacyGuarantee), (
            f"{name}.privacy_guarantee_ must be a PrivacyGuarantee."
        )
        assert guarantee.events, f"{name} released without a recorded event."
        assert guarantee.theorem, f"the guarantee of {name} names no theorem."
        assert guarantee.epsilon <= epsilon, f"{name}(epsilon={epsilon}) promises only {guarantee}."
        requested = getattr(fitted.estimator, "delta", 0.0)
        assert guarantee.delta <= requested, f"{name}(delta={requested}) promises only {guarantee}."
        composed = compose_epsilon(guarantee.events, guarantee.delta)
        assert composed <= guarantee.epsilon * _SLACK, (
            f"the events of {name} compose to ε = {composed}, more than its guarantee {guarantee} says."
        )


def check_fresh_noise(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """Secure fits on the same data differ; fits with the same seed agree, and with other seeds differ."""
    if not releases_something(estimator):
        return
    data = make_data(estimator, public_generator(7), 60)

    def released(random_state: Any) -> dict[str, Any]:
        return fit_clone(estimator, data, random_state=random_state, epsilon=0.1).leaves()

    def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
        return first.keys() == second.keys() and all(
            np.all(equal_leaves(value, second[path])) for path, value in first.items()
        )

    first = released(None)
    assert any(not same(first, released(None)) for _ in range(200)), (
        f"{name} releases the same noise every time."
    )
    first = released(0)
    assert same(first, released(0)), f"{name}(random_state=0) is not reproducible."
    assert any(not same(first, released(seed)) for seed in range(1, 21)), f"{name} ignores random_state."


def check_simulated_noise_is_marked(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """A seeded fit warns once and is not valid for release; a secure fit is, and does not."""
    if not releases_something(estimator):
        return
    data = make_data(estimator, public_generator(8), 60)
    for random_state, simulated in ((0, True), (check_random_state(0), True), (None, False)):
        fitted = fit_clone(estimator, data, random_state=random_state)
        count = sum(isinstance(item, SimulatedNoiseWarning) for item in fitted.warnings)
        assert count == simulated, (
            f"{name}(random_state={random_state!r}) gave {count} SimulatedNoiseWarning(s) instead of "
            f"{int(simulated)}."
        )
        assert fitted.guarantee.valid_for_release is not simulated, (
            f"{name}(random_state={random_state!r}) is marked valid_for_release={not simulated}."
        )


def check_bad_input_spends_nothing(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """NaN, infinity, wrong shapes and parameters out of range are refused, and the message of a parameter names it.

    That refusals spend nothing is the matter of `check_errors_spend_nothing`.
    """
    if not releases_something(estimator):
        return
    data = make_data(estimator, public_generator(9), 60)
    guarantee = fit_clone(estimator, data, random_state=0).guarantee
    private = private_numbers(data, guarantee.unit)
    cases = [(kind, bad, {}) for kind, bad in _bad_data(estimator, data)]
    cases += [(f"{key}=", data, {key: value}) for key, value in _bad_parameters(estimator)]
    for kind, bad, parameters in cases:
        ledger = PrivacyLedger(epsilon=1e9, delta=0.5, unit=guarantee.unit)
        fresh = clone(estimator).set_params(**{"ledger": ledger, "random_state": 0, **parameters})
        message = _refusal(name, kind + str(parameters), fresh, bad)
        assert not ledger.entries(), f"{name} spent budget before it refused {kind}{parameters}."
        assert not mentions(message, private), f"the error of {name} for {kind} shows private data: {message}"
        assert all(key in message for key in parameters), (
            f"the error of {name} for a bad {kind} does not name it: {message}"
        )


def _refusal(name: str, kind: str, estimator: Any, data: CheckData) -> str:
    try:
        estimator.fit(*((data.X,) if data.y is None else (data.X, data.y)), **data.metadata)
    except (ValueError, TypeError) as error:
        return str(error)
    raise AssertionError(f"{name} must refuse {kind} with a ValueError or TypeError.")


def _bad_data(estimator: Any, data: CheckData) -> Iterator[tuple[str, CheckData]]:
    X, y, metadata = data.X, data.y, data.metadata

    def spoiled(array: np.ndarray, value: float) -> np.ndarray:
        array = array.astype(float)
        array.flat[len(array) // 2] = value
        return array

    if not get_tags(estimator).input_tags.allow_nan:
        yield "NaN in X", CheckData(spoiled(X, math.nan), y, metadata)
    yield "infinity in X", CheckData(spoiled(X, math.inf), y, metadata)
    yield "a flat X", CheckData(X[:, 0], y, metadata)
    empty = {key: values[:0] for key, values in metadata.items()}
    yield "X without rows", CheckData(X[:0], None if y is None else y[:0], empty)
    if y is not None:
        yield "y of another length", CheckData(X, y[:-1], metadata)
        yield "NaN in y", CheckData(X, spoiled(y, math.nan), metadata)
    for key, values in metadata.items():
        yield f"{key} of another length", CheckData(X, y, {**metadata, key: values[:-1]})


def _bad_parameters(estimator: Any) -> Iterator[tuple[str, Any]]:
    constraints = getattr(estimator, "_parameter_constraints", {})
    for value in (0, -1.0, math.nan, "1", None):
        if value is not None or None not in constraints.get("epsilon", ()):  # None may mean no privacy
            yield "epsilon", value
    if "delta" in estimator.get_params(deep=False):
        for value in (1.0, -0.1, math.nan, "1"):
            yield "delta", value
    yield "random_state", "seed"
    yield "ledger", {"epsilon": 1.0}
    for key, allowed in constraints.items():
        if (
            isinstance(allowed, list)
            and str not in allowed
            and any(isinstance(item, StrOptions) for item in allowed)
        ):
            yield key, "no such option"


def check_ledger_is_asked_first(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """A ledger with too little left refuses the whole fit before one bit of noise is drawn.

    And a ledger with exactly enough takes it: one closed entry or more, that sum to the guarantee.
    """
    if not releases_something(estimator):
        return
    data = make_data(estimator, public_generator(10), 60)
    guarantee = fit_clone(estimator, data, random_state=0).guarantee

    def ledger_with(epsilon: float, delta: float) -> PrivacyLedger:
        return PrivacyLedger(epsilon=epsilon, delta=delta, unit=guarantee.unit)

    exact = (guarantee.epsilon, guarantee.delta)
    too_small = [(0.5 * exact[0], exact[1]), (0.999 * exact[0], exact[1])]
    if guarantee.delta:
        too_small.append((exact[0], 0.999 * exact[1]))
    for budget in too_small:
        for random_state in (0, None):
            ledger = ledger_with(*budget)
            with _no_bits(name):
                try:
                    fit_clone(estimator, data, ledger=ledger, random_state=random_state)
                except BudgetExceededError:
                    pass
                else:
                    raise AssertionError(f"{name} spent {exact} of a ledger with {budget}.")
            assert not ledger.entries(), f"{name} was refused, but is charged in the ledger."
    for random_state in (0, None):
        ledger = ledger_with(*exact)
        try:
            fitted = fit_clone(estimator, data, ledger=ledger, random_state=random_state)
        except BudgetExceededError as error:
            raise AssertionError(
                f"{name} asks its ledger for more than it draws ({guarantee}): {error}"
            ) from error
        assert fitted.estimator.ledger is ledger, f"{name} exchanged its ledger."
        entries = ledger.entries()
        assert entries, f"{name} was not charged to its ledger."
        for entry in entries:
            assert entry.closed is not None, f"{name} did not close its release: {entry}."
            assert entry.simulated is (random_state is not None), f"{name} hid that its noise is simulated."
            assert entry.adjacency.startswith(str(guarantee.adjacency)) and entry.label, (
                f"unreadable entry: {entry}."
            )
        assert ledger.spent[0] * _SLACK >= guarantee.epsilon, f"{name} was charged less than {guarantee}."
        assert ledger.spent[1] >= guarantee.delta, f"{name} was charged less than {guarantee}."


@contextmanager
def _no_bits(name: str) -> Iterator[None]:
    def refuse(self: Any, n: int) -> Any:
        raise AssertionError(f"{name} drew noise before its ledger agreed to the price.")

    with (
        mock.patch.object(SystemBitSource, "bytes", refuse),
        mock.patch.object(SeededBitSource, "bytes", refuse),
    ):
        yield
