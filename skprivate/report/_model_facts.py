"""Facts of a model: what it declares public of each column, and what each step does to which columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer

from skprivate._messages import SimulatedNoiseWarning, rounded_down, rounded_up, small
from skprivate._sklearn import WARNINGS
from skprivate._validation import check_bounds, public_values
from skprivate.base import shown
from skprivate.inspection import Role, Step
from skprivate.report._facts import LOOK, NOTE, Finding

#: Most values of a list that the facts hold; the page shows fewer.
MOST_VALUES = 100
#: What steps do, by their classes, where a name does not say it.
_DOES = {
    "ColumnTransformer": "divides the columns among the next steps",
    "PublicNumbers": "makes numbers of dates and booleans, by fixed rules",
    "PublicCalendar": "finds the place in the week, the year and the day, by fixed rules",
    "PublicOneHotEncoder": "makes an indicator of each declared value",
    "PublicOrdinalEncoder": "numbers the declared values",
    "PublicScaler": "scales by declared constants",
    "SimpleImputer": "fills gaps",
    "PrivateOneHotEncoder": "makes an indicator of each value that is found privately",
    "PrivateImputer": "fills gaps by private medians",
    "PrivateStandardScaler": "scales by private means and spreads",
    "PrivateQuantileTransformer": "ranks by private quantiles",
    "PrivateKBinsDiscretizer": "bins between private quantiles",
    "PrivateSplineTransformer": "makes curves between private quantiles",
    "UserLevelSGDRegressor": "fits a linear regression",
    "UserLevelSGDClassifier": "fits a logistic regression",
    "UserLevelMean": "estimates means",
}
_LIMITS, _NO_LIMITS = "limits", "number, limits not declared"
_LISTED, _BY_TYPE = "list of values", "values that the type declares"
_FOUND, _LEFT_OUT = "category, values not declared", "left out"
#: Units that are less than a person, and what that means to one.
_NOT_PEOPLE = {
    **dict.fromkeys(
        ("row", "private row"),
        "A row is protected, not a person: where somebody has several rows, the bound on all of them is many times ε.",
    ),
    "label": "A label is protected, not a person: all else in a row may be read off the release.",
}
#: Shares of one over the number of units above which δ is mentioned, and has to be looked at.
_RULE, _LARGE = 0.01, 0.1


def warnings_of(steps: Sequence[Step]) -> list[dict[str, str]]:
    """List the warnings that the fits gave, with their steps: texts of public numbers and released values."""
    return [
        {"step": step.path, "text": text}
        for step in steps
        for name, text in vars(step.model).get(WARNINGS, ())
        if name != SimulatedNoiseWarning.__name__  # the report says that first
    ]


def number_of_units(steps: Sequence[Step]) -> int | None:
    """Find how many units there are, where that is public and the same for all private steps."""
    numbers = {vars(step.model).get("_skprivate_units") for step in steps if step.role is Role.PRIVATE}
    number = numbers.pop() if len(numbers) == 1 else None
    return None if number is None else int(number)


def facts_of_steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Describe each step: what it does, to which columns, with which role and budget."""
    rows = []
    for step in steps:
        own = step.model.privacy_guarantee_ if step.role is Role.PRIVATE else None
        rows.append(
            {
                "path": step.path,
                "does": _DOES.get(kind := type(step.model).__name__, kind),
                "columns": columns_of(step, steps),
                "role": str(step.role),
                "epsilon": None if own is None or own.epsilon == float("inf") else own.epsilon,
                "delta": None if own is None else own.delta,
            }
        )
    return rows


def columns_of(step: Step, steps: Sequence[Step]) -> list[str] | None:
    """Name the columns of the table that a step was given; None where it was given all that came before."""
    chosen = step.place.rows.columns
    outer = _outer(step, steps)
    return None if not chosen or outer is None else [_names(outer)[place] for place in chosen[0]]


def _outer(step: Step, steps: Sequence[Step]) -> Any:
    """Find the first composite on the way that chose columns."""
    return next(
        (
            one.model
            for one in steps
            if isinstance(one.model, ColumnTransformer)
            and not one.place.rows.columns
            and step.place.path.startswith(f"{one.place.path}, ")
        ),
        None,
    )


def _names(model: BaseEstimator) -> list[str]:
    given = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [str(name) for name in given]


