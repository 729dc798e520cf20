"""Guesses of labels whose law is known: the bound is valid, tight for randomised response, and finds half the noise."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from skprivate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, RandomBagRegressor
from skprivate.audit import audit_labels, epsilon_lower_bound
from skprivate.audit.claims._label_bound import (
    _sum_of_coins,
    allowed_accuracy,
    label_epsilon_bound,
    label_p_value,
    reconstruction_limit,
)
from skprivate.audit.claims._label_evidence import _from_predictions, _from_probabilities
from skprivate.privacy import PrivacyGuarantee
from skprivate.utils.estimator_checks import half_noise


class Flipped(BaseEstimator):
    """Randomised response among all classes, with the noise of another ε than it says."""

    def __init__(self, epsilon=1.0, true_epsilon=None, random_state=None):
        self.epsilon, self.true_epsilon, self.random_state = epsilon, true_epsilon, random_state

    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state)
        self.classes_, code = np.unique(y, return_inverse=True)
        k = self.classes_.size
        grown = np.exp(self.epsilon if self.true_epsilon is None else self.true_epsilon)
        keep = rng.random(len(code)) < (grown - 1) / (grown + k - 1)
        self.bits_ = np.where(keep, code, rng.integers(0, k, len(code)))
        return self

    @staticmethod
    def evidence(fitted, X, labels):
        return (np.arange(labels.law.shape[1]) == fitted.bits_[:, None]) * fitted.epsilon


# -- mathematics --------------------


def test_sum_of_coins_against_all_outcomes():
    p = np.random.default_rng(0).random(7)
    law = np.zeros(8)
    for outcome in itertools.product([0, 1], repeat=7):
        law[sum(outcome)] += np.prod(np.where(outcome, p, 1 - p))
    assert _sum_of_coins(p) == pytest.approx(law, abs=1e-13)
    assert _sum_of_coins(np.full(1000, 0.3)) == pytest.approx(
        binom.pmf(np.arange(1001), 1000, 0.3), abs=1e-12
    )
    mixed = np.where(np.arange(1000) < 999, 0.3, 0.3000001)
    right = np.arange(1000) < 340
    assert label_p_value(right, mixed) == pytest.approx(binom.sf(339, 1000, 0.3), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_limits_of_reconstruction_solve_the_linear_program(epsilon):
    rng = np.random.default_rng(1)
    for k in (2, 3, 5):
        law = rng.dirichlet(np.ones(k), size=4)
        for q, found in zip(law, reconstruction_limit(epsilon, 0.0, law), strict=True):
            matrix = np.full((k, k), np.exp(-epsilon))
            np.fill_diagonal(matrix, 1.0)
            best = -linprog(-q, A_ub=matrix, b_ub=np.ones(k), bounds=(0, 1)).fun
            assert found == pytest.approx(best, abs=1e-9)
    fair = np.full((1, 2), 0.5)
    assert reconstruction_limit(epsilon, 0.0, fair)[0] == pytest.approx(1 / (1 + np.exp(-epsilon)))
    assert reconstruction_limit(epsilon, 0.01, fair)[0] == pytest.approx(1 / (1 + np.exp(-epsilon)) + 0.01)


def test_slack_of_the_law_covers_every_law_within_it():
    rng = np.random.default_rng(2)
    for _ in range(300):
        q, gamma, epsilon = rng.dirichlet(np.ones(3)), rng.random(), 2 * rng.random()
        p = q * np.exp(rng.uniform(-gamma, gamma, 3))
        p /= p.sum()
        if np.abs(np.log(p / q)).max() > gamma:
            continue
        exact = np.exp(epsilon) * p / (1 + (np.exp(epsilon) - 1) * p)
        assert (allowed_accuracy(epsilon, q, gamma) >= exact - 1e-12).all()
        pair = p[0] * q[1] / (p[0] * q[1] + p[1] * q[0])  # the first of an unordered pair is the true one
        assert pair <= 1 / (1 + np.exp(-2 * gamma)) + 1e-12


# -- validity --------------------


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_false_alarms_in_many_null_runs(delta):
    """The best adversary against a mechanism that uses its ε up: right guesses are coins of the allowed bias.

    Where δ is spent, every label is given away with probability δ.
    """
    rng = np.random.default_rng(3)
    runs, alarms, epsilon = 400, 0, 1.0
    for run in range(runs):
        prior = np.full(200, 0.5) if run % 2 else rng.uniform(0.05, 0.9, 200)
        right = rng.random(200) < allowed_accuracy(epsilon, prior)
        right |= rng.random(200) < delta
        bound = label_epsilon_bound(right, prior, delta=delta, confidence=0.9, claim=epsilon)
        alarms += bound >= epsilon
    assert alarms <= binom.ppf(1 - 1e-6, runs, 0.1)
    assert alarms > 0


@pytest.mark.slow
def test_audits_of_sound_releases_raise_no_more_alarms_than_stated():
    alarms, X = 0, np.zeros((60, 1))
    for seed in range(300):
        audit = audit_labels(
            Flipped(),
            X,
            values=["a", "b", "c"],
            evidence=Flipped.evidence,
            simulate=True,
            confidence=0.8,
            random_state=seed,
        )
        alarms += audit.violated
    assert alarms <= binom.ppf(1 - 1e-6, 300, 0.2)


def test_the_law_without_a_release_is_no_evidence():
    """Labels that are easy to guess anyway, and a model that knows the law: no advantage, no ε."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 2))
    p = 1 / (1 + np.exp(-3 * X[:, 0]))
    law = np.column_stack([1 - p, p])
    y = (rng.random(3000) < p).astype(int)
    other = (rng.random(3000) < p).astype(int)
    model = LogisticRegression().fit(X, other)  # learned from other people's labels
    audit = audit_labels(model, X, y, law=law, epsilon=0.0)
    assert audit.epsilon_lower_bound == 0.0 and not audit.violated and audit.design == "observed"
    assert audit.accuracy > 0.8 and abs(audit.reconstruction_advantage) < 0.02
    # with a law that knows less than the model the audit would accuse it; a stated slack forgives
    uniform = np.full((3000, 2), 0.5)
    assert audit_labels(model, X, y, law=uniform, epsilon=0.0).violated
    assert not audit_labels(model, X, y, law=uniform, law_error=4.0, epsilon=0.0).violated


