"""Where is searching worth its price? Private searches, one default, and a grid search that ignores the cost.

    python benchmarks/private_search.py --data DIR [--seeds 10] [--case adult] [--render]

Adult (one row is a unit), credit default (a row), flights (an aircraft with all its flights; ``nycflights13.parquet``).
The grids and defaults below were written down before anything was searched, and stay as they were. Held-out test
rows are used for the figures alone. Every run is appended to ``benchmarks/results/private_search_runs.csv``, and those
that are there already are not repeated; ``--render`` makes table and picture from what is there.

Noise is simulated, and held-out rows are predicted together (``predict_by="batch"``): neither changes the accuracy.
"""

from __future__ import annotations

import csv
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from _common import RESULTS, parse_args, record_environment, require_data, save_figure, write_table
from sklearn import set_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupShuffleSplit, ParameterGrid, ShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import KBinsDiscretizer, QuantileTransformer, StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor, guarantee_of
from skprivate.datasets import load_adult, load_credit_default
from skprivate.inspection import quote
from skprivate.model_selection import PrivateSearchCV, _private_search
from skprivate.model_selection._inside import CandidateCosts
from skprivate.preprocessing import (
    PrivateKBinsDiscretizer,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
    PublicScaler,
)
from skprivate.privacy import PrivacyLedger, plan_search

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-6
#: As PrivateSearchCV does. GridSearchCV gets one such split as well: five folds would cost almost five times as much.
HELD_OUT = 0.25
#: The picture ends there.
LEAST_SHOWN = -10
NORMAL = {"output_distribution": "normal"}
OPEN = "nothing private"
GRID = "GridSearchCV, every fit at ε (not private)"
RAW = "untuned, raw features"
GUIDE = "untuned, prepared as the guides say"
RANDOM = "a random point of the grid"
SEARCHES = {
    "PrivateSearchCV (n_iter=10)": {"n_iter": 10},
    "PrivateSearchCV, n_iter=3": {"n_iter": 3},
    "PrivateSearchCV, refit=0.3": {"n_iter": 10, "refit": 0.3},
}
METHODS = (OPEN, GRID, RAW, GUIDE, RANDOM, *SEARCHES)
COLUMNS = ("case", "epsilon", "seed", "method", "gain", "cpu_seconds", "each_epsilon", "chosen")


@dataclass
class Case:
    """A data set with its pipeline, grid and defaults; ``points(ε)`` states shares of ε in the private steps."""

    X: pd.DataFrame
    y: np.ndarray
    users: np.ndarray | None
    scoring: str
    score_bounds: tuple[float, float] | None
    model: Any
    prepare: Callable[[str, float], Any]
    grid: list[dict[str, list[Any]]]
    guide: dict[str, Any]
    plain: list[Any]

    def points(self, epsilon: float) -> list[dict[str, list[Any]]]:
        """The grid for GridSearchCV and PrivateSearchCV, each point with the stated budget."""
        return [{name: [value] for name, value in self.point(p, epsilon).items()} for p in ParameterGrid(self.grid)]

    def point(self, params: dict[str, Any], epsilon: float) -> dict[str, Any]:
        """Parameters of the pipeline: the share of the preparation is taken from the model's budget."""
        rest = {f"model__{name}": value for name, value in params.items() if name not in ("prepare", "share")}
        share = params.get("share", 0.0)
        return {
            "prepare": self.prepare(params["prepare"], epsilon * share),
            "model__epsilon": epsilon * (1 - share),
            "model__delta": DELTA * (1 - share),
            **rest,
        }


def budget(epsilon: float, total_share: float) -> dict[str, float]:
    return {"epsilon": epsilon, "delta": DELTA * total_share}


