"""Results of an attack, and exact intervals for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv
from scipy.stats import rankdata

from skprivate.audit import _epsilon

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RateAtThreshold:
    """True positive rate at a threshold set on the non-members' scores, with exact intervals.

    ``fpr`` is what the threshold attains, at most the rate that was ``requested``: less where scores tie.
    """

    fpr: float
    fpr_interval: tuple[float, float]
    tpr: float
    tpr_interval: tuple[float, float]
    threshold: float
    requested: float = float("nan")


@dataclass(frozen=True)
class AttackReport:
    """Figures of one attack on records with known membership.

    Attributes
    ----------
    n_members, n_nonmembers : int
    auc : float
        Area under the ROC curve, ties counted half.
    auc_interval : (float, float)
        Distribution-free (McDiarmid).
    rates : tuple of RateAtThreshold
        One entry for each requested false positive rate.
    confidence : float
        Coverage of each interval.
    fpr_curve, tpr_curve : ndarray
        The ROC curve.
    accuracy : float or None
        Share of records guessed right with the threshold that was given; None without one.
    accuracy_interval : (float, float) or None
        Exact (Clopper and Pearson).
    """

    n_members: int
    n_nonmembers: int
    auc: float
    auc_interval: tuple[float, float]
    rates: tuple[RateAtThreshold, ...]
    confidence: float
    fpr_curve: npt.NDArray[np.float64] = field(repr=False, compare=False)
    tpr_curve: npt.NDArray[np.float64] = field(repr=False, compare=False)
    accuracy: float | None = None
    accuracy_interval: tuple[float, float] | None = None

    @property
    def best_accuracy(self) -> float:
        """Best balanced accuracy over all thresholds on these scores: optimistic, as they are chosen on them."""
        return float(0.5 * (1.0 + np.abs(self.tpr_curve - self.fpr_curve).max()))

    def __str__(self) -> str:
        low, high = self.auc_interval
        lines = [
            f"Attack on {self.n_members} members and {self.n_nonmembers} non-members",
            f"  AUC {self.auc:.3f}  [{low:.3f}, {high:.3f}] at {self.confidence:g}",
        ]
        if self.accuracy is not None and self.accuracy_interval is not None:
            low, high = self.accuracy_interval
            lines.append(f"  accuracy {self.accuracy:.3f}  [{low:.3f}, {high:.3f}]")
        for rate in self.rates:
            low, high = rate.tpr_interval
            lines.append(
                f"  TPR {rate.tpr:.3f} [{low:.3f}, {high:.3f}] at FPR {rate.fpr:.3%} (up to {rate.requested:.3%})"
            )
        return "\n".join(lines)


def clopper_pearson(successes: int, trials: int, confidence: float, *, side: str = "two-sided") -> tuple[float, float]:
    """Compute an exact interval for a binomial probability (Clopper and Pearson 1934), "two-sided", "lower" or "upper".

    One-sided intervals spend all of the failure probability on one end; the other end is 0 or 1.
    """
    alpha = 1.0 - confidence
    if side == "two-sided":
        alpha /= 2.0
    low = float(betaincinv(successes, trials - successes + 1, alpha)) if successes > 0 else 0.0
    high = float(betainccinv(successes + 1, trials - successes, alpha)) if successes < trials else 1.0
    if side == "lower":
        high = 1.0
    elif side == "upper":
        low = 0.0
    return low, high


def quantile_rate_interval(rank: int, n: int, confidence: float) -> tuple[float, float]:
    """Exact interval for ``P(score > threshold)`` when the threshold is itself an order statistic.

    With the threshold at the ``rank``-th largest of n independent scores (so that rank − 1 scores lie above
    it), the probability of exceeding it is Beta(rank, n − rank + 1) distributed for a continuous law; ties
    only lower it.
    """
    alpha = (1.0 - confidence) / 2.0
    return float(betaincinv(rank, n - rank + 1, alpha)), float(betainccinv(rank, n - rank + 1, alpha))


def roc_auc(scores: Array, membership: npt.NDArray[np.bool_]) -> float:
    """Area under the ROC curve, ties counted half."""
    ranks = rankdata(scores)
    n_in = int(membership.sum())
    n_out = membership.size - n_in
    return float((ranks[membership].sum() - n_in * (n_in + 1) / 2.0) / (n_in * n_out))


def auc_interval(auc: float, n_in: int, n_out: int, confidence: float) -> tuple[float, float]:
    """Distribution-free interval for the AUC: ``± √(ln(2/α) (n_in + n_out) / (2 n_in n_out))``.

    McDiarmid's inequality: one member's score moves the AUC by at most 1/n_in, one non-member's by 1/n_out
    (Agarwal et al. 2005). Valid for every sample size, wider than asymptotic intervals.
    """
    width = math.sqrt(math.log(2.0 / (1.0 - confidence)) * (n_in + n_out) / (2.0 * n_in * n_out))
    return max(0.0, auc - width), min(1.0, auc + width)


def attack_report(
    scores: npt.ArrayLike,
    membership: npt.ArrayLike,
    *,
    fpr: Iterable[float] = (0.01, 0.001),
    confidence: float = 0.95,
    threshold: float | None = None,
) -> AttackReport:
    """Summarise attack scores: AUC and true positive rates at low false positive rates, with exact intervals.

    The threshold for a false positive rate f is the smallest that at most a share f of the non-members
    exceed. It depends on the non-members only, so the members above it are binomial (Clopper–Pearson), and
    the true false positive rate has the Beta law of an order statistic: no asymptotics, and no data are set
    aside.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Larger means more likely a member; chosen without looking at ``membership``.
    membership : array-like of shape (n,)
        True (1) for members.
    fpr : iterable of float, default=(0.01, 0.001)
        False positive rates, in [0, 1).
    confidence : float, default=0.95
        Coverage of each interval.
    threshold : float or None, default=None
        A score above which a record is called a member, chosen on other data: gives ``accuracy``.

    Returns
    -------
    AttackReport

    See Also
    --------
    epsilon_lower_bound : Bounds ε from the same scores.
    sklearn.metrics.roc_curve : Computes all rates, without intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import attack_report
    >>> rng = np.random.default_rng(0)
    >>> member = rng.integers(0, 2, size=1000) == 1
    >>> report = attack_report(rng.normal(size=1000) + member, member)
    >>> 0.70 < report.auc < 0.80
    True
    """
    values, member = _epsilon._check_pair(scores, membership, "scores", "membership")
    inside, outside = np.sort(values[member]), np.sort(values[~member])[::-1]
    n_in, n_out = inside.size, outside.size
    rates = []
    for target in fpr:
        if not 0.0 <= target < 1.0:
            raise ValueError(f"fpr must be in [0, 1); got {target!r}.")
        rank = int(np.floor(target * n_out + 1e-9)) + 1  # the rank-th largest non-member is not exceeded
        cut = float(outside[rank - 1])
        hits = n_in - int(np.searchsorted(inside, cut, side="right"))
        false = int((outside > cut).sum())
        rates.append(
            RateAtThreshold(
                false / n_out,
                quantile_rate_interval(rank, n_out, confidence),
                hits / n_in,
                clopper_pearson(hits, n_in, confidence),
                cut,
                target,
            )
        )
    cuts = np.concatenate([[np.inf], np.unique(values)[::-1]])
    tpr_curve = 1.0 - np.searchsorted(inside, cuts, side="left") / n_in
    fpr_curve = 1.0 - np.searchsorted(outside[::-1], cuts, side="left") / n_out
    auc = roc_auc(values, member)
    right = None if threshold is None else int(((values > threshold) == member).sum())
    return AttackReport(
        n_members=n_in,
        n_nonmembers=n_out,
        auc=auc,
        auc_interval=auc_interval(auc, n_in, n_out, confidence),
        rates=tuple(rates),
        confidence=confidence,
        fpr_curve=fpr_curve,
        tpr_curve=tpr_curve,
        accuracy=None if right is None else right / values.size,
        accuracy_interval=None if right is None else clopper_pearson(right, values.size, confidence),
    )
