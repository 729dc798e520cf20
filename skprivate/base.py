"""Base of every private estimator, here and in other packages. Think twice before adding anything."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, SupportsIndex, TypeAlias

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skprivate import _sklearn, privacy
from skprivate._messages import LEAST_EPSILON, warn_if_large
from skprivate._sklearn import CallbackSupportMixin, Interval, _Method, _VisualBlock
from skprivate.partitions import OverBlocks
from skprivate.privacy import Adjacency, Mechanism, PrivacyGuarantee, PrivacyLedger, PrivacyUnit, Release

__all__ = ["DELTA_CONSTRAINT", "PRIVACY_CONSTRAINTS", "PrivateEstimatorMixin", "fit_context"]

#: What a cache of fitted steps (``memory``) does.
REPEATS = "keeps private rows, and repeats noise if and only if none of them changed"
#: Type of the parameter ``adjacency``.
AdjacencyName: TypeAlias = Adjacency | Literal["replace-one", "add-remove"]
#: Assumption of every fit, which may keep the names (``feature_names_in_``).
COLUMNS_ARE_PUBLIC = "names and types of the columns are public"
#: Constraints of the parameters that every private estimator has.
PRIVACY_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [Interval(Real, LEAST_EPSILON, None, closed="left")],
    "random_state": ["random_state"],
    "ledger": [PrivacyLedger, None],
}
#: Constraint of ``delta`` for estimators whose mechanism is approximate.
DELTA_CONSTRAINT: dict[str, list[Any]] = {"delta": [Interval(Real, 0, 1, closed="neither")]}
# Parameters are public by contract, but people do pass rows: as bounds, as first centres, as a list of categories. So
# an entry keeps numbers, short strings and collections of at most four numbers (a pair of bounds, widths of layers).
# Of everything else it keeps the kind and the size only.
_MOST_NUMBERS, _LONGEST_STRING, _LONGEST = 4, 40, 200


def fit_context(*, prefer_skip_nested_validation: bool = True) -> Callable[[_Method], _Method]:
    """Decorate ``fit``: validate parameters, keep training data out of error messages, report progress to callbacks.

    Parameters are validated by ``_parameter_constraints``, as scikit-learn's own estimators do. scikit-learn's
    messages about malformed data quote them; here they do not. A fit learns on a blank, which the estimator becomes
    when it is done: nothing that an earlier fit set stays, and after an error or an interruption the estimator is as
    it was before. What was charged stays charged. Decorate every method that learns; ``partial_fit`` keeps what it
    adds to. Callbacks (scikit-learn 1.9) receive progress.

    Parameters
    ----------
    prefer_skip_nested_validation : bool, default=True
        False if the estimator has estimators among its parameters.

    Returns
    -------
    decorator : callable

    See Also
    --------
    PrivateEstimatorMixin : Opens the release within ``fit``.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from sklearn.utils.validation import validate_data
    >>> from skprivate.base import PRIVACY_CONSTRAINTS, fit_context
    >>> class Example(BaseEstimator):
    ...     _parameter_constraints = PRIVACY_CONSTRAINTS
    ...
    ...     def __init__(self, epsilon=1.0, *, random_state=None, ledger=None):
    ...         self.epsilon, self.random_state, self.ledger = epsilon, random_state, ledger
    ...
    ...     @fit_context()
    ...     def fit(self, X):
    ...         validate_data(self, X)
    >>> try:
    ...     Example().fit([1.234])
    ... except ValueError as error:
    ...     print(str(error).splitlines()[0])
    Expected 2D array, got 1D array instead.
    """
    return _sklearn._fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


@lru_cache(maxsize=256)
def _parameter_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(super(PrivateEstimatorMixin, kind)._get_param_names())  # type: ignore[misc]


class PrivateEstimatorMixin(privacy.Versioned, OverBlocks, CallbackSupportMixin):  # type: ignore[misc]
    """Mixin that releases an estimator's mechanism and stores its guarantee.

    Goes left of `BaseEstimator` and of scikit-learn's mixins. The estimator has the parameters ``epsilon``,
    ``random_state``, ``ledger`` and, where its mechanism is approximate, ``delta``. Its ``fit`` reads as a straight
    line: validate, make the mechanism from public numbers, run it inside
    ``with self._releasing(mechanism, …) as release:``, store what it returns.

    `_releasing` has an underscore because users of an estimator do not call it; classes that inherit may, and it is
    as stable as what has none. ``predict``, ``transform`` and the like take rows in blocks, too
    (`skprivate.partitions.apply`).

    Attributes
    ----------
    releases_in : {"fit", "transform"}
        Class attribute: the method that spends. A randomiser of rows (the local model) says "transform"; its ``fit``
        must then leave nothing that depends on the data.
    privacy_guarantee_ : PrivacyGuarantee
        Set when `_releasing` ends without an error.

    See Also
    --------
    fit_context : Decorates its ``fit``.
    Mechanism : Holds the plan of a release.
    check_privacy : Runs all common privacy checks.
    """

    privacy_guarantee_: PrivacyGuarantee
    releases_in: ClassVar[str] = "fit"
    #: What docstrings of estimators and their methods say alike: a line in angle brackets is replaced where a class is
    #: made.
    _shared_docs: ClassVar[dict[str, str]] = {
        "<random_state, ledger>": """random_state : int, RandomState instance or None, default=None
        None: secure noise. Otherwise a reproducible simulation whose result must not be released.
    ledger : PrivacyLedger, optional
        Budget of the data set; the fit is paid from it before anything is drawn.""",
        "<X, or rows in blocks>": """
    X : array-like of shape (n_samples, n_features), or rows in blocks
        Besides arrays and frames a Dask array or DataFrame, a pyarrow dataset, or `skprivate.partitions.Blocks`. The
        same rows give the same result to the last bit, wherever they are.""",
        "<user_ids>": """
    user_ids : array-like of shape (n_samples,) or column of X, optional
        User of each row; by default each row is its own user. Where X is in blocks the name of its column; rows of one
        user may be in any of them (docs/guide/partitions.md).""",
        "<privacy_guarantee_, n_features_in_, feature_names_in_>": """privacy_guarantee_ : PrivacyGuarantee
        ε, δ, unit, neighbouring relation, theorem and assumptions of the fit.
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has strings for the names of its columns.""",
    }
    #: Most tasks of one fit that callbacks hear of (`skprivate._sklearn.steps`), one after the other; the draws are
    #: one.
    _most_fit_tasks: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for each in (cls, *filter(inspect.isfunction, vars(cls).values())):
            for line, text in cls._shared_docs.items():
                if each.__doc__ and line in each.__doc__:  # cleaned, as Python 3.13 does by itself
                    each.__doc__ = inspect.cleandoc(each.__doc__).replace(line, inspect.cleandoc(text)) + "\n"

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Cache scikit-learn's names, as it inspects the signature anew several times a fit."""
        return list(_parameter_names(cls))

    @available_if(lambda estimator: hasattr(estimator, "predict_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities that `predict_proba` gives.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))  # type: ignore[attr-defined]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        if getattr(self, "random_state", None) is None and _sklearn.is_key_of_cache(sys._getframe(1)):
            raise ValueError(  # joblib takes a TypeError for keys that have no order
                f"{type(self).__name__} must not be fitted within a cache (memory= of a pipeline), which "
                f"{REPEATS}. Set memory=None. Nothing was drawn for it."
            )
        return super().__reduce_ex__(protocol)

    def __sklearn_clone__(self) -> Any:
        """Clone, and warn of scikit-learn's searches, once each: they score what they clone."""
        seed, ledger = (getattr(self, each, None) for each in ("random_state", "ledger"))
        if seed is None and not getattr(ledger, "dry_run", False) and (name := _sklearn.name_of_new_search()):
            privacy.warn_caller(
                f"{name} scores fits of {type(self).__name__} without noise. If the rows held out are private, what "
                "the scores and a choice by them tell is in no guarantee and no ledger, which count the fits alone. "
                "Search on public rows, or with skprivate.model_selection.PrivateSearchCV.",
                privacy.UncountedScoresWarning,
            )
        return super().__sklearn_clone__()  # type: ignore[misc]  # of BaseEstimator

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Show ε also where it is the default, which scikit-learn leaves out."""
        text: str = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]  # of BaseEstimator
        parameter = inspect.signature(type(self)).parameters.get("epsilon")
        shown = f"epsilon={getattr(self, 'epsilon', None)!r}"
        if parameter is None or shown != f"epsilon={parameter.default!r}" or not get_config()["print_changed_only"]:
            return text
        name, bracket, rest = text.partition("(")
        return f"{name}{bracket}{shown}{'' if rest.startswith(')') else ', '}{rest}"

    def _sk_visual_block_(self) -> _VisualBlock:
        """Show the guarantee below the name in scikit-learn's diagrams, of composites too."""
        guarantee, name = getattr(self, "privacy_guarantee_", None), type(self).__name__
        caption = None if guarantee is None else repr(guarantee).strip("<>")
        details = str(self)
        return _VisualBlock("single", self, names=name, name_details=details, name_caption=caption)

    @contextmanager
    def _releasing(
        self,
        mechanism: Mechanism,
        *,
        unit: PrivacyUnit | str,
        adjacency: Adjacency | str,
        metric: str | None = None,
        assumptions: tuple[str, ...] = (),
        n_units: int | None = None,
        diameter: float | None = None,
    ) -> Iterator[Release]:
        """Pay for a mechanism, let it draw, state the guarantee.

        Parameters
        ----------
        mechanism : Mechanism
            Its ``events`` are reserved before the block begins.
        unit, adjacency, metric, assumptions, diameter
            As in `skprivate.privacy.open_release`; `of_every_fit` is added.
        n_units : int or None
            How many units there are, where that number is public: under replace-one, or given. A δ of 1/n or more
            is warned about (`skprivate.privacy.LargeDeltaWarning`) before anything is spent. None where it is
            private; nothing is said then.

        Yields
        ------
        Release
            For ``mechanism.run(data, release)``.

        Raises
        ------
        BudgetExceededError
            If the mechanism does not fit the budget or the ledger; nothing is drawn then.
        """
        epsilon: float = self.epsilon  # type: ignore[attr-defined]
        delta: float = getattr(self, "delta", 0.0)
        if n_units is not None:
            spent = privacy.cost_of_plan(mechanism.events, epsilon, delta)[1]
            warn_if_large(spent, n_units, str(unit), type(self).__name__)
        with (
            privacy.open_release(
                epsilon=epsilon,
                delta=delta,
                unit=unit,
                adjacency=adjacency,
                metric=metric,
                random_state=self.random_state,  # type: ignore[attr-defined]
                ledger=self.ledger,  # type: ignore[attr-defined]
                label=type(self).__name__,
                theorem=mechanism.theorem,
                assumptions=of_every_fit(unit, *assumptions),
                plan=mechanism.events,
                diameter=diameter,
                parameters=None if self.ledger is None else shown_parameters(self),  # type: ignore[attr-defined]
            ) as release,
            _sklearn.steps("release", mechanism.n_draws) as release.after_draw,
        ):
            yield release
        self.privacy_guarantee_ = release.close()
        self._skprivate_units = n_units
        given = self.get_params(deep=False)  # type: ignore[attr-defined]  # of BaseEstimator
        self._skprivate_declared = {name: given[name] for name in ("bounds", "classes") if name in given}


def of_every_fit(unit: PrivacyUnit | str, *assumptions: str) -> tuple[str, ...]:
    """Add assumptions of every fit: columns are public and, where more than labels is protected, no result came in."""
    before = privacy.STEP_ALONE if _sklearn.called_from(*_sklearn.COMPOSITES) else privacy.PUBLIC_BEFORE
    searched = [privacy.SEARCHED] if _sklearn.search_under_way() is not None else []
    return (COLUMNS_ARE_PUBLIC, *assumptions, *searched, *([] if unit == PrivacyUnit.LABEL else [before]))


def _best_has(name: str) -> Callable[[Any], bool]:
    """Make a check for a method of the best model, or before fitting of every candidate."""

    def check(search: object) -> bool:
        if hasattr(search, "best_estimator_"):
            return hasattr(search.best_estimator_, name)
        return all(hasattr(model, name) for model in search._models())

    return check


def _of_best(name: str, summary: str, returns: str) -> Any:
    """Make the method of the best model, where that has one."""

    def method(self: Any, X: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(self._read(X))

    method.__name__, method.__qualname__ = name, f"BestModelMixin.{name}"
    method.__doc__ = f"""{summary}

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        {returns}
        """
    return available_if(_best_has(name))(method)


class BestModelMixin(OverBlocks):
    """Mixin with methods and tags of ``best_estimator_``; ``_models()`` are the candidates before fitting."""

    best_estimator_: Any

    def _models(self) -> list[Any]:
        raise NotImplementedError

    def _read(self, X: Any) -> Any:
        """Convert rows to what the best model takes."""
        return X

    predict = _of_best("predict", "Predict with the best model.", "predictions : ndarray of shape (n_samples,)")
    predict_proba = _of_best(
        "predict_proba",
        "Predict class probabilities with the best model.",
        "probabilities : ndarray of shape (n_samples, n_classes)",
    )
    decision_function = _of_best(
        "decision_function", "Evaluate the decision function of the best model.", "scores : ndarray"
    )

    @available_if(_best_has("score"))
    @privacy.in_one_order
    def score(self, X: Any, y: Any) -> Any:
        """Score the best model on other rows, without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        return self.best_estimator_.score(self._read(X), y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        models = self._models()
        if models and hasattr(models[0], "fit"):
            inner = get_tags(models[0])
            tags.estimator_type = inner.estimator_type
            tags.classifier_tags = copy.copy(inner.classifier_tags)
            tags.regressor_tags = copy.copy(inner.regressor_tags)
            tags.input_tags.sparse = inner.input_tags.sparse
        tags.target_tags.required = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True
        return tags


def shown_parameters(estimator: BaseEstimator) -> dict[str, str]:
    """Show the parameters of an estimator but its ledger."""
    parameters = estimator.get_params(deep=False)
    return {name: shown(value) for name, value in parameters.items() if name != "ledger"}


def shown(value: object) -> str:
    """Show one parameter in at most 200 characters."""
    text = _shown(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _shown(value: object) -> str:
    kind = type(value).__name__
    if (number := _number(value)) is not None:
        return number
    if isinstance(value, str):
        # A plain string: the representation of a member of an enumeration is its own.
        return repr(str(value)) if len(value) <= _LONGEST_STRING else f"{kind} of length {len(value)}"
    if isinstance(shape := getattr(value, "shape", None), tuple):
        return f"{kind} of shape {shape}"
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(value.__qualname__)
    if hasattr(value, "get_params"):
        return f"{kind}({', '.join(f'{name}={text}' for name, text in shown_parameters(value).items())})"
    if isinstance(value, (tuple, list)) and 0 < len(value) <= _MOST_NUMBERS:
        numbers = [_number(item) for item in value]
        if None not in numbers:
            left, right = "()" if isinstance(value, tuple) else "[]"
            comma = "," if left == "(" and len(value) == 1 else ""
            return f"{left}{', '.join(map(str, numbers))}{comma}{right}"
    if isinstance(value, Collection):
        return f"{kind} of length {len(value)}"
    return kind


def _number(value: object) -> str | None:
    """Return the text of a number, True, False or None; None where it is none of these."""
    if value is None or isinstance(value, bool):
        return str(value)
    if hasattr(value, "shape"):
        scalar = value.shape == () and hasattr(value, "item") and not hasattr(value, "__array_finalize__")
        return _number(value.item()) if scalar else None
    if isinstance(value, Integral):
        return f"{int(value)}" if abs(int(value)) < 10**40 else None
    return repr(float(value)) if isinstance(value, Real) else None
