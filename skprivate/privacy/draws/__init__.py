"""Draws: a statistic, its noise and its event in one call."""

from skprivate.privacy._events import Draw, run_tape
from skprivate.privacy.draws._categories import (
    MISSING,
    THRESHOLD_PART,
    CategoryDiscovery,
    Entry,
    count_values,
    entry_of,
    merge_values,
)
from skprivate.privacy.draws._counts import count_events_of, count_lattice, count_threshold
from skprivate.privacy.draws._metric import channel_cost, quantise_channel
from skprivate.privacy.draws._quantiles import (
    COARSE,
    FINE,
    MOST_BINS,
    OCTAVES,
    ROW_WEIGHT,
    UNIT_WEIGHT,
    USER_WEIGHT,
    Grid,
    WeightedCells,
    merge_cells,
    private_centre,
    private_extent,
    private_median,
    private_quantiles,
    quantile_levels,
    unit_means,
    units_beyond,
    units_for_median,
    weigh,
)
