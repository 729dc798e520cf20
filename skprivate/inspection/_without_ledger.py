"""A copy of a model for publication, without the handle to its ledger."""

from __future__ import annotations

import io
import pickle
from typing import Any

from skprivate.privacy import PrivacyLedger


def without_ledger(model: Any) -> Any:
    """A copy of a fitted model in which every ledger is None, however deep it lies.

    A fitted model keeps the ``ledger`` that it was given, and so do fitted steps of a ColumnTransformer or an ensemble;
    a pickle of a ledger holds the path of its file and its last record, with names and notes. Publish the copy.

    Parameters
    ----------
    model : estimator
        Fitted or not; left as it is.

    Returns
    -------
    copy : estimator
        The same model, guarantees included. Its fits are charged to nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.inspection import without_ledger
    >>> from skprivate.privacy import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    >>> X = np.random.RandomState(0).uniform(size=(500, 2))
    >>> model = without_ledger(UserLevelMean(ledger=ledger).fit(X, user_ids=np.arange(500)))
    >>> model.ledger is None, model.privacy_guarantee_.unit
    (True, <PrivacyUnit.USER: 'user'>)
    """
    buffer = io.BytesIO()
    _WithoutLedger(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(model)
    return pickle.loads(buffer.getvalue())


class _WithoutLedger(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        # NoneType() is None.
        return (type(None), ()) if isinstance(obj, PrivacyLedger) else NotImplemented
