"""Privacy report: one dictionary of facts, and the page made of it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from skprivate._messages import must_be, one_of, rounded_up, small
from skprivate.inspection import Step, count, releases_when_transforming
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, as_stated, understated
from skprivate.privacy.ledger import today
from skprivate.report import _facts, _model_facts, _page, _style
from skprivate.report._other_facts import Audit, audit_facts, ledger_facts, ledger_guarantee

#: Major and minor: a new field makes a new minor number, a changed or missing one a new major number.
FORMAT_VERSION = "2.1"
REPORT_SCHEMA: Mapping[str, Any] = json.loads(
    resources.files("skprivate.report").joinpath("report_schema.json").read_text(encoding="utf-8")
)
_OF_GUARANTEE = ("protection", "strength", "assumptions", "mechanisms", "not_protected")
_TITLES = {"ledger": "Privacy budget of a data set", "guarantee": "A privacy guarantee"}


class PrivacyReport:
    """Report on a release for its reviewers; made by `privacy_report`.

    All of it comes from one dictionary (`to_dict`), described by `REPORT_SCHEMA`. Notebooks show it as the page.

    Parameters
    ----------
    facts : dict
        As `to_dict` returns them.

    Examples
    --------
    >>> from skprivate.report import privacy_report
    >>> from skprivate.privacy import PrivacyGuarantee
    >>> report = privacy_report(PrivacyGuarantee(1.0, 0.0, "row", "add-remove"), title="Counts of a survey")
    >>> report.verdict, report.to_dict()["strength"]["definition"]
    ('look at this before you sign', 'pure')
    >>> print(report)
    Counts of a survey: ε = 1, δ = 0 for one row (add-remove): look at this before you sign
    >>> report.findings[0].partition(".")[0]
    'The guarantee was stated by whoever supplied the data'
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = copy.deepcopy(dict(facts))

    @property
    def verdict(self) -> str:
        """ "holds", "look at this before you sign" (the findings), or "not for release"."""
        return str(self._facts["verdict"])

    @property
    def findings(self) -> tuple[str, ...]:
        """Reasons of the verdict, the worst first."""
        return tuple(each["text"] for each in self._facts["findings"])

    def to_dict(self) -> dict[str, Any]:
        """Return all facts as plain data that JSON can hold.

        Returns
        -------
        dict
            Valid against `REPORT_SCHEMA`. A number that is infinite is None.
        """
        return copy.deepcopy(self._facts)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the facts as JSON, and write them to a file if ``path`` is given.

        Parameters
        ----------
        path : str or os.PathLike, optional

        Returns
        -------
        str
        """
        return _style.written(json.dumps(self._facts, indent=2, ensure_ascii=False), path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the page, and write it to a file if ``path`` is given.

        The page is one file that loads nothing, for screens of any width and for paper.

        Parameters
        ----------
        path : str or os.PathLike, optional

        Returns
        -------
        str
        """
        return _style.written(_page.page(self._facts), path)

    def __str__(self) -> str:
        strength, protection = self._facts["strength"], self._facts["protection"]
        if strength is None:
            return f"{self._facts['title']}: nothing was released"
        epsilon = "∞" if strength["epsilon"] is None else rounded_up(strength["epsilon"])
        of = protection["adjacency"]
        if protection["metric"]:
            of = f"per unit of distance, {protection['metric']}"
        n = len(self._facts["assumptions"])
        under = f" under {n} {'assumption' if n == 1 else 'assumptions'}" if self.verdict == _facts.HOLDS else ""
        return (
            f"{self._facts['title']}: ε = {epsilon}, δ = {small(strength['delta'])} for one {protection['unit']} "
            f"({of}): {self.verdict}{under}"
        )

    def __repr__(self) -> str:
        return f"<PrivacyReport {self}>"

    def _repr_html_(self) -> str:
        return _style.framed(_page.page(self._facts))


