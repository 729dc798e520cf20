"""The auditor's shell: settings, theorems, translations, errors."""

import pickle

import numpy as np
import pytest
from helpers.audit_laws import SCALAR_LAWS
from helpers.every import every
from scipy.stats import norm

from skprivate.audit import FiniteAdversaryAuditor
from skprivate.audit.certificates._concentration import (
    LN2,
    accuracy_among_several,
    accuracy_upper_bound,
    advantage_upper_bound,
    binary_entropy,
    mse_from_entropy,
    mutual_information_upper_bound,
)
from skprivate.papers.auditing import (
    barron_constant,
    gaussian_mixture_barron_constant,
    gaussian_mixture_loss,
    theorem1_gap,
    theorem2_gap,
    theorem3_gap,
    theorem_bound,
)


def gaussian_mixture(n, mu, rng, radius=3.0):
    s = rng.choice([-1, 1], size=n)
    t = rng.normal(size=n) + mu * s
    while (outside := np.abs(t) > radius).any():
        t[outside] = rng.normal(size=outside.sum()) + mu * s[outside]
    return t[:, None], s


def tables(rng, d=6):
    """A random joint law of (T, S) on d × 2 values."""
    return rng.dirichlet(np.ones(2 * d)).reshape(d, 2)


# -- theorems --------------------


def test_gaps_against_the_paper():
    n, k, mu, delta = 10**5, 10**3, 0.1, 0.01
    by_49 = 2 * (1 + 3 * mu) ** 2 * np.sqrt(2 * np.log(1 / delta) / n) + 36 * mu**2 / k + 24 * mu / np.sqrt(k)
    assert theorem1_gap(n, k, 6 * mu, 1 - delta) == pytest.approx(by_49)
    assert theorem2_gap(n, 0.99) == pytest.approx(2 * np.sqrt(2 * np.log(100) / n))
    theta = np.sqrt((2 * 5 + np.log(100)) / n)
    assert theorem3_gap(n, 5, 0.99) == pytest.approx(binary_entropy(theta))
    with pytest.raises(ValueError, match="Theorem 3"):
        theorem3_gap(50, 5, 0.99)


def test_gaussian_mixture_in_closed_form():
    rng = np.random.default_rng(0)
    t = gaussian_mixture(400_000, 0.3, rng)[0]
    assert gaussian_mixture_loss(0.3) == pytest.approx(1 - np.mean(np.tanh(0.3 * t) ** 2), abs=1e-3)
    assert gaussian_mixture_loss(0.0) == pytest.approx(1.0)
    assert gaussian_mixture_barron_constant([3.0, 4.0], 2.0) == pytest.approx(1.25)


def test_barron_constant_by_fft():
    for mu in (0.1, 1.0):
        assert barron_constant(lambda t, mu=mu: np.tanh(mu * t), -40 / mu, 40 / mu) == pytest.approx(mu, rel=1e-3)
    shifted = barron_constant(lambda t: np.tanh(t + 0.7), -40, 40)
    assert shifted == pytest.approx(1.0, rel=1e-3)  # an unequal prior shifts η and changes nothing
    # derivative of a Gaussian bump: the transform of its derivative changes sign only through the factor ω
    bump = barron_constant(lambda t: np.exp(-(t**2) / 2), -30, 30)
    assert bump == pytest.approx(np.sqrt(2 / np.pi), rel=1e-3)
    with pytest.raises(ValueError, match="ends"):
        barron_constant(lambda t: t, -1, 1)


def test_figure_one_of_the_paper():
    rng = np.random.default_rng(1)
    n = 20_000
    for mu in (0.02, 0.1):
        t, s = gaussian_mixture(n, mu, rng)
        truth = gaussian_mixture_loss(mu)
        setting = {"assumption": "barron", "barron_constant": mu, "support": 3.0}
        convex = FiniteAdversaryAuditor(**setting).fit(t, s)
        constants = {"barron_constant": mu, "support": 3.0}
        paper = theorem_bound(t, s, n_neurons=100, n_restarts=1, random_state=0, **constants)
        assert convex.variation_ == pytest.approx(6 * mu)
        assert 0.97 * truth <= convex.loss_lower_bound_ <= truth
        assert paper.loss_lower_bound < convex.loss_lower_bound_
        assert paper.gap == pytest.approx(theorem1_gap(n, 100, 6 * mu, 0.99))
        assert paper.theorem == 1 and not paper.proven
        assert paper.empirical_loss == pytest.approx(truth, abs=0.02)


