"""Curated bags: what is reported, to whom, and with what noise."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2

from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, CuratedBags, make_curated_bags
from skprivate.aggregate.tables._labels import LabelNoise, LabelSensitivity, plan_label_noise
from skprivate.privacy import BudgetExceededError, PrivacyLedger, compose_epsilon, open_release

# Ten rows a cell in every pair: every count is known by heart.
X = np.array([[a, b] for a in range(3) for b in range(2)] * 10)
Y = (X[:, 0] + X[:, 1] > 1).astype(int)


def released_sums(bags):
    return np.concatenate([table.label_sums for table in bags.tables])


def test_bags_are_counts_and_label_sums_per_value():
    bags = make_curated_bags(X, Y, [(0,), (0, 1)], categorical_features="all")
    single, pair = bags.tables
    np.testing.assert_array_equal(single.counts, [20, 20, 20])
    np.testing.assert_array_equal(single.label_sums.ravel(), [0, 10, 20])
    assert bags.readable_keys(pair) == [(str(a), str(b)) for a in range(3) for b in range(2)]
    np.testing.assert_array_equal(pair.label_sums.ravel(), [0, 0, 0, 10, 10, 10])
    assert math.isinf(bags.guarantee.epsilon) and "no privacy for a label" in str(bags.guarantee)


def test_every_table_adds_up_to_the_total_with_rare_bags_merged():
    rng = np.random.default_rng(0)
    skewed = rng.geometric(0.3, size=(500, 3))
    y = rng.integers(0, 3, 500)
    bags = make_curated_bags(skewed, y, "pairs", min_size=25, categorical_features="all")
    for table in bags.tables:
        assert table.counts.min() >= 25 and table.counts.sum() == 500
        np.testing.assert_array_equal(table.label_sums.sum(axis=0), np.bincount(y))
        assert ("(rare)",) * len(table.feature_set) == bags.readable_keys(table)[-1]


def test_reports_survive_json():
    for y, epsilon in ((Y, None), (Y * 1.5, 2.0)):
        bags = make_curated_bags(X, y, "pairs", epsilon=epsilon, delta=1e-6, random_state=0)
        again = CuratedBags.from_dict(json.loads(json.dumps(bags.to_dict())))
        assert again.to_dict() == bags.to_dict()
        assert str(again.guarantee) == str(bags.guarantee)
        np.testing.assert_array_equal(released_sums(again), released_sums(bags))


@pytest.mark.slow
def test_learning_needs_the_reports_alone(tmp_path):
    """Another process that never sees y fits the same model from features and reports."""
    bags = make_curated_bags(X, Y, "pairs", epsilon=2.0, random_state=0, categorical_features="all")
    (tmp_path / "reports.json").write_text(json.dumps(bags.to_dict()))
    np.save(tmp_path / "X.npy", X)
    script = (
        "import json, sys, numpy as np\n"
        "from skprivate import CuratedBagGAMClassifier\n"
        "X = np.load(sys.argv[1] + '/X.npy')\n"
        "bags = json.load(open(sys.argv[1] + '/reports.json'))\n"
        "model = CuratedBagGAMClassifier().fit_bags(X, bags)\n"
        "print(json.dumps(model.predict_proba(X).tolist()))\n"
    )
    result = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    here = CuratedBagGAMClassifier().fit_bags(X, bags)
    np.testing.assert_allclose(json.loads(result.stdout), here.predict_proba(X), rtol=1e-12)
    assert here.privacy_guarantee_ is bags.guarantee


def test_fit_is_aggregation_and_fit_bags():
    arguments = {"epsilon": 1.0, "delta": 1e-6, "random_state": 3, "categorical_features": "all"}
    model = CuratedBagGAMClassifier(feature_sets="pairs", min_size=5, **arguments).fit(X, Y)
    bags = make_curated_bags(X, Y, "pairs", min_size=5, **arguments)
    np.testing.assert_array_equal(released_sums(model.bags_), released_sums(bags))
    np.testing.assert_array_equal(model.predict_proba(X), CuratedBagGAMClassifier().fit_bags(X, bags).predict_proba(X))


# Label privacy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("sets", [[(0,)], [(0,), (1,)], [(0,), (1,), (0, 1)]])
def test_one_label_moves_the_sums_as_far_as_stated(n_classes, sets):
    """Exact: all replacements of every label, against the sensitivity that the noise is scaled to."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 30)
    classes = list(range(n_classes))
    sensitivity = LabelSensitivity(len(sets) * (1 if n_classes == 2 else 2))

    def sums(labels):
        return released_sums(
            make_curated_bags(X[:30], labels, sets, classes=classes, categorical_features="all", min_size=3)
        )

    largest_l1 = largest_l2 = 0.0
    for row in range(30):
        for other in classes:
            changed = y.copy()
            changed[row] = other
            difference = sums(changed) - sums(y)
            largest_l1 = max(largest_l1, np.abs(difference).sum())
            largest_l2 = max(largest_l2, np.linalg.norm(difference))
    assert largest_l1 == sensitivity.l1
    assert largest_l2 == pytest.approx(sensitivity.l2)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_log_probability_ratio_of_a_release_is_at_most_epsilon(n_classes, epsilon):
    """Exact log-probabilities of the discrete Laplace release under one changed label, on a grid of outputs."""
    moved = 3 * (1 if n_classes == 2 else 2)
    noise = plan_label_noise(LabelSensitivity(moved), 12, epsilon=epsilon, delta=0.0, mechanism="auto")
    assert noise.mechanism == "discrete_laplace" and noise.parameter == epsilon
    scale = noise.sensitivity.l1 / noise.parameter

    def log_probability(k):
        return -np.abs(k) / scale + math.log(math.expm1(1 / scale)) - math.log(math.exp(1 / scale) + 1)

    # One label: 3 bags (per class), each sum moves by one step; coordinates are independent.
    outputs = np.arange(-400, 401)
    worst = moved * np.max(log_probability(outputs) - log_probability(outputs - 1))
    assert worst == pytest.approx(epsilon, rel=1e-9)
    assert np.exp(log_probability(np.arange(-4000, 4001))).sum() == pytest.approx(1.0, abs=1e-9)
    grid = np.arange(-6000, 6001)
    assert np.sum(grid**2 * np.exp(log_probability(grid))) == pytest.approx(noise.variance, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mechanism"),
    [(1.0, 0.0, "auto"), (0.5, 1e-6, "gaussian"), (2.0, 1e-6, "discrete_gaussian"), (3.0, 1e-6, "auto")],
)
def test_budget_is_used_and_kept(epsilon, delta, mechanism):
    ledger = PrivacyLedger(epsilon=epsilon, delta=max(delta, 1e-12), unit="label")
    bags = make_curated_bags(
        X, Y, "pairs", epsilon=epsilon, delta=delta, mechanism=mechanism, random_state=0, ledger=ledger
    )
    guarantee = bags.guarantee
    assert guarantee.unit == "label" and guarantee.adjacency == "replace-one"
    assert compose_epsilon(guarantee.events, delta) == pytest.approx(guarantee.epsilon)
    assert 0.999 * epsilon < guarantee.epsilon <= epsilon
    with pytest.raises(BudgetExceededError):
        make_curated_bags(
            X, Y, "pairs", epsilon=epsilon, delta=delta, mechanism=mechanism, random_state=0, ledger=ledger
        )


