"""Mean loss of every user under fitted models, from that user's rows alone.

A model's ``predict`` is foreign code, and the linear algebra below it may round a row differently depending on how
many rows come with it. A tie between two candidates is then broken by other users' rows. So each user's rows are
predicted by themselves, unless the caller vouches for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn import config_context
from sklearn.base import is_classifier

from skprivate._messages import unheard

FloatArray = npt.NDArray[np.float64]
Loss = Literal["auto", "squared_error", "absolute_error", "zero_one"] | Callable[[Any, Any], Any]


def known_labels(models: Iterable[Any]) -> npt.NDArray[Any] | None:
    """All labels of classifiers that are no numbers, in some order; None if there are none."""
    classes = [np.asarray(getattr(model, "classes_", [])).ravel() for model in models]
    texts = [each.tolist() for each in classes if len(each) and each.dtype.kind not in "biuf"]
    if not texts:
        return None
    found = list(dict.fromkeys(label for each in texts for label in each))
    labels = np.empty(len(found) + 1, dtype=object)  # the last stands for labels that no classifier knows
    labels[:-1] = found
    return labels


def as_numbers(y: npt.NDArray[Any], known: npt.NDArray[Any] | None) -> FloatArray:
    """Targets that are numbers as they are; labels that are none by their places in ``known``.

    No candidate predicts a label that none of them knows, so it does not matter which of these it is.
    """
    if (y.dtype.kind in "biuf") != (known is None) and len(y):
        raise TypeError(
            "y must hold numbers where X lies in blocks; or labels, where the candidates have classes_ of the same "
            f"kind and the loss is named, got dtype {y.dtype}."
        )
    if known is None:
        return y.astype(np.float64)
    places = {label: k for k, label in enumerate(known[:-1].tolist())}
    return np.array([places.get(label, len(places)) for label in y.tolist()], dtype=np.float64)


def named_labels(y: FloatArray, known: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """The targets that `as_numbers` made numbers of."""
    return y if known is None else np.asarray(known[y.astype(np.int64)])


def user_losses(
    model: Any, X: FloatArray, y: npt.NDArray[Any], codes: npt.NDArray[np.int64], loss: Loss, *, by_user: bool
) -> FloatArray:
    """Mean loss of every user.

    Parameters
    ----------
    model : fitted estimator
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    codes : ndarray of shape (n_rows,), int64
        User of each row, 0 … n_users − 1 without gaps.
    loss : str or callable
    by_user : bool
        Call ``predict`` and the loss once for every user, with that user's rows in their order, and nothing else.
        Otherwise once, with all rows: entry u is then a function of user u's rows only if the model and the loss treat
        every row by itself, to the last bit.

    Returns
    -------
    ndarray of shape (n_users,)
    """
    if loss == "auto":
        loss = "zero_one" if is_classifier(model) else "squared_error"
    if loss in ("squared_error", "absolute_error"):
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):  # its message would show a target
            raise TypeError(f"y must hold numbers for loss={loss!r}, got dtype {y.dtype}.") from None
    # Errors that depend on nobody: a row of zeros, whose target is what is predicted for it.
    model_only = np.zeros((1, X.shape[1]))
    expected = np.asarray(model.predict(model_only))
    _row_losses(model, model_only, expected.astype(y.dtype) if y.dtype.kind == "f" else expected, loss)
    if len(codes) == 0:
        return np.empty(0)
    sizes = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    X, y = np.ascontiguousarray(X[order]), y[order]
    ends = [0, *np.cumsum(sizes).tolist()] if by_user else [0, len(X)]
    losses = np.empty(len(X))
    # Refusals of numbers in the midst of a model would say something about whoever has them, as warnings would.
    with unheard(), config_context(assume_finite=True):
        for start, end in pairwise(ends):
            try:
                losses[start:end] = _row_losses(model, X[start:end].copy(), y[start:end].copy(), loss)
            except Exception:  # what goes wrong with somebody's rows is kept, and is the greatest loss
                if not by_user:
                    return user_losses(model, X, y, np.sort(codes), loss, by_user=True)
                losses[start:end] = np.inf
        # One user's losses are added from the first to the last, whatever lies between them.
        totals = np.bincount(codes[order], weights=losses)
        return np.asarray(totals / sizes)


def _row_losses(model: Any, X: FloatArray, y: npt.NDArray[Any], loss: Loss) -> FloatArray:
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise ValueError(f"predict must return one number a row, got {predicted.ndim} dimensions.")
    if callable(loss):
        values = np.asarray(loss(y, predicted), dtype=np.float64)
        if values.shape != y.shape:
            raise ValueError(f"loss must return one number a row, got {values.ndim} dimensions.")
        return values
    if loss == "zero_one":
        if predicted.dtype.kind in "biuf" and y.dtype.kind in "biuf":
            # Whether targets are stored as integers may depend on one of them; their values as float64 do not.
            predicted, y = predicted.astype(np.float64), y.astype(np.float64)
        return np.asarray(predicted != y, dtype=np.float64)
    difference = predicted.astype(np.float64) - y
    return np.asarray(np.square(difference) if loss == "squared_error" else np.abs(difference))
