"""Membership from recorded class probabilities: no model and no references, only records with known membership."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from skprivate._messages import number
from skprivate.audit import _auditor, _class_outputs, _epsilon
from skprivate.audit.attacks._report import AttackReport, attack_report
from skprivate.privacy import public_generator


def attack_probabilities(
    outputs: npt.ArrayLike,
    membership: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    n_top: int = 4,
    estimator: BaseEstimator = None,
    train_size: float = 0.5,
    fpr: Iterable[float] = (0.01, 0.001),
    confidence: float = 0.95,
    random_state: int | None = None,
) -> AttackReport:
    """Attack membership by class probabilities: fitted on some records, evaluated on the others.

    The attacker sees the probability of the true label and the ``n_top`` largest, knows the membership of a part of
    the records, and learns from them what members look like. All figures are of the records left, of which nothing
    was used; the threshold behind ``accuracy`` is the attack's own.

    Parameters
    ----------
    outputs : array-like of shape (n, n_classes)
        Rows of ``predict_proba`` of the audited model.
    membership : array-like of shape (n,)
        True (1) where the record was in the model's training set.
    labels : array-like of shape (n,)
        True label of each record.
    classes : array-like of shape (n_classes,) or None, default=None
        ``model.classes_``; by default the distinct labels in order.
    n_top : int, default=4
        How many of the largest probabilities the attacker looks at.
    estimator : classifier or None, default=None
        What learns, with ``predict_proba`` or ``decision_function``; `FiniteAdversaryAuditor` by default.
    train_size : float, default=0.5
        Share of the records that the attack is fitted on, drawn at random from members and from non-members.
    fpr, confidence
        As in `attack_report`.
    random_state : int, RandomState or None, default=None
        Public randomness of the split.

    Returns
    -------
    AttackReport
        With ``accuracy`` and its exact interval.

    Raises
    ------
    ValueError
        If a part of the split would hold no members, or no others.

    See Also
    --------
    FiniteAdversaryAuditor : Bounds what every adversary could achieve.
    output_summary : Computes what the attacker sees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skprivate.audit import attack_probabilities
    >>> X, y = load_digits(return_X_y=True)
    >>> member = np.random.default_rng(0).random(len(y)) < 0.5
    >>> model = RandomForestClassifier(30, random_state=0).fit(X[member], y[member])
    >>> report = attack_probabilities(model.predict_proba(X), member, y, random_state=0)
    >>> bool(report.auc > 0.7 and report.accuracy_interval[0] > 0.6)
    True
    """
    number("train_size", train_size, "a number in (0, 1)", lambda value: 0 < value < 1)
    summary = _class_outputs.output_summary(outputs, labels, classes=classes, n_top=n_top)
    _, member = _epsilon._check_pair(summary[:, 0], membership, "outputs", "membership")
    rng = public_generator(random_state)
    fitted = np.zeros(member.size, dtype=bool)
    for group in (np.flatnonzero(member), np.flatnonzero(~member)):
        share = round(train_size * group.size)
        if not 0 < share < group.size:
            raise ValueError(
                f"train_size = {train_size:g} leaves a part without members or without others; there are "
                f"{int(member.sum())} of {member.size} records that are members."
            )
        fitted[rng.permutation(group)[:share]] = True
    attack = _auditor.FiniteAdversaryAuditor(confidence=confidence) if estimator is None else clone(estimator)
    if "random_state" in attack.get_params(deep=False) and attack.get_params(deep=False)["random_state"] is None:
        attack.set_params(random_state=int(rng.integers(2**31 - 1)))
    attack.fit(summary[fitted], member[fitted])
    rest = ~fitted
    if hasattr(attack, "decision_function"):
        scores, threshold = attack.decision_function(summary[rest]), 0.0
    else:
        scores, threshold = attack.predict_proba(summary[rest])[:, 1], 0.5
    return attack_report(scores, member[rest], fpr=fpr, confidence=confidence, threshold=threshold)
