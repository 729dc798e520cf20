"""Privacy guarantees: unit, neighbouring relation and the cost of what was drawn."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate._messages import Versioned, at_least, delta_number, member, must_be, rounded_up
from skprivate.privacy import _events
from skprivate.privacy._risk import Curves, PrivacyRisk, at_distance, privacy_curves, risk_of, trade_off_of
from skprivate.privacy.accounting import _composition

#: In an assumption about foreign code that maps rows; nothing here can check it, so reports ask a reviewer to.
TO_THE_LAST_BIT = "to the last bit"
#: Assumption of every fit that protects more than labels, and of a part of a composite: the others count, too.
PUBLIC_BEFORE = "before the fit, rows were changed by public rules only"
STEP_ALONE = "this is the guarantee of one step alone: before it, rows were changed by public rules only"
#: Fact about a fit, among its assumptions so that it goes where they go.
SEARCHED = "a search of scikit-learn made this fit, by scores without noise, which are not counted here"
_ALONE = "of this step alone"


class PrivacyUnit(StrEnum):
    """Unit of protection, whose data may change between neighbouring inputs."""

    ROW = "row"
    PRIVATE_ROW = "private row"
    USER = "user"
    LABEL = "label"
    DATASET = "data set"


class Adjacency(StrEnum):
    """Relation of neighbouring inputs, which differ in one unit; under ``METRIC``, ε is per unit of distance."""

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"
    METRIC = "metric"


@dataclass(frozen=True)
class PrivacyGuarantee(Versioned):
    """A differential privacy guarantee with all that is needed to read it.

    Estimators build it from the events that were drawn (`Release.close`); one that was asserted says so (``stated``).

    Parameters
    ----------
    epsilon : float
        Privacy loss bound, ``inf`` if nothing is promised. Per unit of distance when ``adjacency`` is "metric".
    delta : float
        Probability (in [0, 1)) by which the ε bound may fail.
    unit : PrivacyUnit
        What is protected.
    adjacency : Adjacency
        How neighbouring inputs differ.
    metric : str or None
        The distance, for metric privacy.
    assumptions : tuple of str
        What has to be true outside the code, for example that given bounds are public.
    theorem : str
        Where the guarantee is proven.
    events : tuple of (PrivacyEvent, int)
        What was drawn and how often.
    valid_for_release : bool
        False if the noise was simulated (integer ``random_state``).
    adaptive : bool
        Whether draws outside a plan may have depended on earlier results. Such events compose by the sum only.
    stated : bool
        Whether somebody else stated it, for data that came without the draws.
    ledger_entry : str
        Where it was paid: the ledger's identity and the number of the entry; empty without a ledger.

    See Also
    --------
    guarantee_of : Composes the guarantee of a whole model.
    privacy_report : Explains it to reviewers.
    GuaranteeDisplay : Plots its trade-off curve.

    Examples
    --------
    >>> from skprivate.privacy import open_release
    >>> with open_release(epsilon=1.0, unit="row", adjacency="add-remove") as release:
    ...     noisy = release.discrete_laplace([120, 80], sensitivity=1, epsilon=1.0)
    >>> print(release.close())
    1-differential privacy for one row (add-remove)
    """

    epsilon: float
    delta: float
    unit: PrivacyUnit
    adjacency: Adjacency
    metric: str | None = None
    assumptions: tuple[str, ...] = ()
    theorem: str = ""
    events: tuple[tuple[_events.PrivacyEvent, int], ...] = ()
    valid_for_release: bool = True
    adaptive: bool = False
    stated: bool = False
    ledger_entry: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", member(PrivacyUnit, "unit", self.unit))
        object.__setattr__(self, "adjacency", member(Adjacency, "adjacency", self.adjacency))
        at_least("epsilon", self.epsilon, 0)
        delta_number(self.delta)
        if (self.adjacency is Adjacency.METRIC) != (self.metric is not None):
            allowed = "the name of a distance with adjacency='metric', and None otherwise"
            raise ValueError(must_be("metric", allowed, self.metric, f"The adjacency is {str(self.adjacency)!r}."))

    def compose(self, *others: PrivacyGuarantee) -> PrivacyGuarantee:
        """Guarantee of releasing all results together.

        The δ add up; ε is the smaller of the sum and, where none of them drew adaptively, what the events of all
        releases compose to at that δ. This holds when no release's plan was chosen after looking at another's output;
        otherwise use the sum, or a `PrivacyLedger`.

        Raises
        ------
        ValueError
            If unit, adjacency or metric differ, or if the δ add up to 1 or more, where (ε, δ) promises nothing.
        """
        every = (self, *others)
        if wrong := {type(one).__name__ for one in others if not isinstance(one, PrivacyGuarantee)}:
            advice = "Unpack a list: first.compose(*rest)."
            raise TypeError(f"others must be guarantees, got {', '.join(sorted(wrong))}. {advice}")
        for name in ("unit", "adjacency", "metric"):
            found = sorted({str(getattr(guarantee, name)) for guarantee in every})
            if len(found) > 1:
                raise ValueError(f"guarantees compose only for the same {name}, got {', '.join(found)}.")
        delta = _composition.add_up([guarantee.delta for guarantee in every])
        if delta >= 1:
            raise ValueError(f"the delta of all guarantees must add up to less than 1, got {delta!r}.")
        epsilon = _composition.add_up([guarantee.epsilon for guarantee in every])
        events = _events.count_events(pair for guarantee in every for pair in guarantee.events)
        adaptive = any(guarantee.adaptive for guarantee in every)
        if any(not guarantee.events and guarantee.epsilon + guarantee.delta > 0 for guarantee in every):
            events = {}  # a part of what was drawn is not the whole, neither here nor in a further composition
        elif not adaptive:
            # A bound that needs δ is no multiple of itself at a multiple of the distance.
            epsilon = min(epsilon, _composition.compose_epsilon(events, 0.0 if self.metric else delta))
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=delta,
            unit=self.unit,
            adjacency=self.adjacency,
            metric=self.metric,
            assumptions=tuple(dict.fromkeys(text for guarantee in every for text in guarantee.assumptions)),
            theorem="; ".join(dict.fromkeys(guarantee.theorem for guarantee in every if guarantee.theorem)),
            events=tuple(events.items()),
            valid_for_release=all(guarantee.valid_for_release for guarantee in every),
            adaptive=adaptive,
            stated=any(guarantee.stated for guarantee in every),
        )

    def risk(self, prior: float = 0.5, fpr: float = 0.01, *, distance: float | None = None) -> PrivacyRisk:
        """ε in words: what the best attacker can know of one unit.

        Computed from the curve δ(ε) of all events, often much better than what (ε, δ) alone says; never optimistic.

        Parameters
        ----------
        prior : float in (0, 1), default=0.5
            Probability, before the release, that the unit took part (or that it is the one of two candidates).
        fpr : float in (0, 1), default=0.01
            How often the attacker may be wrong about those who did not.
        distance : float, optional
            Between the two candidates, where ε is per unit of distance; required there.

        Returns
        -------
        PrivacyRisk

        Raises
        ------
        ValueError
            If a number is out of range, or ``distance`` is missing or has no meaning.

        Examples
        --------
        >>> from skprivate.privacy import open_release
        >>> with open_release(epsilon=1.0, unit="row", adjacency="add-remove") as release:
        ...     noisy = release.discrete_laplace([120, 80], sensitivity=1, epsilon=1.0)
        >>> risk = release.close().risk(prior=0.1, fpr=0.01)
        >>> f"{100 * risk.tpr:.1f} % are recognised, and an accusation is true with {100 * risk.posterior:.0f} %"
        '2.7 % are recognised, and an accusation is true with 23 %'
        """
        return risk_of(self._curves(distance), prior, fpr)

    def trade_off(self, fpr: ArrayLike, *, distance: float | None = None) -> NDArray[np.float64]:
        """Largest true positive rates of any attack at the given false positive rates: its best possible ROC curve.

        Parameters
        ----------
        fpr : array-like of float in [0, 1]
            False positive rates.
        distance : float, optional
            As in `risk`.

        Returns
        -------
        tpr : ndarray
            Upper bounds, of the shape of ``fpr``.
        """
        return trade_off_of(self._curves(distance), fpr)

    def _curves(self, distance: float | None) -> Curves:
        """Make the curve δ(ε) for two candidates at a distance."""
        if (self.metric is None) != (distance is None):
            raise ValueError(
                f"distance must be {'None' if self.metric is None else 'a number >= 0'} for a guarantee whose ε is "
                f"{'not ' if self.metric is None else ''}per unit of distance, got {distance!r}."
            )
        if distance is not None:
            return privacy_curves(at_distance(self.epsilon, distance), self.delta, (), adaptive=self.adaptive)
        return privacy_curves(self.epsilon, self.delta, self.events, adaptive=self.adaptive)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, where an infinite ε is None; `from_dict` makes an equal guarantee of it."""
        return {
            "epsilon": None if math.isinf(self.epsilon) else float(self.epsilon),
            "delta": float(self.delta),
            "unit": str(self.unit),
            "adjacency": str(self.adjacency),
            "metric": self.metric,
            "assumptions": list(self.assumptions),
            "theorem": self.theorem,
            "events": _events.plain_events(self.events),
            "valid_for_release": self.valid_for_release,
            "adaptive": self.adaptive,
            "stated": self.stated,
            "ledger_entry": self.ledger_entry,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> PrivacyGuarantee:
        """Inverse of `to_dict`; everything but ``epsilon``, ``delta``, ``unit`` and ``adjacency`` may be left out.

        Without ``stated`` it was not `to_dict` that wrote it, and the guarantee counts as a stated one.

        Parameters
        ----------
        plain : mapping
            What `to_dict` returned, perhaps read from JSON.

        Returns
        -------
        PrivacyGuarantee

        Raises
        ------
        ValueError
            If a value is out of range, or an event is of no known kind.
        """
        fields = {"stated": True, **plain}
        fields["epsilon"] = math.inf if fields["epsilon"] is None else fields["epsilon"]
        fields["assumptions"] = tuple(fields.get("assumptions", ()))
        fields["events"] = tuple(_events.events_of_plain(fields.get("events", ())))
        return cls(**fields)

    def __repr__(self) -> str:
        # scikit-learn's HTML cuts attributes at 30 characters; `str` and HTML say everything.
        parts = [f"ε={rounded_up(self.epsilon, 4)}" + (f" per {self.metric}" if self.metric else "")]
        parts += [f"δ={rounded_up(self.delta, 3)}"] if self.delta else []
        parts += [str(self.unit), *(["stated"] if self.stated else [])]
        parts += [] if self.valid_for_release else ["simulated"]
        parts += [_ALONE] if STEP_ALONE in self.assumptions else []
        return f"<{', '.join(parts)}>"

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            text = f"no privacy for a {self.unit}"
        else:
            epsilon, delta = rounded_up(self.epsilon), rounded_up(self.delta, 3)
            budget = epsilon if self.delta == 0 else f"({epsilon}, {delta})"
            if self.adjacency is Adjacency.METRIC:
                text = f"{budget}-metric privacy for one {self.unit} ({self.metric}; ε per unit of distance)"
            else:
                text = f"{budget}-differential privacy for one {self.unit} ({self.adjacency})"
        if STEP_ALONE in self.assumptions:
            text += f", {_ALONE}"
        if self.stated:
            text += " [stated by the supplier, not computed here]"
        return text if self.valid_for_release else text + " [simulated noise: not valid for release]"

    def _repr_html_(self) -> str:
        rows = [
            ("ε", rounded_up(self.epsilon)),
            ("δ", rounded_up(self.delta, 3)),
            ("unit", str(self.unit)),
            ("adjacency", str(self.adjacency)),
            *([("metric", self.metric)] if self.metric else []),
            *([("theorem", self.theorem)] if self.theorem else []),
            *([("assumptions", "; ".join(self.assumptions))] if self.assumptions else []),
            ("valid for release", "yes" if self.valid_for_release else "no: simulated noise"),
        ]
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows)
        return f"<table><caption>{html.escape(str(self))}</caption>{cells}</table>"
