"""Small changes of the core that other tests do not notice: each test fails for a mutant of ``tools/mutate.py``."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from helpers.every import every

from skprivate.privacy import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyLedger,
    PureEvent,
    ball_contributions,
    compose_delta,
    gaussian_noise_multiplier,
    open_release,
    public_generator,
)
from skprivate.privacy import _contributions as _lattice
from skprivate.privacy._events import GAUSSIAN_LATTICE_TV, run_tape
from skprivate.privacy.accounting._composition import split_failures
from skprivate.privacy.accounting._zcdp import delta_of_rho
from skprivate.privacy.draws._metric import channel_cost
from skprivate.privacy.noise import _samplers, exponential_select_rows
from skprivate.privacy.noise._bits import SeededBitSource, bit_source
from skprivate.privacy.noise._k_norm import _uniform_below

# Noise ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2**31 + 1, 3 * 2**29, 2**31 - 1, 3 * 2**28 + 5, 2**32, 2**32 - 1])
def test_each_number_below_a_width_has_equally_many_accepted_words(width):
    """Lemire's multiplication: ⌊2³²/width⌋ words of 32 bits for each number, and no uneven rest."""
    for number in (0, 1, 2, width // 2, width // 2 + 1, width - 2, width - 1):
        first = number * 2**32 // width
        halves = np.arange(max(first - 3, 0), min(first + 2**32 // width + 5, 2**32), dtype=np.uint64)
        found, accepted = _samplers._multiply_shift(halves << np.uint64(32), np.full(halves.size, width, np.uint64))
        assert np.count_nonzero((found == number) & accepted) == 2**32 // width
        assert found.min() >= 0 and found.max() < width


@pytest.mark.parametrize("width", [1, 3, 5, 1000, 2**20 + 7])
def test_the_first_and_the_last_word_of_a_number(width):
    """The accepted words of a number are ⌊2³²/width⌋ in a row: those at both ends are, and their neighbours are not."""
    for number in {0, 1 % width, width // 2, width - 1}:
        start = -(-number * 2**32 // width)
        words = [start + k for k in range(-2, 3)] + [start + 2**32 // width + k for k in range(-2, 3)]
        halves = np.array([word for word in words if 0 <= word < 2**32], dtype=np.uint64)
        found, accepted = _samplers._multiply_shift(halves << np.uint64(32), np.full(halves.size, width, np.uint64))
        mine = sorted(int(half) for half in halves[(found == number) & accepted])
        assert mine[-1] - mine[0] + 1 == 2**32 // width


@pytest.mark.parametrize("draw", ["one deviation", "many deviations"])
def test_the_exact_exponent_of_a_test_is_that_of_its_float(monkeypatch, draw):
    """Lanes that float64 leaves open are rare; here all are looked at."""
    looked = []

    def compared(minus_gamma, margin, exact, source):
        for lane in range(minus_gamma.size):
            if minus_gamma[lane] > -100:
                assert abs(float(exact(lane) + Fraction(float(minus_gamma[lane])))) <= margin
                looked.append(lane)
        return original(minus_gamma, margin, exact, source)

    original = _samplers._bernoulli_exp
    monkeypatch.setattr(_samplers, "_bernoulli_exp", compared)
    source = bit_source(3)
    if draw == "one deviation":
        for sigma in (Fraction(1, 3), Fraction(7, 2), Fraction(2**40 + 1, 3)):
            _samplers.integer_noise("gaussian", sigma, 50, source)
    else:
        multiples = np.array([2**30, 2**33 + 7, 2**40 + 1, 5 * 2**45], dtype=np.int64)
        _samplers.discrete_gaussians(multiples, 28, 20, source)
    assert len(looked) > 100


def test_streams_at_a_seed_stay_what_they_are():
    assert SeededBitSource(0).bits(64) == 8414456630783701568
    assert public_generator(0).bit_generator.random_raw() == 6914646491012909059


def test_noise_is_a_little_wider_than_its_price(monkeypatch):
    """Whatever the draw: the scale of the integers is the sensitivity over the price, times 1 + 2⁻³⁰, or larger."""
    scales = []

    def seen(kind, scale, size, source):
        scales.append(Fraction(scale))
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(_samplers, "integer_noise", seen)
    release = open_release(epsilon=1e3, delta=0.1, unit="row", adjacency="add-remove", random_state=0)
    release.discrete_laplace([1, 2], sensitivity=3, epsilon=0.7)
    release.discrete_gaussian([1, 2], sensitivity=3.0, rho=0.5)
    release.laplace([1, 2], sensitivity=2.0**33, epsilon=0.5)
    release.gaussian([1, 2], sensitivity=2.0**33, noise_multiplier=2.0)
    wider = 1 + Fraction(1, 2**30)
    assert scales[0] == 3 / Fraction(0.7) * wider and scales[1] == 3 * wider
    assert scales[2] == (2**34 + 4) * wider and scales[3] == 2**34 * wider


def test_lattices_are_as_fine_as_they_say():
    for size, bits in ((1, 32), (2, 33), (1000, 42), (2**20, 44)):
        assert _lattice.laplace_lattice(1.0, 1.0, size).step == 2.0**-bits
        assert _lattice.laplace_lattice(1.0, 1.0, size).scale == (2**bits + size + 2) * _lattice.WIDER
    assert _lattice.gaussian_lattice(1.0, 1.0, 2**20).scale == (2**42 + 2**10) * _lattice.WIDER
    for score, epsilon, steps in ((0.25, 1.0, 2**20 + 1), (0.25, 4.0, 2**22 + 1)):
        assert _lattice.selection_costs([score, 0.5], 1.0, epsilon)[1] == steps


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1.0, 0.25), (3.0, 8.0), (0.1, 1e-3), (1e6, 40.0)])
def test_a_lattice_has_the_step_of_its_own_noise(sensitivity, epsilon):
    for lattice, scale in (
        (_lattice.laplace_lattice(sensitivity, epsilon, 1), sensitivity / epsilon),
        (_lattice.gaussian_lattice(sensitivity, epsilon, 1), sensitivity * epsilon),
    ):
        assert 2.0**-34 * scale < lattice.step <= 2.0**-32 * scale


def test_unsigned_integers_that_int64_does_not_hold_do_not_wrap_around():
    found = _lattice.as_integers(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64))
    assert found.tolist() == [0, 2**63, 2**64 - 1]
    assert _lattice.as_integers(np.array([0, 2**63 - 1], dtype=np.uint64)).dtype == np.int64


def test_widths_that_no_word_holds_are_refused():
    assert _uniform_below(np.array([2**62 - 1]), bit_source(0)).max() < 2**62
    for width in (0, 2**62):
        with pytest.raises(ValueError, match="widths must be between"):
            _uniform_below(np.array([width]), bit_source(0))


def test_every_state_goes_through_its_own_row_of_a_channel():
    """Off the diagonal there is a chance of 10⁻⁹, for states in any order, present or not."""
    matrix = np.full((4, 4), 1e-9) + (1 - 4e-9) * np.eye(4)
    distances = 1.0 - np.eye(4)
    for states in ([0, 1, 2, 3], [3, 3, 1, 0, 1, 3, 0], [2], [1, 3], [0, 0, 2, 2, 0]):
        release = open_release(epsilon=25.0, unit="row", adjacency="metric", metric="any", random_state=0)
        assert release.channel(states, channel=matrix, distances=distances, epsilon=25.0).tolist() == states


@pytest.mark.parametrize("n", [2, 2**17 + 1])
def test_rows_of_any_length_choose_the_candidate_without_cost(n):
    costs = np.full((3, n), 10**6)
    costs[[0, 1, 2], [0, n - 1, n // 2]] = 0
    assert exponential_select_rows(costs, 1, bit_source(0)).tolist() == [0, n - 1, n // 2]


# Prices ---------------------------------------------------------------------------------------------------------------


def test_the_distance_of_a_lattice_gaussian_is_twice_an_eighth_of_its_variance():
    assert Fraction(GAUSSIAN_LATTICE_TV) == Fraction(2, 8 * (2**32) ** 2)


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_no_noise_keeps_to_a_delta_of_zero_or_one(delta):
    with pytest.raises(ValueError, match="delta must be"):
        gaussian_noise_multiplier(1.0, delta)


@every("count", range(2, 40))
def test_failures_are_rounded_up(count):
    failure, _ = split_failures([(ApproximateEvent(0.5, 0.5), count)])
    assert 1 - Fraction(1, 2**count) <= Fraction(failure) <= 1


@pytest.mark.parametrize(("epsilon", "total"), [(500.5, 501.0), (500.0, 501.0), (600.0, 600.25)])
def test_an_event_too_large_for_the_grid_is_not_free_below_its_epsilon(epsilon, total):
    truth = -math.expm1(epsilon - total)
    assert truth * (1 - 1e-12) <= compose_delta([(PureEvent(total), 1)], epsilon) <= 1


@pytest.mark.slow
def test_delta_of_rho_is_never_below_the_formula():
    """At the best order, in 60 digits: ln δ = λ(ρ(1 + λ) − ε) + λ ln(λ/(1 + λ)) − ln(1 + λ)."""
    with localcontext(prec=60):
        for rho in (1e-6, 1e-3, 0.02, 0.3, 1.7, 10.0):
            for epsilon in (0.01, 0.5, 1.0, 3.0, 8.0, 25.0):
                r, e = Decimal(rho), Decimal(epsilon)
                low, high = Decimal(-300), Decimal(300)
                for _ in range(190):
                    middle = (low + high) / 2
                    below = r + 2 * r * middle.exp() - (1 + (-middle).exp()).ln() < e
                    low, high = (middle, high) if below else (low, middle)
                order = low.exp()
                log = order * (r * (1 + order) - e) + order * (order / (1 + order)).ln() - (1 + order).ln()
                found = delta_of_rho(rho, epsilon)
                variation = math.sqrt(min(rho / 2, -math.expm1(-rho)))
                if 1e-300 < found < variation:
                    assert Decimal(found) >= log.exp()
                    assert Decimal(found) <= log.exp() * (1 + Decimal(2) ** -35)


def test_a_price_of_a_channel_below_one_is_what_it_costs():
    weights = np.array([[2**61, 2**61], [2**61 + 2**50, 2**61 - 2**50]])
    price = channel_cost(weights, [[0.0, 1.0], [1.0, 0.0]])
    exact = math.log1p(2**50 / (2**61 - 2**50))
    assert exact <= price <= exact * (1 + 2.0**-40)
    nearly = np.array([[2**60, 2**61, 2**60], [2**60 + 2**12, 2**61, 2**60 - 2**12]])
    assert channel_cost(nearly, [[0.0, 1.0], [1.0, 0.0]]) == pytest.approx(2.0**-48, rel=1e-9)


def test_a_budget_that_is_exceeded_by_rounding_alone_is_kept():
    with open_release(
        epsilon=1.0, unit="row", adjacency="add-remove", plan=[(LaplaceEvent(1 + 2.0**-40), 1)], random_state=0
    ) as release:
        release.laplace(0.0, sensitivity=1.0, epsilon=1 + 2.0**-40)
    assert release.close().epsilon == 1.0


class Watched:
    def __init__(self):
        self.draws = []

    def draw(self, draw, sample):
        self.draws.append(draw)
        return sample()


def test_a_draw_says_its_price_and_its_step():
    tape = Watched()
    with run_tape(tape):
        one = open_release(epsilon=9.0, delta=1e-3, unit="row", adjacency="add-remove", random_state=0)
        for value in (0, [0], np.zeros(0, dtype=int), [0, 1, 2]):
            one.gaussian(value, sensitivity=1.0, noise_multiplier=20.0)
        one.laplace([1, 2], sensitivity=1.0, epsilon=0.1, step=0.25)
        one.discrete_laplace([1], sensitivity=1, epsilon=0.1)
        metric = open_release(epsilon=1.0, unit="data set", adjacency="metric", metric="any", random_state=0)
        metric.flow_laplace([1, 2, 3], sensitivity=1, epsilon=1.0)
    sizes = [1, 1, 1, 3]
    assert [draw.events for draw in tape.draws[:4]] == [{GaussianEvent(20.0, size): 1} for size in sizes]
    assert [draw.step for draw in tape.draws[4:]] == [0.25, 1.0, 1.0]


def test_a_located_candidate_can_be_drawn_as_its_category():
    tape = Watched()
    with run_tape(tape):
        one = open_release(epsilon=99.0, unit="row", adjacency="add-remove", random_state=0)
        one.select([0, 1000], sensitivity=1.0, epsilon=9.0, multiplicity=[3, 1], locate=lambda *place: place)
    assert tape.draws[0].categories() == [1]


def test_a_dry_run_selects_from_all_candidates():
    """As many of the last as of the first, whatever the scores."""
    ledger = PrivacyLedger(epsilon=1e6, dry_run=True)
    release = open_release(epsilon=1e5, unit="row", adjacency="add-remove", ledger=ledger)
    terms = {"sensitivity": 1.0, "epsilon": 1.0, "multiplicity": [1, 2, 5]}
    found = [release.select([9, 0, 0], **terms) for _ in range(400)]
    assert set(found) == {(0, 0), (1, 0), (1, 1), *((2, k) for k in range(5))}
    assert 190 < sum(category == 2 for category, _ in found) < 310


# Contributions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.25, 1.0, 2.0])
def test_tiny_vectors_keep_their_proportion_to_the_radius(radius):
    values = np.array([[1e-170, 3 * radius, 0.0], [0.0, 4 * radius, 1e200]])
    contributions = ball_contributions(values, radius)
    assert contributions[:, 0].tolist() == [0.0, 0.0]
    assert contributions[1, 1] == pytest.approx(0.8 * 2**30, rel=1e-8)
    assert contributions[1, 2] == pytest.approx(2**30, rel=1e-8)
