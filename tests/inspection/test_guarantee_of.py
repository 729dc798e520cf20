"""What is true of each composite, with ε derived by hand."""

import copy
import dataclasses
import math
import pickle
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, RegressorMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.image import PatchExtractor
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.semi_supervised import SelfTrainingClassifier
from test_common import ESTIMATORS

from skprivate import (
    CuratedBagGAMClassifier,
    MetricPrivatizer,
    NoGuaranteeError,
    PrivacyLedger,
    RandomBagClassifier,
    SimulatedNoiseWarning,
    UserLevelMean,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
)
from skprivate.base import PrivateEstimatorMixin
from skprivate.inspection import quote
from skprivate.inspection._guarantee_of import TYPES_STAY
from skprivate.preprocessing import PrivatePipeline, PublicOneHotEncoder, PublicOrdinalEncoder, PublicScaler, RowByRow
from skprivate.privacy import (
    PUBLIC_BEFORE,
    STEP_ALONE,
    GaussianEvent,
    PureEvent,
    compose_epsilon,
    open_release,
    public_generator,
)
from skprivate.utils.estimator_checks import default_data

SCIKIT_LEARN = tuple(map(int, sklearn.__version__.split(".")[:2]))
DRAWN = public_generator(0).uniform(0.1, 1.0, size=(60, 3))
TARGET = DRAWN @ [1.0, 2.0, -1.0]
LABELS = np.arange(60) % 3


class Private(PrivateEstimatorMixin, BaseEstimator):
    """A private linear model that only pays: what it promises is chosen by parameters, for these tests."""

    def __init__(
        self,
        epsilon=1.0,
        *,
        delta=1e-6,
        kind="pure",
        unit="row",
        adjacency="replace-one",
        random_state=None,
        ledger=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.kind = kind
        self.unit = unit
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X, y=None):
        event = PureEvent(self.epsilon) if self.kind == "pure" else GaussianEvent(4.0)
        release = open_release(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            adjacency=self.adjacency,
            random_state=self.random_state,
            ledger=self.ledger,
            label=type(self).__name__,
            theorem="for tests",
            plan=[(event, 1)],
        )
        self.privacy_guarantee_ = release.close()
        self.coef_ = np.arange(1.0, np.shape(X)[1] + 1)
        return self


class PrivateRegressor(RegressorMixin, Private):
    def predict(self, X):
        return np.asarray(X) @ self.coef_


class PrivateClassifier(ClassifierMixin, Private):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return super().fit(X, y)

    def predict(self, X):
        return self.classes_[(np.asarray(X) @ self.coef_ > 1).astype(int)]

    def predict_proba(self, X):
        scores = 1 / (1 + np.outer(np.asarray(X) @ self.coef_, np.arange(len(self.classes_))))
        return scores / scores.sum(axis=1, keepdims=True)


def assumptions_of(model):
    """Assumptions, but for those about the classes of this file and about how scikit-learn reads columns."""
    texts = guarantee_of(model).assumptions
    return tuple(text for text in texts if "are not this package's" not in text and text != TYPES_STAY)


class PublicClassifier(ClassifierMixin, BaseEstimator):
    looks_at_no_data: ClassVar[bool] = True

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class PrivateMap(OneToOneFeatureMixin, TransformerMixin, Private):
    def transform(self, X):
        return np.asarray(X) * 2


class PrivateWidth(TransformerMixin, Private):
    """How many columns it passes on is its own choice."""

    def transform(self, X):
        return np.asarray(X)[:, :2]


class Row(TransformerMixin, BaseEstimator):
    """A map of somebody else's, stateless by its tag."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class Declared(Row):
    looks_at_no_data: ClassVar[bool] = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags


def refused(model, *texts):
    with pytest.raises(NoGuaranteeError) as caught:
        guarantee_of(model)
    for text in texts:
        assert text in str(caught.value), str(caught.value)
    return caught.value.problems


def gaussian_epsilon(multiplier, delta):
    """ε of the Gaussian mechanism, by its exact profile (Balle and Wang 2018), not by the package's accountant."""

    def profile(epsilon):
        a, b = 0.5 / multiplier, epsilon * multiplier
        return norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b) - delta

    return brentq(profile, 1e-9, 50)


def paid_in(value, seen=None):
    """Guarantees anywhere inside an object, by looking, not by rules."""
    seen = {} if seen is None else seen
    if id(value) in seen or isinstance(value, (str, np.ndarray, type)):
        return []
    seen[id(value)] = value
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in paid_in(part, seen)]
    if not isinstance(value, BaseEstimator):
        return []
    own = [vars(value)["privacy_guarantee_"]] if "privacy_guarantee_" in vars(value) else []
    return own + paid_in(list(vars(value).values()), seen)


# Composites whose members compose ---------------------------------------------------------------------------


