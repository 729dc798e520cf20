"""What of a whole model may be published."""

from __future__ import annotations

from typing import Any

from skprivate.inspection._guarantee_of import guarantee_of
from skprivate.privacy._publish import published_copy


def to_release(model: Any, *, allow_invalid: bool = False) -> Any:
    """A copy of a fitted model that may be published: no ledgers, no paths, no generators.

    A fitted model keeps the ``ledger`` that it was given, and so do fitted steps of a ColumnTransformer or an ensemble;
    a pickle of a ledger holds the path of its file and its last record, with names and notes. In the copy every ledger,
    path, cache (``memory``) and random generator is None, however deep it lies.

    Parameters
    ----------
    model : estimator
        A fitted estimator, or a composite such as a pipeline, as `guarantee_of` takes them; left as it is.
    allow_invalid : bool, default=False
        Whether a copy is made also where no guarantee holds or noise was simulated: for trials, never for publication.

    Returns
    -------
    copy : estimator
        The same model, guarantees included. It predicts the same; its fits are charged to nothing.

    Raises
    ------
    NoGuaranteeError
        If no guarantee holds for the model as a whole.
    ValueError
        If a guarantee in it is not valid for release, or promises nothing.
    TypeError
        If the model cannot be pickled, so not be published, for example for a lambda.

    See Also
    --------
    privacy_report : What to publish beside it.

    Notes
    -----
    Guarantee: that of the model, which `guarantee_of` states; leaving something out is post-processing. Strings are
    kept as they are: a path or a name in a parameter of another kind is yours to look for.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.inspection import to_release
    >>> from skprivate.privacy import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    >>> X = np.random.RandomState(0).uniform(size=(500, 2))
    >>> model = to_release(UserLevelMean(ledger=ledger).fit(X, user_ids=np.arange(500)))
    >>> model.ledger is None, model.privacy_guarantee_.unit
    (True, <PrivacyUnit.USER: 'user'>)
    """
    if not allow_invalid:
        guarantee_of(model)
    return published_copy(model, allow_invalid=allow_invalid)
