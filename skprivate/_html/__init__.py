"""Pages that load nothing: blocks, charts, style sheet and numbers that reports share."""

from skprivate._html._blocks import document, framed, grid, items, pairs, sentence, table, text, written
from skprivate._html._charts import audit_chart, budget_chart, trade_off_chart
from skprivate._html._markdown import plain
from skprivate._html._numbers import rounded_down, small
from skprivate._html._text import visible

__all__ = [
    "audit_chart",
    "budget_chart",
    "document",
    "framed",
    "grid",
    "items",
    "pairs",
    "plain",
    "rounded_down",
    "sentence",
    "small",
    "table",
    "text",
    "trade_off_chart",
    "visible",
    "written",
]
