"""The two tables that the benchmarks of aggregated labels share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from skprivate.datasets import load_adult

#: The first eight categorical columns of the Criteo table with at most 250 values.
CRITEO_COLUMNS = ["C1", "C5", "C6", "C8", "C9", "C14", "C17", "C20"]


def adult(categories_only: bool = True):
    """(X_train, X_test, y_train, y_test): 32 561 and 16 281 rows."""
    bunch = load_adult(as_frame=True)
    X = bunch.data[bunch.categorical_features] if categories_only else bunch.data
    y = (bunch.target == ">50K").to_numpy().astype(int)
    return train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)


def criteo(path):
    """(X_train, X_test, y_train, y_test): 10 000 and 10 000 rows."""
    frame = pd.read_parquet(path)
    X, y = frame[CRITEO_COLUMNS].astype(str), frame["label"].to_numpy()
    train = (frame["split"] == "train").to_numpy()
    return X[train], X[~train], y[train], y[~train]


def adult_numeric():
    """Adult as 107 numbers, four of them as they are: (X_train, X_test, y_train, y_test)."""
    X_train, X_test, y_train, y_test = adult(categories_only=False)
    both = pd.concat([X_train, X_test])
    years = {name: i for i, name in enumerate(EDUCATION)}
    both = both.assign(education_num=both["education"].map(years).astype(float))
    numbers = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    dummies = pd.get_dummies(both.drop(columns=numbers)).astype(float)
    X = np.hstack([both[numbers].to_numpy(float), dummies.to_numpy()])
    return X[: len(X_train)], X[len(X_train) :], y_train, y_test


EDUCATION = [
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
]
