"""One dialect of errors: the parameter or column, what is allowed, what was got, and no entry of private rows."""

import contextlib
import datetime
import json
import re
import traceback
import warnings
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import Normalizer

from skprivate import (
    CuratedBagGAMClassifier,
    MetricPrivateSynthesizer,
    MetricPrivatizer,
    PPMHalfspaceClassifier,
    RandomBagRegressor,
    UserLevelMean,
    UserLevelSGDClassifier,
    UserLevelSGDRegressor,
    check_pipeline,
    guarantee_of,
)
from skprivate._validation._arrays import TEXT_ADVICE
from skprivate.metric._tables import LIST_ADVICE
from skprivate.partitions import Blocks
from skprivate.preprocessing import (
    PrivateStandardScaler,
    PublicScaler,
    RowByRow,
    make_additive_pipeline,
    make_private_pipeline,
)
from skprivate.privacy import (
    GaussianEvent,
    LaplaceEvent,
    PrivacyGuarantee,
    PrivacyLedger,
    PureEvent,
    compose_delta,
    compose_epsilon,
    epsilon_of_rho,
    filter_epsilon,
    gaussian_noise_multiplier,
    open_release,
    public_generator,
    rho_of_epsilon,
)
from skprivate.utils.discovery import all_estimators

pytestmark = pytest.mark.filterwarnings("ignore:.*too few:UserWarning")

TERMS = {"epsilon": 1.0, "unit": "row", "adjacency": "add-remove"}
#: Function, arguments, the one that is wrong, and what has to be said to be allowed.
WRONG = [
    (open_release, {**TERMS, "epsilon": 0.0}, "epsilon", "a positive finite number"),
    (open_release, {**TERMS, "epsilon": "1"}, "epsilon", "a positive finite number"),
    (open_release, {**TERMS, "epsilon": np.nan}, "epsilon", "a positive finite number"),
    (open_release, {**TERMS, "delta": 1.0}, "delta", r"a number in \[0, 1\)"),
    (open_release, {**TERMS, "delta": "x"}, "delta", r"a number in \[0, 1\)"),
    (open_release, {**TERMS, "unit": "person"}, "unit", "'row', 'private row', 'user', 'label', 'data set'"),
    (open_release, {**TERMS, "adjacency": "swap"}, "adjacency", "'replace-one', 'add-remove', 'metric'"),
    (open_release, {**TERMS, "metric": "l2"}, "metric", "None otherwise"),
    (open_release, {**TERMS, "adjacency": "metric", "metric": None}, "metric", "the name of a distance"),
    (open_release, {**TERMS, "ledger": {}}, "ledger", "a PrivacyLedger or None"),
    (open_release, {**TERMS, "random_state": "0"}, "random_state", "None .* an int"),
    (open_release, {**TERMS, "random_state": -1}, "random_state", ">= 0"),
    (PrivacyLedger, {"epsilon": -1}, "epsilon", "a positive finite number"),
    (PrivacyLedger, {"epsilon": 1, "delta": 1}, "delta", r"a number in \[0, 1\)"),
    (PrivacyLedger, {"epsilon": 1, "unit": "person"}, "unit", "'row', 'private row', 'user'"),
    (PrivacyLedger, {"epsilon": 1, "adjacency": "replace"}, "adjacency", "'replace-one', 'add-remove'"),
    (PrivacyLedger, {"epsilon": 1, "composition": "rdp"}, "composition", "'basic', 'zcdp'"),
    (PrivacyLedger, {"epsilon": 1, "simulation": "yes"}, "simulation", "True or False"),
    (PrivacyGuarantee, {**TERMS, "delta": 0.0, "epsilon": -1}, "epsilon", "at least 0"),
    (PrivacyGuarantee, {**TERMS, "delta": 0.0, "epsilon": "1"}, "epsilon", "a number >= 0"),
    (PrivacyGuarantee, {**TERMS, "delta": 2.0}, "delta", r"a number in \[0, 1\)"),
    (PrivacyGuarantee, {**TERMS, "delta": 0.0, "unit": "person"}, "unit", "'row', 'private row'"),
    (PrivacyGuarantee, {**TERMS, "delta": 0.0, "metric": "l2"}, "metric", "None otherwise"),
    (PureEvent, {"epsilon": -1}, "epsilon", "a positive finite number"),
    (LaplaceEvent, {"epsilon": "1"}, "epsilon", "a positive finite number"),
    (GaussianEvent, {"noise_multiplier": 0}, "noise_multiplier", "a positive finite number"),
    (compose_epsilon, {"events": [], "delta": 1}, "delta", r"a number in \[0, 1\)"),
    (compose_epsilon, {"events": [(PureEvent(1.0), 0)]}, "count", "a positive int"),
    (compose_epsilon, {"events": [("PureEvent", 1)]}, "event", "a PrivacyEvent"),
    (compose_delta, {"events": [], "epsilon": -1}, "epsilon", "at least 0"),
    (filter_epsilon, {"events": [], "delta": -1}, "delta", r"a number in \[0, 1\)"),
    (gaussian_noise_multiplier, {"epsilon": 0, "delta": 0.1}, "epsilon", "a positive finite number"),
    (gaussian_noise_multiplier, {"epsilon": 1, "delta": 0}, "delta", r"a number in \(0, 1\)"),
    (gaussian_noise_multiplier, {"epsilon": 1, "delta": 0.1, "n_draws": 0}, "n_draws", "at least 1"),
    (epsilon_of_rho, {"rho": -1, "delta": 0.1}, "rho", "at least 0"),
    (epsilon_of_rho, {"rho": 1, "delta": 1}, "delta", r"a number in \[0, 1\)"),
    (rho_of_epsilon, {"epsilon": 0, "delta": 0.1}, "epsilon", "a positive finite number"),
    (rho_of_epsilon, {"epsilon": 1, "delta": 0}, "delta", r"a number in \(0, 1\)"),
    (guarantee_of, {"model": "model"}, "model", "a fitted estimator"),
    (check_pipeline, {"model": 3}, "model", "an estimator"),
]


