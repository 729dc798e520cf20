"""Input and output of all strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import isqrt, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from skprivate._sklearn import gather
from skprivate.mixture._geometry import Floats, PublicFrame, products, public_frame
from skprivate.partitions import Partitions
from skprivate.privacy import BoundedRangeEvent, PrivacyEvent, PureEvent, Release, SelectionRule

Integers = NDArray[np.int64]

#: Largest integer in a ratio of class weights.
LARGEST_WEIGHT = 1000
#: Largest ratio of class weights, so that sums stay exact for up to 10⁸ rows.
LARGEST_RATIO = 10**7
#: Largest number of distinct errors of a selection, where the class weights allow.
MOST_CATEGORIES = 2**19
#: Largest number of hypotheses whose errors are counted together, in parts: 16 MiB from every block of rows.
MOST_SUMS = 2**21
#: Number of errors that are gathered before they are counted.
GATHER = 2**20

#: Numbers for hypotheses, and a function from a position in them to the hypothesis.
Block: TypeAlias = tuple[NDArray[Any], Callable[[int], tuple[int, ...]]]


@dataclass(frozen=True)
class ErrorWeights:
    """Integer cost of one misclassified row of each label, and the largest cost of an error on a private row."""

    public_label: int
    private_label: int
    sensitivity: int

    @classmethod
    def from_class_weights(
        cls, public_label: float, private_label: float, *, private_rows_have_private_label: bool
    ) -> ErrorWeights:
        """Find integers in (nearly) the ratio of two class weights.

        The ratio of the larger to the smaller is rounded to a fraction with a denominator of at most `LARGEST_WEIGHT`,
        or to an integer where it is larger than that. Costs are what the errors are *defined* by, so the rounding costs
        no privacy.
        """
        larger, smaller = max(public_label, private_label), min(public_label, private_label)
        if larger / smaller >= LARGEST_WEIGHT:
            high, low = round(min(larger / smaller, LARGEST_RATIO)), 1
        else:
            ratio = Fraction(smaller / larger).limit_denominator(LARGEST_WEIGHT)
            low, high = max(ratio.numerator, 1), ratio.denominator
        public, private = (high, low) if public_label > private_label else (low, high)
        return cls(public, private, private if private_rows_have_private_label else max(public, private))

    def signed(self, has_private_label: NDArray[np.bool_]) -> Integers:
        """Return the signed weight of each row: errors by calling it public, less those by calling it private."""
        return np.where(has_private_label, self.private_label, -self.public_label).astype(np.int64)


def coarsest_needed(weights: ErrorWeights, largest: int) -> int:
    """Return the unit in which errors up to ``largest`` are counted, a divisor of the sensitivity.

    One private row still changes a rounded count by at most sensitivity / unit.
    """
    small = [g for g in range(1, isqrt(weights.sensitivity) + 1) if weights.sensitivity % g == 0]
    divisors = small + [weights.sensitivity // g for g in reversed(small)]
    return next((g for g in divisors if largest <= g * MOST_CATEGORIES), weights.sensitivity)


def occurrences(numbers: Integers) -> tuple[Integers, Integers]:
    """Return distinct integers, ascending, and how often each occurs."""
    if numbers.size == 0:
        return numbers, numbers
    lowest = int(numbers.min())
    span = int(numbers.max()) - lowest + 1
    if span > 4 * numbers.size:
        values, counts = np.unique(numbers, return_counts=True)
        return values.astype(np.int64), counts.astype(np.int64)
    counts = np.bincount(numbers - lowest, minlength=span)
    occupied = np.flatnonzero(counts)
    return occupied + lowest, counts[occupied].astype(np.int64)


def merge_occurrences(parts: list[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """Add up several results of `occurrences`."""
    values, position = np.unique(np.concatenate([part for part, _ in parts]), return_inverse=True)
    counts = np.zeros(values.size, dtype=np.int64)
    np.add.at(counts, position, np.concatenate([count for _, count in parts]))
    return values, counts


def selection_event(rule: SelectionRule, epsilon: float) -> PrivacyEvent:
    """Return the event of one selection by a rule."""
    return BoundedRangeEvent(epsilon) if rule == "exponential" else PureEvent(epsilon, "permute-and-flip")


class Enumeration:
    """Hypotheses in a fixed order whose errors are counted (pass 1) and found again (pass 2).

    They come in parts that do not depend on the rows. Errors are ``offset`` plus a sum over rows, counted in units of
    ``resolution``, rounded down.
    """

    def __init__(self, offset: int, resolution: int) -> None:
        self.offset = offset
        self.resolution = resolution
        self._counted: list[tuple[slice, tuple[Integers, Integers]]] = []

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def part_sizes(self) -> list[int]:
        """Numbers of hypotheses in the parts."""
        raise NotImplementedError

    def _blocks(self, parts: slice) -> Iterator[Block]:
        """Yield sums over rows in order, each block with a function from a position in it to the hypothesis."""
        raise NotImplementedError

    def errors(self, parts: slice) -> Iterator[Block]:
        """Yield the errors of the hypotheses of some parts, as `_blocks` yields the sums."""
        for sums, describe in self._blocks(parts):
            errors = sums.astype(np.int64).ravel()
            errors += self.offset
            yield errors // self.resolution if self.resolution > 1 else errors, describe

    def histogram(self, n_jobs: int | None = None) -> tuple[Integers, Integers]:
        """Count hypotheses by their number of errors, ascending, by ``n_jobs`` threads (pass 1)."""
        stretches = _stretches(self.part_sizes)
        pool = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
        counts = gather("hypotheses", len(stretches), pool(delayed(self._count)(parts) for parts in stretches))
        self._counted = list(zip(stretches, counts, strict=True))
        return merge_occurrences(counts)

    def _count(self, parts: slice) -> tuple[Integers, Integers]:
        merged: list[tuple[Integers, Integers]] = []
        gathered: list[Integers] = []
        for errors, _ in self.errors(parts):
            gathered.append(errors)
            if sum(one.size for one in gathered) >= GATHER:
                merged.append(occurrences(np.concatenate(gathered)))
                gathered = []
        return merge_occurrences([*merged, occurrences(np.concatenate([np.zeros(0, np.int64), *gathered]))])

    def locate(self, errors: int, member: int) -> tuple[int, ...]:
        """Find the ``member``-th hypothesis (from zero) that makes ``errors`` errors (pass 2).

        Only the stretch that holds it, known from the histograms of pass 1, is formed again.
        """
        if not self._counted:
            self.histogram()
        remaining = member
        for parts, (present, counts) in self._counted:
            held = int(counts[present == errors].sum())
            if remaining >= held:
                remaining -= held
                continue
            for numbers, describe in self.errors(parts):
                positions = np.flatnonzero(numbers == errors)
                if remaining < positions.size:
                    return describe(int(positions[remaining]))
                remaining -= positions.size
        raise IndexError(f"Fewer than {member + 1} hypotheses make {errors} errors.")


def _stretches(sizes: list[int]) -> list[slice]:
    """Group neighbouring parts with at most `MOST_SUMS` hypotheses together."""
    found, start, held = [], 0, 0
    for part, size in enumerate(sizes):
        if held and held + size > MOST_SUMS:
            found.append(slice(start, part))
            start, held = part, 0
        held += size
    return [*found, slice(start, len(sizes))]


def draw_hypothesis(
    family: Enumeration | None,
    errors_of_all_private: int,
    release: Release,
    *,
    epsilon: float,
    sensitivity: int,
    rule: SelectionRule = "exponential",
    monotone: bool = False,
    n_jobs: int | None = None,
) -> tuple[int, ...] | None:
    """Draw one hypothesis with a probability given by its integer number of (weighted) errors.

    ``family`` has all hypotheses but the one that calls every row private, whose errors are given; that one is returned
    as None. Errors and sensitivity are in the family's unit.
    """
    if family is None:
        errors, counts = np.array([errors_of_all_private]), np.array([1])
        own = 0
    else:
        errors, counts = family.histogram(n_jobs)
        own = int(np.searchsorted(errors, errors_of_all_private))
        if own == errors.size or errors[own] != errors_of_all_private:
            errors, counts = np.insert(errors, own, errors_of_all_private), np.insert(counts, own, 0)
        # It is the last member of its category.
        counts[own] += 1

    def locate(category: int, member: int) -> tuple[int, ...] | None:
        if family is None or release.dry_run or (category == own and member == counts[own] - 1):
            return None
        return family.locate(int(errors[category]), member)

    chosen: tuple[int, ...] | None = release.select(
        -errors,
        sensitivity=sensitivity,
        epsilon=epsilon,
        rule=rule,
        monotone=monotone,
        multiplicity=counts.tolist(),
        locate=locate,
    )
    return chosen


class LinearConstraints(NamedTuple):
    """Rows of ``coefficients @ x + intercepts``, in the units of the input."""

    coefficients: Floats
    intercepts: Floats


class MixtureRows(NamedTuple):
    """Original rows of a block."""

    X: Floats
    private: NDArray[np.bool_]
    has_private_label: NDArray[np.bool_]


class SpanRows(NamedTuple):
    """Rows of a block on the public points' affine span, in scaled units; all others are private in any case.

    ``signed`` is that of `ErrorWeights`.
    """

    scaled: Floats
    signed: Integers


def span_rows(rows: MixtureRows, frame: PublicFrame, weights: ErrorWeights) -> SpanRows:
    """Select the rows on the span, each by itself."""
    scaled = frame.scaled(rows.X)
    on_span = frame.distance(scaled) <= frame.slack
    signed = weights.signed(rows.has_private_label)
    if on_span.all():
        return SpanRows(scaled, signed)
    return SpanRows(np.compress(on_span, scaled.T, axis=1).T, signed[on_span])


def public_points(rows: MixtureRows) -> Floats:
    """Return the public points of the public label of a block, which may be collected."""
    return rows.X[~rows.private & ~rows.has_private_label]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, weights and the public numbers that plans are made from.

    ``points`` are the public points of the public label. ``planning_rows`` are all rows where their number is public,
    else the public ones. ``n_public_label`` is the number of rows with the public label.
    """

    rows: Partitions
    weights: ErrorWeights
    points: Floats
    frame: PublicFrame
    on_span: Partitions
    planning_rows: int
    n_public_label: int
    n_private: int | None

    @classmethod
    def of(
        cls,
        rows: Partitions,
        weights: ErrorWeights,
        *,
        n_rows: int,
        n_public: int,
        n_public_label: int,
        size_is_public: bool,
    ) -> Problem:
        """Set up the problem of `MixtureRows`; ``size_is_public`` under replace-one adjacency."""
        # Results from all public points may depend on their layout in memory.
        points = np.ascontiguousarray(rows.gather(public_points, np.concatenate))
        frame = public_frame(points)
        on_span = rows.map(partial(span_rows, frame=frame, weights=weights))
        planning_rows = n_rows if size_is_public else n_public
        n_private = n_rows - n_public if size_is_public else None
        return cls(
            rows=rows,
            weights=weights,
            points=points,
            frame=frame,
            on_span=on_span,
            planning_rows=planning_rows,
            n_public_label=n_public_label,
            n_private=n_private,
        )

    @cached_property
    def unit(self) -> int:
        """Unit in which errors are counted, rounded down."""
        weights = self.weights
        return coarsest_needed(weights, self.planning_rows * max(weights.public_label, weights.private_label))

    @property
    def sensitivity(self) -> int:
        """Largest change of errors by one private row, in units."""
        return self.weights.sensitivity // self.unit

    @property
    def offset(self) -> int:
        """Errors of calling every row private, not in units."""
        return self.n_public_label * self.weights.public_label

    @property
    def effective_rows(self) -> float:
        """Number of private rows whose errors weigh as much as all rows of the lighter class."""
        weights, effective = self.weights, self.n_public * self.weights.public_label
        if self.n_private is not None:
            effective = min(effective, (self.planning_rows - self.n_public) * weights.private_label)
        return effective / weights.sensitivity

    @property
    def n_public(self) -> int:
        return len(self.points)

    @property
    def n_features(self) -> int:
        return int(self.frame.center.size)

    @property
    def public(self) -> Floats:
        """Public points of the public label, in scaled units."""
        return self.frame.scaled(self.points)

    def some_public(self, at_most: int, rng: np.random.Generator) -> Floats:
        """Return all of them, or a uniform sample."""
        if self.n_public <= at_most:
            return self.public
        return self.frame.scaled(self.points[rng.choice(self.n_public, at_most, replace=False)])


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """Rows of the span that all halfspaces {normals @ z + intercepts ≥ 0} contain are called public.

    Normals have unit length in scaled units. ``all_private`` is the hypothesis that calls every row private.
    """

    normals: Floats
    intercepts: Floats
    all_private: bool = False

    @classmethod
    def calling_all_private(cls, n_features: int) -> Hypothesis:
        return cls(np.zeros((0, n_features)), np.zeros(0), all_private=True)

    def contain(self, scaled: Floats) -> NDArray[np.bool_]:
        """Compute the membership of scaled rows in each halfspace, of shape (n_halfspaces, n)."""
        return np.array(products(self.normals, scaled) + self.intercepts[:, None] >= 0)


