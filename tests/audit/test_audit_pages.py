"""Pages of audits: self-contained, escaped, rounded to the safe side, one for every kind of report."""

import re
from dataclasses import fields

import numpy as np
import pytest

from skprivate.audit import (
    DrawAudit,
    EstimatorAudit,
    FiniteAdversaryAuditor,
    LabelAudit,
    ReleaseAudit,
    ViolationReport,
    attack_report,
)
from skprivate.report import audit_page

LABELS = LabelAudit("<b>Model|</b>", 1.0, 1e-6, 0.80006, False, 0.7, 0.5, 0.74, 1000, 1, "drawn", 0.0, 0.95)


def reports():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 300)
    t = rng.normal(size=(300, 1)) + s[:, None]
    auditor = FiniteAdversaryAuditor(assumption="monotone").fit(t, s)
    return [auditor.report(), attack_report(t[:, 0], s, threshold=0.5), attack_report(t[:, 0], s), LABELS]


@pytest.mark.parametrize("k", range(4))
def test_pages_load_nothing_and_hold_what_was_found(k, tmp_path):
    report = reports()[k]
    page = audit_page(report, tmp_path / "page.html", title="Title <i>")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    assert not re.search(r"<script|@import|url\(|https?:|<link|<i>", page) and "Title &lt;i&gt;" in page


def test_a_claim_is_escaped_and_rounded_down():
    page = audit_page(LABELS)
    assert "<b>Model" not in page and "&lt;b&gt;Model|&lt;/b&gt;" in page
    assert "ε ≥ 0.8<" in page and "20.0 points" in page and "not refuted" in page
    # rounded up, 0.80006 would be more than was shown
    assert "0.8001" not in page
    refuted = audit_page(LabelAudit(**{**vars(LABELS), "violated": True, "epsilon_lower_bound": 2.0}))
    assert "The claim is refuted." in refuted and 'class="verdict stop"' in refuted


@pytest.mark.parametrize("kind", [EstimatorAudit, ReleaseAudit, DrawAudit, ViolationReport])
def test_every_audit_of_a_claim_shows_itself(kind):
    # A report of each kind whose further fields say nothing.
    values = dict.fromkeys((field.name for field in fields(kind)), ())
    values |= {"name": "Mean", "claimed_epsilon": 1.0, "claimed_delta": 0.0, "failures": ()}
    values |= {"epsilon_lower_bound": 0.50009, "epsilon_attained": 0.50009, "violated": False}
    values |= {"confidence": 0.95, "n_runs": 40}
    audit = kind(**{field.name: values[field.name] for field in fields(kind)})
    page = audit_page(audit)
    assert "Mean" in page and "ε ≥ 0.5" in page and "0.5001" not in page and "not refuted" in page
    assert ("if draws have the laws" in page) == (kind is DrawAudit)
