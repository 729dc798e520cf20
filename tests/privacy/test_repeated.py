"""Private selection from private candidates: what it charges, and who may watch and stop it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, geom

from skprivate.privacy import GaussianEvent, LaplaceEvent, open_release, repeated_events, select_repeatedly
from skprivate.privacy._tape import run_tape

PLAN = [(LaplaceEvent(0.1), 1)]


class Follower:
    """Returns repetitions of its own, and records what was asked."""

    def __init__(self, repetitions):
        self.repetitions = repetitions
        self.draws = []

    def draw(self, draw, sample):
        self.draws.append(draw)
        return self.repetitions if draw.kind == "repetitions" else sample()


def opened(**parameters):
    return open_release(epsilon=0.3, unit="user", adjacency="replace-one", **parameters)


def test_a_tape_can_lead_the_mechanism_through_any_course():
    seen = []
    tape = Follower([2, 0, 1])
    with run_tape(tape):
        release = opened(plan=repeated_events(PLAN))

    def evaluate(candidate, branch):
        seen.append(candidate)
        branch.laplace(0, sensitivity=1, epsilon=0.1)
        return {2: 0.0, 0: 5.0, 1: 3.0}[candidate]

    assert select_repeatedly(release, evaluate, 3, plan=PLAN, mean_repetitions=4.0) == 0
    assert seen == [2, 0, 1]
    assert [draw.kind for draw in tape.draws] == ["repetitions"] + ["laplace"] * 3
    assert tape.draws[0].events == dict(repeated_events(PLAN)) and tape.draws[0].statistic.size == 0
    guarantee = release.close()
    assert guarantee.events == tuple(repeated_events(PLAN)) and not guarantee.valid_for_release


def test_numbers_of_evaluations_are_geometric_and_candidates_uniform():
    counts, candidates = [], []
    for seed in range(600):
        release = opened(random_state=seed)
        calls = []
        select_repeatedly(release, lambda k, _, c=calls: c.append(k) or 0.0, 3, plan=PLAN, mean_repetitions=4)
        counts.append(len(calls))
        candidates += calls
    found = np.bincount(np.minimum(counts, 12), minlength=13)[1:]
    expected = geom.pmf(np.arange(1, 13), 0.25)
    expected[-1] = geom.sf(11, 0.25)
    assert chisquare(found, expected * 600).pvalue > 1e-7
    assert chisquare(np.bincount(candidates, minlength=3)).pvalue > 1e-7


def test_branches_end_with_their_evaluation_and_nothing_runs_after_the_release():
    release = opened()
    kept = []
    select_repeatedly(release, lambda k, b: kept.append(b) or 0.0, 2, plan=PLAN, mean_repetitions=1.0)
    with pytest.raises(RuntimeError, match="branch is closed"):
        kept[0].laplace(0, sensitivity=1, epsilon=0.1)
    release.close()
    with pytest.raises(RuntimeError, match="closed"):
        select_repeatedly(release, lambda k, b: 0.0, 2, plan=PLAN, mean_repetitions=1.0)


@pytest.mark.parametrize(
    ("n_candidates", "mean_repetitions", "plan"),
    [
        (0, 2.0, PLAN),
        (2, 0.5, PLAN),
        (2, float("inf"), PLAN),
        (2, float("nan"), PLAN),
        (2, 2.0, [(GaussianEvent(1.0), 1)]),
        (2, 2.0, []),
    ],
)
def test_bad_numbers_are_refused_before_anything_is_paid(n_candidates, mean_repetitions, plan):
    release = opened()
    with pytest.raises(ValueError):
        select_repeatedly(
            release, lambda k, b: 0.0, n_candidates, plan=plan, mean_repetitions=mean_repetitions
        )
    assert release.close().events == ()


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_score_that_is_not_a_number_is_below_all_others(order):
    with run_tape(Follower(order)):
        release = opened(plan=repeated_events(PLAN))
    scores = {0: float("nan"), 1: -5.0}
    assert select_repeatedly(release, lambda k, b: scores[k], 2, plan=PLAN, mean_repetitions=4.0) == 1
