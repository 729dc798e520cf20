"""One user's odd label or number neither changes what others contribute, nor shows as a warning, message or error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.frozen import FrozenEstimator

from skprivate.preprocessing import PrivateStandardScaler, PublicScaler
from skprivate.privacy import PrivacyLedger, SimulatedNoiseWarning
from skprivate.user_level import UserLevelMean, UserLevelSelector, UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.user_level._classifier import _with_codes
from skprivate.user_level._rows import CheckedRows
from skprivate.user_level._sgd import TooFewUsersWarning

USERS = np.arange(3)


def constants(kind, values):
    return [(str(v), FrozenEstimator(kind(strategy="constant", constant=v).fit([[0.0]], [v]))) for v in values]


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [w for w in caught if not issubclass(w.category, SimulatedNoiseWarning | TooFewUsersWarning)]


@pytest.mark.parametrize("last", [2, 2.5, 2**63, 2**64, -1])
def test_the_type_of_targets_is_nobodys_to_choose(last):
    seen = []

    def loss(y, predicted):
        seen.append((y.dtype, y.tolist()))
        return np.abs(y - predicted)

    selector = UserLevelSelector(constants(DummyRegressor, (1.0, 2.0)), loss=loss, random_state=0)
    selector.fit(np.zeros((3, 1)), [1, 2**53 + 1, last], user_ids=USERS)
    *_, first, second, _ = seen  # made-up targets come before
    assert [first, second] == [(np.float64, [1.0]), (np.float64, [2.0**53])]


@pytest.mark.parametrize("odd", [b"x", "x"])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object)])
def test_targets_of_several_kinds_are_refused(odd, kind):
    # Otherwise b"x" makes bytes of all numbers, and every user's losses 1.
    selector = UserLevelSelector(constants(DummyClassifier, (1, 2)), random_state=0)
    with pytest.raises(TypeError, match="all strings or all numbers|got bytes"):
        selector.fit(np.zeros((3, 1)), kind([1, 2, odd]), user_ids=USERS)


def test_large_labels_are_not_merged_by_a_float():
    label = 2**53
    for classes, y, codes in (
        ([label, label + 1], np.array([label, label + 1, label]), [-1, 1, -1]),
        ([label, label + 1], np.array([label, label + 1, 2.0**53], dtype=object), [-1, 1, -1]),
        ([1, 2, 3], np.array([1.0, 3.0, 2.0]), [0, 2, 1]),
    ):
        assert _with_codes(CheckedRows(np.zeros((3, 1)), y, None), classes).y.tolist() == codes


def test_the_number_of_labels_that_occur_is_not_warned_of():
    model = UserLevelSGDClassifier(classes=list(range(30)), max_iter=1, random_state=0)
    X = np.zeros((30, 1))
    for n_labels in (2, 29):
        assert not warned(lambda n=n_labels: model.fit(X, np.arange(30) % n))


@pytest.mark.parametrize(
    "run",
    [
        lambda X: UserLevelSelector(constants(DummyRegressor, (0.0, 1.0)), random_state=0).fit(
            X, X[:, 0], user_ids=np.zeros(len(X), int)
        ),
        lambda X: PublicScaler(center=-1e308, scale=1e-3).fit(X).transform(X),
        lambda X: PrivateStandardScaler(random_state=0, bounds=(-1, 1), epsilon=1e6).fit(X * 1e-311).transform(X),
    ],
)
def test_nobodys_overflow_shows_as_a_warning(run):
    # Partial sums of inf and -inf in the check for infinite numbers, quotients beyond the largest float.
    X = np.repeat([1e308, -1e308], 200)[:, None]
    assert not warned(lambda: run(X))


@pytest.mark.parametrize("model", [UserLevelMean(), UserLevelSGDRegressor()])
def test_no_complex_number_is_quoted(model):
    with pytest.raises(ValueError, match="Complex data not supported") as error:
        model.fit(np.array([[1.0], [2.0], [3.25 + 7j]]), [1.0, 2.0, 3.0])
    assert "3.25" not in str(error.value)


@pytest.mark.parametrize("parameters", [{"bound": 1e-320}, {"bound": 1e305}, {"tau": 1e308}, {"tau": 1e-320}])
def test_ranges_that_cannot_be_divided_cost_nothing(parameters):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5, unit="row", adjacency="replace-one")
    with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be between"):
        UserLevelMean(ledger=ledger, **parameters).fit(np.zeros((20_000, 1)))
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize("y", [[np.float32(0.1), "3"], ["secret", "b"]])
def test_no_string_makes_strings_of_numbers(y):
    # str(np.float32(0.1)) is "0.1", another number.
    with pytest.raises((TypeError, ValueError), match="could not convert a string|all strings or all numbers") as error:
        UserLevelSGDRegressor().fit(np.zeros((2, 1)), y)
    assert "secret" not in str(error.value)


def test_a_missing_target_among_objects_is_refused():
    """scikit-learn takes None among objects for a number, NaN: a fit then went on with it."""
    y = np.array([*range(499), None], dtype=object)
    with pytest.raises(ValueError, match="y has missing labels"):
        UserLevelSGDRegressor(1.0, random_state=0).fit(np.linspace(0.0, 1.0, 500)[:, None], y)
