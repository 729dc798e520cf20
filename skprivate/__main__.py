"""Demonstration on real data: ``python -m skprivate``; with a command, such as ``ledger``, the one of `skprivate.cli`.

Linear regression on flights in which all rows of one aircraft are protected together, inside a pipeline
and a grid search over ε, with folds that share no aircraft and one ledger that sees every fit of every
worker process.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

from skprivate import cli
from skprivate.datasets import load_flights
from skprivate.model_selection import UserKFold
from skprivate.preprocessing import PublicScaler
from skprivate.privacy import BudgetExceededError, PrivacyLedger
from skprivate.user_level import UserLevelSGDRegressor

EPSILONS = (0.03, 0.05, 0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
FOLDS = 5
#: Public round numbers: a typical value of month, hour, miles and minutes, and a typical distance from it.
CENTER, SCALE = [6.5, 12.0, 1000.0, 0.0], [6.0, 12.0, 1000.0, 60.0]
#: Public bound on the norm of the coefficients: two hours for each unit of scale.
RADIUS = 120.0


@dataclass(frozen=True)
class Row:
    """One ε of the privacy-utility table."""

    epsilon: float
    score: float
    spread: float
    guarantee: tuple[float, float]
    seconds: float


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration, or a command of `skprivate.cli`; returns the exit code."""
    if (sys.argv[1:] if arguments is None else arguments)[:1] in (["ledger"], ["audit"], ["--version"]):
        return cli.main(arguments)
    parser = argparse.ArgumentParser(prog="python -m skprivate", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--picture", type=Path, default=Path("skprivate_demo.png"), help="where the curve is drawn"
    )
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument(
        "--seed", type=int, default=None, help="simulated noise, to see the same numbers again"
    )
    options = parser.parse_args(arguments)

    start = time.perf_counter()
    X, y, aircraft = load_flights(return_X_y=True, return_users=True)
    users = len(np.unique(aircraft))
    print(
        f"{len(X):,} flights of {users:,} aircraft; predict the delay on arrival from {X.shape[1]} features."
    )
    print(
        "Protected: everything that one aircraft contributed. Folds share no aircraft, and which one an aircraft is in "
        "depends on no other.\n",
        flush=True,
    )

    with tempfile.TemporaryDirectory() as folder:
        # The budget of the search and of one final fit.
        total = round(FOLDS * sum(EPSILONS) + 1.0, 9)
        ledger = PrivacyLedger(
            Path(folder) / "flights.ledger",
            epsilon=total,
            delta=round((FOLDS * len(EPSILONS) + 1) * DELTA, 12),
            unit="user",
            composition="basic",  # so that the refusal at the end is easily checked by hand
            simulation=options.seed is not None,
        )
        rows = search(X, y, aircraft, ledger, jobs=options.jobs, seed=options.seed)
        reference = cross_val_score(
            LinearRegression(), X, y, groups=aircraft, cv=UserKFold(FOLDS), scoring="r2"
        ).mean()
        print_table(rows, reference)
        final_fit(X, y, aircraft, ledger, seed=options.seed)
    if draw(rows, reference, options.picture):
        print(f"\nThe privacy-utility curve is in {options.picture}.")
    print(f"\n{time.perf_counter() - start:.0f} s.")
    return 0


def make_pipeline(ledger: PrivacyLedger, seed: int | None) -> Pipeline:
    """Public scaling, then private regression."""
    regressor = UserLevelSGDRegressor(delta=DELTA, radius=RADIUS, ledger=ledger, random_state=seed)
    return Pipeline([("scale", PublicScaler(center=CENTER, scale=SCALE)), ("regressor", regressor)])


def search(
    X: np.ndarray, y: np.ndarray, aircraft: np.ndarray, ledger: PrivacyLedger, *, jobs: int, seed: int | None
) -> list[Row]:
    """Grid search over ε; one row for each."""
    grid = GridSearchCV(
        make_pipeline(ledger, seed),
        {"regressor__epsilon": list(EPSILONS)},
        cv=UserKFold(FOLDS),
        scoring={"r2": "r2", "epsilon": promised_epsilon, "delta": promised_delta},
        refit=False,  # to choose by these scores would be a further release
        n_jobs=jobs,
        error_score="raise",
    )
    with progress(ledger, FOLDS * len(EPSILONS)):
        grid.fit(X, y, groups=aircraft, regressor__user_ids=aircraft)
    found = grid.cv_results_
    return [
        Row(epsilon, *(float(found[key][k]) for key in ("mean_test_r2", "std_test_r2")),
            (max(found[f"split{f}_test_epsilon"][k] for f in range(FOLDS)), float(found["mean_test_delta"][k])),
            float(found["mean_fit_time"][k]))
        for k, epsilon in enumerate(EPSILONS)
    ]  # fmt: skip


