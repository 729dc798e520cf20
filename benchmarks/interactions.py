"""Interactions: boosting on top of the additive model, or instead of it, on the twelve data sets of the bar.

    python benchmarks/interactions.py --data DIR [--seeds 4] [--case adult …] [--eps 1 3 …] [--render]

Candidates are prototypes with noise of NumPy, one row a unit (replace-one), (ε, 1e-6) composed by the accountant.
``bins`` is the linear model on indicators of eight bins a column. The others add functions of two columns, one Gaussian
draw each, to a start: ``trees`` to 0 or a private median, the rest to `make_additive_pipeline` with a share of ε. The
base is that pipeline with all of ε. Runs are appended to
``benchmarks/results/interactions_runs.csv``; ``--render`` makes the table of differences and counts cells.
"""

from __future__ import annotations

import csv
import os
import warnings
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from _common import RESULTS, parse_args, record_environment, write_table
from _default_bar_peer import DELTA, score
from default_bar import CASES, EPSILONS, LIMIT, MOST_ROWS, Case, split
from scipy.special import expit, softmax
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateSplineTransformer,
    make_additive_pipeline,
)
from skprivate.privacy import GaussianEvent, compose_epsilon

ADDITIVE, BINS = "additive", "bins"
TREES, ON_TOP, TABLES = "trees", "additive + trees", "additive + tables"
CANDIDATES = (BINS, TREES, ON_TOP, TABLES)
BOOSTING = "boosting, not private"
RUNS = RESULTS / "interactions_runs.csv"
COLUMNS = ("case", "metric", "epsilon", "seed", "method", "score")
#: A cell counts as ahead or behind from here on.
LEAST = {"AUC": 0.005, "R2": 0.01}
#: Public rule: rows times ε, and rows for each column, below which the model is additive.
LEAST_BUDGET, LEAST_ROWS = 1e4, 100
#: Parts of ε of the additive model, or of knots and median if there is none.
SHARE, KNOTS, MEDIAN = 0.6, 0.12, 0.03
#: Part of ε for edges of bins, and bins of a column.
KNOTS_OF_BINS, BINS_EACH = 0.3, 8
#: Parts of what is left (of the squared noise multiplier): scale of residuals, order of categories, choice of pairs.
SCALE, ORDER, PAIRS = 0.03, 0.1, 0.2
#: Quantile beyond which residuals are clipped, and the sampling variance of a residual, in units of that bound.
CLIP, VARIANCE = 0.85, 0.05
#: Levels of a tree, edges of tables, size of a step, functions whose evidence is pooled, pairs drawn without evidence.
DEPTH, EDGES, STEP, POOLED, EVENLY = 6, (4, 8), 0.7, 20, 0.1


