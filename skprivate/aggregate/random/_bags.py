"""Random bags: rows drawn without replacement, labels known in aggregate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skprivate import privacy
from skprivate._validation import PUBLIC_LABELS, read_numbers, together
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.tables import _blocks, _curated_bags, _labels, _sums
from skprivate.aggregate.tables._sums import ClassSums, Further, Labelled, NumberSums, ReleasedSums
from skprivate.partitions import OTHER_ROWS, InMemory, Partitions, add_parts, is_partitioned
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, RandomStateLike, Versioned

IntArray = NDArray[np.int64]
LabelRelease = Literal["mean", "bernoulli", "laplace"]
RELEASES = ("mean", "bernoulli", "laplace")
THEOREM = (
    "Chen, Fu, Karbasi and Mirrokni (2023), section 4, with Laplace noise on the integer label sums of the bags; "
    "fitting is post-processing"
)
ASSUMPTIONS = (
    "features and bag membership are public; membership is drawn independently of the labels",
    PUBLIC_LABELS,
    "labels of different rows belong to different people",
)
#: Of numbers, which have no classes.
NUMBER_ASSUMPTIONS = (ASSUMPTIONS[0], ASSUMPTIONS[2])


def _member_sums(
    block: Labelled,
    beside: tuple[int, IntArray, IntArray],
    *,
    n_bags: int,
    integers: _sums.Integers,
    further: Further | None,
) -> NDArray[np.int64]:
    size, bags, rows = beside
    if size != len(block.size):
        raise RuntimeError(OTHER_ROWS)
    return _sums.block_sums(block, [(bags, rows, n_bags)], integers, further)


class BagSums:
    """Bags as lists of rows: ``members`` are the rows of the first bag, then of the second, …

    ``block_sizes`` are the numbers of rows of the blocks, where rows are in blocks.
    """

    theorem = THEOREM
    assumptions = NUMBER_ASSUMPTIONS

    def __init__(
        self, members: IntArray, sizes: IntArray, n_samples: int, block_sizes: Sequence[int] | None = None
    ) -> None:
        self.block_sizes = [n_samples] if block_sizes is None else list(block_sizes)
        self.members = members
        self.sizes = sizes
        self.n_samples = n_samples
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.bag_of_member = np.repeat(np.arange(sizes.size), sizes)

    def take(self, which: IntArray) -> tuple[BagSums, IntArray]:
        """Restrict to some bags; returns the places of their memberships too."""
        sizes = self.sizes[which]
        ends = np.cumsum(sizes)
        places = np.arange(int(sizes.sum())) + np.repeat(self.starts[which] - ends + sizes, sizes)
        return BagSums(self.members[places], sizes, self.n_samples), places

    @property
    def n_bags(self) -> int:
        return int(self.sizes.size)

    def appearances(self) -> int:
        """Count the largest number of times that one row is in a bag."""
        return int(np.bincount(self.members, minlength=1).max())

    @property
    def bag_sizes(self) -> IntArray:
        return self.sizes

    def report(
        self,
        released: ReleasedSums,
        label_release: LabelRelease,
        guarantee: PrivacyGuarantee,
        classes: tuple[Any, ...] | None = None,
    ) -> RandomBags:
        return RandomBags(
            self.members,
            self.sizes,
            released.sums,
            self.n_samples,
            label_release=label_release,
            noise_variance=released.noise_variance,
            classes=classes,
            guarantee=guarantee,
            label_bounds=released.label_bounds,
        )

    def add_up(self, rows: Partitions, integers: _sums.Integers, further: Further | None = None) -> NDArray[Any]:
        """Sum integers exactly over bags, (n_bags, n_outputs) row by row, and further ones over all rows; private."""
        form = partial(_member_sums, n_bags=self.n_bags, integers=integers, further=further)
        total: NDArray[Any] = rows.gather(form, add_parts, beside=self._by_block())
        return total

    def _by_block(self) -> list[tuple[int, IntArray, IntArray]]:
        """Split memberships by block: its number of rows, and bags and rows (counted within the block) there."""
        if len(self.block_sizes) == 1:
            return [(self.n_samples, self.bag_of_member, self.members)]
        order = np.argsort(self.members, kind="stable")
        rows, bags = self.members[order], self.bag_of_member[order]
        ends = np.cumsum(self.block_sizes)
        cuts = np.searchsorted(rows, ends[:-1])
        parts = zip(self.block_sizes, ends, np.split(bags, cuts), np.split(rows, cuts), strict=True)
        return [(int(size), bags_there, rows_there - (end - size)) for size, end, bags_there, rows_there in parts]

    def add(self, member_values: FloatArray) -> FloatArray:
        """Sum member values (..., n_memberships) over each bag."""
        return np.add.reduceat(member_values, self.starts, axis=-1)

    def scatter(self, member_values: FloatArray) -> FloatArray:
        """Sum member values (n_memberships,) over the bags of each row; shape (n_samples,)."""
        sums = np.bincount(self.members, weights=member_values, minlength=self.n_samples)
        return sums.astype(np.float64, copy=False)

    def means(self, X: FloatArray) -> FloatArray:
        """Average the rows of each bag; shape (n_bags, n_features)."""
        ends = np.append(self.starts, self.members.size)
        incidence = sparse.csr_array(
            (np.repeat(1.0 / self.sizes, self.sizes), self.members, ends), shape=(self.n_bags, self.n_samples)
        )
        return np.asarray(incidence @ X)


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows that bags are drawn from.

    ``labels`` are the distinct ones, where they are public classes. ``X`` and ``keys`` may be None.
    """

    sizes: tuple[int, ...]
    X: FloatArray | None = None
    keys: NDArray[Any] | None = None
    labels: Sequence[Any] = ()

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    def order(self) -> IntArray | None:
        """Order rows by identifier, so that the order does not depend on where rows are; None without identifiers."""
        if self.keys is None:
            return None
        if self.keys.shape != (self.n_rows,):
            raise ValueError(
                f"row_keys must hold one identifier for each of the {self.n_rows} rows, got shape {self.keys.shape}."
            )
        try:
            if np.any(self.keys != self.keys):  # NaN and NaT, in a column of objects too, have no place in an order
                raise TypeError
            order = np.argsort(self.keys, kind="stable")
        except TypeError:
            raise ValueError("row_keys must be numbers, or all of them text, and none may be missing.") from None
        ordered = self.keys[order]
        if np.any(ordered[1:] == ordered[:-1]):
            raise ValueError("row_keys must be distinct: an identifier names one row.")
        return order

    def bags(self, members: IntArray, sizes: IntArray) -> BagSums:
        return BagSums(members, sizes, self.n_rows, self.sizes)


