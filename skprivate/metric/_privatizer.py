"""Row-wise randomisation under metric privacy: the local model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skprivate._sklearn import Interval, StrOptions, _fit_context
from skprivate._validation import any_table, refuse_other_kinds
from skprivate.base import PRIVACY_CONSTRAINTS, PrivateEstimatorMixin, of_every_fit
from skprivate.metric import _domains, _remap
from skprivate.metric._tables import check_loss, check_prior, leaves_of, numeric_table, state_numbers
from skprivate.metric.grid._flows import NoiseFillsBoxWarning
from skprivate.metric.net import _exponential, _interior_point, _spaces
from skprivate.privacy import PrivacyLedger, fingerprint, open_release, warn_caller

_NORMS = ("l1", "l2", "linf")
_NUMERIC = (*_NORMS, "haversine")
#: Relative distance of an "optimal" channel from its bound above which `fit` warns.
_MAX_GAP = 0.01
_ALLOWED = {
    "norm": ("k-norm", "exponential"),
    "haversine": ("k-norm",),
    "precomputed": ("exponential", "relaxed", "optimal"),
    "tree": ("relaxed", "exponential", "optimal"),
}


class MetricPrivatizer(PrivateEstimatorMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Randomise every row on its own, so that rows at distance ρ look alike up to e^{ερ} (local metric privacy).

    On places, with ``metric="haversine"``, this is geo-indistinguishability per kilometre. `fit` uses the shape of the
    data only and spends nothing. Every call of `transform` spends ``epsilon`` on its rows, with the fitted parameters:
    after ``set_params``, fit again.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Privacy per unit of distance of one call of `transform`; per kilometre with ``metric="haversine"``.
    metric : {"l2", "l1", "linf", "haversine", "precomputed", "tree"}, default="l2"
        Distance between rows: a norm of their difference (in the columns' units), the great-circle distance in km of
        two columns in degrees, a matrix ``distances`` between ``states``, or the ultrametric of a tree.
    mechanism : {"auto", "k-norm", "exponential", "relaxed", "optimal"}, default="auto"
        "k-norm": noise with density ∝ e^{−ε‖z‖} (norms). "exponential": exponential mechanism on a separated net
        (Lemma 4.1), as steep as its measured cost allows; under a norm the nearest point of a grid to a place with
        "k-norm" noise. "relaxed": with the relaxed distance of Theorem 5.1 (finite metrics), for losses that are an
        ultrametric. "optimal": the channel with the least expected loss under ``prior``, by linear programming, for
        about 250 states (a minute of one core). With more states it is the best one found, and ``least_loss_`` bounds
        its distance from the optimum. "auto": "k-norm", "relaxed" for trees and with ``loss``, else "exponential".
    bounds : dict {column: (low, high)}, pair (lower, upper) or Ball, optional
        Public range of the columns, for norms and "haversine", or a public `Ball`, for norms. With "k-norm" results
        are projected to it, if given; "exponential" needs it. "haversine" makes less noise (about 2/epsilon km instead
        of 2.36/epsilon) if bounds extend at most some 4000 km from their middle.
    coordinates : {"auto", "latitude-longitude", "longitude-latitude"}, default="auto"
        Which column is which, with ``metric="haversine"``; "auto" goes by names such as "lat" and "pickup_longitude"
        and refuses to guess without them.
    resolution : int, default=16
        Points per column of the net, for norms with "exponential".
    states : array-like of shape (n_states,), optional
        Public list of the values that the only column may take; ``range(n_states)``, or the leaves of the tree, by
        default.
    distances : array-like of shape (n_states, n_states), optional
        With ``metric="precomputed"``; a (pseudo)metric.
    parents : mapping, optional
        With ``metric="tree"``: parent of every node; a root has none. Codes whose paths from the root share k
        edges are at distance 2^−k.
    loss : array-like of shape (n_states, n_states) or mapping, optional
        Loss of each state (row) for each answer (column), for finite metrics; nonnegative, 0 on the diagonal, not
        necessarily a distance. A mapping holds the parents of a tree, as in ``parents``. The distances of ``metric``,
        which ``epsilon`` counts, by default.
    prior : "uniform", array-like of shape (n_states,) or (n_rows, n_features), optional
        Public distribution that the expected loss is taken under. For finite metrics probabilities of the states,
        uniform by default. For norms and "haversine" within ``bounds``, "uniform" or public rows: results are then
        shrunk to the mean row as far as this lowers their mean distance from the rows. It is never above that of the
        mean row itself, nor is it in the corners. By default results are not shrunk.
    out_of_bounds : {"clip", "raise"}, default="clip"
        Treatment of values outside ``bounds``. With "haversine", "clip" does not move places outside, which is as
        private, and clips results; "raise" refuses them, and latitudes beyond ±90, which "clip" takes for poles.
    random_state : None, int or RandomState, default=None
        None draws noise from the operating system. An int is a reproducible simulation, not valid for release;
        each call of `transform` then repeats the same noise.
    ledger : PrivacyLedger, optional
        Charged by every call of `transform`.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of one call of `transform` for each row, whatever the other rows are: computed from the draws for one
        public row, and compared with those of every call. Calls on the same rows add up.
    channel_ : ndarray of shape (n_states, n_states)
        Probabilities of the outputs for each state, for finite metrics. Public geometry.
    expected_loss_ : float
        Expected loss of the output, under ``prior``; a distance by default. With shrunk rows by a simulation.
    least_loss_ : float
        With "optimal": a lower bound of the expected loss of every channel at this cost. If the programme was small
        enough, it is ``expected_loss_`` up to some 10⁻⁴ of it; if it is off by more than 1 %, `fit` warns.
    states_ : ndarray of shape (n_states,)
        Values that rows may take, in the order of ``channel_``, for finite metrics.
    net_ : ndarray of shape (n_points, n_features)
        Possible results, for norms with "exponential".
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray of str
        Names of the columns, if they have names that are str.

    See Also
    --------
    MetricPrivateSynthesizer : Releases synthetic rows of a whole table.
    skprivate.papers.metric.predicted_accuracy : Predicts errors before there are rows.
    tree_distances : Makes distances from a taxonomy.

    Notes
    -----
    **Formal guarantee.** For rows x, x′ and every set S of outputs Pr[M(x) ∈ S] ≤ e^{ε ρ(x, x′)} Pr[M(x′) ∈ S],
    per row; rows are randomised independently. The unit is one row, in the local model: ε is relative to the distance
    in the columns' units, and a person with k rows gets the sum over them. "haversine" counts kilometres of great
    circle on a sphere of radius 6371.0088 km, at the poles and across the dateline as well; those on the ellipsoid
    differ by at most 0.6 % (docs/theory/metric.md, Theorem 8). Norms round rows to a lattice: distances below about
    10⁻³/ε may count up to 2⁻³²/ε more (docs/guide/metric.md, "Rounding"). For finite metrics the cost is
    measured on the integer weights that are drawn from. ``transform`` keeps the number and the order of rows.

    References
    ----------
    .. [1] M. Boedihardjo, T. Strohmer, R. Vershynin, arXiv:2405.00329, Lemma 4.1, Theorems 5.1 and 6.1.
    .. [2] M. Andrés, N. Bordenabe, K. Chatzikokolakis, C. Palamidessi, "Geo-indistinguishability", CCS 2013.
    .. [3] N. Bordenabe, K. Chatzikokolakis, C. Palamidessi, "Optimal geo-indistinguishable mechanisms", CCS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.metric import MetricPrivatizer
    >>> kilometres = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> privatizer = MetricPrivatizer(epsilon=2.0).fit(kilometres)
    >>> privatizer.transform(kilometres).shape
    (2, 2)
    >>> print(privatizer.privacy_guarantee_)
    2-metric privacy for one row (l2; ε per unit of distance)

    Places in degrees, ε per kilometre:

    >>> city = {0: (40.49, 40.92), 1: (-74.26, -73.70)}
    >>> privatizer = MetricPrivatizer(2.0, metric="haversine", bounds=city, coordinates="latitude-longitude")
    >>> privatizer.fit_transform([[40.7, -74.0]]).shape
    (1, 2)
    >>> print(privatizer.privacy_guarantee_)
    2-metric privacy for one row (great-circle distance in km; ε per unit of distance)
    """

    #: `fit` is free: the common privacy checks of `fit` do not apply, those of `transform` are in the tests.
    releases_in: ClassVar[str] = "transform"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        "epsilon": [Interval(Real, 0, None, closed="neither")],  # per unit of distance
        "metric": [StrOptions({*_NUMERIC, "precomputed", "tree"})],
        "mechanism": [StrOptions({"auto", "k-norm", "exponential", "relaxed", "optimal"})],
        "bounds": [Mapping, "array-like", _domains.Ball, None],
        "coordinates": [StrOptions({"auto", "latitude-longitude", "longitude-latitude"})],
        "resolution": [Interval(Integral, 2, None, closed="left")],
        "states": ["array-like", None],
        "distances": ["array-like", None],
        "parents": [Mapping, None],
        "loss": ["array-like", Mapping, None],
        "prior": ["array-like", StrOptions({"uniform"}), None],
        "out_of_bounds": [StrOptions({"clip", "raise"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        metric: Literal["l2", "l1", "linf", "haversine", "precomputed", "tree"] = "l2",
        mechanism: Literal["auto", "k-norm", "exponential", "relaxed", "optimal"] = "auto",
        bounds: Mapping[Any, Any] | ArrayLike | _domains.Ball | None = None,
        coordinates: Literal["auto", "latitude-longitude", "longitude-latitude"] = "auto",
        resolution: int = 16,
        states: ArrayLike | None = None,
        distances: ArrayLike | None = None,
        parents: Mapping[Any, Any] | None = None,
        loss: ArrayLike | Mapping[Any, Any] | None = None,
        prior: ArrayLike | Literal["uniform"] | None = None,
        out_of_bounds: Literal["clip", "raise"] = "clip",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.metric = metric
        self.mechanism = mechanism
        self.bounds = bounds
        self.coordinates = coordinates
        self.resolution = resolution
        self.states = states
        self.distances = distances
        self.parents = parents
        self.loss = loss
        self.prior = prior
        self.out_of_bounds = out_of_bounds
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Build the net or the channel from public parameters; of X only the shape matters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self

        Warns
        -----
        NoiseFillsBoxWarning
            If the centre of ``bounds`` is nearer to every row than its noise is long, and there is no ``prior``.
        """
        mechanism = self._mechanism()
        if self.metric in _NUMERIC:
            if self.loss is not None:
                raise ValueError(f"loss needs metric='precomputed' or 'tree', got metric={self.metric!r}.")
            X = numeric_table(self, X, reset=True)
            names = getattr(self, "feature_names_in_", None)
            self._fit_domain(X.shape[1], names, mechanism)
            example = np.zeros((1, X.shape[1]))
            if self._box is not None:
                example = self._box.nearest(self._box.lower[None, :])
        else:
            n_columns = any_table(self, X, reset=True).shape[1]
            if n_columns != 1:
                raise ValueError(f"metric={self.metric!r} needs one column of states, got {n_columns} columns.")
            self.states_, self._distances = self._finite_metric()
            refuse_other_kinds(X, {0: self.states_}, name="states")
            self.channel_ = self._channel(mechanism)
            example = self.states_[:1, None]
        self._fitted_parameters = self._law_parameters()
        # The cost of a call is measured by a call on one public row, without the ledger.
        guarantee = self._randomise(example, ledger=False)[1]
        self.privacy_guarantee_ = replace(guarantee, valid_for_release=False) if self._dry_run() else guarantee
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Randomise every row; spends ``epsilon`` per unit of distance on these rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            In the order of X.

        Raises
        ------
        ValueError
            If a parameter other than ``ledger`` has been set since `fit`, or a ledger for dry runs in place of another:
            ``privacy_guarantee_`` is that of the fitted ones. Nothing is spent.
        """
        check_is_fitted(self)
        now = self._law_parameters()
        changed = [name for name, value in self._fitted_parameters.items() if not _same(value, now[name])]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed since fit; transform uses the fitted parameters, so call fit again (it "
                "spends nothing)."
            )
        read = numeric_table if self.metric in _NUMERIC else any_table
        result, guarantee = self._randomise(read(self, X, reset=False))
        fitted = self.privacy_guarantee_  # perhaps as a step
        assert replace(guarantee, assumptions=fitted.assumptions) == fitted  # by public numbers alone
        return result

    def _fit_domain(self, n_features, names, mechanism):
        """Read bounds and prior, choose a net and a remap, and warn if noise fills the bounds."""
        if self.metric == "haversine":
            if isinstance(self.bounds, _domains.Ball):
                raise ValueError(
                    "metric='haversine' needs bounds of the two columns, got a Ball; a ball needs metric='l2', 'l1' or "
                    "'linf'."
                )
            self._map = _domains.sphere_map(
                _domains.latitude_column(self.coordinates, n_features, names), self.bounds, names
            )
            self._box = self._map.box
        else:
            _domains.warn_of_degrees(names, self.metric, self.epsilon)
            self._box = None if self.bounds is None else _domains.check_domain(self.bounds, n_features, names)
        if mechanism == "exponential":
            self.net_ = self._grid(self._box)
        rows = _remap.check_prior_rows(self.prior, self._box, n_features)
        if rows is not None and self._box is not None:
            self._remap, self.expected_loss_ = _remap.best_remap(
                rows,
                self._box,
                self._norm(),
                self.epsilon,
                place=self._points,
                answer=self._rows,
                distance=self._map.distances
                if self.metric == "haversine"
                else lambda X, Y: _domains.lengths(X - Y, self._norm()),
            )
        elif self._box is not None:
            self._warn_if_noise_fills_bounds(self._box)

    def _norm(self) -> _domains.Norm:
        """Name the norm of the noise; places are points on the sphere."""
        return "l2" if self.metric == "haversine" else cast(_domains.Norm, self.metric)

    def _warn_if_noise_fills_bounds(self, box):
        columns = self._points(box.lower[None, :]).shape[1]
        if self.metric == "haversine":
            radius = self._map.radius
        else:
            radius = box.diameter(self._norm(), "raise", self.epsilon) / 2
        if columns / self.epsilon >= radius:
            warn_caller(
                f"epsilon = {self.epsilon:g} per unit of distance is too small to say much about a row: noise moves it "
                f"by {columns / self.epsilon:.2g} on average, and the centre of bounds is at most {radius:.2g} away. "
                f"At least epsilon = {columns / radius:.2g} is needed; prior='uniform' shrinks results to the centre.",
                NoiseFillsBoxWarning,
            )

    def _points(self, X):
        """Find the points that noise is added to."""
        return self._map.to_kilometres(X) if self.metric == "haversine" else X

    def _rows(self, points):
        """Turn points into rows within bounds, or of the net: post-processing."""
        if self.metric == "haversine":
            return self._map.to_degrees(points)
        if hasattr(self, "net_") and self._box is not None:
            return self._nearest_of_net(points, self._box)
        return points if self._box is None else self._box.nearest(points)

    def _law_parameters(self):
        return self.get_params(deep=False) | {"ledger": self._dry_run()}

    def _dry_run(self):
        return self.ledger is not None and self.ledger.dry_run

    def _mechanism(self):
        family = "norm" if self.metric in _NORMS else self.metric
        allowed = _ALLOWED[family]
        if self.mechanism == "auto":
            return "relaxed" if self.loss is not None and "relaxed" in allowed else allowed[0]
        if self.mechanism not in allowed:
            raise ValueError(
                f"mechanism={self.mechanism!r} does not go with metric={self.metric!r}; allowed are "
                f"{', '.join(allowed)}."
            )
        return self.mechanism

    def _grid(self, box):
        if box is None:
            raise ValueError(
                "mechanism='exponential' needs bounds: its net must be public. Pass bounds={column: (low, high)}, or "
                "(lower, upper), from what is publicly known."
            )
        d = box.lower.size
        if self.resolution**d > 4096:
            raise ValueError(
                f"resolution={self.resolution} gives {self.resolution}**{d} points, more than 4096; use "
                "mechanism='k-norm' or a smaller resolution."
            )
        axes = [(np.arange(self.resolution) + 0.5) / self.resolution] * d
        return box.from_unit(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d))

    def _nearest_of_net(self, noisy, box):
        """Round to the nearest point of the grid, in all three norms: post-processing."""
        shape = (self.resolution,) * noisy.shape[1]
        unit = box.to_unit(box.nearest(noisy))
        cells = np.minimum((unit * self.resolution).astype(np.int64), self.resolution - 1)
        return self.net_[np.ravel_multi_index(tuple(cells.T), shape)]

    def _finite_metric(self):
        if self.metric == "tree":
            if self.parents is None:
                raise ValueError("metric='tree' needs parents, the parent of every node.")
            states = leaves_of(self.parents) if self.states is None else list(cast(Sequence[Any], self.states))
            return np.array(states), _spaces.tree_distances(self.parents, states)
        if self.distances is None:
            raise ValueError("metric='precomputed' needs distances between the states.")
        distances = _spaces.distance_matrix(self.distances)
        names = np.arange(len(distances)) if self.states is None else np.array(self.states)
        if names.shape != (len(distances),):
            raise ValueError(
                f"states must have one entry per row of distances ({len(distances)}), got shape {names.shape}."
            )
        # Of two entries that differ by rounding, the smaller one means more privacy.
        return names, np.minimum(distances, distances.T)

    def _channel(self, mechanism):
        n, distances = len(self.states_), self._distances
        losses = check_loss(self.loss, self.states_, distances)
        prior = check_prior(self.prior, n)
        channel = _exponential.best_exponential_channel(
            distances, self.epsilon, accuracy=losses, relaxed=mechanism == "relaxed"
        )
        if mechanism != "optimal":
            self.expected_loss_ = _spaces.expected_loss(channel, losses, prior)
            return channel
        start = min(
            channel,
            _spaces.make_affordable(_spaces.remap(channel, losses, prior), distances, self.epsilon),
            key=lambda one: _spaces.expected_loss(one, losses, prior),
        )
        weighted = losses * (np.full(n, 1 / n) if prior is None else prior)[:, None]
        channel, bound = _interior_point.optimal_channel(distances, weighted, self.epsilon, start)
        self.least_loss_ = bound = max(bound, 0.0)
        self.expected_loss_ = loss = _spaces.expected_loss(channel, losses, prior)
        if loss - bound > _MAX_GAP * loss + 1e-6 * float(losses.max()):
            warn_caller(
                f"mechanism='optimal' did not converge: the expected loss is {loss:.4g}, and the only known bound of "
                f"all channels is {bound:.4g} (least_loss_). The channel is as private as asked. Fewer states, or a "
                "larger epsilon, take fewer steps.",
                ConvergenceWarning,
            )
        return channel

    def _randomise(self, X, *, ledger=True):
        """Randomise rows; return the guarantee of the release, too."""
        if self.metric == "haversine":
            self._map.check(X, self.out_of_bounds)
        elif self.metric in _NORMS:
            if self._box is not None:
                if self.out_of_bounds == "raise":
                    self._box.refuse_outside(X)
                X = self._box.inward(X, self._norm(), self.epsilon)
        else:
            index = state_numbers(X[:, 0], self.states_)
        release = open_release(
            epsilon=self.epsilon,
            unit="row",
            adjacency="metric",
            metric=self._distance(),
            random_state=self.random_state,
            ledger=self.ledger if ledger else None,
            label=type(self).__name__,
            theorem="Boedihardjo, Strohmer and Vershynin 2024, Lemma 4.1, Theorems 5.1 and 6.1",
            assumptions=of_every_fit("row", "bounds, states, distances, losses and priors are public"),
            diameter=self._diameter(),
        )
        if self.metric in _NUMERIC:
            points = release.k_norm(self._points(X), norm=self._norm(), epsilon=self.epsilon)
            result = self._rows(self._remap(points) if hasattr(self, "_remap") else points)
        else:
            drawn = release.channel(index, channel=self.channel_, distances=self._distances, epsilon=self.epsilon)
            result = self.states_[drawn][:, None]
        return result, release.close()

    def _distance(self):
        """Name the distance; finite metrics get a fingerprint of states and distances."""
        if self.metric in _NUMERIC:
            return _domains.METRIC if self.metric == "haversine" else self.metric
        order = sorted(range(len(self.states_)), key=lambda i: fingerprint(self.states_[i]))
        named = fingerprint(self.states_[order], self._distances[np.ix_(order, order)])
        return f"{self.metric} distances #{named}"

    def _diameter(self):
        """Bound the distance between two rows, by which a ledger of rows counts; None if it is unbounded."""
        if self.metric not in _NUMERIC:
            return float(self._distances.max()) or 1.0  # all states are one: the channel ignores its input
        if self.metric == "haversine" or self._box is None:  # places outside of bounds are not moved
            return None
        return self._box.diameter(self._norm(), self.out_of_bounds, self.epsilon)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.categorical = self.metric not in _NUMERIC
        tags.input_tags.string = self.metric not in _NUMERIC
        return tags


def _same(first, second):
    if first is second:
        return True
    scalars = (str, bool, int, float, np.number)
    return isinstance(first, scalars) and isinstance(second, scalars) and first == second
