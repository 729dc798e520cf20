"""Splines on private knots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import TooFewUnitsWarning, warn_caller, warn_if_too_few
from skprivate._sklearn import Interval, StrOptions, _check_feature_names_in, _fit_context
from skprivate._validation import check_bounds
from skprivate.base import PRIVACY_CONSTRAINTS, AdjacencyName, PrivateEstimatorMixin
from skprivate.preprocessing._columns import (
    DELTA_OR_ZERO,
    numeric_table,
    public_count,
    read_columns,
    unit_assumptions,
    unit_name,
)
from skprivate.preprocessing._quantile_edges import ColumnQuantiles
from skprivate.preprocessing._spline_basis import b_splines, edges_of, smooth_splines
from skprivate.privacy import Adjacency, PrivacyLedger
from skprivate.privacy.draws import MOST_BINS

#: Knots of "auto", the most first, and those where the number of units is not public.
KNOTS, KNOTS_UNTOLD = (17, 9, 5), 9
#: A quantile is found up to about a quarter of the units that a median needs: intervals hold three times that.
UNITS_PER_INTERVAL = 0.8
#: With the least knots curves are worth their noise where there are so many times the units that a median needs: on
#: generated data a linear model is ahead below, splines are above where anything bends.
LEAST_UNITS = 1.5
#: So many units there are for each function, with the least knots and with more: what is fitted too closely costs
#: without noise, too. On generated data a line loses .025 R² at 12 and .01 at 25 to 50; 5 knots are best there.
UNITS_PER_FUNCTION, UNITS_PER_MORE = 10, 30
#: Deviation of a line that ends beside one that does not: on generated data with curves in heavy tails 1/3 is as good
#: as 1; where the line goes on in the tail less is better, and none is hardly better than 1/3.
LINE_BESIDE = 1.0 / 3.0


class PrivateSplineTransformer(PrivateEstimatorMixin, TransformerMixin, BaseEstimator):
    """Splines of every feature, on knots at quantiles released under differential privacy.

    What `~sklearn.preprocessing.SplineTransformer` with ``knots="quantile"`` is without privacy: in front of a linear
    model it makes an additive one. No range of the data has to be known.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Of all columns together.
    n_knots : int or "auto", default="auto"
        Knots of each feature, 3 to 1025: ``n_knots - 2`` quantiles and the outermost two, which are extrapolated. The
        price grows with the logarithm only. "auto" is 17, 9 or 5, the most for which the public number of units is
        enough, for the noise and for so many functions, and 9 under "add-remove", where it is not public. Where units
        are too few for 5, nothing is spent and columns are handed on as they are, with a `TooFewUnitsWarning`: a
        linear model does better with the line.
    degree : int, default=3
        Of the polynomials between knots, 1 to 5.
    basis : {"smooth", "b-spline"}, default="smooth"
        "smooth": functions that are uncorrelated, as many as there are intervals between knots. The first is the
        feature itself, centred and scaled, up to five deviations or the outermost knots, or ``bounds``; then come ever
        wigglier ones, the k-th of deviation 1/k, so that private models and penalties hold on to what noise leaves
        visible. "b-spline": the functions of `~sklearn.preprocessing.SplineTransformer`, between 0 and 1, on the same
        knots.
    include_bias : bool, default=False
        Whether B-splines of a feature sum to one, as in `~sklearn.preprocessing.SplineTransformer`; otherwise the
        last one is left out. For ``basis="b-spline"`` only: no combination of smooth functions is a constant.
    passthrough : bool, default=False
        Whether `transform` gives the features themselves as well, in front of all functions and with gaps filled by the
        released medians: for a model that scales them by itself. The first smooth function then has deviation 1/3.
    delta : float in [0, 1), default=1e-6
        0 for pure privacy. With few columns pure noise is the better one, and δ = 0 is what is spent.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring data sets: one unit's rows exchanged for any others, or one unit more or less.
    bounds : mapping {column: (low, high)} or pair (lower, upper), optional
        Public range of every column, not taken from the data: makes the search shorter, and is the outermost knots.
    random_state : int, RandomState instance or None, default=None
        None: secure noise. Otherwise a reproducible simulation whose result must not be released.
    ledger : PrivacyLedger, optional
        Budget of the data set; the fit is paid from it before anything is drawn.

    Attributes
    ----------
    knots_ : list of ndarray of shape (n_knots_[j],)
        Increasing; beyond the outermost ones functions are constant, but for the first smooth one. Empty where
        columns are handed on.
    n_knots_ : ndarray of shape (n_features,)
        Knots of each feature: fewer than asked for where released quantiles coincide (columns of few values), 0 where
        columns are handed on.
    n_outputs_ : int
        Functions that `transform` gives for each feature, from public numbers: what a model after this one pays cannot
        depend on the data. Those for which a feature has too few knots are zeros.
    row_bound_ : float
        No transformed row has a larger Euclidean norm, whatever its numbers are. Infinite where columns are handed
        on, or passed through.
    privacy_guarantee_ : PrivacyGuarantee
        What the fit promises: ε, δ, unit, neighbouring relation, theorem and assumptions.
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has strings for the names of its columns.

    See Also
    --------
    make_additive_pipeline : With a linear model behind it and one budget for both.
    PrivateKBinsDiscretizer : Steps instead of curves.
    PrivateQuantileTransformer : One curve for each feature, whatever the target.

    Notes
    -----
    *Guarantee.* (ε, δ)-differential privacy for one row, or for one user and all rows of that user where ``user_ids``
    are given to `fit`; then every user has the same weight, spread over the user's own rows. All functions are made
    from the released quantiles. Derivation in docs/preprocessing.md.

    Missing values contribute nothing to `fit`, and are zeros in all columns of the feature: with smooth functions that
    is their mean.

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

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    #: The number of columns that `transform` gives follows from public numbers.
    _public_width: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_OR_ZERO,
        "n_knots": [Interval(Integral, 3, MOST_BINS + 1, closed="both"), StrOptions({"auto"})],
        "degree": [Interval(Integral, 1, 5, closed="both")],
        "basis": [StrOptions({"smooth", "b-spline"})],
        "include_bias": ["boolean"],
        "passthrough": ["boolean"],
        "adjacency": [StrOptions({"replace-one", "add-remove"})],
        "bounds": [Mapping, "array-like", None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_knots: int | Literal["auto"] = "auto",
        degree: int = 3,
        basis: Literal["smooth", "b-spline"] = "smooth",
        include_bias: bool = False,
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
        self.include_bias = include_bias
        self.passthrough = passthrough
        self.delta = delta
        self.adjacency = adjacency
        self.bounds = bounds
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> Self:
        """Release the quantiles and make the functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or rows in blocks
            Numbers; NaN, None and pandas.NA are missing. In blocks: a Dask array or DataFrame, a pyarrow dataset, or
            `skprivate.partitions.Blocks`.
        y : None
            Ignored.
        user_ids : array-like of shape (n_samples,), optional
            User of each row; the unit of privacy is then the user, otherwise the row. Only for tables in memory.

        Returns
        -------
        self : PrivateSplineTransformer
        """
        data = read_columns(self, X, user_ids, numeric_table)
        n_units, n_columns = public_count(data, self.adjacency), self.n_features_in_
        mechanism = self._mechanism(
            partial(
                ColumnQuantiles,
                epsilon=float(self.epsilon),
                delta=float(self.delta),
                adjacency=Adjacency(self.adjacency),
                bounds=check_bounds(self.bounds, n_columns, getattr(self, "feature_names_in_", None)),
            ),
            n_units,
        )
        with self._releasing(
            mechanism,
            unit=unit_name(user_ids),
            adjacency=self.adjacency,
            assumptions=unit_assumptions(user_ids, self.adjacency, self.bounds),
            n_units=n_units,
        ) as release:
            inner = mechanism.run(data, release)
        if not mechanism.n_bins:
            _warn_that_columns_pass(n_units, unit_name(user_ids), type(self).__name__, n_columns)
            self._splines, self.n_outputs_, self.row_bound_ = None, 1, np.inf
            self.knots_, self.n_knots_ = [np.empty(0)] * n_columns, np.zeros(n_columns, dtype=int)
            return self
        warn_if_too_few(n_units, mechanism.least_units, unit_name(user_ids), type(self).__name__, n_columns)
        make: Any = b_splines
        if self.basis == "smooth":
            make = partial(smooth_splines, goes_on=mechanism.bounds is None)
        ends = mechanism.bounds or (None,) * n_columns
        edges = [edges_of(*pair) for pair in zip(inner, ends, strict=True)]
        splines = [make(each, int(self.degree)) for each in edges]
        if self.passthrough and self.basis == "smooth":
            splines = [each.with_first(LINE_BESIDE) for each in splines]
        self._medians = np.array([np.median(each[1:-1]) for each in edges])
        width = mechanism.n_bins[0]
        if self.basis == "b-spline":
            width += int(self.degree) - (not self.include_bias)
            if not self.include_bias:
                splines = [spline._replace(coef=spline.coef[:, :-1]) for spline in splines]
        self._splines = [spline.of_width(width) for spline in splines]
        self.n_outputs_ = width
        self.knots_ = [spline.knots for spline in splines]
        self.n_knots_ = np.array([len(knots) for knots in self.knots_])
        bound = float(np.linalg.norm([spline.bound for spline in splines]))
        self.row_bound_ = np.inf if self.passthrough else bound
        return self

    def _mechanism(self, quantiles: Callable[..., ColumnQuantiles], n_units: int | None) -> ColumnQuantiles:
        """With the knots that are asked for, or the most that so many units find."""

        def of(n_knots: int) -> ColumnQuantiles:
            return quantiles(n_bins=(n_knots - 1,) * self.n_features_in_)

        if self.n_knots != "auto":
            return of(int(self.n_knots))
        if n_units is None:
            return of(KNOTS_UNTOLD)
        for n_knots in KNOTS:
            mechanism = of(n_knots)
            least = n_knots == KNOTS[-1]
            enough = LEAST_UNITS if least else UNITS_PER_INTERVAL * (n_knots - 1)
            fitted = (UNITS_PER_FUNCTION if least else UNITS_PER_MORE) * (n_knots - 1) * self.n_features_in_
            if n_units >= max(enough * mechanism.least_units, fitted):
                return mechanism
        return quantiles(n_bins=())

    def transform(self, X: Any) -> NDArray[Any]:
        """Replace every number by its functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_splines : ndarray of shape (n_samples, n_columns)
            For each feature ``n_knots - 1`` columns with ``basis="smooth"``, ``n_knots + degree - 2`` B-splines, or
            one more with ``include_bias=True``; X itself, without gaps, in front of them with ``passthrough=True``, and
            alone where columns are handed on.
        """
        check_is_fitted(self)
        table = numeric_table(self, X, reset=False)
        if self._splines is None:
            return np.where(np.isnan(table), 0.0, table)
        own = [np.where(np.isnan(table), self._medians, table)] if self.passthrough else []
        return np.hstack([*own, *(spline(table[:, j]) for j, spline in enumerate(self._splines))])

    @property
    def _prepared_outputs(self) -> tuple[tuple[int, float] | None, ...]:
        """What each column of `transform` is, by public numbers: None, or a function.

        Of that the number of its feature and its deviation: 0 where that is not known, of a line, and without a line
        beside it.
        """
        own: list[Any] = [None] * (self.n_features_in_ if self.passthrough or self._splines is None else 0)
        if self._splines is not None:
            deviations = np.zeros(self.n_outputs_)
            if self.passthrough and self.basis == "smooth":
                deviations = 1.0 / np.arange(1, self.n_outputs_ + 1)
                deviations[0] = 0.0
            own += [(j, each) for j in range(self.n_features_in_) for each in deviations.tolist()]
        return tuple(own)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Must be the names seen in `fit`, if given.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        if self._splines is None:
            return names
        own = list(names) if self.passthrough else []
        functions = [f"{name}_sp_{k}" for name in names for k in range(self.n_outputs_)]
        return np.array([*own, *functions], dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _warn_that_columns_pass(n_units: int | None, unit: str, name: str, n_columns: int) -> None:
    """Warn that a public number of units was found too small to pay for anything."""
    warn_caller(
        f"{n_units} {unit}s are too few for knots of {n_columns} column(s) at this budget: {name} hands them on as "
        "they are and spends nothing. Raise epsilon, transform fewer columns, or set n_knots.",
        TooFewUnitsWarning,
    )
