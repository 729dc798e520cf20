"""The console command ``skprivate``: a privacy ledger for those who do not write Python.

::

    skprivate ledger report study.ledger --output study.html
    skprivate ledger show study.ledger --last 20
    skprivate ledger export study.ledger --format csv --output study.csv
    skprivate ledger verify study.ledger --seal 3f0a…
    skprivate audit scores.csv --design one-run --epsilon 1
    skprivate audit runs.csv --design independent --epsilon 1 --delta 1e-5 --format json

Nothing here writes to a ledger, so a file that may only be read is enough. Every command on a ledger reads and checks
all records. The exit code is 0 if all is well, 1 if records are damaged or missing or a claim is refuted, 2 for
arguments and files that cannot be used.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import skprivate
from skprivate._messages import rounded_down, rounded_up, visible
from skprivate.privacy import DamagedLedgerError, LedgerEntry, PrivacyLedger
from skprivate.privacy.ledger import ENTRY_COLUMNS

__all__ = ["main"]

#: Words for members and others, lower case.
_WORDS = {**dict.fromkeys(("1", "1.0", "true", "yes"), True), **dict.fromkeys(("0", "0.0", "false", "no"), False)}
_METHODS = {"independent": "clopper-pearson", "one-run": "one-run"}
#: Controls of a terminal, line breaks among them.
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def add_audit(groups: object) -> None:
    """Add ``audit`` to the subcommands."""
    text = "what scores with known membership prove of epsilon"
    parser = groups.add_parser("audit", help=text, description=f"{text.capitalize()}, against a claim.")
    parser.add_argument("path", help="CSV file with a header: a row for each record (one-run) or run (independent)")
    parser.add_argument(
        "--design",
        required=True,
        choices=tuple(_METHODS),
        help="one-run: all scores from one run, into which each record was put at random; independent: each "
        "score from an independent run of its own",
    )
    parser.add_argument("--epsilon", type=float, required=True, help="the claim")
    parser.add_argument("--delta", type=float, default=0.0, help="the claim, default: 0")
    parser.add_argument("--p-member", type=float, default=0.5, help="one-run: probability of a member, default: 0.5")
    parser.add_argument("--confidence", type=float, default=0.95, help="default: 0.95")
    parser.add_argument("--score", default="score", metavar="COLUMN", help="default: score; larger for members")
    parser.add_argument("--member", default="member", metavar="COLUMN", help="default: member; 0/1, yes/no")
    parser.add_argument("--seed", type=int, default=0, help="of the split and of the order of ties, default: 0")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--output", "-o", metavar="FILE", help="write there, not to the terminal")
    parser.set_defaults(run=audit)


def audit(options: argparse.Namespace) -> tuple[str, int]:
    """Read the file, bound ε, and compare."""
    # With all of audits and scikit-learn, which takes seconds: other commands do not wait for it.
    from skprivate.audit import epsilon_lower_bound

    if not (math.isfinite(options.epsilon) and options.epsilon > 0):
        raise ValueError(f"--epsilon must be a positive finite number, got {options.epsilon!r}.")
    if options.design == "independent" and options.p_member != 0.5:
        raise ValueError("--p-member belongs to --design one-run: independent runs may have any number of members.")
    scores, members = _read(Path(options.path), options.score, options.member)
    bound = epsilon_lower_bound(
        scores,
        members,
        method=_METHODS[options.design],
        delta=options.delta,
        confidence=options.confidence,
        random_state=options.seed,
        **({} if options.design == "independent" else {"p_member": options.p_member}),
    )
    refuted = bound > options.epsilon
    facts = {
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
        return json.dumps(facts, indent=2, ensure_ascii=False), int(refuted)
    delta = f", delta {options.delta:g}" if options.delta else ""
    verdict = "REFUTED" if refuted else "not refuted"
    text = (
        f"{len(scores)} scores, {sum(members)} of members, {options.design}\n"
        f"epsilon is at least {bound:.4g} at confidence {options.confidence:g}\n"
        f"the claim of epsilon {options.epsilon:g}{delta} is {verdict}"
    )
    return text, int(refuted)


def _read(path: Path, score: str, member: str) -> tuple[list[float], list[bool]]:
    """Read two columns of a CSV file; messages name rows, never their values."""
    scores, members = [], []
    lines = io.StringIO(_decoded(path.read_bytes()), newline="")
    header = lines.readline()
    delimiter = max(",;\t|", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
    if missing := [name for name in (score, member) if name not in names]:
        raise ValueError(
            f"the file must have a header with the columns {score!r} and {member!r}; {missing[0]!r} is missing, "
            f"as read with the delimiter {delimiter!r}. --score and --member name others."
        )
    for number, row in enumerate(csv.DictReader(lines, names, delimiter=delimiter), start=2):
        try:
            value = float(row[score])
            is_member = _WORDS[(row[member] or "").strip().lower()]
        except (TypeError, ValueError, KeyError):
            raise ValueError(
                f"row {number} must hold a number with a decimal point in {score!r}, and 0/1, true/false or yes/no in "
                f"{member!r}, as read with the delimiter {delimiter!r}."
            ) from None
        if not math.isfinite(value):
            raise ValueError(f"row {number} must hold a finite number in {score!r}.")
        scores.append(value)
        members.append(is_member)
    return scores, members


def _decoded(data: bytes) -> str:
    """Decode a text in UTF-8, or in UTF-16 with a byte order mark."""
    try:
        return data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file must be encoded in UTF-8, or in UTF-16 with a byte order mark.") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments after ``skprivate`` on the command line; by default the process's own.

    Returns
    -------
    int
        The exit code: 0, 1 for a damaged ledger or a refuted claim, 2 for a file that cannot be used.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.group == "audit":
            text, code = options.run(options)
        else:
            text, code = options.run(PrivacyLedger.open(options.path), options)
        if options.output is None:
            _print(text, "utf-8" if options.run is _export else sys.stdout.encoding or "utf-8")
        else:
            _write(Path(options.output), Path(options.path), text)
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        # What is still in the buffer goes nowhere when the interpreter ends, and says nothing about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DamagedLedgerError as error:
        print(error, file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return int(code)


def _print(text: str, encoding: str) -> None:
    """Print in an encoding: a table in the terminal's, what programs read in UTF-8, as JSON must be."""
    data = text.encode(encoding, "backslashreplace")  # notes hold what somebody wrote, perhaps in no encoding at all
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    else:  # a stream of text that somebody put there
        sys.stdout.write(data.decode(encoding))
    sys.stdout.flush()


