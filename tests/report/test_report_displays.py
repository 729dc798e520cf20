"""Pictures of guarantees, ledgers and of what privacy costs: the numbers that they draw."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skprivate import UserLevelSGDRegressor
from skprivate.preprocessing import PrivateStandardScaler, make_additive_pipeline
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, open_release, public_generator
from skprivate.report import BandDisplay, GuaranteeDisplay, LedgerDisplay, PrivacyUtilityDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")
PURE = PrivacyGuarantee(1.0, 0.0, "row", "add-remove")
WEAK = PrivacyGuarantee(3.0, 1e-6, "row", "add-remove")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("log", [False, True])
def test_curves_are_the_trade_off(log):
    display = GuaranteeDisplay.from_guarantee({"one": PURE, "three": WEAK}, log=log)
    assert display.ax_.get_xscale() == ("log" if log else "linear")
    for line, guarantee, name in zip(display.lines_, (PURE, WEAK), ("one", "three"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), guarantee.trade_off(line.get_xdata()))
        assert line.get_label() == name
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["one", "three", "guessing"]


def test_a_fitted_model_and_a_given_axis():
    X = public_generator(0).uniform(size=(300, 2))
    model = UserLevelSGDRegressor(epsilon=1.0, radius=2.0).fit(X, X[:, 0])
    _, ax = pyplot.subplots()
    display = GuaranteeDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure and display.labels == ["UserLevelSGDRegressor"]
    metric = PrivacyGuarantee(2.0, 0.0, "row", "metric", metric="l2")
    near, far = (GuaranteeDisplay.from_guarantee(metric, distance=d).tpr[0] for d in (0.1, 1.0))
    assert (near <= far).all() and near[5] < far[5]
    with pytest.raises(TypeError, match="guarantee must be a PrivacyGuarantee"):
        GuaranteeDisplay.from_guarantee([1.0])


def test_steps_of_a_ledger():
    ledger = PrivacyLedger(epsilon=2.0)
    for note, price in (("look", 0.25), ("tune", 0.5), ("look", 0.125)):
        with open_release(
            epsilon=price, unit="row", adjacency="add-remove", ledger=ledger.annotated(note), label="Mean"
        ) as release:
            release.laplace(0.0, sensitivity=1.0, epsilon=price)
    display = LedgerDisplay.from_ledger(ledger)
    assert display.spent.tolist() == [0.25, 0.75, 0.875] == [*display.spent[:2], ledger.spent[0]]
    bars = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in display.ax_.patches[3:6]]
    assert bars == [(0.0, 0.25), (0.25, 0.75), (0.75, 0.875)]
    colors = [bar.get_facecolor() for bar in display.ax_.patches[3:6]]
    assert colors[0] == colors[2] != colors[1]
    assert LedgerDisplay.from_ledger(PrivacyLedger(epsilon=1.0)).spent.size == 0
    with pytest.raises(TypeError, match="ledger must be a PrivacyLedger"):
        LedgerDisplay.from_ledger(3)


def test_scores_against_epsilon():
    rng = public_generator(1)
    X = rng.uniform(-1, 1, size=(1500, 2))
    y = X @ [1.0, 2.0]
    ledger = PrivacyLedger(epsilon=1e-3, delta=1e-9)  # would refuse any fit
    model = make_pipeline(
        PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1), ledger=ledger),
        UserLevelSGDRegressor(radius=5.0, ledger=ledger),
    )
    how = {"epsilons": [8.0, 0.05], "param_name": "userlevelsgdregressor__epsilon", "cv": 3, "n_repeats": 2}
    display = PrivacyUtilityDisplay.from_estimator(model, X, y, reference=LinearRegression(), scoring="r2", **how)
    assert display.scores.shape == (2, 6) and display.score_name == "r2" and not ledger.entries()
    assert np.median(display.scores[0]) > np.median(display.scores[1]) and display.reference > 0.999
    again = PrivacyUtilityDisplay.from_estimator(model, X, y, reference=0.5, **how)
    np.testing.assert_array_equal(again.scores, display.scores)  # simulated noise
    assert len(np.unique(display.scores[1])) == 6  # and another one each time
    curve = next(line for line in display.ax_.lines if line.get_label() == "Pipeline")
    assert curve.get_xdata().tolist() == [0.05, 8.0]
    assert curve.get_ydata().tolist() == [np.median(display.scores[1]), np.median(display.scores[0])]
    with pytest.raises(ValueError, match="param_name must be a parameter of Pipeline, got 'epsilon'"):
        PrivacyUtilityDisplay.from_estimator(model, X, y, epsilons=[1.0])


def test_results_must_fit_their_epsilons():
    for epsilons, scores, error in (
        ([1.0, 2.0], [[0.5]], "scores must have one row for each of 2 epsilons"),
        ([0.0], [[0.5]], "epsilons must be positive"),
        ([], [], "epsilons must be positive"),
    ):
        with pytest.raises(ValueError, match=error):
            PrivacyUtilityDisplay.from_results(epsilons, scores)


def test_no_colour_stands_for_two_purposes():
    ledger = PrivacyLedger(epsilon=9.0)
    for k in range(8):
        with open_release(
            epsilon=0.25, unit="row", adjacency="add-remove", ledger=ledger.annotated(f"p{k}")
        ) as release:
            release.laplace(0.0, sensitivity=1.0, epsilon=0.25)
    display = LedgerDisplay.from_ledger(ledger)
    colors = [bar.get_facecolor() for bar in display.ax_.patches[8:16]]
    assert len(set(colors)) == 6 and len(set(colors[:6])) == 6 and len(set(colors[5:])) == 1
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert shown == ["p0", "p1", "p2", "p3", "p4", "3 others"]


def test_prices_in_pictures_are_not_rounded_down():
    ledger = PrivacyLedger(epsilon=1.0000004)
    with open_release(epsilon=0.50049, unit="row", adjacency="add-remove", ledger=ledger) as release:
        release.laplace(0.0, sensitivity=1.0, epsilon=0.50049)
    said = [text.get_text() for text in LedgerDisplay.from_ledger(ledger).ax_.texts]
    assert said == ["budget ε = 1.00001", "0.501"]


def test_a_curve_of_simulated_noise_says_so():
    simulated = PrivacyGuarantee(1.0, 0.0, "row", "add-remove", valid_for_release=False)
    for guarantee in (simulated, {"model": simulated}):
        (label,) = GuaranteeDisplay.from_guarantee(guarantee).labels
        assert "simulated" in label


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'skprivate\[plot\]'"):
        GuaranteeDisplay.from_guarantee(PrivacyGuarantee(1.0, 0.0, "row", "add-remove"))
    with pytest.raises(ImportError, match="plots need matplotlib"):
        LedgerDisplay.from_ledger(PrivacyLedger(epsilon=1.0))


@pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning")
def test_bands_of_curves():
    rng = public_generator(0)
    X = rng.uniform(-2.0, 2.0, size=(30_000, 2))
    y = np.sin(X[:, 0]) + rng.normal(size=len(X))
    linear = UserLevelSGDRegressor(3.0, inference=True, random_state=0)
    model = make_additive_pipeline(linear, n_knots=5).fit(X, y)
    display = BandDisplay.from_estimator(model, level=0.9)
    bands = model.confidence_band(level=0.9)
    assert [ax.get_xlabel() for ax in display.axes_] == ["x0", "x1"]
    for j, ax in enumerate(display.axes_):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), bands.curve[:, j])
        area = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert area.min() == bands.lower[:, j].min() and area.max() == bands.upper[:, j].max()
    assert display.axes_[0].get_legend().get_texts()[0].get_text() == "90 % band"
    _, axes = pyplot.subplots(1, 1)
    one = BandDisplay.from_estimator(model, np.zeros((3, 2)), features=["x1"], ax=axes)
    assert one.figure_ is axes.figure and one.axes_.tolist() == [axes]
    with pytest.raises(ValueError, match="features must be among"):
        BandDisplay.from_estimator(model, features=["x7"])
    with pytest.raises(ValueError, match="ax must be 2 axes"):
        BandDisplay.from_estimator(model, ax=axes)
    missing = np.full((3, 1), np.nan)
    few = BandDisplay(
        names=["age"], values=np.arange(3.0)[:, None], curve=np.ones((3, 1)), lower=missing, upper=missing, level=0.9
    ).plot()
    assert few.axes_[0].get_legend().get_texts()[0].get_text() == "no band: too few users"
