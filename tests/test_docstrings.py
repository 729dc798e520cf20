"""The examples in docstrings say what is true."""

import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import skprivate
from skprivate.utils.discovery import all_estimators

WITH_EXAMPLES = [
    name
    for _, name, _ in pkgutil.walk_packages(skprivate.__path__, "skprivate.")
    if ">>>" in Path(importlib.util.find_spec(name).origin).read_text("utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_run(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0 and tried > 0


def test_shared_texts_are_put_in():
    """A line of names in angle brackets stands for the text that estimators share."""
    texts = {name: kind.__doc__ for name, kind in all_estimators()}
    assert not [name for name, text in texts.items() if re.search(r"^\s*<[a-z_, ]+>$", text, re.MULTILINE)]
    assert sum("the fit is paid from it before anything is drawn" in text for text in texts.values()) > 12
