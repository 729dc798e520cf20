"""Scaling: private centres and scales of features and target."""
