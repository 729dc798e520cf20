"""Lower bounds on ε from the scores of an attack.

``clopper-pearson``
    Scores of independent runs, membership known. (ε, δ)-DP forces ``TPR ≤ e^ε FPR + δ`` and ``TNR ≤ e^ε FNR +
    δ`` for every threshold; exact binomial bounds on both rates give ``ε ≥ ln((TPR_low − δ)/FPR_high)``.
``one-run``
    m records, each put into one training run at random; the attacker names the membership of some of them. Steinke,
    Nasr and Jagielski (2023): with W* ~ Binomial(r, e^ε/(1 + e^ε)), ``P(correct ≥ v) ≤ P(W* ≥ v) + 2 m δ max_i
    P(v > W* ≥ v − i)/i``.
``one-run-fdp``
    The same game under a trade-off curve f (Mahloujifar, Melis and Chaudhuri 2024). For record j let the
    other guesses contain at least c − 1 correct ones. Conditionally on the other coins the outputs under the
    two values of coin j are f-indistinguishable, so ``P(j correct, …) ≤ F(P(j wrong, …))``, ``F(x) = 1 −
    f(x)``. Averaging over j (F is concave) with ``p_i = P(i correct)``: ``Σ_{i ≥ c} (i/m) p_i ≤ F(Σ_{i ≥ c−1}
    ((r − i)/m) p_i)``. Whether ``P(correct ≥ v) = τ`` is possible at all is decided by building the p_i
    downwards from v with as little mass as the constraints allow; mass in excess can always be moved one step
    down, which relaxes every later constraint, so this construction is optimal.

**Coins of probability p.** Given the output and the other coins, the odds of coin j are p/(1 − p) times a ratio of
probabilities of at most e^ε. Under pure ε-DP the name "member" is right with probability at most q₊ = σ(ε + ln(p/(1 −
p))), and "non-member" with at most q₋ = σ(ε − ln(p/(1 − p))), whatever was guessed before. With r₊ and r₋ names of
each kind, fixed beforehand, the number of right ones is dominated by Binomial(r₊, q₊) + Binomial(r₋, q₋). Under δ or a
curve, records of the likelier kind are dropped with probability 1 − min(p, 1 − p)/max(p, 1 − p), by coins of the
auditor: given which are left, and the membership of the others, those left are fair coins, and all of the above holds.

The guesses may depend on the scores in any way, but not on the membership; the *number* of guesses must be fixed
beforehand, be chosen on other data, or be paid for by a union bound. Ties are broken by lot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainccinv, betaincinv, expit, ndtr, ndtri
from scipy.stats import binom

from skprivate.privacy import public_generator

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_MAX_EPSILON = 50.0
Counts = npt.NDArray[np.integer[Any]]
#: Memberships that are less likely than this were not drawn with the stated probability.
_IMPOSSIBLE = 1e-9
_TRADE_OFFS = ("approximate", "gaussian")
_METHODS = ("clopper-pearson", "one-run", "one-run-fdp")


def _unfair_p_value(epsilon: float, p_member: float, guesses: tuple[int, int], correct: int) -> float:
    """Bound the probability of ``correct`` or more right guesses under pure ε-DP, with members of probability p."""
    logit = math.log(p_member / (1.0 - p_member))
    first = np.arange(guesses[0] + 1)
    chances = binom.pmf(first, guesses[0], expit(epsilon + logit))
    # P(first + second ≥ correct), summed over the first: all terms are positive.
    tails = binom.sf(correct - 1 - first, guesses[1], expit(epsilon - logit))
    return min(1.0, float(np.sum(chances * tails)))


def _fair_part(member: Mask, p_member: float, rng: np.random.Generator) -> Mask:
    """Choose records to keep so that those left are members with probability ½."""
    likely = member if p_member > 0.5 else ~member
    keep = min(p_member, 1.0 - p_member) / max(p_member, 1.0 - p_member)
    return ~likely | (rng.random(member.size) < keep)


def _one_run_p_value(epsilon: float, delta: float, m: int, guesses: int, correct: int) -> float:
    """Bound the probability of ``correct`` or more right guesses under (ε, δ)-DP."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, q))
    if delta == 0.0 or correct == 0:
        return min(tail, 1.0)
    i = np.arange(1, correct + 1)
    extra = float(((binom.sf(correct - i - 1, guesses, q) - tail) / i).max())
    return min(1.0, tail + 2.0 * m * delta * max(extra, 0.0))


