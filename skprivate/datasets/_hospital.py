"""Hospital encounters by patient: texts, numbers, gaps and identifiers, as they come."""

from __future__ import annotations

from typing import Any

import numpy as np

from skprivate._sklearn import StrOptions, validate_params
from skprivate.datasets._load import make_bunch, read_csv, select_outputs

#: Limits that hold for patients and hospital stays of this kind anywhere; nothing here was looked up in the data.
_BOUNDS = {
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


@validate_params(
    {
        "target": [StrOptions({"readmitted", "days"})],
        "return_X_y": ["boolean"],
        "return_users": ["boolean"],
        "as_frame": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_hospital(
    *,
    target: str = "readmitted",
    return_X_y: bool = False,
    return_users: bool = False,
    as_frame: bool = False,
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
    features = [name for name in [*_BOUNDS, *_CATEGORIES] if name != target]
    if not as_frame:
        # Rows of numbers and texts side by side would otherwise all become text.
        columns = {
            name: values.astype(object) if name in features else values for name, values in columns.items()
        }
    bunch = make_bunch(
        columns,
        features=features,
        target=target,
        descr="hospital",
        as_frame=as_frame,
        user_ids=columns["patient"].astype(np.int64),
        feature_bounds=dict(_BOUNDS),
        categories={name: list(values) for name, values in _CATEGORIES.items()},
    )
    return select_outputs(bunch, return_X_y, return_users)
