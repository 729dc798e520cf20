"""Check a model before it is fitted: what each step would do with private rows."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

from sklearn.base import BaseEstimator

from skprivate.inspection import _guarantee_of
from skprivate.inspection._steps import LABELS_ONLY, Place, Role, Step
from skprivate.preprocessing import PrivateOneHotEncoder, cost_of_finding


@dataclass(frozen=True)
class StepReport:
    """Report on one step of a model that is not fitted.

    Parameters
    ----------
    path : str
        Where the step is, and its class.
    role : str
        "private", "looks at no data", "sees released rows only", "fitted before" or "looks at private rows".
    why : str
        For a step that looks at private rows: what it does with them, and what to do instead. For some that look at no
        data: what they make of rows.
    epsilon, delta : float or None
        Budget of one fit of a private step. For a model that was fitted before, its guarantee.
    copies : int or None
        How many of it are fitted; None if only the data tell.
    times : str
        What tells the number of copies then.
    conditions : tuple of str
        What has to be true for its guarantee to carry over, or outside the code.
    within : str
        Step whose budget covers this one: it adds nothing to the sum.
    """

    path: str
    role: str
    why: str = ""
    epsilon: float | None = None
    delta: float | None = None
    copies: int | None = 1
    times: str = ""
    conditions: tuple[str, ...] = ()
    within: str = ""


@dataclass(frozen=True)
class PipelineReport:
    """Report on every step of a model that is not fitted.

    Parameters
    ----------
    model : str
        Class of the model.
    steps : tuple of StepReport
        In the order of the walk.
    """

    model: str
    steps: tuple[StepReport, ...]

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """Paths of the steps that would look at private rows without a guarantee, and why."""
        return tuple((step.path, step.why) for step in self.steps if step.role == Role.UNPROTECTED)

    @property
    def could_hold(self) -> bool:
        """Possibility that `guarantee_of` succeeds after `fit`; units, ids and conditions are seen only then."""
        return not self.problems and any(step.role == Role.PRIVATE for step in self.steps)

    @property
    def epsilon(self) -> float | None:
        """Sum of the budgets of all fits, an upper bound of what they compose to; None if their number is not known."""
        private = [step for step in self.steps if step.role == Role.PRIVATE and not step.within]
        shares = [math.nan if s.copies is None or s.epsilon is None else s.copies * s.epsilon for s in private]
        total = math.fsum(shares)
        return None if math.isnan(total) else total

    @property
    def summary(self) -> str:
        """Summary in one line."""
        if self.problems:
            n = len(self.problems)
            what = "a step looks" if n == 1 else f"{n} steps look"
            return f"{self.model}: no guarantee could hold; {what} at private rows without one"
        if not self.could_hold:
            return f"{self.model}: nothing in it is private"
        total = "" if self.epsilon is None else f", budgets add up to ε = {self.epsilon:.6g}"
        return f"{self.model}: a guarantee could hold{total}"

    def _rows(self) -> list[tuple[str, str, str]]:
        rows = []
        for step in self.steps:
            budget = "" if step.epsilon is None else f"ε = {step.epsilon:.6g}"
            budget += f", δ = {step.delta:.3g}" if step.delta else ""
            budget += f", within those of {step.within!r}" if step.within else ""
            times = {1: "", None: f", {step.times}"}.get(step.copies, f", {step.copies} times")
            notes = "; ".join(text for text in (budget + times if budget else "", step.why, *step.conditions) if text)
            rows.append((step.path, step.role, notes))
        return rows

    def __str__(self) -> str:
        lines = [f"- {path}: {role}" + (f" ({notes})" if notes else "") for path, role, notes in self._rows()]
        return "\n".join([self.summary, *lines])

    def _repr_html_(self) -> str:
        head = "<tr><th>step</th><th>private rows</th><th>notes</th></tr>"
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in self._rows()
        )
        return f"<table><caption>{html.escape(self.summary)}</caption>{head}{body}</table>"


def check_pipeline(model: BaseEstimator, *, raise_: bool = False) -> PipelineReport:
    """Say, before `fit` and before anything is spent, what each step of a model would do with private rows.

    Parameters
    ----------
    model : estimator
        An estimator or a composite, fitted or not; only its parameters are read.
    raise_ : bool, default=False
        Whether to raise an error if no guarantee could hold.

    Returns
    -------
    PipelineReport
        Prints as a list, and as a table in notebooks.

    Raises
    ------
    NoGuaranteeError
        With ``raise_=True``, if a step would look at private rows without a guarantee, or nothing is private.

    See Also
    --------
    guarantee_of : States what holds after `fit`.
    quote : Computes the cost of a fit.

    Notes
    -----
    Guarantee: none is stated. What the units will be, whether all members get their ``user_ids``, and the conditions
    that composites put on adjacency are known only after `fit`.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skprivate import UserLevelSGDRegressor, check_pipeline
    >>> report = check_pipeline(make_pipeline(StandardScaler(), UserLevelSGDRegressor(epsilon=1.0)))
    >>> report.could_hold
    False
    >>> report.problems[0][0]
    "pipeline step 'standardscaler' (StandardScaler)"
    """
    if not hasattr(model, "fit") or isinstance(model, type):
        raise TypeError(f"model must be an estimator, got {type(model).__name__}.")
    steps = list(_guarantee_of.walk(model, Place(fitted=False)))
    only_labels = protects_labels_only(steps)
    report = PipelineReport(type(model).__name__, tuple(_reported(step, only_labels) for step in steps))
    if raise_ and not report.could_hold:
        raise _guarantee_of.NoGuaranteeError(str(report), report.problems)
    return report


def protects_labels_only(steps: list[Step]) -> bool:
    """Tell if features are public, because all private steps protect labels."""
    private = [step.model for step in steps if step.role is Role.PRIVATE]
    return bool(private) and all(isinstance(model, LABELS_ONLY) for model in private)


def _reported(step: Step, only_labels: bool) -> StepReport:
    if step.role is Role.FEATURES:
        if not only_labels:
            return StepReport(step.path, str(Role.UNPROTECTED), step.why)
        return StepReport(step.path, str(step.role), conditions=("features are public: only labels are protected",))
    texts = (*step.assumptions, *_guarantee_of.of_rows(step, only_labels))
    if step.role is not Role.PRIVATE:
        return StepReport(step.path, str(step.role), step.why, conditions=texts)
    if isinstance(step.model, PrivateOneHotEncoder) and not step.place.fitted:
        texts = (*texts, _found(step))
    paid = step.model.privacy_guarantee_ if step.place.paid else None
    conditions = (*texts, *(demand.text for demand in step.place.demands))
    return StepReport(
        step.path,
        str(step.role),
        epsilon=paid.epsilon if paid else step.stated("epsilon"),
        delta=paid.delta if paid else step.stated("delta"),
        copies=step.place.copies.number,
        times=step.place.copies.times if step.place.copies.number is None else "",
        conditions=conditions,
        within=step.within,
    )


def _found(step: Step) -> str:
    """Say what it costs to find categories, and which are found."""
    epsilon, delta, least = cost_of_finding(step.model, step.place.payer)
    if least is None:
        return "categories are found only with a positive delta"
    which = f"values that about {least}·√k rows or users have, in k columns"
    return f"finds {which}, for ε = {epsilon:.3g}, δ = {delta:.3g}"