def test_auto_takes_the_smaller_variance():
    few, many = (plan_label_noise(LabelSensitivity(k), 10, epsilon=1.0, delta=1e-6) for k in (2, 40))
    assert (few.mechanism, many.mechanism) == ("discrete_laplace", "gaussian")
    for plan, k in ((few, 2), (many, 40)):
        others = [
            plan_label_noise(LabelSensitivity(k), 10, epsilon=1.0, delta=1e-6, mechanism=name).variance
            for name in ("laplace", "gaussian", "discrete_gaussian")
        ]
        assert plan.variance == min(others)


def noisy_residuals(y, epsilon, seeds, **arguments):
    exact = released_sums(make_curated_bags(X, y, "pairs", categorical_features="all", **arguments))
    draws = []
    for seed in range(seeds):
        bags = make_curated_bags(
            X, y, "pairs", epsilon=epsilon, random_state=seed, categorical_features="all", **arguments
        )
        draws.append((released_sums(bags) - exact).ravel())
    return np.concatenate(draws), bags.tables[0].noise_variance


def variance_test(residuals, variance):
    """Two-sided: discrete Laplace has kurtosis up to 6, hence the factor; fails with probability < 1e-6."""
    n = residuals.size
    spread = 5.2 * math.sqrt(5.2 / n)
    return abs(np.mean(residuals**2) / variance - 1) < spread


