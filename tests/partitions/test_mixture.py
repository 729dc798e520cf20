"""Mixtures of rows in blocks: the same halfspaces to the last bit; private rows stay where they are."""

from functools import partial
from itertools import pairwise

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from helpers.families import all_errors, build_problem
from helpers.real_cluster import losing_one, real_cluster, slowly

from skprivate import PrivacyLedger
from skprivate.mixture import PPMHalfspaceClassifier, _problem
from skprivate.mixture import _exact as _families
from skprivate.mixture._cuts import KEPT_FRACTIONS, quantile_cuts
from skprivate.mixture._exact import StreamedFamily, family_over
from skprivate.mixture._geometry import supporting_pairs
from skprivate.mixture._problem import ErrorWeights, MixtureRows, Problem, public_points
from skprivate.mixture._search import public_directions
from skprivate.partitions import Blocks, as_partitions
from skprivate.privacy import public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")


def mixture(n_public, n_private, d, seed=0, constant=False):
    """Rows with a label, 1 for private ones, and a mask that marks other rows; in mixed order."""
    rng = public_generator(seed)
    n = n_public + n_private
    y = (rng.permutation(n) < n_private).astype(int)
    X = rng.normal(size=(n, d)) * 10.0 ** np.arange(d) + 0.8 * y[:, None]
    if constant:  # public rows lie on a plane, private ones do not
        X[:, 0] = np.where(y == 1, rng.integers(0, 2, n), 0)
    names = [f"x{j}" for j in range(d)]
    return pd.DataFrame(X, columns=names).assign(label=y, marked=(rng.random(n) < 0.4) & (rng.random(n) < 0.9))


FEW = {"max_candidates": 45_000}
CASES = {
    "on a line": (mixture(60, 50, 1), {"calibration_fraction": 0.3}),
    "in a plane": (mixture(10, 40, 2), {"strategy": "exact", "class_weight": "balanced"}),
    "in space": (mixture(5, 30, 3), {"strategy": "exact", "selection": "permute-and-flip"}),
    "on a plane in space": (mixture(10, 40, 3, constant=True), {"strategy": "exact"}),
    "cuts": (mixture(300, 200, 4), {**FEW, "strategy": "thinned", "adjacency": "add-remove", "classes": [0, 1]}),
    "moves": (mixture(500, 400, 5), {**FEW, "strategy": "greedy", "epsilon": 8.0, "calibration_fraction": 0.2}),
    "descent": (
        mixture(300, 200, 4, constant=True),
        {"strategy": "gradient", "delta": 1e-6, "class_weight": {0: 1.0, 1: 3.7}, "calibration_fraction": 0.2},
    ),
    "descent, number unknown": (
        mixture(300, 200, 4),
        {"strategy": "gradient", "delta": 1e-6, "adjacency": "add-remove", "classes": [0, 1]},
    ),
    "many features": (mixture(200, 200, 30), {**FEW, "strategy": "greedy", "class_weight": {0: 1.0, 1: 3.7}}),
}


def cut(rows, n_blocks):
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    return [rows.iloc[a:b] for a, b in pairwise(ends)]


BACKENDS = {
    "7 blocks": lambda rows: Blocks(cut(rows, 7)),
    "200 blocks": lambda rows: Blocks(lambda: iter(cut(rows, 200))),  # some of them empty, most of one label
    "empty blocks": lambda rows: Blocks([rows[:0], *cut(rows, 2), rows[:0]]),
    "arrow": lambda rows: ds.dataset([pa.Table.from_pandas(b, preserve_index=False) for b in cut(rows, 4)]),
    "Dask": lambda rows: dd.from_pandas(rows, npartitions=6),
}


def model(**parameters):
    return PPMHalfspaceClassifier(**{"epsilon": 4.0, "private_label": 1, "random_state": 3, **parameters})


def in_memory(rows, mask, **parameters):
    X = rows.drop(columns=["label", "marked"])
    return model(**parameters).fit(X, rows["label"], private=rows["marked"] if mask else None)


