"""Weights of classes: scikit-learn's in the limit, counts within the budget, no row that weighs for another."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.user_level._losses import LogisticLoss, MultinomialLoss
from skprivate.user_level.descent._rules import WeightedLoss, balanced_weights, given_weights

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


class RowItself:
    """A custom loss whose gradient is the row."""

    def gradient(self, X, y, coef):
        return X


@pytest.fixture(scope="module")
def rare():
    X, y = make_classification(8000, 6, n_informative=4, weights=[0.93], flip_y=0.02, random_state=0)
    return StandardScaler().fit_transform(X), y


def fitted(rare, epsilon, **parameters):
    return UserLevelSGDClassifier(epsilon, classes=[0, 1], random_state=0, **parameters).fit(*rare)


@pytest.mark.parametrize("class_weight", ["balanced", {1: 10.0}, {0: 0.2, 1: 5}], ids=str)
def test_the_limit_is_that_of_logistic_regression(rare, class_weight):
    model = fitted(rare, 1e4, class_weight=class_weight, max_iter=300)
    there = LogisticRegression(class_weight=class_weight).fit(*rare)
    assert np.mean(model.predict(rare[0]) == there.predict(rare[0])) > 0.97


def test_rare_classes_are_found(rare):
    """Without weights hardly anybody is predicted to be of the rare class."""
    plain = balanced_accuracy_score(rare[1], fitted(rare, 1.0).predict(rare[0]))
    weighted = balanced_accuracy_score(rare[1], fitted(rare, 1.0, class_weight="balanced").predict(rare[0]))
    assert weighted > plain + 0.05


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_counts_are_private_and_right(rare, adjacency):
    model = fitted(rare, 1.0, class_weight="balanced", adjacency=adjacency)
    counts = np.bincount(rare[1])
    wanted = counts.sum() / (2 * counts)
    # Noise of about 40 (20) on counts of some hundreds and more: never the exact ones.
    assert model.class_weight_ == pytest.approx(wanted, rel=0.5)
    assert not np.any(model.class_weight_ == wanted)
    assert fitted(rare, 1.0).class_weight_.tolist() == [1.0, 1.0]


def test_users_count_by_the_shares_of_their_rows():
    rng = public_generator(0)
    users = np.repeat(np.arange(3000), 4)
    y = np.where(users < 600, 2, np.arange(12_000) % 4 == 0)  # a fifth of class 2; the others 1 in 4 of class 1
    X = rng.normal(size=(12_000, 2)) + y[:, None]
    for loss in ("log_loss", "smoothed_hinge"):
        model = UserLevelSGDClassifier(
            1e4, classes=[0, 1, 2], class_weight="balanced", loss=loss, max_iter=2, random_state=0
        ).fit(X, y, user_ids=users)
        assert model.class_weight_ == pytest.approx([1000 / 1800, 1000 / 600, 1000 / 600], rel=0.02)


def test_weights_multiply_derivatives_row_by_row():
    rng = public_generator(1)
    f, y = rng.normal(size=(1, 50)), np.sign(rng.normal(size=(1, 50)))
    weights = np.array([0.25, 1.0])
    found = WeightedLoss(LogisticLoss(), weights).derivative(f, y)
    assert np.array_equal(found, LogisticLoss().derivative(f, y) * np.where(y > 0, 1.0, 0.25))
    f, codes = rng.normal(size=(3, 50)), rng.integers(0, 3, size=50)
    weights = np.array([0.5, 1.0, 0.125])
    for y in (np.eye(3)[:, codes], 2 * np.eye(3)[:, codes] - 1):
        found = WeightedLoss(MultinomialLoss(), weights).derivative(f, y)
        assert np.array_equal(found, MultinomialLoss().derivative(f, y) * weights[codes])


def test_counts_below_the_noise_weigh_like_the_noise():
    assert balanced_weights(np.array([90.0, 10.0]), 1.0) == pytest.approx([100 / 180, 5.0])
    assert balanced_weights(np.array([90.0, -300.0]), 30.0) == pytest.approx([120 / 180, 2.0])
    assert balanced_weights(np.array([-5.0, -300.0]), 30.0).tolist() == [1.0, 1.0]
    weights = balanced_weights(np.array([1e6, 0.0]), 1.0)
    assert weights[1] / weights[0] == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({2: 1.0}, "none of the classes"),
        ({1: 0.0}, "positive finite"),
        ({1: np.inf}, "positive finite"),
        ({1: "2"}, "'2'"),
    ],
    ids=str,
)
def test_refusals_spend_nothing(rare, class_weight, message):
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5, simulation=True)
    with pytest.raises(ValueError, match=message):
        fitted(rare, 1.0, class_weight=class_weight, ledger=ledger)
    with pytest.raises(ValueError, match="class_weight needs a loss"):
        fitted(rare, 1.0, class_weight="balanced", loss=RowItself(), ledger=ledger)
    assert len(ledger.entries()) == 0
    assert given_weights({np.str_("b"): 2}, np.array(["a", "b"])).tolist() == [1.0, 2.0]
