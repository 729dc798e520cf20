"""Figures of a guarantee, of a ledger, and of utility against ε."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils import check_random_state

from skprivate._messages import pyplot, rounded_up
from skprivate.inspection import guarantee_of
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, SimulatedNoiseWarning
from skprivate.report._other_facts import purpose, spent_after_each

#: False positive rates of the curves; on logarithmic axes from the first positive one.
_RATES = np.unique(np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 28), np.linspace(0.05, 1.0, 58)]))
COLORS = ("#2f5d8a", "#b0702b", "#4c7d5b", "#7a5793", "#a3271d", "#5b6670")
#: Most entries of a ledger whose steps have numbers of their own.
_NUMBERED = 30


def _axes(ax, size):
    """Return the axes, or those of a new figure of this size."""
    return pyplot().subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def hide_borders(ax):
    """Hide the upper and right borders."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _shown(display, ax):
    """Hide borders, and keep the axes and the figure."""
    hide_borders(ax)
    display.ax_, display.figure_ = ax, ax.figure
    return display


def _note(ax, text, at, up, **style):
    """Write a text some points above a place."""
    ax.annotate(text, at, xytext=(0, up), textcoords="offset points", **style)


def add_grid(ax, axis):
    """Add grid lines behind everything else."""
    ax.grid(axis=axis, color="#e2e4e2", linewidth=0.7)
    ax.set_axisbelow(True)


@dataclass(kw_only=True, eq=False, repr=False)
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
    PrivacyGuarantee.trade_off : Computes the curve.
    privacy_report : Shows the curve in a report.

    Examples
    --------
    >>> from skprivate.report import GuaranteeDisplay
    >>> from skprivate.privacy import PrivacyGuarantee
    >>> guarantee = PrivacyGuarantee(1.0, 0.0, "row", "add-remove")
    >>> display = GuaranteeDisplay.from_guarantee(guarantee)
    >>> round(float(display.tpr[0][display.fpr == 0.2][0]), 3)
    0.544
    """

    fpr: Any
    tpr: Any
    labels: Any

    @classmethod
    def from_guarantee(cls, guarantee, *, distance=None, log=False, ax=None):
        """Plot the curve of a guarantee, or of several beside one another.

        Parameters
        ----------
        guarantee : PrivacyGuarantee, list of PrivacyGuarantee, or dict from names to PrivacyGuarantee
            Curves without names are labelled by what their guarantees say.
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
        if isinstance(guarantee, Mapping):
            named = list(guarantee.items())
        else:
            every = [guarantee] if isinstance(guarantee, PrivacyGuarantee) else guarantee
            named = [(None, each) for each in every]
        labels = []
        for name, each in named:
            if not isinstance(each, PrivacyGuarantee):
                raise TypeError(f"guarantee must be a PrivacyGuarantee, or several of them, got {type(each).__name__}.")
            title = repr(each).strip("<>") if name is None else name
            labels.append(title if each.valid_for_release or name is None else f"{title}, simulated")
        tpr = [each.trade_off(_RATES, distance=distance) for _, each in named]
        display = cls(fpr=_RATES, tpr=tpr, labels=labels)
        return display.plot(ax=ax, log=log)

    @classmethod
    def from_estimator(cls, estimator, *, name=None, distance=None, log=False, ax=None):
        """Plot the curve of a fitted model's guarantee.

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
        return cls.from_guarantee({name: guarantee_of(estimator)}, distance=distance, log=log, ax=ax)

    def plot(self, ax=None, *, log=False):
        """Plot the curves.

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
        ax = _axes(ax, (4.8, 4.6))
        from matplotlib.ticker import FuncFormatter

        fpr = np.asarray(self.fpr, dtype=float)
        shown = fpr >= 1e-4 if log else np.ones(fpr.size, dtype=bool)
        (guess,) = ax.plot(
            fpr[shown], fpr[shown], linestyle=(0, (5, 4)), color="#8a939a", linewidth=1.1, label="guessing"
        )
        self.lines_ = []
        for k, (tpr, label) in enumerate(zip(self.tpr, self.labels, strict=True)):
            color = COLORS[k % len(COLORS)]
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
        add_grid(ax, "both")
        ax.legend(handles=[*self.lines_, guess], loc="lower right", frameon=False, fontsize=9)
        return _shown(self, ax)


