"""How often fits read rows that lie in blocks, counted.

    python benchmarks/partitions_passes.py

6 000 rows in nine blocks, 600 users. "Passes" are over the source; "kept" are over what a fit has sorted by user, or
reduced to users, and keeps in temporary files. Estimators that take no rows in blocks are left out.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
from _common import parse_args, write_table

import skprivate as sp
from skprivate.metric import MetricPrivateSynthesizer
from skprivate.partitions import Blocks, _blocks
from skprivate.preprocessing import (
    PrivateImputer,
    PrivateKBinsDiscretizer,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
)

FEATURES = list("abcd")
BY_USER = {"y": "y", "user_ids": "user"}
CASES = {
    "synthesizer, defaults": (MetricPrivateSynthesizer, {}),
    "synthesizer, public bounds": (partial(MetricPrivateSynthesizer, bounds=(-3, 3)), {}),
    "synthesizer, public bounds and grid": (
        partial(MetricPrivateSynthesizer, bounds=(-3, 3), resolution=4),
        {},
    ),
    "synthesizer, W1": (
        partial(MetricPrivateSynthesizer, metric="wasserstein", bounds=(-3, 3), resolution=4),
        {},
    ),
    "user-level regression, 5 steps": (
        partial(sp.UserLevelSGDRegressor, solver="sgd", max_iter=5),
        BY_USER,
    ),
    "user-level regression, 50 steps": (
        partial(sp.UserLevelSGDRegressor, solver="sgd", max_iter=50),
        BY_USER,
    ),
    "user-level classification, 5 steps": (
        partial(sp.UserLevelSGDClassifier, classes=[0, 1], max_iter=5),
        {"y": "ill", "user_ids": "user"},
    ),
    "user-level mean": (sp.UserLevelMean, {"user_ids": "user"}),
    "curated bags, numbers in bounds": (partial(sp.CuratedBagGAMRegressor, label_bounds=(-5, 5)), {"y": "y"}),
    "curated bags, numbers": (sp.CuratedBagGAMRegressor, {"y": "y"}),
    "curated bags, classes": (sp.CuratedBagGAMClassifier, {"y": "ill"}),
    "random bags, numbers": (sp.RandomBagRegressor, {"y": "y"}),
    "random bags, classes": (sp.RandomBagClassifier, {"y": "ill"}),
    "standard scaler": (PrivateStandardScaler, {}),
    "quantile transformer": (PrivateQuantileTransformer, {}),
    "bins": (PrivateKBinsDiscretizer, {}),
    "imputer": (PrivateImputer, {}),
}


def table():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(6_000, 4)), columns=FEATURES)
    rows["y"] = np.clip(rows["a"] - rows["b"] + rng.normal(size=len(rows)), -5, 5)
    rows["ill"] = (rows["y"] > 0).astype(int)
    rows["user"] = rng.integers(0, 600, len(rows))
    return rows


def main():
    parse_args(__doc__)
    warnings.simplefilter("ignore")
    kept, read = [], _blocks._ProgressReader.__call__

    def counted(told):
        yield from read(told)
        kept.append(told)

    _blocks._ProgressReader.__call__ = counted
    rows, lines = table(), []
    for case, (make, roles) in CASES.items():
        part = rows[[*FEATURES, *roles.values()]]
        source = Blocks([part.iloc[k : k + 700] for k in range(0, len(part), 700)])
        kept.clear()
        try:
            make(random_state=0).fit(source, **roles)
        except (TypeError, ValueError) as error:
            print(f"{case}: {type(error).__name__}")
            continue
        lines.append([case, source.passes, len(kept) - source.passes])
    write_table("partitions_passes", ["fit", "passes", "kept"], lines)


if __name__ == "__main__":
    main()
