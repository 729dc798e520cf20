"""Storage of a ledger: one SQLite file or a list, and the chain of sealed records in it.

A record that was changed, moved, taken out or cut off the middle breaks the chain. Whoever can write the whole file
can seal a new chain; only somebody who kept an older seal notices that, as every handle does with the last it saw.

A file is opened anew for every operation. So no connection crosses a `fork`, is left to a garbage collector or belongs
to the wrong thread, and a `kill -9` leaves a committed record or none.

What is committed is in the file itself. A write-ahead log needs one synchronisation less, but whoever loses the log, or
flips a bit in it, cuts the last records off without a trace. And its readers must write.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

#: How long an operation waits for the other processes' transactions (seconds).
BUSY_TIMEOUT = 60.0
_APPLICATION_ID = 0x736B7076  # "skpv"
_FORMAT = 4
#: What SQLite writes beside the file: the pages as they were before the transaction that is running.
JOURNAL = "-journal"
_SCHEMA = "CREATE TABLE journal (number INTEGER PRIMARY KEY, text TEXT NOT NULL, seal TEXT NOT NULL)"
#: Errors of the disk and its permissions, and not of what was read.
_UNAVAILABLE = {
    sqlite3.SQLITE_PERM: "opened",
    sqlite3.SQLITE_CANTOPEN: "written (its folder must be writable too)",
    sqlite3.SQLITE_READONLY: "written: it may only be read",
    sqlite3.SQLITE_FULL: "written",
    sqlite3.SQLITE_IOERR: "read or written",
    sqlite3.SQLITE_NOMEM: "read",
}


class Record(NamedTuple):
    """One line of a ledger: its number from 0, JSON of what happened, and the SHA-256 of both and the seal before."""

    number: int
    text: str
    seal: str


class DamagedLedgerError(ValueError):
    """A ledger's records are not those that were written: changed, cut, or from an older copy."""


def record(before: Record | None, content: dict[str, Any]) -> Record:
    """Make the record that follows ``before``."""
    number = 0 if before is None else before.number + 1
    # Floats print so that they read back the same; NumPy scalars become plain numbers.
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain, allow_nan=False)
    return Record(number, text, _seal(before, number, text))


def follow(before: Record | None, records: Iterable[Record], where: str) -> Iterable[Record]:
    """Check each record against the one before."""
    for record in records:
        number = 0 if before is None else before.number + 1
        if record.number != number or record.seal != _seal(before, number, record.text):
            raise DamagedLedgerError(
                f"The privacy ledger {where} is damaged: record {number} does not follow from those before. What was "
                "spent is not known for certain, so nothing is released. Restore the file from a copy that "
                "`skprivate ledger verify` accepts, or begin a new ledger with what is left for certain."
            )
        yield record
        before = record


def _seal(before: Record | None, number: int, text: str) -> str:
    return hashlib.sha256(f"{before.seal if before else ''}\n{number}\n{text}".encode()).hexdigest()


def _plain(value: object) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


class FileJournal:
    """The records of a file inside one transaction, and those that it has ``written``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.written: list[Record] = []

    def since(self, number: int) -> list[Record]:
        """Read all records from ``number`` on."""
        rows = self._connection.execute(
            "SELECT number, text, seal FROM journal WHERE number >= ? ORDER BY number", (number,)
        )
        return [Record(*row) for row in rows]

    def append(self, new: Record) -> None:
        """Write one record."""
        self._connection.execute("INSERT INTO journal VALUES (?, ?, ?)", new)
        self.written.append(new)


class MemoryJournal:
    """The records of a ledger in memory; what a transaction appends is among them when it has ended well."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self.written: list[Record] = []

    def since(self, number: int) -> list[Record]:
        """Return all records from ``number`` on."""
        return self._records[number:]

    def append(self, new: Record) -> None:
        """Write one record."""
        self.written.append(new)


