"""The facts of a report are those of the guarantee, the ledger and the audit, and nothing else."""

import json
import math

import jsonschema
import numpy as np
import pandas as pd
import pytest
from convert_report import model_card
from sklearn.pipeline import make_pipeline

from skprivate import (
    MetricPrivateSynthesizer,
    MetricPrivatizer,
    NoGuaranteeError,
    PrivateTableSynthesizer,
    UserLevelMean,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    audit_estimator,
    guarantee_of,
    make_private_pipeline,
    to_release,
)
from skprivate._messages import rounded_down, small
from skprivate.preprocessing import PrivateStandardScaler, PublicScaler
from skprivate.privacy import Adjacency, PrivacyGuarantee, PrivacyLedger, PrivacyUnit, open_release, public_generator
from skprivate.report import REPORT_SCHEMA, PrivacyReport, _model_facts, privacy_report
from skprivate.report._facts import HOLDS, LOOK, STOP, percent
from skprivate.report._other_facts import spent_after_each

X = public_generator(0).uniform(size=(600, 2))
Y = X @ [1.0, -1.0]
USERS = np.arange(600) // 3


def valid(report):
    """Facts that JSON and the schema hold."""
    facts = json.loads(report.to_json())
    jsonschema.Draft202012Validator.check_schema(dict(REPORT_SCHEMA))
    jsonschema.Draft202012Validator(REPORT_SCHEMA).validate(facts)
    assert facts == report.to_dict()
    return facts


def fill(ledger, *prices, unit="row", adjacency="add-remove", **how):
    for price in prices:
        with open_release(epsilon=price, unit=unit, adjacency=adjacency, ledger=ledger, label="Mean", **how) as release:
            release.laplace(0.25, sensitivity=1.0, epsilon=price)


def every_guarantee():
    for unit in PrivacyUnit:
        for adjacency in Adjacency:
            metric = "l2" if adjacency is Adjacency.METRIC else None
            some = ((0.0, 0.0), (0.7, 0.0), (900.0, 0.1), (math.inf, 0.0)) if unit == "row" else ((2.0, 1e-6),)
            for epsilon, delta in some:
                yield PrivacyGuarantee(epsilon, delta, unit, adjacency, metric=metric)


@pytest.mark.take_turns(3)
@pytest.mark.parametrize("guarantee", list(every_guarantee()), ids=str)
def test_every_kind_of_guarantee_has_a_valid_report(guarantee):
    report = privacy_report(guarantee)
    facts = valid(report)
    assert facts["protection"]["unit"] == guarantee.unit and facts["strength"]["delta"] == guarantee.delta
    assert facts["strength"]["epsilon"] == (None if math.isinf(guarantee.epsilon) else guarantee.epsilon)
    assert report.verdict == (STOP if math.isinf(guarantee.epsilon) else LOOK)  # written by hand
    metric = guarantee.metric is not None
    assert facts["strength"]["definition"] == ("metric" if metric else "approximate" if guarantee.delta else "pure")
    for risk in facts["strength"]["risk"]:
        expected = guarantee.risk(0.5, risk["fpr"], distance=risk["distance"])
        assert (risk["tpr"], risk["advantage"]) == (expected.tpr, expected.advantage)
        for belief in risk["posterior"]:
            alone = guarantee.risk(belief["prior"], risk["fpr"], distance=risk["distance"])
            assert belief["at_most"] == alone.posterior
    assert str(report) and report.to_html() and model_card(report.to_dict())


def test_pure_risk_against_randomised_response():
    """For ε alone the best attack is that on randomised response: TPR = min(e^ε·f, 1 − e^{−ε}(1 − f))."""
    facts = valid(privacy_report(PrivacyGuarantee(1.3, 0.0, "row", "add-remove")))
    curve = facts["strength"]["trade_off"][0]
    rates = np.array(curve["fpr"])
    exact = np.minimum(np.exp(1.3) * rates, 1 - np.exp(-1.3) * (1 - rates))
    np.testing.assert_allclose(curve["tpr"], exact, rtol=1e-12, atol=1e-12)
    assert (np.array(curve["tpr"]) >= exact * (1 - 1e-15)).all()
    assert percent(np.exp(1.3) * 0.01) in facts["protection"]["example"]


