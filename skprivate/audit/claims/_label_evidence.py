"""What a release says of single labels: the adversary of an audit of labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Labels", "default_evidence", "default_targets"]

Array = npt.NDArray[np.float64]


class Labels(NamedTuple):
    """What the adversary knows of the labels before it looks at the release.

    ``candidates`` and ``law`` have the shape (n, n_values); ``targets`` are the rows to guess, and ``known`` holds the
    labels of the others.
    """

    candidates: npt.NDArray[Any]
    law: Array
    targets: npt.NDArray[np.bool_]
    known: npt.NDArray[Any]


def default_targets(release: Any, n: int) -> npt.NDArray[np.bool_]:
    """All rows; of released random bags the last of each, so that the others of its bag are known."""
    mask = np.ones(n, dtype=bool)
    bags = _random_bags(release, n)
    if bags is not None:
        mask[:] = False
        mask[bags.members[np.cumsum(bags.sizes) - 1]] = True
    return mask


def default_evidence(release: Any, X: Any, labels: Labels) -> Array:
    """Log-likelihood of each candidate, up to a constant in each row."""
    bags = _random_bags(release, len(labels.law))
    if bags is not None:
        return _from_bags(bags, labels)
    tables = _curated_tables(release, X)
    if tables:
        return _from_tables(release.bags_, tables, labels)
    if hasattr(release, "predict_proba"):
        return _from_probabilities(release, X, labels)
    return _from_predictions(release, X, labels)


def _random_bags(release: Any, n: int) -> Any:
    """Noisy label sums of bags whose members are public, where they were released as such."""
    bags = getattr(release, "bags_", None)
    wanted = ("members", "sizes", "label_sums", "n_samples", "label_release")
    if bags is None or not all(hasattr(bags, name) for name in wanted):
        return None
    fits = bags.label_release != "bernoulli" and bags.n_samples == n and bags.noise_variance > 0
    return bags if fits else None


def _from_bags(bags: Any, labels: Labels) -> Array:
    """Laplace likelihood of what is left of a bag's sum once its other labels are known."""
    n, k = labels.law.shape
    width = bags.label_sums.shape[1]
    vectors = _as_sums(labels.candidates, bags.classes, width)
    stands, _ = _as_known(vectors, labels)
    bag = np.repeat(np.arange(bags.sizes.size), bags.sizes)
    totals = np.zeros((bags.sizes.size, width))
    np.add.at(totals, bag, stands[bags.members])
    rest = bags.label_sums - totals
    scale = np.sqrt(bags.noise_variance / 2.0)
    said = np.zeros((n, k))
    for row, of in zip(bags.members, bag, strict=True):
        if labels.targets[row]:
            said[row] -= np.abs(rest[of] + stands[row] - vectors[row]).sum(axis=1) / scale
    return said


def _curated_tables(release: Any, X: Any) -> list[tuple[Any, npt.NDArray[np.intp]]]:
    """Noisy tables of curated bags, each with the bag of every row; none where X is not what they were made from."""
    tables = getattr(getattr(release, "bags_", None), "tables", ())
    if not tables or not hasattr(release, "_locate"):
        return []
    placed = list(zip(tables, release._locate(X), strict=False))
    fits = len(placed) == len(tables) and all(
        table.noise_variance > 0.0
        and bag.min(initial=0) >= 0
        and np.array_equal(np.bincount(bag, minlength=table.n_bags), table.counts)
        for table, bag in placed
    )
    return placed if fits else []


def _from_tables(bags: Any, placed: list[tuple[Any, npt.NDArray[np.intp]]], labels: Labels) -> Array:
    """Laplace likelihoods of what is left of the sums of a row's bags; labels that nobody knows widen the noise."""
    n, k = labels.law.shape
    vectors = _as_sums(labels.candidates, bags.classes, bags.n_outputs)
    stands, spread = _as_known(vectors, labels)
    said = np.zeros((n, k))
    for table, bag in placed:
        totals, variance = np.zeros((2, *table.label_sums.shape))
        np.add.at(totals, bag, stands)
        np.add.at(variance, bag, spread)
        rest = (table.label_sums - totals)[bag] + stands
        scale = np.sqrt((table.noise_variance + variance[bag] - spread) / 2.0)
        said -= (np.abs(rest[:, None] - vectors) / scale[:, None]).sum(axis=2)
    return said


def _as_known(vectors: Array, labels: Labels) -> tuple[Array, Array]:
    """Each row's label where that is known and its expectation where it is not, with the variance of what is left."""
    mean = np.einsum("nk,nkw->nw", labels.law, vectors)
    variance = np.einsum("nk,nkw->nw", labels.law, (vectors - mean[:, None]) ** 2)
    picked = np.argmax(labels.candidates == labels.known[:, None], axis=1)
    target = labels.targets[:, None]
    stands = np.where(target, mean, vectors[np.arange(len(picked)), picked])
    return stands, np.where(target, variance, 0.0)


def _as_sums(candidates: npt.NDArray[Any], classes: Any, width: int) -> Array:
    """What each candidate adds to a sum: itself, a count of the second class, or one of the counts."""
    if classes is None:
        return np.asarray(candidates, dtype=np.float64)[:, :, None]
    code = np.argmax(candidates[:, :, None] == np.asarray(classes), axis=2)
    return np.asarray(code[:, :, None], dtype=np.float64) if width == 1 else np.eye(width)[code]


def _from_probabilities(release: Any, X: Any, labels: Labels) -> Array:
    """How much likelier the model makes each label than it was."""
    p = np.asarray(release.predict_proba(X), dtype=np.float64)
    column = np.argmax(labels.candidates[:, :, None] == np.asarray(release.classes_), axis=2)
    seen = (labels.candidates[:, :, None] == np.asarray(release.classes_)).any(axis=2)
    said = np.where(seen, np.take_along_axis(p, column, axis=1), 0.0)
    return np.asarray(np.log(np.maximum(said, 1e-12)) - np.log(np.maximum(labels.law, 1e-12)))


def _from_predictions(release: Any, X: Any, labels: Labels) -> Array:
    """Candidates on the side to which a prediction departs from what was expected."""
    predicted = np.asarray(release.predict(X))
    if labels.candidates.dtype.kind not in "fiub":
        return np.asarray(labels.candidates == predicted[:, None], dtype=np.float64)
    values = np.asarray(labels.candidates, dtype=np.float64)
    mean = (labels.law * values).sum(axis=1, keepdims=True)
    spread = float((labels.law * (values - mean) ** 2).sum(axis=1).mean())
    return np.asarray(values * (predicted.astype(np.float64)[:, None] - mean) / max(spread, 1e-300))
