"""Plan of the standardisation, by public numbers alone."""

from __future__ import annotations

import math

from skprivate.privacy import gaussian_noise_multiplier
from skprivate.user_level._plan import Terms
from skprivate.user_level._ranges import SCALES, selection_epsilon
from skprivate.user_level.scaling._column_search import (
    LEAST_BEYOND,
    LEAST_PRICE,
    MOST_BEYOND,
    median_price,
    plan_search,
    reach_price,
)
from skprivate.user_level.scaling._row_means import sees_offset
from skprivate.user_level.scaling._standardise import Standardisation

#: Share of the budget (in zCDP) for all columns up to which their prices decide the worst case, or up to which they are
#: searched for together; that with what the target takes; and that where the number of users is not public.
SHARE, MOST_SHARE = 0.25, 0.5
SHARE_PRIVATE_COUNT = 0.12
#: The same for the typical norm of a row alone, which is lost on features that are prepared.
NORM_SHARE = 0.1
#: And for the target alone: without its centre no prediction is of any use. Above the lower one it is searched for.
TARGET_SHARE, TARGET_SELECTED = 0.5, 0.2
#: And for the tail of the target, if it is that of so few users at most.
TAIL_SHARE, MOST_TAIL, LEAST_TAIL = 0.08, 0.12, 0.002
#: What reaches may cost beyond the least, as a share of the budget.
REACH_SHARE = 0.04


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
    rho = 0.5 / gaussian_noise_multiplier(terms.epsilon, terms.delta) ** 2
    median, least = median_price(terms, 1.0), reach_price(MOST_BEYOND, 1.0)
    typical = selection_epsilon(1.0, len(SCALES), monotone=terms.monotone)
    # ρ times the square of the users of a column, and of the selections that have no part
    column = (centred * median**2 + least**2) / 8.0
    fixed = target * column + typical**2 / 8.0

    by_column, norm, part, search, target_search = True, True, 1.0, None, None
    if terms.n_users is None:
        part = LEAST_PRICE
        n = math.sqrt((part**2 * n_features * column + fixed) / (SHARE_PRIVATE_COUNT * rho))
    else:
        n = float(terms.n_users)
        if target and column > TARGET_SELECTED * rho * n**2:
            target_search = plan_search(terms, n_columns=1, centred=centred, most=SHARE, as_it_came=True)
        if target_search is not None:
            fixed += target_search.share * rho * n**2 - column
        if n_features * column + fixed > SHARE * rho * n**2:
            most = min(SHARE, MOST_SHARE - fixed / (rho * n**2))
            search = plan_search(terms, n_columns=n_features, centred=centred, most=most)
            by_column, part = search is not None, float(search is None)
        if not by_column:
            most = MOST_SHARE if target_search is not None else SHARE if target else NORM_SHARE
            norm = fixed <= most * rho * n**2
            found = column <= TARGET_SHARE * rho * n**2 if target else centred and sees_offset(terms)
            if not (norm or target_search or found):
                return None
    reach, tail = part * least / n, None
    if terms.n_users is not None and by_column:
        surplus = math.sqrt(8.0 * REACH_SHARE * rho / n_features)
        reach = max(reach, min(surplus, reach_price(LEAST_BEYOND, n))) if search is None else 0.0
        tail = min(math.sqrt(8.0 * TAIL_SHARE * rho), reach_price(LEAST_TAIL, n))
        tail = tail if target and tail >= reach_price(MOST_TAIL, n) else None
    return Standardisation(
        terms,
        n_features,
        centred,
        target,
        part * median / n,
        reach,
        typical / n if norm else None,
        by_column,
        (median / n, least / n),
        tail,
        search,
        target_search,
        many_outputs,
        prepared,
    )
