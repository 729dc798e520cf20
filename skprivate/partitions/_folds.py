"""Folds in which one unit moves no other, by a keyed hash of identifiers or by a splitter of scikit-learn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn import model_selection as splits
from sklearn.base import is_classifier
from sklearn.model_selection import BaseCrossValidator, GroupKFold, KFold, StratifiedKFold

from skprivate import privacy
from skprivate._messages import must_be
from skprivate._sklearn import _num_samples, inner_estimator
from skprivate.partitions import _kinds, _partitions
from skprivate.privacy import Adjacency, PrivacyUnit

DEFAULT_KEY = "skprivate.model_selection.UserKFold"
READ_LABELS = (
    StratifiedKFold,
    splits.StratifiedGroupKFold,
    splits.StratifiedShuffleSplit,
    splits.RepeatedStratifiedKFold,
)
READ_POSITIONS = (
    KFold,
    splits.RepeatedKFold,
    splits.ShuffleSplit,
    splits.LeaveOneOut,
    splits.LeavePOut,
    splits.TimeSeriesSplit,
)
READ_THE_SET_OF_GROUPS = (splits.GroupShuffleSplit, splits.LeaveOneGroupOut, splits.LeavePGroupsOut)
UNITS = (PrivacyUnit.USER, PrivacyUnit.ROW, PrivacyUnit.PRIVATE_ROW, PrivacyUnit.LABEL)
#: No empty fold of a smaller probability is chance.
_NO_CHANCE = 1e-6
#: Users of blocks are counted up to this number.
_SOME = 1 << 12


class UserKFold(BaseCrossValidator):
    """K folds that share no user, in which a user's fold depends on nobody else.

    The fold of a user is a keyed hash of its identifier modulo ``n_splits``. One row or one user more moves no other
    user, which is what user-level privacy of a cross-validation needs: `~sklearn.model_selection.GroupKFold` balances
    its folds by the numbers of rows, so that one user's row count re-deals all others, and a model per fold tells it.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    key : str, bytes or int, default=None
        Public key of the hash: another key, or another ``n_splits``, deals other folds. None is a fixed key, the same
        in every version, so that a user is in the same fold in every search. Keys of different types are different
        keys. Folds within folds need a key of their own.

    See Also
    --------
    fit_folds : Fits on them at the cost of one user.
    check_cv : Makes a splitter for other units.
    sklearn.model_selection.GroupKFold : Balances folds, without privacy.

    Notes
    -----
    **What holds.** Let two data sets differ in the rows of one user u: all of them added or removed (add-remove), or
    exchanged with u keeping its identifier (replace-one). Then the training sets of all folds but u's own differ in u
    alone, as the guarantee of each fit assumes, and the training set of u's own fold is the same. k fits, one for each
    fold, therefore cost a user what k − 1 of them cost together: `fit_folds` charges that.

    **What is assumed.** Under replace-one the identifiers are public. An exchanged user with another identifier may
    fall in another fold and is then, for two of the fits, a user less and a user more; to protect identifiers use
    add-remove, where that is two steps.

    **What is not covered.** Scores on the held-out fold carry no noise, here as in any cross-validation.

    **Sizes.** Folds have Binomial(n_users, 1/n_splits) users, not equally many. Fewer users than folds are refused.
    Their number is public under replace-one; under add-remove the refusal tells one bit, as those of malformed entries
    do (docs/security.md). With few users a fold may be empty, with probability at most
    n_splits·(1 − 1/n_splits)^n_users (1e-9 for 100 users and 5 folds). Where that is above 1e-6 it is no error, since
    it would say who is there: the split has an empty test or training set, which most estimators and scorers refuse.
    Where it is below, it is no chance: the same key dealt these users before, and held that fold out.

    **Rows in blocks.** Since nobody else matters, `partition` deals each block by itself: the same users in the same
    folds as in memory.

    Rows without identifiers have no such splitter: adding or removing a row shifts the position of later ones. Where
    every row is its own user, pass a row identifier that belongs to the row; under replace-one, where the
    number of rows is public, `~sklearn.model_selection.KFold` splits by position and needs none (see `check_cv`).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_validate
    >>> from skprivate import UserLevelSGDRegressor
    >>> from skprivate.model_selection import UserKFold
    >>> user_ids = np.arange(6000) % 1000
    >>> X = np.linspace(-1, 1, 6000)[:, None]
    >>> model = UserLevelSGDRegressor(radius=5.0)
    >>> result = cross_validate(
    ...     model, X, 3 * X[:, 0], cv=UserKFold(5), groups=user_ids, params={"user_ids": user_ids}
    ... )
    >>> len(result["test_score"])
    5

    With metadata routing ``user_ids`` is passed once, for the splitter and the estimator:

    >>> from sklearn import config_context
    >>> with config_context(enable_metadata_routing=True):
    ...     result = cross_validate(model, X, 3 * X[:, 0], cv=UserKFold(5), params={"user_ids": user_ids})
    """

    __metadata_request__split: ClassVar[dict[str, bool]] = {"groups": True, "user_ids": True}

    def __init__(self, n_splits: int = 5, *, key: str | bytes | int | None = None) -> None:
        if not isinstance(n_splits, Integral) or isinstance(n_splits, bool) or n_splits < 2:
            raise ValueError(f"n_splits must be an integer of at least 2, got {n_splits!r}.")
        self.n_splits: int = int(n_splits)
        self.key: str | bytes | int | None = key
        key_bytes(key)

    @privacy.in_one_order
    def split(
        self, X: Any, y: Any = None, groups: object = None, *, user_ids: Any = None
    ) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Split into training and test rows of each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its length is read.
        y : array-like of shape (n_samples,), default=None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Another name for ``user_ids``, which scikit-learn passes on where metadata routing is off. Pass one of
            the two.
        user_ids : array-like of shape (n_samples,), default=None
            User of each row: integers, strings, bytes, UUIDs or datetime64, all of one kind and none missing.

        Yields
        ------
        train, test : ndarray of int
            Rows in increasing order. May be empty.

        Raises
        ------
        ValueError
            If there are no identifiers, both kinds, missing ones, or not one for each row, fewer users than folds, or
            an empty fold that is no chance.
        TypeError
            If the identifiers are of a kind that is not allowed.
        """
        if groups is not None and user_ids is not None:
            raise ValueError("UserKFold got both user_ids and groups, which are the same to it: pass one.")
        ids = groups if user_ids is None else user_ids
        if _kinds.is_partitioned(X):
            raise TypeError(
                "X must be one table, got rows in blocks, which have no positions: UserKFold.partition(X, "
                "user_ids=column) gives the folds."
            )
        if ids is None:
            raise ValueError(
                "UserKFold needs the user of each row, got neither user_ids nor groups. Where metadata routing is off, "
                "scikit-learn passes on groups alone: pass groups=user_ids as well as the estimator's user_ids."
            )
        codes, names = privacy.encode_identifiers(ids, _num_samples(X))
        if len(names) < self.n_splits:
            raise ValueError(
                f"n_splits must be at most the number of users, which are fewer, got n_splits={self.n_splits}."
            )
        folds = _folds(names, self.n_splits, key_bytes(self.key))
        self._refuse_dealt(np.bincount(folds, minlength=self.n_splits), len(names))
        fold_of_row = folds[codes]
        for number in range(self.n_splits):
            yield np.flatnonzero(fold_of_row != number), np.flatnonzero(fold_of_row == number)

    def partition(
        self, X: Any, *, user_ids: str | int
    ) -> Iterator[tuple[_partitions.Partitions, _partitions.Partitions]]:
        """Split rows in blocks into training and test rows of each fold.

        Each block is dealt when it is visited. A user whose rows are in several blocks is in one fold, the same as with
        `split`.

        Parameters
        ----------
        X : Dask array or DataFrame, pyarrow dataset or `skprivate.partitions.Partitions`
            One pass checks the identifiers of all rows.
        user_ids : str or int
            The column with the user of each row, by name, or of an array by number. It stays among the columns.

        Yields
        ------
        train, test : Partitions
            To fit on, with all columns of X. May have no rows.

        Raises
        ------
        ValueError
            If there is no such column, identifiers are missing, or a fold is empty that is no chance.
        TypeError
            If X is one table, or identifiers are of a kind that is not allowed or of several kinds.

        Examples
        --------
        >>> import pandas as pd
        >>> from skprivate.model_selection import UserKFold
        >>> from skprivate.partitions import Blocks
        >>> visits = pd.DataFrame({"person": ["ann", "bob", "eve", "ann"], "cost": [3.0, 1.0, 2.0, 4.0]})
        >>> X = Blocks([visits[:2], visits[2:]])
        >>> [(train.n_rows, test.n_rows) for train, test in UserKFold(2).partition(X, user_ids="person")]
        [(3, 1), (1, 3)]
        """
        if not _kinds.is_partitioned(X):
            raise TypeError(
                f"X must be rows in blocks, got {type(X).__name__}: split(X, user_ids=...) splits a table in memory."
            )
        if user_ids is None:
            raise ValueError("user_ids must name the column of X that holds the user of each row, got None.")
        source = _kinds.as_partitions(X)
        _kinds.split_columns(_partitions.InMemory(source.empty), user_ids=user_ids)  # whether there is such a column
        terms = {"column": user_ids, "n_splits": self.n_splits, "key": key_bytes(self.key)}
        folds, some, kinds = np.split(source.sum(partial(_counts, **terms)), [self.n_splits, self.n_splits + _SOME])
        if np.count_nonzero(kinds) > 1:
            raise TypeError("user_ids must hold identifiers of one kind, got several kinds in different blocks.")
        self._refuse_dealt(folds, np.count_nonzero(some))
        deal = partial(_kept, **terms)
        for number in range(self.n_splits):
            train, test = (source.map(partial(deal, number=number, held_out=out)) for out in (False, True))
            for kept in (train, test):
                kept.__dict__.pop("n_rows", None)  # it was that of all rows
            yield train, test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: object = None, *, user_ids: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y, groups, user_ids : object, default=None
            Ignored.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits

    def _refuse_dealt(self, sizes: npt.NDArray[Any], n_users: int) -> None:
        """Refuse an empty fold that is no chance: it does not depend on who is in the others."""
        if sizes.min() == 0 and self.n_splits * (1 - 1 / self.n_splits) ** n_users < _NO_CHANCE:
            advice = "Give folds within folds a key of their own: UserKFold(..., key='inner')."
            raise ValueError(must_be("key", "another one than that of the folds around these", self.key, advice))


