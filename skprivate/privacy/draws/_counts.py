"""A draw of counts whose keys are private: noise on each, and a threshold that hides the keys of few units.

The proof is in docs/theory/noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from skprivate.privacy import _contributions
from skprivate.privacy._contributions import FloatArray, IntegerLattice
from skprivate.privacy._events import ApproximateEvent, Draw, GaussianEvent, PrivacyEvent, PureEvent
from skprivate.privacy.noise import _bits, _samplers

CountNoise = Literal["gaussian", "laplace"]
#: Relative margin for the rounding of tails in float64.
_MARGIN = 1e-9
#: What float64 may round to 0.
_LEAST = 5e-324


def count_events_of(
    noise: CountNoise, level: float, *, size: int, threshold_delta: float | None
) -> dict[PrivacyEvent, int]:
    """List what a draw of counts costs: noise of ``size`` numbers, and the threshold, if there is one."""
    spent: PrivacyEvent = GaussianEvent(level, size) if noise == "gaussian" else PureEvent(level, "Laplace")
    hidden: dict[PrivacyEvent, int] = {}
    if threshold_delta is not None:
        hidden[ApproximateEvent(0.0, threshold_delta, "threshold")] = 1
    return {spent: 1, **hidden}


def count_lattice(noise: CountNoise, sensitivity: float, level: float, size: int) -> IntegerLattice:
    """Compute the lattice of the noise; ``level`` is a noise multiplier, or ε."""
    make = _contributions.integer_gaussian_lattice if noise == "gaussian" else _contributions.integer_laplace_lattice
    return make(sensitivity, level, size)


def tail(noise: CountNoise, lattice: IntegerLattice, distance: Fraction) -> float:
    """Bound the probability from above that noise is at least ``distance`` steps."""
    points = math.ceil(distance * Fraction(2) ** lattice.shift)
    if points <= 0:
        return 1.0
    scale = float(lattice.scale)
    if noise == "gaussian":
        # The law at k is at most 1/(1 − 1/(8σ²)) times the normal one rounded to k, and σ is over 2³².
        return min(1.0, float(norm.sf(points / scale / (1 + _MARGIN))) * (1 + _MARGIN) + _LEAST)
    # P(Z ≥ m) = q^m/(1 + q) of the discrete Laplace law with q = e^(−1/scale).
    return math.exp(-points / scale / (1 + _MARGIN)) / (1.0 + math.exp(-1.0 / scale)) * (1 + _MARGIN) + _LEAST


def count_threshold(noise: CountNoise, lattice: IntegerLattice, *, own: int, most_keys: int, delta: float) -> int:
    """Find the least threshold, in steps, that keys of one unit pass with probability ``delta`` at most in all.

    The unit has up to ``most_keys`` keys alone, with a count of up to ``own`` steps in each.
    """
    each = -math.expm1(math.log1p(-delta) / most_keys) * (1 - _MARGIN)
    if each < 2.0**-1000:
        raise ValueError(f"delta must be larger for a threshold, got {delta!r}.")
    low, high = own, own + 1
    while tail(noise, lattice, Fraction(high - own)) > each:
        low, high = high, own + 2 * (high - own)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(noise, lattice, Fraction(middle - own)) <= each else (middle, high)
    return high


class CountDraws:
    """Draws of counts by private keys."""

    if TYPE_CHECKING:
        dry_run: bool
        _source: _bits.BitSource

        def _require_delta(self, what: str) -> None: ...
        def _perform(self, draw: Draw, sample: Callable[[Any], Any]) -> Any: ...

    def threshold_counts(
        self,
        counts: Mapping[Any, ArrayLike],
        *,
        n_numbers: int = 1,
        sensitivity: float,
        noise: CountNoise,
        level: float,
        size: int,
        own: int,
        most_keys: int,
        threshold_delta: float,
        step: float = 1.0,
    ) -> tuple[list[Any], FloatArray]:
        """Add noise to the numbers of every key, and keep the keys whose first number passes a threshold.

        Which keys there are is private: those that do not pass leave no trace in the result, the cost or a message.

        Parameters
        ----------
        counts : mapping of key to int, or to ``n_numbers`` int
            Sums over units, in steps; the first number of each key counts. A key without units is left out. Keys are
            of one kind that can be sorted.
        n_numbers : int, default=1
        sensitivity : float
            Largest change of all numbers together, in steps: in ℓ2 for "gaussian", in ℓ1 for "laplace".
        noise : {"gaussian", "laplace"}
        level : float
            Noise multiplier of "gaussian", ε of "laplace".
        size : int
            Public bound on how many numbers one unit changes (both units, if one is exchanged).
        own : int
            Largest first number, in steps, that one unit alone gives a key.
        most_keys : int
            Largest number of keys that one unit alone can have.
        threshold_delta : float
            Probability with which such a key may pass.
        step : float, default=1
            What one step stands for.

        Returns
        -------
        keys : list
            Those that passed, sorted.
        values : ndarray of shape (n_keys, n_numbers)
            Their noisy numbers, in units of ``step``.
        """
        self._require_delta("a threshold")
        _contributions.check_positive(sensitivity=sensitivity, level=level, threshold_delta=threshold_delta, size=size)
        lattice = count_lattice(noise, sensitivity, level, size)
        limit = count_threshold(noise, lattice, own=own, most_keys=most_keys, delta=threshold_delta)
        keys = [] if self.dry_run else sorted(counts)  # their number is private, too
        numbers = _contributions.integers(
            np.array([counts[key] for key in keys], dtype=object).reshape(len(keys), n_numbers)
        )
        events = count_events_of(noise, level, size=size, threshold_delta=threshold_delta)
        options = {"own": own, "most_keys": most_keys, "threshold": limit}
        norm_of = "l2" if noise == "gaussian" else "l1"
        draw = Draw(
            kind="threshold_counts",
            statistic=numbers,
            sensitivity=sensitivity,
            norm=norm_of,
            events=events,
            step=step,
            options=options,
            keys=tuple(keys),
        )
        scale = _samplers.drawable(lattice.scale)
        least = math.ceil(limit * Fraction(2) ** lattice.shift)  # in points: a float64 would be rounded

        def sample(sums: NDArray[Any]) -> tuple[list[Any], FloatArray]:
            drawn = _samplers.integer_noise(noise, scale, sums.shape, self._source)
            total = _contributions.add_exactly(lattice.place(sums), drawn)
            passed = total[:, 0] >= least
            shown = [key for key, kept in zip(keys, passed, strict=True) if kept]
            return shown, lattice.to_steps(total)[passed] * step

        found: tuple[list[Any], FloatArray] = self._perform(draw, sample)
        return found
