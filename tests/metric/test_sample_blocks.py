"""Synthetic rows in blocks."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from skprivate import MetricPrivateSynthesizer
from skprivate.privacy import public_generator

pytestmark = [
    pytest.mark.filterwarnings("ignore::skprivate.privacy.SimulatedNoiseWarning"),
    pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning"),
]
ROWS = pd.DataFrame(public_generator(0).beta(2, 5, size=(2000, 2)), columns=["a", "b"])


@pytest.mark.parametrize("metric", ["rows", "wasserstein"])
@pytest.mark.parametrize("block_rows", [1, 7, 100, 1000])
def test_blocks_are_the_rows_of_one_sample(metric, block_rows):
    model = MetricPrivateSynthesizer(5.0, metric=metric, bounds=(0, 1), random_state=0).fit(ROWS)
    blocks = list(model.sample_blocks(107, block_rows, random_state=3))
    assert [len(block) for block in blocks][:-1] == [block_rows] * ((107 - 1) // block_rows)
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), model.sample(107, random_state=3))


def test_nodes_keep_their_law():
    """A node's rows are a triangle about it, folded at the ends of the box."""
    model = MetricPrivateSynthesizer(1e9, metric="wasserstein", bounds=(0, 1), resolution=1, random_state=0).fit(
        np.zeros((10, 1))
    )
    drawn = model.sample(20_000, random_state=1)[:, 0]
    rng = public_generator(7)
    expected = np.abs(rng.random(20_000) - rng.random(20_000))
    assert ks_2samp(drawn, expected).pvalue > 1e-6


def test_blocks_with_categories_have_the_shares_of_the_measure():
    rows = ROWS.assign(kind=np.where(np.arange(2000) % 4 == 0, "x", "y"))
    model = MetricPrivateSynthesizer(50.0, bounds=(0, 1), categories={"kind": ["x", "y"]}, random_state=0).fit(rows)
    blocks = list(model.sample_blocks(1050, 100, random_state=0))
    assert [len(block) for block in blocks] == [100] * 10 + [50]
    share = float(model.measure_.weights[0].sum() / model.measure_.weights.sum())
    for block in blocks:  # systematic sampling: within a row of its share
        assert abs((block["kind"] == "x").sum() - share * len(block)) <= 1
    assert list(blocks[0].columns) == ["a", "b", "kind"]


@pytest.mark.parametrize(("n_samples", "block_rows", "name"), [(0, 5, "n_samples"), (5, 0, "block_rows")])
def test_sizes_are_positive(n_samples, block_rows, name):
    model = MetricPrivateSynthesizer(5.0, bounds=(0, 1), random_state=0).fit(ROWS)
    with pytest.raises(ValueError, match=f"{name} must be an int >= 1"):
        model.sample_blocks(n_samples, block_rows)
