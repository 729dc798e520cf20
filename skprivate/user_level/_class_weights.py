"""Weights of classes: given, or from private counts of the classes within the budget of a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from skprivate._labels import plain
from skprivate.partitions import Partitions, as_partitions
from skprivate.privacy import (
    GaussianEvent,
    PrivacyEvent,
    ball_contributions,
    exact_sum,
    gaussian_noise_multiplier,
)
from skprivate.user_level._losses import LinearLoss
from skprivate.user_level._plan import Terms
from skprivate.user_level._problems import UserData

FloatArray = npt.NDArray[np.float64]

#: Share of the budget (in zCDP) for the counts.
SHARE = 0.05
#: A class counts for at least so many standard deviations of the noise in its count.
_FEWEST = 3.0
#: No class weighs more than this times another.
_MOST = 100.0


class WeightedLoss:
    """A loss whose rows weigh as their classes do.

    Parameters
    ----------
    loss : LinearLoss
    weights : ndarray of shape (n_classes,)
        In (0, 1]. A row's weight is a function of its own label.
    """

    def __init__(self, loss: LinearLoss, weights: FloatArray) -> None:
        self.loss = loss
        self.weights = weights
        self.smoothness = loss.smoothness

    def derivative(self, f: FloatArray, y: FloatArray) -> FloatArray:
        first, *others = self.weights.tolist()
        factor = np.full(y.shape[1], first)
        for weight, of_class in zip(others, y if len(y) == 1 else y[1:], strict=True):
            factor[of_class > 0.0] = weight
        return np.asarray(self.loss.derivative(f, y) * factor)


@dataclass(frozen=True)
class ClassCounts:
    """How many users there are of each class, a user with rows of several counting in parts.

    Attributes
    ----------
    terms : Terms
    n_classes : int
    signed : bool
        Whether targets are −1 and 1, rather than 0 and 1.
    """

    terms: Terms
    n_classes: int
    signed: bool

    @property
    def multiplier(self) -> float:
        """Noise multiplier of the counts."""
        return gaussian_noise_multiplier(self.terms.epsilon, self.terms.delta) / math.sqrt(SHARE)

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        return ((GaussianEvent(self.multiplier, self.n_classes), 1),)

    def run(self, data: Partitions | UserData, release: Any) -> FloatArray:
        """Draw the counts; weights of the classes, inversely proportional to them, 1 on average over the users."""
        total = as_partitions(data).sum(partial(_shares, signed=self.signed))
        counts = np.asarray(self.terms.release_sum(total, self.multiplier, release), dtype=np.float64)
        return balanced_weights(counts, _FEWEST * self.terms.sum_sensitivity * self.multiplier)


def _shares(data: UserData, signed: bool) -> npt.NDArray[Any]:
    """Sum of the users' shares of rows of each class."""
    shares = np.atleast_2d(data.groups.mean(data.y))
    if len(shares) == 1:
        shares = np.concatenate([-shares, shares])
    if signed:
        shares = 0.5 * shares + 0.5
    # A vector of shares has norm 1 at most; longer ones, by rounding, are cut.
    return exact_sum(ball_contributions(shares, 1.0, weights=data.groups.weights))


def balanced_weights(counts: FloatArray, fewest: float) -> FloatArray:
    """n / (n_classes · count), for counts of at least ``fewest`` and a hundredth of the largest.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,)
        Released.
    fewest : float > 0
    """
    counts = np.maximum(counts, max(fewest, float(counts.max()) / _MOST))
    return np.asarray(counts.sum() / (len(counts) * counts))


def given_weights(class_weight: Any, classes: list[Any]) -> FloatArray:
    """Weights of all classes from a mapping; 1 where it names none.

    Raises
    ------
    ValueError
        If it is no mapping, names other classes, or a weight is not a positive finite number.
    """
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}.")
    known = {label: j for j, label in enumerate(classes)}
    weights = np.ones(len(classes))
    for label, weight in class_weight.items():
        if plain(label) not in known:
            raise ValueError(f"class_weight names {label!r}, which is none of the classes.")
        if not isinstance(weight, Real) or not 1e-100 < float(weight) < 1e100:
            raise ValueError(f"class_weight[{label!r}] must be a positive finite number, got {weight!r}.")
        weights[known[plain(label)]] = float(weight)
    return weights
