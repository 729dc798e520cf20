"""Errors of PPMHalfspaceClassifier with defaults on halfspaces, slabs, corners and flipped labels, pure ε.

    python benchmarks/mixture_halfspaces.py [--seeds 5]

4000 standard normal rows; the error is that of 20 000 new ones without flips. The last column is the error over
d/(ε m), m the rows of the smaller class: constant where the error falls as d/(ε m).
"""

from __future__ import annotations

import warnings

import numpy as np
from _common import parse_args, write_table

from skprivate import PPMHalfspaceClassifier
from skprivate.privacy import SimulatedNoiseWarning

ROWS = 4000
SHAPES = {
    "halfspace": lambda X, normals: X @ normals[0] > 0.2,
    "halfspace, 10 % flipped": lambda X, normals: X @ normals[0] > 0.2,
    "slab": lambda X, normals: np.abs(X[:, 0]) > 0.9,
    "corner of three axes": lambda X, normals: (X[:, :3] > 0.3).any(axis=1),
    "corner of three directions": lambda X, normals: (X @ normals.T > 0.8).any(axis=1),
}
CASES = [("halfspace", d, epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0) for d in (2, 5, 10, 20, 40)]
CASES += [(shape, 8, 1.0) for shape in SHAPES]


def error(shape: str, d: int, epsilon: float, seed: int) -> tuple[float, int, int]:
    """Error rate, rows of the smaller class and number of turns of one fit."""
    rng = np.random.default_rng([seed, d, sum(map(ord, shape))])
    normals = rng.normal(size=(3, d))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    X, new = rng.normal(size=(ROWS, d)), rng.normal(size=(20_000, d))
    y = SHAPES[shape](X, normals)
    if "flipped" in shape:
        y = y ^ (rng.random(ROWS) < 0.1)
    model = PPMHalfspaceClassifier(epsilon, private_label=True, random_state=seed).fit(X, y)
    turns = sum(draw.name == "turn" for draw in model.draws_)
    return float(np.mean(model.predict(new) != SHAPES[shape](new, normals))), min(y.sum(), (~y).sum()), turns


def main() -> None:
    args = parse_args(__doc__, seeds=5)
    warnings.simplefilter("ignore", SimulatedNoiseWarning)
    rows = []
    for shape, d, epsilon in CASES:
        errors, smaller, turns = zip(*(error(shape, d, epsilon, seed) for seed in range(args.seeds)), strict=True)
        found = float(np.mean(errors))
        law = found * epsilon * float(np.mean(smaller)) / d
        spread = f"{min(errors):.4f}–{max(errors):.4f}"
        rows.append([shape, d, epsilon, min(turns), f"{found:.4f}", spread, f"{law:.1f}"])
        print(rows[-1], flush=True)
    header = ["shape", "d", "ε", "turns", "error", "of the seeds", "error · ε m / d"]
    write_table("mixture_halfspaces", header, rows)


if __name__ == "__main__":
    main()
