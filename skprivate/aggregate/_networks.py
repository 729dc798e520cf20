"""Networks on aggregated labels, and other torch modules; needs torch, imported on first use.

Curated bags: every submodel is evaluated once per distinct bag of its feature set. Its outputs are gathered into row
scores, and the gradient of Σ b(score) − Σ (label sum)·(output) goes back through torch. With exact label sums it is
that of the individual labels (Theorem 1).

Random bags: a module sees features of rows, which are public, and the gradient of a loss of released aggregates, in
batches of whole bags. Bags are dealt into folds, and one module learns without each. Its scores of the bags that it did
not see rate every pass over the data, of which the best is kept, and at last the fit against a constant. The model is
the mean of the modules.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from skprivate._sklearn import steps
from skprivate.aggregate import _bag_losses
from skprivate.aggregate._losses import FloatArray, SquaredLoss
from skprivate.aggregate.additive import _constant, _design
from skprivate.aggregate.random._bags import BagSums
from skprivate.aggregate.tables._cells import CellIndex
from skprivate.privacy import RandomStateLike, public_generator

CURATED_DEFAULTS: dict[str, Any] = {
    "hidden": (16,),
    "embedding": 8,
    "shared_embeddings": False,
    "weight_decay": 1.0,
    "epochs": 300,
    "learning_rate": 0.01,
}
#: Factors need no torch; the best of the decays is taken.
FACTOR_DEFAULTS: dict[str, Any] = {"embedding": 4, "weight_decays": (4.0, 12.0, 36.0, 108.0)}
RANDOM_DEFAULTS: dict[str, Any] = {
    "hidden": (32,),
    "weight_decay": 1.0,
    "epochs": 40,
    "learning_rate": 0.005,
    "batch_size": None,
    "folds": 5,
}
#: Rows of a batch, about; its least bags; and most batches of a pass if that leaves enough bags.
_BATCH_ROWS, _BATCH_BAGS, _BATCHES = 1024, 16, 16
#: Passes without improvement after which the best is taken.
_PATIENCE = 10
#: Factors that scores may be stretched by.
_SLOPES = tuple(2.0 ** (power / 4) for power in range(9))
#: Rows that are predicted at a time.
_CHUNK = 16384


def import_torch() -> Any:
    """Import torch, or raise an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            "submodels other than 'crosses', 'factors' and 'linear' need torch: pip install 'skprivate[torch]'."
        ) from None
    return torch


@contextmanager
def own_torch(rng: np.random.Generator | None = None) -> Iterator[None]:
    """Use gradients, processor and random numbers of our own, independent of a caller's settings."""
    torch = import_torch()
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        if rng is not None:
            torch.manual_seed(int(rng.integers(2**62)))
        yield


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and float(value) >= 0


_ALLOWED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": (
        lambda v: isinstance(v, (list, tuple)) and all(_is_whole(units, 1) for units in v),
        "a tuple of positive integers",
    ),
    "embedding": (lambda v: _is_whole(v, 1), "an integer >= 1"),
    "shared_embeddings": (lambda v: isinstance(v, (bool, np.bool)), "True or False"),
    "weight_decay": (_is_number, "a finite number >= 0"),
    "weight_decays": (
        lambda v: isinstance(v, (list, tuple)) and len(v) > 0 and all(_is_number(decay) for decay in v),
        "a tuple of finite numbers >= 0",
    ),
    "epochs": (lambda v: _is_whole(v, 1), "an integer >= 1"),
    "learning_rate": (lambda v: _is_number(v) and v > 0, "a finite number > 0"),
    "batch_size": (lambda v: v is None or _is_whole(v, 1), "None or an integer >= 1, a number of bags"),
    "folds": (lambda v: _is_whole(v, 2), "an integer >= 2"),
}


def check_options(options: dict[str, Any] | None, defaults: dict[str, Any]) -> dict[str, Any]:
    """Override defaults by the given options, and refuse invalid ones."""
    unknown = sorted(set(options or {}) - set(defaults))
    if unknown:
        raise ValueError(f"submodel_options has unknown entries {unknown}; allowed are {sorted(defaults)}.")
    chosen = {**defaults, **(options or {})}
    for name, value in chosen.items():
        is_allowed, allowed = _ALLOWED[name]
        if not is_allowed(value):
            raise ValueError(f"submodel_options[{name!r}] must be {allowed}, got {value!r}.")
    return chosen