def _folds(names: npt.NDArray[Any], n_splits: int, key: bytes) -> npt.NDArray[np.int64]:
    """Compute the fold of each user, whoever else is there."""
    key_of_deal = hashlib.blake2b(b"%d" % n_splits, digest_size=32, key=key).digest()
    return (privacy.hash_identifiers(names, key_of_deal) % np.uint64(n_splits)).astype(np.int64)


def _counts(block: object, column: object, n_splits: int, key: bytes) -> npt.NDArray[np.int64]:
    """Count users of a block by fold, by another hash, and by the kind of their identifiers."""
    ids = _kinds.split_block(block, {"user_ids": column}).of["user_ids"]
    names = privacy.encode_identifiers(ids, len(ids))[1]
    folds, some = (np.bincount(_folds(names, n, key), minlength=n) for n in (n_splits, _SOME))
    return np.concatenate([folds, some, privacy.kind_of_identifiers(names) * len(ids)])


def _kept(block: object, column: object, n_splits: int, key: bytes, number: int, held_out: bool) -> Any:
    """Select the rows of a block that are in a fold, or in all others."""
    ids = _kinds.split_block(block, {"user_ids": column}).of["user_ids"]
    if not len(ids):
        return block
    codes, names = privacy.encode_identifiers(ids, len(ids))
    rows = (_folds(names, n_splits, key)[codes] == number) == held_out
    frame = nw.from_native(block, eager_only=True, pass_through=True)
    return frame.filter(rows.tolist()).to_native() if isinstance(frame, nw.DataFrame) else block[rows]


