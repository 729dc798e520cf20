"""Label sums over public bags, exact or released.

A label becomes integers that depend on nothing else (0/1 indicators, or a number in steps of its public interval);
integers are added exactly over bags; integer noise is added to the sums. What comes back is in real units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate import privacy
from skprivate._validation import PUBLIC_LABELS
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.tables import _labels
from skprivate.aggregate.tables._labels import Bounds, LabelNoise, LabelSensitivity, NoiseName
from skprivate.partitions import Partitions
from skprivate.privacy import Mechanism, PrivacyEvent, PrivacyGuarantee, PrivacyLedger, RandomStateLike, Release

OutputBounds = tuple[Bounds, ...]
#: From a block to integers of at most 2³⁰, as float64, of shape (n_outputs, n_rows); a function of each row alone.
Integers = Callable[["Labelled"], FloatArray]
#: From a block and its integers to sums of other integers over all of its rows.
Further = Callable[["Labelled", FloatArray], NDArray[np.int64]]
#: Bits of each integer, and integers of a number: what is below 2⁻⁹⁰ of the largest one is left out.
_BITS, _PARTS = 30, 3
#: Of zeros, in 0 = 0·2ᵉ.
_LEAST_EXPONENT = -1100
#: Rows that are added up in float64 at a time: 2²² integers of at most 2³⁰ stay below 2⁵³.
_EXACT_ROWS = 1 << 22


def exact_number_sums(
    rows: Partitions, bags: Any, n_outputs: int, bounds: OutputBounds | None, *, with_squares: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Sum numbers (n_bags, n_outputs), clipped to intervals if there are, and all squares of each output."""
    exponent = rows.gather(partial(_exponent, bounds=bounds), max)
    scale = {"bounds": bounds, "exponent": exponent}
    further = partial(_split_squares, **scale) if with_squares else None
    totals = bags.add_up(rows, partial(_split, **scale), further)
    size = bags.n_bags * n_outputs * _PARTS
    sums = _join(totals[:size].reshape(bags.n_bags, -1), exponent)
    return sums, _join(totals[size:], 2 * exponent) if with_squares else None


def _exponent(block: Any, *, bounds: OutputBounds | None) -> int:
    """Find e such that all numbers are below 2ᵉ."""
    largest = float(np.max(np.abs(_clipped(block.targets, bounds)), initial=0.0))
    return int(math.frexp(largest)[1]) if largest else _LEAST_EXPONENT


def _clipped(numbers: NDArray[Any], bounds: OutputBounds | None) -> FloatArray:
    floats: FloatArray = numbers.astype(np.float64)
    return floats if bounds is None else np.clip(floats, *np.array(bounds, dtype=np.float64).T[:, :, np.newaxis])


def _split(block: Any, *, bounds: OutputBounds | None, exponent: int) -> FloatArray:
    return _integers(np.ldexp(_clipped(block.targets, bounds), -exponent))


def _split_squares(block: Any, _: FloatArray, *, bounds: OutputBounds | None, exponent: int) -> NDArray[np.int64]:
    scaled = np.ldexp(_clipped(block.targets, bounds), -exponent)
    return privacy.exact_sum(_integers(scaled * scaled).astype(np.int64))


def _integers(numbers: FloatArray) -> FloatArray:
    """Split numbers (n_outputs, n_rows) in (-1, 1) into integers of shape (3·n_outputs, n_rows)."""
    parts = []
    for _ in range(_PARTS):
        scaled = numbers * (1 << _BITS)
        parts.append(np.trunc(scaled))
        numbers = scaled - parts[-1]
    return np.concatenate(parts)


def _join(sums: NDArray[Any], exponent: int) -> FloatArray:
    """Join sums of integers to sums of numbers, along the last axis."""
    total: Any = 0.0
    for part in reversed(np.split(sums.astype(np.float64), _PARTS, axis=-1)):
        total = (total + part) / (1 << _BITS)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(total, exponent))


