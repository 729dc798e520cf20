"""Privacy primitives: what is promised, what is drawn, what is spent. Knows no estimator."""

from skprivate.privacy._accounting import (
    compose_delta,
    compose_epsilon,
    filter_epsilon,
    gaussian_noise_multiplier,
)
from skprivate.privacy._branches import Branch, open_branches
from skprivate.privacy._contributions import (
    CONTRIBUTION_BITS,
    CONTRIBUTION_STEP,
    ball_contributions,
    exact_sum,
    interval_contributions,
    upper_root,
)
from skprivate.privacy._draws import SelectionRule
from skprivate.privacy._errors import BudgetExceededError
from skprivate.privacy._events import (
    ApproximateEvent,
    BoundedRangeEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    ZeroConcentratedEvent,
)
from skprivate.privacy._guarantee import Adjacency, PrivacyGuarantee, PrivacyUnit
from skprivate.privacy._ledger import DamagedLedgerError, LedgerEntry, PrivacyLedger
from skprivate.privacy._ledger_quote import Quote
from skprivate.privacy._ledger_reserve import DisjointParts
from skprivate.privacy._loss_distribution import bounded_range_delta
from skprivate.privacy._mechanism import Mechanism
from skprivate.privacy._random_stopping import SearchPlan, plan_search, search_epsilon
from skprivate.privacy._randomness import public_generator
from skprivate.privacy._release import Release, open_release
from skprivate.privacy._repeated import Selected, select_repeatedly
from skprivate.privacy._repetitions import Repetitions
from skprivate.privacy._risk import PrivacyRisk, epsilon_of_risk
from skprivate.privacy._simulation import (
    SimulatedNoiseError,
    SimulatedNoiseWarning,
    forbid_simulated_noise,
)
from skprivate.privacy._warnings import LargeDeltaWarning, LedgerUnitWarning, warn_caller
from skprivate.privacy._zcdp import epsilon_of_rho, rho_of_epsilon

__all__ = [
    "CONTRIBUTION_BITS",
    "CONTRIBUTION_STEP",
    "Adjacency",
    "ApproximateEvent",
    "BoundedRangeEvent",
    "Branch",
    "BudgetExceededError",
    "DamagedLedgerError",
    "DisjointParts",
    "GaussianEvent",
    "LaplaceEvent",
    "LargeDeltaWarning",
    "LedgerEntry",
    "LedgerUnitWarning",
    "Mechanism",
    "PrivacyEvent",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PrivacyRisk",
    "PrivacyUnit",
    "PureEvent",
    "Quote",
    "Release",
    "Repetitions",
    "SearchPlan",
    "Selected",
    "SelectionRule",
    "SimulatedNoiseError",
    "SimulatedNoiseWarning",
    "ZeroConcentratedEvent",
    "ball_contributions",
    "bounded_range_delta",
    "compose_delta",
    "compose_epsilon",
    "epsilon_of_rho",
    "epsilon_of_risk",
    "exact_sum",
    "filter_epsilon",
    "forbid_simulated_noise",
    "gaussian_noise_multiplier",
    "interval_contributions",
    "open_branches",
    "open_release",
    "plan_search",
    "public_generator",
    "rho_of_epsilon",
    "search_epsilon",
    "select_repeatedly",
    "upper_root",
    "warn_caller",
]