def adult(args: Any) -> Case:
    """Income; texts are encoded by public categories, numbers are as they come unless something is done."""
    bunch = load_adult(as_frame=True)
    frame, bounds = (
        bunch.frame,
        {"age": (0, 120), "capital_gain": (0, 100_000), "capital_loss": (0, 10_000), "hours_per_week": (0, 168)},
    )
    texts = ["workclass", "education", "marital_status", "occupation", "relationship", "gender"]
    encoded = pd.get_dummies(frame[texts]).astype(float)  # the questionnaire's categories, all of which occur
    X = pd.concat([frame[list(bounds)].astype(float), encoded], axis=1)

    def prepare(how: str, epsilon: float) -> Any:
        lower, upper = zip(*bounds.values(), strict=True)
        step: Any = {
            "raw": lambda: "passthrough",
            "limits": lambda: PublicScaler.from_bounds(lower, upper),
            "standard": lambda: PrivateStandardScaler(**budget(epsilon, 0.15), bounds=bounds),
            "quantiles": lambda: PrivateQuantileTransformer(**budget(epsilon, 0.15), bounds=bounds, **NORMAL),
        }[how]()
        return ColumnTransformer([("numbers", step, list(bounds))], remainder="passthrough")

    alpha = {"alpha": [0.0, 0.001, 0.01]}
    plain = [
        Pipeline(
            [
                ("prepare", ColumnTransformer([("numbers", step, list(bounds))], remainder="passthrough")),
                ("model", LogisticRegression(max_iter=1000)),
            ]
        )
        for step in (StandardScaler(), QuantileTransformer(**NORMAL))
    ]
    return Case(
        X=X,
        y=(frame["income"] == ">50K").to_numpy(int),
        users=None,
        scoring="accuracy",
        score_bounds=None,
        model=UserLevelSGDClassifier(classes=[0, 1]),
        prepare=prepare,
        grid=[
            {"prepare": ["raw", "limits"], **alpha},
            {"prepare": ["standard", "quantiles"], "share": [0.15], **alpha},
        ],
        guide={"prepare": "quantiles", "share": 0.15},
        plain=plain,
    )


