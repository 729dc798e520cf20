"""Networks as submodels, trained on the aggregate objective; needs torch, imported on first use.

Every network is evaluated once per distinct bag of its feature set. Its outputs are gathered into row scores, and the
loss Σ b(score) − Σ (label sum)·(output) is differentiated by torch: with exact label sums its gradient is that of the
individual labels (Theorem 1).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from skprivate._progress import steps
from skprivate.aggregate._losses import FloatArray, LossName
from skprivate.aggregate.additive._constant import possible_sums
from skprivate.aggregate.additive._design import CellDesign, constant_start
from skprivate.aggregate.tables._cells import CellIndex
from skprivate.privacy import public_generator

DEFAULTS: dict[str, Any] = {
    "hidden": (16,),
    "embedding": 8,
    "shared_embeddings": False,
    "weight_decay": 1.0,
    "epochs": 300,
    "learning_rate": 0.01,
}


@dataclass(frozen=True, eq=False)
class NeuralFit:
    """Outputs of every submodel on its bags as one coefficient array, and the steps taken."""

    coef: FloatArray
    n_iter: int


def aggregate_loss(
    design: CellDesign, loss: LossName, outputs: Any, intercept: Any, sums: FloatArray, total: FloatArray
) -> Any:
    """Σ b(score) − Σ (label sum)·(output) − total·intercept, as a torch scalar.

    Outputs (n_cells, n_outputs) are those of the submodels on all bags, in the design's order.
    """
    import torch

    scores = design_scores(design, outputs, intercept)
    if loss == "squared":
        value = 0.5 * (scores**2).sum(dim=1)
    elif loss == "log":
        value = torch.nn.functional.softplus(scores[:, 0])
    elif loss == "multinomial":
        value = torch.logsumexp(scores, dim=1)
    else:
        value = torch.exp(scores[:, 0])
    if design.multiplicity is not None:
        value = value * torch.as_tensor(design.multiplicity)
    linear = (torch.as_tensor(sums.T) * outputs).sum() + (torch.as_tensor(total) * intercept).sum()
    return value.sum() - linear


def design_scores(design: CellDesign, outputs: Any, intercept: Any) -> Any:
    """Row scores as a torch tensor of shape (n_rows, n_outputs), differentiable in both arguments.

    Gather and scatter are the design's own.
    """
    import torch

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, tables: Any, constant: Any) -> Any:
            coef = torch.cat([tables, constant[None]]).detach().numpy().T
            return torch.as_tensor(design.scores(np.ascontiguousarray(coef)).T.copy())

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            back = design.scatter(np.ascontiguousarray(gradient.numpy().T))
            return torch.as_tensor(back[:, :-1].T.copy()), torch.as_tensor(back[:, -1].copy())

    return Gather.apply(outputs, intercept)  # type: ignore[no-untyped-call]


def fit_submodels(
    design: CellDesign,
    indexes: Sequence[CellIndex],
    loss: LossName,
    sums: FloatArray,
    noise: FloatArray,
    *,
    networks: Any,
    options: dict[str, Any] | None,
    random_state: Any,
) -> NeuralFit:
    """Train copies of ``networks``, one per feature set, by Adam on the whole aggregate objective."""
    torch = import_torch()
    chosen = check_options(options, DEFAULTS)
    linear = possible_sums(design, loss, sums, noise)
    sums, total = linear[:, :-1], linear[:, -1]
    start = constant_start(design, loss, linear)[:, -1]
    with own_torch():
        torch.manual_seed(int(public_generator(random_state).integers(2**62)))
        modules = copy.deepcopy(networks)
        keys = [_codes(index) for index in indexes]
        intercept = torch.nn.Parameter(torch.as_tensor(start.copy()))
        parameters = list(modules.parameters())
        optimiser = torch.optim.Adam([*parameters, intercept], lr=chosen["learning_rate"])
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, chosen["epochs"])
        with steps("epochs", chosen["epochs"]) as step:
            for _ in range(chosen["epochs"]):
                optimiser.zero_grad()
                outputs = torch.cat([module(key) for module, key in zip(modules, keys, strict=True)])
                objective = aggregate_loss(design, loss, outputs, intercept, sums, total)
                penalty = sum((p**2).sum() for p in parameters)
                ((objective + 0.5 * chosen["weight_decay"] * penalty) / design.n_samples).backward()
                optimiser.step()
                schedule.step()
                step()
        with torch.no_grad():
            tables = torch.cat([module(key) for module, key in zip(modules, keys, strict=True)])
            coef = torch.cat([tables, intercept[None]]).numpy().T.copy()
    return NeuralFit(coef, chosen["epochs"])


def tried_submodels(
    indexes: Sequence[CellIndex],
    n_outputs: int,
    submodel: Any,
    options: dict[str, Any] | None,
    random_state: Any,
) -> Any:
    """The networks before they learn, each of which has been asked for its outputs: all of it is public.

    A callable ``submodel`` gets the number of codes of each column of a set and the number of outputs, and returns a
    ``torch.nn.Module`` from codes (n_bags, n_columns) to outputs (n_bags, n_outputs).
    """
    chosen = check_options(options, DEFAULTS)
    torch = import_torch()
    with own_torch():
        torch.manual_seed(int(public_generator(random_state).integers(2**62)))
        networks = make_submodels(indexes, n_outputs, submodel, chosen)
        for module, index in zip(copy.deepcopy(networks), indexes, strict=True):
            try_module(module, _codes(index), "codes", n_outputs)
    return networks


def _codes(index: CellIndex) -> Any:
    """Codes of the bags of a set; 0 stands for rare values."""
    return import_torch().as_tensor(index.keys.astype(np.int64) + 1)


def make_submodels(
    indexes: Sequence[CellIndex], n_outputs: int, submodel: Any, options: dict[str, Any]
) -> Any:
    """A ``ModuleList`` with one network per feature set, in double precision; code 0 stands for rare values."""
    torch = import_torch()
    radix = {c: r for index in indexes for c, r in zip(index.columns, index.radices, strict=True)}
    if submodel != "mlp":
        made = [submodel([radix[c] + 1 for c in index.columns], n_outputs) for index in indexes]
        for module in made:
            check_module(module)
    else:
        width = options["embedding"]

        def embeddings(columns: Sequence[int]) -> dict[int, Any]:
            return {c: torch.nn.Embedding(radix[c] + 1, width) for c in columns}

        shared = embeddings(sorted(radix)) if options["shared_embeddings"] else None
        made = [
            _embedded_mlp(
                index.columns, shared or embeddings(index.columns), width, options["hidden"], n_outputs
            )
            for index in indexes
        ]
    return torch.nn.ModuleList(made).double()


def check_options(options: dict[str, Any] | None, defaults: dict[str, Any]) -> dict[str, Any]:
    """Defaults with the given overrides; names and numbers that mean nothing are refused."""
    unknown = sorted(set(options or {}) - set(defaults))
    if unknown:
        raise ValueError(f"submodel_options has unknown entries {unknown}; allowed are {sorted(defaults)}.")
    chosen = {**defaults, **(options or {})}

    def whole(value: Any, least: int) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least

    def number(value: Any) -> bool:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and value >= 0

    allowed: dict[str, tuple[Callable[[Any], bool], str]] = {
        "hidden": (
            lambda v: isinstance(v, (list, tuple)) and all(whole(units, 1) for units in v),
            "a tuple of positive integers",
        ),
        "embedding": (lambda v: whole(v, 1), "an integer >= 1"),
        "shared_embeddings": (lambda v: isinstance(v, (bool, np.bool)), "True or False"),
        "weight_decay": (number, "a finite number >= 0"),
        "epochs": (lambda v: whole(v, 1), "an integer >= 1"),
        "learning_rate": (lambda v: number(v) and v > 0, "a finite number > 0"),
        "batch_size": (lambda v: v is None or whole(v, 1), "None or an integer >= 1, a number of bags"),
        "folds": (lambda v: whole(v, 2), "an integer >= 2"),
    }
    for name, value in chosen.items():
        if not allowed[name][0](value):
            raise ValueError(f"submodel_options[{name!r}] must be {allowed[name][1]}, got {value!r}.")
    return chosen


def check_module(module: Any) -> None:
    """Refuse what a callable ``submodel`` must not return."""
    if not isinstance(module, import_torch().nn.Module):
        raise TypeError(f"submodel must return a torch.nn.Module, got {type(module).__name__}.")


def try_module(module: Any, rows: Any, what: str, n_outputs: int) -> None:
    """Refuse a module that makes no finite numbers (n, n_outputs) of rows, or cannot learn."""
    torch = import_torch()
    expected = f"{what} {tuple(rows.shape)} to scores ({len(rows)}, {n_outputs})"
    try:
        out = module.train()(rows)
    except Exception as error:
        raise ValueError(f"submodel must be or make a module from {expected}, got: {error}") from error
    shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
    if shape != (len(rows), n_outputs) or not out.is_floating_point():
        found = shape if shape != (len(rows), n_outputs) else out.dtype
        raise ValueError(f"submodel must be or make a module from {expected}, got {found}.")
    if not torch.isfinite(out).all():
        raise ValueError(f"submodel must be or make a module from {expected}, got NaN or infinity.")
    if out.requires_grad:
        out.sum().backward()


def _embedded_mlp(
    columns: Sequence[int], embeddings: dict[int, Any], width: int, hidden: Sequence[int], n_outputs: int
) -> Any:
    torch = import_torch()
    layers: list[Any] = []
    size = width * len(columns)
    for units in hidden:
        layers += [torch.nn.Linear(size, units), torch.nn.ReLU()]
        size = units
    layers.append(torch.nn.Linear(size, n_outputs))
    return _module_class()([embeddings[c] for c in columns], torch.nn.Sequential(*layers))


_MODULES: dict[str, Callable[..., Any]] = {}


def _module_class() -> Callable[..., Any]:
    if "mlp" not in _MODULES:
        torch = import_torch()

        class EmbeddedMLP(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self, embeddings: list[Any], head: Any) -> None:
                super().__init__()
                self.embeddings = torch.nn.ModuleList(embeddings)
                self.head = head

            def forward(self, keys: Any) -> Any:
                parts = [embedding(keys[:, i]) for i, embedding in enumerate(self.embeddings)]
                return self.head(torch.cat(parts, dim=1))

        _MODULES["mlp"] = EmbeddedMLP
    return _MODULES["mlp"]


@contextmanager
def own_torch() -> Iterator[None]:
    """Gradients, processor and random numbers of our own: what a caller has set for torch stops no fit half-way."""
    torch = import_torch()
    with (
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.device("cpu"),
    ):
        yield


def import_torch() -> Any:
    """torch, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            "submodels other than 'crosses' and 'linear' need torch: pip install 'skprivate[torch]'."
        ) from None
    return torch
