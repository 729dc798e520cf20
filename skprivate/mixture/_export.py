"""Text of a drawn intersection of halfspaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skprivate._validation import plain
from skprivate.mixture._geometry import Floats
from skprivate.mixture._ppm_halfspace_classifier import PPMHalfspaceClassifier

#: Part of a constraint's largest coefficient below which others are rounding errors.
_NEGLIGIBLE = 1e-9


def export_text(classifier: Any, *, feature_names: Any = None, digits: int = 4) -> str:
    """Write the drawn halfspaces as inequalities in the names and units of the features.

    Parameters
    ----------
    classifier : PPMHalfspaceClassifier
        Fitted. A pipeline's last step speaks of what the steps before it made of the features.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the features. None takes ``feature_names_in_``, or x0, x1, … where there are none.
    digits : int, default=4
        Significant digits of numbers, ≥ 1. The text is rounded: ``halfspaces_`` and ``predict`` are not.

    Returns
    -------
    text : str
        One line for each condition, the most important feature of each first, with coefficient 1; so a condition
        reads in that feature's unit. Equations are those of the public rows' affine span (``affine_``).
        Post-processing of what was released: nothing is spent.

    Raises
    ------
    TypeError
        If ``classifier`` is no `PPMHalfspaceClassifier`.
    ValueError
        If ``feature_names`` has not one name for each feature, or ``digits`` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.mixture import PPMHalfspaceClassifier, export_text
    >>> X, y = np.arange(-10.0, 90.0)[:, None], np.repeat(["child", "adult"], [28, 72])
    >>> model = PPMHalfspaceClassifier(100.0, private_label="child").fit(X, y)
    >>> print(export_text(model, feature_names=["age"]))
    'adult' (public) if
      age >= 18
    otherwise 'child' (private)
    """
    if not isinstance(classifier, PPMHalfspaceClassifier):
        raise TypeError(
            f"classifier must be a PPMHalfspaceClassifier, got {type(classifier).__name__}; of a pipeline pass the "
            "last step, pipeline[-1]."
        )
    check_is_fitted(classifier)
    if not digits >= 1:
        raise ValueError(f"digits must be at least 1, got {digits!r}.")
    names = _names(classifier, feature_names)
    classes = [repr(plain(label)) for label in classifier.classes_]
    second = classifier.private_label_ == classifier.classes_[1]
    public, private = classes if second else reversed(classes)
    if classifier.all_private_:
        return f"{private} (private) everywhere"
    frame = classifier._frame
    equations = _reduced(frame.complement)
    level = np.zeros(len(equations))
    lines = []
    for relation, weights, (coefficients, intercepts) in (
        ("=", equations, frame.in_feature_space(equations, level)),
        (">=", classifier.halfspaces_.coefficients * frame.scale, classifier.halfspaces_),
    ):
        lines += [
            _condition(*row, relation, names, digits)
            for row in zip(coefficients, intercepts, weights, strict=True)
        ]
    if not lines:
        return f"{public} (public) everywhere"
    return "\n".join(
        [f"{public} (public) if", *(f"  {line}" for line in lines), f"otherwise {private} (private)"]
    )


def _names(classifier: PPMHalfspaceClassifier, feature_names: Any) -> list[str]:
    n_features = classifier.n_features_in_
    if feature_names is None:
        return list(getattr(classifier, "feature_names_in_", [f"x{j}" for j in range(n_features)]))
    names = [str(name) for name in feature_names]
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must hold one name for each of the {n_features} features, got {len(names)}."
        )
    return names


def _reduced(rows: Floats) -> Floats:
    """Reduce rows to echelon form: each has a column in which it alone is not 0, so that text reads x = 5."""
    rows = rows.copy()
    for i in range(len(rows)):
        pivot, column = divmod(int(np.argmax(np.abs(rows[i:]))), rows.shape[1])
        rows[[i, i + pivot]] = rows[[i + pivot, i]]
        rows[i] /= rows[i, column]
        others = np.arange(len(rows)) != i
        rows[others] -= np.outer(rows[others, column], rows[i])
    return rows


def _condition(
    coefficients: Floats, intercept: float, weights: Floats, relation: str, names: list[str], digits: int
) -> str:
    """Write ``coefficients @ x + intercept relation 0``, solved for the feature of the largest weight."""
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[np.abs(weights[order]) > _NEGLIGIBLE * np.abs(weights[order[0]])]
    leading = coefficients[order[0]]
    if leading < 0:
        relation = {">=": "<=", "=": "="}[relation]

    def number(value: float) -> str:
        return np.format_float_positional(value + 0.0, precision=digits, fractional=False, trim="-")

    text = names[order[0]]
    for j in order[1:]:
        ratio = coefficients[j] / leading
        text += f" {'-' if ratio < 0 else '+'} {number(abs(ratio))} {names[j]}"
    return f"{text} {relation} {number(-intercept / leading)}"
