"""Census income: categories that may be known, a label that may be known in aggregate only."""

from __future__ import annotations

from typing import Any

from skprivate._sklearn import validate_params
from skprivate.datasets._load import make_bunch, read_csv, select_outputs

_TARGET = "income"
_CATEGORIES = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "gender",
    "native_country",
)


@validate_params({"return_X_y": ["boolean"], "as_frame": ["boolean"]}, prefer_skip_nested_validation=True)
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
    features = [name for name in columns if name != _TARGET]
    if not as_frame:
        # Rows of numbers and texts side by side would otherwise all become text.
        columns = {name: values.astype(object) for name, values in columns.items()}
        columns[_TARGET] = columns[_TARGET].astype(str)
    bunch = make_bunch(
        columns,
        features=features,
        target=_TARGET,
        descr="adult",
        as_frame=as_frame,
        categorical_features=list(_CATEGORIES),
    )
    if as_frame:
        bunch.frame = bunch.frame.astype(dict.fromkeys(_CATEGORIES, "category"))
        bunch.data, bunch.target = bunch.frame[features], bunch.frame[_TARGET]
    return select_outputs(bunch, return_X_y)