def test_what_was_drawn_says_more_than_epsilon_and_delta():
    model = UserLevelSGDRegressor(epsilon=1.0, radius=2.0).fit(X, Y, user_ids=USERS)
    guarantee = model.privacy_guarantee_
    facts = valid(privacy_report(model, title="Delays"))
    assert facts["strength"]["risk_from"] == "events" and facts["title"] == "Delays"
    counts = [event["count"] for event in facts["mechanisms"]["events"]]
    assert counts == [count for _, count in guarantee.events]
    assert facts["mechanisms"]["noise"] == "secure" and facts["assumptions"] == list(guarantee.assumptions)
    bare = valid(privacy_report(PrivacyGuarantee(guarantee.epsilon, guarantee.delta, "user", "replace-one")))
    assert bare["strength"]["risk_from"] == "epsilon and delta"
    assert facts["strength"]["risk"][1]["tpr"] < 0.8 * bare["strength"]["risk"][1]["tpr"]


def test_simulated_noise_stops_a_report():
    model = UserLevelMean(random_state=0).fit(X, user_ids=USERS)
    report = privacy_report(model)
    assert report.verdict == STOP and report.findings[0].startswith("Simulated noise")
    assert valid(report)["mechanisms"]["noise"] == "simulated"
    page = report.to_html()
    assert "Not for release." in page and "SIMULATED" in page
    assert "Not for release." in model_card(report.to_dict())
    assert "Not for release" not in privacy_report(UserLevelMean().fit(X, user_ids=USERS)).to_html()


def test_a_report_shows_units_schema_warnings_and_what_steps_do():
    """The officer's questions: how many, what was declared, what was warned of, in words without Python."""
    X = pd.DataFrame({"age": [30.0, np.nan] * 100, "ward": ["east", "west"] * 100, "id": range(200)})
    schema = {"age": "number", "ward": ["east", "west"], "id": "drop"}
    model = make_private_pipeline(UserLevelSGDRegressor(), schema, epsilon=1.0)
    with pytest.warns(UserWarning) as seen:
        model.fit(X, X["id"] / 200, user_ids=X["id"] // 2)
    report = privacy_report(model, title="Delays")
    facts, page = valid(report), report.to_html().partition("<script")[0]
    assert facts["protection"]["n_units"] == 100 and "100 users" in page
    assert "1/10\u202f000 of one over the number of users" in page
    assert [(each["column"], each["declared"], each["values"]) for each in facts["declared"]] == [
        ("age", "number, limits not declared", []),
        ("ward", "list of values", ["east", "west"]),
        ("id", "left out", []),
    ]
    assert {str(each.message) for each in seen} == {each["text"] for each in facts["fit_warnings"]}
    assert facts["steps"][1]["does"].startswith("makes numbers") and facts["steps"][1]["columns"] == ["age"]
    assert facts["strength"]["risk"][0]["best_guess"] == guarantee_of(model).risk(0.5).best_guess


def test_a_report_finds_the_ledger_of_a_pipeline_whose_model_alone_draws():
    """It was looked for in the steps, which keep none of it."""
    X = pd.DataFrame({"age": np.arange(3000.0) % 50, "ward": ["east", "west"] * 1500})
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, unit="row")
    schema = {"age": "number", "ward": ["east", "west"]}
    model = make_private_pipeline(UserLevelSGDRegressor(delta=1e-7), schema, epsilon=1.0, ledger=ledger).fit(
        X, X["age"]
    )
    report = privacy_report(model, title="Ages")
    assert len(valid(report)["ledgers"]) == 1
    assert not any("No ledger" in text or "not charged" in text for text in report.findings)


