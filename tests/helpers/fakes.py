"""A small honest private estimator, and one with each fault that a privacy check is there for."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skprivate._sklearn import StrOptions, _fit_context
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.privacy import GaussianEvent, exact_sum, gaussian_noise_multiplier, interval_contributions, open_release

BITS = 30


class NoisyMean(PrivateEstimatorMixin, RegressorMixin, BaseEstimator):
    """Predicts a private mean of the target, clipped to [-1, 1], one vote for each user: its smallest."""

    __metadata_request__fit: ClassVar[dict] = {"user_ids": True}

    _parameter_constraints: ClassVar[dict] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_CONSTRAINT,
        "link": [StrOptions({"identity", "double"})],
    }

    def __init__(self, epsilon=1.0, *, delta=1e-6, link="identity", random_state=None, ledger=None):
        self.epsilon = epsilon
        self.delta = delta
        self.link = link
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, user_ids=None):
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = y.astype(np.float64)
        users = self._users(user_ids, len(X))
        # The first row of a user in a canonical order: a pure function of its own rows.
        order = np.lexsort((y, users))
        first = order[np.r_[True, np.diff(users[order]) > 0]]
        votes = interval_contributions(y[first], -1.0, 1.0, bits=BITS)
        z = gaussian_noise_multiplier(self.epsilon, self.delta)
        release = self._open(plan=[(GaussianEvent(z, 1), 1)])
        self.mean_ = self._draw(release, exact_sum(votes), z) / len(votes)
        self.privacy_guarantee_ = release.close()
        return self

    def _draw(self, release, total, z):
        return release.gaussian(total, sensitivity=2**BITS, noise_multiplier=z, step=2.0 ** (1 - BITS))

    def _users(self, user_ids, n_rows):
        if user_ids is None:
            return np.arange(n_rows)
        user_ids = np.asarray(user_ids)
        if user_ids.shape != (n_rows,):
            raise ValueError(f"user_ids must have shape ({n_rows},), got {user_ids.shape}.")
        return np.unique(user_ids, return_inverse=True)[1]

    def _open(self, plan=()):
        return open_release(
            epsilon=self.epsilon,
            delta=self.delta,
            unit="user",
            adjacency="replace-one",
            random_state=self.random_state,
            ledger=self.ledger,
            label=type(self).__name__,
            theorem="Gaussian mechanism",
            plan=plan,
        )

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.full(len(X), self.mean_ * (2 if self.link == "double" else 1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class _After(NoisyMean):
    """An honest fit, and then something that spoils it."""

    def fit(self, X, y, user_ids=None):
        super().fit(X, y, user_ids=user_ids)
        self._spoil(np.asarray(X), np.asarray(y))
        return self


class KeepsRows(_After):
    def _spoil(self, X, y):
        self.support_ = X[:3].copy()


class KeepsOneValueDeep(_After):
    def _spoil(self, X, y):
        self._cache = {"a": [{"b": (1, float(y[7]))}]}


class KeepsInClosure(_After):
    def _spoil(self, X, y):
        self._predict = _Closure(X)

    def __getstate__(self):
        state = super().__getstate__()
        state.pop("_predict", None)
        return state


class _Closure:
    def __init__(self, X):
        self.call = lambda rows: X[:2]


class KeepsInPickleOnly(_After):
    def _spoil(self, X, y):
        self._hidden = _Pickles(X)


class _Pickles:
    """Shows nothing but when pickled."""

    __slots__ = ("_get",)

    def __init__(self, X):
        object.__setattr__(self, "_get", _StaticText(X))


class _StaticText(str):
    """A text that carries bytes along when it is pickled."""

    def __new__(cls, X):
        text = super().__new__(cls, "text")
        text.X = X
        return text


class KeepsStatistic(_After):
    def _spoil(self, X, y):
        self.scale_ = X.std(axis=0)


class KeepsCount(_After):
    def _spoil(self, X, y):
        self.n_positive_ = int(np.sum(y > np.median(X)))


class KeepsSize(_After):
    def _spoil(self, X, y):
        self.order_ = np.argsort(np.arange(len(X)) * 7 % 101).astype(np.int64)


class WarnsOfData(_After):
    def _spoil(self, X, y):
        warnings.warn(f"largest value: {np.round(X.max(), 3)}", UserWarning, stacklevel=2)


class PrintsData(_After):
    def _spoil(self, X, y):
        print("first row", X[0])


class ShowsData(_After):
    def _spoil(self, X, y):
        object.__setattr__(self, "_text_", None)
        ShowsData.shown = X[0, 0]

    def _repr_html_(self):
        return f"<b>{self.shown}</b>"


class ChangesParameter(_After):
    def _spoil(self, X, y):
        self.link = "double"


class FillsParameter(_After):
    def _spoil(self, X, y):
        self.epsilon = float(self.epsilon * 1.0)


class PlansFromData(NoisyMean):
    def _open(self, plan=()):
        return super()._open(plan)

    def fit(self, X, y, user_ids=None):
        self._rounds = 1 + int(np.max(np.abs(np.asarray(y, dtype=float))) > 100)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        z = gaussian_noise_multiplier(self.epsilon, self.delta, n_draws=self._rounds)
        release = self._open([(GaussianEvent(z, 1), self._rounds)])
        for _ in range(self._rounds):
            self.mean_ = release.gaussian(np.clip(y, -1, 1).mean(), sensitivity=2 / len(y), noise_multiplier=z)
        del self._rounds
        self.privacy_guarantee_ = release.close()
        return self


class RefusesLargeValues(NoisyMean):
    def fit(self, X, y, user_ids=None):
        if np.max(np.abs(X)) > 1e3:
            raise ValueError("X must be scaled.")
        return super().fit(X, y, user_ids=user_ids)


class AssertsGuarantee(_After):
    def _spoil(self, X, y):
        from dataclasses import replace

        self.privacy_guarantee_ = replace(self.privacy_guarantee_, epsilon=self.epsilon / 10)


class SpendsMore(NoisyMean):
    def fit(self, X, y, user_ids=None):
        budget = self.epsilon
        try:
            self.epsilon = 2 * budget
            return super().fit(X, y, user_ids=user_ids)
        finally:
            self.epsilon = budget


class SameNoise(NoisyMean):
    def _open(self, plan=()):
        kept, self.random_state = self.random_state, 7
        try:
            return super()._open(plan)
        finally:
            self.random_state = kept


class HidesSimulation(_After):
    def _spoil(self, X, y):
        from dataclasses import replace

        self.privacy_guarantee_ = replace(self.privacy_guarantee_, valid_for_release=True)


class ValidatesLate(NoisyMean):
    def _users(self, user_ids, n_rows):
        self._open([(GaussianEvent(gaussian_noise_multiplier(self.epsilon, self.delta), 1), 1)])
        return super()._users(user_ids, n_rows)


class AcceptsNaN(NoisyMean):
    def fit(self, X, y, user_ids=None):
        return super().fit(np.nan_to_num(np.asarray(X, dtype=float)), y, user_ids=user_ids)


class ShowsDataInError(NoisyMean):
    def fit(self, X, y, user_ids=None):
        if not np.all(np.isfinite(np.asarray(X, dtype=float))):
            raise ValueError(f"X is not finite: {np.asarray(X)[:9]}")
        return super().fit(X, y, user_ids=user_ids)


class DrawsThenAsks(NoisyMean):
    """Draws with a small part of its budget before it asks for the rest."""

    def fit(self, X, y, user_ids=None):
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._validate_params()
        self._users(user_ids, len(X))
        release = self._open()
        value = np.clip(y.astype(float), -1, 1).mean()
        self.first_ = release.laplace(value, sensitivity=2 / len(y), epsilon=self.epsilon / 8)
        self.mean_ = release.laplace(value, sensitivity=2 / len(y), epsilon=7 * self.epsilon / 8)
        self.privacy_guarantee_ = release.close()
        return self


class ForgetsLedger(NoisyMean):
    def _open(self, plan=()):
        kept, self.ledger = self.ledger, None
        try:
            return super()._open(plan)
        finally:
            self.ledger = kept


class CopiesLedger(NoisyMean):
    """Spends from a ledger of its own in other processes."""

    def __setstate__(self, state):
        super().__setstate__(state | {"ledger": None})


class IgnoresUsers(NoisyMean):
    def _users(self, user_ids, n_rows):
        super()._users(user_ids, n_rows)
        return np.arange(n_rows)


class DropsRoutedUsers(NoisyMean):
    __metadata_request__fit: ClassVar[dict] = {"user_ids": False}


class KeepsDataAsPublic(BaseEstimator):
    """Says that it needs no fit, but learns."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class HalvesSensitivity(NoisyMean):
    def _draw(self, release, total, z):
        return release.gaussian(total, sensitivity=2 ** (BITS - 1), noise_multiplier=z, step=2.0 ** (1 - BITS))


class SumsFloats(NoisyMean):
    def _draw(self, release, total, z):
        return release.gaussian(float(total) * 2.0 ** (1 - BITS) / 3, sensitivity=2 / 3, noise_multiplier=z) * 3


class HalvesNoise(NoisyMean):
    def _draw(self, release, total, z):
        from skprivate.utils.estimator_checks import half_noise

        with half_noise():
            return super()._draw(release, total, z)
