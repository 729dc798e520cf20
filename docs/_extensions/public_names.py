"""What the reference documents, and under which name."""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
from types import FunctionType
from typing import Any

import skprivate


def public_modules() -> list[str]:
    """Modules whose full name has no leading underscore, the package itself first."""
    found = pkgutil.walk_packages(skprivate.__path__, "skprivate.")
    return ["skprivate", *(m.name for m in found if not any(p.startswith("_") for p in m.name.split(".")))]


def canonical_names() -> list[str]:
    """Full dotted names of everything in an ``__all__``: ``skprivate.X`` where the top level has it.

    An object that several packages offer has the name of the first of them; one that is called the same but is another
    object has its own.
    """
    names: dict[str, None] = {}
    seen: dict[str, list[Any]] = {}
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not any(value is other for other in seen.setdefault(name, [])):
                seen[name].append(value)
                names[f"{module_name}.{name}"] = None
    return list(names)


def public_classes() -> list[str]:
    """Those of the canonical names that are classes."""
    return [name for name in canonical_names() if inspect.isclass(_object(name))]


#: The page of docs/ that tells how the names of a package are used.
GUIDES = {
    "aggregate": "guide/aggregate",
    "audit": "guide/audit",
    "inspection": "guide/whole_models",
    "metric": "guide/metric",
    "mixture": "guide/mixture",
    "model_selection": "guide/private_search",
    "partitions": "guide/partitions",
    "preprocessing": "guide/preprocessing",
    "privacy": "guide/own_estimator",
    "report": "guide/report",
    "user_level": "guide/user_level",
    "utils": "guide/estimator_checks",
}
#: Names that another page explains.
OTHERS = {"PrivacyLedger": "guide/ledger", "make_private_pipeline": "guide/hospital", "main": "guide/ledger"}


def guide_of(full_name: str) -> str | None:
    """Find the guide of a public name by the package that defines it."""
    name = full_name.rpartition(".")[2]
    parts = (getattr(_object(full_name), "__module__", None) or full_name).split(".")
    return OTHERS.get(name, GUIDES.get(parts[1] if len(parts) > 1 else ""))


def _object(full_name: str) -> Any:
    module, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _own(cls: type) -> dict[str, Any]:
    """Public attributes that our own classes define: those of scikit-learn, str or tuple are documented there."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "skprivate":
            found |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    return found


def documented_methods(full_name: str) -> list[str]:
    """Methods of a class that have a docstring of ours, in order of definition."""
    cls = _object(full_name)
    return [
        name
        for name, value in _own(cls).items()
        if isinstance(value, FunctionType | classmethod | staticmethod) and inspect.getdoc(getattr(cls, name))
    ]


def documented_properties(full_name: str) -> list[str]:
    """Properties of a class that its docstring does not list among its attributes."""
    cls = _object(full_name)
    listed = inspect.getdoc(cls) or ""
    return [
        name
        for name, value in _own(cls).items()
        if isinstance(value, property) and value.__doc__ and f"\n{name} : " not in listed
    ]


def inherited_methods(full_name: str) -> str:
    """Names of the public methods that an estimator has from scikit-learn, in code font."""
    cls = _object(full_name)
    found = sorted(
        name
        for base in cls.__mro__
        if base.__module__.partition(".")[0] == "sklearn"
        for name, value in vars(base).items()
        if isinstance(value, FunctionType) and not name.startswith("_") and name not in _own(cls)
    )
    return ", ".join(f"``{name}``" for name in dict.fromkeys(found))


def enumeration_members(full_name: str) -> list[str]:
    """Members of an enumeration, none for other classes."""
    cls = _object(full_name)
    return [f"{member.name} = {member.value!r}" for member in cls] if issubclass(cls, enum.Enum) else []
