"""The one door: every random draw on private data and its price come from the same call.

A `Release` is a budget being spent. Each method draws noise of the scale that its sensitivity and price dictate
and records the event; there is no way to draw without paying, and no way to pay less than was drawn. Real values are
rounded to a lattice first and get exact integer noise, so no guarantee rests on floating-point tails
(derivation in docs/design.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skprivate.privacy import _samplers, _selection
from skprivate.privacy._account import ReleaseAccount
from skprivate.privacy._events import (
    BoundedRangeEvent,
    Events,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    ZeroConcentratedEvent,
)
from skprivate.privacy._guarantee import Adjacency, PrivacyUnit
from skprivate.privacy._lattice import (
    WIDER,
    FloatArray,
    IntArray,
    Lattice,
    check_positive,
    finite,
    gaussian_lattice,
    integers,
    laplace_lattice,
    selection_costs,
    selection_rate,
    snap,
)
from skprivate.privacy._ledger import PrivacyLedger
from skprivate.privacy._metric_draws import MetricDraws

SelectionRule = Literal["exponential", "permute-and-flip"]

_LEAST_SCALE = Fraction(1, 2**20)


class Release(MetricDraws, ReleaseAccount):
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
        array = finite(value)
        check_positive(sensitivity=sensitivity, epsilon=epsilon)
        if norm == "l1":
            event: PrivacyEvent = LaplaceEvent(epsilon) if array.size == 1 else PureEvent(epsilon, "Laplace")
            self._charge({event: 1})
            coordinates = array.size
        elif norm == "linf":
            self._charge({LaplaceEvent(epsilon): max(array.size, 1)})
            coordinates = 1
        else:
            raise ValueError(f"norm must be 'l1' or 'linf', got {norm!r}.")
        return self._noisy("laplace", array, laplace_lattice(sensitivity, epsilon, coordinates))

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
        array = finite(value)
        check_positive(sensitivity=sensitivity, noise_multiplier=noise_multiplier)
        self._charge({GaussianEvent(noise_multiplier, max(array.size, 1)): 1})
        return self._noisy("gaussian", array, gaussian_lattice(sensitivity, noise_multiplier, array.size))

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
        array = integers(counts)
        check_positive(sensitivity=sensitivity, epsilon=epsilon)
        self._charge({PureEvent(epsilon, "discrete Laplace"): 1})
        scale = Fraction(sensitivity) / Fraction(epsilon) * WIDER
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
        array = integers(counts)
        check_positive(sensitivity=sensitivity, rho=rho)
        self._charge({ZeroConcentratedEvent(rho, "discrete Gaussian"): 1})
        sigma = Fraction(sensitivity / math.sqrt(2 * rho)) * WIDER
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
        check_positive(sensitivity=sensitivity, epsilon=epsilon)
        costs, steps = selection_costs(scores, sensitivity)
        if costs.ndim != 1 or costs.size == 0:
            raise ValueError(f"scores must have shape (n_candidates,), got {costs.shape}.")
        if multiplicity is not None and len(multiplicity) != costs.size:
            raise ValueError(f"multiplicity must have length {costs.size}, got {len(multiplicity)}.")
        rate = selection_rate(epsilon, steps, monotone)
        if rule == "exponential":
            self._charge({BoundedRangeEvent(epsilon): 1})
            draw = _selection.exponential_select
        elif rule == "permute-and-flip":
            self._charge({PureEvent(epsilon, "permute-and-flip"): 1})
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
        check_positive(sensitivity=sensitivity, epsilon=epsilon)
        costs, steps = selection_costs(scores, sensitivity)
        if costs.ndim != 2 or costs.shape[1] == 0:
            raise ValueError(f"scores must have shape (n_units, n_candidates), got {costs.shape}.")
        self._charge({BoundedRangeEvent(epsilon): 1})
        return _selection.exponential_select_rows(
            costs, selection_rate(epsilon, steps, monotone), self._source
        )

    def _integer_noise(self, kind: str, scale: Fraction, shape: tuple[int, ...]) -> IntArray:
        # A wider scale than paid for is always allowed; below this one the noise is 0 but for e^-1048576.
        scale = max(scale, _LEAST_SCALE)
        return _samplers.integer_noise(kind, scale, math.prod(shape), self._source).reshape(shape)

    def _noisy(self, kind: str, array: FloatArray, lattice: Lattice) -> Any:
        # Both terms are exact multiples of the step, and their float64 sum is a function of the exact sum (IEEE
        # addition rounds it correctly), hence post-processing of integer noise on integers. (Noise above 2^53
        # steps would be rounded first: more than 200 scales away, it has a probability below e^-200.)
        noise = self._integer_noise(kind, lattice.scale, array.shape).astype(np.float64) * lattice.step
        noisy = snap(array, lattice.step) + noise
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
    check_positive(epsilon=epsilon)
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
