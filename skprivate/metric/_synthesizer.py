"""Synthetic rows under metric privacy."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skprivate import privacy
from skprivate._messages import TooFewUnitsWarning, warn_if_too_few
from skprivate._sklearn import Interval, StrOptions, _check_sample_weight, _fit_context
from skprivate._validation import column_label, column_names, declared_values, in_own_type, is_frame, refuse_other_kinds
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.metric import _domains, _tables
from skprivate.metric.grid import _bounds, _flows, _hierarchy, _mixed
from skprivate.metric.grid._measure import MOST_NUMBERS, GridMeasure, distance_to_rows
from skprivate.partitions import BATCH_ROWS, as_partitions, is_partitioned
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, RandomStateLike

_SIZE_IS_PUBLIC = "the number of rows is public"
_DECLARED = "the categories that types of columns declare are public, not found in private rows"


class MetricPrivateSynthesizer(PrivateEstimatorMixin, BaseEstimator):
    """Private measure of the rows in a box, to draw synthetic rows from.

    ``metric="rows"`` is plain ε-differential privacy for one row more or less. ``metric="wasserstein"`` protects the
    data set as a whole: the laws of the output for two data sets of the same size whose empirical measures have the
    Wasserstein distance ρ differ by at most a factor of e^{ερ}, whichever rows differ.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Privacy budget of one fit. With ``metric="wasserstein"`` it is per unit of distance, where the box has
        sides of length 1; for n rows that is ``epsilon / n`` per row (see `row_guarantee`), so useful values are n
        times as large as those of plain differential privacy.
    metric : {"rows", "wasserstein"}, default="rows"
        Neighbouring data sets: one row more or less, or rows that moved.
    bounds : "private", dict {column: (low, high)}, pair (lower, upper), default="private"
        Public range of the columns, by name or position; or lower and upper ends, numbers or arrays with one number per
        column. "private" (with ``metric="rows"``) finds a range by noisy counts and the exponential mechanism. That
        takes 10 % of the budget and some 1000 rows · columns / epsilon, more with many columns. Values outside are
        clipped. With ``categories``, bounds are those of the remaining columns.
    categories : dict of {int or str: sequence}, default=None
        Public values of categorical columns (strings or any hashable values), by column number or name. Columns of a
        frame whose type declares values (booleans, categories of pandas, enumerations) need none: they are categories
        of these, unless ``bounds`` has them. Their combinations, 16384 at most, are split before the numeric columns
        ("rows"), or have a grid each ("wasserstein"): there should be many more rows than combinations. A value that
        is not listed is an error.
    category_weight : float > 0, default=1.0
        Distance between rows that differ in one categorical column alone, in sides of the box; columns add up, and to
        the distance of the numeric ones. Under "rows" only `score` uses it.
    resolution : "auto" or int, default="auto"
        Cells per column; a power of two with ``metric="rows"``. "auto" depends on ``epsilon``, the number of
        columns and, with "rows", on the number of rows and coarse counts, released with 5 % and 10 % of the budget.
    ground : {"linf", "l2", "l1"}, default="linf"
        Distance between rows that Wasserstein distance is built on, in fractions of the bounds.
    out_of_bounds : {"clip", "raise"}, default="clip"
        Treatment of values outside public ``bounds``; private ones always clip.
    <random_state, ledger>

    Attributes
    ----------
    measure_ : GridMeasure or MixedMeasure
        The released probability measure: grid and weights (per combination of categories).
    bounds_ : tuple of two ndarrays of shape (n_numeric_features,)
        Lower and upper bounds: the public ones, or those released with ``bounds="private"``.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    MetricPrivatizer : Randomises each row before it is collected.
    sklearn.neighbors.KernelDensity : Draws rows from a density, without privacy.

    Notes
    -----
    **Formal guarantee.** "rows": the law of `measure_` changes by at most a factor e^ε when one row is added or
    removed (pure ε-differential privacy). "wasserstein": by at most e^{ε·W1(μ, ν)}, μ and ν being the empirical
    measures of two data sets with the same number of rows, which is public, in the unit cube, snapped to a lattice
    with 2³⁶ steps per cell of the grid (fewer where that is far below the noise). Released are `measure_` and, with
    ``bounds="private"``, `bounds_`; rows drawn from it cost
    nothing more. The exponents of the expected W1 error, −1/(d+1) and (for d ≥ 2) −1/d in n·ε, are optimal. Proofs
    and limits: docs/guide/metric.md.

    References
    ----------
    .. [1] M. Boedihardjo, T. Strohmer, R. Vershynin, "Metric geometry of the privacy-utility tradeoff", 2024,
       arXiv:2405.00329, Theorem 6.2.
    .. [2] Y. He, R. Vershynin, Y. Zhu, "Algorithmically effective differentially private synthetic data", COLT 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.metric import MetricPrivateSynthesizer
    >>> X = np.random.default_rng(0).beta(2, 5, size=(10_000, 2))
    >>> synthesizer = MetricPrivateSynthesizer(epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> synthesizer.sample(500).shape
    (500, 2)
    >>> print(synthesizer.privacy_guarantee_)
    1-differential privacy for one row (add-remove)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        "epsilon": [Interval(Real, 0, None, closed="neither")],  # per unit of distance
        "metric": [StrOptions({"wasserstein", "rows"})],
        "bounds": [Mapping, "array-like", StrOptions({"private"})],
        "categories": [Mapping, None],
        "category_weight": [Interval(Real, 0, None, closed="neither")],
        "resolution": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "ground": [StrOptions({"l1", "l2", "linf"})],
        "out_of_bounds": [StrOptions({"clip", "raise"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        metric: Literal["rows", "wasserstein"] = "rows",
        bounds: Mapping[Any, Any] | ArrayLike = "private",
        categories: Mapping[Any, Any] | None = None,
        category_weight: float = 1.0,
        resolution: int | Literal["auto"] = "auto",
        ground: Literal["linf", "l2", "l1"] = "linf",
        out_of_bounds: Literal["clip", "raise"] = "clip",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.metric = metric
        self.bounds = bounds
        self.categories = categories
        self.category_weight = category_weight
        self.resolution = resolution
        self.ground = ground
        self.out_of_bounds = out_of_bounds
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a private measure of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows in blocks
            Besides arrays and frames a Dask array or DataFrame, a pyarrow dataset, or `skprivate.partitions.Blocks`.
            The same rows give the same measure to the last bit, wherever they are.
        y : Ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If bounds are degenerate or not those of the columns, if the grid is too large, if there are more than 62
            columns of numbers, or, with ``out_of_bounds="raise"``, if a value is outside.
        TypeError
            If a column holds dates, or is of a type that synthetic rows cannot have.

        Warns
        -----
        NoiseFillsBoxWarning
            With "wasserstein", if the result would hardly depend on the rows; before it is paid.
        TooFewUnitsWarning
            With ``bounds="private"``, if rows are too few to find them, by released numbers. Nothing large is made up
            then: values of columns whose magnitude is not seen are about 1.
        """
        schema, rows, columns = self._check_rows(X)
        mixed, n_features = bool(columns.values), len(columns.numeric)
        box = self._check_box(columns.numeric if mixed else n_features)
        resolution = self._check_resolution(n_features, columns)
        if box is not None and self.out_of_bounds == "raise":
            rows = rows.map(partial(_inside, box=box))
        n_rows = rows.n_rows  # in blocks all rows are read and checked before anything is paid
        assumptions: tuple[str, ...] = ("bounds are public",) if box is not None and n_features else ()
        assumptions += ("categories are public",) if mixed else ()
        assumptions += (_DECLARED,) if len(columns.values) > len(self.categories or ()) else ()
        if self.metric == "rows":
            mechanism = self._hierarchy(n_features, box, resolution, columns)
            terms: dict[str, Any] = {"unit": "row", "adjacency": "add-remove"}
        elif n_rows == 0:
            raise ValueError("X has no rows (0 samples): metric='wasserstein' needs one at least.")
        else:
            cells, sizes, weight = resolution, columns.sizes, float(self.category_weight)
            if cells is None:
                cells = _flows.choose_cells(self.epsilon, n_features, self.ground, sizes)
            mechanism = _flows.LaplaceFlow(
                self.epsilon, n_rows, n_features, self.ground, cells, sizes=sizes, weight=weight
            )
            terms = {"unit": "data set", "adjacency": "metric", "metric": self._distance(box, columns)}
            assumptions += (_SIZE_IS_PUBLIC,)
            rows = rows.map(partial(_domains.block_to_unit, box=box))
            _flows.warn_if_noise_fills_box(mechanism)
        with self._releasing(mechanism, assumptions=assumptions, **terms) as release:
            released = mechanism.run(rows, release)
        if self.metric == "rows":
            private = box is None
            box, weights, size = released
            if private:
                _warn_of_bounds(mechanism.box, box.unseen, size, columns)
        else:
            weights = released
        kind: Literal["cells", "nodes"] = "cells" if self.metric == "rows" else "nodes"
        self.measure_: GridMeasure | _mixed.MixedMeasure
        if mixed:  # one axis for the combinations
            weights = weights.reshape(columns.n_combinations, *weights.shape[weights.ndim - n_features :])
            self.measure_ = _mixed.MixedMeasure(columns, box.lower, box.upper, weights, kind)
        else:
            self.measure_ = GridMeasure(box.lower, box.upper, weights, kind, columns.names)
        self.bounds_ = (box.lower, box.upper)
        self._schema = schema
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(schema := state.get("_schema"), _tables.TableSchema):
            state = {**state, "_schema": schema.kind(state["n_features_in_"])}
        super().__setstate__(state)

    def _check_rows(self, X):
        """Validate rows: schema, blocks of (numeric rows, combinations of categories or None), and columns."""
        in_blocks = is_partitioned(X)
        public = as_partitions(X).empty if in_blocks else X
        declared = self._declared(public)
        plain = self.categories is None and not declared
        schema, tables = _tables.read_tables(self, X, _tables.numeric_table if plain else _tables.mixed_table)
        names = getattr(self, "feature_names_in_", None)
        columns = _mixed.check_categories(self.categories, self.n_features_in_, names, declared)
        if len(columns.numeric) > MOST_NUMBERS:
            raise ValueError(
                f"X must have at most {MOST_NUMBERS} columns of numbers, got {len(columns.numeric)}. Take fewer."
            )
        if not plain:
            refuse_other_kinds(public, columns.values, entry_types=not in_blocks)
            typed = in_own_type(public, columns.values)
            columns = replace(columns, values={j: tuple(values) for j, values in typed.items()})
        schema.refuse_other_types(columns.examples(), columns.values)
        return schema, tables.map(_without_groups if plain else columns.encode), columns

    def _declared(self, public):
        """Find columns of a frame whose types declare values, but for those with bounds."""
        if not is_frame(public):
            return {}
        bounds = self.bounds if isinstance(self.bounds, Mapping) else {}
        columns = enumerate(zip(column_names(public), declared_values(public), strict=True))
        return {j: values for j, (name, values) in columns if values and j not in bounds and str(name) not in bounds}

    def _distance(self, box, columns):
        """Name the distance, with a fingerprint of bounds and categories by column."""
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        bounds = {names[j]: pair for j, *pair in zip(columns.numeric, box.lower, box.upper, strict=True)}
        name = f"Wasserstein-1 over {self.ground} distance in fractions of the bounds"
        weight = self.category_weight if columns.values else 0.0
        if columns.values:
            name += f" plus {weight:g} for every category that differs"
        return f"{name} #{privacy.fingerprint(bounds, weight, sorted(names[j] for j in columns.values))}"

    def _hierarchy(self, n_features, box, resolution, columns):
        range_epsilon = _hierarchy.RANGE_SHARE * self.epsilon if box is None else 0.0
        depth = None if resolution is None else columns.bits + n_features * (resolution.bit_length() - 1)
        n_groups = columns.n_combinations if columns.values else None
        hierarchy = _hierarchy.BinaryHierarchy(self.epsilon - range_epsilon, n_features, depth, n_groups)
        return _hierarchy.BoxedHierarchy(
            _bounds.PrivateBounds(range_epsilon, n_features) if box is None else box, hierarchy
        )

    def _check_box(self, columns):
        """Check the public box of the numeric columns; None if it is to be found privately."""
        if columns in (0, []):
            return _domains.Box(np.empty(0), np.empty(0))
        if not isinstance(self.bounds, str):
            return _domains.check_domain(self.bounds, columns, getattr(self, "feature_names_in_", None))
        if self.metric != "rows":
            raise ValueError(
                "bounds='private' needs metric='rows': a quantile can jump although the rows hardly move in "
                "Wasserstein distance, so no noise at a cost per unit of distance hides it. Pass "
                "bounds={column: (low, high)}, or (lower, upper), from what is publicly known."
            )
        if self.out_of_bounds != "clip":
            raise ValueError(
                "bounds='private' needs out_of_bounds='clip': rows outside are expected, and a refusal would reveal "
                f"them; got out_of_bounds={self.out_of_bounds!r}."
            )
        return None

    def _check_resolution(self, n_features, columns):
        """Check ``resolution``, an int or None ("auto"), and refuse a grid that is too large, by public numbers."""
        if n_features == 0:
            return 1
        resolution = None if self.resolution == "auto" else int(self.resolution)
        if self.metric == "rows" and resolution is not None and resolution & (resolution - 1):
            raise ValueError(f"resolution must be a power of two for binary grids, got {resolution}.")
        if self.metric == "wasserstein":
            _flows.check_nodes(resolution or 1, n_features, columns.sizes)
        elif (
            resolution is not None and columns.bits + n_features * (resolution.bit_length() - 1) > _hierarchy.MAX_DEPTH
        ):
            raise ValueError(
                f"resolution={resolution} gives {2**columns.bits} * {resolution}**{n_features} cells, more than "
                f"2**{_hierarchy.MAX_DEPTH}; use resolution='auto'."
            )
        return resolution

    def sample(self, n_samples: int = 1, *, random_state: RandomStateLike = None) -> Any:
        """Draw synthetic rows: post-processing of the released measure, at no further cost.

        Every row has the law of `measure_`; together they spread over it evenly (systematic sampling).

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int or RandomState, default=None
            Public randomness.

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_features)
            The kind of table that `fit` got, with its names and types: integers and booleans are rounded, categories
            are those of ``categories``. Arrays of strings come back as arrays of objects.
        """
        (rows,) = self.sample_blocks(n_samples, sys.maxsize, random_state=random_state)
        return rows

    def sample_blocks(
        self, n_samples: int, block_rows: int = BATCH_ROWS, *, random_state: RandomStateLike = None
    ) -> Iterator[Any]:
        """Draw synthetic rows in blocks, for tables that do not fit into memory.

        Parameters
        ----------
        n_samples : int
            Rows in all.
        block_rows : int, default=262144
            Rows of a block; the last one may have fewer.
        random_state : None, int or RandomState, default=None
            Public randomness.

        Returns
        -------
        iterator of tables
            As `sample` gives them. Without ``categories`` these are the rows of `sample` with the same seed, and
            8 bytes for each of ``n_samples`` rows are in memory besides a block. With them blocks are drawn one by one.
        """
        check_is_fitted(self)
        for name, value in (("n_samples", n_samples), ("block_rows", block_rows)):
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be an int >= 1, got {value!r}.")
        rng, n, step = privacy.public_generator(random_state), int(n_samples), int(block_rows)
        if isinstance(self.measure_, GridMeasure):
            return (self._schema.rows(list(block.T), {}) for block in self.measure_.sample_blocks(n, step, rng))
        columns = self.measure_.columns
        drawn = (self.measure_.draw(min(step, n - start), rng) for start in range(0, n, step))
        return (self._schema.rows(columns.decode(*block), columns.values) for block in drawn)

    @privacy.in_one_order
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute the negative Wasserstein-1 distance between `measure_` and the rows of X, in fractions of the bounds.

        Exact for one column; minimum-cost flow on a common grid for two (32 × 32 cells) and three (10 × 10 × 10);
        for more, or with categories (each adds ``category_weight`` where it differs), optimal assignment of up to
        1000 rows. Not private: it looks at X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Held-out rows; values outside the bounds are clipped.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), optional
            Nonnegative weights of the rows, not all 0.

        Returns
        -------
        float, at most 0
        """
        check_is_fitted(self)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if weights.min() < 0 or not weights.any():
                raise ValueError("sample_weight must be nonnegative, and not 0 for all rows.")
            weights = weights / weights.max()  # the sum of huge weights overflows
        if isinstance(self.measure_, _mixed.MixedMeasure):
            X = _tables.mixed_table(self, X, reset=False)
            return -self.measure_.distance_to_rows(X, self.ground, self.category_weight, weights)
        X = _tables.numeric_table(self, X, reset=False)
        return -distance_to_rows(self.measure_, X, self.ground, weights)

    def row_guarantee(self, n_samples: int) -> PrivacyGuarantee:
        """Derive plain differential privacy for one row from the guarantee of the fit.

        Parameters
        ----------
        n_samples : int
            Number of rows, the same in all neighbours and hence public. It is not stored by `fit`.

        Returns
        -------
        PrivacyGuarantee
            With "wasserstein": replacing one row of n moves the empirical measure by at most diameter/n.
        """
        check_is_fitted(self)
        guarantee = self.privacy_guarantee_
        if self.metric == "rows":
            return guarantee
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an int >= 1, got {n_samples!r}.")
        largest = _flows.diameter(self.ground, self.bounds_[0].size)
        if (columns := getattr(self.measure_, "columns", None)) is not None:
            largest += float(self.category_weight) * sum(size > 1 for size in columns.sizes)
        return PrivacyGuarantee(
            epsilon=guarantee.epsilon * largest / n_samples,
            delta=0.0,
            unit="row",
            adjacency="replace-one",
            assumptions=(*guarantee.assumptions, f"the number of rows is {n_samples}"),
            theorem=guarantee.theorem,
            valid_for_release=guarantee.valid_for_release,
        )


def _warn_of_bounds(mechanism, unseen, size, columns):
    """Warn where released numbers say that rows are too few to find bounds."""
    least, n_features = mechanism.least_rows, mechanism.n_features
    if not unseen:
        warn_if_too_few(size, least, "row", "MetricPrivateSynthesizer", n_features, bounds_help=True)
        return
    named = ", ".join(column_label(columns.numeric[j], columns.names) for j in unseen)
    privacy.warn_caller(
        f"about {size:.0f} rows are too few: MetricPrivateSynthesizer needs about {math.ceil(least)} for {n_features} "
        f"column(s) at this budget, and more where values are of many magnitudes. It saw none in column {named}, and "
        "took values of about 1 there. Raise epsilon, take fewer columns, or pass public bounds (bounds=).",
        TooFewUnitsWarning,
    )


def _without_groups(rows):
    return rows, None


def _inside(block, box):
    """Refuse a block with rows outside the box."""
    box.refuse_outside(block[0])
    return block
