"""Choice among K candidates from every user's mean losses, with pure differential privacy (section 6).

A model's ``predict`` is foreign code, and linear algebra may round a row differently depending on how many rows come
with it. A tie between two candidates is then broken by other users' rows. So each user's rows are predicted by
themselves, unless the caller vouches for the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn import config_context
from sklearn.base import BaseEstimator, is_classifier

from skprivate import privacy
from skprivate._messages import unheard
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import BoundedRangeEvent, LaplaceEvent, Mechanism, PrivacyEvent, PureEvent, Release
from skprivate.user_level import _problems, _ranges
from skprivate.user_level._plan import WIDER
from skprivate.user_level.means._winsorized import winsorized_means

FloatArray = npt.NDArray[np.float64]

#: Mean number of evaluations of each candidate under repeated selection.
REPETITIONS_EACH = 5.0
Loss = Literal["auto", "squared_error", "absolute_error", "zero_one"] | Callable[[Any, Any], Any]


def vote_counts(losses: FloatArray) -> npt.NDArray[np.int64]:
    """Count, for each candidate and each opponent, the users who lose no more with the candidate.

    One user more adds 0 or 1 to every count, and so to a candidate's least one, its score; an exchange moves them by at
    most 1.
    """
    comparable = np.nan_to_num(losses, nan=np.inf, posinf=np.inf)
    n_candidates = comparable.shape[1]
    return np.array([(comparable[:, [k]] <= comparable).sum(axis=0) for k in range(n_candidates)])


def _losses_with(losses: FloatArray, candidate: int) -> FloatArray:
    column = losses[:, candidate]
    return np.where(np.isnan(column), np.inf, column)[None]


@dataclass(frozen=True)
class VoteSelection(Mechanism):
    """Candidate that a majority of users prefers to any other, by permute-and-flip: ε-DP, no bound on losses."""

    epsilon: float
    monotone: bool
    theorem = "permute-and-flip on votes (docs/theory/user_level.md)"

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """One selection."""
        return [(PureEvent(self.epsilon, "permute-and-flip"), 1)]

    def run(self, data: Partitions | FloatArray, release: Release) -> int:
        """Choose from mean losses of shape (n_users, n_candidates); a row is a function of that user's rows alone."""
        return int(
            release.select(
                as_partitions(data).sum(vote_counts).min(axis=1),
                sensitivity=1,
                epsilon=self.epsilon,
                rule="permute-and-flip",
                monotone=self.monotone,
            )
        )


@dataclass(frozen=True)
class MeanSelection(Mechanism):
    """Candidate of least winsorised mean loss, by a geometric number of private evaluations of random candidates.

    Each evaluation is `winsorized_mean_1d` of the users' losses, with a third of ε or a little more. Its excess loss is
    of order τ ln(K)/(nε), with τ of order 1/√m (section 6).
    """

    epsilon: float
    tau: float
    bound: float
    n_candidates: int
    theorem = "section 6 (arXiv 2102.11845) with private selection (docs/theory/private_search_cost.md)"

    def __post_init__(self) -> None:
        _ranges.n_bins(self.bound, self.tau)

    @cached_property
    def _search(self) -> privacy.SearchPlan:
        mean = REPETITIONS_EACH * self.n_candidates * max(1.0, math.log(self.n_candidates))

        def plans_of(epsilon: float, _: float) -> list[list[tuple[PrivacyEvent, int]]]:
            return [[(BoundedRangeEvent(epsilon / 2), 1), (LaplaceEvent(epsilon / 2), 1)]] * self.n_candidates

        return privacy.plan_search(
            plans_of,
            epsilon=self.epsilon,
            mean_repetitions=mean,
            laws=[privacy.Repetitions("negative-binomial", mean, eta=1.0)],
        )

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """One search, however often it evaluates."""
        return self._search.events

    def run(self, data: Partitions | FloatArray, release: Release) -> int:
        """Choose from mean losses of shape (n_users, n_candidates); a row is a function of that user's rows alone."""
        rows = as_partitions(data)
        n_users = int(rows.sum(_problems.number_of_users)[0])
        share = self._search.each_epsilon

        def evaluate(candidate: int, branch: Any) -> tuple[float, None]:
            (mean,) = winsorized_means(
                rows.map(partial(_losses_with, candidate=candidate)),
                n_users,
                epsilon=share,
                tau=self.tau,
                bound=self.bound,
                release=branch,
            )
            return -mean, None

        return privacy.select_repeatedly(release, evaluate, self._search).candidate


