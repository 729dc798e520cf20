"""Privacy primitives: guarantees, releases and their noise, accounting and ledgers. Does not depend on estimators."""

from skprivate._messages import (
    WARNED,
    BudgetExceededError,
    LargeDeltaWarning,
    LedgerUnitWarning,
    OtherVersionWarning,
    SimulatedNoiseError,
    SimulatedNoiseWarning,
    UncountedScoresWarning,
    Versioned,
    forbid_simulated_noise,
    warn_caller,
)
from skprivate.privacy._contributions import (
    CONTRIBUTION_BITS,
    CONTRIBUTION_STEP,
    ball_contributions,
    exact_sum,
    interval_contributions,
    upper_root,
)
from skprivate.privacy._events import (
    ApproximateEvent,
    BoundedRangeEvent,
    Events,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    PureEvent,
    ZeroConcentratedEvent,
    count_events,
    events_of_plain,
)
from skprivate.privacy._guarantee import (
    PUBLIC_BEFORE,
    SEARCHED,
    STEP_ALONE,
    TO_THE_LAST_BIT,
    Adjacency,
    PrivacyGuarantee,
    PrivacyUnit,
)
from skprivate.privacy._identifiers import (
    KEEPS_IDENTIFIER,
    KEEPS_PLACE,
    N_KINDS,
    chosen_keys,
    encode_identifiers,
    fingerprint,
    hash_identifiers,
    identifier_tags,
    in_one_order,
    kind_of_identifiers,
    kinds_in_words,
    mix_tags,
    refuse_other_index,
    several_kinds,
)
from skprivate.privacy._mechanism import Mechanism
from skprivate.privacy._release import (
    Branch,
    PaymentIsNext,
    Rehearsal,
    Release,
    SharedBudget,
    cost_of_plan,
    open_branches,
    open_release,
    payment_gate,
)
from skprivate.privacy._risk import PrivacyRisk, _percent, epsilon_of_risk
from skprivate.privacy._understated import as_stated, understated
from skprivate.privacy.accounting._composition import (
    compose_delta,
    compose_epsilon,
    filter_epsilon,
    gaussian_noise_multiplier,
)
from skprivate.privacy.accounting._zcdp import epsilon_of_rho, rho_of_epsilon
from skprivate.privacy.draws._draws import SelectionRule
from skprivate.privacy.ledger._entries import LedgerEntry, Quote
from skprivate.privacy.ledger._ledger import PrivacyLedger
from skprivate.privacy.ledger._store import DamagedLedgerError
from skprivate.privacy.noise._bits import GENERATORS, RandomStateLike, public_generator
from skprivate.privacy.search._curve import Repetitions
from skprivate.privacy.search._stopping import SearchPlan, Selected, plan_search, search_epsilon, select_repeatedly

__all__ = [
    "Adjacency",
    "ApproximateEvent",
    "BoundedRangeEvent",
    "BudgetExceededError",
    "DamagedLedgerError",
    "GaussianEvent",
    "LaplaceEvent",
    "LargeDeltaWarning",
    "LedgerUnitWarning",
    "Mechanism",
    "OtherVersionWarning",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PrivacyUnit",
    "PureEvent",
    "Release",
    "SimulatedNoiseError",
    "SimulatedNoiseWarning",
    "UncountedScoresWarning",
    "ZeroConcentratedEvent",
    "ball_contributions",
    "compose_delta",
    "compose_epsilon",
    "epsilon_of_risk",
    "exact_sum",
    "filter_epsilon",
    "forbid_simulated_noise",
    "gaussian_noise_multiplier",
    "interval_contributions",
    "open_branches",
    "open_release",
    "plan_search",
    "select_repeatedly",
    "upper_root",
]
