"""What a pass over blocks tells, and what is left of a fit that is lost in one."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skprivate import MetricPrivateSynthesizer
from skprivate.partitions import Blocks
from skprivate.partitions._blocks import STEPS_OF_A_PASS
from skprivate.privacy import PrivacyLedger, public_generator

pytestmark = pytest.mark.filterwarnings("ignore:.*[Ss]imulat")
ROWS = public_generator(0).normal(size=(600, 2))


def in_blocks(n_blocks, rows=ROWS):
    ends = np.linspace(0, len(rows), n_blocks + 1).astype(int)
    return [rows[a:b] for a, b in pairwise(ends)]


class Lost(OSError):
    pass


@pytest.mark.parametrize("lost_in", range(6))
def test_a_fit_that_is_lost_in_a_late_pass_stays_open_in_the_ledger(lost_in):
    """The check before the payment is one pass, after a look at the first block; the rest is after it."""
    passes = iter(range(100))

    def read():
        number = next(passes)
        for k, block in enumerate(in_blocks(5)):
            if number == lost_in and k == (3 if lost_in else 0):
                raise Lost("the disk is gone")
            yield block

    ledger = PrivacyLedger(epsilon=10.0, simulation=True)
    model = MetricPrivateSynthesizer(1.0, random_state=0, ledger=ledger)
    with pytest.raises(Lost):
        model.fit(Blocks(read))
    assert not hasattr(model, "measure_") and not hasattr(model, "privacy_guarantee_")
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    entries = ledger.entries()
    if lost_in < 2:
        assert len(entries) == 0
        return
    (entry,) = entries
    assert entry.closed is None and entry.epsilon == pytest.approx(1.0)
    assert ledger.remaining[0] == pytest.approx(9.0)
    # Another fit pays again, and is the same as on rows in memory.
    weights = model.fit(Blocks(lambda: iter(in_blocks(5)))).measure_.weights
    assert np.array_equal(weights, MetricPrivateSynthesizer(1.0, random_state=0).fit(ROWS).measure_.weights)
    assert ledger.remaining[0] == pytest.approx(8.0)


class Recorder:
    def __init__(self):
        self.events = []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name, context.max_subtasks))


def told(X):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    recorder = Recorder()
    MetricPrivateSynthesizer(1.0, random_state=0).set_callbacks(recorder).fit(X)
    return recorder.events


def test_passes_are_told_within_the_release():
    events = told(Blocks(in_blocks(50)))
    passes = [event for event in events if event[1] == "pass over blocks"]
    # Private bounds take two passes, the pilot and the counts one each; the one before the payment is not told.
    assert passes == [("begin", "pass over blocks", STEPS_OF_A_PASS), ("end", "pass over blocks", STEPS_OF_A_PASS)] * 4
    begin = events.index(passes[0])
    end = events.index(passes[1])
    assert [event[:2] for event in events[begin + 1 : end]] == [("begin", "step"), ("end", "step")] * STEPS_OF_A_PASS


def test_what_is_told_does_not_depend_on_the_number_of_blocks():
    """Which may come from the number of rows, and that is private."""
    assert told(Blocks(in_blocks(1))) == told(Blocks(in_blocks(7))) == told(Blocks(in_blocks(150)))
    assert not any(event[1] == "pass over blocks" for event in told(ROWS))