def table_in_memory(X: FloatArray | None, labels: NDArray[Any], row_keys: object) -> InMemory:
    keys = None if row_keys is None else np.asarray(row_keys)
    return InMemory(_blocks.Table(range(len(labels)), X, labels, keys))


def gather_rows(rows: Partitions, summarise_labels: Callable[[NDArray[Any]], list[Any]]) -> PublicRows:
    """Gather the public part of all rows, in their order, and the distinct labels that ``summarise_labels`` finds."""
    public: PublicRows = rows.gather(partial(_gather, summarise_labels=summarise_labels), _merge_parts)
    return public


def labelled_blocks(rows: Partitions, targets: Callable[[NDArray[Any]], NDArray[Any]]) -> Partitions:
    """Turn blocks of `Table` into `Labelled`; ``targets`` maps labels to what is summed."""
    return rows.map(partial(_label, targets=targets))


def no_labels(labels: NDArray[Any]) -> list[Any]:
    """Return no labels, where their values are not public."""
    return []


def _gather(block: _blocks.Table, *, summarise_labels: Callable[[NDArray[Any]], list[Any]]) -> PublicRows:
    return PublicRows((len(block.size),), block.X, block.keys, summarise_labels(block.labels))


def _merge_parts(parts: Sequence[PublicRows]) -> PublicRows:
    filled = [part for part in parts if part.n_rows] or list(parts[:1])
    X = [part.X for part in filled if part.X is not None]
    keys = [part.keys for part in filled if part.keys is not None]
    return PublicRows(
        tuple(size for part in parts for size in part.sizes),
        np.concatenate(X) if X else None,
        np.concatenate(keys) if keys else None,
        together(part.labels for part in parts),
    )


def _label(block: _blocks.Table, *, targets: Callable[[NDArray[Any]], NDArray[Any]]) -> Labelled:
    return Labelled(block.size, targets(block.labels))


