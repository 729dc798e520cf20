"""Privacy check: whatever a fit refuses, it refuses before it pays."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from sklearn.base import clone

from skprivate.privacy import PrivacyLedger, PrivacyUnit, public_generator
from skprivate.utils._check_data import CheckData, MakeData, default_data, private_numbers
from skprivate.utils._checks_kept import mentions

#: Stands for entries that no message may quote.
_SECRET = "Rosalind"
#: Of parameters that start workers, write files or decide about noise alone.
_LEFT_ALONE = ("ledger", "memory", "n_jobs", "random_state", "verbose")


class _Loss:
    """What passes for a loss until it is asked for a gradient."""

    def __init__(self, gradient: Any, lipschitz: Any = 1.0, smoothness: Any = 1.0) -> None:
        self.gradient, self.lipschitz, self.smoothness = gradient, lipschitz, smoothness


def _fails(*values: Any) -> Any:
    raise RuntimeError("no such thing")


#: Tried for every parameter. Most are refused for some, and are right for others.
_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 3, 0.5, 1.5, 1e-300, 1e300, math.nan, math.inf, "no such", "auto", object()),
    *((), [], {}, [1, 2], (1.0, 0.0), ["a", "b"], [(0, 9)], [(0, 1)] * 3, np.zeros((2, 2)), np.array([math.nan])),
    *({"no such": 1}, {0: (1, 0)}, {0: []}, {0: -1.0, 1: 1.0}, {9: (0, 1)}, {"epoch": 3}, {"epochs": -1}),
    *(_fails, lambda: 3, lambda *_: 3, lambda *_: None, lambda *_: np.zeros(3), lambda a, *_: np.array(["x"] * len(a))),
    *(_Loss(_fails), _Loss(lambda *_: np.zeros(3)), _Loss(lambda X, *_: X * math.nan), _Loss(lambda X, *_: X + 1j)),
    *(_Loss(lambda X, *_: X[:, :1]), _Loss(lambda *_: None), _Loss(lambda X, *_: X, lipschitz=None)),
)  # fmt: skip


def check_errors_spend_nothing(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """Whatever raises in ``fit`` leaves ledger and estimator as they were, and its message shows no private entry.

    Any value for any parameter, of the steps of composites too, and any data: what is wrong with them is not known
    here, and does not matter. A fit that is not refused is nobody's concern. Randomisers of rows are asked to
    transform, too.
    """
    ledgers = [key for key in estimator.get_params() if key.split("__")[-1] == "ledger"]
    if not ledgers:
        return
    data = make_data(estimator, public_generator(14), 24)
    unit = _charged(estimator, ledgers, data, {})[0].entries()[0].unit
    hidden = private_numbers(data, PrivacyUnit(unit))
    for kind, odd, parameters in [*_odd_parameters(estimator, data), *_odd_data(estimator, data)]:
        ledger, error, left = _charged(estimator, ledgers, odd, parameters)
        if error is None:
            continue
        said = f"{name} refused {kind} ({type(error).__name__}: {error})"
        assert not ledger.entries(), f"{said} after it had paid."
        assert not left, f"{said} and is half-fitted: {left}."
        quoted = _SECRET in str(error) and not (unit == "label" and kind.startswith("X"))
        assert not quoted and not mentions(str(error), hidden), f"{said}, which shows private data."


def _charged(
    estimator: Any, ledgers: list[str], data: CheckData, parameters: dict[str, Any]
) -> tuple[PrivacyLedger, Exception | None, list[str]]:
    """A fresh ledger after a fit, what the fit raised, and attributes that an error has left."""
    ledger, fresh = PrivacyLedger(epsilon=1e300, delta=0.999), clone(estimator)
    before = set(vars(fresh))
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            fresh.set_params(**dict.fromkeys(ledgers, ledger), **parameters)
            fresh.fit(*((data.X,) if data.y is None else (data.X, data.y)), **data.metadata)
            if getattr(fresh, "releases_in", "fit") == "transform":
                fresh.transform(data.X)
        except Exception as error:
            return ledger, error, sorted(set(vars(fresh)) - before)
    return ledger, None, []


def _odd_parameters(estimator: Any, data: CheckData) -> Iterator[tuple[str, CheckData, dict[str, Any]]]:
    for k, key in enumerate(estimator.get_params()):
        if key.split("__")[-1] not in _LEFT_ALONE:
            for value in _ODD[k % 4 :: 4] if "__" in key else _ODD:  # of steps the next parameter has others
                yield f"{key}={value!r}", data, {key: value}


def _odd_data(estimator: Any, data: CheckData) -> Iterator[tuple[str, CheckData, dict[str, Any]]]:
    X, y, metadata, n = data.X, data.y, data.metadata, len(data.X)
    words, mixed = np.full(n, _SECRET), np.array([_SECRET, *range(n - 1)], dtype=object)
    numbers = np.linspace(0.0, 1.0, n)
    gaps, dates = np.where(numbers > 0.9, math.nan, numbers), np.full(n, np.datetime64("2020-01-01"))
    features: list[Any] = [
        None,
        3,
        _SECRET,
        X[:, 0],
        X[None],
        X[:, :0],
        X[:, :1],
        X[:0],
        X[:-1],
        X + 1j,
        X * 1e308,
    ]
    features += [np.where(X > 0.9, value, X) for value in (math.nan, math.inf)] + [
        np.where(X > 0.9, np.array(None), X)
    ]
    features += [np.repeat(column[:, None], X.shape[1], axis=1) for column in (words, mixed, dates)]
    rows: list[Any] = [None, 3, "y", words, mixed, gaps, dates, numbers, numbers * 1e308, numbers > 0.5]
    rows += [
        np.zeros(n),
        np.zeros((n, 1)),
        np.zeros((n, 2)),
        np.arange(n) % 3,
        np.arange(n - 1),
        numbers + 1j,
    ]
    rows += [np.where(numbers > 0.9, np.array(None), numbers), [object()] * n]
    for k, odd in enumerate(features):
        yield f"X number {k}", CheckData(odd, y, metadata), {}
    yield (
        "X of one row",
        CheckData(X[:1], y if y is None else y[:1], {k: v[:1] for k, v in metadata.items()}),
        {},
    )
    for k, odd in enumerate(rows if y is not None else []):
        yield f"y number {k}", CheckData(X, odd, metadata), {}
    steps = [f"{step}__no_such" for step, _ in getattr(estimator, "steps", ())]
    for key in (*metadata, "no_such", "sample_weight", *steps):
        for k, odd in enumerate(rows):
            yield f"{key} number {k}", CheckData(X, y, {**metadata, key: odd}), {}