def test_a_delta_at_the_limit_is_not_too_large():
    for delta, n_found in ((1e-6, 0), (1.01e-6, 1)):
        facts = {"protection": {"n_units": 10_000, "unit": "label"}, "strength": {"delta": delta}}
        found = _model_facts.model_findings(facts, (), titled=True)
        assert sum("δ" in each[1] for each in found) == n_found


def test_a_delta_of_a_tenth_of_one_over_the_units_has_to_be_looked_at():
    for delta, level in ((1e-7, None), (1e-4, "note"), (1e-3, LOOK)):
        model = UserLevelMean(delta=delta, tau=1.0).fit(X, user_ids=USERS)
        found = [
            each for each in privacy_report(model).to_dict()["findings"] if "one over their number" in each["text"]
        ]
        assert [each["level"] for each in found] == ([] if level is None else [level])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("bounds", "values"),
    [("private", []), ((0, 1), ["0", "1"]), (([0, 0], [1, 1]), ["0", "1"]), ({0: (0, 1), 1: (0, 1)}, ["0", "1"])],
    ids=["private", "pair", "sides", "mapping"],
)
def test_limits_are_shown_in_every_form_in_which_they_are_declared(bounds, values):
    model = MetricPrivateSynthesizer(3.0, bounds=bounds).fit(X)
    assert [each["values"] for each in valid(privacy_report(model))["declared"]] == [values, values]


@pytest.mark.filterwarnings("ignore")
def test_a_report_shows_what_was_declared_at_the_fit():
    X = pd.DataFrame({"age": [30.0, 40.0] * 500, "ward": ["east", "west"] * 500})
    schema = {"age": (0, 99), "ward": "category"}
    model = make_private_pipeline(UserLevelSGDClassifier(classes=[0, 1]), schema, epsilon=3.0).fit(X, [0, 1] * 500)
    facts = valid(privacy_report(model))
    model["columns"].named_transformers_["numbers"][-1].set_params(limits={0: (5, 6)})
    model["model"].set_params(classes=[5, 6])
    assert valid(privacy_report(model))["declared"] == facts["declared"]
    assert [(each["column"], each["declared"], each["values"]) for each in facts["declared"]] == [
        ("age", "limits", ["0", "99"]),
        ("ward", "category, values not declared", []),
        ("the target", "list of values", ["0", "1"]),
    ]
    assert "found privately" in " ".join(each["does"] for each in facts["steps"])


@pytest.mark.filterwarnings("ignore")
def test_a_report_shows_the_schema_of_a_table():
    X = pd.DataFrame({"age": [30.0, 40.0] * 50, "ward": ["east", "west"] * 50, "id": range(100)})
    X["sex"], X["day"], X["note"] = pd.Categorical(["f", "m"] * 50), pd.Timestamp("2026-01-01"), ["a", "b"] * 50
    schema = {"age": (0, 99), "ward": ["east", "west"], "id": "drop", "note": "category"}
    model = PrivateTableSynthesizer(schema=schema).fit(X)
    model.set_params(schema={"age": (5, 6)})
    facts = valid(privacy_report(model))
    assert [(each["column"], each["declared"], each["values"]) for each in facts["declared"]] == [
        ("age", "limits", ["0", "99"]),
        ("ward", "list of values", ["east", "west"]),
        ("id", "left out", []),
        ("sex", "values that the type declares", ["f", "m"]),
        ("day", "date", []),
        ("note", "category, values not declared", []),
    ]


def test_a_fit_keeps_its_own_warnings_only(tmp_path):
    model = PrivateStandardScaler(epsilon=1e-3)
    with pytest.warns(UserWarning, match="too few"):
        model.fit(X)
    assert "too few" in str(privacy_report(model).to_dict()["fit_warnings"])
    assert "too few" in str(privacy_report(to_release(model)).to_dict()["fit_warnings"])
    model.set_params(epsilon=1.0, bounds=(0, 1)).fit(X)
    assert privacy_report(model).to_dict()["fit_warnings"] == []