@dataclass(frozen=True, eq=False)
class RandomBags(Versioned):
    """Labels as aggregates of random bags: all that a fit learns about the labels.

    Parameters
    ----------
    members : ndarray of int64, shape (n_memberships,)
        Rows of the first bag, then of the second, and so on.
    sizes : ndarray of int64, shape (n_bags,)
    label_sums : ndarray of float64, shape (n_bags, n_outputs)
        Label sums, noisy for "laplace"; the drawn bits for "bernoulli".
    n_samples : int
        Number N of rows that the bags were drawn from.
    label_release : {"mean", "bernoulli", "laplace"}
    noise_variance : float
        Of each sum.
    classes : tuple or None
        Of the labels; None for numbers and for multilabel indicators.
    guarantee : PrivacyGuarantee
    label_bounds : (float, float) or None
        Interval that numbers were clipped to.

    See Also
    --------
    make_random_bags : Makes them from rows.
    RandomBagClassifier, RandomBagRegressor : Learn from them.
    """

    members: IntArray
    sizes: IntArray
    label_sums: FloatArray
    n_samples: int
    label_release: LabelRelease = "mean"
    noise_variance: float = 0.0
    classes: tuple[Any, ...] | None = None
    guarantee: PrivacyGuarantee = field(default_factory=lambda: _curated_bags.no_privacy(ASSUMPTIONS, THEOREM))
    label_bounds: _labels.Bounds | None = None

    def __post_init__(self) -> None:
        if self.sizes.ndim != 1 or self.sizes.size == 0 or np.any(self.sizes < 1):
            raise ValueError("bag sizes must be at least 1, and there must be a bag.")
        if int(self.sizes.sum()) != self.members.size:
            raise ValueError(f"sizes add up to {int(self.sizes.sum())}, but {self.members.size} members are listed.")
        if np.any(self.members < 0) or np.any(self.members >= self.n_samples):
            raise ValueError(f"members must be rows between 0 and {self.n_samples - 1}.")
        if self.label_sums.ndim != 2 or self.label_sums.shape[0] != self.sizes.size:
            raise ValueError(f"label_sums must have shape (n_bags, n_outputs), got {self.label_sums.shape}.")
        if not np.all(np.isfinite(self.label_sums)):
            raise ValueError("label_sums must be finite.")
        if self.label_release not in RELEASES:
            raise ValueError(f"label_release must be one of {RELEASES}, got {self.label_release!r}.")

    @property
    def n_bags(self) -> int:
        return int(self.sizes.size)

    @property
    def structure(self) -> BagSums:
        """The bags without their labels."""
        return BagSums(self.members, self.sizes, self.n_samples)

    def means(self) -> FloatArray:
        """Aggregate label of every bag: mean, noisy mean, or bit; shape (n_bags, n_outputs)."""
        return self.label_sums if self.label_release == "bernoulli" else self.label_sums / self.sizes[:, np.newaxis]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain lists, numbers and strings, ready for JSON."""
        return {
            "members": [part.tolist() for part in np.split(self.members, np.cumsum(self.sizes)[:-1])],
            "label_sums": self.label_sums.tolist(),
            "n_samples": self.n_samples,
            "label_release": self.label_release,
            "noise_variance": self.noise_variance,
            "classes": None if self.classes is None else list(self.classes),
            "guarantee": self.guarantee.to_dict(),
            "label_bounds": None if self.label_bounds is None else list(self.label_bounds),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RandomBags:
        """Invert `to_dict`; ``guarantee`` and ``label_bounds`` may be left out."""
        stored = plain.get("guarantee")
        sums = np.asarray(plain["label_sums"], dtype=np.float64)
        classes, bounds = plain.get("classes"), plain.get("label_bounds")
        return cls(
            members=np.concatenate([np.asarray(bag, dtype=np.int64) for bag in plain["members"]]),
            sizes=np.array([len(bag) for bag in plain["members"]], dtype=np.int64),
            label_sums=sums[:, np.newaxis] if sums.ndim == 1 else sums,
            n_samples=int(plain["n_samples"]),
            label_release=plain.get("label_release", "mean"),
            noise_variance=float(plain.get("noise_variance", 0.0)),
            classes=None if classes is None else tuple(classes),
            label_bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
            **({"guarantee": PrivacyGuarantee.from_dict(stored)} if stored else {}),
        )

    def __repr__(self) -> str:
        low, high = self.sizes.min(), self.sizes.max()
        sizes = f"{low}" if low == high else f"{low}-{high}"
        return f"RandomBags({self.n_bags} bags of {sizes} out of {self.n_samples} rows, {self.label_release!r})"


def as_random_bags(bags: object) -> RandomBags:
    """Read a report given as `RandomBags` or its plain form."""
    if isinstance(bags, Mapping):
        absent = [key for key in ("members", "label_sums", "n_samples") if key not in bags]
        if absent:
            raise ValueError(
                f"bags must be RandomBags or its to_dict(), got a dict without {', '.join(map(repr, absent))}."
            )
        return RandomBags.from_dict(bags)
    if not isinstance(bags, RandomBags):
        raise TypeError(f"bags must be RandomBags or its to_dict(), got {type(bags).__name__}.")
    return bags


def draw_members(
    n_samples: int, bag_size: int, n_bags: int | None, *, disjoint: bool, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Sample the members and sizes of random bags; by default ``n_samples // bag_size`` bags."""
    if not 1 <= bag_size <= n_samples:
        raise ValueError(f"bag_size must be between 1 and n_samples={n_samples}, got {bag_size}.")
    most = n_samples // bag_size
    count = most if n_bags is None else n_bags
    if count < 1:
        raise ValueError(f"n_bags must be at least 1, got {n_bags}.")
    if disjoint:
        if count > most:
            raise ValueError(
                f"n_bags={count} disjoint bags of {bag_size} need {count * bag_size} rows, n_samples={n_samples}."
            )
        members = rng.permutation(n_samples)[: count * bag_size]
    elif bag_size**2 <= n_samples:
        # Ordered draws with replacement, redrawn until distinct, are uniform draws without replacement.
        rows = rng.integers(n_samples, size=(count, bag_size))
        while bag_size > 1:
            ordered = np.sort(rows, axis=1)
            again = np.flatnonzero(np.any(ordered[:, 1:] == ordered[:, :-1], axis=1))
            if not again.size:
                break
            rows[again] = rng.integers(n_samples, size=(again.size, bag_size))
        members = rows.ravel()
    else:
        members = np.concatenate([rng.permutation(n_samples)[:bag_size] for _ in range(count)])
    return members.astype(np.int64), np.full(count, bag_size, dtype=np.int64)


