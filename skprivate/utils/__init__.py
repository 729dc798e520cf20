"""Common checks of private estimators, and what they are made of."""

from skprivate.utils._checks_draws import _size
from skprivate.utils._data import CheckData, fitted_leaves, leaves, releases_in_transform
from skprivate.utils._neighbours import EXTREMES, changes, evenly
from skprivate.utils._replay import (
    NOISE,
    Neighbour,
    Recording,
    Replay,
    change,
    differing_results,
    exact,
    excess,
)
