"""Splitters that suit a unit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import model_selection as sk

from skprivate import CuratedBagGAMClassifier
from skprivate.model_selection import UserKFold, check_cv
from skprivate.privacy import public_generator

UNITS = [("user", "replace-one"), ("user", "add-remove"), ("row", "replace-one"), ("row", "add-remove"),
         ("label", "replace-one")]  # fmt: skip
#: For which of the units above a splitter is accepted.
EXPECTED = [
    (UserKFold(3), "11111"),
    (sk.KFold(3), "00101"),
    (sk.KFold(3, shuffle=True, random_state=1), "00101"),
    (sk.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), "00101"),
    (sk.ShuffleSplit(3, random_state=0), "00101"),
    (sk.TimeSeriesSplit(3), "00101"),
    (sk.GroupKFold(3), "00001"),
    (sk.GroupKFold(3, shuffle=True, random_state=0), "10001"),
    (sk.GroupShuffleSplit(3, random_state=0), "10001"),
    (sk.LeaveOneGroupOut(), "10001"),
    (sk.StratifiedKFold(3), "00000"),
    (sk.StratifiedKFold(3, shuffle=True, random_state=0), "00000"),
    (sk.StratifiedShuffleSplit(3, random_state=0), "00000"),
    (sk.StratifiedGroupKFold(3), "00000"),
    (sk.RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0), "00000"),
]


def neighbours(unit, adjacency, rng):
    """Two data sets (y, unit of each row, number of the row in the first or -1) that differ in one unit, and the rows
    of the first that must stay where they are."""
    n = 24
    y, ids, rows = rng.permutation(np.arange(n) % 2), np.arange(n), np.arange(n)
    if unit == "user":
        ids = np.repeat(np.arange(8), 3)
    changed = rng.integers(ids.max() + 1)
    own = ids == changed
    first = y, ids, rows
    if unit == "label":
        return first, (np.where(own, 1 - y, y), ids, rows), rows
    if adjacency == "add-remove":
        return first, tuple(column[~own] for column in first), rows[~own]
    if unit == "row":
        # The new row has another label and is in a group of its own.
        return first, (np.where(own, 1 - y, y), np.where(own, n, ids), rows), rows[~own]
    before = int(np.flatnonzero(own)[0])
    extra = int(rng.integers(1, 9))
    second = (
        np.insert(y, before, np.ones(extra, int)),
        np.insert(ids, before, np.full(extra, changed)),
        np.insert(rows, before, np.full(extra, -1)),
    )
    return first, second, rows[~own]


def training_sets(cv, data, stay):
    y, ids, rows = data
    groups = {"groups": ids} if isinstance(cv, UserKFold) or "Group" in type(cv).__name__ else {}
    return [set(rows[train]) & set(stay) for train, _ in cv.split(np.zeros((len(y), 1)), y, **groups)]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize(("cv", "accepted"), EXPECTED, ids=lambda value: str(value).partition("(")[0])
@pytest.mark.parametrize("case", range(len(UNITS)), ids=[" ".join(case) for case in UNITS])
def test_accepted_if_and_only_if_nobody_moves_anybody_else(cv, accepted, case):
    unit, adjacency = UNITS[case]
    moved = False
    for seed in range(60):
        first, second, stay = neighbours(unit, adjacency, public_generator(seed))
        moved |= training_sets(cv, first, stay) != training_sets(cv, second, stay)
    assert moved is (accepted[case] == "0")
    if moved:
        with pytest.raises(ValueError, match=f"^cv={type(cv).__name__} is not private for unit='{unit}': it .* Use "):
            check_cv(cv, unit=unit, adjacency=adjacency)
    else:
        assert check_cv(cv, unit=unit, adjacency=adjacency) is cv


def test_numbers_become_splitters_that_suit():
    for unit, adjacency in UNITS:
        for cv, n_splits in ((None, 5), (4, 4), (np.int64(4), 4)):
            found = check_cv(cv, unit=unit, adjacency=adjacency)
            by_identifier = unit == "user" or adjacency == "add-remove"
            assert type(found) is (UserKFold if by_identifier else sk.KFold)
            assert found.get_n_splits() == n_splits
            assert check_cv(found, unit=unit, adjacency=adjacency) is found
    assert type(check_cv(3, unit="label", adjacency="add-remove")) is sk.KFold
    assert type(check_cv(3, unit="private row")) is sk.KFold


def test_what_is_not_known_is_refused():
    class Mine(sk.KFold):
        pass

    for cv in (Mine(3), sk.PredefinedSplit([0, 1]), [([0], [1])], "5", True, 2.0):
        with pytest.raises(TypeError, match="cv must be a number of folds"):
            check_cv(cv)
    with pytest.raises(ValueError, match="unit must be one of"):
        check_cv(3, unit="data set")
    with pytest.raises(ValueError, match="adjacency must be"):
        check_cv(3, adjacency="metric")


def test_stratified_folds_publish_other_rows_when_one_label_changes():
    """What the refusal is for: bags of the folds are public, and which rows they hold depends on the label."""
    rng = public_generator(0)
    n = 60
    X, y = np.arange(n)[:, None].astype(float), rng.integers(0, 2, n)

    def published(cv, y):
        model = CuratedBagGAMClassifier(
            epsilon=0.1, classes=[0, 1], min_size=1, categorical_features="all", feature_sets="singles", random_state=0
        )
        found = sk.cross_validate(model, X, y, cv=cv, return_estimator=True)["estimator"]
        return [frozenset(fitted.bags_.columns[0].categories) for fitted in found]

    # The splits alone tell which label it takes to move others.
    def folds(y):
        return [set(test) for _, test in sk.StratifiedKFold(3).split(X, y)]

    flipped = [np.where(np.arange(n) == i, 1 - y, y) for i in range(n)]
    other = next(changed for changed in flipped if folds(changed) != folds(y))
    assert published(3, y) != published(3, other)
    cv = check_cv(3, unit="label")
    assert published(cv, y) == published(cv, other)
