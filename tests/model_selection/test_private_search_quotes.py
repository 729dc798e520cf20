"""A private search costs what a ledger quotes for it: pipelines, lists of estimators, a share for the last fit."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skprivate import UserLevelSGDClassifier, guarantee_of
from skprivate.inspection import quote
from skprivate.model_selection import PrivateSearchCV
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler
from skprivate.privacy import PrivacyLedger, public_generator

X = public_generator(1).normal(size=(180, 2))
Y = (X @ [1.0, -1.0] > 0).astype(int)
USERS = np.arange(180) // 3
MODEL = UserLevelSGDClassifier(classes=[0, 1], max_iter=2)
SCALED = make_pipeline(PrivateStandardScaler(0.3, delta=0.0), MODEL)
SEARCHES = {
    "pipeline": (SCALED, {"privatestandardscaler__with_mean": [True, False]}),
    "a step is a candidate": (
        SCALED,
        {"privatestandardscaler": [PrivateStandardScaler(0.3, delta=0.0), PublicScaler()]},
    ),
    # Candidates draw differently: steps, numbers of steps, and shares of the budget are not the same.
    "list": ([("plain", MODEL), ("scaled", SCALED)], {"plain": {"max_iter": [2, 3]}}),
}


@pytest.mark.parametrize(
    ("name", "refit"),
    [
        ("pipeline", None),
        *(
            pytest.param(name, refit, marks=pytest.mark.slow)
            for name, refit in (("pipeline", 0.3), ("a step is a candidate", None), ("list", None), ("list", 0.3))
        ),
    ],
)
def test_it_costs_what_was_quoted(name, refit):
    estimator, grid = SEARCHES[name]
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5, unit="user", adjacency="replace-one")
    search = PrivateSearchCV(estimator, grid, epsilon=4.0, n_iter=2, refit=refit, ledger=ledger)
    quoted = quote(search, X, Y, user_ids=USERS, ledger=ledger)
    assert quoted.admitted and not ledger.entries()
    search.fit(X, Y, user_ids=USERS)
    (entry,), (said,) = ledger.entries(), quoted.entries
    assert (said.cost, said.unit, said.adjacency) == (entry.cost, entry.unit, entry.adjacency)
    assert quoted.spent == ledger.spent
    stated = guarantee_of(search.best_estimator_)
    assert (quoted.epsilon, quoted.delta) == (entry.epsilon, entry.delta) == (stated.epsilon, stated.delta)
    assert 3.9 < stated.epsilon <= 4.0
