"""A pipeline with one budget, which its private steps share by a public rule."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from joblib import parallel_config
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from skprivate._messages import delta_number, epsilon_number
from skprivate._sklearn import listening, quoting_no_entries
from skprivate._validation import public_labels, read_labels, read_numbers, refuse_elsewhere, validate_data
from skprivate.base import PrivateEstimatorMixin
from skprivate.partitions import is_partitioned
from skprivate.preprocessing._private_spline_transformer import PrivateSplineTransformer
from skprivate.preprocessing._public_encoders import PublicOneHotEncoder
from skprivate.preprocessing._public_numbers import PublicCalendar
from skprivate.privacy import (
    GaussianEvent,
    PaymentIsNext,
    PrivacyEvent,
    PrivacyLedger,
    Rehearsal,
    Whole,
    compose_epsilon,
    gaussian_noise_multiplier,
    price_of_plan,
)

#: Share of ε of the steps before the model, together: knots of splines decide more than scales do.
KNOTS_SHARE, PREPARED_SHARE = 0.3, 0.1
#: Part of ε that these steps and Gaussian noise may compose to: the model also selects, which composes to a little
#: more.
COMPOSED_SHARE = 0.99
#: Attributes of a model that are set for one fit.
_FOR_ONE_FIT = {"_prepared_features", "_whole"}


def _last_has(*methods: str) -> Callable[[Pipeline], bool]:
    """Check that the last step has these methods, for `available_if`."""
    return lambda pipeline: all(hasattr(pipeline._final_estimator, method) for method in methods)


class PrivatePipeline(Pipeline):  # type: ignore[misc]
    """Pipeline whose private steps share one budget: ``epsilon`` and ``delta`` of the whole.

    Where these are None, they are those of the last step, which has a part of them during a fit only. `fit` divides
    them by public numbers. The steps before the last get their parts as parameters; all of the budget is the last
    one's if they draw nothing. A ``ledger`` replaces those of all steps. Nothing is cached.
    """

    memory = transform_input = None  # read by `Pipeline`

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: bool = False,
    ) -> None:
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.verbose = verbose

    @quoting_no_entries()
    def fit(self, X: Any, y: Any = None, **params: Any) -> PrivatePipeline:
        """Fit one step after the other on a table in memory; ``user_ids`` go to all private steps."""
        if is_partitioned(X):
            # In blocks the target is a column of X: a step would replace it.
            raise TypeError(
                f"X of a pipeline with one budget must be a table in memory, got {type(X).__name__}. "
                "Fit a linear model on rows in blocks, or load them."
            )
        refuse_elsewhere(X)
        given = {name: value for name, value in params.items() if value is not None}
        whole = any("__" not in name for name in given)
        if whole and not get_config().get("enable_metadata_routing", False):
            with config_context(enable_metadata_routing=True):
                return self.fit(X, y, **given)
        *before, (last, model) = self.steps
        parts = list(_private_parts(Pipeline(before)).values())
        _check_adjacency(parts, model)
        first, rest = self._divide_metadata(given, parts)
        budget = self._budget() if parts or (self.epsilon, self.delta) != (None, None) else None

        def fit_last(one: Any, Z: Any) -> Any:
            return Pipeline([(last, one)]).fit(Z, y, **rest)

        part, Z = _part_of(model, budget, self.ledger), X
        if parts and budget is not None:
            self._pay_before(parts, budget, X, y, first, fit_last)
        try:
            if before:
                with _charged_to(self.ledger, parts), _where_ledgers_are(self.ledger, parts):
                    Z = Pipeline(before).fit_transform(X, y, **first)
            if parts and budget is not None:
                _take_rest(part, before, parts, budget)
            _tell_columns(part, before, Z)
            fit_last(part, Z)
        except BaseException:
            _adopt(model, clone(model))  # an earlier fit was about other columns
            raise
        _adopt(model, part)
        return self

    def _budget(self) -> tuple[float, float]:
        """Read (ε, δ) of the whole."""
        model = self._final_estimator
        if not states_budget(model):
            raise TypeError(
                f"The last step of a pipeline with one budget must have epsilon itself, got {type(model).__name__}: "
                "nothing would divide the budget for what is inside. Use a plain Pipeline, with a budget in each step."
            )
        known = {"delta": 0.0, **model.get_params(deep=False)}  # without δ it is pure
        own = {"epsilon": self.epsilon, "delta": self.delta}
        return budget_of({name: known.get(name) if value is None else value for name, value in own.items()})

    def _divide_metadata(
        self, params: dict[str, Any], parts: list[Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Select what `fit` hands to the steps before the last one, and to that."""
        *before, (last, model) = self.steps
        if get_config().get("enable_metadata_routing", False):
            routing = get_routing_for_object(Pipeline(before)) if before else None
            asked = {k for k in params if routing is not None and routing.consumes("fit_transform", [k])}
            more = params.keys() - asked | {k for k in params if has_fit_parameter(model, k)}
            return {k: params[k] for k in asked}, {k: params[k] for k in more}
        rest = {k: value for k, value in params.items() if k.startswith(f"{last}__")}
        first = {k: value for k, value in params.items() if k not in rest}
        if parts and has_fit_parameter(model, "user_ids"):
            named = [any(k.endswith("__user_ids") for k in some) for some in (first, rest)]
            if named[0] != named[1]:
                got = before[-1][0] if named[0] else last
                raise ValueError(
                    f"user_ids must be given to all private steps or to none, got them for {got!r} only: one step "
                    "would protect a user, the other a row. Pass user_ids=... to the whole."
                )
        return first, rest

    def _pay_before(
        self,
        parts: list[Any],
        budget: tuple[float, float],
        X: Any,
        y: Any,
        first: dict[str, Any],
        fit_last: Callable[[Any, Any], Any],
    ) -> None:
        """Give the steps before the last one their parts, after a rehearsal, so that errors come before payment."""
        *before, (_, model) = self.steps
        share, (epsilon, delta) = _share_before(parts), budget
        for each in parts:
            _set(each, epsilon=share * epsilon / len(parts), delta=delta / 2 / len(parts))
        copies, rehearsal = clone(Pipeline(before), safe=False), Rehearsal()
        found = _private_parts(copies).items()
        copies.set_params(**{name: _Rehearsed(self._unpaid(each, rehearsal)) for name, each in found})
        _name_columns(copies.steps[0][1], X)
        # In this process alone, where ledgers in memory are.
        with warnings.catch_warnings(), listening(None), parallel_config(backend="sequential"):
            warnings.simplefilter("ignore")  # the fit itself will say it again
            Z = copies.fit_transform(X, y, **first)
        if not isinstance(model, PrivateEstimatorMixin):  # of another package: cannot be stopped there
            y = read_numbers(y) if is_regressor(model) else read_labels(y, **public_labels(model))
            if y is not None:
                check_consistent_length(X, y)
            return
        trial = _part_of(model, ((1.0 - share) * epsilon, delta / 2))
        _tell_columns(trial, copies.steps, Z)  # they decide what it costs
        with suppress(PaymentIsNext):
            fit_last(self._unpaid(trial, rehearsal), Z)

    def _unpaid(self, copy: Any, rehearsal: Rehearsal) -> Any:
        """Let a copy of a step end its fit where it would be charged, if its ledger admits that."""
        own = copy.get_params(deep=False).get("ledger") if self.ledger is None else self.ledger
        vars(copy).pop("_skl_callbacks", None)
        return _set(copy, ledger=rehearsal.gate(copy, own), random_state=None)  # a state is not moved

    @available_if(_last_has("transform"))  # type: ignore[untyped-decorator]
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        return self.fit(X, y, **params).transform(X)

    @available_if(_last_has("fit_predict", "predict"))  # type: ignore[untyped-decorator]
    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Any:
        return self.fit(X, y, **params).predict(X)

    def __getitem__(self, ind: Any) -> Any:
        """Select a step, or a plain pipeline of some steps, which has no budget to divide."""
        if not isinstance(ind, slice):
            return super().__getitem__(ind)
        if ind.step not in (1, None):
            raise ValueError("Pipeline slicing only supports a step of 1")
        steps = self.steps[ind]
        if len(steps) < len(self.steps):
            return Pipeline(steps)
        return PrivatePipeline(steps, epsilon=self.epsilon, delta=self.delta, ledger=self.ledger)


