"""The example of docs/guide/own_estimator.md: written with public names only, and green in all common checks."""

import ast
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import private_naive_bayes
from helpers.private_naive_bayes import ClassMoments, PrivateGaussianNB
from sklearn.datasets import make_blobs
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from skprivate.utils.estimator_checks import check_mechanism, parametrize_with_privacy_checks

ROOT = Path(__file__).resolve().parents[2]
ESTIMATORS = [PrivateGaussianNB(), PrivateGaussianNB(adjacency="add-remove", classes=[0, 1])]


@pytest.mark.take_turns(9)
@parametrize_with_checks(ESTIMATORS[:1])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.take_turns(9)
@parametrize_with_privacy_checks(ESTIMATORS)
def test_privacy(estimator, check):
    check(estimator)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_mechanism_keeps_its_contract(adjacency):
    mechanism = ClassMoments(2, 2, (-1.0, 1.0), 1.0, adjacency == "replace-one")
    data = np.array([[-1.0, 1.0], [0.3, 0.4], [1.0, 1.0], [9.0, 0.0]]), np.array([0, 1, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the check does not complain of the seed that it sets itself
        check_mechanism(mechanism, [data], adjacency=adjacency)
    # and the check sees a sensitivity that is half of what it must be
    with pytest.raises(AssertionError, match="not private"):
        wrong = ClassMoments(2, 2, (-1.0, 1.0), 1.0, False)
        check_mechanism(wrong, [data], adjacency="replace-one")


def test_it_learns():
    X, y = make_blobs(4000, centers=[[-0.5, 0.2], [0.4, -0.3]], cluster_std=0.2, random_state=0)
    own = PrivateGaussianNB(1.0, random_state=0).fit(X, y)
    public = GaussianNB().fit(np.clip(X, -1, 1), y)
    np.testing.assert_allclose(own.theta_, public.theta_, atol=0.02)
    np.testing.assert_allclose(own.var_, public.var_, atol=0.02)
    assert own.score(X, y) > public.score(X, y) - 0.01


_SCRIPT = """
import pickle

import cloudpickle
import numpy as np
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV

exec(compile(open({path!r}).read(), "example", "exec"))
assert PrivateGaussianNB.__module__ == "__main__"

if __name__ == "__main__":
    X = np.linspace(-1, 1, 80).reshape(40, 2)
    y = np.arange(40) % 2
    again = pickle.loads(cloudpickle.dumps(PrivateGaussianNB()))
    assert hasattr(again.fit(X, y), "theta_")
    with parallel_config(backend="loky", n_jobs=2):
        search = GridSearchCV(PrivateGaussianNB(), {{"epsilon": [1.0, 2.0]}}, cv=2).fit(X, y)
    assert hasattr(search.best_estimator_, "theta_")
"""


def test_a_class_of_a_script_goes_to_workers(tmp_path):
    """A class of a notebook is pickled by value, with all that wraps its methods."""
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT.format(path=private_naive_bayes.__file__))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_it_imports_public_modules_only():
    tree = ast.parse(Path(private_naive_bayes.__file__).read_text())
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert not any(part.startswith("_") for name in names for part in name.split("."))


def test_the_page_shows_this_very_code():
    page = (ROOT / "docs" / "guide" / "own_estimator.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    source = Path(private_naive_bayes.__file__).read_text()
    assert source.split('"""\n\n', 1)[1].strip() == blocks[0].strip()
