"""Certificates: bounds on every adversary."""

from skprivate.audit.certificates._certificates import certify_labels, inside_support, support_diameter
from skprivate.audit.certificates._concentration import binary_entropy