# -- labels --------------------


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_label_outputs(loss):
    rng = np.random.default_rng(2)
    law = tables(rng)
    t, s = np.unravel_index(rng.choice(12, p=law.ravel(), size=4000), law.shape)
    names = np.array(list("abcdef"))[t]
    auditor = FiniteAdversaryAuditor(loss=loss, confidence=0.95).fit(names, s)
    p = law[:, 1] / law.sum(axis=1)
    truth = law.sum(axis=1) @ (4 * p * (1 - p) if loss == "squared" else [binary_entropy(v) for v in p])
    assert auditor.setting_ == "classification"
    assert auditor.loss_lower_bound_ <= truth
    assert auditor.accuracy_upper_bound_ >= law.max(axis=1).sum()
    assert auditor.score(names, s) == pytest.approx(auditor.empirical_accuracy_)
    assert auditor.predict(np.array(["a", "never seen"])).shape == (2,)
    paper = theorem_bound(names, s, loss=loss, confidence=0.95)
    gap = theorem2_gap(4000, 0.95) if loss == "squared" else theorem3_gap(4000, 6, 0.95)
    assert paper.proven and paper.gap == gap and paper.empirical_loss == auditor.empirical_loss_
    assert paper.loss_lower_bound == pytest.approx(paper.empirical_loss - gap)
    assert auditor.loss_lower_bound_ > paper.loss_lower_bound


def test_setting_is_recognised():
    s = np.arange(40) % 2
    for labels in (s.tolist(), s.astype(bool), s.astype(str)):
        assert FiniteAdversaryAuditor().fit(labels, s).setting_ == "classification"
    column = s[:, None]
    assert FiniteAdversaryAuditor().fit(column, s).setting_ == "representation"
    assert FiniteAdversaryAuditor(setting="classification").fit(column, s).setting_ == "classification"


# -- translations --------------------


@every("seed", range(20))
def test_translations_hold_for_every_prior(seed):
    """Exact check on random laws, unequal priors included: no simulation."""
    law = tables(np.random.default_rng(seed))
    mass, prior = law.sum(axis=1), law[:, 1].sum()
    p = law[:, 1] / mass
    mse = mass @ (4 * p * (1 - p))
    entropy = mass @ np.array([binary_entropy(v) for v in p])
    accuracy = np.maximum(law[:, 0], law[:, 1]).sum()
    advantage = 0.5 * np.abs(law[:, 1] / prior - law[:, 0] / (1 - prior)).sum()
    information = binary_entropy(prior) - entropy
    assert accuracy <= accuracy_upper_bound(mse) + 1e-12
    assert accuracy <= accuracy_upper_bound(entropy, "log") + 1e-9
    assert advantage <= advantage_upper_bound(mse, prior, prior) + 1e-12
    assert advantage <= advantage_upper_bound(mse, prior - 0.1, min(prior + 0.1, 0.99)) + 1e-12
    assert information <= mutual_information_upper_bound(mse, prior, prior) + 1e-12
    assert information == pytest.approx(mutual_information_upper_bound(entropy, prior, prior, "log"))
    assert mse >= mse_from_entropy(entropy) - 1e-12


def test_translations_are_attained():
    # a binary symmetric channel under prior ½
    mse = 1 - 0.4**2
    assert accuracy_upper_bound(mse) == pytest.approx(0.7)
    assert advantage_upper_bound(mse, 0.5, 0.5) == pytest.approx(0.4)
    assert accuracy_upper_bound(binary_entropy(0.3), "log") == pytest.approx(0.7)
    # the expression of the squared loss for mutual information needs the factor ln 2
    assert mutual_information_upper_bound(1.0, 0.5, 0.5) == pytest.approx(0.0)
    assert mutual_information_upper_bound(0.0, 0.5, 0.5) == pytest.approx(LN2)


def test_known_prior_sharpens():
    rng = np.random.default_rng(3)
    t, s = SCALAR_LAWS["slope"].sample(3000, rng)
    known = FiniteAdversaryAuditor(prior=0.5).fit(t[:, None], s)
    unknown = FiniteAdversaryAuditor().fit(t[:, None], s)
    assert known.advantage_upper_bound_ < unknown.advantage_upper_bound_
    assert known.mutual_information_upper_bound_ < unknown.mutual_information_upper_bound_
    assert known.accuracy_upper_bound_ == unknown.accuracy_upper_bound_


