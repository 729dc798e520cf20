"""The JSON Schema of a report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

__all__ = ["FORMAT_VERSION", "REPORT_SCHEMA"]

#: Major and minor: a new field makes a new minor number, a changed or missing one a new major number.
FORMAT_VERSION = "1.0"
REPORT_SCHEMA: Mapping[str, Any] = json.loads(
    resources.files("skprivate._report").joinpath("report_schema.json").read_text(encoding="utf-8")
)
