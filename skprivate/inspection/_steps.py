"""What a walk through a model finds: steps, what each of them sees, and what its guarantee must be like."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.preprocessing import FunctionTransformer, LabelBinarizer, LabelEncoder, MultiLabelBinarizer

from skprivate.partitions import NOT_PUBLISHED, is_estimator, kept_attributes
from skprivate.privacy import PrivacyGuarantee

__all__ = ["Demand", "Place", "Role", "Seen", "Step", "Tally", "Walk", "check_widths"]


class Role(StrEnum):
    """What a step does with private rows."""

    PRIVATE = "private"
    NO_DATA = "looks at no data"
    RELEASED = "sees released rows only"
    BEFORE = "fitted before"
    FEATURES = "looks at features"
    UNPROTECTED = "looks at private rows"


@dataclass(frozen=True)
class Demand:
    """What the guarantee of a member must be like for it to hold inside a composite.

    Parameters
    ----------
    text : str
        Why, and what is demanded.
    met : callable
        From the guarantee to whether it is as demanded.
    """

    text: str
    met: Callable[[PrivacyGuarantee], bool]


@dataclass(frozen=True)
class Step:
    """One step of a model.

    Parameters
    ----------
    path : str
        Where it is, and its class.
    model : object
        The estimator.
    role : Role
        What it does with private rows.
    why : str
        The reason, and what to do instead.
    assumptions : tuple of str
        What has to be true outside the code.
    place : Place
        Where the walk met it.
    of_rows : tuple of str
        What has to be true of how it maps rows, where these are private.
    """

    path: str
    model: Any
    role: Role
    why: str
    assumptions: tuple[str, ...]
    place: Place
    of_rows: tuple[str, ...] = ()


class Seen(NamedTuple):
    """An estimator that a walk visited: rules name the parts of a composite, and what is stateless needs no fit."""

    model: Any
    kind: Literal["composite", "single", "stateless"]


@dataclass(frozen=True)
class Place:
    """Where a walk is.

    Parameters
    ----------
    fitted : bool
        Whether members are taken from fitted attributes, or from parameters.
    path : str
        Names of the composites and steps on the way.
    released : bool
        Whether rows arrive randomised by an earlier step (the local model); targets never are.
    target : bool
        Whether what arrives as X is the target, holds targets, or was selected by them.
    adaptive : str
        The earlier step, if there is one, that may have decided by what it released how many columns arrive.
    paid : bool
        Whether the step was fitted before, apart from the composite.
    before : tuple of (str, object)
        Row-wise maps on the way, which change distances, and what they depend on.
    columns : tuple of tuple of int
        Columns that the composites on the way chose.
    demands : tuple of Demand
        Of the composites on the way.
    copies : int or None
        How many of them are fitted; None if only the data tell.
    times : str
        What tells, where ``copies`` does not, how many of them are fitted.
    within : str
        Step whose budget pays for what is here, too.
    alone : bool
        Whether rows arrive one at a time.
    chooses : bool
        Whether what is here only chooses columns.
    seen : dict of int to Seen
        What the walk visited so far, of what is fitted, by id.
    """

    fitted: bool
    path: str = ""
    released: bool = False
    target: bool = False
    adaptive: str = ""
    paid: bool = False
    before: tuple[tuple[str, Any], ...] = ()
    columns: tuple[tuple[int, ...], ...] = ()
    demands: tuple[Demand, ...] = ()
    copies: int | None = 1
    times: str = "one for each label or target"
    within: str = ""
    alone: bool = False
    chooses: bool = False
    seen: dict[int, Seen] = field(default_factory=dict, compare=False, repr=False)

    def inside(
        self, part: str, *, copies: int | None = 1, demands: tuple[Demand, ...] = (), **changes: Any
    ) -> Place:
        """The place of a part of the composite that is here."""
        return replace(
            self,
            path=f"{self.path}, {part}" if self.path else part,
            copies=None if copies is None or self.copies is None else copies * self.copies,
            demands=self.demands + demands,
            **changes,
        )

    def name(self, model: Any) -> str:
        """What a model at this place is called."""
        return f"{self.path or 'the model'} ({type(model).__name__})"

    def step(self, model: Any, role: Role, why: str = "", *assumptions: str) -> Step:
        """A step at this place."""
        return Step(self.name(model), model, role, why, assumptions, self)


def check_widths(steps: Iterable[Step]) -> None:
    """Refuse private steps whose draws depend on how many columns another step releases."""
    for step in steps:
        if step.role is Role.PRIVATE and step.place.adaptive:
            raise ValueError(
                f"estimator must have a price that is known beforehand, got {step.path} behind {step.place.adaptive}, "
                "which may decide by what it releases how many columns it hands on, and so what is drawn behind it. "
                "Put a step there whose number of columns is public (bins with encode='ordinal', splines, quantiles, "
                "scales; a class of your own with OneToOneFeatureMixin). Nothing was drawn or spent."
            )


#: From a model and its place to its steps.
Walk = Callable[[Any, Place], Iterator[Step]]


_PLAIN = (type, str, bytes, int, float, complex, FunctionType, BuiltinFunctionType, ModuleType, type(None))
#: What composites of scikit-learn fit for themselves: the set of labels, and functions that were given.
_HELPERS = (FunctionTransformer, LabelBinarizer, LabelEncoder, MultiLabelBinarizer)
#: How an object was reached: by a parameter, an attribute of a composite, or one of a single estimator.
_PARAMETER, _COMPOSITE, _SINGLE = "parameter", "composite", "single"


class Tally:
    """Estimators that are published as they are, and what is fitted or promised without a step that accounts for it.

    Follows a model as `pickle` does. Of estimators among parameters that no step has visited nothing is asked: they
    become unfitted clones. ``kept`` are the others by their id, ``problems`` say where something lies and what it is.
    """

    def __init__(
        self, model: Any, seen: Mapping[int, Seen], counted: Sequence[PrivacyGuarantee], name: str
    ) -> None:
        self.kept = {key: found.model for key, found in seen.items() if found.kind != "stateless"}
        self.problems: list[tuple[str, str]] = []
        self._seen, self._counted = seen, counted
        self._done: dict[tuple[int, str], Any] = {}
        self._look(model, name, _COMPOSITE)

    def _look(self, value: Any, where: str, way: str) -> None:
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

    def _look_at_estimator(self, value: Any, where: str, way: str) -> None:
        kind = self._seen[id(value)].kind if id(value) in self._seen else ""
        found, onwards = (parameters := value.get_params(deep=False)), _PARAMETER  # it becomes a clone
        given = way == _PARAMETER or (way == _COMPOSITE and (id(value), _PARAMETER) in self._done)
        learnt = way == _SINGLE or isinstance(value, _HELPERS)
        if kind in (_COMPOSITE, _SINGLE) or (not kind and learnt and not given):
            self.kept.setdefault(id(value), value)
            found, onwards = kept_attributes(value), _COMPOSITE if kind == _COMPOSITE else _SINGLE
        elif not (kind or given) and _is_fitted(value):
            self.problems.append((where, f"holds a fitted {type(value).__name__} that no step accounts for"))
            return
        # Parameters first: what a composite keeps of them elsewhere, a step of no columns for example, is known then.
        for name, part in sorted(found.items(), key=lambda pair: pair[0] not in parameters):
            own = name in parameters and (kind or way == _COMPOSITE)
            self._look(part, f"{where}, {name}", _PARAMETER if own else onwards)


def _is_fitted(model: Any) -> bool:
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a pickle of an object holds, with the names of its attributes."""
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
