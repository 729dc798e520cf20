"""The JSON Schema of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FORMAT_VERSION", "REPORT_SCHEMA"]

#: Major and minor: a new field makes a new minor number, a changed or missing one a new major number.
FORMAT_VERSION = "1.0"

_TEXT, _FLAG, _COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number", "minimum": 0}
_UNBOUNDED = {
    "type": ["number", "null"],
    "minimum": 0,
    "description": "null where it is infinite, or has no value.",
}
_RATE = {"type": "number", "minimum": 0, "maximum": 1}
_MAYBE_TEXT = {"type": ["string", "null"]}


def _object(properties: Mapping[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _list(items: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": dict(items), **more}


def _maybe(schema: Mapping[str, Any], why: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}, dict(schema)], "description": f"null where {why}."}


_BUDGET = _object({"epsilon": _NUMBER, "delta": _RATE})
_EMPTY = "nothing was released yet"

_PROTECTION = _object(
    {
        "unit": {"enum": ["row", "private row", "user", "label", "data set"]},
        "adjacency": {"enum": ["replace-one", "add-remove", "metric"]},
        "metric": _MAYBE_TEXT,
        "what": _TEXT,
        "change": _TEXT,
        "example": _TEXT,
    }
)
_STRENGTH = _object(
    {
        "definition": {"enum": ["pure", "approximate", "metric"]},
        "epsilon": {
            **_UNBOUNDED,
            "description": "Upper bound; per unit of distance for a metric. null: nothing is promised.",
        },
        "delta": _RATE,
        "in_words": _TEXT,
        "risk_from": {
            "enum": ["events", "epsilon and delta"],
            "description": "What the upper bounds on attacks were computed from.",
        },
        "risk": _list(
            _object(
                {
                    "distance": _UNBOUNDED,
                    "fpr": {
                        **_RATE,
                        "description": "Share of those who took no part that is accused falsely.",
                    },
                    "tpr": {
                        **_RATE,
                        "description": "Share of those who did that any attack recognises then, at most.",
                    },
                    "advantage": {
                        **_RATE,
                        "description": "Largest difference of the two rates, at any threshold.",
                    },
                    "posterior": _list(_object({"prior": _RATE, "at_most": _RATE})),
                }
            )
        ),
        "trade_off": _list(_object({"distance": _UNBOUNDED, "fpr": _list(_RATE), "tpr": _list(_RATE)})),
    }
)
_MECHANISMS = _object(
    {
        "events": _list(
            {
                "type": "object",
                "properties": {"event": _TEXT, "count": {"type": "integer", "minimum": 1}},
                "required": ["event", "count"],
            },
            description="What was drawn, as the accountant sees it, and how often.",
        ),
        "adaptive": _FLAG,
        "theorem": _TEXT,
        "noise": {"enum": ["secure", "simulated", "stated"]},
        "ledger_entry": {
            **_TEXT,
            "description": "Identity of the ledger and number of the entry that has paid; or empty.",
        },
    }
)
_ENTRY = _object(
    {
        "id": {"type": "integer", "minimum": 1},
        "label": _TEXT,
        "unit": _TEXT,
        "adjacency": _TEXT,
        "epsilon": _NUMBER,
        "delta": _RATE,
        "rho": _UNBOUNDED,
        "converted": _TEXT,
        "own_epsilon": _NUMBER,
        "own_delta": _RATE,
        "opened": _TEXT,
        "closed": _MAYBE_TEXT,
        "simulated": _FLAG,
        "reservation": {"type": ["integer", "null"]},
        "note": _TEXT,
        "data": _TEXT,
        "parameters": {"type": "object", "additionalProperties": _TEXT},
        "user": _TEXT,
        "host": _TEXT,
        "process_id": _COUNT,
        "spent_epsilon": {
            **_UNBOUNDED,
            "description": "ε spent up to this entry; null where a reservation has paid for it.",
        },
    },
    optional=("data", "parameters", "user", "host", "process_id"),
)
_LEDGER = _object(
    {
        "identity": _TEXT,
        "path": _MAYBE_TEXT,
        "unit": _MAYBE_TEXT,
        "adjacency": _MAYBE_TEXT,
        "composition": {"enum": ["filter", "basic", "zcdp"]},
        "purpose": {"enum": ["releases", "simulation", "dry runs"]},
        "budget": _BUDGET,
        "spent": _BUDGET,
        "left": _BUDGET,
        "seal": {
            **_TEXT,
            "description": "Of the last record: noted elsewhere, it proves that nothing was changed.",
        },
        "shares": _list(_object({"purpose": _TEXT, "entries": _COUNT, "epsilon": _NUMBER})),
        "entries": _list(_ENTRY),
    },
    optional=("path",),
)
_AUDIT = _object(
    {
        "kind": {
            "enum": ["fits", "draws", "runs"],
            "description": "Whole fits, the draws of a fit replayed on neighbours, or runs on two inputs.",
        },
        "name": _TEXT,
        "unit": _MAYBE_TEXT,
        "adjacency": _MAYBE_TEXT,
        "claimed_epsilon": _UNBOUNDED,
        "claimed_delta": _RATE,
        "epsilon_lower_bound": _UNBOUNDED,
        "family": {
            "enum": ["pure", "approximate", "gaussian"],
            "description": "For which mechanisms the lower bound holds; the verdict is about the claim itself.",
        },
        "p_value": _maybe(_RATE, "the audit is not one of fits"),
        "design": _MAYBE_TEXT,
        "observable": _MAYBE_TEXT,
        "violated": _FLAG,
        "failures": _list(_TEXT),
        "n_fits": {**_COUNT, "description": "Of draws: neighbours; of runs: runs."},
        "confidence": _RATE,
        "same_claim": {
            **_FLAG,
            "description": "Whether the claim that was tested is the guarantee of this report.",
        },
    }
)
_STEP = _object({"path": _TEXT, "role": _TEXT, "epsilon": _UNBOUNDED, "delta": _UNBOUNDED})

#: What `PrivacyReport.to_dict` and `PrivacyReport.to_json` return, as JSON Schema (draft 2020-12).
REPORT_SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "skprivate privacy report",
    **_object(
        {
            "format": {"const": "skprivate privacy report"},
            "format_version": {"const": FORMAT_VERSION},
            "created": {**_TEXT, "description": "UTC time, ISO 8601."},
            "title": _TEXT,
            "subject": _object(
                {"kind": {"enum": ["model", "release", "ledger", "guarantee"]}, "name": _TEXT}
            ),
            "verdict": {"enum": ["holds", "caution", "stop"]},
            "findings": _list(_object({"level": {"enum": ["stop", "caution", "note"]}, "text": _TEXT})),
            "protection": _maybe(_PROTECTION, _EMPTY),
            "strength": _maybe(_STRENGTH, _EMPTY),
            "assumptions": _list(_TEXT, description="What has to be true outside the code."),
            "mechanisms": _maybe(_MECHANISMS, _EMPTY),
            "not_protected": _list(_TEXT),
            "steps": _list(_STEP, description="Of a composite: what each step does with private rows."),
            "ledgers": _list(_LEDGER),
            "audits": _list(_AUDIT),
            "trust_model": {"enum": ["central", "local"]},
            "answers": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "What the publisher answered.",
            },
            "versions": {"type": "object", "additionalProperties": _TEXT},
        }
    ),
}
