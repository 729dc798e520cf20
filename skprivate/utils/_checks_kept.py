"""Privacy checks: what a fitted estimator must not hold or say."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from skprivate.privacy import PrivacyUnit, public_generator
from skprivate.utils._check_data import (
    CheckData,
    Fitted,
    MakeData,
    default_data,
    fit_clone,
    other_data,
    private_numbers,
    releases_in_transform,
    releases_something,
)
from skprivate.utils._leaves import equal_leaves, numbers

#: Fits on each of two data sets in `check_no_unnoised_statistic`.
_FITS = 8
#: So small that the output distributions on any two data sets of 30 rows nearly agree.
_TINY_EPSILON = 1e-3
#: Bytes of a pickle that a further row may add: three quarters of one number. Grids grow with n·ε, by doubling.
_BYTES_PER_ROW = 6


def check_no_training_value_kept(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """No private number of the training data stands in an attribute, pickle, repr, HTML, warning or print.

    Every float that the fitted object holds at any depth is compared with every private feature value and
    target, bit by bit; texts are searched for their digits.
    """
    data = make_data(estimator, public_generator(0), 60)
    fitted = fit_clone(estimator, data, **_secure(estimator))
    private = private_numbers(data, _unit(fitted))
    if _stateless(estimator):
        private = private_numbers(data, PrivacyUnit.ROW)
    elif not releases_something(estimator):
        return
    for path, leaf in fitted.leaves().items():
        kept = np.isin(numbers({path: leaf}), private)
        assert not kept.any(), f"{name}.{path} holds {kept.sum()} number(s) of the private training data."
    blob = pickle.dumps(fitted.estimator)
    found = sum(value.tobytes() in blob for value in private)
    assert not found, f"the pickle of a fitted {name} holds {found} number(s) of the private training data."
    texts = {"repr": repr(fitted.estimator), "output": fitted.said}
    if hasattr(fitted.estimator, "_repr_html_"):
        texts["HTML"] = fitted.estimator._repr_html_()
    if releases_something(estimator):
        texts["guarantee"] = str(fitted.guarantee) + repr(fitted.guarantee) + fitted.guarantee._repr_html_()
    for kind, text in texts.items():
        assert not mentions(text, private), f"the {kind} of a fitted {name} shows a private number."


def check_no_unnoised_statistic(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """Nothing that a fitted estimator holds or says is a function of the private data without noise.

    Eight fits on a data set with fresh noise and a tiny ε, and eight on another one that differs in
    everything private. What is the same in each eight but differs between them has no noise on it. On
    both data sets anything private is distributed alike up to a factor e^0.03 (group privacy), so noise
    shows this pattern with probability at most 0.26⁸ for each value; a finding is repeated once before it
    fails: 5e-10.
    """
    if not (releases_something(estimator) or _stateless(estimator)):
        return
    data = make_data(estimator, public_generator(1), 30)
    unit = _unit(fit_clone(estimator, data, **_seeded(estimator)))
    other = other_data(estimator, data, unit, make_data, seed=2)
    suspects = _unnoised(estimator, data, other)
    if suspects:
        suspects &= _unnoised(estimator, data, other)
    assert not suspects, (
        f"after fit, {name} holds values that depend on private data and carry no noise: {sorted(suspects)}."
    )


def _unnoised(estimator: Any, data: CheckData, other: CheckData) -> set[str]:
    parameters = {
        **_secure(estimator),
        **({"epsilon": _TINY_EPSILON} if releases_something(estimator) else {}),
    }
    here = [fit_clone(estimator, data, **parameters).leaves() for _ in range(_FITS)]
    there = [fit_clone(estimator, other, **parameters).leaves() for _ in range(_FITS)]
    found = set()
    for path in set.intersection(*map(set, [*here, *there])):
        fixed_here = _all_equal([run[path] for run in here])
        fixed_there = _all_equal([run[path] for run in there])
        if fixed_here.shape != fixed_there.shape:
            differ = np.array(fixed_here.all() and fixed_there.all())
        else:
            differ = fixed_here & fixed_there & ~equal_leaves(here[0][path], there[0][path])
        if np.any(differ):
            found.add(path)
    return found


def _all_equal(values: list[Any]) -> np.ndarray:
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1:
        return np.array(False)
    result = np.ones(shapes.pop(), dtype=bool)
    for value in values[1:]:
        result = result & equal_leaves(values[0], value)
    return result


def check_size_independent_of_rows(name: str, estimator: Any, *, make_data: MakeData = default_data) -> None:
    """The pickle of a fitted estimator does not grow with the rows it was fitted on.

    Thirty times the rows may add less than three quarters of one number for each row (a released structure
    may grow). Not asked where part of the rows is public and may be kept.
    """
    if not releases_something(estimator):
        return
    sizes = []
    for n_rows in (100, 3000):
        fitted = fit_clone(estimator, make_data(estimator, public_generator(3), n_rows), **_seeded(estimator))
        if fitted.guarantee.unit in (PrivacyUnit.LABEL, PrivacyUnit.PRIVATE_ROW):
            return
        sizes.append(len(pickle.dumps(fitted.estimator)))
    growth = sizes[1] - sizes[0]
    assert growth < _BYTES_PER_ROW * 2900, (
        f"the pickle of {name} grew by {growth} bytes with 2900 further rows: it keeps something of "
        "each of them."
    )


def check_events_independent_of_values(
    name: str, estimator: Any, *, make_data: MakeData = default_data
) -> None:
    """The guarantee and its events are the same for all data of the same shape.

    Also for constant, tiny and huge values: no plan may depend on what the data hold, and no values may be
    refused or warned of, because that is seen, too.
    """
    if not releases_something(estimator):
        return
    data = make_data(estimator, public_generator(4), 60)
    parameters = _seeded(estimator)
    first = fit_clone(estimator, data, **parameters)
    unit = first.guarantee.unit
    variants = {"other": other_data(estimator, data, unit, make_data, seed=5)}
    if unit is not PrivacyUnit.LABEL:
        rows = (
            np.asarray(data.metadata["private"])
            if unit is PrivacyUnit.PRIVATE_ROW
            else np.ones(60, dtype=bool)
        )
        for kind, factor in (("constant", 0.0), ("tiny", 1e-9), ("huge", 1e6)):
            X = np.where(rows[:, None], data.X * factor, data.X)
            variants[kind] = CheckData(X, data.y, data.metadata)
    if data.y is not None and data.y.dtype.kind == "f" and unit is not PrivacyUnit.PRIVATE_ROW:
        variants["huge target"] = CheckData(data.X, 1e6 * data.y, data.metadata)
    for kind, variant in variants.items():
        try:
            guarantee = fit_clone(estimator, variant, **parameters).guarantee
        except ValueError as error:
            raise AssertionError(
                f"{name} refuses {kind} values, which tells something of them: {error}"
            ) from error
        assert guarantee == first.guarantee, (
            f"the guarantee of {name} depends on the data: {first.guarantee!r}, and with {kind} values "
            f"{guarantee!r}."
        )


def mentions(text: str, values: np.ndarray) -> bool:
    """Whether ``text`` shows one of ``values`` to eight digits or more."""
    for found in re.findall(r"\d+\.\d+(?:e[-+]?\d+)?", text):
        mantissa, _, exponent = found.partition("e")
        digits = mantissa.replace(".", "").lstrip("0")
        if len(digits) < 8:
            continue
        decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
        if np.any(np.abs(np.abs(values) - float(found)) < math.pow(10.0, -decimals)):
            return True
    return False


def _secure(estimator: Any) -> dict[str, Any]:
    return {"random_state": None} if "random_state" in estimator.get_params(deep=False) else {}


def _seeded(estimator: Any) -> dict[str, Any]:
    return {"random_state": 0} if "random_state" in estimator.get_params(deep=False) else {}


def _stateless(estimator: Any) -> bool:
    """Whether ``fit`` says that it learns nothing: what it leaves must then not depend on the data at all."""
    return not releases_something(estimator) and (
        releases_in_transform(estimator) or not get_tags(estimator).requires_fit
    )


def _unit(fitted: Fitted) -> PrivacyUnit:
    guarantee = getattr(fitted.estimator, "privacy_guarantee_", None)
    return PrivacyUnit.ROW if guarantee is None else guarantee.unit
