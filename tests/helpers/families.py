"""Families of hypotheses of a mixture, one by one."""


def all_errors(family):
    """Yield every hypothesis with its errors."""
    for numbers, describe in family.errors(slice(None)):
        for position, errors in enumerate(numbers):
            yield describe(position), int(errors)
