"""What of a fitted model its steps account for: the walk's own tally, and what lies beside it."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.preprocessing import FunctionTransformer, LabelBinarizer, LabelEncoder, MultiLabelBinarizer

from skprivate.inspection._steps import Seen
from skprivate.privacy import PrivacyGuarantee
from skprivate.privacy._publish import NOT_PUBLISHED, is_estimator, kept_attributes

__all__ = ["Tally"]

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