def promised_epsilon(estimator: Any, X: Any, y: Any) -> float:
    """ε of a fitted pipeline's guarantee, as a scorer."""
    return float(estimator[-1].privacy_guarantee_.epsilon)


def promised_delta(estimator: Any, X: Any, y: Any) -> float:
    """δ of a fitted pipeline's guarantee, as a scorer."""
    return float(estimator[-1].privacy_guarantee_.delta)


@contextmanager
def progress(ledger: PrivacyLedger, total: int) -> Iterator[None]:
    """A progress bar fed by the ledger, which sees the fits of all processes."""
    done = threading.Event()

    def show() -> None:
        while not done.wait(0.2):
            bar(sum(entry.closed is not None for entry in ledger.entries()))

    def bar(count: int) -> None:
        width = 40
        filled = width * count // total
        print(
            f"\rfits [{'#' * filled}{'.' * (width - filled)}] {count}/{total}",
            end="",
            file=sys.stderr,
            flush=True,
        )

    if not sys.stderr.isatty():
        yield
        return
    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        bar(len(ledger.entries()))
        print(file=sys.stderr)


def print_table(rows: list[Row], reference: float) -> None:
    """The table of the search, and how it compares."""
    print(f"{'epsilon':>8}  {'R2 (held-out aircraft)':>22}  {'guarantee of each fit':>36}  {'s/fit':>6}")
    for row in rows:
        epsilon, delta = row.guarantee
        # Rounded up: what is shown is never less than what was spent.
        shown = f"({math.ceil(epsilon * 1e4) / 1e4:g}, {delta:.0e})-DP for one aircraft"
        print(f"{row.epsilon:>8}  {row.score:>14.3f} ± {row.spread:.3f}  {shown:>36}  {row.seconds:>6.2f}")
    print(f"{'none':>8}  {reference:>14.3f}          {'no privacy (least squares)':>36}")
    print(
        "\nThe scores carry no noise: they are for whoever holds the data. These flights are public, "
        "so they may be shown."
    )


def final_fit(
    X: np.ndarray, y: np.ndarray, aircraft: np.ndarray, ledger: PrivacyLedger, *, seed: int | None
) -> None:
    """The model that would be published, the ledger after it, and the fit that no longer fits."""
    pipeline = make_pipeline(ledger, seed).fit(X, y, regressor__user_ids=aircraft)
    print("\nA model to publish, fitted on all aircraft at ε = 1:")
    for name, value in zip(("month", "hour", "distance", "dep_delay"), pipeline[-1].coef_, strict=True):
        print(f"  {name:<10} {value:>8.3f} minutes for each public unit of scale")
    print(f"  {pipeline[-1].privacy_guarantee_}")
    print(f"\nThe ledger saw every fit of every process:\n  {ledger!r}")
    try:
        make_pipeline(ledger, seed).fit(X, y, regressor__user_ids=aircraft)
    except BudgetExceededError as error:
        print(f"\nOne more fit is refused before it draws:\n  {error}")


def draw(rows: list[Row], reference: float, path: Path) -> bool:
    """Draw the privacy-utility curve if matplotlib is there; whether it was drawn."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    epsilons = [row.epsilon for row in rows]
    scores = [row.score for row in rows]
    axes.errorbar(epsilons, scores, yerr=[row.spread for row in rows], marker="o", capsize=3, label="private")
    axes.axhline(reference, color="black", linestyle="--", label="no privacy (least squares)")
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons], minor=False)
    axes.minorticks_off()
    axes.set_ylim(min(0.0, *scores) - 0.05, 1.0)
    axes.set_xlabel(f"ε of one fit (δ = {DELTA:g}), for all flights of one aircraft")
    axes.set_ylabel("R² on held-out aircraft (5 folds)")
    axes.set_title("Arrival delay of flights: privacy and utility")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


if __name__ == "__main__":
    sys.exit(main())
