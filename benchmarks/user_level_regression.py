"""User-level linear regression against an oracle-tuned clip: excess risk with one untuned default.

x ~ N(0, I_d), |w*| = 1, noise 0.5, excess = ½‖w − w*‖², δ = 1e-6. GD* is gradient descent on the users' mean gradients
with an ℓ2 clip and Gaussian noise (add/remove one user, n public, exact composition) whose clip, number of steps,
step and averaging are chosen among up to 160 settings with the true w* in hand, per row and ε; its risk is then
measured with fresh noise on the same data.

    python benchmarks/user_level_regression.py [--seeds 20] [--rows 0 1 2 3 4 5]
"""

from __future__ import annotations

import os
import warnings

import numpy as np
from _common import parse_args, write_table

from skprivate import UserLevelSGDRegressor
from skprivate.privacy import gaussian_noise_multiplier

ROWS = [
    (2000, 50, 10, 0.0),
    (200, 50, 10, 0.0),
    (500, 500, 10, 0.0),
    (2000, 50, 50, 0.0),
    (2000, 5, 10, 0.0),
    (200, 50, 10, 0.5),
]
EPSILONS = [0.5, 1.0, 3.0]
CLIPS = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
STEPS = [5, 10, 20, 40, 80]
RATES = [0.5, 1.0]
OURS = [
    ("add-remove, n public", {"adjacency": "add-remove", "n_users": "public"}),
    ("add-remove, n released", {"adjacency": "add-remove"}),
    ("replace-one", {"adjacency": "replace-one"}),
]


def make(row, seed):
    n, m, d, spread = row
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    own = w + spread * rng.normal(size=(n, d)) / np.sqrt(d)
    X = rng.normal(size=(n * m, d))
    users = np.repeat(np.arange(n), m)
    y = np.einsum("ij,ij->i", X, own[users]) + 0.5 * rng.normal(size=n * m)
    return X, y, users, w


def excess(w, truth):
    return 0.5 * float(np.sum((w - truth) ** 2))


def moments(X, y, row):
    """Every user's mean Gram matrix and cross moment."""
    n, m, d, _ = row
    blocks = X.reshape(n, m, d)
    return np.matmul(blocks.transpose(0, 2, 1), blocks) / m, np.einsum("umd,um->ud", blocks, y.reshape(n, m)) / m


def descend(gram, moment, noise, clip, steps, rate, rng):
    """Last iterate and average of the last half."""
    n, d = moment.shape
    w, tail = np.zeros(d), np.zeros(d)
    for t in range(steps):
        g = (gram.reshape(-1, d) @ w).reshape(n, d) - moment
        g *= np.minimum(1.0, clip / np.maximum(np.linalg.norm(g, axis=1), 1e-300))[:, None]
        w = w - rate * (g.sum(axis=0) / n + clip * noise * np.sqrt(steps) / n * rng.normal(size=d))
        if t >= steps // 2:
            tail += w / (steps - steps // 2)
    return w, tail


def main():
    args = parse_args(__doc__, seeds=20, rows={"type": int, "nargs": "*", "default": list(range(len(ROWS)))})
    warnings.simplefilter("ignore")
    columns = ["setting", "OLS", "estimator", "epsilon", "median excess", "against GD*", "worst/median"]
    table = []
    for index in args.rows:
        row = ROWS[index]
        n, m, d, spread = row
        name = f"n={n} m={m} d={d}" + (" users differ" if spread else "")
        risks = {}
        # With 2000 users the search keeps to the part of the grid where settings win.
        grid = [
            (c, t, r)
            for c in (CLIPS if n < 2000 else [0.05, 0.2, 0.5, 1.0])
            for t in (STEPS if n < 2000 else [5, 40, 80])
            for r in (RATES if d < 50 else [1.0])
        ]
        star = {(e, *setting): ([], []) for e in EPSILONS for setting in grid}
        ols = []
        for seed in range(args.seeds):
            X, y, users, truth = make(row, seed)
            ols.append(excess(np.linalg.lstsq(X, y, rcond=None)[0], truth))
            for label, options in OURS:
                options = {k: (n if v == "public" else v) for k, v in options.items()}
                for epsilon in EPSILONS:
                    model = UserLevelSGDRegressor(
                        epsilon, fit_intercept=False, random_state=10_000 + seed, **options
                    ).fit(X, y, user_ids=users)
                    risks.setdefault((label, epsilon), []).append(excess(model.coef_, truth))
            gram, moment = moments(X, y, row)
            for (epsilon, *setting), results in star.items():
                noise = gaussian_noise_multiplier(epsilon, 1e-6)
                ends = descend(gram, moment, noise, *setting, np.random.default_rng([seed, 0]))
                for kind in (0, 1):
                    results[kind].append(excess(ends[kind], truth))
            print(name, "seed", seed, flush=True)
        for epsilon in EPSILONS:
            choices = [(key, kind) for key in star if key[0] == epsilon for kind in (0, 1)]
            (_, *setting), kind = min(choices, key=lambda choice: np.median(star[choice[0]][choice[1]]))
            noise = gaussian_noise_multiplier(epsilon, 1e-6)
            oracle = []
            for seed in range(args.seeds):
                X, y, _, truth = make(row, seed)
                ends = descend(*moments(X, y, row), noise, *setting, np.random.default_rng([seed, 1]))
                oracle.append(excess(ends[kind], truth))
            reference = float(np.median(oracle))
            for label, values in [("GD* (oracle)", oracle)] + [(o[0], risks[o[0], epsilon]) for o in OURS]:
                middle = float(np.median(values))
                table.append(
                    [name, f"{np.median(ols):.3g}", label, epsilon, middle, middle / reference, max(values) / middle]
                )
    name = os.environ.get("PART", "user_level_regression")
    write_table(name, columns, table)


if __name__ == "__main__":
    main()
