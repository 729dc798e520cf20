"""Means of skewed and of contaminated users: clipping them against leaving out those who are far.

    python benchmarks/user_level_outliers.py [--seeds 40]

2000 users, ε = 1. Both know the median, and take the radius that is best in hindsight. ``UserLevelMean`` has its
defaults. Errors are root mean squares in deviations of a user, from the mean of all ("who count") or of the others.
"""

from __future__ import annotations

import warnings

import numpy as np
from _common import parse_args, write_table

from skprivate import UserLevelMean
from skprivate.privacy import SimulatedNoiseWarning

USERS = 2000


def contaminated(share: float, place: float):
    return lambda rng: rng.normal(size=USERS) + place * (rng.random(USERS) < share)


#: Users, their mean and their deviation.
SHAPES = {
    "normal": (lambda rng: rng.normal(size=USERS), 0.0, 1.0),
    "log-normal": (lambda rng: rng.lognormal(size=USERS), np.exp(0.5), np.sqrt(np.e * (np.e - 1.0))),
    "exponential": (lambda rng: rng.exponential(size=USERS), 1.0, 1.0),
    "t, 3 degrees": (lambda rng: rng.standard_t(3, size=USERS), 0.0, np.sqrt(3.0)),
    "5 % at 10": (contaminated(0.05, 10.0), 0.0, 1.0),
    "1 % at 100": (contaminated(0.01, 100.0), 0.0, 1.0),
    "5 % at 10, who count": (contaminated(0.05, 10.0), 0.5, 1.0),
    "1 % at 100, who count": (contaminated(0.01, 100.0), 1.0, 1.0),
}


def main() -> None:
    args = parse_args(__doc__, seeds=40)
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    radii, rows = np.geomspace(0.5, 200.0, 40), []
    for name, (draw, truth, deviation) in SHAPES.items():
        errors: dict[str, list] = {"UserLevelMean": [], "clipped": [], "left out": []}
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            x = (draw(rng) - truth) / deviation
            z = x[:, None] - np.median(x)
            noise = np.median(x) + rng.laplace(size=radii.size) * 2.0 * radii / USERS
            near = np.abs(z) <= radii
            mean = UserLevelMean(1.0, random_state=seed).fit(x[:, None]).mean_[0]
            errors["UserLevelMean"].append([mean])
            errors["clipped"].append(np.clip(z, -radii, radii).mean(axis=0) + noise)
            errors["left out"].append((z * near).sum(axis=0) / np.maximum(near.sum(axis=0), 1) + noise)
        cells = []
        for found in map(np.array, errors.values()):
            best = np.sqrt((found**2).mean(axis=0)).argmin()
            cells.append(f"{np.sqrt((found[:, best] ** 2).mean()):.3f} ({found[:, best].mean():+.3f})")
        rows.append([name, *cells])
    write_table("user_level_outliers", ["users", *(f"{name}: error (bias)" for name in errors)], rows)


if __name__ == "__main__":
    main()
