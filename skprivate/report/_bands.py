"""Figure of the curves of an additive model with their confidence bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skprivate._messages import must_be, pyplot
from skprivate.privacy.noise import FloatArray
from skprivate.report._displays import COLORS, add_grid, hide_borders

#: Most curves beside one another.
_COLUMNS = 3


@dataclass(kw_only=True, eq=False, repr=False)
class BandDisplay:
    """Curves of an additive model with pointwise confidence bands, one panel a feature.

    Parameters
    ----------
    names : sequence of str
        Features.
    values, curve, lower, upper : array-like of shape (n_points, n_curves)
        As of `~skprivate.preprocessing.CurveBands`. A curve whose band is NaN is shown without one.
    level : float
        Confidence level.
    log_odds : bool, default=False
        Whether curves add to log odds.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_curves,)
    figure_ : matplotlib Figure

    See Also
    --------
    skprivate.preprocessing.make_additive_pipeline : Makes models with curves.

    Notes
    -----
    Curves and bands follow from what the fit released: the figure costs nothing more.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.report import BandDisplay
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> display = BandDisplay(
    ...     names=["age"], values=x, curve=np.sin(x), lower=np.sin(x) - 0.2, upper=np.sin(x) + 0.2, level=0.95
    ... ).plot()
    >>> display.axes_[0].get_xlabel()
    'age'
    """

    names: Sequence[str]
    values: Any
    curve: Any
    lower: Any
    upper: Any
    level: float
    log_odds: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        values: Any = None,
        *,
        level: float = 0.95,
        features: Sequence[str] | None = None,
        ax: Any = None,
    ) -> BandDisplay:
        """Plot the curves of a fitted additive pipeline.

        Parameters
        ----------
        estimator : fitted pipeline
            With ``confidence_band``, as `~skprivate.preprocessing.make_additive_pipeline` makes it of a model with
            ``inference=True``.
        values : array-like of shape (n_points, n_curves), optional
            Numbers at which each curve is evaluated.
        level : float in (0, 1), default=0.95
            Confidence level.
        features : list of str, optional
            Features that are shown, all by default.
        ax : array-like of matplotlib Axes, optional
            One a curve; a new figure by default.

        Returns
        -------
        BandDisplay
        """
        bands = estimator.confidence_band(values, level)
        names = list(bands.names)
        shown = names if features is None else list(features)
        if unknown := [name for name in shown if name not in names]:
            raise ValueError(must_be("features", f"among {names}", unknown[0]))
        places = [names.index(name) for name in shown]
        arrays = {key: getattr(bands, key)[:, places] for key in ("values", "curve", "lower", "upper")}
        return cls(names=shown, level=level, log_odds=hasattr(estimator, "classes_"), **arrays).plot(ax=ax)

    def plot(self, ax: Any = None) -> BandDisplay:
        """Plot the curves.

        Parameters
        ----------
        ax : array-like of matplotlib Axes, optional
            One a curve; a new figure by default.

        Returns
        -------
        self : BandDisplay
        """
        n_curves = len(self.names)
        if ax is None:
            n_columns = min(n_curves, _COLUMNS)
            n_rows = -(-n_curves // n_columns)
            size = (0.6 + 3.1 * n_columns, 0.4 + 2.6 * n_rows)
            figure, grid = pyplot().subplots(
                n_rows, n_columns, figsize=size, layout="constrained", sharey=True, squeeze=False
            )
            axes = grid.ravel()
            for empty in axes[n_curves:]:
                empty.remove()
            axes = axes[:n_curves]
        else:
            axes = np.asarray(ax, dtype=object).ravel()
            if len(axes) != n_curves:
                raise ValueError(must_be("ax", f"{n_curves} axes, one a curve", len(axes)))
            figure = axes[0].figure
        columns = (np.asarray(each, dtype=float).T for each in (self.values, self.curve, self.lower, self.upper))
        for k, (own, name, *arrays) in enumerate(zip(axes, self.names, *columns, strict=True)):
            self._plot_one(own, name, *arrays, first=k == 0)
            if ax is not None or k % _COLUMNS == 0:
                own.set_ylabel("adds to the log odds" if self.log_odds else "adds to the prediction")
        self.axes_, self.figure_ = axes, figure
        return self

    def _plot_one(
        self,
        ax: Any,
        name: str,
        values: FloatArray,
        curve: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        *,
        first: bool,
    ) -> None:
        order = np.argsort(values)
        values, curve, lower, upper = (each[order] for each in (values, curve, lower, upper))
        missing = np.isnan(lower).all()
        label = "no band: too few users" if missing else f"{100 * self.level:g} % band"
        ax.fill_between(values, lower, upper, color=COLORS[0], alpha=0.22, linewidth=0, label=label)
        ax.plot(values, curve, color=COLORS[0], linewidth=1.8)
        ax.axhline(0.0, color="#8a939a", linewidth=0.8)
        ax.set_xlabel(name)
        add_grid(ax, "y")
        if first or missing:
            ax.legend(loc="best", frameon=False, fontsize=8, handlelength=0.0 if missing else 1.2)
        hide_borders(ax)
