"""From a frame to a private model, by a public schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from skprivate import _validation
from skprivate._validation import CATEGORY, DATE, DROP, NUMBER
from skprivate.preprocessing import (
    _additive_pipeline,
    _private_imputer,
    _private_one_hot_encoder,
    _private_pipeline,
    _private_spline_transformer,
    _public_encoders,
    _public_scaler,
)
from skprivate.preprocessing._learning import learning_parts
from skprivate.privacy import PrivacyLedger, warn_caller

#: Name, transformer and columns, as ColumnTransformer takes them.
_Entry: TypeAlias = tuple[str, Any, Any]


def _features(name: str, entry: object, encoder: BaseEstimator) -> list[str]:
    """List the names of what is made of a column; of categories that the schema does not list how they begin."""
    if isinstance(entry, list) and encoder is _public_encoders.PublicOneHotEncoder:
        return list(encoder([entry]).get_feature_names_out([name]))
    if entry == DATE:
        return [name, *_public_encoders.PublicCalendar().get_feature_names_out([name])]
    return [] if entry == DROP else [f"{name}_" if entry == CATEGORY else name]


def _may_repeat(schema: Mapping[Any, Any], encoder: BaseEstimator) -> bool:
    """Tell if features of two columns may have one name, whatever values are found."""
    features = {name: _features(str(name), one, encoder) for name, one in schema.items()}
    unlisted = [name for name, one in schema.items() if one == CATEGORY]
    return bool(_validation.repeated(each for names in features.values() for each in names)) or any(
        each.startswith(f"{name}_")
        for name in unlisted
        for other, names in features.items()
        for each in names
        if other != name
    )


def _words(X: Any) -> dict[Any, str]:
    """Find the words that types say of the columns of a table for `ColumnTransformer`, by their names."""
    names = _validation.column_names(X)
    if any(not isinstance(name, str) and name != place for place, name in enumerate(names)):
        raise TypeError("X must have text for the names of its columns: numbers are taken as positions.")
    return dict(zip(names, _validation.type_words(X), strict=True))


@dataclass(frozen=True)
class _OfType:
    """The columns whose types say one of some words; all types must say one."""

    wanted: tuple[str, ...]

    def __call__(self, X: Any) -> list[Any]:
        words = _words(X)
        _validation.refuse_unclear([name for name, word in words.items() if word not in (NUMBER, DATE, CATEGORY)])
        return [name for name, word in words.items() if word in self.wanted]


@dataclass(frozen=True)
class _Categories:
    """Some columns, those whose types declare their values or the others."""

    names: tuple[Any, ...]
    declared: bool

    def __call__(self, X: Any) -> list[Any]:
        words = _words(X)
        return [name for name in self.names if (words.get(name) == CATEGORY) == self.declared]


@dataclass(frozen=True)
class _Others:
    """The columns to leave out, after names and types were compared with the schema."""

    known: Mapping[Any, Any]

    def __call__(self, X: Any) -> list[Any]:
        words = _words(X)
        _validation.refuse_other_names(self.known, words, every=True)
        _validation.refuse_other_types(self.known, words)
        return self._dropped()

    def __repr__(self) -> str:
        return f"_Others({self._dropped()})"  # the rest of the schema is with the other steps

    def _dropped(self) -> list[Any]:
        return [name for name, entry in self.known.items() if entry == DROP]


def _take_apart(model: BaseEstimator) -> tuple[list[tuple[str, Any]], Any, Any]:
    """Find the steps before the last one, the last one, and the splines of an additive model."""
    if not hasattr(model, "get_params"):
        raise TypeError(f"model must be an estimator, got {type(model).__name__}.")
    if not isinstance(model, Pipeline):
        return [], clone(model), None
    *before, (_, last) = clone(model).steps
    if not isinstance(model, _private_pipeline.PrivatePipeline):
        return before, last, None
    (_, splines), *middle = before
    if not isinstance(splines, _private_spline_transformer.PrivateSplineTransformer) or splines.bounds is not None:
        raise TypeError(
            "model must be an estimator, a pipeline of steps that look at no data and one, or "
            "make_additive_pipeline(estimator) without columns and bounds, which follow from the schema."
        )
    return middle, last, splines


def _warn_of_fits(middle: list[tuple[str, Any]]) -> None:
    """Warn of given steps that learn from rows, by their classes and parameters."""
    for name, step in middle:
        for part, why in learning_parts(step):
            warn_caller(
                f"step {name!r} ({type(part).__name__}) learns from private rows without noise, so that no guarantee "
                f"will hold for the whole (skprivate.check_pipeline): {why}.",
                UserWarning,
            )


def _number_steps(
    middle: list[tuple[str, Any]], model: BaseEstimator, splines: Any, limits: Mapping[int, Any]
) -> list[Any]:
    """List the steps behind numbers with gaps: by the other steps, the model and the schema alone."""
    bounds = limits if any(pair is not None for pair in limits.values()) else None
    if splines is not None:  # to which gaps are nothing
        return [splines.set_params(bounds=bounds)]
    if getattr(model, "_only_labels", False):  # features are public
        known = SimpleImputer(strategy="median", keep_empty_features=True)
        return [] if get_tags(model).input_tags.allow_nan else [known, StandardScaler()]
    if not has_fit_parameter(model, "private"):
        if all(get_tags(each).input_tags.allow_nan for _, each in [*middle, ("model", model)]):
            return []
        # Medians are the better fill even where limits have a middle, and linear models scale by themselves.
        return [_private_imputer.PrivateImputer(**_additive_pipeline.shared_parameters(model), bounds=bounds)]
    scaler = _public_scaler.PublicScaler.from_bounds(limits) if None not in limits.values() else None
    gaps = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
    return [gaps] if scaler is None else [scaler, gaps]


def _finder(model: BaseEstimator, encoder: BaseEstimator) -> Any:
    """Make the encoder of columns whose values nobody has listed."""
    if not getattr(model, "_only_labels", False):
        return _private_one_hot_encoder.PrivateOneHotEncoder(**_additive_pipeline.shared_parameters(model))
    if encoder is _public_encoders.PublicOneHotEncoder:  # features are public
        return OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)


def _by_schema(
    schema: dict[Any, Any], numbers: Callable[[Mapping[int, Any]], Pipeline], encoder: BaseEstimator, last: object
) -> tuple[list[_Entry], bool]:
    """List transformers of the columns of a schema; tells if two features may have one name, too."""
    limits = {
        name: one if isinstance(one, tuple) else None
        for name, one in schema.items()
        if isinstance(one, tuple) or one in (NUMBER, DATE)
    }
    dates = [name for name, one in schema.items() if one == DATE]
    listed = {name: one for name, one in schema.items() if isinstance(one, list)}
    entries: list[_Entry] = [
        ("numbers", numbers(dict(enumerate(limits.values()))), list(limits)),
        ("calendar", _public_encoders.PublicCalendar(), dates),
        ("lists", encoder(list(listed.values())), list(listed)),
    ]
    entries = [entry for entry in entries if entry[2]]
    if unlisted := tuple(name for name, one in schema.items() if one == CATEGORY):
        entries += [
            ("categories", encoder("declared"), _Categories(unlisted, declared=True)),
            ("found", _finder(last, encoder), _Categories(unlisted, declared=False)),
        ]
    # It looks at names and types before others look for theirs.
    return [("others", "drop", _Others(schema)), *entries], _may_repeat(schema, encoder)


def make_private_pipeline(
    model: BaseEstimator,
    schema: Mapping[Any, Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: PrivacyLedger | None = None,
) -> _private_pipeline.PrivatePipeline:
    """Make a pipeline from a raw table to a private model, with one budget for all of it.

    Gaps, dates, booleans and texts are prepared by public rules, or privately within the budget.

    Parameters
    ----------
    model : estimator
        A private classifier or regressor; what `make_additive_pipeline` returns; or a `~sklearn.pipeline.Pipeline`
        that ends with such an estimator, behind steps that look at no data. It is cloned.
    schema : mapping, optional
        What every column of the table holds, by name, or by position in an array:

        * ``(low, high)``, a tuple, or ``{"limits": [low, high]}``: numbers with public limits;
        * ``"number"``: numbers whose limits are not known;
        * ``"date"``: dates or times, see the notes;
        * a list of values: these, and one class for missing and all other values. Two numbers might be limits: write
          ``{"values": [0, 1]}``;
        * ``"category"``: the values that the type of the column declares (booleans, pandas' categories, polars'
          enumerations); without such a type, values that many rows have are found privately, up to 20 a column, which
          needs a δ (`~skprivate.preprocessing.PrivateOneHotEncoder`). A list costs nothing and finds rare values, too;
        * ``"drop"``: nothing that the model gets.

        All of it must be known without looking at the rows. By default types tell, never values: numbers, dates,
        declared categories. Columns of plain text are refused then, and so are columns that a mapping does not have.
    epsilon : float > 0, optional
        Budget of the whole. By default that of the model.
    delta : float in [0, 1), optional
        Budget of the whole. By default that of the model.
    ledger : PrivacyLedger, optional
        Ledger of all private steps. By default that of the model.

    Returns
    -------
    pipeline : `~sklearn.pipeline.Pipeline`
        Steps "columns", those of ``model``, and "model". Its parameters ``epsilon``, ``delta`` and ``ledger`` are those
        of the whole and may be searched over. Its ``fit`` takes ``user_ids``, with and without metadata routing, and a
        table of pandas, polars or (from scikit-learn 1.7) pyarrow, or an array. `~skprivate.guarantee_of` states what
        the fit promises.

    Raises
    ------
    TypeError
        If the model is no private classifier or regressor, or ``schema`` is no mapping.
    ValueError
        If an entry of ``schema`` is none of those above. ``fit`` compares names and types of the table with
        ``schema`` before it reads a row.

    See Also
    --------
    check_pipeline : Reports what steps do with private rows.
    make_additive_pipeline : Fits curves instead of lines.
    sklearn.pipeline.make_pipeline : Makes a pipeline of given steps.

    Notes
    -----
    *Guarantee.* At most (ε, δ), for the model's unit and neighbouring data sets. What ``schema`` or types say is taken
    as public.

    Linear models take gaps as they are, at no cost; behind steps that do not, gaps get private medians at a tenth of ε.
    Splines, at 0.3 ε, need no filling. Categories are found at 0.2 ε; a gap is a value of its own, what is not found is
    the rest. The model gets what is left, or more where all steps together still compose to (ε, δ). Where only labels
    are protected, features are public, and cost nothing. Where some rows are public, numbers are scaled by limits, if
    all have limits, and gaps are the middle, or 0. Dates are days since the year 2000, with a fraction for the
    time, beside their places in the week, the year and the day; in UTC where they have a zone. Linear models know
    which columns are indicators, or places in the calendar: their unit is public, so that nothing is spent to find
    it. Features are called after their columns; if two may have one name, all have a prefix such as
    ``numbers__``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skprivate import UserLevelSGDRegressor, guarantee_of, make_private_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 5000), "ward": rng.choice(["east", "west"], 5000)})
    >>> y = X["age"] + 20.0 * (X["ward"] == "east") + rng.normal(size=5000)
    >>> X.loc[::9, "age"] = np.nan
    >>> model = make_private_pipeline(UserLevelSGDRegressor(), {"age": (0, 110), "ward": ["east", "west"]}, epsilon=1.0)
    >>> bool(model.fit(X, y).score(X, y) > 0.7)
    True
    >>> bool(guarantee_of(model).epsilon <= 1.0)
    True
    """
    middle, last, splines = _take_apart(model)
    if splines is not None:
        epsilon = model.epsilon if epsilon is None else epsilon
        delta = model.delta if delta is None else delta
        ledger = model.ledger if ledger is None else ledger
    if "epsilon" not in last.get_params(deep=False) or not (is_classifier(last) or is_regressor(last)):
        raise TypeError(f"model must be a private classifier or regressor, got {type(last).__name__}.")
    tags = get_tags(last).input_tags
    encoder: Any = (
        _public_encoders.PublicOrdinalEncoder
        if tags.categorical and tags.allow_nan
        else _public_encoders.PublicOneHotEncoder
    )

    def numbers(limits: Mapping[int, Any]) -> Pipeline:
        return make_pipeline(_public_encoders.PublicNumbers(limits), *_number_steps(middle, last, splines, limits))

    entries: list[_Entry] = [  # of columns that say by their types what they hold
        ("numbers", numbers({0: None}), _OfType((NUMBER, DATE))),
        ("calendar", _public_encoders.PublicCalendar(), _OfType((DATE,))),
        ("categories", encoder("declared"), _OfType((CATEGORY,))),
    ]
    twins = False
    if schema is not None:
        known = _validation.read_schema(schema)
        if all(entry == DROP for entry in known.values()):
            raise ValueError(_validation.NOTHING_LEFT)
        entries, twins = _by_schema(known, numbers, encoder, last)
    if not getattr(last, "_only_labels", False):  # else features are public
        _warn_of_fits(middle)
    table = ColumnTransformer(entries, sparse_threshold=0.0, verbose_feature_names_out=twins)
    steps = [("columns", table), *middle, ("model", last)]
    return _private_pipeline.PrivatePipeline(steps, epsilon=epsilon, delta=delta, ledger=ledger)
