"""Hyperparameter search within one stated budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import column_or_1d

from skprivate import _validation
from skprivate._sklearn import HasMethods, Interval, StrOptions, _fit_context
from skprivate.base import PRIVACY_CONSTRAINTS, BestModelMixin, PrivateEstimatorMixin
from skprivate.inspection import guarantee_of, is_private
from skprivate.model_selection import _candidates, _inside, _search_mechanism
from skprivate.model_selection._scoring import SCORES, Parts, Rows, deal, private_score
from skprivate.partitions import is_partitioned
from skprivate.privacy import Adjacency, PrivacyLedger, PrivacyUnit, SearchPlan, plan_search


class PrivateSearchCV(PrivateEstimatorMixin, BestModelMixin, MetaEstimatorMixin, BaseEstimator):
    """Search for hyperparameters, all of it within one stated budget.

    An evaluation draws one of the candidates, fits it on one part of the data and scores it on the other, both
    privately. A secret random number of evaluations is made, and the best of them is the result: its model, its
    parameters and its noisy score. The privacy cost hardly grows with the number of evaluations, because the others
    stay secret. The guide (``docs/guide/private_search.md``) says when searching is worth its cost.

    Parameters
    ----------
    estimator : estimator or list of (str, estimator)
        What to search: a private estimator, a composite of which `check_pipeline` says that a guarantee could hold, or
        several of them with names. Its ``epsilon``, ``delta``, ``random_state`` and ``ledger`` are set by the search;
        where several steps are private, their stated ``epsilon`` and ``delta`` tell in which proportion they share the
        budget of an evaluation.
    param_distributions : dict, or list of dict
        Names of parameters, and lists of values or distributions with ``rvs``, as for
        `~sklearn.model_selection.RandomizedSearchCV`; an estimator may be a value. For a list of estimators, a dict
        from their names to their distributions; one that is missing has its own parameters only.
    epsilon : float > 0, default=1.0
        Budget of the whole search, ``refit`` included.
    delta : float in [0, 1), default=1e-6
        The same. 0 for pure privacy, where all candidates are pure.
    n_iter : float >= 1, default=10
        Mean number of evaluations. Their number itself is a secret.
    n_candidates : int, default=None
        Number of candidates. None is the whole grid where it has at most three times ``n_iter`` points, and that
        number of random points otherwise.
    scoring : {"auto", "accuracy", "neg_brier_score", "neg_log_loss", "neg_mean_absolute_error", \
"neg_mean_squared_error"} or callable, default="auto"
        Score of a row, the greater the better; a callable takes ``(y_true, y_pred)`` and returns one number a row. A
        user's score is the mean over its rows, and the score of a candidate the mean over units. "auto" is "accuracy"
        for classifiers and "neg_mean_squared_error" for others.
    score_bounds : (float, float), default=None
        Public bounds that scores of rows are clipped to. "accuracy" and "neg_brier_score" have bounds of their own;
        others need them, as noise is in proportion to their width.
    validation_fraction : float in (0, 1), default=0.25
        Share of the units that are held out to score on. They are not learnt from, except with ``refit``.
    refit : float in (0, 1), default=None
        Share of the budget for a fit of the best candidate on all rows. None: the model of the best evaluation is the
        result, which costs nothing more.
    predict_by : {"unit", "batch"}, default="unit"
        "unit": candidates predict the rows of one unit at a time, so that nothing in them can make one unit's score
        depend on another's rows; steps that are known to treat every row by itself prepare all rows before. "batch":
        one call for all held-out rows, which is faster, but linear algebra may round a row according to how many others
        there are; the guarantee then assumes that it does not. Where only labels are private, all rows are predicted by
        one call.
    error_score : "raise" or nan, default="raise"
        What becomes of an evaluation that fails. "raise": the search fails, its budget is spent. nan: it loses.
    public_seed : int, default=0
        Seed of what is public: which candidates are drawn, and which units are held out. No noise depends on it.
    random_state : int, RandomState instance or None, default=None
        None: secure noise, in the candidates as well. Otherwise a reproducible simulation whose result must not be
        released.
    ledger : PrivacyLedger, optional
        Budget of the data set; the whole search is paid from it before anything is drawn.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best evaluation, or with ``refit`` the one fitted on all rows. It states the guarantee of the
        whole search.
    best_params_ : dict
        Parameters of the best candidate; with a list of estimators, the name of its estimator as "estimator".
    best_score_ : float
        Noisy score of the best evaluation, paid for with it. The best of several is flattered.
    best_index_ : int
        Place of the best candidate among ``candidates_``.
    candidates_ : list of dict
        Parameters of all candidates, which are public.
    search_plan_ : SearchPlan
        The cost: what one evaluation may spend, how their number is drawn, and what all cost together. Public.
    classes_ : ndarray
        Of the best model, if it has them.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    UserLevelSelector : Chooses among models that are fitted already.
    check_cv : Makes folds for scores that stay private.
    sklearn.model_selection.RandomizedSearchCV : Searches without privacy.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy for the unit and the adjacency of the candidates, which must all protect the
    same. Random stopping: Papernot and Steinke [1]_, with the theorem that ``search_plan_`` names. Fit and score of an
    evaluation share its budget by parallel composition: a unit is in one part in all evaluations, and which one depends
    on nothing but public numbers, a keyed hash of its own identifier or, without identifiers, its position. So
    neighbouring data differ in the training part, and the cost is that of the fits, or in the held-out part, and the
    cost is that of the scores; never in both. Under replace-one this assumes that an exchanged user keeps its
    identifier, or an exchanged row its place. Under add-remove positions shift, so that identifiers (``user_ids``) are
    needed. What a candidate draws is tried out on a copy, in which zeros replace every private statistic: the cost
    is the same for all data of one shape. In the search each fit has a ledger of its own that admits this cost, and
    nothing else. A candidate whose draws depend on how many columns an earlier step releases is refused.

    Neither the number of evaluations nor the other scores are released; the time that `fit` takes tells of the former.
    So candidates have no callbacks and ``verbose=0``; their output, warnings and log records are dropped, those of the
    whole process among them while an evaluation runs; they run in one thread; and entries of a ledger have days, no
    times. A ``scoring`` of your own is called for each evaluation: it must tell nobody.

    References
    ----------
    .. [1] N. Papernot and T. Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelSGDClassifier
    >>> from skprivate.model_selection import PrivateSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(6000, 3))
    >>> y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
    >>> search = PrivateSearchCV(
    ...     UserLevelSGDClassifier(classes=[0, 1]), {"alpha": [0.0, 0.1, 10.0]}, epsilon=3.0, n_iter=3
    ... )
    >>> search = search.fit(X, y, user_ids=np.arange(6000) // 6)
    >>> search.privacy_guarantee_.epsilon <= 3.0
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True, "private": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "estimator": [HasMethods(["fit", "predict"]), list],
        "param_distributions": [dict, list],
        "n_iter": [Interval(Real, 1, None, closed="left")],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "scoring": [StrOptions({"auto", *SCORES}), callable],
        "score_bounds": ["array-like", None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "refit": [Interval(Real, 0, 1, closed="neither"), None],
        "predict_by": [StrOptions({"unit", "batch"})],
        "error_score": [StrOptions({"raise"}), Real],
        "public_seed": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        param_distributions: dict[str, Any] | list[dict[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_iter: float = 10,
        n_candidates: int | None = None,
        scoring: str | Callable[..., Any] = "auto",
        score_bounds: ArrayLike | None = None,
        validation_fraction: float = 0.25,
        refit: float | None = None,
        predict_by: Literal["unit", "batch"] = "unit",
        error_score: float | Literal["raise"] = "raise",
        public_seed: int = 0,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.n_candidates = n_candidates
        self.scoring = scoring
        self.score_bounds = score_bounds
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.predict_by = predict_by
        self.error_score = error_score
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, user_ids: Any = None, private: object = None) -> Self:
        """Search privately.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        user_ids : array-like of shape (n_samples,), optional
            User of each row, for the candidates that take it, and for the deal of the rows. Candidates that protect
            rows and take none may have identifiers of rows here.
        private : array-like of bool of shape (n_samples,), optional
            Which rows are private, for candidates that take it (`PPMHalfspaceClassifier`); all others protect every
            row.

        Returns
        -------
        self : PrivateSearchCV
        """
        if not (self.error_score == "raise" or math.isnan(self.error_score)):
            raise ValueError(f"error_score must be 'raise' or nan, got {self.error_score!r}.")
        if is_partitioned(X):
            raise TypeError(f"X must be a table in memory for a search, got rows in blocks ({type(X).__name__}).")
        candidates = _candidates.draw_candidates(
            self.estimator, self.param_distributions, self.n_candidates, self.n_iter, self.public_seed
        )
        for candidate in candidates:
            _candidates.check_candidate(candidate, self.ledger)
            _candidates.separate_seeds(candidate, self.public_seed)
        rows = self._rows(X, y, user_ids, private)
        for candidate in candidates:
            for step in _candidates.private_steps(candidate.estimator):
                _validation.read_labels(rows.y, **_validation.public_labels(step.model))
        parts = deal(rows, user_ids, self.validation_fraction, self.public_seed, by_user=user_ids is not None)
        if not len(parts.train.y):
            raise ValueError(
                "user_ids must name enough users for two parts: nobody is in the part to fit on. Change "
                "validation_fraction or public_seed. Nothing was drawn or spent."
            )
        models = [candidate.estimator for candidate in candidates]
        labels = _public_set(models, rows.y) if all(map(is_classifier, models)) else None
        candidate_costs = _inside.CandidateCosts(candidates, parts.train, labels)
        mechanism, cost = self._mechanism(candidates, candidate_costs, rows, parts)
        if user_ids is not None and cost.unit is not PrivacyUnit.USER:
            parts = deal(rows, user_ids, self.validation_fraction, self.public_seed, by_user=False)
        with self._releasing(
            mechanism,
            unit=cost.unit,
            adjacency=cost.adjacency,
            assumptions=_search_mechanism.assumptions_of(mechanism, cost, parts),
            n_units=parts.n_units if cost.adjacency is Adjacency.REPLACE_ONE else None,
        ) as release:
            best = mechanism.run(parts, release)
        also = guarantee_of(best.model).assumptions
        mine = self.privacy_guarantee_
        self.privacy_guarantee_ = replace(mine, assumptions=tuple(dict.fromkeys((*mine.assumptions, *also))))
        self.best_estimator_ = _inside.released(best.model, self.privacy_guarantee_)
        self.best_index_ = best.number
        self.best_score_ = best.score
        self.candidates_ = [dict(candidate.params) for candidate in candidates]
        self.best_params_ = self.candidates_[best.number]
        self.search_plan_ = mechanism.plan
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    def _models(self) -> list[Any]:
        return [pair[1] for pair in self.estimator] if isinstance(self.estimator, list) else [self.estimator]

    def _rows(self, X: Any, y: Any, user_ids: Any, private: object) -> Rows:
        """Check rows as far as no candidate checks them: those that are held out are not fitted on."""
        single = all(map(is_private, self._models()))
        if isinstance(X, list | tuple) and not single:
            X = np.array(X, dtype=object)  # one float among codes would make floats of everybody's
        kinds = [getattr(kind, "kind", "O") for kind in getattr(X, "dtypes", ())]
        y = _validation.read_targets(y, numbers=not all(map(is_classifier, self._models())))
        objects = getattr(getattr(X, "dtype", None), "kind", "") == "O"
        if not single and (objects or any(kind not in "biuf" for kind in kinds)):
            _validation.validate_data(self, X, y, skip_check_array=True)
            checked, y = X, column_or_1d(y)
        else:
            finite = single and not all(get_tags(m).input_tags.allow_nan for m in self._models())
            checked, y = _validation.validate_data(self, X, y, ensure_all_finite=True if finite else "allow-nan")
        given = {"user_ids": user_ids, "private": private}
        metadata = {name: values for name, values in given.items() if values is not None}
        for name, values in metadata.items():
            if np.shape(values)[:1] != (len(y),):
                raise ValueError(f"{name} must have one entry per row: got {len(values)} entries for {len(y)} rows.")
        return Rows(X if hasattr(X, "columns") else checked, y, metadata)

    def _mechanism(
        self, candidates: list[_candidates.Candidate], candidate_costs: _inside.CandidateCosts, rows: Rows, parts: Parts
    ) -> tuple[_search_mechanism.PrivateSearch, _inside.FitCost]:
        """Make the search from public numbers, and the cost of a fit, which says what candidates protect."""
        share = 0.0 if self.refit is None else float(self.refit)
        epsilon, delta = (1 - share) * float(self.epsilon), (1 - share) * float(self.delta)
        # Whom the candidates protect does not depend on the budget.
        costs = [candidate_costs.cost(number, epsilon, delta) for number in range(len(candidates))]
        protected = sorted({(str(cost.unit), str(cost.adjacency)) for cost in costs})
        if len(protected) > 1:
            found = " and ".join(f"one {unit} ({adjacency})" for unit, adjacency in protected)
            raise ValueError(f"estimator must protect the same in all candidates, got {found}.")
        cost = costs[0]
        come_and_go = cost.adjacency is Adjacency.ADD_REMOVE and cost.unit is not PrivacyUnit.LABEL
        if come_and_go and not parts.by_identifier:
            raise ValueError(
                "user_ids must be given where units come and go (adjacency='add-remove'), got None: rows without "
                "identifiers would be dealt by their positions, which shift. Where each row is its own user, pass an "
                "identifier that belongs to the row."
            )
        if cost.adjacency is Adjacency.REPLACE_ONE and not parts.n_held_out:
            raise ValueError(
                "user_ids must name enough users for two parts: nobody is held out. Change validation_fraction or "
                "public_seed. Nothing was drawn or spent."
            )
        score = private_score(
            self.scoring,
            self.score_bounds,
            [candidate.estimator for candidate in candidates],
            cost.adjacency,
            batch=self.predict_by == "batch" or cost.unit is PrivacyUnit.LABEL,
            made_up=np.zeros(2) if candidate_costs.labels is None else candidate_costs.labels[[0, -1]],
        )
        plan = _confirmed_plan(candidate_costs, epsilon, delta, self.n_iter)
        scores = score.plan(epsilon, plan.repetitions)
        # A unit is in the fits of all evaluations or in their scores: the larger of both costs is its cost.
        plan = replace(plan, epsilon=max(plan.epsilon, scores.epsilon))
        budget = share * float(self.epsilon), share * float(self.delta)
        refit = None
        if self.refit is not None:
            refit = _inside.CandidateCosts(candidates, rows, candidate_costs.labels)
            refit.check_within(*budget)
        mechanism = _search_mechanism.PrivateSearch(
            plan=plan,
            scores=scores,
            candidate_costs=candidate_costs,
            refit=refit,
            refit_budget=budget,
            score=score,
            raises=self.error_score == "raise",
            random_state=self.random_state,
            dry_run=self.ledger is not None and self.ledger.dry_run,
        )
        return mechanism, cost

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        models = self._models()
        if models and hasattr(models[0], "fit"):
            tags.input_tags = get_tags(models[0]).input_tags
        return tags


def _confirmed_plan(costs: _inside.CandidateCosts, epsilon: float, delta: float, mean_repetitions: float) -> SearchPlan:
    """Plan a search until the costs that it rests on are those of its budget."""
    while True:
        plan = plan_search(costs.plans, epsilon=epsilon, delta=delta, mean_repetitions=mean_repetitions)
        if costs.confirmed(plan.each_epsilon, plan.each_delta):
            return plan


def _public_set(models: list[Any], y: Any) -> Any:
    """List the labels that classifiers state, or all that occur: those of one part may leave a score undefined."""
    stated = [_candidates.stated_classes(model) for model in models]
    if all(stated) and not any(classes is None for (classes,) in stated):
        labels = _validation.together(_validation.check_classes(classes) for (classes,) in stated)
    else:
        labels = _validation.distinct_labels(y)
    array = _validation.label_array(labels)
    return array.astype(np.float64) if y.dtype.kind == "f" else array
