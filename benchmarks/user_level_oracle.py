"""User-level regression and mean against an oracle under the same adjacency, over n, m and ε.

The oracle is gradient descent on the users' mean gradients, clipped in ℓ2, with exact Gaussian composition of the same
(ε, δ) under the same adjacency. Clip (10 values, a factor of 2 apart), number of steps (7), rate (2) and averaging (2)
are those of the 280 with the least median *true* risk, cell by cell (from 1000 users on among 40, by the first six
seeds); its risk is then measured with fresh noise on the same data. It knows the number of users and spends no budget
on any of that. Ours is one default.

Regression: x ~ N(0, I_10), |w*| = 1, noise .5, risk ½‖w − w*‖². Mean: five features; users' vectors are normal, or
means of m log-normal rows; risk ½‖estimate − expectation‖².
Both start from the same public guess, which is as far from the
expectation as a user's vector is, and the oracle's clips are in units of that distance.

    python benchmarks/user_level_oracle.py [--seeds 15] [--users 200 500 ...] [--kinds regression mean]
    python benchmarks/user_level_oracle.py --render
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
COLUMNS = ["kind", "n", "m", "epsilon", "adjacency", "n public", "seed", "who", "risk"]
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
        return (self.gram[users].reshape(-1, 10) @ W).reshape(-1, 10, W.shape[1]) - self.moment[
            users, :, None
        ]

    def ours(self, epsilon, seed, **options):
        model = UserLevelSGDRegressor(epsilon, fit_intercept=False, random_state=seed, **options)
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

    def ours(self, epsilon, seed, **options):
        return (
            self.start + UserLevelMean(epsilon, random_state=seed, **options).fit(self.X - self.start).mean_
        )


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


def _oracle_runs(data, noises, kind, n, m):
    few = n >= FEWER
    clips, steps, rates, search = (
        (CLIPS[3:8], STEPS[::2], [1.0], data[:6]) if few else (CLIPS, STEPS, RATES, data)
    )
    grid = [(p, c, s, r) for s in steps for p in noises for c in clips for r in rates]
    settings = [(noises[p], c, s, r) for p, c, s, r in grid]
    risks = [oracle(each, settings, np.random.default_rng([seed, 0])) for seed, each in enumerate(search)]
    middles = np.median(np.stack(risks), axis=0)
    for pair in noises:
        mine = np.array([p == pair for p, *_ in grid])
        best, tail = np.unravel_index(np.argmin(np.where(mine[:, None], middles, np.inf)), middles.shape)
        who = "oracle C={:.3g} T={} rate={} {}".format(*grid[best][1:], "mean" if tail else "last")
        for seed, each in enumerate(data):
            fresh = oracle(each, [settings[best]], np.random.default_rng([seed, 1]))[0, tail]
            yield [kind, n, m, pair[1], pair[0], True, seed, who, fresh]


def measure(kind, n, m, seeds, only_ours):
    """All runs of a cell, ours and the oracle's."""
    pairs = list(itertools.product(SENSITIVITY, EPSILONS))
    noises = {pair: SENSITIVITY[pair[0]] * gaussian_noise_multiplier(pair[1], 1e-6) for pair in pairs}
    data = [DATA[kind](n, m, seed) for seed in range(seeds)]
    runs = [] if only_ours else [run for run in _oracle_runs(data, noises, kind, n, m)]
    for adjacency, public in OURS:
        options = {"adjacency": adjacency}
        if adjacency == "add-remove" and public:
            options["n_users"] = n
        for epsilon, (seed, each) in itertools.product(EPSILONS, enumerate(data)):
            w = each.ours(epsilon, 10_000 + seed, **options)
            known = public or adjacency == "replace-one"
            runs.append(
                [kind, n, m, epsilon, adjacency, known, seed, "ours", risk(w[:, None], each.truth)[0]]
            )
    return runs


def path():
    return RESULTS / "user_level_oracle_runs.csv"


def stored():
    if not path().exists():
        return []
    with open(path(), newline="") as handle:
        return list(csv.reader(handle))[1:]


def store(runs):
    """Runs of a cell, in place of those of the same cell."""
    new = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in run] for run in runs]
    cells = {(*run[:3], run[7].split()[0]) for run in new}
    rows = [run for run in stored() if (*run[:3], run[7].split()[0]) not in cells] + new
    with open(path(), "w", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows([COLUMNS, *rows])


def ratios():
    """Median risk of ours and of the oracle, and their ratio, for each cell."""
    runs = {}
    for kind, n, m, epsilon, adjacency, known, _, who, value in stored():
        key = (kind, int(n), int(m), float(epsilon), adjacency, known == "True", who.split()[0])
        runs.setdefault(key, ([], who))[0].append(float(value))
    table = []
    for (*cell, who), (values, _) in sorted(runs.items()):
        if who == "ours":
            best, setting = runs[(*cell[:5], True, "oracle")]
            ours, reference = float(np.median(values)), float(np.median(best))
            table.append([*cell, reference, ours, ours / reference, max(values) / ours, setting[7:]])
    return table


def render():
    table = ratios()
    columns = [*COLUMNS[:6], "oracle", "ours", "ratio", "worst seed / median", "the oracle's setting"]
    write_table("user_level_oracle", columns, table)
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        cells = [row for row in table if row[0] == kind]
        for (adjacency, known), marker in zip(OURS, "osx", strict=True):
            known = known or adjacency == "replace-one"
            for epsilon, colour in zip(EPSILONS, ["tab:red", "tab:orange", "tab:blue"], strict=True):
                mine = [row for row in cells if row[3:6] == [epsilon, adjacency, known]]
                offset = 1.0 + 0.05 * (EPSILONS.index(epsilon) - 1)
                label = f"ε = {epsilon:g}, {adjacency}" + ("" if known else ", n private")
                axis.plot(
                    [row[1] * offset for row in mine],
                    [row[8] for row in mine],
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
        axis.minorticks_off()
    axes[0].set_ylabel("risk / oracle's risk")
    axes[1].legend(fontsize=7, ncol=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, "user_level_oracle")
    for kind, (adjacency, public) in itertools.product(KINDS, OURS):
        known = public or adjacency == "replace-one"
        found = [row[8] for row in table if row[0] == kind and row[4] == adjacency and row[5] == known]
        if found:
            geometric = math.exp(np.mean(np.log(found)))
            print(
                kind,
                adjacency,
                "n public" if known else "n private",
                f"median {np.median(found):.2f} mean {geometric:.2f} max {max(found):.2f} "
                f"above 1.3: {sum(r > 1.3 for r in found)} of {len(found)}",
            )


def main():
    args = parse_args(
        __doc__,
        seeds=15,
        users={"type": int, "nargs": "*", "default": USERS},
        kinds={"nargs": "*", "default": KINDS},
        rows_each={"type": int, "nargs": "*", "default": None},
        ours={"action": "store_true", "help": "keep the oracle's runs that are stored"},
        render={"action": "store_true"},
    )
    if args.render:
        return render()
    warnings.simplefilter("ignore")
    for kind, n in itertools.product(args.kinds, args.users):
        for m in args.rows_each or (ROWS_EACH if kind == "regression" else [1, *ROWS_EACH]):
            store(measure(kind, n, m, args.seeds, args.ours))
            for row in ratios():
                if (row[0], row[1], row[2]) == (kind, n, m):
                    print(*[f"{x:.3g}" if isinstance(x, float) else x for x in row], flush=True)
    return None


if __name__ == "__main__":
    main()
