"""What the privacy floor refuses with."""

from __future__ import annotations

__all__ = ["BudgetExceededError"]


class BudgetExceededError(ValueError):
    """A draw or a release does not fit in what is left of its budget.

    Raised before anything is drawn or written: the budget is as it was.

    Parameters
    ----------
    message : str
        What was asked, what is left, and what to do.
    required, remaining : tuple of (epsilon, delta), optional
        The price that was refused and what was left, for programs that catch the error.

    Attributes
    ----------
    required, remaining : tuple of (float, float) or None
        As given.
    """

    def __init__(
        self,
        message: str,
        *,
        required: tuple[float, float] | None = None,
        remaining: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.required = required
        self.remaining = remaining
