"""A chain of records: each is sealed by a hash of itself and of the one before.

A record that was changed, moved, taken out or cut off the middle breaks the chain. Whoever can write the whole file
can seal a new chain; only somebody who kept an older seal notices that, as every handle does with the last it saw.

Every thousandth record is a checkpoint: what the records before it add up to. Who opens a long ledger reads from the
last one on; who reads the whole chain computes each checkpoint anew, and so does whoever is there when it is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

#: Every so many records, one of them is a checkpoint.
CHECKPOINT_EVERY = 1000


class Record(NamedTuple):
    """One line of a ledger.

    Parameters
    ----------
    number : int
        From 0, without gaps.
    text : str
        JSON of what happened.
    seal : str
        SHA-256 of the seal before, the number and the text, in hexadecimal digits.
    """

    number: int
    text: str
    seal: str


def is_checkpoint(number: int) -> bool:
    """Whether the record with that number is a checkpoint."""
    return number > 0 and number % CHECKPOINT_EVERY == 0


class DamagedLedgerError(ValueError):
    """A ledger's records are not those that were written: changed, cut, or from an older copy."""


def record(before: Record | None, content: dict[str, Any]) -> Record:
    """The record that follows ``before``."""
    number = 0 if before is None else before.number + 1
    # Floats print so that they read back the same; NumPy scalars become plain numbers.
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain, allow_nan=False)
    return Record(number, text, _seal(before, number, text))


def follow(before: Record | None, records: Iterable[Record], where: str) -> Iterable[Record]:
    """The records, each checked against the one before."""
    for found in records:
        number = 0 if before is None else before.number + 1
        if found.number != number or found.seal != _seal(before, number, found.text):
            raise DamagedLedgerError(
                f"The privacy ledger {where} is damaged: record {number} does not follow from those before. What was "
                "spent is not known for certain, so nothing is released. Restore the file from a copy that "
                "`skprivate ledger verify` accepts, or begin a new ledger with what is left for certain."
            )
        yield found
        before = found


def _seal(before: Record | None, number: int, text: str) -> str:
    return hashlib.sha256(f"{before.seal if before else ''}\n{number}\n{text}".encode()).hexdigest()


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