@dataclass(frozen=True)
class _Subject:
    """Subject of a report, as `_read` finds it.

    ``parts`` are names and guarantees of private parts, and whether a ledger must have been charged for each;
    ``problems`` where a model is not what its guarantee counts, and why.
    """

    guarantee: PrivacyGuarantee | None
    kind: str
    name: str
    parts: Sequence[tuple[str, PrivacyGuarantee, bool]] = ()
    ledgers: Sequence[PrivacyLedger] = ()
    steps: Sequence[Step] = ()
    problems: Sequence[tuple[str, str]] = ()

    @property
    def trust_model(self) -> str:
        return "local" if self.kind == "model" and not any(c for *_, c in self.parts) else "central"

    @property
    def title(self) -> str:
        article = "an" if self.name[:1] in "AEIO" else "a"
        return _TITLES.get(self.kind, f"Privacy of {article} {self.name}")


def _findings(
    subject: _Subject,
    books: Sequence[Mapping[str, Any]],
    tested: Sequence[Mapping[str, Any]],
    answers: Mapping[str, str],
) -> list[_facts.Finding]:
    """List what a reviewer has to see first."""
    guarantee = subject.guarantee
    wrong = [
        *subject.problems,
        *((part, why) for part, each, _ in subject.parts if (why := understated(each, subject.ledgers))),
    ]
    found = [(_facts.STOP, text) for text in dict.fromkeys(f"{_capital(part)}: {why}." for part, why in wrong)]
    found += [] if guarantee is None else _facts.guarantee_findings(guarantee)
    for audit in tested:
        if audit["violated"]:
            found.append((_facts.STOP, f"An audit of {audit['name']} refutes the claim: see section 6."))
        elif not audit["same_claim"]:
            text = f"The audit of {audit['name']} tested another claim than this guarantee."
            found.append((_facts.LOOK, text))
    for book in books:
        if book["purpose"] != "releases":
            text = f"The ledger is for {book['purpose']}: nothing charged to it may be published."
            found.append((_facts.STOP, text))
        if guarantee is None or book["unit"] is None:
            continue
        counted = book["unit"], str(book["adjacency"]).partition(":")[0]
        if counted != (str(guarantee.unit), str(guarantee.adjacency)):
            text = f"The ledger counts for one {book['unit']} ({book['adjacency']})"
            found.append((_facts.NOTE, f"{text}, not for one {guarantee.unit} ({guarantee.adjacency})."))
    found += [(_facts.NOTE, text) for book in books if (text := _others(subject, book))]
    found += [(_facts.LOOK, text) for text in _unpaid(subject, books)]
    if guarantee is not None:
        found += [(_facts.LOOK, text) for text in _unknown(books, answers)]
    return found


def _others(subject: _Subject, book: Mapping[str, Any]) -> str:
    """Say what a ledger counts beside this model, and the total; nothing where the ledger is the subject."""
    own = {each.ledger_entry for _, each, _ in subject.parts}
    divided = {entry["reservation"] for entry in book["entries"]}  # what releases have of a reservation is listed, too
    more = sum(
        entry["id"] not in divided
        and own.isdisjoint({f"{book['identity']}#{entry[name]}" for name in ("id", "reservation")})
        for entry in book["entries"]
    )
    if subject.kind == "ledger" or not more:
        return ""
    right = "" if book["best_guess"] is None else f", and {_facts.percent(book['best_guess'])} of guesses right at most"
    right += ", by ε and δ alone, which allow more than the noise that was drawn" if right else ""
    return (
        f"The ledger has {more} more {'entry' if more == 1 else 'entries'}. With all of them ε = "
        f"{rounded_up(book['spent']['epsilon'], 4)}{right}. If results on private rows decided which model is "
        "published, that decision is counted nowhere."
    )


def _unpaid(subject: _Subject, books: Sequence[Mapping[str, Any]]) -> list[str]:
    """List what the totals leave out: parts that no entry covers, and the sum of several ledgers."""
    known = {f"{book['identity']}#{entry['id']}" for book in books for entry in book["entries"]}
    which = "the ledger" if len(books) == 1 else "any of the ledgers"
    found = [
        f"{_capital(part)} was not charged to {which} of section 5: its cost comes on top of what was spent there."
        for part, each, central in subject.parts
        if books and central and each.ledger_entry not in known
    ]
    if len(books) > 1:
        found.append(
            f"There are {len(books)} ledgers. Where their data share people, what was spent in one adds to what was "
            "spent in the others, and no budget below bounds the sum."
        )
    return found


