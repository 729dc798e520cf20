"""Mean with user-level privacy as an estimator."""

from __future__ import annotations

from contextlib import closing
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from skprivate._sklearn import Interval, StrOptions, _fit_context
from skprivate._validation import TakesSparse
from skprivate.base import PRIVACY_CONSTRAINTS, AdjacencyName, PrivateEstimatorMixin
from skprivate.privacy import Adjacency, PrivacyLedger, PrivacyUnit
from skprivate.user_level import _plan, _problems, _rows, _sgd
from skprivate.user_level.means._user_mean import PureUserMean, UserMean, UserRows


class UserLevelMean(PrivateEstimatorMixin, TakesSparse, BaseEstimator):
    r"""Mean of the users' means, protecting everything a user contributed.

    Estimates :math:`\frac1n \sum_u \frac1{m_u} \sum_j x_{uj}` with noise proportional to the users' spread about
    their centre, whatever the range of the data.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Privacy budget ε of one fit.
    delta : float in [0, 1), default=1e-6
        Privacy budget δ of one fit; well below one over the number of users. 0: pure differential privacy, Algorithm 2
        for every coordinate, with noise that grows as d in place of √d; for "replace-one" and ``weight_cap=1`` only.
    aggregation : {"mean", "robust"}, default="mean"
        Users are clipped to a ball about the private centre. "mean": its radius follows the private tail of the users'
        distances as far as bias exceeds noise, so that the bias vanishes for any law with a mean. "robust": it is the
        median distance, for less noise and a result between mean and spatial median.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one user's rows exchanged for any others, or one user more or less.
    n_users : int, optional
        Public number of users under ``adjacency="add-remove"``; by default it is released with noise.
    tau : float > 0, optional
        Public radius of the users' means about their centre, such as 0.5 for one column of zeros and ones; by default
        found privately.
    bound : float > 0, default=1e9
        Public range [−B, B] in which the coordinates of the centre are searched; it costs ln B only. Values outside
        are treated as B there.
    weight_cap : int >= 1, default=1
        A user with m rows has weight min(m, weight_cap)/weight_cap. With a cap above 1 the result is divided by the
        number of users, and so biased to the private centre if users with few rows differ from others.
    beta : float in (0, 1), default=0.05
        Failure probability of ``confidence_radius_``.
    <random_state, ledger>

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean over users of their mean vectors, clipped to the ball, with noise.
    confidence_radius_ : float
        Euclidean radius about ``mean_`` that holds the expectation of a user's mean with probability 1 − beta, from
        released numbers: noise, sampling, and what clipping may have taken (Notes). ``nan`` where users are too few to
        tell their tail (below about 2 300/ε), or with ``aggregation="robust"``.
    noise_scale_ : float
        Standard deviation of the privacy noise per feature in the sum about the centre; that of ``mean_``, a part of
        the way back to the centre, is somewhat smaller.
    clip_radius_ : float
        Radius of the ball (released); with ``delta=0`` half the side of the cube in its place.
    n_users_ : float
        Number of users as used: public, or released with noise.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    UserLevelQueries : Answers adaptive queries within one budget.
    user_level_mean_errors : Predicts the errors.
    user_level_sample_size : Computes how many users are enough.
    pandas.DataFrame.mean : Averages without privacy.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy for a user, or for a row where ``user_ids`` is not given, computed from the
    draws: Gaussian noise on exact sums of integer vectors of norm at most 2³⁰ per user, and selections by the
    exponential mechanism. Beyond Algorithm 3 of the reference; derivation in docs/theory/user_level.md. With
    ``delta=0`` ε-differential privacy: Algorithm 2 of the reference at ε/d for every coordinate.

    *Radius.* The spread and tail of the users follow from two released distances, which 40 % and some 300/(nε) of the
    users exceed. It takes the tail to go on beyond the second one as it begins: a smaller part of the users that is
    farther away than that is not seen. With ``tau`` nobody is taken to be clipped. With ``delta=0`` the radius is about
    the clipped mean, and conservative.

    *Exceptions.* Where most users have nearly one value, those who differ are seen only if they are more than about
    600/(nε) of n users. Else ``mean_`` is the value of the majority, without a warning, as no released number tells. So
    a share of zeros and ones needs ``tau=0.5``, unless users are many.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(loc=[1e6, -3.0], size=(50_000, 2))
    >>> model = UserLevelMean(epsilon=1.0).fit(X, user_ids=np.arange(50_000) // 25)
    >>> bool(np.abs(model.mean_ - [1e6, -3.0]).max() < 0.1)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "aggregation": [StrOptions({"mean", "robust"})],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "n_users": [Interval(Integral, 1, None, closed="left"), None],
        "tau": [Interval(Real, 0, None, closed="neither"), None],
        "bound": [Interval(Real, 0, None, closed="neither")],
        "weight_cap": [Interval(Integral, 1, None, closed="left")],
        "beta": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        aggregation: Literal["mean", "robust"] = "mean",
        adjacency: AdjacencyName = "replace-one",
        n_users: int | None = None,
        tau: float | None = None,
        bound: float = 1e9,
        weight_cap: int = 1,
        beta: float = 0.05,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.aggregation = aggregation
        self.adjacency = adjacency
        self.n_users = n_users
        self.tau = tau
        self.bound = bound
        self.weight_cap = weight_cap
        self.beta = beta
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> Self:
        """Estimate the mean privately.

        Parameters
        ----------
        <X, or rows in blocks>
        y : None
            Ignored.
        <user_ids>

        Returns
        -------
        self : UserLevelMean
        """
        checked = _rows.read_rows(self, X, user_ids, _rows.features_only, blank=UserLevelMean())
        rows, n_found = _rows.by_user(checked, named=user_ids is not None, weight_cap=self.weight_cap)
        adjacency = Adjacency(self.adjacency)
        n_users = n_found if adjacency is Adjacency.REPLACE_ONE else self.n_users
        with closing(rows):
            mechanism = self._mechanism(adjacency, n_found, n_users)
            with self._releasing(
                mechanism,
                unit=PrivacyUnit.ROW if user_ids is None else PrivacyUnit.USER,
                adjacency=adjacency,
                assumptions=() if n_users is None else ("the number of users is public",),
                n_units=n_users,
            ) as release:
                result = mechanism.run(rows.map(_rows_and_groups), release)
        _sgd.warn_too_few_users(result.n_users, self.epsilon, self.n_features_in_, result.noise_level)
        self.mean_ = result.mean
        self.confidence_radius_ = result.confidence_radius(self.beta)
        self.noise_scale_ = result.noise_scale
        self.clip_radius_ = result.clip_radius
        self.n_users_ = result.n_users
        return self

    def _mechanism(self, adjacency: Adjacency, n_found: int, n_users: int | None) -> UserMean | PureUserMean:
        d, follows_tail = self.n_features_in_, self.aggregation == "mean"
        if self.delta:
            terms = _plan.Terms(self.epsilon, self.delta, adjacency, n_users)
            return UserMean(terms, d, follows_tail, self.tau, self.bound)
        if adjacency is not Adjacency.REPLACE_ONE or self.weight_cap != 1:
            raise ValueError(
                "delta=0 is a mean over a public number of users that count the same: it needs "
                f"adjacency='replace-one' and weight_cap=1, got adjacency={adjacency.value!r} and "
                f"weight_cap={self.weight_cap!r}."
            )
        return PureUserMean(self.epsilon, n_found, d, follows_tail, self.tau, self.bound)


def _rows_and_groups(data: _problems.UserData) -> UserRows:
    return data.X, data.groups
