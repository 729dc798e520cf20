"""Counts by group as one release: noise, a threshold for unknown groups, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from skprivate import _validation, privacy
from skprivate._messages import delta_number, epsilon_number, member, must_be, number, whole_number
from skprivate.aggregate.counts import _groups
from skprivate.aggregate.counts._groups import Groups, Key
from skprivate.partitions import InMemory, Partitions, as_partitions
from skprivate.privacy import Adjacency, ApproximateEvent, BoundedRangeEvent, Events, GaussianEvent, Release, draws

#: Public bound on the groups of a unit: costs of the lattice are for so many.
MOST_GROUPS = 2**20
#: ε of the choice of ``max_groups`` times the noise multiplier.
EXTENT_PART = 0.45
#: Noise of the lost share over that of the counts, and how many times ``max_groups`` it looks at.
LOST_NOISE, LOOK = 7.0, 4
#: Standard deviations above the threshold from which an interval is not conditioned on passing.
CLEAR = 2.0
#: Of columns whose values may be groups, as `column_kinds` names them.
GROUPED = {"numbers", "text", "bytes", "dates", "times without a zone", "times with a zone"}
#: Thresholds for less would have no float64 tails, and sums of values beyond the other no float64.
LEAST_DELTA, LARGEST = 1e-200, 1e150


@dataclass(frozen=True, eq=False)
class PrivateCounts:
    """Released counts by group.

    Attributes
    ----------
    table : DataFrame
        Of the library of the rows, one line a group, sorted. The columns of ``by``; ``count``, ``count_low`` and
        ``count_high``; for each value ``NAME_sum``, ``NAME_mean``, ``NAME_mean_low`` and ``NAME_mean_high``. Where
        groups are unknown, ``near_threshold`` marks those that may have passed by luck: their interval is missing.
    guarantee : PrivacyGuarantee
    noise : float
        Standard deviation of a count.
    threshold : float or None
        Count from which an unknown group is shown; None for given groups.
    max_groups : int
        Groups of one unit that counted.
    lost : float or None
        Released estimate of the share of units' groups that this bound left out; None where it cannot be.

    See Also
    --------
    private_counts : Makes it.
    """

    table: Any
    guarantee: privacy.PrivacyGuarantee
    noise: float
    threshold: float | None
    max_groups: int
    lost: float | None


@dataclass(frozen=True)
class _Counted:
    """Released numbers of groups: counts and sums of values, in units."""

    keys: list[Key]
    numbers: NDArray[np.float64]
    max_groups: int
    noise: float
    threshold: float | None
    lost: float | None


@dataclass(frozen=True, kw_only=True)
class GroupCounts(privacy.Mechanism):
    """Counts and sums by group; a unit counts in up to ``max_groups`` of them, None: found privately."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    users: bool
    max_groups: int | None
    n_values: int
    given: tuple[Key, ...] | None
    salt: int
    theorem = "counts with a threshold, docs/theory/noise.md"

    def _sensitivity(self, most: int, norm_of: str) -> float:
        """Bound the change of all sums together, in steps."""
        exchange, values = self.adjacency is Adjacency.REPLACE_ONE, self.n_values
        if norm_of == "l1":
            return float(_groups.ONE * most * (1 + values) * (2 if exchange else 1))
        # Two users in one group move its values by 2 each, in two groups all numbers by 1.
        square = max(2 * (1 + values), 4 * values) if exchange else 1 + values
        return _groups.ONE * math.sqrt(most * square) * (1 + 2.0**-50)

    @cached_property
    def _threshold_delta(self) -> float | None:
        if self.given is not None:
            return None
        return self.delta if self._noise == "laplace" else draws.THRESHOLD_PART * self.delta

    @cached_property
    def _noise(self) -> Literal["gaussian", "laplace"]:
        """The kind whose deviation is less; the noise multiplier is about √(2 ln(1/δ))/ε."""
        if self.max_groups is None:
            return "gaussian"
        laplace = math.sqrt(2.0) * self._sensitivity(self.max_groups, "l1")
        if self.delta == 0.0:
            return "laplace"
        gaussian = self.epsilon * self._multiplier * self._sensitivity(self.max_groups, "l2")
        return "laplace" if laplace <= gaussian else "gaussian"

    def quantile(self, level: float) -> float:
        """Find the radius of intervals in deviations; the noise of a mean is between both laws."""
        normal = float(norm.isf((1 - level) / 2))
        return max(normal, -math.log1p(-level) / math.sqrt(2.0)) if self._noise == "laplace" else normal

    @cached_property
    def _size(self) -> int:
        """Numbers that one change moves, or all of given groups."""
        return 2 * MOST_GROUPS * (1 + self.n_values)

    def _beside(self, multiplier: float) -> list[tuple[Any, int]]:
        events: list[tuple[Any, int]] = []
        if self.given is None:
            events.append((ApproximateEvent(0.0, draws.THRESHOLD_PART * self.delta, "threshold"), 1))
        if self.users and self.max_groups is None:
            events.append((BoundedRangeEvent(EXTENT_PART / multiplier), 1))
        if self.users:
            events.append((GaussianEvent(LOST_NOISE * multiplier, 2), 1))
        return events

    @cached_property
    def _multiplier(self) -> float:
        """Noise multiplier of Gaussian counts that leaves what is drawn beside them."""
        plan = partial(privacy.gaussian_noise_multiplier, self.epsilon, self.delta, size=self._size)
        multiplier = plan()
        for _ in range(20):  # what is beside them follows from it
            wider = plan(other=tuple(self._beside(multiplier)))
            if wider <= multiplier:
                break
            multiplier = wider * (1 + 1e-6)
        return multiplier

    @cached_property
    def events(self) -> Events:
        if self._noise == "laplace":
            if self.given is None:
                return list(
                    draws.count_events_of("laplace", self.epsilon, size=self._size, threshold_delta=self.delta).items()
                )
            single = len(self.given) * (1 + self.n_values) == 1
            return [(privacy.LaplaceEvent(self.epsilon) if single else privacy.PureEvent(self.epsilon, "Laplace"), 1)]
        return [(GaussianEvent(self._multiplier, self._size), 1), *self._beside(self._multiplier)]

    def run(self, data: Groups, release: Release) -> _Counted:
        """Bound each unit's groups, add up, draw."""
        level = self.epsilon if self._noise == "laplace" else self._multiplier
        most, lost = self.max_groups or 1, None
        lines = np.ones(len(data.group), dtype=bool)
        if self.users:
            sizes = np.bincount(data.unit).astype(np.float64)
            if self.max_groups is None:
                extent = draws.private_extent(
                    draws.weigh(draws.OCTAVES.cells(sizes), None, draws.UNIT_WEIGHT),
                    epsilon=EXTENT_PART / level,
                    release=release,
                )
                most = min(MOST_GROUPS, max(1, round(extent)))
            assert data.tags is not None
            lines = privacy.chosen_keys(data.tags, data.unit, data.keys, data.group, most=most, salt=self.salt)
            if self._noise == "gaussian":
                lost = self._lost(sizes.astype(np.int64), most, level, release)
        totals = np.zeros((len(data.keys), 1 + self.n_values), dtype=np.int64)
        np.add.at(totals, data.group[lines], _groups.contributions(data)[lines])
        sums = {key: total for key, total in zip(data.keys, totals, strict=True) if total[0]}
        norm_of = "l1" if self._noise == "laplace" else "l2"
        sensitivity, step = self._sensitivity(most, norm_of), 1.0 / _groups.ONE
        lattice = draws.count_lattice(self._noise, sensitivity, level, self._size)
        noise = math.ldexp(float(lattice.scale), -lattice.shift) * step
        noise *= math.sqrt(2.0) if self._noise == "laplace" else 1.0
        if self.given is not None:
            values = np.array([sums.get(key, np.zeros(1 + self.n_values, int)) for key in self.given])
            if self._noise == "laplace":
                noisy = np.asarray(release.laplace(values, sensitivity=sensitivity, epsilon=level))
            else:
                drawn = release.gaussian(values, sensitivity=sensitivity, noise_multiplier=level, size=self._size)
                noisy = np.asarray(drawn)
            return _Counted(list(self.given), noisy * step, most, noise, None, lost)
        hidden = self._threshold_delta
        assert hidden is not None
        shared: dict[str, Any] = {"own": _groups.ONE, "most_keys": most}
        keys, noisy = release.threshold_counts(
            sums,
            n_numbers=1 + self.n_values,
            sensitivity=sensitivity,
            noise=self._noise,
            level=level,
            size=self._size,
            threshold_delta=hidden,
            step=step,
            **shared,
        )
        limit = draws.count_threshold(self._noise, lattice, delta=hidden, **shared) * step
        return _Counted(keys, noisy, most, noise, limit, lost)

    def _lost(self, sizes: NDArray[np.int64], most: int, level: float, release: Release) -> float:
        """Estimate the share of groups beyond the bound, of up to `LOOK` times as many for each user."""
        seen = np.minimum(sizes, LOOK * most)
        both = np.array([np.maximum(seen - most, 0).sum(), seen.sum()])
        # A user adds (s − most, s) with s up to LOOK·most; an exchange moves both the same way.
        widest = most * math.hypot(LOOK - 1, LOOK) * (1 + 2.0**-50)
        beyond, total = release.gaussian(both, sensitivity=widest, noise_multiplier=LOST_NOISE * level)
        return float(np.clip(beyond / max(total, 1.0), 0.0, 1.0))