def test_a_stated_guarantee_is_a_caution():
    report = privacy_report(PrivacyGuarantee(1.0, 0.0, "row", "replace-one", stated=True))
    assert report.verdict == LOOK and valid(report)["mechanisms"]["noise"] == "stated"


@pytest.mark.slow
def test_a_pipeline_has_its_steps_and_its_total():
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5)
    model = make_pipeline(
        PublicScaler.from_bounds(0, 1),
        PrivateStandardScaler(epsilon=0.5, bounds=(0, 1), ledger=ledger),
        UserLevelSGDRegressor(epsilon=1.0, ledger=ledger),
    ).fit(X, Y)
    facts = valid(privacy_report(model))
    total = guarantee_of(model)
    assert facts["strength"]["epsilon"] == total.epsilon and facts["strength"]["delta"] == total.delta
    assert [step["role"] for step in facts["steps"]] == ["looks at no data", "private", "private"]
    assert facts["steps"][2]["epsilon"] == model[-1].privacy_guarantee_.epsilon
    (book,) = facts["ledgers"]  # one ledger, however many steps have it
    assert (book["spent"]["epsilon"], book["spent"]["delta"]) == ledger.spent
    with pytest.raises(NoGuaranteeError):
        privacy_report(make_pipeline(PublicScaler.from_bounds(0, 1)).fit(X))


@pytest.mark.parametrize("composition", ["basic", "zcdp", "filter"])
def test_the_steps_of_a_ledger_end_at_what_it_has_spent(composition):
    ledger = PrivacyLedger(epsilon=6.0, delta=1e-5, composition=composition)
    for note in ("a", "b", "a"):
        fill(ledger.annotated(note), 0.5, 0.25)
    with ledger.reserve(1.0, rho=0.125) as part:
        fill(part, 0.125, 0.125)
    steps = spent_after_each(ledger)
    assert steps[-1][1:] == ledger.spent and len(steps) == 7  # a reservation pays for its own
    spent = [epsilon for _, epsilon, _ in steps]
    assert spent == sorted(spent)
    facts = valid(privacy_report(ledger))
    (book,) = facts["ledgers"]
    assert math.isclose(math.fsum(share["epsilon"] for share in book["shares"]), ledger.spent[0])
    assert [(share["purpose"], share["entries"]) for share in book["shares"]][:2] == [("a", 4), ("b", 2)]
    assert (book["left"]["epsilon"], book["left"]["delta"]) == ledger.remaining
    assert facts["strength"]["epsilon"] == ledger.spent[0] and book["seal"] == ledger.seal
    assert sum(entry["spent_epsilon"] is None for entry in book["entries"]) == 2


def test_ledgers_that_are_not_for_releases_stop_a_report():
    for terms in ({"simulation": True}, {"dry_run": True}):
        report = privacy_report(PrivacyLedger(epsilon=1.0, **terms))
        assert report.verdict == STOP and valid(report)["strength"] is None
    mixed = PrivacyLedger(epsilon=1.0)
    fill(mixed, 0.5, random_state=0)
    assert privacy_report(mixed).verdict == STOP
    empty = privacy_report(PrivacyLedger(epsilon=1.0))
    assert empty.verdict == HOLDS and valid(empty)["protection"] is None and "nothing was released" in str(empty)


def test_details_are_for_the_house(tmp_path):
    path = tmp_path / "secret-path.ledger"
    ledger = PrivacyLedger(path, epsilon=3.0).annotated("first", data="secret-print")
    fill(ledger, 0.5, parameters={"memory": "secret-parameter"})
    (entry,) = ledger.entries()
    secrets = ("secret-path", "secret-print", "secret-parameter", f"{entry.user}@", str(entry.process_id))
    public, house = privacy_report(ledger), privacy_report(ledger, details=True)
    valid(house)
    for secret in secrets[:4]:
        assert secret not in public.to_html() + public.to_json() + model_card(public.to_dict())
        assert secret in house.to_html()
    assert valid(public)["ledgers"][0]["entries"][0].keys().isdisjoint({"user", "host", "parameters", "data"})


