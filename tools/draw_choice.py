"""Draw the picture of docs/which_estimator.md: three questions, and the estimators behind the answers.

python tools/draw_choice.py

The SVG is part of the page: its text and colours follow the theme, its names are links, and it is narrow enough for
a phone.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "which_estimator.svg"
WIDTH, LEFT, LINE, GAP = 470, 226, 17, 9

#: Questions; of each the answers, with public names. An answer without names leads to the next question.
TREE = (
    (
        "Who may hold the raw rows?",
        (
            ("Nobody: each row is randomised before it leaves its owner", ("MetricPrivatizer",)),
            (
                "The trainer sees sums of labels only; features are known to both sides",
                ("make_curated_bags", "CuratedBagGAMClassifier", "CuratedBagGAMRegressor"),
            ),
            ("… or sums over random groups", ("make_random_bags", "RandomBagClassifier", "RandomBagRegressor")),
            ("Somebody you trust; results are published", ()),
        ),
    ),
    (
        "What is private?",
        (
            (
                "Labels alone",
                ("CuratedBagGAMClassifier", "CuratedBagGAMRegressor", "RandomBagClassifier", "RandomBagRegressor"),
            ),
            ("The rows of one population; the other one is public", ("PPMHalfspaceClassifier",)),
            ("Every row, or all that a person contributed", ()),
        ),
    ),
    (
        "What is the result?",
        (
            ("A linear model", ("UserLevelSGDRegressor", "UserLevelSGDClassifier")),
            ("The same with curves", ("make_additive_pipeline",)),
            ("A model of a raw table: text, gaps, dates", ("make_private_pipeline",)),
            ("A mean", ("UserLevelMean",)),
            ("The best of fitted models", ("UserLevelSelector",)),
            ("Synthetic rows", ("MetricPrivateSynthesizer",)),
            ("Scales, bins, values for gaps", ("PrivateStandardScaler", "PrivateKBinsDiscretizer", "PrivateImputer")),
        ),
    ),
)
#: Names that are not imported from the top.
HOMES = {
    "make_additive_pipeline": "preprocessing",
    "PrivateStandardScaler": "preprocessing",
    "PrivateKBinsDiscretizer": "preprocessing",
    "PrivateImputer": "preprocessing",
}


def wrapped(text: str, width: int = 29) -> list[str]:
    """Break a text into lines."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def link(name: str) -> str:
    """Find the page of a public name."""
    return "generated/" + ".".join(filter(None, ("skprivate", HOMES.get(name, ""), name))) + ".html"


def drawing() -> str:
    """Write the SVG."""
    parts, y = [], 4
    for number, (question, answers) in enumerate(TREE, 1):
        parts.append(f'<rect class="question" x="2" y="{y}" width="{WIDTH - 4}" height="32" rx="6"/>')
        parts.append(f'<text class="question" x="16" y="{y + 21}">{number}. {escape(question)}</text>')
        y += 32
        top, ends = y, []
        for answer, names in answers:
            lines = wrapped(answer, 29 if names else 60)
            y += GAP
            height = LINE * max(len(lines), len(names)) + 10
            middle = y + height / 2
            ends.append(middle)
            start = middle - LINE * (len(lines) - 1) / 2 + 4.5
            parts += [f'<text x="30" y="{start + LINE * k:g}">{escape(one)}</text>' for k, one in enumerate(lines)]
            if names:
                x = LEFT + 18
                parts.append(f'<path class="arrow" d="M{LEFT} {middle:g}h12"/>')
                parts.append(f'<rect class="names" x="{x}" y="{y}" width="{WIDTH - x - 2}" height="{height}" rx="5"/>')
                start = middle - LINE * (len(names) - 1) / 2 + 4.5
                parts += [
                    f'<a href="{link(name)}"><text class="name" x="{x + 10}" y="{start + LINE * k:g}">{name}</text></a>'
                    for k, name in enumerate(names)
                ]
            y += height
        rails = "".join(f"M14 {end:g}h10" for end in ends)
        parts.append(f'<path class="rail" d="M14 {top}V{ends[-1]:g}{rails}"/>')
        if number < len(TREE):
            parts.append(f'<path class="arrow" d="M40 {y - 3}v18"/>')
            y += 9
        y += 8
    arrow = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    head = (
        f'<svg class="choice" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="group" '
        'aria-label="Which estimator? Three questions lead to names of estimators.">'
    )
    return "\n".join([head, arrow, *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawing(), "utf-8")
