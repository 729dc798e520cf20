"""Adaptive queries: means over users of any function of their rows, within one budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skprivate import _messages, privacy
from skprivate._validation import validate_data
from skprivate.partitions import InMemory
from skprivate.privacy import (
    Adjacency,
    GaussianEvent,
    LaplaceEvent,
    Mechanism,
    PrivacyEvent,
    PrivacyUnit,
    RandomStateLike,
    Release,
)
from skprivate.user_level import _plan, _problems
from skprivate.user_level._ranges import n_bins, selection_epsilon
from skprivate.user_level.means._winsorized import clipped_means, clipped_step, clipped_sum, private_middles

FloatArray = npt.NDArray[np.float64]

#: Largest share of the budget for ranges; answers get the rest.
_MOST_FOR_RANGES = 0.5
Query = Callable[[FloatArray], Any]


@dataclass(frozen=True)
class WinsorizedAnswers(Mechanism):
    """K means over users, each clipped to an interval that is found privately; under replacement of one user.

    A range costs what decides it, an answer 1/K of what is left: with Gaussian noise, or Laplace noise where δ is 0.
    Where at most one bin is searched there is nothing to find, and no range is drawn.
    """

    epsilon: float
    delta: float
    n_users: int
    n_queries: int
    bins: int
    theorem = "Algorithm 2 and Theorem 3 (arXiv 2102.11845), composed by the events drawn"

    def __post_init__(self) -> None:
        if self.range_epsilon is not None and self.n_users < self._needed:
            raise ValueError(
                f"n = {self.n_users} users at epsilon = {self.epsilon:g} are too few to find the ranges of n_queries = "
                f"{self.n_queries} answers: {self._needed} are needed. Ask less, or give a smaller bound or a "
                "larger tau; with tau=None nothing has to be found."
            )

    @cached_property
    def range_epsilon(self) -> float | None:
        """Price of one range; None where there is one bin only."""
        if self.bins == 1:
            return None
        return selection_epsilon(self.n_users, self.bins, monotone=False)

    @property
    def _needed(self) -> int:
        """Number of users whose ranges take no more than their share of the budget."""
        exponent = selection_epsilon(1.0, self.bins, monotone=False)
        if self.delta == 0.0:
            affordable = _MOST_FOR_RANGES * self.epsilon / self.n_queries
        else:
            rho = 0.5 / privacy.gaussian_noise_multiplier(self.epsilon, self.delta) ** 2
            affordable = math.sqrt(8.0 * _MOST_FOR_RANGES * rho / self.n_queries)
        return math.ceil(exponent / affordable)

    @cached_property
    def _ranges(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        if self.range_epsilon is None:
            return ()
        return ((privacy.BoundedRangeEvent(self.range_epsilon), self.n_queries),)

    @cached_property
    def noise(self) -> LaplaceEvent | GaussianEvent:
        """Event of one answer."""
        if self.delta == 0.0:
            left = self.epsilon / self.n_queries / _plan.WIDER - (self.range_epsilon or 0.0)
            return LaplaceEvent(left)
        z = privacy.gaussian_noise_multiplier(self.epsilon, self.delta, n_draws=self.n_queries, other=self._ranges)
        return GaussianEvent(z * _plan.WIDER)

    @property
    def relative_noise(self) -> float:
        """Standard deviation of the noise of one answer, as a part of the length of its interval."""
        scale = (
            math.sqrt(2.0) / self.noise.epsilon if isinstance(self.noise, LaplaceEvent) else self.noise.noise_multiplier
        )
        return scale / self.n_users

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        return [*self._ranges, (self.noise, self.n_queries)]

    def half(self, tau: float, bound: float) -> float:
        """Return half the length of the interval that answers are clipped to."""
        return bound if n_bins(bound, tau) == 1 else 2.0 * tau

    def answer(self, values: FloatArray, tau: float, bound: float, release: Release) -> float:
        """Release one mean of a number for each user; at most ``bins`` bins of width 2τ may cover [−B, B]."""
        middle, half, rows = 0.0, self.half(tau, bound), InMemory(values[None])
        if n_bins(bound, tau) > 1:
            assert self.range_epsilon is not None
            (middle,) = private_middles(rows, epsilon=self.range_epsilon, tau=tau, bound=bound, release=release)
        if isinstance(self.noise, LaplaceEvent):
            (mean,) = clipped_means(rows, len(values), [middle], half, epsilon=self.noise.epsilon, release=release)
            return mean
        total, z = clipped_sum(values, middle, half), self.noise.noise_multiplier
        noisy = release.gaussian(total, sensitivity=2**privacy.CONTRIBUTION_BITS, noise_multiplier=z)
        return middle + float(noisy) * clipped_step(half) / len(values)

    def run(self, data: Iterable[tuple[FloatArray, float, float]], release: Release) -> list[float]:
        """Answer all queries: numbers of the users, τ and B of each; later ones may depend on earlier answers."""
        return [self.answer(values, tau, bound, release) for values, tau, bound in data]


class UserLevelQueries:
    r"""Answers to adaptive queries: means over users of functions of their rows, all within one budget.

    A query is any function from one user's rows to a number. Its answer is the mean of that number over users, clipped
    to a short interval that is found privately, with noise. The next query may depend on all answers so far. All
    ``n_queries`` of them are paid for when the object is made.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Numbers.
    user_ids : array-like of shape (n_samples,) or None, default=None
        User of each row; by default each row is its own user, and rows are what is protected.
    n_queries : int >= 1
        How many queries may be asked, K.
    epsilon : float > 0, default=1.0
        Privacy budget ε of all answers together.
    delta : float in [0, 1), default=1e-6
        Privacy budget δ of all answers together. 0: pure differential privacy, with noise that grows as K in place
        of √K.
    bound : float > 0, default=1.0
        Public range [−B, B] of the users' numbers; what is outside is clipped.
    tau : float in (0, bound] or None, default=None
        Public radius τ about some centre in which most users' numbers lie: the noise is proportional to it. Where the
        centre lies in [−B, B] is found privately for each query, which costs little more for B/τ = 10⁶ than for 2.
        None: nothing is known but the bound.
    random_state : int, RandomState instance or None, default=None
        None: secure noise. Otherwise a reproducible simulation whose result must not be released.
    ledger : PrivacyLedger, optional
        Budget of the data set; it is charged at once for all queries.

    Attributes
    ----------
    n_left : int
        Queries that may still be asked.
    n_users : int
        Number of users, public.

    Raises
    ------
    ValueError
        If a parameter is out of range, or users are too few to find ranges for all answers. Nothing is spent.
    BudgetExceededError
        If the ledger does not hold the budget. Nothing is spent.

    See Also
    --------
    UserLevelMean : Averages all columns, of unknown range.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy for a user with all rows (a row without ``user_ids``) under "replace-one";
    the number of users is public. Each answer is Algorithm 2 of the reference, PrivateRange and the mean of clipped
    numbers. In place of the reference's strong composition (its Theorem 3), by which each is
    :math:`\epsilon/\sqrt{8K\ln(2/\delta)}`-private, all draws are composed by their privacy loss; ranges get what
    decides them (half of the budget at most), sums the rest, with Gaussian noise where δ > 0. Queries may be chosen
    after looking at answers, as the events drawn are fixed beforehand.

    A query is called once for each user, with a copy of that user's rows in their order, so nothing but these can enter
    the user's number; it has to be a function of them alone. A user for whom a query fails, or is no number, counts
    as 0 where the interval is searched and as its middle in the mean. Nothing is said of it, as an error would say
    something about that user; a first call with one row of zeros shows the errors that depend on nobody.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.user_level import UserLevelQueries
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(loc=50.0, scale=5.0, size=(100_000, 1))
    >>> user_ids = np.arange(100_000) // 20
    >>> queries = UserLevelQueries(X, user_ids=user_ids, n_queries=10, bound=1e4, tau=10.0)
    >>> centre = queries.mean(lambda rows: rows[:, 0].mean())
    >>> spread = queries.mean(lambda rows: np.abs(rows[:, 0] - centre).mean())
    >>> bool(abs(centre - 50) < 1), bool(abs(spread - 4) < 1), queries.n_left
    (True, True, 8)
    >>> queries.close()
    <ε=1, δ=1e-06, user>
    """

    def __init__(
        self,
        X: Any,
        *,
        user_ids: Any = None,
        n_queries: int,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bound: float = 1.0,
        tau: float | None = None,
        random_state: RandomStateLike = None,
        ledger: privacy.PrivacyLedger | None = None,
    ) -> None:
        _messages.whole_number("n_queries", n_queries)
        self.tau, self.bound = _range_of(tau, bound)
        self._rows: list[FloatArray] = []
        privacy.refuse_other_index(X, user_ids=user_ids)
        with np.errstate(all="ignore"):  # a warning about somebody's overflow would say something about them
            X = validate_data(BaseEstimator(), X, dtype=np.float64)
        codes = _problems.encode_users(user_ids, len(X))[0]
        self.n_users = int(codes.max()) + 1
        self._mechanism = WinsorizedAnswers(
            _messages.epsilon_number(epsilon),
            _messages.delta_number(delta),
            self.n_users,
            int(n_queries),
            n_bins(self.bound, self.tau),
        )
        unit = PrivacyUnit.ROW if user_ids is None else PrivacyUnit.USER
        _messages.warn_if_large(float(delta), self.n_users, str(unit), type(self).__name__)
        self._release = privacy.open_release(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            adjacency=Adjacency.REPLACE_ONE,
            random_state=random_state,
            ledger=ledger,
            label=type(self).__name__,
            theorem=self._mechanism.theorem,
            assumptions=(
                "the number of users is public",
                "queries are functions of one user's rows alone",
                privacy.PUBLIC_BEFORE,
            ),
            plan=self._mechanism.events,
            parameters={"n_queries": repr(n_queries), "bound": repr(bound), "tau": repr(tau)},
        )
        self.n_left = int(n_queries)
        self._n_features = X.shape[1]
        X = X[np.argsort(codes, kind="stable")]
        ends = [0, *np.cumsum(np.bincount(codes)).tolist()]
        self._rows = [X[start:end] for start, end in pairwise(ends)]

    def mean(self, query: Query, *, tau: float | None = None, bound: float | None = None) -> float:
        """Mean over users of a number that ``query`` makes of each user's rows, with noise.

        Parameters
        ----------
        query : callable
            ``query(rows) -> float``, with ``rows`` of shape (rows of this user, n_features).
        tau, bound : float or None, default=None
            Radius and range of this query's numbers, where they differ from the object's; ``bound`` at most as many
            times ``tau``.

        Returns
        -------
        float

        Raises
        ------
        BudgetExceededError
            If ``n_queries`` were asked.
        RuntimeError
            After `close`.
        TypeError, ValueError
            If ``query`` returns something else, or a parameter is out of range. Errors on one row of zeros, these or
            the query's own, are raised before anything is drawn.
        """
        if not callable(query):
            raise TypeError(
                _messages.must_be("query", "a function from one user's rows to a number", type(query).__name__)
            )
        if self.n_left < 1:
            raise privacy.BudgetExceededError(
                "all queries that were paid for are answered: make another object, with a budget of its own."
            )
        tau, bound = self._query_range(tau, bound)
        with _messages.unheard():
            tried = np.asarray(query(np.zeros((1, self._n_features))))
        if tried.ndim or tried.dtype.kind not in "biuf":
            raise TypeError(
                f"query must return one number for one user's rows, got {tried.ndim} dimensions of {tried.dtype}."
            )
        if not self._rows:
            raise RuntimeError("the queries are closed: make another object for further ones.")
        self.n_left -= 1
        with _messages.unheard():
            values = np.array([_value(query, rows) for rows in self._rows])
        return self._mechanism.answer(values, tau, bound, self._release)

    def noise(self, *, tau: float | None = None, bound: float | None = None) -> float:
        """Standard deviation of the noise in an answer: a public number.

        Parameters
        ----------
        tau, bound : float or None, default=None
            As in `mean`.

        Returns
        -------
        float
        """
        return 2.0 * self._mechanism.half(*self._query_range(tau, bound)) * self._mechanism.relative_noise

    def close(self) -> privacy.PrivacyGuarantee:
        """End the queries; those that were not asked stay paid for.

        Returns
        -------
        PrivacyGuarantee
        """
        self._rows = []
        return self._release.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows = []
        self._release.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<UserLevelQueries: {self.n_left} of {self._mechanism.n_queries} left>"

    def _query_range(self, tau: float | None, bound: float | None) -> tuple[float, float]:
        """Return radius and range of one query; refuses more bins than were paid for."""
        if bound is None and tau is None:
            return self.tau, self.bound
        bound = self.bound if bound is None else _messages.positive("bound", bound)
        if tau is None:
            tau = bound if self._mechanism.bins == 1 else min(self.tau, bound)
        tau, bound = _range_of(tau, bound)
        if n_bins(bound, tau) > self._mechanism.bins:
            raise ValueError(
                _messages.must_be(
                    "bound",
                    f"at most {self.bound / self.tau:g} times tau, as when the queries were paid for",
                    bound,
                    f"This query's tau is {tau:g}.",
                )
            )
        return tau, bound


def _range_of(tau: float | None, bound: float) -> tuple[float, float]:
    bound = _messages.positive("bound", bound)
    tau = bound if tau is None else _messages.positive("tau", tau)
    if tau > bound:
        raise ValueError(_messages.must_be("tau", f"at most bound = {bound:g}", tau))
    n_bins(bound, tau)
    return tau, bound


def _value(query: Query, rows: FloatArray) -> float:
    """Compute a user's number; NaN where the query fails."""
    try:
        return float(query(rows.copy()))
    except Exception:  # what goes wrong with somebody's rows is kept
        return math.nan
