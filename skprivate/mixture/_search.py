"""Private search for an intersection of halfspaces where all of them are too many.

One joint draw from all intersections of a few public quantile cuts along public directions comes first. Then each move
redraws one halfspace given the others, or adds one, from candidates around the drawn halfspaces (a function of paid
draws and public rows), and may always stay. Where ε is enough, half of it or more pays for turns of one halfspace with
shrinking steps, the last of which may return to the intersection: so the error of a halfspace has no floor, and a bent
boundary stays. The plan, with the number of draws and the epsilon of each, is made from public numbers before the first
draw.

The directions of a move share most coordinates. What they share is added up once for a row; each of them then costs one
multiplication, one addition and a comparison with its cuts. Rows pass in blocks, column by column, so that a block
stays in the cache, and by the same floating-point operations wherever a row is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb, floor, log, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skprivate.mixture import _exact, _problem
from skprivate.mixture._cuts import FINE_KEPT_FRACTIONS, CutCandidates, count_cut_intersections, quantile_cuts
from skprivate.mixture._geometry import Floats
from skprivate.mixture._problem import DrawRecord, Hypothesis, Integers, Problem, SpanRows
from skprivate.mixture._turns import TurnPlan, centers, plan_turns, turn_sums, turned
from skprivate.privacy import Events, Mechanism, Release, SelectionRule

#: Number of words of eight rows, 0 or 1 in each byte, that are added up: below 256, so that no byte carries.
WORDS = 254
#: Number of rows that are compared with all cuts of a direction at a time.
ROWS = 16 * 8 * WORDS
#: Least number of directions of the joint draw.
FEWEST_DIRECTIONS = 32
#: Largest number of directions in one move, and of public points for its quantiles.
MOVE_DIRECTIONS = 768
MOVE_POINTS = 10_000
#: Largest number of public points for the quantiles of the joint draw.
CUT_POINTS = 100_000
#: Steps to a neighbouring direction, in units of its largest coordinate.
MOVE_STEPS = (0.5, 1.0, 0.25)
#: Largest number of rows times groups of directions in the joint draw (public rows).
MOST_WORK = 4 * 10**9
#: Planned bounds on the expected loss of a draw, as a fraction of the rows of a class. They hold if the best hypothesis
#: is the only good one; on real data losses are smaller.
JOINT_LOSS, MOVE_LOSS, LARGEST_LOSS = 0.087, 0.0525, 0.25
MOST_MOVES = 4
MOST_JOINT = 3
#: Least and largest part of ε for joint draw and moves where turns follow them.
LEAST_SHARE, LARGEST_SHARE = 0.25, 0.5
#: Weight of staying in a turn before the last, over that of all turned halfspaces.
STAY = 0.1


class Fan(NamedTuple):
    """Directions ``base + step · e_axis``; ``turns`` holds (axis, ((direction, step), …))."""

    base: Floats
    turns: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]


@dataclass(frozen=True, eq=False)
class TurnedCuts:
    """Cuts {z : ⟨direction, z⟩ ≤ limit} of directions in fans, with ascending ``limits`` of each direction."""

    fans: tuple[Fan, ...]
    limits: tuple[Floats, ...]

    @classmethod
    def of(cls, directions: Floats, cuts: CutCandidates) -> TurnedCuts:
        """Convert cuts along directions of length one to directions of any length."""
        lengths = np.linalg.norm(directions, axis=1)
        limits = [
            (thresholds + cuts.slack) * length for thresholds, length in zip(cuts.thresholds, lengths, strict=True)
        ]
        return cls(tuple(fans(directions)), tuple(limits))

    def counts(self, columns: Floats, which: NDArray[np.intp]) -> Integers:
        """Count the rows that each cut contains, direction by direction, among those numbered ``which``."""
        totals = [np.zeros(len(limits), dtype=np.int64) for limits in self.limits]
        size = min(ROWS, which.size)
        n_sums = -(-size // (8 * WORDS))
        words = np.zeros((max(map(len, self.limits), default=0), n_sums, WORDS), dtype=np.uint64)
        inside = words.view(np.bool_).reshape(len(words), n_sums * 8 * WORDS)
        buffers = np.empty((3, size))
        for low in range(0, which.size, ROWS):
            rows = which[low : low + ROWS]
            inside[:, rows.size :] = False  # behind the last row
            contained = inside[:, : rows.size]
            column, term, projection = buffers[:, : rows.size]
            for base, turns in self.fans:
                projection[:] = 0.0
                for axis in np.flatnonzero(base).tolist():
                    np.take(columns[axis], rows, out=column, mode="clip")
                    projection += np.multiply(column, base[axis], out=term)
                for axis, steps in turns:
                    np.take(columns[axis], rows, out=column, mode="clip")
                    for direction, step in steps:
                        np.multiply(column, step, out=term)
                        np.add(term, projection, out=term)
                        limits = self.limits[direction]
                        np.less_equal(term, limits[:, None], out=contained[: len(limits)])
                        sums = np.add.reduce(words[: len(limits)], axis=2).view(np.uint8)
                        totals[direction] += np.add.reduce(sums, axis=1, dtype=np.int64)
        return np.concatenate(totals) if totals else np.zeros(0, dtype=np.int64)


def fans(directions: Floats) -> list[Fan]:
    """Group every direction into one fan: along an axis, as a turn of another direction, or on its own."""
    found: list[Fan] = []
    left = np.ones(len(directions), dtype=np.bool_)
    for base in (np.zeros(directions.shape[1]), *directions):
        changed = directions != base
        members = np.flatnonzero(left & (changed.sum(axis=1) <= 1))
        left[members] = False
        turns: dict[int, list[tuple[int, float]]] = {}
        for member in members.tolist():
            axis = int(changed[member].argmax())
            turns.setdefault(axis, []).append((member, float(directions[member, axis] - base[axis])))
        if turns:
            found.append(Fan(base, tuple((axis, tuple(steps)) for axis, steps in turns.items())))
        if not left.any():
            break
    return found


@dataclass(frozen=True)
class SearchPlan:
    """Sizes and epsilons of the draws, from public numbers; ``joint_size`` is the largest number of cuts in the joint
    draw.
    """

    joint_size: int
    joint_epsilon: float
    n_moves: int
    move_epsilon: float
    turns: TurnPlan
    max_halfspaces: int


def plan_search(
    n_cuts: tuple[int, ...],
    problem: Problem,
    *,
    epsilon: float,
    max_halfspaces: int,
    max_candidates: int,
    moves: bool,
    monotone: bool,
) -> SearchPlan:
    """Split ε by public numbers; ``n_cuts`` are those of each direction of the joint draw.

    By Lemma 4.6 a draw from N hypotheses loses about 2 ln(N) / ε errors. The joint draw takes as many cuts as time and
    a loss of `LARGEST_LOSS` of the effective rows allow. The first move comes where ε is enough for a joint draw that
    loses `JOINT_LOSS` and a move that loses `MOVE_LOSS`, one more with every doubling of ε; epsilons stay in the
    proportion of these two. Turns come where `LARGEST_SHARE` of ε is enough for one move, and take what that leaves, or
    all but `LEAST_SHARE` of ε.
    """
    factor = 1.0 if monotone else 2.0
    effective_rows = problem.effective_rows
    joint_size = 1
    n_directions = int(np.count_nonzero(n_cuts))
    for size in range(2, min(MOST_JOINT, max_halfspaces, n_directions) + 1):
        n_sets = count_cut_intersections(n_cuts, size)
        n_groups = comb(n_directions, size)
        affordable = factor * log(n_sets) / epsilon <= LARGEST_LOSS * effective_rows
        if affordable and n_sets <= max_candidates and n_groups * problem.planning_rows <= MOST_WORK:
            joint_size = size
    rows = max(effective_rows, 1.0)
    joint = factor * log(count_cut_intersections(n_cuts, joint_size)) / (JOINT_LOSS * rows)
    move = factor * log(MOVE_DIRECTIONS * len(FINE_KEPT_FRACTIONS)) / (MOVE_LOSS * rows)
    turns, n_moves = TurnPlan((), 1.0, 0), 0
    moves = moves and n_directions > 0  # else there is one hypothesis
    one_move = joint + move
    if moves and LARGEST_SHARE * epsilon >= one_move:
        turns = plan_turns(problem, epsilon - max(one_move, LEAST_SHARE * epsilon), factor)
        epsilon -= sum(turns.epsilons)
    if moves and (turns.epsilons or epsilon >= one_move):
        n_moves = min(MOST_MOVES, 1 + floor(log2(max(1.0, epsilon / one_move))))  # 1 if rounding took a little
    share = epsilon / (joint + n_moves * move) if n_moves else 0.0
    return SearchPlan(
        joint_size=joint_size,
        joint_epsilon=joint * share if n_moves else epsilon,
        n_moves=n_moves,
        move_epsilon=move * share,
        turns=turns,
        max_halfspaces=max_halfspaces,
    )


def public_directions(public: Floats, rng: np.random.Generator) -> Floats:
    """List both senses of every axis; with few features also sums and differences, principal axes and random ones."""
    n_features = public.shape[1]
    axes = np.eye(n_features)
    directions = [*axes, *-axes]
    if len(directions) < FEWEST_DIRECTIONS and n_features > 1:
        for i, j in combinations(range(n_features), 2):
            directions += [s * axes[i] + t * axes[j] for s in (1, -1) for t in (1, -1)]
        if len(public):
            _, _, principal = np.linalg.svd(public - public.mean(axis=0), full_matrices=False)
            directions += [*principal, *-principal]
        while len(directions) < FEWEST_DIRECTIONS:
            direction = rng.normal(size=n_features)
            directions += [direction, -direction]
        directions = directions[: max(FEWEST_DIRECTIONS, 2 * n_features)]
    return np.array(directions)


@dataclass(frozen=True, eq=False)
class HalfspaceSearch(Mechanism):
    """The draws of a plan: the joint one, every move and every turn, whatever was drawn before.

    ``units`` are those that rows are rounded to in turns.
    """

    plan: SearchPlan
    candidates: CutCandidates
    units: Floats
    rule: SelectionRule = "exponential"
    monotone: bool = False

    @property
    def theorem(self) -> str:  # type: ignore[override]
        return _exact.ExactDraw.theorem + (" and composition" if self.plan.n_moves else "")

    @property
    def events(self) -> Events:
        plan = self.plan
        epsilons = [plan.joint_epsilon] + [plan.move_epsilon] * plan.n_moves + [*plan.turns.epsilons]
        return [(_problem.selection_event(self.rule, epsilon), 1) for epsilon in epsilons]

    def run(self, data: Problem, release: Release) -> tuple[Hypothesis, tuple[DrawRecord, ...]]:
        """Draw all; returns the hypothesis after the last move, and what each draw compared."""
        present, record = self.joint(data, release)
        records = [record]
        for _ in range(self.plan.n_moves):
            present, record = self.move(present, data, release)
            records.append(record)
        drawn = present
        for number in range(len(self.plan.turns.epsilons)):
            present, record = self.turn(number, present, drawn, data, release)
            records.append(record)
        return present, tuple(records)

    def joint(self, problem: Problem, release: Release) -> tuple[Hypothesis, DrawRecord]:
        """Draw from all intersections of at most ``joint_size`` cuts."""
        candidates, plan = self.candidates, self.plan
        family = None
        if not problem.frame.empty:
            family = _exact.family_of(
                problem, partial(_exact.family_over, candidates=candidates, max_size=plan.joint_size)
            )
        record = DrawRecord("joint", 1 if family is None else len(family) + 1, plan.joint_epsilon)
        chosen = _problem.draw_hypothesis(
            family,
            problem.offset // problem.unit,
            release,
            epsilon=plan.joint_epsilon,
            sensitivity=problem.sensitivity,
            rule=self.rule,
            monotone=self.monotone,
        )
        if chosen is None:
            return Hypothesis.calling_all_private(problem.n_features), record
        return Hypothesis(*candidates.sides(chosen)), record

    def move(self, present: Hypothesis, problem: Problem, release: Release) -> tuple[Hypothesis, DrawRecord]:
        """Redraw one halfspace, add one, or stay."""
        candidates, plan, n_present = self.candidates, self.plan, len(present.intercepts)
        slots = list(range(n_present))
        if n_present < plan.max_halfspaces:
            slots.append(n_present)
        per_slot = max(1, MOVE_DIRECTIONS // max(1, len(slots)))
        public = problem.some_public(MOVE_POINTS, release.public_rng)
        options: list[tuple[int, Floats, CutCandidates]] = []
        for slot in slots:
            if slot < n_present:
                directions = neighbouring_directions(-present.normals[slot], per_slot)
            else:
                directions = candidates.offered_directions[:per_slot]
            cuts = quantile_cuts(public, directions, FINE_KEPT_FRACTIONS, candidates.slack)
            options.append((slot, directions, cuts))
        turned = [(slot, TurnedCuts.of(directions, cuts)) for slot, directions, cuts in options]
        sums = problem.on_span.sum(partial(move_sums, present=present, options=turned))
        errors = (problem.offset + sums) // problem.unit
        chosen = release.select(
            -errors, sensitivity=problem.sensitivity, epsilon=plan.move_epsilon, rule=self.rule, monotone=self.monotone
        )
        record = DrawRecord("move", errors.size, plan.move_epsilon)
        return _moved(present, [(slot, cuts) for slot, _, cuts in options], int(chosen) - 1), record

    def turn(
        self, number: int, present: Hypothesis, drawn: Hypothesis, problem: Problem, release: Release
    ) -> tuple[Hypothesis, DrawRecord]:
        """Turn one halfspace, without the others, or stay; the last turn may return to ``drawn``, from before all."""
        turns = self.plan.turns
        step, epsilon = turns.shrink**number, turns.epsilons[number]
        options = turned(centers(present), step, turns.n_turned, self.units, release.public_rng)
        # In the end both count as much as all turns: however many of these are a little worse, they seldom win.
        last = number == len(turns.epsilons) - 1
        known = (present, drawn) if last else (present,)
        stay = turns.n_turned if last else max(1, round(STAY * turns.n_turned))
        sums = partial(turn_sums, present=known, options=options, units=self.units)
        errors = (problem.offset + problem.on_span.sum(sums)) // problem.unit
        multiplicity = [stay] * len(known) + [1] * turns.n_turned
        chosen, _ = release.select(
            -errors,
            sensitivity=problem.sensitivity,
            epsilon=epsilon,
            rule=self.rule,
            monotone=self.monotone,
            multiplicity=multiplicity,
        )
        record, which = DrawRecord("turn", errors.size, epsilon), int(chosen) - len(known)
        if which < 0:
            return known[which], record
        return Hypothesis(options.normals[[which]], options.intercepts[[which]]), record


def move_sums(rows: SpanRows, present: Hypothesis, options: list[tuple[int, TurnedCuts]]) -> Integers:
    """Sum what the rows of a block add to the errors of staying, and of each option of a move."""
    inside = present.contain(rows.scaled)
    stay = 0 if present.all_private else int(rows.signed[inside.all(axis=0)].sum())
    sums = [np.array([stay], dtype=np.int64)]
    for slot, cuts in options:
        others = np.all(np.delete(inside, slot, axis=0) if slot < len(inside) else inside, axis=0)
        sums.append(sums_with(rows, cuts, others))
    return np.concatenate(sums)


def sums_with(rows: SpanRows, cuts: TurnedCuts, others: NDArray[np.bool_]) -> Integers:
    """Sum over the rows that each cut contains beside the other halfspaces, direction by direction."""
    columns = np.ascontiguousarray(rows.scaled.T)  # no copy: rows of the span are kept column by column
    totals = np.zeros(sum(map(len, cuts.limits)), dtype=np.int64)
    for of_label in (rows.signed > 0, rows.signed < 0):  # all rows of a label weigh the same
        which = np.flatnonzero(others & of_label)
        if which.size:
            totals += rows.signed[which[0]] * cuts.counts(columns, which)
    return totals


def _moved(present: Hypothesis, options: list[tuple[int, CutCandidates]], chosen: int) -> Hypothesis:
    """Return the hypothesis of option ``chosen``; −1 is to stay."""
    if chosen < 0:
        return present
    for slot, cuts in options:
        for direction, n_cuts in enumerate(cuts.n_cuts):
            if chosen < n_cuts:
                normal, intercept = cuts.halfspace(direction, chosen)
                kept = np.arange(len(present.intercepts)) != slot
                return Hypothesis(
                    np.vstack([present.normals[kept], normal]), np.append(present.intercepts[kept], intercept)
                )
            chosen -= n_cuts
    raise AssertionError("The release chose an option that was not offered.")


def neighbouring_directions(direction: Floats, at_most: int) -> Floats:
    """List a direction and those that one coordinate's change leads to, up to a number."""
    n_features = direction.shape[0]
    largest = np.abs(direction).max()
    neighbours = [direction]
    for step in MOVE_STEPS:
        if len(neighbours) + 2 * n_features > at_most and len(neighbours) > 1:
            break
        for axis in range(n_features):
            for sign in (1.0, -1.0):
                moved = direction.copy()
                moved[axis] += sign * step * largest
                if np.abs(moved).max() > 1e-9 * largest:
                    neighbours.append(moved)
    return np.array(neighbours[: max(at_most, 1)])
