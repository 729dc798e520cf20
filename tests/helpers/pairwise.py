"""Few cases in which any two values of two options meet."""

from heapq import heapify, heappop, heappush
from itertools import combinations


def pairwise(cases):
    """Choose cases that hold every pair of values that any of the given ones holds.

    Parameters
    ----------
    cases : iterable of tuple
        Hashable values of the same options in the same order: all combinations, or those that are allowed.

    Returns
    -------
    chosen : list of tuple
        The same for the same cases. Greedy: each next one holds the most pairs that have not met, the first of equals.
    """
    pairs = {case: set(combinations(enumerate(case), 2)) or {case} for case in cases}
    # How many of a case's pairs have not met only falls: whoever is first with what is true now is the best.
    best = [(-len(held), place, case) for place, (case, held) in enumerate(pairs.items())]
    heapify(best)
    chosen, met = [], set()
    while best:
        _, place, case = heappop(best)
        new = (-len(pairs[case] - met), place, case)
        if best and new[:2] > best[0][:2]:
            heappush(best, new)
        elif new[0]:
            chosen.append(case)
            met |= pairs[case]
    return chosen
