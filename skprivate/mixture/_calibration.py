"""Probabilities of the private label: noisy counts of private rows between public margins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from skprivate.mixture._geometry import Floats, PublicFrame
from skprivate.mixture._problem import DrawRecord, Hypothesis, MixtureRows, Problem, margins
from skprivate.privacy import Events, Mechanism, PrivacyEvent, PureEvent, Release

#: Largest number of bins on each side of the boundary.
MOST_BINS = 5
#: Least number of public rows of a bin, and this many times the noise's scale.
LEAST_ROWS = 20


class Calibration(NamedTuple):
    """Probability of the private label as a step function of the margin, which is ≥ 0 where all halfspaces hold.

    ``edges`` are ascending margins between bins, in units of scaled features, from public rows; 0 is one of them.
    ``probabilities``, released, are in (0, 1) and do not increase.
    """

    edges: Floats
    probabilities: Floats

    def __call__(self, margin: Floats) -> Floats:
        """Return the probability of the private label at each margin."""
        return np.asarray(self.probabilities[np.searchsorted(self.edges, margin, side="right")])


@dataclass(frozen=True, eq=False)
class CalibratedDraw(Mechanism):
    """A draw of halfspaces and, with ``epsilon``, the counts that turn margins into probabilities.

    A private row is in one cell (bin, and label where labels are private). Replacing it moves a one from a cell to
    another, so the counts change by ``sensitivity`` = 2 in ℓ1, and by 1 where a row is added or removed.
    """

    search: Mechanism
    epsilon: float | None
    sensitivity: int
    labels_are_private: bool

    @property
    def theorem(self) -> str:  # type: ignore[override]
        return self.search.theorem + ("" if self.epsilon is None else "; composition with discrete Laplace noise")

    @property
    def events(self) -> Events:
        counts = [] if self.epsilon is None else [count_event(self.epsilon)]
        return [*self.search.events, *counts]

    def run(self, data: Problem, release: Release) -> tuple[Hypothesis, tuple[DrawRecord, ...], Calibration | None]:
        """Draw a hypothesis and count; returns it, what each selection compared, and the calibration."""
        hypothesis, records = self.search.run(data, release)
        if self.epsilon is None:
            return hypothesis, records, None
        # Margins are formed row by row: those of private rows depend on nothing but the row and what was released.
        rows = data.rows.map(partial(with_margins, frame=data.frame, hypothesis=hypothesis))
        least = ceil(LEAST_ROWS * (1 + self.sensitivity / self.epsilon))
        edges = margin_edges(rows.gather(public_margins, np.concatenate), least)
        n_bins = edges.size + 1
        public_counts, private_counts = rows.sum(partial(cell_counts, edges=edges))
        counts = public_counts.astype(np.float64)
        # No private row carries the public label, which is public.
        noisy = slice(0 if self.labels_are_private else n_bins, None)
        released = release.discrete_laplace(private_counts[noisy], sensitivity=self.sensitivity, epsilon=self.epsilon)
        counts[noisy] += np.maximum(released, 0).astype(np.float64)
        return hypothesis, records, Calibration(edges, _monotone(counts[n_bins:], counts[:n_bins]))


def count_event(epsilon: float) -> tuple[PrivacyEvent, int]:
    """Return the event of the counts."""
    return PureEvent(epsilon, "discrete Laplace"), 1


class RowMargins(NamedTuple):
    """Margins of the rows of a block, and the kind of each row."""

    margin: Floats
    private: NDArray[np.bool_]
    has_private_label: NDArray[np.bool_]


def with_margins(rows: MixtureRows, frame: PublicFrame, hypothesis: Hypothesis) -> RowMargins:
    """Compute margins, row by row."""
    return RowMargins(margins(frame, hypothesis, rows.X), rows.private, rows.has_private_label)


def public_margins(rows: RowMargins) -> Floats:
    """Return margins of public rows, which may be collected."""
    return rows.margin[~rows.private]


def cell_counts(rows: RowMargins, edges: Floats) -> NDArray[np.int64]:
    """Count public and private rows of a block by bin and label: shape (2, 2 * n_bins)."""
    n_bins = edges.size + 1
    cells = np.searchsorted(edges, rows.margin, side="right") + n_bins * rows.has_private_label
    kinds = (cells[~rows.private], cells[rows.private])
    return np.stack([np.bincount(kind, minlength=2 * n_bins) for kind in kinds])


def margin_edges(public_margins: Floats, least: int) -> Floats:
    """Return 0, and quantiles of public margins on either side of it, with about ``least`` rows or more between two."""
    edges = [0.0]
    for side in (public_margins[public_margins < 0], public_margins[public_margins >= 0]):
        n_bins = min(MOST_BINS, side.size // least)
        if n_bins > 1:
            quantiles = np.quantile(side, np.arange(1, n_bins) / n_bins, method="lower")
            edges.extend(quantiles[quantiles > side.min()])
    return np.unique(edges)


def _monotone(private_label: Floats, public_label: Floats) -> Floats:
    """Compute shares of the private label with half a row of each label added, pooled until they do not increase."""
    weights = private_label + public_label + 1.0
    shares = (private_label + 0.5) / weights
    return np.asarray(isotonic_regression(shares, weights=weights, increasing=False).x)
