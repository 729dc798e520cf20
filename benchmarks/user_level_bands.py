"""Coverage and width of the bands of additive models' curves, two features, ε = 1 unless said.

A point is covered where the band of level .95 holds the curve there: that of the function that made the targets, and
the best one that the splines can draw (least squares without errors). Width is over that of least squares on the same
splines. "Round" curves are sin(1.5 x) and tanh(x), "sharp" ones sin(3 x) and |x|.

    python benchmarks/user_level_bands.py [--seeds 100]
"""

from __future__ import annotations

import warnings
import zlib

import numpy as np
from _common import parse_args, write_table
from scipy.special import expit

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.preprocessing import make_additive_pipeline

CURVES = {"round": (lambda x: np.sin(1.5 * x), np.tanh), "sharp": (lambda x: np.sin(3.0 * x), np.abs)}
#: Target, curves, law of features, users, rows of each, knots, ε.
CELLS = [
    ("numbers", "round", "uniform", 70_000, 1, 9, 1.0),
    ("numbers", "round", "uniform", 25_000, 1, 9, 3.0),
    ("numbers", "round", "normal", 25_000, 1, 9, 3.0),
    ("numbers", "sharp", "uniform", 25_000, 1, 9, 3.0),
    ("classes", "round", "uniform", 25_000, 1, 9, 3.0),
    ("numbers", "round", "uniform", 25_000, 2, 9, 3.0),
    ("numbers", "round", "uniform", 10_000, 1, 9, 3.0),
]


def one_fit(kind, curves, law, n, m, knots, epsilon, seed):
    """Fit once; return flags of the points that are covered (function, best curve), widths over least squares."""
    numbers = [seed, n, m, knots, zlib.crc32(f"{kind} {curves} {law}".encode())]
    rng, functions = np.random.default_rng(numbers), CURVES[curves]
    X = rng.uniform(-2.0, 2.0, size=(n * m, 2)) if law == "uniform" else rng.normal(size=(n * m, 2))
    score = sum(f(X[:, j]) for j, f in enumerate(functions))
    own = np.repeat(0.7 * rng.normal(size=n), m) if m > 1 else 0.0
    options = {"inference": True, "random_state": zlib.crc32(repr(numbers).encode())}
    if kind == "classes":
        linear = UserLevelSGDClassifier(epsilon, classes=[0, 1], **options)
        y = (score + rng.logistic(size=len(X)) > 0).astype(int)
    else:
        linear = UserLevelSGDRegressor(epsilon, **options)
        y = score + own + rng.normal(size=len(X))
    ids = None if m == 1 else np.arange(n * m) // m
    model = make_additive_pipeline(linear, n_knots=knots).fit(X, y, user_ids=ids)
    bands, splines = model.confidence_band(), model[0]
    # Without the line beside each feature, which is the feature itself.
    kept = np.setdiff1d(np.arange(model[-1].n_features_in_), [column for column, *_ in splines._lines])
    Z = np.column_stack([splines.transform(X)[:, kept], np.ones(len(X))])
    weights = expit(score) * expit(-score) if kind == "classes" else np.ones(len(X))
    information = (Z * weights[:, None]).T @ Z
    best = np.linalg.solve(information, (Z * weights[:, None]).T @ score)
    found = []
    for j, function in enumerate(functions):
        inner = splines.knots_[j][1:-1]
        nodes = (inner[:-1, None] + np.diff(inner)[:, None] * (np.arange(8) + 0.5) / 8).ravel()
        rows, middle = np.zeros((len(bands.values), 2)), np.zeros((len(nodes), 2))
        rows[:, j], middle[:, j] = bands.values[:, j], nodes
        basis = splines.transform(rows)[:, kept] - splines.transform(middle)[:, kept].mean(axis=0)
        truths = function(rows[:, j]) - function(nodes).mean(), basis @ best[:-1]
        low, high = bands.lower[:, j], bands.upper[:, j]
        covered = [np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high)) for truth in truths]
        inverse = np.linalg.inv(information)[:-1, :-1]
        plain = 1.959964 * np.sqrt(np.einsum("ij,jk,ik->i", basis, inverse, basis))
        found.append([*covered, 0.5 * (high - low) / plain])
    return found


def cell(*numbers, fits):
    """Fit ``fits`` times; return one line of the table."""
    found = np.array([one_fit(*numbers, seed) for seed in range(fits)])  # fits, curves, measures, points
    function, best, width = (found[:, :, k] for k in range(3))
    # A tenth of the points together, for a worst place that is not one of chance.
    places = [np.nanmean(function[:, j, a : a + 10]) for j in range(2) for a in range(0, 100, 10)]
    return [
        *numbers,
        fits,
        round(float(np.nanmean(function)), 3),
        round(float(np.min(places)), 3),
        round(float(np.nanmean(best)), 3),
        round(float(np.nanmedian(width)), 2),
        round(float(np.isnan(width).mean()), 3),
    ]


def main():
    args = parse_args(__doc__, seeds=100, cells={"type": int})
    warnings.simplefilter("ignore")
    table = []
    for numbers in CELLS[: args.cells]:
        table.append(cell(*numbers, fits=args.seeds))
        print(table[-1], flush=True)
    columns = "target curves features users rows knots epsilon fits coverage worst best_curve width missing"
    write_table("user_level_bands", columns.split(), table)


if __name__ == "__main__":
    main()