def credit(args: Any) -> Case:
    """Default next month, as a probability: the maps of the features are searched."""
    X, y = load_credit_default(return_X_y=True, as_frame=True)
    months = ["pay_0", "pay_2", "pay_3", "pay_4", "bill_amt1", "bill_amt2", "pay_amt1", "pay_amt2"]
    X = X[["limit_bal", "age", "education", "marriage", *months]]

    def prepare(how: str, epsilon: float) -> Any:
        share = {"epsilon": epsilon, "delta": DELTA * 0.15} if epsilon else {}
        return {
            "raw": lambda: "passthrough",
            "standard": lambda: PrivateStandardScaler(**share),
            "quantiles": lambda: PrivateQuantileTransformer(**share, **NORMAL),
            "bins": lambda: PrivateKBinsDiscretizer(**share, n_bins=5),
        }[how]()

    maps = (
        StandardScaler(),
        QuantileTransformer(**NORMAL),
        KBinsDiscretizer(5, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
    )
    return Case(
        X=X.astype(float),
        y=y.to_numpy(int),
        users=None,
        scoring="neg_brier_score",
        score_bounds=None,
        model=UserLevelSGDClassifier(classes=[0, 1]),
        prepare=prepare,
        grid=[{"prepare": ["standard", "quantiles", "bins"], "share": [0.15], "alpha": [0.0, 0.001, 0.01]}],
        guide={"prepare": "quantiles", "share": 0.15},
        plain=[Pipeline([("prepare", step), ("model", LogisticRegression(max_iter=1000))]) for step in maps],
    )


def flights(args: Any) -> Case:
    """Delay on arrival, by aircraft: loss, averaging, radius and scaling are searched."""
    frame = pd.read_parquet(require_data(args, "nycflights13.parquet"))
    frame = frame.dropna(subset=["tailnum", "arr_delay", "dep_delay"]).reset_index(drop=True)
    constants = [6.0, 12.0, 1000.0, 60.0]

    def prepare(how: str, epsilon: float) -> Any:
        return {
            "raw": lambda: "passthrough",
            "constants": lambda: PublicScaler(scale=constants),
            "standard": lambda: PrivateStandardScaler(**budget(epsilon, 0.15)),
        }[how]()

    settings = {"radius": [None, 30.0, 400.0], "loss": ["squared_error", "huber"], "aggregation": ["robust", "mean"]}
    return Case(
        X=frame[["month", "hour", "distance", "dep_delay"]].astype(float),
        y=frame["arr_delay"].to_numpy(float),
        users=pd.factorize(frame["tailnum"])[0],
        scoring="neg_mean_absolute_error",
        score_bounds=(-120.0, 0.0),
        model=UserLevelSGDRegressor(),
        prepare=prepare,
        grid=[{"prepare": ["constants"], **settings}, {"prepare": ["standard"], "share": [0.15], **settings}],
        guide={"prepare": "constants"},
        plain=[Pipeline([("prepare", StandardScaler()), ("model", m)]) for m in (LinearRegression(), HuberRegressor())],
    )


def fewer(case: Case, rows: int) -> Case:
    """So many rows, chosen at random."""
    if not 0 < rows < len(case.y):
        return case
    kept = np.sort(np.random.default_rng(0).permutation(len(case.y))[:rows])
    users = None if case.users is None else case.users[kept]
    return replace(case, X=case.X.iloc[kept].reset_index(drop=True), y=case.y[kept], users=users)


CASES = {"adult": adult, "credit": credit, "flights": flights}


def loss(case: Case, model: Any, X: pd.DataFrame, y: np.ndarray) -> float:
    """Mean loss on rows, of the kind that is searched by."""
    if case.scoring == "neg_brier_score":
        return float(np.mean((model.predict_proba(X)[:, 1] - y) ** 2))
    found = model.predict(X)
    return float(np.mean(found != y) if case.scoring == "accuracy" else np.mean(np.abs(found - y)))


def constant(case: Case, train: np.ndarray, test: np.ndarray) -> float:
    """Loss of the best constant."""
    y, held = case.y[train], case.y[test]
    if case.scoring == "neg_brier_score":
        return float(np.mean((y.mean() - held) ** 2))
    middle = np.median(y)  # of a class, the more frequent one
    return float(np.mean(held != middle) if case.scoring == "accuracy" else np.mean(np.abs(held - middle)))


def seeded(pipeline: Pipeline, seed: int) -> Pipeline:
    names = [name for name in pipeline.get_params() if name.endswith("random_state")]
    return pipeline.set_params(**dict.fromkeys(names, seed))


def split(n: int, users: np.ndarray | None, share: float, seed: int) -> Any:
    """Positions of what is learnt from and what is held out; no user is in both."""
    kind = ShuffleSplit if users is None else GroupShuffleSplit
    return next(kind(1, test_size=share, random_state=seed).split(np.zeros(n), groups=users))


def remember_prices() -> None:
    """Prices look at no rows: found once for all seeds. The search still holds each of its fits to them."""
    plans: dict[Any, Any] = {}
    prices: dict[Any, Any] = {}
    ask = CandidateCosts._ask

    def asked(priced: Any, number: int, epsilon: float, delta: float) -> Any:
        key = (repr(priced.candidates[number].params), len(priced.rows.y), epsilon, delta)
        if key not in prices:
            prices[key] = ask(priced, number, epsilon, delta)
        return prices[key]

    def planned(plans_of: Any, **terms: Any) -> Any:
        first = tuple(tuple(plan.items()) for plan in plans_of(terms["epsilon"], terms["delta"]))
        key = (first, *terms.values())
        if key not in plans:
            plans[key] = plan_search(plans_of, **terms)
        return plans[key]

    CandidateCosts._ask, _private_search.plan_search = asked, planned


def run(case: Case, method: str, epsilon: float, seed: int) -> list[Any]:
    """Gain over the best constant on held-out units, seconds, budget of an evaluation, choice."""
    train, test = split(len(case.y), case.users, 0.3, seed)
    ids = {} if case.users is None else {"user_ids": case.users[train]}
    X, y, each, chosen = case.X.iloc[train], case.y[train], "", ""
    cv = [split(len(y), ids.get("user_ids"), HELD_OUT, seed)]
    pipeline = Pipeline([("prepare", "passthrough"), ("model", clone(case.model))])
    started = time.process_time()
    if method == OPEN:
        grid = [{"prepare": [p[0]], "model": [p[1]]} for p in case.plain]
        model = GridSearchCV(pipeline, grid, scoring=case.scoring, cv=cv).fit(X, y)
        chosen = type(model.best_params_["prepare"]).__name__
    elif method == GRID:
        points = case.points(epsilon)
        for point in points:
            point["prepare"] = [seeded(Pipeline([("step", step)]), seed).steps[0][1] for step in point["prepare"]]
        pipeline.set_params(model__random_state=seed)
        model = GridSearchCV(pipeline, points, scoring=case.scoring, cv=cv)
        model.fit(X, y, **ids)
        chosen = named(case, model.best_index_)
    elif method in SEARCHES:
        search = PrivateSearchCV(
            pipeline,
            case.points(epsilon),
            epsilon=epsilon,
            delta=DELTA,
            n_candidates=len(ParameterGrid(case.grid)),
            scoring=case.scoring,
            score_bounds=case.score_bounds,
            predict_by="batch",
            random_state=seed,
            **SEARCHES[method],
        )
        model = search.fit(X, y, **ids)
        assert guarantee_of(model).epsilon <= epsilon
        each, chosen = f"{model.search_plan_.each_epsilon:.4g}", named(case, model.best_index_)
    else:
        index = int(np.random.default_rng(seed).integers(len(ParameterGrid(case.grid))))
        params = {RAW: {"prepare": "raw"}, GUIDE: case.guide, RANDOM: list(ParameterGrid(case.grid))[index]}
        model = seeded(pipeline.set_params(**case.point(params[method], epsilon)), seed).fit(X, y, **ids)
        assert guarantee_of(model).epsilon <= epsilon * (1 + 1e-9)
    seconds = time.process_time() - started
    gain = 1 - loss(case, model, case.X.iloc[test], case.y[test]) / constant(case, train, test)
    return [f"{gain:.5f}", f"{seconds:.2f}", each, chosen]


def named(case: Case, index: int) -> str:
    return "; ".join(f"{name}={value}" for name, value in list(ParameterGrid(case.grid))[index].items())


def true_cost(case: Case, epsilon: float) -> float:
    """What a ledger quotes for the grid search: a public number, the same for any rows."""
    few = slice(0, 1500)
    ids = {} if case.users is None else {"user_ids": case.users[few]}
    cv = [split(1500, ids.get("user_ids"), HELD_OUT, 0)]
    pipeline = Pipeline([("prepare", "passthrough"), ("model", clone(case.model))])
    search = GridSearchCV(pipeline, case.points(epsilon), scoring=case.scoring, cv=cv)
    ledger = PrivacyLedger(epsilon=1e9, delta=0.5)
    return float(quote(search, case.X.iloc[few], case.y[few], **ids, ledger=ledger).epsilon)


def render() -> None:
    with open(RESULTS / "private_search_runs.csv") as handle:
        runs = list(csv.DictReader(handle))
    found: dict[Any, list[float]] = {}
    cpu: dict[Any, list[float]] = {}
    for one in runs:
        for epsilon in EPSILONS if one["method"] == OPEN else [float(one["epsilon"])]:
            found.setdefault((one["case"], one["method"], epsilon), []).append(float(one["gain"]))
        cpu.setdefault((one["case"], one["method"]), []).append(float(one["cpu_seconds"]))
    rows = []
    for case in CASES:
        for method in METHODS:
            cells = []
            for epsilon in EPSILONS:
                if (case, method, epsilon) not in found:
                    cells.append("")
                    continue
                low, middle, high = np.percentile(found[case, method, epsilon], [25, 50, 75])
                shown = ["< -100" if value < -1 else f"{100 * value:.1f}" for value in (middle, low, high)]
                cells.append("{} ({} … {})".format(*shown))
            if not any(cells):
                continue
            seeds = min(len(found[case, method, e]) for e in EPSILONS if (case, method, e) in found)
            rows.append([case, method, seeds, *cells, f"{np.median(cpu.get((case, method), [np.nan])):.1f}"])
    write_table("private_search", ["data", "method", "seeds", *(f"ε = {e:g}" for e in EPSILONS), "CPU s"], rows)
    draw(found)


def draw(found: dict[Any, list[float]]) -> None:
    """Draw the gains against ε, one panel a table."""
    import matplotlib.pyplot as plt

    styles = {
        OPEN: ("k--", "nothing private"),
        GRID: ("s:", "GridSearchCV, not private"),
        RAW: ("v-", "untuned, raw"),
        GUIDE: ("o-", "untuned, prepared"),
        "PrivateSearchCV (n_iter=10)": ("D-", "PrivateSearchCV"),
    }
    figure, axes = plt.subplots(1, len(CASES), figsize=(10.5, 3.6))
    for axis, case in zip(axes, CASES, strict=True):
        for place, (method, (style, label)) in enumerate(styles.items()):
            low, middle, high = np.array(
                [np.percentile(found.get((case, method, e), np.nan), [25, 50, 75]) * 100 for e in EPSILONS]
            ).T
            at = np.arange(len(EPSILONS)) + (place - 2) * 0.05
            axis.errorbar(at, middle, [middle - low, high - middle], fmt=style, label=label, capsize=2)
        axis.set_xticks(range(len(EPSILONS)), [f"{e:g}" for e in EPSILONS])
        axis.set(title=case, xlabel="ε in all")
        if axis.get_ylim()[0] < LEAST_SHOWN:
            axis.set_ylim(LEAST_SHOWN, None)
            axis.text(0.5, 0.03, f"untuned, raw: below {LEAST_SHOWN}", transform=axis.transAxes, ha="center")
    axes[0].set_ylabel("loss removed, % of a constant's")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=5, fontsize=8, frameon=False)
    figure.subplots_adjust(bottom=0.25)
    save_figure(figure, "private_search")


