"""Categories of the census table found privately within the budget, beside public lists of them.

python benchmarks/categories.py --data DIR [--seeds N]
"""

import warnings

import numpy as np
import pandas as pd
from _common import parse_args, require_data, write_table
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skprivate import UserLevelSGDClassifier, guarantee_of, make_private_pipeline
from skprivate.preprocessing import make_additive_pipeline

DELTA = 1e-6
MODELS = {
    "lines": lambda seed: UserLevelSGDClassifier(classes=[0, 1], random_state=seed),
    "curves": lambda seed: make_additive_pipeline(UserLevelSGDClassifier(classes=[0, 1], random_state=seed)),
}

if __name__ == "__main__":
    args = parse_args(__doc__.splitlines()[0], seeds=4)
    warnings.simplefilter("ignore")
    table = pd.read_parquet(require_data(args, "adult.parquet")).drop(columns="fnlwgt")
    y = (table.pop("income") == ">50K").astype(int)
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    schemas = {
        "lists": {name: sorted(table[name].unique()) if name in texts else "number" for name in table},
        "found": {name: "category" if name in texts else "number" for name in table},
    }
    lines = []
    for kind, make in MODELS.items():
        for epsilon in (0.3, 1.0, 3.0):
            scores = {name: [] for name in schemas}
            values, spent = [], []
            for seed in range(args.seeds):
                train, test = train_test_split(np.arange(len(table)), random_state=seed, stratify=y)
                for name, schema in schemas.items():
                    model = make_private_pipeline(make(seed), schema, epsilon=epsilon, delta=DELTA)
                    model.fit(table.iloc[train], y.iloc[train])
                    chances = model.predict_proba(table.iloc[test])[:, 1]
                    scores[name].append(roc_auc_score(y.iloc[test], chances))
                finder = model.named_steps["columns"].named_transformers_["found"]
                values.append(sum(map(len, finder.categories_)))
                spent.append(guarantee_of(model).epsilon)
            gap = np.median(np.subtract(scores["found"], scores["lists"]))
            found = [float(np.median(scores[name])) for name in schemas]
            lines.append([kind, epsilon, *found, float(gap), int(np.median(values)), finder.threshold_, max(spent)])
    columns = ["model", "epsilon", "lists", "found", "found - lists", "values found", "threshold", "spent"]
    write_table("categories", columns, lines)
