"""Random bags: membership, Theorem 2, likelihoods of counts, label privacy."""

import itertools
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skprivate.aggregate import (
    RandomBagClassifier,
    RandomBagRegressor,
    RandomBags,
    make_random_bags,
)
from skprivate.aggregate.random._bags import BagSums, draw_members
from skprivate.aggregate.random._fit import (
    _Problem,
    count_likelihood,
    mean_cross_entropy,
    noisy_count_likelihood,
)
from skprivate.aggregate.random._quadratic import debiasing, fit_quadratic
from skprivate.aggregate.theory import empirical_rademacher, excess_risk_bound
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
    return RandomBags(
        structure.members, structure.sizes, structure.add(y[structure.members])[:, None], len(y)
    )


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
        np.sum(evaluate(scores + step)[0] - evaluate(scores - step)[0]) / 2e-5
        for step in 1e-5 * np.eye(scores.size)
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
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
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
            / math.sqrt(
                make_random_bags(y, y, epsilon=1.0, **{**arguments, "random_state": s}).noise_variance
            )
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


# The bound ---------------------------------------------------------------------------------------------------------


def test_excess_risk_bound():
    shared = {"n_samples": 1000, "n_bags": 500, "rademacher_bags": 0.02, "rademacher_samples": 0.01}
    # m = 1 by hand: the first term vanishes.
    delta = 0.05 / 4
    by_hand = 2 * (4 * math.sqrt(2) * 0.01 + math.sqrt(math.log(2 / delta) / 2000)) + 2 * (
        4 * math.sqrt(2) * 0.02 + math.sqrt(math.log(2 / delta) / 1000)
    )
    assert excess_risk_bound(bag_size=1, **shared) == pytest.approx(by_hand)
    values = [excess_risk_bound(bag_size=m, **shared) for m in (1, 2, 10, 100, 900)]
    assert values == sorted(values)
    with pytest.warns(UserWarning, match="nearly all rows"):
        assert excess_risk_bound(bag_size=999, **shared) > 100 * values[-1]
    assert excess_risk_bound(bag_size=1000, **shared) == math.inf
    for bad, message in [
        ({"bag_size": 0}, "bag_size"),
        ({"bag_size": 1, "beta": 1.0}, "beta"),
        ({"bag_size": 1, "n_outputs": 0}, "n_outputs"),
    ]:
        with pytest.raises(ValueError, match=message):
            excess_risk_bound(**{**shared, **bad})


def test_empirical_rademacher_of_constant_rows():
    # E|Σσᵢ|/n of n signs is about √(2/(πn)).
    found = empirical_rademacher(np.ones((50, 1)), 400, 3.0, n_draws=4000)
    assert found == pytest.approx(3 * math.sqrt(2 / (math.pi * 400)), rel=0.1)


def test_the_models_know_their_bound(classes):
    X, y, _ = classes
    small, large = (
        RandomBagClassifier(epsilon=None, bag_size=m, random_state=0).fit(X, y).excess_risk_bound(X)
        for m in (2, 50)
    )
    assert 0 < small < large < math.inf


# Errors ------------------------------------------------------------------------------------------------------------


def test_errors(classes):
    X, y, _ = classes
    with pytest.raises(ValueError, match="adds no noise and keeps no budget"):
        RandomBagClassifier(label_release="mean").fit(X, y)
    with pytest.raises(ValueError, match="needs a number for epsilon"):
        RandomBagClassifier(epsilon=None, label_release="laplace").fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept=False is for the squared losses"):
        RandomBagClassifier(fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        RandomBagClassifier().fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="is for labels in"):
        RandomBagRegressor(epsilon=None, label_release="bernoulli").fit(X, 5.0 * y)
    with pytest.raises(ValueError, match="0 and 1 only"):
        make_random_bags(X, 2 * y, 4)
    with pytest.raises(ValueError, match="NaN"):
        make_random_bags(X, np.where(y, np.nan, 0.0), 4)
    with pytest.raises(ValueError, match="one row per row of X"):
        make_random_bags(X, y[:-1], 4)
    bags = make_random_bags(X, y, 4, random_state=0)
    with pytest.raises(ValueError, match="drawn from 6000 rows, X has 10"):
        RandomBagClassifier().fit_bags(X[:10], bags)
    plain = bags.to_dict()
    plain["members"][0] = [0, 1, 2, 6000]
    with pytest.raises(ValueError, match="rows between 0 and 5999"):
        RandomBagClassifier().fit_bags(X, plain)
    plain = bags.to_dict()
    plain["label_sums"] = plain["label_sums"][:-1]
    with pytest.raises(ValueError, match="label_sums must have shape"):
        RandomBagClassifier().fit_bags(X, plain)
    three = RandomBagClassifier(epsilon=None, bag_size=2, random_state=0).fit(X, np.arange(6000) % 3).bags_
    with pytest.raises(ValueError, match="use RandomBagClassifier"):
        RandomBagRegressor().fit_bags(X, three)


