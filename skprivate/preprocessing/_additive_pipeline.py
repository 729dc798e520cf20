"""A linear model on splines, with one budget for both."""

from __future__ import annotations

from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from skprivate.preprocessing._budget import selection_price
from skprivate.preprocessing._private_spline_transformer import KNOTS, PrivateSplineTransformer
from skprivate.privacy import BoundedRangeEvent, GaussianEvent, compose_epsilon, gaussian_noise_multiplier
from skprivate.privacy._account import price_of_plan
from skprivate.privacy._dialect import delta_number, positive
from skprivate.privacy._quantiles import quantile_levels

#: Share of ε for knots. On generated data .3 and .4 are level, and less is lost where there are too few units for any.
KNOTS_SHARE = 0.3
#: Part of ε that knots and Gaussian noise may compose to: the model also selects, which composes to a little more.
COMPOSED = 0.99


def make_additive_pipeline(estimator: Any, *, columns: Any = None, **splines: Any) -> Pipeline:
    """Linear model on splines of every feature, an additive model, within one budget.

    Curves are found where the public number of units is enough for knots; below, features reach the linear model as
    they are and it has nearly all of the budget.

    Parameters
    ----------
    estimator : `~skprivate.UserLevelSGDClassifier`, `~skprivate.UserLevelSGDRegressor` or the like
        Linear model with numbers for ``epsilon`` and ``delta``: the budget of all. It is cloned.
    columns : slice, list of int or str, or bool mask, optional
        Columns that get splines, all by default. The others, such as indicators of categories, stay as they are, behind
        them. Which they are must be public, not found in the data.
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
    Splines get .3 ε and half of δ. The model gets half of δ and what then composes to (ε, δ) for any number of
    columns: at δ = 10⁻⁶ .95 ε at ε = .1, .92 at 1 and .86 at 10. It gets .7 ε where budgets of steps add up: with a
    ledger, since plans may then depend on what was released before, and for estimators whose noise is not nearly
    Gaussian.

    An integer ``random_state`` s of the estimator becomes 2s for splines and 2s + 1 for the model: with one seed
    simulated noise would be the same in both.

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
    seeds = (2 * int(seed), 2 * int(seed) + 1) if isinstance(seed, Integral) else (seed, seed)
    epsilon, delta = budget
    n_knots = splines.get("n_knots", "auto")
    fewest = max(int(n_knots), 3) if isinstance(n_knots, Integral) else KNOTS[-1]
    # What composes to less than the sum is noise that is nearly Gaussian: of other draws that is not known.
    # A subclass from elsewhere inherits the word, but may draw otherwise.
    own = type(estimator).__module__.startswith("skprivate.")
    adds_up = shared.get("ledger") is not None or not (own and getattr(estimator, "_nearly_gaussian", False))
    share = 1.0 - KNOTS_SHARE if adds_up else model_share(epsilon, delta, fewest)
    knots: Any = PrivateSplineTransformer(
        **{
            **splines,
            **shared,
            "epsilon": KNOTS_SHARE * epsilon,
            "delta": delta / 2,
            "random_state": seeds[0],
        }
    )
    if columns is not None:
        knots = ColumnTransformer(
            [("splines", knots, columns)], remainder="passthrough", verbose_feature_names_out=False
        )
    model = clone(estimator).set_params(epsilon=share * epsilon, delta=delta / 2)
    if "random_state" in given:
        model.set_params(random_state=seeds[1])
    return Pipeline([("splines", knots), ("model", model)])


def _budget_of(estimator: Any) -> tuple[float, float]:
    """(ε, δ) of an estimator."""
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
    """Share of ε of a model behind the knots of one column; each of the two has half of δ.

    More columns are more selections of less ε each, which compose with Gaussian noise to less.

    Parameters
    ----------
    epsilon, delta : float
    n_knots : int
        The fewest.
    """
    if delta == 0.0:
        return 1.0 - KNOTS_SHARE
    count, allowed = quantile_levels(n_knots - 1), COMPOSED * epsilon
    knots = (BoundedRangeEvent(selection_price(count, KNOTS_SHARE * epsilon, delta / 2)), count)
    if price_of_plan([knots], KNOTS_SHARE * epsilon, delta / 2)[1] == 0.0:
        # So few selections are paid without δ, and of the δ that is left budgets hardly compose to less than the sum.
        return 1.0 - KNOTS_SHARE
    z = gaussian_noise_multiplier(allowed, delta)
    while (spent := compose_epsilon([knots, (GaussianEvent(z), 1)], delta)) > allowed:
        z *= max(spent / allowed, 1.001)
    share = compose_epsilon([(GaussianEvent(z), 1)], delta / 2) / epsilon
    # Sums are never above the budget; under a δ that pays for Gaussian noise by itself the share would be 0.
    return min(max(share, 1.0 - KNOTS_SHARE), 1.0)
