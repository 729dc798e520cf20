"""Generated tables with gaps: linear pipelines that take them as they are, beside private medians for a tenth of ε.

python benchmarks/gaps.py [--seeds N]
"""

import warnings
from itertools import product

import numpy as np
from _common import parse_args, write_table
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import roc_auc_score

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor, make_private_pipeline
from skprivate.preprocessing import PrivateImputer

SHAPES = ("normal", "skewed", "counts", "far", "mixed")
GAPS, SIZES, WIDTH, N_TEST = (0.05, 0.2, 0.4), (1000, 5000, 20_000), 8, 5000


def numbers(shape, n, rng):
    """Draw columns of a shape; returns limits that hold nearly all of them, too."""
    if shape == "normal":
        return rng.normal(size=(n, WIDTH)), [(-5.0, 5.0)] * WIDTH
    if shape == "skewed":
        return np.exp(rng.normal(size=(n, WIDTH)) + 5.0), [(0.0, 20_000.0)] * WIDTH
    if shape == "counts":
        return rng.poisson(0.3, size=(n, WIDTH)).astype(float), [(0.0, 20.0)] * WIDTH
    if shape == "far":
        return 1000.0 + 30.0 * rng.normal(size=(n, WIDTH)), [(800.0, 1200.0)] * WIDTH
    parts = [numbers(each, n, rng) for each in SHAPES[:4]]
    mixed = np.column_stack([X[:, [2 * k, 2 * k + 1]] for k, (X, _) in enumerate(parts)])
    return mixed, [pair for _, limits in parts for pair in limits[:2]]


def table(shape, n, gaps, seed):
    """Make a table with gaps at random, a target and classes."""
    rng = np.random.default_rng([SHAPES.index(shape), n, round(100 * gaps), seed])
    X, limits = numbers(shape, n + N_TEST, rng)
    score = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=WIDTH) / np.sqrt(WIDTH)
    y = 50.0 + 20.0 * (score + 0.7 * rng.normal(size=len(X)))
    classes = (2.0 * score + rng.logistic(size=len(X)) > 0.5).astype(int)
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y, classes, limits


def with_imputer(pipeline, limits):
    """Put private medians before the model."""
    before = clone(pipeline)
    imputer = PrivateImputer(bounds=limits)
    before.steps[0] = ("columns", ColumnTransformer([("numbers", imputer, list(range(WIDTH)))]))
    return before


if __name__ == "__main__":
    args = parse_args(__doc__.splitlines()[0], seeds=6)
    warnings.simplefilter("ignore")
    changes = {}
    for shape, gaps, n, seed in product(SHAPES, GAPS, SIZES, range(args.seeds)):
        X, y, classes, limits = table(shape, n, gaps, seed)
        for known, task in product((False, True), ("R2", "AUC")):
            model = UserLevelSGDRegressor() if task == "R2" else UserLevelSGDClassifier(classes=[0, 1])
            model.set_params(random_state=seed)
            schema = {j: pair if known else "number" for j, pair in enumerate(limits)}
            now = make_private_pipeline(model, schema, epsilon=1.0)
            before = with_imputer(now, dict(enumerate(limits)) if known else None)
            scores = []
            for each in (before, now):
                each.fit(X[:n], y[:n] if task == "R2" else classes[:n])
                if task == "R2":
                    scores.append(each.score(X[n:], y[n:]))
                else:
                    scores.append(roc_auc_score(classes[n:], each.predict_proba(X[n:])[:, 1]))
            changes.setdefault((task, "given" if known else "none", shape, gaps, n), []).append(scores)
    lines, cells = [], {}
    for (task, limits, *cell), scores in changes.items():
        scores = np.array(scores)
        gain = scores[:, 1] - scores[:, 0]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        lines.append([task, limits, *cell, *scores.mean(axis=0).tolist(), float(gain.mean()), float(error)])
        cells.setdefault((task, limits), []).append((gain.mean(), gain.mean() < -2.0 * error - 0.01))
    write_table("gaps", ["score", "limits", "shape", "gaps", "n", "before", "now", "gain", "error"], lines)
    for key, found in cells.items():
        gains, worse = np.array(found).T
        print(*key, f"mean {gains.mean():+.3f}, least {gains.min():+.3f}, worse {int(worse.sum())} of {len(worse)}")
