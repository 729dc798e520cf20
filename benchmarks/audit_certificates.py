"""Figure 1 of Diaz et al. (2019), and how often a certificate exceeds the truth.

python benchmarks/audit_certificates.py [--seeds N]
"""

import time

import numpy as np
from _common import parse_args, read_table, save_figure, write_table
from scipy.integrate import quad

from skprivate.audit import FiniteAdversaryAuditor
from skprivate.papers.auditing import gaussian_mixture_loss, theorem_bound

MUS = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1)
N = 100_000


def gaussian_mixture(n, mu, rng, radius=3.0):
    s = rng.choice([-1, 1], size=n)
    t = rng.normal(size=n) + mu * s
    while (outside := np.abs(t) > radius).any():
        t[outside] = rng.normal(size=outside.sum()) + mu * s[outside]
    return t[:, None], s


def figure_one(seeds):
    rows = []
    for mu in MUS:
        truth, samples = gaussian_mixture_loss(mu), []
        for seed in range(seeds):
            t, s = gaussian_mixture(N, mu, np.random.default_rng(seed))
            barron = {"assumption": "barron", "barron_constant": mu, "support": 3.0}
            start = time.perf_counter()
            convex = FiniteAdversaryAuditor(**barron).fit(t, s)
            seconds = time.perf_counter() - start
            monotone = FiniteAdversaryAuditor(assumption="monotone").fit(t, s)
            hoeffding = FiniteAdversaryAuditor(concentration="hoeffding", **barron).fit(t, s)
            paper = theorem_bound(
                t, s, barron_constant=mu, support=3.0, n_neurons=1000, n_restarts=2, random_state=seed
            )
            samples.append(
                [
                    paper.empirical_loss,
                    paper.loss_lower_bound,
                    paper.loss_lower_bound / paper.empirical_loss,
                    hoeffding.loss_lower_bound_,
                    convex.loss_lower_bound_,
                    convex.loss_lower_bound_ / truth,
                    monotone.loss_lower_bound_,
                    convex.duality_gap_,
                    seconds,
                ]
            )
        rows.append([mu, truth, *np.median(samples, axis=0).tolist()])
    columns = [
        "mu",
        "true loss (50)",
        "network, empirical",
        "paper's bound",
        "paper/empirical",
        "convex, Hoeffding",
        "convex",
        "convex/true",
        "monotone",
        "duality gap",
        "seconds",
    ]
    write_table("audit_figure1", columns, rows)
    print(f"certificates for all six: {sum(row[-1] for row in rows):.2f} s")
    return rows


def validity(runs_per_law):
    """Runs in which the certificate exceeded the true minimum, at confidence 0.95."""
    scalar = {
        "independent": (lambda t: 0.0 * t, 0.0),
        "slope": (lambda t: 0.5 * t, 1.0),
        "tanh": (lambda t: np.tanh(2 * t), 2.0),
        "step": (lambda t: np.where(t > 0.3, 0.9, -0.2), 1.1),
        "bump": (lambda t: 0.7 * np.cos(np.pi * t), 2.8),
        "wave": (lambda t: 0.6 * np.sin(2 * np.pi * t), 4.8),
    }
    rng, rows = np.random.default_rng(0), []
    for name, (eta, variation) in scalar.items():
        truth = 1 - 0.5 * quad(lambda t, f=eta: f(np.array(t)) ** 2, -1, 1, points=[0.3], limit=400)[0]
        for n in (500, 2000, 20_000):
            ratios = []
            for _ in range(runs_per_law):
                t = rng.uniform(-1, 1, size=n)
                s = np.where(rng.random(n) < 0.5 * (1 + eta(t)), 1, -1)
                auditor = FiniteAdversaryAuditor(confidence=0.95, total_variation=variation).fit(t[:, None], s)
                ratios.append(auditor.loss_lower_bound_ / truth)
            rows.append([name, 1, n, truth, float(np.median(ratios)), int(np.sum(np.array(ratios) > 1)), len(ratios)])
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 801)] * 2), axis=-1).reshape(-1, 2)
    for name, slope in (("plane, independent", 0.0), ("plane, tanh(x + .6y)", 1.0), ("plane, steep", 4.0)):
        direction = slope * np.array([1.0, 0.6])
        truth = 1 - np.mean(np.tanh(grid @ direction) ** 2)
        for n, runs in ((500, runs_per_law), (2000, runs_per_law // 2)):
            ratios = []
            for _ in range(runs):
                points = rng.uniform(-1, 1, size=(n, 2))
                s = np.where(rng.random(n) < 0.5 * (1 + np.tanh(points @ direction)), 1, -1)
                auditor = FiniteAdversaryAuditor(confidence=0.95, total_variation=2.0).fit(points, s)
                ratios.append(auditor.loss_lower_bound_ / truth)
            rows.append([name, 2, n, truth, float(np.median(ratios)), int(np.sum(np.array(ratios) > 1)), runs])
    write_table("audit_validity", ["law", "q", "n", "true loss", "median certificate/true", "exceeded", "runs"], rows)
    print("exceeded in all:", sum(row[-2] for row in rows), "of", sum(row[-1] for row in rows))


def anchor(seeds):
    """eta(t) = 2(.5 + .35 sin 2.5t) − 1 on [−3, 3], n = 2e4, 95 %; losses for S in {0, 1} (a quarter of
    ours)."""
    values = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        t = rng.uniform(-3, 3, size=20_000)
        eta = 0.7 * np.sin(2.5 * t)
        s = np.where(rng.random(t.size) < 0.5 * (1 + eta), 1, -1)
        variation = float(np.abs(np.diff(0.7 * np.sin(2.5 * np.linspace(-3, 3, 10_001)))).sum())
        row = [
            FiniteAdversaryAuditor(confidence=0.95, total_variation=variation, concentration=c)
            .fit(t[:, None], s)
            .loss_lower_bound_
            / 4
            for c in ("hoeffding", "bernstein")
        ]
        values.append([*row, (1 - np.mean(eta**2)) / 4])
    hoeffding, bernstein, truth = np.median(values, axis=0)
    print(f"sine: true {truth:.4f}, certificate Hoeffding {hoeffding:.4f}, Bernstein {bernstein:.4f}")


def draw():
    import matplotlib.pyplot as plt

    table = np.array(read_table("audit_figure1"), dtype=float)
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for column, label, style in (
        (1, "true loss", "k-"),
        (2, "network, empirical", "C0o"),
        (6, "certificate, convex", "C2s-"),
        (5, "certificate, convex, Hoeffding", "C2:"),
        (3, "the paper's bound", "C1^-"),
    ):
        ax.plot(table[:, 0], table[:, column], style, label=label, markersize=5)
    ax.set_xlabel("μ: separation of the two groups")
    ax.set_ylabel("mean squared error of guessing S")
    ax.set_title("Figure 1 of the paper: what is certified about all adversaries")
    ax.legend()
    save_figure(figure, "audit_figure1")


if __name__ == "__main__":
    args = parse_args(__doc__.splitlines()[0], seeds=3, validity={"type": int, "default": 24})
    figure_one(args.seeds)
    draw()
    validity(args.validity)
    anchor(args.seeds)
