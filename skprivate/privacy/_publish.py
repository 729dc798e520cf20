"""A copy of a model for publication, without what belongs to the house: ledgers, paths, generators."""

from __future__ import annotations

import io
import math
import pickle
from pathlib import PurePath
from typing import Any

from joblib import Memory

from skprivate.privacy._guarantee import PrivacyGuarantee
from skprivate.privacy._ledger import PrivacyLedger
from skprivate.privacy._randomness import GENERATORS

_NOT_PUBLISHED = (PrivacyLedger, PurePath, Memory, *GENERATORS)


def published_copy(model: Any, *, allow_invalid: bool = False) -> Any:
    """A copy in which ledgers, paths, caches and generators are None, however deep they lie.

    Raises
    ------
    ValueError
        If any guarantee in it is not valid for release, unless that is allowed.
    TypeError
        If the model cannot be pickled.
    """
    name, buffer = type(model).__name__, io.BytesIO()
    pickler = _Publisher(buffer, protocol=pickle.HIGHEST_PROTOCOL)
    try:
        pickler.dump(model)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"model must be one that can be pickled to be published, got {name}: {error}"
        ) from error
    why = [] if allow_invalid else [text for each in pickler.guarantees if (text := _flaw(each))]
    if why:
        raise ValueError(
            f"model must have a guarantee that is valid for release, got {name}: {why[0]}. allow_invalid=True makes a "
            "copy all the same, for trials."
        )
    copy = pickle.loads(buffer.getvalue())
    caches = [
        key for key, value in _parameters(copy) if key.split("__")[-1] == "memory" and value is not None
    ]
    return copy.set_params(**dict.fromkeys(caches)) if caches else copy


def _flaw(guarantee: PrivacyGuarantee) -> str:
    if not guarantee.valid_for_release:
        return (
            "its noise was simulated (a seed, or a dry run), so that anybody can take it away. Fit it again with "
            "random_state=None"
        )
    if math.isinf(guarantee.epsilon):
        return (
            "it promises no privacy (epsilon=None, or sums without stated noise). Fit it again with a budget"
        )
    return ""


def _parameters(model: Any) -> list[tuple[str, Any]]:
    return list(model.get_params().items()) if hasattr(model, "get_params") else []


class _Publisher(pickle.Pickler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.guarantees: list[PrivacyGuarantee] = []

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, PrivacyGuarantee):
            self.guarantees.append(obj)
        # NoneType() is None.
        return (type(None), ()) if isinstance(obj, _NOT_PUBLISHED) else NotImplemented
