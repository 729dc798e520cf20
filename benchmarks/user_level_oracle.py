"""User-level regression and mean against an oracle under the same adjacency, over n, m and ε.

The oracle is gradient descent on the users' mean gradients, clipped in ℓ2, with exact Gaussian composition of the same
(ε, δ) under the same adjacency. Clip (10 values, a factor of 2 apart), number of steps (7), rate (2) and averaging (2)
are those of the 280 with the least median *true* risk over 15 data sets, cell by cell (from 1000 users on among 40, by
six data sets). It knows the number of users and spends no budget on any of that. Ours is one default. Both are then
measured on other data sets from the same law.

Regression: x ~ N(0, I_10), |w*| = 1, noise .5, risk ½‖w − w*‖². Mean: five features; users' vectors are normal, or
means of m log-normal rows; risk ½‖estimate − expectation‖².
Both start from the same public guess, which is as far from the
expectation as a user's vector is, and the oracle's clips are in units of that distance.

    python benchmarks/user_level_oracle.py [--seeds 60] [--users 200 500 ...] [--kinds regression mean]
    python benchmarks/user_level_oracle.py --told --kinds regression
    python benchmarks/user_level_oracle.py --render

With ``--told`` ours knows what the oracle knows by its choice of clips, that features and target are about standard
(``standardize=False``), and spends nothing on finding that out.

The oracle's settings are kept in ``user_level_oracle_settings.csv`` and searched for where they are not there.
"""

from __future__ import annotations

import csv
import itertools
import math
import warnings

import numpy as np
from _common import RESULTS, parse_args, save_figure, write_table

from skprivate import UserLevelMean, UserLevelSGDRegressor
from skprivate.privacy import gaussian_noise_multiplier

USERS = [200, 500, 1000, 2000, 5000]
ROWS_EACH = [5, 20, 50]
EPSILONS = [0.5, 1.0, 3.0]
SENSITIVITY = {"replace-one": 2.0, "add-remove": 1.0}
CLIPS = [0.0125 * 2.0**k for k in range(10)]
STEPS = [80, 40, 20, 10, 5, 3, 1]
RATES = [0.5, 1.0]
KINDS = ["regression", "mean"]
OURS = [("replace-one", False), ("add-remove", True), ("add-remove", False)]
CELL = ["kind", "n", "m", "epsilon", "adjacency"]
SETTING = ["clip", "steps", "rate", "average"]
COLUMNS = [*CELL, "n public", "seeds", "oracle", "ours", "ratio", "error", "ratio of means", "worst / median"]
#: Data sets that the oracle is chosen by, and the first of those on which both are measured.
SEARCHED, FIRST_SEED = 15, 1000
#: From so many users on the oracle chooses among the 40 settings where it wins elsewhere, by six seeds.
FEWER = 1000
#: Numbers of a block of users under all settings.
BLOCK = 1 << 18


class Regression:
    """x ~ N(0, I), |w*| = 1, noise .5; d = 10."""

    def __init__(self, n, m, seed):
        rng = np.random.default_rng([seed, n, m, 1])
        self.truth = rng.normal(size=10)
        self.truth /= np.linalg.norm(self.truth)
        self.X = rng.normal(size=(n * m, 10))
        self.y = self.X @ self.truth + 0.5 * rng.normal(size=n * m)
        self.users = np.repeat(np.arange(n), m)
        blocks = self.X.reshape(n, m, 10)
        gram = np.matmul(blocks.transpose(0, 2, 1), blocks) / m
        self.gram = gram.astype(np.float32)
        self.moment = (np.einsum("umd,um->ud", blocks, self.y.reshape(n, m)) / m).astype(np.float32)
        self.unit = 1.0
        self.start = np.zeros(10)

    def gradients(self, users, W):
        return (self.gram[users].reshape(-1, 10) @ W).reshape(-1, 10, W.shape[1]) - self.moment[users, :, None]

    def ours(self, epsilon, seed, *, told=False, **options):
        model = UserLevelSGDRegressor(epsilon, fit_intercept=False, random_state=seed, standardize=not told, **options)
        return model.fit(self.X, self.y, user_ids=self.users).coef_


class Mean:
    """Users' vectors of five features: normal (m = 1), or means of m log-normal rows."""

    def __init__(self, n, m, seed):
        rng = np.random.default_rng([seed, n, m, 2])
        if m == 1:
            self.truth, deviation, X = np.zeros(5), 1.0, rng.normal(size=(n, 5))
        else:
            self.truth = np.full(5, math.exp(0.5))
            deviation = math.sqrt((math.e - 1.0) * math.e / m)
            X = np.exp(rng.normal(size=(n, m, 5))).mean(axis=1)
        direction = rng.normal(size=5)
        self.unit = deviation * math.sqrt(5)
        self.start = self.truth + self.unit * direction / np.linalg.norm(direction)
        self.X, self.moment = X, X.astype(np.float32)

    def gradients(self, users, W):
        return W[None] - self.moment[users, :, None]

    def ours(self, epsilon, seed, *, told=False, **options):
        assert not told, "there is nothing to tell"
        return self.start + UserLevelMean(epsilon, random_state=seed, **options).fit(self.X - self.start).mean_


