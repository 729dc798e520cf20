"""``skprivate audit``: what scores with known membership prove of ε, from a CSV file.

::

    skprivate audit scores.csv --design one-run --epsilon 1
    skprivate audit runs.csv --design independent --epsilon 1 --delta 1e-5 --format json

The exit code is 0 if the claim is not refuted, 1 if it is, 2 for files and arguments that cannot be used.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path
from typing import Any

#: Words for members and others, lower case.
_WORDS = {
    "1": True,
    "true": True,
    "yes": True,
    "0": False,
    "false": False,
    "no": False,
    "1.0": True,
    "0.0": False,
}
_METHODS = {"independent": "clopper-pearson", "one-run": "one-run"}


def add_audit(groups: Any) -> None:
    """Add ``audit`` to the subcommands."""
    text = "what scores with known membership prove of epsilon"
    parser = groups.add_parser("audit", help=text, description=f"{text.capitalize()}, against a claim.")
    parser.add_argument(
        "path", help="CSV file with a header: a row for each record (one-run) or run (independent)"
    )
    parser.add_argument(
        "--design",
        required=True,
        choices=tuple(_METHODS),
        help="one-run: all scores from one run, into which each record was put by its own coin; independent: each "
        "score from an independent run of its own",
    )
    parser.add_argument("--epsilon", type=float, required=True, help="the claim")
    parser.add_argument("--delta", type=float, default=0.0, help="the claim, default: 0")
    parser.add_argument(
        "--coin", type=float, default=0.5, help="one-run: probability of a member, default: 0.5"
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="default: 0.95")
    parser.add_argument(
        "--score", default="score", metavar="COLUMN", help="default: score; larger for members"
    )
    parser.add_argument("--member", default="member", metavar="COLUMN", help="default: member; 0/1, yes/no")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the split and of the order of ties, default: 0"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--output", "-o", metavar="FILE", help="write there, not to the terminal")
    parser.set_defaults(run=audit)


def audit(options: argparse.Namespace) -> tuple[str, int]:
    """Read the file, bound ε, and compare.

    Returns
    -------
    text : str
    code : int
        0 or 1.
    """
    # With all of audits and scikit-learn, which takes seconds: other commands do not wait for it.
    from skprivate.audit import epsilon_lower_bound

    if not (math.isfinite(options.epsilon) and options.epsilon > 0):
        raise ValueError(f"--epsilon must be a positive finite number, got {options.epsilon!r}.")
    if options.design == "independent" and options.coin != 0.5:
        raise ValueError(
            "--coin belongs to --design one-run: independent runs may have any number of members."
        )
    scores, members = _read(Path(options.path), options.score, options.member)
    bound = epsilon_lower_bound(
        scores,
        members,
        method=_METHODS[options.design],
        delta=options.delta,
        confidence=options.confidence,
        random_state=options.seed,
        **({} if options.design == "independent" else {"coin": options.coin}),
    )
    refuted = bound > options.epsilon
    found = {
        "file": options.path,
        "design": options.design,
        "n": len(scores),
        "n_members": sum(members),
        "claimed_epsilon": options.epsilon,
        "claimed_delta": options.delta,
        "confidence": options.confidence,
        "epsilon_lower_bound": bound,
        "refuted": refuted,
    }
    if options.format == "json":
        return json.dumps(found, indent=2, ensure_ascii=False), int(refuted)
    delta = f", delta {options.delta:g}" if options.delta else ""
    verdict = "REFUTED" if refuted else "not refuted"
    text = (
        f"{len(scores)} scores, {sum(members)} of members, {options.design}\n"
        f"epsilon is at least {bound:.4g} at confidence {options.confidence:g}\n"
        f"the claim of epsilon {options.epsilon:g}{delta} is {verdict}"
    )
    return text, int(refuted)


def _read(path: Path, score: str, member: str) -> tuple[list[float], list[bool]]:
    """Two columns of a CSV file; messages name rows, never what stands in them."""
    scores, members = [], []
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        missing = [name for name in (score, member) if name not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(
                f"the file must have a header with the columns {score!r} and {member!r}; {missing[0]!r} is missing. "
                "--score and --member name others."
            )
        for number, row in enumerate(rows, start=2):
            try:
                value = float(row[score])
                told = _WORDS[(row[member] or "").strip().lower()]
            except (TypeError, ValueError, KeyError):
                raise ValueError(
                    f"row {number} must hold a number in {score!r}, and 0/1, true/false or yes/no in {member!r}."
                ) from None
            if not math.isfinite(value):
                raise ValueError(f"row {number} must hold a finite number in {score!r}.")
            scores.append(value)
            members.append(told)
    return scores, members
