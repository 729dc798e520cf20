"""Folds by a keyed hash of the user's own identifier."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator

from skprivate._identifiers import encode_identifiers, hash_identifiers
from skprivate._sklearn import _num_samples

DEFAULT_KEY = "skprivate.model_selection.UserKFold"


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
        Public key of the hash: another key deals other folds. None is a fixed key, the same in every version, so
        that a user is in the same fold in every search. Keys of different types are different keys.

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

    **Sizes.** Folds have Binomial(n_users, 1/n_splits) users, not equally many. With few users a fold may be empty,
    with probability at most n_splits·(1 − 1/n_splits)^n_users (1e-9 for 100 users and 5 folds). That is no error here,
    since it would say something about who is there: the split has an empty test or training set, which most
    estimators and scorers refuse.

    Rows without identifiers have no such splitter: adding or removing a row shifts the position of later ones. Where
    every row is its own user, pass a row identifier that belongs to the row; under replace-one, where the
    number of rows is public, `~sklearn.model_selection.KFold` splits by position and needs none (see `check_cv`).

    See Also
    --------
    fit_folds : Fits on these folds, for what one user pays.
    check_cv : A splitter that suits the unit of privacy.

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
        self.key = key
        key_bytes(key)

    def split(
        self, X: Any, y: Any = None, groups: Any = None, user_ids: Any = None
    ) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Training and test rows of each fold.

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
            If there are no identifiers, both kinds, missing ones, or not one for each row.
        TypeError
            If the identifiers are of a kind that is not allowed.
        """
        if groups is not None and user_ids is not None:
            raise ValueError("UserKFold got both user_ids and groups, which are the same to it: pass one.")
        ids = groups if user_ids is None else user_ids
        if ids is None:
            raise ValueError(
                "UserKFold needs the user of each row, got neither user_ids nor groups. Where metadata routing is off, "
                "scikit-learn passes on groups alone: pass groups=user_ids as well as the estimator's user_ids."
            )
        codes, names = encode_identifiers(ids, _num_samples(X))
        fold = (hash_identifiers(names, key_bytes(self.key)) % np.uint64(self.n_splits)).astype(np.int64)
        fold_of_row = fold[codes]
        for number in range(self.n_splits):
            yield np.flatnonzero(fold_of_row != number), np.flatnonzero(fold_of_row == number)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, user_ids: Any = None) -> int:
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


def key_bytes(key: Any) -> bytes:
    """32 bytes for a key; different ones for different keys."""
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