def _write(output: Path, ledger: Path, text: str) -> None:
    """Write the text, but not in place of the ledger or of the files that belong to it."""
    if output.resolve() in [Path(f"{ledger.resolve()}{suffix}") for suffix in ("", "-journal")] or (
        output.exists() and output.samefile(ledger)
    ):
        raise ValueError(f"--output must be another file than the ledger, got {str(output)!r}.")
    output.write_bytes(text.encode("utf-8", "backslashreplace"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skprivate", description=__doc__.partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"%(prog)s {skprivate.__version__}")
    groups = parser.add_subparsers(required=True, metavar="ledger|audit", dest="group")
    ledger = groups.add_parser("ledger", help="look at a privacy ledger", description="Look at a privacy ledger.")
    commands = ledger.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Callable[..., tuple[str, int]], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        made.add_argument("path", help="file of the ledger")
        made.add_argument("--output", "-o", metavar="FILE", help="write there, not to the terminal")
        made.set_defaults(run=run)
        return made

    report = command("report", _report, "a page for reviewers, or its JSON: what was promised, spent and is left")
    report.add_argument("--format", choices=("html", "json"), default="html", help="default: html")
    report.add_argument("--title", help="heading of the page")
    report.add_argument(
        "--details", action="store_true", help="accounts, machines, parameters and the file's path as well"
    )
    show = command("show", _show, "the budget, what is left of it, and the entries, as a table")
    export = command("export", _export, "all entries for other programs, in UTF-8")
    for made in (show, export):
        made.add_argument("--last", type=_count, metavar="N", help="only the last N entries")
    export.add_argument("--format", choices=("csv", "json", "jsonl"), default="csv", help="default: csv")
    verify = command("verify", _verify, "check every record, and the last one against a seal noted before")
    verify.add_argument("--seal", help="a seal noted before, or its first 8 digits: it must be among the records")
    add_audit(groups)
    return parser


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1, got {text!r}")
    return number


def _asked(ledger: PrivacyLedger, options: argparse.Namespace) -> list[LedgerEntry]:
    """List the entries that the options ask for."""
    entries = ledger.entries()
    return entries if options.last is None else entries[-options.last :]


def _show(ledger: PrivacyLedger, options: argparse.Namespace) -> tuple[str, int]:
    entries = _asked(ledger, options)
    lines = [f"{name:<12}{value}" for name, value in summary(ledger).items()]
    rows = [("#", "release", "epsilon", "delta", "protects", "day (UTC)", "by", "for", "state")]
    for entry in entries:
        state = "closed" if entry.closed else "open"
        within = f" in #{entry.reservation}" if entry.reservation is not None else ""
        rows.append(
            (
                str(entry.id),
                entry.label + within,
                rounded_up(entry.epsilon),
                rounded_up(entry.delta),
                entry.unit + (" (converted)" if entry.converted else ""),
                entry.opened,
                f"{entry.user}@{entry.host}",
                entry.note,
                state + (", simulated" if entry.simulated else ""),
            )
        )
    if len(entries) < (count := len(ledger.entries())):
        lines += ["", f"the last {len(entries)} of {count} entries:"]
    # What moves the cursor or turns a line round is not printed; what has no encoding is escaped with the whole text.
    rows = [tuple(visible(_BREAKS.sub("·", cell)) for cell in row) for row in rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *(table if entries else ["no entries"]), ""]), 0


def summary(ledger: PrivacyLedger) -> dict[str, Any]:
    """Summarise a ledger for the lines above its entries, by name."""
    epsilon, delta = ledger.spent
    left, left_delta = ledger.remaining
    return {
        "ledger": str(ledger.path),
        "protects": f"one {ledger.unit}" + f" ({ledger.adjacency})" * bool(ledger.adjacency)
        if ledger.unit
        else "not yet decided",
        "budget": f"epsilon {rounded_up(ledger.epsilon)}, delta {rounded_up(ledger.delta)}, "
        f"composition {ledger.composition}",
        "spent": f"epsilon {rounded_up(epsilon)}, delta {rounded_up(delta)}",
        "left": f"epsilon {rounded_down(left)}, delta {rounded_down(left_delta)}",
        "for": "dry runs, nothing to be released"
        if ledger.dry_run
        else "simulation only, nothing to be released"
        if ledger.simulation
        else "releases",
        "seal": ledger.seal,
    }


def _report(ledger: PrivacyLedger, options: argparse.Namespace) -> tuple[str, int]:
    # Reports know of audits, and these of scikit-learn, which takes seconds: the other commands do not wait for it.
    from skprivate.report import privacy_report

    report = privacy_report(ledger, title=options.title, details=options.details)
    return report.to_json() if options.format == "json" else report.to_html(), 0


def _export(ledger: PrivacyLedger, options: argparse.Namespace) -> tuple[str, int]:
    entries = [entry.to_dict() for entry in _asked(ledger, options)]
    if options.format == "json":
        terms = "identity epsilon delta unit adjacency composition simulation dry_run rows_per_user public_features"
        content = {
            **{name: getattr(ledger, name) for name in terms.split()},
            "spent": dict(zip(("epsilon", "delta"), ledger.spent, strict=True)),
            "remaining": dict(zip(("epsilon", "delta"), ledger.remaining, strict=True)),
            "seal": ledger.seal,
            "entries": entries,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n", 0
    if options.format == "jsonl":
        return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries), 0
    table = io.StringIO()
    writer = csv.DictWriter(table, list(ENTRY_COLUMNS), lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        nested = {name: json.dumps(entry[name], ensure_ascii=False) for name in ("events", "parameters")}
        writer.writerow({**entry, **nested})
    return table.getvalue(), 0


def _verify(ledger: PrivacyLedger, options: argparse.Namespace) -> tuple[str, int]:
    if options.seal is not None and not re.fullmatch("[0-9a-fA-F]{8,64}", options.seal):
        raise ValueError(f"--seal must be 8 to 64 hexadecimal digits, got {options.seal!r}.")
    seals = ledger.seals()  # reads every record
    count = f"{len(seals)} records, {len(ledger.entries())} entries: each follows from the one before."
    if options.seal is None:
        return f"{count}\nseal {seals[-1]}\n", 0
    if not any(seal.startswith(options.seal.lower()) for seal in seals):
        return (f"{count}\nBut none has the seal {options.seal}: this is an older copy, or another ledger.\n", 1)
    return f"{count}\nThe seal {options.seal} is among them.\n", 0


if __name__ == "__main__":
    raise SystemExit(main())
