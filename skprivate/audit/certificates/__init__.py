"""Certificates: bounds on every adversary, and the theorems of Diaz, Kairouz, Liao and Sankar (2019)."""

from skprivate.audit.certificates._theory import TheoremBound as TheoremBound
from skprivate.audit.certificates._theory import barron_constant as barron_constant
from skprivate.audit.certificates._theory import (
    gaussian_mixture_barron_constant as gaussian_mixture_barron_constant,
)
from skprivate.audit.certificates._theory import gaussian_mixture_loss as gaussian_mixture_loss
from skprivate.audit.certificates._theory import theorem1_gap as theorem1_gap
from skprivate.audit.certificates._theory import theorem2_gap as theorem2_gap
from skprivate.audit.certificates._theory import theorem3_gap as theorem3_gap
from skprivate.audit.certificates._theory import theorem_bound as theorem_bound
