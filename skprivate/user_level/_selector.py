"""Private choice among fitted models as a meta-estimator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import unheard
from skprivate._sklearn import Interval, StrOptions, _fit_context, gather
from skprivate._validation import TakesSparse, read_targets, validate_data
from skprivate.base import PRIVACY_CONSTRAINTS, AdjacencyName, BestModelMixin, PrivateEstimatorMixin
from skprivate.partitions import InMemory, Partitions, is_partitioned, published_copy
from skprivate.privacy import PrivacyLedger, PrivacyUnit
from skprivate.user_level import _problems, _selection
from skprivate.user_level._rows import CheckedRows, by_user, read_rows
from skprivate.user_level._selection import DifferenceSelection, MeanSelection, VoteSelection


class UserLevelSelector(PrivateEstimatorMixin, TakesSparse, BestModelMixin, MetaEstimatorMixin, BaseEstimator):
    """Choose among fitted models by private data, with pure differential privacy at user level.

    The candidates are models that are public or already paid for, for example one `UserLevelSGDRegressor` per
    parameter setting, models trained on public data, or a cover of a parameter space. Only the choice is
    learnt here.

    Parameters
    ----------
    estimators : list of (str, fitted estimator)
        At least one candidate, fitted beforehand. Wrap them in `sklearn.frozen.FrozenEstimator` to survive
        `sklearn.base.clone`.
    epsilon : float > 0, default=1.0
        Privacy budget of the choice, pure.
    rule : {"differences", "votes", "means"}, default="differences"
        "differences": least mean risk. A candidate scores the sum over users of what they lose less with it than with
        its strongest opponent, clipped where the tail of the users' differences ends, which is found privately;
        chosen by permute-and-flip. Where users are too few for that, "votes". "votes": the number of users who lose
        no more with it than with its strongest opponent: least noise, but the choice of a majority, which may have a
        greater mean risk. "means": least winsorised mean of the users' losses with Liu and Talwar's selection, as
        published; needs ``tau`` and ``bound``.
    loss : {"auto", "squared_error", "absolute_error", "zero_one"} or callable, default="auto"
        Loss of a row; a callable takes ``(y_true, y_pred)`` and returns one number a row; targets that are
        numbers come as float64. "auto" is "zero_one" for
        classifiers and "squared_error" otherwise.
    predict_by : {"user", "batch"}, default="user"
        "user": the candidates predict, and a callable ``loss`` rates, the rows of one user at a time, so that nothing
        in them can make one user's losses depend on another's rows. Costs one call of ``predict`` for every user and
        candidate. "batch": one call for all rows, which is faster, but linear algebra may round a row according to how
        many others there are; the guarantee then assumes that it does not.
    tau : float > 0, default=1.0
        For ``rule="means"``: public radius about their centre in which the users' mean losses lie.
    bound : float > 0, default=1e6
        For ``rule="means"``: public range of the users' mean losses, at most 2⁶² times ``tau``; costs grow with its
        logarithm.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        ``rule="means"`` needs "replace-one", and takes the number of users as public.
    <random_state, ledger>
    n_jobs : int or None, default=None
        Candidates that predict at a time. None is one, unless a `joblib.parallel_config` says otherwise.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen model.
    best_name_ : str
        Its name.
    best_index_ : int
        Its place among ``estimators``.
    classes_ : ndarray
        Of the chosen model, if it has them.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    PrivateSearchCV : Fits and chooses within one budget.
    parameter_cover : Makes candidates without data.

    Notes
    -----
    Guarantee: pure ε-differential privacy. The unit is a user with all rows, or a row if ``fit`` gets no ``user_ids``;
    neighbours replace one unit, or add or remove one, as ``adjacency`` says. "differences": two selections of
    quantiles and permute-and-flip on exact sums of integers, to which a user adds at most 2²⁹ steps. "votes":
    permute-and-flip on counts of users with sensitivity 1 (McKenna and Sheldon 2020). "means": at most three times the
    price of one evaluation, whatever the number of candidates (Liu and Talwar 2019, theorem 3.2). The candidates'
    own budgets are not included.

    With ``predict_by="user"`` a call of ``predict`` costs 0.1 to 0.5 ms for a linear scikit-learn model and some
    milliseconds for a forest, so 10,000 users with a linear candidate take a few seconds. Elementwise models, trees
    among them, treat every row by itself; models that multiply matrices do not.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021, section 6.
    Liu, Talwar: Private selection from private candidates. STOC 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LinearRegression
    >>> from skprivate import UserLevelSelector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X @ [1.0, 1.0] + rng.normal(size=2000)
    >>> good, bad = (
    ...     FrozenEstimator(LinearRegression().fit(np.eye(2), np.array(w))) for w in ([1.0, 1.5], [2.0, -2.0])
    ... )
    >>> selector = UserLevelSelector([("good", good), ("bad", bad)], epsilon=1.0)
    >>> selector.fit(X, y, user_ids=np.arange(2000) // 10).best_name_
    'good'
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        "estimators": [list],
        "rule": [StrOptions({"differences", "votes", "means"})],
        "loss": [StrOptions({"auto", "squared_error", "absolute_error", "zero_one"}), callable],
        "predict_by": [StrOptions({"user", "batch"})],
        "tau": [Interval(Real, 0, None, closed="neither")],
        "bound": [Interval(Real, 0, None, closed="neither")],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "n_jobs": [Integral, None],
    }
    _most_fit_tasks: ClassVar[int] = 2

    def __init__(
        self,
        estimators: list[tuple[str, Any]],
        *,
        epsilon: float = 1.0,
        rule: Literal["differences", "votes", "means"] = "differences",
        loss: Literal["auto", "squared_error", "absolute_error", "zero_one"] | Callable[..., Any] = "auto",
        predict_by: Literal["user", "batch"] = "user",
        tau: float = 1.0,
        bound: float = 1e6,
        adjacency: AdjacencyName = "replace-one",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.epsilon = epsilon
        self.rule = rule
        self.loss = loss
        self.predict_by = predict_by
        self.tau = tau
        self.bound = bound
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, user_ids: Any = None) -> Self:
        """Choose privately.

        Parameters
        ----------
        <X, or rows in blocks>
        y : array-like of shape (n_samples,), or column of X
            Where X is in blocks the name of its column, or the number in an array; labels that are no numbers then need
            candidates with ``classes_`` and a loss that is named.
        <user_ids>

        Returns
        -------
        self : UserLevelSelector
        """
        check = partial(_targets, public=self._public_labels())
        checked = read_rows(self, X, user_ids, check, blank=UserLevelSelector([]), y=y)
        known = None
        if is_partitioned(X):
            known = None if callable(self.loss) else _selection.known_labels([model for _, model in self.estimators])
            checked = checked.map(partial(_in_numbers, known=known))
        rows, n_users = by_user(checked, named=user_ids is not None)
        with closing(rows):
            best = self._choose(self._mechanism(n_users), rows, known, named=user_ids is not None)
        self.best_index_ = best
        self.best_name_, self.best_estimator_ = self.estimators[best]
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def _choose(self, mechanism: Any, rows: Partitions, known: Any, *, named: bool) -> int:
        """Compute the losses of all users with all candidates, and make the private choice."""
        by_user = self.predict_by == "user"
        losses: Partitions
        if isinstance(rows, InMemory):
            data = rows.block
            y = _selection.named_labels(data.y, known)
            with unheard():  # threads share what is shown
                columns = gather(
                    "candidates",
                    len(self.estimators),
                    Parallel(n_jobs=self.n_jobs, return_as="generator")(
                        delayed(_selection.user_losses)(model, data.X, y, data.groups.codes, self.loss, by_user=by_user)
                        for _, model in self.estimators
                    ),
                )
            losses = InMemory(np.column_stack(columns))
        else:
            models = [_without_ledgers(model) for _, model in self.estimators]
            losses = rows.map(
                partial(_block_losses, models=models, loss=self.loss, by_user=by_user, known=known)
            ).persisted()
            losses.sum(_problems.number_of_users)  # what goes wrong in a candidate shows before anything is paid
        assumptions = [
            "the candidates are public or already paid for",
            "candidates and loss keep nothing from one call to the next"
            if by_user
            else "candidates and loss treat every row by itself, to the last bit",
        ]
        if self.rule == "means" or (self.rule == "differences" and self.adjacency == "replace-one"):
            assumptions.append("the number of users is public")
        with self._releasing(
            mechanism,
            unit=PrivacyUnit.USER if named else PrivacyUnit.ROW,
            adjacency=self.adjacency,
            assumptions=tuple(assumptions),
        ) as release:
            return int(mechanism.run(losses, release))

    def _mechanism(self, n_users: int) -> DifferenceSelection | VoteSelection | MeanSelection:
        """Make the selection from parameters and, under replace-one, the number of users."""
        if not self.estimators:
            raise ValueError("estimators must hold at least one (name, fitted estimator).")
        for _, model in self.estimators:
            check_is_fitted(model)
        if self.rule == "differences":
            public = n_users if self.adjacency == "replace-one" else None
            return DifferenceSelection(self.epsilon, len(self.estimators), public)
        if self.rule == "votes":
            return VoteSelection(self.epsilon, monotone=self.adjacency == "add-remove")
        if self.adjacency != "replace-one":
            raise ValueError(f"rule='means' needs adjacency='replace-one', got {self.adjacency!r}.")
        return MeanSelection(self.epsilon, self.tau, max(self.bound, self.tau), len(self.estimators))

    def _public_labels(self) -> dict[str, Any]:
        """Collect labels that candidates predict, where they are compared with those of y."""
        if self.loss not in ("auto", "zero_one"):
            return {}
        named = ((name, getattr(model, "classes_", None)) for name, model in self.estimators)
        return {f"classes_ of {name!r}": np.ravel(classes) for name, classes in named if classes is not None}

    def _models(self) -> list[Any]:
        return [model for _, model in self.estimators or ()]

    def _read(self, X: Any) -> Any:
        return validate_data(self, X, reset=False)


def _targets(
    estimator: BaseEstimator, X: Any, y: Any, *, public: dict[str, Any], **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Check features and targets of the kind of the candidates' labels."""
    X, y = validate_data(estimator, X, read_targets(y, **public), dtype=np.float64, order="C", **options)
    return X, y


def _in_numbers(rows: CheckedRows, known: np.ndarray | None) -> CheckedRows:
    return rows._replace(y=_selection.as_numbers(rows.y, known))


def _block_losses(
    data: _problems.UserData, models: list[Any], loss: Any, by_user: bool, known: np.ndarray | None
) -> np.ndarray:
    """Compute mean losses of the users of a block with every candidate: shape (n_users, n_candidates)."""
    X, y, codes = np.ascontiguousarray(data.X), _selection.named_labels(data.y, known), data.groups.codes
    return np.column_stack([_selection.user_losses(model, X, y, codes, loss, by_user=by_user) for model in models])


def _without_ledgers(model: BaseEstimator) -> Any:
    """Copy a model without its ledgers, so that it may travel to where rows are."""
    try:
        return published_copy(model, allow_invalid=True)
    except TypeError:  # what cannot be copied has to do as it is
        return model
