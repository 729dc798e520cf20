"""Facts as one self-contained HTML page. Every text is escaped here, and nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from skprivate._messages import rounded_down, rounded_up, small
from skprivate.report import _model_facts, _other_facts, _style
from skprivate.report._facts import HOLDS, LOOK, QUESTIONS, STOP, event_in_words, percent
from skprivate.report._style import items, text

#: With more entries the table is folded on the screen; of longer lists of values the first ones are shown.
_FOLDED, _MOST_VALUES = 25, 12
#: Pages of the documentation in the sources, which readers do not have.
_SOURCE_PAGE = re.compile(r"docs/([a-z_/]+)\.md")
_SIGN = (
    '<section class="sign"><div>Prepared by, date</div><div>Reviewed by, date</div>'
    "<div>Released by, date</div></section>"
)
_NO_LEDGER = (
    "<p>No ledger was given. Every other release from the same data adds to the numbers above and is not counted "
    "here.</p>"
)
_NO_AUDIT = (
    "<p>No audit was handed in. An audit runs the model on neighbouring inputs and gives a lower bound on ε: it can "
    "show that a guarantee is wrong, and never that it is right.</p>"
)
#: Kinds of the box, and its words.
_VERDICTS = {
    HOLDS: ("holds", "Holds, under the assumptions of section 3."),
    LOOK: ("caution", "Look at this before you sign."),
    STOP: ("stop", "Not for release."),
}
_SIMULATED = "<p><strong>With secure noise. This noise was simulated, and nothing below holds.</strong></p>"
_SECRET = ", and the machine's random bits are not known to others"
_OPEN = '<dd class="open">not answered</dd>'


def page(facts: Mapping[str, Any]) -> str:
    """Render the facts as a page, which carries them as JSON."""
    made = [("created", facts["created"]), ("format", facts["format_version"])]
    sections = [
        ("What is protected?", _protection(facts)),
        ("How strong is the protection?", _strength(facts)),
        ("Under which assumptions does it hold?", _assumptions(facts)),
        ("What was drawn, and with which noise?", _mechanisms(facts)),
        ("What has been spent in all?", "".join(map(_ledger, facts["ledgers"])) or _NO_LEDGER),
        ("Was it tested?", "".join(map(_audit, facts["audits"])) or _NO_AUDIT),
        ("What is not protected?", items(facts["not_protected"])),
        ("What must the publisher answer?", _answers(facts)),
        ("What computed this?", _style.pairs([*facts["versions"].items(), *made])),
    ]
    body = "".join(
        f"<section><h2><span>{k}</span>{text(title)}</h2>{content}</section>"
        for k, (title, content) in enumerate(sections, 1)
    )
    # "<" would end the element or open another one; JSON knows it by its number as well.
    twin = json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return _style.document(
        facts["title"],
        f"{_head(facts)}{body}{_SIGN}",
        "The questions and their order follow NIST SP 800-226, <i>Guidelines for Evaluating Differential "
        "Privacy Guarantees</i> (2025). Upper bounds are rounded up and lower bounds down. This page loads nothing and "
        "holds its own data as JSON.",
        f'<script type="application/json" id="privacy-report">{twin}</script>',
    )


def _head(facts: Mapping[str, Any]) -> str:
    found = "".join(f"<p>{text(each['text'])}</p>" for each in facts["findings"])
    kind, headline = _VERDICTS[facts["verdict"]]
    headline = "Nothing was released." if facts["strength"] is None and kind == "holds" else headline
    by = f"{facts['subject']['name']} · {facts['created']} · skprivate {facts['versions']['skprivate']}"
    return _style.header("Privacy report", facts["title"], by, (kind, headline, found), _figures(facts))


def _figures(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    strength, protection = facts["strength"], facts["protection"]
    if strength is None:
        return []
    shown, unit, units = _middle(strength["risk"])[0], protection["unit"], protection["n_units"]
    far = f" at distance {rounded_down(shown['distance'], 3)}" if shown["distance"] is not None else ""
    would = "would be" if facts["mechanisms"]["noise"] == "simulated" else "are"
    per = "per unit of distance" if strength["definition"] == "metric" else "bound on the privacy loss"
    fails = "probability by which it may fail"
    if units and strength["delta"]:
        share = _model_facts.share_in_words(strength["delta"], units)
        fails += f": {share} one over the number of {unit}s; at most 1/100 is usual"
    number = "" if units is None else f"; {_number(units)} {unit}s"
    return [
        (f"ε = {_up(strength['epsilon'], 4)}", per),
        (f"δ = {small(strength['delta'])}", fails),
        (unit, f"is protected, {protection['adjacency']}{number}"),
        (percent(shown["best_guess"]), f"of guesses {would} right at most{far}, where half were before"),
    ]


def _number(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _protection(facts: Mapping[str, Any]) -> str:
    section = facts["protection"]
    if section is None:
        return "<p>Nothing yet: no release has set the unit of this ledger.</p>"
    return (
        f'<p class="lead">{_style.sentence(section["what"])}. '
        f"Two inputs count as neighbours if {text(section['change'])}.</p>"
        f"<p>{text(facts['strength']['in_words'])}</p><p>{text(section['example'])}</p>"
    )


def _strength(facts: Mapping[str, Any]) -> str:
    section = facts["strength"]
    if section is None:
        return "<p>Nothing was released.</p>"
    kinds = {
        "pure": "pure ε-differential privacy (δ = 0)",
        "approximate": "(ε, δ)-differential privacy",
        "metric": "metric differential privacy (ε per unit of distance)",
    }
    source = (
        "from the noise that was drawn; by ε and δ alone the numbers could be larger"
        if section["risk_from"] == "events"
        else "from ε and δ, for the worst mechanism that has them"
    )
    far = section["definition"] == "metric"
    head = [*(["distance"] if far else []), "accused falsely", "recognised, at most"]
    head += [
        f"an accusation is true, at most, where {100 * prior['prior']:g} % took part"
        for prior in section["risk"][0]["posterior"]
    ]
    rows = [
        [
            *([rounded_down(risk["distance"], 3)] if far else []),
            percent(risk["fpr"]),
            percent(risk["tpr"]),
            *(percent(belief["at_most"]) for belief in risk["posterior"]),
        ]
        for risk in section["risk"]
    ]
    curves = []
    for curve in section["trade_off"]:
        name = "" if curve["distance"] is None else f"distance {rounded_down(curve['distance'], 3)}"
        curves.append((name, list(zip(curve["fpr"], curve["tpr"], strict=True))))
    keys = "".join(
        f'<span class="key c{k % 4}"></span>{text(name)} &ensp;' for k, (name, _) in enumerate(curves) if name
    )
    best = _middle(section["risk"])[0]["best_guess"]
    unit = facts["protection"]["unit"]
    attacker = (
        "An attacker looks at the release and says from which of two data sets it was made."
        if unit == "data set"
        else f"An attacker who knows all of the data but one {unit} looks at the release and says whether that {unit} "
        "took part, or which of two candidates did."
    )
    simulated = _SIMULATED if facts["mechanisms"]["noise"] == "simulated" else ""
    return (
        f"{simulated}<p>It is {kinds[section['definition']]} with ε = {_up(section['epsilon'])} "
        f"and δ = {small(section['delta'])}. "
        "Who guesses right half of the time without what is published is right with probability "
        f"{percent(best)} at most with it. Whoever accuses only a few, as in the upper lines of the table, is "
        "right more often about them.</p>"
        f"<p>{attacker} No attack does better than this table. It was computed {source}.</p>"
        f"{_style.table(head, rows, numbers=range(len(head)))}"
        f'<div class="charts"><figure>{_style.trade_off_chart(curves)}</figure>'
        f"<figure>{_style.trade_off_chart(curves, log=True)}</figure></div>"
        "<p><small>First: linear axes. Second: logarithmic axes, for attackers who accuse few. "
        f"Dashed: guessing. {keys}</small></p>"
    )


def _middle(risks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Select risks at the middle distance; all of them where there is no distance."""
    places = list(dict.fromkeys(risk["distance"] for risk in risks))
    return [risk for risk in risks if risk["distance"] == places[len(places) // 2]]


def _assumptions(facts: Mapping[str, Any]) -> str:
    secret = "" if facts["mechanisms"] and facts["mechanisms"]["noise"] == "simulated" else _SECRET
    always = [
        f"the code runs as written: nobody changed it{secret}",
        "neighbouring inputs differ as said above, and whoever prepared the data did not let one person change the "
        "rows of others",
    ]
    parts = ["<p>Software cannot check these. Whoever signs confirms them.</p>"]
    parts.append(items([*facts["assumptions"], *always]))
    if facts["declared"]:
        rows = [[each["column"], each["declared"], _values(each)] for each in facts["declared"]]
        text = "<p>All of it must have been known without looking at the data.</p>"
        parts.append(f"<h3>Declared public</h3>{text}{_style.table(['column', 'declared as', 'values'], rows)}")
    return "".join(parts)


def _values(declared: Mapping[str, Any]) -> str:
    shown = declared["values"][:_MOST_VALUES]
    if declared["declared"] == "limits":
        return " to ".join(shown)
    more = declared["n_values"] - len(shown)
    return ", ".join(shown) + (f" and {_number(more)} more" if more else "")


def _mechanisms(facts: Mapping[str, Any]) -> str:
    section = facts["mechanisms"]
    if section is None:
        return "<p>Nothing was drawn.</p>"
    noise = {
        "secure": "Secure: cryptographic random bits that nobody can repeat, and integer noise drawn exactly from "
        "them.",
        "simulated": "SIMULATED, from a seed or played back. Not valid for release.",
        "stated": "Not known: the draws were made elsewhere.",
    }
    parts = [_style.pairs([("noise", noise[section["noise"]])])]
    if section["events"]:
        rows = [[*event_in_words(event), str(event["count"])] for event in section["events"]]
        n_draws = sum(event["count"] for event in section["events"])
        many = "one noisy draw" if n_draws == 1 else f"{_number(n_draws)} noisy draws"
        parts.append(f"<p>What is published came from {many}. Together they cost the ε and δ above.</p>")
        draws = _style.table(["draw", "noise, or cost of a selection", "times"], rows, numbers=(2,))
        parts.append(f"<details><summary>Every draw and its cost</summary>{draws}</details>")
    elif facts["subject"]["kind"] != "ledger":
        parts.append("<p>The draws are not listed in this guarantee.</p>")
    if section["adaptive"] and section["events"]:
        parts.append(
            "<p>Some draws were chosen after looking at results of others: only their sum, or a filter, counts.</p>"
        )
    if facts["steps"]:
        rows = []
        for step in facts["steps"]:
            budget = [_up(step["epsilon"]), small(step["delta"])] if step["role"] == "private" else ["", ""]
            columns = "all that came before" if step["columns"] is None else ", ".join(step["columns"])
            rows.append([step["does"], columns, step["role"], *budget])
        head = ["what it does", "to which columns", "with private rows", "ε", "δ"]
        text = "<p>Together they cost the ε above, which may be less than one of theirs: each has another δ.</p>"
        parts.append(f"<h3>Steps of the model</h3>{_style.table(head, rows, numbers=(3, 4), long=(0,))}{text}")
    if facts["fit_warnings"]:
        parts.append(
            f"<h3>Warnings of the fit, about its quality</h3>{items(each['text'] for each in facts['fit_warnings'])}"
        )
    theorem = _SOURCE_PAGE.sub(r"the documentation of skprivate (\1)", section["theorem"])
    more = [("proven in", theorem)] if theorem else []
    more += [("paid in entry", section["ledger_entry"])] if section["ledger_entry"] else []
    return "".join(parts) + _style.pairs(more)


def _ledger(ledger: Mapping[str, Any]) -> str:
    budget, spent, left = (ledger[name] for name in ("budget", "spent", "left"))
    further = f"one more may cost, with δ = {small(left['delta'], rounded_down)}"
    figures = [
        (f"ε = {rounded_up(spent['epsilon'], 4)}", f"spent, with δ = {small(spent['delta'])}"),
        (f"ε = {rounded_down(left['epsilon'], 4)}", further),
        (f"ε = {rounded_up(budget['epsilon'])}", f"budget, with δ = {small(budget['delta'])}"),
    ]
    whom = f"one {ledger['unit']} ({ledger['adjacency']})" if ledger["unit"] else "not yet decided"
    named = ("composition", "identity", "seal")
    names = [("protects", whom), ("for", ledger["purpose"]), *((name, ledger[name]) for name in named)]
    names += [("file", ledger["path"])] if ledger.get("path") else []
    shares = _few(ledger["shares"])
    chart = _style.budget_chart(budget["epsilon"], [(share["purpose"], share["epsilon"]) for share in shares])
    keys = "".join(
        f'<span class="key c{k}"></span>{text(share["purpose"])}: {share["entries"]} × &ensp;'
        for k, share in enumerate(shares)
    )
    lead = (
        "<p>Everything that was charged to this ledger is together within its budget, even where each release was "
        "chosen after seeing the earlier ones. Scores on private rows that nobody charged are not. "
        "Each ε holds at a δ of its own, and a larger δ allows a smaller ε: so one release may have another ε here, "
        "and parts may look larger than the whole.</p>"
    )
    return (
        f"{lead}{_style.grid(figures)}<figure>{chart}<figcaption>{keys}</figcaption></figure>"
        f"{_entries(ledger['entries'])}{_style.pairs(names)}"
    )


def _few(shares: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Select the largest purposes, one a colour; the last is all others."""
    if len(shares) <= 4:
        return list(shares)
    ranked = sorted(shares, key=lambda share: -share["epsilon"])
    rest = ranked[3:]
    others = {
        "purpose": f"{len(rest)} others",
        "entries": sum(share["entries"] for share in rest),
        "epsilon": math.fsum(share["epsilon"] for share in rest),
    }
    return [*ranked[:3], others]


def _entries(entries: Sequence[Mapping[str, Any]]) -> str:
    if not entries:
        return "<p>No entries.</p>"
    details = "user" in entries[0]
    head = ["#", "for", "ε", "δ", "release", "protects", "day (UTC)", "state"]
    head += ["by", "parameters", "data"] if details else []
    rows = []
    for entry in entries:
        within = f", paid by #{entry['reservation']}" if entry["reservation"] is not None else ""
        state = "closed" if entry["closed"] else "open"
        state += (", SIMULATED" if entry["simulated"] else "") + within
        unit = f"{entry['unit']}, {entry['adjacency']}" + (" (converted)" if entry["converted"] else "")
        cost = [rounded_up(entry["epsilon"], 4), small(entry["delta"])]
        row = [str(entry["id"]), entry["note"], *cost, entry["label"], unit, entry["opened"], state]
        if details:
            parameters = ", ".join(f"{name}={value}" for name, value in entry["parameters"].items())
            row += [f"{entry['user']}@{entry['host']}", parameters, entry["data"]]
        rows.append(row)
    whole = _style.table(head, rows, numbers=(0, 2, 3), long=(1, 9, 10))
    if n_open := sum(not entry["note"].strip() for entry in entries):
        whole += f"<p>{n_open} of {len(entries)} entries have no purpose: ask what they were for.</p>"
    if len(entries) <= _FOLDED:
        return whole
    return f"<details><summary>All {len(entries)} entries</summary>{whole}</details>"


def _audit(audit: Mapping[str, Any]) -> str:
    found, claimed = audit["epsilon_lower_bound"], audit["claimed_epsilon"]
    verdict, rest = _other_facts.audit_verdict(audit)
    shown = f"<p>{text(_other_facts.audit_in_words(audit))} The claim is <strong>{verdict}</strong>{text(rest)}.</p>"
    if found is not None and claimed is not None:
        shown += f"<figure>{_style.audit_chart(claimed, found, broken=audit['violated'])}</figure>"
    if not audit["same_claim"]:
        shown += "<p>The audit tested another claim than the guarantee of this report.</p>"
    return shown


def _answers(facts: Mapping[str, Any]) -> str:
    given = facts["answers"]
    items = "" if facts["titled"] else "<dt>Of which data is this, and for what? (the title)</dt>" + _OPEN
    for name, question in QUESTIONS.items():
        answer = given.get(name, "")
        items += f"<dt>{text(question)}</dt>"
        items += f"<dd>{text(answer)}</dd>" if answer.strip() else _OPEN
    model = {
        "central": "Central model: whoever runs the code sees the data before the noise is added.",
        "local": "Local model: noise is added to each row by itself. Where people do that on their own machines, "
        "nobody else has to be trusted; where somebody collects the rows first, that one has. Each call of "
        "transform is a release of its own, and costs again.",
    }[facts["trust_model"]]
    return f'<p>{model}</p><dl class="facts answers">{items}</dl>'


def _up(value: float | None, digits: int = 6) -> str:
    return "∞" if value is None else rounded_up(value, digits)