def columns_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Features with a category as one column of codes, and the number of categories, 0 for numbers."""
    if case.frame is None:
        return case.X, np.zeros(case.X.shape[1], dtype=int)
    nominal = [len(getattr(kind, "categories", ())) for kind in case.frame.dtypes]
    codes = [c.cat.codes if size else c for size, (_, c) in zip(nominal, case.frame.items(), strict=True)]
    return np.column_stack(codes).astype(float), np.array(nominal)


def classes_of(case: Case) -> int:
    return 0 if case.metric == "R2" else len(np.unique(case.y))


def numbers(case: Case) -> slice | None:
    """Columns that are numbers by the public types of the frame, where there are categories; they come first."""
    if case.frame is None:
        return None
    return slice(0, sum(not isinstance(kind, pd.CategoricalDtype) for kind in case.frame.dtypes))


def binned(train: Case, epsilon: float, seed: int) -> Any:
    """What curated bags would be if they protected rows: effects of bins, found within the budget."""
    Model = UserLevelSGDClassifier if classes_of(train) else UserLevelSGDRegressor
    half = {"delta": DELTA / 2, "random_state": seed}
    bins = PrivateKBinsDiscretizer(KNOTS_OF_BINS * epsilon, n_bins=BINS_EACH, **half)
    columns = numbers(train) or slice(0, train.X.shape[1])
    table = ColumnTransformer([("bins", bins, columns)], remainder="passthrough")
    return make_pipeline(table, Model((1.0 - KNOTS_OF_BINS) * epsilon, **half)).fit(train.X, train.y)


def additive(train: Case, epsilon: float, delta: float, seed: int) -> tuple[Any, Any]:
    """The fitted pipeline and its splines."""
    Model = UserLevelSGDClassifier if classes_of(train) else UserLevelSGDRegressor
    model = Model(epsilon, delta=delta, random_state=seed)
    pipeline = make_additive_pipeline(model, columns=numbers(train)).fit(train.X, train.y)
    splines = pipeline.steps[0][1]
    return pipeline, getattr(splines, "named_transformers_", {"splines": splines})["splines"]


def outputs(model: Any, case: Case) -> Any:
    """Predictions, decision values or logarithms of probabilities, one column each."""
    if not classes_of(case):
        return model.predict(case.X)[:, None]
    if classes_of(case) == 2:
        return model.decision_function(case.X)[:, None]
    return np.log(np.maximum(model.predict_proba(case.X), 1e-9))


def score_of(case: Case, F: np.ndarray) -> float:
    labels = F.argmax(axis=1) if classes_of(case) else None
    return float(score(case.y, softmax(F, axis=1) if F.shape[1] > 1 else F[:, 0], labels)[0])


def start_of(method: str, train: Case, test: Case, epsilon: float, seed: int) -> tuple[Any, ...]:
    """Outputs on training and test rows, knots of numeric columns, and events."""
    if method != TREES:
        pipeline, splines = additive(train, SHARE * epsilon, 0.75 * DELTA, seed)
        fits = [splines, pipeline.steps[1][1]] if any(splines.n_knots_) else []
        F = np.vstack([outputs(pipeline, train), outputs(pipeline, test)])
        return F, splines.knots_, [e for fit in fits for e in fit.privacy_guarantee_.events]
    columns = numbers(train)
    X = train.X if columns is None else train.X[:, columns]
    knots = PrivateSplineTransformer(KNOTS * epsilon, n_knots=17, delta=DELTA / 4, random_state=seed).fit(X)
    F = np.zeros((len(train.y) + len(test.y), classes_of(train) if classes_of(train) > 2 else 1))
    events = list(knots.privacy_guarantee_.events)
    if not classes_of(train):
        median = PrivateImputer(MEDIAN * epsilon, strategy="median", delta=0.0, random_state=seed + 1)
        F += median.fit(train.y[:, None]).statistics_
        events += median.privacy_guarantee_.events
    return F, knots.knots_, events


@lru_cache
def noise_left(events: tuple[Any, ...], epsilon: float) -> float:
    """Smallest noise multiplier, to .5 %, of a Gaussian draw that composes with the events to (ε, δ)."""
    low, high = 1e-4, 1e6
    while high > 1.005 * low:
        middle = np.sqrt(low * high)
        fits = compose_epsilon([*events, (GaussianEvent(middle), 1)], DELTA) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return high


class Boosting:
    """Functions of pairs, each from one noisy sum over cells; ``left`` is a noise multiplier to the power of −2."""

    def __init__(self, train: Case, F: np.ndarray, left: float, rng: np.random.Generator) -> None:
        self.case, self.F, self.left, self.rng, self.n = train, F, left, rng, len(train.y)
        self.unit = 4.0 if classes_of(train) == 2 else 4.0 * np.sqrt(2.0)
        if not classes_of(train):
            self.unit = self.residual_scale(SCALE * left)
            self.left -= SCALE * left

    def residual_scale(self, part: float) -> float:
        """A quantile of absolute residuals, from a histogram of quarter octaves; one count moves between two bins."""
        size = np.abs(self.case.y - self.F[: self.n, 0])
        bins = np.clip(np.floor(4 * np.log2(np.maximum(size, 1e-30))).astype(int) + 200, 0, 400)
        noise = np.sqrt(2.0 / part)
        counts = np.bincount(bins, minlength=401) + noise * self.rng.normal(size=401)
        counts *= counts > 4 * noise
        shares = np.cumsum(counts) / max(counts.sum(), 1e-9)
        return float(2.0 ** ((np.searchsorted(shares, CLIP) - 199) / 4))

    def bin(self, X: np.ndarray, nominal: np.ndarray, knots: list[np.ndarray]) -> None:
        """Intervals between knots, halved; categories by their rates in one draw of tables by label."""
        part, moved = ORDER * self.left, np.sqrt(2.0 * (nominal > 0).sum())
        self.left -= part if nominal.any() else 0.0
        self.Z, self.sizes, remaining = np.empty(X.shape, dtype=int), nominal.copy(), iter(knots)
        for j, size in enumerate(nominal):
            if not size:
                edges = next(remaining)
                halves = np.unique(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))
                self.Z[:, j], self.sizes[j] = np.searchsorted(halves, X[:, j], side="right"), len(halves) + 1
                continue
            codes, noise = X[:, j].astype(int), moved / np.sqrt(part)
            tables = [np.bincount(codes[: self.n][self.case.y == c], minlength=size) for c in (0, 1)]
            no, yes = (np.maximum(t + noise * self.rng.normal(size=size), 0.0) for t in tables)
            mean = yes.sum() / (yes.sum() + no.sum())
            order = np.argsort(np.argsort((yes + 3 * noise * mean) / (yes + no + 3 * noise)))
            self.Z[:, j] = order[codes]
        self.live = np.flatnonzero(self.sizes > 1)

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and weights of rows: exchanging a row changes their sums over cells by 2 at most."""
        F, y = self.F[: self.n], self.case.y
        if not classes_of(self.case):
            return np.clip((y[:, None] - F) / self.unit, -1.0, 1.0), np.ones(self.n)
        if F.shape[1] == 1:
            p = expit(F)
            return y[:, None] - p, 4.0 * (p * (1.0 - p))[:, 0]
        p = softmax(F, axis=1)
        return ((y[:, None] == np.arange(F.shape[1])) - p) / np.sqrt(2.0), (4.0 * p * (1.0 - p)).mean(axis=1)

    def sums(self, cells: np.ndarray, size: int, rows: tuple[Any, ...], noise: float) -> list[np.ndarray]:
        """Noisy sums over cells, one column an output, and noisy weights."""
        columns = [np.bincount(cells[: self.n], each, size) for each in (*rows[0].T, rows[1])]
        noisy = np.column_stack(columns) + noise * self.rng.normal(size=(size, len(columns)))
        return [noisy[:, :-1], np.maximum(noisy[:, -1], 0.0)]

    def choose(self) -> None:
        """Evidence of every pair for a function, less its expectation and one deviation, from one draw of tables."""
        self.pairs = np.array(list(combinations(self.live, 2)))
        noise, rows, found = 2.0 * np.sqrt(len(self.pairs) / (PAIRS * self.left)), self.contributions(), []
        self.left *= 1.0 - PAIRS
        fewer = np.minimum(self.sizes, 6)
        coarse = self.Z * fewer // self.sizes
        for a, b in self.pairs:
            G, H = self.sums(coarse[:, a] * fewer[b] + coarse[:, b], fewer[a] * fewer[b], rows, noise)
            k, precision = G.shape[1], 1.0 / (H + 2.0 * noise + 1.0)
            expected = (noise**2 + 0.5 * H / k) * precision
            deviation = np.sqrt(2 * k * (expected**2).sum())
            found.append(((G**2).sum(axis=1) * precision - k * expected).sum() - deviation)
        weights = np.maximum(found, 0.0) if max(found) > 0.0 else np.ones(len(found))
        self.weights = (1.0 - EVENLY) * weights / weights.sum() + EVENLY / len(found)

    def tree(self, pair: np.ndarray) -> tuple[np.ndarray, int]:
        """Leaves of a tree whose levels cut the two columns in turn, each node at random."""
        leaf, rows = np.zeros(len(self.Z), dtype=int), np.arange(len(self.Z))
        for level in range(DEPTH):
            column = pair[level % 2]
            cuts = self.rng.integers(1, self.sizes[column], size=2**level)
            leaf = 2 * leaf + (self.Z[rows, column] >= cuts[leaf])
        return leaf, 2**DEPTH

    def table(self, pair: np.ndarray) -> tuple[np.ndarray, int]:
        """Cells of a table with a random offset."""
        edge = int(self.rng.choice(EDGES))
        places = (self.Z[:, pair] + 0.5) * edge / self.sizes[pair] + self.rng.random(2) - 0.5
        cells = np.clip(np.floor(places).astype(int), 0, edge - 1)
        return cells[:, 0] * edge + cells[:, 1], edge**2

    def run(self, tables: bool) -> None:
        """Add functions one after the other; their number follows from public numbers."""
        count = int(np.clip(self.n * np.sqrt(self.left) / 60, 40, 400))
        noise, recent, variances = 2.0 * np.sqrt(count / self.left), dict[int, Any](), dict[int, float]()
        for _ in range(count):
            pair = self.pairs[self.rng.choice(len(self.pairs), p=self.weights)]
            cells, size = (self.table if tables else self.tree)(pair)
            G, H = self.sums(cells, size, self.contributions(), noise)
            H = np.repeat(H[:, None], G.shape[1], axis=1)
            recent[size] = [*recent.get(size, []), np.stack([G, H])][-POOLED:]
            variances[size] = evidence(np.concatenate(recent[size], axis=1), noise, variances.get(size, 1e-3))
            posterior = G * H / (H**2 + (noise**2 + VARIANCE * H) / variances[size] + 1e-9)
            self.F += STEP * self.unit * posterior[cells]


