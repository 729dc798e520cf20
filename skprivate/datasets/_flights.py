"""Flights grouped by aircraft: many rows for each user, users of unequal size."""

from __future__ import annotations

from typing import Any

import numpy as np

from skprivate._sklearn import StrOptions, validate_params
from skprivate.datasets._load import make_bunch, read_csv, select_outputs

#: Limits that hold for any domestic flight of the United States; nothing here was looked up in the data.
_BOUNDS = {
    "month": (1.0, 12.0),
    "hour": (0.0, 24.0),
    "distance": (0.0, 5000.0),
    "dep_delay": (-60.0, 1440.0),
    "air_time": (0.0, 720.0),
    "arr_delay": (-120.0, 1440.0),
}
_FEATURES = ["month", "hour", "distance", "dep_delay"]


@validate_params(
    {
        "target": [StrOptions({"arr_delay", "air_time"})],
        "return_X_y": ["boolean"],
        "return_users": ["boolean"],
        "as_frame": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def load_flights(
    *,
    target: str = "arr_delay",
    return_X_y: bool = False,
    return_users: bool = False,
    as_frame: bool = False,
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
    bunch = make_bunch(
        columns,
        features=_FEATURES,
        target=target,
        descr="flights",
        as_frame=as_frame,
        user_ids=columns["aircraft"].astype(np.int64),
        feature_bounds={name: _BOUNDS[name] for name in _FEATURES},
        target_bounds=_BOUNDS[target],
    )
    return select_outputs(bunch, return_X_y, return_users)
