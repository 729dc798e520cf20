"""Where a ledger's rows live: one SQLite file, or one in-memory database of this process.

A file is opened anew for every operation (about a millisecond). So no connection ever crosses a `fork`,
is left to a garbage collector or belongs to the wrong thread, and a `kill -9` leaves a committed row or
none.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from skprivate.privacy._ledger_terms import Terms

#: How long an operation waits for the other processes' transactions (seconds).
BUSY_TIMEOUT = 60.0
_APPLICATION_ID = 0x736B7076  # "skpv"
_FORMAT = 2
_READABLE = (1, 2)  # the first knew no ledgers for simulation: such a file is for releases

_SCHEMA = """
CREATE TABLE terms (
    identity TEXT NOT NULL, created TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    unit TEXT NOT NULL, adjacency TEXT, composition TEXT NOT NULL, rho REAL,
    simulation INTEGER NOT NULL
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, unit TEXT NOT NULL, adjacency TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL, rho REAL, events TEXT NOT NULL,
    opened TEXT NOT NULL, closed TEXT, simulated INTEGER NOT NULL, process_id INTEGER NOT NULL
);
CREATE INDEX prices ON entries (epsilon, delta, rho);
"""


class FileStore:
    """The ledger's file. Holds only its path and identity, so any process can use a copy."""

    def __init__(self, path: str, identity: str) -> None:
        self.path = path
        self.identity = identity

    @classmethod
    def create_or_open(cls, path: str, terms: Terms) -> tuple[FileStore, Terms]:
        """Create the file with ``terms`` unless it exists; return the terms that it holds."""
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            raise FileNotFoundError(f"path={path!r}: the folder {parent!r} does not exist; create it first.")
        with _plain_errors(path), closing(_connect(path, "rwc")) as connection:
            # A second creator waits here for the first one, and then finds its tables.
            with _transaction(connection, write=True):
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                    _fill(connection, terms)
            found = _read_terms(connection, path)
            _require_same(path, terms, found)
            connection.execute("PRAGMA journal_mode = WAL")
        return cls(path, found.identity), found

    @classmethod
    def open(cls, path: str) -> tuple[FileStore, Terms]:
        """Open an existing file; return the terms that it holds."""
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"path={path!r}: there is no privacy ledger; create it with its budget first."
            )
        with _plain_errors(path), closing(_connect(path, "rw")) as connection:
            found = _read_terms(connection, path)
        return cls(path, found.identity), found

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """One transaction: on the disk when left, rolled back on an exception."""
        if not os.path.exists(self.path):
            raise FileNotFoundError(
                f"The privacy ledger {self.path!r} is gone. What was spent there is not known here, so "
                "nothing is released; restore the file, or pass another ledger."
            )
        with _plain_errors(self.path), closing(_connect(self.path, "rw")) as connection:
            if _read_terms(connection, self.path).identity != self.identity:
                raise ValueError(
                    f"The file {self.path!r} now holds another privacy ledger than the one this handle "
                    "is for."
                )
            with _transaction(connection, write=write):
                yield connection


class MemoryStore:
    """A ledger that lives and dies with this process; its threads take turns."""

    path = None

    def __init__(self, terms: Terms) -> None:
        self.identity = terms.identity
        self._process_id = os.getpid()
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        with _transaction(self._connection, write=True):
            _fill(self._connection, terms)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """One transaction, rolled back on an exception."""
        if os.getpid() != self._process_id:
            raise RuntimeError(
                "This PrivacyLedger lives in the memory of the process that made it; a forked copy "
                "would spend the same budget twice. With a path, PrivacyLedger('study.ledger', …), "
                "all processes share it."
            )
        with self._lock, _transaction(self._connection, write=write):
            yield self._connection


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


def _fill(connection: sqlite3.Connection, terms: Terms) -> None:
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO terms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", terms)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {_FORMAT}")


def _read_terms(connection: sqlite3.Connection, path: str) -> Terms:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        raise ValueError(f"The file {path!r} is a database, but not a privacy ledger; choose another path.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in _READABLE:
        raise ValueError(
            f"{path!r} is a privacy ledger of format {version}; this version reads formats 1 to {_FORMAT}. Use the "
            "version of skprivate that wrote it, or a newer one."
        )
    terms = Terms(*connection.execute("SELECT * FROM terms").fetchone())
    return terms._replace(simulation=bool(terms.simulation))


def _require_same(path: str, wanted: Terms, found: Terms) -> None:
    differ = [
        f"{name}={getattr(found, name)!r}, not {getattr(wanted, name)!r}"
        for name in ("epsilon", "delta", "unit", "adjacency", "composition", "simulation")
        if getattr(found, name) != getattr(wanted, name)
        and not (name == "adjacency" and wanted.adjacency is None)
    ]
    if differ:
        raise ValueError(
            f"The privacy ledger {path!r} exists with {'; '.join(differ)}. A budget is fixed when its "
            f"ledger is created: open it with PrivacyLedger.open({path!r}), or choose another path."
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
        raise OSError(f"The privacy ledger {path!r} cannot be used: {error}. Nothing was spent.") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"The file {path!r} is not a privacy ledger, or is damaged: {error}.") from error