def main() -> None:
    args = parse_args(
        __doc__.splitlines()[0],
        seeds=10,
        case={"choices": list(CASES), "default": None},
        epsilons={"type": float, "nargs": "+", "default": EPSILONS},
        rows={"type": int, "default": 0, "help": "so many rows of each data set, chosen at random"},
        render={"action": "store_true"},
        cost={"action": "store_true"},
    )
    if args.render:
        return render()
    warnings.simplefilter("ignore")
    set_config(enable_metadata_routing=True)
    remember_prices()
    path = RESULTS / "private_search_runs.csv"
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n")
    for name in [args.case] if args.case else CASES:
        case = fewer(CASES[name](args), args.rows)
        if args.cost:
            print(name, [round(true_cost(case, epsilon), 2) for epsilon in args.epsilons], flush=True)
            continue
        # The variants of the search last, since they may be left out.
        order = itertools.product((METHODS[:6], METHODS[6:]), range(args.seeds), args.epsilons)
        for methods, seed, epsilon in order:
            for method in methods:
                if method == OPEN and epsilon != EPSILONS[0]:
                    continue  # knows no ε
                key = (name, f"{epsilon:g}", str(seed), method)
                with open(path) as handle:
                    done = {tuple(row[:4]) for row in csv.reader(handle)}
                if key in done:
                    continue
                row = run(case, method, epsilon, seed)
                with open(path, "a", newline="") as handle:
                    csv.writer(handle, lineterminator="\n").writerow([*key, *row])
                record_environment(path.stem, runs=True)
                print(*key, *row, flush=True)
    render()


if __name__ == "__main__":
    main()
