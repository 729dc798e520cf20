"""Base of the random-bag models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import Interval, StrOptions, _fit_context
from skprivate._validation import TakesSparse, validate_data
from skprivate.aggregate import _bag_losses, _networks
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.random import _bags, _fit
from skprivate.aggregate.random._bags import BagSums, PublicRows, RandomBags
from skprivate.aggregate.random._quadratic import BagFeatures, candidates, with_buckets
from skprivate.aggregate.tables import _blocks, _sums
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.partitions import Partitions, is_partitioned, linear_rows
from skprivate.privacy import public_generator, warn_caller

RANDOM_BAG_CONSTRAINTS: dict[str, list[Any]] = {
    **PRIVACY_CONSTRAINTS,
    "epsilon": [*PRIVACY_CONSTRAINTS["epsilon"], None],
    "bag_size": [Interval(Integral, 1, None, closed="left"), None],
    "n_bags": [Interval(Integral, 1, None, closed="left"), None],
    "disjoint": ["boolean"],
    "label_release": [StrOptions({"auto", *_bags.RELEASES})],
    "alpha": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="left")],
    "fit_intercept": ["boolean"],
    "buckets": [StrOptions({"evidence"}), "boolean"],
    "prior": [StrOptions({"evidence", "ridge", "spread"})],
    "submodel": [StrOptions({"linear", "mlp"}), callable],
    "submodel_options": [dict, None],
}
_LARGEST_CONDITION = 1e13


class BaseRandomBagModel(PrivateEstimatorMixin, TakesSparse, BaseEstimator):
    """Model learned from aggregate labels of random bags, linear or a network.

    A subclass turns labels into targets, fits, and turns scores into predictions.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = RANDOM_BAG_CONSTRAINTS
    _only_labels: ClassVar[bool] = True
    _most_fit_tasks: ClassVar[int] = 2

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_bags(self, X: Any, bags: RandomBags | Mapping[str, Any]) -> Any:
        """Learn from aggregates alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows that bags were drawn from.
        bags : RandomBags or mapping
            From `make_random_bags`, or its ``to_dict()``.

        Returns
        -------
        self
        """
        self._check_submodel()
        X = validate_data(self, X, dtype=np.float64)
        bags = _bags.as_random_bags(bags)
        if bags.n_samples != X.shape[0]:
            raise ValueError(f"bags were drawn from {bags.n_samples} rows, X has {X.shape[0]}.")
        self._try_network(X, bags.structure, bags.label_sums.shape[1])
        self._check_bags(bags)
        self._learn(X, bags)
        self.privacy_guarantee_ = bags.guarantee
        return self

    def _read(
        self, X: Any, y: Any, row_keys: object, read_labels: Callable[[Any], NDArray[Any]], **checks: object
    ) -> Partitions:
        """Read rows in memory or in blocks as `Table`."""
        if is_partitioned(X):
            rows = _blocks.label_column(X, y, row_keys=row_keys)
            read = partial(_read_features, estimator=_blocks.learn_names(self, X, y, row_keys=row_keys))
            return _blocks.read_blocks(rows, read, read_labels, np.empty((0, rows.empty_block.X.shape[1])))
        X, y = validate_data(self, X, read_labels(y), dtype=np.float64, **checks)
        return _bags.table_in_memory(X, y, row_keys)

    def _fit_bags(
        self,
        public: PublicRows,
        rows: Partitions,
        plan: Callable[[BagSums], _sums.ClassSums | _sums.NumberSums],
        classes: tuple[Any, ...] | None = None,
    ) -> None:
        """Sum targets over random bags, by the mechanism of ``plan``, and fit to the sums."""
        chosen = _bags.check_label_release(self.label_release, self.epsilon)
        rng = public_generator(self.random_state)
        order = public.order()
        # Small data cannot fill large bags: at least 256 of them where there are rows for that.
        bag_size = int(np.clip(public.n_rows // 256, 1, 16)) if self.bag_size is None else self.bag_size
        drawn, sizes = _bags.draw_members(public.n_rows, bag_size, self.n_bags, disjoint=self.disjoint, rng=rng)
        structure = public.bags(drawn if order is None else order[drawn], sizes)
        sums = plan(structure)
        assert public.X is not None
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(public.X).sum()):
                raise ValueError("X must hold numbers whose squares are finite: give them in a larger unit.")
        self._try_network(public.X, structure, sums.n_outputs)
        if self.epsilon is None:
            released, self.privacy_guarantee_ = _bags.exact_bags(sums, rows, chosen, rng)
        else:
            with self._releasing(
                sums, unit="label", adjacency="replace-one", assumptions=sums.assumptions, n_units=public.n_rows
            ) as release:
                released = sums.run(rows, release)
        bags = structure.report(released, chosen, self.privacy_guarantee_, classes)
        if order is None:
            self._learn(public.X, bags)
        else:  # rows by their identifiers: arithmetic in the same order, however they came
            self._learn(public.X[order], replace(bags, members=drawn))
            self.bags_ = bags

    def _learn(self, X: FloatArray, bags: RandomBags) -> None:
        """Learn from the released aggregates; no label is available from here on."""
        X = np.ascontiguousarray(X)  # sums over rows are rounded by how an array lies in memory
        if self.submodel == "linear":
            self._learn_linear(X, bags)
        else:
            self._learn_network(X, bags)
        self.bags_ = bags

    def _learn_linear(self, X: FloatArray, bags: RandomBags) -> None:
        fit, features = self._best_fit(X, bags)
        coef = features.coef(fit.coef)
        shift = coef @ features.scaling.centre if self.fit_intercept else 0.0
        n_columns = X.shape[1]
        self.prior_: str | None = "ridge" if features.turn is None else "spread"
        self.bucket_edges_ = list(features.edges)
        sizes = [cuts.size + 1 if cuts.size else 0 for cuts in features.edges]
        self.bucket_coef_ = np.split(coef[:, n_columns:], np.cumsum(sizes)[:-1], axis=1)
        fit = replace(fit, coef=coef[:, :n_columns], intercept=fit.intercept - shift)
        if fit.condition > _LARGEST_CONDITION:
            warn_caller(
                f"the system of the bag means has condition number {fit.condition:.1e}: use a larger alpha or more "
                "bags.",
                UserWarning,
            )
        self.alpha_: FloatArray | None = fit.alpha
        self.condition_number_: float | None = fit.condition
        self.n_iter_ = max(fit.n_iter, 1)
        self.networks_: list[Any] = []
        self.network_weight_ = 0.0
        self._keep(fit.coef, fit.intercept)

    def _learn_network(self, X: FloatArray, bags: RandomBags) -> None:
        features, rows = self._network_features(X)
        objective, centre, scale = self._objective(bags)
        fit = _networks.fit_network(
            rows, objective, submodel=self.submodel, options=self._network_options(), random_state=self.random_state
        )
        n_outputs = centre.size
        self.prior_, self.alpha_, self.condition_number_ = None, None, None
        self.bucket_edges_ = list(features.edges)
        self.bucket_coef_ = [np.zeros((n_outputs, cuts.size + 1 if cuts.size else 0)) for cuts in features.edges]
        self.n_iter_ = fit.n_iter
        self.networks_ = fit.networks
        self.network_weight_ = fit.weight
        self._scaling = features.scaling
        self._unit = scale
        self._keep(np.zeros((n_outputs, X.shape[1])), centre + scale * fit.intercept)

    def _network_features(self, X: FloatArray) -> tuple[BagFeatures, FloatArray]:
        """Make the inputs of a network from public features alone, with buckets if there are not too many."""
        buckets = None if isinstance(self.buckets, str) else self.buckets
        *_, last = candidates(X, buckets=buckets, prior="ridge", centred=True)
        return last

    def _try_network(self, X: FloatArray, bags: BagSums, n_outputs: int) -> None:
        if self.submodel == "linear":
            return
        _, rows = self._network_features(X)
        _networks.try_network(self.submodel, self._network_options(), rows, bags, n_outputs)

    def _network_options(self) -> dict[str, Any]:
        options = dict(self.submodel_options or {})
        if not isinstance(self.alpha, str):
            if "weight_decay" in options:
                raise ValueError("alpha and submodel_options['weight_decay'] are one number: give one of them.")
            options["weight_decay"] = float(self.alpha)
        return options

    def _check_submodel(self) -> None:
        """Refuse contradictory parameters before any privacy cost."""
        if self.submodel == "linear":
            if self.submodel_options is not None:
                raise ValueError("submodel_options is for networks; submodel='linear' has none.")
            return
        chosen = _networks.check_options(self._network_options(), _networks.RANDOM_DEFAULTS)
        if chosen["batch_size"] == 1 and self.loss in ("debiased", "easyllp"):
            raise ValueError(f"submodel_options['batch_size'] must be >= 2 for loss={self.loss!r}, got 1.")
        if self.prior != "evidence" or not self.fit_intercept:
            name = "fit_intercept" if self.prior == "evidence" else "prior"
            raise ValueError(f"{name}={getattr(self, name)!r} is for submodel='linear' only.")

    def _best_fit(self, X: FloatArray, bags: RandomBags) -> tuple[_fit.LinearFit, BagFeatures]:
        """Choose the features whose fit has the largest evidence."""
        # A penalty that was given is that of the columns, and without an intercept buckets would be one.
        alpha = None if isinstance(self.alpha, str) else float(self.alpha)
        free = alpha is None and self.fit_intercept
        tried = candidates(
            X,
            buckets=(None if free else False) if isinstance(self.buckets, str) else self.buckets,
            prior=(None if free else "ridge") if self.prior == "evidence" else self.prior,
            centred=self.fit_intercept,
        )
        best: tuple[_fit.LinearFit, BagFeatures] | None = None
        for features, rows in tried:
            fit = self._solve(rows, bags, alpha)
            if best is None or fit.evidence > best[0].evidence:
                best = fit, features
        assert best is not None
        return best

    def _scores(self, X: Any) -> FloatArray:
        """Score rows; shape (n_samples,) or (n_samples, n_outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if self.networks_:
            return self._network_scores(X)
        scores = linear_rows(X, self.coef_, self.intercept_)
        for column, edges, coef in zip(X.T, self.bucket_edges_, self.bucket_coef_, strict=True):
            if edges.size:
                added = coef.T[np.searchsorted(edges, column, side="right")]
                scores += added if scores.ndim == 2 else added[:, 0]
        return scores

    def _network_scores(self, X: FloatArray) -> FloatArray:
        rows = self._scaling.apply(with_buckets(X, tuple(self.bucket_edges_)))
        outputs = _networks.network_scores(self.networks_, np.zeros(self._unit.size), self.network_weight_, rows)
        scores = np.atleast_1d(self.intercept_) + self._unit * outputs
        return scores if np.ndim(self.intercept_) else scores[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "networks_")  # input that was checked in vain fits nothing

    def _solve(self, X: FloatArray, bags: RandomBags, alpha: float | None) -> _fit.LinearFit:
        raise NotImplementedError

    def _objective(self, bags: RandomBags) -> tuple[_bag_losses.BagObjective, FloatArray, FloatArray]:
        """Make the loss that a network minimises, and centre and scale of the labels that it sees."""
        raise NotImplementedError

    def _keep(self, coef: FloatArray, intercept: FloatArray) -> None:
        raise NotImplementedError

    def _check_bags(self, bags: RandomBags) -> None:
        raise NotImplementedError


def _read_features(X: Any, *, estimator: BaseEstimator) -> FloatArray:
    rows: FloatArray = validate_data(estimator, X, dtype=np.float64, reset=False)
    return rows