class _Rehearsed(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Private transformer that is fitted up to its payment, and hands on zeros."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    def __init__(self, step: Any) -> None:
        self.step = step

    def fit(self, X: Any, y: Any = None, user_ids: Any = None) -> _Rehearsed:
        validate_data(self, X, skip_check_array=True)
        if isinstance(self.step, PrivateEstimatorMixin):  # of another package: cannot be stopped there
            asked = {"user_ids": user_ids} if has_fit_parameter(self.step, "user_ids") else {}
            with suppress(PaymentIsNext):
                self.step.fit(X, y, **asked)
        return self

    def transform(self, X: Any) -> Any:
        return np.zeros(np.shape(X))


def _name_columns(step: Any, X: Any) -> None:
    """Let columns that pass a rehearsal as they are keep their names, for error messages."""
    library = type(X).__module__.partition(".")[0]
    if not isinstance(step, ColumnTransformer) or library not in ("pandas", "polars"):
        return
    plain = all(isinstance(part, str | _Rehearsed) for _, part, _ in step.transformers)
    plain &= all(isinstance(name, str) for name in X.columns)
    if plain and not any(str(kind).startswith("Sparse") for kind in X.dtypes):
        step.set_output(transform=library)


def states_budget(step: Any) -> bool:
    """Tell if a step has ε itself, so that it can be given a part of a budget."""
    single = hasattr(step, "get_params") and not isinstance(step, Pipeline)
    return single and "epsilon" in step.get_params(deep=False)


def _private_parts(pipeline: Pipeline) -> dict[str, Any]:
    """Find private estimators that a pipeline fits, by the names of its parameters."""
    found: dict[str, Any] = {}
    apart: list[str] = []
    for name, part in sorted(pipeline.get_params().items()):  # a part comes after what it is in
        if name.startswith(tuple(apart)) or not hasattr(part, "get_params"):
            continue
        if {"epsilon", "ledger"} <= part.get_params(deep=False).keys():
            found[name] = part
        if name in found or isinstance(part, FrozenEstimator):
            apart.append(f"{name}__")
    if other := [type(part).__name__ for part in found.values() if not hasattr(part, "transform")]:
        raise TypeError(
            f"private steps before the last one must transform, got {other[0]}. Put it into a "
            "sklearn.pipeline.Pipeline, in which each step has a budget of its own."
        )
    return found


def _fitted_parts(step: Any) -> list[Any]:
    """List private estimators in a fitted step, as far as it is known where they are."""
    if isinstance(step, PrivateEstimatorMixin):
        return [step]
    inside: list[Any] = []
    if isinstance(step, ColumnTransformer):
        inside = [part for _, part, _ in step.transformers_]
    elif type(step) is Pipeline or isinstance(step, FeatureUnion):
        inside = [part for _, part in (step.steps if isinstance(step, Pipeline) else step.transformer_list)]
    return [found for part in inside for found in _fitted_parts(part)]


def _check_adjacency(parts: list[Any], model: Any) -> None:
    """Refuse steps with different neighbouring data sets."""
    own = getattr(model, "adjacency", None)
    for part in parts:
        other = getattr(part, "adjacency", own)
        if own is not None and other != own:
            raise ValueError(
                f"adjacency of all private steps must be the same, got {other!r} ({type(part).__name__}) and {own!r}."
            )


def _share_before(parts: list[Any]) -> float:
    """Choose the share of ε of the private steps before the last one."""
    return (
        KNOTS_SHARE if any(isinstance(each, PrivateSplineTransformer) for each in parts) else PREPARED_SHARE
    )


@contextmanager
def _charged_to(ledger: PrivacyLedger | None, parts: list[Any]) -> Iterator[None]:
    """Set the ledger of steps for one fit."""
    own = [each.ledger for each in parts]
    try:
        if ledger is not None:
            for each in parts:
                each.set_params(ledger=ledger)
        yield
    finally:
        for each, one in zip(parts, own, strict=True):
            each.set_params(ledger=one)


def _where_ledgers_are(ledger: PrivacyLedger | None, parts: list[Any]) -> AbstractContextManager[Any]:
    """Fit steps in this process alone if a ledger is in memory, so that none fails after another has paid."""
    ledgers = [ledger, *(each.ledger for each in parts)]
    in_memory = any(each is not None and each.path is None for each in ledgers)
    return parallel_config(backend="sequential") if in_memory else nullcontext()


def _part_of(model: Any, budget: tuple[float, float] | None, ledger: PrivacyLedger | None = None) -> Any:
    """Copy a model with another budget and ledger; the model itself does not change."""
    part = object.__new__(type(model))
    vars(part).update(vars(model))
    changed = dict(zip(("epsilon", "delta"), budget, strict=True)) if budget else {}
    return _set(part, **changed, **({} if ledger is None else {"ledger": ledger}))


def _set(estimator: Any, **values: Any) -> Any:
    """Set those parameters that an estimator has."""
    known = estimator.get_params(deep=False)
    return estimator.set_params(**{name: value for name, value in values.items() if name in known})


def _take_rest(part: Any, before: list[Any], parts: list[Any], budget: tuple[float, float]) -> None:
    """Give the last step what the others leave of the budget."""
    fitted = [found for _, step in before for found in _fitted_parts(step)]
    found = [each.privacy_guarantee_ for each in fitted if hasattr(each, "privacy_guarantee_")]
    events = tuple(event for guarantee in found for event in guarantee.events)
    # The model plans by the number of columns that it gets: that must not follow from what was released.
    planned = len(fitted) == len(parts) and all(map(_width_is_public, fitted))
    planned &= not any(guarantee.adaptive for guarantee in found)
    if planned and not events:
        return
    share, (epsilon, delta) = 1.0 - _share_before(parts), budget
    if planned and nearly_gaussian(part):
        # Steps may have needed no δ; the total is stated at the sum.
        total_delta = min(delta, sum(guarantee.delta for guarantee in found) + delta / 2)
        if all(each.get_params(deep=False).get("ledger") is None for each in (part, *fitted)):
            share = model_share(epsilon, total_delta, events, share)
        # Its share is an estimate by continuous noise: the real total is checked when the model is paid for.
        part._whole = Whole(epsilon, total_delta, events)
    _set(part, epsilon=share * epsilon, delta=delta / 2)


def _tell_columns(part: Any, before: list[Any], Z: Any) -> None:
    """Tell the last step what is public about the columns that it gets, if it asks for that."""
    if len(before) != 1 or not hasattr(part, "_prepared_features"):
        return
    step = before[0][1]
    places: list[Any] = [(step, slice(0, Z.shape[1]))]
    if isinstance(step, ColumnTransformer):
        places = [(each, step.output_indices_[name]) for name, each, _ in step.transformers_]
    known: list[Any] = [None] * Z.shape[1]
    for each, place in places:
        if not known[place]:
            continue  # not fitted
        last = each.steps[-1][1] if isinstance(each, Pipeline) else each
        if isinstance(last, PublicOneHotEncoder | PublicCalendar):
            known[place] = ["unit"] * len(known[place])
        elif isinstance(last, PrivateSplineTransformer) and last.passthrough:
            known[place] = [kind and (place.start + kind[0], kind[1]) for kind in last._prepared_outputs]
    if any(known):
        part._prepared_features = tuple(known)


def _width_is_public(part: Any) -> bool:
    """Tell if public numbers decide how many columns a step hands on; of a class of this package."""
    own = type(part).__module__.startswith("skprivate.") and isinstance(part, PrivateEstimatorMixin)
    return own and (isinstance(part, OneToOneFeatureMixin) or getattr(part, "_public_width", False) is True)


def _adopt(model: Any, part: Any) -> None:
    """Move fitted attributes from a part to the model."""
    own = {*model.get_params(deep=False), *_FOR_ONE_FIT}
    for name in vars(model).keys() - vars(part).keys() - own:
        delattr(model, name)
    vars(model).update({name: value for name, value in vars(part).items() if name not in own})


def nearly_gaussian(estimator: Any) -> bool:
    """Check that all draws of an estimator are nearly Gaussian; a subclass of another package may draw otherwise."""
    own = type(estimator).__module__.startswith("skprivate.")
    return own and bool(getattr(estimator, "_nearly_gaussian", False))


def budget_of(values: dict[str, Any]) -> tuple[float, float]:
    """Check (ε, δ), to be divided."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            kind = "none" if value is None else type(value).__name__
            raise TypeError(f"estimator must have a number for {name}, which is divided; got {kind}.")
    return epsilon_number(float(values["epsilon"])), delta_number(float(values["delta"]))


@lru_cache(maxsize=256)
def model_share(
    epsilon: float, delta: float, earlier: tuple[tuple[PrivacyEvent, int], ...], least: float
) -> float:
    """Compute the share of ε of a model behind ``earlier`` draws, which have 1 - ``least`` of it and half of δ."""
    allowed = COMPOSED_SHARE * epsilon
    if delta == 0.0 or price_of_plan(earlier, (1.0 - least) * epsilon, delta / 2)[1] == 0.0:
        # Few selections are paid without δ: budgets then hardly compose to less than the sum.
        return least
    z = gaussian_noise_multiplier(allowed, delta)
    while (spent := compose_epsilon([*earlier, (GaussianEvent(z), 1)], delta)) > allowed:
        z *= max(spent / allowed, 1.001)
    share = compose_epsilon([(GaussianEvent(z), 1)], delta / 2) / epsilon
    # The sum is never above the budget; under a δ that pays for Gaussian noise by itself the share would be 0.
    return min(max(share, least), 1.0)
