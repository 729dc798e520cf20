"""Fits inside a search: released columns are within the price, and nothing dearer is drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.pipeline import make_pipeline

from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.model_selection import PrivateSearchCV
from skprivate.model_selection._candidates import Candidate
from skprivate.model_selection._inside import CandidateCosts, ContainedLedger, fit_cost
from skprivate.model_selection._scoring import Rows
from skprivate.privacy import (
    GaussianEvent,
    LaplaceEvent,
    Mechanism,
    PureEvent,
    compose_delta,
    compose_epsilon,
    gaussian_noise_multiplier,
    public_generator,
)

RNG = public_generator(0)
X = RNG.normal(size=(240, 3))
Y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)


class Draws(Mechanism):
    """Gaussian noise on so many zeros, so often, and perhaps a number more."""

    theorem = "Gaussian"
    made: list = []  # noqa: RUF012 (what was drawn in earnest)

    def __init__(self, multiplier, size=2, times=2, other=None, earnest=True):
        self.multiplier, self.size, self.times, self.other = multiplier, size, times, other
        self.earnest = earnest

    @property
    def events(self):
        other = [(self.other, 1)] if self.other else []
        return [(GaussianEvent(self.multiplier, self.size), self.times), *other]

    def run(self, data, release):
        zeros = np.zeros(self.size, dtype=np.int64)
        for _ in range(self.times):
            release.gaussian(zeros, sensitivity=1, noise_multiplier=self.multiplier)
        if self.other:
            release.discrete_laplace([0], sensitivity=1, epsilon=self.other.epsilon)
        if self.earnest:
            self.made.append(self)


class Drawing(PrivateEstimatorMixin, BaseEstimator):
    """Draws in earnest something else than in a trial."""

    _parameter_constraints = PRIVACY_CONSTRAINTS

    def __init__(self, how="", *, epsilon=1.0, delta=1e-6, random_state=None, ledger=None):
        self.how = how
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state
        self.ledger = ledger

    @fit_context()
    def fit(self, X, y):
        X = np.asarray(X)
        earnest = not (self.ledger and self.ledger.dry_run)
        each = gaussian_noise_multiplier(self.epsilon, self.delta / 2, 8)
        terms = {"size": X.shape[1]}
        if earnest:
            terms |= {
                "": {},
                "narrower": {"multiplier": each * (1 - 2.0**-40)},
                "wider": {"multiplier": each * 2},
                "again": {"times": 3},
                "fewer": {"times": 1},
                "longer": {"size": 2**14},
                "beside": {"other": PureEvent(self.epsilon / 1000, "discrete Laplace")},
            }[self.how]
        draws = Draws(**{"multiplier": each, "earnest": earnest, **terms})
        with self._releasing(draws, unit="row", adjacency="replace-one") as release:
            draws.run(X, release)
        self.classes_ = np.array([0, 1])
        return self


class Predicting(ClassifierMixin, Drawing):
    """The last step."""

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


class Columns(TransformerMixin, Drawing):
    """Hands on a public number of columns: as many as it says, and in a trial two."""

    _public_width = True

    def __init__(self, n=2, *, epsilon=1.0, delta=1e-6, random_state=None, ledger=None):
        super().__init__("", epsilon=epsilon, delta=delta, random_state=random_state, ledger=ledger)
        self.n = n

    def fit(self, X, y):
        super().fit(X, y)
        self.n_columns_ = 2 if self.ledger is not None and self.ledger.dry_run else self.n
        return self

    def transform(self, X):
        return np.tile(np.asarray(X)[:, :1], (1, self.n_columns_))


def search(model, **options):
    return PrivateSearchCV(model, {}, **{"epsilon": 4.0, "n_iter": 2, "random_state": 0, **options})


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch):
    monkeypatch.setattr(Draws, "made", [])


pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


@pytest.mark.parametrize("n", [1, 3])
def test_who_hands_on_other_columns_than_in_the_trial_is_refused_before_the_next_draw(n):
    with pytest.raises(RuntimeError, match=r"would draw something else .*Nothing was drawn for it"):
        search(make_pipeline(Columns(n), Predicting()), n_iter=1).fit(X, Y)
    assert len(Draws.made) == 1


@pytest.mark.parametrize("refit", [None, 0.3])
@pytest.mark.parametrize("how", ["narrower", "wider", "again", "fewer", "longer", "beside"])
@pytest.mark.parametrize("several", [False, True])
def test_nothing_else_is_drawn(how, several, refit):
    """It is refused before its first draw; in a pipeline after the draws of the step before."""
    model = make_pipeline(Columns(), Predicting(how)) if several else Predicting(how)
    for state in (0, None):
        Draws.made.clear()
        found = search(model, refit=refit, random_state=state)
        with pytest.raises(RuntimeError, match=r"would draw something else .*Nothing was drawn for it"):
            found.fit(X, Y)
        assert not hasattr(found, "best_estimator_")
        assert len(Draws.made) == several


def test_what_is_refused_may_lose():
    with pytest.raises(RuntimeError, match="every evaluation of the search failed"):
        search(Predicting("narrower"), error_score=math.nan).fit(X, Y)
    assert not Draws.made


def charge(ledger, label, events, **terms):
    said = [{**event.to_dict(), "count": count} for event, count in events]
    defaults = {"unit": "row", "adjacency": "replace-one", "simulated": False, "rho": None}
    return ledger.charge(label, **{**defaults, "epsilon": 1.0, "delta": 0.0, "events": said, **terms})


def contained(releases, n_steps, path=None):
    paid = [
        (label, "row", "replace-one", [{**e.to_dict(), "count": n} for e, n in events]) for label, events in releases
    ]
    price = fit_cost(paid, [(1.0, 0.0)] * len(paid), (1,) * n_steps)
    ledger = ContainedLedger(path, epsilon=1e9, delta=0.5, composition="basic")
    ledger.admit(price)
    return ledger, price


EVENTS = st.one_of(
    st.builds(GaussianEvent, st.sampled_from([2.0, 3.0]), st.sampled_from([1, 2, 40, 5000, 9000])),
    st.builds(PureEvent, st.sampled_from([0.1, 0.2]), st.just("Laplace")),
    st.builds(LaplaceEvent, st.sampled_from([0.1, 0.2])),
)
RELEASES = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(st.tuples(EVENTS, st.integers(1, 3)), min_size=1, max_size=2)),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    trial=RELEASES,
    sizes=st.lists(st.sampled_from([1, 2, 40, 4096, 4097, 8192, 10**5]), min_size=18, max_size=18),
    others=RELEASES,
    n_steps=st.integers(1, 2),
)
def test_what_is_admitted_costs_no_more_than_the_price(trial, sizes, others, n_steps):
    """Whatever is asked for, in any order: the trial's releases with other lengths, and others."""
    ledger, price = contained(trial, n_steps)
    sizes = iter(sizes)

    def resized(event):
        return replace(event, size=next(sizes)) if isinstance(event, GaussianEvent) else event

    longer = [(label, [(resized(event), n) for event, n in events]) for label, events in trial]
    drawn = []
    for label, events in (*longer, *others, *trial):
        try:
            charge(ledger, label, events)
        except RuntimeError:
            continue
        drawn += events
    assert len(ledger.entries()) <= len(trial)
    if not drawn:
        return
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        # δ of the rounding of noise is below the last digits: it is compared by itself.
        assert compose_delta(drawn, epsilon) <= compose_delta(price.events, epsilon) * (1 + 1e-9)
    assert sum(Fraction(e.total_variation) * n for e, n in drawn) <= sum(
        Fraction(e.total_variation) * n for e, n in price.events.items()
    )
    assert compose_epsilon(drawn, 1e-6) <= compose_epsilon(price.events, 1e-6) * (1 + 1e-9)


