"""Label audits of every estimator whose guarantee is for labels: sound and with half the noise.

python benchmarks/audit_label_privacy.py [--seeds N]
"""

import time
import warnings

import numpy as np
from _common import parse_args, write_table

from skprivate import CuratedBagGAMClassifier, CuratedBagGAMRegressor, RandomBagClassifier, RandomBagRegressor
from skprivate.audit import audit_labels
from skprivate.utils.estimator_checks import half_noise

EPSILONS = (0.5, 1.0, 2.0, 4.0)
CONFIDENCE = 0.999  # of each audit
NOISE = np.random.default_rng(0).normal(size=(8000, 3))


def curated(n, columns, **parameters):
    """One bag to each row, or one to each row and column: the case that tells the most of a label."""
    X = np.tile(np.arange(n)[:, None], columns).astype(str)
    shared = {
        "delta": 0.0,
        "feature_sets": "singles",
        "categorical_features": "all",
        "min_size": 1,
        "penalty": 1.0,
    }
    return X, {**shared, **parameters}


CASES = {
    "RandomBagClassifier, bags of 4": (RandomBagClassifier, NOISE, {"bag_size": 4}, [0, 1]),
    "RandomBagClassifier, three classes, bags of 4": (
        RandomBagClassifier,
        NOISE,
        {"bag_size": 4},
        ["a", "b", "c"],
    ),
    "RandomBagRegressor, bags of 4": (
        RandomBagRegressor,
        NOISE,
        {"bag_size": 4, "label_bounds": (0, 1)},
        [0.0, 1.0],
    ),
    "CuratedBagGAMClassifier, bags of 1": (
        CuratedBagGAMClassifier,
        *curated(2000, 1, classes=[0, 1]),
        [0, 1],
    ),
    "CuratedBagGAMRegressor, bags of 1": (
        CuratedBagGAMRegressor,
        *curated(2000, 2, label_bounds=(0.0, 1.0)),
        [0.0, 1.0],
    ),
}
COLUMNS = [
    "estimator",
    "claimed epsilon",
    "audits of each kind",
    "labels guessed",
    "audited at least, median",
    "audited at least, largest",
    "sound refuted",
    "guessed right",
    "allowed",
    "half the noise: at least, median",
    "half the noise: refuted",
    "CPU seconds an audit",
]


def audits(make, X, parameters, values, epsilon, seeds):
    """Audits of simulated fits, one for each seed."""
    model = make(epsilon=epsilon, **parameters)
    options = {"values": values, "simulate": True, "confidence": CONFIDENCE}
    # A third of this budget pays for the sum of the squares, which tells nothing of one label among many.
    options["n_fits"] = 5 if make is CuratedBagGAMRegressor else 1
    return [audit_labels(model, X, random_state=seed, **options) for seed in range(seeds)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    args = parse_args(__doc__.splitlines()[0], seeds=20, only={"default": ""})
    rows = []
    for name, case in CASES.items():
        if args.only not in name:
            continue
        for epsilon in EPSILONS:
            start = time.process_time()
            sound = audits(*case, epsilon, args.seeds)
            with half_noise():
                broken = audits(*case, epsilon, args.seeds)
            seconds = (time.process_time() - start) / (2 * args.seeds)
            bounds = [audit.epsilon_lower_bound for audit in sound]
            rows.append(
                [
                    name,
                    epsilon,
                    args.seeds,
                    sound[0].n_guesses,
                    float(np.median(bounds)),
                    max(bounds),
                    sum(audit.violated for audit in sound),
                    float(np.mean([audit.accuracy for audit in sound])),
                    float(np.mean([audit.allowed_accuracy for audit in sound])),
                    float(np.median([audit.epsilon_lower_bound for audit in broken])),
                    sum(audit.violated for audit in broken),
                    seconds,
                ]
            )
            print(rows[-1], flush=True)
    write_table("audit_label_privacy", COLUMNS, rows)
