"""Synthetic tables of any columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skprivate import privacy
from skprivate._messages import TooFewUnitsWarning, must_be, warn_if_large, warn_if_too_few
from skprivate._sklearn import _fit_context
from skprivate._validation import learn_columns, refuse_other_columns
from skprivate.base import DELTA_CONSTRAINT, PRIVACY_CONSTRAINTS, PrivateEstimatorMixin
from skprivate.metric.grid._measure import even_draws
from skprivate.metric.tables import _candidates, _cells, _mechanism, _quality
from skprivate.metric.tables._frame import FrameSchema, validated
from skprivate.partitions import as_partitions, is_partitioned
from skprivate.privacy import PrivacyLedger, RandomStateLike, noise

_LISTED = "limits and lists of values are public"


class PrivateTableSynthesizer(PrivateEstimatorMixin, BaseEstimator):
    """Private model of a whole table, to draw synthetic rows of the same columns and types from.

    A tree of tables of two columns and the target is released with noise, then those tables that synthetic rows get
    most wrong. Rows are weighted until they have all of them (raking). Columns may be numbers, dates or categories,
    with gaps, and there may be many.

    Parameters
    ----------
    epsilon : float > 0, default=1.0
        Privacy budget of one fit.
    delta : float in (0, 1), default=1e-6
        Privacy budget of one fit.
    target : str or int, default=None
        Column that others will be used to predict, by name or position: all tables of the tree have it, and those of
        three columns with it weigh 3 in the choice. Numbers have 8 bins in it.
    schema : dict of {int or str: object}, default=None
        What columns hold, by name or position, where types do not tell, in the words of `make_private_pipeline`: a pair
        of public limits ``(low, high)``, a list of public values (of two numbers ``{"values": [0, 1]}``), ``"number"``,
        ``"date"``, ``"category"`` (the values that the type declares, or else up to 1000 that many rows have, found
        privately), or ``"drop"``. Limits save what finding magnitudes takes. Values that are not listed, or not found,
        are gaps. Columns of text must be said.
    <random_state, ledger>

    Attributes
    ----------
    model_ : TableModel
        All that was released: cells of the columns, counts, weighted candidate rows.
    n_units_ : float
        Released number of rows, or of users.
    gaps_ : ndarray of shape (n_columns,)
        Released share of gaps in each column that is not left out.
    <privacy_guarantee_, n_features_in_, feature_names_in_>

    See Also
    --------
    MetricPrivateSynthesizer : Releases a measure of a few columns, with a bound on its Wasserstein distance.
    private_counts : Releases counts by group.

    Notes
    -----
    **Formal guarantee.** (ε, δ)-differential privacy for one row more or less, or with ``user_ids`` for all rows of one
    user (add-remove). The law of all attributes is covered; synthetic rows are post-processing and cost nothing. All
    draws are planned: magnitudes, quantiles, counts of all columns, tables with the target, selections and tables. A
    unit adds 1 to one cell of each table, so d tables side by side change by √d in ℓ2 and a score, the ℓ1 distance of a
    table from a released one, by 1. Rows of a user with m rows weigh 1/m. Proof: docs/theory/metric.md, proposition 13.

    What the tables do not hold, rows do not have: dependence of four or more columns that no three show (parities), and
    that of columns whose tables have more noise than rows. Numbers in a magnitude of fewer rows than noise are moved to
    the nearest one that is seen.

    References
    ----------
    .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau, "AIM: an adaptive and iterative mechanism for differentially
       private synthetic data", PVLDB 15 (2022).
    .. [2] W. E. Deming, F. F. Stephan, "On a least squares adjustment of a sampled frequency table when the expected
       marginal totals are known", Annals of Mathematical Statistics 11 (1940).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skprivate import PrivateTableSynthesizer
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.integers(18, 90, 5000), "ward": rng.choice(["east", "west"], 5000)})
    >>> X["cost"] = np.round(40.0 * X["age"] * (1 + (X["ward"] == "east")) * rng.gamma(2.0, 1.0, 5000), 2)
    >>> synthesizer = PrivateTableSynthesizer(schema={"ward": ["east", "west"]}).fit(X)
    >>> synthesizer.sample(3).dtypes.astype(str).tolist() == X.dtypes.astype(str).tolist()
    True
    >>> set(synthesizer.sample(100, condition={"ward": "east"})["ward"])
    {'east'}
    >>> print(synthesizer.privacy_guarantee_)
    (1, 1e-06)-differential privacy for one row (add-remove)
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"user_ids": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRIVACY_CONSTRAINTS,
        **DELTA_CONSTRAINT,
        "target": [str, Integral, None],
        "schema": [Mapping, None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        target: str | int | None = None,
        schema: Mapping[Any, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.schema = schema
        self.random_state = random_state
        self.ledger = ledger

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> Self:
        """Release a model of the rows.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features), or rows in blocks
            A table of pandas, polars or pyarrow, or an array; NaN, None and the like are gaps. In blocks: a Dask
            DataFrame, a pyarrow dataset, or `skprivate.partitions.Blocks`; numbers and codes of all rows are in memory.
        y : Ignored
        user_ids : array-like of shape (n_samples,), optional
            User of each row; the unit of privacy is then the user, otherwise the row. Only for tables in memory.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If neither its type nor ``schema`` tells what a column holds.
        ValueError
            If ``schema`` or ``target`` name other columns, or if a number is infinite.

        Warns
        -----
        TooFewUnitsWarning
            If no magnitude of a column is seen, by released numbers: it is 0 in all rows. Or if units are too few for
            more than magnitudes.
        """
        privacy.refuse_other_index(X, user_ids=user_ids)
        schema, data = self._read(X, user_ids)
        mechanism = self._mechanism(schema)
        unit = "row" if user_ids is None else "user"
        assumptions = (_LISTED,) if any(own.values or own.bounds for own in schema.columns) else ()
        with self._releasing(mechanism, unit=unit, adjacency="add-remove", assumptions=assumptions) as release:
            model = mechanism.run(data, release)
        self.model_ = model
        self.n_units_ = model.n_units
        self.gaps_ = np.array([own[-1] / max(own.sum(), 1.0) for own in model.counts])
        self._schema = schema.with_values(model.found)
        # The number of units is private until it is released.
        warn_if_large(self.privacy_guarantee_.delta, round(model.n_units), str(unit), type(self).__name__)
        self._warn(mechanism, unit)
        return self

    def plan(self, X: Any, n_rows: int = 10_000) -> dict[str, float]:
        """Compute what a fit would measure and take, from names and types of a table alone.

        Parameters
        ----------
        X : data frame or array-like
            Its rows are not looked at, nor how many there are.
        n_rows : int, default=10000
            About how many rows there will be, if that is public.

        Returns
        -------
        dict
            "tables": those to choose among; "noise": standard deviation of a chosen table, in units; "least_units":
            units for more than magnitudes; "least_in_range": units in a magnitude for it to be seen; "candidates";
            "seconds" and "megabytes", roughly.
        """
        self._validate_params()
        return _mechanism.table_plan(self._mechanism(FrameSchema.of(X, self.schema)), int(n_rows))

    def sample(
        self, n_samples: int = 1, *, condition: Mapping[Any, Any] | None = None, random_state: RandomStateLike = None
    ) -> Any:
        """Draw synthetic rows: post-processing of the released model, at no further cost.

        Parameters
        ----------
        n_samples : int, default=1
        condition : dict of {int or str: object}, optional
            What rows shall hold: a listed value, a list of them, or for numbers a pair (low, high). Columns left out
            are drawn given these.
        random_state : None, int or RandomState, default=None
            Public randomness.

        Returns
        -------
        data frame or ndarray of shape (n_samples, n_columns)
            The kind of table that `fit` got, with its names and types. Columns of pandas that are int or float64 are
            int64 if all released steps are whole and there are no gaps, float64 otherwise, whichever came in: a gap of
            one row would change that type.

        Raises
        ------
        ValueError
            If no rows of the model meet the condition.
        """
        check_is_fitted(self)
        columns = self._draw(n_samples, condition, privacy.public_generator(random_state))
        return self._schema.write(columns, self.model_.cells, tuple(self.gaps_ > 0))

    def quality(self, X: Any, test: object = None, *, random_state: RandomStateLike = None) -> _quality.TableQuality:
        """Compare as many synthetic rows with real ones: not private, and not for publication.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The rows of `fit`, or others.
        test : data frame or array-like, optional
            Further real rows, to predict the target in.
        random_state : None, int or RandomState, default=None
            Public randomness.

        Returns
        -------
        TableQuality
        """
        check_is_fitted(self)
        real = self._schema.read(validated(self, X, reset=False))
        held_out = None if test is None else self._schema.read(validated(self, test, reset=False))
        synthetic = np.column_stack(self._draw(len(real), None, privacy.public_generator(random_state)))
        names = tuple(str(self._schema.table.names[own.position]) for own in self._schema.columns)
        listed = tuple(own.values is not None for own in self._schema.columns)
        return _quality.table_quality(names, listed, real, synthetic, self._target_of(self._schema), held_out)

    def _draw(self, n_samples, condition, rng):
        """Draw numbers and codes, column by column."""
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(must_be("n_samples", "an int >= 1", n_samples))
        model = self.model_
        weights, counts, limits = model.weights.astype(np.float64), list(model.counts), {}
        for key, wanted in (condition or {}).items():
            if (j := self._schema.place(key)) is None:
                names = [self._schema.table.names[own.position] for own in self._schema.columns]
                raise ValueError(must_be("condition", f"of columns among {names[:20]}, or positions", key))
            counts[j], limits[j] = self._restricted(j, wanted)
            kept, every = (
                np.bincount(model.cells[j].bins, own, model.cells[j].n_bins) for own in (counts[j], model.counts[j])
            )
            weights = weights * (kept / np.maximum(every, 1e-12))[model.candidates[j]]
        if not weights.any():
            raise ValueError(must_be("condition", "met by some rows of the model", "none"))
        chosen = rng.permutation(even_draws(weights, int(n_samples), rng))
        columns: list[noise.FloatArray] = []
        for j, (own, fine, bins) in enumerate(zip(model.cells, counts, model.candidates, strict=True)):
            own = own.limited(*limits[j]) if limits.get(j) else own
            values = own.decode(_candidates.draw_cells(bins[chosen].astype(np.int64), fine, own.bins, rng), rng)
            columns.append(np.clip(values, *limits[j]) if limits.get(j) else values)
        return columns

    def _restricted(self, j, wanted):
        """Keep the counts of the cells that a condition allows; limits of numbers."""
        own, cells, counts = self._schema.columns[j], self.model_.cells[j], self.model_.counts[j].copy()
        label = f"condition[{own.label}]"
        if own.values is not None:
            listed = wanted if isinstance(wanted, list) else [wanted]
            if not all(value in own.values for value in listed):
                raise ValueError(must_be(label, f"among {list(own.values)[:20]}", wanted))
            allowed = [value in listed for value in own.values] + [False]
            return np.where(allowed, np.maximum(counts, 1e-9), 0.0), None
        try:
            low, high = own.read(np.array(wanted if isinstance(wanted, tuple) else (), dtype=object)).tolist()
        except (TypeError, ValueError):  # no pair, or of something else
            low = high = math.nan
        if not low <= high:
            raise ValueError(must_be(label, "a pair (low, high) of what the column holds", wanted))
        if cells.step:  # the first and the last multiple between them
            ends = _cells.on_steps(np.array([low, high]), cells.step)
            ends += cells.step * np.array([float(ends[0] < low), -float(ends[1] > high)])
            low, high = _cells.on_steps(ends, cells.step)
        share = np.diff(cells.limited(low, high).edges) / np.diff(cells.edges)
        return np.append(np.maximum(counts[:-1], 1e-9) * share, 0.0), (low, high)

    def _read(self, X, user_ids):
        if not is_partitioned(X):
            X = validated(self, X, reset=True)
            schema = FrameSchema.of(X, self.schema)
            self._target_of(schema)  # is refused before a row is read
            table, texts = schema.read(X), schema.texts(X)
            if user_ids is None:
                return schema, (table, None, texts)
            units, users = privacy.encode_identifiers(user_ids, len(table))
            return schema, (table, units, texts, privacy.identifier_tags(users))
        if user_ids is not None:
            raise ValueError(must_be("user_ids", "None if X is in blocks, where rows are the units", "identifiers"))
        source = as_partitions(X)
        blank, names = learn_columns(self, source.empty)
        schema = FrameSchema.of(source.empty, self.schema)
        read = partial(_read_block, schema=schema, blank=blank, names=names)
        self._target_of(schema)
        table, texts = source.gather(read, _together)
        return schema, (table, None, texts)

    def _mechanism(self, schema):
        return _mechanism.TableMechanism(
            columns=tuple(own.spec for own in schema.columns),
            target=self._target_of(schema),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
        )

    def _target_of(self, schema):
        """Find the target among the columns that are not left out."""
        if self.target is None:
            return None
        if (place := schema.place(self.target)) is None:
            raise ValueError(must_be("target", f"a column among {list(schema.table.names)[:20]}", self.target))
        return place

    def _warn(self, mechanism, unit):
        name, model = type(self).__name__, self.model_
        if model.unseen:
            columns = [self._schema.columns[j].label for j in model.unseen]
            named = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
            privacy.warn_caller(
                f"about {round(model.n_units)} {unit}s are too few: {name} saw no magnitude of column {named}, which "
                f"takes about {math.ceil(mechanism.least_in_range)} in one, and made it 0. Raise epsilon, take fewer "
                f"columns, or pass public limits (schema={{{columns[0]}: (low, high)}}).",
                TooFewUnitsWarning,
            )
        else:
            n_columns = len(model.cells)
            warn_if_too_few(float(model.n_units), mechanism.least_units, unit, name, n_columns, bounds_help=False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags


def _read_block(block, schema, blank, names):
    refuse_other_columns(block, names)
    if not len(block):
        return np.empty((0, len(schema.columns))), (np.empty(0, dtype=object),) * sum(
            own.found for own in schema.columns
        )
    block = validated(blank, block, reset=False)
    return schema.read(block), schema.texts(block)


def _together(parts):
    tables, texts = zip(*parts, strict=True)
    return np.concatenate(tables), tuple(map(np.concatenate, zip(*texts, strict=True)))
