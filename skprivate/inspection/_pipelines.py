"""Rules for composites that pass rows on: pipelines, unions, columns, targets, frozen models, candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from skprivate._sklearn import as_listed
from skprivate.inspection import _single
from skprivate.inspection._steps import Place, Role, Step, Walk
from skprivate.preprocessing import PrivatePipeline, RowByRow, states_budget
from skprivate.privacy import TO_THE_LAST_BIT
from skprivate.user_level import UserLevelSelector


def is_left_out(part: object) -> bool:
    """Tell if a part of a composite is a word in place of an estimator."""
    return part is None or isinstance(part, str)


def releases_rows(model: BaseEstimator) -> bool:
    """Tell if a transformer has randomised everything that it passes on."""
    if type(model) is FrozenEstimator:
        return releases_rows(model.estimator)
    if type(model) in (Pipeline, PrivatePipeline):
        return any(releases_rows(step) for _, step in model.steps if not is_left_out(step))
    if type(model) is FeatureUnion:
        parts = [part for _, part in model.transformer_list]
    elif type(model) is ColumnTransformer:
        parts = [*(part for _, part, _ in model.transformers), model.remainder]
    else:
        return _single.releases_when_transforming(model)
    parts = [part for part in parts if not (isinstance(part, str) and part == "drop")]
    return bool(parts) and all(not is_left_out(part) and releases_rows(part) for part in parts)


def _pipeline(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    here, passed = place, list[Step]()
    for name, step in model.steps:
        if is_left_out(step):
            continue
        inside = here.inside(f"pipeline step {name!r}")
        found = list(walk(step, inside))
        if private := [s for s in found if s.role is Role.PRIVATE]:
            yield from _single.seen_by_private(passed)
            passed = []
        passed += found
        # A private step whose columns are not those that it was given may decide how many the next one sees.
        shapes = [s.path for s in private if not _width_is_public(s.model)]
        here = here.with_rows(
            released=here.rows.released or releases_rows(step),
            adaptive=here.rows.adaptive or "".join(shapes[:1]),
            results=(*here.rows.results, *private),
            before=(*here.rows.before, (type(step).__name__, step)),
        )
    yield from passed


def _one_budget(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    """Walk the steps of a pipeline in which one budget covers all private steps: its own or that of the last."""
    payer = model if states_budget(model.steps[-1][1]) else None  # `fit` refuses to divide for others
    for step in _pipeline(model, place, walk):
        yield replace(step, place=replace(step.place, payer=payer)) if step.role is Role.PRIVATE else step


def _width_is_public(model: BaseEstimator) -> bool:
    """Tell if public numbers decide how many columns a step hands on."""
    if isinstance(model, OneToOneFeatureMixin):
        return True
    # What the methods of a subclass hand on is not what its base class says.
    return getattr(model, "_public_width", False) is True and _single.declares_itself(model, "_public_width")


def _partly_released(model: BaseEstimator, parts: list[Any], place: Place) -> Iterator[Step]:
    """Report rows that are put together from randomised columns and others."""
    released = [releases_rows(part) for part in parts if not (isinstance(part, str) and part == "drop")]
    if any(released) and not all(released):
        why = "hands on columns that are not randomised next to those that are: randomise or drop all of them"
        yield place.step(model, Role.UNPROTECTED, why)


def _feature_union(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    yield from _partly_released(model, [part for _, part in model.transformer_list], place)
    for name, part in model.transformer_list:
        if not is_left_out(part):
            yield from walk(part, place.inside(f"union part {name!r}"))


def _may_be_sparse(part: object) -> bool:
    """Tell if a part may be sparse; hashers and vectorizers have no parameter that says so."""
    inside = [part, *part.get_params(deep=True).values()]
    return any(
        getattr(one, "sparse_output", False) is True or type(one).__module__.startswith("sklearn.feature_extraction")
        for one in inside
    )


def _column_transformer(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    assumptions = []
    chosen = [columns for *_, columns in model.transformers if callable(columns)]
    if any(not type(columns).__module__.startswith("skprivate.") for columns in chosen):
        assumptions.append(f"the rule that chooses columns of {place.name(model)} looks at public names and types")
    listed = model.transformers_ if place.fitted else model.transformers
    parts = [(name, part) for name, part, columns in listed if not (is_left_out(part) or _is_empty(columns))]
    if not (place.fitted or is_left_out(model.remainder)):
        parts.append(("remainder", model.remainder))
    if model.sparse_threshold > 0 and any(_may_be_sparse(part) for _, part in parts):
        assumptions.append(f"whether {place.name(model)} is sparse enough for sparse_threshold is public")
    yield place.step(model, Role.NO_DATA, "", *assumptions)
    handed_on = [part for _, part, columns in listed if not _is_empty(columns)]
    yield from _partly_released(model, handed_on if place.fitted else [*handed_on, model.remainder], place)
    for name, part in parts:
        inside = place.inside(f"columns {name!r}")
        if place.fitted:
            chosen = np.arange(model.n_features_in_)[model._transformer_to_input_indices[name]]
            inside = with_columns(inside, chosen)
        yield from walk(part, inside)


def with_columns(place: Place, chosen: object) -> Place:
    """Go to a part that sees some columns. Distances count a column as often as it occurs."""
    columns = tuple(map(int, chosen))
    place = place.with_rows(columns=(*place.rows.columns, columns))
    if len(set(columns)) == len(columns):
        return place
    return place.with_rows(before=(*place.rows.before, ("columns of which some are repeated", columns)))


def _is_empty(columns: object) -> bool:
    if callable(columns) or isinstance(columns, (slice, str)):
        return False
    chosen = np.asarray(as_listed(columns))
    return chosen.size == 0 or bool(chosen.dtype == bool and not chosen.any())


def _drawn_again(found: list[Step]) -> Iterator[Step]:
    """Repeat randomisers of a model that is fitted first and transforms the same rows afterwards, with fresh noise.

    The first draw was released where something learnt from it; the second one is what is passed on.
    """
    if any(step.place.rows.released and step.role is not Role.NO_DATA for step in found):
        for step in found:
            if step.role is Role.PRIVATE and _single.releases_when_transforming(step.model):
                yield replace(step, path=f"{step.path} once more")


def _transformed_target(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    if model.transformer is not None:
        transformer = model.transformer_ if place.fitted else model.transformer
        targets = place.inside("transformer of the target").with_rows(released=False, target=True)
        found = list(walk(transformer, targets))
        yield from _single.seen_by_private(found)
        yield from _drawn_again(found)  # the target is transformed after the fit, not while it is fitted
    elif model.func is not None:
        text = f"func of {place.name(model)} treats every target by itself, {TO_THE_LAST_BIT}, and warns of none"
        yield place.step(model, Role.NO_DATA, "", text)
    if model.check_inverse and (model.transformer is not None or model.func is not None):
        yield place.step(model, Role.NO_DATA, "", _single.inverse_is_checked(place.name(model)))
    if place.fitted:
        yield from walk(model.regressor_, place.inside("regressor"))
    elif model.regressor is None:
        why = "the default regressor learns from private rows without a guarantee"
        yield place.step(model, Role.UNPROTECTED, why)
    else:
        yield from walk(model.regressor, place.inside("regressor"))


def _select_from_model(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    if callable(model.max_features):
        why = "max_features is computed from private rows: give a number"
        yield place.step(model, Role.UNPROTECTED, why)
    inside = place.inside("estimator", chooses=True)
    if model.prefit:
        yield from fitted_before(model.estimator, inside, walk)
        if hasattr(model, "estimator_"):  # a copy, which counts as the same
            list(walk(model.estimator_, inside))
    else:
        yield from walk(model.estimator_ if place.fitted else model.estimator, inside)


def _row_by_row(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    inner = vars(model).get("estimator_", model.estimator) if place.fitted else model.estimator
    for step in walk(inner, place.inside("one row at a time").with_rows(alone=True)):
        if step.role is Role.PRIVATE and _single.releases_when_transforming(step.model):
            step = replace(step, role=Role.UNPROTECTED, why="would pay for each row by itself: use it without RowByRow")
        yield step


def fitted_before(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    """Walk a model that its composite does not fit.

    With anything private in it, it was fitted on private rows, and all of it counts as if it were fitted here.
    Otherwise it was fitted on public rows, or it is a leak that nothing in it shows: an assumption says so.
    """
    # Rows on which it was fitted did not come this way; if it randomises rows while it transforms, they do.
    here = replace(place, fitted=True, paid=True, demands=(), copies=replace(place.copies, number=1), accounted=False)
    here = here.with_rows(released=False, target=False, adaptive="", results=())
    found = list(walk(model, here))
    if any(step.role is Role.PRIVATE for step in found):
        for step in (*found, *_drawn_again(found)):
            text = f"{step.path} was fitted before, with parameters that no other result on the same rows decided"
            more = (text,) if step.role is Role.PRIVATE else ()
            yield replace(step, assumptions=step.assumptions + more)
    elif all(step.role is Role.NO_DATA for step in found):
        yield from found
    else:
        text = f"{place.name(model)} was fitted before, on public rows only"
        yield replace(place, paid=True).step(model, Role.BEFORE, "", text)


def _selector(model: BaseEstimator, place: Place, walk: Walk) -> Iterator[Step]:
    """Walk the choice and the candidates: all of them are parameters of the released model."""
    yield _single.leaf(model, place)
    for name, candidate in model.estimators:
        yield from fitted_before(candidate, place.inside(f"candidate {name!r}"), walk)


PIPELINE_RULES: dict[type, Callable[[Any, Place, Walk], Iterator[Step]]] = {
    ColumnTransformer: _column_transformer,
    FeatureUnion: _feature_union,
    FrozenEstimator: lambda model, place, walk: fitted_before(model.estimator, place, walk),
    Pipeline: _pipeline,
    PrivatePipeline: _one_budget,
    RowByRow: _row_by_row,
    SelectFromModel: _select_from_model,
    TransformedTargetRegressor: _transformed_target,
    UserLevelSelector: _selector,
}
