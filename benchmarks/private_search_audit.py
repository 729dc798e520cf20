"""Audits of whole searches, between neighbours on which they leak most, and of a copy with half the noise.

python benchmarks/private_search_audit.py [--seconds S]

The candidates release a noisy sum of their training rows and predict it, and a prediction is scored by itself
alone: the search keeps the largest of its noisy sums, so that the choice tells what each of them tells, and more. The
neighbours differ in one training row, or in one held-out row, on which the score is 0 or 1.
"""

import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext

import numpy as np
from _common import parse_args, write_table
from sklearn.base import BaseEstimator, RegressorMixin

from skprivate.audit import audit_estimator
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, fit_context
from skprivate.model_selection import PrivateSearchCV
from skprivate.model_selection._scoring import Rows, deal
from skprivate.privacy import LaplaceEvent, Mechanism
from skprivate.utils.estimator_checks import half_noise

EPSILON, N_ROWS, N_ITER = 4.0, 40, 5.0


class Sum(Mechanism):
    """A sum of numbers in [0, 1], with Laplace noise."""

    theorem = "Laplace"

    def __init__(self, epsilon):
        self.epsilon = epsilon

    @property
    def events(self):
        return [(LaplaceEvent(self.epsilon), 1)]

    def run(self, data, release):
        steps = np.rint(np.clip(data, 0.0, 1.0) * 1024).astype(np.int64)
        return float(release.laplace(int(steps.sum()), sensitivity=1024, epsilon=self.epsilon)) / 1024


class PredictsItsSum(PrivateEstimatorMixin, RegressorMixin, BaseEstimator):
    """Predicts what it released."""

    _parameter_constraints = PRIVACY_CONSTRAINTS

    def __init__(self, tag=0, *, epsilon=1.0, random_state=None, ledger=None):
        self.tag = tag
        self.epsilon = epsilon
        self.random_state = random_state
        self.ledger = ledger

    @fit_context()
    def fit(self, X, y):
        mechanism = Sum(self.epsilon)
        with self._releasing(mechanism, unit="row", adjacency="replace-one") as release:
            self.sum_ = mechanism.run(np.asarray(X)[:, 0], release)
        return self

    def predict(self, X):
        return np.full(len(X), self.sum_)


def largest_sum(y_true, y_pred):
    return y_pred


def own_target(y_true, y_pred):
    return y_true


def seen(search):
    return np.array([search.best_estimator_.sum_, search.best_score_])


def audited(where, noise, seconds):
    """One audit, as a row of the table."""
    warnings.simplefilter("ignore")
    X, y = np.zeros((N_ROWS, 1)), np.zeros(N_ROWS)
    # Positions are dealt by public numbers alone: a search deals them the same way.
    parts = deal(Rows(np.arange(N_ROWS)[:, None], y, {}), None, 0.25, 0, by_user=False)
    X_other, y_other = X.copy(), y.copy()
    if where == "training row":
        X_other[int(parts.train.X[0, 0])] = 1.0
        scoring, bounds = largest_sum, (-1.0, 2.0)
    else:
        y_other[int(parts.held_out.X[0, 0])] = 1.0
        scoring, bounds = own_target, (0.0, 1.0)
    search = PrivateSearchCV(
        PredictsItsSum(),
        {"tag": [0, 1]},
        epsilon=EPSILON,
        delta=0.0,
        n_iter=N_ITER,
        scoring=scoring,
        score_bounds=bounds,
        predict_by="batch",
    )
    with half_noise() if noise == "half" else nullcontext():
        found = audit_estimator(
            search,
            X,
            y,
            method="black-box",
            neighbours=(X_other, y_other),
            observable=seen,
            n_runs=10**6,
            max_seconds=seconds,
            simulate=True,
            random_state=0,
        )
    row = [
        where,
        noise,
        EPSILON,
        found.evidence.n_runs,
        found.epsilon_lower_bound,
        found.violated,
        round(found.evidence.seconds),
    ]
    print(*row, flush=True)
    return row


if __name__ == "__main__":
    args = parse_args(__doc__.splitlines()[0], seconds={"type": float, "default": 180.0})
    cases = [(where, noise) for where in ("training row", "held-out row") for noise in ("as stated", "half")]
    with ProcessPoolExecutor(len(cases)) as pool:
        table = list(pool.map(audited, *zip(*cases, strict=True), [args.seconds] * len(cases)))
    columns = ["neighbours differ in a", "noise", "stated ε", "fits", "proven ε", "refuted", "CPU seconds"]
    write_table("private_search_audit", columns, table)