DATA = {"regression": Regression, "mean": Mean}


def risk(W, truth):
    return 0.5 * ((W.T - truth) ** 2).sum(axis=1)


def oracle(data, settings, rng):
    """Risk of the last iterate and of the mean of the last half, of many settings at once.

    Settings are (noise of one sum, clip, steps, rate), those of many steps first.
    """
    noises, clips, steps, rates = (np.array(column) for column in zip(*settings, strict=True))
    clips = clips * data.unit
    n, d = data.moment.shape
    W = np.repeat(data.start[:, None], len(settings), axis=1)
    tail = np.zeros(W.shape)
    deviations = clips * noises * np.sqrt(steps)
    for t in range(steps[0]):
        k = int((steps > t).sum())
        points, bounds = W[:, :k].astype(np.float32), clips[:k].astype(np.float32)
        total = np.zeros((d, k))
        size = max(1, BLOCK // (d * k))
        for first in range(0, n, size):
            g = data.gradients(slice(first, min(first + size, n)), points)
            norms = np.sqrt(np.einsum("udk,udk->uk", g, g))
            g *= np.minimum(np.float32(1.0), bounds / np.maximum(norms, np.float32(1e-30)))[:, None]
            total += g.sum(axis=0)
        noise = rng.normal(size=(d, 1)) * deviations[:k]
        W[:, :k] -= rates[:k] * (total + noise) / n
        late = t >= steps[:k] // 2
        tail[:, :k] += np.where(late, W[:, :k] / (steps[:k] - steps[:k] // 2), 0.0)
    return np.stack([risk(W, data.truth), risk(tail, data.truth)], axis=1)


def noises_of(pairs):
    return {pair: SENSITIVITY[pair[0]] * gaussian_noise_multiplier(pair[1], 1e-6) for pair in pairs}


def search(kind, n, m):
    """Best setting of the oracle for each adjacency and ε."""
    few = n >= FEWER
    data = [DATA[kind](n, m, seed) for seed in range(6 if few else SEARCHED)]
    noises = noises_of(itertools.product(SENSITIVITY, EPSILONS))
    clips, steps, rates = (CLIPS[3:8], STEPS[::2], [1.0]) if few else (CLIPS, STEPS, RATES)
    grid = [(p, c, s, r) for s in steps for p in noises for c in clips for r in rates]
    settings = [(noises[p], c, s, r) for p, c, s, r in grid]
    risks = [oracle(each, settings, np.random.default_rng([seed, 0])) for seed, each in enumerate(data)]
    middles = np.median(np.stack(risks), axis=0)
    for pair in noises:
        mine = np.array([p == pair for p, *_ in grid])
        best, tail = np.unravel_index(np.argmin(np.where(mine[:, None], middles, np.inf)), middles.shape)
        yield [kind, n, m, pair[1], pair[0], *grid[best][1:], "mean" if tail else "last"]


def read(name):
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="") as handle:
        return list(csv.DictReader(handle))


def settings_of(kind, n, m):
    """Setting of the oracle for each (ε, adjacency), searched for where it is not known."""
    found = read("user_level_oracle_settings")
    if not any((row["kind"], int(row["n"]), int(row["m"])) == (kind, n, m) for row in found):
        new = [[str(value) for value in row] for row in search(kind, n, m)]
        write_table("user_level_oracle_settings", [*CELL, *SETTING], [*(list(r.values()) for r in found), *new])
        found = read("user_level_oracle_settings")
    return {
        (float(row["epsilon"]), row["adjacency"]): row
        for row in found
        if (row["kind"], int(row["n"]), int(row["m"])) == (kind, n, m)
    }


def measure(kind, n, m, seeds, told):
    """Rows of the table for a cell of data, on data sets that the oracle was not chosen by."""
    settings = settings_of(kind, n, m)
    noises = noises_of((adjacency, epsilon) for epsilon, adjacency in settings)
    risks = {}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        data = DATA[kind](n, m, seed)
        for (epsilon, adjacency), row in settings.items():
            one = noises[adjacency, epsilon], float(row["clip"]), int(row["steps"]), float(row["rate"])
            both = oracle(data, [one], np.random.default_rng([seed, 1]))[0]
            risks.setdefault((epsilon, adjacency), []).append(both[int(row["average"] == "mean")])
            for options in OURS:
                if options[0] == adjacency:
                    given = {"n_users": n} if adjacency == "add-remove" and options[1] else {}
                    w = data.ours(epsilon, 10_000 + seed, told=told, adjacency=adjacency, **given)
                    value = risk(w[:, None], data.truth)[0]
                    risks.setdefault((epsilon, *options), []).append(value)
    drawn = np.random.default_rng(0).integers(0, seeds, (1000, seeds))
    for (epsilon, adjacency), public in itertools.product(settings, [False, True]):
        mine = risks.get((epsilon, adjacency, public and adjacency == "add-remove"))
        if mine is None or (adjacency == "replace-one" and not public):
            continue
        mine, reference = np.array(mine), np.array(risks[epsilon, adjacency])
        medians = np.median(mine), np.median(reference)
        again = np.median(mine[drawn], axis=1) / np.median(reference[drawn], axis=1)
        of_both = (medians[0] / medians[1], again.std(), mine.mean() / reference.mean(), mine.max() / medians[0])
        yield [kind, n, m, epsilon, adjacency, public, seeds, medians[1], medians[0], *of_both]


def name_of(told):
    return "user_level_oracle_told" if told else "user_level_oracle"


def store(rows, told):
    """Rows of a cell, in place of those of the same cell."""
    new = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in row] for row in rows]
    cells = {tuple(row[:3]) for row in new}
    old = [list(row.values()) for row in read(name_of(told))]
    write_table(name_of(told), COLUMNS, sorted([r for r in old if tuple(r[:3]) not in cells] + new))


