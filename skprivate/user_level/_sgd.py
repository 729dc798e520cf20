"""Base of the linear models with user-level privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from skprivate._sklearn import Interval, StrOptions
from skprivate._validation import column_label, read_labels, read_numbers, validate_data
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.partitions import InMemory, Partitions, Roles, as_partitions, is_partitioned, split_columns
from skprivate.privacy import (
    N_KINDS,
    Adjacency,
    PrivacyUnit,
    SharedBudget,
    encode_identifiers,
    identifier_tags,
    kinds_in_words,
    several_kinds,
    warn_caller,
)
from skprivate.user_level._losses import HuberLoss, SquaredLoss
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import Objective, UserData, UserGroups, encode_users, number_of_users
from skprivate.user_level.descent._descent import (
    ADVICE,
    AT_RADIUS,
    NOT_CONVERGED,
    LinearResult,
    UnscaledFeaturesWarning,
)
from skprivate.user_level.descent._linear import Descent
from skprivate.user_level.descent._rules import Function
from skprivate.user_level.scaling._frame import identity, public_bound
from skprivate.user_level.scaling._standardise import Standardisation, plan_standardisation

#: Clipping radius in units of the private median of the users' gradient norms.
CLIP_FACTORS = {"auto": 1.0, "robust": 1.0, "mean": 3.0}
#: Noise level (norm of all noise against a unanimous vote) above which a fit warns.
MAX_NOISE_LEVEL = 0.5


class TooFewUsersWarning(UserWarning):
    """n·ε is too small for anything to be learnt; depends on public numbers only.

    See Also
    --------
    user_level_sample_size : Computes how many users are enough.
    """


class BaseUserLevelSGD(PrivateEstimatorMixin, BaseEstimator):
    """Winsorised, user-normalised gradient descent on a linear model."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    #: Almost all of the budget is for Gaussian noise.
    _nearly_gaussian: ClassVar[bool] = True
    #: What is public about each column behind other steps: nothing, its "unit", which is 1, or that it is a function of
    #: a feature (with a deviation). Set by the pipeline for one fit.
    _prepared_features: tuple[tuple[int, float] | str | None, ...] = ()
    #: Budget of the whole pipeline and its other draws; set in the same way.
    _whole: SharedBudget | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_CONSTRAINT,
        "aggregation": [StrOptions({"auto", "robust", "mean"})],
        "standardize": ["boolean"],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "n_users": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "radius": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "weight_cap": [Interval(Integral, 1, None, closed="left")],
    }

    def _terms(self, n_users: int) -> Terms:
        """Return the budget and the public numbers of a fit."""
        adjacency = Adjacency(self.adjacency)
        public = n_users if adjacency is Adjacency.REPLACE_ONE else self.n_users
        return Terms(self.epsilon, self.delta, adjacency, public, whole=self._whole)

    def _descent(
        self, objective: Objective, terms: Terms, *, radius: float, several: bool = False, **defaults: Any
    ) -> Descent:
        """Make the mechanism of a descent; parameters override ``radius`` and ``defaults`` (fields of `Descent`)."""
        defaults["select_scale"] &= self.radius is None
        terms, standardisation = self._standardisation(objective, terms, several)
        if standardisation is not None:
            defaults["select_scale"] = False
        elif not self._as_given():
            defaults["row_bound"] = public_bound(objective.n_features)
        return Descent(
            terms=terms,
            standardisation=standardisation,
            objective=objective,
            given_alpha=self.alpha,
            given_steps=self.max_iter,
            clip_factor=CLIP_FACTORS[self.aggregation],
            radius=radius if self.radius is None else self.radius,
            shrink_radius=self.radius is None,
            functions=self._functions if standardisation is not None else (),
            **defaults,
        )

    def _as_given(self) -> bool:
        """Return True if features keep their units: with a custom loss, or a public number about them."""
        public = self.radius is not None or getattr(self, "feature_norm", None) is not None
        return not self.standardize or public or not isinstance(self.loss, str)

    @property
    def _takes_prepared(self) -> bool:
        """True if prepared features may come beside others, which are standardised."""
        return not self._as_given()

    @property
    def _functions(self) -> tuple[Function | None, ...]:
        """Columns that an earlier step has made of features."""
        return tuple(Function(*each) if isinstance(each, tuple) else None for each in self._prepared_features)

    def _typical_norm(self, n_coef: int) -> float:
        """Return the norm of a row and its 1 whose columns have the deviations that earlier steps state, or else 1."""
        stated = [each.deviation for each in self._functions if each is not None and each.deviation]
        return math.hypot(*stated, math.sqrt(n_coef - len(stated)))

    def _standardisation(
        self, objective: Objective, terms: Terms, several: bool
    ) -> tuple[Terms, Standardisation | None]:
        """Plan the centring and scaling of features; returns the terms of all later draws, too."""
        if self._as_given():
            return terms, None
        found = plan_standardisation(
            terms,
            n_features=objective.n_features,
            centred=objective.fit_intercept,
            target=isinstance(objective.loss, (SquaredLoss, HuberLoss)),
            several=several,
            many_outputs=objective.n_outputs > 1,
            prepared=tuple(isinstance(each, tuple) for each in self._prepared_features),
            unit=tuple(each == "unit" for each in self._prepared_features),
        )
        if found is None:
            return terms, None
        return replace(terms, earlier=(*terms.earlier, *found.events)), found

    def _run(self, mechanism: Any, rows: Partitions, n_users: int, user_ids: Any) -> LinearResult:
        """Release the model, set the fitted attributes, and warn by released numbers."""
        with self._releasing(
            mechanism,
            unit=PrivacyUnit.ROW if user_ids is None else PrivacyUnit.USER,
            adjacency=self.adjacency,
            assumptions=self._assumptions(),
            n_units=n_users if self.adjacency == "replace-one" else self.n_users,
        ) as release:
            result: LinearResult = mechanism.run(rows, release)
        warn_too_few_users(result.n_users, self.epsilon, mechanism.size, result.noise_level)
        if result.scale_missed and result.noise_level <= MAX_NOISE_LEVEL:
            warn_caller(
                f"n = {result.n_users:.0f} users at epsilon = {self.epsilon:g} are too few to find the scale of the "
                f"target privately; coefficients are bounded by {mechanism.radius:g}. Scale the target by public "
                "numbers or set radius.",
                TooFewUsersWarning,
            )
        if result.drift > 1.0 and result.noise_level <= MAX_NOISE_LEVEL:
            reason = AT_RADIUS if result.at_bound and mechanism.select_scale else NOT_CONVERGED
            warn_caller(
                reason.format(drift=result.drift, radius=result.radius) + ADVICE, UnscaledFeaturesWarning
            )
        if result.frame is not None and result.frame.one_value and result.noise_level <= MAX_NOISE_LEVEL:
            names = getattr(self, "feature_names_in_", None)
            named = ", ".join(column_label(j, names) for j in result.frame.one_value[:5])
            warn_caller(
                f"{named}: as far as a private search can see, a feature is one value other than 0. If it varies, "
                "subtract a public number near its values, so that it is about 0.",
                UnscaledFeaturesWarning,
            )
        self.n_iter_ = mechanism.n_steps
        self.n_users_ = result.n_users
        self.alpha_ = result.alpha
        frame = identity(self.n_features_in_) if result.frame is None else result.frame
        self._frame = frame
        self.feature_center_, self.feature_scale_ = frame.centres, frame.scales
        self.feature_range_, self.row_bound_ = frame.feature_range, frame.row_bound
        self.radius_ = result.radius
        self.clip_radius_ = result.clip_radius
        return result

    def _assumptions(self) -> tuple[str, ...]:
        assumptions = []
        if self.adjacency == "replace-one" or self.n_users is not None:
            assumptions.append("the number of users is public")
        if not isinstance(self.loss, str):
            assumptions.append("loss.gradient computes every row from that row alone, to the last bit")
        return tuple(assumptions)