@dataclass(kw_only=True, eq=False, repr=False)
class LedgerDisplay:
    """Budget that each entry of a ledger has spent, by purpose.

    Each step is an entry and rises from what was spent before to what was spent with it, as the ledger counts: later
    fits are often cheaper than their own ε. Colours are purposes, or who drew. The line above is the budget.

    Parameters
    ----------
    spent : array-like of shape (n_entries,)
        ε spent with each entry.
    purposes : list of str
        Purpose of each entry, or who drew.
    budget : float
        ε of the ledger.
    unit : str or None, default=None
        Unit that the budget protects.
    own : array-like of shape (n_entries,) or None, default=None
        ε of each entry by itself.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    PrivacyLedger : Keeps the entries.
    GuaranteeDisplay : Plots the risk of a guarantee.

    Examples
    --------
    >>> from skprivate.report import LedgerDisplay
    >>> from skprivate.privacy import PrivacyLedger, open_release
    >>> ledger = PrivacyLedger(epsilon=1.0)
    >>> for note in ("counts", "counts", "mean"):
    ...     with open_release(
    ...         epsilon=0.25, unit="row", adjacency="add-remove", ledger=ledger.annotated(note)
    ...     ) as release:
    ...         noisy = release.laplace(0.5, sensitivity=1.0, epsilon=0.25)
    >>> LedgerDisplay.from_ledger(ledger).spent.tolist()
    [0.25, 0.5, 0.75]
    """

    spent: Any
    purposes: Any
    budget: Any
    unit: Any = None
    own: Any = None

    @classmethod
    def from_ledger(cls, ledger, *, ax=None):
        """Read a ledger and plot it; nothing is written to it.

        Parameters
        ----------
        ledger : PrivacyLedger
            What a reservation has paid for is counted with the reservation.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        LedgerDisplay
        """
        if not isinstance(ledger, PrivacyLedger):
            raise TypeError(f"ledger must be a PrivacyLedger, got {type(ledger).__name__}.")
        steps = spent_after_each(ledger)
        display = cls(
            spent=np.array([epsilon for _, epsilon, _ in steps], dtype=float),
            purposes=[purpose(entry) for entry, _, _ in steps],
            budget=ledger.epsilon,
            unit=ledger.unit,
            own=np.array([entry.epsilon for entry, _, _ in steps], dtype=float),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Plot the steps.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        self : LedgerDisplay
        """
        spent = np.maximum.accumulate(np.concatenate([[0.0], np.asarray(self.spent, dtype=float)]))
        n = spent.size - 1
        ax = _axes(ax, (max(5.2, min(2.2 + 0.28 * n, 9.0)), 3.6))
        from matplotlib.patches import Patch
        from matplotlib.ticker import MaxNLocator

        purposes = list(self.purposes)
        names = list(dict.fromkeys(purposes))
        if len(names) > len(COLORS):  # no colour for two of them
            kept = names[: len(COLORS) - 1]
            others = f"{len(names) - len(kept)} others"
            purposes = [name if name in kept else others for name in purposes]
            names = [*kept, others]
        colors = dict(zip(names, COLORS, strict=False))
        place = np.arange(1, n + 1)
        filled = [colors[name] for name in purposes]
        ax.bar(place, spent[:-1], width=0.86, color=filled, alpha=0.16, linewidth=0)
        ax.bar(place, np.diff(spent), bottom=spent[:-1], width=0.86, color=filled, linewidth=0)
        ax.axhline(self.budget, color="#1d2329", linewidth=1.6)
        right = n + 0.6 if n else 1.0
        _note(ax, f"budget ε = {rounded_up(self.budget)}", (right, self.budget), 4, ha="right", fontsize=9)
        numbered = self.own is not None and n <= _NUMBERED
        for x, top, own in zip(place, spent[1:], self.own, strict=True) if numbered else ():
            _note(ax, rounded_up(float(own), 3), (x, top), 3, ha="center", fontsize=8, color="#5b6670")
        ax.set_xlim(0.4, right)
        ax.set_ylim(0, 1.16 * max(self.budget, spent[-1]))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlabel("entry (above each: its own ε)" if numbered else "entry")
        ax.set_ylabel("ε spent" + (f" per {self.unit}" if self.unit else ""))
        if names:
            ax.legend(
                handles=[Patch(color=colors[name], label=name) for name in names],
                loc="lower left",
                bbox_to_anchor=(0.0, 1.0),
                ncols=min(len(names), 3),
                frameon=False,
                fontsize=9,
            )
        return _shown(self, ax)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivacyUtilityDisplay:
    """Scores of a private estimator against its ε, beside what is possible without privacy.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Budgets of one fit.
    scores : array-like of shape (n_epsilons, n_fits)
        Scores of the fits at each.
    reference : float or None, default=None
        Score without privacy.
    score_name : str, default="score"
        Label of the axis.
    name : str or None, default=None
        Label of the curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    GuaranteeDisplay : Plots the risk of a guarantee.
    sklearn.model_selection.ValidationCurveDisplay : Plots scores against any parameter.

    Notes
    -----
    The figure reveals something about its data, and no ledger pays for it: use public or simulated data, or keep the
    figure to whoever holds the data. A choice made by it on private rows is a release.

    Examples
    --------
    >>> from skprivate.report import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay.from_results(
    ...     [0.1, 1.0, 10.0], [[0.1, 0.2], [0.5, 0.6], [0.8, 0.8]], reference=0.82
    ... )
    >>> display.ax_.get_xscale()
    'log'
    """

    epsilons: Any
    scores: Any
    reference: Any = None
    score_name: str = "score"
    name: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        epsilons,
        param_name="epsilon",
        n_repeats=1,
        groups=None,
        cv=None,
        scoring=None,
        fit_params=None,
        reference=None,
        random_state=0,
        n_jobs=None,
        name=None,
        ax=None,
    ):
        """Cross-validate an estimator at each ε, on public or simulated data, and plot the scores.

        Every fit draws simulated noise and is charged to no ledger.

        Parameters
        ----------
        estimator : estimator or pipeline
        X, y
            Public or simulated data.
        epsilons : array-like of float
            Budgets to try.
        param_name : str, default="epsilon"
            The parameter; in a pipeline with the step, such as "model__epsilon".
        n_repeats : int, default=1
            Cross-validations at each ε, with other noise.
        groups : array-like or None, default=None
            For ``cv``, such as users for `~skprivate.model_selection.UserKFold`.
        cv : int, splitter or None, default=None
        scoring : str, callable or None, default=None
        fit_params : dict or None, default=None
            Passed to ``fit``; what has one entry a row is split with the rows.
        reference : estimator, float or None, default=None
            Without privacy: an estimator that is cross-validated as well, or its score.
        random_state : int or RandomState, default=0
            Seeds of the noise.
        n_jobs : int or None, default=None
        name : str or None, default=None
            Label of the curve; the class if None.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        PrivacyUtilityDisplay
        """
        budgets = _budgets(epsilons)
        if param_name not in estimator.get_params():
            raise ValueError(f"param_name must be a parameter of {type(estimator).__name__}, got {param_name!r}.")
        if not n_repeats >= 1:
            raise ValueError(f"n_repeats must be at least 1, got {n_repeats!r}.")
        cv = check_cv(cv, y, classifier=is_classifier(estimator))
        rng = check_random_state(random_state)
        how = {"groups": groups, "cv": cv, "scoring": scoring, "n_jobs": n_jobs, "error_score": "raise"}
        scores = []
        for epsilon in budgets:
            row = []
            for _ in range(n_repeats):
                trial = clone(estimator)
                for key in trial.get_params():
                    if key.split("__")[-1] == "ledger":
                        trial.set_params(**{key: None})
                    elif key.split("__")[-1] == "random_state":
                        trial.set_params(**{key: int(rng.randint(2**31 - 1))})
                trial.set_params(**{param_name: float(epsilon)})
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SimulatedNoiseWarning)
                    row.append(cross_val_score(trial, X, y, params=fit_params, **how))
            scores.append(np.concatenate(row))
        if reference is not None and not isinstance(reference, Real):
            reference = float(np.median(cross_val_score(clone(reference), X, y, **how)))  # as for the others
        return cls.from_results(
            budgets,
            scores,
            reference=reference,
            name=type(estimator).__name__ if name is None else name,
            score_name=scoring if isinstance(scoring, str) else "score",
            ax=ax,
        )

    @classmethod
    def from_results(cls, epsilons, scores, *, reference=None, name=None, score_name="score", ax=None):
        """Plot scores that are known already.

        Parameters
        ----------
        epsilons : array-like of shape (n_epsilons,)
        scores : array-like of shape (n_epsilons, n_fits)
        reference : float or None, default=None
        name : str or None, default=None
        score_name : str, default="score"
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        PrivacyUtilityDisplay
        """
        budgets, table = _budgets(epsilons), np.asarray(scores, dtype=float)
        if table.ndim != 2 or table.shape[0] != budgets.size or table.shape[1] == 0:
            raise ValueError(
                f"scores must have one row for each of {budgets.size} epsilons, got an array of shape {table.shape}."
            )
        display = cls(epsilons=budgets, scores=table, reference=reference, score_name=score_name, name=name)
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Plot the curve: medians, the middle half and all scores.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        self : PrivacyUtilityDisplay
        """
        ax = _axes(ax, (5.6, 3.7))
        order = np.argsort(self.epsilons)
        epsilons, scores = (np.asarray(each, dtype=float)[order] for each in (self.epsilons, self.scores))
        low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75], axis=1)
        color = ax._get_lines.get_next_color() if ax.lines else "#2f5d8a"
        ax.fill_between(epsilons, low, high, color=color, alpha=0.16, linewidth=0)
        each = np.repeat(epsilons, scores.shape[1])
        ax.plot(each, scores.ravel(), "o", color=color, alpha=0.35, markersize=3, markeredgewidth=0)
        name = self.name or "private"
        ax.plot(epsilons, middle, "o-", color=color, linewidth=2, markersize=4.5, label=name)
        if self.reference is not None:
            dashed = {"linestyle": (0, (5, 4)), "linewidth": 1.3}
            ax.axhline(self.reference, color="#5b6670", label="without privacy", **dashed)
        ax.set_xscale("log")
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        ax.minorticks_off()
        ax.set_xlabel("ε of one fit")
        ax.set_ylabel(self.score_name)
        add_grid(ax, "y")
        ax.legend(loc="lower right", frameon=False, fontsize=9)
        return _shown(self, ax)


def _budgets(epsilons):
    budgets = np.asarray(epsilons, dtype=float).ravel()
    if budgets.size == 0 or not (np.isfinite(budgets) & (budgets > 0)).all():
        raise ValueError("epsilons must be positive finite numbers, at least one.")
    return budgets