def test_an_ill_conditioned_system_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    X = np.column_stack([X, X[:, 0]])
    model = RandomBagRegressor(epsilon=None, bag_size=5, alpha=1.0, random_state=0).fit(X, X[:, 1])
    assert model.condition_number_ < 1e4
    free = RandomBagRegressor(epsilon=None, bag_size=5, alpha=0.0, random_state=0).fit(X, X[:, 1])
    assert free.condition_number_ > 1e8 and np.all(np.isfinite(free.coef_))


# Features by evidence -----------------------------------------------------------------------------------------------


def contrast_evidence(bags, X, alpha):
    """Logarithm of the density of all contrasts of bag means, N(0, σ²(I + ΦΦᵀ/α)), at the likeliest allowed σ²."""
    n = bags.n_bags
    contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    Z, means = contrasts.T @ bags.means()[:, 0], contrasts.T @ bags.structure.means(X)
    shape = np.eye(n - 1) + means @ means.T / alpha
    squares = float(Z @ np.linalg.solve(shape, Z))
    scale = max(squares / (n - 1), bags.noise_variance / 25)
    return -0.5 * ((n - 1) * math.log(scale) + float(np.linalg.slogdet(shape)[1]) + squares / scale)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_evidence_of_least_squares_is_the_marginal_likelihood(noise):
    """Of bag means about their own mean, which is one number less than there are bags."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    bags = make_random_bags(X, y + X[:, 0], 5, disjoint=True, numbers=True, random_state=0)
    bags = replace(bags, noise_variance=25 * noise)
    found, expected = [], []
    for columns in ([0], [0, 1], [1, 2, 3], [0, 1, 2, 3]):
        fit = fit_quadratic(bags, X[:, columns], loss="squared", alpha=0.7, fit_intercept=True)
        found.append(fit.evidence)
        expected.append(contrast_evidence(bags, X[:, columns], 0.7))
    np.testing.assert_allclose(np.array(found) - found[0], np.array(expected) - expected[0], atol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.15, 1.0])
@pytest.mark.parametrize("n_features", [3, 20, 80])
def test_the_penalty_maximises_the_evidence(n_features, noise):
    """With more features than bags too, which were interpolated, and where noise is known."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, n_features))
        y = X @ rng.normal(size=n_features) / math.sqrt(n_features) + rng.normal(size=100)
        bags = make_random_bags(X, y, 5, disjoint=True, numbers=True, random_state=seed)
        bags = replace(bags, noise_variance=25 * noise)
        fit = fit_quadratic(bags, X, loss="squared", alpha=None, fit_intercept=True)
        found = contrast_evidence(bags, X, fit.alpha[0])
        near = [contrast_evidence(bags, X, fit.alpha[0] * ratio) for ratio in np.geomspace(0.3, 3.0, 9)]
        assert fit.evidence == pytest.approx(found, abs=1e-3)
        assert found >= max(near) - 0.01


def test_few_bags_are_not_interpolated_by_buckets():
    """20 bags of diabetes patients: all means were explained by 170 indicators, which R² lost 0.13 by."""
    X, y = load_diabetes(return_X_y=True)
    lost = []
    for seed in range(6):
        train, test = np.split(np.random.default_rng(seed).permutation(442), [331])
        both = [
            RandomBagRegressor(epsilon=None, bag_size=16, random_state=seed, **given).fit(X[train], y[train])
            for given in ({}, {"buckets": False, "prior": "ridge"})
        ]
        lost.append(both[1].score(X[test], y[test]) - both[0].score(X[test], y[test]))
    assert np.mean(lost) < 0.05


@pytest.mark.slow
def test_evidence_takes_buckets_where_they_serve_and_leaves_them_elsewhere():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4000, 3))
        for score, bent in ((2.0 * X[:, 0], False), (4.0 * (np.abs(X[:, 0]) > 0.7) - 2.0, True)):
            y = (rng.random(4000) < expit(score)).astype(int)
            model = RandomBagClassifier(epsilon=None, bag_size=4, random_state=seed).fit(X, y)
            assert any(edges.size for edges in model.bucket_edges_) == bent
            model = RandomBagRegressor(epsilon=None, bag_size=4, random_state=seed).fit(X, score)
            assert any(edges.size for edges in model.bucket_edges_) == bent