def test_audits_stand_beside_the_claim():
    model = UserLevelMean(epsilon=1.0, bound=1.0, tau=0.5)
    options = {"fit_params": {"user_ids": np.arange(40)}, "n_runs": 20, "random_state": 0}
    audit = audit_estimator(model, X[:40], method="black-box", **options)
    fitted = model.fit(X[:40], user_ids=np.arange(40))
    report = privacy_report(fitted, audit=audit)
    (found,) = valid(report)["audits"]
    assert found["epsilon_lower_bound"] == audit.epsilon_lower_bound and found["n_fits"] == audit.evidence.n_runs
    assert found["same_claim"] and not any("audit" in text for text in report.findings)
    assert f"ε ≥ {rounded_down(audit.epsilon_lower_bound, 4)}" in report.to_html()
    other = privacy_report(UserLevelMean(epsilon=2.0).fit(X, user_ids=USERS), audit=[audit])
    assert other.verdict == LOOK and "tested another claim" in other.findings[0]
    refuted = type(audit)(**{**vars(audit), "p_value": 1e-9})
    assert privacy_report(fitted, audit=refuted).verdict == STOP
    with pytest.raises(TypeError, match="audit must be the result of audit_estimator or find_violation"):
        privacy_report(fitted, audit=0.5)


@pytest.mark.filterwarnings("ignore::skprivate.metric.NoiseFillsBoxWarning")
def test_distances_of_a_metric():
    model = MetricPrivatizer(epsilon=2.0, metric="l2", bounds=(0, 1)).fit(X)
    facts = valid(privacy_report(model, distances=[0.4, 0.1]))
    assert facts["trust_model"] == "local"
    assert [curve["distance"] for curve in facts["strength"]["trade_off"]] == [0.1, 0.4]
    # At a distance d it is ε·d: the curve of randomised response again.
    rates = np.array(facts["strength"]["trade_off"][1]["fpr"])
    exact = np.minimum(np.exp(0.8) * rates, 1 - np.exp(-0.8) * (1 - rates))
    np.testing.assert_allclose(facts["strength"]["trade_off"][1]["tpr"], exact, rtol=1e-9, atol=1e-12)


def test_arguments_that_are_none():
    guarantee = PrivacyGuarantee(1.0, 0.0, "row", "add-remove")
    for bad, error in (
        ({"source": 3}, "source must be a fitted estimator"),
        ({"path": "report.pdf"}, r"path must be the name of a .html or .json file, got 'report.pdf'"),
        ({"ledger": "x"}, "ledger must be a PrivacyLedger"),
        ({"answers": {"colour": "blue"}}, "answers must be keyed by one of 'purpose'.*got 'colour'"),
        ({"answers": {"bias": 3}}, r"answers\['bias'\] must be a string"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            privacy_report(**{"source": guarantee, **bad})


def test_files_are_what_the_methods_return(tmp_path):
    guarantee = PrivacyGuarantee(1.0, 0.0, "row", "add-remove")
    report = privacy_report(guarantee, tmp_path / "report.html", answers={"contact": "data office"})
    assert (tmp_path / "report.html").read_text("utf-8") == report.to_html()
    assert "data office" in report.to_html() and report.to_html().count("not answered") == 9
    privacy_report(guarantee, tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["strength"]["epsilon"] == 1.0
    assert PrivacyReport(report.to_dict()).to_html() == report.to_html()


def test_numbers_are_never_better_than_they_are():
    assert small(1.2341e-6) == "1.24·10⁻⁶" and small(1e-6) == "10⁻⁶" and small(0.0) == "0" and small(0.02) == "0.02"
    assert small(1.2349e-6, rounded_down) == "1.23·10⁻⁶"
    assert rounded_down(3.99999, 4) == "3.999" and rounded_down(0.1, 3) == "0.1"
    assert (
        "at most 7.4 times"
        in privacy_report(PrivacyGuarantee(2.0004, 0.0, "row", "add-remove")).to_dict()["strength"]["in_words"]
    )
