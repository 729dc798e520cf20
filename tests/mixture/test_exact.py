"""Algorithm 2: what is drawn, how likely, and how much a private row can change that."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from helpers.coordinates import coordinates_on
from scipy.optimize import linprog
from scipy.stats import chisquare

from skprivate.mixture._geometry import public_frame, supporting_pairs
from skprivate.mixture._intersections import Intersections, count_intersections
from skprivate.mixture._problem import ErrorWeights, coarsest_needed, draw_hypothesis
from skprivate.privacy import open_release

PLAIN = ErrorWeights(1, 1, 1)


def naive_hypotheses(frame, pairs, X, max_halfspaces):
    """Predictions (1 = private) of every hypothesis of Algorithm 2 on the rows of X, empty hypothesis last."""
    coordinates, distance = coordinates_on(frame, X)
    on_span = distance <= frame.slack
    predictions = []
    if not frame.empty:
        inside = np.empty((len(X), 2 * len(pairs)), dtype=bool)
        for number in range(2 * len(pairs)):
            normals, intercepts = pairs.sides((number,))
            inside[:, number] = (coordinates @ normals.T + intercepts)[:, 0] >= 0
        for size in range(min(max_halfspaces, 2 * len(pairs)) + 1):
            for group in combinations(range(2 * len(pairs)), size):
                predictions.append(~(on_span & inside[:, list(group)].all(axis=1)))
    predictions.append(np.ones(len(X), dtype=bool))
    return np.array(predictions)


def setup(X, y):
    """Frame and candidates from the rows with label 0, which are public."""
    frame = public_frame(X[y == 0])
    coordinates, _ = coordinates_on(frame, X[y == 0])
    return frame, supporting_pairs(coordinates, frame.slack)


class RecordingRelease:
    """Stands in for a Release and records what it was asked."""

    dry_run = False

    def __init__(self, answer=(0, 0)):
        self.answer = answer

    def select(self, scores, *, multiplicity, locate, **keywords):
        self.scores, self.multiplicity, self.keywords = np.asarray(scores), np.asarray(multiplicity), keywords
        return locate(*self.answer)


def family_of(X, y, weights=PLAIN, max_halfspaces=None):
    """All hypotheses but the empty one, and the errors of that one."""
    frame, pairs = setup(X, y)
    signed = weights.signed(y == 1)
    offset = -int(signed[y == 0].sum())
    if frame.empty:
        return None, offset
    coordinates, distance = coordinates_on(frame, X)
    on_span = distance <= frame.slack
    size = frame.dimension if max_halfspaces is None else max_halfspaces
    positive, negative = pairs.memberships(coordinates[on_span])
    return Intersections(positive, negative, signed[on_span], size, offset=offset), offset


def draw(X, y, release, weights=PLAIN, epsilon=1.0, **keywords):
    family, offset = family_of(X, y, weights)
    return draw_hypothesis(family, offset, release, epsilon=epsilon, sensitivity=weights.sensitivity, **keywords)


def fewest_errors_of_a_halfspace(X, y):
    """Smallest number of errors of {x: ⟨a, x⟩ ≥ b} labelled 1, over all a and b: one LP per labelling."""
    n, d = X.shape
    best = n
    for labels in product([0, 1], repeat=n):
        errors = int((np.array(labels) != y).sum())
        if errors >= best:
            continue
        sign = np.where(np.array(labels) == 1, 1.0, -1.0)
        # Separable with margin one?
        A = -np.column_stack([sign[:, None] * X, -sign])
        if linprog(np.zeros(d + 1), A_ub=A, b_ub=-np.ones(n), bounds=(None, None), method="highs").success:
            best = errors
    return best


def instances(dimension):
    """Small instances: general, on a grid with duplicates, on a line or a plane, fewer points than dimensions."""
    rng = np.random.default_rng(dimension)
    for trial in range(6):
        n = 6 if dimension == 3 else 7
        y = np.array([0] * (n - 3) + [1] * 3)
        yield rng.normal(size=(n, dimension)), y
        grid = rng.integers(0, 3, size=(n, dimension)).astype(float)
        yield grid, y
        flat = grid.copy()
        flat[:, -1] = flat[:, 0] if trial % 2 else 1.0
        yield flat, y
        # Only the public points lie in a flat.
        half = grid.copy()
        half[y == 0, -1] = 1.0
        yield half, y
        few = np.array([0] * min(dimension, 2) + [1] * 4)
        yield rng.integers(0, 3, size=(len(few), dimension)).astype(float), few
    yield rng.normal(size=(4, dimension)), np.ones(4, dtype=int)
    yield np.ones((5, dimension)), np.array([0, 0, 1, 1, 1])


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_lemma_4_5_some_hypothesis_is_as_good_as_the_best_halfspace(dimension):
    n_instances = 0
    for X, y in instances(dimension):
        frame, pairs = setup(X, y)
        errors = (naive_hypotheses(frame, pairs, X, frame.dimension) != y).sum(axis=1)
        assert errors.min() <= fewest_errors_of_a_halfspace(X, y), (X, y)
        n_instances += 1
    assert n_instances > 30


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_histogram_holds_every_hypothesis(dimension):
    for X, y in instances(dimension):
        frame, pairs = setup(X, y)
        predictions = naive_hypotheses(frame, pairs, X, frame.dimension)
        release = RecordingRelease()
        draw(X, y, release)
        errors = (predictions != y).sum(axis=1)
        expected, counts = np.unique(errors, return_counts=True)
        np.testing.assert_array_equal(-release.scores, expected)
        np.testing.assert_array_equal(release.multiplicity, counts)
        n_expected = 1 if frame.empty else count_intersections(2 * len(pairs), frame.dimension) + 1
        assert counts.sum() == n_expected


def test_every_member_of_every_category_is_reached_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 2)), np.array([0] * 4 + [1] * 4)
    frame, pairs = setup(X, y)
    release = RecordingRelease()
    draw(X, y, release)
    seen = []
    for category, size in enumerate(release.multiplicity):
        for member in range(size):
            chosen = draw(X, y, RecordingRelease((category, member)))
            seen.append(chosen if chosen is None else tuple(sorted(chosen)))
            errors = error_count(frame, pairs, X, y, chosen)
            assert errors == -release.scores[category]
    expected = {g for size in range(3) for g in combinations(range(2 * len(pairs)), size)} | {None}
    assert len(seen) == len(expected) and set(seen) == expected


def error_count(frame, pairs, X, y, chosen):
    if chosen is None:
        return int((y == 0).sum())
    coordinates, distance = coordinates_on(frame, X)
    normals, intercepts = pairs.sides(chosen)
    inside = (distance <= frame.slack) & (coordinates @ normals.T + intercepts >= 0).all(axis=1)
    return int((inside != (y == 0)).sum())


def log_probabilities(errors, rate, rule):
    """Exact log-probabilities of both selections from integer errors."""
    weights = np.exp(-rate * (errors - errors.min()))
    if rule == "exponential":
        return np.log(weights / weights.sum())
    # Heads of candidate i at a uniform time t, no head before it: q_i ∫ Π_{j≠i} (1 − t q_j) dt. Gauss–Legendre
    # is exact for the polynomial.
    nodes, mass = np.polynomial.legendre.leggauss(len(errors) // 2 + 1)
    t = (nodes + 1) / 2
    factors = 1 - t[:, None] * weights
    log_all = np.log(factors).sum(axis=1)
    integrals = (mass[:, None] / 2 * np.exp(log_all[:, None] - np.log(factors))).sum(axis=0)
    return np.log(weights * integrals)


@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize(("adjacency", "factor"), [("replace-one", 0.5), ("add-remove", 1.0)])
def test_a_private_row_moves_log_probabilities_by_at_most_epsilon(rule, adjacency, factor):
    rng = np.random.default_rng(0)
    epsilon, largest = 0.7, 0.0
    for X, y in [
        *list(instances(2))[:20],
        (np.array([[0.0, 0], [2, 0], [0, 2], [2, 2], [1, 1], [1, 1], [1, 1]]), np.array([0, 0, 0, 0, 1, 1, 1])),
    ]:
        frame, pairs = setup(X, y)
        if frame.empty:
            continue

        def tables(rows, labels, frame=frame, pairs=pairs):
            errors = (naive_hypotheses(frame, pairs, rows, frame.dimension) != labels).sum(axis=1)
            return log_probabilities(errors, epsilon * factor, rule)

        before = tables(X, y)
        np.testing.assert_allclose(np.exp(before).sum(), 1.0)
        for row in np.flatnonzero(y == 1)[:2]:
            if adjacency == "add-remove":
                neighbours = [(np.delete(X, row, axis=0), np.delete(y, row))]
            else:
                neighbours = []
                for moved in [rng.normal(size=2) * 3, np.full(2, 1e9), X[0], X[0] * 0 + 1]:
                    changed = X.copy()
                    changed[row] = moved
                    neighbours.append((changed, y))
            for rows, labels in neighbours:
                largest = max(largest, np.abs(tables(rows, labels) - before).max())
    assert largest <= epsilon + 1e-9
    # The bound is not vacuous: some row uses a good part of it.
    assert largest > 0.4 * epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("monotone", "rate"), [(False, 0.5), (True, 1.0)])
@pytest.mark.parametrize("rule", ["exponential", pytest.param("permute-and-flip", marks=pytest.mark.slow)])
def test_draws_follow_the_exact_probabilities(rule, monotone, rate):
    """Chi-square over all hypotheses at a failure probability of 10⁻⁶."""
    X = np.array([[0.0, 0], [2, 0], [0, 2], [1, 0.5], [3, 3], [0.3, 0.3], [2, 2]])
    y = np.array([0, 0, 0, 1, 1, 1, 1])
    frame, pairs = setup(X, y)
    family, offset = family_of(X, y)
    predictions = naive_hypotheses(frame, pairs, X, 2)
    groups = [g for size in range(3) for g in combinations(range(2 * len(pairs)), size)] + [None]
    epsilon, n_draws = 1.5, 2000
    errors = (predictions != y).sum(axis=1)
    expected = n_draws * np.exp(log_probabilities(errors, rate * epsilon, rule))
    adjacency = "add-remove" if monotone else "replace-one"
    release = open_release(
        epsilon=epsilon * n_draws, unit="private row", adjacency=adjacency, random_state=int(monotone)
    )
    counts = dict.fromkeys(groups, 0)
    for _ in range(n_draws):
        chosen = draw_hypothesis(family, offset, release, epsilon=epsilon, sensitivity=1, rule=rule, monotone=monotone)
        counts[chosen if chosen is None else tuple(sorted(chosen))] += 1
    observed = np.array(list(counts.values()), dtype=float)
    # Pool rare hypotheses of the same number of errors, so that every cell expects enough.
    keys = [(e, -1) if expected[i] < 5 else (e, i) for i, e in enumerate(errors)]
    cells = sorted(set(keys))
    index = np.array([cells.index(key) for key in keys])
    observed, expected = np.bincount(index, observed), np.bincount(index, expected)
    enough = expected >= 5
    observed = np.append(observed[enough], observed[~enough].sum())
    expected = np.append(expected[enough], expected[~enough].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected).pvalue > 1e-6
    assert release.close().epsilon == pytest.approx(epsilon * n_draws)


@pytest.mark.parametrize(
    ("public", "private", "expected"),
    [
        (1.0, 1.0, (1, 1)),
        (100 / 90, 100 / 10, (1, 9)),
        (3.0, 1.0, (3, 1)),
        (0.25, 0.75, (1, 3)),
        (1.0, 12345.4, (1, 12345)),
        (1e-3, 1e3, (1, 10**6)),
        (1e-300, 1e300, (1, 10**7)),
    ],
)
def test_class_weights_become_integers(public, private, expected):
    weights = ErrorWeights.from_class_weights(public, private, private_rows_have_private_label=True)
    assert (weights.public_label, weights.private_label) == expected
    assert weights.sensitivity == expected[1]
    mixed = ErrorWeights.from_class_weights(public, private, private_rows_have_private_label=False)
    assert mixed.sensitivity == max(expected)


def test_weight_ratio_is_kept_to_a_thousandth():
    for ratio in np.random.default_rng(0).uniform(0.01, 1, 100):
        weights = ErrorWeights.from_class_weights(ratio, 1.0, private_rows_have_private_label=True)
        exact = Fraction(weights.public_label, weights.private_label)
        assert abs(float(exact) - ratio) <= 1e-3 and weights.private_label <= 1000


def test_weighted_errors_keep_the_empty_hypothesis_in_place():
    X = np.array([[0.0, 0], [2, 0], [0, 2], [1, 0.5], [3, 3]])
    y = np.array([0, 0, 0, 1, 1])
    weights = ErrorWeights(2, 3, 3)
    frame, pairs = setup(X, y)
    predictions = naive_hypotheses(frame, pairs, X, 2)
    cost = np.where(y == 0, 2, 3)
    errors = (predictions != y) @ cost
    release = RecordingRelease()
    draw(X, y, release, weights=weights)
    expected, counts = np.unique(errors, return_counts=True)
    np.testing.assert_array_equal(-release.scores, expected)
    np.testing.assert_array_equal(release.multiplicity, counts)
    assert release.keywords["sensitivity"] == 3
    empty = int(np.flatnonzero(release.scores == -6)[0])
    assert draw(X, y, RecordingRelease((empty, release.multiplicity[empty] - 1)), weights=weights) is None


def test_the_unit_of_errors_divides_the_sensitivity():
    for sensitivity in (1, 7, 88, 1000):
        weights = ErrorWeights(3, sensitivity, sensitivity)
        for largest in (10, 2**19, 3 * 2**19, 2**22, 2**40):
            unit = coarsest_needed(weights, largest)
            assert sensitivity % unit == 0
            assert unit == sensitivity or largest <= unit * 2**19


def test_rounded_errors_change_by_at_most_the_rounded_sensitivity():
    """Also where a private row changes its label, which moves the errors of the empty hypothesis."""
    rng = np.random.default_rng(0)
    weights, unit = ErrorWeights(5, 12, 12), 4
    inside = rng.random((200, 12)) < 0.5
    private_label = rng.random(12) < 0.5

    def rounded(members, labels):
        signed = weights.signed(labels)
        return (members @ signed - signed[~labels].sum()) // unit

    before = rounded(inside, private_label)
    for row in range(12):
        for label in (False, True):
            members, labels = inside.copy(), private_label.copy()
            members[:, row], labels[row] = rng.random(200) < 0.5, label
            assert np.abs(rounded(members, labels) - before).max() <= weights.sensitivity // unit