class FileStore:
    """The ledger's file. Holds only its path, so any process can use a copy."""

    #: Whether it is that of a quote, where nothing but the costs is seen.
    forgotten = False

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def create_or_open(cls, path: str, first: Record) -> FileStore:
        """Create the file with its first record unless it exists."""
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            raise FileNotFoundError(f"path={path!r}: the folder {parent!r} does not exist; create it first.")
        with _plain_errors(path), closing(_connect(path, "rwc")) as connection:
            # A second creator waits here for the first one, and then finds its table.
            with _transaction(connection, write=True):
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                    connection.execute(_SCHEMA)
                    FileJournal(connection).append(first)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {_FORMAT}")
            _require_ledger(connection, path)
        return cls(path)

    @classmethod
    def open(cls, path: str) -> FileStore:
        """Open an existing file."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"path={path!r}: there is no privacy ledger; create it with its budget first.")
        return cls(path)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[FileJournal]:
        """Open a transaction: on the disk when left, rolled back on an exception."""
        if not os.path.exists(self.path):
            raise FileNotFoundError(
                f"The privacy ledger {self.path!r} is gone. What was spent there is not known here, so "
                "nothing is released; restore the file, or pass another ledger."
            )
        with _plain_errors(self.path), ExitStack() as stack:
            connection = self._connected(stack, write=write)
            with _transaction(connection, write=write):
                yield FileJournal(connection)

    def _connected(self, stack: ExitStack, *, write: bool) -> sqlite3.Connection:
        try:
            connection = stack.enter_context(closing(_connect(self.path, "rw")))
            _require_ledger(connection, self.path)
        except sqlite3.OperationalError as error:
            # A killed process has left pages half written, and who may not write cannot set them right: in a copy.
            if write or _code(error) not in _UNAVAILABLE:
                raise
            copy = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "ledger")
            self._copy_to(copy)
            connection = stack.enter_context(closing(_connect(copy, "rw")))
            _require_ledger(connection, self.path)
        return connection

    def _copy_to(self, copy: str) -> None:
        """Copy the file and its journals while nobody writes them."""
        parts = ("", JOURNAL, "-wal")
        for _ in range(100):
            before = [_changed_at(self.path + part) for part in parts]
            for part in parts:
                with suppress(FileNotFoundError):
                    os.unlink(copy + part)
                with suppress(FileNotFoundError):
                    shutil.copyfile(self.path + part, copy + part)
            if before == [_changed_at(self.path + part) for part in parts]:
                return
        raise TimeoutError(f"The privacy ledger {self.path!r} changes faster than it can be read.")


class MemoryStore:
    """A ledger that lives and dies with this process."""

    path = None
    forgotten = False

    def __init__(self, *records: Record) -> None:
        self._process_id = os.getpid()
        self._records = list(records)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[MemoryJournal]:
        """Open a transaction."""
        if os.getpid() != self._process_id:
            raise RuntimeError(
                "This PrivacyLedger lives in the memory of the process that made it; a forked copy "
                "would spend the same budget twice. With a path, PrivacyLedger('study.ledger', …), "
                "all processes share it."
            )
        journal = MemoryJournal(self._records)
        yield journal
        self._records.extend(journal.written)


def _connect(path: str, mode: str) -> sqlite3.Connection:
    uri = f"{Path(path).as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT)
    try:
        # Its file stays, to be written over: to make and to delete it for each record takes three times as long.
        connection.execute("PRAGMA journal_mode = PERSIST")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _changed_at(path: str) -> tuple[int, int, int] | None:
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


@contextmanager
def _transaction(connection: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _require_ledger(connection: sqlite3.Connection, path: str) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        raise ValueError(f"The file {path!r} is a database, but not a privacy ledger; choose another path.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != _FORMAT:
        raise ValueError(
            f"{path!r} is a privacy ledger of format {version}; this version reads format {_FORMAT}. What is left of "
            "an older one can be the budget of a new one."
        )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code; 0 for an error of Python's own, such as text that cannot be decoded."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _plain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise TimeoutError(
                f"The privacy ledger {path!r} was busy for {BUSY_TIMEOUT:g} s; nothing was spent. Was "
                "a process stopped inside a transaction, or is this a network file system without "
                "locks?"
            ) from error
        if code in _UNAVAILABLE:
            raise OSError(
                f"The privacy ledger {path!r} cannot be {_UNAVAILABLE[code]}: {error}. Nothing was charged or given "
                "back, and nothing is drawn that is not charged."
            ) from error
        raise DamagedLedgerError(f"The privacy ledger {path!r} is damaged: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise DamagedLedgerError(f"The file {path!r} is not a privacy ledger, or is damaged: {error}.") from error