@pytest.mark.parametrize(
    ("function", "arguments", "name", "allowed"),
    [pytest.param(*case, id=f"{case[0].__name__}-{case[2]}-{i}") for i, case in enumerate(WRONG)],
)
def test_what_is_wrong_is_named_with_what_is_allowed_and_what_was_got(function, arguments, name, allowed):
    with pytest.raises((TypeError, ValueError)) as caught:
        function(**arguments)
    text = str(caught.value)
    assert re.search(rf"\b{name}\b.* must be .*{allowed}.*, got ", text), text
    wrong = arguments.get(name)
    if wrong is not None and not isinstance(wrong, dict):
        assert repr(wrong) in text or type(wrong).__name__ in text, text


def test_a_refused_ledger_has_made_no_file(tmp_path):
    with pytest.raises(ValueError, match="adjacency must be 'replace-one', 'add-remove'"):
        PrivacyLedger(tmp_path / "a.ledger", epsilon=1.0, adjacency="replace")
    assert not list(tmp_path.iterdir())


# Data -----------------------------------------------------------------------------------------------------------

N = 40
NUMBERS = {"age": np.linspace(0.1, 0.9, N), "dose": np.linspace(0.9, 0.1, N)}
LABELS = np.arange(N) % 2
SECRET = "Rosalind"
TIME = np.array([f"2020-01-{i % 28 + 1:02d}" for i in range(N)], dtype="datetime64[us]")


def _object(value):
    return np.array([value] + [1.0] * (N - 1), dtype=object)


