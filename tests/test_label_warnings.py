"""How many labels differ is nobody's to be warned of."""

import warnings

import numpy as np
import pytest

from skprivate import CuratedBagGAMClassifier, PPMHalfspaceClassifier, RandomBagClassifier


@pytest.mark.parametrize("distinct", [2, 12, 16])
@pytest.mark.parametrize("kind", [CuratedBagGAMClassifier, RandomBagClassifier, PPMHalfspaceClassifier])
def test_no_warning_tells_how_many_labels_differ(kind, distinct):
    X = np.linspace(-1, 1, 60).reshape(30, 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            kind(epsilon=1.0).fit(X, np.arange(30) % distinct)
        except ValueError as error:  # two classes only
            assert kind is PPMHalfspaceClassifier and distinct > 2, error
            assert str(distinct) not in str(error)
    assert not [one for one in seen if "unique classes" in str(one.message)]
