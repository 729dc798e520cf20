"""Splines on private knots."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import TooFewUnitsWarning, warn_caller
from skprivate._sklearn import Interval, StrOptions
from skprivate.base import AdjacencyName
from skprivate.preprocessing import _columns, _mechanisms, _private_columns, _spline_basis
from skprivate.privacy import PrivacyLedger, draws
from skprivate.privacy.noise import FloatArray

#: Knots of "auto", the most first, and how many times the units of a median they need: with fewer units fewer knots,
#: or none, predict better.
KNOTS = {17: 12.8, 9: 1.9, 5: 1.5}
#: Knots if the number of units is private.
DEFAULT_KNOTS = 9
#: From here on units grow with the number of columns, not its root: the noise of all functions hides a line sooner.
MANY_COLUMNS = 20
#: Units for each function, with the fewest knots and with more: below, the fit is too close even without noise.
UNITS_PER_FUNCTION, UNITS_PER_MORE = 10, 30
#: Deviation of a bounded line beside an unbounded one (``passthrough``).
LINE_DEVIATION = 1.0 / 3.0


class PrivateSplineTransformer(_private_columns.PrivateColumns):
    """Splines of every feature, on knots at quantiles released under differential privacy.

    In front of a linear model it makes an additive one. No range of the data has to be known.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    n_knots : int or "auto", default="auto"
        Knots of each feature, 3 to 1025: ``n_knots - 2`` quantiles and the outermost two, which are extrapolated. The
        cost grows with the logarithm only. "auto" is 17, 9 or 5: the most for which the public number of units is
        enough. Under "add-remove" that number is private, and "auto" is 9. If units are too few for 5, nothing is
        spent and columns stay unchanged, with a ``TooFewUnitsWarning``.
    degree : int, default=3
        Of the polynomials between knots, 1 to 5.
    basis : {"smooth", "b-spline"}, default="smooth"
        "smooth": uncorrelated functions, as many as there are intervals between knots. The first is the feature
        itself, centred and scaled, up to five deviations or the outermost knots, or ``bounds``. The others are of
        increasing frequency, and the k-th has deviation 1/k. "b-spline": the functions of
        `~sklearn.preprocessing.SplineTransformer`, between 0 and 1, on the same knots, but for the last one.
    passthrough : bool, default=False
        Whether `transform` gives the features themselves as well, in front of all functions and with gaps filled by the
        released medians, or by where the first smooth function is 0: for a model that scales them by itself. That
        function then has deviation 1/3.
    <delta, adjacency>
    bounds : mapping {column: (low, high)} or pair (lower, upper), optional
        Public range of every column, not taken from the data: makes the search shorter, and is the outermost knots. A
        mapping may have None for a column of unknown range.
    <random_state, ledger>

    Attributes
    ----------
    knots_ : list of ndarray of shape (n_knots_[j],)
        Increasing; beyond the outermost ones functions are constant, but for the first smooth one. Empty for
        unchanged columns.
    n_knots_ : ndarray of shape (n_features,)
        Knots of each feature: fewer than asked for where released quantiles coincide (columns of few values), 0 for
        unchanged columns.
    n_outputs_ : int
        Functions that `transform` gives for each feature, from public numbers, so that the cost of a later model
        cannot depend on the data. Those for which a feature has too few knots are zeros.
    row_bound_ : float
        No transformed row has a larger Euclidean norm. Infinite if columns are unchanged or passed through.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    make_additive_pipeline : Adds a linear model within one budget.
    PrivateKBinsDiscretizer : Makes steps instead of curves.
    PrivateQuantileTransformer : Makes one curve, whatever the target.
    sklearn.preprocessing.SplineTransformer : Fits without privacy (``knots="quantile"``).

    Notes
    -----
    *Guarantee.* (ε, δ)-differential privacy for one row, or for one user and all rows of that user where ``user_ids``
    are given to `fit`; then every user has the same weight, spread over the user's own rows. All functions are made
    from the released quantiles. Derivation in docs/guide/preprocessing.md.

    Missing values contribute nothing to `fit`. They become zeros, the mean of smooth functions.

    References
    ----------
    P. H. C. Eilers, B. D. Marx: Flexible smoothing with B-splines and penalties. Statistical Science 1996.

    A. Demmler, C. Reinsch: Oscillation matrices with spline smoothing. Numerische Mathematik 1975.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skprivate import UserLevelSGDRegressor
    >>> from skprivate.preprocessing import PrivateSplineTransformer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(20_000, 2))
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.3 * rng.normal(size=20_000)
    >>> model = make_pipeline(PrivateSplineTransformer(epsilon=0.4), UserLevelSGDRegressor(epsilon=0.85))
    >>> bool(model.fit(X, y).score(X, y) > 0.7)
    True
    """

    #: The number of columns that `transform` gives follows from public numbers.
    _public_width: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_private_columns.PrivateColumns._parameter_constraints,
        "n_knots": [Interval(Integral, 3, draws.MOST_BINS + 1, closed="both"), StrOptions({"auto"})],
        "degree": [Interval(Integral, 1, 5, closed="both")],
        "basis": [StrOptions({"smooth", "b-spline"})],
        "passthrough": ["boolean"],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_knots: int | Literal["auto"] = "auto",
        degree: int = 3,
        basis: Literal["smooth", "b-spline"] = "smooth",
        passthrough: bool = False,
        delta: float = 1e-6,
        adjacency: AdjacencyName = "replace-one",
        bounds: Mapping[Any, Any] | ArrayLike | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_knots = n_knots
        self.degree = degree
        self.basis = basis
        self.passthrough = passthrough
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    def _mechanism(self, n_units):
        """Choose the knots that were asked for, or the most for which the units are enough."""

        def with_knots(*n_knots):
            n_bins = tuple(number - 1 for number in n_knots) * self.n_features_in_
            return _mechanisms.ColumnQuantiles(
                n_bins=n_bins, bounds=self._checked_bounds(partly=True), **self._budget()
            )

        if self.n_knots != "auto":
            return with_knots(int(self.n_knots))
        if n_units is None:
            return with_knots(DEFAULT_KNOTS)
        for n_knots, medians in KNOTS.items():
            mechanism = with_knots(n_knots)
            found = medians * mechanism.least_units * max(1.0, self.n_features_in_ / MANY_COLUMNS) ** 0.5
            per_function = UNITS_PER_FUNCTION if n_knots == min(KNOTS) else UNITS_PER_MORE
            fitted = per_function * (n_knots - 1) * self.n_features_in_
            if n_units >= max(found, fitted):
                return mechanism
        return with_knots()

    def _warn(self, mechanism, n_units, unit):
        if mechanism.n_bins:
            return super()._warn(mechanism, n_units, unit)
        warn_caller(
            f"{n_units} {unit}s are too few for knots of {self.n_features_in_} column(s) at this budget: "
            f"{type(self).__name__} returns the columns unchanged and spends nothing. Raise epsilon, transform fewer "
            "columns, or set n_knots.",
            TooFewUnitsWarning,
        )

    def _store(self, released, mechanism):
        n_columns = self.n_features_in_
        if not mechanism.n_bins:
            self._splines, self.n_outputs_, self.row_bound_ = None, 1, np.inf
            self.knots_, self.n_knots_ = [np.empty(0)] * n_columns, np.zeros(n_columns, dtype=int)
            return
        ends = mechanism.bounds or (None,) * n_columns
        edges = [_spline_basis.edges_of(*pair) for pair in zip(released, ends, strict=True)]
        if self.basis == "smooth":
            pairs = zip(edges, ends, strict=True)
            splines = [
                _spline_basis.smooth_splines(each, int(self.degree), unbounded=end is None) for each, end in pairs
            ]
        else:
            splines = [_spline_basis.b_splines(each, int(self.degree)) for each in edges]
        if self.passthrough and self.basis == "smooth":
            splines = [each.scale_first(LINE_DEVIATION) for each in splines]
        self._fills = np.array([np.median(each[1:-1]) for each in edges])
        width = mechanism.n_bins[0]
        if self.basis == "b-spline":
            # All of them sum to one, which a linear model has as its intercept.
            width += int(self.degree) - 1
            splines = [spline._replace(coef=spline.coef[:, :-1]) for spline in splines]
        self._splines = [spline.resize(width) for spline in splines]
        self.n_outputs_ = width
        self.knots_ = [spline.knots for spline in splines]
        self.n_knots_ = np.array([len(knots) for knots in self.knots_])
        bound = float(np.linalg.norm([spline.bound for spline in splines]))
        self.row_bound_ = np.inf if self.passthrough else bound
        for _, j, slope, offset in self._lines:
            if slope:  # where the line is 0, as it is for gaps: so it is a line for them, too
                self._fills[j] = np.clip(-offset / slope, *self.knots_[j][[0, -1]])

    def transform(self, X: Any) -> NDArray[Any]:
        """Replace every number by its functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_splines : ndarray of shape (n_samples, n_columns)
            For each feature ``n_knots - 1`` columns with ``basis="smooth"``, or ``n_knots + degree - 2`` B-splines. X
            itself, without gaps, is in front of them with ``passthrough=True``, and alone if units were too few.
        """
        check_is_fitted(self)
        table = _columns.numeric_table(self, X, reset=False)
        if self._splines is None:
            return np.where(np.isnan(table), 0.0, table)
        own = [np.where(np.isnan(table), self._fills, table)] if self.passthrough else []
        return np.hstack([*own, *(spline(table[:, j]) for j, spline in enumerate(self._splines))])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read earlier pickles, too, which filled gaps by medians."""
        super().__setstate__({"_fills": state["_medians"], **state} if "_medians" in state else state)

    def _columns_of(self, j: int, values: FloatArray) -> FloatArray:
        """Return the columns that `transform` makes of one feature's values, which have no gaps."""
        own = [values[:, None]] if self.passthrough or self._splines is None else []
        return np.hstack([*own, *([self._splines[j](values)] if self._splines is not None else [])])

    @property
    def _prepared_outputs(self) -> tuple[tuple[int, float] | None, ...]:
        """Kind of each column of `transform`: None for a feature, (feature, deviation) for a function.

        The deviation is 0 for lines, and if no feature is passed through.
        """
        own: list[Any] = [None] * (self.n_features_in_ if self.passthrough or self._splines is None else 0)
        if self._splines is not None:
            deviations = np.zeros(self.n_outputs_)
            if self.passthrough and self.basis == "smooth":
                deviations = 1.0 / np.arange(1, self.n_outputs_ + 1)
                deviations[0] = 0.0
            own += [(j, each) for j in range(self.n_features_in_) for each in deviations.tolist()]
        return tuple(own)

    @property
    def _lines(self) -> list[tuple[int, int, float, float]]:
        """Columns that are lines beside the feature itself: (column, feature, slope, offset) between its knots."""
        if self._splines is None or not self.passthrough or self.basis != "smooth":
            return []
        lines = []
        for j, spline in enumerate(self._splines):
            ends = spline.knots[[0, -1]]
            first, last = spline(ends)[:, 0].tolist()
            slope = (last - first) / float(ends[1] - ends[0])
            lines.append((self.n_features_in_ + j * self.n_outputs_, j, slope, first - slope * float(ends[0])))
        return lines

    def _names_out(self, names):
        if self._splines is None:
            return names
        own = list(names) if self.passthrough else []
        functions = [f"{name}_sp_{k}" for name in names for k in range(self.n_outputs_)]
        return np.array([*own, *functions], dtype=object)