def _check_module(module: Any) -> None:
    if not isinstance(module, import_torch().nn.Module):
        raise TypeError(f"submodel must return a torch.nn.Module, got {type(module).__name__}.")


def _try_module(module: Any, rows: Any, what: str, n_outputs: int) -> None:
    """Refuse a module that does not map rows to finite numbers (n, n_outputs), or cannot learn."""
    torch = import_torch()
    expected = f"{what} {tuple(rows.shape)} to scores ({len(rows)}, {n_outputs})"
    try:
        out = module.train()(rows)
    except Exception as error:
        raise ValueError(f"submodel must be or make a module from {expected}, got: {error}") from error
    shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
    wrong = None
    if shape != (len(rows), n_outputs):
        wrong = shape
    elif not out.is_floating_point():
        wrong = out.dtype
    elif not torch.isfinite(out).all():
        wrong = "NaN or infinity"
    if wrong is not None:
        raise ValueError(f"submodel must be or make a module from {expected}, got {wrong}.")
    if out.requires_grad:
        out.sum().backward()


def _mlp(n_inputs: int, hidden: Sequence[int], n_outputs: int) -> Any:
    torch = import_torch()
    layers: list[Any] = []
    for units in hidden:
        layers += [torch.nn.Linear(n_inputs, units), torch.nn.ReLU()]
        n_inputs = units
    return torch.nn.Sequential(*layers, torch.nn.Linear(n_inputs, n_outputs))


def _adam(groups: Sequence[Any], options: dict[str, Any]) -> tuple[Any, Any]:
    torch = import_torch()
    optimiser = torch.optim.Adam(groups, lr=options["learning_rate"])
    return optimiser, torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options["epochs"])


# Curated bags: one network per feature set ------------------------------------------------------------------


@cache
def _embedded_mlp() -> Callable[..., Any]:
    torch = import_torch()

    class EmbeddedMLP(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self, embeddings: list[Any], head: Any) -> None:
            super().__init__()
            self.embeddings = torch.nn.ModuleList(embeddings)
            self.head = head

        def forward(self, keys: Any) -> Any:
            parts = [embedding(keys[:, i]) for i, embedding in enumerate(self.embeddings)]
            return self.head(torch.cat(parts, dim=1))

    return EmbeddedMLP


def _codes(index: CellIndex) -> Any:
    """Return the codes of the bags of a set; 0 is that of rare values."""
    return import_torch().as_tensor(index.keys.astype(np.int64) + 1)


class FeatureSet(NamedTuple):
    """Feature set that a callable ``submodel`` gets: columns by position in X, and the number of codes of each."""

    columns: tuple[int, ...]
    radices: tuple[int, ...]


def make_submodels(indexes: Sequence[CellIndex], n_outputs: int, submodel: Any, options: dict[str, Any]) -> Any:
    """Make a ``ModuleList`` with one network per feature set, in double precision.

    A callable ``submodel`` gets a `FeatureSet` and the number of outputs, and returns a ``torch.nn.Module`` from codes
    (n_bags, n_columns) to outputs (n_bags, n_outputs).
    """
    torch = import_torch()
    radix = {c: r for index in indexes for c, r in zip(index.columns, index.radices, strict=True)}
    modules = []
    if submodel != "mlp":
        for index in indexes:
            module = submodel(FeatureSet(index.columns, tuple(radix[c] + 1 for c in index.columns)), n_outputs)
            _check_module(module)
            modules.append(module)
        return torch.nn.ModuleList(modules).double()
    width = options["embedding"]

    def embeddings(columns: Sequence[int]) -> dict[int, Any]:
        return {c: torch.nn.Embedding(radix[c] + 1, width) for c in columns}

    shared = embeddings(sorted(radix)) if options["shared_embeddings"] else None
    for index in indexes:
        of_columns = shared or embeddings(index.columns)
        head = _mlp(width * len(index.columns), options["hidden"], n_outputs)
        modules.append(_embedded_mlp()([of_columns[c] for c in index.columns], head))
    return torch.nn.ModuleList(modules).double()


