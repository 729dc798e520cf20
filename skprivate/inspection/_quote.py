"""Quote a cost before the draw: fit a copy on a dry run of the ledger, whose draws look at zeros only."""

from __future__ import annotations

import hashlib
import math
import operator
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, ParameterGrid, ParameterSampler

from skprivate._sklearn import BaseSearchCV
from skprivate.inspection import _check_pipeline, _guarantee_of
from skprivate.inspection._steps import Place, Role, Step, check_widths, objects_in
from skprivate.partitions import check_folds
from skprivate.privacy import Adjacency, PrivacyLedger, PrivacyUnit, in_one_order
from skprivate.privacy.ledger import NOTHING, Cost, LedgerEntry, Quote, charged_only_to, stays_apart

#: A budget that refuses nothing, for dry runs.
_UNBOUNDED = {"epsilon": 1e300, "delta": 1.0 - 2.0**-53}


@in_one_order
def quote(estimator: BaseEstimator, X: Any, y: Any = None, *, ledger: PrivacyLedger, **fit_params: object) -> Quote:
    """Cost a fit, a cross-validation or a search before anything is drawn for it.

    A copy of the estimator is fitted on a dry run of the ledger, and forgotten: that takes as long as the fit
    itself. In a dry run zeros replace every private statistic, so that a quote is the same for all data of one
    shape, and the fit will cost the same, to the last bit; a search over random candidates must have its
    ``random_state`` set.

    Where candidates of scikit-learn's searches cost differently, which of them goes on to the next round, or is
    fitted to all data, depends on their scores. The quote is then the bound over the most expensive of them, in each
    part of the cost (``exact=False``), and takes five times as long. A `~sklearn.model_selection.GridSearchCV` with
    ``refit=False`` has the same fits whatever the scores.

    A randomiser of rows, which releases in ``transform``, is quoted one transform of ``X``.

    Parameters
    ----------
    estimator : estimator
        Every private part of it, candidates of a search among them, must have None or the same one as its ``ledger``.
    X, y
        The data, or others of the same size and public parts.
    ledger : PrivacyLedger
        Asked what it would charge.
    **fit_params
        Passed to ``fit``.

    Returns
    -------
    Quote
        The cost of every release, their sum, and whether the ledger would admit them.

    Raises
    ------
    NoGuaranteeError
        If a step looks at private rows without a draw (`~skprivate.inspection.check_pipeline`).
    ValueError
        If a part has another ledger; if the draws of a step depend on how many columns another step releases; or
        if folds of a search move other units (`~skprivate.model_selection.check_cv`), as no sum of costs bounds
        its fits then. Nothing was drawn or spent.

    See Also
    --------
    check_pipeline : Reports what steps do with private rows.
    compose_epsilon : Computes the cost of given events.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.inspection import quote
    >>> from skprivate.privacy import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    >>> X = np.random.RandomState(0).uniform(size=(500, 2))
    >>> cost = quote(UserLevelMean(epsilon=0.5, delta=1e-6), X, ledger=ledger, user_ids=np.arange(500))
    >>> cost.admitted, len(cost.entries), cost.epsilon <= 0.5
    (True, 1, True)
    """
    folded = _check_quotable(estimator, PrivacyUnit.USER if "user_ids" in fit_params else PrivacyUnit.ROW)
    found = _trial(ledger, estimator, X, y, fit_params, None)
    if found.unit is not None:
        for search in folded:
            named = PrivacyUnit.ROW if found.unit == PrivacyUnit.DATASET else found.unit
            same = Adjacency.REPLACE_ONE if found.adjacency != Adjacency.ADD_REMOVE else found.adjacency
            check_folds(search, unit=named, adjacency=same)
    cost = Cost(found.total.epsilon, found.total.delta, *found.total.concentrated)
    if not found.exact:
        # Which candidates go on, and are fitted to all, depends on scores: no part of the cost may exceed the quote.
        for part in range(4):
            cost = cost.no_lower_than(_trial(ledger, estimator, X, y, fit_params, part).total)
    entries = found.entries
    with ledger._book.transaction(write=False) as (_, state):
        before, rule = state.totals[None], state.rule_for(found.adjacency)
        then = before
        # Entry by entry, where they are known: a sum of rounded sums would be rounded twice.
        for each in [entry.cost for entry in entries] if found.exact else [cost]:
            then = then.changed(NOTHING, each)
        if not state.count and entries:  # the first release of a ledger may decide how it adds up
            first = before.changed(NOTHING, entries[0].cost)
            rule = rule if rule.fits(first) else rule.sums_only(ledger.composition)
        admitted, spent = rule.fits(then), rule.spent(then)
        if ledger._place.reservation is not None:  # which has been paid for
            apart = all(stays_apart(one.unit, one.adjacency, found.unit, found.adjacency) for one in entries)
            admitted = state.holds(cost, ledger._place.reservation, ledger._place.parts if apart else ())
            spent = rule.spent(before)
    return Quote(
        epsilon=cost.epsilon,
        delta=cost.delta,
        rho=cost.rho or 0.0,
        rho_delta=cost.rho_delta,
        unit=found.unit,
        adjacency=found.adjacency,
        admitted=admitted,
        spent=spent,
        entries=entries,
        exact=found.exact,
    )


