"""Reports before `fit`, short texts of guarantees, and advice about missing values."""

import copy
import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor, VotingClassifier
from sklearn.feature_selection import RFE, RFECV, SequentialFeatureSelector
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skprivate import (
    PrivacyGuarantee,
    PrivacyLedger,
    PrivateSearchCV,
    RandomBagClassifier,
    RandomBagRegressor,
    UserLevelMean,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
)
from skprivate.inspection import NoGuaranteeError, quote, to_release
from skprivate.metric import MetricPrivatizer
from skprivate.model_selection import UserKFold
from skprivate.preprocessing import (
    PrivateKBinsDiscretizer,
    PrivatePipeline,
    PrivateStandardScaler,
    PublicScaler,
    RowByRow,
)
from skprivate.privacy import public_generator
from skprivate.report import privacy_report
from skprivate.report._other_facts import ledger_guarantee


def test_a_report_reads():
    report = check_pipeline(Pipeline([("s", PublicScaler()), ("m", UserLevelSGDRegressor(0.5, delta=1e-5))]))
    assert str(report).splitlines() == [
        "Pipeline: a guarantee could hold, budgets add up to ε = 0.5",
        "- pipeline step 's' (PublicScaler): looks at no data",
        "- pipeline step 'm' (UserLevelSGDRegressor): private (ε = 0.5, δ = 1e-05)",
    ]
    nothing = check_pipeline(PublicScaler())
    assert not nothing.could_hold and str(nothing).startswith("PublicScaler: nothing in it is private")


def test_how_many_are_fitted():
    report = check_pipeline(BaggingRegressor(UserLevelSGDRegressor(0.5), n_estimators=4, bootstrap=False))
    assert report.epsilon == 2.0 and "4 times" in str(report)
    report = check_pipeline(OneVsOneClassifier(UserLevelSGDClassifier(0.5)))
    assert report.epsilon is None and "one for each label" in str(report) and "add-remove" in str(report)


def test_labels_alone_before_fit():
    model = make_pipeline(StandardScaler(), RandomBagRegressor())
    assert check_pipeline(model).could_hold and "features are public" in str(check_pipeline(model))
    model = make_pipeline(StandardScaler(), UserLevelSGDRegressor())
    assert not check_pipeline(model).could_hold


def test_html_is_escaped():
    report = check_pipeline(Pipeline([("<script>", StandardScaler()), ("m", UserLevelSGDRegressor())]))
    text = report._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert text.count("<tr>") == 3


@pytest.mark.parametrize(
    "changes, short",
    [
        ({}, "<ε=0.9999, δ=1e-06, user>"),
        ({"delta": 0.0, "unit": "private row"}, "<ε=0.9999, private row>"),
        ({"valid_for_release": False}, "<ε=0.9999, δ=1e-06, user, simulated>"),
        ({"delta": 0.0, "unit": "row", "adjacency": "metric", "metric": "l2"}, "<ε=0.9999 per l2, row>"),
    ],
)
def test_a_guarantee_is_short(changes, short):
    given = {"epsilon": 0.99981, "delta": 1e-6, "unit": "user", "adjacency": "replace-one", **changes}
    assert repr(PrivacyGuarantee(**given)) == short


@pytest.mark.skipif(sklearn.__version__ < "1.9", reason="scikit-learn 1.9 shows fitted attributes")
def test_notebooks_show_the_guarantee():
    X = np.linspace(0, 1, 60)[:, None]
    model = make_pipeline(PublicScaler(), RandomBagRegressor(label_bounds=(0, 1))).fit(X, X[:, 0])
    assert "&lt;ε=1, label&gt;" in model._repr_html_()


@pytest.mark.parametrize("model", [UserLevelMean(), make_pipeline(PublicScaler(), UserLevelMean())])
def test_missing_values_are_no_reason_to_leak(model):
    with pytest.raises(ValueError, match="Input X contains NaN") as caught:
        model.fit(np.full((60, 2), np.nan), np.zeros(60))
    text = str(caught.value)
    assert "PrivateImputer" in text and "HistGradientBoosting" not in text and "imputer transformer" not in text


def test_the_refusal_of_a_search_names_the_private_one():
    (_, why), *_ = check_pipeline(GridSearchCV(UserLevelSGDRegressor(), {"epsilon": [0.5, 1.0]})).problems
    assert "within one budget with PrivateSearchCV" in why


SGD = UserLevelSGDClassifier(classes=[0, 1])


def cached(memory, seed=None):
    """Composites with a cache before, behind or around what draws noise, at any depth."""
    terms = {"epsilon": 0.1, "delta": 1e-7, "random_state": seed}

    def pipeline(*steps, memory=memory):
        return Pipeline([(f"step {k}", step) for k, step in enumerate(steps)], memory=memory)

    def scaler():
        return PrivateStandardScaler(**terms)

    public, model = PublicScaler.from_bounds(-5, 5), UserLevelSGDClassifier(classes=[0, 1], **terms)
    columns = ColumnTransformer([("a", pipeline(scaler(), public), [0, 1])])
    row = {"epsilon": 0.5, "random_state": seed}
    whole = {"epsilon": 0.2, "delta": 1e-6}
    return {
        "around": pipeline(scaler(), model),
        "before": pipeline(pipeline(public, public), model, memory=None),
        "bins": pipeline(PrivateKBinsDiscretizer(0.1, n_bins=3, encode="ordinal", random_state=seed), model),
        "columns": pipeline(columns, model, memory=None),
        "union": pipeline(FeatureUnion([("a", pipeline(scaler(), public))]), model, memory=None),
        "voting": VotingClassifier([("a", pipeline(scaler(), model))]),
        "labels": pipeline(public, RandomBagClassifier(classes=[0, 1], random_state=seed)),
        "one budget": PrivatePipeline([("c", pipeline(scaler(), public)), ("m", clone(model))], **whole),
        "within": pipeline(PrivatePipeline([("c", scaler()), ("d", scaler())], **whole), model),
        "randomiser": pipeline(MetricPrivatizer(**row), KMeans(2)),
        "behind it": pipeline(MetricPrivatizer(**row), pipeline(public, KMeans(2)), memory=None),
        "rows": pipeline(RowByRow(pipeline(public, public)), model, memory=None),
    }