def tried_submodels(
    indexes: Sequence[CellIndex],
    n_outputs: int,
    submodel: object,
    options: dict[str, Any] | None,
    random_state: RandomStateLike,
) -> Any:
    """Make the networks before they learn, and try each; all of it is public."""
    chosen = check_options(options, CURATED_DEFAULTS)
    with own_torch(public_generator(random_state)):
        networks = make_submodels(indexes, n_outputs, submodel, chosen)
        for module, index in zip(copy.deepcopy(networks), indexes, strict=True):
            _try_module(module, _codes(index), "codes", n_outputs)
    return networks


def linearised_loss(design: _design.CellDesign, loss: SquaredLoss, coef: Any, linear: FloatArray) -> Any:
    """Linearise Σ b(score) − Σ (label sum)·(coefficient) at a torch tensor of coefficients: the gradient is the same.

    Coefficients (n_cells + 1, n_outputs) are outputs of the submodels on all bags, in the design's order, and the
    intercept; ``linear`` holds the label sums.
    """
    point = np.ascontiguousarray(coef.detach().numpy().T)
    _, gradient = design.value_and_gradient(point, loss, linear, np.zeros(design.n_cells + 1))
    return (coef * import_torch().as_tensor(gradient.T.copy())).sum()


def fit_submodels(
    problem: _constant.LabelSums,
    indexes: Sequence[CellIndex],
    *,
    networks: Any,
    options: dict[str, Any] | None,
    random_state: Any,
) -> tuple[FloatArray, int]:
    """Train copies of ``networks``, one per feature set, by Adam on the whole aggregate objective.

    Returns their outputs on the bags as one coefficient array, and the number of steps.
    """
    torch = import_torch()
    chosen = check_options(options, CURATED_DEFAULTS)
    linear = problem.possible()
    start = _design.constant_start(problem.design, problem.loss, linear)[:, -1]
    with own_torch(public_generator(random_state)):
        modules = copy.deepcopy(networks)
        keys = [_codes(index) for index in indexes]
        intercept = torch.nn.Parameter(torch.as_tensor(start.copy()))
        parameters = list(modules.parameters())
        optimiser, schedule = _adam([*parameters, intercept], chosen)

        def coef() -> Any:
            return torch.cat([*(module(key) for module, key in zip(modules, keys, strict=True)), intercept[None]])

        with steps("epochs", chosen["epochs"]) as step:
            for _ in range(chosen["epochs"]):
                optimiser.zero_grad()
                objective = linearised_loss(problem.design, problem.loss, coef(), linear)
                penalty = sum((p**2).sum() for p in parameters)
                mean = (objective + 0.5 * chosen["weight_decay"] * penalty) / problem.design.n_samples
                mean.backward()
                optimiser.step()
                schedule.step()
                step()
        with torch.no_grad():
            return coef().numpy().T.copy(), chosen["epochs"]


# Random bags: one network per fold of bags ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """Scores are ``intercept`` (n_outputs,) and ``weight`` times the sum of the modules' outputs."""

    networks: list[Any]
    intercept: FloatArray
    weight: float
    n_iter: int


def _make_network(submodel: Any, n_features: int, n_outputs: int, hidden: Sequence[int]) -> Any:
    """Make a module in double precision from rows (n, n_features) to scores (n, n_outputs).

    A module is copied; any other callable gets the number of features and that of outputs, and returns a module.
    """
    torch = import_torch()
    if submodel == "mlp":
        return _mlp(n_features, hidden, n_outputs).double()
    module = submodel if isinstance(submodel, torch.nn.Module) else submodel(n_features, n_outputs)
    _check_module(module)
    # Folds share no weights, and the caller's own stay as they are.
    return copy.deepcopy(module).to("cpu", torch.double)