def in_blocks(X, mask, **parameters):
    return model(**parameters).fit(X, "label", private="marked" if mask else None)


def assert_same(one, other):
    facts, others = ({k: v for k, v in vars(m).items() if k.endswith("_")} for m in (one, other))
    assert facts.keys() == others.keys()
    for name, value in facts.items():
        np.testing.assert_equal(value, others[name], err_msg=name)


def check_the_same(case, backend, mask):
    rows, parameters = CASES[case]
    X = rows if mask else rows.drop(columns="marked")
    with dask.config.set(scheduler="synchronous"):
        found = in_blocks(BACKENDS[backend](X), mask, **parameters)
    assert_same(found, in_memory(rows, mask, **parameters))


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("mask", [False, True], ids=["by label", "by mask"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_halfspaces_to_the_last_bit(case, mask, monkeypatch):
    monkeypatch.setattr(_problem, "MOST_SUMS", 20_000)  # several passes
    monkeypatch.setattr(_families, "MOST_ENTRIES", 5000)  # and several parts of a block
    check_the_same(case, "7 blocks", mask)


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "7 blocks"])
def test_the_same_wherever_rows_are(backend):
    check_the_same("in a plane", backend, mask=True)
    if backend != "200 blocks":
        check_the_same("moves", backend, mask=False)


@pytest.mark.slow
def test_moves_in_many_blocks():
    check_the_same("moves", "200 blocks", mask=False)


def test_columns_by_number_and_labels_of_text():
    rows, parameters = CASES["moves"]
    table = rows.drop(columns="marked")
    whole = in_memory(rows, False, **parameters)
    found = model(**parameters).fit(Blocks(np.array_split(table.to_numpy(), 5)), 5)
    assert np.array_equal(found.halfspaces_.coefficients, whole.halfspaces_.coefficients)
    texts = rows.assign(label=np.where(rows["label"] == 1, "left", "stayed"))
    parameters = {**parameters, "private_label": "left"}
    found = in_blocks(Blocks(cut(texts.drop(columns="marked"), 4)), False, **parameters)
    assert_same(found, in_memory(texts, False, **parameters))
    assert set(found.predict(texts.drop(columns=["label", "marked"]))) <= {"left", "stayed"}


