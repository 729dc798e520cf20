"""Halfspaces as text: names, units, direction of each inequality, and that the text says what `predict` does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skprivate.mixture import PPMHalfspaceClassifier, export_text
from skprivate.mixture._ppm_halfspace_classifier import _condition, _reduced
from skprivate.mixture._problem import LinearConstraints


def fitted(X, labels=("good", "bad"), private_label="bad", epsilon=1e4, n_public=None, **keywords):
    """Public rows first."""
    n_public = len(X) // 2 if n_public is None else n_public
    y = np.repeat(labels, [n_public, len(X) - n_public])
    return PPMHalfspaceClassifier(epsilon, private_label=private_label, random_state=0, **keywords).fit(X, y)


def test_an_interval_in_its_own_units():
    ages = np.concatenate([np.arange(18.0, 66.0), np.arange(0.0, 18.0), np.arange(66.0, 90.0)])[:, None]
    model = fitted(ages, n_public=48, max_halfspaces=2, strategy="greedy")
    text = export_text(model, feature_names=["age"]).splitlines()
    assert text[0] == "'good' (public) if" and text[-1] == "otherwise 'bad' (private)"
    exact = fitted(ages, n_public=48, max_halfspaces=1)
    _, condition, _ = export_text(exact, feature_names=["age"]).splitlines()
    assert condition in ("  age >= 18", "  age <= 65")


@pytest.mark.parametrize(
    ("coefficients", "intercept", "text"),
    [
        ([2.0, 0.0], -3.0, "a >= 1.5"),
        ([-2.0, 0.0], 3.0, "a <= 1.5"),
        ([0.0, 1.0], 0.0, "b >= 0"),
        ([4.0, -1.0], 2.0, "a - 0.25 b >= -0.5"),
        ([1.0, -4.0], 2.0, "b - 0.25 a <= 0.5"),
        ([-3.0, -1.0], 1.0, "a + 0.3333 b <= 0.3333"),
        ([1.0, 1e-12], 1e-12, "a >= -0.000000000001"),
        ([1.0, 0.0], -123456.7, "a >= 123500"),
    ],
)
def test_exact_conditions(coefficients, intercept, text):
    coefficients = np.array(coefficients)
    assert _condition(coefficients, intercept, coefficients, ">=", ["a", "b"], 4) == text


def test_the_feature_that_matters_most_comes_first_whatever_its_unit():
    """Grams against tonnes: the larger coefficient may matter less."""
    assert _condition(np.array([1e-6, 1.0]), 0.0, np.array([1.0, 0.5]), ">=", ["g", "t"], 3) == "g + 1000000 t >= 0"


NUMBER = re.compile(r"-?[\d.]+")


def side(line, x, names):
    """Read a condition back: left side minus right side, and the relation."""
    left, relation, right = re.split(r" (>=|<=|=) ", line.strip())
    total, sign, factor = 0.0, 1.0, 1.0
    for token in left.split():
        if token in "+-":
            sign = 1.0 if token == "+" else -1.0
        elif NUMBER.fullmatch(token):
            factor = float(token)
        else:
            total, sign, factor = total + sign * factor * x[:, names.index(token)], 1.0, 1.0
    gap = total - float(right)
    return {">=": gap >= 0, "<=": gap <= 0, "=": np.abs(gap) <= 1e-6}[relation]


@pytest.mark.parametrize("strategy", ["exact", "thinned", "greedy"])
@pytest.mark.parametrize("private_label", ["bad", "good"])
@pytest.mark.parametrize("seed", range(3))
def test_the_text_read_back_predicts_the_same(strategy, private_label, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(25, 2)), rng.normal(size=(40, 2)) + 2.0]) * [1e-3, 1e4] + [7.0, -5.0]
    names = ["w", "z"]
    labels = ("good", "bad") if private_label == "bad" else ("bad", "good")
    model = fitted(X, labels, private_label, 5.0, n_public=25, strategy=strategy)
    first, *lines, last = export_text(model, feature_names=names, digits=17).splitlines()
    assert first == f"{labels[0]!r} (public) if" and last == f"otherwise {labels[1]!r} (private)"
    assert len(lines) == len(model.halfspaces_.intercepts) >= 1
    new = rng.normal(size=(500, 2)) * [2e-3, 2e4] + [7.0, -5.0]
    inside = np.all([side(line, new, names) for line in lines], axis=0)
    np.testing.assert_array_equal(model.predict(new) == labels[0], inside)


def test_constant_columns_of_public_rows_are_equations_of_one_feature_each():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.zeros((60, 2)), rng.normal(size=60)])
    X[:, 1], X[:, 2] = 4.0, -2.5
    X[30:, [1, 2]] += rng.normal(size=(30, 2))
    text = export_text(fitted(X)).splitlines()
    assert {"  x1 = 4", "  x2 = -2.5"} <= set(text)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 3))
def test_reduced_rows_span_the_same(seed, n_rows, more):
    rng = np.random.default_rng(seed)
    rows = np.linalg.qr(rng.normal(size=(n_rows + more, n_rows)))[0].T
    reduced = _reduced(rows)
    np.testing.assert_allclose(reduced @ np.linalg.pinv(rows) @ rows, reduced, atol=1e-8)
    assert np.linalg.matrix_rank(reduced) == n_rows
    alone = [(np.abs(reduced) > 1e-9)[:, j].sum() == 1 for j in range(rows.shape[1])]
    assert sum(alone) >= n_rows


def test_without_a_boundary():
    X = np.arange(20.0)[:, None]
    model = PPMHalfspaceClassifier(private_label=1, classes=[0, 1], random_state=0).fit(X, np.ones(20, dtype=int))
    assert export_text(model) == "1 (private) everywhere"
    model = fitted(X)
    model.halfspaces_ = LinearConstraints(np.zeros((0, 1)), np.zeros(0))
    assert export_text(model) == "'good' (public) everywhere"


def test_names_come_from_the_frame():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["amount", "duration in months"])
    frame.iloc[20:, 1] += 9.0
    (condition,) = export_text(fitted(frame, strategy="thinned", max_halfspaces=1)).splitlines()[1:-1]
    assert re.fullmatch(r"  duration in months( [+-] [\d.]+ amount)? <= [\d.]+", condition)


def test_bad_arguments():
    model = fitted(np.arange(20.0)[:, None])
    with pytest.raises(ValueError, match="one name for each of the 1 features, got 2"):
        export_text(model, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="digits must be at least 1, got 0"):
        export_text(model, digits=0)
    with pytest.raises(NotFittedError):
        export_text(PPMHalfspaceClassifier())
    with pytest.raises(TypeError, match=r"got Pipeline; of a pipeline pass the last step, pipeline\[-1\]"):
        export_text(make_pipeline(FunctionTransformer(), model))