#: What a bare scikit-learn cannot refuse: nothing private is the key.
PUBLIC_KEYS = ("before", "labels", "behind it", "rows")


@pytest.mark.parametrize("name", cached(None))
def test_a_cache_is_refused_wherever_it_is(tmp_path, name):
    """It repeats noise if and only if no row changed: two fits tell with certainty whether one did."""
    folder, X = tmp_path / "cache", public_generator(0).normal(size=(200, 2))
    model, y = cached(str(folder))[name], (X[:, 0] > 0).astype(int)
    ledger = PrivacyLedger(epsilon=100.0, delta=0.1)
    assert not check_pipeline(model).could_hold and "repeats noise" in str(check_pipeline(model))
    assert check_pipeline(cached(None)[name]).could_hold
    for refused in (
        lambda: quote(model, X, y, ledger=ledger),
        lambda: PrivateSearchCV(model, {}, epsilon=9.0, ledger=ledger).fit(X, y),
    ):
        with pytest.raises(ValueError, match="repeats noise if and only if none of them changed"):
            refused()
    if name not in PUBLIC_KEYS:
        with pytest.raises(ValueError, match=r"repeats noise.*Nothing was drawn"):
            model.fit(X, y)
    assert not ledger.entries() and not list(folder.rglob("*.pkl"))


@pytest.mark.filterwarnings("ignore:.*[Ss]imulat", "ignore:.*too few")
@pytest.mark.parametrize("name", sorted(set(cached(None)) - {"one budget"}))
def test_a_model_of_a_cache_has_no_guarantee(tmp_path, name):
    """Neither has one of simulated noise, whose fit is not refused, nor a copy of it to publish."""
    X = public_generator(0).normal(size=(200, 2))
    model = cached(str(tmp_path), seed=0)[name].fit(X, (X[:, 0] > 0).astype(int))
    for refused in (guarantee_of, to_release):
        with pytest.raises(NoGuaranteeError, match="repeats noise"):
            refused(model)


def test_only_a_cache_finds_that_a_private_estimator_is_no_key(tmp_path):
    """Copies, pickles and hashes that others compare are those of any estimator."""
    fitted = joblib.Memory(tmp_path, verbose=0).cache(_fit)
    X = public_generator(0).normal(size=(60, 2))
    for model in (UserLevelMean(), UserLevelMean().fit(X)):
        with pytest.raises(ValueError, match="must not be fitted within a cache"):
            fitted(model, X)
        assert joblib.hash(model) == joblib.hash(copy.deepcopy(model))
        assert pickle.dumps(model) == pickle.dumps(copy.copy(model))
        assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()


def _fit(model, X):
    return model.fit(X)


FOLDED = [
    GridSearchCV(SGD, {"epsilon": [0.3, 1.0]}, cv=3),
    GridSearchCV(make_pipeline(SGD), {}),
    RandomizedSearchCV(SGD, {"epsilon": [0.3, 1.0]}, n_iter=2, cv=StratifiedKFold(3)),
    SequentialFeatureSelector(SGD, cv=3),
    RFECV(SGD, cv=3),
    CalibratedClassifierCV(SGD),
    GridSearchCV(UserLevelSGDRegressor(), {}, cv=3),
]


@pytest.mark.parametrize("model", FOLDED, ids=lambda model: type(model).__name__)
def test_folds_that_move_others_are_spoken_of_wherever_a_search_is_seen(model):
    """No sum of prices bounds its fits: `check_pipeline`, `guarantee_of` and `privacy_report` say so."""
    said = str(check_pipeline(model))
    assert "no sum of their prices bounds" in said and "Use UserKFold" in said
    n = 900
    rng = public_generator(0)
    X, y = rng.uniform(size=(n, 2)), np.arange(n) % 2
    try:
        fitted = clone(model).fit(X, y)
    except (ValueError, AttributeError):  # RFECV asks for importances
        return
    for ask in (guarantee_of, privacy_report):
        with pytest.raises(NoGuaranteeError, match=r"(?s)no sum of their prices bounds"):
            ask(fitted)


@pytest.mark.parametrize("model", FOLDED, ids=lambda model: type(model).__name__)
def test_folds_that_move_nobody_are_not_spoken_of(model):
    assert "UserKFold" not in str(check_pipeline(clone(model).set_params(cv=UserKFold(3))))


def test_what_tells_how_often_a_member_is_fitted():
    said = {
        "once for each candidate and fold": GridSearchCV(SGD, {}, cv=UserKFold(3)),
        "as often as the composite fits it": RFE(SGD),
        "one for each label or target": OneVsRestClassifier(UserLevelSGDClassifier()),
    }
    for times, model in said.items():
        assert f"(ε = 1, δ = 1e-06, {times})" in str(check_pipeline(model))


def test_a_report_on_a_ledger_assumes_that_rows_were_not_chosen_by_private_values():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-3, unit="row", adjacency="replace-one")
    X = np.linspace(0, 1, 60)[:, None]
    for count in (1, 2):
        UserLevelMean(ledger=ledger).fit(X)
        assumed = "".join(ledger_guarantee(ledger).assumptions)
        assert ("folds made from labels" in assumed and "UserKFold" in assumed) is (count > 1)