def _unknown(books: Sequence[Mapping[str, Any]], answers: Mapping[str, str]) -> list[str]:
    """List what has not been answered so far."""
    found = []
    if not books:
        found.append("No ledger was given: nothing is known of other releases from the same data.")
    if n_open := sum(not answers.get(name, "").strip() for name in _facts.QUESTIONS):
        count = "1 question is" if n_open == 1 else f"{n_open} questions are"
        found.append(f"{count} open: see section 8.")
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _checked_answers(answers: Mapping[str, str] | None) -> dict[str, str]:
    given = dict(answers or {})
    for name, value in given.items():
        if name not in _facts.QUESTIONS:
            raise ValueError(must_be("answers", f"keyed by {one_of(_facts.QUESTIONS)}", name))
        if not isinstance(value, str):
            raise TypeError(must_be(f"answers[{name!r}]", "a string", type(value).__name__))
    return given


def _checked_audits(audits: Any) -> list[Audit]:
    if audits is None:
        return []
    every = list(audits) if isinstance(audits, list | tuple) else [audits]
    for audit in every:
        if not isinstance(audit, Audit):
            allowed = "the result of audit_estimator or find_violation, or a list of them"
            raise TypeError(must_be("audit", allowed, type(audit).__name__))
    return every


def privacy_report(
    source: object,
    path: str | os.PathLike[str] | None = None,
    *,
    ledger: PrivacyLedger | None = None,
    audit: Audit | Sequence[Audit] | None = None,
    title: str | None = None,
    answers: Mapping[str, str] | None = None,
    distances: Sequence[float] | None = None,
    details: bool = False,
) -> PrivacyReport:
    """Report to reviewers what is protected, how strongly, under which assumptions, and what is not.

    Parameters
    ----------
    source : estimator, PrivacyLedger, PrivacyGuarantee, or an object with a ``guarantee``
        A fitted model, pipeline or search; a ledger, for everything that was charged to it; a guarantee; or a release
        such as `CuratedBags`.
    path : str or os.PathLike, optional
        Where the report is written: the page for a name that ends in ".html", its JSON for one in ".json".
    ledger : PrivacyLedger, optional
        The budget of the data; by default those that the model was given.
    audit : EstimatorAudit, ViolationReport or list of these, optional
        Findings of `audit_estimator` or `find_violation`, shown beside the claim.
    title : str, optional
        Heading of the page: of which data it is, and for what. A report without one asks for it.
    answers : mapping of str to str, optional
        Answers of the publisher, by the names of the questions: "purpose", "promise", "tuning", "utility", "bias",
        "trust", "security", "collection", "contact". Questions without an answer stay open on the page.
    distances : sequence of float, optional
        Where ε is per unit of distance: how far apart the inputs are that an attacker would tell apart. By default
        three at which ε times the distance is about ½, 1 and 2.
    details : bool, default=False
        Whether entries of the ledger show accounts, machines, parameters and data fingerprints, and the ledger its
        file: for internal use, not for publication.

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
    to_release : Copies the model to publish with it.
    audit_page : Writes a page about an audit.

    Notes
    -----
    Guarantee: reading costs nothing. The report holds privacy costs and what is public: no data, no statistics
    without noise; titles, notes and names as you wrote them. The order of its questions is that of [1]_.

    References
    ----------
    .. [1] J. P. Near, D. Darais, N. Lefkovitz and G. S. Howarth, "Guidelines for Evaluating Differential Privacy
       Guarantees", NIST SP 800-226, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.report import privacy_report
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> model = UserLevelMean(epsilon=1.0).fit(X, user_ids=np.arange(500))
    >>> report = privacy_report(model, title="Mean dose per patient")
    >>> report.verdict, report.findings[0]
    ('look at this before you sign', 'No ledger was given: nothing is known of other releases from the same data.')
    >>> "Mean dose per patient" in report.to_html()
    True
    """
    target = None if path is None else Path(path)
    if target is not None and target.suffix.lower() not in (".html", ".htm", ".json"):
        raise ValueError(must_be("path", "the name of a .html or .json file", str(path)))
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        raise TypeError(must_be("ledger", "a PrivacyLedger or None", type(ledger).__name__))
    subject = _read(source)
    if ledger is not None:
        subject = replace(subject, ledgers=[ledger])
    guarantee, kind = subject.guarantee, subject.kind
    if not (title is None or isinstance(title, str)):
        raise TypeError(must_be("title", "a string or None", type(title).__name__))
    given, every = _checked_answers(answers), _checked_audits(audit)
    about: dict[str, Any] = dict.fromkeys(_OF_GUARANTEE)
    if guarantee is not None:
        about = _facts.guarantee_facts(guarantee, distances, _model_facts.number_of_units(subject.steps))
    books = [ledger_facts(each, details=details) for each in subject.ledgers]
    tested = [audit_facts(each, guarantee, subject.name if kind == "model" else None) for each in every]
    titled, warned = bool(title) or kind == "ledger", _model_facts.warnings_of(subject.steps)
    found = _findings(subject, books, tested, given)
    found += _model_facts.model_findings(about, warned, titled=titled)
    findings = sorted(found, key=lambda each: _facts.LEVELS.index(each[0]))
    levels = [level for level, _ in findings]
    report = PrivacyReport(
        {
            "format": "skprivate privacy report",
            "format_version": FORMAT_VERSION,
            "created": today(),
            "title": title or subject.title,
            "titled": titled,
            "subject": {"kind": kind, "name": subject.name},
            "verdict": _facts.STOP if _facts.STOP in levels else _facts.LOOK if _facts.LOOK in levels else _facts.HOLDS,
            "findings": [{"level": level, "text": text} for level, text in findings],
            **about,
            "assumptions": about["assumptions"] or [],
            "not_protected": about["not_protected"] or [],
            "steps": _model_facts.facts_of_steps(subject.steps) if len(subject.steps) > 1 else [],
            "declared": _model_facts.declared(subject.steps),
            "fit_warnings": warned,
            "ledgers": books,
            "audits": tested,
            "trust_model": subject.trust_model,
            "answers": given,
            "versions": dict(_facts.versions()),
        }
    )
    if target is not None:
        (report.to_json if target.suffix.lower() == ".json" else report.to_html)(target)
    return report


