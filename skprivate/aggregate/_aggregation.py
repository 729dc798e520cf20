"""From individual labels to released label sums: the only code that sees labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skprivate.aggregate._cells import resolve_feature_sets
from skprivate.aggregate._columns import CodeArray, Column, learn_columns
from skprivate.aggregate._curated_bags import (
    ASSUMPTIONS,
    NO_PRIVACY,
    THEOREM,
    CuratedBags,
    Membership,
    assign_bags,
    no_privacy,
)
from skprivate.aggregate._input import categorical_mask, read_columns
from skprivate.aggregate._label_noise import (
    LabelNoise,
    LabelSensitivity,
    Mechanism,
    Plan,
    plan_label_noise,
    plan_range_noise,
    private_label_bound,
    range_event,
)
from skprivate.aggregate._losses import FloatArray
from skprivate.privacy import PrivacyLedger, Release, open_release

#: Share of the budget for the range of numbers where none is given.
RANGE_SHARE = 0.1
OpenRelease = Callable[[Plan], Release]


def default_bins(n_samples: int) -> int:
    """Buckets per numeric column: the cube root of the number of rows, between 2 and 16."""
    return int(np.clip(round(n_samples ** (1 / 3)), 2, 16))


def plan_membership(
    columns: tuple[Column, ...], codes: list[CodeArray], feature_sets: Any, min_size: int
) -> Membership:
    """Assign rows to the bags of the feature sets asked for, by public rules."""
    n_codes = [column.n_codes for column in columns]
    sets, given = resolve_feature_sets(feature_sets, [c.name for c in columns], codes, n_codes)
    return assign_bags(columns, codes, sets, min_size=min_size, all_needed=given)


def aggregate_classes(
    membership: Membership,
    indicator: FloatArray,
    classes: Sequence[Any],
    *,
    epsilon: float | None,
    delta: float,
    mechanism: Mechanism,
    open_for: OpenRelease,
) -> CuratedBags:
    """Release class counts per bag.

    Parameters
    ----------
    membership : Membership
    indicator : ndarray, shape (n_samples, 1) for two classes, else (n_samples, n_classes)
    classes : sequence
    epsilon : float or None
        None releases exact counts.
    delta, mechanism
        As in `plan_label_noise`.
    open_for : callable
        Opens the release; called after everything that can fail on public numbers.
    """
    sums = membership.label_sums(indicator)
    plain = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    if epsilon is None:
        return CuratedBags(
            membership.columns,
            membership.tables(sums, 0.0),
            membership.n_samples,
            plain,
            guarantee=no_privacy(),
        )
    noise = plan_label_noise(
        LabelSensitivity.of_classes(len(classes)),
        len(membership.indexes),
        sums.size,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
    )
    release = open_for(((noise.event(sums.size), 1),))
    noisy = noise.draw(sums, release)
    guarantee = release.close()
    tables = membership.tables(noisy, noise.variance)
    return CuratedBags(membership.columns, tables, membership.n_samples, plain, guarantee=guarantee)


def aggregate_numbers(
    membership: Membership,
    labels: FloatArray,
    *,
    label_bounds: tuple[float, float] | None,
    nonnegative: bool,
    with_squares: bool,
    epsilon: float | None,
    delta: float,
    mechanism: Mechanism,
    open_for: OpenRelease,
) -> CuratedBags:
    """Release sums of numbers per bag, clipped to bounds that are given or found privately.

    Parameters
    ----------
    membership : Membership
    labels : ndarray, shape (n_samples,)
    label_bounds : (float, float) or None
        Public. With None and a finite ``epsilon``, a tenth of the budget finds a symmetric interval (or one from 0).
    nonnegative : bool
        Whether numbers are at least 0.
    with_squares : bool
        Whether the sum of squares is released too; it costs as much as one more feature set.
    epsilon, delta, mechanism, open_for
        As in `aggregate_classes`.
    """
    n = membership.n_samples
    if epsilon is None:
        clipped = labels if label_bounds is None else np.clip(labels, *label_bounds)
        sums = membership.label_sums(clipped[:, np.newaxis])
        squares = float(np.sum(clipped**2)) if with_squares else None
        tables = membership.tables(sums, 0.0)
        return CuratedBags(
            membership.columns,
            tables,
            n,
            None,
            squares,
            label_bounds,
            no_privacy((ASSUMPTIONS[0], ASSUMPTIONS[2])),
        )
    # Noise in units of the interval's width: its price does not depend on the interval, so that a failing plan
    # fails before anything is drawn.
    share = 1.0 if label_bounds is not None else 1.0 - RANGE_SHARE
    unit = plan_label_noise(
        LabelSensitivity.of_interval(0.0, 1.0),
        len(membership.indexes) + with_squares,
        membership.n_bags + with_squares,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        share=share,
    )
    plan: Plan = ((unit.event(membership.n_bags + with_squares), 1),)
    finding = None
    if label_bounds is None:
        finding = plan_range_noise(epsilon=epsilon, delta=delta, mechanism=unit.mechanism, share=RANGE_SHARE)
        plan = (*plan, (range_event(finding), 1))
    release = open_for(plan)
    if finding is not None:
        high = private_label_bound(labels, finding, release)
        low = 0.0 if nonnegative else -high
    else:
        assert label_bounds is not None
        low, high = label_bounds
    width, middle = high - low, (low + high) / 2
    clipped = np.clip(labels, low, high)
    noise = LabelNoise(unit.mechanism, unit.sensitivity * width, unit.price, False)
    private = membership.label_sums(clipped[:, np.newaxis])
    if with_squares:
        # (y − middle)² is in [0, width²/4]: scaled by 4/width it moves as far as a sum does, one more coordinate.
        squares = np.sum((clipped - middle) ** 2) * 4 / width
        noisy = noise.draw(np.append(private, squares), release)
        sums, around = noisy[:-1, np.newaxis], noisy[-1] * width / 4
        # Σy² = Σ(y − c)² + 2cΣy − nc²; the sum comes from the noisy tables.
        total = float(np.mean([part.sum() for part in np.split(sums, _ends(membership))]))
        around = float(np.clip(around, 1e-3 * n * width**2 / 4, n * width**2 / 4))
        square_sum = around + 2 * middle * total - n * middle**2
    else:
        sums, square_sum = noise.draw(private, release), None
    tables = membership.tables(sums, noise.variance)
    return CuratedBags(membership.columns, tables, n, None, square_sum, (low, high), release.close())


def _ends(membership: Membership) -> NDArray[np.int64]:
    return np.cumsum([index.n_cells for index in membership.indexes])[:-1]


def one_hot(codes: NDArray[Any], n_classes: int) -> FloatArray:
    """Indicator of the positive class of two, shape (n, 1), or of every class, shape (n, n_classes)."""
    if n_classes == 2:
        return (codes == 1).astype(np.float64)[:, np.newaxis]
    return (codes[:, np.newaxis] == np.arange(n_classes)).astype(np.float64)


def make_curated_bags(
    X: Any,
    y: Any,
    feature_sets: Any = "pairs",
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    min_size: int = 1,
    classes: Sequence[Any] | Literal["auto"] | None = "auto",
    label_bounds: tuple[float, float] | None = None,
    mechanism: Mechanism = "auto",
    categorical_features: Any = "from_dtype",
    n_bins: int | None = None,
    bin_edges: Mapping[str, Sequence[float]] | None = None,
    random_state: Any = None,
    ledger: PrivacyLedger | None = None,
) -> CuratedBags:
    """Group rows by feature values and release labels as sums per group (Algorithms 1 and 2).

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_samples, n_features)
        Public features: numbers, strings, categories, missing values.
    y : array-like of shape (n_samples,)
        Labels; private.
    feature_sets : {"singles", "pairs"}, int, or iterable, default="pairs"
        "singles": one set per column; "pairs": columns and all their pairs; an int: columns and that many pairs,
        chosen by their features' entropy; or sets of column names or positions.
    epsilon : float or None, default=None
        Privacy loss bound of the label of one row, for all tables together. None adds no noise.
    delta : float, default=0.0
        With ``delta > 0``, Gaussian noise may be used.
    min_size : int, default=1
        Bags of fewer rows are merged into one.
    classes : sequence, "auto" or None, default="auto"
        Public class labels. "auto" takes the distinct labels, as if they were public, where y holds strings,
        booleans or at most 20 integers; None treats labels as numbers.
    label_bounds : (float, float), optional
        Public interval that numbers are clipped to; otherwise a tenth of the budget finds one.
    mechanism : {"auto", "laplace", "gaussian", "discrete_gaussian"}, default="auto"
    categorical_features : "from_dtype", "all", or iterable of names or positions, default="from_dtype"
        Columns taken as they are; "from_dtype" takes those that are not numeric. Others are cut into bins.
    n_bins : int, optional
        Quantile bins of a numeric column; by default the cube root of n_samples, between 2 and 16.
    bin_edges : mapping from column name to increasing floats, optional
    random_state : None, int or RandomState
        Not None: simulated noise, not valid for release.
    ledger : PrivacyLedger, optional

    Returns
    -------
    CuratedBags
        ``bags.to_dict()`` is plain; learn from it with ``CuratedBagGAMClassifier().fit_bags(X, bags)``.

    Notes
    -----
    ε-label differential privacy, replace-one: replacing one label moves one bag sum in each of the k feature sets by
    at most 1 (2 in ℓ1 for several classes, the width of ``label_bounds`` for numbers). Features and counts are not
    protected.

    References
    ----------
    Chen, Fu, Karbasi and Mirrokni (2023), "Learning from Aggregated Data: Curated Bags versus Random Bags".

    Examples
    --------
    >>> from skprivate import make_curated_bags
    >>> X = [["apple", "low"], ["apple", "high"], ["banana", "low"], ["apple", "low"]]
    >>> bags = make_curated_bags(X, [1, 0, 0, 1], [(0,), (1,)])
    >>> for table in bags.tables:
    ...     print(table.feature_set, bags.readable_keys(table), table.counts, table.label_sums.ravel())
    ('x0',) [('apple',), ('banana',)] [3 1] [2. 0.]
    ('x1',) [('high',), ('low',)] [1 3] [0. 2.]
    """
    names, values = read_columns(X)
    labels = np.asarray(y)
    if labels.ndim != 1 or (values and labels.size != values[0].size):
        raise ValueError(f"y must hold one label per row of X, got shape {labels.shape}.")
    if not isinstance(min_size, (int, np.integer)) or min_size < 1:
        raise ValueError(f"min_size must be an int of at least 1, got {min_size!r}.")
    check_label_privacy(epsilon, delta)
    columns, codes = learn_columns(
        values,
        names,
        categorical=categorical_mask(categorical_features, names, values, bin_edges),
        n_bins=default_bins(labels.size) if n_bins is None else n_bins,
        bin_edges=bin_edges,
    )
    membership = plan_membership(columns, codes, feature_sets, int(min_size))

    def open_for(plan: Plan) -> Release:
        assert epsilon is not None
        return open_release(
            epsilon=epsilon,
            delta=delta,
            unit="label",
            adjacency="replace-one",
            random_state=random_state,
            ledger=ledger,
            label="make_curated_bags",
            theorem=THEOREM,
            assumptions=ASSUMPTIONS,
            plan=plan,
        )

    found = _find_classes(labels, classes)
    if found is None:
        numbers = check_numbers(labels)
        return aggregate_numbers(
            membership,
            numbers,
            label_bounds=check_bounds(label_bounds),
            nonnegative=False,
            with_squares=True,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            open_for=open_for,
        )
    indicator = one_hot(encode_classes(labels, found), len(found))
    return aggregate_classes(
        membership, indicator, found, epsilon=epsilon, delta=delta, mechanism=mechanism, open_for=open_for
    )


def check_label_privacy(epsilon: float | None, delta: float) -> None:
    """Refuse an ε or δ outside its range."""
    if epsilon is not None and not (np.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number, or None for no label privacy, got {epsilon!r}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}.")


def check_numbers(labels: NDArray[Any]) -> FloatArray:
    """Labels as finite floats."""
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers; pass classes for class labels.") from None
    if not np.all(np.isfinite(numbers)):
        raise ValueError("y contains NaN or infinity.")
    return numbers


def check_bounds(bounds: Any) -> tuple[float, float] | None:
    """(low, high) with low < high, or None."""
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"label_bounds must be (low, high), got {bounds!r}.") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"label_bounds must be finite with low < high, got {bounds!r}.")
    return low, high


def encode_classes(labels: NDArray[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """Position of every label in ``classes``; no label may be outside."""
    index = {value: code for code, value in enumerate(np.asarray(classes).tolist())}
    codes = np.array([index.get(value, -1) for value in labels.tolist()], dtype=np.int64)
    if np.any(codes < 0):
        # Which label it is would be a private value.
        raise ValueError(f"y contains labels that are not among the classes {list(index)}, or NaN.")
    return codes


def _find_classes(labels: NDArray[Any], classes: Any) -> list[Any] | None:
    if classes is None:
        return None
    if not isinstance(classes, str):
        found = list(classes)
        if len(found) < 2:
            raise ValueError(f"classes must hold at least two labels, got {found!r}.")
        return found
    if classes != "auto":
        raise ValueError(f"classes must be 'auto', None or a sequence of labels, got {classes!r}.")
    if labels.dtype.kind == "f":
        if np.any(np.isnan(labels)):
            raise ValueError("y contains NaN.")
        return None
    found = np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels)
    if labels.dtype.kind == "O":
        if any(label is None or label != label for label in labels.tolist()):
            raise ValueError("y contains missing labels.")
        found = np.array(sorted(set(labels.tolist()), key=lambda v: (str(type(v)), v)), dtype=object)
    if labels.dtype.kind in "iu" and found.size > 20:
        return None
    if found.size < 2:
        raise ValueError("y holds one class only; pass the public classes.")
    return list(found.tolist())


__all__ = [
    "NO_PRIVACY",
    "aggregate_classes",
    "aggregate_numbers",
    "check_bounds",
    "check_label_privacy",
    "check_numbers",
    "default_bins",
    "encode_classes",
    "make_curated_bags",
    "one_hot",
    "plan_membership",
]