@dataclass(frozen=True)
class DrawRecord:
    """One draw ("exact", "joint", "move", "turn" or "descent"), its number of compared hypotheses, and its cost."""

    name: str
    n_hypotheses: int
    epsilon: float


def margins(frame: PublicFrame, hypothesis: Hypothesis, X: Floats) -> Floats:
    """Compute the signed margin of each row, ≥ 0 where it is called public, in scaled units.

    It is the smallest distance to a bounding hyperplane, negative outside; minus the distance to the span for rows off
    it. Without halfspaces there is no boundary: the margin is then 1 on the span, and −1 everywhere for the hypothesis
    that calls every row private.
    """
    if hypothesis.all_private:
        return np.full(X.shape[0], -1.0)
    scaled = frame.scaled(X)
    margin = np.full(X.shape[0], 1.0)
    if hypothesis.intercepts.size:
        margin = (products(hypothesis.normals, scaled) + hypothesis.intercepts[:, None]).min(axis=0)
    if frame.complement.shape[0]:
        distance = frame.distance(scaled)
        margin = np.where(distance <= frame.slack, margin, np.minimum(margin, -distance))
    return margin


def selection_loss(log_n_hypotheses: float, epsilon: float, beta: float, *, monotone: bool = False) -> float:
    """Bound the errors above the best hypothesis of one selection, except with probability ``beta`` (Lemma 4.6).

    Parameters
    ----------
    log_n_hypotheses : float
        Logarithm of the number of hypotheses, ln N.
    epsilon : float
    beta : float
        In (0, 1).
    monotone : bool, default=False
        Whether the errors of all hypotheses move the same way between neighbours.

    Returns
    -------
    float
        2/ε · ln(N/β) in weights of a private row, or half of that where ``monotone``. Permute-and-flip satisfies
        the same bound, being never worse than the exponential mechanism.

    See Also
    --------
    PPMHalfspaceClassifier : Has it as ``utility_bound``.
    """
    factor = 1.0 if monotone else 2.0
    return factor / epsilon * (log_n_hypotheses - log(beta))