def holding():
    regressor, classifier = PrivateRegressor(0.5), PrivateClassifier(0.5)
    add_remove = PrivateClassifier(0.5, adjacency="add-remove")
    fitted = PrivateRegressor(0.25).fit(DRAWN, TARGET)
    several = np.stack([TARGET, TARGET], axis=1)
    yield "one", regressor, TARGET, 0.5
    yield "pipeline", make_pipeline(PublicScaler(), Normalizer(), regressor), TARGET, 0.5
    yield "two in a row", make_pipeline(PrivateMap(0.25), regressor), TARGET, 0.75
    yield (
        "union",
        make_pipeline(FeatureUnion([("a", PrivateMap(0.25)), ("b", "passthrough")]), regressor),
        TARGET,
        0.75,
    )
    columns = [("a", PrivateMap(0.25), [0]), ("b", "drop", [1]), ("c", StandardScaler(), [])]
    mixed = make_pipeline(ColumnTransformer(columns, remainder="passthrough"), regressor)
    yield "columns", mixed, TARGET, 0.75
    yield ("remainder", make_pipeline(ColumnTransformer([], remainder=PrivateMap(0.125)), regressor), TARGET, 0.625)
    yield "voting", VotingRegressor([("a", regressor), ("b", PrivateRegressor(0.25))]), TARGET, 0.75
    yield "voting drop", VotingClassifier([("a", classifier), ("b", "drop"), ("c", classifier)]), LABELS, 1.0
    yield "bagging", BaggingRegressor(regressor, n_estimators=3, bootstrap=False), TARGET, 1.5
    yield ("bagging part", BaggingRegressor(regressor, n_estimators=3, bootstrap=False, max_samples=0.5), TARGET, 1.5)
    yield "rest", OneVsRestClassifier(classifier), LABELS, 1.5
    yield "one", OneVsOneClassifier(add_remove), LABELS, 1.5
    # Six columns of the code book; what is constant in it is so for every data set with these labels.
    yield "code", OutputCodeClassifier(classifier, code_size=2, random_state=7), LABELS, None
    yield "outputs", MultiOutputRegressor(regressor), several, 1.0
    yield "chain", RegressorChain(regressor), several, 1.0
    yield "threshold", FixedThresholdClassifier(classifier, threshold=0.4), LABELS % 2, 0.5
    yield ("target", TransformedTargetRegressor(regressor, func=np.log1p, inverse_func=np.expm1), TARGET + 5, 0.5)
    frozen = [("a", FrozenEstimator(fitted)), ("b", FrozenEstimator(LinearRegression().fit(DRAWN, TARGET)))]
    yield "stacking", StackingRegressor(frozen, final_estimator=regressor), TARGET, 0.75
    plain = [("a", fitted), ("b", LinearRegression().fit(DRAWN, TARGET))]
    yield "stacking prefit", StackingRegressor(plain, final_estimator=regressor, cv="prefit"), TARGET, 0.75


@pytest.mark.parametrize("name, model, y, epsilon", [pytest.param(*case, id=case[0]) for case in holding()])
def test_members_add_up(name, model, y, epsilon):
    model = copy.deepcopy(model)  # other cases fit the same members in place
    report = check_pipeline(model)
    assert report.could_hold, str(report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)  # bagging seeds its members
        model.fit(DRAWN, y)
    guarantee = guarantee_of(model)
    if epsilon is None:
        epsilon = 0.5 * int(np.sum(np.ptp(model.code_book_, axis=0) > 0))
    assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert guarantee.delta == 0 and guarantee.unit == "row"
    # Whatever the rules say: nothing that is inside the model and was paid for is left out.
    found = paid_in(model)
    events = [pair for one in found for pair in one.events]
    assert guarantee.epsilon == pytest.approx(compose_epsilon(events, 0.0), rel=1e-12)
    assert guarantee.valid_for_release == all(one.valid_for_release for one in found)
    assert report.epsilon is None or report.epsilon == pytest.approx(epsilon)


EPSILONS = st.integers(1, 8).map(lambda k: k / 16)
TRANSFORMERS = st.recursive(
    st.just((PublicScaler(), 0.0, 0))
    | EPSILONS.map(lambda e: (PrivateMap(e), e, 0))
    | st.just((StandardScaler(), 0.0, 1)),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from(
            [
                (make_pipeline(*(m for m, *_ in parts)), sum(p[1] for p in parts), sum(p[2] for p in parts)),
                (
                    FeatureUnion([(f"p{i}", m) for i, (m, *_) in enumerate(parts)]),
                    sum(p[1] for p in parts),
                    sum(p[2] for p in parts),
                ),
            ]
        )
    ),
    max_leaves=4,
)


@st.composite
def trees(draw, depth=2):
    """A composite, what its private members cost by adding up while it is built, and how many steps leak."""
    epsilon = draw(EPSILONS)
    kind = draw(st.sampled_from(["one", "pipeline", "voting", "bagging", "target"] if depth else ["one"]))
    if kind == "one":
        return PrivateRegressor(epsilon), epsilon, 0
    model, cost, leaks = draw(trees(depth=depth - 1))
    if kind == "pipeline":
        step, more, leaking = draw(TRANSFORMERS)
        return make_pipeline(step, model), cost + more, leaks + leaking
    if kind == "voting":
        other, more, leaking = draw(trees(depth=depth - 1))
        return VotingRegressor([("a", model), ("b", other)]), cost + more, leaks + leaking
    if kind == "bagging" and not isinstance(model, BaggingRegressor):  # it would pass weights to the inner one
        return BaggingRegressor(model, n_estimators=2, bootstrap=False), 2 * cost, leaks
    if kind == "bagging":
        return model, cost, leaks
    return TransformedTargetRegressor(model, func=np.log1p, inverse_func=np.expm1), cost, leaks


