"""Two distances share a name if and only if they are the same: ε per unit of one is not added to that of another."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler

from skprivate import MetricPrivateSynthesizer, MetricPrivatizer, NoGuaranteeError, guarantee_of
from skprivate.metric import Ball
from skprivate.preprocessing import PublicScaler, RowByRow
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, public_generator
from skprivate.privacy._identifiers import fingerprint

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning")
LINE = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
TREE = {"a": "x", "b": "x", "c": "y", "d": "y", "x": "r", "y": "r"}
ROWS = public_generator(0).uniform(size=(40, 2))
NAMED = pd.DataFrame({"u": ROWS[:, 0], "v": ROWS[:, 1], "kind": np.arange(40) % 2})


def matrix(distances, **options):
    model = MetricPrivatizer(1.0, metric="precomputed", distances=distances, **options)
    return model.fit([[0]]).privacy_guarantee_


def tree(parents, **options):
    return MetricPrivatizer(1.0, metric="tree", parents=parents, **options).fit([["a"]]).privacy_guarantee_


def measure(X=ROWS, **options):
    options = {"bounds": (0, 1), **options}
    return MetricPrivateSynthesizer(50.0, metric="wasserstein", **options).fit(X).privacy_guarantee_


def mixed(weight=1.0, columns=("kind",), X=NAMED):
    bounds = {name: (0, 1) for name in NAMED if name not in columns}
    return measure(X, bounds=bounds, categories={c: [0, 1] for c in columns}, category_weight=weight)


def after(step, columns=None):
    model = Pipeline([("anything", step), ("noise", MetricPrivatizer(1.0))])
    if columns is not None:
        model = ColumnTransformer([("part", model, columns)])
    return guarantee_of(model.fit(ROWS))


def _times(factor):
    return lambda X: factor * X


def noisy(step):
    return Pipeline([("scale", step), ("noise", MetricPrivatizer(1.0))])


SAME = {
    "matrix": lambda: [
        matrix(LINE),
        matrix(LINE.tolist()),
        matrix(LINE.astype(np.float32)),
        matrix(LINE.astype(int)),
        matrix(np.asfortranarray(LINE)),
        matrix(pd.DataFrame(LINE)),
        matrix(LINE, states=[0.0, 1.0, 2.0, 3.0]),
        matrix(LINE[::-1, ::-1], states=[3, 2, 1, 0]),
        matrix(LINE, mechanism="optimal"),
        matrix(LINE).__class__.from_dict(matrix(LINE).to_dict()),
    ],
    "tree": lambda: [
        tree(TREE),
        tree(dict(reversed(TREE.items()))),
        tree(TREE, states=list("dbca")),
        tree({**TREE, "e": "y"}, states=list("abcd")),
        tree(TREE, mechanism="exponential"),
    ],
    "box": lambda: [
        measure(),
        measure(bounds=([0, 0], [1, 1])),
        measure(bounds={1: (0.0, 1.0), 0: (0, 1)}),
        measure(ROWS[:7], resolution=2),
    ],
    "named box": lambda: [
        measure(NAMED[["u", "v"]], bounds={"u": (0, 1), "v": (0, 2)}),
        measure(NAMED[["v", "u"]], bounds={"u": (0, 1), "v": (0, 2)}),
        measure(pl.from_pandas(NAMED[["u", "v"]]), bounds=([0, 0], [1, 2])),
    ],
    "categories": lambda: [mixed(), mixed(1), mixed(X=NAMED[["kind", "v", "u"]])],
    "scaler": lambda: [
        after(PublicScaler.from_bounds(0, 40)),
        after(PublicScaler(center=20, scale=20.0, clip=True)),
        after(PublicScaler.from_bounds(0, 40).fit(ROWS)),
    ],
    "scaler of columns": lambda: [
        after(PublicScaler(scale=[1, 2]), [0, 1]),
        after(PublicScaler(scale=(1.0, 2)), [0, 1]),
    ],
    "function": lambda: [after(FunctionTransformer(_times(2))) for _ in range(2)],
    "frozen": lambda: [after(FrozenEstimator(StandardScaler().fit(ROWS))) for _ in range(2)],
    "norm": lambda: [
        MetricPrivatizer(1.0, **options).fit(ROWS).privacy_guarantee_
        for options in ({}, {"bounds": (0, 1)}, {"bounds": (0, 9)}, {"bounds": Ball(0.0, 1.0)})
    ],
}
DIFFERENT = {
    "matrix": lambda: [
        *map(matrix, (LINE, 20 * LINE, LINE[:3, :3], np.minimum(LINE, 2))),
        *(matrix(LINE, states=states) for states in (list("abcd"), [1, 0, 2, 3])),
    ],
    "tree": lambda: [*map(tree, (TREE, {**TREE, "b": "y"}, {**TREE, "e": "y"})), tree(TREE, states=list("abc"))],
    "box": lambda: [
        *(measure(bounds=bounds) for bounds in ((0, 1), (0, 1000), (-1, 1), ([0, 0], [1, 2]), ([0, 0], [2, 1]))),
        *(measure(ground="l1"), measure(NAMED[["u", "v"]]), measure(NAMED[["u"]]), measure(NAMED[["v"]])),
    ],
    "categories": lambda: [*map(mixed, (1.0, 2.0, 1 + 1e-9)), *(measure(NAMED), measure(NAMED[["u", "v"]]))],
    "step": lambda: [
        MetricPrivatizer(1.0).fit(ROWS).privacy_guarantee_,
        *(after(PublicScaler.from_bounds(0, 40, clip=clip)) for clip in (True, False)),
        after(PublicScaler.from_bounds(0, 1)),
        *(after(PublicScaler(scale=scale)) for scale in ([1, 2], [2, 1])),
        *(after(PublicScaler(scale=[1, 2]), columns) for columns in ([0, 1], [1, 0], [0, 0])),
        *(after(PublicScaler(), columns) for columns in ([0], [1], [0, 1])),
        *(after(FrozenEstimator(StandardScaler().fit(X))) for X in (ROWS, 2 * ROWS)),
        after(FrozenEstimator(StandardScaler(with_std=False).fit(ROWS))),
        *(after(FunctionTransformer(function)) for function in (lambda X: X, lambda X: 2 * X, np.exp, np.sin)),
        *(after(FunctionTransformer(_times(factor))) for factor in (2, 3)),
    ],
}


@pytest.mark.parametrize("kind", SAME)
def test_equal_distances_share_a_name_however_they_are_given(kind):
    found = SAME[kind]()
    assert len({guarantee.metric for guarantee in found}) == 1
    total = found[0].compose(*found[1:])
    assert total.metric == found[0].metric


@pytest.mark.parametrize("kind", DIFFERENT)
def test_different_distances_have_different_names(kind):
    found = DIFFERENT[kind]()
    names = [guarantee.metric for guarantee in found]
    assert len(set(names)) == len(names), sorted(names)
    with pytest.raises(ValueError, match="same metric"):
        found[0].compose(found[1])


@given(st.lists(st.floats(0.1, 5.0), min_size=3, max_size=3), st.lists(st.floats(0.1, 5.0), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_matrices_share_a_name_iff_they_are_equal(one, other):
    def line(gaps):
        places = np.concatenate([[0.0], np.cumsum(gaps)])
        return np.abs(np.subtract.outer(places, places))

    assume(not np.array_equal(line(one), line(other)))
    assert matrix(line(one)).metric == matrix(line(one).tolist()).metric != matrix(line(other)).metric


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.slow
@given(VALUES, VALUES)
@settings(max_examples=300, deadline=None)
def test_fingerprints_are_equal_iff_values_are(one, other):
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=6))
def test_fingerprints_do_not_tell_how_numbers_are_stored(values):
    array = np.array(values)
    stored = (values, tuple(values), array, array.astype(object), array[::-1].copy()[::-1], np.float64(1) * array)
    assert len({fingerprint(each) for each in stored}) == 1
    assert fingerprint(array.reshape(-1, 1)) != fingerprint(array)
    assert fingerprint(2**53) != fingerprint(2**53 + 1) and fingerprint([2**53 + 1]) != fingerprint([2**53])
    assert fingerprint(0.0) == fingerprint(-0.0) and fingerprint([0.0]) == fingerprint(np.array([-0.0]))


@pytest.mark.parametrize("wrap", [FrozenEstimator, lambda step: RowByRow(FrozenEstimator(step))])
def test_what_a_step_keeps_in_private_attributes_is_part_of_the_name(wrap):
    names = {after(wrap(KNNImputer(n_neighbors=1).fit(factor * ROWS))).metric for factor in (1.0, 1000.0, 1000.0)}
    assert len(names) == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32, float])
def test_steps_with_types_among_their_parameters_have_names(dtype):
    step = OrdinalEncoder(
        categories=[[0.0, 1.0]] * 2, dtype=dtype, handle_unknown="use_encoded_value", unknown_value=-1
    )
    assert after(step).metric.startswith("l2 after OrdinalEncoder #")
    assert fingerprint(np.float64) != fingerprint(np.float32)


def test_steps_keep_their_name_when_private_modules_move(monkeypatch):
    step = PublicScaler.from_bounds(0, 1).fit(ROWS)
    name = fingerprint(step)
    monkeypatch.setattr(PublicScaler, "__module__", "skprivate.preprocessing._elsewhere")
    assert fingerprint(step) == name
    # Not the class that the public module has: its own module is part of the name.
    impostor = type("PublicScaler", (), {"get_params": lambda self, deep=False: {}})
    impostor.__module__ = "skprivate.preprocessing._one"
    names = {fingerprint(impostor())}
    impostor.__module__ = "skprivate.preprocessing._two"
    assert fingerprint(impostor()) not in names


# What refuses by itself ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [20 * LINE, LINE + (LINE > 0) * 1e-12], ids=["other unit", "a little"])
def test_ledgers_add_up_one_distance_only(other):
    terms = {"metric": "precomputed", "distances": LINE}
    name = MetricPrivatizer(**terms).fit([[0]]).privacy_guarantee_.metric
    for ledger in (PrivacyLedger(epsilon=9.0), PrivacyLedger(epsilon=9.0, unit="row", adjacency=f"metric: {name}")):
        first = MetricPrivatizer(**terms, ledger=ledger).fit([[0]])
        first.transform([[0]])
        first.transform([[1]])
        second = MetricPrivatizer(metric="precomputed", distances=other, ledger=ledger).fit([[0]])
        with pytest.raises(ValueError, match="per unit of a distance") as error:
            second.transform([[0]])
        assert name in str(error.value) and second.privacy_guarantee_.metric in str(error.value)
        assert ledger.spent[0] == pytest.approx(2.0)
        with ledger.reserve(1.0) as part, pytest.raises(ValueError, match="per unit"):
            MetricPrivatizer(metric="precomputed", distances=other, ledger=part).fit_transform([[0]])


def test_a_ledger_of_measures():
    ledger = PrivacyLedger(epsilon=200.0)
    fits = [{"bounds": (0, 1)}, {"bounds": [[0.0, 0.0], [1, 1]]}, {"bounds": (0, 1000)}]
    for options in fits[:2]:
        MetricPrivateSynthesizer(50.0, metric="wasserstein", ledger=ledger, **options).fit(ROWS)
    with pytest.raises(ValueError, match="Nothing was drawn"):
        MetricPrivateSynthesizer(50.0, metric="wasserstein", ledger=ledger, **fits[2]).fit(ROWS)
    assert ledger.spent[0] == pytest.approx(100.0)


def test_composites():
    scaled = [noisy(PublicScaler.from_bounds(0, width)) for width in (40.0, 1.0)]
    with pytest.raises(NoGuaranteeError, match="same metric"):
        guarantee_of(FeatureUnion([("a", scaled[0]), ("b", scaled[1])]).fit(ROWS))
    same = FeatureUnion([("a", scaled[0]), ("b", noisy(PublicScaler.from_bounds(0, 40)))])
    assert guarantee_of(same.fit(ROWS)).epsilon == pytest.approx(2.0)
    columns = ColumnTransformer([("a", scaled[0], [0]), ("b", scaled[0], [1])])
    with pytest.raises(NoGuaranteeError, match="same metric"):
        guarantee_of(columns.fit(ROWS))
    codes = MetricPrivatizer(metric="precomputed", distances=LINE)
    X = np.arange(8).reshape(4, 2) % 4
    twice = FeatureUnion([("a", codes), ("b", MetricPrivatizer(metric="precomputed", distances=LINE.tolist()))])
    assert guarantee_of(twice.fit(X[:, :1])).epsilon == pytest.approx(2.0)
    with pytest.raises(NoGuaranteeError, match="need not be that of the other"):
        guarantee_of(ColumnTransformer([("a", codes, [0]), ("b", codes, [1])]).fit(X))
    drawn = BaggingRegressor(
        make_pipeline(MetricPrivatizer(), KMeans(2, n_init=1)),
        n_estimators=12,
        bootstrap=False,
        bootstrap_features=True,
    )
    with pytest.raises(NoGuaranteeError, match="some are repeated #"):
        guarantee_of(drawn.fit(ROWS, ROWS[:, 0]))


def test_names_are_readable():
    assert matrix(LINE).metric.startswith("precomputed distances #") and len(matrix(LINE).metric) < 40
    assert tree(TREE).metric.startswith("tree distances #")
    assert "fractions of the bounds #" in measure().metric
    assert "plus 2 for every category that differs #" in mixed(2.0).metric
    assert after(PublicScaler()).metric.startswith("l2 after PublicScaler #")
    assert isinstance(PrivacyGuarantee.from_dict(matrix(LINE).to_dict()), PrivacyGuarantee)
