"""Tables in and out: what GROUP BY gives becomes bags, bags become a frame, and exact tables are released."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skprivate import guarantee_of
from skprivate.aggregate import (
    CuratedBagGAMClassifier,
    CuratedBagGAMRegressor,
    CuratedBags,
    RandomBagClassifier,
    make_curated_bags,
    release_frames,
)
from skprivate.inspection import NoGuaranteeError
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, open_release
from skprivate.utils.estimator_checks import Neighbour, replay

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
# SELECT age, sex, COUNT(*) AS n, SUM(bought) AS s FROM t GROUP BY age, sex: nobody is 40 and f.
PAIR = {"age": [40, 20, 20], "sex": ["m", "m", "f"], "n": [4, 3, 2], "s": [3, 1, 0]}
AGE = {"age": [20, 40], "n": [5, 4], "s": [1, 3]}
ROWS = {"sex": ["m"] * 7 + ["f"] * 2, "age": [40] * 4 + [20] * 5}
LABELS = [1, 1, 1, 0, 1, 0, 0, 0, 0]
NAMES = {"count": "n", "sums": "s", "classes": ("no", "yes")}
STATED = PrivacyGuarantee(epsilon=1.0, delta=0.0, unit="label", adjacency="replace-one")


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_bags_of_group_by_tables_by_hand(make):
    bags = CuratedBags.from_frames([make(PAIR), make(AGE)], **NAMES)
    pair, age = bags.tables
    assert pair.feature_set == ("age", "sex") and age.feature_set == ("age",)
    assert bags.readable_keys(pair) == [("20", "f"), ("20", "m"), ("40", "m")]
    np.testing.assert_array_equal(pair.counts, [2, 3, 4])
    np.testing.assert_array_equal(pair.label_sums, [[0], [1], [3]])
    np.testing.assert_array_equal(age.label_sums, [[1], [3]])
    assert (bags.n_samples, bags.classes, pair.noise_variance) == (9, ("no", "yes"), 0.0)
    assert math.isinf(bags.guarantee.epsilon) and not bags.guarantee.stated
    assert "stated no guarantee: none is promised" in bags.guarantee.assumptions[-1]


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_a_model_of_tables_is_the_model_of_the_rows(make):
    bags = CuratedBags.from_frames([make(PAIR), make(AGE)], **NAMES)
    model = CuratedBagGAMClassifier().fit_bags(make(ROWS), bags)
    reference = CuratedBagGAMClassifier(
        epsilon=None, feature_sets=[("age", "sex"), ("age",)], categorical_features="all", min_size=1
    ).fit(pd.DataFrame(ROWS)[["age", "sex"]], LABELS)
    expected = reference.predict_proba(pd.DataFrame(ROWS)[["age", "sex"]])
    np.testing.assert_allclose(model.predict_proba(make(ROWS)), expected, rtol=1e-9)
    with pytest.raises(NoGuaranteeError, match="promises nothing"):
        guarantee_of(model)


def test_the_index_of_a_grouped_pandas_frame_holds_the_keys():
    frame = pd.DataFrame({**ROWS, "bought": LABELS})
    grouped = frame.groupby(["age", "sex"])["bought"].agg(n="size", s="sum")
    assert (
        CuratedBags.from_frames(grouped, **NAMES).to_dict()
        == CuratedBags.from_frames(pd.DataFrame(PAIR), **NAMES).to_dict()
    )


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_null_is_a_group_and_empty_groups_are_none(make):
    table = make({"age": [None, 20, 30], "n": [2, 3, 0], "s": [1, 2, None]})
    bags = CuratedBags.from_frames(table, **NAMES)
    assert bags.readable_keys(bags.tables[0]) in ([("20",), ("missing",)], [("20.0",), ("missing",)])
    np.testing.assert_array_equal(bags.tables[0].label_sums, [[2], [1]])
    model = CuratedBagGAMClassifier().fit_bags(make({"age": [20, None, 20, None, 20]}), bags)
    assert model.n_features_in_ == 1


def test_sums_follow_their_classes_into_order():
    """Tables that name classes in another order give the bags of those that name them in order."""
    table = pd.DataFrame({"age": [0, 30], "a": [1, 0], "b": [1, 2], "c": [0, 3], "n": [2, 5]})
    first, *others = (
        CuratedBags.from_frames(table, count="n", **terms).to_dict()
        for terms in (
            {"sums": {"a": "a", "b": "b", "c": "c"}},
            {"sums": {"c": "c", "a": "a", "b": "b"}},
            {"sums": ["c", "a", "b"], "classes": ["c", "a", "b"]},
        )
    )
    assert all(other == first for other in others)
    two = table.assign(yes=[1, 2], no=[1, 3])[["age", "n", "yes", "no"]]
    turned = CuratedBags.from_frames(two, count="n", sums=["yes", "no"], classes=["yes", "no"])
    assert turned.classes == ("no", "yes") and turned.tables[0].label_sums.tolist() == [[1], [2]]
    # Of one column nothing else would say whose rows it counts.
    with pytest.raises(ValueError, match=r"classes must be in order, \['no', 'yes'\], got \['yes', 'no'\]"):
        CuratedBags.from_frames(two.drop(columns="no"), count="n", sums="yes", classes=["yes", "no"])
    stored = turned.to_dict() | {"classes": ["yes", "no"]}
    with pytest.raises(ValueError, match="classes must be in order"):
        CuratedBagGAMClassifier().fit_bags(pd.DataFrame({"age": [0, 0, 30, 30, 30, 30, 30]}), stored)


def test_sums_of_several_classes_numbers_and_bins():
    table = pd.DataFrame({"age": [0, 30], "a": [1, 0], "b": [1, 2], "c": [0, 3], "n": [2, 5]})
    sums = {"c": "c", "a": "a", "b": "b"}
    bags = CuratedBags.from_frames(table, count="n", sums=sums, bin_edges={"age": [30, 60]})
    assert bags.classes == ("a", "b", "c")
    np.testing.assert_array_equal(bags.tables[0].label_sums, [[1, 1, 0], [0, 2, 3]])
    X = pd.DataFrame({"age": [3, 29.9, 30, 31, 59, 42, 33]})
    assert CuratedBagGAMClassifier().fit_bags(X, bags).classes_.tolist() == ["a", "b", "c"]
    numbers = table.assign(pay=[3.5, -1.0])[["age", "n", "pay"]]
    bags = CuratedBags.from_frames(numbers, count="n", sums="pay", bin_edges={"age": [30, 60]}, square_sum=9)
    assert bags.classes is None and bags.square_sum == 9.0
    assert CuratedBagGAMRegressor().fit_bags(X, bags).predict(X)[0] > 0
    two = pd.DataFrame({"age": [20, 40], "n": [5, 4], "no": [4, 1], "yes": [1, 3]})
    bags = CuratedBags.from_frames(two, count="n", sums=["no", "yes"], classes=("no", "yes"))
    np.testing.assert_array_equal(bags.tables[0].label_sums, [[1], [3]])


def test_a_stated_guarantee_says_that_it_is_stated():
    noisy = pd.DataFrame(AGE).assign(s=[-1.5, 4.25])
    bags = CuratedBags.from_frames(noisy, **NAMES, noise_variance=2.0, guarantee=STATED)
    assert bags.guarantee.epsilon == 1.0 and bags.guarantee.stated
    assert str(bags.guarantee).endswith("[stated by the supplier, not computed here]")
    assert "stated" in repr(bags.guarantee) and "stated by the supplier" in bags.guarantee._repr_html_()
    assert "the guarantee is stated by the supplier of the tables, not computed here" in bags.guarantee.assumptions
    again = CuratedBags.from_dict(json.loads(json.dumps(bags.to_dict())))
    assert again.guarantee == bags.guarantee
    X = pd.DataFrame({"age": ROWS["age"]})
    assert guarantee_of(CuratedBagGAMClassifier().fit_bags(X, again)).stated
    assert STATED.compose(bags.guarantee).stated and not STATED.stated
    assert CuratedBags.from_frames(noisy, **NAMES, noise_variance=2.0, guarantee=STATED.to_dict()).guarantee.stated


def test_a_report_that_was_written_by_hand_does_not_pass_as_computed():
    plain = CuratedBags.from_frames(pd.DataFrame(AGE), **NAMES, noise_variance=2.0, guarantee=STATED).to_dict()
    by_hand = {"epsilon": 1.0, "delta": 0.0, "unit": "label", "adjacency": "replace-one"}
    assert PrivacyGuarantee.from_dict(by_hand).stated
    assert CuratedBags.from_dict({**plain, "guarantee": by_hand}).guarantee.stated
    assert PrivacyGuarantee.from_dict(STATED.to_dict()) == STATED
    exact = [{**table, "noise_variance": 0.0} for table in plain["tables"]]
    with pytest.raises(ValueError, match="guarantee promises ε = 1, but noise_variance is 0: exact sums keep none"):
        CuratedBags.from_dict({**plain, "tables": exact, "guarantee": by_hand})


def test_the_events_of_a_guarantee_survive_json():
    bags = make_curated_bags([[0], [1]] * 5, [0, 1] * 5, epsilon=1.0, delta=1e-6, mechanism="gaussian", random_state=0)
    again = CuratedBags.from_dict(json.loads(json.dumps(bags.to_dict())))
    assert again.guarantee == bags.guarantee and len(again.guarantee.events) == 1
    plain = bags.to_dict()
    del plain["guarantee"]
    assert math.isinf(CuratedBags.from_dict(plain).guarantee.epsilon)


# One long frame -------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), min_size=6, max_size=6),
    st.lists(st.sampled_from(["a", "b,c", '"', "", None]), min_size=6, max_size=6),
    st.lists(st.sampled_from([True, False, None]), min_size=6, max_size=6),
    st.lists(st.integers(-(2**53), 2**53), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), min_size=6, max_size=6),
)


def column(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(VALUES, min_size=2, max_size=3),
    st.sampled_from(["all", "from_dtype"]),
    st.sampled_from(["two", "three", "numbers"]),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_a_frame_and_back_is_the_same_to_the_last_bit(values, categorical, labels, min_size, noisy):
    names = ["a", 'b,"', "ü c"][: len(values)]
    X = pd.DataFrame(dict(zip(names, map(column, values), strict=True)), dtype=object)
    y = {"two": [0, 1, 0, 0, 1, 1], "three": list("xyzxyz"), "numbers": [0.1, 2.5, -3.0, 1e9, 0.0, 7.0]}[labels]
    try:
        bags = make_curated_bags(
            X,
            y,
            "pairs",
            epsilon=0.5 if noisy else None,
            min_size=min_size,
            categorical_features=categorical,
            random_state=0 if noisy else None,
        )
    except ValueError as error:
        assert "no feature set has a bag" in str(error)
        return
    expected = {**bags.to_dict(), "guarantee": None}
    for backend in LIBRARIES:
        again = CuratedBags.from_frames(bags.to_frame(backend), **bags.terms)
        assert {**again.to_dict(), "guarantee": None} == expected
        for one, other in zip(bags.tables, again.tables, strict=True):
            assert one.label_sums.tobytes() == other.label_sums.tobytes()
        assert again.guarantee.stated and again.guarantee.events == bags.guarantee.events


def test_a_frame_that_went_through_csv_is_the_same(tmp_path):
    bags = make_curated_bags(pd.DataFrame(ROWS), LABELS, epsilon=1.0, min_size=2, random_state=0)
    bags.to_frame().to_csv(tmp_path / "bags.csv", index=False)
    again = CuratedBags.from_frames(pd.read_csv(tmp_path / "bags.csv"), **bags.terms)
    assert {**again.to_dict(), "guarantee": None} == {**bags.to_dict(), "guarantee": None}


def test_the_long_frame_by_hand():
    bags = make_curated_bags(pd.DataFrame(ROWS), LABELS, [("sex",), ("age",)], bin_edges={"age": [30]})
    frame = bags.to_frame("polars")
    assert frame.to_dict(as_series=False) == {
        "table": ["sex", "sex", "age", "age"],
        "sex": ["f", "m", None, None],
        "age": [None, None, -math.inf, 30.0],
        "rare": [False] * 4,
        "count": [2, 7, 5, 4],
        "label_sum": [0.0, 4.0, 1.0, 3.0],
        "noise_variance": [0.0] * 4,
    }
    assert isinstance(bags.to_frame(), pd.DataFrame) and isinstance(bags.to_frame("pyarrow"), pa.Table)
    with pytest.raises(ValueError, match="backend must be one of .* got 'dask'"):
        bags.to_frame("dask")
    taken = make_curated_bags(pd.DataFrame({"count": [1, 2]}), [0, 1])
    with pytest.raises(ValueError, match="columns 'count' of its own"):
        taken.to_frame()
    mixed = make_curated_bags(pd.DataFrame({"a": column([1, "x"])}), [0, 1])
    with pytest.raises(ValueError, match=r"column 'a' holds values .*\(int, str\)"):
        mixed.to_frame()


# Errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": [20, 20]}, r"lists the group age=20 more than once"),
        ({"age": [20, "x"]}, r"column 'age' holds text in some groups and numbers"),
        ({"n": [5, -4]}, r"'n' must hold numbers of rows, whole and at least 0, got -4 in row 1"),
        ({"n": [5.5, 4.0]}, r"'n' must hold numbers of rows, .* got 5\.5 in row 0"),
        ({"n": [5, None]}, r"'n' must hold numbers of rows"),
        ({"n": ["5", "many"]}, r"'n' must hold numbers of rows"),
        ({"n": [0, 0]}, r"has no rows: column 'n' is 0 throughout"),
        ({"s": [1, None]}, r"column 's' is NULL, NaN or infinite for 1 groups .*keep rows with a label only"),
        ({"s": [1, math.inf]}, r"column 's' is NULL, NaN or infinite"),
        ({"s": ["a", "b"]}, r"column 's' must hold numbers, the sums of labels"),
        ({"s": [1, 5]}, r"column 's' must hold whole numbers between 0 and the group's count.*noise_variance="),
        ({"s": [-1, 3]}, r"whole numbers between 0 and"),
        ({"s": [0.5, 3]}, r"whole numbers between 0 and"),
    ],
)
def test_tables_that_are_refused(change, message):
    frame = pd.DataFrame({name: column(values) for name, values in {**AGE, **change}.items()})
    with pytest.raises(ValueError, match=message):
        CuratedBags.from_frames([frame], **NAMES)


def test_arguments_that_are_refused():
    age, pair = pd.DataFrame(AGE), pd.DataFrame(PAIR)

    def refused(message, tables=age, error=ValueError, **other):
        with pytest.raises(error, match=message):
            CuratedBags.from_frames(tables, **{**NAMES, **other})

    refused(r"no column 'rows'; its columns are \['age', 'n', 's'\]. Name them by count=", count="rows")
    refused(r"no column 'label'", sums="label")
    refused(r"has no grouping column", age[["n", "s"]])
    refused(r"tables\[0\] must be a pandas, polars or pyarrow table .* got dict", [AGE], TypeError)
    refused(r"tables must be a pandas, polars or pyarrow table .* got int", 3, TypeError)
    refused(r"must be a table in memory, got LazyFrame. Fetch it first", pl.LazyFrame(AGE), TypeError)
    refused("tables holds no table", [])
    refused(r"two tables grouped by \['age'\]", [age, age])
    refused(r"count different numbers of rows \(tables\[0\]: 8, tables\[1\]: 9\)", [age.assign(n=4), pair])
    refused(r"different totals, though the tables group the same rows", [age.assign(s=[2, 3]), pair])
    refused(r"column 'age' holds text in some groups", [age.assign(age=["20", "40"]), pair])
    refused(r"at least two distinct labels", classes=("yes",))
    refused(r"sums names 1 columns, \['s'\], for the 3 classes", classes=("a", "b", "c"))
    refused(r"classes must be \(0, 1\) for each", sums=["s", "s"], classes=[(0, 1), (1, 2)])
    refused(r"sums names 1 columns, .* for the 2 classes", classes=[(0, 1), (0, 1)])
    refused(r"sums has columns for the classes", sums={0: "s", 1: "n"}, classes=(1, 2))
    refused(r"must add up to the group's count", age.assign(no=1), sums=["no", "s"])
    refused(r"noise_variance must be the variance .* got -1", noise_variance=-1)
    refused(r"noise_variance must be the variance .* got inf", noise_variance=math.inf)
    refused(r"noise_variance has 2 numbers for 1 tables", noise_variance=[1, 2])
    refused(r"'v' must hold one noise variance per table, got 2", age.assign(v=[1, 2]), noise_variance="v")
    refused(r"promises ε = 1, but noise_variance is 0", guarantee=STATED)
    refused(r"guarantee must be a PrivacyGuarantee", guarantee=1.0, noise_variance=1.0, error=TypeError)
    refused(r"bin_edges names columns that no table groups by: \['sex'\]", bin_edges={"sex": [0]})
    refused(r"lists the group age=20 more than once: .* one row per bin", bin_edges={"age": [9]})
    refused(r"column 'rare' must hold true or false", age.assign(rare="no"), rare="rare")
    refused(r"marks 2 groups", age.assign(rare=True), rare="rare")
    refused(r"must name the grouping columns .* got 'x'", age.assign(t="x"), table="t")
    refused(r"columns has no coding of \['age'\]", columns=())
    coding = CuratedBags.from_frames(age.assign(age=[20, 50]), **NAMES).columns
    refused(r"values of column 'age' that its coding in columns= does not know: 40", columns=coding)
    refused(r"columns and bin_edges both say", columns=coding, bin_edges={"age": [30]})


def test_what_is_no_report_is_refused_with_the_way_to_one():
    X = pd.DataFrame({"age": ROWS["age"]})
    model, frame = CuratedBagGAMClassifier(), pd.DataFrame(AGE)
    for bags, got in ((frame, "DataFrame"), ([frame], "list of DataFrame"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"got {got}. GROUP BY tables become bags by CuratedBags.from_frames"):
            model.fit_bags(X, bags)
    with pytest.raises(ValueError, match=r"dict without 'columns', 'tables', 'n_samples'.*from_frames"):
        model.fit_bags(X, {"age": frame})
    with pytest.raises(ValueError, match="'tables' are no dicts"):
        model.fit_bags(X, {"columns": [], "tables": [frame], "n_samples": 9})
    with pytest.raises(TypeError, match="bags must be RandomBags or its to_dict"):
        RandomBagClassifier().fit_bags(X, [frame])
    with pytest.raises(ValueError, match="dict without 'members'"):
        RandomBagClassifier().fit_bags(X, {"label_sums": [1], "n_samples": 9})
    with pytest.raises(ValueError, match=r"use CuratedBagGAMRegressor.*from_frames\(classes"):
        model.fit_bags(X, CuratedBags.from_frames(frame, count="n", sums="s"))


def test_rows_that_do_not_match_are_named():
    bags = CuratedBags.from_frames([pd.DataFrame(PAIR), pd.DataFrame(AGE)], **NAMES)
    X = pd.DataFrame(ROWS)

    def refused(message, X):
        with pytest.raises(ValueError, match=message):
            CuratedBagGAMClassifier().fit_bags(X, bags)

    refused(r"columns \['age', 'sex'\], X has \['sex'\]: select", X[["sex"]])
    refused(r"columns \['age', 'sex'\], X has \['sex', 'age', 'z'\]: select", X.assign(z=1))
    refused(r"column 'age' of X has values that no bag has, in 9 rows: '40', '20'; bags have 20, 40", X.astype(str))
    refused(
        r"1 rows of X have no bag in \('age', 'sex'\); the first is row 8, age=40, sex=f",
        X.assign(age=[*X.age[:-1], 40]),
    )
    refused(r"the first is age=20, sex=f with 1 rows in X and count 2", X.iloc[:-1])


# Release --------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
FEATURES = pd.DataFrame({"a": RNG.integers(0, 3, 40), "b": RNG.choice(["x", "y"], 40)})
SETS = (["a"], ["b", "a"])


def grouped(labels, make=pd.DataFrame):
    """GROUP BY tables of labels, which are integers, or codes of three classes in columns."""
    frame = FEATURES.copy()
    names = [f"s{k}" for k in range(labels.shape[1])]
    frame[names] = labels
    found = []
    for keys in SETS:
        table = frame.groupby(keys)[names].sum()
        table["n"] = frame.groupby(keys).size()
        found.append(make(table.reset_index().to_dict("list")))
    return found, names


KINDS = {
    "two": ({"classes": (0, 1)}, 1, lambda y: y[:, np.newaxis] % 2, (0, 1)),
    "three": ({"classes": "abc"}, 2, lambda y: np.eye(3, dtype=np.int64)[y % 3], (0, 1, 2)),
    "numbers": ({"label_bounds": (-5, 7)}, 12, lambda y: np.clip(y, -5, 7)[:, np.newaxis], (-5, 0, 3, 7)),
    "far": ({"label_bounds": (10**15, 10**15 + 9)}, 9, lambda y: 10**15 + np.clip(y, 0, 9)[:, np.newaxis], (0, 9)),
}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "discrete_gaussian"])
@pytest.mark.parametrize("kind", KINDS)
def test_released_tables_replay_within_their_sensitivity(kind, mechanism):
    """Every label replaced by every value: the drawn integers move by at most the sensitivity, and so far once."""
    said, moved, columns_of, values = KINDS[kind]
    y = RNG.choice(values, 40)

    def release(labels):
        tables, names = grouped(columns_of(labels))
        sums = names if len(names) > 1 else names[0]
        return release_frames(
            tables, count="n", sums=sums, epsilon=1.0, delta=1e-5, mechanism=mechanism, random_state=0, **said
        )

    def neighbours():
        for row in range(0, 40, 3):
            for value in values:
                other = y.copy()
                other[row] = value
                yield Neighbour(f"y[{row}] = {value}", other)

    report = replay(release, y, neighbours())
    report.raise_failures("release_frames")
    assert report.n_draws and max(report.worst.values()) == pytest.approx(1.0)
    bags = release(y)
    if mechanism == "laplace":
        # Two tables: ℓ1 is twice what a label moves in one of them, and the scale at ε = 1.
        scale = 2 * moved
        variance = 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
        assert bags.tables[0].noise_variance == pytest.approx(variance)
    assert bags.guarantee.epsilon == pytest.approx(1.0, rel=1e-3) and not bags.guarantee.stated


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_released_sums_are_the_exact_ones_plus_the_stated_noise(make):
    tables, names = grouped((np.arange(40) % 2)[:, np.newaxis], make)
    exact = CuratedBags.from_frames(tables, count="n", sums=names, classes=(0, 1))
    residuals = []
    for seed in range(60):
        bags = release_frames(tables, count="n", sums=names, classes=(0, 1), epsilon=1.0, random_state=seed)
        assert [t.keys.tolist() for t in bags.tables] == [t.keys.tolist() for t in exact.tables]
        residuals += [
            (one.label_sums - other.label_sums).ravel() for one, other in zip(bags.tables, exact.tables, strict=True)
        ]
    found = np.concatenate(residuals)
    # Laplace noise has kurtosis 6: five and a half standard errors, a failure probability below 1e-6 for these seeds.
    assert abs(np.mean(found**2) / bags.tables[0].noise_variance - 1) < 5.5 * math.sqrt(5 / found.size)
    assert abs(found.mean()) < 5.5 * math.sqrt(bags.tables[0].noise_variance / found.size)


def test_impossible_sums_are_clipped_without_a_word():
    """An error would depend on private sums; clipping moves no two sums apart."""
    table = pl.DataFrame({"a": [0, 1], "n": [5, 4], "s": pl.Series([2**64 - 1, 2], dtype=pl.UInt64)})
    bags = release_frames(table, count="n", sums="s", classes=(0, 1), epsilon=1e6, random_state=0)
    np.testing.assert_array_equal(bags.tables[0].label_sums, [[5], [2]])
    table = pd.DataFrame({"a": [0, 1], "n": [5, 4], "s": [-900, 900]})
    bags = release_frames(table, count="n", sums="s", label_bounds=(-3, 2), epsilon=1e6, random_state=0)
    np.testing.assert_array_equal(bags.tables[0].label_sums, [[-15], [8]])


def test_results_of_a_query_are_not_taken_for_keys():
    """A column that nothing names would be a key, and be published as it is: the labels of an ε that promises them."""
    keys = {"age": [20, 20, 40], "sex": ["f", "m", "m"]}
    table = pd.DataFrame({**keys, "n": [50, 30, 20], "yes": [20, 10, 5]})
    said = {"count": "n", "sums": "yes", "classes": (0, 1), "epsilon": 1.0, "random_state": 0}
    ledger = PrivacyLedger(epsilon=2.0, unit="label")
    messages = set()
    for rest in (table.n - table.yes, table.yes * 0, table.yes / table.n):
        with pytest.raises(ValueError, match=r"tables: are all of \['age', 'sex', 'rest'\] grouping") as refusal:
            release_frames(table.assign(rest=rest), ledger=ledger, **said)
        messages.add(str(refusal.value))
        bags = release_frames(table.assign(rest=rest), keys=["sex", "age"], **said)
        assert bags.tables[0].feature_set == ("age", "sex")
        assert "the grouping columns 'age', 'sex' are public" in bags.guarantee.assumptions
    assert len(messages) == 1 and ledger.spent == (0.0, 0.0)
    # Neither age nor sex tells the groups apart.
    assert release_frames(table, **said).n_samples == 100
    for wrong in (["age", "height"], ["age", "n"], ["age", "yes"]):
        with pytest.raises(ValueError, match="keys must be grouping columns of the tables, and no column of counts"):
            release_frames(table, keys=wrong, **said)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_subtotals_are_no_groups(make):
    """With ROLLUP a label is in several sums of one table, and noise for one of them would not cover it."""
    said = {"count": "n", "sums": "s", "classes": (0, 1), "epsilon": 1.0, "random_state": 0}
    one = {"age": ["old", "young", None], "n": [3, 5, 8], "s": [2, 1, 3]}
    two = {
        "age": ["old", "old", "young", "old", "young", None],
        "sex": ["f", "m", "f", None, None, None],
        "n": [3, 1, 5, 4, 5, 9],
        "s": [2, 0, 1, 2, 1, 3],
    }
    for table in (one, two):
        with pytest.raises(ValueError, match="is NULL, counts are those of all its other groups together"):
            release_frames(make(table), keys=["age", "sex"][: len(table) - 2], **said)
    assert release_frames(make({**one, "n": [3, 5, 9]}), **said).n_samples == 17
    named = {**one, "age": ["old", "young", "missing"]}
    assert release_frames(make(named), **said).n_samples == 16


def test_released_tables_are_paid_for_once_and_errors_cost_nothing():
    tables, names = grouped((np.arange(40) % 2)[:, np.newaxis])
    ledger = PrivacyLedger(epsilon=1.0, unit="label")

    def release(tables=tables, **other):
        said = {"count": "n", "sums": names, "classes": (0, 1), "epsilon": 1.0, "ledger": ledger, "random_state": 0}
        return release_frames(tables, **{**said, **other})

    floats = [table.assign(s0=table.s0 / 2) for table in tables]
    for error, message, other in (
        (ValueError, r"column 's0' must be of an integer type, got Float64.*AS BIGINT", {"tables": floats}),
        (ValueError, r"epsilon must be a positive finite number", {"epsilon": 0.0}),
        ((TypeError, ValueError), r"epsilon must be a positive .*got None", {"epsilon": None}),
        (ValueError, r"label_bounds must be two integers", {"classes": None}),
        (ValueError, r"label_bounds must be two integers", {"classes": None, "label_bounds": (0, 1.5)}),
        (ValueError, r"label_bounds are for numbers", {"label_bounds": (0, 1)}),
        (ValueError, r"exceeds 2⁶¹", {"classes": None, "label_bounds": (0, 2**60)}),
        (ValueError, r"needs delta > 0", {"mechanism": "gaussian"}),
        (ValueError, r"more than once", {"tables": [pd.concat([tables[0]] * 2)]}),
    ):
        with pytest.raises(error, match=message):
            release(**other)
    assert ledger.spent == (0.0, 0.0)
    bags = release()
    assert ledger.spent == (1.0, 0.0)
    assert any("every row is in one group of each table" in text for text in bags.guarantee.assumptions)
    assert CuratedBags.from_dict(json.loads(json.dumps(bags.to_dict()))).guarantee == bags.guarantee


def test_a_mechanism_of_tables_draws_what_it_says():
    from skprivate.aggregate.sources._release_frames import TableSums
    from skprivate.aggregate.tables._labels import LabelSensitivity, plan_label_noise

    counts = np.array([[5], [4]])
    noise = plan_label_noise(LabelSensitivity(2), 2, epsilon=1.0, delta=0.0)
    sums = TableSums(0 * counts, counts, 1, noise)
    with open_release(epsilon=1.0, unit="label", adjacency="replace-one", random_state=0, plan=sums.events) as release:
        assert sums.run(np.array([[1], [2]]), release).shape == (2, 1)
    assert list(release.close().events) == sums.events