def _check_quotable(model: BaseEstimator, unit: PrivacyUnit) -> list[Any]:
    """Refuse models whose cost would look at private rows; return scikit-learn's searches in them."""
    steps, searches = _steps_of(model, Place(fitted=False))
    problems = [(step.path, step.why) for step in steps if step.role is Role.UNPROTECTED]
    if not _check_pipeline.protects_labels_only(steps):
        problems += [(step.path, step.why) for step in steps if step.role is Role.FEATURES]
    if problems:
        raise _guarantee_of.no_guarantee(
            f"estimator must not look at private rows unprotected, got {type(model).__name__}: its cost would tell of "
            "them.",
            problems,
        )
    check_widths(steps)
    for search in searches:
        try:
            check_folds(search, unit=PrivacyUnit.LABEL)
        except ValueError:
            check_folds(search, unit=unit)
    return searches


def _steps_of(model: BaseEstimator, place: Place) -> tuple[list[Step], list[Any]]:
    """List steps of a model and of all candidates of scikit-learn's searches in it, whose scores a quote replaces."""
    steps: list[Step] = []
    searches: list[Any] = []
    for step in _guarantee_of.walk(model, place):
        search = step.model
        if not (isinstance(search, BaseSearchCV) and type(search).__module__.startswith("sklearn.")):
            steps.append(step)
            continue
        searches.append(search)
        grids = search.param_grid if hasattr(search, "param_grid") else search.param_distributions
        for params in _candidates(grids):
            candidate = clone(search.estimator).set_params(**clone(params, safe=False))
            more, inside = _steps_of(candidate, step.place.inside("candidate"))
            steps += more
            searches += inside
    return steps, searches


def _candidates(grids: object) -> Iterator[dict[str, Any]]:
    """List every combination of parameters; numbers decide nothing about what a step sees, so one of each type."""
    for grid in [grids] if isinstance(grids, Mapping) else grids:
        one = next(iter(ParameterSampler(grid, 1, random_state=0)))
        yield from ParameterGrid(
            {
                name: [one[name]] if hasattr(values, "rvs") else _one_of_each_kind(values)
                for name, values in grid.items()
            }
        )


def _one_of_each_kind(values: object) -> list[Any]:
    numbers = {type(value): value for value in values if isinstance(value, Real) and not isinstance(value, bool)}
    others = [value for value in values if not (isinstance(value, Real) and type(value) in numbers)]
    return [*numbers.values(), *others]


class _Trial(NamedTuple):
    """Charges of a fit on a dry run."""

    entries: tuple[LedgerEntry, ...]
    total: Cost
    unit: str | None
    adjacency: str | None
    exact: bool


def _trial(
    ledger: PrivacyLedger, estimator: BaseEstimator, X: Any, y: Any, fit_params: dict[str, Any], part: int | None
) -> _Trial:
    """Fit a copy whose searches prefer the candidates that cost most in one part of the cost; None: prefer any."""
    with tempfile.TemporaryDirectory() as folder:
        dry = type(ledger)(
            Path(folder) / "dry.ledger",  # a file, so that worker processes share it
            **_UNBOUNDED,
            unit=ledger.unit,
            adjacency=ledger.adjacency,
            composition="basic",
            rows_per_user=ledger.rows_per_user,
            public_features=ledger.public_features,
            dry_run=True,
        )
        # Nothing of the trial is seen, so it runs where simulated noise is forbidden.
        dry._book.store.forgotten = True
        searches: list[Any] = []
        trial = charged_to(clone(estimator), ledger, dry, searches=searches)
        for search in searches:
            search.set_params(scoring=_MostExpensive(dry, part), refit=bool(search.refit))
        with warnings.catch_warnings(), charged_only_to(dry.identity):
            warnings.simplefilter("ignore")  # the fit itself will say it again
            given = (X,) if y is None else (X, y)
            trial.fit(*given, **fit_params)
            if getattr(trial, "releases_in", "fit") == "transform":
                trial.transform(X)
        with dry._book.transaction(write=False) as (_, state):
            total = state.totals[None].cost()
        fitted = [one for one in objects_in(trial) if hasattr(one, "cv_results_")]
        exact = len(fitted) >= len(searches) and all(map(_one_total, fitted))
        return _Trial(tuple(dry.entries()), total, dry.unit, dry.adjacency, exact)


