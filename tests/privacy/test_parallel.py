"""Parallel composition in a ledger: what a unit of one part pays, derived on small cases and replayed on neighbours."""

from __future__ import annotations

import itertools
import math
import pickle
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skprivate as sp
from skprivate.model_selection import UserKFold, fit_folds
from skprivate.privacy import BudgetExceededError, PrivacyLedger, open_release, public_generator
from skprivate.privacy.ledger._costs import NOTHING, Totals
from skprivate.privacy.ledger._ledger import _handle

REASON = "dealt by a keyed hash of the identifier, which exchanged users keep"
ADD = {"unit": "user", "adjacency": "add-remove"}
REPLACE = {"unit": "user", "adjacency": "replace-one"}


def spend(ledger, epsilon, **terms):
    with open_release(epsilon=epsilon, ledger=ledger, **{**ADD, **terms}) as release:
        release.laplace(0.5, sensitivity=1.0, epsilon=epsilon)


# The theorem, by counting ---------------------------------------------------------------------------------------------


def worst_loss(neighbours, sees, epsilon):
    """Largest ln of a likelihood ratio over all outputs of all releases, and pairs of neighbours.

    A release says, by randomised response, whether any user that it sees has the bit: ε-DP for one user more or less,
    or another one.
    """
    worst = 0.0
    for one, other in neighbours:
        total = 0.0
        for parts in sees:
            bits = [any(bit for part, bit in world if part in parts) for world in (one, other)]
            total += epsilon * (bits[0] != bits[1])  # some output has that ratio, whatever the other releases say
        worst = max(worst, total)
    return worst


def worlds(n_parts, most):
    users = list(itertools.product(range(n_parts), (False, True)))
    for size in range(most + 1):
        yield from itertools.combinations_with_replacement(users, size)


def added(n_parts):
    return [
        (world, (*world, (part, bit)))
        for world in worlds(n_parts, 2)
        for part in range(n_parts)
        for bit in (False, True)
    ]


def exchanged(n_parts, *, keeps_part):
    return [
        ((*world, one), (*world, other))
        for world in worlds(n_parts, 2)
        for one, other in itertools.product(itertools.product(range(n_parts), (False, True)), repeat=2)
        if not keeps_part or one[0] == other[0]
    ]


@pytest.mark.parametrize("n_parts", [2, 3, 4])
def test_the_theorem_in_all_small_worlds(n_parts):
    without = [set(range(n_parts)) - {k} for k in range(n_parts)]
    only = [{k} for k in range(n_parts)]
    for neighbours in (added(n_parts), exchanged(n_parts, keeps_part=True)):
        assert worst_loss(neighbours, without, 0.5) == 0.5 * (n_parts - 1)
        assert worst_loss(neighbours, only, 0.5) == 0.5
        # Fits and scores of a cross-validation together.
        assert worst_loss(neighbours, without + only, 0.5) == 0.5 * n_parts
    # Who comes with another identifier may come to another part: why identifiers must stay.
    assert worst_loss(exchanged(n_parts, keeps_part=False), only, 0.5) == 1.0


@pytest.mark.parametrize("n_parts", [2, 3, 5])
@pytest.mark.parametrize("terms", [ADD, REPLACE])
def test_the_ledger_charges_what_the_theorem_says(n_parts, terms):
    for fits, scores, due in ((1, 0, n_parts - 1), (0, 1, 1), (1, 1, n_parts)):
        ledger = PrivacyLedger(epsilon=10.0, **terms)
        with ledger.parallel(5.0, n_parts=n_parts, because=REASON) as parts:
            for k in range(n_parts):
                if fits:
                    spend(parts.without(k), 0.5, **terms)
                if scores:
                    spend(parts.only(k), 0.5, **terms)
        assert ledger.spent == (0.5 * due, 0.0)


# The account ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 4),
    st.lists(
        st.tuples(st.sampled_from(["only", "without", "all"]), st.integers(0, 3), st.floats(0.01, 1.0)), max_size=8
    ),
)
def test_a_part_pays_for_what_it_is_seen_by(n_parts, releases):
    """Recomputed from the entries: of the parts' exact sums, the largest; also over what they were reserved."""
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-5, composition="basic", **ADD)
    sums = [Totals() for _ in range(n_parts)]
    with ledger.parallel(1.5, n_parts=n_parts, because=REASON) as parts:
        for kind, place, epsilon in releases:
            k = place % n_parts
            seen = {"only": [k], "without": [j for j in range(n_parts) if j != k], "all": range(n_parts)}[kind]
            handle = parts._handle(()) if kind == "all" else getattr(parts, kind)(k)
            before = ledger.entries()
            try:
                spend(handle, epsilon)
            except BudgetExceededError:
                assert ledger.entries() == before
                assert max(float(sums[j].epsilon) for j in seen) + epsilon > 1.5 * (1 - 1e-12)
                continue
            for j in seen:
                sums[j] = sums[j].changed(NOTHING, ledger.entries()[-1].cost)
    top, *inside = ledger.entries()
    assert top.epsilon == max(total.cost().epsilon for total in sums) <= 1.5
    assert top.rho == max(total.cost().rho for total in sums)
    assert ledger.spent == (top.epsilon, 0.0)
    assert top.parts == tuple(range(n_parts)) and all(entry.reservation == top.id for entry in inside)
    again = [math.fsum(e.epsilon for e in inside if part in e.parts) for part in top.parts]
    assert top.epsilon == pytest.approx(max(again, default=0.0), rel=1e-12)


