"""The one door: every random draw on private data and its price come from the same call.

A `Release` is a budget being spent. Each method draws noise of the scale that its sensitivity and price dictate
and records the event; there is no way to draw without paying, and no way to pay less than was drawn. Real values are
rounded to a lattice first and get exact integer noise, so no guarantee rests on floating-point tails
(derivation in docs/design.md).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate.privacy import _samplers, _selection
from skprivate.privacy._accounting import compose_epsilon, rho_total, upper_bound_epsilon
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._events import (
    BoundedRangeEvent,
    Events,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    ZeroConcentratedEvent,
    count_events,
)
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy._ledger import PrivacyLedger
from skprivate.privacy._randomness import SimulatedNoiseWarning, bit_source, public_generator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SelectionRule = Literal["exponential", "permute-and-flip"]

#: Noise is this much wider than its price says, so that budgets split in floating point never overrun.
_WIDER = 1 + Fraction(1, 2**30)
#: Relative rounding of a budget split in floating point that is absorbed by `_WIDER`.
_ROUNDING = 2.0**-40
#: A pure guarantee is reported if its ε is at most this multiple of the one that needs δ.
_PURE_PREFERENCE = 1.01
#: Lattice steps per noise scale, as a power of two.
_LATTICE_BITS = 32
#: Steps of rounding that two neighbouring values may differ by beyond their sensitivity: one for rounding to
#: the lattice, one for float64 error of the statistic itself (up to half a step each).
_ROUNDING_STEPS = 2
_SELECT_BITS = 20
_SELECT_LIMIT = float(2**60)


class Release:
    """A privacy budget being spent; made by `open_release`, ended by `close`.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    unit : PrivacyUnit
    adjacency : Adjacency
    public_rng : numpy.random.Generator
        Randomness that may be published (rotations, subsampling of public rows), independent of all noise.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        unit: PrivacyUnit,
        adjacency: Adjacency,
        metric: str | None,
        random_state: Any,
        ledger: PrivacyLedger | None,
        label: str,
        theorem: str,
        assumptions: tuple[str, ...],
        plan: Events,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.adjacency = adjacency
        self._metric = metric
        self._label = label
        self._theorem = theorem
        self._assumptions = assumptions
        self._source = bit_source(random_state)
        self.public_rng = public_generator(random_state)
        self._ledger = ledger
        self._entry: int | None = None
        self._charged_epsilon = math.inf
        self._planned: dict[PrivacyEvent, int] = {}
        self._drawn: dict[PrivacyEvent, int] = {}
        self._closed = False
        planned = count_events(plan)
        if planned:
            self._pay(planned)
            self._planned = planned
        if not self._source.secure:
            warnings.warn(
                "random_state is an integer: this fit draws simulated noise that anyone can reproduce. Use "
                "random_state=None before anything is released.",
                SimulatedNoiseWarning,
                stacklevel=2,
            )

    # --- draws ---------------------------------------------------------------------------------------------------

    def laplace(
        self, value: ArrayLike, *, sensitivity: float, epsilon: float, norm: Literal["l1", "linf"] = "l1"
    ) -> Any:
        """Add Laplace noise of scale ``sensitivity / epsilon`` to every number.

        Parameters
        ----------
        value : float or array-like of float
            The private statistic; its length is public.
        sensitivity : float
            Largest change of ``value`` between neighbours, in ``norm``.
        epsilon : float
            Price: of the whole vector ("l1"), or of each coordinate ("linf").
        norm : {"l1", "linf"}

        Returns
        -------
        float or ndarray of float64
            The noisy value, of the same shape.
        """
        array = _finite(value)
        _check_positive(sensitivity=sensitivity, epsilon=epsilon)
        if norm == "l1":
            event: PrivacyEvent = LaplaceEvent(epsilon) if array.size == 1 else PureEvent(epsilon, "Laplace")
            self._draw({event: 1})
            coordinates = array.size
        elif norm == "linf":
            self._draw({LaplaceEvent(epsilon): max(array.size, 1)})
            coordinates = 1
        else:
            raise ValueError(f"norm must be 'l1' or 'linf', got {norm!r}.")
        step = _lattice_step(sensitivity / epsilon, coordinates)
        # Two further steps: the discrete Laplace shifted by Δ steps is dominated by the continuous one shifted
        # by Δ + 2, whose profile is what the accountant uses.
        steps = Fraction(sensitivity) / Fraction(step) + _ROUNDING_STEPS * coordinates + 2
        return self._noisy("laplace", array, step, steps / Fraction(epsilon) * _WIDER)

    def gaussian(self, value: ArrayLike, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Add Gaussian noise of standard deviation ``sensitivity * noise_multiplier`` to every number.

        Parameters
        ----------
        value : float or array-like of float
            The private statistic; its length is public.
        sensitivity : float
            Largest ℓ2 change of ``value`` between neighbours.
        noise_multiplier : float
            Standard deviation per unit of sensitivity; the price is
            ``GaussianEvent(noise_multiplier, size=value.size)``.

        Returns
        -------
        float or ndarray of float64
            The noisy value, of the same shape.
        """
        self._require_delta("Gaussian noise")
        array = _finite(value)
        _check_positive(sensitivity=sensitivity, noise_multiplier=noise_multiplier)
        self._draw({GaussianEvent(noise_multiplier, max(array.size, 1)): 1})
        root = math.isqrt(max(array.size, 1) - 1) + 1
        step = _lattice_step(sensitivity * noise_multiplier, root)
        steps = Fraction(sensitivity) / Fraction(step) + _ROUNDING_STEPS * root
        return self._noisy("gaussian", array, step, steps * Fraction(noise_multiplier) * _WIDER)

    def discrete_laplace(self, counts: ArrayLike, *, sensitivity: int, epsilon: float) -> IntArray:
        """Add discrete Laplace noise to integers: P(k) ∝ exp(−epsilon·|k| / sensitivity).

        Parameters
        ----------
        counts : array-like of int
        sensitivity : int
            Largest ℓ1 change of ``counts`` between neighbours.
        epsilon : float
            Price of the whole vector, pure.

        Returns
        -------
        ndarray of int64, same shape
        """
        array = _integers(counts)
        _check_positive(sensitivity=sensitivity, epsilon=epsilon)
        self._draw({PureEvent(epsilon, "discrete Laplace"): 1})
        scale = Fraction(sensitivity) / Fraction(epsilon) * _WIDER
        return array + self._integer_noise("laplace", scale, array.shape)

    def discrete_gaussian(self, counts: ArrayLike, *, sensitivity: float, rho: float) -> IntArray:
        """Add discrete Gaussian noise to integers, σ² = sensitivity² / (2 rho).

        Parameters
        ----------
        counts : array-like of int
        sensitivity : float
            Largest ℓ2 change of ``counts`` between neighbours.
        rho : float
            Price of the whole vector in zCDP (Canonne, Kamath and Steinke 2020, theorem 4).

        Returns
        -------
        ndarray of int64, same shape
        """
        self._require_delta("discrete Gaussian noise")
        array = _integers(counts)
        _check_positive(sensitivity=sensitivity, rho=rho)
        self._draw({ZeroConcentratedEvent(rho, "discrete Gaussian"): 1})
        sigma = Fraction(sensitivity / math.sqrt(2 * rho)) * _WIDER
        return array + self._integer_noise("gaussian", sigma, array.shape)

    def select(
        self,
        scores: ArrayLike,
        *,
        sensitivity: float,
        epsilon: float,
        rule: SelectionRule = "exponential",
        monotone: bool = False,
        multiplicity: Sequence[int] | None = None,
    ) -> Any:
        """Choose an index with a high score.

        Parameters
        ----------
        scores : array-like of float or int, shape (n_candidates,)
            Integers with an integer ``sensitivity`` are used exactly.
        sensitivity : float
            Largest change of one score between neighbours.
        epsilon : float
            Price. "exponential" draws P ∝ exp(ε·score/(2·sensitivity)), "permute-and-flip" (McKenna and Sheldon
            2020) uses the same exponents and never has a lower expected score.
        rule : {"exponential", "permute-and-flip"}
        monotone : bool
            Whether between neighbours all scores change in the same direction; halves the sensitivity.
        multiplicity : sequence of int, optional
            Number of candidates that share each score; a uniform member of the category is drawn as well.

        Returns
        -------
        int, or (int, int) with ``multiplicity``
            The index, or (category, member).
        """
        _check_positive(sensitivity=sensitivity, epsilon=epsilon)
        costs, steps = _costs(scores, sensitivity)
        if costs.ndim != 1 or costs.size == 0:
            raise ValueError(f"scores must have shape (n_candidates,), got {costs.shape}.")
        if multiplicity is not None and len(multiplicity) != costs.size:
            raise ValueError(f"multiplicity must have length {costs.size}, got {len(multiplicity)}.")
        rate = _rate(epsilon, steps, monotone)
        if rule == "exponential":
            self._draw({BoundedRangeEvent(epsilon): 1})
            draw = _selection.exponential_select
        elif rule == "permute-and-flip":
            self._draw({PureEvent(epsilon, "permute-and-flip"): 1})
            draw = _selection.permute_and_flip_select
        else:
            raise ValueError(f"rule must be 'exponential' or 'permute-and-flip', got {rule!r}.")
        category, member = draw(costs, rate, self._source, multiplicity)
        return category if multiplicity is None else (category, member)

    def select_each(
        self, scores: ArrayLike, *, sensitivity: float, epsilon: float, monotone: bool = False
    ) -> IntArray:
        """Choose one index for every row by the exponential mechanism, charged once.

        Valid where row i depends on the data of unit i alone (the local model), so that a neighbour changes one row.

        Parameters
        ----------
        scores : array-like of float or int, shape (n_units, n_candidates)
        sensitivity, epsilon, monotone
            As in `select`.

        Returns
        -------
        ndarray of int64, shape (n_units,)
        """
        _check_positive(sensitivity=sensitivity, epsilon=epsilon)
        costs, steps = _costs(scores, sensitivity)
        if costs.ndim != 2 or costs.shape[1] == 0:
            raise ValueError(f"scores must have shape (n_units, n_candidates), got {costs.shape}.")
        self._draw({BoundedRangeEvent(epsilon): 1})
        return _selection.exponential_select_rows(costs, _rate(epsilon, steps, monotone), self._source)

    # --- the price -----------------------------------------------------------------------------------------------

    def close(self) -> PrivacyGuarantee:
        """End the release and state what it cost, computed from what was drawn.

        Returns
        -------
        PrivacyGuarantee
            With δ = 0 where the pure sum is as good as the bound that needs δ (within 1 %).
        """
        epsilon, delta = self._composed(self._drawn)
        if self._ledger is not None and self._entry is not None and not self._closed:
            price = self._price(self._drawn)
            # What was charged bounds every part of it, also where the discretised PLD of the part is coarser.
            price["epsilon"] = epsilon = min(epsilon, self._charged_epsilon)
            self._ledger.close_entry(self._entry, **price)
        self._closed = True
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=delta,
            unit=self.unit,
            adjacency=self.adjacency,
            metric=self._metric,
            assumptions=self._assumptions,
            theorem=self._theorem,
            events=tuple(self._drawn.items()),
            valid_for_release=self._source.secure,
        )

    def __enter__(self) -> Release:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the ledger keeps the reserved price: what was drawn before it may have been seen.
        if kind is None and not self._closed:
            self.close()

    def _draw(self, events: dict[PrivacyEvent, int]) -> None:
        """Take ``events`` out of the plan, or pay for them; nothing has been drawn before this returns."""
        if self._closed:
            raise RuntimeError("the release is closed: open another one for further draws.")
        if all(self._planned.get(event, 0) >= count for event, count in events.items()):
            for event, count in events.items():
                self._planned[event] -= count
        else:
            total = count_events(
                [
                    pair
                    for counts in (self._planned, self._drawn, events)
                    for pair in counts.items()
                    if pair[1]
                ]
            )
            self._pay(total)
        for event, count in events.items():
            self._drawn[event] = self._drawn.get(event, 0) + count

    def _pay(self, total: dict[PrivacyEvent, int]) -> None:
        """Check that ``total`` fits the budget, then write its price to the ledger."""
        if self.adjacency is Adjacency.METRIC and not all(
            math.isfinite(event.pure_epsilon) for event in total
        ):
            raise ValueError("metric privacy admits pure events only (Laplace noise and selection).")
        limit = self.epsilon * (1 + _ROUNDING)
        cheap = upper_bound_epsilon(total, self._accounted_delta) if self._accounted_delta else math.inf
        if cheap > limit and compose_epsilon(total, self._accounted_delta) > limit:
            needed = compose_epsilon(total, self._accounted_delta)
            raise BudgetExceededError(
                f"{self._label or 'this release'} needs epsilon = {needed:.6g} at delta = {self.delta:g}, more than "
                f"its budget epsilon = {self.epsilon:g}; nothing was drawn for it.",
                required=(needed, self.delta),
                remaining=(self.epsilon, self.delta),
            )
        if self._ledger is None:
            return
        price = self._price(total)
        if self._entry is None:
            self._entry = self._ledger.reserve(
                self._label,
                unit=str(self.unit),
                adjacency=str(self.adjacency),
                simulated=not self._source.secure,
                **price,
            )
        else:
            self._ledger.increase(self._entry, **price)
        self._charged_epsilon = price["epsilon"]

    @property
    def _accounted_delta(self) -> float:
        # ε per unit of distance scales only for pure events: no δ is spent there.
        return 0.0 if self.adjacency is Adjacency.METRIC else self.delta

    def _composed(self, events: dict[PrivacyEvent, int]) -> tuple[float, float]:
        pure = compose_epsilon(events, 0.0)
        epsilon = compose_epsilon(events, self._accounted_delta)
        delta = self.delta
        if pure <= min(epsilon * _PURE_PREFERENCE, self.epsilon * (1 + _ROUNDING)):
            epsilon, delta = pure, 0.0
        return (min(epsilon, self.epsilon) if epsilon <= self.epsilon * (1 + _ROUNDING) else epsilon), delta

    def _price(self, events: dict[PrivacyEvent, int]) -> dict[str, Any]:
        epsilon, delta = self._composed(events)
        rho = rho_total(events)
        return {
            "epsilon": epsilon,
            "delta": delta,
            "rho": rho if math.isfinite(rho) and self.adjacency is not Adjacency.METRIC else None,
            "events": [{**event.to_dict(), "count": count} for event, count in events.items()],
        }

    # --- noise ---------------------------------------------------------------------------------------------------

    def _require_delta(self, what: str) -> None:
        if self.delta == 0:
            raise ValueError(f"{what} needs delta > 0, got delta=0; use Laplace noise for pure privacy.")

    def _integer_noise(self, kind: str, scale: Fraction, shape: tuple[int, ...]) -> IntArray:
        size = math.prod(shape)
        return _samplers.integer_noise(kind, scale, size, self._source).reshape(shape)

    def _noisy(self, kind: str, array: FloatArray, step: float, scale: Fraction) -> Any:
        # Both terms are exact multiples of the step, and their float64 sum is a function of the exact sum
        # (IEEE addition rounds it correctly), hence post-processing of integer noise on integers. (Noise above 2^53
        # steps would be rounded first: more than 200 scales away, it has a probability below e^-200.)
        with np.errstate(over="ignore", invalid="ignore"):
            lattice = np.rint(array / step) * step
        # Beyond 2^1023 steps the quotient overflows, but then every float64 is on the lattice already.
        lattice = np.where(np.isfinite(lattice), lattice, array)
        noisy = lattice + self._integer_noise(kind, scale, array.shape).astype(np.float64) * step
        return float(noisy) if array.ndim == 0 else noisy


def open_release(
    *,
    epsilon: float,
    delta: float = 0.0,
    unit: PrivacyUnit | str,
    adjacency: Adjacency | str,
    metric: str | None = None,
    random_state: Any = None,
    ledger: PrivacyLedger | None = None,
    label: str = "",
    theorem: str = "",
    assumptions: tuple[str, ...] = (),
    plan: Events = (),
) -> Release:
    """Open a release: the only way to draw noise on private data.

    Parameters
    ----------
    epsilon, delta : float
        The budget: ε > 0, δ in [0, 1).
    unit : PrivacyUnit or str
        What is protected: "row", "private row", "user", "label" or "data set".
    adjacency : Adjacency or str
        "replace-one", "add-remove" or "metric"; the sensitivities passed to the draws are those of this relation.
    metric : str, optional
        Name of the distance when ``adjacency="metric"``; ``epsilon`` is then per unit of distance and
        sensitivities are Lipschitz constants.
    random_state : None, int or RandomState
        None draws from the operating system's entropy. Anything else is a reproducible simulation that is not valid
        for release; one `SimulatedNoiseWarning` is given.
    ledger : PrivacyLedger, optional
        Budget of the data set; each price is committed to it before anything is drawn.
    label : str
        Who draws, for the ledger and for errors.
    theorem, assumptions : str, tuple of str
        For the guarantee.
    plan : mapping or iterable of (PrivacyEvent, int)
        Events to pay for at once; draws that match need no further check.

    Returns
    -------
    Release

    Raises
    ------
    BudgetExceededError
        If the plan does not fit the budget or the ledger. Nothing is drawn.

    Examples
    --------
    >>> from skprivate.privacy import open_release
    >>> release = open_release(epsilon=1.0, unit="row", adjacency="replace-one")
    >>> noisy_mean = release.laplace(0.4, sensitivity=1 / 100, epsilon=1.0)
    >>> release.close().epsilon
    1.0
    """
    _check_positive(epsilon=epsilon)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")
    adjacency = Adjacency(adjacency)
    if (adjacency is Adjacency.METRIC) != (metric is not None):
        raise ValueError("metric must be given if and only if adjacency is 'metric'.")
    return Release(
        epsilon=float(epsilon),
        delta=float(delta),
        unit=PrivacyUnit(unit),
        adjacency=adjacency,
        metric=metric,
        random_state=random_state,
        ledger=ledger,
        label=label,
        theorem=theorem,
        assumptions=tuple(assumptions),
        plan=plan,
    )


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (isinstance(value, Real) and math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}.")


def _finite(value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError("the statistic to be released must be finite.")
    return array


def _integers(counts: ArrayLike) -> IntArray:
    array = np.asarray(counts)
    if array.dtype.kind not in "iub":
        raise TypeError(f"counts must be integers, got dtype {array.dtype}.")
    return array.astype(np.int64)


def _lattice_step(scale: float, coordinates: int) -> float:
    """Power of two about 2³² times finer than the noise; finer still where many coordinates are rounded."""
    bits = min(_LATTICE_BITS + max(coordinates - 1, 0).bit_length(), 44)
    step = math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits)
    if step < 2.0**-1000:
        raise ValueError("the noise scale is too small for float64: rescale the statistic.")
    return step


def _costs(scores: ArrayLike, sensitivity: float) -> tuple[IntArray, Fraction]:
    """Distance of every score from the best, in lattice steps, and the sensitivity in the same steps."""
    array = np.asarray(scores)
    if array.dtype.kind in "iub" and float(sensitivity).is_integer():
        lattice, steps = array.astype(np.int64), Fraction(int(sensitivity))
    else:
        step = math.ldexp(1.0, math.frexp(sensitivity)[1] - 1 - _SELECT_BITS)
        real = _finite(array)
        # Clipping is 1-Lipschitz: it cannot raise the sensitivity.
        with np.errstate(over="ignore"):
            lattice = np.rint(np.clip(real / step, -_SELECT_LIMIT, _SELECT_LIMIT)).astype(np.int64)
        steps = Fraction(sensitivity) / Fraction(step) + _ROUNDING_STEPS
    best = lattice.max(axis=-1, keepdims=True, initial=np.iinfo(np.int64).min)
    return best - lattice, steps


def _rate(epsilon: float, steps: Fraction, monotone: bool) -> Fraction:
    return Fraction(epsilon) / (steps * (1 if monotone else 2)) / _WIDER
