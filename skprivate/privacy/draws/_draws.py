"""The draws: noise and selection whose scale and cost come from the same call.

Each method of `Draws` checks its input, computes the lattice and the cost, pays, and only then draws. Integers are
noised unchanged; real values are rounded to a lattice first. In both cases exact integer noise is added to integers, so
no guarantee rests on floating-point tails (docs/design.md).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy import _contributions, _events
from skprivate.privacy._contributions import FloatArray, IntArray, IntegerLattice, Lattice
from skprivate.privacy._events import BoundedRangeEvent, Draw, LaplaceEvent, PrivacyEvent, PureEvent
from skprivate.privacy.draws import _counts
from skprivate.privacy.noise import _bits, _samplers, _selection

SelectionRule = Literal["exponential", "permute-and-flip"]
T = TypeVar("T")


class Draws:
    """Draws on private data; who inherits says how they are paid for."""

    #: Called after each draw with the number of its events, so that progress is seen. Not inherited by the branches of
    #: `select_repeatedly`, whose number is a secret.
    after_draw: Callable[[int], None] | None = None
    delta: float
    #: Whether draws are made for the sake of their costs: no private statistic is looked at, all are zeros.
    dry_run: bool
    _source: _bits.BitSource
    _tape: _events.Tape | None

    def _charge(self, events: dict[PrivacyEvent, int]) -> None:
        """Pay for ``events``, or raise; nothing has been drawn before this returns."""
        raise NotImplementedError

    def laplace(
        self,
        value: ArrayLike,
        *,
        sensitivity: float,
        epsilon: float,
        norm: Literal["l1", "linf"] = "l1",
        step: float = 1.0,
    ) -> Any:
        """Add Laplace noise of scale ``sensitivity / epsilon`` to every number.

        Parameters
        ----------
        value : float, int or array-like
            The private statistic; its length is public. Integers, of any size, count steps and are used exactly:
            exact sums of integer contributions (`exact_sum`) keep a sensitivity that float64 sums do not. Floats are
            rounded to a lattice; that float64 computes the same for all other units is then the caller's claim.
        sensitivity : float
            Largest change of ``value`` between neighbours, in ``norm``.
        epsilon : float
            Cost: of the whole vector ("l1"), or of each coordinate ("linf").
        norm : {"l1", "linf"}
        step : float, default=1
            What one unit of an integer ``value`` stands for; a power of two. The result is in the units of ``step``.

        Returns
        -------
        float or ndarray of float64
            The noisy value, of the same shape.
        """
        if norm not in ("l1", "linf"):
            raise ValueError(f"norm must be 'l1' or 'linf', got {norm!r}.")
        _contributions.check_positive(sensitivity=sensitivity, epsilon=epsilon)
        exact, size = _contributions.as_integers(value), np.size(value)
        coordinates, count = (size, 1) if norm == "l1" else (1, max(size, 1))
        one_number = size == 1 or norm == "linf"
        event = LaplaceEvent(epsilon) if one_number else PureEvent(epsilon, "Laplace")
        if exact is None:
            real = Draw("laplace", _contributions.finite(value), sensitivity, norm, {event: count})
            return self._noisy_reals(real, _contributions.laplace_lattice(sensitivity, epsilon, coordinates))
        lattice = _contributions.integer_laplace_lattice(sensitivity, epsilon, coordinates)
        return self._noisy_integers(Draw("laplace", exact, sensitivity, norm, {event: count}, step), lattice)

    def gaussian(
        self,
        value: ArrayLike,
        *,
        sensitivity: float,
        noise_multiplier: float,
        step: float = 1.0,
        size: int | None = None,
    ) -> Any:
        """Add Gaussian noise of standard deviation ``sensitivity * noise_multiplier`` to every number.

        Parameters
        ----------
        value : float, int or array-like
            As in `laplace`.
        sensitivity : float
            Largest ℓ2 change of ``value`` between neighbours.
        noise_multiplier : float
            Standard deviation per unit of sensitivity; the cost is
            ``GaussianEvent(noise_multiplier, size=value.size)``.
        step : float, default=1
            As in `laplace`.
        size : int, optional
            Public bound on how many numbers there are, for a plan that is made before their number is known. By
            default it is their number.

        Returns
        -------
        float or ndarray of float64
            The noisy value, of the same shape.
        """
        self._require_delta("Gaussian noise")
        _contributions.check_positive(sensitivity=sensitivity, noise_multiplier=noise_multiplier)
        exact = _contributions.as_integers(value)
        if size is None:
            size = np.size(value)
        elif np.size(value) > size:
            raise ValueError(f"value must have at most size = {size} numbers, got {np.size(value)}.")
        event = _events.GaussianEvent(noise_multiplier, max(size, 1))
        if exact is None:
            real = Draw("gaussian", _contributions.finite(value), sensitivity, "l2", {event: 1})
            return self._noisy_reals(real, _contributions.gaussian_lattice(sensitivity, noise_multiplier, size))
        lattice = _contributions.integer_gaussian_lattice(sensitivity, noise_multiplier, size)
        return self._noisy_integers(Draw("gaussian", exact, sensitivity, "l2", {event: 1}, step), lattice)

    def discrete_laplace(self, counts: ArrayLike, *, sensitivity: int, epsilon: float) -> IntArray:
        """Add discrete Laplace noise to integers: ``P(k) ∝ exp(−epsilon·|k| / sensitivity)``.

        Parameters
        ----------
        counts : array-like of int
        sensitivity : int
            Largest ℓ1 change of ``counts`` between neighbours.
        epsilon : float
            Cost of the whole vector, pure.

        Returns
        -------
        ndarray of int64, same shape
            Python integers where int64 does not hold them.
        """
        array = _contributions.integers(counts)
        _contributions.check_positive(sensitivity=sensitivity, epsilon=epsilon)
        scale = _contributions.rational(sensitivity) / _contributions.rational(epsilon) * _contributions.WIDER
        event = PureEvent(epsilon, "discrete Laplace")
        return self._noisy_counts(Draw("discrete_laplace", array, sensitivity, "l1", {event: 1}, 1.0), scale)

    def discrete_gaussian(self, counts: ArrayLike, *, sensitivity: float, rho: float) -> IntArray:
        """Add discrete Gaussian noise to integers, σ² = sensitivity² / (2 rho).

        Parameters
        ----------
        counts : array-like of int
        sensitivity : float
            Largest ℓ2 change of ``counts`` between neighbours.
        rho : float
            Cost of the whole vector in zCDP (Canonne, Kamath and Steinke 2020, theorem 4).

        Returns
        -------
        ndarray of int64, same shape
            Python integers where int64 does not hold them.
        """
        self._require_delta("discrete Gaussian noise")
        array = _contributions.integers(counts)
        _contributions.check_positive(sensitivity=sensitivity, rho=rho)
        scale = _contributions.rational(sensitivity) * Fraction(1 / math.sqrt(2 * rho)) * _contributions.WIDER
        event = _events.ZeroConcentratedEvent(rho, "discrete Gaussian")
        return self._noisy_counts(Draw("discrete_gaussian", array, sensitivity, "l2", {event: 1}, 1.0), scale)

    def select(
        self,
        scores: ArrayLike,
        *,
        sensitivity: float,
        epsilon: float,
        rule: SelectionRule = "exponential",
        monotone: bool = False,
        multiplicity: Sequence[int] | NDArray[Any] | None = None,
        locate: Callable[[int, int], Any] | None = None,
    ) -> Any:
        """Choose an index with a high score.

        Parameters
        ----------
        scores : array-like of float or int, shape (n_candidates,)
            Integers are used exactly.
        sensitivity : float
            Largest change of one score between neighbours.
        epsilon : float
            Cost. "exponential" draws P ∝ exp(ε·score/(2·sensitivity)), "permute-and-flip" (McKenna and Sheldon
            2020) uses the same exponents and never has a lower expected score.
        rule : {"exponential", "permute-and-flip"}
        monotone : bool
            Whether between neighbours all scores change in the same direction; halves the sensitivity.
        multiplicity : sequence of int, optional
            Number of candidates that share each score; a uniform member of the category is drawn as well. Where
            the categories are runs of an ordered list of candidates they stand in its order.
        locate : callable, optional
            Turns (category, member) into the candidate itself. How candidates fall into categories depends on
            private data; the candidate does not, and is what may be released.

        Returns
        -------
        int, or (int, int) with ``multiplicity``, or what ``locate`` returns
            The index, or (category, member), or the candidate.
        """
        _contributions.check_positive(sensitivity=sensitivity, epsilon=epsilon)
        costs, steps = _contributions.selection_costs(scores, sensitivity, epsilon)
        if costs.ndim != 1 or costs.size == 0:
            raise ValueError(f"scores must have shape (n_candidates,), got {costs.shape}.")
        if rule == "exponential":
            event: PrivacyEvent = BoundedRangeEvent(epsilon)
            choose: Callable[..., tuple[int, int]] = _selection.exponential_select
        elif rule == "permute-and-flip":
            event, choose = PureEvent(epsilon, "permute-and-flip"), _selection.permute_and_flip_select
        else:
            raise ValueError(f"rule must be 'exponential' or 'permute-and-flip', got {rule!r}.")
        _selection.check_selection(costs, multiplicity, rule)
        rate = _contributions.selection_rate(epsilon, steps, monotone)
        if multiplicity is None and locate is not None:
            raise ValueError("multiplicity must be given with locate, got None.")
        options = {"rule": rule, "monotone": monotone, "multiplicity": multiplicity, "located": locate is not None}

        def categories() -> list[int]:
            return [self._choose(choose, costs, rate, multiplicity)[0]]

        def sample(_: NDArray[Any]) -> Any:
            category, member = self._choose(choose, costs, rate, multiplicity)
            if multiplicity is None:
                return category
            return (category, member) if locate is None else locate(category, member)

        scored = np.asarray(scores)
        draw = Draw("select", scored, sensitivity, "linf", {event: 1}, options=options, categories=categories)
        return self._perform(draw, sample)

    def select_parts(
        self,
        scores: Sequence[NDArray[Any]],
        *,
        sensitivity: float,
        epsilon: float,
        multiplicity: Sequence[Sequence[int] | NDArray[Any]],
        locate: Callable[[int, int, int], Any],
    ) -> list[Any]:
        """Choose a candidate for each of several parts of the data by the exponential mechanism, charged once.

        Every unit has a share in each part, and its shares bound what it does there: no score of part i moves by more
        than s_i, and s_1 + s_2 + … is at most ``sensitivity``. The range of the privacy loss of part i is then
        ε·s_i/sensitivity, ranges of independent draws add up, and all parts together are ε-bounded-range.

        Parameters
        ----------
        scores : sequence of ndarray of int
            Of the categories of each part, used exactly.
        sensitivity : float
            Largest sum over the parts of the largest change of a score between neighbours.
        epsilon : float
            Cost of all parts together.
        multiplicity : sequence of sequence of int
            Number of candidates in each category, as in `select`.
        locate : callable
            Turns (part, category, member) into the candidate itself.

        Returns
        -------
        list
            A candidate for each part.
        """
        _contributions.check_positive(sensitivity=sensitivity, epsilon=epsilon)
        if not scores or len(scores) != len(multiplicity):
            raise ValueError(
                f"scores and multiplicity must have one entry for each part, got {len(scores)} and {len(multiplicity)}."
            )
        parts = []
        for part, counts in zip(scores, multiplicity, strict=True):
            if _contributions.as_integers(part) is None:
                raise TypeError("scores must be integers.")
            costs, steps = _contributions.selection_costs(part, sensitivity, epsilon)
            _selection.check_selection(costs, counts, "exponential")
            parts.append(costs)
        rate = _contributions.selection_rate(epsilon, steps, False)
        options = {"monotone": False, "multiplicity": np.concatenate(list(multiplicity))}
        options |= {"parts": [int(np.sum(counts)) for counts in multiplicity], "located": True}

        def chosen() -> list[tuple[int, int]]:
            return [
                self._choose(_selection.exponential_select, costs, rate, counts)
                for costs, counts in zip(parts, multiplicity, strict=True)
            ]

        def categories() -> list[int]:
            return [category for category, _ in chosen()]

        scored, event = np.concatenate(list(scores)), BoundedRangeEvent(epsilon)
        draw = Draw("select_parts", scored, sensitivity, "parts", {event: 1}, options=options, categories=categories)
        return self._perform(draw, lambda _: [locate(k, *pair) for k, pair in enumerate(chosen())])

    def threshold_counts(
        self,
        counts: Mapping[Any, ArrayLike],
        *,
        n_numbers: int = 1,
        sensitivity: float,
        noise: _counts.CountNoise,
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
        lattice = _counts.count_lattice(noise, sensitivity, level, size)
        limit = _counts.count_threshold(noise, lattice, own=own, most_keys=most_keys, delta=threshold_delta)
        keys = [] if self.dry_run else sorted(counts)  # their number is private, too
        numbers = _contributions.integers(
            np.array([counts[key] for key in keys], dtype=object).reshape(len(keys), n_numbers)
        )
        events = _counts.count_events_of(noise, level, size=size, threshold_delta=threshold_delta)
        options = {"own": own, "most_keys": most_keys, "threshold": limit}
        scale = _samplers.drawable(lattice.scale)
        least = math.ceil(limit * Fraction(2) ** lattice.shift)  # in points: a float64 would be rounded

        def sample(sums: NDArray[Any]) -> tuple[list[Any], FloatArray]:
            drawn = _samplers.integer_noise(noise, scale, sums.shape, self._source)
            total = _contributions.add_exactly(lattice.place(sums), drawn)
            passed = total[:, 0] >= least
            shown = [key for key, kept in zip(keys, passed, strict=True) if kept]
            return shown, lattice.to_steps(total)[passed] * step

        norm = "l2" if noise == "gaussian" else "l1"
        draw = Draw("threshold_counts", numbers, sensitivity, norm, events, step, options=options, keys=tuple(keys))
        return self._perform(draw, sample)

    # --- how a draw is made -----------------------------------------------------------------------------------------

    def _perform(self, draw: Draw, sample: Callable[[NDArray[Any]], T]) -> T:
        """Pay, then draw from the statistic, or in a dry run from zeros in its place."""
        self._charge(draw.events)
        if self.dry_run:
            kind = np.float64 if draw.statistic.dtype.kind == "f" else np.int64
            draw = replace(draw, statistic=np.zeros(draw.statistic.shape, kind))
        make = partial(sample, draw.statistic)
        result: T = make() if self._tape is None else self._tape.draw(draw, make)
        if self.after_draw is not None:
            self.after_draw(sum(draw.events.values()))
        return result

    def _choose(
        self,
        choose: Callable[..., tuple[int, int]],
        costs: IntArray,
        rate: Fraction,
        multiplicity: Sequence[int] | NDArray[Any] | None,
    ) -> tuple[int, int]:
        """Draw a category and a member of it; in a dry run a uniform place in the list of all candidates."""
        if not self.dry_run:
            return choose(costs, rate, self._source, multiplicity)
        ends = list(accumulate([1] * costs.size if multiplicity is None else map(int, multiplicity)))
        place = self._source.integer_below(ends[-1])
        category = bisect_right(ends, place)
        return category, place - (ends[category - 1] if category else 0)

    def _require_delta(self, what: str) -> None:
        if self.delta == 0:
            raise ValueError(f"{what} needs delta > 0, got delta=0; use Laplace noise for pure privacy.")

    def _noisy_counts(self, draw: Draw, scale: Fraction) -> IntArray:
        law, scale = draw.kind.removeprefix("discrete_"), _samplers.drawable(scale)

        def sample(counts: NDArray[Any]) -> IntArray:
            return _contributions.add_exactly(counts, _samplers.integer_noise(law, scale, counts.shape, self._source))

        return self._perform(draw, sample)

    def _noisy_integers(self, draw: Draw, lattice: IntegerLattice) -> Any:
        step: Any = draw.step
        _contributions.check_positive(step=step)
        if math.frexp(step)[0] != 0.5:
            raise ValueError(f"step must be a power of two, got {step!r}.")
        scale = _samplers.drawable(lattice.scale)

        def sample(sums: NDArray[Any]) -> Any:
            noise = _samplers.integer_noise(draw.kind, scale, sums.shape, self._source)
            total = _contributions.add_exactly(lattice.place(sums), noise)
            noisy = lattice.to_steps(total) * step
            return float(noisy) if sums.ndim == 0 else noisy

        return self._perform(draw, sample)

    def _noisy_reals(self, draw: Draw, lattice: Lattice) -> Any:
        scale = _samplers.drawable(lattice.scale)

        def sample(array: FloatArray) -> Any:
            # Both terms are exact multiples of the step, and their float64 sum is a function of the exact sum (IEEE
            # addition rounds it correctly), hence post-processing of integer noise on integers. (Noise above 2^53
            # steps would be rounded first: more than 200 scales away, it has a probability below e^-200.)
            noise = _samplers.integer_noise(draw.kind, scale, array.shape, self._source)
            noisy = _contributions.snap(array, lattice.step) + noise.astype(np.float64) * lattice.step
            return float(noisy) if array.ndim == 0 else noisy

        return self._perform(draw, sample)
