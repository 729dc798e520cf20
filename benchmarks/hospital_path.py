"""From a frame with texts, gaps and patients to a private model: what private preparation costs the accuracy.

    python benchmarks/hospital_path.py --data DIR [--seeds 3]

All encounters of ``diabetes130_hospital.parquet``; splits by patient. Every method is given the same ε in all. One
method learns medians, means and scales from its rows without noise: it has no guarantee and is here for comparison.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from _common import ROOT, parse_args, require_data, write_table
from sklearn import set_config
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skprivate import UserLevelSGDClassifier, UserLevelSGDRegressor, guarantee_of, make_private_pipeline
from skprivate.datasets import load_hospital
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
    PublicOneHotEncoder,
    PublicScaler,
    make_additive_pipeline,
)

sys.path.append(str(ROOT / "tools"))
from make_hospital import hospital_frame

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-6
SHARE = 0.15
#: Learns from the rows without noise.
OPEN = "median, StandardScaler (no guarantee)"
NORMAL = {"output_distribution": "normal"}


def fill(value):
    return SimpleImputer(strategy="constant", fill_value=value, keep_empty_features=True)


def preparation(method, epsilon, bounds):
    """Steps for the numbers, and the part of the budget that they spend."""
    spent = {"epsilon": SHARE * epsilon, "delta": SHARE * DELTA}
    if method == OPEN:
        return make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), 0.0
    if method == "quantiles":
        return make_pipeline(PrivateQuantileTransformer(**spent, bounds=bounds, **NORMAL), fill(0.0)), SHARE
    if method == "public limits alone":
        lower, upper = zip(*bounds.values(), strict=True)
        return make_pipeline(PublicScaler.from_bounds(lower, upper), fill(0.0)), 0.0
    half = {name: value / 2 for name, value in spent.items()}
    imputer, scaler = PrivateImputer(**half, bounds=bounds), PrivateStandardScaler(**half, bounds=bounds)
    return make_pipeline(imputer, scaler).set_output(transform="pandas"), SHARE


#: From the raw frame, with one budget.
WHOLE, CURVES = "make_private_pipeline", "make_private_pipeline, additive"
METHODS = (OPEN, WHOLE, CURVES, "quantiles", "PrivateImputer, PrivateStandardScaler", "public limits alone")


def private_pipeline(method, private, epsilon, raw, encoded, schema, bounds):
    """A model with ε in all, and the table that it takes."""
    if method in (WHOLE, CURVES):
        model = private(epsilon, DELTA)
        return make_private_pipeline(make_additive_pipeline(model) if method == CURVES else model, schema), raw
    numbers, share = preparation(method, epsilon, bounds)
    return pipeline(numbers, private((1 - share) * epsilon, (1 - share) * DELTA), bounds), encoded


def pipeline(numbers, model, bounds):
    """The texts come encoded: public categories cost nothing."""
    return make_pipeline(ColumnTransformer([("numbers", numbers, list(bounds))], remainder="passthrough"), model)


def tasks(frame):
    """Name, target, non-private and private model, metric."""
    classifiers = (LogisticRegression(max_iter=1000), lambda e, d: UserLevelSGDClassifier(e, delta=d, classes=[0, 1]))
    regressors = LinearRegression(), lambda e, d: UserLevelSGDRegressor(e, delta=d)
    yield "back within 30 days, AUC", (frame["readmitted"] == "<30").astype(int), *classifiers, "roc_auc"
    yield "days of the stay, R2", frame["days"].astype(float), *regressors, "r2"


def main():
    args = parse_args(__doc__.splitlines()[0], seeds=3)
    frame = hospital_frame(require_data(args, "diabetes130_hospital.parquet"))
    hospital, patients = load_hospital(), frame["patient"].to_numpy()
    warnings.simplefilter("ignore")
    set_config(enable_metadata_routing=True)
    texts = PublicOneHotEncoder(hospital.categories).set_output(transform="pandas")
    texts = texts.fit_transform(frame[list(hospital.categories)])
    rows = []
    for task, y, plain, private, metric in tasks(frame):
        bounds = {
            name: pair for name, pair in hospital.feature_bounds.items() if not (metric == "r2" and name == "days")
        }
        schema = {**bounds, **hospital.categories}
        X, raw = pd.concat([frame[list(bounds)].astype(float), texts], axis=1), frame[list(schema)]
        score, found = get_scorer(metric), {}
        for seed in range(args.seeds):
            train, test = next(GroupShuffleSplit(1, test_size=0.3, random_state=seed).split(X, y, patients))
            for epsilon in EPSILONS:
                for method in METHODS:
                    model, table = private_pipeline(method, private, epsilon, raw, X, schema, bounds)
                    model.fit(table.iloc[train], y.iloc[train], user_ids=patients[train])
                    if method != OPEN:
                        assert guarantee_of(model).epsilon <= epsilon * (1 + 1e-9)
                    found.setdefault((method, epsilon), []).append(score(model, table.iloc[test], y.iloc[test]))
            numbers, _ = preparation(OPEN, 1.0, bounds)
            open_model = pipeline(numbers, plain, bounds).fit(X.iloc[train], y.iloc[train])
            value = score(open_model, X.iloc[test], y.iloc[test])
            for epsilon in EPSILONS:
                found.setdefault(("nothing private", epsilon), []).append(value)
        for method in ("nothing private", *METHODS):
            medians = [float(np.median(found[method, epsilon])) for epsilon in EPSILONS]
            rows.append([task, method, *(f"{value:.3f}" for value in medians)])
            print(rows[-1], flush=True)
    write_table("hospital_path", ["target", "preparation", *(f"ε = {e:g}" for e in EPSILONS)], rows)


if __name__ == "__main__":
    main()
