"""Privacy checks of a fit: what it spends, refuses, keeps and says."""

from __future__ import annotations

import copy
import io
import math
import pickle
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_random_state, get_tags

from skprivate import privacy
from skprivate._sklearn import StrOptions
from skprivate.privacy import (
    BudgetExceededError,
    PrivacyLedger,
    PrivacyUnit,
    RandomStateLike,
    SimulatedNoiseWarning,
    noise,
)
from skprivate.utils import _data
from skprivate.utils._data import CheckData, Fitted, MakeData, default_data, numbers

#: Fits on each of two data sets in `check_no_unnoised_statistic`.
_FITS = 8
#: So small that the output distributions on any two data sets of 30 rows nearly agree.
_TINY_EPSILON = 1e-3
#: Bytes of a pickle that a further row may add: three quarters of one number. Grids grow with n·ε, by doubling.
_BYTES_PER_ROW = 6
#: Floating-point slack of an ε that was put together from parts.
_SLACK = 1 + 2.0**-39
#: Stands for entries that no message may quote.
_SECRET = "Rosalind"
#: Of parameters that start workers, write files or decide about noise alone.
_LEFT_ALONE = ("ledger", "memory", "n_jobs", "random_state", "verbose")


def check_no_training_value_kept(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that no private number of the training data is in an attribute, pickle, repr, HTML, warning or print.

    Every float that the fitted object holds at any depth is compared with every private feature value and
    target, bit by bit; texts are searched for their digits.
    """
    data = make_data(estimator, privacy.public_generator(0), 60)
    fitted = _data.fit_clone(estimator, data, **_noise(estimator, None))
    private = _data.private_numbers(data, _unit(fitted))
    if _stateless(estimator):
        private = _data.private_numbers(data, PrivacyUnit.ROW)
    elif not _data.releases_something(estimator):
        return
    for path, leaf in fitted.leaves().items():
        kept = np.isin(numbers({path: leaf}), private)
        assert not kept.any(), f"{name}.{path} holds {kept.sum()} number(s) of the private training data."
    blob = pickle.dumps(fitted.estimator)
    found = sum(value.tobytes() in blob for value in private)
    assert not found, f"the pickle of a fitted {name} holds {found} number(s) of the private training data."
    texts = {"repr": repr(fitted.estimator), "output": fitted.wording}
    if hasattr(fitted.estimator, "_repr_html_"):
        texts["HTML"] = fitted.estimator._repr_html_()
    if _data.releases_something(estimator):
        texts["guarantee"] = str(fitted.guarantee) + repr(fitted.guarantee) + fitted.guarantee._repr_html_()
    for kind, text in texts.items():
        assert not mentions(text, private), f"the {kind} of a fitted {name} shows a private number."


def check_no_unnoised_statistic(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that nothing a fitted estimator holds or prints is a function of the private data without noise.

    Eight fits on a data set with fresh noise and a tiny ε, and eight on another one that differs in
    everything private. What is the same in each eight but differs between them has no noise on it. On
    both data sets anything private is distributed alike up to a factor e^0.03 (group privacy), so noise
    shows this pattern with probability at most 0.26⁸ for each value; a finding is repeated once before it
    fails: 5e-10.
    """
    if not (_data.releases_something(estimator) or _stateless(estimator)):
        return
    data = make_data(estimator, privacy.public_generator(1), 30)
    unit = _unit(_data.fit_clone(estimator, data, **_noise(estimator, 0)))
    other = _data.other_data(estimator, data, unit, make_data, seed=2)
    suspects = _unnoised(estimator, data, other)
    if suspects:
        suspects &= _unnoised(estimator, data, other)
    assert not suspects, (
        f"after fit, {name} holds values that depend on private data and carry no noise: {sorted(suspects)}."
    )


def _unnoised(estimator: BaseEstimator, data: CheckData, other: CheckData) -> set[str]:
    parameters = {
        **_noise(estimator, None),
        **({"epsilon": _TINY_EPSILON} if _data.releases_something(estimator) else {}),
    }
    here = [_data.fit_clone(estimator, data, **parameters).leaves() for _ in range(_FITS)]
    there = [_data.fit_clone(estimator, other, **parameters).leaves() for _ in range(_FITS)]
    found = set()
    for path in set.intersection(*map(set, [*here, *there])):
        fixed_here = _all_equal([run[path] for run in here])
        fixed_there = _all_equal([run[path] for run in there])
        if fixed_here.shape != fixed_there.shape:
            differ = np.array(fixed_here.all() and fixed_there.all())
        else:
            differ = fixed_here & fixed_there & ~_data.equal_leaves(here[0][path], there[0][path])
        if np.any(differ):
            found.add(path)
    return found


def _all_equal(values: list[Any]) -> np.ndarray:
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1:
        return np.array(False)
    result = np.ones(shapes.pop(), dtype=bool)
    for value in values[1:]:
        result = result & _data.equal_leaves(values[0], value)
    return result


def check_size_independent_of_rows(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that the pickle of a fitted estimator does not grow with its rows.

    Thirty times the rows may add less than three quarters of one number for each row (a released structure
    may grow). Not asked where part of the rows is public and may be kept.
    """
    if not _data.releases_something(estimator):
        return
    sizes = []
    for n_rows in (100, 3000):
        fitted = _data.fit_clone(
            estimator, make_data(estimator, privacy.public_generator(3), n_rows), **_noise(estimator, 0)
        )
        if fitted.guarantee.unit in (PrivacyUnit.LABEL, PrivacyUnit.PRIVATE_ROW):
            return
        sizes.append(len(pickle.dumps(fitted.estimator)))
    growth = sizes[1] - sizes[0]
    assert growth < _BYTES_PER_ROW * 2900, (
        f"the pickle of {name} grew by {growth} bytes with 2900 further rows: it keeps something of each of them."
    )


def check_events_independent_of_values(
    name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data
) -> None:
    """Check that the guarantee and its events are the same for all data of the same shape.

    Also for constant, tiny and huge values: no plan may depend on what the data hold, and no values may be
    refused or warned of, because that is seen, too.
    """
    if not _data.releases_something(estimator):
        return
    data = make_data(estimator, privacy.public_generator(4), 60)
    parameters = _noise(estimator, 0)
    first = _data.fit_clone(estimator, data, **parameters)
    unit = first.guarantee.unit
    variants = {"other": _data.other_data(estimator, data, unit, make_data, seed=5)}
    if unit is not PrivacyUnit.LABEL:
        rows = np.asarray(data.metadata["private"]) if unit is PrivacyUnit.PRIVATE_ROW else np.ones(60, dtype=bool)
        for kind, factor in (("constant", 0.0), ("tiny", 1e-9), ("huge", 1e6)):
            X = np.where(rows[:, None], data.X * factor, data.X)
            variants[kind] = CheckData(X, data.y, data.metadata)
    if data.y is not None and data.y.dtype.kind == "f" and unit is not PrivacyUnit.PRIVATE_ROW:
        variants["huge target"] = CheckData(data.X, 1e6 * data.y, data.metadata)
    for kind, variant in variants.items():
        try:
            guarantee = _data.fit_clone(estimator, variant, **parameters).guarantee
        except ValueError as error:
            raise AssertionError(f"{name} refuses {kind} values, which tells something of them: {error}") from error
        assert guarantee == first.guarantee, (
            f"the guarantee of {name} depends on the data: {first.guarantee!r}, and with {kind} values {guarantee!r}."
        )


def mentions(text: str, values: np.ndarray) -> bool:
    """Check if ``text`` shows one of ``values`` to eight digits or more."""
    for found in re.findall(r"\d+\.\d+(?:e[-+]?\d+)?", text):
        mantissa, _, exponent = found.partition("e")
        digits = mantissa.replace(".", "").lstrip("0")
        if len(digits) < 8:
            continue
        decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
        if np.any(np.abs(np.abs(values) - float(found)) < math.pow(10.0, -decimals)):
            return True
    return False


def _noise(estimator: BaseEstimator, random_state: int | None) -> dict[str, Any]:
    return {"random_state": random_state} if "random_state" in estimator.get_params(deep=False) else {}


def _stateless(estimator: BaseEstimator) -> bool:
    """Check if ``fit`` states that it learns nothing: what it leaves must then not depend on the data at all."""
    return not _data.releases_something(estimator) and (
        _data.releases_in_transform(estimator) or not get_tags(estimator).requires_fit
    )


def _unit(fitted: Fitted) -> PrivacyUnit:
    guarantee = getattr(fitted.estimator, "privacy_guarantee_", None)
    return PrivacyUnit.ROW if guarantee is None else guarantee.unit


def check_events_within_budget(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that the guarantee is at most the requested budget, and its events compose to no more."""
    if not _data.releases_something(estimator):
        return
    data = make_data(estimator, privacy.public_generator(6), 60)
    for epsilon in (0.1, 1.0, 5.0):
        fitted = _data.fit_clone(estimator, data, epsilon=epsilon, random_state=0)
        guarantee = fitted.guarantee
        assert isinstance(guarantee, privacy.PrivacyGuarantee), f"{name}.privacy_guarantee_ must be a PrivacyGuarantee."
        assert guarantee.events, f"{name} released without a recorded event."
        assert guarantee.theorem, f"the guarantee of {name} names no theorem."
        assert guarantee.epsilon <= epsilon, f"{name}(epsilon={epsilon}) promises only {guarantee}."
        requested = getattr(fitted.estimator, "delta", 0.0)
        assert guarantee.delta <= requested, f"{name}(delta={requested}) promises only {guarantee}."
        composed = privacy.compose_epsilon(guarantee.events, guarantee.delta)
        assert composed <= guarantee.epsilon * _SLACK, (
            f"the events of {name} compose to ε = {composed}, more than its guarantee {guarantee} says."
        )


def check_fresh_noise(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that secure fits on the same data differ, and that fits with the same seed agree."""
    if not _data.releases_something(estimator):
        return
    data = make_data(estimator, privacy.public_generator(7), 60)

    def released(random_state: RandomStateLike) -> dict[str, Any]:
        return _data.fit_clone(estimator, data, random_state=random_state, epsilon=0.1).leaves()

    def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
        return first.keys() == second.keys() and all(
            np.all(_data.equal_leaves(value, second[path])) for path, value in first.items()
        )

    first = released(None)
    assert any(not same(first, released(None)) for _ in range(200)), f"{name} releases the same noise every time."
    first = released(0)
    assert same(first, released(0)), f"{name}(random_state=0) is not reproducible."
    assert any(not same(first, released(seed)) for seed in range(1, 21)), f"{name} ignores random_state."


def check_simulated_noise_is_marked(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that a seeded fit warns once and is not valid for release; a secure fit is, and does not warn."""
    if not _data.releases_something(estimator):
        return
    data = make_data(estimator, privacy.public_generator(8), 60)
    for random_state, simulated in ((0, True), (check_random_state(0), True), (None, False)):
        fitted = _data.fit_clone(estimator, data, random_state=random_state)
        count = sum(isinstance(item, SimulatedNoiseWarning) for item in fitted.warnings)
        assert count == simulated, (
            f"{name}(random_state={random_state!r}) gave {count} SimulatedNoiseWarning(s) instead of {int(simulated)}."
        )
        assert fitted.guarantee.valid_for_release is not simulated, (
            f"{name}(random_state={random_state!r}) is marked valid_for_release={not simulated}."
        )


def check_bad_input_spends_nothing(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that NaN, infinity, wrong shapes and bad parameters are refused, by a message that names the parameter.

    That refusals spend nothing is the matter of `check_errors_spend_nothing`.
    """
    if not _data.releases_something(estimator):
        return
    data = make_data(estimator, privacy.public_generator(9), 60)
    guarantee = _data.fit_clone(estimator, data, random_state=0).guarantee
    private = _data.private_numbers(data, guarantee.unit)
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


def _refusal(name: str, kind: str, estimator: BaseEstimator, data: CheckData) -> str:
    try:
        estimator.fit(*data.arguments, **data.metadata)
    except (ValueError, TypeError) as error:
        return str(error)
    raise AssertionError(f"{name} must refuse {kind} with a ValueError or TypeError.")


def _bad_data(estimator: BaseEstimator, data: CheckData) -> Iterator[tuple[str, CheckData]]:
    X, y, metadata = data.X, data.y, data.metadata

    def spoiled(array: np.ndarray, value: float) -> np.ndarray:
        array = array.astype(float)
        array.flat[len(array) // 2] = value
        return array

    tags = get_tags(estimator)
    if not tags.input_tags.allow_nan:
        yield "NaN in X", CheckData(spoiled(X, math.nan), y, metadata)
    # A transformer of text takes any entry for a value: to refuse a private one would tell of it.
    if not (tags.input_tags.string and tags.transformer_tags):
        yield "infinity in X", CheckData(spoiled(X, math.inf), y, metadata)
    yield "a flat X", CheckData(X[:, 0], y, metadata)
    empty = {key: values[:0] for key, values in metadata.items()}
    yield "X without rows", CheckData(X[:0], None if y is None else y[:0], empty)
    if y is not None:
        yield "y of another length", CheckData(X, y[:-1], metadata)
        yield "NaN in y", CheckData(X, spoiled(y, math.nan), metadata)
    for key, values in metadata.items():
        yield f"{key} of another length", CheckData(X, y, {**metadata, key: values[:-1]})


def _bad_parameters(estimator: BaseEstimator) -> Iterator[tuple[str, Any]]:
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
        if isinstance(allowed, list) and str not in allowed and any(isinstance(item, StrOptions) for item in allowed):
            yield key, "no such option"


def check_ledger_is_asked_first(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that a ledger with too little left refuses the whole fit before one bit of noise is drawn.

    And a ledger with exactly enough takes it: one closed entry or more, that sum to the guarantee.
    """
    if not _data.releases_something(estimator):
        return
    data = make_data(estimator, privacy.public_generator(10), 60)
    guarantee = _data.fit_clone(estimator, data, random_state=0).guarantee

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
                    _data.fit_clone(estimator, data, ledger=ledger, random_state=random_state)
                except BudgetExceededError:
                    pass
                else:
                    raise AssertionError(f"{name} spent {exact} of a ledger with {budget}.")
            assert not ledger.entries(), f"{name} was refused, but is charged in the ledger."
    for random_state in (0, None):
        ledger = ledger_with(*exact)
        try:
            fitted = _data.fit_clone(estimator, data, ledger=ledger, random_state=random_state)
        except BudgetExceededError as error:
            raise AssertionError(f"{name} asks its ledger for more than it draws ({guarantee}): {error}") from error
        assert fitted.estimator.ledger is ledger, f"{name} exchanged its ledger."
        entries = ledger.entries()
        assert entries, f"{name} was not charged to its ledger."
        for entry in entries:
            assert entry.closed is not None, f"{name} did not close its release: {entry}."
            assert entry.simulated is (random_state is not None), f"{name} hid that its noise is simulated."
            assert entry.adjacency.startswith(str(guarantee.adjacency)) and entry.label, f"unreadable entry: {entry}."
        assert ledger.spent[0] * _SLACK >= guarantee.epsilon, f"{name} was charged less than {guarantee}."
        assert ledger.spent[1] >= guarantee.delta, f"{name} was charged less than {guarantee}."


@contextmanager
def _no_bits(name: str) -> Iterator[None]:
    def refuse(self: Any, n: int) -> Any:
        raise AssertionError(f"{name} drew noise before its ledger agreed to the cost.")

    with (
        mock.patch.object(noise.SystemBitSource, "bytes", refuse),
        mock.patch.object(noise.SeededBitSource, "bytes", refuse),
    ):
        yield


class _Loss:
    """A loss that is wrong only when it is asked for a gradient."""

    def __init__(self, gradient: object) -> None:
        self.gradient = gradient


def _fails(*values: object) -> Any:
    raise RuntimeError("no such thing")


#: Tried for every parameter. Most are refused for some, and are right for others.
_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 3, 0.5, 1.5, 1e-300, 1e300, math.nan, math.inf, "no such", "auto", object()),
    *((), [], {}, [1, 2], (1.0, 0.0), ["a", "b"], [(0, 9)], [(0, 1)] * 3, np.zeros((2, 2)), np.array([math.nan])),
    *({"no such": 1}, {0: (1, 0)}, {0: []}, {0: -1.0, 1: 1.0}, {9: (0, 1)}, {"epoch": 3}, {"epochs": -1}),
    *(_fails, lambda: 3, lambda *_: 3, lambda *_: None, lambda *_: np.zeros(3), lambda a, *_: np.array(["x"] * len(a))),
    *(_Loss(_fails), _Loss(lambda *_: np.zeros(3)), _Loss(lambda X, *_: X * math.nan), _Loss(lambda X, *_: X + 1j)),
    *(_Loss(lambda X, *_: X[:, :1]), _Loss(lambda *_: None)),
)  # fmt: skip


def check_errors_spend_nothing(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that an error in ``fit`` leaves ledger and estimator unchanged, and shows no private entry.

    Any value for any parameter, of the steps of composites too, and any data: what is wrong with them is not known
    here, and does not matter. A fit that is not refused is nobody's concern. Randomisers of rows are asked to
    transform, too.
    """
    ledgers = [key for key in estimator.get_params() if key.split("__")[-1] == "ledger"]
    if not ledgers:
        return
    data = make_data(estimator, privacy.public_generator(14), 24)
    unit = _charged(estimator, ledgers, data, {})[0].entries()[0].unit
    hidden = _data.private_numbers(data, PrivacyUnit(unit))
    for kind, odd, parameters in [*_odd_parameters(estimator, data), *_odd_data(estimator, data)]:
        ledger, error, left = _charged(estimator, ledgers, odd, parameters)
        if error is None:
            continue
        wording = f"{name} refused {kind} ({type(error).__name__}: {error})"
        assert not ledger.entries(), f"{wording} after it had paid."
        assert not left, f"{wording} and is half-fitted: {left}."
        quoted = _SECRET in str(error) and not (unit == "label" and kind.startswith("X"))
        assert not quoted and not mentions(str(error), hidden), f"{wording}, which shows private data."


def _charged(
    estimator: BaseEstimator, ledgers: list[str], data: CheckData, parameters: dict[str, Any]
) -> tuple[PrivacyLedger, Exception | None, list[str]]:
    """Fit with a fresh ledger: return it, the error of the fit, and attributes that the error has left."""
    ledger, fresh = PrivacyLedger(epsilon=1e300, delta=0.999), clone(estimator)
    before = set(vars(fresh))
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            fresh.set_params(**dict.fromkeys(ledgers, ledger), **parameters)
            fresh.fit(*data.arguments, **data.metadata)
            if getattr(fresh, "releases_in", "fit") == "transform":
                fresh.transform(data.X)
        except Exception as error:
            return ledger, error, sorted(set(vars(fresh)) - before)
    return ledger, None, []


def _odd_parameters(estimator: BaseEstimator, data: CheckData) -> Iterator[tuple[str, CheckData, dict[str, Any]]]:
    for k, key in enumerate(estimator.get_params()):
        if key.split("__")[-1] not in _LEFT_ALONE:
            for value in _ODD[k % 4 :: 4] if "__" in key else _ODD:  # of steps the next parameter has others
                yield f"{key}={value!r}", data, {key: value}


def _odd_data(estimator: BaseEstimator, data: CheckData) -> Iterator[tuple[str, CheckData, dict[str, Any]]]:
    X, y, metadata, n = data.X, data.y, data.metadata, len(data.X)
    words, mixed = np.full(n, _SECRET), np.array([_SECRET, *range(n - 1)], dtype=object)
    numbers = np.linspace(0.0, 1.0, n)
    gaps, dates = np.where(numbers > 0.9, math.nan, numbers), np.full(n, np.datetime64("2020-01-01"))
    features: list[Any] = [None, 3, _SECRET, X[:, 0], X[None], X[:, :0], X[:, :1], X[:0], X[:-1], X + 1j, X * 1e308]
    features += [np.where(X > 0.9, value, X) for value in (math.nan, math.inf)] + [np.where(X > 0.9, np.array(None), X)]
    features += [np.repeat(column[:, None], X.shape[1], axis=1) for column in (words, mixed, dates)]
    rows: list[Any] = [None, 3, "y", words, mixed, gaps, dates, numbers, numbers * 1e308, numbers > 0.5]
    rows += [np.zeros(n), np.zeros((n, 1)), np.zeros((n, 2)), np.arange(n) % 3, np.arange(n - 1), numbers + 1j]
    rows += [np.where(numbers > 0.9, np.array(None), numbers), [object()] * n]
    for k, odd in enumerate(features):
        yield f"X number {k}", CheckData(odd, y, metadata), {}
    yield ("X of one row", CheckData(X[:1], y if y is None else y[:1], {k: v[:1] for k, v in metadata.items()}), {})
    for k, odd in enumerate(rows if y is not None else []):
        yield f"y number {k}", CheckData(X, odd, metadata), {}
    steps = [f"{step}__no_such" for step, _ in getattr(estimator, "steps", ())]
    for key in (*metadata, "no_such", "sample_weight", *steps):
        for k, odd in enumerate(rows):
            yield f"{key} number {k}", CheckData(X, y, {**metadata, key: odd}), {}


def check_parameters_untouched(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that ``fit`` leaves every parameter unchanged, by identity and by content."""
    data = make_data(estimator, privacy.public_generator(11), 60)
    seeds = (0, None) if "random_state" in estimator.get_params(deep=False) else (0,)
    for random_state in seeds:
        fresh = clone(estimator)
        if len(seeds) > 1:
            fresh.set_params(random_state=random_state)
        before = fresh.get_params(deep=False)
        contents = joblib.hash(before)
        _fit(fresh, data)
        after = fresh.get_params(deep=False)
        changed = [key for key in before if after[key] is not before[key]]
        assert not changed, f"fit of {name} replaced its parameter(s) {changed}."
        assert joblib.hash(after) == contents, f"fit of {name} changed the contents of a parameter."


def check_copies_share_the_ledger(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that copies of a fitted estimator are equal, and that clones, copies and workers share one ledger."""
    data = make_data(estimator, privacy.public_generator(12), 60)
    seeded = _noise(estimator, 0)
    fitted = _data.fit_clone(estimator, data, **seeded).estimator
    stream = io.BytesIO()
    joblib.dump(fitted, stream)
    stream.seek(0)
    for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), joblib.load(stream)):
        _assert_same_state(name, "a copy", copied, fitted)
    if not _data.releases_something(estimator):
        return
    guarantee = fitted.privacy_guarantee_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "check.ledger"
        ledger = PrivacyLedger(path, epsilon=1e6, delta=0.5, unit=guarantee.unit, simulation=bool(seeded))
        spender = clone(estimator).set_params(ledger=ledger, **seeded)
        assert clone(spender).ledger == ledger, f"clone of {name} has another ledger."
        fits = joblib.Parallel(n_jobs=2)(joblib.delayed(_fit)(clone(spender), data) for _ in range(2))
        for result in fits:
            _assert_same_state(name, "a fit in another process", result, fitted)
        _fit(pickle.loads(pickle.dumps(spender)), data)
        spent = sum(entry.epsilon for entry in ledger.entries())
        assert np.isclose(spent, 3 * guarantee.epsilon), (
            f"three fits of {name} at ε = {guarantee.epsilon} left {spent} in the ledger that they share."
        )


def check_metadata_is_carried(name: str, estimator: BaseEstimator, *, make_data: MakeData = default_data) -> None:
    """Check that a pipeline passes per-row arguments of ``fit``, as plain fit parameters and by routing."""
    data = make_data(estimator, privacy.public_generator(13), 60)
    metadata = {key: values for key, values in data.metadata.items() if key in _data.ROW_METADATA}
    if not metadata:
        return
    direct = _data.fit_clone(estimator, data, random_state=0).estimator
    step = clone(estimator).set_params(random_state=0)
    pipeline = Pipeline([("same", FunctionTransformer()), ("estimator", step)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        plain = clone(pipeline).fit(data.X, data.y, **{f"estimator__{key}": v for key, v in metadata.items()})
        with config_context(enable_metadata_routing=True):
            routed = clone(pipeline).fit(data.X, data.y, **metadata)
    for kind, fitted in (("fit parameters", plain), ("metadata routing", routed)):
        _assert_same_state(name, f"a fit with metadata by {kind}", fitted[-1], direct)
    without = CheckData(data.X, data.y, {k: v for k, v in data.metadata.items() if k not in metadata})
    _data.fit_clone(estimator, without, random_state=0)  # absent, they have a documented meaning


def _fit(estimator: BaseEstimator, data: CheckData) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*data.arguments, **data.metadata)


def _assert_same_state(name: str, what: str, found: object, expected: object) -> None:
    here, there = _data.fitted_leaves(found), _data.fitted_leaves(expected)
    assert here.keys() == there.keys(), f"{what} of {name} has other attributes: {here.keys() ^ there.keys()}."
    # Where it was paid is no part of what was promised; a step of a pipeline says that it is one.
    alone = [path for path, value in here.items() if np.ndim(value) == 0 and str(value) == privacy.STEP_ALONE]
    differ = [
        path
        for path, value in here.items()
        if not path.endswith("ledger_entry") and not _data.close_leaves(value, there[path]) and path not in alone
    ]
    assert not differ, f"{what} of {name} differs in {differ}."