def private_counts(
    X: Any,
    by: Any,
    *,
    keys: Iterable[Any] | None = None,
    values: Mapping[Any, tuple[float, float]] | None = None,
    epsilon: float,
    delta: float,
    user_ids: Any = None,
    max_groups: int | Literal["auto"] = "auto",
    adjacency: Literal["replace-one", "add-remove"] = "replace-one",
    level: float = 0.95,
    random_state: Any = None,
    ledger: privacy.PrivacyLedger | None = None,
) -> PrivateCounts:
    """Count rows, or users, by group, and average bounded values; the groups need not be known.

    Parameters
    ----------
    X : DataFrame of pandas, polars or pyarrow, a DuckDB relation, or rows in blocks
    by : column or list of columns
        Their values make the groups; a missing entry is one more value, and so are times finer than microseconds. Bin
        numbers first, to text.
    keys : iterable, optional
        Public list of groups, values of the column or tuples of several: all of them are shown, and no others.
        By default groups are found, and those of few units stay hidden.
    values : mapping of column to (low, high), optional
        Numbers to sum and average, with public limits at which they are clipped. A gap counts as the middle.
    epsilon : float > 0
    delta : float in [0, 1)
        0 for given groups with Laplace noise only.
    user_ids : column or array-like of shape (n_rows,), optional
        Who each row belongs to. A user counts once in a group, with the mean of the values there. By default each row
        is its own unit.
    max_groups : int or "auto", default="auto"
        Groups in which one user counts; "auto": found privately. Which ones is a hash of user and group.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
    level : float, default=0.95
        Level of the intervals.
    random_state : int or None, default=None
        None: secure noise. An integer simulates noise that is not valid for release.
    ledger : PrivacyLedger, optional

    Returns
    -------
    PrivateCounts

    Raises
    ------
    TypeError, ValueError
        If a parameter or column is not what is said above; nothing is spent.

    See Also
    --------
    skprivate.aggregate.release_frames : Releases sums of labels where groups are public.

    Notes
    -----
    *Guarantee.* (ε, δ) for a user, or a row. Contributions are integers; noise is Laplace or Gaussian, whichever is
    less. An unknown group is shown if its noisy count passes a threshold, which a group of one unit alone does with a
    probability that δ pays for (docs/theory/noise.md). Intervals cover noise, not what ``max_groups`` leaves out.

    Examples
    --------
    >>> import pandas as pd
    >>> from skprivate import private_counts
    >>> X = pd.DataFrame({"ward": ["east"] * 4000 + ["west"] * 900 + ["roof"], "age": [40.0] * 4901})
    >>> counts = private_counts(X, "ward", values={"age": (0, 100)}, epsilon=1.0, delta=1e-6)
    >>> counts.table["ward"].tolist()
    ['east', 'west']
    >>> bool(abs(counts.table["count"][0] - 4000) < 50)
    True
    """
    epsilon, relation = epsilon_number(epsilon), member(Adjacency, "adjacency", adjacency)
    number("level", level, "a number in (0, 1)", lambda value: 0 < value < 1)
    users = user_ids is not None
    most = _read_max_groups(max_groups, users)
    delta = _read_delta(delta, keys is None or most is None)
    columns = list(by) if isinstance(by, list | tuple) else [by]
    if not isinstance(values, Mapping | None):
        raise TypeError(must_be("values", "a mapping of columns to limits", type(values).__name__))
    limits = {name: _limits(name, pair) for name, pair in (values or {}).items()}
    privacy.refuse_other_index(X, user_ids=user_ids)
    lazy = nw.from_native(X, pass_through=True)
    rows = as_partitions(lazy.collect("pyarrow").to_native() if isinstance(lazy, nw.LazyFrame) else X)
    empty = _check_columns(rows, columns, limits, user_ids)
    given = None if keys is None else _given_keys(keys, empty.select(columns).to_native())
    _try_table(empty, columns, limits, list(given or ()))
    types = {name: _groups.native_type(empty[name]) for name in columns}
    groups: Groups = rows.gather(
        partial(_groups.read_groups, by=types, values=limits, user=user_ids), _groups.merge_groups
    )
    mechanism = GroupCounts(
        epsilon=epsilon,
        delta=delta,
        adjacency=relation,
        users=users,
        max_groups=most,
        n_values=len(limits),
        given=given,
        salt=int(privacy.public_generator(random_state).integers(2**62)),
    )
    with privacy.open_release(
        epsilon=epsilon,
        delta=delta,
        unit="user" if users else "row",
        adjacency=relation,
        random_state=random_state,
        ledger=ledger,
        label="private_counts",
        theorem=mechanism.theorem,
        assumptions=("names and types of the columns are public",),
        plan=mechanism.events,
    ) as release:
        counted = mechanism.run(groups, release)
    table = _table(empty, columns, limits, counted, mechanism.quantile(level))
    return PrivateCounts(table, release.close(), counted.noise, counted.threshold, counted.max_groups, counted.lost)


