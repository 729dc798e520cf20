"""Private means, scales and quantiles of single columns against diffprivlib 0.6.6, which needs their bounds.

python benchmarks/preprocessing.py [--venv DIR] [--seeds N]

diffprivlib needs scikit-learn 1.7: the script makes a virtual environment for it.
"""

import json
import subprocess
import warnings

import numpy as np
from _common import ROOT, parse_args, peer_python, write_table

from skprivate.datasets import load_adult, load_credit_default
from skprivate.preprocessing import PrivateKBinsDiscretizer, PrivateStandardScaler

SCRIPT = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import StandardScaler
from diffprivlib.tools import quantile
out = []
for x, low, high, epsilon, seeds in json.load(sys.stdin):
    x = np.array(x)
    for seed in range(seeds):
        scaler = StandardScaler(epsilon=epsilon, bounds=(low, high)).fit(x[:, None])
        try:
            edges = quantile(x, [0.25, 0.5, 0.75], epsilon=epsilon, bounds=(low, high))
        except Exception as error:
            print(type(error).__name__, error, file=sys.stderr)
            edges = [float("nan")] * 3
        out.append([float(scaler.mean_[0]), float(scaler.scale_[0]), *map(float, edges)])
json.dump(out, sys.stdout)
"""

#: Round numbers that are known without the data.
BOUNDS = {
    "LIMIT_BAL": (0, 1_000_000),
    "BILL_AMT1": (-1_000_000, 2_000_000),
    "PAY_AMT1": (0, 2_000_000),
    "age": (17, 100),
    "capital_gain": (0, 100_000),
    "hours_per_week": (1, 99),
}


def columns():
    frames = (load_credit_default(as_frame=True).frame, load_adult(as_frame=True).frame)
    lower = {str(name).lower().replace("-", "_"): frame[name] for frame in frames for name in frame.columns}
    return {name: lower[name.lower()].to_numpy(dtype=float) for name in BOUNDS if name.lower() in lower}


def ours(x, epsilon, bounds):
    scaler = PrivateStandardScaler(epsilon, bounds=bounds).fit(x[:, None])
    bins = PrivateKBinsDiscretizer(epsilon, n_bins=4, bounds=bounds).fit(x[:, None])
    edges = bins.bin_edges_[0][1:-1]
    # Quantiles that coincide are kept once.
    edges = np.interp([0, 1, 2], np.linspace(0, 2, len(edges)), edges) if len(edges) else [bins.bin_edges_[0][0]] * 3
    return [scaler.mean_[0], scaler.scale_[0], *edges]


def errors(x, found):
    """Medians over repetitions: |mean error| in standard deviations, |log₂ scale ratio|, largest rank error."""
    found, order = np.array(found), np.sort(x)
    mean = np.abs(found[:, 0] - x.mean()) / x.std()
    scale = np.abs(np.log2(np.maximum(found[:, 1], 1e-300) / x.std()))
    left, right = (np.searchsorted(order, found[:, 2:], side) / len(x) for side in ("left", "right"))
    levels = np.array([0.25, 0.5, 0.75])
    rank = np.maximum(np.maximum(left - levels, levels - right), 0).max(axis=1)
    rank[np.isnan(found).any(axis=1)] = np.nan  # refused
    return [float(np.median(error)) for error in (mean, scale, rank)]


if __name__ == "__main__":
    args = parse_args(
        __doc__.splitlines()[0], seeds=20, venv={"type": type(ROOT), "default": ROOT / ".venv-diffprivlib"}
    )
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    python = peer_python(args.venv)
    cases = []
    for name, whole in columns().items():
        order = rng.permutation(len(whole))
        cases += [(name, whole[order[:n]], epsilon) for n in (2000, 20_000) for epsilon in (0.1, 0.5, 1.0, 3.0)]
    spec = json.dumps([[x.tolist(), *BOUNDS[name], epsilon, args.seeds] for name, x, epsilon in cases])
    answer = subprocess.run([python, "-c", SCRIPT], input=spec, capture_output=True, text=True, check=True)
    theirs = json.loads(answer.stdout)
    rows = []
    for k, (name, x, epsilon) in enumerate(cases):
        results = {
            "no bounds": [ours(x, epsilon, None) for _ in range(args.seeds)],
            "bounds": [ours(x, epsilon, BOUNDS[name]) for _ in range(args.seeds)],
            "diffprivlib, bounds": theirs[k * args.seeds : (k + 1) * args.seeds],
        }
        rows += [[name, len(x), epsilon, method, *errors(x, found)] for method, found in results.items()]
    write_table(
        "preprocessing",
        ["column", "rows", "epsilon", "method", "mean error / sd", "|log2 scale ratio|", "largest rank error"],
        rows,
    )
