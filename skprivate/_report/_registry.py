"""An entry of the public registry of deployments of differential privacy, from the facts of a report."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from skprivate._html import small
from skprivate._report._audit_facts import audit_in_words, audit_verdict
from skprivate._report._words import draw_in_words
from skprivate.privacy._dialect import must_be, one_of, rounded_up

__all__ = ["registry_entry"]

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
_ANSWERS = {
    "trust": "trust_assumptions",
    "tuning": "preprocessing_and_hyperparameter_tuning",
    "utility": "utility",
}
_VARIANTS = {"pure": "Pure DP", "approximate": "Approximate DP", "metric": "Custom"}


def registry_entry(
    facts: Mapping[str, Any],
    basic: Mapping[str, str],
    curators: Mapping[str, str],
    authors: Sequence[str],
    *,
    kinds: Mapping[str, str],
    url_slug: str | None,
    details: Mapping[str, str],
) -> dict[str, Any]:
    """The entry; see `PrivacyReport.to_registry_entry`."""
    _check(basic, curators, authors, kinds, url_slug, details)
    protection, strength, mechanisms = (facts[name] for name in ("protection", "strength", "mechanisms"))
    if facts["verdict"] == "stop" or strength is None or strength["epsilon"] is None:
        why = " ".join(each["text"] for each in facts["findings"]) or "Nothing was released."
        raise ValueError(f"the report must be one of a valid release to be registered. {why}")
    answers = {_ANSWERS[name]: text for name, text in facts["answers"].items() if name in _ANSWERS}
    written: dict[str, dict[str, str]] = {"dp_variant": {}, "deployment_model": {}, "implementation": {}}
    for name, text in {**answers, **details}.items():
        written[_DETAILS[name]][name] = text
    draws = [draw_in_words(event) for event in mechanisms["events"]]
    return {
        "url_slug": url_slug
        or _slug(f"{basic['name']} {' '.join(curators)} {basic['publication_date'][:4]}"),
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
