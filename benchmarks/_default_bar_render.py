"""Table and picture of ``default_bar.py`` from its runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from _common import save_figure, write_table

OURS, SAME, GAM = "ours", "ours, the peers' features", "curated bags (labels only)"
#: Linear models on splines, within one budget.
SPLINES = "ours, splines"
OWN = (OURS, SPLINES, SAME)
OPEN = "non-private"
PEERS = {"linear": "diffprivlib linear", "forest": "diffprivlib forest", "DP-EBM": "DP-EBM", "DP-GD": "DP-GD"}
LIMIT = 1e4
#: Differences up to here count as none, whatever the seeds say.
NOTHING = {"AUC": 0.002, "R2": 0.005}
#: And larger ones are not taken for noise: two or three seeds say little of it where fits go badly wrong.
MOST_NOISE = {"AUC": 0.01, "R2": 0.02}
#: The picture ends there.
LEAST_SHOWN = -0.2


def best(runs: pd.DataFrame, cell: tuple[str, float], method: str) -> pd.DataFrame | None:
    """Runs of a method in a cell, by seed; with several settings those of the best mean on the test rows."""
    rows = runs[(runs.case == cell[0]) & (runs.epsilon == cell[1]) & (runs.method == method)]
    rows = rows.dropna(subset=["score"])
    if rows.empty:
        return None
    config = rows.groupby("config").score.mean().idxmax()
    return rows[rows.config == config].set_index("seed").sort_index()


def within_noise(ours: pd.DataFrame, other: pd.DataFrame, metric: str) -> tuple[float, bool]:
    """Mean difference on the same splits, and whether it is no worse than two standard errors, within limits."""
    paired = (ours.score - other.score).dropna().to_numpy()
    error = paired.std(ddof=1) / np.sqrt(len(paired)) if len(paired) > 1 else 0.0
    tolerance = min(max(NOTHING[metric], 2.0 * error), MOST_NOISE[metric])
    return float(paired.mean()), bool(paired.mean() >= -tolerance)


def render(runs: pd.DataFrame, cases: dict[str, Any]) -> None:
    """Write ``default_bar.csv`` and the picture; print the table, the shares and the cells that fall short."""
    runs = runs.astype({"epsilon": float, "seed": int, "score": float, "balanced": float})
    runs["config"] = runs["config"].fillna("")
    epsilons = sorted(runs.epsilon.unique())
    table: list[list[Any]] = []
    verdicts: list[dict[str, Any]] = []
    for name, case in cases.items():
        open_runs = best(runs, (name, LIMIT), OPEN)
        for epsilon in epsilons:
            found = {method: best(runs, (name, epsilon), method) for method in (*OWN, *PEERS, GAM)}
            if any(found[ours] is None for ours in OWN) or open_runs is None:
                continue
            means = {method: float(rows.score.mean()) for method, rows in found.items() if rows is not None}
            winner = max((method for method in PEERS if method in means), key=means.get)
            verdict: dict[str, Any] = {"case": name, "epsilon": epsilon, "metric": case.metric, "winner": winner}
            for ours in OWN:
                verdict[ours] = within_noise(found[ours], found[winner], case.metric)
                verdict[ours, "open"] = float((found[ours].score - open_runs.score).mean())
            verdict["constant"] = min(means[OURS], means[SPLINES]) >= (0.5 if case.metric == "AUC" else 0.0)
            balanced = [found[OURS], found[winner], open_runs]
            verdicts.append(verdict)
            table.append(
                [
                    f"{name} ({case.metric})",
                    f"{epsilon:g}",
                    *(shown(means.get(method)) for method in (*OWN, *PEERS)),
                    shown(float(open_runs.score.mean())),
                    *(behind(*verdict[ours]) for ours in (OURS, SPLINES)),
                    " / ".join(f"{rows.balanced.mean():.2f}" for rows in balanced) if case.metric == "AUC" else "",
                    shown(means.get(GAM)),
                ]
            )
    columns = ["data", "ε", *OWN, *PEERS.values(), OPEN, "ours − best peer", "with splines"]
    columns += ["balanced accuracy: ours / best peer / non-private", GAM]
    write_table("default_bar", columns, table)
    summary(verdicts)
    picture(runs, cases, epsilons)


def behind(gap: float, level: bool) -> str:
    """Difference to the best peer; in brackets where that is ahead by more than noise."""
    text = f"{gap:+.3f}" if abs(gap) < 10 else ("> 10" if gap > 0 else "< -10")
    return text if level else f"({text})"


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if value > -10 else "< -10"


def summary(verdicts: list[dict[str, Any]]) -> None:
    count = len(verdicts)
    for ours in OWN:
        level = sum(v[ours][1] for v in verdicts)
        ahead = sum(v[ours][0] >= 0 for v in verdicts)
        linear = sum(v[ours][1] or v[ours, "open"] >= -NOTHING[v["metric"]] for v in verdicts)
        print(f"{ours}: at or above the best peer, or at the non-private linear model, in {linear} of {count}")
        print(f"{ours}: at or above the best peer in {level} of {count} cells ({level / count:.0%}), ahead in {ahead}")
        for epsilon in sorted({v["epsilon"] for v in verdicts}):
            row = [v[ours][1] for v in verdicts if v["epsilon"] == epsilon]
            print(f"  ε = {epsilon:g}: {sum(row)} of {len(row)}")
        limit = {v["case"]: v[ours, "open"] for v in verdicts if v["epsilon"] == LIMIT}
        goal = {v["case"]: NOTHING[v["metric"]] for v in verdicts}
        close = [name for name, gap in limit.items() if gap >= -goal[name]]
        print(f"  ε = 1e4 within the goal of non-private: {len(close)} of {len(limit)};",
              {k: round(v, 4) for k, v in limit.items() if k not in close})  # fmt: skip
    print("worse than a constant:", [(v["case"], float(v["epsilon"])) for v in verdicts if not v["constant"]])
    print("behind:")
    for v in verdicts:
        if not (v[OURS][1] and v[SPLINES][1]):
            gaps = ", ".join(f"{ours} {behind(*v[ours])}" for ours in OWN)
            print(f"  {v['case']} ε = {v['epsilon']:g}, to {v['winner']}: {gaps}")


def picture(runs: pd.DataFrame, cases: dict[str, Any], epsilons: list[float]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 4, figsize=(12.5, 8.5), sharex=True)
    styles = {
        OURS: "C0o-",
        SPLINES: "C0*-.",
        SAME: "C0o--",
        "linear": "C4s-",
        "forest": "C2^-",
        "DP-EBM": "C1v-",
        "DP-GD": "C3d-",
    }
    styles[GAM] = "C5x:"
    for axis, (name, case) in zip(axes.flat, cases.items(), strict=True):
        lowest = LEAST_SHOWN if case.metric == "R2" else 0.4
        for method, style in styles.items():
            rows = {epsilon: best(runs, (name, epsilon), method) for epsilon in epsilons}
            points = {epsilon: float(r.score.mean()) for epsilon, r in rows.items() if r is not None}
            width = 2.0 if method in (OURS, SPLINES) else 1.0
            label = PEERS.get(method, method)
            values = [max(value, lowest) for value in points.values()]
            axis.semilogx(list(points), values, style, lw=width, ms=3.5, label=label)
        reference = best(runs, (name, LIMIT), OPEN)
        if reference is not None:
            axis.axhline(reference.score.mean(), color="k", ls="--", lw=1, label=OPEN)
        axis.set_title(f"{name}: {case.metric}\n{case.kind}", fontsize=8)
        axis.tick_params(labelsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("ε (one row)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=8, fontsize=8)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    save_figure(figure, "default_bar")
    plt.close(figure)