# -- several values of S --------------------


@every("seed", range(30))
def test_accuracy_among_several_is_never_exceeded(seed):
    """Exact, on random laws of (T, S)."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    law = rng.dirichlet(np.full(5 * k, rng.uniform(0.1, 2.0))).reshape(5, k)
    p = law / law.sum(axis=1, keepdims=True)
    losses = law.sum(axis=1) @ (4 * p * (1 - p))  # of each value against the rest
    assert law.max(axis=1).sum() <= accuracy_among_several(losses) + 1e-12
    assert accuracy_among_several(losses * 0.9) >= accuracy_among_several(losses)


@pytest.mark.parametrize("k", [2, 3, 8])
def test_accuracy_among_several_is_attained(k):
    """A value is kept with probability .4 + .6/k, and is any other otherwise."""
    kept, other = 0.4 + 0.6 / k, 0.6 / k
    loss = (4 * kept * (1 - kept) + (k - 1) * 4 * other * (1 - other)) / k
    assert accuracy_among_several([loss] * k) == pytest.approx(kept)
    if k == 2:
        assert accuracy_upper_bound(loss) == pytest.approx(kept)
    assert accuracy_among_several([0.0] * k) == 1.0
    assert accuracy_among_several([4 * (k - 1) / k**2] * k) == pytest.approx(1 / k)


@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("scalar", [False, True])
def test_several_values_are_audited_against_the_rest(loss, scalar):
    rng = np.random.default_rng(8)
    s = rng.choice(["north", "south", "west"], p=[0.5, 0.3, 0.2], size=1500)
    t = (s == "south") + rng.normal(size=1500)
    t = t[:, None] if scalar else np.digitize(t, [0.0, 1.0]).astype(str)
    auditor = FiniteAdversaryAuditor(loss=loss, confidence=0.97).fit(t, s)
    assert list(auditor.by_value_) == ["north", "south", "west"]
    for value, report in auditor.by_value_.items():
        alone = FiniteAdversaryAuditor(loss=loss, confidence=0.99).fit(t, s == value)
        assert report.confidence == pytest.approx(0.99)
        assert report.loss_lower_bound == pytest.approx(alone.loss_lower_bound_, rel=1e-9)
        assert report.advantage_upper_bound == pytest.approx(alone.advantage_upper_bound_, rel=1e-9)
    reports = auditor.by_value_.values()
    assert auditor.loss_lower_bound_ == min(report.loss_lower_bound for report in reports)
    assert auditor.advantage_upper_bound_ == max(report.advantage_upper_bound for report in reports)
    assert auditor.report().confidence == 0.97 and "against the rest" in str(auditor.report())
    assert auditor.score(t, s) == auditor.empirical_accuracy_ <= auditor.accuracy_upper_bound_ < 1
    assert auditor.decision_function(t).shape == (1500, 3)
    np.testing.assert_allclose(auditor.predict_proba(t).sum(axis=1), 1)
    assert auditor.empirical_accuracy_ > 0.5 and set(auditor.predict(t)) <= set(s)
    again = auditor.fit(t, s == "south")
    assert list(again.by_value_) == [True] and again.by_value_[True] == again.report()


def test_one_failure_probability_for_all_values():
    """Of 400 audits at confidence .8 few err about any value, or about guessing among them; none would be far off."""
    rng, failed = np.random.default_rng(9), 0
    for _ in range(400):
        law = rng.dirichlet(np.full(12, 0.7)).reshape(4, 3)
        t, s = np.unravel_index(rng.choice(12, p=law.ravel(), size=150), law.shape)
        if np.unique(s).size < 3:
            continue
        auditor = FiniteAdversaryAuditor(confidence=0.8).fit(t, s)
        mass = law.sum(axis=1)
        p, prior = law / mass[:, None], law.sum(axis=0)
        losses = mass @ (4 * p * (1 - p))
        advantage = 0.5 * np.abs(law / prior - (mass[:, None] - law) / (1 - prior)).sum(axis=0)
        wrong = [
            report.loss_lower_bound > losses[value] or report.advantage_upper_bound < advantage[value]
            for value, report in auditor.by_value_.items()
        ]
        failed += any(wrong) or auditor.accuracy_upper_bound_ < law.max(axis=1).sum()
    assert failed <= 80


# -- behaviour --------------------


def test_curve_falls_with_the_constant_and_agrees_with_fit():
    rng = np.random.default_rng(4)
    t, s = SCALAR_LAWS["bump"].sample(2000, rng)
    auditor = FiniteAdversaryAuditor(total_variation=2.8).fit(t[:, None], s)
    curve = auditor.certificate_curve(t[:, None], s, [0.0, 1.0, 2.8, 10.0])
    assert np.all(np.diff(curve) <= 1e-12)
    assert curve[2] == auditor.loss_lower_bound_
    with pytest.raises(ValueError, match="monotone"):
        FiniteAdversaryAuditor(assumption="monotone").certificate_curve(t[:, None], s, [1.0])


def test_smoothing_and_truncation():
    rng = np.random.default_rng(5)
    s = rng.integers(0, 2, size=4000)
    t = 2.0 * s[:, None] - 1.0  # gives S away
    bare = FiniteAdversaryAuditor().fit(t, s)
    smooth = FiniteAdversaryAuditor(
        smoothing=4.0, support=8.0, truncate=True, assumption="barron", barron_constant=1 / 16, random_state=0
    ).fit(t, s)
    assert bare.loss_lower_bound_ < 0.01 < 0.85 < smooth.loss_lower_bound_
    assert smooth.n_truncated_ > 0 and smooth.n_audited_ + smooth.n_truncated_ == 4000
    assert smooth.variation_ == pytest.approx(1.0)


@pytest.mark.slow
def test_plane_and_space():
    rng = np.random.default_rng(6)
    points = rng.normal(size=(600, 3))
    s = rng.random(600) < norm.cdf(points[:, 0])
    plane = FiniteAdversaryAuditor(confidence=0.9, random_state=0).fit(points[:, :2], s)
    space = FiniteAdversaryAuditor(confidence=0.9, random_state=0).fit(points, s)
    assert not plane.caveats_ and "hard to find" in space.caveats_[0]
    assert plane.score(points[:, :2], s) > 0.65
    log = FiniteAdversaryAuditor(confidence=0.9, loss="log", random_state=0).fit(points[:, :2], s)
    assert log.loss_lower_bound_ == pytest.approx(LN2 * plane.loss_lower_bound_)


def test_bounds_of_a_report_are_attributes_after_a_pickle():
    report = FiniteAdversaryAuditor().fit(np.arange(40.0)[:, None], np.arange(40) % 2).report()
    again = pickle.loads(pickle.dumps(report))
    names = ("loss_lower_bound", "accuracy_upper_bound", "advantage_upper_bound", "mutual_information_upper_bound")
    assert again == report and tuple(getattr(again, name) for name in names) == report.bounds


def test_report():
    rng = np.random.default_rng(7)
    t, s = gaussian_mixture(4000, 0.3, rng)
    auditor = FiniteAdversaryAuditor(assumption="monotone", prior=0.5).fit(t[:2000], s[:2000])
    text = str(auditor.report())
    assert "every attack" in text and "monotone" in text and "proven" in text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"assumption": "barron"}, "barron_constant"),
        ({"assumption": "barron", "barron_constant": 1.0}, "support"),
        ({"support": 0.5}, "outside support"),
        ({"support": (1.0, -1.0)}, "support"),
        ({"support": ("a", "b")}, "support"),
    ],
)
def test_errors_of_parameters(parameters, message):
    t, s = gaussian_mixture(200, 0.1, np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        FiniteAdversaryAuditor(**parameters).fit(t, s)


def test_errors_of_data():
    t, s = gaussian_mixture(200, 0.1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="constant"):
        FiniteAdversaryAuditor().fit(t, np.ones(200))
    with pytest.raises(ValueError, match=r"prior must be None where S takes more than two values \(3\); got 0.5"):
        FiniteAdversaryAuditor(prior=0.5).fit(t, np.arange(200) % 3)
    with pytest.raises(ValueError, match="scalar"):
        FiniteAdversaryAuditor(assumption="monotone").fit(np.hstack([t, t]), s)
    with pytest.raises(ValueError, match="length"):
        FiniteAdversaryAuditor().fit(np.arange(5), s)