@settings(max_examples=25, deadline=None)
@given(trees())
def test_any_tree_adds_up_or_names_its_leaks(tree):
    model, epsilon, leaks = tree
    model = clone(model)
    report = check_pipeline(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(DRAWN, TARGET + 5)
        except TypeError as error:  # bagging passes weights to a voting model before scikit-learn 1.7
            if "does not support sample weights" not in str(error):
                raise
            reject()
    if leaks:
        assert not report.could_hold
        refused(model, "(StandardScaler)")
    else:
        assert report.epsilon == pytest.approx(epsilon) and guarantee_of(model).epsilon == pytest.approx(epsilon)
        events = [pair for one in paid_in(model) for pair in one.events]
        assert compose_epsilon(events, 0.0) == pytest.approx(epsilon)


def test_gaussian_members_compose_exactly():
    """Four Gaussian draws of multiplier 4 are one of multiplier 2."""
    member = PrivateRegressor(2.0, delta=1e-6, kind="gaussian")
    model = VotingRegressor([(name, member) for name in "abcd"]).fit(DRAWN, TARGET)
    guarantee = guarantee_of(model)
    assert guarantee.delta == pytest.approx(4e-6)
    expected = gaussian_epsilon(2.0, 4e-6)
    assert expected <= guarantee.epsilon <= expected * 1.001
    assert guarantee.epsilon < 4 * gaussian_epsilon(4.0, 1e-6) * 0.8


def test_budgets_add_up_where_a_plan_may_follow_a_result():
    """After a step that chooses its columns, the next one's plan may depend on them: no composition of events."""
    member = PrivateRegressor(2.0, kind="gaussian")
    model = make_pipeline(PrivateWidth(2.0, kind="gaussian"), member).fit(DRAWN, TARGET)
    guarantee = guarantee_of(model)
    assert guarantee.epsilon == 4.0 and guarantee.delta == pytest.approx(2e-6)
    # Nor in what is done with it later: the events are those of one of the plans that might have been.
    other = member.privacy_guarantee_
    for pair in ((guarantee, other), (other, guarantee)):
        assert pair[0].compose(*pair[1:]).epsilon == pytest.approx(4.0 + other.epsilon)
    stated = dataclasses.replace(guarantee, events=())
    assert guarantee.adaptive and guarantee.risk().advantage == stated.risk().advantage
    model = make_pipeline(SelectFromModel(PrivateRegressor(0.25)), PrivateRegressor(0.5)).fit(DRAWN, TARGET)
    assert guarantee_of(model).epsilon == 0.75
    model = make_pipeline(PrivateMap(2.0, kind="gaussian"), member).fit(DRAWN, TARGET)
    assert guarantee_of(model).epsilon <= gaussian_epsilon(4 / math.sqrt(2), 2e-6) * 1.001


class PrivateFeature(TransformerMixin, CuratedBagGAMClassifier):
    """What a label-private model released, as a feature."""

    _public_width = True

    def transform(self, X):
        return np.column_stack([X, self.predict_proba(X)[:, 0].round(1)])


@pytest.mark.filterwarnings("ignore:.*[Ss]imulat", "ignore:.*cells:UserWarning")
def test_a_plan_by_released_features_is_worth_the_sum_of_the_budgets():
    """Where labels are protected a plan follows features, which may be results: all plans state the same."""
    rng, shares = np.random.default_rng(1), ([0.55, 0.25, 0.2], [0.5, 0.3, 0.2], [0.6, 0.4])
    X = np.column_stack([rng.choice(len(p), size=300, p=p) for p in shares]).astype(float)
    y = (rng.random(300) < 0.3 + 0.1 * X[:, 0] + 0.1 * X[:, 1]).astype(int)
    bags = {"classes": [0, 1], "mechanism": "auto", "feature_sets": "singles", "delta": 1e-3}

    def final(seed):
        return CuratedBagGAMClassifier(1.0, n_bins=4, min_size=102, random_state=seed, **bags)

    ledger, events = PrivacyLedger(epsilon=99.0, delta=0.5, simulation=True), set()
    for seed in (0, 2, 4):
        first = FrozenEstimator(CuratedBagGAMClassifier(0.5, random_state=seed, **bags).fit(X, y))
        options = {"cv": "prefit", "passthrough": True, "stack_method": "predict_proba"}
        stack = StackingClassifier([("a", first)], final_estimator=final(seed), **options).fit(X, y)
        found = guarantee_of(stack)
        assert (found.epsilon, found.delta, found.adaptive) == (1.5, 2e-3, True)
        events.add(type(stack.final_estimator_.privacy_guarantee_.events[0][0]))
    assert events == {GaussianEvent, PureEvent}
    assert quote(clone(stack), X, y, ledger=ledger).admitted  # of what was released before the rest is known
    steps = [("a", PrivateFeature(0.5, random_state=0, **bags)), ("b", final(0))]
    for model in (Pipeline(steps), PrivatePipeline(steps, epsilon=1.5, delta=2e-3)):
        found = guarantee_of(clone(model).fit(X, y))
        assert found.adaptive and found.epsilon == pytest.approx(1.5) and found.delta == pytest.approx(2e-3)
        with pytest.raises(ValueError, match=r"known beforehand, got pipeline step 'b'.* behind pipeline step 'a'"):
            quote(model, X, y, ledger=ledger)
    assert not ledger.entries()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if isinstance(e, PrivateEstimatorMixin)], ids=repr)
def test_a_part_speaks_of_itself(estimator):
    """Results before it, which it may show, are not in its guarantee: all say so, and a step that it is one."""
    seeded = {"random_state": 0} if "random_state" in estimator.get_params(deep=False) else {}
    model = clone(estimator).set_params(**seeded)
    data = default_data(model, public_generator(0), 60)
    alone = clone(model).fit(data.X, data.y, **data.metadata)
    given = {f"step__{name}": values for name, values in data.metadata.items()}
    whole = Pipeline([("step", clone(model))]).fit(data.X, data.y, **given)
    promised = alone.privacy_guarantee_
    rows = promised.unit != "label"
    assert (PUBLIC_BEFORE in promised.assumptions) is rows and "alone" not in f"{promised}{promised!r}"
    for one in (guarantee_of(whole[-1]), guarantee_of(FrozenEstimator(whole[-1]))):
        assert ("of this step alone" in str(one)) is rows is ("of this step alone" in repr(one))
    for one in (guarantee_of(whole), guarantee_of(FrozenEstimator(whole))):
        assert (PUBLIC_BEFORE in one.assumptions) is rows and "alone" not in f"{one}{one!r}{one.assumptions}"


