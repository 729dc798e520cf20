"""Readers of the embedded tables."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from sklearn.utils import Bunch

_FOLDER = resources.files(__package__)


def read_csv(name: str) -> dict[str, np.ndarray]:
    """Read ``data/<name>.csv.xz``, one line a column: float64 where all values are numbers, else str."""
    with (
        (_FOLDER / "data" / f"{name}.csv.xz").open("rb") as raw,
        lzma.open(raw, "rt", encoding="utf-8", newline="") as text,
    ):
        return {column: _numbers_or_text(values) for column, *values in csv.reader(text)}


def _numbers_or_text(values: Sequence[str]) -> np.ndarray:
    text = np.asarray(values)
    try:
        return text.astype(np.float64)
    except ValueError:
        return text


def read_description(name: str) -> str:
    """Read ``descr/<name>.rst``: what the data are, where they come from, their licence."""
    return (_FOLDER / "descr" / f"{name}.rst").read_text(encoding="utf-8")


def outputs(
    name: str,
    columns: dict[str, np.ndarray],
    target: str,
    *,
    as_frame: bool,
    return_X_y: bool,
    return_users: bool = False,
    features: list[str] | None = None,
    **others: object,
) -> Any:
    """Make the `Bunch` of a loader, or the tuple of data, target and users; all columns are features by default."""
    if return_users and not return_X_y:
        raise ValueError("return_users=True needs return_X_y=True; a Bunch always holds user_ids.")
    features = [column for column in columns if column != target] if features is None else features
    frame = None
    if as_frame:
        import pandas as pd

        frame = pd.DataFrame({column: columns[column] for column in [*features, target]})
        frame = frame.astype(dict.fromkeys(others.get("categorical_features", ()), "category"))
        data, values = frame[features], frame[target]
    else:
        parts = [columns[column] for column in features]
        if any(part.dtype.kind != "f" for part in parts):
            # Numbers and texts side by side would otherwise all become text.
            parts = [part.astype(object) for part in parts]
        data, values = np.column_stack(parts), columns[target]
    if return_X_y:
        return (data, values, others["user_ids"]) if return_users else (data, values)
    return Bunch(
        data=data,
        target=values,
        frame=frame,
        feature_names=features,
        target_name=target,
        DESCR=read_description(name),
        **others,
    )
