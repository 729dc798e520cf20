"""Few cases in which any two values of two options meet."""

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
    left = {case: set(combinations(enumerate(case), 2)) or {case} for case in cases}
    chosen, missing = [], set().union(*left.values())
    while missing:
        best = max(left, key=lambda case: len(left[case]))
        chosen.append(best)
        met = left[best]
        missing -= met
        left = {case: pairs - met for case, pairs in left.items() if not pairs <= met}
    return chosen