MEMBERS = {
    "a target": (lambda r, c: TransformedTargetRegressor(r, transformer=StandardScaler()), lambda m: m.regressor_),
    "features left": (lambda r, c: RFE(r, n_features_to_select=1), lambda m: m.estimator_),
    "a chooser": (lambda r, c: SelectFromModel(r), lambda m: m.estimator_),
    "errors of others": (lambda r, c: AdaBoostRegressor(r, n_estimators=2), lambda m: m.estimators_[0]),
    "a bag": (lambda r, c: BaggingRegressor(r, n_estimators=2, bootstrap=False), lambda m: m.estimators_[0]),
    "a vote": (lambda r, c: VotingRegressor([("a", r)]), lambda m: m.estimators_[0]),
    "calibrated": (lambda r, c: CalibratedClassifierCV(c, cv=2), lambda m: m.calibrated_classifiers_[0].estimator),
    "one against the rest": (lambda r, c: OneVsRestClassifier(c), lambda m: m.estimators_[0]),
    "own labels": (lambda r, c: SelfTrainingClassifier(c), lambda m: m.estimator_),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_speaks_of_itself(name, n_jobs):
    """What its composite learned besides is not in its guarantee."""
    X = np.linspace(0, 1, 120).reshape(60, 2)
    make, part = MEMBERS[name]
    model = make(UserLevelSGDRegressor(max_iter=2), UserLevelSGDClassifier(max_iter=2, classes=[0, 1]))
    if n_jobs and "n_jobs" not in model.get_params():
        pytest.skip("one after the other")
    model.set_params(**{"n_jobs": n_jobs} if n_jobs else {})
    model.fit(X, np.arange(60) % 2)
    assert "of this step alone" in str(part(model).privacy_guarantee_)


def test_bagging_is_simulated_because_it_sets_seeds():
    with pytest.warns(SimulatedNoiseWarning):
        model = BaggingRegressor(PrivateRegressor(), n_estimators=2, bootstrap=False).fit(DRAWN, TARGET)
    guarantee = guarantee_of(model)
    assert not guarantee.valid_for_release and "simulated" in repr(guarantee)


def test_what_was_fitted_before_counts_once():
    fitted = FrozenEstimator(PrivateRegressor(0.5).fit(DRAWN, TARGET))
    model = VotingRegressor([("a", fitted), ("b", fitted), ("c", PrivateRegressor(0.25))]).fit(DRAWN, TARGET)
    assert guarantee_of(model).epsilon == pytest.approx(0.75)
    prefit = SelectFromModel(PrivateRegressor(0.25).fit(DRAWN, TARGET), prefit=True)
    assert guarantee_of(make_pipeline(prefit, PrivateRegressor(0.5)).fit(DRAWN, TARGET)).epsilon == 0.75
    assert check_pipeline(fitted).could_hold
    assert guarantee_of(fitted).epsilon == 0.5
    leak = FrozenEstimator(make_pipeline(StandardScaler(), PrivateRegressor()).fit(DRAWN, TARGET))
    model = VotingRegressor([("a", leak), ("c", PrivateRegressor(0.25))]).fit(DRAWN, TARGET)
    refused(model, "member 'a', pipeline step 'standardscaler' (StandardScaler)")


def test_public_models_are_an_assumption():
    public = FrozenEstimator(LinearRegression().fit(DRAWN, TARGET))
    model = VotingRegressor([("a", public), ("b", PrivateRegressor())]).fit(DRAWN, TARGET)
    text = "member 'a' (LinearRegression) was fitted before, on public rows only"
    assert text in guarantee_of(model).assumptions
    refused(public, "nothing in this FrozenEstimator is private")


def test_a_selector_counts_its_candidates():
    users = np.arange(60)
    private, also = (PrivateRegressor(e, unit="user").fit(DRAWN, TARGET) for e in (0.5, 0.25))
    public = LinearRegression().fit(DRAWN, TARGET)
    candidates = [("a", private), ("b", FrozenEstimator(also)), ("c", public)]
    selector = UserLevelSelector(candidates, epsilon=0.125).fit(DRAWN, TARGET, user_ids=users)
    guarantee = guarantee_of(selector)
    assert guarantee.epsilon == pytest.approx(0.875)
    assert any("candidate 'c' (LinearRegression)" in text for text in guarantee.assumptions)
    assert check_pipeline(selector).could_hold
    row = UserLevelSelector([("a", PrivateRegressor().fit(DRAWN, TARGET))]).fit(DRAWN, TARGET, user_ids=users)
    refused(row, "candidate 'a'", "protects one row", "protects one user")


class MySelector(UserLevelSelector):
    """Changes nothing."""


def test_a_selector_of_ones_own_counts_its_candidates():
    candidates = [("a", PrivateRegressor(0.5, unit="user").fit(DRAWN, TARGET))]
    for kind in (UserLevelSelector, MySelector):
        selector = kind(candidates, epsilon=0.125).fit(DRAWN, TARGET, user_ids=np.arange(60))
        assert guarantee_of(selector).epsilon == pytest.approx(0.625)


class Centred(PublicScaler):
    """Inherits the declaration, and learns."""

    def fit(self, X, y=None):
        self.center = np.mean(X, axis=0)
        return super().fit(X)


class CentredAndDeclared(Centred):
    looks_at_no_data: ClassVar[bool] = True


class AsItWas(PublicScaler):
    """Replaces nothing that sees rows."""

    def fit_later(self):
        return self


def test_a_declaration_is_about_the_methods_of_its_class():
    """A class that replaces them inherits the words, not what they say."""
    for step in (Centred(), type("Other", (PublicScaler,), {"transform": lambda self, X: X - X.mean(0)})()):
        model = make_pipeline(step, PrivateRegressor())
        assert not check_pipeline(model).could_hold
        refused(model.fit(DRAWN, TARGET), "inherits looks_at_no_data from a class whose methods it replaces")
    encoders = [kind(categories=[[0.5]] * 3) for kind in (PublicOneHotEncoder, PublicOrdinalEncoder)]
    for step in (CentredAndDeclared(), AsItWas(), *encoders):
        assert guarantee_of(make_pipeline(step, PrivateRegressor(0.5)).fit(DRAWN, TARGET)).epsilon == 0.5


class Standardised(UserLevelSGDRegressor):
    """Inherits the guarantee, and learns more."""

    def fit(self, X, y):
        return super().fit(StandardScaler().fit_transform(X), y)


class KeepsMeans(UserLevelSGDRegressor):
    """Replaces what the inherited fit calls."""

    def _check_options(self, X, user_ids):
        self.means_ = np.mean(X, axis=0)
        return super()._check_options(X, user_ids)


class Hook:
    def _run(self, *args):
        return super()._run(*args)


class Mixed(Hook, UserLevelSGDRegressor):
    """Takes it from another class."""


class Predicts(UserLevelSGDRegressor):
    """Changes what happens after the fit alone."""

    def __init__(self, epsilon=1.0):
        super().__init__(epsilon)

    def predict(self, X):
        return np.maximum(super().predict(X), 0.0)

    def score(self, X, y):
        return 0.0


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (UserLevelSGDRegressor, ""),
        (Predicts, ""),
        (Standardised, "fit"),
        (KeepsMeans, "_check_options"),
        (Mixed, "_run"),
    ],
)
def test_a_subclass_that_replaces_what_a_fit_calls_is_taken_at_its_word_and_that_is_said(kind, names):
    model = kind(1.0).fit(np.tile(DRAWN, (10, 1)), np.tile(TARGET, 10))
    copy.copy(model), pickle.dumps(model)  # Python leaves a note at a class that it has copied
    said = [text for text in guarantee_of(model).assumptions if "are not this package's" in text]
    assert [f"nothing else: {names} of it" in text for text in said] == ([True] if names else [])


