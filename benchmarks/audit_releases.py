"""Releases of others against their claims: known faults found, sound ones left alone.

python benchmarks/audit_releases.py [--venv DIR] [--only NAME]

diffprivlib needs scikit-learn 1.7: the script makes a virtual environment for it, and draws there. Its floats travel as
text that restores every digit. CPU seconds are those of the draws and of the audit together.
"""

import json
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
from _common import ROOT, parse_args, peer_python, write_table

from skprivate import RandomBagRegressor, UserLevelMean, UserLevelSGDRegressor
from skprivate.audit import find_violation

#: Two audits of sixteen releases hardly refute a sound one by chance.
CONFIDENCE = 0.999
#: Draws of diffprivlib, by the name of the release: ``draw(side)``; side 1 is the neighbour.
DIFFPRIVLIB = {
    "diffprivlib LinearRegression(bounds_X=(0, 1))": """
from diffprivlib.models import LinearRegression
# The noise on the sum of squares is scaled to the square of the *lower* bound, so that it is exact: with all others
# at 0, one row at .001 or at 1 makes it a millionth or 1, and the coefficient is divided by it.
X = [np.zeros((10, 1)), np.zeros((10, 1))]; X[0][-1] = 0.001; X[1][-1] = 1.0
y = np.full(10, 0.5)
def draw(side):
    model = LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1), fit_intercept=False)
    return float(model.fit(X[side], y).coef_[0])
""",
    "diffprivlib Laplace": """
from diffprivlib.mechanisms import Laplace
mechanism = Laplace(epsilon=1.0, sensitivity=1.0)
def draw(side):
    return mechanism.randomise(float(side))
""",
    "diffprivlib GaussianAnalytic": """
from diffprivlib.mechanisms import GaussianAnalytic
mechanism = GaussianAnalytic(epsilon=1.0, delta=1e-5, sensitivity=1.0)
def draw(side):
    return mechanism.randomise(float(side))
""",
    "diffprivlib mean": """
from diffprivlib.tools import mean
data = [np.zeros(4), np.array([0.0, 0.0, 0.0, 1.0])]
def draw(side):
    return float(mean(data[side], epsilon=1.0, bounds=(0, 1)))
""",
    "diffprivlib KMeans": """
from diffprivlib.models import KMeans
X = [np.full((100, 1), 0.5), np.full((100, 1), 0.5)]; X[1][-1] = 1.0
def draw(side):
    model = KMeans(n_clusters=2, epsilon=1.0, bounds=(0, 1)).fit(X[side])
    return {"centres": sorted(np.ravel(model.cluster_centers_).tolist()), "inertia_": float(model.inertia_)}
""",
    "diffprivlib KMeans, its centres alone": """
from diffprivlib.models import KMeans
X = [np.full((100, 1), 0.5), np.full((100, 1), 0.5)]; X[1][-1] = 1.0
def draw(side):
    model = KMeans(n_clusters=2, epsilon=1.0, bounds=(0, 1)).fit(X[side])
    return sorted(np.ravel(model.cluster_centers_).tolist())
""",
    "diffprivlib GeometricTruncated": """
from diffprivlib.mechanisms import GeometricTruncated
mechanism = GeometricTruncated(epsilon=1.0, sensitivity=1, lower=-20, upper=20)
def draw(side):
    return mechanism.randomise(side)
""",
}
PEER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
spec = json.load(sys.stdin)
exec(spec["code"])
json.dump([draw(side) for side in spec["sides"]], sys.stdout)
"""


def diffprivlib(python, name, seed):
    sides = (np.random.default_rng(seed).random(2000) < 0.5).astype(int)
    spec = {"code": DIFFPRIVLIB[name], "sides": sides.tolist()}
    answer = subprocess.run([python, "-c", PEER], input=json.dumps(spec), capture_output=True, text=True, check=True)
    outputs = json.loads(answer.stdout)
    left = [iter([out for out, of in zip(outputs, sides, strict=True) if of == side]) for side in (0, 1)]
    claim = {"epsilon": 1.0, "delta": 1e-5 if "Gaussian" in name else 0.0}
    return search_one(lambda side: next(left[side]), (0,), (1,), seed, claim)


def search_one(subject, first, second, seed, claim):
    """Test one pair of inputs."""
    options = {"pairs": [(first, second)], "max_pairs": 1, "confidence": CONFIDENCE, "random_state": seed}
    return find_violation(subject, **options, **claim)


def numpy_laplace():
    rng = np.random.default_rng()
    return lambda x: x + rng.laplace()


def opendp(kind):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain, metric = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    return (dp.m.make_laplace if kind == "laplace" else dp.m.make_gaussian)(
        domain, metric, scale=1.0 if kind == "laplace" else calibrated_sigma()
    )


def calibrated_sigma():
    """Noise of (1, 1e-5)-DP at sensitivity 1, by dp-accounting."""
    from dp_accounting import GaussianDpEvent, pld

    low, high = 0.1, 100.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        spent = pld.PLDAccountant().compose(GaussianDpEvent(middle)).get_epsilon(1e-5)
        low, high = (middle, high) if spent > 1.0 else (low, middle)
    return high


def rounded_gaussian():
    rng, sigma = np.random.default_rng(), calibrated_sigma()
    return lambda x: float(np.rint((x + sigma * rng.standard_normal()) * 1024) / 1024)


def published_hierarchy(columns):
    """The binary hierarchy of PMM with the noise of its authors' code (github.com/kasanhyy/PMM), ε = 1.

    Level j of r has Laplace noise of scale 2^((1 − 1/d)(r − j)/2)/ε, cut towards zero: the budgets of the levels add up
    to (r + 1)·ε for one column and towards 6.3·ε for two, where ε is claimed. What is released is the synthetic rows:
    here their counts by cell.
    """
    rng = np.random.default_rng()

    def shares(parent, children):
        first, second = children
        left = parent // 2 if first + second == 0 else np.floor(parent * first / (first + second))
        return left, parent - left

    def release(X):  # by their place in the order of the tree
        depth = int(np.ceil(np.log2(len(X))))
        counts = np.bincount((X * 2**depth).astype(int), minlength=2**depth)  # of the cells, in the order of the tree
        released = np.zeros(1)
        for level in range(depth + 1):
            sums = counts.reshape(2**level, -1).sum(axis=1)
            noise = np.trunc(rng.laplace(scale=2 ** (0.5 * (1 - 1 / columns) * (depth - level)), size=2**level))
            noisy = np.maximum(sums + noise, 0)
            pairs = zip(released, noisy.reshape(-1, 2), strict=True) if level else ()
            released = np.array([half for pair in pairs for half in shares(*pair)]) if level else noisy
        return released

    return release


def worst_row():
    others = np.full(15, 0.99)
    return others, np.append(others, 0.0)


def worst_user():
    X = np.zeros((60, 1))
    other = X.copy()
    X[-1], other[-1] = -100.0, 100.0
    return (X,), (other,)


def worst_label():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 1)), np.zeros(12)
    X[0], other = 6.0, y.copy()
    other[0] = 1.0
    return (X, y), (X, other)


def worst_gradient():
    X = np.ones((60, 1))
    y = np.zeros(60)
    other = y.copy()
    y[-1], other[-1] = -50.0, 50.0
    return (X, y), (X, other)


HERE = {
    "numpy: x + rng.laplace()": (numpy_laplace, (0.0, 1.0), {"epsilon": 1.0}),
    "OpenDP make_laplace": (lambda: opendp("laplace"), (0.0, 1.0), {"epsilon": 1.0}),
    "OpenDP make_gaussian": (lambda: opendp("gaussian"), (0.0, 1.0), {"epsilon": 1.0, "delta": 1e-5}),
    "Gaussian calibrated by dp-accounting, on a grid": (rounded_gaussian, (0.0, 1.0), {"epsilon": 1.0, "delta": 1e-5}),
    "PMM, one column": (lambda: published_hierarchy(1), worst_row(), {"epsilon": 1.0}),
    "PMM, two columns": (lambda: published_hierarchy(2), worst_row(), {"epsilon": 1.0}),
    "skprivate UserLevelMean": (lambda: UserLevelMean(tau=1.0, delta=1e-5), worst_user(), {}),
    "skprivate UserLevelSGDRegressor": (lambda: UserLevelSGDRegressor(delta=1e-5), worst_gradient(), {}),
    "skprivate RandomBagRegressor": (
        lambda: RandomBagRegressor(bag_size=2, alpha=0.1, label_bounds=(0.0, 1.0)),
        worst_label(),
        {},
    ),
}


def cpu_seconds():
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usage)


if __name__ == "__main__":
    args = parse_args(
        __doc__.splitlines()[0],
        seeds=3,
        venv={"type": Path, "default": ROOT / ".venv-diffprivlib"},
        only={"default": ""},
    )
    python = peer_python(args.venv)
    rows, records = [], []
    for name in [*DIFFPRIVLIB, *HERE]:
        if args.only not in name:
            continue
        for seed in range(args.seeds):
            before, start = cpu_seconds(), time.perf_counter()
            if name in DIFFPRIVLIB:
                found = diffprivlib(python, name, seed)
            else:
                make, (data, neighbour), claim = HERE[name]
                inputs = ((side,) if not isinstance(side, tuple) else side for side in (data, neighbour))
                found = search_one(make(), *inputs, seed, claim)
            seconds, wall = cpu_seconds() - before, time.perf_counter() - start
            print(found, f"{seconds:.1f} CPU s, {wall:.1f} s", flush=True)
            record = {
                "release": name,
                "seed": seed,
                "claimed_epsilon": found.claimed_epsilon,
                "claimed_delta": found.claimed_delta,
                "epsilon_lower_bound": round(found.epsilon_lower_bound, 4),
                "p_value": float(f"{found.p_value:.2g}"),
                "refuted": found.violated,
                "cpu_seconds": round(seconds, 2),
                "wall_seconds": round(wall, 2),
            }
            records.append(record)
            rows.append(["yes" if value is True else "no" if value is False else value for value in record.values()])
    if not args.only:
        write_table("audit_releases", list(records[0]), rows)