def evidence(seen: np.ndarray, noise: float, variance: float) -> float:
    """Variance of the values of cells by the last released sums: what they exceed noise by, weighted by precision."""
    G, H = seen
    known = noise**2 + VARIANCE * H
    for _ in range(4):
        weight = (H / (known + variance * H**2)) ** 2
        variance = max((weight * (G**2 - known)).sum() / max((weight * H**2).sum(), 1e-300), 1e-9)
    return variance


def run_one(method: str, train: Case, test: Case, epsilon: float, seed: int) -> float:
    (X, nominal), (X_test, _) = columns_of(train), columns_of(test)
    if method == BOOSTING:
        Model = HistGradientBoostingClassifier if classes_of(train) else HistGradientBoostingRegressor
        model = Model(max_iter=150, learning_rate=0.06, max_leaf_nodes=15, categorical_features=nominal > 0)
        return score_of(test, outputs(model.fit(X, train.y), Case(X_test, test.y, "")))
    if method == ADDITIVE:
        return score_of(test, outputs(additive(train, epsilon, DELTA, seed)[0], test))
    if method == BINS:
        return score_of(test, outputs(binned(train, epsilon, seed), test))
    F, knots, events = start_of(method, train, test, epsilon, seed)
    if not any(len(each) for each in knots):
        return run_one(ADDITIVE, train, test, epsilon, seed)
    boosting = Boosting(train, F, noise_left(tuple(events), epsilon) ** -2, np.random.default_rng([seed, 1]))
    boosting.bin(np.vstack([X, X_test]), nominal, knots)
    boosting.choose()
    boosting.run(tables=method == TABLES)
    return score_of(test, boosting.F[len(train.y) :])