def key_bytes(key: object) -> bytes:
    """Make 32 bytes of a key; different ones for different keys."""
    if key is None:
        key = DEFAULT_KEY
    if isinstance(key, str):
        text = b"string:" + key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        text = b"bytes:" + key
    elif isinstance(key, Integral) and not isinstance(key, bool):
        text = b"integer:" + b"%d" % int(key)
    else:
        raise TypeError(f"key must be a string, bytes, an integer or None, got {type(key).__name__}.")
    return hashlib.blake2b(text, digest_size=32).digest()


def check_cv(cv: object = 5, *, unit: str = "user", adjacency: str = "replace-one") -> Any:
    """Check that one unit moves no other unit in a splitter, or make such a splitter.

    A guarantee of a fit is about the data that are passed to it. If which rows are passed depends on somebody's private
    data, changing these changes many rows at once, and no sum of the fits' ε covers that. In particular ``cv=5`` means
    `~sklearn.model_selection.StratifiedKFold` for scikit-learn's classifiers, which reads labels.

    Parameters
    ----------
    cv : int, splitter or None, default=5
        Number of folds, or a splitter of scikit-learn or of this package. None is 5.
    unit : {"user", "row", "private row", "label"}, default="user"
        What one unit of privacy is.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        How neighbours differ. Under "replace-one" the number of rows (unit "row") or the identifiers of the
        users (unit "user") are public; under "add-remove" they are private. For unit "label" everything but the labels
        is public, whatever the adjacency.

    Returns
    -------
    cv : splitter
        The given splitter, or for a number `UserKFold` where the unit is a user or comes and goes (pass identifiers of
        the rows as ``user_ids`` or ``groups`` for unit "row"), otherwise a shuffled KFold with a fixed seed.

    Raises
    ------
    ValueError
        If the splitter lets one unit move others, or a parameter is out of range.
    TypeError
        If nothing is known about ``cv``: subclasses, iterables of splits, splitters of other packages.

    See Also
    --------
    UserKFold : Splits by users.
    sklearn.model_selection.check_cv : Makes splitters that may read labels.

    Examples
    --------
    >>> from sklearn.model_selection import StratifiedKFold
    >>> from skprivate.model_selection import check_cv
    >>> check_cv(3, unit="user")
    UserKFold(key=None, n_splits=3)
    >>> check_cv(3, unit="label")
    KFold(n_splits=3, random_state=0, shuffle=True)
    >>> try:
    ...     check_cv(StratifiedKFold(), unit="label")
    ... except ValueError as error:
    ...     print(error)
    cv=StratifiedKFold is not private for unit='label': it reads labels, so that one label moves other rows to other \
folds. Use KFold(shuffle=True) with a public random_state.
    """
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {[str(u) for u in UNITS]}, got {unit!r}.")
    if adjacency not in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE):
        raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {adjacency!r}.")
    labels_alone = unit == PrivacyUnit.LABEL
    # The set of units is private.
    come_and_go = adjacency == Adjacency.ADD_REMOVE and not labels_alone
    groups_are_public = labels_alone or (unit == PrivacyUnit.USER and not come_and_go)
    by_identifier = unit == PrivacyUnit.USER or come_and_go
    if cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool)):
        n_splits = 5 if cv is None else int(cv)
        return UserKFold(n_splits) if by_identifier else KFold(n_splits, shuffle=True, random_state=0)
    kind = type(cv)
    advice = "Use UserKFold." if by_identifier else "Use KFold(shuffle=True) with a public random_state."
    if kind in READ_LABELS:
        reason = "it reads labels, so that one label moves other rows to other folds"
    elif kind is GroupKFold and not cv.shuffle and not labels_alone:
        reason = "it balances folds by the rows of each group, so that one row more moves other groups"
    elif kind in (GroupKFold, *READ_THE_SET_OF_GROUPS) and not groups_are_public:
        reason = "it deals out the set of all groups, so that one group more moves others"
    elif kind in READ_POSITIONS and by_identifier:
        reason = "it splits by position, so that one row more moves other rows"
    elif kind in (UserKFold, GroupKFold, *READ_POSITIONS, *READ_THE_SET_OF_GROUPS):
        return cv
    else:
        allowed = "a number of folds, UserKFold or a splitter of scikit-learn that reads positions or groups"
        what = kind.__name__
        if isinstance(cv, BaseCrossValidator):
            what += ", whose splits may depend on anything"
        raise TypeError(f"cv must be {allowed}, got {what}.")
    raise ValueError(f"cv={kind.__name__} is not private for unit={str(unit)!r}: {reason}. {advice}")


def check_folds(search: object, *, unit: str = "user", adjacency: str = "replace-one") -> None:
    """Refuse a composite whose folds `check_cv` refuses; a number means what it means to scikit-learn."""
    cv = search.cv
    if cv is None or (isinstance(cv, Integral) and not isinstance(cv, bool)):
        inner = inner_estimator(search)
        kind = StratifiedKFold if is_classifier(search if inner is None else inner) else KFold
        cv = kind() if cv is None else kind(int(cv))
    try:
        check_cv(cv, unit=unit, adjacency=adjacency)
    except (TypeError, ValueError) as error:
        name = type(search).__name__
        raise ValueError(
            f"cv of {name}: {error} The fits of {name} have no total otherwise: no sum of their prices bounds what "
            "one unit moves."
        ) from None


def fold_problem(search: object) -> str:
    """Explain why no sum of costs bounds fits on the folds of a composite; empty where one does for users or rows."""
    for unit in (PrivacyUnit.USER, PrivacyUnit.ROW):
        try:
            check_folds(search, unit=unit)
        except ValueError as error:
            return str(error)
    return ""