class _MostExpensive:
    """A scorer by cost, as the ledger counts it: the best candidate is the one that costs most.

    Without a part, a number that is another one for other costs.
    """

    def __init__(self, dry: PrivacyLedger, part: int | None) -> None:
        self.dry, self.part = dry, part

    def __call__(self, estimator: BaseEstimator, X: Any, y: Any = None) -> float:
        fitted = [one for one in objects_in(estimator) if hasattr(one, "set_params")]
        names = {getattr(getattr(one, "privacy_guarantee_", None), "ledger_entry", "") for one in fitted}
        paid = [entry for entry in self.dry.entries() if self.dry.entry_name(entry.id) in names]
        # The scores of a search inside are the costs of its rounds.
        inside = [
            float(score)
            for one in fitted
            if hasattr(one, "cv_results_")
            for scores in _by_split(one.cv_results_)
            for score in scores
            if not math.isnan(score)
        ]
        costs = [(entry.epsilon, entry.delta, *entry.cost.concentrated) for entry in paid]
        if self.part is None:
            message = repr((sorted(costs), sorted(inside))).encode()
            return float(int.from_bytes(hashlib.sha256(message).digest()[:6]))
        return math.fsum([*(cost[self.part] for cost in costs), *inside])


def _by_split(results: Mapping[str, Any]) -> list[Any]:
    return [scores for name, scores in results.items() if name.startswith("split") and "test" in name]


def _one_total(search: object) -> bool:
    """Tell if a fitted search costs the same whatever its scores: no choice follows, or all choices cost the same."""
    if type(search) is GridSearchCV and not search.refit:
        return True
    results = search.cv_results_
    rounds = np.asarray(results.get("iter", np.zeros(len(results["params"]))))
    return all(np.unique(scores[rounds == k]).size == 1 for scores in _by_split(results) for k in np.unique(rounds))


def charged_to(
    part: object, ledger: PrivacyLedger, other: PrivacyLedger, name: str = "", *, searches: list[Any]
) -> Any:
    """Exchange every ledger that is missing or ``ledger`` for ``other``, in lists and mappings too.

    Searches of scikit-learn are added to ``searches``. A part with a third ledger is refused.
    """
    if isinstance(part, type(ledger)):
        if part not in (ledger, other):
            raise ValueError(
                f"estimator must have no other ledger than the one that is asked, got {part!r} in {name!r}: a quote "
                "would be charged to it. Ask each ledger for its own part. Nothing was drawn or spent."
            )
        return other
    if part is None:
        return other if name.rsplit("__", maxsplit=1)[-1] == "ledger" else None
    if isinstance(part, Mapping):
        changed = {key: charged_to(value, ledger, other, str(key), searches=searches) for key, value in part.items()}
        same = all(changed[key] is part[key] for key in part)
        return part if same else changed
    if isinstance(part, Sequence) and not isinstance(part, (str, bytes, bytearray, memoryview, range)):
        items = list(part)
        values = [charged_to(value, ledger, other, name, searches=searches) for value in items]
        if all(map(operator.is_, values, items)):
            return part
        return part._make(values) if hasattr(part, "_make") else type(part)(values)  # type: ignore[call-arg]
    if isinstance(part, np.ndarray) and part.dtype == object:
        for place, value in enumerate(part.flat):
            part.flat[place] = charged_to(value, ledger, other, name, searches=searches)
        return part
    if isinstance(part, (type, FrozenEstimator)) or not hasattr(part, "set_params"):
        return part  # what is frozen is fitted, and no copy
    if type(part).__module__.startswith("sklearn.model_selection.") and hasattr(part, "_run_search"):
        searches.append(part)
    found = part.get_params(deep=False)
    new = {key: charged_to(value, ledger, other, key, searches=searches) for key, value in found.items()}
    return part.set_params(**{key: value for key, value in new.items() if value is not found[key]})
