"""Everything numeric that a fitted estimator reveals, as a vector, and scalar views of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_numbers", "distinguishing_scores", "released_values", "stack_released"]

Array = npt.NDArray[np.float64]
#: Public by construction: parameters, counts of columns, bookkeeping.
_IGNORED = {"privacy_guarantee_", "n_features_in_", "feature_names_in_", "classes_", "n_iter_"}
_LIMIT = 400


def as_numbers(value: Any) -> Array | None:
    """A flat, finite array of what is numeric; None for anything else."""
    if isinstance(value, bool) or value is None or isinstance(value, str | bytes | dict):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind not in "fiub" or array.size == 0:
        return None
    # bounded, so that sums of squares stay finite
    return np.asarray(np.clip(np.nan_to_num(array.astype(float).ravel()), -1e100, 1e100))


def released_values(model: Any, probes: Any) -> dict[str, Array]:
    """Numeric public fitted attributes, and predictions at the probes, by name."""
    out: dict[str, Array] = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_") and name not in _IGNORED:
            numbers = as_numbers(value)
            if numbers is not None:
                out[name] = numbers
    for method in ("decision_function", "predict_proba", "predict", "transform"):
        call = getattr(model, method, None)
        if call is None or probes is None:
            continue
        try:
            answer = call(probes)
        except Exception:  # an optional view of the model: what it cannot answer is not evidence
            continue
        numbers = as_numbers(answer)
        if numbers is None and method == "predict" and hasattr(model, "classes_"):
            numbers = as_numbers(np.asarray(answer)[:, None] == np.asarray(model.classes_)[None, :])
        if numbers is not None:
            out[method] = numbers
    return out


def stack_released(runs: list[dict[str, Array]], calibrates: npt.NDArray[np.bool_]) -> Array:
    """One row a run. The layout is read off the calibrating runs; other runs are cut or padded to it.

    Attributes whose size varies between runs are represented by their size and sum.
    """
    known = [run for run, use in zip(runs, calibrates, strict=True) if use]
    columns = []
    for name in sorted(set.intersection(*(set(run) for run in known))):
        sizes = {run[name].size for run in known}
        if len(sizes) == 1:
            block = np.zeros((len(runs), sizes.pop()))
            for row, run in zip(block, runs, strict=True):
                value = run.get(name, np.empty(0))[: row.size]
                row[: value.size] = value
        else:
            values = [run.get(name, np.empty(0)) for run in runs]
            block = np.array([[value.size, value.sum()] for value in values], dtype=float)
        columns.append(block)
    return np.hstack(columns) if columns else np.zeros((len(runs), 1))


def _direction(z: Array, member: npt.NDArray[np.bool_], ridge: float) -> Array:
    difference = z[member].mean(axis=0) - z[~member].mean(axis=0)
    within = np.vstack([z[member] - z[member].mean(axis=0), z[~member] - z[~member].mean(axis=0)])
    if np.isinf(ridge):
        return np.asarray(difference)
    n, p = within.shape
    if p <= n:
        return np.asarray(np.linalg.solve(within.T @ within / n + ridge * np.eye(p), difference))
    gram = within @ within.T / n + ridge * np.eye(n)
    return np.asarray((difference - within.T @ np.linalg.solve(gram, within @ difference) / n) / ridge)


def distinguishing_scores(
    calibration: Array, member: npt.NDArray[np.bool_], test: Array, rng: np.random.Generator
) -> list[tuple[Array, Array]]:
    """Candidate scalar statistics, learned on calibration runs alone.

    Parameters
    ----------
    calibration : array of shape (n, p)
        Released values of the calibration runs.
    member : array of shape (n,)
        Which input each run was fitted on.
    test : array of shape (m, p)
        Released values of the runs that decide.
    rng : numpy.random.Generator
        Public randomness of the folds.

    Returns
    -------
    list of (calibration_scores, test_scores)
        Discriminant directions at several ridges (calibration scores are cross-fitted, so that a threshold
        set on them is not over-optimistic) and the single coordinates that separate best.
    """
    centre = np.median(calibration, axis=0)
    low, high = np.quantile(calibration, [0.25, 0.75], axis=0)
    spread = calibration.std(axis=0)
    if spread.size > _LIMIT:
        keep = np.sort(np.argsort(spread)[-_LIMIT:])
        return distinguishing_scores(calibration[:, keep], member, test[:, keep], rng)
    scale = np.where(high > low, high - low, np.where(spread > 0, spread, 1.0))

    def squash(v: Array) -> Array:
        return np.asarray(np.arcsinh(np.clip((v - centre) / scale, -1e12, 1e12)))

    z, t = squash(calibration), squash(test)
    z, t = np.hstack([z, np.abs(z)]), np.hstack([t, np.abs(t)])
    alive = z.std(axis=0) > 0
    z, t = z[:, alive], t[:, alive]
    if z.shape[1] == 0:
        return [(np.zeros(len(calibration)), np.zeros(len(test)))]
    fold = np.zeros(member.size, dtype=int)
    for group in (np.flatnonzero(member), np.flatnonzero(~member)):
        fold[rng.permutation(group)] = np.arange(group.size) % 4
    out = []
    for ridge in (1e-2, 1.0, np.inf):
        scores = np.empty(member.size)
        for f in range(4):
            inside = fold != f
            scores[~inside] = z[~inside] @ _unit(_direction(z[inside], member[inside], ridge))
        out.append((scores, t @ _unit(_direction(z, member, ridge))))
    out += _clipped_sums(calibration, member, test, fold)
    gap = np.abs(z[member].mean(axis=0) - z[~member].mean(axis=0)) / z.std(axis=0)
    for j in np.argsort(gap)[::-1][:5]:
        sign = 1.0 if z[member, j].mean() >= z[~member, j].mean() else -1.0
        out.append((sign * z[:, j], sign * t[:, j]))
    return out


def _clipped_sums(
    calibration: Array, member: npt.NDArray[np.bool_], test: Array, fold: npt.NDArray[np.intp]
) -> list[tuple[Array, Array]]:
    """Log-likelihood ratios for independent Laplace noise, over the coordinates that differ most.

    ``Σ_j (|x_j − a_j| − |x_j − b_j|)/s_j`` with a and b the medians of the two sides.
    """

    def learn(x: Array, side: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array, npt.NDArray[np.intp]]:
        a, b = np.median(x[~side], axis=0), np.median(x[side], axis=0)
        scale = 0.5 * (np.abs(x[~side] - a).mean(axis=0) + np.abs(x[side] - b).mean(axis=0))
        scale = np.where(scale > 0.0, scale, np.inf)
        return a, b, scale, np.argsort(np.abs(a - b) / scale)[::-1]

    def score(x: Array, learned: tuple[Array, Array, Array, npt.NDArray[np.intp]], k: int) -> Array:
        a, b, scale, order = learned
        j = order[:k]
        return np.asarray(((np.abs(x[:, j] - a[j]) - np.abs(x[:, j] - b[j])) / scale[j]).sum(axis=1))

    whole = learn(calibration, member)
    parts = [learn(calibration[fold != f], member[fold != f]) for f in range(4)]
    out = []
    for k in sorted({min(k, calibration.shape[1]) for k in (1, 3, 10, 40)}):
        scores = np.empty(member.size)
        for f in range(4):
            scores[fold == f] = score(calibration[fold == f], parts[f], k)
        out.append((scores, score(test, whole, k)))
    return out


def _unit(direction: Array) -> Array:
    norm = float(np.linalg.norm(direction))
    return direction / norm if norm > 0 else direction
