"""The demonstration runs and says what it must."""

import pytest

from skprivate import __main__ as demo


@pytest.mark.parametrize("seed", [None, 0])
def test_demo(seed, capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "EPSILONS", (0.5, 3.0))
    picture = tmp_path / "curve.png"
    arguments = ["--picture", str(picture), "--jobs", "1"]
    assert demo.main(arguments if seed is None else [*arguments, "--seed", str(seed)]) == 0
    text = capsys.readouterr().out
    for words in ("111,622 flights", "(0.5, 1e-06)-DP", "least squares", "in 11 entries", "refused before it draws"):
        assert words in text
    assert ("not valid for release" in text) is (seed is not None)
    assert picture.read_bytes().startswith(b"\x89PNG")
