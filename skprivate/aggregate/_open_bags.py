"""Label sums that rows are added to while they come, and that are released once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from skprivate._labels import check_classes, read_labels, read_numbers
from skprivate.aggregate._aggregation import class_sums, number_sums
from skprivate.aggregate._bag_plan import FeatureSet, KeyCounter
from skprivate.aggregate._block_columns import encode_blocks
from skprivate.aggregate._cells import (
    KeyCounts,
    add_key_counts,
    count_keys,
    make_cells,
    pack_codes,
    resolve_feature_sets,
)
from skprivate.aggregate._columns import default_bins, encode_known, learn_columns
from skprivate.aggregate._curated_bags import CuratedBags
from skprivate.aggregate._input import categorical_mask, read_columns, table_blocks
from skprivate.aggregate._label_noise import NoiseName
from skprivate.aggregate._label_sums import (
    ClassSums,
    Further,
    Integers,
    Labelled,
    NumberSums,
    add_integers,
    as_steps,
    indicators,
    squares,
)
from skprivate.aggregate._labels import (
    check_bounds,
    check_label_privacy,
    class_targets,
    number_targets,
)
from skprivate.aggregate._membership import Membership, assign_bags
from skprivate.partitions import InMemory, Partitions, is_partitioned
from skprivate.privacy import PrivacyLedger, exact_sum, open_release


class _Tally(NamedTuple):
    """Rows added so far: of every feature set counts and label sums by key, and further sums."""

    counts: list[KeyCounts]
    sums: list[NDArray[Any]]
    further: NDArray[Any]


class OpenCuratedBags:
    """Label sums per bag that rows are added to, in as many pieces as they come, and that are released once.

    Until then nothing is spent, and nothing is shown: sums without noise are in this object's memory only. It cannot be
    pickled or copied.

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_rows, n_features)
        Public features, by which bins and categories are fixed now; its rows are not added. Rows that come later must
        have these categories; numbers may be any.
    feature_sets : {"singles", "pairs"}, int, or iterable, default="pairs"
        As in `make_curated_bags`.
    classes : sequence, optional
        Public class labels; a label outside counts as none of them. None: numbers, with ``label_bounds``.
    label_bounds : (float, float), optional
        For numbers: public interval that they are clipped to, within ±1e50.
    categorical_features : "from_dtype", "all", or iterable of names or positions, default="from_dtype"
    n_bins : int, optional
        Of numeric columns; by default the cube root of the rows of X, between 2 and 16.
    bin_edges : mapping from column name to increasing floats, optional

    Attributes
    ----------
    n_samples : int
        Rows added so far; public.

    Raises
    ------
    ValueError
        If classes and label_bounds are both given or both missing, or features cannot be grouped.

    Notes
    -----
    Guarantee: none is needed while nothing is released; `release` gives (ε, δ)-label differential privacy,
    replace-one, by the theorem of `make_curated_bags`, and the very bags that it makes of the same rows with the same
    ``random_state``. A row that is added twice counts twice, and its label is then in two rows: the guarantee is
    for one row.

    See Also
    --------
    skprivate.make_curated_bags : All rows at once.

    Examples
    --------
    >>> from skprivate.aggregate import OpenCuratedBags
    >>> public = [["apple", "low"], ["banana", "high"]]
    >>> bags = OpenCuratedBags(public, classes=(0, 1))
    >>> monday = bags.add([["apple", "low"], ["apple", "high"]], [1, 0])
    >>> bags.add([["banana", "low"]], [1])
    OpenCuratedBags(3 feature sets, 3 rows, not released)
    >>> bags.release(epsilon=1.0, random_state=0)
    CuratedBags(3 feature sets, 7 bags, 3 rows, 2 classes)
    >>> bags.add([["banana", "low"]], [1])
    Traceback (most recent call last):
        ...
    RuntimeError: these label sums are released: open others for rows that come later.
    """

    def __init__(
        self,
        X: Any,
        feature_sets: Any = "pairs",
        *,
        classes: Sequence[Any] | None = None,
        label_bounds: tuple[float, float] | None = None,
        categorical_features: Any = "from_dtype",
        n_bins: int | None = None,
        bin_edges: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        if (classes is None) == (label_bounds is None):
            raise ValueError(
                "give classes for class labels, or label_bounds for numbers: neither can be read off labels that are "
                f"still to come. Got classes={classes!r}, label_bounds={label_bounds!r}."
            )
        self._classes = None if classes is None else check_classes(classes)
        self._bounds = check_bounds(label_bounds)
        names, values = read_columns(X)
        n = values[0].size if values else 0
        if n == 0:
            raise ValueError(
                "X must have at least one row and one column: bins and categories are read off it."
            )
        self._columns, codes = learn_columns(
            values,
            names,
            categorical=categorical_mask(categorical_features, names, values, bin_edges),
            n_bins=default_bins(n) if n_bins is None else n_bins,
            bin_edges=bin_edges,
        )
        counter = KeyCounter(InMemory(Labelled(range(n), np.zeros((0, n)), codes)), self._columns)
        self._sets, self._all_needed = resolve_feature_sets(
            feature_sets, names, lambda asked: [found.counts for found in counter(asked)]
        )
        self._n_codes = counter.n_codes
        # Rows that are still being read when another thread releases must not bring the sums back.
        self._lock = threading.RLock()
        self._tally: _Tally | None = self._form()(
            Labelled(range(0), self._targets(np.zeros(0)), [c[:0] for c in codes])
        )

    @property
    def n_samples(self) -> int:
        """Rows added so far."""
        return int(self._open().counts[0].counts.sum())

    def add(self, X: Any, y: Any) -> Self:
        """Add rows; nothing is spent or released.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or rows in blocks
            With the columns of the X that these bags were opened with, in its order.
        y : array-like of shape (n_samples,), or column of X where it lies in blocks
            Labels; private.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If columns differ, or a value was no category at opening. Nothing is added then.
        RuntimeError
            If these sums are released.
        """
        self._open()
        if is_partitioned(X):
            names, tables = table_blocks(X, y, partial(read_columns, tighten=False), self._read)
            self._check_names(names)
            rows: Partitions = encode_blocks(tables, self._columns, self._targets)
        else:
            names, values = read_columns(X)
            self._check_names(names)
            labels = np.asarray(self._read(y))
            if labels.shape != (values[0].size,):
                raise ValueError(f"y must hold one label per row of X, got shape {labels.shape}.")
            rows = InMemory(Labelled.of(self._targets(labels), encode_known(values, self._columns)))
        found = rows.gather(self._form(), _add)
        with self._lock:
            self._tally = _add([self._open(), found])
        return self

    def release(
        self,
        epsilon: float,
        *,
        delta: float = 0.0,
        min_size: int = 1,
        mechanism: NoiseName = "auto",
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> CuratedBags:
        """Add noise to the sums, and forget them.

        Parameters
        ----------
        epsilon : float
            Privacy loss bound, ε > 0, of the label of one row, for all tables together.
        delta : float, default=0.0
            With ``delta > 0``, Gaussian noise may be used.
        min_size : int, default=1
            Bags of fewer rows are merged into one.
        mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
        random_state : None, int or RandomState
            Not None: simulated noise, not valid for release.
        ledger : PrivacyLedger, optional

        Returns
        -------
        CuratedBags

        Raises
        ------
        ValueError
            If a parameter is outside its range, or no bag has ``min_size`` rows. The sums stay open.
        BudgetExceededError
            If the ledger does not allow it. The sums stay open.
        RuntimeError
            If they are released already.
        """
        if epsilon is None:
            raise ValueError(
                "epsilon must be a positive number, got None: sums without noise are not released."
            )
        check_label_privacy(epsilon, delta)
        if not isinstance(min_size, (int, np.integer)) or min_size < 1:
            raise ValueError(f"min_size must be an int of at least 1, got {min_size!r}.")
        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism}
        with self._lock:
            return self._release(int(min_size), asked, {"random_state": random_state, "ledger": ledger})

    def _release(self, min_size: int, asked: dict[str, Any], door: dict[str, Any]) -> CuratedBags:
        tally = self._open()
        membership = assign_bags(
            self._columns, self._sets, tally.counts, min_size=min_size, all_needed=self._all_needed
        )
        sums: ClassSums | NumberSums
        if self._classes is not None:
            sums = class_sums(membership, len(self._classes), self._classes, **asked)
        else:
            sums = number_sums(membership, self._bounds, **asked)
        with open_release(
            epsilon=asked["epsilon"],
            delta=asked["delta"],
            unit="label",
            adjacency="replace-one",
            label="OpenCuratedBags.release",
            theorem=sums.theorem,
            assumptions=sums.assumptions,
            plan=sums.events,
            **door,
        ) as release:
            self._tally = None  # paid for: whatever happens now, there is no second draw
            exact = self._bag_sums(membership, tally, min_size)
            if isinstance(sums, ClassSums):
                released = sums.noisy(exact, release)
            else:
                assert self._bounds is not None
                released = sums.noisy(np.append(exact, tally.further), self._bounds, release)
        return membership.report(
            released, release.close(), None if self._classes is None else tuple(self._classes)
        )

    def __repr__(self) -> str:
        said = "released" if self._tally is None else f"{self.n_samples} rows, not released"
        return f"OpenCuratedBags({len(self._sets)} feature sets, {said})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "OpenCuratedBags cannot be pickled or copied: it holds label sums without noise. Release them first."
        )

    def _open(self) -> _Tally:
        if self._tally is None:
            raise RuntimeError("these label sums are released: open others for rows that come later.")
        return self._tally

    def _check_names(self, names: Sequence[str]) -> None:
        known = [column.name for column in self._columns]
        if list(names) != known:
            raise ValueError(f"X must have the columns {known}, in this order, got {list(names)}.")

    @property
    def _read(self) -> Any:
        return read_numbers if self._classes is None else partial(read_labels, classes=self._classes)

    def _targets(self, labels: NDArray[Any]) -> NDArray[Any]:
        if self._classes is None:
            return number_targets(labels)
        return class_targets(labels, classes=self._classes, strict=False)

    def _form(self) -> Any:
        numbers = self._bounds is not None
        return partial(
            _form,
            n_codes=self._n_codes,
            feature_sets=self._sets,
            integers=as_steps(self._bounds) if self._bounds is not None else indicators,
            further=squares if numbers else None,
        )

    def _bag_sums(self, membership: Membership, tally: _Tally, min_size: int) -> NDArray[Any]:
        kept = {index.columns for index in membership.indexes}
        parts = []
        for one, counts, sums in zip(self._sets, tally.counts, tally.sums, strict=True):
            if one in kept:
                index, _, cells = make_cells(counts, self._n_codes, one, min_size=min_size)
                parts.append(_sums_at(cells, sums, index.n_cells))
        return np.concatenate(parts)


def _form(
    block: Labelled,
    *,
    n_codes: Sequence[int],
    feature_sets: Sequence[FeatureSet],
    integers: Integers,
    further: Further | None,
) -> _Tally:
    found = integers(block)
    counts, sums = [], []
    for one in feature_sets:
        own = count_keys(block.codes, n_codes, one)
        packed = pack_codes([block.codes[c] for c in one], [n_codes[c] for c in one])
        place = np.searchsorted(own.keys, packed)
        counts.append(own)
        sums.append(np.stack([add_integers(place, part, own.keys.size) for part in found], axis=1))
    return _Tally(counts, sums, np.zeros(0, dtype=np.int64) if further is None else further(block, found))


def _add(parts: list[_Tally]) -> _Tally:
    counts, sums = [], []
    for j in range(len(parts[0].counts)):
        own = add_key_counts([part.counts[j] for part in parts])
        added = []
        for part in parts:
            spread = np.zeros((own.keys.size, part.sums[j].shape[1], 1), dtype=part.sums[j].dtype)
            spread[np.searchsorted(own.keys, part.counts[j].keys), :, 0] = part.sums[j]
            added.append(spread)
        counts.append(own)
        sums.append(exact_sum(added))
    return _Tally(counts, sums, exact_sum(part.further[..., np.newaxis] for part in parts))


def _sums_at(place: NDArray[Any], sums: NDArray[Any], size: int) -> NDArray[Any]:
    """Rows of sums added up at their places, as Python integers where int64 might not hold them."""
    total = np.zeros((size, sums.shape[1]), dtype=object)
    np.add.at(total, place, sums.astype(object))
    return exact_sum([total[..., np.newaxis]])
