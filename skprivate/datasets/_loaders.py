"""Loaders of the embedded tables, and the tree of diagnoses."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skprivate._sklearn import StrOptions, validate_params

_BOOLEAN = ["boolean"]
#: Limits that hold for any domestic flight of the United States; nothing here was looked up in the data.
_FLIGHTS = {"month": (1.0, 12.0), "hour": (0.0, 24.0), "distance": (0.0, 5000.0), "dep_delay": (-60.0, 1440.0)}
_FLIGHT_TARGETS = {"air_time": (0.0, 720.0), "arr_delay": (-120.0, 1440.0)}
#: Limits that hold for patients and hospital stays of this kind anywhere; nothing here was looked up in the data.
_HOSPITAL = {
    "age": (0.0, 110.0),
    "weight": (0.0, 300.0),
    "days": (0.0, 15.0),
    "lab_procedures": (0.0, 150.0),
    "procedures": (0.0, 10.0),
    "medications": (0.0, 100.0),
    "outpatient_visits": (0.0, 50.0),
    "emergency_visits": (0.0, 50.0),
    "inpatient_visits": (0.0, 50.0),
    "diagnoses": (0.0, 20.0),
}
#: Values of the texts by the code book of the source, rare specialties left out.
_CATEGORIES = {
    "gender": ["Female", "Male"],
    "race": ["AfricanAmerican", "Asian", "Caucasian", "Hispanic", "Other"],
    "admission": ["elective", "emergency", "newborn", "trauma", "urgent"],
    "specialty": [
        "Cardiology",
        "Emergency/Trauma",
        "Family/GeneralPractice",
        "InternalMedicine",
        "Nephrology",
        "Orthopedics",
        "Psychiatry",
        "Pulmonology",
        "Surgery-General",
    ],
    "a1c": ["Norm", ">7", ">8"],
    "insulin": ["No", "Down", "Steady", "Up"],
    "diabetes_drug": ["No", "Yes"],
}
_FOLDER = resources.files(__package__)


def _checked(**more: list[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Validate the options of every loader, and ``more``."""
    options = {"return_X_y": _BOOLEAN, "as_frame": _BOOLEAN, **more}
    checked: Callable[..., Any] = validate_params(options, prefer_skip_nested_validation=True)
    return checked