def table_of(told):
    return [
        [r["kind"], int(r["n"]), float(r["epsilon"]), r["adjacency"], r["n public"] == "True"]
        + [float(r[k]) for k in ("ratio", "error", "ratio of means")]
        for r in read(name_of(told))
    ]


def render():
    table = table_of(False)
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        cells = [row for row in table if row[0] == kind]
        for (adjacency, known), marker in zip(OURS, "osx", strict=True):
            for epsilon, colour in zip(EPSILONS, ["C4", "C1", "C0"], strict=True):
                known = known or adjacency == "replace-one"
                mine = [row for row in cells if row[2:5] == [epsilon, adjacency, known]]
                offset = 1.0 + 0.05 * (EPSILONS.index(epsilon) - 1)
                label = f"ε = {epsilon:g}, {adjacency}" + ("" if known else ", n private")
                axis.plot(
                    [row[1] * offset for row in mine],
                    [row[5] for row in mine],
                    marker,
                    color=colour,
                    label=label,
                    alpha=0.7,
                )
        axis.axhline(1.0, color="black", lw=0.8)
        axis.axhline(1.3, color="black", lw=0.8, ls=":")
        axis.set(xscale="log", yscale="log", xlabel="users", title=kind)
        sizes = sorted({row[1] for row in cells})
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.set_yticks([0.6, 0.8, 1.0, 1.3, 2.0, 5.0, 20.0], ["0.6", "0.8", "1", "1.3", "2", "5", "20"])
        axis.minorticks_off()
    axes[0].set_ylabel("risk / oracle's risk")
    axes[1].legend(fontsize=7, ncol=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, "user_level_oracle")
    print("| what | adjacency | cells | median ratio | of mean risks | largest | above 1.3 | by two errors |")
    print("|---|---|---|---|---|---|---|---|")
    for told, kind, (adjacency, public) in itertools.product((False, True), KINDS, OURS):
        known = public or adjacency == "replace-one"
        found = [row for row in table_of(told) if row[0] == kind and row[3:5] == [adjacency, known]]
        if not found:
            continue
        ratio, error, of_means = (np.array([row[k] for row in found]) for k in (5, 6, 7))
        above, surely = (ratio > 1.3).sum(), (ratio - 2.0 * error > 1.3).sum()
        what = adjacency + ("" if known else ", n released")
        print(
            f"| {kind + ', told' * told} | {what} | {len(found)} | {np.median(ratio):.2f} | {np.median(of_means):.2f} "
            f"| {ratio.max():.2f} | {above} | {surely} |"
        )
    ratios()


def ratios():
    """Write the ratios of all cells: a line for each kind, adjacency and number of users, in it all m."""
    lines = []
    for told, kind, (adjacency, public) in itertools.product((False, True), KINDS, OURS):
        known = str(public or adjacency == "replace-one")
        rows = [
            r for r in read(name_of(told)) if [r["kind"], r["adjacency"], r["n public"]] == [kind, adjacency, known]
        ]
        rows.sort(key=lambda row: int(row["m"]))
        for n in sorted({int(row["n"]) for row in rows}):
            line = [kind + ", same knowledge" * told, adjacency + ", n released" * (known == "False"), n]
            for epsilon in EPSILONS:
                found = [r for r in rows if int(r["n"]) == n and float(r["epsilon"]) == epsilon]
                line.append(" / ".join(f"{float(row['ratio']):.2f}" for row in found))
            lines.append(line)
    write_table("user_level_oracle_ratios", ["what", "adjacency", "n", *(f"ε = {e:g}" for e in EPSILONS)], lines)


def main():
    args = parse_args(
        __doc__,
        seeds=60,
        users={"type": int, "nargs": "*", "default": USERS},
        kinds={"nargs": "*", "default": KINDS},
        rows_each={"type": int, "nargs": "*", "default": None},
        told={"action": "store_true"},
        render={"action": "store_true"},
    )
    if args.render:
        return render()
    warnings.simplefilter("ignore")
    for kind, n in itertools.product(args.kinds, args.users):
        for m in args.rows_each or (ROWS_EACH if kind == "regression" else [1, *ROWS_EACH]):
            rows = list(measure(kind, n, m, args.seeds, args.told))
            store(rows, args.told)
            for row in rows:
                print(*[f"{x:.3g}" if isinstance(x, float) else x for x in row], flush=True)
    return None


if __name__ == "__main__":
    main()
