"""Coverage and width of confidence intervals of linear models and of the radius of a mean, ε = 1 unless said.

A fit covers where its interval of level .95 holds the true coefficient; the width is over that of the interval without
privacy (least squares or logistic regression: 1.96 root mean square errors), and cost over a fit without intervals.

    python benchmarks/user_level_intervals.py [--seeds 200] [--only coefficients|mean]
"""

from __future__ import annotations

import time
import warnings
import zlib

import numpy as np
from _common import parse_args, write_table
from sklearn.linear_model import LinearRegression, LogisticRegression

from skprivate import UserLevelMean, UserLevelSGDClassifier, UserLevelSGDRegressor

EFFECTS = [0.5, -0.3, 0.2, 0.0, 0.1]
LAWS = ("normal", "heteroscedastic", "t3", "skewed errors", "skewed errors and features")
#: Law, features, users, rows of each, ε.
CELLS = [
    *((law, 5, 10_000, 1, 1.0) for law in (*LAWS, "classes")),
    *((law, 5, 10_000, 4, 1.0) for law in LAWS[:2]),
    *((law, 2, 10_000, 1, 1.0) for law in (LAWS[0], LAWS[4])),
    (LAWS[4], 5, 10_000, 4, 1.0),
    *((law, 5, 50_000, 1, 1.0) for law in (LAWS[0], LAWS[4])),
    *((law, 5, 5_000, 1, 1.0) for law in (LAWS[0], LAWS[4])),
    ("classes, skewed features", 5, 10_000, 1, 1.0),
    ("classes", 5, 10_000, 4, 1.0),
    (LAWS[1], 5, 50_000, 1, 1.0),
    *((law, 2, 10_000, 1, 1.0) for law in (LAWS[1], LAWS[2], LAWS[3], "classes")),
    (LAWS[0], 20, 50_000, 1, 1.0),
]


def sample(rng, law, d, n, m):
    """Draw rows; users with several share an offset and have slopes of their own."""
    rows, effects = n * m, np.resize(EFFECTS, d)
    skewed = law.endswith("features")
    X = rng.exponential(size=(rows, d)) - 1.0 if skewed else rng.normal(size=(rows, d))
    own = 0.0
    if m > 1:
        own = np.repeat(0.7 * rng.normal(size=n), m)
        own = own + np.sum(X * np.repeat(0.3 * rng.normal(size=(n, d)), m, axis=0), axis=1)
    if law.startswith("classes"):
        # No effects of users: a mixture of logistic models is none.
        return X, (X @ (2.0 * effects) - 0.5 + rng.logistic(size=rows) > 0).astype(int), 2.0 * effects
    if law == "t3":
        errors = rng.standard_t(3, size=rows) / np.sqrt(3.0)
    elif law.startswith("skewed"):
        errors = rng.exponential(size=rows) - 1.0
    else:
        errors = rng.normal(size=rows)
        if law == "heteroscedastic":
            errors *= np.sqrt(0.25 + 0.75 * X[:, 0] ** 2)
    return X, X @ effects + own + errors, effects


