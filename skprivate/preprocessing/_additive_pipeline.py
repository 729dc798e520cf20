"""A linear model on splines, with one budget for both."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer

from skprivate.preprocessing import _private_pipeline, _private_spline_transformer
from skprivate.privacy import PrivacyLedger, public_generator


def make_additive_pipeline(
    estimator: Any,
    *,
    columns: object = None,
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: PrivacyLedger | None = None,
    **splines: Any,
) -> _private_pipeline.PrivatePipeline:
    """Make an additive model, a linear model on splines of every feature, within one budget.

    If the public number of units is too small for knots, the linear model gets unchanged features and the whole
    budget.

    Parameters
    ----------
    estimator : `~skprivate.UserLevelSGDClassifier`, `~skprivate.UserLevelSGDRegressor` or the like
        Linear model. It is cloned.
    columns : slice, list of int or str, or bool mask, optional
        Columns that get splines, all by default. The others, such as indicators of categories, follow unchanged. The
        choice must be public, not found in the data.
    epsilon : float > 0, optional
        Budget of the whole. By default that of the estimator.
    delta : float in [0, 1), optional
        Budget of the whole. By default that of the estimator.
    ledger : PrivacyLedger, optional
        Ledger of both steps. By default that of the estimator.
    **splines
        Parameters of `PrivateSplineTransformer`, such as ``bounds``. Its neighbouring data sets and random state follow
        from the estimator.

    Returns
    -------
    pipeline : `~sklearn.pipeline.Pipeline`
        Steps "splines" and "model". Its parameters ``epsilon``, ``delta`` and ``ledger`` are those of the whole.
        `~skprivate.guarantee_of` states what the fit promises: at most (ε, δ), for the unit and the neighbouring data
        sets of ``estimator``.

    Raises
    ------
    TypeError
        If there is no number for ``epsilon`` or ``delta``, here or in ``estimator``, or a parameter of ``splines`` is
        one that follows from it.

    See Also
    --------
    PrivateSplineTransformer : Makes the splines.
    make_private_pipeline : Prepares a raw table before.

    Notes
    -----
    Splines get 0.3 ε and half of δ. The model gets half of δ, and the ε with which both compose to (ε, δ): at δ = 10⁻⁶
    0.95 ε at ε = 0.1, 0.92 at 1 and 0.86 at 10. It gets 0.7 ε if budgets of steps add up: with a ledger, since plans
    may then depend on earlier releases, and for estimators whose noise is not nearly Gaussian.

    Where the whole has none, ``epsilon`` and ``delta`` of the step "model" are those of all. A fit that fails
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
    >>> model = make_additive_pipeline(UserLevelSGDRegressor(), epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    >>> bool(guarantee_of(model).epsilon <= 1.0)
    True
    """
    given = {"epsilon": epsilon, "delta": delta}
    budget = _private_pipeline.budget_of({k: getattr(estimator, k, None) if v is None else v for k, v in given.items()})
    if refused := sorted({"adjacency", "random_state"} & splines.keys()):
        raise TypeError(f"{refused[0]} of the splines follows from the estimator: set it there.")
    if _private_pipeline.nearly_gaussian(estimator) and estimator._takes_prepared:
        splines.setdefault("passthrough", True)
    knots: Any = _private_spline_transformer.PrivateSplineTransformer(**splines, **shared_parameters(estimator))
    knots.set_params(epsilon=_private_pipeline.KNOTS_SHARE * budget[0], delta=budget[1] / 2)
    if columns is not None:
        knots = ColumnTransformer(
            [("splines", knots, columns)], remainder="passthrough", verbose_feature_names_out=False
        )
    steps = [("splines", knots), ("model", clone(estimator))]
    return _private_pipeline.PrivatePipeline(steps, epsilon=epsilon, delta=delta, ledger=ledger)


def shared_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Select parameters of a model that private steps before it have too; with another seed, for other noise."""
    given = estimator.get_params(deep=False)
    shared = {name: given[name] for name in ("adjacency", "ledger", "random_state") if given.get(name) is not None}
    seed = shared.get("random_state")
    if isinstance(seed, Integral):
        shared["random_state"] = (int(seed) + 2**31) % 2**32
    elif seed is not None:  # a state; the model has a copy of it
        shared["random_state"] = int(public_generator(clone(seed, safe=False)).integers(2**32))
    return shared
