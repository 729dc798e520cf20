"""A known faulty release, found: diffprivlib 0.6.6 LinearRegression(bounds_X=(0, 1)).

python benchmarks/audit_diffprivlib.py [--venv DIR]

diffprivlib needs scikit-learn 1.7: the script makes a virtual environment for it, lets it fit there on two
data sets that differ in one row, and audits the outputs here.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
from _common import ROOT, parse_args, write_table
from sklearn.base import BaseEstimator

from skprivate.audit import audit_estimator

SCRIPT = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LinearRegression
spec = json.load(sys.stdin)
X = [np.array(x) for x in spec["X"]]
y = [np.array(v) for v in spec["y"]]
out = []
for side in spec["sides"]:
    model = LinearRegression(epsilon=spec["epsilon"], bounds_X=(0, 1), bounds_y=(0, 1), random_state=None)
    model.fit(X[side], y[side])
    out.append(np.append(np.ravel(model.coef_), model.intercept_).tolist())
json.dump(out, sys.stdout)
"""


def peer_python(folder):
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        packages = ["diffprivlib==0.6.6", "scikit-learn==1.7.2"]
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


class RecordedFits(BaseEstimator):
    """Hands out fits that were made elsewhere: the next one for the side whose data it is given."""

    queues = ()

    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y):
        side = int(np.allclose(X[-1], self.queues[2]))
        self.coef_ = np.array(self.queues[side].pop())
        return self


def audit(python, epsilon, n_runs, seed):
    # The noise on Σx² is scaled to the square of the *lower* bound: records at the lower bound get none of
    # it, and one record at the upper bound shows.
    X, y = np.zeros((500, 1)), np.full(500, 0.5)
    other_X, other_y = X.copy(), y.copy()
    other_X[-1] = 1.0
    each = n_runs + 4 * int(n_runs**0.5)  # the coins give more to one side with probability below 1e-7
    sides = [0] * each + [1] * each
    spec = {
        "X": [X.tolist(), other_X.tolist()],
        "y": [y.tolist(), other_y.tolist()],
        "sides": sides,
        "epsilon": epsilon,
    }
    answer = subprocess.run(
        [python, "-c", SCRIPT], input=json.dumps(spec), capture_output=True, text=True, check=True
    )
    fits = json.loads(answer.stdout)
    RecordedFits.queues = (fits[:each], fits[each:], other_X[-1])
    return audit_estimator(
        RecordedFits(epsilon),
        X,
        y,
        neighbour=(other_X, other_y),
        observable=lambda model: model.coef_,
        delta=0.0,
        unit="row",
        adjacency="replace-one",
        n_runs=2 * n_runs,
        random_state=seed,
    )


if __name__ == "__main__":
    args = parse_args(
        __doc__.splitlines()[0],
        seeds=2,
        venv={"type": Path, "default": ROOT / ".venv-diffprivlib"},
        runs={"type": int, "default": 250},
    )
    python = peer_python(args.venv)
    rows = []
    for epsilon in (1.0, 0.1):
        for seed in range(args.seeds):
            result = audit(python, epsilon, args.runs, seed)
            print(result, file=sys.stderr)
            rows.append(
                [epsilon, seed, result.epsilon_lower_bound, "yes" if result.violated else "no", args.runs]
            )
            write_table(
                "audit_diffprivlib",
                ["claimed epsilon", "seed", "audited epsilon at least", "violation", "fits a side"],
                rows,
            )
