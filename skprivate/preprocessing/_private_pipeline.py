"""A pipeline with one budget, which its private steps share by a public rule."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
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

from skprivate import _validation, privacy
from skprivate._messages import delta_number, epsilon_number, must_be
from skprivate._sklearn import listening, quoting_no_entries
from skprivate.base import REPEATS, PrivateEstimatorMixin
from skprivate.partitions import is_partitioned
from skprivate.preprocessing import _curves, _private_one_hot_encoder, _private_spline_transformer, _public_encoders
from skprivate.privacy import GaussianEvent, PaymentIsNext, PrivacyEvent, PrivacyLedger, Rehearsal, draws

#: Share of ε of a step that finds categories, and of the others before the model, together: knots of splines decide
#: more than scales do.
FOUND_SHARE, KNOTS_SHARE, PREPARED_SHARE = 0.2, 0.3, 0.1
#: Part of ε that these steps and Gaussian noise may compose to: the model also selects, which composes to a little
#: more.
COMPOSED_SHARE = 0.99
#: Parameters of copies of steps, and attributes of that of the model, that are set for one fit.
_FOR_ONE_FIT = ("epsilon", "delta", "ledger", "random_state")
_HANDED_OVER = ("_prepared_features", "_categories", "_limits", "_lines", "_column_names", "_whole")


def _last_has(*methods: str) -> Callable[[Pipeline], bool]:
    """Check that the last step has these methods, for `available_if`."""
    return lambda pipeline: all(hasattr(pipeline._final_estimator, method) for method in methods)


class PrivatePipeline(Pipeline):  # type: ignore[misc]
    """Pipeline whose private steps share one budget: ``epsilon`` and ``delta`` of the whole.

    Where these are None, they are those of the last step. `fit` divides them by public numbers; all of the budget is
    the last step's if the others draw nothing. A ``ledger`` replaces those of all steps. Nothing is cached. Copies of
    the steps are fitted, which have their parts during the fit only, and take the place of the steps at its end.
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

    @privacy.in_one_order
    @np.errstate(all="ignore")  # a warning about a step's arithmetic would say something about somebody's row
    @quoting_no_entries()
    def fit(self, X: Any, y: Any = None, **params: object) -> PrivatePipeline:
        """Fit copies of the steps on a table in memory.

        ``user_ids``, or the name of a column of X that has them, go to all private steps.
        """
        if is_partitioned(X):
            # In blocks the target is a column of X: a step would replace it.
            raise TypeError(
                f"X of a pipeline with one budget must be a table in memory, got {type(X).__name__}. "
                "Fit a linear model on rows in blocks, or load them."
            )
        _validation.refuse_no_table(X)
        given = {name: _column(X, name, value) for name, value in params.items() if value is not None}
        whole = any("__" not in name for name in given)
        if whole and not get_config().get("enable_metadata_routing", False):
            with config_context(enable_metadata_routing=True):
                return self.fit(X, y, **given)
        copies = clone(Pipeline(self.steps), safe=False)
        parameters = Pipeline(self.steps).get_params()
        own = {name: value for name, value in parameters.items() if name.rpartition("__")[2] in _FOR_ONE_FIT}
        copies.set_params(**own)  # generators go on from fit to fit, as those of scikit-learn's steps do
        for name, value in parameters.items():
            if name.rpartition("__")[2] == "memory" and value is not None:
                raise ValueError(f"{name} must be None, got a cache, which {REPEATS}. Nothing was drawn or spent.")
        *before, (last, model) = copies.steps
        parts = list(_private_parts(Pipeline(before), _without_columns(before, X)).values())
        _check_adjacency(parts, model)
        first, rest = self._divide_metadata(given, parts)
        budget = self._budget() if parts or (self.epsilon, self.delta) != (None, None) else None
        for each in (*parts, model) if self.ledger is not None else ():
            _set(each, ledger=self.ledger)
        if parts and budget is not None:
            shares, (epsilon, delta) = shares_before(parts), budget
            for each, share in zip(parts, shares, strict=True):
                _set(each, epsilon=share * epsilon, delta=delta / 2 / len(parts))
            _set(model, epsilon=(1.0 - math.fsum(shares)) * epsilon, delta=delta / 2)
            _rehearse(copies.steps, X, y, first, rest)
        elif budget is not None:
            _set(model, epsilon=budget[0], delta=budget[1])
        Z = X
        if before:
            # In this process alone if a ledger is in memory, so that no step fails after another has paid.
            in_memory = any(each.ledger is not None and each.ledger.path is None for each in parts)
            with parallel_config(backend="sequential") if in_memory else nullcontext():
                Z = Pipeline(before).fit_transform(X, y, **first)
        if parts and budget is not None:
            _take_rest(model, before, parts, budget)
        _tell_columns(model, before, Z)
        Pipeline([(last, model)]).fit(Z, y, **rest)
        for name in _HANDED_OVER:
            vars(model).pop(name, None)
        self.steps = copies.set_params(**own).steps
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

    def _divide_metadata(self, params: dict[str, Any], parts: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
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

    @available_if(_last_has("transform"))  # type: ignore[untyped-decorator]
    def fit_transform(self, X: Any, y: Any = None, **params: object) -> Any:
        return self.fit(X, y, **params).transform(X)

    @available_if(_last_has("fit_predict", "predict"))  # type: ignore[untyped-decorator]
    def fit_predict(self, X: Any, y: Any = None, **params: object) -> Any:
        return self.fit(X, y, **params).predict(X)

    @available_if(_last_has("score"))  # type: ignore[untyped-decorator]
    @privacy.in_one_order
    def score(self, X: Any, y: Any = None, sample_weight: object = None, **params: object) -> Any:
        return super().score(X, y, sample_weight, **params)

    @available_if(_last_has("confidence_interval"))  # type: ignore[untyped-decorator]
    def confidence_interval(self, level: float = 0.95) -> Any:
        """Compute confidence intervals of the model's coefficients, in the order of the names of `summary`."""
        return self._final_estimator.confidence_interval(level)

    @available_if(_last_has("summary"))  # type: ignore[untyped-decorator]
    def summary(self, level: float = 0.95) -> Any:
        """Show the model's coefficients with intervals, by the names that the steps before it give its columns.

        The guarantee is that of the model's own step; `~skprivate.guarantee_of` states that of the whole.
        """
        found = self._final_estimator.summary(level)
        names = names_behind(self.steps[:-1], len(found.names))
        return found if names is None else found._replace(names=names)

    @available_if(_last_has("confidence_interval"))  # type: ignore[untyped-decorator]
    def confidence_band(self, values: Any = None, level: float = 0.95) -> _curves.CurveBands:
        """Compute confidence bands of the curves of an additive model: of sampling and of privacy noise.

        Parameters
        ----------
        values : array-like of shape (n_points, n_curves), or frame with these columns, optional
            Numbers at which each curve is evaluated; public or released ones. By default 101 from one interval below
            to one above the released quantiles.
        level : float in (0, 1), default=0.95
            Chance to hold a curve at one of the points.

        Returns
        -------
        bands : CurveBands
            Curves, which are 0 on average between the outermost released quantiles, with lower and upper ends.

        Raises
        ------
        ValueError
            If the fit was without ``inference=True``, or no step before the model makes splines.
        """
        names = names_behind(self.steps[:-1], self._final_estimator.n_features_in_)
        return _curves.curve_bands(self, names, values, level)

    def __getitem__(self, ind: object) -> Any:
        """Select a step, or a plain pipeline of some steps, which has no budget to divide."""
        if not isinstance(ind, slice):
            return super().__getitem__(ind)
        if ind.step not in (1, None):
            raise ValueError("Pipeline slicing only supports a step of 1")
        steps = self.steps[ind]
        if len(steps) < len(self.steps):
            return Pipeline(steps)
        return PrivatePipeline(steps, epsilon=self.epsilon, delta=self.delta, ledger=self.ledger)


def _column(X: Any, name: str, value: object) -> Any:
    """Return the column of X that a name means as ``user_ids``; everything else as it is."""
    if name.rpartition("__")[2] != "user_ids" or not isinstance(value, str):
        return value
    if not _validation.is_frame(X) or value not in list(_validation.column_names(X)):
        raise ValueError(must_be(name, "identifiers, or the name of a column of X", value))
    return X[value]


def _rehearse(steps: list[Any], X: Any, y: Any, first: dict[str, Any], rest: dict[str, Any]) -> None:
    """Fit copies of the steps up to their payments, so that errors come before payment."""
    *before, (last, model) = clone(Pipeline(steps), safe=False).steps
    copies, rehearsal = Pipeline(before), Rehearsal()
    parts = _private_parts(copies).items()
    copies.set_params(**{name: _Rehearsed(_unpaid(each, rehearsal)) for name, each in parts})
    _name_columns(copies.steps[0][1], X)
    # In this process alone, where ledgers in memory are.
    with warnings.catch_warnings(), listening(None), parallel_config(backend="sequential"):
        warnings.simplefilter("ignore")  # the fit itself will say it again
        Z = copies.fit_transform(X, y, **first)
    if not isinstance(model, PrivateEstimatorMixin):  # of another package: cannot be stopped there
        y = (
            _validation.read_numbers(y)
            if is_regressor(model)
            else _validation.read_labels(y, **_validation.public_labels(model))
        )
        if y is not None:
            check_consistent_length(X, y)
        return
    _tell_columns(model, copies.steps, Z)  # they decide what it costs
    with suppress(PaymentIsNext):
        Pipeline([(last, _unpaid(model, rehearsal))]).fit(Z, y, **rest)


def _unpaid(copy: Any, rehearsal: Rehearsal) -> Any:
    """Let a copy of a step end its fit where it would be charged, if its ledger admits that."""
    vars(copy).pop("_skl_callbacks", None)
    gate = rehearsal.gate(copy, copy.get_params(deep=False).get("ledger"))
    return _set(copy, ledger=gate, random_state=None)  # a state is not moved


class _Rehearsed(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Private transformer that is fitted up to its payment, and hands on zeros."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    def __init__(self, step: object) -> None:
        self.step = step

    def fit(self, X: Any, y: Any = None, user_ids: Any = None) -> _Rehearsed:
        _validation.validate_data(self, X, skip_check_array=True)
        if isinstance(self.step, PrivateEstimatorMixin):  # of another package: cannot be stopped there
            asked = {"user_ids": user_ids} if has_fit_parameter(self.step, "user_ids") else {}
            with suppress(PaymentIsNext):
                self.step.fit(X, y, **asked)
        return self

    @property
    def _width(self) -> int:
        return getattr(self.step, "_columns_per_feature", 1)

    def transform(self, X: Any) -> Any:
        return np.zeros((np.shape(X)[0], np.shape(X)[1] * self._width))

    def get_feature_names_out(self, input_features: object = None) -> Any:
        names = super().get_feature_names_out(input_features)
        return names if self._width == 1 else np.array([f"{n}_{i}" for n in names for i in range(self._width)], object)


def _name_columns(step: object, X: Any) -> None:
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


def _without_columns(before: list[Any], X: Any) -> list[str]:
    """List the parts of the first step that public names and types leave no column, so that they need no budget."""
    table = before[0][1] if before else None
    # What is no table is refused by the step, or declares nothing.
    typed = _validation.is_frame(X) or getattr(X, "ndim", 0) == 2
    return [
        f"{before[0][0]}__{name}"
        for name, _, columns in (table.transformers if typed and isinstance(table, ColumnTransformer) else ())
        if (isinstance(columns, list) and not columns)
        or (type(columns).__module__.startswith("skprivate.") and not columns(X))
    ]


def _private_parts(pipeline: Pipeline, left_out: list[str] | tuple[()] = ()) -> dict[str, Any]:
    """Find private estimators that a pipeline fits, by the names of its parameters."""
    found: dict[str, Any] = {}
    apart = list(left_out)
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
        # A slice has no length; scikit-learn 1.6 warns of all else that is asked of the columns of the remainder.
        inside = [part for _, part, columns in step.transformers_ if not hasattr(columns, "__len__") or len(columns)]
    elif type(step) is Pipeline or isinstance(step, FeatureUnion):
        inside = [part for _, part in (step.steps if isinstance(step, Pipeline) else step.transformer_list)]
    return [found for part in inside for found in _fitted_parts(part)]


def _check_adjacency(parts: list[Any], model: BaseEstimator) -> None:
    """Refuse steps with different neighbouring data sets."""
    own = getattr(model, "adjacency", None)
    for part in parts:
        other = getattr(part, "adjacency", own)
        if own is not None and other != own:
            raise ValueError(
                f"adjacency of all private steps must be the same, got {other!r} ({type(part).__name__}) and {own!r}."
            )


def shares_before(parts: list[Any]) -> list[float]:
    """Choose the shares of ε of the private steps before the last one."""
    find = [isinstance(each, _private_one_hot_encoder.PrivateOneHotEncoder) for each in parts]
    knots = any(isinstance(each, _private_spline_transformer.PrivateSplineTransformer) for each in parts)
    other = (KNOTS_SHARE if knots else PREPARED_SHARE) / max(len(parts) - sum(find), 1)
    return [FOUND_SHARE / sum(find) if found else other for found in find]


def cost_of_finding(
    step: _private_one_hot_encoder.PrivateOneHotEncoder, pipeline: Any
) -> tuple[float, float, int | None]:
    """Compute the (ε, δ) at which categories are found, alone or in a pipeline, and the units that one value needs.

    With k columns it needs √k times as many; None without δ.
    """
    epsilon, delta = step.epsilon, step.delta
    if pipeline is not None:
        parts = list(_private_parts(Pipeline(pipeline.steps[:-1])).values())
        share = dict(zip(map(id, parts), shares_before(parts), strict=True))[id(step)]
        whole = pipeline._budget()
        epsilon, delta = share * whole[0], whole[1] / 2 / len(parts)
    found = draws.CategoryDiscovery.within(1, epsilon, delta, step.adjacency).least_units if delta else None
    return epsilon, delta, found


def _set(estimator: BaseEstimator, **values: object) -> Any:
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
        _set(part, epsilon=budget[0], delta=budget[1])
        return
    share, (epsilon, delta) = 1.0 - math.fsum(shares_before(parts)), budget
    if planned and nearly_gaussian(part):
        # Steps may have needed no δ; the total is stated at the sum.
        total_delta = min(delta, sum(guarantee.delta for guarantee in found) + delta / 2)
        if all(each.get_params(deep=False).get("ledger") is None for each in (part, *fitted)):
            share = model_share(epsilon, total_delta, events, share)
        # Its share is an estimate by continuous noise: the real total is checked when the model is paid for.
        part._whole = privacy.SharedBudget(epsilon, total_delta, events)
    _set(part, epsilon=share * epsilon, delta=delta / 2)


def _tell_columns(part: Any, before: list[Any], Z: Any) -> None:
    """Tell the last step the names of its columns, and what is public about them, if it asks for that."""
    if hasattr(part, "_column_names"):
        part._column_names = names_behind(before, Z.shape[1])
    if len(before) != 1 or not hasattr(part, "_prepared_features"):
        return
    step = before[0][1]
    known: list[Any] = [None] * Z.shape[1]
    limits: list[Any] = known.copy()
    categories: list[tuple[int, ...]] = []
    lines: list[tuple[int, int, float, float]] = []
    for last, place in _curves.last_parts(step, Z.shape[1]):
        found = last.step if isinstance(last, _Rehearsed) else last
        if isinstance(
            found,
            _public_encoders.PublicOneHotEncoder
            | _private_one_hot_encoder.PrivateOneHotEncoder
            | _public_encoders.PublicCalendar,
        ):
            known[place] = ["unit"] * len(known[place])
            first = place.start
            for n_columns in getattr(found, "_columns_of_categories", ()):
                categories.append(tuple(range(first, first + n_columns)))
                first += n_columns
        elif type(found) is _public_encoders.PublicNumbers and found.limits is not None:
            limits[place] = [found.limits.get(k) for k in range(len(limits[place]))]
        elif isinstance(last, _private_spline_transformer.PrivateSplineTransformer) and last.passthrough:
            known[place] = [kind and (place.start + kind[0], kind[1]) for kind in last._prepared_outputs]
            lines += [(place.start + k, place.start + j, *line) for k, j, *line in last._lines]
    if any(limits):
        part._limits = tuple(limits)
    if any(known):
        part._prepared_features, part._categories, part._lines = tuple(known), tuple(categories), tuple(lines)


def names_behind(before: list[Any], n_columns: int) -> tuple[str, ...] | None:
    """Return the names that fitted steps give to the columns that they hand on; None where one gives none."""
    if not before:
        return None
    with suppress(Exception):  # of whatever step: "passthrough" gives None, and names are no reason to fail a fit
        names = tuple(map(str, Pipeline(before).get_feature_names_out()))
        return names if len(names) == n_columns else None
    return None


def _width_is_public(part: object) -> bool:
    """Tell if public numbers decide how many columns a step hands on; of a class of this package."""
    own = type(part).__module__.startswith("skprivate.") and isinstance(part, PrivateEstimatorMixin)
    return own and (isinstance(part, OneToOneFeatureMixin) or getattr(part, "_public_width", False) is True)


def nearly_gaussian(estimator: BaseEstimator) -> bool:
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
def model_share(epsilon: float, delta: float, earlier: tuple[tuple[PrivacyEvent, int], ...], least: float) -> float:
    """Compute the share of ε of a model behind ``earlier`` draws, which have 1 - ``least`` of it and half of δ."""
    allowed = COMPOSED_SHARE * epsilon
    if delta == 0.0 or privacy.cost_of_plan(earlier, (1.0 - least) * epsilon, delta / 2)[1] == 0.0:
        # Few selections are paid without δ: budgets then hardly compose to less than the sum.
        return least
    z = privacy.gaussian_noise_multiplier(allowed, delta)
    while (spent := privacy.compose_epsilon([*earlier, (GaussianEvent(z), 1)], delta)) > allowed:
        z *= max(spent / allowed, 1.001)
    share = privacy.compose_epsilon([(GaussianEvent(z), 1)], delta / 2) / epsilon
    # The sum is never above the budget; under a δ that pays for Gaussian noise by itself the share would be 0.
    return min(max(share, least), 1.0)
