"""Networks and other torch modules of rows, by descent on batches of whole random bags; needs torch.

A module sees features of rows, which are public, and the gradient of a loss of released aggregates. Bags are
dealt into folds, and one module learns without each. What the modules say of the bags that they did not see
rates every pass over the data, of which the best is kept, and at last the fit against a constant. The modules
together are the model.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from skprivate._progress import steps
from skprivate.aggregate._losses import FloatArray
from skprivate.aggregate.additive._constant import ANY, share_to_keep
from skprivate.aggregate.additive._neural import (
    check_module,
    check_options,
    import_torch,
    own_torch,
    try_module,
)
from skprivate.aggregate.random._objective import BagObjective
from skprivate.aggregate.random._sums import BagSums
from skprivate.privacy import public_generator

DEFAULTS: dict[str, Any] = {
    "hidden": (32,),
    "weight_decay": 1.0,
    "epochs": 40,
    "learning_rate": 0.005,
    "batch_size": None,
    "folds": 5,
}
#: A batch has about this many rows, at least this many bags, and there are at most this many in a pass if there can be.
_BATCH_ROWS, _BATCH_BAGS, _BATCHES = 1024, 16, 16
#: Passes without a better one after which the best is taken.
_PATIENCE = 10
#: By how much scores may be stretched.
_SLOPES = tuple(2.0 ** (power / 4) for power in range(9))
#: Rows that are predicted at a time.
_CHUNK = 16384


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """Scores are ``intercept`` (n_outputs,) and ``weight`` times the sum of the modules' outputs."""

    networks: list[Any]
    intercept: FloatArray
    weight: float
    n_iter: int


def make_network(submodel: Any, n_features: int, n_outputs: int, hidden: Sequence[int]) -> Any:
    """A module in double precision from rows (n, n_features) to scores (n, n_outputs).

    A module is copied; any other callable gets the number of features and that of outputs, and returns a module.
    """
    torch = import_torch()
    if submodel == "mlp":
        widths = [n_features, *hidden]
        layers: list[Any] = []
        for before, after in pairwise(widths):
            layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], n_outputs)).double()
    module = submodel if isinstance(submodel, torch.nn.Module) else submodel(n_features, n_outputs)
    check_module(module)
    # Folds share no weights, and the caller's own stay as they are.
    return copy.deepcopy(module).to("cpu", torch.double)


def try_network(
    submodel: Any, options: dict[str, Any] | None, X: FloatArray, bags: BagSums, n_outputs: int
) -> None:
    """Refuse what cannot be fitted before anything is paid for: a step on the fewest rows that a batch can have."""
    torch = import_torch()
    chosen = check_options(options, DEFAULTS)
    n_seen = bags.n_bags - math.ceil(bags.n_bags / min(chosen["folds"], bags.n_bags))
    n_rows = max(min(chosen["batch_size"] or _BATCH_BAGS, n_seen), 1) * int(bags.sizes.min())
    with own_torch():
        module = make_network(submodel, X.shape[1], n_outputs, chosen["hidden"])
        try_module(module, torch.as_tensor(np.resize(X, (n_rows, X.shape[1]))), "rows", n_outputs)


def network_scores(
    networks: Sequence[Any], intercept: FloatArray, weight: float, X: FloatArray
) -> FloatArray:
    """Of rows, shape (n_rows, n_outputs)."""
    torch = import_torch()
    scores = np.tile(intercept, (X.shape[0], 1))
    with own_torch(), torch.no_grad():
        for start in range(0, X.shape[0], _CHUNK):
            rows = torch.as_tensor(np.ascontiguousarray(X[start : start + _CHUNK]))
            for network in networks:
                scores[start : start + _CHUNK] += weight * network(rows).numpy()
    return scores


