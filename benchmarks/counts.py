"""Counts of groups that nobody listed, beside OpenDP's group-by at equal ε, δ and unit.

python benchmarks/counts.py --data DIR [--venv DIR] [--seeds N]

OpenDP's group-by needs a release of polars of its own: the script makes a virtual environment for it.
"""

import json
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _common import ROOT, parse_args, peer_python, require_data, write_table
from scipy.optimize import brentq

from skprivate import private_counts
from skprivate.privacy.accounting._zcdp import epsilon_of_rho

PEER = ("opendp[polars]==0.16.0", "pyarrow")
DELTA = 1e-6
#: File, columns of the groups, column of the users (None: rows are units).
TABLES = {
    "hospital": ("diabetes130_hospital.parquet", ["diag_1"], "patient_nbr"),
    "flights": ("nycflights13.parquet", ["origin", "dest"], "tailnum"),
    "adult": ("adult.parquet", ["education", "occupation"], None),
}
SCRIPT = """
import json, sys, warnings
import polars as pl, opendp.prelude as dp
warnings.simplefilter("ignore")
dp.enable_features("contrib", "honest-but-curious")
out = []
for path, user, epsilon, delta, rho, most, seeds in json.load(sys.stdin):
    rows = pl.read_parquet(path)
    for loss in (dp.loss_of(epsilon=epsilon, delta=delta), dp.loss_of(rho=rho, delta=delta / 10)):
        found = []
        for seed in range(seeds):
            unit = dp.unit_of(contributions=1, identifier="user") if user else dp.unit_of(contributions=1)
            query = dp.Context.compositor(
                data=rows.lazy(), privacy_unit=unit, privacy_loss=loss, split_evenly_over=1
            ).query()
            if user:  # keep="sample" fails in this version
                query = query.truncate_num_groups(most, by=["key"], keep="first").truncate_per_group(1, by=["key"])
            query = query.group_by("key").agg(dp.len())
            about = query.summarize()
            found.append(dict(query.release().collect().iter_rows()))
        out.append([float(about["scale"][0]), int(about["threshold"][0]), found])
json.dump(out, sys.stdout)
"""


def ours(rows, by, user, epsilon, seeds):
    """Noise, threshold, bound and what was found, as OpenDP's script returns it."""
    made = [
        private_counts(rows, by, epsilon=epsilon, delta=DELTA, user_ids=user, adjacency="add-remove")
        for _ in range(seeds)
    ]
    found = [dict(zip(joined(one.table, by), one.table["count"], strict=True)) for one in made]
    most = int(np.median([one.max_groups for one in made]))
    return most, float(np.median([one.noise for one in made])), made[0].threshold, found


def joined(frame, by):
    return frame[by].astype(str).agg(" | ".join, axis=1)


def scores(true, found):
    """Medians over repetitions: keys, share of the counts that they have, relative error of a count."""
    keys = [len(one) for one in found]
    share = [true.reindex(list(one)).sum() / true.sum() for one in found]
    errors = [
        np.median(np.abs(np.array(list(one.values())) / true.reindex(list(one)).to_numpy() - 1)) for one in found if one
    ]
    return float(np.median(keys)), float(np.median(share)), float(np.median(errors))


if __name__ == "__main__":
    args = parse_args(
        __doc__.splitlines()[0],
        seeds=3,
        epsilon={"type": float, "nargs": "+", "default": [1.0]},
        venv={"type": type(ROOT), "default": ROOT / ".venv-opendp"},
    )
    warnings.simplefilter("ignore")
    python, lines = peer_python(args.venv, *PEER), []
    for name, (file, by, user) in TABLES.items():
        rows = pd.read_parquet(require_data(args, file)).dropna(subset=[*by, *([user] if user else [])])
        rows = rows[[*by, *([user] if user else [])]].reset_index(drop=True)
        key = joined(rows, by)
        plain = pd.DataFrame({"key": key, "user": rows[user].astype(str) if user else ""})
        true = plain.groupby("key")["user"].nunique() if user else key.value_counts()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            plain.to_parquet(path)
            for epsilon in args.epsilon:
                most, noise, threshold, found = ours(rows, by, user, epsilon, args.seeds)
                rho = brentq(lambda rho, e=epsilon: epsilon_of_rho(rho, 0.9 * DELTA) - e, 1e-6, 10.0)
                asked = json.dumps([[str(path), user, epsilon, DELTA, 0.999 * rho, most, args.seeds]])
                done = subprocess.run([python, "-c", SCRIPT], input=asked, capture_output=True, text=True, check=True)
                results = {"skprivate": (noise, threshold, found)}
                for kind, (scale, limit, counts) in zip(("Laplace", "Gaussian"), json.loads(done.stdout), strict=True):
                    results[f"OpenDP, {kind}"] = (scale * (2**0.5 if kind == "Laplace" else 1), limit, counts)
                for method, (deviation, limit, counts) in results.items():
                    keys, share, error = scores(true, counts)
                    lines.append([name, len(true), epsilon, method, most, deviation, limit, keys, share, error])
    columns = ["table", "groups", "epsilon", "method", "groups of a unit", "noise", "threshold", "found"]
    write_table("counts", [*columns, "share of counts", "relative error"], lines)