def _read_max_groups(max_groups: Any, users: bool) -> int | None:
    """Read the bound on the groups of a unit: one of a row, None where it is to be found."""
    if max_groups != "auto":
        whole_number("max_groups", max_groups)
        if max_groups > MOST_GROUPS:
            raise ValueError(must_be("max_groups", f"at most {MOST_GROUPS}", max_groups))
    if not users:
        return 1
    return None if max_groups == "auto" else int(max_groups)


def _read_delta(delta: object, needed: bool) -> float:
    probability = delta_number(delta)
    if probability == 0.0 and needed:
        raise ValueError(must_be("delta", "positive where groups or max_groups are found", probability))
    if 0.0 < probability < LEAST_DELTA:
        raise ValueError(must_be("delta", f"0 or at least {LEAST_DELTA:g}", probability))
    return probability


def _limits(name: object, pair: object) -> tuple[float, float]:
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(must_be(f"values[{name!r}]", "a pair (low, high)", type(pair).__name__))
    allowed = f"finite limits, up to {LARGEST:g}"
    low, high = (number(f"values[{name!r}]", end, allowed, lambda own: abs(own) <= LARGEST) for end in pair)
    if not low < high:
        raise ValueError(must_be(f"values[{name!r}]", "limits with low < high", (low, high)))
    return low, high


