"""Categorical columns of the synthesizer."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest

from skprivate.metric import MetricPrivateSynthesizer
from skprivate.metric.grid._hierarchy import HierarchyPlan, consistent_leaves, release_counts
from skprivate.metric.grid._mixed import check_categories
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
COLOURS = ("red", "green", "blue")
CATEGORIES = {0: COLOURS, 2: (1, 2)}


def rows(n=5000, seed=0):
    rng = public_generator(seed)
    X = np.empty((n, 3), dtype=object)
    colour = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    X[:, 0] = np.array(COLOURS, dtype=object)[colour]
    X[:, 1] = rng.beta(2 + 6 * colour, 5)
    X[:, 2] = rng.choice(2, size=n, p=[0.2, 0.8]) + 1
    return X


def synthesizer(epsilon=1.0, **keywords):
    keywords = {"metric": "rows", "bounds": (0, 1), "categories": CATEGORIES, "random_state": 0, **keywords}
    return MetricPrivateSynthesizer(epsilon, **keywords)


@pytest.mark.parametrize("keywords", [{}, {"resolution": 8}, {"bounds": "private"}])
def test_marginals_and_conditional_means(keywords):
    X = rows(40_000)
    model = synthesizer(2.0, **keywords).fit(X)
    drawn = model.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, 3) and drawn.dtype == object
    for colour in COLOURS:
        # Noise of the counts: well below 400 of 40000 rows.
        assert np.mean(drawn[:, 0] == colour) == pytest.approx(np.mean(X[:, 0] == colour), abs=0.01)
        means = [part[part[:, 0] == colour, 1].astype(float).mean() for part in (drawn, X)]
        assert means[0] == pytest.approx(means[1], abs=0.05)
    assert np.mean(drawn[:, 2] == 2) == pytest.approx(0.8, abs=0.02)
    assert model.score(X[:500]) > -0.15
    assert model.measure_.weights.shape[0] == 6
    assert model.measure_.weights.sum() == pytest.approx(1)


def test_the_guarantee_is_the_whole_budget_whatever_the_rows():
    spent = []
    other = rows(700, 1)
    other[:, 0] = "blue"
    for X in (rows(700), other):
        ledger = PrivacyLedger(epsilon=2.0, unit="row")
        model = synthesizer(0.8, random_state=None, ledger=ledger).fit(X)
        assert model.privacy_guarantee_.epsilon == pytest.approx(0.8, rel=1e-12)
        assert model.privacy_guarantee_.assumptions == (
            "names and types of the columns are public",
            "bounds are public",
            "categories are public",
            "before the fit, rows were changed by public rules only",
        )
        spent.append([entry.epsilon for entry in ledger.entries()])
    assert spent[0] == spent[1]


def test_one_row_changes_the_weighted_counts_by_their_sensitivity():
    X = rows(60)
    columns = check_categories(CATEGORIES, 3)
    plan = HierarchyPlan(1, 6, 3)

    class Recorder:
        def discrete_laplace(self, flat, *, sensitivity, epsilon):
            self.flat, self.sensitivity = np.asarray(flat), sensitivity
            return self.flat

    def weighted(part):
        recorder = Recorder()
        release_counts(plan.count(*columns.encode(part)), plan, recorder, epsilon=1.0)
        return recorder

    whole = weighted(X)
    for i in range(len(X)):
        change = np.abs(whole.flat - weighted(np.delete(X, i, axis=0)).flat).sum()
        assert change == whole.sensitivity


def test_leaves_that_do_not_exist_get_nothing():
    rng = public_generator(0)
    noisy = [rng.normal(size=2**j) * 5 + 20 / 2**j for j in range(5)]
    for n_leaves in (1, 5, 9, 12, 16):
        leaves = consistent_leaves(noisy, np.ones(5), n_leaves=n_leaves)
        assert np.all(leaves[n_leaves:] == 0) and leaves.min() >= 0
    np.testing.assert_array_equal(leaves, consistent_leaves(noisy, np.ones(5)))


def test_the_order_of_the_tree():
    plan = HierarchyPlan(2, 6, 2)
    grid = public_generator(0).integers(0, 9, size=(4, *plan.shape))
    flat = plan.flatten(grid)
    np.testing.assert_array_equal(plan.unflatten(flat.astype(float)), grid)
    np.testing.assert_array_equal(flat.reshape(4, -1).sum(axis=1), grid.sum(axis=(1, 2)))


def test_only_categories():
    X = rows()[:, [0, 2]]
    model = synthesizer(1.0, categories={0: COLOURS, 1: (1, 2)}).fit(X)
    drawn = model.sample(1000, random_state=0)
    assert set(drawn[:, 0]) <= set(COLOURS) and set(drawn[:, 1]) <= {1, 2}
    assert model.privacy_guarantee_.assumptions == (
        "names and types of the columns are public",
        "categories are public",
        "before the fit, rows were changed by public rules only",
    )
    assert model.score(X[:200]) <= 0


def test_frames_come_back_as_frames():
    X = rows(1000)
    frame = pd.DataFrame({"colour": X[:, 0], "share": X[:, 1].astype(float), "floor": X[:, 2].astype(int)})
    model = synthesizer(categories={"colour": COLOURS, "floor": [1, 2]}).fit(frame)
    drawn = pickle.loads(pickle.dumps(model)).sample(50, random_state=0)
    assert list(drawn.columns) == ["colour", "share", "floor"]
    assert drawn["share"].dtype == float and drawn["floor"].dtype == int
    assert model.score(frame) <= 0


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"categories": {0: COLOURS[:2], 2: (1, 2)}}, "column 0 of X has a value that is missing or not among"),
        ({"bounds": {0: (0, 1)}}, "has the column 0; the columns .* are 1"),
        ({"categories": {2: (1, 2)}}, "not numbers"),
        ({"categories": {}}, "non-empty dict"),
        ({"categories": {7: (1, 2)}}, "no column of X"),
        ({"categories": {"colour": (1, 2)}}, "no column of X"),
        ({"categories": {0: ()}}, "non-empty sequence"),
        ({"categories": {0: "red"}}, "non-empty sequence"),
        ({"categories": {0: ("a", "a")}}, "once"),
        ({"categories": {0: range(1000), 2: range(1000)}}, "merge some"),
        ({"resolution": 2**20}, "more than"),
    ],
)
def test_refusals_name_no_value_and_spend_nothing(keywords, message):
    ledger = PrivacyLedger(epsilon=10.0, unit="row")
    with pytest.raises(ValueError, match=message) as caught:
        synthesizer(ledger=ledger, **keywords).fit(rows(300))
    if "has a value" in message or "not numbers" in message:
        assert (
            "blue" not in str(caught.value) and caught.value.__context__ is None
        ) or caught.value.__suppress_context__
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ("colour", ("colour", "probability")),
        ("share", ("share", "density")),
        (["floor", "colour"], ("floor", "colour")),
        (["share", "colour"], ("share", "density × probability")),
        (["colour", "share"], ("share", "density × probability")),
    ],
)
def test_plot(columns, labels):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    X = rows(3000)
    frame = pd.DataFrame({"colour": X[:, 0], "share": X[:, 1].astype(float), "floor": X[:, 2].astype(int)})
    measure = synthesizer(20.0, categories={"colour": COLOURS, "floor": [1, 2]}).fit(frame).measure_
    figure, ax = plt.subplots()
    assert measure.plot(ax, columns=columns) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels
    share = frame["colour"].value_counts(normalize=True)[list(COLOURS)].to_numpy()
    if columns == "colour":
        assert [bar.get_height() for bar in ax.patches] == pytest.approx(share, abs=0.02)
    elif labels[1].startswith("density ×"):
        assert [line.get_data().values.sum() / 128 for line in ax.patches] == pytest.approx(share, abs=0.02)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == list(COLOURS)
    elif labels == ("floor", "colour"):
        joint = pd.crosstab(frame["colour"], frame["floor"], normalize=True).loc[list(COLOURS), [1, 2]]
        assert np.asarray(ax.images[0].get_array()) == pytest.approx(joint.to_numpy(), abs=0.02)
    figure.savefig(io.BytesIO())
    plt.close(figure)
    with pytest.raises(ValueError, match="out of 'colour', 'share', 'floor'"):
        measure.plot()
