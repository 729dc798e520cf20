"""Whether a descent has settled, read off the directions that it released: post-processing, which costs nothing.

At the solution the users' contributions add up to 0, so the mean of the directions is noise, and less than that, since
the descent undoes its own noise: Σ η v_t is the distance between the first iterate and the last. Where features have
very different scales or lie far from 0, flat directions are never walked down and the mean stays where it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

FloatArray = npt.NDArray[np.float64]

#: Chance that an entry of the mean of directions of pure noise exceeds the threshold.
FALSE_ALARM = 3e-4
#: A mean vote of so small a part of the users is close enough to 0, however little noise there is.
SMALL_VOTE = 0.005
#: Fewer directions say nothing about a descent.
LEAST_STEPS = 10
#: From this part of the projection radius on, a solution is taken to lie at the bound.
AT_BOUND = 0.9

#: Where the average of the iterates may begin.
TAILS = (0.0, 0.25, 0.5, 0.75, 0.9)

#: What a warning says, and what to do.
UNSETTLED = (
    "The descent has not settled: the mean of its released directions is {drift:.2g} times what noise explains. Most "
    "often features have very different scales or lie far from 0; they should have about mean 0 and deviation 1."
)
BOUNDED = (
    "The coefficients lie at their bound, {radius:.2g}, that was found from the scale of the target: features are "
    "small against the target, or most targets are 0. Features should have about mean 0 and deviation 1; a public "
    "bound on the norm of the coefficients can be given as radius."
)
ADVICE = (
    " Scale features by known limits (skprivate.preprocessing.PublicScaler.from_bounds), or within the budget "
    "(PrivateStandardScaler, PrivateQuantileTransformer). This was told from released numbers and cost nothing."
)


class UnscaledFeaturesWarning(ConvergenceWarning):  # type: ignore[misc]
    """A private descent did not settle, most often because features have very different scales or lie far from 0.

    Decided from released numbers alone: it costs nothing and tells nothing that the coefficients do not.
    """


@dataclass(frozen=True)
class Course:
    """What a descent released.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        Average of the iterates of the refinement.
    clip_radius : float
        Clipping radius in the refinement.
    directions : ndarray of shape (n_steps, n_coef)
        Released directions of the steps that were averaged, in units of a unanimous vote of the users.
    noise : float
        Standard deviation of the noise of each of their entries.
    times : ndarray of shape (n_iterates,)
        How long the iterates that were averaged have followed directions: sums of steps, endless for quasi-Newton
        steps. Empty if not known.
    """

    coef: FloatArray
    clip_radius: float
    directions: FloatArray
    noise: float
    times: FloatArray = field(default_factory=partial(np.empty, 0))

    def drift(self, bound: float = math.inf) -> float:
        """Largest entry of the mean direction, in units of what noise alone exceeds with probability `FALSE_ALARM`.

        Parameters
        ----------
        bound : float > 0
            Radius of the ball within which the coefficients are meant to stay: at its surface the component towards
            the outside is no failure.

        Returns
        -------
        float
            Above 1 if the descent has not settled; 0 if that cannot be told or does not matter.
        """
        n_steps = len(self.directions)
        if n_steps < LEAST_STEPS:
            return 0.0
        mean = self._inward(self.directions.mean(axis=0), bound)
        late = self._inward(self.directions[n_steps // 2 :].mean(axis=0), bound)
        if np.linalg.norm(late) <= SMALL_VOTE:
            return 0.0
        # Of so many entries none, by the union bound.
        expected = self.noise * float(norm.isf(0.5 * FALSE_ALARM / len(mean))) / math.sqrt(n_steps)
        # What is left of the start is no drift: a steady one is as large in the second half, beside √2 times the noise.
        return float(min(np.abs(mean).max(), math.sqrt(2.0) * np.abs(late).max())) / expected

    def at_bound(self, bound: float) -> bool:
        """Whether the coefficients lie at the surface of the ball of this radius."""
        return float(np.linalg.norm(self.coef)) >= AT_BOUND * bound

    def _inward(self, direction: FloatArray, bound: float) -> FloatArray:
        """A direction without the component along which the bound stops the descent."""
        if not self.at_bound(bound):
            return direction
        outward = self.coef / float(np.linalg.norm(self.coef))
        # The iterate moves against the direction.
        return direction - min(float(direction @ outward), 0.0) * outward


def average(
    iterates: FloatArray, directions: FloatArray, noise: float, clip_radius: float, times: FloatArray
) -> Course:
    """Mean of the last iterates: of as many as have a mean direction that noise explains.

    With much noise these are all of them. The less there is, the more what is left of the start counts, and the fewer
    are averaged; without noise the last few.

    Parameters
    ----------
    iterates, directions : ndarray of shape (n_steps, n_coef)
        Each iterate, and the released direction of the step to it.
    noise : float
        Standard deviation of the noise of each entry of a direction.
    clip_radius : float
        As in `Course`.
    times : ndarray of shape (n_steps,)
        As in `Course`, of all iterates.
    """
    n_steps, d = directions.shape
    quantile = noise * float(norm.isf(0.5 * FALSE_ALARM / d))
    for part in TAILS:
        first = int(part * n_steps)
        if np.abs(directions[first:].mean(axis=0)).max() <= quantile / math.sqrt(n_steps - first):
            break
    return Course(iterates[first:].mean(axis=0), clip_radius, directions, noise, times[first:])