def _check_columns(rows: Partitions, by: list[Any], values: Mapping[Any, Any], user_ids: Any) -> nw.DataFrame[Any]:
    """Compare names and types, which are public; returns a frame without rows."""
    block = rows.block if isinstance(rows, InMemory) else rows.empty
    if not _validation.is_frame(block):
        raise TypeError(must_be("X", "a table with names of columns", type(block).__name__))
    empty: nw.DataFrame[Any] = nw.from_native(rows.empty, eager_only=True)
    if not by:
        raise ValueError(must_be("by", "at least one column", "none"))
    for parameter, names in (("by", by), ("values", values)):
        for name in names:
            if not isinstance(name, str) or name not in empty.columns:
                raise ValueError(must_be(parameter, f"names, as text, among the columns {empty.columns}", name))
    if len({*by, *values}) < len(by) + len(values):
        raise ValueError(must_be("by and values", "different columns", [*by, *values]))
    _refuse_other_types(empty, by)
    for name in values:
        if not empty[name].dtype.is_numeric():
            raise TypeError(must_be(f"values[{name!r}]", "a column of numbers", str(empty[name].dtype)))
    named = isinstance(user_ids, str)
    if named and user_ids not in empty.columns:
        raise ValueError(must_be("user_ids", f"identifiers, or one of {empty.columns}", repr(user_ids)))
    if user_ids is not None and not named and not isinstance(rows, InMemory):
        raise TypeError(must_be("user_ids", "a column of rows in blocks", type(user_ids).__name__))
    return empty


def _refuse_other_types(empty: nw.DataFrame[Any], by: list[str]) -> None:
    """Refuse columns whose entries are no groups, as durations and intervals."""
    native = empty.select(by).to_native()
    kinds, all_declared = _validation.column_kinds(native), _validation.declared_values(native)
    for name, kind, declared in zip(by, kinds, all_declared, strict=True):
        native_type = str(_groups.native_type(empty[name]))
        is_group = kind in GROUPED or empty[name].dtype in (nw.Categorical, nw.Enum) or native_type == "object"
        if not is_group or draws.MISSING in map(draws.entry_of, declared or ()):
            allowed = "a column of text, bytes, numbers, dates or times"
            raise TypeError(must_be(f"by[{name!r}]", allowed, native_type, "Convert it to text."))


