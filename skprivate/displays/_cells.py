"""Which combinations of values an additive model of curated bags learned most about."""

from __future__ import annotations

import numpy as np


class LargestCellsDisplay:
    """Bars of the largest coefficients of a curated-bag model, one for each value or combination of values.

    Parameters
    ----------
    labels : list of str
        Columns and values of each cell.
    coefficients : array-like of shape (n_cells,)
        Contribution of each cell to the score.
    counts : array-like of shape (n_cells,)
        Public number of rows of each.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skprivate import CuratedBagGAMClassifier
    >>> from skprivate.displays import LargestCellsDisplay
    >>> X = [["a", "x"], ["a", "y"], ["b", "x"], ["b", "y"]] * 25
    >>> model = CuratedBagGAMClassifier(epsilon=None).fit(X, [1, 0, 0, 0] * 25)
    >>> LargestCellsDisplay.from_estimator(model, n_cells=1, crosses_only=True).labels
    ['x0, x1 = a, x']
    """

    def __init__(self, *, labels, coefficients, counts):
        self.labels = labels
        self.coefficients = coefficients
        self.counts = counts

    @classmethod
    def from_estimator(cls, estimator, *, n_cells=12, crosses_only=False, ax=None):
        """The largest cells of a fitted model.

        Parameters
        ----------
        estimator : fitted CuratedBagGAMClassifier or CuratedBagGAMRegressor
        n_cells : int, default=12
            How many.
        crosses_only : bool, default=False
            Whether sets of one column are left out.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        LargestCellsDisplay
        """
        every = estimator.largest_cells(sum(len(table) for table in estimator.tables_))
        cells = [cell for cell in every if len(cell[0]) > 1 or not crosses_only][:n_cells]
        display = cls(
            labels=[f"{', '.join(names)} = {', '.join(values)}" for names, values, _, _ in cells],
            coefficients=np.array([cell[2] for cell in cells]),
            counts=np.array([cell[3] for cell in cells]),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new one if None.

        Returns
        -------
        LargestCellsDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(6, 0.3 * len(self.labels) + 0.9))
        place = np.arange(len(self.labels))[::-1]
        colors = ["tab:blue" if value > 0 else "tab:orange" for value in self.coefficients]
        ax.barh(place, self.coefficients, color=colors)
        ax.axvline(0.0, color="0.3", linewidth=0.8)
        ax.set_yticks(
            place, [f"{label}  ({count})" for label, count in zip(self.labels, self.counts, strict=True)]
        )
        ax.tick_params(axis="y", labelsize=7)
        ax.set_xlabel("contribution to the score")
        self.ax_, self.figure_ = ax, ax.figure
        return self
