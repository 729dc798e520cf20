"""Random bags: membership, Theorem 2, likelihoods of counts, label privacy."""

import dataclasses
import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skprivate.aggregate import RandomBagClassifier, RandomBagRegressor, RandomBags, make_random_bags
from skprivate.aggregate.random._bags import BagSums, draw_members
from skprivate.aggregate.random._fit import count_likelihood, mean_cross_entropy, noisy_count_likelihood
from skprivate.aggregate.random._quadratic import debiasing, fit_quadratic
from skprivate.privacy import public_generator


@pytest.mark.parametrize(("n", "m", "count"), [(50, 1, 50), (50, 7, 40), (50, 30, 20), (2000, 5, 3000)])
def test_members_are_drawn_without_replacement(n, m, count):
    members, sizes = draw_members(n, m, count, disjoint=False, rng=public_generator(0))
    bags = members.reshape(count, m)
    assert np.all(sizes == m) and bags.min() >= 0 and bags.max() < n
    assert all(np.unique(bag).size == m for bag in bags)
    # Each row is in a bag with probability m/n: a binomial count, 5.5 standard deviations in either direction.
    appearances = np.bincount(members, minlength=n)
    spread = math.sqrt(count * m / n * (1 - m / n)) + 1e-9
    assert np.all(np.abs(appearances - count * m / n) < 6.5 * spread + 3)


def test_disjoint_bags_share_no_row():
    members, _ = draw_members(103, 10, None, disjoint=True, rng=public_generator(0))
    assert members.size == 100 == np.unique(members).size
    with pytest.raises(ValueError, match="need 110 rows"):
        draw_members(103, 10, 11, disjoint=True, rng=public_generator(0))
    with pytest.raises(ValueError, match="bag_size must be between 1 and n_samples=5"):
        draw_members(5, 6, None, disjoint=False, rng=public_generator(0))


# Theorem 2 ---------------------------------------------------------------------------------------------------------


def all_bags(y, m):
    """Every bag of m out of N rows once: expectations over the draw are exact averages."""
    bags = np.array(list(itertools.combinations(range(len(y)), m)))
    structure = BagSums(bags.ravel(), np.full(len(bags), m), len(y))
    return RandomBags(structure.members, structure.sizes, structure.add(y[structure.members])[:, None], len(y))


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_debiased_risk_is_the_individual_risk_up_to_a_factor(m):
    """Lemma 1, exactly: (N − m)/(m(N − 1)) E(h − y)² = E[bag risk] − c (E(h − y))²."""
    rng = np.random.default_rng(m)
    y, h = rng.normal(size=(2, 6))
    N = 6
    bags = all_bags(y, m)
    predicted = bags.structure.add(h[bags.members])[:, None] / m
    residual = predicted - bags.means()
    c = debiasing(m, N)
    debiased = np.mean(residual**2) - c * np.mean(residual) ** 2
    assert debiased == pytest.approx((N - m) / (m * (N - 1)) * np.mean((h - y) ** 2))