def test_noise_has_the_stated_variance_end_to_end(global_seeds=(0, 1)):
    for epsilon in (0.5, 2.0):
        residuals, variance = noisy_residuals(Y, epsilon, 120)
        assert variance_test(residuals, variance)
        # Seen to fail: half of the noise is found out.
        assert not variance_test(residuals / 2, variance)
        assert abs(residuals.mean()) < 5.2 * math.sqrt(variance / residuals.size)


@pytest.mark.slow
def test_statistical_audit_of_the_release():
    """A likelihood-ratio attacker on 4000 releases of neighbouring labels finds no more than ε (Hoeffding, 1e-6)."""
    epsilon, runs = 1.0, 4000
    noise = plan_label_noise(LabelSensitivity(3), 3, epsilon=epsilon, delta=0.0)

    def attack(noise):
        said = []
        for label in (0, 1):
            # Many independent releases of the three sums that hold the attacked label, in one vector each.
            with open_release(
                epsilon=epsilon * runs * 10, unit="label", adjacency="replace-one", random_state=label
            ) as release:
                sums = np.array([noise.draw(np.full(3, label), release) for _ in range(runs)])
            said.append(np.mean(np.sum(np.sign(sums - 0.5), axis=1) > 0))
        slack = math.sqrt(math.log(2e6) / (2 * runs))
        false, true = said
        return math.log(max(true - slack, 1e-9) / (false + slack))

    assert attack(noise) <= epsilon
    # Seen to fail with the sensitivity of one set instead of three.
    weak = LabelNoise("discrete_laplace", LabelSensitivity(1), 3.0)
    assert attack(weak) > epsilon


def test_wrong_sensitivity_is_found_out(monkeypatch):
    """A mutation that forgets the number of sets changes the variance that everybody is told."""
    right = make_curated_bags(X, Y, "pairs", epsilon=1.0, random_state=0).tables[0].noise_variance
    monkeypatch.setattr(
        "skprivate.aggregate.tables._labels.plan_label_noise",
        lambda sensitivity, size, **a: plan_label_noise(LabelSensitivity(1), size, **a),
    )
    wrong = make_curated_bags(X, Y, "pairs", epsilon=1.0, random_state=0).tables[0].noise_variance
    assert right > 8 * wrong


def test_numbers_are_clipped_to_their_bounds_and_their_range_is_found():
    rng = np.random.default_rng(0)
    n = 20_000
    features = rng.integers(0, 4, size=(n, 2))
    y = 30 * features[:, 0] + rng.normal(scale=10, size=n)
    y[0] = 1e9
    bags = make_curated_bags(
        features, y, "pairs", classes=None, epsilon=1.0, random_state=0, categorical_features="all"
    )
    low, high = bags.label_bounds
    assert (low, high) == (-32.0, 128.0)
    assert bags.guarantee.epsilon == pytest.approx(1.0)
    given = make_curated_bags(
        features,
        y,
        "pairs",
        classes=None,
        epsilon=1.0,
        label_bounds=(-50, 150),
        random_state=0,
        categorical_features="all",
    )
    assert given.label_bounds == (-50, 150)
    # The whole budget goes to three sums and the squares: 4 * 200 / 1 is the scale.
    assert given.tables[0].noise_variance == pytest.approx(2 * (4 * 200) ** 2)
    clipped = np.clip(y, -50, 150)
    deviation = math.sqrt(given.tables[0].noise_variance)
    assert given.square_sum == pytest.approx(np.sum(clipped**2), abs=6 * 200 * deviation)
    exact = make_curated_bags(features, y, "pairs", classes=None, label_bounds=(-50, 150), categorical_features="all")
    residual = (released_sums(given) - released_sums(exact)) / deviation
    assert np.sum(residual**2) < chi2.isf(1e-9, residual.size) * 2


# Errors ----------------------------------------------------------------------------------------------------------


def test_errors_of_reports():
    bags = make_curated_bags(X, Y, "pairs", categorical_features="all")
    model = CuratedBagGAMClassifier()
    with pytest.raises(ValueError, match="'x0' of X has values that no bag has, in 1 rows: 9; bags have 0, 1, 2"):
        model.fit_bags(np.vstack([X[:-1], [[9, 9]]]), bags)
    with pytest.raises(ValueError, match="counts disagree"):
        model.fit_bags(X[:-1], bags)
    with pytest.raises(ValueError, match=r"bags were made for the columns \['x0', 'x1'\]"):
        model.fit_bags(X[:, :1], bags)
    with pytest.raises(ValueError, match="use CuratedBagGAMClassifier"):
        CuratedBagGAMRegressor().fit_bags(X, bags)
    plain = bags.to_dict()
    plain["tables"][0]["counts"] = plain["tables"][0]["counts"][:-1]
    with pytest.raises(ValueError, match="do not fit together|cannot reshape"):
        model.fit_bags(X, plain)
    plain = bags.to_dict()
    plain["tables"][0]["label_sums"][0] = [float("nan")]
    with pytest.raises(ValueError, match="label_sums must be finite"):
        model.fit_bags(X, plain)
    plain = bags.to_dict()
    plain["tables"][0]["keys"][0] = plain["tables"][0]["keys"][1]
    with pytest.raises(ValueError, match="distinct keys in increasing order"):
        model.fit_bags(X, plain)
    assert not hasattr(model, "privacy_guarantee_")