def _gaussian_parameter(epsilon: float, delta: float) -> float:
    """Find μ of the Gaussian trade-off curve that is exactly (ε, δ)-DP."""

    def excess(mu: float) -> float:
        tail = math.exp(min(epsilon, 700.0)) * float(ndtr(-epsilon / mu - mu / 2.0))
        return float(ndtr(-epsilon / mu + mu / 2.0)) - tail - delta

    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return float(brentq(excess, 1e-9, high, xtol=1e-12))


def _inverse_blow_up(epsilon: float, delta: float, trade_off: str) -> Callable[[float], float]:
    """Make ``F^{-1}``: the smallest probability of the wrong event that allows probability y of the right one."""
    if trade_off == "gaussian":
        mu = _gaussian_parameter(epsilon, delta)
        return lambda y: float(ndtr(ndtri(min(y, 1.0)) - mu)) if y > 0.0 else 0.0
    grow = math.exp(epsilon)
    return lambda y: max(0.0, (y - delta) / grow, 1.0 - delta - grow * (1.0 - min(y, 1.0)))


def _fdp_is_refuted(
    epsilon: float, delta: float, trade_off: str, m: int, guesses: int, correct: int, alpha: float
) -> bool:
    """Check that ``P(correct guesses ≥ correct) ≥ alpha`` is impossible under the trade-off curve."""
    inverse = _inverse_blow_up(epsilon, delta, trade_off)
    right, wrong = alpha * correct / m, alpha * (guesses - correct) / m
    total = guesses / m
    for i in range(correct - 1, -1, -1):
        needed = inverse(right)
        if needed <= wrong:
            return False  # nothing forces further mass: feasible
        right += (needed - wrong) * i / (guesses - i)
        wrong = needed
        if right + wrong > total:
            return True
    return right + wrong > total