#: A third column, the error, and what has to be said of it.
COLUMNS = {
    "strings": (
        np.array([SECRET, "Ada"] * (N // 2)),
        f"must hold numbers, got str. ({re.escape(TEXT_ADVICE)}|{re.escape(LIST_ADVICE)})",
    ),
    "dates": (TIME, "must hold numbers, got [dD]atetime.* Turn dates and times into numbers"),
    "durations": (TIME - TIME[0], "must hold numbers, got ([tT]imedelta|Duration).* Turn dates and times"),
    "objects": (_object(datetime.date(1920, 7, 25)), "must hold numbers, got date.* Turn dates and times"),
    "complex": (np.full(N, 1.5 + 1j), "Complex data not supported"),
}
#: These take or refuse missing values by themselves.
MISSING = {"nan": (np.r_[np.nan, np.ones(N - 1)], "contains NaN"), "none": (_object(None), "contains NaN")}
INFINITE = {"infinity": (np.r_[np.inf, np.ones(N - 1)], "infinity")}

#: Estimators whose columns may be of any type, or whose data are no table of numbers.
ANY_TYPE = {
    "CuratedBagGAMClassifier",
    "CuratedBagGAMRegressor",
    "MembershipInferenceAuditor",
    "PrivateOneHotEncoder",
    "PrivateTableSynthesizer",
    "PublicOneHotEncoder",
    "PublicOrdinalEncoder",
    "RowByRow",
}
#: These have missing values for their subject.
TAKES_MISSING = {name for name, _ in all_estimators() if name.startswith(("Private", "PublicScaler", "UserLevelSGD"))}
CANDIDATE = FrozenEstimator(DummyRegressor().fit([[0]], [0]))
NEEDED = {
    "MetricPrivateSynthesizer": {"bounds": (0, 1)},
    "MetricPrivatizer": {"bounds": (0, 1)},
    "PrivateSearchCV": {
        "estimator": UserLevelSGDClassifier(classes=[0, 1]),
        "param_distributions": {"alpha": [0.0, 1.0]},
    },
    "UserLevelSelector": {"estimators": [("a", CANDIDATE), ("b", CANDIDATE)]},
}
NUMERIC = {
    name: cls
    for name, cls in all_estimators()
    if name not in ANY_TYPE and not name.endswith(("Attack", "Inference", "Auditor"))
}


def instance(name):
    return NUMERIC[name](**NEEDED.get(name, {}))


@pytest.mark.take_turns(9)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("kind", [*COLUMNS, *MISSING, *INFINITE])
@pytest.mark.parametrize("name", NUMERIC)
def test_columns_are_named_and_entries_are_not(name, kind, library):
    if kind in MISSING and name in TAKES_MISSING:
        return
    column, said = {**COLUMNS, **MISSING, **INFINITE}[kind]
    X = library({**NUMBERS, "visit": column})
    model = instance(name)
    with pytest.raises((TypeError, ValueError)) as caught:
        model.fit(X, LABELS)
    text = str(caught.value)
    assert re.search(said, text, re.DOTALL), text
    assert "'visit'" in text or kind == "complex", text
    assert "'age'" not in text and SECRET not in text and "1920" not in text and "2020" not in text
    assert not hasattr(model, "privacy_guarantee_")


@pytest.mark.parametrize("name", NUMERIC)
def test_arrays_are_spoken_of_by_positions(name):
    table = np.c_[NUMBERS["age"], NUMBERS["dose"]].astype(object)
    table[3, 1] = SECRET
    with pytest.raises(ValueError, match="column 1 of X must hold numbers, got str") as caught:
        instance(name).fit(table, LABELS)
    assert SECRET not in str(caught.value)
    with pytest.raises(TypeError, match="X must hold numbers, got dtype datetime64"):
        instance(name).fit(np.c_[TIME, TIME], LABELS)
    table = sparse.csr_array(np.c_[NUMBERS["age"], NUMBERS["dose"]])
    table.data[3] = np.inf
    with pytest.raises((TypeError, ValueError), match="X") as caught:  # sparse, or what is in it
        instance(name).fit(table, LABELS)
    assert "inf" not in str(caught.value).replace("infin", "")


@pytest.mark.parametrize("name", [name for name in NUMERIC if name.endswith("Regressor")])
@pytest.mark.parametrize("y", [TIME, TIME - TIME[0], np.full(N, 1j), np.array([SECRET] * N)])
def test_targets_that_are_no_numbers(name, y):
    with pytest.raises((TypeError, ValueError), match="y must hold numbers|[Cc]omplex") as caught:
        instance(name).fit(np.c_[NUMBERS["age"], NUMBERS["dose"]], y)
    assert SECRET not in str(caught.value)


PLACE = pd.Series(["a", "b"] * (N // 2))
TEXT = pd.DataFrame({**NUMBERS, "visit": np.array([SECRET, "Ada"] * (N // 2))})
#: Further ways to numbers, beside the fit of each estimator to one table.
TO_NUMBERS = {
    "other columns are listed": lambda X: MetricPrivateSynthesizer(categories={"place": ["a", "b"]}).fit(
        X.assign(place=PLACE)
    ),
    "blocks": lambda X: MetricPrivateSynthesizer(bounds=(0, 1)).fit(Blocks([X[:20], X[20:]])),
    "blocks of users": lambda X: UserLevelSGDRegressor().fit(Blocks([X[:20], X[20:]]), "age"),
    "additive": lambda X: make_additive_pipeline(UserLevelSGDRegressor()).fit(X, LABELS),
    "predict": lambda X: UserLevelSGDRegressor().fit(X.assign(visit=1.0), LABELS).predict(X),
    "transform": lambda X: PublicScaler().fit(X.assign(visit=1.0)).transform(X),
}


@pytest.mark.parametrize("way", TO_NUMBERS)
def test_one_advice_for_text(way):
    """Text may be numbers, categories or neither; who reads the message knows which."""
    with pytest.raises((TypeError, ValueError)) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TO_NUMBERS[way](TEXT)
    text = str(caught.value)
    advice = LIST_ADVICE if way in ("blocks", "other columns are listed") else TEXT_ADVICE
    assert advice in text and "'visit'" in text and "'age'" not in text and SECRET not in text, text
    assert all(word in TEXT_ADVICE for word in ("to_numeric", "PublicOneHotEncoder", "leave out free text"))
    assert all(word in LIST_ADVICE for word in ("to_numeric", "categories={", "leave out free text"))


@pytest.mark.parametrize("ids", [np.r_[np.nan, np.ones(N - 1)], pd.Series([1, None] * (N // 2), dtype="Int64")])
@pytest.mark.parametrize("name", ["UserLevelMean", "UserLevelSGDRegressor", "PrivateStandardScaler"])
def test_rows_without_a_user(name, ids):
    """What a gap makes of identifiers, and what to do with such rows."""
    with pytest.raises((TypeError, ValueError)) as caught:
        instance(name).fit(np.c_[NUMBERS["age"], NUMBERS["dose"]], LABELS, user_ids=ids)
    text = str(caught.value)
    assert text.startswith("user_ids must") and "Leave out rows without a user, or give each of them" in text
    assert ("makes floats of integers with gaps" in text) is isinstance(ids, np.ndarray)


def test_many_columns_are_not_all_listed():
    X = pd.DataFrame({f"c{i}": ["a"] * 4 for i in range(9)})
    with pytest.raises(ValueError, match="columns 'c0', 'c1', 'c2', 'c3', 'c4' and 4 more of X must hold"):
        instance("UserLevelMean").fit(X)


@pytest.mark.parametrize("values", [(1.7e308, -1.7e308), (np.longdouble(10) ** 4000,) * 2], ids=["sum", "cast"])
def test_no_warning_tells_of_an_overflow(values):
    """A look for what is not finite sums up all entries, which told of the largest in warnings."""
    X = public_generator(0).uniform(-1, 1, (60, 2)).astype(type(values[0]))
    y = np.arange(60) % 2
    X[7], X[9] = values  # private rows
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):
            PPMHalfspaceClassifier(private_label=1).fit(X, y)
    assert not said


def test_a_mask_says_of_every_row_whether_it_is_private():
    """A hidden entry was read as what lies under it."""
    X, y = public_generator(0).uniform(-1, 1, (60, 2)), np.arange(60) % 2
    private = np.ma.masked_array(y == 1, mask=np.arange(60) == 3)
    with pytest.raises(ValueError, match="private must say of every row"):
        PPMHalfspaceClassifier().fit(X, y, private=private)
    PPMHalfspaceClassifier().fit(X, y, private=np.ma.masked_array(y == 1))


@pytest.mark.parametrize("kind", [PublicScaler, PrivateStandardScaler, MetricPrivatizer, UserLevelSGDRegressor])
def test_entries_are_not_quoted_after_the_fit(kind):
    """Rows that are transformed are private as well."""
    X = public_generator(0).uniform(-1, 1, (300, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind().fit(X, X[:, 0])
    use = model.predict if hasattr(model, "predict") else model.transform
    for wrong in (np.array([7.34119]), ["7.34119x"], [["7.34119x", 0]], [[7.34119j, 0]]):
        with pytest.raises((ValueError, TypeError)) as error:
            use(wrong)
        assert "34119" not in str(error.value)


@pytest.mark.parametrize("kind", [UserLevelSGDClassifier, UserLevelSGDRegressor])
def test_labels_are_not_quoted_by_a_score(kind):
    """scikit-learn listed all labels that occur."""
    X, y = np.linspace(-1, 1, 60).reshape(30, 2), np.arange(30) % 2
    model = kind().fit(X, y)
    with pytest.raises((TypeError, ValueError)) as error:
        model.score(X, np.where(y == 0, "7.34119x", "1"))
    assert "34119" not in str(error.value)


@pytest.mark.parametrize("got", [pd.DataFrame({"pay": [123456.5, 7.0]}), np.array([123456.5, 7.0]), [123456.5, 7.0]])
def test_a_table_in_the_place_of_a_parameter_is_not_quoted(got):
    for name, model in (
        ("epsilon", PrivateStandardScaler(got)),
        ("ledger", UserLevelSGDRegressor(ledger=got)),
        ("model", got),
    ):
        with pytest.raises((TypeError, ValueError), match=f"{name}.* [Gg]ot {type(got).__name__}") as caught:
            make_private_pipeline(got) if model is got else model.fit(np.zeros((5, 1)), np.zeros(5))
        assert "123456" not in str(caught.value)


#: An entry that is to be seen nowhere, among others that NumPy prints on lines that end in many ways.
HIDDEN = 734119
WHOLE = np.where(np.arange(60) % 9 == 0, HIDDEN, 200_000 + 1_000.0 * np.arange(60))
MALFORMED = {
    "one dimension": WHOLE,
    "integers": WHOLE.astype(int),
    "a decimal": WHOLE + 0.5,
    "a list": WHOLE.tolist(),
    "a tuple": tuple(WHOLE),
    "a series": pd.Series(WHOLE),
    "a series of polars": pl.Series("x", WHOLE),
    "an array of pyarrow": pa.array(WHOLE),
    "a scalar": np.array(float(HIDDEN)),
    "a number": HIDDEN,
    "three dimensions": WHOLE.reshape(60, 1, 1),
    "complex": WHOLE.reshape(-1, 1) + 1j,
    "complex frame": pd.DataFrame({"x": WHOLE + 1j}),
    "text": WHOLE.astype(str).astype(object).reshape(-1, 1) + "x",
    "text of pandas": pd.DataFrame({"x": WHOLE.astype(str)}) + "x",
    "text of polars": pl.DataFrame({"x": [f"{value}x" for value in WHOLE]}),
    "text of pyarrow": pa.table({"x": [f"{value}x" for value in WHOLE]}),
    "bytes": np.array([[b"734119x"]] * 60),
    "ragged": [[HIDDEN, 1], *[[1]] * 59],
    "mappings": [{"x": HIDDEN}] * 60,
    "sets": np.array([[{HIDDEN}]] * 60),
    "beyond the largest float": [[HIDDEN * 10**400]] * 60,
    "a number that signals": np.array([[Decimal("sNaN734119")]] * 60),
    "structured": np.array([(HIDDEN,)] * 60, dtype=[("x", float)]),
    "gaps": np.where(np.arange(120).reshape(60, 2) == 7, np.nan, HIDDEN),
    "infinite": np.where(np.arange(120).reshape(60, 2) == 7, np.inf, HIDDEN),
    "sparse": sparse.csr_array(WHOLE.reshape(-1, 1)),
    "128 bits": pl.DataFrame({"x": pl.Series([HIDDEN] * 60, dtype=pl.Int128)}),
    "Decimal": pl.DataFrame({"x": pl.Series(["734119.5"] * 60).cast(pl.Decimal(10, 2))}),
}
FITTED = {
    name: kind(**NEEDED.get(name, {}))
    for name, kind in all_estimators()
    if name.startswith(("Curated", "Metric", "PPM", "PrivateI", "PrivateStandard", "RandomBag", "UserLevelSGD"))
} | {"UserLevelMean": UserLevelMean()}


def said(call):
    """What a call says in an error, and in what is shown with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return "".join(traceback.format_exception(error))
    return ""


@pytest.mark.parametrize("got", MALFORMED)
def test_no_malformed_data_are_quoted(got):
    """Whatever their container, dimensions and type, whatever library refuses them, and on whichever way they came."""
    data, X, labels = MALFORMED[got], np.linspace(-1, 1, 120).reshape(60, 2), np.arange(60) % 2
    for name, model in FITTED.items():
        text = said(partial(clone(model).fit, data, labels))
        assert str(HIDDEN) not in text, name
        if got in ("integers", "a decimal", "a list", "a tuple", "a scalar", "a number"):
            assert "Reshape your data" in text, name
        if got == "complex":
            assert "Complex data not supported" in text, name
    step = RowByRow(FrozenEstimator(PCA(1).fit(X)))
    for call in (
        lambda: UserLevelSGDClassifier().fit(X, data),
        lambda: CuratedBagGAMClassifier().fit(X, data),
        lambda: RandomBagRegressor().fit(X, data),
        lambda: UserLevelMean().fit(X, user_ids=data),
        lambda: step.transform(data),
        lambda: RowByRow(Normalizer()).fit(data).transform(data),
        lambda: make_private_pipeline(UserLevelSGDClassifier(), ["number"]).fit(data, labels),
    ):
        assert str(HIDDEN) not in said(call)


@pytest.mark.parametrize("name", FITTED)
def test_a_budget_may_be_any_number_of_numpy(name):
    """Of other precision they were refused, or decided about the precision of the shares of a budget."""
    X = np.linspace(-1, 1, 120).reshape(60, 2)
    for number in (np.float16(1), np.float32(1), np.float64(1), np.int64(1), np.uint8(1)):
        model = clone(FITTED[name]).set_params(epsilon=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, np.arange(60) % 2)
            getattr(model, "transform", len)(X)
        assert 0 < model.privacy_guarantee_.epsilon <= 1 and model.epsilon is number
        assert json.dumps(model.privacy_guarantee_.to_dict())


@pytest.mark.parametrize("name", [name for name in FITTED if not name.startswith("Metric")])
def test_a_budget_that_is_too_small_to_be_divided_is_refused(name):
    X, y = np.eye(9), np.arange(9) % 2
    for epsilon in (1e-13, 1e-100, 1e-300, 5e-324):
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-6, simulation=True)
        model = clone(FITTED[name]).set_params(epsilon=epsilon, ledger=ledger)
        with pytest.raises(ValueError, match=rf"'epsilon' parameter of {name} must be .*1e-12.*{epsilon!r}"):
            model.fit(X, y)
        with pytest.raises(ValueError, match=f"epsilon must be .* at least 1e-12, got {epsilon!r}"):
            make_private_pipeline(UserLevelSGDClassifier(), epsilon=epsilon).fit(X, y)
        assert ledger.entries() == []


def test_the_name_of_a_column_is_no_target():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0, 1]})
    for name in ("CuratedBagGAMClassifier", "RandomBagRegressor", "UserLevelSGDClassifier"):
        with pytest.raises(TypeError, match="y must hold one label or number for each row, got str. Pass the column"):
            clone(FITTED[name]).fit(frame, "b")
