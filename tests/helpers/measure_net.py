"""Lemma 4.1 as published, on all measures of a tiny space: the reference for the fast mechanisms.

The net of all probability measures is exponential in the number of points; with five points and masses in steps of
1/4 it has 70 elements. `skprivate.metric.grid._flows` is what is used on real data.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from skprivate.metric.net._exponential import best_exponential_channel

FloatArray = NDArray[np.float64]


def wasserstein_matrix(distances: FloatArray, p: FloatArray, q: FloatArray) -> float:
    """Exact W1 between two probability vectors on a finite metric space, by linear programming."""
    difference = p - q
    source, target = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if source.size == 0 or target.size == 0:
        return 0.0
    cost = distances[np.ix_(source, target)].ravel()
    n, m = source.size, target.size
    columns = np.arange(n * m)
    rows = np.concatenate([np.repeat(np.arange(n), m), n + np.tile(np.arange(m), n)])
    system = csr_array((np.ones(2 * n * m), (rows, np.concatenate([columns, columns]))), shape=(n + m, n * m))
    # One of the balances follows from the others; rounding would make all of them together infeasible.
    balance = np.concatenate([difference[source], -difference[target]])
    found: Any = linprog(  # type: ignore[call-overload]
        cost, A_eq=system[:-1], b_eq=balance[:-1], bounds=(0, None), method="highs"
    )
    if found.status != 0:
        raise RuntimeError(f"the transport problem was not solved: {found.message}")
    return float(found.fun)


def all_measures(n_points: int, n_units: int) -> FloatArray:
    """All measures on ``n_points`` points with masses in multiples of 1 / ``n_units``; shape (n_measures, n_points)."""
    bars = itertools.combinations(range(n_units + n_points - 1), n_points - 1)
    rows = [np.diff([-1, *cut, n_units + n_points - 1]) - 1 for cut in bars]
    return np.array(rows, dtype=np.float64) / n_units


def measure_distances(distances: FloatArray, measures: FloatArray) -> FloatArray:
    """W1 between all pairs of measures on a finite metric space."""
    n = measures.shape[0]
    result = np.zeros((n, n))
    for i, j in itertools.combinations(range(n), 2):
        result[i, j] = result[j, i] = wasserstein_matrix(distances, measures[i], measures[j])
    return result


def exponential_on_measures(
    distances: FloatArray, n_units: int, epsilon: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The exponential mechanism on the best separated net of measures (Lemma 4.1).

    Parameters
    ----------
    distances : ndarray of shape (n, n)
        Metric of the points.
    n_units : int
        Data sets are measures with masses in multiples of 1 / n_units (n_units rows).
    epsilon : float
        Per unit of W1.

    Returns
    -------
    measures : ndarray of shape (n_measures, n)
    wasserstein : ndarray of shape (n_measures, n_measures)
    channel : ndarray of shape (n_measures, n_measures)
        Exactly ε-metrically private for W1.
    """
    measures = all_measures(distances.shape[0], n_units)
    wasserstein = measure_distances(distances, measures)
    return measures, wasserstein, best_exponential_channel(wasserstein, epsilon)