def _largest_refuted(refuted: Callable[[float], bool]) -> float:
    """Find the largest ε that is refuted, by bisection from below; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _MAX_EPSILON and refuted(high):
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


# -- independent runs --------------------


class Threshold(NamedTuple):
    """``score ≥ value`` means member; ``inverted`` uses the true and false *negative* rates instead."""

    value: float
    inverted: bool
    share: float  # of the failure probability spent on the rate in the denominator


def _two_rate_bound(
    hits: Counts, n_hits: int, errors: Counts, n_errors: int, delta: float, alpha: float, share: float
) -> Array:
    """Compute ``ln((TPR_low − δ)/FPR_high)`` for arrays of counts; the two rates fail with alpha in all."""
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n_hits - hits + 1, alpha * (1.0 - share)), 0.0)
    high = betainccinv(errors + 1, np.maximum(n_errors - errors, 1), alpha * share)
    high = np.where(errors < n_errors, high, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 0.0) / high), -np.inf)


def _bound_at(scores: Array, member: Mask, threshold: Threshold, delta: float, alpha: float) -> float:
    above = scores >= threshold.value
    if threshold.inverted:
        above, member = ~above, ~member
    hits, errors = np.array((above & member).sum()), np.array((above & ~member).sum())
    n_in = int(member.sum())
    bound = _two_rate_bound(
        hits, n_in, errors, n_errors=member.size - n_in, delta=delta, alpha=alpha, share=threshold.share
    )
    return max(0.0, float(bound))


def _choose_threshold(scores: Array, member: Mask, delta: float, alpha: float) -> Threshold:
    """Choose the threshold, direction and split that do best on calibration data."""
    candidates = np.unique(scores)
    if candidates.size > 2000:
        candidates = np.unique(np.quantile(scores, np.linspace(0.0, 1.0, 2000), method="nearest"))
    n_in, n_out = int(member.sum()), int((~member).sum())
    hits = n_in - np.searchsorted(np.sort(scores[member]), candidates)
    errors = n_out - np.searchsorted(np.sort(scores[~member]), candidates)
    best, best_bound = Threshold(float(np.median(scores)), False, 0.5), -math.inf
    for inverted in (False, True):
        counts = (n_out - errors, n_out, n_in - hits, n_in) if inverted else (hits, n_in, errors, n_out)
        for share in (0.5, 0.9):
            bounds = _two_rate_bound(*counts, delta, alpha, share)
            i = int(np.argmax(bounds))
            if bounds[i] > best_bound:
                best, best_bound = Threshold(float(candidates[i]), inverted, share), float(bounds[i])
    return best


def _clopper_pearson_bound(
    scores: Array,
    member: Mask,
    delta: float,
    alpha: float,
    threshold: float | None,
    calibration: tuple[Array, Mask] | None,
    rng: np.random.Generator,
) -> float:
    if threshold is not None:
        # Both directions on the same data: half of the failure probability each.
        directions = (Threshold(threshold, inverted, 0.5) for inverted in (False, True))
        return max(_bound_at(scores, member, direction, delta, alpha / 2.0) for direction in directions)
    if calibration is None:
        chosen = np.zeros(scores.size, dtype=bool)
        for group in (np.flatnonzero(member), np.flatnonzero(~member)):
            chosen[rng.permutation(group)[: group.size // 2]] = True
        calibration = scores[chosen], member[chosen]
        scores, member = scores[~chosen], member[~chosen]
    return _bound_at(scores, member, _choose_threshold(*calibration, delta, alpha), delta, alpha)


# -- one run --------------------


class _OneRun(NamedTuple):
    """The claim, and how records became members of the one run."""

    delta: float
    method: str
    trade_off: str
    p_member: float

    def bound(self, scores: Array, member: Mask, guesses: tuple[int, int], alpha: float) -> float:
        """Bound ε for numbers of guesses that were fixed beforehand."""
        (n_in, n_out), m, total = guesses, scores.size, sum(guesses)
        # Stable order: ties are broken by position, which must say nothing about membership.
        order = np.argsort(scores, kind="stable")
        right = int(member[order[m - n_in :]].sum()) if n_in else 0
        right += int((~member[order[:n_out]]).sum())

        def refuted(epsilon: float) -> bool:
            if self.p_member != 0.5:
                return _unfair_p_value(epsilon, self.p_member, guesses, right) < alpha
            if self.method == "one-run":
                return _one_run_p_value(epsilon, self.delta, m, total, right) < alpha
            return _fdp_is_refuted(
                epsilon, self.delta, self.trade_off, m=m, guesses=n_in + n_out, correct=right, alpha=alpha
            )

        return _largest_refuted(refuted)

    def best_bound(
        self,
        scores: Array,
        member: Mask,
        guesses: tuple[int, int] | None,
        calibration: tuple[Array, Mask] | None,
        alpha: float,
        rng: np.random.Generator,
    ) -> float:
        """Bound ε by the guesses that are given, chosen on other data, or listed and paid for."""
        # Members may be next to each other in the data: the order must not separate equal scores.
        order = rng.permutation(scores.size)
        scores, member, claim, m = scores[order], member[order], self, scores.size
        if self.p_member != 0.5 and (self.delta > 0.0 or self.method == "one-run-fdp" or calibration is not None):
            kept = _fair_part(member, self.p_member, rng)
            scores, member, claim = scores[kept], member[kept], self._replace(p_member=0.5)
            if scores.size < 2:
                return 0.0
            if guesses is not None:
                guesses = _guesses_from_shares((guesses[0] / m, guesses[1] / m), scores.size)
        if guesses is None and calibration is not None:
            guesses = _guesses_from_shares(_choose_guesses(*calibration, alpha)[:2], scores.size)
        listed = [guesses] if guesses is not None else _default_guesses(scores.size, claim.p_member)
        return max(claim.bound(scores, member, each, alpha / len(listed)) for each in listed)


def _default_guesses(m: int, p_member: float) -> list[tuple[int, int]]:
    """List numbers of guesses: all records, half of them, a quarter …, of both kinds as often as they are."""
    found = []
    size = m // 2
    while size >= max(10, m // 64):
        n_in = round(2 * size * p_member)
        found.append((n_in, 2 * size - n_in))
        size //= 2
    return found or [(m // 2, m // 2)]


def _choose_guesses(scores: Array, member: Mask, alpha: float) -> tuple[float, float, float]:
    """Choose the shares of records to guess that do best on calibration data, and their bound."""
    m = scores.size
    sizes = np.unique(np.concatenate([[0], np.geomspace(1, m, 40).astype(int)]))
    ordered = member[np.argsort(scores, kind="stable")]
    from_top = np.concatenate([[0], np.cumsum(ordered[::-1])])[sizes]
    from_bottom = np.concatenate([[0], np.cumsum(~ordered)])[sizes]
    total = sizes[:, None] + sizes[None, :]
    right = from_top[:, None] + from_bottom[None, :]
    allowed = (total > 0) & (total <= m)
    low = betaincinv(np.maximum(right, 1), np.maximum(total - right, 0) + 1, alpha)
    low = np.where(allowed & (right > 0), low, 0.0)
    i, j = np.unravel_index(int(np.argmax(low)), low.shape)
    return float(sizes[i] / m), float(sizes[j] / m), float(low[i, j])


def _guesses_from_shares(shares: tuple[float, float], m: int) -> tuple[int, int]:
    n_in, n_out = round(shares[0] * m), round(shares[1] * m)
    n_in = max(n_in, 0 if n_out else 1)
    return n_in, min(n_out, m - n_in)


# -- the public function --------------------


def epsilon_lower_bound(
    scores: npt.ArrayLike,
    membership: npt.ArrayLike,
    *,
    delta: float = 0.0,
    method: str | None = None,
    p_member: float = 0.5,
    confidence: float = 0.95,
    threshold: float | None = None,
    n_guesses: int | tuple[int, int] | None = None,
    calibration: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    trade_off: str = "approximate",
    random_state: int | None = None,
) -> float:
    """Lower confidence bound on ε from attack scores with known membership.

    With probability at least ``confidence``, a mechanism whose true ε (at this δ) is e gives a result ≤ e.
    Thresholds and numbers of guesses are chosen on other data or paid for, never on the scores that are
    tested.

    Parameters
    ----------
    scores : array-like of shape (m,)
        Larger means more likely a member. For ``"clopper-pearson"`` each score comes from its own independent
        run; for the one-run methods all come from one run.
    membership : array-like of shape (m,)
        True (1) for members. For the one-run methods: independent coins.
    delta : float, default=0.0
        δ of the claim, in [0, 1).
    method : {"clopper-pearson", "one-run", "one-run-fdp"}
        How the scores came about; no default, for a test of the wrong design proves nothing. ``"clopper-pearson"``:
        each in an independent run of its own. ``"one-run"``, ``"one-run-fdp"``: all in one run, into which each record
        was put, or not, by its own p_member.
    p_member : float, default=0.5
        One-run methods: probability with which a record became a member, in (0, 1).
    confidence : float, default=0.95
        In (0, 1).
    threshold : float or None, default=None
        ``"clopper-pearson"``: a threshold chosen on other data. ``None``: chosen on ``calibration``, or on a
        random half.
    n_guesses : int, (int, int) or None, default=None
        One-run methods: numbers of records named members (highest scores) and non-members (lowest). An
        integer is halved. ``None``: chosen on ``calibration``, or the best of a short list at a
        Bonferroni-corrected level.
    calibration : (scores, membership) or None, default=None
        Data independent of the tested membership to choose the threshold or the numbers of guesses on, for
        example the scores of a reference model under its own, known membership.
    trade_off : {"approximate", "gaussian"}, default="approximate"
        Curve of ``"one-run-fdp"``. ``"approximate"``: any (ε, δ)-DP mechanism. ``"gaussian"``: the Gaussian
        mechanism with that (ε, δ); larger bounds, but they refute Gaussian-DP claims only, not (ε, δ)-DP in
        general.
    random_state : int, RandomState or None, default=None
        Public randomness of the split, and of the order of equal scores.

    Returns
    -------
    float
        The bound, ≥ 0; 0 means that nothing was shown.

    Raises
    ------
    ValueError
        If the method is not stated, an argument is out of range, one of the two groups is empty, or the number of
        members is out of the question for coins of that probability.

    See Also
    --------
    attack_report : Summarises the same scores.
    audit_estimator : Makes and audits the fits itself.

    References
    ----------
    Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", 2023. Mahloujifar, Melis,
    Chaudhuri, "Auditing f-differential privacy in one run", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate.audit import epsilon_lower_bound
    >>> rng = np.random.default_rng(0)
    >>> member = rng.integers(0, 2, size=2000) == 1
    >>> leaky = rng.laplace(size=2000) + member  # the Laplace mechanism with epsilon 1
    >>> runs = {"method": "clopper-pearson", "random_state": 0}
    >>> bound = epsilon_lower_bound(leaky, member, **runs)
    >>> 0.3 < bound < 1.0
    True
    >>> epsilon_lower_bound(rng.normal(size=2000), member, **runs)
    0.0
    """
    scores, member = _check_pair(scores, membership, "scores", "membership")
    for name, value, low, high in (("delta", delta, 0.0, 1.0), ("confidence", confidence, 0.0, 1.0)):
        if not (low <= value < high) or (name == "confidence" and value == 0.0):
            raise ValueError(f"{name} must be in {'[' if name == 'delta' else '('}0, 1); got {value!r}.")
    if method is None:
        raise ValueError(
            "method must be stated: 'clopper-pearson' if each score comes from an independent run of its own, "
            "'one-run' or 'one-run-fdp' if all come from one run whose members were drawn at random; got None."
        )
    for name, option, allowed in (("method", method, _METHODS), ("trade_off", trade_off, _TRADE_OFFS)):
        if option not in allowed:
            raise ValueError(f"{name} must be one of {allowed}; got {option!r}.")
    if not 0.0 < p_member < 1.0:
        raise ValueError(f"p_member must be in (0, 1); got {p_member!r}.")
    if calibration is not None:
        calibration = _check_pair(*calibration, "calibration scores", "calibration membership")
    alpha = 1.0 - confidence
    rng = public_generator(random_state)
    if method == "clopper-pearson":
        if n_guesses is not None or p_member != 0.5:
            wrong = "p_member" if n_guesses is None else "n_guesses"
            raise ValueError(f"{wrong} belongs to the one-run methods; got method='clopper-pearson'.")
        return _clopper_pearson_bound(
            scores, member, delta, alpha=alpha, threshold=threshold, calibration=calibration, rng=rng
        )
    if threshold is not None:
        raise ValueError(f"threshold belongs to method='clopper-pearson'; got method={method!r}. Use n_guesses.")
    if trade_off == "gaussian" and method == "one-run-fdp" and delta == 0.0:
        raise ValueError("trade_off='gaussian' needs delta > 0: a Gaussian mechanism is never (epsilon, 0)-DP.")
    _check_coins(member, p_member)
    if n_guesses is not None:
        n_guesses = _check_guesses(n_guesses, scores.size)
    run = _OneRun(delta, method, trade_off, p_member)
    return run.best_bound(scores, member, n_guesses, calibration, alpha, rng)


def _check_coins(member: Mask, p_member: float) -> None:
    """Refuse memberships that this probability would not give."""
    count, m = int(member.sum()), member.size
    if min(binom.cdf(count, m, p_member), binom.sf(count - 1, m, p_member)) < _IMPOSSIBLE:
        raise ValueError(
            f"p_member must be the probability with which records became members; got {p_member!r}, but {count} of "
            f"{m} are."
        )


def _check_pair(scores: npt.ArrayLike, membership: npt.ArrayLike, first: str, second: str) -> tuple[Array, Mask]:
    values, member = np.asarray(scores, dtype=np.float64), np.asarray(membership)
    if values.ndim != 1 or member.shape != values.shape:
        raise ValueError(
            f"{first} and {second} must be one-dimensional and of equal length; got shapes {values.shape} "
            f"and {member.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{first} must be finite.")
    if member.dtype != bool and not np.isin(member, (0, 1)).all():
        raise ValueError(f"{second} must be boolean or 0/1.")
    member = member.astype(bool)
    if member.all() or not member.any():
        raise ValueError(f"{second} must hold both members and non-members.")
    return values, member


def _check_guesses(n_guesses: int | tuple[int, int], m: int) -> tuple[int, int]:
    if isinstance(n_guesses, tuple | list):
        n_in, n_out = (int(g) for g in n_guesses)
    else:
        n_in, n_out = int(n_guesses) - int(n_guesses) // 2, int(n_guesses) // 2
    if min(n_in, n_out) < 0 or not 0 < n_in + n_out <= m:
        raise ValueError(f"n_guesses must name between 1 and {m} records; got {n_guesses!r}.")
    return n_in, n_out
