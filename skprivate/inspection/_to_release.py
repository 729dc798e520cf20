"""A copy of a whole model for publication."""

from __future__ import annotations

from typing import Any

from skprivate.inspection._guarantee_of import NoGuaranteeError, certified
from skprivate.partitions import published_copy


def to_release(model: Any, *, allow_invalid: bool = False) -> Any:
    """Make a copy of a fitted model that may be published: what its guarantee counts, and nothing else.

    A fitted model keeps more than what it predicts with: ledgers, each with a path and its last record, also in fitted
    steps; estimators among the parameters of a composite, which fits clones of them and leaves them as they were,
    perhaps fitted to the same rows before; attributes that somebody set. The copy holds

    * fitted steps that `guarantee_of` visits, with all they learnt;
    * parameters. Estimators among them that are no fitted step become unfitted clones, wherever they lie (in a list, in
      ``kw_args``, in a scorer);
    * of classes of scikit-learn and of this package those attributes only that methods of the class assign;
    * None for every ledger, path, cache (``memory``) and random generator.

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
        If no guarantee holds for the model as a whole, or if it holds a fitted estimator or a guarantee that no step
        accounts for.
    ValueError
        If a guarantee in it is not valid for release.
    TypeError
        If the model cannot be pickled, so not be published, for example for a lambda.

    See Also
    --------
    privacy_report : What to publish beside it.

    Notes
    -----
    Guarantee: that of the model, which `guarantee_of` states; leaving something out is post-processing. Strings are
    kept as they are, and so are objects of other classes in a parameter: a path, a name or a row in them is yours to
    look for.

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
    try:
        kept = certified(model).kept
    except NoGuaranteeError:
        if not allow_invalid:
            raise
        kept = None
    return published_copy(model, allow_invalid=allow_invalid, kept=kept)