def fit_network(
    X: FloatArray,
    objective: BagObjective,
    *,
    submodel: Any,
    options: dict[str, Any] | None,
    random_state: Any,
) -> NetworkFit:
    """Train one module for each fold of bags, and rate them by the bags of their fold.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as the modules see them.
    objective : BagObjective
    submodel : "mlp" or callable
        See `make_network`.
    options : dict or None
        Overrides of `DEFAULTS`.
    random_state : None, int or RandomState
        Deals folds and batches and draws the first weights, all of which is public.
    """
    torch = import_torch()
    chosen = check_options(options, DEFAULTS)
    n_bags, start = objective.bags.n_bags, objective.start
    n_folds = min(chosen["folds"], n_bags)
    if n_folds < 2:  # one bag tells the mean of the labels
        return NetworkFit([], start, 0.0, 1)
    rng = public_generator(random_state)
    # Steps that go astray end in numbers that are none, which no pass is kept for.
    with own_torch(), np.errstate(over="ignore", invalid="ignore"):
        torch.manual_seed(int(rng.integers(2**62)))
        fold_of_bag = rng.permutation(np.arange(n_bags) % n_folds)
        rows = torch.as_tensor(np.ascontiguousarray(X))
        folds = [
            _Fold(
                make_network(submodel, X.shape[1], start.size, chosen["hidden"]),
                rows,
                objective,
                np.flatnonzero(fold_of_bag != fold),
                np.flatnonzero(fold_of_bag == fold),
                chosen,
            )
            for fold in range(n_folds)
        ]
        unseen = np.tile(start, (objective.bags.members.size, 1))
        best_loss, best_epoch, best_scores = math.inf, 0, unseen.copy()
        with steps("epochs", chosen["epochs"]) as step:
            for epoch in range(1, chosen["epochs"] + 1):
                for fold in folds:
                    fold.learn(rng)
                    unseen[fold.places] = fold.unseen_scores()
                loss = float(np.sum(objective.values(unseen)[0])) if np.all(np.isfinite(unseen)) else math.nan
                if loss < best_loss:
                    best_loss, best_epoch, best_scores = loss, epoch, unseen.copy()
                    for fold in folds:
                        fold.keep()
                step()
                if epoch - best_epoch >= _PATIENCE:
                    break
    if best_epoch == 0:
        return NetworkFit([], start, 0.0, epoch)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = _slope(objective, best_scores)
        share = slope * _share(objective, start + slope * (best_scores - start))
    if share == 0.0:
        return NetworkFit([], start, 0.0, best_epoch)
    kept = [fold.kept for fold in folds]
    intercept = start + share * (np.mean([own for _, own in kept], axis=0) - start)
    return NetworkFit([network for network, _ in kept], intercept, share / n_folds, best_epoch)


class _Fold:
    """A module and an intercept, and the bags that they learn from and do not see."""

    def __init__(
        self,
        network: Any,
        rows: Any,
        objective: BagObjective,
        seen: Any,
        left_out: Any,
        options: dict[str, Any],
    ) -> None:
        torch = import_torch()
        self.network, self.rows, self.objective, self.seen = network, rows, objective, seen
        left, self.places = objective.take(left_out)
        self.left_out = torch.as_tensor(left.bags.members)
        self.intercept = torch.nn.Parameter(torch.as_tensor(objective.start))
        n_rows = int(objective.bags.sizes[seen].sum())
        groups = [{"params": [self.intercept], "weight_decay": 0.0}]
        parameters = list(network.parameters())
        if parameters:
            groups.append({"params": parameters, "weight_decay": options["weight_decay"] / n_rows})
        self.optimiser = torch.optim.Adam(groups, lr=options["learning_rate"])
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, options["epochs"])
        size = options["batch_size"]
        if size is None:
            by_rows = math.ceil(_BATCH_ROWS * seen.size / n_rows)
            size = max(_BATCH_BAGS, min(by_rows, math.ceil(seen.size / _BATCHES)))
        self.n_batches = max(seen.size // size, 1)
        self.kept: tuple[Any, FloatArray] = (None, objective.start)

    def learn(self, rng: np.random.Generator) -> None:
        """One pass over the bags."""
        torch = import_torch()
        self.network.train()
        for which in np.array_split(rng.permutation(self.seen), self.n_batches):
            batch, _ = self.objective.take(which)
            scores = self.network(self.rows[torch.as_tensor(batch.bags.members)]) + self.intercept
            _, slope = batch.values(scores.detach().numpy())
            self.optimiser.zero_grad()
            scores.backward(torch.as_tensor(slope))
            self.optimiser.step()
        self.schedule.step()

    def unseen_scores(self) -> Any:
        """Of the memberships of bags that were left out."""
        torch = import_torch()
        self.network.eval()
        with torch.no_grad():
            parts = [self.network(self.rows[part]) for part in self.left_out.split(_CHUNK)]
            return (torch.cat(parts) + self.intercept).numpy()

    def keep(self) -> None:
        """Remember the module as it is."""
        self.kept = copy.deepcopy(self.network), self.intercept.detach().numpy().copy()


def _slope(objective: BagObjective, scores: FloatArray) -> float:
    """By what to stretch what modules say of bags that they did not see: penalties keep those of few bags small."""
    start = objective.start

    def loss(slope: float) -> float:
        return float(np.sum(objective.values(start + slope * (scores - start))[0]))

    return float(min(_SLOPES, key=loss))


def _share(objective: BagObjective, scores: FloatArray) -> float:
    """How far to go from the constant to what the modules say of bags that they did not see."""
    start = objective.start
    total = float(objective.bags.members.size)
    first, _ = objective.values(np.tile(start, (scores.shape[0], 1)))

    def change(share: float) -> FloatArray:
        return total * (objective.values(start + share * (scores - start))[0] - first)

    error = math.sqrt(objective.bags.n_bags) * float(np.std(change(1.0)))
    advice = "use a larger epsilon, more bags or a larger weight_decay."
    return share_to_keep(
        lambda share: float(np.sum(change(share))), error, objective.most, doubt=ANY, advice=advice
    )