def warn_too_few_users(n_users: float, epsilon: float, n_coef: int, level: float) -> None:
    """Warn if the noise drowns the users' votes, and tell how many users are needed; from released numbers alone."""
    if level > MAX_NOISE_LEVEL:
        warn_caller(
            f"n = {n_users:.0f} users at epsilon = {epsilon:g} (n·ε = {n_users * epsilon:.3g}) are too few to learn "
            f"{n_coef} coefficients: the noise is {level:.2g} times a unanimous vote of the users. About "
            f"{math.ceil(n_users * level / MAX_NOISE_LEVEL)} users are needed; more rows per user do not help.",
            TooFewUsersWarning,
        )


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class CheckedRows(NamedTuple):
    """Rows whose features are numbers; y has shape (n_rows,), or (n_rows, 0) without a target."""

    X: FloatArray
    y: npt.NDArray[Any]
    user_ids: Any


#: Checks X and y as scikit-learn's `validate_data` does, with its options.
Check = Callable[..., tuple[FloatArray, npt.NDArray[Any]]]


def features_only(estimator: Any, X: Any, y: None = None, **options: Any) -> tuple[FloatArray, FloatArray]:
    """Check features; there is no target."""
    X = validate_data(estimator, X, dtype=np.float64, **options)
    return X, np.empty((len(X), 0))


