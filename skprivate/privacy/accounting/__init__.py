"""Accounting: composition of events, zero-concentrated privacy, Gaussian curves, loss distributions."""

from skprivate.privacy.accounting._composition import compose_epsilon
from skprivate.privacy.accounting._gaussian import gaussian_delta