def _given_keys(keys: object, columns: object) -> tuple[Key, ...]:
    """Read public groups, in the types of their columns."""
    if isinstance(keys, list | tuple):
        keys = [tuple(key) if isinstance(key, list) else key for key in keys]
    listed = _validation.public_values(keys)
    if listed is None:
        raise TypeError(must_be("keys", "a list of groups", type(keys).__name__))
    rows = [key if isinstance(key, tuple) else (key,) for key in listed]
    width = len(_validation.column_kinds(columns))
    if any(len(key) != width for key in rows):
        raise ValueError(must_be("keys", f"values of {width} columns each", "others"))
    parts = {j: list(dict.fromkeys(key[j] for key in rows)) for j in range(width)}
    _validation.refuse_other_kinds(columns, parts, name="keys")
    typed = _validation.in_own_type(columns, parts, name="keys")
    for j, declared in enumerate(_validation.declared_values(columns)):
        if declared is not None and not set(typed[j]) <= {*declared, None}:
            raise ValueError(must_be("keys", f"among the values {declared} that their column declares", "others"))
    entries = [dict(zip(parts[j], map(draws.entry_of, typed[j]), strict=True)) for j in range(width)]
    groups = tuple(tuple(entry[value] for entry, value in zip(entries, key, strict=True)) for key in rows)
    if len(set(groups)) < len(groups) or not groups:
        raise ValueError(must_be("keys", "different groups, at least one", len(groups)))
    return groups


def _try_table(
    empty: nw.DataFrame[Any], by: list[str], values: Mapping[Any, tuple[float, float]], given: list[Key]
) -> None:
    """Make a table without counts, so that all types come out or nothing is spent."""
    zeros = np.zeros((len(given), 1 + len(values)))
    try:
        _table(empty, by, values, _Counted(given, zeros, 1, 1.0, None, None), 1.0)
    except Exception as error:
        advice = "List values of the columns' types, and rename columns called like a result, as count."
        got = type(error).__name__
        raise ValueError(must_be("by and keys", "what a table of counts can hold", got, advice)) from error


def _table(
    empty: nw.DataFrame[Any], by: list[Any], values: Mapping[Any, tuple[float, float]], counted: _Counted, z: float
) -> Any:
    """Write released numbers into a table of the library of the rows."""
    count = np.maximum(np.rint(counted.numbers[:, 0]), 0.0)
    radius = z * counted.noise + 0.5
    columns: dict[Any, Any] = {
        "count": count.astype(np.int64),
        "count_low": np.maximum(count - radius, 0.0),
        "count_high": count + radius,
    }
    if counted.threshold is not None:
        near = count < counted.threshold + CLEAR * counted.noise
        columns["near_threshold"] = near
        for name in ("count_low", "count_high"):
            columns[name] = np.where(near, np.nan, columns[name])
    at_least_one = np.maximum(count, 1.0)
    for j, (name, (low, high)) in enumerate(values.items(), 1):
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
        share = np.clip(counted.numbers[:, j] / at_least_one, -1.0, 1.0)
        error = z * half * counted.noise / at_least_one * np.sqrt(1.0 + share**2)
        columns[f"{name}_sum"] = middle * count + half * counted.numbers[:, j]
        columns[f"{name}_mean"] = middle + half * share
        columns[f"{name}_mean_low"] = np.maximum(middle + half * share - error, low)
        columns[f"{name}_mean_high"] = np.minimum(middle + half * share + error, high)
    series = [_in_its_type(empty[name], [key[j][1] for key in counted.keys]) for j, name in enumerate(by)]
    series += [nw.new_series(name, numbers, backend=empty.implementation) for name, numbers in columns.items()]
    return nw.concat([column.to_frame() for column in series], how="horizontal").to_native()


def _in_its_type(column: nw.Series[Any], values: list[Any]) -> nw.Series[Any]:
    native = column.to_native()
    if nw.dependencies.is_pandas_like_series(native):  # narwhals forgets the categories
        return nw.from_native(type(native)(values, name=native.name, dtype=native.dtype), series_only=True)
    if nw.dependencies.is_pyarrow_chunked_array(native):
        pa = nw.get_native_namespace(column)
        array = pa.chunked_array([pa.array(values, native.type)])
        arrow: nw.Series[Any] = nw.from_native(array, series_only=True).alias(column.name)
        return arrow
    return nw.new_series(str(column.name), values, column.dtype, backend=column.implementation)
