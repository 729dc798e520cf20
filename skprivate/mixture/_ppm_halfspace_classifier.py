"""Classifier that is private for the private rows of a mixture only, and its halfspaces as text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial
from math import inf, log
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import Interval, StrOptions, _fit_context
from skprivate._validation import PUBLIC_LABELS, TakesSparse, plain, validate_data
from skprivate.base import PRIVACY_CONSTRAINTS, AdjacencyName, PrivateEstimatorMixin
from skprivate.mixture import _calibration, _cuts, _descent, _geometry, _roles, _search, _turns
from skprivate.mixture._exact import MOST_PAIRS, MOST_WORK, ExactDraw, count_exact_hypotheses
from skprivate.mixture._problem import LinearConstraints, Problem, margins, selection_loss
from skprivate.privacy import Mechanism, PrivacyLedger, noise, public_generator

#: Default number of halfspaces of a search.
MOST_HALFSPACES = 5
#: "auto" takes a descent if the largest principal variances, as many as a search has halfspaces, hold less than the
#: first part of all (in 10 columns or fewer they hold more), and if it loses less than the second part.
SEEN, LOST = 0.5, 0.9
#: Part of a constraint's largest coefficient below which others are rounding errors.
_NEGLIGIBLE = 1e-9


def make_mechanism(
    estimator: BaseEstimator, problem: Problem, roles: _roles.Roles
) -> tuple[str, _calibration.CalibratedDraw]:
    """Choose the strategy of a `PPMHalfspaceClassifier`, and make its mechanism from public numbers."""
    epsilon, counting = float(estimator.epsilon), None
    if estimator.calibration_fraction is not None:
        counting = float(estimator.epsilon * estimator.calibration_fraction)
    descent = None
    if estimator.delta:
        other = [] if counting is None else [_calibration.count_event(counting)]
        # "auto" asks for it twice.
        descent = cache(partial(_descent.make_descent, problem, epsilon, float(estimator.delta), other))
    strategy = choose_strategy(estimator, problem, descent)
    search: Mechanism
    if strategy == "gradient" and descent is not None:
        search = descent()
    else:
        search = make_search(estimator, problem, strategy, epsilon - (counting or 0.0))
    return strategy, _calibration.CalibratedDraw(
        search,
        counting,
        sensitivity=1 if estimator.adjacency == "add-remove" else 2,
        labels_are_private=not roles.label_determined,
    )


def choose_strategy(
    estimator: BaseEstimator, problem: Problem, descent: Callable[[], _descent.LogisticDescent] | None
) -> str:
    """Resolve "auto", and refuse an exact strategy that is too large or a descent without δ (``descent`` is None)."""
    strategy, most = estimator.strategy, estimator.max_halfspaces
    if strategy == "gradient" and descent is None:
        raise ValueError(
            "strategy='gradient' adds Gaussian noise and needs delta > 0, got delta=0.0: pass for example "
            "delta=1e-6, or use strategy='greedy', which needs none."
        )
    n_points = problem.n_public
    if n_points <= MOST_PAIRS:
        n_points = len(np.unique(problem.public, axis=0))
    dimension = problem.frame.dimension
    n_hypotheses, n_pairs = count_exact_hypotheses(n_points, dimension, dimension if most is None else most)
    fits = n_hypotheses <= estimator.max_candidates and (dimension == 1 or n_pairs <= MOST_PAIRS)
    if estimator.selection == "permute-and-flip":
        fits = fits and n_hypotheses <= noise.MAX_FLIPS
    if strategy == "exact" and not fits:
        raise ValueError(
            f"strategy='exact' would compare up to {_about(n_hypotheses)} hypotheses from {_about(2 * n_pairs)} "
            f"halfspaces, more than max_candidates={estimator.max_candidates} (and {2 * MOST_PAIRS} halfspaces) "
            "allow. Use strategy='greedy' or 'thinned', or lower max_halfspaces, or use fewer public rows; "
            "raise max_candidates where only that is in the way."
        )
    if strategy != "auto":
        return str(strategy)
    if fits and (dimension <= 1 or n_hypotheses * problem.planning_rows <= MOST_WORK):
        return "exact"
    if descent is not None:
        # Public points vary in more directions than a few halfspaces can have, and a descent can.
        seen = float(descent().shares[: most or MOST_HALFSPACES].sum())
        if seen < SEEN and descent().plan.loss < LOST:
            return "gradient"
    return "greedy"


def _about(count: int) -> str:
    """Write a count to three digits; it may be too large for a float."""
    return f"{count:.3g}" if count < 10**300 else f"{Decimal(count):.3g}"


def make_search(
    estimator: BaseEstimator, problem: Problem, strategy: str, epsilon: float
) -> ExactDraw | _search.HalfspaceSearch:
    """Make the mechanism that draws the halfspaces."""
    rule, monotone = estimator.selection, estimator.adjacency == "add-remove"
    if strategy == "exact":
        most = estimator.max_halfspaces
        size = problem.frame.dimension if most is None else most
        return ExactDraw(epsilon, size, rule, monotone, estimator.n_jobs)
    rng = public_generator(0)  # the same directions each time, so that a quote is the cost of a fit
    public = problem.some_public(_search.CUT_POINTS, rng)
    candidates = _cuts.quantile_cuts(
        public, _search.public_directions(public, rng), _cuts.KEPT_FRACTIONS, problem.frame.slack
    )
    candidates = _cuts.without_repetition(candidates, public)
    plan = _search.plan_search(
        candidates.n_cuts,
        problem,
        epsilon=epsilon,
        max_halfspaces=estimator.max_halfspaces or MOST_HALFSPACES,
        max_candidates=estimator.max_candidates,
        moves=strategy == "greedy",
        monotone=monotone,
    )
    return _search.HalfspaceSearch(plan, candidates, _turns.row_units(public), rule, monotone)


def _counts_are_asked_for(estimator):
    if estimator.calibration_fraction is None:
        raise AttributeError(
            "Probabilities need private rows to be counted, which costs part of epsilon: set calibration_fraction, "
            "for example to 0.2, or take decision_function, which costs nothing."
        )
    return True


class PPMHalfspaceClassifier(PrivateEstimatorMixin, TakesSparse, ClassifierMixin, BaseEstimator):
    r"""Private–public mixture (PPM) classifier: public inside an intersection of halfspaces, private outside.

    A bank may publish what its reliable customers look like, but not the customers who defaulted. The classifier
    uses public rows freely and is ε-differentially private for the private rows, whatever the two populations look
    like. It learns an intersection of halfspaces

    .. math:: G = \{x : a_i^\top x + b_i \ge 0, \; i = 1, …, r\}

    and calls rows inside G public and all others private. Candidate halfspaces are built from public rows alone. The
    exponential mechanism draws the intersection, with the number of training errors as its cost.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter ε of the whole fit, > 0.
    delta : float, default=0.0
        Privacy parameter δ, in [0, 1). 0 is pure ε-differential privacy; more allows ``strategy="gradient"``.
    private_label : label, default=None
        Label whose rows are private; rows of the other label are published. None means the larger of {0, 1},
        {False, True} or {-1, 1}, or, in simulations (`random_state` not None), the second of the sorted labels; both
        warn (`ProtectedLabelWarning`). For other labels None is refused. With a mask given to `fit` the label
        protects nobody: None means the label that no public row has, or the second.
    max_halfspaces : int, default=None
        Largest number of halfspaces in the intersection, ≥ 1. None means 5, and for the exact strategy the dimension
        of the public points' affine span (more is never needed to match the best halfspace).
    strategy : {"auto", "exact", "thinned", "greedy", "gradient"}, default="auto"
        "exact"
            One draw from all intersections of all halfspaces that at most ``n_features`` public points support
            (Algorithms 1 and 2). For about 100 public rows in two dimensions, 10 000 in one.
        "thinned"
            One draw from all intersections of up to three quantile cuts of the public points along public
            directions.
        "greedy"
            The thinned draw, followed by moves that each redraw one halfspace given the others, or add one. Where ε
            and rows are enough, turns of one halfspace follow, which may return to the intersection. Public numbers
            decide the number of draws and the split of ε.
        "gradient"
            One halfspace by noisy gradient descent on the logistic loss, to which public rows contribute exactly.
            Needs δ > 0, and ignores ``max_halfspaces``, ``selection`` and ``max_candidates``.
        "auto"
            "exact" where it fits ``max_candidates`` and about 10¹² operations; otherwise "gradient" where δ > 0, the
            public rows vary in many directions and the private ones are numerous enough for a descent; otherwise
            "greedy". Decided by public numbers; `strategy_` says which.
    selection : {"exponential", "permute-and-flip"}, default="exponential"
        Rule of every draw. Permute-and-flip has the same guarantee and never a larger expected number of errors.
    max_candidates : int, default=100_000_000
        Largest number of hypotheses that the exact or the joint draw compares, ≥ 1. Without the exact strategy
        all single cuts are compared in any case, a move compares up to 12 289 and a turn up to 2050.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one private row replaced by another (the number of private rows is public), or one
        private row more or less (it is not).
    class_weight : dict or "balanced", default=None
        Cost of an error on a row of each label. "balanced" uses n / (2 · rows of the label), where all private rows
        count for the private label; these numbers are public under replace-one adjacency only. The ratio of the
        weights is rounded to a fraction of integers up to 1000 (to an integer up to 10⁷ where it is larger), so that
        draws stay exact.
    calibration_fraction : float, default=None
        Share of ε, in [0.001, 0.999], for counting private rows by their margin, for `predict_proba`. None uses all of
        ε for the halfspaces, without `predict_proba`.
    classes : array-like of shape (2,), default=None
        Public label set. None means the labels of `y`, which is then stated as an assumption of the guarantee;
        needed with adjacency="add-remove".
    <random_state, ledger>
    n_jobs : int, default=None
        Threads of the exact strategy, for rows in memory.

    Attributes
    ----------
    halfspaces_ : LinearConstraints
        Released intersection, in the units of X: a named tuple of ``coefficients`` of shape (r, n_features) and
        ``intercepts`` of shape (r,). Empty both where all of the span is public and where everything is private
        (`all_private_`).
    all_private_ : bool
        True if the drawn hypothesis calls every row private. Released.
    affine_ : LinearConstraints or None
        Equations ``coefficients @ x + intercepts = 0`` of the public points' affine span, from public rows; None
        where it is the whole space. Rows off it are called private.
    classes_ : ndarray of shape (2,)
        Label set.
    private_label_ : label
        Label of the private population.
    strategy_ : {"exact", "thinned", "greedy", "gradient"}
        Strategy that was used; decided by public sizes.
    calibration_ : Calibration or None
        Named tuple of ``edges``, margins between bins from public rows, and the released ``probabilities`` of the
        private label in each bin.
    draws_ : tuple of DrawRecord
        ``name``, ``n_hypotheses`` (number of compared hypotheses) and ``epsilon`` of each selection. Public, but for
        the number of options of a move, which depends on earlier draws.
    n_hypotheses_ : int
        Number of hypotheses of the first draw; 0 for a descent, which compares none.
    log_n_hypotheses_ : float
        Its natural logarithm, −∞ for 0.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    export_text : Writes the halfspaces as inequalities.
    skprivate.papers.mixtures.sample_size : Computes how many rows are enough.
    UserLevelSGDClassifier : Protects all rows, whatever their label.

    Notes
    -----
    **Guarantee.** For every realisation of the public rows, the fitted object is ε-differentially private for one
    private row (Lemma 4.1 of [1]_ for one draw; the sum of the costs for several). Candidates, plans and scaling are
    functions of public rows, of the number of rows where it is public, and of earlier draws. An error count changes
    by at most the weight of one private row. Each row's membership in a halfspace is computed by the same
    floating-point operations wherever it is, so this holds for the numbers in the machine.

    ``strategy="gradient"`` is (ε, δ)-differentially private for the same rows: a private row adds to every gradient
    an integer vector of bounded norm, the exact sums are released with Gaussian noise, and the steps are composed by
    their privacy loss distribution. It is not in the paper.

    **Utility.** With the exact strategy some hypothesis makes no more (unweighted) errors than the best halfspace
    (Lemma 4.5), and `utility_bound` says how far the draw is from the best hypothesis. Other strategies have no such
    class: the bound of "thinned" and "greedy" is above the best intersection of public cuts. Turns let the error of a
    halfspace fall with the number of rows, as measured, not proven.

    Do not standardise X beforehand: a `StandardScaler` uses private rows. Features are scaled inside, by public rows.

    References
    ----------
    .. [1] Bassily, Moran, Nandi, "Learning from Mixtures of Private and Public Populations", 2020.
    .. [2] McKenna, Sheldon, "Permute-and-Flip: A New Mechanism for Differentially Private Selection", 2020.

    Examples
    --------
    >>> from skprivate.datasets import load_credit_default
    >>> from skprivate.mixture import PPMHalfspaceClassifier
    >>> X, y = load_credit_default(return_X_y=True)
    >>> model = PPMHalfspaceClassifier(epsilon=1.0, private_label=1, class_weight="balanced").fit(X, y)
    >>> print(model.privacy_guarantee_)
    1-differential privacy for one private row (replace-one)
    >>> model.strategy_
    'greedy'
    """

    # A privacy mask given to fit is metadata that belongs to this estimator.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"private": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PRIVACY_CONSTRAINTS,
        "private_label": "no_validation",
        "max_halfspaces": [Interval(Integral, 1, None, closed="left"), None],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "strategy": [StrOptions({"auto", "exact", "thinned", "greedy", "gradient"})],
        "selection": [StrOptions({"exponential", "permute-and-flip"})],
        "max_candidates": [Interval(Integral, 1, None, closed="left")],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "calibration_fraction": [Interval(Real, 0.001, 0.999, closed="both"), None],
        "classes": ["array-like", None],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Interval(Integral, None, -1, closed="right"), None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        private_label: object = None,
        max_halfspaces: int | None = None,
        strategy: Literal["auto", "exact", "thinned", "greedy", "gradient"] = "auto",
        selection: Literal["exponential", "permute-and-flip"] = "exponential",
        max_candidates: int = 100_000_000,
        adjacency: AdjacencyName = "replace-one",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        calibration_fraction: float | None = None,
        classes: ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.private_label = private_label
        self.max_halfspaces = max_halfspaces
        self.strategy = strategy
        self.selection = selection
        self.max_candidates = max_candidates
        self.adjacency = adjacency
        self.class_weight = class_weight
        self.calibration_fraction = calibration_fraction
        self.classes = classes
        self.random_state = random_state
        self.ledger = ledger
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, private: object = None) -> Self:
        """Draw an intersection of halfspaces, privately for the private rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows in blocks
            Public and private rows. In blocks (a Dask array or DataFrame, a pyarrow dataset, or
            `skprivate.partitions.Blocks`), ``y`` and ``private`` are columns of X by name, or of arrays by number.
            Public rows are then collected; private ones are not.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        private : array-like of bool of shape (n_samples,), default=None
            Mask of private rows; public metadata under replace-one adjacency. None is the label-determined model:
            exactly the rows with the private label. With a mask, public and private rows may carry both labels; a
            neighbour may then change a private row's label, too.

        Returns
        -------
        self : PPMHalfspaceClassifier
            The fitted classifier.
        """
        problem, roles = _roles.read_problem(self, X, y, private)
        strategy, mechanism = make_mechanism(self, problem, roles)
        with self._releasing(
            mechanism,
            unit="private row",
            adjacency=self.adjacency,
            assumptions=self._assumptions(roles),
            n_units=problem.n_private,
        ) as release:
            hypothesis, draws, calibration = mechanism.run(problem, release)
        self.draws_, self.calibration_ = draws, calibration
        self._store(roles, problem, hypothesis, strategy)
        return self

    def _assumptions(self, roles):
        which = "in the privacy mask, of either label,"
        if roles.label_determined:
            which = f"with label {plain(roles.classes[roles.private_index])!r}"
        assumptions = [f"exactly the rows {which} are private, all others are public"]
        if self.classes is None or not roles.label_determined:  # other labels are refused
            assumptions.append(PUBLIC_LABELS)
        if self.adjacency == "replace-one":
            assumptions.append("the number of private rows is public")
        return tuple(assumptions)

    def _store(self, roles, problem, hypothesis, strategy):
        frame = problem.frame
        self.classes_ = roles.classes
        self.private_label_ = roles.classes[roles.private_index]
        self.strategy_ = strategy
        self.all_private_ = hypothesis.all_private
        self.halfspaces_ = LinearConstraints(*frame.in_feature_space(hypothesis.normals, hypothesis.intercepts))
        self.affine_ = None
        if frame.complement.shape[0]:
            level = np.zeros(frame.complement.shape[0])
            self.affine_ = LinearConstraints(*frame.in_feature_space(frame.complement, level))
        self.n_hypotheses_ = next((draw.n_hypotheses for draw in self.draws_ if draw.n_hypotheses), 0)
        self.log_n_hypotheses_ = log(self.n_hypotheses_) if self.n_hypotheses_ else -inf
        self._frame = frame
        self._hypothesis = hypothesis
        # Rounding of errors down to a unit may hide this part of a private row's weight in each draw.
        self._rounding = 1 / problem.sensitivity if problem.unit > 1 else 0.0
        self._n_rows = problem.planning_rows if self.adjacency == "replace-one" else None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed margin of each row, positive for the second class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        decision : ndarray of shape (n_samples,)
            Smallest distance to the halfspaces' boundaries, in units of scaled features, with the sign of the class.
            A row off the public points' affine span is private by its distance to it. ±1 without a boundary.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        margin = margins(self._frame, self._hypothesis, X)
        return -margin if self.private_label_ == self.classes_[1] else margin

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels of `classes_`.
        """
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(np.intp)]

    @available_if(_counts_are_asked_for)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Estimate the probability of each label, from the released counts of private rows.

        It is the share of the private label among training rows of a similar margin, counted with noise of scale
        2 / (ε · `calibration_fraction`) per count (half of it with adjacency="add-remove"). It holds for a population
        with the training rows' shares of both labels. `predict` uses the halfspaces and not the larger probability:
        with unequal class weights the two differ. Only with `calibration_fraction`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, 2)
            In the order of `classes_`, each in (0, 1).

        Raises
        ------
        NotFittedError
            If `calibration_fraction` was set after `fit`.
        """
        check_is_fitted(self)
        if self.calibration_ is None:
            raise NotFittedError("calibration_fraction was None when this classifier was fitted: fit it again.")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        private = self.calibration_(margins(self._frame, self._hypothesis, X))
        order = [1 - private, private] if self.private_label_ == self.classes_[1] else [private, 1 - private]
        return np.column_stack(order)

    def utility_bound(self, beta: float = 0.05, *, n_samples: int | None = None) -> float:
        r"""Excess error rate over the best hypothesis that the draws exceed with probability at most ``beta``.

        For one draw this is Lemma 4.6, :math:`2 \Delta \ln(|H|/\beta) / (\epsilon n)` above the best of the compared
        hypotheses, Δ the weight of a private row (half of it with adjacency="add-remove"). For several draws it is
        the sum of their bounds, above the best hypothesis of the first draw, because every move may also stay. Of the
        turns only the last counts, which may return: to what was drawn before all, with a third of the weight, so
        that it is a draw from 3.

        Parameters
        ----------
        beta : float, default=0.05
            Failure probability, in (0, 1).
        n_samples : int, default=None
            Number of training rows n. None takes that of the fit where it is public
            (adjacency="replace-one").

        Returns
        -------
        excess : float
            Excess of the (weighted) number of errors on the training rows, divided by n. Class weights count as the
            rounded integers, relative to the weight of a private row.
        """
        check_is_fitted(self)
        if not 0 < beta < 1:
            raise ValueError(f"beta must be in (0, 1), got {beta!r}.")
        if self.strategy_ == "gradient":
            raise ValueError("A descent compares no hypotheses: with strategy_='gradient' there is no bound.")
        n_rows = self._n_rows if n_samples is None else n_samples
        if n_rows is None:
            raise ValueError("With adjacency='add-remove' the number of rows is not public: pass n_samples.")
        monotone = self.adjacency == "add-remove"
        draws = [draw for draw in self.draws_ if draw.name != "turn"]
        draws += [draw for draw in self.draws_[-1:] if draw.name == "turn"]
        losses = [
            selection_loss(
                log(3 if draw.name == "turn" else draw.n_hypotheses), draw.epsilon, beta / len(draws), monotone=monotone
            )
            for draw in draws
        ]
        return (sum(losses) + self._rounding * len(losses)) / n_rows

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # One check of the suite asks that an overwhelming weight of one class spreads to 87 % of new rows. A polytope
        # that encloses the public training rows exactly need not do that.
        tags.classifier_tags.poor_score = True
        return tags


def export_text(classifier: BaseEstimator, *, feature_names: Any = None, digits: int = 4) -> str:
    """Write the drawn halfspaces as inequalities in the names and units of the features.

    Parameters
    ----------
    classifier : PPMHalfspaceClassifier
        Fitted. A pipeline's last step speaks of what the steps before it made of the features.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the features. None takes ``feature_names_in_``, or x0, x1, … where there are none.
    digits : int, default=4
        Significant digits of numbers, ≥ 1. The text is rounded: ``halfspaces_`` and ``predict`` are not.

    Returns
    -------
    text : str
        One line for each condition, the most important feature of each first, with coefficient 1; so a condition
        reads in that feature's unit. Equations are those of the public rows' affine span (``affine_``).
        Post-processing of what was released: nothing is spent.

    Raises
    ------
    TypeError
        If ``classifier`` is no `PPMHalfspaceClassifier`.
    ValueError
        If ``feature_names`` has not one name for each feature, or ``digits`` is below 1.

    See Also
    --------
    PPMHalfspaceClassifier : Draws the halfspaces.
    sklearn.tree.export_text : Writes a decision tree.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.mixture import PPMHalfspaceClassifier, export_text
    >>> X, y = np.arange(-10.0, 90.0)[:, None], np.repeat(["child", "adult"], [28, 72])
    >>> model = PPMHalfspaceClassifier(100.0, private_label="child").fit(X, y)
    >>> print(export_text(model, feature_names=["age"]))
    'adult' (public) if
      age >= 18
    otherwise 'child' (private)
    """
    if not isinstance(classifier, PPMHalfspaceClassifier):
        raise TypeError(
            f"classifier must be a PPMHalfspaceClassifier, got {type(classifier).__name__}; of a pipeline pass the "
            "last step, pipeline[-1]."
        )
    check_is_fitted(classifier)
    if not digits >= 1:
        raise ValueError(f"digits must be at least 1, got {digits!r}.")
    n_features = classifier.n_features_in_
    names: Any = getattr(classifier, "feature_names_in_", [f"x{j}" for j in range(n_features)])
    names = [str(name) for name in (names if feature_names is None else feature_names)]
    if len(names) != n_features:
        raise ValueError(f"feature_names must hold one name for each of the {n_features} features, got {len(names)}.")
    classes = [repr(plain(label)) for label in classifier.classes_]
    second = classifier.private_label_ == classifier.classes_[1]
    public, private = classes if second else reversed(classes)
    if classifier.all_private_:
        return f"{private} (private) everywhere"
    frame = classifier._frame
    equations = _reduced(frame.complement)
    level = np.zeros(len(equations))
    lines = []
    for relation, weights, (coefficients, intercepts) in (
        ("=", equations, frame.in_feature_space(equations, level)),
        (">=", classifier.halfspaces_.coefficients * frame.scale, classifier.halfspaces_),
    ):
        lines += [
            _condition(*row, relation, names, digits) for row in zip(coefficients, intercepts, weights, strict=True)
        ]
    if not lines:
        return f"{public} (public) everywhere"
    return "\n".join([f"{public} (public) if", *(f"  {line}" for line in lines), f"otherwise {private} (private)"])


def _reduced(rows: _geometry.Floats) -> _geometry.Floats:
    """Reduce rows to echelon form: each has a column in which it alone is not 0, so that text reads x = 5."""
    rows = rows.copy()
    for i in range(len(rows)):
        pivot, column = divmod(int(np.argmax(np.abs(rows[i:]))), rows.shape[1])
        rows[[i, i + pivot]] = rows[[i + pivot, i]]
        rows[i] /= rows[i, column]
        others = np.arange(len(rows)) != i
        rows[others] -= np.outer(rows[others, column], rows[i])
    return rows


def _condition(
    coefficients: _geometry.Floats,
    intercept: float,
    weights: _geometry.Floats,
    relation: str,
    names: list[str],
    digits: int,
) -> str:
    """Write ``coefficients @ x + intercept relation 0``, solved for the feature of the largest weight."""
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[np.abs(weights[order]) > _NEGLIGIBLE * np.abs(weights[order[0]])]
    leading = coefficients[order[0]]
    if leading < 0:
        relation = {">=": "<=", "=": "="}[relation]

    def number(value: float) -> str:
        return np.format_float_positional(value + 0.0, precision=digits, fractional=False, trim="-")

    text = names[order[0]]
    for j in order[1:]:
        ratio = coefficients[j] / leading
        text += f" {'-' if ratio < 0 else '+'} {number(abs(ratio))} {names[j]}"
    return f"{text} {relation} {number(-intercept / leading)}"