def try_network(submodel: object, options: dict[str, Any] | None, X: FloatArray, bags: BagSums, n_outputs: int) -> None:
    """Refuse an invalid network before any privacy cost, by a step on the fewest rows that a batch can have."""
    torch = import_torch()
    chosen = check_options(options, RANDOM_DEFAULTS)
    n_seen = bags.n_bags - math.ceil(bags.n_bags / min(chosen["folds"], bags.n_bags))
    n_rows = max(min(chosen["batch_size"] or _BATCH_BAGS, n_seen), 1) * int(bags.sizes.min())
    with own_torch():
        module = _make_network(submodel, X.shape[1], n_outputs, chosen["hidden"])
        _try_module(module, torch.as_tensor(np.resize(X, (n_rows, X.shape[1]))), "rows", n_outputs)


def network_scores(networks: Sequence[Any], intercept: FloatArray, weight: float, X: FloatArray) -> FloatArray:
    """Score rows; shape (n_rows, n_outputs)."""
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
    objective: _bag_losses.BagObjective,
    *,
    submodel: object,
    options: dict[str, Any] | None,
    random_state: RandomStateLike,
) -> NetworkFit:
    """Train one module for each fold of bags, and rate them by the bags of their fold.

    ``random_state`` deals folds and batches and initialises the weights, all of which is public.
    """
    torch = import_torch()
    chosen = check_options(options, RANDOM_DEFAULTS)
    n_bags, start = objective.bags.n_bags, objective.start
    n_folds = min(chosen["folds"], n_bags)
    if n_folds < 2:  # one bag tells the mean of the labels
        return NetworkFit([], start, 0.0, 1)
    rng = public_generator(random_state)
    # Diverging steps end in NaN, and no such pass is kept.
    with own_torch(rng), np.errstate(over="ignore", invalid="ignore"):
        fold_of_bag = rng.permutation(np.arange(n_bags) % n_folds)
        rows = torch.as_tensor(np.ascontiguousarray(X))
        folds = [
            _Fold(
                _make_network(submodel, X.shape[1], start.size, chosen["hidden"]),
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
    intercept = start + share * (np.mean([intercept for _, intercept in kept], axis=0) - start)
    return NetworkFit([network for network, _ in kept], intercept, share / n_folds, best_epoch)


class _Fold:
    """Module and intercept, the bags that they learn from, and those that they do not see."""

    def __init__(
        self,
        network: Any,
        rows: Any,
        objective: _bag_losses.BagObjective,
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
        if parameters := list(network.parameters()):
            groups.append({"params": parameters, "weight_decay": options["weight_decay"] / n_rows})
        self.optimiser, self.schedule = _adam(groups, options)
        size = options["batch_size"]
        if size is None:
            by_rows = math.ceil(_BATCH_ROWS * seen.size / n_rows)
            size = max(_BATCH_BAGS, min(by_rows, math.ceil(seen.size / _BATCHES)))
        self.n_batches = max(seen.size // size, 1)
        self.kept: tuple[Any, FloatArray] = (None, objective.start)

    def learn(self, rng: np.random.Generator) -> None:
        """Pass over the bags once."""
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
        torch = import_torch()
        self.network.eval()
        with torch.no_grad():
            parts = [self.network(self.rows[part]) for part in self.left_out.split(_CHUNK)]
            return (torch.cat(parts) + self.intercept).numpy()

    def keep(self) -> None:
        self.kept = copy.deepcopy(self.network), self.intercept.detach().numpy().copy()


def _slope(objective: _bag_losses.BagObjective, scores: FloatArray) -> float:
    """Choose the factor to stretch scores of unseen bags by: penalties shrink those of few bags."""
    start = objective.start

    def loss(slope: float) -> float:
        return float(np.sum(objective.values(start + slope * (scores - start))[0]))

    return float(min(_SLOPES, key=loss))


def _share(objective: _bag_losses.BagObjective, scores: FloatArray) -> float:
    """Choose the step from the constant to the scores of unseen bags."""
    start = objective.start
    total = float(objective.bags.members.size)
    first, _ = objective.values(np.tile(start, (scores.shape[0], 1)))

    def change(share: float) -> FloatArray:
        return total * (objective.values(start + share * (scores - start))[0] - first)

    return _constant.share_to_keep(
        lambda share: float(np.sum(change(share))),
        math.sqrt(objective.bags.n_bags) * float(np.std(change(1.0))),
        objective.gain,
        margin=_constant.GIVEN_PENALTY_MARGIN,
        advice="use a larger epsilon, more bags or a larger weight_decay.",
    )
