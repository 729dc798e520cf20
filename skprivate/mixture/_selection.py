"""Exact draw of one hypothesis by its number of errors (Algorithm 2), for any family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy import BoundedRangeEvent, PrivacyEvent, PureEvent, Release, SelectionRule

Integers = NDArray[np.int64]

#: Largest integer in a ratio of class weights.
LARGEST_WEIGHT = 1000
#: Largest ratio of class weights, so that sums stay exact for up to 10⁸ rows.
LARGEST_RATIO = 10**7
#: Largest number of distinct errors of a selection, where the class weights allow.
MOST_CATEGORIES = 2**19


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


#: A part of an enumeration, and the distinct numbers of errors in it with their counts.
Checkpoint = tuple[slice, Integers, Integers]


class Enumeration:
    """Hypotheses in a fixed order whose errors are counted (pass 1) and found again (pass 2), part by part."""

    _checkpoints: list[Checkpoint]

    def __len__(self) -> int:
        raise NotImplementedError

    def _count_parts(self, n_jobs: int | None) -> list[Checkpoint]:
        raise NotImplementedError

    def _errors_of(self, part: slice) -> Iterator[tuple[Integers, Callable[[int], tuple[int, ...]]]]:
        """Yield blocks of errors in order, each with a function from a position in it to the hypothesis."""
        raise NotImplementedError

    def histogram(self, n_jobs: int | None = None) -> tuple[Integers, Integers]:
        """Count hypotheses by their number of errors, ascending, by ``n_jobs`` threads (pass 1)."""
        self._checkpoints = self._count_parts(n_jobs)
        return merge_occurrences([(errors, counts) for _, errors, counts in self._checkpoints])

    def locate(self, errors: int, member: int) -> tuple[int, ...]:
        """Find the ``member``-th hypothesis (from zero) that makes ``errors`` errors (pass 2).

        Only the part that holds it, known from the histograms of pass 1, is formed again.
        """
        if not self._checkpoints:
            self.histogram()
        remaining = member
        for part, present, counts in self._checkpoints:
            held = int(counts[present == errors].sum())
            if remaining >= held:
                remaining -= held
                continue
            for numbers, describe in self._errors_of(part):
                positions = np.flatnonzero(numbers == errors)
                if remaining < positions.size:
                    return describe(int(positions[remaining]))
                remaining -= positions.size
        raise IndexError(f"Fewer than {member + 1} hypotheses make {errors} errors.")

    def all_errors(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield every hypothesis with its errors, one by one: for tests and very small families."""
        for numbers, describe in self._errors_of(slice(None)):
            for position, errors in enumerate(numbers):
                yield describe(position), int(errors)


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
