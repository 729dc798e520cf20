"""Rates of classes: mean chances released once, with the sensitivity of one user, and intercepts that follow them."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from skprivate import UserLevelSGDClassifier
from skprivate.privacy import Adjacency, GaussianEvent, public_generator
from skprivate.user_level import TooFewUsersWarning
from skprivate.user_level._losses import LogisticLoss, MultinomialLoss
from skprivate.user_level._plan import CLEAR_DEVIATIONS, Terms
from skprivate.user_level._problems import Objective, UserData, UserGroups
from skprivate.user_level.descent._rules import ClassCounts
from skprivate.utils.estimator_checks import replay

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
STEPS = 2**30


def chances(X, users, w, n_outputs):
    loss = LogisticLoss() if n_outputs == 1 else MultinomialLoss()
    y = np.ones(len(X)) if n_outputs == 1 else np.zeros((len(X), n_outputs))
    data = UserData(X, y, UserGroups(users), np.unique(users)).in_order()
    with np.errstate(all="ignore"):  # as in a fit
        return Objective(loss, X.shape[1], n_outputs, True).problem(data).chance_sum(w)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("users", [np.arange(6), np.array([0, 0, 1, 2, 2, 2])], ids=["rows", "users"])
def test_sums_of_chances_are_those_of_the_model(n_outputs, users):
    rng = public_generator(0)
    X, w = rng.normal(size=(6, 2)), rng.normal(size=3 * n_outputs)
    coef = w.reshape(n_outputs, 3)
    scores = X @ coef[:, :-1].T + coef[:, -1]
    each = expit(scores) if n_outputs == 1 else softmax(scores, axis=1)
    means = np.array([each[users == k].mean(axis=0) for k in np.unique(users)])
    assert chances(X, users, w, n_outputs) / STEPS == pytest.approx(means.sum(axis=0), abs=1e-3)


@pytest.mark.parametrize(("n_outputs", "bound"), [(1, 1.0), (3, 2**0.5)])
def test_an_exchanged_user_moves_chances_by_the_sensitivity_at_most_and_nearly_by_it(n_outputs, bound):
    w = np.full(2 * n_outputs, 0.0)
    w[::2] = [40.0, -40.0, 0.0][:n_outputs]
    rows = [-1e300, -3.0, -1.0, 0.0, 1.0, 3.0, 1e300, np.nan]
    sums = [chances(np.array([[0.7], [x]]), np.arange(2), w, n_outputs) for x in rows]
    alone = chances(np.array([[0.7]]), np.arange(1), w, n_outputs)
    moved = [np.linalg.norm((a - b).astype(float)) / STEPS for a in sums for b in sums]
    assert 0.999 * bound < max(moved) <= bound  # so half of it would be wrong
    assert all(((total - alone) >= 0).all() for total in sums)
    assert max(np.linalg.norm((total - alone).astype(float)) for total in sums) <= STEPS


def test_shifts_give_mean_chances_the_rates():
    counts = ClassCounts(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 10**6), 2, signed=True, balanced=False)
    found = counts.shifts(np.array([9e5, 1e5]), np.array([2e5]), 1.0)
    assert found == pytest.approx([logit(0.1) - logit(0.2)], rel=1e-3)
    assert counts.shifts(np.array([9e5, 1e5]), np.array([2e5]), 1e6).tolist() == [0.0]  # noise explains it
    assert counts.shifts(np.array([-5.0, -9.0]), np.array([-3.0]), 10.0).tolist() == [0.0]
    several = counts.shifts(np.array([5e5, 3e5, 2e5]), np.array([6e5, 2e5, 2e5]), 1.0)
    assert several == pytest.approx(np.log([5 / 6, 3 / 2, 1.0]), abs=1e-3)


def test_rates_are_right_and_cost_two_sums():
    rng = public_generator(1)
    X = rng.normal(size=(4000, 5))
    y = (rng.random(4000) < expit(X[:, 0] - 3.0)).astype(int)
    model = UserLevelSGDClassifier(30.0, solver="sgd", classes=[0, 1], random_state=0).fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)
    sizes = [event.size for event, _ in model.privacy_guarantee_.events if isinstance(event, GaussianEvent)]
    assert sizes.count(1) == 1 and 2 in sizes
    assert model.privacy_guarantee_.epsilon <= 30.0
    given = UserLevelSGDClassifier(1.0, classes=[0, 1], radius=2.0, random_state=0).fit(X, y)
    coef = np.append(given.coef_, given.intercept_)
    assert np.linalg.norm(coef) <= 2.0 * (1 + 1e-9)  # a bound of the intercept, too


@pytest.mark.parametrize("n_classes", [2, 3])
def test_replayed_fits_stay_within_sensitivities_that_are_nearly_met(n_classes):
    """Rows at the ends of steep scores, so that a half of the sensitivity would be seen."""
    rng = public_generator(n_classes)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % n_classes

    def fit(rows):
        with pytest.warns():
            model = UserLevelSGDClassifier(20.0, classes=range(n_classes), standardize=False, alpha=0.0, random_state=0)
            return model.fit(rows, y)

    ends = [np.concatenate([100.0 * end[None], X[1:]]) for end in (*np.eye(2), *-np.eye(2))]
    for first in ends:
        report = replay(fit, first, ends)
        assert not report.failures


def _rare_warnings(n_rare, seed, **options):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(3000, 2)), np.where(np.arange(3000) < n_rare, "yes", "no")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        UserLevelSGDClassifier(epsilon=0.5, classes=["no", "yes"], random_state=seed, **options).fit(X, y)
    return [str(each.message) for each in seen if issubclass(each.category, TooFewUsersWarning)]


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"adjacency": "add-remove"}], ids=str)
def test_a_class_that_noise_hides_is_told(options):
    """A count of 0 is above three deviations with chance .0013, one of 1500 below them with less."""
    few, many = ([_rare_warnings(n_rare, seed, **options) for seed in range(10)] for n_rare in (0, 1500))
    assert sum(bool(each) for each in few) >= 9
    assert all("class 'yes' to tell" in message for each in few for message in each)
    assert not any(many)


def test_no_class_is_rare_where_all_count_little():
    """Users of one row have a hundredth of their weight: noise hides every class."""
    assert not any(_rare_warnings(1500, seed, weight_cap=100) for seed in range(3))


def test_classes_are_hidden_by_released_counts_alone():
    counts = ClassCounts(Terms(1.0, 1e-6, Adjacency.REPLACE_ONE, 1000), 3, signed=False, balanced=True)
    edge = CLEAR_DEVIATIONS * counts.noise
    assert counts.hidden(np.array([edge, 7.0 * edge, -0.5 * edge])) == (0, 2)
    assert counts.hidden(np.array([edge, 5.0 * edge, -0.5 * edge])) == (), "noise hides any class"
    assert counts.hidden(np.array([np.nextafter(edge, np.inf), 7.0 * edge, 2.0 * edge])) == ()


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2]])
def test_a_class_that_moments_hide_is_named(labels):
    """Preconditioned steps count no classes; their second moments tell the rates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 3))
    y = np.zeros(60_000, dtype=int)
    for label in labels[:-1]:
        y[label::2] = label
    y[:2] = labels[-1]
    model = UserLevelSGDClassifier(1.0, classes=labels, random_state=0)
    with pytest.warns(TooFewUsersWarning, match=f"too few users have class {labels[-1]} to tell"):
        model.fit(X, y)
    assert model.n_iter_ <= 20, "preconditioned"
