"""A durable privacy budget of one data set, shared by many fits, threads and processes."""

from __future__ import annotations

import html
import os
import sqlite3
from typing import Any

from skprivate.privacy._dialect import rounded_up
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._ledger_entries import (
    LedgerEntry,
    entries_frame,
    entries_html,
    open_entry,
    read_entries,
    set_price,
    to_json,
)
from skprivate.privacy._ledger_rules import RULES, Price
from skprivate.privacy._ledger_store import FileStore, MemoryStore
from skprivate.privacy._ledger_terms import Terms, checked_terms, now, require_kind, require_noise

__all__ = ["LedgerEntry", "PrivacyLedger"]


class PrivacyLedger:
    """A durable privacy budget of one data set, shared by many fits, threads and processes.

    Pass the same ledger as ``ledger=`` to every estimator that is fitted on the same data. Each release
    commits its price here *before* it draws, in one transaction; a release that does not fit is refused
    with `BudgetExceededError`, having drawn and written nothing. A process that dies between price and
    draw has wasted that budget: it stays charged.

    Copies do not multiply the budget: `copy`, `deepcopy`, `sklearn.base.clone` (so every fit of a grid
    search) and, for a ledger with a path, `pickle` (so every worker process of joblib) hand on a handle
    to the same store.

    Parameters
    ----------
    path : str or os.PathLike, default=None
        File of the ledger. Created if it does not exist; else opened, and the budget given here must be
        the one it was created with (`PrivacyLedger.open` opens it without the numbers). None keeps the
        ledger in the memory of this process: its threads share it, and it refuses to be pickled.
    epsilon : float
        Budget ε > 0 of all releases together.
    delta : float, default=0.0
        Budget δ in [0, 1) of all releases together.
    unit : PrivacyUnit or str, default="row"
        The unit of privacy; releases with another unit are refused.
    composition : {"basic", "zcdp"}, default="basic"
        How prices add up. "basic": Σε ≤ ε and Σδ ≤ δ. "zcdp": Σρ ≤ ρ*, the largest ρ for which ρ-zCDP implies
        (ε, δ)-DP by the RDP accountant; much cheaper for many Gaussian releases, needs δ > 0, and takes only
        releases that have a zCDP price.
    adjacency : str, default=None
        The neighbouring relation of all entries: "replace-one", "add-remove", or "metric: " and the name of the
        distance. None: that of the first release.
    simulation : bool, default=False
        Whether the ledger is for trials with seeded noise, which are never released. True: it refuses secure noise,
        whose price belongs to the data's own ledger. False: a ledger with a path refuses seeded noise, set by you or
        by a meta-estimator; one in memory takes both, and marks them.

    Raises
    ------
    ValueError
        A value that is not allowed, or other ones than the existing file was created with.
    FileNotFoundError
        The folder of ``path`` does not exist.

    See Also
    --------
    BudgetExceededError : What a release that does not fit raises.

    Notes
    -----
    *Guarantee.* All releases charged to one ledger are together (ε, δ)-differentially private
    for its unit and adjacency, even where each release and its price are chosen after seeing the earlier
    ones, and where several run at the same time: both rules are fully adaptive privacy filters ([1]_ for
    sums of (ε, δ), [2]_ for Rényi and zero-concentrated prices), and they hold for interleaved
    interactive mechanisms as well [3]_. The fits of a cross-validation are added up like any others; no
    use is made of disjoint folds.

    *Never a cent over.* Prices are added in exact decimal arithmetic. A float stands for the decimal number
    that it prints as, so ten releases at 0.1 fill a budget of 1 exactly, in any order.

    *Adjacency is not converted.* Replacing a unit is removing one and adding one, so the price (ε, 0)
    under add-remove is (2ε, 0) under replace-one, and ρ is 4ρ. Which of them a budget means is for its
    owner to say: a release under the other one is refused.

    *Simulated releases.* A file is either for releases or for simulation, so that every entry of the one is a real
    release, and no real release is charged to the other. In memory, simulated releases are charged and marked.

    *Durability.* SQLite with a write-ahead log, synchronised to the disk at each commit. The processes
    share memory beside the file, so it must lie on a local file system. A handle whose file was deleted
    or exchanged refuses to work; a file that was edited or restored from an old copy has forgotten what
    was spent.

    References
    ----------
    .. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters:
       Pay-as-you-go composition", NeurIPS 2016.
    .. [2] V. Feldman, T. Zrnic, "Individual privacy accounting via a Rényi filter", NeurIPS 2021.
    .. [3] S. Haney et al., "Concurrent composition for interactive differential privacy with adaptive
       privacy-loss parameters", CCS 2023.

    Examples
    --------
    >>> from skprivate.privacy import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-6, unit="user")
    >>> entry = ledger.reserve(
    ...     "UserLevelSGDRegressor", epsilon=0.75, delta=5e-7, rho=None, unit="user", adjacency="replace-one",
    ...     events=[], simulated=False,
    ... )
    >>> ledger.spent, ledger.remaining
    ((0.75, 5e-07), (0.25, 5e-07))
    >>> ledger
    PrivacyLedger(in memory: epsilon 0.75 of 1, delta 5e-07 of 1e-06 spent per user in 1 entry)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float,
        delta: float = 0.0,
        unit: str = "row",
        composition: str = "basic",
        adjacency: str | None = None,
        simulation: bool = False,
    ) -> None:
        terms = checked_terms(epsilon, delta, unit, adjacency, composition, simulation)
        if path is None:
            self._bind(MemoryStore(terms), terms)
            return
        store, found = FileStore.create_or_open(os.path.abspath(os.fspath(path)), terms)
        self._bind(store, found)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PrivacyLedger:
        """Open the existing ledger at ``path``, with the budget that it was created with.

        Parameters
        ----------
        path : str or os.PathLike
            File of the ledger.

        Returns
        -------
        ledger : PrivacyLedger
            A handle to it.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        ValueError
            The file is no privacy ledger.
        """
        return _handle(*FileStore.open(os.path.abspath(os.fspath(path))))

    def _bind(self, store: FileStore | MemoryStore, terms: Terms) -> None:
        self._store = store
        self._terms = terms
        self._rule = RULES[terms.composition](Price(terms.epsilon, terms.delta, terms.rho))

    def reserve(
        self,
        label: str,
        *,
        epsilon: float,
        delta: float,
        rho: float | None,
        unit: str,
        adjacency: str,
        events: list[dict[str, Any]],
        simulated: bool,
    ) -> int:
        """Charge the price of a release that is about to draw.

        Parameters
        ----------
        label : str
            Who draws.
        epsilon, delta : float
            Price of what is about to be drawn.
        rho : float or None
            The same price in zero-concentrated differential privacy, if there is one.
        unit, adjacency : str
            Of the release; must be the ledger's.
        events : list of dict
            What is about to be drawn, as plain values.
        simulated : bool
            Whether the noise comes from a seed.

        Returns
        -------
        entry : int
            Number of the new entry, for `increase` and `close_entry`.

        Raises
        ------
        BudgetExceededError
            The price does not fit; nothing was written.
        SimulatedNoiseError
            Seeded noise in a file for releases, or secure noise in a ledger for simulation.
        ValueError
            Another unit or adjacency than the ledger's, or a price that is no price.
        """
        price = Price.checked(epsilon, delta, rho)
        unit, adjacency = str(unit), str(adjacency)  # members of enumerations are their values
        row = (label, unit, adjacency, *price, to_json(events), now(), bool(simulated), os.getpid())
        with self._store.transaction(write=True) as connection:
            require_noise(self._terms, self.path, label, simulated=simulated)
            require_kind(self._terms, self._current_adjacency(connection), label, unit, adjacency)
            self._require_room(connection, label, price, old=Price(0.0, 0.0, 0.0))
            cursor = connection.execute(
                "INSERT INTO entries (label, unit, adjacency, epsilon, delta, rho, events, opened, simulated,"
                " process_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        return int(cursor.lastrowid or 0)

    def increase(
        self, entry: int, *, epsilon: float, delta: float, rho: float | None, events: list[dict[str, Any]]
    ) -> None:
        """Charge an open release its new total price, before it draws more.

        Parameters
        ----------
        entry : int
            What `reserve` returned.
        epsilon, delta, rho : float
            The new total, as in `reserve`.
        events : list of dict
            All of its events, with those about to be drawn.

        Raises
        ------
        BudgetExceededError
            The new total does not fit; nothing was written.
        ValueError
            The entry does not exist or is closed.
        """
        price = Price.checked(epsilon, delta, rho)
        with self._store.transaction(write=True) as connection:
            label, old = open_entry(connection, entry)
            self._require_room(connection, label, price, old=old)
            set_price(connection, entry, price, events)

    def close_entry(
        self, entry: int, *, epsilon: float, delta: float, rho: float | None, events: list[dict[str, Any]]
    ) -> None:
        """Close a release at its final price, lower than charged where less was drawn than reserved.

        Parameters
        ----------
        entry : int
            What `reserve` returned.
        epsilon, delta, rho : float
            The final price, at most the charged one.
        events : list of dict
            What was drawn.

        Raises
        ------
        ValueError
            The entry does not exist or is closed, or the price is higher than the charged one.
        """
        price = Price.checked(epsilon, delta, rho)
        with self._store.transaction(write=True) as connection:
            label, charged = open_entry(connection, entry)
            if price.exceeds(charged):
                raise ValueError(
                    f"Entry {entry} ({label}) cannot close at {price}: only {charged} was charged."
                )
            set_price(connection, entry, price, events)
            connection.execute("UPDATE entries SET closed = ? WHERE id = ?", (now(), entry))

    def _require_room(self, connection: sqlite3.Connection, label: str, price: Price, *, old: Price) -> None:
        if self._rule.fits(connection, price, old):
            return
        remaining = self._rule.remaining(connection)
        before = f" ({old} of it was charged already)" if any(old) else ""
        raise BudgetExceededError(
            f"{label} needs {price}{before}, but this ledger has {remaining} left of "
            f"{self._rule.budget}. Nothing was drawn or spent. Ask for no more than what is left, make "
            "fewer releases, or agree on a "
            "larger budget, in a new ledger, before the data is used again.",
            required=price[:2],
            remaining=remaining[:2],
        )

    @property
    def path(self) -> str | None:
        """File of the ledger; None for a ledger in memory."""
        return self._store.path

    @property
    def epsilon(self) -> float:
        """Budget ε."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """Budget δ."""
        return self._terms.delta

    @property
    def unit(self) -> str:
        """The unit of privacy that the budget is for."""
        return self._terms.unit

    @property
    def composition(self) -> str:
        """How prices add up: "basic" or "zcdp"."""
        return self._terms.composition

    @property
    def simulation(self) -> bool:
        """Whether the ledger is for trials with seeded noise only."""
        return self._terms.simulation

    @property
    def adjacency(self) -> str | None:
        """The neighbouring relation of all entries; None before the first one, unless given."""
        with self._store.transaction(write=False) as connection:
            return self._current_adjacency(connection)

    def _current_adjacency(self, connection: sqlite3.Connection) -> str | None:
        first = connection.execute("SELECT adjacency FROM entries ORDER BY id LIMIT 1").fetchone()
        return first[0] if first else self._terms.adjacency

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) of all entries together, rounded up."""
        with self._store.transaction(write=False) as connection:
            return self._rule.spent(connection)

    @property
    def remaining(self) -> tuple[float, float]:
        """(ε, δ) that is left, rounded down; under "zcdp", what the ρ that is left is worth on its own."""
        with self._store.transaction(write=False) as connection:
            return self._rule.remaining(connection)[:2]

    @property
    def remaining_rho(self) -> float | None:
        """ρ that is left, rounded down; None under "basic"."""
        with self._store.transaction(write=False) as connection:
            return self._rule.remaining(connection).rho

    def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first.

        Returns
        -------
        entries : list of LedgerEntry
            One for each release, open ones included.
        """
        with self._store.transaction(write=False) as connection:
            return read_entries(connection)

    def to_frame(self) -> Any:
        """The entries as a table.

        Returns
        -------
        frame : pandas.DataFrame
            One row for each entry, indexed by its number. Needs pandas.
        """
        return entries_frame(self.entries())

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else repr(self.path)
        try:
            with self._store.transaction(write=False) as connection:
                epsilon, delta = self._rule.spent(connection)
                (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        except (OSError, ValueError, RuntimeError):
            return f"PrivacyLedger({where}: out of reach)"
        entries = f"{count} {'entry' if count == 1 else 'entries'}"
        note = ", simulation only" if self.simulation else ""
        return (
            f"PrivacyLedger({where}: epsilon {rounded_up(epsilon)} of {self.epsilon:.6g}, delta "
            f"{rounded_up(delta)} of {self.delta:.6g} spent per {self.unit} in {entries}{note})"
        )

    def _repr_html_(self) -> str:
        return f"<div><p>{html.escape(repr(self))}</p>{entries_html(self.entries())}</div>"

    def __sklearn_clone__(self) -> PrivacyLedger:
        return self

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._store, MemoryStore):
            raise TypeError(
                "A PrivacyLedger without a path lives in the memory of one process and cannot be "
                "pickled, which joblib does to reach its worker processes. Give it a path, "
                "PrivacyLedger('study.ledger', …), so that all processes share one budget; or set the "
                "estimator's ledger=None before saving it."
            )
        return _handle, (self._store, self._terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyLedger) and self._terms.identity == other._terms.identity

    def __hash__(self) -> int:
        return hash(self._terms.identity)


def _handle(store: FileStore, terms: Terms) -> PrivacyLedger:
    """A handle to an existing file, which is looked at only when the handle is used."""
    ledger = PrivacyLedger.__new__(PrivacyLedger)
    ledger._bind(store, terms)
    return ledger