@pytest.mark.parametrize("checked", [True, False])
def test_a_warning_about_private_rows_is_an_assumption(checked):
    model = make_pipeline(
        FunctionTransformer(np.square, np.sqrt, check_inverse=checked),
        TransformedTargetRegressor(
            UserLevelSGDRegressor(radius=5.0), func=np.negative, inverse_func=np.negative, check_inverse=checked
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.abs(DRAWN), TARGET)
    said = [text for text in guarantee_of(model).assumptions if "check_inverse=True" in text]
    assert len(said) == 2 * checked


# Steps that look at private rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step, why",
    [
        (StandardScaler(), "PublicScaler"),
        (MinMaxScaler(), "PublicScaler"),
        (SimpleImputer(), "strategy='constant'"),
        (SimpleImputer(strategy="constant"), "keep_empty_features"),
        (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), "add_indicator"),
        (SelectKBest(lambda X, y: X[0], k=2), "without a guarantee"),
        (type("Mine", (StandardScaler,), {})(), "without a guarantee"),
        (type("MyImputer", (SimpleImputer,), {})(strategy="constant", keep_empty_features=True), "without a guarantee"),
        (type("MyNormalizer", (Pipeline,), {})([("a", StandardScaler())]), "not known"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
def test_steps_that_learn_are_named(step, why):
    model = Pipeline([("first", step), ("last", PrivateRegressor())])
    assert not check_pipeline(model).could_hold
    path = f"pipeline step 'first' ({type(step).__name__})"
    assert path in str(check_pipeline(model)) and why in str(check_pipeline(model))
    problems = refused(model.fit(DRAWN, TARGET), path, why)
    assert problems[0][0] == path
    with pytest.raises(NoGuaranteeError, match="first"):
        check_pipeline(model, raise_=True)


@pytest.mark.parametrize(
    "step, assumption",
    [
        (Binarizer(), None),
        (PolynomialFeatures(), None),
        (FunctionTransformer(), None),
        (Declared(), "treats every row by itself, to the last bit"),
        (SimpleImputer(strategy="constant", keep_empty_features=True), "by itself, to the last bit"),
        (SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True), "can hold its fill_value"),
        (FunctionTransformer(np.log1p), "the function of pipeline step 'first' (FunctionTransformer)"),
        (Row(), "pipeline step 'first' (Row) needs no fit"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
def test_steps_that_look_at_no_data(step, assumption):
    model = Pipeline([("first", step), ("skipped", "passthrough"), ("last", PrivateRegressor())])
    assert check_pipeline(model).could_hold
    assumptions = assumptions_of(model.fit(DRAWN, TARGET))
    assert assumption in assumptions[0] if assumption else assumptions == ()
    caution = assumption is not None and "fill_value" not in assumption
    assert len([text for text in assumptions if "to the last bit" in text]) == caution


@pytest.mark.parametrize("cls", [OneHotEncoder, OrdinalEncoder])
def test_encoders_with_public_categories(cls):
    one_hot = cls is OneHotEncoder
    silent = {"handle_unknown": "ignore"} if one_hot else {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    public = {"categories": [["a", "b", "c"]], **silent}
    loud = ("error", "warn", "infrequent_if_exist") if one_hot else ("error",)
    known = {} if one_hot else {"unknown_value": None}
    if one_hot:
        assert not check_pipeline(make_pipeline(cls(**public, drop="first"), PrivateRegressor())).could_hold
    for options, why in [
        (public, ""),
        *(({**public, "handle_unknown": word, **known}, "is not listed") for word in loud),
        ({}, "categories=["),
        ({**public, "min_frequency": 3}, "how often"),
        ({**public, "max_categories": 2}, "how often"),
    ]:
        columns = ColumnTransformer([("city", cls(**options), [0])], remainder="drop", sparse_threshold=0)
        model = make_pipeline(columns, PrivateRegressor()).fit(np.array(["a", "b", "c"] * 20)[:, None], TARGET)
        if why:
            refused(model, f"columns 'city' ({cls.__name__})", why)
        else:
            assert assumptions_of(model) == ()
    columns.set_params(sparse_threshold=0.3, city__max_categories=None)
    texts = assumptions_of(model.fit(np.array(["a", "b", "c"] * 20)[:, None], TARGET))
    assert ["sparse" in text for text in texts] == ([True] if cls is OneHotEncoder else [])


@pytest.mark.parametrize("wrap", [make_pipeline, FrozenEstimator, RowByRow])
def test_one_unlisted_category_may_make_a_sparse_matrix(wrap):
    """Of 3 in 10 numbers that are no zero one is missing: the threshold of 0.3 is passed, and a regressor refuses."""
    listed = [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0]]
    encoder = OneHotEncoder(categories=listed, handle_unknown="ignore").fit([[0.0] * 3])
    model = make_pipeline(ColumnTransformer([("city", wrap(encoder), [0, 1, 2])]), PrivateRegressor())
    assert any("sparse_threshold" in text for text in assumptions_of(model.fit(np.zeros((60, 3)), TARGET)))


def test_text_and_callable_columns():
    texts = np.array(["one two", "three"] * 30, dtype=object)
    model = make_pipeline(
        HashingVectorizer(n_features=4), FunctionTransformer(lambda X: X.toarray()), PrivateRegressor()
    )
    assert guarantee_of(model.fit(texts, TARGET)).epsilon == 1
    columns = ColumnTransformer([("a", Binarizer(), lambda X: [0])], remainder="passthrough")
    (text,) = assumptions_of(make_pipeline(columns, PrivateRegressor()).fit(DRAWN, TARGET))
    assert "the rule that chooses columns" in text


def test_a_tag_is_no_proof():
    """A Gaussian process needs no fit to predict, and learns all the same; patches make many rows of one."""
    assert not check_pipeline(make_pipeline(PatchExtractor(), PrivateRegressor())).could_hold
    model = VotingRegressor([("a", PrivateRegressor()), ("b", GaussianProcessRegressor())])
    refused(model.fit(DRAWN, TARGET), "member 'b' (GaussianProcessRegressor)")


def test_every_leak_is_listed():
    voting = VotingClassifier([("a", PrivateClassifier()), ("b", LogisticRegression())])
    model = Pipeline([("scaler", StandardScaler()), ("vote", voting)]).fit(DRAWN, LABELS)
    problems = refused(model)
    assert [path for path, _ in problems] == [
        "pipeline step 'vote', member 'b' (LogisticRegression)",
        "pipeline step 'scaler' (StandardScaler)",
    ]


# Composites that break a guarantee ----------------------------------------------------------------------------


def breaking():
    regressor, classifier = PrivateRegressor(), PrivateClassifier()
    half = {"bootstrap": False, "max_samples": 0.5, "n_estimators": 2}
    user, added = PrivateRegressor(unit="user"), PrivateRegressor(adjacency="add-remove")
    label = PrivateClassifier(unit="label")
    several = np.stack([LABELS, LABELS], axis=1)
    yield BaggingRegressor(regressor, n_estimators=2), TARGET, "repetition"
    yield BaggingRegressor(user, n_estimators=2), TARGET, "repetition"
    if SCIKIT_LEARN >= (1, 8):
        # Before, bagging handed weights to the members of its members, which do not take any.
        inner = BaggingRegressor(regressor, bootstrap=False, n_estimators=2)
        yield BaggingRegressor(inner, bootstrap=False, n_estimators=2), TARGET, "sample_weight"
    yield BaggingRegressor(user, **half), TARGET, "how many there are"
    yield BaggingRegressor(added, **half), TARGET, "how many there are"
    yield BaggingRegressor(n_estimators=2, bootstrap=False), TARGET, "member 0 (DecisionTreeRegressor)"
    yield OneVsOneClassifier(classifier), LABELS, "add-remove"
    yield OneVsOneClassifier(label), LABELS, "add-remove"
    yield OneVsRestClassifier(LogisticRegression()), LABELS, "member 0 (LogisticRegression)"
    yield OneVsRestClassifier(PrivateClassifier(unit="private row")), LABELS, "private rows of its own"
    yield OneVsRestClassifier(classifier), np.eye(3)[:, [0, 0]][LABELS] > 2, "by all rows or by none"
    yield ClassifierChain(label), several, "true targets of earlier ones"
    yield RegressorChain(regressor, cv=2), several, "on folds"
    yield StackingRegressor([("a", regressor)], final_estimator=regressor), TARGET, "FrozenEstimator"
    yield StackingClassifier([("a", classifier)]), LABELS, "final estimator (LogisticRegression)"
    yield CalibratedClassifierCV(classifier, cv=2), LABELS, "calibrators"
    yield GridSearchCV(regressor, {"epsilon": [1.0]}, cv=2), TARGET, "choose the parameters"
    yield TunedThresholdClassifierCV(classifier, cv=2), LABELS % 2, "threshold"
    yield AdaBoostRegressor(regressor, n_estimators=2), TARGET, "errors of members"
    yield SelfTrainingClassifier(classifier), LABELS - 1, "transduction_"
    yield RFE(regressor, n_features_to_select=1), TARGET, "last only"
    yield (TransformedTargetRegressor(regressor, transformer=StandardScaler()), TARGET, "transformer of the target")
    yield SelectFromModel(regressor, max_features=lambda X: 1), TARGET, "max_features"
    yield VotingRegressor([("a", regressor), ("b", user)]), TARGET, "protects one user"
    yield VotingRegressor([("a", regressor), ("b", added)]), TARGET, "add-remove"


@pytest.mark.parametrize("model, y, why", [pytest.param(*c, id=f"{type(c[0]).__name__}-{c[2]}") for c in breaking()])
@pytest.mark.filterwarnings("ignore")
def test_composites_that_break_a_guarantee(model, y, why):
    model.fit(DRAWN, y)
    refused(model, why)


def test_a_leak_in_a_later_member_is_found():
    """The first column of this code book is constant: its member fits nothing, the others do."""
    leaking = make_pipeline(StandardScaler(), PrivateClassifier())
    for seed in range(100):
        model = OutputCodeClassifier(leaking, code_size=2, random_state=seed).fit(DRAWN, LABELS)
        constant = np.ptp(model.code_book_, axis=0) == 0
        if constant[0] and not constant.all():
            break
    refused(model, "pipeline step 'standardscaler' (StandardScaler)")


def test_labels_alone():
    """Features are public to a guarantee for labels: what learns from them alone needs none."""
    label = PrivateRegressor(unit="label")
    model = make_pipeline(StandardScaler(), label).fit(DRAWN, TARGET)
    weights, text = assumptions_of(model)
    assert text == "features are public: pipeline step 'standardscaler' (StandardScaler) learns from them"
    assert weights.startswith("pipeline step 'standardscaler' (StandardScaler) was given no sample_weight")
    refused(make_pipeline(SelectKBest(lambda X, y: X[0], k=2), label).fit(DRAWN, TARGET), "(SelectKBest)")
    target = TransformedTargetRegressor(label, transformer=StandardScaler()).fit(DRAWN, TARGET)
    refused(target, "transformer of the target (StandardScaler)")


def test_forgotten_user_ids_do_not_compose():
    """A member that got no ids protects rows, the other users: neither covers the other."""
    members = [("a", PrivateRegressor(unit="user")), ("b", PrivateRegressor(unit="row"))]
    problems = refused(VotingRegressor(members).fit(DRAWN, TARGET), "same unit")
    assert [path for path, _ in problems] == ["member 'a' (PrivateRegressor)", "member 'b' (PrivateRegressor)"]


# The local model ------------------------------------------------------------------------------------------------


def test_after_randomised_rows_everything_is_post_processing_but_targets():
    model = make_pipeline(MetricPrivatizer(epsilon=0.5), StandardScaler(), KMeans(2, n_init=1)).fit(DRAWN)
    guarantee = guarantee_of(model)
    assert guarantee.epsilon == 0.5 and guarantee.adjacency == "metric" and guarantee.metric == "l2"
    refused(make_pipeline(MetricPrivatizer(), LinearRegression()).fit(DRAWN, TARGET), "targets")
    partly = FeatureUnion([("a", MetricPrivatizer()), ("b", "passthrough")])
    refused(make_pipeline(partly, KMeans(2, n_init=1)).fit(DRAWN), "(KMeans)")


def test_what_was_randomised_for_a_fit_and_again_afterwards_costs_twice():
    """A frozen pipeline learnt from one draw, and hands on another one of the same rows; so does a target's."""
    inner = make_pipeline(MetricPrivatizer(0.5), KMeans(2, n_init=1)).fit(DRAWN)
    outer = make_pipeline(FrozenEstimator(inner), StandardScaler()).fit(DRAWN)
    assert guarantee_of(outer).epsilon == pytest.approx(1.0)
    nothing_learnt = make_pipeline(PublicScaler(), MetricPrivatizer(0.5)).fit(DRAWN)
    once = make_pipeline(FrozenEstimator(nothing_learnt), StandardScaler()).fit(DRAWN)
    assert guarantee_of(once).epsilon == pytest.approx(0.5)
    target = make_pipeline(MetricPrivatizer(0.5), StandardScaler())
    regressor = make_pipeline(MetricPrivatizer(0.5), KMeans(2, n_init=1))
    model = TransformedTargetRegressor(regressor, transformer=target, check_inverse=False)
    assert guarantee_of(model.fit(DRAWN, TARGET)).epsilon == pytest.approx(1.5)


def test_weights_come_past_the_randomiser():
    model = make_pipeline(MetricPrivatizer(), StandardScaler())
    texts = guarantee_of(model.fit(DRAWN, standardscaler__sample_weight=TARGET + 2)).assumptions
    assert "pipeline step 'standardscaler' (StandardScaler) was given no sample_weight" in texts[-2]


def test_ensembles_that_number_labels_do_not_say_which_is_private():
    """Alphabetical order made "good" the private label 1 of a member that was told nothing."""
    member = PrivateClassifier(0.5, unit="private row")
    names = np.array(["bad", "good"])
    for model in (
        VotingClassifier([("a", member)]),
        BaggingClassifier(member, n_estimators=1, bootstrap=False),
        OneVsRestClassifier(member),
        StackingClassifier([("a", FrozenEstimator(PublicClassifier().fit(DRAWN, LABELS % 2)))], member),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)
            refused(model.fit(DRAWN, names[LABELS % 2]), "labels reach it as the numbers 0, 1")
            if not isinstance(model, StackingClassifier):
                assert guarantee_of(model.fit(DRAWN, LABELS % 2)).unit == "private row"


@pytest.mark.parametrize("seed", [1, 5])
def test_codes_of_labels_do_not_say_which_is_private(seed):
    """With two labels and one digit, half of the code books call label 0 by the name 1, and it by another."""
    member = PrivateClassifier(0.5, unit="private row")
    model = OutputCodeClassifier(member, code_size=0.5, random_state=seed).fit(DRAWN, LABELS % 2)
    assert type(model.estimators_[0]) is PrivateClassifier
    refused(model, "digits of a random code")


def test_distances_are_those_of_the_rows_that_arrive():
    after = guarantee_of(make_pipeline(PublicScaler(scale=2.0), MetricPrivatizer()).fit(DRAWN))
    assert after.metric == "l2 after PublicScaler #0da606d371"
    union = FeatureUnion([("a", MetricPrivatizer(0.5)), ("b", MetricPrivatizer(0.25))])
    assert guarantee_of(union.fit(DRAWN)).epsilon == pytest.approx(0.75)
    one = ColumnTransformer([("a", MetricPrivatizer(0.5), [0]), ("b", MetricPrivatizer(0.25), [1])])
    assert guarantee_of(one.fit(DRAWN)).epsilon == pytest.approx(0.75)
    scaled = make_pipeline(PublicScaler(scale=2.0), MetricPrivatizer())
    refused(FeatureUnion([("a", scaled), ("b", MetricPrivatizer())]).fit(DRAWN), "same metric")
    states = {"metric": "precomputed", "states": [0, 1], "distances": [[0.0, 1.0], [1.0, 0.0]]}
    two = ColumnTransformer([(n, MetricPrivatizer(**states), [i]) for i, n in enumerate("ab")])
    refused(two.fit((DRAWN > 0.5).astype(int)), "need not be that of the other")


def test_distances_count_repeated_columns():
    one = MetricPrivatizer()
    for columns in ([0, 0], [0, -2]):
        guarantee = guarantee_of(ColumnTransformer([("a", one, columns)]).fit(DRAWN[:, :2]))
        assert guarantee.metric.startswith("l2 after columns of which some are repeated #")
    for columns in ([0, 1], slice(0, 2), [True, False]):
        assert guarantee_of(ColumnTransformer([("a", one, columns)]).fit(DRAWN[:, :2])).metric == "l2"
    repeated = BaggingRegressor(
        make_pipeline(one, KMeans(2)), n_estimators=10, bootstrap=False, bootstrap_features=True
    )
    refused(repeated.fit(DRAWN, TARGET), "some are repeated #")


def test_columns_handed_on_as_they_are_next_to_randomised_ones():
    one = MetricPrivatizer()
    for model in (
        ColumnTransformer([("a", one, [0])], remainder="passthrough"),
        ColumnTransformer([("a", one, [0]), ("b", Binarizer(), [0])]),
        FeatureUnion([("a", one), ("b", "passthrough")]),
    ):
        refused(model.fit(DRAWN), "not randomised next to")
        assert not check_pipeline(model).could_hold
    assert guarantee_of(ColumnTransformer([("a", one, [0])]).fit(DRAWN)).epsilon == 1.0
    every = list(range(DRAWN.shape[1]))
    assert guarantee_of(ColumnTransformer([("a", one, every)], remainder="passthrough").fit(DRAWN))


def test_targets_are_not_randomised_where_rows_are():
    """What learns from rows alone learns from targets where these are its rows, or choose them."""
    labels = np.arange(len(DRAWN)) % 3
    of_target = TransformedTargetRegressor(KMeans(2), transformer=StandardScaler(), check_inverse=False)
    refused(make_pipeline(MetricPrivatizer(), of_target).fit(DRAWN, TARGET), "transformer of the target")
    chain = RegressorChain(KMeans(2))
    refused(make_pipeline(MetricPrivatizer(), chain).fit(DRAWN, np.c_[TARGET, TARGET]), "KMeans")
    pairs = OneVsOneClassifier(IsolationForest(n_estimators=2))
    refused(make_pipeline(MetricPrivatizer(), pairs).fit(DRAWN, labels), "IsolationForest")
    bags = RandomBagClassifier(classes=[0, 1, 2])
    refused(VotingClassifier([("a", pairs), ("b", bags)]).fit(DRAWN, labels), "IsolationForest")


# Real estimators, and how it is called --------------------------------------------------------------------------


def test_users_through_metadata_routing():
    users = np.arange(60) // 2
    member = UserLevelSGDRegressor(1.0, radius=3.0, max_iter=2)
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = VotingRegressor([("a", member), ("b", member)]).fit(DRAWN, TARGET, user_ids=users)
    guarantee = guarantee_of(model)
    own = [fitted.privacy_guarantee_ for fitted in model.estimators_]
    same = own[0].compose(own[1])
    texts = tuple(PUBLIC_BEFORE if text == STEP_ALONE else text for text in same.assumptions)
    texts = (*texts, "all steps were given the same user_ids", TYPES_STAY)
    assert guarantee == dataclasses.replace(same, assumptions=texts)
    assert guarantee.unit == "user" and guarantee.delta == pytest.approx(2e-6)


@pytest.mark.parametrize(
    "step",
    [
        ColumnTransformer([("kept", "passthrough", [0])]),
        ColumnTransformer([("kept", FunctionTransformer(), [0])]),
        FeatureUnion([("kept", "passthrough")]),
        FrozenEstimator(VarianceThreshold().fit(pd.DataFrame({"id": np.arange(9)}))),
    ],
    ids=lambda step: type(step).__name__,
)
def test_what_scikit_learn_makes_of_columns_is_assumed(step):
    """With one gap it makes floats of a frame's integers, and an encoder behind it finds none of the large ones."""
    big = 2**53
    encoder = PublicOneHotEncoder(categories=[[big, big + 1]])
    model = make_pipeline(step, encoder, UserLevelMean(1.0, random_state=0))
    frame = pd.DataFrame({"id": np.array([big + 1] * 400)})
    assert TYPES_STAY in guarantee_of(model.fit(frame)).assumptions
    alone = make_pipeline(encoder, UserLevelMean(1.0, random_state=0)).fit(frame)
    assert TYPES_STAY not in guarantee_of(alone).assumptions


def test_bad_input():
    for call in (guarantee_of, check_pipeline):
        with pytest.raises(TypeError, match="got str"):
            call("model")
        with pytest.raises(TypeError, match="got ABCMeta|got type"):
            call(PrivateRegressor)
    with pytest.raises(NotFittedError):
        guarantee_of(PrivateRegressor())
    with pytest.raises(NotFittedError):
        guarantee_of(make_pipeline(PublicScaler(), PrivateRegressor()))
    refused(LinearRegression().fit(DRAWN, TARGET), "the model (LinearRegression)")
    refused(PublicScaler().fit(DRAWN), "nothing in this PublicScaler is private")


def test_a_promise_of_nothing_is_none():
    model = PrivateRegressor().fit(DRAWN, TARGET)
    model.privacy_guarantee_ = dataclasses.replace(model.privacy_guarantee_, epsilon=math.inf)
    refused(model, "infinite epsilon")
