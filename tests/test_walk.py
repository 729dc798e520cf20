"""How much of the package a reader walks through who follows one default fit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import skprivate as sp
from skprivate.privacy import public_generator

PACKAGE = Path(sp.__file__).parent
RNG = public_generator(0)
X = RNG.normal(size=(4000, 3))
Y = X.sum(axis=1) + RNG.normal(size=4000)
USERS = np.repeat(np.arange(1000), 4)
CODES, LABELS = RNG.integers(0, 4, size=(4000, 3)), np.where(Y > 0, 1, 0)

#: Default fits, and the most files and functions that one may enter. Lower a limit where a fit needs less.
FITS = {
    "regressor": (lambda: sp.UserLevelSGDRegressor(epsilon=1.0).fit(X, Y, user_ids=USERS), 35, 370),
    "classifier": (lambda: sp.UserLevelSGDClassifier(epsilon=1.0, classes=[0, 1]).fit(X, LABELS), 34, 367),
    "additive": (lambda: sp.CuratedBagGAMClassifier(epsilon=1.0, classes=[0, 1]).fit(CODES, LABELS), 34, 340),
    "random bags": (lambda: sp.RandomBagRegressor(epsilon=1.0).fit(X, Y), 26, 245),
    "halfspaces": (lambda: sp.PPMHalfspaceClassifier(epsilon=1.0, private_label=1).fit(X[:500], LABELS[:500]), 30, 265),
    "synthesizer": (lambda: sp.MetricPrivateSynthesizer(epsilon=1.0).fit(X[:, :2]), 24, 230),
    "auditor": (lambda: sp.FiniteAdversaryAuditor().fit(X[:100], 2 * LABELS[:100] - 1), 12, 88),
}


def entered(fit):
    """Files and functions of the package that a call enters."""
    found = set()

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            found.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(watch)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return {file for file, _ in found}, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_a_default_fit_enters_few_files_and_functions(name):
    fit, most_files, most_functions = FITS[name]
    fit()  # modules that are imported at need are no part of the walk
    files, functions = entered(fit)
    seen = f"{len(files)} files, {len(functions)} functions"
    assert len(files) <= most_files and len(functions) <= most_functions, seen
