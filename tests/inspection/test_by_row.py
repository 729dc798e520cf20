"""Steps before a private one: those that are shown to map every row by itself, and what is said of all others."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import NMF, PCA, LatentDirichletAllocation, MiniBatchNMF
from sklearn.ensemble import StackingRegressor
from sklearn.feature_selection import (
    GenericUnivariateSelect,
    SelectFdr,
    SelectFpr,
    SelectFromModel,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
    f_regression,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, Nystroem
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

from skprivate import (
    MetricPrivatizer,
    NoGuaranteeError,
    RandomBagRegressor,
    UserLevelMean,
    UserLevelSelector,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
)
from skprivate.inspection._single import BY_ITSELF
from skprivate.model_selection import PrivateSearchCV
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateOneHotEncoder,
    PrivateQuantileTransformer,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicCalendar,
    PublicNumbers,
    PublicOneHotEncoder,
    PublicOrdinalEncoder,
    PublicScaler,
    RowByRow,
)
from skprivate.privacy import public_generator
from skprivate.report import privacy_report
from skprivate.report._facts import LOOK

RNG = public_generator(0)
PUBLIC = RNG.normal(size=(300, 4)) * [1.0, 10.0, 1e-3, 1.0] + [0.0, 5.0, 0.0, 0.0]
Y = PUBLIC @ [1.0, 0.1, 100.0, -1.0] + RNG.normal(size=300)
CODES = RNG.integers(0, 5, size=(300, 4)).astype(float)
CATEGORIES = [[0.0, 1.0, 2.0, 4.0]] * 4
SIZES = (1, 2, 3, 5, 8, 9, 16, 17, 333, 601, 1001, 1112, 5001, 6000)
MEAN = UserLevelMean(1.0, delta=1e-6)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*too few:UserWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
]


def learnt(model, X=PUBLIC):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, Y)


def frozen(*models):
    return FrozenEstimator(learnt(make_pipeline(*models) if len(models) > 1 else models[0]))


def _bins(encode):
    return KBinsDiscretizer(4, encode=encode, strategy="uniform")


CHOOSERS = (
    *(SelectFpr(f_regression), SelectFdr(f_regression), SelectFwe(f_regression)),
    *(SelectKBest(f_regression, k=2), SelectPercentile(f_regression), VarianceThreshold()),
    *(GenericUnivariateSelect(f_regression), SelectFromModel(LinearRegression())),
)
#: One or more of each class that counts as mapping rows by themselves, and rows that it takes.
SHOWN = [
    *((learnt(model), PUBLIC) for model in CHOOSERS),
    *(
        (learnt(model), PUBLIC)
        for model in (
            *(StandardScaler(), MinMaxScaler(clip=True), MaxAbsScaler(), RobustScaler(), Binarizer()),
            *(PolynomialFeatures(3), PolynomialFeatures(2, order="F"), Normalizer("max"), FunctionTransformer()),
            *(QuantileTransformer(n_quantiles=20, output_distribution=law) for law in ("uniform", "normal")),
            *(_bins("onehot-dense"), _bins("ordinal"), RowByRow(Normalizer()), RowByRow(frozen(PCA(2)))),
            *(PublicScaler.from_bounds(-10, 10), PublicScaler(center=3.0, scale=0.1)),
            PrivateImputer(1.0, bounds=(-100, 100), random_state=0),
            PrivateStandardScaler(1.0, random_state=0),
            PrivateKBinsDiscretizer(1.0, random_state=0),
            PrivateOneHotEncoder(9.0, delta=0.1, max_categories=5, random_state=0),
            PrivateQuantileTransformer(1.0, random_state=0),
            PrivateSplineTransformer(1.0, n_knots=4, random_state=0),
            UserLevelSGDRegressor(1.0, max_iter=2, random_state=0),
        )
    ),
    (UserLevelSGDClassifier(9.0, max_iter=2, random_state=0).fit(PUBLIC, Y > 0), PUBLIC),
    (OneHotEncoder(categories=CATEGORIES, handle_unknown="ignore").fit(CODES), CODES),
    (OrdinalEncoder(categories=CATEGORIES, handle_unknown="use_encoded_value", unknown_value=-1).fit(CODES), CODES),
    (
        SimpleImputer(strategy="constant", fill_value=0.5, keep_empty_features=True).fit(PUBLIC),
        np.where(CODES == 1, np.nan, PUBLIC),
    ),
    (PublicCalendar().fit(PUBLIC), 100.0 * PUBLIC),
    (PublicNumbers().fit(PUBLIC), PUBLIC),
    (PublicOneHotEncoder(CATEGORIES).fit(CODES), CODES),
    (PublicOrdinalEncoder(CATEGORIES).fit(CODES), CODES),
]


@np.errstate(all="ignore")
def results(model, X):
    """What a model makes of rows, side by side."""
    out = []
    for name in ("transform", "predict", "predict_proba", "decision_function"):
        if hasattr(model, name) and not (type(model) is RowByRow and name != "transform"):
            found = getattr(model, name)(X)
            found = np.asarray(found.toarray() if hasattr(found, "toarray") else found)
            out.append(np.ascontiguousarray(found.reshape(len(X), -1)))
    assert out
    return out


def laid_out(X, order):
    if order == "strided":
        wide = np.zeros((2 * len(X), 3 * X.shape[1]), dtype=X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    return np.array(X, order=order)


def moved(model, X, n, order, seed, dtype=np.float64):
    """Whether any of some rows comes out otherwise among others, in another order and layout, than alone."""
    rng = public_generator(seed)
    few = min(n, 6)
    rows = X[rng.integers(0, len(X), size=n)].astype(dtype)
    alone = [results(model, rows[i : i + 1].copy()) for i in range(few)]
    places = rng.permutation(n)
    among = results(model, laid_out(rows[places], order))
    where = np.argsort(places)[:few]
    return any(
        part[where[i]].tobytes() != one[k][0].tobytes() for i, one in enumerate(alone) for k, part in enumerate(among)
    )


def test_every_class_on_the_list_is_shown():
    """The noise of a randomiser is fresh for each row, so there is nothing to compare."""
    assert set(BY_ITSELF) == {type(model) for model, _ in SHOWN} | {MetricPrivatizer}


@pytest.mark.parametrize("model, X", SHOWN, ids=lambda value: type(value).__name__)
@given(
    st.sampled_from(SIZES),
    st.sampled_from(["C", "F", "strided"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float64, np.float32]),
    st.sampled_from([1.0, 1e30, 1e-30, 0.0]),
)
@settings(max_examples=8, deadline=None)
@example(6000, "F", 0, np.float64, 1.0)
@example(1, "F", 1, np.float64, 1.0)
def test_rows_come_out_the_same_among_any_others(model, X, n, order, seed, dtype, size):
    assert BY_ITSELF[type(model)](model)
    if type(model) is RowByRow:
        n = min(n, 333)
    X = X.copy()
    X[::7] *= size  # some rows are extreme
    assert not moved(model, X, n, order, seed, dtype)


@pytest.mark.parametrize(
    "model",
    [Normalizer("l1"), Normalizer("l2"), PCA(2), GaussianRandomProjection(2), LinearRegression(), LogisticRegression()],
    ids=lambda value: type(value).__name__,
)
def test_the_comparison_finds_what_it_is_for(model):
    wide = public_generator(1).normal(size=(100, 50))
    model.fit(wide, wide[:, 0] > 0)
    assert any(moved(model, wide, n, order, 0) for n in SIZES for order in ("C", "F"))
    assert not BY_ITSELF.get(type(model), lambda _: False)(model)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("values", [[1, 2, 3], ["a", "b", "c"]], ids=["numbers", "texts"])
def test_a_missing_entry_moves_no_other_code(frame, values):
    for model in (
        OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False),
        OrdinalEncoder(categories=[values], handle_unknown="use_encoded_value", unknown_value=-1),
        RowByRow(OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False)),
    ):
        column = values * 4
        full = model.fit_transform(frame({"x": column}))
        holed = model.fit_transform(frame({"x": [None, *column[1:]]}))
        assert full.dtype == holed.dtype and full[1:].tobytes() == holed[1:].tobytes()


@pytest.mark.parametrize("codes", [[2**60 + 1, 2**60 + 3], [2.0**60], np.array([2**53])], ids=str)
def test_codes_that_a_missing_entry_of_another_row_would_merge_are_refused(codes):
    silent = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    for encoder in (
        OneHotEncoder(categories=[codes], handle_unknown="ignore"),
        OrdinalEncoder(categories=[codes], **silent),
    ):
        assert "merge" in str(check_pipeline(make_pipeline(encoder, MEAN)))
        assert not BY_ITSELF[type(encoder)](encoder)
    learnt_before = OneHotEncoder(handle_unknown="ignore").fit(np.array(codes)[:, None])
    assert not BY_ITSELF[OneHotEncoder](learnt_before)


# What is said of the others ------------------------------------------------------------------------------------


class Doubled(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    looks_at_no_data: ClassVar[bool] = True

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X) * 2.0

    def __sklearn_is_fitted__(self):
        return True


ROWS = np.abs(PUBLIC)
FOREIGN = [
    *(frozen(PCA(2)), frozen(Nystroem(n_components=3))),
    *(frozen(GaussianRandomProjection(2)), frozen(StandardScaler(), PCA(2))),
    *(Normalizer(), FunctionTransformer(np.log1p), Doubled(), FrozenEstimator(Doubled())),
    *(
        FeatureUnion([("a", Normalizer())]),
        SimpleImputer(strategy="constant", keep_empty_features=True),
        ColumnTransformer([("a", frozen(PCA(2)), [0, 1, 2, 3])]),
    ),
]


class OwnFactors(NMF):
    """A subclass iterates as its parent does."""


COUPLING = [
    FrozenEstimator(learnt(kind, ROWS))
    for kind in (
        *(NMF(2), MiniBatchNMF(2), LatentDirichletAllocation(2, max_iter=2), OwnFactors(2)),
        make_pipeline(MinMaxScaler(clip=True), NMF(2)),
    )
]


def placed(step):
    """Models in which a private step sees what another step made of the rows."""
    yield make_pipeline(step, MEAN)
    yield make_pipeline(FeatureUnion([("a", step), ("b", PublicScaler())]), MEAN)
    yield make_pipeline(ColumnTransformer([("a", step, [0, 1, 2, 3])]), PublicScaler(), MEAN)
    yield make_pipeline(make_pipeline(step, PublicScaler()), make_pipeline(PublicScaler(), MEAN))


def said(model):
    return [text for text in guarantee_of(model).assumptions if "to the last bit" in text]


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("step", FOREIGN, ids=lambda step: str(step)[:40])
def test_others_carry_an_assumption_and_a_caution(step):
    for model in placed(step):
        model.fit(ROWS)
        assert said(model)
        assert any("RowByRow" in text for each in check_pipeline(model).steps for text in each.conditions)
        report = privacy_report(model)
        assert report.verdict == LOOK and "RowByRow" in str(report.findings)


@pytest.mark.parametrize("step", COUPLING, ids=lambda step: type(step.estimator).__name__)
def test_what_iterates_over_all_rows_is_refused_unless_wrapped(step):
    for model in placed(step):
        assert not check_pipeline(model).could_hold
        with pytest.raises(NoGuaranteeError, match="RowByRow"):
            guarantee_of(model.fit(ROWS))
    few = ROWS[:20]
    model = make_pipeline(RowByRow(step), MEAN).fit(few)
    assert said(model) == [] and check_pipeline(model).could_hold


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("step", FOREIGN, ids=lambda step: str(step)[:40])
def test_wrapped_they_need_neither(step):
    for model in placed(RowByRow(clone(step))):
        model.fit(ROWS[:40])
        assert said(model) == []
        assert "RowByRow" not in str(privacy_report(model).findings)
    kept = [text for text in guarantee_of(model).assumptions if "keeps nothing" in text]
    own = "Doubled" in str(step) or "log1p" in str(step)
    assert bool(kept) == own


def test_only_what_maps_rows_of_a_private_step_is_asked():
    pca = frozen(PCA(2))
    label = RandomBagRegressor(1.0, label_bounds=(-5, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert said(make_pipeline(pca, label).fit(PUBLIC, Y)) == []  # features are public there
        assert said(make_pipeline(COUPLING[0], label).fit(ROWS, Y)) == []
    chosen = SelectFromModel(frozen(LinearRegression()), prefit=True)
    assert said(make_pipeline(chosen, MEAN).fit(PUBLIC)) == []
    assert said(make_pipeline(MetricPrivatizer(), StandardScaler()).fit(PUBLIC)) == []
    assert said(make_pipeline(frozen(StandardScaler(), MinMaxScaler()), MEAN).fit(PUBLIC)) == []
    # Own models predict row by row, so a choice between them and others is theirs.
    selector = UserLevelSelector([("a", frozen(LinearRegression()))])
    assert said(selector.fit(PUBLIC, Y)) == []
    assert len(said(selector.set_params(predict_by="batch").fit(PUBLIC, Y))) == 1
    assert privacy_report(selector).verdict == LOOK


def test_predictions_of_members_and_targets_are_rows_too():
    final = UserLevelSGDRegressor(1.0, max_iter=2)
    line = frozen(LinearRegression())
    own = FrozenEstimator(UserLevelSGDRegressor(1.0, max_iter=2).fit(PUBLIC, Y))
    for member, n in ((line, 1), (RowByRow(line), 0), (own, 0)):
        for cv in ("prefit", None):
            model = StackingRegressor([("a", member)], final, cv=cv)
            assert len(said(model.fit(PUBLIC[:60], Y[:60]))) == n
    for options, n in (
        ({"func": np.cbrt, "inverse_func": np.power}, 1),
        ({"transformer": FunctionTransformer(np.cbrt)}, 1),
        ({"transformer": RowByRow(FunctionTransformer(np.cbrt, np.square))}, 0),
        ({"transformer": PublicScaler()}, 0),
    ):
        model = TransformedTargetRegressor(final, **options, check_inverse=False)
        assert len(said(model.fit(PUBLIC[:60], Y[:60]))) == n
    negative = FrozenEstimator(learnt(NMF(1), np.abs(Y)[:, None]))
    model = TransformedTargetRegressor(final, transformer=negative, check_inverse=False)
    assert "RowByRow" in str(check_pipeline(model)) and not check_pipeline(model).could_hold


@pytest.mark.slow
def test_a_search_says_what_any_of_its_candidates_assumes():
    candidates = [
        ("pca", make_pipeline(frozen(PCA(2)), UserLevelSGDRegressor(max_iter=2))),
        ("plain", UserLevelSGDRegressor(max_iter=2)),
    ]
    search = PrivateSearchCV(candidates, {}, epsilon=5.0, n_iter=1.5, score_bounds=(-1.0, 0.0), random_state=0)
    assert len(said(search.fit(PUBLIC, Y))) == 1


@pytest.mark.parametrize("step", [AdditiveChi2Sampler()], ids=lambda step: type(step).__name__)
def test_what_raises_an_error_for_some_rows_is_refused(step):
    assert "negative" in str(check_pipeline(make_pipeline(step, MEAN)))


class Remembers(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Keeps what it saw where no copy of an object is: at its class."""

    seen: ClassVar[list] = []

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        self.seen.append(X)
        return X


@pytest.mark.parametrize(
    "step",
    [
        Remembers(),
        FunctionTransformer(np.sin),
        make_pipeline(StandardScaler(), FunctionTransformer(np.sin)),
        make_pipeline(StandardScaler(), FrozenEstimator(learnt(make_pipeline(PCA(2), Remembers())))),
        FeatureUnion([("a", StandardScaler()), ("b", Remembers())]),
        Nystroem(lambda a, b: a @ b, n_components=2),
    ],
    ids=range(6),
)
def test_code_of_ones_own_is_assumed_to_keep_nothing(step):
    """Of a copy for each row it may keep something elsewhere; of scikit-learn's own classes nothing is assumed."""
    text = "keeps nothing from one call to the next"
    for inner, own in ((step, True), (make_pipeline(StandardScaler(), PCA(2)), False)):
        model = make_pipeline(RowByRow(frozen(clone(inner))), clone(MEAN)).fit(PUBLIC)
        assert any(text in assumption for assumption in guarantee_of(model).assumptions) is own
