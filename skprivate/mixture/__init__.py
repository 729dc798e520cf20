"""Learning from mixtures of private and public populations."""

from skprivate.mixture._planning import ppm_sample_size

__all__ = ["ppm_sample_size"]