def numeric_target(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[FloatArray, FloatArray]:
    """Check features and a target of numbers."""
    X, y = validate_data(estimator, X, read_numbers(y), dtype=np.float64, **options)
    return X, y.astype(np.float64, copy=False)


def labels(
    estimator: Any, X: Any, y: Any, *, public: dict[str, Any], **options: Any
) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Check features, and labels against the kind of the public ones."""
    X, y = validate_data(estimator, X, read_labels(y, **public), dtype=np.float64, **options)
    return X, y


@np.errstate(all="ignore")  # a warning about somebody's overflow would say something about them
def read_rows(
    estimator: Any, X: Any, user_ids: Any, check: Check, *, blank: Any, **target: Any
) -> Partitions:
    """Check rows of X, y and user_ids; ``estimator`` learns the names of the features.

    ``blank``, an estimator of the same class with neither parameters nor a ledger, travels to where the rows are.
    """
    if not is_partitioned(X):
        return InMemory(CheckedRows(*check(estimator, X, **target), user_ids))
    if target and target["y"] is None:
        raise ValueError("y must name the column of X that holds the target where X is in blocks, got None.")
    columns = {**target, "user_ids": user_ids}
    source = as_partitions(X)
    nothing = _split_empty(source, columns)
    validate_data(estimator, nothing, skip_check_array=True)
    blank.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        blank.feature_names_in_ = estimator.feature_names_in_
    return split_columns(source, **columns).map(
        partial(_checked, check=check, blank=blank, names=_names(nothing))
    )


def _split_empty(source: Partitions, columns: dict[str, Any]) -> Any:
    """Return the features of a block without rows."""
    split = split_columns(InMemory(source.empty), **columns)
    assert isinstance(split, InMemory)
    return split.block.X


def _names(table: Any) -> list[Any] | None:
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else None


@np.errstate(all="ignore")
def _checked(block: Roles, check: Check, blank: Any, names: list[Any] | None) -> CheckedRows:
    # scikit-learn compares names that are text, where both have some.
    if _names(block.X) != names:
        raise ValueError(
            "blocks must all have the columns of the first one, in its order and by the same names."
        )
    ids = block.of.get("user_ids")
    if block.X.shape[0] == 0:
        return CheckedRows(
            np.empty((0, blank.n_features_in_)), np.empty((0,) if "y" in block.of else (0, 0)), ids
        )
    target = {"y": block.of["y"]} if "y" in block.of else {}
    return CheckedRows(*check(blank, block.X, **target, reset=False), ids)


def by_user(
    rows: Partitions, *, named: bool, weight_cap: int = 1, in_order: bool = False
) -> tuple[Partitions, int]:
    """Bring each user's rows together, in their order; returns `UserData`, to be closed, and the number of users.

    Identifiers that are missing or of several kinds are refused. ``in_order`` sorts rows in memory by user, too: a
    copy, which may be overwritten.
    """
    together = isinstance(rows, InMemory) or not named
    users: Partitions = rows
    try:
        if together:
            sort = in_order and isinstance(rows, InMemory)
            users = rows.map(partial(_one_block, named=named, weight_cap=weight_cap, sort=sort)).persisted()
        else:
            users = rows.map(_tagged).shuffle(_place)
            users = users.map(partial(_of_users, weight_cap=weight_cap)).persisted()
        counts = users.sum(number_of_users if together else _users_of_each_kind)
        if np.count_nonzero(counts) > 1:
            raise several_kinds(kinds_in_words(np.flatnonzero(counts).tolist()))
        if not counts.any():
            raise ValueError("X has no rows (0 samples): at least one is needed.")
    except BaseException:
        users.close()
        raise
    return users, int(counts.sum())


def _one_block(rows: CheckedRows, named: bool, weight_cap: int, sort: bool) -> UserData:
    codes, names = encode_users(rows.user_ids if named else None, len(rows.X))
    data = UserData(rows.X, rows.y, UserGroups(codes, weight_cap), names)
    del codes  # where rows are sorted they are needed no longer
    return data.copied_in_order() if sort else data


def _tagged(rows: CheckedRows) -> tuple[FloatArray, FloatArray, npt.NDArray[np.uint64]]:
    if len(rows.X) == 0:
        return rows.X, rows.y, np.empty((0, 4), dtype=np.uint64)
    codes, names = encode_identifiers(rows.user_ids, len(rows.X))
    return rows.X, rows.y, identifier_tags(names)[codes]


def _place(block: tuple[Any, ...]) -> npt.NDArray[np.uint64]:
    """Return a number for each user that spreads them evenly (the finaliser of SplitMix64)."""
    mixed: npt.NDArray[np.uint64] = block[-1][:, 0].copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed


def _of_users(block: tuple[FloatArray, FloatArray, npt.NDArray[np.uint64]], weight_cap: int) -> UserData:
    """Sort rows by user, as contiguous columns."""
    X, y, tags = block
    order = np.argsort(tags[:, 0], kind="stable")
    new, alike = _first_rows(tags[order])
    if alike:  # two hashes that begin alike: one of 2⁶⁴
        order = np.lexsort(tags.T[::-1])
        new, _ = _first_rows(tags[order])
    columns = np.empty((X.shape[1], len(X)))
    for column, values in zip(columns, X.T, strict=True):
        column[:] = values[order]
    groups = UserGroups(np.cumsum(new) - 1, weight_cap)
    return UserData(columns.T, np.asfortranarray(y[order]), groups, tags[order][new])


def _first_rows(tags: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.bool_], bool]:
    """Mark sorted rows that begin a user, and tell if two users have the same first word."""
    new = np.ones(len(tags), dtype=bool)
    new[1:] = (tags[1:] != tags[:-1]).any(axis=1)
    return new, bool((new[1:] & (tags[1:, 0] == tags[:-1, 0])).any())


def _users_of_each_kind(data: UserData) -> IntArray:
    kinds = (data.names[:, 3] & np.uint64(255)).astype(np.int64)
    return np.bincount(kinds, minlength=N_KINDS).astype(np.int64)
