"""Handles to a ledger: what is charged, reserved or closed goes to its `Book` as one checked transaction."""

from __future__ import annotations

import contextvars
import html
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

from skprivate import _messages
from skprivate._messages import LedgerUnitWarning, must_be, rounded_up, warn_caller
from skprivate.privacy import _guarantee
from skprivate.privacy.ledger import _costs, _entries, _store
from skprivate.privacy.ledger._book import Book, LazyBook, LedgerState, Spending, origin
from skprivate.privacy.ledger._entries import DisjointParts, LedgerEntry, Quote, Terms

Answer = TypeVar("Answer")

#: Units that leave a part of a row, or other rows, unprotected.
_PARTS_OF_ROWS = (str(_guarantee.PrivacyUnit.LABEL), str(_guarantee.PrivacyUnit.PRIVATE_ROW))
#: While a cost is asked for: the ledger that alone is charged.
_ONLY: contextvars.ContextVar[str | None] = contextvars.ContextVar("only ledger", default=None)


@contextmanager
def charged_only_to(identity: str) -> Iterator[None]:
    """Refuse charges to all other ledgers while the block runs, but not in threads and processes that it starts.

    Who asks for a cost pays nothing, and a part of a model may hold a ledger where nobody finds it.
    """
    token = _ONLY.set(identity)
    try:
        yield
    finally:
        _ONLY.reset(token)


class Place(NamedTuple):
    """Ledger, reservation and its parts that a handle charges to, and what its releases carry."""

    identity: str
    reservation: int | None = None
    note: str = ""
    data: str = ""
    parts: tuple[int, ...] = ()


