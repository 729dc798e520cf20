"""A linear model on splines, with one budget for both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from skprivate._messages import delta_number, positive
from skprivate._sklearn import _num_samples, quoting_no_entries
from skprivate._validation import public_labels, read_labels, read_numbers
from skprivate.base import PrivateEstimatorMixin
from skprivate.partitions import is_partitioned
from skprivate.preprocessing._mechanisms import selection_price
from skprivate.preprocessing._private_spline_transformer import KNOTS, PrivateSplineTransformer
from skprivate.privacy import (
    BoundedRangeEvent,
    GaussianEvent,
    PaymentIsNext,
    Whole,
    compose_epsilon,
    gaussian_noise_multiplier,
    payment_gate,
    price_of_plan,
    public_generator,
)
from skprivate.privacy.draws import quantile_levels

#: Share of ε of the knots.
KNOTS_SHARE = 0.3
#: Part of ε that knots and Gaussian noise may compose to: the model also selects, which composes to a little more.
COMPOSED_SHARE = 0.99


def _last_has(*methods: str) -> Callable[[Pipeline], bool]:
    """Check that the last step has these methods, for `available_if`."""
    return lambda pipeline: all(hasattr(pipeline._final_estimator, method) for method in methods)


class AdditivePipeline(Pipeline):  # type: ignore[misc]
    """Steps "splines" and "model", with one budget, which is that of the model's parameters.

    `fit` divides it by public numbers: during the fit the splines and the model have parts of it. If units are too few
    for knots, the model has all of it and unchanged columns, as it would alone. So ``model__epsilon`` is the ε of all,
    in a search too, and ``epsilon`` and ``delta`` of the splines follow from it in every fit.
    """

    @quoting_no_entries()
    def fit(self, X: Any, y: Any = None, **params: Any) -> AdditivePipeline:
        """Fit both, one after the other, on a table in memory."""
        (first, knots), (last, model) = self.steps
        routed = get_config().get("enable_metadata_routing", False)
        own = [
            {k: v for k, v in params.items() if routed or not k.startswith(f"{other}__")}
            for other in (last, first)
        ]
        budget = _budget_of(model)
        _check_steps(knots, model)
        if is_partitioned(X):
            # In blocks the target is a column of X: splines would replace it.
            raise TypeError(
                f"X of an additive pipeline must be a table in memory, got {type(X).__name__}. "
                "Fit a linear model on rows in blocks, or load them."
            )
        named = [routed or params.get(f"{step}__user_ids") is not None for step in (first, last)]
        if named[0] != named[1] and has_fit_parameter(model, "user_ids"):
            raise ValueError(
                f"user_ids must be given to both steps or to none, got them for {(first, last)[named[1]]!r} only: "
                "one step would protect a user, the other a row."
            )
        _check_fit(model, knots, X, y, lambda one, Z: Pipeline([(last, one)]).fit(Z, y, **own[1]))
        splines_in(knots, fitted=False).set_params(epsilon=KNOTS_SHARE * budget[0], delta=budget[1] / 2)
        Z = Pipeline([(first, knots)]).fit_transform(X, y, **own[0])
        splines = splines_in(knots, fitted=True)
        prepared = splines._prepared_outputs if hasattr(splines, "n_outputs_") else ()  # of no columns
        part = _part_of(model, *budget)
        if any(prepared):
            part.set_params(epsilon=_share_of_model(model, splines) * budget[0], delta=budget[1] / 2)
            beside = prepared + (None,) * (Z.shape[1] - len(prepared))
            if splines.passthrough:
                part._prepared_features = beside
            if _nearly_gaussian(model):
                # Its share is an estimate by continuous noise: the real total is checked when the model is paid for.
                part._whole = Whole(*budget, splines.privacy_guarantee_.events)
        try:
            Pipeline([(last, part)]).fit(Z, y, **own[1])
        except BaseException:
            _adopt(model, clone(model))  # an earlier fit was about other functions
            raise
        _adopt(model, part)
        return self

    @available_if(_last_has("transform"))  # type: ignore[untyped-decorator]
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        return self.fit(X, y, **params).transform(X)

    @available_if(_last_has("fit_predict", "predict"))  # type: ignore[untyped-decorator]
    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Any:
        return self.fit(X, y, **params).predict(X)

    def __getitem__(self, ind: Any) -> Any:
        """Select a step, or a plain pipeline of some steps, which has no budget to divide."""
        if isinstance(ind, slice) and len(self.steps[ind]) < len(self.steps):
            return Pipeline(self.steps[ind])
        return super().__getitem__(ind)


def _check_fit(model: Any, knots: Any, X: Any, y: Any, fit: Callable[[Any, Any], Any]) -> None:
    """Fit a copy up to its payment, so that errors of the model come before the knots are paid for."""
    if not isinstance(model, PrivateEstimatorMixin):  # of another package: cannot be stopped there
        y = read_numbers(y) if is_regressor(model) else read_labels(y, **public_labels(model))
        if y is not None:
            check_consistent_length(X, y)
        return
    epsilon, delta = _budget_of(model)
    trial = _part_of(model, (1.0 - KNOTS_SHARE) * epsilon, delta / 2)
    trial.set_params(ledger=payment_gate(), random_state=None)  # a state is not moved
    vars(trial).pop("_skl_callbacks", None)
    with suppress(PaymentIsNext):
        fit(trial, _without_splines(knots, X))


def _without_splines(knots: Any, X: Any) -> Any:
    """Select the columns that get no splines; zeros if there are none."""
    if isinstance(knots, ColumnTransformer):
        kept = [
            (name, step if step == "passthrough" else "drop", columns)
            for name, step, columns in knots.transformers
        ]
        rest = knots.remainder if knots.remainder == "passthrough" else "drop"
        chosen = ColumnTransformer(kept, remainder=rest, verbose_feature_names_out=False)
        library = type(X).__module__.partition(".")[0]
        if library in ("pandas", "polars") and not any(str(kind).startswith("Sparse") for kind in X.dtypes):
            chosen.set_output(transform=library)  # errors then name the columns
        rows = chosen.fit_transform(X)
        if rows.shape[1]:
            return rows
    return np.zeros((_num_samples(X), 1))


def splines_in(step: Any, *, fitted: bool) -> Any:
    """Find the splines in the first step: the given ones, or the fitted ones, which may be a copy."""
    if not isinstance(step, ColumnTransformer):
        return step
    return step.named_transformers_["splines"] if fitted else step.transformers[0][1]


def _check_steps(first: Any, model: Any) -> None:
    """Refuse steps between which a budget cannot be divided, and different neighbouring data sets."""
    columns = (
        [each[1] for each in first.transformers[:1]] if isinstance(first, ColumnTransformer) else [first]
    )
    if not (columns and isinstance(columns[0], PrivateSplineTransformer)):
        got = type(columns[0] if columns else first).__name__
        raise TypeError(
            "the first step of an additive pipeline must be a PrivateSplineTransformer, or a ColumnTransformer that "
            f"begins with one, got {got}; make another model with sklearn.pipeline.Pipeline."
        )
    adjacencies = columns[0].adjacency, getattr(model, "adjacency", columns[0].adjacency)
    if adjacencies[0] != adjacencies[1]:
        raise ValueError(
            f"adjacency of splines and model must be the same, got {adjacencies[0]!r} and {adjacencies[1]!r}."
        )


def _part_of(model: Any, epsilon: float, delta: float) -> Any:
    """Copy a model with another budget; the model itself does not change."""
    part = object.__new__(type(model))
    vars(part).update(vars(model))
    part.set_params(epsilon=epsilon, delta=delta)
    return part


def _adopt(model: Any, part: Any) -> None:
    """Move fitted attributes from a part to the model."""
    own = {*model.get_params(deep=False), "_prepared_features", "_whole"}
    for name in vars(model).keys() - vars(part).keys() - own:
        delattr(model, name)
    vars(model).update({name: value for name, value in vars(part).items() if name not in own})


def _nearly_gaussian(estimator: Any) -> bool:
    """Check that all draws of an estimator are nearly Gaussian; a subclass of another package may draw otherwise."""
    own = type(estimator).__module__.startswith("skprivate.")
    return own and bool(getattr(estimator, "_nearly_gaussian", False))


def _share_of_model(model: Any, splines: PrivateSplineTransformer) -> float:
    """Compute the share of ε of the model: only nearly Gaussian noise composes to less than the sum."""
    ledgers = [each.get_params(deep=False).get("ledger") for each in (model, splines)]
    if any(ledger is not None for ledger in ledgers) or not _nearly_gaussian(model):
        return 1.0 - KNOTS_SHARE
    n_knots = splines.n_knots
    fewest = max(int(n_knots), 3) if isinstance(n_knots, Integral) else min(KNOTS)
    return model_share(*_budget_of(model), fewest)


def make_additive_pipeline(estimator: Any, *, columns: Any = None, **splines: Any) -> AdditivePipeline:
    """Make an additive model, a linear model on splines of every feature, within one budget.

    If the public number of units is too small for knots, the linear model gets unchanged features and the whole
    budget.

    Parameters
    ----------
    estimator : `~skprivate.UserLevelSGDClassifier`, `~skprivate.UserLevelSGDRegressor` or the like
        Linear model with numbers for ``epsilon`` and ``delta``: the budget of all. It is cloned.
    columns : slice, list of int or str, or bool mask, optional
        Columns that get splines, all by default. The others, such as indicators of categories, follow unchanged. The
        choice must be public, not found in the data.
    **splines
        Parameters of `PrivateSplineTransformer`, such as ``bounds``. Its budget and neighbouring data sets follow from
        the estimator.

    Returns
    -------
    pipeline : `~sklearn.pipeline.Pipeline`
        Steps "splines" and "model". `~skprivate.guarantee_of` states what the fit promises as a whole: at most the
        ε and δ of ``estimator``, for its unit and its neighbouring data sets.

    Raises
    ------
    TypeError
        If ``estimator`` has no parameters ``epsilon`` and ``delta``, or they are no numbers, or a parameter of
        ``splines`` is one that follows from it.

    See Also
    --------
    PrivateSplineTransformer : The first step.

    Notes
    -----
    Splines get .3 ε and half of δ. The model gets half of δ, and the ε with which both compose to (ε, δ): at δ = 10⁻⁶
    .95 ε at ε = .1, .92 at 1 and .86 at 10. It gets .7 ε if budgets of steps add up: with a ledger, since plans may
    then depend on earlier releases, and for estimators whose noise is not nearly Gaussian.

    ``epsilon`` and ``delta`` of the step "model" are always those of all, and may be searched over. A fit that fails
    leaves the model as it was. There is no ``memory``: nothing is cached. If units are too few for knots, the model is
    the same as alone, to the last bit under the same integer ``random_state``. Splines have another one made from it,
    since with one seed simulated noise would be the same in both.

    Estimators of this package that standardise features get the features themselves beside the functions
    (``passthrough`` of the splines), and standardise only the former: a column's line is that of the model alone, and
    does not end where curves do. After the fit they shrink the functions of each feature by how far the released
    values exceed their noise (post-processing: it costs nothing), unless the model has an ``alpha``.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSGDRegressor, guarantee_of
    >>> from skprivate.preprocessing import make_additive_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(20_000, 2))
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.3 * rng.normal(size=20_000)
    >>> model = make_additive_pipeline(UserLevelSGDRegressor(epsilon=1.0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    >>> bool(guarantee_of(model).epsilon <= 1.0)
    True
    """
    budget = _budget_of(estimator)
    given = estimator.get_params(deep=False)
    shared = {
        name: given[name] for name in ("adjacency", "ledger", "random_state") if given.get(name) is not None
    }
    if refused := sorted({"epsilon", "delta", "adjacency", "ledger", "random_state"} & splines.keys()):
        raise TypeError(f"{refused[0]} of splines follows from the estimator: set it there.")
    seed = shared.get("random_state")
    if isinstance(seed, Integral):
        seed = (int(seed) + 2**31) % 2**32
    elif seed is not None:  # a state; the model has a copy of it
        seed = int(public_generator(clone(seed, safe=False)).integers(2**32))
    if _nearly_gaussian(estimator) and estimator._takes_prepared:
        splines.setdefault("passthrough", True)
    knots: Any = PrivateSplineTransformer(**{**splines, **shared, "random_state": seed})
    knots.set_params(epsilon=KNOTS_SHARE * budget[0], delta=budget[1] / 2)
    if columns is not None:
        knots = ColumnTransformer(
            [("splines", knots, columns)], remainder="passthrough", verbose_feature_names_out=False
        )
    return AdditivePipeline([("splines", knots), ("model", clone(estimator))])


def _budget_of(estimator: Any) -> tuple[float, float]:
    """Read (ε, δ) of an estimator."""
    found = []
    for name in ("epsilon", "delta"):
        value = getattr(estimator, name, None)
        if isinstance(value, bool) or not isinstance(value, Real):
            kind = "none" if value is None else type(value).__name__
            raise TypeError(f"estimator must have a number for {name}, which is divided; got {kind}.")
        found.append(float(value))
    return positive("epsilon", found[0]), delta_number(found[1])


@lru_cache(maxsize=256)
def model_share(epsilon: float, delta: float, n_knots: int) -> float:
    """Compute the share of ε of a model behind the knots of one column; each of the two has half of δ.

    More columns are more selections of less ε each, which compose with Gaussian noise to less. So do more knots:
    ``n_knots`` is the smallest number.
    """
    if delta == 0.0:
        return 1.0 - KNOTS_SHARE
    count, allowed = quantile_levels(n_knots - 1), COMPOSED_SHARE * epsilon
    knots = (BoundedRangeEvent(selection_price(count, KNOTS_SHARE * epsilon, delta / 2)), count)
    if price_of_plan([knots], KNOTS_SHARE * epsilon, delta / 2)[1] == 0.0:
        # Few selections are paid without δ: budgets then hardly compose to less than the sum.
        return 1.0 - KNOTS_SHARE
    z = gaussian_noise_multiplier(allowed, delta)
    while (spent := compose_epsilon([knots, (GaussianEvent(z), 1)], delta)) > allowed:
        z *= max(spent / allowed, 1.001)
    share = compose_epsilon([(GaussianEvent(z), 1)], delta / 2) / epsilon
    # The sum is never above the budget; under a δ that pays for Gaussian noise by itself the share would be 0.
    return min(max(share, 1.0 - KNOTS_SHARE), 1.0)
