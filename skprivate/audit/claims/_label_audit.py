"""Audit label privacy in one run: no canaries, only labels whose law is known."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skprivate._messages import delta_number, must_be, number
from skprivate._sklearn import _num_samples
from skprivate.audit._class_outputs import as_labels
from skprivate.audit.claims._label_bound import label_epsilon_bound, reconstruction_limit
from skprivate.audit.claims._label_evidence import Labels, default_evidence, default_targets
from skprivate.privacy import Adjacency, PrivacyUnit, public_generator

__all__ = ["LabelAudit", "audit_labels"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelAudit:
    """A claim of label privacy beside what guesses of labels show.

    Attributes
    ----------
    name : str
        Class of the release.
    claimed_epsilon, claimed_delta : float
        The claim for the replacement of one label.
    epsilon_lower_bound : float
        True ε, at the claimed δ, is at least this.
    violated : bool
        Whether this exceeds the claim. Happens for a sound release with probability at most ``1 − confidence``.
    accuracy : float
        Share of labels that the adversary names rightly with the release.
    baseline_accuracy : float
        The same without the release, from the law alone.
    allowed_accuracy : float
        Largest expected share under the claim, whatever the adversary does.
    n_guesses : int
        Labels that were guessed, in all fits.
    n_fits : int
        Releases.
    design : str
        ``"drawn"``: the labels of the audit were drawn from the law; ``"observed"``: they came with the release, and
        the law is an assumption.
    law_error : float
        Largest difference of the logarithms of the assumed and the true probabilities that is allowed for.
    confidence : float
    """

    name: str
    claimed_epsilon: float
    claimed_delta: float
    epsilon_lower_bound: float
    violated: bool
    accuracy: float
    baseline_accuracy: float
    allowed_accuracy: float
    n_guesses: int
    n_fits: int
    design: str
    law_error: float
    confidence: float

    @property
    def reconstruction_advantage(self) -> float:
        """What the release adds to the share of labels that are guessed right."""
        return self.accuracy - self.baseline_accuracy

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        return (
            f"{self.name}: claimed epsilon {self.claimed_epsilon:.4g} for one label; audited epsilon >= "
            f"{self.epsilon_lower_bound:.3g} at confidence {self.confidence:g}, {self.n_guesses} labels guessed: "
            f"{verdict}; {self.accuracy:.1%} guessed right with the release, {self.baseline_accuracy:.1%} without, at "
            f"most {self.allowed_accuracy:.1%} expected under the claim"
        )


def audit_labels(
    release: Any,
    X: Any,
    y: npt.ArrayLike | None = None,
    *,
    law: npt.ArrayLike | Callable[[np.random.Generator], npt.ArrayLike] | None = None,
    values: npt.ArrayLike | None = None,
    law_error: float = 0.0,
    epsilon: float | None = None,
    delta: float | None = None,
    evidence: Callable[[Any, Any, Any], npt.ArrayLike] | None = None,
    targets: npt.ArrayLike | None = None,
    fit_params: dict[str, Any] | None = None,
    n_fits: int = 1,
    confidence: float = 0.95,
    simulate: bool = False,
    random_state: int | None = None,
) -> LabelAudit:
    """Audit a claim of label privacy by guessing labels, without canaries and in one run.

    Without ``y`` the audit is an experiment: it draws labels from ``law``, fits ``release`` on them and guesses them;
    the law is then known exactly and the bound needs no assumption. With ``y`` it is an observation: ``release`` has
    been fitted on these labels already, ``law`` says what is known of them without it, and the bound holds as far as
    that is true (``law_error``). In both, labels are independent given the features.

    Parameters
    ----------
    release : estimator, or any object
        To be fitted (without ``y``), or what was released.
    X : array-like of shape (n, n_features)
        Public features.
    y : array-like of shape (n,) or None, default=None
        The labels that the release was made from.
    law : array-like of shape (n, n_values), callable or None, default=None
        Probabilities of the values for each row, given its features. None: uniform, for an experiment only.
        A callable draws counterfactual labels of shape (n,) from the law with the generator it is given; the adversary
        then tells the label of each row from its counterfactual. This is for labels that take many values.
    values : array-like of shape (n_values,) or None, default=None
        Values of a label, in the order of the columns of ``law``. None: ``release.classes_``. For a regressor, the ends
        of its label bounds show the most.
    law_error : float, default=0.0
        With ``y``: bound on ``|ln P(y|x)/Q(y|x)|`` between the true law and ``law``.
    epsilon, delta : float or None, default=None
        The claim. None: ``privacy_guarantee_``, else the parameters of these names. Row privacy covers labels; under
        addition and removal of rows, a label costs two steps.
    evidence : callable or None, default=None
        ``evidence(release, X, labels) -> array (n, n_values)``: by how much what was released speaks for each
        candidate, in units of a log-likelihood. ``labels`` has the ``candidates`` and their ``law``, both of shape
        (n, n_values), which rows are ``targets``, and ``known``: the labels of all other rows, nan at the targets.
        None: class probabilities or predictions; for released random bags their sums.
    targets : array-like of bool, shape (n,), or None, default=None
        Rows whose labels are guessed; the adversary knows the others. None: all, or one of each random bag.
    fit_params : dict or None, default=None
        Further arguments of ``fit``.
    n_fits : int, default=1
        Experiments; their guesses are pooled.
    confidence : float, default=0.95
    simulate : bool, default=False
        Fit with integer seeds (fast simulated noise) in place of secure noise.
    random_state : int, RandomState or None, default=None
        Public randomness: labels that are drawn, seeds of simulated fits.

    Returns
    -------
    LabelAudit

    Raises
    ------
    ValueError
        If there is no claim, no law of given labels, or the release was not fitted.

    References
    ----------
    Busa-Fekete, Medina, Syed and Vassilvitskii, "Auditing privacy mechanisms via label inference attacks", 2024, for
    the reconstruction advantage; "Observational auditing of label privacy", 2025, for audits without canaries;
    Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skprivate import RandomBagClassifier
    >>> from skprivate.audit import audit_labels
    >>> X = np.random.default_rng(0).normal(size=(4000, 3))
    >>> model = RandomBagClassifier(epsilon=1.0, bag_size=4)
    >>> audit = audit_labels(model, X, values=[0, 1], simulate=True, random_state=0)
    >>> audit.violated, audit.n_guesses, bool(audit.epsilon_lower_bound > 0.4)
    (False, 1000, True)
    """
    number("confidence", confidence, "a number in (0, 1)", lambda value: 0 < value < 1)
    number("law_error", law_error, "a finite number >= 0", lambda value: value >= 0)
    if isinstance(n_fits, bool) or not isinstance(n_fits, int | np.integer) or n_fits < 1:
        raise ValueError(must_be("n_fits", "an integer >= 1", n_fits))
    if y is None and law_error > 0:
        raise ValueError("law_error is for given labels: what the audit draws has the law exactly.")
    rng, n = public_generator(random_state), _num_samples(X)
    chosen = None if targets is None else _mask(targets, n)
    played: list[_Guesses] = []
    if y is not None:
        if n_fits != 1:
            raise ValueError(must_be("n_fits", "1 with y", n_fits, "A release that exists is one."))
        if hasattr(release, "fit"):
            check_is_fitted(release)
        candidates, probabilities, code = _observed(release, y, law, values, n, rng)
        played.append(_guess(release, X, candidates, probabilities, code, chosen, evidence))
    else:
        candidates, probabilities = _experiment(release, law, values, n)
        for _ in range(n_fits):
            code = (probabilities.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
            code = np.minimum(code, candidates.shape[1] - 1)
            seed = int(rng.integers(2**31 - 1))
            model, drawn = _refit(release, simulate, seed), candidates[np.arange(n), code]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # simulated noise is what simulate= asked for
                fitted = model.fit(X, drawn, **(fit_params or {}))
            played.append(_guess(fitted, X, candidates, probabilities, code, chosen, evidence))
    claimed = _claim(release if y is not None else fitted, epsilon, delta)
    return _conclude(type(release).__name__, claimed, played, y is None, callable(law), law_error, confidence)


class _Guesses(NamedTuple):
    """Guesses for the bound, with their priors and weights, and what the reconstruction hit."""

    right: npt.NDArray[np.bool_]
    prior: Array
    gain: Array
    hits: npt.NDArray[np.bool_]
    blind_hits: npt.NDArray[np.bool_]
    law: Array


def _guess(
    release: Any,
    X: Any,
    candidates: npt.NDArray[Any],
    law: Array,
    code: npt.NDArray[np.intp],
    targets: npt.NDArray[np.bool_] | None,
    evidence: Callable[[Any, Any, Any], npt.ArrayLike] | None,
) -> _Guesses:
    n = code.size
    rows = np.arange(n)
    if targets is None:
        targets = default_targets(release, n) if evidence is None else np.ones(n, dtype=bool)
    # A label that is certain, or equal to its counterfactual, is nothing to guess.
    targets = targets & (law.max(axis=1) < 1.0)
    if law.shape[1] == 2:
        targets &= candidates[:, 0] != candidates[:, 1]
    truth = candidates[rows, code]
    known = truth.astype(float if truth.dtype.kind in "fiub" else object)
    known[targets] = np.nan
    labels = Labels(candidates, law, targets, known)
    said = np.asarray((evidence or default_evidence)(release, X, labels), dtype=np.float64)
    if said.shape != law.shape or np.isnan(said[targets]).any():
        raise ValueError(must_be("evidence", f"numbers of shape {law.shape}", f"shape {said.shape}"))
    with np.errstate(divide="ignore"):
        posterior = np.exp(log_softmax(np.log(law) + np.clip(said, -500.0, 500.0), axis=1))
    gain = posterior - law
    guess = np.argmax(gain, axis=1)
    return _Guesses(
        (guess == code)[targets],
        law[rows, guess][targets],
        gain[rows, guess][targets],
        (np.argmax(posterior, axis=1) == code)[targets],
        (np.argmax(law, axis=1) == code)[targets],
        law[targets],
    )


def _conclude(
    name: str,
    claimed: tuple[float, float],
    played: list[_Guesses],
    drawn: bool,
    pairs: bool,
    law_error: float,
    confidence: float,
) -> LabelAudit:
    right, prior, gain, hits, blind, law = (np.concatenate(parts) for parts in zip(*played, strict=True))
    if right.size == 0:
        raise ValueError("There is no label to guess: the law leaves no choice, or no row is a target.")
    order = np.argsort(-gain, kind="stable")
    # The labels of a pair may be off in opposite directions: odds of one become e^{2γ}, and nothing else is left open.
    start, slack = (np.full(prior.shape, expit(2.0 * law_error)), 0.0) if pairs else (prior[order], law_error)
    bound = label_epsilon_bound(right[order], start, delta=claimed[1], confidence=confidence, law_error=slack)
    return LabelAudit(
        name=name,
        claimed_epsilon=claimed[0],
        claimed_delta=claimed[1],
        epsilon_lower_bound=bound,
        violated=bound > claimed[0],
        accuracy=float(hits.mean()),
        baseline_accuracy=float(blind.mean()),
        allowed_accuracy=float(reconstruction_limit(*claimed, law).mean()),
        n_guesses=right.size,
        n_fits=len(played),
        design="drawn" if drawn else "observed",
        law_error=float(law_error),
        confidence=float(confidence),
    )


# -- what the audit is given ----------------------------------------------------------------------------------


def _mask(targets: npt.ArrayLike, n: int) -> npt.NDArray[np.bool_]:
    mask = np.asarray(targets)
    if mask.dtype != bool or mask.shape != (n,) or not mask.any():
        raise ValueError(
            must_be("targets", f"booleans of shape ({n},), some of them True", f"shape {mask.shape}")
        )
    return mask


def _law(law: npt.ArrayLike, n: int, n_values: int) -> Array:
    table = np.asarray(law, dtype=np.float64)
    allowed = f"probabilities of shape ({n}, {n_values}), each row adding up to one"
    if table.shape != (n, n_values):
        raise ValueError(must_be("law", allowed, f"shape {table.shape}"))
    if not (table >= 0).all() or not np.allclose(table.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError(f"law must be {allowed}; these are none.")
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _values(release: Any, values: npt.ArrayLike | None) -> npt.NDArray[Any]:
    if values is None:
        values = getattr(release, "classes_", None)
        if values is None:
            raise ValueError("values must be given: which labels there are cannot be read off the release.")
    found = as_labels(values, "values")
    if found.size < 2 or np.unique(found).size != found.size:
        raise ValueError(must_be("values", "two or more distinct labels", f"{found.size} values"))
    return found


def _experiment(
    release: Any, law: Any, values: npt.ArrayLike | None, n: int
) -> tuple[npt.NDArray[Any], Array]:
    if callable(law):
        raise ValueError("law must be a table of probabilities, or None, where the audit draws the labels.")
    found = _values(release, values)
    k = found.size
    probabilities = np.full((n, k), 1.0 / k) if law is None else _law(law, n, k)
    return np.broadcast_to(found, (n, k)), probabilities


def _observed(
    release: Any, y: npt.ArrayLike, law: Any, values: npt.ArrayLike | None, n: int, rng: np.random.Generator
) -> tuple[npt.NDArray[Any], Array, npt.NDArray[np.intp]]:
    truth = as_labels(y, "y")
    if truth.size != n:
        raise ValueError(must_be("y", f"one label for each of the {n} rows of X", truth.size))
    if law is None:
        raise ValueError(
            "law must be given with y: what is known of the labels without the release cannot be read off them."
        )
    if callable(law):
        other = as_labels(law(rng), "law")
        if other.shape != truth.shape:
            raise ValueError(must_be("law", f"a function that draws {n} labels", f"{other.size} of them"))
        # Given the unordered pair, either is the true one with probability ½.
        code = rng.integers(0, 2, size=n)
        swap = code == 1
        pairs = np.column_stack([np.where(swap, other, truth), np.where(swap, truth, other)])
        return pairs, np.full((n, 2), 0.5), code
    found = _values(release, values)
    hit = truth[:, None] == found
    if not hit.any(axis=1).all():
        raise ValueError("values must hold every label that y takes.")
    code = np.argmax(hit, axis=1)
    table = _law(law, n, found.size)
    if not (table[np.arange(n), code] > 0).all():
        raise ValueError("law must give a positive probability to every label of y.")
    return np.broadcast_to(found, (n, found.size)), table, code


def _refit(release: Any, simulate: bool, seed: int) -> Any:
    model = clone(release)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed if simulate else None)
    return model


def _claim(release: Any, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    guarantee = getattr(release, "privacy_guarantee_", None)
    if epsilon is None and guarantee is not None:
        if guarantee.adjacency is Adjacency.METRIC or guarantee.unit is PrivacyUnit.DATASET:
            raise ValueError(
                "epsilon must be given: a guarantee by distance says nothing of one label alone."
            )
        found = float(guarantee.epsilon), float(guarantee.delta)
        if guarantee.adjacency is Adjacency.ADD_REMOVE and guarantee.unit is not PrivacyUnit.LABEL:
            found = 2.0 * found[0], min(1.0 - 1e-15, (1.0 + math.exp(min(found[0], 700.0))) * found[1])
        epsilon, delta = found[0], found[1] if delta is None else delta
    if epsilon is None:
        epsilon = getattr(release, "epsilon", None)
        delta = getattr(release, "delta", None) if delta is None else delta
    if epsilon is None:
        raise ValueError("There is no claim to audit: the release names no epsilon. Pass epsilon=.")
    epsilon = number("epsilon", epsilon, "a finite number >= 0", lambda value: value >= 0)
    return epsilon, delta_number(0.0 if delta is None else delta)
