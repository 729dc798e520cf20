"""Both sides of an audit in one picture: what an attack achieved, what no attack can exceed."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skprivate.audit import clopper_pearson
from skprivate.privacy._dialect import rounded_up

_AXES = {
    "accuracy": "probability of guessing the sensitive bit",
    "epsilon": "ε",
}


class AuditDisplay:
    """Two-sided picture of one or several audits.

    For each row, a bar up to what was achieved for certain (the lower end of an exact interval), a mark at
    the estimate, and a line at the limit: a certificate (no attack does better) or a claim. The space between
    is what the audit leaves open; a bar beyond its limit is a contradiction and drawn in red.

    Parameters
    ----------
    labels : list of str
        One name a row.
    achieved : array-like of shape (n_rows,)
        Estimates of what the attack achieved.
    achieved_low : array-like of shape (n_rows,)
        Lower confidence bounds of them.
    limit : array-like of shape (n_rows,)
        Upper bound for every attack, or claimed ε.
    quantity : {"accuracy", "epsilon"}, default="accuracy"
    baseline : float, default=0.5
        Value that needs no attack.
    refuted : array-like of bool, shape (n_rows,), or None, default=None
        Where the limit is refuted; where it lies below ``achieved_low`` if None.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import FiniteAdversaryAuditor
    >>> from skprivate.displays import AuditDisplay
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=4000)
    >>> t = rng.normal(size=(4000, 1)) + 0.3 * s[:, None]
    >>> auditor = FiniteAdversaryAuditor(assumption="monotone").fit(t[:2000], s[:2000])
    >>> display = AuditDisplay.from_estimator(auditor, t[2000:], s[2000:])
    >>> bool(display.achieved_low[0] < display.limit[0])
    True
    """

    def __init__(
        self, *, labels, achieved, achieved_low, limit, quantity="accuracy", baseline=0.5, refuted=None
    ):
        self.labels = labels
        self.achieved = achieved
        self.achieved_low = achieved_low
        self.limit = limit
        self.refuted = refuted
        self.quantity = quantity
        self.baseline = baseline

    @classmethod
    def from_estimator(cls, auditor, X, y, *, labels=None, name=None, confidence=None, ax=None):
        """Evaluate a fitted auditor's attack on held-out pairs and show it with the certificate.

        Parameters
        ----------
        auditor : fitted FiniteAdversaryAuditor
        X, y : array-like
            Model outputs and sensitive bits that the auditor was not fitted on.
        labels : array-like of shape (n,) or None, default=None
            True labels of the records, where the auditor was fitted with such.
        name : str or None, default=None
            Label of the row.
        confidence : float or None, default=None
            For the attack's accuracy; that of the auditor if None.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        AuditDisplay
        """
        check_is_fitted(auditor)
        return cls.from_predictions(
            y,
            auditor.predict(X) if labels is None else auditor.predict(X, labels),
            limit=auditor.accuracy_upper_bound_,
            name=type(auditor).__name__ if name is None else name,
            confidence=auditor.confidence if confidence is None else confidence,
            ax=ax,
        )

    @classmethod
    def from_predictions(cls, y_true, y_pred, *, limit=None, name=None, confidence=0.95, ax=None):
        """Show the accuracy of guesses that somebody made, beside a limit where there is one.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            The sensitive bits; the guesses were made without them.
        y_pred : array-like of shape (n,)
            Guesses of them.
        limit : float, AuditReport or None, default=None
            What no attack exceeds: a probability, or the report of a `FiniteAdversaryAuditor`. None: 1.
        name : str or None, default=None
            Label of the row.
        confidence : float, default=0.95
            Of the lower end of the exact interval for the accuracy.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        AuditDisplay

        Examples
        --------
        >>> from skprivate.displays import AuditDisplay
        >>> display = AuditDisplay.from_predictions([0, 1] * 50, [0, 1, 1, 1] * 25, limit=0.9)
        >>> float(display.achieved[0])
        0.75
        """
        truth, guesses = np.asarray(y_true), np.asarray(y_pred)
        if truth.ndim != 1 or truth.shape != guesses.shape or truth.size == 0:
            raise ValueError(
                f"y_true and y_pred must be of one shape (n,), got {truth.shape} and {guesses.shape}."
            )
        hits = int((truth == guesses).sum())
        most = 1.0 if limit is None else float(getattr(limit, "accuracy_upper_bound", limit))
        if not 0.0 <= most <= 1.0:
            raise ValueError(f"limit must be a probability or an AuditReport, got {limit!r}.")
        display = cls(
            labels=["attack" if name is None else name],
            achieved=np.array([hits / truth.size]),
            achieved_low=np.array([clopper_pearson(hits, truth.size, confidence, side="lower")[0]]),
            limit=np.array([most]),
        )
        return display.plot(ax=ax)

    @classmethod
    def from_audits(cls, audits, *, names=None, ax=None):
        """Show claimed against audited ε for the results of `audit_estimator`.

        Parameters
        ----------
        audits : sequence of EstimatorAudit
        names : sequence of str or None, default=None
            Labels; class names and claims if None.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        AuditDisplay
        """
        audits = list(audits)
        if names is None:
            names = [f"{audit.name}, ε = {rounded_up(audit.claimed_epsilon)}" for audit in audits]
        bounds = np.array([audit.epsilon_lower_bound for audit in audits])
        display = cls(
            labels=list(names),
            achieved=bounds,
            achieved_low=bounds,
            limit=np.array([audit.claimed_epsilon for audit in audits]),
            quantity="epsilon",
            baseline=0.0,
            refuted=np.array([audit.violated for audit in audits]),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        self : AuditDisplay
        """
        import matplotlib.pyplot as plt

        low, limit = np.asarray(self.achieved_low, dtype=float), np.asarray(self.limit, dtype=float)
        achieved = np.asarray(self.achieved, dtype=float)
        finite = np.concatenate([low, limit, [self.baseline]])
        edge = 1.5 * max(finite[np.isfinite(finite)].max(), 1e-9)  # where what has no end is cut off
        low, limit, achieved = (np.minimum(values, edge) for values in (low, limit, achieved))
        n = low.size
        if ax is None:
            ax = plt.subplots(figsize=(7.0, 0.8 + 0.42 * n), layout="constrained")[1]
        rows = np.arange(n)[::-1]
        broken = low > limit if self.refuted is None else np.asarray(self.refuted, dtype=bool)
        colors = np.where(broken, "#c0392b", "#4c78a8")
        ax.barh(rows, np.maximum(low - self.baseline, 0.0), left=self.baseline, height=0.55, color=colors)
        open_width = np.maximum(limit - np.maximum(low, self.baseline), 0.0)
        ax.barh(rows, open_width, left=np.maximum(low, self.baseline), height=0.55, color="#e6e6e6")
        ax.vlines(limit, rows - 0.38, rows + 0.38, color="#222222", linewidth=2.2)
        if not np.allclose(achieved, low):
            ax.plot(achieved, rows, "o", color="#1f3b5c", markersize=5)
        ax.set_yticks(rows, self.labels)
        ax.set_ylim(-0.7, n - 0.3)
        ax.set_xlabel(_AXES.get(self.quantity, self.quantity))
        top = max(limit.max(), low.max())
        ax.set_xlim(self.baseline, top + 0.06 * (top - self.baseline) + 1e-9)
        limit_name = "claim" if self.quantity == "epsilon" else "no attack beyond"
        handles = [
            plt.Rectangle((0, 0), 1, 1, color="#4c78a8", label="found for certain"),
            plt.Rectangle((0, 0), 1, 1, color="#e6e6e6", label="left open"),
            plt.Line2D(
                [],
                [],
                color="#222222",
                linewidth=2.2,
                label=limit_name,
            ),
        ]
        if not np.allclose(achieved, low):
            handles.insert(1, plt.Line2D([], [], color="#1f3b5c", marker="o", linestyle="", label="estimate"))
        if broken.any():
            handles.append(plt.Rectangle((0, 0), 1, 1, color="#c0392b", label="claim refuted"))
        ax.legend(
            handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(handles), frameon=False
        )
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.tick_params(axis="y", length=0)
        self.ax_, self.figure_ = ax, ax.figure
        return self