def exact_bags(
    sums: ClassSums | NumberSums, rows: Partitions, label_release: LabelRelease, rng: np.random.Generator
) -> tuple[ReleasedSums, PrivacyGuarantee]:
    """Sum labels exactly, or release one bit per bag with the mean label as probability; without privacy."""
    released = sums.exact(rows).sums
    if label_release == "bernoulli":
        means = released / sums.bags.sizes[:, np.newaxis]
        if np.any(means < 0) or np.any(means > 1):
            raise ValueError("label_release='bernoulli' is for labels in [0, 1].")
        released = (rng.random(means.shape) < means).astype(np.float64)
    return ReleasedSums(released), _curated_bags.no_privacy(ASSUMPTIONS, THEOREM)


def check_label_release(label_release: Any, epsilon: float | None) -> LabelRelease:
    """Resolve ``label_release`` by ``epsilon``, or refuse their combination."""
    if label_release == "auto":
        return "mean" if epsilon is None else "laplace"
    if label_release not in RELEASES:
        raise ValueError(f"label_release must be 'auto' or one of {RELEASES}, got {label_release!r}.")
    if label_release == "laplace" and epsilon is None:
        raise ValueError("label_release='laplace' needs a number for epsilon, got None.")
    if label_release != "laplace" and epsilon is not None:
        raise ValueError(
            f"label_release={label_release!r} adds no noise and keeps no budget: pass epsilon=None, got {epsilon!r}."
        )
    return cast(LabelRelease, label_release)