def cell(law, d, n, m, epsilon, fits):
    """Fit ``fits`` times; return one line of the table."""
    plain, errors, widths, shares, seconds, failed = [], [], [], [], np.zeros(2), 0
    for seed in range(fits):
        numbers = [seed, d, n, m, zlib.crc32(law.encode())]
        X, y, effects = sample(np.random.default_rng(numbers), law, d, n, m)
        ids = None if m == 1 else np.arange(n * m) // m
        options = {"random_state": zlib.crc32(repr(numbers).encode())}
        kind, peer = UserLevelSGDRegressor, LinearRegression()
        if law.startswith("classes"):
            kind, peer = UserLevelSGDClassifier, LogisticRegression(C=1e6)
            options["classes"] = [0, 1]
        plain.append(peer.fit(X, y).coef_.ravel() - effects)
        for k, inference in enumerate((True, False)[: 2 if seed < 20 else 1]):
            begin = time.process_time()
            model = kind(epsilon, inference=inference, **options).fit(X, y, user_ids=ids)
            if seed < 20:
                seconds[k] += time.process_time() - begin
            if inference:
                fitted = model
        if np.isnan(fitted.coef_error_).any():
            failed += 1
            continue
        errors.append(fitted.coef_.ravel() - effects)
        widths.append(fitted.coef_error_.ravel())
        shares.append(fitted.noise_share_.mean())
    without = np.sqrt(np.mean(np.square(plain)))
    errors, widths = np.array(errors), np.array(widths)
    covered = np.abs(errors) <= 1.959964 * widths
    return [
        law,
        d,
        n,
        m,
        epsilon,
        fits,
        round(float(covered.mean()), 3),
        round(float(covered.mean(axis=0).min()), 3),
        round(float(np.median(widths) / without), 2),
        round(float(np.sqrt(np.mean(errors**2)) / without), 2),
        round(float(np.mean(shares)), 2),
        failed,
        round(float(seconds[0] / seconds[1]), 2),
    ]


#: Laws of users' means: samples of shape (n, d), and the expectation.
USERS = {
    "normal": (1, lambda rng, n: rng.normal(size=(n, 1)), 0.0),
    "normal, five features": (5, lambda rng, n: rng.normal(size=(n, 5)), 0.0),
    "uniform": (1, lambda rng, n: rng.uniform(size=(n, 1)), 0.5),
    "exponential": (1, lambda rng, n: rng.exponential(size=(n, 1)), 1.0),
    "log-normal": (1, lambda rng, n: np.exp(rng.normal(size=(n, 1))), np.exp(0.5)),
    "t3": (1, lambda rng, n: rng.standard_t(3, size=(n, 1)), 0.0),
    "Lomax of index 3": (1, lambda rng, n: rng.pareto(3.0, size=(n, 1)), 0.5),
    "one in twenty 10 deviations away": (
        1,
        lambda rng, n: rng.normal(size=(n, 1)) + 10.0 * (rng.random((n, 1)) < 0.05),
        0.5,
    ),
}


def radius(law, n, fits):
    """Fit means ``fits`` times; return one line of the table: the radius over the .95 quantile of errors, too."""
    d, draw, mean = USERS[law]
    errors, radii = [], []
    for seed in range(fits):
        numbers = [seed, n, zlib.crc32(law.encode())]
        X = draw(np.random.default_rng(numbers), n)
        model = UserLevelMean(1.0, random_state=zlib.crc32(repr(numbers).encode())).fit(X)
        errors.append(np.linalg.norm(model.mean_ - mean))
        radii.append(model.confidence_radius_)
    errors, radii = np.array(errors), np.array(radii)
    told = ~np.isnan(radii)
    covered = np.mean(errors[told] <= radii[told]) if told.any() else np.nan
    over = np.median(radii[told]) / np.quantile(errors, 0.95) if told.any() else np.nan
    return [law, d, n, fits, round(float(covered), 3), round(float(over), 2), int((~told).sum())]


def main():
    args = parse_args(
        __doc__, seeds=200, only={"choices": ("coefficients", "mean"), "default": None}, cells={"type": int}
    )
    warnings.simplefilter("ignore")
    if args.only != "mean":
        table = []
        for numbers in CELLS[: args.cells]:
            table.append(cell(*numbers, args.seeds))
            print(table[-1], flush=True)
        columns = "errors features users rows epsilon fits coverage worst width rmse noise_share failed cost"
        write_table("user_level_intervals", columns.split(), table)
    if args.only != "coefficients":
        table = []
        for law in USERS:
            for n in (3000, 10_000):
                table.append(radius(law, n, args.seeds))
                print(table[-1], flush=True)
        columns = "users features n fits coverage radius_over_error failed"
        write_table("user_level_radius", columns.split(), table)


if __name__ == "__main__":
    main()
