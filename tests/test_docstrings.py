"""The examples in docstrings say what is true."""

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import skprivate

WITH_EXAMPLES = [
    name
    for _, name, _ in pkgutil.walk_packages(skprivate.__path__, "skprivate.")
    if ">>>" in Path(importlib.util.find_spec(name).origin).read_text("utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0 and tried > 0
