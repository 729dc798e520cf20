"""Records of a walk through a model: steps, what each of them sees, and conditions on its guarantee."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer, LabelBinarizer, LabelEncoder, MultiLabelBinarizer

from skprivate import aggregate
from skprivate.aggregate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier
from skprivate.partitions import NOT_PUBLISHED, is_estimator, kept_attributes
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, PrivacyUnit

#: These protect labels, and take features for public.
LABELS_ONLY = (CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, aggregate.RandomBagRegressor)
_PLAIN = (type, str, bytes, int, float, complex, FunctionType, BuiltinFunctionType, ModuleType, type(None))
#: What composites of scikit-learn fit for themselves: the set of labels, and functions that were given.
_HELPERS = (FunctionTransformer, LabelBinarizer, LabelEncoder, MultiLabelBinarizer)
#: How an object was found: by a parameter, an attribute of a composite, or one of a single estimator.
_PARAMETER, _COMPOSITE, _SINGLE = "parameter", "composite", "single"


class Role(StrEnum):
    """Treatment of private rows by a step."""

    PRIVATE = "private"
    NO_DATA = "looks at no data"
    RELEASED = "sees released rows only"
    BEFORE = "fitted before"
    FEATURES = "looks at features"
    UNPROTECTED = "looks at private rows"


@dataclass(frozen=True)
class Demand:
    """A condition on the guarantee of a member, without which it does not hold inside a composite."""

    text: str
    met: Callable[[PrivacyGuarantee], bool]


@dataclass(frozen=True)
class Step:
    """One step of a model, with its reason and its assumptions.

    ``of_rows`` are assumptions on how it maps rows, which count only where these are private.
    """

    path: str
    model: Any
    role: Role
    why: str
    assumptions: tuple[str, ...]
    place: Place
    of_rows: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[Step, ...]:
        """Private steps by whose results it may plan: where labels alone are protected, features are public."""
        guarantee = getattr(self.model, "privacy_guarantee_", None) if self.place.fitted else None
        of_labels = guarantee.unit is PrivacyUnit.LABEL if guarantee else isinstance(self.model, LABELS_ONLY)
        return self.place.rows.results if of_labels else ()

    @property
    def within(self) -> str:
        """Name of another step, which states the budget of both."""
        name, last = ("", self.model) if self.place.payer is None else self.place.payer.steps[-1]
        return "" if last is self.model else name

    def holder(self, name: str) -> Any:
        """Find whose parameter is in force: that of a pipeline with a budget for all, or the model's own."""
        return self.model if getattr(self.place.payer, name, None) is None else self.place.payer

    def stated(self, name: str) -> Any:
        """Read a parameter that is in force."""
        return getattr(self.holder(name), name, None)


class Visit(NamedTuple):
    """An estimator that a walk visited: rules name the parts of a composite, and what is stateless needs no fit."""

    model: Any
    kind: Literal["composite", "single", "stateless"]


@dataclass(frozen=True)
class Rows:
    """The rows that arrive at a step."""

    #: Randomised by an earlier step (the local model); targets never are.
    released: bool = False
    #: X is the target, holds targets, or was selected by them.
    target: bool = False
    #: The earlier step, if there is one, whose release may decide how many columns arrive.
    adaptive: str = ""
    #: Private steps whose results are among the features.
    results: tuple[Step, ...] = field(default=(), repr=False)
    #: Row-wise maps on the way, which change distances, and what they depend on.
    before: tuple[tuple[str, Any], ...] = ()
    #: Columns that the composites on the way chose.
    columns: tuple[tuple[int, ...], ...] = ()
    #: They arrive one at a time.
    alone: bool = False


@dataclass(frozen=True)
class Copies:
    """Number of copies of a step that are fitted; None if only the data tell, by ``times``."""

    number: int | None = 1
    times: str = "one for each label or target"

    def of_each(self, number: int | None, times: str) -> Copies:
        """Count the copies of a part where each of these fits this number."""
        known = None if number is None or self.number is None else number * self.number
        return Copies(known, times or self.times)


@dataclass(frozen=True)
class Place:
    """A place in a model during a walk: names on the way, the rows that arrive, and how often a step is fitted."""

    #: Members are taken from fitted attributes, else from parameters.
    fitted: bool
    path: str = ""
    rows: Rows = Rows()
    #: The step was fitted before, apart from the composite.
    paid: bool = False
    demands: tuple[Demand, ...] = ()
    copies: Copies = Copies()
    #: The pipeline whose budget covers this step: its parameters, where they are not None, else those of its last step.
    payer: Any = None
    #: The step only chooses columns.
    chooses: bool = False
    #: What came before is a part of the model that is walked.
    accounted: bool = False
    #: Fitted estimators that the walk visited so far, by id.
    seen: dict[int, Visit] = field(default_factory=dict, compare=False, repr=False)

    def inside(
        self, part: str, *, copies: int | None = 1, times: str = "", demands: tuple[Demand, ...] = (), **changes: object
    ) -> Place:
        """Go to a part of the composite, which fits this number of copies; None if only the data tell, by ``times``."""
        return replace(
            self,
            path=f"{self.path}, {part}" if self.path else part,
            copies=self.copies.of_each(copies, times),
            demands=self.demands + demands,
            accounted=True,
            **changes,
        )

    def with_rows(self, **changes: object) -> Place:
        """Change the rows that arrive."""
        return replace(self, rows=replace(self.rows, **changes))

    def name(self, model: BaseEstimator) -> str:
        """Name a model at this place."""
        return f"{self.path or 'the model'} ({type(model).__name__})"

    def step(self, model: BaseEstimator, role: Role, why: str = "", *assumptions: str) -> Step:
        """Make a step at this place."""
        return Step(self.name(model), model, role, why, assumptions, self)


