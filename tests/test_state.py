"""After a method that learns, an object holds what it set: nothing of an earlier fit, nor of one that failed."""

import pickle
import threading
from copy import copy
from itertools import permutations

import numpy as np
import pytest
from helpers.variants import VARIANTS
from sklearn.base import BaseEstimator, clone

from skprivate import PrivacyGuarantee, UserLevelSelector, guarantee_of, to_release
from skprivate.aggregate import CuratedBagGAMRegressor, RandomBagRegressor
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.model_selection import PrivateSearchCV
from skprivate.preprocessing import PrivateSplineTransformer
from skprivate.privacy import public_generator

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

X = public_generator(0).uniform(0, 1, (400, 2))
Y = X[:, 0] + X[:, 1]
_COSTLY = (PrivateSearchCV, UserLevelSelector)


def few(kind):
    """Some ways to set up an estimator, far from each other."""
    found = VARIANTS[kind]
    n = 2 if kind in _COSTLY else 4
    return [found[i] for i in np.linspace(0, len(found) - 1, n).astype(int)]


def fitted(model, make, seed):
    data = make(model, public_generator(seed), 20)
    return model.fit(data.X, *([] if data.y is None else [data.y]), **data.metadata)


@pytest.mark.parametrize("kind", VARIANTS, ids=lambda kind: kind.__name__)
def test_after_two_fits_an_object_has_the_attributes_of_the_second_alone(kind):
    chosen = few(kind)
    alone = [fitted(clone(model), make, k) for k, (model, make) in enumerate(chosen)]
    for first, second in permutations(range(len(chosen)), 2):
        options, make = chosen[second]
        model = copy(alone[first]).set_params(**clone(options).get_params(deep=False))
        fitted(model, make, second)
        assert vars(model).keys() == vars(alone[second]).keys(), (alone[first], options)


def test_what_a_fit_sets_on_some_paths_only_is_not_published_by_another():
    """Medians of a first fit were published with a second one that spends nothing."""
    model = PrivateSplineTransformer(epsilon=20.0).fit(X)
    pickle.dumps(model)
    model.set_params(epsilon=0.001).fit(X)
    fresh = PrivateSplineTransformer(epsilon=0.001).fit(X)
    assert guarantee_of(model).epsilon == 0 and vars(model).keys() == vars(fresh).keys()
    assert vars(to_release(model)).keys() == vars(to_release(fresh)).keys()


class Both(PrivateEstimatorMixin, BaseEstimator):
    """Learns in several ways, and can be interrupted at the end of each."""

    _parameter_constraints = {**PRIVACY_CONSTRAINTS, "name": [str], "interrupt": [object]}  # noqa: RUF012

    def __init__(self, epsilon=1.0, *, name="a_", interrupt=None, random_state=None, ledger=None):
        self.epsilon, self.name, self.interrupt = epsilon, name, interrupt
        self.random_state, self.ledger = random_state, ledger

    @fit_context()
    def fit(self, X, y=None):
        return self._learn(X)

    @fit_context()
    def partial_fit(self, X, y=None):
        self.n_ = getattr(self, "n_", 0) + len(X)
        return self._learn(X)

    def _learn(self, X):
        setattr(self, self.name, X.shape)
        self.same_ = "same"
        if self.interrupt is not None:
            self.interrupt(self)
        return self


class Before(Both):
    """Sets an attribute before it calls the fit that is decorated."""

    def fit(self, X, y=None):
        self.first_ = len(X)
        return super().fit(X)


class Within(Both):
    """A fit that is decorated calls one that is."""

    @fit_context()
    def fit(self, X, y=None):
        self.first_ = len(X)
        return super().fit(X)


def learnt(model):
    return {name for name in vars(model) if name.endswith("_")}


