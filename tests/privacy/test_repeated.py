"""Private selection from private candidates: what it draws, and who may watch and stop it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skprivate.privacy import (
    GaussianEvent,
    LaplaceEvent,
    Repetitions,
    Selected,
    open_release,
    plan_search,
    select_repeatedly,
)
from skprivate.privacy import gaussian_noise_multiplier as noise
from skprivate.privacy._events import run_tape

SEARCH = plan_search(lambda e, _: [[(LaplaceEvent(e), 1)]] * 3, epsilon=0.3, mean_repetitions=4)
EACH = SEARCH.each_epsilon


class Follower:
    """Returns repetitions of its own, and records what was asked."""

    def __init__(self, repetitions):
        self.repetitions = repetitions
        self.draws = []

    def draw(self, draw, sample):
        self.draws.append(draw)
        return self.repetitions if draw.kind == "repetitions" else sample()


def opened(**parameters):
    return open_release(**{"epsilon": 0.3, "unit": "user", "adjacency": "replace-one", **parameters})


def test_a_tape_can_lead_the_mechanism_through_any_course():
    seen = []
    tape = Follower([2, 0, 1])
    with run_tape(tape):
        release = opened(plan=SEARCH.events)

    def evaluate(candidate, branch):
        seen.append(candidate)
        branch.laplace(0, sensitivity=1, epsilon=EACH)
        return {2: 0.0, 0: 5.0, 1: 3.0}[candidate], f"model {candidate}"

    assert select_repeatedly(release, evaluate, SEARCH) == Selected(0, 5.0, "model 0")
    assert seen == [2, 0, 1]
    assert [draw.kind for draw in tape.draws] == ["repetitions"] + ["laplace"] * 3
    assert tape.draws[0].events == dict(SEARCH.events) and tape.draws[0].statistic.size == 0
    guarantee = release.close()
    assert guarantee.events == SEARCH.events and not guarantee.valid_for_release
    assert guarantee.epsilon == SEARCH.epsilon and guarantee.delta == 0


def test_branches_end_with_their_evaluation_and_nothing_runs_after_the_release():
    release = opened()
    kept = []
    select_repeatedly(release, lambda k, b: (0.0, kept.append(b)), SEARCH)
    with pytest.raises(RuntimeError, match="branch is closed"):
        kept[0].laplace(0, sensitivity=1, epsilon=EACH)
    release.close()
    with pytest.raises(RuntimeError, match="closed"):
        select_repeatedly(release, lambda k, b: (0.0, None), SEARCH)


def test_an_evaluation_draws_the_plan_of_its_candidate_and_no_more():
    def plans_of(epsilon, delta):
        return [[(LaplaceEvent(epsilon / 2), k + 1)] for k in range(2)]

    search = plan_search(plans_of, epsilon=0.3, mean_repetitions=2.0)
    share = search.each_epsilon / 2

    def evaluate(candidate, branch):
        for _ in range(candidate + 1):
            branch.laplace(0, sensitivity=1, epsilon=share)
        with pytest.raises(RuntimeError, match="not in the plan"):
            branch.laplace(0, sensitivity=1, epsilon=share)
        return 0.0, None

    for order in ([0, 1], [1, 0]):
        with run_tape(Follower(order)):
            release = opened(plan=search.events)
        assert select_repeatedly(release, evaluate, search).candidate == order[0]  # of equal scores the first


def test_a_plan_that_states_too_little_draws_nothing():
    release = opened()
    for cheaper in (
        replace(SEARCH, epsilon=0.99 * SEARCH.epsilon),
        replace(SEARCH, repetitions=Repetitions("poisson", 4.0)),
        replace(SEARCH, plans=(*SEARCH.plans, ((LaplaceEvent(1.0), 1),))),
        replace(SEARCH, plans=(((GaussianEvent(1e6), 1),),)),
        replace(SEARCH, plans=()),
    ):
        with pytest.raises(ValueError, match="plans? must|search must state"):
            select_repeatedly(release, lambda k, b: (0.0, None), cheaper)
    assert release.close().events == ()


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_score_that_is_not_a_number_is_below_all_others(order):
    with run_tape(Follower(order)):
        release = opened(plan=SEARCH.events)
    scores = {0: float("nan"), 1: -5.0}
    assert select_repeatedly(release, lambda k, b: (scores[k], None), SEARCH).candidate == 1


def test_a_search_of_gaussians_is_one_approximate_event_of_its_release():
    search = plan_search(
        lambda e, d: [[(GaussianEvent(noise(e, d)), 1)]] * 4, epsilon=1.0, delta=1e-6, mean_repetitions=3
    )
    with opened(epsilon=1.0, delta=1e-6, plan=search.events, random_state=0) as release:
        found = select_repeatedly(release, lambda k, b: (float(k), k), search)
        assert found.candidate == found.result
    guarantee = release.close()
    assert (guarantee.epsilon, guarantee.delta) == (search.epsilon, 1e-6) and guarantee.events == search.events


def test_the_number_of_evaluations_is_a_draw_that_sees_no_data():
    follower = Follower([0])
    with run_tape(follower), opened(plan=SEARCH.events, random_state=0) as release:
        select_repeatedly(release, lambda candidate, branch: (0.0, None), SEARCH)
    (draw,) = follower.draws
    assert (draw.kind, draw.statistic.size, draw.sensitivity) == ("repetitions", 0, 0)
