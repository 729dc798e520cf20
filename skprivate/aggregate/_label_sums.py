"""Label sums over public bags, exact or released: the two mechanisms of this package.

A label becomes integers that depend on nothing else (0/1 indicators, or a number in steps of its public interval);
integers are added exactly over bags; integer noise is added to the sums. What comes back is in real units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._label_noise import (
    LabelNoise,
    LabelSensitivity,
    NoiseName,
    plan_label_noise,
)
from skprivate.aggregate._label_range import (
    plan_range_noise,
    private_label_bounds,
    range_event,
    range_share,
)
from skprivate.aggregate._labels import LABEL_STEPS, Bounds, number_contributions, square_contributions
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import Mechanism, PrivacyEvent, Release, exact_sum

#: Rows that are added up in float64 at a time: 2²² integers of at most 2³⁰ stay below 2⁵³.
_EXACT_ROWS = 1 << 22


def add_integers(bag_of_row: NDArray[Any], integers: FloatArray, n_bags: int) -> NDArray[np.int64]:
    """Exact sums per bag of integers of at most 2³⁰, held as float64, in any order of the rows."""
    total = np.zeros(n_bags, dtype=np.int64)
    for start in range(0, integers.size, _EXACT_ROWS):
        rows = slice(start, start + _EXACT_ROWS)
        total += np.bincount(bag_of_row[rows], integers[rows], n_bags).astype(np.int64)
    return total


class LabelBags(Protocol):
    """The public half of label sums: which rows are in which bag."""

    @property
    def n_bags(self) -> int: ...

    @property
    def bag_sizes(self) -> NDArray[np.int64]:
        """Rows per bag, shape (n_bags,)."""
        ...

    def appearances(self) -> int:
        """Largest number of bags that one row is in."""
        ...

    def label_sums(self, targets: FloatArray) -> FloatArray:
        """Sums (n_bags, n_outputs) of the targets (n_outputs, n_samples)."""
        ...

    def integer_sums(self, contributions: FloatArray) -> NDArray[np.int64]:
        """Exact sums (n_bags, n_outputs) of integers (n_outputs, n_samples) of at most 2³⁰."""
        ...


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Label sums (n_bags, n_outputs), variance of the noise in each, and for numbers interval and Σy²."""

    sums: FloatArray
    noise_variance: float = 0.0
    label_bounds: Bounds | None = None
    square_sum: float | None = None


