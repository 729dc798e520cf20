"""Taxi trips: locations of people."""

from __future__ import annotations

from typing import Any

import numpy as np

from skprivate._sklearn import validate_params
from skprivate.datasets._load import make_bunch, read_csv, select_outputs

_FEATURES = ["pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude"]
#: Limits of New York City; nothing here was looked up in the data.
_LOWER, _UPPER = (-74.26, 40.49, -74.26, 40.49), (-73.70, 40.92, -73.70, 40.92)


@validate_params({"return_X_y": ["boolean"], "as_frame": ["boolean"]}, prefer_skip_nested_validation=True)
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

    Notes
    -----
    From the New York City Taxi and Limousine Commission, open data. See ``DESCR``.

    Examples
    --------
    >>> from skprivate.datasets import load_locations
    >>> load_locations().data.shape
    (10000, 4)
    """
    bunch = make_bunch(
        read_csv("locations"),
        features=_FEATURES,
        target="trip_duration",
        descr="locations",
        as_frame=as_frame,
        feature_bounds=(np.array(_LOWER), np.array(_UPPER)),
        target_bounds=(0.0, 7200.0),
    )
    return select_outputs(bunch, return_X_y)