def check_widths(steps: Iterable[Step]) -> None:
    """Refuse private steps whose draws depend on how many columns another step releases, or on all of its results."""
    for step in steps:
        before = step.place.rows.adaptive or "".join([one.path for one in step.results if not one.place.paid][:1])
        if step.role is Role.PRIVATE and before:
            raise ValueError(
                f"estimator must have a cost that is known beforehand, got {step.path} behind {before}, "
                "which may decide by what it releases how many columns it hands on, and so what is drawn behind it "
                "(where labels are protected, all features decide that). "
                "Put a step there whose number of columns is public (bins with encode='ordinal', splines, quantiles, "
                "scales; a class of your own with OneToOneFeatureMixin). Nothing was drawn or spent."
            )


#: From a model and its place to its steps.
Walk = Callable[[Any, Place], Iterator[Step]]


class Tally:
    """Find estimators that are published, and fitted ones or guarantees that no step accounts for.

    Follows a model as `pickle` does. Estimators among parameters that no step has visited become unfitted clones, so
    nothing is asked of them. ``kept`` are the others by id, ``problems`` pairs of a place and what it holds.
    """

    def __init__(
        self, model: BaseEstimator, seen: Mapping[int, Visit], counted: Sequence[PrivacyGuarantee], name: str
    ) -> None:
        self.kept = {key: found.model for key, found in seen.items() if found.kind != "stateless"}
        self.problems: list[tuple[str, str]] = []
        self._seen, self._counted = seen, counted
        self._done: dict[tuple[int, str], Any] = {}
        self._look(model, name, _COMPOSITE)

    def _look(self, value: object, where: str, way: str) -> None:
        if isinstance(value, (*_PLAIN, *NOT_PUBLISHED)) or (id(value), way) in self._done:
            return
        self._done[id(value), way] = value  # kept, so that no other object gets its id
        if isinstance(value, PrivacyGuarantee):
            if value not in self._counted:
                self.problems.append((where, f"holds a guarantee that no step accounts for ({value})"))
        elif is_estimator(value):
            self._look_at_estimator(value, where, way)
        else:
            for name, part in _parts(value):
                self._look(part, f"{where}, {name}" if name else where, way)

    def _look_at_estimator(self, value: object, where: str, way: str) -> None:
        kind = self._seen[id(value)].kind if id(value) in self._seen else ""
        found, onwards = (parameters := value.get_params(deep=False)), _PARAMETER  # it becomes a clone
        given = way == _PARAMETER or (way == _COMPOSITE and (id(value), _PARAMETER) in self._done)
        learnt = way == _SINGLE or isinstance(value, _HELPERS)
        if kind in (_COMPOSITE, _SINGLE) or (not kind and learnt and not given):
            self.kept.setdefault(id(value), value)
            found, onwards = kept_attributes(value), _COMPOSITE if kind == _COMPOSITE else _SINGLE
        elif not (kind or given) and any(n.endswith("_") and not n.startswith("_") for n in vars(value)):
            self.problems.append((where, f"holds a fitted {type(value).__name__} that no step accounts for"))
            return
        # Parameters first: what a composite keeps of them elsewhere, a step of no columns for example, is known then.
        for name, part in sorted(found.items(), key=lambda pair: pair[0] not in parameters):
            own = name in parameters and (kind or way == _COMPOSITE)
            self._look(part, f"{where}, {name}", _PARAMETER if own else onwards)


def _parts(value: object) -> Iterator[tuple[str, Any]]:
    """List what a pickle of an object holds, with the names of its attributes."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        yield from (("", part) for part in value)
    elif kind is dict:
        yield from (("", part) for pair in value.items() for part in pair)
    elif kind is np.ndarray:
        yield from (("", part) for part in (value.ravel().tolist() if value.dtype.hasobject else ()))
    else:
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:  # what cannot be pickled cannot be published
            return
        for part in reduced[1:] if isinstance(reduced, tuple) else ():
            if isinstance(part, dict):
                yield from ((name if isinstance(name, str) else "", inside) for name, inside in part.items())
            else:
                yield "", list(part) if isinstance(part, Iterator) else part


def objects_in(value: object, seen: dict[int, Any] | None = None) -> Iterator[Any]:
    """List everything with attributes that a model holds at any depth, except ledgers and guarantees, each once."""
    seen = {} if seen is None else seen
    if id(value) in seen or isinstance(value, (*_PLAIN, PrivacyLedger, PrivacyGuarantee)):
        return
    seen[id(value)] = value  # kept, so that no other object gets its id
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, (list, tuple)):
        inside = value
    elif isinstance(value, np.ndarray):
        inside = value.flat if value.dtype.hasobject else ()
    elif hasattr(value, "__dict__"):
        yield value
        inside = vars(value).values()
    for part in list(inside):
        yield from objects_in(part, seen)