def add_integers(bag_of_row: NDArray[Any], integers: FloatArray, n_bags: int) -> NDArray[np.int64]:
    """Sum integers of at most 2³⁰, held as float64, exactly per bag, in any order of the rows."""
    total = np.zeros(n_bags, dtype=np.int64)
    for start in range(0, integers.size, _EXACT_ROWS):
        rows = slice(start, start + _EXACT_ROWS)
        total += np.bincount(bag_of_row[rows], integers[rows], n_bags).astype(np.int64)
    return total


class Labelled(NamedTuple):
    """Block of rows with their targets (n_outputs, n_rows), and codes of the columns for curated bags."""

    size: range
    targets: NDArray[Any]
    codes: Sequence[NDArray[Any]] = ()

    @classmethod
    def of(cls, targets: NDArray[Any], codes: Sequence[NDArray[Any]] = ()) -> Labelled:
        return cls(range(targets.shape[-1]), targets, codes)


def block_sums(
    block: Labelled,
    members: Iterable[tuple[NDArray[Any], NDArray[Any] | None, int]],
    integers: Integers,
    further: Further | None,
) -> NDArray[np.int64]:
    """Sum one block: ``members`` gives, for each table, the bag of each of these rows (None: all) and n_bags."""
    outputs = integers(block)
    sums = []
    for bags, rows, n_bags in members:
        added = outputs if rows is None else outputs[:, rows]
        sums.append(np.stack([add_integers(bags, output, n_bags) for output in added], axis=1).ravel())
    return np.concatenate(sums if further is None else [*sums, further(block, outputs)])


def _targets(block: Labelled) -> FloatArray:
    return block.targets


def _steps(block: Labelled, *, bounds: OutputBounds) -> FloatArray:
    outputs = zip(block.targets, bounds, strict=True)
    return np.stack([_labels.number_contributions(numbers, *ends) for numbers, ends in outputs])


def _square_steps(_: Labelled, steps: FloatArray) -> NDArray[np.int64]:
    return privacy.exact_sum(_labels.square_contributions(steps))


def _range_counts(block: Labelled, **terms: Any) -> NDArray[np.int64]:
    return _labels.range_counts(block.targets, **terms)


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Label sums (n_bags, n_outputs), variance of the noise in each, and for numbers intervals and Σy².

    Where outputs differ in variance, interval or Σy², it is a tuple with one for each.
    """

    sums: FloatArray
    noise_variance: Any = 0.0
    label_bounds: Any = None
    square_sum: Any = None


def outputs_of(classes: Sequence[Any]) -> tuple[int, int]:
    """Return the numbers of counts per bag (the second of two classes, or all), and of those that a row moves."""
    n = len(classes)
    if _labels.are_labels(classes):
        return n, n
    return (1, 1) if n == 2 else (n, 2)


@dataclass(frozen=True, eq=False)
class ClassSums(Mechanism):
    """Counts of labels per bag and class.

    ``n_outputs`` is 1 for two classes, else one per class or indicator; ``noise=None`` gives exact counts.
    ``classes`` are those that were given: an absent one of them warns.
    """

    bags: Any
    n_outputs: int
    noise: LabelNoise | None
    classes: Sequence[Any] = ()

    @property
    def theorem(self) -> str:  # type: ignore[override]
        return str(self.bags.theorem)

    @property
    def assumptions(self) -> tuple[str, ...]:
        first, *others = self.bags.assumptions
        return (first, PUBLIC_LABELS, *others)

    @classmethod
    def plan(
        cls,
        bags: Any,
        n_outputs: int,
        moved: int,
        *,
        epsilon: float | None,
        delta: float = 0.0,
        mechanism: NoiseName = "laplace",
        classes: Sequence[Any] | None = None,
    ) -> ClassSums:
        """Plan counts; one label moves ``moved`` of them per bag by 1. ``epsilon=None`` for exact ones."""
        noise = None
        if epsilon is not None:
            noise = _labels.plan_label_noise(
                LabelSensitivity(bags.appearances() * moved),
                bags.n_bags * n_outputs,
                epsilon=epsilon,
                delta=delta,
                mechanism=mechanism,
            )
        return cls(bags, n_outputs, noise, classes or ())

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [] if self.noise is None else [(self.noise.event(self.bags.n_bags * self.n_outputs), 1)]

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in each count; 0 for exact ones."""
        return 0.0 if self.noise is None else self.noise.variance

    def integers(self, rows: Partitions) -> NDArray[Any]:
        """Count indicators exactly, (n_bags, n_outputs); private."""
        counts: NDArray[Any] = self.bags.add_up(rows, _targets)
        return counts.reshape(self.bags.n_bags, self.n_outputs)

    def exact(self, rows: Partitions) -> ReleasedSums:
        return ReleasedSums(self.integers(rows).astype(np.float64))

    def run(self, rows: Partitions, release: Release) -> ReleasedSums:
        assert self.noise is not None
        sums = self.noise.draw(self.integers(rows), release)
        _labels.warn_of_absent(self.classes, sums, self.bags.bag_sizes, self.noise.variance)
        return ReleasedSums(sums, self.noise.variance)