# -- power --------------------


@pytest.mark.parametrize(
    "epsilon", [0.5, *(pytest.param(each, marks=pytest.mark.slow) for each in (1.0, 4.0))]
)
@pytest.mark.parametrize(
    ("make", "values"),
    [(RandomBagClassifier, [0, 1]), (RandomBagClassifier, ["a", "b", "c"]), (RandomBagRegressor, [0.0, 1.0])],
)
def test_half_the_noise_is_caught_in_one_fit(make, values, epsilon):
    X = np.random.default_rng(5).normal(size=(8000, 3))
    bounds = {"label_bounds": (0, 1)} if make is RandomBagRegressor else {}
    model = make(epsilon=epsilon, bag_size=4, **bounds)
    sound = audit_labels(model, X, values=values, simulate=True, random_state=0, confidence=0.999)
    with half_noise():
        broken = audit_labels(model, X, values=values, simulate=True, random_state=0, confidence=0.999)
    assert not sound.violated and sound.n_guesses == 2000
    assert sound.epsilon_lower_bound > 0.2 * epsilon
    assert broken.violated and broken.accuracy > sound.accuracy
    assert "VIOLATED" in str(broken) and "not refuted" in str(sound)


@pytest.mark.parametrize("kind", ["classes", "numbers", "shared bags"])
def test_sums_of_curated_bags_are_evidence(kind):
    """A bag to each row, twice, or bags of two rows: the sums say more than the additive model fitted to them."""
    rows = np.arange(1500)
    rows = rows // 2 if kind == "shared bags" else rows
    X = np.tile(rows[:, None], 2).astype(str)
    options = {
        "delta": 0.0,
        "feature_sets": "singles",
        "categorical_features": "all",
        "min_size": 1,
        "penalty": 1.0,
    }
    if kind == "numbers":
        model = CuratedBagGAMRegressor(epsilon=2.0, label_bounds=(-3.0, 5.0), **options)
    else:
        model = CuratedBagGAMClassifier(epsilon=2.0, classes=["a", "b"], **options)
    values = [-3.0, 5.0] if kind == "numbers" else ["a", "b"]
    given = {"values": values, "simulate": True, "random_state": 0, "n_fits": 3, "confidence": 0.999}
    if kind == "shared bags":
        given["targets"] = np.arange(1500) % 2 == 0
    sound = audit_labels(model, X, **given)
    assert not sound.violated and sound.epsilon_lower_bound > (0.8 if kind == "numbers" else 1.2)
    with half_noise():
        assert audit_labels(model, X, **given).violated
    if kind != "classes":
        by_model = {**given, "evidence": _from_probabilities if kind == "shared bags" else _from_predictions}
        assert sound.epsilon_lower_bound > audit_labels(model, X, **by_model).epsilon_lower_bound + 0.1


def test_bound_reaches_randomised_response():
    audit = audit_labels(
        Flipped(),
        np.zeros((20_000, 1)),
        values=[0, 1],
        evidence=Flipped.evidence,
        simulate=True,
        random_state=0,
    )
    assert 0.9 < audit.epsilon_lower_bound <= 1.0
    assert audit.accuracy == pytest.approx(audit.allowed_accuracy, abs=0.015)
    broken = Flipped(true_epsilon=2.0)
    assert audit_labels(
        broken, np.zeros((500, 1)), values=[0, 1], evidence=Flipped.evidence, simulate=True, random_state=0
    ).violated


