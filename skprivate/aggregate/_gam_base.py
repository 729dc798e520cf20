"""Base of the curated-bag models: features to bags, bags to coefficients, coefficients to scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skprivate._sklearn import Interval, StrOptions, _check_y, _fit_context
from skprivate._validation import any_table, is_frame, together, validate_data
from skprivate.aggregate._losses import FloatArray, SquaredLoss
from skprivate.aggregate._networks import FACTOR_DEFAULTS, check_options, fit_submodels, tried_submodels
from skprivate.aggregate.additive import _design, _evidence, _factors
from skprivate.aggregate.additive._constant import LabelSums, guarded_fit
from skprivate.aggregate.random._bags import no_labels
from skprivate.aggregate.tables import _aggregation, _blocks, _labels, _sums
from skprivate.aggregate.tables._cells import BagTable, CellIndex, resolve_feature_sets
from skprivate.aggregate.tables._columns import CodeArray, Column, encode_columns
from skprivate.aggregate.tables._curated_bags import CuratedBags, as_curated_bags, no_privacy
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.partitions import InMemory, Partitions, is_partitioned
from skprivate.privacy import public_generator

GAM_CONSTRAINTS: dict[str, list[Any]] = {
    **PRIVACY_CONSTRAINTS,
    **DELTA_CONSTRAINT,
    "epsilon": [*PRIVACY_CONSTRAINTS["epsilon"], None],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "feature_sets": [StrOptions({"auto", "pairs", "singles"}), Interval(Integral, 0, None, closed="left"), list, tuple],
    "min_size": [Interval(Integral, 1, None, closed="left"), None],
    "small_bags": [StrOptions({"merge", "drop"})],
    "penalty": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="left"), tuple],
    "submodel": [StrOptions({"crosses", "factors", "mlp"}), callable],
    "submodel_options": [dict, None],
    "categorical_features": [StrOptions({"from_dtype", "all"}), "array-like"],
    "n_bins": [Interval(Integral, 2, None, closed="left"), None],
    "bin_edges": [dict, None],
    "mechanism": [StrOptions(set(_labels.MECHANISMS))],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
}


class BaseCuratedBagGAM(PrivateEstimatorMixin, BaseEstimator):
    """Sum of one submodel per feature set, learned from label sums per bag.

    A subclass names its loss, turns labels into bags, and scores into predictions.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = GAM_CONSTRAINTS
    _only_labels: ClassVar[bool] = True
    _most_fit_tasks: ClassVar[int] = 3
    penalties_: Any
    n_iter_: int

    def _loss(self, n_outputs: int) -> SquaredLoss:
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_bags(self, X: Any, bags: CuratedBags | Mapping[str, Any]) -> Any:
        """Learn from reports alone.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The rows that were aggregated, with the columns that the bags name, in any order.
        bags : CuratedBags or mapping
            From `make_curated_bags` or `CuratedBags.from_frames`, or its ``to_dict()``. If ``feature_sets`` is a list,
            each of its sets must be among the bags' or a subset of one; otherwise every set of the bags gets a
            submodel.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If bags is something else, GROUP BY tables for example.
        ValueError
            If a row of X has no bag, or a count is not the number of the bag's rows.
        """
        self._check_penalty()
        bags = as_curated_bags(bags)
        self._check_bags(bags)
        bags, matched = _aggregation.match_rows(bags, *_read_features(X, estimator=self, reset=True, tighten=True))
        self._learn(matched.codes, matched.indexes, bags)
        self.privacy_guarantee_ = bags.guarantee
        return self

    def contributions(self, X: Any) -> FloatArray:
        """Split the score into the contributions of the feature sets.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_sets), or (n_samples, n_sets, n_classes) for several classes
            In the order of ``feature_sets_``. The score is ``intercept_`` and the sum over sets. A row gets 0 from a
            set if its value is unknown there, or its combination has no bag.
        """
        parts = np.stack(self._contributions(X), axis=1)
        return parts[:, :, 0] if parts.shape[2] == 1 else parts

    def largest_cells(self, n_cells: int = 10) -> list[tuple[tuple[str, ...], tuple[str, ...], float, int]]:
        """Find the cells with the largest coefficients.

        Parameters
        ----------
        n_cells : int

        Returns
        -------
        list of (feature set, values, coefficient, number of rows)
            Largest first; with several classes, each cell's coefficient of the largest absolute value.
        """
        check_is_fitted(self)
        cells = []
        for table, bags in zip(self.tables_, self.bags_.tables, strict=True):
            strongest = table[np.arange(table.shape[0]), np.argmax(np.abs(table), axis=1)]
            for key, coefficient, count in zip(self.bags_.readable_keys(bags), strongest, bags.counts, strict=True):
                cells.append((bags.feature_set, key, float(coefficient), int(count)))
        return sorted(cells, key=lambda cell: -abs(cell[2]))[:n_cells]

    def _code(
        self,
        X: Any,
        y: Any,
        read_labels: Callable[[Any], NDArray[Any]],
        summarise_labels: Callable[[NDArray[Any]], list[Any]],
        choose_targets: Callable[[list[Any], int], tuple[Any, Callable[[NDArray[Any]], NDArray[Any]]]],
    ) -> tuple[tuple[tuple[Column, ...], list[CodeArray], Partitions], Any]:
        """Code rows in memory or in blocks: columns, codes of all rows, and rows to sum; and find the classes.

        ``choose_targets`` gets the distinct labels that ``summarise_labels`` finds in a single column, and the number
        of columns of labels; it returns the classes and a function from labels to targets.
        """
        n_columns = 1
        if is_partitioned(X):
            read = partial(_read_features, estimator=_blocks.learn_names(self, X, y))
            names, tables = _blocks.table_blocks(X, y, read, read_labels)
        else:
            names, values = _read_features(X, estimator=self, reset=True, tighten=True)
            labels = read_labels(y)
            n_columns = labels.shape[1] if isinstance(labels, np.ndarray) and labels.ndim == 2 else 1
            labels = _check_y(labels, multi_output=n_columns > 1, estimator=self)
            check_consistent_length(values[0], labels)
            tables = InMemory(_blocks.Table(range(len(labels)), values, labels))
        columns, n_rows, seen = _blocks.learn_blocks(
            tables,
            names,
            categorical_features=self.categorical_features,
            n_bins=self.n_bins,
            bin_edges=self.bin_edges,
            summarise_labels=summarise_labels if n_columns == 1 else no_labels,
            merge_labels=together,
        )
        if n_rows == 0:
            raise ValueError("Found array with 0 sample(s): X has no rows.")
        classes, targets = choose_targets(seen, n_columns)
        rows = _blocks.encode_blocks(tables, columns, targets)
        return (columns, _blocks.gather_codes(rows, columns), rows), classes

    def _aggregate(
        self,
        columns: tuple[Column, ...],
        codes: list[CodeArray],
        rows: Partitions,
        plan: Callable[[_aggregation.Membership], _sums.ClassSums | _sums.NumberSums],
        noise: float,
        classes: tuple[Any, ...] | None = None,
    ) -> None:
        """Release sums of the targets over bags planned for ``noise`` times their variance, and learn from them."""
        n = codes[0].size
        features = InMemory(_sums.Labelled(range(n), np.zeros((0, n)), codes))
        membership = _aggregation.plan_bags(
            _aggregation.KeyCounter(features, columns),
            n,
            self.feature_sets,
            self.min_size,
            lambda bags: noise * plan(bags).noise_variance,
            drop=self.small_bags == "drop",
        )
        sums = plan(membership)
        networks = self._networks(membership.indexes, self._loss(sums.n_outputs), sums.n_outputs)
        if self.epsilon is None:
            released, self.privacy_guarantee_ = sums.exact(rows), no_privacy(sums.assumptions)
        else:
            with self._releasing(
                sums, unit="label", adjacency="replace-one", assumptions=sums.assumptions, n_units=n
            ) as release:
                released = sums.run(rows, release)
        report = membership.report(released, self.privacy_guarantee_, classes)
        self._learn(codes, membership.indexes, report, networks)

    def _networks(self, indexes: list[CellIndex], loss: SquaredLoss, n_outputs: int) -> Any:
        """Make and try the factors or networks of the sets, if any; outputs that are learned apart start alike."""
        n_outputs = 1 if loss.separable else n_outputs
        if self.submodel == "crosses":
            return None
        if self.submodel == "factors":
            return _factors.Factors(
                indexes, n_outputs, check_options(self.submodel_options, FACTOR_DEFAULTS)["embedding"]
            )
        seed = int(public_generator(self.random_state).integers(2**31))
        return tried_submodels(indexes, n_outputs, self.submodel, self.submodel_options, seed)

    def _learn(
        self, codes: list[CodeArray], known: list[CellIndex], report: CuratedBags, networks: object = None
    ) -> None:
        """Learn from the released sums; no label is available from here on."""
        indexes, tables, noise = self._modelled_sets(known, report)
        design = _design.CellDesign(indexes, codes)
        sums = np.ascontiguousarray(np.concatenate([table.label_sums for table in tables]).T)
        loss = self._loss(len(sums))
        if networks is None:
            networks = self._networks(indexes, loss, len(sums))
        coefs, penalties, n_iter = [], [], []
        for problem in _problems(design, loss, sums, noise, report):
            if networks is None:
                coefs.append(self._fit_crosses(problem, indexes))
            else:
                coefs.append(self._fit_networks(problem, indexes, networks))
            penalties.append(self.penalties_)
            n_iter.append(self.n_iter_)
        coef, self.n_iter_ = np.concatenate(coefs), max(n_iter)
        if len(coefs) > 1 and networks is None:
            self.penalties_ = np.stack(penalties, axis=1)
        self.bags_ = replace(report, tables=tuple(tables))
        self.feature_sets_ = [table.feature_set for table in tables]
        self.intercept_ = coef[:, -1]
        ends = design.offsets[1:-1]
        self.tables_ = [np.ascontiguousarray(part.T) for part in np.split(coef[:, :-1], ends, axis=1)]
        self._indexes = indexes

    def _fit_networks(self, problem: LabelSums, indexes: list[CellIndex], networks: object) -> FloatArray:
        centre, scale = problem.units()
        seed = int(public_generator(self.random_state).integers(2**31))

        def train(
            sums: FloatArray, spread: float, learn: Callable[[LabelSums, float], tuple[FloatArray, int]]
        ) -> FloatArray:
            scaled = (sums - problem.design.counts * centre[:, np.newaxis]) / scale
            coef, self.n_iter_ = learn(
                LabelSums(problem.design, problem.loss, scaled, problem.noise / scale**2), spread
            )
            coef = scale * coef
            coef[:, -1] += centre
            return coef

        def learn_networks(scaled: LabelSums, _: float) -> tuple[FloatArray, int]:
            return fit_submodels(scaled, indexes, networks=networks, options=self.submodel_options, random_state=seed)

        learners: list[Callable[[LabelSums, float], tuple[FloatArray, int]]] = [learn_networks]
        if isinstance(networks, _factors.Factors):
            decays = check_options(self.submodel_options, FACTOR_DEFAULTS)["weight_decays"]
            learners = [partial(networks.fit, decay=decay, random_state=seed) for decay in decays]
        self.penalties_ = None
        return guarded_fit([partial(train, learn=learn) for learn in learners], problem)

    def _fit_crosses(self, problem: LabelSums, indexes: list[CellIndex]) -> FloatArray:
        order = np.array([len(index.columns) for index in indexes])
        if isinstance(self.penalty, str):
            fit = _evidence.fit_evidence(problem, order, tol=self.tol)
            self.penalties_ = fit.dispersion / fit.variances
            self.n_iter_ = fit.n_iter
            return fit.coef
        main, cross = self.penalty if isinstance(self.penalty, tuple) else (self.penalty, self.penalty)
        self.penalties_ = np.where(order == 1, float(main), float(cross))
        ridge = np.append(self.penalties_[problem.design.set_of_cell()], 0.0)

        def solve(sums: FloatArray, _: float) -> FloatArray:
            linear = replace(problem, sums=sums).possible()
            solution = _design.fit_tables(
                problem.design, problem.loss, linear, ridge, tol=self.tol, max_iter=self.max_iter
            )
            self.n_iter_ = solution.n_passes
            return solution.coef

        return guarded_fit([solve], problem)

    def _modelled_sets(
        self, known: list[CellIndex], report: CuratedBags
    ) -> tuple[list[CellIndex], list[BagTable], FloatArray]:
        """Collect cells, label sums and noise variances (n_outputs, n_cells) of the model's own feature sets."""
        reported = {frozenset(table.feature_set): j for j, table in enumerate(report.tables)}
        if isinstance(self.feature_sets, (list, tuple)):
            names = [column.name for column in report.columns]
            positions, _ = resolve_feature_sets(list(self.feature_sets), names, lambda _: [])
            wanted = [tuple(names[c] for c in columns) for columns in positions]
        else:
            wanted = [table.feature_set for table in report.tables]
        indexes: list[CellIndex] = []
        tables: list[BagTable] = []
        noise: list[FloatArray] = []
        for feature_set in wanted:
            j = reported.get(frozenset(feature_set))
            if j is not None:
                table = report.tables[j]
                merged = np.ones(table.n_bags)
                index = known[j]
            else:
                table, merged = self._best_superset(report, feature_set)
                place = {column.name: c for c, column in enumerate(report.columns)}
                columns = tuple(place[name] for name in feature_set)
                index = CellIndex(columns, tuple(report.columns[c].n_codes for c in columns), table.keys)
            indexes.append(index)
            tables.append(table)
            noise.append(np.outer(np.broadcast_to(table.noise_variance, report.n_outputs), merged))
        return indexes, tables, np.concatenate(noise, axis=1)

    @staticmethod
    def _best_superset(report: CuratedBags, feature_set: tuple[str, ...]) -> tuple[BagTable, FloatArray]:
        best: tuple[BagTable, FloatArray] | None = None
        least = np.inf
        for table in report.tables:
            has_all_rows = table.counts.sum() == report.n_samples and not np.any(table.keys[-1] < 0)
            if has_all_rows and set(feature_set) <= set(table.feature_set):
                projected, merged = _aggregation.project_table(table, feature_set)
                noise = float(np.sum(table.noise_variance) * merged.sum())
                if best is None or noise < least:
                    best, least = (projected, merged), noise
        if best is None:
            raise ValueError(
                f"feature_sets holds {feature_set}, which is no subset of a reported set with all its rare bags: "
                f"{[table.feature_set for table in report.tables]}."
            )
        return best

    def _scores(self, X: Any) -> FloatArray:
        """Score rows; shape (n_samples, n_outputs)."""
        parts = self._contributions(X)
        scores = np.tile(self.intercept_, (len(parts[0]), 1))
        for part in parts:
            scores += part
        return scores

    def _contributions(self, X: Any) -> list[FloatArray]:
        all_cells = self._locate(X)
        # Index -1, no bag, is the appended row of zeros.
        return [
            np.concatenate([table, np.zeros((1, table.shape[1]))])[cells]
            for table, cells in zip(self.tables_, all_cells, strict=True)
        ]

    def _locate(self, X: Any) -> list[CodeArray]:
        check_is_fitted(self)
        _, values = _read_features(X, estimator=self, tighten=True)
        codes = encode_columns(values, self.bags_.columns)
        return [index.locate(codes) for index in self._indexes]

    def _check_penalty(self) -> None:
        if isinstance(self.penalty, tuple) and not (
            len(self.penalty) == 2 and all(isinstance(p, Real) and float(p) >= 0 for p in self.penalty)
        ):
            raise ValueError(f"penalty must be 'evidence', a number or (main, cross), got {self.penalty!r}.")

    def _check_bags(self, bags: CuratedBags) -> None:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _problems(
    design: _design.CellDesign, loss: SquaredLoss, sums: FloatArray, noise: FloatArray, report: CuratedBags
) -> list[LabelSums]:
    """State the fit of all outputs together, or of each by itself where the loss allows it."""
    squares, bounds = report.square_sum, report.label_bounds
    if len(sums) == 1 or not loss.separable:
        if np.ndim(bounds) == 2:
            bounds = (np.min(bounds), np.max(bounds))
        return [_with_own_total(LabelSums(design, loss, sums, noise.max(axis=0), squares, bounds), 0, report)]
    outputs = range(len(sums))
    squares = [None for _ in outputs] if squares is None else squares
    bounds = [bounds for _ in outputs] if np.ndim(bounds) < 2 else bounds
    return [
        _with_own_total(LabelSums(design, loss, sums[[k]], noise[k], squares[k], bounds[k]), k, report) for k in outputs
    ]


