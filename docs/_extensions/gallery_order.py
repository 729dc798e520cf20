"""The order of the gallery: first models, then data and labels, then attacks, then the papers."""

from __future__ import annotations

ORDER = [
    "first_model",
    "pipeline_budget",
    "grid_search",
    "private_search",
    "user_level",
    "mean",
    "halfspaces",
    "ad_tables",
    "kinds_of_bags",
    "shared_factors",
    "synthetic_table",
    "whole_table",
    "synthetic_places",
    "hidden_places",
    "diagnosis_codes",
    "membership_attack",
    "best_attacker",
    "find_violation",
    "report_to_sign",
    "beyond_memory",
    "own_estimator",
    "paper_user_level",
    "paper_mixtures",
    "paper_aggregates",
    "paper_metric",
    "paper_auditing",
]


def place(name: str) -> tuple[int, str]:
    """Place a script; one that is not named comes last."""
    stem = name.rpartition("/")[2].removeprefix("plot_").removesuffix(".py")
    return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)
