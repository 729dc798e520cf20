"""What privacy costs: scores against ε, with the spread of repeated fits."""

from __future__ import annotations

import warnings
from numbers import Real

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv, cross_val_score
from sklearn.utils import check_random_state

from skprivate.privacy import SimulatedNoiseWarning


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

    Notes
    -----
    The picture says something of the data it was made from, and no ledger pays for it: use public or simulated data, or
    keep the picture to whoever holds the data. What is chosen by it on private rows is a release.

    Examples
    --------
    >>> from skprivate.report import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay.from_results(
    ...     [0.1, 1.0, 10.0], [[0.1, 0.2], [0.5, 0.6], [0.8, 0.8]], reference=0.82
    ... )
    >>> display.ax_.get_xscale()
    'log'
    """

    def __init__(self, *, epsilons, scores, reference=None, score_name="score", name=None):
        self.epsilons = epsilons
        self.scores = scores
        self.reference = reference
        self.score_name = score_name
        self.name = name

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
        score_name=None,
        ax=None,
    ):
        """Cross-validate an estimator at each ε, on public or simulated data, and show the scores.

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
        name, score_name : str or None, default=None
            Labels of the curve and the axis.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        PrivacyUtilityDisplay
        """
        budgets = _budgets(epsilons)
        if param_name not in estimator.get_params():
            raise ValueError(
                f"param_name must be a parameter of {type(estimator).__name__}, got {param_name!r}."
            )
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
                    warnings.simplefilter(
                        "ignore", SimulatedNoiseWarning
                    )  # asked for by the name of this method
                    row.append(cross_val_score(trial, X, y, params=fit_params, **how))
            scores.append(np.concatenate(row))
        if reference is not None and not isinstance(reference, Real):
            reference = float(np.median(cross_val_score(clone(reference), X, y, **how)))  # as for the others
        display = cls(
            epsilons=budgets,
            scores=np.array(scores),
            reference=reference,
            score_name=score_name or (scoring if isinstance(scoring, str) else "score"),
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_results(cls, epsilons, scores, *, reference=None, name=None, score_name="score", ax=None):
        """Show scores that are known already.

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
        """Draw the curve: medians, the middle half and all scores.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        self : PrivacyUtilityDisplay
        """
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots(figsize=(5.6, 3.7), layout="constrained")[1]
        order = np.argsort(self.epsilons)
        epsilons, scores = (
            np.asarray(self.epsilons, dtype=float)[order],
            np.asarray(self.scores, dtype=float)[order],
        )
        low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75], axis=1)
        color = ax._get_lines.get_next_color() if ax.lines else "#2f5d8a"
        ax.fill_between(epsilons, low, high, color=color, alpha=0.16, linewidth=0)
        ax.plot(
            np.repeat(epsilons, scores.shape[1]),
            scores.ravel(),
            "o",
            color=color,
            alpha=0.35,
            markersize=3,
            markeredgewidth=0,
        )
        ax.plot(
            epsilons, middle, "o-", color=color, linewidth=2, markersize=4.5, label=self.name or "private"
        )
        if self.reference is not None:
            ax.axhline(
                self.reference, color="#5b6670", linestyle=(0, (5, 4)), linewidth=1.3, label="without privacy"
            )
        ax.set_xscale("log")
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        ax.minorticks_off()
        ax.set_xlabel("ε of one fit")
        ax.set_ylabel(self.score_name)
        ax.grid(axis="y", color="#e2e4e2", linewidth=0.7)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.legend(loc="lower right", frameon=False, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _budgets(epsilons):
    budgets = np.asarray(epsilons, dtype=float).ravel()
    if budgets.size == 0 or not (np.isfinite(budgets) & (budgets > 0)).all():
        raise ValueError("epsilons must be positive finite numbers, at least one.")
    return budgets
