"""Fits on user-disjoint folds, charged by what one user costs."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, clone

from skprivate._messages import must_be
from skprivate._sklearn import _safe_indexing
from skprivate.inspection import charged_to, quote
from skprivate.partitions import UserKFold
from skprivate.privacy import PrivacyLedger, in_one_order
from skprivate.privacy.ledger import dearest_part


@in_one_order
def fit_folds(
    estimator: BaseEstimator,
    X: Any,
    y: Any = None,
    *,
    user_ids: Any,
    ledger: PrivacyLedger,
    cv: UserKFold | None = None,
    **fit_params: object,
) -> list[Any]:
    """Fit one clone for each user-disjoint fold, and charge the privacy cost of one user, not the sum.

    A user is in one fold, so of K fits that leave one fold out, K − 1 see the user: together they cost the most
    expensive K − 1 of K. scikit-learn's cross-validations and searches are charged all K fits, because the ledger
    cannot know there who was in which fold.

    Parameters
    ----------
    estimator : estimator
        Its ``fit`` takes ``user_ids``. Private parts of it have None or ``ledger`` as their ledger.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
    user_ids : array-like of shape (n_samples,)
        User of each row.
    ledger : PrivacyLedger
        Pays, all or nothing.
    cv : UserKFold, default=None
        Assigns users to folds by a keyed hash of their identifiers, so that nobody moves anybody else; None is
        ``UserKFold(5)``. No other splitter is allowed.
    **fit_params
        Passed unchanged to every ``fit``.

    Returns
    -------
    fitted : list of estimators
        The k-th is fitted to all folds of ``cv.split`` but the k-th.

    Raises
    ------
    BudgetExceededError
        The fits do not fit the ledger together; nothing was drawn or spent.
    TypeError
        ``cv`` is no `UserKFold`, or ``ledger`` no `PrivacyLedger`.
    ValueError
        A part has another ledger.

    See Also
    --------
    UserKFold : Makes the folds.
    PrivateSearchCV : Searches hyperparameters within one budget.
    sklearn.model_selection.cross_validate : Fits folds without privacy.

    Notes
    -----
    *Guarantee.* The ledger's: see `PrivacyLedger.parallel`. Under "replace-one" an exchanged user keeps the
    identifier, as everywhere with `UserKFold`. A fit that protects users under "add-remove" in a ledger for
    "replace-one" is charged in full, because the user who replaces another one may be in another fold.

    *What is not covered.* Scores of the models on held-out folds carry no noise.

    *Time.* Each fit is quoted first, which takes as long again.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.model_selection import UserKFold, fit_folds
    >>> from skprivate.privacy import PrivacyLedger
    >>> X = np.random.default_rng(0).normal(size=(900, 2))
    >>> ledger = PrivacyLedger(epsilon=3.0, delta=1e-5, unit="user", adjacency="replace-one", composition="basic")
    >>> model = UserLevelMean(epsilon=1.0, delta=1e-6)
    >>> models = fit_folds(model, X, user_ids=np.arange(900) // 3, ledger=ledger, cv=UserKFold(3))
    >>> len(models), round(ledger.spent[0], 3)
    (3, 2.0)
    """
    if not isinstance(ledger, PrivacyLedger):
        raise TypeError(must_be("ledger", "a PrivacyLedger", type(ledger).__name__))
    cv = UserKFold() if cv is None else cv
    if type(cv) is not UserKFold:
        why = "Others deal users by who else is there, or share them between folds."
        raise TypeError(must_be("cv", "a UserKFold, or None", type(cv).__name__, why))

    def data(rows: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = tuple(_safe_indexing(part, rows) for part in ((X,) if y is None else (X, y)))
        return given, {"user_ids": _safe_indexing(user_ids, rows), **fit_params}

    folds = [train for train, _ in cv.split(X, y, user_ids=user_ids)]
    quotes = []
    for train in folds:
        given, params = data(train)
        quotes.append(quote(estimator, *given, **params, ledger=ledger))
    dealt = f"UserKFold({cv.n_splits}) deals users by a keyed hash of their identifiers, which exchanged users keep"
    because = f"{dealt}; each fit sees all folds but its own"
    fitted = []
    with ledger.parallel(dearest_part(quotes), n_parts=cv.n_splits, because=because) as parts:
        for k, train in enumerate(folds):
            given, params = data(train)
            model = charged_to(clone(estimator), ledger, parts.without(k), searches=[])
            fitted.append(model.fit(*given, **params))
    return fitted
