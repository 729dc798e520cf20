"""Networks on random bags: released sums only, any units, any module, never far worse than a constant."""

import json
import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from skprivate import PrivacyLedger
from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, RandomBagRegressor

LOSSES = ("likelihood", "log", "squared", "debiased", "easyllp")
FEW = {"epochs": 8, "hidden": (16,), "folds": 2}
SOME = {"epochs": 25, "folds": 2, "learning_rate": 0.02, "weight_decay": 0.3}


def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.parametrize("kind", [RandomBagClassifier, RandomBagRegressor])
def test_what_cannot_be_fitted_costs_nothing(kind, monkeypatch):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2

    def refuse(match, error=ValueError, **options):
        ledger = PrivacyLedger(epsilon=1.0, unit="label")
        with pytest.raises(error, match=match):
            kind(epsilon=1.0, ledger=ledger, **options).fit(X, y)
        assert not ledger.entries()

    for options, match in [
        ({"depth": 3}, r"unknown entries \['depth'\]"),
        ({"hidden": (0,)}, "'hidden'.*positive integers"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"batch_size": 0}, "batch_size"),
        ({"folds": 1}, "folds"),
    ]:
        refuse(match, submodel="mlp", submodel_options=options)
    for loss in ("debiased", "easyllp"):
        one = {"batch_size": 1}
        refuse(f"'batch_size'.*>= 2 for loss='{loss}'", submodel="mlp", submodel_options=one, loss=loss)
    refuse("submodel_options is for networks", submodel_options={"epochs": 3})
    refuse("are one number", submodel="mlp", alpha=1.0, submodel_options={"weight_decay": 2.0})
    refuse("prior='ridge' is for submodel='linear'", submodel="mlp", prior="ridge")
    refuse("fit_intercept=False is for", submodel="mlp", fit_intercept=False)
    without_torch(monkeypatch)
    refuse(r"pip install 'skprivate\[torch\]'", ImportError, submodel="mlp")


def test_easyllp_of_numbers_is_for_networks():
    with pytest.raises(ValueError, match="loss='easyllp' is for networks"):
        RandomBagRegressor(loss="easyllp").fit(np.arange(8.0)[:, None], np.arange(8.0))


