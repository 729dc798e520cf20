"""Reading of the embedded tables; one file a loader beside this one."""

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
    """Columns of ``data/<name>.csv.gz``: float64 where all values are numbers, else str.

    Parameters
    ----------
    name : str
        Name of the file without its endings. The first line holds the columns' names.

    Returns
    -------
    columns : dict of str to ndarray of shape (n_rows,)
        In the order of the file.
    """
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
    """Text of ``descr/<name>.rst``: what the data are, where they come from, their licence."""
    return (_FOLDER / "descr" / f"{name}.rst").read_text(encoding="utf-8")


def make_bunch(
    columns: dict[str, np.ndarray],
    *,
    features: Sequence[str],
    target: str,
    descr: str,
    as_frame: bool,
    **others: Any,
) -> Bunch:
    """The `Bunch` that every loader returns.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        The table, from `read_csv`.
    features : sequence of str
        The columns of ``data``, in their order.
    target : str
        The column of ``target``.
    descr : str
        Name of the description, for `read_description`.
    as_frame : bool
        Whether ``data`` and ``target`` are pandas objects and ``frame`` holds both.
    **others : object
        Further keys, such as ``user_ids``.

    Returns
    -------
    bunch : Bunch
        With ``data``, ``target``, ``frame``, ``feature_names``, ``target_name``, ``DESCR`` and the others.
    """
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
