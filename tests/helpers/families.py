"""Problems of mixtures, and families of hypotheses one by one."""

from skprivate.mixture._problem import MixtureRows, Problem
from skprivate.partitions import InMemory


def build_problem(X, *, private, has_private_label, weights, size_is_public):
    """Set up the problem of rows in memory."""
    return Problem.of(
        InMemory(MixtureRows(X, private, has_private_label)),
        weights,
        n_rows=len(X),
        n_public=int((~private).sum()),
        n_public_label=int((~has_private_label).sum()),
        size_is_public=size_is_public,
    )


def all_errors(family):
    """Yield every hypothesis with its errors."""
    for numbers, describe in family.errors(slice(None)):
        for position, errors in enumerate(numbers):
            yield describe(position), int(errors)
