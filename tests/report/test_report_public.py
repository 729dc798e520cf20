"""Model card and registry entry: what they take from the report, what people write, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from convert_report import model_card, registry_entry

from skprivate import UserLevelMean
from skprivate.privacy import PrivacyGuarantee, PrivacyLedger, public_generator
from skprivate.report import privacy_report

BASIC = {
    "name": "Mean dose per patient",
    "curators": {"City Hospital": "Nonprofit"},
    "description": "Means of two doses.",
    "intended_use": "Planning of stocks.",
    "region": "Norway",
    "publication_date": "2026-11-22",
    "authors": ["A. Lovelace"],
}
HUMAN = {
    "data_domain": "tables with one row a visit",
    "actors": "the hospital, its readers",
    "trust_assumptions": "the hospital is trusted",
    "justification": "agreed with the board",
    "utility": "error below 1 %",
    "post_processing": "none",
    "preprocessing_and_hyperparameter_tuning": "public bounds",
    "additional_information": "none",
}
REGISTRY_SCHEMA = json.loads(Path(__file__).with_name("registry_schema.json").read_text(encoding="utf-8"))
GUARANTEE = PrivacyGuarantee(1.0, 0.0, "row", "add-remove", assumptions=("bounds are public",))


def check(entry):
    validator = jsonschema.Draft7Validator(REGISTRY_SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    validator.check_schema(dict(REGISTRY_SCHEMA))
    validator.validate(entry)
    return entry["deployment"]


def a_report(**how):
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    X = public_generator(0).uniform(size=(300, 2))
    return privacy_report(UserLevelMean(epsilon=1.0, ledger=ledger).fit(X, user_ids=range(300)), **how)


def test_an_entry_of_a_model():
    report = a_report(answers={"trust": "we are", "tuning": "none"})
    facts = report.to_dict()
    entry = registry_entry(report.to_dict(), **BASIC)
    said = check(entry)
    assert entry["url_slug"] == "mean-dose-per-patient-city-hospital-2026"
    loss = said["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": facts["strength"]["epsilon"], "delta": facts["strength"]["delta"]}
    assert loss["privacy_unit"] == "user" and loss["privacy_unit_details"].startswith("replace-one: all rows")
    assert said["dp_variant"]["variant_name"] == "Approximate DP"
    assert said["deployment_model"]["trust_assumptions"] == "we are"
    assert "ε = 3" in said["implementation"]["composition"] and "Gaussian" in said["implementation"]["mechanisms"]
    assert said["administrative"] == {"status": "Draft", "registry_authors": ["A. Lovelace"], "tier": 2}


def test_what_people_write_is_kept():
    report = privacy_report(GUARANTEE, answers={"utility": "overruled"})
    entry = registry_entry(
        report.to_dict(), **BASIC, **HUMAN, sector="Healthcare", release_type="Many releases", url_slug="doses"
    )
    said = check(entry)
    assert entry["url_slug"] == "doses" and said["administrative"]["tier"] == 3
    texts = str(said)
    assert all(text in texts for text in HUMAN.values()) and "overruled" not in texts
    assert said["dp_variant"]["variant_name"] == "Pure DP"
    metric = PrivacyGuarantee(2.0, 0.0, "row", "metric", metric="l2")
    assert check(registry_entry(privacy_report(metric).to_dict(), **BASIC))["dp_variant"]["variant_name"] == "Custom"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"publication_date": "1/1/2026"}, "publication_date must be a date, YYYY-MM-DD, got '1/1/2026'"),
        ({"publication_date": "20261122"}, "publication_date must be a date"),
        ({"curators": {"x": "Company"}}, "curators must be of a kind that is one of 'Government'"),
        ({"curators": {}}, "curators must be a mapping"),
        ({"authors": "A. Lovelace"}, "authors must be a list of at least one name"),
        ({"sector": "Sports"}, "sector must be one of 'Technology'"),
        ({"product_type": "Model"}, "product_type must be one of 'Summary statistics'"),
        ({"access_type": "Sometimes"}, "access_type must be one of 'Interactive'"),
        ({"description": ""}, "description must be a string that is not empty"),
        ({"colour": "blue"}, "a further field must be one of 'data_domain'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_entries_that_the_registry_would_refuse(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        registry_entry(privacy_report(GUARANTEE).to_dict(), **{**BASIC, **change})


def test_what_is_not_released_is_not_registered():
    simulated = PrivacyGuarantee(1.0, 0.0, "row", "add-remove", valid_for_release=False)
    for source in (simulated, PrivacyLedger(epsilon=1.0)):
        with pytest.raises(ValueError, match="must be one of a valid release to be registered"):
            registry_entry(privacy_report(source).to_dict(), **BASIC)


def test_the_schema_is_no_formality():
    entry = registry_entry(privacy_report(GUARANTEE).to_dict(), **BASIC)
    entry["deployment"]["privacy_loss"]["colour"] = "blue"
    with pytest.raises(jsonschema.ValidationError, match="colour"):
        check(entry)


def test_a_model_card_begins_with_privacy():
    report = a_report(answers={"purpose": "Planning & stocks"})
    card = model_card(report.to_dict(), name="Doses # 1", description="Means of *two* doses.", license="bsd-3-clause")
    headings = [line for line in card.splitlines() if line.startswith("#")]
    assert headings[:2] == ["# Model Card for Doses \\# 1", "## Privacy"]
    second = [line for line in headings if line.startswith("## ")]
    assert second == [
        "## Privacy",
        "## Model Details",
        "## Uses",
        "## Bias, Risks, and Limitations",
        "## Training Details",
        "## Evaluation",
        "## Citation",
        "## Model Card Contact",
        "## Technical Specifications",
    ]
    assert "Means of *two* doses." in card  # Markdown of whoever writes the card
    assert "Planning \\& stocks" in card and "- **License:** bsd-3-clause" in card
    assert card.count("[More Information Needed]") == 9
    epsilon = report.to_dict()["strength"]["epsilon"]
    assert f"- **Guarantee:** ε = {epsilon:.6g}"[:28] in card and "replace-one" in card
    with pytest.raises(TypeError, match="section must be one of 'description'"):
        model_card(report.to_dict(), colour="blue")


def test_texts_of_others_are_no_markdown():
    guarantee = PrivacyGuarantee(1.0, 0.0, "row", "add-remove", assumptions=("a\n# heading\n<b>|_*`[x](y)",))
    card = model_card(privacy_report(guarantee).to_dict(), name="x\n## y")
    assert "- a \\# heading \\<b\\>\\|\\_\\*\\`\\[x\\](y)" in card
    assert "# Model Card for x \\#\\# y" in card


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "people", "convert"),
    [("card", {"license": "bsd-3-clause"}, model_card), ("registry", BASIC, registry_entry)],
)
def test_the_script_reads_what_a_report_wrote(form, people, convert, tmp_path):
    report = privacy_report(GUARANTEE, answers={"bias": "für alle"})
    report.to_json(tmp_path / "report.json")
    (tmp_path / "people.json").write_text(json.dumps(people), encoding="utf-8")
    script = Path(__file__).parents[2] / "tools" / "convert_report.py"
    files = (tmp_path / "report.json", tmp_path / "people.json")
    done = subprocess.run([sys.executable, "-X", "utf8", script, form, *files], capture_output=True, check=True)
    text = done.stdout.decode()
    expected = convert(report.to_dict(), **people)
    assert (text if form == "card" else json.loads(text)) == expected