def declared(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """List what was declared public of each column, by limits, lists and words."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        for column, how, values in _declared_by(step, steps):
            held = found.get(column)
            if held is None or held["declared"] == _NO_LIMITS:
                first = [str(value) for value in values[:MOST_VALUES]]
                found[column] = {"column": column, "declared": how, "values": first, "n_values": len(values)}
    tables = [one.model for one in steps if isinstance(one.model, ColumnTransformer) and not one.place.rows.columns]
    order = {name: place for model in tables[:1] for place, name in enumerate(_names(model))}
    return sorted(found.values(), key=lambda each: order.get(each["column"], len(order)))


def _declared_by(step: Step, steps: Sequence[Step]) -> Iterator[tuple[str, str, Sequence[Any]]]:
    """List columns, what is declared of them, and values, as one step tells."""
    model, kind = step.model, type(step.model).__name__
    if isinstance(model, ColumnTransformer) and not step.place.rows.columns:
        names = _names(model)
        for name, part, _ in model.transformers_:
            if isinstance(part, str):
                places = model._transformer_to_input_indices[name]
                word = _LEFT_OUT if part == "drop" else "taken as it is"
                yield from ((names[place], word, ()) for place in places)
        return
    if not hasattr(model, "get_params"):
        return
    given = {**model.get_params(deep=False), **vars(model).get("_skprivate_declared", {})}  # as at the fit
    if given.get("classes") is not None:
        yield "the target", _LISTED, list(public_values(given["classes"]) or ())
    count = getattr(model, "n_features_in_", None)
    if count is None:
        return
    names = columns_of(step, steps) or _names(model)
    if kind == "PrivateTableSynthesizer":
        columns = {column.position: column for column in model._schema.columns}
        yield from ((name, *_declared_of_a_column(columns.get(place))) for place, name in enumerate(names))
    elif kind == "PublicCalendar":
        yield from ((name, "date", ()) for name in names)
    elif kind == "PrivateOneHotEncoder":
        yield from ((name, _FOUND, ()) for name in names)
    elif kind in ("PublicOneHotEncoder", "PublicOrdinalEncoder"):
        how = _BY_TYPE if isinstance(given.get("categories"), str) else _LISTED
        yield from ((name, how, each) for name, each in zip(names, model._categories(count), strict=True))
    elif kind == "PublicNumbers":
        yield from ((name, *_limits((given["limits"] or {}).get(place))) for place, name in enumerate(names))
    elif "bounds" in given and len(names) == count:
        own, bounds = getattr(model, "feature_names_in_", None), given["bounds"]
        try:
            pairs = None if isinstance(bounds, str) else check_bounds(bounds, count, own, partly=True)
        except (TypeError, ValueError):  # in a form of the estimator's own
            yield ", ".join(names), _LIMITS, [shown(bounds)]
            return
        yield from ((name, *_limits(pair)) for name, pair in zip(names, pairs or [None] * count, strict=True))


def _limits(pair: Sequence[float] | None) -> tuple[str, Sequence[str]]:
    """Name the limits of a column of numbers, and list them."""
    return (_NO_LIMITS, ()) if pair is None else (_LIMITS, [f"{end:g}" for end in pair])


def _declared_of_a_column(column: Any) -> tuple[str, Sequence[Any]]:
    """Name what was declared of a column of a table, and values; None was left out."""
    if column is None:
        return _LEFT_OUT, ()
    if column.found:
        return _FOUND, ()
    if column.values is not None:
        return _BY_TYPE if isinstance(column.dtype, str) else _LISTED, column.values
    return _limits(column.bounds) if column.kind == "number" or column.bounds is not None else ("date", ())


def share_in_words(delta: float, n_units: int) -> str:
    """Describe δ beside one over the number of units, rounded up."""
    share = delta * n_units
    return f"1/{math.floor(1 / share):,} of".replace(",", "\u202f") if share < 1 else f"{rounded_up(share, 2)} times"


def model_findings(facts: Mapping[str, Any], warned: Sequence[Any], *, titled: bool) -> list[Finding]:
    """List what a reviewer has to know of the title, the number of units and the warnings of the fit."""
    found = [] if titled else [(LOOK, "There is no title: say of which data this is, and for what.")]
    protection, delta = facts["protection"] or {}, (facts["strength"] or {}).get("delta", 0.0)
    units, unit = protection.get("n_units"), protection.get("unit")
    if units and delta * units > _RULE * (1 + 1e-9):
        level = LOOK if delta * units >= _LARGE else NOTE
        usual = f"the usual limit is {small(_RULE / units, rounded_down)}, a hundredth of one over their number"
        many = f"{units:,} {unit}s".replace(",", "\u202f")
        found.append((level, f"δ = {small(delta)} is too large for {many}: {usual}."))
    if unit in _NOT_PEOPLE:
        found.append((NOTE, _NOT_PEOPLE[unit]))
    if warned:
        number = "a warning" if len(warned) == 1 else f"{len(warned)} warnings"
        found.append((NOTE, f"The fit gave {number}, about quality and not about privacy: see section 4."))
    return found
