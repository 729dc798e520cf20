"""Values of a finite space and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skprivate._tables import code_numbers, entries


def leaves_of(parents: Mapping[Any, Any]) -> list[Any]:
    """Nodes that are nobody's parent, in the order of the mapping."""
    inner = set(parents.values())
    leaves = [node for node in parents if node not in inner]
    if not leaves:
        raise ValueError("parents must form a tree with at least one leaf.")
    return leaves


def state_numbers(values: NDArray[Any], states: NDArray[Any]) -> NDArray[np.int64]:
    """Number of each value in ``states``; refuses others without quoting them."""
    numbers = code_numbers(entries(values), list(states))
    if (numbers == len(states)).any():
        raise ValueError(
            f"X has values that are not among the {len(states)} states; the public list of states must hold every "
            "value that may occur."
        )
    return numbers


def check_prior(prior: ArrayLike | None, n_states: int) -> NDArray[np.float64] | None:
    """The prior as probabilities, or None."""
    if prior is None:
        return None
    array = np.asarray(prior, dtype=np.float64)
    if array.shape != (n_states,) or np.any(array < 0) or not np.isfinite(array).all() or not array.any():
        raise ValueError(
            f"prior must be nonnegative numbers, one per state ({n_states}), got shape {array.shape}."
        )
    array = array / array.max()  # the sum of huge weights is none
    result: NDArray[np.float64] = array / array.sum()
    return result
