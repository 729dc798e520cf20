"""The budget of a ledger over its entries."""

from __future__ import annotations

import numpy as np

from skprivate._messages import rounded_up
from skprivate.privacy import PrivacyLedger
from skprivate.report._other_facts import spent_after_each

_COLORS = ("#2f5d8a", "#b0702b", "#4c7d5b", "#7a5793", "#a3271d", "#5b6670")
#: With more entries the steps have no numbers of their own.
_NUMBERED = 30


class LedgerDisplay:
    """What of a budget was spent, entry by entry, and on what.

    Each step is an entry and rises from what was spent before to what was spent with it, as the ledger counts: later
    fits are often cheaper than their own ε. Colours tell who drew, or what for. The line above is the budget.

    Parameters
    ----------
    spent : array-like of shape (n_entries,)
        ε spent with each entry.
    purposes : list of str
        Who drew, or what for, one an entry.
    budget : float
        ε of the ledger.
    unit : str or None, default=None
        Whom the budget is for.
    own : array-like of shape (n_entries,) or None, default=None
        ε of each entry by itself.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

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

    def __init__(self, *, spent, purposes, budget, unit=None, own=None):
        self.spent = spent
        self.purposes = purposes
        self.budget = budget
        self.unit = unit
        self.own = own

    @classmethod
    def from_ledger(cls, ledger, *, by="note", ax=None):
        """Read a ledger and show it; nothing is written to it.

        Parameters
        ----------
        ledger : PrivacyLedger
            What a reservation has paid for is counted with the reservation.
        by : {"note", "label"}, default="note"
            What colours tell: the notes, where there are any, or who drew.
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        LedgerDisplay
        """
        if not isinstance(ledger, PrivacyLedger):
            raise TypeError(f"ledger must be a PrivacyLedger, got {type(ledger).__name__}.")
        if by not in ("note", "label"):
            raise ValueError(f"by must be 'note' or 'label', got {by!r}.")
        steps = spent_after_each(ledger)
        display = cls(
            spent=np.array([epsilon for _, epsilon, _ in steps], dtype=float),
            purposes=[
                (entry.note if by == "note" else "") or entry.label or "no name" for entry, _, _ in steps
            ],
            budget=ledger.epsilon,
            unit=ledger.unit,
            own=np.array([entry.epsilon for entry, _, _ in steps], dtype=float),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the steps.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            A new figure if None.

        Returns
        -------
        self : LedgerDisplay
        """
        import matplotlib.pyplot as plt
        from matplotlib.patches import Patch
        from matplotlib.ticker import MaxNLocator

        spent = np.maximum.accumulate(np.concatenate([[0.0], np.asarray(self.spent, dtype=float)]))
        n = spent.size - 1
        if ax is None:
            ax = plt.subplots(figsize=(max(5.2, min(2.2 + 0.28 * n, 9.0)), 3.6), layout="constrained")[1]
        purposes = list(self.purposes)
        names = list(dict.fromkeys(purposes))
        if len(names) > len(_COLORS):  # no colour for two of them
            kept = names[: len(_COLORS) - 1]
            others = f"{len(names) - len(kept)} others"
            purposes = [name if name in kept else others for name in purposes]
            names = [*kept, others]
        colors = dict(zip(names, _COLORS, strict=False))
        place = np.arange(1, n + 1)
        filled = [colors[name] for name in purposes]
        ax.bar(place, spent[:-1], width=0.86, color=filled, alpha=0.16, linewidth=0)
        ax.bar(place, np.diff(spent), bottom=spent[:-1], width=0.86, color=filled, linewidth=0)
        ax.axhline(self.budget, color="#1d2329", linewidth=1.6)
        right = n + 0.6 if n else 1.0
        ax.annotate(
            f"budget ε = {rounded_up(self.budget)}",
            (right, self.budget),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            fontsize=9,
        )
        if self.own is not None and 0 < n <= _NUMBERED:
            for x, top, own in zip(place, spent[1:], self.own, strict=True):
                ax.annotate(
                    rounded_up(float(own), 3),
                    (x, top),
                    xytext=(0, 3),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                    color="#5b6670",
                )
        ax.set_xlim(0.4, right)
        ax.set_ylim(0, 1.16 * max(self.budget, spent[-1]))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlabel("entry (above each: its own ε)" if self.own is not None and n <= _NUMBERED else "entry")
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
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
