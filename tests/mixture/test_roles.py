"""Whom a fit protects: stated by the user, or by a default that says so, or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skprivate.mixture import PPMHalfspaceClassifier, ProtectedLabelWarning
from skprivate.mixture._roles import assign_roles, plain
from skprivate.privacy import PrivacyLedger

X = np.arange(12.0).reshape(6, 2)
HALVES = np.repeat([0, 1], 3)


def roles(labels, *, private=None, private_label=None, simulated=False):
    return assign_roles(np.asarray(labels), private, private_label, None, "replace-one", simulated=simulated)


@pytest.mark.parametrize("labels", [(0, 1), (False, True), (-1, 1), (0.0, 1.0), (-1.0, 1.0)])
def test_by_custom_the_larger_label_is_protected_and_the_warning_names_it(labels):
    with pytest.warns(ProtectedLabelWarning) as seen:
        found = roles(np.array(labels)[HALVES])
    assert plain(found.classes[found.private_index]) == labels[1]
    (warning,) = seen
    assert f"rows with label {labels[1]!r} are protected" in str(warning.message)
    assert f"rows with label {labels[0]!r} are published" in str(warning.message)


@pytest.mark.parametrize("labels", [("bad", "good"), (1, 2), (0, 2), (-1, 0), ("0", "1"), (0.5, 1.0)])
def test_other_labels_are_refused_with_real_noise_and_spend_nothing(tmp_path, labels):
    ledger = PrivacyLedger(tmp_path / "ledger.db", epsilon=1.0, unit="private row", adjacency="replace-one")
    y = np.array(labels)[HALVES] if labels != (0.5, 1.0) else HALVES + 4
    low, high = np.unique(y).tolist()
    estimator = PPMHalfspaceClassifier(ledger=ledger)
    with pytest.raises(ValueError, match="private_label must say whose rows are private") as caught:
        estimator.fit(X, y)
    assert f"private_label={high!r} (or {low!r}" in str(caught.value) and "got None" in str(caught.value)
    assert ledger.spent == (0, 0) and not hasattr(estimator, "private_label_")


def test_a_simulation_protects_nobody_and_goes_on_with_a_warning():
    y = np.array(["bad", "good"])[HALVES]
    with pytest.warns(ProtectedLabelWarning, match="'good' are protected by default.*'bad' are published"):
        fitted = PPMHalfspaceClassifier(random_state=0).fit(X, y)
    assert fitted.private_label_ == "good" and not fitted.privacy_guarantee_.valid_for_release
    assert "label 'good' are private" in fitted.privacy_guarantee_.assumptions[1]


def test_the_warning_points_at_the_line_that_called_fit():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        PPMHalfspaceClassifier().fit(X, HALVES)
    (warning,) = seen
    assert warning.category is ProtectedLabelWarning and warning.filename == __file__


@pytest.mark.parametrize("labels", [(0, 1), ("bad", "good")])
def test_what_is_stated_is_not_warned_of(labels):
    y = np.array(labels)[HALVES]
    for label in labels:
        found = roles(y, private_label=label)
        np.testing.assert_array_equal(found.private, y == label)
    assert plain(roles(y, private=HALVES == 1).classes[1]) == labels[1]


@pytest.mark.parametrize(
    ("mask", "private_label"),
    [
        ([0, 0, 0, 1, 1, 1], "good"),  # public rows are all bad
        ([1, 1, 1, 0, 0, 0], "bad"),  # public rows are all good
        ([1, 1, 1, 1, 0, 0], "bad"),
        ([0, 0, 1, 0, 1, 1], "good"),  # public rows have both labels: the second
        ([1, 1, 1, 1, 1, 1], "good"),  # no public row
    ],
)
def test_with_a_mask_the_label_is_the_one_that_public_rows_lack(mask, private_label):
    y = np.array(["bad", "good"])[HALVES]
    found = roles(y, private=np.array(mask, dtype=bool))
    assert found.classes[found.private_index] == private_label
    np.testing.assert_array_equal(found.private, np.array(mask, dtype=bool))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=12), st.lists(st.booleans(), min_size=12))
def test_labels_of_private_rows_do_not_decide_which_label_is_which(rows, others):
    """Under a mask a neighbour may change the label of a private row."""
    y, mask = np.array(rows).T
    other = np.where(mask, others[: len(y)], y)
    if mask.any() and len(set(y)) == len(set(other)) == 2:
        assert roles(y, private=mask).private_index == roles(other, private=mask).private_index


def test_several_labels_become_two_as_the_refusal_says():
    y = np.array(["healthy", "ill", "cured"] * 2)
    with pytest.raises(ValueError, match=r"y = \(y == 'ill'\), and pass private_label=True"):
        PPMHalfspaceClassifier(private_label="ill").fit(X, y)
    fitted = PPMHalfspaceClassifier(private_label=True).fit(X, y == "ill")
    assert fitted.privacy_guarantee_.assumptions[1].startswith("exactly the rows with label True are private")


SECRET = 8675309.25


@pytest.mark.parametrize(
    "fit",
    [
        lambda model, mask: model.fit(np.where(mask[:, None], [SECRET, np.nan], X), HALVES, private=mask),
        lambda model, mask: model.fit(
            np.where(mask[:, None], [str(SECRET), "x"], X.astype(object)), HALVES, private=mask
        ),
        lambda model, mask: model.fit(X, np.where(mask, SECRET, HALVES + 0.0), private=mask),
        lambda model, mask: model.fit(X, np.where(mask, int(SECRET), HALVES), private=mask),
        lambda model, mask: model.fit(
            X, np.where(mask, f"secret {SECRET}", "public").astype(object), private=np.ones(5)
        ),
        lambda model, mask: model.set_params(classes=[0, 1]).fit(X, np.where(mask, int(SECRET), HALVES), private=mask),
        lambda model, mask: model.fit(
            np.where(mask[:, None], [SECRET, 0.0], X), HALVES, private=np.where(mask, SECRET, 0)
        ),
        lambda model, mask: model.fit(np.full(6, SECRET), HALVES, private=mask),
    ],
    ids=["NaN", "strings", "continuous y", "third label", "bad mask", "label not in classes", "mask of numbers", "1-D"],
)
def test_no_error_shows_a_private_value(fit):
    mask = np.array([0, 0, 0, 1, 1, 1], dtype=bool)
    with pytest.raises((TypeError, ValueError), match=r".") as caught:
        fit(PPMHalfspaceClassifier(private_label=1), mask)
    assert "8675309" not in str(caught.value)
