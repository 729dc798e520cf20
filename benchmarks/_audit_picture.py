"""Both sides of an audit in one picture: what an attack achieved, what no attack can exceed."""

from __future__ import annotations

import numpy as np

from skprivate.audit.attacks._report import clopper_pearson

_AXES = {"accuracy": "probability of guessing the sensitive bit", "epsilon": "ε"}


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
    """

    def __init__(self, *, labels, achieved, achieved_low, limit, quantity="accuracy", baseline=0.5, refuted=None):
        self.labels = labels
        self.achieved = achieved
        self.achieved_low = achieved_low
        self.limit = limit
        self.refuted = refuted
        self.quantity = quantity
        self.baseline = baseline

    @classmethod
    def from_estimator(cls, auditor, X, y, *, name):
        """Evaluate a fitted auditor's attack on held-out pairs, beside its certificate."""
        hits, n = int(np.sum(auditor.predict(X) == y)), len(y)
        return cls(
            labels=[name],
            achieved=np.array([hits / n]),
            achieved_low=np.array([clopper_pearson(hits, n, auditor.confidence, side="lower")[0]]),
            limit=np.array([auditor.accuracy_upper_bound_]),
        )

    def plot(self):
        """Draw the picture."""
        import matplotlib.pyplot as plt

        low, limit = np.asarray(self.achieved_low, dtype=float), np.asarray(self.limit, dtype=float)
        achieved = np.asarray(self.achieved, dtype=float)
        finite = np.concatenate([low, limit, [self.baseline]])
        edge = 1.5 * max(finite[np.isfinite(finite)].max(), 1e-9)  # where what has no end is cut off
        low, limit, achieved = (np.minimum(values, edge) for values in (low, limit, achieved))
        n = low.size
        ax = plt.subplots(figsize=(7.0, 0.8 + 0.42 * n), layout="constrained")[1]
        rows = np.arange(n)[::-1]
        broken = low > limit if self.refuted is None else np.asarray(self.refuted, dtype=bool)
        colors = np.where(broken, "#a3271d", "#2f5d8a")
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
            plt.Rectangle((0, 0), 1, 1, color="#2f5d8a", label="found for certain"),
            plt.Rectangle((0, 0), 1, 1, color="#e6e6e6", label="left open"),
            plt.Line2D([], [], color="#222222", linewidth=2.2, label=limit_name),
        ]
        if not np.allclose(achieved, low):
            handles.insert(1, plt.Line2D([], [], color="#1f3b5c", marker="o", linestyle="", label="estimate"))
        if broken.any():
            handles.append(plt.Rectangle((0, 0), 1, 1, color="#a3271d", label="claim refuted"))
        ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(handles), frameon=False)
        ax.spines["left"].set_visible(False)
        ax.grid(visible=False, axis="y")
        ax.tick_params(axis="y", length=0)
        self.ax_, self.figure_ = ax, ax.figure
        return self