def make_random_bags(
    X: Any,
    y: Any,
    bag_size: int,
    n_bags: int | None = None,
    *,
    disjoint: bool = False,
    label_release: Literal["auto", "mean", "bernoulli", "laplace"] = "auto",
    epsilon: float | None = None,
    numbers: bool = False,
    label_bounds: tuple[float, float] | None = None,
    row_keys: object = None,
    random_state: RandomStateLike = None,
    ledger: PrivacyLedger | None = None,
) -> RandomBags:
    """Draw bags of rows at random and release their labels in aggregate.

    Parameters
    ----------
    X : array-like or DataFrame with n_samples rows, or rows in blocks
        Public features; only their number of rows is used.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), or column of X
        0/1 labels or multilabel indicators; numbers with ``numbers=True``. Private. Where X lies in blocks
        (`skprivate.partitions`), its column of labels.
    bag_size : int
        Rows per bag, drawn without replacement.
    n_bags : int, optional
        By default ``n_samples // bag_size``.
    disjoint : bool, default=False
        False: bags are drawn independently of each other, as in the paper, and a row may be in several. True: no row
        is in two bags, which needs less noise.
    label_release : {"auto", "mean", "bernoulli", "laplace"}, default="auto"
        As in `RandomBagClassifier`; numbers get Laplace noise. "auto" is "mean" for ``epsilon=None``, else "laplace".
    epsilon : float or None, default=None
        Privacy loss bound of the labels of one row, for all bags together.
    numbers : bool, default=False
        Whether labels are numbers.
    label_bounds : (float, float), optional
        Public interval that all numbers are clipped to, within ±1e50; otherwise a tenth of the budget, or up to a
        half where n·ε is below 500, finds one.
    row_keys : array-like of shape (n_samples,), or column of X where it lies in blocks, optional
        As in ``fit`` of `RandomBagClassifier`: however rows are ordered, the same ones share a bag.
    random_state : None, int or RandomState
    ledger : PrivacyLedger, optional

    Returns
    -------
    RandomBags

    See Also
    --------
    make_curated_bags : Groups by feature values instead.
    RandomBagClassifier, RandomBagRegressor : Learn from the bags.

    Notes
    -----
    ε-label differential privacy, replace-one, of all labels of a row together. The sensitivity is the largest number
    of bags that one row is in times what its labels move: 1 for each output, or the width of ``label_bounds`` for each
    number; membership is independent of the labels, hence public. Contributions are integers and their sums exact.

    Examples
    --------
    >>> from skprivate import make_random_bags
    >>> bags = make_random_bags([[0]] * 8, [0, 1, 0, 1, 0, 1, 0, 1], bag_size=4, disjoint=True, random_state=0)
    >>> bags
    RandomBags(2 bags of 4 out of 8 rows, 'mean')
    >>> float(bags.label_sums.sum())
    4.0
    """
    privacy.refuse_other_index(X, y, row_keys=row_keys)
    _labels.check_label_privacy(epsilon, 0.0)
    chosen = check_label_release(label_release, epsilon)
    bounds = _labels.check_bounds(label_bounds)
    read_labels = partial(_check_labels, numbers=numbers)
    outputs = 1
    rows: Partitions
    if is_partitioned(X):
        rows = _blocks.read_blocks(_blocks.label_column(X, y, row_keys=row_keys), None, read_labels, None)
    else:
        labels = read_labels(y)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if labels.ndim not in (1, 2) or labels.shape[0] != n:
            raise ValueError(f"y must have one row per row of X ({n}), got shape {labels.shape}.")
        outputs = 1 if labels.ndim == 1 else labels.shape[1]
        rows = table_in_memory(None, labels, row_keys)
    public = gather_rows(rows, no_labels)
    rows = labelled_blocks(rows, _labels.number_targets)
    order = public.order()
    rng = privacy.public_generator(random_state)
    members, sizes = draw_members(public.n_rows, bag_size, n_bags, disjoint=disjoint, rng=rng)
    structure = public.bags(members if order is None else order[members], sizes)
    sums: ClassSums | NumberSums
    if numbers:
        sums = NumberSums.plan(structure, outputs, bounds, epsilon=epsilon, shared=True)
    else:
        sums = ClassSums.plan(structure, outputs, outputs, epsilon=epsilon)
    if epsilon is None:
        exact, guarantee = exact_bags(sums, rows, chosen, rng)
        return structure.report(exact, chosen, guarantee)
    released, guarantee = _sums.release_sums(
        sums, rows, epsilon=epsilon, random_state=random_state, ledger=ledger, label="make_random_bags"
    )
    return structure.report(released, chosen, guarantee)


def _check_labels(labels: object, *, numbers: bool) -> NDArray[Any]:
    read = np.asarray(read_numbers(labels))
    if not numbers and np.any((read != 0) & (read != 1)):
        raise ValueError("y must hold 0 and 1 only; pass numbers=True for numbers.")
    return read