@pytest.fixture(scope="module")
def circle():
    """Labels that no linear model of the columns tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    p = 1 / (1 + np.exp(-4 * (X[:, 0] * X[:, 1])))
    return X[:2400], (rng.random(2400) < p[:2400]).astype(int), X[2400:], p[2400:]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("loss", LOSSES)
def test_networks_see_more_than_lines(torch, circle, loss):
    X, y, X_test, p = circle
    options = {"bag_size": 3, "loss": loss, "random_state": 0, "buckets": False}
    line = RandomBagClassifier(epsilon=None, **options).fit(X, y)
    network = RandomBagClassifier(epsilon=None, submodel="mlp", submodel_options=SOME, **options).fit(X, y)
    assert np.mean(np.abs(network.predict_proba(X_test)[:, 1] - p)) < 0.17
    assert np.mean(np.abs(line.predict_proba(X_test)[:, 1] - p)) > 0.25


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_nothing_but_released_sums_is_learned_from(torch, circle, epsilon):
    X, y, X_test, _ = circle
    model = RandomBagClassifier(epsilon=epsilon, bag_size=4, submodel="mlp", submodel_options=FEW, random_state=0)
    fitted = clone(model).fit(X, y)
    assert fitted.bags_.noise_variance > 0 or epsilon is None
    released = json.loads(json.dumps(fitted.bags_.to_dict()))
    again = clone(model).fit_bags(X, released)
    np.testing.assert_array_equal(again.decision_function(X_test), fitted.decision_function(X_test))
    # Labels moved between rows of a bag are the same sums, and the same model.
    assert epsilon is not None or len(fitted.networks_) == 2
    moved = y.copy()
    for bag in fitted.bags_.members.reshape(-1, 4):
        moved[bag] = np.roll(y[bag], 1)
    assert np.any(moved != y)
    same = clone(model).fit(X, moved)
    np.testing.assert_array_equal(same.decision_function(X_test), fitted.decision_function(X_test))
    assert same.privacy_guarantee_ == fitted.privacy_guarantee_


def make_wide(n_features, n_outputs):
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(n_features, 24), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(24, n_outputs)
    )


def test_any_module_and_what_is_none(torch, circle):
    X, y, X_test, p = circle
    options = {"epsilon": None, "bag_size": 2, "buckets": False, "random_state": 0, "submodel_options": SOME}
    made = RandomBagClassifier(submodel=make_wide, **options).fit(X, y)
    assert np.mean(np.abs(made.predict_proba(X_test)[:, 1] - p)) < 0.15
    back = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(back.predict_proba(X_test), made.predict_proba(X_test))
    own = make_wide(2, 1)
    before = [parameter.detach().clone() for parameter in own.parameters()]
    given = RandomBagClassifier(submodel=own, **options).fit(X, y)
    assert np.mean(np.abs(given.predict_proba(X_test)[:, 1] - p)) < 0.15
    assert all(torch.equal(a, b) for a, b in zip(before, own.parameters(), strict=True))
    with pytest.raises(TypeError, match="submodel must return a torch.nn.Module, got int") as caught:
        RandomBagClassifier(submodel=lambda d, k: d, **options).fit(X, y)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ValueError, match=r"to scores \(32, 1\), got \(32, 4\)") as caught:
        RandomBagClassifier(submodel=torch.nn.Linear(2, 4), **options).fit(X, y)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_modules_that_cannot_learn_cost_nothing_and_fit_nothing(torch):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    bags = RandomBagClassifier(epsilon=None, bag_size=2, random_state=0).fit(X, y).bags_

    class Odd(torch.nn.Module):
        def __init__(self, change):
            super().__init__()
            self.layer, self.change = torch.nn.Linear(2, 1), change

        def forward(self, rows):
            return self.change(self.layer(rows))

    of_one = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    for module, match, options in [
        (torch.nn.Linear(3, 1), "shapes cannot be multiplied", None),
        (torch.nn.Linear(2, 4), "got .*, 4", None),
        (Odd(lambda scores: scores * 1j), "complex128", None),
        (Odd(lambda scores: scores.long()), "int64", None),
        (of_one, "more than 1 value per channel", {"batch_size": 1}),
    ]:
        ledger = PrivacyLedger(epsilon=1.0, unit="label")
        model = RandomBagClassifier(buckets=False, bag_size=1, submodel=module, submodel_options=options, ledger=ledger)
        with pytest.raises(ValueError, match=f"submodel must be or make a module from rows.*{match}"):
            model.fit(X, y)
        assert not ledger.entries()
        if options is None:
            fresh = clone(model)
            with pytest.raises(ValueError, match=match):
                fresh.fit_bags(X, bags)
            with pytest.raises(NotFittedError):
                fresh.predict(X)


@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
@pytest.mark.parametrize("loss", ["squared", "debiased", "easyllp"])
def test_steps_that_go_astray_leave_the_constant(torch, loss):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60.0) % 7
    options = {"loss": loss, "submodel": "mlp", "random_state": 0}
    wild = {"learning_rate": 1e150, "epochs": 3}
    model = RandomBagRegressor(epsilon=None, submodel_options=wild, **options).fit(X, y)
    assert model.networks_ == [] and model.network_weight_ == 0.0
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-9)
    model = RandomBagClassifier(epsilon=None, submodel_options=wild, **options).fit(X, y > 3)
    assert model.networks_ == []


@pytest.mark.parametrize("kind", [RandomBagClassifier, CuratedBagGAMRegressor])
def test_what_is_set_for_torch_stops_no_fit(torch, kind):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(300, 2)).astype(float)
    y = (X[:, 0] > rng.integers(0, 3, 300)).astype(int)
    more = {"categorical_features": "all"} if kind is CuratedBagGAMRegressor else {}
    model = kind(epsilon=None, submodel="mlp", submodel_options={"epochs": 4}, random_state=0, **more)
    expected = clone(model).fit(X, y).predict(X)
    for setting in (torch.no_grad(), torch.inference_mode(), torch.device("meta")):
        with setting:
            found = clone(model).fit(X, y).predict(X)
        np.testing.assert_array_equal(found, expected)


def test_the_same_seed_is_the_same_network(torch, circle):
    X, y, X_test, _ = circle
    state = torch.random.get_rng_state()
    model = RandomBagClassifier(
        epsilon=1.0, bag_size=4, submodel="mlp", submodel_options=FEW, loss="debiased", random_state=3
    )
    first, second = (clone(model).fit(X, y).decision_function(X_test) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert torch.equal(state, torch.random.get_rng_state())
    # Rows by identifiers: however they come, the same bags and the same network.
    order = np.random.default_rng(0).permutation(len(y))
    keys = np.arange(len(y))
    one = clone(model).fit(X, y, row_keys=keys).decision_function(X_test)
    other = clone(model).fit(X[order], y[order], row_keys=keys[order]).decision_function(X_test)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", ["debiased", "squared", "easyllp"])
def test_numbers_in_other_units_have_other_predictions_in_those(torch, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=1500)
    model = RandomBagRegressor(
        epsilon=None, bag_size=3, loss=loss, submodel="mlp", submodel_options=SOME, random_state=0
    )
    first = clone(model).fit(X, y)
    assert first.score(X, y) > 0.5
    expected = 1000 * first.predict(X) + 50
    second = clone(model).fit(X, 1000 * y + 50)
    np.testing.assert_allclose(second.predict(X), expected, rtol=1e-6, atol=1e-6 * np.std(expected))


def test_tables_with_networks_do_not_depend_on_units_either(torch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(2000, 3))
    y = X[:, 0] * (X[:, 1] - 1.5) + 0.3 * rng.normal(size=2000)
    options = {"submodel": "mlp", "submodel_options": {"epochs": 60}, "categorical_features": "all"}
    model = CuratedBagGAMRegressor(epsilon=None, random_state=0, **options)
    first = clone(model).fit(X, y)
    assert first.score(X, y) > 0.8
    expected = 1000 * first.predict(X) + 50
    second = clone(model).fit(X, 1000 * y + 50).predict(X)
    np.testing.assert_allclose(second, expected, rtol=1e-6, atol=1e-6 * np.std(expected))


def test_a_penalty_is_the_weight_decay(torch, circle):
    X, y, X_test, _ = circle
    options = {"epsilon": None, "bag_size": 2, "submodel": "mlp", "random_state": 0}
    by_alpha = RandomBagClassifier(alpha=3.0, submodel_options=FEW, **options).fit(X, y)
    by_name = RandomBagClassifier(submodel_options={**FEW, "weight_decay": 3.0}, **options).fit(X, y)
    found = by_alpha.decision_function(X_test)
    np.testing.assert_array_equal(found, by_name.decision_function(X_test))
    assert np.any(found != RandomBagClassifier(submodel_options=FEW, **options).fit(X, y).decision_function(X_test))


def test_several_classes_and_labels(torch, circle):
    X, _, X_test, _ = circle
    y = np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])
    more = {"random_state": 0, "submodel_options": SOME}
    model = RandomBagClassifier(epsilon=None, bag_size=2, submodel="mlp", **more).fit(X, y)
    truth = np.digitize(X_test[:, 0] * X_test[:, 1], [-0.5, 0.5])
    assert model.score(X_test, truth) > 0.75 and len(model.networks_) == 2
    both = np.column_stack([y == 0, y == 2]).astype(int)
    model = RandomBagClassifier(epsilon=None, bag_size=2, submodel="mlp", **more).fit(X, both)
    assert np.mean(model.predict(X_test) == np.column_stack([truth == 0, truth == 2])) > 0.8


@pytest.mark.filterwarnings("ignore:the fit was worse than a constant")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("epsilon", "bag_size"), [(0.1, 1), (0.1, 16), (None, 1), (None, 16), (2.0, 64)])
def test_labels_that_features_do_not_tell_are_left_to_the_constant(torch, loss, epsilon, bag_size):
    """30 columns of noise. Six standard errors of the noise in the rate of a constant, and those of chance scores
    of one standard error on the bags (see `test_constant.case`)."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1000, 30)), (rng.random(1000) < 0.3).astype(int)
    model = RandomBagClassifier(
        epsilon=epsilon, bag_size=bag_size, loss=loss, submodel="mlp", submodel_options=FEW, random_state=0
    ).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    noise = model.bags_.noise_variance
    rate = noise * model.bags_.n_bags / 1000**2 / 0.21
    rho = bag_size + noise / 0.21
    loss_of_constant = log_loss(y, np.full(1000, y.mean()))
    assert log_loss(y, p) - loss_of_constant < 18 * rate + 50 * min(rho, 20) / 1000
    assert np.isfinite(p).all()


