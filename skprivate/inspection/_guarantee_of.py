"""Guarantee of a whole model: the composition of everything that its fit released, and a copy to publish."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skprivate import privacy
from skprivate.base import REPEATS, BestModelMixin
from skprivate.inspection import _ensembles, _pipelines, _single
from skprivate.inspection._steps import Place, Role, Step, Tally, Visit
from skprivate.partitions import is_known, published_copy
from skprivate.preprocessing import inner_models, needs_fit
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyUnit, search
from skprivate.user_level import UserLevelSelector

#: NumPy makes floats of integers beside a gap, which merges codes above 2^53, and Arrow's last category of a gap.
TYPES_STAY = "no missing entry changes the type in which a step of scikit-learn reads a column"
#: Distances under which a part of the columns is no farther than all of them.
_NORMS = ("l1", "l2", "linf")
_RULES = {**_pipelines.PIPELINE_RULES, **_ensembles.ENSEMBLE_RULES}


class NoGuaranteeError(ValueError):
    """No guarantee holds for a model as a whole.

    Parameters
    ----------
    message : str
        What was asked, and every reason.
    problems : sequence of (str, str), optional
        Steps without a guarantee and why.

    Attributes
    ----------
    problems : tuple of (str, str)
        As given.

    See Also
    --------
    check_pipeline : Names the steps beforehand.
    """

    def __init__(self, message: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


def walk(model: BaseEstimator, place: Place) -> Iterator[Step]:
    """Walk every step of a model: composites by their rules, everything else by its class."""
    # A subclass of a selector hands over its candidates all the same.
    rule = _RULES.get(UserLevelSelector if isinstance(model, UserLevelSelector) else type(model))
    if place.fitted:
        whole = rule or isinstance(model, BestModelMixin)
        place.seen[id(model)] = Visit(model, "composite" if whole else "single")
    if hasattr(model, "get_params") and model.get_params(deep=False).get("memory") is not None:
        yield place.step(model, Role.UNPROTECTED, f"its cache {REPEATS}: set memory=None")
    if rule:
        yield from rule(model, place, walk)
    elif why := _ensembles.why_refused(model):
        yield from _ensembles.refuse(model, place, walk, why)
    else:
        step = _single.leaf(model, place)
        elsewhere = place.fitted and step.role is Role.NO_DATA and not is_known(type(model))
        if elsewhere and needs_fit(model):
            text = f"{step.path} keeps nothing of private rows: its methods are not this package's"
            step = replace(step, assumptions=(*step.assumptions, text))
        elif elsewhere:
            place.seen[id(model)] = Visit(model, "stateless")
        yield step
        if step.role is Role.UNPROTECTED:
            for name, part in inner_models(model):
                yield from walk(part, place.inside(name, fitted=False, copies=None))
        elif place.fitted and isinstance(model, BestModelMixin):
            # A search states one guarantee for all that it hands over; what is not private in it was put there.
            inner = walk(model.best_estimator_, place.inside("best estimator"))
            yield from (each for each in inner if each.role is Role.UNPROTECTED)


def guarantee_of(model: BaseEstimator) -> PrivacyGuarantee:
    """Compose the guarantee of publishing a whole fitted model, or raise an error that names what prevents one.

    Composes the guarantees of everything that was fitted within the model on the same private rows (sequential
    composition, also where members see different columns). Checks first that nothing else in it learnt from private
    rows, and that each member's guarantee carries over to the rows that its composite was given. The guarantee is about
    the published model, which `~skprivate.inspection.to_release` makes: estimators among the parameters of a
    composite, which fits clones of them, may have been fitted before, and are published unfitted.

    Parameters
    ----------
    model : estimator
        A fitted estimator, or a composite of scikit-learn: `~sklearn.pipeline.Pipeline`, ensembles, multi-class and
        multi-output strategies, `~sklearn.frozen.FrozenEstimator`, and so on.

    Returns
    -------
    PrivacyGuarantee
        Its ``assumptions`` include what the composite adds. A step that releases in ``transform`` is counted once, for
        the rows of the fit.

    Raises
    ------
    NoGuaranteeError
        If a step looked at private rows without a guarantee, if a member's guarantee does not carry over, if units or
        adjacencies differ, if nothing in the model is private, if the model holds a fitted estimator or a guarantee
        that no step accounts for, or if a guarantee states less than its draws or its entry in the ledger cost.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    check_pipeline : Checks the same steps before `fit`.
    to_release : Copies the model for publication.

    Notes
    -----
    Guarantee: that of `PrivacyGuarantee.compose`. Where the number of columns that a private step sees may depend on
    what an earlier one released, or features of a label-private step are such results, the sum of the steps' budgets is
    stated instead: basic composition holds for plans chosen after looking at results if the budgets were fixed before.
    Such a guarantee is ``adaptive``, so its events are not composed later on either. Nothing is drawn or spent.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skprivate import UserLevelSGDRegressor, guarantee_of
    >>> from skprivate.preprocessing import PublicScaler
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(5000, 2))
    >>> model = make_pipeline(PublicScaler.from_bounds(0, 10), UserLevelSGDRegressor(epsilon=1.0, delta=1e-6))
    >>> model = model.fit(X, X @ [1.0, 2.0], userlevelsgdregressor__user_ids=np.arange(5000) // 5)
    >>> guarantee_of(model).unit
    <PrivacyUnit.USER: 'user'>
    """
    return certify(model).total


def to_release(model: BaseEstimator, *, allow_invalid: bool = False) -> Any:
    """Copy a fitted model for publication: what its guarantee counts, and nothing else.

    A fitted model keeps more than it predicts with. There are ledgers, each with a path and its last record, also in
    fitted steps. Estimators among the parameters of a composite, which fits clones of them, may have been fitted to
    the same rows before. There may be attributes that somebody set. The copy holds

    * fitted steps that `guarantee_of` visits, with all they learnt;
    * parameters. Estimators among them that are no fitted step become unfitted clones, wherever they are (in a list, in
      ``kw_args``, in a scorer);
    * of classes of scikit-learn and of this package those attributes only that methods of the class assign;
    * None for every ledger, path, cache (``memory``) and random generator.

    Parameters
    ----------
    model : estimator
        A fitted estimator, or a composite such as a pipeline, as `guarantee_of` takes them; left as it is.
    allow_invalid : bool, default=False
        Whether a copy is made also where no guarantee holds or noise was simulated: for trials, never for publication.

    Returns
    -------
    copy : estimator
        The same model, guarantees included. It predicts the same; its fits are charged to nothing.

    Raises
    ------
    NoGuaranteeError
        If no guarantee holds for the model as a whole, or if it holds a fitted estimator or a guarantee that no step
        accounts for.
    ValueError
        If a guarantee in it is not valid for release.
    TypeError
        If the model cannot be pickled, so not be published, for example for a lambda.

    Warns
    -----
    UncountedScoresWarning
        If a search of scikit-learn made a fit in it.

    See Also
    --------
    guarantee_of : States the guarantee of the copy.
    privacy_report : Writes what to publish with it.

    Notes
    -----
    Guarantee: that of the model, which `guarantee_of` states; leaving something out is post-processing. Strings are
    kept as they are, and so are objects of other classes in a parameter: a path, a name or a row in them is yours to
    look for.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import UserLevelMean
    >>> from skprivate.inspection import to_release
    >>> from skprivate.privacy import PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    >>> X = np.random.RandomState(0).uniform(size=(500, 2))
    >>> model = to_release(UserLevelMean(ledger=ledger).fit(X, user_ids=np.arange(500)))
    >>> model.ledger is None, model.privacy_guarantee_.unit
    (True, <PrivacyUnit.USER: 'user'>)
    """
    try:
        found = certify(model)
        kept: Any = found.kept
        if privacy.SEARCHED in found.total.assumptions:
            privacy.warn_caller(f"{type(model).__name__}: {privacy.SEARCHED}.", privacy.UncountedScoresWarning)
    except NoGuaranteeError:
        if not allow_invalid:
            raise
        kept = None
    return published_copy(model, allow_invalid=allow_invalid, kept=kept)


class Total(NamedTuple):
    """Total of a walk through a fitted model, and the estimators that it accounts for."""

    total: PrivacyGuarantee
    steps: list[Step]
    private: list[Step]
    kept: dict[int, Any]
    problems: list[tuple[str, str]]


def certify(model: BaseEstimator) -> Total:
    """Count a fitted model, and refuse it if anything in it is not accounted for."""
    found = count(model)
    if found.problems:
        raise no_guarantee(f"no guarantee holds for this {type(model).__name__} as a whole:", found.problems)
    return found


def count(model: BaseEstimator) -> Total:
    """Add up what the steps of a fitted model state, and list what is beside them or is less than was drawn."""
    if not hasattr(model, "fit") or isinstance(model, type):
        raise TypeError(f"model must be a fitted estimator, got {type(model).__name__}.")
    check_is_fitted(model)
    start = Place(fitted=True)
    steps = list(walk(model, start))
    # Members that are not kept (place.fitted is False) have a composite that is refused.
    private = _without_repeats([step for step in steps if step.role is Role.PRIVATE and step.place.fitted])
    problems = [(step.path, step.why) for step in steps if step.role is Role.UNPROTECTED]
    promised = [_guarantee_at(step) for step in private]
    for step, guarantee in zip(private, promised, strict=True):
        problems += [(step.path, d.text) for d in step.place.demands if not d.met(guarantee)]
    features = [step for step in steps if step.role is Role.FEATURES]
    only_labels = bool(promised) and all(g.unit is PrivacyUnit.LABEL for g in promised)
    if not only_labels:
        problems += [(step.path, step.why) for step in features]
    problems += _incomparable(private, promised)
    none_holds = f"no guarantee holds for this {type(model).__name__} as a whole"
    if problems:
        raise no_guarantee(f"{none_holds}:", problems)
    if not promised:
        raise NoGuaranteeError(f"nothing in this {type(model).__name__} is private, so that it promises nothing.")
    texts = [text for step in steps for text in (*step.assumptions, *of_rows(step, only_labels))]
    if sum(g.unit is PrivacyUnit.USER for g in promised) > 1:
        texts.append("all steps were given the same user_ids")
    texts += [f"features are public: {step.path} learns from them" for step in features]
    kinds = {type(found.model) for found in start.seen.values()} - {Pipeline}
    if not only_labels and any(kind.__module__.startswith("sklearn.") for kind in kinds):
        texts.append(TYPES_STAY)
    try:
        total = promised[0].compose(*promised[1:]) if len(promised) > 1 else promised[0]
    except ValueError as error:
        phrases = [f"protects one {g.unit}, {g.adjacency}" + f" ({g.metric})" * bool(g.metric) for g in promised]
        units = [(step.path, words) for step, words in zip(private, phrases, strict=True)]
        raise no_guarantee(f"{none_holds} ({error}):", units) from None
    if any(step.place.rows.adaptive or step.results for step in private):
        epsilon, delta = (_sum_of_budgets(name, private, promised) for name in ("epsilon", "delta"))
        total = replace(total, epsilon=epsilon, delta=delta, adaptive=True)
    if texts:
        total = replace(total, assumptions=tuple(dict.fromkeys((*total.assumptions, *texts))))
    counted = [step.model.privacy_guarantee_ for step in private]
    tally = Tally(model, start.seen, counted, start.name(model))
    for step, own in zip(private, counted, strict=True):
        if why := privacy.understated(own, [step.model.get_params(deep=False).get("ledger"), step.stated("ledger")]):
            tally.problems.append((step.path, why))
    return Total(total, steps, private, tally.kept, tally.problems)


def of_rows(step: Step, only_labels: bool) -> tuple[str, ...]:
    """List assumptions on how a step maps private rows; features are public where labels alone are protected."""
    return () if only_labels and not step.place.rows.target else step.of_rows


def _sum_of_budgets(name: str, private: list[Step], promised: list[PrivacyGuarantee]) -> float:
    # What shares the budget of a whole has at least that, and at least what its parts state.
    shared: dict[int, list[tuple[Step, PrivacyGuarantee]]] = {}
    for step, guarantee in zip(private, promised, strict=True):
        shared.setdefault(id(step.place.payer or step), []).append((step, guarantee))
    return math.fsum(
        max(
            math.fsum(getattr(guarantee, name) for _, guarantee in pairs),
            *(step.stated(name) or 0.0 for step, _ in pairs if not step.within),
        )
        for pairs in shared.values()
    )


def no_guarantee(message: str, problems: Sequence[tuple[str, str]]) -> NoGuaranteeError:
    """Make an error that lists the problems below its message."""
    lines = (f"\n- {path}: {why}." for path, why in dict.fromkeys(problems))
    return NoGuaranteeError(message + "".join(lines), problems)


def _without_repeats(private: list[Step]) -> list[Step]:
    """Count once a model that was fitted before and occurs twice, and the parts of a search."""
    found: dict[Any, Step] = {}
    for i, step in enumerate(private):
        shared = step.place.paid and not _single.releases_when_transforming(step.model)
        key: Any = id(step.model) if shared else ("place", i)
        # All private steps of what a search released hold one and the same guarantee, its own.
        guarantee = step.model.privacy_guarantee_
        if any(getattr(event, "mechanism", "") == search._MECHANISM for event, _ in guarantee.events):
            key = ("search", id(guarantee))
        found.setdefault(key, step)
    return list(found.values())


def _guarantee_at(step: Step) -> PrivacyGuarantee:
    """Read a step's own guarantee, with the maps before it in the name of its metric."""
    guarantee: PrivacyGuarantee = step.model.privacy_guarantee_
    if step.place.accounted:
        texts = (privacy.PUBLIC_BEFORE if text == privacy.STEP_ALONE else text for text in guarantee.assumptions)
        guarantee = replace(guarantee, assumptions=tuple(texts))
    if guarantee.epsilon > 0:  # nothing was drawn where it is 0
        guarantee = privacy.as_stated(guarantee)
    if guarantee.adjacency is Adjacency.METRIC and (before := step.place.rows.before):
        maps = [f"{what} #{privacy.fingerprint(by, step.place.rows.columns)}" for what, by in before]
        return replace(guarantee, metric=f"{guarantee.metric} after {', '.join(maps)}")
    return guarantee


def _incomparable(private: list[Step], promised: list[PrivacyGuarantee]) -> list[tuple[str, str]]:
    """List guarantees that are equal in words and differ in what they protect."""
    if len(promised) < 2:
        return []
    several = list(zip(private, promised, strict=True))
    own_rows = "has private rows of its own, which need not be those of the other steps"
    distance = "promises privacy per unit of a distance which need not be that of the other steps"
    several_columns = len({step.place.rows.columns for step in private}) > 1
    return [(s.path, own_rows) for s, g in several if g.unit is PrivacyUnit.PRIVATE_ROW] + [
        (s.path, distance)
        for s, g in several
        if several_columns and g.adjacency is Adjacency.METRIC and s.model.privacy_guarantee_.metric not in _NORMS
    ]