def run(args: Any) -> None:
    if not RUNS.exists():
        RUNS.write_text(",".join(COLUMNS) + "\n")
    done = set(pd.read_csv(RUNS)[["case", "epsilon", "seed", "method"]].itertuples(index=False, name=None))
    with open(RUNS, "a", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        for name in args.case:
            for seed in range(args.seeds):
                train, test = split(name, args, seed)
                n, d = len(train.y), columns_of(train)[0].shape[1]
                jobs = [(LIMIT, BOOSTING)] + [(e, m) for e in args.eps for m in (ADDITIVE, *CANDIDATES)]
                for epsilon, method in jobs:
                    enough = n * epsilon >= LEAST_BUDGET and n >= LEAST_ROWS * d
                    if (name, epsilon, seed, method) in done or (method in CANDIDATES and not enough):
                        continue
                    value = run_one(method, train, test, epsilon, seed)
                    writer.writerow([name, train.metric, epsilon, seed, method, f"{value:.5f}"])
                    handle.flush()
                    record_environment(RUNS.stem, runs=True)


def render() -> None:
    """Write means of the additive model and what candidates add, or "=" where the rule keeps the additive model."""
    runs = pd.read_csv(RUNS)
    means = runs.pivot_table("score", ["case", "metric", "epsilon"], "method").reset_index()
    gains = means[list(CANDIDATES)].sub(means[ADDITIVE], axis=0)
    least, table = means["metric"].map(LEAST), []
    for i, row in means.iterrows():
        added = ["=" if np.isnan(gain) else f"{gain:+.3f}" for gain in gains.loc[i]]
        limit = f"{row[BOOSTING]:.3f}".replace("nan", "")
        first = [f"{row['case']} ({row['metric']})", f"{row['epsilon']:g}", f"{row[ADDITIVE]:.3f}"]
        table.append([*first, *added, limit])
    write_table("interactions", ["data", "ε", ADDITIVE, *CANDIDATES, BOOSTING], table)
    for method in CANDIDATES:
        ahead, behind = (gains[method] >= least).sum(), (gains[method] <= -least).sum()
        print(f"{method}: ahead in {ahead}, behind in {behind} of {len(means)}")


def main() -> None:
    args = parse_args(
        __doc__ or "",
        seeds=4,
        case={"nargs": "+", "choices": list(CASES), "default": list(CASES)},
        eps={"nargs": "+", "type": float, "default": list(EPSILONS)},
        rows={"type": int, "default": MOST_ROWS},
        render={"action": "store_true"},
    )
    warnings.simplefilter("ignore")
    render() if args.render else run(args)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
