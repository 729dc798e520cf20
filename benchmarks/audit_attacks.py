"""Membership attacks and ε lower bounds on random forests, and on recorded outputs of a defended network.

python benchmarks/audit_attacks.py [--data DIR] [--seeds N]
"""

import time

import numpy as np
from _common import parse_args, require_data, save_figure, write_table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier

from skprivate.audit import (
    FiniteAdversaryAuditor,
    LiRAAttack,
    LossThresholdAttack,
    RMIAAttack,
    attack_probabilities,
    attack_report,
    epsilon_lower_bound,
    output_summary,
)

FOREST = RandomForestClassifier(100)
ATTACKS = {
    "loss threshold": lambda seed: LossThresholdAttack(),
    "RMIA, 4 references": lambda seed: RMIAAttack(FOREST, n_references=4, random_state=seed),
    "LiRA, 16 references": lambda seed: LiRAAttack(FOREST, n_references=16, random_state=seed),
    "RMIA, 16 references": lambda seed: RMIAAttack(FOREST, n_references=16, random_state=seed),
}
BOUNDS = {
    "one-run": {"method": "one-run"},
    "one-run f-DP, any (ε, δ)": {"method": "one-run-fdp"},
    "one-run f-DP, Gaussian": {"method": "one-run-fdp", "trade_off": "gaussian"},
}


def forests(seeds):
    rows, bounds = [], []
    for name, load in (("breast_cancer", load_breast_cancer), ("digits", load_digits)):
        X, y = load(return_X_y=True)
        figures = {attack: [] for attack in ATTACKS}
        epsilons = {(attack, bound): [] for attack in ATTACKS for bound in BOUNDS}
        for seed in range(seeds):
            member = np.random.default_rng(1000 + seed).random(len(y)) < 0.5
            target = RandomForestClassifier(100, random_state=seed).fit(X[member], y[member])
            for attack, make in ATTACKS.items():
                start = time.process_time()
                fitted = make(seed).fit(X, y)
                scores = fitted.membership_scores(target, X, y)
                seconds = time.process_time() - start
                report = attack_report(scores, member)
                figures[attack].append([report.auc, report.rates[0].tpr, report.rates[1].tpr, seconds])
                if name == "digits" and attack.startswith("RMIA"):
                    calibration = fitted.score_reference(0)
                    for bound, options in BOUNDS.items():
                        start = time.process_time()
                        value = epsilon_lower_bound(scores, member, delta=1e-5, calibration=calibration, **options)
                        epsilons[attack, bound].append([value, time.process_time() - start])
        for attack, values in figures.items():
            low, high = np.min(values, axis=0)[0], np.max(values, axis=0)[0]
            rows.append([name, attack, *np.median(values, axis=0).tolist(), f"{low:.3f} – {high:.3f}"])
        for (attack, bound), values in epsilons.items():
            if values:
                median = np.median(values, axis=0)
                bounds.append([attack, bound, float(median[0]), float(np.min(values, axis=0)[0]), float(median[1])])
    columns = ["data", "attack", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "CPU seconds", "AUC range"]
    write_table("audit_attacks", columns, rows)
    write_table("audit_epsilon", ["attack", "bound", "epsilon", "smallest", "CPU seconds"], bounds)
    return rows


def modified_entropy(p, own):
    """Minus the modified entropy of Song and Mittal (2021): confidence that knows the right label."""
    tiny = 1e-12
    others = (p * np.log(1.0 - p + tiny)).sum(axis=1) - own * np.log(1.0 - own + tiny)
    return (1.0 - own) * np.log(own + tiny) + others


