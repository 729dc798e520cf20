"""Demonstration on real data: ``python -m skprivate``; with a command, such as ``ledger``, the one of `skprivate.cli`.

Linear regression on flights in which all rows of one aircraft are protected together, inside a pipeline and a grid
search over ε, with folds that share no aircraft and one ledger that sees every fit of every worker process.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

from skprivate import cli
from skprivate.datasets import load_flights
from skprivate.inspection import guarantee_of
from skprivate.model_selection import UserKFold
from skprivate.preprocessing import PublicScaler
from skprivate.privacy import BudgetExceededError, PrivacyLedger
from skprivate.user_level import UserLevelSGDRegressor

EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
FOLDS = 5
#: Public round numbers: a typical value of month, hour, miles and minutes, and a typical distance from it.
CENTER, SCALE = [6.5, 12.0, 1000.0, 0.0], [6.0, 12.0, 1000.0, 60.0]
#: Public bound on the norm of the coefficients: two hours for each unit of scale.
RADIUS = 120.0


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration, or a command of `skprivate.cli`; returns the exit code."""
    if (sys.argv[1:] if arguments is None else arguments)[:1] in (["ledger"], ["audit"], ["--version"]):
        return cli.main(arguments)
    parser = argparse.ArgumentParser(prog="python -m skprivate", description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, default=Path("skprivate_demo.png"), help="file of the curve")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--seed", type=int, help="simulated noise, to see the same numbers again")
    options = parser.parse_args(arguments)

    start = time.perf_counter()
    X, y, aircraft = load_flights(return_X_y=True, return_users=True)
    users = len(np.unique(aircraft))
    print(
        f"{len(X):,} flights of {users:,} aircraft; predict the delay on arrival from {X.shape[1]} features.\n"
        "Protected: everything that one aircraft contributed. Folds share no aircraft, and which one an aircraft is in "
        "depends on no other.\n",
        flush=True,
    )
    folds = {"groups": aircraft, "cv": UserKFold(FOLDS), "scoring": "r2"}
    reference = float(cross_val_score(LinearRegression(), X, y, **folds).mean())
    with tempfile.TemporaryDirectory() as folder:
        ledger = PrivacyLedger(
            Path(folder) / "flights.ledger",
            # The budget of the search and of one final fit.
            epsilon=round(FOLDS * sum(EPSILONS) + 1.0, 9),
            delta=round((FOLDS * len(EPSILONS) + 1) * DELTA, 12),
            unit="user",
            composition="basic",  # so that the refusal at the end is easily checked by hand
            simulation=options.seed is not None,
        )
        regressor = UserLevelSGDRegressor(delta=DELTA, radius=RADIUS, ledger=ledger, random_state=options.seed)
        model = Pipeline([("scale", PublicScaler(center=CENTER, scale=SCALE)), ("regressor", regressor)])
        grid = GridSearchCV(
            model,
            {"regressor__epsilon": list(EPSILONS)},
            cv=UserKFold(FOLDS),
            scoring={"r2": "r2", "epsilon": promised_epsilon, "delta": promised_delta},
            refit=False,  # to choose by these scores would be a further release
            n_jobs=options.jobs,
            error_score="raise",
        )
        results = grid.fit(X, y, groups=aircraft, regressor__user_ids=aircraft).cv_results_
        print_table(results, reference)
        print_final_fit(model, X, y, aircraft, ledger)
    if plot(results, reference, options.picture):
        print(f"\nThe privacy-utility curve is in {options.picture}.")
    print(f"\n{time.perf_counter() - start:.0f} s.")
    return 0


def promised_epsilon(estimator: Any, X: Any, y: Any) -> float:
    """Read ε of a fitted pipeline's guarantee, as a scorer."""
    return float(estimator[-1].privacy_guarantee_.epsilon)


def promised_delta(estimator: Any, X: Any, y: Any) -> float:
    """Read δ of a fitted pipeline's guarantee, as a scorer."""
    return float(estimator[-1].privacy_guarantee_.delta)


def print_table(results: Mapping[str, Any], reference: float) -> None:
    """Print the scores of the search, and the guarantee of a fit, for each ε."""
    print(f"{'epsilon':>8}  {'R2 (held-out aircraft)':>22}  {'guarantee of each fit':>36}  {'s/fit':>6}")
    for k, epsilon in enumerate(EPSILONS):
        score, spread, delta, seconds = (
            float(results[key][k]) for key in ("mean_test_r2", "std_test_r2", "mean_test_delta", "mean_fit_time")
        )
        promised = max(results[f"split{fold}_test_epsilon"][k] for fold in range(FOLDS))
        # Rounded up: what is shown is never less than what was spent.
        shown = f"({math.ceil(promised * 1e4) / 1e4:g}, {delta:.0e})-DP for one aircraft"
        print(f"{epsilon:>8}  {score:>14.3f} ± {spread:.3f}  {shown:>36}  {seconds:>6.2f}")
    print(
        f"{'none':>8}  {reference:>14.3f}          {'no privacy (least squares)':>36}\n\n"
        "The scores carry no noise: they are for whoever holds the data. These flights are public, so they may be "
        "shown."
    )


def print_final_fit(model: Pipeline, X: Any, y: Any, aircraft: Any, ledger: PrivacyLedger) -> None:
    """Print the model that would be published, the ledger after it, and the refusal of one more fit."""
    model.fit(X, y, regressor__user_ids=aircraft)
    print("\nA model to publish, fitted on all aircraft at ε = 1:")
    for name, value in zip(("month", "hour", "distance", "dep_delay"), model[-1].coef_, strict=True):
        print(f"  {name:<10} {value:>8.3f} minutes for each public unit of scale")
    print(f"  {guarantee_of(model)}")
    print(f"\nThe ledger saw every fit of every process:\n  {ledger!r}")
    try:
        model.fit(X, y, regressor__user_ids=aircraft)
    except BudgetExceededError as error:
        print(f"\nOne more fit is refused before it draws:\n  {error}")


def plot(results: Mapping[str, Any], reference: float, path: Path) -> bool:
    """Plot the scores against ε, if matplotlib is there; returns whether it is."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from skprivate.report import PrivacyUtilityDisplay

    scores = np.array([results[f"split{fold}_test_r2"] for fold in range(FOLDS)]).T
    name = "R² on held-out aircraft"
    display = PrivacyUtilityDisplay.from_results(EPSILONS, scores, reference=reference, score_name=name)
    display.ax_.set_title("Delay of flights, predicted for other aircraft", fontsize="medium")
    display.figure_.savefig(path, dpi=110)
    return True


if __name__ == "__main__":
    sys.exit(main())
