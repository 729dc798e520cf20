"""Report on a model, a release, a ledger or a guarantee."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skprivate._messages import must_be
from skprivate._report import PrivacyReport, make_report
from skprivate._report._audit_facts import Audit
from skprivate._report._ledger_facts import ledger_guarantee
from skprivate.inspection._guarantee_of import count
from skprivate.inspection._leaves import releases_when_transforming
from skprivate.inspection._steps import Role
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger
from skprivate.privacy._publish import as_stated

__all__ = ["privacy_report"]


def privacy_report(
    source: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    ledger: PrivacyLedger | None = None,
    audit: Audit | Sequence[Audit] | None = None,
    title: str | None = None,
    answers: Mapping[str, str] | None = None,
    distances: Sequence[float] | None = None,
    details: bool = False,
) -> PrivacyReport:
    """A report that a reviewer can sign: what is protected, how strongly, under which assumptions, and what is not.

    Parameters
    ----------
    source : estimator, PrivacyLedger, PrivacyGuarantee, or an object with a ``guarantee``
        A fitted model, pipeline or search; a ledger, for everything that was charged to it; a guarantee; or a release
        such as `CuratedBags`.
    path : str or os.PathLike, optional
        Where the report is written: the page for a name that ends in ".html", its JSON for one in ".json".
    ledger : PrivacyLedger, optional
        The budget of the data; by default those that the model was given.
    audit : EstimatorAudit, DrawAudit, ReleaseAudit or list of these, optional
        What `audit_estimator`, `audit_draws`, `audit_function` or `audit_outputs` found, to stand beside the claim.
    title : str, optional
        Heading of the page.
    answers : mapping of str to str, optional
        What only the publisher knows, by the names of the questions: "purpose", "tuning", "utility", "bias", "trust",
        "security", "collection", "contact". Questions without an answer stay open on the page.
    distances : sequence of float, optional
        Where ε is per unit of distance: how far apart the inputs are that an attacker would tell apart. By default
        three at which ε times the distance is about ½, 1 and 2.
    details : bool, default=False
        Whether entries of the ledger show accounts, machines, parameters and data fingerprints, and the ledger its
        file: for the house, not for publication.

    Returns
    -------
    PrivacyReport
        With the page (`~PrivacyReport.to_html`) and its JSON.

    Raises
    ------
    NoGuaranteeError
        If no guarantee holds for the model, for example for `GridSearchCV`: report its ledger then.
    TypeError, ValueError
        If an argument is not as above.

    See Also
    --------
    to_release : The model to publish with it.

    Notes
    -----
    Guarantee: reading costs nothing. The report holds what was paid for and what is public: no data, no statistics
    without noise; titles, notes and names as you wrote them. The order of its questions is that of [1]_.

    References
    ----------
    .. [1] J. P. Near, D. Darais, N. Lefkovitz and G. S. Howarth, "Guidelines for Evaluating Differential Privacy
       Guarantees", NIST SP 800-226, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.inspection import privacy_report
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> model = UserLevelMean(epsilon=1.0).fit(X, user_ids=np.arange(500))
    >>> report = privacy_report(model, title="Mean dose per patient")
    >>> report.verdict, report.findings[0]
    ('caution', 'No ledger was given: nothing is known of other releases from the same data.')
    >>> "Mean dose per patient" in report.to_html()
    True
    """
    target = None if path is None else Path(path)
    if target is not None and target.suffix.lower() not in (".html", ".htm", ".json"):
        raise ValueError(must_be("path", "the name of a .html or .json file", str(path)))
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        raise TypeError(must_be("ledger", "a PrivacyLedger or None", type(ledger).__name__))
    guarantee, found = _read(source)
    report = make_report(
        guarantee,
        title=title,
        audits=audit,
        answers=answers,
        distances=distances,
        details=details,
        **{**found, **({} if ledger is None else {"ledgers": [ledger]})},
    )
    if target is not None:
        if target.suffix.lower() == ".json":
            report.to_json(target)
        else:
            report.to_html(target)
    return report


def _read(source: Any) -> tuple[PrivacyGuarantee | None, dict[str, Any]]:
    name = type(source).__name__
    if isinstance(source, PrivacyLedger):
        return ledger_guarantee(source), {"kind": "ledger", "name": name, "ledgers": [source]}
    if isinstance(source, PrivacyGuarantee):
        return as_stated(source), {
            "kind": "guarantee",
            "name": name,
            "parts": [("This guarantee", source, True)],
        }
    if isinstance(given := getattr(source, "guarantee", None), PrivacyGuarantee):
        return as_stated(given), {"kind": "release", "name": name, "parts": [(name, given, True)]}
    if not hasattr(source, "fit") or isinstance(source, type):
        allowed = "a fitted estimator, a PrivacyLedger, a PrivacyGuarantee or an object with a guarantee"
        raise TypeError(must_be("source", allowed, name))
    found = count(source)
    rows = []
    for step in found.steps if len(found.steps) > 1 else ():
        own = step.model.privacy_guarantee_ if step.role is Role.PRIVATE else None
        rows.append(
            {
                "path": step.path,
                "role": str(step.role),
                "epsilon": None if own is None or own.epsilon == float("inf") else own.epsilon,
                "delta": None if own is None else own.delta,
            }
        )
    paths = {step.path: step.path if rows else name for step in found.private}
    # What releases in transform is charged there, once for each call.
    parts = [
        (paths[step.path], step.model.privacy_guarantee_, not releases_when_transforming(step.model))
        for step in found.private
    ]
    ledgers = dict.fromkeys(
        value for step in found.steps for value in _parameters(step.model) if isinstance(value, PrivacyLedger)
    )
    return found.total, {
        "kind": "model",
        "name": name,
        "steps": rows,
        "ledgers": list(ledgers),
        "parts": parts,
        "problems": [(paths.get(path, path), why) for path, why in found.problems],
        "local": not any(central for *_, central in parts),
    }


def _parameters(model: Any) -> list[Any]:
    return list(model.get_params(deep=True).values()) if hasattr(model, "get_params") else []