@pytest.mark.parametrize("prior", ["ridge", "spread"])
@pytest.mark.parametrize("buckets", [True, False])
def test_features_are_those_of_a_linear_model_on_columns_and_indicators(prior, buckets):
    """Scores by hand, of rows beyond the training range too, and the penalty that a fit has at its optimum."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(900, 2)), rng.integers(0, 2, 900), np.full(900, 3.0)])
    y = X[:, 0] - (X[:, 1] > 0) + 0.1 * rng.normal(size=900)
    model = RandomBagRegressor(
        epsilon=None, bag_size=3, alpha=0.5, buckets=buckets, prior=prior, random_state=0
    )
    model.fit(X, y)
    assert [edges.size > 0 for edges in model.bucket_edges_] == [buckets, buckets, False, False]
    new = 3.0 * rng.normal(size=(50, 4))
    score = model.intercept_ + new @ model.coef_
    for column, edges, coef in zip(new.T, model.bucket_edges_, model.bucket_coef_, strict=True):
        if edges.size:
            score += coef[0][np.digitize(column, edges)]
    np.testing.assert_allclose(model.predict(new), score, rtol=1e-10)
    if not buckets:
        scaled = (X - X.mean(axis=0)) / np.array([X[:, 0].std(), X[:, 1].std(), 1.0, 1.0])
        means = model.bags_.structure.means(scaled)
        means, labels = means - means.mean(axis=0), model.bags_.means()[:, 0] - model.bags_.means().mean()
        values, vectors = np.linalg.eigh(scaled.T @ scaled / 900)
        power = 0.0 if prior == "ridge" else 0.5
        covariance = (vectors[:, 1:] * values[1:] ** power) @ vectors[:, 1:].T
        expected = (
            covariance @ means.T @ np.linalg.solve(means @ covariance @ means.T + 0.5 * np.eye(300), labels)
        )
        np.testing.assert_allclose(model.coef_[:2], expected[:2] / scaled_by(X), rtol=1e-6)


def scaled_by(X):
    return X[:, :2].std(axis=0)


def test_next_to_no_noise_is_no_noise():
    """A normal density of variance 1e-300 has peaks wherever a count is whole: rare classes got probability 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < 0.02).astype(int)
    free, paid = (
        RandomBagClassifier(epsilon=epsilon, bag_size=20, classes=[0, 1], random_state=0).fit(X, y)
        for epsilon in (None, 800.0)
    )
    np.testing.assert_allclose(paid.decision_function(X), free.decision_function(X), atol=0.05)


def test_the_interval_of_labels_travels_with_bags():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    model = RandomBagRegressor(epsilon=5.0, random_state=0).fit(X, 40.0 + X[:, 0])
    low, high = model.bags_.label_bounds
    assert 16 <= low < 40 < high <= 128
    far = model.predict(1e6 * X[:50])
    assert far.min() == low and far.max() == high
    again = RandomBags.from_dict(json.loads(json.dumps(model.bags_.to_dict())))
    assert again.label_bounds == (low, high)
    np.testing.assert_array_equal(RandomBagRegressor().fit_bags(X, again).coef_, model.coef_)


# EasyLLP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 4])
def test_estimates_of_labels_have_the_labels_mean(m):
    """Over all bags that a row is in: (N − m)/(N − 1) y + (m − 1)/(N − 1) ȳ, which tends to the label y."""
    y = np.array([1.0, 0, 0, 1, 0, 0, 0])
    bags = all_bags(y, m)
    problem = _Problem(bags, bags.structure, np.ones((7, 1)), 0, "easyllp", True)
    labels = problem.labels[bags.structure.bag_of_member]
    seen = np.bincount(bags.members)
    found = np.bincount(bags.members, labels) / seen
    np.testing.assert_allclose(found, (7 - m) / 6 * y + (m - 1) / 6 * y.mean())


def test_easyllp_of_single_rows_is_logistic_regression(classes):
    X, y, score = classes
    model = RandomBagClassifier(epsilon=None, bag_size=1, alpha=2.0, loss="easyllp").fit(X, y)
    scale = X.std(axis=0)
    reference = LogisticRegression(C=1 / 2.0, solver="newton-cholesky", tol=1e-10).fit(X / scale, y)
    np.testing.assert_allclose(model.coef_ * scale, reference.coef_, atol=2e-4)
    model = RandomBagClassifier(epsilon=2.0, bag_size=4, loss="easyllp", random_state=0).fit(X, y)
    assert np.corrcoef(model.decision_function(X), score)[0, 1] > 0.9
