"""Speed of learning pairwise crosses from label sums, against scikit-learn on individual labels.

    python benchmarks/aggregate_speed.py [--rows 1000000] [--pass-rows 10000000] [--part fit|pass|both]

Both minimise the same ridge-penalised log loss of the same 20 crosses to the same value. Then one evaluation of the
objective and its gradient is timed against the memory bandwidth of the machine.
"""

from __future__ import annotations

import itertools
import resource
import time

import numpy as np
from _common import parse_args, write_table
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skprivate.aggregate._losses import BUILT_IN
from skprivate.aggregate.additive._design import CellDesign, fit_tables
from skprivate.aggregate.tables._cells import count_keys, make_cells
from skprivate.privacy import public_generator

CARDINALITIES = (12, 15, 10, 20, 8, 25, 16)
SETS = list(itertools.combinations(range(7), 2))[:20]
RIDGE = 10.0


def make_codes(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Columns with Zipf frequencies."""
    return [rng.choice(c, n, p=_zipf(c)).astype(np.int32) for c in CARDINALITIES]


def _zipf(size: int) -> np.ndarray:
    weight = 1.0 / np.arange(1, size + 1)
    return weight / weight.sum()


def make_problem(n: int, seed: int = 0):
    rng = public_generator(seed)
    codes = make_codes(n, rng)
    score = np.full(n, -1.0)
    for a, b in SETS:
        effect = rng.normal(scale=0.3, size=(CARDINALITIES[a], CARDINALITIES[b]))
        score += effect[codes[a], codes[b]]
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float64)
    return codes, y


def aggregate(codes, y):
    indexes = [make_cells(count_keys(codes, CARDINALITIES, s), CARDINALITIES, s)[0] for s in SETS]
    found = [(index, index.locate(codes)) for index in indexes]
    design = CellDesign(indexes, codes)
    sums = [np.bincount(cells, weights=y, minlength=index.n_cells) for index, cells in found]
    return found, design, np.concatenate([*sums, [y.sum()]])[np.newaxis]


def bandwidth() -> float:
    """Bytes per second of reading memory once, one thread."""
    block = np.ones(40_000_000)
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        block.sum()
        best = max(best, block.nbytes / (time.perf_counter() - start))
    return best


def main() -> None:
    args = parse_args(
        __doc__,
        rows={"type": int, "default": 1_000_000},
        pass_rows={"type": int, "default": 10_000_000},
        part={"choices": ["fit", "pass", "both"], "default": "both"},
    )
    if args.part != "pass":
        time_fits(args.rows)
    if args.part != "fit":
        time_pass(args.pass_rows)


def time_fits(n: int) -> None:
    """Aggregate fit against scikit-learn's on the one-hot crosses, to the same objective."""
    rows = []
    codes, y = make_problem(n)
    start = time.perf_counter()
    found, design, linear = aggregate(codes, y)
    aggregated = time.perf_counter() - start
    ridge = np.append(np.full(design.n_cells, RIDGE), 0.0)
    best = fit_tables(design, BUILT_IN["log"], linear, ridge, tol=1e-9).objective
    start = time.perf_counter()
    fit = fit_tables(design, BUILT_IN["log"], linear, ridge, tol=1e-4)
    ours = time.perf_counter() - start + aggregated
    rows.append(["aggregate (bags, design and fit)", ours, fit.n_passes, fit.objective / best - 1, 1.0])
    print(rows[-1], flush=True)

    offsets = np.concatenate([[0], np.cumsum([f[0].n_cells for f in found])])[:-1]
    columns = np.stack([f[1] + o for f, o in zip(found, offsets, strict=True)], axis=1)
    ends = np.arange(0, columns.size + 1, len(SETS), dtype=np.int32)
    X = sparse.csr_matrix(
        (np.ones(columns.size), columns.ravel().astype(np.int32), ends), shape=(len(y), design.n_cells)
    )
    for solver, tols in (("lbfgs", (1e-5, 2e-6)), ("newton-cg", (1e-4,))):
        for tol in tols:
            start = time.perf_counter()
            model = LogisticRegression(C=1 / RIDGE, solver=solver, tol=tol, max_iter=3000).fit(X, y)
            seconds = time.perf_counter() - start
            coef = np.append(model.coef_[0], model.intercept_)[np.newaxis]
            value = design.value_and_gradient(coef, BUILT_IN["log"], linear, ridge)[0] / len(y)
            rows.append(
                [
                    f"LogisticRegression {solver}, tol {tol:g}",
                    seconds,
                    int(model.n_iter_[0]),
                    value / best - 1,
                    seconds / ours,
                ]
            )
            print(rows[-1], flush=True)
            if value / best - 1 <= 1e-6:
                break
    write_table("aggregate_speed", ["fit", "seconds", "iterations", "objective gap", "ratio"], rows)


def time_pass(n: int) -> None:
    """One objective and gradient against the machine's memory bandwidth."""
    speed = bandwidth()
    codes = make_codes(n, public_generator(1))
    y = (codes[0] > 3).astype(np.float64)
    found, design, linear = aggregate(codes, y)
    del found, codes
    ridge = np.append(np.full(design.n_cells, RIDGE), 0.0)
    coef = np.zeros_like(linear)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        design.value_and_gradient(coef, BUILT_IN["log"], linear, ridge)
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times[1:]))
    rate = n * len(SETS) / seconds
    stored = sum(group.codes.nbytes for group in design._groups)
    plain = n * len(SETS) * 4
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    write_table(
        "aggregate_pass",
        ["quantity", "value"],
        [
            ["rows x sets", f"{n} x {len(SETS)}"],
            ["groups of sets", design.n_groups],
            ["distinct rows", design.n_rows],
            ["seconds of one objective and gradient", seconds],
            ["million row-sets per second", rate / 1e6],
            ["read bandwidth, GB/s", speed / 1e9],
            ["bandwidth / rate of 4-byte codes read once", speed / (plain / seconds)],
            ["GB of codes as stored", stored / 1e9],
            ["peak memory, GiB", peak],
        ],
    )


if __name__ == "__main__":
    main()
