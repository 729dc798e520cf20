"""What is published carries no ledger, no path and no generator, wherever it lies, and no simulated noise."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from joblib import Memory
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_common import ESTIMATORS as ALL

from skprivate import CuratedBagGAMRegressor, NoGuaranteeError, UserLevelSGDRegressor, guarantee_of
from skprivate.base import PrivateEstimatorMixin
from skprivate.inspection import to_release
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler
from skprivate.privacy import PrivacyLedger, public_generator
from skprivate.utils.estimator_checks import default_data

ESTIMATORS = [estimator for estimator in ALL if isinstance(estimator, PrivateEstimatorMixin)]
X = public_generator(0).uniform(size=(400, 2))
Y = X @ [1.0, -1.0]


def with_options(rows, **options):
    return rows


def test_no_ledger_is_left_and_the_model_is_the_same(tmp_path):
    ledger = PrivacyLedger(tmp_path / "secret-path.ledger", epsilon=20.0, delta=1e-3).annotated("secret note")
    scaler = ColumnTransformer([("both", PrivateStandardScaler(ledger=ledger), [0, 1])])
    vote = VotingRegressor([("a", UserLevelSGDRegressor(ledger=ledger))])
    model = make_pipeline(scaler, vote).fit(X, Y)
    names = [name for name in model.get_params() if name.endswith("__ledger")]
    parameters_only = pickle.dumps(pickle.loads(pickle.dumps(model)).set_params(**dict.fromkeys(names)))
    assert b"secret-path" in parameters_only  # fitted steps are copies, with ledgers of their own

    published = pickle.dumps(to_release(model))
    for word in (b"secret-path", b"secret note", b"LazyBook"):
        assert word in pickle.dumps(model) and word not in published
    copy = pickle.loads(published)
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert guarantee_of(copy) == guarantee_of(model)
    assert model.get_params()[names[0]] == ledger  # the model itself keeps it


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning", "ignore::skprivate.privacy.LedgerUnitWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_every_private_estimator_has_a_release(estimator, tmp_path):
    data = default_data(estimator, public_generator(0), 60)
    ledger = PrivacyLedger(tmp_path / "secret-path.ledger", epsilon=1e3, delta=0.5)
    model = clone(estimator).set_params(random_state=None, ledger=ledger)
    model.fit(*([data.X] if data.y is None else [data.X, data.y]), **data.metadata)
    copy = to_release(model)
    assert copy.ledger is None and model.ledger is ledger and type(copy) is type(model)
    assert b"secret-path" in pickle.dumps(model) and b"secret-path" not in pickle.dumps(copy)
    assert copy.privacy_guarantee_ == model.privacy_guarantee_
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(copy.predict(data.X), model.predict(data.X))


def test_a_ledger_in_memory_does_not_stand_in_the_way():
    model = UserLevelSGDRegressor(ledger=PrivacyLedger(epsilon=2.0, delta=1e-3)).fit(X, Y)
    assert pickle.loads(pickle.dumps(to_release(model))).ledger is None


@pytest.mark.parametrize("seed", [0, np.random.RandomState(0)], ids=["int", "RandomState"])
def test_simulated_noise_is_refused_unless_asked_for(seed):
    model = UserLevelSGDRegressor(random_state=seed).fit(X, Y)
    whole = make_pipeline(PublicScaler.from_bounds(0, 1), model).fit(X, Y)
    for fitted in (model, whole):
        with pytest.raises(ValueError, match=r"valid for release, got .*simulated.*random_state=None"):
            to_release(fitted)
        copy = to_release(fitted, allow_invalid=True)
        np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
        assert (b"numpy.random" in pickle.dumps(fitted)) == (seed != 0)
        assert b"numpy.random" not in pickle.dumps(copy)


def test_one_simulated_member_is_enough_to_refuse():
    vote = VotingRegressor([("a", UserLevelSGDRegressor()), ("b", UserLevelSGDRegressor(random_state=1))]).fit(X, Y)
    with pytest.raises(ValueError, match="simulated"):
        to_release(vote)


def test_no_privacy_is_refused():
    model = CuratedBagGAMRegressor(epsilon=None).fit([["a"], ["b"]] * 50, [0.0, 1.0] * 50)
    with pytest.raises(ValueError, match="promises nothing"):
        to_release(model)
    assert to_release(model, allow_invalid=True).predict([["a"]]) == model.predict([["a"]])


def test_no_guarantee_no_release():
    leaking = make_pipeline(PublicScaler.from_bounds(0, 1), LinearRegression()).fit(X, Y)
    with pytest.raises(NoGuaranteeError):
        to_release(leaking)


@pytest.mark.filterwarnings("ignore:Persisting input arguments took")  # on a busy machine
def test_caches_and_paths_stay_at_home(tmp_path):
    for memory in (str(tmp_path / "secret-path"), Memory(tmp_path / "secret-path", verbose=0)):
        where = FunctionTransformer(with_options, kw_args={"where": Path("secret-path")})
        steps = [("scale", PublicScaler.from_bounds(0, 1)), ("where", where), ("model", UserLevelSGDRegressor())]
        model = Pipeline(steps, memory=memory).fit(X, Y)
        with pytest.raises(NoGuaranteeError, match="repeats noise"):
            to_release(model)
        copy = to_release(model, allow_invalid=True)
        assert copy.memory is None and copy[1].kw_args == {"where": None} and model.memory is memory
        assert b"secret-path" not in pickle.dumps(copy)
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_what_cannot_be_pickled_cannot_be_published():
    model = make_pipeline(FunctionTransformer(lambda rows: rows), UserLevelSGDRegressor()).fit(X, Y)
    with pytest.raises(TypeError, match="pickled to be published, got Pipeline"):
        to_release(model)
