"""Pages of audits: self-contained, escaped, rounded to the safe side, one for every kind of report."""

import re
from dataclasses import replace

import numpy as np
import pytest

from skprivate.audit import FiniteAdversaryAuditor, attack_report
from skprivate.audit.claims import BlackBoxEvidence, EstimatorAudit, ReplayEvidence, ViolationReport
from skprivate.audit.claims._runs import Claim
from skprivate.audit.claims._violation import SearchCounts
from skprivate.report import audit_page

CLAIM = ("<b>Model|</b>", 1.0, 1e-6, "user", "replace-one")
RUNS = EstimatorAudit(*CLAIM, "black-box", 0.80006, 0.5, 0.95, BlackBoxEvidence("pure", 1, 40, 1.0))
DRAWS = EstimatorAudit(*CLAIM, "replay", 0.80006, 0.5, 1 - 1e-6, ReplayEvidence(3, 2, 0.9, (), (), ()))
COUNTS = SearchCounts(40, 3, 2, 30, 1.0)
SEARCH = ViolationReport("<b>Model|</b>", Claim(1.0), None, 0.5, 0.80006, 0.95, 1.0, None, (), COUNTS)
CLAIMS = [RUNS, DRAWS, SEARCH]


def reports():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 300)
    t = rng.normal(size=(300, 1)) + s[:, None]
    auditor = FiniteAdversaryAuditor(assumption="monotone").fit(t, s)
    return [auditor.report(), attack_report(t[:, 0], s, threshold=0.5), attack_report(t[:, 0], s), *CLAIMS]


@pytest.mark.parametrize("k", range(6))
def test_pages_load_nothing_and_hold_what_was_found(k, tmp_path):
    report = reports()[k]
    page = audit_page(report, tmp_path / "page.html", title="Title <i>")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    assert not re.search(r"<script|@import|url\(|https?:|<link|<i>", page) and "Title &lt;i&gt;" in page
    assert "What was wrong" not in page and "<li>" in page.partition("What it does not say")[2]


@pytest.mark.parametrize("audit", CLAIMS, ids=lambda audit: getattr(audit, "method", "search"))
def test_a_claim_is_escaped_and_rounded_down(audit):
    page = audit_page(audit)
    assert "<b>Model" not in page and "&lt;b&gt;Model|&lt;/b&gt;" in page
    assert "ε ≥ 0.8<" in page and "not refuted" in page
    # rounded up, 0.80006 would be more than was shown
    assert "0.8001" not in page
    assert ("if draws have the laws" in page) == (audit is DRAWS)
    broken = replace(DRAWS.evidence, failures=("wrong",))
    refuted = replace(audit, evidence=broken) if audit is DRAWS else replace(audit, p_value=1e-9)
    assert refuted.violated and "The claim is refuted." in audit_page(refuted)
    assert 'class="verdict stop"' in audit_page(refuted)
    assert ("<h2>What was wrong</h2>" in audit_page(refuted)) == (audit is DRAWS)
