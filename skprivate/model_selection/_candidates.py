"""Candidates of a search: drawn publicly, before any private row is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid, ParameterSampler

from skprivate._validation import two_or_more
from skprivate.inspection import Place, Role, Step, check_pipeline, check_widths, walk
from skprivate.privacy import PrivacyLedger

#: Candidates for each evaluation, on average, where there are as many.
_PER_EVALUATION = 3


@dataclass(frozen=True, eq=False)
class Candidate:
    """An estimator with its parameters set, and these parameters as `PrivateSearchCV.best_params_` has them."""

    estimator: Any
    params: dict[str, Any]


def draw_candidates(
    estimator: BaseEstimator, distributions: object, n_candidates: int | None, n_iter: float, seed: int
) -> list[Candidate]:
    """List candidates of one estimator or of several, each with its distributions."""
    wanted = math.ceil(_PER_EVALUATION * n_iter) if n_candidates is None else n_candidates
    if not isinstance(estimator, list):
        sets = _parameter_sets(distributions, wanted, seed)
        return [Candidate(_with_params(estimator, params), params) for params in sets]
    named = [pair for pair in estimator if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)]
    names = [name for name, _ in named]
    if not estimator or len(named) < len(estimator) or len(set(names)) < len(names):
        raise ValueError("estimator must be an estimator or a list of (name, estimator) with different names.")
    if not isinstance(distributions, Mapping) or not set(distributions) <= set(names):
        got = sorted(map(str, distributions)) if isinstance(distributions, Mapping) else distributions
        raise ValueError(
            f"param_distributions must map names of estimators, {names}, to their distributions where estimator is a "
            f"list, got {got!r}."
        )
    share = -(-wanted // len(named))
    return [
        Candidate(_with_params(model, params), {"estimator": name, **params})
        for name, model in named
        for params in _parameter_sets(distributions.get(name, {}), share, seed)
    ]


def _parameter_sets(distributions: Any, wanted: int, seed: int) -> Iterator[dict[str, Any]]:
    """List the whole grid where it is small enough, else ``wanted`` random points."""
    every = [distributions] if isinstance(distributions, Mapping) else distributions
    for each in every:
        for name, values in each.items():
            listed = isinstance(values, Sequence) and not isinstance(values, str)
            if not (hasattr(values, "rvs") or ((listed or isinstance(values, np.ndarray)) and len(values))):
                raise ValueError(
                    f"param_distributions must hold non-empty lists or distributions with rvs, got {values!r} for "
                    f"{name!r}."
                )
    lists = not any(hasattr(values, "rvs") for each in every for values in each.values())
    if lists and len(ParameterGrid(distributions)) <= wanted:
        points: Any = ParameterGrid(distributions)
    else:
        points = ParameterSampler(distributions, wanted, random_state=seed % 2**32)
    yield from (dict(sorted(point.items())) for point in points)


def _with_params(estimator: BaseEstimator, params: dict[str, Any]) -> Any:
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(f"estimator must be an estimator or a list of (name, estimator), got {estimator!r}.")
    copies = {name: clone(value, safe=False) for name, value in params.items()}
    return clone(estimator).set_params(**copies)


def private_steps(model: BaseEstimator) -> list[Step]:
    """List the private steps of a model that is not fitted, in the order of the walk."""
    return [step for step in walk(model, Place(fitted=False)) if step.role is Role.PRIVATE]


def draws_adaptively(model: BaseEstimator) -> bool:
    """Tell if a private step of a fitted model made a draw that no plan declared."""
    steps = walk(model, Place(fitted=True))
    return any(step.model.privacy_guarantee_.adaptive for step in steps if step.role is Role.PRIVATE)


def check_candidate(candidate: Candidate, ledger: PrivacyLedger | None) -> None:
    """Refuse what could not be private, or would be paid twice."""
    check_pipeline(candidate.estimator, raise_=True)
    check_widths(walk(candidate.estimator, Place(fitted=False)))
    for step in private_steps(candidate.estimator):
        if step.place.paid:
            raise ValueError(f"estimator must be fitted by the search alone, got {step.path}, which was fitted before.")
        if getattr(step.model, "releases_in", "fit") != "fit":
            raise ValueError(f"estimator must spend in fit alone, got {step.path}, which spends in transform.")
        stated = step.stated("epsilon")
        if isinstance(stated, bool) or not (isinstance(stated, Real) and 0 < float(stated) < math.inf):
            raise ValueError(
                f"estimator must state a positive finite epsilon in every private step, got {stated!r} in {step.path}: "
                "the budget of an evaluation is divided in proportion."
            )
        own = getattr(step.model, "ledger", None), step.stated("ledger")
        if any(one not in (None, ledger) for one in own):
            raise ValueError(
                f"estimator must have no ledger of its own, got one in {step.path}: the search pays for everything. "
                "Pass PrivateSearchCV(ledger=…)."
            )


def separate_seeds(candidate: Candidate, seed: int) -> None:
    """Give searches inside a candidate another public seed than the search around them.

    With the same seed they would hold out users that are held out already: nobody.
    """
    for step in private_steps(candidate.estimator):
        if "public_seed" in step.model.get_params(deep=False):
            step.model.set_params(public_seed=seed + 1 + step.model.public_seed)


def given_classes(model: Any, labels: Any) -> None:
    """Set the classes of a classifier to the public set of labels; a part of the rows may lack one."""
    if labels is not None and [classes is None for classes in stated_classes(model)] == [True]:
        two_or_more(labels, _last(model))  # which does not quote them, as what is given does
        _last(model).set_params(classes=labels)


def stated_classes(model: BaseEstimator) -> tuple[Any, ...]:
    """Read the classes that a classifier states: one entry, or none where it has no such parameter."""
    last = _last(model)
    parameters = last.get_params(deep=False) if hasattr(last, "get_params") else {}
    return (parameters["classes"],) if "classes" in parameters else ()


def _last(model: BaseEstimator) -> Any:
    return model.steps[-1][1] if type(model).__name__ in ("Pipeline", "PrivatePipeline") else model
