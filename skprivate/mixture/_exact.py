"""Exact draw from all intersections of at most r candidate halfspaces (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skprivate.mixture._geometry import Floats, HalfspacePairs, PublicFrame
from skprivate.mixture._intersections import Integers, Intersections
from skprivate.privacy import Release

#: Class weights are used as a ratio of integers of at most this size.
LARGEST_WEIGHT = 1000


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
        `LARGEST_WEIGHT`, or to an integer where it is larger than that. Costs are what the errors are *defined* by,
        so the rounding costs no privacy.
        """
        larger, smaller = max(public_label, private_label), min(public_label, private_label)
        if larger / smaller >= LARGEST_WEIGHT:
            high, low = round(larger / smaller), 1
        else:
            ratio = Fraction(smaller / larger).limit_denominator(LARGEST_WEIGHT)
            low, high = max(ratio.numerator, 1), ratio.denominator
        public, private = (high, low) if public_label > private_label else (low, high)
        return cls(public, private, private if private_rows_have_private_label else max(public, private))

    def signed(self, has_private_label: NDArray[np.bool_]) -> Integers:
        """What a hypothesis's errors gain by calling each row public, against calling it private."""
        return np.where(has_private_label, self.private_label, -self.public_label).astype(np.int64)


def draw_intersection(
    frame: PublicFrame,
    pairs: HalfspacePairs,
    coordinates: Floats,
    on_span: NDArray[np.bool_],
    signed_weights: Integers,
    max_halfspaces: int,
    release: Release,
    *,
    epsilon: float,
    sensitivity: int,
    rule: Literal["exponential", "permute-and-flip"] = "exponential",
    monotone: bool = False,
    n_jobs: int | None = None,
) -> tuple[int, ...] | None:
    """Draw one hypothesis of Algorithm 2 with probability given by its integer number of (weighted) errors.

    Parameters
    ----------
    frame : PublicFrame
        Affine span of the public points.
    pairs : HalfspacePairs
        Candidates, from public rows alone.
    coordinates : ndarray of shape (n, dimension)
        All rows, public and private, in coordinates of the span.
    on_span : bool ndarray of shape (n,)
        Whether a row lies on the span. Every hypothesis calls the others private.
    signed_weights : int64 ndarray of shape (n,)
        `ErrorWeights.signed`.
    max_halfspaces : int
        Largest number of halfspaces in an intersection.
    release : Release
        Pays and draws: one selection at ``epsilon``.
    epsilon, sensitivity, rule, monotone
        Passed on to `Release.select`.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    tuple of int, or None
        Numbers of the chosen halfspaces as in `HalfspacePairs.sides`, the empty tuple for the whole span, or None
        for the hypothesis that calls every row private.
    """
    if frame.empty:
        family = Intersections(*pairs.memberships(coordinates[:0]), signed_weights[:0], 0)
        counts = np.zeros(1, dtype=np.int64)
    else:
        positive, negative = pairs.memberships(coordinates[on_span])
        family = Intersections(positive, negative, signed_weights[on_span], max_halfspaces)
        counts = family.histogram(n_jobs)
    # Calling every row private gains nothing anywhere: its sum is zero. It is the last member of that category.
    counts[-family.lowest] += 1
    occupied = np.flatnonzero(counts)
    sums = occupied + family.lowest
    category, member = release.select(
        -sums,
        sensitivity=sensitivity,
        epsilon=epsilon,
        rule=rule,
        monotone=monotone,
        multiplicity=counts[occupied],
    )
    value = int(sums[category])
    if value == 0 and member == int(counts[-family.lowest]) - 1:
        return None
    return family.locate(value, int(member))
