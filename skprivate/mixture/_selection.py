"""Exact draw of one hypothesis by its number of errors (Algorithm 2), whatever the family."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skprivate.privacy import BoundedRangeEvent, PrivacyEvent, PureEvent, Release, SelectionRule

Integers = NDArray[np.int64]

#: Class weights are used as a ratio of integers of at most this size.
LARGEST_WEIGHT = 1000
#: Ratios of class weights beyond this count as this, so that sums stay exact for up to 10⁸ rows.
LARGEST_RATIO = 10**7
#: Different numbers of errors that a selection is told apart by, where the class weights allow.
MOST_CATEGORIES = 2**19


@dataclass(frozen=True)
class ErrorWeights:
    """Integer cost of one misclassified row, and how much one private row can change a hypothesis's errors.

    Attributes
    ----------
    public_label, private_label : int
        Cost of an error on a row of that label, whoever owns it.
    sensitivity : int
        Largest cost of an error on a private row.
    """

    public_label: int
    private_label: int
    sensitivity: int

    @classmethod
    def from_class_weights(
        cls, public_label: float, private_label: float, *, private_rows_have_private_label: bool
    ) -> ErrorWeights:
        """Integers in (nearly) the ratio of two class weights.

        The ratio of the larger to the smaller is rounded to a fraction with a denominator of at most
        `LARGEST_WEIGHT`, or to an integer where it is larger than that. Costs are what the errors are
        *defined* by, so the rounding costs no privacy.
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
        """What a hypothesis's errors gain by calling each row public, against calling it private."""
        return np.where(has_private_label, self.private_label, -self.public_label).astype(np.int64)


def coarsest_needed(weights: ErrorWeights, largest: int) -> int:
    """Unit in which errors up to ``largest`` are counted: a divisor of the sensitivity, so that one private row
    still changes a rounded count by at most sensitivity / unit."""
    small = [g for g in range(1, isqrt(weights.sensitivity) + 1) if weights.sensitivity % g == 0]
    divisors = small + [weights.sensitivity // g for g in reversed(small)]
    return next((g for g in divisors if largest <= g * MOST_CATEGORIES), weights.sensitivity)


def occurrences(numbers: Integers) -> tuple[Integers, Integers]:
    """Distinct integers, ascending, and how often each occurs."""
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
    """What one selection by a rule costs."""
    return BoundedRangeEvent(epsilon) if rule == "exponential" else PureEvent(epsilon, "permute-and-flip")


class ErrorFamily(Protocol):
    """Hypotheses whose numbers of errors can be counted and found again."""

    def histogram(self, n_jobs: int | None = None) -> tuple[Integers, Integers]: ...

    def locate(self, errors: int, member: int) -> tuple[int, ...]: ...


def draw_hypothesis(
    family: ErrorFamily | None,
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

    Parameters
    ----------
    family : ErrorFamily or None
        All hypotheses but the one that calls every row private; None if there are no others.
    errors_of_all_private : int
        Number of errors of that one, in the family's unit.
    release : Release
        Pays and draws: one selection at ``epsilon``.
    epsilon, sensitivity, rule, monotone
        Passed on to `Release.select`; the sensitivity in the family's unit.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    tuple of int, or None
        What `ErrorFamily.locate` returns, or None for the hypothesis that calls every row private.
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
