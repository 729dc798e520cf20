"""How well a fitted model explains each record: the raw material of membership attacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from skprivate.audit._class_outputs import output_summary

__all__ = ["has_classes", "residuals", "true_label_probability"]

Array = npt.NDArray[np.float64]


def has_classes(model: Any) -> bool:
    """Whether a model, or what was recorded of it, gives probabilities of classes rather than numbers."""
    return hasattr(model, "classes_") or _is_recorded(model)


def _is_recorded(model: Any) -> bool:
    """Outputs at the records in place of the model that gave them."""
    return not hasattr(model, "predict") and np.ndim(model) == 2


def true_label_probability(model: Any, X: Any, y: npt.ArrayLike) -> Array:
    """Probability that a fitted classifier gives to each record's own label; 0 for labels it never saw.

    Without ``predict_proba`` the decision function is squashed; without both, 1 for a right and 0 for a wrong
    label. Recorded outputs of shape (n, n_classes) stand for the model itself; their columns are the classes in order.
    """
    if _is_recorded(model):
        return np.asarray(output_summary(model, y, n_top=0)[:, 0])
    labels, classes = np.asarray(y), np.asarray(model.classes_)
    if hasattr(model, "predict_proba"):
        probability = np.asarray(model.predict_proba(X), dtype=float).reshape(labels.size, -1)
        if probability.shape[1] == 1 and classes.size == 2:  # of the second class
            probability = np.column_stack([1.0 - probability, probability])
        if probability.shape[1] != classes.size:
            raise ValueError(
                f"predict_proba of the model must have one column for each of its {classes.size} classes, got "
                f"{probability.shape[1]}."
            )
    elif hasattr(model, "decision_function"):
        decision = np.asarray(model.decision_function(X), dtype=float)
        if decision.ndim == 1:
            p = expit(decision)
            probability = np.column_stack([1.0 - p, p])
        else:
            probability = softmax(decision, axis=1)
    else:
        return np.asarray(np.asarray(model.predict(X)) == labels, dtype=float)
    order = np.argsort(classes)
    position = np.minimum(np.searchsorted(classes, labels, sorter=order), classes.size - 1)
    column = order[position]
    own = probability[np.arange(labels.size), column]
    return np.where(classes[column] == labels, own, 0.0)


def residuals(model: Any, X: Any, y: npt.ArrayLike) -> Array:
    """``y − prediction`` of a fitted regressor; Euclidean norm of the residual for several targets."""
    difference = np.asarray(y, dtype=float) - np.asarray(model.predict(X), dtype=float)
    return np.asarray(difference if difference.ndim == 1 else np.linalg.norm(difference, axis=1))