def recorded_outputs(args, splits=9):
    """Attacks fitted on half of the records and evaluated on the others, and what no adversary of the two
    probabilities exceeds."""
    import pandas as pd

    table = pd.read_parquet(require_data(args, "location30_model_outputs.parquet"))
    table = table[table["part"] == "target"]
    member, label = table["member"].to_numpy(bool), table["label"]
    rows, certificates = [], []
    for name, prefix in (("undefended", "p"), ("MemGuard", "memguard_p")):
        p = table[[f"{prefix}{i}" for i in range(1, 31)]]
        entropy = modified_entropy(p.to_numpy(), output_summary(p, label, n_top=0)[:, 0])
        # As two classes, so that the same call splits and evaluates a score of one's own.
        score = np.exp(np.minimum(entropy, 0.0))
        for attack, outputs, labels, n_top in (
            ("true label", p, label, 0),
            ("modified entropy", np.column_stack([score, 1.0 - score]), np.arange(len(p)) * 0, 0),
            ("true label and largest", p, label, 1),
            ("true label and four largest", p, label, 4),
            ("true label and nine largest", p, label, 9),
        ):
            reports = [
                attack_probabilities(
                    outputs,
                    member,
                    labels,
                    classes=None if labels is label else [0, 1],
                    n_top=n_top,
                    random_state=split,
                )
                for split in range(splits)
            ]
            report = sorted(reports, key=lambda each: each.accuracy)[splits // 2]
            low, high = (f"{min(r.accuracy for r in reports):.3f}", f"{max(r.accuracy for r in reports):.3f}")
            auc = float(np.median([each.auc for each in reports]))
            rows.append(
                [
                    name,
                    attack,
                    report.accuracy,
                    _interval(report.accuracy_interval),
                    f"{low} – {high}",
                    auc,
                    _interval(report.auc_interval),
                ]
            )
        for n_top in (0, 1, 4):
            start = time.process_time()
            auditor = FiniteAdversaryAuditor(n_top=n_top, confidence=0.95, random_state=0).fit(p, member, label)
            seconds = time.process_time() - start
            certificates.append(
                [
                    name,
                    1 + n_top,
                    auditor.empirical_loss_,
                    auditor.loss_lower_bound_,
                    auditor.duality_gap_,
                    auditor.accuracy_upper_bound_,
                    seconds,
                ]
            )
    columns = ["target", "looks at", "held-out accuracy", "95 % interval", "over the splits", "AUC", "95 % interval "]
    write_table("audit_location30", columns, rows)
    columns = ["target", "numbers", "empirical loss", "loss ≥", "duality gap", "accuracy ≤", "CPU seconds"]
    write_table("audit_location30_certificates", columns, certificates)


def _interval(ends):
    return f"{ends[0]:.3f} – {ends[1]:.3f}"


def false_alarms(runs=2000):
    """Share of null runs in which a bound is positive, nominal 5 %."""
    rng, rows = np.random.default_rng(0), []
    for name, options in {"clopper-pearson": {}, **BOUNDS}.items():
        delta = 1e-5 if "fdp" in options.get("method", "") else 0.0
        alarms = 0
        for run in range(runs):
            member, scores = rng.random(400) < 0.5, rng.normal(size=400)
            alarms += epsilon_lower_bound(scores, member, delta=delta, random_state=run, **options) > 0
        rows.append([name, alarms / runs, runs])
    write_table("audit_false_alarms", ["bound", "false alarms", "runs"], rows)


def draw(seed=0):
    import matplotlib.pyplot as plt

    X, y = load_digits(return_X_y=True)
    member = np.random.default_rng(1000 + seed).random(len(y)) < 0.5
    target = RandomForestClassifier(100, random_state=seed).fit(X[member], y[member])
    figure, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
    for attack in list(ATTACKS)[:3]:
        report = ATTACKS[attack](seed).fit(X, y).evaluate(target, X, y, member)
        ax.plot(report.fpr_curve, report.tpr_curve, label=f"{attack}: AUC {report.auc:.3f}")
    ax.plot([1e-3, 1], [1e-3, 1], "k:", linewidth=1)
    ax.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1))
    ax.set(
        xlabel="false positive rate",
        ylabel="true positive rate",
        title="Members of a forest of 100 trees found (digits)",
    )
    ax.legend()
    save_figure(figure, "audit_attacks")


if __name__ == "__main__":
    args = parse_args(__doc__.splitlines()[0], seeds=3, recorded={"action": "store_true"})
    if args.data:
        recorded_outputs(args)
    if args.recorded:
        raise SystemExit
    false_alarms()
    forests(args.seeds)
    draw()
