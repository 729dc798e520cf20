"""A report says no more than what is known: sceptical readers, wrong ledgers, weak numbers, odd texts."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from convert_report import model_card, registry_entry
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline

from skprivate import MetricPrivatizer, UserLevelMean, UserLevelSGDRegressor
from skprivate.audit import audit_estimator, find_violation
from skprivate.audit.claims import BlackBoxEvidence, EstimatorAudit
from skprivate.preprocessing import PrivateStandardScaler
from skprivate.privacy import (
    ApproximateEvent,
    LaplaceEvent,
    PrivacyEvent,
    PrivacyGuarantee,
    PrivacyLedger,
    open_release,
    public_generator,
)
from skprivate.report import REPORT_SCHEMA, privacy_report
from skprivate.report._facts import HOLDS, LOOK, QUESTIONS, STOP, event_in_words, not_protected

X = public_generator(0).uniform(size=(600, 2))
Y = X @ [1.0, -1.0]
USERS = np.arange(600) // 3
BASIC = {
    "name": "Mean dose",
    "curators": {"City Hospital": "Nonprofit"},
    "description": "Means.",
    "intended_use": "Planning.",
    "region": "Norway",
    "publication_date": "2026-11-22",
    "authors": ["A. Lovelace"],
}


#: What people have to say before a report is green.
ANSWERS = dict.fromkeys(QUESTIONS, "said")
ANSWERED = {"answers": ANSWERS, "title": "Doses"}


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


@pytest.mark.slow
def test_a_total_that_leaves_the_model_out():
    ledger, other = budget(), budget()
    same = {"unit": "user", "adjacency": "replace-one"}
    draw(ledger, **same)
    model = UserLevelMean(epsilon=1.0).fit(X, user_ids=USERS)
    report = privacy_report(model, ledger=ledger, **ANSWERED)
    assert report.verdict == LOOK
    assert "UserLevelMean was not charged to the ledger of section 5" in report.findings[0]
    model.set_params(ledger=other).fit(X, user_ids=USERS)
    assert privacy_report(model, **ANSWERED).verdict == HOLDS
    assert privacy_report(model, ledger=ledger, **ANSWERED).verdict == LOOK
    model.set_params(ledger=ledger)  # set, and not fitted again
    assert privacy_report(model, **ANSWERED).verdict == LOOK
    for charged, source in ((other, model.privacy_guarantee_), (ledger, draw(ledger, **same))):
        assert privacy_report(source, ledger=charged, **ANSWERED).verdict == HOLDS
        assert "not charged" in privacy_report(source, ledger=budget()).findings[0]


@pytest.mark.parametrize("charged", [False, True])
@pytest.mark.parametrize("n_open", [0, 1, 9])
def test_what_nobody_has_said_is_a_reason_to_wait(charged, n_open):
    ledger = budget() if charged else None
    answers = {name: "said" if k >= n_open else "  " for k, name in enumerate(QUESTIONS)}
    report = privacy_report(UserLevelMean(ledger=ledger).fit(X, user_ids=USERS), title="Doses", answers=answers)
    said = {0: [], 1: ["1 question is open: see section 8."], 9: ["9 questions are open: see section 8."]}
    expected = [] if ledger else ["No ledger was given: nothing is known of other releases from the same data."]
    assert list(report.findings) == expected + said[n_open]
    assert report.verdict == (LOOK if report.findings else HOLDS)
    assert all(text in report.to_html() for text in report.findings)


def test_other_entries_of_the_ledger_are_said_in_the_head():
    ledger = budget()
    first, second = (UserLevelMean(epsilon=0.5, ledger=ledger).fit(X, user_ids=USERS) for _ in range(2))
    for model in (first, second):
        (finding,) = privacy_report(model, **ANSWERED).findings
        assert finding.startswith("The ledger has 1 more entry. With all of them ε = 0.7")
        assert "counted nowhere" in finding
    assert privacy_report(ledger, **ANSWERED).findings == ()


def test_a_reservation_is_no_entry_beside_the_model_that_it_pays_for():
    ledger = budget(unit="user", adjacency="replace-one")
    with ledger.reserve(epsilon=1.0, delta=2e-6) as part:
        model = UserLevelMean(epsilon=0.5, ledger=part).fit(X, user_ids=USERS)
    assert privacy_report(model, **ANSWERED).findings == ()
    with ledger.parallel(epsilon=1.0, delta=2e-6, n_parts=2, because="halves") as parts:
        for k in (0, 1):
            model = UserLevelMean(epsilon=0.5, ledger=parts.only(k)).fit(X, user_ids=USERS)
    (finding,) = privacy_report(model, **ANSWERED).findings
    assert finding.startswith("The ledger has 2 more entries. ")


def test_units_that_are_less_than_a_person_are_said_in_the_head():
    for unit, text in (("row", "A row is protected, not a person"), ("label", "A label is protected, not a person")):
        assert any(text in each for each in privacy_report(draw(unit=unit), **ANSWERED).findings)
    assert not any("not a person" in each for each in privacy_report(draw(unit="user"), **ANSWERED).findings)


def test_a_step_of_a_pipeline_is_not_the_pipeline():
    scaler = PrivateStandardScaler(epsilon=1.0, bounds=(0, 1))
    model = make_pipeline(scaler, UserLevelSGDRegressor()).fit(X, Y)
    assert any("report the whole" in each for each in privacy_report(model[0], **ANSWERED).findings)
    assert not any("report the whole" in each for each in privacy_report(model, **ANSWERED).findings)


def test_nothing_is_claimed_of_simulated_noise():
    page = privacy_report(UserLevelMean(random_state=0).fit(X, user_ids=USERS)).to_html()
    assert "nothing below holds" in page and "of guesses would be right at most" in page
    assert "random bits are not known" not in page


@pytest.mark.slow
def test_a_step_that_nobody_paid_for():
    ledger = budget()
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(0, 1), ledger=ledger)
    model = make_pipeline(scaler, UserLevelSGDRegressor(epsilon=1.0)).fit(X, Y)
    said = [each for each in privacy_report(model, **ANSWERED).findings if "not charged" in each]
    assert len(said) == 1 and "(UserLevelSGDRegressor)" in said[0] and "Scaler" not in said[0]
    with ledger.reserve(2.0, 2e-6) as part:
        model.set_params(userlevelsgdregressor__ledger=part, privatestandardscaler__ledger=part).fit(X, Y)
    said = privacy_report(model, **ANSWERED).findings  # the first fit of the scaler, and that a row is no person
    assert len(said) == 2 and "1 more entry" in said[0] and "not charged" not in "".join(said)


@pytest.mark.slow
def test_several_ledgers_have_no_sum():
    scaler = PrivateStandardScaler(epsilon=0.5, bounds=(0, 1), ledger=budget())
    model = make_pipeline(scaler, UserLevelSGDRegressor(epsilon=1.0, ledger=budget())).fit(X, Y)
    report = privacy_report(model)
    assert report.verdict == LOOK and "There are 2 ledgers" in report.findings[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning")
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
    assert report.verdict == LOOK and valid(report)["mechanisms"]["noise"] == "stated"
    assert "Secure" not in report.to_html() and "stated by whoever" in report.findings[0]

    class Release:
        guarantee = typed

    assert privacy_report(Release()).verdict == LOOK
    paid = budget()
    assert privacy_report(draw(paid), ledger=paid, **ANSWERED).verdict == HOLDS  # its draws are listed


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"), [(80.0, 0.0, "The bound is weak"), (0.5, 0.01, "δ = 0.01 is large")]
)
def test_a_bound_that_bounds_little_is_no_reason_to_sign(epsilon, delta, said):
    model = UserLevelMean().fit(X, user_ids=USERS)
    model.privacy_guarantee_ = replace(model.privacy_guarantee_, epsilon=epsilon, delta=delta, events=())
    report = privacy_report(model)
    assert report.verdict == LOOK and said in report.findings[0]


def test_what_is_spent_is_no_bound_for_who_stops_by_results():
    """A filter bounds where the loss may end; where it stands is one for who does not look, or for pure sums."""
    ledger = budget(4.0)
    draw(ledger)
    assert "whole budget" not in str(privacy_report(ledger).to_dict()["assumptions"])
    ledger = budget(4.0)
    UserLevelMean(epsilon=1.0, ledger=ledger).fit(X, user_ids=USERS)
    (said,) = (text for text in valid(privacy_report(ledger))["assumptions"] if "whole budget" in text)
    assert said.endswith("ε = 4, δ = 10⁻⁵") and "chosen by their results" in said


def audit_of(name="UserLevelMean", family="approximate", **how):
    plain = {
        "claimed_epsilon": 1.0,
        "claimed_delta": 1e-6,
        "unit": "user",
        "adjacency": "replace-one",
        "method": "black-box",
        "epsilon_lower_bound": 0.9996,
        "p_value": 0.5,
        "confidence": 0.99999999,
        "evidence": BlackBoxEvidence(family, 1, 60, 1.0),
    }
    return EstimatorAudit(name=name, **{**plain, **how})


def audited(audit):
    model = UserLevelMean(epsilon=1.0, delta=1e-6).fit(X, user_ids=USERS)
    model.privacy_guarantee_ = replace(model.privacy_guarantee_, epsilon=1.0, delta=1e-6)
    return privacy_report(model, audit=audit)


def all_texts(report):
    return (
        report.to_html().partition("<script")[0],
        model_card(report.to_dict()),
        str(registry_entry(report.to_dict(), **BASIC)),
    )


def test_an_audit_is_no_stronger_in_words_than_in_numbers():
    report = audited(audit_of())
    assert not any("audit" in text for text in report.findings)
    for seen in all_texts(report):
        assert "≥ 0.9996 " in seen and "confidence 0.999999" in seen and "not refuted" in seen
    # A bound among Gaussian mechanisms above the claim refutes nothing by itself: no red bar, no "between the numbers".
    report = audited(audit_of(epsilon_lower_bound=1.2, family="gaussian"))
    for seen in all_texts(report):
        assert "among mechanisms with Gaussian noise" in seen and "between the two numbers" not in seen
    assert 'class="fill broken"' not in report.to_html()
    report = audited(audit_of(p_value=1e-12))
    assert report.verdict == STOP and "the claim as a whole" in report.to_html()
    assert 'class="fill broken"' in report.to_html()


def test_an_audit_of_another_model_or_claim_says_so():
    for audit in (audit_of("Ridge"), audit_of(unit="row"), audit_of(claimed_epsilon=2.0)):
        report = audited(audit)
        assert report.verdict == LOOK and "another claim" in report.findings[0]
        assert all("nother" in seen for seen in all_texts(report))


def test_replays_and_searches_are_shown_too():
    model = UserLevelMean(epsilon=1.0).fit(X[:30], user_ids=np.arange(30))
    how = {"fit_params": {"user_ids": np.arange(30)}, "n_neighbours": 2, "random_state": 0}
    replay = audit_estimator(UserLevelMean(epsilon=1.0), X[:30], guarantee=model.privacy_guarantee_, **how)
    report = privacy_report(model, audit=replay)
    (found,) = valid(report)["audits"]
    assert found["kind"] == "draws" and found["same_claim"] and "audit" not in str(report.findings)
    assert (
        f"replayed on {replay.evidence.n_neighbours} neighbours" in report.to_html()
        and "p-value" not in report.to_html()
    )
    broken = replace(replay, evidence=replace(replay.evidence, failures=("half the noise",)))
    report = privacy_report(model, audit=[broken])
    assert report.verdict == STOP and "Wrong: half the noise." in report.to_html()
    search = find_violation(lambda x: 9.0 * x, pairs=[((0.0,), (1.0,))], epsilon=0.5, max_pairs=1, random_state=0)
    report = privacy_report(draw(), audit=search)
    assert report.verdict == STOP and valid(report)["audits"][0]["kind"] == "runs"
    assert "a search among 1 pairs of inputs" in report.to_html()


METRIC = PrivacyGuarantee(2.0, 0.0, "row", "metric", metric="l2", events=((LaplaceEvent(2.0), 1),))


def test_epsilon_per_unit_of_distance_says_so():
    assert "ε = 2, δ = 0 for one row (per unit of distance, l2)" in str(privacy_report(METRIC))
    # 0.9996 is no distance of 1: what holds there does not hold here.
    report = privacy_report(METRIC, distances=[0.9996])
    for seen in all_texts(report):
        assert "0.999" in seen and "distance of 1 " not in seen and "distance 1<" not in seen


@pytest.mark.parametrize("distances", [[], 3.0, "12", [-1.0], [np.inf], ["a"], [None]], ids=repr)
def test_distances_that_are_none(distances):
    with pytest.raises((TypeError, ValueError), match="distances must be"):
        privacy_report(METRIC, distances=distances)
    with pytest.raises(ValueError, match="distances must be None where"):
        privacy_report(draw(), distances=[1.0])


def test_every_event_has_a_name_and_a_price():
    kinds = PrivacyEvent.__subclasses__()
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    for kind in (kind for kind in kinds if not kind.__subclasses__()):
        event = kind(0.5, 1e-4) if kind is ApproximateEvent else kind(0.5)
        name, price = event_in_words(event.to_dict())
        assert name != kind.__name__ and "= " in price, kind


def test_what_a_unit_leaves_unprotected():
    label = " ".join(not_protected(PrivacyGuarantee(1.0, 0.0, "label", "replace-one")))
    assert "for k labels of one person the bound is kε" in label
    assert "The number of rows" in " ".join(not_protected(METRIC))  # a row is exchanged there, and never added


@pytest.mark.parametrize("mark", ["\u202e", "\u2067", "\u200f", "\x1b"])
def test_no_text_turns_the_rest_of_a_line_round(mark):
    ledger = budget().annotated(f"a{mark}note")
    report = privacy_report(
        draw(ledger, label=f"b{mark}"), ledger=ledger, title=f"c{mark}", answers={"bias": f"d{mark}"}
    )
    page = report.to_html().partition("<script")[0]
    assert mark not in page and f"a\\u{ord(mark):04x}note" in page
    assert mark not in model_card(report.to_dict())
    valid(report)


def test_texts_that_are_none():
    with pytest.raises(TypeError, match="title must be a string or None, got 'int'"):
        privacy_report(draw(), title=3)
    report = privacy_report(draw(), answers={"purpose": "  ", "bias": "none"})
    assert report.to_html().count("not answered") == 9  # the title, too
    assert model_card(report.to_dict()).count("[More Information Needed]") == 11


def test_purposes_beyond_the_colours_are_one():
    ledger = PrivacyLedger(epsilon=9.0)
    for k in range(9):
        draw(ledger.annotated(f"purpose {k}"), epsilon=(k + 1) / 8)
    page = privacy_report(ledger).to_html().partition("<script")[0]
    assert page.count('class="fill') == 4 and "6 others: 6 ×" in page and 'class="key c4"' not in page
    assert "purpose 8: 1 ×" in page and "purpose 0: 1 ×" not in page
    assert len(privacy_report(ledger).to_dict()["ledgers"][0]["shares"]) == 9
