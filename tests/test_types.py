"""Types as seen from outside: a file over all public estimators, checked by ``mypy --strict``."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import skprivate
from skprivate.base import PrivateEstimatorMixin
from skprivate.utils.discovery import all_estimators

ESTIMATORS = dict(all_estimators())
ROOT = Path(skprivate.__file__).resolve().parent.parent
#: Arguments without a default.
NEEDED = {
    "estimator": "object()",
    "estimators": "[('m', object())]",
    "param_distributions": "{'alpha': [0.1]}",
    "categories": "[1, 2]",
}
ARRAYS = ("predict", "transform", "inverse_transform", "decision_function", "get_feature_names_out")


def choices(kind):
    """Parameters that are one of some texts, and these."""
    for name, hint in get_type_hints(kind.__init__).items():
        if name == "return":
            continue
        parts = [hint, *get_args(hint)] if get_origin(hint) is not Literal else [hint]
        texts = [text for part in parts if get_origin(part) is Literal for text in get_args(part)]
        if texts:
            yield name, texts, "ArrayLike" in str(inspect.signature(kind).parameters[name].annotation)


def made(kind, **arguments):
    needed = {
        name: NEEDED[name]
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is inspect.Parameter.empty
    }
    return f"{kind.__name__}({', '.join(f'{k}={v}' for k, v in {**needed, **arguments}.items())})"


def test_every_parameter_and_public_method_is_annotated():
    for method in [
        member
        for kind in ESTIMATORS.values()
        for key, member in inspect.getmembers(kind)
        if key == "__init__" or not key.startswith("_")
    ]:
        method = inspect.unwrap(method) if inspect.isfunction(method) else method
        if not inspect.isfunction(method) or not method.__module__.startswith("skprivate."):
            continue
        signature = inspect.signature(method)
        assert signature.return_annotation is not inspect.Signature.empty, method.__qualname__
        for parameter in list(signature.parameters.values())[1:]:
            assert parameter.annotation is not inspect.Parameter.empty, (method.__qualname__, parameter.name)


def test_literals_are_what_is_validated():
    for name, kind in ESTIMATORS.items():
        for parameter, texts, _ in choices(kind):
            constraints = kind._parameter_constraints[parameter]
            options = set().union(*(getattr(each, "options", set()) for each in constraints))
            assert set(texts) == options, (name, parameter)


@pytest.mark.slow
def test_mypy_accepts_what_is_right_and_refuses_what_is_wrong(tmp_path):
    pytest.importorskip("mypy")
    lines = [
        "import numpy as np",
        "from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyLedger",
        *(f"from {_public_module(kind)} import {name}" for name, kind in ESTIMATORS.items()),
        "X, y = np.zeros((4, 2)), np.zeros(4)",
        "ledger = PrivacyLedger(epsilon=1.0)",
    ]
    refused = []
    for name, kind in ESTIMATORS.items():
        parameters = inspect.signature(kind).parameters
        variable = f"m_{name}"
        given = {"ledger": "ledger"} if "ledger" in parameters else {}
        lines.append(f"{variable} = {made(kind, **given)}")
        lines.append(f"fitted_{name}: {name} = {variable}.fit(X{', y' if 'y' in _required(kind.fit) else ''})")
        if issubclass(kind, PrivateEstimatorMixin):
            lines.append(f"guarantee_{name}: PrivacyGuarantee = {variable}.privacy_guarantee_")
        for method in ARRAYS:
            if _own(kind, method):
                lines.append(f"array_{name}_{method} = {variable}.{method}({'' if 'names' in method else 'X'}).shape")
        for parameter, texts, open_ended in choices(kind):
            lines += [made(kind, **{parameter: repr(text)}) for text in texts]
            if not open_ended:
                refused.append(made(kind, **{parameter: "'nope'"}))
        if "adjacency" in parameters:
            lines.append(made(kind, adjacency="Adjacency.ADD_REMOVE"))
        for parameter, value in (("epsilon", "'one'"), ("ledger", "'study.ledger'"), ("random_state", "'0'")):
            if parameter in parameters:
                refused.append(made(kind, **{parameter: value}))
        if parameters:  # who inherits from scikit-learn alone is not typed
            refused.append(made(kind, epsilonn="1.0"))
    file = tmp_path / "outside.py"
    file.write_text("\n".join(lines + refused) + "\n")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", tmp_path, file],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        cwd=tmp_path,
    )
    wrong = {int(number) for number in re.findall(r"outside\.py:(\d+): error", found.stdout)}
    assert wrong == set(range(len(lines) + 1, len(lines) + len(refused) + 1)), found.stdout


def _required(method):
    return [
        name
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]


def _own(kind, method):
    found = inspect.getattr_static(kind, method, None)
    return inspect.isfunction(found) and inspect.unwrap(found).__module__.startswith("skprivate.")


def _public_module(kind):
    return ".".join(kind.__module__.split(".")[:2])