def _read(source: object) -> _Subject:
    name = type(source).__name__
    if isinstance(source, PrivacyLedger):
        return _Subject(ledger_guarantee(source), "ledger", name, ledgers=[source])
    if isinstance(source, PrivacyGuarantee):
        return _Subject(as_stated(source), "guarantee", name, [("This guarantee", source, True)])
    if isinstance(given := getattr(source, "guarantee", None), PrivacyGuarantee):
        return _Subject(as_stated(given), "release", name, [(name, given, True)])
    if not hasattr(source, "fit") or isinstance(source, type):
        allowed = "a fitted estimator, a PrivacyLedger, a PrivacyGuarantee or an object with a guarantee"
        raise TypeError(must_be("source", allowed, name))
    found = count(source)
    paths = {step.path: step.path if len(found.steps) > 1 else name for step in found.private}
    # What releases in transform is charged there, once for each call.
    parts = [
        (paths[step.path], step.model.privacy_guarantee_, not releases_when_transforming(step.model))
        for step in found.private
    ]
    ledgers = dict.fromkeys(
        value
        for model in (source, *(step.model for step in found.steps))  # a pipeline keeps the ledger of its steps
        if hasattr(model, "get_params")
        for value in model.get_params(deep=True).values()
        if isinstance(value, PrivacyLedger)
    )
    problems = [(paths.get(path, path), why) for path, why in found.problems]
    return _Subject(
        found.total, "model", name, parts=parts, ledgers=list(ledgers), steps=found.steps, problems=problems
    )
