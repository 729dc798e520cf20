"""The trade-off curve of a guarantee: how well the best attacker can do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skprivate.inspection import guarantee_of
from skprivate.privacy import PrivacyGuarantee

#: Where the curves are computed; on logarithmic axes from the first positive one.
_RATES = np.unique(np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 28), np.linspace(0.05, 1.0, 58)]))
_COLORS = ("#2f5d8a", "#b0702b", "#4c7d5b", "#7a5793", "#a3271d", "#5b6670")


class GuaranteeDisplay:
    """Largest true positive rates of any attack, for one guarantee or several.

    An attacker who knows everything but one unit's data looks at the release and says whether that unit took part (or
    which of two candidates did). No attack lies above the curve; on the diagonal the attacker guesses.

    Parameters
    ----------
    fpr : array-like of shape (n_points,)
        False positive rates.
    tpr : list of array-like of shape (n_points,)
        Upper bounds on the true positive rates, one array a curve.
    labels : list of str
        One name a curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    See Also
    --------
    skprivate.PrivacyGuarantee.trade_off : The numbers.
    skprivate.report.privacy_report : The curve in a report.

    Examples
    --------
    >>> from skprivate.report import GuaranteeDisplay
    >>> from skprivate.privacy import PrivacyGuarantee
    >>> guarantee = PrivacyGuarantee(1.0, 0.0, "row", "add-remove")
    >>> display = GuaranteeDisplay.from_guarantee(guarantee)
    >>> round(float(display.tpr[0][display.fpr == 0.2][0]), 3)
    0.544
    """

    def __init__(self, *, fpr, tpr, labels):
        self.fpr = fpr
        self.tpr = tpr
        self.labels = labels

    @classmethod
    def from_guarantee(cls, guarantee, *, names=None, distance=None, log=False, ax=None):
        """Show the curve of a guarantee, or of several beside one another.

        Parameters
        ----------
        guarantee : PrivacyGuarantee, list of PrivacyGuarantee, or dict from names to PrivacyGuarantee
        names : str or list of str, default=None
            Labels of the curves; by default what the guarantees say.
        distance : float or None, default=None
            Between the two candidates, where ε is per unit of distance; required there.
        log : bool, default=False
            Whether both axes are logarithmic, which shows attackers who accuse few.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        GuaranteeDisplay
        """
        if isinstance(guarantee, PrivacyGuarantee):
            guarantee = [guarantee]
        if isinstance(guarantee, Mapping):
            names = list(guarantee) if names is None else names
            guarantee = list(guarantee.values())
        every = list(guarantee)
        names = [names] if isinstance(names, str) else names
        for each in every:
            if not isinstance(each, PrivacyGuarantee):
                raise TypeError(
                    f"guarantee must be a PrivacyGuarantee, or several of them, got {type(each).__name__}."
                )
        if names is not None and len(names) != len(every):
            raise ValueError(f"names must be {len(every)} names, one a guarantee, got {len(names)}.")
        labels = [repr(each).strip("<>") for each in every] if names is None else list(names)
        labels = [
            label if each.valid_for_release or names is None else f"{label}, simulated"
            for label, each in zip(labels, every, strict=True)
        ]
        display = cls(
            fpr=_RATES,
            tpr=[each.trade_off(_RATES, distance=distance) for each in every],
            labels=labels,
        )
        return display.plot(ax=ax, log=log)

    @classmethod
    def from_estimator(cls, estimator, *, name=None, distance=None, log=False, ax=None):
        """Show the curve of what a fitted model promises.

        Parameters
        ----------
        estimator : fitted estimator, pipeline or ensemble
        name : str or None, default=None
            Label; the class if None.
        distance, log, ax
            As in `from_guarantee`.

        Returns
        -------
        GuaranteeDisplay
        """
        name = type(estimator).__name__ if name is None else name
        return cls.from_guarantee(guarantee_of(estimator), names=name, distance=distance, log=log, ax=ax)

    def plot(self, ax=None, *, log=False):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new figure if None.
        log : bool, default=False
            Whether both axes are logarithmic.

        Returns
        -------
        self : GuaranteeDisplay
        """
        import matplotlib.pyplot as plt
        from matplotlib.ticker import FuncFormatter

        if ax is None:
            ax = plt.subplots(figsize=(4.8, 4.6), layout="constrained")[1]
        fpr = np.asarray(self.fpr, dtype=float)
        shown = fpr >= 1e-4 if log else np.ones(fpr.size, dtype=bool)
        (guess,) = ax.plot(
            fpr[shown], fpr[shown], linestyle=(0, (5, 4)), color="#8a939a", linewidth=1.1, label="guessing"
        )
        self.lines_ = []
        for k, (tpr, label) in enumerate(zip(self.tpr, self.labels, strict=True)):
            color = _COLORS[k % len(_COLORS)]
            tpr = np.asarray(tpr, dtype=float)
            self.lines_ += ax.plot(fpr[shown], tpr[shown], color=color, linewidth=2.0, label=label)
            if k == 0:
                ax.fill_between(fpr[shown], fpr[shown], tpr[shown], color=color, alpha=0.09, linewidth=0)
        if log:
            ax.set(xscale="log", yscale="log", xlim=(fpr[shown][0], 1), ylim=(fpr[shown][0], 1))
        else:
            ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g} %"))
        ax.set_xlabel("accused falsely, of those who took no part")
        ax.set_ylabel("recognised at most, of those who did")
        ax.grid(color="#e2e4e2", linewidth=0.7)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.legend(handles=[*self.lines_, guess], loc="lower right", frameon=False, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure
        return self