def _with_own_total(problem: LabelSums, k: int, report: CuratedBags) -> LabelSums:
    """State Σy² with the problem's own total: that of all tables has other noise, which far from 0 is all there is."""
    if problem.square_sum is None or problem.label_bounds is None:
        return problem
    rows = sum(int(table.counts.sum()) for table in report.tables)
    total = sum(float(table.label_sums[:, k].sum()) for table in report.tables) * report.n_samples / rows
    shift = sum(problem.label_bounds) * (float(problem.total[0]) - total)
    return replace(problem, square_sum=problem.square_sum + shift)


def _read_features(
    X: Any, *, estimator: BaseEstimator, reset: bool = False, tighten: bool = False
) -> tuple[list[str], list[Any]]:
    if is_frame(X):
        validate_data(estimator, X, skip_check_array=True, reset=reset)
    else:
        X = any_table(estimator, X, reset=reset)
    names, values = _blocks.read_columns(X, tighten=tighten)
    if not values or values[0].size == 0:
        raise ValueError(f"Found array with 0 sample(s) or 0 feature(s) (shape={X.shape}).")
    if any(column.dtype.kind == "f" and np.isinf(column).any() for column in values):
        raise ValueError("Input X contains infinity; only finite numbers and missing values are allowed.")
    return names, values
