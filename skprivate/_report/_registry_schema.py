"""What the registry of deployments accepts, as JSON Schema.

Fields, required fields and enumerations are those of ``schemas/deployments-schema.yaml`` of
github.com/opendp/deployments-registry-data at commit 057e5d8 (2026); descriptions, and sources in BibTeX fields, are
left out. Stricter than that one in two places: fields that it leaves untyped are texts here, and curators have no
further fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["CURATORS", "KINDS", "PRODUCTS", "REGISTRY_SCHEMA", "SECTORS"]

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

_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}


def _object(required: Sequence[str] = (), /, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _one_of(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


def _texts(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, _TEXT)


_CURATOR = _object(
    ("data_curator_name", "data_curator_type"), data_curator_name=_TEXT, data_curator_type=_one_of(*CURATORS)
)
_BASIC = _object(
    (
        "name",
        "data_curators",
        "description",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "publication_date",
    ),
    **_texts("name", "description", "intended_use", "data_product_region"),
    data_curators={"type": "array", "items": _CURATOR, "minItems": 1},
    data_product_type=_one_of(*PRODUCTS),
    data_product_sector=_one_of(*SECTORS),
    publication_date={"type": "string", "format": "date"},
)
_VARIANT = _object(
    variant_name=_one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
    **_texts("data_domain", "unprotected_quantities"),
)
_LOSS = _object(
    **_texts("privacy_unit", "privacy_unit_details", "privacy_parameters_details"),
    number_of_privacy_units={"type": "integer"},
    privacy_parameters=_object(epsilon=_NUMBER, delta={"type": ["number", "string"]}, rho=_NUMBER),
)
_MODEL = _object(
    model_name=_one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
    **{name: _one_of(*values) for name, values in KINDS.items()},
    **_texts(
        "model_name_details",
        "trust_assumptions",
        "actors",
        "release_type_details",
        "data_source_type_details",
        "access_type_details",
    ),
)
_IMPLEMENTATION = _object(
    **_texts(
        "preprocessing_and_hyperparameter_tuning",
        "mechanisms",
        "composition",
        "post_processing",
        "justification",
        "utility",
        "additional_information",
    )
)
_ADMINISTRATIVE = _object(
    ("status", "registry_authors", "tier"),
    evidence_sources={"type": "object"},
    status=_one_of(
        "Converted",
        "Draft",
        "Pending",
        "Changes Required",
        "Approved",
        "Approved (Update Requested)",
        "Approved (Pending)",
    ),
    registry_authors={"type": "array", "items": _TEXT, "minItems": 1},
    tier=_one_of(1, 2, 3),
)

REGISTRY_SCHEMA: Mapping[str, Any] = {
    **_object(
        ("url_slug", "deployment"),
        url_slug=_TEXT,
        deployment=_object(
            ("basic", "administrative"),
            basic=_BASIC,
            dp_variant=_VARIANT,
            privacy_loss=_LOSS,
            deployment_model=_MODEL,
            implementation=_IMPLEMENTATION,
            administrative=_ADMINISTRATIVE,
        ),
    ),
    "$schema": "http://json-schema.org/draft-07/schema#",
}
