"""Every line of `docs/guide/combinations.md` is tried, and the page says what was tried."""

import helpers.combinations as table
import pytest
import sklearn
from sklearn.utils import get_tags
from test_common import ESTIMATORS

SCIKIT_LEARN = tuple(map(int, sklearn.__version__.split(".")[:2]))


@pytest.mark.take_turns(3)
@pytest.mark.parametrize("line", table.LINES, ids=lambda line: line.name)
def test_what_happens(line):
    if line.since > SCIKIT_LEARN:
        pytest.skip("needs a newer scikit-learn")
    if line.needs:
        pytest.importorskip(line.needs)
    line.check()


def test_the_page_is_made_from_the_lines():
    names = [line.name for line in table.LINES]
    assert len(names) >= 40 and len(set(names)) == len(names)
    assert table.PAGE.read_text("utf-8") == table.page(), "run python tests/helpers/combinations.py"


def test_who_is_excused_from_scores():
    tags = {type(each).__name__: get_tags(each) for each in ESTIMATORS}
    excused = {
        name
        for name, of in tags.items()
        if any(kind is not None and kind.poor_score for kind in (of.classifier_tags, of.regressor_tags))
    }
    assert excused == set(table.POOR_SCORES)
