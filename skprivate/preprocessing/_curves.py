"""Curves of an additive model with confidence bands, from released coefficients and their released covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from skprivate import _validation
from skprivate._messages import TooFewUnitsWarning, must_be, warn_caller
from skprivate.preprocessing import _private_spline_transformer
from skprivate.privacy.noise import FloatArray

#: Points of a curve by default, and points of each interval between released quantiles over which a curve has mean 0.
GRID, NODES = 101, 8
#: Half the range of a feature without knots, in released scales.
HALF_RANGE = 2.0


class CurveBands(NamedTuple):
    """Curves of an additive model with pointwise confidence bands.

    Attributes
    ----------
    names : tuple of str
        Features, or x0, x1, …
    values : ndarray of shape (n_points, n_curves)
        Where each curve is evaluated.
    curve : ndarray of shape (n_points, n_curves)
        What a feature adds to the prediction (to the log odds of the second class), less its mean between the outermost
        released quantiles.
    lower, upper : ndarray of shape (n_points, n_curves)
        Ends of the band; NaN where users were too few.
    level : float
        Chance of a point to be covered, for each by itself.

    See Also
    --------
    make_additive_pipeline : Its pipelines make it with ``confidence_band()``.
    skprivate.report.BandDisplay : Plots it.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSGDRegressor
    >>> from skprivate.preprocessing import make_additive_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(100_000, 1))
    >>> y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=100_000)
    >>> model = make_additive_pipeline(UserLevelSGDRegressor(epsilon=1.0, inference=True), n_knots=9).fit(X, y)
    >>> bands = model.confidence_band(level=0.9)
    >>> bands.lower.shape
    (101, 1)
    """

    names: tuple[str, ...]
    values: FloatArray
    curve: FloatArray
    lower: FloatArray
    upper: FloatArray
    level: float


class _Splines(NamedTuple):
    """A fitted step of splines, and the first of the model's columns that it makes."""

    step: Any
    start: int

    @property
    def columns(self) -> list[list[int]]:
        """The model's columns of each feature."""
        kinds = self.step._prepared_outputs
        own = np.array([k if kind is None else kind[0] for k, kind in enumerate(kinds)])
        return [(self.start + np.flatnonzero(own == j)).tolist() for j in range(self.step.n_features_in_)]

    def ends(self, model: Any) -> list[FloatArray]:
        """Released ends of intervals of each feature, without the outermost extrapolated ones."""
        centres, scales = model.feature_center_, model.feature_scale_
        return [
            knots[1:-1] if len(knots) > 2 else centres[first] + HALF_RANGE * scales[first] * np.array([-1.0, 1.0])
            for knots, (first, *_) in zip(self.step.knots_, self.columns, strict=True)
        ]

    def grid(self, ends: list[FloatArray]) -> FloatArray:
        """Choose numbers from one interval below to one above the released quantiles, within the outermost knots."""
        grids = []
        for each, knots in zip(ends, self.step.knots_, strict=True):
            gaps = np.diff(each)[[0, -1]] if len(each) > 1 and len(knots) else [np.inf if len(knots) else 0.0] * 2
            low, high = each[0] - gaps[0], each[-1] + gaps[1]
            if len(knots):
                low, high = max(low, knots[0]), min(high, knots[-1])
            grids.append(np.linspace(low, high, GRID))
        return np.column_stack(grids)


def last_parts(step: Any, n_columns: int) -> list[tuple[Any, slice]]:
    """List the last transformers within a fitted step that make some columns, and which."""
    places = [(step, slice(0, n_columns))]
    if isinstance(step, ColumnTransformer):
        places = [(each, step.output_indices_[name]) for name, each, _ in step.transformers_]
    return [
        (each.steps[-1][1] if isinstance(each, Pipeline) else each, place)
        for each, place in places
        if len(range(n_columns)[place])  # else it is not fitted
    ]


def curve_bands(pipeline: Any, names: tuple[str, ...] | None, values: Any, level: float) -> CurveBands:
    """Evaluate curves, and standard errors of the sums that they are; ``names`` are those of the model's columns."""
    model = pipeline[-1]
    model._errors_at(level)
    splines = _splines_of(pipeline)
    columns, ends = splines.columns, splines.ends(model)
    names = tuple(names[each[0]].removesuffix("_sp_0") if names else f"x{j}" for j, each in enumerate(columns))
    points = splines.grid(ends) if values is None else _checked(values, names)
    curves, errors = [], []
    for j, (own, nodes) in enumerate(zip(columns, ends, strict=True)):
        if len(nodes) > 1:
            nodes = (nodes[:-1, None] + np.diff(nodes)[:, None] * (np.arange(NODES) + 0.5) / NODES).ravel()
        basis = np.zeros((len(points), model.n_features_in_))
        basis[:, own] = splines.step._columns_of(j, points[:, j]) - splines.step._columns_of(j, nodes).mean(axis=0)
        curves.append(basis @ model.coef_.ravel())
        errors.append(model._errors_at(level, basis))
    curve, half = np.column_stack(curves), norm.isf(0.5 * (1.0 - level)) * np.column_stack(errors)
    if (lost := np.flatnonzero(np.isnan(half).any(axis=0))).size:
        named = ", ".join(repr(names[j]) for j in lost[:5].tolist())
        warn_caller(
            f"Curves of {named}: noise hides combinations of their functions, and the band is NaN. More users are "
            "needed (two columns: some 70 000/ε with 9 knots, 200 000/ε with 17), or fewer knots.",
            TooFewUnitsWarning,
        )
    return CurveBands(names, points, curve, curve - half, curve + half, level)


def _splines_of(pipeline: Any) -> _Splines:
    """Find the one step of splines right before the model."""
    *before, (_, model) = pipeline.steps
    parts = last_parts(before[0][1], model.n_features_in_) if len(before) == 1 else []
    found = [
        _Splines(each, place.start)
        for each, place in parts
        if isinstance(each, _private_spline_transformer.PrivateSplineTransformer)
    ]
    if len(found) != 1:
        raise ValueError(
            f"confidence_band needs one step of splines right before the model, got {len(found)}. Make the pipeline by "
            "make_additive_pipeline, or by make_private_pipeline from that."
        )
    return found[0]


def _checked(values: Any, names: tuple[str, ...]) -> FloatArray:
    """Read the numbers at which curves are evaluated."""
    if _validation.is_frame(values):
        values = np.column_stack([values[name] for name in names])
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != len(names):
        raise ValueError(must_be("values", f"an array of shape (n_points, {len(names)})", f"shape {points.shape}"))
    return points
