"""How the privacy error falls with users and rows, selection error against K, and what the paper's accounting costs.

Privacy error: distance from the non-private answer on the same data, median over seeds (replace-one, ε = 1).

    python benchmarks/user_level_slopes.py [--seeds 100]
"""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
from _common import parse_args, save_figure, write_table

from skprivate import UserLevelMean, UserLevelSGDRegressor
from skprivate.papers.user_level import Plan
from skprivate.privacy import compose_epsilon, gaussian_noise_multiplier, open_release
from skprivate.user_level._selection import MeanSelection, VoteSelection

NS = [2000, 4000, 8000, 16_000, 32_000]
MS = [4, 16, 64, 256]
D = 5


def mean_error(n, m, seed, bounded=False):
    rng = np.random.default_rng([seed, n, m])
    # The mean of m standard normal rows, drawn directly: users' means are all that enters. Or users in a cube.
    X = (rng.uniform(-1.0, 1.0, (n, D)) if bounded else rng.normal(size=(n, D))) / math.sqrt(m)
    return np.linalg.norm(UserLevelMean(1.0, random_state=seed).fit(X).mean_ - X.mean(axis=0))


def regression_error(n, m, seed):
    rng = np.random.default_rng([seed, n, m])
    w = np.full(D, 1.0 / math.sqrt(D))
    X = rng.normal(size=(n * m, D))
    y = X @ w + 0.5 * rng.normal(size=n * m)
    plain = np.linalg.lstsq(X, y, rcond=None)[0]
    model = UserLevelSGDRegressor(
        1.0, solver="sgd", aggregation="mean", radius=2.0, fit_intercept=False, random_state=seed
    )
    return np.linalg.norm(model.fit(X, y, user_ids=np.arange(n * m) // m).coef_ - plain)


def slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def selection_error(rule, k, seed, n=1000, m=10):
    """Excess mean loss of the chosen among k candidates whose losses lie evenly in [0, 1]."""
    rng = np.random.default_rng([seed, k])
    truth = np.linspace(0.0, 1.0, k)
    losses = truth + rng.normal(size=(n, 1)) / math.sqrt(m) + 0.5 * rng.normal(size=(n, k)) / math.sqrt(m)
    mechanism = VoteSelection(1.0, monotone=False) if rule == "votes" else MeanSelection(1.0, 1.0, 100.0, k)
    release = open_release(epsilon=1.0, unit="user", adjacency="replace-one", random_state=seed, plan=mechanism.events)
    chosen = mechanism.run(losses, release)
    return truth[chosen]


def main():
    args = parse_args(__doc__, seeds=100)
    warnings.simplefilter("ignore")
    table, curves = [], {}
    seeds = range(args.seeds)
    few = range(max(3, args.seeds // 5))
    for name, error, runs, ns, ms, m, n in (
        ("mean", mean_error, seeds, NS, MS, 16, 8000),
        ("mean, users in a cube", partial(mean_error, bounded=True), seeds, NS, MS, 16, 8000),
        ("regression", regression_error, few, NS[:4], MS[:3], 4, 4000),
    ):
        by_n = [float(np.median([error(k, m, s) for s in runs])) for k in ns]
        by_m = [float(np.median([error(n, k, s) for s in runs])) for k in ms]
        curves[name] = (ns, by_n, ms, by_m)
        table.append([name, "slope in n", slope(ns, by_n), -1.0])
        table.append([name, "slope in m", slope(ms, by_m), -0.5])
        print(table[-2:], flush=True)
    ks = [4, 16, 64, 256]
    choices = {}
    for rule in ("votes", "means"):
        choices[rule] = [float(np.mean([selection_error(rule, k, s) for s in few])) for k in ks]
        for k, value in zip(ks, choices[rule], strict=True):
            table.append([f"selection, {rule}", f"excess loss, K = {k}", value, ""])
    # Accounting: the ε that the published constants really spend, and the noise they add per coordinate.
    steps = [1, 4, 16, 64, 256]
    spent, ratio = [], []
    for t in steps:
        plan = Plan(1.0, 1e-6, t, 1.0, 1e6, 0.05, 0.5, math.inf, "convex")
        spent.append(compose_epsilon(plan.events(8), 1e-6))
        n, share = 1000, plan.events(8)[1][0].epsilon
        tau = 10.0 * math.sqrt(math.log(8 * n / 0.05) / 8)
        laplace = math.sqrt(2.0) * 4.0 * tau / (n * share)
        gaussian = 2.0 * 2.0 / n * gaussian_noise_multiplier(1.0, 1e-6) * math.sqrt(t)
        ratio.append(laplace / gaussian)
        table.append([f"T = {t}", "paper: ε really spent of 1; noise against ours at the same τ", spent[-1], ratio[-1]])
    write_table("user_level_slopes", ["what", "measured", "value", "expected"], table)

    draw(curves, ks, choices, steps, ratio, spent)


def draw(curves, ks, choices, steps, ratio, spent):
    """Draw errors against users and rows, the loss of selection, and the paper's accounting."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    for name, (ns, by_n, ms, by_m) in curves.items():
        axes[0].loglog(ns, by_n, "o-", markersize=4, label=f"{name}: {slope(ns, by_n):.2f}")
        axes[1].loglog(ms, by_m, "o-", markersize=4, label=f"{name}: {slope(ms, by_m):.2f}")
    for rule, values in choices.items():
        axes[2].semilogx(ks, values, "o-", markersize=4, label=rule)
    axes[3].loglog(steps, ratio, "o-", markersize=4, label="its noise / ours at the same τ")
    axes[3].loglog(steps, spent, "o--", markersize=4, label="ε really spent of ε = 1")
    axes[0].set(title="users", xlabel="users, 16 (regression: 4) rows each", ylabel="distance to the plain answer")
    axes[1].set(title="rows of a user", xlabel="rows each of 8000 (4000) users")
    axes[2].set(title="selection", xlabel="candidates", ylabel="loss above the best", ylim=(None, 0.035))
    axes[3].set(title="the paper's accounting", xlabel="steps", ylim=(None, 1e5))
    for axis, ticks in zip(axes, (NS, MS, ks, steps), strict=True):
        axis.minorticks_off()
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.legend(fontsize="small")
    for axis in axes[:2]:  # slopes above the lines
        axis.set_ylim(None, 7.0 * axis.get_ylim()[1])
    save_figure(figure, "user_level_slopes")


if __name__ == "__main__":
    main()