@pytest.mark.parametrize("n_steps", [1, 2])
@pytest.mark.parametrize("size", [39, 41])
def test_another_length_is_not_admitted(size, n_steps):
    ledger, price = contained([("a", [(GaussianEvent(2.0, 40), 1)])], n_steps)
    assert set(price.events) == {GaussianEvent(2.0, 40)}
    with pytest.raises(RuntimeError, match="a would draw something else"):
        charge(ledger, "a", [(GaussianEvent(2.0, size), 1)])
    charge(ledger, "a", [(GaussianEvent(2.0, 40), 1)])
    with pytest.raises(RuntimeError, match="a would draw something else"):
        charge(ledger, "a", [(GaussianEvent(2.0, 40), 1)])


def test_nothing_is_added_and_nothing_adaptive_admitted():
    ledger, _ = contained([("a", [(PureEvent(1.0), 1)])], 1)
    with pytest.raises(RuntimeError, match="something else"):
        charge(ledger, "a", [(PureEvent(1.0), 1)], adaptive=True)
    for terms in ({"unit": "user"}, {"adjacency": "add-remove"}):
        with pytest.raises(RuntimeError, match="something else"):
            charge(ledger, "a", [(PureEvent(1.0), 1)], **terms)
    entry = charge(ledger, "a", [(PureEvent(1.0), 1)])
    with pytest.raises(RuntimeError, match="something else"):
        ledger.increase(entry, epsilon=1.0, delta=0.0, rho=None, events=[])


class Twice(OneToOneFeatureMixin, Drawing):
    """Releases twice, each time for what it is given."""

    def fit(self, X, y):
        super().fit(X, y)
        return super().fit(X, y)

    def transform(self, X):
        return np.asarray(X)


def test_steps_share_a_budget_by_how_often_they_release():
    """One release each is only assumed: a trial that makes more divides the budget again."""
    model = make_pipeline(Twice(epsilon=1.0), Predicting(epsilon=3.0))
    priced = CandidateCosts([Candidate(model, {})], Rows(X, Y, {}), np.array([0, 1]))
    assert priced.counts(0) == (1, 1)
    price = priced.cost(0, 5.0, 1e-6)
    assert price.counts == priced.counts(0) == (2, 1)
    # Of 2·1 + 1·3 the first step has 1/5, twice.
    once = [gaussian_noise_multiplier(epsilon, 1e-6 / 6, 8) for epsilon in (1.0, 3.0)]
    found = sorted(event.noise_multiplier for event in price.events)
    assert found == pytest.approx(sorted(once), rel=1e-6)
    assert search(model, n_iter=1).fit(X, Y).privacy_guarantee_.epsilon <= 4.0