@dataclass(frozen=True, eq=False)
class ClassSums(Mechanism):
    """Counts of labels per bag and class.

    Parameters
    ----------
    bags : LabelBags
    n_outputs : int
        1 for two classes, else one per class or indicator.
    noise : LabelNoise or None
        None for exact counts.
    theorem, assumptions
        For the guarantee.
    """

    bags: LabelBags
    n_outputs: int
    noise: LabelNoise | None
    theorem: str = ""
    assumptions: tuple[str, ...] = ()

    @classmethod
    def plan(
        cls,
        bags: LabelBags,
        n_outputs: int,
        moved: int,
        *,
        epsilon: float | None,
        delta: float,
        mechanism: NoiseName,
        **said: Any,
    ) -> ClassSums:
        """Counts of which one label moves ``moved`` per bag by 1; ``epsilon=None`` for exact ones."""
        noise = None
        if epsilon is not None:
            noise = plan_label_noise(
                LabelSensitivity(bags.appearances() * moved),
                bags.n_bags * n_outputs,
                epsilon=epsilon,
                delta=delta,
                mechanism=mechanism,
            )
        return cls(bags, n_outputs, noise, **said)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [] if self.noise is None else [(self.noise.event(self.bags.n_bags * self.n_outputs), 1)]

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in each count; 0 for exact ones."""
        return 0.0 if self.noise is None else self.noise.variance

    def exact(self, indicators: FloatArray) -> ReleasedSums:
        """Counts without noise of indicators (n_outputs, n_samples)."""
        return ReleasedSums(self.bags.label_sums(indicators))

    def run(self, indicators: FloatArray, release: Release) -> ReleasedSums:
        """Noisy counts of indicators (n_outputs, n_samples) of zeros and ones."""
        assert self.noise is not None
        counts = self.bags.integer_sums(indicators)
        return ReleasedSums(self.noise.draw(counts, release), self.noise.variance)


@dataclass(frozen=True, eq=False)
class NumberSums(Mechanism):
    """Sums of numbers per bag, clipped to an interval that is given or found privately.

    Parameters
    ----------
    bags : LabelBags
    n_outputs : int
        Numbers per row; replacing a row's labels may replace all of them.
    label_bounds : (float, float) or None
        Public. With None and noise, a tenth of the budget finds an interval, up to a half for few rows.
    noise, finding : LabelNoise or None
        Of the sums, in steps of the interval, and of the counts that find it.
    nonnegative : bool
        Whether numbers are at least 0; others count as 0.
    with_squares : bool
        Whether the sum of squares is released too, for one output whose every row is in equally many bags.
    theorem, assumptions
        For the guarantee.
    """

    bags: LabelBags
    n_outputs: int
    label_bounds: Bounds | None
    noise: LabelNoise | None = None
    finding: LabelNoise | None = None
    nonnegative: bool = False
    with_squares: bool = False
    theorem: str = ""
    assumptions: tuple[str, ...] = ()

    @classmethod
    def plan(
        cls,
        bags: LabelBags,
        n_outputs: int,
        label_bounds: Bounds | None,
        *,
        epsilon: float | None,
        delta: float,
        mechanism: NoiseName,
        with_squares: bool = False,
        **said: Any,
    ) -> NumberSums:
        """Choose the noise from public numbers; ``epsilon=None`` for exact sums."""
        noise = finding = None
        if epsilon is not None:
            # Rows that are in no bag make this a lower bound of their number.
            n_rows = int(bags.bag_sizes.sum()) // max(bags.appearances(), 1)
            finding_share = 0.0 if label_bounds is not None else range_share(n_rows, epsilon)
            # In steps of the interval: the price does not depend on it.
            noise = plan_label_noise(
                LabelSensitivity(bags.appearances() * n_outputs + with_squares, LABEL_STEPS),
                bags.n_bags * n_outputs + with_squares,
                epsilon=epsilon,
                delta=delta,
                mechanism=mechanism,
                share=1.0 - finding_share,
            )
            if label_bounds is None:
                finding = plan_range_noise(
                    n_outputs, epsilon=epsilon, delta=delta, mechanism=noise.mechanism, share=finding_share
                )
        return cls(bags, n_outputs, label_bounds, noise, finding, with_squares=with_squares, **said)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        if self.noise is None:
            return []
        found = [] if self.finding is None else [(range_event(self.finding), 1)]
        return [(self.noise.event(self.bags.n_bags * self.n_outputs + self.with_squares), 1), *found]

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in each sum, in squares of the width of the interval; 0 for exact ones."""
        return 0.0 if self.noise is None else self.noise.variance / LABEL_STEPS**2

    def exact(self, labels: NDArray[Any]) -> ReleasedSums:
        """Sums without noise of labels (n_outputs, n_samples)."""
        numbers = labels.astype(np.float64)
        if self.label_bounds is not None:
            numbers = np.clip(numbers, *self.label_bounds)
        squares = float(np.sum(numbers**2)) if self.with_squares else None
        return ReleasedSums(self.bags.label_sums(numbers), 0.0, self._reported(self.label_bounds), squares)

    def run(self, labels: NDArray[Any], release: Release) -> ReleasedSums:
        """Noisy sums of labels (n_outputs, n_samples), floats or integers."""
        assert self.noise is not None
        bounds = self.label_bounds
        if self.finding is not None:
            bounds = private_label_bounds(labels, self.finding, release, nonnegative=self.nonnegative)
        assert bounds is not None
        steps = number_contributions(labels, *bounds)
        sums = self.bags.integer_sums(steps)
        shape = sums.shape
        if self.with_squares:
            sums = np.append(sums, exact_sum(square_contributions(steps)))
        noisy = self.noise.draw(sums, release)
        # From here on everything is released. Σy = Σ(y − middle) + (rows)·middle.
        low, width = Fraction(bounds[0]), Fraction(bounds[1]) - Fraction(bounds[0])
        middle, step = float(low + width / 2), float(width / LABEL_STEPS)
        about = (noisy[:-1].reshape(shape) if self.with_squares else noisy) * step
        square_sum = None
        if self.with_squares:
            total = float(about.sum()) / self.bags.appearances()
            square_sum = self._square_sum(float(noisy[-1]) / LABEL_STEPS, float(width / 2), middle, total)
        return ReleasedSums(
            about + self.bags.bag_sizes[:, np.newaxis] * middle,
            self.noise.variance * step**2,
            self._reported(bounds),
            square_sum,
        )

    def _square_sum(self, share: float, half: float, middle: float, total: float) -> float:
        """Σy² from Σ(y − middle)² in units of half² and Σ(y − middle)."""
        n = int(self.bags.bag_sizes.sum()) // self.bags.appearances()
        around = min(max(share, 1e-3 * n), float(n)) * half**2
        return around + 2 * middle * total + n * middle**2

    @staticmethod
    def _reported(bounds: Sequence[float] | None) -> Bounds | None:
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))
