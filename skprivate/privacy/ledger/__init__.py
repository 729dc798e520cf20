"""The ledger: a durable privacy budget of one data set."""

from skprivate.privacy.ledger._costs import NOTHING, Cost, Totals, stays_apart
from skprivate.privacy.ledger._entries import ENTRY_COLUMNS, LedgerEntry, Quote, dearest_part, today
from skprivate.privacy.ledger._ledger import charged_only_to
