"""Write a privacy report as a model card, or as an entry of the public registry of deployments.

    python tools/convert_report.py card report.json [people.json] > README.md
    python tools/convert_report.py registry report.json people.json > entry.json

report.json is what `PrivacyReport.to_json` wrote. people.json holds what only people can say: the sections of the card
(`model_card`), or the fields of the entry (`registry_entry`).
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from skprivate._messages import must_be, one_of, rounded_down, rounded_up, small, visible
from skprivate.report._facts import QUESTIONS, STOP, event_in_words, percent
from skprivate.report._other_facts import audit_in_words, audit_verdict

#: What the registry admits (schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data, 057e5d8).
CURATORS = ("Government", "Industry", "Nonprofit")
PRODUCTS = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
KINDS = {
    "release_type": ("One release", "Many releases"),
    "data_source_type": ("Static", "Dynamic"),
    "access_type": ("Interactive", "Non-interactive"),
}
#: Where the texts go that only people can write.
_DETAILS = {
    "data_domain": "dp_variant",
    "trust_assumptions": "deployment_model",
    "actors": "deployment_model",
    "preprocessing_and_hyperparameter_tuning": "implementation",
    "post_processing": "implementation",
    "justification": "implementation",
    "utility": "implementation",
    "additional_information": "implementation",
}
#: Answers of the report that say the same.
_ANSWERS = {"trust": "trust_assumptions", "tuning": "preprocessing_and_hyperparameter_tuning", "utility": "utility"}
_VARIANTS = {"pure": "Pure DP", "approximate": "Approximate DP", "metric": "Custom"}


def _plain(text: str) -> str:
    """Escape a text for one line of Markdown."""
    return re.sub(r"([\\`*_\[\]<>#|~!&$])", r"\\\1", visible(" ".join(str(text).split())))


def _draw_in_words(event: Mapping[str, Any]) -> str:
    """Describe an event on one line, with how often it was drawn."""
    name, price = event_in_words(event)
    return f"{event['count']} × {name}" + (f" ({price})" if price else "")


def registry_entry(
    facts: Mapping[str, Any],
    *,
    name: str,
    curators: Mapping[str, str],
    description: str,
    intended_use: str,
    region: str,
    publication_date: str,
    authors: Sequence[str],
    product_type: str = "Machine learning model",
    sector: str | None = None,
    release_type: str = "One release",
    data_source_type: str = "Static",
    access_type: str = "Non-interactive",
    url_slug: str | None = None,
    **details: str,
) -> dict[str, Any]:
    """An entry for the public registry of deployments of differential privacy (registry.opendp.org).

    Parameters
    ----------
    facts : mapping
        `PrivacyReport.to_dict`; everything about ε, δ, unit, mechanisms and composition is filled in from it.
    name, description, intended_use, region : str
        Of what is published, for whom, and which region's people or laws it concerns.
    curators : mapping of str to {"Government", "Industry", "Nonprofit"}
        Who publishes it, and what kind of body that is.
    publication_date : str
        YYYY-MM-DD.
    authors : sequence of str
        Who wrote the entry.
    product_type, sector, release_type, data_source_type, access_type : str
        As the registry names them (`PRODUCTS`, `SECTORS`, `KINDS`).
    url_slug : str, optional
        End of the entry's address; made of the name by default.
    **details : str
        What else only people know: ``data_domain``, ``actors``, ``trust_assumptions``, ``justification``,
        ``utility``, ``post_processing``, ``preprocessing_and_hyperparameter_tuning``, ``additional_information``.

    Returns
    -------
    dict
        As JSON it is YAML too, the format of the registry. Its status is "Draft".

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, or the report's verdict is "not for release".
    """
    basic = {
        "name": name,
        "description": description,
        "intended_use": intended_use,
        "data_product_type": product_type,
        "data_product_region": region,
        "publication_date": publication_date,
        **({} if sector is None else {"data_product_sector": sector}),
    }
    kinds = {"release_type": release_type, "data_source_type": data_source_type, "access_type": access_type}
    _check(basic, curators, authors, kinds, url_slug, details)
    protection, strength, mechanisms = (facts[name] for name in ("protection", "strength", "mechanisms"))
    if facts["verdict"] == STOP or strength is None or strength["epsilon"] is None:
        why = " ".join(each["text"] for each in facts["findings"]) or "Nothing was released."
        raise ValueError(f"the report must be one of a valid release to be registered. {why}")
    answers = {_ANSWERS[name]: text for name, text in facts["answers"].items() if name in _ANSWERS}
    written: dict[str, dict[str, str]] = {"dp_variant": {}, "deployment_model": {}, "implementation": {}}
    for detail, text in {**answers, **details}.items():
        written[_DETAILS[detail]][detail] = text
    draws = [_draw_in_words(event) for event in mechanisms["events"]]
    return {
        "url_slug": url_slug or _slug(f"{basic['name']} {' '.join(curators)} {basic['publication_date'][:4]}"),
        "deployment": {
            "basic": {
                **basic,
                "data_curators": [
                    {"data_curator_name": name, "data_curator_type": kind} for name, kind in curators.items()
                ],
            },
            "dp_variant": {
                "variant_name": _VARIANTS[strength["definition"]],
                "unprotected_quantities": _bullets(facts["not_protected"]),
                **written["dp_variant"],
            },
            "privacy_loss": {
                "privacy_unit": protection["unit"],
                "privacy_unit_details": f"{protection['adjacency']}: {protection['change']}. {strength['in_words']}",
                "privacy_parameters": {"epsilon": strength["epsilon"], "delta": strength["delta"]},
                "privacy_parameters_details": _parameters(facts),
            },
            "deployment_model": {
                "model_name": facts["trust_model"].capitalize(),
                **kinds,
                **written["deployment_model"],
            },
            "implementation": {
                "mechanisms": _bullets(
                    [
                        *draws,
                        f"Implemented in skprivate {facts['versions']['skprivate']}: noise is added to exact integer "
                        "sums; random bits come from a cryptographic generator of the operating system.",
                        *([f"Proven in: {mechanisms['theorem']}"] if mechanisms["theorem"] else []),
                    ]
                    if mechanisms["noise"] == "secure"
                    else [*draws, "Stated by the supplier of the data; the draws were made elsewhere."]
                ),
                "composition": _composition(facts),
                **written["implementation"],
            },
            "administrative": {
                "status": "Draft",
                "registry_authors": list(authors),
                "tier": 3 if {"data_domain", "justification"} <= details.keys() else 2,
            },
        },
    }


def _check(
    basic: Mapping[str, str],
    curators: Mapping[str, str],
    authors: Sequence[str],
    kinds: Mapping[str, str],
    url_slug: str | None,
    details: Mapping[str, str],
) -> None:
    texts = {**basic, **details, **({} if url_slug is None else {"url_slug": url_slug})}
    for name in details:
        if name not in _DETAILS:
            raise TypeError(must_be("a further field", one_of(_DETAILS), name))
    for name, value in texts.items():
        if not isinstance(value, str) or not value:
            raise TypeError(must_be(name, "a string that is not empty", value))
    if not isinstance(curators, Mapping) or not curators:
        raise TypeError(must_be("curators", "a mapping from names to kinds, with at least one", curators))
    for kind in curators.values():
        if kind not in CURATORS:
            raise ValueError(must_be("curators", f"of a kind that is {one_of(CURATORS)}", kind))
    if isinstance(authors, str) or not authors or not all(isinstance(author, str) for author in authors):
        raise TypeError(must_be("authors", "a list of at least one name", authors))
    for name, shown, allowed in (
        ("product_type", "data_product_type", PRODUCTS),
        ("sector", "data_product_sector", SECTORS),
    ):
        if shown in basic and basic[shown] not in allowed:
            raise ValueError(must_be(name, one_of(allowed), basic[shown]))
    for name, value in kinds.items():
        if value not in KINDS[name]:
            raise ValueError(must_be(name, one_of(KINDS[name]), value))
    try:
        exact = date.fromisoformat(basic["publication_date"]).isoformat() == basic["publication_date"]
    except ValueError:
        exact = False
    if not exact:
        raise ValueError(must_be("publication_date", "a date, YYYY-MM-DD", basic["publication_date"]))


def _parameters(facts: Mapping[str, Any]) -> str:
    strength, said = facts["strength"], []
    if strength["definition"] == "metric":
        said.append(f"ε is per unit of distance: {facts['protection']['metric']}.")
    said.append(facts["protection"]["example"])
    said += [f"Assumed: {text}." for text in facts["assumptions"]]
    for audit in facts["audits"]:
        other = "" if audit["same_claim"] else " The audited claim is another one than this."
        said.append(f"Audit of {audit_in_words(audit)} The claim is {''.join(audit_verdict(audit))}.{other}")
    return _bullets(said)


def _composition(facts: Mapping[str, Any]) -> str:
    said = ["Sequential composition of all draws by their privacy loss distributions or by sums."]
    for ledger in facts["ledgers"]:
        spent, budget = ledger["spent"], ledger["budget"]
        said.append(
            f"All releases from these data share a ledger with ε = {rounded_up(budget['epsilon'])} and "
            f"δ = {small(budget['delta'])} ({ledger['composition']}), of which ε = "
            f"{rounded_up(spent['epsilon'])} and δ = {small(spent['delta'])} are spent in "
            f"{len(ledger['entries'])} entries."
        )
    return " ".join(said)


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {' '.join(item.split())}" for item in items)


def _slug(text: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-") or "deployment"


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


def model_card(facts: Mapping[str, Any], *, name: str | None = None, **sections: str) -> str:
    """A model card: headings of Mitchell et al. (2019) as the Hugging Face hub has them, privacy first.

    Parameters
    ----------
    facts : mapping
        `PrivacyReport.to_dict`.
    name : str, optional
        Of the model; the report's title by default.
    **sections : str
        Markdown for sections that only people can write: ``description``, ``developers``, ``license``,
        ``repository``, ``direct_use``, ``out_of_scope_use``, ``bias_risks_limitations``, ``training_data``,
        ``training_procedure``, ``evaluation``, ``citation``, ``contact``.

    Returns
    -------
    str
        Markdown.

    Raises
    ------
    TypeError
        If a section is none of these, or no text.
    """
    for section, value in sections.items():
        if section not in _NAMES:
            raise TypeError(must_be("section", one_of(_NAMES), section))
        if not isinstance(value, str):
            raise TypeError(must_be(section, "a string", type(value).__name__))
    lines = ["---", "library_name: sklearn", "tags:", "- differential-privacy", "- skprivate", "---", ""]
    lines += [f"# Model Card for {_plain(facts['title'] if name is None else name)}", "", *_privacy(facts)]
    for heading, names in _SECTIONS:
        said = _said(names, sections, facts["answers"]) if names else None
        if heading.startswith("-"):
            lines += [*([] if lines[-1].startswith("- ") else [""]), f"{heading} {said}"]
        else:
            lines += ["", heading, "", *([said] if said else [])]
    lines += ["", "## Technical Specifications", "", "### Software", ""]
    lines += [f"- {_plain(package)} {_plain(version)}" for package, version in facts["versions"].items()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _said(names: tuple[str, ...], sections: Mapping[str, str], answers: Mapping[str, str]) -> str:
    if names[0] in sections:
        return sections[names[0]]
    answer = answers.get(names[-1]) if names[-1] in QUESTIONS else None
    return _plain(answer) if answer and answer.strip() else _MISSING


def _privacy(facts: Mapping[str, Any]) -> list[str]:
    lines = ["## Privacy", ""]
    if facts["verdict"] == STOP:
        lines += ["> **Not for release.**", ">"]
    lines += [f"> {_plain(each['text'])}" for each in facts["findings"]] + [""] * bool(facts["findings"])
    protection, strength, mechanisms = (facts[name] for name in ("protection", "strength", "mechanisms"))
    if strength is None:
        return [*lines, "Nothing was released.", ""]
    epsilon = "∞" if strength["epsilon"] is None else rounded_up(strength["epsilon"])
    metric = f", per unit of distance: {_plain(protection['metric'])}" if protection["metric"] else ""
    lines += [
        f"- **Guarantee:** ε = {epsilon}{metric}, δ = {small(strength['delta'])}",
        f"- **Protects:** {protection['what']} ({protection['adjacency']}: {_plain(protection['change'])})",
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
        lines.append(f"- **Audit:** {_plain(audit_in_words(audit))} The claim is **{said}**{rest}.{other}")
    far = strength["definition"] == "metric"
    lines += ["", _plain(strength["in_words"]), "", _plain(protection["example"]), "", "The best attack:", ""]
    lines += [f"|{' distance |' if far else ''} accused falsely | recognised, at most |", "|---" * (2 + far) + "|"]
    for risk in strength["risk"]:
        place = f" {rounded_down(risk['distance'], 3)} |" if far else ""
        lines.append(f"|{place} {percent(risk['fpr'])} | {percent(risk['tpr'])} |")
    for heading, items in (
        ("Assumptions", facts["assumptions"]),
        ("Not Protected", facts["not_protected"]),
        ("Mechanisms", [_draw_in_words(event) for event in mechanisms["events"]]),
    ):
        if items:
            lines += ["", f"### {heading}", "", *(f"- {_plain(item)}" for item in items)]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=["card", "registry"])
    parser.add_argument("report", type=Path)
    parser.add_argument("people", type=Path, nargs="?")
    options = parser.parse_args()
    facts = json.loads(options.report.read_text(encoding="utf-8"))
    people = {} if options.people is None else json.loads(options.people.read_text(encoding="utf-8"))
    if options.format == "card":
        print(model_card(facts, **people), end="")
    else:
        print(json.dumps(registry_entry(facts, **people), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
