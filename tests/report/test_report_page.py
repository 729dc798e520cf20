"""The page: complete, escaped, alone; in a browser, wide enough for a phone and without a network."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, open_release
from skprivate.report import privacy_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NASTY = "</script><script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>\"&\ud800\u2028"
QUESTIONS = [
    "What is protected?",
    "How strong is the protection?",
    "Under which assumptions does it hold?",
    "What was drawn, and with which noise?",
    "What has been spent in all?",
    "Was it tested?",
    "What is not protected?",
    "What must the publisher answer?",
    "What computed this?",
]


class Reader(HTMLParser):
    """Elements and their attributes, and all text that a reader sees."""

    def __init__(self, page):
        super().__init__()
        self.found, self.seen, self._hidden = [], [], 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self._hidden += tag in ("script", "style", "title")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("script", "style", "title")

    def handle_data(self, data):
        if not self._hidden:
            self.seen.append(data)


def a_report(text="The second look", n=3, *, budget=4.0, **how):
    ledger = PrivacyLedger(epsilon=budget, delta=1e-6).annotated(text)
    for _ in range(n):
        with open_release(
            epsilon=0.25,
            unit="user",
            adjacency="replace-one",
            ledger=ledger,
            label=f"Mean of {text}",
            assumptions=(f"the bounds of {text} are public",),
            theorem=text,
        ) as release:
            release.laplace(0.3, sensitivity=0.1, epsilon=0.25)
    return privacy_report(release.close(), ledger=ledger, title=text, answers={"bias": text, "contact": "us"}, **how)


def test_the_questions_come_in_order():
    page = a_report().to_html()
    headings = re.findall(r"<h2><span>(\d)</span>(.*?)</h2>", page)
    assert headings == [(str(k), question) for k, question in enumerate(QUESTIONS, 1)]
    seen = " ".join(" ".join(Reader(page).seen).split())
    assert "ε = 0.25" in seen and "Laplace noise on one number" in seen and "not answered" in seen
    assert "all rows of one user are exchanged for those of any other user" in seen


def test_the_page_is_alone():
    """Nothing that a browser would fetch, and a policy that forbids what was forgotten."""
    elements = Reader(a_report().to_html()).found
    assert not {tag for tag, _ in elements} & {"link", "img", "iframe", "object", "embed", "base", "form", "a"}
    assert not [a for _, a in elements if {"src", "href", "srcset", "action"} & a.keys()]
    assert [a["type"] for tag, a in elements if tag == "script"] == ["application/json"]
    (policy,) = (a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert not re.search(r"@import|url\(|https?:", a_report().to_html())


def test_texts_are_escaped_everywhere(tmp_path):
    clean, report = Reader(a_report(details=True).to_html()), a_report(NASTY, details=True)
    page = report.to_html(tmp_path / "nasty.html")
    dirty = Reader(page)
    assert [tag for tag, _ in dirty.found] == [tag for tag, _ in clean.found]
    assert [sorted(a) for _, a in dirty.found] == [sorted(a) for _, a in clean.found]
    shown = NASTY.encode("utf-8", "backslashreplace").decode()
    assert "".join(dirty.seen).count(shown) >= 5 + 2 * 3  # heading, texts, and two cells an entry
    twin = re.search(r'<script type="application/json" id="privacy-report">(.*?)</script>', page, re.DOTALL)[1]
    assert json.loads(twin) == report.to_dict()
    assert (tmp_path / "nasty.html").read_text("utf-8")  # what has no encoding is written all the same
    assert html.escape("<img") in page


def test_notebooks_show_the_page_in_a_frame():
    inside = re.fullmatch(r'<iframe srcdoc="(.*)" style="[^"]*"></iframe>', a_report(NASTY)._repr_html_(), re.DOTALL)
    assert html.unescape(inside[1]).startswith("<!DOCTYPE html>")


def test_many_entries_are_folded():
    assert "entries</summary>" not in a_report(n=3).to_html()
    assert "<details><summary>All 26 entries</summary>" in a_report(n=26, budget=10.0).to_html()


def browse(page, *options):
    """What a headless browser makes of a page; every host leads nowhere."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options]
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    done = subprocess.run([*command, offline, page.as_uri()], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout.decode()


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("text", ["The second look", "a_name_without_spaces" * 12], ids=["words", "one_word"])
def test_in_a_browser_the_page_fits_its_window(tmp_path, width, text):
    page = a_report(text, details=True).to_html()
    # A headless window is not narrower than 500 pixels: the page lies in a frame of the width.
    measure = (
        "<script>addEventListener('load',()=>{const d=document.documentElement;"
        "parent.postMessage([innerWidth,d.scrollWidth,document.querySelectorAll('svg').length,"
        "d.scrollHeight].join(' '),'*')})</script>"
    )
    allowed = page.replace("style-src 'unsafe-inline'", "style-src 'unsafe-inline'; script-src 'unsafe-inline'")
    (tmp_path / "inner.html").write_text(allowed.replace("</body>", measure + "</body>"), "utf-8", "backslashreplace")
    outer = (
        "<!DOCTYPE html><body style='margin:0'><script>addEventListener('message',"
        "e=>{document.title=e.data})</script>"
        f"<iframe src='inner.html' style='border:0;width:{width}px;height:900px'></iframe>"
    )
    (tmp_path / "outer.html").write_text(outer, "utf-8")
    dom = browse(
        tmp_path / "outer.html", f"--window-size={max(width, 600)},900", "--virtual-time-budget=4000", "--dump-dom"
    )
    inner, scroll, charts, height = map(int, re.search(r"<title>([\d ]+)</title>", dom)[1].split())
    assert inner == width and scroll <= width, f"{scroll} pixels wide in a window of {width}"
    assert charts == 3 and height > 2000


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_the_page_is_drawn(tmp_path, scheme):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    a_report().to_html(tmp_path / "report.html")
    browse(
        tmp_path / "report.html",
        f"--screenshot={tmp_path / 'shot.png'}",
        "--window-size=1280,2600",
        *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []),
    )
    shot = pyplot.imread(tmp_path / "shot.png")[..., :3]
    assert shot.shape[:2] == (2600, 1280)
    paper = shot[1300, 300]
    assert (paper > 0.9).all() if scheme == "light" else (paper < 0.25).all()
    ink = abs(shot - paper).max(axis=2) > 0.3
    assert 0.01 < ink.mean() < 0.2


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_in_a_browser_no_text_becomes_a_script(tmp_path):
    report = a_report("<script>document.title='broken'</script>")
    page = report.to_html().replace("default-src 'none'; style-src 'unsafe-inline'", "default-src * 'unsafe-inline'")
    (tmp_path / "report.html").write_text(page, "utf-8")
    assert "<title>broken" not in browse(tmp_path / "report.html", "--virtual-time-budget=1000", "--dump-dom")


def test_a_bare_guarantee_has_a_page_too():
    seen = " ".join(Reader(privacy_report(PrivacyGuarantee(0.5, 0.0, "label", "replace-one")).to_html()).seen)
    assert "Everything in a row but its label" in seen and "No ledger was given" in seen
