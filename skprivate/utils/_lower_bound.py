"""A statistical lower bound on ε, and a mutation that it must catch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from skprivate.privacy.noise import exponential_select, exponential_select_rows, integer_noise, permute_and_flip_select


def epsilon_lower_bound(first: ArrayLike, second: ArrayLike, *, delta: float = 0.0, alpha: float = 1e-6) -> float:
    """Lower confidence bound on the ε of a mechanism, from its outputs on two neighbouring data sets.

    For every event S, P(first ∈ S) ≤ e^ε P(second ∈ S) + δ. The first halves of the samples choose an
    event, one side of a threshold, and the direction; the second halves bound its two probabilities
    (Clopper-Pearson). The choice never looks at what it is tested on.

    Parameters
    ----------
    first, second : array-like of shape (n_runs,)
        A number computed from each released output on the one and on the other data set, in independent runs.
    delta : float, default=0.0
        The δ that the mechanism claims.
    alpha : float, default=1e-6
        Probability that the bound is above the true ε.

    Returns
    -------
    epsilon : float
        The bound; 0 if nothing was distinguished.

    See Also
    --------
    check_epsilon_lower_bound : Compares it with the claim.
    skprivate.audit.epsilon_lower_bound : Bounds ε from attack scores.

    References
    ----------
    C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 1934.

    Examples
    --------
    >>> import numpy as np
    >>> round(epsilon_lower_bound(np.arange(1000) % 2, np.zeros(1000)), 2)
    2.62
    """
    runs = [np.asarray(sample, dtype=np.float64).ravel() for sample in (first, second)]
    if min(map(len, runs)) < 4:
        raise ValueError(f"first and second need at least 4 runs each, got {len(runs[0])} and {len(runs[1])}.")
    choosing = [run[: len(run) // 2] for run in runs]
    testing = [run[len(run) // 2 :] for run in runs]
    best, event = -math.inf, None
    thresholds = np.unique(np.concatenate(choosing))
    if len(thresholds) > 2000:
        thresholds = np.quantile(thresholds, np.linspace(0, 1, 2000), method="nearest")
    for sign in (1.0, -1.0):
        cuts = np.sort(sign * thresholds)
        counts = [len(run) - np.searchsorted(np.sort(sign * run), cuts, side="left") for run in choosing]
        for upper, lower in ((0, 1), (1, 0)):
            bounds = _bound(counts[upper], len(choosing[upper]), counts[lower], len(choosing[lower]), delta, alpha)
            k = int(np.argmax(bounds))
            if bounds[k] > best:
                best, event = float(bounds[k]), (sign, cuts[k], upper, lower)
    assert event is not None
    sign, cut, upper, lower = event
    counts = [np.sum(sign * run >= cut) for run in testing]
    found = _bound(counts[upper], len(testing[upper]), counts[lower], len(testing[lower]), delta, alpha)
    return max(0.0, float(found))


def _bound(hits: object, n: int, misses: object, m: int, delta: float, alpha: float) -> np.ndarray:
    """Bound log((p − δ)/q) with p bounded from below and q from above, each with confidence 1 − alpha/2."""
    hits, misses = np.asarray(hits), np.asarray(misses)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(hits > 0, beta.ppf(alpha / 2, hits, n - hits + 1), 0.0)
        q = np.where(misses < m, beta.ppf(1 - alpha / 2, misses + 1, m - misses), 1.0)
        return np.where(p > delta, np.log(np.maximum(p - delta, 0.0) / q), -np.inf)


def check_epsilon_lower_bound(
    draw: Callable[[Any], float],
    neighbours: tuple[Any, Any],
    *,
    epsilon: float,
    delta: float = 0.0,
    n_runs: int = 4000,
    alpha: float = 1e-6,
) -> tuple[float, float]:
    """Check that a mechanism does not lose more than the ε it claims, and that half its noise would be noticed.

    Parameters
    ----------
    draw : callable
        ``draw(data)`` runs the mechanism once on ``data``, with fresh noise, and returns a number computed from what it
        released: large or small where the two data sets are distinguished best.
    neighbours : tuple of (data, data)
        Two neighbouring data sets, as far apart as the sensitivity allows.
    epsilon, delta : float
        The claim.
    n_runs : int, default=4000
        Runs on each data set; half of them choose the event.
    alpha : float, default=1e-6
        Probability that a correct mechanism fails.

    Returns
    -------
    bound, bound_with_half_noise : tuple of (float, float)
        Lower bounds on the ε of the mechanism, and on that of itself with noise of half the scale.

    Raises
    ------
    AssertionError
        The bound is above ``epsilon``, or half the noise is not noticed, so that this test could not fail.

    See Also
    --------
    epsilon_lower_bound : Computes the bound.
    half_noise : Halves the noise for comparison.
    """
    bound = epsilon_lower_bound(*([draw(data) for _ in range(n_runs)] for data in neighbours), delta=delta, alpha=alpha)
    assert bound <= epsilon, f"loses at least ε = {bound:.3g}, but claims {epsilon}."
    with half_noise():
        halved = epsilon_lower_bound(
            *([draw(data) for _ in range(n_runs)] for data in neighbours), delta=delta, alpha=alpha
        )
    assert halved > epsilon, f"half the noise is not noticed: {halved:.3g} <= {epsilon}; use more runs."
    return bound, halved


@contextmanager
def half_noise() -> Iterator[None]:
    """Halve the scale of the noise of every release in this context, and select twice as sharply.

    A mutation for tests: what they claim to notice must fail in here.

    See Also
    --------
    check_epsilon_lower_bound : Checks that half the noise is seen.
    """
    noise = "skprivate.privacy.noise"

    def halved(kind: str, scale: object, size: object, source: object) -> Any:
        return integer_noise(kind, Fraction(scale) / 2, size, source)

    def sharper(select: object) -> Any:
        return lambda costs, rate, *args, **kwargs: select(costs, 2 * Fraction(rate), *args, **kwargs)

    selections = (exponential_select, exponential_select_rows, permute_and_flip_select)
    with mock.patch.multiple(
        f"{noise}._selection", **{select.__name__: sharper(select) for select in selections}
    ), mock.patch(f"{noise}._samplers.integer_noise", halved):  # fmt: skip
        yield