@pytest.mark.parametrize("m", [2, 3])
def test_debiased_minimiser_is_least_squares_on_individual_labels(m):
    """Over all bags and without an intercept: the correction is what makes it so."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(loc=1.0, size=(7, 2)), rng.normal(loc=2.0, size=7)
    reference = LinearRegression(fit_intercept=False).fit(X, y).coef_
    bags = all_bags(y, m)
    debiased = fit_quadratic(bags, X, loss="debiased", alpha=0.0, fit_intercept=False).coef[0]
    squared = fit_quadratic(bags, X, loss="squared", alpha=0.0, fit_intercept=False).coef[0]
    np.testing.assert_allclose(debiased, reference, rtol=1e-6)
    assert np.abs(squared - reference).max() > 0.01
    # With an intercept both are least squares: the correction has nothing to do.
    reference = LinearRegression().fit(X, y)
    for loss in ("debiased", "squared"):
        fit = fit_quadratic(bags, X, loss=loss, alpha=0.0, fit_intercept=True)
        np.testing.assert_allclose(fit.coef[0], reference.coef_, rtol=1e-6)
        assert fit.intercept[0] == pytest.approx(reference.intercept_, rel=1e-6)


def test_the_corrected_quadratic_is_never_indefinite():
    rng = np.random.default_rng(0)
    for _ in range(50):
        N, m = 40, int(rng.integers(2, 40))
        assert 0 < debiasing(m, N) < 1
        means = rng.normal(loc=rng.normal(scale=5), size=(30, 3))
        gram = means.T @ means / 30 - debiasing(m, N) * np.outer(means.mean(0), means.mean(0))
        assert np.linalg.eigvalsh(gram)[0] > 0
    assert debiasing(40, 40) == pytest.approx(1.0) and debiasing(1, 40) == 0


def test_bags_of_one_row_are_the_usual_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, -2.0, 0.0, 0.5] + 3 + rng.normal(size=300)
    model = RandomBagRegressor(epsilon=None, bag_size=1, alpha=0.0).fit(X, y)
    reference = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-6)
    assert model.intercept_ == pytest.approx(reference.intercept_)
    assert math.isinf(model.privacy_guarantee_.epsilon)
    classes = (rng.random(300) < expit(X[:, 0])).astype(int)
    model = RandomBagClassifier(epsilon=None, bag_size=1, alpha=2.0).fit(X, classes)
    scale = X.std(axis=0)
    reference = LogisticRegression(C=1 / 2.0, solver="newton-cholesky", tol=1e-10).fit(X / scale, classes)
    np.testing.assert_allclose(model.coef_ * scale, reference.coef_, atol=2e-4)


# Likelihoods -------------------------------------------------------------------------------------------------------


def random_bags(rng, sizes):
    sizes = np.array(sizes)
    n = 30
    members = np.concatenate([rng.permutation(n)[:m] for m in sizes])
    return BagSums(members, sizes, n)


def brute_force(p, c):
    """P(Σy = c) by adding up all outcomes."""
    return sum(
        np.prod(np.where(outcome, p, 1 - p))
        for outcome in itertools.product([0, 1], repeat=len(p))
        if sum(outcome) == c
    )


def test_count_likelihood_adds_up_all_outcomes():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, [1, 1, 3, 5, 7, 7, 2])
    scores = rng.normal(size=bags.members.size)
    counts = np.array([0, 1, 2, 5, 0, 4, 1])
    values, _ = count_likelihood(bags, scores, counts)
    parts = np.split(expit(scores), np.cumsum(bags.sizes)[:-1])
    expected = [-math.log(brute_force(p, c)) for p, c in zip(parts, counts, strict=True)]
    np.testing.assert_allclose(values, expected)


@pytest.mark.parametrize("kind", ["mean", "bit", "count", "noisy"])
def test_gradients_of_the_likelihoods(kind):
    rng = np.random.default_rng(1)
    bags = random_bags(rng, [1, 4, 6, 6, 3])
    scores = rng.normal(size=bags.members.size)
    counts = np.array([1.0, 2.0, 0.0, 6.0, 1.0])

    def evaluate(s):
        if kind == "mean":
            return mean_cross_entropy(bags, s, counts, bags.sizes.astype(float))
        if kind == "bit":
            return mean_cross_entropy(bags, s, (counts > 1).astype(float), np.ones(5))
        if kind == "count":
            return count_likelihood(bags, s, counts)
        return noisy_count_likelihood(bags, s, counts + 0.3, 2.0)

    _, gradient = evaluate(scores)
    numeric = [
        np.sum(evaluate(scores + step)[0] - evaluate(scores - step)[0]) / 2e-5 for step in 1e-5 * np.eye(scores.size)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)


def test_exact_likelihood_survives_hopeless_scores():
    bags = BagSums(np.arange(64), np.array([64]), 64)
    values, gradient = count_likelihood(bags, np.full(64, -800.0), np.array([64.0]))
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient))


# Models ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    score = X @ [1.5, -1.0, 0.5, 0.0, 0.0] - 0.5
    return X, (rng.random(6000) < expit(score)).astype(int), score


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("release", ["mean", "bernoulli", "laplace"])
@pytest.mark.parametrize("m", [1, 4, 80])
def test_the_classifier_recovers_the_direction(classes, release, m):
    X, y, score = classes
    model = RandomBagClassifier(
        epsilon=2.0 if release == "laplace" else None,
        bag_size=m,
        n_bags=None if release != "bernoulli" else 6000,
        disjoint=release != "bernoulli",
        label_release=release,
        random_state=0,
    ).fit(X, y)
    assert np.corrcoef(model.decision_function(X), score)[0, 1] > (0.8 if release == "bernoulli" else 0.9)
    assert model.privacy_guarantee_.epsilon == (2.0 if release == "laplace" else math.inf)


@pytest.mark.slow
def test_the_default_likelihood_is_no_worse_than_the_usual_ones(classes):
    X, y, score = classes
    for m in (8, 40):
        errors = {}
        for loss in ("likelihood", "log", "debiased"):
            errors[loss] = np.mean(
                [
                    np.mean(
                        np.abs(
                            RandomBagClassifier(epsilon=None, bag_size=m, loss=loss, random_state=s)
                            .fit(X, y)
                            .predict_proba(X)[:, 1]
                            - expit(score)
                        )
                    )
                    for s in range(4)
                ]
            )
        assert errors["likelihood"] <= 1.05 * min(errors.values())


@pytest.mark.slow
def test_multiclass_and_multilabel(classes):
    X, _, _ = classes
    labels = np.array(["low", "mid", "top"])[np.digitize(X[:, 0], [-0.5, 0.7])]
    model = RandomBagClassifier(epsilon=None, bag_size=2, random_state=0).fit(X, labels)
    assert set(model.predict(X)) <= {"low", "mid", "top"} and model.score(X, labels) > 0.6
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    many = np.column_stack([X[:, 0] > 0, X[:, 1] > 1, X[:, 2] < 0]).astype(int)
    model = RandomBagClassifier(epsilon=4.0, bag_size=2, random_state=0).fit(X, many)
    assert model.predict(X).shape == many.shape and np.mean(model.predict(X) == many) > 0.85


def test_it_composes_with_transformers(classes):
    X, _, _ = classes
    y = (np.abs(X[:, 0]) > 0.7).astype(int)
    plain = RandomBagClassifier(epsilon=None, bag_size=4, buckets=False, random_state=0)
    splines = make_pipeline(SplineTransformer(), plain)
    assert splines.fit(X, y).score(X, y) > 0.9 > 0.7 > plain.fit(X, y).score(X, y)


@pytest.mark.slow
def test_learning_needs_the_aggregates_alone(classes, tmp_path):
    X, y, _ = classes
    bags = make_random_bags(X, y, 5, epsilon=3.0, random_state=0)
    assert bags.structure.appearances() > 1
    (tmp_path / "bags.json").write_text(json.dumps(bags.to_dict()))
    np.save(tmp_path / "X.npy", X)
    script = (
        "import json, sys, numpy as np\n"
        "from skprivate import RandomBagClassifier\n"
        "X = np.load(sys.argv[1] + '/X.npy')\n"
        "model = RandomBagClassifier().fit_bags(X, json.load(open(sys.argv[1] + '/bags.json')))\n"
        "print(json.dumps(model.coef_.tolist()))\n"
    )
    result = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    here = RandomBagClassifier().fit_bags(X, bags)
    np.testing.assert_allclose(json.loads(result.stdout), here.coef_, rtol=1e-9)
    assert here.privacy_guarantee_.epsilon == pytest.approx(3.0)


# Label privacy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disjoint", [True, False])
def test_noise_covers_the_largest_number_of_bags_of_a_row(disjoint):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    arguments = {"bag_size": 10, "n_bags": 20, "disjoint": disjoint, "random_state": 5}
    exact = make_random_bags(y, y, **arguments)
    noisy = make_random_bags(y, y, epsilon=1.0, **arguments)
    np.testing.assert_array_equal(exact.members, noisy.members)
    worst = 0
    for row in range(200):
        changed = y.copy()
        changed[row] ^= 1
        moved = np.abs(make_random_bags(y, changed, **arguments).label_sums - exact.label_sums).sum()
        worst = max(worst, moved)
    appearances = exact.structure.appearances()
    assert worst == appearances and (appearances == 1) == disjoint
    q = math.exp(-1.0 / appearances)
    assert noisy.noise_variance == pytest.approx(2 * q / (1 - q) ** 2)
    residuals = np.concatenate(
        [
            (
                make_random_bags(y, y, epsilon=1.0, **{**arguments, "random_state": s}).label_sums
                - make_random_bags(y, y, **{**arguments, "random_state": s}).label_sums
            ).ravel()
            / math.sqrt(make_random_bags(y, y, epsilon=1.0, **{**arguments, "random_state": s}).noise_variance)
            for s in range(60)
        ]
    )
    # Discrete Laplace noise has kurtosis up to 6: 5.2 deviations, failing with probability below 1e-6.
    spread = 5.2 * math.sqrt(5.2 / residuals.size)
    assert abs(np.mean(residuals**2) - 1) < spread < abs(np.mean((residuals / 2) ** 2) - 1)


def test_membership_does_not_depend_on_labels():
    rows = np.zeros((100, 1))
    one = make_random_bags(rows, np.zeros(100), 5, random_state=0)
    other = make_random_bags(rows, np.ones(100), 5, random_state=0)
    np.testing.assert_array_equal(one.members, other.members)


def test_bags_without_classes_are_refused_and_not_read_as_unnamed():
    X = np.arange(40.0)[:, np.newaxis]
    bags = make_random_bags(X, np.arange(40) % 2, bag_size=4, random_state=0)
    for classes in ((), (0, 1, 2)):
        with pytest.raises(ValueError, match=f"bags name {len(classes)} classes but their label sums have 1 columns"):
            RandomBagClassifier().fit_bags(X, dataclasses.replace(bags, classes=classes))
