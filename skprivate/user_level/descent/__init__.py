"""Descent: linear models from noisy gradients or second moments."""
