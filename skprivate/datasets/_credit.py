"""Credit card clients, of whom those who defaulted are the private population."""

from __future__ import annotations

from typing import Any

import numpy as np

from skprivate._sklearn import validate_params
from skprivate.datasets._load import make_bunch, read_csv, select_outputs

_TARGET = "default"


@validate_params({"return_X_y": ["boolean"], "as_frame": ["boolean"]}, prefer_skip_nested_validation=True)
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
    columns: dict[str, np.ndarray] = read_csv("credit_default")
    columns[_TARGET] = columns[_TARGET].astype(np.int64)
    features = [name for name in columns if name != _TARGET]
    bunch = make_bunch(columns, features=features, target=_TARGET, descr="credit_default", as_frame=as_frame)
    return select_outputs(bunch, return_X_y)
