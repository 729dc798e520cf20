"""Names of the top level are imported when they are used, and all of them are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import skprivate


def test_nothing_heavy_is_imported_before_it_is_used():
    code = (
        "import sys, skprivate\n"
        "loaded = {'numpy', 'sklearn'} & sys.modules.keys()\n"
        "import skprivate.cli\n"
        "loaded |= {'sklearn', 'pandas'} & sys.modules.keys()\n"
        "assert skprivate.UserLevelMean is skprivate.user_level.UserLevelMean\n"
        "print(sorted(loaded))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_is_where_it_is_said_to_be():
    assert set(skprivate.__all__) == set(skprivate._PLACES)
    for name, place in skprivate._PLACES.items():
        home = getattr(skprivate, place)
        assert getattr(skprivate, name) is getattr(home, name)
    for module in skprivate._MODULES:
        assert getattr(skprivate, module).__name__ == f"skprivate.{module}"
    assert {*skprivate.__all__, *skprivate._MODULES, "__version__"} <= set(dir(skprivate))


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="module 'skprivate' has no attribute 'UserLevelMedian'"):
        _ = skprivate.UserLevelMedian
    with pytest.raises(ImportError, match="UserLevelMedian"):
        exec("from skprivate import UserLevelMedian")