@pytest.mark.parametrize("kind", ["U32", "S32"])
def test_labels_of_several_kinds_protect_nobody_else(kind):
    # Strings beside numbers would become strings, and the private label 1 of a block of numbers one of public rows.
    table = mixture(60, 40, 2).drop(columns="marked").to_numpy().round().astype(int)
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    classifier = PPMHalfspaceClassifier(ledger=ledger, random_state=0)
    with pytest.raises(TypeError, match="y must be all strings or all numbers|y must hold"):
        classifier.fit(Blocks([table[:50].astype(kind), table[50:].astype("U32" if kind == "S32" else int)]), 2)
    assert not ledger.entries()


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", ["cuts", "pairs"])
def test_parts_are_the_whole_enumeration(kind, size, monkeypatch):
    """Sizes of parts, their sums and the names of positions are those of the family in memory, one by one."""
    monkeypatch.setattr(_problem, "MOST_SUMS", 40)
    rng = public_generator(size)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3 == 0
    parts = [MixtureRows(X[a:b], y[a:b], y[a:b]) for a, b in pairwise([0, 0, 4, 17, 30])]
    options = {"weights": ErrorWeights(2, 5, 5), "size_is_public": True}
    whole = build_problem(X[:], private=y, has_private_label=y, **options)
    problem = Problem.of(Blocks(parts), n_rows=30, n_public=20, n_public_label=20, **options)
    if kind == "cuts":
        directions = public_directions(whole.public, rng)[:7]
        cuts = quantile_cuts(whole.public, directions, KEPT_FRACTIONS, whole.frame.slack)
        make = partial(family_over, candidates=cuts, max_size=size)
    else:
        pairs = supporting_pairs(whole.public[:4], whole.frame.slack)
        make = partial(family_over, candidates=pairs, max_size=size, basis=np.eye(2))
    family = make(whole.on_span.block, offset=whole.offset, resolution=whole.unit)
    streamed = StreamedFamily(problem, make)
    assert sum(family.part_sizes) == len(family) == len(streamed)
    for part, width in enumerate(family.part_sizes):
        assert sum(errors.size for errors, _ in streamed.errors(slice(part, part + 1))) == width
    assert list(all_errors(streamed)) == list(all_errors(family))
    assert [a.tolist() for a in streamed.histogram()] == [a.tolist() for a in family.histogram()]
    errors, counts = family.histogram()
    for value, count in zip(errors.tolist(), counts.tolist(), strict=True):
        for member in {0, count // 2, count - 1}:
            assert streamed.locate(value, member) == family.locate(value, member)
    assert len(streamed._counted) > 1 or size == 1


def test_only_public_rows_are_collected():
    """What comes back of blocks holds no row that is private: replace them all, and it is the same."""
    rows, _ = CASES["moves"]
    X, private = rows.drop(columns=["label", "marked"]).to_numpy(), rows["label"].to_numpy() == 1
    for mask in (private, rows["marked"].to_numpy()):
        blocks = [
            MixtureRows(x, m, p) for x, m, p in zip(*(np.array_split(a, 4) for a in (X, mask, private)), strict=True)
        ]
        points = Blocks(blocks).gather(public_points, np.concatenate)
        assert np.array_equal(points, X[~mask & ~private])


@pytest.mark.parametrize("backend", ["7 blocks", "arrow", "Dask"])
@pytest.mark.parametrize("fault", ["NaN", "three labels", "one label", "no label", "texts", "mask", "columns"])
def test_bad_rows_are_refused_before_anything_is_spent(fault, backend):
    rows, _ = CASES["moves"]
    rows = rows.copy()
    mask = fault == "mask"
    if fault == "NaN":
        rows.iloc[700, 1] = np.nan
    if fault == "three labels":
        rows.loc[700, "label"] = 2
    if fault == "one label":
        rows["label"] = 1
    if fault == "no label":
        rows["label"] = rows["label"].astype(float)
        rows.loc[700, "label"] = np.nan
    if fault == "texts":
        rows["x1"] = rows["x1"].map("secret {:.4f}".format)
    if mask:
        rows["marked"] = rows["marked"].astype(int)
    X = BACKENDS[backend](rows if mask else rows.drop(columns="marked"))
    if fault == "columns":
        X = Blocks([rows.drop(columns="marked"), rows.drop(columns="marked").rename(columns={"x1": "z"})])
    words = {
        "NaN": "NaN in column 'x1'",
        "three labels": "Only binary classification",
        "one label": "one class only",
        "no label": "y has missing labels",
        "texts": "column 'x1' of X must hold numbers",
        "mask": "boolean mask",
        "columns": "columns of the first one",
    }
    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=words[fault]) as caught:
        in_blocks(X, mask, ledger=ledger)
    assert "secret" not in str(caught.value) and len(ledger.entries()) == 0


def test_what_names_no_column_is_refused():
    rows, _ = CASES["moves"]
    blocks = Blocks([rows])
    for y, error, words in (
        (None, ValueError, "y must name the column"),
        (rows["label"], TypeError, "y must name a column"),
        ("wage", ValueError, "no column 'wage'"),
    ):
        with pytest.raises(error, match=words):
            model().fit(blocks, y)
    with pytest.raises(TypeError, match="private must name a column"):
        model().fit(blocks, "label", private=rows["marked"])
    with pytest.raises(ValueError, match="no rows in its blocks"):
        model().fit(Blocks([rows[:0], rows[:0]]), "label")


# --- a real cluster --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n_workers", [1, 4])
def test_the_same_on_a_cluster_that_loses_a_worker(n_workers):
    with real_cluster(n_workers) as client:
        for case in ("in a plane", "moves"):
            rows, parameters = CASES[case]
            X = as_partitions(dd.from_pandas(rows, npartitions=20)).map(slowly)
            with losing_one(client):
                found = in_blocks(X, True, **parameters)
            assert_same(found, in_memory(rows, True, **parameters))