def test_the_reason_stands_in_the_entry(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=2.0, **REPLACE).annotated("first study")
    for reason in ("", " ", None):
        with (
            pytest.raises(ValueError, match="because must be the reason"),
            ledger.parallel(1.0, n_parts=2, because=reason),
        ):
            raise AssertionError
    with ledger.parallel(1.0, n_parts=2, because=REASON) as parts:
        spend(parts.only(1), 0.25, **REPLACE)
    top, inside = PrivacyLedger.open(tmp_path / "a.ledger").entries()
    assert top.parameters == {"disjoint parts": "2", "because": REASON} and top.note == "first study"
    assert inside.parts == (1,) and top.epsilon == 0.25


def test_what_no_part_bounds_is_charged_to_all():
    ledger = PrivacyLedger(epsilon=50.0, **REPLACE)
    with ledger.parallel(30.0, n_parts=3, because=REASON) as parts:
        for k in range(3):
            spend(parts.only(k), 0.5, **ADD)  # who replaces a user may be in another part: 2 steps, all parts
    assert ledger.spent == (3.0, 0.0) or ledger.spent[0] == pytest.approx(3.0, rel=1e-12)
    assert [entry.parts for entry in ledger.entries()[1:]] == [(0, 1, 2)] * 3


def test_a_part_of_nothing():
    ledger = PrivacyLedger(epsilon=2.0, **ADD)
    with ledger.parallel(1.0, n_parts=2, because=REASON) as parts:
        for k in (-1, 2, True, 0.5):
            with pytest.raises(ValueError, match="part must be an integer from 0 to 1"):
                parts.only(k)
        with (
            pytest.raises(ValueError, match="cannot be divided again"),
            parts.only(0).parallel(0.5, n_parts=2, because=REASON),
        ):
            raise AssertionError
        left = parts.only(0)
    with pytest.raises(ValueError, match="is closed"):
        spend(left, 0.1)
    with pytest.raises(ValueError, match="n_parts"), ledger.parallel(1.0, n_parts=1, because=REASON):
        raise AssertionError
    with pytest.raises(BudgetExceededError), ledger.parallel(3.0, n_parts=2, because=REASON):
        raise AssertionError


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_parts_through_all_handles(tmp_path, seed):
    """Random histories through live, handed on and reopened handles; a ledger in memory agrees at every step."""
    rng, path = public_generator(seed), tmp_path / "a.ledger"
    terms = {"composition": ("basic", "filter")[seed % 2], **(ADD, REPLACE)[seed // 2]}
    terms |= {"epsilon": 6.0, "delta": 1e-3, "rows_per_user": 2}
    twin = PrivacyLedger(**terms)
    live = PrivacyLedger(path, **terms)
    pots, opened = [(live, twin)], []

    def pick(choices):
        return choices[int(rng.integers(len(choices)))]

    def again(handle):
        reopened = _handle(PrivacyLedger.open(path)._book, *handle._place)
        return pick([handle, pickle.loads(pickle.dumps(handle)), reopened])

    def both(handles, do):
        said = []
        for ledger in (again(handles[0]), handles[1]):
            try:
                said.append(do(ledger))
            except (BudgetExceededError, ValueError) as error:
                said.append(type(error).__name__)
        return said

    with ExitStack() as file_blocks, ExitStack() as twin_blocks:
        stacks = {path: file_blocks, None: twin_blocks}
        for step in range(45):
            if step % 12 == 0 and step < 36:
                n, epsilon = pick([2, 3]), pick([0.5, 1.0])
                parts = [
                    stacks[path if one is live else None].enter_context(
                        one.parallel(epsilon, 1e-5, n_parts=n, because=REASON)
                    )
                    for one in (live, twin)
                ]
                pots += [tuple(one.only(k) for one in parts) for k in range(n)]
                pots += [tuple(one.without(k) for one in parts) for k in range(n)]
            if step == 20:
                first = (stacks[path].pop_all(), stacks[None].pop_all())  # settled with releases still open
                for one in first:
                    one.close()
            if rng.random() < 0.6:
                price = {"epsilon": pick([0.05, 0.1, 0.3]), "delta": pick([0.0, 1e-7]), "rho": pick([None, 0.001])}
                kind = {"unit": pick(["user", "row"]), "adjacency": "add-remove", "events": [], "simulated": False}
                one, other = both(pick(pots), lambda ledger, p=price, k=kind: ledger.charge("c", **p, **k))
                assert one == other
                opened += [(one, price)] if isinstance(one, int) else []
            elif opened:
                number, price = opened.pop(int(rng.integers(len(opened))))
                lower = pick([True, False])
                new = {**price, "epsilon": price["epsilon"] * (0.5 if lower else 1.5), "rho": None}
                new["rho"] = None if price["rho"] is None else price["rho"] * (0.5 if lower else 1.5)
                change = "close_entry" if lower else "increase"
                one, other = both(
                    (live, twin), lambda ledger, n=number, p=new, c=change: getattr(ledger, c)(n, **p, events=[])
                )
                assert one == other
            fresh = PrivacyLedger.open(path)
            for name in ("spent", "remaining", "remaining_rho"):
                assert getattr(fresh, name) == getattr(live, name) == getattr(twin, name)
    kept = [
        [(e.id, e.cost, e.own_epsilon, e.reservation, e.parts, e.converted) for e in one.entries()]
        for one in (live, twin, PrivacyLedger.open(path))
    ]
    assert kept[0] == kept[1] == kept[2]
    for top in (entry for entry in live.entries() if entry.reservation is None):
        for part in top.parts:
            total = Totals()
            for entry in live.entries():
                if entry.reservation == top.id and part in entry.parts:
                    total = total.changed(NOTHING, entry.cost)
            assert total.within(top.cost)


# Folds ----------------------------------------------------------------------------------------------------------------

RNG = public_generator(3)
USERS = np.repeat(np.arange(120), 3)
X = RNG.uniform(-1, 1, size=(360, 2))
Y = X @ [1.0, -2.0]


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("composition", ["basic", "filter"])
def test_folds_cost_what_one_user_pays(adjacency, composition, tmp_path):
    cv = UserKFold(3)
    ledger = PrivacyLedger(
        tmp_path / "a.ledger", epsilon=9.0, delta=1e-3, unit="user", adjacency=adjacency, composition=composition
    )
    model = sp.UserLevelSGDRegressor(epsilon=1.0, delta=1e-7, radius=5.0, adjacency=adjacency)
    models = fit_folds(model, X, Y, user_ids=USERS, ledger=ledger, cv=cv)
    top, *inside = ledger.entries()
    prices = [entry.cost for entry in inside]
    assert len(models) == len(inside) == 3 and all(one.privacy_guarantee_.valid_for_release for one in models)
    sums = [
        [sum(getattr(p, name) for j, p in enumerate(prices) if j != k) for k in range(3)]
        for name in ("epsilon", "delta", "rho")
    ]
    assert (top.epsilon, top.delta, top.rho) == pytest.approx([max(each) for each in sums], rel=1e-12)
    assert "keyed hash" in top.parameters["because"] and "but its own" in top.parameters["because"]
    # Plain fits cost half as much again.
    plain = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="user", adjacency=adjacency, composition="basic")
    for rows, _ in cv.split(X, groups=USERS):
        model.set_params(ledger=plain).fit(X[rows], Y[rows], user_ids=USERS[rows])
    assert plain.spent[0] == pytest.approx(top.epsilon * 1.5, rel=1e-3)


def test_one_user_more_changes_only_the_fits_that_are_said():
    """Seeded fits replayed on a neighbour: the user's own fold is the same to the last bit, the others are not."""
    cv = UserKFold(4)
    ledger = PrivacyLedger(epsilon=500.0, delta=0.1, unit="user", adjacency="add-remove", composition="basic")
    model = sp.UserLevelMean(epsilon=5.0, adjacency="add-remove", random_state=0, bound=10.0, tau=1.0)
    for user in (1000, 1001, 1002, 1003, 1004):
        ids, rows = np.append(USERS, [user, user]), np.vstack([X, [[0.9, 0.9], [0.8, 0.9]]])
        [own] = [k for k, (_, test) in enumerate(cv.split(rows, groups=ids)) if len(rows) - 1 in test]
        with pytest.warns(UserWarning):
            one, other = (
                fit_folds(model, some, user_ids=who, ledger=ledger, cv=cv) for some, who in ((X, USERS), (rows, ids))
            )
        assert [k for k in range(4) if np.array_equal(one[k].mean_, other[k].mean_)] == [own]


def test_folds_are_all_or_nothing_and_refuse_other_splitters():
    ledger = PrivacyLedger(epsilon=1.9, delta=1e-3, composition="basic", **REPLACE)
    model = sp.UserLevelMean(epsilon=1.0, delta=1e-7)
    with pytest.raises(BudgetExceededError):
        fit_folds(model, X, user_ids=USERS, ledger=ledger, cv=UserKFold(3))
    assert ledger.entries() == []

    class Loose(UserKFold):
        """Deals anybody anywhere."""

    for cv in (3, Loose(3)):
        with pytest.raises(TypeError, match="cv must be a UserKFold"):
            fit_folds(model, X, user_ids=USERS, ledger=ledger, cv=cv)
    with pytest.raises(TypeError, match="ledger must be a PrivacyLedger"):
        fit_folds(model, X, user_ids=USERS, ledger=None)
    other = PrivacyLedger(epsilon=9.0, delta=1e-3)
    with pytest.raises(ValueError, match="no other ledger"):
        fit_folds(model.set_params(ledger=other), X, user_ids=USERS, ledger=ledger, cv=UserKFold(3))
    assert ledger.entries() == other.entries() == []
