"""What is published carries no handle to a ledger, wherever it lies."""

import pickle

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline

from skprivate import UserLevelSGDRegressor, guarantee_of
from skprivate.inspection import without_ledger
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import PrivacyLedger, public_generator

X = public_generator(0).uniform(size=(400, 2))
Y = X @ [1.0, -1.0]


def test_no_ledger_is_left_and_the_model_is_the_same(tmp_path):
    ledger = PrivacyLedger(tmp_path / "secret-path.ledger", epsilon=20.0, delta=1e-3).annotated("secret note")
    scaler = ColumnTransformer([("both", PrivateStandardScaler(ledger=ledger), [0, 1])])
    vote = VotingRegressor([("a", UserLevelSGDRegressor(ledger=ledger))])
    model = make_pipeline(scaler, vote).fit(X, Y)
    names = [name for name in model.get_params() if name.endswith("__ledger")]
    parameters_only = pickle.dumps(pickle.loads(pickle.dumps(model)).set_params(**dict.fromkeys(names)))
    assert b"secret-path" in parameters_only  # fitted steps are copies, with ledgers of their own

    published = pickle.dumps(without_ledger(model))
    for word in (b"secret-path", b"secret note", b"LazyBook"):
        assert word in pickle.dumps(model) and word not in published
    copy = pickle.loads(published)
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert guarantee_of(copy) == guarantee_of(model)
    assert model.get_params()[names[0]] == ledger  # the model itself keeps it


def test_a_ledger_in_memory_does_not_stand_in_the_way():
    model = UserLevelSGDRegressor(ledger=PrivacyLedger(epsilon=2.0, delta=1e-3)).fit(X, Y)
    assert pickle.loads(pickle.dumps(without_ledger(model))).ledger is None
