"""Scalar views of outputs of any kind, learned on some runs and read off others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
#: Coordinates that are looked at one by one, and most digits of a value that occurs again and again.
_MOST_COLUMNS = 200


def flat(output: Any) -> dict[str, Array]:
    """The numbers in an output, by name: of mappings, sequences, arrays; strings and others by what they print as."""
    found: dict[str, Array] = {}
    _collect(output, "", found)
    return found


def _collect(value: Any, name: str, found: dict[str, Array]) -> None:
    if isinstance(value, Mapping):
        for key in value:
            _collect(value[key], f"{name}.{key}", found)
        return
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = None
    if array is not None:
        found[name] = array.ravel()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        found[f"{name}.len"] = np.array([float(len(value))])
        for k, item in enumerate(value):
            _collect(item, f"{name}[{k}]", found)
    else:
        found[f"{name}={value!r}"] = np.ones(1)


def table(outputs: Sequence[Any], known: Mask) -> tuple[Array, list[str]]:
    """One row for each output; the layout is read off the ``known`` ones, and the size of each part is a column."""
    runs = [flat(output) for output in outputs]
    sizes: dict[str, int] = {}
    for run, use in zip(runs, known, strict=True):
        if use:
            for name, part in run.items():
                sizes[name] = max(sizes.get(name, 0), part.size)
    columns, names = [], []
    for name, size in sizes.items():
        block = np.full((len(runs), size), np.nan)
        lengths = np.zeros((len(runs), 1))
        for k, run in enumerate(runs):
            part = run.get(name, np.empty(0))
            lengths[k] = part.size
            block[k, : min(size, part.size)] = part[:size]
        columns += [block, lengths]
        names += [f"{name}[{j}]" for j in range(size)] + [f"length of {name}"]
    values = np.hstack(columns) if columns else np.zeros((len(runs), 1))
    return np.clip(np.nan_to_num(values, nan=-1e101, posinf=1e101, neginf=-1e101), -1e101, 1e101), names or [
        "none"
    ]


def last_bit(values: Array) -> Array:
    """Binary logarithm of the last digit that is not zero; large for 0.

    Noise in floating point that is added to a number has no finer digits than the sum, and a sum has none finer than
    its larger term: how fine the last digit is tells where the noise was added (Mironov 2012; Haney et al. 2022).
    """
    mantissa, exponent = np.frexp(np.abs(values))
    digits = (mantissa * 2.0**53).astype(np.int64)
    last = np.log2(np.maximum((digits & -digits).astype(np.float64), 1.0))
    return np.asarray(np.where(digits > 0, exponent - 53 + last, 2000.0))


def views(learn: Array, side: Mask, test: Array, names: Sequence[str]) -> list[tuple[str, Array, Array]]:
    """Scalar scores, larger on side True, learned on one part of the runs.

    Parameters
    ----------
    learn : array of shape (n, p)
    side : array of shape (n,)
        Which input each of these runs had.
    test : array of shape (m, p)
    names : sequence of str

    Returns
    -------
    list of (name, scores on learn, scores on test)
        Single columns, from either side and by their distance from one side's median, their last binary digits,
        sums of log-likelihood ratios for Laplace noise, and values that occur on one side only.
    """
    found: list[tuple[str, Array, Array]] = []
    varied = np.flatnonzero(learn.min(axis=0) < learn.max(axis=0))
    if varied.size == 0:
        return [("nothing varies", np.zeros(len(learn)), np.zeros(len(test)))]
    x, t = learn[:, varied], test[:, varied]
    labels = [names[k] for k in varied.tolist()]
    ranks = np.argsort(np.argsort(x, axis=0), axis=0) / len(x)
    apart = np.abs(ranks[side].mean(axis=0) - ranks[~side].mean(axis=0))
    spread = np.abs(ranks[side].std(axis=0) - ranks[~side].std(axis=0))
    chosen = np.argsort(-np.maximum(apart, spread))[:_MOST_COLUMNS]
    for j in chosen[:20]:
        sign = 1.0 if ranks[side, j].mean() >= ranks[~side, j].mean() else -1.0
        found.append((labels[j], sign * x[:, j], sign * t[:, j]))
        for here, word in ((side, "far from the neighbour's"), (~side, "far from the data's")):
            centre = np.median(x[~here, j])
            way = 1.0 if here is side else -1.0
            found.append(
                (f"{labels[j]}, {word}", way * np.abs(x[:, j] - centre), way * np.abs(t[:, j] - centre))
            )
        bits, bits_t = last_bit(x[:, j]), last_bit(t[:, j])
        sign = 1.0 if bits[side].mean() >= bits[~side].mean() else -1.0
        found.append((f"last digit of {labels[j]}", sign * bits, sign * bits_t))
    a, b = np.median(x[~side], axis=0), np.median(x[side], axis=0)
    scale = 0.5 * (np.abs(x[~side] - a).mean(axis=0) + np.abs(x[side] - b).mean(axis=0))
    gain = np.divide(np.abs(a - b), scale, out=np.zeros_like(scale), where=scale > 0)
    for k in sorted({min(k, x.shape[1]) for k in (1, 3, 10, 40, _MOST_COLUMNS)}):
        j = np.argsort(-gain)[:k]
        width = np.where(scale[j] > 0, scale[j], np.inf)
        scores = [((np.abs(v[:, j] - a[j]) - np.abs(v[:, j] - b[j])) / width).sum(axis=1) for v in (x, t)]
        found.append((f"likelihood ratio of {k} numbers", *scores))
    return found
