"""Noise that only moves mass: a Laplace flow along the edges of a grid, in integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy import _samplers
from skprivate.privacy._contributions import add_exactly
from skprivate.privacy._events import PrivacyEvent, PureEvent
from skprivate.privacy._guarantee import Adjacency
from skprivate.privacy._lattice import WIDER, IntArray, check_positive, integers, rational
from skprivate.privacy._randomness import BitSource
from skprivate.privacy._tape import Draw

# Narrower noise is widened to this: it is 0 but for a probability of e^-1048576.
_LEAST_SCALE = Fraction(1, 2**20)


class FlowDraws:
    """The draw of a `Release` for measures on a grid."""

    if TYPE_CHECKING:
        _source: BitSource
        adjacency: Adjacency

        def _perform(self, draw: Draw, sample: Callable[[Any], Any]) -> Any: ...

    def flow_laplace(
        self, mass: ArrayLike, *, sensitivity: float, epsilon: float, stars: Sequence[Fraction | int] = ()
    ) -> IntArray:
        """Add to integer masses on a grid the divergence of a discrete Laplace flow along the grid's edges.

        If ν = μ + div f for an integer flow f, then ν + div Z = μ + div(Z + f), and the law of the flow Z changes by
        at most exp(‖f‖₁ / scale): ε-metric privacy for any distance of which ‖f‖₁ is at most ``sensitivity`` times
        (docs/metric.md, proposition 1).

        Parameters
        ----------
        mass : array-like of int, shape (k_1, …, k_d)
            Exact sums of integer contributions; neighbours along an axis are joined by edges. The total is the same
            for all neighbouring data sets, and stays as it is.
        stars : sequence of positive Fraction or int, default=()
            For the first axes, whose entries have no order: each is joined to the first one, and ``sensitivity`` along
            these edges is this one. A flow f costs ‖f‖₁ along each kind of edges over its sensitivity, in all at most
            1 per unit of distance (docs/metric.md, Theorem 11).
        sensitivity : float
            Largest ‖f‖₁ of a least flow between neighbours, per unit of distance: steps of mass times edges.
        epsilon : float
            Price per unit of distance.

        Returns
        -------
        ndarray of int64, same shape
            Python integers where int64 does not hold them. May be negative.
        """
        array = integers(mass)
        check_positive(sensitivity=sensitivity, epsilon=epsilon)
        if self.adjacency is not Adjacency.METRIC:
            raise ValueError(
                "flow_laplace needs adjacency='metric', its price is per unit of distance; the release has "
                f"adjacency={str(self.adjacency)!r}."
            )
        if len(stars) > array.ndim or not all(
            isinstance(star, Fraction | int) and star > 0 for star in stars
        ):
            raise ValueError(
                f"stars must be positive rational numbers, one for each of the first axes of mass ({array.ndim}), got "
                f"{stars!r}."
            )
        if array.size == 0 or array.ndim == 0:
            raise ValueError(f"mass must have one axis per dimension of the grid, got shape {array.shape}.")
        kinds = [*stars, *[sensitivity] * (array.ndim - len(stars))]
        scales = [max(rational(kind) / rational(epsilon) * WIDER, _LEAST_SCALE) for kind in kinds]
        for scale in scales:
            _samplers.check_scale(scale)
        events: dict[PrivacyEvent, int] = {PureEvent(epsilon, "Laplace flow"): 1}

        def sample(total: NDArray[Any]) -> NDArray[Any]:
            for axis, size in enumerate(array.shape):
                edges = (*array.shape[:axis], size - 1, *array.shape[axis + 1 :])
                noise = _samplers.integer_noise("laplace", scales[axis], math.prod(edges), self._source)
                flow = noise.reshape(edges)
                if axis < len(stars):
                    moved = np.moveaxis(flow, axis, 0)
                    first = reduce(add_exactly, moved, np.zeros(moved.shape[1:], dtype=np.int64))
                    change = np.concatenate([-first[np.newaxis], moved])
                    total = add_exactly(total, np.moveaxis(change, 0, axis))
                    continue
                ends = [(0, 0)] * array.ndim
                ends[axis] = (1, 1)
                total = add_exactly(total, -np.diff(np.pad(flow, ends), axis=axis))
            return total

        options = {"stars": tuple(Fraction(star) for star in stars)} if stars else {}
        draw = Draw("flow_laplace", array, sensitivity, "flow", events, 1.0, options)
        noisy: IntArray = self._perform(draw, sample)
        return noisy
