"""Common checks of private estimators, and what they are made of."""

from skprivate.utils._data import CheckData, fitted_leaves, leaves, releases_in_transform
from skprivate.utils._laws import LawTape, LawTest, categories_of, law_tests_of, uniforms
from skprivate.utils._neighbours import EXTREMES, ROUNDED_UP, changes, evenly, norm_of
from skprivate.utils._replay import Neighbour, Recording, Replay, excess
