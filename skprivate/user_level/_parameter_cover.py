"""Finite covers of a parameter space: linear models, one of them near every other."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array

from skprivate._messages import must_be, positive, whole_number

FloatArray = npt.NDArray[np.float64]


def parameter_cover(
    n_features: int,
    radius: float,
    *,
    resolution: float | None = None,
    max_candidates: int = 200,
    fit_intercept: bool = True,
    centre: npt.ArrayLike | None = None,
    classes: npt.ArrayLike | None = None,
) -> list[tuple[str, Any]]:
    r"""Linear models whose parameters cover a ball: candidates for `UserLevelSelector`.

    Each linear model with parameters in the ball has one of these within ``resolution``, and so with a similar risk.
    The cover does not depend on data.

    Parameters
    ----------
    n_features : int >= 1
        Number of features d.
    radius : float > 0
        Radius R of the ball, in the Euclidean norm of all parameters.
    resolution : float in (0, radius] or None, default=None
        Largest distance of a point of the ball from its nearest candidate. None: the finest that ``max_candidates``
        allow.
    max_candidates : int >= 1, default=200
        Largest number of candidates; p parameters need 3ᵖ. The private choice errs by the order of ln K/(nε) for K
        of them. Rules of `UserLevelSelector` that compare all pairs take a time that grows as K².
    fit_intercept : bool, default=True
        Whether an intercept is the last parameter, beside the d coefficients.
    centre : array-like of shape (n_parameters,) or None, default=None
        Centre of the ball, for a finer cover about what was chosen before: public or released. None: the origin.
    classes : array-like of shape (2,) or None, default=None
        Labels of linear classifiers, the first for scores up to 0. None: regressions.

    Returns
    -------
    estimators : list of (str, estimator)
        Each with ``coef_`` and ``intercept_``; they need no fit. They treat every row by itself, to the last bit, as
        ``predict_by="batch"`` assumes.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or ``resolution`` asks for more than ``max_candidates``.

    See Also
    --------
    UserLevelSelector : Chooses among them by private data.

    Notes
    -----
    The candidates are a grid of step :math:`2r/\sqrt p` for p parameters, whose cells have the half diagonal r. Points
    whose cells meet the ball are projected to it, which takes them no farther from any point of the ball. Their number
    is about :math:`\omega_p (R\sqrt p/2r)^p`, so covers are for a handful of parameters. Section 6 of the reference
    chooses among them with ``rule="means"``.

    References
    ----------
    Levy, Sun, Amin, Kale, Kulesza, Mohri, Suresh: Learning with user-level privacy. NeurIPS 2021, section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSelector
    >>> from skprivate.user_level import parameter_cover
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = X @ [0.5, -0.3] + 0.1 * rng.normal(size=20_000)
    >>> cover = parameter_cover(2, 1.0, fit_intercept=False)
    >>> len(cover)
    193
    >>> selector = UserLevelSelector(cover, epsilon=1.0, predict_by="batch")
    >>> chosen = selector.fit(X, y, user_ids=np.arange(20_000) // 10).best_estimator_
    >>> bool(np.linalg.norm(chosen.coef_ - [0.5, -0.3]) < 0.25)
    True
    """
    whole_number("n_features", n_features)
    whole_number("max_candidates", max_candidates)
    radius = positive("radius", radius)
    size = int(n_features) + bool(fit_intercept)
    middle = np.zeros(size) if centre is None else np.asarray(centre, dtype=np.float64)
    if middle.shape != (size,) or not np.isfinite(middle).all():
        last = ", the intercept last" if fit_intercept else ""
        raise ValueError(must_be("centre", f"{size} finite numbers, one a parameter{last}", f"shape {middle.shape}"))
    labels = None if classes is None else np.asarray(classes)
    if labels is not None and (labels.shape != (2,) or labels[0] == labels[1]):
        raise ValueError(must_be("classes", "two different labels", classes))
    points = _points(size, radius, resolution, int(max_candidates)) + middle
    return [(str(k), _model(point, bool(fit_intercept), labels)) for k, point in enumerate(points)]


def _points(size: int, radius: float, resolution: float | None, most: int) -> FloatArray:
    """Cover a ball about the origin by at most ``most`` points, as finely as they allow, or at ``resolution``."""
    if resolution is None:

        def cover(quarters: int) -> FloatArray | None:
            return ball_cover(size, radius, radius * math.sqrt(size / quarters) * (1.0 + 1e-8), most)

        # Cells begin to meet the ball where its squared radius, in steps, is a multiple of 1/4.
        quarters = range(size, (size + most + 1) ** 2)
        finest = cover(bisect_left(quarters, True, lo=1, key=lambda each: cover(each) is None) + size - 1)
        assert finest is not None
        if len(finest) == 1 < most:
            raise ValueError(must_be("max_candidates", f"at least 3**{size} to cover {size} parameters", most))
        return finest
    resolution = positive("resolution", resolution)
    if resolution > radius:
        raise ValueError(must_be("resolution", f"at most radius = {radius:g}", resolution))
    found = ball_cover(size, radius, resolution, most)
    if found is None:
        allowed = f"so large that {most} candidates cover {size} parameters in a ball of radius {radius:g}"
        advice = "Or allow more by max_candidates, or take fewer features."
        raise ValueError(must_be("resolution", allowed, resolution, advice))
    return found


def ball_cover(size: int, radius: float, resolution: float, most: int) -> FloatArray | None:
    """Cover a ball by points, one within ``resolution`` of every point of it; None if they are more than ``most``."""
    if resolution >= radius:
        return np.zeros((1, size))
    # A trifle finer, so that rounding keeps every point within the resolution.
    step = 2.0 * resolution / math.sqrt(size) * (1.0 - 1e-9)
    cells = list(islice(_cells(size, radius / step), most + 1))
    if len(cells) > most:
        return None
    found = step * np.array(cells, dtype=np.float64)
    norms = np.linalg.norm(found, axis=1)
    return np.asarray(found * np.minimum(1.0, radius / np.maximum(norms, radius))[:, None])


def _cells(size: int, radius: float) -> Iterator[tuple[int, ...]]:
    """Yield the centres of the unit cells that meet the ball of this radius about the origin."""
    if size == 0:
        yield ()
        return
    for first in range(-math.floor(radius + 0.5), math.floor(radius + 0.5) + 1):
        least = max(0.0, abs(first) - 0.5)  # of the cell's own coordinates
        for rest in _cells(size - 1, math.sqrt(max(0.0, radius**2 - least**2))):
            yield (first, *rest)


def _model(point: FloatArray, fit_intercept: bool, labels: object) -> Any:
    coef = point[:-1] if fit_intercept else point
    intercept = float(point[-1]) if fit_intercept else 0.0
    return LinearRule(coef, intercept) if labels is None else LinearClassRule(coef, intercept, labels)


class _Linear(BaseEstimator):  # type: ignore[misc]
    """Linear model with given parameters."""

    coef: Any
    intercept: float
    coef_ = property(lambda self: np.asarray(self.coef))
    intercept_ = property(lambda self: self.intercept)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def _scores(self, X: Any) -> FloatArray:
        """Compute the score of each row from that row alone, column by column."""
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != len(self.coef):
            raise ValueError(f"X must have {len(self.coef)} columns, got {X.shape[1]}.")
        scores = np.full(len(X), self.intercept)
        for column, weight in zip(X.T, self.coef, strict=True):
            scores += np.ascontiguousarray(column) * weight
        return scores


class LinearRule(RegressorMixin, _Linear):  # type: ignore[misc]
    """Linear regression with given parameters."""

    def __init__(self, coef: object, intercept: float = 0.0) -> None:
        self.coef = coef
        self.intercept = intercept

    def predict(self, X: Any) -> FloatArray:
        return self._scores(X)


class LinearClassRule(ClassifierMixin, _Linear):  # type: ignore[misc]
    """Linear classifier with given parameters and labels; the second label has positive scores."""

    classes_ = property(lambda self: np.asarray(self.classes))

    def __init__(self, coef: object, intercept: float = 0.0, classes: object = (0, 1)) -> None:
        self.coef = coef
        self.intercept = intercept
        self.classes = classes

    def decision_function(self, X: Any) -> FloatArray:
        return self._scores(X)

    def predict(self, X: Any) -> Any:
        return self.classes_[(self._scores(X) > 0).astype(np.intp)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Compute probabilities under the logistic model."""
        second = expit(self._scores(X))
        return np.column_stack([1.0 - second, second])
