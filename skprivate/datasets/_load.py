"""Readers of the embedded tables."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from sklearn.utils import Bunch

_FOLDER = resources.files(__package__)


def read_csv(name: str) -> dict[str, np.ndarray]:
    """Read columns of ``data/<name>.csv.gz``: float64 where all values are numbers, else str."""
    with (
        (_FOLDER / "data" / f"{name}.csv.gz").open("rb") as raw,
        gzip.open(raw, "rt", encoding="utf-8", newline="") as text,
    ):
        names = next(csv.reader(text))
        lines = text.readlines()
    try:
        table = np.loadtxt(lines, delimiter=",", ndmin=2)
        return {name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(names)}
    except ValueError:  # some column holds text
        columns = zip(*csv.reader(lines), strict=True)
        return {name: _as_numbers(values) for name, values in zip(names, columns, strict=True)}


def _as_numbers(values: Sequence[str]) -> np.ndarray:
    text = np.asarray(values)
    try:
        return text.astype(np.float64)
    except ValueError:
        return text


def read_description(name: str) -> str:
    """Read ``descr/<name>.rst``: what the data are, where they come from, their licence."""
    return (_FOLDER / "descr" / f"{name}.rst").read_text(encoding="utf-8")


def select_outputs(bunch: Bunch, return_X_y: bool, return_users: bool = False) -> Any:
    """Return the bunch, or a tuple of data, target and the user of each row."""
    if return_users and not return_X_y:
        raise ValueError("return_users=True needs return_X_y=True; a Bunch always holds user_ids.")
    if not return_X_y:
        return bunch
    return (bunch.data, bunch.target, bunch.user_ids) if return_users else (bunch.data, bunch.target)


def make_bunch(
    columns: dict[str, np.ndarray],
    *,
    features: Sequence[str],
    target: str,
    descr: str,
    as_frame: bool,
    **others: Any,
) -> Bunch:
    """Make the `Bunch` that every loader returns, of the columns ``features`` and ``target`` and ``others``."""
    data: Any = np.column_stack([columns[name] for name in features])
    values: Any = columns[target]
    frame = None
    if as_frame:
        import pandas as pd

        frame = pd.DataFrame({name: columns[name] for name in [*features, target]})
        data, values = frame[list(features)], frame[target]
    return Bunch(
        data=data,
        target=values,
        frame=frame,
        feature_names=list(features),
        target_name=target,
        DESCR=read_description(descr),
        **others,
    )
