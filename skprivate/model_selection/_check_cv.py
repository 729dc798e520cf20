"""Splitters that suit a unit of privacy."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    LeavePGroupsOut,
    LeavePOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from skprivate.model_selection._user_k_fold import UserKFold
from skprivate.privacy import Adjacency, PrivacyUnit

READ_LABELS = (StratifiedKFold, StratifiedGroupKFold, StratifiedShuffleSplit, RepeatedStratifiedKFold)
READ_POSITIONS = (KFold, RepeatedKFold, ShuffleSplit, LeaveOneOut, LeavePOut, TimeSeriesSplit)
READ_THE_SET_OF_GROUPS = (GroupShuffleSplit, LeaveOneGroupOut, LeavePGroupsOut)
UNITS = (PrivacyUnit.USER, PrivacyUnit.ROW, PrivacyUnit.PRIVATE_ROW, PrivacyUnit.LABEL)


def check_cv(cv: Any = 5, *, unit: str = "user", adjacency: str = "replace-one") -> Any:
    """A splitter in which one unit moves no other unit, or an error that says why the given one is none.

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
    # Whether which units there are is private.
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
        known = "a number of folds, UserKFold or a splitter of scikit-learn that reads positions or groups"
        what = kind.__name__
        if isinstance(cv, BaseCrossValidator):
            what += ", whose splits may depend on anything"
        raise TypeError(f"cv must be {known}, got {what}.")
    raise ValueError(f"cv={kind.__name__} is not private for unit={str(unit)!r}: {reason}. {advice}")
