"""What is published is what was counted: nothing else that a model was given or keeps beside its steps."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from helpers.every import every
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from test_common import ESTIMATORS as ALL

from skprivate import NoGuaranteeError, UserLevelSelector, UserLevelSGDClassifier, UserLevelSGDRegressor, guarantee_of
from skprivate.base import PrivateEstimatorMixin
from skprivate.inspection import to_release
from skprivate.inspection._ensembles import ENSEMBLE_RULES
from skprivate.inspection._pipelines import PIPELINE_RULES
from skprivate.model_selection import PrivateSearchCV
from skprivate.preprocessing import PrivateSplineTransformer, PrivateStandardScaler, PublicScaler, RowByRow
from skprivate.preprocessing._private_pipeline import PrivatePipeline
from skprivate.privacy import (
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PrivacyLedger,
    PureEvent,
    compose_epsilon,
    open_release,
    public_generator,
)
from skprivate.privacy._understated import understated
from skprivate.report import privacy_report
from skprivate.report._facts import LOOK, STOP
from skprivate.utils.estimator_checks import default_data

SECRET, NUMBER = "secret-hamlet-4711", 123456.7890625
X = public_generator(0).uniform(size=(120, 2))
Y = X @ [1.0, -1.0]
LABELS, THREE = (Y > 0).astype(int), np.arange(120) % 3
TWO, BOTH = np.column_stack([Y, -Y]), np.column_stack([LABELS, 1 - LABELS])


def earlier(estimator, y=None):
    """Fit alone, to rows that hold the secrets; what it learnt is not in any later guarantee."""
    estimator.set_params(**({"epsilon": 20.0} if "epsilon" in estimator.get_params() else {}))
    estimator.fit(X, y)
    learnt = [name for name, value in vars(estimator).items() if name.endswith("_") and isinstance(value, np.ndarray)]
    for name in learnt:
        if getattr(estimator, name).dtype.kind == "f":
            setattr(estimator, name, np.full_like(getattr(estimator, name), NUMBER))
    estimator.note_ = SECRET
    return estimator.set_params(**({"epsilon": 0.5} if "epsilon" in estimator.get_params() else {}))


def regressor(y=Y):
    return earlier(UserLevelSGDRegressor(max_iter=5), y)


def classifier(y=LABELS, **options):
    return earlier(UserLevelSGDClassifier(max_iter=5, **options), y)


def scaler():
    return earlier(PrivateStandardScaler())


def encoder():
    """Learnt categories and a mean, then constants in their place."""
    frame = pd.DataFrame({"city": ["rome", SECRET] * 60, "income": [NUMBER] * 120})
    city = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(frame[["city"]])
    income = SimpleImputer(keep_empty_features=True).fit(frame[["income"]])
    city.set_params(categories=[["rome", "paris"]])
    return [("c", city, ["city"]), ("i", income.set_params(strategy="constant", fill_value=0.0), ["income"])]


def encoded():
    frame = pd.DataFrame({"city": ["rome", "paris"] * 60, "income": Y})
    return make_pipeline(ColumnTransformer(encoder()), regressor()), frame


def frozen(model):
    return FrozenEstimator(model)


def fresh(kind, y):
    """A fitted private model that a composite takes as it is, and that is counted."""
    return kind(max_iter=5, epsilon=0.25).fit(X, y)


def additive():
    return PrivatePipeline([("splines", earlier(PrivateSplineTransformer(bounds=(0, 1)))), ("model", regressor())])


#: A composite with objects that were fitted before among its parameters, and what it is fitted to.
CASES = {
    PrivatePipeline: lambda: (additive(), X, Y),
    BaggingClassifier: lambda: (BaggingClassifier(classifier(), 2, bootstrap=False), X, LABELS),
    BaggingRegressor: lambda: (BaggingRegressor(regressor(), 2, bootstrap=False), X, Y),
    ClassifierChain: lambda: (ClassifierChain(classifier()), X, BOTH),
    ColumnTransformer: lambda: (*encoded(), Y),
    FeatureUnion: lambda: (make_pipeline(FeatureUnion([("a", scaler()), ("b", scaler())]), regressor()), X, Y),
    FixedThresholdClassifier: lambda: (FixedThresholdClassifier(classifier(), threshold=0.3), X, LABELS),
    FrozenEstimator: lambda: (
        VotingRegressor([("a", frozen(fresh(UserLevelSGDRegressor, Y))), ("b", regressor())]),
        X,
        Y,
    ),
    MultiOutputClassifier: lambda: (MultiOutputClassifier(classifier()), X, BOTH),
    MultiOutputRegressor: lambda: (MultiOutputRegressor(regressor()), X, TWO),
    OneVsOneClassifier: lambda: (OneVsOneClassifier(classifier(adjacency="add-remove")), X, THREE),
    OneVsRestClassifier: lambda: (OneVsRestClassifier(classifier()), X, THREE),
    OutputCodeClassifier: lambda: (OutputCodeClassifier(classifier(), random_state=0), X, THREE),
    Pipeline: lambda: (Pipeline([("a", scaler()), ("b", regressor())]), X, Y),
    RegressorChain: lambda: (RegressorChain(regressor()), X, TWO),
    RowByRow: lambda: (make_pipeline(RowByRow(earlier(Normalizer())), regressor()), X, Y),
    SelectFromModel: lambda: (make_pipeline(SelectFromModel(regressor(), max_features=1), regressor()), X, Y),
    StackingClassifier: lambda: (
        StackingClassifier([("a", frozen(fresh(UserLevelSGDClassifier, LABELS)))], final_estimator=classifier()),
        X,
        LABELS,
    ),
    StackingRegressor: lambda: (
        StackingRegressor([("a", frozen(fresh(UserLevelSGDRegressor, Y)))], final_estimator=regressor()),
        X,
        Y,
    ),
    TransformedTargetRegressor: lambda: (
        TransformedTargetRegressor(regressor(), transformer=earlier(PublicScaler(), None), check_inverse=False),
        X,
        Y,
    ),
    UserLevelSelector: lambda: (UserLevelSelector([("a", frozen(fresh(UserLevelSGDRegressor, Y)))]), X, Y),
    VotingClassifier: lambda: (VotingClassifier([("a", classifier()), ("b", classifier())]), X, LABELS),
    VotingRegressor: lambda: (VotingRegressor([("a", regressor()), ("b", regressor())]), X, Y),
    PrivateSearchCV: lambda: (
        PrivateSearchCV(
            make_pipeline(scaler(), regressor()),
            {"privatestandardscaler": [scaler(), PublicScaler()]},
            epsilon=8.0,
            n_iter=1,
            n_candidates=2,
            score_bounds=(-9.0, 0.0),
        ),
        X,
        Y,
    ),
}


def fitted(name):
    model, rows, targets = CASES[name]()
    return model.fit(rows, targets), rows


def contents(model):
    """A pickle, and the guarantees in it."""
    found = []

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            if isinstance(obj, PrivacyGuarantee):
                found.append(obj)
            return NotImplemented

    import io

    Pickler(buffer := io.BytesIO(), protocol=5).dump(model)
    return buffer.getvalue(), found


def secrets_in(model):
    data = contents(model)[0]
    return [word for word in (SECRET.encode(), np.float64(NUMBER).tobytes()) if word in data]


#: Few rows, and the seeds that ensembles set.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def test_every_composite_of_the_tables_is_tried():
    assert set(CASES) - {PrivateSearchCV} == {*PIPELINE_RULES, *ENSEMBLE_RULES}


@pytest.mark.parametrize("name", CASES, ids=lambda kind: kind.__name__)
def test_what_was_fitted_before_is_published_by_nobody(name):
    model, rows = fitted(name)
    counted = guarantee_of(model)
    copy = to_release(model, allow_invalid=not counted.valid_for_release)
    assert secrets_in(copy) == [] and guarantee_of(copy) == counted
    np.testing.assert_array_equal(copy.predict(rows), model.predict(rows))
    # What is promised in it adds up to the total: no promise is there twice, or of something else.
    inside = {id(each): each for each in contents(copy)[1]}.values()
    if name not in (PrivateSearchCV, OutputCodeClassifier):
        assert max(each.epsilon for each in inside) <= counted.epsilon
    assert all(each.epsilon < 19 for each in inside)


@pytest.mark.parametrize("name", CASES, ids=lambda kind: kind.__name__)
def test_what_somebody_noted_at_a_model_stays_with_them(name):
    model, _ = fitted(name)
    copies = [model, *(part for part in model.get_params().values() if isinstance(part, BaseEstimator))]
    for part in (*copies, *getattr(model, "estimators_", ())):
        if not isinstance(part, FrozenEstimator):
            part.note_, part._note = np.full(2, NUMBER), {"name": SECRET}
        else:
            vars(part)["note_"] = SECRET
    assert secrets_in(model)
    assert secrets_in(to_release(model, allow_invalid=True)) == []


@pytest.mark.parametrize(
    "estimator", [each for each in ALL if isinstance(each, PrivateEstimatorMixin)], ids=lambda each: type(each).__name__
)
def test_of_private_estimators_all_that_a_fit_sets_is_published_and_nothing_else(estimator):
    data = default_data(estimator, public_generator(0), 60)
    model = clone(estimator).set_params(random_state=None)
    model.fit(*([data.X] if data.y is None else [data.X, data.y]), **data.metadata)
    model.note_, model._note = np.full(2, NUMBER), SECRET
    assert "names and types of the columns are public" in model.privacy_guarantee_.assumptions
    copy = to_release(model)
    assert secrets_in(copy) == [] and {*vars(model)} - {*vars(copy)} == {"note_", "_note"}


def with_options(rows, **options):
    return rows


PLACES = {
    "list": lambda part: {"a": [part]},
    "tuple": lambda part: {"a": (0, part)},
    "dict": lambda part: {"a": {"b": part}},
    "object array": lambda part: {"a": np.array([part, None], dtype=object)},
    "partial": lambda part: {"a": partial(with_options, part)},
    "frame": lambda part: {"a": pd.Series([part], dtype=object)},
    "frozen": lambda part: {"a": FrozenEstimator(part)},
    "pipeline": lambda part: {"a": make_pipeline(part, FrozenEstimator(part))},
}


@pytest.mark.parametrize("place", PLACES)
@every("part", [regressor, scaler, lambda: earlier(LinearRegression(), Y)])
def test_estimators_in_parameters_are_published_unfitted_wherever_they_lie(place, part):
    options = PLACES[place](part())
    model = make_pipeline(FunctionTransformer(with_options, kw_args=options), regressor()).fit(X, Y)
    assert secrets_in(model)
    copy = to_release(model)
    assert secrets_in(copy) == [] and len(contents(copy)[1]) == 1
    target = TransformedTargetRegressor(
        regressor(), func=partial(with_options, **options), inverse_func=with_options, check_inverse=False
    ).fit(X, Y)
    assert secrets_in(to_release(target)) == []


def test_a_score_that_holds_a_model_is_published_without_what_it_learnt():
    search = PrivateSearchCV(
        UserLevelSGDRegressor(max_iter=5),
        {"alpha": [0.0, 0.1]},
        epsilon=2.0,
        n_iter=1,
        scoring=partial(rated, model=regressor()),
        score_bounds=(0.0, 1.0),
    ).fit(X, Y)
    assert secrets_in(search) and secrets_in(to_release(search)) == []
    search.best_estimator_.fit(X, Y)
    for release in (lambda: to_release(search), lambda: guarantee_of(search)):
        with pytest.raises(NoGuaranteeError, match=r"best_estimator_.*holds a guarantee that no step accounts for"):
            release()


def rated(y, predicted, model=None):
    return np.zeros(len(y))


class Holder(UserLevelSGDRegressor):
    """Of a class that nobody here knows, all that it keeps is published: what its guarantee does not count is seen."""


def beside(attribute, value):
    model = VotingRegressor([("a", UserLevelSGDRegressor(max_iter=5))]).fit(X, Y)
    vars(model)[attribute] = value
    return model


def held(value):
    model = Holder(max_iter=5).fit(X, Y)
    model.held_ = {"deep": [value]}
    return model


@pytest.mark.parametrize(
    ("model", "where", "what"),
    [
        (
            lambda: beside("named_estimators_", {"b": regressor()}),
            "named_estimators_",
            "a fitted UserLevelSGDRegressor",
        ),
        (lambda: beside("named_estimators_", [earlier(LinearRegression(), Y)]), "named_", "a fitted LinearRegression"),
        (lambda: held(regressor().privacy_guarantee_), "held_", "a guarantee that no step accounts for"),
        (lambda: held(regressor()), "held_, privacy_guarantee_", "a guarantee that no step accounts for"),
        (
            lambda: make_pipeline(
                FunctionTransformer(with_options, kw_args={"g": regressor().privacy_guarantee_}), regressor()
            ).fit(X, Y),
            "kw_args",
            "a guarantee that no step accounts for",
        ),
    ],
)
def test_what_no_step_accounts_for_is_refused_by_its_place(model, where, what):
    model = model()
    for say in (guarantee_of, to_release):
        with pytest.raises(NoGuaranteeError) as error:
            say(model)
        assert where in str(error.value) and what in str(error.value)
        assert SECRET not in str(error.value)
    report = privacy_report(model)
    assert report.verdict == STOP and where in report.findings[0] and what in report.findings[0]


class Remembers(TransformerMixin, BaseEstimator):
    """Needs no fit, and keeps the rows of one."""

    def fit(self, X, y=None):
        self.rows_ = X
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


@pytest.mark.parametrize("inside", [False, True])
def test_a_step_that_needs_no_fit_is_published_without_one(inside):
    rows = np.where(X > 0.9, NUMBER, X)
    step = ColumnTransformer([("a", Remembers(), [0, 1])]) if inside else Remembers()
    model = make_pipeline(step, UserLevelSGDRegressor(max_iter=5)).fit(rows, Y)
    copy = to_release(model)
    assert secrets_in(model) and secrets_in(copy) == []
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_what_an_earlier_fit_with_other_options_left_behind_stays():
    step = OneHotEncoder(min_frequency=3, sparse_output=False, handle_unknown="ignore")
    step.fit(np.array([["a"] * 5 + ["b"]]).T)
    step.set_params(min_frequency=None, categories=[["a", "b"]])
    model = make_pipeline(step, UserLevelSGDRegressor(max_iter=5)).fit(np.array([["a", "b"] * 60]).T, Y)
    assert hasattr(model[0], "_infrequent_indices") and not hasattr(to_release(model)[0], "_infrequent_indices")


def test_scores_of_an_earlier_bag_stay():
    bag = BaggingRegressor(UserLevelSGDRegressor(max_iter=5), 2, oob_score=True).fit(X, Y)
    bag.set_params(oob_score=False, bootstrap=False).fit(X, Y)
    copy = to_release(bag, allow_invalid=True)
    assert hasattr(bag, "oob_prediction_") and not hasattr(copy, "oob_prediction_")


def test_public_models_that_are_frozen_stay_whole():
    public = GridSearchCV(LinearRegression(), {"positive": [True, False]}, cv=2).fit(X, Y)
    model = VotingRegressor([("a", FrozenEstimator(public)), ("b", UserLevelSGDRegressor(max_iter=5))]).fit(X, Y)
    np.testing.assert_array_equal(to_release(model).predict(X), model.predict(X))
    calibrated = CalibratedClassifierCV(FrozenEstimator(LogisticRegression().fit(X, LABELS))).fit(X, LABELS)
    members = [("a", FrozenEstimator(calibrated)), ("b", UserLevelSGDClassifier(max_iter=5))]
    model = VotingClassifier(members).fit(X, LABELS)
    np.testing.assert_array_equal(to_release(model).transform(X), model.transform(X))
    scaled = FrozenEstimator(make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y))
    model = VotingRegressor([("a", scaled), ("b", UserLevelSGDRegressor(max_iter=5))]).fit(X, Y)
    np.testing.assert_array_equal(to_release(model).predict(X), model.predict(X))


def test_a_selector_states_its_candidates_too():
    """Three models of ε = 5 are handed over with the choice of one among them."""
    candidates = [(name, UserLevelSGDRegressor(epsilon=5.0, max_iter=5).fit(X, Y)) for name in "abc"]
    selector = UserLevelSelector(candidates, epsilon=0.5).fit(X, Y)
    assert guarantee_of(to_release(selector)).epsilon > 5
    selector.set_params(estimators=[*candidates, ("d", earlier(StandardScaler()))])
    assert secrets_in(to_release(selector))  # a candidate that the selector was given is published, and said
    assert any("candidate 'd'" in text for text in guarantee_of(selector).assumptions)


def edits(guarantee):
    yield replace(guarantee, epsilon=guarantee.epsilon / 50)
    yield replace(guarantee, delta=guarantee.delta / 50)
    yield replace(guarantee, epsilon=guarantee.epsilon * 0.99)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("whole", [False, True])
def test_a_guarantee_below_its_draws_is_refused_and_stops_a_report(number, whole):
    part = UserLevelSGDRegressor(epsilon=5.0, max_iter=5).fit(X, Y)
    part.privacy_guarantee_ = list(edits(part.privacy_guarantee_))[number]
    model = VotingRegressor([("a", FrozenEstimator(part))]).fit(X, Y) if whole else part
    for say in (guarantee_of, to_release):
        with pytest.raises(NoGuaranteeError, match=r"states epsilon .* its draws compose to epsilon"):
            say(model)
    for source in (model, part.privacy_guarantee_):
        report = privacy_report(source)
        assert report.verdict == STOP and "its draws compose to" in report.findings[0]
        assert sum("its draws compose to" in text for text in report.findings) == 1


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.01}, {"unit": "user"}, {"adjacency": "add-remove"}, {"valid_for_release": True}], ids=str
)
def test_a_guarantee_below_its_entry_is_refused_and_stops_a_report(change, tmp_path):
    simulated = "valid_for_release" in change
    ledger = PrivacyLedger(tmp_path / "a.ledger", epsilon=9.0, delta=1e-4, simulation=simulated)
    model = UserLevelSGDRegressor(max_iter=5, ledger=ledger, random_state=0 if simulated else None).fit(X, Y)
    if not simulated:
        assert privacy_report(model).verdict == LOOK
    edited = replace(model.privacy_guarantee_, events=(), **change)
    model.privacy_guarantee_ = edited
    with pytest.raises(NoGuaranteeError, match="entry 1 of its ledger states"):
        to_release(model)
    for report in (privacy_report(model), privacy_report(edited, ledger=ledger)):
        assert report.verdict == STOP and "entry 1 of its ledger states" in str(report.findings)
    (tmp_path / "a.ledger").unlink()  # not at hand
    assert guarantee_of(model).epsilon == edited.epsilon


def test_a_guarantee_that_was_typed_counts_as_stated():
    model = UserLevelSGDRegressor(max_iter=5).fit(X, Y)
    model.privacy_guarantee_ = PrivacyGuarantee(0.1, 0.0, "row", "replace-one")
    assert guarantee_of(model).stated and not guarantee_of(UserLevelSGDRegressor(max_iter=5).fit(X, Y)).stated


def test_routed_models_keep_what_they_ask_for():
    with config_context(enable_metadata_routing=True):
        members = [("a", UserLevelSGDRegressor(max_iter=5).set_fit_request(user_ids=True))]
        model = VotingRegressor(members).fit(X, Y, user_ids=np.arange(120))
    copy = to_release(model)
    assert copy.estimators[0][1].get_metadata_routing().fit.requests == {"user_ids": True}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["laplace", "gaussian"]),
            st.floats(0.01, 3.0),
            st.integers(0, 30),
            st.integers(1, 3),
            st.sampled_from([0.0, 1e-9, 1e-3]),
        ),
        min_size=1,
        max_size=4,
    )
)
@example([("gaussian", 2.34375, 14, 2, 1e-9)])  # the bound for all draws together is above their sum
@example([("laplace", 1.0, 0, 1, 0.0), ("gaussian", 2.5625, 12, 1, 1e-9)])
def test_no_release_and_no_sum_of_releases_is_taken_for_an_edited_one(releases):
    found = []
    for kind, size, planned, beside, delta in releases:
        gaussian = kind == "gaussian" and delta > 0
        event = GaussianEvent(3.0 / size) if gaussian else PureEvent(size)
        plan = [(event, planned)] if planned else []
        release = open_release(epsilon=1e3, delta=delta, unit="row", adjacency="add-remove", plan=plan)
        for _ in range(beside):
            release._charge({LaplaceEvent(size / 7): 1})
        found.append(release.close())
    whole = found[0].compose(*found[1:])
    for guarantee in (*found, whole, whole.compose(found[0])):
        assert understated(guarantee) == ""
        if compose_epsilon(guarantee.events, guarantee.delta) > (least := guarantee.epsilon / 1e3):
            assert understated(replace(guarantee, epsilon=least * 0.9))
