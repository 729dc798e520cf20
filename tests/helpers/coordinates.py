"""Coordinates of rows within the span of public points."""

from skprivate.mixture._geometry import products


def coordinates_on(frame, X):
    """Coordinates of shape (n, dimension) of the projections on the span, and distances of shape (n,) to it."""
    scaled = frame.scaled(X)
    return products(frame.basis, scaled).T, frame.distance(scaled)