class PrivacyLedger:
    """A durable privacy budget of one data set, shared by many fits, threads and processes.

    Pass the same ledger as ``ledger=`` to every estimator that is fitted on the same data. Each release
    commits its cost here *before* it draws, in one transaction; a release that does not fit is refused
    with `BudgetExceededError`, having drawn and written nothing. A process that dies between cost and
    draw has wasted that budget: it stays charged.

    Copies do not multiply the budget: `copy`, `deepcopy`, `sklearn.base.clone` (so every fit of a grid
    search) and, for a ledger with a path, `pickle` (so every worker process of joblib) hand on a handle
    to the same store.

    Parameters
    ----------
    path : str or os.PathLike, default=None
        File of the ledger. Created if it does not exist; else opened, and what is given here must be
        what it was created with (`PrivacyLedger.open` opens it without the numbers). None keeps the
        ledger in the memory of this process: its threads share it, and it refuses to be pickled.
    epsilon : float
        Budget ε > 0 of all releases together.
    delta : float, default=0.0
        Budget δ in [0, 1) of all releases together.
    unit : PrivacyUnit or str, default=None
        Whom the budget is for. None: the unit of the first release.
    adjacency : str, default=None
        The neighbouring relation: "replace-one", "add-remove", or "metric: " and the name of the distance. None: that
        of the first release.
    composition : {"filter", "basic", "zcdp"}, default="filter"
        How costs add up. "basic": Σε ≤ ε and Σδ ≤ δ. "zcdp": Σρ at most the largest ρ that implies ε, where a pure
        release counts as ε²/2 if it has no ρ of its own, and (ε, δ) alone is refused; much cheaper for many releases,
        needs δ > 0. "filter": what either of them admits, with half of δ each; a first release that only sums admit at
        the whole δ makes it "basic". ε per unit of distance adds up in sums only, whatever is chosen here: ρ does not
        grow in proportion to a distance.
    rows_per_user : int, default=None
        Most rows that one user has, enforced by whoever makes the data. With it a ledger of users takes releases
        that protect rows.
    public_features : bool, default=False
        Whether everything in a row but its label is public anyway. With it a ledger of rows or users takes releases
        that protect labels.
    simulation : bool, default=False
        Whether the ledger is for trials with seeded noise, which are never released. True: it refuses secure noise,
        whose cost belongs to the data's own ledger. False: a ledger with a path refuses seeded noise, set by you or
        by a meta-estimator; one in memory takes both, and marks them.
    dry_run : bool, default=False
        Whether every release charged here draws simulated noise, whatever its ``random_state``: costs are the real
        ones, results are good for nothing, and nothing of them may be published.

    Raises
    ------
    ValueError
        A value that is not allowed, or other ones than the existing file was created with.
    FileNotFoundError
        The folder of ``path`` does not exist.
    DamagedLedgerError
        The records of an existing file are not those that were written.

    See Also
    --------
    BudgetExceededError : Raised where a release does not fit.
    quote : Computes the cost of a fit beforehand.
    LedgerDisplay : Plots what has been spent.

    Notes
    -----
    *Guarantee.* All releases charged to one ledger are together (ε, δ)-differentially private
    for its unit and adjacency, even where each release and its cost are chosen after seeing the earlier
    ones, and where several run at the same time: both rules are fully adaptive privacy filters ([1]_ for
    sums of (ε, δ), [2]_ and [3]_ for zero-concentrated costs), and they hold for interleaved
    interactive mechanisms as well [4]_. The fits of a cross-validation are added up like any others; `parallel` makes
    use of disjoint folds.

    *Exact sums.* Costs are added in exact decimal arithmetic. A float counts as the decimal number that it prints as,
    so ten releases at 0.1 fill a budget of 1 exactly, in any order.

    *Units.* A release that protects another unit is charged its cost for the ledger's. A larger unit protects its
    parts. Several smaller ones make a larger one, by group privacy of each event. To replace is to remove and to add,
    so ε under add-remove is 2ε under replace-one. ε per unit of distance times the largest distance is ε. Each entry
    says what was converted and why. What does not follow is refused with the reason.

    *Durability.* SQLite, synchronised to the disk at each commit, with its locks, so the file must lie on a local file
    system. Nothing is overwritten: each change is a record that seals the one before. So whoever opens a ledger notices
    a record that was changed or taken out, and every handle that has seen a newer record (a fitted model's among them)
    notices an older copy.

    References
    ----------
    .. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters:
       Pay-as-you-go composition", NeurIPS 2016.
    .. [2] V. Feldman, T. Zrnic, "Individual privacy accounting via a Rényi filter", NeurIPS 2021.
    .. [3] J. Whitehouse, A. Ramdas, R. Rogers, Z. S. Wu, "Fully-adaptive composition in differential privacy",
       ICML 2023.
    .. [4] S. Haney et al., "Concurrent composition for interactive differential privacy with adaptive
       privacy-loss parameters", CCS 2023.

    Examples
    --------
    >>> from skprivate.privacy import PrivacyLedger, open_release
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    >>> with open_release(epsilon=0.75, unit="row", adjacency="replace-one", ledger=ledger) as release:
    ...     noisy = release.laplace(0.5, sensitivity=0.01, epsilon=0.75)
    >>> ledger.spent, ledger.remaining
    ((0.75, 0.0), (0.25, 5e-07))
    >>> ledger
    PrivacyLedger(in memory: epsilon 0.75 of 1, delta 0 of 1e-06 spent per row in 1 entry)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float,
        delta: float = 0.0,
        unit: str | None = None,
        adjacency: str | None = None,
        composition: str = "filter",
        rows_per_user: int | None = None,
        public_features: bool = False,
        simulation: bool = False,
        dry_run: bool = False,
    ) -> None:
        delta = _messages.delta_number(delta)
        epsilon = _messages.positive("epsilon", epsilon)
        if composition not in _costs.COMPOSITIONS:
            raise ValueError(must_be("composition", _messages.one_of(_costs.COMPOSITIONS), composition))
        if composition == "zcdp" and delta == 0:
            why = "ρ-zCDP implies no (ε, 0)-differential privacy: give delta, or use composition='basic'."
            raise ValueError(must_be("delta", "positive with composition='zcdp'", delta, why))
        for name, value in (("simulation", simulation), ("public_features", public_features), ("dry_run", dry_run)):
            if not isinstance(value, bool):
                raise TypeError(must_be(name, "True or False", value))
        if rows_per_user is not None and not _entries.is_integer(rows_per_user, 1):
            raise ValueError(must_be("rows_per_user", "an integer >= 1, or None", rows_per_user))
        terms = Terms(
            identity=uuid.uuid4().hex,
            created=_entries.today(),
            epsilon=epsilon,
            delta=delta,
            account=_costs.Account(
                unit=None if unit is None else str(_messages.member(_guarantee.PrivacyUnit, "unit", unit)),
                adjacency=None if adjacency is None else _entries.checked_relation(adjacency),
                rows_per_user=None if rows_per_user is None else int(rows_per_user),
                public_features=public_features,
            ),
            composition=composition,
            simulation=simulation,
            dry_run=dry_run,
        )
        first = _store.record(None, {"kind": "terms", **terms.to_dict()})
        if path is None:
            self._bind(Book(_store.MemoryStore(first)))
            return
        location = os.path.abspath(os.fspath(path))
        self._bind(Book(_store.FileStore.create_or_open(location, first)))
        if differ := terms.differences(self._terms):
            raise ValueError(
                f"The privacy ledger {location!r} exists with {'; '.join(differ)}. A budget is fixed when its "
                f"ledger is created: open it with PrivacyLedger.open({location!r}), or choose another path."
            )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PrivacyLedger:
        """Open the existing ledger at ``path``, with the budget that it was created with.

        Parameters
        ----------
        path : str or os.PathLike
            File of the ledger. One that may only be read can be shown, not charged.

        Returns
        -------
        ledger : PrivacyLedger
            A handle to it.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        DamagedLedgerError
            Its records are not those that were written.
        ValueError
            The file is no privacy ledger.
        """
        return _handle(Book(_store.FileStore.open(os.path.abspath(os.fspath(path)))))

    def _bind(self, book: Book | LazyBook, place: Place | None = None) -> None:
        self._book = book
        self._place = Place(book.terms.identity) if place is None else place

    def _part(self, reservation: int, parts: tuple[int, ...] = ()) -> PrivacyLedger:
        return _handle(self._book, *self._place._replace(reservation=reservation, parts=parts))

    def annotated(self, note: str = "", *, data: str = "") -> PrivacyLedger:
        """Return a handle to the same ledger whose releases carry a note.

        Parameters
        ----------
        note : str
            What the releases are for.
        data : str, optional
            A fingerprint of the data, kept as it is. Mind that a hash of few private rows tells them to whoever can
            guess them.

        Returns
        -------
        ledger : PrivacyLedger
            For the ``ledger`` parameter of estimators.

        Examples
        --------
        >>> from skprivate.privacy import PrivacyLedger
        >>> ledger = PrivacyLedger(epsilon=1.0)
        >>> ledger.annotated("dose model") == ledger
        True
        """
        for name, value in (("note", note), ("data", data)):
            if not isinstance(value, str):
                raise TypeError(must_be(name, "a string", value))
        return _handle(self._book, *self._place._replace(note=note, data=data))

    def _ask(self, question: Callable[[LedgerState], Answer]) -> Answer:
        with self._book.transaction(write=False) as (_, state):
            return question(state)

    @property
    def path(self) -> str | None:
        """File of the ledger; None for a ledger in memory."""
        path: str | None = self._book.store.path
        return path

    @property
    def identity(self) -> str:
        """Identifier of the ledger, unlike that of any other."""
        return self._place.identity

    @property
    def unit(self) -> str | None:
        """The unit of account; None before the first release, unless given."""
        return self._ask(lambda state: state.unit)

    @property
    def adjacency(self) -> str | None:
        """The neighbouring relation of the account; None before the first release, unless given."""
        return self._ask(lambda state: state.adjacency)

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) that all entries count for together, rounded up; of adaptive releases the budget is the guarantee."""
        return self._ask(lambda state: state.rule.spent(state.totals[None]))

    @property
    def remaining(self) -> tuple[float, float]:
        """(ε, δ) that one more release may cost, rounded down; where ρ counts, what the ρ that is left is worth."""
        remaining = self._ask(lambda state: state.rule.remaining(state.totals[None]))
        return remaining.epsilon, remaining.delta

    @property
    def remaining_rho(self) -> float | None:
        """ρ that is left, rounded down; None where sums count only."""
        return self._ask(lambda state: state.rule.remaining_rho(state.totals[None]))

    @property
    def seal(self) -> str:
        """The seal of the last record. Noted elsewhere, it proves later that nothing before it was changed."""
        last = self._ask(lambda state: state.last)
        assert last is not None  # the terms are a record
        return last.seal

    def seals(self) -> list[str]:
        """Read the seals of all records, oldest first.

        Returns
        -------
        seals : list of str
            The last of them is `seal`.
        """
        with self._book.transaction(write=False) as (journal, _):
            return [found.seal for found in journal.since(0)]

    def entries(self) -> list[LedgerEntry]:
        """Read all entries, oldest first.

        Returns
        -------
        entries : list of LedgerEntry
            One for each release and reservation, open ones included.
        """
        return self._ask(lambda state: list(state.entries.values()))

    def to_frame(self) -> Any:
        """Make a table of the entries.

        Returns
        -------
        frame : pandas.DataFrame
            One row for each entry, indexed by its number. Needs pandas.
        """
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        rows = [entry.to_dict() for entry in self.entries()]
        return pd.DataFrame(rows, columns=list(_entries.ENTRY_COLUMNS)).set_index("id")

    @property
    def _terms(self) -> Terms:
        return self._book.terms

    @property
    def epsilon(self) -> float:
        """Budget ε."""
        return self._book.terms.epsilon

    @property
    def delta(self) -> float:
        """Budget δ."""
        return self._book.terms.delta

    @property
    def composition(self) -> str:
        """Composition of costs: "filter", "basic" or "zcdp"."""
        return self._book.terms.composition

    @property
    def rows_per_user(self) -> int | None:
        """Largest number of rows of one user, as declared; None where nothing was."""
        return self._book.terms.account.rows_per_user

    @property
    def public_features(self) -> bool:
        """True where everything in a row but its label was declared public."""
        return self._book.terms.account.public_features

    @property
    def simulation(self) -> bool:
        """True for a ledger for trials with seeded noise."""
        return self._book.terms.simulation

    @property
    def dry_run(self) -> bool:
        """True where releases charged here draw simulated noise only."""
        return self._book.terms.dry_run

    @contextmanager
    def reserve(
        self, epsilon: float | Quote, delta: float = 0.0, *, rho: float | None = None, rho_delta: float = 0.0
    ) -> Iterator[PrivacyLedger]:
        """Set a part of the budget aside for several releases: all of them, or none.

        Parameters
        ----------
        epsilon, delta : float
            Most that the releases may cost together, as plain sums; or, in place of all numbers, a result of `quote`.
        rho, rho_delta : float, optional
            Most that they may cost together in zero-concentrated privacy, and the δ of those that have no such cost,
            which only sums admit. Without it, ρ is ε²/2 and the latter δ.

        Yields
        ------
        part : PrivacyLedger
            A handle for the ``ledger`` parameter of the estimators. Its releases are paid by the reservation, which
            costs what they cost when the block ends.

        Raises
        ------
        BudgetExceededError
            The ledger has less left; nothing was written.
        ValueError
            The ledger has no unit of account yet.

        Examples
        --------
        >>> from skprivate.privacy import PrivacyLedger, open_release
        >>> ledger = PrivacyLedger(epsilon=2.0, unit="row", adjacency="add-remove")
        >>> with ledger.reserve(1.5) as part:
        ...     with open_release(epsilon=1.0, unit="row", adjacency="add-remove", ledger=part) as release:
        ...         noisy = release.laplace(0.5, sensitivity=1.0, epsilon=1.0)
        >>> ledger.remaining
        (1.0, 0.0)
        """
        with self._set_aside(epsilon, delta, rho, rho_delta, {}) as entry:
            yield self._part(entry)

    @contextmanager
    def parallel(
        self,
        epsilon: float | Quote,
        delta: float = 0.0,
        *,
        rho: float | None = None,
        rho_delta: float = 0.0,
        n_parts: int,
        because: str,
    ) -> Iterator[DisjointParts]:
        """Set a part of the budget aside for releases that see different units: nobody pays for what they are not in.

        Every unit is in one of ``n_parts`` parts, and every release names the parts it sees. Charged is the most that
        any part pays: of K fits that leave out one fold each, those K − 1 that see the fold; of one model for each
        fold, one.

        `skprivate.model_selection.fit_folds` divides the data itself. Here you divide them, and the ledger cannot look:
        the entry keeps your reason.

        Parameters
        ----------
        epsilon, delta, rho, rho_delta : float
            Most that the releases may cost the units of any one part, as in `reserve`.
        n_parts : int
            Number of parts, at least 2.
        because : str
            Why a unit's part depends on that unit alone and on public numbers, and why no release sees, or depends on
            anything but released results of, parts that it does not name. Kept in the entry.

        Yields
        ------
        parts : DisjointParts
            ``parts.only(k)`` and ``parts.without(k)`` are handles for the ``ledger`` parameter of estimators.

        Raises
        ------
        BudgetExceededError
            The ledger has less left; nothing was written.
        ValueError
            The ledger has no unit of account yet, or there is no reason.

        Notes
        -----
        *Guarantee.* Let a unit u of part p be added or removed. Releases that do not see p have the same distribution
        given all earlier results, and the others are a sequence whose costs add up to what is charged for p. So the
        filters hold for each part by itself, and the ledger counts the largest sum, for each of ε, δ and ρ. Under
        "replace-one" the same holds if the exchanged unit stays in its part, as where a public identifier decides it:
        that is an assumption, and ``because`` should say so. A release under "add-remove" in a ledger for "replace-one"
        is charged to all parts, since the new unit may be in another one. So are releases for the whole data set, or
        for a distance.

        Examples
        --------
        >>> from skprivate.privacy import PrivacyLedger, open_release
        >>> ledger = PrivacyLedger(epsilon=2.0, unit="user", adjacency="add-remove")
        >>> with ledger.parallel(1.0, n_parts=3, because="dealt by a keyed hash of the user's name") as parts:
        ...     for k in range(3):
        ...         with open_release(
        ...             epsilon=0.5, unit="user", adjacency="add-remove", ledger=parts.without(k)
        ...         ) as release:
        ...             noisy = release.laplace(0.5, sensitivity=1.0, epsilon=0.5)
        >>> ledger.spent
        (1.0, 0.0)
        """
        if not _entries.is_integer(n_parts, 2):
            raise ValueError(must_be("n_parts", "an integer >= 2", n_parts))
        if not isinstance(because, str) or not because.strip():
            raise ValueError(must_be("because", "the reason why parts share no unit, in words", because))
        extra = {"disjoint parts": str(n_parts), "because": because}
        parts = tuple(range(int(n_parts)))
        with self._set_aside(epsilon, delta, rho, rho_delta, extra, parts) as entry:
            yield DisjointParts(int(n_parts), lambda parts: self._part(entry, parts))

    @contextmanager
    def _set_aside(
        self,
        epsilon: float | Quote,
        delta: float,
        rho: float | None,
        rho_delta: float,
        extra: dict[str, str],
        parts: tuple[int, ...] = (),
    ) -> Iterator[int]:
        """Reserve while the block runs, and settle at what was spent."""
        if self._place.reservation is not None:
            raise ValueError("a reserved part of a ledger cannot be divided again; divide the whole.")
        unit = adjacency = None
        if isinstance(epsilon, Quote):
            cost, unit, adjacency = epsilon.cost, epsilon.unit, epsilon.adjacency
        else:
            cost = _costs.Cost.checked(epsilon, delta, rho, rho_delta)
        entry = self._book.reserve(cost, unit, adjacency, parts, origin(self._place.note, self._place.data, extra))
        try:
            yield entry
        finally:
            self._book.settle(entry)

    def charge(
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
        adaptive: bool = False,
        diameter: float | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> int:
        """Charge the cost of a release that is about to draw, and return the number of its entry.

        `open_release` does it; few others need to. ``epsilon``, ``delta`` and ``rho`` are the cost for the release's
        own ``unit`` and ``adjacency``, converted if the ledger has others. ``adaptive``: what is drawn depends on
        results, so the composition of the ``events`` is no cost. ``diameter``: the largest distance between inputs that
        differ in one row, if ε is per unit of distance.

        Raises
        ------
        BudgetExceededError
            The cost does not fit; nothing was written.
        SimulatedNoiseError
            Seeded noise in a file for releases, or secure noise in a ledger for simulation.
        ValueError
            A release that has no cost for the ledger's unit, or a cost that is no cost.
        """
        if _ONLY.get() not in (None, self.identity) and not self.dry_run:  # a dry run draws simulated noise
            raise ValueError(
                f"{label or 'a release'} would really be charged to a ledger while its cost is asked for: it is "
                "frozen, or holds its ledger where a quote does not find it. Fit it before, or give it no ledger. "
                "Nothing was drawn or spent."
            )
        if str(unit) in _PARTS_OF_ROWS and not self._book.store.forgotten and self.unit is None:
            warn_caller(
                f"{label or 'this release'} protects a {unit}, and the ledger has no unit yet: from now on it is a "
                f"budget per {unit}, which does not protect whole rows or users. Name the unit when the ledger is "
                "created, PrivacyLedger(…, unit='user').",
                LedgerUnitWarning,
            )
        own, relation = _costs.Cost.checked(epsilon, delta, rho), _entries.checked_relation(str(adjacency))
        entry: int = self._book.charge(
            label,
            Spending(own, str(unit), relation, events, adaptive, diameter),  # members of enumerations are their values
            simulated=bool(simulated),
            reservation=self._place.reservation,
            parts=self._place.parts,
            origin=origin(self._place.note, self._place.data, dict(parameters or {})),
        )
        return entry

    def increase(self, entry: int, **cost: Any) -> None:
        """Charge an open release its new total, before it draws more; in no part lower than before.

        ``cost`` is ``epsilon``, ``delta``, ``rho``, ``events``, ``adaptive`` and ``diameter`` as in `charge`, and so
        are the errors. What ``entry`` names must be open.
        """
        self._book.change_cost(entry, close=False, **cost)

    def close_entry(self, entry: int, **cost: Any) -> None:
        """Close a release at its final cost, as in `increase`; lower than charged if less was drawn than planned."""
        self._book.change_cost(entry, close=True, **cost)

    def entry_name(self, entry: int) -> str:
        """Name an entry for whoever is outside its ledger: the ledger's identity and the number."""
        return f"{self.identity}#{entry}"

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else repr(self.path)
        try:
            count = self._ask(lambda state: state.count)
            (epsilon, delta), unit = self.spent, self.unit or "unit"
            trial = ", simulation only" if self.simulation else ", dry run" if self.dry_run else ""
        except (OSError, ValueError, RuntimeError):
            return f"PrivacyLedger({where}: out of reach)"
        return (
            f"PrivacyLedger({where}: epsilon {rounded_up(epsilon)} of {self.epsilon:g}, delta {rounded_up(delta)} of "
            f"{self.delta:g} spent per {unit} in {count} {'entry' if count == 1 else 'entries'}{trial})"
        )

    def _repr_html_(self) -> str:
        return f"<div><p>{html.escape(repr(self))}</p>{_entries.entries_html(self.entries())}</div>"

    def __sklearn_clone__(self) -> PrivacyLedger:
        return self

    def __copy__(self) -> PrivacyLedger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _handle, (self._book, *self._place)

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a PrivacyLedger is a handle on its file, which only pickle keeps. To save a model in another format save "
            "skprivate.inspection.to_release(model), which has no ledger."
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyLedger) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


def _handle(book: Book | LazyBook, *place: Any) -> PrivacyLedger:
    ledger = PrivacyLedger.__new__(PrivacyLedger)
    ledger._bind(book, Place(*place) if place else None)
    return ledger
