import numpy as np
import pytest


@pytest.fixture
def table():
    """A small public table of categories with a skewed and a missing value, and labels that depend on a cross."""
    rng = np.random.default_rng(3)
    n = 600
    a = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])
    b = rng.choice(3, n)
    c = rng.choice(5, n)
    score = 0.8 * a - 0.7 * (b == 2) + 0.6 * ((a == 1) & (c > 2)) - 0.8
    return np.column_stack([a, b, c]), score, rng
