"""Where a ledger's records live: one SQLite file, or a list of this process.

A file is opened anew for every operation (about a millisecond). So no connection ever crosses a `fork`,
is left to a garbage collector or belongs to the wrong thread, and a `kill -9` leaves a committed record or
none.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from skprivate.privacy._ledger_journal import DamagedLedgerError, Record

#: How long an operation waits for the other processes' transactions (seconds).
BUSY_TIMEOUT = 60.0
_APPLICATION_ID = 0x736B7076  # "skpv"
_FORMAT = 3

_SCHEMA = "CREATE TABLE journal (number INTEGER PRIMARY KEY, text TEXT NOT NULL, seal TEXT NOT NULL)"


class FileJournal:
    """The records of a file inside one transaction.

    Attributes
    ----------
    written : list of Record
        What this transaction appended.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.written: list[Record] = []

    def since(self, number: int) -> list[Record]:
        """All records from ``number`` on."""
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
        """All records from ``number`` on."""
        return self._records[number:]

    def append(self, new: Record) -> None:
        """Write one record."""
        self.written.append(new)


class FileStore:
    """The ledger's file. Holds only its path, so any process can use a copy.

    Attributes
    ----------
    forgotten : bool
        Whether it is that of a quote, of which nothing but the prices is seen.
    """

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
            connection.execute("PRAGMA journal_mode = WAL")
        return cls(path)

    @classmethod
    def open(cls, path: str) -> FileStore:
        """Open an existing file."""
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"path={path!r}: there is no privacy ledger; create it with its budget first."
            )
        return cls(path)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[FileJournal]:
        """One transaction: on the disk when left, rolled back on an exception."""
        if not os.path.exists(self.path):
            raise FileNotFoundError(
                f"The privacy ledger {self.path!r} is gone. What was spent there is not known here, so "
                "nothing is released; restore the file, or pass another ledger."
            )
        with _plain_errors(self.path), self._connected(write=write) as connection:
            _require_ledger(connection, self.path)
            with _transaction(connection, write=write):
                yield FileJournal(connection)

    @contextmanager
    def _connected(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        folder = os.path.dirname(self.path)
        if write or (os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)):
            with closing(_connect(self.path, "rw")) as connection:
                yield connection
            return
        # Readers of a write-ahead log write beside the file. Who may not reads a copy, the log included.
        with tempfile.TemporaryDirectory() as copy:
            for suffix in ("", "-wal"):
                if os.path.exists(self.path + suffix):
                    shutil.copyfile(self.path + suffix, os.path.join(copy, "ledger" + suffix))
            with closing(_connect(os.path.join(copy, "ledger"), "rw")) as connection:
                yield connection


class MemoryStore:
    """A ledger that lives and dies with this process."""

    path = None
    forgotten = False

    def __init__(self, first: Record) -> None:
        self._process_id = os.getpid()
        self._records = [first]

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[MemoryJournal]:
        """One transaction."""
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
    connection.execute("PRAGMA synchronous = FULL")
    return connection


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


@contextmanager
def _plain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise TimeoutError(
                f"The privacy ledger {path!r} was busy for {BUSY_TIMEOUT:g} s; nothing was spent. Was "
                "a process stopped inside a transaction, or is this a network file system without "
                "locks?"
            ) from error
        if "malformed" not in str(error) and "no such" not in str(error):
            raise OSError(
                f"The privacy ledger {path!r} cannot be used: {error}. Nothing was spent."
            ) from error
        raise DamagedLedgerError(f"The privacy ledger {path!r} is damaged: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise DamagedLedgerError(
            f"The file {path!r} is not a privacy ledger, or is damaged: {error}."
        ) from error