def test_few_bags_leave_the_constant(torch):
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 1])
    model = RandomBagClassifier(epsilon=None, bag_size=6, submodel="mlp", random_state=0).fit(X, y)
    assert model.networks_ == []
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 4 / 6, rtol=1e-12)
    constant = RandomBagRegressor(epsilon=None, bag_size=1, submodel="mlp", random_state=0)
    np.testing.assert_allclose(constant.fit(X, np.full(6, 7.0)).predict(X), 7.0, rtol=1e-9)


@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, CuratedBagGAMRegressor])
def test_networks_below_tables_are_made_and_tried_before_anything_is_paid_for(torch, kind):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2

    class Codes(torch.nn.Module):
        def __init__(self, feature_set, n_outputs, change=1.0):
            super().__init__()
            self.layer, self.change = torch.nn.Linear(len(feature_set.columns), n_outputs), change

        def forward(self, codes):
            return self.layer(codes.double()) * self.change

    made = []

    def once(feature_set, n_outputs):
        made.append(feature_set)
        return Codes(feature_set, n_outputs)

    ledger = PrivacyLedger(epsilon=9.0, delta=0.1, unit="label")
    model = kind(ledger=ledger, feature_sets="singles")
    for submodel, options, match in [
        ("mlp", {"epoch": 3}, "unknown entries"),
        ("mlp", {"epochs": -1}, r"\['epochs'\] must be"),
        ("mlp", {"embedding": 0.5}, r"\['embedding'\] must be"),
        ("mlp", {"shared_embeddings": 1}, r"\['shared_embeddings'\] must be"),
        ("mlp", {"hidden": 3}, r"\['hidden'\] must be"),
        (lambda feature_set, n_outputs: 3, None, "must return a torch.nn.Module, got int"),
        (
            lambda feature_set, n_outputs: Codes(feature_set._replace(columns=(0,) * 5), n_outputs),
            None,
            "from codes .* to scores",
        ),
        (lambda feature_set, n_outputs: Codes(feature_set, n_outputs + 1), None, "got .*, 2"),
        (lambda feature_set, n_outputs: Codes(feature_set, n_outputs, np.nan), None, "got NaN or infinity"),
        (lambda feature_set, n_outputs: Codes(feature_set, n_outputs, 1j), None, "complex128"),
    ]:
        with pytest.raises((TypeError, ValueError), match=match):
            model.set_params(submodel=submodel, submodel_options=options).fit(X, y)
    assert not ledger.entries()
    model.set_params(submodel=once, submodel_options={"epochs": 2}).fit(X, y)
    assert len(made) == 2  # one for each set, whatever is fitted how often
