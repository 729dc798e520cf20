"""Private search: the cost of the best of a random number of evaluations."""

from skprivate.privacy.search._stopping import _MECHANISM