@pytest.mark.parametrize("kind", [Both, Before, Within])
def test_what_a_class_of_ones_own_sets_stays_if_this_fit_set_it(kind):
    model, more = kind(), set() if kind is Both else {"first_"}
    model.note = "of the user"
    model.set_params(name="b_").fit(X)
    model.set_params(name="a_").fit(X)
    for one in (model, pickle.loads(pickle.dumps(model))):
        assert learnt(one.set_params(name="c_").fit(X[:3])) == {"c_", "same_"} | more
        assert one.note == "of the user" and (not more or one.first_ == 3)


def test_a_fit_that_adds_to_an_earlier_one_keeps_it():
    model = Both().partial_fit(X).set_params(name="b_").partial_fit(X)
    assert learnt(model) == {"a_", "b_", "n_", "same_"} and model.n_ == 800
    assert learnt(model.fit(X)) == {"b_", "same_"}


def fail(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_what_fails_changes_nothing(method):
    model = Both().fit(X).set_params(name="b_", interrupt=fail)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(X)
    assert vars(model) == before and learnt(model) == {"a_", "same_"}


def test_others_see_the_earlier_fit_until_the_next_one_is_done():
    """A service predicts while it fits anew; a parameter that is set meanwhile stays set."""
    model, seen = Both().fit(X), []

    def look(inner):
        watcher = threading.Thread(target=lambda: seen.append(learnt(model)))
        watcher.start()
        watcher.join()
        model.epsilon = 2.0

    model.set_params(name="b_", interrupt=look).fit(X)
    assert seen == [{"a_", "same_"}] and learnt(model) == {"b_", "same_"} and model.epsilon == 2.0


def test_a_fit_of_the_same_object_within_a_fit_is_another_one():
    model, within = Both(), Both(name="c_")

    def again(inner):
        if model.name == "a_":
            model.set_params(name="b_").fit(X)
            within.fit(X)

    model.set_params(interrupt=again).fit(X)
    assert learnt(model) == {"a_", "same_"} and learnt(within) == {"c_", "same_"}


@pytest.mark.parametrize("kind", [kind for kind in VARIANTS if kind not in _COSTLY], ids=lambda kind: kind.__name__)
def test_an_interrupted_fit_leaves_the_object_as_it_was(kind, monkeypatch):
    options, make = few(kind)[0]
    model = fitted(clone(options), make, 0)
    before = dict(vars(model))
    learns = "_randomise" if hasattr(kind, "_randomise") else "_releasing"
    monkeypatch.setattr(kind, learns, fail)
    with pytest.raises(KeyboardInterrupt):
        fitted(model, make, 0)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.parametrize(("kind", "last"), [(RandomBagRegressor, "_keep"), (CuratedBagGAMRegressor, "_learn")])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_reports_that_are_learned_in_vain_change_nothing(kind, last, error, monkeypatch):
    """The coefficients of a report at a large budget were published with the guarantee of an earlier fit."""
    report = kind(epsilon=20.0).fit(X, Y).bags_
    model = kind(epsilon=0.5).fit(X, Y)
    before, learn = dict(vars(model)), getattr(kind, last)

    def stop(self, *args, **kwargs):
        learn(self, *args, **kwargs)
        raise error("here")

    monkeypatch.setattr(kind, last, stop)
    with pytest.raises(error):
        model.fit_bags(X, report)
    assert all(vars(model)[name] is value for name, value in before.items())
    monkeypatch.undo()
    model.fit_bags(X, report)
    assert vars(model).keys() == vars(kind(epsilon=0.5).fit_bags(X, report)).keys()
    assert isinstance(model.privacy_guarantee_, PrivacyGuarantee) and model.privacy_guarantee_.epsilon > 19


class Bound(Both):
    """Keeps a method of its own, as some keep a function to predict with."""

    def _learn(self, X):
        self.f_ = self.bound
        return super()._learn(X)

    def bound(self):
        return self.epsilon, learnt(self)


def test_a_method_that_a_fit_keeps_sees_what_the_object_holds():
    model = Bound().fit(X).fit(X).set_params(epsilon=3.0)
    model.later_ = 1
    assert model.f_() == (3.0, learnt(model))