def test_errors_of_aggregation():
    with pytest.raises(ValueError, match=r"min_size=11 empties the feature set \('x0', 'x1'\)"):
        make_curated_bags(X, Y, [(0, 1)], min_size=11, categorical_features="all")
    with pytest.raises(ValueError, match="no feature set has a bag of min_size=50 rows"):
        make_curated_bags(X, Y, "pairs", min_size=50, categorical_features="all")
    for bad in (np.where(Y, np.nan, 1.0), np.array([None, "a"] * 30, dtype=object)):
        with pytest.raises(ValueError, match="NaN|missing labels"):
            make_curated_bags(X, bad, "pairs", epsilon=1.0)
    with pytest.raises(ValueError, match="labels that are not in classes"):
        make_curated_bags(X, Y, "pairs", classes=[1, 2])
    with pytest.raises(ValueError, match="epsilon must be a positive finite number"):
        make_curated_bags(X, Y, "pairs", epsilon=float("inf"))
    with pytest.raises(ValueError, match="label_bounds must be finite"):
        make_curated_bags(X, Y, "pairs", classes=None, label_bounds=(1, 0))
    with pytest.raises(ValueError, match="needs delta > 0"):
        make_curated_bags(X, Y, "pairs", epsilon=1.0, mechanism="gaussian")
    for classes in ([1], [1, 1]):
        with pytest.raises(ValueError, match="at least two distinct labels"):
            make_curated_bags(X, Y, "pairs", classes=classes, epsilon=1.0)
    with pytest.raises(ValueError, match="at least 1e-12, got 1e-15"):
        make_curated_bags(X, Y, "pairs", epsilon=1e-15)
    with pytest.raises(ValueError, match="one label per row"):
        make_curated_bags(X, Y[:-1], "pairs")
    with pytest.raises(ValueError, match="not go below 0"):
        CuratedBagGAMRegressor(loss="poisson", label_bounds=(-1, 1)).fit(X, Y)
    with pytest.raises(ValueError, match="must not be negative"):
        CuratedBagGAMRegressor(loss="poisson", epsilon=None).fit(X, Y - 1)
    with pytest.raises(ValueError, match=r"penalty must be .*got \(1.0,\)"):
        CuratedBagGAMRegressor(penalty=(1.0,)).fit(X, Y)


def test_unknown_values_contribute_nothing():
    model = CuratedBagGAMClassifier(epsilon=None, categorical_features="all", min_size=1).fit(X, Y)
    known, unknown = [[2, 1]], [[2, 77]]
    parts = dict(zip(model.feature_sets_, model.contributions(unknown)[0], strict=True))
    assert parts["x1",] == parts["x0", "x1"] == 0.0
    assert parts["x0",] == dict(zip(model.feature_sets_, model.contributions(known)[0], strict=True))["x0",]
    nothing = model.decision_function([[55, 77]])
    assert nothing[0] == pytest.approx(model.intercept_[0])


def test_largest_cells_are_readable():
    model = CuratedBagGAMClassifier(epsilon=None, categorical_features="all", feature_sets="singles").fit(X, Y)
    first = model.largest_cells(2)
    assert {cell[0] for cell in first} == {("x0",)} and {cell[1] for cell in first} == {("0",), ("2",)}
    assert all(cell[3] == 20 for cell in first)


class Named(CuratedBagGAMRegressor):
    """A subclass with an argument that has no default."""

    def __init__(self, name, epsilon=1.0, *, label_bounds=None, random_state=None):
        super().__init__(epsilon, label_bounds=label_bounds, random_state=random_state)
        self.name = name


def test_subclasses_may_need_arguments():
    model = Named("a", label_bounds=(-3, 3), random_state=0).fit([["a"], ["b"]] * 50, [0.0, 1.0] * 50)
    assert model.predict([["a"]]).shape == (1,)
