"""A model card in Markdown: headings of Mitchell et al. (2019) as the Hugging Face hub has them, privacy first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skprivate._html import plain, rounded_down, small
from skprivate._report._audit_facts import audit_in_words, audit_verdict
from skprivate._report._words import QUESTIONS, draw_in_words, percent
from skprivate.privacy._dialect import must_be, one_of, rounded_up

__all__ = ["model_card"]

_MISSING = "[More Information Needed]"
#: Sections that only people can write: name, heading, and the answer of the report that may stand there.
_SECTIONS = (
    ("## Model Details", ()),
    ("### Model Description", ("description",)),
    ("- **Developed by:**", ("developers",)),
    ("- **License:**", ("license",)),
    ("- **Repository:**", ("repository",)),
    ("## Uses", ()),
    ("### Direct Use", ("direct_use", "purpose")),
    ("### Out-of-Scope Use", ("out_of_scope_use",)),
    ("## Bias, Risks, and Limitations", ("bias_risks_limitations", "bias")),
    ("## Training Details", ()),
    ("### Training Data", ("training_data", "collection")),
    ("### Training Procedure", ("training_procedure", "tuning")),
    ("## Evaluation", ("evaluation", "utility")),
    ("## Citation", ("citation",)),
    ("## Model Card Contact", ("contact", "contact")),
)
_NAMES = tuple(names[0] for _, names in _SECTIONS if names)


def model_card(facts: Mapping[str, Any], name: str, sections: Mapping[str, str]) -> str:
    """The card; see `PrivacyReport.to_model_card`."""
    for section, value in sections.items():
        if section not in _NAMES:
            raise TypeError(must_be("section", one_of(_NAMES), section))
        if not isinstance(value, str):
            raise TypeError(must_be(section, "a string", type(value).__name__))
    lines = ["---", "library_name: sklearn", "tags:", "- differential-privacy", "- skprivate", "---", ""]
    lines += [f"# Model Card for {plain(name)}", "", *_privacy(facts)]
    for heading, names in _SECTIONS:
        said = _said(names, sections, facts["answers"]) if names else None
        if heading.startswith("-"):
            lines += [*([] if lines[-1].startswith("- ") else [""]), f"{heading} {said}"]
        else:
            lines += ["", heading, "", *([said] if said else [])]
    lines += ["", "## Technical Specifications", "", "### Software", ""]
    lines += [f"- {plain(package)} {plain(version)}" for package, version in facts["versions"].items()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _said(names: tuple[str, ...], sections: Mapping[str, str], answers: Mapping[str, str]) -> str:
    if names[0] in sections:
        return sections[names[0]]
    answer = answers.get(names[-1]) if names[-1] in QUESTIONS else None
    return plain(answer) if answer and answer.strip() else _MISSING


def _privacy(facts: Mapping[str, Any]) -> list[str]:
    lines = ["## Privacy", ""]
    if facts["verdict"] == "stop":
        lines += ["> **NOT VALID FOR RELEASE.**", ">"]
    lines += [f"> {plain(each['text'])}" for each in facts["findings"]] + [""] * bool(facts["findings"])
    protection, strength, mechanisms = (facts[name] for name in ("protection", "strength", "mechanisms"))
    if strength is None:
        return [*lines, "Nothing was released.", ""]
    epsilon = "∞" if strength["epsilon"] is None else rounded_up(strength["epsilon"])
    metric = f", per unit of distance: {plain(protection['metric'])}" if protection["metric"] else ""
    lines += [
        f"- **Guarantee:** ε = {epsilon}{metric}, δ = {small(strength['delta'])}",
        f"- **Protects:** {protection['what']} ({protection['adjacency']}: {plain(protection['change'])})",
        f"- **Noise:** {mechanisms['noise']}",
        f"- **Trust model:** {facts['trust_model']}",
    ]
    for ledger in facts["ledgers"]:
        spent, budget = ledger["spent"], ledger["budget"]
        lines.append(
            f"- **Total over the data:** ε = {rounded_up(spent['epsilon'])}, δ = {small(spent['delta'])} spent of "
            f"ε = {rounded_up(budget['epsilon'])}, δ = {small(budget['delta'])} in {len(ledger['entries'])} entries"
        )
    for audit in facts["audits"]:
        said, rest = audit_verdict(audit)
        other = "" if audit["same_claim"] else " It was another claim than that of this card."
        lines.append(f"- **Audit:** {plain(audit_in_words(audit))} The claim is **{said}**{rest}.{other}")
    far = strength["definition"] == "metric"
    lines += ["", plain(strength["in_words"]), "", plain(protection["example"]), "", "The best attack:", ""]
    lines += [
        f"|{' distance |' if far else ''} accused falsely | recognised, at most |",
        "|---" * (2 + far) + "|",
    ]
    for risk in strength["risk"]:
        place = f" {rounded_down(risk['distance'], 3)} |" if far else ""
        lines.append(f"|{place} {percent(risk['fpr'])} | {percent(risk['tpr'])} |")
    for heading, items in (
        ("Assumptions", facts["assumptions"]),
        ("Not Protected", facts["not_protected"]),
        ("Mechanisms", [draw_in_words(event) for event in mechanisms["events"]]),
    ):
        if items:
            lines += ["", f"### {heading}", "", *(f"- {plain(item)}" for item in items)]
    return lines