@dataclass(frozen=True, eq=False)
class NumberSums(Mechanism):
    """Sums of numbers per bag, clipped to an interval that is given or found privately.

    Replacing a row's labels may replace all ``n_outputs`` numbers. Without ``label_bounds``, a tenth of the budget
    finds an interval for each, up to a half for few rows: ``finding`` is the noise of the counts for them, drawn once,
    or ``twice`` to narrow an interval far from 0. If ``shared``, all take, and report, one interval from the lowest to
    the highest of the ends. ``with_squares`` releases the sum of squares of each output too, of rows most of which are
    in equally many bags. ``further`` are more assumptions than those of the bags.
    """

    bags: Any
    n_outputs: int
    label_bounds: OutputBounds | None
    noise: LabelNoise | None = None
    finding: LabelNoise | None = None
    twice: bool = False
    nonnegative: bool = False
    with_squares: bool = False
    shared: bool = False
    further: tuple[str, ...] = ()

    @property
    def theorem(self) -> str:  # type: ignore[override]
        return str(self.bags.theorem)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (*self.bags.assumptions, *self.further)

    @classmethod
    def plan(
        cls,
        bags: Any,
        n_outputs: int,
        label_bounds: object,
        *,
        epsilon: float | None,
        delta: float = 0.0,
        mechanism: NoiseName = "laplace",
        with_squares: bool = False,
        **options: Any,
    ) -> NumberSums:
        """Choose the noise from public numbers; ``epsilon=None`` for exact sums."""
        bounds = _labels.bounds_of_outputs(label_bounds, n_outputs)
        noise, finding, twice = None, None, False
        if epsilon is not None:
            # Rows that are in no bag make this a lower bound of their number.
            n_rows = int(bags.bag_sizes.sum()) // max(bags.appearances(), 1)
            finding_share = 0.0 if bounds is not None else _labels.range_share(n_rows, epsilon)
            twice = bounds is None and _labels.draws_twice(n_rows, epsilon)
            counts = _labels.RANGE_COUNTS * (1 + twice) if bounds is None else 0
            plan_noise = partial(
                _labels.plan_label_noise,
                size=n_outputs * (bags.n_bags + with_squares + counts),
                epsilon=epsilon,
                delta=delta,
            )
            # In steps of the intervals: the cost does not depend on them. A number moves a sum in each of its bags and
            # one of squares by all steps at most.
            moved = LabelSensitivity((bags.appearances() + with_squares) * n_outputs, _labels.LABEL_STEPS)
            noise = plan_noise(moved, mechanism=mechanism, share=1.0 - finding_share)
            if bounds is None:
                # Each number of a row may leave one of its output's counts and enter another one.
                moved, finding_share = LabelSensitivity(2 * n_outputs), finding_share / (1 + twice)
                finding = plan_noise(moved, mechanism=noise.mechanism, share=finding_share)
        return cls(bags, n_outputs, bounds, noise, finding, twice, with_squares=with_squares, **options)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        if self.noise is None:
            return []
        events = [(self.noise.event(self.n_outputs * (self.bags.n_bags + self.with_squares)), 1)]
        if self.finding is not None:
            events.append((self.finding.event(_labels.RANGE_COUNTS * self.n_outputs), 1 + self.twice))
        return events

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in each sum, in squares of the width of the interval; 0 for exact ones."""
        return 0.0 if self.noise is None else self.noise.variance / _labels.LABEL_STEPS**2

    def exact(self, rows: Partitions) -> ReleasedSums:
        """Sum without noise, in float64, whatever the order of the rows."""
        sums, squares = exact_number_sums(
            rows, self.bags, self.n_outputs, self.label_bounds, with_squares=self.with_squares
        )
        return self._released(sums, self.label_bounds, np.zeros(self.n_outputs), squares)

    def run(self, rows: Partitions, release: Release) -> ReleasedSums:
        """Release noisy sums of labels, floats or integers."""
        bounds = self.label_bounds
        if self.finding is not None:
            count = partial(_range_counts, nonnegative=self.nonnegative)
            bounds = tuple(
                _labels.private_label_bounds(
                    lambda far: rows.sum(partial(count, far=far)),
                    self.finding,
                    release,
                    nonnegative=self.nonnegative,
                    twice=self.twice,
                )
            )
        assert bounds is not None and self.noise is not None
        if self.shared:
            bounds = ((min(low for low, _ in bounds), max(high for _, high in bounds)),) * self.n_outputs
        sums = self.bags.add_up(rows, partial(_steps, bounds=bounds), _square_steps if self.with_squares else None)
        size, shape = self.bags.n_bags * self.n_outputs, (self.bags.n_bags, self.n_outputs)
        noisy = self.noise.draw(sums if self.with_squares else sums.reshape(shape), release).ravel()
        # From here on everything is released. Σy = Σ(y − middle) + (rows)·middle.
        widths = [Fraction(high) - Fraction(low) for low, high in bounds]
        middle = np.array([float(Fraction(low) + width / 2) for (low, _), width in zip(bounds, widths, strict=True)])
        step = np.array([float(width / _labels.LABEL_STEPS) for width in widths])
        about = noisy[:size].reshape(shape) * step
        squares = None
        if self.with_squares:
            # Σy² = Σ(y − middle)² + 2·middle·Σ(y − middle) + (rows)·middle².
            half, n = np.array([float(width / 2) for width in widths]), self.bags.n_samples
            totals = about.sum(axis=0) / (float(self.bags.bag_sizes.sum()) / n)
            around = np.clip(noisy[size:] / _labels.LABEL_STEPS, 1e-3 * n, float(n)) * half**2
            squares = np.asarray(around + 2 * middle * totals + n * middle**2)
        return self._released(
            about + self.bags.bag_sizes[:, np.newaxis] * middle, bounds, self.noise.variance * step**2, squares
        )

    def _released(
        self, sums: FloatArray, bounds: OutputBounds | None, noise: FloatArray, squares: FloatArray | None
    ) -> ReleasedSums:
        most = 1 if self.shared else self.n_outputs
        return ReleasedSums(
            sums,
            float(noise[0]) if np.all(noise == noise[0]) else tuple(noise.tolist()),
            None if bounds is None else one_or_each([(float(low), float(high)) for low, high in bounds[:most]]),
            None if squares is None else one_or_each(squares.tolist()),
        )


def one_or_each(values: Sequence[Any]) -> Any:
    """Report what belongs to outputs: of one output itself, of several a tuple."""
    return values[0] if len(values) == 1 else tuple(values)


def release_sums(
    mechanism: Any,
    data: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    random_state: RandomStateLike,
    ledger: PrivacyLedger | None,
    label: str,
) -> tuple[Any, PrivacyGuarantee]:
    """Run a mechanism of label sums in a release of its own."""
    with privacy.open_release(
        epsilon=epsilon,
        delta=delta,
        unit="label",
        adjacency="replace-one",
        random_state=random_state,
        ledger=ledger,
        label=label,
        theorem=mechanism.theorem,
        assumptions=mechanism.assumptions,
        plan=mechanism.events,
    ) as release:
        released = mechanism.run(data, release)
    return released, release.close()
