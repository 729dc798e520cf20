"""Quality of synthetic rows beside real ones. It looks at real rows, without noise: not for publication."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import wasserstein_distance
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score

from skprivate.privacy.noise import FloatArray, IntArray

#: Equal cells between the least and the largest real number of a column.
_CELLS = 20


@dataclass(frozen=True, kw_only=True)
class TableQuality:
    """Errors of a synthetic table, by column and pair of columns, from real rows without noise: not for publication.

    Attributes
    ----------
    names : tuple of str
        The columns.
    two_way : ndarray of shape (n_columns, n_columns)
        Total variation between real and synthetic tables of two columns; on the diagonal of one. Numbers are in 20
        equal cells, gaps are a value.
    distance : ndarray of shape (n_columns,)
        Wasserstein-1 distance of numbers, in standard deviations; NaN for other columns.
    score, score_of_real : float or None
        Boosted trees that predict the target of real test rows, trained on synthetic and on real ones: area under the
        curve (mean over classes), or R² of numbers. None without a target and test rows.

    See Also
    --------
    PrivateTableSynthesizer : Makes it (``quality``).
    """

    names: tuple[str, ...]
    two_way: FloatArray
    distance: FloatArray
    score: float | None
    score_of_real: float | None

    def __str__(self) -> str:
        pairs = self.two_way[np.triu_indices(len(self.names), 1)]
        one, two = np.mean(np.diag(self.two_way)), np.mean(pairs) if pairs.size else 0.0
        text = f"one-way error {one:.3f}, two-way error {two:.3f}, W1 {np.nanmean(self.distance):.3f} sd"
        if self.score is not None:
            text += f", score {self.score:.3f} (trained on real rows {self.score_of_real:.3f})"
        return text + "; looks at real rows: not for publication"

    def plot(self, ax: Any = None) -> Any:
        """Draw the errors of all columns and pairs.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        ax : matplotlib Axes
        """
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 5), layout="constrained")[1] if ax is None else ax
        places = np.arange(len(self.names))
        image = ax.imshow(self.two_way, vmin=0.0, cmap="Blues", zorder=1)  # above the grid of a style
        ax.set(xticks=places, yticks=places, yticklabels=self.names, title="Error of pairs: not for publication")
        ax.set_xticklabels(self.names, rotation=90)
        ax.figure.colorbar(image, ax=ax, label="total variation")
        return ax


def table_quality(
    names: tuple[str, ...],
    listed: tuple[bool, ...],
    real: FloatArray,
    synthetic: FloatArray,
    target: int | None,
    test: FloatArray | None,
) -> TableQuality:
    """Compare rows of numbers and codes; NaN are gaps."""
    codes = [_cells(real[:, j], synthetic[:, j], is_list) for j, is_list in enumerate(listed)]
    d = len(names)
    two_way = np.zeros((d, d))
    for i, j in itertools.combinations_with_replacement(range(d), 2):
        size = int(max(codes[j][0].max(), codes[j][1].max())) + 1
        both = [codes[i][k] * size + codes[j][k] for k in (0, 1)] if i != j else list(codes[i])
        n_cells = int(max(both[0].max(), both[1].max())) + 1
        shares = [np.bincount(own, minlength=n_cells) / len(own) for own in both]
        two_way[i, j] = two_way[j, i] = 0.5 * np.abs(shares[0] - shares[1]).sum()
    distance = np.array(
        [np.nan if is_list else _distance(real[:, j], synthetic[:, j]) for j, is_list in enumerate(listed)]
    )
    scores: list[float | None] = [None, None]
    if target is not None and test is not None:
        scores = [_score(rows, test, target, listed[target]) for rows in (synthetic, real)]
    return TableQuality(names=names, two_way=two_way, distance=distance, score=scores[0], score_of_real=scores[1])


def _cells(real: FloatArray, synthetic: FloatArray, is_list: bool) -> tuple[IntArray, IntArray]:
    """Number cells of both columns; a gap is one more."""
    if is_list or np.isnan(real).all():
        gap = int(np.nanmax(np.concatenate([real, synthetic, [0.0]]))) + 1
        first, second = (np.where(np.isnan(own), gap, own).astype(np.int64) for own in (real, synthetic))
        return first, second
    edges = np.linspace(np.nanmin(real), np.nanmax(real), _CELLS + 1)[1:-1]
    first, second = (
        np.where(np.isnan(own), _CELLS, np.searchsorted(edges, own, side="right")) for own in (real, synthetic)
    )
    return first, second


def _distance(real: FloatArray, synthetic: FloatArray) -> float:
    first, second = (own[~np.isnan(own)] for own in (real, synthetic))
    if not first.size or not second.size:
        return np.nan
    return float(wasserstein_distance(first, second) / (first.std() or 1.0))


def _score(train: FloatArray, test: FloatArray, target: int, is_list: bool) -> float:
    """Score boosted trees on real rows with a target that is no gap."""
    train, test = (rows[~np.isnan(rows[:, target])] for rows in (train, test))
    (X, y), (X_test, y_test) = ((np.delete(rows, target, 1), rows[:, target]) for rows in (train, test))
    if not is_list:
        model: Any = HistGradientBoostingRegressor(random_state=0).fit(X, y)
        return float(r2_score(y_test, model.predict(X_test)))
    if len(np.unique(y)) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    shares = model.predict_proba(X_test)
    areas = [
        roc_auc_score(y_test == label, shares[:, k])
        for k, label in enumerate(model.classes_)
        if 0 < (y_test == label).sum() < len(y_test)
    ]
    return float(np.mean(areas))
