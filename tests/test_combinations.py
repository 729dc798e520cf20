"""Every line of `docs/combinations.md` is tried, and the page says what was tried."""

import combinations as table
import pytest


@pytest.mark.parametrize("line", table.LINES, ids=lambda line: line.name)
def test_what_happens(line):
    if line.needs:
        pytest.importorskip(line.needs)
    line.check()


def test_the_page_is_made_from_the_lines():
    names = [line.name for line in table.LINES]
    assert len(names) >= 40 and len(set(names)) == len(names)
    assert table.PAGE.read_text("utf-8") == table.page(), "run python tests/combinations.py"
