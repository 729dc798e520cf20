"""Privacy checks: parameters, copies, worker processes and per-row metadata."""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skprivate.privacy import PrivacyLedger, SimulatedNoiseWarning, public_generator
from skprivate.utils._check_data import (
    ROW_METADATA,
    CheckData,
    MakeData,
    default_data,
    fit_clone,
    releases_something,
)
from skprivate.utils._leaves import close_leaves, fitted_leaves


def check_parameters_untouched(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """``fit`` leaves every parameter as it was, by identity and by content."""
    data = make_data(estimator, public_generator(11), 60)
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


def check_copies_share_the_ledger(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """Copies of a fitted estimator are equal; clones, copies and worker processes spend from one ledger."""
    data = make_data(estimator, public_generator(12), 60)
    seeded = {"random_state": 0} if "random_state" in estimator.get_params(deep=False) else {}
    fitted = fit_clone(estimator, data, **seeded).estimator
    stream = io.BytesIO()
    joblib.dump(fitted, stream)
    stream.seek(0)
    for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), joblib.load(stream)):
        _assert_same_state(name, "a copy", copied, fitted)
    if not releases_something(estimator):
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


def check_metadata_is_carried(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """Per-row arguments of ``fit`` reach it through a pipeline, as plain fit parameters and by routing."""
    data = make_data(estimator, public_generator(13), 60)
    metadata = {key: values for key, values in data.metadata.items() if key in ROW_METADATA}
    if not metadata:
        return
    direct = fit_clone(estimator, data, random_state=0).estimator
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
    fit_clone(estimator, without, random_state=0)  # absent, they have a documented meaning


def _fit(estimator: Any, data: CheckData) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*((data.X,) if data.y is None else (data.X, data.y)), **data.metadata)


def _assert_same_state(name: str, what: str, found: Any, expected: Any) -> None:
    here, there = fitted_leaves(found), fitted_leaves(expected)
    assert here.keys() == there.keys(), (
        f"{what} of {name} has other attributes: {here.keys() ^ there.keys()}."
    )
    # Where it was paid is no part of what was promised.
    differ = [
        path
        for path, value in here.items()
        if not path.endswith("ledger_entry") and not close_leaves(value, there[path])
    ]
    assert not differ, f"{what} of {name} differs in {differ}."
