"""Passes, bytes and memory by formula are those that a fit takes."""

import tracemalloc

import numpy as np
import pytest

from skprivate import MetricPrivateSynthesizer, UserLevelMean
from skprivate.inspection import plan_passes
from skprivate.partitions import Blocks
from skprivate.privacy import public_generator

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*[Ss]imulat"),
    pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning"),
]
MODES = [
    {},
    {"bounds": (-3, 3)},
    {"resolution": 4},
    {"bounds": (-3, 3), "resolution": 4},
    {"metric": "wasserstein", "bounds": (-3, 3), "epsilon": 1e4},
    {"metric": "wasserstein", "bounds": (-3, 3), "resolution": 8},
    {"metric": "wasserstein", "bounds": (-3, 3), "mechanism": "hats", "resolution": 8},
    {"categories": {0: (0, 1, 2)}},
    {"categories": {0: (0, 1, 2)}, "bounds": (-3, 3), "resolution": 4},
    {"categories": {0: (0, 1, 2), 1: range(5), 2: (0, 1)}},
]


class Counted(Blocks):
    """Rows that note the size of every sum."""

    def __init__(self, source):
        super().__init__(source)
        self.sizes = []

    def sum(self, contribution):
        total = super().sum(contribution)
        self.sizes.append(total.nbytes)
        return total


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(mode) or "default")
def test_formulas_are_what_is_counted(mode):
    rng = public_generator(0)
    listed = sorted(mode.get("categories", ()))
    X = np.column_stack(
        [rng.integers(0, 2, 900) if j in listed else rng.normal(size=900) for j in range(3)]
    ).astype(float)
    rows = Counted(lambda: (X[start : start + 100] for start in range(0, 900, 100)))
    model = MetricPrivateSynthesizer(**{"epsilon": 5.0, "random_state": 0, **mode})
    plan = plan_passes(model, 900, 3, block_rows=100)
    model.fit(rows)
    assert rows.passes == len(rows.sizes) == plan.passes
    assert plan.bytes_read == plan.passes * 900 * 3 * 8
    assert 9 * sum(rows.sizes) <= plan.bytes_sent
    if "resolution" in mode or len(listed) == 3:  # the grid is known beforehand
        assert 9 * sum(rows.sizes) >= 0.75 * plan.bytes_sent  # hats: nodes of the finest level


@pytest.mark.parametrize("mode", [{}, {"bounds": (-3, 3), "resolution": 2}], ids=["default", "given"])
def test_memory_stays_within_the_formula(mode):
    n_columns, block_rows = 12, 1 << 17
    X = public_generator(0).normal(size=(block_rows, n_columns))
    rows = Blocks(lambda: (X.copy() for _ in range(3)))
    model = MetricPrivateSynthesizer(1.0, random_state=0, **mode)
    plan = plan_passes(model, 3 * block_rows, n_columns, block_rows=block_rows)
    tracemalloc.start()
    try:
        model.fit(rows)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.15 * plan.bytes_held <= held <= plan.bytes_held


def test_seconds_by_the_bytes_that_a_worker_takes():
    plan = plan_passes(MetricPrivateSynthesizer(), 10**6, 10, bytes_a_row=50)
    assert plan.bytes_read == 5 * 50 * 10**6
    assert plan.seconds(1e8, workers=2) == pytest.approx(1.25)


def test_what_has_no_formula():
    with pytest.raises(TypeError, match="estimator must be a MetricPrivateSynthesizer, got UserLevelMean"):
        plan_passes(UserLevelMean(), 10, 2)
    with pytest.raises(ValueError, match="block_rows must be at least 1, got 0"):
        plan_passes(MetricPrivateSynthesizer(), 10, 2, block_rows=0)
