"""What every private estimator is quoted is what the ledger shows after its fit, to the last bit."""

from __future__ import annotations

import pytest
from helpers.variants import VARIANTS
from sklearn.base import clone

from skprivate import PPMHalfspaceClassifier, RandomBagClassifier, UserLevelSelector, UserLevelSGDRegressor
from skprivate.base import PrivateEstimatorMixin
from skprivate.inspection import quote
from skprivate.model_selection import PrivateSearchCV
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.utils.discovery import all_estimators

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

#: What of an entry is about who, when and where.
_CIRCUMSTANCES = ("id", "opened", "closed", "process_id", "simulated", "parameters")


def prices(entries):
    return [{key: value for key, value in entry.to_dict().items() if key not in _CIRCUMSTANCES} for entry in entries]


def test_every_private_estimator_has_variants():
    private = {kind for _, kind in all_estimators() if issubclass(kind, PrivateEstimatorMixin)}
    assert private <= set(VARIANTS)


#: Left to the slow run.
LONG = {PrivateSearchCV, PPMHalfspaceClassifier, RandomBagClassifier, UserLevelSGDRegressor, UserLevelSelector}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind in LONG else ())
        for kind in sorted(VARIANTS, key=lambda kind: kind.__name__)
    ],
    ids=lambda kind: kind.__name__,
)
def test_a_fit_costs_what_was_quoted(kind):
    for k, (instance, make_data) in enumerate(VARIANTS[kind]):
        data = make_data(instance, public_generator(k), 20)
        ledger = PrivacyLedger(epsilon=1e9, delta=0.9, composition="basic")
        quoted = quote(instance, data.X, data.y, **data.metadata, ledger=ledger)
        model = clone(instance).set_params(ledger=ledger)
        model.fit(data.X, data.y, **data.metadata)
        if getattr(model, "releases_in", "fit") == "transform":
            model.transform(data.X)
        assert quoted.exact and prices(quoted.entries) == prices(ledger.entries()), instance
        assert quoted.spent == ledger.spent and ledger.spent > (0.0, 0.0), instance
        assert (quoted.unit, quoted.adjacency) == (ledger.unit, ledger.adjacency), instance
