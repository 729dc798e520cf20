"""Plan of the standardisation, by public numbers alone."""

from __future__ import annotations

import math

from skprivate.user_level._plan import Terms
from skprivate.user_level._ranges import SCALES, selection_epsilon
from skprivate.user_level.scaling._column_search import (
    LEAST_BEYOND,
    LEAST_PRICE,
    MOST_BEYOND,
    distance_price,
    median_price,
    plan_search,
)
from skprivate.user_level.scaling._row_means import can_estimate_common_mean
from skprivate.user_level.scaling._standardise import Standardisation

#: Largest share of the budget (in zCDP) for all columns: by selections that decide the worst case, or by a joint
#: search. Largest share with the target; and share where the number of users is private.
SHARE, MOST_SHARE = 0.25, 0.5
SHARE_PRIVATE_COUNT = 0.12
#: Share for the typical norm of a row alone, which prepared features do not need.
NORM_SHARE = 0.1
#: Share for the target alone, without whose centre predictions are useless; above the lower one it is found by a
#: search.
TARGET_SHARE, TARGET_SELECTED = 0.5, 0.2
#: Share for the tail of the target, and the largest and smallest part of the users in it.
TAIL_SHARE, MOST_TAIL, LEAST_TAIL = 0.08, 0.12, 0.002
#: Share of the budget for distances beyond their least price.
DISTANCE_SHARE = 0.04


def plan_standardisation(
    terms: Terms,
    *,
    n_features: int,
    centred: bool,
    target: bool,
    many_outputs: bool = False,
    prepared: tuple[bool, ...] = (),
) -> Standardisation | None:
    """Split the budget for standardisation by public numbers; None if ``n_users`` is too small."""
    n_features -= sum(prepared)
    rho = terms.rho
    median, least = median_price(terms, 1.0), distance_price(MOST_BEYOND, 1.0)
    typical = selection_epsilon(1.0, len(SCALES), monotone=terms.monotone)
    # ρ times the square of the number of users, of a column, and of the selections that are always made.
    column = (centred * median**2 + least**2) / 8.0
    fixed = target * column + typical**2 / 8.0

    by_column, norm, part, search, target_search = True, True, 1.0, None, None
    if terms.n_users is None:
        part = LEAST_PRICE
        n = math.sqrt((part**2 * n_features * column + fixed) / (SHARE_PRIVATE_COUNT * rho))
    else:
        n = float(terms.n_users)
        if target and column > TARGET_SELECTED * rho * n**2:
            target_search = plan_search(
                terms, n_columns=1, centred=centred, most=SHARE, assume_standardised=True
            )
        if target_search is not None:
            fixed += target_search.share * rho * n**2 - column
        if n_features * column + fixed > SHARE * rho * n**2:
            most = min(SHARE, MOST_SHARE - fixed / (rho * n**2))
            search = plan_search(terms, n_columns=n_features, centred=centred, most=most)
            by_column, part = search is not None, float(search is None)
        if not by_column:
            most = MOST_SHARE if target_search is not None else SHARE if target else NORM_SHARE
            norm = fixed <= most * rho * n**2
            found = (
                column <= TARGET_SHARE * rho * n**2 if target else centred and can_estimate_common_mean(terms)
            )
            if not (norm or target_search or found):
                return None
    distance, tail = part * least / n, None
    if terms.n_users is not None and by_column:
        surplus = math.sqrt(8.0 * DISTANCE_SHARE * rho / n_features)
        distance = max(distance, min(surplus, distance_price(LEAST_BEYOND, n))) if search is None else 0.0
        tail = min(math.sqrt(8.0 * TAIL_SHARE * rho), distance_price(LEAST_TAIL, n))
        tail = tail if target and tail >= distance_price(MOST_TAIL, n) else None
    return Standardisation(
        terms,
        n_features,
        centred,
        target,
        part * median / n,
        distance,
        typical / n if norm else None,
        by_column,
        (median / n, least / n),
        tail,
        search,
        target_search,
        many_outputs,
        prepared,
    )