@_checked()
def load_adult(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load the census income of adults (binary classification, mostly categories).

    ============== ==================================
    Rows           48 842 adults
    Classes        2, ``<=50K`` and ``>50K`` (23.9 %)
    Features       12: 4 numbers, 8 categories
    ============== ==================================

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a `Bunch`.
    as_frame : bool, default=False
        If True, data and target are pandas objects, numbers as floats and categories as ``category``.

    Returns
    -------
    adult : `~sklearn.utils.Bunch`
        data : {ndarray of object, DataFrame} of shape (48842, 12)
            Numbers and categories as in the source.
        target : {ndarray of str, Series} of shape (48842,)
            Income class, ``<=50K`` or ``>50K``.
        categorical_features : list of str
            Names of the eight features that are categories.
        feature_names, target_name, frame, DESCR
            As in scikit-learn's loaders.
    (data, target) : tuple
        If ``return_X_y`` is True.

    See Also
    --------
    load_credit_default : Loads a table with a public population.

    Notes
    -----
    From the UCI Machine Learning Repository (Becker and Kohavi 1996), CC BY 4.0. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_adult
    >>> adult = load_adult()
    >>> adult.data.shape, sorted(set(adult.target.tolist()))
    ((48842, 12), ['<=50K', '>50K'])
    """
    columns = read_csv("adult")
    texts = [name for name, values in columns.items() if values.dtype.kind == "U" and name != "income"]
    return outputs("adult", columns, "income", as_frame=as_frame, return_X_y=return_X_y, categorical_features=texts)


@_checked()
def load_credit_default(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load the default of credit card clients (binary classification, a private and a public population).

    ============== ==================================
    Rows           30 000 clients
    Private        6 636 clients who defaulted (label 1)
    Public         23 364 clients who paid (label 0)
    Features       23, integers
    ============== ==================================

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a `Bunch`.
    as_frame : bool, default=False
        If True, data and target are pandas objects.

    Returns
    -------
    credit : `~sklearn.utils.Bunch`
        data : {ndarray, DataFrame} of shape (30000, 23)
            Credit limit, sex, education, marriage, age, and repayment status, bill and payment of six months.
        target : {ndarray, Series} of int64 of shape (30000,)
            1 for a default, else 0.
        feature_names, target_name, frame, DESCR
            As in scikit-learn's loaders.
    (data, target) : tuple
        If ``return_X_y`` is True.

    See Also
    --------
    load_adult : Loads a table of categories.
    PPMHalfspaceClassifier : Learns from both populations.

    Notes
    -----
    Yeh and Lien (2009), UCI data set 350, CC BY 4.0. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_credit_default
    >>> X, y = load_credit_default(return_X_y=True)
    >>> X.shape, int(y.sum())
    ((30000, 23), 6636)
    """
    columns = read_csv("credit_default")
    columns["default"] = columns["default"].astype(np.int64)
    return outputs("credit_default", columns, "default", as_frame=as_frame, return_X_y=return_X_y)


@_checked(target=[StrOptions(set(_FLIGHT_TARGETS))], return_users=_BOOLEAN)
def load_flights(
    *, target: str = "arr_delay", return_X_y: bool = False, return_users: bool = False, as_frame: bool = False
) -> Any:
    """Load flights from New York in 2013, grouped by aircraft (regression with users).

    ============== ==================================
    Rows           111 622 flights
    Users          1 365 aircraft, 1 to 475 rows each
    Features       4, real
    Target         minutes, real
    ============== ==================================

    Parameters
    ----------
    target : {"arr_delay", "air_time"}, default="arr_delay"
        What to predict, in minutes: the delay on arrival (from -79 on, heavy upper tail), or the time in
        the air (nearly linear in the distance).
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a `Bunch`.
    return_users : bool, default=False
        With ``return_X_y=True``, return ``(data, target, user_ids)``.
    as_frame : bool, default=False
        If True, data and target are pandas objects.

    Returns
    -------
    flights : `~sklearn.utils.Bunch`
        data : {ndarray, DataFrame} of shape (111622, 4)
            ``month``, scheduled ``hour`` of departure, ``distance`` in miles and ``dep_delay`` in minutes.
        target : {ndarray, Series} of shape (111622,)
            Minutes.
        user_ids : ndarray of int64 of shape (111622,)
            The aircraft that flew, 0 to 1364.
        feature_bounds : dict of {str: (float, float)}
            Public lower and upper limit of each feature: round numbers that hold for any domestic flight, not
            taken from the data.
        target_bounds : tuple of (float, float)
            The same for the target.
        feature_names, target_name, frame, DESCR
            As in scikit-learn's loaders.
    (data, target) or (data, target, user_ids) : tuple
        If ``return_X_y`` is True.

    See Also
    --------
    load_hospital : Loads users with texts and gaps.
    UserLevelSGDRegressor : Protects all rows of an aircraft.

    Notes
    -----
    From the United States Department of Transportation, Bureau of Transportation Statistics; in the public
    domain. Whole aircraft chosen by a hash of their tail number. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_flights
    >>> X, y, user_ids = load_flights(return_X_y=True, return_users=True)
    >>> X.shape, len(set(user_ids))
    ((111622, 4), 1365)
    """
    columns = read_csv("flights")
    return outputs(
        "flights",
        columns,
        target,
        features=list(_FLIGHTS),
        as_frame=as_frame,
        return_X_y=return_X_y,
        return_users=return_users,
        user_ids=columns["aircraft"].astype(np.int64),
        feature_bounds=dict(_FLIGHTS),
        target_bounds=_FLIGHT_TARGETS[target],
    )


@_checked(target=[StrOptions({"readmitted", "days"})], return_users=_BOOLEAN)
def load_hospital(
    *, target: str = "readmitted", return_X_y: bool = False, return_users: bool = False, as_frame: bool = False
) -> Any:
    """Load hospital encounters of diabetic patients (classification or regression with users, texts and gaps).

    ============== ==================================================
    Rows           25 589 encounters
    Users          17 840 patients, 1 to 23 rows each
    Features       17 or 16: 10 or 9 numbers, 7 texts; values missing
    Target         ``<30`` (11.0 %), ``>30``, ``NO``; or days, real
    ============== ==================================================

    Parameters
    ----------
    target : {"readmitted", "days"}, default="readmitted"
        What to predict: whether the patient came back within 30 days, later or not; or the days of the stay, which
        then are no feature.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a `Bunch`.
    return_users : bool, default=False
        With ``return_X_y=True``, return ``(data, target, user_ids)``.
    as_frame : bool, default=False
        If True, data and target are pandas objects, numbers as floats and texts as its kind of texts.

    Returns
    -------
    hospital : `~sklearn.utils.Bunch`
        data : {ndarray of object, DataFrame} of shape (25589, 17) or (25589, 16)
            Missing numbers are NaN, missing texts None.
        target : {ndarray, Series} of shape (25589,)
            Texts, or days as floats.
        user_ids : ndarray of int64 of shape (25589,)
            The patient, 0 to 17839.
        feature_bounds : dict of {str: (float, float)}
            Public limits of each feature that is a number, and of ``days``: round numbers, not taken from the data.
        categories : dict of {str: list of str}
            Public values of each feature that is a text, after the code book; of the specialties some that any
            hospital has.
        feature_names, target_name, frame, DESCR
            As in scikit-learn's loaders.
    (data, target) or (data, target, user_ids) : tuple
        If ``return_X_y`` is True.

    See Also
    --------
    load_flights : Loads users with numbers only.
    make_private_pipeline : Prepares texts and gaps within one budget.

    Notes
    -----
    From the UCI Machine Learning Repository (Strack et al. 2014), CC BY 4.0. Whole patients chosen by a hash of their
    number. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_hospital
    >>> X, y, user_ids = load_hospital(return_X_y=True, return_users=True)
    >>> X.shape, len(set(user_ids))
    ((25589, 17), 17840)
    """
    columns = read_csv("hospital")
    columns["weight"] = np.array([float(text or "nan") for text in columns["weight"].tolist()])
    for name in _CATEGORIES:
        columns[name] = np.array([text or None for text in columns[name].tolist()], dtype=object)
    return outputs(
        "hospital",
        columns,
        target,
        features=[name for name in [*_HOSPITAL, *_CATEGORIES] if name != target],
        as_frame=as_frame,
        return_X_y=return_X_y,
        return_users=return_users,
        user_ids=columns["patient"].astype(np.int64),
        feature_bounds=dict(_HOSPITAL),
        categories={name: list(values) for name, values in _CATEGORIES.items()},
    )


def load_icd10() -> Bunch:
    """Load the upper levels of ICD-10-CM as a tree (taxonomy, an ultrametric).

    ============== ==================================
    Nodes          2 237
    Leaves         1 930
    ============== ==================================

    Returns
    -------
    icd10 : `~sklearn.utils.Bunch`
        parents : dict of str to (str or None)
            Parent of each node, None for the 22 chapters; what `MetricPrivatizer` takes with ``metric="tree"``.
        codes : ndarray of str of shape (1930,)
            The leaves, three-character categories such as ``"E11"`` and twelve blocks without any, in their order.
        descriptions : dict of str to str
            Title of each node.
        DESCR : str
            Where the table comes from.

    See Also
    --------
    load_locations : Loads places, a plane metric.
    tree_distances : Computes distances between its codes.

    Notes
    -----
    From the United States Centers for Disease Control and Prevention; in the public domain. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_icd10
    >>> icd10 = load_icd10()
    >>> icd10.descriptions["E11"], icd10.parents["E11"]
    ('Type 2 diabetes mellitus', 'CH4:E08-E13')
    """
    columns = read_csv("icd10")
    codes, parents = columns["code"].tolist(), columns["parent"].tolist()
    tree = {code: None if parent == "ROOT" else parent for code, parent in zip(codes, parents, strict=True)}
    inner = set(parents)
    return Bunch(
        parents=tree,
        codes=columns["code"][[code not in inner for code in codes]],
        descriptions=dict(zip(codes, columns["description"].tolist(), strict=True)),
        DESCR=read_description("icd10"),
    )


@_checked()
def load_locations(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load taxi trips in New York (locations, regression).

    ============== ==================================
    Rows           10 000 trips
    Features       4, degrees
    Target         seconds
    ============== ==================================

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a `Bunch`.
    as_frame : bool, default=False
        If True, data and target are pandas objects.

    Returns
    -------
    locations : `~sklearn.utils.Bunch`
        data : {ndarray, DataFrame} of shape (10000, 4)
            Longitude and latitude of pickup and dropoff.
        target : {ndarray, Series} of shape (10000,)
            Duration of the trip in seconds.
        feature_bounds : tuple of two ndarray of shape (4,)
            Public lower and upper limits, those of the city, as `MetricPrivateSynthesizer` takes them. A few trips
            lead beyond.
        target_bounds : tuple of (float, float)
            A public range for the duration: up to two hours.
        feature_names, target_name, frame, DESCR
            As in scikit-learn's loaders.
    (data, target) : tuple
        If ``return_X_y`` is True.

    See Also
    --------
    load_icd10 : Loads codes, a tree metric.
    MetricPrivatizer, MetricPrivateSynthesizer : Release places privately.

    Notes
    -----
    From the New York City Taxi and Limousine Commission, open data. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_locations
    >>> load_locations().data.shape
    (10000, 4)
    """
    # Limits of New York City; nothing here was looked up in the data.
    lower, upper = np.array([-74.26, 40.49] * 2), np.array([-73.70, 40.92] * 2)
    bounds = {"feature_bounds": (lower, upper), "target_bounds": (0.0, 7200.0)}
    return outputs(
        "locations", read_csv("locations"), "trip_duration", as_frame=as_frame, return_X_y=return_X_y, **bounds
    )


def read_csv(name: str) -> dict[str, np.ndarray]:
    """Read ``data/<name>.csv.xz``, one line a column: float64 where all values are numbers, else str."""
    with (
        (_FOLDER / "data" / f"{name}.csv.xz").open("rb") as raw,
        lzma.open(raw, "rt", encoding="utf-8", newline="") as text,
    ):
        return {column: _numbers_or_text(values) for column, *values in csv.reader(text)}


def _numbers_or_text(values: Sequence[str]) -> np.ndarray:
    text = np.asarray(values)
    try:
        return text.astype(np.float64)
    except ValueError:
        return text


def read_description(name: str) -> str:
    """Read ``descr/<name>.rst``: what the data are, where they come from, their licence."""
    return (_FOLDER / "descr" / f"{name}.rst").read_text(encoding="utf-8")


def outputs(
    name: str,
    columns: dict[str, np.ndarray],
    target: str,
    *,
    as_frame: bool,
    return_X_y: bool,
    return_users: bool = False,
    features: list[str] | None = None,
    **others: object,
) -> Any:
    """Make the `Bunch` of a loader, or the tuple of data, target and users; all columns are features by default."""
    if return_users and not return_X_y:
        raise ValueError("return_users=True needs return_X_y=True; a Bunch always holds user_ids.")
    features = [column for column in columns if column != target] if features is None else features
    frame = None
    if as_frame:
        import pandas as pd

        frame = pd.DataFrame({column: columns[column] for column in [*features, target]})
        frame = frame.astype(dict.fromkeys(others.get("categorical_features", ()), "category"))
        data, values = frame[features], frame[target]
    else:
        parts = [columns[column] for column in features]
        if any(part.dtype.kind != "f" for part in parts):
            # Numbers and texts side by side would otherwise all become text.
            parts = [part.astype(object) for part in parts]
        data, values = np.column_stack(parts), columns[target]
    if return_X_y:
        return (data, values, others["user_ids"]) if return_users else (data, values)
    return Bunch(
        data=data,
        target=values,
        frame=frame,
        feature_names=features,
        target_name=target,
        DESCR=read_description(name),
        **others,
    )
