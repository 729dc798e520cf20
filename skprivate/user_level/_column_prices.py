"""What the selection of one column's centre or reach has to cost so that it decides."""

from __future__ import annotations

import math

from skprivate.privacy import Adjacency
from skprivate.user_level._column_reach import DECAY
from skprivate.user_level._plan import Terms

#: Part of the price that decides the worst case where the number of users is not public: the columns that people have
#: need few digits for their centres, and one that goes wrong is clipped.
LEAST_PRICE = 0.45
#: A reach is what so many of the users lie beyond: the fewer, the dearer.
MOST_BEYOND, LEAST_BEYOND = 0.35, 0.01
#: ln of the numbers of candidates, and of how rarely a selection misses.
MEDIAN_CANDIDATES = math.log(5 * 2 * 128 * 256)
MISSES = 9.0
REACH_CANDIDATES = math.log(1.0 / DECAY) + MISSES


def median_price(terms: Terms, n_users: float) -> float:
    factor = 2.0 if terms.adjacency is Adjacency.ADD_REMOVE else 4.0
    return factor * (MEDIAN_CANDIDATES + MISSES) / max(n_users, 1.0)


def reach_price(beyond: float, n_users: float) -> float:
    return 2.0 * REACH_CANDIDATES / (beyond * max(n_users, 1.0))


def share_beyond(price: float, n_users: float) -> float:
    """Smallest tail that this price can tell from nobody, or the largest that is used."""
    return min(2.0 * REACH_CANDIDATES / (price * n_users), MOST_BEYOND)
