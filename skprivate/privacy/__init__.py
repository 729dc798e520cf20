"""The ground floor: what is promised, what is drawn, what is spent. Knows no estimator."""

from skprivate.privacy._accounting import (
    bounded_range_delta,
    compose_delta,
    compose_epsilon,
    filter_epsilon,
    gaussian_noise_multiplier,
)
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._events import (
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    ZeroConcentratedEvent,
)
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy._ledger import LedgerEntry, PrivacyLedger
from skprivate.privacy._randomness import SimulatedNoiseWarning, public_generator
from skprivate.privacy._release import Release, open_release
from skprivate.privacy._zcdp import epsilon_of_rho, rho_of_epsilon

__all__ = [
    "Adjacency",
    "BoundedRangeEvent",
    "BudgetExceededError",
    "GaussianEvent",
    "LaplaceEvent",
    "LedgerEntry",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PrivacyUnit",
    "PureEvent",
    "Release",
    "SimulatedNoiseWarning",
    "ZeroConcentratedEvent",
    "bounded_range_delta",
    "compose_delta",
    "compose_epsilon",
    "epsilon_of_rho",
    "filter_epsilon",
    "gaussian_noise_multiplier",
    "open_release",
    "public_generator",
    "rho_of_epsilon",
]