def test_counterfactuals_of_numbers():
    """A release that gives the labels away, audited by pairs of true and drawn labels; one that tells nothing."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 1))
    y = X[:, 0] + rng.normal(size=400)

    class Copy:
        epsilon = 1.0

        def __init__(self, told):
            self.told = told

        def predict(self, X):
            return self.told

    def law(generator):
        return X[:, 0] + generator.normal(size=400)

    told = audit_labels(Copy(y), X, y, law=law, random_state=0)
    assert told.violated and told.accuracy > 0.95
    told_nothing = audit_labels(Copy(X[:, 0]), X, y, law=law, random_state=0)
    assert told_nothing.epsilon_lower_bound == 0.0
    slack = audit_labels(Copy(y), X, y, law=law, law_error=0.2, random_state=0)
    assert slack.epsilon_lower_bound == pytest.approx(told.epsilon_lower_bound - 0.4)


def test_direct_guesses_beat_pairs():
    """Half of the pairs of a fair bit are equal and say nothing: the direct test keeps them."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 2000)
    fitted = Flipped(random_state=0).fit(np.zeros((2000, 1)), y)
    direct = audit_labels(
        fitted, np.zeros((2000, 1)), y, law=np.full((2000, 2), 0.5), evidence=Flipped.evidence
    ).epsilon_lower_bound
    other = rng.integers(0, 2, 2000)
    first, differ = rng.random(2000) < 0.5, y != other
    shown = np.where(first, y, other)
    scores = np.where(shown == fitted.bits_, 1.0, -1.0)
    by_pairs = epsilon_lower_bound(
        scores[differ], first[differ], method="one-run", n_guesses=int(differ.sum())
    )
    assert direct > by_pairs > 0.5


# -- the claim and bad input --------------------


def test_claims_in_other_units():
    X, y, law = np.zeros((40, 1)), np.arange(40) % 2, np.full((40, 2), 0.5)
    for unit, adjacency, expected in (("label", "replace-one", 1.0), ("row", "add-remove", 2.0)):
        release = Flipped(random_state=0).fit(X, y)
        release.privacy_guarantee_ = PrivacyGuarantee(1.0, 0.0, unit, adjacency)
        assert audit_labels(release, X, y, law=law, evidence=Flipped.evidence).claimed_epsilon == expected
    release.privacy_guarantee_ = PrivacyGuarantee(1.0, 0.0, "row", "metric", metric="euclidean")
    with pytest.raises(ValueError, match="by distance"):
        audit_labels(release, X, y, law=law, evidence=Flipped.evidence)
    assert (
        audit_labels(release, X, y, law=law, evidence=Flipped.evidence, epsilon=3.0, delta=1e-6).claimed_delta
        == 1e-6
    )


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"y": [0, 1] * 20}, "law must be given with y"),
        ({"values": None}, "values must be given"),
        ({"law_error": 0.5}, "law_error is for given labels"),
        ({"law": np.full((40, 3), 1 / 3)}, r"law must be probabilities of shape \(40, 2\)"),
        ({"law": np.full((40, 2), 0.4)}, "these are none"),
        ({"law": lambda rng: None}, "law must be a table"),
        ({"law": np.tile([0.0, 1.0], (40, 1))}, "no label to guess"),
        ({"n_fits": 0}, "n_fits must be an integer >= 1"),
        ({"targets": np.zeros(40, dtype=bool)}, "targets must be booleans"),
        ({"confidence": 1.0}, "confidence must be a number in"),
        ({"values": [0, 0]}, "values must be two or more distinct labels"),
        ({"evidence": lambda release, X, labels: np.zeros(40)}, "evidence must be numbers of shape"),
        ({"y": [0, 1] * 19, "law": np.full((40, 2), 0.5)}, "one label for each of the 40 rows"),
        ({"y": [0, 2] * 20, "law": np.full((40, 2), 0.5)}, "values must hold every label"),
        ({"y": [0, 1] * 20, "law": np.tile([0.0, 1.0], (40, 1))}, "positive probability"),
        ({"y": [0, 1] * 20, "law": np.full((40, 2), 0.5), "n_fits": 2}, "n_fits must be 1 with y"),
    ],
)
def test_bad_input_is_refused(keywords, message):
    X, y = np.zeros((40, 1)), np.arange(40) % 2
    release = Flipped(random_state=0)
    if "y" in keywords:
        release.fit(X, y)
    given = {"values": [0, 1], "evidence": Flipped.evidence, **keywords}
    with pytest.raises(ValueError, match=message):
        audit_labels(release, X, **given)
