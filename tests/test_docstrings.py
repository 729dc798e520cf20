"""The examples in docstrings say what is true."""

import doctest
import importlib
import pkgutil

import pytest

import skprivate

MODULES = [
    m.name for m in pkgutil.walk_packages(skprivate.__path__, "skprivate.") if "__main__" not in m.name
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