def difference_sums(losses: FloatArray, clip: float) -> npt.NDArray[np.int64]:
    """Sum over users, for each candidate and each opponent, how much less they lose with the candidate.

    A user's difference is clipped to ± ``clip`` and counted in steps of clip·2⁻²⁹.
    """
    columns = [np.nan_to_num(column, nan=np.inf, posinf=np.inf, neginf=-np.inf) for column in losses.T]
    sums = np.zeros((len(columns), len(columns)), dtype=np.int64)
    for k, column in enumerate(columns):
        for j, other in enumerate(columns[:k]):
            lead = privacy.interval_contributions(other - column, -clip, clip, bits=privacy.CONTRIBUTION_BITS)
            sums[k, j] = int(privacy.exact_sum(lead))
            sums[j, k] = -sums[k, j]
    return sums


def worst_of(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return each candidate's score, its sum against the worst opponent."""
    if len(sums) == 1:
        return np.asarray(sums[0])
    others = ~np.eye(len(sums), dtype=bool)
    return np.asarray(sums[others].reshape(len(sums), -1).min(axis=1))


def loss_ranges(losses: FloatArray) -> FloatArray:
    """Return each user's range of losses over the candidates; NaN if not finite for one of them."""
    most, least = losses[:, 0].copy(), losses[:, 0].copy()
    for column in losses.T:
        np.maximum(most, column, out=most)
        np.minimum(least, column, out=least)
    return np.asarray(most - least)


def _range_counts(losses: FloatArray) -> npt.NDArray[np.int64]:
    """Count users by the range of their losses."""
    return _ranges.quantile_counts(loss_ranges(losses))


@dataclass(frozen=True)
class DifferenceSelection(Mechanism):
    """Candidate whose winsorised mean loss is below that of every other one, by permute-and-flip: ε-DP.

    Differences are clipped by two quantiles of the users' ranges of losses, found by the exponential mechanism. Where a
    public number of users is too few for that, votes are counted instead. ``n_users`` is None under add-remove.
    """

    epsilon: float
    n_candidates: int
    n_users: int | None
    theorem = "permute-and-flip on winsorised differences (docs/theory/user_level.md)"

    @property
    def _monotone(self) -> bool:
        return self.n_users is None

    @property
    def _median_epsilon(self) -> float | None:
        if self.n_users is None:
            return _ranges.QUANTILE_SHARE * self.epsilon
        needed = _ranges.selection_epsilon(self.n_users, len(_ranges.SCALES), monotone=False)
        return needed if needed <= _ranges.QUANTILE_SHARE * self.epsilon else None

    @property
    def _upper_epsilon(self) -> float:
        return _ranges.QUANTILE_SHARE * self.epsilon

    @property
    def _choice_epsilon(self) -> float:
        return (self.epsilon - (self._median_epsilon or 0.0) - self._upper_epsilon) / WIDER

    @property
    def _votes(self) -> VoteSelection:
        return VoteSelection(self.epsilon, self._monotone)

    @property
    def events(self) -> list[tuple[PrivacyEvent, int]]:
        """Two quantiles and the choice; votes alone where users are too few."""
        if self._median_epsilon is None:
            return self._votes.events
        return [
            (BoundedRangeEvent(self._median_epsilon), 1),
            (BoundedRangeEvent(self._upper_epsilon), 1),
            (PureEvent(self._choice_epsilon, "permute-and-flip"), 1),
        ]

    @np.errstate(all="ignore")  # a warning about somebody's loss would say something about it
    def run(self, data: Partitions | FloatArray, release: Release) -> int:
        """Choose from mean losses of shape (n_users, n_candidates); a row is a function of that user's rows alone."""
        if self._median_epsilon is None:
            return self._votes.run(data, release)
        rows = as_partitions(data)
        clip = self._clip(rows.sum(_range_counts), release)
        return int(
            release.select(
                worst_of(rows.sum(partial(difference_sums, clip=clip))),
                sensitivity=2 ** (privacy.CONTRIBUTION_BITS - self._monotone),
                epsilon=self._choice_epsilon,
                rule="permute-and-flip",
            )
        )

    def _clip(self, counts: npt.NDArray[np.int64], release: Release) -> float:
        """Select the clipping bound of differences."""
        assert self._median_epsilon is not None
        median, upper, rank = _ranges.select_quantiles(
            counts,
            epsilon=self._median_epsilon,
            upper_epsilon=self._upper_epsilon,
            release=release,
            monotone=self._monotone,
        )
        if self.n_users is None:
            return max(median, upper)
        # Loss of the choice, in units of the clipping bound.
        level = 4.0 * (1.0 + math.log(self.n_candidates)) / (self._choice_epsilon * self.n_users)
        growth = _ranges.quiet_growth(level, self.n_users, 1.0)
        return _ranges.tail_radius(median, upper if self.n_users > 2 * rank else 0.0, growth)


def known_labels(models: Iterable[Any]) -> npt.NDArray[Any] | None:
    """List the labels of classifiers that are not numbers; None if there are none."""
    classes = [np.asarray(getattr(model, "classes_", [])).ravel() for model in models]
    texts = [each.tolist() for each in classes if len(each) and each.dtype.kind not in "biuf"]
    if not texts:
        return None
    found = list(dict.fromkeys(label for each in texts for label in each))
    labels = np.empty(len(found) + 1, dtype=object)  # the last stands for labels that no classifier knows
    labels[:-1] = found
    return labels


def as_numbers(y: npt.NDArray[Any], known: npt.NDArray[Any] | None) -> FloatArray:
    """Replace labels by their positions in ``known``; targets that are numbers stay as they are.

    No candidate predicts a label that is not known, so all of these get the same number.
    """
    if (y.dtype.kind in "biuf") != (known is None) and len(y):
        raise TypeError(
            "y must hold numbers where X is in blocks; or labels, where the candidates have classes_ of the same "
            f"kind and the loss is named, got dtype {y.dtype}."
        )
    if known is None:
        return y.astype(np.float64)
    places = {label: k for k, label in enumerate(known[:-1].tolist())}
    return np.array([places.get(label, len(places)) for label in y.tolist()], dtype=np.float64)


def named_labels(y: FloatArray, known: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Invert `as_numbers`."""
    return y if known is None else np.asarray(known[y.astype(np.int64)])


def user_losses(
    model: Any, X: FloatArray, y: npt.NDArray[Any], codes: npt.NDArray[np.int64], loss: Loss, *, by_user: bool
) -> FloatArray:
    """Compute the mean loss of every user.

    With ``by_user``, ``predict`` and the loss see one user's rows at a time, in their order. Otherwise they see all
    rows, and entry u is a function of user u's rows only if model and loss treat every row by itself, to the last bit.
    """
    if loss == "auto":
        loss = "zero_one" if is_classifier(model) else "squared_error"
    if loss in ("squared_error", "absolute_error"):
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):  # its message would show a target
            raise TypeError(f"y must hold numbers for loss={loss!r}, got dtype {y.dtype}.") from None
    # Raise errors that depend on nobody: a row of zeros, whose target is its own prediction.
    model_only = np.zeros((1, X.shape[1]))
    expected = np.asarray(model.predict(model_only))
    _row_losses(model, model_only, expected.astype(y.dtype) if y.dtype.kind == "f" else expected, loss)
    if len(codes) == 0:
        return np.empty(0)
    sizes = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    X, y = np.ascontiguousarray(X[order]), y[order]
    ends = [0, *np.cumsum(sizes).tolist()] if by_user else [0, len(X)]
    losses = np.empty(len(X))
    # Errors and warnings of a model would reveal something about whoever has the rows.
    with unheard(), config_context(assume_finite=True):
        for start, end in pairwise(ends):
            try:
                losses[start:end] = _row_losses(model, X[start:end].copy(), y[start:end].copy(), loss)
            except Exception:  # what goes wrong with somebody's rows is kept, and is the greatest loss
                if not by_user:
                    return user_losses(model, X, y, np.sort(codes), loss, by_user=True)
                losses[start:end] = np.inf
        # One user's losses are added in order, whatever is between them.
        totals = np.bincount(codes[order], weights=losses)
        return np.asarray(totals / sizes)


def _row_losses(model: BaseEstimator, X: FloatArray, y: npt.NDArray[Any], loss: Loss) -> FloatArray:
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise ValueError(f"predict must return one number a row, got {predicted.ndim} dimensions.")
    if callable(loss):
        values = np.asarray(loss(y, predicted), dtype=np.float64)
        if values.shape != y.shape:
            raise ValueError(f"loss must return one number a row, got {values.ndim} dimensions.")
        return values
    if loss == "zero_one":
        if predicted.dtype.kind in "biuf" and y.dtype.kind in "biuf":
            # One target may decide if all are stored as integers; their values as float64 do not depend on it.
            predicted, y = predicted.astype(np.float64), y.astype(np.float64)
        return np.asarray(predicted != y, dtype=np.float64)
    difference = predicted.astype(np.float64) - y
    return np.asarray(np.square(difference) if loss == "squared_error" else np.abs(difference))
