"""A report says no more than what is known: sceptical readers, wrong ledgers, weak numbers, odd texts."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline

from skprivate import MetricPrivatizer, UserLevelMean, UserLevelSGDRegressor
from skprivate.inspection import REPORT_SCHEMA, privacy_report
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, open_release, public_generator

X = public_generator(0).uniform(size=(600, 2))
Y = X @ [1.0, -1.0]
USERS = np.arange(600) // 3


def valid(report):
    facts = json.loads(report.to_json())
    jsonschema.Draft202012Validator(REPORT_SCHEMA).validate(facts)
    return facts


def draw(ledger=None, epsilon=0.5, **how):
    how = {"unit": "row", "adjacency": "add-remove", **how}
    with open_release(epsilon=epsilon, ledger=ledger, **how) as release:
        release.laplace(0.25, sensitivity=1.0, epsilon=epsilon)
    return release.close()


def budget(epsilon=9.0, **terms):
    return PrivacyLedger(epsilon=epsilon, delta=1e-5, **terms)


def test_a_total_that_leaves_the_model_out():
    ledger, other = budget(), budget()
    same = {"unit": "user", "adjacency": "replace-one"}
    draw(ledger, **same)
    model = UserLevelMean(epsilon=1.0).fit(X, user_ids=USERS)
    report = privacy_report(model, ledger=ledger)
    assert report.verdict == "caution"
    assert "UserLevelMean was not charged to the ledger of section 5" in report.findings[0]
    model.set_params(ledger=other).fit(X, user_ids=USERS)
    assert privacy_report(model).verdict == "holds"
    assert privacy_report(model, ledger=ledger).verdict == "caution"
    assert privacy_report(model.set_params(ledger=ledger)).verdict == "caution"  # set, and not fitted again
    for charged, source in ((other, model.privacy_guarantee_), (ledger, draw(ledger, **same))):
        assert privacy_report(source, ledger=charged).verdict == "holds"
        assert "not charged" in privacy_report(source, ledger=budget()).findings[0]


def test_a_step_that_nobody_paid_for():
    ledger = budget()
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(0, 1), ledger=ledger)
    model = make_pipeline(scaler, UserLevelSGDRegressor(epsilon=1.0)).fit(X, Y)
    (said,) = privacy_report(model).findings
    assert "(UserLevelSGDRegressor) was not charged" in said and "Scaler" not in said
    with ledger.reserve(2.0, 2e-6) as part:
        model.set_params(userlevelsgdregressor__ledger=part, privatestandardscaler__ledger=part).fit(X, Y)
    assert privacy_report(model).findings == ()


def test_several_ledgers_have_no_sum():
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(0, 1), ledger=budget())
    model = make_pipeline(scaler, UserLevelSGDRegressor(epsilon=1.0, ledger=budget())).fit(X, Y)
    report = privacy_report(model)
    assert report.verdict == "caution" and "There are 2 ledgers" in report.findings[0]


def test_a_part_that_trusts_nobody_makes_no_local_model():
    local = MetricPrivatizer(epsilon=2.0, metric="l2", bounds=(0, 1)).fit(X)
    assert valid(privacy_report(local))["trust_model"] == "local"
    ledger = budget(unit="row", adjacency="metric: l2")
    local.set_params(ledger=ledger).fit(X).transform(X)
    assert "not charged" not in str(privacy_report(local).findings)
    vote = VotingRegressor([("a", UserLevelSGDRegressor())]).fit(X, Y)
    assert valid(privacy_report(vote))["trust_model"] == "central"


def test_a_guarantee_that_was_typed_is_no_computed_one():
    typed = PrivacyGuarantee(0.1, 0.0, "user", "add-remove")
    report = privacy_report(typed)
    assert report.verdict == "caution" and valid(report)["mechanisms"]["noise"] == "stated"
    assert "Secure" not in report.to_html() and "stated by whoever" in report.findings[0]

    class Release:
        guarantee = typed

    assert privacy_report(Release()).verdict == "caution"
    assert privacy_report(draw()).verdict == "holds"  # its draws are listed


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"), [(80.0, 0.0, "The bound is weak"), (0.5, 0.01, "δ = 0.01 is large")]
)
def test_a_bound_that_bounds_little_is_no_reason_to_sign(epsilon, delta, said):
    model = UserLevelMean().fit(X, user_ids=USERS)
    model.privacy_guarantee_ = replace(model.privacy_guarantee_, epsilon=epsilon, delta=delta, events=())
    report = privacy_report(model)
    assert report.verdict == "caution" and said in report.findings[0]


def test_what_is_spent_is_no_bound_for_who_stops_by_results():
    """A filter bounds where the loss may end; where it stands is one for who does not look, or for pure sums."""
    ledger = budget(4.0)
    draw(ledger)
    assert "whole budget" not in str(privacy_report(ledger).to_dict()["assumptions"])
    ledger = budget(4.0)
    UserLevelMean(epsilon=1.0, ledger=ledger).fit(X, user_ids=USERS)
    (said,) = (text for text in valid(privacy_report(ledger))["assumptions"] if "whole budget" in text)
    assert said.endswith("ε = 4, δ = 10⁻⁵") and "chosen by their results" in said
